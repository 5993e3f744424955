"""The work of the artificial census: education, occupation and hours."""

from __future__ import annotations

import numpy as np

from discretion.kernels.arrays import Bools, Floats, Ints

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

_ROWS = [[cell.strip() for cell in line.split("|")] for line in _JOBS.split("\n") if line]
_GROUPS = [row[0] for row in _ROWS]
_FREQUENCY = np.array([[float(number) for number in row[2].split()] for row in _ROWS]).T
PAY: Floats = np.array([float(row[3]) for row in _ROWS])
_WOMEN = np.array([float(row[4]) for row in _ROWS])

OUT_OF_WORK = ("child", "student", "homemaker", "unemployed", "unable to work", "retired")
OCCUPATIONS: tuple[str, ...] = (*(row[1] for row in _ROWS), *OUT_OF_WORK)
JOBS = len(_ROWS)
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
