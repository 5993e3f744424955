"""Earlier releases, found through their private journals: coarser copies of them, and what averaging would tell."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discretion.data.dataset import Dataset
from discretion.data.documents import Document, read_document
from discretion.data.hierarchy import canonical
from discretion.data.persons import person_column, person_ids
from discretion.data.schema import Schema
from discretion.errors import DataError, DiscretionError, PlanError
from discretion.release.journal import input_facts, journal_digest, sha256_of
from discretion.release.plan import Plan, Step

if TYPE_CHECKING:
    from discretion.release.release import Release

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Earlier:
    """An earlier release as its private journal describes it."""

    folder: Path
    journal: Mapping[str, Any]
    plan: Plan
    public: Path | None = None
    """the public folder, where it is not the one the journal names"""
    person: str = ""
    """the column that tells who a row is about, where several have the role identifier"""

    @classmethod
    def open(cls, place: Mapping[str, str | Path]) -> Earlier:
        """Read the journal; `place` names its folder (`journal`), and may say where the public folder is now."""
        if "journal" not in place:
            raise PlanError(f"{str(place['folder'])!r}: give the private journal of this release as well (`journal`)")
        folder = Path(place["journal"])
        file = folder / "journal.json"
        if not file.is_file() or not (folder / "plan.yaml").is_file():
            raise PlanError(f"{str(folder)!r} is no private journal of a release (journal.json and plan.yaml)")
        content = json.loads(file.read_text(encoding="utf-8"))
        if content.get("format") != "discretion-journal" or "file" not in content.get("output", {}):
            raise PlanError(f"{str(file)!r} does not say where its release lies; it was written by an older version")
        public = Path(place["folder"]) if "folder" in place else None
        _check_unchanged(folder, content, public)
        text = read_document(folder / "plan.yaml")
        # its policy was kept then; what it says today, or where it lies, does not change what was published
        known = {key: value for key, value in text.content.items() if key not in ("policy", "waivers")}
        plan = Plan.from_text(Document(known, text.source, text.lines), folder.resolve())
        return cls(folder, content, plan, public, str(place.get("person", "")))

    def started(self, plan: Plan) -> Plan:
        """Give a plan that starts from this release its data and, where it says nothing else, its schema."""
        columns = MappingProxyType({**self.plan.schema.columns, **plan.schema.columns})
        schema = Schema(columns, plan.schema.edit_rules or self.plan.schema.edit_rules)
        still = (name for name in self.plan.confirmed_other if schema[name].roles == ("other",))
        confirmed = tuple(dict.fromkeys((*plan.confirmed_other, *still)))
        telling = tuple(dict.fromkeys((*plan.confirmed_telling, *self.plan.confirmed_telling)))
        data = plan.data or self.plan.data
        return replace(plan, schema=schema, data=data, confirmed_other=confirmed, confirmed_telling=telling)

    def require_original(self, facts: Mapping[str, Any]) -> None:
        """Refuse other data than what the earlier release was made of: rows would be taken for others."""
        if not self.same_input(facts):
            raise DataError(
                f"the original data is not what the release of {str(self.folder)!r} was made of: the file changed, or "
                "it is another delivery"
            )

    def same_input(self, facts: Mapping[str, Any]) -> bool:
        """Tell whether data is what the release was made of, by the hash that both have."""
        known = self.journal["input"]
        return any(name in known and known[name] == facts.get(name) for name in ("sha256", "rows_sha256"))

    @property
    def file(self) -> Path:
        """Where the published data lies."""
        named = Path(self.journal["output"]["file"])
        return named if self.public is None else self.public / named.name

    def published(self) -> Dataset:
        """Read the published data; refused unless it is byte for byte what the journal says."""
        from discretion.data.read import read_as

        file = self.file
        if not file.is_file():
            raise DataError(f"the released data {str(file)!r} is not there; say where under `folder`")
        if sha256_of(file) != self.journal["output"]["sha256"]:
            raise DataError(f"the released data {str(file)!r} is not what was released: its hash is another one")
        return read_as(str(file), self.plan.schema, partial=True)

    def original(self) -> Dataset:
        """Read what the release was made of; refused where the file is another one by now."""
        data = self.plan.read()
        if not self.same_input(input_facts(self.plan, data)):
            raise DataError("the file that it was made of was changed since; keep every delivery in a file of its own")
        return data

    def row_ids(self, count: int) -> Rows:
        """Give for each published row its position in the original."""
        if "order" in self.journal:
            rows = np.asarray(np.load(self.folder / self.journal["order"], allow_pickle=False), np.int64)
        else:
            rows = np.arange(self.journal["input"]["records"], dtype=np.int64)
        if len(rows) != count:
            raise DataError(f"the journal {str(self.folder)!r} does not say which rows were published")
        return rows

    def on(self, original: Dataset) -> Dataset:
        """Give the published data with its rows matched to the original, as the result of the steps it went through."""
        read = self.published()
        data = read.matched_to(original, self.row_ids(len(read)))
        for step in self.steps:
            data = data.after(step.method, data)
        return data.with_levels(_levels(data))

    def parents(self) -> list[dict[str, str | Path]]:
        """Give the places of the releases that this one was compared with, or made from; nothing of it is accepted."""
        kept = {one.get("journal"): one["folder"] for one in self.journal.get("previous", ()) if one.get("folder")}
        places = []
        for named in (*self.plan.previous, *([self.plan.made_from] if self.plan.made_from else [])):
            place = {key: value for key, value in named.items() if key != "accepted"}
            if (folder := kept.get(str(place.get("journal")))) is not None:
                place.setdefault("folder", folder)
            if "person" not in place and self.person:
                place["person"] = self.person
            places.append({**place, "through": str(self.folder)})
        return places

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps that the published data went through, also those of the release that it was made from."""
        first = Earlier.open(self.plan.made_from).steps if self.plan.made_from else ()
        return (*first, *self.plan.steps)


