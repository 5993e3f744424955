"""An artificial census: persons in households, with roles, types and hierarchies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discretion.errors import PlanError

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

    from discretion.data.dataset import Dataset
    from discretion.data.hierarchy import Hierarchy
    from discretion.datasets.census_draws import People
    from discretion.kernels.arrays import Bools, Floats, Ints

CENSUS_YEAR = 2024
"""Ages are those on the last day of this year."""

_ROLES: dict[str, tuple[str, ...]] = {
    "person_id": ("identifier",),
    "name": ("identifier",),
    "household": ("household",),
    "region": ("geography", "quasi", "stratum"),
    "municipality": ("geography", "quasi"),
    "age": ("quasi",),
    "sex": ("quasi",),
    "marital_status": ("quasi",),
    "education": ("quasi",),
    "occupation": ("quasi",),
    "hours": ("other",),
    "income": ("sensitive",),
    "savings": ("sensitive",),
    "diagnoses": ("sensitive",),
    "birth_date": ("quasi",),
    "weight": ("weight",),
}

_TYPES = {
    "region": "nominal",
    "municipality": "nominal",
    "age": "continuous",
    "sex": "nominal",
    "marital_status": "nominal",
    "occupation": "nominal",
    "hours": "continuous",
    "income": "continuous",
    "savings": "continuous",
    "diagnoses": "set",
    "birth_date": "date",
}


def census(n: int = 30_000, seed: int = 1) -> Dataset:
    """Give an artificial census of `n` persons with roles, types and hierarchies.

    Nobody in it exists. Persons live in households of one to seven; partners are of similar age, children
    younger than their parents; households lie in municipalities, these in regions (the strata of the sampling
    weights). Education depends on age, occupation on education and sex, income on all of them, with a heavy
    tail; savings may be negative; diagnoses are sets. About 2 % of education, occupation and income is
    missing, income more often where it is high. The same `n` and `seed` give the same data.

    Examples
    --------
    >>> from discretion.datasets import census
    >>> people = census(1_000)
    >>> len(people), draws.having("weight")
    (1000, ('weight',))
    """
    from discretion.data.dataset import Dataset
    from discretion.datasets.census_draws import EDUCATION

    frame = census_frame(n, seed)
    return Dataset(
        frame,
        roles=census_roles(),
        types=_TYPES,
        hierarchies=census_hierarchies(),
        orders={"education": EDUCATION},
    )


def census_roles() -> dict[str, list[str]]:
    """Give the roles of the columns of the census, in their order."""
    return {name: list(roles) for name, roles in _ROLES.items()}


def census_hierarchies() -> dict[str, Hierarchy]:
    """Give the hierarchies of the census; they cover every value that can occur, whatever the seed."""
    from discretion.data.hierarchy import Hierarchy
    from discretion.datasets import census_draws as draws

    return {
        "region": Hierarchy.of(draws.region_levels()),
        "municipality": Hierarchy.of(draws.municipality_levels()),
        "age": Hierarchy.intervals(width=5, levels=5),
        "sex": Hierarchy.of([(sex, "*") for sex in draws.SEXES]),
        "marital_status": Hierarchy.tree(draws.MARITAL_GROUPS),
        "education": Hierarchy.tree(draws.EDUCATION_GROUPS),
        "occupation": Hierarchy.of(draws.occupation_levels()),
        "birth_date": Hierarchy.dates("month", "year", "decade"),
    }


def census_frame(n: int = 30_000, seed: int = 1) -> pl.DataFrame:
    """Give the records of `census` as a bare polars frame."""
    import numpy as np
    import polars as pl

    from discretion.datasets import census_draws as draws

    _check(n, seed)
    themes = np.random.SeedSequence(int(seed)).spawn(6)
    homes_rng, people_rng, names_rng, work_rng, health_rng, missing_rng = map(np.random.default_rng, themes)
    homes = draws.draw_homes(homes_rng, int(n))
    town = draws.draw_municipalities(homes_rng, len(homes))
    region = draws.REGION_OF[town]
    weight = draws.draw_weights(homes_rng, region)
    who = draws.draw_people(people_rng, homes)
    columns = [
        pl.Series("person_id", 10_000_000 + names_rng.permutation(int(n))),
        draws.draw_names(names_rng, homes.of, len(homes)),
        pl.Series("household", homes.of + 1),
        _labels("region", draws.REGIONS, region[homes.of]),
        _labels("municipality", draws.MUNICIPALITIES, town[homes.of]),
        pl.Series("age", who.age),
        _labels("sex", draws.SEXES, who.sex),
        _labels("marital_status", draws.MARITAL, who.marital),
    ]
    education = draws.draw_education(work_rng, who.age, homes.of, len(homes))
    columns += _work_columns(work_rng, missing_rng, who, education, draws.PAY_EFFECT[region][homes.of])
    columns += [
        draws.draw_diagnoses(health_rng, who.age),
        _birth_dates(people_rng, who.age),
        pl.Series("weight", weight[homes.of]),
    ]
    return pl.DataFrame(columns).select(list(_ROLES))


def _check(n: object, seed: object) -> None:
    import numpy as np

    def whole(value: object) -> bool:
        return isinstance(value, int | np.integer) and not isinstance(value, bool)

    problems = []
    if not whole(n) or int(n) < 1:  # type: ignore[call-overload]
        problems.append("census: `n` must be a whole number of persons, at least 1")
    if not whole(seed) or int(seed) < 0:  # type: ignore[call-overload]
        problems.append("census: `seed` must be a whole number, at least 0")
    if problems:
        raise PlanError(problems)


def _work_columns(
    rng: np.random.Generator,
    missing_rng: np.random.Generator,
    who: People,
    education: Ints,
    region_effect: Floats,
) -> list[pl.Series]:
    """Draw education, occupation, hours, income and savings, then lose a few answers."""
    import polars as pl

    from discretion.datasets import census_draws as draws

    occupation = draws.draw_occupations(rng, who.age, who.sex, education)
    hours = draws.draw_hours(rng, who.sex, occupation)
    income = draws.draw_income(rng, who.age, who.sex, education, occupation, hours, region_effect)
    savings = draws.draw_savings(rng, who.age, income)
    lost = missing_rng.random((2, len(education)), dtype="float32") < 0.02
    return [
        _labels("education", draws.EDUCATION, education, lost[0]),
        _labels("occupation", draws.OCCUPATIONS, occupation, lost[1]),
        pl.Series("hours", hours),
        _without(pl.Series("income", income), draws.draw_refusals(missing_rng, income)),
        pl.Series("savings", savings),
    ]


def _labels(name: str, labels: tuple[str, ...], codes: Ints, lost: Bools | None = None) -> pl.Series:
    import polars as pl

    series = pl.Series(name, labels).gather(codes)
    return series if lost is None else _without(series, lost)


def _without(series: pl.Series, lost: Bools) -> pl.Series:
    """Make some values missing."""
    import polars as pl

    return pl.select(pl.when(pl.Series(~lost)).then(series).alias(series.name)).to_series()


def _birth_dates(rng: np.random.Generator, age: Ints) -> pl.Series:
    """Draw a day of the year of birth; on the last day of the census year everybody has had that birthday."""
    import numpy as np
    import polars as pl

    starts = np.array([f"{CENSUS_YEAR - years}-01-01" for years in range(-1, 101)], dtype="datetime64[D]")
    days = np.diff(starts[::-1]).astype(np.int64)[::-1]
    day = (rng.random(len(age)) * days[age]).astype(np.int64)
    return pl.Series("birth_date", starts[age + 1] + day).cast(pl.Date)
