"""What cells look like: addresses, phone numbers, IBANs, national numbers, postal codes, dates, links, diagnoses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from discretion.data.schema import Role, Type

if TYPE_CHECKING:
    import polars as pl

SAMPLE = 100_000
"""How many rows are looked at, at a fixed stride."""


@dataclass(frozen=True)
class Pattern:
    """A shape of cells and what it suggests."""

    what: str
    regex: str
    role: Role
    type: Type
    direct: bool = False


PATTERNS: tuple[Pattern, ...] = (
    Pattern("e-mail addresses", r"^[^@\s]+@[^@\s]+\.[A-Za-z]{2,}$", "identifier", "nominal", True),
    Pattern("links", r"^(?i:https?://|www\.)\S+$", "identifier", "nominal", True),
    Pattern("IBANs", r"^[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?$", "identifier", "nominal", True),
    Pattern(
        "IP addresses",
        r"^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)$|^(?i:[0-9a-f]{0,4}:){3,7}[0-9a-f]{0,4}$",
        "identifier",
        "nominal",
        True,
    ),
    Pattern(
        "dates",
        r"^\d{4}[-/]\d{1,2}[-/]\d{1,2}([T ].*)?$|^\d{1,2}[./-]\d{1,2}[./-]\d{4}([T ]\d{1,2}:\d{2}.*)?$",
        "quasi",
        "date",
    ),
    Pattern(
        "national numbers",
        r"^\d{8}[- ]?[A-Z]$|^[XYZ]-?\d{7}-?[A-Z]$|^\d{3}-\d{2}-\d{4}$|^[A-Z]{6}\d{2}[A-Z]\d{2}[A-Z]\d{3}[A-Z]$"
        r"|^\d{3}\.\d{3}\.\d{3}-\d{2}$|^[A-CEGHJ-PR-TW-Z]{2} ?\d{2} ?\d{2} ?\d{2} ?[A-D]$",
        "identifier",
        "nominal",
        True,
    ),
    Pattern(
        "telephone numbers",
        r"^(?:\+|00)[1-9][\d ()/.-]{6,18}\d$|^\(?0\d{1,4}\)?[ /.-]\d[\d .-]{4,12}$|^\(?\d{3}\)?[ .-]\d{3}[ .-]\d{3,4}$",
        "identifier",
        "nominal",
        True,
    ),
    Pattern(
        "postal codes",
        r"^\d{5}(?:-\d{3,4})?$|^\d{4}[- ]?[A-Z]{2}$|^[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}$",
        "quasi",
        "nominal",
    ),
    Pattern("diagnosis codes (ICD)", r"^[A-TV-Z]\d[0-9AB]\.[0-9A-Z-]{1,4}[+*!]?$", "sensitive", "nominal"),
)


def spread_sample(frame: pl.DataFrame) -> pl.DataFrame:
    """Take about a hundred thousand rows at a fixed stride."""
    return frame if frame.height <= SAMPLE else frame.gather_every(-(-frame.height // SAMPLE))


def pattern_of(cells: pl.Series, share: float = 0.5) -> tuple[Pattern, float] | None:
    """Give the first pattern that more than a share of the cells have, and their share."""
    texts = cells.drop_nulls()
    if not len(texts):
        return None
    for pattern in PATTERNS:
        found = float(texts.str.contains(pattern.regex).mean() or 0)  # type: ignore[arg-type]
        if found > share:
            return pattern, found
    return None


def has_sets(cells: pl.Series) -> bool:
    """Tell whether many cells are lists joined with `|`."""
    texts = cells.drop_nulls()
    return bool(len(texts)) and float(texts.str.contains("|", literal=True).mean() or 0) > 0.2  # type: ignore[arg-type]
