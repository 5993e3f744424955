"""Column dependence and row order: what another column, or the place of a row, tells about what was hidden."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.measure import RiskShare, Score, as_percent
from discretion.part import Columns

_WIDTHS = (1, 5, 25)
_PLACES_AT_LEAST = 20
_PLACES_AT_MOST = 20_000
_FEWEST_ROWS = 8
_CATEGORIES = 20
_COUNTS = 0.99


class RowOrder(RiskShare, kind="row-order"):
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

    reads_order: ClassVar[bool] = True

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Guess every column from places, and from columns that count the rows."""
        n = len(released)
        if n < _FEWEST_ROWS:
            raise DataError(f"{self.kind}: the release has {n} rows; places tell nothing in fewer than {_FEWEST_ROWS}")
        columns = self.columns or tuple(name for name in original.columns if original.type_of(name) != "set")
        original.require(columns)
        count = min(max(round(self.known_share * n), _PLACES_AT_LEAST), n // 2, _PLACES_AT_MOST)
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


_KNOWN_AT_LEAST = 40
_MOST_ROWS = 2_000
"""People who are known, and people whose values are guessed, at most: enough for a share within two points."""
_FEWEST = 20
"""People on whom it can be seen that a column tells another."""
_TELLS, _GAINS = 0.9, 0.8
"""A column tells another if so many values are right, and so much of the way to certainty is gained."""
_CARRIES, _CARRIES_SOME, _NOTHING_LEFT = 0.5, 0.1, 0.01
"""Columns dealt out by a model tell a hidden one if they explain so much of what is left of its variance, and tell
something of it from the second on; a column of which less than a hundredth is left is published."""


class ColumnDependence(RiskShare, kind="column-dependence"):
    """Share of true values of a protected column that another published column tells.

    A year of birth beside a generalized age, a tax beside a perturbed income, a code of the region beside a suppressed
    one: what was protected in one column goes out in another. The intruder knows the true values of a few people in the
    release (`known_share`, drawn at random; or the rule itself, as with years of birth), and guesses the protected
    value of each other person from the people he knows whose published value in *one other column* is nearest, as
    row-order does from places. A category is right if it is equal, a number (of more than 20 different ones, or a date)
    if it is within `sd_share` standard deviations.

    Protected is a column of the original whose published values are not the original ones, or that is not published.
    `chance` is what the intruder reaches without the other column: from the published values of the protected column
    itself, guessed from in the same way, or by the best single guess. The value is that of the pair with the
    largest gain (s − c)/(1 − c); `per_column` of the detail has the best source of each protected column, `told` the
    pairs in which at least 90 % of the values (of 20 people or more) are right and the gain is at least 0.8. Such a
    column stops a publication until it is protected, taken out, or confirmed in the plan (`confirmed_telling`).

    `derived` has the pairs whose *original* columns told each other so, whatever was done to the published one: two
    columns that are one secret, each swapped or perturbed for itself, let an intruder who knows both compare it twice.

    `carried` has what columns that a model dealt out (shuffle) still tell of a column that was a predictor, or goes
    with one, and is published with less detail, changed, or not at all: the share of its variance (of ranks; of
    categories) that the dealt columns explain beyond its own published values, with the correlation. A tenth is
    reported; from one half on (a correlation of about .7) it `stops` a publication as `told` does: near guesses fail,
    but what was hidden is told.

    Sees dependence on one published column, not on several together (a sum of two, see model-disclosure), and none
    that only few records show. Columns that merely go together have small gains. Of more than 2,000 people, as many are
    drawn. Time O(c²·m log m) for c columns and m people drawn.

    References
    ----------
    Willenborg & de Waal (2001), Elements of statistical disclosure control, on identifying variables derived from
    others; catalogue R5 (attribute disclosure by regression).

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> people = dc.datasets.census(2000, seed=1).to_native().select("age", "income")
    >>> people = people.with_columns(tax=0.31 * pl.col("income"))
    >>> released = dc.AdditiveNoise(columns=["income"], sd_share=0.5)(people, seed=7)
    >>> dc.ColumnDependence()(people, released).detail["told"]
    [['tax', 'income']]
    """

    columns: Columns = ()
    """protected columns of the original to guess; without it, all that are not published as they were, but sets and
    identifiers"""
    known_share: float = Field(0.1, gt=0, le=0.5)
    """share of the people whose true values the intruder knows; at least 40 people, at most half"""
    sd_share: float = Field(0.05, gt=0)
    """a number is right within this many standard deviations"""

    on_original: ClassVar[bool] = False

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Guess every protected column from every other published one."""
        passed = original.having("identifier")
        columns = self.columns or tuple(
            name for name in original.columns if name not in passed and original.type_of(name) != "set"
        )
        original.require(columns)
        protected = [name for name in columns if self.columns or _is_protected(original, released, name)]
        sources = [name for name in released.columns if _is_plain(released, name)]

        def each() -> Iterator[Floats]:
            """Give the columns one by one: together they are larger than the data."""
            yield from (_places(released, name) for name in sources)
            yield from (_truth(original, name, self.sd_share)[0] for name in protected)

        rows, known = _drawn(each(), len(sources) + len(protected), len(released), self.known_share, ctx)
        places = {name: _places(released, name)[rows] for name in sources}
        before = {
            name: _places(original, name)[rows]
            for name in sources
            if name in original.columns and name not in passed and _is_changed(original, released, name)
        }
        found: dict[str, tuple[OrderGuess, float]] = {}
        told: list[list[str]] = []
        derived: list[list[str]] = []
        for number, name in enumerate(protected):
            ctx.progress(number, len(protected), f"{self.kind}: {name}")
            values, tolerance = _truth(original, name, self.sd_share)
            secret = Secret(values[rows], tolerance, known)
            guesses = {
                source: guess
                for source, place in places.items()
                if (guess := guess_from(secret, place, source)) is not None
            }
            own = guesses.pop(name, None)
            derived += [
                [source, name]
                for source, place in before.items()
                if source != name and _is_function(guess_from(secret, place, source))
            ]
            if not guesses:
                continue
            without = max(own.success if own else 0.0, *(guess.chance for guess in guesses.values()))
            best = max(guesses.values(), key=lambda guess: guess.success)
            found[name] = best, without
            enough = np.count_nonzero(~np.isnan(best.hit)) >= _FEWEST
            told += [
                [one.source, name]
                for one in guesses.values()
                if enough and one.success >= _TELLS and gain(one, without) >= _GAINS
            ]
        carried = _carried(original, released, protected, ctx)
        return self._scored(found, told, [pair for pair in derived if pair not in told], carried, rows, len(released))

    def _scored(
        self,
        found: dict[str, tuple[OrderGuess, float]],
        told: list[list[str]],
        derived: list[list[str]],
        carried: list[dict[str, Any]],
        rows: NDArray[np.int64],
        n: int,
    ) -> Score:
        if not found:
            nothing = "No protected column was found that others could tell."
            said = _said_carried(carried).strip() or nothing
            return self.score(0.0, said, chance=0.0, told=told, derived=derived, carried=carried)
        worst = max(found, key=lambda name: gain(*found[name]))
        best, without = found[worst]
        hit = np.full(n, np.nan)
        hit[rows] = best.hit
        meaning = (
            f"The published column {best.source!r} tells {worst!r} of {as_percent(best.success)} of the people "
            f"({as_percent(without)} without it)."
            if best.success > without
            else ""
            if any(one["stops"] for one in carried)
            else "No published column tells a protected one better than guessing does."
        )
        return self.score(
            best.success,
            (meaning + _said(derived) + _said_carried(carried)).strip(),
            per_record=hit,
            chance=without,
            column=worst,
            source=best.source,
            told=told,
            derived=derived,
            carried=carried,
            people_tested=int((~np.isnan(best.hit)).sum()),
            per_column={
                name: {"success": one.success, "chance": other, "gain": gain(one, other), "from": one.source}
                for name, (one, other) in found.items()
            },
        )


def gain(guess: OrderGuess, without: float) -> float:
    """Give the part of the way to certainty that a column adds to what was known without it."""
    return 0.0 if without >= 1 else max(0.0, (guess.success - without) / (1 - without))


def _is_function(guess: OrderGuess | None) -> bool:
    """Tell whether one original column tells another of nearly everybody, far above guessing."""
    if guess is None or np.count_nonzero(~np.isnan(guess.hit)) < _FEWEST:
        return False
    return guess.success >= _TELLS and gain(guess, guess.chance) >= _GAINS


def _said(derived: list[list[str]]) -> str:
    """Name the columns that were one thing before each was protected for itself."""
    pairs = ", ".join(f"{source!r} told {name!r}" for source, name in derived)
    return f" In the original {pairs}: who knows both compares the same secret twice." if derived else ""


def _said_carried(carried: list[dict[str, Any]]) -> str:
    """Name the columns that were dealt out by a model and tell what was hidden."""
    return "".join(
        f" Dealt out by a model, {' and '.join(map(repr, one['by']))} still "
        f"{'tell' if len(one['by']) > 1 else 'tells'} the hidden {one['column']!r}: correlation "
        f"{one['correlation']:.2f}."
        for one in carried
        if one["stops"]
    )


def _carried(original: Dataset, released: Dataset, protected: Sequence[str], ctx: Context) -> list[dict[str, Any]]:
    """Give what columns dealt out by a model tell of hidden ones, beyond what is published of these."""
    found: list[dict[str, Any]] = []
    if released.has_new_rows:
        return found
    for step in released.steps[len(original.steps) :]:
        if step.kind != "shuffle":
            continue
        shuffle: Any = step
        names = shuffle.columns or original.choose((), "perturb")
        dealt = [name for name in names if name in released.columns]
        predictors = [name for name in shuffle.predictors if name in original.columns]
        hidden = [name for name in predictors if _is_protected(original, released, name)]
        asked = [name for name in dict.fromkeys([*hidden, *protected]) if name not in names]
        if not dealt or len(released) < _FEWEST:
            continue
        try:
            scores = np.nan_to_num(shuffle.scores(released, dealt))
        except DataError:
            continue
        for name in asked:
            ctx.progress(0, 1, f"column-dependence: {name}")
            if (explained := _explained(shuffle, original, released, name, scores)) is not None:
                shares, all_of = explained
                least = min(_CARRIES, all_of)
                by = [source for source, share in zip(dealt, shares, strict=True) if share >= least] or dealt
                one = {"by": by, "column": name, "share": all_of, "correlation": float(np.sqrt(all_of))}
                found += [{**one, "stops": all_of >= _CARRIES}] if all_of >= _CARRIES_SOME else []
    return found


def _explained(
    shuffle: Any, original: Dataset, released: Dataset, name: str, scores: Floats
) -> tuple[list[float], float] | None:
    """Give the share of a hidden column's variance that each dealt column explains, and all together.

    Both beyond the column's own published values (the means of its published classes); adjusted for the number of
    columns, so that chance explains nothing. None where the column has no scores, or nothing of it is left to tell.
    """
    try:
        truth = np.nan_to_num(shuffle.terms(original, name))
    except (DataError, PlanError):
        return None
    n, p = scores.shape
    classes = released.classes([name]).ids if name in released.columns else np.zeros(n, np.int64)
    if int(classes.max(initial=0)) + 1 > max(1, n // _FEWEST):  # nearly every record has a class: by nearness instead
        ranks = np.argsort(np.argsort(_places(released, name), kind="stable"), kind="stable")
        classes = ranks * max(1, n // _FEWEST) // n
    rest, told = (_without_means(x, classes) for x in (truth, scores))
    total = float((rest**2).sum())
    if total <= _NOTHING_LEFT * float(((truth - truth.mean(axis=0)) ** 2).sum()) or n <= p + 2:
        return None

    def share(x: Floats) -> float:
        left = rest - x @ np.linalg.lstsq(x, rest, rcond=None)[0]
        return float(max(0.0, 1.0 - float((left**2).sum()) / total * (n - 1) / (n - x.shape[1] - 1)))

    return [share(told[:, [j]]) for j in range(p)], share(told)


def _without_means(x: Floats, classes: NDArray[Any]) -> Floats:
    counts = np.maximum(np.bincount(classes), 1)
    means = np.column_stack([np.bincount(classes, column) / counts for column in x.T])
    return np.asarray(x - means[classes])


def _is_changed(original: Dataset, released: Dataset, name: str) -> bool:
    return _is_plain(original, name) and _is_protected(original, released, name)


def _drawn(
    columns: Iterator[Floats], number: int, n: int, share: float, ctx: Context
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Draw the people who are looked at, and tell which of them are known; the order of the rows has no say."""
    count = min(max(round(share * n), _KNOWN_AT_LEAST), n // 2, _MOST_ROWS)
    mixed = sum((np.nan_to_num(x) * w for x, w in zip(columns, ctx.rng.random(number), strict=True)), np.zeros(n))
    rows = np.argsort(mixed, kind="stable")[ctx.rng.permutation(n)[: count + _MOST_ROWS]].astype(np.int64)
    known = np.zeros(len(rows), dtype=np.bool_)
    known[:count] = True
    return rows, known


def _truth(original: Dataset, name: str, sd_share: float) -> tuple[Floats, float | None]:
    """Give the values to guess, with the error allowed; categories by their places in the order of their texts."""
    values, tolerance = values_of(original, name, sd_share)
    return (values, tolerance) if tolerance is not None else (_in_order(original, name), None)


def _in_order(data: Dataset, name: str) -> Floats:
    codes = data.codes(name)
    places = np.empty(codes.size)
    places[np.argsort([_text(value) for value in codes.values], kind="stable")] = np.arange(codes.size)
    return np.asarray(places[codes.codes])


def _text(value: object) -> str:
    return "" if value is None else f"={value}"


def _is_protected(original: Dataset, released: Dataset, name: str) -> bool:
    return name not in released.columns or not original.frame[name].equals(released.frame[name], null_equal=True)


def _is_plain(released: Dataset, name: str) -> bool:
    series = released.frame[name]
    return not series.dtype.is_nested() and series.n_unique() > 1


def _places(released: Dataset, name: str) -> Floats:
    """Give each row the place of its published value: numbers and dates as they are, texts in their order."""
    import polars as pl

    series = released.frame[name]
    if series.dtype == pl.String and not (numbers := series.cast(pl.Float64, strict=False)).null_count():
        series = numbers
    if series.dtype.is_numeric() or series.dtype.is_temporal():
        found = series.to_physical().cast(pl.Float64).fill_null(np.nan).to_numpy()
    else:
        found = _in_order(released, name)
    return np.where(np.isnan(found), np.nanmin(found) - 1.0 - np.ptp(found[~np.isnan(found)]), found)
