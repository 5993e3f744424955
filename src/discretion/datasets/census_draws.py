"""What the artificial census draws: places, households and their people, work and money, health."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Ints

if TYPE_CHECKING:
    import polars as pl


# The work of the artificial census: education, occupation and hours.

EDUCATION_GROUPS = {
    "basic": ("no schooling", "primary", "lower secondary"),
    "intermediate": ("upper secondary", "post-secondary"),
    "higher": ("bachelor", "master", "doctorate"),
}
EDUCATION: tuple[str, ...] = tuple(level for group in EDUCATION_GROUPS.values() for level in group)
_BANDS = np.repeat([0, 1, 2], [3, 2, 3])
_THRESHOLDS = (-2.3, -1.5, -0.8, 0.25, 0.55, 1.25, 2.1)
_FIRST_AGES = (12, 15, 18, 20, 22, 24, 27)
"""The least age at which each level above the lowest can be completed."""

_JOBS = """
managers                | chief executive       |  1  2  6 |  1.05 | 0.30
managers                | production manager    |  1  4  6 |  0.70 | 0.30
managers                | shop manager          |  2  5  3 |  0.30 | 0.45
professionals           | engineer              |  0  2 12 |  0.60 | 0.20
professionals           | physician             |  0  0  7 |  0.90 | 0.50
professionals           | teacher               |  0  2 16 |  0.30 | 0.72
professionals           | lawyer                |  0  0  5 |  0.75 | 0.50
professionals           | software developer    |  0  3  9 |  0.60 | 0.22
professionals           | accountant            |  0  4  8 |  0.40 | 0.55
technicians             | laboratory technician |  0  5  4 |  0.15 | 0.50
technicians             | nurse                 |  0  9  7 |  0.20 | 0.85
technicians             | drafter               |  0  3  2 |  0.12 | 0.30
technicians             | police officer        |  0  6  2 |  0.20 | 0.22
clerks                  | secretary             |  4 10  4 | -0.05 | 0.85
clerks                  | bank clerk            |  1  6  3 |  0.10 | 0.55
clerks                  | postal worker         |  5  4  1 | -0.10 | 0.40
services and sales      | shop assistant        | 14 12  3 | -0.25 | 0.70
services and sales      | cook                  |  9  6  1 | -0.25 | 0.45
services and sales      | hairdresser           |  4  6  0 | -0.30 | 0.85
services and sales      | care worker           | 11  9  2 | -0.22 | 0.85
services and sales      | security guard        |  5  3  0 | -0.15 | 0.15
crafts                  | carpenter             |  8  6  0 | -0.02 | 0.05
crafts                  | electrician           |  4  8  0 |  0.08 | 0.04
crafts                  | bricklayer            |  9  4  0 | -0.03 | 0.03
crafts                  | baker                 |  4  3  0 | -0.15 | 0.35
operators and laborers  | truck driver          | 12  6  0 |  0.00 | 0.05
operators and laborers  | machine operator      | 12  6  0 | -0.02 | 0.30
operators and laborers  | cleaner               | 15  4  1 | -0.40 | 0.80
operators and laborers  | farm worker           |  7  2  0 | -0.35 | 0.35
operators and laborers  | warehouse worker      | 11  5  1 | -0.20 | 0.25
"""
"""Group, occupation, frequency by education (basic to higher), effect on log income, share of women."""

_OCCUPATION_ROWS = [[cell.strip() for cell in line.split("|")] for line in _JOBS.split("\n") if line]
_GROUPS = [row[0] for row in _OCCUPATION_ROWS]
_FREQUENCY = np.array([[float(number) for number in row[2].split()] for row in _OCCUPATION_ROWS]).T
PAY: Floats = np.array([float(row[3]) for row in _OCCUPATION_ROWS])
_WOMEN = np.array([float(row[4]) for row in _OCCUPATION_ROWS])

OUT_OF_WORK = ("child", "student", "homemaker", "unemployed", "unable to work", "retired")
OCCUPATIONS: tuple[str, ...] = (*(row[1] for row in _OCCUPATION_ROWS), *OUT_OF_WORK)
JOBS = len(_OCCUPATION_ROWS)
CHILD, STUDENT, HOMEMAKER, UNEMPLOYED, UNABLE, RETIRED = range(JOBS, JOBS + len(OUT_OF_WORK))


def occupation_levels() -> list[tuple[str, ...]]:
    """Give the rows of the hierarchy occupation → group → *."""
    groups = [*_GROUPS, *["not in work"] * len(OUT_OF_WORK)]
    return [(name, group, "*") for name, group in zip(OCCUPATIONS, groups, strict=True)]


def draw_education(rng: np.random.Generator, age: Ints, home: Ints, homes: int) -> Ints:
    """Draw the highest level completed: alike inside a household, less for the old."""
    talent = 0.6 * rng.standard_normal(homes)[home] + 0.8 * rng.standard_normal(len(age))
    talent -= 0.02 * (np.maximum(age, 25) - 40)
    reached = np.searchsorted(_THRESHOLDS, talent)
    return np.minimum(reached, np.searchsorted(_FIRST_AGES, age, side="right"))


def draw_occupations(rng: np.random.Generator, age: Ints, sex: Ints, education: Ints) -> Ints:
    """Draw the occupation, or why somebody does not work."""
    woman = sex == 0
    band = _BANDS[education]
    draw = rng.random(len(age))
    job = np.empty(len(age), dtype=np.int64)
    for level in range(3):
        for women in (True, False):
            chance = _FREQUENCY[level] * (_WOMEN if women else 1 - _WOMEN)
            bounds = np.cumsum(chance / chance.sum())[:-1]
            here = (band == level) & (woman == women)
            job[here] = np.searchsorted(bounds, draw[here], side="right")
    return _draw_idle(rng, age, woman, job)


def _draw_idle(rng: np.random.Generator, age: Ints, woman: Bools, job: Ints) -> Ints:
    studying = np.select([age < 19, age < 25, age < 30], [0.85, 0.40, 0.08], 0.0)
    retired = np.select([age >= 70, age >= 65, age >= 60], [0.97, 0.85, 0.35], 0.0)
    draw, other = rng.random(len(age)), rng.random(len(age))
    home = np.where(woman, 0.08, 0.01)
    conditions = [
        age < 16,
        draw < studying,
        draw < retired,
        other < home,
        other < home + 0.05,
        other < home + 0.08,
    ]
    return np.select(conditions, [CHILD, STUDENT, RETIRED, HOMEMAKER, UNEMPLOYED, UNABLE], job)


def draw_hours(rng: np.random.Generator, sex: Ints, occupation: Ints) -> Ints:
    """Draw the hours worked in a week: full time or part time, none for those out of work."""
    full = rng.random(len(sex)) < np.where(sex == 0, 0.62, 0.88)
    noise = rng.standard_normal(len(sex))
    hours = np.where(full, np.clip(40 + 5 * noise, 30, 80), np.clip(20 + 6 * noise, 4, 29))
    return np.where(occupation < JOBS, np.rint(hours), 0).astype(np.int64)


# The money of the artificial census: yearly income and savings.

_IDLE_LOG_INCOME = {STUDENT: 7.6, HOMEMAKER: 7.2, UNEMPLOYED: 9.2, UNABLE: 9.3, RETIRED: 9.55}
_IDLE_ZERO_SHARE = {STUDENT: 0.5, HOMEMAKER: 0.6, UNEMPLOYED: 0.1, UNABLE: 0.02, RETIRED: 0.01}


def draw_income(
    rng: np.random.Generator,
    age: Ints,
    sex: Ints,
    education: Ints,
    occupation: Ints,
    hours: Ints,
    region_effect: Floats,
) -> Floats:
    """Draw the yearly income: log-normal around what work pays, a heavy tail, nothing for children."""
    people = len(age)
    log_income = np.zeros(len(PAY) + 6)
    zero_share = np.zeros(len(PAY) + 6)
    log_income[:JOBS] = 10.0 + PAY
    zero_share[CHILD] = 1.0
    for state, value in _IDLE_LOG_INCOME.items():
        log_income[state], zero_share[state] = value, _IDLE_ZERO_SHARE[state]
    working = occupation < JOBS
    career = np.clip(age - 20, 0, 45)
    log_pay = log_income[occupation] + 0.06 * education + 0.48 * rng.standard_normal(people)
    log_pay += np.where(working, 0.022 * career - 0.0003 * career**2 - 0.12 * (sex == 0) + region_effect, 0.0)
    income = np.exp(log_pay) * np.where(working, (hours / 40) ** 0.9, 1.0)
    tail = rng.random(people) < 0.015
    income[tail] *= 1 + rng.pareto(1.8, int(tail.sum()))
    income[rng.random(people) < zero_share[occupation]] = 0.0
    return np.round(income)


def draw_savings(rng: np.random.Generator, age: Ints, income: Floats) -> Floats:
    """Draw the savings: they grow with income and age; debts can exceed them."""
    people = len(age)
    years = np.clip(age - 15, 0, 50) / 30
    saved = (income + 2000.0) * years * rng.lognormal(-0.6, 1.0, people)
    debt = np.where(rng.random(people) < 0.22, rng.lognormal(9.2, 1.0, people), 0.0)
    return np.where(age < 18, 0.0, np.round(saved - debt))


def draw_refusals(rng: np.random.Generator, income: Floats) -> Bools:
    """Choose who does not tell the income: seldom the poor, often the rich."""
    chance = np.select([income <= 0, income < 30_000, income < 70_000], [0.005, 0.013, 0.035], 0.12)
    return np.asarray(rng.random(len(income)) < chance)


# The people of the artificial census: households, ages, sex, marital status, all drawn at once.

# Invented names of people: syllables put together, so that nobody takes them for real ones.

_NAME_SYLLABLES = """
Ba Cri Du Fle Go Hy Ju Klo Mi Nu Pla Qua Ri Sve To Vu Wi Xa Yo Zu
ba do fi ge lu mo ni po ra su te vi
la lex mi nor ris tan vo xa
bark dyx flum grin kov lund mott nick pool quist sky vant
"""
_HEADS, _MIDDLES, _GIVEN_TAILS, _FAMILY_TAILS = (line.split() for line in _NAME_SYLLABLES.strip().splitlines())

GIVEN: tuple[str, ...] = tuple(a + b + c for a in _HEADS for b in _MIDDLES for c in _GIVEN_TAILS)
FAMILY: tuple[str, ...] = tuple(a + b + c for a in _HEADS for b in _MIDDLES for c in _FAMILY_TAILS)


def draw_names(rng: np.random.Generator, home: Ints, homes: int) -> pl.Series:
    """Draw names; most members of a household share the family name."""
    import polars as pl

    given = rng.integers(0, len(GIVEN), len(home))
    family = rng.integers(0, len(FAMILY), homes)[home]
    own = rng.random(len(home)) < 0.15
    family[own] = rng.integers(0, len(FAMILY), int(own.sum()))
    return (pl.Series("name", GIVEN).gather(given) + " " + pl.Series(FAMILY).gather(family)).alias("name")


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
    # draw the age of the first person; a parent is 18 to 42 years older than the eldest child
    number, young = len(homes), rng.random(len(homes))
    noise = rng.standard_normal(number)
    alone = np.where(young < 0.35, 31 + 8 * noise, 64 + 15 * noise)
    couple = np.where(young < 0.25, 29 + 5 * noise, 60 + 13 * noise)
    parent = eldest + np.clip(28.5 + 5 * noise, 18, 42)
    sharer = 18 + rng.exponential(8.0, number)
    drawn: Floats = np.choose(homes.kind, [alone, couple, parent, parent, sharer])
    first = np.clip(np.floor(drawn), 18, OLDEST).astype(np.int64)
    share = np.select([homes.kind == _LONE_PARENT, (homes.kind == _ALONE) & (first >= 60)], [0.82, 0.66], 0.5)
    woman_first = np.asarray(rng.random(len(homes)) < share)
    child = (homes.place >= np.where(homes.kind == _LONE_PARENT, 1, 2)[homes.of]) & homes.members(_FAMILY, _LONE_PARENT)
    # choose the families of four and more whose last member is a grandparent
    chosen = (rng.random(len(homes)) < 0.12) & (homes.kind == _FAMILY) & (homes.size >= 4) & (first <= 75)
    grandparent = np.asarray(chosen[homes.of] & (homes.place == homes.size[homes.of] - 1))
    child &= ~grandparent
    age = _fill_ages(rng, homes, (first, eldest, woman_first), partner, child, grandparent)
    woman = rng.random(homes.persons) < np.where(grandparent, 0.7, 0.49)
    head = homes.place == 0
    woman[head] = woman_first
    of = homes.of[partner]
    woman[partner] = woman_first[of] ^ (rng.random(len(of)) < 0.97)
    sex = np.where(woman, 0, 1)
    return People(age, sex, _draw_marital(rng, homes, age, child))


def _draw_eldest_child(rng: np.random.Generator, homes: int) -> Ints:
    """Draw the age of the eldest child at home; now and then a grown-up lives with old parents."""
    usual = np.floor(29 * rng.beta(1.2, 1.4, homes))
    return np.where(rng.random(homes) < 0.92, usual, rng.integers(25, 59, homes)).astype(np.int64)


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


# The places of the artificial census: a country of four parts, 12 regions and 150 municipalities.
#
# The country is the same for every seed; only who lives where is drawn.

PARTS = ("north", "east", "south", "west")

_REGIONS = """
Arvenia north 20 14 38  0.12
Belmark north 17 11 34  0.05
Corvia  north  8  4 12 -0.06
Dunmere east  15 12 36  0.08
Elstad  east  13  9 29  0.02
Farrow  east   9  5 16 -0.08
Gildane south 14 11 33  0.00
Hostria south 12  8 27 -0.05
Ivarra  south  8  3 10 -0.12
Jorvale west  13 10 31  0.06
Kestria west  11  8 26 -0.02
Lormont west  10  5 17 -0.10
"""
"""Region, part, municipalities, percent of households, mean sampling weight, effect on log income."""

_ROWS = [line.split() for line in _REGIONS.split("\n") if line]

REGIONS: tuple[str, ...] = tuple(row[0] for row in _ROWS)
PART_OF: tuple[str, ...] = tuple(row[1] for row in _ROWS)
_COUNTS = [int(row[2]) for row in _ROWS]
_SHARES = [float(row[3]) for row in _ROWS]
_WEIGHTS = np.array([float(row[4]) for row in _ROWS])
PAY_EFFECT: Floats = np.array([float(row[5]) for row in _ROWS])

_SYLLABLES = """
Alb Bran Cold Dray Ern Fal Glen Hurst Ist Kel Marl Nor Ost Pell Rav
bury combe dale ford ham ley mouth stead ton wick
"""
_STEMS, _ENDINGS = (line.split() for line in _SYLLABLES.strip().splitlines())
_NAMES = [stem + ending for ending in _ENDINGS for stem in _STEMS]
MUNICIPALITIES: tuple[str, ...] = tuple(_NAMES[(7 * place) % len(_NAMES)] for place in range(len(_NAMES)))
REGION_OF: Ints = np.repeat(np.arange(len(REGIONS)), _COUNTS)


def _household_shares() -> Floats:
    """Share the households out: inside a region the r-th largest municipality has 1/r of the largest."""
    starts = [0, *accumulate(_COUNTS)]
    shares = np.empty(len(MUNICIPALITIES))
    for share, start, count in zip(_SHARES, starts, _COUNTS, strict=False):
        zipf = 1 / np.arange(1, count + 1)
        shares[start : start + count] = share * zipf / zipf.sum()
    return np.asarray(shares / shares.sum())


def draw_municipalities(rng: np.random.Generator, households: int) -> Ints:
    """Draw where each household lives."""
    bounds = np.cumsum(_household_shares())[:-1]
    return np.searchsorted(bounds, rng.random(households), side="right")


def draw_weights(rng: np.random.Generator, regions: Ints) -> Floats:
    """Draw the sampling weight of each household: that of its region, adjusted a little for nonresponse."""
    return np.round(_WEIGHTS[regions] * rng.lognormal(0.0, 0.08, len(regions)), 2)


def municipality_levels() -> list[tuple[str, ...]]:
    """Give the rows of the hierarchy municipality → region → part of the country → *."""
    return [
        (name, REGIONS[region], PART_OF[region], "*")
        for name, region in zip(MUNICIPALITIES, REGION_OF.tolist(), strict=True)
    ]


def region_levels() -> list[tuple[str, ...]]:
    """Give the rows of the hierarchy region → part of the country → *."""
    return [(name, part, "*") for name, part in zip(REGIONS, PART_OF, strict=True)]


# The health of the artificial census: a set of diagnoses for each person.

MOST = 5
"""The greatest number of diagnoses of one person."""

DIAGNOSES: tuple[str, ...] = tuple(f"{chapter}X{number}" for chapter in "ABCDEFGHJKLM" for number in range(1, 5))
"""Invented codes: a chapter letter, an X, a number. Early chapters are those of the young."""


def _cumulative(order: Ints) -> Floats:
    """Give the codes Zipf-like frequencies in some order."""
    share = np.empty(len(order))
    share[order] = 1 / np.arange(2, len(order) + 2)
    return np.cumsum(share / share.sum())[:-1]


def draw_diagnoses(rng: np.random.Generator, age: Ints) -> pl.Series:
    """Draw none to five different diagnoses for each person, more for the old, as a column of lists."""
    import polars as pl

    codes = len(DIAGNOSES)
    number = np.minimum(rng.poisson(0.08 + 1.7 * (age / 80) ** 2), MOST)
    person = np.repeat(np.arange(len(age)), number)
    old = rng.random(len(person)) < age[person] / 90
    draw = rng.random(len(person))
    young_first, old_first = np.arange(codes), np.arange(codes)[::-1]
    code = np.where(
        old,
        np.searchsorted(_cumulative(old_first), draw, side="right"),
        np.searchsorted(_cumulative(young_first), draw, side="right"),
    )
    drawn = pl.DataFrame({"person": person, "code": code}).unique().sort("person", "code")
    label = pl.Series("diagnoses", DIAGNOSES).gather(drawn["code"])
    lists = drawn.with_columns(label).group_by("person", maintain_order=True).agg("diagnoses")
    everyone = pl.DataFrame({"person": np.arange(len(age))}).join(lists, on="person", how="left", maintain_order="left")
    return everyone["diagnoses"].fill_null([])


CENSUS_YEAR = 2024
"""Ages are those on the last day of this year."""
