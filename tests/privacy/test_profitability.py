"""The game of publisher and attacker: by its definition, class by class, and in searches at every node."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.anonymize import anonymize
from discretion.anonymize.problem import SearchProblem, Settings
from discretion.errors import Infeasible, PlanError
from tests.anonymize.naive import Problem
from tests.anonymize.small import COLUMNS, TABLES, dataset, frame

AMOUNTS = {"benefit": 10.0, "loss": 25.0, "gain": 30.0, "cost": 6.0}


def played(
    table: pl.DataFrame, levels: tuple[int, ...], everybody: pl.DataFrame | None, attacks: str
) -> dict[tuple[str, ...], tuple[int, float, bool]]:
    """Give each class its size, the payout of a record, and whether it stands."""
    problem = Problem(table.to_dicts(), TABLES)
    sizes = Counter(problem.labels(levels))
    people = sizes if everybody is None else Counter(Problem(everybody.to_dicts(), TABLES).labels(levels))
    whole = sum(math.log(len(rows)) for rows in TABLES.values())
    found = {}
    for label, size in sizes.items():
        covered = sum(math.log(problem.leaves(j, levels[j])[label[j]]) for j in range(len(levels)))
        chance = 1 / people[label]
        attacked = AMOUNTS["gain"] * chance > AMOUNTS["cost"]
        payout = AMOUNTS["benefit"] * (1 - covered / whole) - (AMOUNTS["loss"] * chance if attacked else 0)
        found[label] = size, payout, payout > 1e-9 and not (attacked and attacks == "none")
    return found


def bigger(seed: int) -> pl.DataFrame:
    return pl.concat([frame(seed), frame(seed + 50), frame(seed + 51)])


@pytest.mark.parametrize("journalist", [False, True])
@pytest.mark.parametrize("attacks", ["none", "allowed"])
def test_payouts_of_a_release(attacks: str, journalist: bool) -> None:
    for seed, levels in product(range(3), [(0, 0, 0), (1, 1, 0), (2, 0, 1), (3, 2, 1)]):
        everybody = bigger(seed) if journalist else None
        model = dc.Profitability(**AMOUNTS, attacks=attacks, population=everybody)
        raised = {name: level for name, level in zip(COLUMNS, levels, strict=True) if level}
        data = dataset(frame(seed))
        released = dc.Generalize(levels=raised)(data) if raised else data
        verdict = model(released)
        want = played(frame(seed), levels, everybody, attacks)
        assert verdict.value == pytest.approx(min(payout for _, payout, _ in want.values()), abs=1e-9)
        assert verdict.failing_count == sum(not stands for _, _, stands in want.values())
        assert verdict.failing_records == sum(size for size, _, stands in want.values() if not stands)
        assert verdict.detail["payout"] == pytest.approx(sum(size * payout for size, payout, _ in want.values()))


@pytest.mark.parametrize("journalist", [False, True])
@pytest.mark.parametrize("attacks", ["none", "allowed"])
@pytest.mark.parametrize("limit", [0.0, 0.2, 1.0])
def test_payout_as_a_loss(attacks: str, journalist: bool, limit: float) -> None:
    for seed in range(3):
        table, everybody = frame(seed), bigger(seed) if journalist else None
        best = None
        for levels in product(*(range(len(rows[0])) for rows in TABLES.values())):
            classes = played(table, levels, everybody, attacks)
            kept = {label: (size, payout) for label, (size, payout, stands) in classes.items() if stands}
            gone = len(table) - sum(size for size, _ in kept.values())
            missed = AMOUNTS["benefit"] * len(table) - sum(size * payout for size, payout in kept.values())
            if kept and gone <= math.floor(limit * len(table) + 1e-9) and (best is None or missed < best):
                best = missed
        model = dc.Profitability(**AMOUNTS, attacks=attacks, population=everybody)
        try:
            got = anonymize(dataset(table), [model], loss="payout", suppression_limit=limit)
        except Infeasible:
            assert best is None
            continue
        assert best is not None and got.proven
        assert got.score == pytest.approx(best, rel=1e-9)
        paid = model(got.dataset).detail["payout"]
        assert AMOUNTS["benefit"] * len(table) - paid == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("attacks", ["none", "allowed"])
def test_bounds_of_the_payout_hold_for_every_node(attacks: str) -> None:
    for seed in range(3):
        model = dc.Profitability(**AMOUNTS, attacks=attacks)
        explorer = SearchProblem(
            dataset(frame(seed)), Settings((model,), loss="payout", suppression_limit=1.0)
        ).explore()  # fmt: skip
        steps = np.array(list(product(*map(range, explorer.records.shape))))
        floors, bounds = explorer.loss.floor_everywhere(), explorer.bounds(steps)
        for row, bound in zip(map(tuple, steps.tolist()), bounds.tolist(), strict=True):
            node = explorer.look_at(row)
            knowing = explorer.bounds_given(np.array([row]), np.array([node.suppressed]))
            assert max(float(floors[row]), bound, float(knowing[0])) <= node.score * (1 + 1e-9)


def test_nobody_attacks_for_nothing() -> None:
    free = dc.Profitability(benefit=1, loss=0, gain=5, cost=0, attacks="allowed")
    assert free(dataset(frame(0))).holds
    safe = dc.Profitability(benefit=1, loss=9, gain=0, cost=0)
    assert safe(dataset(frame(0))).value == 1.0


def test_errors_name_what_is_lacking() -> None:
    with pytest.raises(PlanError, match="needs one model profitability"):
        anonymize(dataset(frame(0)), [dc.KAnonymity(k=2)], loss="payout")
    with pytest.raises(PlanError, match="optimal-generalization"):
        dc.Mondrian(columns=COLUMNS, models=[dc.Profitability(**AMOUNTS)])(dataset(frame(0)))
