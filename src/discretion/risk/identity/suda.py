"""Special uniques (SUDA), and which columns identify: distinction and separation of subsets (R10)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb, factorial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discretion.context import Context
from discretion.data.codes import ColumnCodes, Missing
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Floats, Ints
from discretion.measure import RiskShare, Score, as_percent
from discretion.part import Columns, Scale
from discretion.risk.identity.uniqueness import said, warning

if TYPE_CHECKING:
    import polars as pl

    from discretion.kernels.subsets import Scored

# How many subsets of the columns a measure may look at.

MOST_SUBSETS = 1 << 16
"""Subsets of columns that are looked at in one measure: all of sixteen columns."""


def largest_subset(kind: str, columns: int, max_size: int | None) -> int:
    """Give the size of the largest subset to look at, or refuse when the subsets would be too many."""
    from discretion.kernels.subsets import subset_count

    wanted = columns if max_size is None else min(max_size, columns)
    count = subset_count(columns, wanted)
    if count <= MOST_SUBSETS:
        return wanted
    if columns > MOST_SUBSETS:
        raise PlanError(f"{kind}: {columns:,} columns are too many; at most {MOST_SUBSETS:,}")
    possible = max(size for size in range(1, wanted) if subset_count(columns, size) <= MOST_SUBSETS)
    raise PlanError(
        f"{kind}: {columns} columns have {count:,} subsets of at most {wanted} columns, more than {MOST_SUBSETS:,}; "
        f"set `max_size` to at most {possible} ({subset_count(columns, possible):,} subsets) or name fewer columns"
    )


MOST_COLUMNS = 62
"""A set of columns is kept as the bits of one number."""
_VALUES_SHOWN = 50


@dataclass(frozen=True)
class SpecialUniques:
    """What makes each record special; rows follow the data, records left out have NaN."""

    columns: tuple[str, ...]
    scores: Floats
    """sum of the scores of the record's minimal sample uniques; 0 where there are none"""
    dis: Floats
    """probability that a match with the record is right (DIS-SUDA)"""
    rows: Ints
    """the records that have minimal sample uniques"""
    contributions: Floats
    """for each of `rows` and each column: the share of the record's score from sets that contain the column"""
    by_size: dict[int, int]
    """minimal sample uniques of each size"""
    pairs: int
    """records that share their values with exactly one other"""


