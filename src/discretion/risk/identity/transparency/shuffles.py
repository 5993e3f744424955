"""Columns that were dealt out anew by a model: what a published value tells of the predictors of its record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Floats, Ints
from discretion.part import Part, find
from discretion.risk.identity.distances import Space
from discretion.risk.identity.intruder import View
from discretion.risk.identity.transparency.steps import CODING, GENERALIZING, History

SHUFFLE = "shuffle"
_RECORDS_A_TERM, _MOST_TERMS = 20, 100
"""A prediction of unknown predictors has at most so many terms: more would repeat the records it is made from."""
_MOST_PEOPLE, _BLOCK = 100, 4096
"""People of a class on whom it is seen how likely a dealt value is for anybody, and records looked at together."""
_NOTHING = 1e-6
"""Variance of the expected scores, within what agrees anyway, below which they tell nothing."""


@dataclass(frozen=True)
class Dealt:
    """What the model that dealt columns out tells: for known records what is expected, for published what stands there.

    Squared differences plus `offset` are −2 log of how much likelier a published record is for a known one than for
    anybody of its class, but for a constant.
    """

    columns: tuple[str, ...]
    known: Floats
    published: Floats
    offset: Floats


def with_shuffles(view: View, space: Space, history: History, ctx: Context) -> tuple[Space, dict[str, str]]:
    """Compare what the model expects of a person with the values that were dealt out, instead of the person's own.

    Given the predictors, a dealt value is independent of the own one: what tells is how likely the model deals it to a
    record with these predictors, and it tells also who does not know the own value, or only knows the predictors. The
    columns are left out of the space and the turned expectations put at its end. Gives also what was used.
    """
    from discretion.kernels.linkage_mixed import ABSOLUTE, SQUARED

    used: dict[str, str] = {}
    for step in history.steps:
        if step.kind != SHUFFLE or (dealt := dealt_out(view, history, step, ctx)) is None:
            continue
        terms = space.terms
        kinds, gap = terms.kinds.copy(), terms.gap.copy()
        scale = terms.scale.copy()
        for name in set(dealt.columns) & set(space.columns):
            j = space.columns.index(name)
            kinds[j], scale[:, j], gap[j] = SQUARED, 0.0, 0.0
        more = dealt.known.shape[1] and dealt.known.shape[1] + 1

        def widened(x: Floats, value: float, more: int = more) -> Floats:
            return np.hstack([x, np.full((len(x), more), value)])

        terms = terms._replace(
            kinds=np.concatenate([kinds, np.full(max(more - 1, 0), SQUARED), np.full(min(more, 1), ABSOLUTE)]),
            scale=widened(scale, 1.0),
            gap=np.append(gap, np.zeros(more)),
            offsets=np.append(terms.offsets, np.zeros(more, np.int64)),
            low=widened(terms.low, -np.inf),
            high=widened(terms.high, np.inf),
        )
        if more:
            none = np.zeros((len(dealt.known), 1))
            known = np.hstack([space.known, dealt.known, none])
            published = np.hstack([space.published, dealt.published, dealt.offset[:, None]])
            space = replace(space, known=known, published=published)
        space = replace(space, terms=terms)
        told = dealt.columns if more else tuple(name for name in dealt.columns if name in space.columns)
        used.update(dict.fromkeys(told, f"{SHUFFLE}: the model that dealt the values out"))
    return space, used


def dealt_out(view: View, history: History, step: Any, ctx: Context) -> Dealt | None:
    """Give what a step of shuffling tells who knows its model, no columns where that is nothing; None if unknown.

    A dealt score z is normal around the expected one, m. A record counts by its density for a person, divided by the
    mean density for the people of its class, of whom it must be one: records that agree in the columns that tell it
    anyway. How z follows m is seen in a draw of the intruder's own from the same model.
    """
    columns = tuple(
        name for name in history.columns_of(step) if name in view.released.columns and history.stays_after(step, name)
    )
    if not columns or step.by:
        return None
    place = f"model of shuffle {len(history.before(step))} of {id(view.original)}"
    model = view.released.cached(
        (place, view.released.columns), lambda: (view.original, _model(view, history, step, ctx))
    )[1]  # linkages by other columns share it
    if model is None:
        return None
    before, computable, all_of, expected, again = model
    try:
        shown = step.scores(view.released, columns)
    except DataError:
        return None
    at = [all_of.index(name) for name in columns]
    drawn = again[:, at]
    told = _expected_by(view, before, step, expected, computable, all_of)[:, at]
    classes = _agreeing(view, history)
    center = _centers(told, classes)
    m, z, n = told - center, np.where(np.isnan(drawn), told, drawn) - center, len(told)
    spread = m.T @ m / n
    if np.trace(spread) <= _NOTHING:
        return Dealt(columns, np.empty((len(view.rows), 0)), np.empty((n, 0)), np.zeros(n))
    slope = np.linalg.pinv(spread, hermitian=True) @ (m.T @ z / n)
    turn = _whitened(z.T @ z / n - slope.T @ spread @ slope)
    gone = np.isnan(shown)
    known, published = (center + m @ slope) @ turn, np.where(gone, center, shown) @ turn
    offset = 2.0 * _log_densities(known, published, classes, ctx)
    published[gone.all(axis=1)], offset[gone.all(axis=1)] = np.nan, 0.0
    return Dealt(columns, known[view.rows], published, offset - offset.min(initial=0.0))


def _whitened(covariance: Floats) -> Floats:
    """Give what turns errors of this covariance to unit ones; where there are none, to large ones."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray(vectors / np.sqrt(np.maximum(values, _NOTHING)))


