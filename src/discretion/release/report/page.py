"""The page: facts are gathered, pictures drawn, and one template sets them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.data.write import write_text
from discretion.errors import DataError
from discretion.measure import Score
from discretion.model import FailingClass, Verdict
from discretion.part import Family, find
from discretion.release.facts import smallest_class
from discretion.release.published import PublishedColumn, published_columns, to_look_at
from discretion.release.ranking import (
    AttackerCard,
    RankedAttack,
    attacker_cards,
    best_attack,
    is_share,
    notes_of,
    rank_attacks,
)
from discretion.release.report import svg
from discretion.release.report.attack_lines import NARROW, WIDTH, Line
from discretion.release.report.attack_lines import draw as draw_lines
from discretion.release.report.charts import draw_record_risk, record_risk_of
from discretion.release.report.figures import figures_of
from discretion.release.report.summary import ScoreRange, ScoreRow, scores_of, summary_of
from discretion.release.report.wording import (
    NOTHING,
    ShownSetting,
    caveats,
    count,
    counted,
    figure,
    number,
    percent,
    settings_of,
    title_of,
)

if TYPE_CHECKING:
    from jinja2 import Template

    from discretion.part import Family
    from discretion.release.gate import Finding
    from discretion.release.release import Measured, Release


def card_rows(cards: Sequence[AttackerCard], *, figures: bool = True) -> list[dict[str, str]]:
    """Word the attackers for a page; without `figures`, only who was considered and whether anything was tried."""
    rows = []
    for card in cards:
        by = "" if card.measure is None else f" by {title_of(card.measure)}"
        doubt = " (takes perturbed values as true)" if card.doubtful else ""
        between = "" if card.low is None else f"{percent(card.low)} to {percent(card.high)}"
        done = "not tried" if not card.tried else f"tried: {', '.join(title_of(kind) for kind in card.tried)}"
        rows.append(
            {
                "attacker": card.attacker,
                "knows": card.knows,
                "can": f"{card.can}{by}{doubt}" if figures else done,
                "success": percent(card.success) if figures else "",
                "interval": between if figures else "",
                "chance": percent(card.chance) if figures else "",
                "not_tried": "; ".join(f"{kind} ({why})" for kind, why in card.not_tried.items()) if figures else "",
            }
        )
    return rows


# What was done: each step in words, with its guarantee and settings.


@dataclass(frozen=True)
class StepRow:
    """One step of the release."""

    number: int
    title: str
    kind: str
    what: str
    guarantee: str
    untrue: bool
    """whether values were published that are not the true ones"""
    settings: tuple[ShownSetting, ...]
    caveats: tuple[str, ...]


def steps_of(release: Release, *, internal: bool) -> tuple[StepRow, ...]:
    """Describe the steps in their order."""
    rows = []
    for position, done in enumerate(release.study.done, start=1):
        method = done.step.method
        rows.append(
            StepRow(
                number=position,
                title=title_of(method.kind),
                kind=method.kind,
                what=method.summary(),
                guarantee=method.guarantee,
                untrue=method.perturbs,
                settings=settings_of(method, internal=internal, publish=done.step.publish),
                caveats=caveats(type(method)),
            )
        )
    return tuple(rows)


# The requirements and whether they hold.

_CLASSES_SHOWN = 20


@dataclass(frozen=True)
class ClassRow:
    """A failing class: the values it is known by, and its size. For the internal version only."""

    key: str
    size: str


@dataclass(frozen=True)
class RequirementRow:
    """One requirement, its verdict and the words for it."""

    title: str
    kind: str
    holds: bool
    what: str
    text: str
    withheld: bool
    meaning: str
    settings: tuple[ShownSetting, ...]
    caveats: tuple[str, ...]
    attacker: str = ""
    """who is assumed to attack, where the requirement is a privacy model"""
    classes: tuple[ClassRow, ...] = ()
    classes_left_out: str = ""


def requirements_of(release: Release, *, internal: bool) -> tuple[RequirementRow, ...]:
    """Describe the requirements in the order of the plan."""
    return tuple(_row(release, finding, internal) for finding in release.findings)


def _row(release: Release, finding: Finding, internal: bool) -> RequirementRow:
    part, publish = finding.requirement.part, finding.requirement.publish
    text = finding.explain() if internal else finding.explain_publicly()
    classes, left_out = _failing(finding) if internal else ((), "")
    return RequirementRow(
        title=title_of(part.kind),
        kind=part.kind,
        holds=finding.holds,
        what=part.summary(),
        text=_sentence(text, finding.kind),
        withheld=not (internal or publish),
        meaning=finding.result.meaning if internal else _counted(release, finding),
        settings=settings_of(part, internal=internal, publish=publish),
        caveats=caveats(type(part)),
        attacker=finding.attacker,
        classes=classes,
        classes_left_out=left_out,
    )


def _counted(release: Release, finding: Finding) -> str:
    """Say how small the smallest class is: k itself is no secret where anybody can count it in the published file."""
    found = (
        smallest_class(release, getattr(finding.requirement.part, "columns", ()))
        if finding.kind == "k-anonymity"
        else None
    )
    if found is None:
        return ""
    return (
        f"In the file every combination of values occurs at least {counted(found.size, 'time')}: anybody can count it."
    )


def _sentence(text: str, kind: str) -> str:
    text = text.removeprefix(f"{kind}: ")
    return text[:1].upper() + text[1:] + "."


def _failing(finding: Finding) -> tuple[tuple[ClassRow, ...], str]:
    if not isinstance(finding.result, Verdict) or finding.holds:
        return (), ""
    failing = finding.result.failing[:_CLASSES_SHOWN]
    more = finding.result.failing_count - len(failing)
    return tuple(_class_row(item) for item in failing), count(more) if more > 0 and failing else ""


def _class_row(item: FailingClass) -> ClassRow:
    key = ", ".join(f"{name} = {NOTHING if value is None else value}" for name, value in item.key.items())
    return ClassRow(key, number(item.size))


# A score before and after, as two bars within the range of its measure.

_WIDTH, _HEIGHT, _LEFT = 190, 58, 46
_RIGHT = 8


def draw(row: ScoreRow) -> str:
    """Draw the bars, a mark at the chance level, and the ends of the range; nothing where the range is open."""
    if row.range is None:
        return ""
    where = row.range
    across = svg.ChartAxis(0.0, 1.0, _LEFT, _WIDTH - _RIGHT)
    rows = [("before", where.before, svg.ORIGINAL), ("after", where.after, svg.RELEASED)]
    body = []
    for place, (label, share, color) in enumerate(rows):
        y = 4.0 + place * 18
        body.append(svg.text(_LEFT - 6, y + 10, label, text_anchor="end", font_size=10, fill=svg.MUTED))
        body.append(svg.rect(_LEFT, y, across(1.0) - _LEFT, 12, "#eef2f5"))
        if share is None:
            body.append(svg.text(_LEFT + 4, y + 10, "not defined", font_size=10, fill=svg.MUTED))
        else:
            body.append(svg.rect(_LEFT, y, across(share) - _LEFT, 12, color))
    if where.chance is not None:
        x = across(where.chance)
        body.append(svg.line(x, 0, x, 37, svg.CHANCE, stroke_width=1.5, stroke_dasharray="3 2"))
    body.append(svg.text(_LEFT, 52, where.low, font_size=10, fill=svg.MUTED))
    body.append(svg.text(across(1.0), 52, where.high, text_anchor="end", font_size=10, fill=svg.MUTED))
    return svg.picture(_WIDTH, _HEIGHT, f"{row.title}: before and after", _describe(row, where), body, kind="bar")


def _describe(row: ScoreRow, where: ScoreRange) -> str:
    chance = f", chance level {row.chance}" if where.chance is not None else ""
    return f"Before {row.before}, after {row.after}{chance}; possible from {where.low} to {where.high}."


# Details for the internal version: score details as tables, and the most exposed rows by number, never by value.

MOST_ROWS = 20
_MOST_ENTRIES = 60


@dataclass(frozen=True)
class Detail:
    """The details of one score as name and value."""

    title: str
    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Exposed:
    """The rows with the largest risk by one measure."""

    title: str
    rows: tuple[tuple[str, str, str], ...]
    """row in the original, row in the release, figure"""
    ties: str
    """how many records share the largest figure"""


def details_of(release: Release) -> tuple[Detail, ...]:
    """Flatten the details of every score."""
    found = []
    for item in release.measured:
        entries = [entry for key, value in item.after.detail.items() for entry in _flat(str(key), value)]
        if entries:
            found.append(Detail(title_of(item.measure.kind), tuple(entries[:_MOST_ENTRIES])))
    return tuple(found)


def _flat(key: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, Mapping):
        return [entry for inner, item in value.items() for entry in _flat(f"{key} · {inner}", item)]
    return [(key, _text(value))]


def _text(value: Any) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    if isinstance(value, float):
        return number(value, 4)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        shown = ", ".join(_text(item) for item in value[:MOST_ROWS])
        return shown + (f", … ({count(len(value))} in all)" if len(value) > MOST_ROWS else "")
    return str(value)


def exposed_of(release: Release) -> tuple[Exposed, ...]:
    """List the rows with the largest figure of each risk measure that has one per record."""
    found = (_exposed(item, release) for item in release.measured if item.measure.family == "risk")
    return tuple(item for item in found if item is not None)


def _exposed(item: Measured, release: Release) -> Exposed | None:
    per_record = item.after.per_record
    if per_record is None or len(per_record) != len(release.data) or not len(per_record) or release.data.has_new_rows:
        return None
    risk = np.nan_to_num(np.asarray(per_record, dtype=float))
    worst = np.argsort(-risk, kind="stable")[:MOST_ROWS]
    worst = worst[risk[worst] > 0]
    if not len(worst):
        return None
    origin = release.data.row_ids
    rows = tuple((count(int(origin[row]) + 1), count(int(row) + 1), number(float(risk[row]))) for row in worst)
    return Exposed(title_of(item.measure.kind), rows, count(int((risk == risk.max()).sum())))


# The columns: role, type, whether published, what was done to each.

_ROLES = {
    "identifier": "identifier",
    "quasi": "quasi-identifier",
    "sensitive": "sensitive",
    "weight": "weight",
    "household": "household",
    "unit": "unit (person or business with several records)",
    "stratum": "stratum",
    "geography": "geography",
    "other": "other",
}

_TYPES = {"continuous": "number", "ordinal": "ordered category", "nominal": "category", "set": "set", "date": "date"}


@dataclass(frozen=True)
class ColumnRow:
    """One column of the original."""

    name: str
    label: str
    roles: str
    type: str
    published: bool
    steps: tuple[tuple[int, str], ...]
    """number and title of the steps that changed it"""
    level: str
    suppressed: str


def columns_of(release: Release) -> tuple[ColumnRow, ...]:
    """Describe every column of the original."""
    original, data = release.study.original, release.data
    suppressed = release.suppressed_cells
    rows = []
    for name in original.columns:
        column = original.schema[name]
        touched = [
            (number, title_of(done.step.method.kind))
            for number, (done, names) in enumerate(zip(release.study.done, release.changes, strict=True), start=1)
            if name in names
        ]
        rows.append(
            ColumnRow(
                name=name,
                label=column.label,
                roles=", ".join(_ROLES.get(role, role) for role in column.roles)
                + (" (confirmed)" if name in release.plan.confirmed_other else ""),
                type=_TYPES.get(original.type_of(name), ""),
                published=name in data.columns,
                steps=tuple(touched),
                level=_level(release, name),
                suppressed=count(suppressed.get(name, 0)),
            )
        )
    return tuple(rows)


def _level(release: Release, name: str) -> str:
    steps = [done.step.method for done in release.study.done]
    for kind in [getattr(method, "summarize", {}).get(name) for method in steps]:
        if kind is not None and name in release.data.columns:
            return f"{kind} of its class"
    level = release.data.levels.get(name) if name in release.data.columns else None
    if level is None:
        return ""
    if not isinstance(level, int):
        return "level differs by record"
    try:
        return f"level {level} of {release.data.hierarchy(name).height}"
    except DataError:
        return f"level {level}"


_HERE = "discretion.release.report"


def render(release: Release, *, internal: bool) -> str:
    """Give the report as one HTML file that needs nothing else.

    The public version withholds confidential settings, the numbers of requirements and the figures that would give
    them away, and draws nothing that stands for fewer than ten original records. The internal version shows everything,
    with failing classes and the most exposed rows, and says on every page that it is not for publication.
    """
    return template("template.html").render(**content_of(release, internal=internal))


def content_of(release: Release, *, internal: bool) -> dict[str, Any]:
    """Gather what the template needs."""
    from discretion.release.criteria import criteria_of_release, residual_risk

    release = release if internal else release.for_public()
    risk = scores_of(release, "risk", internal=internal)
    utility = scores_of(release, "utility", internal=internal)
    scores = release.attacks()
    criteria = criteria_of_release(release, internal=internal)
    return {
        "internal": internal,
        "knows_method": release.plan.knows_method,
        "criteria": criteria,
        "residual": residual_risk(criteria),
        "advice": release.plan.advice if internal else {},
        "cards": card_rows(release.attackers(), figures=internal),
        "judged": to_look_at(published_columns(release.data, scores, release.plan.confirmed_other)) if internal else (),
        "summary": summary_of(release, risk, utility, internal=internal),
        "requirements": requirements_of(release, internal=internal),
        "steps": steps_of(release, internal=internal),
        "columns": columns_of(release),
        "families": _families(risk, utility),
        "groups": _marked(release, internal),
        "lost_records": release.data.lost_records,
        "details": details_of(release) if internal else (),
        "exposed": exposed_of(release) if internal else (),
    }


@dataclass(frozen=True)
class Report:
    """What was done to data, and what came of it: text when printed, a page in a notebook, `write` for a file.

    It is internal: it names figures and the most exposed rows, which a public report withholds.
    """

    release: Release

    def __str__(self) -> str:
        """Give the steps, the columns, what attacks reach before and after, and what was lost, as text."""
        data, original = self.release.data, self.release.study.original
        left = [name for name in original.columns if name not in data.columns]
        lines = [
            "Internal report, not for publication",
            f"{len(original):,} records, now {len(data):,}; {len(data.columns)} of {len(original.columns)} columns"
            + (f", without {', '.join(left)}" if left else ""),
            "",
            "Steps" if self.release.study.done else "No step so far",
        ]
        for place, done in enumerate(self.release.study.done, start=1):
            given = ", ".join(f"{name}: {value}" for name, value in done.step.method.settings().items())
            method = done.step.method
            lines.append(f"  {place}. {method.kind}" + (f" ({given})" if given else "") + f": {method.summary()}")
        changed = [row for row in columns_of(self.release) if row.published and row.steps]
        lines += ["", "Columns", *(f"  {_changes(row)}" for row in changed)] if changed else []
        titles: dict[Family, str] = {"risk": "Risk (what attacks reach)", "utility": "Utility (what was lost)"}
        for family, title in titles.items():
            rows = scores_of(self.release, family, internal=True)
            lines += ["", title, *(f"  {_figures(row)}" for row in rows)] if rows else []
        lines += [f"  {kind}: not run, {reason}" for kind, reason in self.release.not_run.items()]
        if self.release.findings:
            lines += ["", "Requirements"]
            lines += [f"  {one.kind}: {'holds' if one.holds else 'does not hold'}" for one in self.release.findings]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from html import escape

        page = render(self.release, internal=True)
        return f'<iframe srcdoc="{escape(page)}" style="width: 100%; height: 40em; border: 0"></iframe>'

    def write(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the page (`.html`) or the text (any other ending), readable by its owner only; give the path."""
        target = Path(path)
        text = render(self.release, internal=True) if target.suffix in (".html", ".htm") else f"{self}\n"
        write_text(target, text, overwrite=overwrite, private=True)
        return target


