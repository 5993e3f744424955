"""Models as tests of single classes decide as the models do, and never say that less can be kept than can."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import discretion as dc
from discretion.kernels.classes import ClassValues, judge_classes, make_work
from discretion.privacy.class_table import SensitiveCounts, SensitiveDomain, SensitiveModel, smallest_standing

NONE = np.empty(0, np.int64)
PARENTS = (np.array([0, 0, 1, 1]), np.array([0, 0, 0, 0]))
MODELS: list[SensitiveModel] = [
    *(
        dc.TCloseness(t=t, distance=distance)  # type: ignore[arg-type]
        for t in (0.0, 0.15, 0.3, 1.0)
        for distance in ("equal", "ordered", "hierarchical")
    ),
    *(dc.BetaLikeness(beta=beta, enhanced=enhanced) for beta in (0.3, 1.0, 5.0) for enhanced in (True, False)),
    *(dc.DeltaDisclosure(delta=delta, absent=absent) for delta in (0.7, 1.0, 2.0) for absent in ("fail", "ignore")),  # type: ignore[arg-type]
    *(dc.AlphaK(alpha=alpha, k=1) for alpha in (0.4, 0.5, 0.9)),
    *(dc.EntropyLDiversity(l=l) for l in (1.0, 2.0, 2.7, 4.0)),  # noqa: E741
    *(dc.RecursiveLDiversity(c=c, l=l) for c in (0.5, 1.0, 3.0) for l in (1, 2, 3)),  # noqa: E741
    dc.DistinctLDiversity(l=3),
    dc.PSensitive(p=2, k=1),
]


def counted(rows: np.ndarray, domain: SensitiveDomain) -> SensitiveCounts:
    owner, value = np.nonzero(rows)
    starts = np.searchsorted(owner, np.arange(len(rows) + 1))
    return SensitiveCounts(domain, starts, value, rows[owner, value])


def judged(model: SensitiveModel, rows: np.ndarray, domain: SensitiveDomain, *, dense: bool) -> tuple[np.ndarray, ...]:
    test = model.class_test(domain)
    assert test is not None
    triples = counted(rows, domain)
    table = np.hstack([np.full((len(rows), 2), 9), rows]).astype(np.int32)  # another column stands before it
    found = ClassValues(table, 2, NONE, NONE, NONE) if dense else ClassValues(
        np.empty((0, 0), np.int32), 0, triples.starts, triples.values, triples.counts
    )  # fmt: skip
    sizes = rows.sum(axis=1)
    gone, keep = np.zeros(len(rows), np.bool_), sizes.copy()
    lost, failed = judge_classes(test, found, make_work(test), sizes, 1, int(sizes.sum()), 0, gone, keep)
    assert failed == gone.sum() and lost == (sizes - keep).sum()
    return gone, keep


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_decisions_and_what_can_be_kept(model: SensitiveModel) -> None:
    rng = np.random.default_rng(0)
    for totals in ([6, 3, 9, 2], [5, 5, 5, 5], [1, 20, 1, 1]):
        domain = SensitiveDomain("illness", np.array(totals), PARENTS)
        rows = np.minimum(rng.integers(0, 6, (25, 4)), totals)
        rows[rows.sum(axis=1) == 0, 1] = 1
        sizes = rows.sum(axis=1)
        failing = model.failing_for(counted(rows, domain), sizes)
        everything = np.array([part for part in product(range(6), repeat=4) if any(part)])
        stands = everything[~model.failing_for(counted(everything, domain), everything.sum(axis=1))]
        most = np.array([stands[(stands <= row).all(axis=1)].sum(axis=1).max(initial=0) for row in rows])
        for dense in (True, False):
            gone, keep = judged(model, rows, domain, dense=dense)
            np.testing.assert_array_equal(gone, failing)
            assert (keep >= most).all()
            np.testing.assert_array_equal(keep[~failing], sizes[~failing])
        test = model.class_test(domain)
        assert test is not None
        assert stands.sum(axis=1).min(initial=99) >= min(smallest_standing(test), 99)


@pytest.mark.parametrize("model", [one for one in MODELS if one.monotone_without_suppression], ids=repr)
def test_unions_of_what_stands_stand(model: SensitiveModel) -> None:
    rng = np.random.default_rng(1)
    domain = SensitiveDomain("illness", np.array([6, 3, 9, 2]), PARENTS)
    rows = rng.integers(0, 7, (400, 4))
    rows[rows.sum(axis=1) == 0, 1] = 1
    stands = rows[~model.failing_for(counted(rows, domain), rows.sum(axis=1))]
    for _ in range(20):
        both = stands + stands[rng.permutation(len(stands))]
        assert not model.failing_for(counted(both, domain), both.sum(axis=1)).any()


def test_what_can_be_kept_is_the_root_of_the_inequality() -> None:
    """Shares of one half each and t = 0.1: of 8 and 2 records so many stand that 2 are at least 0.4 of them."""
    domain = SensitiveDomain("illness", np.array([50, 50]))
    _, keep = judged(dc.TCloseness(t=0.1, distance="equal"), np.array([[8, 2], [8, 0], [5, 5]]), domain, dense=True)
    assert keep.tolist() == [5, 0, 10]


def test_it_stops_when_enough_is_lost() -> None:
    domain = SensitiveDomain("illness", np.array([50, 50]))
    test = dc.DistinctLDiversity(l=2).class_test(domain)
    assert test is not None
    table = np.array([[4, 0], [0, 3], [2, 2], [5, 0]], np.int32)
    gone, keep = np.zeros(4, np.bool_), np.array([4, 3, 4, 5])
    lost, failed = judge_classes(
        test,
        ClassValues(table, 0, NONE, NONE, NONE),
        make_work(test),
        table.sum(axis=1).astype(np.int64),
        1,
        6,
        0,
        gone,
        keep,
    )
    assert (lost, failed, keep.tolist()) == (7, 2, [0, 0, 4, 5])


def test_counts_too_large_for_whole_numbers_have_no_test() -> None:
    domain = SensitiveDomain("illness", np.array([2**31, 2**31]))
    assert dc.TCloseness(t=0.1, distance="equal").class_test(domain) is None
