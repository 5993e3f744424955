"""`discretion policy`, `annex` and `check-output`: policies, the law, and results that are to leave."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discretion.cli.console import check_files, common_options, print_json, print_table, say

if TYPE_CHECKING:
    from discretion.outputs.project import Decided
    from discretion.policy.policy import Policy


@click.command()
@click.argument("release", metavar="RELEASE")
@click.option("--journal", metavar="FOLDER", help="the private journal, where it does not lie beside RELEASE")
@click.option("--out", metavar="FOLDER", help="write annex and kit into this new folder")
@common_options
def annex(release: str, journal: str | None, out: str | None, as_json: bool, quiet: bool) -> None:
    """Say in the words of the law what a release risks: singling out, linkability, inference, and what remains.

    RELEASE is the public folder or its private journal; the figures come from the journal and are not for publication.
    """
    from discretion.release.criteria import Annex

    found = Annex.open(release, journal)
    files = found.write(out) if out else []
    if as_json:
        print_json({**found.to_dict(), "files": [str(path) for path in files]})
    else:
        rows = [
            (one.name, "" if one.attack is None else one.attack.measure, one.finding, one.attacker)
            for one in found.criteria
        ]
        print_table(f"{found.title} (internal)", ("criterion", "attack", "found", "assumed attacker"), rows)
        say(found.residual, quiet)
    if files:
        say(f"written to {out}: {', '.join(path.name for path in files)}", quiet)


_NEW = """\
# A policy of your own: it may be stricter than its parent, never weaker.
title: {title}
scenario: {scenario}  # secure-centre, scientific-file, public-file, research-output or open-table
extends: {parent}

# Requirements as a plan writes them. Those of the parent hold without being repeated; every number needs its reason.
requirements: []
#  - require: {{k-anonymity: {{k: 10}}}}
#    rows: records
#    why: our board decided so, because …

# Who may waive what: functions, or people as `NAME, FUNCTION`. Who is not listed may not.
#may_waive:
#  detail: ["Ada Stone, head of the survey"]

