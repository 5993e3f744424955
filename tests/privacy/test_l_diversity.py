from __future__ import annotations

import math

import polars as pl
import pytest

import discretion as dc
from discretion import datasets


def test_catalogue_values() -> None:
    table = datasets.diverse_classes()
    assert dc.DistinctLDiversity(l=2)(table).value == 2
    entropy = dc.EntropyLDiversity(l=1.8)(table)
    assert entropy.value == pytest.approx(1.8899, abs=5e-5)
    assert entropy.detail["entropy_bits"] == pytest.approx(0.9183, abs=5e-5)
    writers = table.take((table.frame["occupation"] == "Writer").to_numpy())
    assert dc.EntropyLDiversity(l=3)(writers).detail["entropy_bits"] == pytest.approx(1.5850, abs=5e-5)
    assert dc.RecursiveLDiversity(c=3, l=2)(table).holds
    assert not dc.RecursiveLDiversity(c=2, l=2)(table).holds
    assert dc.RecursiveLDiversity(c=2, l=2)(table).value == 2


def test_homogeneity_attack() -> None:
    table = datasets.homogeneous_classes()
    assert dc.KAnonymity(k=3)(table).holds
    verdict = dc.DistinctLDiversity(l=2)(table)
    assert not verdict.holds
    assert [(item.key["zip"], item.size) for item in verdict.failing] == [("80100", 3)]
    assert verdict.detail["per_column"] == {"income": 1.0}


def test_entropy_that_is_exactly_log_l_passes() -> None:
    for l in (2, 3, 5, 7, 10, 100):  # noqa: E741
        frame = pl.DataFrame({"q": [0] * l * 3, "s": list(range(l)) * 3})
        assert dc.EntropyLDiversity(l=l, columns=["q"], sensitive=["s"])(frame).holds


def test_l_above_the_number_of_values_is_an_error_that_says_how_many() -> None:
    table = datasets.diverse_classes()
    for model in (
        dc.DistinctLDiversity(l=6),
        dc.EntropyLDiversity(l=5.5),
        dc.RecursiveLDiversity(c=1, l=6),
        dc.PSensitive(p=6, k=2),
    ):
        with pytest.raises(dc.PlanError, match=r"'income' has only 5 different values"):
            model(table)
    with pytest.raises(dc.PlanError, match="'income' has only 5 different values"):
        dc.AlphaK(alpha=0.1, k=2)(table)
    one = pl.DataFrame({"q": [1, 1], "s": [3, 3]})
    with pytest.raises(dc.PlanError, match="only 1 value in"):
        dc.DistinctLDiversity(l=2, columns=["q"], sensitive=["s"])(one)


def test_several_columns_must_all_hold() -> None:
    frame = pl.DataFrame({"q": [1, 1, 2, 2], "a": [1, 2, 3, 4], "b": ["x", "x", "x", "y"]})
    data = dc.Dataset(frame, roles={"q": "quasi", "a": "sensitive", "b": "sensitive"})
    verdict = dc.DistinctLDiversity(l=2)(data)
    assert verdict.detail["per_column"] == {"a": 2.0, "b": 1.0}
    assert (verdict.holds, verdict.value, verdict.failing_count, verdict.failing_records) == (False, 1, 1, 2)
    assert dc.DistinctLDiversity(l=2, sensitive=["a"])(data).holds


def test_recursive_with_too_few_values_is_infinitely_far() -> None:
    frame = pl.DataFrame({"q": [1, 1, 2, 2], "s": [1, 1, 1, 2]})
    verdict = dc.RecursiveLDiversity(c=3, l=2, columns=["q"], sensitive=["s"])(frame)
    assert math.isinf(verdict.value) and verdict.failing_count == 1


def test_smallest_class_guides_searches() -> None:
    assert dc.KAnonymity(k=4).smallest_class == 4
    assert dc.DistinctLDiversity(l=3).smallest_class == 3
    assert dc.EntropyLDiversity(l=2.5).smallest_class == 3
    assert dc.EntropyLDiversity(l=3).smallest_class == 3
    assert dc.RecursiveLDiversity(c=4, l=3).smallest_class == 3
    assert dc.AlphaK(alpha=0.25, k=2).smallest_class == 4
    assert dc.PSensitive(p=3, k=5).smallest_class == 5


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        ("DistinctLDiversity", {"l": 0}),
        ("EntropyLDiversity", {"l": 0.5}),
        ("RecursiveLDiversity", {"l": 2, "c": 0}),
        ("TCloseness", {"t": 1.5}),
        ("TCloseness", {"t": -0.1}),
        ("TCloseness", {"t": 0.1, "distance": "far"}),
        ("AlphaK", {"alpha": 0, "k": 2}),
        ("AlphaK", {"alpha": 1.1, "k": 2}),
        ("PSensitive", {"p": 2}),
        ("BetaLikeness", {"beta": 0}),
        ("DeltaDisclosure", {"delta": 0}),
        ("AverageRisk", {"risk": 0}),
        ("KmAnonymity", {"k": 2, "m": 0}),
    ],
)
def test_parameters_out_of_range(model: str, fields: dict[str, object]) -> None:
    with pytest.raises(dc.PlanError):
        getattr(dc, model)(**fields)


def test_the_worst_of_several_sensitive_columns_decides() -> None:
    frame = pl.DataFrame({"q": [0, 0, 1, 1], "s": ["a", "b", "a", "b"], "t": ["c", "c", "c", "d"]})
    verdict = dc.DistinctLDiversity(l=2, columns=["q"], sensitive=["s", "t"])(frame)
    assert verdict.value == 1 and verdict.detail["per_column"] == {"s": 2, "t": 1}
    near = dc.TCloseness(t=0.3, distance="equal", columns=["q"], sensitive=["s", "t"])(frame)
    assert near.value == max(near.detail["per_column"].values()) > min(near.detail["per_column"].values())
