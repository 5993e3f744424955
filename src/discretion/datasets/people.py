"""The people of the artificial census: households, ages, sex, marital status, all drawn at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Ints

Flags = Bools

SEXES = ("female", "male")
MARITAL = ("single", "married", "registered partnership", "separated", "divorced", "widowed")
MARITAL_GROUPS = {
    "never in a union": ("single",),
    "in a union": ("married", "registered partnership"),
    "formerly in a union": ("separated", "divorced", "widowed"),
}
OLDEST = 100

_SIZE_SHARES = (0.32, 0.32, 0.15, 0.13, 0.05, 0.02, 0.01)
_ALONE, _COUPLE, _FAMILY, _LONE_PARENT, _SHARERS = range(5)


@dataclass(frozen=True)
class Homes:
    """Households and members: `of` is the household of each person, `place` the person's number in it."""

    size: Ints
    kind: Ints
    of: Ints
    place: Ints

    def __len__(self) -> int:
        return len(self.size)

    @property
    def persons(self) -> int:
        """The number of people."""
        return len(self.of)

    def members(self, *kinds: int) -> Flags:
        """Tell who lives in a household of one of these kinds."""
        return np.isin(self.kind, kinds)[self.of]


@dataclass(frozen=True)
class People:
    """What is drawn together because it depends on the household: age, sex, marital status, as codes."""

    age: Ints
    sex: Ints
    marital: Ints


def draw_homes(rng: np.random.Generator, persons: int) -> Homes:
    """Draw households of one to seven until they hold exactly the wanted number of people."""
    enough = persons if persons < 200 else persons // 2 + 50  # the mean size is 2.4
    size = rng.choice(np.arange(1, 8), enough, p=_SIZE_SHARES)
    ends = np.cumsum(size)
    last = int(np.searchsorted(ends, persons))
    size = size[: last + 1]
    size[last] -= ends[last] - persons
    of = np.repeat(np.arange(len(size)), size)
    place = np.arange(persons) - (np.cumsum(size) - size)[of]
    return Homes(size, _draw_kinds(rng, size), of, place)


def _draw_kinds(rng: np.random.Generator, size: Ints) -> Ints:
    draw = rng.random(len(size))
    with_partner = np.where(size == 2, _COUPLE, _FAMILY)
    kind = np.select([draw < 0.80, draw < 0.95], [with_partner, _LONE_PARENT], _SHARERS)
    return np.where(size == 1, _ALONE, kind)


def draw_people(rng: np.random.Generator, homes: Homes) -> People:
    """Draw ages, sexes and marital statuses that fit the household."""
    partner = (homes.place == 1) & homes.members(_COUPLE, _FAMILY)
    eldest = _draw_eldest_child(rng, len(homes))
    first = _draw_first_ages(rng, homes, eldest)
    woman_first = _draw_first_women(rng, homes, first)
    child = (homes.place >= np.where(homes.kind == _LONE_PARENT, 1, 2)[homes.of]) & homes.members(_FAMILY, _LONE_PARENT)
    grandparent = _draw_grandparents(rng, homes, first)
    child &= ~grandparent
    age = _fill_ages(rng, homes, (first, eldest, woman_first), partner, child, grandparent)
    sex = _draw_sexes(rng, homes, woman_first, partner, grandparent)
    return People(age, sex, _draw_marital(rng, homes, age, child))


def _draw_eldest_child(rng: np.random.Generator, homes: int) -> Ints:
    """Draw the age of the eldest child at home; now and then a grown-up lives with old parents."""
    usual = np.floor(29 * rng.beta(1.2, 1.4, homes))
    return np.where(rng.random(homes) < 0.92, usual, rng.integers(25, 59, homes)).astype(np.int64)


