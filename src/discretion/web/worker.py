"""A worker: loads everything, waits for the folder of one job, does it, commits the result itself, and ends."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from discretion.context import Progress
from discretion.data.dataset import Dataset
from discretion.errors import Cancelled, DataError, DiscretionError, PlanError, place_of
from discretion.measure import Score
from discretion.method import Decision
from discretion.model import Verdict
from discretion.part import Part, parse
from discretion.release.gate import Finding
from discretion.release.plan import Plan, Step
from discretion.release.ranking import RankedAttack
from discretion.release.report.wording import count, counted, listed, percent, title_of
from discretion.release.study import Done, Study
from discretion.web import charts
from discretion.web.project import FULL_MAP, LIVE_MAP, Project, as_steps, read_json, required_in, started, write_json

_EVERY = 0.2
"""Seconds between two reports of progress."""
_SAMPLE, _WHOLE = 2000, 100_000
"""Rows on which a step is tried; of one that puts rows together all of them, up to so many."""
_SHOWN_ROWS = 6
_MOST_DRAWN = 1_000_000
"""Rows of which the columns of a file are drawn; of more, evenly taken ones."""
_MOST_PICTURES = 6
Job = dict[str, Any]
Work = Callable[[Project, Job, Progress], dict[str, Any] | None]


def main() -> None:
    """Wait for a job and do it."""
    from discretion.part import all_parts

    all_parts("method", "model", "risk", "utility")  # loading them is the slow part of a short job
    given = sys.stdin.readline().strip()
    if given:  # otherwise the server is gone and never needed this one
        signal.signal(signal.SIGTERM, _stop)
        run(Path(given))


def _stop(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Cancelled("cancelled")


def run(folder: Path) -> None:
    """Do the job of a folder; what happens is written into its file."""
    project = Project(folder.parent.parent)
    job: Job = read_json(folder / "job.json")
    last = 0.0

    def tell(**more: Any) -> None:
        job.update(more)
        write_json(folder / "job.json", job)

    def progress(done: int, total: int, label: str) -> None:
        nonlocal last
        if time.monotonic() - last > _EVERY:
            last = time.monotonic()
            tell(done=done, total=total, label=label)

    tell(state="running", pid=os.getpid(), process=started(os.getpid()), begun=time.time(), label="reading the data")
    try:
        found = WORK[job["kind"]](project, job, progress)
        tell(state="done", label="done", ended=time.time(), **(found or {}))
    except Cancelled:
        tell(state="cancelled", label="cancelled", ended=time.time())
        project.note(f"cancelled: {job['title']}", job["who"])
    except DiscretionError as error:
        problems = list(error.problems) if isinstance(error, PlanError) else [str(error)]
        tell(state="failed", label=str(error), problems=problems, ended=time.time())
    except Exception as error:
        tell(state="failed", label=place_of(error), problems=[], ended=time.time())
        raise


# --- reading -----------------------------------------------------------------------------------------------------


def read(project: Project, _: Job, progress: Progress) -> None:
    """Read the file, propose roles and hierarchies, draw its columns, and keep it for the pages of its rows."""
    from discretion.data.detect import propose, propose_hierarchy, with_missing
    from discretion.data.read import read as read_file

    plan = Plan.from_dict({**project.plan, "roles": {}, "types": {}, "hierarchies": {}, "steps": []}, project.folder)
    said: list[str] = []
    options = {key: value for key, value in plan.data.items() if key != "path"}
    data = read_file(plan.resolve(plan.data["path"]), report=said.append, **options)
    progress(1, 4, "proposing roles")
    proposals = propose(data)
    codes = {one.column: one.missing_codes for one in proposals if one.missing_codes}
    clean = with_missing(data, codes)
    every = -(-len(clean) // _MOST_DRAWN)  # a picture needs no more rows
    drawn = clean if every <= 1 else clean.take(np.arange(0, len(clean), every))
    columns = []
    for place, one in enumerate(proposals):
        progress(place, len(proposals), f"looking at {one.column}")
        known = data.schema[one.column]
        rule = propose_hierarchy(clean, one) if "quasi" in one.roles else None
        columns.append(
            {
                "name": one.column,
                "roles": list(one.roles),
                "type": one.type,
                "reason": one.reason,
                "confidence": one.confidence,
                "distinct": one.distinct,
                "missing": one.missing,
                "missing_codes": list(one.missing_codes),
                "label": known.label,
                "labels": len(known.value_labels),
                "dtype": str(data.frame.schema[one.column]).lower(),
                "hierarchy": rule,
                "values": _domain(clean, one.column) if one.distinct <= _MOST_DOMAIN + 1 else [],
                "picture": "" if one.names_records or one.role == "identifier" else charts.column(one.column, drawn),
            }
        )
    progress(3, 4, "keeping the rows")
    results = project.folder / "results"
    temporary = results / ".original.parquet"
    data.frame.write_parquet(temporary, row_group_size=20_000, compression="lz4")
    temporary.chmod(0o600)
    temporary.replace(results / "original.parquet")
    found = {"rows": len(data), "columns": columns, "said": said, "dialect": str(data.dialect or "")}
    write_json(results / "columns.json", {**found, "drawn": len(drawn)})
    if any("quasi" in roles or roles == "quasi" for roles in project.plan.get("roles", {}).values()):
        measured(project, project.plan, progress)


_MOST_DOMAIN = 60


def _domain(data: Dataset, name: str) -> list[str]:
    """Give the different values of a column of categories, for the builder of hierarchies; few ones only."""
    from discretion.data.hierarchy import canonical

    if data.type_of(name) == "set" or data.codes(name).size > _MOST_DOMAIN:
        return []
    return sorted(canonical(value) for value in data.codes(name).values if value is not None)


# --- steps and figures -------------------------------------------------------------------------------------------


def plan_of(content: Mapping[str, Any], folder: Path) -> Plan:
    """Make a plan of its content, as `discretion run` reads it."""
    kept = {key: value for key, value in content.items() if value not in (None, "", {}, [])}
    return Plan.from_dict(kept, folder)


def carried_out(project: Project, content: Mapping[str, Any], progress: Progress) -> tuple[Plan, Study]:
    """Carry out the steps of a plan, from the last that is kept in a file."""
    from discretion.release.run import check_data, check_plan, read_seed

    plan = plan_of({**content, "confirmed": True}, project.folder)
    check_plan(plan)
    original = plan.read()
    check_data(original)
    study = Study(original, read_seed(project.folder / "seed"), progress=progress, budget=plan.budget)
    steps = as_steps(content.get("steps"))
    keys = [project.key(steps[: number + 1], content) for number in range(len(steps))]
    if not any(step.method.private for step in plan.steps):
        study = _resumed(project, study, plan.steps, keys)
    for number in range(len(study.done), len(plan.steps)):
        step = plan.steps[number]
        progress(number, len(plan.steps), f"step {number + 1} of {len(plan.steps)}: {title_of(step.method.kind)}")
        before, study = study.current, study.apply(step)
        place = project.place(keys[number])
        place.mkdir(mode=0o700, exist_ok=True)
        write_json(place / "did.json", what_it_did(before, study.current, study.done[-1].decision))
        study.current.checkpoint(place)
    return plan, study


_MOST_NAMED = 12


def what_it_did(before: Dataset, after: Dataset, decision: Decision) -> list[str]:
    """Say what a step did: records taken out, columns gone, the level of each column, values taken out or changed."""
    if after.has_new_rows and not before.has_new_rows:
        return [f"{counted(len(after), 'record')} were made up; none belongs to a person."]
    said = []
    if dropped := len(before) - len(after):
        share = percent(dropped / max(len(before), 1))
        said.append(f"{counted(dropped, 'record')} of {count(len(before))} ({share}) {_were(dropped)} taken out.")
    if gone := [name for name in before.columns if name not in after.columns]:
        said.append(f"Taken out: {listed(gone, _MOST_NAMED)}.")
    if levels := [_level_of(after, name) for name in after.columns if _other_level(before, after, name)]:
        said.append(f"Made coarser: {'; '.join(levels)}.")
    earlier = before.suppressed_cells
    hidden = {name: number - earlier.get(name, 0) for name, number in after.suppressed_cells.items()}
    hidden = {name: number for name, number in hidden.items() if number > 0}
    if hidden:
        listing = ", ".join(f"{name} {count(number)}" for name, number in hidden.items())
        said.append(f"Single values taken out: {listing} (of {counted(len(after), 'record')}).")
    moved = [
        name
        for name in after.columns
        if name in before.columns and not _other_level(before, after, name) and _differs(before, after, name)
    ]
    if moved := [name for name in moved if name not in hidden]:
        said.append(f"Values changed: {listed(moved, _MOST_NAMED)}.")
    proven = decision.values.get("proven")
    if proven is not None:
        bound = "Proven: no other choice of levels loses less." if proven else "Not proven: a better choice may exist."
        said.append(bound)
    return said or ["It changed nothing."]


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


def _other_level(before: Dataset, after: Dataset, name: str) -> bool:
    level, earlier = after.levels.get(name), before.levels.get(name, 0)
    return level is not None and not np.array_equal(level, earlier)


def _level_of(data: Dataset, name: str) -> str:
    level = data.levels[name]
    if not isinstance(level, int):
        return f"{name} by as much as each record needs"
    height = data.hierarchy(name).height
    return f"{name} wholly hidden" if level == height else f"{name} to level {level} of {height}"


def _resumed(project: Project, study: Study, steps: Sequence[Step], keys: Sequence[str]) -> Study:
    for number in range(len(steps), 0, -1):
        data = study.original.restored(project.place(keys[number - 1]))
        if data is not None:
            return replace(study, done=tuple(Done(step, Decision.EMPTY, data) for step in steps[:number]))
    return study


def measured(project: Project, content: Mapping[str, Any], progress: Progress) -> tuple[Plan, Study]:
    """Carry out the steps of a plan and keep its figures under their key, unless they are known."""
    plan, study = carried_out(project, content, progress)
    place = project.place(project.key(None, content))
    place.mkdir(mode=0o700, exist_ok=True)
    if not (place / "status.json").exists():
        found = figures_of(study, progress, knows_method=plan.knows_method)
        write_json(place / "status.json", {**found, "pictures": pictures_of(study), "small": small_picture(study)})
    judged(project, content, plan, study, progress)
    return plan, study


def judged(
    project: Project, content: Mapping[str, Any], plan: Plan, study: Study, progress: Progress
) -> list[dict[str, Any]]:
    """Judge the requirements of a plan on the present data and keep the verdicts beside the figures."""
    from discretion.release.gate import judge

    data = without_identifiers(study.current)
    found = []
    for number, one in enumerate(plan.requirements):
        progress(number, len(plan.requirements), f"checking: {title_of(one.part.kind)}")
        try:
            finding = judge(one, study.original, data, study.context(), knows_method=plan.knows_method)
            verdict = {"holds": finding.holds, "text": told_of(finding)}
            verdict["help"] = None if finding.holds else help_with(finding, plan, study, as_steps(content.get("steps")))
        except (DataError, PlanError) as error:
            verdict = {"holds": False, "text": str(error), "help": None}
        name = waiver_name(one.part)
        may = list(plan.policy.may_waive.get(name, ())) if plan.policy and one.by_policy else []
        found.append({**verdict, "spec": one.to_plan(), "policy": one.by_policy, "name": name, "may_waive": may})
    place = project.place(project.key(None, content))
    write_json(place / "verdicts.json", {"of": required_in(content), "found": found})
    return found


def told_of(finding: Finding) -> str:
    """Say what was required and what was reached."""
    if finding.kind == "detail-limits" and isinstance(finding.result, Verdict):
        broken = counted(int(finding.result.value), "limit") if finding.result.value else "no limit"
        return f"{broken} of detail {'is' if finding.result.value <= 1 else 'are'} broken"
    return finding.explain().removeprefix(f"{finding.kind}: ")


def waiver_name(part: Part) -> str:
    """Give what a waiver calls a requirement: its kind, or which of a policy's limits of detail it is."""
    if part.kind != "detail-limits":
        return part.kind
    areas = getattr(part, "min_area_population", None) or getattr(part, "max_areas", None)
    return "geography" if areas else "detail"


