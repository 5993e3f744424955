"""Earlier releases beside a new table: what their readers have of the same people, as columns of the same matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.solve import Matrix
from discretion.tables.attacker import Prior
from discretion.tables.cells import Cells, Contributions, Packer, Response, Sparse, build
from discretion.tables.dimensions import OUTSIDE, Dimension

if TYPE_CHECKING:
    from discretion.tables.audit import Audit

_NAME = "beside the table"
_SELF = "–"


@dataclass(frozen=True, eq=False, repr=False)
class Forms:
    """Sums of inner cells that the table itself does not show."""

    members: Matrix
    """(sums × inner cells) of 0 and 1"""
    lower: Floats
    """protection each needs below its value"""
    upper: Floats
    """and above"""
    published: Bools
    """whether an earlier release shows it; the others are sensitive"""
    labels: tuple[str, ...]
    """what each is, for the office"""

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"Forms({len(self)} sums, {int(self.published.sum())} of them published)"

    @classmethod
    def none(cls, n_inner: int) -> Forms:
        """Give no sums at all."""
        from scipy.sparse import csr_array

        return cls(csr_array((0, n_inner)), np.zeros(0), np.zeros(0), np.zeros(0, np.bool_), ())

    @classmethod
    def stack(cls, parts: Sequence[Forms]) -> Forms:
        """Put several together."""
        from scipy.sparse import vstack

        return cls(
            vstack([part.members for part in parts]).tocsr(),
            np.concatenate([part.lower for part in parts]),
            np.concatenate([part.upper for part in parts]),
            np.concatenate([part.published for part in parts]),
            tuple(label for part in parts for label in part.labels),
        )


@dataclass(frozen=True, eq=False, repr=False)
class Differences:
    """What the rules found about differences of published cells; kept with the table until other rules are applied."""

    forms: Forms
    """the sensitive ones, and others that rules want protected"""
    judged: int
    """small differences that were found and judged"""
    complete: bool
    """whether all of them were: a list that was cut short proves nothing"""
    tried: bool = True
    """whether also all combinations of three and more tables were tried; where not, their smallest parts were judged"""

    def __repr__(self) -> str:
        return f"Differences({self.judged:,} judged, {len(self.forms):,} sensitive)"


@dataclass(frozen=True, eq=False, repr=False)
class Division:
    """The finest codes of one table, own or earlier, for every inner cell."""

    dims: tuple[Dimension, ...]
    codes: Ints
    """(inner cells × variables) leaves, −1 for people whom the table does not count"""


@dataclass(frozen=True, eq=False, repr=False)
class Beside:
    """Earlier releases: the inner cells of all tables together, and what went out of them."""

    source: Contributions
    """contributions to the inner cells of all tables together"""
    own: Ints
    """(inner cells,) which inner cell of this table each is a part of, −1 for people it does not count"""
    forms: Forms
    """cells of earlier releases: published ones, and suppressed ones that are sensitive"""
    divisions: tuple[Division, ...]
    """the divisions of the earlier tables"""
    names: tuple[str, ...]
    """the releases"""
    notes: tuple[str, ...] = ()
    """what is known of each of them, and what is not"""
    hidden: tuple[Ints, ...] = ()
    """inner cells of suppressed cells of which nobody said whether they are sensitive: the rules decide"""

    def __repr__(self) -> str:
        return f"Beside({len(self.names)} earlier releases, {self.forms})"


@dataclass(frozen=True, eq=False)
class Wide:
    """The additive structure of a widened table."""

    x: Sparse
    inner_cell: Ints
    cells: int
    """how many of the columns are cells of the table itself; they come first"""


def at_stake(cells: Cells) -> bool:
    """Tell whether there is anything to protect: a sensitive cell, a sensitive difference, an earlier secret."""
    beside = cells.beside is not None and not cells.beside.forms.published.all()
    differences = cells.differences is not None and (len(cells.differences.forms) or not cells.differences.complete)
    return bool(cells.primary.any() or differences or beside)


def with_sums(cells: Cells, sums: Forms) -> Cells:
    """Give the table with further sums of its inner cells that must be protected."""
    known = cells.differences or Differences(Forms.none(forms_of(cells).members.shape[1]), 0, True)
    forms = Forms.stack([known.forms, on_all_tables(cells, sums)])
    return replace(cells, differences=replace(known, forms=forms))


def on_all_tables(cells: Cells, sums: Forms) -> Forms:
    """Give sums of a table's inner cells as sums of the inner cells of all tables together."""
    if cells.beside is None:
        return sums
    own = cells.beside.own
    members = sums.members[:, np.maximum(own, 0)].tocsc()
    members.data[np.repeat(own < 0, np.diff(members.indptr))] = 0.0
    members = members.tocsr()
    members.eliminate_zeros()
    return replace(sums, members=members)


