"""Models about who is behind a release: k-map, δ-presence, and an attacker who attacks where it pays (M9)."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from discretion.data.codes import Classes
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.data.population_classes import Population, PopulationCounts, count_population, load_population
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.model import FailingClass
from discretion.part import confidential, path_field
from discretion.privacy.class_table import SHOWN, TOLERANCE, ClassModel, ClassTable, list_failing


def name_of(population: Any) -> str:
    """Name a population under which a `ClassTable` holds its counts."""
    return population if isinstance(population, str) else f"data in memory {id(population)}"


class KMap(ClassModel, kind="k-map"):
    """Every class of the release fits at least k people of the population.

    Weaker than k-anonymity where the data is a sample: a record may be unique in the file if many people outside share
    its values. Guarantees that somebody who looks a record up in a register of the population finds at least k people.
    Does not protect if the intruder knows who is in the file, nor against attribute disclosure.

    The population is a file or Dataset with the same columns (raw values are generalized to the levels of the release;
    `frequency` names a column that tells how many people a row stands for). Without one, give `population_size`: then a
    class passes when it has so many records that, if it fitted only k people, a sample of this fraction would hold
    fewer with probability 1 − `significance` (zero-truncated Poisson), or k records outright; the value reported is the
    largest k that passes this test. A missing quasi-identifier is matched with missing ones only. Time linear in both.

    References
    ----------
    Sweeney (2002); El Emam & Dankar (2008), JAMIA 15(5), estimator D4; catalogue M9.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> town = pl.DataFrame({"zip": ["80122"] * 4 + ["97234"] * 2})
    >>> dc.KMap(k=3, population=town, columns=["zip"])(town[:1]).value
    4.0
    """

    k: int = confidential(ge=1)
    """number of people of the population that every class must fit"""
    population: Population | None = path_field(None)
    """file (or Dataset) with the same columns for the whole population"""
    frequency: str = ""
    """column of the population with the number of people each row stands for; without it, one"""
    population_size: int | None = Field(None, ge=1)
    """number of people in the population, where no file of it is there"""
    significance: float = Field(0.05, gt=0, lt=1)
    """probability of passing a class that fits only k people, where only the size of the population is known"""

    bound: ClassVar[str] = "k"
    attacker: ClassVar[str] = "somebody with a register of the population, who looks up a published record in it"
    monotone: ClassVar[bool] = True  # a class only grows, also in the population
    monotone_without_suppression: ClassVar[bool] = True

    @model_validator(mode="after")
    def _one_population(self) -> KMap:
        if (self.population is None) == (self.population_size is None):
            raise ValueError("give either `population` or `population_size`")
        return self

    @property
    def population_name(self) -> str | None:
        """The population's path, or a name for data in memory."""
        return None if self.population is None else name_of(self.population)

    def table(
        self, data: Dataset, columns: tuple[str, ...], classes: Classes, sensitive: tuple[str, ...]
    ) -> ClassTable:
        """Add the population's counts."""
        plain = super().table(data, columns, classes, sensitive)
        if self.population is None:
            return plain
        found = count_population(data, columns, classes, load_population(self.population), self.frequency)
        return ClassTable(plain.sizes, plain.sensitive, MappingProxyType({name_of(self.population): found.counts}))

    def failing(self, table: ClassTable) -> Bools:
        """Tell which classes fit fewer than k people."""
        if self.population is not None:
            return np.asarray(table.population[name_of(self.population)] < self.k)
        return np.asarray(table.sizes < self.records_needed(int(table.sizes.sum())))

    def reached(self, table: ClassTable) -> float:
        """Give the fewest people a class fits."""
        if self.population is not None:
            return float(table.population[name_of(self.population)].min())
        smallest, fraction = int(table.sizes.min()), self._fraction(int(table.sizes.sum()))
        low, high = smallest, smallest + 1
        while _records_needed(high, fraction, self.significance) <= smallest:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            fits = _records_needed(middle, fraction, self.significance) <= smallest
            low, high = (middle, high) if fits else (low, middle)
        return float(low)

    def records_needed(self, records: int) -> int:
        """Give the class size at which a class of a sample of this many records passes."""
        return _records_needed(self.k, self._fraction(records), self.significance)

    def _fraction(self, records: int) -> float:
        size = self.population_size or 0
        if size < records:
            raise DataError(f"k-map: the population of {size} is smaller than the data of {records} records")
        return records / size


def _records_needed(k: int, fraction: float, significance: float) -> int:
    """Find the smallest class size that a class of k people has in a sample with at most the given probability."""
    from scipy.stats import poisson

    mean = k * fraction
    # P(f ≥ s | f ≥ 1) ≤ α for the zero-truncated Poisson: the upper tail of the plain one, scaled
    bound = significance * -np.expm1(-mean)
    needed = int(poisson.isf(bound, mean)) + 1
    return min(k, max(needed, 1))


