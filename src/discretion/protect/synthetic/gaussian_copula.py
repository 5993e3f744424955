"""Synthesis by a Gaussian copula, for numbers and ordered levels (P23, P24)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.kernels.arrays import Floats, Ints
from discretion.method import Purpose
from discretion.protect.synthetic.generator import DrawnRules, ModelGenerator, Sampler, Values
from discretion.protect.synthetic.variables import ColumnKind, NumberMargin, Variable, fewest_rows, pack, unpack

_TERMS = 24
"""Terms of the series by which correlations of scores become correlations of the normal variables behind them."""


class GaussianCopula(ModelGenerator, kind="gaussian-copula"):
    """Draw rows whose ranks come from a normal distribution, and whose values come from each column's distribution.

    Every column is turned into normal scores by its ranks; the scores' correlations are all that is kept of how columns
    hang together (for columns with few values the correlations of the normal variables behind them, such that the drawn
    scores correlate as the data's do). Numbers are smoothed by up to `smoothing` people in the sorted column, values
    that ten people share are drawn as such; where a column has missing values, whether it is missing is one more
    column. Keeps distributions and monotone relations of pairs; loses every other (curves, interactions, groups).
    Nominal columns have no ranks: the copula would draw them independently of all others without saying so, and refuses
    them. A correlation of p columns is learned from all people: no relation of a few is kept, and rows of outliers are
    not copied. Does not give anonymity: attack the result. Time O(n·(p log n + p²)).

    References
    ----------
    Nelsen (2006), An introduction to copulas; Cario & Nelson (1997) for ordered levels; catalogue P23, P24.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> numbers = dc.Dataset(people.frame.select("age", "hours", "income"))
    >>> dc.GaussianCopula(rows=300)(numbers, seed=7).has_new_rows
    True
    """

    smoothing: float = Field(10.0, gt=0)
    """people in the sorted column by which a number is moved at most"""
    min_support: int = Field(3, ge=1)
    """fewest people that have a level for it to be drawn at all"""

    purpose: ClassVar[Purpose] = "make up"
    effect: ClassVar[str] = (
        "Estimates are those of the model that drew the values: relations that it lacks are not in the data. Standard "
        "errors must be combined over the copies."
    )
    guarantee: ClassVar[str] = (
        "Values were drawn from a normal copula: distributions of columns and monotone relations of pairs are kept, "
        "others are not. Synthetic data is not anonymous by itself: what attacks find is reported."
    )

    def _accept(self, data: Dataset, kind: ColumnKind, variables: Sequence[Variable]) -> None:  # noqa: ARG002
        if not all(variable.ordered for variable in variables):
            raise DataError(
                f"{self.kind}: column {kind.column!r} is nominal: it has no ranks, and would be drawn independently of "
                "all others; give its values an order, name the `columns` to draw, or use `sequential-trees`"
            )

    def learn(self, targets: Sequence[Variable], given: Sequence[Variable], ctx: Context) -> dict[str, Any]:  # noqa: ARG002
        """Learn margins and correlations; kept columns count where they have an order."""
        used = [*targets, *(variable for variable in given if variable.ordered)]
        margins, scores = [], []
        for variable in used:
            for margin, score in _margins(variable, self.min_support, self.kind):
                margins.append(margin)
                scores.append(score)
        return {
            "margins": [margin.to_plain() for margin in margins],
            "targets": [variable.key for variable in targets],
            "correlations": pack(_latent(np.column_stack(scores), margins)),
            "smoothing": self.smoothing,
            "keep_extremes": self.extremes == "keep",
        }

    def sampler(self, model: Mapping[str, Any]) -> Sampler:
        """Read margins and correlations."""
        margins = tuple(_Margin.from_plain(known) for known in model["margins"])
        matrix = unpack(model["correlations"]).reshape(len(margins), len(margins))
        how = float(model["smoothing"]), bool(model["keep_extremes"])
        return _Copula(margins, frozenset(model["targets"]), matrix, *how)


@dataclass(frozen=True)
class _Margin:
    """The sorted column behind one normal variable: its different values with their counts."""

    key: str
    kind: str
    """number, level, or missing: whether a number is missing (1) or not (0)"""
    grid: Floats
    counts: Ints
    numbers: NumberMargin | None = None

    @property
    def ends(self) -> Ints:
        return np.cumsum(self.counts)

    @property
    def scores(self) -> Floats:
        """The normal score of each value: that of the middle of its ranks."""
        from scipy.special import ndtri

        return np.asarray(ndtri((self.ends - self.counts / 2) / self.ends[-1]), np.float64)

    def score(self, values: Floats) -> Floats:
        """Give the normal scores of values; missing ones count as average."""
        place = np.clip(np.searchsorted(self.grid, values), 0, len(self.grid) - 1)
        return np.where(np.isnan(values), 0.0, self.scores[place])

    def value(self, normal: Floats, smoothing: float, rng: np.random.Generator, keep_extremes: bool) -> Floats:
        """Give the values at the ranks of normal numbers; those of numbers are smoothed."""
        from scipy.special import ndtr

        place = np.searchsorted(self.ends, np.minimum(ndtr(normal) * self.ends[-1], self.ends[-1] - 1), "right")
        drawn = self.grid[place]
        if self.numbers is None:
            return np.asarray(drawn, np.float64)
        free = np.flatnonzero(self.numbers.spike_of(drawn) < 0)
        places = self.numbers.places(drawn[free])
        drawn[free] = self.numbers.smooth(places, smoothing, rng, keep_extremes)
        return np.asarray(drawn, np.float64)

    def to_plain(self) -> dict[str, Any]:
        numbers = None if self.numbers is None else self.numbers.to_plain()
        grid, counts = pack(self.grid), pack(self.counts)
        return {"key": self.key, "kind": self.kind, "grid": grid, "counts": counts, "numbers": numbers}

    @classmethod
    def from_plain(cls, known: Mapping[str, Any]) -> _Margin:
        numbers = None if known["numbers"] is None else NumberMargin.from_plain(known["numbers"])
        return cls(known["key"], known["kind"], unpack(known["grid"]), unpack(known["counts"]), numbers)


def _margins(variable: Variable, min_support: int, who: str) -> list[tuple[_Margin, Floats]]:
    values = variable.values
    found = []
    missing = np.isnan(values)
    if missing.any():
        made = _margin(variable.key, "missing", missing.astype(np.float64))
        found.append((made, made.score(missing.astype(np.float64))))
    if not missing.all():
        units = None if variable.units is None else variable.units[~missing]
        made = _margin(variable.key, "level" if variable.size else "number", values[~missing], units)
        drawn = made
        if variable.size:
            fewest = fewest_rows(variable, min_support)
            often = variable.level_counts()[made.grid.astype(np.int64)] >= fewest
            if not often.any():
                raise DataError(f"{who}: column {variable.column!r}: no value is that of {fewest} people or more")
            drawn = _Margin(made.key, made.kind, made.grid[often], made.counts[often])
        found.append((drawn, made.score(values)))
    return found


def _margin(key: str, kind: str, values: Floats, units: Ints | None = None) -> _Margin:
    grid, counts = np.unique(values, return_counts=True)
    return _Margin(key, kind, grid, counts, NumberMargin.of(values, units) if kind == "number" else None)


def _latent(scores: Floats, margins: Sequence[_Margin]) -> Floats:
    """Find the correlations of the normal variables that give the scores' correlations (Mehler's series)."""
    spread = scores.std(axis=0)
    varies = spread > 0
    wanted = np.eye(len(margins))
    if varies.sum() > 1:
        wanted[np.ix_(varies, varies)] = np.corrcoef(scores[:, varies], rowvar=False)
    terms = np.array([_hermite(margin) for margin in margins])
    found = np.eye(len(margins))
    for i in range(len(margins)):
        for j in range(i):
            if varies[i] and varies[j]:
                found[i, j] = found[j, i] = _solve(terms[i] * terms[j], float(wanted[i, j]))
    roots, axes = np.linalg.eigh(found)
    found = (axes * np.maximum(roots, 1e-9)) @ axes.T
    scale = np.sqrt(np.diag(found))
    return np.asarray(found / np.outer(scale, scale), np.float64)


def _hermite(margin: _Margin) -> Floats:
    """Give the coefficients of a margin's scores, as a function of the normal variable, of unit variance."""
    from scipy.special import ndtri

    edges = ndtri(np.clip(np.append(0, margin.ends) / margin.ends[-1], 1e-15, 1 - 1e-15))
    density = np.exp(-(edges**2) / 2) / np.sqrt(2 * np.pi)
    density[[0, -1]] = 0.0
    polynomial, before = np.ones_like(edges), np.zeros_like(edges)
    found = np.empty(_TERMS)
    for k in range(1, _TERMS + 1):
        found[k - 1] = margin.scores @ -np.diff(polynomial * density) / np.sqrt(k)
        polynomial, before = (edges * polynomial - np.sqrt(k - 1) * before) / np.sqrt(k), polynomial
    norm = np.sqrt((found**2).sum())
    return found / norm if norm > 0 else found


