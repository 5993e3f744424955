"""MDAV: records are published as what stands for a small group of similar ones (P15, P16)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import PlanError
from discretion.kernels.arrays import Floats
from discretion.method import Decision
from discretion.part import Columns
from discretion.protect.microaggregation_columns import Encoded, encode, kind_of
from discretion.protect.microaggregation_groups import (
    Microaggregation,
    labels_by_pattern,
    publish,
    require_k,
    standardized,
    values_of,
)
from discretion.protect.ordered import mix_ties

if TYPE_CHECKING:
    import polars as pl

    from discretion.kernels.groups import Members

Distance = Literal["euclidean", "gower", "cosine", "jaccard", "edit"]


def _split(value: object) -> object:
    """Take a block written as one text, `a+b` (as on the command line), apart."""
    if isinstance(value, list | tuple):
        return tuple(item.split("+") if isinstance(item, str) else item for item in value)
    return value


Blocks = Annotated[tuple[Columns, ...], BeforeValidator(_split)]


class Mdav(Microaggregation, kind="mdav"):
    """Replace each record's values by the mean of its group of at least k similar records.

    Groups of k to 2k−1 records are built by MDAV: the record farthest from the center and its k−1 nearest form a
    group, then the record farthest from that one and its nearest, until fewer than 3k are left. Ties go to the lowest
    row.

    Guarantees k-anonymity over `columns` taken together (and only over these), when all columns are in one block and
    all values are replaced; it is up to you to name all quasi-identifiers. With `blocks` k-anonymity holds over each
    block on its own and not over several; with `replace: one` it does not hold at all. Does not protect against
    attribute disclosure inside a group: similar records have similar secrets. Means of numeric columns hold exactly
    (with `aggregate: mean`, all values replaced, nothing suppressed); variances shrink.

    Numbers (and dates) become the mean, median or most frequent value of their group, ordinal columns the lower
    median in the order of the schema or of the type, nominal columns the most frequent value, the first in order of
    equally frequent ones. Records are compared by one of these distances:

    - `euclidean` (numbers; the default for them): on columns divided by their standard deviation. Time about
      O(n log n) for few columns, memory linear in n.
    - `gower` (numbers, dates, ordinal, nominal; the default when one column is not a number): the sum over the columns
      of |x − y| / range, of the difference of ranks / (number of ranks − 1), and of 0 or 1.
    - `cosine` (columns of 0 and 1, or true and false): one minus the cosine; the most frequent value is released.
    - `jaccard` (one column of sets): 1 − |A ∩ B| / |A ∪ B|; the items that more than half the group have are released.
    - `edit` (one column of texts): the number of characters to insert, delete or replace; the text of the group with
      the least sum of distances to it is released. The center is the best of at most 64 texts of the column.

    For `gower`, `jaccard` and `edit` every record left is looked at for every group: time O(n²/k), memory linear
    in n; 100,000 records of five columns take seconds, ten times as many about a hundred times as long. Your own
    distance and aggregate: `with_functions`.

    Missing values stay missing. With `euclidean` and `cosine`, records are grouped with those that miss the same
    columns; where fewer than k records share a pattern of missing values, their values in these columns are suppressed,
    so that the guarantee holds. With the other distances, missing is a category of its own, at the largest distance
    from every value; where a group has it beside values, the column is suppressed for the whole group.

    References
    ----------
    Domingo-Ferrer & Mateo-Sanz (2002), IEEE TKDE 14(1); Domingo-Ferrer & Torra (2005), DMKD 11; Gower (1971),
    Biometrics 27(4); catalogue P16.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> ages = pl.DataFrame({"age": [42, 28, 50, 23, 12, 68, 30, 46, 55, 61]})
    >>> dc.Mdav(columns=["age"], k=3)(ages)["age"].round(2).to_list()
    [42.0, 21.0, 42.0, 21.0, 21.0, 61.33, 42.0, 42.0, 61.33, 61.33]
    >>> people = pl.DataFrame({"age": [30, 32, 34, 70, 72, 74], "town": ["a", "a", "b", "b", "c", "c"]})
    >>> dc.Mdav(columns=["age", "town"], k=3)(people).rows()
    [(32.0, 'a'), (32.0, 'a'), (32.0, 'a'), (72.0, 'c'), (72.0, 'c'), (72.0, 'c')]
    """

    columns: Columns = ()
    """columns to aggregate together; without it, the numeric quasi-identifiers and sensitive columns"""
    blocks: Blocks = ()
    """instead of `columns`: lists of columns, each grouped on its own (on the command line: a+b,c)"""
    distance: Distance | None = None
    """how records are compared; without it, euclidean for numbers, gower as soon as one column is not a number"""

    guarantee: ClassVar[str] = (
        "Records were published as what stands for small groups of similar records, so that no record can be told from "
        "the others of its group by the columns that were grouped together (unless the settings name blocks, between "
        "which this does not hold, or say that one value per group was replaced, after which it does not hold at all); "
        "what is published is still close to each member."
    )

    @model_validator(mode="after")
    def _one_list_of_columns(self) -> Self:
        named = [name for block in self.blocks for name in block]
        if self.blocks and self.columns:
            raise ValueError("give `columns` or `blocks`, not both")
        if any(not block for block in self.blocks):
            raise ValueError("`blocks` has a block without columns")
        if twice := [name for name in named if named.count(name) > 1]:
            raise ValueError(f"`blocks` names {twice[0]!r} twice")
        if both := set(named) & set(self.by):
            raise ValueError(f"{min(both)!r} stands both in `blocks` and in `by`")
        return self

    def with_functions(
        self,
        *,
        distance: Callable[[tuple[Any, ...], tuple[Any, ...]], float] | None = None,
        aggregate: Callable[[list[tuple[Any, ...]]], Sequence[Any]] | None = None,
    ) -> Mdav:
        """Give the method with a distance or an aggregate of your own, in Python; it cannot be written into a plan.

        `distance(one, other)` takes two records (tuples of the values of the block's columns, missing as None) and
        gives a number of at least 0; the center is the best of at most 64 records. `aggregate(records)` takes the
        records of a group and gives one value for each column. A column that somebody in the group misses is suppressed
        for the whole group; where one value per group is replaced, the function does not see records that miss a
        value. Time O(n²/k) calls of your distance.

        Examples
        --------
        >>> import polars as pl, discretion as dc
        >>> words = pl.DataFrame({"word": ["a", "bb", "ccc", "dddddd", "eeeeeee", "ffffffff"]})
        >>> by_length = lambda one, other: abs(len(one[0]) - len(other[0]))
        >>> longest = lambda records: (max((word for word, in records), key=len),)
        >>> method = dc.Mdav(columns=["word"], k=3).with_functions(distance=by_length, aggregate=longest)
        >>> method(words)["word"].to_list()
        ['ccc', 'ccc', 'ccc', 'ffffffff', 'ffffffff', 'ffffffff']
        """
        from discretion.protect.microaggregation_functions import MdavWithFunctions

        return MdavWithFunctions.build(self, distance, aggregate)

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Group the records, block by block, and replace their values by what stands for the group."""
        if not self.blocks:
            return self._aggregate_block(data, data.choose(self.columns, "perturb"), ctx)
        data.require([name for block in self.blocks for name in block])
        for block in self.blocks:
            data = self._aggregate_block(data, block, ctx)
        return data

    def _aggregate_block(self, data: Dataset, block: tuple[str, ...], ctx: Context) -> Dataset:
        distance = self._distance(data, block)
        plain = distance == "euclidean" and self.aggregate == "mean" and self.replace == "all"
        if plain and len(block) == 1 and not data.count_missing(block[0]):
            means = _means_of_one(data.number(block[0]), self.k, block, ctx)
            return data.with_columns({block[0]: means}, integers=self.integers)
        members = self._members(data, block, distance, ctx)
        values = self._values(data, block, distance, members)
        integers = self.integers or self.aggregate == "mode" or distance == "cosine"
        return publish(data, values, members, self.replace, integers, ctx)

    def _distance(self, data: Dataset, block: tuple[str, ...]) -> Distance:
        chosen = self.distance
        if chosen in ("jaccard", "edit") and len(block) > 1:
            raise PlanError(f"mdav: distance: {chosen} is for one column, got {len(block)}; give them in `blocks`")
        if chosen is None:
            numbers = all(kind_of(data, name) == "number" and data.is_numeric(name) for name in block)
            return "euclidean" if numbers else "gower"
        return chosen

    def _members(self, data: Dataset, block: tuple[str, ...], distance: Distance, ctx: Context) -> Members:
        """Group the records."""
        from discretion.protect import microaggregation_distances as distances

        if distance == "euclidean":
            return labels_by_pattern(data.numbers(block), block, self.k, lambda part: self._groups(part, ctx))
        if distance == "gower":
            return distances.mixed_members([encode(data, name) for name in block], self.k, ctx)
        if distance == "cosine":
            return distances.binary_members(data, block, self.k, ctx)
        kind = distances.Sets if distance == "jaccard" else distances.Texts
        return kind.of(data, block[0]).members(self.k, ctx)

    def _values(
        self, data: Dataset, block: tuple[str, ...], distance: Distance, members: Members
    ) -> dict[str, pl.Series]:
        """Give what stands for each group, column by column."""
        from discretion.protect import microaggregation_distances as distances

        if distance in ("jaccard", "edit"):
            kind = distances.Sets if distance == "jaccard" else distances.Texts
            return {block[0]: kind.of(data, block[0]).of_groups(data.frame[block[0]], members, self.replace)}
        if distance == "euclidean":
            columns = [Encoded(name, "number", data.number(name)) for name in block]
        else:
            columns = [encode(data, name) for name in block]
        aggregate = "mode" if distance == "cosine" else self.aggregate
        return values_of(data, columns, members, aggregate, self.replace)

    def _groups(self, x: Floats, ctx: Context) -> NDArray[np.signedinteger]:
        """Group complete records of numbers by MDAV."""
        from discretion.kernels.groups import cut_labels
        from discretion.kernels.mdav import mdav_groups
        from discretion.kernels.order import sorted_with_order
        from discretion.kernels.univariate import mdav_bounds

        if x.shape[1] == 1:
            ranked, order = sorted_with_order(x[:, 0])
            return cut_labels(mdav_bounds(ranked, self.k, order), mix_ties(ranked, order, ctx))
        return mdav_groups(standardized(x), self.k, ctx.progress)


def _means_of_one(x: Floats, k: int, columns: Sequence[str], ctx: Context) -> Floats:
    """Give the means of groups on one complete column, without listing the groups."""
    from discretion.kernels.order import sorted_with_order
    from discretion.kernels.univariate import mdav_bounds, replace_by_mean

    require_k(len(x), k, columns)
    ranked, order = sorted_with_order(x)
    return replace_by_mean(ranked, mdav_bounds(ranked, k, order), mix_ties(ranked, order, ctx))
