"""What the tests of the on-line wing share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.online.postgres_server import postgres_server


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The address of a PostgreSQL server of our own."""
    with postgres_server() as url:
        yield url
