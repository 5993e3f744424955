"""A PostgreSQL server of our own for tests, started from the installed package."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


def _program(name: str) -> str | None:
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    return shutil.which(name) or (str(places[0]) if places else None)


def _as_other_user() -> tuple[list[str], str | None]:
    """PostgreSQL refuses to run as root: then it runs as the user that the package made."""
    if os.geteuid() != 0:
        return [], None
    import pwd

    try:
        pwd.getpwnam("postgres")
    except KeyError:
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    return [shutil.which("runuser") or "runuser", "-u", "postgres", "--"], "postgres"


@contextmanager
def postgres_server() -> Iterator[str]:
    """Start a server in a folder of its own; give its address; skip with the reason when it is not installed."""
    given = os.environ.get("DISCRETION_TEST_POSTGRES")
    if given:
        yield given
        return
    initdb, control = _program("initdb"), _program("pg_ctl")
    if initdb is None or control is None:
        pytest.skip("PostgreSQL is not installed (Debian: postgresql)")
    prefix, owner = _as_other_user()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="discretion-postgres-"))
    try:
        if owner is not None:
            shutil.chown(folder, owner)
        base = folder / "base"
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": "/"}
        initialize = [*prefix, initdb, "-D", str(base), "-A", "trust", "-U", "tester", "-E", "UTF8", "--locale=C"]
        subprocess.run([*initialize, "--no-sync"], check=True, **quiet)
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
        start = [*prefix, control, "-D", str(base), "-w", "-l", str(folder / "log"), "-o", options, "start"]
        subprocess.run(start, check=True, **quiet)
        try:
            yield f"postgresql://tester@127.0.0.1:{port}/postgres"
        finally:
            subprocess.run([*prefix, control, "-D", str(base), "-m", "immediate", "-w", "stop"], check=False, **quiet)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
