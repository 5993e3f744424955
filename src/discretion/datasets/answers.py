"""Worked tables about answers to questions: differential privacy, randomized response, on-line queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discretion.datasets import blocks

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset


def adjacent_ages() -> tuple[Dataset, Dataset, Dataset]:
    """Give the ages D1, then D2 without the 42 and D3 without the 12 (Table 7; M4, O3).

    Means 41.7, 41.67, 45.0.
    """
    ages = ["42", "12", "28", "51", "23", "68", "30", "46", "55", "62"]
    everyone, without_first, without_second = (
        blocks.dataset("\n".join(["age", *kept]), {"age": "sensitive"})
        for kept in (ages, ages[1:], ages[:1] + ages[2:])
    )
    return everyone, without_first, without_second


def coin_answers() -> Dataset:
    """Give the outcomes of the two-coin answer and their probabilities (Table 8; P18).

    P(yes | yes) = 0.75 and P(yes | no) = 0.25, a ratio of 3, so ε = ln 3.
    """
    return blocks.dataset(
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
    d1, d2, d3, d4 = (blocks.dataset("\n".join(["name | schizophrenia", *rows]), roles) for rows in lists)
    return d1, d2, d3, d4


def students() -> Dataset:
    """Give nine former students with incomes, behind a statistical database (O2).

    The sum of incomes in EE is 240000, of men in EE 190000: whoever hears both knows the income of the one
    woman.
    """
    return blocks.dataset(
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
