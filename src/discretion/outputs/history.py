"""Differencing: what a result tells together with those that went out before, by the audit of linked tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from discretion.outputs.judge import (
    Bools,
    Floats,
    GroupedRecords,
    Ints,
    OutputFinding,
    OutputLimits,
    dominated,
)

if TYPE_CHECKING:
    from discretion.tables.rules.rule import Rule

MISSING, LEFT_OUT = -2, -1
"""Group of a record whose value is missing, and of one that the result does not count."""


@dataclass(frozen=True, eq=False)
class OutputGroups:
    """Which records are behind which figure of a result, and the variable that is added up in them (empty: counts)."""

    output: str
    group: Ints
    """(records of the data,) the group of each, or MISSING, or LEFT_OUT"""
    names: tuple[str, ...]
    values: dict[str, Floats]
    """variables of which sums, means or the like are told for these groups, with the value of each record"""


Computable = list[tuple[bytes, tuple[str, ...]]]
"""Groups that follow from some results: their records, packed, and the word for them in each of the results."""


def differences(
    new: Sequence[OutputGroups],
    old: Sequence[OutputGroups],
    unit: Ints,
    limits: OutputLimits,
    seen: dict[bytes, Computable] | None = None,
) -> list[OutputFinding]:
    """Judge what new results tell with each other, with earlier ones, and with the number of all records.

    Whoever has them all may add and subtract: groups that no result shows, but several together tell, must be large
    enough too (the audit of linked tables over one column of codes for each result). What earlier results alone told
    is not held against a new one. Groups of people whose values are missing are for review. `seen` keeps what some
    results tell, so that it is not computed again while the results that matter are the same.
    """
    from discretion.tables.rules.magnitude import Threshold

    rules = (Threshold(minimum=limits.min_count),)
    seen = {} if seen is None else seen

    def told(groups: Sequence[OutputGroups]) -> list[_Told]:
        columns = _columns(groups)
        small = _left_out(columns, lambda inside: len(np.unique(unit[inside])) < limits.min_count)
        return [*small, *_told(columns, unit, rules, None, seen)]

    findings, found = [], told([*old, *new])
    if found:
        before = {one.records for one in told(old)}
        found = [one for one in found if one.records not in before]
        if any(one.missing for one in found):  # told also without the results that lack values: not for that reason
            complete = [one for one in (*old, *new) if not (one.group == MISSING).any()]
            otherwise = {one.records for one in told(complete)}
            found = [replace(one, missing=one.missing and one.records not in otherwise) for one in found]
        findings += _worded(found, limits, "")
    for one in new:
        for name, values in one.values.items():
            findings += _of_sums(name, values, new, old, unit, limits, seen)
            findings += _nearly_same(name, values, one, [*old, *new], unit, limits)
    return findings


@dataclass(frozen=True)
class _Told:
    """A group that can be computed: its records, whether their values are missing, and how it follows."""

    records: bytes
    missing: bool
    label: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Column:
    name: str
    output: str
    codes: Ints


def _columns(groups: Sequence[OutputGroups]) -> list[_Column]:
    """Give a column of codes for each result; one that only puts groups of another together tells nothing more."""
    kept: list[_Column] = []
    for number, one in enumerate(groups):
        _, codes = np.unique(one.group, return_inverse=True)
        if codes.max(initial=0) == 0:
            continue
        kept.append(_Column(f"{one.output} ({number + 1})", one.output, one.group))
    finest: list[_Column] = []
    for column in sorted(kept, key=lambda column: -len(np.unique(column.codes))):
        if not any(_refines(other.codes, column.codes) for other in finest):
            finest.append(column)
    return finest


def _refines(fine: Ints, coarse: Ints) -> bool:
    """Tell whether each group of one division lies in one group of the other."""
    pairs = np.unique(np.column_stack([fine, coarse]), axis=0)
    return len(pairs) == len(np.unique(fine))


def _told(
    columns: Sequence[_Column],
    unit: Ints,
    rules: Sequence[Rule],
    values: Floats | None,
    seen: dict[bytes, Computable],
) -> list[_Told]:
    """List the groups that the rules find sensitive and that an audit does not find protected."""
    if not columns:
        return []
    codes = np.column_stack([one.codes for one in columns])
    given = [codes, unit] if values is None else [codes, unit, values]
    key = sha256(repr([rules, *(one.shape for one in given)]).encode())
    for one in given:
        key.update(np.ascontiguousarray(one).tobytes())
    if (found := seen.get(key.digest())) is None:
        found = seen[key.digest()] = _computable(codes, unit, rules, values)
    return [
        _Told(records, "missing" in words, tuple(f"{word} of {columns[i].name}" for i, word in enumerate(words)))
        if records
        else _Told(records, False, words)
        for records, words in found
    ]


def _computable(codes: Ints, unit: Ints, rules: Sequence[Rule], values: Floats | None) -> Computable:
    """Give the groups that several divisions (columns of codes) tell together and that break a rule."""
    import polars as pl

    from discretion.tables.tabulate import tabulate

    words = {MISSING: "missing", LEFT_OUT: "left out"}
    patterns, pattern_of = np.unique(codes, axis=0, return_inverse=True)
    pattern_of = pattern_of.reshape(-1)
    labels = [tuple(words.get(code, f"cell {code}") for code in row) for row in patterns.tolist()]
    names = [f"{number}" for number in range(codes.shape[1])]
    texts = np.array(labels, dtype=object)[pattern_of]
    frame = pl.DataFrame(
        {name: texts[:, number].tolist() for number, name in enumerate(names)}
        | {"unit": unit}
        | ({} if values is None else {"value": values})
    )
    several = values is not None or len(np.unique(unit)) < len(unit)
    cells = tabulate(
        frame,
        [[name] for name in names],
        None if values is None else "value",
        weight=False,
        contributor="unit" if several else None,
    )
    cells = cells.mark(np.ones(len(cells), dtype=bool), "safe").apply_rules(list(rules))  # every cell went out
    audit = cells.audit()
    found: Computable = []
    if audit.unpublished is not None and cells.differences is not None:
        place = {row: number for number, row in enumerate(labels)}
        inner = [
            place[tuple(dim.codes[code] for dim, code in zip(cells.dims, row, strict=True))]
            for row in cells.inner_codes.tolist()
        ]
        bad = np.flatnonzero(audit.unpublished.bounds.status != "protected").tolist()
        for number in bad:
            chosen = np.zeros(len(labels), dtype=bool)
            chosen[[inner[one] for one in cells.differences.forms.members[[number]].indices.tolist()]] = True
            first = labels[int(np.flatnonzero(chosen)[0])]
            found.append((np.packbits(chosen[pattern_of]).tobytes(), first))
        if not audit.unpublished.complete:
            found.append((b"", ("differences are too many to list",)))
    return found


def _left_out(columns: Sequence[_Column], few: Callable[[Bools], bool]) -> list[_Told]:
    """List what single results leave out, or lack values of, where `few` finds it too small."""
    found = []
    for one in columns:
        for code, word in ((LEFT_OUT, "left out"), (MISSING, "missing")):
            inside = one.codes == code
            if inside.any() and few(inside):
                found.append(_Told(np.packbits(inside).tobytes(), code == MISSING, (f"{word} of {one.name}",)))
    return found


_EQUAL = 1e-8
"""Relative difference up to which two values are the same."""


def _same_variable(one: Floats, other: Floats) -> tuple[Floats, Bools] | None:
    """Give a variable in the unit of another, and whose values differ all the same; None if most do.

    Unit and level are those of most people (the middle slope of many pairs): few who were changed do not hide that all
    others are the same. Of a variable that is zero for most, most of the others must agree.
    """
    both = np.flatnonzero(~np.isnan(one) & ~np.isnan(other))
    order = both[np.argsort(one[both], kind="stable")]
    half = len(order) // 2
    low, high = order[: len(order) - half], order[half:]
    apart = one[high] != one[low]
    if not apart.any():
        return None
    slope = float(np.median((other[high] - other[low])[apart] / (one[high] - one[low])[apart]))
    moved = one * slope
    moved = moved + float(np.median((other - moved)[both]))
    size = np.maximum(np.abs(other[both]), np.abs(moved[both]))
    differs = np.zeros(len(one), dtype=bool)
    differs[both] = np.abs(moved[both] - other[both]) > _EQUAL * np.maximum(size, np.median(size))
    found, counts = np.unique(one[both], return_counts=True)
    special = both[one[both] != found[np.argmax(counts)]]
    most = 2 * differs[both].sum() > len(both) or 2 * differs[special].sum() > len(special)
    return None if most or not slope else (moved, differs)


def _nearly_same(
    name: str,
    values: Floats,
    own: OutputGroups,
    others: Sequence[OutputGroups],
    unit: Ints,
    limits: OutputLimits,
) -> list[OutputFinding]:
    """Judge what the means of two variables tell that are the same for most people: the others, by subtraction.

    Groups of both results are put together until they hold the same people; what one variable has more than the other
    there is a sum too, and must not rest on few, nor on one.
    """
    for other in (one for one in others if one.values):
        whole = _common_groups(own.group, other.group)
        order = np.argsort(whole, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(whole[order])) + 1)
        for second, theirs in other.values.items():
            for inside in (one for one in groups if whole[one[0]] >= 0):
                found = _same_variable(theirs[inside], values[inside])
                if found is None or not found[1].any():
                    continue
                rest = np.where(found[1], values[inside] - found[0], 0.0)
                records = GroupedRecords(np.zeros(len(inside), dtype=np.int64), unit[inside], ("",))
                judged = dominated(records, rest, limits)[0]
                if any(one.outcome == "fail" and one.rule != "class disclosure" for one in judged):
                    text = (
                        f"{name} and {second} of {other.output} are the same for most people of a group: what the "
                        f"others have follows by subtraction, and they are fewer than {limits.min_count}, or one makes "
                        "most of it"
                    )
                    return [OutputFinding("differencing", "fail", text)]
    return []


def _common_groups(one: Ints, other: Ints) -> Ints:
    """Number the smallest groups that both results tell: groups of either put together, the same people in both."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    both = (one >= 0) & (other >= 0)
    width = int(one.max(initial=0)) + 1
    size = width + int(other.max(initial=0)) + 1
    edges = coo_array((np.ones(int(both.sum())), (one[both], width + other[both])), shape=(size, size))
    part = connected_components(edges, directed=False)[1].astype(np.int64)
    alone = [part[one[(one >= 0) & ~both]], part[width + other[(other >= 0) & ~both]]]
    found = np.where(both, part[np.maximum(one, 0)], -1)
    found[np.isin(found, np.concatenate(alone))] = -1
    return np.unique(found, return_inverse=True)[1].reshape(-1).astype(np.int64) - int((found < 0).any())


