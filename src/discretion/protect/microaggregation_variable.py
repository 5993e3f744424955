"""V-MDAV: microaggregation whose groups grow where records lie close together (P16)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discretion.context import Context
from discretion.protect.microaggregation_groups import Floats, Microaggregation, standardized


class VariableMdav(Microaggregation, kind="variable-mdav"):
    """Replace values by the mean of a group of k to 2k−1 similar records, larger where records lie close together.

    V-MDAV: the record farthest from the mean of all records and its k−1 nearest form a group; then the record left
    that is nearest to the group joins, as long as its distance to the group is less than `gamma` times its distance to
    the nearest other record left. The last records, fewer than k, join the nearest group that has fewer than 2k−1.
    Distances are Euclidean on columns divided by their standard deviation; ties go to the lowest row. On data in
    clusters the groups follow the clusters, and as a rule less is lost than with `Mdav` (not where all clusters have
    exactly k records); on scattered data about as much or more.

    Guarantees k-anonymity over `columns` taken together (and only over these), when all values are replaced; with
    `replace: one` it does not hold. Does not protect against attribute disclosure inside a group. Means of the columns
    hold exactly (with `aggregate: mean`, all values replaced, nothing suppressed).

    Missing values are treated as by `Mdav`: records are grouped with those that miss the same columns, and rare
    patterns are suppressed. Time about O(n log n) for few columns, memory linear in n.

    References
    ----------
    Solanas & Martínez-Ballesté (2006), V-MDAV: a multivariate microaggregation with variable group size, COMPSTAT;
    catalogue P16.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> ages = pl.DataFrame({"age": [20, 21, 22, 23, 60, 61, 62, 90, 91, 92]})
    >>> dc.VariableMdav(columns=["age"], k=3, gamma=1.1)(ages)["age"].to_list()
    [21.5, 21.5, 21.5, 21.5, 61.0, 61.0, 61.0, 91.0, 91.0, 91.0]
    """

    gamma: float = Field(0.2, ge=0)
    """how readily groups grow: about 0.2 for scattered data, about 1.1 for data in clusters; 0: not at all"""

    guarantee: ClassVar[str] = (
        "Records were published as what stands for small groups of similar records, so that no record can be told from "
        "the others of its group by these columns (unless the settings say that one value per group was replaced); "
        "what is published is still close to each member."
    )

    def _groups(self, x: Floats, ctx: Context) -> NDArray[np.signedinteger]:
        """Group complete records."""
        from discretion.kernels.mdav import vmdav_groups

        return vmdav_groups(standardized(x), self.k, self.gamma, ctx.progress)
