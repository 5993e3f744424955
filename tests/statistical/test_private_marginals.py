"""Private synthetic files keep their claim on neighboring data, and the checks find generators that do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

import discretion as dc
from discretion.method import Decision, Ran
from discretion.privacy.accounting import DiscreteGaussian
from discretion.protect.synthetic.private_marginals import PrivateMarginals
from tests.statistical.claims import DRAWS, epsilon_at_least

pytest.importorskip("opendp")

EPSILON, DELTA = 3.0, 0.01
"""a large δ: the tail of Gaussian noise, which a small δ is about, cannot be seen in 20,000 draws"""
ONE, TWO = {"a": ["x", "y"]}, {"a": ["x", "y"], "b": ["x", "y"]}
PEOPLE = pl.DataFrame({"a": ["x"] * 20 + ["y"] * 10, "b": ["x"] * 30})
ONE_MORE = pl.concat([PEOPLE, PEOPLE[:1]])
Figure = Callable[[Ran], float]


class HalfNoise(PrivateMarginals):
    """A generator that draws half the noise it claims."""

    def _noise(self) -> tuple[DiscreteGaussian, DiscreteGaussian | None]:
        one, two = super()._noise()
        less = [None if noise is None else DiscreteGaussian(noise.l2_squared, noise.rho * 4) for noise in (one, two)]
        return less[0] or one, less[1]


class DomainFromData(PrivateMarginals):
    """A generator that looks the categories up."""

    def run(self, data: dc.Dataset, ctx: dc.Context, saved: Decision | None = None) -> Ran:
        seen = {name: sorted(data.frame[name].unique()) for name in self.domain}
        return PrivateMarginals(**{**self.settings(), "domain": seen}).run(data, ctx, saved)


class NoBound(PrivateMarginals):
    """A generator that counts all rows of a person."""

    def _bounded(self, data: dc.Dataset) -> NDArray[np.bool_]:
        return np.ones(len(data), np.bool_)


class TrueNumber(PrivateMarginals):
    """A generator that writes as many rows as there are."""

    def rewrite(self, data: dc.Dataset, decision: Decision, ctx: dc.Context) -> dc.Dataset:
        return PrivateMarginals.rewrite(self.model_copy(update={"rows": len(data)}), data, decision, ctx)


def generator(kind: type[PrivateMarginals], domain: dict[str, Any], **more: Any) -> PrivateMarginals:
    return kind(epsilon=EPSILON, delta=DELTA, domain=domain, drop=[n for n in "ab" if n not in domain], **more)


def drawn(
    method: PrivateMarginals, frame: pl.DataFrame, draws: int, *figures: Figure, **roles: Any
) -> list[NDArray[np.float64]]:
    """Write so many files about the same data; give some figures of each."""
    data = dc.Dataset(frame, **roles)
    found = np.empty((len(figures), draws))
    for number in range(draws):
        ran = method.run(data, dc.Context(number, "1"))
        found[:, number] = [figure(ran) for figure in figures]
    return list(found)


def in_cell(ran: Ran) -> float:
    """Rows of the file in the cell of the person who comes or goes."""
    return ran.data.frame.filter(pl.all_horizontal(pl.all() == "x")).height


def evidence(ran: Ran) -> float:
    """The likelihood ratio of the noisy tables, which tells most of all figures."""
    known, sd = ran.decision, ran.decision["sigma"]
    found = sum(margin[0] for margin in known["margins"].values()) / sd["columns"] ** 2
    return float(found + sum(table[0] for _, _, table in known["tables"]) / (sd["pairs"] or 1) ** 2)


def proved(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Give the ε that figures prove: the border is picked on a quarter of the draws and judged on the others."""
    part = len(first) // 4

    def of(border: float, draws: slice) -> float:
        often, seldom = int((second[draws] >= border).sum()), int((first[draws] >= border).sum())
        return epsilon_at_least(often, seldom, len(first[draws]), DELTA)

    borders = np.unique(np.quantile(np.concatenate([first[:part], second[:part]]), np.linspace(0.01, 0.999, 200)))
    picked = max(borders, key=lambda border: of(border, slice(0, part)))
    return of(float(picked), slice(part, None))


