"""What members and strangers learn from groups: worked tables, brute force over all coalitions, planted truths."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc


def attack(data: Any, released: Any = None, **fields: Any) -> dc.Score:
    return dc.GroupAttack(**fields)(data, data if released is None else released)


def others_in(groups: list[Any], victim: int) -> list[int]:
    return [i for i, g in enumerate(groups) if g == groups[victim] and i != victim]


def coalitions(others: list[int], size: int) -> list[tuple[int, ...]]:
    return list(combinations(others, min(size, len(others))))


def naive_values(
    groups: list[Any], true: list[Any], published: list[Any], c: int, share: float, percent: float
) -> list[bool]:
    """Try every coalition of at most c others; a missing true value is never learnt."""

    def near(value: Any, wanted: Any) -> bool:
        if value is None or isinstance(wanted, str):
            return bool(value == wanted)
        return bool(abs(value - wanted) <= percent / 100 * abs(wanted))

    result = []
    for i, value in enumerate(true):
        others = others_in(groups, i)
        best = 0.0
        for size in range(c + 1):
            for members in coalitions(others, size):
                left = [i, *(j for j in others if j not in members)]
                best = max(best, np.mean([value is not None and near(published[j], value) for j in left]))
        result.append(bool(best >= share - 1e-9))
    return result


@pytest.mark.parametrize("c", [0, 1, 2, 5])
@pytest.mark.parametrize(("share", "percent"), [(1.0, 0.0), (0.6, 0.0), (1.0, 40.0), (0.5, 40.0)])
def test_values_against_all_coalitions(c: int, share: float, percent: float) -> None:
    rng = np.random.default_rng(c)
    for kind in ("number", "text"):
        for _ in range(4):
            groups = rng.integers(0, 5, 24).tolist()
            true: list[Any] = rng.integers(1, 5, 24).tolist()
            published = [v if rng.random() < 0.8 else int(rng.integers(1, 5)) for v in true]
            true[3], published[5] = None, None
            if kind == "text":
                true, published = ([None if v is None else f"v{v}" for v in side] for side in (true, published))
            want = naive_values(groups, true, published, c, share, percent)
            frames = (pl.DataFrame({"g": groups, "s": side}) for side in (true, published))
            score = attack(*frames, columns=["g"], sensitive=["s"], coalition=c, share=share, percent=percent)
            assert score.per_record is not None and score.per_record.tolist() == want
            assert score.value == pytest.approx(sum(want) / 23)


def naive_total(
    groups: list[int], x: list[float], c: int, percent: float, lower: float | None, upper: float | None, w: list[float]
) -> list[bool]:
    result = []
    for i in range(len(x)):
        others = others_in(groups, i)
        own, learnt = w[i] * x[i], False
        for members in coalitions(others, c):
            rest = [j for j in others if j not in members]
            left = own + sum(w[j] * x[j] for j in rest)  # the total less what the coalition knows
            limits = [limit for limit in (lower, upper) if limit is not None]
            bounds = [left - sum(w[j] * limit for j in rest) for limit in limits] if rest else [left]
            learnt |= any(abs(bound - own) <= percent / 100 * abs(own) + 1e-9 for bound in bounds)
        result.append(learnt)
    return result


@pytest.mark.parametrize("c", [0, 1, 2, 6])
@pytest.mark.parametrize("limits", [(0.0, None), (None, None), (0.0, 130.0), (None, 130.0)])
@pytest.mark.parametrize("weighted", [False, True])
def test_totals_against_all_coalitions(c: int, limits: tuple[float | None, float | None], weighted: bool) -> None:
    rng = np.random.default_rng(c + 10)
    lower, upper = limits
    for percent in (0.0, 15.0, 60.0):
        groups = rng.integers(0, 5, 22).tolist()
        x = np.round(np.minimum(rng.lognormal(3, 1, 22), 130), 2).tolist()
        x[4] = x[5] = 0.0
        w = rng.integers(1, 5, 22).astype(float).tolist() if weighted else [1.0] * 22
        table = pl.DataFrame({"g": groups, "x": x, "w": w})
        fields: dict[str, Any] = {"weight": "w"} if weighted else {}
        score = attack(
            table, columns=["g"], sensitive=["x"], published="total", coalition=c, percent=percent, lower=lower,
            upper=upper, **fields,
        )  # fmt: skip
        assert score.per_record is not None
        assert score.per_record.tolist() == naive_total(groups, x, c, percent, lower, upper, w)


def test_homogeneous_classes_of_the_literature() -> None:
    """Table 5: everybody in 80100 has 10000; the writers' incomes lie between 23000 and 28000."""
    table = dc.datasets.homogeneous_classes()
    score = attack(table)
    assert score.value == 0.5 and score.per_record is not None
    assert score.per_record.tolist() == [True] * 3 + [False] * 3
    assert score.detail["attacks"]["income"]["homogeneous_groups"] == 1
    assert score.detail["groups_learnt"] == 1
    assert attack(table, percent=12).value == pytest.approx(4 / 6)  # 25000 ± 12 % covers 23000 and 28000
    assert attack(table, percent=22).value == 1.0
    assert attack(table, coalition=2).value == 1.0


