"""Which attacks an assessment runs when nobody chose: every one that roles and types allow.

Attacks that need only the release always run. Those that need to know which rows belong together are in the set too:
where nothing tells it they do not run, and their reason stands beside the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from discretion.context import Context, keyed_hash
from discretion.data.dataset import Dataset
from discretion.data.households import find_units
from discretion.data.schema import Role
from discretion.errors import DataError
from discretion.kernels.order import keyed_order
from discretion.learning.columns import comparable
from discretion.measure import Measure, Score, align
from discretion.method import Method
from discretion.part import Part, find
from discretion.risk.attribute.identity_denoising import known_sums
from discretion.risk.identity.intruder import knowing_method

_SHARE = 0.2
_FEWEST = 50


@dataclass(frozen=True)
class Split:
    """The data without those put aside, what the same steps make of it, and the people put aside."""

    trained: Dataset
    released: Dataset
    aside: Dataset


def run_with_holdout(measure: Measure, original: Dataset, released: Dataset, ctx: Context) -> Score:
    """Run a measure; one that needs people outside the data gets them from a split made before the steps.

    Only for synthetic rows, whose steps are known, and for the original itself: a fifth of the people (whole
    households, and all rows of a person where a unit or a repeated identifier tells them) is put aside, the steps are
    carried out again on the rest, and that file is attacked. The figure is
    about the method, not about this file; the release itself learns from everybody.
    """
    if not needs_split(measure, original, released):
        return measure.run(original, released, ctx)
    split = _split(original, released, Context(ctx.seed, "holdout", ctx.progress))
    told = measure.model_copy(update={"holdout": split.aside})
    score = told.run(split.trained, split.released, ctx)
    people, aside = _people(split.trained), _people(split.aside)
    words = f" (The steps were carried out again on {people:,} people, {aside:,} put aside.)"
    detail = {**score.detail, "refitted": {"people": people, "put_aside": aside}}
    return replace(score, meaning=score.meaning + words, detail=detail, per_record=None)


def prepare_split(measures: Iterable[Measure], original: Dataset, released: Dataset, ctx: Context) -> None:
    """Make the split that some of the measures need, once for all of them."""
    if any(needs_split(measure, original, released) for measure in measures):
        with suppress(DataError):
            _split(original, released, Context(ctx.seed, "holdout", ctx.progress))


def needs_split(measure: Part, original: Dataset, released: Dataset) -> bool:
    """Tell whether a measure lacks people outside the data, and the steps that made the rows are known."""
    lacks = "holdout" in type(measure).model_fields and getattr(measure, "holdout", None) is None
    made = released.has_new_rows and any(step.makes_rows for step in _steps(released))
    return lacks and (made or released is original)


def _steps(released: Dataset) -> list[Method]:
    return [step for step in released.steps if isinstance(step, Method)]


def _people(data: Dataset) -> int:
    """Count people: those that a unit or a repeated identifier tells apart, or rows."""
    units = find_units(data, households=False)
    return len(data) if units is None else int(units.max(initial=-1)) + 1


def _split(original: Dataset, released: Dataset, ctx: Context) -> Split:
    def make() -> tuple[Dataset, Split]:
        found = find_units(original)
        unit = np.arange(len(original)) if found is None else found
        units = int(unit.max()) + 1 if len(unit) else 0
        chosen = np.zeros(units, np.bool_)
        chosen[keyed_order(units, keyed_hash(ctx.secret, "holdout")[:16])[: round(_SHARE * units)]] = True
        aside = chosen[unit]
        if _people(original.take(aside)) < _FEWEST:
            raise DataError(f"fewer than {_FEWEST} people can be put aside; give `holdout`")
        data = trained = original.take(~aside)
        for number, step in enumerate([] if released is original else _steps(released)):
            data = step.on_part().run(data, ctx.within(f"{number}")).data
        return original, Split(trained, data, original.take(aside))

    return released.cached((f"split of {id(original)} by {ctx.seed}",), make)[1]


def default_measures(original: Dataset, released: Dataset) -> list[Measure]:
    """Choose measures that the data allows, and nothing that would fail."""
    chosen: list[tuple[str, dict[str, object]]] = []
    if released.has_new_rows:
        return _for_synthetic(original, released)
    quasi = [name for name in original.having("quasi") if name in released.columns]
    if quasi:
        chosen.append(("sample-uniqueness", {"columns": quasi}))
    numeric = _numeric_in_both(original, released)
    if linked := comparable(original, released, quasi):
        chosen.append(("distance-linkage", {"columns": linked}))
    attacked = [name for name in numeric if name in original.having("quasi", "sensitive")]
    if attacked:
        chosen += [("interval-risk", {"columns": attacked}), ("rank-interval", {"columns": attacked})]
    generalized = [name for name, column in original.schema.columns.items() if column.hierarchy]
    generalized = [name for name in generalized if name in released.columns and released.stands_in_hierarchy(name)]
    if generalized:
        chosen.append(("precision", {"columns": generalized}))
    if numeric:
        chosen += [("il1s", {"columns": numeric}), ("mre", {"columns": numeric})]
    if len(numeric) > 1:
        chosen.append(("mae", {"columns": numeric, "on": "correlation"}))
    built = [find(kind)(**fields) for kind, fields in chosen]
    return [measure for measure in built if isinstance(measure, Measure)]


_MOST_TREES = 100_000


def _for_synthetic(original: Dataset, released: Dataset) -> list[Measure]:
    """Choose measures for rows that belong to nobody: distributions, tables of two and three columns, models."""
    both = [name for name in original.choose((), "compare") if name in released.columns]
    both = [name for name in both if original.type_of(name) != "set" and _varies(original, name)]
    chosen: list[tuple[str, dict[str, object]]] = [("marginals", {"columns": both})] if both else []
    chosen += [("contingency", {"columns": both, "ways": ways}) for ways in (2, 3) if len(both) >= ways]
    if both and len(original) <= _MOST_TREES:
        chosen.append(("propensity", {"columns": both}))
    numeric = [name for name in _numeric_in_both(original, released) if name in both]
    if numeric:
        chosen.append(("interval-overlap", {"columns": numeric}))
    targets = [name for name in original.having("sensitive") if name in both and not original.is_quantity(name)]
    features = [name for name in both if name not in targets[:1]]
    if targets and features and len(original) <= _MOST_TREES:
        chosen.append(("classification-utility", {"target": targets[0], "features": features}))
    built = [find(kind)(**fields) for kind, fields in chosen]
    return [measure for measure in built if isinstance(measure, Measure)]


def _varies(data: Dataset, name: str) -> bool:
    return data.codes(name).size > 1 + (data.codes(name).missing >= 0)


def _numeric_in_both(original: Dataset, released: Dataset) -> list[str]:
    """Name the numeric columns that vary and can be compared, without identifiers, weights and household ids."""
    excluded = original.having("identifier", "weight", "household", "unit")
    return [
        name
        for name in original.columns
        if name not in excluded
        and name in released.columns
        and original.is_quantity(name)
        and not original.is_category(name)
        and released.is_numeric(name)
        and original.codes(name).size > 1 + (original.codes(name).missing >= 0)
    ]


_MOST_LINKED = 20_000
"""Above so many records the linkages that look at pairs are left to those who ask for them."""
_MOST_MODELED = 20_000
"""Above so many records a model is trained and tested on so many, drawn; its interval says what the whole may give."""
_MOST_KEYS = 10
_MOST_SUBSETS = 8
_MOST_TARGETS = 3
_MOST_REGISTERED = 50_000
"""Up to so many records an intruder has everybody's sensitive values too, and can eliminate."""
_KNOWN_PEOPLE = 1_000
"""People of whom he has them above that: enough for an interval of three points."""
_QUICK = (
    "attacker-risk", "individual-risk", "household-uniqueness", "weight-disclosure", "rare-values", "row-order",
    "value-agreement", "distance-linkage", "group-attack", "column-dependence", "replicated-uniques", "disco",
    "identity-denoising", "closest-record", "singling-out", "linkability", "inference-risk", "generator-membership",
)  # fmt: skip
"""Attacks of the set that a report runs too when nobody chose: each takes about as long as a linkage, or less."""
_BY_COLUMNS = ("distance-linkage", "attacker-risk", "replicated-uniques")
"""Attacks that are run once for each set of columns that somebody may know."""
_PLACES: tuple[Role, ...] = ("geography", "stratum")
"""Roles of columns that others know as they know the quasi-identifiers, whatever a model counts."""
_QUICKLY_SHADOWED, _MOST_SHADOWED = 15_000, 50_000
"""Cells of the data up to which a report, and an assessment, run the generator again on halves of the people; of more
so many people are drawn that they have about as many cells."""
_FEWEST_SHADOWED = 500
_FEW_ALONE = 0.2
"""Different values, as a share of the records, from which on a column makes keys that hardly two people share."""
_NEAR = 5.0
"""Percent within which a number counts as learnt from a group."""


