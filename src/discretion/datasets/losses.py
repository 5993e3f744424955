"""Worked tables about what a release loses: precision, height, class sizes, entropy, predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discretion.datasets import blocks

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset

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
    plain, *coarser = blocks.versions(_AGE_AND_ZIP)
    original = blocks.dataset(plain, hierarchies={"age": Hierarchy.tree(ages), "zip": zips})
    one_age, all_ages, ages_and_zips, top = coarser
    return (
        original,
        blocks.released(original, one_age, {"age": np.array([1, 0, 0, 0]), "zip": 0}),
        blocks.released(original, all_ages, {"age": 1, "zip": 0}),
        blocks.released(original, ages_and_zips, {"age": 1, "zip": 2}),
        blocks.released(original, top, {"age": 2, "zip": 2}),
    )


def class_sizes() -> tuple[Dataset, Dataset, Dataset]:
    """Give releases with classes of 2 and 4, of 2, 2 and 2, and one of 7 (U7, U8).

    With k = 2 the average class size is 1.5, 1 and 3.5; discernibility 20, 12 and 49.
    """
    young, adult, older = "[20, 24] | M | 6002027*", "[25, 29] | F | 6002029*", "[30, 34] | F | 6002029*"
    lines = ([young] * 2 + [adult] * 4, [young] * 2 + [adult] * 2 + [older] * 2, [young] * 7)
    first, second, third = (blocks.dataset("\n".join(["age | sex | zip", *rows])) for rows in lines)
    return first, second, third


def entropy_example() -> tuple[Dataset, Dataset, Dataset]:
    """Give ages, the same in fives and in tens (U10): non-uniform entropy 13.51 and 23.22."""
    from discretion.data.hierarchy import Hierarchy

    plain, fives, tens = blocks.versions("""
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
    original = blocks.dataset(plain, hierarchies={"age": Hierarchy.intervals(width=5, levels=3, origin=1)})
    return original, blocks.released(original, fives, {"age": 1}), blocks.released(original, tens, {"age": 2})


def tree_predictions() -> Dataset:
    """Give what three decision trees predict for eight flowers (Table 13; U11).

    `model` was trained on the original, the others on data with noise: `mild_noise` agrees with it on 7 of 8,
    `strong_noise` on 5 of 8.
    """
    return blocks.dataset(
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
