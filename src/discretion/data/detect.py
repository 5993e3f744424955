"""Roles and types proposed from names, values and patterns, each with its reason; no reason quotes a cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from discretion.data.dataset import Dataset
from discretion.data.patterns import has_sets, pattern_of, spread_sample
from discretion.data.schema import Role, Type
from discretion.data.words import is_whole_name, role_in_name, says_number

if TYPE_CHECKING:
    import polars as pl

Confidence = Literal["high", "low"]

_NEARLY_ALL = 0.95
_MANY_ROWS = 1000
_FEW_VALUES = 20


@dataclass(frozen=True)
class Proposal:
    """What a column seems to be, and why."""

    column: str
    role: Role
    type: Type
    reason: str
    distinct: int
    missing: int
    confidence: Confidence

    @property
    def roles(self) -> tuple[Role, ...]:
        """The roles to write into a plan; where somebody lives is also known to an intruder."""
        return ("quasi", "geography") if self.role == "geography" else (self.role,)


@dataclass(frozen=True)
class _Facts:
    """What is counted about a column: `share` is that of distinct values among those that are not missing."""

    column: str
    kind: Any
    rows: int
    distinct: int
    missing: int
    sample: pl.Series

    @property
    def present(self) -> int:
        return self.rows - self.missing

    @property
    def share(self) -> float:
        return self.distinct / self.present if self.present else 0.0

    @property
    def is_text(self) -> bool:
        import polars as pl

        return self.kind in (pl.String, pl.Categorical, pl.Enum)

    @property
    def nearly_all_differ(self) -> bool:
        return self.present >= 20 and self.share >= _NEARLY_ALL

    @property
    def type(self) -> Type:
        import polars as pl

        if isinstance(self.kind, pl.List | pl.Array):
            return "set"
        if self.kind.is_temporal():
            return "date"
        if self.kind == pl.Enum:
            return "ordinal"
        if self.kind.is_float() or (self.kind.is_numeric() and self.distinct > _FEW_VALUES):
            return "continuous"
        return "ordinal" if self.kind.is_integer() else "nominal"

    def percent(self) -> str:
        return f"{self.distinct:,} distinct values in {self.present:,} rows"


def propose(data: Any) -> list[Proposal]:
    """Propose a role and a type for each column of a Dataset or frame, with the reason; the user decides.

    Names are read in seven languages; patterns are looked for in a sample of the rows; distinct values are
    counted over all rows. Nothing proposed here is applied by itself.

    Examples
    --------
    >>> import polars as pl
    >>> from discretion.data.detect import propose
    >>> [(p.column, p.role) for p in propose(pl.DataFrame({"edad": [31, 45], "income": [1.5, 2.5]}))]
    [('edad', 'quasi'), ('income', 'sensitive')]
    """
    dataset = Dataset.of(data)
    sample = spread_sample(dataset.frame)
    return [_propose(_facts(dataset, sample, name)) for name in dataset.columns]


def looks_like_identifier(data: Any, column: str) -> str | None:
    """Give the reason why a column surely names persons, or None; used to refuse plans that leave it as it is.

    Only strong signs count: addresses, numbers and codes of a known pattern in most cells; a name that says so
    with values to match; or, from a thousand rows, text or whole numbers of which nearly all differ.
    """
    dataset = Dataset.of(data)
    dataset.require([column])
    facts = _facts(dataset, spread_sample(dataset.frame.select(column)), column)
    found = _identifier(facts)
    return found[0] if found is not None and found[1] == "high" else None


def _facts(dataset: Dataset, sample: pl.DataFrame, name: str) -> _Facts:
    import polars as pl

    column = dataset.frame[name]
    kind = column.dtype
    missing = dataset.count_missing(name)
    if isinstance(kind, pl.List | pl.Array):
        column = column.cast(pl.List(pl.String)).list.join("|")
    distinct = column.fill_nan(None).drop_nulls().n_unique() if kind.is_float() else column.drop_nulls().n_unique()
    return _Facts(name, kind, len(column), distinct, missing, sample[name])


def _propose(facts: _Facts) -> Proposal:
    def give(role: Role, reason: str, confidence: Confidence, kind: Type | None = None) -> Proposal:
        return Proposal(facts.column, role, kind or facts.type, reason, facts.distinct, facts.missing, confidence)

    if facts.present == 0:
        return give("other", "all values are missing", "low")
    found = _identifier(facts)
    if found is not None:
        return give("identifier", found[0], found[1], "nominal")
    named = role_in_name(facts.column)
    texts = facts.sample.cast(str) if facts.is_text else None
    if texts is not None and (shape := pattern_of(texts)) is not None:
        pattern, share = shape
        role = named[0] if named is not None and named[0] != "identifier" else pattern.role
        return give(role, f"{share:.0%} of the values look like {pattern.what}", "high", pattern.type)
    if texts is not None and has_sets(texts):
        role = "sensitive" if named is None else named[0]
        return give(role, "many cells hold several items parted by '|'", "low" if named is None else "high", "set")
    if named is not None and named[0] != "identifier":
        return _by_name(facts, *named)
    return _by_values(facts, give)


def _identifier(facts: _Facts) -> tuple[str, Confidence] | None:
    """Say why a column names persons, if it does."""
    texts = facts.sample.cast(str) if facts.is_text else None
    if texts is not None and (shape := pattern_of(texts)) is not None:
        pattern, share = shape
        return (f"{share:.0%} of the values look like {pattern.what}", "high") if pattern.direct else None
    named = role_in_name(facts.column)
    numbers = facts.kind.is_integer()
    if named is not None and named[0] == "identifier" and (facts.is_text or numbers):
        enough = 20 if facts.is_text else 1000
        many = facts.share > 0.5 or (is_whole_name(facts.column, named[1]) and facts.distinct > enough)
        said = f"the name says so ({named[1]!r})"
        return (f"{said}; {facts.percent()}", "high") if many else (f"{said}, but few values differ", "low")
    if facts.nearly_all_differ and named is None and _names_rows(facts):
        sure: Confidence = "high" if facts.present >= _MANY_ROWS and facts.share >= 0.99 else "low"
        what = "texts" if facts.is_text else "whole numbers"
        return f"nearly all {what} differ: {facts.percent()}", sure
    if says_number(facts.column) and named is None and facts.share >= _NEARLY_ALL and (facts.is_text or numbers):
        return f"the name says number or id, and nearly all values differ: {facts.percent()}", "high"
    return None


def _names_rows(facts: _Facts) -> bool:
    """Tell whether values that nearly all differ name the rows: text, or whole numbers that are unique."""
    if facts.is_text:
        return True
    return bool(facts.kind.is_integer()) and facts.distinct == facts.present


def _by_name(facts: _Facts, role: Role, word: str) -> Proposal:
    reason, confidence, kind = f"the name says so ({word!r})", "high", facts.type
    if role == "weight" and not facts.kind.is_numeric():
        role, reason, confidence = "other", f"the name says weight ({word!r}), but the values are not numbers", "low"
    elif role == "household":
        reason = f"{reason}; {facts.percent()}"
        confidence = "high" if facts.share < 1 else "low"
        kind = "nominal"
    elif role in ("geography", "stratum"):
        kind = "continuous" if facts.kind.is_float() else "nominal"
    return Proposal(facts.column, role, kind, reason, facts.distinct, facts.missing, confidence)  # type: ignore[arg-type]


def _by_values(facts: _Facts, give: Any) -> Proposal:
    proposal: Proposal
    if facts.type == "date":
        proposal = give("quasi", "dates are often known to others", "high")
    elif facts.distinct == 1:
        proposal = give("other", "all values are the same", "high")
    elif facts.kind.is_numeric() and facts.type == "continuous":
        proposal = give("sensitive", f"numbers of which the name says nothing; {facts.percent()}", "low")
    elif facts.distinct <= _FEW_VALUES or facts.share < 0.5:
        reason = f"categories of which the name says nothing; {facts.percent()}"
        proposal = give("quasi" if facts.type != "set" else "sensitive", reason, "low")
    else:
        proposal = give("other", f"the name says nothing; {facts.percent()}", "low")
    return proposal
