"""Real processes over mutual TLS: what they find, what is opened on the way, and how bytes are sent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from discretion.errors import PlanError
from discretion.parties.session import run_party
from tests.parties.harness import Parties, people

ALL = [
    {"count": {}},
    {"sum": {"column": "income"}},
    {"mean": {"columns": ["age", "income"], "decimals": 8}},
    {"variance": {"columns": ["age", "income"], "decimals": 5}},
    {"covariance": {"columns": ["age", "income"], "decimals": 5}},
    {"correlation": {"columns": ["age", "income"], "decimals": 6}},
    {"quantile": {"column": "age"}},
    {"linear-regression": {"target": "income", "on": ["age", "sex"], "decimals": 6}},
]
OPENED = [
    ("sizes and rules hold", 1), ("count", 1), ("sum", 1), ("mean", 2), ("variance", 2), ("covariance", 3),
    ("correlation: every column varies", 1), ("correlation", 1),
    *[("quantile digit", 1)] * 7,
    ("linear-regression: the columns determine the coefficients", 1), ("linear-regression", 3),
]  # fmt: skip
"""Every value that three hospitals open for ALL, in order: the security argument is MPyC's and this list."""


def logistic(design: np.ndarray, y: np.ndarray) -> np.ndarray:
    beta = np.zeros(design.shape[1])
    for _ in range(25):
        p = 1 / (1 + np.exp(-design @ beta))
        beta += np.linalg.solve((design.T * (p * (1 - p))) @ design, design.T @ (y - p))
    return beta


