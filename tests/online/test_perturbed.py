"""Perturbed answers: the same records have the same figure, changes keep their law, small cells are not shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.data.sql_filter import And, Condition, Filter, Not, Or
from discretion.errors import PlanError, QueryRefused
from discretion.online.backends import Backend, open_backend
from discretion.online.declare import PerturbedPolicy, ServiceSpec, TableSpec
from discretion.online.perturbed import CellKeys, MeasuredColumns, Perturbation, change_law, perturb
from discretion.online.question.query import Aggregate, Query

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


def test_figures_stay_near_the_truth_and_a_mean_is_sum_over_count(frame: pl.DataFrame, backend: Backend) -> None:
    asked = (COUNT, Aggregate("sum", "income"), Aggregate("mean", "income"))
    line = ask(backend, *asked, where=Condition("sex", "=", ("f",)), deviation=2, magnitude_percent=50).row(
        0, named=True
    )
    women = frame.filter(pl.col("sex") == "f")
    top = women["income"].top_k(3).to_numpy()
    assert abs(line["count"] - len(women)) <= 2
    assert 0 < abs(line["sum_income"] - women["income"].sum()) <= 0.5 * (0.5 * top[0] + 0.3 * top[1] + 0.2 * top[2])
    assert line["mean_income"] == line["sum_income"] / line["count"]


def test_ten_zeros_are_not_told_as_nothing_and_sums_stay_within_bounds() -> None:
    """Ten people with nothing among forty: the sum was told as 0.0, and the sum of a share as more than there are."""
    values = [0.0] * 10 + [0.9 + i / 1000 for i in range(30)]
    frame = pl.DataFrame({"age": list(range(40)), "income": values, "sex": ["f"] * 40})
    table = TableSpec(name="t", columns={**COLUMNS, "income": {**COLUMNS["income"], "bounds": (0, 1)}})
    people = open_backend([table], {"t": frame.with_columns(ill=pl.lit(True))})
    zeros, told = Condition("age", "<", (10,)), []
    for number in range(60):
        keys = CellKeys(bytes([number]) * 16, "t")
        query = Query("t", (Aggregate("sum", "income"), Aggregate("mean", "income")), zeros)
        told.append(perturb(query, people, policy(), keys).row(0))
        above = perturb(
            Query("t", (Aggregate("mean", "income"),), Condition("age", ">=", (10,))), people, policy(), keys
        )
        assert 0 <= above.item() <= 1
    assert all(0 <= total <= 12 and 0 <= mean <= 1 for total, mean in told)
    assert 15 <= sum(total > 0 for total, _ in told) <= 45  # half of the changes go down and are cut at nothing


def test_sum_and_mean_of_a_cell_with_missing_values_tell_nothing_more() -> None:
    """The changes of sum and mean canceled out where values were missing: the true sum could be computed."""
    rng = np.random.default_rng(6)
    values = rng.gamma(2, 10_000, 40)
    frame = pl.DataFrame({"age": list(range(40)), "income": [None if i % 3 else v for i, v in enumerate(values)]})
    table = TableSpec(name="t", columns={name: COLUMNS[name] for name in ("age", "income")})
    people = open_backend([table], {"t": frame})
    for most in range(20, 36):
        young = Condition("age", "<", (most,))
        total, mean = ask(people, Aggregate("sum", "income"), Aggregate("mean", "income"), where=young).row(0)
        true = sum(values[i] for i in range(most) if i % 3 == 0)
        count = sum(i % 3 == 0 for i in range(most))
        assert total / mean == pytest.approx(round(total / mean))  # a perturbed count, and nothing else
        assert abs((total - mean * most) / (1 - most / count) - true) > 1  # what an attacker solved for before


def test_rows_without_a_value_average_nothing_out() -> None:
    """Whose value is missing is public: sets that differ by them only have the same sum, and the same figure."""
    frame = pl.DataFrame({"age": list(range(60)), "income": [float(1000 + 37 * i) for i in range(40)] + [None] * 20})
    table = TableSpec(name="t", columns={name: COLUMNS[name] for name in ("age", "income")})
    people = open_backend([table], {"t": frame})
    told = {ask(people, Aggregate("sum", "income"), where=Condition("age", "<", (k,))).item() for k in range(40, 56)}
    assert len(told) == 1


def test_yes_or_no_and_few_values_are_not_offered(backend: Backend) -> None:
    for function in ("sum", "mean", "count-distinct"):
        with pytest.raises(QueryRefused, match="few different values"):
            ask(backend, Aggregate(function, "ill"))


def test_figures_of_a_column_are_bounded_over_all_users(tmp_path: Path) -> None:
    frame = pl.DataFrame({"age": list(range(40)), "income": [float(37 * i % 1000) for i in range(40)]})
    how: dict[str, Any] = {
        "columns": {name: COLUMNS[name] for name in ("age", "income")},
        "policy": {"mode": "perturbed", "max_answers": 6},
        "users": {"ann": {}, "bob": {}},
        "ledger": tmp_path / "l.db",
    }
    with dc.StatisticalDatabase(frame, **how) as database:
        for k in range(5):
            database.ask(f"SELECT sum(income) FROM data WHERE age < {20 + k}", user="ann" if k % 2 else "bob")
    with dc.StatisticalDatabase(frame, **how) as database:
        with pytest.raises(dc.QueryRefused, match="more than 6 figures"):
            database.ask("SELECT sum(income), avg(income) FROM data WHERE age > 12", user="ann")
        database.ask("SELECT sum(income) FROM data WHERE age > 12", user="ann")
        for user in ("ann", "bob"):  # what was told once may be told again
            database.ask("SELECT sum(income) FROM data WHERE age > 12", user=user)
            with pytest.raises(dc.QueryRefused, match="more than 6 figures"):
                database.ask("SELECT sum(income) FROM data WHERE age > 13", user=user)
        assert database.ask("SELECT count(*) FROM data WHERE age > 13", user="bob").frame.item() > 20


def test_perturbed_answers_are_never_the_default() -> None:
    spec = ServiceSpec(tables={"t": {"columns": COLUMNS}}, users={"ann": {}})
    assert spec.policy_for("ann", "t").mode == "exact+audit"
    with pytest.raises(dc.PlanError):
        ServiceSpec(tables={"t": {"columns": COLUMNS}}, policy={"min_query_size": 5, "deviation": 2})
    with dc.StatisticalDatabase(
        pl.DataFrame({"age": list(range(40))}), columns={"age": COLUMNS["age"]}, policy={"mode": "perturbed"}
    ) as database:
        assert "without any guarantee" in database.ask("SELECT count(*) FROM data").notes[0]


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
    assert set(found["sex"]) == {"f", "m"}, "that somebody has a rare value is not told either"
    with pytest.raises(QueryRefused, match="too few"):
        ask(backend, COUNT, where=rare, by=("sex",))
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
    frame = pl.DataFrame({"age": rng.integers(0, 60, N), "visits": rng.integers(0, 20, N)})
    columns = {"age": COLUMNS["age"], "visits": {"role": "sensitive", "type": "integer"}}
    people = open_backend([TableSpec(name="t", columns=columns)], {"t": frame})
    asked = [(age, Condition("age", "<", (age,))) for age in range(5, 55)]
    told = {
        age: ask(people, Aggregate("sum", "visits"), where=young, magnitude_percent=1)["sum_visits"].item()
        for age, young in asked
    }
    right = [round(sum_) == frame.filter(pl.col("age") < age)["visits"].sum() for age, sum_ in told.items()]
    assert 0 < sum(right) < 30  # one in four is hit by chance; all 50 were when the change was 5 % of the largest


def test_a_growing_table_does_not_tell_how_its_sums_were_changed() -> None:
    """The scale of a change follows the mean of the column; the same rows keep their figure while that moves a little.

    Two figures changed by the same share of two known scales would tell the share, and so the sum.
    """
    rng = np.random.default_rng(3)
    small, large = rng.integers(0, 10, 12), rng.integers(50, 200, 200)
    frame = pl.DataFrame({"town": ["a"] * 12 + ["b"] * 200, "pay": [*small, *large]})
    columns = {
        "town": {"role": "public", "type": "category"},
        "pay": {"role": "sensitive", "type": "integer", "bounds": (-(10**6), 10**6)},
    }
    table, asked = TableSpec(name="t", columns=columns), Query("t", (Aggregate("sum", "pay"),), town_is("a"))
    policy, keys = PerturbedPolicy(mode="perturbed"), CellKeys(SECRET, "t")

    def told(*more: int) -> tuple[float, float]:
        rows = pl.DataFrame({"town": ["b"] * len(more), "pay": pl.Series(more, dtype=pl.Int64)})
        grown = open_backend([table], {"t": pl.concat([frame, rows])})
        return MeasuredColumns(grown, table).of("pay")[1], float(perturb(asked, grown, policy, keys)["sum_pay"].item())

    assert len({told(*[150] * count) for count in (0, 1, 5, 20)}) == 1
    scales = dict(told(212 * 2**power) for power in range(4, 12))
    shares = [(figure - small.sum()) / scale for scale, figure in scales.items()]
    assert len(shares) > 4 and np.ptp(shares) > 0.2, "every scale has a share of its own"


def town_is(name: str) -> Condition:
    return Condition("town", "=", (name,))