def help_with(finding: Finding, plan: Plan, study: Study, steps: list[Any]) -> dict[str, Any] | None:
    """Say what would make a requirement hold: a sentence, and steps that one click puts into the plan."""
    from discretion.privacy.class_table import ClassModel
    from discretion.release.gate import remedies

    part, result = finding.requirement.part, finding.result
    if isinstance(part, ClassModel) and isinstance(result, Verdict):
        after, what = reaching(plan, study, steps)
        fail = f"{counted(result.failing_count, 'group')} with {counted(result.failing_records, 'record')}"
        return {"words": f"{fail} are not as it asks.", "do": what, "steps": after}
    if part.kind == "detail-limits" and isinstance(result, Verdict):
        return _coarser(part, result, study, steps)
    if part.kind == "household-k-anonymity" and (homes := list(study.current.having("household"))):
        words = "Neighbors know whole households. Where household numbers are not published, it is not asked."
        left = {"drop-identifiers": {"columns": homes}}
        return {"words": words, "do": f"Leave out {', '.join(homes)}", "steps": [*steps, left]}
    if part.kind == "edit-rules":
        words = "Clip, set and add up anew what the rules say; only protected values are looked at."
        return {"words": words, "do": "Restore the edit rules", "steps": [*steps, {"restore-edit-rules": {}}]}
    words = remedies(finding, study.original, without_identifiers(study.current), study.current.changed)
    return {"words": f"{words[:1].upper()}{words[1:]}.", "do": "", "steps": []} if words else None


