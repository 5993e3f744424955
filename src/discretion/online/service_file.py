"""Service files: YAML to a `ServiceSpec`, every fault at once and with its line."""

from __future__ import annotations

from pathlib import Path

from discretion.data.documents import Document, DocumentKind, Place, parse_yaml, read_document
from discretion.online.catalog import ServiceSpec, resolve
from discretion.online.declared import Declared

SERVICE = DocumentKind(
    "service file", "a service file is a mapping with entries such as `tables`, `users` and `ledger`"
)


def load_service(path: str | Path) -> ServiceSpec:
    """Read a service file; relative paths in it start at its folder."""
    return _service(read_document(path, SERVICE), Path(path).resolve().parent)


def parse_service(text: str, source: str = "service", base: Path | None = None) -> ServiceSpec:
    """Parse the text of a service file.

    Examples
    --------
    >>> spec = parse_service("tables: {t: {columns: {sex: {role: public, type: category}}}}")
    >>> spec.tables["t"].public
    ('sex',)
    """
    return _service(parse_yaml(text, source, SERVICE), base)


def _service(document: Document, base: Path | None) -> ServiceSpec:
    spec = document.validated(ServiceSpec, _siblings, base=base or Path())
    return spec if base is None else _with_paths(spec)


def _with_paths(spec: ServiceSpec) -> ServiceSpec:
    """Make the paths of a service absolute."""
    tables = {
        name: table if table.source is None else table.model_copy(update={"source": resolve(spec.base, table.source)})
        for name, table in spec.tables.items()
    }
    server = spec.server.model_copy(
        update={
            name: resolve(spec.base, value)
            for name in ("tls_certificate", "tls_key", "log")
            if (value := getattr(spec.server, name)) is not None
        }
    )
    secret = None if spec.secret_file is None else resolve(spec.base, spec.secret_file)
    paths = {"tables": tables, "server": server, "secret_file": secret, "ledger": resolve(spec.base, spec.ledger)}
    return spec.model_copy(update=paths)


def _siblings(place: Place) -> tuple[str, ...]:
    """Name the entries that a place may have, as far as the declaration tells."""
    from discretion.online.catalog import ColumnSpec, GroupSpec, ServerSpec, TableSpec, UserSpec
    from discretion.online.policy import DpPolicy, ExactPolicy, PerturbedPolicy

    modes: dict[str, type[Declared]] = {"exact+audit": ExactPolicy, "dp": DpPolicy, "perturbed": PerturbedPolicy}
    if len(place) == 1:
        return tuple(ServiceSpec.model_fields)
    if place[-2] in modes:
        return tuple(modes[str(place[-2])].model_fields)
    if "columns" in place[:-1]:
        return tuple(ColumnSpec.model_fields)
    parts: dict[str, type[Declared]]
    parts = {"tables": TableSpec, "groups": GroupSpec, "users": UserSpec, "server": ServerSpec}
    return tuple(parts[str(place[0])].model_fields) if place[0] in parts else ()
