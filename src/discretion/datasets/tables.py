"""The worked tables, and how to get one by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from discretion.errors import PlanError, unknown

if TYPE_CHECKING:
    import polars as pl

    from discretion.data.dataset import Dataset, Level

# Worked tables about classes of records that look the same: k-anonymity, l-diversity, generalization.

# Worked tables of numbers and their perturbed releases.


def _original_and_two(block: str) -> tuple[Dataset, Dataset, Dataset]:
    first, second, third = _versions(block)
    original = _dataset(first)
    return original, _released(original, second), _released(original, third)


def linkage_example() -> tuple[Dataset, Dataset, Dataset]:
    """Give X and the releases X', X'' of the linkage attack (Table 9; R11, R12).

    Plain Euclidean distance from each record of X: nearest in X' 2, 1, 3, 4, 5 (60 % right); in X'' 1, 1, 1,
    4, 4 (40 % right with the first record on ties; Reid_k = 0.4 with ties as sets).
    """
    return _original_and_two("""
        v1 | v2   | v3    || v1 | v2   | v3    || v1 | v2   | v3
        10 | 33.4 | 1000  || 0  | 30.2 | 1000  || 0  | 20.0 | 900
        0  | 28.9 | 1010  || 0  | 31.2 | 1000  || 0  | 20.0 | 900
        30 | 10.3 | 922   || 20 | 12.0 | 1000  || 0  | 20.0 | 900
        20 | 80.0 | 20200 || 30 | 82.1 | 20000 || 20 | 70.0 | 20000
        30 | 59.0 | 15320 || 20 | 55.2 | 15000 || 20 | 70.0 | 20000
    """)


def divergence_example() -> tuple[Dataset, Dataset, Dataset]:
    """Give X and the releases X', X'' of the simple information loss (Table 11; U3).

    Average divergence 2563.01 and 2722.62; mean absolute difference 41.6733 and 337.28.
    """
    return _original_and_two("""
        v1 | v2   | v3    || v1 | v2   | v3    || v1 | v2   | v3
        1  | 33.4 | 1000  || 0  | 30.2 | 1000  || 0  | 40.0 | 900
        0  | 28.9 | 1010  || 0  | 31.2 | 1000  || 0  | 20.0 | 1000
        3  | 10.3 | 922   || 2  | 12.0 | 1000  || 2  | 20.0 | 900
        2  | 80.0 | 20200 || 3  | 82.1 | 20000 || 2  | 70.0 | 20000
        3  | 59.0 | 15320 || 2  | 55.2 | 15000 || 2  | 50.0 | 20000
    """)


def error_example() -> tuple[Dataset, Dataset, Dataset]:
    """Give X and two releases with additive noise, X' plain and X'' correlated (Table 25; U1).

    X': MSE, MAE, MRE 10.375, 2.344, 0.2013 on the values; 6.233e-4, 0.017654, 0.017716 on the correlations;
    36.602, 5.0877, 0.080997 on the covariances (1/N). X'': 1202.93, 27.043, 1.7503; 1.814e-6, 9.523e-4,
    9.557e-4; 5650.34, 45.8747, 0.212277. X'' also shifts the means.
    """
    return _original_and_two("""
        v1 | v2 || v1    | v2    || v1    | v2
        10 | 90 || 10.70 | 83.42 || 16.79 | 146.61
        9  | 80 || 10.45 | 81.07 || 14.66 | 126.57
        8  | 70 || 8.50  | 77.46 || 13.37 | 114.44
        7  | 60 || 7.58  | 58.56 || 13.68 | 118.22
        6  | 50 || 5.49  | 54.46 || 10.67 | 88.79
        5  | 40 || 5.62  | 36.86 || 11.55 | 95.05
        4  | 30 || 4.99  | 32.88 || 9.82  | 78.29
        3  | 20 || 3.47  | 18.15 || 8.24  | 61.17
        2  | 10 || 1.06  | 16.55 || 7.44  | 55.94
        1  | 9  || 1.92  | 5.23  || 6.49  | 57.07
    """)


def noise_example() -> tuple[Dataset, Dataset, Dataset]:
    """Give ages and incomes with uncorrelated and with correlated noise (Tables 17 and 18; P10, P11).

    Mean age 41.7, variance (1/N) 294.21, so with half of it the noise on age is N(0, 147.105). Correlation of
    the two columns: 0.149701 in the original, 0.36233 with uncorrelated, 0.148345 with correlated noise.
    """
    return _original_and_two("""
        age | income   || age | income    || age | income
        42  | 20000.00 || 56  | 6995.740  || 40  | 21713.166
        28  | 21000.00 || 41  | 25430.243 || 27  | 20104.999
        51  | 19003.20 || 35  | 3755.508  || 52  | 23539.095
        23  | 40000.55 || 13  | 39011.350 || 21  | 37902.947
        12  | 10000.00 || 5   | 1161.667  || 10  | 9986.307
        68  | 9500.33  || 57  | 23244.377 || 68  | 8741.154
        30  | 40400.00 || 24  | 43739.953 || 31  | 41709.833
        46  | 30300.00 || 40  | 9228.542  || 45  | 31064.646
        55  | 10100.00 || 49  | 10513.215 || 55  | 11442.116
        62  | 80700.20 || 75  | 77855.080 || 60  | 78903.840
    """)


def rank_swap_example() -> tuple[Dataset, Dataset]:
    """Give ages before and after rank swapping with 30 percent (Table 21; P13).

    The values are the same ten, and no rank moved by more than three places.
    """
    return _ages(
        "42 28 51 23 12 68 30 46 55 61",
        "28 42 30 12 23 61 51 55 46 68",
    )


def microaggregation_example() -> tuple[Dataset, Dataset]:
    """Give ages before and after microaggregation with k = 3 (Table 22; P15, P16).

    MDAV: {12, 23, 28}, {30, 42, 46, 50}, {55, 61, 68} with means 21, 42, 61.33 (61 in the release, rounded)
    and SSE 442.667. The optimum is {12, 23, 28, 30}, {42, 46, 50}, {55, 61, 68} with SSE 311.417.
    """
    return _ages(
        "42 28 50 23 12 68 30 46 55 61",
        "42 21 42 21 21 61 42 42 61 61",
    )


def _ages(before: str, after: str) -> tuple[Dataset, Dataset]:
    original = _dataset("\n".join(["age", *before.split()]))
    return original, _released(original, "\n".join(["age", *after.split()]))


# Worked tables about what a release loses: precision, height, class sizes, entropy, predictions.

_AGE_AND_ZIP = """
age | zip      || age      | zip      || age      | zip      || age      | zip      || age      | zip
23  | 60020270 || [20, 24] | 60020270 || [20, 24] | 60020270 || [20, 24] | 600202** || [20, 29] | 600202**
25  | 60020275 || 25       | 60020275 || [25, 29] | 60020275 || [25, 29] | 600202** || [20, 29] | 600202**
27  | 60020290 || 27       | 60020290 || [25, 29] | 60020290 || [25, 29] | 600202** || [20, 29] | 600202**
29  | 60020292 || 29       | 60020292 || [25, 29] | 60020292 || [25, 29] | 600202** || [20, 29] | 600202**
"""


def precision_example() -> tuple[Dataset, Dataset, Dataset, Dataset, Dataset]:
    """Give ages and zips generalized further and further (U5, U6, U9).

    The original; one age at level 1; all ages at level 1; ages at level 1 and zips at level 2; both at
    level 2. Both hierarchies have height 2. Precision 1, 0.9375, 0.75, 0.25, 0; height of the last 2 + 2 = 4.
    The age hierarchy has seven leaves, two of them (23, 24) under [20, 24]: with weight 2 on age the first
    record of the first release has ILoss 2/7, the release 0.0714.
    """
    import numpy as np

    from discretion.data.hierarchy import Hierarchy

    ages = {"[20, 29]": {"[20, 24]": [23, 24], "[25, 29]": [25, 26, 27, 28, 29]}}
    zips = [(z, z[:7] + "*", z[:6] + "**") for z in ("60020270", "60020275", "60020290", "60020292")]
    plain, *coarser = _versions(_AGE_AND_ZIP)
    original = _dataset(plain, hierarchies={"age": Hierarchy.tree(ages), "zip": zips})
    one_age, all_ages, ages_and_zips, top = coarser
    return (
        original,
        _released(original, one_age, {"age": np.array([1, 0, 0, 0]), "zip": 0}),
        _released(original, all_ages, {"age": 1, "zip": 0}),
        _released(original, ages_and_zips, {"age": 1, "zip": 2}),
        _released(original, top, {"age": 2, "zip": 2}),
    )


def class_sizes() -> tuple[Dataset, Dataset, Dataset]:
    """Give releases with classes of 2 and 4, of 2, 2 and 2, and one of 7 (U7, U8).

    With k = 2 the average class size is 1.5, 1 and 3.5; discernibility 20, 12 and 49.
    """
    young, adult, older = "[20, 24] | M | 6002027*", "[25, 29] | F | 6002029*", "[30, 34] | F | 6002029*"
    lines = ([young] * 2 + [adult] * 4, [young] * 2 + [adult] * 2 + [older] * 2, [young] * 7)
    first, second, third = (_dataset("\n".join(["age | sex | zip", *rows])) for rows in lines)
    return first, second, third


def entropy_example() -> tuple[Dataset, Dataset, Dataset]:
    """Give ages, the same in fives and in tens (U10): non-uniform entropy 13.51 and 23.22."""
    from discretion.data.hierarchy import Hierarchy

    plain, fives, tens = _versions("""
        age || age      || age
        23  || [21, 25] || [21, 30]
        25  || [21, 25] || [21, 30]
        27  || [26, 30] || [21, 30]
        29  || [26, 30] || [21, 30]
        28  || [26, 30] || [21, 30]
        34  || [31, 35] || [31, 40]
        32  || [31, 35] || [31, 40]
        37  || [36, 40] || [31, 40]
        38  || [36, 40] || [31, 40]
        39  || [36, 40] || [31, 40]
    """)
    original = _dataset(plain, hierarchies={"age": Hierarchy.intervals(width=5, levels=3, origin=1)})
    return original, _released(original, fives, {"age": 1}), _released(original, tens, {"age": 2})


def tree_predictions() -> Dataset:
    """Give what three decision trees predict for eight flowers (Table 13; U11).

    `model` was trained on the original, the others on data with noise: `mild_noise` agrees with it on 7 of 8,
    `strong_noise` on 5 of 8.
    """
    return _dataset(
        """
        petal_width | sepal_width | model      | mild_noise | strong_noise
        0.5         | 3.0         | setosa     | setosa     | setosa
        0.2         | 3.5         | setosa     | setosa     | setosa
        2.7         | 1.3         | versicolor | versicolor | versicolor
        1.8         | 3.2         | virginica  | virginica  | virginica
        2.9         | 1.3         | virginica  | virginica  | virginica
        0.5         | 2.1         | setosa     | setosa     | versicolor
        2.1         | 2.6         | virginica  | virginica  | versicolor
        1.7         | 3.2         | versicolor | virginica  | virginica
        """,
        dict.fromkeys(("petal_width", "sepal_width", "model", "mild_noise", "strong_noise"), "other"),
    )


# Worked tables about answers to questions: differential privacy, randomized response, on-line queries.


def adjacent_ages() -> tuple[Dataset, Dataset, Dataset]:
    """Give the ages D1, then D2 without the 42 and D3 without the 12 (Table 7; M4, O3).

    Means 41.7, 41.67, 45.0.
    """
    ages = ["42", "12", "28", "51", "23", "68", "30", "46", "55", "62"]
    everyone, without_first, without_second = (
        _dataset("\n".join(["age", *kept]), {"age": "sensitive"}) for kept in (ages, ages[1:], ages[:1] + ages[2:])
    )
    return everyone, without_first, without_second


def coin_answers() -> Dataset:
    """Give the outcomes of the two-coin answer and their probabilities (Table 8; P18).

    P(yes | yes) = 0.75 and P(yes | no) = 0.25, a ratio of 3, so ε = ln 3.
    """
    return _dataset(
        """
        truth | first_coin | second_coin | answer | probability
        yes   | heads      | none        | yes    | 0.5
        yes   | tails      | heads       | yes    | 0.25
        yes   | tails      | tails       | no     | 0.25
        no    | heads      | none        | no     | 0.5
        no    | tails      | heads       | yes    | 0.25
        no    | tails      | tails       | no     | 0.25
        """,
        dict.fromkeys(("truth", "first_coin", "second_coin", "answer", "probability"), "other"),
    )


def schizophrenia_counts() -> tuple[Dataset, Dataset, Dataset, Dataset]:
    """Give a list of patients and three that differ by one record (Table 20; O3).

    D1, then D2 with one ill patient more, D3 without one ill patient, D4 with one healthy patient more. The
    counts of the ill are 2, 3, 1, 2: the count has global sensitivity 1.
    """
    patients = ["person 1 | 1", "person 2 | 0", "person 3 | 1", "person 4 | 0", "person 5 | 0"]
    lists = (patients, ["person 6 | 1", *patients], patients[1:], ["person 7 | 0", *patients])
    roles = {"name": "identifier", "schizophrenia": "sensitive"}
    d1, d2, d3, d4 = (_dataset("\n".join(["name | schizophrenia", *rows]), roles) for rows in lists)
    return d1, d2, d3, d4


def students() -> Dataset:
    """Give nine former students with incomes, behind a statistical database (O2).

    The sum of incomes in EE is 240000, of men in EE 190000: whoever hears both knows the income of the one
    woman.
    """
    return _dataset(
        """
        name     | sex    | major | class | income
        person 1 | female | CS    | 1980  | 68000
        person 2 | female | EE    | 1980  | 50000
        person 3 | male   | EE    | 1978  | 70000
        person 4 | female | CS    | 1978  | 80000
        person 5 | male   | EE    | 1981  | 60000
        person 6 | male   | CS    | 1978  | 76000
        person 7 | male   | CS    | 1981  | 64000
        person 8 | male   | EE    | 1978  | 60000
        person 9 | male   | CS    | 1979  | 70000
        """,
        {"name": "identifier", "income": "sensitive"},
    )


# Small tables as blocks of text: a line of column names, then a line for each record, cells between bars.

_TEXTS = frozenset({"zip"})
"""Columns that stay text although they look like numbers."""


def _frame(block: str) -> pl.DataFrame:
    """Read a block; a column whose cells are all numbers becomes numeric, except the codes in `_TEXTS`."""
    import polars as pl

    head, *rows = [[cell.strip() for cell in line.split("|")] for line in block.strip().splitlines()]
    cells = dict(zip(head, zip(*rows, strict=True), strict=True))
    return pl.DataFrame({name: list(found) if name in _TEXTS else _numbers(found) for name, found in cells.items()})


def _numbers(cells: tuple[str, ...]) -> list[int] | list[float] | list[str]:
    try:
        return [int(cell) for cell in cells]
    except ValueError:
        pass
    try:
        return [float(cell) for cell in cells]
    except ValueError:
        return list(cells)


def _dataset(block: str, roles: Mapping[str, object] | None = None, **more: Any) -> Dataset:
    """Read a block as a Dataset; columns without a role given are quasi-identifiers."""
    from discretion.data.dataset import Dataset

    found = _frame(block)
    return Dataset(found, roles={**dict.fromkeys(found.columns, "quasi"), **(roles or {})}, **more)


def _released(original: Dataset, block: str, levels: Mapping[str, Level] | None = None) -> Dataset:
    """Read a block as a release of the original, record by record; the levels applied are recorded."""
    from discretion.data.dataset import Dataset

    new = Dataset(_frame(block), roles={name: original.schema[name].roles for name in original.columns})
    aligned = new.matched_to(original, original.row_ids)
    return aligned.with_levels(levels) if levels else aligned


def _versions(block: str) -> list[str]:
    """Split a block of versions that stand side by side, with double bars between them."""
    rows = [line.split("||") for line in block.strip().splitlines()]
    return ["\n".join(part) for part in zip(*rows, strict=True)]


_INCOME = {"income": "sensitive"}

_PEOPLE = """
occupation     | zip   | age | sex | income
Runner         | 80222 | 42  | M   | 25050
School teacher | 40831 | 28  | F   | 18098
Police det.    | 97206 | 51  | M   | 28760
Professor      | 40831 | 23  | M   | 26062
Student        | 40831 | 12  | F   | 790
Police capt.   | 97206 | 68  | M   | 30033
Boxer          | 80237 | 30  | F   | 55093
Horse rider    | 80911 | 46  | M   | 17330
Military lt.   | 97201 | 55  | F   | 15700
"""


def identified_people() -> Dataset:
    """Give microdata with an identifier, quasi-identifiers and a confidential income (Table 2; D2).

    The figures of `people_without_names`, except that the professor lives in 40505 here.
    """
    import polars as pl

    from discretion.data.dataset import Dataset

    plain = _frame(_PEOPLE)
    names = pl.Series("name", [f"person {number}" for number in range(1, 10)])
    moved = pl.when(pl.col("occupation") == "Professor").then(pl.lit("40505")).otherwise(pl.col("zip")).alias("zip")
    roles = {"name": "identifier", **dict.fromkeys(plain.columns, "quasi"), **_INCOME}
    return Dataset(plain.with_columns(moved).insert_column(0, names), roles=roles)


def people_without_names() -> Dataset:
    """Give microdata whose identifiers were dropped and that still give people away (Table 3; R10).

    Somebody who knows an occupation finds the record with certainty; zip 40831 and woman → 1/2; zip → 1/3;
    woman → 1/4.
    """
    return _dataset(_PEOPLE, _INCOME)


def three_anonymous() -> Dataset:
    """Give a table that is 3-anonymous over occupation, zip and sex (Table 4; M1): two classes of three."""
    return _dataset(
        """
        occupation | zip   | sex | income
        Teacher    | 80122 | M   | 10000
        Teacher    | 80122 | M   | 18098
        Writer     | 97234 | F   | 28000
        Teacher    | 80122 | M   | 20100
        Writer     | 97234 | F   | 30000
        Writer     | 97234 | F   | 9210
        """,
        _INCOME,
    )


def homogeneous_classes() -> Dataset:
    """Give a 3-anonymous table that discloses incomes all the same (Table 5; R8).

    Everybody in 80100 has 10000; everybody in 97222 between 23000 and 28000.
    """
    return _dataset(
        """
        occupation | zip   | sex | income
        Teacher    | 80100 | M   | 10000
        Teacher    | 80100 | M   | 10000
        Teacher    | 80100 | M   | 10000
        Writer     | 97222 | F   | 28000
        Writer     | 97222 | F   | 25000
        Writer     | 97222 | F   | 23000
        """,
        _INCOME,
    )


def diverse_classes() -> Dataset:
    """Give the example of l-diversity and t-closeness (Table 6a; M2, M3).

    Distinct diversity 2; entropies 0.9183 and 1.5850, so entropy diversity 1.8899; recursive (3, 2) holds and
    (2, 2) fails; t-closeness 1/3 with the ordered distance and 1/2 with the equal distance.
    """
    return _dataset(
        """
        occupation | zip   | sex | income
        Teacher    | 80100 | M   | 10000
        Teacher    | 80100 | M   | 20000
        Teacher    | 80100 | M   | 10000
        Writer     | 97222 | F   | 28000
        Writer     | 97222 | F   | 25000
        Writer     | 97222 | F   | 23000
        """,
        _INCOME,
    )


_GENERALIZED = """
occupation     | zip   | age | marital_status || occupation      | zip   | age      | marital_status
Runner         | 80222 | 42  | Married        || Sports          | 80*** | [30, 49] | Married
School teacher | 40831 | 28  | Divorced       || Education       | 40*** | [10, 29] | Divorced or Widow/er
Police det.    | 97206 | 51  | Widow/er       || Law enforcement | 97*** | [50, 69] | Divorced or Widow/er
Professor      | 40831 | 23  | Married        || Education       | 40*** | [10, 29] | Married
Student        | 40831 | 12  | Single         || Education       | 40*** | [10, 29] | Single
Police capt.   | 97206 | 68  | Single         || Law enforcement | 97*** | [50, 69] | Single
Boxer          | 80237 | 30  | Divorced       || Sports          | 80*** | [30, 49] | Divorced or Widow/er
Horse rider    | 80911 | 46  | Married        || Sports          | 80*** | [30, 49] | Married
Military lt.   | 97201 | 55  | Single         || Law enforcement | 97*** | [50, 69] | Single
"""


def generalization_example() -> tuple[Dataset, Dataset]:
    """Give people before and after generalization (Tables 15 and 16; P3).

    The hierarchies of the original lead to the release: occupation level 1 (an ontology), zip level 3 (two
    digits left), age level 1 (intervals of 20 years), marital status level 1 (a grouping). The release is
    3-anonymous over occupation, zip and age only; with marital status k = 1.
    """
    from discretion.data.hierarchy import Hierarchy

    jobs = {
        "Sports": ["Runner", "Boxer", "Horse rider"],
        "Education": ["School teacher", "Professor", "Student"],
        "Law enforcement": ["Police det.", "Police capt.", "Military lt."],
    }
    hierarchies = {
        "occupation": Hierarchy.tree(jobs),
        "zip": Hierarchy.masking(keep=2),
        "age": Hierarchy.intervals(cuts=[[10, 30, 50, 70]]),
        "marital_status": Hierarchy.groups({"Divorced or Widow/er": ["Divorced", "Widow/er"]}),
    }
    before, after = _versions(_GENERALIZED)
    original = _dataset(before, hierarchies=hierarchies)
    levels = {"occupation": 1, "zip": 3, "age": 1, "marital_status": 1}
    return original, _released(original, after, levels)


def generalized_release() -> Dataset:
    """Give a release by generalization that is only 1-anonymous (Table 23; M1, R10).

    (Education, 40***, [10, 29], Married) is unique. With `teachers_list` record 5 is re-identified.
    """
    return _dataset(
        """
        occupation      | zip   | age      | marital_status       | income
        Sports          | 80*** | [30, 49] | Married              | 25050
        Education       | 40*** | [10, 29] | Divorced or Widow/er | 18098
        Law enforcement | 97*** | [50, 69] | Divorced or Widow/er | 28760
        Education       | 40*** | [10, 29] | Married              | 26062
        Education       | 97*** | [10, 29] | Single               | 790
        Law enforcement | 97*** | [50, 69] | Single               | 30033
        Sports          | 80*** | [30, 49] | Divorced or Widow/er | 55093
        Sports          | 80*** | [30, 49] | Married              | 17330
        Law enforcement | 97*** | [50, 69] | Single               | 15700
        """,
        _INCOME,
    )


def teachers_list() -> Dataset:
    """Give a public list of teachers that an intruder links with `generalized_release` (Table 24; R10).

    `zip` is what the intruder knows of it from the city. The Portland teacher is record 5 of the release
    (identity disclosure); the Louisville teacher is record 2 or 4 (attribute disclosure); the others are
    not in it.
    """
    return _dataset(
        """
        name     | occupation | city             | zip
        person 1 | Education  | Portland         | 97***
        person 2 | Education  | Long Beach       | 90***
        person 3 | Education  | Louisville       | 40***
        person 4 | Education  | East Los Angeles | 90***
        person 5 | Education  | Springfield      | 62***
        person 6 | Education  | Anchorage        | 99***
        """,
        {"name": "identifier", "city": "other"},
    )


_FUNCTIONS: tuple[Callable[[], Dataset | tuple[Dataset, ...]], ...] = (
    identified_people,
    people_without_names,
    three_anonymous,
    homogeneous_classes,
    diverse_classes,
    generalization_example,
    generalized_release,
    teachers_list,
    adjacent_ages,
    coin_answers,
    schizophrenia_counts,
    students,
    linkage_example,
    divergence_example,
    error_example,
    noise_example,
    rank_swap_example,
    microaggregation_example,
    precision_example,
    class_sizes,
    entropy_example,
    tree_predictions,
)

_TABLES: Mapping[str, Callable[[], Dataset | tuple[Dataset, ...]]] = MappingProxyType(
    {function.__name__.replace("_", "-"): function for function in _FUNCTIONS}
)


def names() -> tuple[str, ...]:
    """Name the worked tables."""
    return tuple(_TABLES)


def table(name: str) -> Dataset | tuple[Dataset, ...]:
    """Give a worked table by name; several versions (the original first) come as a tuple.

    Examples
    --------
    >>> from discretion.datasets import table
    >>> table("three-anonymous")
    Dataset(6 rows × 4 columns: occupation [quasi], zip [quasi], sex [quasi], income [sensitive])
    """
    if name not in _TABLES:
        raise PlanError(unknown("table", name, _TABLES))
    return _TABLES[name]()


def describe(name: str) -> str:
    """Say in one line what a worked table shows."""
    if name not in _TABLES:
        raise PlanError(unknown("table", name, _TABLES))
    return (_TABLES[name].__doc__ or "").partition("\n")[0]
