"""Measures: what a release risks and what it has lost."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args, get_origin

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from discretion.context import Context, Progress, ignore_progress
from discretion.data.dataset import Dataset
from discretion.display import figure, table
from discretion.engines.scan import Scan
from discretion.errors import DataError, PlanError
from discretion.part import Family, Part, all_parts, instead

if TYPE_CHECKING:
    import polars as pl

Better = Literal["lower", "higher"]
_EVERYBODY, _DRAWN = 50_000, 10_000
"""Of more records that stay in their files, an attack looks for so many people, drawn at random, among all."""
_WORK = {"columns": 4, "sampled": 10}
"""How many times the columns that they read measures need of memory: codes and sorted copies, matrices and trees."""

_GROUPS, _LEAST, _BEYOND = 20, 25, 2.093
"""Random groups of a sample whose figures are compared, their rows at least, and the quantile of t for 95%."""


@dataclass(frozen=True)
class Score:
    """The result of a measure. `detail` is plain data for the internal report; `per_record` follows the rows."""

    measure: str
    value: float
    better: Better
    family: Family
    meaning: str = ""
    detail: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    per_record: NDArray[Any] | None = field(default=None, repr=False)
    more_per_record: Mapping[str, NDArray[Any]] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    """further figures of each record, by name"""

    def _repr_html_(self) -> str:
        chance = self.detail.get("chance")
        row = (self.measure, figure(self.value), f"{self.better} is better", self.family)
        beside = f"Guessing: {figure(float(chance))}." if isinstance(chance, int | float) else ""
        return table("Score", ("measure", "value", "direction", "family"), [row], f"{self.meaning} {beside}".strip())

    def to_dict(self) -> dict[str, Any]:
        """Give the score as plain data, without the per-record arrays."""
        return {
            "measure": self.measure,
            "value": self.value,
            "better": self.better,
            "family": self.family,
            "meaning": self.meaning,
            "detail": dict(self.detail),
        }


class Scores(tuple[Score, ...]):
    """Several scores in a row; a notebook shows them as one table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        def guessing(score: Score) -> str:
            chance = score.detail.get("chance")
            return figure(float(chance)) if isinstance(chance, int | float) else ""

        heads = ("", "measure", "value", "better", "guessing", "meaning")
        rows = [(s.family, s.measure, figure(s.value), s.better, guessing(s), s.meaning) for s in self]
        return table(f"{len(self)} score{'' if len(self) == 1 else 's'}", heads, rows)


