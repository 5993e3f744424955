"""Tables from microdata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError, PlanError, unknown
from discretion.kernels.arrays import Bools, Floats, Ints, Ints32
from discretion.tables.build import cells_of
from discretion.tables.cells import Cells
from discretion.tables.contributions import Contributions, Weights, build
from discretion.tables.dimensions import Dimension
from discretion.tables.previous import Previous, beside

MISSING = "(missing)"
"""The code of records whose classifying value is missing."""

Missing = Literal["category", "ignore", "error"]
Empty = Literal["drop", "keep"]
COUNT = "count"
"""The name of the response of a table of frequencies."""


def tabulate(
    data: Any,
    by: Sequence[str] | Sequence[Sequence[str]],
    value: str | Sequence[str] | None = None,
    *,
    hierarchies: Mapping[str, Any] | None = None,
    weight: str | Literal[False] | None = None,
    contributor: str | None = None,
    top: int = 3,
    missing: Missing = "category",
    empty: Empty = "drop",
    waivers: Sequence[Any] | str | None = None,
    requests: Sequence[Any] | str | None = None,
    record_key: str | None = None,
    weights: Weights = "contributions",
    previous: Sequence[Cells | Previous] = (),
) -> Cells:
    """Count records, or add up response variables, by classifying variables, with all totals.

    `by` names the variables of a table, or is a list of such lists: linked tables over the same records, one system in
    which a cell that several tables show is one cell. Without `value` the table counts records; with several values it
    has several responses. Hierarchies default to those of the data; a variable without one has a total above its
    values. `weight` defaults to the column with that role (False: none); the cell value is weighted, the number of
    respondents is not; records of weight 0 are left out, since they add nothing behind which others could hide.
    `weights` says what a weight w means to rules that look at contributions: `"contributions"`, the
    respondent contributes w × value (the default: from weights of 1 on no other finds more cells sensitive);
    `"respondents"`, it stands for w respondents of that value each, as in τ-ARGUS (a weight of 2.4: two, and one of 0.4
    times the value); `"unweighted"`, it contributes its value to a weighted cell. `contributor` names the column
    of respondents: several records of one are added up within a cell first. `top` is how many of the largest
    contributions are kept, for the rules. Records without a classifying value are a category of their own, left out, or
    an error; a missing response is no contribution. `empty="keep"` also lists cells without records. `waivers` and
    `requests` name respondents (or a true/false column) that waived or asked for protection. `record_key` names a
    column of random numbers in [0, 1) for cell keys. `previous` are tables that went out earlier (as `suppress` left
    them, of the same records; `Previous.matched` takes those of another delivery): readers have them too, so that
    rules, suppression and audit take them into account.

    Time O(n log n + cells·variables), memory linear in records and non-empty cells (respondents that occur in many
    cells cost one entry per cell they are in).

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> firms = pl.DataFrame({"region": ["A", "A", "B"], "sector": ["x", "y", "x"], "turnover": [10.0, 20.0, 5.0]})
    >>> cells = dc.tabulate(firms, ["region", "sector"], "turnover")
    >>> cells.index({"sector": "x"}), float(cells.value[cells.index({"sector": "x"})])
    (1, 15.0)
    """
    data = Dataset.of(data, "a table")
    tables = table_lists(by)
    _check_options(top, missing, empty, weights)
    if weights == "respondents" and contributor is not None:
        raise PlanError(
            "weights: respondents with several records (`contributor`) cannot stand for others; use another"
        )
    names = list(dict.fromkeys(name for table in tables for name in table))
    data.require(names)
    if not len(data):
        raise DataError("the data has no rows; there is nothing to tabulate")
    check_hierarchies(hierarchies, names)
    more = (value, weight, contributor, waivers, requests, record_key, list((hierarchies or {}).values()))
    data = data.projected([*names, *data.having("weight"), *_names_in(more, data)])
    coded = [_coded(data, name, (hierarchies or {}).get(name), missing) for name in names]
    placed = _classified(coded)
    rows = placed[_weights(data, weight)[placed] > 0]
    if not len(rows) and len(placed):
        raise DataError(f"all {len(placed)} records have the weight 0; there is nothing to tabulate")
    respondents = _respondents(data, contributor)
    records = _entries(data, rows, respondents, value, weight, waivers, requests, record_key)
    dims = tuple(dim for dim, _ in coded)
    codes = np.column_stack([codes[rows] for _, codes in coded]).astype(np.int32)
    entries = replace(build(records, codes, tuple(len(dim) for dim in dims)), weights=weights)
    left_out, idle = len(data) - len(placed), len(placed) - len(rows)
    notes: tuple[str, ...] = (f"{left_out} records without a classifying value were left out",) if left_out else ()
    notes += (f"{idle} records of weight 0 were left out: they hide nobody",) if idle else ()
    cells = cells_of(entries, dims, tables, top, empty, respondents.ids, notes)
    return (
        replace(cells, beside=beside(cells, records, codes.astype(np.int64), rows, data, previous))
        if previous
        else cells
    )


def _names_in(given: Any, data: Dataset) -> list[str]:
    """List the columns that options name, however deep."""
    if isinstance(given, str):
        return [given] if given in data.columns else []
    inner = given.values() if isinstance(given, Mapping) else given if isinstance(given, list | tuple) else ()
    return [name for one in inner for name in _names_in(one, data)]


def _check_options(top: int, missing: str, empty: str, weights: str) -> None:
    problems = []
    if isinstance(top, bool) or not isinstance(top, int | np.integer) or top < 1:
        problems.append("top: expected a whole number; at least 1 contribution must be kept")
    if missing not in get_args(Missing):
        problems.append(f"missing: {unknown('choice', str(missing), get_args(Missing))}")
    if empty not in get_args(Empty):
        problems.append(f"empty: {unknown('choice', str(empty), get_args(Empty))}")
    if weights not in get_args(Weights):
        problems.append(f"weights: {unknown('reading', str(weights), get_args(Weights))}")
    if problems:
        raise PlanError(problems)


def _classified(coded: Sequence[tuple[Dimension, Ints32]]) -> Ints:
    """Give the rows that have a code of every variable."""
    rows = np.flatnonzero(np.logical_and.reduce([codes >= 0 for _, codes in coded]))
    if not len(rows):
        raise DataError("every record lacks a classifying value; nothing is left to tabulate")
    return rows


def _entries(
    data: Dataset,
    rows: Ints,
    respondents: _Respondents,
    value: str | Sequence[str] | None,
    weight: str | Literal[False] | None,
    waivers: Sequence[Any] | str | None,
    requests: Sequence[Any] | str | None,
    record_key: str | None,
) -> Contributions:
    """Give one entry per record; they are not yet put into cells."""
    return Contributions(
        names=_value_names(value),
        frequency=value is None,
        inner_codes=np.zeros((0, 0), np.int32),
        inner=np.zeros(len(rows), np.int64),
        contributor=respondents.number[rows],
        x=_responses(data, value, weight)[rows],
        weight=_weights(data, weight)[rows],
        waived=_flags(data, respondents, waivers, "waivers")[rows],
        requested=_flags(data, respondents, requests, "requests")[rows],
        key=None if record_key is None else _record_keys(data, record_key)[rows],
        knows_requests=requests is not None,
    )


def table_lists(by: Any) -> tuple[tuple[str, ...], ...]:
    """Read `by`: the variables of one table, or a list of such lists for linked tables."""
    if isinstance(by, str):
        by = [by]
    if not isinstance(by, Sequence) or not by:
        raise PlanError("by: name at least one classifying variable")
    lists = [
        [item] if isinstance(item, str) else list(item) if isinstance(item, list | tuple) else [item] for item in by
    ]
    if not all(isinstance(name, str) for one in lists for name in one):
        raise PlanError("by: expected names of columns, or a list of such lists")
    tables = (
        [tuple(item for one in lists for item in one)]
        if all(isinstance(i, str) for i in by)
        else list(map(tuple, lists))
    )
    for table in tables:
        if not table or len(set(table)) < len(table):
            raise PlanError("by: each table needs variables, each named once")
    if len(set(map(frozenset, tables))) < len(tables):
        raise PlanError("by: two of the tables have the same variables")
    return tuple(tables)


def check_hierarchies(hierarchies: Mapping[str, Any] | None, names: Sequence[str]) -> None:
    """Refuse hierarchies of variables that no table has."""
    for name in hierarchies or {}:
        if name not in names:
            raise PlanError(f"hierarchies: {unknown('variable', name, names)}")


def _coded(data: Dataset, name: str, spec: Any, missing: Missing) -> tuple[Dimension, Ints32]:
    """Give the variable and the leaf of each record; −1 for records that are left out."""
    column = data.codes(name)
    values = [value for value in column.values if value is not None]
    dim = _dimension(data, name, spec, values)
    gaps = data.count_missing(name)
    if gaps and missing == "error":
        raise DataError(f"column {name!r} has {gaps} missing values; say `missing='category'` or `missing='ignore'`")
    if gaps and missing == "category" and MISSING not in dim.index:
        dim = dim.with_leaf(MISSING)
    lookup = np.full(column.size, -1, np.int32)
    lacking: list[str] = []
    for code, value in enumerate(column.values):
        if value is not None:
            lookup[code] = dim.index.get(canonical(value), -1)
            if lookup[code] < 0 or not dim.leaves[lookup[code]]:
                lacking.append(canonical(value))
    if lacking:
        raise DataError(
            f"column {name!r}: {len(lacking)} values are not leaves of the hierarchy: "
            f"{', '.join(map(repr, lacking[:10]))}{' …' if len(lacking) > 10 else ''}"
        )
    if gaps and missing == "category":
        lookup[column.missing] = dim.index[MISSING]
    return dim, lookup[column.codes]


def _dimension(data: Dataset, name: str, spec: Any, values: list[Any]) -> Dimension:
    if isinstance(spec, Mapping) and set(spec) == {"columns"}:
        return from_columns(data, [name, *spec["columns"]])
    if isinstance(spec, list | tuple) and any(isinstance(item, Mapping) and set(item) == {"columns"} for item in spec):
        return Dimension.join([_dimension(data, name, item, values) for item in spec])
    if spec is not None:
        return Dimension.of(name, spec, values)
    if data.schema[name].hierarchy is not None:
        level = data.levels.get(name, 0)
        if not isinstance(level, int):
            raise DataError(f"column {name!r} has values at several levels of its hierarchy; give `hierarchies`")
        return Dimension.from_levels(name, data.hierarchy(name), level)
    return Dimension.flat(name, _ordered(data, name, values) or [MISSING])


def _ordered(data: Dataset, name: str, values: list[Any]) -> list[Any]:
    """Put the values of a variable in the order the schema gives, or in their own."""
    import polars as pl

    order = data.schema[name].order
    if order:
        place = {text: number for number, text in enumerate(order)}
        return sorted(values, key=lambda value: (place.get(canonical(value), len(place)), canonical(value)))
    if data.frame.schema[name] == pl.Enum:
        return [value for value in data.frame.schema[name].categories if value in set(values)]  # type: ignore[attr-defined]
    return sorted(values, key=lambda v: (0, v, "") if isinstance(v, int | float) else (1, 0, canonical(v)))


def from_columns(data: Any, columns: Sequence[str]) -> Dimension:
    """Read a hierarchy off the data: the first column has the leaves, each further one a coarser grouping."""
    data = Dataset.of(data)
    data.require(columns)
    distinct = data.frame.select(columns).drop_nulls().unique().sort(columns)
    rows = [[canonical(value) for value in row] for row in distinct.iter_rows()]
    return Dimension.of(columns[0], rows)


@dataclass(frozen=True)
class _Respondents:
    number: Ints32
    ids: tuple[Any, ...]
    """the id of each number; empty where records are respondents"""


def _respondents(data: Dataset, column: str | None) -> _Respondents:
    if column is None:
        return _Respondents(np.arange(len(data), dtype=np.int32), ())
    data.require([column])
    gaps = data.count_missing(column)
    if gaps:
        raise DataError(f"column {column!r} has {gaps} missing values; every record needs its respondent")
    coded = data.codes(column)
    return _Respondents(coded.codes.astype(np.int32), tuple(coded.values))


def _value_names(value: str | Sequence[str] | None) -> tuple[str, ...]:
    if value is None:
        return (COUNT,)
    names = (value,) if isinstance(value, str) else tuple(value)
    if not names or len(set(names)) < len(names):
        raise PlanError("value: name at least one response, each once")
    return names


def _responses(data: Dataset, value: str | Sequence[str] | None, weight: str | Literal[False] | None) -> Floats:
    weights = _weights(data, weight)
    if value is None:
        return weights[:, None].copy()
    return data.numbers(_value_names(value)) * weights[:, None]


def _weights(data: Dataset, weight: str | Literal[False] | None) -> Floats:
    if weight is None:
        having = data.having("weight")
        if len(having) > 1:
            raise PlanError(f"the data has {len(having)} weights ({', '.join(having)}); name one in `weight`")
        weight = having[0] if having else False
    if weight is False:
        return np.ones(len(data))
    if not isinstance(weight, str):
        raise PlanError("weight: expected the name of a column, or False for no weights")
    given: Floats = data.numbers([weight], missing="error")[:, 0]
    if not (given >= 0).all():
        raise DataError(f"column {weight!r} has {int((given < 0).sum())} negative weights")
    return given


def _flags(data: Dataset, respondents: _Respondents, given: Sequence[Any] | str | None, what: str) -> Bools:
    """Tell for each record whether its respondent is named."""
    if given is None:
        return np.zeros(len(data), np.bool_)
    if isinstance(given, str):
        import polars as pl

        data.require([given])
        if data.frame.schema[given] != pl.Boolean:
            raise DataError(f"{what}: the column {given!r} must hold true and false")
        return data.frame[given].fill_null(False).to_numpy()
    if not respondents.ids:
        raise PlanError(f"{what}: respondents can be named only when `contributor` names their column")
    number = {canonical(name): i for i, name in enumerate(respondents.ids) if name is not None}
    lacking = [name for name in given if canonical(name) not in number]
    if lacking:
        raise DataError(f"{what}: {len(lacking)} of {len(given)} respondents do not occur in the data")
    named: Ints = np.array([number[canonical(name)] for name in given], np.int64)
    return np.isin(respondents.number, named)


def _record_keys(data: Dataset, column: str) -> Floats:
    keys: Floats = data.numbers([column], missing="error")[:, 0]
    if not ((keys >= 0) & (keys < 1)).all():
        raise DataError(f"column {column!r}: record keys must lie in [0, 1)")
    return keys
