from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.privacy import km_anonymity

from . import naive

SETS = st.lists(st.sets(st.sampled_from("abcdef"), max_size=5), min_size=1, max_size=15)


@given(sets=SETS, m=st.integers(1, 4), k=st.integers(1, 4), chunk=st.sampled_from([1, 20, 1 << 23]))
@settings(max_examples=120, deadline=None)
def test_against_counting(sets: list[set[str]], m: int, k: int, chunk: int) -> None:
    frame = pl.DataFrame({"x": [sorted(items) for items in sets]}, schema={"x": pl.List(pl.String)})
    model = dc.KmAnonymity(k=k, m=m, columns=["x"])
    supports = naive.supports(sets, m)
    if not supports:
        with pytest.raises(dc.DataError, match="no items"):
            model(frame)
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(km_anonymity, "_CHUNK", chunk)
        verdict = model(frame)
    rare = {"|".join(items): support for items, support in supports.items() if support < k}
    assert verdict.value == min(supports.values())
    assert verdict.holds == (not rare)
    assert verdict.failing_count == len(rare)
    assert verdict.detail["combinations"] == len(supports)
    assert {item.key["x"]: item.size for item in verdict.failing[:100]} == dict(
        sorted(rare.items(), key=lambda pair: (pair[1], pair[0].count("|"), pair[0].split("|")))[:100]
    )
    hit = [any(set(key.split("|")) <= items for key in rare) for items in sets]
    assert verdict.failing_records == sum(hit)


def test_text_with_bars_lists_and_repeated_items_agree() -> None:
    lists = pl.DataFrame({"x": [["b", "a", "a"], ["a"], [], None, ["a", None]]})
    texts = pl.DataFrame({"x": ["b| a|a", "a", "", None, "a||"]})
    fixed = pl.DataFrame({"x": [["b", "a"], ["a", "a"], ["a", "a"]]}, schema={"x": pl.Array(pl.String, 2)})
    model = dc.KmAnonymity(k=2, m=2, columns=["x"])
    for frame in (lists, texts, fixed):
        verdict = model(frame)
        assert {item.key["x"]: item.size for item in verdict.failing} == {"b": 1, "a|b": 1}
        assert verdict.failing_records == 1
    assert model(lists).detail["records_without_items"] == 2


def test_the_only_set_valued_column_is_the_default() -> None:
    people = dc.datasets.census(300, seed=1)
    assert dc.KmAnonymity(k=2, m=1)(people).detail["columns"] == ["diagnoses"]
    with pytest.raises(dc.PlanError, match="one set-valued column is needed, found 0"):
        dc.KmAnonymity(k=2)(pl.DataFrame({"x": ["a"]}))
    with pytest.raises(dc.PlanError, match="found 2"):
        dc.KmAnonymity(k=2, columns=["x", "y"])(pl.DataFrame({"x": ["a"], "y": ["a"]}))


def test_a_hundred_thousand_records() -> None:
    rng = np.random.default_rng(1)
    n, size = 100_000, 5
    items = np.minimum((rng.pareto(0.8, (n, size)) * 3).astype(int), 499)
    frame = pl.DataFrame({"x": items}).select(pl.col("x").arr.to_list().cast(pl.List(pl.String)))
    model = dc.KmAnonymity(k=5, m=3, columns=["x"])
    verdict = model(frame)
    assert verdict.value == 1 and verdict.failing_count > 0
