"""Generators: what they keep, what they never publish, and what they refuse."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import discretion as dc
from discretion.method import Decision
from discretion.protect.synthetic.generator import told_apart
from discretion.protect.synthetic.sequential_trees import TreeGrowth, _fit, _pruned, grow
from discretion.protect.synthetic.variables import NumberMargin, Variable, pack, unpack

GENERATORS = (dc.SequentialTrees, dc.GaussianCopula, dc.IndependentMargins, dc.MomentPreserving)
MODELS = {part.kind: part for part in GENERATORS[:3]}


def people(n: int = 2000, seed: int = 0) -> pl.DataFrame:
    """Give numbers and categories that depend on each other, with a spike and missing values."""
    rng = np.random.default_rng(seed)
    region = rng.choice(["north", "south", "west"], n, p=[0.5, 0.3, 0.2])
    sex = rng.choice(["f", "m"], n)
    age = np.round(np.clip(rng.normal(45 + 8 * (region == "south"), 15, n), 16, 90)).astype(int)
    income = np.round(np.exp(rng.normal(9 + age / 60, 0.5, n)), 2)
    income[rng.random(n) < np.where(age > 65, 0.5, 0.1)] = 0.0
    job = np.where(age < 20, "pupil", rng.choice(["clerk", "cook", "smith"], n, p=[0.5, 0.3, 0.2]))
    frame = pl.DataFrame({"region": region, "sex": sex, "age": age, "income": income, "job": job})
    gone = pl.Series(rng.random(n) < np.where(sex == "f", 0.2, 0.05))
    return frame.with_columns(pl.when(gone).then(None).otherwise(pl.col("income")).alias("income"))


# --- parts of the model ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["i1", "u2", "i4", "f8"])
def test_arrays_come_back_as_they_were_packed(kind: str) -> None:
    array = np.random.default_rng(1).integers(0, 100, 57).astype(kind)
    assert np.array_equal(unpack(pack(array)), array)


@pytest.mark.parametrize("classes", [0, 3])
@pytest.mark.parametrize("pruning", [0.0, 1.0, 3.0])
def test_pruning_is_cost_complexity_pruning_at_a_multiple_of_a_noise_split(classes: int, pruning: float) -> None:
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    rng = np.random.default_rng(5)
    x = rng.normal(size=(600, 3)).astype(np.float32)
    y = (x[:, 0] > 0) + rng.integers(0, 2, 600) if classes else x[:, 0] + rng.normal(size=600)
    full = _fit(x, y.astype(float), classes, TreeGrowth(5, pruning))
    _, _, left, _ = _pruned(full, TreeGrowth(5, pruning), 0.0, numbers=False)
    alpha = pruning * full.impurity[0] / 600
    model = DecisionTreeClassifier if classes else DecisionTreeRegressor
    want = model(min_samples_leaf=5, random_state=0, ccp_alpha=alpha).fit(x, y)
    if pruning:
        assert (left < 0).sum() == want.get_n_leaves()
    else:  # scikit-learn keeps branches that gain nothing
        assert (left < 0).sum() <= want.get_n_leaves()


@pytest.mark.parametrize("size", [0, 2])
@pytest.mark.parametrize("rows_each", [1, 4])
def test_no_split_is_kept_for_one_person(size: int, rows_each: int) -> None:
    """All answer alike but one, who stands at an end of the predictor: a split of the smallest leaf finds them."""
    n = 400 * rows_each
    place = np.arange(n) / n
    answer = np.zeros(n)
    answer[:rows_each] = 1.0
    given, growth = Variable("x", place, 0, ordered=True), TreeGrowth(5, 3.0).of_units(rows_each)
    everybody, code = np.ones(n, bool), answer.astype(np.int64)
    assert grow([given], answer, size, code, everybody, growth, np.arange(n)).leaves == 1
    answer[: 8 * rows_each] = 1.0  # eight people are a group
    assert grow([given], answer, size, code, everybody, growth, np.arange(n)).leaves == 2


def test_one_person_far_off_a_strong_relation_leaves_the_trees_as_they_are() -> None:
    rng = np.random.default_rng(4)
    x = rng.random(2000)
    rank = np.argsort(np.argsort(x + 0.05 * rng.normal(size=2000))) / 2000
    given, everybody, rows = Variable("x", x, 0, ordered=True), np.ones(2000, bool), np.arange(2000)
    for person in rng.choice(2000, 20, replace=False):
        moved = rank.copy()
        moved[person] = 1.0 - np.round(rank[person])  # the other end
        tree = grow([given], moved, 0, rows, everybody, TreeGrowth(5, 3.0), rows)
        sizes = (tree.high - tree.low)[tree.left < 0]
        at = int(np.flatnonzero([person in tree.donors[lo:hi] for lo, hi in zip(tree.low, tree.high, strict=True)])[-1])
        assert tree.high[at] - tree.low[at] >= np.median(sizes) / 2  # not a part made for this person


def test_numbers_explained_by_others_are_pruned_by_the_noise_that_is_left() -> None:
    rng = np.random.default_rng(4)
    x = rng.random(20_000).astype(np.float32)[:, None]
    growth = TreeGrowth(5, 3.0)
    leaves = []
    for noise in (0.1, 10.0):
        rank = np.argsort(np.argsort(x[:, 0] + noise * rng.normal(size=20_000))) / 20_000
        full = _fit(x, rank, 0, growth)
        leaves.append([(_pruned(full, growth, 1.0, numbers=again)[2] < 0).sum() for again in (False, True)])
    assert leaves[0][1] > 1.3 * leaves[0][0]
    assert leaves[1][1] == leaves[1][0]  # noise stays noise


def test_amounts_in_cents_hit_those_of_people_no_more_often_than_those_of_others() -> None:
    rng = np.random.default_rng(6)
    inside, outside = (np.round(np.exp(rng.normal(9, 0.7, 3000)), 2) for _ in range(2))
    made = dc.SequentialTrees(rows=200_000)(pl.DataFrame({"amount": inside}), seed=1)["amount"].to_numpy()
    assert np.array_equal(made, np.round(made, 2))
    hits = [np.isin(made, amounts).sum() for amounts in (inside, outside)]
    assert hits[1] > 200
    assert hits[0] <= 1.5 * hits[1]  # interpolated between neighbors alone: six times as often


def test_donors_of_a_row_are_the_people_of_its_leaf() -> None:
    rng = np.random.default_rng(2)
    group = rng.integers(0, 4, 400).astype(float)
    answer = (group + rng.integers(0, 2, 400)) % 4
    given = Variable("g", group, 4, ordered=False)
    tree = grow([given], answer, 4, answer.astype(np.int64), np.ones(400, bool), TreeGrowth(5, 0.0), np.arange(400))
    for value in range(4):
        drawn = tree.draw({"g": np.full(500, float(value))}, 500, rng)
        assert set(drawn) <= set(answer[group == value].astype(int))


def test_splits_on_noise_are_pruned_and_a_split_on_signal_is_not() -> None:
    rng = np.random.default_rng(3)
    noise = Variable("x", rng.normal(size=3000))

    def leaves(response: np.ndarray, pruning: float) -> int:
        codes, everybody = response.astype(np.int64), np.ones(3000, bool)
        return grow([noise], response, 2, codes, everybody, TreeGrowth(5, pruning), np.arange(3000)).leaves

    coin, signal = rng.integers(0, 2, 3000).astype(float), (noise.values > 0).astype(float)
    assert leaves(coin, 0.0) > 200
    assert leaves(coin, 3.0) < 0.3 * leaves(coin, 0.0)
    assert leaves(coin, 40.0) == 1
    assert leaves(signal, 3.0) == 2


def test_smoothing_moves_a_value_by_at_most_so_many_people() -> None:
    values = np.sort(np.random.default_rng(4).lognormal(size=500))
    margin = NumberMargin.of(values)
    places = np.arange(500)
    moved = margin.smooth(places, 10.0, np.random.default_rng(1))
    low, high = values[np.maximum(places - 11, 0)], values[np.minimum(places + 11, 499)]
    assert ((moved >= low) & (moved <= high)).all()
    assert not np.isin(moved, values).any()


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([1.5, 2.25, 7.0], 0.01),
        ([1000, 3000, 4000], 1000.0),
        ([0.1, 0.30000001], 0.0),
        ([3, 5, 7], 1.0),
        ([0, 0.5], 0.1),
    ],
)
def test_values_keep_the_step_of_their_column(values: list[float], step: float) -> None:
    assert NumberMargin.of(np.array(values, float)).step == pytest.approx(step)


def test_spikes_are_values_of_more_than_five_percent() -> None:
    values = np.concatenate([np.zeros(60), np.arange(1.0, 941.0)])
    margin = NumberMargin.of(values)
    assert margin.spikes.tolist() == [0.0]
    assert 0.0 not in margin.grid


# --- fully synthetic ------------------------------------------------------------------------------------------------


def test_new_rows_belong_to_nobody_and_matched_measures_refuse() -> None:
    data = dc.Dataset(people(), roles={"age": "quasi"})
    made = dc.SequentialTrees()(data, seed=1)
    assert made.has_new_rows and (made.row_ids == -1).all()
    assert made.columns == data.columns
    with pytest.raises(dc.DataError, match="belong to nobody"):
        dc.DistanceLinkage(columns=["age", "income"])(data, made)


def test_distributions_and_relations_are_kept() -> None:
    frame = people(6000)
    made = dc.SequentialTrees()(frame, seed=1)
    for column in ("region", "sex", "job"):
        shares = [dict(one[column].value_counts(normalize=True).iter_rows()) for one in (frame, made)]
        assert all(abs(shares[0][value] - shares[1][value]) < 0.03 for value in shares[0])
    south = [one.filter(pl.col("region") == "south")["age"].mean() for one in (frame, made)]
    north = [one.filter(pl.col("region") == "north")["age"].mean() for one in (frame, made)]
    assert south[1] - north[1] == pytest.approx(south[0] - north[0], abs=1.5)
    assert made.filter(pl.col("age") < 19)["job"].unique().to_list() == ["pupil"]


def test_missing_values_are_drawn_where_the_data_has_them() -> None:
    frame = people(6000)
    made = dc.SequentialTrees()(frame, seed=2)
    for sex, share in (("f", 0.2), ("m", 0.05)):
        part = made.filter(pl.col("sex") == sex)["income"]
        assert part.null_count() / len(part) == pytest.approx(share, abs=0.03)


def test_a_spike_is_drawn_as_such_and_other_numbers_are_nobodys() -> None:
    frame = people(6000).with_columns(pl.col("income") * 1.000123456)
    made = dc.SequentialTrees()(frame, seed=3)
    zero = [(one["income"] == 0).mean() for one in (frame, made)]
    assert zero[1] == pytest.approx(zero[0], abs=0.02)
    positive = made.filter(pl.col("income") > 0)["income"]
    assert not positive.is_in(frame["income"].implode()).any()


def test_rows_identifiers_and_libraries() -> None:
    frame = people(500).with_columns(pl.Series("id", np.arange(500)))
    data = dc.Dataset(frame.to_pandas(), roles={"id": "identifier"})
    made = dc.SequentialTrees(rows=137)(data, seed=1)
    assert len(made) == 137 and "id" not in made.columns
    assert dc.SequentialTrees().removes(data.schema) == ("id",)
    native = made.to_native()
    assert isinstance(native, pd.DataFrame) and native.index.equals(pd.RangeIndex(137))
    assert native["age"].dtype == frame.to_pandas()["age"].dtype
    arrow = dc.SequentialTrees(rows=20)(frame.to_arrow(), seed=1)
    assert type(arrow).__module__.startswith("pyarrow") and arrow.num_rows == 20


def test_dates_sets_booleans_and_ordered_levels() -> None:
    n = 600
    rng = np.random.default_rng(6)
    ill = rng.random(n) < 0.4
    frame = pl.DataFrame(
        {
            "born": [dt.date(1950, 1, 1) + dt.timedelta(days=int(day)) for day in rng.integers(0, 9000, n)],
            "ill": ill,
            "marks": [["a", "b"] if sick else ["b"] for sick in ill],
            "level": pl.Series(rng.choice(["low", "mid", "high"], n), dtype=pl.Enum(["low", "mid", "high"])),
            "seen": [dt.datetime(2020, 1, 1, int(hour)) for hour in rng.integers(0, 24, n)],
        }
    )
    made = dc.SequentialTrees()(frame, seed=1)
    assert made.schema == frame.schema
    assert made["born"].min() >= dt.date(1950, 1, 1) and made["born"].max() <= dt.date(1974, 9, 1)
    sick = made.filter(pl.col("ill"))["marks"].list.contains("a").mean()
    healthy = made.filter(~pl.col("ill"))["marks"].list.contains("a").mean()
    assert sick > 0.9 and healthy < 0.1
    assert made["seen"].dt.minute().max() == 0


def test_missing_sets_are_missing_as_a_whole() -> None:
    frame = pl.DataFrame({"x": np.arange(300) % 7, "s": [None if i % 3 == 0 else ["a"] for i in range(300)]})
    made = dc.SequentialTrees()(frame, seed=1)
    assert made["s"].null_count() / 300 == pytest.approx(1 / 3, abs=0.12)


def test_strata_are_drawn_apart() -> None:
    frame = people(3000).with_columns(pl.when(pl.col("sex") == "f").then(1.0).otherwise(100.0).alias("level"))
    frame = frame.with_columns(pl.col("level") * pl.Series(np.random.default_rng(1).uniform(1, 2, 3000)))
    made = dc.IndependentMargins(by=["sex"])(frame, seed=1)
    assert made.filter(pl.col("sex") == "f")["level"].max() <= 2
    assert made.filter(pl.col("sex") == "m")["level"].min() >= 100
    assert len(made) == 3000


def test_copies_are_numbered_and_differ() -> None:
    data = dc.Dataset(people(400))
    made = dc.SequentialTrees(copies=3, rows=200)(data, seed=1)
    first, second, third = made.copies()
    assert made.frame["copy"].value_counts()["count"].to_list() == [200] * 3
    assert first.columns == data.columns and not first.frame.equals(second.frame)
    assert len(third) == 200
    with pytest.raises(dc.DataError, match="'copy'"):
        dc.SequentialTrees(copies=2)(people(100).with_columns(pl.lit(1).alias("copy")), seed=1)


def test_a_saved_model_draws_again_without_the_data() -> None:
    data = dc.Dataset(people(400))
    method = dc.SequentialTrees()
    decision = Decision.from_json(method.decide(data, dc.Context(1, "a")).to_json())
    assert len(decision.to_json()) < 60_000
    other = dc.Dataset(people(30, seed=9))
    made = method.perform(other, decision, dc.Context(2, "a"))
    assert len(made) == 30
    assert made.frame["age"].max() <= data.frame["age"].max()
    assert "model" not in method.facts(decision)


def test_the_order_of_rows_does_not_change_the_model() -> None:
    data = people(800)
    turned = data[np.random.default_rng(1).permutation(800)]
    method = dc.SequentialTrees()
    one, other = (method.decide(dc.Dataset(frame), dc.Context(1, "a")).to_json() for frame in (data, turned))
    assert one == other


def test_large_files_are_fitted_on_a_sample_with_donors_from_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    from discretion.protect.synthetic import sequential_trees

    frame = people(3000)
    small = lambda leaf, pruning, *_: TreeGrowth(leaf, pruning, 500)  # noqa: E731
    monkeypatch.setattr(sequential_trees, "TreeGrowth", small)
    decision = dc.SequentialTrees().decide(dc.Dataset(frame), dc.Context(1, "a"))
    first = decision["model"]["models"][0]
    assert len(unpack(first["tree"]["donors"])) == 3000


def test_factors_of_thousands_of_levels_keep_what_their_levels_share() -> None:
    rng = np.random.default_rng(8)
    town = rng.integers(0, 3000, 30_000)
    frame = pl.DataFrame(
        {"town": [f"t{code:04}" for code in town], "height": np.round((town % 10) * 100 + rng.normal(size=30_000))}
    )
    made = dc.SequentialTrees()(frame, seed=1)
    codes = made["town"].str.slice(1).cast(int).to_numpy()
    assert np.corrcoef((codes % 10) * 100, made["height"].to_numpy())[0, 1] > 0.9


def test_rare_categories_are_not_drawn() -> None:
    frame = people(500).with_columns(
        pl.when(pl.int_range(500) < 2).then(pl.lit("astronaut")).otherwise(pl.col("job")).alias("job")
    )
    drawn = [dc.SequentialTrees(rows=20_000)(frame, seed=seed)["job"] for seed in (1,)]
    assert all("astronaut" not in one.to_list() for one in drawn)
    assert "astronaut" in dc.SequentialTrees(rows=20_000, min_support=1)(frame, seed=1)["job"].to_list()


# --- partly synthetic -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("generator", GENERATORS)
def test_partly_synthetic_data_keeps_everything_else(generator: type[dc.SequentialTrees]) -> None:
    data = dc.Dataset(people().with_columns(pl.col("income").fill_null(5.0)))
    made = generator(columns=["income"])(data, seed=1)
    assert not made.has_new_rows and np.array_equal(made.row_ids, data.row_ids)
    assert_frame_equal(made.frame.drop("income"), data.frame.drop("income"))
    assert (made.frame["income"] != data.frame["income"]).mean() > 0.3


def test_partly_synthetic_values_depend_on_what_is_kept() -> None:
    frame = people(6000)
    made = dc.SequentialTrees(columns=["job"])(frame, seed=1)
    assert made.filter(pl.col("age") < 20)["job"].unique().to_list() == ["pupil"]


def test_only_records_at_risk_and_as_many_others_are_drawn_anew() -> None:
    frame = people(1000).with_columns(pl.col("income").fill_null(1.0))
    data = dc.Dataset(frame, roles={"age": "quasi", "region": "quasi", "sex": "quasi"})
    risk = dc.SampleUniqueness(columns=["age", "region", "sex"])(data).per_record
    risky = np.asarray(risk, float) > 0.5
    made = dc.SequentialTrees(columns=["age"], records="risky", at_most=0.5, others=1.0)(data, seed=1)
    changed = (made.frame["age"] != data.frame["age"]).to_numpy()
    assert risky.sum() > 10
    assert changed.sum() <= 2 * risky.sum()
    assert changed[~risky].sum() > 0.3 * risky.sum()
    assert changed[risky].mean() > 0.8


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"columns": ["age"], "rows": 5}, "rows"),
        ({"records": "risky"}, "at_most"),
        ({"columns": ["age"], "at_most": 0.5}, "records: risky"),
        ({"by": ["household"]}, "household"),
    ],
)
def test_fields_that_contradict_each_other(fields: dict[str, object], words: str) -> None:
    with pytest.raises(dc.PlanError, match=words):
        dc.SequentialTrees(**fields)(people(100), seed=1)


# --- rules ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("generator", [dc.SequentialTrees, dc.IndependentMargins])
def test_every_drawn_row_fulfils_the_rules(generator: type[dc.SequentialTrees]) -> None:
    rules = ["age >= 20 OR job = 'pupil'", "income >= 0 OR income IS NULL", "NOT (region = 'west' AND sex = 'm')"]
    made = generator(rules=rules, rows=3000)(people(), seed=1)
    assert len(made) == 3000
    assert made.filter(pl.col("age") < 20)["job"].unique().to_list() in ([], ["pupil"])
    assert made.filter((pl.col("region") == "west") & (pl.col("sex") == "m")).height == 0


def test_rules_hold_where_columns_are_kept() -> None:
    rule = "age < 60 OR job != 'smith'"
    made = dc.SequentialTrees(columns=["job"], rules=rule)(people(), seed=1)
    assert made.filter((pl.col("age") >= 60) & (pl.col("job") == "smith")).height == 0


def test_a_rule_that_nothing_fulfils_is_named() -> None:
    with pytest.raises(dc.Infeasible, match="age > 200"):
        dc.SequentialTrees(rules=["age > 200", "income >= 0 OR income IS NULL"])(people(), seed=1)
    with pytest.raises(dc.Infeasible, match="columns age"):
        dc.IndependentMargins(rules=["age > 200"])(people(), seed=1)


def test_a_rule_names_the_column_whose_type_does_not_fit() -> None:
    with pytest.raises(dc.PlanError, match=r"the rule 'b > 3': column 'b' of the type String"):
        dc.SequentialTrees(rules=["b > 3"])(pl.DataFrame({"a": np.arange(50.0), "b": ["x", "y"] * 25}), seed=1)


def test_a_stratum_of_few_people_is_not_named_by_its_values() -> None:
    frame = pl.DataFrame({"a": np.arange(50.0), "g": [731.5, *[2.5] * 49]})
    with pytest.raises(dc.DataError, match=r"in a group of 1 rows \(by g\)") as found:
        dc.SequentialTrees(by=["g"])(frame, seed=1)
    assert "731.5" not in str(found.value)


def test_how_often_rules_were_broken_is_reported() -> None:
    data = dc.Dataset(people())
    method = dc.IndependentMargins(rules=["age >= 20 OR job = 'pupil'"])
    told = method.facts(method.decide(data, dc.Context(1, "a")))["rules"]
    assert told["broken_in_original"] == {"age >= 20 OR job = 'pupil'": 0}
    assert told["broken_draws"]["age >= 20 OR job = 'pupil'"] > 0


@pytest.mark.parametrize(
    "rule", ["agee > 3", "age > sex", "age >", "lower(job) = 'x'", "age = 'old'", "1 = 1; DROP TABLE x"]
)
def test_rules_that_cannot_be_read_are_refused(rule: str) -> None:
    with pytest.raises(dc.PlanError, match=r"rule|constant"):
        dc.SequentialTrees(rules=[rule])(people(200), seed=1)


# --- households -----------------------------------------------------------------------------------------------------


def homes(count: int = 400) -> dc.Dataset:
    rng = np.random.default_rng(3)
    sizes = rng.choice([1, 2, 4], count, p=[0.5, 0.3, 0.2])
    home = np.repeat(np.arange(count), sizes)
    place = np.concatenate([np.arange(size) for size in sizes])
    region = rng.choice(["n", "s"], count)[home]
    head_age = rng.integers(25, 80, count)[home]
    partner, child = head_age + rng.integers(-4, 5, len(home)), rng.integers(0, 18, len(home))
    age = np.where(place == 0, head_age, np.where(place == 1, partner, child))
    frame = pl.DataFrame({"home": home, "region": region, "age": age, "sex": rng.choice(["f", "m"], len(home))})
    return dc.Dataset(frame, roles={"home": "household", "region": "quasi", "age": "quasi", "sex": "quasi"})


def test_households_have_heads_members_sizes_and_new_numbers() -> None:
    data = homes()
    made = dc.SequentialTrees()(data, seed=1)
    sizes = made.frame.group_by("home").len()["len"].value_counts().sort("len")
    assert sizes["len"].to_list() == [1, 2, 4]
    shares = (sizes["count"] / sizes["count"].sum()).to_list()
    assert shares == pytest.approx([0.5, 0.3, 0.2], abs=0.07)
    assert made.frame.group_by("home").agg(pl.col("region").n_unique())["region"].max() == 1
    pairs = made.frame.group_by("home", maintain_order=True).agg(pl.col("age")).filter(pl.col("age").list.len() == 2)
    gap = pairs.select((pl.col("age").list.get(0) - pl.col("age").list.get(1)).abs())["age"]
    assert gap.median() < 12  # the second person is about as old as the head; strangers differ by 18 in the median


def test_households_of_copies_and_strata_do_not_share_numbers() -> None:
    data = homes(100)
    made = dc.SequentialTrees(copies=2)(data, seed=1)
    first, second = (set(copy.frame["home"]) for copy in made.copies())
    assert not first & second
    frames = told_apart([pl.DataFrame({"h": ["1", "2"]}), pl.DataFrame({"h": ["1"]})], ["h"])
    assert [frame["h"].to_list() for frame in frames] == [["1", "2"], ["3"]]


def test_households_fulfil_rules_as_wholes() -> None:
    made = dc.SequentialTrees(rules=["age >= 5"])(homes(), seed=1)
    assert made.frame["age"].min() >= 5
    assert set(made.frame.group_by("home").len()["len"]) <= {1, 2, 4}


def test_other_generators_refuse_households() -> None:
    with pytest.raises(dc.DataError, match="'home'"):
        dc.IndependentMargins()(homes(), seed=1)


# --- what is refused, and what is reproduced ------------------------------------------------------------------------


CONSTANT = {
    "place": pl.lit("here"), "number": pl.lit(3.5), "day": pl.lit(dt.date(2024, 5, 1)), "whole": pl.lit(2024),
    "nothing": pl.lit(None, pl.Float64), "silence": pl.lit(None, pl.String), "set": pl.lit(["a"]),
}  # fmt: skip


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("name", CONSTANT)
def test_a_column_with_one_value_or_none_is_refused_by_name_or_kept(
    name: str, generator: type[dc.SequentialTrees]
) -> None:
    numbers = people(200).select("age", "income").with_columns(CONSTANT[name].alias(name))
    words = "no value" if numbers[name].null_count() else "one value only"
    with pytest.raises(dc.DataError, match=rf"'{name}' has {words}.*drop the column, or say `constants: keep`"):
        generator()(numbers, seed=1)
    made = generator(constants="keep")(numbers, seed=1)
    assert made.columns == numbers.columns and made.schema[name] == numbers.schema[name]
    assert made[name].equals(numbers[name], null_equal=True)
    with pytest.raises(dc.DataError, match=f"'{name}' has {words}"):
        generator(columns=[name])(numbers, seed=1)
    partly = generator(columns=["income"])(numbers, seed=1)  # kept columns need no leave
    assert partly[name].equals(numbers[name], null_equal=True)


def test_a_column_may_have_one_value_in_a_stratum_and_in_a_part_of_the_people() -> None:
    frame = people(900).with_columns(
        pl.when(pl.col("region") == "west").then(pl.lit("w")).otherwise("job").alias("job")
    )
    made = dc.SequentialTrees(by=["region"])(frame, seed=1)
    assert made.filter(pl.col("region") == "west")["job"].unique().to_list() == ["w"]
    rare = people(400).with_columns(pl.Series("odd", ["x"] * 3 + ["y"] * 397))  # alone in one half or the other
    data = dc.Dataset(rare, roles={"region": "quasi", "age": "quasi", "income": "sensitive"})
    made = dc.SequentialTrees()(data, seed=1)
    found = dc.GeneratorMembership(shadows=8)(data, made)
    assert "odd" in found.detail["columns"]


def test_columns_that_name_people_are_refused_by_name() -> None:
    names = pl.Series("who", [f"person {i}" for i in range(500)])
    with pytest.raises(dc.DataError, match=r"'who'.*one person only"):
        dc.SequentialTrees()(people(500).with_columns(names), seed=1)
    many = pl.DataFrame({"who": [f"p{i % 100_000}" for i in range(200_000)], "x": np.arange(200_000) % 3})
    with pytest.raises(dc.DataError, match=r"'who'.*100,000 different values"):
        dc.SequentialTrees()(many, seed=1)


@pytest.mark.parametrize("generator", GENERATORS)
def test_too_few_rows_are_refused(generator: type[dc.SequentialTrees]) -> None:
    frame = pl.DataFrame({"x": np.arange(9.0)})
    with pytest.raises(dc.DataError, match="9 rows"):
        generator()(frame, seed=1)
    with pytest.raises(dc.DataError, match="min_leaf"):
        dc.SequentialTrees(min_leaf=50)(people(40), seed=1)


def test_a_column_of_which_every_category_is_rare_is_named() -> None:
    with pytest.raises(dc.DataError, match=r"'job'.*min_support"):
        dc.SequentialTrees(min_support=5000)(people(200).select("age", "job"), seed=1)


# --- copula ---------------------------------------------------------------------------------------------------------


def test_the_copula_keeps_rank_correlations_and_margins() -> None:
    from scipy.stats import ks_2samp, spearmanr

    rng = np.random.default_rng(1)
    z = rng.multivariate_normal([0, 0, 0], [[1, 0.7, -0.4], [0.7, 1, 0.1], [-0.4, 0.1, 1]], 8000)
    grades = pl.Series("c", np.digitize(z[:, 2], [-0.5, 0.5]), dtype=pl.Int64)
    frame = pl.DataFrame({"a": np.exp(z[:, 0]), "b": z[:, 1]}).with_columns(grades)
    made = dc.GaussianCopula()(frame, seed=1)
    want, got = (spearmanr(one.to_numpy()).statistic for one in (frame, made))
    assert np.abs(want - got).max() < 0.03
    assert max(ks_2samp(frame[name], made[name]).statistic for name in ("a", "b")) < 0.02
    assert not made["a"].is_in(frame["a"].implode()).any()


def test_the_copula_refuses_nominal_columns_and_draws_missing_ones() -> None:
    with pytest.raises(dc.DataError, match="'region' is nominal"):
        dc.GaussianCopula()(people(), seed=1)
    made = dc.GaussianCopula()(people(4000).select("age", "income"), seed=1)
    share = people(4000)["income"].null_count() / 4000
    assert made["income"].null_count() / 4000 == pytest.approx(share, abs=0.02)


# --- exact moments --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [None, 70])
def test_means_and_covariances_are_exact(rows: int | None) -> None:
    x = np.random.default_rng(1).lognormal(size=(300, 4)) * [1, 1e3, 1e-3, 1]
    frame = pl.DataFrame(x, schema=["a", "b", "c", "d"])
    made = dc.MomentPreserving(rows=rows)(frame, seed=1).to_numpy()
    sd = x.std(axis=0)
    assert np.abs((made.mean(axis=0) - x.mean(axis=0)) / sd).max() < 1e-12
    assert np.abs((np.cov(made.T, bias=True) - np.cov(x.T, bias=True)) / np.outer(sd, sd)).max() < 1e-12
    assert np.abs(np.corrcoef(made[: len(x)].T[:, : min(len(made), 300)])).max() <= 1 + 1e-12


def test_regressions_on_kept_columns_are_the_same() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=400)
    y = 3 + 2 * x + rng.gumbel(size=400)
    made = dc.MomentPreserving(columns=["y"])(pl.DataFrame({"x": x, "y": y}), seed=1)
    design = np.column_stack([np.ones(400), x])
    want, got = (np.linalg.lstsq(design, one, rcond=None) for one in (y, made["y"].to_numpy()))
    assert got[0] == pytest.approx(want[0], rel=1e-10) and got[1] == pytest.approx(want[1], rel=1e-10)


def test_moments_of_every_group_are_exact_and_small_groups_are_refused() -> None:
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({"g": ["a"] * 40 + ["b"] * 40, "x": rng.normal(size=80), "y": rng.normal(size=80)})
    made = dc.MomentPreserving(columns=["x", "y"], by=["g"])(frame, seed=1)
    for group in ("a", "b"):
        one, other = (part.filter(pl.col("g") == group).select("x", "y").to_numpy() for part in (frame, made))
        assert np.allclose(one.mean(axis=0), other.mean(axis=0), atol=1e-12)
        assert np.allclose(np.cov(one.T), np.cov(other.T), atol=1e-12)
    wide = pl.DataFrame(rng.normal(size=(12, 11)), schema=[f"c{i}" for i in range(11)])
    with pytest.raises(dc.DataError, match="12 records without missing values for 11 columns"):
        dc.MomentPreserving()(wide, seed=1)


def test_a_record_that_dominates_a_total_is_refused() -> None:
    x = np.append(np.linspace(1, 2, 30), 1e4)
    with pytest.raises(dc.DataError, match=r"'x'.*dominance"):
        dc.MomentPreserving()(pl.DataFrame({"x": x, "y": np.arange(31.0)}), seed=1)


def test_independent_margins_keep_margins_and_nothing_else() -> None:
    from scipy.stats import ks_2samp

    x = np.random.default_rng(5).normal(size=5000)
    frame = pl.DataFrame({"x": x, "y": 2 * x})
    made = dc.IndependentMargins()(frame, seed=1)
    assert abs(np.corrcoef(made.to_numpy().T)[0, 1]) < 0.05
    assert ks_2samp(made["x"], x).statistic < 0.03


# --- numbers that several rows of one person, couple or household share -----------------------------------------------


def repeated(people: int, rows: int, seed: int = 4) -> pl.DataFrame:
    """Give people with several rows each, all with the person's own amount."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), rows)
    pay = np.round(rng.lognormal(11, 1, people), 4)[who]
    return pl.DataFrame({"who": who, "age": rng.integers(0, 90, people * rows), "pay": pay})