def _solve(product: Floats, wanted: float) -> float:
    """Find r with Σ product·rᵏ = wanted, as near as it comes."""
    powers = np.arange(1, len(product) + 1)
    low, high = -1.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if float(product @ middle**powers) < wanted else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True)
class _Copula:
    margins: tuple[_Margin, ...]
    targets: frozenset[str]
    correlations: Floats
    smoothing: float
    keep_extremes: bool

    def draw(self, values: Values, rows: int, rng: np.random.Generator, rules: DrawnRules) -> None:  # noqa: ARG002
        own = [number for number, margin in enumerate(self.margins) if margin.key in self.targets]
        kept = [number for number in range(len(self.margins)) if number not in own]
        matrix = self.correlations
        mean = np.zeros((rows, len(own)))
        left = matrix[np.ix_(own, own)]
        if kept:
            slope = np.linalg.solve(matrix[np.ix_(kept, kept)], matrix[np.ix_(kept, own)])
            known = np.column_stack([self._given(self.margins[number], values) for number in kept])
            mean, left = known @ slope, left - matrix[np.ix_(own, kept)] @ slope
        roots, axes = np.linalg.eigh((left + left.T) / 2)
        normal = mean + rng.standard_normal((rows, len(own))) @ (axes * np.sqrt(np.maximum(roots, 0.0))).T
        missing: dict[str, Floats] = {}
        for place, number in enumerate(own):
            margin = self.margins[number]
            drawn = margin.value(normal[:, place], self.smoothing, rng, self.keep_extremes)
            if margin.kind == "missing":
                missing[margin.key] = drawn
                values[margin.key] = np.full(rows, np.nan)
            else:
                values[margin.key] = np.where(missing.get(margin.key, np.zeros(rows)) > 0, np.nan, drawn)

    @staticmethod
    def _given(margin: _Margin, values: Values) -> Floats:
        known = values[margin.key]
        return margin.score(np.isnan(known).astype(np.float64) if margin.kind == "missing" else known)
