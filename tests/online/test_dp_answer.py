"""Private answers from the question to the frame."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.errors import DataError, PlanError, QueryRefused
from discretion.online.backends import Backend, Bounded, ClampedFigure, GroupKey, open_backend
from discretion.online.declare import DpPolicy, TableSpec
from discretion.online.dp.answer import PricedQuery, answer, price
from discretion.online.dp.mechanisms import Additive
from discretion.online.question.query import Aggregate, Query
from discretion.privacy.accounting import Cost

pytest.importorskip("opendp")

COLUMNS: dict[str, dict[str, Any]] = {
    "sex": {"role": "public", "type": "category", "categories": ("f", "m", "x")},
    "town": {"role": "public", "type": "category"},
    "age": {"role": "sensitive", "type": "integer", "bounds": (0, 100), "grid": 100},
    "income": {"role": "sensitive", "type": "number", "bounds": (0, 100_000)},
    "free": {"role": "sensitive", "type": "number"},
}
TABLE = TableSpec(name="t", columns=COLUMNS)
PURE = DpPolicy(mode="dp", epsilon=1000)
APPROXIMATE = DpPolicy(mode="dp", epsilon=1000, delta=0.01, accountant="approximate")
ZCDP = DpPolicy(mode="dp", epsilon=50, delta=1e-3, accountant="zcdp", epsilon_per_query=20)
N = 3000


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(1)
    return pl.DataFrame(
        {
            "sex": rng.choice(["f", "m"], N),
            "town": np.where(np.arange(N) == 7, "hamlet", rng.choice(["a", "b"], N)),
            "age": rng.integers(18, 95, N),
            "income": rng.gamma(2, 15_000, N),
            "free": rng.normal(0, 1, N),
        }
    )


@pytest.fixture(scope="module")
def backend(frame: pl.DataFrame) -> Backend:
    return open_backend([TABLE], {"t": frame})


ALL = (
    Aggregate("count"), Aggregate("count-distinct", "age"), Aggregate("sum", "income"), Aggregate("mean", "income"),
    Aggregate("variance", "age"), Aggregate("min", "age"), Aggregate("max", "age"), Aggregate("quantile", "age", 0.25),
    Aggregate("histogram", "age", cuts=(0.0, 50.0, 100.0)),
)  # fmt: skip


def ask(*aggregates: Aggregate, by: tuple[str, ...] = (), **how: Any) -> PricedQuery:
    return price(Query("t", aggregates, group_by=by), how.pop("table", TABLE), how.pop("policy", PURE), **how)


@pytest.mark.parametrize("how", [{"epsilon": 400}, {"policy": ZCDP, "rho": 2000}], ids=["epsilon", "rho"])
def test_with_little_noise_every_figure_is_the_clamped_truth(
    frame: pl.DataFrame, backend: Backend, how: dict[str, Any]
) -> None:
    found = answer(ask(*ALL, by=("sex",), **how), backend).values()
    assert found["sex"].to_list() == ["f", "m", "x"]
    clamped = frame.with_columns(pl.col("income").clip(0, 100_000))
    for line in found.head(2).iter_rows(named=True):
        part = clamped.filter(pl.col("sex") == line["sex"])
        assert line["count"] == pytest.approx(len(part), abs=2)
        assert line["count-distinct_age"] == pytest.approx(part["age"].n_unique(), abs=2)
        assert line["sum_income"] == pytest.approx(part["income"].sum(), rel=1e-3)
        assert line["mean_income"] == pytest.approx(part["income"].mean(), rel=1e-3)
        assert line["variance_age"] == pytest.approx(part["age"].var(), rel=5e-3)
        assert line["quantile_age_0.25"] == pytest.approx(part["age"].quantile(0.25), abs=1)
        assert line["min_age"] == pytest.approx(18, abs=1) and line["max_age"] == pytest.approx(94, abs=1)
        young = int((part["age"] < 50).sum())
        assert line["histogram_age"] == pytest.approx([young, len(part) - young], abs=2)
    assert found["count"][2] == pytest.approx(0, abs=2)


def test_the_means_of_the_adjacent_ages() -> None:
    table = TableSpec(name="t", columns={"age": {"role": "sensitive", "type": "integer", "bounds": (0, 100)}})
    question = Query("t", (Aggregate("mean", "age"), Aggregate("variance", "age")))
    found = []
    for data in dc.datasets.adjacent_ages():
        ages = open_backend([table], {"t": data.frame.with_columns(pl.col("age").cast(int))})
        line = answer(price(question, table, PURE, epsilon=5000), ages).values().row(0, named=True)
        found.append(line["mean_age"])
    assert found == pytest.approx([41.7, 41.67, 45.0], abs=0.005)
    assert line["variance_age"] == pytest.approx(np.var([42, 28, 51, 23, 68, 30, 46, 55, 62], ddof=1), abs=10)


class Canned:
    """A database with figures of our own."""

    def __init__(self, groups: Mapping[GroupKey, Bounded]) -> None:
        self.groups = groups

    def bounded(self, query: Query) -> Mapping[GroupKey, Bounded]:
        return self.groups


def test_intervals_cover_as_often_as_they_say() -> None:
    # many declared groups of one truth: each is a draw of its own
    keys = tuple(f"g{i}" for i in range(400))
    columns = {**COLUMNS, "sex": {**COLUMNS["sex"], "categories": keys}}
    table = TableSpec(name="t", columns=columns)
    asked = (ALL[0], ALL[2], Aggregate("mean", "age"), Aggregate("variance", "age"))
    unit = table.column("income").unit
    figures = (
        ClampedFigure(present=60),
        ClampedFigure(present=60, total=100_000),
        ClampedFigure(present=60, total=2400),
        ClampedFigure(present=60, total=2400, squares=2400 * 45),
    )
    canned = Canned({(key,): Bounded(60, None, figures) for key in keys})
    truth = {"count": 60, "sum_income": 100_000 * unit, "mean_age": 40, "variance_age": (45 * 40 - 1600) * 60 / 59}
    for how in ({"epsilon": 2}, {"policy": ZCDP, "rho": 0.5}):
        priced = ask(*asked, by=("sex",), table=table, **how)
        found = answer(priced, canned).frame()  # type: ignore[arg-type]
        for name, value in truth.items():
            part = found.filter(pl.col("figure") == name)
            inside = part.select(((pl.col("lower") <= value) & (pl.col("upper") >= value)).sum()).item()
            assert inside >= 360, f"{name}: {inside} of 400"
            assert part["value"].is_finite().all() and (part["lower"] <= part["upper"]).all()


def test_a_price_needs_no_data_and_says_the_errors_that_come(backend: Backend) -> None:
    priced = ask(*ALL, by=("sex",), epsilon=3, records=1500)
    errors = {found.figure: found for found in priced.errors}
    drawn = answer(priced, backend).frame()
    for name in ("count", "count-distinct_age", "sum_income", "histogram_age", "quantile_age_0.25", "min_age"):
        assert set(drawn.filter(pl.col("figure") == name)["error"]) == {errors[name].error}
    women = drawn.filter((pl.col("figure") == "mean_income") & (pl.col("sex") == "f"))["error"].item()
    assert women == pytest.approx(errors["mean_income"].error, rel=0.5)
    assert errors["quantile_age_0.25"].error_of == "rank"
    without = {found.figure: found.error for found in ask(*ALL, epsilon=3).errors}
    assert without["mean_income"] is None and without["count"] is not None


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.sampled_from(ALL), min_size=1, max_size=9, unique=True),
    st.sampled_from([(), ("sex",), ("town",)]),
    st.integers(1000, 10**7),
    st.sampled_from(["approximate", "zcdp"]),
    st.sampled_from(["add-remove", "replace"]),
)
def test_the_parts_never_spend_more_than_the_price(
    asked: list[Aggregate], by: tuple[str, ...], units: int, accountant: str, adjacency: str
) -> None:
    table = TABLE.model_copy(update={"adjacency": adjacency})
    policy = DpPolicy(mode="dp", epsilon=1000, delta=0.1, accountant=accountant)  # type: ignore[arg-type]
    amount: dict[str, Any] = {"rho": units / 1e6} if accountant == "zcdp" else {"epsilon": units / 1e6}
    priced = price(Query("t", tuple(asked), group_by=by), table, policy, **amount)
    spent = sum(priced.loss(part).amount for part in priced.parts)
    whole = Fraction(priced.cost.nano_rho, 10**9) + Fraction(priced.cost.micro_epsilon, 10**6)
    assert whole * Fraction(99, 100) <= spent <= whole
    assert sum(part.weight for part in priced.parts) == 1
    assert (priced.cost.nano_delta > 0) == (by == ("town",))


def test_figures_of_one_column_share_what_they_need() -> None:
    kinds = [part.kind for part in ask(Aggregate("mean", "age"), Aggregate("variance", "age"), epsilon=1).parts]
    assert kinds == ["present", "centered", "spread"]
    (only,) = ask(Aggregate("count"), epsilon=1).parts
    assert only.weight == 1


def test_the_error_that_is_wanted_has_the_least_price() -> None:
    found = ask(Aggregate("count"), error=50)
    assert found.errors[0].error is not None and found.errors[0].error <= 50
    less = ask(Aggregate("count"), epsilon=Fraction(found.cost.micro_epsilon - 1, 10**6))
    assert less.errors[0].error is not None and less.errors[0].error > 50
    with pytest.raises(PlanError, match="say `records`"):
        ask(Aggregate("mean", "age"), error=1)
    assert ask(Aggregate("mean", "age"), error=1, records=1000).cost.micro_epsilon > 0


def test_groups_whose_keys_are_not_declared_must_have_enough_people(backend: Backend) -> None:
    for policy, how in ((APPROXIMATE, {"epsilon": 2}), (ZCDP, {"rho": 0.5})):
        priced = ask(Aggregate("count"), Aggregate("mean", "age"), by=("town",), policy=policy, delta=1e-6, **how)
        found = answer(priced, backend).values()
        assert found["town"].to_list() == ["a", "b"]
        assert found["count"].to_list() == pytest.approx([N / 2] * 2, abs=150)
        assert priced.cost.nano_delta == 1000
    kinds = [part.kind for part in priced.parts]
    assert kinds == ["keys", "present", "centered"], "a count of people is read off the counts that keys passed with"
    with pytest.raises(QueryRefused, match="not pure"):
        ask(Aggregate("count"), by=("town",), epsilon=1)
    with pytest.raises(PlanError, match="this question has none"):
        ask(Aggregate("count"), policy=APPROXIMATE, epsilon=1, delta=1e-6)


def test_delta_lasts_as_long_as_epsilon() -> None:
    policy = DpPolicy(mode="dp", epsilon=1, delta=1e-5, accountant="approximate", epsilon_per_query=0.1)
    assert ask(Aggregate("count"), by=("town",), policy=policy).cost == Cost(100_000, 0, 1000)


def test_an_empty_table_is_answered_with_noise_only() -> None:
    empty = pl.DataFrame(
        schema={"sex": pl.String, "town": pl.String, "age": pl.Int64, "income": pl.Float64, "free": pl.Float64}
    )
    nobody = open_backend([TABLE], {"t": empty})
    found = answer(ask(*ALL, by=("sex",), epsilon=5), nobody).frame()
    assert len(found) == 3 * (len(ALL) + 1)
    assert found["value"].is_finite().all()
    means = found.filter(pl.col("figure") == "mean_income")
    assert means["lower"].min() >= 0 and means["upper"].max() <= 100_001
    hidden = answer(ask(Aggregate("count"), by=("town",), policy=APPROXIMATE, epsilon=1, delta=1e-6), nobody)
    assert hidden.figures == () and len(hidden.frame()) == 0


def test_counts_below_zero_become_zero_only_when_asked() -> None:
    keys = tuple(f"g{i}" for i in range(200))
    table = TableSpec(name="t", columns={"sex": {**COLUMNS["sex"], "categories": keys}})
    canned = Canned({(key,): Bounded(0, None, (ClampedFigure(),)) for key in keys})
    priced = ask(Aggregate("count"), by=("sex",), table=table, epsilon=0.5)
    assert answer(priced, canned).frame()["value"].min() < 0  # type: ignore[arg-type]
    clipped = answer(priced, canned, nonnegative=True).frame()  # type: ignore[arg-type]
    assert clipped["value"].min() == clipped["lower"].min() == 0


def test_sums_too_large_for_64_bits_are_counted_in_coarser_steps() -> None:
    columns = {"debt": {"role": "sensitive", "type": "number", "bounds": (-2e9, 2e9), "resolution": 1}}
    table = TableSpec(name="t", columns=columns)
    priced = price(Query("t", (Aggregate("sum", "debt"), Aggregate("variance", "debt"))), table, PURE, epsilon=500)
    steps = {part.kind: part.step for part in priced.parts}
    assert steps["total"] == 2 and steps["spread"] > 2**29
    rows = 10**7
    figure = ClampedFigure(present=rows, total=rows * 10**9, squares=rows * 10**18)
    found = answer(priced, Canned({(): Bounded(rows, None, (figure, figure))})).values()  # type: ignore[arg-type]
    assert found["sum_debt"].item() == pytest.approx(rows * 10**9, rel=1e-6)
    assert found["variance_debt"].item() == pytest.approx(0, abs=1e12)


def test_missing_values_and_values_beyond_the_bounds(frame: pl.DataFrame) -> None:
    odd = pl.DataFrame(
        {"sex": ["f"] * 4, "town": ["a"] * 4, "age": [None, 500, -7, 50], "income": [math.nan, 1e149, -1e149, 5.0],
         "free": [0.0] * 4}
    )  # fmt: skip
    found = answer(
        ask(Aggregate("sum", "age"), Aggregate("sum", "income"), epsilon=50_000), open_backend([TABLE], {"t": odd})
    )
    values = found.values().row(0)
    assert values == pytest.approx([150, 100_005], abs=400)


def test_columns_without_bounds_are_refused_before_anything_is_spent() -> None:
    for function in ("sum", "mean", "variance", "min", "max"):
        with pytest.raises(QueryRefused, match="no declared bounds"):
            ask(Aggregate(function, "free"), epsilon=1)
    with pytest.raises(QueryRefused, match="no declared bounds"):
        ask(Aggregate("quantile", "free", 0.5), epsilon=1)


def test_limits_of_the_policy_and_contradictions_are_refused() -> None:
    strict = DpPolicy(mode="dp", epsilon=1, max_epsilon_per_query=0.2)
    with pytest.raises(QueryRefused, match="policy allows for one answer"):
        ask(Aggregate("count"), policy=strict, epsilon=0.3)
    for wrong in ({"epsilon": 1, "error": 2}, {"rho": 1}, {"epsilon": 0}, {"epsilon": 1, "records": 0}, {"error": -1}):
        with pytest.raises(PlanError):
            ask(Aggregate("count"), **wrong)
    with pytest.raises(PlanError, match="`rho`"):
        ask(Aggregate("count"), policy=ZCDP, epsilon=1)


def test_a_database_that_leaves_out_declared_groups_is_an_error() -> None:
    canned = Canned({("f",): Bounded(1, None, (ClampedFigure(),))})
    with pytest.raises(DataError, match="2 of 3 declared groups"):
        answer(ask(Aggregate("count"), by=("sex",), epsilon=1), canned)  # type: ignore[arg-type]


def test_names_of_groups_do_not_collide_with_the_frame() -> None:
    table = TableSpec(name="t", columns={"value": {"role": "public", "type": "truth"}})
    data = open_backend([table], {"t": pl.DataFrame({"value": [True, False]})})
    found = answer(price(Query("t", (Aggregate("count"),), group_by=("value",)), table, PURE, epsilon=1), data).frame()
    assert found.columns[:3] == ["value", "figure", "value_"]
    assert found["value"].to_list() == [False, True]


def test_noise_is_fresh_for_every_draw(backend: Backend) -> None:
    priced = ask(Aggregate("sum", "income"), epsilon=0.1)
    assert len({answer(priced, backend).figures[0].estimate.value for _ in range(5)}) > 1


def test_the_scale_follows_sensitivity_over_epsilon() -> None:
    priced = ask(Aggregate("count"), epsilon=0.5)
    (part,) = priced.parts
    noise = priced.noise(part)
    assert isinstance(noise, Additive) and noise.scale == pytest.approx(2.0)
