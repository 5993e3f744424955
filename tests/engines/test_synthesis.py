"""Synthesis of rows that stay in their files: learned from a sample of them, drawn batch by batch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import discretion as dc
from discretion.context import BATCH_ROWS
from discretion.data.dataset import Dataset
from discretion.engines.duckdb import DuckdbRows
from discretion.engines.scan import LEARNED, Scan
from discretion.errors import Cancelled, DataError, PlanError
from discretion.method import Method
from discretion.protect.synthetic import generator
from discretion.protect.synthetic.generator import learned_places
from discretion.protect.synthetic.sequential_trees import InTurn
from discretion.release.large import LargeRelease, run_large, scan_data
from discretion.release.run import run_plan

SEED = 2**100 + 1
ROWS = BATCH_ROWS + 4_465
ROLES = {"name": "identifier", "age": "quasi", "job": "quasi", "sex": "quasi", "income": "sensitive"}
HIERARCHIES: dict[str, Any] = {"age": {"intervals": {"width": 10, "levels": 3}}}
TREES: dict[str, Any] = {"sequential-trees": {}}
RULES: dict[str, Any] = {"sequential-trees": {"rules": ["age >= 25 OR job = 'baker'"]}}
AFTER = [
    {"top-code": {"column": "income", "quantile": 0.99}},
    {"generalize": {"levels": {"age": 1}}},
    {"additive-noise": {"columns": ["income"], "sd_share": 0.1}},
]


def people(rows: int, seed: int = 1) -> pl.DataFrame:
    """Give people whose job depends on the sex, and whose income depends on age and job."""
    rng = np.random.default_rng(seed)
    sex, age = rng.integers(0, 2, rows), rng.integers(18, 90, rows)
    job = (rng.random(rows) < 0.2 + 0.5 * sex).astype(int) + 2 * (rng.random(rows) < 0.3)
    income = np.round(np.exp(9 + age / 60 + 0.4 * job + rng.normal(0, 0.4, rows)), 2)
    frame = pl.DataFrame(
        {
            "name": [f"p{i}" for i in range(rows)],
            "age": age,
            "job": np.array(["baker", "clerk", "nurse", "smith"])[job],
            "sex": np.array(["f", "m"])[sex],
            "income": income,
        }
    )
    gone = pl.Series(rng.random(rows) < 0.05)
    return frame.with_columns(pl.when(gone).then(None).otherwise("income").alias("income"))


def written(frame: pl.DataFrame, place: Path) -> Path:
    place.mkdir()
    frame[: len(frame) // 3].write_parquet(place / "a.parquet")
    frame[len(frame) // 3 :].write_parquet(place / "b.parquet")
    return place


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return people(ROWS)


@pytest.fixture(scope="module")
def folder(frame: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(frame, tmp_path_factory.mktemp("people") / "register")


@pytest.fixture
def few_learned(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let models be learned from so few records that those of the file are more."""
    monkeypatch.setattr(generator, "LEARNED", 3_000)
    return 3_000


def plan_of(folder: Path, *steps: Any, **more: Any) -> dc.Plan:
    content = {"roles": ROLES, "hierarchies": HIERARCHIES, "steps": list(steps), "data": {"path": str(folder)}}
    return dc.Plan.from_dict({"measures": ["marginals"], "requirements": "none", **content, **more})


def released(plan: dc.Plan, memory: str = "4GB") -> LargeRelease:
    return run_large(plan, scan_data(plan, memory=memory), seed=SEED)


def published(release: LargeRelease, place: Path) -> pl.DataFrame:
    place.mkdir()
    return pl.concat([pl.read_parquet(place / name) for name in release.write_data(place)])


