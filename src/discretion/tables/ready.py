"""Tables from cells that somebody else added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Floats, Ints, Ints32
from discretion.tables.cells import Cells
from discretion.tables.dimensions import TOTAL, Dimension
from discretion.tables.marking import MANUAL
from discretion.tables.packing import Packer, row_keys
from discretion.tables.response import Response
from discretion.tables.roll_up import Figures, merge, rolled
from discretion.tables.status import Status

if TYPE_CHECKING:
    import polars as pl

RELATIVE = 1e-9
"""Share of a total by which its parts may miss it through rounding of floating-point numbers."""

_SHOWN = 10
_STATES = {
    **dict.fromkeys(("", "s", "published", "safe"), ""),
    **dict.fromkeys(("u", "primary"), "primary"),
    **dict.fromkeys(("x", "secondary"), "secondary"),
    **dict.fromkeys(("z", "must-publish"), "must_publish"),
}
"""What a status column may say: words, or the letters of sdcTable and τ-ARGUS."""


def from_cells(
    frame: Any,
    by: Sequence[str],
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

    Rows may be inner cells only, or include totals (codes that are not leaves of their hierarchy; without a hierarchy
    the code `total`). Totals that are not given are computed. Those that are must be the sums of their parts to within
    `tolerance`: otherwise an error says which sums fail and by how much, or `additivity="recompute"` replaces them.
    Without `value` the table shows frequencies, the column `count`. `top` names the columns of the largest
    contributions, largest first; totals that come without them get them from their parts, which is right when no
    respondent is in two cells. `status` names a column that says which cells are sensitive (u), suppressed (x) or must
    be published (z); the value of a suppressed cell may be missing.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> given = pl.DataFrame({"town": ["A", "A", "B", "Total"], "ill": ["y", "n", "n", "n"], "people": [2, 7, 9, 16]})
    >>> dc.tables.from_cells(given, ["town", "ill"], count="people").value.tolist()
    [18.0, 16.0, 2.0, 9.0, 7.0, 2.0, 9.0, 9.0]
    """
    table = Dataset.of(frame).frame
    names = [by] if isinstance(by, str) else list(by)
    _check_columns(table, [*names, *(c for c in (value, count, status) if c), *top])
    if value is None and count is None:
        raise PlanError("give `value`, `count`, or both")
    dims = tuple(_dimension(table, name, (hierarchies or {}).get(name), total) for name in names)
    given = _given(table, names, dims, value, count, top)
    inner = np.flatnonzero(np.logical_and.reduce([d.leaves[given.codes[:, j]] for j, d in enumerate(dims)]))
    if not len(inner):
        raise DataError("no row is an inner cell: every one has a total among its codes")
    figures = _all_cells(given, inner, dims)
    place = Packer.fit(figures.codes, [len(dim) for dim in dims]).find(given.codes)
    cells = _assembled(figures, given, place, inner, dims, (value or count or "", value is None))
    cells, wrong = _checked(cells, figures, tolerance, additivity)
    return _with_states(cells, table, status, place, wrong)


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


def _dimension(table: pl.DataFrame, name: str, spec: Any, total: str) -> Dimension:
    labels = table[name].unique().to_list()
    if None in labels:
        raise DataError(f"column {name!r} has {table[name].null_count()} missing codes; write totals as {total!r}")
    if {canonical(label) for label in labels} == {total}:
        raise DataError(f"no row is an inner cell: column {name!r} has nothing but totals")
    if spec is not None:
        return Dimension.of(name, spec, labels)
    leaves = sorted((v for v in labels if canonical(v) != total), key=lambda v: (isinstance(v, str), v))
    return Dimension.flat(name, leaves, total)


def _given(
    table: pl.DataFrame,
    names: Sequence[str],
    dims: Sequence[Dimension],
    value: str | None,
    count: str | None,
    top: Sequence[str],
) -> _Given:
    data = Dataset(table)
    codes = np.empty((table.height, len(dims)), np.int32)
    for j, (name, dim) in enumerate(zip(names, dims, strict=True)):
        column = data.codes(name)
        lookup = np.full(column.size, -1, np.int32)
        for number, label in enumerate(column.values):
            if label is not None:
                lookup[number] = dim.find([label])[0]
        codes[:, j] = lookup[column.codes]
    keys = row_keys(codes, [len(dim) for dim in dims])
    twice = table.height - len(np.unique(keys))
    if twice:
        raise DataError(f"{twice} rows repeat a cell that another row has")
    counts = np.zeros(table.height) if count is None else data.numbers([count], missing="error")[:, 0]
    if (counts < 0).any() or (counts != np.round(counts)).any():
        raise DataError(f"column {count!r}: numbers of respondents must be whole and not negative")
    values = counts if value is None else data.number(value)
    largest = np.nan_to_num(data.numbers(top)) if top else np.zeros((table.height, 0))
    if (np.diff(largest, axis=1) > 0).any():
        raise DataError("top: name the columns from the largest contribution down")
    return _Given(codes, values.astype(np.float64), counts.astype(np.int64), count is not None, largest)