# Who put it into force, and when.
signed: []
#  - by: NAME, FUNCTION
#    on: 2026-01-31
"""


@click.group(name="policy")
def policy() -> None:
    """Look at release policies, check a plan against its own, start one."""


@policy.command()
@click.argument("name", required=False, metavar="[NAME|FILE]")
@common_options
def show(name: str | None, as_json: bool, quiet: bool) -> None:  # noqa: ARG001
    """Show a policy with the reason for every number; without a name, list those that come with the program."""
    from discretion.policy.policy import Policy

    if name is not None:
        _show(Policy.load(name), as_json)
        return
    every = [Policy.load(one) for one in Policy.shipped]
    if as_json:
        print_json({"policies": [{"name": one.name, "title": one.title, "scenario": one.scenario} for one in every]})
        return
    print_table("Policies", ("name", "scenario", "title"), [(one.name, one.scenario, one.title) for one in every])


def _show(found: Policy, as_json: bool) -> None:
    if as_json:
        print_json(found.to_dict())
        return
    parent = f", extends {found.extends}" if found.extends else ""
    click.echo(f"{found.title or found.name}: {found.scenario}{parent}\n")
    rows, reasons = [], []
    for one in found.requirements:
        ((kind, fields),) = one.demand.to_plan().items()
        given = ", ".join(f"{name}: {value}" for name, value in fields.items())
        limited = [f"when: {one.when}"] if one.when else []
        limited += [] if one.rows == "both" else [f"rows: {one.rows}"]
        rows.append((kind, given, ", ".join(limited), _who(found, kind)))
        reasons.append(f"{kind}: {one.why}")
    for section in ("geography", "detail", "outputs"):
        limits = getattr(found, section)
        given_limits = {} if limits is None else {name: getattr(limits, name) for name in limits.why}
        rows += [(section, f"{name}: {number:g}", "", _who(found, section)) for name, number in given_limits.items()]
        reasons += [f"{section}, {name}: {limits.why[name]}" for name in given_limits]
    print_table("What must hold", ("requirement", "numbers", "asked of", "may be waived by"), rows)
    click.echo("Why:\n" + "\n".join(f"- {text}" for text in reasons) + "\n")
    from discretion.policy.policy import SAFEGUARDS

    kept = [(name, words, _who(found, name)) for name, words in SAFEGUARDS.items()]
    print_table("What every plan under it keeps", ("safeguard", "against", "may be waived by"), kept)
    for signature in found.signed:
        click.echo(f"signed by {signature.by} on {signature.on.isoformat()}")
    if not found.signed:
        click.echo("signed by nobody")
    if found.notes:
        click.echo(found.notes)


def _who(found: Policy, name: str) -> str:
    return "; ".join(found.may_waive.get(name, ())) or "nobody"


@policy.command()
@click.argument("file", metavar="FILE")
@click.option("--data", "source", metavar="FILE", help="check a plan on this data instead of its own")
@common_options
def check(file: str, source: str | None, as_json: bool, quiet: bool) -> None:
    """Check a policy file (also that it is not weaker than its parent), or a plan against the policy it names.

    Of a plan the roles, safeguards and waivers are checked too, on its data; nothing is carried out.
    """
    from discretion.data.documents import read_document
    from discretion.policy.policy import POLICY, Policy

    shipped = file in Policy.shipped
    content: dict[str, Any] = {} if shipped else dict(read_document(file, POLICY).content)
    if not shipped and ("policy" in content or "table" in content or "steps" in content):
        _check_plan(file, content, source, as_json, quiet)
        return
    found = Policy.load(file)
    if as_json:
        print_json({"policy": "valid", "name": found.name, "lineage": list(found.lineage), "sha256": found.digest})
    if not found.signed:
        say("nobody signed this policy", quiet)
    say(f"the policy is valid: {len(found.requirements)} requirements, {' < '.join(found.lineage)}", quiet)


def _check_plan(file: str, content: dict[str, Any], source: str | None, as_json: bool, quiet: bool) -> None:
    from discretion.errors import PlanError
    from discretion.release.gate import check_publishable
    from discretion.release.plan import Plan
    from discretion.release.table_plan import TablePlan
    from discretion.release.under_policy import waived, waiver_words

    if content.get("policy") is None:
        raise PlanError(f"{Path(file).name}: the plan names no policy (`policy: scientific-use`)")
    if "table" in content:
        table = TablePlan.load(file)
        plan: Plan | TablePlan = table
        asked: list[Any] = [{rule.kind: rule.settings()} for rule in table.rules]
        told: list[Any] = [one.model_dump(mode="json", exclude_defaults=True) for one in table.waivers]
    else:
        microdata = Plan.load(file)
        check_publishable(microdata, microdata.read(source), made=bool(microdata.steps or microdata.made_from))
        plan, asked, told = microdata, [one.to_plan() for one in microdata.requirements], waived(microdata)
    assert plan.policy is not None
    if as_json:
        print_json({"plan": "valid", "policy": plan.policy.name, "requirements": asked, "waivers": told})
    for words in waiver_words(plan.waivers):
        say(words, quiet)
    say(f"the plan keeps the policy {plan.policy.name}: {len(asked)} requirements, {len(told)} waived", quiet)


@policy.command()
@click.argument("file", metavar="FILE")
@click.option("--extends", "parent", default="scientific-use", show_default=True, help="the policy to start from")
@click.option("--title", default="Our policy", show_default=True, help="what it is called in reports")
@click.option("--force", is_flag=True, help="overwrite the file if it exists")
@common_options
def new(file: str, parent: str, title: str, force: bool, as_json: bool, quiet: bool) -> None:
    """Write a policy file that extends another one, to be filled in."""
    import json

    from discretion.data.write import write_text
    from discretion.policy.policy import Policy

    check_files([file], force=force)
    base = Policy.load(parent)
    named = parent if parent in Policy.shipped else str(Path(parent).resolve())
    text = _NEW.format(title=json.dumps(title, ensure_ascii=False), scenario=base.scenario, parent=json.dumps(named))
    Policy.parse(text, Path(file).name)
    write_text(Path(file), text, overwrite=force)
    if as_json:
        print_json({"written": file, "extends": parent})
    say(f"written: {file}; it is in force when somebody signed it", quiet)


@click.command(name="check-output")
@click.argument("result", metavar="RESULT")
@click.option("--policy", default="research-output", metavar="NAME|FILE", help="policy to judge a table by")
@click.option("--project", metavar="FOLDER", help="the project's private folder, which remembers what was decided")
@click.option("--sign", metavar="'NAME, FUNCTION'", help="decide on the outputs and sign")
@click.option("--release", multiple=True, metavar="OUTPUT", help="an output that goes out although it does not pass")
@click.option("--refuse", multiple=True, metavar="OUTPUT", help="an output that stays although it passes")
@click.option("--note", default="", metavar="TEXT", help="what the checker wants to say, kept with the signature")
@click.option("--export", metavar="FOLDER", help="copy the files of released outputs there")
@common_options
def check_output(result: str, as_json: bool, quiet: bool, **options: Any) -> int:
    """Judge RESULT: a folder of outputs that a project handed in, or a file with a table of counts.

    Exit code 0 only if every output passes or was decided upon; 4 if one fails or wants a review, 3 if a file was
    changed.
    """
    if not Path(result).is_dir():
        return _check_table(result, options["policy"], as_json, quiet)
    from discretion.errors import DataError, PlanError
    from discretion.outputs.project import Request
    from discretion.policy.policy import Policy

    request = Request.open(result)
    if problems := request.changes():
        raise DataError("the request is not as it was handed in: " + "; ".join(problems))
    if options["sign"]:
        if not options["project"]:
            raise PlanError("--sign needs --project: the project remembers what was released")
        if both := set(options["release"]) & set(options["refuse"]):
            raise PlanError(f"both released and refused: {', '.join(sorted(both))}")
        decisions: dict[str, Decided] = dict.fromkeys(options["release"], "release")
        decisions |= dict.fromkeys(options["refuse"], "refuse")
        rules = Policy.load(options["policy"])
        request.sign(options["project"], options["sign"], decisions, note=options["note"], policy=rules)
    copied = request.export(options["export"]) if options["export"] else []
    signed = request.signature
    decided = {} if signed is None else signed["decisions"]
    outputs = request.content["outputs"]
    if as_json:
        print_json({"outputs": outputs, "signature": signed, "exported": [str(path) for path in copied]})
    else:
        rows = [(one["name"], one["kind"], one["verdict"], decided.get(one["name"], ""), _why(one)) for one in outputs]
        print_table(
            f"Outputs ({request.content['policy']['name']})", ("output", "kind", "verdict", "decided", "why"), rows
        )
    if signed is not None:
        say(f"signed by {signed['by']} on {signed['at']}", quiet)
    if copied:
        say(f"{len(copied)} files copied to {options['export']}", quiet)
    open_ = [one for one in outputs if one["verdict"] != "pass" and decided.get(one["name"]) is None]
    if open_:
        listed = [f"{one['name']} ({one['verdict']})" for one in open_]
        say(f"not decided: {', '.join(listed)}", quiet)
    return 4 if open_ else 0


def _why(one: dict[str, Any]) -> str:
    asked = [f"exception asked for: {one['exception']}"] if one["exception"] else []
    return "; ".join([*one["reasons"], *one["notes"], *one["comments"], *asked])


def _check_table(file: str, policy: str, as_json: bool, quiet: bool) -> int:
    from discretion.data.read import read
    from discretion.outputs.judge import OutputLimits, printed_counts, worst
    from discretion.policy.policy import Policy

    findings = printed_counts(read(file).frame, OutputLimits.of(Policy.load(policy)))
    verdict = worst(findings)
    if as_json:
        print_json({"verdict": verdict, "findings": [vars(one) for one in findings]})
    else:
        print_table(f"{file}: {verdict}", ("rule", "verdict", "why"), [(f.rule, f.outcome, f.text) for f in findings])
    say(f"{file}: {verdict}", quiet)
    return 0 if verdict == "pass" else 4
