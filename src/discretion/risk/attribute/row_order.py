"""Row order: what does the place of a row in the file tell about the person?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns, Family

_WIDTHS = (1, 5, 25)
_KNOWN_AT_LEAST = 20
_KNOWN_AT_MOST = 20_000
_FEWEST_ROWS = 8
_CATEGORIES = 20
_COUNTS = 0.99


class RowOrder(Measure, kind="row-order"):
    """Share of true values that an intruder guesses from nothing but where a row stands in the released file.

    Files are kept sorted: by region, by age, by date of entry. Where a release keeps that order, a row's neighbors tell
    what was generalized, suppressed or changed. The intruder knows the true values of a few people in the release
    (`known_share`, drawn at random) and where their rows are. He guesses the value of each other row from the rows he
    knows around it: for categories the most frequent of the nearest 1, 5 or 25, for numbers a straight line between
    the nearest two or the median of the nearest 5 or 25, whichever was right more often when he guessed one half of
    his acquaintances from the other; or the best single guess for everybody, where places helped nothing. A category is
    right if it is equal, a number (of more than 20 different ones, or a date) if it is within `sd_share` standard
    deviations.

    `chance` is what the best single guess for everybody reaches: the largest share of one category, or of the numbers
    in one interval. In a file whose order tells nothing the value is about as large. The value is that of the column
    with the largest gain (s − c)/(1 − c); `per_column` of the detail has all of them.
    A published column that counts the rows of the original file (an id given in its order: 99 % different values,
    rank correlation of at least 0.99 with the place in the original) undoes every new order: such columns stand in
    `counts_rows`, the intruder sorts by them as well, and `from` says what told most.

    Needs the rows to be matched, for the test; looks at original columns, also those that are not published. Says
    nothing about what the published values tell. Time O(c·n log n).

    References
    ----------
    Willenborg & de Waal (2001), Elements of statistical disclosure control, on the order of records; catalogue R14
    (an intruder who knows how the file was made).

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> people = pl.DataFrame({"region": sorted("north east south west".split() * 500), "x": range(2000)})
    >>> score = dc.RowOrder(columns=["region"])(people, people.with_columns(region=pl.lit("*")))
    >>> score.value > 0.95, round(score.detail["chance"], 1)
    (True, 0.3)
    """

    columns: Columns = ()
    """columns of the original to guess; without it, all but sets"""
    known_share: float = Field(0.05, gt=0, le=0.5)
    """share of the people whose true values the intruder knows; at least 20 people, at most half"""
    sd_share: float = Field(0.05, gt=0)
    """a number is right within this many standard deviations"""

    family: ClassVar[Family] = "risk"
    better: ClassVar[Better] = "lower"
    reads_order: ClassVar[bool] = True
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Guess every column from places, and from columns that count the rows."""
        n = len(released)
        if n < _FEWEST_ROWS:
            raise DataError(f"{self.kind}: the release has {n} rows; places tell nothing in fewer than {_FEWEST_ROWS}")
        columns = self.columns or tuple(name for name in original.columns if original.type_of(name) != "set")
        original.require(columns)
        count = min(max(round(self.known_share * n), _KNOWN_AT_LEAST), n // 2, _KNOWN_AT_MOST)
        known = np.zeros(n, dtype=np.bool_)
        known[ctx.rng.choice(n, count, replace=False)] = True
        counting = _counting_columns(original, released)
        orders = {"position": np.arange(n), **{name: _ranks(released, name) for name in counting}}
        found: dict[str, OrderGuess] = {}
        for number, name in enumerate(columns):
            ctx.progress(number, len(columns), f"{self.kind}: {name}")
            secret = Secret(*values_of(original, name, self.sd_share), known)
            guesses = [
                guess
                for source, places in orders.items()
                if source != name and (guess := guess_from(secret, places, source)) is not None
            ]
            if guesses:
                found[name] = max(guesses, key=lambda guess: guess.gain)
        if not found:
            raise DataError(f"{self.kind}: no column has values that can be guessed: all are constant, or all differ")
        worst = max(found, key=lambda name: found[name].gain)
        one = found[worst]
        place = "where a row stands" if one.source == "position" else f"the column {one.source!r}, which counts rows,"
        return self.score(
            one.success,
            f"From {place} an intruder who knows {as_percent(count / n)} of the people guesses {worst!r} of "
            f"{as_percent(one.success)} of the others ({as_percent(one.chance)} without).",
            per_record=one.hit,
            chance=one.chance,
            column=worst,
            known=count,
            counts_rows=counting,
            per_column={
                name: {"success": one.success, "chance": one.chance, "gain": one.gain, "from": one.source}
                for name, one in found.items()
            },
        )


class OrderGuess(NamedTuple):
    """What guessing one column reached, without it, and from what."""

    success: float
    chance: float
    source: str
    hit: Floats

    @property
    def gain(self) -> float:
        """The part of the way from the best single guess to certainty."""
        return 0.0 if self.chance >= 1 else (self.success - self.chance) / (1 - self.chance)


@dataclass(frozen=True)
class Secret:
    """A column to guess: its values, the error allowed (None: categories) and who is known."""

    values: Floats
    tolerance: float | None
    known: Bools

    @cached_property
    def is_open(self) -> bool:
        """Tell whether there is anything to guess, and somebody to learn from."""
        there = self.values[~np.isnan(self.values)]
        if self.tolerance is None and len(np.unique(there)) == len(there):
            return False  # each value once: nobody's neighbor has it
        return len(self.teachers) >= 4 and len(self.tested) > 0 and bool(np.ptp(there) > 0)

    @cached_property
    def teachers(self) -> Ints:
        """The rows that are known."""
        return np.flatnonzero(self.known & ~np.isnan(self.values))

    @cached_property
    def tested(self) -> Ints:
        """The rows that are guessed."""
        return np.flatnonzero(~self.known & ~np.isnan(self.values))

    @cached_property
    def chance(self) -> float:
        """The success of the best single guess for all who are tested."""
        truth = self.values[self.tested]
        return float(self.right(_for_everybody(self.tolerance)(truth, truth, truth), self.tested).mean())

    def right(self, told: Floats, of: Ints) -> Bools:
        """Tell which guesses are right."""
        truth = self.values[of]
        return told == truth if self.tolerance is None else np.abs(told - truth) <= self.tolerance


def guess_from(secret: Secret, places: Floats | Ints, source: str) -> OrderGuess | None:
    """Guess the values of rows from those of known rows at places nearby; None where nothing is there to guess."""
    if not secret.is_open:
        return None
    values, tested = secret.values, secret.tested
    teachers = secret.teachers[np.argsort(places[secret.teachers], kind="stable")]
    guessers = [_by_neighbors(width, secret.tolerance) for width in _WIDTHS] + [_for_everybody(secret.tolerance)]

    def right(guess: _Guesser, rows: Ints, of: Ints) -> Bools:
        return secret.right(guess(places[rows], values[rows], places[of]), of)

    tried = [right(guess, teachers[::2], teachers[1::2]).mean() for guess in guessers]
    tried[-1] = max(tried[-1], 1e-12)  # where nothing helps, one guess for all
    best = guessers[len(tried) - 1 - int(np.argmax(tried[::-1]))]
    hit = right(best, teachers, tested)
    per_record = np.full(len(values), np.nan)
    per_record[tested] = hit
    return OrderGuess(float(hit.mean()), secret.chance, source, per_record)


_Guesser = Callable[[Any, Floats, Any], Floats]
"""From the places (ascending) and values of rows that are known to guesses for other places."""


def _by_neighbors(width: int, tolerance: float | None) -> _Guesser:
    """Guess from the known rows that stand nearest."""

    def guess(places: Floats | Ints, values: Floats, of: Floats | Ints) -> Floats:
        if width == 1 and tolerance is not None:
            return np.interp(of, places, values)
        after = np.clip(np.searchsorted(places, of), 1, len(places) - 1)
        nearest = np.where(of - places[after - 1] <= places[after] - of, after - 1, after)
        wide = min(width, len(places))
        at = np.clip(nearest - wide // 2, 0, len(values) - wide)
        if tolerance is None:
            return np.asarray(_most_frequent(values, wide)[at])
        windows = np.lib.stride_tricks.sliding_window_view(values, wide)
        if wide % 2:
            return np.asarray(np.partition(windows, wide // 2, axis=1)[at, wide // 2])
        return np.asarray(np.median(windows, axis=1)[at])

    return guess


def _for_everybody(tolerance: float | None) -> _Guesser:
    """Guess the same for everybody: the most frequent value, or the middle of the interval that holds most values."""

    def guess(places: Floats | Ints, values: Floats, of: Floats | Ints) -> Floats:  # noqa: ARG001
        x, counts = np.unique(values, return_counts=True)
        if tolerance is None:
            return np.full(len(of), x[np.argmax(counts)])
        total = np.concatenate([[0], np.cumsum(counts)])
        end = np.searchsorted(x, x + 2 * tolerance, side="right")
        start = np.argmax(total[end] - total[:-1])
        return np.full(len(of), (x[start] + x[end[start] - 1]) / 2)

    return guess


def _most_frequent(values: Floats, wide: int) -> Floats:
    """Give the most frequent of each `wide` values in a row; of several the middle one, if it is one, or the smallest.

    Occurrences are counted value by value where the values are few, else by looking for runs among the sorted.
    """
    if wide == 1:
        return values
    windows = np.lib.stride_tricks.sliding_window_view(values, wide)
    middle = windows[:, wide // 2]
    different, ids = np.unique(values, return_inverse=True)
    if len(different) <= 8 * wide:
        so_far = np.zeros((len(different), len(values) + 1), np.int32)
        np.cumsum(ids == np.arange(len(different))[:, None], axis=1, out=so_far[:, 1:])
        counts = so_far[:, wide:] - so_far[:, :-wide]
        own = counts[ids[wide // 2 :][: len(windows)], np.arange(len(windows))]
        return np.where(own == counts.max(axis=0), middle, different[counts.argmax(axis=0)])
    ordered = np.sort(windows, axis=1)
    found, often = middle.copy(), (windows == middle[:, None]).sum(axis=1)
    for length in range(2, wide + 1):
        run = ordered[:, length - 1 :] == ordered[:, : ordered.shape[1] - length + 1]
        longer = run.any(axis=1) & (often < length)
        found[longer] = ordered[longer, run[longer].argmax(axis=1)]
        often[longer] = length
    return found


def values_of(data: Dataset, name: str, sd_share: float) -> tuple[Floats, float | None]:
    """Give a column as numbers with the error allowed, or as codes of categories (missing is one) without."""
    series = data.frame[name]
    if data.type_of(name) == "date" and series.dtype.is_temporal():
        series = series.to_physical()
    elif not data.is_quantity(name):
        return data.codes(name).codes.astype(np.float64), None
    if data.codes(name).size <= _CATEGORIES:
        return data.codes(name).codes.astype(np.float64), None
    values = series.cast(float).fill_null(np.nan).to_numpy()
    return values, sd_share * float(np.nanstd(values, ddof=1))


def _counting_columns(original: Dataset, released: Dataset) -> dict[str, float]:
    """Name the released columns that count the rows of the original file, with the rank correlation."""
    found = {}
    for name in released.columns:
        series = released.frame[name]
        if series.dtype.is_nested() or series.n_unique() < _COUNTS * len(series) or series.null_count():
            continue
        correlation = float(np.corrcoef(_ranks(released, name), np.argsort(np.argsort(original.row_ids)))[0, 1])
        if abs(correlation) >= _COUNTS:
            found[name] = correlation
    return found


def _ranks(data: Dataset, name: str) -> Ints:
    """Give each row its rank by a column; texts that are all numbers by their number."""
    import polars as pl

    series = data.frame[name]
    if series.dtype == pl.String:
        numbers = series.cast(pl.Float64, strict=False)
        series = series if numbers.null_count() else numbers
    ranks = np.empty(len(series), dtype=np.int64)
    ranks[series.arg_sort().to_numpy()] = np.arange(len(series))
    return ranks
