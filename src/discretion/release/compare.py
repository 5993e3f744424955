"""`dc.compare`: attack and measure several finished releases alike, and read them from their folders."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discretion.context import Context, Progress, ignore_progress
from discretion.data.dataset import Dataset
from discretion.errors import DataError, Infeasible, PlanError
from discretion.measure import Measure, match_by, match_rows
from discretion.part import find
from discretion.release.comparison import ComparedRelease, Comparison
from discretion.release.holdout import run_with_holdout
from discretion.release.journal import ORDER_FILE, in_journal_order
from discretion.release.ranking import standard_error
from discretion.release.tune_cache import Figure
from discretion.release.tune_scales import NEVER, figure_of, take_measures

if TYPE_CHECKING:
    from discretion.release.plan import Plan

_UTILITIES = ("marginals", "contingency", "variable-change", "interval-overlap", "correlation-change", "propensity")
_PARTS, _LEAST_IN_PART, _FEW_PERMUTATIONS = 5, 20, 3
_MOST_TREES = 20_000
"""Above so many records the propensity score is left to those who ask for it."""


def compare(
    original: Any,
    releases: Mapping[str, Any],
    *,
    measures: Sequence[Any] | None = None,
    id_column: str | None = None,
    seed: int = 0,
    progress: Progress = ignore_progress,
) -> Comparison:
    """Run the same attacks and utility measures on several releases of one original, and say which way is better.

    Without `measures`, all attacks that roles, types and the matching of rows allow for any of the releases, and
    general measures of utility. A measure that cannot run on a release says why, and counts for none overall. The
    overall risk of a release is the largest gain over guessing, (s − c)/(1 − c), of the attacks that ran on all of them
    and do not take perturbed values as true; the overall loss is the mean loss, each between 0 and 1, of the utilities
    that have such limits. What a release does not have is lost: columns for every utility that does not name its own,
    records for the utilities that follow records (distributions of a sample may be as good as those of all). One
    release is better if it leads in one of the two and does not trail in the other. A lead counts only if it is beyond
    chance (95 %): for attacks beyond the intervals of the people tried and the spread of synthetic copies, for
    utilities beyond what leaving out each fifth of the rows changes (jackknife, t test). Otherwise there is no clear
    difference.

    Rows are matched by their hidden ids, by `id_column`, or by what `match_rows` finds: an id or an index that both
    have, or their position where the values agree far above chance. What needs matched rows does not run on others.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(300, seed=1)
    >>> light, heavy = (dc.RankSwap(columns=["income"], percent=p)(people, seed=1) for p in (2, 30))
    >>> measures = [dc.RankInterval(columns=["income"]), dc.VariableChange(columns=["income"])]
    >>> dc.compare(people, {"light": light, "heavy": heavy}, measures=measures).better is None
    True
    """
    before = Dataset.of(original)
    if len(releases) < 2:
        raise PlanError("a comparison needs two releases or more")
    matched = {str(name): match(before, Dataset.of(data), id_column) for name, data in releases.items()}
    chosen = _chosen(measures) if measures is not None else comparable_measures(before, list(matched.values()))
    if not chosen:
        raise PlanError("nothing to compare by: give the original roles, or `measures`")
    wanted = [name for name in before.columns if name not in before.having("identifier")]
    rows = []
    for number, measure in enumerate(chosen):
        progress(number, len(chosen), f"measuring: {measure.kind}")
        row = _row(measure, before, matched, Context(seed, f"measure/{measure.kind}", progress))
        named = () if measures is None else _named(measure)
        rows.append(replace(row, published=_published(measure, named, before, matched)))
    return Comparison(
        _told_apart(rows),
        tuple(matched),
        {name: len(data) for name, data in matched.items()},
        {name: tuple(c for c in wanted if c not in data.columns) for name, data in matched.items()},
        before,
        matched,
    )


def _told_apart(rows: Sequence[ComparedRelease]) -> tuple[ComparedRelease, ...]:
    """Name rows of one title by who attacks (members of the group), then by their number of columns."""
    insiders = "by members of the group"
    rows = [replace(row, note=insiders) if getattr(row.measure, "coalition", 0) else row for row in rows]
    titles = [row.title for row in rows]
    return tuple(
        replace(row, note=", ".join(filter(None, (row.note, f"{len(named)} columns"))))
        if titles.count(row.title) > 1 and (named := _named(row.measure))
        else row
        for row in rows
    )


def _chosen(given: Sequence[Any]) -> tuple[Measure, ...]:
    measures = take_measures(list(given), "utility")
    if refused := [measure.kind for measure in measures if measure.kind in NEVER]:
        raise PlanError(f"{refused[0]} is not zero for identical data and says nothing about loss; leave it out")
    return measures


def match(original: Dataset, released: Dataset, id_column: str | None = None) -> Dataset:
    """Give a release the roles of the original, and its row ids where they can be found."""
    if released.origin is original.origin:
        return released
    schema = original.schema.only(released.columns)
    data = Dataset(released.frame, schema=schema)
    if id_column is not None:
        return match_by(original, data, id_column)
    try:
        return match_rows(original, data).give(original, data)
    except DataError:
        return data


def comparable_measures(original: Dataset, releases: Sequence[Dataset]) -> tuple[Measure, ...]:
    """Choose the attacks that fit any of the releases, and general measures of utility on the columns that each has."""
    from discretion.release.attack_set import attack_set

    found: dict[str, Measure] = {}
    for released in releases:
        for one in attack_set(original, released):
            measure = _on_common(one, releases) if one.family == "utility" else one
            if measure is not None and measure.kind not in NEVER:
                found.setdefault(json.dumps(measure.to_plan(), sort_keys=True, default=str), measure)
    wanted = [name for name in original.choose((), "compare") if original.type_of(name) != "set"]
    columns = [name for name in wanted if all(name in released.columns for released in releases)]
    numbers = [name for name in columns if all(data.is_numeric(name) for data in (original, *releases))]
    for kind in _UTILITIES:
        few = kind in ("interval-overlap", "correlation-change")
        least = 2 if kind in ("correlation-change", "contingency") else 1
        large = kind == "propensity" and len(original) > _MOST_TREES
        if len(numbers if few else columns) >= least and not large:
            # unnamed: all columns that a release has, so that a change to one that another lacks is seen
            part = find(kind)(columns=numbers if few else columns if columns == wanted else ())
            if isinstance(part, Measure):
                found.setdefault(json.dumps(part.to_plan(), sort_keys=True), part)
    return tuple(found.values())


def _on_common(measure: Measure, releases: Sequence[Dataset]) -> Measure | None:
    """Restrict a measure to the columns that all releases have; None where it has none of them."""
    named = getattr(measure, "columns", ())
    kept = tuple(name for name in named if all(name in released.columns for released in releases))
    if kept == tuple(named):
        return measure
    return measure.model_copy(update={"columns": kept}) if kept else None


def _row(measure: Measure, original: Dataset, releases: Mapping[str, Dataset], ctx: Context) -> ComparedRelease:
    figures: dict[str, Figure] = {}
    reasons: dict[str, str] = {}
    errors: dict[str, float] = {}
    for name, released in releases.items():
        try:
            score = run_with_holdout(measure, original, released, ctx)
        except (DataError, PlanError, Infeasible) as error:
            reasons[name] = str(error)
            continue
        figures[name] = figure_of(score)
        if measure.family == "risk":
            errors[name] = standard_error(score)
    before: float | None = None
    if measure.family == "risk" or measure.needs == "released":
        try:
            before = run_with_holdout(measure, original, original, ctx).value
        except (DataError, PlanError, Infeasible):
            before = None
    judged = measure.family == "utility" and not reasons
    parts = _without_parts(measure, original, releases, ctx) if judged else {}
    return ComparedRelease(measure, before, figures, reasons, errors=errors, parts=parts)


def _without_parts(
    measure: Measure, original: Dataset, releases: Mapping[str, Dataset], ctx: Context
) -> dict[str, tuple[float, ...]]:
    """Measure every release without each of five parts of the rows; nothing where a part is small, or the rest fails.

    Whoever stands in a part of the original stands in the same part of a release, where rows belong to people; rows
    that belong to nobody are dealt out at random, and the original stays whole where all are such. How far the
    differences between releases vary from part to part tells what another draw, or other people, would change (the
    jackknife by groups).
    """
    if min(len(data) for data in (original, *releases.values())) < _PARTS * _LEAST_IN_PART:
        return {}
    if "permutations" in type(measure).model_fields:  # what chance gives is nearly the same without a part
        measure = measure.model_copy(update={"permutations": _FEW_PERMUTATIONS})
    rng = ctx.within("parts").rng
    part_of = rng.permutation(int(original.row_ids.max()) + 1) % _PARTS
    places = {
        name: part_of[data.row_ids] if _is_matched(original, data) else rng.permutation(len(data)) % _PARTS
        for name, data in releases.items()
    }
    apart = any(_is_matched(original, data) for data in releases.values())  # else only the draws differ
    found: dict[str, list[float]] = {name: [] for name in releases}
    for k in range(_PARTS):
        rest = original.take(part_of[original.row_ids] != k) if apart else original
        for name, data in releases.items():
            try:
                found[name].append(measure.run(rest, data.take(places[name] != k), ctx).value)
            except (DataError, PlanError, Infeasible):
                return {}
    return {name: tuple(values) for name, values in found.items()}


def _is_matched(original: Dataset, released: Dataset) -> bool:
    """Tell whether it is known whose row each one is."""
    return released.origin is original.origin and bool((released.row_ids >= 0).all())


def _named(measure: Measure) -> tuple[str, ...]:
    """Give the columns that a measure names."""
    return tuple(getattr(measure, "columns", None) or getattr(measure, "features", None) or ())


def _published(
    measure: Measure, named: Sequence[str], original: Dataset, releases: Mapping[str, Dataset]
) -> dict[str, float]:
    """Give the share of what a utility compares that each release has: columns, and the records that it follows."""
    if measure.family != "utility":
        return {}
    left_aside = original.having("identifier", "weight", "household", "unit")
    wanted = named or [n for n in original.columns if n not in left_aside and original.type_of(n) != "set"]
    follows = measure.aligned and measure.needs == "both"
    found = {}
    for name, released in releases.items():
        columns = sum(column in released.columns for column in wanted) / max(len(wanted), 1)
        found[name] = columns * (min(len(released) / len(original), 1.0) if follows else 1.0)
    return found


# --- releases on disk --------------------------------------------------------------------------------------------


def data_file(place: str | Path) -> Path:
    """Give the data file of a release: the path itself, or the one that the folder's report.json names."""
    path = Path(place)
    if not path.is_dir():
        return path
    report = path / "report.json"
    if not report.is_file():
        raise DataError(f"{str(place)!r} is not the folder of a release: it has no report.json")
    try:
        content = json.loads(report.read_text(encoding="utf-8"))
        file = path / Path(str(content["data"]["file"])).name
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{str(report)!r} is not the report of a release") from None
    if not file.is_file():
        raise DataError(f"the release {str(place)!r} lacks its data file {file.name!r}")
    return file