def _changes(row: ColumnRow) -> str:
    """Say what happened to a column."""
    lost = f", {row.suppressed} values suppressed" if row.suppressed not in ("", "0") else ""
    return f"{row.name}: {', '.join(title for _, title in row.steps)}{f', {row.level}' if row.level else ''}{lost}"


def _figures(row: ScoreRow) -> str:
    """Give a measure before and after, with what guessing reaches."""
    before = f"{row.before} before, " if row.before not in ("", NOTHING) else ""
    chance = f", {row.chance} by guessing" if row.chance not in ("", NOTHING) else ""
    return f"{row.kind}: {before}{row.after} now{chance}; {row.better} is better. {row.meaning}"


def _families(risk: tuple[ScoreRow, ...], utility: tuple[ScoreRow, ...]) -> list[dict[str, Any]]:
    from markupsafe import Markup

    named = (("risk", "Risk before and after", risk), ("utility", "Utility: what was lost", utility))
    return [
        {"key": key, "title": title, "rows": rows, "scored": [(row, Markup(draw(row))) for row in rows]}
        for key, title, rows in named
    ]


def _marked(release: Release, internal: bool) -> list[Any]:
    from markupsafe import Markup

    return [
        replace(group, figures=tuple(replace(one, svg=Markup(one.svg)) for one in group.figures))
        for group in figures_of(release, internal=internal)
    ]


