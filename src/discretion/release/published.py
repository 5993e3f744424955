"""Every published column judged: what it looks like, what it adds to uniqueness, what it gives away by itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from discretion.data.dataset import Dataset
from discretion.data.detect import Proposal, propose
from discretion.measure import Score, as_percent

_TELLING = ("identifier", "unit", "quasi", "geography", "stratum", "household")
"""Roles that a column without one should perhaps have."""
CONFIRMED = "the plan confirms the role other"


@dataclass(frozen=True)
class PublishedColumn:
    """One published column: its roles, what it seems to be if nobody said, and what was found about it."""

    name: str
    roles: tuple[str, ...]
    looks_like: str
    """role that its name and values suggest, where it has the role `other`; empty where nothing does"""
    unique: float | None
    """share of the records that are unique when this column is known with the quasi-identifiers"""
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give what was found as plain data."""
        return asdict(self)


def looks_telling(data: Dataset, columns: Iterable[str], *, unnamed: bool = False) -> tuple[Proposal, ...]:
    """Find those of the columns that have the role `other` (or none) and look like something others know.

    With `unnamed` also columns that nobody gave a role and that look sensitive: nobody has thought about them.
    """
    others = {name for name in columns if data.schema[name].roles == ("other",)}
    if not others:
        return ()
    proposals = propose(data.drop(name for name in data.columns if name not in others))
    sensitive = {name for name in others if unnamed and not data.schema[name].has_role}
    return tuple(
        one for one in proposals if one.role in _TELLING or (one.role == "sensitive" and one.column in sensitive)
    )


def published_columns(
    released: Dataset, scores: Iterable[Score] = (), confirmed: Collection[str] = ()
) -> tuple[PublishedColumn, ...]:
    """Judge every published column, whatever its role; figures of attacks that were run are used where they fit.

    A column of the role `other` (or none) that looks like a quasi-identifier is added to the quasi-identifiers: what
    it adds to the share of unique records is what an intruder gains who knows it too. `confirmed`: columns of which the
    plan says that they may go out all the same.
    """
    found = {score.measure: score.detail for score in scores}
    released = released.copies()[0]
    quasi = tuple(name for name in released.having("quasi") if not released.frame.schema[name].is_nested())
    alone = _unique(released, quasi) if quasi else 0.0
    telling = {one.column: one for one in looks_telling(released, released.columns)}
    judged = (_judge(released, name, quasi, alone, telling.get(name), found) for name in released.columns)
    return tuple(replace(one, notes=(*one.notes, CONFIRMED)) if one.name in confirmed else one for one in judged)


def together(released: Dataset) -> str:
    """Say how many records are unique for somebody who knows every column beside the quasi-identifiers as well.

    Those without a telling role, and places, strata and weights, which no model counts. Columns are judged one by one
    above; a few harmless ones tell a person apart together. Empty where there are none.
    """
    released = released.copies()[0]
    if released.has_new_rows:  # rows of nobody
        return ""
    quasi = released.having("quasi")
    others = (*(n for n in released.columns if released.schema[n].roles == ("other",)), *not_counted(released, quasi))
    if not quasi or not others:
        return ""
    more, alone = (as_percent(_unique(released, columns)) for columns in ((*quasi, *others), quasi))
    return (
        f"who knows {', '.join(others)} as well as the quasi-identifiers is alone with {more} of the records ({alone} "
        "without); the figures above hold for the roles that were given"
    )


_TOLD = 0.01
"""Share of the records that a value must single out beyond what the quasi-identifiers do, to be named."""
_FEWEST = 10
"""Records taken out from which on their share of the weights is told."""


def weight_lost(original: Dataset, released: Dataset) -> tuple[str, ...]:
    """Say for each published weight by how much less it adds up because records were taken out with theirs."""
    released = released.copies()[0]
    if not released.lost_records or released.has_new_rows:
        return ()
    said = []
    for name in released.having("weight"):
        if name not in original.columns or not (original.is_numeric(name) and released.is_numeric(name)):
            continue
        before, after = (float(np.nansum(data.number(name))) for data in (original, released))
        if 0 <= after < before * (1 - 1e-6):
            much = as_percent(1 - after / before) if released.lost_records >= _FEWEST else "a little"
            said.append(
                f"the weights in {name} add up to {much} less than in the original, because records were taken out "
                "with theirs: estimated totals are too low by as much unless the weights are scaled to known totals"
            )
    return tuple(said)


def not_counted(released: Dataset, counted: Collection[str]) -> tuple[str, ...]:
    """Name the published places, strata and weights that are not among the columns that a model counts."""
    passed = {*counted, *released.having("identifier", "household", "unit", "sensitive")}
    return tuple(name for name in released.having("geography", "stratum", "weight") if name not in passed)


