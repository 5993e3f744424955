"""YAML files that people declare things in: plain data with the line of every entry, and faults that name it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from discretion.errors import PlanError, did_you_mean

Place = tuple[str | int, ...]
_DEEPEST = 20


class Faults(ValueError):
    """Faults in several places of one declaration."""

    def __init__(self, faults: Mapping[tuple[str, ...], str] | Mapping[Place, str]) -> None:
        self.faults: dict[Place, str] = {tuple(place): text for place, text in faults.items()}
        super().__init__("; ".join(f"{_dotted(place)}: {text}" for place, text in self.faults.items()))


def read_yaml(text: str, source: str, what: str) -> tuple[dict[str, Any], dict[Place, int]]:
    """Parse a mapping and give the line of every entry; `what` it is, in the words of an error."""
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
        raise PlanError(f"{source}: {what}")
    return content, reader.lines


def worded(
    item: Mapping[str, Any], lines: Mapping[Place, int], source: str, siblings: Callable[[Place], tuple[str, ...]]
) -> list[str]:
    """Word one fault that pydantic found; `siblings` names the entries that may stand beside a place."""
    place: Place = tuple(key for key in item["loc"] if key != "[key]")
    cause = item.get("ctx", {}).get("error")
    if isinstance(cause, Faults):
        return [f"{_head((*place, *inner), lines, source)}: {text}" for inner, text in cause.faults.items()]
    head = _head(place, lines, source)
    if item["type"] == "extra_forbidden":
        return [f"{head}: unknown entry{did_you_mean(str(place[-1]), siblings(place))}"]
    if item["type"] == "missing":
        return [f"{head}: this entry is required"]
    message = str(item["msg"]).removeprefix("Value error, ")
    return [f"{head}: {message[:1].lower()}{message[1:]}"]


def _head(place: Place, lines: Mapping[Place, int], source: str) -> str:
    line = next((lines[place[:n]] for n in range(len(place), -1, -1) if place[:n] in lines), 1)
    return f"{source}, line {line}" + (f" ({_dotted(place)})" if place else "")


def _dotted(place: Place) -> str:
    """Name a place; entries of lists are numbered from 1."""
    return ".".join(str(key + 1) if isinstance(key, int) else key for key in place)


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
