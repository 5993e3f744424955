"""Cells: a table of aggregates with its additive structure, the tables wing's Dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context, keyed_hash
from discretion.errors import PlanError, unknown
from discretion.kernels.arrays import Bools, Floats, Ints, Ints32
from discretion.tables.dimensions import Dimension
from discretion.tables.packing import Packer
from discretion.tables.response import Response
from discretion.tables.sparse import Sparse
from discretion.tables.status import Mark, Status

if TYPE_CHECKING:
    import polars as pl

    from discretion.tables.adjustment import Adjusted
    from discretion.tables.audit_report import Audit
    from discretion.tables.cell_key import Perturbed
    from discretion.tables.contributions import Contributions
    from discretion.tables.controlled_rounding import Rounded
    from discretion.tables.dimensions import Dimension
    from discretion.tables.restructure import Restructured
    from discretion.tables.rules.rule import Rule
    from discretion.tables.suppression import Protected
    from discretion.tables.widened import Beside, Differences, Wide


# Who adds up to whom: inner cells to published cells, parts to totals.


def incidence(cells: Cells) -> Sparse:
    """Give the matrix of inner cells × published cells. Time and memory O(inner cells × cells above each)."""
    n = len(cells.inner_codes)
    first_table = cells.in_table.argmax(axis=1)
    rows, columns = [], []
    for number, table in enumerate(cells.tables):
        places = [cells.dim(name) for name in table]
        above = [cells.dims[j].ancestors[cells.inner_codes[:, j]] for j in places]
        for slots in product(*(range(table_above.shape[1]) for table_above in above)):
            codes = np.zeros((n, len(cells.dims)), np.int32)
            for j, table_above, slot in zip(places, above, slots, strict=True):
                codes[:, j] = table_above[:, slot]
            inner = np.flatnonzero((codes >= 0).all(axis=1))
            found = cells.find(codes[inner])
            kept = (found >= 0) & (first_table[found] == number)
            rows.append(inner[kept])
            columns.append(found[kept])
    return Sparse.from_pairs(np.concatenate(rows), np.concatenate(columns), (n, len(cells)))


def parent(cells: Cells, j: int, tree: int = 0) -> Ints:
    """Give for each cell the one a step up along a variable, −1 at its total or outside the tree."""
    above = cells.dims[j].parents[tree][cells.codes[:, j]]
    lifted = np.flatnonzero(above >= 0)
    codes = cells.codes[lifted].copy()
    codes[:, j] = above[lifted]
    found = np.full(len(cells), -1, np.int64)
    found[lifted] = cells.find(codes)
    return found


def relations(cells: Cells) -> Sparse:
    """Give a row for every total: +1 for it, −1 for its parts along one tree of one variable."""
    rows, columns, signs, count = [], [], [], 0
    for j, dim in enumerate(cells.dims):
        for tree in range(len(dim.parents)):
            above = parent(cells, j, tree)
            parts = np.flatnonzero((above >= 0) & ~_told_before(dim, tree)[dim.parents[tree][cells.codes[:, j]]])
            totals, row = np.unique(above[parts], return_inverse=True)
            rows += [count + np.arange(len(totals)), count + row]
            columns += [totals, parts]
            signs += [np.ones(len(totals), np.int8), np.full(len(parts), -1, np.int8)]
            count += len(totals)
    for one, other in _equal_cells(cells) if len(cells.tables) > 1 else ():
        rows.append(np.array([count, count]))
        columns.append(np.array([one, other]))
        signs.append(np.array([1, -1], np.int8))
        count += 1
    return Sparse.from_pairs(np.concatenate(rows), np.concatenate(columns), (count, len(cells)), np.concatenate(signs))


def _told_before(dim: Dimension, tree: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Tell which codes have the same children in an earlier tree, so that the relation is already there."""
    told = np.zeros(len(dim), np.bool_)
    for code in np.flatnonzero(~dim.leaves).tolist() if tree else ():
        mine = dim.children(code, tree).tolist()
        told[code] = any(dim.children(code, earlier).tolist() == mine for earlier in range(tree))
    return told


