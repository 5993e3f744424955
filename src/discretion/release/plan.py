"""Plans: schema, steps, measures and requirements as one document; the same thing in Python, CLI and web."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from discretion.context import Progress, ignore_progress
from discretion.data.schema import Column, Schema
from discretion.errors import PlanError, unknown
from discretion.measure import Measure
from discretion.method import Decision, Method
from discretion.model import PrivacyModel
from discretion.part import Family, Part, find, parse
from discretion.release.plan_file import PlanText, read_plan_file, write_plan_file

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset
    from discretion.release.release import Release

_SECTIONS = (
    "title", "data", "roles", "confirmed", "types", "hierarchies", "missing_codes", "orders",
    "steps", "measures", "requirements", "output", "seed_file",
)  # fmt: skip
_DATA_OPTIONS = (
    "path",
    "format",
    "delimiter",
    "decimal",
    "encoding",
    "header",
    "quote",
    "sheet",
    "table",
    "query",
    "columns",
)
_SCHEMA_SECTIONS = ("roles", "types", "hierarchies", "missing_codes", "orders")
OUTPUT_FORMATS = {
    "csv": "csv", "parquet": "parquet", "arrow": "arrow", "feather": "feather", "excel": "xlsx", "xlsx": "xlsx",
    "jsonl": "jsonl", "stata": "dta", "dta": "dta", "spss": "sav", "sav": "sav", "sas": "xpt", "xpt": "xpt",
}  # fmt: skip
"""Formats of the published data file, and its extension."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class Step:
    """A method in a plan; `publish` lets its confidential parameters into the public report."""

    method: Method
    id: str
    publish: bool = False

    def to_plan(self) -> dict[str, Any]:
        """Give the step as a plan writes it."""
        return _with_options(self.method, publish=self.publish)


@dataclass(frozen=True)
class Shown:
    """A measure whose figures the report shows; `publish` lets its confidential parameters and figures out."""

    measure: Measure
    publish: bool = False

    def to_plan(self) -> dict[str, Any]:
        """Give the measure as a plan writes it."""
        return _with_options(self.measure, publish=self.publish)


@dataclass(frozen=True)
class Requirement:
    """What must hold before anything is published: a privacy model, or a bound on a measure."""

    part: Measure | PrivacyModel
    at_most: float | None = None
    at_least: float | None = None
    publish: bool = False

    def to_plan(self) -> dict[str, Any]:
        """Give the requirement as a plan writes it."""
        bounds = {"at_most": self.at_most, "at_least": self.at_least}
        return _with_options(self.part, publish=self.publish, **{k: v for k, v in bounds.items() if v is not None})


def _with_options(part: Part, *, publish: bool = False, **options: Any) -> dict[str, Any]:
    fields = {**part.settings(), **options, **({"publish": True} if publish else {})}
    return {part.kind: fields}


@dataclass(frozen=True)
class Output:
    """Where a release goes: the public folder, the private journal, the format of the data file."""

    folder: str | None = None
    journal: str | None = None
    format: str = "csv"


