"""Fellegi–Sunter linkage against a computation pair by pair, and on data with a known answer."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc

Cell = float | str | None


def people(
    n: int, seed: int = 1, noise_sd: float = 0.1, changed_share: float = 0.1
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Three dependent numbers (one skewed) with noise, three categories of 2, 5, 10 values re-drawn for some."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3)) @ np.array([[1.0, 0.5, 0.3], [0.0, 1.0, 0.4], [0.0, 0.0, 1.0]])
    z[:, 1] = np.exp(z[:, 1] / 2)
    moved = z + noise_sd * z.std(axis=0) * rng.normal(size=z.shape)
    known = {f"x{j}": z[:, j] for j in range(3)}
    published = {f"x{j}": moved[:, j] for j in range(3)}
    for levels in (2, 5, 10):
        falling = np.arange(levels, 0, -1) / np.arange(levels + 1).sum()
        codes = rng.choice(levels, n, p=falling)
        drawn = np.where(rng.random(n) < changed_share, rng.integers(0, levels, n), codes)
        known[f"c{levels}"] = np.array([f"k{code}" for code in codes])
        published[f"c{levels}"] = np.array([f"k{code}" for code in drawn])
    return pl.DataFrame(known), pl.DataFrame(published)


class Naive:
    """Every pair looked at on its own: levels, u, EM for m, weights, sets of the best, thresholds."""

    def __init__(self, known: list[list[Cell]], published: list[list[Cell]], tolerances: Sequence[float]) -> None:
        self.n, self.width = len(known), len(known[0])
        self.sd = [self._sd([row[j] for row in known]) for j in range(self.width)]
        self.tolerances = tolerances
        self.pair = {
            (i, k): tuple(self.level(j, known[i][j], published[k][j]) for j in range(self.width))
            for i in range(self.n)
            for k in range(self.n)
        }
        self.count = Counter(self.pair.values())
        self.u = [self.shares([(p[j], 1.0) for p in self.pair.values()]) for j in range(self.width)]
        self.m = [self.start(u) for u in self.u]
        self.em()

    @staticmethod
    def _sd(values: list[Cell]) -> float:
        numbers = [v for v in values if isinstance(v, float)]
        return float(np.std(numbers, ddof=1)) or 1.0 if len(numbers) > 1 else 1.0

    def level(self, j: int, one: Cell, other: Cell) -> int | None:
        if one is None or other is None:
            return None
        if isinstance(one, float) and isinstance(other, float):
            return sum(abs(one - other) / self.sd[j] <= t * (1 + 1e-9) for t in self.tolerances)
        return int(one == other)

    @staticmethod
    def shares(levels: list[tuple[int | None, float]]) -> dict[int, float]:
        found: dict[int, float] = {}
        for level, weight in levels:
            if level is not None:
                found[level] = found.get(level, 0.0) + weight
        total = sum(found.values())
        return {level: count / total for level, count in found.items()}

    @staticmethod
    def start(u: dict[int, float]) -> dict[int, float]:
        if len(u) == 1:
            return dict.fromkeys(u, 1.0)
        return {level: 0.9 if level == max(u) else 0.1 / (len(u) - 1) for level in u}

    def ratio(self, pattern: tuple[int | None, ...]) -> float:
        return math.prod(max(self.m[j][g], 1e-9) / self.u[j][g] for j, g in enumerate(pattern) if g is not None)

    def em(self) -> None:
        share = 1 / self.n
        for _ in range(1000):
            expected = []
            for pattern, count in self.count.items():
                r = self.ratio(pattern)
                expected.append((pattern, count * share * r / (share * r + 1 - share)))
            new = []
            for j in range(self.width):
                m = self.shares([(pattern[j], matches) for pattern, matches in expected])
                m = {level: max(m.get(level, 0.0), 1e-9) for level in self.u[j]}
                m = {level: value / sum(m.values()) for level, value in m.items()}
                new.append(self.not_against(m, self.u[j]))
            change = max((abs(new[j][g] - self.m[j][g]) for j in range(self.width) for g in new[j]), default=0.0)
            self.m = new
            if change < 1e-7:
                return

    @staticmethod
    def not_against(m: dict[int, float], u: dict[int, float]) -> dict[int, float]:
        """Disagreement (level 0) is at most as frequent among matches as among all pairs."""
        if len(m) < 2 or m.get(0, 0.0) <= u.get(0, 0.0):
            return m
        rest = sum(value for level, value in m.items() if level)
        return {level: value / rest * (1 - u[0]) if level else u[0] for level, value in m.items()}

    def links(self) -> list[float]:
        found = []
        for i in range(self.n):
            weights = [np.log2(self.ratio(self.pair[i, k])) for k in range(self.n)]
            best = [k for k, w in enumerate(weights) if w >= max(weights) - 1e-9]
            found.append((i in best) / len(best))
        return found

    def thresholds(self, mu: float, lam: float) -> tuple[float | None, float]:
        """Enumerate every pattern that the model allows, with its probabilities."""
        rows = []
        missing = [sum(p[j] is None for p in self.pair.values()) / len(self.pair) for j in range(self.width)]
        for pattern in itertools.product(*[[*u, *([None] if q else [])] for u, q in zip(self.u, missing, strict=True)]):
            m = u = 1.0
            for j, g in enumerate(pattern):
                m *= missing[j] if g is None else (1 - missing[j]) * self.m[j][g]
                u *= missing[j] if g is None else (1 - missing[j]) * self.u[j][g]
            rows.append((float(np.log2(self.ratio(pattern))), m, u))
        weights = sorted(w for w, _, _ in rows)
        high = [t for t in weights if sum(u for w, _, u in rows if w >= t - 1e-9) <= mu * (1 + 1e-9)]
        low = max(t for t in weights if sum(m for w, m, _ in rows if w < t - 1e-9) <= lam * (1 + 1e-9))
        return (min(high), min(low, *high)) if high else (None, low)


def small_data(seed: int, n: int, missing: bool) -> tuple[list[list[Cell]], list[list[Cell]]]:
    """Integers with ties and duplicates, a category, and some holes."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 6, (n, 2)).astype(float)
    y = x + rng.integers(-1, 2, (n, 2)) * (rng.random((n, 2)) < 0.5)
    c = rng.choice(list("abc"), n)
    e = np.where(rng.random(n) < 0.2, rng.choice(list("abc"), n), c)
    known: list[list[Cell]] = [[float(a), float(b), str(k)] for (a, b), k in zip(x, c, strict=True)]
    published: list[list[Cell]] = [[float(a), float(b), str(k)] for (a, b), k in zip(y, e, strict=True)]
    if missing:
        for side in (known, published):
            for row in side[1:]:
                for j in range(3):
                    row[j] = None if rng.random() < 0.15 else row[j]
    return known, published


