"""Wrong input is refused with words that say what is wrong and what is allowed."""

from __future__ import annotations

import polars as pl
import pytest

import discretion as dc
from discretion.anonymize import anonymize

from .small import TABLES, dataset, frame

MODELS = [dc.KAnonymity(k=3)]


def test_hierarchy_that_misses_values_names_them() -> None:
    tables = TABLES | {"town": TABLES["town"][:2]}
    data = dc.Dataset(frame(1), roles={"town": "quasi"}, hierarchies={"town": tables["town"]})
    with pytest.raises(dc.DataError, match=r"column 'town': the hierarchy has no parent for \d of \d values: 'C'"):
        anonymize(data, MODELS)


@pytest.mark.parametrize("limit", [-0.1, 1.5])
def test_suppression_limit_is_a_share(limit: float) -> None:
    with pytest.raises(dc.PlanError, match="suppression_limit"):
        anonymize(dataset(frame(1)), MODELS, suppression_limit=limit)


def test_unknown_loss() -> None:
    with pytest.raises(dc.PlanError, match=r"loss: .*'loss', 'height', 'precision-loss'"):
        anonymize(dataset(frame(1)), MODELS, loss="precission")


def test_sensitive_column_that_is_a_quasi_identifier() -> None:
    with pytest.raises(dc.PlanError, match="'illness' is both a quasi-identifier and sensitive"):
        anonymize(dataset(frame(1)), [dc.DistinctLDiversity(l=2)], columns=["age", "illness"])


def test_more_values_than_there_are() -> None:
    with pytest.raises(dc.PlanError, match=r"l is 9, but column 'illness' has only 4 different values"):
        anonymize(dataset(frame(1)), [dc.DistinctLDiversity(l=9)])


def test_no_quasi_identifiers() -> None:
    with pytest.raises(dc.PlanError, match="quasi-identifiers"):
        anonymize(dc.Dataset(frame(1), roles={"illness": "sensitive"}), MODELS)
    with pytest.raises(dc.PlanError, match="give `columns`"):
        anonymize(frame(1), MODELS)


def test_no_models() -> None:
    with pytest.raises(dc.PlanError, match="expected privacy models"):
        anonymize(dataset(frame(1)), [])
    with pytest.raises(dc.PlanError, match="is a risk; a model is needed here"):
        anonymize(dataset(frame(1)), ["sample-uniqueness"])


def test_models_with_different_columns() -> None:
    models = [dc.KAnonymity(k=3, columns=["age"]), dc.KAnonymity(k=2, columns=["sex"])]
    with pytest.raises(dc.PlanError, match="one set of quasi-identifiers for all its models; got: age; sex"):
        anonymize(dataset(frame(1)), models)


def test_model_that_cannot_guide_a_search() -> None:
    with pytest.raises(dc.PlanError, match="does not look at equivalence classes"):
        anonymize(dataset(frame(1)), [dc.IntervalProtection(percent=10, share=0.5)])


def test_no_records_or_fewer_than_a_class() -> None:
    with pytest.raises(dc.DataError, match="no rows"):
        anonymize(dataset(frame(1)[:0]), MODELS)
    with pytest.raises(dc.Infeasible, match="classes of at least 3 records, but the data has 2 in all"):
        anonymize(dataset(frame(1)[:2]), MODELS)


def test_wrong_weights() -> None:
    with pytest.raises(dc.PlanError, match="weights cannot be negative"):
        anonymize(dataset(frame(1)), MODELS, importance={"age": -1})
    with pytest.raises(dc.PlanError, match="importance: 'illness' is not among the columns"):
        anonymize(dataset(frame(1)), MODELS, importance={"illness": 1})
    with pytest.raises(dc.PlanError, match="above 0"):
        anonymize(dataset(frame(1)), MODELS, importance=dict.fromkeys(TABLES, 0))


@pytest.mark.parametrize(
    "loss", ["aecs", "discernibility", "discernibility-star", "ambiguity", "kl", "kl-arx", "payout"]
)
def test_losses_of_whole_classes_take_no_weights_and_no_aggregate(loss: str) -> None:
    for name, value in (("importance", {"age": 2}), ("aggregate", "rank")):
        with pytest.raises(dc.PlanError, match=f"the loss {loss} has no part for each column; leave out `{name}`"):
            anonymize(dataset(frame(1)), MODELS, loss=loss, **{name: value})  # type: ignore[arg-type]


def test_infeasible_says_why_and_what_comes_closest() -> None:
    with pytest.raises(dc.Infeasible) as caught:
        anonymize(dataset(frame(1)), [dc.KAnonymity(k=3)], levels={"age": 0, "town": 0, "sex": 0})
    text = str(caught.value)
    assert (
        "no generalization of age, town, sex satisfies the models within a suppression limit of 0 (0 records)" in text
    )
    assert "k-anonymity fails for 37 of 40 records even when every column is at its highest level" in text
    assert "(reached 1, required 3)" in text
    assert "the least found to be suppressed is 37 records (92.5%)" in text
    assert "a limit of 0.925 would allow it" in text


def test_a_model_that_not_even_one_class_satisfies() -> None:
    skewed = frame(1).with_columns(illness=pl.Series(["flu"] * 39 + ["gout"]))
    with pytest.raises(dc.Infeasible, match=r"entropy-l-diversity fails for 40 of 40 .*reached 1\.124, required 2"):
        anonymize(dataset(skewed), [dc.EntropyLDiversity(l=2)], suppression_limit=0.5)


def test_dropping_every_record_is_no_solution() -> None:
    alone = dc.Dataset(pl.DataFrame({"id": [str(i) for i in range(9)]}), roles={"id": "quasi"})
    with pytest.raises(dc.Infeasible, match="every record would have to be suppressed"):
        anonymize(alone, MODELS, suppression_limit=1.0)


def test_level_bounds_that_are_no_levels() -> None:
    for wrong in ("high", [1, 2, 3], {"from": 1}, True, -1):
        with pytest.raises(dc.PlanError, match="levels"):
            anonymize(dataset(frame(1)), MODELS, levels={"age": wrong})


@pytest.mark.parametrize("open_end", [False, True])
def test_labels_that_top_coding_made_false_are_refused_by_the_searches(open_end: bool) -> None:
    """Two records stand beyond the bound of 79: [60, 79] would be false for them, >= 60 is true."""
    ages = [3, 4, 25, 26, 61, 62, 79, 79, 85, 99]
    cuts = [[0, 20, 40, 60, float("inf")]]
    tree = dc.Hierarchy.intervals(cuts=cuts) if open_end else dc.Hierarchy.intervals(width=20, levels=2)
    people = dc.Dataset(pl.DataFrame({"age": ages}), roles={"age": "quasi"}, hierarchies={"age": tree})
    coded = dc.TopCode(column="age", at=79)(people)
    models = [dc.KAnonymity(k=2)]
    searches = [
        lambda: dc.anonymize(coded, models).dataset,
        lambda: dc.OptimalGeneralization(models=models)(coded),
        lambda: dc.LocalRecoding(k=2)(coded),
    ]
    for search in searches:
        if open_end:
            assert ">= 60" in search().frame["age"].to_list()
        else:
            with pytest.raises(dc.PlanError, match=r"top- or bottom-coded .* false for 2 records"):
                search()
