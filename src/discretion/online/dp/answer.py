"""Private answers: figures with noise, intervals and what is known about their error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from discretion.errors import DataError
from discretion.online.backend import Backend, Bounded, GroupKey
from discretion.online.dp.figures import Estimate, Noisy, estimate
from discretion.online.dp.groups import declared, passing
from discretion.online.dp.plan import CHOICES, Ingredient, name_of
from discretion.online.dp.price import ExpectedError, Price, price
from discretion.online.dp.quantiles import Mode
from discretion.online.query import Aggregate

if TYPE_CHECKING:
    import polars as pl

__all__ = ["ExpectedError", "Price", "PrivateAnswer", "PrivateFigure", "answer", "price"]

Numbers = dict[GroupKey, dict[tuple[object, ...], tuple[int, ...]]]


@dataclass(frozen=True)
class PrivateFigure:
    """One figure of one group; of a histogram one bin."""

    group: GroupKey
    figure: str
    estimate: Estimate
    bin: tuple[float, float] | None = None


@dataclass(frozen=True)
class PrivateAnswer:
    """All figures of an answer, as they were drawn; `frame` has one line for each, `values` one line per group."""

    group_by: tuple[str, ...]
    figures: tuple[PrivateFigure, ...]

    def frame(self) -> pl.DataFrame:
        """Give one line per figure: group, figure, bin, value, lower, upper, error and what the error is of.

        With a mode among them all values are texts.
        """
        import polars as pl

        columns: dict[str, Any] = {name: [f.group[i] for f in self.figures] for i, name in enumerate(self.group_by)}
        own: dict[str, Any] = {"figure": [f.figure for f in self.figures]}
        if any(f.bin is not None for f in self.figures):
            for side, name in enumerate(("bin_from", "bin_to")):
                own[name] = [None if f.bin is None else f.bin[side] for f in self.figures]
        for name in ("value", "lower", "upper", "error", "error_of"):
            own[name] = [getattr(f.estimate, name) for f in self.figures]
        categories = any(isinstance(value, str | bool) for value in own["value"])
        if categories:  # of modes: texts
            own["value"] = [str(value) for value in own["value"]]
        for name, content in own.items():
            columns[_free(name, self.group_by)] = content
        texts = ("figure", "error_of", *(("value",) if categories else ()))
        types = {_free(name, self.group_by): pl.String for name in texts}
        types |= {_free(n, self.group_by): pl.Float64 for n in own if n not in texts}  # type: ignore[misc]
        return pl.DataFrame(columns, schema_overrides=types, strict=False)

    def values(self) -> pl.DataFrame:
        """Give one line per group with a column per figure, as a true answer has them; a histogram is a list."""
        import polars as pl

        lines: dict[GroupKey, dict[str, Any]] = {}
        for found in self.figures:
            line = lines.setdefault(found.group, dict(zip(self.group_by, found.group, strict=True)))
            if found.bin is None:
                line[found.figure] = found.estimate.value
            else:
                line.setdefault(found.figure, []).append(found.estimate.value)
        return pl.DataFrame(list(lines.values()), infer_schema_length=None)

    def to_json(self) -> dict[str, Any]:
        """Give the answer as plain data."""
        figures = [
            {"group": list(f.group), "figure": f.figure, "bin": f.bin and list(f.bin), **asdict(f.estimate)}
            for f in self.figures
        ]
        return {"group_by": list(self.group_by), "figures": figures}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> PrivateAnswer:
        """Read an answer that was stored."""
        try:
            found = [dict(item) for item in content["figures"]]
            figures = tuple(
                PrivateFigure(
                    tuple(item.pop("group")),
                    item.pop("figure"),
                    bin=None if (ends := item.pop("bin")) is None else (ends[0], ends[1]),
                    estimate=Estimate(**item),
                )
                for item in found
            )
            return cls(tuple(content["group_by"]), figures)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise DataError("the stored answer cannot be read") from error


def _free(name: str, taken: Sequence[str]) -> str:
    """Give a name for a column that no group column has."""
    while name in taken:
        name += "_"
    return name


def answer(priced: Price, backend: Backend, *, nonnegative: bool = False) -> PrivateAnswer:
    """Draw an answer whose cost was charged before.

    Every call draws new noise and must be paid for; an answer is stored and given again, never drawn again. With
    `nonnegative`, counts below zero become zero (afterwards, at no cost).

    Examples
    --------
    >>> import polars as pl
    >>> from discretion.online.backend import open_backend
    >>> from discretion.online.catalog import TableSpec
    >>> from discretion.online.policy import DpPolicy
    >>> from discretion.online.query import Query
    >>> table = TableSpec(name="t", columns={"age": {"role": "public", "type": "integer"}})
    >>> question = Query("t", (Aggregate("count"),))
    >>> priced = price(question, table, DpPolicy(mode="dp", epsilon=10), epsilon=10)
    >>> found = answer(priced, open_backend([table], {"t": pl.DataFrame({"age": [30] * 50})}))
    >>> abs(found.frame()["value"].item() - 50) < 20
    True
    """
    found = backend.bounded(priced.query)
    numbers: Numbers = {}
    if priced.by_threshold:
        people = passing(found, priced.threshold)
        groups = {key: found[key] for key in people}
        numbers = {key: {("keys",): (count,)} for key, count in people.items()}
    else:
        groups = declared(priced.query, priced.table, found)
        numbers = {key: {} for key in groups}
    for part in priced.parts:
        if part.kind not in ("keys", *CHOICES):
            _draw(priced, part, groups, numbers)
    figures = [
        figure
        for key, group in groups.items()
        for place, aggregate in enumerate(priced.query.aggregates)
        for figure in _figures(priced, place, aggregate, key, group, numbers[key])
    ]
    if nonnegative:
        figures = [_nonnegative(figure, priced) for figure in figures]
    return PrivateAnswer(priced.query.group_by, tuple(figures))


def _draw(priced: Price, part: Ingredient, groups: Mapping[GroupKey, Bounded], numbers: Numbers) -> None:
    """Draw the noise of one ingredient for all groups at once."""
    column = priced.column(part.aggregate)
    true = {key: part.numbers(group, column) for key, group in groups.items()}
    noisy = iter(priced.noise(part).release([number for line in true.values() for number in line]))
    for key, line in true.items():
        numbers[key][part.name] = tuple(next(noisy) for _ in line)


def _figures(
    priced: Price,
    place: int,
    aggregate: Aggregate,
    key: GroupKey,
    group: Bounded,
    numbers: Mapping[tuple[object, ...], tuple[int, ...]],
) -> list[PrivateFigure]:
    if aggregate.function in CHOICES:
        choice = priced.choice(aggregate)
        if isinstance(choice, Mode):
            chosen = choice.find(group.figures[place].bins)
            made = Estimate(chosen, None, None, float(choice.count_error), "count")
            return [PrivateFigure(key, aggregate.label, made)]
        found = choice.find(group.figures[place].bins)
        made = Estimate(found.value, found.lower, found.upper, float(choice.rank_error), "rank")
        return [PrivateFigure(key, aggregate.label, made)]
    parts = {part.name: part for part in priced.parts}
    if aggregate.function == "histogram":
        name = name_of("bins", aggregate)
        off = priced.accuracies(parts[name])[priced.confidence]
        bins = zip(aggregate.cuts, aggregate.cuts[1:], numbers[name], strict=False)
        return [
            PrivateFigure(key, aggregate.label, Estimate(float(n), float(n - off), float(n + off), float(off)), (a, b))
            for a, b, n in bins
        ]
    noisy = {
        name: Noisy(line[0], parts[name], priced.accuracies(parts[name]))
        for name, line in numbers.items()
        if parts[name].kind != "bins"
    }
    made = estimate(aggregate, noisy, priced.column(aggregate), priced.confidence)
    return [PrivateFigure(key, aggregate.label, made)]


def _nonnegative(figure: PrivateFigure, priced: Price) -> PrivateFigure:
    counted = {a.label for a in priced.query.aggregates if a.function in ("count", "count-distinct", "histogram")}
    if figure.figure not in counted:
        return figure
    return PrivateFigure(figure.group, figure.figure, figure.estimate.at_least_zero(), figure.bin)