class Suda(RiskShare, kind="suda"):
    """Share of records that are special: a few of their values are enough to be alone, so a match is likely right.

    A *minimal sample unique* is a set of columns on which a record is alone, and on no smaller one of them. The
    smaller these sets and the more of them, the likelier the record is alone in the population too. Each set of size s
    of M columns adds to the record's score; DIS turns scores into the probability that a match is right:
    1/(1 + P·(1−share)/share / (S^Q·Σ S_j^−Q)), Q = 1+(8−M)/20, P the records that share their values with one other.
    The value is the share of records whose DIS exceeds `threshold`; `per_record` is the DIS, the scores are in
    `more_per_record["scores"]`; the detail has the mean and the highest DIS, the number of sets by size, and the part
    of all scores in which each column and each value has a hand: what to recode first. Sets larger than `max_size` are
    not looked for and add nothing; the score of the others does not depend on `max_size`. `missing="ignore"` leaves
    incomplete records out, their `per_record` is NaN; `missing="skip"` leaves out, for each record, the sets of columns
    in which it has a missing value.

    Exact. Assumes unperturbed quasi-identifiers (after noise or swapping everybody looks special and is not), and warns
    where the source of the release is known and they were perturbed. Says nothing about records that share all their
    values, nor about what is learnt inside their class. Time at most linear in the rows for each subset of columns, far
    less in practice; memory linear in the rows, with a bit for each row and subset up to 256 megabytes. With
    `missing="wildcard"` every subset is counted anew.

    References
    ----------
    Elliot, Manning & Ford (2002), IJUFKS 10(5); Manning, Haglin & Keane (2008), DMKD 16; catalogue R10.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> table = pl.DataFrame({"age": [16, 40, 40, 41, 41], "state": ["widow", "single", "widow", "single", "single"]})
    >>> score = dc.Suda(columns=["age", "state"], share=0.1)(table)
    >>> score.detail["minimal_uniques"], score.detail["contributions"]["age"]
    ({1: 1, 2: 2}, 1.0)
    >>> score.per_record.round(3).tolist()
    [0.143, 0.143, 0.143, 0.0, 0.0]
    """

    columns: Columns = ()
    """columns an intruder may know; without it, the quasi-identifiers"""
    max_size: int | None = Field(None, ge=1)
    """largest number of columns in a minimal sample unique; without it, all"""
    share: float = Field(0.01, gt=0, le=1)
    """sampling fraction of the data, for the DIS"""
    threshold: float = Field(0.1, ge=0, lt=1)
    """a record counts when its DIS is higher; 0 counts every record with a minimal sample unique"""
    scoring: Literal["product", "supersets"] = "product"
    """score of a set of s of M columns: (M−s)·(M−s−1)·…·1, or (2^(M−s)−1)·s!·(M−s)!/M!, which is 0 for s = M"""
    missing: Missing | Literal["skip"] = "category"
    """how a missing value counts: as a category of its own, as matching anything, by leaving its record out, or by
    leaving out, for its record, the sets of columns that contain it (skip: the reading of sdcMicro)"""

    scale: ClassVar[Scale] = "classes"
    needs: ClassVar[Literal["both", "released"]] = "released"

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Find the minimal sample uniques and turn their scores into probabilities."""
        found = self.records(released, ctx)
        counted = ~np.isnan(found.dis)
        records = released.tally(counted)
        value = released.tally(found.dis > self.threshold) / records
        special = found.rows.size / records
        warned = warning(original, released, found.columns)
        score = self.score(
            value,
            said(
                f"For {as_percent(value)} of the records a match is right with a probability above {self.threshold:g}; "
                f"{as_percent(special)} are alone on some set of columns.",
                warned,
            ),
            per_record=found.dis,
            columns=list(found.columns),
            records=records,
            special_records=int(found.rows.size),
            share_special=special,
            mean_dis=released.average(found.dis, counted),
            highest_dis=float(found.dis[counted].max()),
            minimal_uniques=found.by_size,
            records_in_pairs=found.pairs,
            **self._parts(released, found),
            **warned,
        )
        return replace(score, more_per_record={"scores": found.scores})

    def records(self, data: Dataset, ctx: Context | None = None) -> SpecialUniques:
        """Give scores, DIS and the share of each column for every record."""
        ctx = ctx or Context(0, self.kind)
        columns = data.choose(self.columns, "classes")
        if len(columns) > MOST_COLUMNS:
            raise PlanError(f"{self.kind}: {len(columns)} columns named; at most {MOST_COLUMNS} are possible")
        size = largest_subset(self.kind, len(columns), self.max_size)
        kept = self._counted(data, columns)
        wild = self.missing == "wildcard" and any(data.codes(name).missing >= 0 for name in columns)
        weights = set_scores(self.scoring, len(columns))
        if wild:
            rows, pairs, scored = _by_wildcard(data, columns, size, weights, ctx)
        else:
            rows, pairs, scored = _by_class(data, columns, kept, size, weights, ctx, skip=self.missing == "skip")
        scores, dis = np.full((2, len(data)), np.nan)
        scores[kept] = dis[kept] = 0.0
        scores[rows] = scored.scores
        dis[rows] = match_probabilities(scored.scores, pairs, self.share, len(columns))
        special = scored.special
        divisor = np.where(scored.scores > 0, scored.scores, 1.0)[special, None]
        by_size = {s: int(count) for s, count in enumerate(scored.by_size) if count}
        parts = scored.contributions[special] / divisor
        return SpecialUniques(columns, scores, dis, rows[special], parts, by_size, pairs)

    def _counted(self, data: Dataset, columns: tuple[str, ...]) -> Ints:
        """Give the rows of the records that count."""
        if self.missing != "ignore":
            return np.arange(len(data))
        coded = [data.codes(name) for name in columns]
        rows = np.flatnonzero(np.logical_and.reduce([c.codes != c.missing for c in coded]))
        if not rows.size:
            raise DataError(f"{self.kind}: every record has a missing value in {', '.join(columns)}; none is left")
        return rows

    def _parts(self, data: Dataset, found: SpecialUniques) -> dict[str, Any]:
        """Give the share of all scores in which each column, and each value of it, has a hand."""
        scores = found.scores[found.rows]
        total = float(scores.sum())
        if total == 0:
            return {"contributions": dict.fromkeys(found.columns, 0.0), "value_contributions": {}}
        sums = found.contributions * scores[:, None]
        per_column = {name: float(sums[:, j].sum() / total) for j, name in enumerate(found.columns)}
        per_value = {name: _of_values(data.codes(name), found.rows, sums[:, j]) for j, name in enumerate(found.columns)}
        return {"contributions": per_column, "value_contributions": per_value}


def set_scores(scoring: Literal["product", "supersets"], columns: int) -> Floats:
    """Give the score of a minimal sample unique by its size (place 0 is empty)."""
    sizes = range(1, columns + 1)
    if scoring == "product":
        return np.array([0.0, *(float(factorial(columns - s)) for s in sizes)])
    return np.array([0.0, *((2.0 ** (columns - s) - 1) / comb(columns, s) for s in sizes)])


def match_probabilities(scores: Floats, pairs: int, share: float, columns: int) -> Floats:
    """Turn scores into DIS: the probability that a match with a record is right; 0 where the score is 0."""
    result = np.zeros(scores.size)
    special = scores > 0
    if special.any():
        relative = np.log(scores[special])
        power = 1 + (8 - columns) / 20
        weights = np.exp(power * (relative - relative.max()))  # scaled: scores of many columns are huge
        odds = weights * np.sum(1 / weights)
        result[special] = 1 / (1 + pairs * (1 - share) / share / odds)
    return result


def _by_class(
    data: Dataset, columns: tuple[str, ...], kept: Ints, size: int, weights: Floats, ctx: Context, *, skip: bool
) -> tuple[Ints, int, Scored]:
    """Give the rows of the sample uniques, the records in pairs, and the sums over minimal sample uniques."""
    from discretion.kernels.subsets import minimal_uniques

    part = data if kept.size == len(data) else data.take(kept)
    classes = part.classes(columns)
    alone = classes.counts == 1
    rows = np.concatenate((classes.first_rows[alone], classes.first_rows[~alone]))
    coded = [part.codes(name) for name in columns]
    codes = [c.codes[rows] for c in coded]
    unique = int(alone.sum())
    gaps = [own[:unique] == c.missing for c, own in zip(coded, codes, strict=True)]
    skipped = gaps if skip and any(gap.any() for gap in gaps) else None
    found = minimal_uniques(codes, unique, size, weights, ctx.progress, skipped)
    return kept[rows[:unique]], 2 * int((classes.counts == 2).sum()), found


def _by_wildcard(
    data: Dataset, columns: tuple[str, ...], size: int, weights: Floats, ctx: Context
) -> tuple[Ints, int, Scored]:
    """The same where a missing value matches anything: two records match when they agree wherever both have a value."""
    from discretion.kernels.classes import wildcard_counts
    from discretion.kernels.subsets import add_up_sets

    sizes = data.class_sizes(columns, "wildcard")
    rows = np.flatnonzero(sizes == 1)
    number = np.cumsum(sizes == 1, dtype=np.int32) - np.int32(1)
    coded = [data.codes(name) for name in columns]
    sets = [s for count in range(1, size + 1) for s in combinations(range(len(columns)), count)]

    def nodes() -> Iterator[tuple[int, NDArray[np.int32]]]:
        for done, chosen in enumerate(sets):
            ctx.progress(done, len(sets), "minimal sample uniques")
            some = [coded[j] for j in chosen]
            lost = [c.missing if c.missing >= 0 else None for c in some]
            rows_alike, records = wildcard_counts([c.codes for c in some], lost, [c.size for c in some], data.counts)
            matches = rows_alike if records is None else records
            yield sum(1 << j for j in chosen), number[matches == 1]

    return rows, data.tally(sizes == 2), add_up_sets(nodes(), rows.size, weights)


def _of_values(column: ColumnCodes, rows: Ints, sums: Floats) -> list[dict[str, Any]]:
    """List the values of a column by their share of the column's contributions, the largest first."""
    by_code = np.bincount(column.codes[rows], sums, column.size)
    total = by_code.sum()
    shown = [int(code) for code in np.argsort(-by_code, kind="stable")[:_VALUES_SHOWN] if by_code[code] > 0]
    labels = [None if code == column.missing else canonical(column.values[code]) for code in shown]
    return [{"value": label, "share": float(by_code[code] / total)} for label, code in zip(labels, shown, strict=True)]


