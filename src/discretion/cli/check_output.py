"""`discretion check-output`: look at results that are to leave a research center, sign them, and let them out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discretion.cli.console import common_options, print_json, print_table, say

if TYPE_CHECKING:
    from discretion.outputs.project import Decided


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
