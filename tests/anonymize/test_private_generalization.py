"""Differentially private generalization: its δ against the exact laws of neighboring data, and what it publishes."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

import discretion as dc
from discretion.anonymize.private_generalization import delta_of, smallest_k
from discretion.errors import Infeasible, PlanError

SETTINGS = [(0.1, 1e-3), (0.5, 1e-4), (1.0, 1e-5), (1.0, 0.01), (2.0, 1e-6), (3.0, 1e-2)]


def law(n: int, k: int, share: float) -> np.ndarray:
    """Give the probabilities of what is shown of a class of n people: nothing, or its number of sampled records."""
    shown = binom.pmf(np.arange(n + 2), n, share)
    shown[0] = shown[:k].sum()
    shown[1:k] = 0
    return shown


def exceeded(n: int, k: int, epsilon: float, share: float) -> float:
    """Give the exact δ of a class of n people and the same without one of them, in both directions."""
    one, other = law(n, k, share), law(n - 1, k, share)
    other = np.concatenate([other, np.zeros(len(one) - len(other))])
    factor = math.exp(epsilon)
    return max(np.maximum(one - factor * other, 0).sum(), np.maximum(other - factor * one, 0).sum())


@pytest.mark.parametrize(("epsilon", "delta"), SETTINGS)
@pytest.mark.parametrize("part", [1.0, 0.5, 0.1])
def test_no_class_exceeds_delta(epsilon: float, delta: float, part: float) -> None:
    share = -math.expm1(-epsilon) * part
    k = smallest_k(epsilon, delta, share)
    assert delta_of(k, epsilon, share) <= delta < delta_of(k - 1, epsilon, share) or k == 1
    for n in range(1, 30 * k, max(1, k // 8)):
        assert exceeded(n, k, epsilon, share) <= delta * (1 + 1e-9)


def test_a_smaller_k_would_break_the_promise() -> None:
    """The bound counts all that exceeds the factor, the exact δ only by how much: well below k it is broken."""
    epsilon, delta = 1.0, 1e-4
    share = -math.expm1(-epsilon)
    k = smallest_k(epsilon, delta, share)
    assert max(exceeded(n, k // 2, epsilon, share) for n in range(1, 4 * k)) > delta


def test_delta_is_the_largest_over_all_sizes() -> None:
    for epsilon, k in ((0.5, 20), (1.0, 7), (2.0, 40)):
        share = -math.expm1(-epsilon)
        gamma = 1 - math.exp(-2 * epsilon)
        least = math.ceil(k / gamma - 1)
        want = max(binom.sf(math.floor(gamma * n), n, share) for n in range(least, 3000))
        assert delta_of(k, epsilon, share) == pytest.approx(want, rel=1e-6)


FIELDS = {
    "epsilon": 2.0,
    "delta": 1e-3,
    "domain": {"town": list("ABC"), "age": {"cuts": [0, 30, 60, 90], "missing": True}},
    "groups": {"town": {"north": ["A", "B"]}},
    "drop": ["name"],
}


def people(rows: int = 4000) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    age = pl.Series(rng.integers(-5, 99, rows))
    return pl.DataFrame(
        {
            "name": [f"p{i}" for i in range(rows)],
            "town": rng.choice(list("ABCX"), rows),
            "age": pl.select(pl.when(age < 3).then(None).otherwise(age)).to_series(),
        }
    )


def test_what_is_published() -> None:
    step = dc.PrivateGeneralization(**FIELDS)  # type: ignore[arg-type]
    made = step(people())
    assert made.columns == ["town", "age"]
    counts = made.group_by("town", "age").len()
    assert counts["len"].min() >= step.k
    assert set(made["town"]) == {"north", "C"}
    assert set(made["age"]) == {"< 30", "[30, 60)", ">= 60", None}
    town = pl.when(pl.col("town") == "C").then(pl.lit("C")).otherwise(pl.lit("north"))
    true = people().filter(pl.col("town") != "X").group_by(town.alias("town")).len()
    share = -math.expm1(-2.0)
    for name, number in true.rows():
        got = (made["town"] == name).sum()
        assert abs(got - share * number) < 6 * math.sqrt(number * share * (1 - share))


def test_each_person_has_one_row() -> None:
    table = people().with_columns(name=pl.lit("p0"))
    step = dc.PrivateGeneralization(**{**FIELDS, "person": "name", "drop": []})  # type: ignore[arg-type]
    with pytest.raises(Infeasible, match="no class of the sample"):
        step(table)


def test_small_classes_and_the_rest_of_the_file_are_not_published() -> None:
    step = dc.PrivateGeneralization(**FIELDS)  # type: ignore[arg-type]
    rare = people().with_columns(
        town=pl.when(pl.int_range(pl.len()) < step.k - 1).then(pl.lit("C")).otherwise(pl.lit("A"))
    )
    assert "C" not in set(step(rare)["town"])
    with pytest.raises(Infeasible, match="no class of the sample"):
        step(rare[:0])


def test_errors() -> None:
    with pytest.raises(PlanError, match="no declared values"):
        dc.PrivateGeneralization(**{**FIELDS, "drop": []})(people())  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="at most 1 − e"):
        dc.PrivateGeneralization(**FIELDS, share=0.9)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="must be declared"):
        dc.PrivateGeneralization(**{**FIELDS, "groups": {"town": {"north": ["A", "Q"]}}})  # type: ignore[arg-type]


def test_cost() -> None:
    step = dc.PrivateGeneralization(**FIELDS)  # type: ignore[arg-type]
    assert (step.cost.micro_epsilon, step.cost.nano_delta) == (2_000_000, 1_000_000)
    assert step.private and not step.seeded
