"""Differences of published cells: groups of a few people that no table shows and all tables together give away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.kernels.arrays import Bools, Ints
from discretion.kernels.circuits import INSIDE, OUTSIDE, cut_below
from discretion.solve import Matrix
from discretion.tables.cells import row_keys
from discretion.tables.previous import Differences, Division, Forms, on_all_tables

if TYPE_CHECKING:
    from discretion.tables.cells import Cells, Contributions
    from discretion.tables.rules.rule import Rule


# Slivers: small groups of people that are left when the cells of one division are subtracted from those of another.
#
# Codes of two divisions (municipalities, squares of a grid) are nodes of a graph, the people who have both codes an
# edge between them. Adding the codes of one division in a set of nodes and subtracting those of the other leaves
# exactly the edges with one end in the set: a cut. A combination that contains no smaller one is a bond, a cut that
# parts a connected graph in two, and has the coefficients 0 and ±1; all others are sums of bonds, so that the bonds
# below k people are all there is to look for.


MOST = 10_000
"""Bonds that are listed at most; more are not worth telling apart: the tables cannot go out together."""
STEPS = 200_000
"""Cuts computed at most while they are listed."""


@dataclass(frozen=True, eq=False)
class Bonds:
    """Small cuts: each is a set of edges, and the side of the graph on which each edge has its first end."""

    edges: list[Ints]
    """for each bond the numbers of its edges"""
    sides: list[Bools]
    """for each edge of each bond, whether its first end is inside; alike for all: a sum, otherwise a difference"""
    complete: bool
    """whether none was left out"""


class _Block:
    """A graph of its own, with what the computation of cuts needs."""

    def __init__(self, n: int, one: Ints, other: Ints, weight: Ints) -> None:
        self.n, self.one, self.other, self.weight = n, one, other, weight
        tail = np.column_stack((one, other)).ravel()
        self.head = np.column_stack((other, one)).ravel()
        self.arcs = np.argsort(tail, kind="stable")
        self.start = np.r_[0, np.cumsum(np.bincount(tail, minlength=n))].astype(np.int64)
        self._room = np.repeat(weight, 2)
        self._via, self._queue = np.zeros(n, np.int64), np.zeros(n, np.int64)

    def cut(self, state: Ints, limit: int) -> int:
        return int(cut_below(self.start, self.arcs, self.head, self._room.copy(), state, limit, self._via, self._queue))

    @property
    def near(self) -> Bools:
        """The side of the inside in the last cut."""
        near: Bools = self._via != -1
        return near

    def neighbors(self, u: int) -> Ints:
        return self.head[self.arcs[self.start[u] : self.start[u + 1]]]


def bonds(n: int, one: Ints, other: Ints, weight: Ints, k: int, most: int = MOST) -> Bonds:
    """List the bonds of a graph whose edges weigh less than k together.

    Edges (numbers of two nodes below n, positive weights; several between two nodes are allowed) of at least k are in
    no such bond, nor do nodes that k people tie together lie on two sides of one: they are drawn together, the latter
    by Gusfield's tree of least cuts. What is left is listed block by block (biconnected parts: a bond lies in one of
    them), deciding node by node on which side it lies; a branch is followed only while a cut below k parts what is
    decided.
    """
    label, single = _contracted(n, one, other, weight, k)
    kept = np.flatnonzero(label[one] != label[other])
    ends = np.sort(np.column_stack((label[one[kept]], label[other[kept]])), axis=1)
    pairs, group = np.unique(ends, axis=0, return_inverse=True) if len(kept) else (ends, np.zeros(0, np.int64))
    group = group.ravel()
    order = np.argsort(group, kind="stable")
    members = np.split(kept[order], np.cumsum(np.bincount(group, minlength=len(pairs)))[:-1])
    found = Bonds([], [], True)
    steps = [STEPS]
    for block in single:
        nodes, at = np.unique(pairs[block], return_inverse=True)
        at = at.reshape(-1, 2)
        total = np.bincount(group, weight[kept], len(pairs)).astype(np.int64)[block]
        part = _Block(len(nodes), at[:, 0], at[:, 1], total)
        for inside in _listed(part, k, steps):
            cut = np.flatnonzero(inside[part.one] != inside[part.other])
            edges = np.sort(np.concatenate([members[pair] for pair in block[cut]]))
            found.edges.append(edges)
            found.sides.append(_whole_side(pairs, block[cut], label, nodes[inside])[one[edges]])
            if len(found.edges) >= most:
                return Bonds(found.edges, found.sides, False)
    return Bonds(found.edges, found.sides, steps[0] > 0)


def _whole_side(pairs: Ints, cut: Ints, label: Ints, inside: Ints) -> Bools:
    """Give the side of every node of the first graph: a bond of one block parts the whole graph."""
    left = np.ones(len(pairs), np.bool_)
    left[cut] = False
    part = _parts(int(label.max()) + 1, pairs[left])
    side: Bools = np.isin(part, part[inside])[label]
    return side


def _parts(n: int, pairs: Ints) -> Ints:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    graph = csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    number: Ints = connected_components(graph, directed=False)[1].astype(np.int64)
    return number


def _contracted(n: int, one: Ints, other: Ints, weight: Ints, k: int) -> tuple[Ints, list[Ints]]:
    """Draw nodes together that no cut below k parts; give the new number of each, and the blocks of what is left.

    A block is the numbers of its pairs of (new) nodes, in the order of `np.unique`.
    """
    label = np.arange(n)
    while True:
        kept = label[one] != label[other]
        ends = np.sort(np.column_stack((label[one], label[other]))[kept], axis=1)
        if not len(ends):
            return label, []
        pairs, group = np.unique(ends, axis=0, return_inverse=True)
        total = np.bincount(group.ravel(), weight[kept], len(pairs)).astype(np.int64)
        tied = pairs[total >= k]
        single: list[Ints] = []
        if not len(tied):
            single = _biconnected(int(label.max()) + 1, pairs)
            more = [_tied(pairs[block], total[block], k) for block in single if len(block) > 2]
            tied = np.concatenate(more) if more else tied
            if not len(tied):
                return label, single
        label = _parts(int(label.max()) + 1, tied)[label]


def _tied(pairs: Ints, weight: Ints, k: int) -> Ints:
    """Give pairs of nodes of a block that no cut below k parts (Gusfield's tree: n − 1 cuts for all pairs)."""
    nodes, at = np.unique(pairs, return_inverse=True)
    at = at.reshape(-1, 2)
    block = _Block(len(nodes), at[:, 0], at[:, 1], weight)
    parent = np.zeros(len(nodes), np.int64)
    state = np.zeros(len(nodes), np.int64)
    tied = []
    for u in range(1, len(nodes)):
        state[u], state[parent[u]] = INSIDE, OUTSIDE
        if block.cut(state, k) >= k:
            tied.append((nodes[u], nodes[parent[u]]))
        else:
            later = np.flatnonzero(block.near & (parent == parent[u]))
            parent[later[later > u]] = u
        state[u] = state[parent[u]] = 0
    return np.array(tied, np.int64).reshape(-1, 2)


def _biconnected(n: int, pairs: Ints) -> list[Ints]:
    """Give the edges of each part that no single node holds together (Tarjan's search, without recursion)."""
    near: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for edge, (u, v) in enumerate(pairs.tolist()):
        near[u].append((v, edge))
        near[v].append((u, edge))
    number, low = [0] * n, [0] * n
    found: list[Ints] = []
    waiting: list[int] = []
    clock = 0
    for root in range(n):
        if number[root] or not near[root]:
            continue
        clock += 1
        number[root] = low[root] = clock
        path: list[tuple[int, int, Iterator[tuple[int, int]], int]] = [(root, -1, iter(near[root]), 0)]
        while path:
            u, came, rest, _ = path[-1]
            for v, edge in rest:
                if edge == came:
                    continue
                if not number[v]:
                    clock += 1
                    number[v] = low[v] = clock
                    path.append((v, edge, iter(near[v]), len(waiting)))
                    waiting.append(edge)
                    break
                if number[v] < number[u]:
                    waiting.append(edge)
                    low[u] = min(low[u], number[v])
            else:
                _, _, _, first = path.pop()
                if path:
                    above = path[-1][0]
                    low[above] = min(low[above], low[u])
                    if low[u] >= number[above]:
                        found.append(np.array(waiting[first:], np.int64))
                        del waiting[first:]
    return found


def _listed(block: _Block, k: int, steps: list[int]) -> Iterator[Bools]:
    """Give the inside of every bond below k; node 0 is always outside, and the least inside node comes first."""
    for first in range(1, block.n):
        state = np.zeros(block.n, np.int64)
        state[:first], state[first] = OUTSIDE, INSIDE
        waiting = [state]
        while waiting:
            state = waiting.pop()
            steps[0] -= 1
            if steps[0] <= 0:
                return
            if block.cut(state, k) >= k or not _together(block, state):
                continue
            beside = (state[block.one] == INSIDE) & (state[block.other] == 0)
            across = (state[block.other] == INSIDE) & (state[block.one] == 0)
            front = np.r_[block.other[beside], block.one[across]]
            if not len(front):
                yield state == INSIDE
                continue
            for choice in (OUTSIDE, INSIDE):
                new = state.copy()
                new[front.min()] = choice
                waiting.append(new)


def _together(block: _Block, state: Ints) -> bool:
    """Tell whether all nodes held outside can be joined without the inside (undecided nodes may help)."""
    seen = {0}
    waiting = [0]
    while waiting:
        for v in block.neighbors(waiting.pop()).tolist():
            if state[v] != INSIDE and v not in seen:
                seen.add(v)
                waiting.append(v)
    return all(u in seen for u in np.flatnonzero(state == OUTSIDE).tolist())


SCALE = 5040
"""What a respondent who is in one inner cell only weighs; one in several weighs as much in all of them together."""
LARGEST = 30_000_000_000
"""Entries × pivots of the elimination over all columns; beyond it the audit decides about every small piece."""
JOINED = 50_000
"""Sets of combinations from that elimination that are added up at most, to find groups that follow from several."""
PRIME = 2_147_483_629
"""Elimination is done modulo this prime."""
_PAIRED, _SMALL = 5_000, 4
"""Places of which pairs are listed at most, and the size of groups that two pairs make."""
_NAMED = 3


def with_differences(cells: Cells, rules: Sequence[Rule], sums: Sequence[Forms]) -> Cells:
    """Judge the differences that published cells give by the rules, and keep the sensitive ones with the table.

    `sums` are what rules want protected besides. The cells of two divisions (tables over different variables, or an
    earlier release) give the small cuts of a graph, which are listed completely (`slivers`): all groups of fewer
    respondents than `Rule.few` that no smaller one is in. Rules on contributions also judge larger groups that two
    codes have in common and that follow alone. With three and more divisions elimination over all published columns
    decides what combinations consist of small pieces only. Needs the records: of ready-made linked tables nobody can
    tell how many people have two codes at once.
    """
    search = _Search.of(cells, rules)
    parts, judged, complete, tried = [on_all_tables(cells, one) for one in sums], 0, True, True
    if search is not None:
        found, judged, complete, tried = search.run()
        parts.append(found)
    if not judged and not any(map(len, parts)):
        return replace(cells, differences=None)
    return replace(cells, differences=Differences(Forms.stack(parts), judged, complete, tried))


@dataclass(frozen=True, eq=False)
class _Search:
    """The inner cells of all tables together, who is in them, and the divisions that cut across each other."""

    cells: Cells
    rules: tuple[Rule, ...]
    source: Contributions
    own: Ints
    divisions: tuple[Division, ...]
    weight: Ints
    """(inner cells,) respondents × SCALE, at most"""
    few: int
    """differences of fewer respondents are judged"""

    @classmethod
    def of(cls, cells: Cells, rules: Sequence[Rule]) -> _Search | None:
        """Give nothing where no difference can be smaller than a published cell, or nobody knows who is in it."""
        judging = tuple(rule for rule in rules if rule.few() > 0)
        source = cells.source if cells.beside is None else cells.beside.source
        if not judging or source is None or (cells.beside is None and (cells.inner_cell >= 0).all()):
            return None
        own = np.arange(len(cells.inner_codes)) if cells.beside is None else cells.beside.own
        divisions = [_own_division(cells, table, own) for table in cells.tables]
        divisions += [] if cells.beside is None else cells.beside.divisions
        weight = _weights(source, cells.active, len(own))
        few = max(rule.few() for rule in judging)
        return cls(cells, judging, source, own, tuple(divisions), weight, few)

    def run(self) -> tuple[Forms, int, bool, bool]:
        """Give the sensitive differences, how many were judged, and whether these were all: of two tables, of more."""
        candidates = _Candidates(len(self.own))
        complete = tried = True
        for one, other in combinations(self.divisions, 2):
            complete &= self._cross(one, other, candidates)
        if len(self.divisions) > 2:
            tried = self._eliminate(candidates)
        for rows in () if self.cells.beside is None else self.cells.beside.hidden:
            candidates.add(rows, told=True)
        return *self._judged(candidates), complete, tried

    def _cross(self, one: Division, other: Division, candidates: _Candidates) -> bool:
        """Add the small differences of two divisions."""
        counted = (one.codes[:, 0] >= 0) | (other.codes[:, 0] >= 0)
        inside = np.flatnonzero(counted & (self.weight > 0))
        common = _common(one, other)
        left = [j for j in range(len(one.dims)) if j not in dict(common)]
        right = [j for j in range(len(other.dims)) if j not in dict(common).values()]
        a, b = _group(one.codes[inside][:, left], one, inside), _group(other.codes[inside][:, right], other, inside)
        if not (left and right) and (a >= 0).all() and (b >= 0).all():
            return True  # one table shows everything that the other does
        layer, at = _layers(one, other, common, inside)
        first, second = _numbered(layer, a[at]), _numbered(layer, b[at])
        nodes = int(first.max(initial=0)) + 1
        second = np.where(second > 0, second + nodes - 1, 0)
        total = int(second.max(initial=0)) + 1
        pieces, piece = np.unique(np.column_stack((first, second)), axis=0, return_inverse=True)
        piece = piece.ravel()
        weight = np.bincount(piece, self.weight[inside][at], len(pieces)).astype(np.int64)
        order = np.argsort(piece, kind="stable")
        members = np.split(inside[at][order], np.cumsum(np.bincount(piece, minlength=len(pieces)))[:-1])
        new = np.flatnonzero(~_published(pieces, max(total, nodes)))
        ends = max(total, nodes), pieces[new, 0], pieces[new, 1]
        found = bonds(*ends, weight[new], self.few * SCALE)
        for cut, side in zip(found.edges, found.sides, strict=True):
            if side.all() or not side.any():
                candidates.add(np.concatenate([members[edge] for edge in new[cut]]), told=True)
            else:
                for edge in new[cut].tolist():
                    candidates.add(members[edge], told=False)
        if not any(rule.top_needed() for rule in self.rules):
            return found.complete
        alone = bonds(*ends, np.ones(len(new), np.int64), 2)
        for cut in alone.edges:
            candidates.add(members[new[cut[0]]], told=True)
        return found.complete and alone.complete

    def _eliminate(self, candidates: _Candidates) -> bool:
        """Add what all divisions together give: combinations of published cells that consist of small pieces only.

        Tell whether all were tried.
        """
        pieces, weight, columns = self._pieces()
        small = (weight > 0) & (weight < self.few * SCALE)
        members = [np.flatnonzero(pieces == number) for number in np.flatnonzero(small).tolist()]
        if columns.shape[0] * columns.shape[0] * columns.shape[1] > LARGEST:
            for piece in members:
                candidates.add(piece, told=False)
            return False
        weight, limit = weight[small], self.few * SCALE
        found = combinations_of(columns.toarray().astype(np.int64), small)
        groups, tried = groups_of(found, weight, limit)
        for group in groups:
            candidates.add(np.concatenate([members[i] for i in group]), told=True)
        for combination in found:
            for i in combination:
                candidates.add(members[i], told=False)
        return tried

    def _pieces(self) -> tuple[Ints, Ints, Matrix]:
        """Give the piece (finest group that any table tells apart) of each inner cell, its weight, and all columns."""
        from scipy.sparse import csr_array, vstack

        keys = [_group(division.codes, division, np.arange(len(self.own))) for division in self.divisions]
        _, pieces = np.unique(np.column_stack(keys), axis=0, return_inverse=True)
        pieces = pieces.ravel()
        count = int(pieces.max()) + 1
        weight = np.bincount(pieces, self.weight, count).astype(np.int64)
        first = np.unique(pieces, return_index=True)[1]
        rows = []
        for key in keys:
            there = np.flatnonzero(key[first] >= 0)
            rows.append(csr_array((np.ones(len(there)), (key[first][there], there)), shape=(int(key.max()) + 1, count)))
        return pieces, weight, vstack(rows).tocsr()

    def _judged(self, candidates: _Candidates) -> tuple[Forms, int]:
        """Let the rules judge the differences; pieces of others must only not be found exactly."""
        from discretion.tables.audit import added_up

        shown = {row.tobytes() for row in self._shown()}
        kept = [(rows, told) for rows, told in candidates.listed() if rows.tobytes() not in shown]
        if not kept:
            return Forms.none(len(self.own)), 0
        members = _matrix([rows for rows, _ in kept], len(self.own))
        base = replace(self.cells, source=self.source)
        table = added_up(base, members).apply_rules(self.rules)
        place = table.find(table.dims[0].find([str(i) for i in range(len(kept))]).reshape(-1, 1))
        sensitive = np.flatnonzero((place >= 0) & table.primary[place])
        told = np.array([kept[i][1] for i in sensitive], np.bool_)
        return (
            Forms(
                members[sensitive],
                np.where(told, table.lower_required[place[sensitive]], 0.0),
                np.where(told, table.upper_required[place[sensitive]], 0.0),
                np.zeros(len(sensitive), np.bool_),
                tuple(self._label(kept[i][0]) for i in sensitive.tolist()),
            ),
            len(kept),
        )

    def _shown(self) -> Iterator[Ints]:
        """Give the inner cells of every cell that is or was published: rules or an earlier office judged those."""
        from discretion.tables.previous import widened

        members = widened(replace(self.cells, differences=None)).x.transposed
        yield from (np.asarray(members.row(number), np.int64) for number in range(members.shape[0]))

    def _label(self, rows: Ints) -> str:
        """Name a group by the codes its people have in all divisions."""
        texts = []
        for inner in rows[: _NAMED + 1].tolist():
            codes: dict[str, None] = {}
            for number, division in enumerate(self.divisions):
                then = " earlier" if number >= len(self.cells.tables) else ""
                for dim, code in zip(division.dims, division.codes[inner].tolist(), strict=True):
                    if code >= 0:
                        codes[f"{dim.name}={dim.codes[code]}{then}"] = None
            texts.append(", ".join(codes))
        return " + ".join(texts[:_NAMED]) + (" + …" if len(texts) > _NAMED else "")


class _Candidates:
    """Groups of inner cells, each once; one that is told stays so."""

    def __init__(self, n: int) -> None:
        self.n = n
        self._found: dict[bytes, bool] = {}

    def add(self, rows: Ints, *, told: bool) -> None:
        key = np.unique(rows).astype(np.int64).tobytes()
        self._found[key] = told or self._found.get(key, False)

    def listed(self) -> list[tuple[Ints, bool]]:
        return [(np.frombuffer(key, np.int64), told) for key, told in self._found.items()]


def _matrix(rows: Sequence[Ints], n: int) -> Matrix:
    from scipy.sparse import csr_array

    columns = np.concatenate(rows)
    return csr_array(
        (np.ones(len(columns)), columns, np.r_[0, np.cumsum([len(r) for r in rows])]), shape=(len(rows), n)
    )


def _own_division(cells: Cells, table: Sequence[str], own: Ints) -> Division:
    places = [cells.dim(name) for name in table]
    codes = np.where((own >= 0)[:, None], cells.inner_codes[own][:, places], -1)
    return Division(tuple(cells.dims[j] for j in places), codes.astype(np.int64))


def _weights(source: Contributions, response: int, n: int) -> Ints:
    there = ~np.isnan(source.x[:, response])
    who = source.contributor[there]
    share = np.maximum(SCALE // np.bincount(who)[who], 1) if len(who) else np.zeros(0)
    return np.bincount(source.inner[there], share, n).astype(np.int64)


def _common(one: Division, other: Division) -> list[tuple[int, int]]:
    """Pair the variables that both tables have, with the same codes for everybody."""
    both = (one.codes[:, 0] >= 0) & (other.codes[:, 0] >= 0)
    pairs = []
    for i, dim in enumerate(one.dims):
        for j, twin in enumerate(other.dims):
            same = dim.name == twin.name and dim.codes == twin.codes
            if same and np.array_equal(one.codes[both, i], other.codes[both, j]):
                pairs.append((i, j))
    return pairs


def _published(pieces: Ints, nodes: int) -> Bools:
    """Tell which pieces are all there is of a code: the table shows them, and the rules have judged them."""
    single = np.bincount(pieces.ravel(), minlength=nodes) == 1
    single[0] = False  # nobody's code
    found: Bools = single[pieces].any(axis=1)
    return found


def _group(codes: Ints, division: Division, inside: Ints) -> Ints:
    """Number combinations of codes; −1 for people whom the table does not count."""
    absent = division.codes[inside][:, 0] < 0
    number = np.unique(codes, axis=0, return_inverse=True)[1].ravel() if codes.shape[1] else np.zeros(len(codes))
    return np.where(absent, -1, number).astype(np.int64)


def _layers(one: Division, other: Division, common: Sequence[tuple[int, int]], inside: Ints) -> tuple[Ints, Ints]:
    """Give for every code (also groups and totals) of the common variables a layer, and who is in it (places)."""
    leaf = [
        np.where(one.codes[inside, i] >= 0, one.codes[inside, i], other.codes[inside, j]).astype(np.int64)
        for i, j in common
    ]
    above = [one.dims[i].ancestors[codes] for (i, _), codes in zip(common, leaf, strict=True)]
    keys, places = [], []
    for slots in product(*(range(table.shape[1]) for table in above)):
        codes = np.column_stack([np.zeros(len(inside)), *(t[:, s] for t, s in zip(above, slots, strict=True))])
        there = np.flatnonzero((codes >= 0).all(axis=1))
        keys.append(codes[there].astype(np.int64))
        places.append(there)
    rows = np.concatenate(keys)
    number = row_keys(rows, [1, *(len(one.dims[i]) for i, _ in common)])
    layer = np.unique(number, return_inverse=True)[1].ravel()
    return layer, np.concatenate(places)


def _numbered(layer: Ints, group: Ints) -> Ints:
    """Number the codes of a table in each layer from 1; 0 stands for nobody's code: people it does not count."""
    found = np.zeros(len(layer), np.int64)
    there = group >= 0
    pairs = np.column_stack((layer[there], group[there]))
    found[there] = np.unique(pairs, axis=0, return_inverse=True)[1].ravel() + 1 if len(pairs) else 0
    return found


def combinations_of(columns: Any, small: Bools) -> list[dict[int, int]]:
    """Give combinations of rows that are 0 outside the small places: a basis of them, each of least support.

    For each its entries (modulo `PRIME`) at the places among the small ones; where the first entry of one is (1), all
    others have 0. None means that no combination at all consists of small places only. Exact modulo a prime of 31
    bits: minors of tables are far smaller whole numbers. Time O(rows² · places).
    """
    order = np.r_[np.flatnonzero(~small), np.flatnonzero(small)]
    a = columns[:, order] % PRIME
    big, row = int((~small).sum()), 0
    begin = None
    for place in range(a.shape[1]):
        if place == big:
            begin = row
        hit = np.flatnonzero(a[row:, place])
        if not len(hit):
            continue
        pivot = row + int(hit[0])
        a[[row, pivot]] = a[[pivot, row]]
        a[row] = a[row] * pow(int(a[row, place]), -1, PRIME) % PRIME
        others = np.flatnonzero(a[:, place])
        others = others[(others > row) | (others >= (row if begin is None else begin))]
        others = others[others != row]
        a[others] = (a[others] - a[others, place][:, None] * a[row][None, :]) % PRIME
        row += 1
        if row == len(a):
            break
    first = row if begin is None else begin
    return [{int(i): int(line[i]) for i in np.flatnonzero(line)} for line in a[first:row, big:]]


def groups_of(
    combinations: Sequence[dict[int, int]], weight: Ints, limit: int, most: int = JOINED
) -> tuple[list[list[int]], bool]:
    """Give groups of places below a limit whose sum is a sum of combinations, and whether all of them were found.

    All in which no smaller one is. Those of up to four places are found by pairs, in time O(places² log places); if
    larger ones can be below the limit, sums of combinations that have places in common are tried, at most `most`.
    """
    places = np.array(sorted({place for one in combinations for place in one if weight[place] < limit}), np.int64)
    if len(places) > _PAIRED:
        return _sums_of(combinations, weight, limit, most)
    groups = _small_groups(places, _marks(combinations, places), weight[places], limit)
    if int(np.sort(weight[places])[: _SMALL + 1].sum()) >= limit or len(places) <= _SMALL:
        return groups, True
    larger, tried = _sums_of(combinations, weight, limit, most)
    return groups + [group for group in larger if len(group) > _SMALL], tried


def _marks(combinations: Sequence[dict[int, int]], places: Ints) -> Ints:
    """Give places numbers that add up to 0 (modulo `PRIME`) over a group that is a sum of combinations.

    Others do by chance once in 2⁶² times: there are two numbers, with random factors.
    """
    factor = np.random.default_rng(PRIME).integers(1, PRIME, (1 + max(map(max, combinations), default=0), 2))
    marks = factor.copy()
    for one in combinations:  # whoever takes the first place has to take the others as often as it says
        first, *others = one.items()
        total = [sum(int(factor[place, side]) * value for place, value in others) for side in (0, 1)]
        marks[first[0]] = [-x % PRIME for x in total]
    return marks[places]


def _small_groups(places: Ints, marks: Ints, weight: Ints, limit: int) -> list[list[int]]:
    """List the groups of up to four places whose marks add up to 0, and in which no smaller one does."""
    alone = ~marks.any(axis=1)
    found = [[place] for place in places[alone].tolist()]
    places, marks, weight = places[~alone], marks[~alone], weight[~alone]
    one, other = np.triu_indices(len(places), 1)
    light = weight[one] + weight[other] < limit
    one, other = one[light], other[light]
    sums, load = (marks[one] + marks[other]) % PRIME, weight[one] + weight[other]
    pair = ~sums.any(axis=1)
    found += np.column_stack((places[one[pair]], places[other[pair]])).tolist()
    pairs = np.column_stack((one, other))[~pair]
    sums, load = sums[~pair], load[~pair]
    groups = set()
    for members, asked, heavy in ((np.arange(len(places))[:, None], marks, weight), (pairs, sums, load)):
        for i, j in _adding_up(sums, asked):
            group = frozenset((*pairs[i].tolist(), *members[j].tolist()))
            if len(group) == 2 + members.shape[1] and load[i] + heavy[j] < limit:
                groups.add(group)
    return found + [sorted(places[list(group)].tolist()) for group in groups]


def _adding_up(sums: Ints, asked: Ints) -> Iterator[tuple[int, int]]:
    """Yield the pairs of rows of two matrices that add up to 0 modulo `PRIME`."""
    order = np.lexsort(sums.T[::-1])
    wanted = -asked % PRIME
    key, wanted_key = (x[:, 0] * PRIME + x[:, 1] for x in (sums[order], wanted))
    first, last = (np.searchsorted(key, wanted_key, side) for side in ("left", "right"))
    for j in np.flatnonzero(last > first).tolist():
        for at in range(int(first[j]), int(last[j])):
            yield int(order[at]), j


def _sums_of(
    combinations: Sequence[dict[int, int]], weight: Ints, limit: int, most: int
) -> tuple[list[list[int]], bool]:
    """Try sums of combinations that have places in common; tell whether all below the limit were tried.

    A sum of 0 and 1 has every combination once or not at all, as each alone has its first place.
    """
    first = [next(iter(one)) for one in combinations]
    holding: dict[int, list[int]] = {}
    for number, one in enumerate(combinations):
        for place in one:
            holding.setdefault(place, []).append(number)
    near = [sorted({other for place in one for other in holding[place]}) for one in combinations]
    found: list[list[int]] = []
    for root in range(len(combinations)):
        waiting: list[tuple[dict[int, int], int, list[int], set[int]]] = [({}, 0, [root], {root})]
        while waiting:
            entries, load, choices, seen = waiting.pop()
            while choices:
                number = choices.pop()
                more = load + int(weight[first[number]])
                if more >= limit:
                    continue
                if (most := most - 1) < 0:
                    return found, False
                total = dict(entries)
                for place, value in combinations[number].items():
                    total[place] = (total.get(place, 0) + value) % PRIME
                support = [place for place, value in total.items() if value]
                if all(total[place] == 1 for place in support) and int(weight[support].sum()) < limit:
                    found.append(support)
                new = [other for other in near[number] if other > root and other not in seen]
                waiting.append((total, more, choices + new, seen | set(new)))
    return found, True
