"""Column dependence: does a published column tell what was hidden in another?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Floats
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns, Family
from discretion.risk.attribute.row_order import OrderGuess, Secret, guess_from, values_of

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


class ColumnDependence(Measure, kind="column-dependence"):
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

    family: ClassVar[Family] = "risk"
    better: ClassVar[Better] = "lower"
    on_original: ClassVar[bool] = False
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Guess every protected column from every other published one."""
        passed = original.having("identifier")
        columns = self.columns or tuple(
            name for name in original.columns if name not in passed and original.type_of(name) != "set"
        )
        original.require(columns)
        protected = [name for name in columns if self.columns or _is_protected(original, released, name)]
        places = {name: _places(released, name) for name in released.columns if _is_plain(released, name)}
        truth = {name: _truth(original, name, self.sd_share) for name in protected}
        told_apart = [*places.values(), *(values for values, _ in truth.values())]
        rows, known = _drawn(told_apart, len(released), self.known_share, ctx)
        before = {
            name: _places(original, name)
            for name in places
            if name in original.columns and name not in passed and _is_changed(original, released, name)
        }
        found: dict[str, tuple[OrderGuess, float]] = {}
        told: list[list[str]] = []
        derived: list[list[str]] = []
        for number, name in enumerate(protected):
            ctx.progress(number, len(protected), f"{self.kind}: {name}")
            values, tolerance = truth[name]
            secret = Secret(values[rows], tolerance, known)
            guesses = {
                source: guess
                for source, place in places.items()
                if (guess := guess_from(secret, place[rows], source)) is not None
            }
            own = guesses.pop(name, None)
            derived += [
                [source, name]
                for source, place in before.items()
                if source != name and _is_function(guess_from(secret, place[rows], source))
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


def _drawn(columns: list[Floats], n: int, share: float, ctx: Context) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Draw the people who are looked at, and tell which of them are known; the order of the rows has no say."""
    count = min(max(round(share * n), _KNOWN_AT_LEAST), n // 2, _MOST_ROWS)
    mixed = sum((np.nan_to_num(x) * w for x, w in zip(columns, ctx.rng.random(len(columns)), strict=True)), np.zeros(n))
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
