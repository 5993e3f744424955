"""From the content of a plan file to a Plan, with every fault found on the way."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from discretion.data.documents import Document, Origin
from discretion.data.schema import Column, Schema
from discretion.errors import PlanError, unknown
from discretion.measure import Measure
from discretion.method import Decision, Method
from discretion.model import PrivacyModel
from discretion.part import Family, Part, find, parse
from discretion.release.order import ORDERS, Order
from discretion.release.part_paths import map_file, map_paths, resolve_path
from discretion.release.plan import OUTPUT_FORMATS, Output, Plan, Requirement, Shown, Step
from discretion.release.plan_columns import SCHEMA_SECTIONS
from discretion.release.privacy_budget import PrivacyBudget
from discretion.release.under_policy import read_policy, read_waivers

if TYPE_CHECKING:
    from discretion.policy.policy import Policy, Waiver

_SECTIONS = (
    "title", "data", "roles", "confirmed", "confirmed_other", "confirmed_telling", "types", "hierarchies",
    "missing_codes", "orders", "steps", "measures", "requirements", "output", "seed_file", "order", "demo", "from",
    "previous", "knows_method", "ledger", "policy", "waivers", "edit_rules", "advice", "tune",
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
_ALONE = {
    "journal": "expected the private journal of a release",
    "folder": "expected the folder of a release",
}
"""What the place of an earlier release is when it is one text: journals for microdata, public folders for tables."""
_NONE = "none"
"""How a plan says that it has no steps, or no requirements, on purpose."""
_T = TypeVar("_T")


def _differing(column: Column) -> dict[str, Any]:
    """Give the properties of a column that were set."""
    plain = vars(Column())
    return {name: value for name, value in vars(column).items() if value != plain[name]}


class PlanParser:
    """Turns the content of a plan file into a Plan and collects every fault on the way."""

    def __init__(self, text: Document, base: Path, alone: str = "journal") -> None:
        self.text, self.base, self.alone = text, base, alone
        self.problems: list[str] = []

    def plan(self) -> Plan:
        """Parse every entry; raise with all the faults there are."""
        content = self.text.content
        for key in content:
            if key not in _SECTIONS:
                self._fault((key,), unknown("entry", str(key), _SECTIONS))
        policy = read_policy(self.text, self.base, self._fault)
        plan = Plan(
            schema=self._schema(),
            steps=self._each("steps", self._step),
            measures=self._each("measures", self._measure),
            requirements=self._each("requirements", self._requirement),
            no_steps=content.get("steps") == _NONE,
            no_requirements=content.get("requirements") == _NONE,
            confirmed_other=self._each("confirmed_other", self._name_in("confirmed_other")),
            confirmed_telling=self._each("confirmed_telling", self._name_in("confirmed_telling")),
            data=self._data(),
            output=self._output(),
            title=str(content.get("title") or ""),
            confirmed=self._flag("confirmed", True),
            seed_file=self._text("seed_file"),
            order=self._order(),
            demo=self._flag("demo", False),
            made_from=self._release(("from",), content["from"]) if "from" in content else {},
            previous=self._each("previous", lambda number, given: self._release(("previous", number), given)),
            knows_method=self._flag("knows_method", True),
            base=self.base,
            budget=self._budget(),
            advice=self._advice(),
            tune=self._tune(),
            text=self.text,
        )
        waivers = read_waivers(self.text, policy, self._fault)
        if policy is not None and not self.problems:
            plan = self._attempted(plan, policy, waivers)
        self._check_seed_place(plan)
        if self.problems:
            raise PlanError(self.problems)
        return plan

    def _attempted(self, plan: Plan, policy: Policy, waivers: tuple[Waiver, ...]) -> Plan:
        """Put a plan under its policy; what is weaker names its line itself."""
        try:
            return replace(plan, policy=policy, waivers=waivers)
        except PlanError as error:
            self.problems += error.problems
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
        may_be_none = key in ("steps", "requirements")
        if value is None or (may_be_none and value == _NONE):
            return []
        if not isinstance(value, list):
            wanted = "expected a list, each entry on a line that starts with `- `"
            self._fault((key,), f"{wanted}, or the word `none`" if may_be_none else wanted)
            return []
        return value

    def _each(self, key: str, parse_one: Callable[[int, Any], _T | None]) -> tuple[_T, ...]:
        found = [parse_one(number, spec) for number, spec in enumerate(self._list(key))]
        return tuple(item for item in found if item is not None)

    def _name_in(self, key: str) -> Callable[[int, Any], str | None]:
        def name(number: int, given: Any) -> str | None:
            if not isinstance(given, str):
                self._fault((key, number), "expected the name of a column")
                return None
            return given

        return name

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

    def _order(self) -> Order:
        given = self.text.content.get("order", "permute")
        if given not in ORDERS:
            self._fault(("order",), unknown("order", str(given), ORDERS))
        return "keep" if given == "keep" else "permute"

    def _schema(self) -> Schema:
        """Build the schema entry by entry, so that each fault has its line."""
        columns: dict[str, dict[str, Any]] = {}
        for section in SCHEMA_SECTIONS:
            for name, value in self._mapping(section).items():
                given = map_file(value, self._resolve) if section == "hierarchies" else value
                try:
                    property_: dict[str, Any] = {section: {name: given}}
                    found = Schema.build(**property_)
                except PlanError as error:
                    for problem in error.problems:
                        self._fault((section, name), problem.removeprefix(f"{section}.{name}: "))
                else:
                    columns.setdefault(name, {}).update(_differing(found[name]))
        made = MappingProxyType({name: Column(**properties) for name, properties in columns.items()})
        return Schema(made, self._edit_rules())

    def _edit_rules(self) -> tuple[str, ...]:
        """Read what every record fulfils; each fault with its line, circles of sums with that of the section."""
        from discretion.data.rules import read_edit_rules

        good = []
        for number, text in enumerate(self._list("edit_rules")):
            if self._attempt(("edit_rules", number), lambda text=text: read_edit_rules([text])) is not None:  # type: ignore[misc]
                good.append(text)
        self._attempt(("edit_rules",), lambda: read_edit_rules(good))
        return tuple(good)

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

    def _release(self, place: tuple[str | int, ...], given: Any) -> dict[str, str]:
        """Read where an earlier release lies: its private journal, its public folder where that was moved, and people.

        `person` names the column by which the people of another delivery are found again.
        """
        named = {self.alone: given} if isinstance(given, str) else given
        known = ("journal", "folder", *(("person", "accepted") if place[0] == "previous" else ()))
        texts = isinstance(named, Mapping) and all(isinstance(value, str) for value in named.values())
        apart = place[0] == "previous" and texts and "folder" in named
        if not texts or not (apart or self.alone in named or "journal" in named):
            self._fault(place, f"{_ALONE[self.alone]}, or a mapping with `journal` and `folder`")
            return {}
        for key in named:
            if key not in known:
                self._fault((*place, key), unknown("option", str(key), known))
        words = ("person", "accepted")
        return {key: named[key] if key in words else self._resolve(named[key]) for key in known if key in named}

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
        rest = {key: value for key, value in fields.items() if key not in options}
        return map_paths({kind: rest}, self._resolve), found

    @staticmethod
    def _own_fields(kind: str) -> tuple[str, ...]:
        """Name the fields of a part, none where it does not exist (which is reported when it is parsed)."""
        try:
            return tuple(find(str(kind)).model_fields)
        except PlanError:
            return ()

    def _resolve(self, path: str) -> str:
        return resolve_path(self.base, path)

    def _part(self, place: tuple[str | int, ...], spec: Any, *families: Family) -> Part | None:
        inner = (*place, next(iter(spec))) if isinstance(spec, Mapping) and len(spec) == 1 else place
        return self._attempt(inner, lambda: parse(spec, *families))

    def _step(self, number: int, spec: Any) -> Step | None:
        place = ("steps", number)
        spec, options = self._split(place, spec, ("publish", "decision"))
        method = self._part(place, spec, "method")
        if not isinstance(method, Method):
            return None
        decision = self._decision((*place, method.kind, "decision"), method, options.get("decision"))
        origin = Origin(self.text, place)
        return Step(method, f"{number + 1}-{method.kind}", options.get("publish", False), decision, origin)

    def _decision(self, place: tuple[str | int, ...], method: Method, given: Any) -> Decision | None:
        """Read what a step decided earlier: a mapping, or the same as JSON text (TOML cannot write every value)."""
        if given is None:
            return None
        if method.by_group:
            self._fault(place, f"{method.kind} works on rows together and has nothing to use again; leave it out")
            return None
        if isinstance(given, str):
            try:
                given = json.loads(given)
            except json.JSONDecodeError as error:
                self._fault(place, f"not valid JSON: {error.msg}")
                return None
        if not isinstance(given, Mapping):
            self._fault(place, "expected a mapping, as `study.plan(fitted=True)` writes it")
            return None
        return Decision(MappingProxyType(dict(given)))

    def _measure(self, number: int, spec: Any) -> Shown | None:
        place = ("measures", number)
        spec, options = self._split(place, spec, ("publish",))
        measure = self._part(place, spec, "risk", "utility")
        if not isinstance(measure, Measure):
            return None
        return Shown(measure, options.get("publish", False), Origin(self.text, place))

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
        return Requirement(part, publish=options.get("publish", False), origin=Origin(self.text, place), **bounds)

    def _budget(self) -> PrivacyBudget | None:
        """Read the ledger from which private steps are paid, with the budget that it counts."""
        given = self.text.content.get("ledger")
        if given is None:
            return None
        known = ("path", "table", "epsilon", "delta", "user", "raised")
        lacking = [key for key in known[:4] if key not in given] if isinstance(given, Mapping) else known
        if lacking:
            self._fault(("ledger",), "expected a mapping with `path`, `table`, `epsilon`, `delta` and perhaps `user`")
            return None
        for key in given:
            if key not in known:
                self._fault(("ledger", key), unknown("option", str(key), known))
        fields = {key: given[key] for key in known[1:] if key in given}
        path = str(given["path"])
        file = path.removeprefix("sqlite:///")
        place = path if "://" in file else self._resolve(file)
        return self._attempt(("ledger",), lambda: PrivacyBudget(place, **fields))

    def _advice(self) -> dict[str, str]:
        """Read what the data protection officer advised, by whom and when."""
        given, known = self.text.content.get("advice"), ("by", "on", "text")
        if given is None:
            return {}
        if not isinstance(given, Mapping) or any(not str(given.get(key) or "").strip() for key in known):
            self._fault(("advice",), "expected `by` (name and function), `on` (the day) and `text`")
            return {}
        for key in given:
            if key not in known:
                self._fault(("advice", key), unknown("entry", str(key), known))
        return {key: str(given[key]) for key in known}

    def _tune(self) -> dict[str, Any]:
        if (given := self.text.content.get("tune")) is None:
            return {}
        from discretion.release.tune_plan import check_section

        return check_section(given, self._fault, self._resolve)

    def _check_seed_place(self, plan: Plan) -> None:
        if plan.seed_file and plan.output.folder:
            seed, folder = Path(plan.resolve(plan.seed_file)), Path(plan.resolve(plan.output.folder))
            if seed.resolve().is_relative_to(folder.resolve()):
                self._fault(("seed_file",), "the seed is a secret and cannot lie in the public folder")