@dataclass(frozen=True)
class Lineage:
    """The earlier releases of a plan: those it names, those that these name in turn, and what could not be found."""

    places: tuple[Mapping[str, str | Path], ...] = ()
    """as a plan names them; `through` is the release whose plan names one that the plan itself does not"""
    lost: tuple[str, ...] = ()
    """releases that an earlier one names, of which neither the journal nor the public folder was found"""

    @property
    def journals(self) -> int:
        """How many are known by their journals."""
        return sum("journal" in place for place in self.places)

    def lost_words(self) -> list[str]:
        """Say which earlier releases nobody looked at."""
        return [
            f"The earlier release {name}, which another one names, was not found; nobody looked at what it tells "
            "together with this one."
            for name in self.lost
        ]


def lineage(plan: Plan, original: Dataset) -> Lineage:
    """Follow the earlier releases of a plan back to the first: what they were compared with is out, too.

    One whose journal is gone, or whose people cannot be found in this original, is taken by its public folder. Entries
    of the plan itself stand before what others say of a release; nothing that others accepted is accepted here.
    """
    waiting = [dict(place) for place in plan.previous]
    own = len(waiting)
    seen: set[Path] = set()
    found: list[Mapping[str, str | Path]] = []
    lost: list[str] = []
    told: list[str] = []
    while waiting:
        place = waiting.pop(0)
        own -= 1
        if "journal" in place and own < 0 and not (Path(place["journal"]) / "journal.json").is_file():
            gone = place.pop("journal")
            place.setdefault("folder", gone)
        earlier = Earlier.open(place) if "journal" in place else None
        folder = Path(place["folder"]) if earlier is None else earlier.file.parent
        if own < 0 and {folder.resolve(), earlier and earlier.folder.resolve()} & seen:
            continue
        there = (folder / "report.json").is_file() if earlier is None else earlier.file.is_file()
        if own < 0 and not there:
            lost.append(folder.name)
            continue
        seen |= {folder.resolve(), *([] if earlier is None else [earlier.folder.resolve()])}
        if earlier is not None and own < 0 and not _finds_people(earlier, plan, original):
            place = {"folder": str(folder), "through": place["through"]}
        found.append(place)
        if earlier is not None:
            waiting += earlier.parents()
        elif there:
            told += json.loads((folder / "report.json").read_text(encoding="utf-8")).get("previous", [])
    names = {folder.name for folder in seen}
    return Lineage(tuple(found), tuple(dict.fromkeys([*lost, *(name for name in told if name not in names)])))


def _finds_people(earlier: Earlier, plan: Plan, original: Dataset) -> bool:
    try:
        positions(earlier, plan, original)
    except PlanError:
        return False
    return True


def _check_unchanged(folder: Path, journal: Mapping[str, Any], public: Path | None) -> None:
    """Refuse a journal that is not the one its public report names, or a plan or order that the journal does not."""
    report = (public or Path(journal["output"]["file"]).parent) / "report.json"
    told = json.loads(report.read_text(encoding="utf-8")).get("journal_sha256") if report.is_file() else None
    if told is not None and told != journal_digest(folder / "journal.json"):
        raise DataError(
            f"the journal {str(folder)!r} is not the one of {str(report.parent)!r}, or it was changed: its hash is "
            "another one"
        )
    for name, digest in journal.get("private", {}).items():
        if not (folder / name).is_file() or sha256_of(folder / name) != digest:
            raise DataError(f"{str(folder / name)!r} was changed since the release: its hash is another one")


