"""The algorithms for complementary suppression, and what they share."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.errors import PlanError, unknown
from discretion.kernels.arrays import Bools
from discretion.part import Family, Part, confidential, kinds, parse

if TYPE_CHECKING:
    from discretion.tables.audit_insiders import Proof
    from discretion.tables.cells import Cells

Cost = Literal["value", "frequency", "unit"]


@dataclass(frozen=True, eq=False)
class Choice:
    """The complementary cells an engine chose, and what it has to say about them."""

    secondary: Bools
    facts: Mapping[str, Any] = field(default_factory=dict)
    proofs: Sequence[Proof] = ()
    """tables that show the room of cells against respondents, for the audit to check"""


def at_least_ruled(cells: Cells, coalition: int | None) -> int:
    """Give the size of coalitions that attack: that of the rules applied, or a given one that is not smaller."""
    if coalition is None:
        return cells.coalition
    if coalition < 1:
        raise PlanError("coalition: at least 1 respondent")
    if coalition < cells.coalition:
        raise PlanError(
            "coalition: a rule of this table looks at more respondents together than that, and the table would be "
            "called protected against fewer; leave `coalition` out, or give the rule's own"
        )
    return coalition


class Engine(Part):
    """An algorithm for complementary suppression: `choose(cells, cost, ctx) -> Choice`."""

    family: ClassVar[Family] = "table-engine"

    cost: Cost = "value"
    """what suppressing a cell costs: its value, its respondents, or 1; costs in the table's status come first"""

    coalition: int | None = confidential(None, ge=1)
    """respondents who put together what they know; none given: as many as the rules of the table say"""

    def together(self, cells: Cells) -> int:
        """Give how many respondents attack together: as given, but not fewer than the rules of the table say."""
        return at_least_ruled(cells, self.coalition)

    @abstractmethod
    def choose(self, cells: Cells, cost: Any, ctx: Context) -> Choice:
        """Choose complementary cells; `cost` is one of the words, or a number per cell."""

    def again(self, cells: Cells, cost: Any, ctx: Context, last: Choice) -> Choice:  # noqa: ARG002 - for those who go on
        """Choose again, for a table with more sensitive sums beside it (the last cells) than at the last choice."""
        return self.choose(cells, cost, ctx)


class Elimination(Engine, kind="elimination"):
    """Suppress complementary cells until no sensitive cell can be computed exactly.

    Fast for tables of any size. Protects against exact disclosure by adding and subtracting published cells, also by
    respondents who know a cell of their own. Does not protect against narrow bounds: the audit that follows shows
    which cells are under-protected; `levels` and `optimal` protect those too.

    References
    ----------
    Langsrud (2024), Secondary cell suppression by Gaussian elimination, PSD 2024; catalogue T4.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> given = pl.DataFrame({"row": list("aaabbb"), "col": list("xyzxyz"), "n": [1, 20, 30, 25, 9, 40]})
    >>> cells = dc.tables.from_cells(given, ["row", "col"], count="n").apply_rules([dc.Threshold(minimum=3)])
    >>> dc.Elimination().choose(cells, "value", dc.Context(seed=0)).secondary.sum()
    np.int64(3)
    """

    singletons: bool = True
    """whether respondents who are alone in an inner cell are looked at as attackers"""

    def choose(self, cells: Cells, cost: Any, ctx: Context) -> Choice:
        """Go through the cells, the most costly first."""
        from discretion.tables.elimination import eliminate

        chosen = eliminate(cells, cost=cost, singletons=self.singletons, coalition=self.together(cells), ctx=ctx)
        return Choice(chosen)


