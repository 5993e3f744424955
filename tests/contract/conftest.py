from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("key") / "key"
    path.write_bytes(b"a secret of more than sixteen bytes")
    return str(path)
