"""Numbers that count or measure, digits that name things, and text where numbers are needed."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import discretion as dc

FRAME = pl.DataFrame(
    {"zip": [8001, 8002, 8003, 9001] * 5, "age": list(range(20)), "v": [i % 7 * 1.5 for i in range(20)]}
)
ROLES = {"zip": "quasi", "age": "quasi", "v": "sensitive"}


def numbers(**schema: object) -> list[str]:
    """Name the columns that noise changes when nobody names columns."""
    data = dc.Dataset(FRAME, roles=ROLES, **schema)  # type: ignore[arg-type]
    released = dc.AdditiveNoise(variance_share=0.1)(data, seed=1)
    return [name for name in FRAME.columns if not released.frame[name].equals(FRAME[name])]


def test_codes_are_not_perturbed_unless_named() -> None:
    assert numbers() == ["zip", "age", "v"]
    assert numbers(hierarchies={"zip": dc.Hierarchy.masking()}) == ["age", "v"]
    assert numbers(types={"zip": "nominal"}) == ["age", "v"]
    assert numbers(hierarchies={"age": dc.Hierarchy.masking()}, types={"age": "continuous"}) == ["zip", "age", "v"]
    assert numbers(hierarchies={"age": dc.Hierarchy.intervals(width=5, levels=2)}) == ["zip", "age", "v"]
    data = dc.Dataset(FRAME, roles=ROLES, hierarchies={"zip": dc.Hierarchy.masking()})
    named = dc.RankSwap(columns=["zip"], percent=50)(data, seed=1)
    assert sorted(named.frame["zip"]) == sorted(FRAME["zip"]) and named.frame["zip"].dtype == pl.Int64


def test_codes_do_not_count_as_changes_of_numbers() -> None:
    data = dc.Dataset(FRAME, roles=ROLES, hierarchies={"zip": dc.Hierarchy.masking()})
    assert data.choose(None, "compare-numbers") == ("age", "v")
    assert data.choose(None, "compare") == ("zip", "age", "v")
    codes = dc.Dataset(FRAME[["zip"]], roles={"zip": "quasi"}, hierarchies={"zip": dc.Hierarchy.masking()})
    with pytest.raises(dc.PlanError, match="not codes"):
        dc.AdditiveNoise(variance_share=0.1)(codes)


def test_a_postal_code_of_a_csv_file_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("zip,v\n" + "".join(f"{80000 + i % 7},{i % 13}\n" for i in range(100)))
    data = dc.read(file, roles={"zip": "quasi", "v": "sensitive"}, hierarchies={"zip": dc.Hierarchy.masking()})
    released = dc.AdditiveNoise(variance_share=0.1)(data, seed=1)
    assert released.frame["zip"].equals(data.frame["zip"]) and not released.frame["v"].equals(data.frame["v"])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["1", "x", "3", None], "is text: 1 of its 3 values is no number; if they stand for missing values"),
        (["1", ".", "NA"], "is text: 2 of its 3 values are no numbers"),
        (["a", "b"], "is text; a numeric column is needed"),
        (["007", "012"], "all its values are digits, but some have leading zeros"),
        ([None], "is text; a numeric"),
    ],
)
def test_text_where_numbers_are_needed_is_counted_and_not_shown(values: list[str | None], words: str) -> None:
    data = dc.Dataset(pl.DataFrame({"a": values}, schema={"a": pl.String}))
    with pytest.raises(dc.DataError) as error:
        data.number("a")
    assert words in str(error.value)
    assert not any(f"'{value}'" in str(error.value) for value in values if value and value != "a")
    with pytest.raises(dc.DataError, match="column 'd' is date; a numeric column is needed"):
        dc.Dataset(pl.DataFrame({"d": ["2020-01-01"]}).with_columns(pl.col("d").str.to_date())).number("d")