def plan_beside(place: str | Path) -> Plan | None:
    """Give the plan in the private folder beside a release, where it is: it knows the original and its roles."""
    from discretion.release.plan import Plan

    path = Path(place)
    beside = path.with_name(path.name + "-private") / "plan.yaml"
    return Plan.load(beside) if path.is_dir() and beside.is_file() else None


def short_names(places: Sequence[str]) -> list[str]:
    """Name releases by the last part of their path; by the whole path where that is not enough."""
    names = [Path(place).name or str(place) for place in places]
    return names if len(set(names)) == len(names) else list(places)


def _input_of(place: str | Path) -> dict[str, Any]:
    """Give what the private folder beside a release says of the original; empty where there is none."""
    path = Path(place)
    journal = path.with_name(path.name + "-private") / "journal.json"
    if not path.is_dir() or not journal.is_file():
        return {}
    content = json.loads(journal.read_text(encoding="utf-8"))
    return dict(content.get("input") or {})


def require_one_original(original: Dataset, places: Sequence[str], *, named: bool) -> None:
    """Refuse releases that were not made of the same original: attacks on them would compare other people.

    The journals have a hash of the original's file or rows, how many records and which columns it had. Where the
    original is `named`, it may lie in another file, and only records and columns are compared with it.
    """
    inputs = {str(place): facts for place in places if (facts := _input_of(place))}
    if not named and len(inputs) > 1:
        (first, known), *others = inputs.items()
        for place, facts in others:
            hashes = [
                (known[name], facts[name]) for name in ("sha256", "rows_sha256") if {name} <= known.keys() & facts
            ]
            if any(one != other for one, other in hashes) or _shape(known) != _shape(facts):
                raise DataError(
                    f"{first!r} and {place!r} were made of different originals ({_words(known)}; {_words(facts)}); "
                    "only releases of one original can be compared. If these are the same data in two files, name "
                    "one as --original"
                )
    for place, facts in inputs.items():
        if _shape(facts) != (len(original), sorted(original.columns)):
            now = {"records": len(original), "columns": original.columns}
            raise DataError(
                f"{place!r} was not made of this original: it was made of {_words(facts)}, the original has "
                f"{_words(now)}"
            )


