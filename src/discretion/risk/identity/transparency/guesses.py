"""Methods that may have made a release nobody says anything about: what fits the rows of original and release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Floats
from discretion.learning.columns import compare_column
from discretion.part import Part, find
from discretion.risk.identity.intruder import View

PERCENT_FACTORS = (1.0, 1.1, 1.25)
"""Windows of rank swapping that are tried: the least that holds every move seen, and wider ones."""
_MOST_PERCENT = 80.0
"""Values that moved farther were not swapped by rank: any place is possible."""
_BASES = (5.0, 2.5, 2.0, 1.0)
_MOSTLY, _NEAR = 0.9, 1e-6
"""Share of the values that coded extremes leave alone, and how near a mean must be."""
_MOST_REGROUPED = 20_000
"""Above so many records groups of several columns are not formed again to see whether a guess is right."""


@dataclass(frozen=True)
class Guess:
    """Methods that fit a release, in words, and the columns for which none does."""

    label: str
    steps: tuple[Part, ...] = field(repr=False)
    unknown: frozenset[str]


@dataclass
class _Found:
    """What the columns look like: those not named were not changed."""

    swapped: dict[str, float] = field(default_factory=dict)
    """the least percentage of ranks that holds every move"""
    coded: list[Part] = field(default_factory=list)
    """top and bottom coding of columns that were swapped afterwards"""
    rounded: dict[str, tuple[float, str]] = field(default_factory=dict)
    sorted_groups: dict[str, int] = field(default_factory=dict)
    grouped: list[str] = field(default_factory=list)
    noisy: dict[str, tuple[Floats, Floats]] = field(default_factory=dict)
    moved: dict[str, float] = field(default_factory=dict)
    coarser: set[str] = field(default_factory=set)
    """labels that always hold the true value"""
    unknown: set[str] = field(default_factory=set)


def guesses(view: View) -> tuple[Guess, ...]:
    """Give the methods that fit what is seen, with the parameters that the aligned rows tell.

    A column with the same values in other places: rank swapping, with the least window that holds every move and wider
    ones. Multiples of a base near the values: rounding. Few values, each several times: microaggregation with the least
    size as k. Other numbers: additive (normal, Laplace), multiplicative (normal, log-normal) and correlated noise with
    the spread of the differences. The same categories in other places: PRAM with the share that stayed. Labels that
    always hold the true value: less detail. The intruder
    who scans such a grid does not know these parameters; the assessor takes the best case for the intruder.
    """
    found = _Found()
    for name in view.columns:
        _look_at(view, name, found)
    fixed = _fixed(view, found)
    swaps = [
        (f"percent × {factor:g}", tuple(_swap(name, p * factor) for name, p in found.swapped.items()))
        for factor in (PERCENT_FACTORS if found.swapped else ())
    ] or [("", ())]
    noises = _noises(found.noisy) or [("", ())]
    changed = bool(fixed) or swaps[0][1] or noises[0][1] or found.coarser
    if not changed:
        return ()
    made = []
    for (wide, swap), (shape, noise) in product(swaps, noises):
        steps = (*found.coded, *fixed, *swap, *noise)
        kinds = ", ".join(dict.fromkeys(step.kind for step in steps)) or "less detail"
        beside = ", ".join(text for text in (wide, shape) if text)
        made.append(Guess(f"{kinds} ({beside})" if beside else kinds, steps, frozenset(found.unknown)))
    return tuple(made)


def _look_at(view: View, name: str, found: _Found) -> None:
    if name not in view.original.columns or name not in view.released.columns:
        found.unknown.add(name)
    elif view.original.is_numeric(name) and view.released.is_numeric(name):
        _look_at_numbers(name, view.original.number(name), view.released.number(name), found)
    else:
        _look_at_categories(view, name, found)


def _look_at_numbers(name: str, x: Floats, y: Floats, found: _Found) -> None:
    both = ~np.isnan(x) & ~np.isnan(y)
    a, b = x[both], y[both]
    if not len(a) or np.array_equal(a, b):
        if not len(a):
            found.unknown.add(name)
        return
    values, counts = np.unique(b, return_counts=True)
    x, a = _with_coded_ends(name, x, y, a, found)
    if _is_part_of(b, x[~np.isnan(x)]):
        percent = _least_percent(x[~np.isnan(x)], a, b)
        if 0 < percent <= _MOST_PERCENT:
            found.swapped[name] = percent
        else:
            found.unknown.add(name)
    elif (rounding := _rounding(a, b, values)) is not None:
        found.rounded[name] = rounding
    elif counts.min() > 1 and 2 * len(values) <= len(np.unique(a)):
        order = np.argsort(a, kind="stable")
        if (np.diff(b[order]) >= 0).all():
            found.sorted_groups[name] = int(counts.min())
        else:
            found.grouped.append(name)
    elif np.std(b - a) > 0 and np.std(a) > 0:
        found.noisy[name] = (a, b)
    else:
        found.unknown.add(name)


def _look_at_categories(view: View, name: str, found: _Found) -> None:
    old, new = view.original.codes(name), view.released.codes(name)
    before = np.array([str(value) for value in old.values])[old.codes]
    after = np.array([str(value) for value in new.values])[new.codes]
    there = (old.codes != old.missing) & (new.codes != new.missing)
    if not there.any() or not set(after[there]) <= set(before[there]):
        (found.coarser if _holds_the_truth(view, name) else found.unknown).add(name)
        return
    stayed = float((before[there] == after[there]).mean())
    if stayed < 1:
        found.moved[name] = stayed


def _holds_the_truth(view: View, name: str) -> bool:
    """Tell whether every published label holds the true value: an interval, a class of a hierarchy, a code."""
    try:
        column = compare_column(view.original, view.released, name, view.original)
    except DataError:
        return False
    there = ~np.isnan(column.known) & ~np.isnan(column.published)
    if column.alike is None or not there.any():
        return False
    agreeing = column.alike[column.known[there].astype(np.int64)]
    return bool((agreeing == column.published[there].astype(np.int64)[:, None]).any(axis=1).all())


def _with_coded_ends(name: str, x: Floats, y: Floats, a: Floats, found: _Found) -> tuple[Floats, Floats]:
    """Code the extremes of all the values, and of some of them, as the release seems to have done."""
    for step, value in _coded_ends(name, np.sort(x[~np.isnan(x)]), np.sort(y[~np.isnan(y)])):
        found.coded.append(step)
        beyond = np.greater if step.kind == "top-code" else np.less
        x, a = (np.where(beyond(v, step.at), value, v) for v in (x, a))
    return x, a


def _coded_ends(name: str, x: Floats, y: Floats) -> list[tuple[Any, float]]:
    """Give the coding of the extremes that makes the sorted values of both sides equal, with the values it gives.

    Nothing where the values are equal anyway, differ elsewhere than at the ends, or an end is not one value.
    """
    if len(x) != len(y) or np.array_equal(x, y):
        return []
    same = np.flatnonzero(x == y)
    if len(same) < _MOSTLY * len(x) or len(same) <= same[-1] - same[0]:
        return []
    made = []
    for kind, part, at in (
        ("bottom-code", slice(0, same[0]), x[same[0]]),
        ("top-code", slice(same[-1] + 1, None), x[same[-1]]),
    ):
        shown = np.unique(y[part])
        if len(shown) > 1:
            return []
        if len(shown):
            value, ends = float(shown[0]), x[part]
            cut = ends.max() < value <= at if kind == "bottom-code" else at <= value < ends.min()
            if not cut and not np.isclose(ends.mean(), value, rtol=_NEAR, atol=0.5):
                return []
            made.append(
                (find(kind)(column=name, at=value if cut else float(at), replace="cut" if cut else "mean"), value)
            )
    return made


def _is_part_of(some: Floats, all_of: Floats) -> bool:
    """Tell whether the values of one column all occur in the other, as often."""
    values, counts = np.unique(all_of, return_counts=True)
    own, number = np.unique(some, return_counts=True)
    at = np.minimum(np.searchsorted(values, own), len(values) - 1)
    return bool((values[at] == own).all() and (number <= counts[at]).all())


def _least_percent(ranked: Floats, x: Floats, y: Floats) -> float:
    """Give the least percentage of the ranks that holds every move; equal values may have had any of their ranks."""
    order = np.sort(ranked)
    before, after = ((np.searchsorted(order, v, "left"), np.searchsorted(order, v, "right") - 1) for v in (x, y))
    moved = np.maximum(after[0] - before[1], before[0] - after[1])
    return 100.0 * max(float(moved.max()), 0.0) / len(order)


def _rounding(x: Floats, y: Floats, values: Floats) -> tuple[float, str] | None:
    """Give the largest base of which all the published values are multiples next to the original ones."""
    gap = float(np.abs(y - x).max())
    top = int(np.ceil(np.log10(max(2 * gap, 1e-300)))) + 1
    for base in (digit * 10.0**power for power in range(top, top - 4, -1) for digit in _BASES):
        whole = np.abs(values / base - np.round(values / base)).max() < 1e-6
        if whole and gap <= base * (1 + 1e-9):
            ways = {"nearest": gap <= base / 2 * (1 + 1e-9), "up": (y >= x).all(), "down": (y <= x).all()}
            return base, next((how for how, fits in ways.items() if fits), "random")
    return None


def _fixed(view: View, found: _Found) -> tuple[Part, ...]:
    """Give the steps whose parameters the release itself shows; what cannot be built stays unknown."""
    wanted: list[tuple[str, dict[str, Any], list[str]]] = []
    for name, (base, how) in found.rounded.items():
        wanted.append(("round", {"base": base, "how": how}, [name]))
    for name, k in found.sorted_groups.items():
        wanted.append(("individual-ranking", {"k": k}, [name]))
    for name, stayed in found.moved.items():
        wanted.append(("pram", {"keep_share": stayed}, [name]))
    if found.grouped:
        sizes = view.released.class_sizes(found.grouped)
        k = int(np.nanmin(sizes))
        if k > 1 and len(view.released) <= _MOST_REGROUPED:
            wanted.append(("mdav", {"k": k}, found.grouped))
        else:
            found.unknown.update(found.grouped)
    return tuple(part for kind, fields, names in wanted if (part := _built(kind, fields, names, found)) is not None)


def _built(kind: str, fields: Mapping[str, Any], columns: list[str], found: _Found) -> Part | None:
    try:
        return find(kind)(columns=columns, **fields)
    except (PlanError, DataError):
        found.unknown.update(columns)
        return None


def _swap(name: str, percent: float) -> Part:
    return find("rank-swap")(columns=[name], percent=min(percent, 100.0))


def _noises(noisy: Mapping[str, tuple[Floats, Floats]]) -> list[tuple[str, tuple[Part, ...]]]:
    """Give the shapes of noise with the spreads that the differences show."""
    if not noisy:
        return []
    spreads = {name: float(np.std(y - x) / np.std(x)) for name, (x, y) in noisy.items()}
    add = find("additive-noise")
    made: list[tuple[str, tuple[Part, ...]]] = [
        (shape, tuple(add(columns=[name], sd_share=sd, distribution=shape) for name, sd in spreads.items()))
        for shape in ("normal", "laplace")
    ]
    if len(noisy) > 1 and len({len(x) for x, _ in noisy.values()}) == 1:
        share = float(np.mean([sd**2 for sd in spreads.values()]))
        made.append(("correlated", (find("correlated-noise")(columns=list(noisy), variance_share=share),)))
    if all((np.sign(x) == np.sign(y)).all() for x, y in noisy.values()):
        sds = {name: min(_factor_sd(x, y), 1.0) for name, (x, y) in noisy.items()}
        multiply = find("multiplicative-noise")
        for shape in ("normal", "lognormal"):
            steps = tuple(multiply(columns=[name], sd=sd, distribution=shape) for name, sd in sds.items())
            made.append((f"{shape} factors", steps))
    return made


def _factor_sd(x: Floats, y: Floats) -> float:
    there = x != 0
    return float(max(np.std(y[there] / x[there]), 1e-12)) if there.any() else 1.0
