"""Microaggregation inside the classes of a search: by definition, and the golden cases of ARX."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.anonymize import anonymize
from discretion.errors import DataError, PlanError
from tests.shared import reference

from .small import TABLES, frame
from .test_peers_arx import data_of, golden, hierarchies

REST = {name: rows for name, rows in TABLES.items() if name != "age"}
COLUMNS = ["age", "town", "sex"]


def data(seed: int, **more: object) -> dc.Dataset:
    table = frame(seed, 60).with_columns(pl.col("age").cast(pl.Int64) + 1).with_columns(**more)  # type: ignore[arg-type]
    tables = {**REST, "age": [[str(int(row[0]) + 1), *row[1:]] for row in TABLES["age"]]}
    return dc.Dataset(table, roles=dict.fromkeys(COLUMNS, "quasi"), hierarchies=tables)


def best_score(table: pl.DataFrame, k: int, limit: float) -> float:
    """Try all levels of the columns that divide the classes; a class loses the different ages it has, over all."""
    n, best = len(table), math.inf
    ages = table["age"].to_list()
    for levels in product(*(range(len(rows[0])) for rows in REST.values())):
        up = {name: {row[0]: row[level] for row in REST[name]} for name, level in zip(REST, levels, strict=True)}
        labels = [tuple(up[name][row[name]] for name in REST) for row in table.to_dicts()]
        sizes = Counter(labels)
        gone = [sizes[label] < k for label in labels]
        if sum(gone) > math.floor(limit * n + 1e-9) or all(gone):
            continue
        different = {label: len({ages[i] for i in range(n) if labels[i] == label}) for label in sizes}
        losses = [sum(1.0 if g else different[la] / len(set(ages)) for g, la in zip(gone, labels, strict=True)) / n]
        for (name, rows), level in zip(REST.items(), levels, strict=True):
            leaves = Counter(row[level] for row in rows)
            values = [up[name][value] for value in table[name].to_list()]
            cost = sum(1.0 if g else leaves[v] / len(rows) for g, v in zip(gone, values, strict=True))
            losses.append(math.floor((cost - n / len(rows)) / (n - n / len(rows)) * 1e10 + 1e-4) / 1e10)
        best = min(best, math.prod(1 + loss for loss in losses) ** (1 / len(losses)) - 1)
    return best


@pytest.mark.parametrize("limit", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_optimum(seed: int, limit: float) -> None:
    people = data(seed)
    got = anonymize(people, [dc.KAnonymity(k=4)], columns=COLUMNS, suppression_limit=limit, summarize={"age": "mean"})
    assert got.proven and list(got.levels) == ["town", "sex"]
    assert got.score == pytest.approx(best_score(people.frame, 4, limit), rel=1e-9)
    assert dc.KAnonymity(k=4, columns=COLUMNS)(got.dataset).holds


def figures(ages: list[int], kind: str) -> object:
    if kind == "mean":
        return round(float(np.mean(ages)))
    if kind == "geometric-mean":
        return round(math.exp(float(np.mean(np.log(ages)))))
    if kind == "median":
        return round(float(np.median(ages)))
    different = [str(age) for age in sorted(set(ages))]
    if kind == "set":
        return "{" + ", ".join(different) + "}"
    return different[0] if len(different) == 1 else f"[{different[0]}, {different[-1]}]"


@pytest.mark.parametrize("cluster", [[], ["age"]])
@pytest.mark.parametrize("kind", ["mean", "geometric-mean", "median", "interval", "set"])
def test_every_class_gets_one_summary_of_its_own_values(kind: str, cluster: list[str]) -> None:
    people = data(1)
    got = anonymize(
        people, [dc.KAnonymity(k=4)], columns=COLUMNS, suppression_limit=0.1, summarize={"age": kind}, cluster=cluster
    )
    released = got.dataset
    original = people.frame["age"].to_numpy()[released.row_ids]
    keys = released.frame.select("town", "sex").rows()
    if cluster:
        plain = dc.Generalize(levels={"age": got.levels["age"]})(people) if got.levels["age"] else people
        ages = [str(age) for age in plain.frame["age"].to_list()]
        keys = [(*key, ages[row]) for key, row in zip(keys, released.row_ids.tolist(), strict=True)]
    for key in set(keys):
        members = [i for i, other in enumerate(keys) if other == key]
        published = set(released.frame["age"].gather(members).to_list())
        assert published == {figures(original[members].tolist(), kind)}
    assert dc.KAnonymity(k=4, columns=COLUMNS)(released).holds


@pytest.mark.parametrize("kind", ["mean", "median", "interval", "set"])
def test_missing_values_take_the_summary_of_their_class_unless_it_is_about_few(kind: str) -> None:
    """A mean of a class in which one person has a value is that person's value."""
    few = 0
    for seed, every in ((2, 5), (3, 2), (4, 2)):
        gaps = pl.when(pl.int_range(pl.len()) % every == 0).then(None).otherwise("age")
        people = data(seed, age=gaps)
        got = anonymize(people, [dc.KAnonymity(k=4)], columns=COLUMNS, suppression_limit=0.2, summarize={"age": kind})
        table = got.dataset.frame.with_columns(true=people.frame["age"].gather(got.dataset.row_ids))
        for values in table.partition_by("town", "sex"):
            known = values["true"].drop_nulls()
            assert (values["age"].null_count() == len(values)) == (len(known) < 4)
            assert values["age"].n_unique() == 1
            few += 0 < len(known) < 4
        hidden = got.dataset.suppressed("age")
        assert (hidden <= got.dataset.frame["age"].is_null().to_numpy()).all()
        assert dc.KAnonymity(k=4, columns=COLUMNS)(got.dataset).holds
    assert few