def forms_of(cells: Cells) -> Forms:
    """Collect all sums beside the table."""
    n = len(cells.inner_codes) if cells.beside is None else len(cells.beside.own)
    parts = [] if cells.beside is None else [cells.beside.forms]
    parts += [] if cells.differences is None else [cells.differences.forms]
    return Forms.stack(parts) if parts else Forms.none(n)


def widened(cells: Cells) -> Cells:
    """Give the table with its differences and the earlier releases as further cells; itself where there are none."""
    forms = forms_of(cells)
    if not len(forms) and cells.beside is None:
        return cells
    beside = cells.beside
    own = np.arange(len(cells.inner_codes)) if beside is None else beside.own
    source = cells.source if beside is None else beside.source
    return replace(
        cells,
        dims=(*cells.dims, _places(forms.labels)),
        codes=_codes(cells, len(forms)),
        responses=tuple(_response(cells, number, forms, source, len(own)) for number in range(len(cells.responses))),
        in_table=np.vstack((cells.in_table, np.zeros((len(forms), len(cells.tables)), np.bool_))),
        inner_codes=np.column_stack((cells.inner_codes[own], np.zeros(len(own), np.int32))).astype(np.int32),
        weighted_count=np.r_[cells.weighted_count, np.zeros(len(forms))],
        status=_status(cells, forms),
        key=None,
        source=source,
        contributors=_contributors(cells, source),
        wide=Wide(_x(cells, own, forms.members), _inner_cell(cells, own), len(cells)),
        beside=None,
        differences=None,
    )


def _contributors(cells: Cells, source: Contributions | None) -> Sequence[Any]:
    """Name the respondents, also those whom only an earlier release counts."""
    if source is None or not len(cells.contributors) or cells.beside is None:
        return cells.contributors
    more = int(source.contributor.max(initial=-1)) + 1 - len(cells.contributors)
    return (*cells.contributors, *(f"only in an earlier release, {number}" for number in range(1, more + 1)))


def _places(labels: Sequence[str]) -> Dimension:
    """Give codes without a total: no sum of them means anything."""
    codes = (_SELF, *(f"{number}: {label}" for number, label in enumerate(labels, 1)))
    return Dimension(_NAME, codes, (np.array([-1, *[OUTSIDE] * len(labels)], np.int32),))


def _codes(cells: Cells, more: int) -> Any:
    own = np.column_stack((cells.codes, np.zeros(len(cells), np.int32)))
    new = np.zeros((more, own.shape[1]), np.int32)
    new[:, -1] = np.arange(1, more + 1)
    return np.vstack((own, new)).astype(np.int32)


def _x(cells: Cells, own: Ints, members: Matrix) -> Sparse:
    here = np.flatnonzero(own >= 0)
    x = cells.x
    count = np.diff(x.indptr)[own[here]]
    rows = np.repeat(here, count)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count - x.indptr[own[here]], count)
    columns = x.indices[places].astype(np.int64)
    added = members.tocoo()
    rows, columns = np.r_[rows, added.col], np.r_[columns, len(cells) + added.row]
    return Sparse.from_pairs(rows.astype(np.int64), columns, (len(own), len(cells) + members.shape[0]))


