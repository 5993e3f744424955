"""The weight of a small cut between two sets of nodes of a graph: augmenting paths, given up at a limit."""

from __future__ import annotations

from discretion.kernels.arrays import Ints
from discretion.kernels.jit import lean_kernel

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
