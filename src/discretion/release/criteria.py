"""Words of the law: singling out, linkability and inference, each by the attack that measured it, and what remains.

The three questions are those of the European working party's opinion on anonymisation (05/2014); "means reasonably
likely to be used" (recital 26) are told as who attacks, with what, and how far that leads. An annex for an impact
assessment and a kit for a motivated-intruder test are made from the private journal of a release.
"""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as Xml

import numpy as np
from numpy.typing import NDArray

from discretion import __version__
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError
from discretion.measure import Score, as_percent
from discretion.outputs.judge import complementary
from discretion.release.earlier import Together
from discretion.release.ranking import AVERAGED, RankedAttack, attacker_cards, attackers_by, rank_attacks
from discretion.release.report.wording import listed, of_people, title_of
from discretion.release.under_policy import published_schema

if TYPE_CHECKING:
    from discretion.release.plan import Plan
    from discretion.release.release import Release

LEAST = 10
"""Counts below this many records, people or households are not shown, and those shown are multiples of it."""
_MOST = 100
"""Different values up to which they are listed."""
_DDI = "ddi:codebook:2_5"
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NATURE = {"continuous": "ratio", "ordinal": "ordinal", "nominal": "nominal", "set": "other", "date": "interval"}
_KINDS = {"continuous": "number", "ordinal": "ordered category", "nominal": "category", "set": "set", "date": "date"}


@dataclass(frozen=True)
class CodedValue:
    """A value that is listed; `count` is rounded, and None where it is not shown (small, or it would tell another)."""

    value: str
    label: str
    count: int | None
    missing: bool = False


@dataclass(frozen=True)
class Treatment:
    """What a step did to a variable: the step, what it gives, and how it biases estimates."""

    step: str
    what: str
    effect: str


