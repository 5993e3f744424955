"""No table that holds gives a cell away: every claim is attacked by linear programs that share nothing with the audit.

The attacker has the published files (codes, values, gaps), knows which combinations of codes occur, and what a
respondent knows of itself. Who is sensitive, and how much room each needs, is computed here from the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.optimize import linprog

import discretion as dc

ENGINES = ("elimination", "levels", "optimal")
MINIMUM, RANGE = 3, 0.30
PERCENT = 0.10
TOTAL = "Total"


@dataclass
class World:
    """The records, and everything that was published about them."""

    data: pl.DataFrame
    value: str | None
    variables: list[str]
    equations: list[tuple[np.ndarray, float]] = field(default_factory=list)
    listed: list[np.ndarray] = field(default_factory=list)
    """groups of each count that a table lists, published or not: somebody is in it"""

    def __post_init__(self) -> None:
        self.groups = self.data.group_by(self.variables, maintain_order=True).agg(pl.len())
        self.place = {row[:-1]: i for i, row in enumerate(self.groups.iter_rows())}
        self.of_row = np.array([self.place[row] for row in self.data.select(self.variables).iter_rows()])
        self.amount = np.ones(len(self.data)) if self.value is None else self.data[self.value].to_numpy().astype(float)
        self.firm = self.data["firm"].to_numpy()
        self.truth = np.bincount(self.of_row, self.amount, len(self.place))
        self.people = np.array([len(np.unique(self.firm[self.of_row == i])) for i in range(len(self.place))])

    def inside(self, codes: dict[str, str]) -> np.ndarray:
        """Tell which groups have these codes."""
        hit = np.ones(len(self.place), bool)
        for name, code in codes.items():
            if code != TOTAL:
                hit &= (self.groups[name] == code).to_numpy()
        return hit

    def read(self, table: pl.DataFrame, by: Sequence[str], name: str, *, earlier: bool = False) -> None:
        """Write down what a published table says; of an earlier one not that somebody is in each listed cell."""
        for row in table.iter_rows(named=True):
            groups = self.inside({v: row[v] for v in by})
            if row[name] is not None:
                self.equations.append((groups, float(row[name])))
            if self.value is None and not earlier:
                self.listed.append(groups)

    def respondents(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Give what each respondent knows: groups that are all its own, and what it has in others."""
        seen = set()
        for firm in np.unique(self.firm).tolist():
            mine = np.bincount(self.of_row, np.where(self.firm == firm, self.amount, 0.0), len(self.place))
            there = np.bincount(self.of_row, self.firm == firm, len(self.place)) > 0
            known = there & (self.people == 1)
            if (key := (known.tobytes(), mine.tobytes())) not in seen:
                seen.add(key)
                yield known, mine

    def bounds(
        self, target: np.ndarray, known: np.ndarray, floor: np.ndarray, *, published: bool = True
    ) -> tuple[float, float]:
        """Give the least and the largest sum over the groups of a target, also were nothing published."""
        equations = self.equations if published else []
        A = np.array([row for row, _ in equations], float).reshape(-1, len(self.truth))
        b = np.array([value for _, value in equations])
        some = {"A_ub": -np.array(self.listed, float), "b_ub": -np.ones(len(self.listed))} if self.listed else {}
        box = [(t, t) if k else (f, None) for t, k, f in zip(self.truth, known, floor, strict=True)]
        ends = []
        for sign in (1.0, -1.0):
            found = linprog(sign * target, A_eq=A if len(A) else None, b_eq=b if len(A) else None, bounds=box, **some)
            assert found.status in (0, 3), found.message
            ends.append(-sign * np.inf if found.status == 3 else sign * found.fun)
        return ends[0], ends[1]

    def need(self, target: np.ndarray) -> float:
        """Give the room a sum of groups needs on each side; 0 where it is not sensitive."""
        rows = target[self.of_row] > 0
        if not rows.any():
            return 0.0
        parts = pl.DataFrame({"f": self.firm[rows], "x": self.amount[rows]}).group_by("f").agg(pl.col("x").sum())
        if self.value is None:
            few = len(parts) < MINIMUM
            return max(RANGE * float(self.truth @ target), 1.0) if few else 0.0
        top = parts["x"].sort(descending=True).to_list()
        return max(PERCENT * top[0] - sum(top[2:]), 0.0)

    def fails(self, target: np.ndarray, *, respondents: bool = True) -> bool:
        """Tell whether somebody comes nearer to a sum than allowed."""
        need, value = self.need(target), float(self.truth @ target)
        slack = 1e-6 * max(value, 1.0)
        if need <= slack:
            return False
        nobody = (np.zeros(len(self.truth), bool), np.zeros(len(self.truth)))
        for known, mine in (nobody, *self.respondents()) if respondents else (nobody,):
            if not (target.astype(bool) & ~known).any():
                continue  # all its own
            low, high = self.bounds(target.astype(float), known, mine)
            rest = value - self.bounds(target.astype(float), known, mine, published=False)[0]
            if value - low < min(need, rest) - slack or high - value < need - slack:
                return True
        return False

    def exactly(self, target: np.ndarray) -> bool:
        """Tell whether readers find a sum exactly."""
        none = np.zeros(len(self.truth))
        low, high = self.bounds(target.astype(float), none > 0, none)
        return high - low < 1e-6


