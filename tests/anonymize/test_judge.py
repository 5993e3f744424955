"""Nodes judged in kernels are judged as by the models, and bounds hold at every node of small lattices."""

from __future__ import annotations

import zlib
from itertools import combinations, product

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.anonymize import anonymize, records
from discretion.anonymize.problem import SearchProblem, Settings
from discretion.errors import Infeasible
from discretion.privacy.class_table import ClassModel

from .small import COLUMNS, TABLES, frame

ILLNESSES = [["cold", "short", "*"], ["flu", "short", "*"], ["gout", "long", "*"], ["none", "none", "*"]]
LIMITS = (0.0, 0.05, 0.25, 1.0)
ILL, PAID = {"sensitive": ["illness"]}, {"sensitive": ["income"]}


def table(seed: int, rows: int = 120) -> pl.DataFrame:
    rng = np.random.default_rng([seed, 1])
    return frame(seed, rows).with_columns(income=pl.Series(rng.integers(0, 9, rows)))


def data(seed: int) -> dc.Dataset:
    roles = dict.fromkeys(COLUMNS, "quasi") | {"illness": "sensitive", "income": "sensitive"}
    return dc.Dataset(table(seed), roles=roles, hierarchies={**TABLES, "illness": ILLNESSES})


def population() -> pl.DataFrame:
    return pl.concat([table(seed) for seed in range(6)])


MODELS: dict[str, list[ClassModel]] = {
    "equal": [dc.TCloseness(t=0.3, distance="equal", **ILL)],
    "ordered": [dc.TCloseness(t=0.15, distance="ordered", **PAID)],
    "hierarchical": [dc.KAnonymity(k=3), dc.TCloseness(t=0.25, distance="hierarchical", **ILL)],
    "beta": [dc.BetaLikeness(beta=1, **ILL)],
    "beta of both": [dc.BetaLikeness(beta=2, enhanced=False)],
    "delta": [dc.DeltaDisclosure(delta=1.5, absent="ignore", **ILL)],
    "strict delta": [dc.DeltaDisclosure(delta=2, **ILL)],
    "alpha": [dc.AlphaK(alpha=0.6, k=2, **ILL)],
    "entropy": [dc.EntropyLDiversity(l=2.5, **ILL)],
    "recursive": [dc.RecursiveLDiversity(c=1.5, l=3, **ILL)],
    "distinct": [dc.DistinctLDiversity(l=3, **ILL), dc.PSensitive(p=2, k=4, **PAID)],
    "estimated": [dc.EstimatedEntropyLDiversity(l=3, **ILL)],
    "average": [dc.AverageRisk(risk=0.2)],
    "unique": [dc.SampleUniquenessBound(share=0.05)],
    "people": [dc.PopulationUniquenessBound(share=0.02, population_size=720, estimator="zayatz")],
    "map": [dc.KMap(k=9, population=population())],
    "presence": [dc.DeltaPresence(delta_max=0.2, population=population())],
    "game": [dc.Profitability(benefit=10, loss=20, gain=20, cost=4)],
    "game with attacks": [dc.Profitability(benefit=10, loss=20, gain=20, cost=4, attacks="allowed")],
    "game and population": [dc.Profitability(benefit=10, loss=90, gain=90, cost=4, population=population())],
    "several": [
        dc.KAnonymity(k=2),
        dc.TCloseness(t=0.4, distance="ordered", **PAID),
        dc.BetaLikeness(beta=3, **ILL),
        dc.EntropyLDiversity(l=2, **ILL),
    ],
    "classes and whole": [
        dc.AverageRisk(risk=0.3),
        dc.TCloseness(t=0.4, distance="equal", **ILL),
        dc.KMap(k=5, population=population()),
        dc.SampleUniquenessBound(share=0.02),
    ],
}