def test_diverse_classes_of_the_literature() -> None:
    """Table 6a: no stranger learns, but the teacher with 20000 learns what the two others have."""
    table = dc.datasets.diverse_classes()
    assert attack(table).value == 0
    inside = attack(table, coalition=1)
    assert inside.per_record is not None and inside.per_record.tolist() == [True, False, True, False, False, False]
    assert attack(table, share=0.6).value == pytest.approx(2 / 6)


def test_distinct_diversity_stops_a_smaller_coalition() -> None:
    """With l different values, each once, no coalition of l − 2 or fewer is certain; one of l − 1 is."""
    table = pl.DataFrame({"g": [1] * 4 + [2] * 4, "s": list("abcd") * 2})
    assert dc.DistinctLDiversity(l=4, columns=["g"], sensitive=["s"])(table).holds
    values = [attack(table, columns=["g"], sensitive=["s"], coalition=c).value for c in range(5)]
    assert values == [0, 0, 0, 1, 1]


def test_p_percent_rule() -> None:
    """The second largest contributor estimates the largest: sensitive when the rest is less than p percent of it."""
    cells = {"safe": [100.0, 50, 20, 15], "unsafe": [100.0, 50, 6, 3], "single": [70.0], "pair": [60.0, 40]}
    table = pl.DataFrame([(name, x) for name, xs in cells.items() for x in xs], schema=["cell", "x"], orient="row")
    score = attack(table, columns=["cell"], sensitive=["x"], published="total", coalition=1, percent=10)
    assert score.per_record is not None
    assert set(table["cell"].filter(score.per_record)) == {"unsafe", "single", "pair"}
    assert score.detail["attacks"]["x"]["nobody_else_left"] == 3


def test_microaggregated_clusters_fall_to_all_but_one() -> None:
    people = dc.datasets.census(400, seed=1).frame.select("age", "income").cast(pl.Float64)
    released = dc.Mdav(columns=["income"], k=3)(people).with_columns(pl.col("income").alias("group"))
    original = people.with_columns(released["group"])
    fields: dict[str, Any] = {"columns": ["group"], "sensitive": ["income"], "published": "total"}
    sizes = dc.Dataset(released).class_sizes(["group"])
    alone = attack(original, released, coalition=2, **fields)
    assert alone.detail["attacks"]["income"]["nobody_else_left"] == np.sum(sizes <= 3)
    assert alone.per_record is not None and alone.per_record[sizes <= 3].all()
    shares = [attack(original, released, coalition=c, percent=5, **fields).value for c in (0, 1, 2, 5)]
    assert shares == sorted(shares) and shares[-1] == 1


def test_width_of_the_intervals() -> None:
    """A stranger knows of {10, 30} only that each has between 0 and 40; of {50} everything."""
    table = pl.DataFrame({"g": [1, 1, 2], "x": [10.0, 30, 50]})
    detail = attack(table, columns=["g"], sensitive=["x"], published="total").detail["attacks"]["x"]
    assert detail["mean_interval_share"] == pytest.approx((40 + 40 + 0) / 3 / 40)
    assert detail["nobody_else_left"] == 1
    unbounded = attack(table, columns=["g"], sensitive=["x"], published="total", lower=None)
    assert unbounded.detail["attacks"]["x"]["mean_interval_share"] is None