@pytest.mark.parametrize("kind", ["sequential-trees", "independent-margins", "gaussian-copula"])
@pytest.mark.parametrize("columns", [(), ("pay",)])
@pytest.mark.parametrize(("rows", "role"), [(2, None), (12, None), (12, "unit"), (12, "identifier")])
def test_a_number_of_one_person_is_not_drawn_however_many_rows_have_it(
    kind: str, columns: tuple[str, ...], rows: int, role: str | None
) -> None:
    frame = repeated(100, rows)
    data = dc.Dataset(frame, roles={"who": role}) if role else dc.Dataset(frame.drop("who"))
    made = MODELS[kind](columns=columns)(data, seed=1).frame["pay"].to_numpy()
    own = frame["pay"].to_numpy()
    assert np.isin(made, own).mean() < 0.001
    top = np.sort(np.unique(own))[-10:]
    assert made.max() <= top.mean() + 1e-4
    assert np.median(made) == pytest.approx(np.median(own), rel=0.2)


def test_values_that_many_people_have_are_still_drawn() -> None:
    rng = np.random.default_rng(3)
    pay = np.where(rng.random(2000) < 0.03, 50_000.0, np.round(rng.lognormal(11, 1, 2000), 2))
    drawn = dc.IndependentMargins()(pl.DataFrame({"pay": pay}), seed=1)["pay"].to_numpy()
    assert (drawn == 50_000.0).mean() == pytest.approx((pay == 50_000.0).mean(), abs=0.012)
    prices = np.repeat([3.99, 18.5, 250.0], [500, 300, 200])
    assert set(dc.IndependentMargins()(pl.DataFrame({"x": prices}), seed=1)["x"]) == {3.99, 18.5, 250.0}