def cuts(world: World, one: Sequence[str], other: Sequence[str], layer: dict[str, str]) -> Iterator[np.ndarray]:
    """Give every difference of codes of two divisions that leaves groups of one sign, by going through all of them."""
    here = world.inside(layer)
    left = world.groups.select(one).unique(maintain_order=True).rows()
    right = world.groups.select(other).unique(maintain_order=True).rows()
    a = np.array([left.index(row) for row in world.groups.select(one).rows()])
    b = np.array([right.index(row) for row in world.groups.select(other).rows()])
    for chosen in product((0, 1), repeat=len(left) + len(right)):
        pick = np.array(chosen)
        sign = (pick[a] - pick[len(left) + b]) * here
        if sign.any() and (sign >= 0).all():
            yield sign


def bonds_below(world: World, found: Iterator[np.ndarray]) -> list[np.ndarray]:
    """Keep the differences of few people that contain no other one."""
    small = {cut.tobytes(): cut for cut in found if cut @ world.people < MINIMUM}
    return [cut for cut in small.values() if not any((c <= cut).all() and (c != cut).any() for c in small.values())]


def held(cells: dc.Cells, engine: str) -> dc.Cells | None:
    """Protect a table; nothing where it cannot be or does not hold."""
    try:
        done = cells.suppress(engine)
    except dc.Infeasible:
        return None
    return done.cells if done.holds else None


