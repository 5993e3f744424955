"""A run can be repeated: draws and examples that no test gave a seed follow from the test's name.

`pytest --hypothesis-profile explore` looks for new examples instead.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings

from discretion import context

settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("explore", deadline=None)
settings.load_profile("repeatable")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Give `new_seed` a sequence of its own for each test; two seeds of a test still differ."""
    drawn = 0

    def randbits(bits: int) -> int:
        nonlocal drawn
        drawn += 1
        digest = hashlib.blake2b(f"{item.nodeid} {drawn}".encode(), digest_size=bits // 8)
        return int.from_bytes(digest.digest(), "big")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(context, "secrets", SimpleNamespace(randbits=randbits))
        return (yield)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Give a session of Spark on this machine, the same for all tests that need one (in the group `spark`)."""
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'discretion[spark]'")
    if shutil.which("java") is None:
        pytest.skip("no Java: install openjdk-17-jre-headless")
    from discretion.engines.spark import spark_session

    made = spark_session("local[2]", "700MB")
    yield made
    made.stop()