def test_a_person_with_many_rows_makes_no_spike() -> None:
    values = np.concatenate([np.full(200, 777.77), np.random.default_rng(1).lognormal(size=800)])
    units = np.concatenate([np.zeros(200, int), np.arange(1, 801)])
    assert NumberMargin.of(values).spikes.tolist() == [777.77]
    margin = NumberMargin.of(values, units)
    assert not len(margin.spikes)
    assert not margin.shared.any()
    assert margin.total == pytest.approx(801)


def test_people_with_several_values_count_once() -> None:
    margin = NumberMargin.of(np.array([1.0, 2.0, 2.0, 5.0, 5.0]), np.array([0, 0, 1, 1, 1]))
    assert margin.people.tolist() == [0.5, 1.0, 0.5]


@pytest.mark.parametrize("kind", ["sequential-trees", "independent-margins", "gaussian-copula"])
@pytest.mark.parametrize("count", [1, 2, 9])
@pytest.mark.parametrize("rest", [None, 5.0])
def test_numbers_of_fewer_than_ten_people_are_not_drawn(kind: str, count: int, rest: float | None) -> None:
    rng = np.random.default_rng(1)
    cells = [*np.round(rng.lognormal(10, 1, count), 2).tolist(), *([rest] * (400 - count))]
    frame = pl.DataFrame({"age": rng.integers(0, 90, 400), "paid": pl.Series(cells, dtype=pl.Float64)})
    method, data = MODELS[kind](), dc.Dataset(frame)
    assert set(method(data, seed=3).frame["paid"].unique()) == {rest}
    assert method.facts(method.decide(data, dc.Context(3, "a")))["not_drawn"] == ["paid"]