@pytest.mark.parametrize("order", ["permute", "keep"])
@pytest.mark.parametrize(
    "steps", [[TREES], ["drop-identifiers", RULES, *AFTER]], ids=["alone", "with rules, among others"]
)
def test_where_all_records_are_learned_from_it_is_as_in_memory(
    steps: list[Any], order: str, folder: Path, frame: pl.DataFrame, tmp_path: Path
) -> None:
    assert ROWS <= LEARNED
    plan = plan_of(folder, *steps, order=order)
    large, memory = released(plan), run_plan(plan, Dataset(frame, schema=plan.schema), seed=SEED)
    assert_frame_equal(published(large, tmp_path / "out"), memory.data.frame, check_exact=True)
    assert large.measured[0].after.value == pytest.approx(memory.measured[0].after.value, rel=1e-12)
    assert not any("learned from" in note for note in large.notes)


def test_columns_drawn_for_rows_that_stay_are_as_in_memory(folder: Path, frame: pl.DataFrame) -> None:
    method = dc.SequentialTrees(columns=["income", "job"])
    scan = dc.scan(folder, roles=ROLES)
    drawn = dc.Study(scan, seed=SEED).apply(method).current
    expected = dc.Study(Dataset(frame, roles=ROLES), seed=SEED).apply(method).current.frame
    assert isinstance(drawn, Scan)
    assert_frame_equal(drawn.collect().frame, expected, check_exact=True)
    assert_frame_equal(drawn.projected(["income"]).frame, expected.select("income"), check_exact=True)
    kept = drawn.table(["age"])  # the columns that they are drawn from stay as they were
    assert kept.records == ROWS and drawn.changed == {"income", "job"}


@pytest.mark.parametrize("method", [dc.GaussianCopula(), dc.IndependentMargins()], ids=lambda one: one.kind)
def test_other_models_of_rows_take_the_same_way(method: Method, folder: Path, frame: pl.DataFrame) -> None:
    numbers = ["age", "income"]
    scan, memory = dc.scan(folder, columns=numbers), Dataset(frame.select(numbers))
    large, small = (dc.Study(data, seed=SEED).apply(method).current for data in (scan, memory))
    assert isinstance(large, Scan) and large.has_new_rows
    assert_frame_equal(large.collect().frame, small.frame, check_exact=True)


def test_only_the_sample_enters_the_model(few_learned: int, frame: pl.DataFrame, tmp_path: Path) -> None:
    inside = np.zeros(ROWS, np.bool_)
    inside[learned_places(ROWS, SEED)] = True
    assert inside.sum() == few_learned
    marked = frame.with_columns(
        job=pl.when(pl.Series(inside)).then("job").otherwise(pl.lit("outside")),
        income=pl.when(pl.Series(inside)).then("income").otherwise(-1e9),
    )
    drawn = published(released(plan_of(written(marked, tmp_path / "in"), TREES)), tmp_path / "out")
    assert len(drawn) == ROWS and set(drawn["job"]) == set(frame["job"])
    low, high = frame.filter(pl.Series(inside))["income"].min(), frame.filter(pl.Series(inside))["income"].max()
    assert low <= drawn["income"].min() <= drawn["income"].max() <= high  # type: ignore[operator]


def test_the_bytes_do_not_depend_on_the_memory(few_learned: int, folder: Path, tmp_path: Path) -> None:
    plan = plan_of(folder, TREES, *AFTER)
    files = [
        released(plan, memory).write_data(made)
        for memory in ("100MB", "4GB")
        if (made := tmp_path / memory).mkdir() is None
    ]
    assert files[0] == files[1]