def _draw_first_ages(rng: np.random.Generator, homes: Homes, eldest: Ints) -> Ints:
    """Draw the age of the first person; a parent is 18 to 42 years older than the eldest child."""
    number, young = len(homes), rng.random(len(homes))
    noise = rng.standard_normal(number)
    alone = np.where(young < 0.35, 31 + 8 * noise, 64 + 15 * noise)
    couple = np.where(young < 0.25, 29 + 5 * noise, 60 + 13 * noise)
    parent = eldest + np.clip(28.5 + 5 * noise, 18, 42)
    sharer = 18 + rng.exponential(8.0, number)
    drawn: Floats = np.choose(homes.kind, [alone, couple, parent, parent, sharer])
    return np.clip(np.floor(drawn), 18, OLDEST).astype(np.int64)


def _draw_first_women(rng: np.random.Generator, homes: Homes, first: Ints) -> Flags:
    share = np.select([homes.kind == _LONE_PARENT, (homes.kind == _ALONE) & (first >= 60)], [0.82, 0.66], 0.5)
    return np.asarray(rng.random(len(homes)) < share)


def _draw_grandparents(rng: np.random.Generator, homes: Homes, first: Ints) -> Flags:
    """Choose the families of four and more whose last member is a grandparent."""
    chosen = (rng.random(len(homes)) < 0.12) & (homes.kind == _FAMILY) & (homes.size >= 4) & (first <= 75)
    return np.asarray(chosen[homes.of] & (homes.place == homes.size[homes.of] - 1))


def _fill_ages(
    rng: np.random.Generator,
    homes: Homes,
    by_home: tuple[Ints, Ints, Flags],
    partner: Flags,
    child: Flags,
    grandparent: Flags,
) -> Ints:
    first, eldest, woman_first = by_home
    age = first[homes.of]
    of = homes.of[partner]
    other = np.rint(first[of] + np.where(woman_first[of], 2, -2) + 3.5 * rng.standard_normal(len(of)))
    least = np.where(homes.kind[of] == _FAMILY, np.maximum(eldest[of] + 16, 18), 18)
    age[partner] = np.clip(other, least, OLDEST)
    of = homes.of[child]
    later = homes.place[child] > np.where(homes.kind[of] == _LONE_PARENT, 1, 2)
    age[child] = np.where(later, np.floor(eldest[of] * rng.random(len(of))), eldest[of])
    of = homes.of[grandparent]
    age[grandparent] = np.clip(first[of] + np.rint(27 + 4 * rng.standard_normal(len(of))), first[of] + 18, OLDEST)
    sharer = homes.members(_SHARERS) & (homes.place > 0)
    age[sharer] = np.clip(18 + np.floor(rng.exponential(8.0, int(sharer.sum()))), 18, OLDEST)
    return age


def _draw_sexes(rng: np.random.Generator, homes: Homes, woman_first: Flags, partner: Flags, grandparent: Flags) -> Ints:
    woman = rng.random(homes.persons) < np.where(grandparent, 0.7, 0.49)
    head = homes.place == 0
    woman[head] = woman_first
    of = homes.of[partner]
    woman[partner] = woman_first[of] ^ (rng.random(len(of)) < 0.97)
    return np.where(woman, 0, 1)


def _draw_marital(rng: np.random.Generator, homes: Homes, age: Ints, child: Flags) -> Ints:
    """Draw marital statuses: partners share theirs, the others depend on age."""
    draw, years = rng.random(homes.persons), age.astype(np.float32)
    widowed = 0.8 * np.clip((years - 45) / 55, 0, 1) ** 2
    divorced = widowed + 0.28 * np.clip((years - 25) / 25, 0, 1)
    separated = divorced + np.where(years > 25, 0.04, 0)
    scale = np.where(child, 0.3, 1.0)
    alone = np.select([draw < widowed * scale, draw < divorced * scale, draw < separated * scale], [5, 4, 3], 0)
    union = np.select([(chance := rng.random(len(homes))) < 0.76, chance < 0.84], [1, 2], 0)[homes.of]
    together = (homes.place < 2) & homes.members(_COUPLE, _FAMILY) & (union > 0)
    status = np.where(together, union, alone)
    return np.where(age < 18, 0, status)