def _log_densities(known: Floats, published: Floats, classes: Ints, ctx: Context) -> Floats:
    """Give how likely each published record is for anybody of its class: the mean over its people, or some of many."""
    found = np.zeros(len(published))
    rng = ctx.within("class").rng
    order = np.argsort(classes, kind="stable")
    for rows in np.split(order, np.cumsum(np.bincount(classes))[:-1]):
        some = rows if len(rows) <= _MOST_PEOPLE else rng.choice(rows, _MOST_PEOPLE, replace=False)
        for part in np.split(rows, range(_BLOCK, len(rows), _BLOCK)):
            gaps = np.zeros((len(part), len(some)))
            for mine, theirs in zip(known[some].T, published[part].T, strict=True):
                gaps += (theirs[:, None] - mine) ** 2
            least = gaps.min(axis=1, initial=np.inf)
            found[part] = np.log(np.exp(-0.5 * (gaps - least[:, None])).mean(axis=1)) - 0.5 * least
    return found


def _model(
    view: View, history: History, step: Any, ctx: Context
) -> tuple[Dataset, frozenset[str], tuple[str, ...], Floats, Floats] | None:
    """Fit the model of a step again: the records it saw, what can be computed of them, expected and dealt scores."""
    before, computable = _as_seen(view, history, step, ctx)
    try:
        columns = before.choose(step.columns, "perturb")
        expected, factor = step.model(before, ctx)
        scores = step.scores(before, columns)
    except (DataError, PlanError):
        return None
    return before, computable, columns, expected, _dealt_again(expected, factor, scores, ctx)


def _dealt_again(expected: Floats, factor: Floats, scores: Floats, ctx: Context) -> Floats:
    """Deal the scores out once more, as anybody can who knows the model."""
    drawn = expected + ctx.within("dealt").rng.standard_normal(expected.shape) @ factor.T
    new = np.full_like(scores, np.nan)
    for j, own in enumerate(scores.T):
        present = np.flatnonzero(~np.isnan(own))
        new[present[np.argsort(drawn[present, j], kind="stable")], j] = np.sort(own[present])
    return new


def _centers(x: Floats, classes: Ints) -> Floats:
    """Give each record the mean of its class, values that are missing left out."""
    there = ~np.isnan(x)
    counts = np.column_stack([np.bincount(classes, column) for column in there.T])
    sums = np.column_stack([np.bincount(classes, column) for column in np.where(there, x, 0.0).T])
    return np.asarray((sums / np.maximum(counts, 1))[classes])


def _agreeing(view: View, history: History) -> Ints:
    """Number the records by the columns in which a candidate must agree anyway: who has the values knows the class.

    These are columns without gaps that give equal values equal labels.
    """
    kept = []
    for name in view.columns:
        if name not in view.original.columns or view.released.count_missing(name) or not history.is_generalized(name):
            continue
        before, after = view.original.classes([name]).ids, view.released.classes([name]).ids
        if len(np.unique(np.column_stack([before, after]), axis=0)) == len(np.unique(before)):
            kept.append(name)
    if not kept:
        return np.zeros(len(view.released), np.int64)
    return view.released.classes(kept).ids.astype(np.int64)


def _as_seen(view: View, history: History, step: Part, ctx: Context) -> tuple[Dataset, frozenset[str]]:
    """Give the records as a step saw them, and the columns that who has the original values computes alike.

    Codings before the step are carried out again and levels of hierarchies applied; a column that was changed otherwise
    before is taken from the release, where nothing changed it later.
    """
    data, computable = view.original, set(view.original.columns)
    levels: dict[str, int] = {}
    for number, (other, touched) in enumerate(history.before(step)):
        names = data.columns if touched is None else touched
        changing: Any = other
        if other.kind in CODING and not getattr(other, "by", ()):
            try:
                inner = ctx.within(f"seen-{number}")
                data = changing.rewrite(data, changing.fit(data, inner), inner)
                continue
            except DataError:
                pass
        level = {name: view.released.levels.get(name) for name in names}
        if other.kind in GENERALIZING and all(isinstance(one, int) for one in level.values()):
            levels |= {name: one for name, one in level.items() if isinstance(one, int)}
        else:
            computable -= set(names)
    moved = {
        name: view.released.frame[name]
        for name in data.columns
        if name not in computable and name in view.released.columns and history.stays_after(step, name, itself=True)
    }
    wanted = {name: level for name, level in levels.items() if level and name in computable}
    try:
        coarser: Any = find("generalize")
        data = coarser(levels=wanted).apply(data, ctx.within("seen")) if wanted else data
    except (DataError, PlanError):
        computable -= set(wanted)
    return data.with_columns(moved) if moved else data, frozenset(computable)


def _expected_by(
    view: View, before: Dataset, step: Any, expected: Floats, computable: frozenset[str], columns: Sequence[str]
) -> Floats:
    """Give the scores expected by what the intruder knows: all the predictors, or others that go together with them.

    Predictors that are not known are predicted by the known columns, the shuffled ones among them.
    """
    predictors = step.predictors or tuple(
        name for name in before.having("quasi") if name not in columns and before.type_of(name) != "set"
    )
    known = [name for name in view.columns if name in computable and name in before.columns]
    if set(predictors) <= set(known):
        return expected
    room = min(len(before) // _RECORDS_A_TERM, _MOST_TERMS)
    parts = [np.ones((len(before), 1))]
    for name in sorted(known, key=lambda name: (name not in predictors, name not in columns)):
        try:
            part = step.terms(before, name)
        except (DataError, PlanError):
            continue
        if part.shape[1] <= room:
            parts.append(np.nan_to_num(part))
            room -= part.shape[1]
    design = np.hstack(parts)
    return np.asarray(design @ np.linalg.lstsq(design, expected, rcond=None)[0])
