"""Roles and types proposed from names, values and patterns, each with its reason; no reason quotes a cell."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from discretion.data.dataset import Dataset
from discretion.data.schema import Role, Type
from discretion.data.words import (
    asks_age,
    is_whole_name,
    names_of_people,
    names_person,
    parts_of,
    role_in_name,
    says_age,
    says_birth,
    says_number,
    says_person_number,
    says_postal_code,
    says_sex,
)
from discretion.kernels.arrays import Floats, Ints

if TYPE_CHECKING:
    import polars as pl

# Numbers that stand for missing values: −9, 99, 99999998. Found by their usual form and because they stand apart.

MissingCodes = Mapping[str, tuple[int | float, ...]]

_USUAL = re.compile(r"9*[6-9]|6{2,}|7{2,}|8{2,}")
_SAID = re.compile(
    r"refus|verweiger|don.?t know|do not know|wei(?:ss|ß) nicht|no answer|not answered|keine ang|\bk\. ?a\.|missing|"
    r"fehlt|fehlend|not applicable|inapplicable|trifft nicht zu|entf[aä]llt|not stated|not available|unknown|unbekannt|"
    r"no sabe|no contesta|ns/nc|\bn[ao]o sabe|não (?:sabe|responde)|non risponde|non sa\b|ne sait pas|sans r[eé]ponse|"
    r"no ho sap|nicht erhoben|would not say|prefer not",
    re.IGNORECASE,
)
_FEW = 20
_MOST_CODES = 8
_FARTHEST_SINGLE = -6
"""From here on down a negative number says by itself that it is none of a count or a scale."""


def find_missing_codes(data: Dataset) -> dict[str, tuple[int | float, ...]]:
    """Find the numbers of each column that seem to stand for missing values; columns with declared codes are passed.

    Negative numbers of the usual form (−1 … −9, −77, −99, −999, …) where nothing else is negative, or ten times as
    common as anything else that is, and nines, eights and the like above everything else (9, 98, 99, 9999, 99999998),
    if they stand apart from the other values: by more than the range of these where there are few of them, by three
    times the range where there are many (half of it for two or more codes in a row). Ages of 97 to 99 count if they are
    far commoner than the ages before, and the two ages right before do not both occur (as they do where all who are
    older were put there). Where values have labels, the label of a code must say so. A code in the middle of the other
    values cannot be found.
    """
    found = {name: _codes(data, name) for name in data.columns if not data.schema[name].missing_codes}
    return {name: codes for name, codes in found.items() if codes}


def with_missing(data: Dataset, codes: MissingCodes) -> Dataset:
    """Give the data with these codes declared and made missing; the schema stays otherwise."""
    if not codes:
        return data
    schema = data.schema
    for name, values in codes.items():
        schema = schema.with_column(name, missing_codes=(*schema[name].missing_codes, *values))
    new = Dataset(data.frame, schema=schema)
    new.came_from, new.dialect = data.came_from, data.dialect
    return new


def _codes(data: Dataset, name: str) -> tuple[int | float, ...]:
    if not data.is_numeric(name):
        return ()
    column = data.number(name)
    values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
    values, counts = values[np.isfinite(values)], counts[np.isfinite(values)].astype(np.int64)
    below = _negative(values, counts)
    rest = ~np.isin(values, below)
    found = sorted([*below, *_large(values[rest], counts[rest], says_age(data.schema[name].label or name))])
    labels: dict[Any, str] = dict(data.schema[name].value_labels)
    said = [value for value in found if not labels or _SAID.search(labels.get(value, "missing"))]
    whole = data.frame.schema[name].is_integer() or all(value.is_integer() for value in said)
    return tuple(int(value) if whole else value for value in said)


def _negative(values: Floats, counts: Ints) -> list[float]:
    below = values < 0
    usual = np.array([_is_usual(-value, single=True) for value in values[below]], dtype=np.bool_)
    if 0 < usual.sum() < len(usual):  # others are negative too: only far commoner ones are codes
        most = counts[below][~usual].max()
        return list(values[below][usual & (counts[below] >= max(5, 10 * most))])
    codes, rest = values[below], values[~below]
    if not 1 <= len(codes) <= _MOST_CODES or len(rest) < 2 or not usual.all():
        return []
    gap, far = rest[0] - codes[-1], codes[-1] <= _FARTHEST_SINGLE
    if len(rest) > _FEW:
        common = bool((counts[below] >= 3 * counts[~below].mean()).all())
        return codes.tolist() if common or (far and counts[below].sum() > 1) else []
    return codes.tolist() if far or gap > np.diff(rest).max() else []


def _large(values: Floats, counts: Ints, age: bool) -> list[float]:
    for size in range(4, 0, -1):
        codes, rest = values[-size:], values[:-size]
        if len(rest) < 2 or not all(_is_usual(code) for code in codes):
            continue
        gap, span = codes[0] - rest[-1], rest[-1] - rest[0]
        if len(rest) <= _FEW:
            often = counts[-size:].min() >= max(5, 0.01 * counts.sum())
            apart = gap >= 3 and gap > span and (codes[0] > 9 or often)
        else:
            row = size > 1 and bool((np.diff(codes) == 1).all())
            apart = gap >= (0.5 if row else 3) * span
        if apart or (age and codes[0] >= 97 and codes[-1] <= 99 and _is_spike(values, counts, size)):
            return list(codes)
    return []


def _is_spike(values: Floats, counts: Ints, size: int) -> bool:
    """Tell whether each of the last values is far commoner than the five whole numbers before them.

    Where the two numbers right before occur, people are that old, and the last value stands for all who are older.
    """
    if np.isin(values[-size] - np.array([1.0, 2.0]), values).all():
        return False
    before = counts[:-size][values[:-size] >= values[-size] - 5].sum() / 5
    return bool(counts[-size:].min() >= 5 * max(float(before), 1.0))


def _is_usual(value: float, *, single: bool = False) -> bool:
    """Tell the usual forms of codes; `single`: any one digit is one."""
    if not float(value).is_integer():
        return False
    text = str(int(value))
    return (bool(_USUAL.fullmatch(text)) and text != "6") or (single and len(text) == 1 and value > 0)


# What cells look like: addresses, phone numbers, IBANs, cards, national numbers, postal codes, dates, links, pictures.

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


_COMPACT_DATE = r"^(?:18|19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])$"
"""Year, month and day as one number: 20240301."""
PATTERNS: tuple[Pattern, ...] = (
    Pattern("e-mail addresses", r"^[^@\s]+@[^@\s]+\.[A-Za-z]{2,}$", "identifier", "nominal", True),
    Pattern(
        "links",
        r"^(?i:https?://|www\.)\S+$|^(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}/[^\s|]+$",
        "identifier",
        "nominal",
        True,
    ),
    Pattern("names of accounts (@…)", r"^@[A-Za-z0-9_.-]{2,30}$", "identifier", "nominal", True),
    Pattern("IBANs", r"^[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?$", "identifier", "nominal", True),
    Pattern("MAC addresses", r"^(?i:[0-9a-f]{2}[:-]){5}(?i:[0-9a-f]{2})$", "identifier", "nominal", True),
    Pattern("numbers of devices (UDI)", r"^\(01\) ?\d{14}(?: ?\(\d\d\).*)?$", "identifier", "nominal", True),
    Pattern(
        "hashes, as of fingerprints",
        r"^(?i:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{56}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128})$",
        "identifier",
        "nominal",
        True,
    ),
    Pattern("UUIDs", r"^\{?(?i:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\}?$", "identifier", "nominal", True),
    Pattern(
        "pictures or recordings",
        r"^[^|]*\S\.(?i:jpe?g|png|tiff?|gif|bmp|heic|webp|dcm|wav|mp3|mp4|mov)$",
        "identifier",
        "nominal",
        True,
    ),
    Pattern(
        "card numbers",
        r"^\d{4}([ -])\d{4}[ -]\d{4}[ -]\d{4}$|^3[47]\d\d[ -]\d{6}[ -]\d{5}$",
        "identifier",
        "nominal",
        True,
    ),
    Pattern(
        "vehicle numbers (VIN)",
        r"^(?:[A-HJ-NPR-Z][A-HJ-NPR-Z0-9]{2}|\d[A-HJ-NPR-Z][A-HJ-NPR-Z0-9])[A-HJ-NPR-Z0-9]{10}\d{4}$",
        "identifier",
        "nominal",
        True,
    ),
    Pattern(
        "numbers of health plans or medical records",
        r"^[1-9][AC-HJKMNP-RT-Y][AC-HJKMNP-RT-Y\d]\d-?[AC-HJKMNP-RT-Y][AC-HJKMNP-RT-Y\d]\d-?[AC-HJKMNP-RT-Y]{2}\d\d$"
        r"|^(?i:mrn|pid)[-:# ]{0,2}\d{4,}$",
        "identifier",
        "nominal",
        True,
    ),
    Pattern(
        "street addresses",
        r"^\d+[A-Za-z]?,? .*\b(?i:street|st|avenue|ave|road|rd|lane|ln|drive|dr|boulevard|blvd|court|ct|way|place|pl"
        r"|terrace|highway|hwy)\b\.?.*$|^\D+(?i:str\.|straße|strasse|weg|platz|gasse|allee) \d+ ?[A-Za-z]?\b.*$"
        r"|^(?i:calle|c/|avda\.?|avenida|carrer|via|viale|piazza|rue|rua|plaza|plaça) .*\d.*$|^\d+,? (?i:rue|bis) .*$",
        "identifier",
        "nominal",
        True,
    ),
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
        "dates",  # that are not read as such: they stay text
        r"^\d{1,2}[./-]\d{1,2}[./-]\d{2}$|^(?i:\d{1,2}\.?[ -]?)?(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
        r"[a-z]*\.?(?: \d{1,2})?,?[ -]?\d{4}$|^\d{1,2}[ -][A-Za-z]{3}[ -]\d{2}$|" + _COMPACT_DATE,
        "quasi",
        "nominal",
    ),
    Pattern("coordinates", r"^\(?-?\d{1,2}\.\d{3,}[,;] ?-?\d{1,3}\.\d{3,}\)?$", "quasi", "nominal"),
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
        r"^(?:\+|00)[1-9][\d ()/.-]{6,18}\d$|^\(?0\d{1,4}\)?[ /.-]\d[\d .-]{4,12}$"
        r"|^(?:1[ .-])?\(?\d{3}\)?[ .-]\d{3}[ .-]\d{3,4}(?: ?(?:x|ext\.?) ?\d+)?$",
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
    different = texts.alias("text").value_counts(name="cells")
    for pattern in PATTERNS:
        found = int(different["cells"].filter(different["text"].str.contains(pattern.regex)).sum()) / len(texts)
        if found > share:
            return pattern, found
    return None


def has_sets(cells: pl.Series) -> bool:
    """Tell whether many cells are lists joined with `|`."""
    texts = cells.drop_nulls()
    return bool(len(texts)) and float(texts.str.contains("|", literal=True).mean() or 0) > 0.2  # type: ignore[arg-type]


Confidence = Literal["high", "low"]

_NEARLY_ALL = 0.95
_MANY_ROWS = 1000
_FEW_VALUES = 20
_MOST_LEVELS = 6
_AGES = [[*range(0, 95, 5), "inf"], [*range(0, 100, 10), "inf"], [0, 20, 40, 60, 80, "inf"], [0, 20, 60, "inf"]]
"""Bands of 5, 10 and 20 years, then the young, the grown-up and the old; the oldest are never told apart."""
_RARE = (0.02, 0.1)
"""Categories with a smaller share of the records are put together, level by level."""
_LISTED = 300
_LOPSIDED = 0.8
_SHORT_LABEL = 4
_OTHER = "other"
_MOST_RECORDS = 10
"""Mean number of records from which on a few numbers are not those of people, whatever the name says."""
_COMMON_NAMES = 0.2
"""Share of whole names with a common given name from which a column holds names of people."""
_LONG_TEXT = (4, 20)
"""Mean number of words, and of characters, from which texts are written freely."""
_EXCESS = 5
"""Times more often than numbers that were measured must two records share a number, to be taken for people's."""


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
    rows: int
    said: str
    """the column's name, or its label in a file of SPSS or Stata where only that says something"""
    missing_codes: tuple[int | float, ...] = ()
    """values that seem to stand for missing ones; everything else is said of the column without them"""

    @property
    def roles(self) -> tuple[Role, ...]:
        """The roles to write into a plan; where somebody lives is also known to an intruder."""
        return ("quasi", "geography") if self.role == "geography" else (self.role,)

    @property
    def names_records(self) -> bool:
        """Whether so many of its numbers differ that one of them would be enough to find a record."""
        return self.type == "continuous" and self.distinct > 0.5 * (self.rows - self.missing)


