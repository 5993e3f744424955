"""Durations and times of day are computed with or refused in words; no error prints what stands in a person's cell."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.errors import DiscretionError
from discretion.method import Method
from discretion.part import Part, all_parts

from .samples import HIERARCHY, ROLES, fields_for, frame

PARTS = all_parts("method", "model", "risk", "utility")
KINDS = {"duration": pl.Duration("ms"), "time": pl.Time()}
WORD, NUMBER = "Zyxomma-of-nobody", 7731004.625


def use(part: Part, original: dc.Dataset, released: dc.Dataset) -> None:
    """Run a part of any family."""
    call: object = part
    if isinstance(part, Method):
        part(released, seed=1)
    elif getattr(part, "needs", "released") == "both":
        call(original, released)  # type: ignore[operator]
    else:
        call(released)  # type: ignore[operator]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", PARTS, ids=[part.kind for part in PARTS])
def test_durations_and_times_are_computed_with_or_refused_in_words(part: type[Part], kind: str, key_file: str) -> None:
    moments = (pl.col("hours").cast(pl.Int64) * (60_000 if kind == "duration" else 60_000_000_000)).cast(KINDS[kind])
    table = frame().with_columns(moments.alias("hours"), moments.reverse().alias("income"))
    moved = table.with_columns(pl.col("hours").gather(np.random.default_rng(1).permutation(60)))
    data = [dc.Dataset(one, roles=ROLES, hierarchies={"region": HIERARCHY}) for one in (table, moved)]
    try:
        use(part(**fields_for(part, key_file)), *data)
    except DiscretionError as error:
        assert "income" in str(error) or "hours" in str(error) or "original" in str(error)


@pytest.mark.parametrize("part", PARTS, ids=[part.kind for part in PARTS])
def test_no_error_prints_a_cell(part: type[Part], key_file: str) -> None:
    made = part(**fields_for(part, key_file))
    # a rule makes the levels from the data: their values are people's, and errors may not name them
    rule = dc.Hierarchy.groups({"north": ["a", "b"], "south": ["c", "d"]})
    original = dc.Dataset(frame(), roles=ROLES, hierarchies={"region": rule})
    written = "item_hierarchy" in part.model_fields  # its sample lists the items: what the domain lacks may be named
    for name, value in (("region", WORD), ("income", NUMBER), ("hours", WORD)):
        if written and name == "region":
            continue
        column = frame()[name].to_list()
        column[5] = value
        odd = frame().with_columns(pl.Series(name, column, pl.Float64 if value == NUMBER else pl.String, strict=False))
        try:
            use(made, original, dc.Dataset(odd, roles=ROLES, hierarchies={"region": rule}))
        except DiscretionError as error:
            assert WORD not in str(error) and str(NUMBER) not in str(error), error