@pytest.mark.parametrize("kind", ["sequential-trees", "independent-margins", "gaussian-copula"])
def test_extremes_stop_at_the_median_of_the_largest_unless_they_are_kept(kind: str) -> None:
    pay = np.round(np.random.default_rng(2).lognormal(10, 1, 1000), 2)
    pay[0] = 9e7
    frame = pl.DataFrame({"pay": pay})
    coded, kept = (
        np.concatenate([MODELS[kind](extremes=how)(frame, seed=s)["pay"].to_numpy() for s in range(5)])
        for how in ("code", "keep")
    )
    assert coded.max() <= np.sort(pay)[-10:].mean() + 0.01
    assert coded.min() >= np.sort(pay)[:10].mean() - 0.01
    assert kept.max() > np.sort(pay)[-10:].mean()


def test_trees_and_rare_levels_count_people_not_rows() -> None:
    rng = np.random.default_rng(6)
    who = np.repeat(np.arange(100), 12)
    frame = pl.DataFrame(
        {
            "who": who,
            "age": rng.integers(16, 90, 100)[who],
            "pay": np.round(rng.lognormal(11, 1, 100), 2)[who],
            "job": np.where(who < 2, "rare", rng.choice(["a", "b"], 1200)),
        }
    )
    method = dc.SequentialTrees()
    rows, people = (dc.Dataset(frame, roles={"who": role}) for role in ("other", "unit"))
    leaves = [method.facts(method.decide(data.drop(["who"]) if data is rows else data, dc.Context(1, "a")))["leaves"]
              for data in (rows, people)]  # fmt: skip
    assert leaves[0]["pay"] > 5 * leaves[1]["pay"]  # age says nothing about pay, but tells the people
    assert "rare" in method(rows.drop(["who"]), seed=1).frame["job"].to_list()
    for model in (dc.SequentialTrees, dc.IndependentMargins):
        assert "rare" not in model()(people, seed=1).frame["job"].to_list()