@dataclass(frozen=True)
class _Facts:
    """What is counted about a column: `share` is that of distinct values among those that are not missing."""

    column: str
    kind: Any
    rows: int
    present_values: pl.Series
    missing: int
    sample: pl.Series
    whole: bool
    """numbers without a fraction, also where they are stored with a decimal point"""
    labelled: bool
    """its values have names, as in files of SPSS and Stata"""
    label: str = ""

    @cached_property
    def _counts(self) -> tuple[int, int]:
        """How many values differ, and the records of the commonest: counted when somebody asks."""
        counts = self.present_values.value_counts(name="number of records")["number of records"]
        return len(counts), int(counts.max() or 0)  # type: ignore[arg-type]

    @property
    def distinct(self) -> int:
        """How many values differ."""
        return self._counts[0]

    @property
    def most(self) -> int:
        """Records that have the commonest value."""
        return self._counts[1]

    @cached_property
    def shape(self) -> tuple[Pattern, float] | None:
        """The pattern that most values have, and their share; whole numbers have only that of dates."""
        import polars as pl

        if self.is_text:
            return pattern_of(self.sample.cast(pl.String))
        if not self.whole or self.labelled or not self.kind.is_numeric():
            return None
        numbers = self.sample.drop_nulls().cast(pl.Float64)  # as small whole numbers they are compared with small ones
        between = float(numbers.is_between(18_000_101, 20_991_231).mean() or 0)  # type: ignore[arg-type]
        texts = numbers.cast(pl.Int64, strict=False).cast(pl.String)
        return pattern_of(texts, _NEARLY_ALL) if between > _NEARLY_ALL else None

    @property
    def named(self) -> tuple[Role, str] | None:
        """The role that the name suggests, or else a short label, and the word it goes by."""
        found = role_in_name(self.column)
        if found is None and self.label:
            if asks_age(self.label) and self._like_ages:
                return "quasi", "age"
            found = role_in_name(self.label) if len(self.label.split()) <= _SHORT_LABEL else None
            found = found if found and found[0] in ("quasi", "sensitive", "geography") else None
        return found

    @property
    def _like_ages(self) -> bool:
        """Whether the values could be ages in years, or bands of them."""
        if not self.kind.is_numeric() or self.labelled:
            return self.distinct <= _FEW_VALUES
        low, high = (float(found) for found in (self.sample.min(), self.sample.max()))  # type: ignore[arg-type]
        return self.whole and low >= 0 and 25 < high <= 130

    @property
    def says_person_number(self) -> bool:
        """Whether the name, or the label where the name says nothing, says the number of a person."""
        text = self.column if self.says_by == "name" else self.label
        found = role_in_name(text)
        return says_person_number(text) and (found is None or found[0] == "identifier")

    @property
    def named_by(self) -> str:
        """The word of the name that says an identifier, or nothing."""
        return self.named[1] if self.named is not None and self.named[0] == "identifier" else ""

    @property
    def says_by(self) -> str:
        """What would say that it holds numbers of people: its name, or its label where the name says nothing."""
        named = role_in_name(self.column) is not None or says_person_number(self.column) or not self.label
        return "name" if named else "label"

    @property
    def said(self) -> str:
        return self.label if role_in_name(self.column) is None and self.named is not None else self.column

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
    def same_length(self) -> bool:
        """Whether all the whole numbers have the same number of digits."""
        import polars as pl

        return self.sample.drop_nulls().cast(pl.Int64).cast(pl.String).str.len_chars().n_unique() == 1

    @property
    def type(self) -> Type:
        import polars as pl

        if isinstance(self.kind, pl.List | pl.Array):
            return "set"
        if self.kind.is_temporal():
            return "date"
        if self.kind == pl.Enum:
            return "ordinal"
        if self.labelled:
            return "nominal"
        if self.kind.is_numeric() and not (self.whole and self.distinct <= _FEW_VALUES):
            return "continuous"
        return "ordinal" if self.whole else "nominal"

    def percent(self) -> str:
        return f"{self.distinct:,} distinct values in {self.present:,} rows"


