"""Mondrian: groups of at least k, published by what they have in common."""

from __future__ import annotations

import datetime as dt
import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc

JOBS = {"*": {"health": ["nurse", "doctor"], "craft": ["smith", "baker", "tailor"]}}
COLUMNS = ["age", "job", "town", "born"]


def people(seed: int, rows: int = 80, missing: float = 0.0, spread: int = 60) -> dc.Dataset:
    rng = np.random.default_rng(seed)

    def gaps(values: list[object]) -> list[object]:
        return [None if rng.random() < missing else value for value in values]

    frame = pl.DataFrame(
        {
            "age": gaps(rng.integers(20, 20 + spread, rows).tolist()),
            "job": gaps(rng.choice(["nurse", "doctor", "smith", "baker", "tailor"], rows).tolist()),
            "town": gaps(rng.choice(["Arn", "Bex", "Cor"], rows).tolist()),
            "born": gaps([dt.date(1950, 1, 1) + dt.timedelta(days=int(d)) for d in rng.integers(0, 15_000, rows)]),
            "illness": rng.choice(["flu", "gout", "none"], rows).tolist(),
        },
        schema={"age": pl.Int64, "job": pl.String, "town": pl.String, "born": pl.Date, "illness": pl.String},
    )
    roles = dict.fromkeys(COLUMNS, "quasi") | {"illness": "sensitive"}
    return dc.Dataset(frame, roles=roles, hierarchies={"job": {"tree": JOBS}})


def covers(label: object, value: object, column: str) -> bool:
    if label is None or value is None:
        return True  # suppressed, or missing
    if str(label) == str(value):
        return True
    if column == "job":
        return label == "*" or value in JOBS["*"][str(label)]
    if column == "town":
        return str(value) in str(label).strip("{}").split(", ")
    low, high = re.fullmatch(r"\[(.+), (.+)\]", str(label)).groups()  # type: ignore[union-attr]
    if column == "born":
        return low <= str(value) <= high
    return float(low) <= float(str(value)) <= float(high)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 5000),
    rows=st.integers(5, 120),
    k=st.integers(1, 5),
    strict=st.booleans(),
    missing=st.sampled_from([0.0, 0.05, 0.6]),
    spread=st.sampled_from([1, 4, 60]),
)
def test_k_holds_every_label_covers_its_value_and_nobody_is_lost(
    seed: int, rows: int, k: int, strict: bool, missing: float, spread: int
) -> None:
    data = people(seed, rows, missing, spread)
    released = dc.Mondrian(k=k, strict=strict)(data)
    assert len(released) == rows
    assert dc.KAnonymity(k=k)(released).holds
    for name in COLUMNS:
        pairs = zip(released.frame[name].to_list(), data.frame[name].to_list(), strict=True)
        assert all(covers(label, value, name) for label, value in pairs)
        hidden = (released.frame[name].is_null() & data.frame[name].is_not_null()).to_numpy()
        assert np.array_equal(hidden, released.suppressed(name))
        assert not (released.frame[name].is_not_null() & data.frame[name].is_null()).any()


@pytest.mark.parametrize("representation", ["interval", "mean"])
def test_strict_groups_do_not_depend_on_the_order_of_rows(representation: str) -> None:
    data = people(3, 200, 0.1, 8)
    method = dc.Mondrian(k=4, representation=representation)
    order = np.random.default_rng(0).permutation(len(data))
    shuffled = dc.Dataset(data.frame[order], schema=data.schema)
    assert method(shuffled).frame.equals(method(data).frame[order])


def test_worked_example_by_hand() -> None:
    """Widths: age 35/35 and sex 1: ages are as wide, and come first; then neither side can be divided again."""
    frame = pl.DataFrame({"age": [25, 31, 28, 47, 52, 60], "sex": ["m", "f", "m", "f", "f", "m"]})
    got = dc.Mondrian(columns=["age", "sex"], k=2)(frame)
    assert got.rows() == [
        ("[25, 31]", "{f, m}"),
        ("[25, 31]", "{f, m}"),
        ("[25, 31]", "{f, m}"),
        ("[47, 60]", "{f, m}"),
        ("[47, 60]", "{f, m}"),
        ("[47, 60]", "{f, m}"),
    ]


def test_a_median_that_many_share() -> None:
    """Strict: 3 × 5 stay together, [1] + [5, 5, 5] is not allowed for k = 2. Relaxed: they go to both sides."""
    frame = pl.DataFrame({"x": [1, 5, 5, 5]})
    assert dc.Mondrian(columns=["x"], k=2)(frame)["x"].to_list() == ["[1, 5]"] * 4
    assert sorted(dc.Mondrian(columns=["x"], k=2, strict=False)(frame)["x"].to_list()) == ["5", "5", "[1, 5]", "[1, 5]"]


