"""A frequency table of classes is as good as its rows for whatever counts classes, and refused by the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.errors import DataError, PlanError
from discretion.part import Part

QUASI = ["region", "age", "sex", "job"]
ROLES = {**dict.fromkeys(QUASI, "quasi"), "disease": "sensitive"}
HIERARCHIES: dict[str, object] = {
    "age": dc.Hierarchy.intervals(width=10, levels=3),
    "region": dc.Hierarchy.masking(),
    "job": dc.Hierarchy.masking(),
}


def records(n: int = 3000, seed: int = 5, missing: float = 0.0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "region": rng.choice(["11", "12", "21", "22"], n, p=[0.4, 0.3, 0.2, 0.1]),
            "age": rng.integers(20, 60, n),
            "sex": rng.choice(["f", "m"], n),
            "job": rng.choice(["aa", "ab", "b"], n, p=[0.6, 0.3, 0.1]),
            "disease": rng.choice(["flu", "cold", "hiv"], n, p=[0.5, 0.4, 0.1]),
        }
    )
    if missing:
        gone = pl.Series(rng.random(n) < missing)
        frame = frame.with_columns(pl.when(gone).then(None).otherwise(pl.col("job")).alias("job"))
    return frame


def both(frame: pl.DataFrame) -> tuple[dc.Dataset, dc.Dataset]:
    """Give the rows, and their classes in the order of first appearance."""
    classes = frame.group_by(*frame.columns, maintain_order=True).len("n")
    options: dict[str, Any] = {"roles": ROLES, "hierarchies": HIERARCHIES}
    return dc.Dataset(frame, **options), dc.Dataset(classes, counts="n", **options)


MODELS: list[Any] = [
    dc.KAnonymity(k=3),
    dc.KAnonymity(k=3, missing="ignore"),
    dc.KAnonymity(k=3, missing="wildcard"),
    dc.KAnonymity(k=3, missing="wildcard", alpha=0.5),
    dc.DistinctLDiversity(l=2),
    dc.EntropyLDiversity(l=1.5),
    dc.RecursiveLDiversity(l=2, c=3),
    dc.TCloseness(t=0.3, distance="equal"),
    dc.BetaLikeness(beta=2),
    dc.DeltaDisclosure(delta=2),
    dc.AlphaK(alpha=0.8, k=3),
    dc.PSensitive(p=2, k=3),
    dc.AverageRisk(risk=0.2),
    dc.SampleUniquenessBound(share=0.1),
    dc.PopulationUniquenessBound(share=0.01, sampling_fraction=0.1),
]


@pytest.mark.parametrize("missing", [0.0, 0.05])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.kind)
def test_models_judge_classes_like_rows(model: Any, missing: float) -> None:
    rows, classes = both(records(missing=missing))
    one, other = model(rows), model(classes)
    assert (one.holds, one.failing_count, one.failing_records) == (
        other.holds,
        other.failing_count,
        other.failing_records,
    )
    assert one.value == pytest.approx(other.value, rel=1e-12)
    assert {tuple(c.key.items()): c.size for c in one.failing} == {tuple(c.key.items()): c.size for c in other.failing}


MEASURES: list[Any] = [
    dc.SampleUniqueness(),
    dc.SampleUniqueness(share=0.1),
    dc.AttackerRisk(),
    dc.AttackerRisk(attacker="marketer"),
    dc.PopulationUniqueness(share=0.1),
    dc.QuasiIdentifiers(),
]


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.kind)
def test_measures_count_records_not_rows(measure: Any) -> None:
    rows, classes = both(records())
    one, other = measure(rows), measure(classes)
    assert other.value == pytest.approx(one.value, rel=1e-12)
    assert other.detail["records"] == one.detail["records"] == 3000
    for name in ("unique_records", "mean_risk", "records_at_risk", "share_at_highest", "chance"):
        if name in one.detail:
            assert other.detail[name] == pytest.approx(one.detail[name], rel=1e-12)


@pytest.mark.parametrize("loss", ["loss", "discernibility", "entropy", "kl", "kl-arx", "aecs", "ambiguity"])
@pytest.mark.parametrize("limit", [0.0, 0.03])
def test_the_search_finds_the_same_on_classes(loss: Any, limit: float) -> None:
    rows, classes = both(records())
    models = [dc.KAnonymity(k=4), dc.DistinctLDiversity(l=2)]
    one, other = (
        dc.anonymize(data, models=models, loss=loss, suppression_limit=limit, columns=QUASI) for data in (rows, classes)
    )
    assert (other.levels, other.suppressed, other.proven) == (one.levels, one.suppressed, one.proven)
    assert other.score == pytest.approx(one.score, rel=1e-9)
    assert other.dataset.records == len(one.dataset)
    assert other.dataset.lost_records == one.dataset.lost_records
    counted = other.dataset.to_native().group_by(*rows.columns).agg(pl.col("n").sum()).sort(pl.all())
    assert counted.equals(one.dataset.frame.group_by(*rows.columns).len("n").sort(pl.all()).cast(counted.schema))


def test_steps_that_only_recode_keep_the_counts() -> None:
    rows, classes = both(records())
    step = dc.Generalize(levels={"age": 1})
    one, other = step(rows), step(classes)
    assert other.records == len(one) and dc.KAnonymity(k=5)(other).value == dc.KAnonymity(k=5)(one).value
    assert "3000 records in" in repr(other)


@pytest.mark.parametrize(
    "part",
    [
        dc.Mdav(columns=["age"], k=3),
        dc.AdditiveNoise(columns=["age"], sd_share=0.2),
        dc.TopCode(column="age", quantile=0.9),
        dc.Pram(columns=["job"], keep_share=0.8),
        dc.Round(columns=["age"], base=7, how="random"),
        dc.Mse(columns=["age"]),
    ],
    ids=lambda part: part.kind,
)
def test_what_needs_every_record_says_so(part: Part) -> None:
    _, classes = both(records(missing=0.05))
    with pytest.raises(DataError, match="needs every record"):
        part(classes, seed=1) if part.family == "method" else part(classes, classes)  # type: ignore[operator]


@pytest.mark.parametrize("wrong", [[0, 1], [-1, 2], [1.0, 2.0], [None, 1]])
def test_counts_are_whole_and_positive(wrong: list[Any]) -> None:
    with pytest.raises(DataError, match="whole numbers of at least 1"):
        dc.Dataset(pl.DataFrame({"a": ["x", "y"], "n": wrong}), counts="n")
    with pytest.raises(PlanError, match="did you mean 'n'"):
        dc.Dataset(pl.DataFrame({"a": ["x"], "n": [1]}), counts="nn")