def propose(data: Any) -> list[Proposal]:
    """Propose a role and a type for each column of a Dataset or frame, with the reason; the user decides.

    Names are read in seven languages; patterns are looked for in a sample of the rows; distinct values are
    counted over all rows. Numbers that seem to stand for missing values (`missing_codes` of a proposal) count as
    missing. Nothing proposed here is applied by itself.

    Examples
    --------
    >>> import polars as pl
    >>> from discretion.data.detect import propose
    >>> [(p.column, p.role) for p in propose(pl.DataFrame({"edad": [31, 45], "income": [1.5, 2.5]}))]
    [('edad', 'quasi'), ('income', 'sensitive')]
    """
    dataset = Dataset.of(data)
    codes = find_missing_codes(dataset)
    dataset = with_missing(dataset, codes)
    sample = spread_sample(dataset.frame)
    return [
        replace(_propose(_facts(dataset, sample, name)), missing_codes=codes.get(name, ())) for name in dataset.columns
    ]


def propose_hierarchy(data: Any, proposal: Proposal) -> dict[str, Any] | None:
    """Propose how a quasi-identifier may be generalized, as a plan writes it; None for sets.

    Ages get bands of 5, 10 and 20 years, open from 90 (80) on; other numbers of more than a few values intervals whose
    width is a round number (some twenty of them, then twice as wide at each level); dates months, quarters, years and
    decades; codes (postal codes, diagnoses) masking from the right. Of categories the rare ones are put together, first
    those of less than 2 % of the records, then of less than 10 %; at last the value is hidden. What belongs together by
    its meaning only a person can tell.
    """
    name = proposal.column
    dataset = with_missing(Dataset.of(data), {name: proposal.missing_codes} if proposal.missing_codes else {})
    if proposal.type == "set":
        return None
    if proposal.type == "date":
        return {"dates": {"levels": ["month", "quarter", "year", "decade"]}}
    if dataset.is_numeric(name) and proposal.type in ("continuous", "ordinal") and proposal.distinct > 5:
        low, high = dataset.extremes(name)
        if says_age(proposal.said) and low >= 0 and 25 < high <= 130:
            return {"intervals": {"cuts": _AGES}}
        width = _round_width((high - low) / _FEW_VALUES, whole=_facts(dataset, dataset.frame, name).whole)
        levels = 2
        while width * 2 ** (levels - 1) < high - low and levels < _MOST_LEVELS:
            levels += 1
        return {"intervals": {"width": width, "levels": levels}}
    texts = [str(value) for value in dataset.codes(name).values if value is not None]
    if are_codes(texts):
        return {"masking": {}}
    return {"groups": {"levels": _rare_together(dataset, name)}}