def attack_set(original: Dataset, released: Dataset) -> list[Measure]:
    """Give the measures of `default_measures` and further attacks, each once: risks first, then utilities."""
    measures = [_whole(measure) for measure in default_measures(original, released)]
    every = [*measures, *_further(measures, original, released)]
    return _risks_first(knowing_method(measure, True) for measure in every)  # nobody says how it was made


def report_set(original: Dataset, released: Dataset) -> list[Measure]:
    """Give the measures of a report whose plan names none: `default_measures`, and the quick attacks of the set.

    Together they judge every published column: rare values, weights, households, the order of rows, groups.
    """
    measures = default_measures(original, released)
    further = [one for one in _further(measures, original, released) if one.kind in _QUICK]
    fewer = _shadowed(original, _QUICKLY_SHADOWED)
    return _risks_first(
        one.model_copy(update=fewer) if one.kind == "generator-membership" else one for one in [*measures, *further]
    )


def unnamed_linkages(named: Iterable[object], original: Dataset, released: Dataset) -> list[Measure]:
    """Give the linkages by the quasi-identifiers, and by all that others may know, that no part of a plan covers.

    They belong to every report: a plan that names its measures must not hide that people can be found by columns which
    it did not think of. A linkage by more columns covers one by fewer.
    """
    covered = [
        {*(getattr(part, "columns", ()) or original.having("quasi"))}
        for part in named
        if getattr(part, "kind", None) == "distance-linkage"
    ]
    if released.has_new_rows:
        return []
    there = [name for name in original.having("quasi", "sensitive", *_PLACES) if name in released.columns]
    quasi = [name for name in original.having("quasi") if name in there]
    known = dict.fromkeys((comparable(original, released, quasi), comparable(original, released, there)))
    return [
        cast("Measure", find("distance-linkage")(columns=columns, **_known_people(original)))
        for columns in known
        if columns and not any({*columns} <= others for others in covered)
    ]


