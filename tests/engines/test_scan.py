"""Rows that stay in their files: the same seed gives the same values as in memory, on several batches and files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.cli.app import run
from discretion.context import BATCH_ROWS
from discretion.data.dataset import Dataset
from discretion.engines.duckdb import DuckdbRows, data_files
from discretion.engines.scan import COUNT, FIRST, Scan
from discretion.errors import DataError, PlanError
from discretion.part import index
from discretion.release.large import run_large, scan_data

ROWS = 2 * BATCH_ROWS + 77
ROLES = {
    "name": "identifier",
    "age": "quasi",
    "region": "quasi",
    "sex": "quasi",
    "income": "sensitive",
    "hours": "sensitive",
}
OPTIONS: dict[str, Any] = {
    "roles": ROLES,
    "hierarchies": {"age": dc.Hierarchy.intervals(width=10, levels=3), "region": dc.Hierarchy.masking()},
    "missing_codes": {"hours": [-9]},
}


def people(rows: int = ROWS) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    frame = pl.DataFrame(
        {
            "name": [f"p{i}" for i in range(rows)],
            "age": rng.integers(0, 95, rows),
            "region": rng.choice([f"{i:02d}" for i in range(30)], rows),
            "sex": rng.choice(["f", "m"], rows),
            "income": np.round(rng.lognormal(10, 1, rows), 2),
            "hours": rng.integers(0, 60, rows),
        }
    )
    gone = pl.Series(rng.random(rows) < 0.02)
    return frame.with_columns(
        pl.when(gone).then(None).otherwise("income").alias("income"),
        pl.when(gone).then(-9).otherwise("hours").alias("hours"),
    )


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return people()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, frame: pl.DataFrame) -> Path:
    """Give the rows in three files of other sizes than batches have, one of a single row."""
    place = tmp_path_factory.mktemp("register")
    for number, (start, stop) in enumerate([(0, 70_000), (70_000, 70_001), (70_001, ROWS)]):
        frame[start:stop].write_parquet(place / f"part-{number}.parquet", row_group_size=33_000)
    return place


@pytest.fixture(scope="module")
def memory(frame: pl.DataFrame) -> Dataset:
    return Dataset(frame, **OPTIONS)


@pytest.fixture
def scan(folder: Path) -> Scan:
    return dc.scan(folder, **OPTIONS)


METHODS: dict[str, Any] = {
    "drop-identifiers": dc.DropIdentifiers(),
    "round": dc.Round(columns=["hours"], base=5, how="random"),
    "top-code": dc.TopCode(column="income", quantile=0.99, replace="mean"),
    "bottom-code": dc.BottomCode(column="hours", at=5),
    "group-categories": dc.GroupCategories(column="region", groups={"low": ["00", "01", "02"]}),
    "generalize": dc.Generalize(levels={"age": 1, "region": 1}),
    "recode": dc.Recode(column="income", quantiles=4),
    "additive-noise": dc.AdditiveNoise(columns=["income", "hours"], sd_share=0.2),
    "correlated-noise": dc.CorrelatedNoise(columns=["income", "hours"], variance_share=0.1),
    "variance-preserving-noise": dc.VariancePreservingNoise(columns=["income", "hours"], variance_share=0.1),
    "multiplicative-noise": dc.MultiplicativeNoise(columns=["income"], sd=0.1),
    "pram": dc.Pram(columns=["sex"], keep_share=0.8),
    "randomized-response": dc.RandomizedResponse(columns=["sex"], truth_share=0.7),
    "rank-swap": dc.RankSwap(columns=["income", "hours"], percent=5),
    "block-rank-swap": dc.BlockRankSwap(columns=["income"], percent=5),
    "individual-ranking": dc.IndividualRanking(columns=["income"], k=5),
    "optimal-microaggregation": dc.OptimalMicroaggregation(columns=["hours"], k=3),
    "projection-microaggregation": dc.ProjectionMicroaggregation(columns=["income", "hours"], k=5),
    "shuffle": dc.Shuffle(columns=["income"], predictors=["age", "sex"]),
    "winsorize-outliers": dc.WinsorizeOutliers(columns=["income", "hours"]),
    "suppress-records": dc.SuppressRecords(
        columns=["age", "region"], k=30, models=[dc.DistinctLDiversity(l=24, sensitive=["hours"])], limit=0.3
    ),
    "optimal-generalization": dc.OptimalGeneralization(
        models=[dc.KAnonymity(k=120), dc.DistinctLDiversity(l=20, sensitive=["hours"])], suppression_limit=0.05
    ),
    "local-suppression": dc.LocalSuppression(k=12, linked={"region": ["income"]}, importance={"sex": "never"}),
    "mondrian": dc.Mondrian(
        models=[dc.KAnonymity(k=60), dc.DistinctLDiversity(l=20, sensitive=["hours"])], suppression_limit=0.01
    ),
}


def test_every_method_that_scales_is_tried() -> None:
    others = ("memory", "blocks", "sampled")  # test_blocks.py, test_synthesis.py
    scaling = {e.kind for e in index().values() if e.family == "method" and e.load().scale not in others}
    assert scaling == set(METHODS)


@pytest.mark.parametrize("kind", METHODS)
def test_a_method_gives_the_same_in_files_as_in_memory(kind: str, memory: Dataset, scan: Scan) -> None:
    seed = 2**100 + 3
    one, other = (dc.Study(data, seed=seed).apply(METHODS[kind]) for data in (memory, scan))
    assert isinstance(other.current, Scan) and len(other.current) == len(one.current)
    assert other.drawn == one.drawn
    collected = other.current.collect()
    assert np.array_equal(collected.row_ids, one.current.row_ids)
    assert collected.frame.equals(one.current.frame, null_equal=True)
    assert collected.suppressed_cells == one.current.suppressed_cells
    assert other.current.lost_records == one.current.lost_records
    assert collected.levels.keys() == one.current.levels.keys()
    assert all(np.array_equal(level, one.current.levels[name]) for name, level in collected.levels.items())
    assert whole_levels(other.current) == whole_levels(one.current)


def whole_levels(data: Dataset) -> dict[str, Any]:
    return {name: level for name, level in data.levels.items() if isinstance(level, int)}


def test_groups_are_those_of_memory(memory: Dataset, scan: Scan) -> None:
    method = dc.AdditiveNoise(columns=["income"], sd_share=0.2, by=["sex"])
    one, other = (dc.Study(data, seed=2**100 + 4).apply(method).current for data in (memory, scan))
    assert isinstance(other, Scan) and other.collect().frame.equals(one.frame, null_equal=True)


def steps(study: dc.Study, *kinds: str) -> dc.Study:
    for kind in kinds:
        study = study.apply(METHODS[kind])
    return study


@pytest.mark.parametrize(
    "kinds",
    [
        ("top-code", "generalize"),
        ("rank-swap", "generalize"),
        ("pram", "additive-noise", "optimal-generalization"),
        ("pram", "suppress-records"),
        ("pram", "mondrian"),
        ("pram", "local-suppression"),
        ("generalize", "local-suppression", "additive-noise"),
    ],
)
def test_classes_after_steps_are_those_of_the_rows(kinds: tuple[str, ...], memory: Dataset, scan: Scan) -> None:
    one, other = (steps(dc.Study(data, seed=2**100 + 5), *kinds) for data in (memory, scan))
    for model in (
        dc.KAnonymity(k=30),
        dc.DistinctLDiversity(l=3, sensitive=["hours"]),
        dc.TCloseness(t=0.2, sensitive=["hours"]),
    ):
        expected, found = one.check(model)[0], other.check(model)[0]
        assert (found.holds, found.failing_records) == (expected.holds, expected.failing_records)
        assert found.value == pytest.approx(expected.value, rel=1e-12)
    for measure in (dc.SampleUniqueness(), dc.AttackerRisk(attacker="marketer")):
        assert other.scores(measure)[0].value == pytest.approx(one.scores(measure)[0].value, rel=1e-12)


@pytest.mark.parametrize(
    ("names", "by_place"),
    [
        (["age"], True),
        (["region", "flag", "age"], True),
        (["hours", "region"], True),
        (["nothing", "sex"], True),
        (["sex", "income"], False),
        (["name"], False),
        (["age", "wide"], False),
    ],
)
def test_classes_of_files_are_those_of_a_group_by(
    names: list[str], by_place: bool, tmp_path: Path, frame: pl.DataFrame
) -> None:
    rng = np.random.default_rng(2)
    missing = pl.when(pl.Series(rng.random(ROWS) < 0.1)).then(None)
    frame = frame.with_columns(
        missing.otherwise(pl.col("age").cast(pl.Int8) - 50).alias("age"),
        missing.otherwise("region").alias("region"),
        missing.otherwise(pl.Series(rng.random(ROWS) < 0.5)).alias("flag"),
        pl.lit(None, pl.String).alias("nothing"),
        pl.Series("wide", rng.integers(-(2**62), 2**62, ROWS)),
    )
    for number, (start, stop) in enumerate([(0, 70_000), (70_000, 70_001), (70_001, ROWS)]):
        frame[start:stop].write_parquet(tmp_path / f"part-{number}.parquet", row_group_size=33_000)
    rows = DuckdbRows(data_files(tmp_path))
    numbered = frame.select(names).with_row_index(FIRST)
    naive = numbered.group_by(names).agg(pl.len().alias(COUNT), pl.col(FIRST).min()).sort(FIRST)
    expected = naive.cast({COUNT: pl.Int64, FIRST: pl.Int64})
    for found in (rows.classes(names), rows._counted_by_query(names)):
        assert found.equals(expected, null_equal=True)
        assert found.schema == expected.schema
    assert (rows._counted_by_place(names) is not None) == by_place


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (dc.LocalRecoding(k=3), "local-recoding needs all rows"),
        (dc.LocalSuppression(k=3, missing="wildcard"), "local-suppression with `missing: wildcard` needs all rows"),
        (
            dc.AdditiveNoise(columns=["income"], sd_share=0.1, by_person=True, person="name"),
            "additive-noise with `by_person` needs all rows",
        ),
        (dc.LearnedLinkage(columns=["income"]), "learned-linkage needs all rows"),
        (dc.Mondrian(k=3, strict=False), "`strict: false` needs all rows"),
        (dc.HouseholdKAnonymity(k=2, household="region"), "household-k-anonymity needs all rows"),
    ],
)
def test_what_needs_memory_refuses_by_name(part: Any, said: str, scan: Scan) -> None:
    with pytest.raises(PlanError, match=said):
        part(scan, seed=1) if part.family == "method" else part(scan) if part.family == "model" else part(scan, scan)


def test_noise_after_dropped_records_is_refused(scan: Scan) -> None:
    with pytest.raises(PlanError, match="put it before the step that drops records"):
        steps(dc.Study(scan, seed=2**100), "optimal-generalization", "additive-noise")


PLAN: dict[str, Any] = {
    "roles": ROLES,
    "missing_codes": {"hours": [-9]},
    "hierarchies": {"age": {"intervals": {"width": 10, "levels": 3}}, "region": {"masking": {}}},
    "steps": ["drop-identifiers", METHODS["additive-noise"].to_plan(), METHODS["optimal-generalization"].to_plan()],
    "requirements": [{"k-anonymity": {"k": 60}}],
    "measures": [
        "sample-uniqueness",
        {"distance-linkage": {"columns": ["income"]}},
        {"precision": {"columns": ["region"]}},
    ],
    "output": {"format": "parquet"},
}


def make_plan(folder: Path, path: str, search: str = "optimal-generalization") -> dc.Plan:
    import yaml

    file = folder / "plan.yaml"
    steps = [*PLAN["steps"][:2], METHODS[search].to_plan()]
    file.write_text(yaml.safe_dump({**PLAN, "steps": steps, "data": {"path": path}}))
    return dc.Plan.load(file)


@pytest.mark.parametrize("search", ["optimal-generalization", "mondrian"])
def test_a_release_of_files_is_that_of_memory(
    search: str, folder: Path, frame: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("discretion.release.large.PART_ROWS", 40_000)
    frame.write_parquet(tmp_path / "all.parquet")
    seed = 2**110 + 9
    one = make_plan(tmp_path, "all.parquet", search).run(seed=seed)
    one.write(tmp_path / "one")
    plan = make_plan(tmp_path, str(folder / "*.parquet"), search)
    other = run_large(plan, scan_data(plan), seed=seed, publish=True)
    other.write(tmp_path / "other")
    parts = sorted((tmp_path / "other").glob("data-*.parquet"))
    assert len(parts) == 4
    assert pl.read_parquet(tmp_path / "one" / "data.parquet").equals(pl.concat(map(pl.read_parquet, parts)))
    orders = [np.load(tmp_path / f"{name}-private" / "order.npy") for name in ("one", "other")]
    assert np.array_equal(*orders)
    assert other.findings[0].value == one.findings[0].value
    precision = [next(m for m in release.measured if m.after.measure == "precision") for release in (one, other)]
    assert precision[0].after.value == pytest.approx(precision[1].after.value, rel=1e-12)
    facts = [release.facts() for release in (one, other)]
    for name in ("records", "records_suppressed", "smallest_class", "columns", "steps", "requirements"):
        assert facts[0][name] == facts[1][name], name
    assert "random sample of" in " ".join(facts[1]["notes"])


def test_rows_of_all_types_are_put_in_the_order_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Categories that differ between batches, texts longer than a word, dates and missing values come through."""
    monkeypatch.setattr("discretion.release.large.PART_ROWS", 30_000)
    rng, rows = np.random.default_rng(3), BATCH_ROWS + 500
    numbers = rng.integers(0, 40, rows)
    numbers[BATCH_ROWS:] += 40
    frame = pl.DataFrame(
        {
            "place": pl.Series([f"the place of number {number}" for number in numbers], dtype=pl.Categorical),
            "sex": pl.Series(rng.choice(["f", "m"], rows), dtype=pl.Enum(["m", "f"])),
            "said": pl.Series([f"a text as long as number {number}" if number % 3 else None for number in numbers]),
            "day": pl.Series(numbers.astype(np.int32)).cast(pl.Date),
            "yes": pl.Series(rng.random(rows) < 0.5),
        }
    )
    frame.write_parquet(tmp_path / "all.parquet")
    plan = dc.Plan.from_dict(
        {
            "data": {"path": str(tmp_path / "all.parquet")},
            "roles": {"sex": "quasi", **dict.fromkeys(["place", "said", "day", "yes"], "other")},
            "confirmed_other": ["place", "said", "day", "yes"],
            "steps": "none",
            "requirements": [{"k-anonymity": {"k": 2}}],
            "output": {"format": "parquet"},
        }
    )
    plan.run(seed=11).write(tmp_path / "one")
    run_large(plan, scan_data(plan), seed=11, publish=True).write(tmp_path / "other")
    parts = [pl.read_parquet(part) for part in sorted((tmp_path / "other").glob("data-*.parquet"))]
    assert len(parts) == 3
    assert pl.read_parquet(tmp_path / "one" / "data.parquet").equals(pl.concat(parts), null_equal=True)


