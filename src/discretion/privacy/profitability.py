"""Profitability: publishing pays, although an attacker attacks where it pays (M9)."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np

from discretion.data.codes import Classes
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.data.population_classes import Population, count_population, load_population
from discretion.errors import PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.part import confidential, path_field
from discretion.privacy.class_table import TOLERANCE, ClassModel, ClassTable
from discretion.privacy.population import name_of


class Profitability(ClassModel, kind="profitability"):
    """Every record brings its publisher more than it costs, against an attacker who attacks where that pays.

    A game of two: an attacker picks the right record of a class with probability π, one over its size, and attacks if
    gain·π is more than the cost of an attack. A published record is worth benefit·(1 − what it lost), and costs the
    publisher loss·π where its class is attacked. A class stands if that payout is above 0; with `attacks: none`, also
    no attack on it may pay. Guarantees, if the amounts are right, that a publisher does not lose by publishing, and
    with `attacks: none` that nobody gains by an attack. Does not protect against somebody who attacks for other
    reasons, and where attacks are allowed not against being found at all: ask for k-anonymity too.

    What a record lost is the entropy-based loss: the logarithm of the combinations of original values that it could
    stand for, over that of all combinations, in the columns that have hierarchies. With a `population`, π is one over
    the people of it that fit the class (the "journalist", who does not know who is in the file); otherwise one over the
    records (the "prosecutor"). The value reported is the smallest payout. Time linear.

    References
    ----------
    Wan, Vorobeychik, Xia, Clayton, Kantarcioglu, Ganta, Heatherly & Malin (2015), A game theoretic framework for
    analyzing re-identification risk, PLoS ONE 10(3); catalogue M9.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> model = dc.Profitability(benefit=1200, loss=300, gain=300, cost=4, columns=["sex", "region"])
    >>> round(model(people).value, 1)
    1176.9
    """

    benefit: float = confidential(gt=0)
    """what a record is worth to its publisher when nothing of it is lost"""
    loss: float = confidential(ge=0)
    """what the publisher loses when a record is found"""
    gain: float = confidential(ge=0)
    """what an attacker gains by finding a record"""
    cost: float = confidential(ge=0)
    """what an attack on a record costs the attacker"""
    attacks: Literal["allowed", "none"] = "none"
    """whether a class may stand that is worth an attack, as long as publishing it still pays"""
    population: Population | None = path_field(None)
    """file (or Dataset) with the same columns for the whole population, where the attacker does not know who is in the
    data"""
    frequency: str = ""
    """column of the population with the number of people each row stands for; without it, one"""

    attacker: ClassVar[str] = (
        "somebody who attacks a record only where the expected gain is above the cost of an attack"
    )
    looks_at_loss: ClassVar[bool] = True

    @property
    def required(self) -> float:
        """The payout must be above nothing."""
        return 0.0

    @property
    def population_name(self) -> str | None:
        """The population's path, or a name for data in memory."""
        return None if self.population is None else name_of(self.population)

    @property
    def smallest_class(self) -> int:
        """The size from which a class is not attacked, or where attacks are allowed, pays in spite of one."""
        if self.population is not None:
            return 1
        safe = math.ceil(self.gain / self.cost - 1e-9) if self.cost else (1 if not self.gain else 2**62)
        paid = math.floor(self.loss / self.benefit + 1e-9) + 1
        return max(1, safe if self.attacks == "none" else min(safe, paid))

    def attacked(self, people: Ints) -> Bools:
        """Tell which classes are worth an attack, by the people among whom the right one must be picked."""
        return np.asarray(self.gain > self.cost * people * (1 + TOLERANCE))

    def people(self, table: ClassTable) -> Ints:
        """Give the people among whom the right one must be picked."""
        return table.sizes if self.population is None else table.population[name_of(self.population)]

    def payouts(self, table: ClassTable) -> Floats:
        """Give what each record of a class brings its publisher."""
        if table.lost is None:
            raise PlanError(
                f"{self.kind}: what a class lost is known in a search for levels of the columns and for a release, but "
                "not while records are grouped one by one; use optimal-generalization"
            )
        people = self.people(table)
        with np.errstate(divide="ignore"):  # nobody of the population fits: found for certain
            harm = np.where(self.attacked(people), self.loss / np.maximum(people, 1), 0.0)
        return np.asarray(self.benefit * (1 - table.lost) - harm)

    def failing(self, table: ClassTable) -> Bools:
        """Tell which classes do not pay, or are worth an attack where none may be."""
        fails = self.payouts(table) <= TOLERANCE * self.benefit
        return fails | self.attacked(self.people(table)) if self.attacks == "none" else fails

    def reached(self, table: ClassTable) -> float:
        """Give the smallest payout of a record."""
        return float(self.payouts(table).min())

    def details(self, table: ClassTable) -> dict[str, Any]:
        """Add how many classes and records are worth an attack."""
        attacked = self.attacked(self.people(table))
        return {
            "attacked_classes": int(attacked.sum()),
            "attacked_records": int(table.sizes[attacked].sum()),
            "payout": float((self.payouts(table) * table.sizes).sum()),
        }

    def table(
        self, data: Dataset, columns: tuple[str, ...], classes: Classes, sensitive: tuple[str, ...]
    ) -> ClassTable:
        """Add what the classes lost, and the population's counts."""
        plain = super().table(data, columns, classes, sensitive)
        population: dict[str, Ints] = {}
        if self.population is not None:
            found = count_population(data, columns, classes, load_population(self.population), self.frequency)
            population[name_of(self.population)] = found.counts
        lost = entropy_based_loss(data, columns)[classes.first_rows]
        return ClassTable(plain.sizes, plain.sensitive, MappingProxyType(population), plain.units, lost)


def entropy_based_loss(data: Dataset, columns: tuple[str, ...]) -> Floats:
    """Give each record the logarithm of the original combinations it could stand for, over that of all combinations."""
    lost, most = np.zeros(len(data)), 0.0
    for name in columns:
        if data.origin.schema[name].hierarchy is None:
            continue
        hierarchy = data.hierarchy(name)
        levels = np.broadcast_to(np.asarray(data.cell_levels(name)), len(data))
        codes = data.codes(name)
        texts = [None if value is None else canonical(value) for value in codes.values]
        own = np.zeros(len(data))
        for level in np.unique(levels).tolist():
            below = hierarchy.leaves_under(int(level))
            leaves = np.array([1 if text is None else below.get(text, 1) for text in texts], float)
            own = np.where(levels == level, np.log(leaves)[codes.codes], own)
        lost += np.where(data.suppressed(name), math.log(hierarchy.size), own)
        most += math.log(hierarchy.size)
    return lost / most if most else lost
