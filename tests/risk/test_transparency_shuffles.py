"""Columns dealt out by a model: what an intruder gains who knows the model, and what they tell of hidden columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc

KNOWN = ["age", "sex", "region"]
DEALT = ["tenure", "income"]


def staff(seed: int, n: int = 600) -> dc.Dataset:
    rng = np.random.default_rng(seed)
    age, sex = rng.integers(18, 70, n), rng.choice(["m", "f"], n)
    frame = pl.DataFrame(
        {
            "age": age,
            "sex": sex,
            "region": rng.choice(list("abc"), n),
            "tenure": np.maximum(age - 18 - rng.gamma(2, 3, n), 0).round(1),
            "income": np.exp(7 + 0.02 * age + 0.3 * (sex == "m") + rng.normal(0, 0.3, n)).round(),
        }
    )
    roles: Any = dict.fromkeys(KNOWN, "quasi") | dict.fromkeys(DEALT, "sensitive")
    return dc.Dataset(frame, roles=roles, hierarchies={"age": {"intervals": {"cuts": [[0, 30, 50, 100]]}}})


def made(data: dc.Dataset, *steps: Any, seed: int = 3) -> dc.Dataset:
    study = dc.Study(data, seed=seed)
    for step in steps:
        study = study.apply(step)
    return study.current


SHUFFLE = dc.Shuffle(columns=DEALT, predictors=KNOWN)
COARSER = dc.Generalize(levels={"age": 1})


def scores(values: Any) -> Any:
    """Normal scores of mean ranks, by scipy."""
    from scipy.stats import norm, rankdata

    return norm.ppf((rankdata(values) - 0.5) / len(values))


def by_hand(data: dc.Dataset, released: dc.Dataset) -> float:
    """Find people in their classes by Bayes' rule: how likely each dealt value is for each member, and for any."""
    frame, shown = data.frame, released.frame
    z = np.column_stack([scores(frame[name].to_numpy()) for name in DEALT])
    y = np.column_stack([scores(shown[name].to_numpy()) for name in DEALT])
    indicators = frame.select("sex", "region").to_dummies().to_numpy().astype(float)
    design = np.column_stack([scores(frame["age"].to_numpy()), indicators])
    expected = design @ np.linalg.lstsq(design, z, rcond=None)[0]
    inverse = np.linalg.inv(np.cov((z - expected).T))
    classes = shown.select(pl.concat_str(KNOWN))["age"].to_numpy()
    found = 0.0
    for label in np.unique(classes):
        rows = np.flatnonzero(classes == label)
        gaps = y[rows][None, :, :] - expected[rows][:, None, :]
        density = np.exp(-0.5 * np.einsum("ijk,kl,ijl->ij", gaps, inverse, gaps))  # person i, record j
        ratio = density / density.mean(axis=0)
        found += (ratio.argmax(axis=1) == np.arange(len(rows))).sum()
    return float(found / len(frame))


def test_the_attack_finds_as_many_as_a_hand_written_one() -> None:
    ours, theirs, plain = [], [], []
    for seed in range(6):
        data = staff(seed)
        released = made(data, SHUFFLE, COARSER, seed=seed)
        score = dc.DistanceLinkage(columns=[*KNOWN, *DEALT])(data, released)
        ours.append(score.value)
        theirs.append(by_hand(data, released))
        plain.append(score.detail["plain"])
        assert score.value == max(score.detail["plain"], score.detail["informed"], score.detail["eliminated"])
    assert np.mean(theirs) > 1.3 * np.mean(plain)  # it is worth knowing
    assert np.mean(ours) >= 0.95 * np.mean(theirs)


def test_who_knows_the_predictors_alone_uses_published_values() -> None:
    data = staff(1)
    released = made(data, SHUFFLE, COARSER)
    by_quasi, by_all = (dc.DistanceLinkage(columns=names)(data, released) for names in (KNOWN, [*KNOWN, *DEALT]))
    assert by_quasi.detail["informed"] == pytest.approx(by_all.detail["informed"])  # the own value tells nothing more
    assert by_quasi.value > 1.8 * by_quasi.detail["plain"]
    assert set(DEALT) <= set(by_quasi.detail["known_of"])
    assert "is not used" not in by_quasi.meaning
    ignoring = dc.DistanceLinkage(columns=KNOWN, intruder={"knows_method": False})(data, released)
    assert ignoring.value == by_quasi.detail["plain"]


