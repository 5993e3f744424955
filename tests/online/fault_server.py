"""A server that tests start in a process of its own and kill; its libraries are loaded once and forked."""

from __future__ import annotations

import importlib
import pkgutil
from multiprocessing.connection import Connection as Pipe

import duckdb  # noqa: F401 - loaded before the fork
import fastapi  # noqa: F401
import httpx  # noqa: F401
import numpy
import opendp.prelude  # noqa: F401
import polars  # noqa: F401
import sqlglot  # noqa: F401
import uvicorn

import discretion as dc
import discretion.online
from discretion.online.audit.linear import LinearAudit
from discretion.online.server import create_app

for module in pkgutil.walk_packages(discretion.online.__path__, "discretion.online."):
    importlib.import_module(module.name)  # all of them now: a file edited during a siege of minutes changes nothing
LinearAudit(4).would_disclose([numpy.arange(3)])  # compiles its kernels


def serve(service: str, pipe: Pipe) -> None:
    """Serve until killed; send the address first."""
    database = dc.StatisticalDatabase(service)
    config = uvicorn.Config(create_app(database), port=0, log_level="critical")
    listening = config.bind_socket()
    listening.listen(128)
    pipe.send(f"http://127.0.0.1:{listening.getsockname()[1]}")
    uvicorn.Server(config).run(sockets=[listening])
