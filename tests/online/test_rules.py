"""The rules that the service picks by itself, against somebody who knows more than the audit: units, ties, codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.online.audit.exact import rule_of
from discretion.online.backends import open_backend
from discretion.online.declare import ColumnSpec, TableSpec
from discretion.online.dp.mechanisms import value_of_step
from discretion.online.statistical_database import alike, signs

N = 40
TRUE = {"mode": "exact+audit", "min_query_size": 5}
ID = {"role": "public", "type": "integer"}
NUMBER = {"role": "sensitive", "type": "number"}


def right_by_unit(values: np.ndarray[Any, Any], declared: dict[str, Any], unit: float) -> tuple[int, int]:
    """Ask for sums over random sets, then take the multiple of the unit for which most values are multiples.

    Gives how many people are right, and how many sums were told.
    """
    rng, people = np.random.default_rng(1), len(values)
    sets, sums = [], []
    frame = pl.DataFrame({"id": np.arange(people), "x": values})
    with dc.StatisticalDatabase(frame, columns={"id": ID, "x": declared}, policy=TRUE) as database:
        for _ in range(2 * people):
            chosen = rng.random(people) < 0.5
            listed = ",".join(map(str, np.flatnonzero(chosen)))
            try:
                sums.append(database.ask(f"SELECT sum(x) FROM data WHERE id IN ({listed})").frame.item())
            except dc.QueryRefused:
                continue
            sets.append(chosen.astype(float))
    if len(sets) < people - 1:
        return 0, len(sets)
    left = np.linalg.svd(np.array(sets))[2][-1]
    start = np.linalg.lstsq(np.array(sets), np.array(sums), rcond=None)[0]
    at = int(np.argmax(np.abs(left)))
    found = [start + (c * unit - start[at]) / left[at] * left for c in range(101)]
    best = min(found, key=lambda guess: float(np.median(np.abs(guess / unit - np.rint(guess / unit)))))
    return int((np.abs(best - values) < 1e-3 * unit).sum()), len(sets)


@pytest.mark.parametrize("unit", [1 / 12, 0.45359237, 1 / 3, 1.0])
def test_who_knows_the_unit_reads_nobody_unless_the_owner_confirmed(unit: float) -> None:
    values = np.random.default_rng(0).integers(0, 101, N) * unit
    assert right_by_unit(values, NUMBER, unit) == (0, 0)
    right, told = right_by_unit(values, {**NUMBER, "whole": False}, unit)
    assert right == N and told >= N - 1, "what the confirmation means: it is told by --check, notes and documentation"


@pytest.mark.parametrize("declared", [{}, {"whole": True}, {"whole": True, "bounds": (0, 100)}])
def test_one_value_that_is_not_whole_changes_nothing(declared: dict[str, Any]) -> None:
    values = np.random.default_rng(3).integers(0, 101, N).astype(float)
    values[7] = values.mean() + 1 / 7
    assert right_by_unit(values, {**NUMBER, **declared}, 1.0) == (0, 0)


def test_answers_and_refusals_say_what_the_confirmation_means() -> None:
    frame = pl.DataFrame({"id": np.arange(N), "x": np.random.default_rng(0).random(N)})
    for declared, told in (({**NUMBER, "whole": False}, True), (NUMBER, False)):
        with dc.StatisticalDatabase(frame, columns={"id": ID, "x": declared}, policy=TRUE) as database:
            if told:
                answer = database.ask("SELECT sum(x) FROM data WHERE id < 20")
                assert any("a unit in which the values are whole" in note for note in answer.notes)
                assert any("everybody's value" in n for n in database.dry_run("SELECT sum(x) FROM data").notes)
            else:
                with pytest.raises(dc.QueryRefused, match=r"`whole: false`.*unit.*same value"):
                    database.ask("SELECT sum(x) FROM data WHERE id < 20")


@pytest.mark.parametrize("declared", [{}, {"bounds": (-1, 1_000_000)}, {"bounds": (-5, 2_000_000)}])
def test_the_most_frequent_value_decides_wherever_it_lies(declared: dict[str, Any]) -> None:
    """Two people with a code below hid that 85 % have the value 0."""
    rng = np.random.default_rng(0)
    values = pl.Series(np.where(rng.random(1200) < 0.85, 0, rng.integers(50, 900_000, 1200))).scatter([0, 1], -1)
    assert rule_of(ColumnSpec(role="sensitive", type="integer", **declared), values).rule == "none"
    spread = pl.Series(np.where(np.arange(1200) % 10 < 3, 0, np.arange(1200)))  # .3, and no more
    assert rule_of(ColumnSpec(role="sensitive", type="integer", **declared), spread).rule == "groups"


def test_values_beyond_a_bound_count_as_the_bound() -> None:
    values = pl.Series(range(100))
    assert rule_of(ColumnSpec(role="sensitive", type="integer", bounds=(0, 60)), values).rule == "none"
    assert rule_of(ColumnSpec(role="sensitive", type="integer", bounds=(0, 99)), values).rule == "groups"


def test_every_sensitive_column_has_a_rule_and_a_reason() -> None:
    frame = pl.DataFrame({"id": np.arange(N), "x": np.arange(N) / 7, "ill": [True, False] * 20, "where": ["a"] * N})
    columns = {
        "id": ID,
        "x": {**NUMBER, "whole": False},
        "ill": {"role": "sensitive", "type": "truth"},
        "where": {"role": "sensitive", "type": "category"},
    }
    with dc.StatisticalDatabase(frame, columns=columns, policy=TRUE) as database:
        found = database.rules("data")
    assert {name: rule for name, (rule, _) in found.items()} == {
        "x": "linear audit", "ill": "dp only", "where": "dp only",
    }  # fmt: skip
    assert "unit" in found["x"][1] and found["ill"][1] == "yes or no"
    with dc.StatisticalDatabase(frame, columns=columns, policy={"mode": "dp", "epsilon": 1}) as database:
        assert {rule for rule, _ in database.rules("data").values()} == {"dp only"}


def countries() -> tuple[pl.DataFrame, dict[str, Any]]:
    rng = np.random.default_rng(5)
    frame = pl.DataFrame(
        {
            "sex": rng.choice(["f", "m"], 400),
            "country": ["Tuvalu", *rng.choice(["Austria", "Italy", "Spain"], 399)],
            "income": rng.integers(0, 100_000, 400),
        }
    )
    public = {"role": "public", "type": "category"}
    return frame, {"sex": public, "country": public, "income": {"role": "sensitive", "type": "integer"}}


def test_a_refused_count_is_not_told_by_the_share_of_a_sum() -> None:
    frame, columns = countries()
    with dc.StatisticalDatabase(frame, columns=columns, policy={**TRUE, "min_query_size": 10}) as database:
        where = "WHERE country != 'Tuvalu'"
        with pytest.raises(dc.QueryRefused):
            database.ask(f"SELECT count(*) FROM data {where}")
        answer = database.ask(f"SELECT sum(income) AS s FROM data {where}")
        assert answer.share is not None and answer.covered is not None
        assert answer.share.item() is None and answer.covered.item() % 1 == 0
        assert not any("%" in note for note in answer.notes)
        allowed = database.ask("SELECT sum(income) AS s FROM data WHERE country != 'Spain'")
        assert allowed.share is not None and 0 < allowed.share.item() <= 1
        for figures in ("count(*)", "sum(income)", "count(*), sum(income)"):
            grouped = database.ask(f"SELECT country, {figures} FROM data GROUP BY country")
            assert grouped.frame["country"].to_list() == ["Austria", "Italy", "Spain"]


@pytest.mark.parametrize(
    ("people", "kind", "size"),
    [
        (60, "whole", 12),
        pytest.param(400, "whole", 5, marks=pytest.mark.slow),
        pytest.param(200, "centered", 5, marks=pytest.mark.slow),
    ],
)
def test_all_perturbed_answers_about_one_person_leave_half_of_the_spread(people: int, kind: str, size: int) -> None:
    """Pairs of a set with and without somebody, averaged: however many people, 24 figures and no more."""
    errors = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        values = rng.integers(0, 101, people).astype(float) if kind == "whole" else rng.normal(0, 1, people)
        frame = pl.DataFrame({"id": np.arange(people), "x": values})
        differences: list[float] = []
        with (
            dc.StatisticalDatabase(
                frame, columns={"id": ID, "x": NUMBER}, policy={"mode": "perturbed"}, ledger=":memory:"
            ) as database,
            pytest.raises(dc.QueryRefused, match="more than 24 figures"),
        ):
            for _ in range(people):
                others = ",".join(map(str, 1 + rng.choice(people - 1, size, replace=False)))
                told = [
                    database.ask(f"SELECT sum(x) FROM data WHERE id IN ({listed})").frame.item()
                    for listed in (f"{others},0", others)
                ]
                differences.append(told[0] - told[1])
        assert len(differences) == 12
        errors.append((np.mean(differences) - values[0]) / values.std())
    assert np.sqrt(np.mean(np.square(errors))) > 0.5  # about 1; keys are drawn anew in each run


def likeness(frame: pl.DataFrame) -> dict[str, Any]:
    kinds = {pl.String: "category", pl.Int64: "integer", pl.Float64: "number"}
    columns = {name: {"role": "sensitive", "type": kinds[type(kind)]} for name, kind in frame.schema.items()}
    with_backend = open_backend([TableSpec(name="t", columns=columns)], {"t": frame})
    try:
        return signs(with_backend, "t", b"k" * 32)
    finally:
        with_backend.close()


def test_columns_are_known_again_by_order_and_by_most_of_their_values() -> None:
    frame, _ = countries()
    frame = frame.with_columns(pay=np.random.default_rng(2).random(400).round(6))
    known, other = likeness(frame), np.random.default_rng(3)
    assert alike(likeness(frame.select(land="country")), known) == ("land", "country")
    mixed = frame.sample(fraction=1.0, shuffle=True, seed=1)
    assert alike(likeness(mixed.select("sex", "country")), known) is None  # few values in another order tell nothing
    assert alike(likeness(mixed.select(wage="pay")), known) == ("wage", "pay")
    assert alike(likeness(mixed.head(300).select(wage="pay")), known) == ("wage", "pay")
    assert alike(likeness(mixed.head(100).select(wage="pay")), known) is None
    fresh = frame.with_columns(
        pl.Series("sex", other.choice(["f", "m"], 400)),
        pl.Series("country", other.choice(["Austria", "Italy", "Spain"], 400)),
        pl.Series("income", other.integers(0, 100_000, 400)),
        pl.Series("pay", other.random(400).round(6)),
    )
    assert alike(likeness(fresh), known) is None
    assert alike(likeness(frame.sort("sex").select("sex")), likeness(fresh.sort("sex").select("sex"))) is None


@pytest.mark.parametrize("change", ["renamed columns", "some columns", "shuffled", "rows gone", "a row more"])
def test_a_table_of_the_ledger_is_known_again_by_any_column(tmp_path: Path, change: str) -> None:
    frame, _ = countries()
    frame = frame.with_columns(pay=np.random.default_rng(2).random(400).round(6))
    changed = {
        "renamed columns": frame.rename({name: f"{name}_x" for name in frame.columns}),
        "some columns": frame.select("country"),
        "shuffled": frame.sample(fraction=1.0, shuffle=True, seed=1),
        "rows gone": pl.concat([frame.head(50), frame.tail(330)]),
        "a row more": pl.concat([frame, frame.tail(1)]).select("sex"),
    }[change]
    policy = {"mode": "dp", "epsilon": 1.0}

    def start(name: str, data: pl.DataFrame, **options: Any) -> None:
        kinds = {pl.String: "category", pl.Int64: "integer", pl.Float64: "number"}
        columns = {c: {"role": "sensitive", "type": kinds[type(kind)]} for c, kind in data.schema.items()}
        dc.StatisticalDatabase(
            data, table=name, columns=columns, policy=policy, ledger=tmp_path / "ledger.db", **options
        ).close()

    start("first", frame)
    with pytest.raises(dc.PlanError, match=r"'second' holds the values .* of the table 'first'.*people: NAME"):
        start("second", changed)
    start("second", changed, people="first people")
    rng = np.random.default_rng(9)
    start("third", pl.DataFrame({"sex": rng.choice(["f", "m"], 400), "pay": rng.random(400)}))


@pytest.mark.parametrize("declared", [{"type": "integer"}, {"type": "number", "whole": True}])
@pytest.mark.parametrize("bounds", [(0, 100), (0, 290), (-3, 7), (0, 10.5)])
def test_quantiles_of_whole_numbers_are_whole(declared: dict[str, Any], bounds: tuple[float, float]) -> None:
    column = ColumnSpec(role="sensitive", bounds=bounds, **declared)
    told = [value_of_step(column, step) for step in range(column.grid)]
    assert all(value.is_integer() and bounds[0] <= value <= bounds[1] for value in told) and told == sorted(told)
    borders = column.candidates()
    for step, value in enumerate(told):
        within = [
            k
            for k in range(-3, int(bounds[1]) + 1)
            if borders[step] <= k and (k < borders[step + 1] or step == column.grid - 1)
        ]
        assert not within or value == within[0], "a step with a whole number in it tells it"


@pytest.mark.parametrize("name", ["epsilon", "error", "records"])
def test_true_is_no_amount(name: str) -> None:
    frame, columns = countries()
    with dc.StatisticalDatabase(frame, columns=columns, policy={"mode": "dp", "epsilon": 5.0}) as database:
        with pytest.raises(dc.QueryRefused, match="not true or false"):
            database.ask("SELECT count(*) FROM data", **{name: True})
        assert database.budget()[0].spent.micro_epsilon == 0
    with pytest.raises(dc.PlanError, match="epsilon"):
        dc.StatisticalDatabase(frame, columns=columns, policy={"mode": "dp", "epsilon": True})
