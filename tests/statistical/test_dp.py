"""The mechanisms keep their claims, and the checks find mechanisms that do not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from discretion.online.declare import ColumnSpec, DpPolicy, TableSpec
from discretion.online.dp import sensitivity
from discretion.online.dp.answer import Ingredient, PricedQuery, price
from discretion.online.dp.mechanisms import (
    Additive,
    ExponentialChoice,
    ModalCategory,
    PrivacyLoss,
    RandomAnswer,
    ThresholdedCounts,
    scores,
)
from discretion.online.dp.sensitivity import Unit
from discretion.online.question.query import Aggregate, Query
from discretion.privacy.accounting import epsilon_of_rho
from tests.statistical.claims import DRAWS, Trial, best_event, clopper_pearson, epsilon_at_least, repeated

pytest.importorskip("opendp")

COLUMNS = {
    "sex": {"role": "public", "type": "category", "categories": ("f", "m")},
    "age": {"role": "sensitive", "type": "integer", "bounds": (0, 100), "grid": 10},
}
TABLE = TableSpec(name="t", columns=COLUMNS)
PURE = DpPolicy(mode="dp", epsilon=100)
EPSILON = 1.0

PEOPLE = pl.DataFrame({"sex": ["f", "f", "m"], "age": [30, 40, 50]})
ONE_MORE = pl.concat([PEOPLE, pl.DataFrame({"sex": ["m"], "age": [100]})])
ANOTHER = pl.DataFrame({"sex": ["f", "f", "f"], "age": [30, 40, 100]})


def asked(*aggregates: Aggregate, by: tuple[str, ...] = (), table: TableSpec = TABLE) -> PricedQuery:
    return price(Query("t", aggregates, group_by=by), table, PURE, epsilon=EPSILON)


def half_noise(priced: PricedQuery, part: Ingredient) -> Additive:
    right = priced.noise(part)
    return Additive(right.sensitivity, PrivacyLoss(right.loss.measure, right.loss.amount * 2))


COUNT, SUM, MEAN = Aggregate("count"), Aggregate("sum", "age"), Aggregate("mean", "age")
CUTS = (0.0, 45.0, 60.0, 100.0)


def test_a_count_keeps_its_claim_and_half_the_noise_is_found() -> None:
    right = Trial(asked(COUNT), PEOPLE, ONE_MORE).epsilon_at_least()
    wrong = Trial(asked(COUNT), PEOPLE, ONE_MORE, noise=half_noise).epsilon_at_least()
    assert 0.8 < right <= EPSILON < wrong


def test_a_sum_keeps_its_claim_for_an_outlier_and_missing_clamping_is_found() -> None:
    outlier = pl.concat([PEOPLE, pl.DataFrame({"sex": ["m"], "age": [400]})])
    right = Trial(asked(SUM), PEOPLE, outlier).epsilon_at_least()
    wide = TableSpec(name="t", columns={**COLUMNS, "age": {**COLUMNS["age"], "bounds": (0, 1000)}})
    wrong = Trial(asked(SUM), PEOPLE, outlier, computed_as=wide).epsilon_at_least()
    assert 0.8 < right <= EPSILON < wrong


def test_the_keys_of_groups_pass_only_with_enough_people_and_a_leaking_group_is_found() -> None:
    delta = Fraction(1, 50)
    threshold = ThresholdedCounts(sensitivity.people(Unit()), PrivacyLoss.micro_epsilon(1_000_000), delta)
    alone = dict.fromkeys(range(DRAWS), 1)
    told = len(threshold.release(alone))
    assert clopper_pearson(told, DRAWS)[0] <= delta
    assert told > 0, "a threshold that is never passed proves nothing"

    def leaking(counts: dict[int, int]) -> dict[int, int]:
        noisy = threshold.noise.release(list(counts.values()))
        return {key: value for key, value in zip(counts, noisy, strict=True) if value >= 1}

    assert clopper_pearson(len(leaking(alone)), DRAWS)[0] > delta


def test_a_declared_group_without_people_looks_like_one_and_leaving_it_out_is_found() -> None:
    priced = asked(COUNT, by=("sex",))
    (part,) = priced.parts
    noise = priced.noise(part)
    women = PEOPLE.filter(pl.col("sex") == "f")
    before, after = (Trial(priced, f, f).true_numbers(f, part) for f in (women, PEOPLE))
    assert (before, after) == ([2, 0], [2, 1])
    first, second = (repeated(noise, true, DRAWS)[:, 1] for true in (before, after))
    right = epsilon_at_least(int((second >= 1).sum()), int((first >= 1).sum()), DRAWS)
    shown = [int(np.sum(drawn >= 1)) if number else 0 for drawn, number in zip((first, second), (0, 1), strict=True)]
    assert right <= EPSILON < epsilon_at_least(shown[1], shown[0], DRAWS)


def chi_square(noise: Additive, law: np.ndarray, reach: int) -> float:  # type: ignore[type-arg]
    from scipy.stats import chisquare

    drawn = repeated(noise, [7], DRAWS)[:, 0] - 7
    seen = np.array([np.sum(drawn == d) for d in range(-reach, reach + 1)])
    seen, expected = np.append(seen, DRAWS - seen.sum()), np.append(law, 1 - law.sum()) * DRAWS
    assert expected.min() >= 5
    return float(chisquare(seen, expected).pvalue)


def test_the_noise_of_a_count_is_discrete_laplace() -> None:
    noise = Additive(sensitivity.counts(Unit()), PrivacyLoss.micro_epsilon(1_000_000))
    q = math.exp(-1)
    law = (1 - q) / (1 + q) * q ** np.abs(np.arange(-6, 7))
    assert chi_square(noise, law, 6) > 1e-6
    assert chi_square(Additive(noise.sensitivity, PrivacyLoss.micro_epsilon(1_100_000)), law, 6) < 1e-6


@pytest.mark.slow
def test_the_noise_under_zero_concentrated_privacy_is_discrete_gaussian() -> None:
    noise = Additive(sensitivity.counts(Unit()), PrivacyLoss.nano_rho(125_000_000))
    weights = np.exp(-(np.arange(-40, 41) ** 2) / (2 * 2.0**2))
    law = (weights / weights.sum())[34:47]
    assert noise.scale == pytest.approx(2.0)
    assert chi_square(noise, law, 6) > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    "aggregates",
    [
        (SUM,),
        (MEAN,),
        (Aggregate("variance", "age"),),
        (Aggregate("count-distinct", "age"),),
        (Aggregate("histogram", "age", cuts=CUTS),),
        (COUNT, MEAN),
        (SUM, MEAN, Aggregate("variance", "age")),
    ],
    ids=lambda found: "+".join(a.function for a in found),
)
@pytest.mark.parametrize("by", [(), ("sex",)], ids=["whole", "groups"])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_every_figure_keeps_its_claim(aggregates: tuple[Aggregate, ...], by: tuple[str, ...], adjacency: str) -> None:
    table = TABLE.model_copy(update={"adjacency": adjacency})
    neighbor = ONE_MORE if adjacency == "add-remove" else ANOTHER
    assert Trial(asked(*aggregates, by=by, table=table), PEOPLE, neighbor).epsilon_at_least() <= EPSILON


@pytest.mark.slow
def test_several_rows_of_one_person_keep_the_claim_and_unbounded_ones_are_found() -> None:
    columns = {**COLUMNS, "who": {"role": "hidden", "type": "integer"}}
    table = TableSpec(name="t", columns=columns, person="who", rows_per_person=2)
    people = PEOPLE.with_columns(who=pl.Series([1, 2, 3]))
    many = pl.concat([people, pl.DataFrame({"sex": ["m"] * 6, "age": [100] * 6, "who": [4] * 6})])
    priced = asked(COUNT, table=table)
    assert 0.8 < Trial(priced, people, many).epsilon_at_least() <= EPSILON
    unbounded = table.model_copy(update={"rows_per_person": 6})
    assert Trial(priced, people, many, computed_as=unbounded).epsilon_at_least() > EPSILON


@pytest.mark.slow
def test_wrong_adjacency_and_a_mean_paid_twice_are_found() -> None:
    histogram = asked(Aggregate("histogram", "age", cuts=CUTS))
    assert Trial(histogram, PEOPLE, PEOPLE.with_columns(age=pl.Series([30, 40, 10]))).epsilon_at_least() > EPSILON

    def twice(priced: PricedQuery, part: Ingredient) -> Additive:
        return Additive(priced.noise(part).sensitivity, PrivacyLoss("epsilon", Fraction(1)))

    assert Trial(asked(MEAN), PEOPLE, ONE_MORE).epsilon_at_least() <= EPSILON
    assert Trial(asked(MEAN), PEOPLE, ONE_MORE, noise=twice).epsilon_at_least() > EPSILON


@pytest.mark.slow
@pytest.mark.parametrize("aggregate", [COUNT, SUM, MEAN, Aggregate("variance", "age")], ids=lambda a: a.function)
def test_zero_concentrated_answers_keep_what_they_convert_to(aggregate: Aggregate) -> None:
    policy = DpPolicy(mode="dp", epsilon=100, delta=1e-2, accountant="zcdp")
    priced = price(Query("t", (aggregate,)), TABLE, policy, rho=0.5)
    delta = 0.01
    claim = epsilon_of_rho(0.5, delta)
    bounds = [Trial(priced, PEOPLE, ONE_MORE).epsilon_at_least(delta, further) for further in (0.0, 0.5, 1.0)]
    assert max(bounds) <= claim
    if aggregate is COUNT:
        wrong = Trial(priced, PEOPLE, ONE_MORE, noise=quarter_noise)
        assert max(wrong.epsilon_at_least(delta, further) for further in (0.0, 0.5, 1.0)) > claim


def quarter_noise(priced: PricedQuery, part: Ingredient) -> Additive:
    right = priced.noise(part)
    return Additive(right.sensitivity, PrivacyLoss(right.loss.measure, right.loss.amount * 16))


def chosen(choice: ExponentialChoice, given: list[int], draws: int = DRAWS) -> list[int]:
    return [choice.choose(given) for _ in range(draws)]


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_quantiles_extremes_and_the_mode_keep_their_claims(adjacency: str) -> None:
    unit = Unit(1, adjacency)  # type: ignore[arg-type]
    before, after = [2, 0, 1, 0], ([2, 0, 1, 1] if adjacency == "add-remove" else [1, 0, 1, 1])
    loss = PrivacyLoss.micro_epsilon(1_000_000)
    tries = (
        (ExponentialChoice(sensitivity.quantile_scores(unit, 1, 2), loss), lambda bins: scores(bins, 1, 2)),
        (ExponentialChoice(sensitivity.quantile_scores(unit, 9, 10), loss), lambda bins: scores(bins, 9, 10, -5)),
        (ExponentialChoice(sensitivity.extreme_scores(unit), loss), lambda bins: scores(bins, 0, 1, 2)),
        (ExponentialChoice(sensitivity.mode_scores(unit), loss, sensitivity.is_monotonic(unit)), list),
    )
    for choice, score in tries:
        first, second = chosen(choice, score(before)), chosen(choice, score(after))
        assert max(best_event(first, second), best_event(second, first)) <= EPSILON


@pytest.mark.slow
def test_a_choice_with_too_little_noise_is_found() -> None:
    loss = PrivacyLoss.micro_epsilon(4_000_000)
    choice = ExponentialChoice(sensitivity.mode_scores(Unit()), loss, monotonic=True)
    assert best_event(chosen(choice, [0, 0]), chosen(choice, [1, 0])) > EPSILON


@pytest.mark.slow
def test_randomized_response_keeps_its_claim() -> None:
    coins = RandomAnswer(("no", "yes"), PrivacyLoss("epsilon", Fraction(math.log(3)) + Fraction(1, 10**6)))
    yes, no = coins.release(["yes"] * DRAWS), coins.release(["no"] * DRAWS)
    bound = epsilon_at_least(yes.count("yes"), no.count("yes"), DRAWS)
    assert 0.9 < bound <= math.log(3)


LETTERS = ColumnSpec(role="sensitive", type="category", categories=("a", "b", "c"))


def law_of_a_choice(counts: Sequence[int], choice: ExponentialChoice) -> np.ndarray:  # type: ignore[type-arg]
    """Give the exact law: permute and flip for an ε, the exponential mechanism itself for a ρ.

    Permute and flip chooses i with probability pᵢ·Σ (−1)^|S|/(|S| + 1)·Π pⱼ over the sets S of others, where pⱼ is the
    exponential of how far the score lies below the best, over the scale (McKenna & Sheldon 2020).
    """
    weights = np.exp((np.array(counts, float) - max(counts)) / choice.scale)
    if choice.loss.measure == "rho":
        return np.asarray(weights / weights.sum())
    found = []
    for i, own in enumerate(weights):
        others = np.delete(weights, i)
        sets = (s for size in range(len(others) + 1) for s in itertools.combinations(others, size))
        found.append(own * sum((-1) ** len(s) / (len(s) + 1) * math.prod(s) for s in sets))
    return np.array(found)


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param(PrivacyLoss.micro_epsilon(1_000_000), id="epsilon"),
        pytest.param(PrivacyLoss.nano_rho(125_000_000), id="rho", marks=pytest.mark.slow),
    ],
)
def test_a_mode_follows_its_law(loss: PrivacyLoss) -> None:
    """A scale that is a tenth off would be found."""
    from scipy.stats import chisquare

    mode, counts = ModalCategory(LETTERS, Unit(), loss, 0.95), [4, 3, 1]
    drawn = [mode.find(counts) for _ in range(DRAWS)]
    seen = np.array([drawn.count(letter) for letter in "abc"])
    law = law_of_a_choice(counts, mode._choice)
    assert law.sum() == pytest.approx(1)
    assert chisquare(seen, law * DRAWS).pvalue > 1e-6
    finer = ExponentialChoice(
        mode._choice.sensitivity, PrivacyLoss(loss.measure, loss.amount * Fraction(13, 10)), monotonic=True
    )
    assert chisquare(seen, law_of_a_choice(counts, finer) * DRAWS).pvalue < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2])
def test_a_mode_keeps_its_claim_and_half_the_noise_is_found(rows: int) -> None:
    loss = PrivacyLoss.micro_epsilon(1_000_000)
    for adjacency, before in (("add-remove", [0, 0]), ("replace", [rows, 0])):
        unit, after = Unit(rows, adjacency), [0, rows]  # type: ignore[arg-type]
        choice = ModalCategory(LETTERS, unit, loss, 0.95)._choice
        right = best_event(chosen(choice, before, 8000), chosen(choice, after, 8000))
        assert 0.5 < right <= EPSILON
        wrong = ExponentialChoice(choice.sensitivity, PrivacyLoss.micro_epsilon(2_000_000), choice.monotonic)
        assert best_event(chosen(wrong, before, 8000), chosen(wrong, after, 8000)) > EPSILON


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("measure", ["epsilon", "rho"])
def test_modes_of_several_groups_cost_no_more_than_the_loss(rows: int, adjacency: str, measure: str) -> None:
    """All neighbors of a person with rows in two groups: the losses of the groups together, by the exact law."""
    unit = Unit(rows, adjacency)  # type: ignore[arg-type]
    loss = PrivacyLoss("epsilon", Fraction(1)) if measure == "epsilon" else PrivacyLoss("rho", Fraction(1, 8))
    choice = ModalCategory(LETTERS, unit, loss, 0.95)._choice
    cells = [(group, letter) for group in range(2) for letter in range(3)]
    people = [p for size in range(rows + 1) for p in itertools.combinations_with_replacement(cells, size)]
    crowds = ([[0, 0, 0], [0, 0, 0]], [[3, 3, 2], [1, 0, 5]])

    def law(crowd: list[list[int]], person: tuple[tuple[int, int], ...]) -> list[np.ndarray]:  # type: ignore[type-arg]
        counts = [[n + person.count((g, i)) for i, n in enumerate(line)] for g, line in enumerate(crowd)]
        return [law_of_a_choice(line, choice) for line in counts]

    worst = 0.0
    for crowd in crowds:
        laws = [law(crowd, person) for person in people]
        pairs = [(laws[0], one) for one in laws] if adjacency == "add-remove" else itertools.product(laws, laws)
        for one, other in pairs:
            if measure == "epsilon":
                ranges = [np.abs(np.log(p / q)).max() for p, q in zip(one, other, strict=True)]
                worst = max(worst, sum(ranges))
            else:  # a choice whose log-ratios span η is η²/8 zero-concentrated
                spans = [np.ptp(np.log(p / q)) for p, q in zip(one, other, strict=True)]
                worst = max(worst, sum(span**2 / 8 for span in spans))
    assert 0.6 * float(loss.amount) < worst <= float(loss.amount) * (1 + 1e-9)