class Measure(Part):
    """A measure of risk or utility: `assess(original, released, ctx) -> Score`."""

    family: ClassVar[Family] = "utility"
    better: ClassVar[Better] = "lower"
    needs: ClassVar[Literal["both", "released"]] = "both"
    """`released`: computed on one data set; the report runs it on the original and on the release."""
    aligned: ClassVar[bool] = True
    """Compares each record with itself; meaningless when the rows cannot be matched."""
    adds_up: ClassVar[bool] = False
    """Its value is a sum over the records: that of a sample is a part of it."""
    of_steps: ClassVar[bool] = False
    """Attacks the steps that made the release, all copies of a run together, and not one file of it."""
    reads_order: ClassVar[bool] = False
    """Looks at the order of the released rows; the others may be computed in any order."""
    on_original: ClassVar[bool] = True
    """Says something of the original itself, so that a figure before and one after can stand side by side."""
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, None)
    """The smallest and the largest possible value."""
    screens_with: ClassVar[int | None] = None
    """`sample` with which tuning tries settings on all rows; 0: as it is, in about linear time; None: on fewer rows."""

    @abstractmethod
    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Compare a release with the original."""

    def __call__(
        self,
        original: Any,
        released: Any = None,
        *,
        id: str | None = None,  # noqa: A002 - the word users know
        align: Literal["auto", "position"] = "auto",
        seed: int | None = 0,
        progress: Progress = ignore_progress,
    ) -> Score:
        """Assess frames or Datasets: `measure(original, released)`, or `measure(data)` where one is enough.

        Rows of data from outside are matched by the column `id`, as `match_rows` finds, or as they stand with
        `align="position"`; `Score.detail["aligned_by"]` says by what.
        """
        first = Dataset.of(original)
        if released is None and self.needs == "both":
            raise PlanError(f"{self.kind} compares two data sets: call it with (original, released)")
        second = first if released is None else Dataset.of(released)
        ctx = Context(0 if seed is None else seed, self.kind, progress)
        if second is first or (second.origin is first.origin and id is None) or not (len(first) and len(second)):
            return self.run(first, second, ctx)
        if isinstance(second, Scan):
            if id is not None or align == "position":
                raise PlanError(f"{self.kind}: rows that stay in their files are matched as they stand, or not at all")
            return self.run(first, second, ctx)
        bare = second.schema.columns == {} and first.schema.columns != {}
        if bare:
            second = Dataset(second.to_native(), schema=first.schema.only(second.columns))
        if id is not None:
            return _told(self.run(first, match_by(first, second, id), ctx), f"column {id!r}")
        if align == "position" and len(first) == len(second):
            found: Matched | None = Matched(np.arange(len(second)), "position")
        else:
            found = _found(first, second) if bare or (self.needs == "both" and self.aligned) else None
        if found is None:
            return self.run(first, second, ctx)
        matched = found.give(first, second) if bare or align == "position" or found.by != "position" else second
        return _told(self.run(first, matched, ctx), found.by)

    def run(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Match the rows where the measure needs it, then assess."""
        if len(released) == 0 or len(original) == 0:
            raise DataError(f"{self.kind}: the data has no rows; a measure of nothing says nothing")
        if isinstance(released, Scan):
            if self.scale == "classes":
                return self._over_classes(released, ctx)
            return self._over_rows(original, released, ctx)
        if self.scale != "classes":
            original.require_rows(self.kind)
            released.require_rows(self.kind)
        if released.copy_column is not None and not self.of_steps:
            return self._over_copies(original, released, ctx)
        if self.needs == "both" and self.aligned:
            original, released = align(original, released, self.kind)
        return self.assess(original, released, ctx)

    def refuse_scan(self, original: Scan, released: Scan) -> str:
        """Say why all records that stay in their files cannot be assessed; empty where they can."""
        if self.scale in ("columns", "sampled"):
            short = original.too_large(released, self.reads(original, released), _WORK[self.scale])
            return f"{self.kind}: {short}" if short else ""
        short = f"{self.kind} needs all rows in memory{instead(self.kind)}; the data stays in its files"
        return "" if self.scale == "classes" else short

    def on_files(self, released: Dataset) -> Self:
        """Give the measure as it is run on rows that stay in their files: there are too many to look for everybody."""
        many = isinstance(released, Scan) and len(released) > _EVERYBODY
        if not many or self.scale != "sampled" or getattr(self, "sample", False):
            return self
        return self.model_copy(update={"sample": _DRAWN})

    def reads(self, original: Dataset, released: Dataset) -> tuple[str, ...]:
        """Name the columns that a measure of rows needs: those it names with what joins them, or all."""
        named = {text for text in _texts_in(self) if text in original.columns}
        if not named:
            hidden = {name for name in original.having("identifier") if name not in released.columns}
            return tuple(name for name in original.columns if name not in hidden)
        for step in released.pending if isinstance(released, Scan) else ():
            named |= step.touched if step.touched & named else set()
        named |= {*original.having("weight", "household", "unit")}
        return tuple(name for name in original.columns if name in named)

    def _over_rows(self, original: Dataset, released: Scan, ctx: Context) -> Score:
        """Assess all records, with the columns that the measure reads in memory; no figure per record is kept."""
        first = original if isinstance(original, Scan) else released.original
        if short := self.refuse_scan(first, released):
            there = ("classes",) if released.store.remote else ("classes", "columns", "sampled")
            others = [one for one in all_parts(self.family) if one.scale in there and one.kind != self.kind]
            raise PlanError(f"{short}; these can be used instead: {', '.join(one.kind for one in others)}")
        sides = first.beside(released, self.reads(first, released))
        return replace(self.on_files(released).run(*sides, ctx), per_record=None, more_per_record={})

    def counts_with(self, released: Dataset) -> tuple[str, ...]:  # noqa: ARG002
        """Name further columns that a measure of classes needs of their records."""
        return ()

    def _over_classes(self, released: Scan, ctx: Context) -> Score:
        """Assess the classes with their counts; no figure per record."""
        columns = released.choose(getattr(self, "columns", ()), "classes")
        table = released.table([*columns, *self.counts_with(released)])
        found = self.assess(table, table, ctx)
        moved = {name for step in released.pending if step.method.perturbs for name in step.touched} & set(columns)
        warned = (
            f" Warning: {', '.join(sorted(moved))} were perturbed; this figure takes them as true." if moved else ""
        )
        return replace(found, meaning=found.meaning + warned, per_record=None, more_per_record={})

    def _over_copies(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Assess synthetic copies one by one; an attacker has all of them, so that a risk is the worst that is found.

        An attack that needs no matching also attacks all copies together. A loss is the mean over the copies.
        """
        copies = released.copies()
        found = [self.run(original, copy, ctx) for copy in copies]
        values = [score.value for score in found]
        if self.family == "risk":
            if self.needs == "both" and not self.aligned:
                whole = released.drop([released.copy_column or ""])
                whole.copy_column = None
                found.append(self.run(original, whole, ctx))
            pick = max if self.better == "lower" else min
            worst = pick(found, key=lambda score: score.value)
            seen = "all copies together" if worst is found[-1] and len(found) > len(copies) else "the worst copy"
            told = f"{worst.meaning} (Of {len(copies)} copies: {seen}.)"
            # what one attack reaches beyond people outside the data may be most where its own figure is not
            named = [
                name for name, held in worst.detail.items() if name.startswith("advantage") and isinstance(held, float)
            ]
            most = {name: max(score.detail[name] for score in found if name in score.detail) for name in named}
            return replace(worst, meaning=told, detail={**worst.detail, **most, "copies": values}, per_record=None)
        mean = float(np.mean(values))
        told = f"Mean of {len(copies)} copies: {mean:.3g}. First copy: {found[0].meaning}"
        return replace(
            found[0], value=mean, meaning=told, detail={**found[0].detail, "copies": values}, per_record=None
        )

    def score(self, value: float, meaning: str, per_record: NDArray[Any] | None = None, **detail: Any) -> Score:
        """Wrap a figure with the direction and family of this measure."""
        return Score(self.kind, float(value), self.better, self.family, meaning, detail, per_record)


class RiskShare(Measure):
    """A risk as a share of what could be found: 0 is none."""

    family: ClassVar[Family] = "risk"
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)


def _texts_in(found: Any) -> Iterator[str]:
    """Give all texts that may name columns: also in parts of a part and the keys of mappings, not chosen options."""
    if isinstance(found, str):
        yield found
    elif isinstance(found, BaseModel):
        for name, field in type(found).model_fields.items():
            if not _is_option(field.annotation):
                yield from _texts_in(getattr(found, name))
    elif isinstance(found, Mapping):
        yield from _texts_in([*found, *found.values()])
    elif isinstance(found, list | tuple):
        for one in found:
            yield from _texts_in(one)


def _is_option(annotation: Any) -> bool:
    """Tell whether a field takes one of a few words."""
    return get_origin(annotation) is Literal or any(map(_is_option, get_args(annotation)))


def as_percent(share: float) -> str:
    """Write a share as a percentage with two digits that say something: 12.3%, 0.026%."""
    return f"{share:.1%}" if share == 0 or share >= 0.0995 else f"{share * 100:.2g}%"


def _told(score: Score, by: str) -> Score:
    return replace(score, detail={**score.detail, "aligned_by": by})


def align(original: Dataset, released: Dataset, who: str = "measure") -> tuple[Dataset, Dataset]:
    """Restrict the original to the records of the release, in its order; data from outside is matched first."""
    if released is original:
        return original, released
    if released.has_new_rows:
        raise DataError(f"{who}: the rows of the release are synthetic and belong to nobody; nothing can be matched")
    if released.origin is not original.origin:
        found = match_rows(original, released, who)
        if found.by == "position":
            return original, released
        released = found.give(original, released)
    wanted = released.row_ids
    if len(wanted) == len(original) and np.array_equal(wanted, original.row_ids):
        return original, released
    order = np.argsort(original.row_ids, kind="stable")
    place = np.searchsorted(original.row_ids[order], wanted)
    if len(wanted) and (place.max() >= len(order) or (original.row_ids[order][place] != wanted).any()):
        raise DataError(f"{who}: the release has rows that the original does not have")
    rows = order[place]
    # kept with the release, so that several measures share it; the original is kept too: its id stays its own
    kept = released.cached((f"part of {id(original)}",), lambda: (original, original.take(rows)))
    return kept[1], released


def of_sample(
    measure: Measure, found: Score, original: Dataset, released: Dataset, records: int, ctx: Context
) -> Score:
    """Say of a figure of a random sample of rows that belong together where that of all records lies.

    By how much the figures of random groups of the sample differ; a sum over records is that of all of them.
    """
    rows = len(released)
    whole = records / rows if measure.adds_up else 1.0
    value, detail, meaning = found.value * whole, dict(found.detail), found.meaning
    if measure.scale == "columns" and measure.aligned and rows >= _GROUPS * _LEAST:
        order = ctx.within("groups of the sample").rng.permutation(rows)
        each = [measure.run(original, released.take(part), ctx).value for part in np.array_split(order, _GROUPS)]
        scale = _GROUPS if measure.adds_up else 1
        error = (
            float(np.std(each, ddof=1)) * scale * whole / math.sqrt(_GROUPS) * math.sqrt(max(0.0, 1 - rows / records))
        )
        detail["interval"] = [max(0.0, value - _BEYOND * error), value + _BEYOND * error]
        low, high = (f"{end:.4g}" for end in detail["interval"])
        meaning += f" On a random sample of {rows:,} records; of all it is {value:.4g}, between {low} and {high} (95%)."
    return replace(found, value=value, detail=detail, meaning=meaning)


def source_of(original: Dataset, released: Dataset) -> Dataset | None:
    """Give the data a release was made from, row by row as the release; None where it is not known."""
    before = released.origin if original is released else original
    if before is released:
        return None
    try:
        return align(before, released)[0]
    except DataError:
        return None


@dataclass(frozen=True)
class Matched:
    """For each row of data from outside its position in the original (−1: left out), and what told it."""

    rows: NDArray[np.int64]
    by: str

    def give(self, original: Dataset, released: Dataset) -> Dataset:
        """Give the data with row ids of the original, without the rows that have none."""
        known = self.rows >= 0
        return (released if known.all() else released.take(known)).matched_to(original, self.rows[known])


_CLEAR = 6.0
_ASIDE = 3.0
_FEW = 20
_LOOKED_AT = 5_000
_SHARE_FOUND = 0.99


def match_rows(original: Dataset, released: Dataset, who: str = "measure") -> Matched:
    """Find out which row of data from outside belongs to which row of the original, or raise.

    Rows are matched by a column with the role identifier, by the index of pandas frames, or by another column of texts
    or whole numbers, if its values differ in both and 99 % of those of the release stand in the original (the other
    rows are left out); otherwise as they stand, if there are as many and the columns agree far above chance. By an id
    the other columns must agree far above chance too, where any can tell (other people may have got the ids); by a
    column without that role more than as they stand, and none of them less: values that were swapped all differ too.

    Agreement of a column is the rank correlation of numbers, the association (chi-square) of categories and tenths of
    numbers, and the equality of texts, each as a standard score (what random matching gives has mean 0 and standard
    deviation 1); the largest counts. Far above chance: a score of 6 in some column, with fewer than 101 rows
    0.6·√(n−1), as a rank correlation of 0.6 gives; with fewer than 20 rows no test can tell, and any agreement above
    chance will do. Constant columns have no say; where all are, every matching gives the same figures. Files of
    different people that are sorted alike agree as well: only an id can tell them apart.
    """
    kept = released.cached((f"matched to {id(original)}",), lambda: (original, _found(original, released)))
    if kept[1] is not None:
        return kept[1]
    same = len(original) == len(released)
    what = (
        "the values do not agree in the order in which the rows stand"
        if same
        else f"the original has {len(original)} rows and the release {len(released)}"
    )
    raise DataError(
        f"{who}: {what}, and nothing tells which rows belong together; name a column of both that does (id=, --id "
        "COLUMN), or give the journal of a release made here (--journal FOLDER)"
        + ("; if row by row they do belong together, say so (align='position', --by-position)" if same else "")
    )


def _found(original: Dataset, released: Dataset) -> Matched | None:
    shared = [name for name in released.columns if name in original.columns]
    places = np.arange(len(released)) if len(released) == len(original) else None
    standing = None if places is None else _agreement(original, released, shared, places)
    for name, one, other in _ids(original, released, shared):
        rows = _positions(one, other)
        if rows is None:
            continue
        others = {column: z for column, z in _agreement(original, released, shared, rows).items() if column != name}
        rival = {column: z for column, z in (standing or {}).items() if column != name}
        if name in original.having("identifier") or not name:
            told = not others or _is_clear(others, len(released))
            if told and (not _is_clear(rival, len(released)) or sum(others.values()) >= sum(rival.values())):
                return Matched(rows, f"column {name!r}" if name else "index")
        elif (
            _is_clear(others, len(released))
            and sum(others.values()) > sum(rival.values())
            and all(others.get(column, 0.0) > z - _ASIDE for column, z in rival.items())
        ):
            return Matched(rows, f"column {name!r}")
    if places is None or standing is None:
        return None
    alike = not standing or _is_clear(standing, len(released))
    if alike or original.frame.select(shared).equals(released.frame.select(shared), null_equal=True):
        return Matched(places, "position")
    return None


def _is_clear(agreement: Mapping[str, float], rows: int) -> bool:
    """Tell whether some column agrees far above chance."""
    largest = max(agreement.values(), default=0.0)
    return largest > 0 if rows < _FEW else largest >= min(_CLEAR, 0.6 * math.sqrt(rows - 1))


def _ids(original: Dataset, released: Dataset, shared: Sequence[str]) -> Iterator[tuple[str, pl.Series, pl.Series]]:
    """Give what may tell the rows: identifiers, the index of pandas frames (without a name), other columns."""
    import polars as pl

    roles = [name for name in original.having("identifier") if name in shared]
    for name in roles:
        yield name, original.frame[name], released.frame[name]
    one, other = (getattr(data.to_native(), "index", None) for data in (original, released))
    if one is not None and other is not None and not (_only_counts(one) and _only_counts(other)):
        yield "", pl.Series([str(label) for label in one]), pl.Series([str(label) for label in other])
    for name in shared if len(released) >= _FEW else ():
        kind = original.frame.schema[name]
        if name not in roles and not kind.is_float() and not kind.is_nested():
            yield name, original.frame[name], released.frame[name]


def _only_counts(index: Any) -> bool:
    return type(index).__name__ == "RangeIndex"


def _positions(original: pl.Series, released: pl.Series) -> NDArray[np.int64] | None:
    """Find each id of the release in the original, −1 where it is not; None where the ids do not tell the rows."""
    for ids in (original, released):
        if ids.null_count() or ids.n_unique() < len(ids):
            return None
    rows = _look_up(original, released)
    if rows.null_count() > (1 - _SHARE_FOUND) * len(rows):
        return None
    return rows.fill_null(-1).to_numpy().astype(np.int64)


def _agreement(
    original: Dataset, released: Dataset, columns: Sequence[str], rows: NDArray[np.int64]
) -> dict[str, float]:
    """Score how well the values of each column agree, matched in one way; columns that cannot tell are left out."""
    places = np.flatnonzero(rows >= 0)
    if len(places) > _LOOKED_AT:
        places = np.sort(np.random.default_rng(0).choice(places, _LOOKED_AT, replace=False))
    return {
        name: score
        for name in columns
        if (score := _column_score(original.frame[name][rows[places]], released.frame[name][places])) is not None
    }


def _column_score(one: pl.Series, other: pl.Series) -> float | None:
    from scipy.stats import rankdata

    one, other = (series.to_physical() if series.dtype.is_temporal() else series for series in (one, other))
    n, scores = len(one), []
    if one.dtype.is_numeric() and other.dtype.is_numeric():
        x, y = (series.cast(float).to_numpy() for series in (one, other))
        both = ~np.isnan(x) & ~np.isnan(y)
        if both.sum() > 2 and np.ptp(x[both]) > 0 and np.ptp(y[both]) > 0:
            correlation = np.corrcoef(rankdata(x[both]), rankdata(y[both]))[0, 1]
            scores.append(float(correlation) * math.sqrt(both.sum() - 1))
    texts = [_texts(series) for series in (one, other)]
    if not (one.dtype.is_numeric() and other.dtype.is_numeric()):
        scores += _equality_score(*texts)
    a, b = (_kinds(series, text) for series, text in zip((one, other), texts, strict=True))
    freedom = int(a.max(initial=0) * b.max(initial=0))
    if freedom > 0 and n > 1:
        cells = np.zeros((a.max() + 1, b.max() + 1))
        np.add.at(cells, (a, b), 1)
        expected = cells.sum(axis=1, keepdims=True) * cells.sum(axis=0) / n
        square = float(((cells - expected) ** 2 / expected).sum()) * (n - 1) / n
        spread = 2 / (9 * freedom)  # Wilson & Hilferty: the cube root of a chi-square is nearly normal
        scores.append(((square / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread))
    return max(scores, default=None)


def _texts(series: pl.Series) -> NDArray[Any]:
    import polars as pl

    nested = series.dtype.is_nested()
    plain = series.cast(pl.List(pl.String)).list.sort().list.join("|") if nested else series.cast(pl.String)
    return plain.fill_null("").to_numpy()


def _equality_score(one: NDArray[Any], other: NDArray[Any]) -> list[float]:
    """Give how many values are equal as a standard score under all matchings of the rows; nothing where it is fixed."""
    n = len(one)
    values, codes = np.unique(np.concatenate([one, other]), return_inverse=True)
    a, b = (np.bincount(part, minlength=len(values)).astype(float) for part in (codes[:n], codes[n:]))
    pairs = (a * b).sum()
    spread = (pairs - (a * b * (a + b)).sum() / n + pairs**2 / n**2) / max(n - 1, 1)
    if spread <= 1e-12 * max(n, 1):
        return []
    return [float((np.count_nonzero(codes[:n] == codes[n:]) - pairs / n) / math.sqrt(spread))]


def _kinds(series: pl.Series, texts: NDArray[Any]) -> NDArray[np.int64]:
    """Number the values: tenths of numbers where many differ, otherwise each value, rare ones (below 5 %) together."""
    if series.dtype.is_numeric() and series.n_unique() > _FEW:
        x = series.cast(float).to_numpy()
        known = ~np.isnan(x)
        cuts = np.unique(np.quantile(x[known], np.arange(1, 10) / 10)) if known.any() else np.empty(0)
        return np.unique(np.where(known, np.searchsorted(cuts, x), -1), return_inverse=True)[1]
    _, codes = np.unique(texts, return_inverse=True)
    rare = np.bincount(codes)[codes] < max(len(codes) / _FEW, 2)
    return np.unique(np.where(rare, -1, codes), return_inverse=True)[1]


def match_by(original: Dataset, released: Dataset, column: str) -> Dataset:
    """Give the release with row ids found through an id column that both have."""
    for data in (original, released):
        data.require([column])
        if data.frame[column].n_unique() < len(data) or data.count_missing(column):
            raise DataError(f"the id column {column!r} has missing or repeated values")
    rows = _look_up(original.frame[column], released.frame[column])
    if rows.null_count():
        raise DataError(f"{rows.null_count()} ids of the release do not stand in the original's {column!r}")
    return released.matched_to(original, rows.to_numpy().astype(np.int64))


def _look_up(original: pl.Series, released: pl.Series) -> pl.Series:
    """Give the position in the original of each id of the release, missing where it does not stand there."""
    import polars as pl

    index = pl.DataFrame({"key": original.cast(pl.String), "row": np.arange(len(original))})
    keys = pl.DataFrame({"key": released.cast(pl.String)})
    return keys.join(index, on="key", how="left", maintain_order="left")["row"]