def shares(method: PrivateMarginals, event: Figure, first: pl.DataFrame, second: pl.DataFrame, draws: int) -> float:
    """Give the ε that an event named beforehand proves."""
    counts = [int(drawn(method, frame, draws, event)[0].sum()) for frame in (first, second)]
    return epsilon_at_least(counts[1], counts[0], draws, DELTA)


def test_the_noise_of_the_tables_is_as_large_as_claimed_and_half_of_it_is_found() -> None:
    ratios = {}
    for kind in (PrivateMarginals, HalfNoise):
        method = generator(kind, TWO)
        claimed = PrivateMarginals._noise(method)[1]
        assert claimed is not None
        (cells,) = drawn(method, PEOPLE, 400, lambda ran: float(ran.decision["tables"][0][2][0]))
        ratios[kind] = float(cells.std()) / claimed.scale
    assert 0.85 < ratios[PrivateMarginals] < 1.15 and ratios[HalfNoise] < 0.65


def test_a_few_files_do_not_break_the_claim() -> None:
    method = generator(PrivateMarginals, TWO)
    pairs = zip(*(drawn(method, frame, 300, in_cell, evidence) for frame in (PEOPLE, ONE_MORE)), strict=True)
    assert all(proved(first, second) <= EPSILON for first, second in pairs)


@pytest.mark.slow
def test_a_domain_that_is_looked_up_is_found() -> None:
    stranger = pl.concat([PEOPLE, pl.DataFrame({"a": ["z"], "b": ["x"]})])

    def named(ran: Ran) -> float:
        return float("z" in ran.data.frame["a"] or len(ran.decision["margins"]["a"]) > 2)

    assert shares(generator(DomainFromData, ONE), named, PEOPLE, stranger, 600) > EPSILON
    assert shares(generator(PrivateMarginals, ONE), named, PEOPLE, stranger, 200) <= EPSILON


@pytest.mark.slow
def test_a_true_number_of_rows_is_found() -> None:
    def long(ran: Ran) -> float:
        return float(len(ran.data) == len(ONE_MORE))

    assert shares(generator(TrueNumber, ONE), long, PEOPLE, ONE_MORE, 600) > EPSILON
    assert shares(generator(PrivateMarginals, ONE), long, PEOPLE, ONE_MORE, 600) <= EPSILON


@pytest.mark.slow
def test_a_person_with_many_rows_is_found_where_nobody_bounds_them() -> None:
    people = PEOPLE.with_row_index("who")
    many = pl.concat([people, *[people[:1].with_columns(who=pl.lit(99, pl.UInt32))] * 20])

    def large(ran: Ran) -> float:
        return float(len(ran.data) > 40)

    for kind, is_found in ((NoBound, True), (PrivateMarginals, False)):
        method = generator(kind, ONE, person="who")
        assert (shares(method, large, people, many, 600) > EPSILON) == is_found


@pytest.mark.slow
@pytest.mark.parametrize("domain", [ONE, TWO], ids=["a column", "a pair"])
def test_files_keep_the_claim(domain: dict[str, Any]) -> None:
    method = generator(PrivateMarginals, domain)
    pairs = zip(*(drawn(method, frame, DRAWS, in_cell, evidence) for frame in (PEOPLE, ONE_MORE)), strict=True)
    found = [proved(first, second) for first, second in pairs]
    assert all(one <= EPSILON for one in found)
    assert found[1] > 0.3 * EPSILON, "a check that proves next to nothing finds nothing"


@pytest.mark.slow
def test_files_with_half_the_noise_are_found() -> None:
    method = generator(HalfNoise, ONE)
    first, second = (drawn(method, frame, DRAWS, in_cell)[0] for frame in (PEOPLE, ONE_MORE))
    assert proved(first, second) > EPSILON


@pytest.mark.slow
def test_files_about_people_with_several_rows_keep_the_claim() -> None:
    people = PEOPLE.with_row_index("who")
    three = pl.concat([people, *[people[:1].with_columns(who=pl.lit(99, pl.UInt32))] * 5])
    method = generator(PrivateMarginals, TWO, person="who", rows_per_person=3)
    pairs = zip(*(drawn(method, frame, DRAWS, in_cell, evidence) for frame in (people, three)), strict=True)
    found = [proved(first, second) for first, second in pairs]
    assert all(one <= EPSILON for one in found) and found[1] > 0.3 * EPSILON