def propose_importance(proposals: Sequence[Proposal]) -> dict[str, float]:
    """Propose what the detail of each quasi-identifier is worth to users, from 0.1 to 1; a search gives up least first.

    Age, sex and place are what nearly every table is made by. A date of birth beside an age, and a further date beside
    a first one, say little that is new; columns whose name says nothing weigh less than those known by their name.
    """
    quasi = [p for p in proposals if "quasi" in p.roles and p.type != "set"]
    aged = any(says_age(p.said) for p in quasi)
    worth: dict[str, float] = {}
    dated = False
    for p in quasi:
        if says_age(p.said) or says_sex(p.said) or says_postal_code(p.said) or "geography" in p.roles:
            worth[p.column] = 1.0
        elif p.type == "date" and says_birth(p.said):
            worth[p.column] = 0.1 if aged else 1.0
        elif p.type == "date":
            worth[p.column] = 0.1 if dated else 0.5
            dated = True
        else:
            worth[p.column] = 0.5 if p.confidence == "high" else 0.2
    return worth


def is_lopsided(data: Dataset, column: str) -> bool:
    """Tell whether so many records share one value that hardly any class could hold a second one."""
    return bool(data.codes(column).counts_and_rows[0].max() > _LOPSIDED * len(data))


def are_codes(texts: list[str]) -> bool:
    """Tell codes whose first characters say more than the last: digits of one length, postal codes, diagnoses."""
    import polars as pl

    if len(texts) > _FEW_VALUES and all(text.isdigit() and len(text) == len(texts[0]) >= 4 for text in texts):
        return True
    if len({len(text) for text in texts}) > 1 and all(text.isdigit() for text in texts):
        return False  # numbers: a leading zero may be lost
    found = pattern_of(pl.Series(texts))
    return found is not None and found[0].what in ("postal codes", "diagnosis codes (ICD)")