def _further(measures: list[Measure], original: Dataset, released: Dataset) -> Iterator[Measure]:
    """Give attacks that are not yet among the measures, or have another aim or more knowledge."""
    known = {measure.kind for measure in measures}
    tried = {
        (measure.kind, frozenset(getattr(measure, "columns", ()) or original.having("quasi")))
        for measure in measures
        if measure.kind in _BY_COLUMNS
    }
    for kind, fields in _attacks(original, released):
        part = find(kind)(**fields)
        again = bool({"target", "coalition"} & fields.keys())
        if kind in _BY_COLUMNS:
            again = (kind, frozenset(fields["columns"])) not in tried
            tried.add((kind, frozenset(fields["columns"])))
        if isinstance(part, Measure) and (kind not in known or again):
            known.add(kind)
            yield part


def _risks_first(measures: Iterable[Measure]) -> list[Measure]:
    return sorted(measures, key=lambda measure: measure.family != "risk")


def _whole(measure: Measure) -> Measure:
    """Let the linkage look at all the quasi-identifiers, and say itself which of them it cannot compare."""
    if measure.kind != "distance-linkage":
        return measure
    return measure.model_copy(update={"columns": ()})


def left_out(scores: Iterable[Score]) -> dict[str, tuple[str, ...]]:
    """Name the quasi-identifiers that linkages could not compare, by measure."""
    found = {score.measure: score.detail.get("left_out") or score.detail.get("not_compared") or () for score in scores}
    return {measure: tuple(columns) for measure, columns in found.items() if columns}


