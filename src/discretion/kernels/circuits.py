"""Few deviations that cancel out in every sum: proofs of room that need no linear program."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Ints, Ints32
from discretion.kernels.jit import helper, kernel, lean_kernel

INSIDE, OUTSIDE = 1, 2
"""What `state` says of nodes that are held on one side."""


@lean_kernel
def cut_below(start: Ints, arcs: Ints, head: Ints, room: Ints, state: Ints, limit: int, via: Ints, queue: Ints) -> int:
    """Give the least weight of edges that part the inside from the outside, or `limit` if it is not below.

    Node u has the arcs `arcs[start[u]:start[u + 1]]`; arcs 2e and 2e + 1 are the two directions of edge e, `head` says
    where they lead, `room` what still fits (both weights at first; changed here). `via` and `queue` are one entry per
    node each, written here: afterwards `via` is −1 for the nodes that are on the far side of a least cut.
    """
    flow = 0
    while True:
        count = 0
        for u in range(len(state)):
            via[u] = -1
            if state[u] == INSIDE:
                via[u] = -2
                queue[count] = u
                count += 1
        end, done = -1, 0
        while done < count and end < 0:
            u = queue[done]
            done += 1
            for place in range(start[u], start[u + 1]):
                arc = arcs[place]
                v = head[arc]
                if room[arc] > 0 and via[v] == -1:
                    via[v] = arc
                    if state[v] == OUTSIDE:
                        end = v
                        break
                    queue[count] = v
                    count += 1
        if end < 0:
            return flow
        least, v = limit - flow, end
        while via[v] >= 0:
            least = min(least, room[via[v]])
            v = head[via[v] ^ 1]
        v = end
        while via[v] >= 0:
            room[via[v]] -= least
            room[via[v] ^ 1] += least
            v = head[via[v] ^ 1]
        flow += least
        if flow >= limit:
            return limit


LENGTHS = (8, 12, 16)
"""Deviations of one circuit at most, in turn; a cube, the commonest one in a table of three variables, has eight."""
BUDGET = 10_000
"""Steps of the search for one circuit."""
WIDE = 5
"""Sums that one more deviation is expected to even out at most; searches that need more are given up."""
STARTS = 8
"""Unknowns of a sum with which a circuit may begin."""

Lists = tuple[Ints, Ints32]
"""Lists of numbers: where each begins, and all of them."""


class Net(NamedTuple):
    """Unknowns, the sums they are in (all with weight 1), and how far each may deviate.

    Those who know an unknown are its owners; where nobody does the list is empty.
    """

    sums_start: Ints
    sums: Ints32
    """for each unknown the sums it is in"""
    parts_start: Ints
    parts: Ints32
    """for each sum its unknowns, in the order in which they are tried"""
    fall: Floats
    """how far each may fall in a table that is possible for whoever does not know it"""
    rise: Floats
    owners_start: Ints
    owners: Ints32


class _Search(NamedTuple):
    """Scratch of the search; `deepest` is the longest circuit."""

    chosen: Ints
    """(deepest) unknowns that deviate"""
    sign: Ints
    row: Ints
    """(deepest) the sum that each was chosen to even out"""
    tried: Ints
    """(deepest) the place in that sum"""
    first: Ints32
    """owners who know something in the first circuit, each once for every unknown"""
    used: Bools
    """(unknowns) those in the circuit"""
    inside: Bools
    """(unknowns) those of the sum that must deviate: one of them only"""
    blocked: Bools
    """(owners) whose unknowns must not deviate"""
    off: Ints
    """(sums) what they deviate by"""


def certified(
    net: Net, targets: Lists, need: Floats, alone: Bools, own_fall: Floats, directions: Ints, apart: int, people: int
) -> Bools:
    """Tell which targets are shown to deviate by what they need, whatever up to `apart − 1` owners together know.

    A target is a sum of unknowns, which must deviate by `need` in its direction (1 or −1). A circuit moves few unknowns
    by the same amount up or down so that all sums stay as they are. One of which nobody knows anything proves the
    target for all; so do `apart` circuits of which no two have an owner in common, as fewer owners leave one of them
    possible; and against single owners (`apart` 2) one circuit with another for each of its owners that is without
    this one. A target that is nothing but one unknown (`alone`) is not kept from falling by those who know a part of
    it, only by `own_fall`, and its own owners do not count. Exact: a sum has as many deviations up as down. A target
    that is not certified may still have room.
    """
    n, deepest = len(net.fall), LENGTHS[-1]
    search = _Search(
        chosen=np.zeros(deepest, np.int64),
        sign=np.zeros(deepest, np.int64),
        row=np.zeros(deepest, np.int64),
        tried=np.zeros(deepest, np.int64),
        first=np.zeros(deepest * (int(np.diff(net.owners_start).max(initial=0)) + 1), np.int32),
        used=np.zeros(n, np.bool_),
        inside=np.zeros(n, np.bool_),
        blocked=np.zeros(people, np.bool_),
        off=np.zeros(len(net.parts_start) - 1, np.int64),
    )
    found = np.zeros(len(need), np.bool_)
    _certify_all(net, search, targets[0], targets[1], need, alone, own_fall, directions, apart, found)
    return found


@kernel
def _certify_all(
    net: Net,
    s: _Search,
    start: Ints,
    members: Ints32,
    need: Floats,
    alone: Bools,
    own_fall: Floats,
    directions: Ints,
    apart: int,
    found: Bools,
) -> None:
    for t in range(len(need)):
        first, last = start[t], start[t + 1]
        for i in range(first, last):
            s.inside[members[i]] = True
        own = own_fall[members[first]] if first < last else 0.0
        found[t] = _certify(net, s, members, first, last, directions[t], need[t], own, alone[t], apart)
        for i in range(first, last):
            s.inside[members[i]] = False


@helper
def _certify(
    net: Net,
    s: _Search,
    members: Ints32,
    first: int,
    last: int,
    direction: int,
    need: float,
    own_fall: float,
    alone: bool,
    apart: int,
) -> bool:
    """Look for circuits that together prove a target."""
    s.blocked[:] = False
    people = 0
    for circuits in range(apart):
        known = _begun(net, s, members, first, last, direction, need, own_fall, alone, people if circuits == 0 else -1)
        if known == 0:
            return True
        if known < 0 and (circuits == 0 or apart > 2):
            return False
        if circuits == 0:
            people = known
        elif known > 0:
            continue
        else:
            for i in range(people):
                s.blocked[:] = False
                s.blocked[s.first[i]] = True
                if _begun(net, s, members, first, last, direction, need, own_fall, alone, -1) < 0:
                    return False
    return True


@helper
def _begun(
    net: Net,
    s: _Search,
    members: Ints32,
    first: int,
    last: int,
    direction: int,
    need: float,
    own_fall: float,
    alone: bool,
    noted: int,
) -> int:
    """Find a circuit that begins with one of the unknowns of a target, and block those who know something in it.

    Gives how many times somebody does (they are listed where `noted` is 0), −1 where there was no circuit.
    """
    for i in range(first, min(last, first + STARTS)):
        start = members[i]
        limit = own_fall if alone else net.fall[start]
        size = 0
        if (direction < 0 and limit >= need) or (direction > 0 and net.rise[start] >= need):
            free = True
            for j in range(net.owners_start[start], net.owners_start[start + 1]):
                free = free and (alone or not s.blocked[net.owners[j]])
            for length in LENGTHS:
                if free and size == 0:
                    size = _circuit(net, s, start, direction, need, length)
        if size == 0:
            continue
        known = 0
        for k in range(1 if alone else 0, size):
            for j in range(net.owners_start[s.chosen[k]], net.owners_start[s.chosen[k] + 1]):
                s.blocked[net.owners[j]] = True
                if noted == 0:
                    s.first[known] = net.owners[j]
                known += 1
        return known
    return -1


@helper
def _circuit(  # noqa: PLR0912, PLR0915 - a search with its own stack
    net: Net, s: _Search, start: int, direction: int, need: float, length: int
) -> int:
    """Find a circuit of limited length in which an unknown deviates; give how many unknowns do, 0 for none found."""
    sums_start, sums, parts_start, parts = net.sums_start, net.sums, net.parts_start, net.parts
    fall, rise, owners_start, owners = net.fall, net.rise, net.owners_start, net.owners
    chosen, sign, row_at, tried = s.chosen, s.sign, s.row, s.tried
    used, inside, blocked, off = s.used, s.inside, s.blocked, s.off
    depth, uneven, steps, size = 1, 0, 0, 0
    chosen[0], sign[0] = start, direction
    used[start] = True
    for j in range(sums_start[start], sums_start[start + 1]):
        off[sums[j]] = direction
        uneven += 1
    forward = True
    while True:
        if forward:
            if uneven == 0:
                size = depth
                break
            fewest, at = 1 << 40, -1
            if depth < length and uneven <= WIDE * (length - depth):
                for i in range(depth):
                    for j in range(sums_start[chosen[i]], sums_start[chosen[i] + 1]):
                        row = sums[j]
                        if off[row] != 0 and parts_start[row + 1] - parts_start[row] < fewest:
                            fewest, at = parts_start[row + 1] - parts_start[row], row
            if at < 0:
                forward = False
                continue
            row_at[depth], tried[depth] = at, parts_start[at]
        else:
            depth -= 1
            if depth == 0:
                break
            last = chosen[depth]
            used[last] = False
            for j in range(sums_start[last], sums_start[last + 1]):
                uneven -= off[sums[j]] != 0
                off[sums[j]] -= sign[depth]
                uneven += off[sums[j]] != 0
        at = row_at[depth]
        way = -1 if off[at] > 0 else 1
        new = -1
        while new < 0 and tried[depth] < parts_start[at + 1] and steps < BUDGET:
            unknown = parts[tried[depth]]
            tried[depth] += 1
            steps += 1
            if used[unknown] or inside[unknown]:
                continue
            if (way < 0 and fall[unknown] < need) or (way > 0 and rise[unknown] < need):
                continue
            new = unknown
            for j in range(owners_start[unknown], owners_start[unknown + 1]):
                if blocked[owners[j]]:
                    new = -1
        forward = new >= 0
        if forward:
            chosen[depth], sign[depth] = new, way
            used[new] = True
            for j in range(sums_start[new], sums_start[new + 1]):
                uneven -= off[sums[j]] != 0
                off[sums[j]] += way
                uneven += off[sums[j]] != 0
            depth += 1
    for i in range(max(depth, 1)):
        used[chosen[i]] = False
        for j in range(sums_start[chosen[i]], sums_start[chosen[i] + 1]):
            off[sums[j]] = 0
    return size
