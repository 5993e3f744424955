"""Every protocol against plaintext on random data; one party alone computes with the same arithmetic."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from discretion.errors import DataError, RequirementNotMet
from discretion.parties.session import compute, load_local
from discretion.parties.sharing import Sharing, load_mpyc
from discretion.parties.statistics import Local, Run
from tests.parties.harness import COLUMNS, agreed, alone, people

FEW = settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def sharing() -> Iterator[Sharing]:
    with alone() as made:
        yield made


@pytest.fixture(scope="module")
def agreement(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return agreed(tmp_path_factory.mktemp("agreement"), [{"count": {}}])


def found(sharing: Sharing, agreement: Any, frame: pl.DataFrame, statistic: Any, **entries: Any) -> dict[str, Any]:
    """Compute one statistic of a frame."""
    ((_, fields),) = statistic.items()  # many decimals are allowed where the number of people is told as well
    told = [statistic, {"count": {}}] if "columns" in fields else [statistic]
    plain = agreement.model_dump() | {"statistics": told} | entries
    made = type(agreement).model_validate(plain)
    sharing.opened.clear()
    return sharing.runtime._loop.run_until_complete(compute(made, load_local(made, frame), sharing))[0]


ROWS = st.lists(
    st.tuples(
        st.integers(0, 120), st.integers(0, 20_000).map(lambda k: k / 100), st.sampled_from("fm"), st.integers(0, 4),
        st.sampled_from(["no", "yes"]),
    ),
    min_size=2, max_size=60,
)  # fmt: skip


def frame_of(rows: list[Any]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["age", "income", "sex", "grade", "ill"], orient="row")


@FEW
@given(ROWS)
def test_moments(sharing: Sharing, agreement: Any, rows: list[Any]) -> None:
    frame = frame_of(rows)
    x = frame.select("age", "income").to_numpy().T
    both = {"columns": ["age", "income"], "decimals": 6}
    assert found(sharing, agreement, frame, {"count": {}})["people"] == len(rows)
    total = found(sharing, agreement, frame, {"sum": {"column": "income"}})["sum"]
    assert total == pytest.approx(x[1].sum(), abs=1e-6)
    means = found(sharing, agreement, frame, {"mean": both})["mean"]
    assert list(means.values()) == pytest.approx(x.mean(1), abs=6e-7)
    cov = found(sharing, agreement, frame, {"covariance": both})["covariance"]
    assert np.allclose(cov, np.cov(x), atol=2e-6, rtol=0)


@FEW
@given(ROWS, st.integers(1, 6))
def test_tables_and_histograms(sharing: Sharing, agreement: Any, rows: list[Any], least: int) -> None:
    frame = frame_of(rows)
    table = found(sharing, agreement, frame, {"table": {"by": ["sex", "grade"], "at_least": least}})
    cells = dict.fromkeys(itertools.product("fm", range(5)), 0)
    for _, _, sex, grade, _ in rows:
        cells[sex, grade] += 1
    assert table["people"] == [n if n >= least else None for n in cells.values()]
    breaks = [0, 30, 60, 120]
    shown = found(sharing, agreement, frame, {"histogram": {"column": "age", "breaks": breaks, "at_least": least}})
    counts = np.histogram(frame["age"], breaks)[0].tolist()
    assert shown["people"] == [n if n >= least else None for n in counts]


@FEW
@given(ROWS.filter(lambda rows: len(rows) >= 10), st.sampled_from([0.1, 0.25, 0.5, 0.9]))
def test_quantiles(sharing: Sharing, agreement: Any, rows: list[Any], share: float) -> None:
    frame = frame_of(rows)
    shown = found(sharing, agreement, frame, {"quantile": {"column": "income", "share": share, "at_least": 1}})[
        "quantile"
    ]
    rank = int(np.ceil(round(share * len(rows), 9)))
    assert shown == pytest.approx(np.sort(frame["income"].to_numpy())[rank - 1], abs=1e-9)


@settings(max_examples=2, deadline=None)
@given(st.integers(0, 10**6))
def test_regressions_and_correlations(sharing: Sharing, agreement: Any, seed: int) -> None:
    frame = people(300, seed)
    age, income, male = frame["age"].to_numpy(), frame["income"].to_numpy(), (frame["sex"] == "m").to_numpy()
    pair = {"columns": ["age", "income"], "decimals": 6}
    r = found(sharing, agreement, frame, {"correlation": pair})["correlation"][0][1]
    assert r == pytest.approx(np.corrcoef(age, income)[0, 1], abs=1e-6)
    shown = found(
        sharing, agreement, frame, {"linear-regression": {"target": "income", "on": ["age", "sex"], "decimals": 8}}
    )
    fitted = np.linalg.lstsq(np.c_[np.ones(300), age, male], income, rcond=None)[0]
    assert list(shown["coefficients"].values()) == pytest.approx(fitted, abs=1e-7)


def test_logistic_regression(sharing: Sharing, agreement: Any) -> None:
    frame = people(500, 3)
    logit = {"logistic-regression": {"target": "ill", "on": ["sex", "grade"], "decimals": 6}}
    shown = found(sharing, agreement, frame, logit)["coefficients"]
    design = np.c_[np.ones(500), (frame["sex"] == "m").to_numpy(), frame["grade"].to_numpy()]
    y, beta = (frame["ill"] == "yes").to_numpy().astype(float), np.zeros(3)
    for _ in range(25):
        p = 1 / (1 + np.exp(-design @ beta))
        beta += np.linalg.solve((design.T * (p * (1 - p))) @ design, design.T @ (y - p))
    assert list(shown.values()) == pytest.approx(beta, abs=1e-6)


def test_what_does_not_determine_a_result_is_not_opened(sharing: Sharing, agreement: Any) -> None:
    frame = people(60, 1)
    flat = frame.with_columns(pl.lit(50).alias("age"))
    for statistic, last in (
        ({"correlation": {"columns": ["age", "income"]}}, "correlation: every column varies"),
        ({"linear-regression": {"target": "income", "on": ["age"]}},
         "linear-regression: the columns determine the coefficients"),
    ):  # fmt: skip
        with pytest.raises(RequirementNotMet, match="was not opened"):
            found(sharing, agreement, flat, statistic)
        assert [one.label for one in sharing.opened] == ["sizes and rules hold", last]
    cells = np.array(list(itertools.product([0, 1], repeat=3)) * 10)  # who has two of three is ill: separated
    three = {name: {"categories": [0, 1]} for name in "abc"}
    separated = pl.DataFrame(cells, schema=list("abc")).with_columns(
        pl.Series("ill", np.where(cells.sum(1) >= 2, "yes", "no"))
    )
    with pytest.raises(RequirementNotMet, match="did not converge"):
        found(
            sharing, agreement, separated, {"logistic-regression": {"target": "ill", "on": list("abc")}},
            columns={**three, "ill": COLUMNS["ill"]},
        )  # fmt: skip


def test_noise_enters_every_statistic(sharing: Sharing, agreement: Any) -> None:
    frame = people(3000, 5)
    for statistic, key in (
        ({"count": {}}, "people"), ({"sum": {"column": "age"}}, "sum"), ({"table": {"by": ["sex"]}}, "people"),
        ({"mean": {"columns": ["age"], "decimals": 6}}, "mean"),
    ):  # fmt: skip
        seen = {str(found(sharing, agreement, frame, statistic, noise={"epsilon": 0.2})[key]) for _ in range(4)}
        assert len(seen) > 1
    median = found(sharing, agreement, frame, {"quantile": {"column": "age"}}, noise={"epsilon": 20})["quantile"]
    assert abs(median - float(np.median(frame["age"]))) < 10


def judged(by_party: list[tuple[int, ...]], coalition: int, p: float, most: int, percent: float) -> list[bool]:
    """Judge totals by all targets and all coalitions."""
    good = []
    for total in zip(*by_party, strict=True):
        m, verdict = len(total), True
        for target in range(m):
            for insiders in itertools.combinations([k for k in range(m) if k != target], coalition):
                rest = sum(total) - total[target] - sum(total[k] for k in insiders)
                verdict &= rest * 100 >= p * total[target]
        good.append(bool(verdict and sum(sorted(total)[-most:]) * 100 <= percent * sum(total)))
    return good


@settings(max_examples=10, deadline=None)
@given(
    st.integers(3, 7).flatmap(lambda m: st.lists(st.tuples(*[st.integers(0, 40)] * 4), min_size=m, max_size=m)),
    st.sampled_from([0, 10, 50]), st.integers(1, 2), st.sampled_from([60, 90, 100]),
)  # fmt: skip
def test_rules_over_parties_against_all_coalitions(
    sharing: Sharing, totals: list[tuple[int, ...]], p: float, most: int, percent: float
) -> None:
    judge = Sharing(sharing.runtime, (len(totals) - 1) // 2)
    shared = [judge.judged.array(np.array(list(one), dtype=object)) for one in totals]
    ordered = judge.ordered(shared)
    bits = sharing.runtime._loop.run_until_complete(judge.reveal("test", judge.obeys(ordered, p, most, percent)))
    assert [bool(bit) for bit in bits] == judged(totals, judge.coalition, p, most, percent)
    left = sharing.runtime._loop.run_until_complete(judge.reveal("test", judge.left(ordered)))
    for k, total in enumerate(zip(*totals, strict=True)):
        rests = [sum(total) - sum(insiders) for insiders in itertools.combinations(total, judge.coalition)]
        assert left[k] == min(rests)


def test_only_reveal_opens(sharing: Sharing) -> None:
    x = sharing.whole.array(np.array([1, 2]))
    with pytest.raises(PermissionError, match="through reveal"):
        sharing.runtime.output(x)


def test_nothing_is_unpickled() -> None:
    for name in ("loads", "dumps"):
        with pytest.raises(PermissionError, match="pickled"):
            getattr(load_mpyc().pickle, name)(b"cos\nsystem\n(S'true'\ntR.")


def test_masks_are_as_long_as_products(sharing: Sharing, monkeypatch: pytest.MonkeyPatch) -> None:
    """A product of fixed-point numbers has l + f bits: its mask has 40 more."""
    seen = []
    real = type(sharing.runtime)._np_randoms
    monkeypatch.setattr(
        type(sharing.runtime),
        "_np_randoms",
        lambda self, kind, n, bound=None: seen.append(bound) or real(self, kind, n, bound),
    )
    x = sharing.real.array(np.array([3.5, -700_000.25]), integral=False)
    product = sharing.runtime._loop.run_until_complete(sharing.reveal("test", x * x))
    assert product == pytest.approx([12.25, 700_000.25**2], rel=1e-12)
    assert 1 << (40 + 112) in seen


@pytest.mark.parametrize("n", [10, 10**3, 10**6, 10**9])
def test_fixed_point_numbers_keep_their_precision_at_every_size(sharing: Sharing, n: int) -> None:
    people_, total = sharing.total([float(n)]), sharing.total([n * 0.123456789, -n * 0.9])
    mean = sharing.runtime._loop.run_until_complete(sharing.reveal("test", total * (1 / people_)))
    assert mean == pytest.approx([0.123456789, -0.9], abs=2.0**-54 * n / 1024 + 1e-13)


def test_rounding(sharing: Sharing) -> None:
    values = np.array([0.0, 0.49999, 0.50001, -0.49999, -0.50001, 12345.4, -12345.6, 2.0**40 + 0.3])
    x = sharing.real.array(values, integral=False)
    for _ in range(5):  # MPyC truncates up or down at random; the rounding does not
        shown = sharing.runtime._loop.run_until_complete(sharing.reveal("test", sharing.rounded(x)))
        assert shown.tolist() == [0, 0, 1, 0, -1, 12345, -12346, 2.0**40]


def test_data_that_does_not_fit_is_counted_not_shown(agreement: Any) -> None:
    frame = people(50, 1)
    bad = frame.with_columns(
        pl.when(pl.col("sex") == "f").then(pl.lit("zz7")).otherwise("sex").alias("sex"),
        pl.lit(777.77).alias("income"), pl.lit(None, pl.Int64).alias("grade"),
    )  # fmt: skip
    with pytest.raises(DataError) as caught:
        load_local(agreement, bad)
    text = str(caught.value)
    assert (
        "none of the agreed categories" in text and "50 values are outside" in text and "50 values are missing" in text
    )
    assert "zz7" not in text and "777" not in text
    with pytest.raises(DataError, match="no column 'ill'"):
        load_local(agreement, frame.drop("ill"))
    with pytest.raises(DataError, match=r"'age': 2 values are not numbers.*'income' has no numbers"):
        texts = pl.Series("age", ["12", " 30", None, "NA", "zz7"] * 10).head(5)
        load_local(agreement, frame.head(5).with_columns(texts, pl.lit(True).alias("income")))
    with pytest.raises(DataError, match="not multiples of the agreed step"):
        load_local(agreement, frame.with_columns(pl.col("age") + 0.5))
    assert set(COLUMNS) == {"age", "income", "sex", "grade", "ill"}


def test_clamping_and_skipping(tmp_path: Path) -> None:
    columns = {"age": {"lower": 0, "upper": 50, "outside": "clamp"}}
    made = agreed(tmp_path, [{"mean": {"columns": ["age"], "decimals": 0}}], columns=columns, missing="skip")
    local = load_local(made, pl.DataFrame({"age": [10.0, 99.0, None, float("nan")]}))
    assert local.people == 2 and local.numbers["age"].tolist() == [10, 50]


def refused(sharing: Sharing, agreement: Any, frame: pl.DataFrame, statistic: Any) -> bool:
    """Say whether nothing but the check is opened."""
    try:
        found(sharing, agreement, frame, statistic)
    except RequirementNotMet as error:
        assert "a category of a regression or a side of a quantile" in str(error)
        assert [one.label for one in sharing.opened] == ["sizes and rules hold"]
        return True
    return False


@pytest.mark.parametrize("few", [1, 9, 10])
def test_a_regression_needs_people_in_every_category(sharing: Sharing, agreement: Any, few: int) -> None:
    frame = people(200, 4).with_columns(pl.Series("sex", ["m"] * few + ["f"] * (200 - few)))
    linear = {"linear-regression": {"target": "income", "on": ["age", "sex"]}}
    assert refused(sharing, agreement, frame, linear) is (few < 10)
    assert not refused(sharing, agreement, frame, {"linear-regression": {"target": "income", "on": ["age"]}})


@pytest.mark.parametrize("few", [9, 10])
def test_both_values_of_a_number_with_two_are_guarded_like_categories(
    sharing: Sharing, agreement: Any, few: int
) -> None:
    two = {"columns": {**COLUMNS, "flag": {"lower": 0, "upper": 1, "step": 1}}}
    frame = people(100, 4).with_columns(pl.Series("flag", [1] * few + [0] * (100 - few)))
    made = type(agreement).model_validate(agreement.model_dump() | two | {"statistics": ["count"]})
    assert refused(sharing, made, frame, {"linear-regression": {"target": "income", "on": ["flag"]}}) is (few < 10)


def test_a_logistic_regression_needs_both_outcomes(sharing: Sharing, agreement: Any) -> None:
    frame = people(100, 4).with_columns(pl.Series("ill", ["yes"] * 9 + ["no"] * 91))
    assert refused(sharing, agreement, frame, {"logistic-regression": {"target": "ill", "on": ["sex"]}})


@pytest.mark.parametrize("few", [9, 10])
def test_a_logistic_regression_needs_every_category_with_each_outcome(
    sharing: Sharing, agreement: Any, few: int
) -> None:
    """Its coefficients are made of these numbers: one healthy man would know that all others are ill."""
    ill = ["no"] * few + ["yes"] * (40 - few) + ["no"] * 30 + ["yes"] * 30
    frame = people(100, 4).with_columns(pl.Series("sex", ["m"] * 40 + ["f"] * 60), pl.Series("ill", ill))
    statistic = {"logistic-regression": {"target": "ill", "on": ["sex"]}}
    assert refused(sharing, agreement, frame, statistic) is (few < 10)


@pytest.mark.parametrize(
    ("share", "rows", "opens"), [(0.9, 100, True), (0.9, 99, False), (0.1, 99, False), (0.9995, 1200, False)]
)
def test_a_quantile_has_people_on_both_sides(
    sharing: Sharing, agreement: Any, share: float, rows: int, opens: bool
) -> None:
    statistic = {"quantile": {"column": "income", "share": share}}
    assert refused(sharing, agreement, people(rows, 4), statistic) is not opens


@pytest.mark.parametrize(("rows", "opens"), [(99, False), (100, True)])
def test_quantiles_of_a_column_have_people_between_them(
    sharing: Sharing, agreement: Any, rows: int, opens: bool
) -> None:
    """Quantiles at all shares would tell everybody's value in order."""
    near = [{"quantile": {"column": "income", "share": share}} for share in (0.4, 0.5)]
    made = type(agreement).model_validate(agreement.model_dump() | {"statistics": near})
    sharing.opened.clear()
    try:
        sharing.runtime._loop.run_until_complete(compute(made, load_local(made, people(rows, 4)), sharing))
    except RequirementNotMet:
        assert not opens and [one.label for one in sharing.opened] == ["sizes and rules hold"]
    else:
        assert opens
    with pytest.raises(ValueError, match="asked for twice"):
        type(agreement).model_validate(agreement.model_dump() | {"statistics": [near[0], near[0]]})