def _levels(data: Dataset) -> dict[str, int]:
    """Find the level at which all the labels of a column stand, so that further steps can generalize them."""
    found = {}
    for name in (name for name, column in data.schema.columns.items() if column.hierarchy is not None):
        shown = {canonical(value) for value in data.codes(name).values if value is not None}
        try:
            table = data.hierarchy(name).table
        except DataError:
            continue
        level = next((level for level, labels in enumerate(table) if shown <= set(labels)), 0)
        if level:
            found[name] = level
    return found


@dataclass(frozen=True)
class Averaging:
    """How near the best mean of this release and earlier ones comes to a column, beside this one alone (RMSE / sd).

    Best is the mean weighted by the covariance of the errors, which the intruder is assumed to know: of two releases
    with noise of the same strength the plain mean, otherwise mostly the more exact one.
    """

    column: str
    records: int
    alone: float
    averaged: float

    def explain(self, releases: int) -> str:
        """Say it in words."""
        return (
            f"{self.column}: the best mean of this and {releases} earlier release{'s' if releases > 1 else ''} misses "
            f"the original by {self.averaged:.3g} standard deviations, this release alone by {self.alone:.3g} "
            f"({self.records:,} records)"
        )


def averaging(release: Release) -> tuple[Averaging, ...]:
    """Compare each perturbed numeric column, averaged with the earlier releases of the plan, with the original."""
    original, now = release.study.original, release.data
    found = []
    for name, (joined, several) in averaged_columns(release, release.lineage.places).items():
        true = original.number(name)
        errors = np.vstack([_spread(now.number(name), now.row_ids, len(original)), joined]) - true
        errors = errors[:, several & ~np.isnan(errors).any(axis=0)]
        if errors.shape[1] and (sd := float(np.nanstd(true, ddof=1))) > 0:
            alone, mean = np.sqrt((errors**2).mean(axis=1)) / sd
            found.append(Averaging(name, errors.shape[1], float(alone), float(mean)))
    return tuple(found)


def averaged_columns(
    release: Release, places: Iterable[Mapping[str, str | Path]]
) -> dict[str, tuple[NDArray[np.float64], NDArray[np.bool_]]]:
    """Give the perturbed numbers of this release averaged with earlier ones, by the rows of the original.

    Beside each column stand the people whose values at least two releases show.
    """
    original, now = release.study.original, release.data
    earlier = [Earlier.open(place) for place in places if "journal" in place]
    if not earlier or now.has_new_rows:
        return {}
    read = [(one.published(), positions(one, release.plan, original), one) for one in earlier]
    changed = {
        name
        for item, names in zip(release.study.done, release.changes, strict=True)
        if item.step.method.perturbs
        for name in names
    }
    noisy = [name for name in now.columns if name in changed and _has_number(now, name) and _has_number(original, name)]
    sources = [None if {*noisy} <= {*data.columns} else _source(one, release) for data, _, one in read]
    found = {}
    for name in noisy:
        true = original.number(name)
        shown = (_copy_of(name, true, original, *one, source) for one, source in zip(read, sources, strict=True))
        copies = [copy for copy in shown if copy is not None]
        if copies:
            found[name] = best_mean(np.vstack([_spread(now.number(name), now.row_ids, len(original)), *copies]), true)
    return found


ALIKE = 0.9
"""Correlation from which two columns are one under two names, in two units, or once in ranges."""
_SAME = 0.99
"""The same, of columns that both are in the data under their own names."""


def _copy_of(
    name: str,
    true: NDArray[np.float64],
    original: Dataset,
    before: Dataset,
    rows: Rows,
    earlier: Earlier,
    source: Dataset | None,
) -> NDArray[np.float64] | None:
    """Give what an earlier release shows of a column, by the rows of the original and in its unit; None if nothing.

    A column of another name counts if the originals of both (or, where that of the earlier release is gone, what it
    shows and the original) are the same up to unit and level, as its codebook would say. Ranges count by their middle.
    """

    def placed(data: Dataset, column: str) -> NDArray[np.float64] | None:
        values = number_places(data, column)
        return None if values is None else _spread(values, rows, len(true))

    if name in before.columns:
        shown = placed(before, name)
        if shown is None or np.isnan(shown + true).all():
            return shown
        scaled = _in_unit(shown, true)
        return scaled if np.nanmean((scaled - true) ** 2) < 0.8 * np.nanmean((shown - true) ** 2) else shown
    best, strength = None, 0.0
    for column in before.columns:
        if (shown := placed(before, column)) is None:
            continue
        same = shown
        if source is not None and column in source.columns and _has_number(source, column):
            taken = source.number(column)[earlier.row_ids(len(before))]
            same = _spread(taken, rows, len(true))
        alike = abs(correlation(same, true))
        if alike >= (_SAME if column in original.columns else ALIKE) and alike > strength:
            best, strength = _in_unit(shown, true), alike
    return best