def frame(rows: list[list[Cell]]) -> pl.DataFrame:
    kinds = {"a": pl.Float64, "b": pl.Float64, "c": pl.String}
    return pl.DataFrame(rows, schema=kinds, orient="row")


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(2, 14), missing=st.booleans())
def test_against_every_pair_on_its_own(seed: int, n: int, missing: bool) -> None:
    known, published = small_data(seed, n, missing)
    tolerances = (0.0, 0.5, 1.0)
    measure = dc.ProbabilisticLinkage(columns=["a", "b", "c"], tolerance_sd=tolerances)
    try:
        score = measure(frame(known), frame(published))
    except dc.DataError as error:
        assert "occurs in the release" in str(error)
        return
    naive = Naive(known, published, tolerances)
    assert score.per_record is not None
    for j, name in enumerate("abc"):
        column = score.detail["per_column"][name]
        for level, u in naive.u[j].items():
            assert column["u"][level] == pytest.approx(u)
            assert column["m"][level] == pytest.approx(naive.m[j][level], abs=1e-6)
            naive.m[j][level] = column["m"][level]  # the last digits decide about ties
    np.testing.assert_allclose(score.per_record, naive.links())
    assert score.value == pytest.approx(np.mean(naive.links()))
    upper, lower = naive.thresholds(0.1 / n, 0.05)
    found = score.detail["thresholds"]
    assert found["upper"] == pytest.approx(upper, abs=1e-8)
    assert found["lower"] == pytest.approx(lower, abs=1e-8)


def test_classes_count_every_pair_once() -> None:
    known, published = people(300)
    detail = dc.ProbabilisticLinkage(columns=known.columns)(known, published).detail
    classes = detail["classes"]
    assert sum(c["pairs"] for c in classes.values()) == 300 * 300
    assert sum(c["right"] for c in classes.values()) == 300
    assert classes["linked"]["right"] / classes["linked"]["pairs"] > 0.8
    assert classes["linked"]["pairs"] - classes["linked"]["right"] < 2 * 0.1 * 300


