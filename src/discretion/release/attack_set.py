"""Which attacks an assessment runs when nobody chose: every one that roles, types and the matching of rows allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from discretion.data.dataset import Dataset
from discretion.measure import Measure, Score
from discretion.part import find
from discretion.release.measures import default_measures
from discretion.risk.identity.distance_columns import comparable
from discretion.risk.identity.intruder import knowing_method

_MOST_LINKED = 20_000
"""Above so many records the linkages that look at pairs are left to those who ask for them."""
_MOST_MODELED = 100_000
_MOST_KEYS = 10
_MOST_TARGETS = 3


def attack_set(original: Dataset, released: Dataset) -> list[Measure]:
    """Give the measures of `default_measures` and further attacks, each once: risks first, then utilities."""
    measures = [_whole(measure, original) for measure in default_measures(original, released)]
    known = {measure.kind for measure in measures}
    for kind, fields in _attacks(original, released):
        part = find(kind)(**fields)
        if isinstance(part, Measure) and (kind not in known or "target" in fields):
            measures.append(part)
            known.add(kind)
    told = [knowing_method(measure, True) for measure in measures]  # nobody says how it was made: see what fits
    return sorted(told, key=lambda measure: measure.family != "risk")


def _whole(measure: Measure, original: Dataset) -> Measure:
    """Let the linkage look at all the quasi-identifiers, and say itself which of them it cannot compare."""
    if measure.kind != "distance-linkage" or any(_holds_sets(original, name) for name in original.having("quasi")):
        return measure
    return measure.model_copy(update={"columns": ()})


def left_out(scores: Iterable[Score]) -> dict[str, tuple[str, ...]]:
    """Name the quasi-identifiers that linkages could not compare, by measure."""
    found = {score.measure: score.detail.get("left_out") or score.detail.get("not_compared") or () for score in scores}
    return {measure: tuple(columns) for measure, columns in found.items() if columns}


def too_large(original: Dataset, released: Dataset) -> tuple[str, ...]:
    """Say which attacks the set leaves out because the data is large; whoever names them can run them."""
    both = [name for name in released.columns if name in original.columns]
    quasi, sensitive = ([name for name in original.having(role) if name in both] for role in ("quasi", "sensitive"))
    aligned = len(original) == len(released) or released.origin is original.origin
    found = []
    if quasi and aligned and len(original) > _MOST_LINKED:
        found.append(f"probabilistic-linkage (more than {_MOST_LINKED:,} records)")
    if quasi and sensitive and aligned and len(original) > _MOST_MODELED:
        found.append(f"model-disclosure (more than {_MOST_MODELED:,} records)")
    if len(quasi) > _MOST_KEYS:
        found.append(f"suda (more than {_MOST_KEYS} quasi-identifiers)")
    return tuple(found)


def _attacks(original: Dataset, released: Dataset) -> Iterator[tuple[str, dict[str, Any]]]:
    both = [name for name in released.columns if name in original.columns and not _holds_sets(original, name)]
    quasi = [name for name in original.having("quasi") if name in both]
    sensitive = [name for name in original.having("sensitive") if name in both]
    aligned = len(original) == len(released) or released.origin is original.origin
    if quasi:
        yield from _identity(original, released, quasi, aligned)
    if sensitive and aligned:
        yield "value-agreement", {"columns": sensitive}
    if quasi and sensitive:
        yield from _attribute(original, released, quasi, sensitive, aligned)


def _holds_sets(data: Dataset, name: str) -> bool:
    return data.type_of(name) == "set"


def _identity(
    original: Dataset, released: Dataset, quasi: list[str], aligned: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "attacker-risk", {"columns": quasi, "attacker": "marketer"}  # a mean, as the linkages
    if len(quasi) <= _MOST_KEYS:
        yield "suda", {"columns": quasi}
    if original.having("weight") and set(original.having("weight")) <= set(released.columns):
        yield "individual-risk", {"columns": quasi}
        if original.having("household") and set(original.having("household")) <= set(released.columns):
            yield "household-risk", {"columns": quasi}
    if aligned:
        yield "distance-linkage", {"columns": quasi}
        if len(original) <= _MOST_LINKED:
            yield "probabilistic-linkage", {"columns": list(comparable(original, released, quasi)) or quasi}
    else:
        yield "replicated-uniques", {"columns": quasi}


def _attribute(
    original: Dataset, released: Dataset, quasi: list[str], sensitive: list[str], aligned: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    others = [name for name in quasi if name not in sensitive]
    categorical = [name for name in sensitive if not (original.is_numeric(name) and released.is_numeric(name))]
    if not others:
        return
    if not aligned and categorical:
        yield "disco", {"columns": others, "targets": categorical}
    if aligned and categorical:
        yield "group-attack", {"columns": others, "sensitive": categorical}
    if aligned and len(original) <= _MOST_MODELED:
        for target in sensitive[:_MOST_TARGETS]:
            yield "model-disclosure", {"target": target, "features": others}
