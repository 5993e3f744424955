"""Sizes and overlaps of query sets."""

from __future__ import annotations

import numpy as np
import pytest

from discretion.online.audit.history import AnsweredSets, overlap_within, size_problem


@pytest.mark.parametrize(
    ("inside", "people", "least", "fine"),
    [(5, 20, 5, True), (4, 20, 5, False), (15, 20, 5, True), (16, 20, 5, False), (20, 20, 5, True), (0, 20, 5, True),
     (19, 20, 5, False), (1, 2, 1, True)],
)  # fmt: skip
def test_sizes(inside: int, people: int, least: int, fine: bool) -> None:
    assert (size_problem(inside, people, least) is None) == fine


def test_overlaps_against_plain_sets() -> None:
    rng, answered, plain = np.random.default_rng(1), AnsweredSets(), []
    for step in range(60):
        records = 100 + 3 * step
        members = np.flatnonzero(rng.random(records) < 0.3)
        naive = max((len(set(members) & earlier) for earlier in plain), default=0)
        assert answered.largest_overlap(members, records) == naive
        answered.add(members, records)
        plain.append(set(members))
        assert answered.largest_overlap(members, records) == 0  # the same again
    assert answered.count == 60


def test_overlap_inside_one_question() -> None:
    assert overlap_within([np.array([0, 1, 2]), np.array([3, 4])], 5) == 0
    assert overlap_within([np.array([0, 1, 2]), np.array([1, 2, 3])], 5) == 2
