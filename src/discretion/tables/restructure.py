"""Restructuring: roll categories up until no cell is sensitive, losing as few cells as possible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discretion.errors import Infeasible, PlanError
from discretion.kernels.arrays import Bools, Ints, Ints32
from discretion.tables.cells import Cells, mark_cells, unsafe_by_hand
from discretion.tables.dimensions import Dimension
from discretion.tables.tabulate import cells_of

JOINT = " + "
"""What stands between the codes of categories that were put together."""

Step = Mapping[str, Any]
"""`{"variable": …, "roll_up": code}` or `{"variable": …, "merge": [code, code]}`: plain data that a plan can hold."""


@dataclass(frozen=True, eq=False)
class Restructured:
    """The proposal: what to roll up, and the table it gives."""

    cells: Cells
    """the table after all steps, with the rules applied"""
    steps: tuple[Step, ...]
    """the steps in order, as plain data; `rolled_up(cells, steps)` repeats them on the next delivery"""
    lost: int
    """cells the table had before and has no longer"""

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """The variables after all steps."""
        return self.cells.dims

    def __repr__(self) -> str:
        return f"Restructured({len(self.steps)} steps, {self.lost} cells lost, {len(self.cells)} left)"


def restructure(
    cells: Cells, rules: Sequence[Any], *, keep: Sequence[str] = (), ordered: Sequence[str] = ()
) -> Restructured:
    """Roll categories up until no cell is sensitive, each time the step that loses fewest cells per sensitive one.

    First groups of the hierarchies are closed (their parts go, the group stays): the cells that stay do not change, so
    that the best step is found by counting. Where sensitive cells remain right below the totals, the category with most
    of them is put together with the one (of `ordered` variables: the neighbor) that leaves the fewest sensitive cells.
    Variables in `keep` are not touched. Raises `Infeasible` when everything else has been rolled up.

    A heuristic: the steps are good, not proven best. Time O(steps · (cells + records log records)).

    References
    ----------
    Willenborg & de Waal (2001), Elements of Statistical Disclosure Control, ch. 6; catalogue T3.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> people = pl.DataFrame({"town": list("AAAABBBBC"), "ill": ["yes", "no"] * 4 + ["no"]})
    >>> found = dc.tabulate(people, ["town", "ill"]).restructure([dc.Threshold(minimum=2)], keep=["ill"])
    >>> [dict(step) for step in found.steps], int(found.cells.primary.sum())
    ([{'variable': 'town', 'merge': ['A', 'C']}], 0)
    """
    for name in (*keep, *ordered):
        cells.dim(name)
    free = [j for j, dim in enumerate(cells.dims) if dim.name not in keep and len(dim.parents) == 1]
    now = cells.apply_rules(rules)
    steps: list[Step] = []
    while now.primary.any():
        found = _closings(now, free) or _best_merge(now, free, rules, ordered) or _whole_group(now, free)
        if not found:
            raise Infeasible(
                f"{int(now.primary.sum())} cells stay sensitive when everything that may be rolled up is; "
                f"{'free a variable in `keep`, or ' if keep else ''}loosen the rules, or suppress"
            )
        steps += found
        now = rolled_up(now, found).apply_rules(rules)
    return Restructured(now, tuple(steps), len(cells) - len(now))


def rolled_up(cells: Cells, steps: Sequence[Step]) -> Cells:
    """Give the table after some steps; decisions of people stay with the cells that stay."""
    if cells.source is None:
        raise PlanError(
            "restructure: a table of ready-made cells cannot be rolled up; give the records, or roll up there"
        )
    dims = list(cells.dims)
    to_new = [np.arange(len(dim), dtype=np.int32) for dim in dims]
    for step in steps:
        j = cells.dim(str(step["variable"]))
        dims[j], moved = _recoded(dims[j], step)
        to_new[j] = moved[to_new[j]]
    codes = np.column_stack([to_new[j][cells.inner_codes[:, j]] for j in range(len(dims))])
    sizes = tuple(len(dim) for dim in dims)
    entries = cells.source.regrouped(codes.astype(np.int32), sizes)
    empty = "keep" if (cells.weighted_count == 0).any() else "drop"
    new = cells_of(entries, tuple(dims), cells.tables, cells.top.shape[1], empty, cells.contributors, cells.notes)
    return _with_marks(new, cells)


def _with_marks(new: Cells, old: Cells) -> Cells:
    """Carry decisions over to the cells whose codes still exist."""
    codes = np.empty_like(new.codes)
    for j, (dim, before) in enumerate(zip(new.dims, old.dims, strict=True)):
        known: Ints32 = np.array([before.index.get(code, -1) for code in dim.codes], np.int32)
        codes[:, j] = known[new.codes[:, j]]
    place = np.where((codes >= 0).all(axis=1), old.find(np.maximum(codes, 0)), -1)

    def carried(mask: Bools) -> Bools:
        there: Bools = (place >= 0) & mask[place]
        return there

    status = old.status
    changes = {name: carried(getattr(status, name)) for name in ("safe", "must_publish", "preferred")}
    new = new.with_status(**changes)
    by_hand = carried(unsafe_by_hand(status))
    return mark_cells(new, by_hand, "unsafe") if by_hand.any() else new


def _recoded(dim: Dimension, step: Step) -> tuple[Dimension, Ints32]:
    """Give the variable after a step, and the new number of each of its codes."""
    parent = dim.parents[0]
    goes_to = np.arange(len(dim))
    labels = list(dim.codes)
    if "roll_up" in step:
        top = int(dim.find([step["roll_up"]])[0])
        goes_to[(dim.ancestors == top).any(axis=1)] = top
    else:
        members = sorted(dim.find(step["merge"]).tolist())
        if len({int(parent[code]) for code in members}) != 1 or not dim.leaves[members].all():
            raise PlanError(f"variable {dim.name!r}: only leaves below the same code can be put together")
        goes_to[members] = members[0]
        labels[members[0]] = JOINT.join(dim.codes[code] for code in members)
    kept = np.flatnonzero(goes_to == np.arange(len(dim)))
    number = np.full(len(dim), -1, np.int32)
    number[kept] = np.arange(len(kept))
    above = np.where(parent[kept] < 0, -1, number[np.maximum(parent[kept], 0)]).astype(np.int32)
    return Dimension(dim.name, tuple(labels[code] for code in kept), (above,)), number[goes_to]


def _closings(cells: Cells, free: Sequence[int]) -> list[Step]:
    """Close groups of the hierarchies, best first, as long as sensitive cells lie below one."""
    alive = np.ones(len(cells), np.bool_)
    leaf = [cells.dims[j].leaves.copy() for j in range(len(cells.dims))]
    steps: list[Step] = []
    while (cells.primary & alive).any():
        best: tuple[float, int, int] | None = None
        for j in free:
            for group, lost, gained in _groups(cells, j, leaf[j], alive):
                if best is None or (lost / gained, j, group) < best:
                    best = (lost / gained, j, group)
        if best is None:
            break
        _, j, group = best
        parts = cells.dims[j].children(group)
        alive &= ~np.isin(cells.codes[:, j], parts)
        leaf[j][parts] = False
        leaf[j][group] = True
        steps.append({"variable": cells.dims[j].name, "roll_up": cells.dims[j].codes[group]})
    return steps


def _whole_group(cells: Cells, free: Sequence[int]) -> list[Step]:
    """Close a group that is itself sensitive although its parts are not, so that it can be put together with others."""
    for j in free:
        dim = cells.dims[j]
        hit = np.bincount(cells.codes[cells.primary, j], minlength=len(dim)) > 0
        hit[0] = False
        for group in np.flatnonzero(hit & ~dim.leaves)[-1:]:
            return [{"variable": dim.name, "roll_up": dim.codes[group]}]
    return []


def _groups(cells: Cells, j: int, leaf: Bools, alive: Bools) -> Iterator[tuple[int, int, int]]:
    """List the groups whose parts are all leaves: how many cells closing each loses, how many of them sensitive."""
    dim = cells.dims[j]
    parent = dim.parents[0]
    codes = cells.codes[alive, j]
    below = np.maximum(parent[codes], 0)
    lost: Ints = np.bincount(below, minlength=len(dim))
    gained: Ints = np.bincount(below[cells.primary[alive]], minlength=len(dim))
    for group in range(1, len(dim)):
        parts = dim.children(group)
        if len(parts) and leaf[parts].all() and gained[group]:
            yield group, int(lost[group]), int(gained[group])


def _best_merge(cells: Cells, free: Sequence[int], rules: Sequence[Any], ordered: Sequence[str]) -> list[Step]:
    """Put the leaf with most sensitive cells together with the sibling that leaves the fewest."""
    worst: tuple[int, int, int] | None = None
    for j in free:
        dim = cells.dims[j]
        hits = np.bincount(cells.codes[cells.primary, j], minlength=len(dim))
        for code in np.flatnonzero(dim.leaves & (hits > 0)):
            if len(dim.children(int(dim.parents[0][code]))) > 1 and (worst is None or hits[code] > worst[0]):
                worst = (int(hits[code]), j, int(code))
    if worst is None:
        return []
    _, place, leaf = worst
    dim = cells.dims[place]
    siblings = [int(s) for s in dim.children(int(dim.parents[0][leaf])) if s != leaf]
    if dim.name in ordered:
        siblings = sorted(siblings, key=lambda s: abs(s - leaf))[:2]
    tries = []
    for sibling in siblings:
        pair = [dim.codes[min(leaf, sibling)], dim.codes[max(leaf, sibling)]]
        closed: list[Step] = [] if dim.leaves[sibling] else [{"variable": dim.name, "roll_up": dim.codes[sibling]}]
        steps: list[Step] = [*closed, {"variable": dim.name, "merge": pair}]
        result = rolled_up(cells, steps).apply_rules(rules)
        tries.append((int(result.primary.sum()), -len(result), sibling, steps))
    return min(tries, key=lambda item: item[:3])[3] if tries else []
