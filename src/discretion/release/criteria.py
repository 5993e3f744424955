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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discretion.errors import DataError
from discretion.measure import Score, as_percent
from discretion.release.combined import Together
from discretion.release.ranking import AVERAGED, RankedAttack, attacker_cards, attackers_by, rank_attacks
from discretion.release.report.wording import listed, of_people, title_of
from discretion.release.under_policy import published_schema

if TYPE_CHECKING:
    from discretion.release.plan import Plan
    from discretion.release.release import Release

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
    from discretion.release.codebook import markdown_text

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
