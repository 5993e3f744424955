"""What a search gives back: the solution, and the other nodes that could be chosen instead."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.anonymize import anonymize
from discretion.anonymize.explorer import Explorer, Node, SearchResult, search
from discretion.anonymize.problem import SearchProblem
from discretion.anonymize.records import Steps
from discretion.context import Progress
from discretion.data.dataset import Dataset
from discretion.display import table
from discretion.errors import Infeasible
from discretion.measure import as_percent

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

# A picture of a solution space: what each evaluated node costs, and how many records it suppresses.

_WIDTH, _HEIGHT = 720, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 20, 58, 54
_INK, _MUTED, _GRID = "#1b2733", "#52606d", "#dde3e9"
_COLORS = {"infeasible": "#b8c2cc", "feasible": "#17568f", "best": "#9c4a00"}
_Scale = Callable[[float], float]
_SHOWN = 3000
"""Dots drawn at most."""


def draw(space: SolutionSpace) -> str:
    """Draw score (up) against suppressed share (right) of the evaluated nodes, with a tooltip for each."""
    nodes = [node for node in space.evaluated() if not math.isnan(node.score) and math.isfinite(node.score)]
    if not nodes:
        return _svg([_text(_WIDTH / 2, _HEIGHT / 2, "No node was evaluated to the end.", anchor="middle")], space)
    nodes = nodes[:_SHOWN]
    shares = [node.suppressed / space.records for node in nodes]
    x_most = max(*shares, space.limit if space.limit < 1 else 0.0, 1e-9) * 1.05
    low, high = min(node.score for node in nodes), max(node.score for node in nodes)
    margin = (high - low or abs(high) or 1.0) * 0.06
    low, high = low - margin, high + margin

    def x(share: float) -> float:
        return _LEFT + share / x_most * (_WIDTH - _LEFT - _RIGHT)

    def y(score: float) -> float:
        return _HEIGHT - _BOTTOM - (score - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    parts = _axes(space, x_most, (low, high), x, y)
    if 0 < space.limit < x_most:
        parts.append(_line(x(space.limit), _TOP, x(space.limit), _HEIGHT - _BOTTOM, _COLORS["best"], dash="5 4"))
        parts.append(_text(x(space.limit) - 5, _TOP + 12, "limit", anchor="end", fill=_COLORS["best"], size=11))
    for kind in ("infeasible", "feasible", "best"):
        parts += [
            _dot(space, node, kind, x(share), y(node.score))
            for node, share in zip(nodes, shares, strict=True)
            if _kind(space, node) == kind
        ]
    return _svg(parts, space)


def _kind(space: SolutionSpace, node: Node) -> str:
    if space.best is not None and node.steps == space.best.steps:
        return "best"
    return "feasible" if node.holds else "infeasible"


def _dot(space: SolutionSpace, node: Node, kind: str, x: float, y: float) -> str:
    levels = ", ".join(f"{name} {level}" for name, level in space.levels(node.steps).items())
    share = as_percent(node.suppressed / space.records)
    words = f"{levels}\n{space.loss} {node.score:.6g}, {share} suppressed, {node.classes} classes, k = {node.smallest}"
    radius = 6 if kind == "best" else 3
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{_COLORS[kind]}" fill-opacity="0.85">'
        f"<title>{escape(words)}</title></circle>"
    )


def _axes(space: SolutionSpace, x_most: float, span: tuple[float, float], x: _Scale, y: _Scale) -> list[str]:
    bottom = _HEIGHT - _BOTTOM
    parts = []
    for value in _ticks(*span):
        parts.append(_line(_LEFT, y(value), _WIDTH - _RIGHT, y(value), _GRID))
        parts.append(_text(_LEFT - 8, y(value) + 4, f"{value:.4g}", anchor="end", fill=_MUTED, size=11))
    for value in _ticks(0.0, x_most):
        parts.append(_line(x(value), bottom, x(value), bottom + 4, _MUTED))
        parts.append(_text(x(value), bottom + 18, f"{value * 100:.4g}%", anchor="middle", fill=_MUTED, size=11))
    parts.append(_line(_LEFT, bottom, _WIDTH - _RIGHT, bottom, _MUTED))
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(_text(middle, _HEIGHT - 12, "records suppressed", anchor="middle", fill=_MUTED, size=12))
    parts.append(_text(8, 16, f"{space.loss} (lower is better)", fill=_MUTED, size=12))
    return parts + _legend(space)


def _legend(space: SolutionSpace) -> list[str]:
    words = {
        "best": "optimal" if space.proven else "best found, not proven",
        "feasible": "satisfies the models",
        "infeasible": "does not",
    }
    parts, x = [], float(_LEFT)
    for kind, label in words.items():
        parts.append(f'<circle cx="{x:.1f}" cy="36" r="5" fill="{_COLORS[kind]}"/>')
        parts.append(_text(x + 10, 40, label, size=12))
        x += 34 + 6.4 * len(label)
    return parts


def _svg(parts: Sequence[str], space: SolutionSpace) -> str:
    title = f"{len(space)} of {space.nodes} combinations of levels were evaluated"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" font-family="system-ui, sans-serif"><title>{title}</title>'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>{"".join(parts)}'
        f"{_text(_WIDTH - _RIGHT, 16, title, anchor='end', fill=_MUTED, size=11)}</svg>"
    )


def _line(x1: float, y1: float, x2: float, y2: float, color: str, dash: str = "") -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}"{dashed}/>'


def _text(x: float, y: float, words: str, anchor: str = "start", fill: str = _INK, size: int = 13) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" font-size="{size}">{escape(words)}</text>'
    )


def _ticks(low: float, high: float, parts: int = 6) -> list[float]:
    """Give round numbers between two bounds."""
    raw = (high - low) / parts
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * (1 - 1e-9))
    return [index * step for index in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


__all__ = ["ClassFigures", "Solution", "SolutionSpace", "anonymize", "solve"]

_LISTED = 50_000
"""Nodes that the table of a solution space lists beside the evaluated ones."""


@dataclass(frozen=True)
class ClassFigures:
    """The equivalence classes of a release."""

    number: int
    mean: float
    smallest: int
    largest: int


class Solution:
    """A node of the lattice and the release it gives. The data is made when it is first asked for."""

    def __init__(self, problem: SearchProblem, node: Node, space: SolutionSpace) -> None:
        self._problem, self._node = problem, node
        self.space = space

    @cached_property
    def levels(self) -> dict[str, int]:
        """The level of each column."""
        return self._problem.records.levels(self._node.steps)

    @property
    def score(self) -> float:
        """The loss."""
        return self._node.score

    @property
    def suppressed(self) -> int:
        """The number of suppressed records."""
        return self._node.suppressed

    @property
    def suppressed_share(self) -> float:
        """The share of suppressed records."""
        return self._node.suppressed / self._problem.records.n

    @property
    def holds(self) -> bool:
        """Whether the models hold within the suppression limit."""
        return self._node.holds

    @property
    def classes(self) -> ClassFigures:
        """Number, mean size, smallest and largest of the classes that are kept."""
        kept = self._problem.records.n - self._node.suppressed
        number = self._node.classes
        return ClassFigures(number, kept / number if number else 0.0, self._node.smallest, self._node.largest)

    @property
    def proven(self) -> bool:
        """Whether no other node can be better."""
        return self.space.proven and self.space.is_best(self._node)

    @property
    def bound(self) -> float:
        """What no node can be better than; the score itself where the optimum is proven."""
        return self.space.bound

    @cached_property
    def dataset(self) -> Dataset:
        """The data at these levels, without identifiers and suppressed records (these count as `lost_records`)."""
        found = self._problem.generalized(self._node.steps)
        return found.drop(found.having("identifier"))

    def write(self, path: str | Path, **options: Any) -> None:
        """Write the data in a random order of its rows: a place tells nobody's record.

        Households and people (roles `household` and `unit`) are numbered anew: their numbers stand in other files.
        `dc.write(found.dataset, …)` keeps the order of the original, by which whoever has a list of the people in that
        order finds all of them. Options as for `dc.write`.
        """
        from discretion.data.households import publishable
        from discretion.data.write import write

        shuffled = self.dataset.take(np.random.default_rng().permutation(len(self.dataset)))
        write(publishable(shuffled), path, **options)

    @property
    def words(self) -> str:
        """Say in a sentence what was found."""
        figures = self.classes
        loss = self._problem.settings.loss
        known = "optimal" if self.proven else f"not proven: no node can be better than {self.bound:.6g}"
        return (
            f"{loss} {self.score:.6g} ({known}); {as_percent(self.suppressed_share)} of the records suppressed; "
            f"{figures.number} classes of {figures.smallest} to {figures.largest} records; "
            f"{len(self.space)} of {self._problem.records.nodes} nodes evaluated."
        )

    def plan_step(self) -> dict[str, Any]:
        """Give the solution as a step of a plan: these levels, the same models and limit; fits new data too."""
        from discretion.anonymize.optimal import OptimalGeneralization

        settings = self._problem.settings
        return OptimalGeneralization(
            models=settings.models,
            columns=self._problem.chosen,
            loss=settings.loss,
            suppression_limit=settings.suppression_limit,
            importance=settings.importance,
            suppression_factor=settings.suppression_factor,
            aggregate=settings.aggregate,
            levels=self.levels,
            summarize=settings.summarize,
            cluster=settings.cluster,
        ).to_plan()

    def _repr_html_(self) -> str:
        highest = {axis.column: axis.low + axis.steps - 1 for axis in self._problem.records.axes}
        rows = [(name, level, highest[name]) for name, level in self.levels.items()]
        title = "Solution: the level of each column, 0 being the value itself"
        return table(title, ("column", "level", "of at most"), rows, self.words)

    def __repr__(self) -> str:
        listed = ", ".join(f"{name}: {level}" for name, level in self.levels.items())
        return f"Solution({{{listed}}}; {self.words})"


class SolutionSpace:
    """The nodes of a search: those it evaluated, and bounds for those it did not need to.

    Any node can be looked at (`solution`) and chosen instead of the optimum (`choose`).
    """

    def __init__(self, problem: SearchProblem, explorer: Explorer, found: SearchResult) -> None:
        self._problem, self._explorer = problem, explorer
        self.best, self.proven, self.bound = found.best, found.proven, found.bound
        self._nodes = dict(explorer.evaluated)

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def nodes(self) -> int:
        """The number of nodes of the whole lattice."""
        return self._problem.records.nodes

    def is_best(self, node: Node) -> bool:
        """Tell whether a node has the best score."""
        return self.best is not None and node.holds and node.score <= self.best.score

    def solution(self, levels: Mapping[str, int]) -> Solution:
        """Evaluate a node by its levels, whether it satisfies the models or not; columns not named stay lowest."""
        node = self._explorer.look_at(self._problem.steps_of(levels))
        return Solution(self._problem, node, self)

    def choose(self, levels: Mapping[str, int]) -> Solution:
        """Take another node; it must satisfy the models within the suppression limit."""
        chosen = self.solution(levels)
        if not chosen.holds:
            failures = self._problem.judge.failures(self._problem.steps_of(levels))
            said = "; ".join(f"{one.kind}: {one.words}" for one in failures)
            lost = f"{chosen.suppressed} records ({as_percent(chosen.suppressed_share)})"
            if chosen.suppressed > self._problem.allowed:
                raise Infeasible(
                    f"these levels suppress {lost}, more than the limit of {self._problem.allowed} allows: {said}"
                )
            raise Infeasible(f"these levels break a model, whatever is suppressed: {said}")
        return chosen

    def table(self, *, everything: bool = False) -> pl.DataFrame:
        """Give the nodes as a table: a level per column, score, bound, k reached, suppressed share and status.

        Sorted by score. `everything` adds the nodes that were not evaluated, with their bounds, where the lattice has
        at most 50,000 nodes. Status: `optimal`, `feasible`, `infeasible` (evaluated), `excluded` (its bound says that
        it cannot satisfy the models) or `dominated` (its bound says that it cannot be better).
        """
        import polars as pl

        rows = [self._row(node) for node in self._nodes.values()]
        if everything and self.nodes <= _LISTED:
            rows += self._rest()
        names = [axis.column for axis in self._problem.records.axes]
        kinds = dict.fromkeys(names, pl.Int64) | {
            "score": pl.Float64,
            "bound": pl.Float64,
            "k": pl.Int64,
            "classes": pl.Int64,
            "suppressed_share": pl.Float64,
            "status": pl.String,
        }
        frame = pl.DataFrame(rows, schema=kinds, orient="row")
        return frame.sort(["score", "bound", *names], nulls_last=True)

    def _row(self, node: Node) -> tuple[Any, ...]:
        levels = self._problem.records.levels(node.steps).values()
        score = None if math.isnan(node.score) else node.score
        status = "infeasible"
        if node.holds:
            status = "optimal" if self.proven and self.is_best(node) else "feasible"
        k = node.smallest if node.exact and node.classes else None
        classes = node.classes if node.exact else None
        return (*levels, score, score, k, classes, node.suppressed / self._problem.records.n, status)

    def _rest(self) -> list[tuple[Any, ...]]:
        shape = self._problem.records.shape
        steps = np.stack(np.unravel_index(np.arange(self.nodes), shape), axis=1)
        bounds = self._explorer.bounds(steps)
        least = self._explorer.least_suppressed(steps) / self._problem.records.n
        rows = []
        for row, bound, share in zip(map(tuple, steps.tolist()), bounds.tolist(), least.tolist(), strict=True):
            if row not in self._nodes:
                status = "excluded" if math.isinf(bound) else "dominated"
                shown = None if math.isinf(bound) else bound
                levels = self._problem.records.levels(row).values()
                rows.append((*levels, None, shown, None, None, share, status))
        return rows

    def evaluated(self) -> list[Node]:
        """List the evaluated nodes, the best first."""
        return sorted(self._nodes.values(), key=lambda node: (not node.holds, math.isnan(node.score), node.rank))

    def levels(self, steps: Steps) -> dict[str, int]:
        """Give the level of each column at a node."""
        return self._problem.records.levels(steps)

    @property
    def limit(self) -> float:
        """The suppression limit."""
        return self._problem.settings.suppression_limit

    @property
    def records(self) -> int:
        """The number of records."""
        return self._problem.records.n

    @property
    def loss(self) -> str:
        """The name of the loss."""
        return self._problem.settings.loss

    def picture(self) -> str:
        """Draw score against suppressed share of the evaluated nodes, as SVG."""
        return draw(self)

    def _repr_svg_(self) -> str:
        return self.picture()


def solve(problem: SearchProblem, seconds: float | None = None, progress: Progress | None = None) -> Solution:
    """Search, and give the best solution; `Infeasible` with the reason where there is none."""
    explorer = problem.explore(progress)
    found = search(explorer, seconds)
    if found.best is None:
        top = explorer.evaluate(explorer.top)
        certain = found.proven or math.isinf(found.bound) or top.least > explorer.allowed
        raise problem.infeasible(explorer.evaluated.values(), certain)
    return Solution(problem, found.best, SolutionSpace(problem, explorer, found))
