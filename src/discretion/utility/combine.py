"""One estimate from m synthetic copies, with a variance that knows they are synthetic (P23, P24)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from discretion.data.dataset import Dataset
from discretion.errors import PlanError, unknown
from discretion.kernels.arrays import Floats
from discretion.part import find

Kind = Literal["partly", "fully", "fully-proper", "raghunathan"]
_ASSUMES = (
    "the original is a simple random sample (no design weights, clusters or strata in the variances), it is large, "
    "and every synthesized column was drawn by a model that fits"
)


@dataclass(frozen=True)
class Combined:
    """An estimate from several synthetic copies; arrays where several estimates were combined at once."""

    estimate: float | Floats
    variance: float | Floats
    df: float | Floats
    """degrees of freedom of the interval; infinite: the normal law"""
    interval: tuple[float | Floats, float | Floats]
    confidence: float
    kind: Kind
    copies: int
    assumes: str
    """what must hold for the variance to be right"""

    @property
    def standard_error(self) -> float | Floats:
        """The square root of the variance."""
        return np.sqrt(self.variance)


def combine(
    estimates: ArrayLike,
    variances: ArrayLike,
    *,
    kind: Kind,
    rows: int | None = None,
    original: int | None = None,
    generator: Any = None,
    population_draws: bool = False,
    confidence: float = 0.95,
) -> Combined:
    """Combine estimates from m synthetic copies, each with the variance computed as if the copy were real.

    With q̄ and ū the means of estimates and variances, b the variance between copies, k rows in a copy, n in the
    original:

    - `partly` (some columns, or some records, are synthetic): T = ū + b/m with ν = (m − 1)(1 + m·ū/b)² degrees of
      freedom; from one copy 2ū, an upper bound;
    - `fully` (all columns, parameters as estimated: what the generators here do): T = ū(k/n + 1/m);
    - `fully-proper` (all columns, each copy with parameters drawn anew from their posterior law):
      T = ū(k/n + (1 + k/n)/m);
    - `raghunathan`: (1 + 1/m)b − ū. Only for copies that are samples of populations completed with parameters drawn
      anew (`population_draws=True` says so); from other copies its intervals hold in .39–.70 of cases instead of .95,
      so it is refused. Where it is not positive, ū·k/n stands instead.

    Refused for copies of a differentially private generator: they share the noise of its tables, which no variance
    between them can see. Design-based variances, small samples and models that do not fit are not covered.

    Parameters
    ----------
    estimates, variances
        one entry (or one line of several estimates) for each copy
    kind
        how the copies were made, see above
    rows, original
        number of rows of a copy and of the original; not needed for `partly`
    generator
        what made the copies, where you have it: a method, its kind, or the data it gave
    population_draws
        whether the copies are proper draws of populations, for `raghunathan`
    confidence
        coverage of the interval

    References
    ----------
    Reiter (2003); Raghunathan, Reiter & Rubin (2003); Raab, Nowok & Dibben (2016); catalogue P23, P24.

    Examples
    --------
    >>> import discretion as dc
    >>> found = dc.combine([10.2, 9.9, 10.3], [0.04, 0.05, 0.04], kind="fully", rows=500, original=500)
    >>> round(found.estimate, 3), round(found.variance, 4)
    (10.133, 0.0578)
    """
    if kind not in get_args(Kind):
        raise PlanError(f"combine: {unknown('kind', str(kind), get_args(Kind))}")
    if not 0 < confidence < 1:
        raise PlanError("combine: `confidence` lies between 0 and 1")
    _refuse_private(generator)
    if kind == "partly" and _made_rows(generator):
        raise PlanError("combine: these copies are fully synthetic (all rows are new); `partly` does not hold for them")
    q, u = _checked(estimates, variances)
    m, ratio = len(q), _ratio(kind, rows, original)
    mean, within = q.mean(axis=0), u.mean(axis=0)
    between = q.var(axis=0, ddof=1) if m > 1 else np.zeros_like(mean)
    variance, df = _variance(kind, m, within, between, ratio, population_draws)
    from scipy.stats import t

    half = t.ppf(0.5 + confidence / 2, df) * np.sqrt(variance)
    interval = (_plain(mean - half), _plain(mean + half))
    return Combined(_plain(mean), _plain(variance), _plain(df), interval, confidence, kind, m, _ASSUMES)


def _variance(
    kind: Kind, m: int, within: Floats, between: Floats, ratio: float, population_draws: bool
) -> tuple[Floats, Floats]:
    """Give the variance of the mean estimate, and the degrees of freedom of its interval."""
    endless = np.full_like(within, np.inf)
    if kind == "partly":
        if m == 1:
            return 2 * within, endless
        with np.errstate(divide="ignore"):
            df = np.where(between > 0, (m - 1) * (1 + m * within / np.where(between > 0, between, 1)) ** 2, np.inf)
        return within + between / m, df
    if kind == "fully":
        return within * (ratio + 1 / m), endless
    if kind == "fully-proper":
        return within * (ratio + (1 + ratio) / m), endless
    if not population_draws:
        raise PlanError(
            "combine: the rule of Raghunathan, Reiter and Rubin holds only for samples of populations that were "
            "completed with parameters drawn anew for each copy; for other copies its intervals cover far too seldom. "
            "Take `fully` or `fully-proper`, or say `population_draws=True` if the copies were made that way"
        )
    if m < 2:
        raise PlanError("combine: this rule needs at least two copies")
    found = (1 + 1 / m) * between - within
    share = within / np.where(between > 0, (1 + 1 / m) * between, np.inf)
    df = np.where(found > 0, np.maximum((m - 1) * (1 - share) ** 2, 1.0), m - 1)
    return np.where(found > 0, found, ratio * within), df


def _ratio(kind: Kind, rows: int | None, original: int | None) -> float:
    given = {"rows": rows, "original": original}
    wrong = [name for name, value in given.items() if value is not None and (isinstance(value, bool) or value < 1)]
    if wrong:
        raise PlanError(f"combine: `{wrong[0]}` is a number of rows, at least 1")
    if kind == "partly":
        if rows is not None and original is not None and rows != original:
            raise PlanError("combine: a partly synthetic copy has as many rows as the original")
        return 1.0
    if rows is None or original is None:
        raise PlanError(f"combine: `{kind}` needs `rows` of a copy and of the `original`")
    return rows / original


def _checked(estimates: ArrayLike, variances: ArrayLike) -> tuple[Floats, Floats]:
    q, u = np.asarray(estimates, np.float64), np.asarray(variances, np.float64)
    if q.ndim not in (1, 2) or q.shape != u.shape or not q.size:
        raise PlanError(
            "combine: give as many variances as estimates: one for each copy, or a line of several for each"
        )
    if not (np.isfinite(q).all() and np.isfinite(u).all()) or (u < 0).any():
        raise PlanError("combine: estimates and variances are finite numbers, and no variance is negative")
    return q, u


def _made_rows(generator: Any) -> bool:
    """Tell whether a method, or the steps behind some data, made all rows anew."""
    steps = generator.steps if isinstance(generator, Dataset) else (generator,)
    return any(getattr(step, "makes_rows", False) is True for step in steps)


def _refuse_private(generator: Any) -> None:
    """Refuse copies of a differentially private generator."""
    made = generator.steps if isinstance(generator, Dataset) else () if generator is None else (generator,)
    for one in made:
        part = find(one) if isinstance(one, str) else one
        if getattr(part, "private", False):
            raise PlanError(
                f"combine: copies of {part.kind} share the noise of its tables, which no variance between copies can "
                "see; an interval from them would be too short"
            )


def _plain(value: Floats) -> Any:
    return float(value) if np.ndim(value) == 0 else value
