"""Other Python tools beside this one, on the same pandas frame: pycanon (checks) and anjana (generalization).

They are no dependencies: without them the lines are left out, and it is said why. A line shows the CPU time of both,
and whether they agree; a figure in which they differ is over every limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import discretion as dc
from benchmarks.anonymize import load
from benchmarks.ratio import Line, cpu

ROWS = 20_000
"""Records; the checks of the peers need time in proportion to the classes times the records."""
QUASI = 4
K = 5


def lines() -> Iterator[Line]:
    """Yield every line of the table."""
    frame, hierarchies = load()
    names = frame.columns[: QUASI + 1]
    data = frame.select(names).sample(ROWS, seed=1).to_pandas()
    for package, measure in (("pycanon", _checks), ("anjana", _generalization)):
        try:
            peer = import_module(f"{package}.anonymity")
        except ImportError as error:
            print(f"{package}: left out, it cannot be imported here ({error})")
            continue
        yield from measure(peer, data, names[:QUASI], {name: hierarchies[name] for name in names[:QUASI]})


def _line(
    job: str, ours: Callable[[], Any], peer: str, theirs: Callable[[], Any], same: Callable[[Any, Any], str]
) -> Line:
    words = same(ours(), theirs())
    agreed = not words.startswith("DIFFER")
    return Line(f"{job} ({words})", peer, cpu(ours, runs=3), cpu(theirs, runs=1), 1.0 if agreed else 0.0)


def _equal(one: float, other: float) -> str:
    return f"same: {one:.4g}" if abs(one - other) <= 1e-9 else f"DIFFER: {one:.6g}, {other:.6g}"


def _search(data: Any, recipes: Mapping[str, dc.Hierarchy]) -> Any:
    described = dc.Dataset(data, roles=dict.fromkeys(recipes, "quasi"), hierarchies=recipes)
    return dc.anonymize(described, [dc.KAnonymity(k=K)], loss="height")


def _checks(peer: Any, raw: Any, quasi: Sequence[str], recipes: Mapping[str, dc.Hierarchy]) -> Iterator[Line]:
    """Compare the value each model reaches, on a release that is k-anonymous."""
    data = _search(raw, recipes).dataset.to_native()
    (secret,) = set(data.columns) - set(quasi)
    jobs: dict[str, tuple[dc.PrivacyModel, Callable[[], float]]] = {
        "k_anonymity": (dc.KAnonymity(k=2, columns=quasi), lambda: peer.k_anonymity(data, quasi)),
        "l_diversity": (
            dc.DistinctLDiversity(l=2, columns=quasi, sensitive=[secret]),
            lambda: peer.l_diversity(data, quasi, [secret]),
        ),
        "t_closeness": (
            dc.TCloseness(t=0.5, columns=quasi, sensitive=[secret], distance="equal"),
            lambda: peer.t_closeness(data, quasi, [secret]),
        ),
    }
    for name, (model, theirs) in jobs.items():
        yield _line(f"{type(model).__name__}, {ROWS:,} × {QUASI}", lambda model=model: model(data).value,
                    f"pycanon {name}", theirs, _equal)  # fmt: skip


def _generalization(peer: Any, data: Any, quasi: Sequence[str], recipes: Mapping[str, dc.Hierarchy]) -> Iterator[Line]:
    """Compare full-domain generalization: both must be k-anonymous, ours with no more levels, as it is the optimum."""
    from pandas import option_context  # anjana does not take the text columns of pandas 3

    plain = data.astype(object)
    tables = {
        name: dict(enumerate(map(list, recipe.bind(data[name].unique().tolist(), name).table)))
        for name, recipe in recipes.items()
    }

    def ours() -> Any:
        return _search(data, recipes)

    def theirs() -> Any:
        with option_context("future.infer_string", False):
            return peer.k_anonymity_inner(plain, [], list(quasi), K, 0, tables)

    def compare(found: Any, other: tuple[Any, int, Mapping[str, int]]) -> str:
        released, _, levels = other
        both = [dc.KAnonymity(k=K, columns=quasi)(frame).holds for frame in (found.dataset, released)]
        mine, height = sum(found.levels.values()), sum(levels.values())
        return f"{mine} levels, anjana {height}" if all(both) and mine <= height else f"DIFFER: {mine}, {height}"

    yield _line(f"anonymize, k={K}, {ROWS:,} × {QUASI}", ours, "anjana k_anonymity", theirs, compare)