def people(rng: np.random.Generator, firms: bool) -> pl.DataFrame:
    """Give records in two divisions that agree for most of them."""
    n = int(rng.integers(14, 40))
    town = rng.integers(0, rng.integers(2, 4), n)
    grid = np.where(rng.random(n) < 0.85, town, rng.integers(0, 3, n))
    return pl.DataFrame(
        {
            "town": np.array(list("abc"))[town],
            "grid": np.array(list("ghi"))[grid],
            "ill": rng.choice(["y", "n"], n, p=[0.4, 0.6]),
            "x": np.ceil(rng.lognormal(3, 1, n)),
            "firm": rng.integers(0, max(n // 2, 8), n) if firms else np.arange(n),
        }
    )


def every_cell(world: World, tables: Sequence[Sequence[str]]) -> Iterator[np.ndarray]:
    """Give the groups of every cell of the tables."""
    for by in tables:
        choices = [[TOTAL, *world.groups[name].unique(maintain_order=True).to_list()] for name in by]
        for codes in product(*choices):
            yield world.inside(dict(zip(by, codes, strict=True)))


def attacked(
    seed: int, engine: str, *, value: str | None, firms: bool, tables: list[list[str]], rule: Any
) -> tuple[World, dc.Cells] | None:
    """Make a random table, protect it, and give it with its readers' view if it holds."""
    data = people(np.random.default_rng(seed), firms)
    by: Any = tables if len(tables) > 1 else tables[0]
    made = dc.tabulate(data, by, value, contributor="firm").apply_rules([rule])
    cells = held(made, engine)
    if cells is None:
        return None
    world = World(data, value, list(dict.fromkeys(name for table in tables for name in table)))
    world.read(cells.frame(), world.variables, value or "count")
    return world, cells


CASES: dict[str, dict[str, Any]] = {
    "one table of counts": {"value": None, "firms": False, "tables": [["town", "ill"]]},
    "one table of amounts": {"value": "x", "firms": True, "tables": [["town", "grid"]]},
    "two tables of counts": {"value": None, "firms": False, "tables": [["town", "ill"], ["grid", "ill"]]},
    "two tables of amounts": {"value": "x", "firms": True, "tables": [["town", "ill"], ["grid", "ill"]]},
}


@pytest.mark.parametrize("seeds", [4, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", CASES)
def test_no_table_that_holds_gives_a_cell_away(case: str, engine: str, seeds: int) -> None:
    options = CASES[case]
    rule = dc.Threshold(minimum=MINIMUM) if options["value"] is None else dc.PPercent(percent=100 * PERCENT)
    tried = sensitive = 0
    for seed in range(seeds):
        found = attacked(seed, engine, rule=rule, **options)
        if found is None:
            continue
        world, _ = found
        tried += 1
        for target in every_cell(world, options["tables"]):
            sensitive += world.need(target) > 0
            assert not world.fails(target), (case, engine, seed)
        if len(options["tables"]) == 2 and options["value"] is None:
            for code in (TOTAL, "y", "n"):
                for cut in bonds_below(world, cuts(world, ["town"], ["grid"], {"ill": code})):
                    assert not world.fails(cut), (case, engine, seed, "a difference")
            for group in np.eye(len(world.truth), dtype=int)[world.people < MINIMUM]:
                assert not world.exactly(group), (case, engine, seed, "a group of people")
    assert tried >= (1 if engine == "elimination" else 2)  # which more often says that a table does not hold
    assert sensitive >= 2


def second_year(data: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Let one person leave, one arrive and one move."""
    stay = data.filter(pl.col("firm") != int(rng.integers(len(data))))
    new = people(rng, firms=False).head(1).with_columns(firm=pl.lit(1000, pl.Int64))
    moved = int(stay["firm"][0])
    town = pl.when(pl.col("firm") == moved).then(pl.lit("b")).otherwise("town").alias("town")
    return pl.concat([stay.with_columns(town), new])


@pytest.mark.parametrize("seeds", [4, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("engine", ENGINES)
def test_no_second_table_gives_a_cell_of_the_first_away(engine: str, seeds: int) -> None:
    tried = 0
    rule = dc.Threshold(minimum=MINIMUM)
    for seed in range(seeds):
        data = people(np.random.default_rng(100 + seed), firms=False)
        first = held(dc.tabulate(data, ["town", "ill"]).apply_rules([rule]), "levels")
        if first is None:
            continue
        second = held(dc.tabulate(data, ["grid", "ill"], previous=[first]).apply_rules([rule]), engine)
        if second is None:
            continue
        tried += 1
        world = World(data, None, ["town", "ill", "grid"])
        world.read(first.frame(), ["town", "ill"], "count", earlier=True)
        world.read(second.frame(), ["grid", "ill"], "count")
        for target in every_cell(world, [["town", "ill"], ["grid", "ill"]]):
            assert not world.fails(target), (engine, seed)
        for code in (TOTAL, "y", "n"):
            for cut in bonds_below(world, cuts(world, ["town"], ["grid"], {"ill": code})):
                assert not world.fails(cut), (engine, seed, "a difference")
    assert tried >= 2


@pytest.mark.parametrize("seeds", [4, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("engine", ENGINES)
def test_no_table_of_the_next_year_gives_away_who_came_or_left(engine: str, seeds: int) -> None:
    tried = changes = 0
    rule = dc.Threshold(minimum=MINIMUM)
    for seed in range(seeds):
        rng = np.random.default_rng(200 + seed)
        data = people(rng, firms=False)
        later = second_year(data, rng)
        first = held(dc.tabulate(data, ["town", "ill"]).apply_rules([rule]), "levels")
        if first is None:
            continue
        before = dc.tables.Previous.matched(first, data, data["firm"].to_list(), later["firm"].to_list())
        second = held(dc.tabulate(later, ["town", "ill"], previous=[before]).apply_rules([rule]), engine)
        if second is None:
            continue
        tried += 1
        both = data.select("firm", "town", "ill").join(
            later.select("firm", "town", "ill"), on="firm", how="full", suffix="_now", coalesce=True
        )
        world = World(both.fill_null("nobody"), None, ["town", "ill", "town_now", "ill_now"])
        for table, end in ((first, ""), (second, "_now")):
            for row in table.frame().iter_rows(named=True):
                if row["count"] is not None:
                    hit = world.inside({f"town{end}": row["town"], f"ill{end}": row["ill"]})
                    there = (world.groups[f"town{end}"] != "nobody").to_numpy()
                    world.equations.append((hit & there, float(row["count"])))
        for group in np.eye(len(world.truth), dtype=int)[world.people < MINIMUM]:
            changes += 1
            assert not world.exactly(group), (engine, seed)
    assert tried >= 2
    assert changes >= 5


def test_the_attack_of_this_file_finds_what_an_unprotected_table_gives_away() -> None:
    data = people(np.random.default_rng(1), False)
    cells = dc.tabulate(data, [["town", "ill"], ["grid", "ill"]]).apply_rules([dc.Threshold(minimum=MINIMUM)])
    world = World(data, None, ["town", "ill", "grid"])
    world.read(cells.frame(), world.variables, "count")
    assert any(world.fails(target) for target in every_cell(world, [["town", "ill"], ["grid", "ill"]]))