def reaching(plan: Plan, study: Study, steps: list[Any]) -> tuple[list[Any], str]:
    """Give the steps with every required model of classes asked of the last step that can reach models.

    Where there is none, or it was asked already and a later step undid it, one more step at the end reaches them.
    """
    from discretion.policy.policy import Demand, same_subject, shortfall
    from discretion.privacy.class_table import ClassModel

    wanted = [one.part for one in plan.requirements if isinstance(one.part, ClassModel)]
    for number in reversed(range(len(steps))):
        method: Any = plan.steps[number].method
        if "models" not in type(method).model_fields or plan.steps[number].method.makes_rows:
            continue
        own = [Demand(one) for one in method.models]
        if (k := getattr(method, "k", None)) is not None:
            own.append(Demand(parse({"k-anonymity": {"k": k}}, "model")))
        lacking = [one for one in wanted if all(shortfall(mine, Demand(one)) for mine in own)]
        if not lacking:
            break
        kept = [one.part for one in own if not any(same_subject(one, Demand(other)) for other in lacking)]
        fields = {name: value for name, value in steps[number][method.kind].items() if name != "k"}
        models = [one.to_plan() for one in (*kept, *lacking)]
        changed = {method.kind: {**fields, "models": models}}
        names = " and ".join(title_of(one.kind) for one in lacking)
        return [*steps[:number], changed, *steps[number + 1 :]], f"Ask {title_of(method.kind)} for {names} too"
    models = [one.to_plan() for one in wanted]
    layered = all(study.original.schema[name].hierarchy is not None for name in study.original.having("quasi"))
    if layered and not study.current.changed & {*study.original.having("quasi")}:
        return [*steps, {"optimal-generalization": {"models": models, "suppression_limit": 0.05}}], (
            "Generalize until it holds"
        )
    return [*steps, {"local-suppression": {"models": models}}], "Suppress single values until it holds"


