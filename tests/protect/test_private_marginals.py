"""Private synthetic rows: the account of the noise, the declared values, the tables and what is written."""

from __future__ import annotations

import datetime as dt
import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.kernels.pair_tables import draw, estimate, shrink, spanning_tree, to_simplex
from discretion.online.ledger import open_ledger
from discretion.privacy.accounting import DiscreteGaussian
from tests.shared import reference

pytest.importorskip("opendp")

DOMAIN: dict[str, Any] = {"sex": ["f", "m"], "age": {"cuts": [0, 20, 40, 100]}}


def frame(rows: int = 300, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], rows, p=[0.7, 0.3])
    age = np.where(sex == "f", rng.integers(0, 50, rows), rng.integers(30, 100, rows))
    return pl.DataFrame({"sex": sex, "age": age})


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the mechanism add nothing, so that a decision shows what was counted."""
    monkeypatch.setattr(DiscreteGaussian, "release", lambda self, values: list(values))


def counted(method: dc.PrivateMarginals, data: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    decision = method.fit(dc.Dataset.of(data), dc.Context(1))
    tables = [table for _, _, table in decision["tables"]]
    return np.concatenate([*decision["margins"].values(), *tables]).astype(float)


# --- the account ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta", "rows"), [(0.5, 1e-9, 1), (1.0, 1e-6, 3), (4.0, 1e-5, 2)])
def test_the_noise_spends_exactly_what_is_claimed(epsilon: float, delta: float, rows: int) -> None:
    domain = {name: ["x", "y"] for name in "abcd"}
    method = dc.PrivateMarginals(epsilon=epsilon, delta=delta, domain=domain, rows_per_person=rows)
    ones, twos = method._noise()
    assert twos is not None
    assert (ones.l2_squared, twos.l2_squared) == (rows**2 * 4, rows**2 * 6)
    spent = [noise.l2_squared / (2 * noise.scale**2) for noise in (ones, twos)]
    assert spent[0] / spent[1] == pytest.approx(1 / 9)
    assert sum(spent) <= method.cost.nano_rho / 1e9 == pytest.approx(sum(spent), rel=1e-6)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-9), (1.0, 1e-6), (2.0, 1e-9)])
def test_an_independent_accountant_agrees(epsilon: float, delta: float) -> None:
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    ones, twos = dc.PrivateMarginals(epsilon=epsilon, delta=delta, domain={n: ["x", "y"] for n in "abcde"})._noise()
    assert twos is not None
    found = [
        pld.from_discrete_gaussian_mechanism(noise.scale, value_discretization_interval=1e-3).self_compose(tables)
        for noise, tables in ((ones, 5), (twos, 10))
    ]
    real = found[0].compose(found[1]).get_delta_for_epsilon(epsilon)
    assert 0.01 * delta < real <= delta


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_one_person_moves_the_tables_by_at_most_the_sensitivity(seed: int, bound: int) -> None:
    rng = np.random.default_rng(seed)
    people = frame(20, seed).with_columns(who=pl.Series(rng.integers(0, 8, 20)))
    own = frame(int(rng.integers(1, 9)), seed + 1).with_columns(who=pl.lit(99, pl.Int64))
    mixed = pl.concat([people, own])[rng.permutation(len(people) + len(own))]
    method = dc.PrivateMarginals(epsilon=1, domain=DOMAIN, person="who", rows_per_person=bound)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DiscreteGaussian, "release", lambda self, values: list(values))
        moved = counted(method, mixed) - counted(method, mixed.filter(pl.col("who") != 99))
    ones, twos = method._noise()
    assert twos is not None
    assert (moved[:5] ** 2).sum() <= ones.l2_squared and (moved[5:] ** 2).sum() <= twos.l2_squared


@pytest.mark.usefixtures("silent")
def test_the_sensitivity_is_reached_by_equal_rows() -> None:
    people = frame(10).with_columns(who=pl.int_range(pl.len()))
    many = pl.concat([people, *[people[:1].with_columns(who=pl.lit(99, pl.Int64))] * 7])
    method = dc.PrivateMarginals(epsilon=1, domain=DOMAIN, person="who", rows_per_person=5)
    moved = counted(method, many) - counted(method, people)
    assert (moved**2).sum() == sum(noise.l2_squared for noise in method._noise() if noise is not None)


@pytest.mark.usefixtures("silent")
def test_the_unit_is_found_by_its_role_and_rows_without_one_are_left_out() -> None:
    people = frame(6).with_columns(who=pl.Series([1, 1, 1, 2, None, None]), home=pl.Series([1, 1, 1, 1, 1, 2]))
    plain = dc.PrivateMarginals(epsilon=1, domain=DOMAIN)
    for roles, rows in (({"who": "unit", "home": "household"}, 2), ({"home": "household", "who": "identifier"}, 2)):
        assert counted(plain, dc.Dataset(people, roles=roles))[:2].sum() == rows
    assert counted(plain, people.select("sex", "age"))[:2].sum() == 6


def test_too_little_budget_is_refused_before_anything_is_read() -> None:
    method = dc.PrivateMarginals(epsilon=1e-6, delta=1e-12, domain=DOMAIN)
    with pytest.raises(dc.DiscretionError, match="too small for any noise"):
        method(frame())


def test_the_extra_is_named_where_the_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(dc.DiscretionError, match=r"discretion\[online\]"):
        dc.PrivateMarginals(epsilon=1, domain=DOMAIN)(frame())


# --- declared values --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("silent")
def test_values_beyond_the_declared_ones_are_clamped_counted_as_other_or_left_out() -> None:
    data = pl.DataFrame({"c": ["a", "b", "z", None, "a"], "x": [-5, 3, 99, 10, None]})

    def tables(c: Any, x: Any) -> tuple[list[int], list[int]]:
        found = dc.PrivateMarginals(epsilon=1, domain={"c": c, "x": x}).fit(dc.Dataset(data), dc.Context(1))
        return found["margins"]["c"], found["margins"]["x"]

    cuts = {"cuts": [0, 5, 10]}
    assert tables(["a", "b"], cuts) == ([1, 1], [2, 0])  # the rows with z, missing c and missing x are left out
    assert tables({"categories": ["a", "b"], "other": "else"}, cuts) == ([1, 1, 2], [2, 2])
    every = {"categories": ["a", "b"], "other": "else", "missing": True}
    assert tables(every, {**cuts, "missing": True}) == ([2, 1, 1, 1], [2, 2, 1])


def test_written_values_are_the_declared_ones_whatever_the_data_holds() -> None:
    data = pl.DataFrame(
        {
            "c": ["a", "zzz"] * 200, "n": [1.5, 2.5] * 200, "d": [dt.date(2001, 5, 5), dt.date(1990, 1, 1)] * 200,
            "t": [True, False] * 200, "k": ["7", "oops"] * 200,
        }
    )  # fmt: skip
    domain = {
        "c": {"categories": ["a", "b"], "other": "else"},
        "n": {"cuts": [0.0, 2.0, 3.0]},
        "d": {"cuts": ["2000-01-01", "2001-01-01", "2003-01-01"]},
        "t": [False, True],
        "k": {"cuts": [0, 10], "missing": True},
    }
    made = dc.PrivateMarginals(epsilon=10, domain=domain)(data)
    assert made.schema == {"c": pl.String, "n": pl.Float64, "d": pl.Date, "t": pl.Boolean, "k": pl.Int64}
    assert set(made["c"]) <= {"a", "b", "else"} and made["n"].is_between(0, 3).all()
    assert made["d"].is_between(dt.date(2000, 1, 1), dt.date(2003, 1, 1)).all()
    assert made["k"].drop_nulls().is_between(0, 10).all() and 0 < made["k"].null_count() < len(made)


def test_a_category_of_the_original_does_not_come_back_with_the_type_of_its_column() -> None:
    source = frame(200).with_columns(pl.col("sex").cast(pl.Categorical)).to_pandas()
    source["sex"] = source["sex"].cat.add_categories(["only one person"])
    made = dc.PrivateMarginals(epsilon=1, domain=DOMAIN)(source)
    assert str(made["sex"].dtype) != "category" and list(made.index) == list(range(len(made)))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"domain": {"sex": ["f", "m"]}}, "column 'age' has no declared values"),
        ({"domain": {**DOMAIN, "hight": ["x"]}}, "unknown column 'hight'"),
        ({"domain": {}}, "at least one column"),
        ({"domain": {"sex": []}}, "categories"),
        ({"domain": {"sex": ["f", "f"]}}, "named twice"),
        ({"domain": {"age": {"cuts": [3, 2]}}}, "ascending"),
        ({"domain": {"age": {"cuts": [0, 2], "other": 9}}}, "`other` belongs to categories"),
        ({"domain": {"id": list(range(10**5))}}, "at most 10,000 values"),
        ({"domain": {f"c{i}": list(range(9000)) for i in range(2)}}, "cells"),
        ({"pairs": [["sex", "aeg"]]}, "did you mean 'age'"),
        ({"pairs": [["sex", "age"], ["age", "sex"]]}, "stands once"),
        ({"drop": ["sex"]}, "both in `domain` and in `drop`"),
        ({"delta": 0.0}, "delta"),
    ],
)
def test_what_cannot_be_is_refused_and_named(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(dc.DiscretionError, match=words):
        dc.PrivateMarginals(**{"epsilon": 1, "domain": DOMAIN, **fields})(frame())


def test_no_data_no_people_and_one_value_are_no_errors() -> None:
    for data in (frame(0), frame(1), frame().with_columns(pl.lit(None, pl.Int64).alias("age"))):
        assert dc.PrivateMarginals(epsilon=1, domain=DOMAIN)(data).columns == ["sex", "age"]
    alone = dc.PrivateMarginals(epsilon=1, domain={"sex": ["f"], "age": {"cuts": [0, 100]}}, rows=7)(frame())
    assert len(alone) == 7 and set(alone["sex"]) == {"f"}


def test_many_columns_have_the_tables_of_their_neighbors_only() -> None:
    method = dc.PrivateMarginals(epsilon=1, domain={f"c{i}": ["x", "y"] for i in range(40)})
    places = [(int(a[1:]), int(b[1:])) for a, b in method._pairs]
    assert len(places) == 300 == len(set(places)) and max(b - a for a, b in places) == 9
    made = method(pl.DataFrame({f"c{i}": ["x", "y"] * 50 for i in range(40)}))
    assert made.width == 40


# --- from tables to rows ----------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-100, 100), min_size=1, max_size=12), st.floats(0.1, 200))
def test_the_nearest_shares_are_found(values: list[float], total: float) -> None:
    x = np.array(values)
    found = to_simplex(x, total)
    low, high = x.min() - total - 1, x.max() + 1.0
    for _ in range(200):  # the multiplier by bisection
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(x - middle, 0).sum() > total else (low, middle)
    assert np.allclose(found, np.maximum(x - (low + high) / 2, 0), atol=1e-6)


def test_singular_values_are_shrunk_as_the_formula_says() -> None:
    u, v = np.ones(4) / 2, np.ones(16) / 4
    for y, beta in ((3.0, 0.25), (1.4, 0.25)):
        want = np.sqrt(max((y * y - beta - 1) ** 2 - 4 * beta, 0)) / y if y > 1.5 else 0.0
        found = shrink(y * 2 * 4 * np.outer(u, v), 2.0)
        assert u @ found @ v == pytest.approx(want * 2 * 4)
    noise = np.random.default_rng(1).normal(size=(30, 30))
    assert np.abs(shrink(noise, 1.0)).sum() < 0.35 * np.abs(noise).sum()


@pytest.mark.parametrize("sizes", [(3, 4, 2), (30, 40, 25, 20)], ids=["every cell", "from the tree"])
def test_rows_have_the_tables_of_pairs_of_the_model(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    columns = [rng.integers(0, sizes[0], 50_000)]
    for size in sizes[1:]:
        columns.append((columns[-1] * size // sizes[len(columns) - 1] + (rng.random(50_000) < 0.3)) % size)
    codes = np.column_stack(columns)
    pairs = [(i, j) for i in range(len(sizes)) for j in range(i + 1, len(sizes))]
    counts = {(i, j): np.zeros((sizes[i], sizes[j])) for i, j in pairs}
    for (i, j), table in counts.items():
        np.add.at(table, (codes[:, i], codes[:, j]), 1.0)
    margins = [np.bincount(codes[:, j], minlength=size).astype(float) for j, size in enumerate(sizes)]
    model = estimate(margins, counts, 0.01, 0.01)
    assert model.size == pytest.approx(50_000, rel=1e-6)
    made = draw(model, 50_000, rng)
    for (i, j), table in counts.items():
        now = np.zeros_like(table)
        np.add.at(now, (made[:, i], made[:, j]), 1.0)
        assert np.abs(now - table).sum() / 2 / 50_000 < 0.02


def test_the_tree_hangs_a_column_on_the_one_that_tells_most_and_on_nothing_without_a_table() -> None:
    same, blind = np.diag([50.0, 50.0]), np.full((2, 2), 25.0)
    margins = [np.array([50.0, 50.0])] * 4
    model = estimate(margins, {(0, 1): blind, (1, 2): same, (0, 2): blind}, 0.01, 0.01)
    tree = dict(spanning_tree(model))
    assert tree[3] is None and (tree[2] == 1 or tree[1] == 2)
    assert sum(parent is None for parent in tree.values()) == 2


def test_a_saved_decision_writes_rows_without_reading_any_value() -> None:
    method = dc.PrivateMarginals(epsilon=1, domain=DOMAIN)
    ran = method.run(dc.Dataset(frame()), dc.Context(4, "1"))
    other = dc.Dataset(frame(5, seed=9).with_columns(pl.lit("?").alias("sex")))
    again = method.run(other, dc.Context(4, "1"), ran.decision)
    assert again.data.frame.equals(ran.data.frame)


# --- plans ------------------------------------------------------------------------------------------------------------


def plan(tmp_path: Path, rows: int | None = None, **more: Any) -> dc.Plan:
    people = frame(4711, seed=5).with_columns(who=pl.int_range(pl.len()))
    people.write_parquet(tmp_path / "people.parquet")
    step = {"private-marginals": {"epsilon": 1.0, "delta": 1e-6, "person": "who", "domain": DOMAIN, "rows": rows}}
    content = {
        "data": "people.parquet",
        "roles": {"who": "identifier", "sex": "quasi", "age": "sensitive"},
        "steps": [step],
        "measures": [{"marginals": {}}, {"sample-uniqueness": {"columns": ["sex"]}}],
        "requirements": "none",
        **more,
    }
    return dc.Plan.from_dict(content, tmp_path)


def test_the_journal_knows_the_account_and_the_public_learns_nothing_about_the_original(tmp_path: Path) -> None:
    fixed = plan(tmp_path, rows=5000)  # else the noisy number of rows could be the true one by chance
    release = fixed.run(out=tmp_path / "out", journal=tmp_path / "journal")
    (step,) = json.loads((tmp_path / "journal" / "journal.json").read_text())["steps"]
    method = release.study.steps[0]
    assert step["facts"]["rho"] == method.cost.nano_rho / 1e9
    assert step["facts"]["epsilon"] == 1.0 and step["facts"]["sigma"]["pairs"] > 0
    assert "tables" not in step["facts"] and "margins" not in step["facts"]
    for file in ("report.json", "report.html"):
        public = (tmp_path / "out" / file).read_text()
        assert not re.search(r"(?<![\w.])4,?711(?!\w)", public)
    facts = json.loads((tmp_path / "out" / "report.json").read_text())
    assert all(item["withheld"] for item in (*facts["risk"], *facts["utility"]))
    assert any("no privacy budget covers them" in note for note in facts["notes"])
    assert np.load(tmp_path / "journal" / "order.npy").max() == -1


def test_a_plan_is_paid_from_its_ledger_and_a_saved_decision_is_free(tmp_path: Path) -> None:
    budget = {"path": "ledger.db", "table": "people", "epsilon": 1.2, "delta": 2e-6}
    paid = plan(tmp_path, ledger=budget, measures=[])
    release = paid.run()
    with open_ledger(tmp_path / "ledger.db") as ledger:
        assert ledger.spent(table="people") == release.study.steps[0].cost
    with pytest.raises(dc.BudgetExhausted, match="people"):
        paid.run()
    assert len(paid.run(reuse=release.study.decisions).data) == len(release.data)
    assert dc.Plan.from_dict(paid.to_dict(), tmp_path).budget == paid.budget


def test_the_ledger_remembers_the_limit_and_a_larger_one_must_be_meant(tmp_path: Path) -> None:
    def state(epsilon: float, delta: float = 1e-5, **more: Any) -> dc.Study:
        budget = dc.PrivacyBudget(tmp_path / "ledger.db", table="people", epsilon=epsilon, delta=delta, **more)
        return dc.Study(dc.Dataset(frame(), roles={"sex": "quasi"}), budget=budget)

    step = dc.PrivateMarginals(epsilon=0.5, domain=DOMAIN)
    state(1).apply(step)
    for larger in ({"epsilon": 4}, {"epsilon": 1, "delta": 1e-4}):
        with pytest.raises(dc.PlanError, match=r"'people'.*raised"):
            state(**larger).apply(step)
    with pytest.raises(dc.BudgetExhausted):
        state(0.4).apply(step)  # less than the limit: held to that
    with open_ledger(tmp_path / "ledger.db") as ledger:
        assert [entry.kind for entry in ledger.history()] == ["limit", "dp"]
    state(4, raised=True).apply(step)
    state(4).apply(step)
    with open_ledger(tmp_path / "ledger.db") as ledger:
        assert [entry.kind for entry in ledger.history()] == ["limit", "dp", "limit", "dp", "dp"]
        assert [json.loads(entry.query)["epsilon"] for entry in ledger.history(kinds=["limit"])] == [1, 4]
        assert ledger.verify().holds
        spent = ledger.spent(table="people")
    told = state(4).budget
    assert told is not None and f"spent {spent}; left ρ" in told.account()


def test_nothing_is_charged_for_a_step_that_cannot_run(tmp_path: Path) -> None:
    budget = dc.PrivacyBudget(tmp_path / "ledger.db", table="people", epsilon=3, delta=1e-5)
    study = dc.Study(dc.Dataset(frame(), roles={"sex": "quasi"}), budget=budget)
    with pytest.raises(dc.PlanError, match="'age' has no declared values"):
        study.apply(dc.PrivateMarginals(epsilon=1, domain={"sex": ["f", "m"]}))
    study.apply(dc.PrivateMarginals(epsilon=1, domain=DOMAIN))
    with open_ledger(tmp_path / "ledger.db") as ledger:
        assert [entry.kind for entry in ledger.history()] == ["limit", "dp"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("ledger.db", "expected a mapping"),
        ({"path": "l.db", "table": "t", "epsilon": 1}, "expected a mapping"),
        ({"path": "l.db", "table": "t", "epsilon": 1, "delta": 0}, "δ above 0"),
        ({"path": "l.db", "table": "t", "epsilon": "1", "delta": 1e-6}, "are numbers"),
        ({"path": "l.db", "table": "t", "epsilon": 1, "delta": 1e-6, "usr": "x"}, "did you mean 'user'"),
    ],
)
def test_a_wrong_ledger_is_named(tmp_path: Path, given: Any, words: str) -> None:
    with pytest.raises(dc.PlanError, match=words):
        plan(tmp_path, ledger=given)


def test_a_private_step_comes_before_steps_that_learn_from_the_data() -> None:
    study = dc.Study(dc.Dataset(frame(), roles={"sex": "quasi", "age": "sensitive"}))
    private = dc.PrivateMarginals(epsilon=1, domain=DOMAIN)
    with pytest.raises(dc.PlanError, match="must come before mdav"):
        study.apply(dc.Mdav(columns=["age"], k=3)).apply(private)
    assert len(study.apply(private).apply(dc.Mdav(columns=["age"], k=3)).steps) == 2


def test_households_are_a_unit_of_their_own_and_not_a_wrapper() -> None:
    with pytest.raises(dc.PlanError, match="protects households by itself"):
        dc.AtHouseholdLevel(method=dc.PrivateMarginals(epsilon=1, domain=DOMAIN))


# --- quality ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.peers
@pytest.mark.parametrize(("epsilon", "most", "least"), [(0.5, 0.042, 0.81), (1.0, 0.03, 0.815), (2.0, 0.02, 0.82)])
def test_pairs_and_predictions_on_adult(epsilon: float, most: float, least: float) -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier

    people = pl.read_csv(reference("data", "adult", "adult.csv"), separator=";")
    order = np.random.default_rng(1).permutation(len(people))
    train, held = people[order[:24_000]], people[order[24_000:]]
    cuts = list(range(15, 91, 5))
    domain: dict[str, Any] = {
        name: {"cuts": cuts} if name == "age" else people[name].unique().sort().to_list() for name in people.columns
    }

    def codes(data: pl.DataFrame) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
        ages = np.clip((data["age"].to_numpy() - 15) // 5, 0, 14)
        places = {n: {v: i for i, v in enumerate(d)} for n, d in domain.items() if n != "age"}
        return {n: ages if n == "age" else data[n].replace_strict(places[n]).to_numpy() for n in people.columns}

    made, real, new = (
        codes(data) for data in (dc.PrivateMarginals(epsilon=epsilon, domain=domain)(train), train, held)
    )
    apart = []
    for i, a in enumerate(people.columns):
        for b in people.columns[:i]:
            shares = [np.bincount(c[a] * 100 + c[b], minlength=10_000) / len(c[a]) for c in (made, real)]
            apart.append(np.abs(shares[0] - shares[1]).sum() / 2)
    assert np.mean(apart) <= most
    features = [name for name in people.columns if name != "salary-class"]
    tables = [np.column_stack([c[name] for name in features]) for c in (made, new)]
    model = HistGradientBoostingClassifier(max_iter=60, random_state=0).fit(tables[0], made["salary-class"])
    assert model.score(tables[1], new["salary-class"]) >= least


def test_the_square_of_the_sensitivity_is_a_whole_number_and_its_root_is_never_too_small() -> None:
    from discretion.privacy.accounting import root_above

    assert all(Fraction(root_above(n)) ** 2 >= n for n in range(1, 400))


@pytest.mark.parametrize("odd", [float("inf"), -float("inf"), 1e200])
@pytest.mark.parametrize("dropped", [False, True])
def test_no_number_of_one_person_stops_a_private_step(odd: float, dropped: bool, tmp_path: Path) -> None:
    frame = pl.DataFrame({"age": [1, 2, 3] * 100, "pay": [100.5] * 299 + [odd]})
    cuts = {"age": {"cuts": [0, 2, 4]}, "pay": {"cuts": [0, 50, 200]}}
    fields = {"domain": {"age": cuts["age"]}, "drop": ["pay"]} if dropped else {"domain": cuts}
    method = dc.PrivateMarginals(epsilon=5, delta=1e-6, **fields)
    made = method(frame)
    assert abs(len(made) - 300) < 60
    with pytest.raises(dc.DataError, match="'pay'"):
        dc.Dataset(frame)  # other steps refuse it
    frame.write_csv(tmp_path / "in.csv")
    plan = {"roles": {"age": "quasi"}, "steps": [method.to_plan()], "requirements": "none"}
    plan["data"] = {"path": str(tmp_path / "in.csv")}
    assert dc.Plan.from_dict(plan).run().data.has_new_rows
