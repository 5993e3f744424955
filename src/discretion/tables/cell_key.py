"""The cell-key method: noise that is the same wherever the same cell is shown."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.context import Context, new_seed
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Floats, Ints, Keys

if TYPE_CHECKING:
    from discretion.tables.cells import Cells


# Perturbation tables: how likely each deviation is for each count, of all such laws the least predictable.


TOLERANCE = 1e-12
"""How closely mean and variance of the laws are met, as a share of the variance."""

_ROUNDS = 200


@dataclass(frozen=True, eq=False, repr=False)
class PerturbationTable:
    """For each count (the last row: that count and all larger) the probability of each deviation.

    Every row has mean 0 and the wanted variance, gives no negative count and none of the results that are not to
    appear, and has the largest entropy of all such laws. A count of 0 stays 0: nothing else has mean 0.
    Like the parameters it comes from, the table is confidential.
    """

    deviations: Ints
    """(k,) the possible deviations, ascending"""
    probability: Floats
    """(rows, k) one row for each count 0, 1, …; impossible deviations have 0"""
    variance: float
    maximum: int

    def __post_init__(self) -> None:
        self.deviations.flags.writeable = False
        self.probability.flags.writeable = False

    def __repr__(self) -> str:
        return f"PerturbationTable({len(self.probability)} rows × {len(self.deviations)} deviations)"

    @property
    def entropy(self) -> Floats:
        """(rows,) the entropy of each row, in nats."""
        p = self.probability
        bits: Floats = np.where(p > 0, p * np.log(np.where(p > 0, 1 / np.maximum(p, 1e-300), 1.0)), 0.0).sum(axis=1)
        return bits

    def deviation(self, count: Ints, key: Floats) -> Ints:
        """Look up the deviation of each cell by its count and its key in [0, 1)."""
        row = np.minimum(count, len(self.probability) - 1)
        edges = np.cumsum(self.probability, axis=1)
        edges /= edges[:, -1:]
        place = (key[:, None] >= edges[row, :-1]).sum(axis=1) if len(row) else np.zeros(0, np.int64)
        found: Ints = self.deviations[place]
        return found


def perturbation_table(
    variance: float, maximum: int, *, forbidden: int = 0, stay: float | None = None
) -> PerturbationTable:
    """Make the perturbation table of largest entropy.

    `variance` is that of the noise, `maximum` its largest absolute deviation. Results from 1 to `forbidden` never
    appear (small counts are moved away). `stay` fixes the probability that a count does not change. O(maximum²).

    References
    ----------
    Marley & Leaver (2011), Proc. ISI World Congress; Giessing (2016), in Privacy in Statistical Databases;
    catalogue T6.

    Examples
    --------
    >>> from discretion.tables.cell_key import perturbation_table
    >>> table = perturbation_table(2.0, 4)
    >>> abs(table.probability @ table.deviations).round(9).tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0]
    """
    _check(variance, maximum, forbidden, stay)
    deviations = np.arange(-maximum, maximum + 1)
    rows = np.zeros((maximum + forbidden + 1, len(deviations)))
    rows[0, maximum] = 1.0
    for count in range(1, len(rows)):
        result = count + deviations
        possible = (result >= 0) & ~((result >= 1) & (result <= forbidden))
        where = f"a count of {count}"
        rows[count, possible] = _law_of(deviations[possible].astype(np.float64), variance, stay, where)
    return PerturbationTable(deviations, rows, variance, maximum)


def _check(variance: float, maximum: int, forbidden: int, stay: float | None) -> None:
    problems = []
    if not np.isfinite(variance) or variance <= 0:
        problems.append(f"variance: expected a number above 0, got {variance!r}")
    if maximum < 1:
        problems.append(f"maximum: expected at least 1, got {maximum!r}")
    if forbidden < 0:
        problems.append(f"forbidden: expected at least 0, got {forbidden!r}")
    if stay is not None and not 0 <= stay < 1:
        problems.append(f"stay: expected a share of at least 0 and below 1, got {stay!r}")
    if problems:
        raise PlanError(problems)


def _law_of(support: Floats, variance: float, stay: float | None, where: str) -> Floats:
    if stay is None or not (support == 0).any():
        return largest_entropy(support, variance, where)
    moved = support != 0
    law = np.zeros(len(support))
    law[~moved] = stay
    law[moved] = (1 - stay) * largest_entropy(support[moved], variance / (1 - stay), where)
    return law


def largest_entropy(support: Floats, variance: float, where: str = "perturbation") -> Floats:
    """Give the law on some numbers with mean 0 and a given variance that has the largest entropy.

    It is p(d) ∝ exp(a·d + b·d²); a and b minimize the convex function log Σ exp(a·d + b·d²) − b·variance, by Newton's
    method. On the border of what is possible there is only one law, on two numbers (or three with 0).
    """
    least, most = _possible(support, where)
    if not least - 1e-12 <= variance <= most + 1e-12:
        raise PlanError(
            f"{where}: unbiased noise has a variance from {least:g} to {most:g}; "
            "choose one in between, or a larger maximum"
        )
    if variance - least < 1e-9 * max(least, 1.0):
        return _two_points(support, support[support <= 0].max(), support[support >= 0].min())
    if most - variance < 1e-9 * most:
        return _two_points(support, support.min(), support.max())
    return _newton(support, variance)


def _possible(support: Floats, where: str) -> tuple[float, float]:
    """Give the smallest and the largest variance that noise of mean 0 can have."""
    below, above = support[support <= 0], support[support >= 0]
    if not len(below) or not len(above):
        raise PlanError(
            f"{where}: there is no unbiased noise, as all possible results lie on one side; "
            "choose a larger maximum, or fewer results that must not appear"
        )
    return float(abs(below.max()) * above.min()), float(abs(support.min()) * support.max())


def _two_points(support: Floats, low: float, high: float) -> Floats:
    law = np.zeros(len(support))
    if high == low:
        law[support == low] = 1.0
        return law
    law[support == low] = high / (high - low)
    law[support == high] = -low / (high - low)
    return law


def _newton(support: Floats, variance: float) -> Floats:
    """Minimize the dual by Newton steps, shortened until the dual falls or its slope halves.

    The dual is flat at its bottom: it tells a point from the best one only to the root of the machine's precision. The
    slope, which is the error of mean and variance, tells them apart to the precision itself, and ends the search.
    """
    scale = np.abs(support).max()
    s = support / scale
    features = np.column_stack((s, s * s))
    goal = np.array([0.0, variance / scale**2])

    def dual(point: Floats) -> tuple[float, Floats, Floats]:
        log = features @ point
        top = log.max()
        p = np.exp(log - top)
        total = p.sum()
        p /= total
        return float(top + np.log(total) - goal @ point), p, p @ features - goal

    at = np.zeros(2)
    value, p, slope = dual(at)
    for _ in range(_ROUNDS):
        error = np.abs(slope).max()
        if error <= TOLERANCE * goal[1]:
            break
        centered = features - p @ features
        curve = (centered * p[:, None]).T @ centered
        step = np.linalg.solve(curve + 1e-15 * np.trace(curve) * np.eye(2), slope)
        length = 1.0
        while length > 1e-9:
            new = dual(at - length * step)
            if new[0] <= value - 1e-4 * length * float(slope @ step) or np.abs(new[2]).max() <= error / 2:
                break
            length /= 2
        else:
            break
        at, (value, p, slope) = at - length * step, new
    return p


# What somebody who knows the law of cell-key noise, but not the keys, can tell about the cells.


MANY = 100
"""Parts of a sum above which their noise together is taken for normal."""


def possible_values(perturbed: Perturbed, shown: Floats) -> tuple[Floats, Floats]:
    """Give the bounds of each true value that the values shown and the law of the noise leave."""
    cells = perturbed.cells
    if perturbed.table is not None and (cells.value == cells.count).all():
        likely = _beliefs(perturbed.table, shown, _least(cells)) > 0
        d = perturbed.table.deviations
        return shown - d[likely.shape[1] - 1 - likely[:, ::-1].argmax(axis=1)], shown - d[likely.argmax(axis=1)]
    (support, _), scales = _noise(perturbed)
    reach = float(np.abs(support).max()) * scales.sum(axis=1)
    return shown - reach, shown + reach


def chances(perturbed: Perturbed, where: Ints, lower: Floats, upper: Floats) -> Floats:
    """Give how likely an attacker holds some cells to lie nearer to the truth than so far below and above it.

    The attacker begins with no opinion, and uses the value shown and every sum that the cell is in. For counts the
    chances are exact (sums of more than `MANY` parts: normal); other noise is taken for normal, or by its own law
    without the sums where that comes closer.
    """
    cells = perturbed.cells
    if perturbed.table is not None and (cells.value == cells.count).all():
        return _chances_of_counts(cells, perturbed.table, where, lower, upper)
    law, scales = _noise(perturbed)
    off = (np.asarray(cells.status.released) - cells.value)[where]
    sd = np.sqrt(law[0] ** 2 @ law[1]) * np.sqrt((scales**2).sum(axis=1))
    found = _normal_chances(cells, sd, where, off - upper, off + lower)
    if scales.shape[1] > 1:
        return found
    noise = law[0] * scales[where]
    inside = (noise > (off - upper)[:, None]) & (noise < (off + lower)[:, None])
    return np.maximum(found, inside @ law[1])


def _noise(perturbed: Perturbed) -> tuple[tuple[Floats, Floats], Floats]:
    """Give the law of noise (support, probabilities), and (cells, k) the numbers by which k such noises are multiplied.

    Of sums these are the largest contributions, of weighted counts what one respondent more or less changes.
    """
    cells = perturbed.cells
    if perturbed.table is not None:
        law = perturbed.table.deviations.astype(np.float64), perturbed.table.probability[-1]
        return law, np.abs(cells.value / np.maximum(cells.count, 1))[:, None]
    support, likely = perturbed.law or (np.zeros(1), np.ones(1))
    return (support / 100, likely), cells.top[:, : perturbed.contributions]


def _least(cells: Cells) -> int:
    """Give the least count of a listed cell: where no empty cell is listed, whoever is listed is not empty."""
    return int((cells.count > 0).all())


def _beliefs(table: PerturbationTable, shown: Floats, least: int) -> Floats:
    """(cells, deviations) how likely each deviation is given the value shown, with no opinion about the true count."""
    true = np.round(shown).astype(np.int64)[:, None] - table.deviations
    row = np.clip(true, 0, len(table.probability) - 1)
    p = np.where(true >= least, table.probability[row, np.arange(len(table.deviations))], 0.0)
    found: Floats = p / p.sum(axis=1, keepdims=True)
    return found


def _chances_of_counts(cells: Cells, table: PerturbationTable, where: Ints, lower: Floats, upper: Floats) -> Floats:
    shown = np.asarray(cells.status.released)
    belief = _beliefs(table, shown, _least(cells))
    posterior = belief[where].copy()
    place = {cell: k for k, cell in enumerate(where.tolist())}
    d = table.deviations
    for members, signs in _sums_of(cells, where):
        miss = int(np.round(signs @ shown[members]))
        laws = [belief[j] if sign > 0 else belief[j][::-1] for j, sign in zip(members.tolist(), signs, strict=True)]
        for k, (cell, sign) in enumerate(zip(members.tolist(), signs.tolist(), strict=True)):
            if cell in place:
                posterior[place[cell]] *= _sum_of_others(laws, k, table.maximum, miss - int(sign) * d)
    posterior /= posterior.sum(axis=1, keepdims=True)
    off = shown[where, None] - d - cells.value[where, None]
    near = (off == 0) | ((off > -lower[:, None]) & (off < upper[:, None]))
    chance: Floats = (posterior * near).sum(axis=1)
    return chance


def _sum_of_others(laws: list[Floats], left_out: int, most: int, at: Ints) -> Floats:
    """Give how likely the noise of all but one part of a sum adds up to each of some numbers."""
    others = [law for k, law in enumerate(laws) if k != left_out]
    d = np.arange(-most, most + 1)
    if len(others) > MANY:
        mean = sum(float(law @ d) for law in others)
        variance = sum(float(law @ d**2 - (law @ d) ** 2) for law in others)
        near: Floats = np.exp(-((at - mean) ** 2) / (2 * variance))
        return near
    law = others[0]
    for other in others[1:]:
        law = np.convolve(law, other)
    middle = len(law) // 2
    inside = np.abs(at) <= middle
    return np.where(inside, law[np.where(inside, at + middle, 0)], 0.0)


def _sums_of(cells: Cells, where: Ints) -> Iterator[tuple[Ints, Floats]]:
    """Give the sums with at least two parts that some cells are in; a total of one part has the same noise as it."""
    sums = cells.relations()
    wanted = np.zeros(len(cells), np.bool_)
    wanted[where] = True
    rows = np.unique(sums.rows[wanted[sums.indices]])
    for row in rows.tolist():
        inside = slice(int(sums.indptr[row]), int(sums.indptr[row + 1]))
        if inside.stop - inside.start > 2:
            yield sums.indices[inside].astype(np.int64), sums.data[inside].astype(np.float64)


def _normal_chances(cells: Cells, sd: Floats, where: Ints, low: Floats, high: Floats) -> Floats:
    """Give how likely normal noise lies between bounds, given every sum of a cell."""
    from scipy.special import ndtr

    shown = np.asarray(cells.status.released)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = 1 / sd**2
        pull = np.zeros(len(sd))
        for members, signs in _sums_of(cells, where):
            told = 1 / np.maximum((sd[members] ** 2).sum() - sd[members] ** 2, 0.0)
            pull[members] += told * signs * float(signs @ shown[members])
            precision[members] += told
        left = 1 / np.sqrt(precision[where])
        middle = pull[where] / precision[where]
        found: Floats = ndtr((high - middle) / left) - ndtr((low - middle) / left)
    return np.where(left > 0, np.nan_to_num(found, nan=1.0), 1.0)


KEY_BITS = 30
"""Record keys are multiples of 2⁻³⁰: sums of up to 8 million of them are exact, so that a cell's key never depends on
the order of its records."""

_GRID = 400
_SECRET_BYTES = 16


@dataclass(frozen=True, eq=False, repr=False)
class Perturbed:
    """A perturbed table and the law of its noise."""

    cells: Cells
    """the table; `cells.status.released` are the values to go out; totals are not the sums of their parts"""
    table: PerturbationTable | None
    """how likely each deviation was, for counts; confidential"""
    law: tuple[Floats, Floats] | None = None
    """for sums: deviations in percent of a contribution, and how likely each was; confidential"""
    contributions: int = 1
    """for sums: how many of the largest contributions of a cell have noise"""

    def __repr__(self) -> str:
        return f"Perturbed({len(self.cells):,} cells; not additive)"

    def possible(self, shown: Floats) -> tuple[Floats, Floats]:
        """Give the bounds of each true value that the values shown and the law of the noise leave."""

        return possible_values(self, shown)

    def chances(self, where: Ints, lower: Floats, upper: Floats) -> Floats:
        """Give how likely somebody who knows the law of the noise holds cells to be that near to the truth."""

        return chances(self, where, lower, upper)


def perturb(
    cells: Cells,
    *,
    variance: float | None = None,
    maximum: int | None = None,
    forbidden: int = 0,
    stay: float | None = None,
    table: PerturbationTable | None = None,
    sd_percent: float | None = None,
    maximum_percent: float | None = None,
    contributions: int = 1,
) -> Perturbed:
    """Add noise to every cell that depends only on who is in it, so that a cell is the same in every table.

    Every record has a secret random key; the key of a cell is the sum of its records' keys without the whole part, and
    looks up the noise. Cells of the same records get the same noise in whichever table they stand: repeating a question
    tells nothing new. Noise has mean 0, the given variance and largest deviation, and of all such laws the largest
    entropy; counts never become negative, empty cells stay empty.

    Tables of counts take `variance` and `maximum` (or a ready `table`), `forbidden` and `stay` as in
    `perturbation_table`; counts that are weighted, or count several records of a respondent, change in proportion to
    the respondents. Tables of sums take `sd_percent` and `maximum_percent`: each of the `contributions` largest
    respondents of a cell gets noise of that size in percent of its contribution, each independent of the others, so
    that noise hides the largest respondents whatever the size of the cell.

    Totals are perturbed like other cells and are not the sums of their parts: forcing them would make the noise of a
    cell depend on the table it stands in, and let it be averaged out. Users should take totals from the table and not
    add up. Differences of cells that differ in one record are still noisy, unless nobody is in the cell or the keys
    become known. How much somebody who knows the law of the noise still learns of sensitive cells says
    `released_audit.audit_perturbed`. O(cells × maximum).

    References
    ----------
    Fraser & Wooton (2005), UNECE/Eurostat work session; Thompson, Broadfoot & Elazar (2013); Giessing & Tent (2019);
    catalogue T6.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.tables.with_record_keys(dc.datasets.census(2000, seed=1), seed=7)
    >>> cells = dc.tabulate(people, ["region", "sex"], weight=False, record_key="record_key")
    >>> other = dc.tabulate(people, ["sex", "education"], weight=False, record_key="record_key")
    >>> one, two = (t.perturb(variance=2, maximum=5).cells for t in (cells, other))
    >>> float(one.status.released[one.index({"sex": "female"})] - two.status.released[two.index({"sex": "female"})])
    0.0
    """
    if cells.key is None:
        raise PlanError("the table has no cell keys; tabulate with `record_key`, see `dc.tables.with_record_keys`")
    if cells.response.frequency:
        if sd_percent is not None or maximum_percent is not None:
            raise PlanError("sd_percent and maximum_percent are for sums; counts take `variance` and `maximum`")
        law = table or _law(variance, maximum, forbidden, stay)
        return Perturbed(cells.with_released(_counts(cells, law)), law)
    if variance is not None or maximum is not None or table is not None or forbidden or stay is not None:
        raise PlanError(
            "variance, maximum, forbidden, stay and table are for counts; sums take `sd_percent` and `maximum_percent`"
        )
    released, noise = _sums(cells, sd_percent, maximum_percent, contributions)
    return Perturbed(cells.with_released(released), None, noise, contributions)


def _law(variance: float | None, maximum: int | None, forbidden: int, stay: float | None) -> PerturbationTable:
    if variance is None or maximum is None:
        raise PlanError("give `variance` and `maximum` of the noise, or a `table`")
    return perturbation_table(variance, maximum, forbidden=forbidden, stay=stay)


def _counts(cells: Cells, table: PerturbationTable) -> Floats:
    value, count = cells.value, cells.count
    moved = table.deviation(count, _mixed(cells, 0))
    if (value == count).all():
        return value + moved
    scaled: Floats = np.where(count > 0, value * (count + moved) / np.maximum(count, 1), 0.0)
    return scaled


def _sums(
    cells: Cells, sd: float | None, most: float | None, contributions: int
) -> tuple[Floats, tuple[Floats, Floats]]:
    if sd is None or most is None:
        raise PlanError("give `sd_percent` and `maximum_percent` of the noise of a table of sums")
    if not 0 < sd < most <= 100:
        raise PlanError("expected 0 < sd_percent < maximum_percent ≤ 100: beyond 100 a sum could become negative")
    if not 1 <= contributions <= cells.top.shape[1]:
        raise PlanError(
            f"contributions: expected 1 to {cells.top.shape[1]}, the largest contributions the table keeps; "
            "tabulate with more in `top`"
        )
    support = np.linspace(-most, most, _GRID + 1)
    law = largest_entropy(support, sd**2)
    edges = np.cumsum(law)
    released = cells.value.astype(np.float64)
    for k in range(contributions):
        place = np.searchsorted(edges / edges[-1], _mixed(cells, k + 1), side="right")
        released = released + support[np.minimum(place, _GRID)] / 100 * cells.top[:, k]
    if (cells.response.negative == 0).all():
        released = np.maximum(released, 0.0)
    return np.where(cells.count > 0, released, cells.value), (support, law / law.sum())


def _mixed(cells: Cells, stream: int) -> Floats:
    """Give uniform numbers from the cell keys: the keys themselves for counts, others for each contribution of sums."""
    keys = np.asarray(cells.key, np.float64)
    if stream == 0:
        return keys
    salt = hashlib.blake2b(f"{cells.response.name}/{stream}".encode(), digest_size=8).digest()
    mixed: Keys = np.round(keys * 2.0**KEY_BITS).astype(np.uint64) + np.uint64(int.from_bytes(salt, "big") >> 1)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def with_record_keys(
    data: Any,
    name: str = "record_key",
    *,
    by: str | Sequence[str] | None = None,
    key_file: str | Path | None = None,
    seed: int | None = None,
) -> Dataset:
    """Give every record a secret random key in [0, 1), for cell keys.

    With `key_file` (a file of at least 16 secret bytes) and `by` (the columns that identify a record) the key is a
    keyed hash: the same record has the same key in every delivery and in every extract. Otherwise keys are drawn (from
    `seed`, a secret), in the order of the records. Who knows the keys can take the noise off: keep them like the data.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> keyed = dc.tables.with_record_keys(pl.DataFrame({"id": [1, 2]}), seed=3)
    >>> keyed.columns
    ('id', 'record_key')
    """
    import polars as pl

    data = Dataset.of(data, "record keys")
    if name in data.columns:
        raise PlanError(f"the data has a column {name!r} already; give another name for the keys")
    if (key_file is None) != (by is None) or (key_file is not None and seed is not None):
        raise PlanError("give `key_file` with `by`, or neither (then keys are drawn, from `seed` if it is given)")
    if by is None:
        rng = Context(new_seed() if seed is None else seed, "record-keys").rng
        whole = rng.integers(0, 1 << KEY_BITS, len(data))
    else:
        whole = _hashed(data, [by] if isinstance(by, str) else list(by), _secret(Path(str(key_file))))
    frame = data.frame.with_columns(pl.Series(name, whole / 2.0**KEY_BITS, dtype=pl.Float64))
    return Dataset(frame, schema=data.schema)


def _secret(path: Path) -> bytes:
    if not path.is_file():
        raise PlanError(f"no key file {str(path)!r}")
    secret = path.read_bytes()
    if len(secret) < _SECRET_BYTES:
        raise PlanError(f"the key file {path.name!r} must hold at least {_SECRET_BYTES} bytes")
    return hashlib.blake2b(secret, digest_size=32).digest()


def _hashed(data: Dataset, columns: Sequence[str], secret: bytes) -> Ints:
    data.require(columns)
    gaps = sum(data.count_missing(column) for column in columns)
    if gaps:
        raise DataError(f"by: {gaps} identifying values are missing; every record needs them for its key")
    rows = data.frame.select(columns)
    if rows.is_duplicated().any():
        raise DataError("by: several records have the same identifying values; name columns that tell records apart")
    texts = ["\x1f".join(map(canonical, row)) for row in rows.iter_rows()]
    digests = (hashlib.blake2b(text.encode(), key=secret, digest_size=8).digest() for text in texts)
    return np.fromiter((int.from_bytes(d, "big") >> (64 - KEY_BITS) for d in digests), np.int64, len(texts))