def _coarser(part: Part, result: Verdict, study: Study, steps: list[Any]) -> dict[str, Any]:
    """Say which columns have too small categories, and which level of their hierarchies has none."""
    counts: dict[str, int] = {}
    for one in result.failing:
        for name in one.key:
            counts[name] = counts.get(name, 0) + 1
    counts = {name: count for name, count in counts.items() if name in study.current.columns}
    levels = {name: level for name in counts if (level := _enough(part, name, study)) is not None}
    said = [f"{name} has {counted(count, 'value')} that too few people share" for name, count in counts.items()]
    return {
        "words": f"{'; '.join(said)}." if said else "",
        "do": f"Make {', '.join(levels)} coarser" if levels else "",
        "steps": [*steps, {"generalize": {"levels": levels}}] if levels else [],
    }


def _enough(part: Part, name: str, study: Study) -> int | None:
    """Give the lowest level of a column's hierarchy at which its categories are large enough; None without one."""
    data = study.current
    if data.schema[name].hierarchy is None or not data.stands_in_hierarchy(name):
        return None
    for level in range(int(np.max(data.cell_levels(name))) + 1, data.hierarchy(name).height + 1):
        trial = study.apply(parse({"generalize": {"levels": {name: level}}}, "method")).current  # type: ignore[arg-type]
        verdict = part.run(without_identifiers(trial), study.context())  # type: ignore[attr-defined]
        if not any(name in one.key for one in verdict.failing):
            return level
    return None