def _rare_together(dataset: Dataset, name: str) -> list[dict[str, list[str]]]:
    """Give the levels at which rare categories become one; a level must leave a category, and put some together.

    Codes with labels (SPSS, Stata) become their labels with it: among the groups a code would say nothing. A category
    that is called other (in any case) takes the rare ones in: two that mean the same would stand side by side.
    """
    from discretion.data.hierarchy import canonical

    codes = dataset.codes(name)
    counted = zip(codes.values, codes.counts_and_rows[0].tolist(), strict=True)
    shares = {canonical(value): count / len(dataset) for value, count in counted if value is not None}
    labels = {canonical(value): label for value, label in (dataset.schema[name].value_labels or {}).items()}
    shown = {value: labels.get(value, value) for value in shares}
    rest = next((label for label in shown.values() if label.casefold() == _OTHER), _OTHER)
    before = {value: value for value in shares}
    levels: list[dict[str, list[str]]] = []
    for limit in _RARE if len(shares) > 2 else ():
        rare = {value for value, share in shares.items() if share < limit or shown[value].casefold() == _OTHER}
        after = {value: rest if value in rare else shown[value] for value in shares}
        if not 1 < len(rare) < len(shares) or len(rare) > _LISTED or (levels and after == before):
            continue
        groups: dict[str, set[str]] = {}
        for value in shares:
            if before[value] != after[value]:
                groups.setdefault(after[value], set()).add(before[value])
        levels.append({label: sorted(members) for label, members in groups.items()})
        before = after
    return levels


