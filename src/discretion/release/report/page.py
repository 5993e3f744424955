"""The page: facts are gathered, pictures drawn, and one template sets them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from discretion.release.published import published_columns, to_look_at
from discretion.release.report.attackers import card_rows
from discretion.release.report.columns import columns_of
from discretion.release.report.exposure import details_of, exposed_of
from discretion.release.report.figures import figures_of
from discretion.release.report.range_bar import draw as draw_range
from discretion.release.report.requirements import requirements_of
from discretion.release.report.scores import ScoreRow, scores_of
from discretion.release.report.steps import steps_of
from discretion.release.report.summary import summary_of

if TYPE_CHECKING:
    from jinja2 import Template

    from discretion.release.release import Release

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
    risk = scores_of(release, "risk", internal=internal)
    utility = scores_of(release, "utility", internal=internal)
    scores = release.attacks()
    return {
        "internal": internal,
        "knows_method": release.plan.knows_method,
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


def _families(risk: tuple[ScoreRow, ...], utility: tuple[ScoreRow, ...]) -> list[dict[str, Any]]:
    from markupsafe import Markup

    named = (("risk", "Risk before and after", risk), ("utility", "Utility: what was lost", utility))
    return [
        {"key": key, "title": title, "rows": rows, "scored": [(row, Markup(draw_range(row))) for row in rows]}
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
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    from discretion import __version__

    def load(file: str) -> str:
        return resources.files(_HERE).joinpath(file).read_text(encoding="utf-8")

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=FunctionLoader(load),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {"style": Markup(load("style.css")), "software": f"discretion {__version__}"}
    return environment.get_template(name)