def unlinked(released: Dataset, scores: Iterable[Score]) -> tuple[str, ...]:
    """Name the published columns that others may know and no linkage compared; none where rows belong to nobody."""
    if released.has_new_rows:
        return ()
    linked = {name for score in scores if "-linkage" in score.measure for name in score.detail.get("columns", ())}
    hidden = released.having("identifier", "household", "unit")
    roles: tuple[Role, ...] = ("quasi", "sensitive", *_PLACES, "weight")
    return tuple(name for name in released.having(*roles) if name not in linked and name not in hidden)


def too_large(original: Dataset, released: Dataset) -> dict[str, str]:
    """Say which attacks the set leaves out because the data is large, and why; whoever names them can run them."""
    both = [name for name in released.columns if name in original.columns]
    quasi = [name for name in original.having("quasi") if name in both]
    found = {}
    if quasi and len(original) > _MOST_LINKED:
        found["probabilistic-linkage"] = f"more than {_MOST_LINKED:,} records"
    if len(quasi) > _MOST_KEYS:
        found["suda"] = f"more than {_MOST_KEYS} quasi-identifiers"
    if len(quasi) > _MOST_SUBSETS:
        found["quasi-identifiers"] = f"more than {_MOST_SUBSETS} quasi-identifiers"
    return found


def rows_match(original: Dataset, released: Dataset) -> bool:
    """Tell whether it is known which rows belong together."""
    try:
        align(original, released)
    except DataError:
        return False
    return True


def _attacks(original: Dataset, released: Dataset) -> Iterator[tuple[str, dict[str, Any]]]:
    both = [name for name in released.columns if name in original.columns]
    quasi = [name for name in original.having("quasi") if name in both]
    sensitive = [name for name in original.having("sensitive") if name in both]
    if released.has_new_rows:
        apart = {*original.having("identifier", "unit", "household", "weight")}
        whole = [name for name in _single(original, both) if name not in apart]
        yield from _on_synthetic(original, _single(original, quasi), _single(original, sensitive), whole)
        if any(getattr(step, "makes_rows", False) for step in released.steps):
            yield "generator-membership", _shadowed(original, _MOST_SHADOWED)
        return
    if quasi:
        yield from _identity(original, released, quasi)
    yield from _by_design(original, released, quasi)
    if original.having("weight") and set(original.having("weight")) <= set(released.columns):
        yield "weight-disclosure", {}
    if quasi or sensitive:
        yield "rare-values", {}
        yield "row-order", {}
        yield "column-dependence", {}
    if known_sums(original, released):
        yield "identity-denoising", {}
    if sensitive:
        yield "value-agreement", {"columns": sensitive}
        yield from _joint(original, released, quasi, sensitive)
    if quasi and sensitive:
        yield from _attribute(original, released, quasi, sensitive)


