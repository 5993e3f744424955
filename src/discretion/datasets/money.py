"""The money of the artificial census: yearly income and savings."""

from __future__ import annotations

import numpy as np

from discretion.datasets.work import CHILD, HOMEMAKER, JOBS, PAY, RETIRED, STUDENT, UNABLE, UNEMPLOYED
from discretion.kernels.arrays import Bools, Floats, Ints

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
