"""What `monotone` and `monotone_without_suppression` claim, on random tables and random merges of their classes."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.privacy.class_table import ClassModel, ClassTable, SensitiveCounts, SensitiveDomain

PARENTS = (np.array([0, 0, 1, 1]), np.array([0, 0, 0, 0]))
PEOPLE = "people"


def table(counts: np.ndarray, people: np.ndarray) -> ClassTable:
    """Make a table from a matrix of counts, classes by values."""
    used = counts.sum(axis=0) > 0
    kept = counts[:, used]
    owner, value = np.nonzero(kept)
    starts = np.searchsorted(owner, np.arange(len(kept) + 1))
    parents = tuple(np.unique(level[used], return_inverse=True)[1] for level in PARENTS)
    domain = SensitiveDomain("s", kept.sum(axis=0), parents)
    sensitive = {"s": SensitiveCounts(domain, starts, value, kept[owner, value])}
    sizes = counts.sum(axis=1)
    return ClassTable(sizes, MappingProxyType(sensitive), MappingProxyType({PEOPLE: sizes + people}))


COUNTS = st.lists(
    st.tuples(*[st.integers(0, 4)] * 4, st.integers(0, 6)).filter(lambda row: sum(row[:4]) > 0), min_size=1, max_size=6
)
MODELS: list[ClassModel] = [
    dc.KAnonymity(k=3),
    dc.DistinctLDiversity(l=2),
    dc.PSensitive(p=2, k=4),
    dc.KMap(k=5, population=PEOPLE),
    dc.KMap(k=9, population_size=1000),
    dc.EntropyLDiversity(l=1.7),
    dc.RecursiveLDiversity(c=2, l=2),
    dc.RecursiveLDiversity(c=1.2, l=3),
    dc.TCloseness(t=0.3),
    dc.TCloseness(t=0.3, distance="equal"),
    dc.TCloseness(t=0.3, distance="hierarchical"),
    dc.BetaLikeness(beta=0.8, enhanced=False),
    dc.BetaLikeness(beta=0.8),
    dc.DeltaDisclosure(delta=1.5),
    dc.AlphaK(alpha=0.6, k=2),
    dc.DeltaPresence(delta_min=0.2, delta_max=0.7, population=PEOPLE),
    dc.AverageRisk(risk=0.3),
]
IDS = [f"{model.kind} {number}" for number, model in enumerate(MODELS)]


@pytest.mark.parametrize("model", MODELS, ids=IDS)
@given(rows=COUNTS, merge=st.lists(st.integers(0, 2), min_size=6, max_size=6))
@settings(max_examples=150, deadline=None)
def test_merging_classes(model: ClassModel, rows: list[tuple[int, ...]], merge: list[int]) -> None:
    counts, people = np.array(rows)[:, :4], np.array(rows)[:, 4]
    group = np.unique(np.array(merge[: len(rows)]), return_inverse=True)[1]
    merged = np.zeros((group.max() + 1, 4), dtype=np.int64)
    np.add.at(merged, group, counts)
    before = model.failing(table(counts, people))
    after = model.failing(table(merged, np.bincount(group, people).astype(np.int64)))
    if model.monotone:
        assert not (after[group] & ~before).any()
    if model.monotone_without_suppression and not before.any():
        assert not after.any()


def test_what_is_claimed() -> None:
    assert {model.kind for model in MODELS if model.monotone} == {
        "k-anonymity", "distinct-l-diversity", "p-sensitive", "k-map",
    }  # fmt: skip
    assert all(model.monotone_without_suppression for model in MODELS)
    assert not dc.PopulationUniquenessBound(share=0.1, population_size=10).monotone_without_suppression
    assert not dc.DeltaDisclosure(delta=1, absent="ignore").monotone_without_suppression


@pytest.mark.parametrize(
    "model", [m for m in MODELS if not m.monotone and m.kind != "average-risk"], ids=lambda m: m.kind
)
def test_merging_with_a_failing_class_can_hurt(model: ClassModel) -> None:
    """For each model that is not monotone, some class that passes fails after a merge."""
    rng = np.random.default_rng(1)
    for _ in range(20_000):
        counts, people = rng.integers(0, 6, (3, 4)) * rng.integers(0, 2, (3, 4)), rng.integers(0, 8, 3)
        if (counts.sum(axis=1) == 0).any():
            continue
        merged = np.array([counts[0] + counts[1], counts[2]])
        before = model.failing(table(counts, people))
        after = model.failing(table(merged, np.array([people[0] + people[1], people[2]])))
        if after[0] and not before[0]:
            return
    pytest.fail("no example found")
