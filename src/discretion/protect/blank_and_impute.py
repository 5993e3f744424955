"""The confidentiality edit of samples: in small blocks, values are blanked and imputed from other households (P19)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.households import Households, find_households
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Ints
from discretion.method import Decision, Method, Purpose
from discretion.part import Columns, confidential
from discretion.protect.household import geography_of


class BlankAndImpute(Method, kind="blank-and-impute"):
    """Replace values of some households in small blocks by those of similar households elsewhere.

    The variant of the confidentiality edit for samples (the "long form" of a census), where sampling itself protects
    all but small areas. In each block (area of all geography columns together) with fewer households than
    `small_block`, `per_block` households are drawn. Of each, `column_share` of the columns, chosen at random, is
    blanked and filled with the values of one random donor: a household of another block that has as many members with
    the same values of `match_on` (for each member, order aside), was not drawn itself, and has no missing values in the
    columns. A donor may serve several households. Without households every record stands for itself.

    Guarantees that in a small block nobody can be sure that a published value is true; places, matched columns and
    larger blocks are intact. Does not protect larger blocks beyond the sampling, nor households without a donor: their
    number is `unmatched` in the decision. A donor's value may be the true one by chance. Missing values stay missing,
    households with a missing place as they are. Time O(n log n).

    References
    ----------
    Federal Committee on Statistical Methodology (1994), Statistical Policy Working Paper 22 (the census of 1990);
    catalogue P19.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.Sample(share=0.2, household=True)(dc.datasets.census(2000, seed=1), seed=3)
    >>> edit = dc.BlankAndImpute(columns=["income", "occupation"], match_on=["sex"], small_block=15)
    >>> changed = (edit(people, seed=7).frame["income"] != people.frame["income"]).sum()
    >>> 0 < changed < len(people) / 2
    True
    """

    columns: Columns = Field(min_length=1)
    """columns whose values are blanked and imputed"""
    small_block: int = confidential(ge=2)
    """blocks with fewer households than this are small"""
    geography: Columns = ()
    """columns that together make a block; without it, the columns with the role geography"""
    match_on: Columns = ()
    """columns in which household and donor agree, besides their number of members"""
    per_block: int = confidential(1, ge=1)
    """households that are drawn in each small block (all, if it has no more)"""
    column_share: float = confidential(1.0, gt=0, le=1)
    """share of the columns that is blanked in each household drawn, at least one column"""
    household: str = ""
    """column that tells the households apart; without it, the column with the role household, or single records"""

    random: ClassVar[bool] = True
    by_group: ClassVar[bool] = True
    purpose: ClassVar[Purpose] = "make up"
    effect: ClassVar[str] = (
        "Estimates for small areas rest partly on households from elsewhere and are pulled toward those of similar "
        "areas; large areas are hardly touched."
    )
    guarantee: ClassVar[str] = (
        "In small areas, values of some households were replaced by those of similar households elsewhere, so a value "
        "published for a small area need not be true; larger areas rely on the sampling alone."
    )

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if both := set(self.columns) & {*self.geography, *self.match_on}:
            raise ValueError(f"{min(both)!r} is imputed and cannot be geography or matched on")
        return self

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Draw households and donors; the decision counts small blocks, households drawn and those not matched."""
        data.require([*self.columns, *self.match_on])
        geography = geography_of(data, self.geography, self.kind)
        if both := set(geography) & set(self.columns):
            raise PlanError(f"{self.kind}: {min(both)!r} is geography and cannot be imputed; give `geography`")
        homes = find_households(data, self.household)
        homes.require_constant(data, geography)
        rng = ctx.rng
        ctx.progress(0, 2, f"{ctx.step}: drawing")
        placed = homes.present(data, geography)
        blocks = homes.codes(data, geography)
        sizes = np.bincount(blocks[placed], minlength=int(blocks.max(initial=-1)) + 1)
        small = placed & (sizes[blocks] < self.small_block)
        drawn = _first_of_each(blocks, np.flatnonzero(small)[rng.permutation(int(small.sum()))], self.per_block)
        giving = placed & _complete(data, homes, self.columns)
        giving[drawn] = False
        ctx.progress(1, 2, f"{ctx.step}: matching")
        donors = _draw_donors(homes.kinds(data, self.match_on), blocks, drawn, np.flatnonzero(giving), rng)
        matched = donors >= 0
        if len(drawn) and not matched.any():
            raise DataError(
                f"{self.kind}: none of the {len(drawn)} households drawn has a donor in another block that agrees in "
                f"its size{''.join(f', {name!r}' for name in self.match_on)}; match on less"
            )
        rows = self._rows(data, homes, drawn[matched], donors[matched], rng)
        ctx.progress(2, 2, ctx.step)
        counts = {
            "small_blocks": len(np.unique(blocks[small])),
            "drawn": len(drawn),
            "unmatched": int((~matched).sum()),
        }
        return Decision(MappingProxyType({**counts, "rows": rows}))

    def _rows(
        self, data: Dataset, homes: Households, drawn: Ints, donors: Ints, rng: np.random.Generator
    ) -> dict[str, list[list[int]]]:
        """List for each column the rows to fill and the rows to fill them from; members alike in `match_on` meet."""
        alike = data.classes(self.match_on).ids if self.match_on else np.zeros(len(data), np.int64)
        concerned = np.zeros(len(homes), np.bool_)
        concerned[drawn] = concerned[donors] = True
        order = np.flatnonzero(concerned[homes.of])
        order = order[np.lexsort((rng.random(len(order)), alike[order], homes.of[order]))]
        starts = np.concatenate([[0], np.cumsum(np.where(concerned, homes.sizes, 0))])
        places = rng.random((len(drawn), len(self.columns))).argsort(axis=1)
        chosen = places < max(1, round(self.column_share * len(self.columns)))
        found = {}
        for j, name in enumerate(self.columns):
            here = chosen[:, j]
            to = order[_members(starts, drawn[here])]
            source = order[_members(starts, donors[here])]
            coded = data.codes(name)
            present = coded.codes[to] != coded.missing
            found[name] = [to[present].tolist(), source[present].tolist()]
        return found

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Fill in the values."""
        values: dict[str, Any] = {}
        levels: dict[str, Any] = {}
        for name, (to, source) in decision["rows"].items():
            rows = np.arange(len(data))
            rows[to] = source
            values[name] = data.frame[name].gather(rows.astype(np.uint32))
            if name in data.levels:
                level = data.levels[name]
                levels[name] = level if isinstance(level, int) else level[rows]
        return data.with_columns(values, levels=levels)


def _first_of_each(blocks: Ints, units: Ints, most: int) -> Ints:
    """Keep of each block the first few units, in the order given."""
    by_block = np.argsort(blocks[units], kind="stable")
    owners = blocks[units[by_block]]
    place = np.arange(len(units)) - np.searchsorted(owners, owners)
    return np.asarray(units[np.sort(by_block[place < most])])


def _complete(data: Dataset, homes: Households, columns: Columns) -> Bools:
    """Tell which households have no missing value in some columns."""
    full = np.ones(len(homes), np.bool_)
    for name in columns:
        coded = data.codes(name)
        full[homes.of[coded.codes == coded.missing]] = False
    return full


def _draw_donors(kinds: Ints, blocks: Ints, drawn: Ints, pool: Ints, rng: np.random.Generator) -> Ints:
    """Draw for each unit one of the pool of its kind and another block, each with the same chance; −1: there is none.

    The pool is sorted by kind and block: the units of a kind are one stretch of it, and those of the own block, which
    are left out, one stretch inside that.
    """
    width = int(blocks.max(initial=-1)) + 1
    keys = kinds[pool] * width + blocks[pool]
    order = np.argsort(keys, kind="stable")
    pool, keys = pool[order], keys[order]
    first = np.searchsorted(keys, kinds[drawn] * width)
    last = np.searchsorted(keys, (kinds[drawn] + 1) * width)
    own = kinds[drawn] * width + blocks[drawn]
    own_first, own_last = np.searchsorted(keys, own), np.searchsorted(keys, own, side="right")
    choices = (last - first) - (own_last - own_first)
    place = first + (rng.random(len(drawn)) * choices).astype(np.int64)
    place += np.where(place >= own_first, own_last - own_first, 0)
    donors = np.full(len(drawn), -1, np.int64)
    donors[choices > 0] = pool[place[choices > 0]]
    return donors


def _members(starts: Ints, homes: Ints) -> Ints:
    """List the places of the members of some households, one after the other."""
    sizes = starts[homes + 1] - starts[homes]
    offsets = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.asarray(np.repeat(starts[homes], sizes) + offsets, dtype=np.int64)