def test_wanted_error_rates_are_kept() -> None:
    """Columns that are independent given the pair: what the model promises of the thresholds is what happens."""
    rng = np.random.default_rng(5)
    n = 1500
    codes = rng.integers(0, 40, (n, 4))
    moved = np.where(rng.random(codes.shape) < 0.15, rng.integers(0, 40, codes.shape), codes)
    names = list("abcd")
    known, published = (pl.DataFrame(c, schema=names).with_columns(pl.all().cast(pl.String)) for c in (codes, moved))
    for false_link, false_nonlink in ((0.05, 0.02), (0.5, 0.2)):
        measure = dc.ProbabilisticLinkage(
            columns=names, false_link_share=false_link, false_nonlink_share=false_nonlink
        )  # fmt: skip
        detail = measure(known, published).detail
        wrong = detail["classes"]["linked"]["pairs"] - detail["classes"]["linked"]["right"]
        assert wrong / n <= false_link * 1.2
        assert detail["classes"]["not_linked"]["right"] / n <= false_nonlink * 1.3
        assert detail["per_column"]["a"]["m"][1] == pytest.approx(0.85 + 0.15 / 40, abs=0.03)


def test_planted_rate() -> None:
    """A third of the people keep all values, the others get those of nobody: exactly a third is found."""
    n = 300
    rng = np.random.default_rng(3)
    codes = np.stack([rng.permutation(n), rng.integers(0, 7, n), rng.integers(0, 5, n)], axis=1)
    text = np.char.add("v", codes.astype(str))
    moved = text.copy()
    moved[100:, 0] = np.char.add("w", codes[100:, 0].astype(str))
    moved[100:, 1] = np.roll(moved[100:, 1], 1)
    moved[100:, 2] = "elsewhere"
    frames = [pl.DataFrame(side, schema=["a", "b", "c"]) for side in (text, moved)]
    score = dc.ProbabilisticLinkage(columns=["a", "b", "c"])(*frames)
    assert score.per_record is not None
    assert (score.per_record[:100] == 1).all()
    assert score.per_record[100:].max() < 0.1
    assert score.detail["known_reid"] == pytest.approx(1 / 3, abs=0.02)


def test_quality_on_a_thousand_people() -> None:
    """Other tools find .88 to .92 of these people; so must this, within what three draws of the data tell."""
    found = [dc.ProbabilisticLinkage(columns=a.columns)(a, b).value for a, b in (people(1000, s) for s in (1, 2, 3))]
    assert np.mean(found) >= 0.925 - 2 * np.sqrt(0.925 * 0.075 / 3000)