@pytest.mark.parametrize("odd", [1e6, -1e6])
def test_moments_that_one_record_dominates_are_refused(odd: float) -> None:
    x = np.random.default_rng(1).normal(1000, 300, 2000)
    x[0] = odd
    assert abs(odd) < 0.85 * np.abs(x).sum()  # it is the squares that it dominates
    with pytest.raises(dc.DataError, match="squares"):
        dc.MomentPreserving()(pl.DataFrame({"x": x, "y": x[::-1]}), seed=1)
    signed = np.append(np.random.default_rng(1).normal(0, 1, 20), [-1.0, 1e6])
    with pytest.raises(dc.DataError, match="dominance"):
        dc.MomentPreserving()(pl.DataFrame({"x": signed}), seed=1)


def test_moments_of_fewer_than_ten_values_are_refused() -> None:
    x = pl.Series([float(v) for v in range(1, 10)] + [None] * 30)
    with pytest.raises(dc.DataError, match="at least 10"):
        dc.MomentPreserving()(pl.DataFrame({"x": x}), seed=1)


@pytest.mark.parametrize("columns", [(), ("pay",)])
def test_rules_that_only_a_few_people_fulfil_are_refused(columns: tuple[str, ...]) -> None:
    frame = pl.DataFrame({"age": np.arange(300) % 100, "pay": np.random.default_rng(1).lognormal(10, 1, 300)})
    method = dc.SequentialTrees(rules=["age >= 98"], columns=columns)  # six people
    with pytest.raises(dc.DataError, match="fewer than 10 rows"):
        method(frame, seed=1)


