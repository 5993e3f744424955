"""Tables from cells that somebody else added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints, Ints32
from discretion.solve import Program, solve
from discretion.tables.cells import MANUAL, Cells, Packer, Response, Status, row_keys
from discretion.tables.dimensions import TOTAL, Dimension
from discretion.tables.tabulate import (
    COUNT,
    Amounts,
    Figures,
    check_hierarchies,
    classified,
    closed,
    coded,
    rolled,
    table_lists,
    united,
    with_empty,
)

if TYPE_CHECKING:
    import polars as pl

    from discretion.tables.cells import Cells
    from discretion.tables.tabulate import Empty, Missing


# What can lie behind linked tables that came ready-made: the combinations of their leaves, and values for them.


MOST = 5_000_000
"""Combinations of leaves that linked tables may leave possible."""

_SECONDS = 600.0


def joined_cells(
    codes: Ints32, leaves: Sequence[Ints], places: Sequence[Sequence[int]], names: Sequence[str]
) -> Ints32:
    """Give every combination of leaves that all tables have cells for: the records can be nowhere else.

    `codes` are those of all rows, `leaves` the rows that are inner cells of each table, `places` its variables. Tables
    are joined one after the other on the variables they share. Time and memory O(combinations·variables).
    """
    joined = codes[leaves[0]].copy()
    known = set(places[0])
    for rows, columns in zip(leaves[1:], places[1:], strict=True):
        shared = [j for j in columns if j in known]
        new = [j for j in columns if j not in known]
        both = np.concatenate((joined[:, shared], codes[rows][:, shared]))
        _, group = np.unique(both, axis=0, return_inverse=True) if shared else (None, np.zeros(len(both), np.int64))
        mine, theirs = group.ravel()[: len(joined)], group.ravel()[len(joined) :]
        order = np.argsort(theirs, kind="stable")
        low, high = (np.searchsorted(theirs[order], mine, side) for side in ("left", "right"))
        count = high - low
        total = int(count.sum())
        if total > MOST:
            raise DataError(
                f"linked tables over {', '.join(names)} leave {total:,} combinations of codes possible, more than "
                f"{MOST:,}; give tables that share more variables, or the records"
            )
        left = np.repeat(np.arange(len(joined)), count)
        right = rows[order[np.arange(total) - np.repeat(np.cumsum(count) - count - low, count)]]
        joined = joined[left]
        joined[:, new] = codes[right][:, new]
        known |= set(columns)
    return joined[np.lexsort(joined.T[::-1])]


def check_covered(cells: Cells) -> None:
    """Refuse cells of one table that have no counterpart in another one with the same variables."""
    covered = np.bincount(cells.x.indices, minlength=len(cells)) > 0
    bare = np.flatnonzero(~covered & (np.nan_to_num(cells.value, nan=1.0) != 0))
    if len(bare):
        where = ", ".join(f"{name}={code}" for name, code in cells.label(int(bare[0])).items())
        raise DataError(
            f"{len(bare)} cells of one table have nothing below them in another one that shares their variables, "
            f"first {where}; give all tables for the same codes"
        )


def with_possible_values(cells: Cells, tolerance: float) -> Cells:
    """Give the table with values of the combinations that add up to all its cells (any such values will do).

    Without the value of some cell none are needed. Raises when there are none: the tables contradict each other.
    """
    n = len(cells.inner_codes)
    if np.isnan(cells.value).any():
        return _with_inner(cells, np.full(n, np.nan))
    members = cells.x.transposed.to_scipy()
    slack = tolerance + 1e-9 * np.abs(cells.value)
    floor = -np.inf if (cells.value < 0).any() else 0.0
    program = Program(
        members, np.full(n, floor), np.full(n, np.inf), np.zeros(n), cells.value - slack, cells.value + slack
    )
    found = solve(program, seconds=_SECONDS)
    if not found.found:
        raise DataError("the linked tables contradict each other: no records can lie behind all of them")
    return _with_inner(cells, found.x)


def _with_inner(cells: Cells, value: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Cells:
    return replace(cells, responses=(replace(cells.response, inner_value=value),))


RELATIVE = 1e-9
"""Share of a total by which its parts may miss it through rounding of floating-point numbers."""

_SHOWN = 10
_STATES = {
    **dict.fromkeys(("", "s", "published", "safe"), ""),
    **dict.fromkeys(("u", "c", "primary"), "primary"),
    **dict.fromkeys(("x", "secondary"), "secondary"),
    **dict.fromkeys(("z", "must-publish"), "must_publish"),
}
"""What a status column may say: words, the letters of sdcTable and τ-ARGUS, or the `c` of a published table, which
does not tell sensitive cells from others, so that all are taken for sensitive."""


def from_cells(
    frame: Any,
    by: Sequence[str] | Sequence[Sequence[str]],
    value: str | None = None,
    *,
    count: str | None = None,
    top: Sequence[str] = (),
    status: str | None = None,
    hierarchies: Mapping[str, Any] | None = None,
    total: str = TOTAL,
    tolerance: float = 1e-6,
    additivity: Literal["check", "recompute"] = "check",
) -> Cells:
    """Take cells that are already added up: one row per cell, with the codes of the variables `by`.

    `by` names the variables of a table, or is a list of such lists: linked tables, one system in which a cell that
    several tables show is one cell; in the rows of a table the variables it does not use are at their total or missing.
    What records would lie behind linked tables is not known, only that some do: that is what an attacker knows too.

    Rows may be inner cells only, or include totals (codes that are not leaves of their hierarchy; without a hierarchy
    the code `total`). Totals that are not given are computed. Those that are must be the sums of their parts to within
    `tolerance`: otherwise an error says which sums fail and by how much, or `additivity="recompute"` replaces them.
    Without `value` the table shows frequencies, the column `count`. `top` names the columns of the largest
    contributions, largest first, together not above the value (unless some values are negative); totals that come
    without them get them from their parts, which is right when no respondent is in two cells. `status` names a column
    that says which cells are sensitive (u), suppressed for others (x) or must be published (z); the value of a
    suppressed cell may be missing. Cells that a published table calls confidential (c) are taken for sensitive.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> given = pl.DataFrame({"town": ["A", "A", "B", "Total"], "ill": ["y", "n", "n", "n"], "people": [2, 7, 9, 16]})
    >>> dc.tables.from_cells(given, ["town", "ill"], count="people").value.tolist()
    [18.0, 16.0, 2.0, 9.0, 7.0, 2.0, 9.0, 9.0]
    """
    table = Dataset.of(frame).frame
    tables = table_lists(by)
    names = list(dict.fromkeys(name for one in tables for name in one))
    _check_columns(table, [*names, *(c for c in (value, count, status) if c), *top])
    check_hierarchies(hierarchies, names)
    if value is None and count is None:
        raise PlanError("give `value`, `count`, or both")
    dims = tuple(_dimension(table, name, (hierarchies or {}).get(name), total, len(tables) > 1) for name in names)
    given = _given(table, names, dims, value, count, top, status)
    _check_top(given, tolerance)
    cells, computed = _system(given, tables, dims, (value or count or "", value is None, given.counted))
    cells, wrong = _checked(cells, computed, tolerance, additivity)
    cells = with_possible_values(cells, tolerance) if len(tables) > 1 else cells
    return _with_states(cells, table, status, cells.find(given.codes), wrong)


def _system(
    given: _Given, tables: tuple[tuple[str, ...], ...], dims: tuple[Dimension, ...], named: tuple[str, bool, bool]
) -> tuple[Cells, Floats]:
    """Roll the inner cells of every table up to all its totals; give the cells, and their values as computed."""
    names = [dim.name for dim in dims]
    places = [[names.index(name) for name in one] for one in tables]
    leaves = [_leaf_rows(given, dims, columns, names) for columns in places]
    parts = [_all_cells(given, rows, dims, columns) for rows, columns in zip(leaves, places, strict=True)]
    figures, in_table = united(parts, dims)
    if len(tables) > 1:
        _filled_in(figures, parts, dims)
    computed = figures.amounts[0].value
    place = Packer.fit(figures.codes, [len(dim) for dim in dims]).find(given.codes)
    figures = _with_given(figures, given, place, tables)
    if len(tables) == 1:
        inner = given.codes[leaves[0]], given.value[leaves[0]]
        return _assembled(figures, dims, (tables, in_table), inner, named), computed
    joined = joined_cells(given.codes, leaves, places, names)
    cells = _assembled(figures, dims, (tables, in_table), (joined, np.full(len(joined), np.nan)), named)
    check_covered(cells)
    return cells, computed


def from_classes(
    classes: Dataset, names: Sequence[str], hierarchies: Mapping[str, Any], top: int, missing: Missing, empty: Empty
) -> Cells:
    """Count records by combinations of values that somebody else counted; each record is a respondent of its own.

    Nothing but these numbers is known, nor needed: in a table of counts all contributions are alike.
    """
    variables = [coded(classes, name, hierarchies.get(name), missing) for name in names]
    dims, places = tuple(dim for dim, _ in variables), range(len(names))
    rows = classified(variables)
    leaves, place = np.unique(np.column_stack([codes[rows] for _, codes in variables]), axis=0, return_inverse=True)
    count = np.bincount(place.ravel(), np.asarray(classes.counts)[rows], len(leaves)).astype(np.int64)
    largest = (np.arange(top) < count[:, None]).astype(np.float64)
    ids = np.where(largest > 0, np.arange(largest.size).reshape(largest.shape), -1).astype(np.int32)
    leaves = leaves.astype(np.int32)
    inner = Figures(leaves, (Amounts(count.astype(np.float64), count, largest, ids),), count.astype(np.float64))
    figures = rolled(inner, closed(leaves, dims, places))
    if empty == "keep":
        figures, inner = with_empty(figures, dims, places), with_empty(inner, dims, places, leaves=True)
    (inner, _), (figures, in_table) = united([inner], dims, True), united([figures], dims, True)
    known = inner.codes, inner.amounts[0].value
    cells = _assembled(figures, dims, ((tuple(names),), in_table), known, (COUNT, True, True))
    left_out = classes.records - int(count.sum())
    return replace(cells, notes=(f"{left_out} records without a classifying value were left out",) if left_out else ())


@dataclass(frozen=True, eq=False)
class _Given:
    codes: Ints32
    value: Floats
    count: Ints
    counted: bool
    top: Floats


def _check_columns(table: pl.DataFrame, names: Sequence[str]) -> None:
    Dataset(table).require(names)
    if not table.height:
        raise DataError("the frame has no rows; there is no table")


def _dimension(table: pl.DataFrame, name: str, spec: Any, total: str, linked: bool) -> Dimension:
    labels = [label for label in table[name].unique().to_list() if label is not None]
    gaps = table[name].null_count()
    if gaps and not linked:
        raise DataError(f"column {name!r} has {gaps} missing codes; write totals as {total!r}")
    if spec is not None:
        return Dimension.of(name, spec, labels)
    if {canonical(label) for label in labels} <= {total}:
        raise DataError(f"no row is an inner cell: column {name!r} has nothing but totals")
    leaves = sorted((v for v in labels if canonical(v) != total), key=lambda v: (isinstance(v, str), v))
    return Dimension.flat(name, leaves, total)


def _given(
    table: pl.DataFrame,
    names: Sequence[str],
    dims: Sequence[Dimension],
    value: str | None,
    count: str | None,
    top: Sequence[str],
    status: str | None,
) -> _Given:
    data = Dataset(table)
    codes = np.empty((table.height, len(dims)), np.int32)
    for j, (name, dim) in enumerate(zip(names, dims, strict=True)):
        column = data.codes(name)
        lookup = np.zeros(column.size, np.int32)  # missing codes of linked tables are totals
        for number, label in enumerate(column.values):
            if label is not None:
                lookup[number] = dim.find([label])[0]
        codes[:, j] = lookup[column.codes]
    keys = row_keys(codes, [len(dim) for dim in dims])
    twice = table.height - len(np.unique(keys))
    if twice:
        raise DataError(f"{twice} rows repeat a cell that another row has")
    hidden = value is None and status is not None
    gaps: Literal["nan", "error"] = "nan" if hidden else "error"
    numbers = np.zeros(table.height) if count is None else data.numbers([count], missing=gaps)[:, 0]
    known = ~np.isnan(numbers)
    counts = np.nan_to_num(numbers)
    if (counts < 0).any() or (counts != np.round(counts)).any():
        raise DataError(f"column {count!r}: numbers of respondents must be whole and not negative")
    values = np.where(known, counts, np.nan) if value is None else data.number(value)
    largest = np.nan_to_num(data.numbers(top)) if top else np.zeros((table.height, 0))
    if (np.diff(largest, axis=1) > 0).any():
        raise DataError("top: name the columns from the largest contribution down")
    counted = count is not None and bool(known.all())
    return _Given(codes, values.astype(np.float64), counts.astype(np.int64), counted, largest)


def _check_top(given: _Given, tolerance: float) -> None:
    """Refuse largest contributions that add up to more than their cell where nothing is negative."""
    largest = given.top.sum(axis=1)
    over = largest > given.value + tolerance * np.maximum(np.abs(given.value), 1.0)
    if over.any() and not (given.value < 0).any():
        raise DataError(
            f"top: in {int(over.sum())} cells the largest contributions add up to more than the value, and no value is "
            "negative; where contributions are, tabulate the records (a larger `tolerance` allows for rounding)"
        )


def _leaf_rows(given: _Given, dims: Sequence[Dimension], columns: Sequence[int], names: Sequence[str]) -> Ints:
    """Give the rows that are inner cells of one table: leaves of its variables, totals of the others."""
    is_leaf = [dim.leaves[given.codes[:, j]] if j in columns else given.codes[:, j] == 0 for j, dim in enumerate(dims)]
    rows: Ints = np.flatnonzero(np.logical_and.reduce(is_leaf))
    if not len(rows):
        which = "" if len(columns) == len(dims) else f" of the table {' × '.join(names[j] for j in columns)}"
        raise DataError(f"no row is an inner cell{which}: every one has a total among its codes")
    return rows


def _all_cells(given: _Given, rows: Ints, dims: Sequence[Dimension], columns: Sequence[int]) -> Figures:
    """Roll the inner cells of one table up to all totals; each contribution has a respondent of its own."""
    top, count = given.top[rows], given.count[rows]
    n, t = top.shape
    ids = np.where(top > 0, np.arange(n * t).reshape(n, t), -1).astype(np.int32)
    inner = Figures(given.codes[rows], (Amounts(given.value[rows], count, top, ids),), count.astype(np.float64))
    return rolled(inner, closed(inner.codes, dims, columns))


def _filled_in(figures: Figures, parts: Sequence[Figures], dims: Sequence[Dimension]) -> None:
    """Take values that one of the linked tables leaves open from another one that has them."""
    finder = Packer.fit(figures.codes, [len(dim) for dim in dims])
    value = figures.amounts[0].value
    for part in parts:
        place, known = finder.find(part.codes), part.amounts[0].value
        value[place] = np.where(np.isnan(value[place]), known, value[place])


def _with_given(figures: Figures, given: _Given, place: Ints, tables: Sequence[Sequence[str]]) -> Figures:
    """Put given figures in the place of those that were computed."""
    if (place < 0).any():
        lost = int((place < 0).sum())
        linked = ", or their variables are those of none of the tables" if len(tables) > 1 else ""
        raise DataError(f"{lost} totals have no inner cells below them{linked}; give their parts, or leave them out")
    one = figures.amounts[0]
    value, count, top, ids = one.value.copy(), one.count.copy(), one.top.copy(), one.ids.copy()
    known = ~np.isnan(given.value)
    value[place[known]] = given.value[known]
    count[place] = given.count
    changed = given.top.any(axis=1) & (top[place] != given.top).any(axis=1)
    top[place[changed]] = given.top[changed]
    ids[place[changed]] = -1
    return replace(figures, amounts=(Amounts(value, count, top, ids),))


def _assembled(
    figures: Figures,
    dims: tuple[Dimension, ...],
    tables: tuple[tuple[tuple[str, ...], ...], Bools],
    inner: tuple[Ints32, Floats],
    named: tuple[str, bool, bool],
) -> Cells:
    name, frequency, counted = named
    one = figures.amounts[0]
    response = Response(
        name=name,
        value=one.value,
        count=one.count,
        gross=np.abs(one.value),
        top=one.top,
        top_ids=one.ids,
        negative=(one.value < 0).astype(np.int64),
        open_count=one.count,
        open_top=one.top[:, 0] if one.top.shape[1] else np.zeros(len(figures)),
        requested=None,
        inner_value=inner[1],
        frequency=frequency,
        counted=counted,
    )
    return Cells(
        dims=dims,
        codes=figures.codes,
        responses=(response,),
        tables=tables[0],
        in_table=tables[1],
        inner_codes=inner[0],
        weighted_count=one.count.astype(np.float64),
        status=Status.empty(len(figures)),
    )


@dataclass(frozen=True)
class Misfit:
    """A total that is not the sum of its parts: the cell, the variable along which, and by how much it misses."""

    cell: Mapping[str, str]
    along: str
    difference: float


def misfits(cells: Cells, tolerance: float = 1e-6) -> list[Misfit]:
    """List the totals that are not the sums of their parts to within a tolerance, the largest difference first."""
    sums = cells.relations()
    off = sums.dot(cells.value)
    size = np.abs(np.nan_to_num(cells.value))
    scale = np.zeros(sums.shape[0])
    np.maximum.at(scale, sums.rows, size[sums.indices])
    wrong = np.flatnonzero(np.abs(off) > tolerance + RELATIVE * scale)
    found = []
    for row in wrong[np.argsort(-np.abs(off[wrong]), kind="stable")]:
        members, signs = sums.row(row), sums.data[sums.indptr[row] : sums.indptr[row + 1]]
        total, part = members[signs > 0][0], members[signs < 0][0]
        j = int(np.flatnonzero(cells.codes[total] != cells.codes[part])[0])
        found.append(Misfit(cells.label(int(total)), cells.dims[j].name, float(off[row])))
    return found


def _checked(cells: Cells, computed: Floats, tolerance: float, additivity: str) -> tuple[Cells, int]:
    """Refuse sums that fail, or replace them by what was computed from the inner cells."""
    if additivity not in ("check", "recompute"):
        raise PlanError("additivity: expected 'check' or 'recompute'")
    wrong = misfits(cells, tolerance)
    if not wrong:
        return cells, 0
    if additivity == "check":
        raise DataError(_report(wrong, tolerance, "correct them, raise `tolerance`, or say additivity='recompute'"))
    value = np.where(np.isnan(computed), cells.value, computed)
    cells = replace(cells, responses=(replace(cells.response, value=value, gross=np.abs(value)),))
    left = misfits(cells, tolerance)
    if left:
        raise DataError(_report(left, tolerance, "the inner cells of the linked tables contradict each other"))
    return cells, len(wrong)


def _report(wrong: Sequence[Misfit], tolerance: float, advice: str) -> str:
    listed = [
        f"  {', '.join(f'{n}={c}' for n, c in item.cell.items())}: misses its parts along {item.along!r} by "
        f"{item.difference:.6g}"
        for item in wrong[:_SHOWN]
    ]
    more = [f"  … and {len(wrong) - _SHOWN} more"] if len(wrong) > _SHOWN else []
    head = f"{len(wrong)} totals are not the sums of their parts to within {tolerance:g}:"
    return "\n".join([head, *listed, *more, advice])


def _with_states(cells: Cells, table: pl.DataFrame, status: str | None, place: Ints, wrong: int) -> Cells:
    cells = replace(cells, notes=(f"{wrong} totals were computed anew from their parts",) if wrong else ())
    if status is None:
        gaps = int(np.isnan(cells.value).sum())
        if gaps:
            raise DataError(f"{gaps} cells have no value; name the column that says they are suppressed in `status`")
        return cells
    words = ["" if word is None else canonical(word) for word in table[status].to_list()]
    bad = sorted({word for word in words if word not in _STATES})
    if bad:
        raise DataError(f"column {status!r}: unknown status {bad[0]!r}; known: {', '.join(filter(None, _STATES))}")
    decided = {name: np.zeros(len(cells), np.bool_) for name in ("primary", "secondary", "must_publish")}
    for word, cell in zip(words, place, strict=True):
        if _STATES[word]:
            decided[_STATES[word]][cell] = True
    gaps = int((np.isnan(cells.value) & ~(decided["primary"] | decided["secondary"])).sum())
    if gaps:
        raise DataError(f"{gaps} cells have no value and are not suppressed")
    return cells.with_status(**decided, reason=decided["primary"].astype(np.uint32), reasons=(MANUAL,))
