"""Perturbed answers: the same records have the same figure, changes keep their law, small cells are not shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion.errors import PlanError, QueryRefused
from discretion.online.backend import Backend, open_backend
from discretion.online.catalog import TableSpec
from discretion.online.perturbed import CellKeys, Perturbation, change_law, perturb
from discretion.online.policy import PerturbedPolicy
from discretion.online.query import Aggregate, And, Condition, Filter, Not, Or, Query

COLUMNS: dict[str, Any] = {
    "sex": {"role": "public", "type": "category"},
    "age": {"role": "public", "type": "integer"},
    "income": {"role": "sensitive", "type": "number", "bounds": (0, 100_000)},
    "ill": {"role": "sensitive", "type": "truth"},
}
TABLE = TableSpec(name="t", columns=COLUMNS)
SECRET = b"sixteen bytes or more"
N = 400
COUNT = Aggregate("count")


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(3)
    return pl.DataFrame(
        {
            "sex": ["rare"] * 3 + list(rng.choice(["f", "m"], N - 3)),
            "age": rng.integers(0, 90, N),
            "income": rng.gamma(2, 10_000, N),
            "ill": rng.random(N) < 0.2,
        }
    )


@pytest.fixture(scope="module")
def backend(frame: pl.DataFrame) -> Backend:
    return open_backend([TABLE], {"t": frame})


def policy(**how: Any) -> PerturbedPolicy:
    return PerturbedPolicy(mode="perturbed", **how)


def ask(
    backend: Backend, *aggregates: Aggregate, where: Filter | None = None, by: tuple[str, ...] = (), **how: Any
) -> pl.DataFrame:
    query = Query("t", aggregates, group_by=by) if where is None else Query("t", aggregates, where, by)
    return perturb(query, backend, policy(**how), CellKeys(SECRET, "t"))


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 12), st.integers(1, 6), st.floats(0.05, 0.95))
def test_changes_have_mean_zero_the_variance_and_no_negative_counts(count: int, deviation: int, part: float) -> None:
    variance = part * deviation**2
    law = np.array(change_law(count, deviation, variance))
    low = min(count, deviation)
    changes = np.arange(-low, deviation + 1)
    assert law.sum() == pytest.approx(1) and len(law) == len(changes)
    assert law @ changes == pytest.approx(0, abs=1e-6)
    assert law @ changes**2 == pytest.approx(min(variance, 0.9 * low * deviation), rel=1e-3)


def test_nothing_stays_nothing() -> None:
    assert change_law(0, 3, 1.0) == (1.0,)


def test_changes_of_many_cells_follow_the_law() -> None:
    change = Perturbation(policy(deviation=2, variance=1.0), CellKeys(SECRET, "t"))
    moved = [change.count(50, np.array([i, i + 1]), 6000) - 50 for i in range(5000)]
    law = np.array(change_law(50, 2, 1.0))
    seen = np.array([moved.count(d) for d in range(-2, 3)]) / 5000
    assert np.all(np.abs(seen - law) <= 4.5 * np.sqrt(law * (1 - law) / 5000))


def test_the_same_records_have_the_same_figure_however_they_are_chosen(backend: Backend) -> None:
    young, women = Condition("age", "<", (40,)), Condition("sex", "=", ("f",))
    ways = (
        And((young, women)),
        And((women, Condition("age", "between", (-5, 39)))),
        Not(Or((Condition("age", ">=", (40,)), Condition("sex", "!=", ("f",))))),
    )
    figures = {ask(backend, COUNT, Aggregate("sum", "income"), where=where).row(0) for where in ways}
    assert len(figures) == 1
    grouped = ask(backend, COUNT, where=young, by=("sex",)).filter(pl.col("sex") == "f")["count"].item()
    assert grouped == next(iter(figures))[0]


def test_another_secret_gives_other_figures(backend: Backend) -> None:
    query = Query("t", (Aggregate("sum", "income"),))
    drawn = {perturb(query, backend, policy(), CellKeys(bytes([i]) * 16, "t")).item() for i in range(5)}
    assert len(drawn) == 5


def test_appended_rows_leave_old_cells_as_they_are(frame: pl.DataFrame, backend: Backend) -> None:
    old = Condition("age", "<", (90,))
    longer = pl.concat([frame, frame.head(50).with_columns(age=pl.lit(95, pl.Int64))])
    later = open_backend([TABLE], {"t": longer})
    assert (
        ask(backend, COUNT, where=old, min_query_size=1).item() == ask(later, COUNT, where=old, min_query_size=1).item()
    )


def test_figures_stay_near_the_truth(frame: pl.DataFrame, backend: Backend) -> None:
    asked = (
        COUNT,
        Aggregate("sum", "income"),
        Aggregate("mean", "income"),
        Aggregate("mean", "ill"),
        Aggregate("sum", "ill"),
    )
    line = ask(backend, *asked, where=Condition("sex", "=", ("f",)), deviation=2, magnitude_percent=5).row(
        0, named=True
    )
    women = frame.filter(pl.col("sex") == "f")
    most = 0.05 * women["income"].max()  # type: ignore[operator]
    assert abs(line["count"] - len(women)) <= 2
    assert 0 < abs(line["sum_income"] - women["income"].sum()) <= most
    assert abs(line["mean_income"] - women["income"].mean()) <= most / len(women) + 1e-9  # type: ignore[operator]
    assert abs(line["sum_ill"] - women["ill"].sum()) <= 2
    assert abs(line["mean_ill"] - women["ill"].mean()) <= 2 / len(women) + 1e-12  # type: ignore[operator]


def test_rounding_to_a_base(backend: Backend) -> None:
    found = ask(backend, COUNT, Aggregate("sum", "income"), by=("sex",), rounding_base=10).drop_nulls()
    assert (found["count"] % 10 == 0).all() and (found["sum_income"] % 10 == 0).all()
    plain = Perturbation(policy(rounding_base=5), CellKeys(SECRET, "t"))
    assert [plain.rounded(x) for x in (2.4, 2.5, -2.5, 12.0)] == [0, 5, -5, 10]


def test_small_sets_and_nearly_everybody_are_not_shown(backend: Backend) -> None:
    rare = Condition("sex", "=", ("rare",))
    for where in (rare, Not(rare)):
        with pytest.raises(QueryRefused, match="too few"):
            ask(backend, COUNT, where=where)
    found = ask(backend, COUNT, by=("sex",))
    assert dict(found.iter_rows())["rare"] is None
    assert ask(backend, COUNT, deviation=0).item() == N


def test_histograms_count_each_bin_as_its_cell(frame: pl.DataFrame, backend: Backend) -> None:
    bins = ask(backend, Aggregate("histogram", "age", cuts=(0.0, 45.0, 90.0)))["histogram_age"].item().to_list()
    direct = ask(backend, COUNT, where=Condition("age", "<", (45,))).item()
    assert bins[0] == direct and abs(sum(bins) - N) <= 4
    small = ask(backend, Aggregate("histogram", "age", cuts=(0.0, 89.0, 90.0)), min_query_size=150)
    assert small["histogram_age"].item().to_list()[1] is None


def test_figures_of_single_people_are_refused(backend: Backend) -> None:
    for function in ("min", "max", "variance"):
        with pytest.raises(QueryRefused, match="single values"):
            ask(backend, Aggregate(function, "income"))
    with pytest.raises(QueryRefused, match="single values"):
        ask(backend, Aggregate("quantile", "income", 0.5))
    with pytest.raises(QueryRefused, match="must not choose"):
        ask(backend, COUNT, where=Condition("income", ">", (10,)))
    with pytest.raises(QueryRefused, match="unknown table"):
        perturb(Query("nothing", (COUNT,)), backend, policy(), CellKeys(SECRET, "t"))


def test_wrong_parameters_are_refused() -> None:
    with pytest.raises(PlanError, match="16 bytes"):
        CellKeys(b"short", "t")
    with pytest.raises(PlanError, match="below 4"):
        Perturbation(policy(deviation=2, variance=4.0), CellKeys(SECRET, "t"))


def test_true_sums_of_whole_numbers_cannot_be_read_off_by_rounding() -> None:
    rng = np.random.default_rng(8)
    frame = pl.DataFrame({"age": rng.integers(0, 60, N), "ill": rng.random(N) < 0.3, "children": rng.integers(0, 5, N)})
    columns = {**COLUMNS, "children": {"role": "sensitive", "type": "integer"}}
    table = TableSpec(name="t", columns={name: columns[name] for name in frame.columns})
    people = open_backend([table], {"t": frame})
    for column in ("ill", "children"):
        asked = [(age, Condition("age", "<", (age,))) for age in range(5, 55)]
        told = {age: ask(people, Aggregate("sum", column), where=young)[f"sum_{column}"].item() for age, young in asked}
        right = [round(sum_) == frame.filter(pl.col("age") < age)[column].sum() for age, sum_ in told.items()]
        assert 0 < sum(right) < 30  # one in four is hit by chance; all 50 were when the change was 5 % of the largest
