"""Attackers who ask twice as many questions as there are people and reconstruct everybody: what they get in each mode.

The figures stand in the documentation (online-audit.md); a change that lets more out fails here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

import discretion as dc
from discretion.data.sql_filter import Condition
from discretion.online.declare import PerturbedPolicy
from discretion.online.perturbed import CellKeys, Perturbation
from discretion.online.question.answer import Answer
from discretion.online.question.query import Aggregate, Query
from tests.online import attackers

Floats = NDArray[np.float64]
TOP = 100
SIZES = [60, pytest.param(200, marks=pytest.mark.slow), pytest.param(2000, marks=pytest.mark.slow)]
COLUMNS: dict[str, Any] = {
    "id": {"role": "public", "type": "integer"},
    "sex": {"role": "public", "type": "category", "categories": ["f", "m"]},
    "region": {"role": "public", "type": "category", "categories": ["a", "b", "c"]},
    "age": {"role": "sensitive", "type": "integer", "bounds": (0, TOP)},
    "income": {"role": "sensitive", "type": "number", "whole": False},
    "debt": {"role": "sensitive", "type": "number", "bounds": (0, 1000)},
    "ill": {"role": "sensitive", "type": "truth"},
}
DP = {"mode": "dp", "epsilon": 1.0, "epsilon_per_query": 0.1}
PERTURBED = {"mode": "perturbed"}


def table(people: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "id": np.arange(people),
            "sex": rng.choice(["f", "m"], people),
            "region": rng.choice(["a", "b", "c"], people),
            "age": rng.integers(0, TOP + 1, people),
            "income": rng.lognormal(8, 0.6, people),
            "debt": rng.uniform(0, 1000, people),
            "ill": rng.random(people) < 0.5,
        }
    )


def questions(people: int, seed: int) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Two thirds random sets by id, the rest tables and conditions by public columns."""
    rng = np.random.default_rng(seed)
    by_columns: list[tuple[tuple[str, ...], Any]] = [((), None), (("sex",), None), (("region",), None)]
    by_columns += [
        (("sex", "region"), None),
        ((), Condition("sex", "=", ("f",))),
        ((), Condition("region", "=", ("c",))),
    ]
    yield from by_columns
    while True:
        chosen = np.flatnonzero(rng.random(people) < min(0.5, 100 / people))
        yield (), Condition("id", "in", tuple(chosen.tolist()))


@dataclass
class Heard:
    """What an attacker heard: sets of people with the sum that was told."""

    sets: NDArray[np.int64]
    sums: Floats
    refused: int


def attack(frame: pl.DataFrame, column: str, policy: dict[str, Any], seed: int = 0) -> Heard:
    """Ask 2n questions for sums of a column and keep what is told; the attacker can tell whom a sum is over."""
    sets: list[Any] = []
    sums: list[float] = []
    refused = 0
    people = len(frame)
    with dc.StatisticalDatabase(frame, columns=COLUMNS, policy=policy) as database:
        for group_by, where in islice(questions(people, seed), 2 * people):
            asked = (Aggregate("sum", column),)
            query = Query("data", asked, group_by=group_by) if where is None else Query("data", asked, where, group_by)
            try:
                answer = database.ask(query)
            except dc.QueryRefused:
                refused += 1
                continue
            for row, mask in zip(answer.frame.rows(), members(database, frame, query, answer), strict=True):
                if row[-1] is not None:
                    sets.append(mask)
                    sums.append(float(row[-1]))
    return Heard(np.array(sets, np.int64).reshape(len(sets), people), np.array(sums), refused)


def members(
    database: dc.StatisticalDatabase, frame: pl.DataFrame, query: Query, answer: Answer
) -> list[NDArray[np.bool_]]:
    """Say whom each line of an answer is over: everybody asked about, or the whole base groups among them."""
    chosen = np.ones(len(frame), np.bool_)
    if isinstance(query.where, Condition):
        chosen = frame[query.where.column].is_in(list(query.where.values)).to_numpy()
    masks = []
    for key in answer.frame.select(query.group_by).rows() if query.group_by else [()]:
        mask = chosen.copy()
        for name, value in zip(query.group_by, key, strict=True):
            mask &= (frame[name] == value).to_numpy()
        masks.append(mask)
    if answer.covered is None:
        return masks
    protection = database._desks["data"]._protection
    assert protection is not None
    groups = protection._groups[str(query.aggregates[0].column)]
    found = [groups.told(np.where(mask, 0, -1), 1).whole for mask in masks]
    assert [int(np.isin(groups.group, g).sum()) for g in found] == answer.covered[:, -1].to_list()
    return [np.isin(groups.group, g) for g in found]


def spread(guess: Floats, values: Floats) -> float:
    """Root of the mean square error in standard deviations: 1 is what whoever knows the mean alone gets."""
    return float(np.sqrt(np.mean((guess - values) ** 2)) / values.std())


def right(guess: Floats, values: Floats) -> float:
    """Share of people whose whole value is found."""
    return float(np.mean(np.round(guess) == values))


def best_guess(values: Floats) -> float:
    """Share of people who are right for whoever always says the most frequent value."""
    return float(np.unique(values, return_counts=True)[1].max() / len(values))


