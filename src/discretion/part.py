"""What methods, measures and privacy models share: registry, validation, help text.

A part is defined once, as a frozen pydantic model. `kind=` registers it; its field docstrings become the
CLI help, the JSON schema and the documentation. Parts are found by reading the class statements in the source
files of the packages below (no import), and loaded when first used, so that start-up stays fast.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata, resources
from importlib.resources.abc import Traversable
from itertools import pairwise
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, cast, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    ValidationError,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue

from discretion.errors import PlanError, did_you_mean, unknown

if TYPE_CHECKING:
    import ast

    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)

Family = Literal["method", "model", "risk", "utility", "rule", "table-engine", "table-protection"]

PACKAGES: Mapping[str, Family] = {
    "protect": "method",
    "anonymize": "method",
    "privacy": "model",
    "risk": "risk",
    "utility": "utility",
    "tables.rules": "rule",
    "tables.engines": "table-engine",
    "tables.protections": "table-protection",
}
"""Where parts live, and what the parts of each package, or file, are."""

Scale = Literal["rows", "classes", "columns", "blocks", "sampled", "memory"]
"""What a part needs of the data at a time, and so how it grows:

`rows`: summaries of columns, then some rows after the others; `classes`: the combinations of values that occur, with
their counts; `columns`: all rows of the columns that it reads; `blocks`: these, and it works on blocks of similar
records; `sampled`: these, and it looks for some people, drawn at random, among all (a method: it learns from some
records, drawn at random, and then draws some rows after the others); `memory`: all the data.
"""
IN_FILES: Mapping[Scale, str] = {
    "rows": "summaries of columns first, then batch by batch",
    "classes": "on the combinations of values with their counts",
    "columns": "with all rows of the columns that it reads in memory",
    "blocks": "with all rows of the columns that it reads in memory, in blocks of similar records",
    "sampled": "for records drawn at random: a measure looks for them among all, a method learns from them",
    "memory": "no",
}
"""How a part works on rows that stay in their files, in words."""
_INSTEAD = {
    "local-recoding": "`mondrian` or `optimal-generalization`",
    "moment-preserving": "`mdav` or `correlated-noise`",
    "orthogonal-noise": "`correlated-noise`",
    "outlier-noise": "`winsorize-outliers` and `additive-noise`",
    "pseudonymize": "`drop-identifiers`",
    "targeted-record-swap": "`rank-swap` or `pram`",
    "suppress-by-risk": "`suppress-records` or `local-suppression`",
    "blank-and-impute": "`local-suppression`",
    "assignment-linkage": "`distance-linkage`",
    "learned-linkage": "`distance-linkage`",
    "probabilistic-linkage": "`distance-linkage`",
    "linkability": "`distance-linkage`",
    "singling-out": "`sample-uniqueness` or `suda`",
    "rare-values": "`sample-uniqueness`",
    "replicated-uniques": "`sample-uniqueness`",
    "log-linear-risk": "`individual-risk` or `population-uniqueness`",
    "inference-risk": "`group-attack` or `model-disclosure`",
    "value-agreement": "`changed-share` or `variable-change`",
    "propensity": "`marginals` and `correlation-change`",
    "interval-overlap": "`range-queries`",
    "household-k-anonymity": "`k-anonymity`",
    "reidentification-bound": "`average-risk` or `sample-uniqueness-bound`",
    "interval-protection": "a bound on `interval-risk`",
}
"""What does nearly the same on rows that stay in their files, for parts that need all rows in memory."""

ENTRY_POINTS = "discretion.parts"

_CLASS = re.compile(
    r'^class (?P<name>\w+)\([^)]*?\bkind="(?P<kind>[a-z0-9-]+)"[^)]*\):[^\n]*\n\s*"""(?P<summary>[^\n]+?)(?:"""|\n)',
    re.MULTILINE,
)
"""A class statement as they are usually written; what it does not read is read by Python's own parser."""
_BEGIN = re.compile(r"^[ \t]*class\s+\w+[^\n(:]*\(", re.MULTILINE)
_HEADER = re.compile(
    r"^[ \t]*class\s+\w+[^\n(:]*\((?P<inside>(?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)\s*:", re.MULTILINE
)
_KIND = re.compile(r"\bkind\s*=(?!=)")


@dataclass(frozen=True)
class IndexEntry:
    """One line of the index of parts."""

    kind: str
    name: str
    family: Family | None
    summary: str
    module: str
    entry_point: metadata.EntryPoint | None = None

    def load(self) -> type[Part]:
        """Import the module and give the class."""
        found = self._load_entry_point() if self.entry_point else getattr(import_module(self.module), self.name)
        if not (isinstance(found, type) and issubclass(found, Part)):
            raise PlanError(f"entry point {self.kind!r} of group {ENTRY_POINTS!r} is not a discretion part")
        if found.kind != self.kind:
            raise PlanError(f"entry point {self.kind!r} gives a part of kind {found.kind!r}; the two must agree")
        return found

    def _load_entry_point(self) -> Any:
        point = self.entry_point
        try:
            return point.load() if point else None
        except Exception as error:
            package = point.dist.name if point and point.dist else self.module
            raise PlanError(
                f"the part {self.kind!r} of the package {package!r} cannot be loaded: {type(error).__name__}: {error}"
            ) from error


def _scan(root: Traversable, package: str, family: Family) -> Iterator[IndexEntry]:
    """List the parts in the files of a folder and those below, which is the package of that name, or in one file."""
    stack = [(root, package)]
    while stack:
        item, dotted = stack.pop()
        if item.is_dir():
            below = sorted(item.iterdir(), key=lambda i: i.name)
            stack += [
                (one, f"{dotted}.{one.name.removesuffix('.py')}")
                for one in reversed(below)
                if one.name.endswith(".py") or (one.is_dir() and not one.name.startswith("_"))
            ]
        elif item.is_file():
            for kind, name, summary in _classes(item.read_text(encoding="utf-8"), dotted):
                yield IndexEntry(kind, name, family, summary.strip(), dotted)


def _classes(text: str, module: str) -> list[tuple[str, str, str]]:
    """Give kind, name and summary of the parts of a file.

    Parsing every file would cost more than all the rest of the start; it is done where the class statements that name a
    kind are not those that were read.
    """
    if not _KIND.search(text):
        return []
    found = [(match["kind"], match["name"], match["summary"]) for match in _CLASS.finditer(text)]
    headers = [match["inside"] for match in _HEADER.finditer(text)]
    named = sum(_KIND.search(inside) is not None for inside in headers)
    if named == len(found) and len(headers) == len(_BEGIN.findall(text)):
        return found
    import ast

    tree = ast.parse(text)
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        for keyword in node.keywords:
            if keyword.arg != "kind":
                continue
            kind = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
            if not isinstance(kind, str) or not re.fullmatch("[a-z0-9-]+", kind) or node not in tree.body:
                raise PlanError(
                    f"{module}, line {node.lineno}: the class {node.name} cannot be registered: a part is a class of "
                    "its module, and its `kind` a text of small letters, digits and hyphens"
                )
            found.append((kind, node.name, (ast.get_docstring(node) or "").partition("\n")[0]))
    return found


@cache
def index() -> Mapping[str, IndexEntry]:
    """List every part by kind, without importing it: the built-in ones and those of other packages."""
    found: dict[str, IndexEntry] = {}
    for package, family in PACKAGES.items():
        folder = resources.files("discretion").joinpath(*package.split("."))
        file = resources.files("discretion").joinpath(*package.split(".")[:-1], f"{package.rpartition('.')[2]}.py")
        entries = (entry for place in (folder, file) for entry in _scan(place, f"discretion.{package}", family))
        for entry in entries:
            if (known := found.setdefault(entry.kind, entry)) is not entry:
                raise PlanError(f"the kind {entry.kind!r} is that of {known.module} and of {entry.module}")
    for point in metadata.entry_points(group=ENTRY_POINTS):
        if point.name in found:
            raise PlanError(f"the package of entry point {point.value!r} redefines the kind {point.name!r}")
        name = point.value.rpartition(":")[2]
        found[point.name] = IndexEntry(point.name, name, None, "", point.module, point)
    return dict(sorted(found.items()))


def find(kind: str) -> type[Part]:
    """Give the class registered under `kind`."""
    if kind in _REGISTERED:
        return _REGISTERED[kind]
    if kind not in index():
        raise PlanError(unknown("part", kind, {*index(), *_REGISTERED}))
    return index()[kind].load()


def instead(kind: str) -> str:
    """Say what to use on rows that stay in their files in place of a part that needs them in memory, if anything."""
    return f": use {_INSTEAD[kind]} instead" if kind in _INSTEAD else ""


def kinds(family: Family) -> list[str]:
    """List the kinds of a family, and those of other packages, of which nobody knows what they are until they load."""
    return [kind for kind, entry in index().items() if entry.family in (family, None)]


def all_parts(*families: Family) -> list[type[Part]]:
    """Load every part, or every part of some families, in order of kind."""
    loaded = [find(kind) for kind in sorted({*index(), *_REGISTERED})]
    return [part for part in loaded if not families or part.family in families]


_REGISTERED: dict[str, type[Part]] = {}


def _names(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    return value


Columns = Annotated[tuple[str, ...], BeforeValidator(_names)]
"""Column names; a single name may stand without a list."""


def _path(value: object) -> object:
    return str(value) if isinstance(value, PurePath) else value


FileName = Annotated[str, BeforeValidator(_path)]
"""The path of a file, as text or as a `Path`."""

_K = TypeVar("_K")
_V = TypeVar("_V")
FrozenMapping = Annotated[
    Mapping[_K, _V], AfterValidator(lambda given: MappingProxyType(dict(given))), PlainSerializer(dict)
]
"""A mapping field that cannot be changed in place."""


def _not_negative(weights: Mapping[str, float]) -> Mapping[str, float]:
    if any(not weight >= 0 for weight in weights.values()):
        raise ValueError("weights cannot be negative")
    return weights


ColumnWeights = Annotated[FrozenMapping[str, float], AfterValidator(_not_negative)]
"""A weight of at least 0 for some of the columns."""


@dataclass(frozen=True)
class _HoldsParts:
    """Marks the type of a field whose value is a part, or several."""


HOLDS_PARTS = _HoldsParts()
"""Stands in the `Annotated` type of a field that holds parts: plans and the command line look inside."""


def confidential(default: Any = ..., *, path: bool = False, **constraints: Any) -> Any:
    """Declare a field whose value is withheld from everything public; `path`: see `path_field`."""
    extra: dict[str, Any] = {"confidential": True, **({"path": True} if path else {})}
    return Field(default, json_schema_extra=extra, **constraints)


def path_field(default: Any = ..., **constraints: Any) -> Any:
    """Declare a field that names a file: in a plan it is relative to the plan's folder."""
    return Field(default, json_schema_extra={"path": True}, **constraints)


class _Described(ModelMetaclass):
    """Classes whose docstring, when it is asked for, also has each field with its default and meaning.

    It is a property of their class because `help` looks there first.
    """

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        written: str | None = vars(self).get("__doc__")
        if not vars(self).get("kind"):
            return written
        part = cast("type[Part]", self)
        lines = [f"{written or ''}\n    Fields\n    ------\n"]
        for name, field in part.model_fields.items():
            default = "required" if field.is_required() else repr(field.get_default(call_default_factory=True))
            secret = "; confidential" if is_confidential(field) else ""
            lines.append(f"    {name} : {default}{secret}\n        {' '.join(part.about(name).split())}\n")
        return "".join(lines)


class Part(BaseModel, metaclass=_Described):
    """Anything a plan can name. Subclassing with `kind=…` registers it."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        protected_namespaces=(),
    )

    kind: ClassVar[str] = ""
    family: ClassVar[Family] = "method"
    scale: ClassVar[Scale] = "memory"
    """What the part needs of the data at a time."""

    def __init_subclass__(cls, kind: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)

    @classmethod
    def __pydantic_init_subclass__(cls, kind: str = "", **kwargs: Any) -> None:
        """Register a subclass that names its kind."""
        super().__pydantic_init_subclass__(**kwargs)
        if not kind:
            return
        known = _REGISTERED.get(kind, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"the kind {kind!r} is already registered by {known.__module__}.{known.__qualname__}")
        cls.kind = kind
        _REGISTERED[kind] = cls

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Give the JSON schema with what each field means."""
        schema = handler(core)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, field in cls.model_fields.items():
            if (about := cls.about(name)) and (shown := properties.get(field.alias or name)) is not None:
                shown["description"] = about
        return schema

    @classmethod
    def about(cls, name: str) -> str:
        """Say what a field means: the docstring below it."""
        return _docstrings(cls).get(name, "")

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise PlanError(explain(type(self), error), [item["loc"] for item in error.errors()]) from None

    @classmethod
    def summary(cls) -> str:
        """Give the first line of the docstring: what happens, in plain words."""
        return cls.documentation().strip().partition("\n")[0]

    @classmethod
    def documentation(cls) -> str:
        """Give the docstring as it was written; `help` also shows the fields."""
        return vars(cls).get("__doc__") or ""

    def settings(self, *, public: bool = False) -> dict[str, Any]:
        """Give the fields that differ from their defaults; `public` leaves out the confidential ones."""
        fields = self.model_dump(mode="json", exclude_defaults=True)
        if not public:
            return fields
        hidden = self.confidential_fields()
        return {name: self._public(name, value) for name, value in fields.items() if name not in hidden}

    def _public(self, name: str, value: Any) -> Any:
        """Give a field's value for the public: of a file its name, of parts inside what is public of them."""
        field = type(self).model_fields[name]
        if is_path(field) and isinstance(value, str):
            return PurePath(value).name
        if not holds_parts(field):
            return value
        inside = getattr(self, name)
        if isinstance(inside, tuple):
            return [{part.kind: part.settings(public=True)} for part in inside]
        return {inside.kind: inside.settings(public=True)}

    @classmethod
    def path_fields(cls) -> tuple[str, ...]:
        """Name the fields that name a file."""
        return tuple(name for name, field in cls.model_fields.items() if is_path(field))

    @classmethod
    def confidential_fields(cls) -> tuple[str, ...]:
        """Name the fields whose values never reach the public side."""
        return tuple(name for name, field in cls.model_fields.items() if is_confidential(field))

    def to_plan(self) -> dict[str, Any]:
        """Give the part as a plan writes it: `{kind: {field: value}}`."""
        return {self.kind: self.settings()}


@cache
def _docstrings(part: type[Part]) -> Mapping[str, str]:
    """Read the docstrings below the fields of a class and of those it extends, from their source.

    (pydantic can do so when a class is made; with the parts of a plan this takes longer than reading the plan.)
    """
    found: dict[str, str] = {}
    for one in reversed(part.__mro__):
        if issubclass(one, Part) and one is not Part:
            found |= _own_docstrings(one)
    return found


@cache
def _own_docstrings(part: type[Part]) -> Mapping[str, str]:
    import ast
    import inspect

    found: dict[str, str] = {}
    for field, text in pairwise(_class_statement(part).body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            said = text.value.value if isinstance(text.value, ast.Constant) else None
            if isinstance(said, str):
                found[field.target.id] = inspect.cleandoc(said)
    return found


def _class_statement(part: type[Part]) -> ast.ClassDef:
    """Parse the statement that made a class; without a source file, one without a body."""
    import ast
    import inspect
    import linecache
    import textwrap

    lines = linecache.getlines(getattr(sys.modules.get(part.__module__), "__file__", None) or "")
    statement = rf"^class {re.escape(part.__qualname__)}\b.*?(?=^[^\s)]|\Z)"
    at_top = re.search(statement, "".join(lines), re.MULTILINE | re.DOTALL)
    for quick in (True, False):
        try:
            source = (at_top[0] if at_top else "") if quick else inspect.getsource(part)
            (node,) = ast.parse(textwrap.dedent(source)).body
        except (OSError, TypeError, SyntaxError, ValueError):
            continue
        if isinstance(node, ast.ClassDef):
            return node
    return ast.ClassDef(part.__name__, [], [], [], [])


def is_confidential(field: FieldInfo) -> bool:
    """Tell whether a field is marked `confidential`."""
    return _marked(field, "confidential")


def is_path(field: FieldInfo) -> bool:
    """Tell whether a field names a file; in a plan it starts at the plan's folder."""
    return _marked(field, "path")


def holds_parts(field: FieldInfo) -> bool:
    """Tell whether a field holds parts: a method, a measure, privacy models."""
    return HOLDS_PARTS in field.metadata


def _marked(field: FieldInfo, mark: str) -> bool:
    extra = field.json_schema_extra
    return isinstance(extra, dict) and bool(extra.get(mark))


def explain(part: type[BaseModel], error: ValidationError) -> list[str]:
    """Word each fault of a validation: where, what is wrong, what is allowed, a hint."""
    label = getattr(part, "kind", "") or part.__name__
    return [f"{label}: {_explain_one(part, item)}" for item in error.errors()]


def _explain_one(part: type[BaseModel], item: Mapping[str, Any]) -> str:
    place = ".".join(str(key) for key in item["loc"])
    if item["type"] == "extra_forbidden":
        return f"unknown field {place!r}{did_you_mean(place, part.model_fields)}"
    if item["type"] == "missing":
        return f"the field {place!r} is required"
    message = str(item["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    message = message[0].lower() + message[1:]
    if not place:
        return message
    shown = "" if isinstance(item["input"], dict) else f", got {item['input']!r}"
    return f"{place}: {message}{shown}"


def parse(spec: object, *families: Family) -> Part:
    """Build a part from its place in a plan: `"mdav"` or `{"mdav": {"k": 3}}`."""
    if isinstance(spec, str):
        spec = {spec: {}}
    if not isinstance(spec, Mapping) or len(spec) != 1:
        raise PlanError(f"expected one part as `kind: {{fields}}`, got {_shape(spec)}")
    ((kind, fields),) = spec.items()
    part = find(str(kind))
    if families and part.family not in families:
        raise PlanError(f"{kind!r} is a {part.family}; a {' or '.join(families)} is needed here")
    if fields is None:
        fields = {}
    if not isinstance(fields, Mapping):
        raise PlanError(f"{kind}: expected a mapping of fields, got {_shape(fields)}")
    return part(**{str(name): value for name, value in fields.items()})


def _shape(value: object) -> str:
    if isinstance(value, Mapping):
        return f"a mapping of {len(value)} keys ({', '.join(map(str, list(value)[:5]))})"
    return f"{type(value).__name__} {value!r}"


def literal_options(annotation: object) -> tuple[str, ...]:
    """List the options of a Literal annotation (also inside a union), or nothing."""
    if get_origin(annotation) is Literal:
        return tuple(str(option) for option in get_args(annotation))
    return tuple(option for inner in get_args(annotation) for option in literal_options(inner))