@dataclass(frozen=True)
class Plan:
    """Schema, steps, measures and requirements. Load it from a file or build it from a Study.

    Examples
    --------
    >>> import discretion as dc
    >>> plan = dc.Study(dc.datasets.census(1000, seed=1), seed=7).apply(dc.DropIdentifiers()).plan()
    >>> [step.method.kind for step in plan.steps]
    ['drop-identifiers']
    """

    schema: Schema = field(default_factory=Schema)
    steps: tuple[Step, ...] = ()
    measures: tuple[Shown, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    output: Output = field(default_factory=Output)
    title: str = ""
    confirmed: bool = True
    seed_file: str | None = None
    base: Path = field(default_factory=Path)

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a plan file; every fault of it is reported at once, with its line."""
        return cls.from_text(read_plan_file(path), Path(path).resolve().parent)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], base: str | Path = ".") -> Plan:
        """Take a plan as plain data; relative paths start at `base`."""
        return cls.from_text(PlanText(content), Path(base))

    @classmethod
    def from_text(cls, text: PlanText, base: Path) -> Plan:
        """Parse the content of a plan file."""
        return _Parser(text, base).plan()

    def to_dict(self) -> dict[str, Any]:
        """Give the plan as plain data; empty sections are left out."""
        columns = self.schema.columns
        content: dict[str, Any] = {
            "title": self.title,
            "data": dict(self.data) if len(self.data) > 1 else self.data.get("path"),
            "roles": {n: c.roles[0] if len(c.roles) == 1 else list(c.roles) for n, c in columns.items() if c.has_role},
            "confirmed": None if self.confirmed else False,
            "types": {n: c.type for n, c in columns.items() if c.type and not c.order},
            "orders": {n: list(c.order) for n, c in columns.items() if c.order},
            "hierarchies": {n: c.hierarchy.to_plan() for n, c in columns.items() if c.hierarchy},
            "missing_codes": {n: list(c.missing_codes) for n, c in columns.items() if c.missing_codes},
            "steps": [step.to_plan() for step in self.steps],
            "measures": [measure.to_plan() for measure in self.measures],
            "requirements": [requirement.to_plan() for requirement in self.requirements],
            "output": {k: v for k, v in vars(self.output).items() if v and (k, v) != ("format", "csv")},
            "seed_file": self.seed_file,
        }
        return {key: value for key, value in content.items() if value not in (None, "", {}, [])}

    def save(self, path: str | Path) -> None:
        """Write the plan file. The seed is not part of it; files beside the plan are named relative to it."""
        content, folder = self.to_dict(), Path(path).resolve().parent
        if "path" in self.data:
            named = _seen_from(folder, self.resolve(self.data["path"]))
            content["data"] = {**self.data, "path": named} if len(self.data) > 1 else named
        for name, spec in content.get("hierarchies", {}).items():
            if isinstance(spec, str):
                content["hierarchies"][name] = _seen_from(folder, spec)
        write_plan_file(content, path)

    def resolve(self, path: str) -> str:
        """Give a path of the plan relative to the plan's folder; URLs and absolute paths stay."""
        return path if "://" in path or path == "-" or Path(path).is_absolute() else str(self.base / path)

    def read(self, source: str | None = None, report: Callable[[str], None] | None = None) -> Dataset:
        """Read the data of the plan (or another delivery of it) with the plan's roles."""
        from discretion.release.run import read_data

        return read_data(self, source, report)

    def run(
        self,
        data: Any = None,
        *,
        seed: int | None = None,
        out: str | Path | None = None,
        journal: str | Path | None = None,
        overwrite: bool = False,
        reuse: Mapping[str, Decision] | None = None,
        progress: Progress = ignore_progress,
    ) -> Release:
        """Protect, measure and check; write the release where the plan or `out` says. Unmet requirements raise."""
        from discretion.release.run import run_plan

        release = run_plan(self, data, seed=seed, reuse=reuse, progress=progress)
        release.require()
        folder = out or (self.resolve(self.output.folder) if self.output.folder else None)
        if folder is not None:
            private = journal or (self.resolve(self.output.journal) if self.output.journal else None)
            release.write(folder, private, overwrite=overwrite)
        return release

    def with_data(self, source: str) -> Plan:
        """Give the plan for another delivery of the data; `source` is relative to the working folder."""
        is_file = "://" not in source and source != "-"
        return replace(self, data={**self.data, "path": str(Path(source).absolute()) if is_file else source})

    def with_output(self, **changes: Any) -> Plan:
        """Give the plan with another output."""
        return replace(self, output=replace(self.output, **changes))


def _differing(column: Column) -> dict[str, Any]:
    """Give the properties of a column that were set."""
    plain = vars(Column())
    return {name: value for name, value in vars(column).items() if value != plain[name]}


def _seen_from(folder: Path, path: str) -> str:
    """Name a file relative to a folder it lies in, otherwise by its full path; URLs stay."""
    if "://" in path or path == "-":
        return path
    full = Path(path).resolve()
    return str(full.relative_to(folder)) if full.is_relative_to(folder) else str(full)


class _Parser:
    """Turns the content of a plan file into a Plan and collects every fault on the way."""

    def __init__(self, text: PlanText, base: Path) -> None:
        self.text, self.base = text, base
        self.problems: list[str] = []

    def plan(self) -> Plan:
        content = self.text.content
        for key in content:
            if key not in _SECTIONS:
                self._fault((key,), unknown("entry", str(key), _SECTIONS))
        plan = Plan(
            schema=self._schema(),
            steps=self._each("steps", self._step),
            measures=self._each("measures", self._measure),
            requirements=self._each("requirements", self._requirement),
            data=self._data(),
            output=self._output(),
            title=str(content.get("title") or ""),
            confirmed=self._flag("confirmed", True),
            seed_file=self._text("seed_file"),
            base=self.base,
        )
        self._check_seed_place(plan)
        if self.problems:
            raise PlanError(self.problems)
        return plan

    def _fault(self, place: tuple[str | int, ...], message: str) -> None:
        self.problems.append(f"{self.text.where(*place)}: {message}")

    def _attempt(self, place: tuple[str | int, ...], make: Callable[[], _T]) -> _T | None:
        try:
            return make()
        except PlanError as error:
            for problem in error.problems:
                self._fault(place, problem)
            return None

    def _mapping(self, key: str) -> dict[str, Any]:
        value = self.text.content.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self._fault((key,), "expected a mapping of column names")
            return {}
        return {str(name): item for name, item in value.items()}

    def _list(self, key: str) -> list[Any]:
        value = self.text.content.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self._fault((key,), "expected a list, each entry on a line that starts with `- `")
            return []
        return value

    def _each(self, key: str, parse_one: Callable[[int, Any], _T | None]) -> tuple[_T, ...]:
        found = [parse_one(number, spec) for number, spec in enumerate(self._list(key))]
        return tuple(item for item in found if item is not None)

    def _text(self, key: str) -> str | None:
        value = self.text.content.get(key)
        if value is not None and not isinstance(value, str):
            self._fault((key,), "expected text")
            return None
        return value

    def _flag(self, key: str, default: bool) -> bool:
        value = self.text.content.get(key, default)
        if not isinstance(value, bool):
            self._fault((key,), "expected true or false")
            return default
        return value

    def _schema(self) -> Schema:
        """Build the schema entry by entry, so that each fault has its line."""
        columns: dict[str, dict[str, Any]] = {}
        for section in _SCHEMA_SECTIONS:
            for name, value in self._mapping(section).items():
                given = self._hierarchy(value) if section == "hierarchies" else value
                try:
                    found = Schema.build(**{section: {name: given}})
                except PlanError as error:
                    for problem in error.problems:
                        self._fault((section, name), problem.removeprefix(f"{section}.{name}: "))
                else:
                    columns.setdefault(name, {}).update(_differing(found[name]))
        return Schema(MappingProxyType({name: Column(**properties) for name, properties in columns.items()}))

    def _hierarchy(self, spec: Any) -> Any:
        """Make the file of a hierarchy relative to the plan's folder."""
        if isinstance(spec, str):
            return str(self.base / spec)
        if isinstance(spec, Mapping) and isinstance(spec.get("file"), str):
            return {**spec, "file": str(self.base / spec["file"])}
        if isinstance(spec, Mapping) and isinstance(spec.get("file"), Mapping) and "path" in spec["file"]:
            return {**spec, "file": {**spec["file"], "path": str(self.base / str(spec["file"]["path"]))}}
        return spec

    def _data(self) -> dict[str, Any]:
        value = self.text.content.get("data")
        if value is None:
            return {}
        if isinstance(value, str):
            return {"path": value}
        if not isinstance(value, Mapping) or "path" not in value:
            self._fault(("data",), "expected a path, or a mapping with `path` and reading options")
            return {}
        for key in value:
            if key not in _DATA_OPTIONS:
                self._fault(("data", key), unknown("option", str(key), _DATA_OPTIONS))
        return dict(value)

    def _output(self) -> Output:
        value = self.text.content.get("output")
        if value is None:
            return Output()
        if isinstance(value, str):
            return Output(folder=value)
        known = tuple(Output.__dataclass_fields__)
        if not isinstance(value, Mapping):
            self._fault(("output",), "expected a folder, or a mapping with `folder`, `journal` and `format`")
            return Output()
        for key, item in value.items():
            if key not in known:
                self._fault(("output", key), unknown("option", str(key), known))
            elif not isinstance(item, str):
                self._fault(("output", key), "expected text")
            elif key == "format" and item not in OUTPUT_FORMATS:
                self._fault(("output", key), unknown("format", item, OUTPUT_FORMATS))
        return Output(**{key: value[key] for key in known if isinstance(value.get(key), str)})

    def _split(self, place: tuple[str | int, ...], spec: Any, options: tuple[str, ...]) -> tuple[Any, dict[str, Any]]:
        """Take the options of an entry (publish, at_most …) out of the fields of its part."""
        if not isinstance(spec, Mapping) or len(spec) != 1:
            return spec, {}
        ((kind, fields),) = spec.items()
        if not isinstance(fields, Mapping):
            return spec, {}
        options = tuple(option for option in options if option not in self._own_fields(kind))
        found = {key: fields[key] for key in options if key in fields}
        if not isinstance(found.get("publish", False), bool):
            self._fault((*place, kind, "publish"), "expected true or false")
            found["publish"] = False
        rest = {key: self._path(kind, key, value) for key, value in fields.items() if key not in options}
        return {kind: rest}, found

    @staticmethod
    def _own_fields(kind: str) -> tuple[str, ...]:
        """Name the fields of a part, none where it does not exist (which is reported when it is parsed)."""
        try:
            return tuple(find(str(kind)).model_fields)
        except PlanError:
            return ()

    def _path(self, kind: str, name: str, value: Any) -> Any:
        """Make a field that is a path relative to the plan's folder."""
        try:
            is_path = name in find(str(kind)).path_fields()
        except PlanError:
            return value
        return str(self.base / value) if is_path and isinstance(value, str) else value

    def _part(self, place: tuple[str | int, ...], spec: Any, *families: Family) -> Part | None:
        inner = (*place, next(iter(spec))) if isinstance(spec, Mapping) and len(spec) == 1 else place
        return self._attempt(inner, lambda: parse(spec, *families))

    def _step(self, number: int, spec: Any) -> Step | None:
        place = ("steps", number)
        spec, options = self._split(place, spec, ("publish",))
        method = self._part(place, spec, "method")
        if not isinstance(method, Method):
            return None
        return Step(method, f"{number + 1}-{method.kind}", options.get("publish", False))

    def _measure(self, number: int, spec: Any) -> Shown | None:
        place = ("measures", number)
        spec, options = self._split(place, spec, ("publish",))
        measure = self._part(place, spec, "risk", "utility")
        return Shown(measure, options.get("publish", False)) if isinstance(measure, Measure) else None

    def _requirement(self, number: int, spec: Any) -> Requirement | None:
        place = ("requirements", number)
        spec, options = self._split(place, spec, ("publish", "at_most", "at_least"))
        part = self._part(place, spec, "model", "risk", "utility")
        bounds = {key: options[key] for key in ("at_most", "at_least") if key in options}
        for key, value in bounds.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                self._fault((*place, key), f"{key} must be a number")
                return None
        if isinstance(part, Measure) and not bounds:
            self._fault(place, f"a requirement on the measure {part.kind!r} needs `at_most` or `at_least`")
            return None
        if isinstance(part, PrivacyModel) and bounds:
            self._fault(
                place,
                f"{part.kind!r} is a privacy model: it holds or not, and takes no `at_most` or `at_least`",
            )
            return None
        if not isinstance(part, Measure | PrivacyModel):
            return None
        return Requirement(part, publish=options.get("publish", False), **bounds)

    def _check_seed_place(self, plan: Plan) -> None:
        if plan.seed_file and plan.output.folder:
            seed, folder = Path(plan.resolve(plan.seed_file)), Path(plan.resolve(plan.output.folder))
            if seed.resolve().is_relative_to(folder.resolve()):
                self._fault(("seed_file",), "the seed is a secret and cannot lie in the public folder")
