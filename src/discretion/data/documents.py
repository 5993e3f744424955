"""Documents that people write: plans, service files, agreements. One loader for all of them.

YAML, TOML or JSON becomes plain data with the line of every entry, so that errors can name it; what does not fit the
pydantic model of a document is told at once, each fault with its line.

Bare words and numbers are read as in YAML 1.2, where `no` is text and `1e-3` is a number: in YAML 1.1 `NO` (Norway) is
false, `1:30` is ninety, `0123` is eighty-three and `1e-3` is text, none of which is what somebody means who lists
categories, postal codes and bounds. Dates stay text, as in JSON.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from discretion.errors import PlanError, did_you_mean
from discretion.part import explain

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)

Place = tuple[str | int, ...]
Model = TypeVar("Model", bound=BaseModel)
_DEEPEST = 40


@dataclass(frozen=True)
class DocumentKind:
    """What a document is called in errors."""

    name: str
    """without an article: `plan file`"""
    shape: str
    """what it should look like: `a plan is a mapping with …`"""
    empty: str | None = None
    """what to say of a document without content, instead of its shape"""
    suffixes: bool = False
    """whether the file name must tell the format; otherwise what is neither TOML nor JSON is YAML"""

    @property
    def article(self) -> str:
        """The name with its article."""
        return f"{'an' if self.name[0] in 'aeiou' else 'a'} {self.name}"


PLAN = DocumentKind(
    "plan file",
    "a plan is a mapping with entries such as `data`, `roles` and `steps`",
    empty="the plan is empty",
    suffixes=True,
)


class _Checked(ModelMetaclass):
    """Word the faults of a declaration; inside another declaration the outer one words them all."""

    def __call__(self, *args: Any, **values: Any) -> Any:
        try:
            return super().__call__(*args, **values)
        except ValidationError as error:
            raise PlanError(explain(cast("type[BaseModel]", self), error)) from None


class Declared(BaseModel, metaclass=_Checked):
    """Something that people declare in a document."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())


class Faults(ValueError):
    """Faults in several places of one declaration, for validators of a model."""

    def __init__(self, faults: Mapping[tuple[str, ...], str] | Mapping[Place, str]) -> None:
        self.faults: dict[Place, str] = {tuple(place): text for place, text in faults.items()}
        super().__init__("; ".join(f"{_dotted(place)}: {text}" for place, text in self.faults.items()))


def _dotted(place: Place) -> str:
    """Name a place; entries of lists are numbered from 1."""
    return ".".join(str(key + 1) if isinstance(key, int) else key for key in place)


@dataclass(frozen=True)
class Document:
    """The content of a file and where each entry stands."""

    content: Mapping[str, Any]
    source: str = "plan"
    lines: Mapping[Place, int] = field(default_factory=dict)

    def where(self, *place: str | int) -> str:
        """Name a place in the file: `plan.yaml, line 7 (steps.2)`."""
        dotted = _dotted(place)
        for length in range(len(place), 0, -1):
            if place[:length] in self.lines:
                return f"{self.source}, line {self.lines[place[:length]]} ({dotted})"
        return f"{self.source} ({dotted})" if dotted else self.source

    def validated(
        self,
        model: type[Model],
        siblings: Callable[[Place], tuple[str, ...]],
        *,
        counts: Callable[[Mapping[str, Any]], bool] = lambda fault: True,  # noqa: ARG005
        **more: Any,
    ) -> Model:
        """Make a model of the content and of what the file does not say (`more`), or raise every fault with its line.

        `siblings` names the entries that may stand beside a place, `counts` tells which faults of pydantic are told.
        """
        try:
            return model.model_validate({**more, **self.content})
        except ValidationError as error:
            told = [text for item in error.errors() if counts(item) for text in self._worded(item, siblings)]
            raise PlanError(told) from None

    def _worded(self, item: Mapping[str, Any], siblings: Callable[[Place], tuple[str, ...]]) -> list[str]:
        place: Place = tuple(key for key in item["loc"] if key != "[key]")
        cause = item.get("ctx", {}).get("error")
        if isinstance(cause, Faults):
            return [f"{self._head((*place, *inner))}: {text}" for inner, text in cause.faults.items()]
        head = self._head(place)
        if item["type"] == "extra_forbidden":
            return [f"{head}: unknown entry{did_you_mean(str(place[-1]), siblings(place))}"]
        if item["type"] == "missing":
            return [f"{head}: this entry is required"]
        message = str(item["msg"]).removeprefix("Value error, ")
        return [f"{head}: {message[:1].lower()}{message[1:]}"]

    def _head(self, place: Place) -> str:
        """Name a place, with the line of the mapping where the entry is missing."""
        if not self.lines or any(place[:length] in self.lines for length in range(1, len(place) + 1)):
            return self.where(*place)
        return f"{self.source}, line {self.lines.get((), 1)}" + (f" ({_dotted(place)})" if place else "")


