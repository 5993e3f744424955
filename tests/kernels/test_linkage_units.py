from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion.kernels.linkage import ABSOLUTE, NOMINAL, SQUARED, Terms, build_tree, nearest_units, pair_costs


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    records=st.integers(1, 40),
    units=st.integers(1, 20),
    both=st.booleans(),
    equal=st.booleans(),
    gaps=st.sampled_from([0.0, 0.2]),
    bounded=st.booleans(),
    paired=st.sampled_from(["no", "changed", "equal"]),
)
def test_units_are_compared_with_units(
    seed: int, records: int, units: int, both: bool, equal: bool, gaps: float, bounded: bool, paired: str
) -> None:
    rng = np.random.default_rng(seed)
    known, published = (rng.integers(0, 3, (records, 3)).astype(float) for _ in range(2))
    published[rng.random(published.shape) < gaps] = np.nan
    known[:, :2][rng.random((records, 2)) < gaps] = np.nan
    mine, theirs = (rng.integers(0, units, records) for _ in range(2))
    own = None
    if paired != "no":  # each published record is somebody's, changed now and then
        order = rng.permutation(records)
        theirs, own = mine[order], np.argsort(order)
        published = np.where(rng.random(published.shape) < (0.0 if paired == "equal" else 0.1), published, known[order])
    low = np.where(rng.random((records, 3)) < 0.3, known - 1, -np.inf) if bounded else np.empty((0, 3))
    high = np.where(np.isfinite(low), known + 1, np.inf) if bounded else low
    bounds = ((low, -1), (high, 1))
    terms = Terms(
        np.array([SQUARED, ABSOLUTE, NOMINAL]), np.array([[1.0, 0.5, 1.0]]), np.array([0.5, 0.1, np.inf]),
        np.arange(3).reshape(3, 1), np.zeros(3, np.int64), *(np.where(np.isnan(x), s * np.inf, x) for x, s in bounds),
    )  # fmt: skip
    targets = np.unique(mine)
    tree = build_tree(published, terms.kinds, terms.scale[0])
    known_of_own: dict[str, Any] = {"own": own, "tree": tree} if own is not None else {}
    found = nearest_units(known, mine, published, theirs, terms, targets, both=both, equal=equal, **known_of_own)
    i, r = (x.ravel() for x in np.mgrid[:records, :records])
    rows = terms._replace(low=terms.low[i], high=terms.high[i]) if bounded else terms
    costs = pair_costs(known[i], published[r], rows).reshape(records, records)
    for number, target in enumerate(targets):
        sums = []
        for unit in range(units):
            table = costs[np.ix_(mine == target, theirs == unit)]
            people, rows_of = table.shape
            possible = rows_of and (not equal or people == rows_of) and (equal or both or rows_of >= people)
            total = table.min(axis=1).sum() + (table.min(axis=0).sum() if both else 0.0) if possible else np.inf
            sums.append(total)
        least = min(sums)
        assert found.distance[number] == pytest.approx(least)
        if np.isfinite(least):
            near = np.isclose(sums, least, rtol=1e-9, atol=1e-12)
            assert found.size[number] == near.sum()
            assert found.has_own[number] == near[target]
        else:
            assert not found.has_own[number]