def test_equal_groups_are_one_over_their_size() -> None:
    known = pl.DataFrame({"a": [float(i // 4) for i in range(40)], "c": [f"g{i // 4 % 5}" for i in range(40)]})
    score = dc.ProbabilisticLinkage(columns=["a", "c"])(known, known)
    assert score.value == 0.25
    assert score.detail["reid_d"] == 0.25
    assert score.detail["known_reid"] == 0


def test_an_intruder_who_knows_m() -> None:
    """m is then what the true pairs show, and finds at least as many people where EM has little to go by."""
    people = dc.datasets.census(1500, seed=1)
    columns = ["age", "income", "sex", "region"]
    noisy = dc.AdditiveNoise(columns=["age", "income"], sd_share=0.1)(people, seed=7)
    released = dc.Pram(columns=["region"], keep_share=0.8)(noisy, seed=8)
    guessed = dc.ProbabilisticLinkage(columns=columns)(people, released)
    told = dc.ProbabilisticLinkage(columns=columns, knows_m=True)(people, released)
    kept = (people.frame["region"] == released.frame["region"]).mean()
    assert told.detail["per_column"]["region"]["m"][1] == pytest.approx(kept)
    assert told.detail["per_column"]["sex"]["m"][1] == pytest.approx(1.0)
    assert guessed.detail["per_column"]["region"]["true_m"][1] == pytest.approx(kept)
    assert told.value >= guessed.value
    few = dc.ProbabilisticLinkage(columns=columns, knows_m=True, max_pairs=10)(people, released)
    assert few.detail["per_column"]["region"]["m"][1] == pytest.approx(kept)


def test_a_column_of_noise_gets_no_weight_and_hurts_little() -> None:
    known, published = people(800, changed_share=0.02)
    noise = pl.Series("noise", np.random.default_rng(9).permutation(known["x0"].to_numpy()))
    without = dc.ProbabilisticLinkage(columns=known.columns)(known, published)
    both = dc.ProbabilisticLinkage(columns=[*known.columns, "noise"])(
        known.with_columns(known["x0"].alias("noise")), published.with_columns(noise)
    )
    noise_model = both.detail["per_column"]["noise"]
    assert max(abs(w) for w, u in zip(noise_model["weight"], noise_model["u"], strict=True) if u > 0.01) < 1.5
    assert both.value > without.value - 0.05


def test_candidates_find_nearly_what_all_pairs_find() -> None:
    known, published = people(2000)
    whole = dc.ProbabilisticLinkage(columns=known.columns)(known, published)
    few = dc.ProbabilisticLinkage(columns=known.columns, max_pairs=1000)(known, published)
    assert whole.detail["model"]["compared"] == "all pairs"
    assert few.detail["model"]["compared"] == "50 candidates for each record"
    assert whole.value - 0.05 <= few.value <= whole.value + 0.02
    for name in known.columns:
        u, sampled = whole.detail["per_column"][name]["u"], few.detail["per_column"][name]["u"]
        np.testing.assert_allclose(sampled, u, atol=0.003)
    again = dc.ProbabilisticLinkage(columns=known.columns, max_pairs=1000)(known, published)
    assert again.value == few.value


def test_candidates_without_numbers_and_with_holes() -> None:
    known, published = people(400)
    categories = ["c2", "c5", "c10"]
    holes = published.with_columns(pl.when(pl.int_range(400) % 9 == 1).then(None).otherwise(pl.col("c10")).alias("c10"))
    measure = dc.ProbabilisticLinkage(columns=categories, max_pairs=10, candidates=100)
    assert measure(known, holes).value == pytest.approx(
        dc.ProbabilisticLinkage(columns=categories)(known, holes).value, abs=0.01
    )
    numbers = dc.ProbabilisticLinkage(columns=["x0", "x1", "c5"], max_pairs=10)
    empty = pl.when(pl.int_range(400) % 7 == 2).then(None).otherwise(pl.col("x0")).alias("x0")
    assert 0 < numbers(known.with_columns(empty), published).value < 1


def test_many_columns_are_linked_by_candidates() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(200, 12))
    names = [f"v{j}" for j in range(12)]
    score = dc.ProbabilisticLinkage(columns=names)(
        pl.DataFrame(x, schema=names), pl.DataFrame(x + 0.1 * rng.normal(size=x.shape), schema=names)
    )
    assert score.detail["model"]["compared"] == "50 candidates for each record"
    assert score.value > 0.99


def test_an_intruder_with_few_records_and_errors() -> None:
    known, published = people(500)
    columns = known.columns
    worst = dc.ProbabilisticLinkage(columns=columns)(known, published)
    weak = dc.ProbabilisticLinkage(columns=columns, intruder={"records": 100, "error": {"sd_share": 0.3}})(
        known, published
    )
    assert weak.detail["records"] == 100
    assert weak.value < worst.value
    assert weak.detail["model"]["match_share"] == pytest.approx(1 / 500)
    assert weak.per_record is not None and np.isnan(weak.per_record).sum() == 400
    assert np.nanmean(weak.per_record) == pytest.approx(weak.value)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"tolerance_sd": ()}, "tolerances"),
        ({"tolerance_sd": (-0.1,)}, "tolerances"),
        ({"tolerance_sd": (0.1, 0.1)}, "tolerances"),
        ({"false_link_share": 0}, "false_link_share"),
        ({"false_nonlink_share": 1.5}, "false_nonlink_share"),
        ({"candidates": 0}, "candidates"),
        ({"intruder": {"knows_method": True}}, "makes no use of the method"),
    ],
)
def test_bad_parameters(fields: dict[str, object], text: str) -> None:
    with pytest.raises(dc.PlanError, match=text):
        dc.ProbabilisticLinkage(**fields)


def test_cancel() -> None:
    known, published = people(50)

    def stop(done: int, total: int, label: str) -> None:
        raise dc.Cancelled("stop")

    with pytest.raises(dc.Cancelled):
        dc.ProbabilisticLinkage(columns=known.columns)(known, published, progress=stop)


@pytest.mark.slow
def test_ten_thousand_people_do_not_lead_em_astray() -> None:
    """With u and the share of matches left free, EM runs to another mode here, and finds .19."""
    known, published = people(10_000)
    score = dc.ProbabilisticLinkage(columns=known.columns)(known, published)
    assert score.value > 0.71
    assert score.detail["model"]["pairs"] == 10**8


def test_disagreement_never_speaks_for_a_match() -> None:
    """On coarse groups EM alone takes pairs that differ for the matches, and nobody would be found."""
    people = dc.datasets.census(150, seed=2)
    columns = ["sex", "age", "education", "marital_status"]
    released = dc.Mondrian(columns=columns, k=5)(people, seed=1)
    score = dc.ProbabilisticLinkage(columns=columns)(people, released)
    assert all(c["weight"][0] <= 0 for c in score.detail["per_column"].values())
    assert score.value > 3 * score.detail["chance"]