@dataclass(frozen=True)
class Origin:
    """Where an entry of a plan stands, so that a fault found when the data is there can still name the line."""

    text: Document = field(default_factory=lambda: Document({}))
    place: Place = ()

    def where(self, *inner: str | int) -> str:
        """Name a place inside the entry; positions in lists only where the file has a line for them."""
        place = (*self.place, *inner)
        while len(place) > len(self.place) and isinstance(place[-1], int) and place not in self.text.lines:
            place = place[:-1]
        return self.text.where(*place)


def read_document(path: str | Path, kind: DocumentKind = PLAN) -> Document:
    """Read a file; the format follows its name. `-` is standard input, as YAML or JSON."""
    path = Path(path)
    if str(path) == "-":
        return parse_yaml(sys.stdin.read(), "standard input", kind)
    if not path.is_file():
        raise PlanError(f"no {kind.name} {str(path)!r}")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise PlanError(f"{path.name}: {kind.article} must be UTF-8 text") from None
    suffix = path.suffix.lower()
    if suffix == ".toml":
        return _parse_toml(text, path.name)
    if suffix == ".json":
        return _parse_json(text, path.name, kind)
    if kind.suffixes and suffix not in (".yaml", ".yml"):
        raise PlanError(f"{path.name}: {kind.article} ends in .yaml, .yml, .toml or .json")
    return parse_yaml(text, path.name, kind)


def _parse_toml(text: str, source: str) -> Document:
    try:
        return Document(tomllib.loads(text), source)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{source}: not valid TOML: {error}") from None


def _parse_json(text: str, source: str, kind: DocumentKind) -> Document:
    """Parse JSON; as every JSON text is YAML too (but for tabs), that reader finds lines and keys given twice."""
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise PlanError(f"{source}, line {error.lineno}: not valid JSON: {error.msg}") from None
    return Document(content, source, parse_yaml(text.replace("\t", " "), source, kind).lines)


def parse_yaml(text: str, source: str = "plan", kind: DocumentKind = PLAN) -> Document:
    """Parse YAML and keep line numbers; a key given twice is an error."""
    import yaml

    try:
        root = yaml.compose(text, Loader=_yaml_classes()[0])
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise PlanError(f"{source}{line}: not valid YAML: {getattr(error, 'problem', None) or error}") from None
    except RecursionError:
        raise PlanError(f"{source}: nested too deeply") from None
    if root is None:
        raise PlanError(f"{source}: {kind.empty or kind.shape}")
    lines: dict[Place, int] = {}
    problems: list[str] = []
    loader = _yaml_classes()[0]("")
    try:
        content = _build(root, (), lines, problems, source, loader)
    finally:
        loader.dispose()
    if not isinstance(content, dict):
        problems.append(f"{source}: {kind.shape}")
    if problems:
        raise PlanError(problems)
    return Document(content, source, lines)


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


def yaml_value(text: str) -> Any:
    """Read a value that stands alone, as a document would write it; a text that is no YAML raises ValueError."""
    import yaml

    try:
        return yaml.load(text, _yaml_classes()[0])
    except yaml.YAMLError as error:
        raise ValueError(getattr(error, "problem", None) or "it cannot be read") from None


@cache
def _yaml_classes() -> tuple[Any, Any]:
    """Give what reads and writes YAML here, when it is first needed: most commands need neither."""
    import yaml

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - as in the base class

    class Dumper(yaml.SafeDumper):
        """Writes so that the same is read, here and by readers of YAML 1.1; lists of numbers on one line."""

        def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> Any:
            numbers = bool(sequence) and all(isinstance(item, int | float) for item in sequence)
            return super().represent_sequence(tag, sequence, flow_style or numbers or None)

    scalars = (
        ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
        ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
        ("int", r"[-+]?(?:0|[1-9][0-9]*)", list("-+0123456789")),
        (
            "float",
            r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
            r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
            list("-+.0123456789"),
        ),
    )
    for name, pattern, first in scalars:
        for one in (Loader, Dumper):
            one.add_implicit_resolver(f"tag:yaml.org,2002:{name}", re.compile(rf"^(?:{pattern})$"), first)
    return Loader, Dumper


def as_text(value: Any) -> Any:
    """Write every `Path` in plain data as text: a plan built in Python may name files by either."""
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return {key: as_text(item) for key, item in value.items()}
    return type(value)(map(as_text, value)) if type(value) in (list, tuple) else value


def write_document(content: Mapping[str, Any], path: str | Path, *, private: bool = False) -> None:
    """Write a document as YAML, TOML or JSON, whole or not at all; `private`: only the owner may read it."""
    from discretion.data.write import write_text

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

    return yaml.dump(dict(content), Dumper=_yaml_classes()[1], sort_keys=False, allow_unicode=True, width=110)


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