# --- what a stranger found ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(MODELS))
def test_an_amount_far_above_all_others_leaves_no_trace(kind: str) -> None:
    """From the mean of the ten largest, the largest drawn value and the tenth, it could be computed."""
    amounts = np.random.default_rng(1).lognormal(10, 0.5, 2000).round(2)
    usual = np.sort(amounts)[-5]
    amounts[7] = 61_234_567.89
    made = MODELS[kind](copies=5)(pl.DataFrame({"income": amounts}), seed=3)
    assert made["income"].max() <= usual
    days = [dt.date(1940, 1, 1) + dt.timedelta(days=int(d)) for d in np.random.default_rng(2).integers(0, 20_000, 1000)]
    born = pl.DataFrame({"born": [dt.date(1903, 5, 5), *days]})
    assert MODELS[kind](copies=5)(born, seed=3)["born"].min() >= dt.date(1940, 1, 1)  # type: ignore[operator]


@pytest.mark.parametrize("kind", list(MODELS))
@pytest.mark.parametrize("odd", [1234.56, 1234.56789, 1001.0])
def test_the_decimals_of_one_person_do_not_show(kind: str, odd: float) -> None:
    incomes = np.random.default_rng(1).integers(10, 900, 1000) * 100.0
    for values in (incomes, np.append(incomes, odd)):
        made = MODELS[kind]()(pl.DataFrame({"income": values}), seed=1)["income"]
        assert (made % 100 == 0).all()