def _inner_cell(cells: Cells, own: Ints) -> Ints:
    """Give the published cell that is each inner cell; parts of one are none."""
    parts = np.bincount(own[own >= 0], minlength=len(cells.inner_codes))
    alone = (own >= 0) & (parts[own] == 1)
    return np.where(alone, cells.inner_cell[own], -1)


def _response(cells: Cells, number: int, forms: Forms, source: Contributions | None, n: int) -> Response:
    given = cells.responses[number]
    inner, count = given.inner_value, np.zeros(len(forms), np.int64)
    if source is not None:
        x = source.x[:, number]
        inner = np.bincount(source.inner, np.nan_to_num(x), n).astype(np.float64)
        count = people(forms.members, source, number)
    value, zero, t = forms.members @ inner, np.zeros(len(forms)), given.top.shape[1]
    return replace(
        given,
        value=np.r_[given.value, value],
        count=np.r_[given.count, count],
        gross=np.r_[given.gross, np.abs(value)],
        top=np.vstack((given.top, np.zeros((len(forms), t)))),
        top_ids=np.vstack((given.top_ids, np.full((len(forms), t), -1))).astype(np.int32),
        negative=np.r_[given.negative, zero.astype(np.int64)],
        open_count=np.r_[given.open_count, count],
        open_top=np.r_[given.open_top, zero],
        requested=None if given.requested is None else np.r_[given.requested, zero],
        inner_value=inner,
    )


def people(members: Matrix, source: Contributions, number: int) -> Ints:
    """Count the respondents of each sum, each once."""
    from scipy.sparse import csr_array

    there = ~np.isnan(source.x[:, number])
    who = source.contributor[there]
    held = csr_array(
        (np.ones(int(there.sum())), (source.inner[there], who)),
        shape=(members.shape[1], int(source.contributor.max(initial=-1)) + 1),
    )
    counts: Ints = np.diff((members @ held).tocsr().indptr).astype(np.int64)
    return counts


def _status(cells: Cells, forms: Forms) -> Any:
    status, more = cells.status, len(forms)
    no = np.zeros(more, np.bool_)
    return replace(
        status,
        primary=np.r_[status.primary, ~forms.published],
        secondary=np.r_[status.secondary, no],
        safe=np.r_[status.safe, no],
        must_publish=np.r_[status.must_publish, forms.published],
        preferred=np.r_[status.preferred, no],
        reason=np.r_[status.reason, no.astype(np.uint32)],
        lower_required=np.r_[status.lower_required, forms.lower],
        upper_required=np.r_[status.upper_required, forms.upper],
        cost=None if status.cost is None else np.r_[status.cost, np.zeros(more)],
        released=None,
    )


def widened_prior(prior: Prior, more: int) -> Prior:
    """Give what is known of the cells of a table for the widened one: nothing of what is beside it."""
    return replace(
        prior,
        lower=None if prior.lower is None else np.r_[prior.lower, np.full(more, -np.inf)],
        upper=None if prior.upper is None else np.r_[prior.upper, np.full(more, np.inf)],
    )


def told_apart(found: Audit, cells: Cells) -> Audit:
    """Give the audit of a widened table as one of the table, with what is beside it apart."""
    from discretion.tables.audit import Unpublished

    inside = found.cell < len(cells)
    bounds, beside = found.bounds.chosen(inside), found.bounds.chosen(~inside)
    labels = found.cells.dims[-1].codes
    number = found.cells.codes[found.cell[~inside], -1]
    differences, earlier = cells.differences, cells.beside
    unpublished = Unpublished(
        labels=tuple(labels[i].partition(": ")[2] for i in number.tolist()),
        value=found.cells.value[found.cell[~inside]],
        bounds=beside,
        judged=0 if differences is None else differences.judged,
        complete=differences is None or differences.complete,
        tried=differences is None or differences.tried,
        earlier=() if earlier is None else earlier.names,
        notes=() if earlier is None else earlier.notes,
    )
    who = found.attacker
    if earlier is not None and earlier.names:
        tables = f"{len(earlier.names)} earlier release{'s' if len(earlier.names) > 1 else ''}"
        who = who.replace("an outsider", f"readers of this table and of {tables}", 1)
    return replace(
        found,
        cells=cells,
        cell=found.cell[inside],
        bounds=bounds,
        worst=tuple(found.worst[i] for i in np.flatnonzero(inside)) if found.worst else (),
        unpublished=unpublished,
        attacker=who,
    )