def test_hierarchies_are_divided_between_children_and_levels_are_recorded() -> None:
    frame = pl.DataFrame({"job": ["nurse"] * 2 + ["doctor"] + ["smith"] * 3 + ["baker"]})
    data = dc.Dataset(frame, roles={"job": "quasi"}, hierarchies={"job": {"tree": JOBS}})
    released = dc.Mondrian(k=3)(data)
    assert released.frame["job"].to_list() == ["health"] * 3 + ["craft"] * 4
    assert np.array_equal(released.levels["job"], np.ones(7))
    assert dc.Precision()(released).value == pytest.approx(0.5)
    assert dc.ILoss()(released).value == pytest.approx((3 * 1 + 4 * 2) / 5 / 7)


def test_few_missing_values_hide_the_values_of_their_group_and_many_do_not() -> None:
    ages = [30, 31, 32, 33, 34, 35, 36, None]
    released = dc.Mondrian(columns=["age"], k=2)(dc.Dataset(pl.DataFrame({"age": ages})))
    assert released.suppressed_cells == {"age": 1}
    assert dc.KAnonymity(k=2, columns=["age"])(released).holds
    released = dc.Mondrian(columns=["age"], k=2)(dc.Dataset(pl.DataFrame({"age": [*ages, None]})))
    assert released.suppressed_cells == {}
    assert released.frame["age"].null_count() == 2


def test_means_keep_totals_and_dates_stay_dates() -> None:
    data = people(1, 120)
    released = dc.Mondrian(k=5, representation="mean")(data)
    assert released.frame["age"].mean() == pytest.approx(data.frame["age"].mean())
    assert released.frame["born"].dtype == pl.Date
    groups = released.frame.with_columns(data.frame["age"].alias("old")).group_by(COLUMNS).agg(pl.col("old").mean())
    assert groups["age"].to_list() == pytest.approx(groups["old"].to_list())


@pytest.mark.parametrize(
    "models",
    [
        [{"distinct-l-diversity": {"l": 2}}],
        [{"entropy-l-diversity": {"l": 1.8}}, {"k-anonymity": {"k": 4}}],
        [{"t-closeness": {"t": 0.3, "distance": "equal"}}],
    ],
)
def test_every_group_satisfies_the_models(models: list[dict[str, object]]) -> None:
    data = people(5, 400, 0.05)
    released = dc.Mondrian(k=3, models=models)(data)
    assert dc.KAnonymity(k=3)(released).holds
    for spec in models:
        assert _model(spec)(released).holds
    plain = dc.Mondrian(k=3)(data)
    assert released.frame.select(COLUMNS).n_unique() <= plain.frame.select(COLUMNS).n_unique()


def _model(spec: dict[str, object]) -> dc.PrivacyModel:
    from discretion.part import parse

    return parse(spec, "model")  # type: ignore[return-value]


def test_k_as_a_model_divides_as_k_does() -> None:
    data = people(7, 300, 0.05)
    one = dc.Mondrian(k=4)(data).frame
    assert one.equals(dc.Mondrian(models=[{"k-anonymity": {"k": 4}}])(data).frame)
    always = [{"distinct-l-diversity": {"l": 1}}]  # goes the way of models, and lets every split pass
    assert one.equals(dc.Mondrian(k=4, models=always)(data).frame)


def test_what_cannot_be() -> None:
    data = people(1, 30)
    with pytest.raises(dc.PlanError, match="give `k` or `models`"):
        dc.Mondrian()
    with pytest.raises(dc.DataError, match="k = 31"):
        dc.Mondrian(k=31)(data)
    with pytest.raises(dc.Infeasible, match="entropy"):
        dc.Mondrian(models=[{"entropy-l-diversity": {"l": 2.999}}])(data)
    with pytest.raises(dc.PlanError, match="both a quasi-identifier and sensitive"):
        dc.Mondrian(columns=["illness"], models=[{"distinct-l-diversity": {"l": 2}}])(data)
    with pytest.raises(dc.DataError, match="holds sets"):
        dc.Mondrian(columns=["x"], k=1)(pl.DataFrame({"x": [["a"], ["b"]]}))
    with pytest.raises(dc.PlanError, match="population"):
        dc.Mondrian(k=2, models=[dc.KMap(k=2, population=data)])(data)


def test_cancel() -> None:
    def stop(done: int, total: int, label: str) -> None:
        raise dc.Cancelled("stopped")

    for fields in ({"k": 2}, {"models": [{"distinct-l-diversity": {"l": 2}}]}):
        with pytest.raises(dc.Cancelled):
            dc.Mondrian(**fields)(people(1), progress=stop)
