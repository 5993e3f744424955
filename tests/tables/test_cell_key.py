"""The cell-key method: unbiased noise of given variance and largest entropy, the same wherever a cell is shown."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import discretion as dc
from discretion.errors import DataError, PlanError
from discretion.tables.cell_key import largest_entropy, perturbation_table


def entropy(p: np.ndarray) -> float:
    return float(-(p[p > 0] * np.log(p[p > 0])).sum())


@pytest.mark.parametrize(
    ("variance", "maximum", "forbidden", "stay"),
    [(2, 4, 0, None), (1, 3, 0, 0.4), (3, 5, 2, None), (0.5, 2, 0, None), (4.9, 5, 0, None), (7, 10, 0, 0.05)],
)
def test_every_row_has_mean_zero_and_the_variance(
    variance: float, maximum: int, forbidden: int, stay: float | None
) -> None:
    made = perturbation_table(variance, maximum, forbidden=forbidden, stay=stay)
    d, p = made.deviations, made.probability
    assert np.abs(p.sum(axis=1) - 1).max() < 1e-12 and p.min() >= 0
    assert np.abs(p @ d).max() < 1e-8 and np.abs(p[1:] @ (d * d) - variance).max() < 1e-8
    assert p[0, maximum] == 1
    for count, row in enumerate(p):
        results = (count + d)[row > 0]
        assert results.min() >= 0 and not np.isin(results, np.arange(1, forbidden + 1)).any()
        if stay is not None and count > forbidden:
            assert row[maximum] == pytest.approx(stay)


@settings(deadline=None, max_examples=80)
@given(st.integers(1, 4), st.integers(3, 7), st.floats(0.05, 0.95), st.integers(0, 10_000))
def test_no_other_law_has_more_entropy(count: int, maximum: int, place: float, seed: int) -> None:
    support = np.arange(-min(count, maximum), maximum + 1, dtype=float)
    variance = place * min(count, maximum) * maximum
    best = largest_entropy(support, variance)
    assert abs(best @ support) < 1e-8 and abs(best @ support**2 - variance) < 1e-8
    rng = np.random.default_rng(seed)
    basis = np.linalg.svd(np.vstack((np.ones_like(support), support, support**2)))[2][3:]
    for _ in range(20):
        step = rng.normal(size=len(basis)) @ basis  # keeps sum, mean and variance
        shrinking = step < 0
        room = (best[shrinking] / -step[shrinking]).min()
        other = best + rng.random() * room * step
        assert other.min() >= -1e-12 and abs(other @ support**2 - variance) < 1e-6
        assert entropy(np.maximum(other, 0)) <= entropy(best) + 1e-9


def test_mean_and_variance_are_met_far_below_the_root_of_the_precision() -> None:
    for count in range(1, 8):
        for maximum in range(count, 12):
            support = np.arange(-count, maximum + 1, dtype=float)
            for variance in np.linspace(0.02, 0.98, 13) * count * maximum:
                law = largest_entropy(support, variance)
                assert abs(law @ support) < 1e-9 and abs(law @ support**2 - variance) < 1e-9, (support, variance)


def test_the_border_of_what_is_possible() -> None:
    support = np.arange(-1, 6, dtype=float)
    law = largest_entropy(support, 5.0)  # only −1 and 5 reach it
    assert law[0] == pytest.approx(5 / 6) and law[-1] == pytest.approx(1 / 6) and np.abs(law[1:-1]).max() == 0
    with pytest.raises(PlanError, match="variance from 0 to 5"):
        largest_entropy(support, 5.1)
    with pytest.raises(PlanError, match="a count of 1"):
        perturbation_table(6, 5)
    with pytest.raises(PlanError, match="on one side"):
        perturbation_table(1, 2, forbidden=3)


def keyed(n: int = 4000, seed: int = 7) -> dc.Dataset:
    return dc.tables.with_record_keys(dc.datasets.census(n, seed=1), seed=seed)


def perturbed(data: dc.Dataset, by: list[str], **options: float) -> dc.Cells:
    cells = dc.tabulate(data, by, weight=False, record_key="record_key")
    return cells.perturb(**(options or {"variance": 2, "maximum": 5})).cells


def test_noise_has_the_moments_it_should() -> None:
    moved = []
    people = dc.datasets.census(1500, seed=1).frame.select("municipality", "sex")
    for seed in range(25):
        cells = perturbed(dc.tables.with_record_keys(people, seed=seed), ["municipality", "sex"])
        assert cells.status.released is not None
        change = cells.status.released - cells.value
        assert cells.status.released.min() >= 0 and np.abs(change).max() <= 5
        moved.append(change[cells.value > 0])
    noise = np.concatenate(moved)
    assert abs(noise.mean()) < 5 * np.sqrt(2 / len(noise)) and abs(noise.var() - 2) < 0.2


def test_the_same_cell_gets_the_same_noise_in_every_table() -> None:
    data = keyed()
    one, two = perturbed(data, ["region", "sex"]), perturbed(data, ["sex", "education"])
    linked = dc.tabulate(data, [["region", "sex"], ["sex", "education"]], weight=False, record_key="record_key")
    both = linked.perturb(variance=2, maximum=5).cells
    shuffled = perturbed(
        dc.Dataset(data.frame.sample(fraction=1.0, shuffle=True, seed=3), schema=data.schema), ["sex", "region"]
    )
    for code in ({"sex": "female"}, {"sex": "male"}, {}):
        values = {float(c.status.released[c.index(code)]) for c in (one, two, both, shuffled)}  # type: ignore[index]
        assert len(values) == 1
    for cell in range(len(one)):
        assert one.status.released[cell] == shuffled.status.released[shuffled.index(one.label(cell))]  # type: ignore[index]


def test_cells_that_differ_in_one_record_have_other_noise() -> None:
    data = keyed(3000)
    data = dc.Dataset(data.frame.select("sex", "record_key"))
    less = dc.Dataset(data.frame[1:])
    change = [
        c.status.released[0] - c.value[0]  # type: ignore[index]
        for c in (perturbed(dc.Dataset(data.frame[:k]), ["sex"]) for k in range(2000, 2015))
    ]
    assert len(set(change)) > 3
    one, two = perturbed(data, ["sex"]), perturbed(less, ["sex"])
    assert one.key is not None and two.key is not None and one.key[0] != two.key[0]


def test_totals_do_not_add_up_and_empty_cells_stay_empty() -> None:
    data = keyed()
    cells = dc.tabulate(data, ["municipality", "education"], weight=False, record_key="record_key", empty="keep")
    done = cells.perturb(variance=2, maximum=5).cells
    assert (done.status.released[cells.value == 0] == 0).all()  # type: ignore[index]
    assert done.loss()["largest_misfit"] > 0


def test_weighted_counts_change_in_proportion() -> None:
    data = keyed()
    cells = dc.tabulate(data, ["region", "sex"], weight="weight", record_key="record_key")
    done = cells.perturb(variance=2, maximum=5)
    plain = perturbed(data, ["region", "sex"])
    factor = np.where(plain.value > 0, plain.status.released / np.maximum(plain.value, 1), 1)
    assert done.cells.status.released == pytest.approx(cells.value * factor)


def test_sums_get_noise_of_the_size_of_the_largest_contributions() -> None:
    rng = np.random.default_rng(0)
    firms = pl.DataFrame({"s": rng.integers(0, 60, 1500), "x": np.ceil(rng.lognormal(3, 1.5, 1500))})
    pulls = []
    for seed in range(40):
        data = dc.tables.with_record_keys(firms, seed=seed)
        cells = dc.tabulate(data, ["s"], "x", record_key="record_key")
        done = cells.perturb(sd_percent=8, maximum_percent=30, contributions=2).cells
        change = done.status.released - cells.value  # type: ignore[operator]
        assert np.abs(change).max() <= 0.3 * cells.top[:, :2].sum(axis=1).max() + 1e-9
        assert done.status.released.min() >= 0  # type: ignore[union-attr]
        pulls.append(change / np.sqrt((cells.top[:, :2] ** 2).sum(axis=1)))
    pull = np.concatenate(pulls)
    assert abs(pull.mean()) < 5 * 0.08 / np.sqrt(len(pull)) and pull.std() == pytest.approx(0.08, rel=0.08)
    assert abs(np.corrcoef(np.array(pulls)[:, 3], np.array(pulls)[:, 8])[0, 1]) < 0.5


def test_keyed_hashes_do_not_depend_on_the_delivery(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(bytes(range(32)))
    people = dc.datasets.census(300, seed=1)
    whole = dc.tables.with_record_keys(people, by="person_id", key_file=key)
    part = dc.tables.with_record_keys(dc.Dataset(people.frame.reverse()[:50]), by="person_id", key_file=key)
    joined = part.frame.join(whole.frame.select("person_id", other="record_key"), on="person_id")
    assert joined.height == 50 and (joined["record_key"] == joined["other"]).all()
    other = tmp_path / "other"
    other.write_bytes(bytes(range(1, 33)))
    changed = dc.tables.with_record_keys(people, by="person_id", key_file=other).frame["record_key"]
    assert (changed != whole.frame["record_key"]).all()
    keys = whole.frame["record_key"].to_numpy()
    assert keys.min() >= 0 and keys.max() < 1 and abs(keys.mean() - 0.5) < 0.1


def test_bad_calls(tmp_path: Path) -> None:
    people = dc.datasets.census(50, seed=1)
    with pytest.raises(PlanError, match="record_key"):
        dc.tabulate(people, ["sex"], weight=False).perturb(variance=1, maximum=3)
    cells = dc.tabulate(keyed(50), ["sex"], weight=False, record_key="record_key")
    for options in ({}, {"variance": 1}, {"sd_percent": 5, "maximum_percent": 10}, {"variance": -1, "maximum": 3}):
        with pytest.raises(PlanError):
            cells.perturb(**options)
    sums = dc.tabulate(keyed(50), ["sex"], "income", weight=False, record_key="record_key")
    for options in ({}, {"variance": 1, "maximum": 3}, {"sd_percent": 20, "maximum_percent": 10}):
        with pytest.raises(PlanError):
            sums.perturb(**options)
    with pytest.raises(PlanError, match="contributions"):
        sums.perturb(sd_percent=5, maximum_percent=10, contributions=9)
    short = tmp_path / "key"
    short.write_bytes(b"abc")
    with pytest.raises(PlanError, match="16 bytes"):
        dc.tables.with_record_keys(people, by="person_id", key_file=short)
    with pytest.raises(DataError, match="several records"):
        dc.tables.with_record_keys(people, by="sex", key_file=Path(__file__))
    with pytest.raises(PlanError, match="key_file"):
        dc.tables.with_record_keys(people, by="sex")


def counted(counts: np.ndarray, seed: int = 0) -> dc.Cells:
    rng = np.random.default_rng(seed)
    rows = [place for place in np.ndindex(counts.shape) for _ in range(int(counts[place]))]
    frame = pl.DataFrame(rows, [f"v{j}" for j in range(counts.ndim)], orient="row")
    frame = frame.with_columns(key=pl.Series(rng.integers(0, 1 << 30, len(rows)) / 2.0**30))
    return dc.tabulate(frame, frame.columns[:-1], record_key="key")


def belief_in_truth(cells: dc.Cells, law: dc.tables.cell_key_table.PerturbationTable, cell: int) -> float:
    """Weigh all true tables of the cells in the sums of one cell, given everything shown of them."""
    shown = np.asarray(cells.status.released)
    sums = cells.relations()
    rows = [sums.row(row) for row in np.unique(sums.rows[sums.indices == cell])]
    weights: dict[float, float] = {}
    for true in range(int(shown[cell]) - law.maximum, int(shown[cell]) + law.maximum + 1):
        if true < 0:
            continue
        weight = probability(law, true, shown[cell])
        for row, members in zip(np.unique(sums.rows[sums.indices == cell]), rows, strict=True):
            others = [j for j in members.tolist() if j != cell]
            sign = dict(zip(members.tolist(), sums.data[sums.indptr[row] : sums.indptr[row + 1]].tolist(), strict=True))
            spans = [range(max(int(shown[j]) - law.maximum, 0), int(shown[j]) + law.maximum + 1) for j in others]
            weight *= sum(
                np.prod([probability(law, n, shown[j]) for n, j in zip(guess, others, strict=True)])
                for guess in product(*spans)
                if sum(sign[j] * n for n, j in zip(guess, others, strict=True)) + sign[cell] * true == 0
            )
        weights[true] = weight
    return weights.get(float(cells.value[cell]), 0.0) / sum(weights.values())


def probability(law: dc.tables.cell_key_table.PerturbationTable, true: int, shown: float) -> float:
    moved = int(shown) - true
    row = law.probability[min(true, len(law.probability) - 1)]
    return float(row[moved + law.maximum]) if abs(moved) <= law.maximum else 0.0


@pytest.mark.parametrize(("variance", "maximum"), [(0.05, 2), (0.7, 2), (1.5, 3)])
def test_what_an_attacker_believes_of_a_perturbed_count_is_what_enumeration_gives(
    variance: float, maximum: int
) -> None:
    from discretion.tables.audit import audit_perturbed

    cells = counted(np.array([[1, 4], [6, 2]])).apply_rules([dc.Threshold(minimum=3)])
    done = cells.perturb(variance=variance, maximum=maximum)
    found = audit_perturbed(done)
    assert done.table is not None and found.chance is not None
    assert found.chance == pytest.approx(
        [belief_in_truth(done.cells, done.table, cell) for cell in found.cell.tolist()]
    )
    assert (found.low <= cells.value[found.cell]).all() and (found.high >= cells.value[found.cell]).all()


def test_noise_that_changes_next_to_nothing_does_not_hold() -> None:
    from discretion.tables.audit import audit_perturbed

    rng = np.random.default_rng(3)
    cells = counted(rng.poisson(4, (6, 7))).apply_rules([dc.Threshold(minimum=4)])
    weak, strong = cells.perturb(variance=0.01, maximum=5), cells.perturb(variance=3, maximum=6)
    found = audit_perturbed(weak)
    assert (weak.cells.status.released == cells.value).mean() > 0.9
    assert not found.holds and found.chance is not None and found.chance.min() > 0.9
    assert audit_perturbed(weak, chance_percent=100).failing.size <= found.failing.size
    held = audit_perturbed(strong)
    assert held.holds and "law of the noise" in held.summary
    with pytest.raises(PlanError, match="chance_percent"):
        audit_perturbed(strong, chance_percent=0)


def test_how_closely_noise_on_sums_can_be_guessed() -> None:
    from discretion.tables.audit import audit_perturbed

    frame = pl.DataFrame({"s": list("aaabbbb"), "x": [80.0, 9, 1, 30, 30, 30, 10], "key": np.arange(7) / 7.3})
    cells = dc.tabulate(frame, ["s"], "x", record_key="key").apply_rules([dc.PPercent(percent=10)])
    assert cells.primary.tolist() == [False, True, False] and cells.upper_required[1] == 7
    for sd in (2.0, 20.0):
        done = cells.perturb(sd_percent=sd, maximum_percent=50)
        found = audit_perturbed(done)
        shown = np.asarray(done.cells.status.released)
        one, rest = 0.8 * sd, np.hypot(0.3 * sd, 0.8 * sd)  # noise of the cell; of the total less the other part
        weight = np.array([1 / one**2, 1 / rest**2])
        guess = (weight @ [shown[1], shown[0] - shown[2]]) / weight.sum()
        likely = norm.cdf([97, 83], guess, weight.sum() ** -0.5)
        assert found.chance is not None and found.chance[0] >= likely[0] - likely[1] - 1e-9
        assert found.chance[0] == pytest.approx(likely[0] - likely[1], abs=0.06)
        assert found.holds == (sd == 20.0)
