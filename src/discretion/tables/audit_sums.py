"""Sums of suppressed cells: what nobody published may still follow, and be sensitive itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.kernels.arrays import Floats, Ints
from discretion.tables.attacker import Attacker
from discretion.tables.attacker_system import Matrix, Prior
from discretion.tables.audit import bounds_of, whole_numbers
from discretion.tables.audit_certify import Clock, Targets, certify
from discretion.tables.audit_report import Sums

if TYPE_CHECKING:
    from discretion.tables.cells import Cells

CHUNK = 2_000
"""Sums the rules look at together."""


def audited_sums(cells: Cells, attacker: Attacker, rules: Sequence[Any], prior: Prior, clock: Clock) -> Sums:
    """Judge sums of suppressed cells with a common total by the rules, and bound those that are sensitive."""
    from discretion.tables.rules.rule import parsed

    rules = parsed(rules)
    unions = list(dict.fromkeys(candidates(cells)))
    members: list[tuple[int, ...]] = []
    value, lower, upper = [], [], []
    for first in range(0, len(unions), CHUNK):
        clock.tell(first, len(unions))
        part = unions[first : first + CHUNK]
        found = as_cells(cells, part).apply_rules([rule for rule in rules if rule.few()])
        numbers = found.find(found.dims[0].find([str(i) for i in range(len(part))]).reshape(-1, 1))
        for i in np.flatnonzero((numbers >= 0) & found.primary[numbers]).tolist():
            members.append(part[i])
            value.append(float(cells.value[list(part[i])].sum()))
            lower.append(float(found.lower_required[numbers[i]]))
            upper.append(float(found.upper_required[numbers[i]]))
    rows = _selection(members, len(cells)) @ attacker.system.members
    values, low, high = np.array(value), np.array(lower), np.array(upper)
    low = low if prior.negative else np.minimum(low, np.maximum(values, 0.0))
    none = np.zeros(len(members), np.bool_)
    targets = Targets(rows.tocsr(), values, low, high, none, whole_numbers(cells))
    certify(attacker, targets, clock)
    return Sums(tuple(members), values, bounds_of(targets, ~none, values, low, high), len(unions))


def candidates(cells: Cells) -> Iterator[tuple[int, ...]]:
    """Give the sums to look at: all suppressed parts of a total, and pairs of them with a sensitive one.

    A sum of cells that are all not sensitive is not sensitive by rules like p-percent and dominance.
    """
    sums = cells.relations()
    gap = cells.suppressed[sums.indices] & (sums.data < 0) & ~np.isnan(cells.value[sums.indices])
    for row in np.flatnonzero(np.bincount(sums.rows, gap, sums.shape[0]) >= 2).tolist():
        place = slice(sums.indptr[row], sums.indptr[row + 1])
        parts = sums.indices[place][gap[place]].tolist()
        sensitive = cells.primary[parts]
        if sensitive.any():
            yield tuple(parts)
        for one, other in combinations(range(len(parts)), 2):
            if sensitive[one] or sensitive[other]:
                yield parts[one], parts[other]


def as_cells(cells: Cells, unions: Sequence[tuple[int, ...]]) -> Cells:
    """Give a table whose inner cells are the sums, with the contributions of every respondent added up."""
    if cells.source is None:
        return _from_figures(cells, unions)
    return added_up(cells, _selection(unions, len(cells)) @ cells.x.transposed.to_scipy())


def added_up(cells: Cells, members: Matrix) -> Cells:
    """Give a table of sums of inner cells (one row of `members` each) from the contributions of a table."""
    from discretion.tables.build import cells_of
    from discretion.tables.contributions import build
    from discretion.tables.dimensions import Dimension

    entries = cells.source
    assert entries is not None
    inside = members.tocsc()
    counts = np.diff(inside.indptr)[entries.inner]
    which = np.repeat(np.arange(len(entries)), counts)
    starts = np.repeat(inside.indptr[:-1][entries.inner] - np.r_[0, np.cumsum(counts)[:-1]], counts)
    union = inside.indices[starts + np.arange(len(which))]
    dim = Dimension.flat("sum", range(members.shape[0]))
    code = dim.find([str(i) for i in range(members.shape[0])])[union].astype(np.int32).reshape(-1, 1)
    repeated = replace(
        entries,
        inner=entries.inner[which],
        contributor=entries.contributor[which],
        x=entries.x[which],
        weight=entries.weight[which],
        waived=entries.waived[which],
        requested=entries.requested[which],
        key=None,
    )
    made = build(repeated, code, (len(dim),))
    found = cells_of(made, (dim,), (("sum",),), cells.top.shape[1], "drop", cells.contributors)
    return replace(found, active=cells.active)


def _from_figures(cells: Cells, unions: Sequence[tuple[int, ...]]) -> Cells:
    """Add up ready-made cells; no respondent is taken to be in two of them."""
    import polars as pl

    from discretion.tables.ready import from_cells

    response, t = cells.response, cells.top.shape[1]
    top = np.zeros((len(unions), t))
    for i, union in enumerate(unions):
        top[i] = np.sort(cells.top[list(union)].ravel())[::-1][:t]
    sums = _selection(unions, len(cells))
    columns = {"sum": [str(i) for i in range(len(unions))], "value": sums @ np.nan_to_num(cells.value)}
    named = [f"top_{k}" for k in range(t)]
    columns |= {name: top[:, k] for k, name in enumerate(named)}
    columns["count"] = (sums @ cells.count).astype(np.int64)
    made = from_cells(pl.DataFrame(columns), ["sum"], None if response.frequency else "value", count="count", top=named)
    return replace(made, responses=(replace(made.response, counted=response.counted),))


def _selection(unions: Sequence[tuple[int, ...]], m: int) -> Matrix:
    from scipy.sparse import csr_array

    sizes = np.array([len(union) for union in unions], np.int64)
    columns: Ints = np.array([cell for union in unions for cell in union], np.int64)
    rows: Floats = np.ones(len(columns))
    return csr_array((rows, columns, np.r_[0, np.cumsum(sizes)]), shape=(len(unions), m))