def without_identifiers(data: Dataset) -> Dataset:
    """Give the data as it would be published: identifiers always stay out."""
    left = data.having("identifier")
    return data.drop(left) if left else data


def figures_of(study: Study, progress: Progress, *, knows_method: bool = True) -> dict[str, Any]:
    """Give what always stands in sight: the smallest group, who is found, what is learnt, what was lost."""
    from discretion.release.attack_set import default_measures
    from discretion.release.ranking import rank_attacks
    from discretion.risk.identity.intruder import knowing_method

    original, now = study.original, without_identifiers(study.current)
    chosen = [one for one in default_measures(original, now) if one.family == "risk"]
    if original.having("quasi") and original.having("sensitive") and not now.has_new_rows:
        chosen.append(parse({"group-attack": {}}, "risk"))  # type: ignore[arg-type]
    chosen = chosen if knows_method else [knowing_method(one, False) for one in chosen]
    scores: list[Score] = []
    not_run: dict[str, str] = {}
    for number, measure in enumerate(chosen):
        progress(number, len(chosen) + 1, f"measuring: {title_of(measure.kind)}")
        try:
            scores += study.scores(measure)
        except (DataError, PlanError) as error:
            not_run[measure.kind] = str(error)
    quasi = tuple(name for name in original.having("quasi") if name in now.columns)
    sizes = now.class_counts(quasi) if quasi and len(now) else np.array([], dtype=np.int64)
    return {
        "rows": len(now),
        "columns": list(now.columns),
        "k": None if now.has_new_rows or not len(sizes) else int(sizes.min()),
        "alone": 0 if now.has_new_rows else int((sizes == 1).sum()),
        **strongest_of(rank_attacks(scores)),
        "loss": information_loss(study),
        "suppressed": int(sum(now.suppressed_cells.values())),
        "lost": now.lost_records,
        "not_run": not_run,
        "edits": edits_of(original, now),
    }  # fmt: skip


def strongest_of(ranked: Sequence[RankedAttack]) -> dict[str, Any]:
    """Give the strongest attack that looks for people, and the strongest that learns values without finding them."""
    from discretion.release.ranking import FIND_RECORD, strongest

    def told(aim: bool) -> dict[str, Any] | None:
        own = [one for one in ranked if (one.aim == FIND_RECORD) == aim and "whose record is found" not in one.aim]
        best = strongest(own)
        if best is None:
            return None
        name = title_of(best.measure) + (f", {best.note}" if best.note else "")
        certain = best.aim.endswith("for certain")
        return {"title": name, "success": best.success, "chance": best.chance, "certain": certain, "gain": best.gain}

    return {"people": told(True), "values": told(False)}


def edits_of(original: Dataset, now: Dataset) -> list[dict[str, Any]]:
    """Count the records that break each edit rule, in the original and now; None where that cannot be judged."""
    from discretion.data.rules import broken_rows, read_edit_rules

    found = []
    for rule in read_edit_rules(original.schema.edit_rules):
        broken = [broken_rows(rule, data) for data in (original, now)]
        first, then = (None if one is None else int(one.sum()) for one in broken)
        found.append({"rule": rule.text, "original": first, "now": then})
    return found


def information_loss(study: Study) -> float | None:
    """Give the share of the detail that is gone, over columns and records; None for rows that belong to nobody.

    Of a generalized column what its hierarchy says (1 − precision), of others how far their values moved
    (variable-change); a column that was left out is lost, and so is a suppressed record.
    """
    from discretion.release.tune_scales import default_utility, loss_of
    from discretion.release.tune_space import Setting

    original, now = study.original, study.current
    wanted = [name for name in original.choose((), "compare") if original.type_of(name) != "set"]
    if now.has_new_rows or not wanted or not len(now):
        return None
    lost = float(sum(name not in now.columns for name in wanted))
    for measure in default_utility(original, [Setting(study.steps, 0)]) if study.done else ():
        names = tuple(name for name in getattr(measure, "columns", ()) if name in now.columns)
        if names:
            (score,) = study.scores(measure.model_copy(update={"columns": names}))
            lost += len(names) * loss_of(measure, score.value)
    kept = 1 - now.lost_records / max(now.lost_records + len(now), 1)
    return 1 - (1 - min(lost / len(wanted), 1.0)) * kept


