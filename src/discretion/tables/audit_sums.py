"""Sums of suppressed cells: what nobody published may still follow, and be sensitive itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.tables.attacker import Attacker
from discretion.tables.attacker_system import Matrix, Prior
from discretion.tables.audit import bounds_of, whole_numbers
from discretion.tables.audit_certify import Clock, Targets, certify
from discretion.tables.audit_report import Bounds, Sums
from discretion.tables.widened import Forms

if TYPE_CHECKING:
    from discretion.tables.cells import Cells

CHUNK = 2_000
"""Sums the rules look at together."""


def audited_sums(cells: Cells, attacker: Attacker, rules: Sequence[Any], prior: Prior, clock: Clock) -> Sums:
    """Judge sums of suppressed cells with a common total by the rules, and bound those that are sensitive."""
    from discretion.tables.rules.rule import parsed

    unions = list(dict.fromkeys((*isolated(cells), *candidates(cells))))
    members, values, low, high = _sensitive(cells, unions, parsed(rules), clock)
    rows = _selection(members, len(cells)) @ attacker.system.members
    low = low if prior.negative else np.minimum(low, np.maximum(values, 0.0))
    none = np.zeros(len(members), np.bool_)
    targets = Targets(rows.tocsr(), values, low, high, none, whole_numbers(cells))
    certify(attacker, targets, clock)
    return Sums(tuple(members), values, bounds_of(targets, ~none, values, low, high), len(unions))


def isolated_sums(cells: Cells) -> Sums | None:
    """Judge the sums that one subtraction gives, by the rules that were applied; nothing where none was.

    Each is known exactly, so that a sensitive one is disclosed. One sum for every total of the table at most.
    """
    if not any(rule.few() for rule in cells.rules):
        return None
    unions = list(dict.fromkeys(isolated(cells)))
    members, values, low, high = _sensitive(cells, unions, cells.rules)
    sure = np.ones(len(members), np.bool_)
    status = np.full(len(members), "disclosed")
    bounds = Bounds(values, values, sure, sure, status, np.maximum(low, high))
    return Sums(tuple(members), values, bounds, len(unions))


def sums_to_protect(cells: Cells, hidden: Bools) -> Forms | None:
    """Give the sums that a choice of gaps would give away, as sums of inner cells an engine can protect."""
    if not any(rule.few() for rule in cells.rules):
        return None
    open_to_all = cells.with_status(secondary=hidden & ~cells.primary)
    unions = list(dict.fromkeys(isolated(open_to_all)))
    members, _, low, high = _sensitive(open_to_all, unions, cells.rules)
    if not members:
        return None
    rows = _selection(members, len(cells)) @ cells.x.transposed.to_scipy()
    labels = tuple(" + ".join("/".join(cells.label(i).values()) for i in union) for union in members)
    return Forms(rows.tocsr(), low, high, np.zeros(len(members), np.bool_), labels)


def _sensitive(
    cells: Cells, unions: Sequence[tuple[int, ...]], rules: Sequence[Any], clock: Clock | None = None
) -> tuple[list[tuple[int, ...]], Floats, Floats, Floats]:
    """Give the sums that rules find sensitive, with their values and required levels."""
    members: list[tuple[int, ...]] = []
    value, lower, upper = [], [], []
    for first in range(0, len(unions), CHUNK):
        if clock is not None:
            clock.tell(first, len(unions))
        part = unions[first : first + CHUNK]
        found = as_cells(cells, part).apply_rules([rule for rule in rules if rule.few()])
        numbers = found.find(found.dims[0].find([str(i) for i in range(len(part))]).reshape(-1, 1))
        for i in np.flatnonzero((numbers >= 0) & found.primary[numbers]).tolist():
            members.append(part[i])
            value.append(float(cells.value[list(part[i])].sum()))
            lower.append(float(found.lower_required[numbers[i]]))
            upper.append(float(found.upper_required[numbers[i]]))
    return members, np.array(value), np.array(lower), np.array(upper)


def isolated(cells: Cells) -> Iterator[tuple[int, ...]]:
    """Give the gaps of every published total that has some parts left, where one of the gaps is sensitive."""
    sums = cells.relations()
    gap = cells.suppressed[sums.indices]
    part = sums.data < 0
    hidden_total = np.bincount(sums.rows, gap & ~part, sums.shape[0]) > 0
    gaps = np.bincount(sums.rows, gap & part, sums.shape[0])
    parts = np.bincount(sums.rows, part, sums.shape[0])
    unknown = np.bincount(sums.rows, gap & part & np.isnan(cells.value[sums.indices]), sums.shape[0]) > 0
    for row in np.flatnonzero(~hidden_total & (gaps >= 2) & (gaps < parts) & ~unknown).tolist():
        place = slice(sums.indptr[row], sums.indptr[row + 1])
        found = sums.indices[place][gap[place] & part[place]].tolist()
        if cells.primary[found].any():
            yield tuple(sorted(found))


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
            yield tuple(sorted(parts))
        for one, other in combinations(range(len(parts)), 2):
            if sensitive[one] or sensitive[other]:
                yield tuple(sorted((parts[one], parts[other])))


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
