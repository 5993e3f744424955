"""Service files: YAML to a `ServiceSpec`, every fault at once and with its line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from discretion.errors import PlanError, did_you_mean
from discretion.online.catalog import ServiceSpec, resolve
from discretion.online.declared import Declared, Faults

Place = tuple[str | int, ...]
_DEEPEST = 20


def load_service(path: str | Path) -> ServiceSpec:
    """Read a service file; relative paths in it start at its folder."""
    file = Path(path)
    if not file.is_file():
        raise PlanError(f"no service file {str(path)!r}")
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise PlanError(f"{file.name}: a service file must be UTF-8 text") from None
    return parse_service(text, file.name, file.resolve().parent)


def parse_service(text: str, source: str = "service", base: Path | None = None) -> ServiceSpec:
    """Parse the text of a service file.

    Examples
    --------
    >>> spec = parse_service("tables: {t: {columns: {sex: {role: public, type: category}}}}")
    >>> spec.tables["t"].public
    ('sex',)
    """
    content, lines = _read_yaml(text, source)
    try:
        spec = ServiceSpec.model_validate({"base": base or Path(), **content})
    except ValidationError as error:
        raise PlanError([text for item in error.errors() for text in _worded(item, lines, source)]) from None
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


def _worded(item: Mapping[str, Any], lines: Mapping[Place, int], source: str) -> list[str]:
    place: Place = tuple(key for key in item["loc"] if key != "[key]")
    cause = item.get("ctx", {}).get("error")
    if isinstance(cause, Faults):
        return [f"{_head((*place, *inner), lines, source)}: {text}" for inner, text in cause.faults.items()]
    head = _head(place, lines, source)
    if item["type"] == "extra_forbidden":
        return [f"{head}: unknown entry{did_you_mean(str(place[-1]), _siblings(place))}"]
    if item["type"] == "missing":
        return [f"{head}: this entry is required"]
    message = str(item["msg"]).removeprefix("Value error, ")
    return [f"{head}: {message[:1].lower()}{message[1:]}"]


def _head(place: Place, lines: Mapping[Place, int], source: str) -> str:
    line = next((lines[place[:n]] for n in range(len(place), -1, -1) if place[:n] in lines), 1)
    dotted = ".".join(str(key + 1) if isinstance(key, int) else key for key in place)
    return f"{source}, line {line}" + (f" ({dotted})" if dotted else "")


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


def _read_yaml(text: str, source: str) -> tuple[dict[str, Any], dict[Place, int]]:
    import yaml

    from discretion.data.yaml_scalars import PlanLoader

    try:
        root = yaml.compose(text, Loader=PlanLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise PlanError(f"{source}{line}: not valid YAML: {getattr(error, 'problem', None) or error}") from None
    except RecursionError:
        raise PlanError(f"{source}: nested too deeply") from None
    reader = _Reader(source)
    content = None if root is None else reader.build(root, ())
    if reader.problems:
        raise PlanError(reader.problems)
    if not isinstance(content, dict):
        raise PlanError(f"{source}: a service file is a mapping with entries such as `tables`, `users` and `ledger`")
    return content, reader.lines


class _Reader:
    """Builds plain data from YAML nodes and keeps the line of every entry."""

    def __init__(self, source: str) -> None:
        from discretion.data.yaml_scalars import PlanLoader

        self.source = source
        self.lines: dict[Place, int] = {}
        self.problems: list[str] = []
        self._loader = PlanLoader("")

    def build(self, node: Any, place: Place) -> Any:
        import yaml

        line = node.start_mark.line + 1
        self.lines.setdefault(place, line)
        if len(place) > _DEEPEST:
            self.problems.append(f"{self.source}, line {line}: nested too deeply")
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(item, (*place, i)) for i, item in enumerate(node.value)]
        try:
            return self._loader.construct_object(node)
        except (yaml.YAMLError, ValueError):
            self.problems.append(f"{self.source}, line {line}: this value cannot be read")
            return None

    def _mapping(self, node: Any, place: Place) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if key in found:
                self.problems.append(f"{self.source}, line {key_node.start_mark.line + 1}: {key!r} is given twice")
            self.lines[(*place, key)] = key_node.start_mark.line + 1
            found[key] = self.build(value_node, (*place, key))
        return found