def test_the_step_is_that_of_all_but_a_few_people() -> None:
    def step(values: np.ndarray) -> float:
        return NumberMargin.of(np.asarray(values, float)).step

    rng = np.random.default_rng(3)
    cents = np.round(rng.uniform(1, 100, 500), 2)
    assert step(np.append(cents, 1.23456)) == 0.01
    assert step(rng.integers(1, 500, 800) * 25) == 25
    assert step(np.append(rng.integers(1, 500, 800) * 25, [3, 7, 11])) == 25
    assert step(np.append(rng.integers(1, 500, 800) * 25, np.arange(20) * 25 + 3)) == 1  # twenty people are not few
    assert step(rng.normal(size=200)) == 0
    assert step(-100 * rng.integers(1, 90, 300)) == 100


def panel(visits: int) -> pl.DataFrame:
    """Give 120 people with several rows each and a number that nobody declared."""
    rng = np.random.default_rng(4)
    who = np.repeat(np.arange(120), visits)
    born, sex, ill = rng.integers(1930, 2005, 120), rng.choice(["f", "m"], 120), rng.choice(list("ABCDE"), 120)
    numbers = [f"K{number}" for number in rng.permutation(90_000)[:120]]
    return pl.DataFrame(
        {
            "ref": np.array(numbers)[who], "born": born[who], "sex": sex[who], "diagnosis": ill[who],
            "cost": rng.lognormal(6, 0.5, len(who)).round(2),
        }
    )  # fmt: skip