class Levels(Engine, kind="levels"):
    """Suppress complementary cells until every sensitive cell has the interval its rules require.

    Starts from `elimination`, adds cells by linear programs until an attacker's bounds are far enough away, and
    publishes again what is not needed. Then every respondent attacks with what it knows itself, and more cells are
    suppressed until none comes too close. Protected against bounds; good, not proven least.

    References
    ----------
    Kelly, Golden & Assad (1992), Networks 22; Castro (2012), European J. Oper. Res. 216; catalogue T4.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> given = pl.DataFrame({"row": list("aaabbb"), "col": list("xyzxyz"), "n": [1, 20, 30, 25, 9, 40]})
    >>> cells = dc.tables.from_cells(given, ["row", "col"], count="n").apply_rules([dc.Threshold(minimum=3)])
    >>> cells.suppress("levels").holds
    True
    """

    singletons: bool = True
    """whether the start looks at respondents who are alone in an inner cell"""
    respondents: bool = True
    """whether respondents (groups of `coalition`) are kept from narrow bounds too, where it is known who they are"""
    clean: int | None = Field(None, ge=0)
    """linear programs spent on publishing cells again that are not needed; more publish more; none given: by size"""

    def choose(self, cells: Cells, cost: Any, ctx: Context) -> Choice:
        """Start from elimination, then make room."""
        from discretion.tables.elimination import eliminate

        start = eliminate(cells, cost=cost, singletons=self.singletons, coalition=self.together(cells), ctx=ctx)
        return self._from(start, cells, cost, self.clean, 0, ctx)

    def again(self, cells: Cells, cost: Any, ctx: Context, last: Choice) -> Choice:
        """Go on from the last choice: cells that had room keep it, and only the new sums are looked at."""
        settled = len(last.secondary)
        start = np.r_[last.secondary, np.zeros(len(cells) - settled, np.bool_)]
        found = self._from(start, cells, cost, 0, settled, ctx)
        return replace(found, proofs=[*last.proofs, *found.proofs])

    def _from(self, start: Bools, cells: Cells, cost: Any, clean: int | None, settled: int, ctx: Context) -> Choice:
        from discretion.tables.levels import levels, protect_respondents

        found = levels(cells, start=start, cost=cost, clean=clean, ctx=ctx)
        if not self.respondents or not cells.respondents_known:
            return Choice(found)
        together = self.together(cells)
        found, proofs = protect_respondents(cells, found, cost=cost, coalition=together, settled=settled, ctx=ctx)
        return Choice(found, proofs=proofs)


class Optimal(Engine, kind="optimal"):
    """Suppress complementary cells so that every sensitive cell has its interval, at the least cost possible.

    Exact, by cutting planes: for small tables. When time is over the best pattern found is used; `facts["gap_share"]`
    says how far from the least cost it may be at most (0: it is the least). With a `budget` the question is turned
    round: the most protection, as a multiple of all required levels (`facts["level_multiple"]`), for that cost.

    References
    ----------
    Fischetti & Salazar (2001), Management Science 47(7); catalogue T4.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> given = pl.DataFrame({"row": list("aaabbb"), "col": list("xyzxyz"), "n": [1, 20, 30, 25, 9, 40]})
    >>> cells = dc.tables.from_cells(given, ["row", "col"], count="n").apply_rules([dc.Threshold(minimum=3)])
    >>> protected = cells.suppress("optimal")
    >>> protected.holds, protected.facts["gap_share"]
    (True, 0.0)
    """

    respondents: bool = True
    """whether respondents (groups of `coalition`) are attackers too, where it is known who they are"""
    seconds: float | None = Field(None, gt=0)
    """time for the whole call: a fifth of it is kept for the audit; when it is over the best pattern found is taken,
    and what the audit could not decide is said to be undecided; none given: as long as it takes"""
    largest: int = Field(2000, ge=1)
    """most cells a table may have; larger ones are refused"""
    budget: float | None = Field(None, gt=0)
    """most that complementary cells may cost; required levels are multiplied as far as it allows (`seconds` hold for
    all multiples together: each that is tried gets half of what is left)"""

    def choose(self, cells: Cells, cost: Any, ctx: Context) -> Choice:
        """Alternate between a program that chooses cells and attackers who object."""
        from discretion.tables.optimal import Optimum, optimal
        from discretion.tables.suppression import most_protection

        end = np.inf if self.seconds is None else time.monotonic() + self.seconds

        def cheapest(cells: Cells) -> Optimum:
            coalition = self.together(cells) if self.respondents and cells.respondents_known else 0
            left = max(end - time.monotonic(), 0.01) / (1 if self.budget is None else 2)
            seconds = None if self.seconds is None else left
            return optimal(cells, cost=cost, seconds=seconds, largest=self.largest, coalition=coalition, ctx=ctx)

        if self.budget is None:
            found, more = cheapest(cells), {}
        else:
            found, multiple = most_protection(cells, self.budget, cheapest)
            more = {"level_multiple": multiple}
        return Choice(found.secondary, {"gap_share": found.gap_share, "cost": found.cost, "cuts": found.cuts, **more})


def engine_of(engine: str | Mapping[str, Any] | Engine, options: Mapping[str, Any]) -> Engine:
    """Give the engine that a word, a place in a plan or an object means."""
    if isinstance(engine, Engine):
        if options:
            raise PlanError(f"options {', '.join(sorted(options))}: give them to the engine object")
        return engine
    if isinstance(engine, str):
        if engine not in (known := kinds("table-engine")):
            raise PlanError(unknown("engine", engine, known))
        engine = {engine: dict(options)}
    elif options:
        raise PlanError(f"options {', '.join(sorted(options))}: give them inside the engine's mapping")
    part = parse(engine, "table-engine")
    if not isinstance(part, Engine):
        raise PlanError(f"{part.kind!r} is not an engine for complementary suppression")
    return part
