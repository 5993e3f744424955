"""Earlier releases, found through their private journals: coarser copies of them, and what averaging would tell."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discretion.data.dataset import Dataset
from discretion.data.documents import Document, read_document
from discretion.data.hierarchy import canonical
from discretion.data.households import person_column, person_ids
from discretion.data.schema import Schema
from discretion.errors import DataError, DiscretionError, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.measure import Measure, as_percent
from discretion.release.journal import input_facts, journal_digest, sha256_of
from discretion.release.plan import Plan, Step

if TYPE_CHECKING:
    from discretion.release.gate import Finding
    from discretion.release.plan import Requirement
    from discretion.release.release import Release

_MOST_TARGETS = 20_000
"""People up to whom all are looked for as the nearest record; of more, so many drawn at random."""


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
    """records whose partner in the other release is found, and it is the right one: the only one that is equal in the
    columns that both show, or in those that changed least, or the nearest one"""
    smallest: int
    """people in the smallest class of those who share the quasi-identifiers of both releases"""
    alone: int
    """and in the smallest class by this release alone"""
    below: int
    """people who share the quasi-identifiers of both releases with fewer than k − 1 others"""
    exposed: int
    """those of them whose records can be matched, so that the two releases are one file about them"""
    told: int
    """people whose classes in the two releases share fewer sensitive values than `values`, though each has as many"""
    came: int
    """people in one of the releases only who are told by the difference: fewer than `k` records of their class can be
    those of who came, or went"""
    k: int
    values: int = 2
    diverse: bool = False
    """whether the plan requires that no class tells a sensitive value (diversity, closeness)"""
    accepted: str = ""
    """why this is published all the same, where the plan says so"""
    through: str = ""
    """the journal whose plan names the release, where the plan does not name it itself"""
    journal: str = ""
    folder: str = ""
    """where it lies, so that later releases find it"""

    @property
    def holds(self) -> bool:
        """Whether the classes that the plan requires survive in the hands of who has both files."""
        return bool(self.accepted) or not (self.exposed or self.came or (self.diverse and self.told))

    @property
    def _through(self) -> str:
        return f"; named by {self.through}" if self.through else ""

    def to_dict(self) -> dict[str, Any]:
        """Give it as plain data, for the internal side."""
        return {**asdict(self), "holds": self.holds}

    def explain(self) -> str:
        """Say it in words, for the internal side."""
        if self.knowledge == "public":
            return (
                f"beside {self.earlier} (public knowledge: its journal was not given{self._through}): "
                f"{self.matched:,} of {self.both:,} records have one partner there by the columns that both show; "
                f"{self.small_differences} combinations differ by fewer than {self.k} records; "
                "whether matches are right nobody said"
            )
        share = as_percent(self.matched / self.both) if self.both else "none"
        accepted = f"; accepted: {self.accepted}" if self.accepted else ""
        unasked = " (the plan requires no diversity: this stops nothing)" if self.told and not self.diverse else ""
        return (
            f"beside {self.earlier} (by its journal{self._through}): {self.both:,} people are in both, "
            f"{self.joined:,} came, {self.left:,} went; {share} of the records can be matched; the smallest class by "
            f"both releases has {self.smallest} people ({self.alone} by this one alone), {self.below:,} people are in "
            f"classes below {self.k}, {self.exposed:,} of them can be matched; {self.told:,} people's classes have "
            f"fewer than {self.values} sensitive values in common{unasked}; {self.came:,} who came or went are "
            f"told by the difference; {self.small_differences} combinations differ by fewer than {self.k} records"
            f"{accepted}"
        )


def combined(release: Release) -> tuple[Together, ...]:
    """Attack this release together with each of the earlier ones that its plan names."""
    return tuple(_beside(release, place) for place in release.lineage.places)


def _beside(release: Release, place: Mapping[str, Any]) -> Together:

    k = _required(release)
    if "journal" not in place:
        folder = Path(str(place["folder"]))
        return _publicly(release, place, folder, _published(folder, release), k)
    earlier = Earlier.open(place)
    before = earlier.published()
    folder = earlier.file.parent
    accepted = str(place.get("accepted", ""))
    if release.data.has_new_rows or (earlier.row_ids(int(earlier.journal["output"]["records"])) < 0).all():
        return _publicly(release, place, folder, before, k)  # synthetic rows belong to nobody
    rows = positions(earlier, release.plan, release.study.original)
    size = len(release.study.original)
    now = release.data.row_ids
    there = np.full(size, -1, np.int64)
    there[rows[rows >= 0]] = np.flatnonzero(rows >= 0)
    here = np.full(size, -1, np.int64)
    here[now] = np.arange(len(now))
    people = np.flatnonzero((there >= 0) & (here >= 0))
    mine, theirs = here[people], there[people]
    told = earlier.plan.schema.having("quasi")  # what others know may stand in the earlier file alone
    own, other = _classes(release.data, _quasi(release, release.data)), _classes(before, _quasi(release, before, told))
    _, pair, sizes = np.unique(np.stack([own[mine], other[theirs]]), axis=1, return_inverse=True, return_counts=True)
    pair = pair.reshape(-1)
    alone = np.bincount(own)[own[mine]] if len(people) else np.zeros(0, np.int64)
    small = (sizes[pair] < k) & (alone >= k) if len(people) else np.zeros(0, np.bool_)
    right = _matched(release, before, mine, theirs)
    least = _diversity(release)
    gone = np.setdiff1d(np.arange(len(before)), theirs)
    came = np.setdiff1d(np.arange(len(now)), mine)
    return Together(
        earlier=folder.name,
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
        told=_told(release, before, own, other, mine, theirs, least, _moved(release, earlier)),
        came=int(
            _by_difference(release, before, came, k).sum() + _by_difference(release, before, gone, k, went=True).sum()
        ),
        k=k,
        values=least,
        diverse=any(hasattr(one.part, "sensitive") for one in release.plan.requirements),
        accepted=accepted,
        **_found_at(place, folder),
    )


def _found_at(place: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    journal = {"journal": str(Path(place["journal"]).absolute())} if "journal" in place else {}
    return {"through": str(place.get("through", "")), "folder": str(folder.absolute()), **journal}


def _moved(release: Release, earlier: Earlier) -> set[str]:
    """Name the columns in which this release or the earlier one may show other values than those of the person."""
    done = zip(release.study.done, release.changes, strict=True)
    here = {name for item, names in done if item.step.method.perturbs for name in names}
    there = {
        name
        for step in earlier.steps
        if step.method.perturbs
        for name in (getattr(step.method, "columns", ()) or earlier.plan.schema.columns)
    }
    return here | there


def joint_findings(release: Release) -> tuple[Finding, ...]:
    """Judge the requirements on attacks by the numbers that this and the earlier releases tell together.

    Each person's perturbed numbers are averaged over the releases as who knows which records belong together would do;
    earlier ones that the plan accepts are left out. Only requirements that the averages break are given.
    """

    places = [one for one in release.lineage.places if not one.get("accepted")]
    columns = averaged_columns(release, places) if places and _asked(release) else {}
    rows = release.data.row_ids
    return _broken_by(release, {name: values[rows] for name, (values, _) in columns.items()})


def sum_findings(release: Release) -> tuple[Finding, ...]:
    """Judge the requirements on attacks by the numbers that follow from sums that the edit rules declare.

    Each record is moved to the sums as `IdentityDenoising` does. Only requirements that this breaks are given.
    """
    from discretion.data.rules import read_edit_rules
    from discretion.measure import align
    from discretion.risk.attribute.identity_denoising import declared_ranges, projected

    original, data = release.study.original, release.data
    rules = read_edit_rules(original.schema.edit_rules) if _asked(release) else ()
    numbers = {name for name in data.columns if name in original.columns and data.is_numeric(name)}
    sums = [rule.identity for rule in rules if rule.identity is not None and rule.columns <= numbers]
    if not sums or data.has_new_rows or data.copy_column is not None:
        return ()
    columns = list(dict.fromkeys(name for one in sums for name, _ in one.terms))
    true, seen = (one.numbers(columns) for one in align(original, data, "edit rules"))
    whole = ~(np.isnan(true).any(axis=1) | np.isnan(seen).any(axis=1))
    guessed = seen.copy()
    if whole.any():
        guessed[whole] = np.clip(
            projected(seen[whole], true[whole], sums, columns), *declared_ranges(original, columns)
        )
    better = {name: guessed[:, place] for place, name in enumerate(columns)}
    moved = (
        name for place, name in enumerate(columns) if not np.allclose(better[name], seen[:, place], equal_nan=True)
    )
    return _broken_by(release, {name: better[name] for name in moved})


def _asked(release: Release) -> list[Requirement]:
    return [one for one in release.plan.requirements if _on_attacks(one)]


def _broken_by(release: Release, columns: Mapping[str, Floats]) -> tuple[Finding, ...]:
    """Give the requirements on attacks that do not hold of the release with some columns guessed better."""
    from discretion.context import Context
    from discretion.release.gate import judge

    if not columns:
        return ()
    joined = release.data.with_columns(dict(columns))
    ctx = Context(release.study.seed, "together")
    knows = release.plan.knows_method
    found = (judge(one, release.study.original, joined, ctx, knows_method=knows) for one in _asked(release))
    return tuple(one for one in found if not one.holds)


def _on_attacks(one: Requirement) -> bool:
    part: Any = one.part
    if isinstance(part, Measure):
        return part.family == "risk" and part.needs == "both" and part.aligned and one.at_most is not None
    return part.kind in ("interval-protection", "reidentification-bound")


def _required(release: Release) -> int:
    """The largest class size that the plan requires; two where it requires none: nobody alone."""
    kinds = ("k-anonymity", "alpha-k", "p-sensitive", "household-k-anonymity")
    asked = [getattr(one.part, "k", None) for one in release.plan.requirements if one.part.kind in kinds]
    return max([int(k) for k in asked if k is not None], default=2)


def _diversity(release: Release) -> int:
    """The largest number of sensitive values that the plan requires of a class; two where it requires none."""
    fields = {"distinct-l-diversity": "l", "p-sensitive": "p"}
    asked = [getattr(one.part, fields[one.part.kind]) for one in release.plan.requirements if one.part.kind in fields]
    return max([int(number) for number in asked], default=2)


def _quasi(release: Release, data: Dataset, more: tuple[str, ...] = ()) -> tuple[str, ...]:
    names = dict.fromkeys((*release.study.original.having("quasi"), *more))
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


def _matched(release: Release, before: Dataset, mine: Ints, theirs: Ints) -> Bools:
    """Tell whose records are matched rightly: by equal columns, all or without those that change most, or as nearest.

    Columns are left out one by one, the one first in which the same people agree least; a record that any of these
    keys matches rightly counts, and so does one whose nearest record in the other release is its own.
    """
    right = np.zeros(len(mine), np.bool_)
    for columns in _keys(release.data, before, mine, theirs):
        right |= _partners(release.data, before, columns)[mine] == theirs
    return right | _nearest(release, before, mine, theirs)


def _keys(now: Dataset, before: Dataset, mine: Ints, theirs: Ints) -> list[list[str]]:
    """Give columns to match by: all that both show, then without those in which the same people agree least."""
    if not len(mine):
        return []
    agree = {
        name: float((_texts(now, name).gather(mine).eq_missing(_texts(before, name).gather(theirs))).mean() or 0.0)
        for name in _shared(now, before)
    }
    ordered = sorted(agree, key=lambda name: -agree[name])
    return [ordered[:count] for count in range(len(ordered), 0, -1)]


def _nearest(release: Release, before: Dataset, mine: Ints, theirs: Ints) -> Bools:
    """Tell whose record in this release is nearest to their own in the earlier one; the better of two ways counts.

    By all columns that both show (Gower's distance); by the numbers alone, among those who agree in everything that
    nobody changed.
    """
    if len(mine) < 2:
        return np.zeros(len(mine), np.bool_)
    columns = _shared(release.data, before)
    known, seen = before.take(theirs), release.data.take(mine)
    ways = [_nearest_by_numbers(known, seen, columns)]
    ways += [_nearest_by_all(known, seen, columns, release.study.seed)] if columns else []
    return max(ways, key=lambda right: int(right.sum()))


def _nearest_by_all(known: Dataset, seen: Dataset, columns: list[str], seed: int) -> Bools:
    from discretion.context import Context
    from discretion.risk.identity.intruder import Intruder
    from discretion.risk.identity.linkage import DistanceLinkage

    few = _MOST_TARGETS if len(known) > _MOST_TARGETS else None
    attack = DistanceLinkage(columns=tuple(columns), intruder=Intruder(knows_method=False, records=few))
    try:
        matched = seen.matched_to(known, np.arange(len(known)))
        found = attack.run(known, matched, Context(seed, "match releases")).per_record
    except DataError:  # nothing in common that could be compared
        found = None
    return np.zeros(len(known), np.bool_) if found is None else np.nan_to_num(found) > 0.5


def _nearest_by_numbers(known: Dataset, seen: Dataset, columns: list[str]) -> Bools:
    import polars as pl
    from scipy.spatial import cKDTree

    lines = _lines(known, seen)
    if not lines:
        return np.zeros(len(known), np.bool_)
    kept = [name for name in columns if _texts(known, name).eq_missing(_texts(seen, name)).all()]
    points = []
    for side in (0, 1):
        x = np.column_stack([line[side] / np.nanstd(line[0]) for line in lines])
        points.append(np.where(np.isnan(x), np.nanmean(x, axis=0), x))
    if kept:
        both = pl.concat([pl.DataFrame([_texts(data, name) for name in kept]) for data in (known, seen)])
        group = both.select(pl.struct(kept).rank("dense")).to_series().to_numpy().astype(np.float64)
        width = 10 * max(float(np.ptp(np.vstack(points), axis=0).sum()), 1.0)
        points = [np.column_stack([x, width * g]) for x, g in zip(points, np.split(group, 2), strict=True)]
    found_there = cKDTree(points[1]).query(points[0], k=2)
    distance, place = np.asarray(found_there[0]), np.asarray(found_there[1])
    found: Bools = (place[:, 0] == np.arange(len(known))) & (distance[:, 0] < distance[:, 1])
    return found


def _lines(known: Dataset, seen: Dataset) -> list[tuple[Floats, Floats]]:
    """Pair the numbers of two files: by name, or by what they have in common, in the unit of the second."""

    mine, theirs = (
        {name: x for name in data.columns if (x := number_places(data, name)) is not None and np.nanstd(x) > 0}
        for data in (seen, known)
    )
    pairs = []
    for name, x in mine.items():
        found = [(abs(correlation(theirs[other], x)), other) for other in ([name] if name in theirs else theirs)]
        strength, other = max(found, default=(0.0, ""))
        if strength >= ALIKE:
            both = ~np.isnan(theirs[other] + x)
            slope, level = np.polyfit(theirs[other][both], x[both], 1)
            pairs.append((slope * theirs[other] + level, x))
        elif name in theirs:
            pairs.append((theirs[name], x))
    return pairs


def _by_difference(release: Release, before: Dataset, alone: Ints, k: int, *, went: bool = False) -> Bools:
    """Tell who of those in one release only (`went`: the earlier) are told by what is not in the other.

    Who knows that somebody came, and the class, looks at the records of the class that are more frequent in this
    release than in the other by the columns that both show. The person is told where these are fewer than `k`.
    """
    import polars as pl

    one, other = (before, release.data) if went else (release.data, before)
    shared = _shared(one, other)
    quasi = [name for name in _quasi(release, one) if name in shared]
    told = np.zeros(len(alone), np.bool_)
    if not len(alone) or not quasi or len(quasi) < len(_quasi(release, one)):  # coded otherwise: nothing to subtract
        return told
    frames = [
        pl.DataFrame([_texts(data, name) for name in shared]).with_columns(pl.lit(place).alias("\0there"))
        for place, data in enumerate((one, other))
    ]
    both = pl.concat(frames)
    for columns in ([*quasi, *left] for left in _subsets([name for name in shared if name not in quasi])):
        counted = both.with_columns(
            more=(pl.col("\0there") == 0).sum().over(columns) > (pl.col("\0there") == 1).sum().over(columns)
        )
        mine = counted.filter(pl.col("\0there") == 0)
        candidates = mine.select(pl.col("more").sum().over(quasi)).to_series().to_numpy()
        classes = mine.select(pl.len().over(quasi)).to_series().to_numpy()
        more = mine["more"].to_numpy()
        told |= more[alone] & (candidates[alone] < k) & (classes[alone] >= k)
    return told


def _subsets(names: list[str]) -> list[list[str]]:
    """Give all the names, and each alone: a column that changed for everybody hides what another tells."""
    return [names, *([[name] for name in names] if len(names) > 1 else [])] if names else []


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


def _told(
    release: Release, before: Dataset, own: Ints, other: Ints, mine: Ints, theirs: Ints, least: int, moved: set[str]
) -> int:
    """Count the people whose classes share fewer than `least` values of a sensitive column, though each has as many.

    Somebody who knows the classes of a person concludes that the value is one of those. Where values stayed with their
    people this is right of everybody whose value did not change. Where a step dealt or changed them (`moved`) it can be
    wrong; people then count if it is right more often than it would be for who has one of the releases alone.
    """
    import polars as pl

    original, people = release.study.original, release.data.row_ids[mine]
    shared = _shared(release.data, before)
    told = np.zeros(len(mine), np.bool_)
    for name in (name for name in original.having("sensitive") if name in shared):
        if not len(mine):
            break
        known = [_texts(data, name) for data in (release.data, before, original)]
        codes = pl.concat(known).fill_null("\0").rank("dense").to_numpy().astype(np.int64)
        here, there, true = np.split(codes, np.cumsum([len(one) for one in known])[:-1])
        dealt = name in moved and bool(np.isin(here, true).all())  # coarser labels cannot be compared with the truth
        width = int(codes.max()) + 1
        first, second = np.unique(own * width + here), np.unique(other * width + there)
        kinds = np.bincount(first // width, minlength=int(own.max()) + 1)
        kinds_there = np.bincount(second // width, minlength=int(other.max()) + 1)
        values_of = np.split(first % width, np.cumsum(kinds)[:-1])
        values_there = np.split(second % width, np.cumsum(kinds_there)[:-1])
        pairs, place = np.unique(np.stack([own[mine], other[theirs]]), axis=1, return_inverse=True)
        common = [np.intersect1d(values_of[a], values_there[b], assume_unique=True) for a, b in pairs.T.tolist()]
        place = place.reshape(-1)
        several = (kinds[own[mine]] >= least) & (kinds_there[other[theirs]] >= least)
        few = several & (np.array([len(one) for one in common]) < least)[place]
        if not dealt:
            told |= few & (here[mine] == there[theirs])
            continue
        right = few & np.array([value in common[pair] for value, pair in zip(true[people], place, strict=True)])
        rows = [np.split(np.argsort(ids, kind="stable"), np.cumsum(np.bincount(ids))[:-1]) for ids in (own, other)]
        chance = np.zeros(len(common))
        for pair in np.unique(place[few]).tolist():
            shown = here[rows[0][pairs[0, pair]]], there[rows[1][pairs[1, pair]]]
            chance[pair] = max(float(np.isin(one, common[pair]).mean()) for one in shown)
        by_chance = chance[place[few]]
        if right.sum() > by_chance.sum() + 2 * np.sqrt((by_chance * (1 - by_chance)).sum()):
            told |= right
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


def _publicly(release: Release, place: Mapping[str, Any], folder: Path, before: Dataset, k: int) -> Together:
    columns = _shared(release.data, before)
    found = int((_partners(release.data, before, columns) >= 0).sum())
    own = release.data.class_counts(quasi) if (quasi := _quasi(release, release.data)) else np.array([0])
    return Together(
        earlier=folder.name, knowledge="public", both=len(release.data), joined=0, left=0,
        small_differences=_differences(release, before, k), matched=found, smallest=0,
        alone=int(own.min()), below=0, exposed=0, told=0, came=0, k=k, **_found_at(place, folder),
    )  # fmt: skip


def unmet(found: tuple[Together, ...], joint: tuple[Finding, ...], sums: tuple[Finding, ...]) -> list[str]:
    """Say which requirement the releases break together though each meets it."""
    helps = (
        "make this one from the earlier one (`from:`), use its decisions (`--reuse`), or say why it may go out: "
        "`previous: [{journal: …, accepted: REASON}]`"
    )
    said = [f"together with the earlier releases, numbers averaged, {one.explain()}; {helps}" for one in joint]
    said += [
        f"with the sums that the edit rules declare, {one.explain()}; perturb the parts and add them up "
        "(`restore-edit-rules`), or leave one of the columns out"
        for one in sums
    ]
    for one in found:
        name = f"{one.earlier} (which {one.through} names)" if one.through else one.earlier
        if one.exposed and not one.holds:
            said.append(
                f"k-anonymity together with {name}: {one.exposed} people whose records in both releases can be "
                f"matched are in classes below {one.k} by what both show, though this release alone keeps {one.alone}; "
                f"{helps}"
            )
        if one.diverse and one.told and not one.holds:
            said.append(
                f"diversity together with {name}: the classes of {one.told} people in the two releases have "
                f"fewer than {one.values} sensitive values in common, though each has as many; {helps}"
            )
        if one.came and not one.holds:
            said.append(
                f"k-anonymity together with {name}: {one.came} people who are in one of the releases only are "
                f"told by the difference: fewer than {one.k} records of their class can be theirs; use coarser "
                f"classes, leave out who came where fewer than {one.k} did, or say why it may go out: `previous: "
                "[{journal: …, accepted: REASON}]`"
            )
    return said


def public_words(found: tuple[Together, ...]) -> list[str]:
    """Say what everybody may know: that both were compared, and by what knowledge."""
    return [
        f"This release was attacked together with the earlier release {one.earlier}, "
        + ("knowing whose records they are." if one.knowledge == "private" else "by its published file alone.")
        + (" What both tell together was accepted by the owner." if one.accepted else "")
        for one in found
    ]


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
