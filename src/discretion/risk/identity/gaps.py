"""What gaps tell: most methods leave a missing value missing, so that who did not answer can be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from discretion.data.dataset import Dataset
from discretion.kernels.arrays import Bools, Floats
from discretion.risk.identity.distances import Space
from discretion.risk.identity.intruder import Intruder, Mistakes, View


def with_gaps(view: View, intruder: Intruder, space: Space) -> tuple[Space, tuple[str, ...]]:
    """Pass over the candidates whose gaps cannot be those of a known record; name the columns that tell it.

    Two things are looked up in the rows that belong together. A gap of the original stays one: all but imputation and
    moved categories keep it. A gap of the release was one before: all but suppression. Who knows the original values
    knows where there are none, and the counts of gaps on both sides, or the steps, tell which of the two holds. Columns
    for which both do are compared by their pattern of gaps, the others one by one. The space gets columns of categories
    that must agree; nothing is told by a file of the intruder's own, or by values with errors.
    """
    if intruder.data is not None or intruder.error != Mistakes():
        return space, ()
    told: dict[str, Floats] = {}
    shown: dict[str, Floats] = {}
    kept: list[tuple[str, Bools, Bools]] = []
    for name in view.columns:
        if not (view.known.count_missing(name) or view.released.count_missing(name)):
            continue
        known, published = _missing(view.known, name), _missing(view.released, name)
        own = published[view.rows]
        stays, was = known.any() and not (known & ~own).any(), published.any() and not (own & ~known).any()
        if stays and was:
            kept.append((name, known, published))
        elif stays or was:
            told[name] = np.where(known, 1.0, np.nan) if stays else np.where(known, np.nan, 0.0)
            shown[name] = published.astype(np.float64)
    names = (*(name for name, *_ in kept), *told)
    if kept:
        told[""], shown[""] = _patterns([known for _, known, _ in kept], [published for *_, published in kept])
    used = {name: x for name, x in told.items() if not np.isnan(x).all() and shown[name].min() < shown[name].max()}
    if not used:
        return space, ()
    pairs = [(x, shown[name]) for name, x in used.items()]
    return _wider(space, pairs), tuple(name for name in names if name in used or (name not in told and "" in used))


def with_who_lacks(who: str, gaps: Sequence[str]) -> str:
    """Add to what an intruder knows that it is also known who has no value in these columns."""
    if not gaps:
        return who
    also = f"also who has no value in {', '.join(gaps)}"
    return f"{who[:-1]}; {also})" if who.endswith(")") else f"{who} ({also})"


def _missing(data: Dataset, name: str) -> Bools:
    series = data.frame[name]
    absent = series.is_null() | series.is_nan().fill_null(True) if series.dtype.is_float() else series.is_null()
    return absent.to_numpy()


def _patterns(known: list[Bools], published: list[Bools]) -> tuple[Floats, Floats]:
    """Number the patterns of gaps of both sides together."""
    from discretion.kernels.classes import distinct_rows

    both = np.vstack([np.column_stack(known), np.column_stack(published)]).astype(np.float64)
    codes = distinct_rows(both).ids.astype(np.float64)
    return codes[: len(known[0])], codes[len(known[0]) :]


def _wider(space: Space, pairs: list[tuple[Floats, Floats]]) -> Space:
    """Add columns of categories that must agree."""
    from discretion.kernels.linkage_mixed import NOMINAL

    terms, more = space.terms, len(pairs)
    sizes = [int(max(np.nanmax(known), published.max())) + 1 for known, published in pairs]
    alike = np.full((sum(sizes), max(terms.alike.shape[1], 1)), -1, dtype=np.int64)
    alike[:, 0] = np.concatenate([np.arange(size) for size in sizes])
    table = np.vstack([terms.alike, alike]) if len(terms.alike) else alike
    first = len(terms.alike) + np.concatenate([[0], np.cumsum(sizes[:-1])]).astype(np.int64)

    def widened(x: Floats, value: float) -> Floats:
        return np.hstack([x, np.full((len(x), more), value)])

    return replace(
        space,
        gaps=more,
        known=np.column_stack([space.known, *(known for known, _ in pairs)]),
        published=np.column_stack([space.published, *(published for _, published in pairs)]),
        terms=terms._replace(
            kinds=np.append(terms.kinds, np.full(more, NOMINAL)),
            scale=widened(terms.scale, np.inf),
            gap=np.append(terms.gap, np.zeros(more)),
            alike=table,
            offsets=np.append(terms.offsets, first),
            low=widened(terms.low, -np.inf),
            high=widened(terms.high, np.inf),
        ),
    )