def small_picture(study: Study) -> str:
    """Draw the groups of people who look alike, to stand beside those of other candidates."""
    original, now = study.original, study.current
    quasi = tuple(name for name in original.having("quasi") if name in now.columns)
    return charts.class_sizes(original, now, quasi, charts.SMALL) if quasi and len(now) and study.done else ""


def pictures_of(study: Study) -> list[list[str]]:
    """Draw the groups of people who look alike, and the columns that steps changed, before and after."""
    original, now = study.original, without_identifiers(study.current)
    quasi = tuple(name for name in original.having("quasi") if name in now.columns)
    found = []
    if quasi and len(now):
        after = now if study.done else None
        found.append(["Groups of people who look alike", charts.class_sizes(original, after, quasi)])
    for name in now.columns if study.done else ():
        if len(found) >= _MOST_PICTURES:
            break
        changed = name in now.changed and name in original.columns
        if changed and (picture := charts.column(name, original, now)):
            found.append([f"{name}, before and after", picture])
    return found


def steps(project: Project, job: Job, progress: Progress) -> dict[str, Any] | None:
    """Carry out other steps, measure, and only then write them into the plan."""
    content = project.plan
    wanted = job["wanted"].get("steps")
    changed = {**content, "steps": content.get("steps") if wanted is None else wanted}
    measured(project, changed, progress)
    if wanted is not None and wanted != as_steps(content.get("steps")):
        now = project.plan
        if {**now, "steps": None} != {**content, "steps": None} or now.get("steps") != content.get("steps"):
            raise PlanError("the plan was changed meanwhile; nothing was written. Do this step again")
        project.save(changed, job["title"], job["who"])
    project.forget_results()
    return None


def preview(project: Project, job: Job, progress: Progress) -> dict[str, Any]:
    """Try a step on some rows: a few of them before and after, and its columns drawn."""
    content = project.plan
    plan, study = carried_out(project, content, progress)
    method = parse(job["wanted"]["step"], "method")
    now = study.current
    together = method.by_group or "models" in type(method).model_fields  # type: ignore[attr-defined]
    size = _WHOLE if together else _SAMPLE
    rng = np.random.default_rng(0)
    rows = np.arange(len(now)) if len(now) <= size else np.sort(rng.permutation(len(now))[:size])
    sample = now.take(rows)
    base = replace(Study(study.original, study.seed, progress=progress), done=study.done)
    if base.done:
        base = replace(base, done=(*base.done[:-1], replace(base.done[-1], data=sample)))
    else:
        base = Study(sample, study.seed, progress=progress)
    base = base.apply(Step(method, f"{len(plan.steps) + 1}-{method.kind}"))  # type: ignore[arg-type]
    after = base.current
    changed = [name for name in after.columns if name in sample.columns and _differs(sample, after, name)]
    gone = [name for name in sample.columns if name not in after.columns]
    shown = without_identifiers(sample)
    names = [name for name in shown.columns if name in changed or name in gone][:8]
    ids = {int(one): place for place, one in enumerate(after.row_ids)}
    table = []
    for place in range(min(len(sample), 200)):
        found = ids.get(int(sample.row_ids[place]))
        before = [_cell(sample, name, place) for name in names]
        then = ["" if found is None or name not in after.columns else _cell(after, name, found) for name in names]
        if before != then:
            table.append([before, then if found is not None else None])
        if len(table) >= _SHOWN_ROWS:
            break
    drawn = [[name, charts.column(name, sample, after)] for name in names if name in after.columns][:4]
    whole = len(sample) == len(now)
    said = [f"Tried on {'all ' if whole else ''}{counted(len(sample), 'row')}."]
    if together and not whole:
        said.append(
            f"It looks for groups of people who are alike: among all {count(len(now))} rows there are more of them, so "
            "that the step itself takes away less than is shown here."
        )
    said += what_it_did(sample, after, base.done[-1].decision)
    kept = {"sentence": " ".join(said), "names": names, "table": table, "pictures": [one for one in drawn if one[1]]}
    write_json(project.folder / "jobs" / job["id"] / "preview.json", kept)
    return {"preview": True}


def _differs(before: Dataset, after: Dataset, name: str) -> bool:
    """Tell whether a column has other values than before in the records that are left."""
    if after.has_new_rows:
        return True
    old = before.frame[name]
    if len(before) != len(after):
        old = old.gather(np.searchsorted(before.row_ids, after.row_ids)) if _ordered(before) else old.head(0)
    return not (old.dtype == after.frame[name].dtype and old.equals(after.frame[name], null_equal=True))