def test_a_plan_is_refused_whole(folder: Path) -> None:
    steps = ["drop-identifiers", {"local-recoding": {"k": 3}}]
    limits = [{"learned-linkage": {"at_most": 0.1}}]
    plan = dc.Plan.from_dict({**PLAN, "steps": steps, "requirements": limits, "data": {"path": str(folder)}})
    with pytest.raises(PlanError, match=r"(?s)local-recoding needs all rows.*learned-linkage needs all rows"):
        run_large(plan, scan_data(plan), publish=True)


def spoil_schema(place: Path) -> None:
    pl.DataFrame({"age": ["x"]}).write_parquet(place / "part-9.parquet")


def spoil_bytes(place: Path) -> None:
    (place / "part-9.parquet").write_bytes(b"PAR1 nothing")


@pytest.mark.parametrize(("spoil", "said"), [(spoil_schema, "differ from those of"), (spoil_bytes, "cannot be read")])
def test_parts_that_do_not_fit(spoil: Callable[[Path], None], said: str, tmp_path: Path) -> None:
    people(1000).write_parquet(tmp_path / "part-0.parquet")
    spoil(tmp_path)
    with pytest.raises(DataError, match=said):
        dc.scan(tmp_path, **OPTIONS)


def test_sources(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no Parquet or CSV file"):
        data_files(tmp_path / "nothing-*.parquet")
    (tmp_path / "a.xlsx").write_text("")
    with pytest.raises(PlanError, match="read from Parquet"):
        data_files(tmp_path / "a.xlsx")
    (tmp_path / "a.csv").write_text("a\n1\n")
    people(3).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(PlanError, match="all parts from the same"):
        data_files(tmp_path / "a.[cp]*")
    with pytest.raises(PlanError, match="expected a size"):
        DuckdbRows([], memory="much")


CSV = {
    "plain": "age;income;born\n" + "".join(f"{i % 90};{i / 4};2001-01-{i % 28 + 1:02d}\n" for i in range(7000)),
    "a late decimal": "age;income\n" + "".join(f"{i};{i}\n" for i in range(6000)) + "1;2,5\n",
    "a late word, gaps": "age;income\n" + "".join(f"{i};\n" for i in range(6000)) + "x;1\n",
    "blank lines": "age;income\n1;2\n\n3;4\n",
    "leading zeros": "age;income\n01;2\n02;4\n",
}


@pytest.mark.parametrize("name", CSV)
def test_text_is_read_as_in_memory(name: str, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text(CSV[name])
    scanned = dc.scan(file, spill=tmp_path)
    assert scanned.to_native().equals(dc.read(file).frame)
    assert scanned.store.files == (file,)
    place = scanned.store.spill
    del scanned
    assert not place.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [("a,b\n1,2\n3\n", "not of the same length"), ("a,b\n", "no rows"), ("", "empty"), ("a,a\n1,2\n", "more than one")],
)
def test_text_that_cannot_be_read(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(text)
    with pytest.raises(DataError, match=said):
        dc.scan(tmp_path / "people.csv", spill=tmp_path)
    assert not list(tmp_path.glob("discretion-spill-*"))


def test_text_of_sets_and_of_numbers_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("a,b\nx|y,2\nz,w\n")
    with pytest.raises(PlanError, match="'a' holds sets"):
        dc.scan(tmp_path / "people.csv", types={"a": "set"})
    with pytest.raises(DataError, match="'b' has the type `continuous`"):
        dc.scan(tmp_path / "people.csv", types={"b": "continuous"})


def test_what_killed_processes_spilled_is_removed(tmp_path: Path) -> None:
    people(10).write_parquet(tmp_path / "a.parquet")
    left = tmp_path / "discretion-spill-999999999-x"
    left.mkdir()
    store = DuckdbRows([tmp_path / "a.parquet"], spill=tmp_path)
    assert not left.exists() and store.spill.stat().st_mode & 0o077 == 0
    place = store.spill
    del store
    assert not place.exists()


TABLE = """
data: {{path: {data}}}
roles: {{name: identifier}}
confirmed: true
table:
  by: [region, sex]
  value: income
  contributor: name
  rules:
    - threshold: {{minimum: 2130}}
  protect: {protect}
"""


def test_a_table_of_rows_in_files(folder: Path, frame: pl.DataFrame, tmp_path: Path) -> None:
    frame.write_parquet(tmp_path / "all.parquet")
    for name, data, more in (("one", tmp_path / "all.parquet", []), ("other", folder, ["--engine", "duckdb"])):
        file = tmp_path / f"{name}.yaml"
        file.write_text(TABLE.format(data=data, protect="{suppress: {engine: levels}}"))
        assert run(["table", str(file), "--out", str(tmp_path / name), "--quiet", *more]) == 0
    one, other = (tmp_path / name / "table.csv" for name in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()
    journal = json.loads((tmp_path / "other-private" / "journal.json").read_text())
    assert journal["input"]["engine"] == "duckdb" and len(journal["input"]["files"]) == 3


def test_a_table_that_needs_all_rows_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "plan.yaml").write_text(TABLE.format(data=folder, protect="perturb"))
    assert run(["table", str(tmp_path / "plan.yaml"), "--out", str(tmp_path / "out"), "--engine", "duckdb"]) == 2
    assert "keys of records are made in memory" in capsys.readouterr().err


def test_classes_are_no_records_of_a_table() -> None:
    classes = dc.Dataset(pl.DataFrame({"a": ["x", "y"], "n": [10, 20]}), counts="n")
    with pytest.raises(DataError, match="needs every record"):
        dc.tabulate(classes, ["a"])
    with pytest.raises(DataError, match="needs every record"):
        dc.tables.with_record_keys(classes, seed=1)


def test_columns_of_wide_data_do_not_all_stay_open(monkeypatch: pytest.MonkeyPatch, scan: Scan) -> None:
    monkeypatch.setattr("discretion.engines.scan.MOST_OPEN", 1)
    ends = {name: scan.extremes(name) for name in ("age", "income", "hours")}
    assert len(scan._spools) == 1
    both = scan.each_batch(["age", "hours"], lambda piece: piece.number("age").size + piece.number("hours").size)
    assert sum(both) == 2 * ROWS and len(scan._spools) == 2
    assert ends["age"] == (0.0, 94.0)


def test_different_values_are_found_without_counting_where_the_bounds_are_full(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    frame = pl.DataFrame(
        {
            "full": rng.integers(-3, 4, 200_000).astype(np.int8),
            "gaps": rng.integers(0, 30, 200_000) * 7,
            "some": pl.Series(rng.integers(0, 3, 200_000)).replace(1, None),
            "text": [str(i) for i in rng.integers(0, 20, 200_000)],
            "float": rng.integers(0, 5, 200_000) / 2,
        }
    )
    frame[:70_001].write_parquet(tmp_path / "a.parquet")
    frame[70_001:].write_parquet(tmp_path / "b.parquet")
    store = dc.scan(tmp_path).store
    for name in frame.columns:
        assert store.different(name).to_list() == frame[name].unique(maintain_order=True).to_list(), name


def test_columns_kept_while_rows_pass_are_those_of_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.DataFrame({"a": np.arange(150_000), "b": np.arange(150_000) / 4})
    frame.write_parquet(tmp_path / "a.parquet")
    data = dc.scan(tmp_path)
    assert sum(len(part) for part in data.stream_keeping(["b"])) == len(frame)
    monkeypatch.setattr(type(data.store), "batches", None)
    assert data.extremes("b") == (0.0, 149_999 / 4)
    assert pl.concat(part.frame for part in data.stream(["b"])).equals(frame.select("b"))


def test_combinations_in_memory_have_a_limit_and_generalized_ones_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    frame = pl.DataFrame({"age": rng.integers(0, 100, 5_000), "zone": rng.integers(0, 100, 5_000) / 2})
    frame.write_parquet(tmp_path / "a.parquet")
    for module in ("scan", "duckdb"):
        monkeypatch.setattr(f"discretion.engines.{module}.MOST_CLASSES", 1_000)
    roles = {"age": "quasi", "zone": "quasi"}
    data = dc.scan(tmp_path, roles=roles, hierarchies={"age": {"intervals": {"width": 20, "levels": 2}}})
    with pytest.raises(DataError, match=r"different combinations of age, zone.*Generalize these columns"):
        dc.KAnonymity(k=2)(data)
    with pytest.raises(DataError, match="combinations of age"):
        dc.KAnonymity(k=2)(dc.Study(data, seed=1).apply(dc.Pram(columns=["age"], keep_share=0.5)).current)
    rougher = dc.Study(data, seed=1).apply(dc.Generalize(levels={"age": 1})).current
    counts = frame.group_by(pl.col("age") // 20, "zone").len()["len"]
    assert dc.KAnonymity(k=2)(rougher).value == counts.min()
    plan = dc.Plan.from_dict(
        {
            "data": {"path": str(tmp_path)},
            "roles": roles,
            "steps": "none",
            "requirements": "none",
            "measures": ["sample-uniqueness"],
        }
    )
    release = run_large(plan, scan_data(plan), seed=1)
    assert "sample-uniqueness" in release.on_sample


def test_refused_parts_name_what_works_instead(tmp_path: Path) -> None:
    from discretion.part import _INSTEAD, find

    for kind, words in _INSTEAD.items():
        assert find(kind).scale == "memory", kind
        for other in re.findall(r"`([^`]+)`", words):
            assert find(other).scale != "memory", other
    pl.DataFrame({"age": [1, 2, 3]}).write_parquet(tmp_path / "a.parquet")
    data = dc.scan(tmp_path, roles={"age": "quasi"})
    with pytest.raises(PlanError, match="use `mondrian` or `optimal-generalization` instead"):
        dc.Study(data).apply(dc.LocalRecoding(k=3))
    with pytest.raises(PlanError, match="use `distance-linkage` instead"):
        dc.Study(data).scores(dc.ProbabilisticLinkage())


@pytest.mark.parametrize("order", ["keep", "permute"])
def test_blocks_of_published_files_do_not_tell_where_records_were_dropped(order: str, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    rng, rows = np.random.default_rng(1), 3 * BATCH_ROWS
    zone = np.where(np.arange(rows) < BATCH_ROWS, rng.integers(0, 30_000, rows), rng.integers(0, 20, rows))
    people = pl.DataFrame({"zone": zone, "income": np.arange(rows)})
    people.write_parquet(tmp_path / "a.parquet")
    plan = dc.Plan.from_dict(
        {
            "data": {"path": str(tmp_path / "a.parquet")},
            "roles": {"zone": "quasi", "income": "sensitive"},
            "steps": [{"suppress-records": {"models": [{"k-anonymity": {"k": 5}}], "limit": 0.9}}],
            "requirements": [{"k-anonymity": {"k": 5}}],
            "measures": ["sample-uniqueness"],
            "output": {"format": "parquet"},
            "order": order,
        }
    )
    run_large(plan, scan_data(plan), seed=2**100).write(tmp_path / "out")
    (part,) = (tmp_path / "out").glob("*.parquet")
    found = pq.read_metadata(part)
    sizes = [found.row_group(number).num_rows for number in range(found.num_row_groups)]
    assert len(set(sizes[:-1])) <= 1 and sum(sizes) < rows
    kept = people.filter(pl.len().over("zone") >= 5)
    published = pl.read_parquet(part)
    assert published.equals(kept) if order == "keep" else published.sort("income").equals(kept)
