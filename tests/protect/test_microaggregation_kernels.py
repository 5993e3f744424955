"""The kernels of microaggregation against plain versions, on data full of ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discretion.kernels import mdav, microaggregate
from discretion.kernels.mdav import vmdav_groups
from discretion.kernels.microaggregate import (
    CATEGORY,
    NUMBER,
    RANK,
    MixedSpace,
    SetSpace,
    TextSpace,
    choose_one,
    cut_labels,
    fixed_bounds,
    group_members,
    group_values,
    groups_in,
    medoids,
    most_have,
)
from tests.protect import test_microaggregation_reference as reference
from tests.protect.test_microaggregation_reference import examples

KINDS = {"number": NUMBER, "ordinal": RANK, "nominal": CATEGORY}


@pytest.mark.parametrize("how", ["mean", "median", "low-median", "mode"])
@pytest.mark.parametrize("skip", [False, True])
def test_what_stands_for_a_group(how: str, skip: bool) -> None:
    rng = np.random.default_rng(1)
    x = np.where(rng.random(400) < 0.05, np.nan, rng.integers(0, 6, 400).astype(float))
    labels = rng.integers(-1, 90, 400)
    members = group_members(labels)
    got = group_values(x, members, how, skip_missing=skip)
    for g in range(members.n_groups):
        values = x[labels == g]
        assert members.order[members.starts[g] : members.starts[g + 1]].tolist() == np.flatnonzero(labels == g).tolist()
        present = values[~np.isnan(values)]
        if not present.size or (present.size < values.size and not skip):
            assert np.isnan(got[g])
        else:
            assert got[g] == pytest.approx(reference.stands_for(present.tolist(), how), rel=1e-15)


def test_equal_values_are_kept_exactly() -> None:
    assert group_values(np.full(7, 0.1), group_members(np.zeros(7, int)), "mean").tolist() == [0.1]


def test_wrong_labels_and_values_are_refused() -> None:
    with pytest.raises(ValueError, match="numbered from 0"):
        group_members(np.array([0, -2]))
    with pytest.raises(ValueError, match="2 rows but 3 values"):
        group_values(np.zeros(3), group_members(np.array([0, 0])), "mean")
    with pytest.raises(ValueError, match="needs k = 3"):
        fixed_bounds(2, 3)
    assert group_members(np.array([-1, -1])).n_groups == 0


def test_one_of_each_group_is_drawn_evenly() -> None:
    members = group_members(np.repeat(np.arange(30_000), 4))
    present = np.tile([True, False, True, True], 30_000)
    chosen = choose_one(members, present, np.random.default_rng(2))
    assert np.array_equal(members.labels[chosen], np.arange(30_000))
    counts = np.bincount(chosen % 4, minlength=4)
    assert counts[1] == 0
    assert np.abs(counts[[0, 2, 3]] - 10_000).max() < 5 * np.sqrt(30_000 * 2 / 9)
    assert choose_one(members, np.zeros(120_000, bool), np.random.default_rng(2)).max() == -1


@given(st.integers(1, 60), st.integers(1, 9))
def test_fixed_groups(n: int, k: int) -> None:
    k = min(n, k)
    sizes = np.diff(fixed_bounds(n, k))
    assert (sizes[:-1] == k).all() and k <= sizes[-1] < 2 * k and sizes.sum() == n
    assert np.array_equal(np.bincount(cut_labels(fixed_bounds(n, k), np.random.default_rng(n).permutation(n))), sizes)


@examples
@given(
    st.integers(1, 40), st.integers(1, 5), st.integers(0, 2**32),
    st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=4), st.sampled_from([0.0, 0.2, 0.7]),
)  # fmt: skip
def test_mixed_groups_equal_the_plain_algorithm(n: int, k: int, seed: int, kinds: list[str], missing: float) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, len(kinds)).tolist()
    x = np.array([rng.integers(0, 4 if kind == "number" else size, n) for kind, size in zip(kinds, sizes, strict=True)])
    x = np.where(rng.random(x.shape) < missing, np.nan, x.astype(float))
    k = min(k, n)
    space = MixedSpace(x, [KINDS[kind] for kind in kinds], sizes)
    got = groups_in(space, n, k)
    np.testing.assert_array_equal(got, reference.mdav(n, k, *reference.gower(x, kinds, sizes)))
    assert k <= np.bincount(got).min() and np.bincount(got).max() < 2 * k


@examples
@given(st.integers(1, 30), st.integers(1, 5), st.integers(0, 2**32))
def test_groups_of_sets_equal_the_plain_algorithm(n: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = min(k, n)
    sets = [set(rng.choice(5, rng.integers(0, 4), replace=False).tolist()) for _ in range(n)]
    starts = np.concatenate([[0], np.cumsum([len(s) for s in sets])]).astype(np.int64)
    items = np.array([item for s in sets for item in sorted(s)], dtype=np.int64)

    def distance(a: int, b: int) -> float:
        shares = np.isin(np.arange(5), sorted(sets[b])).astype(float)
        return to_shares(a, shares)

    def to_shares(row: int, shares: np.ndarray) -> float:
        both = sum(shares[item] for item in sorted(sets[row]))
        union = len(sets[row]) + shares.sum() - both
        return max(1.0 - both / union, 0.0) if union > 0 else 0.0

    def to_center(left: list[int], row: int) -> float:
        return to_shares(row, np.array([sum(item in sets[i] for i in left) / len(left) for item in range(5)]))

    labels = groups_in(SetSpace(starts, items, 5), n, k)
    np.testing.assert_array_equal(labels, reference.mdav(n, k, to_center, lambda one, other: distance(other, one)))
    members = group_members(labels)
    bounds, found = most_have(starts, items, 5, members.order, members.starts)
    for g in range(members.n_groups):
        inside = [sets[i] for i in np.flatnonzero(labels == g)]
        want = [item for item in range(5) if 2 * sum(item in s for s in inside) > len(inside)]
        assert found[bounds[g] : bounds[g + 1]].tolist() == want


@examples
@given(st.lists(st.text("abé", max_size=5), min_size=1, max_size=30), st.integers(1, 4))
def test_groups_of_texts_equal_the_plain_algorithm(texts: list[str], k: int) -> None:
    n, k = len(texts), min(k, len(texts))
    distinct = sorted(set(texts))
    thing = np.array([distinct.index(text) for text in texts])
    starts = np.concatenate([[0], np.cumsum([len(text) for text in distinct])]).astype(np.int64)
    letters = np.array([ord(letter) for text in distinct for letter in text], dtype=np.int32)

    def to_center(left: list[int], row: int) -> float:
        center = min(distinct, key=lambda text: (sum(reference.edit(text, texts[i]) for i in left), text))
        return reference.edit(center, texts[row])

    labels = groups_in(TextSpace(thing, starts, letters), n, k)
    want = reference.mdav(n, k, to_center, lambda one, other: reference.edit(texts[one], texts[other]))
    np.testing.assert_array_equal(labels, want)
    members = group_members(labels)
    chosen = medoids(thing, starts, letters, members.order, members.starts)
    for g, text in enumerate(chosen):
        inside = [texts[i] for i in np.flatnonzero(labels == g)]
        best = min(inside, key=lambda one: (sum(reference.edit(one, other) for other in inside), one))
        assert distinct[text] == best


@examples
@given(
    st.integers(1, 40), st.integers(1, 3), st.integers(1, 5), st.integers(1, 8),
    st.sampled_from([0.0, 0.2, 0.7, 1.1, 3.0]), st.integers(0, 2**32),
)  # fmt: skip
def test_vmdav_equals_the_plain_algorithm(n: int, d: int, k: int, width: int, gamma: float, seed: int) -> None:
    x = np.random.default_rng(seed).integers(0, width, (n, d)).astype(float)
    k = min(k, n)
    got = vmdav_groups(x, k, gamma)
    np.testing.assert_array_equal(got, reference.vmdav(x, k, gamma))
    sizes = np.bincount(got)
    assert sizes.min() >= k and sizes.max() < 2 * k


@pytest.mark.parametrize("gamma", [0.2, 1.1, 100.0])
def test_vmdav_on_many_leaves(gamma: float) -> None:
    x = np.random.default_rng(3).normal(size=(400, 2)).round(2)
    np.testing.assert_array_equal(vmdav_groups(x, 4, gamma), reference.vmdav(x, 4, gamma))


def test_wrong_input_is_refused() -> None:
    with pytest.raises(ValueError, match="needs k"):
        vmdav_groups(np.zeros((3, 1)), 4, 0.2)
    with pytest.raises(ValueError, match="needs k"):
        groups_in(MixedSpace([[1.0]], [0], [0]), 1, 2)
    with pytest.raises(ValueError, match="no columns"):
        vmdav_groups(np.zeros((3, 0)), 2, 0.2)


@pytest.mark.parametrize("kernel", ["plain", "variable"])
def test_progress_counts_up_and_may_cancel(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(microaggregate, "_REPORT_SECONDS", 0.0)
    monkeypatch.setattr(mdav, "_REPORT_SECONDS", 0.0)
    x = np.random.default_rng(6).normal(size=(2000, 3))

    def work(progress: object) -> None:
        if kernel == "plain":
            groups_in(MixedSpace(x.T, [NUMBER] * 3, [0] * 3), 2000, 5, progress)  # type: ignore[arg-type]
        else:
            vmdav_groups(x, 5, 0.2, progress)  # type: ignore[arg-type]

    calls: list[tuple[int, int, str]] = []
    work(lambda *call: calls.append(call))
    assert len(calls) > 50 and calls == sorted(calls) and calls[-1][1:] == (2000, "microaggregation")
    assert calls[-1][0] > 1990

    def cancel(*call: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work(cancel)
