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

    def published(self) -> Dataset:
        """Read the published data; refused unless it is byte for byte what the journal says."""
        from discretion.data.read import read_as

        named = Path(self.journal["output"]["file"])
        file = named if self.public is None else self.public / named.name
        if not file.is_file():
            raise DataError(f"the released data {str(file)!r} is not there; say where under `folder`")
        if sha256_of(file) != self.journal["output"]["sha256"]:
            raise DataError(f"the released data {str(file)!r} is not what was released: its hash is another one")
        return read_as(str(file), self.plan.schema, partial=True)

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

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps that the published data went through, also those of the release that it was made from."""
        first = Earlier.open(self.plan.made_from).steps if self.plan.made_from else ()
        return (*first, *self.plan.steps)


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
    for name, (joined, several) in averaged_columns(release, release.plan.previous).items():
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
    read = [(one.published(), positions(one, release)) for one in earlier]
    changed = [
        names for item, names in zip(release.study.done, release.changes, strict=True) if item.step.method.perturbs
    ]
    found = {}
    for name in now.columns:
        shown = [(data, rows) for data, rows in read if _has_number(data, name)]
        numbers = _has_number(now, name) and _has_number(original, name)
        if not shown or not numbers or not any(name in names for names in changed):
            continue
        copies = [_spread(data.number(name), rows, len(original)) for data, rows in [(now, now.row_ids), *shown]]
        found[name] = best_mean(np.vstack(copies), original.number(name))
    return found


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


def positions(earlier: Earlier, release: Release) -> Rows:
    """Find for each row of an earlier release its position in this original: the same data, or the same people."""
    original = release.study.original
    rows = earlier.row_ids(int(earlier.journal["output"]["records"]))
    if earlier.same_input(input_facts(release.plan, original)):
        return rows
    try:
        column = person_column(original, earlier.person)
        now = person_ids(original, column).to_list()
        before = person_ids(earlier.plan.read(), column).to_list()
    except DiscretionError as error:
        raise PlanError(
            f"previous: {str(earlier.folder)!r} was made of another delivery, and its people cannot be found in this "
            f"one: {error} (`previous: [{{journal: …, person: COLUMN}}]` names a column)"
        ) from None
    places = {person: place for place, person in enumerate(now)}
    return np.array([places.get(before[row], -1) for row in rows.tolist()], dtype=np.int64)