@pytest.fixture(params=["dense", "sparse"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "sparse":
        monkeypatch.setattr(records, "_VALUES", 0)
    return str(request.param)


def below(grid: np.ndarray) -> np.ndarray:
    """Give each node the largest figure of the nodes above it and itself."""
    result = grid.copy()
    for axis in range(grid.ndim):
        downward = np.flip(result, axis)
        np.maximum.accumulate(downward, axis=axis, out=downward)
    return result


@pytest.mark.parametrize("name", MODELS)
def test_every_node(name: str, form: str) -> None:
    for seed in range(2):
        problem = SearchProblem(data(seed), Settings(tuple(MODELS[name]), tuple(COLUMNS), suppression_limit=1.0))
        assert (problem.roll.base.table is None) == (form == "sparse" or not problem.records.sensitive)
        shape = problem.records.shape
        suppressed, least = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for steps in product(*map(range, shape)):
            judged = problem.judge.judge(steps, problem.records.n)
            classes, numbers = problem.roll.numbered(steps)
            want = problem.judge.suppressed(steps, classes, numbers)
            np.testing.assert_array_equal(judged.gone, want)
            assert judged.complete
            suppressed[steps], least[steps] = classes.counts[want].sum(), judged.least
            for allowed in (0, 6, 40):
                quick = problem.judge.judge(steps, allowed)
                assert quick.least <= judged.least
                assert quick.complete or suppressed[steps] > allowed
        assert (below(least) <= suppressed).all()
        assert (problem.explore().projections.least_everywhere() <= suppressed).all()


@pytest.mark.parametrize("loss", ["loss", "discernibility"])
@pytest.mark.parametrize("name", MODELS)
def test_the_optimum_is_that_of_all_nodes(name: str, loss: str, form: str) -> None:
    for seed, limit in product(range(2), LIMITS):
        problem = SearchProblem(data(seed), Settings(tuple(MODELS[name]), tuple(COLUMNS), loss, limit))  # type: ignore[arg-type]
        explorer = problem.explore()
        nodes = [explorer.look_at(steps) for steps in product(*map(range, problem.records.shape))]
        best = min((node.score for node in nodes if node.holds), default=None)
        try:
            got = anonymize(data(seed), MODELS[name], columns=COLUMNS, loss=loss, suppression_limit=limit)
        except Infeasible:
            assert best is None
            continue
        assert best is not None and got.proven
        assert got.score == pytest.approx(best, rel=1e-12, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_every_pair_of_models(name: str) -> None:
    """Bounds hold at every node, and the optimum is that of all nodes, for each model together with each other one."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    for _, other in (pair for pair in combinations(MODELS, 2) if pair[0] == name):
        models = (*MODELS[name], *MODELS[other])
        people, limit = data(int(rng.integers(20))), float(rng.choice(LIMITS))
        try:
            problem = SearchProblem(people, Settings(models, tuple(COLUMNS), suppression_limit=limit))
        except Infeasible:
            continue
        explorer, shape = problem.explore(), problem.records.shape
        suppressed, least = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        scores = []
        for steps in product(*map(range, shape)):
            judged, node = problem.judge.judge(steps, problem.records.n), explorer.look_at(steps)
            gone = problem.judge.suppressed(steps, *problem.roll.numbered(steps))
            np.testing.assert_array_equal(judged.gone, gone)
            suppressed[steps] = problem.roll.classes(steps).counts[gone].sum()
            least[steps] = judged.least
            scores += [node.score] if node.holds else []
        assert (below(least) <= suppressed).all(), (name, other)
        try:
            got = anonymize(people, models, columns=COLUMNS, suppression_limit=limit)
        except Infeasible:
            assert not scores, (name, other)
            continue
        assert got.proven and got.score == pytest.approx(min(scores), rel=1e-12, abs=1e-12), (name, other)


def test_where_nothing_is_learned_nodes_are_tried_in_the_order_of_their_loss() -> None:
    model = dc.PopulationUniquenessBound(share=0.005, population_size=720, estimator="zayatz")
    got = anonymize(data(0), [model], columns=COLUMNS)
    problem = SearchProblem(data(0), Settings((model,), tuple(COLUMNS)))
    floor = problem.loss.floor_everywhere()
    assert got.proven and got.space.nodes > len(got.space) > 1
    assert len(got.space) <= (floor <= got.score + 1e-12).sum()
    assert all(not node.holds or node.score >= got.score for node in got.space.evaluated())