def shared_values(released: Dataset) -> tuple[str, ...]:
    """Say for each column outside the quasi-identifiers how many records sit in classes that share one value of it.

    Whoever finds the class of a person knows that value without knowing the record: k-anonymity does not prevent it.
    """
    released = released.copies()[0]
    plain = [name for name in released.columns if not released.frame.schema[name].is_nested()]
    quasi = tuple(name for name in released.having("quasi") if name in plain)
    told = [name for name in plain if released.schema[name].roles in (("sensitive",), ("other",), ())]
    if not quasi or not told or not len(released):
        return ()
    import polars as pl

    classes = released.frame.group_by(quasi).agg(
        (pl.col(told).n_unique() == 1) & (pl.col(told).null_count() == 0), pl.len().alias("class size")
    )
    shares = {name: float(classes["class size"].filter(classes[name]).sum()) / len(released) for name in told}
    return tuple(
        f"{as_percent(share)} of the records sit in classes that share one value of {name}"
        "; who finds the class knows it"
        for name, share in shares.items()
        if share > 0
    )


def exact_values(released: Dataset) -> str:
    """Name the sensitive columns by which who knows a value is alone with records; empty where there are none.

    No model counts them, so that classes of k say nothing about somebody who knows a salary, a date or an amount.
    """
    if released.has_new_rows:
        return ""
    quasi = tuple(name for name in released.having("quasi") if not released.frame.schema[name].is_nested())
    plain = [name for name in released.having("sensitive") if not released.frame.schema[name].is_nested()]
    alone = _unique(released, quasi) if quasi else 0.0
    found = {name: _unique(released, (*quasi, name)) for name in plain if name not in quasi}
    telling = {name: share for name, share in found.items() if share >= alone + _TOLD}
    if not telling:
        return ""
    shares = ", ".join(f"{name} {as_percent(share)}" for name, share in telling.items())
    return (
        "no model counts the sensitive columns: who knows a value of one as well as the quasi-identifiers is alone "
        f"with a part of the records ({shares}; {as_percent(alone)} without). If anybody outside can know them, deal "
        "them out anew (`shuffle`, `rank-swap`), coarsen them (`recode`, `round`), or leave them out"
    )


def to_look_at(columns: Iterable[PublishedColumn]) -> tuple[PublishedColumn, ...]:
    """Give the columns about which something was found."""
    return tuple(column for column in columns if column.notes)


def _judge(
    data: Dataset,
    name: str,
    quasi: tuple[str, ...],
    alone: float,
    telling: Proposal | None,
    found: Mapping[str, Mapping[str, Any]],
) -> PublishedColumn:
    roles = tuple(role for role in data.schema[name].roles)
    notes: list[str] = []
    looks_like, unique = "", None
    if telling is not None:
        looks_like = telling.role
        notes.append(f"looks like {telling.role} ({telling.reason})")
        if not data.frame.schema[name].is_nested():
            unique = _unique(data, (*quasi, name))
            notes.append(
                f"known with the quasi-identifiers, {as_percent(unique)} of the records are unique "
                f"({as_percent(alone)} without)"
            )
    if data.type_of(name) == "set" and not data.has_new_rows and (single := _unique(data, (name,))):
        notes.append(f"{as_percent(single)} of the records are alone by their set, for somebody who knows all of it")
    notes += _found_about(name, roles, found)
    return PublishedColumn(name, roles, looks_like, unique, tuple(notes))


def _unique(data: Dataset, columns: tuple[str, ...]) -> float:
    counts = data.class_counts(columns)
    return float((counts == 1).sum() / max(len(data), 1))


def _found_about(name: str, roles: tuple[str, ...], found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Put together what attacks on single columns said about one."""
    notes = []
    rare = found.get("rare-values", {}).get("per_column", {}).get(name, {})
    if "rare_categories" in rare:
        notes.append(f"{rare['rare_categories']} records have a rare category (the rarest: {rare['fewest']} records)")
    if "rare_sets" in rare:
        notes.append(f"{rare['rare_sets']} records have a rare set ({rare['alone']} of them one that nobody else has)")
    if "extremes" in rare:
        notes.append(f"{rare['extremes']} records have an extreme value far from the others")
    told = found.get("weight-disclosure", {})
    if name == told.get("weight"):
        per_column = told["per_column"].items()
        worth = [(n, one) for n, one in per_column if one["share"] > one["chance"] + 0.01]
        notes += [
            f"tells {n} of {as_percent(one['share'])} of the records (guessing: {as_percent(one['chance'])})"
            for n, one in sorted(worth, key=lambda item: -item[1]["share"])
        ]
    homes = found.get("household-uniqueness", {})
    if "household" in roles and homes:
        alone, every = homes["unique_households"], homes["households"]
        notes.append(f"{alone} of {every} households have a composition of their own")
    told_by = found.get("column-dependence", {}).get("told", ())
    notes += [f"tells {other}, which was protected, of nearly everybody" for by, other in told_by if by == name]
    carried = [one for one in found.get("column-dependence", {}).get("carried", ()) if name in one["by"]]
    notes += [
        f"dealt out by a model, still tells {one['column']}, which was hidden: correlation {one['correlation']:.2f}"
        for one in carried
    ]
    same = [other for by, other in found.get("column-dependence", {}).get("derived", ()) if by == name]
    notes += [
        f"told {other} in the original: protected one by one, they are one secret published twice" for other in same
    ]
    keys = [key for key in found.get("quasi-identifiers", {}).get("minimal_keys", ()) if name in key]
    if keys:
        shown = "; ".join(" + ".join(key) for key in keys[:3])
        notes.append(f"part of a key that tells every record apart: {shown}")
    return notes