def _source(earlier: Earlier, release: Release) -> Dataset | None:
    """Give the original of an earlier release; None where it is gone."""
    original = release.study.original
    if earlier.same_input(input_facts(release.plan, original)):
        return original
    try:
        return earlier.original()
    except DiscretionError:
        return None


def _in_unit(shown: NDArray[np.float64], true: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give what is shown in the unit of another column: the line of one on the other, read backwards."""
    both = ~np.isnan(shown + true)
    if both.sum() < 3 or np.std(true[both]) == 0 or np.std(shown[both]) == 0:
        return shown
    slope, level = np.polyfit(true[both], shown[both], 1)
    return (shown - level) / slope if slope else shown


def number_places(data: Dataset, name: str) -> NDArray[np.float64] | None:
    """Give a column as numbers, ranges by their middle; None where it has neither."""
    from discretion.data.hierarchy import interval_bounds

    if data.is_numeric(name):
        return data.number(name)
    if data.frame.schema[name].is_nested() or data.frame.schema[name].is_temporal():
        return None
    codes = data.codes(name)
    found = [None if value is None else interval_bounds(str(value)) for value in codes.values]
    middle = [np.nan if one is None else np.clip(one[1:3], *_finite(one)).mean() for one in found]
    known = np.array([*middle, np.nan])
    return known[codes.codes] if any(one is not None for one in found) else None


def _finite(bounds: Any) -> tuple[float, float]:
    """Give the ends of a range, an open one as wide as nothing."""
    ends = [end for end in bounds[1:3] if np.isfinite(end)]
    return min(ends), max(ends)


def correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Correlate two columns where both are known; 0 where one of them does not vary."""
    both = ~np.isnan(one + other)
    if both.sum() < 3 or np.std(one[both]) == 0 or np.std(other[both]) == 0:
        return 0.0
    return float(np.corrcoef(one[both], other[both])[0, 1])


def best_mean(copies: NDArray[np.float64], true: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Average copies of a column with the weights that leave the smallest error, and tell where several are known."""
    errors = copies - true
    known = ~np.isnan(errors)
    both = known.astype(np.float64) @ known.T
    filled = np.where(known, errors, 0.0)
    covariance = filled @ filled.T / np.maximum(both, 1)
    mean = np.full(len(true), np.nan)
    patterns, place = np.unique(known, axis=1, return_inverse=True)
    for number, pattern in enumerate(patterns.T):
        if not pattern.any():
            continue
        inner = covariance[np.ix_(pattern, pattern)]
        size = max(float(np.trace(inner)), 1e-300)
        weights = np.linalg.lstsq(inner / size + 1e-9 * np.eye(len(inner)), np.ones(len(inner)), rcond=None)[0]
        weights = weights if weights.sum() > 0 else np.ones(len(inner))
        rows = place.reshape(-1) == number
        mean[rows] = weights / weights.sum() @ copies[np.ix_(pattern, rows)]
    return mean, known.sum(axis=0) > 1


def _has_number(data: Dataset, column: str) -> bool:
    return column in data.columns and data.is_numeric(column)


def _spread(values: NDArray[np.float64], rows: Rows, size: int) -> NDArray[np.float64]:
    """Put values at their rows; rows without one, and values without a row (−1), are missing."""
    spread = np.full(size, np.nan)
    known = rows >= 0
    spread[rows[known]] = values[known]
    return spread


def positions(earlier: Earlier, plan: Plan, original: Dataset) -> Rows:
    """Find for each row of an earlier release its position in this original: the same data, or the same people."""
    rows = earlier.row_ids(int(earlier.journal["output"]["records"]))
    if earlier.same_input(input_facts(plan, original)):
        return rows
    try:
        column = person_column(original, earlier.person)
        now = person_ids(original, column).to_list()
        before = person_ids(earlier.original(), column).to_list()
    except DiscretionError as error:
        raise PlanError(
            f"previous: {str(earlier.folder)!r} was made of another delivery, and its people cannot be found in this "
            f"one: {error} (`previous: [{{journal: …, person: COLUMN}}]` names a column)"
        ) from None
    places = {person: place for place, person in enumerate(now)}
    return np.array([-1 if row < 0 else places.get(before[row], -1) for row in rows.tolist()], dtype=np.int64)
