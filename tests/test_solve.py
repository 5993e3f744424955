"""Programs that stay in the solver: the unit of a table changes nothing, and directions without end are checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_array

import discretion as dc
from discretion.errors import DiscretionError
from discretion.solve import LARGEST, LinearProgram, power_above
from discretion.tables.cells import Cells


def table(seed: int, unit: float) -> Cells:
    rng = np.random.default_rng(seed)
    n = 200
    firms = pl.DataFrame(
        {
            "area": rng.choice(list("abcde"), n),
            "branch": rng.choice(list("uvwxy"), n),
            "turnover": unit * np.round(rng.lognormal(3, 1.5, n), 2),
        }
    )
    rules = [dc.PPercent(percent=15), dc.Threshold(minimum=3)]
    return dc.tabulate(firms, ["area", "branch"], "turnover").apply_rules(rules)


@pytest.mark.parametrize("engine", ["levels", "optimal", "elimination"])
@pytest.mark.parametrize("seed", [0, 2, 3])
def test_patterns_do_not_depend_on_the_unit(seed: int, engine: str) -> None:
    plain = table(seed, 1.0).suppress(engine).cells.suppressed
    for unit in (2.0**-7, 2.0**17, 2.0**20, 2.0**30):
        assert np.array_equal(table(seed, unit).suppress(engine).cells.suppressed, plain)


@pytest.mark.parametrize("seed", range(4))
def test_the_audit_does_not_depend_on_the_unit(seed: int) -> None:
    hidden = table(seed, 1.0).suppress("optimal", respondents=False).cells.suppressed
    found = []
    for unit in (1.0, 2.0**17, 2.0**30):
        cells = table(seed, unit)
        audit = cells.with_status(secondary=hidden & ~cells.primary).audit(attacker="contributors")
        found.append(audit.status.tolist())
    assert found[0] == found[1] == found[2]


def test_a_published_table_of_billions_is_audited() -> None:
    """The values that are missing are found as those of some possible table."""
    for unit in (1.0, 2.0**30):
        cells = table(2, unit).suppress("optimal").cells
        shown = cells.frame().with_columns(
            pl.when(cells.suppressed).then(None).otherwise("turnover").alias("turnover"),
            pl.Series("status", np.where(cells.primary, "u", np.where(cells.suppressed, "x", ""))),
        )
        read = dc.tables.from_cells(shown, ["area", "branch"], "turnover", status="status")
        assert read.audit().counts["disclosed"] == 0


def test_units() -> None:
    assert power_above(np.array([3.0, -7.0, np.inf])) == 1
    assert power_above(np.array([])) == 1
    assert power_above(np.array([-LARGEST * 5])) == 8


def square() -> LinearProgram:
    """Give x + y = 0 and y + z = 0 where x and z are at least −1 and all is in billions."""
    rows = csr_array(np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]))
    low, high = np.array([-1e12, -np.inf, -1e12]), np.full(3, np.inf)
    return LinearProgram(rows, (low, high), (np.zeros(2), np.zeros(2)), np.zeros(3), primal=True)


def test_farthest_and_endless() -> None:
    program = square()
    found, endless = program.farthest(np.array([0.0, 1.0, 0.0]))
    assert not endless and found == pytest.approx([-1e12, 1e12, -1e12])
    assert program.missed(found) < 1e-9 * program.unit
    found, endless = program.farthest(np.array([1.0, 0.0, 0.0]))
    assert endless and found[0] > 0 and found[0] == pytest.approx(-found[1]) == pytest.approx(found[2])


@pytest.mark.parametrize(
    "ray", [[1.0, 1.0, -1.0], [-1.0, 1.0, -1.0], [1.0, -1.0, 0.5], [0.0, 0.0, 0.0], [np.nan, 1.0, 1.0]]
)
def test_a_direction_must_keep_sums_and_bounds(ray: list[float]) -> None:
    program = square()
    assert program._is_endless(np.array([2.0, -2.0, 2.0]))
    assert not program._is_endless(np.array(ray))


def test_bounds_and_costs_change() -> None:
    program = LinearProgram(
        csr_array(np.array([[1.0, 1.0]])),
        (np.zeros(2), np.full(2, 1e10)),
        (np.full(1, 1e10),) * 2,
        np.array([1.0, 2.0]),
    )
    assert program.solve_checked() and program.values == pytest.approx([1e10, 0.0])
    program.price(np.array([0]), np.array([3.0]))
    assert program.solve_checked() and program.values == pytest.approx([0.0, 1e10])
    program.bound(np.array([1]), np.zeros(1), np.array([4e9]))
    assert program.solve_checked() and program.values == pytest.approx([6e9, 4e9])
    extra = program.add_row(np.array([0]), np.ones(1))
    program.bound_row(extra, -np.inf, 5e9)
    assert not program.solve_checked()
    program.bound_row(extra, -np.inf, np.inf)
    assert program.settle()


def test_what_cannot_be_solved_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    program = square()
    monkeypatch.setattr(LinearProgram, "settle", lambda _: None)
    with pytest.raises(DiscretionError, match="could not be solved"):
        program.solve_checked()


@pytest.mark.parametrize("weight", ["relative", "equal"])
def test_adjustment_does_not_depend_on_the_unit(weight: Any) -> None:
    plain = table(0, 1.0).adjust(seed=1, spread_percent=0, weight=weight)
    for unit in (2.0**17, 2.0**30):
        found = table(0, unit).adjust(seed=1, spread_percent=0, weight=weight)
        assert found.cost == pytest.approx(
            plain.cost * (1 if weight == "relative" else unit), rel=0.06
        )  # the gap allowed


def test_a_program_that_is_not_done_in_time_moves_nothing_and_goes_on_later() -> None:
    """A hundred and fifty suppressed rows and columns: the deviations of the cells add up to 0 everywhere."""
    size = 150
    rows, columns = np.divmod(np.arange(size * size), size)
    entries = (np.ones(2 * size * size), (np.r_[rows, size + columns], np.tile(np.arange(size * size), 2)))
    sums = csr_array(entries, shape=(2 * size, size * size))
    ends, still = np.full(size * size, 5.0), np.zeros(2 * size)
    program = LinearProgram(sums, (-ends, ends), (still, still), np.zeros(size * size), primal=True)
    objective = np.random.default_rng(0).random(size * size)
    found, endless = program.farthest(objective, seconds=0.0)
    assert not found.any() and not endless
    best, _ = program.farthest(objective)
    assert objective @ best > 0 and program.missed(best) < 1e-6 and (np.abs(best) <= 5).all()
