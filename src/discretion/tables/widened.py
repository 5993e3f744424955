"""A table with everything that counts beside its cells: sums that no table shows, and cells that went out earlier.

They are more columns of the same matrix, so that engines and audits treat them as cells: what an earlier release shows
must stay published, a difference that gives a few people away is a sensitive cell that is never published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.tables.attacker_system import Matrix, Prior
from discretion.tables.dimensions import OUTSIDE, Dimension
from discretion.tables.response import Response
from discretion.tables.sparse import Sparse

if TYPE_CHECKING:
    from discretion.tables.audit_report import Audit
    from discretion.tables.cells import Cells
    from discretion.tables.contributions import Contributions

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
    from discretion.tables.audit_report import Unpublished

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
