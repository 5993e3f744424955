"""Plans under a policy: its requirements become theirs, and what is weaker needs a waiver."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from discretion.data.documents import Document
from discretion.data.schema import Schema
from discretion.errors import PlanError
from discretion.measure import Measure
from discretion.model import PrivacyModel
from discretion.part import Part
from discretion.policy.policy import SAFEGUARDS, Demand, Policy, Rows, Waiver, narrower, same_subject, shortfall

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset
    from discretion.release.plan import Plan, Requirement, Shown, Step
    from discretion.release.table_plan import TablePlan

_TELLING = ("identifier", "unit", "quasi", "household", "geography")
"""Roles of what others know about a person."""
_INSTEAD: Mapping[str, str] = {
    "steps": "give the plan steps",
    "row-order": "leave `order: keep` out",
    "known-method": "leave `knows_method: false` out",
    "confirmed-other": "give the columns the role that they look like, or drop them",
    "confirmed-telling": "protect the columns as well, or drop them",
    "roles": "drop the columns, or let models count them as well",
    "previous": "name every earlier release by its journal, and nothing as `accepted`",
    "withheld-parameters": "leave `publish: true` out",
    "small-seed": "leave `demo: true` out and draw a seed",
    "marks": "leave the marks out",
    "audit": "leave the options of the audit out",
}
"""What keeps each safeguard."""
_BY_COLUMN = ("roles", "confirmed-other", "confirmed-telling")


def read_policy(text: Document, base: Any, fault: Callable[[tuple[str | int, ...], str], None]) -> Policy | None:
    """Read the policy that a plan names; its faults are those of the plan."""
    given = text.content.get("policy")
    if given is None:
        return None
    if not isinstance(given, str):
        fault(("policy",), f"expected the name of a shipped policy ({', '.join(Policy.shipped)}), or a file")
        return None
    try:
        return Policy.load(given, base)
    except PlanError as error:
        for problem in error.problems:
            fault(("policy",), problem)
        return None


def read_waivers(
    text: Document, policy: Policy | None, fault: Callable[[tuple[str | int, ...], str], None]
) -> tuple[Waiver, ...]:
    """Read the waivers of a plan; one without a name, or by somebody who may not, is a fault."""
    given = text.content.get("waivers")
    if given is None:
        return ()
    if not isinstance(given, list) or not all(isinstance(one, Mapping) for one in given):
        fault(("waivers",), "expected a list of `{requirement: …, by: NAME, FUNCTION, why: …}`")
        return ()
    if text.content.get("policy") is None:
        fault(("waivers",), "the plan names no policy, so that there is nothing to waive")
    found = []
    for number, one in enumerate(given):
        try:
            waiver = Waiver(**{str(key): value for key, value in one.items()})
        except PlanError as error:
            for problem in error.problems:
                fault(("waivers", number), problem.removeprefix("Waiver: "))
            continue
        if policy is not None and (refused := refused_waiver(policy, waiver)):
            fault(("waivers", number), refused)
        found.append(waiver)
    return tuple(found)


def refused_waiver(policy: Policy, waiver: Waiver) -> str:
    """Say why a waiver does not count under a policy; empty where it does."""
    if waiver.columns and waiver.requirement not in _BY_COLUMN:
        return f"`columns` can be given for {', '.join(_BY_COLUMN)}; {waiver.requirement} is waived as a whole or not"
    return policy.refuses(waiver)


def require_waivers(policy: Policy | None, waivers: Iterable[Waiver]) -> None:
    """Refuse waivers that do not count."""
    if policy is None and any(True for _ in waivers):
        raise PlanError("waivers: the plan names no policy, so that there is nothing to waive")
    if policy is not None and (faults := [text for one in waivers if (text := refused_waiver(policy, one))]):
        raise PlanError(faults)


def published_schema(plan: Plan) -> Schema:
    """Give the roles of the columns that no step takes out."""
    gone = {name for step in _every_step(plan) for name in step.method.removes(plan.schema)}
    return plan.schema.only(name for name in plan.schema.columns if name not in gone)


def _every_step(plan: Plan) -> tuple[Step, ...]:
    """Give the steps of a plan, after those of the release that it starts from."""
    from discretion.release.earlier import Earlier

    return (*Earlier.open(plan.made_from).steps, *plan.steps) if plan.made_from else plan.steps


def rows_of(plan: Plan) -> Rows:
    """Tell whether a plan publishes records of people or synthetic ones."""
    return "synthetic" if any(step.method.makes_rows for step in _every_step(plan)) else "records"


def demanded(plan: Plan) -> tuple[Requirement, ...]:
    """Give the requirements of a plan with those of its policy; one that is weaker than there raises."""
    from discretion.release.plan import Requirement

    assert plan.policy is not None
    schema = published_schema(plan)
    faults: list[str] = []
    used: list[Requirement] = []
    for name, demands in _demands(plan, schema).items():
        for demand in demands:
            own = [one for one in plan.requirements if same_subject(one, demand)]
            kept = [one for one in own if not shortfall(one, demand, schema)]
            if kept:
                used += [one for one in kept if one.by_policy]
            elif any(one.requirement == name for one in plan.waivers):
                continue
            elif own and (named := _sensitive_of(own, demand, schema)) is not None:
                part = cast("Measure | PrivacyModel", demand.part)
                if not {*schema.having("sensitive")} <= named:  # what the plan asks of some columns stands beside it
                    used.append(Requirement(part, demand.at_most, demand.at_least, by_policy=plan.policy.name))
            elif stated := [one for one in own if not one.by_policy]:
                faults += [_weaker(plan.policy, name, one, demand, schema) for one in stated]
            else:
                part = cast("Measure | PrivacyModel", demand.part)
                used.append(Requirement(part, demand.at_most, demand.at_least, by_policy=plan.policy.name))
    if not any(one.demand.part.family != "rule" for one in plan.policy.requirements):
        faults.append(f"the policy {plan.policy.name!r} requires nothing of files; it is for {plan.policy.scenario}")
    if faults:
        raise PlanError(faults)
    return (*(one for one in plan.requirements if not one.by_policy), *used)


def _sensitive_of(own: Sequence[Requirement], demand: Demand, schema: Schema) -> set[str] | None:
    """Give the sensitive columns of which lines of a plan ask as much as a demand; None where a line is weaker."""
    named = [narrower(one, demand, schema) for one in own if not one.by_policy]
    return {name for names in named for name in names} if named and all(named) else None


def _demands(plan: Plan, schema: Schema) -> dict[str, list[Demand]]:
    assert plan.policy is not None
    return plan.policy.demands(schema, rows_of(plan))


def _weaker(policy: Policy, name: str, own: Requirement, demand: Demand, schema: Schema) -> str:
    where = f"{own.origin.where()}: " if own.origin is not None else ""
    return (
        f"{where}{own.part.kind} is weaker than the policy {policy.name!r} demands: "
        f"{'; '.join(shortfall(own, demand, schema))}. Leave it out (the policy requires it anyway)"
        f"{_waiving(policy, name)}"
    )


def waived(plan: Plan) -> list[dict[str, Any]]:
    """Say of each waiver what was demanded and what is required instead; for the internal side."""
    if plan.policy is None:
        return []
    demands = _demands(plan, published_schema(plan))
    found = []
    for one in plan.waivers:
        asked = demands.get(one.requirement, [])
        instead = [own.to_plan() for own in plan.requirements if any(same_subject(own, demand) for demand in asked)]
        entry = one.model_dump(mode="json", exclude_defaults=True)
        found.append({**entry, "demanded": [demand.to_plan() for demand in asked], "instead": instead})
    return found


def unkept(plan: Plan, original: Dataset, columns: Collection[str]) -> list[str]:
    """Word which safeguards of the policy a plan does not keep and nobody waived; `columns`: those published."""
    if plan.policy is None:
        return []
    published: tuple[Step | Requirement | Shown, ...] = (*plan.steps, *plan.requirements, *plan.measures)
    broken = {
        "steps": plan.no_steps and not plan.steps and not plan.made_from,
        "row-order": plan.order == "keep",
        "known-method": not plan.knows_method,
        "previous": _unattacked(plan, original),
        "withheld-parameters": any(item.publish for item in published),
        "small-seed": plan.demo,
    }
    problems = [_missing(plan.policy, name) for name, found in broken.items() if found and not _is_waived(plan, name)]
    for safeguard in ("confirmed-other", "confirmed-telling"):
        named = plan.confirmed_other if safeguard == "confirmed-other" else plan.confirmed_telling
        if left := [name for name in named if name in columns and not _is_waived(plan, safeguard, name)]:
            problems.append(_missing(plan.policy, safeguard, left))
    return problems + _faulty_roles(plan, plan.policy, original, columns)


def _unattacked(plan: Plan, original: Dataset) -> bool:
    """Tell whether an earlier release is accepted, known by its public folder alone, or not found at all."""
    from discretion.release.earlier import lineage

    if not plan.previous:
        return False
    found = lineage(plan, original)
    return bool(found.lost) or any(place.get("accepted") or "journal" not in place for place in found.places)


def _is_waived(plan: Plan, name: str, column: str | None = None) -> bool:
    return any(
        one.requirement == name and (column is None or not one.columns or column in one.columns) for one in plan.waivers
    )


def _missing(policy: Policy, name: str, columns: Sequence[str] = ()) -> str:
    of = f" ({', '.join(columns)})" if columns else ""
    return (
        f"the policy {policy.name!r} does not allow this: {SAFEGUARDS[name]}{of}; {_INSTEAD[name]}"
        f"{_waiving(policy, name, columns)}"
    )


def _waiving(policy: Policy, name: str, columns: Sequence[str] = ()) -> str:
    """Say who may allow something and how it is written; or that nobody may."""
    if not (who := policy.may_waive.get(name)):
        return " (nobody may waive it under this policy)"
    named = f", columns: [{', '.join(columns)}]" if columns else ""
    return (
        f", or record who waived it ({'; '.join(who)}): "
        f'`waivers: [{{requirement: {name}{named}, by: "NAME, FUNCTION", why: …}}]`'
    )


def _faulty_roles(plan: Plan, policy: Policy, original: Dataset, columns: Collection[str]) -> list[str]:
    """Name published columns that look like what others know, or like places, and have no role that says so.

    A column that the owner calls sensitive, and of which the name says nothing, is taken for that.
    """
    from discretion.data.detect import propose

    roles = {name: original.schema[name].roles for name in columns if name in original.columns}
    asked = [name for name, own in roles.items() if "identifier" not in own and not {"quasi", "geography"} <= {*own}]
    problems = []
    for one in propose(original.drop(name for name in original.columns if name not in asked)) if asked else ():
        own = roles[one.column]
        place = one.role == "geography"
        if "quasi" in own:
            if not place or not policy.geography:
                continue
            fault = "lacks the role of a place, which the policy limits"
        else:
            unsaid = one.confidence == "low" and "sensitive" in own
            if one.role not in _TELLING or unsaid or (not place and one.role in own):
                continue
            fault = f"no model counts it as {' and '.join(own)}"
        if _is_waived(plan, "roles", one.column):
            continue
        both = dict.fromkeys(["quasi", *(["geography"] if place else []), *(name for name in own if name != "other")])
        problems.append(
            f"column {one.column!r} looks like {'a place' if place else 'something others know'} ({one.reason}), and "
            f"{fault}: write `{one.column}: [{', '.join(both)}]`, or drop it"
            f"{_waiving(policy, 'roles', [one.column])}"
        )
    return problems


def table_rules(plan: TablePlan) -> tuple[Any, ...]:
    """Give the rules of a table plan with those of its policy; one that is weaker than there raises."""
    policy = plan.policy
    assert policy is not None
    own = [Demand(rule) for rule in plan.rules]
    faults: list[str] = []
    added: list[Part] = []
    for name, demands in policy.rules().items():
        for demand in (one for one in demands if _for_table(one.part, plan.table)):
            same = [one for one in own if same_subject(one, demand)]
            if any(not shortfall(one, demand) for one in same) or any(one.requirement == name for one in plan.waivers):
                continue
            if not same:
                added.append(demand.part)
            faults += [
                f"{plan.source.where('table', 'rules')}: {name} is weaker than the policy {policy.name!r} demands: "
                f"{'; '.join(shortfall(one, demand))}. Leave it out (the policy requires it anyway)"
                f"{_waiving(policy, name)}"
                for one in same
            ]
    if not policy.rules():
        faults.append(f"the policy {policy.name!r} has no rules for tables; it is for {policy.scenario}")
    faults += _table_faults(plan, policy)
    if faults:
        raise PlanError(faults)
    return (*plan.rules, *added)


def _for_table(rule: Any, table: Mapping[str, Any]) -> bool:
    """Tell whether a rule is asked of a table: those on contributions of magnitudes, those on groups of counts."""
    counts = not table.get("value")
    if rule.kind == "threshold":
        return True
    return counts if rule.kind in ("group-disclosure", "k-disclosure", "narrow-range") else not counts


def _table_faults(plan: TablePlan, policy: Policy) -> list[str]:
    safe = [number for number, (_, decision) in enumerate(plan.marks) if decision in ("safe", "must-publish")]
    faults = []
    if safe and not any(one.requirement == "marks" for one in plan.waivers):
        faults.append(f"{plan.source.where('table', 'marks', safe[0])}: {_missing(policy, 'marks')}")
    if plan.audit and not any(one.requirement == "audit" for one in plan.waivers):
        faults.append(f"{plan.source.where('table', 'audit')}: {_missing(policy, 'audit')}")
    if plan.plan.demo and not any(one.requirement == "small-seed" for one in plan.waivers):
        faults.append(f"{plan.source.where('demo')}: {_missing(policy, 'small-seed')}")
    return faults


def policy_facts(policy: Policy) -> dict[str, Any]:
    """Give what everybody may know of a policy: its name, its scenario and who signed it; not its numbers."""
    return {
        "name": policy.name,
        "title": policy.title,
        "scenario": policy.scenario,
        "lineage": list(policy.lineage),
        "sha256": policy.digest,
        "signed": [one.model_dump(mode="json") for one in policy.signed],
    }


def policy_words(policy: Policy | None, waivers: Iterable[Waiver]) -> list[str]:
    """Say under which policy a release stands and what was waived by whom; reasons are for the internal side."""
    if policy is None:
        return []
    signed = "; ".join(f"{one.by} on {one.on.isoformat()}" for one in policy.signed)
    title = f" ({policy.title})" if policy.title else ""
    by = f"signed by {signed}" if signed else "which nobody signed"
    return [
        f"Released under the policy {policy.name}{title}, {by}.",
        *(f"Waived: {one.requirement}{_of(one)}, by {one.by}." for one in waivers),
    ]


def waiver_words(waivers: Iterable[Waiver]) -> list[str]:
    """Say of each waiver why it was given, for the internal side."""
    return [f"waived: {one.requirement}{_of(one)}, by {one.by}: {one.why}" for one in waivers]


def _of(waiver: Waiver) -> str:
    return f" for {', '.join(waiver.columns)}" if waiver.columns else ""