def _round_width(width: float, *, whole: bool) -> float:
    """Round a width up to 1, 2 or 5 times a power of ten; for whole numbers to at least 2."""
    power = 10.0 ** math.floor(math.log10(width)) if width > 0 else 1.0
    found = next(step * power for step in (1, 2, 5, 10) if step * power >= width * (1 - 1e-9))
    found = max(found, 2.0) if whole else found
    return int(found) if float(found).is_integer() else found


def looks_like_identifier(data: Any, column: str) -> str | None:
    """Give the reason why a column surely names persons, or None; used to refuse plans that leave it as it is.

    Only strong signs count: addresses, numbers and codes of a known pattern in most cells; a name that says so
    with values to match; whole numbers that all differ (from 20 rows; also stored with a decimal point, as SPSS and
    Stata do); or, from a thousand rows, text of which nearly all differs.
    """
    dataset = Dataset.of(data)
    dataset.require([column])
    facts = _facts(dataset, spread_sample(dataset.frame.select(column)), column)
    found = _person_number(facts) or _identifier(facts)
    return found[0] if found is not None and found[1] == "high" else None


def looks_like_person_number(data: Dataset, column: str) -> str | None:
    """Give the reason why a column surely holds numbers of people, whatever role it was given, or None."""

    def look() -> tuple[str, Confidence] | None:
        return _person_number(_facts(data, spread_sample(data.frame.select(column)), column))

    found = data.cached(("looks like numbers of people", column), look)
    return found[0] if found is not None and found[1] == "high" else None


def _facts(dataset: Dataset, sample: pl.DataFrame, name: str) -> _Facts:
    import polars as pl

    column = dataset.frame[name]
    kind = column.dtype
    missing = dataset.count_missing(name)
    if isinstance(kind, pl.List | pl.Array):
        column = column.cast(pl.List(pl.String)).list.join("|")
    present = column.fill_nan(None).drop_nulls() if kind.is_float() else column.drop_nulls()
    whole = kind.is_integer() or bool(kind.is_float() and len(present) and (present == present.floor()).all())
    labelled = dataset.is_labelled(name)
    return _Facts(name, kind, len(column), present, missing, sample[name], whole, labelled, dataset.schema[name].label)