@pytest.mark.parametrize("seed", range(3))
def test_moments_and_linear_regression_are_right_to_ten_decimals(sharing: Sharing, agreement: Any, seed: int) -> None:
    """Five coefficients of numbers between −1 and 1, where as many decimals can be asked for."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (500, 4))
    y = np.clip(x @ [0.2, -0.1, 0.3, 0.05] + rng.normal(0, 0.1, 500), -1, 1)
    names = list("abcd")
    frame = pl.DataFrame(np.c_[x, y], schema=[*names, "y"])
    unit = {"columns": {name: {"lower": -1, "upper": 1} for name in frame.columns}}
    linear = {"linear-regression": {"target": "y", "on": names, "decimals": 10}}
    shown = list(found(sharing, agreement, frame, linear, **unit)["coefficients"].values())
    fitted = np.linalg.lstsq(np.c_[np.ones(500), x], y, rcond=None)[0]
    assert np.abs(shown - fitted).max() < 1e-10
    every = {"columns": frame.columns, "decimals": 10}
    means = list(found(sharing, agreement, frame, {"mean": every}, **unit)["mean"].values())
    assert np.abs(means - frame.to_numpy().mean(0)).max() < 1e-10
    cov = found(sharing, agreement, frame, {"covariance": every}, **unit)["covariance"]
    assert np.abs(cov - np.cov(frame.to_numpy(), rowvar=False)).max() < 1e-10


class _Drawn:
    """Noise that notes what it was asked to hide, in steps of the grid of 1/4096, and is none."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def draw(self, sensitivity: int) -> int:
        self.asked.append(sensitivity)
        return 0


def test_noise_hides_what_one_person_changes_all_sums_by(sharing: Sharing, agreement: Any) -> None:
    noise = _Drawn()
    run = Run(agreement, Local(3, {}, {}), sharing, noise)  # type: ignore[arg-type]
    run.sums([lambda: np.array([0.25, 0.5]), lambda: np.ones(2)], 2.00001)
    assert noise.asked == [8193, 8193]  # 2.00001 in steps, upward: a step less would hide a little less
