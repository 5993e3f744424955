"""Differentially private generalization: its δ against the exact laws of neighboring data, and what it publishes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

import discretion as dc
from discretion.anonymize.private_generalization import delta_of, smallest_k
from discretion.context import Context
from discretion.errors import Infeasible, PlanError
from discretion.privacy.accounting import choose_best

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
    table = people(8000)  # each class has far more than k
    made = step(table)
    assert made.columns == ["town", "age"]
    counts = made.group_by("town", "age").len()
    assert counts["len"].min() >= step.k
    assert set(made["town"]) == {"north", "C"}
    assert set(made["age"]) == {"< 30", "[30, 60)", ">= 60", None}
    town = pl.when(pl.col("town") == "C").then(pl.lit("C")).otherwise(pl.lit("north"))
    true = table.filter(pl.col("town") != "X").group_by(town.alias("town")).len()
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


# The choice of levels.

SEARCH = {
    "epsilon": 2.0,
    "search_epsilon": 0.5,
    "delta": 0.02,
    "domain": {"town": list("ABC"), "age": {"cuts": [0, 30, 60, 90]}},
    "coarser": {"town": [{"north": ["A", "B"]}, {"*": ["A", "B", "C"]}], "age": [[0, 60, 90], [0, 90]]},
}


def chooser(**fields: object) -> dc.PrivateGeneralization:
    return dc.PrivateGeneralization(**{**SEARCH, **fields})  # type: ignore[arg-type]


def scores_of(step: dc.PrivateGeneralization, rows: np.ndarray) -> np.ndarray:
    codes = [np.ascontiguousarray(rows[:, 0]), np.ascontiguousarray(rows[:, 1])]
    return np.array(step.scores(codes, Context(0, "x")))


def test_scores_are_what_is_worth_publishing() -> None:
    step, rng = chooser(), np.random.default_rng(2)
    rows = rng.integers(0, 3, (100, 2))
    towns = [["A", "B", "C"], ["north", "north", "C"], ["*"] * 3]
    ages = [[0, 1, 2], [0, 0, 1], [0, 0, 0]]
    full = math.ceil(step.k / (1 - math.exp(-1.5)))
    want = []
    for town in towns:
        for age in ages:
            classes: dict[tuple[object, object], int] = {}
            for a, b in rows.tolist():
                classes[town[a], age[b]] = classes.get((town[a], age[b]), 0) + 1
            total = 0
            for (one, other), n in classes.items():
                kept = [
                    1 - math.log(labels.count(label)) / math.log(3) for labels, label in ((town, one), (age, other))
                ]
                total += math.floor(1000 * (kept[0] + kept[1]) / 2) * max(0, min(n, 4 * (n - full) + full))
            want.append(total)
    assert scores_of(step, rows).tolist() == want


def test_one_person_moves_every_score_up_and_by_no_more_than_the_noise_is_made_for() -> None:
    rng, largest = np.random.default_rng(3), 0
    for seed in range(60):
        step = chooser(delta=float(rng.choice([0.1, 0.02, 1e-4])))
        rows = rng.integers(0, 3, (int(rng.integers(1, 400)), 2))
        if seed % 2:
            rows = rows[rng.random(len(rows)) < 0.3 + 0.7 * (rows[:, 0] == 0)]
        if len(rows) < 2:
            continue
        moved = scores_of(step, rows) - scores_of(step, np.delete(rows, int(rng.integers(len(rows))), axis=0))
        assert (moved >= 0).all() and (moved <= 4000).all()
        largest = max(largest, int(moved.max()))
    assert largest > 1000  # the bound is needed


def choice(gap: float, scale: float) -> tuple[float, float]:
    """Give the exact probabilities of the better and the worse of two, by exponential noise on both scores."""
    lost = 0.5 * math.exp(-gap / scale)
    return 1 - lost, lost


def test_the_choice_has_the_law_of_its_noise() -> None:
    for gap in (0, 3000, 20000):
        drawn = sum(choose_best([gap, 0], 4000, 0.5) for _ in range(4000))
        want = choice(gap, 4000 / 0.5)[1]
        assert abs(drawn / 4000 - want) < 5 * math.sqrt(want * (1 - want) / 4000) + 1e-3


@pytest.mark.parametrize(("noise_for", "holds"), [(4000, True), (400, False)])
def test_choice_and_file_together_keep_the_promise(noise_for: int, holds: bool) -> None:
    """The exact laws of everything that is published, for people of one town with and without one of them.

    With noise for a tenth of the sensitivity the promise is broken: the test would notice.
    """
    step = chooser(domain={"town": ["A", "B"]}, coarser={"town": [{"*": ["A", "B"]}]})
    share, k, factor, worst = 1 - math.exp(-1.5), step.k, math.exp(2.0), 0.0
    for n in (*range(1, 4 * k), 200):
        laws = []
        for size in (n, n - 1):
            codes = [np.zeros(size, np.int64)]
            scores = step.scores(codes, Context(0, "x")) if size else [0, 0]
            first = choice(abs(scores[0] - scores[1]), noise_for / 0.5)
            by_level = first if scores[0] >= scores[1] else first[::-1]
            shown = np.zeros(n + 2)
            shown[: size + 2] = law(size, k, share) if size else [1.0, 0.0]
            laws.append(np.concatenate([p * shown for p in by_level]))
        one, other = laws
        worst = max(worst, np.maximum(one - factor * other, 0).sum(), np.maximum(other - factor * one, 0).sum())
    assert (worst <= 0.02) == holds


def test_levels_that_keep_most_are_chosen() -> None:
    many = people(20000).with_columns(
        town=pl.col("town").replace("X", "A"), age=pl.col("age").fill_null(10).clip(0, 89)
    )
    step = chooser(drop=["name"])
    assert step.cost == dc.PrivateGeneralization(**{**FIELDS, "delta": 0.02}).cost  # type: ignore[arg-type]
    made = step(many)
    assert set(made["town"]) == {"A", "B", "C"} and made["age"].n_unique() == 3  # everything is large enough
    rows = np.random.default_rng(4).integers(0, 3, (60, 2))
    assert scores_of(step, np.tile(rows, (300, 1))).argmax() == 0 < scores_of(step, rows).argmax()


def test_levels_that_do_not_fit() -> None:
    for wrong in (
        {"coarser": {}}, {"search_epsilon": 0.0}, {"search_epsilon": 2.0},
        {"coarser": {"age": [[0, 45, 90]]}}, {"coarser": {"age": [[30, 90]]}}, {"share": 0.8},
        {"coarser": {"nobody": [{"x": ["A"]}]}}, {"coarser": {"town": [{"x": ["A", "Q"]}]}},
    ):  # fmt: skip
        with pytest.raises(PlanError):
            chooser(**wrong)


def test_an_attack_that_halves_of_the_people_are_too_few_for_is_named_and_stops_nothing(tmp_path: Path) -> None:
    """All the people fill a class of k; the halves that the membership attack learns from do not."""
    data = dc.Dataset(pl.DataFrame({"sex": ["f"] * 90}), roles={"sex": "quasi"})
    step = dc.PrivateGeneralization(epsilon=1, delta=1e-3, domain={"sex": ["f", "m"]})
    assert 0.6 * len(data) > 1.3 * step.k > 0.6 * len(data) / 2 * 1.3
    release = dc.Study(data, seed=1).apply(step).release(tmp_path / "out", no_requirements=True)
    assert "half of the people are too few for private-generalization" in str(release.not_run)