def test_summaries_are_about_k_different_households() -> None:
    """Two members of one household have an age in the first class; their mean would be about that household."""
    table = pl.DataFrame({"home": [1, 1, 2, 3, 3, 4], "age": [30, 40, None, 50, 60, 70], "sex": [*"fffmmm"]})
    people = dc.Dataset(table, roles={"home": "household", "age": "quasi", "sex": "quasi"})
    got = anonymize(people, [dc.KAnonymity(k=2)], summarize={"age": "mean"})
    assert got.dataset.frame["age"].to_list() == [None] * 3 + [60] * 3
    assert got.dataset.suppressed("age").tolist() == [True] * 3 + [False] * 3
    by_record = anonymize(people, [dc.KAnonymity(k=2, count="records")], summarize={"age": "mean"})
    assert by_record.dataset.frame["age"].to_list() == [35] * 3 + [60] * 3


def test_means_are_not_called_true() -> None:
    models = [{"k-anonymity": {"k": 2}}]
    assert dc.OptimalGeneralization(models=models, summarize={"age": "mean"}).perturbs  # type: ignore[arg-type]
    assert not dc.OptimalGeneralization(models=models, summarize={"age": "interval"}).perturbs  # type: ignore[arg-type]
    step = dc.OptimalGeneralization(models=[dc.KAnonymity(k=4)], columns=COLUMNS, summarize={"age": "mean"})
    report = dc.Study(data(1), seed=1).apply(step).report(dc.SampleUniqueness(columns=COLUMNS))
    assert "mean of its class" in str(report)


def test_a_found_solution_is_a_step() -> None:
    people = data(3)
    got = anonymize(people, [dc.KAnonymity(k=4)], columns=COLUMNS, suppression_limit=0.2, summarize={"age": "median"})
    (fields,) = got.plan_step().values()
    again = dc.OptimalGeneralization(**fields)(people)
    assert again.frame.equals(got.dataset.frame)


def test_errors() -> None:
    people = data(0)
    with pytest.raises(PlanError, match="not among the quasi-identifiers"):
        anonymize(people, [dc.KAnonymity(k=4)], columns=COLUMNS, summarize={"illness": "set"})
    with pytest.raises(PlanError, match="no order"):
        anonymize(people, [dc.KAnonymity(k=4)], columns=COLUMNS, summarize={"town": "interval"})
    with pytest.raises(PlanError, match="is not summarized"):
        anonymize(people, [dc.KAnonymity(k=4)], columns=COLUMNS, summarize={"age": "mean"}, cluster=["sex"])
    with pytest.raises(PlanError, match="at least one quasi-identifier"):
        anonymize(people, [dc.KAnonymity(k=4)], columns=["age"], summarize={"age": "mean"})
    everybody = pl.concat([people.frame, people.frame])
    for model in (dc.KMap(k=3, population=everybody), dc.DeltaPresence(delta_max=1, population=everybody)):
        with pytest.raises(PlanError, match="how many people fit a summary"):  # an interval is narrower than its class
            anonymize(people, [model], columns=COLUMNS, summarize={"age": "interval"})
    with pytest.raises(PlanError, match="what a summary loses"):
        game = dc.Profitability(benefit=9, loss=3, gain=3, cost=1)
        anonymize(people, [game], columns=COLUMNS, summarize={"age": "mean"})
    low = data(0, age=pl.col("age") - 1)
    with pytest.raises(DataError, match="not above 0"):
        anonymize(low, [dc.KAnonymity(k=4)], columns=COLUMNS, summarize={"age": "geometric-mean"})


@pytest.mark.peers
@pytest.mark.parametrize(
    ("case", "cluster"),
    [
        ("adult9_k5_s0_loss_microagg_age", False),
        ("adult9_k5_s0.05_loss_microagg_age", False),
        ("adult9_k5_s0_loss_cluster_microagg_age", True),
    ],
)
def test_arx(case: str, cluster: bool) -> None:
    want = golden(case)
    quasi = [*(name for name in want["qis"] if name != "age"), "age"]
    plain = data_of(case, quasi)
    table = plain.frame.with_columns(pl.col("age").cast(pl.Int64))
    people = dc.Dataset(table, roles=dict.fromkeys(quasi, "quasi"), hierarchies=hierarchies())
    got = anonymize(
        people,
        [dc.KAnonymity(k=5)],
        columns=quasi,
        suppression_limit=want["suppression_limit"],
        summarize={"age": "mean"},
        cluster=["age"] if cluster else [],
    )
    assert got.proven
    assert got.score == pytest.approx(float(want["score_highest"]), rel=1e-9)
    assert got.suppressed == want["suppressed_records"]
    assert (got.classes.number, got.classes.smallest) == (want["ec"]["number"], want["ec"]["min"])
    theirs = pl.read_csv(reference("golden", "arx", f"{case}.out.csv.gz"), separator=";", infer_schema=False)
    ages = theirs["age"].to_list()
    ours = dict(zip(got.dataset.row_ids.tolist(), got.dataset.frame["age"].to_list(), strict=True))
    assert all(abs(age - int(ages[row])) <= 1 for row, age in ours.items())  # ARX rounds in its own way
