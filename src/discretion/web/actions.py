"""What can be done in a project, for the pages and the REST routes: each changes the plan or starts a job."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from discretion.data.documents import read_document, write_document
from discretion.data.hierarchy import Hierarchy, HierarchyLevels, canonical
from discretion.data.schema import ROLES, TYPES
from discretion.errors import DataError, DiscretionError, PlanError
from discretion.part import find, parse
from discretion.release.plan import Plan
from discretion.release.report.wording import counted, setting_text, title_of
from discretion.web.project import (
    K,
    Project,
    Projects,
    Workers,
    as_steps,
    hierarchy_files,
    last_job,
    output_of,
    require_kind,
    required_in,
    safe_file_name,
)

MOST_VALUES = 5000
"""Different values of a column up to which its hierarchy is tried in a page."""


@dataclass(frozen=True)
class Actions:
    """The projects and the workers that do long work in them."""

    projects: Projects
    workers: Workers
    data_folders: tuple[Path, ...] | None = None
    """folders below which files may be opened by their path, and nothing else outside of a project; None: anywhere, for
    who runs the server alone"""

    # --- opening -------------------------------------------------------------------------------------------------

    def open_path(self, name: str, path: str, who: str) -> Project:
        """Make a project of a file that stays where it is."""
        file = Path(path).expanduser()
        if self.data_folders is not None:
            file = file.resolve()
            if not any(file.is_relative_to(one) for one in self.data_folders) or file.is_relative_to(
                self.projects.root
            ):
                listed = ", ".join(map(str, self.data_folders)) or "none; upload the file"
                raise PlanError(f"this server opens files only below the folders it was started with: {listed}")
        project = self.projects.new(name or file.stem, who, data=file)
        self.read(project, who)
        return project

    def open_upload(
        self, name: str, file_name: str, content: IO[bytes], who: str, hierarchies: Sequence[tuple[str, IO[bytes]]] = ()
    ) -> Project:
        """Make a project of an uploaded file, and of hierarchies that came with it."""
        plain = safe_file_name(file_name)
        project = self.projects.new(name or _title(Path(plain).stem), who)
        try:
            _store(content, project.folder / "source" / plain)
            for label, one in hierarchies:
                _store(one, project.folder / "hierarchies" / safe_file_name(label))
        except BaseException:
            shutil.rmtree(project.folder, ignore_errors=True)
            raise
        output = output_of(project.folder / "source" / plain)
        project.save({**project.plan, "data": f"source/{plain}", "output": output}, f"uploaded {plain}", who)
        self.read(project, who)
        return project

    def open_demo(self, who: str) -> Project:
        """Make the demo, or give it where it is there."""
        project = self.projects.demo(who)
        job = last_job(project)
        if project.read() is None and not (job and job["state"] in ("waiting", "running")):
            self.read(project, who)
        return project

    def read(self, project: Project, who: str) -> str:
        """Read the file of a project (again)."""
        return self.workers.start(project, "read", "Read the data", who)

    def read_otherwise(
        self, project: Project, files: Sequence[tuple[str, IO[bytes]]], how: Mapping[str, str], who: str
    ) -> None:
        """Read another file into a project, or its file by another delimiter or encoding."""
        plan = project.plan
        before = plan["data"]["path"] if isinstance(plan["data"], Mapping) else plan["data"]
        output = plan["output"]
        for label, content in files:
            plain = safe_file_name(label)
            _store(content, project.folder / "source" / plain)
            before, output = f"source/{plain}", output_of(project.folder / "source" / plain)
        given = {name: text for name, text in how.items() if text}
        data = {"path": before, **given} if given else before
        self.require_inside({"data": data["path"] if given else data}, project)
        project.save({**plan, "data": data, "output": output}, "read the file otherwise", who)
        self.read(project, who)

    def delete(self, project: Project, who: str) -> None:
        """Remove a project with everything in its folder; a data file that stands elsewhere stays."""
        from discretion.web import service

        job = last_job(project)
        if job and job["state"] in ("waiting", "running"):
            raise PlanError("something is running in this project; wait for it, or cancel it")
        service.stop(project, who)
        aside = project.folder.with_name(f".{project.name}-deleted")  # at once for everybody, then file by file
        shutil.rmtree(aside, ignore_errors=True)
        project.folder.rename(aside)
        shutil.rmtree(aside)

    def add_hierarchies(self, project: Project, files: Sequence[tuple[str, IO[bytes]]], who: str) -> None:
        """Store hierarchy files; those whose name ends in that of a column are that column's from then on."""
        for label, one in files:
            _store(one, project.folder / "hierarchies" / safe_file_name(label))
        known = project.read() or {"columns": []}
        matched = hierarchy_files(project, [column["name"] for column in known["columns"]])
        plan = project.plan
        merged = {**plan.get("hierarchies", {}), **matched}
        project.save({**plan, "hierarchies": merged}, f"uploaded {len(files)} hierarchies", who)

    # --- roles ---------------------------------------------------------------------------------------------------

    def set_roles(
        self,
        project: Project,
        roles: Mapping[str, Sequence[str]],
        types: Mapping[str, str],
        hierarchies: Mapping[str, str],
        missing_codes: Mapping[str, Sequence[Any]],
        who: str,
        *,
        policy: str = "",
        edit_rules: Sequence[str] = (),
    ) -> None:
        """Confirm roles and types; `hierarchies`: for each column `proposed`, `plan`, the name of a file, or none."""
        known = {column["name"]: column for column in (project.read() or {"columns": []})["columns"]}
        for column, given in roles.items():
            require_kind(column, list(known), "column")
            for role in given:
                require_kind(role, ROLES, "role")
        for kind in types.values():
            require_kind(kind, TYPES, "type")
        plan = project.plan
        rules: dict[str, Any] = {}
        files = {file.name for file in (project.folder / "hierarchies").iterdir()}
        for column, choice in hierarchies.items():
            if choice == "plan" and column in plan.get("hierarchies", {}):
                rules[column] = plan["hierarchies"][column]
            elif choice == "proposed" and known[column]["hierarchy"]:
                rules[column] = known[column]["hierarchy"]
            elif choice in files:
                rules[column] = f"hierarchies/{choice}"
        first = not plan.get("confirmed", True)
        quasi = any("quasi" in given for given in roles.values())
        new = {
            **plan,
            "roles": {column: given[0] if len(given) == 1 else list(given) for column, given in roles.items()},
            "confirmed": None,
            "policy": policy or None,
            "waivers": plan.get("waivers") if policy == plan.get("policy") else None,
            "types": dict(types),
            "hierarchies": rules,
            "edit_rules": list(edit_rules),
            "missing_codes": {column: list(codes) for column, codes in missing_codes.items() if codes},
        }
        if first and quasi and not plan.get("requirements"):
            new["requirements"] = [{"k-anonymity": {"k": K}}]
        if policy:
            new = self._own_kept(new, project)
        self.checked(new, project)
        project.save(new, "chose the roles", who)
        if project.result() is None or not self.has_verdicts(project):
            self.workers.start(project, "steps", "Measure the data as it is", who)

    def set_hierarchy(self, project: Project, column: str, spec: Any, who: str) -> None:
        """Give a column a hierarchy, after it was tried on the values of the column."""
        levels_of(project, column, spec)
        plan = project.plan
        rules = {**plan.get("hierarchies", {}), column: spec}
        new = {**plan, "hierarchies": rules}
        self.checked(new, project)
        project.save(new, f"made a hierarchy of {column}", who)

    # --- steps ---------------------------------------------------------------------------------------------------

    def add_step(self, project: Project, spec: Mapping[str, Any], who: str, *, place: int | None = None) -> None:
        """Add a step, or put it in the place of another; it stands in the plan when it has been carried out."""
        ((kind, _),) = spec.items()
        made = parse(spec, "method").to_plan()
        steps = project.steps
        after = [*steps, made] if place is None else [*steps[:place], made, *steps[place + 1 :]]
        self.change_steps(project, after, title_of(kind), who)

    def change_steps(self, project: Project, steps: Sequence[Mapping[str, Any]], what: str, who: str) -> None:
        """Put other steps into the plan: at once where their results are known, by a job otherwise."""
        plan = project.plan
        new = {**plan, "steps": [dict(step) for step in steps]}
        self.checked({**new, "confirmed": None}, project)
        if not plan.get("roles") or plan.get("confirmed") is False:
            raise PlanError("choose the roles first: without them nobody knows what to protect")
        key = project.key(None, new)
        job = last_job(project)
        if job and job["state"] in ("waiting", "running"):
            raise PlanError("something is already running in this project; wait for it, or cancel it")
        if project.result("status", key) is not None:
            project.save(new, what, who)
            if not self.has_verdicts(project):
                self.judge(project, who)
        else:
            self.workers.start(project, "steps", what, who, steps=new["steps"])

    def undo(self, project: Project, who: str) -> None:
        """Drop the last step."""
        steps = project.steps
        if not steps:
            raise PlanError("there is no step to undo")
        self.change_steps(project, steps[:-1], f"Undo {title_of(next(iter(steps[-1])))}", who)

    def move(self, project: Project, number: int, by: int, who: str) -> None:
        """Put a step before or after its neighbor."""
        steps = project.steps
        other = number + by
        if not (0 <= number < len(steps) and 0 <= other < len(steps)):
            raise PlanError("there is no such step to exchange")
        steps[number], steps[other] = steps[other], steps[number]
        self.change_steps(project, steps, "Other order of the steps", who)

    def remove(self, project: Project, number: int, who: str) -> None:
        """Take a step out."""
        steps = project.steps
        if not 0 <= number < len(steps):
            raise PlanError("there is no such step")
        self.change_steps(project, steps[:number] + steps[number + 1 :], "Take out a step", who)

    def preview(self, project: Project, spec: Mapping[str, Any], who: str) -> None:
        """Try a step on a sample."""
        ((kind, _),) = spec.items()
        made = parse(spec, "method").to_plan()
        self.checked({**project.plan, "steps": [*project.steps, made], "confirmed": None}, project)
        self.workers.start(project, "preview", f"Try {title_of(kind)} on a sample", who, step=made)

    def attack(self, project: Project, who: str) -> None:
        """Run every attack that fits on the data as it is now."""
        self.workers.start(project, "attacks", "Attack the data", who)

    # --- requirements and publishing -----------------------------------------------------------------------------

    def has_verdicts(self, project: Project) -> bool:
        """Tell whether the present requirements were judged on the present data."""
        found = project.result("verdicts")
        return found is not None and found["of"] == required_in(project.plan)

    def judge(self, project: Project, who: str) -> None:
        """Judge the requirements on the data as it is now."""
        self.workers.start(project, "steps", "Check what must hold", who)

    def require(self, project: Project, spec: Mapping[str, Any], who: str) -> None:
        """Add a requirement: a privacy model, or a measure with `at_most` or `at_least`."""
        plan = project.plan
        before = plan.get("requirements")
        required = [*(before if isinstance(before, list) else []), dict(spec)]
        self._requirements(project, required, f"requires {title_of(next(iter(spec)))}", who)

    def drop_requirement(self, project: Project, number: int, who: str) -> None:
        """Take a requirement off."""
        required = list(project.plan.get("requirements") or [])
        if not 0 <= number < len(required):
            raise PlanError("there is no such requirement")
        ((kind, _),) = required.pop(number).items()
        self._requirements(project, required or "none", f"no longer requires {title_of(kind)}", who)

    def _requirements(self, project: Project, required: Any, what: str, who: str) -> None:
        new = {**project.plan, "requirements": required}
        self.checked({**new, "confirmed": None}, project)
        project.save(new, what, who)
        if project.result() is not None:
            self.judge(project, who)

    def set_policy(self, project: Project, name: str, who: str) -> None:
        """Put the plan under a policy, or under none: what it demands must hold too."""
        plan = project.plan
        new = {**plan, "policy": name or None}
        if name != plan.get("policy"):
            new["waivers"] = None  # they were allowed under the other one
        if name:
            new = self._own_kept(new, project)
        self.checked({**new, "confirmed": None}, project)
        project.save(new, f"under the policy {name}" if name else "under no policy", who)
        if project.result() is not None:
            self.judge(project, who)

    def add_policy(self, project: Project, file_name: str, content: IO[bytes], who: str) -> None:
        """Keep a policy of one's own house with the project, and put the plan under it."""
        from discretion.policy.policy import Policy

        place = project.folder / "policies"
        place.mkdir(mode=0o700, exist_ok=True)
        file = place / f"{Path(safe_file_name(file_name)).stem}.yaml"
        trial = place / f".{file.name}"
        _store(content, trial)
        try:
            self.require_inside({"extends": read_document(trial).content.get("extends")}, project)
            Policy.load(trial.name, place)
            trial.replace(file)
        finally:
            trial.unlink(missing_ok=True)
        self.set_policy(project, f"policies/{file.name}", who)

    def mend(self, project: Project, number: int, who: str) -> None:
        """Carry out the steps that were found to make a requirement hold."""
        verdicts = project.result("verdicts") if self.has_verdicts(project) else None
        found = verdicts["found"] if verdicts else []
        if not 0 <= number < len(found) or not (found[number].get("help") or {}).get("steps"):
            raise PlanError("there is nothing to be done about this by itself; choose a method on the page Protect")
        self.change_steps(project, found[number]["help"]["steps"], found[number]["help"]["do"], who)

    def waive(self, project: Project, waiver: Mapping[str, Any], who: str) -> None:
        """Record that somebody who may allows a requirement of the policy not to be kept, and why."""
        plan = project.plan
        kept = {key: value for key, value in waiver.items() if value not in ("", [])}
        self._waivers(project, [*plan.get("waivers", []), kept], f"waived {waiver.get('requirement')}", who)

    def unwaive(self, project: Project, number: int, who: str) -> None:
        """Take a waiver back."""
        waivers = list(project.plan.get("waivers", []))
        if not 0 <= number < len(waivers):
            raise PlanError("there is no such waiver")
        gone = waivers.pop(number)
        self._waivers(project, waivers, f"took back the waiver of {gone.get('requirement')}", who)

    def _waivers(self, project: Project, waivers: Sequence[Any], what: str, who: str) -> None:
        new = {**project.plan, "waivers": list(waivers)}
        self.checked({**new, "confirmed": None}, project)
        project.save(new, what, who)
        if project.result() is not None:
            self.judge(project, who)

    # --- balance -------------------------------------------------------------------------------------------------

    def weigh(self, project: Project, section: Mapping[str, Any], steps: Sequence[Any], who: str) -> None:
        """Try candidates: a plan with a `tune` section beside the plan, as `discretion tune` takes it."""
        plan = project.plan
        new = {**plan, "steps": list(steps), "tune": dict(section)}
        self.checked({**new, "confirmed": None}, project)
        kept = {key: value for key, value in new.items() if value not in (None, "", {}, [])}
        write_document(kept, project.folder / "balance.yaml", private=True)
        self.workers.start(project, "tune", "Weigh risk and utility", who)

    def compare(self, project: Project, numbers: Sequence[int], who: str) -> None:
        """Carry out two or three candidates of the map to see them side by side."""
        points = (project.map() or {"points": []})["points"]
        if not 2 <= len(numbers) <= 3 or not all(0 <= number < len(points) for number in numbers):
            raise PlanError("choose two or three settings to compare")
        chosen = [{"label": points[number]["label"], "steps": points[number]["steps"]} for number in numbers]
        self.workers.start(project, "compare", "Compare candidates", who, candidates=chosen)

    def take_point(self, project: Project, number: int, who: str) -> None:
        """Take the setting of a point of the map as the steps of the plan."""
        points = (project.map() or {"points": []})["points"]
        if not 0 <= number < len(points):
            raise PlanError("there is no such point on the map")
        self.change_steps(project, points[number]["steps"], f"Take {points[number]['label']}", who)

    def confirm(self, project: Project, entry: str, columns: Sequence[str], who: str) -> None:
        """Say that columns may go out although something speaks against it: what the gate asks for."""
        require_kind(entry, ("confirmed_other", "confirmed_telling"), "entry")
        plan = project.plan
        listed = list(dict.fromkeys([*plan.get(entry, []), *columns]))
        project.save({**plan, entry: listed}, f"confirmed {', '.join(columns)}", who)

    def publish(self, project: Project, who: str) -> None:
        """Carry out the saved plan and publish it."""
        plan = project.plan
        if not as_steps(plan.get("steps")) and plan.get("steps") != "none":
            raise PlanError("there are no steps: the original values would be published. Protect the data first")
        self.checked(plan, project)
        self.workers.start(project, "release", "Publish", who)

    # --- tables --------------------------------------------------------------------------------------------------

    def make_table(self, project: Project, section: Mapping[str, Any], who: str, *, publish: bool = False) -> None:
        """Make a table of the original data: a table plan beside the plan, as `discretion table` takes it."""
        from discretion.release.table_plan import TablePlan

        plan = project.plan
        copied = ("data", "types", "orders", "missing_codes", "seed_file")
        kept: dict[str, Any] = {name: plan[name] for name in copied if name in plan}
        roles = {name: role for name, role in plan.get("roles", {}).items() if role != "identifier"}
        content = {"title": f"Table of {project.name}", **kept, "roles": roles, "table": dict(section)}
        self.require_inside(content, project)
        file = project.folder / "table.yaml"
        trial = project.folder / ".table.yaml"
        write_document(content, trial, private=True)
        TablePlan.load(trial)
        trial.replace(file)
        self.workers.start(project, "table", "Publish the table" if publish else "Make the table", who, publish=publish)

    def set_plan(self, project: Project, content: Mapping[str, Any], who: str) -> None:
        """Take another plan as a whole (REST); data, seed and output stay those of the project."""
        plan = project.plan
        fixed = {name: plan.get(name) for name in ("data", "seed_file", "output")}
        new = {**content, **fixed}
        self.checked(new, project)
        project.save(new, "replaced the plan", who)
        self.workers.start(project, "steps", "Carry out the plan", who)

    def require_inside(self, content: Any, project: Project) -> None:
        """Refuse a document that names files of others: outside of the project nothing is read on a shared server."""
        if self.data_folders is None:
            return
        allowed = (project.folder.resolve(), *self.data_folders)
        others = self.projects.root.resolve()

        def strange(text: str) -> bool:
            try:
                place = (project.folder / text).resolve()
            except (OSError, ValueError):  # longer than a path can be, or none at all
                return "\0" in text
            inside = place.is_relative_to(allowed[0])
            return "://" in text or not (
                inside or (any(place.is_relative_to(one) for one in allowed) and not place.is_relative_to(others))
            )

        if found := [text for text in _texts(content) if strange(text)]:
            raise PlanError(f"{found[0]!r} lies outside of the project; upload the file instead")

    def checked(self, content: Mapping[str, Any], project: Project) -> Plan:
        """Refuse a plan that cannot be read, or names columns that are not there; every fault at once."""
        from discretion.release.plan_columns import check_columns

        kept = {key: value for key, value in content.items() if value not in (None, "", {}, [])}
        self.require_inside(kept, project)
        plan = Plan.from_dict(kept, project.folder)
        known = project.read()
        if known is not None:
            check_columns(plan, [column["name"] for column in known["columns"]])
        return plan

    def _own_kept(self, plan: dict[str, Any], project: Project) -> dict[str, Any]:
        """Leave out the group size that every project begins with, where the policy asks for a larger one."""
        begun = {"k-anonymity": {"k": K}}
        own = plan.get("requirements")
        if not isinstance(own, list) or begun not in own:
            return plan
        without = {**plan, "requirements": [one for one in own if one != begun]}
        required = self.checked({**without, "confirmed": None}, project).requirements
        return (
            without
            if any(getattr(one.part, "k", 0) > K and one.part.kind == "k-anonymity" for one in required)
            else plan
        )