def _on_synthetic(
    original: Dataset, quasi: list[str], sensitive: list[str], whole: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the attacks on rows that belong to nobody; people outside the data come from a split before the steps.

    Whole records are compared by every column of single values: what nobody named may have been copied too.
    """
    common = [name for name in quasi if original.codes(name).size <= len(original) * _FEW_ALONE]
    for key in [quasi, common] if common and common != quasi else [quasi] if quasi else []:
        yield "replicated-uniques", {"columns": key}  # a key that hardly two people share replicates nobody
    if whole:
        yield "closest-record", {"columns": whole}
        yield "singling-out", {"columns": whole}
    if len(quasi) > 1:
        yield "linkability", {"first": quasi[: len(quasi) // 2], "second": quasi[len(quasi) // 2 :]}
    others = [name for name in quasi if name not in sensitive]
    if others and sensitive:
        yield "inference-risk", {"columns": others, "targets": sensitive}
        categorical = [name for name in sensitive if not original.is_quantity(name) or original.is_category(name)]
        if categorical:
            yield "disco", {"columns": others, "targets": categorical}


def _by_design(original: Dataset, released: Dataset, quasi: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Link by the quasi-identifiers with place and stratum, and with the weights too: no model need count these."""
    places, weights = _beside(original, released, quasi)
    for more in (places, [*places, *weights] if weights else []):
        columns = comparable(original, released, [*quasi, *more]) if more else ()
        if set(columns) - set(quasi):
            yield "attacker-risk", {"columns": columns, "attacker": "marketer"}
            yield "distance-linkage", {"columns": columns}


def _beside(original: Dataset, released: Dataset, named: Sequence[str]) -> tuple[list[str], list[str]]:
    """Give the published places and strata, and the weights, that are not among the columns named."""
    there = [name for name in released.columns if name in original.columns and name not in named]
    hidden = original.having("identifier", "household", "unit")
    places = [name for name in original.having(*_PLACES) if name in there and name not in hidden]
    weights = [name for name in original.having("weight") if name in there and name not in (*hidden, *places)]
    return places, weights


def _joint(
    original: Dataset, released: Dataset, quasi: list[str], sensitive: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Link by everything that can be compared, and by the sensitive columns alone: more columns can find fewer."""
    people = _known_people(original)
    known = list(dict.fromkeys([*quasi, *sensitive]))
    places, weights = _beside(original, released, known)
    for columns in ([*known, *places], [*known, *places, *weights] if weights else [], sensitive):
        if linked := comparable(original, released, columns):
            yield "distance-linkage", {"columns": linked, **people}


def _known_people(original: Dataset) -> dict[str, Any]:
    return {} if len(original) <= _MOST_REGISTERED else {"intruder": {"records": _KNOWN_PEOPLE}}


def _holds_sets(data: Dataset, name: str) -> bool:
    return data.type_of(name) == "set"


def _shadowed(data: Dataset, cells: int) -> dict[str, Any]:
    """Give how many people are drawn, so that runs of the generator on them take no longer than those of small data."""
    rows = cells // max(len(data.columns), 1)
    if len(data) <= max(rows, _FEWEST_SHADOWED):
        return {}
    units = find_units(data)
    people = len(data) if units is None else int(units.max(initial=-1)) + 1
    return {"sample": max(_FEWEST_SHADOWED, rows * people // len(data))}


def _single(data: Dataset, columns: list[str]) -> list[str]:
    """Give the columns of single values: the attacks on synthetic rows and the models compare no sets."""
    return [name for name in columns if not _holds_sets(data, name)]


def _identity(original: Dataset, released: Dataset, quasi: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "attacker-risk", {"columns": quasi, "attacker": "marketer"}  # a mean, as the linkages
    if len(quasi) <= _MOST_KEYS:
        yield "suda", {"columns": quasi}
    if 1 < len(quasi) <= _MOST_SUBSETS:
        yield "quasi-identifiers", {"columns": quasi}
    if released.having("household"):  # without the number nobody sees who lives together
        yield "household-uniqueness", {"columns": quasi}
    if original.having("weight") and set(original.having("weight")) <= set(released.columns):
        yield "individual-risk", {"columns": quasi}
        if released.having("household"):
            yield "household-risk", {"columns": quasi}
    yield "distance-linkage", {"columns": quasi}
    if len(original) <= _MOST_LINKED:
        yield "probabilistic-linkage", {"columns": list(comparable(original, released, quasi)) or quasi}
    if not rows_match(original, released):
        yield "replicated-uniques", {"columns": quasi}


def _attribute(
    original: Dataset, released: Dataset, quasi: list[str], sensitive: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    others = [name for name in quasi if name not in sensitive]
    if not others:
        return
    matched = rows_match(original, released)
    truth = {} if matched else {"truth": "released"}
    if matched or not released.has_new_rows:  # values of synthetic rows are nobody's: DiSCO asks what is true of people
        yield "group-attack", {"columns": others, "sensitive": sensitive, "percent": _NEAR, **truth}
        yield "group-attack", {"columns": others, "sensitive": sensitive, "percent": _NEAR, "coalition": 1, **truth}
    categorical = [name for name in _single(original, sensitive) if not _counts(original, released, name)]
    if categorical and not matched and _single(original, others):
        yield "disco", {"columns": _single(original, others), "targets": categorical}
    features = _single(original, others)
    sample = {"sample": _MOST_MODELED} if len(released) > _MOST_MODELED else {}
    for target in _single(original, sensitive)[:_MOST_TARGETS] if features else ():
        yield "model-disclosure", {"target": target, "features": features, **sample, **truth}


def _counts(original: Dataset, released: Dataset, name: str) -> bool:
    """Tell whether a column is one of numbers on both sides, and not of categories written as numbers."""
    numeric = original.is_numeric(name) and released.is_numeric(name)
    return numeric and not (original.is_category(name) and released.is_category(name))