def _equal_cells(cells: Cells) -> list[tuple[int, int]]:
    """Find cells of linked tables that consist of the same inner cells although their codes differ."""
    members = cells.x.transposed
    mixed = np.arange(1, len(cells.inner_codes) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    filled = np.flatnonzero(np.diff(members.indptr) > 0)
    if not len(filled):
        return []
    signature = np.add.reduceat(mixed[members.indices], members.indptr[filled])
    order = np.argsort(signature, kind="stable")
    pairs = []
    for before, after in pairwise(order.tolist()):
        one, other = int(filled[before]), int(filled[after])
        if signature[before] == signature[after] and np.array_equal(members.row(one), members.row(other)):
            pairs.append((one, other))
    return pairs


# A table as a long frame, for the outside or for the office.


def frame(cells: Cells, internal: bool) -> pl.DataFrame:
    """Give codes, the values that go out, and whether a cell is suppressed; `internal` adds the secrets."""
    import polars as pl

    hidden = cells.suppressed
    columns: dict[str, object] = {
        dim.name: np.array(dim.codes, dtype=object)[cells.codes[:, j]].tolist() for j, dim in enumerate(cells.dims)
    }
    released = cells.value if cells.status.released is None else cells.status.released
    columns[cells.response.name] = pl.Series(np.where(hidden, np.nan, released)).fill_nan(None)
    columns["suppressed"] = hidden
    shown = pl.DataFrame(columns)
    return shown.with_columns(_secrets(cells)) if internal else shown


def _secrets(cells: Cells) -> list[pl.Series]:
    import polars as pl

    status = cells.status
    reasons = [
        ", ".join(name for bit, name in enumerate(status.reasons) if mask >> bit & 1) for mask in status.reason.tolist()
    ]
    labels = np.select(
        [status.primary, status.secondary, status.must_publish, status.safe],
        ["primary", "secondary", "must-publish", "safe"],
        "published",
    )
    top = [pl.Series(f"top_{k + 1}", cells.top[:, k]) for k in range(cells.top.shape[1])]
    return [
        pl.Series("true_value", cells.value),
        pl.Series("respondents", cells.count),
        pl.Series("weighted_count", cells.weighted_count),
        *top,
        pl.Series("status", labels.tolist(), dtype=pl.String),
        pl.Series("reason", reasons, dtype=pl.String),
        pl.Series("lower_required", status.lower_required),
        pl.Series("upper_required", status.upper_required),
    ]


@dataclass(frozen=True, eq=False, repr=False)
class Cells:
    """The published cells of one table, or of several linked tables over the same records.

    Only non-empty cells are kept, with their totals; cells stand in lexicographic order of their codes, so that the
    grand total is the first. A cell of linked tables that occurs in several of them is one cell; variables that a table
    does not use are at their total. `x` tells which published cells each inner cell (non-empty combination of leaves of
    all variables) belongs to; everything an attacker can add up follows from it. The repr never shows values.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> firms = pl.DataFrame({"region": ["A", "A", "B"], "sector": ["x", "y", "x"], "turnover": [10.0, 20.0, 5.0]})
    >>> cells = dc.tabulate(firms, ["region", "sector"], "turnover")
    >>> cells
    Cells(turnover by region × sector: 8 cells, 3 inner; 0 sensitive, 0 suppressed)
    >>> cells.value.tolist()
    [35.0, 15.0, 20.0, 30.0, 10.0, 20.0, 5.0, 5.0]
    """

    dims: tuple[Dimension, ...]
    """the d classifying variables"""
    codes: Ints32
    """(m, d) the code of each cell in each variable: numbers into `dims[j].codes`, 0 is the total"""
    responses: tuple[Response, ...]
    """the figures, one entry per response variable"""
    tables: tuple[tuple[str, ...], ...]
    """the variables of each table"""
    in_table: Bools
    """(m, number of tables) which tables a cell belongs to"""
    inner_codes: Ints32
    """(n_inner, d) the leaves of each inner cell"""
    weighted_count: Floats
    """(m,) sum of the weights of the records (their number without weights)"""
    status: Status
    """what is decided about each cell"""
    active: int = 0
    """the response that `value`, `count`, `top` and the rules refer to"""
    key: Floats | None = None
    """(m,) cell keys in [0, 1) for consistent perturbation: sums of the record keys modulo 1"""
    contributors: Sequence[Any] = ()
    """the id of each respondent number; empty where records are the respondents (numbers are rows)"""
    source: Contributions | None = None
    """the contributions the table was made from, where it was made from records"""
    notes: tuple[str, ...] = field(default=())
    """what happened on the way (records left out, totals computed)"""
    beside: Beside | None = None
    """earlier releases that its readers have too; see `tabulate`"""
    differences: Differences | None = None
    """what the rules found about differences of published cells"""
    rules: tuple[Rule, ...] = ()
    """the rules that were applied; they judge sums of suppressed cells too"""
    wide: Wide | None = None
    """the structure of a table that was widened by what stands beside it; see `widened`"""

    def __post_init__(self) -> None:
        for array in (self.codes, self.in_table, self.inner_codes, self.weighted_count):
            array.flags.writeable = False
        for response in self.responses:
            for array in vars(response).values():
                if isinstance(array, np.ndarray):
                    array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        shown = " and ".join(" × ".join(table) for table in self.tables)
        names = ", ".join(response.name for response in self.responses)
        return (
            f"Cells({names} by {shown}: {len(self):,} cells, {len(self.inner_codes):,} inner; "
            f"{int(self.primary.sum()):,} sensitive, {int(self.suppressed.sum()):,} suppressed)"
        )

    def drawing(self, ctx: Context, *settings: object) -> Context:
        """Give a context whose draws belong to this table and these settings: another table draws independently."""
        labels = repr((self.tables, [(dim.name, dim.codes) for dim in self.dims], self.response.name))
        arrays = (self.codes, self.value, self.inner_codes, self.inner_value)
        return ctx.keyed(
            lambda: repr(settings).encode(),
            lambda: keyed_hash(ctx.secret, labels, *(np.ascontiguousarray(array).tobytes() for array in arrays)),
        )

    # --- the figures of the active response --------------------------------------------------------------------------

    @property
    def response(self) -> Response:
        """The active response."""
        return self.responses[self.active]

    @property
    def value(self) -> Floats:
        """(m,) the true value of each cell."""
        return self.response.value

    @property
    def count(self) -> Ints:
        """(m,) respondents in each cell, unweighted."""
        return self.response.count

    @property
    def top(self) -> Floats:
        """(m, t) the largest contributions, descending."""
        return self.response.top

    @property
    def top_ids(self) -> Ints32:
        """(m, t) who made them; −1 where there is none."""
        return self.response.top_ids

    @property
    def inner_value(self) -> Floats:
        """(n_inner,) the true value of each inner cell."""
        return self.response.inner_value

    def of_response(self, name: str) -> Cells:
        """Give the table of another response, with nothing decided yet."""
        names = [response.name for response in self.responses]
        if name not in names:
            raise PlanError(unknown("response", name, names))
        return replace(self, active=names.index(name), status=Status.empty(len(self)), differences=None, rules=())

    @property
    def coalition(self) -> int:
        """How many respondents the rules applied let put together what they know: the most any of them does."""
        return max((rule.together() for rule in self.rules), default=1)

    # --- status ------------------------------------------------------------------------------------------------------

    @property
    def primary(self) -> Bools:
        """(m,) sensitive cells."""
        return self.status.primary

    @property
    def secondary(self) -> Bools:
        """(m,) cells suppressed to protect others."""
        return self.status.secondary

    @property
    def suppressed(self) -> Bools:
        """(m,) cells that do not go out: primary or secondary."""
        return self.status.suppressed

    @property
    def lower_required(self) -> Floats:
        """(m,) protection a sensitive cell needs below its value."""
        return self.status.lower_required

    @property
    def upper_required(self) -> Floats:
        """(m,) protection a sensitive cell needs above its value."""
        return self.status.upper_required

    def with_status(self, **changes: Any) -> Cells:
        """Give the table with some arrays of its status replaced: `with_status(secondary=mask)`; see `Status`."""
        return replace(self, status=self.status.changed(**changes))

    def with_released(self, values: Any) -> Cells:
        """Give the table with other values to go out (rounded, adjusted, perturbed)."""
        if self.beside is not None and self.beside.names:
            raise PlanError(
                "previous: earlier releases are taken into account by suppression only, and what they show would not "
                "be held against other values than the true ones; suppress, or leave `previous` out"
            )
        return self.with_status(released=values)

    def apply_rules(
        self, rules: Rule | Mapping[str, Any] | Sequence[Rule | Mapping[str, Any]], *, responses: str = "active"
    ) -> Cells:
        """Find the sensitive cells, why they are, and how much protection they need; see `rules.apply`."""
        from discretion.tables.rules.rule import apply

        return apply(self, rules, responses)

    def mark(self, where: Any, mark: Mark) -> Cells:
        """Decide about cells by hand: `mark({"region": "A", "sector": "x"}, "must-publish")`; see `marking.mark`."""
        from discretion.tables.marking import mark as mark_cells

        return mark_cells(self, where, mark)

    def restructure(
        self, rules: Sequence[Rule | Mapping[str, Any]], *, keep: Sequence[str] = (), ordered: Sequence[str] = ()
    ) -> Restructured:
        """Roll categories up until no cell is sensitive; see `restructure.restructure`."""
        from discretion.tables.restructure import restructure

        return restructure(self, rules, keep=keep, ordered=ordered)

    def audit(self, **options: Any) -> Audit:
        """Find out how closely an attacker can bound every suppressed cell; see `audit.audit`."""
        from discretion.tables.audit import audit

        return audit(self, **options)

    def suppress(self, engine: Any = "elimination", **options: Any) -> Protected:
        """Suppress complementary cells until sensitive ones cannot be computed; see `suppression.suppress`."""
        from discretion.tables.suppression import suppress

        return suppress(self, engine, **options)

    def suppress_by_hand(self, where: Any, **options: Any) -> Protected:
        """Suppress complementary cells of one's own choice, and audit; see `suppression.suppress_by_hand`."""
        from discretion.tables.suppression import suppress_by_hand

        return suppress_by_hand(self, where, **options)

    def round_random(self, base: float, **options: Any) -> Rounded:
        """Round every cell up or down by chance, right on average; see `rounding.round_random`."""
        from discretion.tables.controlled_rounding import round_random

        return round_random(self, base, **options)

    def round_controlled(self, base: float, **options: Any) -> Rounded:
        """Round to multiples of a base that still add up; see `controlled_rounding.round_controlled`."""
        from discretion.tables.controlled_rounding import round_controlled

        return round_controlled(self, base, **options)

    def adjust(self, **options: Any) -> Adjusted:
        """Move sensitive cells to safe values and others as little as possible; see `adjustment.adjust`."""
        from discretion.tables.adjustment import adjust

        return adjust(self, **options)

    def perturb(self, **options: Any) -> Perturbed:
        """Add noise that is the same for the same cell in every table; see `cell_key.perturb`."""
        from discretion.tables.cell_key import perturb

        return perturb(self, **options)

    def loss(self, audit: Audit | None = None) -> dict[str, float]:
        """Tell what protection has cost: cells and value suppressed, intervals, deviations; see `loss.loss_of`."""
        from discretion.tables.loss import loss_of

        return loss_of(self, audit)

    def publish(self, path: str | Path, **options: Any) -> None:
        """Write the table as CSV (long or pivoted), Excel or JSON; see `publish.publish`."""
        from discretion.tables.publish import publish

        publish(self, path, **options)

    # --- finding cells -----------------------------------------------------------------------------------------------

    def dim(self, name: str) -> int:
        """Give the place of a variable in `dims`."""
        names = [dim.name for dim in self.dims]
        if name not in names:
            raise PlanError(unknown("variable", name, names))
        return names.index(name)

    def where(self, codes: Mapping[str, Any]) -> Bools:
        """Tell which cells have these codes (a label or a list of labels per variable; others may be anything)."""
        hit = np.ones(len(self), np.bool_)
        for name, labels in codes.items():
            j = self.dim(name)
            wanted = self.dims[j].find(labels if isinstance(labels, list | tuple | set) else [labels])
            hit &= np.isin(self.codes[:, j], wanted)
        return hit

    def index(self, codes: Mapping[str, Any]) -> int:
        """Give the number of one cell; variables that are not named are at their total."""
        row = [int(dim.find([codes[dim.name]])[0]) if dim.name in codes else 0 for dim in self.dims]
        for name in codes:
            self.dim(name)
        found = int(self.find(np.array([row], np.int32))[0])
        if found < 0:
            raise PlanError("there is no such cell: it is empty, or not in the table")
        return found

    def find(self, codes: NDArray[Any]) -> Ints:
        """Give the number of the cell with each row of codes, −1 where there is none."""
        return self._finder.find(codes)

    @cached_property
    def _finder(self) -> Packer:
        return Packer.fit(self.codes, [len(dim) for dim in self.dims])

    def label(self, cell: int) -> dict[str, str]:
        """Give the codes of one cell by variable."""
        return {dim.name: dim.codes[code] for dim, code in zip(self.dims, self.codes[cell], strict=True)}

    # --- additive structure ------------------------------------------------------------------------------------------

    @cached_property
    def x(self) -> Sparse:
        """(n_inner × m) which published cells each inner cell is part of: `value == x.transposed.dot(inner_value)`."""

        return incidence(self) if self.wide is None else self.wide.x

    @cached_property
    def inner_cell(self) -> Ints:
        """(n_inner,) the published cell that is this inner cell, −1 where linked tables do not publish it."""
        return self.find(self.inner_codes) if self.wide is None else self.wide.inner_cell

    def relations(self) -> Sparse:
        """(r × m) the sums the tables show: a row has +1 at a total, −1 at its parts, and times `value` gives 0.

        For each variable, tree and non-leaf code, and for cells of linked tables with the same inner cells (+1, −1).
        Columns that nest although no hierarchy says so are seen by `x` only: an audit uses `x`.
        """
        return self._relations

    @cached_property
    def _relations(self) -> Sparse:

        return relations(self)

    def parent(self, dim: int | str, tree: int = 0) -> Ints:
        """(m,) the cell one step up along a variable, −1 at its total."""

        return parent(self, self.dim(dim) if isinstance(dim, str) else dim, tree)

    # --- looking -----------------------------------------------------------------------------------------------------

    def frame(self, *, internal: bool = False) -> pl.DataFrame:
        """Give the table as a long frame: codes, values (suppressed ones missing) and whether they are suppressed.

        `internal` adds what must not go out: true values, respondents, largest contributions, why a cell is sensitive.
        """

        return frame(self, internal)
