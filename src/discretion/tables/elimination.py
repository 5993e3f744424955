"""Complementary suppression by elimination: fast, for tables of any size, against exact disclosure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.context import Context
from discretion.errors import DataError, Infeasible, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints, Ints32
from discretion.kernels.elimination import EliminationArrays, Relations, begun, publishable
from discretion.tables.levels import costs, empty, first_equal

if TYPE_CHECKING:
    from discretion.tables.cells import Cells, Sparse


def known_rows(cells: Cells, coalition: int = 1) -> Bools:
    """Tell which inner cells are known to somebody: those of one respondent, or of a coalition of up to c.

    Raises when the numbers of respondents are not known: an attack that cannot be looked at is not excluded. Inner
    cells that linked tables do not publish are counted from the contributions; where those are not there (ready-made
    linked tables) nobody is known to be alone in one, but in published cells: see `known_combinations`.
    """
    if coalition < 1:
        raise PlanError("coalition: at least 1 respondent")
    if not cells.response.counted:
        raise DataError(
            "the cells came without their numbers of respondents, so that nobody can tell who is alone in a cell; "
            "give the column `count`, or say singletons=False"
        )
    count = _inner_counts(cells)
    return (count > 0) & (count <= coalition)


def known_combinations(cells: Cells, coalition: int = 1) -> list[Ints32]:
    """List what somebody knows, as sets of inner cells: each known inner cell, and sums of several of one respondent.

    A respondent that is alone in several inner cells (a holding) also knows their sum within each published cell. In
    ready-made linked tables, who is alone in a published cell knows it, whatever inner cells it consists of.
    """
    rows = np.flatnonzero(known_rows(cells, coalition))
    found: set[tuple[int, ...]] = {(int(row),) for row in rows}
    owners = _owners(cells, rows)
    several = rows[(owners >= 0) & (np.bincount(owners + 1)[owners + 1] > 1)] if len(rows) else rows
    who = dict(zip(rows.tolist(), owners.tolist(), strict=True))
    sums: dict[tuple[int, int], list[int]] = {}
    for row in several.tolist():
        for cell in cells.x.row(row).tolist():
            sums.setdefault((cell, who[row]), []).append(row)
    found |= {tuple(members) for members in sums.values() if len(members) > 1}
    if cells.source is None and (cells.inner_cell < 0).any():
        few = np.flatnonzero((cells.count > 0) & (cells.count <= coalition))
        found |= {tuple(cells.x.transposed.row(cell).tolist()) for cell in few.tolist()}
    return [np.array(members, np.int32) for members in sorted(found)]


def _inner_counts(cells: Cells) -> Ints:
    """Count the respondents of every inner cell."""
    source = cells.source
    if source is None or (cells.inner_cell >= 0).all():
        return np.where(cells.inner_cell >= 0, cells.count[cells.inner_cell], 0)
    pairs = np.unique(np.column_stack((source.inner, source.contributor)), axis=0)
    return np.bincount(pairs[:, 0], minlength=len(cells.inner_codes)).astype(np.int64)


def _owners(cells: Cells, rows: Ints) -> Ints:
    """Give the respondent that is alone in each of these inner cells, −1 where it is not known who."""
    if not cells.top_ids.shape[1]:
        return np.full(len(rows), -1, np.int64)
    cell = cells.inner_cell[rows]
    alone = (cell >= 0) & (cells.count[cell] == 1)
    return np.where(alone, cells.top_ids[cell, 0], -1).astype(np.int64)


RETRIES = 30
"""Most orders tried after the first when respondents are looked at as attackers."""
WORK = 25_000
"""Candidates gone through in all those tries: large tables get fewer."""
LAG = 0.012
"""Share of the loss by which another order may be behind at its beginning; towards its end this shrinks to nothing."""
_NAMED = 10


def eliminate(
    cells: Cells,
    *,
    cost: Any = "value",
    singletons: bool = True,
    coalition: int = 1,
    ctx: Context | None = None,
) -> Bools:
    """Choose complementary cells so that no sensitive cell can be computed exactly from published ones.

    Goes through the other cells, the most costly first, and publishes each unless it makes a sensitive cell a
    combination of published ones: then it is suppressed. With `singletons` nobody who knows the inner cell it is alone
    in (with `coalition=c`: c respondents who are all there is in it), or the sum of several such cells of its own
    within a published cell, can compute another sensitive cell from one such knowledge either; as going through in
    order is only a heuristic there, it is repeated with an expensive suppressed cell put first, as long as that pays.
    Empty cells and cells that must be published come first, preferred ones last. Gives the mask.

    Does not protect against bounds: see `levels`, `optimal` and the audit. Time grows with the inner cells times the
    cells that depend on each.

    References
    ----------
    Langsrud (2024), Secondary cell suppression by Gaussian elimination, PSD 2024; catalogue T4.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> from discretion.tables.elimination import eliminate
    >>> given = pl.DataFrame({"row": list("aaabbb"), "col": list("xyzxyz"), "n": [1, 20, 30, 25, 9, 40]})
    >>> cells = dc.tables.from_cells(given, ["row", "col"], count="n").apply_rules([dc.Threshold(minimum=3)])
    >>> [cells.label(i) for i in eliminate(cells).nonzero()[0].tolist()]
    [{'row': 'a', 'col': 'y'}, {'row': 'b', 'col': 'x'}, {'row': 'b', 'col': 'y'}]
    """
    ctx = ctx or Context(seed=0, step="elimination")
    none = np.zeros(len(cells), np.bool_)
    if not cells.primary.any():
        return none
    problem = _Problem.of(cells, costs(cells, cost), known_combinations(cells, coalition) if singletons else [])
    best = problem.run(problem.order, ctx)
    if (bad := problem.refused(cells, best)).any():
        raise Infeasible(_reason(cells, bad, costs(cells, cost), singletons, ctx))
    best = problem.improved(best, ctx)
    none[problem.order[~best]] = True
    none[problem.first[cells.primary]] = True
    hidden: Bools = none[problem.first] & ~cells.primary
    return hidden


@dataclass(frozen=True, eq=False)
class _Problem:
    """Rows tied by relations, and the order: cells (those with the same inner cells are the `first` of them), then
    inner cells that are not published, then sums that somebody knows."""

    relations: Relations
    order: Ints
    """the candidates"""
    head: int
    """how many of them come first in any order: those that must be published, and empty ones"""
    cost: Floats
    first: Ints
    primary: Bools
    single: Bools
    inside: tuple[Ints, Ints32]
    """for each primary row the single inner cells that are part of it"""
    own_kin: Ints32

    @classmethod
    def of(cls, cells: Cells, cost: Floats, known: Sequence[Ints32]) -> _Problem:
        m, first = len(cells), first_equal(cells)
        numbers = np.arange(m)
        sensitive = np.unique(first[cells.primary])
        free = np.flatnonzero((first == numbers) & ~np.isin(numbers, sensitive))
        total: Floats = np.bincount(first, cost, m).astype(np.float64)
        dearest = np.zeros(m)
        np.maximum.at(dearest, first, cost)
        forced = np.bincount(first, cells.status.must_publish, m) > 0
        preferred = np.bincount(first, cells.status.preferred, m) > 0
        stage = np.select([forced, empty(cells), preferred], [0, 1, 3], 2)
        order = free[np.lexsort((-dearest[free], stage[free]))]
        own, members = cells.inner_cell, cells.x.transposed
        row_of = np.where(own >= 0, first[own], m + np.cumsum(own < 0) - 1)
        n = m + int((own < 0).sum())
        relations = _tied(cells, first, row_of)
        extra: list[Ints] = []
        place = {members.row(cell).tobytes(): cell for cell in np.unique(first).tolist()} if len(known) else {}
        singles, alone = [], np.zeros(len(own), np.bool_)
        for inner in known:
            alone[inner] |= len(inner) == 1
            row = int(row_of[inner[0]]) if len(inner) == 1 else place.get(inner.astype(np.int32).tobytes(), -1)
            if row < 0:
                row = n + len(extra)
                extra.append(np.r_[row, row_of[inner]])
            singles.append(row)
        n += len(extra)
        primary, single = np.isin(np.arange(n), sensitive), np.isin(np.arange(n), singles)
        inside = _inside(members, sensitive, alone, row_of, n)
        several = np.zeros(n, np.bool_)
        several[:m] = np.diff(members.indptr) > 1
        kin = (primary & single & several).astype(np.int32)
        tied = _stacked(relations, extra)
        return cls(
            tied, order.astype(np.int64), int((stage[free] < 2).sum()), total, first, primary, single, inside, kin
        )

    def run(
        self,
        order: Ints,
        ctx: Context,
        hopeful: Callable[[int, Bools], bool] | None = None,
        label: str = "elimination",
        start: EliminationArrays | None = None,
    ) -> Bools:
        """Tell which cells of `self.order` may be published when candidates are taken in another order."""
        found = publishable(
            *self._given(order),
            lambda done, total: ctx.progress(done, total, label),
            hopeful,
            start,
        )
        allowed = np.zeros(len(self.first), np.bool_)
        allowed[order[found]] = True
        return allowed[self.order]

    def _given(self, order: Ints) -> tuple[Relations, Ints, Bools, Bools, tuple[Ints, Ints32], Ints32]:
        return self.relations, order, self.primary, self.single, self.inside, self.own_kin

    def improved(self, best: Bools, ctx: Context) -> Bools:
        """Put an expensive suppressed cell first, and keep the order if less is lost; several times.

        An order that loses much more than the best one had lost at the same place is given up half-way.
        """
        tries = min(RETRIES, WORK // max(len(self.order), 1)) if self.single.any() else 0
        order, lost = self.order, self._lost(self.order, best)
        waiting = self.order[self.head :][~best[self.head :]]
        waiting = waiting[np.argsort(-self.cost[waiting], kind="stable")].tolist()
        if tries == 0 or not waiting:
            return best
        start = begun(*self._given(order))
        while tries > 0 and waiting:
            cell = waiting.pop(0)
            if best[self.order == cell][0]:
                continue
            tries -= 1
            rest = order[order != cell]
            trial = np.concatenate((rest[: self.head], [cell], rest[self.head :]))
            costs = self.cost[trial]

            def hopeful(done: int, accepted: Bools, costs: Floats = costs, lost: Floats = lost) -> bool:
                behind = costs[:done][~accepted[:done]].sum() - (lost[done - 1] if done else 0.0)
                return bool(behind <= LAG * lost[-1] * (1 - done / len(costs)))

            alike = start if start.pivot_of[cell] < 0 else begun(*self._given(trial))
            found = self.run(trial, ctx, hopeful, "elimination in another order", alike)
            new = self._lost(trial, found)
            if new[-1] < lost[-1]:
                best, order, lost, start = found, trial, new, alike
        return best

    def _lost(self, order: Ints, published: Bools) -> Floats:
        """Give what is suppressed up to each place of an order."""
        hidden = np.zeros(len(self.first), np.bool_)
        hidden[self.order[~published]] = True
        lost: Floats = np.cumsum(np.where(hidden[order], self.cost[order], 0.0))
        return lost

    def refused(self, cells: Cells, allowed: Bools) -> Bools:
        """Tell which cells that must be published cannot be."""
        bad = np.isin(self.first, self.order[~allowed]) | np.isin(self.first, self.first[cells.primary])
        must: Bools = cells.status.must_publish
        return bad & must


def _tied(cells: Cells, first: Ints, row_of: Ints) -> Relations:
    """Give relations from which every cell follows as a sum of inner cells: the table's own, or sums where it has none.

    By induction over the size of cells: who is a total of several smaller cells follows from these, inner cells need
    nothing, and the rest are written as the sum of their inner cells.
    """
    sums, members = cells.relations(), cells.x.transposed
    rows = first[sums.indices].astype(np.int32)
    size = np.diff(members.indptr)[rows]
    total = sums.data > 0
    largest = np.zeros(sums.shape[0], np.int64)
    np.maximum.at(largest, sums.rows, np.where(total, 0, size))
    whole = np.bincount(sums.rows, np.where(total, size, 0), sums.shape[0])
    proper = (np.bincount(sums.rows, total, sums.shape[0]) == 1) & (largest < whole)
    told = np.zeros(len(cells), np.bool_)
    told[rows[total & proper[sums.rows]]] = True
    told[row_of[row_of < len(cells)]] = True
    kept = proper[sums.rows]
    start = np.r_[0, np.cumsum(np.diff(sums.indptr)[proper])]
    bare = np.flatnonzero((first == np.arange(len(cells))) & ~told & (np.diff(members.indptr) > 0))
    plain = Relations(start, rows[kept], sums.data[kept])
    return _stacked(plain, [np.r_[cell, row_of[members.row(cell)]] for cell in bare.tolist()])


def _stacked(relations: Relations, sums: Sequence[Ints]) -> Relations:
    """Add relations, each of a total and its parts."""
    if not sums:
        return relations
    start = relations.start[-1] + np.cumsum([len(rows) for rows in sums])
    rows = np.concatenate([relations.rows, *sums]).astype(np.int32)
    sign = np.concatenate([relations.sign, *(np.r_[1, np.full(len(rows) - 1, -1)] for rows in sums)]).astype(np.int8)
    return Relations(np.r_[relations.start, start], rows, sign)


def _inside(members: Sparse, sensitive: Ints, alone: Bools, row_of: Ints, n: int) -> tuple[Ints, Ints32]:
    """Give for each row that is sensitive the rows of inner cells known to somebody that are part of it."""
    chosen = np.zeros(members.shape[0], np.bool_)
    chosen[sensitive] = True
    kept = chosen[members.rows] & alone[members.indices]
    start = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(members.rows[kept], minlength=n), out=start[1:])
    return start, row_of[members.indices[kept]].astype(np.int32)


def _reason(cells: Cells, bad: Bools, cost: Floats, singletons: bool, ctx: Context) -> str:
    """Say which cells must not be published, and whether anybody could then compute sensitive ones."""
    names = [
        "(" + ", ".join(f"{name}={code}" for name, code in cells.label(int(i)).items()) + ")"
        for i in np.flatnonzero(bad)[:_NAMED]
    ]
    more = f" and {int(bad.sum()) - _NAMED} more" if bad.sum() > _NAMED else ""
    some = "1 cell that must be published makes" if bad.sum() == 1 else f"{bad.sum()} cells that must be published make"
    text = f"{some} sensitive cells computable, together with the others that must be: {'; '.join(names)}{more}"
    if singletons:
        plain = _Problem.of(cells, cost, [])
        if not plain.refused(cells, plain.run(plain.order, ctx)).any():
            return (
                f"{text}, for respondents who know a cell of their own; let some of them be suppressed, or say "
                "singletons=False to protect against outsiders only"
            )
    return f"{text}; let some of them be suppressed"