class DeltaPresence(ClassModel, kind="delta-presence"):
    """Of the people of the population that fit a class, a share between two bounds is in the data.

    Guarantees that somebody who knows a person's quasi-identifiers is neither nearly certain that the person is in the
    file (`delta_max`) nor nearly certain that it is not (`delta_min`). It matters where being in the file is the
    secret: a register of patients. Does not protect the other columns of those who are in the file.

    The population must contain the data. A class of the population without any record in the data has the share 0, so
    with `delta_min` above 0 it breaks the model: everybody in it is known to be absent. A search then drops no records,
    as that leaves their class empty, and takes only levels at which every class of the population has a record. The
    value reported is the largest share, the smallest stands in the detail. Raw values of the population are generalized
    to the levels of the release; a missing quasi-identifier is matched with missing ones only. Time linear in both.

    References
    ----------
    Nergiz, Atzori & Clifton (2007), SIGMOD; catalogue M9.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> town = pl.DataFrame({"zip": ["80122"] * 4 + ["97234"] * 2})
    >>> model = dc.DeltaPresence(delta_max=0.5, population=town, columns=["zip"])
    >>> model(town[:1]).value, model(town[:3]).holds
    (0.25, False)
    """

    delta_min: float = confidential(0.0, ge=0, le=1)
    """smallest allowed share of a class's people that is in the data"""
    delta_max: float = confidential(ge=0, le=1)
    """largest allowed share of a class's people that is in the data"""
    population: Population = path_field()
    """file (or Dataset) with the same columns for the whole population"""
    frequency: str = ""
    """column of the population with the number of people each row stands for; without it, one"""

    bound: ClassVar[str] = "delta_max"
    attacker: ClassVar[str] = "somebody with a register of the population, who wants to know who is in the file"
    monotone: ClassVar[bool] = False  # merging with a class outside the bounds can carry one outside them
    monotone_without_suppression: ClassVar[bool] = True  # the share of a union lies between the shares of its parts

    @model_validator(mode="after")
    def _bounds_in_order(self) -> DeltaPresence:
        if self.delta_min > self.delta_max:
            raise ValueError("`delta_min` is larger than `delta_max`")
        return self

    @property
    def needs_every_class(self) -> bool:
        """Whether a share of 0 is too small."""
        return self.delta_min > TOLERANCE

    @property
    def population_name(self) -> str:
        """The population's path, or a name for data in memory."""
        return name_of(self.population)

    def _count(self, data: Dataset, columns: tuple[str, ...], classes: Classes) -> PopulationCounts:
        return count_population(data, columns, classes, load_population(self.population), self.frequency)

    def table(
        self, data: Dataset, columns: tuple[str, ...], classes: Classes, sensitive: tuple[str, ...]
    ) -> ClassTable:
        """Add the population's counts; its classes without records follow where they can fail."""
        plain = super().table(data, columns, classes, sensitive)
        found = self._count(data, columns, classes)
        people, sizes = found.counts, plain.sizes
        lacking = int((people < sizes).sum())
        if lacking:
            raise DataError(
                f"{self.kind}: in {lacking} of {len(sizes)} classes the population has fewer records than the data; "
                "it must contain the data"
            )
        if self.needs_every_class:
            people = np.concatenate([people, found.others])
            sizes = np.concatenate([sizes, np.zeros_like(found.others)])
        return ClassTable(sizes, plain.sensitive, MappingProxyType({self.population_name: people}))

    def _shares(self, table: ClassTable) -> Any:
        with np.errstate(divide="ignore"):  # nobody of the population fits: more than all of them
            return table.sizes / table.population[self.population_name]

    def failing(self, table: ClassTable) -> Bools:
        """Tell which classes have a share outside the bounds."""
        shares = self._shares(table)
        return np.asarray((shares < self.delta_min - TOLERANCE) | (shares > self.delta_max + TOLERANCE))

    def kept_below(self, table: ClassTable) -> Ints:
        """No more can be kept than the largest share of all the people who fit the class."""
        most = np.floor(table.population[self.population_name] * (self.delta_max + TOLERANCE) + 1e-9)
        return np.asarray(np.minimum(table.sizes, most.astype(np.int64)))

    def reached(self, table: ClassTable) -> float:
        """Give the largest share."""
        return float(self._shares(table).max())

    def details(self, table: ClassTable) -> dict[str, Any]:
        """Add the smallest share."""
        return {"smallest_share": float(self._shares(table).min())}

    def meaning(self, table: ClassTable) -> str:
        """Say between which bounds the shares lie."""
        shares = self._shares(table)
        return (
            f"Of the people who fit a class, between {shares.min():.4g} and {shares.max():.4g} are in the data; "
            f"allowed are {self.delta_min:g} to {self.delta_max:g}."
        )

    def list_failing(
        self, data: Dataset, columns: tuple[str, ...], classes: Classes, failing: Bools
    ) -> tuple[FailingClass, ...]:
        """List the failing classes; those of the population without records have size 0 and come first."""
        absent = failing[len(classes) :]
        if not absent.any():
            return list_failing(data, columns, classes, failing)
        keys = self._count(data, columns, classes).other_keys
        others = [FailingClass(dict(zip(columns, key, strict=True)), 0.0) for key in keys]
        return (*others, *list_failing(data, columns, classes, failing[: len(classes)]))[:SHOWN]


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