def _shape(facts: Mapping[str, Any]) -> tuple[int, list[str]]:
    return int(facts.get("records", -1)), sorted(facts.get("columns", ()))


def _words(facts: Mapping[str, Any]) -> str:
    file = f"{Path(facts['file']).name!r}, " if facts.get("file") else ""
    return f"{file}{facts.get('records', '?')} records with {len(facts.get('columns', ()))} columns"


def read_releases(original: Dataset, places: Sequence[str], read: Callable[[Path], Dataset]) -> dict[str, Dataset]:
    """Read several releases by name, each with the part of the original's roles that it has."""
    if len(set(places)) < len(places):
        raise PlanError("a release is named twice")
    found = {}
    for name, place in zip(short_names(places), places, strict=True):
        parts = []
        for file in _copies(data_file(place)) if Path(place).is_dir() else [data_file(place)]:
            data = read(file)
            if not set(data.columns) & set(original.columns):
                raise DataError(f"{str(place)!r} has no column of the original: it is no release of it")
            data = Dataset(data.frame, schema=original.schema.only(data.columns))
            journal = Path(place).with_name(Path(place).name + "-private")
            known = Path(place).is_dir() and (journal / ORDER_FILE).is_file()
            parts.append(in_journal_order(original, data, journal, file) if known else data)
        found[name] = parts[0] if len(parts) == 1 else Dataset.of_copies(parts)
    return found


def _copies(file: Path) -> list[Path]:
    """Give the files of all synthetic copies where a release's file is the first of several."""
    if not file.stem.endswith("-1"):
        return [file]
    every = (file.with_name(f"{file.stem[:-1]}{number}{file.suffix}") for number in count(1))
    return list(takewhile(Path.is_file, every))
