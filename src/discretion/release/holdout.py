"""People put aside before a generator learns, so that attacks on synthetic data have a control group."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from discretion.context import Context, keyed_hash
from discretion.data.dataset import Dataset
from discretion.data.households import find_units
from discretion.errors import DataError
from discretion.kernels.order import keyed_order
from discretion.measure import Measure, Score
from discretion.method import Method
from discretion.part import Part

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