def test_three_hospitals_find_what_the_pooled_file_says_and_open_nothing_else(tmp_path: Path) -> None:
    parties = Parties(tmp_path, ALL, [people(400 + 50 * k, k) for k in range(3)])
    found = parties.run()
    results = {name: one["statistics"] for name, one in found.items()}
    assert results["hospital-a"] == results["hospital-b"] == results["hospital-c"]
    for one in found.values():
        assert [(item["label"], item["values"]) for item in one["opened"]] == OPENED
        assert one["left"] == [] and one["bytes_sent"] > 100_000
    by_kind = {one["kind"]: one for one in results["hospital-a"]}
    frame = parties.pooled
    age, income = frame["age"].to_numpy(), frame["income"].to_numpy()
    male = (frame["sex"] == "m").to_numpy().astype(float)
    assert by_kind["count"]["people"] == frame.height
    assert by_kind["sum"]["sum"] == pytest.approx(income.sum(), abs=1e-6)
    assert list(by_kind["mean"]["mean"].values()) == pytest.approx([age.mean(), income.mean()], abs=1e-8)
    assert list(by_kind["variance"]["variance"].values()) == pytest.approx(
        [age.var(ddof=1), income.var(ddof=1)], abs=1e-5
    )
    assert np.allclose(by_kind["covariance"]["covariance"], np.cov(age, income), atol=1e-5, rtol=0)
    assert np.allclose(by_kind["correlation"]["correlation"], np.corrcoef(age, income), atol=1e-6, rtol=0)
    assert by_kind["quantile"]["quantile"] == np.sort(age)[(len(age) + 1) // 2 - 1]
    design = np.c_[np.ones(len(age)), age, male]
    linear = np.linalg.lstsq(design, income, rcond=None)[0]
    assert list(by_kind["linear-regression"]["coefficients"].values()) == pytest.approx(linear, abs=1e-6)


def test_cells_between_processes(tmp_path: Path) -> None:
    """A cell is told where every party that subtracts its own is left with enough people of the others."""
    sizes = {"n": (200, 200, 200), "s": (20, 3, 3), "w": (20, 6, 4), "e": (160, 191, 193)}
    frames = [
        pl.DataFrame({"region": [name for name, counts in sizes.items() for _ in range(counts[k])]}) for k in range(3)
    ]
    columns = {"region": {"categories": list(sizes)}}
    parties = Parties(tmp_path, [{"table": {"by": ["region"], "at_least": 10}}], frames, columns=columns)
    for one in parties.run().values():
        assert one["statistics"][0]["people"] == [600, None, 30, 544]  # 26 in s would tell a that the others have 6
        assert [(item["label"], item["values"]) for item in one["opened"]] == [
            ("sizes and rules hold", 1),
            ("table", 4),
        ]


@pytest.mark.parametrize(("children", "told"), [(59, False), (40, True)])
def test_a_quantile_has_people_of_the_others_on_both_sides(children: int, told: bool, tmp_path: Path) -> None:
    """A hospital of 59 children beside 60 adults would read the age of the youngest adult from the median."""
    ages = [[1] * children, list(range(40, 70)), list(range(40, 70))]
    frames = [people(len(own), k).with_columns(pl.Series("age", own)) for k, own in enumerate(ages)]
    found = (parties := Parties(tmp_path, [{"quantile": {"column": "age"}}], frames)).finish(parties.start())
    for one in found.values():
        if told:
            assert one["statistics"][0]["quantile"] == np.sort(np.concatenate(ages))[49] == 44
        else:
            assert one["type"] == "RequirementNotMet" and "too few people are on one side" in one["error"]


@pytest.mark.slow
def test_logistic_regression_between_processes(tmp_path: Path) -> None:
    logit = {"logistic-regression": {"target": "ill", "on": ["sex", "grade"], "decimals": 6}}
    parties = Parties(tmp_path, [logit], [people(400, k) for k in range(3)], time_out=120)
    found = parties.run()
    frame = parties.pooled
    design = np.c_[np.ones(frame.height), (frame["sex"] == "m").to_numpy(), frame["grade"].to_numpy()]
    fitted = logistic(design, (frame["ill"] == "yes").to_numpy().astype(float))
    for one in found.values():
        assert list(one["statistics"][0]["coefficients"].values()) == pytest.approx(fitted, abs=1e-6)
        assert [item["label"] for item in one["opened"]] == [
            "sizes and rules hold", "logistic-regression: the fit converged", "logistic-regression",
        ]  # fmt: skip


def test_five_hospitals_tolerate_coalitions_of_two(tmp_path: Path) -> None:
    mean = [{"mean": {"columns": ["age"], "decimals": 6}}, {"count": {}}]
    parties = Parties(tmp_path, mean, [people(100 + k, k) for k in range(5)])
    found = parties.run()
    means = {one["statistics"][0]["mean"]["age"] for one in found.values()}
    assert means == {round(float(parties.pooled["age"].mean()), 6)}  # type: ignore[arg-type]


def test_noise_is_added_once_and_is_the_same_for_all(tmp_path: Path) -> None:
    frames = [people(200, k) for k in range(3)]
    parties = Parties(tmp_path, [{"sum": {"column": "age"}}, {"table": {"by": ["sex"]}}], frames, noise={"epsilon": 20})
    found = parties.run()
    assert len({str(one["statistics"]) for one in found.values()}) == 1
    total = found["hospital-a"]["statistics"][0]["sum"]
    truth = float(parties.pooled["age"].sum())
    assert abs(total - truth) < 120 / 10 * 60  # sensitivity 120, ε = 10: beyond 60 scales with probability e^-40


def test_an_intersection_of_two_parties(tmp_path: Path) -> None:
    from discretion.parties.agreement import Agreement, sign_agreement
    from discretion.parties.intersection import commit

    one = pl.DataFrame({"id": [f"{i:05d}x" for i in range(300)] + ["00001x "] * 5})
    two = pl.DataFrame({"id": [f"{i:05d}x" for i in range(100, 420)]})
    parties = Parties(
        tmp_path, [{"intersection": {"column": "id", "epsilon": None}}], [one, two], sign=False, columns={}
    )
    agreement = Agreement.load(parties.path)
    for name in parties.names:
        made = commit(parties.path, name, agreement, tmp_path / f"{name}.csv")
        sign_agreement(parties.path, name, tmp_path / f"{name}.key", made)
    with pytest.raises(PlanError, match="run it without --data"):
        run_party(parties.path, "hospital-a", tmp_path / "hospital-a.csv")
    found = parties.run()
    assert [one["statistics"][0]["intersection"] for one in found.values()] == [200, 200]
    assert [item["label"] for item in found["hospital-b"]["opened"]] == [
        "number of identifiers of hospital-a", "size of the intersection",
    ]  # fmt: skip