CLOSE = 1e-9
"""Share of a figure by which sums of the same records may differ through rounding."""


@dataclass(frozen=True, eq=False, repr=False)
class Previous:
    """An earlier table, and which of its inner cells each record of the new one was counted in.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> people = pl.DataFrame({"town": ["A"] * 9 + ["B"] * 9, "ill": ["no", "no", "yes"] * 6, "sex": ["f", "m"] * 9})
    >>> first = dc.tabulate(people, ["town", "sex"])
    >>> dc.tables.Previous.of(first, people)
    Previous(an earlier table: 9 cells, 0 of them suppressed)
    """

    cells: Cells
    """the earlier table as it went out: its true values, and in its status what is suppressed and what is sensitive"""
    inner: Ints
    """(records of the new table,) the inner cell of the earlier one, −1 for people whom it does not count"""
    gone: Mapping[Any, int]
    """people whom the new delivery does not have: what they are called in all deliveries, and their inner cell"""
    name: str = "an earlier table"
    judged: bool = True
    """whether the status says which suppressed cells are sensitive; otherwise the rules of the new table decide"""
    note: str = ""
    """what is known of it, for the report"""

    def __repr__(self) -> str:
        return (
            f"Previous({self.name}: {len(self.cells):,} cells, {int(self.cells.suppressed.sum()):,} of them suppressed)"
        )

    @classmethod
    def of(cls, cells: Cells, data: Any, **options: Any) -> Previous:
        """Take a table of the same records: the data must have its variables, with its codes."""
        return cls(cells, inner_of(cells, Dataset.of(data)), {}, **options)

    @classmethod
    def matched(
        cls,
        cells: Cells,
        then: Any,
        who_then: Sequence[Any],
        who_now: Sequence[Any],
        *,
        names: Sequence[Any] | None = None,
        **options: Any,
    ) -> Previous:
        """Take a table of another delivery: `who_then` and `who_now` say whom each record is about (each once).

        `names` says what the people of `who_then` are called in yet other earlier deliveries (default: the same), so
        that somebody who left after two of them is known to be one person.
        """
        inner = inner_of(cells, Dataset.of(then))
        place = {person: int(number) for person, number in zip(who_then, inner, strict=True)}
        if len(place) < len(inner):
            raise DataError(f"an earlier table has {len(inner) - len(place)} records of people who have one already")
        called = dict(zip(who_then, who_then if names is None else names, strict=True))
        now = np.array([place.pop(person, -1) for person in who_now], np.int64)
        gone = {called[person]: number for person, number in place.items() if number >= 0}
        return cls(cells, now, gone, **options)


def inner_of(cells: Cells, data: Dataset) -> Ints:
    """Give for each record the inner cell of a table that its codes make, −1 where the table has none."""
    data.require([dim.name for dim in cells.dims])
    codes = []
    for dim in cells.dims:
        column = data.codes(dim.name)
        lookup = np.full(column.size, -1, np.int64)
        missing = 0
        for code, value in enumerate(column.values):
            found = dim.index.get("(missing)" if value is None else canonical(value), -1)
            if found >= 0 and dim.leaves[found]:
                lookup[code] = found
            else:
                missing += 1
        if missing:
            raise DataError(
                f"previous: an earlier table has other divisions: {missing} values of column {dim.name!r} are none of "
                "its finest codes; give its private journal, which says how they were made"
            )
        codes.append(lookup[column.codes])
    finder = Packer.fit(cells.inner_codes, [len(dim) for dim in cells.dims])
    return finder.find(np.column_stack(codes))