@pytest.mark.parametrize("people", SIZES)
@pytest.mark.parametrize("column", ["age", "debt"])
def test_base_groups_leave_the_attacker_guessing(people: int, column: str) -> None:
    """Whole and bounded numbers: he knows the means of groups, and of single people what the mean alone would tell."""
    frame = table(people, people)
    heard = attack(frame, column, {"mode": "exact+audit"})
    values = frame[column].cast(pl.Float64).to_numpy()
    assert 4 <= np.linalg.matrix_rank(heard.sets) <= people // 10
    squares = attackers.least_squares(heard.sets, heard.sums, float(values.mean()))
    program = attackers.linear_program(heard.sets, heard.sums, 0, values.max())
    for guess in (squares, program):
        assert spread(guess, values) > 0.8
        assert right(guess, values) <= best_guess(values) + 0.03
    if column == "age" and people == 60:
        assert attackers.determined(heard.sets, values.astype(np.int64), TOP) == 0


@pytest.mark.parametrize("people", SIZES)
def test_the_linear_audit_determines_nobody_and_lets_values_be_guessed_closely(people: int) -> None:
    """Unbounded numbers: every value stays free, and whoever knows the mean is wrong by about 1/√n of the spread."""
    frame = table(people, people)
    heard = attack(frame, "income", {"mode": "exact+audit"})
    values = frame["income"].to_numpy()
    rank = np.linalg.matrix_rank(heard.sets)
    assert people / 2 < rank < people
    null = np.linalg.svd(heard.sets.astype(np.float64))[2][rank:]
    assert (np.abs(null).max(axis=0) > 1e-9).all()
    assert 0.005 < spread(attackers.least_squares(heard.sets, heard.sums, float(values.mean())), values) < 0.4


@pytest.mark.parametrize("people", SIZES)
def test_noise_keeps_the_attacker_within_its_epsilon(people: int) -> None:
    """Yes or no at ε = 1: ten answers, and nobody is right more often than e/(1 + e) of the time."""
    hits, count = 0.0, 0
    for seed in range(1 if people > 60 else 3):
        frame = table(people, people + seed)
        heard = attack(frame, "ill", DP)
        assert heard.refused == 2 * people - 10
        values = frame["ill"].cast(pl.Float64).to_numpy()
        guesses = [
            attackers.least_squares(heard.sets, heard.sums, 0.5),
            attackers.linear_program(heard.sets, heard.sums, 0, 1),
        ]
        hits += max(float(np.sum((guess > 0.5) == (values > 0.5))) for guess in guesses)
        count += people
    assert hits / count < np.e / (1 + np.e)


@pytest.mark.parametrize("people", SIZES)
@pytest.mark.parametrize("column", ["age", "income"])
def test_perturbed_answers_let_values_be_guessed_no_closer_than_the_page_says(people: int, column: str) -> None:
    """24 figures: four fifths of the spread; all 2n questions answered: a third and less."""
    frame = table(people, people)
    values = frame[column].cast(pl.Float64).to_numpy()
    heard = attack(frame, column, PERTURBED)
    assert len(heard.sums) <= 24
    assert spread(attackers.least_squares(heard.sets, heard.sums, float(values.mean())), values) > 0.8
    if people == 60:
        unlimited = attack(frame, column, {**PERTURBED, "max_answers": 10**6})
        assert unlimited.refused == 0
        assert spread(attackers.least_squares(unlimited.sets, unlimited.sums, float(values.mean())), values) > 0.25
        low, high = (0.0, float(TOP)) if column == "age" else (0.0, 5 * float(values.mean()))
        assert spread(attackers.linear_program(unlimited.sets, unlimited.sums, low, high), values) > 0.25


def test_two_perturbed_answers_do_not_tell_the_difference() -> None:
    """Everybody, and everybody but one: the difference was within 4.4 % of the value; now the changes are as large."""
    frame, errors = table(200, 3), []
    policy = {**PERTURBED, "max_answers": 80}
    with dc.StatisticalDatabase(frame, columns=COLUMNS, policy=policy) as database:
        for person in range(40):
            cell = Condition("id", "between", (person, person + 59))
            rest = Condition("id", "between", (person + 1, person + 59))
            total, less = (
                database.ask(Query("data", (Aggregate("sum", "income"),), where)).frame.item() for where in (cell, rest)
            )
            errors.append(abs(total - less - frame["income"][person]))
    assert np.median(errors) > frame["income"].std()  # type: ignore[operator]


def test_yes_or_no_is_refused_where_it_would_be_reconstructed() -> None:
    """Why perturbed sums of yes and no are not offered: changed by up to two, 2n of them tell nearly everybody."""
    people = 60
    frame = table(people, people)
    for policy in (PERTURBED, {"mode": "exact+audit"}, {"mode": "exact+audit", "interval_audit": True}):
        assert attack(frame, "ill", policy).refused == 2 * people
    values = frame["ill"].cast(pl.Float64).to_numpy()
    change = Perturbation(PerturbedPolicy(mode="perturbed"), CellKeys(b"sixteen bytes or more", "t"))
    sets = np.array(list(islice(attackers.random_sets(people, np.random.default_rng(1)), 2 * people)), np.int64)
    sums = [change.total(values[mask > 0], 0.0, np.flatnonzero(mask), people, "sum ill", whole=True) for mask in sets]
    found = attackers.linear_program(sets, np.array(sums), 0, 1)
    assert right(found, values) > best_guess(values) + 0.05
