"""A picture of a solution space: what each evaluated node costs, and how many records it suppresses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING

from discretion.measure import as_percent

if TYPE_CHECKING:
    from discretion.anonymize.explorer import Node
    from discretion.anonymize.solutions import SolutionSpace

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