def _store(content: IO[bytes], path: Path) -> None:
    """Write an uploaded file, for the owner alone."""
    import os

    temporary = path.with_name(f".{path.name}")
    with os.fdopen(os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
        shutil.copyfileobj(content, file, 1 << 20)
    temporary.replace(path)


def _texts(content: Any) -> Iterator[str]:
    """Give every text in a document that could name a file: not titles, and not who waived what why."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, Mapping):
        for key, value in content.items():
            yield from _texts(value) if key not in ("title", "by", "why") else ()
    elif isinstance(content, list | tuple):
        for value in content:
            yield from _texts(value)


def _title(stem: str) -> str:
    """Make the name of a project of that of a file."""
    return " ".join(stem.replace("_", " ").split())[:60].strip(" .-") or "project"


# --- hierarchies -------------------------------------------------------------------------------------------------


def values_of(project: Project, column: str) -> list[Any]:
    """Give the different values of a column, the missing ones aside; not more than a page can try."""
    import polars as pl

    file = project.folder / "results" / "original.parquet"
    known = {one["name"]: one for one in (project.read() or {"columns": []})["columns"]}
    if column not in known or not file.exists():
        raise LookupError(column)
    codes = {str(code) for code in known[column]["missing_codes"]}
    found = pl.scan_parquet(file).select(pl.col(column).drop_nulls().unique().sort()).head(MOST_VALUES).collect()
    return [value for value in found[column].to_list() if str(value) not in codes]


def span_of(project: Project, column: str) -> tuple[float, float] | None:
    """Give the smallest and the largest number of a column, between which cut points may lie; None of other columns."""
    import polars as pl

    file = project.folder / "results" / "original.parquet"
    if not file.exists() or not pl.read_parquet_schema(file)[column].is_numeric():
        return None
    values = pl.scan_parquet(file).select(low=pl.col(column).min(), high=pl.col(column).max()).collect().row(0)
    return None if values[0] is None else (float(values[0]), float(values[1]))


def levels_of(project: Project, column: str, spec: Any) -> HierarchyLevels:
    """Give what each value of a column becomes at each level."""
    if isinstance(spec, str):
        spec = str(project.folder / spec)
    values = values_of(project, column)
    levels = Hierarchy.of(spec).bind(values, column)
    levels.rows([canonical(value) for value in values])
    return levels


def hierarchy_status(project: Project, column: str, spec: Any) -> tuple[bool, str]:
    """Say whether a hierarchy can be used for a column: it covers all values, and its levels nest."""
    try:
        levels = levels_of(project, column, spec)
    except (DiscretionError, OSError) as error:
        return False, str(error)
    return True, f"covers all values; {counted(levels.height, 'level')} above them"


def words_of(step: Mapping[str, Any]) -> dict[str, str]:
    """Give a step as the pages show it: its title and its settings in words."""
    ((kind, fields),) = step.items()
    try:
        part = parse({kind: fields}, "method", "model", "risk", "utility")
        said = "; ".join(
            f"{name.replace('_', ' ')}: {setting_text(getattr(part, name), reveal=True)}" for name in part.settings()
        )
    except (PlanError, DataError):
        said = "; ".join(f"{name.replace('_', ' ')}: {value}" for name, value in (fields or {}).items())
    return {"kind": kind, "title": title_of(kind), "words": said, "summary": find(kind).summary()}