def _of_sums(
    name: str,
    values: Floats,
    new: Sequence[OutputGroups],
    old: Sequence[OutputGroups],
    unit: Ints,
    limits: OutputLimits,
    seen: dict[bytes, Computable],
) -> list[OutputFinding]:
    """Judge the sums of a variable that follow from all results about it, over the people whom any of them counts.

    A result is about it if it tells the same values of all but few people, whatever their name, unit and level.
    """
    from discretion.tables.rules.magnitude import Dominance, PPercent

    rules = (
        PPercent(percent=limits.p_percent),
        Dominance(n=limits.dominance_n, percent=limits.dominance_percent),
    )
    about, earlier, known = [], [], values.copy()
    for one in (*old, *new):
        read = (_same_variable(own, values) for own in one.values.values())
        same = [own[0] for own in read if own is not None and len(np.unique(unit[own[1]])) < limits.min_count]
        if same:
            known = np.where(np.isnan(known), same[0], known)
            about.append(one)
            earlier += [one] if any(one is before for before in old) else []
    counted = np.any([one.group >= 0 for one in about], axis=0)
    values = known[counted]
    if len(about) < 2:
        return []
    own = unit[counted]

    def few(inside: Bools) -> bool:
        records = GroupedRecords(np.where(inside, 0, -1), own, ("left out",))
        return any(one.outcome == "fail" for one in dominated(records, values, limits)[0])

    def told(groups: Sequence[OutputGroups]) -> list[_Told]:
        columns = _columns([OutputGroups(one.output, one.group[counted], one.names, {}) for one in groups])
        whole = any(bool((one.group[counted] >= 0).all()) for one in groups)  # then what another leaves out follows
        small = _left_out(columns, few) if whole else []
        return [*small, *_told(columns, own, rules, np.abs(np.nan_to_num(values)), seen)]

    before = {one.records for one in told(earlier)}
    return _worded([one for one in told(about) if one.records not in before], limits, name)


def _worded(told: Sequence[_Told], limits: OutputLimits, variable: str) -> list[OutputFinding]:
    """Say what follows, by how it follows; one finding for each kind, with an example."""
    findings = []
    for missing in (False, True):
        own = [one for one in told if one.missing == missing]
        if not own:
            continue
        example = "; ".join(own[0].label[:3])
        if variable:
            text = f"sums of {variable} that one person dominates follow by subtraction: {example}"
        else:
            text = f"{len(own)} groups of fewer than {limits.min_count} people follow by subtraction: {example}"
        if missing:
            text += " (people whose values are missing)"
        findings.append(OutputFinding("differencing", "review" if missing else "fail", text))
    return findings
