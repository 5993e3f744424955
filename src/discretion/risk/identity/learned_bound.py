"""An upper bound on what any distance of a form can find, by integer programming, for small data (R15).

K_i = 1 where record i is given up; for every other record j of the release p·(φ_ij − φ_ii) + C_ij·K_i ≥ 0 says that j
is not nearer than the own one. The least Σ K_i bounds the links of every allowed p from above (ties count as found, so
that the bound may lie above what any p reaches). Rows are added when a solution violates them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.errors import DataError
from discretion.kernels.learned_distances import differences, features
from discretion.risk.identity.learned_forms import Form
from discretion.risk.identity.learned_search import Queries

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_RECORDS = 500
"""Records up to which a bound is computed: there are n² conditions, and the branching grows with n."""
_ROWS_AT_ONCE = 3  # violated conditions added for each record
_VIOLATED = 1e-7


@dataclass(frozen=True)
class Bound:
    """At most this share of the records can be found by a distance of the form."""

    share: float
    proven: bool
    """the least upper bound of this kind was found; False: time ran out, the bound still holds"""
    rounds: int
    rows: int


def require_small(queries: Queries) -> None:
    """Raise where there are too many records for the integer program."""
    size = max(queries.rows.size, queries.records.published.shape[0])
    if size > MOST_RECORDS:
        raise DataError(
            f"learned-linkage: `milp_bound` works for at most {MOST_RECORDS} records, these are {size}; "
            "take a sample, or leave the bound out"
        )


def upper_bound(form: Form, queries: Queries, start: Floats, seconds: float, ctx: Context) -> Bound:
    """Bound the links of every distance of the form; `require_small` first."""
    n = queries.rows.size
    program = _Program(form, queries)
    program.tighten(start, np.zeros(n, bool))
    end = time.monotonic() + seconds
    lost, rounds, proven = 0.0, 0, False
    while (left := end - time.monotonic()) > 0:
        ctx.progress(min(rounds, 99), 100, "integer program")
        rounds += 1
        solution = program.solve(left)
        lost = max(lost, solution.bound)
        if solution.p is None:
            break
        if not program.tighten(solution.p, solution.given_up):
            proven = solution.optimal
            break
    found = n - int(np.ceil(lost - 1e-6))
    possible = int((queries.own >= 0).sum())
    return Bound(min(found, possible) / n, proven, rounds, program.rows)


@dataclass(frozen=True)
class _Solution:
    p: Floats | None
    given_up: NDArray[np.bool_]
    bound: float
    optimal: bool


class _Program:
    """The integer program with the conditions that were needed so far."""

    def __init__(self, form: Form, queries: Queries) -> None:
        import highspy

        self._form, self._queries = form, queries
        self._n, self._m = queries.rows.size, queries.records.published.shape[0]
        self._stated = np.zeros((self._n, self._m), bool)
        there = np.flatnonzero(queries.own >= 0)
        self._stated[there, queries.own[there]] = True
        make: Any = highspy.Highs
        self._solver: Any = make()
        self._solver.setOptionValue("output_flag", False)
        self._solver.setOptionValue("threads", 1)
        self._infinity = highspy.kHighsInf
        low, high = form.bounds()
        for one, other in zip(low, high, strict=True):
            self._solver.addVar(float(one), float(other))
        for i in range(self._n):
            self._solver.addVar(0.0 if queries.own[i] >= 0 else 1.0, 1.0)
            self._solver.changeColCost(form.size + i, 1.0)
            self._solver.changeColIntegrality(form.size + i, highspy.HighsVarType.kInteger)
        for row, least, most in form.conditions():
            self._add(row, least, most)

    @property
    def rows(self) -> int:
        """The number of conditions stated."""
        return int(self._solver.getNumRow())

    def _add(self, row: Floats, least: float, most: float, extra: tuple[int, float] | None = None) -> None:
        used = np.flatnonzero(row)
        values = row[used]
        if extra is not None:
            used, values = np.append(used, self._form.size + extra[0]), np.append(values, extra[1])
        top = self._infinity if np.isinf(most) else most
        self._solver.addRow(least, top, used.size, used.astype(np.int32), values.astype(np.float64))

    def solve(self, seconds: float) -> _Solution:
        """Solve the program with the conditions stated so far."""
        self._solver.setOptionValue("time_limit", self._solver.getRunTime() + max(0.1, seconds))
        self._solver.run()
        information = self._solver.getInfo()
        bound = float(information.mip_dual_bound)
        values = np.asarray(self._solver.getSolution().col_value)
        optimal = self._solver.modelStatusToString(self._solver.getModelStatus()) == "Optimal"
        size = self._form.size
        usable = values.size == size + self._n and bool(np.isfinite(values).all()) and optimal
        return _Solution(
            values[:size] if usable else None,
            values[size:] > 0.5 if usable else np.zeros(self._n, bool),
            bound if np.isfinite(bound) else 0.0,
            optimal,
        )

    def tighten(self, p: Floats, given_up: NDArray[np.bool_]) -> bool:
        """State conditions that p violates; False when it violates none."""
        cuts = self._form.cuts(p)
        for row in cuts:
            self._add(row, 0.0, np.inf)
        added = len(cuts)
        everybody = np.arange(self._m)
        for i in np.flatnonzero(~given_up & (self._queries.own >= 0)):
            query = np.full(self._m, self._queries.rows[i])
            v = differences(self._queries.records, query, everybody)
            distance = features(self._form.code, v) @ p
            own = self._queries.own[i]
            nearer = np.flatnonzero((distance < distance[own] - _VIOLATED) & ~self._stated[i])
            for j in nearer[np.argsort(distance[nearer])[:_ROWS_AT_ONCE]]:
                self._state(int(i), int(j), v[own], v[j])
                added += 1
        return added > 0

    def _state(self, i: int, j: int, own: Floats, other: Floats) -> None:
        both = features(self._form.code, np.vstack([own, other]))
        self._add(both[1] - both[0], 0.0, np.inf, (i, self._form.shortfall(own, other)))
        self._stated[i, j] = True