def _propose(facts: _Facts) -> Proposal:
    def give(role: Role, reason: str, confidence: Confidence, kind: Type | None = None) -> Proposal:
        return Proposal(
            facts.column,
            role,
            kind or facts.type,
            reason,
            facts.distinct,
            facts.missing,
            confidence,
            facts.rows,
            facts.said,
        )

    if facts.present == 0:
        return give("other", "all values are missing", "low")
    found = _person_number(facts)
    if found is not None:
        return give("unit" if facts.distinct < facts.present else "identifier", found[0], found[1], "nominal")
    found = _identifier(facts)
    if found is not None:
        return give("identifier", found[0], found[1], "nominal")
    named = facts.named
    texts = facts.sample.cast(str) if facts.is_text else None
    if facts.shape is not None:
        pattern, share = facts.shape
        role = named[0] if named is not None and named[0] != "identifier" else pattern.role
        return give(role, f"{share:.0%} of the values look like {pattern.what}", "high", pattern.type)
    if texts is not None and has_sets(texts):
        role = "sensitive" if named is None else named[0]
        return give(role, "many cells hold several items parted by '|'", "low" if named is None else "high", "set")
    if named is not None and named[0] != "identifier":
        return _by_name(facts, *named)
    return _by_values(facts, give)


def _person_number(facts: _Facts) -> tuple[str, Confidence] | None:
    """Say why a column holds the numbers of people, each on all records of one; alone by values never surely."""
    texts = facts.sample.cast(str) if facts.is_text else None
    if texts is None and not (facts.whole and not facts.labelled):
        return None
    shape = facts.shape
    if shape is not None and (shape[0].direct or shape[0].what == "dates"):
        return None
    again = facts.distinct < facts.present
    if facts.says_person_number:
        records = f"each on {facts.present / facts.distinct:.1f} records on average; {facts.percent()}"
        if facts.distinct > _FEW_VALUES or not again:
            return (
                f"the {facts.says_by} says the number of a person or case, {records if again else facts.percent()}",
                "high",
            )
        if facts.distinct > _FEW_VALUES // 4 and facts.present <= _MOST_RECORDS * facts.distinct:
            return f"the {facts.says_by} says the number of a person or case, {records}", "low"
    elif (
        again
        and facts.distinct > _FEW_VALUES
        and names_person(facts.named_by)
        and (texts is None or _have_digits(texts))
    ):
        said = f"the name says a person ({facts.named_by!r}), and numbers or codes recur; {facts.percent()}"
        return said, "high" if facts.share > 0.5 else "low"
    if facts.named is None and shape is None and again and _recurs(facts):
        return f"numbers or codes of one form that a few records share, as those of people; {facts.percent()}", "low"
    return None


def _have_digits(texts: pl.Series) -> bool:
    """Tell codes from the names of people."""
    return bool((texts.drop_nulls().str.contains(r"\d").mean() or 0) >= _NEARLY_ALL)  # type: ignore[operator]


def _recurs(facts: _Facts) -> bool:
    """Tell numbers of people by their values: one form, many of them, each on a few records, and not measured.

    Of whole numbers that were measured, two records share one about as often as their density in the neighborhood
    says, or because they were rounded; of people's numbers far more often, with all last digits alike.
    """
    import numpy as np
    import polars as pl

    few, many = 1.02 * facts.distinct <= facts.present, facts.distinct > 2 * _FEW_VALUES
    if not (few and many and facts.most <= 2 * _FEW_VALUES and facts.share > 1 / _MOST_RECORDS):
        return False
    present = facts.sample.drop_nulls()
    texts = present.cast(pl.Int64).cast(pl.String) if facts.whole else present.cast(pl.String)
    forms = texts.str.replace_all(r"\d", "9").str.replace_all(r"\p{L}", "a").value_counts(sort=True)
    form, count = forms.row(0)
    if count < _NEARLY_ALL * len(texts) or len(form) < 4 or not set(form) <= {*"9a-_./"}:
        return False
    if not facts.whole:
        return bool(form.count("9") > 2)
    last = texts.str.tail(1).value_counts()["count"]
    if int(last.max()) > 0.3 * len(texts):  # type: ignore[arg-type]
        return False
    values = np.sort(present.cast(pl.Int64).to_numpy())
    pairs = expected = 0.0
    for part in np.array_split(values, _FEW_VALUES):
        if len(part) > 1:
            sizes = np.unique(part, return_counts=True)[1]
            pairs += float((sizes * (sizes - 1)).sum())
            expected += len(part) * (len(part) - 1) / float(part[-1] - part[0] + 1)
    return pairs > _EXCESS * expected