def test_dealt_out_by_what_is_published_they_tell_nothing() -> None:
    data = staff(2)
    released = made(data, COARSER, SHUFFLE)
    alone = dc.DistanceLinkage(columns=KNOWN)(data, released)
    together = dc.DistanceLinkage(columns=[*KNOWN, *DEALT])(data, released)
    assert together.detail["informed"] == pytest.approx(alone.value)  # one in the size of the class


def test_coded_before_and_suppressed_after() -> None:
    data = staff(3)
    steps = [
        dc.TopCode(column="income", quantile=0.95),
        dc.Recode(column="age", cuts=[0, 25, 35, 45, 55, 65, 100]),
        SHUFFLE,
        dc.LocalSuppression(columns=KNOWN, k=4),
    ]
    score = dc.DistanceLinkage(columns=[*KNOWN, *DEALT])(data, made(data, *steps))
    assert all(score.detail["known_of"][name].startswith("shuffle") for name in DEALT)


def test_unknown_predictors_are_predicted_by_what_is_known() -> None:
    data = staff(4, 1500)
    released = made(data, dc.Shuffle(columns=["tenure"], predictors=["age"]), dc.DropIdentifiers(columns=["age"]))
    score = dc.DistanceLinkage(columns=["sex", "region", "income", "tenure"])(data, released)
    assert score.detail["known_of"]["tenure"].startswith("shuffle")
    assert score.detail["known_of"]["income"] == "not changed"


def test_stratified_shuffling_is_said_not_to_be_used() -> None:
    data = staff(5)
    released = made(data, dc.Shuffle(columns=DEALT, predictors=["age"], by=["sex"]))
    assert "dealt out by shuffle is not used" in dc.DistanceLinkage(columns=[*KNOWN, *DEALT])(data, released).meaning


def test_a_dealt_column_tells_a_hidden_predictor() -> None:
    data = staff(1)
    hidden = made(data, SHUFFLE, dc.DropIdentifiers(columns=["age"]))
    (one,) = dc.ColumnDependence()(data, hidden).detail["carried"]
    rank = np.corrcoef(scores(data.frame["age"].to_numpy()), scores(hidden.frame["tenure"].to_numpy()))[0, 1]
    assert one["column"] == "age"
    assert "tenure" in one["by"]
    assert one["correlation"] >= abs(rank) - 0.01
    assert "still tell" in dc.ColumnDependence()(data, hidden).meaning
    assert dc.ColumnDependence()(data, made(data, COARSER, SHUFFLE)).detail["carried"] == []
    kept = made(data, SHUFFLE)
    assert dc.ColumnDependence()(data, kept).detail["carried"] == []  # age is published as it is


def test_what_is_told_beyond_the_published_classes_counts() -> None:
    data = staff(1)
    released = made(data, SHUFFLE, COARSER)
    truth, own = scores(data.frame["age"].to_numpy()), released.frame["age"].to_numpy()
    told = np.column_stack([scores(released.frame[name].to_numpy()) for name in DEALT])
    for label in np.unique(own):
        truth[own == label] -= truth[own == label].mean()
        told[own == label] -= told[own == label].mean(axis=0)
    left = truth - told @ np.linalg.lstsq(told, truth, rcond=None)[0]
    by_hand = 1 - (left**2).sum() / (truth**2).sum() * (len(truth) - 1) / (len(truth) - 3)
    found = dc.ColumnDependence()(data, released).detail["carried"]
    assert [one["share"] for one in found] == pytest.approx([by_hand] if by_hand >= 0.5 else [])


def test_such_a_release_is_not_published_unless_confirmed(tmp_path: Path) -> None:
    data = staff(1)
    study = dc.Study(data, seed=3).apply(SHUFFLE).apply(dc.DropIdentifiers(columns=["age"]))
    with pytest.raises(dc.PlanError, match="still tells 'age'"):
        study.release(requirements=[dc.KAnonymity(k=2)]).write(tmp_path / "public", tmp_path / "private")
    study.release(requirements=[dc.KAnonymity(k=2)], confirmed_telling=DEALT).write(
        tmp_path / "public", tmp_path / "private"
    )
