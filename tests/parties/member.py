"""A party in a process of its own, made by a fork server without polars: its threads do not outlive a fork."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from discretion.errors import DiscretionError
from discretion.parties.session import run_party


def take_part(path: Path, name: str, data: Path | None, out: Path) -> None:
    """Be a party, in a process of its own."""
    started = time.monotonic()
    try:
        found: dict[str, Any] = run_party(path, name, data, say=out.with_suffix(".said").write_text).to_dict()
    except DiscretionError as error:
        found = {"error": str(error), "type": type(error).__name__, "opened": getattr(error, "opened", ())}
    found["seconds"] = time.monotonic() - started
    found["ended"] = time.time()
    out.write_text(json.dumps(found))
