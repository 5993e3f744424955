"""The statistical database over HTTP: access, limits, audit log and a page for analysts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI

    from discretion.online.server.access import KeyRing
    from discretion.online.server.guard import AuditLog
    from discretion.online.statistical_database import StatisticalDatabase


def create_app(database: StatisticalDatabase, keys: KeyRing | None = None, log: AuditLog | None = None) -> FastAPI:
    """Return the ASGI application of a database; any ASGI server can run it.

    `keys` default to those in the service file, `log` to the file it names, or stderr.
    """
    from discretion.errors import need

    need("fastapi", "the server", "online")
    from discretion.online.server.app import build

    return build(database, keys, log)