def _identifier(facts: _Facts) -> tuple[str, Confidence] | None:
    """Say why a column names persons, if it does."""
    texts = facts.sample.cast(str) if facts.is_text else None
    if facts.shape is not None:
        pattern, share = facts.shape
        return (f"{share:.0%} of the values look like {pattern.what}", "high") if pattern.direct else None
    named = facts.named
    if texts is not None and facts.distinct > _FEW_VALUES and (named is None or named[0] == "identifier"):
        share = float(texts.drop_nulls().str.contains(names_of_people()).mean() or 0)  # type: ignore[arg-type]
        if share > _COMMON_NAMES:
            return f"{share:.0%} of the values are whole names with a common given name", "high"
    numbers = facts.whole and not facts.labelled
    parts = parts_of(facts.column)
    words = {"".join(parts[i:j]) for i in range(len(parts)) for j in range(i + 1, len(parts) + 1)}
    few = facts.distinct <= _FEW_VALUES and named is not None and named[1] not in words
    if named is not None and named[0] == "identifier" and (facts.is_text or numbers) and not few:
        enough = 20 if facts.is_text else 1000
        many = facts.share > 0.5 or (is_whole_name(facts.column, named[1]) and facts.distinct > enough)
        said = f"the name says so ({named[1]!r})"
        return (f"{said}; {facts.percent()}", "high") if many else (f"{said}, but few values differ", "low")
    if facts.nearly_all_differ and named is None and _names_rows(facts):
        sure: Confidence = "high" if facts.whole or (facts.present >= _MANY_ROWS and facts.share >= 0.99) else "low"
        what = "texts" if facts.is_text else "whole numbers"
        return f"nearly all {what} differ: {facts.percent()}", sure
    if texts is not None and named is None and facts.distinct > _FEW_VALUES and _written_freely(texts):
        return f"free text: {facts.percent()}", "high" if facts.share > 0.5 else "low"
    if says_number(facts.column) and named is None and (facts.is_text or numbers):
        if facts.share >= _NEARLY_ALL:
            return f"the name says number or id, and nearly all values differ: {facts.percent()}", "high"
        if is_whole_name(facts.column, "id") and facts.distinct > _FEW_VALUES:
            return f"the name says so ('id'); {facts.percent()}", "high"
    return None


def _written_freely(texts: pl.Series) -> bool:
    """Tell texts of many words from the names of categories."""
    different = texts.drop_nulls().unique()
    words, length = different.str.count_matches(r"\S+").mean(), different.str.len_chars().mean()
    return bool(words >= _LONG_TEXT[0] and length >= _LONG_TEXT[1])  # type: ignore[operator]


def _names_rows(facts: _Facts) -> bool:
    """Tell whether values that nearly all differ name the rows: text, or whole numbers that are unique."""
    if facts.is_text:
        return True
    return facts.whole and not facts.labelled and facts.distinct == facts.present


def _by_name(facts: _Facts, role: Role, word: str) -> Proposal:
    what = "name" if facts.said == facts.column else "label"
    reason, confidence, kind = f"the {what} says so ({word!r})", "high", facts.type
    if role == "weight" and not facts.kind.is_numeric():
        role, reason, confidence = "other", f"the name says weight ({word!r}), but the values are not numbers", "low"
    elif role == "household":
        reason = f"{reason}; {facts.percent()}"
        confidence = "high" if facts.share < 1 else "low"
        kind = "nominal"
    elif role in ("geography", "stratum"):
        kind = "continuous" if facts.kind.is_float() and not facts.whole else "nominal"
    elif facts.whole and says_postal_code(facts.said) and facts.same_length:
        kind = "nominal"
    return Proposal(facts.column, role, kind, reason, facts.distinct, facts.missing, confidence, facts.rows, facts.said)  # type: ignore[arg-type]


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
