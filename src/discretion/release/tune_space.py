"""What tuning explores: methods and pipelines whose fields stand for several values.

The same form stands in Python and in a plan: wherever a field (or something inside it) has a value,
`{grid: [1, 5, 10]}` gives several, and `{range: [1, 20], steps: 5}` gives evenly spaced ones. A list of steps is a
pipeline.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from statistics import fmean, stdev
from types import MappingProxyType
from typing import Any

from discretion.errors import PlanError
from discretion.method import Method
from discretion.part import Part, parse

RUNS, SAMPLE, DRAWS = 3, 5_000, 10
ALL_ROWS = 50_000
"""Data up to which settings are tried on all rows, if methods and measures are quick."""
CONFIDENCE, KEPT_SHARE = 0.95, 0.95
"""A chosen setting keeps the limit in this share of fresh draws, with this confidence."""


def tolerance_bound(values: Sequence[float]) -> float:
    """Give the bound below which, with 95 % confidence, at least 95 % of further values lie: mean + k·sd.

    The values are taken as a normal sample; k = t'₀.₉₅(z₀.₉₅·√n)/√n with n − 1 degrees of freedom (noncentral t). It
    exceeds the bound of the mean itself, mean + t₀.₉₅·sd/√n. Equal values are their own bound, one value too.
    """
    n = len(values)
    if n < 2 or max(values) - min(values) <= 1e-12 * max(map(abs, values)):
        return max(values)
    from scipy.stats import nct, norm

    k = float(nct.ppf(CONFIDENCE, n - 1, norm.ppf(KEPT_SHARE) * math.sqrt(n))) / math.sqrt(n)
    return max(fmean(values) + k * stdev(values), *values)


def check_numbers(
    *,
    max_risk: float | None = None,
    min_utility: float | None = None,
    seconds: float | None = None,
    runs: int = RUNS,
    sample: int | str | None = "auto",
    draws: int = DRAWS,
) -> None:
    """Refuse limits, budgets and counts that make no sense, all at once."""
    problems = []
    if max_risk is not None and min_utility is not None:
        problems.append("max_risk and min_utility: give one of them; the other figure is what is made best")
    for name, value in (("max_risk", max_risk), ("min_utility", min_utility), ("seconds", seconds)):
        if value is not None and not (_is_number(value) and math.isfinite(value)):
            problems.append(f"{name}: expected a number")
    if seconds is not None and _is_number(seconds) and not seconds > 0:
        problems.append("seconds: expected a number above 0")
    if not isinstance(runs, int) or isinstance(runs, bool) or runs < 1:
        problems.append("runs: expected a whole number of at least 1")
    if not isinstance(draws, int) or isinstance(draws, bool) or draws < 2:
        problems.append("draws: expected a whole number of at least 2")
    if sample not in (None, "auto") and (not isinstance(sample, int) or isinstance(sample, bool) or sample < 2):
        problems.append("sample: expected auto, a whole number of rows, at least 2, or nothing for all rows")
    if problems:
        raise PlanError(problems)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


MOST_SETTINGS = 10_000
"""More settings than this are taken for a mistake in the grid."""

Place = tuple[str | int, ...]
Named = tuple[tuple[str, Any], ...]
OnFault = Callable[[Place, str], None]


@dataclass(frozen=True)
class Grid:
    """Several values for a field of a method: `dc.Grid([1, 5, 10])`, in a plan `{grid: [1, 5, 10]}`."""

    values: Sequence[Any]

    def to_plan(self) -> dict[str, Any]:
        """Give the values as a plan writes them."""
        return {"grid": list(self.values)}


@dataclass(frozen=True)
class Range:
    """Evenly spaced values from `low` to `high`; whole ends give whole numbers, `log` spaces them by equal ratios."""

    low: float
    high: float
    steps: int = 5
    log: bool = False

    def to_plan(self) -> dict[str, Any]:
        """Give the range as a plan writes it."""
        return {"range": [self.low, self.high], "steps": self.steps, **({"log": True} if self.log else {})}


class Vary:
    """A method some of whose fields stand for several values.

    In a plan the same is `rank-swap: {columns: [income], percent: {grid: [1, 5, 10]}}`. Parts inside fields, and
    entries of mappings, can vary too: `dc.Vary(dc.Generalize, levels={"age": dc.Range(1, 3, 3)})`.

    Examples
    --------
    >>> import discretion as dc
    >>> dc.Vary(dc.RankSwap, columns=["income"], percent=dc.Grid([1, 5, 10])).to_plan()
    {'rank-swap': {'columns': ['income'], 'percent': {'grid': [1, 5, 10]}}}
    """

    def __init__(self, method: type[Method] | str, **fields: Any) -> None:
        self.kind = method if isinstance(method, str) else method.kind
        self.fields = fields

    def __repr__(self) -> str:
        return f"Vary({self.kind}, {', '.join(f'{name}={value!r}' for name, value in self.fields.items())})"

    def to_plan(self) -> dict[str, Any]:
        """Give the method as a plan writes it."""
        return {self.kind: _plain(self.fields)}


def _plain(value: Any) -> Any:
    """Turn grids, ranges and parts at any depth into what a plan writes."""
    if isinstance(value, Grid | Range | Vary | Part):
        return _plain(value.to_plan())
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class Setting:
    """One point of the space: methods with all fields fixed, and which of them vary."""

    methods: tuple[Method, ...]
    entry: int
    """which of the given methods or pipelines it comes from"""
    varied: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def family(self) -> str:
        """The kinds of its methods, in order."""
        return " + ".join(method.kind for method in self.methods) or "no method"

    @property
    def label(self) -> str:
        """The kinds and the values of the fields that vary."""
        shown = ", ".join(f"{name}={_short(value)}" for name, value in self.varied.items())
        return f"{self.family} ({shown})" if shown else self.family

    def to_plan(self) -> list[dict[str, Any]]:
        """Give the steps as a plan writes them."""
        return [method.to_plan() for method in self.methods]


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def settings_of(methods: Any, on_fault: OnFault | None = None) -> tuple[Setting, ...]:
    """Give every setting of the methods; faults go to `on_fault` with their place, or are raised together."""
    problems: list[str] = []

    def collect(place: Place, message: str) -> None:
        shown = ".".join(str(item + 1) if isinstance(item, int) else item for item in place)
        problems.append(f"methods.{shown}: {message}" if shown else f"methods: {message}")

    report = on_fault or collect
    found: list[Setting] = []
    if isinstance(methods, str | Mapping | Part | Vary) or not isinstance(methods, Sequence) or not methods:
        report((), "expected a list of methods or pipelines, at least one")
    else:
        for number, entry in enumerate(methods):
            found += _entry_settings(number, entry, report)
    if problems:
        raise PlanError(problems)
    return tuple(found)


def _entry_settings(number: int, entry: Any, report: OnFault) -> list[Setting]:
    """Expand one method or pipeline; nothing where it has a fault, which is reported with its place."""
    pipeline = isinstance(entry, list | tuple)
    steps = list(entry) if pipeline else [entry]
    if not steps:
        report((number,), "the pipeline has no steps")
        return []
    faults: list[tuple[Place, str]] = []
    options: list[list[tuple[Method, Named]]] = []
    for place, step in enumerate(steps):
        where: Place = (number, place) if pipeline else (number,)
        options.append(_step_options(_plain(step), where, faults))
    if not faults and (count := _size(options)) > MOST_SETTINGS:
        faults.append(((number,), f"{count:,} settings; at most {MOST_SETTINGS:,} are tried: take a coarser grid"))
    for where, message in faults:
        report(where, message)
    if faults:
        return []
    several = sum(any(named for _, named in option) for option in options) > 1
    made: list[Setting] = []
    for combination in product(*options):
        varied: dict[str, Any] = {}
        for method, named in combination:
            varied |= {_unused(f"{method.kind}.{name}" if several else name, varied): v for name, v in named}
        made.append(Setting(tuple(method for method, _ in combination), number, MappingProxyType(varied)))
    return made


def _unused(name: str, taken: Mapping[str, Any]) -> str:
    """Give a name that is not taken, where one method stands twice in a pipeline."""
    number, chosen = 2, name
    while chosen in taken:
        number, chosen = number + 1, f"{name} ({number})"
    return chosen


def _size(options: Sequence[Sequence[Any]]) -> int:
    count = 1
    for option in options:
        count *= len(option)
    return count


def _step_options(spec: Any, where: Place, faults: list[tuple[Place, str]]) -> list[tuple[Method, Named]]:
    """Build a method for every combination of its values."""
    inner: Place = (*where, str(next(iter(spec)))) if isinstance(spec, Mapping) and len(spec) == 1 else where
    found: list[tuple[Method, Named]] = []
    try:
        if isinstance(spec, Mapping) and len(spec) == 1 and isinstance(next(iter(spec.values())), Mapping):
            ((kind, fields),) = spec.items()
            variants: list[tuple[Any, Named]] = list(_bounded(_expand(fields, ""), kind))
            specs: list[tuple[Any, Named]] = [({kind: values}, named) for values, named in variants]
        else:
            specs = [(spec, ())]
        for one, named in specs:
            part = parse(one, "method")
            if isinstance(part, Method):
                found.append((part, named))
    except PlanError as error:
        faults.extend((inner, problem) for problem in error.problems)
        return []
    return found


def _bounded(variants: Iterator[tuple[Any, Named]], kind: str) -> Iterator[tuple[Any, Named]]:
    for number, variant in enumerate(variants):
        if number >= MOST_SETTINGS:
            raise PlanError(f"{kind}: more than {MOST_SETTINGS:,} settings; take a coarser grid")
        yield variant


def _expand(value: Any, name: str) -> Iterator[tuple[Any, Named]]:
    """Give every choice of the values inside `value`, with the names of what varies."""
    choices = _choices(value, name)
    if choices is not None:
        yield from ((choice, ((name, choice),)) for choice in choices)
        return
    if not isinstance(value, Mapping | list):
        yield value, ()
        return
    keys = list(value) if isinstance(value, Mapping) else list(range(len(value)))
    inner = [list(_expand(value[key], _below(name, key))) for key in keys]
    for combination in product(*inner):
        named = tuple(item for _, names in combination for item in names)
        chosen = [one for one, _ in combination]
        yield (dict(zip(keys, chosen, strict=True)) if isinstance(value, Mapping) else chosen), named


def _below(name: str, key: object) -> str:
    """Name what lies inside a field: `levels.age`; the position in a list is left out."""
    if isinstance(key, int):
        return name
    return f"{name}.{key}" if name else str(key)


def _choices(value: Any, name: str) -> list[Any] | None:
    """Read `{grid: […]}` and `{range: [low, high], steps: n}`; None where the value is fixed."""
    if not isinstance(value, Mapping):
        return None
    if set(value) == {"grid"}:
        given = value["grid"]
        if not isinstance(given, list) or not given:
            raise PlanError(f"{name}: grid: expected a list of values, at least one")
        if any(one in given[:number] for number, one in enumerate(given)):
            raise PlanError(f"{name}: grid: a value stands twice")
        return given
    if "range" in value and set(value) <= {"range", "steps", "log"}:
        return _spaced(value["range"], value.get("steps", Range.steps), value.get("log", False), name)
    return None


def _spaced(ends: Any, steps: Any, log: Any, name: str) -> list[float]:
    import numpy as np

    def number(item: Any) -> bool:
        return isinstance(item, int | float) and not isinstance(item, bool)

    if not isinstance(ends, list) or len(ends) != 2 or not all(map(number, ends)) or not ends[0] < ends[1]:
        raise PlanError(f"{name}: range: expected [low, high], two numbers, the smaller one first")
    if not isinstance(steps, int) or isinstance(steps, bool) or not 2 <= steps <= MOST_SETTINGS:
        raise PlanError(f"{name}: steps: expected a whole number from 2 to {MOST_SETTINGS:,}")
    if not isinstance(log, bool):
        raise PlanError(f"{name}: log: expected true or false")
    low, high = ends
    if log and low <= 0:
        raise PlanError(f"{name}: log: spacing by ratios needs a range above 0")
    values = np.geomspace(low, high, steps) if log else np.linspace(low, high, steps)
    if isinstance(low, int) and isinstance(high, int):
        return [int(one) for one in np.unique(np.rint(values))]
    return [float(f"{one:.10g}") for one in values]
