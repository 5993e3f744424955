"""The public facts of a release: what was done in words, risk and utility, verdicts; nothing confidential."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion import __version__
from discretion.data.dataset import Dataset
from discretion.measure import align, as_percent
from discretion.release.order import order_words
from discretion.release.plan import Step
from discretion.release.ranking import chance_of
from discretion.release.under_policy import policy_facts

if TYPE_CHECKING:
    from discretion.release.release import Measured, Release
    from discretion.release.study import Done


def public_facts(release: Release) -> dict[str, Any]:
    """Collect what may be told to everybody."""
    from discretion.release.criteria import criteria_of_release, residual_risk

    release = release.for_public()
    criteria = criteria_of_release(release, internal=False)
    return {
        "format": "discretion-report",
        "version": 1,
        "software": f"discretion {__version__}",
        "title": release.plan.title,
        "notes": list(release.notes),
        "previous": list(dict.fromkeys((*(one.earlier for one in release.combined), *release.lineage.lost))),
        "policy": None if release.plan.policy is None else policy_facts(release.plan.policy),
        "waivers": [{"requirement": one.requirement, "by": one.by} for one in release.plan.waivers],
        "records": release.records,
        "records_suppressed": release.data.lost_records,
        "cells_suppressed": dict(release.suppressed_cells),
        "row_order": {"order": release.plan.order, "meaning": order_words(release.plan.order, release.data)},
        "smallest_class": None if (least := smallest_class(release)) is None else least.to_dict(),
        "households_alone": households_alone(release),
        "people_alone": people_alone(release),
        "sets_alone": sets_alone(release),
        "columns": columns(release),
        "confirmed_other": [name for name in release.plan.confirmed_other if name in release.data.columns],
        "intruder_knows_method": release.plan.knows_method,
        "steps": [step_facts(item.step) for item in release.study.done],
        "risk": [score_facts(release, item) for item in release.measured if item.measure.family == "risk"],
        "utility": [score_facts(release, item) for item in release.measured if item.measure.family == "utility"],
        "criteria": [one.to_dict() for one in criteria],
        "residual_risk": residual_risk(criteria),
        "requirements": [
            {"kind": finding.kind, "holds": finding.holds, "text": finding.explain_publicly()}
            for finding in release.findings
        ],
    }


@dataclass(frozen=True)
class SmallestClass:
    """The smallest group of published records that share the quasi-identifiers: anybody can count it in the file."""

    columns: tuple[str, ...]
    size: int
    alone: int
    """records without any other like them"""
    people: int | None = None
    """where people have several records (a column has the role `unit`): the fewest of whom a class consists"""
    share: float | None = None
    """and the largest share of a class that belongs to one person: the best chance to pick a record of that person"""

    def to_dict(self) -> dict[str, Any]:
        """Give the class as plain data, without what does not apply."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def smallest_class(release: Release, columns: Sequence[str] = ()) -> SmallestClass | None:
    """Count the classes of the published file (missing is a value of its own).

    None without quasi-identifiers, and where rows are synthetic and belong to nobody.
    """
    data = release.data
    if data.has_new_rows:  # who is alone there is nobody
        return None
    named = [name for name in columns or release.study.original.having("quasi") if name in data.columns]
    plain = tuple(name for name in named if not data.frame.schema[name].is_nested())
    if not plain or not len(data):
        return None
    copies = release.counted(plain)
    counts = [copy.class_counts(plain) for copy in copies]
    shared = [found for copy in copies if (found := _shared(copy, plain)) is not None]
    behind = (min(fewest for fewest, _ in shared), max(most for _, most in shared)) if shared else (None, None)
    alone = max(int((one == 1).sum()) for one in counts)
    return SmallestClass(plain, min(int(one.min()) for one in counts), alone, *behind)


