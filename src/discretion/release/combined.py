"""This release beside earlier ones of the same people: what both together tell.

With the private journal of an earlier release it is known which of its records is whose, and the attacks are judged by
that; without it only what everybody has is compared, and nothing says which matches are right.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Ints
from discretion.measure import as_percent

if TYPE_CHECKING:
    from discretion.release.release import Release


@dataclass(frozen=True)
class Together:
    """What this release and one earlier release tell together; counts are of people, or records where nobody knows."""

    earlier: str
    knowledge: str
    """`private`: the journal says whose records they are; `public`: only the two files were compared"""
    both: int
    """people in both releases; with public knowledge, records of this release"""
    joined: int
    left: int
    small_differences: int
    """combinations of quasi-identifiers whose counts differ by fewer than `k`: who came or went is one of these few"""
    matched: int
    """records that have one partner in the other release by all columns that both show, and it is the right one"""
    smallest: int
    """people in the smallest class of those who share the quasi-identifiers of both releases"""
    alone: int
    """and in the smallest class by this release alone"""
    below: int
    """people who share the quasi-identifiers of both releases with fewer than k − 1 others"""
    exposed: int
    """those of them whose records can be matched, so that the two releases are one file about them"""
    told: int
    """people whose classes in the two releases have one sensitive value in common that neither class has alone"""
    k: int
    diverse: bool = False
    """whether the plan requires that no class tells a sensitive value (diversity, closeness)"""
    accepted: str = ""
    """why this is published all the same, where the plan says so"""

    @property
    def holds(self) -> bool:
        """Whether the classes that the plan requires survive in the hands of who has both files."""
        return bool(self.accepted) or not (self.exposed or (self.diverse and self.told))

    def to_dict(self) -> dict[str, Any]:
        """Give it as plain data, for the internal side."""
        return {**asdict(self), "holds": self.holds}

    def explain(self) -> str:
        """Say it in words, for the internal side."""
        if self.knowledge == "public":
            return (
                f"beside {self.earlier} (public knowledge: its journal was not given): {self.matched:,} of "
                f"{self.both:,} records have one partner there by the columns that both show; "
                f"{self.small_differences} combinations differ by fewer than {self.k} records; "
                "whether matches are right nobody said"
            )
        share = as_percent(self.matched / self.both) if self.both else "none"
        accepted = f"; accepted: {self.accepted}" if self.accepted else ""
        return (
            f"beside {self.earlier} (by its journal): {self.both:,} people are in both, {self.joined:,} came, "
            f"{self.left:,} went; {share} of the records can be matched; the smallest class by both releases has "
            f"{self.smallest} people ({self.alone} by this one alone), {self.below:,} people are in classes below "
            f"{self.k}, {self.exposed:,} of them can be matched; of {self.told:,} people both tell a sensitive value "
            f"that neither tells alone; {self.small_differences} combinations differ by fewer than {self.k} records"
            f"{accepted}"
        )


def combined(release: Release) -> tuple[Together, ...]:
    """Attack this release together with each of the earlier ones that its plan names."""
    return tuple(_beside(release, place) for place in release.plan.previous)


def _beside(release: Release, place: Mapping[str, Any]) -> Together:
    from discretion.release.earlier import Earlier, positions

    k = _required(release)
    if "journal" not in place:
        folder = Path(str(place["folder"]))
        return _publicly(release, folder.name, _published(folder, release), k)
    earlier = Earlier.open(place)
    before = earlier.published()
    name = Path(earlier.journal["output"]["file"]).parent.name
    accepted = str(place.get("accepted", ""))
    if release.data.has_new_rows or (earlier.row_ids(int(earlier.journal["output"]["records"])) < 0).all():
        return _publicly(release, name, before, k)  # synthetic rows belong to nobody
    rows = positions(earlier, release)
    size = len(release.study.original)
    now = release.data.row_ids
    there = np.full(size, -1, np.int64)
    there[rows[rows >= 0]] = np.flatnonzero(rows >= 0)
    here = np.full(size, -1, np.int64)
    here[now] = np.arange(len(now))
    people = np.flatnonzero((there >= 0) & (here >= 0))
    mine, theirs = here[people], there[people]
    own, other = (_classes(data, _quasi(release, data)) for data in (release.data, before))
    _, pair, sizes = np.unique(np.stack([own[mine], other[theirs]]), axis=1, return_inverse=True, return_counts=True)
    pair = pair.reshape(-1)
    alone = np.bincount(own)[own[mine]] if len(people) else np.zeros(0, np.int64)
    small = (sizes[pair] < k) & (alone >= k) if len(people) else np.zeros(0, np.bool_)
    right = _matched(release.data, before, mine, theirs)
    return Together(
        earlier=name,
        knowledge="private",
        both=len(people),
        joined=len(now) - len(people),
        left=int(len(rows) - len(people)),
        small_differences=_differences(release, before, k),
        matched=int(right.sum()),
        smallest=int(sizes.min()) if len(people) else 0,
        alone=int(alone.min()) if len(people) else 0,
        below=int(small.sum()),
        exposed=int((small & right).sum()),
        told=_told(release, before, own, other, mine, theirs),
        k=k,
        diverse=any(hasattr(one.part, "sensitive") for one in release.plan.requirements),
        accepted=accepted,
    )


def _required(release: Release) -> int:
    """The largest class size that the plan requires; two where it requires none: nobody alone."""
    asked = [getattr(one.part, "k", None) for one in release.plan.requirements if one.part.kind == "k-anonymity"]
    return max([int(k) for k in asked if k is not None], default=2)


def _quasi(release: Release, data: Dataset) -> tuple[str, ...]:
    names = release.study.original.having("quasi")
    return tuple(name for name in names if name in data.columns and not data.frame.schema[name].is_nested())


def _classes(data: Dataset, columns: tuple[str, ...]) -> Ints:
    """Number the combinations of values; everybody is in one class where nothing is known."""
    return np.asarray(data.classes(columns).ids, np.int64) if columns else np.zeros(len(data), np.int64)


def _texts(data: Dataset, column: str) -> Any:
    """Write the values as both files show them; whole numbers alike whatever their type."""
    import polars as pl

    series = data.frame[column]
    if series.dtype.is_numeric():
        return series.cast(pl.Float64).cast(pl.String)
    return series.cast(pl.String)


def _shared(one: Dataset, other: Dataset) -> list[str]:
    return [
        name
        for name in one.columns
        if name in other.columns
        and not one.frame.schema[name].is_nested()
        and not other.frame.schema[name].is_nested()
        and one.frame[name].dtype.is_numeric() == other.frame[name].dtype.is_numeric()
    ]


def _partners(one: Dataset, other: Dataset, columns: list[str]) -> Ints:
    """Give each record its only partner by these columns; −1 where there is none, or several."""
    import polars as pl

    if not columns:
        return np.full(len(one), -1, np.int64)
    frames = [
        pl.DataFrame([_texts(data, name) for name in columns]).with_columns(pl.int_range(pl.len()).alias("\0row"))
        for data in (one, other)
    ]
    once = [frame.filter(pl.struct(columns).is_unique()) for frame in frames]
    found = once[0].join(once[1], on=columns, how="inner", nulls_equal=True, suffix=" there")
    partner = np.full(len(one), -1, np.int64)
    partner[found["\0row"].to_numpy()] = found["\0row there"].to_numpy()
    return partner


def _matched(now: Dataset, before: Dataset, mine: Ints, theirs: Ints) -> Bools:
    """Tell whose records are matched rightly: by all columns that both show, and without those that change most.

    Columns are left out one by one, the one first in which the same people agree least; a record that any of these
    keys matches rightly counts.
    """
    columns = _shared(now, before)
    agree = {
        name: float((_texts(now, name).gather(mine).eq_missing(_texts(before, name).gather(theirs))).mean() or 0.0)
        for name in columns
        if len(mine)
    }
    ordered = sorted(agree, key=lambda name: -agree[name])
    right = np.zeros(len(mine), np.bool_)
    for count in range(len(ordered), 0, -1):
        right |= _partners(now, before, ordered[:count])[mine] == theirs
    return right


def _differences(release: Release, before: Dataset, k: int) -> int:
    """Count the combinations of quasi-identifiers that both files show with nearly, and not quite, the same count."""
    import polars as pl

    columns = [name for name in _quasi(release, release.data) if name in _shared(release.data, before)]
    if not columns:
        return 0
    counted = [
        pl.DataFrame([_texts(data, name) for name in columns]).group_by(columns).agg(pl.len().alias("\0n"))
        for data in (release.data, before)
    ]
    both = counted[0].join(counted[1], on=columns, how="inner", nulls_equal=True, suffix=" there")
    gap = (both["\0n"].cast(pl.Int64) - both["\0n there"].cast(pl.Int64)).abs()
    return int(((gap > 0) & (gap < k)).sum())


def _told(release: Release, before: Dataset, own: Ints, other: Ints, mine: Ints, theirs: Ints) -> int:
    """Count the people of whom the classes of both releases share one sensitive value only, though each has several."""
    shared = _shared(release.data, before)
    names = [name for name in release.study.original.having("sensitive") if name in shared]
    told = np.zeros(len(mine), np.bool_)
    for name in names:
        import polars as pl

        values = pl.concat([_texts(release.data, name), _texts(before, name)])
        codes = values.fill_null("\0").rank("dense").to_numpy().astype(np.int64)
        here, there = codes[: len(release.data)], codes[len(release.data) :]
        width = int(codes.max()) + 1
        first, second = np.unique(own * width + here), np.unique(other * width + there)
        kinds = np.bincount(first // width, minlength=int(own.max()) + 1)
        kinds_there = np.bincount(second // width, minlength=int(other.max()) + 1)
        values_of = np.split(first % width, np.cumsum(kinds)[:-1])
        values_there = np.split(second % width, np.cumsum(kinds_there)[:-1])
        pairs, place = np.unique(np.stack([own[mine], other[theirs]]), axis=1, return_inverse=True)
        common = np.array(
            [len(np.intersect1d(values_of[a], values_there[b], assume_unique=True)) for a, b in pairs.T.tolist()]
        )
        if len(common):
            several = (kinds[own[mine]] > 1) & (kinds_there[other[theirs]] > 1)
            told |= (common[place.reshape(-1)] == 1) & several & (here[mine] == there[theirs])
    return int(told.sum())


def _published(folder: Path, release: Release) -> Dataset:
    """Read the data of a public folder; refused unless it is byte for byte what its report says."""
    from discretion.data.read import read_as
    from discretion.release.journal import sha256_of

    report = folder / "report.json"
    if not report.is_file():
        raise PlanError(f"previous: {str(folder)!r} is no public folder of a release: it has no report.json")
    content = json.loads(report.read_text(encoding="utf-8"))
    if content.get("format") != "discretion-report" or "data" not in content:
        raise PlanError(f"previous: {str(folder)!r} is no release of records")
    file = folder / content["data"]["file"]
    if not file.is_file() or sha256_of(file) != content["data"]["sha256"]:
        raise DataError(f"previous: {str(file)!r} is not what was released: its hash is another one")
    return read_as(str(file), release.study.original.schema, partial=True)


def _publicly(release: Release, name: str, before: Dataset, k: int) -> Together:
    columns = _shared(release.data, before)
    found = int((_partners(release.data, before, columns) >= 0).sum())
    own = release.data.class_counts(quasi) if (quasi := _quasi(release, release.data)) else np.array([0])
    return Together(
        earlier=name, knowledge="public", both=len(release.data), joined=0, left=0,
        small_differences=_differences(release, before, k), matched=found, smallest=0,
        alone=int(own.min()), below=0, exposed=0, told=0, k=k,
    )  # fmt: skip


def unmet(found: tuple[Together, ...]) -> list[str]:
    """Say which requirement the releases break together though each meets it."""
    helps = (
        "make this one from the earlier one (`from:`), use its decisions (`--reuse`), or say why it may go out: "
        "`previous: [{journal: …, accepted: REASON}]`"
    )
    said = []
    for one in found:
        if one.exposed and not one.holds:
            said.append(
                f"k-anonymity together with {one.earlier}: {one.exposed} people whose records in both releases can be "
                f"matched are in classes below {one.k} by what both show, though this release alone keeps {one.alone}; "
                f"{helps}"
            )
        if one.diverse and one.told and not one.holds:
            said.append(
                f"diversity together with {one.earlier}: the classes of {one.told} people in the two releases have one "
                f"sensitive value in common, though each has several; {helps}"
            )
    return said


def public_words(found: tuple[Together, ...]) -> list[str]:
    """Say what everybody may know: that both were compared, and by what knowledge."""
    return [
        f"This release was attacked together with the earlier release {one.earlier}, "
        + ("knowing whose records they are." if one.knowledge == "private" else "by its published file alone.")
        for one in found
    ]