def _ordered(data: Dataset) -> bool:
    return bool((np.diff(data.row_ids) > 0).all())


def _cell(data: Dataset, name: str, row: int) -> str:
    value = data.frame[name][row]
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


# --- attacks -----------------------------------------------------------------------------------------------------


def attacks(project: Project, _: Job, progress: Progress) -> None:
    """Attack the data as it is now with everything that fits, and keep what was found."""
    from discretion.release.assess import assess
    from discretion.release.report.attack_lines import NARROW
    from discretion.release.report.page import attack_picture

    content = project.plan
    study = measured(project, content, progress)[1]
    now = without_identifiers(study.current)
    found = assess(study.original, now, unprotected=bool(study.done), progress=progress)
    ranked = found.ranked
    combined = [score.detail["subsets"] for score in found.scores if score.measure == "quasi-identifiers"]
    subsets: list[dict[str, Any]] = combined[0] if combined else []
    kept = {
        "best": found.best_attack,
        "strongest": strongest_of(ranked),
        "ranked": [{**one.to_dict(), "title": title_of(one.measure)} for one in ranked],
        "wide": attack_picture(ranked, 720) if ranked else "",
        "narrow": attack_picture(ranked, NARROW) if ranked else "",
        "cards": [card.to_dict() for card in found.attackers],
        "notes": [note.replace("; ask for it in `measures`", "; `discretion assess` runs it") for note in found.notes],
        "not_run": [{"title": title_of(one.measure), "reason": one.reason} for one in found.not_run],
        "subsets": [one for one in subsets if len(one["columns"]) <= 3][:8],
    }
    write_json(project.place(project.key(None, content)) / "attacks.json", kept)


# --- publishing --------------------------------------------------------------------------------------------------


def release(project: Project, job: Job, progress: Progress) -> dict[str, Any]:
    """Carry out the saved plan from its beginning, as `discretion run` does, and publish it."""
    from discretion.release.run import run_plan

    plan = Plan.load(project.folder / "plan.yaml")
    made = run_plan(plan, progress=progress, publish=True)
    folder, journal = plan.resolve(str(plan.output.folder)), plan.resolve(str(plan.output.journal))
    public, private = made.write(folder, journal, overwrite=True)
    project.note("published", job["who"])
    return {
        "public": str(public),
        "private": str(private),
        "key": project.key(),
        "of": required_in(project.plan),
        "verdicts": [{"holds": one.holds, "text": one.explain()} for one in made.findings],
    }


# --- the balance of risk and utility -----------------------------------------------------------------------------


def tune(project: Project, job: Job, progress: Progress) -> None:
    """Try the candidates of `balance.yaml`; the live map is written whenever one was tried, the other at the end."""
    from discretion.release.run import read_seed
    from discretion.release.tune import tune_plan
    from discretion.release.tune_result import TuneResult

    plan = Plan.load(project.folder / "balance.yaml")
    live = project.folder / LIVE_MAP
    live.unlink(missing_ok=True)
    cache = project.folder / "results" / "tuned"
    cache.mkdir(mode=0o700, exist_ok=True)
    last = 0.0

    def watch(found: TuneResult) -> None:
        nonlocal last
        if time.monotonic() - last > 2 * _EVERY:
            last = time.monotonic()
            write_json(live, map_of(project, found, done=False))

    seed = read_seed(project.folder / "seed")
    found = tune_plan(plan, seed=seed, cache=cache, progress=progress, watch=watch)
    write_json(project.folder / FULL_MAP, map_of(project, found, done=True))
    live.unlink(missing_ok=True)
    project.note(f"weighed {counted(len(found.points), 'setting')}", job["who"])