def _shared(data: Dataset, columns: Sequence[str]) -> tuple[int, float] | None:
    """Give the fewest people of a class and the largest share of one; None where each person has one record."""
    from discretion.data.households import people_of

    people = people_of(data)
    if people is None:
        return None
    classes = data.classes(columns)
    width = int(people.max()) + 1
    pairs, held = np.unique(classes.ids.astype(np.int64) * width + people, return_counts=True)
    return int(np.bincount(pairs // width).min()), float((held / classes.counts[pairs // width]).max())


def dropped_alike(release: Release) -> tuple[str, ...]:
    """Name the sensitive columns for whose sake groups were dropped that are large enough by themselves.

    A group is the records that share the columns of a step with privacy models, at the levels it chose; one with fewer
    records or people than the models ask for is dropped for its size, whatever its values.
    """
    found: dict[str, None] = {}
    before = release.study.original
    for done in release.study.done:
        method: Any = done.step.method
        models = getattr(method, "models", ())
        named = [name for model in models for name in model.sensitive_columns(before)]
        if named and len(done.data) < len(before) and not done.data.has_new_rows and _large_dropped(before, done):
            found |= dict.fromkeys(named)
        before = done.data
    return tuple(found)


def _large_dropped(before: Dataset, done: Done) -> bool:
    """Tell whether a step dropped a record of a group that is as large as its models ask for."""
    from discretion.data.households import count_units, unit_codes
    from discretion.protect.recode import Generalize

    method: Any = done.step.method
    levels = dict(done.decision.values.get("levels") or {})
    columns = tuple(levels) or method.columns or next((model.columns for model in method.models if model.columns), ())
    moved = {name: level for name, level in levels.items() if before.levels.get(name, 0) != level}
    data = Generalize(levels=moved)(before) if moved else before
    classes = data.classes(data.choose(columns, "classes"))
    units = count_units(unit_codes(before), classes.ids, len(classes))
    sizes = classes.counts if units is None else units
    least = max(getattr(part, "k", None) or 1 for part in (method, *method.models))
    gone = ~np.isin(before.row_ids, done.data.row_ids)
    return bool((sizes[classes.ids[gone]] >= least).any())


def households_alone(release: Release) -> float | None:
    """Give the share of published records in a household like no other, by the quasi-identifiers of its members.

    Anybody can count it in the file; None where no household number or no quasi-identifier is published.
    """
    return _alone(release, release.data.having("household"))


def people_alone(release: Release) -> float | None:
    """Give the share of published records of people like no other, by the quasi-identifiers of all their records.

    Anybody can count it in the file; None where no number of people (`unit`) or no quasi-identifier is published.
    """
    return _alone(release, release.data.having("unit"))


def _alone(release: Release, numbers: Sequence[str]) -> float | None:
    """Give the share of records in groups like no other; a record without a number belongs to one group with them."""
    from discretion.kernels.swap import multiset_ids

    least = smallest_class(release)
    if least is None or not numbers:
        return None
    shares = []
    for copy in release.data.copies():
        of, values = (np.asarray(copy.classes(names).ids) for names in (numbers[:1], least.columns))
        _, number, counts = np.unique(multiset_ids(of, values), return_inverse=True, return_counts=True)
        shares.append(float((counts[number] == 1)[of].mean()))
    return max(shares)


def recurring_identifiers(release: Release) -> tuple[str, ...]:
    """Name the identifiers, where each of them recurs and no column tells people apart: figures then count records."""
    original = release.study.original
    named = original.having("identifier")
    if release.is_private or original.having("unit"):
        return ()
    values = [original.frame[name].drop_nulls() for name in named]
    return named if values and all(0 < one.n_unique() < len(one) for one in values) else ()


def sets_alone(release: Release) -> dict[str, float]:
    """Give for each published column of sets the share of records whose set nobody else has: anybody can count it."""
    copies = release.data.copies()
    if release.data.has_new_rows:
        return {}
    sets = [name for name in release.data.columns if release.data.type_of(name) == "set"] if len(copies[0]) else []
    alone = {name: [int((one.class_counts((name,)) == 1).sum()) / len(one) for one in copies] for name in sets}
    return {name: max(shares) for name, shares in alone.items()}


def step_facts(step: Step) -> dict[str, Any]:
    """Describe a step: what it does, what it guarantees, its public settings and the names of those withheld."""
    method = step.method
    return {
        "kind": method.kind,
        "what": method.summary(),
        "guarantee": method.guarantee,
        "settings": method.settings(public=not step.publish),
        "withheld": withheld(step),
    }


@dataclass(frozen=True)
class PublicFigures:
    """What everybody may know of a measure's result."""

    before: float | None
    after: float
    chance: float | None
    meaning: str
    rounded: bool


def public_figures(release: Release, measured: Measured) -> PublicFigures | None:
    """Give a measure's figures as far as they are public; None where the figure itself would give a parameter away.

    Of a differentially private release no figure is public that compares it with the original: no budget covers it.

    A figure on columns that a step changed with a withheld strength is rounded to one digit, the chance level with it:
    from the exact error (or risk) of noise or swapping its strength could be computed. `publish: true` on the measure
    shows it all.
    """
    if not measured.is_public or (release.is_private and not measured.publish):
        return None
    after = measured.after
    before = measured.before.value if measured.before else None
    chance = chance_of(after)
    if measured.publish or not tells_strength(release, measured):
        return PublicFigures(before, after.value, chance, after.meaning, rounded=False)
    meaning = "Rounded to one digit: the exact figure would let one compute a withheld setting."
    plain, informed = after.detail.get("plain"), after.detail.get("informed")
    if plain is not None and informed is not None:
        meaning += f" For an intruder who knows the method; without: about {as_percent(one_digit(plain))}."
    if (worst := after.detail.get("worst")) is not None:
        meaning += f" The worst column is {after.detail['worst_column']}: about {as_percent(one_digit(worst))}."
    guessed = None if chance is None else one_digit(chance)
    return PublicFigures(before, one_digit(after.value), guessed, meaning, rounded=True)


def tells_strength(release: Release, measured: Measured) -> bool:
    """Tell whether a measure looks at a column whose perturbation is withheld."""
    detail = measured.after.detail
    named = getattr(measured.measure, "columns", ()) or detail.get("columns") or detail.get("per_column")
    return any(strength_withheld(release, name) for name in named or release.data.columns)


def strength_withheld(release: Release, column: str) -> bool:
    """Tell whether a step that perturbed the column keeps one of its settings from the public."""
    return any(
        column in changed and item.step.method.perturbs and withheld(item.step)
        for item, changed in zip(release.study.done, release.changes, strict=True)
    )


def withheld(step: Step) -> list[str]:
    """Name the settings of a step that are kept from the public."""
    method = step.method
    return [] if step.publish else [name for name in method.confidential_fields() if name in method.settings()]


def one_digit(value: float) -> float:
    """Round to one significant digit."""
    return float(f"{value:.0e}")


def score_facts(release: Release, measured: Measured) -> dict[str, Any]:
    """Give a measure's public figures before and after."""
    facts: dict[str, Any] = {
        "kind": measured.measure.kind,
        "what": measured.measure.summary(),
        "better": measured.after.better,
        "range": list(measured.measure.limits),
        "settings": measured.measure.settings(public=not measured.publish),
    }
    figures = public_figures(release, measured)
    return facts | ({"withheld": True} if figures is None else asdict(figures))


def columns(release: Release) -> list[dict[str, Any]]:
    """Describe every column of the original: role, type, and what each step did to it."""
    original = release.study.original
    changed = list(zip(release.study.done, release.changes, strict=True))
    described = []
    for name in original.columns:
        steps = [item.step.method.kind for item, names in changed if name in names]
        described.append(
            {
                "name": name,
                "label": original.schema[name].label,
                "roles": list(original.schema[name].roles),
                "type": original.type_of(name),
                "published": name in release.data.columns,
                "steps": steps,
            }
        )
    return described


def changed_columns(before: Dataset, after: Dataset) -> set[str]:
    """Name the columns that differ between two states of the data, dropped ones included."""
    gone = set(before.columns) - set(after.columns)
    if after.has_new_rows and (not before.has_new_rows or len(before) != len(after)):
        return set(before.columns)
    if len(before) != len(after):
        before, after = align(before, after)
    kept = [name for name in after.columns if name in before.columns]
    return gone | {name for name in kept if not _same(before, after, name)}


def _same(before: Dataset, after: Dataset, name: str) -> bool:
    one, other = before.frame[name], after.frame[name]
    return one.dtype == other.dtype and one.equals(other, null_equal=True)