@pytest.mark.parametrize("columns", [(), ("income",)], ids=["new rows", "new values"])
def test_no_more_than_a_batch_is_drawn_at_a_time(
    columns: tuple[str, ...], few_learned: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    kept: list[int] = []
    learned: list[int] = []
    draw, keep, fit = InTurn.draw, DuckdbRows.keep, dc.SequentialTrees.fit

    def drawing(self: Any, values: Any, rows: int, *more: Any) -> None:
        sizes.append(rows)
        draw(self, values, rows, *more)

    def keeping(self: DuckdbRows, frames: Iterator[pl.DataFrame]) -> DuckdbRows:
        def counted() -> Iterator[pl.DataFrame]:
            for one in frames:
                kept.append(len(one))
                assert len(kept) == len(sizes)  # each is written before the next is drawn
                yield one

        return keep(self, counted())

    def fitting(self: Any, data: Dataset, ctx: Any) -> Any:
        learned.append(len(data))
        return fit(self, data, ctx)

    monkeypatch.setattr(InTurn, "draw", drawing)
    monkeypatch.setattr(DuckdbRows, "keep", keeping)
    monkeypatch.setattr(dc.SequentialTrees, "fit", fitting)
    rows = None if columns else 3 * BATCH_ROWS + 1
    current = dc.Study(dc.scan(folder, roles=ROLES), seed=SEED).apply(dc.SequentialTrees(columns=columns, rows=rows))
    assert learned == [few_learned]
    assert max(sizes) == BATCH_ROWS and kept == ([] if columns else [BATCH_ROWS] * 3 + [1])
    assert len(current.current) == (rows or ROWS)


def test_what_is_said_about_the_sample(few_learned: int, folder: Path, tmp_path: Path) -> None:
    measures = ["closest-record", "marginals"]
    release = released(plan_of(folder, TREES, measures=measures, confirmed_other=[], output={"format": "parquet"}))
    public, private = release.write(tmp_path / "public", tmp_path / "private")
    assert any(f"random sample of 3,000 of {ROWS:,} records" in note for note in release.notes)
    assert release.on_sample == ("closest-record",)
    assert any("An attacker has all published rows" in note for note in release.notes)
    journal = json.loads((private / "journal.json").read_text())
    assert journal["input"]["records"] == ROWS
    assert {"records": 3_000, "sample_of": ROWS}.items() <= journal["steps"][0]["facts"].items()
    assert (np.load(private / "order.npy") == -1).all() and len(np.load(private / "order.npy")) == ROWS
    assert "learned from a random sample" in (public / "report.html").read_text()
    # the people that are attacked are among those that the model knows
    original = release.study.original.frame["name"]
    assert set(original) <= {f"p{place}" for place in learned_places(ROWS, SEED).tolist()}


def test_the_number_of_records_is_told_where_as_many_are_published(few_learned: int, folder: Path) -> None:
    release = released(plan_of(folder, {"sequential-trees": {"rows": 70_000}}))
    assert release.records == 70_000 and release.data.has_new_rows
    assert not any(f"{ROWS:,}" in note for note in release.notes)
    assert f"{ROWS}" not in json.dumps(release.facts())
    assert any("random sample of 3,000 records of the original" in note for note in release.notes)


def test_a_model_of_another_delivery_is_said_to_be_one(few_learned: int, folder: Path, tmp_path: Path) -> None:
    known = released(plan_of(folder, TREES)).study.decisions
    plan = plan_of(written(people(5_000, seed=5), tmp_path / "in"), TREES)
    again = run_large(plan, scan_data(plan), seed=SEED + 1, reuse=known)
    assert again.records == 5_000 and set(again.data.frame["job"]) == {"baker", "clerk", "nurse", "smith"}
    said = [note for note in again.notes if "learned from" in note]
    assert len(said) == 1 and f"sample of {few_learned:,} records of another delivery" in said[0]
    assert "Attacks" not in said[0] and f"{ROWS:,}" not in said[0]


def test_a_release_is_assessed_by_its_journal(folder: Path, tmp_path: Path) -> None:
    from discretion.cli.app import run

    release = released(plan_of(folder, TREES, output={"format": "parquet"}))
    public, private = release.write(tmp_path / "public", tmp_path / "private")
    asked = ["--journal", str(private), "--plan", str(private / "plan.yaml"), "--measure", "marginals", "--quiet"]
    assert run(["assess", str(folder), str(public), *asked, "--engine", "duckdb"]) == 0
    assert run(["assess", str(folder), str(public), *asked, "--measure", "mse", "--engine", "duckdb"]) != 0


def test_a_measure_of_matched_records_has_nothing_to_match(folder: Path) -> None:
    study = dc.Study(dc.scan(folder, roles=ROLES), seed=SEED).apply(dc.SequentialTrees())
    with pytest.raises(DataError, match="synthetic and belong to nobody"):
        study.scores(dc.Mse(columns=["income"]))
    assert study.scores(dc.Marginals(columns=["age", "job"]))[0].value < 0.05


REFUSED = {
    "strata": ([{"sequential-trees": {"by": ["sex"]}}], "sequential-trees with `by` needs all rows in memory"),
    "copies": ([{"gaussian-copula": {"copies": 2}}], "gaussian-copula with `copies` needs all rows in memory"),
    "risky": (
        [{"sequential-trees": {"columns": ["income"], "records": "risky", "at_most": 0.1}}],
        "sequential-trees with `records: risky` needs all rows in memory",
    ),
    "after a step": ([AFTER[2], TREES], "sequential-trees must come before additive-noise"),
    "twice": ([TREES, TREES], "sequential-trees must come before sequential-trees"),
    "another model": (
        [{"moment-preserving": {"columns": ["age", "income"]}}],
        "moment-preserving needs all rows in memory: use `mdav` or `correlated-noise` instead",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_by_name(name: str, folder: Path) -> None:
    steps, said = REFUSED[name]
    with pytest.raises(PlanError, match=said):
        released(plan_of(folder, *steps))


@pytest.mark.parametrize("role", ["household", "unit"])
def test_households_and_units_are_refused(role: str, frame: pl.DataFrame, tmp_path: Path) -> None:
    place = written(frame[:500].with_columns(home=pl.int_range(500) // 3), tmp_path / "in")
    with pytest.raises(PlanError, match=r"\(home\) need all rows in memory"):
        dc.Study(dc.scan(place, roles={**ROLES, "home": role})).apply(dc.SequentialTrees())


def test_requirements_that_cannot_be_judged_are_refused(folder: Path) -> None:
    with pytest.raises(PlanError, match="requirements: closest-record needs all rows in memory"):
        released(plan_of(folder, TREES, requirements=[{"closest-record": {"at_most": 0.6}}]))
    classes = released(plan_of(folder, TREES, AFTER[1], requirements=[{"k-anonymity": {"k": 2}}]))
    assert classes.findings[0].holds


def test_a_step_that_changed_values_is_refused_in_a_study_too(folder: Path) -> None:
    study = dc.Study(dc.scan(folder, roles=ROLES)).apply(dc.Round(columns=["income"], base=10))
    with pytest.raises(PlanError, match="put it first"):
        study.apply(dc.SequentialTrees())


def test_what_a_sample_cannot_give_is_said_of_the_sample(few_learned: int, frame: pl.DataFrame, tmp_path: Path) -> None:
    one = frame.with_columns(pl.lit("clerk").alias("job"))
    place = written(one, tmp_path / "in")
    with pytest.raises(DataError, match=f"in a random sample of 3,000 of {ROWS:,} records: .*'job' has one value only"):
        released(plan_of(place, TREES))


def test_a_run_that_is_stopped_publishes_nothing(folder: Path, tmp_path: Path) -> None:
    plan = plan_of(folder, TREES, output={"folder": str(tmp_path / "out")})

    def stop(done: int, total: int, label: str) -> None:
        if label.endswith("sequential-trees") and (done, total) == (BATCH_ROWS, ROWS):
            raise Cancelled

    with pytest.raises(Cancelled):
        run_large(plan, scan_data(plan), seed=SEED, progress=stop)
    assert not (tmp_path / "out").exists()


def test_a_file_larger_than_the_sample_is_reproduced_as_in_memory(tmp_path: Path) -> None:
    """Of 200,000 records 100,000 are learned from.

    A share p of the file drawn in memory has the variance p(1−p)/200,000 given the file, as has the one drawn from the
    sample, to which the sample adds p(1−p)·(1/100,000 − 1/200,000): their difference stays within five standard errors
    of what they add up to. So does a difference of two shares or means within groups of n_g records (scaled by n/n_g).
    """
    rows = 2 * LEARNED
    every = people(rows, seed=7).drop("name")
    method = dc.SequentialTrees()
    large = dc.Study(dc.scan(written(every, tmp_path / "in")), seed=SEED).apply(method).current
    assert isinstance(large, Scan) and len(large) == rows
    one, other = large.collect().frame, dc.Study(Dataset(every), seed=SEED).apply(method).current.frame
    spread = np.sqrt(2 / rows + 1 / LEARNED - 1 / rows)

    def near(one: pl.Series, other: pl.Series, share: float = 1.0) -> bool:
        away = abs(one.cast(float).mean() - other.cast(float).mean())  # type: ignore[arg-type, operator]
        return bool(away <= 5 * float(other.cast(float).std()) * spread / np.sqrt(share))  # type: ignore[arg-type]

    for job in every["job"].unique():
        assert near(one["job"] == job, other["job"] == job)
    for data in (one, other):
        data.insert_column(0, data["income"].log().alias("log"))
    assert near(one["age"], other["age"]) and near(one["log"].drop_nulls(), other["log"].drop_nulls(), 0.95)
    for sex in ("f", "m"):
        a, b = (data.filter(pl.col("sex") == sex) for data in (one, other))
        share = len(b) / rows
        assert near(a["job"] == "clerk", b["job"] == "clerk", share)
    gaps = [
        (data.filter(sex="m")["job"] == "clerk").mean() - (data.filter(sex="f")["job"] == "clerk").mean()  # type: ignore[operator]
        for data in (one, other, every)
    ]
    assert gaps[0] == pytest.approx(gaps[1], abs=5 * spread) and gaps[2] > 0.2
    old, young = (pl.col("age") >= 60, pl.col("age") < 40)
    for group in (old, young):
        a, b = (data.filter(group)["log"].drop_nulls() for data in (one, other))
        assert near(a, b, len(b) / rows)


def test_columns_of_every_type_are_as_in_memory(tmp_path: Path) -> None:
    rows = 3_000
    rng = np.random.default_rng(3)
    codes = pl.Series(rng.integers(0, 3, rows))
    frame = pl.DataFrame(
        {
            "day": pl.Series(rng.integers(0, 9_000, rows)).cast(pl.Int32).cast(pl.Date),
            "moment": pl.Series(rng.integers(0, 10**12, rows)).cast(pl.Datetime("us")),
            "yes": codes == 1,
            "kind": pl.Series(["a", "b", "c"]).gather(codes).cast(pl.Categorical),
            "level": pl.Series(["low", "mid", "high"], dtype=pl.Enum(["low", "mid", "high"])).gather(codes),
            "items": [["x", "y"][: rng.integers(0, 3)] for _ in range(rows)],
            "small": pl.Series(rng.integers(0, 90, rows)).cast(pl.Int8),
            "narrow": pl.Series(rng.normal(size=rows)).cast(pl.Float32),
            "empty": pl.Series([None] * rows, dtype=pl.String),
            "one": pl.Series(["same"] * rows),
        }
    )
    frame = frame.with_columns(pl.when(codes == 2).then(None).otherwise(pl.col("day", "small")).name.keep())
    method = dc.SequentialTrees(constants="keep", rows=BATCH_ROWS + 1)
    place = written(frame, tmp_path / "in")
    drawn = dc.Study(dc.scan(place), seed=SEED).apply(method).current
    expected = dc.Study(Dataset(pl.read_parquet(place / "*.parquet")), seed=SEED).apply(method).current.frame
    assert isinstance(drawn, Scan)
    assert_frame_equal(drawn.collect().frame, expected, check_exact=True, categorical_as_str=True)
    assert drawn.table(["level", "kind"]).class_counts(["level"]).sum() == BATCH_ROWS + 1