_SUBSETS_SHOWN = 50


@dataclass(frozen=True)
class ColumnSubset:
    """How well some columns tell the records apart."""

    columns: tuple[str, ...]
    distinction: float
    """different combinations of values, as a share of the records"""
    separation: float
    """share of all pairs of records that differ in at least one of the columns"""
    is_key: bool
    """no two records agree"""

    def to_dict(self) -> dict[str, Any]:
        """Give plain data."""
        return {"columns": list(self.columns), "distinction": self.distinction, "separation": self.separation}


class QuasiIdentifiers(RiskShare, kind="quasi-identifiers"):
    """How well subsets of the columns tell the records apart, and which columns identify.

    For every subset of at most `max_size` columns: *distinction*, the number of different combinations of values
    divided by the number of records (1: nobody is like anybody else), and *separation*, the share of all pairs of
    records that differ in it. The value is the largest distinction that an intruder reaches who knows at most `known`
    columns. The detail has the best subset of each size, each column alone, the distinction that would be lost without
    each column, the subsets of highest distinction, and the minimal keys: the smallest sets of columns that tell all
    records apart. `per_record` is 1/(size of the record's class) on the best subset of at most `known` columns.
    With `smaller_than` the detail also has `small_cells`: for every subset how many of its combinations fewer records
    share, and how many records these are (the risky cells of a threshold). `table` gives the same as a frame.

    Exact. Warns where the source of the release is known and columns were perturbed. Does not tell whether an intruder
    can know a column, nor how many people of the population share a combination. Time at most linear in the rows for
    each subset, memory linear.

    References
    ----------
    Motwani & Xu (2007), Efficient algorithms for masking and finding quasi-identifiers; catalogue R10.

    Examples
    --------
    >>> import discretion as dc
    >>> table = dc.datasets.people_without_names()
    >>> score = dc.QuasiIdentifiers(columns=["zip", "age", "sex"], known=1)(table)
    >>> score.value, score.detail["minimal_keys"]
    (1.0, [['age']])
    >>> round(dc.QuasiIdentifiers(columns=["zip", "sex"])(table).value, 4)
    0.7778
    """

    columns: Columns = ()
    """columns to combine; without it, the quasi-identifiers"""
    known: int = Field(3, ge=1)
    """largest number of columns that an intruder knows (or `max_size`, where that is smaller)"""
    max_size: int | None = Field(None, ge=1)
    """largest subset of columns to look at; without it, all"""
    missing: Literal["category", "ignore"] = "category"
    """how a missing value counts: as a category of its own, or by leaving its record out"""
    smaller_than: int | None = Field(None, ge=2)
    """count the combinations that fewer records than this share; without it, they are not counted"""

    scale: ClassVar[Scale] = "classes"
    needs: ClassVar[Literal["both", "released"]] = "released"

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Count the combinations of every subset."""
        columns = released.choose(self.columns, "classes")
        subsets = self.subsets(released, ctx)
        best = _best([s for s in subsets if len(s.columns) <= self.known])
        sizes = sorted({len(s.columns) for s in subsets})
        by_size = {size: _best([s for s in subsets if len(s.columns) == size]).to_dict() for size in sizes}
        shown = sorted(subsets, key=_rank)[:_SUBSETS_SHOWN]
        warned = warning(original, released, columns)
        names = " and ".join(best.columns) if len(best.columns) < 3 else ", ".join(best.columns)
        meaning = f"{names}: {as_percent(best.distinction)} as many different combinations as there are records."
        small: dict[str, Any] = {}
        if self.smaller_than is not None:
            rows = self._small_cells(released, subsets, self.smaller_than)
            total = sum(row["small_cells"] for row in rows)
            small = {"small_cells": rows, "small_cells_in_all": total}
            meaning += (
                f" {total:,} combinations of up to {sizes[-1]} columns have fewer than {self.smaller_than} records."
            )
        return self.score(
            best.distinction,
            said(meaning, warned),
            per_record=self._per_record(released, columns, best.columns),
            columns=list(columns),
            records=released.records,
            chance=1.0 / released.records,
            best=best.to_dict(),
            best_of_size=by_size,
            single={s.columns[0]: s.to_dict() for s in subsets if len(s.columns) == 1},
            lost_without=_lost_without(subsets, columns),
            minimal_keys=[list(s.columns) for s in minimal_keys(subsets)[:_SUBSETS_SHOWN]],
            subsets=[s.to_dict() for s in shown],
            subsets_counted=len(subsets),
            **small,
            **warned,
        )

    def subsets(self, data: Dataset, ctx: Context | None = None) -> list[ColumnSubset]:
        """Give distinction and separation of every subset, small ones first, columns in their order."""
        from discretion.kernels.subsets import CodedColumn, separations

        ctx = ctx or Context(0, self.kind)
        columns = data.choose(self.columns, "classes")
        size = largest_subset(self.kind, len(columns), self.max_size)
        if "known" in self.model_fields_set and size < min(self.known, len(columns)):
            raise PlanError(f"{self.kind}: `max_size` is {size}, less than the {self.known} columns `known`")
        data = self._counted(data, columns)
        classes = data.classes(columns)
        coded = [CodedColumn.of(data.codes(name).codes[classes.first_rows]) for name in columns]
        order = sorted(range(len(columns)), key=lambda j: coded[j].size)
        found = separations([coded[j] for j in order], classes.counts, size, ctx.progress, "subsets of columns")
        n = data.records
        pairs = n * (n - 1) // 2
        result = []
        for mask, counted in found.items():
            chosen = sorted(order[bit] for bit in range(len(columns)) if mask >> bit & 1)
            separated = 1 - counted.together / pairs if pairs else 1.0
            names = tuple(columns[j] for j in chosen)
            result.append((chosen, ColumnSubset(names, counted.distinct / n, separated, counted.distinct == n)))
        return [subset for _, subset in sorted(result, key=lambda pair: (len(pair[0]), pair[0]))]

    def table(self, data: Any, smaller_than: int | None = None) -> pl.DataFrame:
        """Give a row for every subset: its columns, how many they are, distinction and separation.

        With `smaller_than` also the combinations that fewer records share (`small_cells`), and the records in them.
        """
        import polars as pl

        limit = self.smaller_than if smaller_than is None else smaller_than
        if limit is not None and limit < 2:
            raise PlanError(f"{self.kind}: `smaller_than` must be 2 or more, not {limit}")
        dataset = Dataset.of(data)
        subsets = self.subsets(dataset)
        table = pl.DataFrame(
            {
                "columns": [list(s.columns) for s in subsets],
                "size": [len(s.columns) for s in subsets],
                "distinction": [s.distinction for s in subsets],
                "separation": [s.separation for s in subsets],
            }
        )
        if limit is None:
            return table
        small = self._small_cells(dataset, subsets, limit)
        return table.with_columns(
            pl.Series(name, [row[name] for row in small], pl.Int64) for name in ("small_cells", "small_records")
        )

    def _small_cells(self, data: Dataset, subsets: list[ColumnSubset], limit: int) -> list[dict[str, Any]]:
        """For every subset, count the combinations that fewer records share, and these records."""
        kept = self._counted(data, data.choose(self.columns, "classes"))
        rows = []
        for subset in subsets:
            counts = kept.class_counts(subset.columns)
            small = counts[counts < limit]
            rows.append({"columns": list(subset.columns), "small_cells": len(small), "small_records": int(small.sum())})
        return rows

    def _per_record(self, data: Dataset, columns: tuple[str, ...], best: tuple[str, ...]) -> NDArray[np.float64]:
        """Give 1/(size of the class) among the records that count; NaN for the others."""
        kept = self._counted(data, columns)
        sizes = kept.class_sizes(best)
        if kept is data:
            return 1.0 / sizes
        complete = np.logical_and.reduce([c.codes != c.missing for c in map(data.codes, columns)])
        found = np.full(len(data), np.nan)
        found[complete] = 1.0 / sizes
        return found

    def _counted(self, data: Dataset, columns: tuple[str, ...]) -> Dataset:
        """Leave incomplete records out where they are to be ignored."""
        if self.missing == "category" or not any(data.count_missing(name) for name in columns):
            return data
        coded = [data.codes(name) for name in columns]
        complete = np.logical_and.reduce([c.codes != c.missing for c in coded])
        if not complete.any():
            raise DataError(f"{self.kind}: every record has a missing value in {', '.join(columns)}; none is left")
        return data.take(complete)


def minimal_keys(subsets: list[ColumnSubset]) -> list[ColumnSubset]:
    """Give the subsets that tell all records apart and of which no smaller part does, small ones first."""
    keys = {subset.columns: subset for subset in subsets if subset.is_key}
    return [
        key
        for names, key in keys.items()
        if not any(names[:place] + names[place + 1 :] in keys for place in range(len(names)))
    ]


def _rank(subset: ColumnSubset) -> tuple[float, float, int]:
    return -subset.distinction, -subset.separation, len(subset.columns)


def _best(subsets: list[ColumnSubset]) -> ColumnSubset:
    return min(subsets, key=_rank)


def _lost_without(subsets: list[ColumnSubset], columns: tuple[str, ...]) -> dict[str, float]:
    """Give the distinction that is lost without each column; empty where not all sizes were counted."""
    known = {subset.columns: subset.distinction for subset in subsets}
    if columns not in known:
        return {}
    rest = {name: tuple(other for other in columns if other != name) for name in columns}
    return {name: known[columns] - known.get(rest[name], 0.0) for name in columns}