@dataclass(frozen=True)
class CodebookVariable:
    """One published variable."""

    name: str
    label: str
    type: str
    roles: tuple[str, ...]
    numeric: bool
    weight: bool
    categories: tuple[CodedValue, ...]
    statistics: Mapping[str, float]
    missing_codes: tuple[str, ...]
    done: tuple[Treatment, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Codebook:
    """What users of a release need to know, made of public facts and of counts of the published file.

    Counts smaller than `least` are not shown, nor one that would tell such a count as the difference to all records;
    those shown are rounded to multiples of `least`, so that differences between variables tell none either.

    Examples
    --------
    >>> import discretion as dc
    >>> study = dc.Study(dc.datasets.census(500, seed=1), seed=7).apply(dc.DropIdentifiers())
    >>> book = study.plan().run(dc.datasets.census(500, seed=1), seed=7).codebook()
    >>> next(one for one in book.variables if one.name == "sex").type
    'category'
    """

    title: str
    records: int
    files: tuple[Mapping[str, str], ...]
    variables: tuple[CodebookVariable, ...]
    weights: tuple[str, ...]
    notes: tuple[str, ...]
    left_out: tuple[str, ...]
    least: int = LEAST

    @classmethod
    def of(cls, release: Release, files: Sequence[Mapping[str, str]] = ()) -> Codebook:
        """Make the codebook of a release; `files` has the name and the hash of each data file."""
        from discretion.release.published import weight_lost

        policy = release.plan.policy
        asked = None if policy is None or policy.outputs is None else policy.outputs.min_count
        least = max(LEAST, asked or 0)
        copies = release.data.copies()
        data = copies[0]
        lost = () if release.is_private else weight_lost(release.study.original, release.data)
        weights = [_weight_words(data, name) for name in data.having("weight")]
        left_out = tuple(name for name in release.study.original.columns if name not in data.columns)
        notes = [*release.notes, *_record_steps(release)]
        if len(copies) > 1:
            notes.append(f"Counts and figures below are those of the first of {len(copies)} copies.")
        elif len(data) < release.records:
            notes.append(f"Counts and figures of variables are those of a random sample of {len(data):,} records.")
        return cls(
            release.plan.title or "Protected data",
            len(data) if len(copies) > 1 else release.records,
            tuple(files),
            tuple(_variable(release, data, name, least) for name in data.columns),
            (*weights, *(f"{words[0].upper()}{words[1:]}." for words in lost)),
            tuple(notes),
            left_out,
            least,
        )

    @property
    def about_counts(self) -> str:
        """How counts are shown, in words."""
        return (
            f"Counts are those of the published file, rounded to multiples of {self.least}. A count of fewer than "
            f"{self.least} is not shown, nor one from which it could be computed; figures have three digits."
        )

    def to_dict(self) -> dict[str, Any]:
        """Give the codebook as plain data."""
        return {**asdict(self), "about_counts": self.about_counts}

    def to_markdown(self) -> str:
        """Write the codebook as Markdown."""
        lines = [f"# {markdown_text(self.title)}: codebook", "", *self._facts_markdown(), ""]
        if self.weights:
            lines += ["## Weights", "", *(f"- {markdown_text(words)}" for words in self.weights), ""]
        lines += ["## Variables", "", markdown_text(self.about_counts), ""]
        lines += ["| variable | label | type |", "|---|---|---|"]
        lines += [f"| {markdown_text(one.name)} | {markdown_text(one.label)} | {one.type} |" for one in self.variables]
        for one in self.variables:
            lines += ["", *_variable_markdown(one, self.least)]
        return "\n".join(lines) + "\n"

    def _facts_markdown(self) -> list[str]:
        lines = [f"- Records: {self.records:,}; variables: {len(self.variables)}"]
        lines += [f"- File: {markdown_text(one['file'])}, SHA-256 `{one['sha256']}`" for one in self.files]
        if self.left_out:
            lines.append(f"- Not in this file, although in its source: {markdown_text(', '.join(self.left_out))}")
        lines += [f"- {markdown_text(words)}" for words in self.notes]
        return [*lines, f"- Made with discretion {__version__}; what was measured and required is in `report.html`."]

    def to_html(self) -> str:
        """Write the codebook as one HTML page that needs nothing else."""
        from discretion.release.report.page import template

        words = {"book": self, "internal": False, "title": f"{self.title}: codebook", "shown": _shown}
        return template("codebook.html").render(**words)

    def to_ddi(self) -> str:
        """Write the codebook as XML in the namespace and the order of elements of DDI-Codebook 2.5."""
        Xml.register_namespace("", _DDI)
        root = Xml.Element(f"{{{_DDI}}}codeBook", {"version": "2.5"})
        document = _add(_add(root, "docDscr"), "citation")
        _add(_add(document, "titlStmt"), "titl", f"{self.title}: codebook")
        _add(_add(document, "prodStmt"), "software", "discretion", version=__version__)
        self._ddi_study(_add(root, "stdyDscr"))
        for number, file in enumerate(self.files or ({"file": "data", "sha256": ""},), start=1):
            self._ddi_file(_add(root, "fileDscr", ID=f"F{number}"), file)
        data = _add(root, "dataDscr")
        numbers = {one.name: f"V{number}" for number, one in enumerate(self.variables, start=1)}
        weights = " ".join(numbers[one.name] for one in self.variables if one.weight)
        for one in self.variables:
            _ddi_variable(data, one, numbers[one.name], weights, self.least)
        if self.left_out:
            _add(data, "notes", f"Not in this file, although in its source: {', '.join(self.left_out)}.")
        Xml.indent(root)
        return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"

    def _ddi_study(self, study: Xml.Element) -> None:
        _add(_add(_add(study, "citation"), "titlStmt"), "titl", self.title)
        method = _add(study, "method")
        if self.weights:
            _add(_add(method, "dataColl"), "weight", " ".join(self.weights))
        _add(method, "notes", self.about_counts, subject="statistical disclosure control")
        for words in self.notes:
            _add(study, "notes", words)

    def _ddi_file(self, place: Xml.Element, file: Mapping[str, str]) -> None:
        text = _add(place, "fileTxt")
        _add(text, "fileName", file["file"])
        size = _add(text, "dimensns")
        _add(size, "caseQnty", str(self.records))
        _add(size, "varQnty", str(len(self.variables)))
        if file["sha256"]:
            _add(place, "notes", file["sha256"], type="SHA-256", level="file")


# --- what is known of a variable ------------------------------------------------------------------------------------


def _record_steps(release: Release) -> Iterator[str]:
    """Describe the steps that left records out, or changed no column: they concern the file as a whole."""
    before = len(release.study.original)
    for item, changed in zip(release.study.done, release.changes, strict=True):
        method, fewer = item.step.method, len(item.data) < before and not item.data.has_new_rows
        if fewer or not changed:
            yield f"{method.kind}: {method.guarantee or method.summary()} Estimates: {method.effect}"
        before = len(item.data)


def _variable(release: Release, data: Dataset, name: str, least: int) -> CodebookVariable:
    column, kind = data.schema[name], data.type_of(name)
    done = []
    for item, changed in zip(release.study.done, release.changes, strict=True):
        method = item.step.method
        if name in changed:
            done.append(Treatment(method.kind, method.guarantee or method.summary(), method.effect))
    numeric, numbers = data.is_numeric(name), data.is_quantity(name) and not data.is_category(name)
    categories: tuple[CodedValue, ...] = ()
    statistics: dict[str, float] = {}
    notes = list(_level_words(release, name))
    if name in data.having("identifier", "unit", "household"):
        done.append(Treatment("renumbering", "It tells which records belong together, and nothing else.", "None."))
    elif numbers:
        categories = _categories(data, name, least, valid_only=True)
        statistics = _statistics(data, name, least)
    elif kind in ("set", "date"):
        categories = _categories(data, name, least, valid_only=True)
        notes.append("Values are not listed.")
    else:
        categories = _categories(data, name, least)
        if not categories:
            notes.append(f"More than {_MOST} different values; they are not listed.")
        elif sum(one.count is not None for one in categories) < len(_occurring(data, name)):
            notes.append(f"Further values are not listed: of fewer than {least}, or they would tell such a number.")
    codes = tuple(canonical(code) for code in column.missing_codes) if name not in data.changed else ()
    if column.missing_codes and not codes:
        notes.append("Missing values that had codes of their own are empty now.")
    weight = "weight" in column.roles
    return CodebookVariable(
        name, column.label, _KINDS[kind], column.roles, numeric, weight, categories, statistics, codes, tuple(done),
        tuple(notes),
    )  # fmt: skip


def _level_words(release: Release, name: str) -> Sequence[str]:
    level = release.data.levels.get(name)
    if level is None:
        return ()
    if isinstance(level, int):
        return (f"Published at level {level} of its hierarchy.",) if level else ()
    return ("The level of detail differs by record: a category may contain another that is published too.",)


def _weight_words(data: Dataset, name: str) -> str:
    """Say how a weight is used, with the design that is published beside it."""
    total = f" The weights add up to about {_shown(float(np.nansum(data.number(name))))}." if len(data) >= LEAST else ""
    strata, clusters = data.having("stratum"), data.having("household", "unit")
    design = [f"ids = ~{clusters[0]}" if clusters else "ids = ~1"]
    design += [f"strata = ~{strata[0]}"] if strata else []
    call = ", ".join([*design, f"weights = ~{name}", "data = data"])
    return (
        f"{name}: each record stands for as many members of the population as its weight says. A total is the sum of "
        f"weight times value, a mean that sum divided by the sum of the weights; unweighted figures describe the file, "
        f"not the population. In R: survey::svydesign({call}).{total}"
    )


def _occurring(data: Dataset, name: str) -> list[Any]:
    coded = data.codes(name)
    return [value for code, value in enumerate(coded.values) if value is not None and (coded.codes == code).any()]


def _categories(data: Dataset, name: str, least: int, *, valid_only: bool = False) -> tuple[CodedValue, ...]:
    """Count the values of a variable (with `valid_only`: present and missing), small counts and what tells them hidden.

    A value that is hidden is named only if somebody declared it with a label, as are declared values that do not occur:
    who reads the list cannot tell the two apart, nor how many values are hidden.
    """
    coded = data.codes(name)
    groups = np.asarray(coded.codes, dtype=np.int64)
    if valid_only:
        groups = (groups == coded.missing).astype(np.int64)
        named: dict[int, Any] = {0: "present", 1: None}
    else:
        present = np.unique(groups)
        named = {int(code): None if code == coded.missing else coded.values[code] for code in present}
        if len(named) > _MOST:
            return ()
    codes = np.array(sorted(named), dtype=np.int64)
    place = np.searchsorted(codes, groups)
    counts, people = _counts(data, place, len(codes))
    shown = shown_counts(counts, people, least)
    column = data.schema[name]
    labels = dict.fromkeys(column.order, "") | {canonical(value): text for value, text in column.value_labels.items()}
    listed = []
    for code, count in zip(codes.tolist(), shown, strict=True):
        value = named[code]
        text = "missing" if value is None else canonical(value)
        occurs = counts[np.searchsorted(codes, code)] > 0
        if count is not None or (valid_only and occurs) or text in labels or (value is None and occurs):
            listed.append(CodedValue(text, labels.get(text, ""), count, missing=value is None))
    if not valid_only:
        known = {one.value for one in listed}
        listed += [CodedValue(text, label, None) for text, label in labels.items() if text not in known]
        listed.sort(key=lambda one: (one.missing, _order(data, name, one.value)))
    return tuple(one for one in listed if one.count != 0)


def _order(data: Dataset, name: str, value: str) -> tuple[float, float, str]:
    order = data.schema[name].order
    if value in order:
        return (0.0, float(order.index(value)), value)
    try:
        return (1.0, float(value), value)
    except ValueError:
        return (2.0, 0.0, value)


def _counts(data: Dataset, groups: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count records, and the fewest people or households behind them, in each group."""
    from discretion.data.households import count_units, unit_codes

    counts = np.bincount(groups, minlength=size)
    units = None if data.has_new_rows else count_units(unit_codes(data), groups, size)
    return counts, counts if units is None else units


def shown_counts(counts: NDArray[np.int64], people: NDArray[np.int64], least: int) -> tuple[int | None, ...]:
    """Decide which counts of one variable are shown, as multiples of `least`; None where one is not.

    Counts with fewer than `least` people are hidden, and others with them: the sum of what is hidden is known (all
    records minus what is shown).
    """
    hidden = complementary(people, least, (people < least) & (counts > 0))
    rounded = np.maximum(np.floor(counts / least + 0.5).astype(np.int64), 1) * least
    return tuple(
        None if hide else 0 if not count else int(near)
        for hide, count, near in zip(hidden, counts, rounded, strict=True)
    )


def _statistics(data: Dataset, name: str, least: int) -> dict[str, float]:
    """Give mean, spread and deciles of a number, where enough people stand behind each and none dominates."""
    x = data.number(name)
    values = np.sort(x[~np.isnan(x)])
    _, people = _counts(data, np.isnan(x).astype(np.int64), 2)
    found: dict[str, float] = {}
    if people[0] < least:
        return found
    largest = np.sort(np.abs(values))[::-1]
    if largest[2:].sum() >= 0.1 * largest[0]:
        found["mean"] = float(values.mean())
        deviations = np.sort((values - values.mean()) ** 2)[::-1]
        if deviations[2:].sum() >= 0.1 * deviations[0]:
            found["standard deviation"] = float(values.std(ddof=1))
    if people[0] >= 10 * least:
        for share, word in ((0.1, "10th percentile"), (0.5, "median"), (0.9, "90th percentile")):
            found[word] = float(np.quantile(values, share))
    return {word: three_digits(value) for word, value in found.items()}


def three_digits(value: float) -> float:
    """Round to three significant digits."""
    return float(f"{value:.2e}")


def _shown(value: float) -> str:
    return f"{three_digits(value):,.10g}"


# --- how it is written ----------------------------------------------------------------------------------------------


def markdown_text(text: str) -> str:
    """Write a text so that Markdown takes none of it as marks, table borders or HTML."""
    return re.sub(r"([\\`*_\[\]|#])", r"\\\1", html.escape(" ".join(text.split()), quote=False))


def count_words(one: CodedValue, least: int) -> str:
    """Write a count, or why it is not there."""
    if one.count is not None:
        return f"{one.count:,}"
    return f"not shown (small, none, or it would tell one below {least})"


def _variable_markdown(one: CodebookVariable, least: int) -> list[str]:
    lines = [f"### {markdown_text(one.name)}", ""]
    lines += [f"{markdown_text(one.label)}", ""] if one.label else []
    lines += [f"Type: {one.type}; role: {', '.join(one.roles)}."]
    if one.missing_codes:
        lines.append(f"Codes for missing values: {markdown_text(', '.join(one.missing_codes))}.")
    lines += [markdown_text(words) for words in one.notes]
    if one.statistics:
        lines.append("; ".join(f"{word}: {_shown(value)}" for word, value in one.statistics.items()) + ".")
    lines += (
        [
            "",
            *(
                f"- *{markdown_text(item.step)}*: {markdown_text(item.what)} Estimates: {markdown_text(item.effect)}"
                for item in one.done
            ),
        ]
        if one.done
        else ["", "Published as it was collected."]
    )
    if one.categories:
        lines += ["", "| value | label | records |", "|---|---|---:|"]
        lines += [
            f"| {markdown_text(c.value)} | {markdown_text(c.label)} | {count_words(c, least)} |" for c in one.categories
        ]
    return lines


def _add(parent: Xml.Element, tag: str, text: str = "", **attributes: str) -> Xml.Element:
    """Add an element of DDI; characters that XML cannot hold are replaced."""
    clean = {name: _NOT_XML.sub("�", value) for name, value in attributes.items() if value}
    child = Xml.SubElement(parent, f"{{{_DDI}}}{tag}", clean)
    child.text = _NOT_XML.sub("�", text) or None
    return child


def _ddi_variable(data: Xml.Element, one: CodebookVariable, number: str, weights: str, least: int) -> None:
    kinds = {value: key for key, value in _KINDS.items()}
    listed = bool(one.categories) and one.type in ("category", "ordered category")
    attributes = {
        "ID": number,
        "name": one.name,
        "files": "F1",
        "intrvl": "discrete" if listed or not one.numeric else "contin",
        "nature": _NATURE[kinds[one.type]],
        **({"wgt": "wgt"} if one.weight else {"wgt-var": weights}),
        **({"geog": "Y"} if "geography" in one.roles else {}),
    }
    var = _add(data, "var", **attributes)
    if one.label:
        _add(var, "labl", one.label)
    if one.missing_codes:
        invalid = _add(var, "invalrng")
        for code in one.missing_codes:
            _add(invalid, "item", VALUE=code)
    present = {item.value: item.count for item in one.categories}
    if not listed and present.get("present") is not None:
        _add(var, "sumStat", str(present["present"]), type="vald")
    if not listed and present.get("missing") is not None:
        _add(var, "sumStat", str(present["missing"]), type="invd")
    for word, kind in (("mean", "mean"), ("median", "medn"), ("standard deviation", "stdev")):
        if word in one.statistics:
            _add(var, "sumStat", f"{one.statistics[word]:.10g}", type=kind)
    for words in one.notes:
        _add(var, "txt", words)
    if listed:
        _ddi_categories(var, one, least)
    _add(var, "varFormat", type="numeric" if one.numeric else "character")
    for done in one.done:
        _add(var, "notes", f"{done.what} Estimates: {done.effect}", type=done.step, level="variable")


def _ddi_categories(var: Xml.Element, one: CodebookVariable, least: int) -> None:
    for item in one.categories:
        place = _add(var, "catgry", missing="Y" if item.missing else "N")
        _add(place, "catValu", item.value)
        if item.label:
            _add(place, "labl", item.label)
        if item.count is None:
            _add(place, "txt", count_words(item, least))
        else:
            _add(place, "catStat", str(item.count), type="freq")


_CRITERIA = (
    (
        "singling out",
        "Can one record be told to be one person's?",
        (
            "singling-out", "sample-uniqueness", "attacker-risk", "suda", "individual-risk", "population-uniqueness",
            "log-linear-risk", "rare-values", "household-uniqueness", "household-risk",
        ),
    ),
    (
        "linkability",
        "Can records of one person be put together, in this file and another?",
        (
            "linkability", "distance-linkage", "probabilistic-linkage", "assignment-linkage", "learned-linkage",
            "replicated-uniques", "closest-record", "row-order",
        ),
    ),
    (
        "inference",
        "Can a person's values be concluded from the rest?",
        (
            "inference-risk", "group-attack", "disco", "model-disclosure", "model-agreement", "value-agreement",
            "interval-risk", "rank-interval", "sd-interval", "outlier-interval", "membership-inference",
            "generator-membership", "column-dependence", "weight-disclosure", "identity-denoising",
        ),
    ),
)  # fmt: skip
NOT_MEASURED = "not measured: nothing is known of it"


@dataclass(frozen=True)
class Criterion:
    """One question of the law: the attack that answers it best for the attacker, or none."""

    name: str
    question: str
    attack: RankedAttack | None
    tried: tuple[str, ...]
    withheld: bool = False
    """whether it was measured and the figure is not for the public"""

    @property
    def attacker(self) -> str:
        """Who was assumed to attack, and what he knows."""
        if self.attack is None:
            return ""
        kinds = attackers_by(self.attack.measure)
        return "; ".join(f"{kind.name}, who knows {kind.knows}" for kind in kinds[:1])

    @property
    def finding(self) -> str:
        """What was found, in words."""
        if self.attack is None:
            return "measured; the figure is confidential" if self.withheld else NOT_MEASURED
        guessing = "" if self.attack.chance is None else f" (guessing: {as_percent(self.attack.chance)})"
        return f"right for {of_people(self.attack.success)}{guessing}"

    def to_dict(self) -> dict[str, Any]:
        """Give the criterion as plain data."""
        attack = self.attack
        return {
            "criterion": self.name,
            "question": self.question,
            "attack": None if attack is None else attack.measure,
            "value": None if attack is None else attack.success,
            "chance": None if attack is None else attack.chance,
            "attacker": self.attacker,
            "finding": self.finding,
            "tried": list(self.tried),
        }


def criteria_of(scores: Iterable[Score], withheld: Iterable[str] = ()) -> tuple[Criterion, ...]:
    """Answer the three questions by the attacks that were run; an attack on perturbed values as true counts last."""
    known, hidden = list(scores), set(withheld)
    found = []
    for name, question, kinds in _CRITERIA:
        own = [score for score in known if score.measure in kinds]
        ranked = rank_attacks(own)
        tried = tuple(dict.fromkeys(score.measure for score in own))
        found.append(Criterion(name, question, ranked[0] if ranked else None, tried, bool(hidden & set(kinds))))
    return tuple(found)


def criteria_of_release(release: Release, *, internal: bool) -> tuple[Criterion, ...]:
    """Answer them for a report; the public version knows only figures that are public, rounded where they are."""
    from dataclasses import replace

    from discretion.release.facts import public_figures

    if internal:
        return criteria_of(release.attacks())
    shown, hidden = [], []
    for item in release.measured:
        figures = public_figures(release, item) if item.measure.family == "risk" else None
        if figures is None:
            hidden.append(item.measure.kind)
            continue
        detail = {"chance": figures.chance} if figures.chance is not None else {}
        detail |= {name: item.after.detail[name] for name in ("warning",) if name in item.after.detail}
        shown.append(replace(item.after, value=figures.after, detail=detail, per_record=None))
    hidden += [finding.kind for finding in release.findings if isinstance(finding.result, Score)]
    return criteria_of(shown, hidden)


def residual_risk(criteria: Sequence[Criterion]) -> str:
    """Say in a sentence what remains, for the decision of the controller."""
    open_ = [one.name for one in criteria if one.attack is None]
    known = [one for one in criteria if one.attack is not None]
    beside = f" Nothing is told of {listed(open_)}." if open_ else ""
    if not known:
        return f"What remains is not told by any figure here.{beside}"
    worst = max(known, key=lambda one: (not one.attack.doubtful, one.attack.gain) if one.attack else (False, 0.0))
    attack = worst.attack
    if attack is None or attack.gain <= 0:
        which = "whose figure is shown here" if any(one.withheld for one in criteria) else "that was run"
        return f"What remains: no attack {which} does better than guessing.{beside}"
    return (
        f"What remains: by {title_of(attack.measure)} ({worst.name}) somebody in the place of {worst.attacker} "
        f"is {worst.finding}; whether that is reasonably likely, and acceptable, the controller decides.{beside}"
    )


# --- the annex and the kit, from the journal ------------------------------------------------------------------------

Block = tuple[str, Any]
_FORM = ("claim", "released_row", "person", "evidence_and_source", "confidence_percent", "minutes_spent")
_SHEET = ("claim", "person_is_in_the_data", "row_is_that_person", "value_learned", "value_is_right", "checked_by")


@dataclass(frozen=True)
class Annex:
    """An annex for an impact assessment, with a kit for a motivated-intruder test. Private: it has all figures."""

    title: str
    criteria: tuple[Criterion, ...]
    residual: str
    blocks: tuple[Block, ...]
    kit: tuple[Block, ...]

    @classmethod
    def open(cls, folder: str | Path, journal: str | Path | None = None) -> Annex:
        """Make it from the journal of a release; `folder` is the public folder, or the journal itself."""
        from discretion.release.plan import Plan

        place = Path(journal) if journal is not None else Path(folder)
        if not (place / "journal.json").is_file():
            place = place.with_name(f"{place.name}-private")
        if not (place / "journal.json").is_file():
            raise DataError(f"no journal of a release at {str(journal or folder)!r}; give --journal")
        try:
            content = json.loads((place / "journal.json").read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise DataError(f"journal.json: not valid JSON ({error})") from None
        plan = Plan.load(place / "plan.yaml")
        scores = [Score(**item["after"]) for item in content["scores"]]
        names = ("measure", "value", "better", "family", "meaning", "detail")
        required = [one for one in content["requirements"] if "measure" in one]
        scores += [Score(**{name: one[name] for name in names}) for one in required]
        criteria = criteria_of(score for score in scores if score.family == "risk")
        residual = residual_risk(criteria)
        title = plan.title or "Protected data"
        blocks = _annex(title, plan, content, scores, criteria, residual)
        return cls(title, criteria, residual, tuple(blocks), tuple(_kit(title, plan, content)))

    def to_dict(self) -> dict[str, Any]:
        """Give the answers as plain data."""
        return {
            "title": self.title,
            "criteria": [one.to_dict() for one in self.criteria],
            "residual_risk": self.residual,
        }

    def write(self, folder: str | Path) -> list[Path]:
        """Write annex and kit into a new folder that only the owner may read; give the files."""
        target = Path(folder)
        if target.exists():
            raise DataError(f"{str(folder)!r} exists; choose another folder")
        target.mkdir(parents=True)
        target.chmod(0o700)
        texts = {
            "annex.md": _markdown(self.blocks),
            "annex.html": _html(self.blocks, self.title),
            "intruder-test.md": _markdown(self.kit),
            "intruder-test.html": _html(self.kit, self.title),
            "intruder-form.csv": _csv(_FORM),
            "intruder-evaluation.csv": _csv(_SHEET),
        }
        for name, text in texts.items():
            (target / name).write_text(text, encoding="utf-8")
            (target / name).chmod(0o600)
        return [target / name for name in texts]


def _annex(
    title: str, plan: Plan, journal: Mapping[str, Any], scores: Sequence[Score], criteria: Sequence[Criterion],
    residual: str,
) -> list[Block]:  # fmt: skip
    output, roles = journal["output"], published_schema(plan)
    steps = [(next(k for k in step if k not in ("id", "reused")), step) for step in journal["steps"]]
    from discretion.part import find

    done = [(kind, getattr(find(kind), "guarantee", "") or find(kind).summary()) for kind, _ in steps]
    cards = attacker_cards(scores, earlier=bool(plan.previous))
    known = {field.name for field in fields(Together)}
    earlier = journal.get("previous", ())
    beside = [Together(**{key: value for key, value in one.items() if key in known}) for one in earlier]
    asked = [("holds" if one["holds"] else "does not hold", one["text"]) for one in journal["requirements"]]
    rows = [
        (one.name, one.question, "" if one.attack is None else title_of(one.attack.measure), one.finding, one.attacker)
        for one in criteria
    ]
    advice = plan.advice
    told = (
        f"{advice['by']}, {advice['on']}: {advice['text']}"
        if advice
        else "No advice is recorded in the plan (`advice: {by: …, on: …, text: …}`)."
    )
    waivers = [one.text for one in plan.waivers]
    return [
        ("h1", f"Annex to the impact assessment: {title}"),
        ("p", "Internal. It has figures that are withheld from the public report."),
        ("h2", "What is released"),
        ("ul", [
            f"{output['records']:,} records, file {Path(output['file']).name}, SHA-256 {output['sha256']}",
            f"columns others may know: {listed(roles.having('quasi', 'geography', 'stratum')) or 'none declared'}",
            f"columns nobody should learn: {listed(roles.having('sensitive')) or 'none declared'}",
            *(f"{kind}: {what}" for kind, what in done),
        ]),
        ("h2", "Singling out, linkability, inference"),
        ("p", "Each question is answered by the attack that was run and gains most over guessing."),
        ("table", (("criterion", "question", "attack", "found", "assumed attacker"), rows)),
        ("h2", "Means reasonably likely to be used"),
        ("p", "Who, with what knowledge, with which success; what was not tried says nothing about the risk."),
        ("table", (("attacker", "knows", "can", "right for", "guessing", "not tried"), [
            (card.attacker, card.knows, card.can, "–" if card.success is None else as_percent(card.success),
             "–" if card.chance is None else as_percent(card.chance),
             "; ".join(why if why == AVERAGED else name for name, why in card.not_tried.items()))
            for card in cards
        ])),
        ("h2", "Requirements"),
        *([("table", (("verdict", "requirement"), asked))] if asked else [("p", "None were set.")]),
        *([("ul", waivers)] if waivers else []),
        *([("h2", "Earlier releases of the same people"), ("ul", [one.explain() for one in beside])] if beside else []),
        ("h2", "Residual risk"),
        ("p", residual),
        ("h2", "Advice of the data protection officer"),
        ("p", told),
        ("h2", "Decision of the controller"),
        ("table", (("released / not released", "name and function", "day", "reasons"), [("", "", "", "")])),
    ]  # fmt: skip


def _kit(title: str, plan: Plan, journal: Mapping[str, Any]) -> list[Block]:
    roles = published_schema(plan)
    quasi, secret = roles.having("quasi", "geography", "stratum"), roles.having("sensitive")
    places = roles.having("geography")
    lists = [
        "lists of people with name and the columns above: electoral rolls, registers of professions and businesses, "
        "club and alumni pages, directories",
        "profiles in social networks and genealogical pages, searched by the columns above",
        "newspapers and obituaries for rare combinations (very old, large families, unusual jobs)",
    ]
    if places:
        lists.append(f"maps and registers of small places, for {listed(places)}")
    records = int(journal["output"]["records"])
    return [
        ("h1", f"Motivated-intruder test: {title}"),
        ("p", "The intruder starts without prior knowledge, wants to find somebody, is competent, and uses means that "
              "are open to everybody: the web, libraries, public registers, asking people who know. No break-in, no "
              "special equipment. Two to five testers, eight hours each, who did not make the release; they get the "
              "public folder and nothing else, and sign that they tell nobody what they find."),
        ("h2", "Tasks"),
        ("ul", [
            f"Find anybody: choose rows that look rare by {listed(quasi) or 'any column'} and look for the person.",
            f"Find somebody you know: take {listed(quasi) or 'what you know'} of ten people and look for their rows.",
            "Link a list: take an open list with at least a hundred people and match it with the rows, as a whole.",
            f"Learn a secret: say what {listed(secret) or 'another column'} is for a person whose row you claim, or "
            "for somebody whose row you cannot tell apart from a few others.",
            "Put releases together: look for other files about the same people, and for an earlier release.",
        ]),
        ("h2", "Lists to try"),
        ("ul", lists),
        ("h2", "Form"),
        ("p", "One line in intruder-form.csv for each claim, also for doubtful ones, with the evidence and how sure "
              "the tester is; the time spent, also without any claim, on a line of its own."),
        ("h2", "Evaluation"),
        ("ul", [
            "Somebody with access to the original and the journal (order.npy tells each row's place) fills "
            "intruder-evaluation.csv; testers are not told what was right.",
            f"Guessing a row is right once in {records:,}; a tester who is right clearly more often found somebody.",
            "With n claims of which none is right, the share of right ones is below 3/n with 95% confidence; with some "
            "right, use the interval of Wilson. A single claim that is right and was made with good evidence is a "
            "breach of the test, whatever the share.",
            "Record effort and sources for each right claim: they say what means are reasonably likely.",
        ]),
    ]  # fmt: skip


def _markdown(blocks: Sequence[Block]) -> str:

    lines: list[str] = []
    for kind, content in blocks:
        if kind in ("h1", "h2"):
            lines += [f"{'#' * int(kind[1])} {markdown_text(content)}", ""]
        elif kind == "p":
            lines += [markdown_text(content), ""]
        elif kind == "ul":
            lines += [*(f"- {markdown_text(one)}" for one in content), ""]
        else:
            heads, rows = content
            lines += [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
            lines += [f"| {' | '.join(markdown_text(str(cell)) for cell in row)} |" for row in rows]
            lines.append("")
    return "\n".join(lines)


def _html(blocks: Sequence[Block], title: str) -> str:
    from markupsafe import Markup

    from discretion.release.report.page import template

    parts = []
    for kind, content in blocks:
        if kind in ("h1", "h2", "p"):
            parts.append(f"<{kind}>{html.escape(content)}</{kind}>")
        elif kind == "ul":
            parts.append("<ul>" + "".join(f"<li>{html.escape(one)}</li>" for one in content) + "</ul>")
        else:
            heads, rows = content
            head = "".join(f'<th scope="col">{html.escape(one)}</th>' for one in heads)
            body = "".join(
                "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
            )
            parts.append(f'<table class="cards"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>')
    return template("annex.html").render(title=title, internal=True, body=Markup("\n".join(parts)))


def _csv(heads: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(heads)
    return text.getvalue()
