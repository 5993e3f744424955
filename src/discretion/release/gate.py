"""The gate: what a plan must say, and the requirements a release must meet, before anything is published.

To publish is to write a release: `discretion run`, `Plan.run` and `Study.release` with a folder, `Release.write`. A
release that is only looked at in Python needs no requirements; its repr says that it has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.detect import is_lopsided, looks_like_person_number
from discretion.errors import DataError, PlanError
from discretion.measure import Measure, Score
from discretion.model import Verdict
from discretion.release.attack_set import run_with_holdout
from discretion.release.facts import one_digit
from discretion.release.plan import Plan, Requirement
from discretion.release.plan_columns import confirmed_faults, unknown_telling
from discretion.release.published import looks_telling, not_counted
from discretion.release.ranking import attackers_by
from discretion.release.under_policy import unkept
from discretion.risk.identity.intruder import knowing_method

_MOST_ADVISED = 3
_TRIED_AGAIN = 1_000_000
"""Records times columns, squared, up to which a linkage that finds too many is run again without each column.

Of more, people are drawn for it.
"""
_DRAWN_AGAIN = 1_000


def check_publishable(
    plan: Plan,
    original: Dataset,
    columns: Iterable[str] | None = None,
    *,
    made: bool,
    told: Iterable[Sequence[str]] = (),
) -> None:
    """Refuse to publish by a plan that leaves something unsaid; every fault at once.

    It has steps or says that it has none, requirements or says that it has none, and confirms each published column of
    the role `other` that looks like something others know, each that looks like numbers of people and has a role that
    publishes values, and each that tells what was protected in another one.
    `columns`: those that are published (otherwise all that no step takes out); `made`: the data went through steps, of
    the plan or of the release it is made from; `told`: see `told_by_others`.
    """
    if problems := unsaid(plan, original, columns, made=made, told=told):
        raise PlanError(problems)


def unsaid(
    plan: Plan,
    original: Dataset,
    columns: Iterable[str] | None = None,
    *,
    made: bool,
    told: Iterable[Sequence[str]] = (),
) -> list[str]:
    """Word what a plan leaves unsaid, and what it could say."""
    problems = []
    if not made and not plan.no_steps:
        problems.append(
            "`steps`: the plan has none, so that the original values would be published; `discretion roles DATA -o "
            "PLAN` proposes some. If that is meant, write `steps: none` (in Python `no_steps=True`)"
        )
    if not plan.requirements and not plan.no_requirements:
        problems.append(
            f"`requirements`: the plan has none, so that anything would be published; {_advice(plan, original)}. To "
            "publish without, write `requirements: none` (in Python `no_requirements=True`)"
        )
    if columns is None:
        gone = {name for step in plan.steps for name in step.method.removes(plan.schema)}
        columns = [name for name in original.columns if name not in gone]
    columns = list(columns)
    problems += confirmed_faults(plan, original.columns)
    problems += unknown_telling(plan, original.columns)
    open_ = [name for name in columns if name not in plan.confirmed_other]
    telling = looks_telling(original, open_, unnamed=True)
    for one in telling:
        has = "has the role `other`" if original.schema[one.column].has_role else "has no role"
        problems.append(f"column {one.column!r} {has} and looks like {one.role} ({one.reason}); give it that role")
    if telling:
        listed = _written([*plan.confirmed_other, *(one.column for one in telling)])
        problems.append(f"columns that may be published as they are: confirm them by `confirmed_other: {listed}`")
    problems += _person_numbers(plan, original, columns) + _unconfirmed(plan, told, columns)
    return problems + unkept(plan, original, columns)


def telling_pairs(score: Score) -> list[list[str]]:
    """Give the published columns that tell another one, with what they tell; dealt ones also with the correlation."""
    strong = [one for one in score.detail["carried"] if one["stops"]]
    return [
        *score.detail["told"],
        *([by, one["column"], f"{one['correlation']:.2f}"] for one in strong for by in one["by"]),
    ]


def told_by_others(original: Dataset, released: Dataset) -> list[list[str]]:
    """Give the published columns that tell another one, see `telling_pairs`; nothing where rows cannot be matched."""
    found = dependence(original, released)
    return [] if found is None else telling_pairs(found)


def dependence(original: Dataset, released: Dataset) -> Score | None:
    """Measure what published columns tell of others; None where rows cannot be matched.

    Identifiers do not count: they are not published. What was found is kept with the data.
    """
    from discretion.risk.attribute.column_dependence import ColumnDependence

    def look() -> Score | None:
        for data in (original, released):
            data.forget()
        try:
            hidden = released.having("identifier")
            left = released.drop(hidden) if hidden else released
            return ColumnDependence().run(original, left, Context(0, "telling"))
        except DataError:
            return None

    return released.cached((f"told of {id(original)}", released.columns), lambda: (original, look()))[1]


def _person_numbers(plan: Plan, original: Dataset, columns: Iterable[str]) -> list[str]:
    """Word which published columns look like numbers of people and have a role that publishes values."""
    open_ = [name for name in columns if name in original.columns and name not in plan.confirmed_telling]
    given = {name: original.schema[name].roles for name in open_ if original.schema[name].roles != ("other",)}
    asked = [name for name, roles in given.items() if not {"identifier", "unit", "household"} & {*roles}]
    found = {name: reason for name in asked if (reason := looks_like_person_number(original, name))}
    if not found:
        return []
    listed = _written([*plan.confirmed_telling, *found])
    return [
        f"column {name!r} has the role {', '.join(given[name])} and looks like numbers of people ({reason}); give it "
        "the role `unit`, or `identifier`"
        for name, reason in found.items()
    ] + [f"columns that hold no numbers of people: confirm them by `confirmed_telling: {listed}`"]


def _unconfirmed(plan: Plan, told: Iterable[Sequence[str]], columns: list[str]) -> list[str]:
    """Word which published columns tell what was protected in another one that goes out too, or was hidden."""
    pairs = [list(one) for one in told if one[0] not in plan.confirmed_telling]
    found = [one for one in pairs if len(one) == 2 and one[1] in columns]
    carried = [one for one in pairs if len(one) == 3 and one[:2] not in found]
    if not found and not carried:
        return []
    listed = _written([*plan.confirmed_telling, *dict.fromkeys(one[0] for one in (*found, *carried))])
    return [
        *(
            f"column {by!r} tells {name!r}, which was protected, of at least 90% of the people; protect or drop it too"
            for by, name in found
        ),
        *(
            f"column {by!r} was dealt out by a model and still tells {name!r}, which was hidden or given less detail "
            f"(correlation {correlation}); shuffle after `{name}` got less detail, take it off the predictors, or "
            f"drop {by!r} too"
            for by, name, correlation in carried
        ),
        f"columns that may go out although they tell another: confirm them by `confirmed_telling: {listed}`",
    ]


def _advice(plan: Plan, data: Dataset) -> str:
    """Name requirements that would make sense for the steps of the plan, and the roles and types of this data."""
    methods = [step.method for step in plan.steps]
    if any(method.private for method in methods):
        return "the promise of a private step needs none, and one that compares with the original tells about it"
    if any(method.makes_rows for method in methods):  # classes of rows that belong to nobody say nothing
        keys = [{"replicated-uniques": {"at_most": 0.1}}] if data.having("quasi") else []
        listed = _written([*keys, {"closest-record": {"at_most": 0.55}}])
        return f"for synthetic rows, for example, `requirements: {listed}`"
    sensitive = [name for name in data.having("sensitive") if data.type_of(name) != "set" and data.codes(name).size > 1]
    if data.having("quasi"):
        asked: list[dict[str, Any]] = [{"k-anonymity": {"k": 5}}]
        mixed = [name for name in sensitive if not is_lopsided(data, name)]
        asked += [{"distinct-l-diversity": {"l": 2, "sensitive": name}} for name in mixed[:_MOST_ADVISED]]
    elif numbers := [name for name in sensitive if data.is_quantity(name)]:
        asked = [{"distance-linkage": {"columns": numbers[:_MOST_ADVISED], "at_most": 0.05}}]
    else:
        return "give the columns that others may know about a person the role `quasi`, then require k-anonymity of them"
    return f"for this data, for example, `requirements: {_written(asked)}`"


def _written(content: Any) -> str:
    """Write a list as it stands in a plan, on one line."""
    import yaml

    return str(
        yaml.safe_dump(content, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**6)
    ).strip()


@dataclass(frozen=True)
class Finding:
    """A requirement, whether it holds, and the figure behind it."""

    requirement: Requirement
    holds: bool
    value: float
    result: Score | Verdict
    by: str = ""
    """what reached the value where it is not the measure as it was named: some of its columns, or the worst one; of a
    model, the published places, strata and weights that it does not count"""

    @property
    def kind(self) -> str:
        """The kind of the measure or model."""
        return self.requirement.part.kind

    @property
    def attacker(self) -> str:
        """Who is assumed to attack: of a model as it says itself, of a measure whom it plays."""
        if isinstance(self.result, Verdict):
            return self.result.attacker
        return "; ".join(f"{one.name}: knows {one.knows}" for one in attackers_by(self.kind)[:1])

    def explain(self) -> str:
        """Say what was required, what was reached and by how much it is missed (for the internal side)."""
        if isinstance(self.result, Verdict):
            verdict = self.result
            text = f"{self.kind}: reached {verdict.value:g}, required {verdict.required:g}"
            if not self.holds:
                text += f" (short by {abs(verdict.required - verdict.value):g}; {verdict.failing_count:,} classes"
                text += f" with {verdict.failing_records:,} records fail)"
            return text + (f"; {self.by}" if self.by else "")
        parts = []
        for name, bound, gap in (
            ("at most", self.requirement.at_most, self.value - (self.requirement.at_most or 0)),
            ("at least", self.requirement.at_least, (self.requirement.at_least or 0) - self.value),
        ):
            if bound is not None:
                parts.append(f"required {name} {bound:g}" + (f" (missed by {gap:.4g})" if gap > 0 else ""))
        by = f" ({self.by})" if self.by else _by_method(self.result)
        return f"{self.kind}: reached {self.value:.6g}{by}, {' and '.join(parts)}"

    def explain_publicly(self) -> str:
        """Say that the requirement holds, without the figures unless the plan publishes them."""
        if self.requirement.publish:
            return self.explain()
        return f"{self.kind}: {'holds' if self.holds else 'does not hold'}"

    def to_dict(self) -> dict[str, Any]:
        """Give the finding as plain data (for the internal side)."""
        return {
            "holds": self.holds,
            "text": self.explain(),
            "required": self.requirement.to_plan(),
            **self.result.to_dict(),
        }


def is_limited(findings: Iterable[Finding], kind: str, columns: Iterable[str], success: float) -> bool:
    """Tell whether a requirement limits an attack: one on the same kind that is told as much, or finds as many.

    Who knows fewer columns is a case of who knows them all, see `judge`; and where columns beside those required of
    find nobody more, the limit holds with them.
    """
    for one in findings:
        if one.kind == kind and one.requirement.at_most is not None and isinstance(one.result, Score):
            told = {*(getattr(one.requirement.part, "columns", ()) or ()), *one.result.detail.get("columns", ())}
            if set(columns) <= told or success <= max(one.value, one_digit(one.value)):
                return True
    return False


def remedies(finding: Finding, original: Dataset, released: Dataset, changed: Iterable[str]) -> str:
    """Say of a linkage that finds too many by which columns it does, what was not changed, and what would help.

    `changed`: the columns that steps changed. Where it takes little time the linkage is run again without each column.
    Of limits on detail, which columns break them.
    """
    if not finding.holds and finding.kind == "detail-limits" and isinstance(finding.result, Verdict):
        return _coarser(finding.result)
    if finding.holds or finding.kind not in LINKAGES or not isinstance(finding.result, Score):
        return ""
    columns = list(finding.result.detail.get("columns", ()))
    moved = set(changed)
    same = [name for name in columns if name not in moved]
    text = f"it links by {', '.join(columns)}"
    if same:
        text += f"; published as in the original: {', '.join(same)}"
    told = _most_telling(finding, columns, original, released)
    gone = [name for name, _ in told]
    if told:
        steps = (
            f"without {', '.join(gone[: place + 1])} it would reach {value:.4g}"
            for place, (_, value) in enumerate(told)
        )
        text += f"; {', '.join(steps)}"
    elif len(same or columns) == 1:
        gone = [(same or columns)[0]]
    if gone:
        helps = "; ".join(_helps(original, name) for name in gone)
    else:
        helps = (
            "Give one of them less detail (`recode`: numbers, `group-categories`: categories, `generalize`: what has a "
            "hierarchy), deal its values out anew (`shuffle`, `rank-swap`: what has an order, `pram`: categories)"
        )
    it = "it" if len(gone) < 2 else "them"
    more = "" if finding.requirement.by_policy else ", or allow more (`at_most`)"
    return f"{text}. {helps}{',' if more else ' or'} leave {it} out (`drop-identifiers` with `columns`){more}"


def _coarser(verdict: Verdict) -> str:
    """Name the columns of limits on detail that are broken, and what would help."""
    small = [(name, value) for one in verdict.failing for name, value in one.key.items()]
    fine = list(dict.fromkeys(name for name, value in small if value is not None))
    gone = list(dict.fromkeys(name for name, value in small if value is None))
    said = []
    if fine:
        said.append(
            f"too fine: {', '.join(fine)}; put rare values together (`group-categories`, `recode`, `generalize`)"
        )
    if gone:
        said.append(
            f"few records have no value in {', '.join(gone)}: make columns coarser, so that nothing is suppressed, "
            "or leave those records out (`suppress-records`)"
        )
    return "; ".join(said)


def _helps(original: Dataset, name: str) -> str:
    """Name the methods that can take a column of its type."""
    from discretion.protect.ordered import category_order

    coarser = "`generalize`"
    if original.schema[name].hierarchy is None:
        coarser += " after writing a hierarchy of it under `hierarchies`"
    if original.type_of(name) == "set":
        return f"Give {name} less detail (`km-generalization`)"
    if original.is_quantity(name) and not original.is_category(name):
        detail, anew = f"`recode`, `round`, {coarser}", "`shuffle`, `rank-swap`"
    elif category_order(original, name):
        detail, anew = f"`group-categories`, {coarser}", "`shuffle`, `rank-swap`, `pram`"
    elif original.frame.schema[name].is_temporal():
        detail, anew = coarser, "`shuffle`, `rank-swap`"
    else:
        detail, anew = f"`group-categories`, {coarser}", "`pram`"
    return f"Give {name} less detail ({detail}), deal its values out anew ({anew})"


def _most_telling(
    finding: Finding, columns: list[str], original: Dataset, released: Dataset
) -> list[tuple[str, float]]:
    """Return the column without which a linkage finds least, with how many that is, then the next without it too.

    Until what is required would hold, or none is left without which it finds less.
    """
    part: Any = finding.requirement.part
    if part.intruder.columns:
        return []
    drawn = len(released) * len(columns) ** 2 > _TRIED_AGAIN and "sample" in type(part).model_fields
    if len(released) * len(columns) ** 2 > _TRIED_AGAIN and not drawn:
        return []
    enough, left, told = finding.requirement.at_most or 0.0, list(columns), list[tuple[str, float]]()
    while len(left) > 1 and len(told) < _MOST_ADVISED and (not told or told[-1][1] > enough):
        found = {}
        for name in left:
            fields: dict[str, Any] = {"columns": tuple(other for other in left if other != name)}
            fields |= {"sample": _DRAWN_AGAIN} if drawn else {}
            try:
                found[name] = part.model_copy(update=fields).run(original, released, Context(0)).value
            except DataError:
                continue
        least = min(found, key=lambda name: found[name], default=None)
        if least is None or found[least] >= (told[-1][1] if told else finding.value):
            break
        told.append((least, found[least]))
        left.remove(least)
    return told


def _by_method(score: Score) -> str:
    """Say where the figure is that of an intruder who knows the method, and what it is without."""
    plain, informed = score.detail.get("plain"), score.detail.get("informed")
    if plain is None or informed is None or informed <= plain:
        return ""
    return f" by an intruder who knows the method ({plain:.6g} without)"


def judge(
    requirement: Requirement, original: Dataset, released: Dataset, ctx: Context, *, knows_method: bool = True
) -> Finding:
    """Measure a release against one requirement; of what one attacker can try, the most successful counts.

    The method known or not: see the measure. More knowledge can give a linkage a lower figure, because columns that
    tell little blur those that tell much: who knows quasi-identifiers and sensitive columns can also link by either
    alone, so that a limit holds for all three. An interval measure that names no columns must keep its limit in each.
    """
    part = requirement.part if knows_method else knowing_method(requirement.part, False)
    # the draws of a measure that is shown, so that the same measure reaches the same figure here and there
    inner = ctx.within(f"{'measure' if isinstance(part, Measure) else 'require'}/{part.kind}")
    if isinstance(part, Measure):
        part = part.on_files(released)
        score, by = run_with_holdout(part, original, released, inner), ""
        if part.kind in LINKAGES and requirement.at_most is not None:
            for columns in _fewer(part, score, original):
                other = part.model_copy(update={"columns": columns}).run(original, released, inner)
                if other.value > score.value:
                    score, by = other, f"linking by {', '.join(columns)} alone"
        value, worst = score.value, score.detail.get("worst")
        if isinstance(worst, float) and worst > value and not getattr(part, "columns", ()):
            value, by = worst, f"in the worst column, {score.detail['worst_column']}; {score.value:.6g} over all"
        drawn = score.detail.get("interval") if getattr(part, "sample", 0) else None
        if drawn and requirement.at_most is not None and drawn[1] > value:
            value, by = float(drawn[1]), f"at most, by a sample; {score.value:.6g} in it"
        low = requirement.at_least is None or value >= requirement.at_least
        high = requirement.at_most is None or value <= requirement.at_most
        if high and requirement.at_most is not None and score.detail.get("matched", True) is None:
            high, by = False, _NOT_TRIED  # an attack that cannot run is no safety
            by += ", or leave `sample` out" if getattr(part, "sample", 0) else ""
        return Finding(requirement, low and high, value, score, by)
    verdict = part.run(released, inner, original=original)
    beside = not_counted(released, verdict.detail.get("columns", released.having("quasi")))
    told = f"not counted, although published: {', '.join(beside)}" if beside and released.having("quasi") else ""
    return Finding(requirement, verdict.holds, verdict.value, verdict, told)


_NOT_TRIED = (
    "not tried, because it takes too long: putting together what swapping by rank tells of everybody; deal values out "
    "by `shuffle` or `block-rank-swap` instead, or make columns coarser"
)
LINKAGES = ("distance-linkage", "probabilistic-linkage", "assignment-linkage")


def _fewer(part: Any, score: Score, original: Dataset) -> list[tuple[str, ...]]:
    """Give the columns of a linkage by role, where it has both quasi-identifiers and others."""
    used = tuple(name for name in score.detail.get("columns", ()) if name in original.columns)
    quasi = tuple(name for name in used if name in original.having("quasi"))
    others = tuple(name for name in used if name not in quasi)
    return [quasi, others] if quasi and others and not part.intruder.columns else []
