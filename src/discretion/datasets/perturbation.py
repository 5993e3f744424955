"""Worked tables of numbers and their perturbed releases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discretion.datasets import blocks

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset


def _original_and_two(block: str) -> tuple[Dataset, Dataset, Dataset]:
    first, second, third = blocks.versions(block)
    original = blocks.dataset(first)
    return original, blocks.released(original, second), blocks.released(original, third)


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
    original = blocks.dataset("\n".join(["age", *before.split()]))
    return original, blocks.released(original, "\n".join(["age", *after.split()]))
