"""Membership by shadow generators: leaks are found, what does not depend on anybody is not taken for one."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.method import Decision, Method
from discretion.risk.attribute.membership import _interval

COLUMNS = ["a", "b", "c", "d", "e", "f"]


def people(rows: int = 400, levels: int = 12) -> dc.Dataset:
    rng = np.random.default_rng(5)
    frame = pl.DataFrame({name: [f"v{v}" for v in rng.integers(0, levels, rows)] for name in COLUMNS})
    return dc.Dataset(frame, roles=dict.fromkeys(COLUMNS, "quasi"))


class Leak(Method):
    """Copy some columns of true people, and draw the others from nowhere."""

    copied: tuple[str, ...] = ()
    share: float = 1.0
    copies: int = 1

    def rewrite(self, data: dc.Dataset, decision: Decision, ctx: dc.Context) -> dc.Dataset:
        parts = []
        for number in range(self.copies):
            rng = ctx.within(str(number)).rng
            rows = np.flatnonzero(rng.random(len(data)) < self.share) if self.copied else np.arange(len(data))
            drawn = {
                name: data.frame[name][rows]
                if name in self.copied
                else pl.Series([f"v{v}" for v in rng.integers(0, 12, len(rows))])
                for name in data.columns
            }
            parts.append(pl.DataFrame(drawn))
        return data.with_new_rows(pl.concat(parts))


def test_a_file_that_depends_on_nobody_tells_nothing() -> None:
    found = dc.GeneratorMembership(generator=Leak())(people(), people())
    assert found.value < 0.03
    assert found.detail["auc_interval"][0] < 0.5 < found.detail["auc_interval"][1] + 0.01


def test_three_copied_columns_are_found_though_no_row_is_near_anybody() -> None:
    data = people()
    leak = Leak(copied=("a", "c", "e"))
    made = leak(data, seed=1)
    rows = set(made.frame.select(COLUMNS).rows())
    assert np.mean([row in rows for row in data.frame.rows()]) < 0.02
    found = dc.GeneratorMembership(generator=leak)(data, data)
    assert found.value > 0.3 and found.detail["rates"]["all"]["0.001"]["share"] > 0.1


def test_the_steps_that_made_a_release_are_attacked() -> None:
    data = people()
    release = Leak(copied=tuple(COLUMNS))(data, seed=1)
    assert dc.GeneratorMembership()(data, release).value > 0.9


def test_all_copies_together_tell_more_than_one() -> None:
    one, five = (
        dc.GeneratorMembership(generator=Leak(copied=tuple(COLUMNS), share=0.15, copies=m))(people(), people()).value
        for m in (1, 5)
    )
    assert five > 1.5 * one


def test_a_person_who_is_unlike_all_others_is_the_most_exposed() -> None:
    data = people(levels=2)
    rare = data.frame.with_columns(pl.when(pl.int_range(pl.len()) == 7).then(pl.lit("odd")).otherwise("a").alias("a"))
    found = dc.GeneratorMembership(generator=Leak(copied=("a", "b", "c")), columns=COLUMNS)(rare, rare)
    assert found.per_record is not None and int(np.argmax(found.per_record)) == 7


def test_rows_of_a_unit_come_and_go_together() -> None:
    frame = people().frame.with_columns(pl.Series("who", np.arange(400) // 8))
    data = dc.Dataset(frame, roles={"who": "unit", **dict.fromkeys(COLUMNS, "quasi")})
    found = dc.GeneratorMembership(generator=Leak(copied=("a", "b", "c")), columns=COLUMNS)(data, data)
    assert found.detail["members"] == found.detail["non_members"]
    with pytest.raises(dc.DataError, match="too few"):
        small = dc.Dataset(frame.with_columns(who=pl.col("who") // 2), roles={"who": "unit"})
        dc.GeneratorMembership(generator=Leak(), columns=COLUMNS)(small, small)


def test_people_drawn_at_random_stand_for_all_of_large_data() -> None:
    data = people(600)
    leak = Leak(copied=("a", "c", "e"))
    found = dc.GeneratorMembership(generator=leak, sample=300)(data, data)
    low, high = found.detail["interval"]
    assert found.detail["people_tested"] == 300 and found.detail["members"] == 16 * 150 and found.per_record is None
    assert low < found.value < high and found.value > 0.3 and "300 people drawn from all" in found.meaning
    whole = dc.GeneratorMembership(generator=leak, sample=600)(data, data)
    assert whole.per_record is not None and "drawn from all" not in whole.meaning


def test_the_interval_holds_guessing_where_nothing_leaks() -> None:
    """95 % intervals: of 12, one or two may miss."""
    rng = np.random.default_rng(6)
    scores = rng.normal(size=(12, 16, 400)) + rng.normal(size=400)  # what is peculiar to people, not to members
    seen = np.repeat(np.argsort(rng.random((12, 8, 400)), axis=2) < 200, 2, axis=1)
    seen[:, 1::2] ^= True
    found = [_interval(one, who, np.arange(400)) for one, who in zip(scores, seen, strict=True)]
    assert sum(low <= 0.01 <= high for low, high in found) >= 10 and max(high for _, high in found) < 0.03