@cache
def template(name: str) -> Template:
    """Load a page of the report, with the style sheet that all pages share."""
    from jinja2 import Environment, FileSystemBytecodeCache, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    from discretion import __version__
    from discretion.kernels.jit import cache_folder

    def load(file: str) -> str:
        return resources.files(_HERE).joinpath(file).read_text(encoding="utf-8")

    folder = cache_folder()
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=FunctionLoader(load),
        bytecode_cache=None if folder is None else FileSystemBytecodeCache(str(folder)),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {"style": Markup(load("style.css")), "software": f"discretion {__version__}"}
    return environment.get_template(name)


def assessment_page(
    scores: Sequence[Score],
    failed: Sequence[Mapping[str, str]],
    title: str,
    columns: Sequence[PublishedColumn] = (),
    left: Mapping[str, str] | None = None,
    cards: Sequence[AttackerCard] = (),
) -> str:
    """Give the assessment as one HTML file that needs nothing else; rows are counted, never shown.

    `failed` could not be run, `left` was not chosen, each with its reason. `cards`: those of the assessment;
    without them, what the scores say.
    """
    from markupsafe import Markup

    ranked = rank_attacks(scores)
    not_run = {**(left or {}), **{item["measure"]: item["reason"] for item in failed}}
    return template("assessment.html").render(
        internal=True,
        title=title,
        best=best_attack(ranked, not_run),
        cards=card_rows(tuple(cards) or attacker_cards(scores, not_run)),
        columns=to_look_at(columns),
        picture=[Markup(attack_picture(ranked, width)) for width in (WIDTH, NARROW)] if ranked else [],
        ranked=[_attack(attack) for attack in ranked],
        before=any(attack.unprotected is not None for attack in ranked),
        families=[
            {"key": "risk", "title": "Risks that are not shares of people", "rows": _rows(scores, "risk")},
            {"key": "utility", "title": "Utility: what was lost", "rows": _rows(scores, "utility")},
        ],
        failed=failed,
        pictures=_pictures(scores),
    )