@pytest.mark.parametrize("visits", [4, 25])
@pytest.mark.parametrize("generator", [dc.SequentialTrees, dc.IndependentMargins])
def test_numbers_of_people_that_nobody_declared_are_refused(visits: int, generator: type[dc.SequentialTrees]) -> None:
    with pytest.raises(dc.DataError, match=r"column 'ref' looks like numbers of people.*born, sex, diagnosis"):
        generator()(panel(visits), seed=1)
    made = generator()(dc.Dataset(panel(visits), roles={"ref": "unit"}), seed=1)
    assert "ref" not in made.columns


def test_many_values_of_a_few_rows_each_are_not_drawn_where_nobody_tells_the_people() -> None:
    with pytest.raises(dc.DataError, match="column 'ref': no value is that of 10 people"):
        dc.SequentialTrees()(panel(5).select("ref", "sex", "cost"), seed=1)


def test_places_and_codes_with_coarser_levels_are_no_numbers_of_people() -> None:
    rng = np.random.default_rng(1)
    town = rng.integers(0, 60, 1500)
    frame = pl.DataFrame(
        {"town": [f"t{t}" for t in town], "county": [f"c{t // 6}" for t in town], "urban": (town % 6 == 0).tolist()}
    )
    assert set(dc.SequentialTrees()(frame, seed=1)["town"]) == set(frame["town"])


def test_covariances_with_a_column_of_few_people_are_refused() -> None:
    """Σ z·x is published exactly: of a z that one person has it is that person's x."""
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"age": rng.integers(18, 90, 500), "income": rng.lognormal(10, 0.5, 500)})
    for count in (1, 2, 9):
        few = frame.with_columns(pl.Series("transplant", (np.arange(500) < count).astype(int)))
        with pytest.raises(dc.DataError, match="'transplant' is the same for all but fewer than 10"):
            dc.MomentPreserving(columns=["income"])(few, seed=1)
    many = frame.with_columns(pl.Series("transplant", (np.arange(500) < 50).astype(int)))
    made = dc.MomentPreserving(columns=["income"])(many, seed=1)
    assert np.cov(made["income"], many["transplant"]) == pytest.approx(np.cov(many["income"], many["transplant"]))
    nights = rng.normal(0, 1e-3, 500)
    nights[[3, 9]] = 12, 9
    with pytest.raises(dc.DataError, match="decided by two records or fewer"):
        dc.MomentPreserving()(frame.with_columns(pl.Series("nights", nights)), seed=1)


# --- names and types that a model must not trip over ----------------------------------------------------------------


def test_strata_that_tear_households_apart_are_refused() -> None:
    frame = people(600).with_columns(pl.Series("home", np.arange(600) // 3))
    data = dc.Dataset(frame, roles={"home": "household"})
    with pytest.raises(dc.DataError, match="by: column 'sex' differs within households"):
        dc.SequentialTrees(by=["sex"])(data, seed=1)


def test_rules_that_only_a_few_people_fulfil_are_refused_in_households_too() -> None:
    frame = people(600).with_columns(pl.Series("home", np.arange(600) // 3))
    data = dc.Dataset(frame, roles={"home": "household"})
    with pytest.raises(dc.DataError, match="fewer than 10 rows of the data fulfil the rules"):
        dc.SequentialTrees(rules=[f"income >= {frame['income'].sort(descending=True, nulls_last=True)[2]}"])(
            data, seed=1
        )
    known = dc.SequentialTrees(rules=["age >= 20 OR job = 'pupil'"]).fit(data, dc.Context(1))
    assert known["rules"]["broken_in_original"] == {"age >= 20 OR job = 'pupil'": 0}


def test_columns_may_be_named_as_what_is_drawn_beside_them() -> None:
    rng = np.random.default_rng(1)
    frame = people(600).with_columns(
        pl.Series("home", np.arange(600) // 3, dtype=pl.UInt8),
        pl.Series("household size", rng.choice(["a", "b", "c"], 600)),
        pl.Series("head: age", rng.choice(["x", "y"], 600)),
    )
    made = dc.SequentialTrees(copies=2)(dc.Dataset(frame, roles={"home": "household"}), seed=1).frame
    assert made.group_by("home").len()["len"].unique().to_list() == [3]
    assert made["home"].n_unique() == 400 and set(made["household size"]) == {"a", "b", "c"}
    slashed = frame.select(pl.col("age").alias("a/b"), "income")
    assert dc.SequentialTrees(rules=['"a/b" >= 30'])(slashed, seed=1)["a/b"].min() >= 30  # type: ignore[operator]
    sets = pl.Series("s", [["p", "q"], ["p"], []] * 200)
    with pytest.raises(dc.DataError, match="column 's/0' is named like an item"):
        dc.SequentialTrees()(pl.DataFrame([sets, pl.Series("s/0", rng.normal(size=600))]), seed=1)


@pytest.mark.parametrize("rows", [[[]], [None], [None, []]])
def test_sets_without_items(rows: list[object]) -> None:
    sets = pl.Series("s", rows * (120 // len(rows)), dtype=pl.List(pl.String))
    made = dc.SequentialTrees(constants="keep")(people(120).with_columns(sets), seed=1)
    assert made["s"].null_count() == pytest.approx(sets.null_count(), abs=40)
    assert made["s"].drop_nulls().list.len().sum() == 0


def test_whole_numbers_that_floats_do_not_tell_apart_are_refused() -> None:
    frame = people(100).with_columns((pl.col("age") + 2**60).alias("code"))
    with pytest.raises(dc.DataError, match=r"column 'code' has whole numbers beyond 2\^53"):
        dc.SequentialTrees()(frame, seed=1)
