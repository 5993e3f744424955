"""Lattices too large for a proof get a good answer in the time given, with a bound."""

from __future__ import annotations

from itertools import count, product
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.anonymize import anonymize, explorer
from discretion.anonymize.problem import SearchProblem, Settings


def many_columns(columns: int, rows: int = 400, seed: int = 0) -> dc.Dataset:
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(rows, 2))
    frame, tables = {}, {}
    for j in range(columns):
        score = hidden @ rng.normal(size=2) + rng.normal(size=rows)
        frame[f"c{j}"] = np.digitize(score, [-1.5, -0.5, 0, 0.5, 1.5]).astype(str)
        tables[f"c{j}"] = [[str(v), str(v // 2), "*"] for v in range(6)]
    roles = dict.fromkeys(frame, "quasi") | {"secret": "sensitive"}
    frame["secret"] = rng.choice(["a", "b", "c"], rows)
    return dc.Dataset(pl.DataFrame(frame), roles=roles, hierarchies=tables)


@pytest.fixture
def tiny_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every lattice as too large to list."""
    monkeypatch.setattr(explorer, "LISTED", 1)
    monkeypatch.setattr(explorer, "_PROVABLE", 100)


@pytest.mark.parametrize("limit", [0.0, 0.05, 1.0])
def test_walks_find_the_optimum_of_a_small_lattice(tiny_limits: None, limit: float) -> None:
    data = many_columns(5)
    found = anonymize(data, [dc.KAnonymity(k=5)], suppression_limit=limit, seconds=1.0)
    assert "not proven" in found.words or found.proven
    assert found.bound <= found.score
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explorer, "LISTED", 10**6)
        patch.setattr(explorer, "_PROVABLE", 10**6)
        best = anonymize(data, [dc.KAnonymity(k=5)], suppression_limit=limit)
    assert best.proven
    assert found.bound <= best.score + 1e-12
    assert found.score == pytest.approx(best.score, rel=0.05)


def test_time_limit_gives_an_answer_and_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count()
    clock = SimpleNamespace(monotonic=lambda: next(ticks) * 0.01)  # a look at the clock takes a hundredth of a second
    monkeypatch.setattr(explorer, "time", clock)
    data = many_columns(14, 2000)
    found = anonymize(data, [dc.KAnonymity(k=5)], suppression_limit=0.05, seconds=2.0)
    assert next(ticks) < 400, "it stopped when the time was over"
    assert found.space.nodes == 3**14
    assert dc.KAnonymity(k=5)(found.dataset).holds
    assert found.proven or ("not proven" in found.words and found.bound < found.score)


def test_large_lattice_that_cannot_be_listed() -> None:
    data = many_columns(20, 500)
    found = anonymize(data, [dc.KAnonymity(k=5)], suppression_limit=0.1, seconds=1.5)
    assert found.space.nodes == 3**20
    assert dc.KAnonymity(k=5)(found.dataset).holds
    assert not found.proven and 0 <= found.bound < found.score
    assert found.space.table().height == len(found.space)


def test_deferred_lessons_reach_the_nodes_below(monkeypatch: pytest.MonkeyPatch) -> None:
    data = many_columns(6)
    want = anonymize(data, [dc.KAnonymity(k=5)], suppression_limit=0.05)
    monkeypatch.setattr(explorer, "_PROMPT", 1)
    got = anonymize(data, [dc.KAnonymity(k=5)], suppression_limit=0.05)
    assert got.proven and got.score == want.score


def test_infeasible_large_lattice(tiny_limits: None) -> None:
    with pytest.raises(dc.Infeasible, match="k-anonymity fails"):
        anonymize(many_columns(5), [dc.KAnonymity(k=5)], levels={f"c{j}": [0, 1] for j in range(5)}, seconds=1.0)


@pytest.mark.parametrize("listed", [True, False])
def test_no_time_is_no_proof_that_nothing_satisfies(monkeypatch: pytest.MonkeyPatch, listed: bool) -> None:
    """At the top every record has lost all that it is worth; below, publishing pays."""
    if not listed:
        monkeypatch.setattr(explorer, "LISTED", 1)
    game = [dc.Profitability(benefit=100, loss=50, gain=60, cost=10, attacks="allowed")]
    assert anonymize(many_columns(3), game).score == 0
    with pytest.raises(dc.Infeasible, match=r"no generalization was found in this time.*were not looked at"):
        anonymize(many_columns(3), game, seconds=1e-9)
    low = {f"c{j}": [0, 0] for j in range(5)}
    with pytest.raises(dc.Infeasible, match=r"satisfies the models.*k-anonymity fails"):
        anonymize(many_columns(5), [dc.KAnonymity(k=50)], levels=low, seconds=1e-9)


@pytest.mark.parametrize("part", range(4))
def test_the_bound_is_never_above_the_optimum(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """200 small lattices, searched as large ones and stopped at any time, against all their nodes."""
    monkeypatch.setattr(explorer, "_PROVABLE", 10)
    monkeypatch.setattr(explorer, "_LOOK_AHEAD", 16)
    proven = stopped = 0
    for seed in range(50 * part, 50 * part + 50):
        rng = np.random.default_rng(seed)
        data = many_columns(int(rng.integers(3, 5)), int(rng.integers(30, 200)), seed)
        models = [
            [dc.KAnonymity(k=int(rng.integers(2, 9)))],
            [dc.AverageRisk(risk=float(rng.uniform(0.05, 0.4)))],
            [dc.TCloseness(t=0.3, distance="equal", sensitive=["secret"])],
        ][seed % 3]
        limit = float(rng.choice([0.0, 0.05, 0.3]))
        columns = [name for name in data.columns if name != "secret"]
        problem = SearchProblem(data, Settings(tuple(models), tuple(columns), suppression_limit=limit))
        explorer_of_all = problem.explore()
        nodes = [explorer_of_all.look_at(steps) for steps in product(*map(range, problem.records.shape))]
        best = min((node.score for node in nodes if node.holds), default=None)
        ticks = count()
        clock = SimpleNamespace(monotonic=lambda ticks=ticks: next(ticks) * 0.01)
        monkeypatch.setattr(explorer, "time", clock)
        found = explorer.search(problem.explore(), float(rng.uniform(0.03, 0.5)))
        if best is None:
            assert found.best is None
            continue
        assert found.bound <= best + 1e-12
        assert found.best is None or found.best.score >= best - 1e-12
        if found.proven:
            assert found.best is not None and found.best.score == pytest.approx(best, rel=1e-12)
        proven, stopped = proven + found.proven, stopped + (not found.proven)
    assert proven > 3 and stopped > 3


def test_progress_tells_what_was_found_and_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer, "_PROVABLE", 100)
    told: list[str] = []
    anonymize(
        many_columns(7, 2000),
        [dc.KAnonymity(k=5)],
        suppression_limit=0.05,
        seconds=3.0,
        progress=lambda done, total, label: told.append(label),
    )
    assert any(" found" in label for label in told)
    assert any("at least" in label for label in told)