def beside(
    cells: Cells, entries: Contributions, codes: Ints, rows: Ints, data: Dataset, previous: Sequence[Cells | Previous]
) -> Beside | None:
    """Put the inner cells of a new table and of earlier ones together; tables that show another figure are left out.

    `entries` has one entry per record, `codes` its leaves, `rows` its place in the data.
    """
    for one in previous:
        if not isinstance(one, Cells | Previous):
            raise PlanError(f"previous: expected tables (`Cells`) or `dc.tables.Previous`, got {type(one).__name__}")
    given = [one if isinstance(one, Previous) else Previous.of(one, data) for one in previous]
    notes = [f"{one.name}: {one.note}" for one in given if one.note]
    used = []
    for one in given:
        if len(one.inner) != len(data):
            raise PlanError(f"previous: {one.name} was matched to {len(one.inner)} records, the data has {len(data)}")
        if one.cells.status.released is not None:
            raise PlanError(
                f"previous: {one.name} shows rounded or perturbed values; only tables of true values can be taken "
                "into account"
            )
        if _same_figure(cells, one.cells):
            used.append(one)
        else:
            notes.append(f"{one.name}: shows another figure; what it tells of this one is not used")
    if not used:
        n = len(cells.inner_codes)
        assert cells.source is not None
        return Beside(cells.source, np.arange(n), Forms.none(n), (), (), tuple(notes)) if notes else None
    return _joined(cells, entries, codes, rows, len(data), used, notes)


def _same_figure(cells: Cells, other: Cells) -> bool:
    counts = cells.response.frequency, other.response.frequency
    return counts == (True, True) or (counts == (False, False) and cells.response.name == other.response.name)


def _joined(
    cells: Cells,
    entries: Contributions,
    codes: Ints,
    rows: Ints,
    records: int,
    used: Sequence[Previous],
    notes: Sequence[str],
) -> Beside:
    own = Packer.fit(cells.inner_codes, [len(dim) for dim in cells.dims]).find(codes)
    places = np.column_stack([own, *(one.inner[rows] for one in used)])
    others = _not_counted(rows, records, used)
    if len(others):
        given = len(cells.contributors) > 0 or (entries.weight != 1).any()
        if given or not cells.response.frequency:
            releases = ", ".join(one.name for one in used)
            raise PlanError(
                f"previous: {releases}: {len(others)} people counted there are not in this table (left, or left out); "
                "only counts without weights and contributors can be linked then"
            )
        places = np.vstack((places, others))
    first = max(records, len(cells.contributors))
    everybody = _with_gone(entries, len(places) - len(rows), first)
    sizes = (len(cells.inner_codes) + 1, *(len(one.cells.inner_codes) + 1 for one in used))
    source = build(everybody, (places + 1).astype(np.int32), sizes)
    at = source.inner_codes.astype(np.int64) - 1
    value = np.bincount(source.inner, np.nan_to_num(source.x[:, cells.active]), len(at))
    parts, hidden, divisions = [], [], []
    for number, one in enumerate(used, 1):
        members = _members(one.cells, at[:, number])
        _check_same(one, members @ value)
        parts.append(_forms(one, members))
        if not one.judged:
            rest = members[np.flatnonzero(one.cells.suppressed)]
            hidden += [row for row in np.split(rest.indices.astype(np.int64), rest.indptr[1:-1]) if len(row)]
        divisions += [_division(one.cells, table, at[:, number]) for table in one.cells.tables]
    names = tuple(one.name for one in used)
    if cells.response.frequency:
        notes = [*notes, "that somebody is in each count an earlier table lists is not used against it"]
    return Beside(source, at[:, 0], Forms.stack(parts), tuple(divisions), names, tuple(notes), tuple(hidden))