def test_perturbed_totals_are_not_exact() -> None:
    table = pl.DataFrame({"g": [1, 1, 2, 2], "x": [10.0, 20, 30, 40]})
    noisy = table.with_columns(x=pl.Series([10.0, 25, 30, 40]))
    fields: dict[str, Any] = {"columns": ["g"], "sensitive": ["x"], "published": "total", "coalition": 1}
    score = attack(table, noisy, **fields)
    assert score.per_record is not None and score.per_record.tolist() == [False, False, True, True]


def test_a_larger_coalition_or_a_looser_estimate_learns_more() -> None:
    rng = np.random.default_rng(7)
    table = pl.DataFrame({"g": rng.integers(0, 40, 300), "s": rng.integers(1, 6, 300)})
    for published in ("values", "total"):
        fields: dict[str, Any] = {"columns": ["g"], "sensitive": ["s"], "published": published}
        by_size = [attack(table, coalition=c, **fields).value for c in range(6)]
        by_percent = [attack(table, coalition=1, percent=p, **fields).value for p in (0, 20, 60, 200)]
        assert by_size == sorted(by_size) and by_percent == sorted(by_percent)


def test_near_is_a_part_of_how_far_values_lie_apart() -> None:
    """5 % of 2000 are a hundred years, which is everybody; 5 % of the sixty years between them are three."""
    rng = np.random.default_rng(3)
    years = rng.integers(1940, 2001, 4_000)
    table = pl.DataFrame({"g": np.arange(4_000) // 4, "s": years})
    score = attack(table, columns=["g"], sensitive=["s"], percent=5)
    low, middle, high = np.quantile(years, [0.05, 0.5, 0.95])
    reach = 0.05 * np.maximum(high - low, np.abs(years - middle))
    near = np.abs(years[:, None] - years.reshape(-1, 4).repeat(4, axis=0)) <= reach[:, None]
    assert score.value == pytest.approx(near.all(axis=1).mean()) and score.value < 0.05
    assert score.detail["certain_by_chance"] == 0
    incomes = table.with_columns(
        s=pl.Series(np.repeat(rng.lognormal(7, 1, 1_000), 4) * np.tile([1, 1.02, 1.01, 1], 1_000))
    )
    assert attack(incomes, columns=["g"], sensitive=["s"], percent=5).value == 1  # amounts: 5 % of each


def test_chance_is_the_table_as_one_group() -> None:
    table = pl.DataFrame({"g": list("aabb"), "s": ["x", "x", "x", "y"]})
    score = attack(table, columns=["g"], sensitive=["s"], share=0.7)
    assert score.value == 0.5
    assert score.detail["chance"] == 0.75 == score.detail["attacks"]["s"]["majority"]


def test_several_sensitive_columns() -> None:
    table = pl.DataFrame({"g": [1, 1, 2, 2], "s": ["x", "x", "y", "z"], "t": [1, 2, 3, 3]})
    score = attack(table, columns=["g"], sensitive=["s", "t"])
    assert score.value == 1 and score.detail["per_column"] == {"s": 0.5, "t": 0.5}


def test_missing_group_values() -> None:
    table = pl.DataFrame({"g": [1, 1, None, None], "s": ["x", "y", "z", "z"]})
    assert attack(table, columns=["g"], sensitive=["s"]).value == 0.5
    ignored = attack(table, columns=["g"], sensitive=["s"], missing="ignore")
    assert ignored.value == 0 and ignored.detail["records"] == 2


def test_bad_input() -> None:
    table = pl.DataFrame({"g": [1, 1], "x": [-5.0, 4.0], "t": ["a", "b"], "w": [1.0, None]})
    total: dict[str, Any] = {"columns": ["g"], "sensitive": ["x"], "published": "total"}
    with pytest.raises(dc.DataError, match="1 values of 'x' lie beyond `lower`") as caught:
        attack(table, **total)
    assert "-5" not in str(caught.value)
    assert attack(table, lower=-10, **total).value == 0
    with pytest.raises(dc.DataError, match="beyond `upper`"):
        attack(table, lower=None, upper=3, **total)
    with pytest.raises(dc.DataError, match="missing or negative"):
        attack(table, lower=None, weight="w", **total)
    with pytest.raises(dc.DataError, match="numeric column is needed"):
        attack(table, columns=["g"], sensitive=["t"], published="total")
    with pytest.raises(dc.PlanError, match="both in `columns` and `sensitive`"):
        attack(table, columns=["g"], sensitive=["g"])
    with pytest.raises(dc.PlanError, match="no column to learn"):
        attack(table, columns=["g"])
    with pytest.raises(dc.PlanError, match="less than `upper`"):
        dc.GroupAttack(lower=3, upper=1)
    with pytest.raises(dc.PlanError, match="for `published"):
        dc.GroupAttack(weight="w")
    with pytest.raises(dc.DataError, match="no values to learn"):
        attack(pl.DataFrame({"g": [1], "s": pl.Series([None], dtype=pl.String)}), columns=["g"], sensitive=["s"])


def test_chance_is_of_the_same_event_as_the_value() -> None:
    """Both count people of whom any column is learnt."""
    table = pl.DataFrame({"k": [1, 2] * 4, "s": ["a"] * 8, "t": ["b", "c"] * 4})
    score = dc.GroupAttack(columns=["k"], sensitive=["s", "t"])(table, table)
    assert (score.value, score.detail["chance"]) == (1.0, 1.0)
    assert score.detail["attacks"]["t"]["chance"] == 0.5  # the most frequent value, for everybody


def test_a_recoded_secret_is_refused_not_safe() -> None:
    table = pl.DataFrame({"k": [1, 1], "s": ["flu", "flu"]})
    coded = pl.DataFrame({"k": [1, 1], "s": ["respiratory", "respiratory"]})
    with pytest.raises(dc.DataError, match="occurs in the original"):
        dc.GroupAttack(columns=["k"], sensitive=["s"])(table, coded)


def test_a_recoded_secret_does_not_keep_the_others_from_being_attacked() -> None:
    table = pl.DataFrame({"k": [1, 1, 2, 2], "s": ["flu", "flu", "flu", "cold"], "x": [1.0, 2.0, 3.0, 4.0]})
    coded = table.with_columns(x=pl.Series(["low", "low", "high", "high"]))
    score = dc.GroupAttack(columns=["k"], sensitive=["s", "x"])(table, coded)
    alone = dc.GroupAttack(columns=["k"], sensitive=["s"])(table, coded)
    assert score.value == alone.value == 0.5 and score.detail["chance"] == alone.detail["chance"]
    assert score.detail["left_out"] == ["x"] and "Not attacked: no value of 'x'" in score.meaning
    assert alone.detail["left_out"] == [] and "Not attacked" not in alone.meaning
    numbers = table.with_columns(y=pl.Series([5.0, 0.0, 1.0, 1.0]))
    total = dc.GroupAttack(columns=["k"], sensitive=["x", "y"], published="total")
    hidden = total(numbers, numbers.with_columns(x=coded["x"]))
    assert hidden.detail["left_out"] == ["x"] and set(hidden.detail["per_column"]) == {"y"}


def test_a_generalized_secret_is_learnt_at_its_level() -> None:
    ill = ["E10", "E11", "E12", "E11", "I10", "E10", "I20", "I21"]
    frame = pl.DataFrame({"k": [1, 1, 1, 1, 2, 2, 3, 3], "s": ill, "x": ["a", "b"] * 4})
    data = dc.Dataset(frame, roles={"k": "quasi", "s": "sensitive"}, hierarchies={"s": {"masking": {}}})
    attack = dc.GroupAttack(columns=["k"], sensitive=["s"])
    released = dc.Generalize(levels={"s": 2})(data)
    # as if the steps were not known: the release is read from a file
    for shown in (released, dc.Dataset(frame.with_columns(s=pl.Series([code[0] + "**" for code in ill])))):
        score = attack(data, shown)
        assert score.value == 6 / 8 and score.detail["left_out"] == []  # all E in group 1, all I in group 3
        assert score.detail["chance"] == 5 / 8  # five of eight have some E
    fine = dc.Dataset(frame.with_columns(s=pl.Series([code[:2] + "*" for code in ill])))
    assert attack(data, fine).value == 6 / 8  # in group 1 all are E1*, in group 3 both are I2*
    assert attack(data, data).value == 0.0
    hidden = dc.Dataset(frame.with_columns(s=pl.lit("*")))
    both = dc.GroupAttack(columns=["k"], sensitive=["s", "x"])(data, hidden)
    assert both.detail["left_out"] == ["s"]  # one label for everybody tells nothing


def test_guessing_names_the_most_frequent_value() -> None:
    table = pl.DataFrame({"k": [1] * 9 + [2] * 11, "ill": ["no"] * 9 + ["no"] * 10 + ["yes"]})
    score = dc.GroupAttack(columns=["k"], sensitive=["ill"])(table, table)
    assert score.value == pytest.approx(9 / 20)
    assert score.detail["chance"] == score.detail["attacks"]["ill"]["majority"] == pytest.approx(19 / 20)
    one = dc.GroupAttack(columns=["k"], sensitive=["ill"], coalition=1)(table, table)
    assert "one other member can learn" in one.meaning


@pytest.mark.parametrize("diverse", [True, False])
def test_a_class_that_is_missing_although_it_is_large_enough_tells_its_value(diverse: bool) -> None:
    groups = {"a": ["x", "y"] * 10, "b": ["x"] * 8, "c": ["x", "y"] * 6, "d": ["y", "x"]}
    rows = [(group, value) for group, values in groups.items() for value in values]
    roles = {"group": "quasi", "secret": "sensitive"}
    frame = pl.DataFrame({"group": [g for g, _ in rows], "secret": [s for _, s in rows]})
    models = [dc.KAnonymity(k=5), *([dc.DistinctLDiversity(l=2, sensitive="secret")] if diverse else [])]
    data = dc.Dataset(frame, roles=roles, hierarchies={"group": [[g, "*"] for g in groups]})
    step = dc.OptimalGeneralization(models=models, suppression_limit=0.5, importance={"group": 1})
    released = step.run(data, dc.Context(0, "t")).data
    assert set(released.frame["group"]) == ({"a", "c"} if diverse else {"a", "b", "c"})
    score = dc.GroupAttack().run(data, released, dc.Context(0, "t"))
    if diverse:  # b, and not d: its two people may be missing because they are few
        assert score.detail["dropped"] == {"people": 8, "classes": 1, "told": 8, "records": 10}
        assert score.value == pytest.approx(8 / 42) and "8 are in classes" in score.meaning
    else:
        assert "dropped" not in score.detail and score.value == pytest.approx(8 / 40)


def test_what_is_almost_certain_is_told() -> None:
    """Of forty in town a one is ill, of forty in b half: nobody is learnt, 39 almost."""
    frame = pl.DataFrame(
        {"town": ["a"] * 40 + ["b"] * 40, "ill": ["yes"] + ["no"] * 39 + ["yes", "no"] * 20, "sex": ["m"] * 80}
    )
    data = dc.Dataset(frame, roles={"town": "quasi", "ill": "sensitive"})
    score = dc.GroupAttack()(data, data)
    assert score.value == 0 and score.detail["almost_certain"] == pytest.approx(39 / 80)
    assert "Almost certain" in score.meaning and "48.8%" in score.meaning
    assert dc.GroupAttack(share=0.95)(data, data).value == pytest.approx(39 / 80)
    whole = dc.GroupAttack(columns=["sex"])(data, data)  # one group: nothing that everybody does not know
    assert whole.detail["almost_certain"] == 0 and "Almost" not in whole.meaning


def test_what_is_almost_certain_of_everybody_is_nothing_learnt() -> None:
    data = dc.Dataset(
        pl.DataFrame({"town": ["a", "b"] * 50, "ill": ["yes"] * 2 + ["no"] * 98}),
        roles={"town": "quasi", "ill": "sensitive"},
    )
    assert dc.GroupAttack()(data, data).detail["almost_certain"] == 0
