"""Generalization of set-valued columns: diagnoses, purchases, places visited."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from discretion.anonymize.item_search import ItemRecoding, ItemSearch
from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import Hierarchy
from discretion.errors import DataError, DiscretionError, PlanError
from discretion.method import Decision, Method
from discretion.part import Columns, confidential, path_field
from discretion.privacy.km_anonymity import item_sets, set_column

if TYPE_CHECKING:
    import polars as pl


def _hierarchy(given: object) -> object:
    if given is None:
        return None
    try:
        return Hierarchy.of(given)
    except DiscretionError as error:
        raise ValueError(str(error)) from None


ItemHierarchy = Annotated[
    Any,
    BeforeValidator(_hierarchy),
    PlainSerializer(lambda hierarchy: None if hierarchy is None else hierarchy.to_plan()),
    WithJsonSchema({"description": "a file, rows of levels, or a rule such as {tree: {…}}"}),
]


class KmGeneralization(Method, kind="km-generalization"):
    """Replace the items of a set-valued column by broader ones until m known items fit at least k records.

    The column holds lists, or text with items between bars ("flu|cough"). Items are raised along a hierarchy, each to
    one label for all records, until every combination of at most m labels that occurs stands in at least k records
    (k^m-anonymity); items of a record that get the same label become one. Which labels to raise is chosen by Apriori
    anonymization: small combinations first, and those labels that free most rare combinations for the least loss.

    Guarantees k^m-anonymity of the column: whoever knows at most m items of a person is left with k records. Does not
    protect against somebody who knows more than m items, who knows other columns too, or who infers further items that
    all those records share. What cannot be fixed by generalization is suppressed within `suppression_limit`, as are
    rare items where that loses less; a record that loses all its items is marked as suppressed. Missing and empty sets
    stay. The decision holds the label and level of each item and the loss. Each round counts all combinations: time and
    memory follow their number.

    References
    ----------
    Terrovitis, Mamoulis & Kalnis (2008), Privacy-preserving anonymization of set-valued data, PVLDB 1(1); catalogue M9.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> ills = pl.DataFrame({"ills": ["flu|burn", "cold|burn", "flu", "cold", "flu|cut", "cold|cut"]})
    >>> tree = {"tree": {"*": {"infection": ["flu", "cold"], "injury": ["burn", "cut"]}}}
    >>> dc.KmGeneralization(columns=["ills"], k=2, m=2, item_hierarchy=tree)(ills)["ills"].to_list()[:3]
    ['flu|injury', 'cold|injury', 'flu']
    """

    k: int = confidential(ge=1)
    """smallest allowed number of records with a combination of items"""
    m: int = Field(2, ge=1, le=8)
    """number of items that an intruder may know of a person"""
    columns: Columns = ()
    """the set-valued column; without it, the only quasi-identifier (or sensitive column) of type set"""
    item_hierarchy: ItemHierarchy = path_field(None)
    """hierarchy of the items: a file, rows of levels or a rule; without it, that of the column"""
    suppression_limit: float = Field(0.0, ge=0, le=1)
    """largest share of the items of all records that may be suppressed"""

    perturbs: ClassVar[bool] = False
    guarantee: ClassVar[str] = (
        "Items were replaced by broader ones, so that nobody who knows a few items of a person can single out a record."
    )

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Find the label of each item."""
        column = set_column(self.kind, data, self.columns)
        found = self.solve(data, ctx)
        return Decision(
            MappingProxyType(
                {
                    "column": column,
                    "labels": dict(found.labels),
                    "levels": dict(found.levels),
                    "loss": found.loss,
                    "suppressed": found.suppressed,
                }
            )
        )

    def solve(self, data: Dataset, ctx: Context | None = None) -> ItemRecoding:
        """Give the label and level chosen for each item, and the loss."""
        column = set_column(self.kind, data, self.columns)
        if not len(data):
            raise DataError(f"{self.kind}: the data has no rows; there is nothing to generalize")
        sets = item_sets(data, column)
        with_items = int((np.diff(sets.starts) > 0).sum())
        if with_items < self.k and self.suppression_limit < 1:
            raise DataError(
                f"{self.kind}: k = {self.k} is larger than the {with_items} records with items in {column!r}"
            )
        recipe = self.item_hierarchy or data.schema[column].hierarchy
        if recipe is None:
            raise PlanError(f"{self.kind}: the items of {column!r} need a hierarchy; give `item_hierarchy`")
        levels = recipe.bind(sets.items, column)
        context = ctx or Context(0, self.kind)
        return ItemSearch(sets, levels, self.k, self.m, self.suppression_limit, context).run()

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Replace the items, and merge those that became equal."""
        column = decision["column"]
        data.require([column])
        before = data.frame[column]
        made = _recoded(before, decision["labels"])
        gone = (made.is_null() & before.is_not_null()).to_numpy()
        return data.with_columns({column: made}, suppressed={column: gone} if gone.any() else None)


def _recoded(series: pl.Series, labels: dict[str, str | None]) -> pl.Series:
    """Replace the items of each set; a set that loses all its items becomes null, one that had none stays."""
    import polars as pl

    is_list = isinstance(series.dtype, pl.List | pl.Array)
    if isinstance(series.dtype, pl.Array):
        series = series.arr.to_list()
    lists = series.cast(pl.List(pl.String)) if is_list else series.cast(pl.String).str.split("|")
    table = pl.DataFrame({"record": np.arange(len(lists)), "item": lists}).explode("item").drop_nulls("item")
    table = table.with_columns(pl.col("item").str.strip_chars()).filter(pl.col("item") != "")
    items = table["item"].unique()
    if lacking := sorted(set(items.to_list()) - set(labels)):
        raise DataError(
            f"column {series.name!r}: the decision has no label for {len(lacking)} items that were not there when it "
            "was made; fit the step anew"
        )
    known = pl.DataFrame(
        {"item": list(labels), "label": list(labels.values())}, schema={"item": pl.String, "label": pl.String}
    )
    shown = table.join(known, on="item", how="left").drop_nulls("label").select("record", "label").unique()
    sets = shown.sort("record", "label").group_by("record", maintain_order=True).agg("label")
    whole = pl.DataFrame({"record": np.arange(len(lists))}).join(sets, on="record", how="left", maintain_order="left")
    had_items = np.zeros(len(lists), np.bool_)
    had_items[table["record"].to_numpy()] = True
    made = whole["label"] if is_list else whole["label"].list.join("|")
    kept = pl.DataFrame({"new": made, "old": series if not is_list else lists, "had": had_items})
    return kept.select(pl.when("had").then("new").otherwise("old")).to_series().alias(series.name)