def _not_counted(rows: Ints, records: int, used: Sequence[Previous]) -> Ints:
    """Give the places (own table first) of people whom only earlier tables count, each person once."""
    absent = np.setdiff1d(np.arange(records), rows)
    here = np.column_stack([np.full(len(absent), -1), *(one.inner[absent] for one in used)]).astype(np.int64)
    left: dict[Any, Ints] = {}
    for number, one in enumerate(used, 1):
        for person, inner in one.gone.items():
            left.setdefault(person, np.full(len(used) + 1, -1, np.int64))[number] = inner
    found = np.vstack((here[(here >= 0).any(axis=1)], *left.values()))
    return found[np.lexsort(found.T)]


def _with_gone(entries: Contributions, more: int, first: int) -> Contributions:
    """Add people whom only earlier tables count; their numbers come after all others."""
    if not more:
        return entries
    no = np.zeros(more, np.bool_)
    return replace(
        entries,
        inner=np.r_[entries.inner, np.zeros(more, np.int64)],
        contributor=np.r_[entries.contributor, first + np.arange(more)].astype(np.int32),
        x=np.vstack((entries.x, np.ones((more, entries.x.shape[1])))),
        weight=np.r_[entries.weight, np.ones(more)],
        waived=np.r_[entries.waived, no],
        requested=np.r_[entries.requested, no],
        key=None,
    )


def _members(cells: Cells, at: Ints) -> Matrix:
    """Give the cells of an earlier table as sums of the inner cells of all tables (−1: not in it)."""
    members = cells.x.transposed.to_scipy().tocsc()[:, np.maximum(at, 0)].tocsc()
    members.data[np.repeat(at < 0, np.diff(members.indptr))] = 0.0
    found = members.tocsr()
    found.eliminate_zeros()
    found.sort_indices()
    return found


def _check_same(one: Previous, value: Any) -> None:
    """Refuse a table whose published cells are not the sums of the records they are said to be of."""
    shown = ~one.cells.suppressed
    off = np.abs(value - one.cells.value)[shown] > CLOSE * np.maximum(np.abs(one.cells.value[shown]), 1.0)
    if off.any():
        raise DataError(
            f"previous: {one.name} is of other records: {int(off.sum())} of its {int(shown.sum())} published cells are "
            "not what this data gives; give its private journal and the column that tells who a record is about"
        )


def _forms(one: Previous, members: Matrix) -> Forms:
    """Give what the earlier table shows, and its suppressed cells that are sensitive."""
    cells = one.cells
    kept = np.flatnonzero(~cells.suppressed | (cells.primary & one.judged))
    names = ["/".join(cells.label(int(cell)).values()) for cell in kept]
    return Forms(
        members[kept],
        np.where(cells.suppressed, cells.lower_required, 0.0)[kept],
        np.where(cells.suppressed, cells.upper_required, 0.0)[kept],
        ~cells.suppressed[kept],
        tuple(f"{one.name}: {name}" for name in names),
    )


def _division(cells: Cells, table: Sequence[str], at: Ints) -> Division:
    places = [cells.dim(name) for name in table]
    codes = np.where((at >= 0)[:, None], cells.inner_codes[at][:, places], -1)
    return Division(tuple(cells.dims[j] for j in places), codes.astype(np.int64))


def published_table(content: Mapping[str, Any]) -> tuple[dict[str, Any], list[list[str]], list[tuple[Any, ...]]]:
    """Read a table published as JSON: its hierarchies, its tables, and codes, value and status of its cells."""
    from discretion.tables.dimensions import OUTSIDE, Dimension

    dims = {}
    for entry in content["variables"]:
        index = {code: number for number, code in enumerate(entry["codes"])}
        trees = []
        for tree in entry["parents"]:
            parent = np.array([OUTSIDE if above is None else index[above] for above in tree], np.int32)
            parent[0] = -1
            trees.append(parent)
        dims[entry["name"]] = Dimension(entry["name"], tuple(entry["codes"]), tuple(trees))
    cells = [(tuple(cell["codes"]), cell["value"], cell["status"]) for cell in content["cells"]]
    return dims, [list(table) for table in content["tables"]], cells