def map_of(project: Project, found: Any, *, done: bool) -> dict[str, Any]:
    """Draw the map of a search, its points as links, and list the points with the steps they stand for."""
    from discretion.release.report import risk_utility_map as drawing

    marks, link = drawing.map_of(found), f"{project.url}/balance?point={{}}"
    before = [method.to_plan() for method in found.before]
    shares = found.risk.is_share, found.utility.is_share
    points = [
        {
            "label": plain_label(point.label),
            "words": mark.words.replace(point.label, plain_label(point.label)),
            "risk": percent(point.risk) if shares[0] else f"{point.risk:.4g}",
            "utility": percent(point.utility) if shares[1] else f"{point.utility:.4g}",
            "by": title_of(point.leading),
            "on_front": mark.on_front,
            "best": mark.best,
            "allowed": mark.allowed,
            "unmet": [title_of(kind) for kind in point.unmet],
            "columns": columns_of(point.setting.to_plan()),
            "confirmed": mark.confirmed,
            "steps": [*before, *point.setting.to_plan()],
        }
        for point, mark in zip(found.points, marks.marks, strict=True)
    ]
    return {
        "wide": drawing.draw(marks, interactive=True, link=link),
        "narrow": drawing.draw(marks, interactive=True, width=drawing.NARROW, link=link),
        "points": points,
        "risk": found.risk.title,
        "utility": found.utility.title,
        "failed": [{"label": plain_label(one.setting.label), "reason": one.reason} for one in found.failed],
        "not_tried": [one.label for one in found.not_tried],
        "done": done,
    }


def columns_of(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name the columns that steps name."""
    fields = [inner or {} for step in steps for inner in step.values()]
    return list(dict.fromkeys(name for one in fields for name in one.get("columns", ())))


def plain_label(label: str) -> str:
    """Write a setting as a person reads it: `rank-swap (percent=5)` as `Rank swap, percent 5`."""
    kind, _, given = label.partition(" (")
    settings = [one.rpartition(".")[2].replace("_", " ").replace("=", " ") for one in given.rstrip(")").split(", ")]
    return ", ".join([title_of(kind), *filter(None, settings)])


def compare(project: Project, job: Job, progress: Progress) -> None:
    """Carry out some candidates on all rows and measure them alike, for a page that shows them side by side."""
    content = project.plan
    compared = []
    for one in job["wanted"]["candidates"]:
        changed = {**content, "steps": one["steps"]}
        measured(project, changed, progress)
        compared.append({**one, "key": project.key(None, changed)})
    write_json(project.folder / "compared.json", compared)


# --- tables ------------------------------------------------------------------------------------------------------

_MOST_CELLS = 3000


def table(project: Project, job: Job, progress: Progress) -> dict[str, Any]:
    """Carry out the table plan of the project; show it to its owner, and publish it where that is wanted."""
    from discretion.release.table_plan import TablePlan
    from discretion.release.table_run import run_table
    from discretion.tables.audit import Audit

    plan = TablePlan.load(project.folder / "table.yaml")
    made = run_table(plan, progress=progress)
    cells, audit = made.cells, made.audit
    intervals: dict[int, list[float]] = {}
    if isinstance(audit, Audit):
        bounds = zip(audit.cell, audit.low, audit.high, strict=True)
        intervals = {int(cell): [float(low), float(high)] for cell, low, high in bounds}
    released = cells.status.released if hasattr(cells, "status") and hasattr(cells.status, "released") else None
    shown = []
    for number in range(min(len(cells), _MOST_CELLS)):
        label = cells.label(number)
        true, out = float(cells.value[number]), None if released is None else float(released[number])
        state = "primary" if cells.primary[number] else "secondary" if cells.secondary[number] else ""
        between = intervals.get(number)
        words = "" if between is None else f"an attacker finds {between[0]:,.4g} to {between[1]:,.4g}"
        hidden = bool(cells.suppressed[number])
        shown.append({"by": label, "true": true, "out": out, "hidden": hidden, "state": state, "words": words})
    result = {
        "by": [dim.name for dim in cells.dims],
        "cells": shown,
        "more": max(len(cells) - _MOST_CELLS, 0),
        "holds": made.holds,
        "verdicts": [{"holds": one.holds, "text": one.text} for one in made.verdicts],
        "loss": {name.replace("_", " "): float(value) for name, value in made.loss.items()},
        "suppressed": int(cells.suppressed.sum()),
    }
    write_json(project.folder / "table.json", result)
    if job["wanted"].get("publish"):
        made.write(project.folder / "table-release", project.folder / "table-private", overwrite=True)
        project.note("published a table", job["who"])
    return {"holds": made.holds}


WORK: Mapping[str, Work] = {
    "table": table,
    "tune": tune,
    "compare": compare,
    "read": read,
    "steps": steps,
    "preview": preview,
    "attacks": attacks,
    "release": release,
}

if __name__ == "__main__":
    main()
