"""Plan files: YAML, TOML or JSON to plain data, with the line of every entry so that errors can name it."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from discretion.errors import PlanError

Place = tuple[str | int, ...]
_DEEPEST = 40


def as_text(value: Any) -> Any:
    """Write every `Path` in plain data as text: a plan built in Python may name files by either."""
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return {key: as_text(item) for key, item in value.items()}
    return type(value)(map(as_text, value)) if type(value) in (list, tuple) else value


@dataclass(frozen=True)
class PlanText:
    """The content of a plan file and where each entry stands."""

    content: Mapping[str, Any]
    source: str = "plan"
    lines: Mapping[Place, int] = field(default_factory=dict)

    def where(self, *place: str | int) -> str:
        """Name a place in the file: `plan.yaml, line 7 (steps.2)`."""
        dotted = ".".join(str(item + 1) if isinstance(item, int) else item for item in place)
        for length in range(len(place), 0, -1):
            if place[:length] in self.lines:
                return f"{self.source}, line {self.lines[place[:length]]} ({dotted})"
        return f"{self.source} ({dotted})" if dotted else self.source


@dataclass(frozen=True)
class Origin:
    """Where an entry of a plan stands, so that a fault found when the data is there can still name the line."""

    text: PlanText = field(default_factory=lambda: PlanText({}))
    place: Place = ()

    def where(self, *inner: str | int) -> str:
        """Name a place inside the entry; positions in lists only where the file has a line for them."""
        place = (*self.place, *inner)
        while len(place) > len(self.place) and isinstance(place[-1], int) and place not in self.text.lines:
            place = place[:-1]
        return self.text.where(*place)


def read_plan_file(path: str | Path) -> PlanText:
    """Read a plan file; the format follows the file name. `-` is standard input, as YAML or JSON."""
    path = Path(path)
    if str(path) == "-":
        return parse_yaml(sys.stdin.read(), "standard input")
    if not path.is_file():
        raise PlanError(f"no plan file {str(path)!r}")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise PlanError(f"{path.name}: a plan file must be UTF-8 text") from None
    suffix = path.suffix.lower()
    if suffix == ".toml":
        return _parse_toml(text, path.name)
    if suffix == ".json":
        return _parse_json(text, path.name)
    if suffix in (".yaml", ".yml"):
        return parse_yaml(text, path.name)
    raise PlanError(f"{path.name}: a plan file ends in .yaml, .yml, .toml or .json")


def _parse_toml(text: str, source: str) -> PlanText:
    try:
        return PlanText(tomllib.loads(text), source)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{source}: not valid TOML: {error}") from None


def _parse_json(text: str, source: str) -> PlanText:
    """Parse JSON; as every JSON text is YAML too (but for tabs), that reader finds lines and keys given twice."""
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise PlanError(f"{source}, line {error.lineno}: not valid JSON: {error.msg}") from None
    return PlanText(content, source, parse_yaml(text.replace("\t", " "), source).lines)


def parse_yaml(text: str, source: str = "plan") -> PlanText:
    """Parse YAML and keep line numbers; a key given twice is an error."""
    import yaml

    from discretion.data.yaml_scalars import PlanLoader

    try:
        root = yaml.compose(text, Loader=PlanLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise PlanError(f"{source}{line}: not valid YAML: {getattr(error, 'problem', None) or error}") from None
    if root is None:
        raise PlanError(f"{source}: the plan is empty")
    lines: dict[Place, int] = {}
    problems: list[str] = []
    loader = PlanLoader("")
    try:
        content = _build(root, (), lines, problems, source, loader)
    finally:
        loader.dispose()
    if not isinstance(content, dict):
        problems.append(f"{source}: a plan is a mapping with entries such as `data`, `roles` and `steps`")
    if problems:
        raise PlanError(problems)
    return PlanText(content, source, lines)


def _build(node: Any, place: Place, lines: dict[Place, int], problems: list[str], source: str, loader: Any) -> Any:
    import yaml

    lines.setdefault(place, node.start_mark.line + 1)
    if len(place) > _DEEPEST:
        problems.append(f"{source}, line {lines[place]}: nested too deeply")
        return None
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if key in found:
                problems.append(f"{source}, line {key_node.start_mark.line + 1}: {key!r} is given twice")
            lines[(*place, key)] = key_node.start_mark.line + 1
            found[key] = _build(value_node, (*place, key), lines, problems, source, loader)
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_build(item, (*place, i), lines, problems, source, loader) for i, item in enumerate(node.value)]
    try:
        return loader.construct_object(node)
    except (yaml.YAMLError, ValueError) as error:
        problems.append(f"{source}, line {lines[place]}: {getattr(error, 'problem', None) or error}")
        return None


def write_plan_file(content: Mapping[str, Any], path: str | Path, *, private: bool = False) -> None:
    """Write a plan as YAML, TOML or JSON, whole or not at all; `private`: only the owner may read it."""
    from discretion.data.atomic import write_text

    path = Path(path)
    if path.suffix.lower() == ".json":
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    elif path.suffix.lower() in (".yaml", ".yml"):
        text = to_yaml(content)
    elif path.suffix.lower() == ".toml":
        text = to_toml(content)
    else:
        raise PlanError(f"{path.name}: a plan is written as .yaml, .yml, .toml or .json")
    write_text(path, text, overwrite=True, private=private)


def to_yaml(content: Mapping[str, Any]) -> str:
    """Write plain data as readable YAML."""
    import yaml

    from discretion.data.yaml_scalars import PlanDumper

    return yaml.dump(dict(content), Dumper=PlanDumper, sort_keys=False, allow_unicode=True, width=110)


def to_toml(content: Mapping[str, Any]) -> str:
    """Write plain data as TOML: entries first, then a table for each mapping; a decision becomes JSON text."""
    lines = [f"{_toml_key(key)} = {_toml(value)}" for key, value in content.items() if not isinstance(value, Mapping)]
    for key, value in content.items():
        if isinstance(value, Mapping):
            lines += [
                "",
                f"[{_toml_key(key)}]",
                *(f"{_toml_key(name)} = {_toml(inner)}" for name, inner in value.items()),
            ]
    return "\n".join(lines) + "\n"


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)


def _toml(value: Any) -> str:
    if isinstance(value, str | bool):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml_key(str(key))} = {_toml_entry(key, item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        broken = any(isinstance(item, Mapping) for item in value)
        items = [_toml(item) for item in value]
        return "[\n" + "".join(f"  {item},\n" for item in items) + "]" if broken else f"[{', '.join(items)}]"
    raise PlanError("TOML has no word for an empty value; write this plan as .yaml or .json")


def _toml_entry(key: str, value: Any) -> str:
    """Write a decision as JSON text: it may hold empty values, which TOML does not have."""
    is_decision = key == "decision" and isinstance(value, Mapping)
    return _toml(json.dumps(value, ensure_ascii=False) if is_decision else value)