def attack_picture(ranked: Sequence[RankedAttack], width: int) -> str:
    """Draw every attack as a line from guessing to success, before (where it was run) and after, ranked."""
    before = any(attack.unprotected is not None for attack in ranked)
    lines = [
        Line(
            _name(attack.measure, attack.note),
            attack.aim + (" (takes perturbed values as true)" if attack.doubtful else ""),
            (attack.unprotected_chance, attack.chance) if before else (attack.chance,),
            (attack.unprotected, attack.success) if before else (attack.success,),
            attack.doubtful,
        )
        for attack in ranked
    ]
    names = ("before: the original", "after: the release") if before else ("the release",)
    return draw_lines(lines, names, "Every attack, from guessing to success", original=before, width=width)


def _name(measure: str, note: str) -> str:
    return title_of(measure) + (f" ({note})" if note else "")


def _attack(attack: RankedAttack) -> dict[str, str]:
    return {
        "title": _name(attack.measure, attack.note),
        "aim": attack.aim,
        "before": percent(attack.unprotected),
        "success": percent(attack.success),
        "chance": percent(attack.chance),
        "gain": percent(attack.gain),
        "meaning": attack.meaning,
    }


def _rows(scores: Sequence[Score], family: Family) -> list[dict[str, str]]:
    return [
        {
            "title": title_of(score.measure),
            "value": figure(score.value, getattr(find(score.measure), "limits", (None, None))),
            "better": score.better,
            "meaning": score.meaning,
        }
        for score in scores
        if score.family == family and not (family == "risk" and is_share(score))
    ]


def _pictures(scores: Sequence[Score]) -> list[tuple[str, Any]]:
    from markupsafe import Markup

    drawn = {}
    for score, note in zip(scores, notes_of(scores), strict=True):
        risk = record_risk_of(score)
        if risk is not None:
            drawn[_name(score.measure, note), risk] = Markup(draw_record_risk(risk))
    return [(title, picture) for (title, _), picture in drawn.items()]