def _all_cells(given: _Given, inner: Ints, dims: Sequence[Dimension]) -> Figures:
    """Roll the inner cells up to all totals; each contribution has a respondent of its own."""
    value, top = given.value[inner], given.top[inner]
    n, t = top.shape
    ids = np.where(top > 0, np.arange(n * t).reshape(n, t), -1).astype(np.int32)
    largest = top[:, :1] if t else np.zeros((n, 1))
    count = given.count[inner]
    figures = Figures(
        given.codes[inner],
        np.column_stack((value, np.abs(value), count, np.zeros(n))),
        np.column_stack((count, count, value < 0)).astype(np.int64),
        np.column_stack((largest, np.zeros(n))),
        top[:, None, :],
        ids[:, None, :],
    )
    figures = merge(figures, row_keys(figures.codes, [len(dim) for dim in dims]), t)
    figures = rolled(figures, dims, range(len(dims)), t)
    return figures.take(np.lexsort(figures.codes.T[::-1]))


def _assembled(
    figures: Figures, given: _Given, place: Ints, inner: Ints, dims: tuple[Dimension, ...], named: tuple[str, bool]
) -> Cells:
    """Put computed and given figures together; given ones count."""
    if (place < 0).any():
        lost = int((place < 0).sum())
        raise DataError(f"{lost} totals have no inner cells below them; give their parts, or leave them out")
    value = figures.sums[:, 0].copy()
    known = ~np.isnan(given.value)
    value[place[known]] = given.value[known]
    count = figures.counts[:, 0].copy()
    count[place] = given.count
    top, ids = figures.top[:, 0].copy(), figures.ids[:, 0].copy()
    changed = given.top.any(axis=1) & (top[place] != given.top).any(axis=1)
    top[place[changed]] = given.top[changed]
    ids[place[changed]] = -1
    name, frequency = named
    response = Response(
        name=name,
        value=value,
        count=count,
        gross=np.abs(value),
        top=top,
        top_ids=ids,
        negative=(value < 0).astype(np.int64),
        open_count=count,
        open_top=top[:, 0].copy() if top.shape[1] else np.zeros(len(value)),
        requested=None,
        inner_value=given.value[inner],
        frequency=frequency,
        counted=given.counted,
    )
    return Cells(
        dims=dims,
        codes=figures.codes,
        responses=(response,),
        tables=(tuple(dim.name for dim in dims),),
        in_table=np.ones((len(value), 1), np.bool_),
        inner_codes=given.codes[inner],
        weighted_count=count.astype(np.float64),
        status=Status.empty(len(value)),
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


def _checked(cells: Cells, figures: Figures, tolerance: float, additivity: str) -> tuple[Cells, int]:
    if additivity not in ("check", "recompute"):
        raise PlanError("additivity: expected 'check' or 'recompute'")
    wrong = misfits(cells, tolerance)
    if wrong and additivity == "check":
        listed = [
            f"  {', '.join(f'{n}={c}' for n, c in item.cell.items())}: misses its parts along {item.along!r} by "
            f"{item.difference:.6g}"
            for item in wrong[:_SHOWN]
        ]
        more = [f"  … and {len(wrong) - _SHOWN} more"] if len(wrong) > _SHOWN else []
        raise DataError(
            "\n".join(
                [
                    f"{len(wrong)} totals are not the sums of their parts to within {tolerance:g}:",
                    *listed,
                    *more,
                    "correct them, raise `tolerance`, or say additivity='recompute'",
                ]
            )
        )
    if not wrong:
        return cells, 0
    value = figures.sums[:, 0]
    value = np.where(np.isnan(value), cells.value, value)
    response = replace(cells.response, value=value, gross=np.abs(value))
    return replace(cells, responses=(response,)), len(wrong)


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
