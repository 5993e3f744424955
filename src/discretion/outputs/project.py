"""A research project: its results are computed, judged, remembered, put into a folder, and signed by a checker."""

from __future__ import annotations

import datetime as dt
import hashlib
import inspect
import json
import re
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from discretion.data.write import replacing
from discretion.errors import DataError, PlanError, RequirementNotMet, need, unknown
from discretion.outputs.judge import (
    LEFT_OUT,
    MISSING,
    Bools,
    Computable,
    Floats,
    GroupedRecords,
    Ints,
    Outcome,
    OutputFinding,
    OutputGroups,
    OutputLimits,
    class_disclosure,
    complementary,
    differences,
    dominated,
    empty_cells,
    percentile,
    regression,
    small_groups,
    trained_model,
    worst,
)
from discretion.policy.policy import Policy, Waiver

Decided = Literal["release", "refuse"]
_MANIFEST, _SIGNATURE = "manifest.json", "signature.json"


class ProjectMemory:
    """The private folder of a project: which records stand behind each result that was handed in and not refused."""

    def __init__(self, folder: Path, labels: Sequence[str]) -> None:
        self.folder = folder
        for place in (folder, folder / "requests", self.pictures):
            place.mkdir(parents=True, exist_ok=True)
            place.chmod(0o700)
        self._place = {label: number for number, label in enumerate(labels)}
        self.labels = list(labels)

    @property
    def pictures(self) -> Path:
        """Where pictures are drawn until they are handed in."""
        return self.folder / "pictures"

    def groups(self) -> list[OutputGroups]:
        """Give the records behind every result that was handed in and not refused, as places in the present data.

        Rows that the present data does not have any more are left out, new ones were not counted then.
        """
        found: list[OutputGroups] = []
        for state in sorted((self.folder / "requests").glob("*.json")):
            content = json.loads(state.read_text(encoding="utf-8"))
            with np.load(state.with_suffix(".npz"), allow_pickle=False) as arrays:
                kept = {name: arrays[name] for name in arrays.files}
            places = np.array([self._place.get(label, -1) for label in kept["labels"].tolist()], dtype=np.int64)
            for one in content["outputs"]:
                if one["decision"] == "refuse":
                    continue
                for key, names, variables in one["groups"]:
                    group = self._full(kept[key].astype(np.int64), places, LEFT_OUT)
                    values = {name: self._full(kept[f"{key}-{n}"], places, np.nan) for n, name in enumerate(variables)}
                    found.append(OutputGroups(one["name"], group, tuple(names), values))
        return found

    def _full(self, stored: Any, places: Any, nothing: float) -> Any:
        full = np.full(len(self.labels), nothing, dtype=stored.dtype)
        full[places[places >= 0]] = stored[places >= 0]
        return full

    def remember(self, request: str, outputs: Sequence[ResearchOutput]) -> None:
        """Keep what a request tells; it counts from now on, until a checker refuses it."""
        arrays: dict[str, Any] = {"labels": np.array(self.labels, dtype=np.str_)}
        content = []
        for number, one in enumerate(outputs):
            groups = []
            for part, own in enumerate(one.groups):
                key = f"{number}-{part}"
                arrays[key] = own.group.astype(np.int32)
                arrays |= {f"{key}-{n}": values for n, values in enumerate(own.values.values())}
                groups.append((key, list(own.names), list(own.values)))
            content.append({"name": one.name, "decision": "", "groups": groups})
        place = self.folder / "requests" / f"{request}.json"
        with replacing(place.with_suffix(".npz"), overwrite=False) as temporary, temporary.open("wb") as handle:
            np.savez_compressed(handle, **arrays)
        _write(place, {"format": "discretion-request-memory", "version": 1, "outputs": content})
        place.with_suffix(".npz").chmod(0o600)

    @staticmethod
    def decide(folder: str | Path, request: str, decisions: Mapping[str, Decided]) -> None:
        """Remember what the checker decided on each output of a request."""
        place = Path(folder) / "requests" / f"{request}.json"
        if not place.is_file():
            raise DataError(f"the project {str(folder)!r} knows nothing of this request; was it made elsewhere?")
        content = json.loads(place.read_text(encoding="utf-8"))
        for one in content["outputs"]:
            one["decision"] = decisions[one["name"]]
        _write(place, content)


def _write(place: Path, content: Mapping[str, Any]) -> None:
    with replacing(place, overwrite=True) as temporary:
        temporary.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    place.chmod(0o600)


def _sha256(place: Path) -> str:
    with place.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


@dataclass(frozen=True)
class Request:
    """A folder of results for the checker: files, verdicts and reasons, with the hash of everything."""

    folder: Path
    content: Mapping[str, Any]

    @classmethod
    def open(cls, folder: str | Path) -> Request:
        """Read a request."""
        place = Path(folder) / _MANIFEST
        if not place.is_file():
            raise DataError(f"no request at {str(folder)!r}; expected a folder with {_MANIFEST}")
        try:
            content = json.loads(place.read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise DataError(f"{_MANIFEST}: not valid JSON ({error})") from None
        if not isinstance(content, dict) or content.get("format") != "discretion-outputs":
            raise DataError(f"{_MANIFEST}: not the list of a request")
        return cls(Path(folder), content)

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict on each output."""
        return {one["name"]: one["verdict"] for one in self.content["outputs"]}

    @property
    def signature(self) -> dict[str, Any] | None:
        """What the checker signed, if anybody did."""
        place = self.folder / _SIGNATURE
        if not place.is_file():
            return None
        found: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
        return found

    def changes(self) -> list[str]:
        """Say what is not as it was handed in, or as it was signed."""
        found = []
        known = {_MANIFEST, _SIGNATURE, "review.md"}
        for one in self.content["outputs"]:
            for file in one["files"]:
                place = self.folder / file["file"]
                known.add(file["file"])
                if not place.is_file():
                    found.append(f"{file['file']} is missing")
                elif _sha256(place) != file["sha256"]:
                    found.append(f"{file['file']} was changed")
        found += [f"{one.name} was added" for one in sorted(self.folder.iterdir()) if one.name not in known]
        signed = self.signature
        if signed is not None and signed["manifest_sha256"] != _sha256(self.folder / _MANIFEST):
            found.append(f"{_MANIFEST} was changed after it was signed")
        return found

    def sign(
        self,
        project: str | Path,
        by: str,
        decisions: Mapping[str, Decided] | None = None,
        *,
        note: str = "",
        policy: Policy | None = None,
    ) -> dict[str, Any]:
        """Decide on the outputs and sign: the project remembers what was released, and what was refused.

        Without `decisions`, outputs that pass are released and all others refused. To release one that fails, the
        researcher must have asked for an exception, and the policy must let the checker (`NAME, FUNCTION`) waive it.
        """
        if not by.strip():
            raise PlanError("a signature needs the name of the checker (`NAME, FUNCTION`)")
        if self.signature is not None:
            raise DataError("the request is signed already; what was decided stays")
        if problems := self.changes():
            raise DataError("the request is not as it was handed in: " + "; ".join(problems))
        given = dict(decisions or {})
        names = {one["name"]: one for one in self.content["outputs"]}
        faults = [unknown("output", name, list(names)) for name in given if name not in names]
        chosen: dict[str, Decided] = {
            name: given.get(name, "release" if one["verdict"] == "pass" else "refuse") for name, one in names.items()
        }
        rules = policy or Policy.load(self.content["policy"]["name"])
        if rules.digest != self.content["policy"]["sha256"]:
            raise PlanError("the policy is not the one the outputs were judged by; give that one")
        for name, one in names.items():
            if chosen[name] != "release" or one["verdict"] != "fail":
                continue
            if not one["exception"]:
                faults.append(f"{name} fails, and nobody asked for an exception")
            elif reason := rules.refuses(Waiver(requirement="outputs", by=by, why=one["exception"])):
                faults.append(f"{name}: {reason}")
        if faults:
            raise RequirementNotMet("nothing was signed:\n  " + "\n  ".join(faults))
        signature = {
            "by": by,
            "at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "decisions": chosen,
            "note": note,
            "manifest_sha256": _sha256(self.folder / _MANIFEST),
        }
        ProjectMemory.decide(project, self.content["id"], chosen)
        _write(self.folder / _SIGNATURE, signature)
        return signature

    def export(self, folder: str | Path) -> list[Path]:
        """Copy the files of the released outputs to a new folder: what may leave the center."""
        signed, target = self.signature, Path(folder)
        if signed is None:
            raise RequirementNotMet("nobody has signed this request; nothing may leave")
        if problems := self.changes():
            raise DataError("the request is not as it was signed: " + "; ".join(problems))
        if target.exists():
            raise DataError(f"{str(folder)!r} exists; choose another folder")
        target.mkdir(parents=True)
        chosen = [one for one in self.content["outputs"] if signed["decisions"][one["name"]] == "release"]
        files = [file["file"] for one in chosen for file in one["files"]]
        return [Path(shutil.copyfile(self.folder / name, target / name)) for name in files]


def write_request(folder: Path, outputs: Sequence[ResearchOutput], policy: Policy, memory: ProjectMemory) -> Request:
    """Write the folder of a request, whole or not at all, and remember what it tells."""
    if folder.exists():
        raise DataError(f"{str(folder)!r} exists; choose another folder")
    new = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
    new.mkdir(parents=True)
    new.chmod(0o700)
    try:
        listed = [_put(one, new) for one in outputs]
        content = {
            "format": "discretion-outputs",
            "version": 1,
            "id": secrets.token_hex(16),
            "written": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "policy": {"name": policy.name, "sha256": policy.digest},
            "outputs": listed,
        }
        (new / _MANIFEST).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        (new / "review.md").write_text(_review(listed, policy), encoding="utf-8")
        memory.remember(str(content["id"]), outputs)
        new.rename(folder)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    return Request.open(folder)


def _put(one: ResearchOutput, folder: Path) -> dict[str, Any]:
    """Write the files of an output; give what the list says of it."""
    files = []
    stem = re.sub(r"[^\w.-]", "_", one.name)
    for number, table in enumerate(one.tables):
        place = folder / f"{stem}{'' if not number else f'_{number}'}.csv"
        table.to_csv(place)
        files.append(place)
    for file in one.files:
        place = folder / f"{stem}_{file.name}"
        shutil.copyfile(file, place)
        files.append(place)
    return {
        "name": one.name,
        "kind": one.kind,
        "command": one.command,
        "verdict": one.verdict,
        "reasons": list(one.reasons),
        "notes": list(one.notes),
        "comments": list(one.comments),
        "exception": one.exception,
        "files": [{"file": place.name, "sha256": _sha256(place)} for place in files],
    }


def _review(listed: Sequence[Mapping[str, Any]], policy: Policy) -> str:
    lines = [f"# Outputs for review (policy {policy.name})", ""]
    for one in listed:
        lines += [f"## {one['name']}: {one['verdict']}", "", f"{one['kind']}: `{one['command']}`", ""]
        lines += [f"- {text}" for text in (*one["reasons"], *one["notes"])]
        lines += [f"- comment: {text}" for text in one["comments"]]
        lines += [f"- exception asked for: {one['exception']}"] if one["exception"] else []
        lines += [f"- file: {file['file']}" for file in one["files"]]
        lines.append("")
    return "\n".join(lines)


_PERCENTILES = {"min": 0.0, "max": 1.0, "median": 0.5}
_LINEAR = ("mean", "sum", "std", "var", "sem")
_PURPOSE = "checking results"


@dataclass(frozen=True)
class ResearchOutput:
    """One result: what it is, how it came about, what the rules say, and what it shows."""

    name: str
    kind: str
    command: str
    findings: tuple[OutputFinding, ...]
    tables: tuple[Any, ...] = ()
    """what is shown, as pandas frames"""
    files: tuple[Path, ...] = ()
    """pictures, and files made elsewhere"""
    comments: tuple[str, ...] = ()
    exception: str = ""
    """why it should go out all the same, in the words of the researcher"""
    notes: tuple[str, ...] = ()
    """what was done to it: cells left out, counts rounded, steps put together"""
    groups: tuple[OutputGroups, ...] = field(default=(), repr=False)

    @property
    def verdict(self) -> Outcome:
        """Pass, review or fail: the strictest of the findings."""
        return worst(self.findings)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it is not simply let out."""
        return tuple(str(one) for one in self.findings)

    def __repr__(self) -> str:
        return f"ResearchOutput({'; '.join([f'{self.name}: {self.kind}, {self.verdict}', *self.reasons])})"


class ResearchProject:
    """Results of one research project on one data set, judged by a policy as they are computed.

    `folder` is kept by the research center: it remembers which records stand behind every result that was handed in,
    and must not be given to researchers' readers. `data` is the data set as a pandas or polars frame, or a path; rows
    are recognized by the index of pandas, by the column `id`, or by their place where a result uses all rows. `unit`
    names the column of people (or businesses) where one has several rows: people are counted, not rows. `suppress`
    leaves failing cells out of tables. Verbs are those of `acro` (see the page "From acro").

    Examples
    --------
    >>> import pandas as pd, tempfile
    >>> from discretion.outputs import ResearchProject
    >>> people = pd.DataFrame({"sex": ["f", "m"] * 60, "job": (["a"] * 38 + ["b"] * 2) * 3})
    >>> project = ResearchProject(tempfile.mkdtemp(), people)
    >>> table = project.crosstab(people.sex, people.job)
    >>> project.outputs["output_1"].verdict
    'fail'
    """

    def __init__(
        self,
        folder: str | Path,
        data: Any,
        *,
        id: str | None = None,  # noqa: A002 - the word of all other doors
        unit: str | None = None,
        policy: str | Path | Policy = "research-output",
        suppress: bool = False,
    ) -> None:
        self.policy = policy if isinstance(policy, Policy) else Policy.load(policy)
        self.limits = OutputLimits.of(self.policy)
        self.id, self.suppress, self.round_base = id, suppress, 0
        self.data = self._frame(data)
        if not len(self.data):
            raise DataError("the data has no rows; there is nothing to compute")
        if not self.data.index.is_unique:
            raise DataError("the rows of the data cannot be told apart: give `id`, a column with different values")
        self._place = {label: number for number, label in enumerate(self.data.index)}
        if unit is not None and unit not in self.data.columns:
            raise DataError(unknown("column", unit, list(self.data.columns)))
        pandas = self._pandas()
        codes = pandas.factorize(self.data[unit])[0] if unit is not None else np.arange(len(self.data))
        self.unit: Ints = np.where(codes < 0, codes.max(initial=0) + 1 + np.arange(len(codes)), codes).astype(np.int64)
        self.memory = ProjectMemory(Path(folder), [str(label) for label in self.data.index])
        self.outputs: dict[str, ResearchOutput] = {}
        self._number = 0
        self._seen: dict[bytes, Computable] = {}

    def __repr__(self) -> str:
        counts = {
            word: sum(one.verdict == word for one in self.outputs.values()) for word in ("pass", "review", "fail")
        }
        told = ", ".join(f"{number} {word}" for word, number in counts.items())
        return f"ResearchProject({len(self.data)} rows; {len(self.outputs)} outputs: {told}; policy {self.policy.name})"

    # --- tables -------------------------------------------------------------------------------------------------

    def crosstab(
        self,
        index: Any,
        columns: Any,
        values: Any = None,
        rownames: Sequence[str] | None = None,
        colnames: Sequence[str] | None = None,
        aggfunc: Any = None,
        margins: bool = False,
        margins_name: str = "All",
        dropna: bool = True,
        normalize: bool | str = False,
        show_suppressed: bool = False,
    ) -> Any:
        """Count records by the values of rows and columns, or aggregate `values` in the cells, as pandas does.

        Missing values are not counted, whatever `dropna` says of empty columns. Margins are those of the cells that
        are shown.
        """
        del dropna, show_suppressed  # as in acro: the one is decided here, the other has no meaning any more
        if (values is None) != (aggfunc is None):
            raise PlanError("crosstab: `values` and `aggfunc` go together")
        rows, cols = (self._keys(given, names) for given, names in ((index, rownames), (columns, colnames)))
        cols = {f"{name}_" if name in rows else name: series for name, series in cols.items()}
        named = {} if values is None else {str(getattr(values, "name", None) or "values"): self._series(values)}
        shape = _Shape(rows, cols, named, _functions(aggfunc), margins, margins_name, normalize)
        return self._table("crosstab", shape, _command())

    def pivot_table(
        self,
        data: Any,
        values: Any = None,
        index: Any = None,
        columns: Any = None,
        aggfunc: Any = "mean",
        fill_value: Any = None,
        margins: bool = False,
        dropna: bool = True,
        margins_name: str = "All",
        observed: bool = True,
        sort: bool = True,
        **_: Any,
    ) -> Any:
        """Aggregate columns of a frame in the cells of rows and columns, as pandas does; `fill_value` is ignored."""
        del fill_value, dropna, observed, sort
        frame = self._frame(data)
        rows, cols = ({name: frame[name] for name in _names(given)} for given in (index, columns))
        numbers = [n for n in frame.columns if frame[n].dtype.kind in "fiu" and n not in {*rows, *cols}]
        named = {name: frame[name] for name in (_names(values) or numbers)}
        shape = _Shape(rows, cols, named, _functions(aggfunc), margins, margins_name, False)
        return self._table("pivot_table", shape, _command())

    def describe(self, data: Any, columns: Sequence[str] | str | None = None, by: Any = None) -> Any:
        """Give number, mean and standard deviation of columns, and the 10th, 50th and 90th percentile; no extremes."""
        frame = self._frame(data)
        chosen = _names(columns) or [name for name in frame.columns if frame[name].dtype.kind in "fiu"]
        rows = {name: frame[name] for name in _names(by)}
        functions = ["count", "mean", "std", 0.1, 0.5, 0.9]
        shape = _Shape(rows, {}, {name: frame[name] for name in chosen}, functions, False, "All", False)
        return self._table("describe", shape, _command())

    def odds_ratio(self, exposure: Any, outcome: Any) -> float:
        """Give the odds ratio of two variables with two values each; the four counts behind it are judged."""
        rows, cols = self._keys(exposure, None), self._keys(outcome, None)
        kept = self.suppress, self.round_base
        self.suppress, self.round_base = False, 0
        try:
            table = self._table("odds_ratio", _Shape(rows, cols, {}, ["count"], False, "All", False), _command())
        finally:
            self.suppress, self.round_base = kept
        if table.shape != (2, 2):
            self.remove_output(self._last)
            raise DataError(
                f"an odds ratio needs two values in rows and columns, not {table.shape[0]} and {table.shape[1]}"
            )
        a, b, c, d = table.to_numpy(dtype=float).ravel()
        return float("inf") if not b * c else float(a * d / (b * c))

    def _table(self, kind: str, shape: _Shape, command: str) -> Any:
        """Judge the cells of a table by what is shown of them, leave out what fails if wanted, and show the rest."""
        pandas = self._pandas()
        keys = {**shape.rows, **shape.columns} or {"": pandas.Series("all", index=self._index_of(shape), name="")}
        frame = pandas.DataFrame(keys)
        where = self._places(frame)
        cells = (
            frame.groupby(list(frame.columns), observed=True, sort=True, dropna=True)
            .ngroup()
            .fillna(-1)
            .to_numpy(np.int64)
        )
        labels = frame.assign(_cell=cells).drop_duplicates("_cell").sort_values("_cell")
        labels = labels[labels["_cell"] >= 0].drop(columns="_cell")
        names = tuple(
            ", ".join(f"{n} = {v}" if n else "all" for n, v in row.items()) for row in labels.to_dict("records")
        )
        findings: list[OutputFinding] = []
        bad = np.zeros(len(names), dtype=bool)
        groups: list[OutputGroups] = []
        for variable in shape.values or {"": None}:
            own = shape.values.get(variable)
            numbers = None if own is None else own.reindex(frame.index).to_numpy(dtype=float, na_value=np.nan)
            found, wrong, judged = self._judge_cells(cells, where, names, labels, shape, variable, numbers)
            findings += [one for one in found if one not in findings]
            bad |= wrong
            groups.append(judged)
            if numbers is not None and judged.values and len(kinds := np.unique(numbers[~np.isnan(numbers)])) == 2:
                split = np.where(np.isnan(numbers) | (cells < 0), MISSING, 2 * cells + (numbers == kinds[1]))
                groups.append(self._groups(split, where, tuple(f"{n}, {v}" for n in names for v in kinds), {}))
        notes: tuple[str, ...] = ()
        hidden = np.zeros(len(names), dtype=bool)
        if self.suppress and bad.any():
            hidden = complementary(self._people(cells, where, len(names)), self.limits.min_count, bad)
            notes = (f"{int(hidden.sum())} cells were left out ({int(bad.sum())} fail, the others protect them)",)
            findings = [one for one in findings if one.rule not in _BY_CELL]
            groups = [_hide(one, np.repeat(hidden, len(one.names) // len(hidden))) for one in groups]
        if self.round_base and not shape.values:
            notes += (f"counts were rounded to multiples of {self.round_base}",)
            findings = [replace(one, outcome="review") if one.rule == "threshold" else one for one in findings]
        table = _show(pandas, frame, cells, hidden, shape, self.round_base)
        self._add(kind, command, findings, groups, tables=(table,), notes=notes)
        return table

    def _judge_cells(
        self, cells: Ints, where: Ints, names: tuple[str, ...], labels: Any, shape: _Shape, variable: str,
        numbers: Floats | None,
    ) -> tuple[list[OutputFinding], Bools, OutputGroups]:  # fmt: skip
        there = np.ones(len(cells), dtype=bool) if numbers is None else ~np.isnan(numbers)
        group = np.where(there & (cells >= 0), cells, MISSING)
        records = GroupedRecords(np.maximum(group, -1), self.unit[where], names)
        people = records.people()
        findings, bad = small_groups(people, names, self.limits)
        values: dict[str, Floats] = {}
        if numbers is None:
            rows, columns = (_lines(labels, list(given)) for given in (shape.rows, shape.columns))
            more, wrong = class_disclosure(people, rows, columns, names, self.limits)
            findings, bad = [*findings, *more], bad | wrong
            possible = len(np.unique(rows)) * len(np.unique(columns))
            findings += empty_cells(np.zeros(possible - len(names), dtype=np.int64))
        else:
            for function in shape.functions:
                more, wrong = self._judge_function(function, records, numbers)
                findings += [one for one in more if one not in findings]
                bad = bad | wrong
            if set(shape.functions) & set(_LINEAR):
                full = np.full(len(self.data), np.nan)
                full[where] = numbers
                values[variable] = full
        return findings, bad, self._groups(group, where, names, values)

    def _judge_function(
        self, function: Any, records: GroupedRecords, numbers: Floats
    ) -> tuple[list[OutputFinding], Bools]:
        share = function if isinstance(function, float) else _PERCENTILES.get(function)
        if share is not None:
            return percentile(records, numbers, share, self.limits)
        if function in _LINEAR:
            return dominated(records, numbers, self.limits)
        if function in ("count", "size"):
            return [], np.zeros(len(records), dtype=bool)
        text = f"nobody wrote a rule for {function!r}: look at what it tells of single people"
        return [OutputFinding("unknown function", "review", text)], np.zeros(len(records), dtype=bool)

    # --- models -------------------------------------------------------------------------------------------------

    def ols(self, endog: Any, exog: Any = None, missing: str = "none", **options: Any) -> Any:
        """Fit a linear regression by least squares with statsmodels; a constant is added by the caller."""
        return self._fit("ols", "OLS", endog, exog, missing, options, _command())

    def logit(self, endog: Any, exog: Any = None, missing: str = "none", **options: Any) -> Any:
        """Fit a logistic regression with statsmodels."""
        return self._fit("logit", "Logit", endog, exog, missing, options, _command())

    def probit(self, endog: Any, exog: Any = None, missing: str = "none", **options: Any) -> Any:
        """Fit a probit regression with statsmodels."""
        return self._fit("probit", "Probit", endog, exog, missing, options, _command())

    def olsr(self, formula: str, data: Any, **options: Any) -> Any:
        """Fit a linear regression given as a formula, as in R."""
        return self._fit_formula("olsr", "ols", formula, data, options, _command())

    def logitr(self, formula: str, data: Any, **options: Any) -> Any:
        """Fit a logistic regression given as a formula."""
        return self._fit_formula("logitr", "logit", formula, data, options, _command())

    def probitr(self, formula: str, data: Any, **options: Any) -> Any:
        """Fit a probit regression given as a formula."""
        return self._fit_formula("probitr", "probit", formula, data, options, _command())

    def _fit(
        self, kind: str, name: str, endog: Any, exog: Any, missing: str, options: Mapping[str, Any], command: str
    ) -> Any:
        api = need("statsmodels.api", _PURPOSE, "outputs")
        outcome = self._series(endog)
        pandas = self._pandas()
        design = exog if isinstance(exog, pandas.DataFrame) else self._frame(exog)
        results = getattr(api, name)(outcome, design, missing=missing, **options).fit(**_QUIET.get(name, {}))
        return self._judge_fit(kind, results, command)

    def _fit_formula(
        self, kind: str, name: str, formula: str, data: Any, options: Mapping[str, Any], command: str
    ) -> Any:
        api = need("statsmodels.formula.api", _PURPOSE, "outputs")
        quiet = _QUIET.get({"ols": "OLS", "logit": "Logit", "probit": "Probit"}[name], {})
        return self._judge_fit(kind, getattr(api, name)(formula, self._frame(data), **options).fit(**quiet), command)

    def _judge_fit(self, kind: str, results: Any, command: str) -> Any:
        pandas = self._pandas()
        model = results.model
        labels = model.data.row_labels
        if labels is None:
            raise DataError("the rows of the regression are not known: give pandas series and frames")
        used = pandas.DataFrame(np.asarray(model.exog), index=labels, columns=model.exog_names)
        used[model.endog_names] = np.asarray(model.endog)
        where = self._places(used)
        binary = kind.startswith(("logit", "probit"))
        design, outcome = np.asarray(model.exog, dtype=float), np.asarray(model.endog, dtype=float).ravel()
        findings = regression(design, outcome, self.unit[where], self.limits, binary=binary)
        cells, names = np.zeros(len(where), dtype=np.int64), ["estimation sample"]
        if any(one.rule == "saturated" for one in findings):
            cells = np.unique(design, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
            names = [f"cell {number}" for number in range(int(cells.max()) + 1)]
        group = self._groups(cells, where, names, {})
        if binary:  # the constant tells how many have the outcome
            group = self._groups(
                2 * cells + outcome.astype(np.int64), where, [f"{n}, {v}" for n in names for v in (0, 1)], {}
            )
        tables = tuple(pandas.DataFrame(part.data[1:], columns=part.data[0]) if part.data else pandas.DataFrame()
                       for part in results.summary().tables[:2])  # fmt: skip
        self._add(kind, command, findings, [group], tables=tables)
        return results

    def model(self, estimator: Any, data: Any) -> Any:
        """Judge a trained model (trees, support vectors, neighbors, …) that was fitted on the rows of `data`."""
        where = self._places(self._frame(data))
        findings = trained_model(estimator, len(where), self.limits)
        group = self._groups(np.zeros(len(where), dtype=np.int64), where, ("training data",), {})
        table = self._pandas().DataFrame({"model": [type(estimator).__name__], "settings": [str(estimator)]})
        self._add("model", _command(), findings, [group], tables=(table,))
        return estimator

    def surv_func(
        self, time: Any, status: Any, output: str = "table", title: str = "", filename: str = "kaplan-meier.png",
        **options: Any,
    ) -> Any:  # fmt: skip
        """Estimate the survival function (Kaplan-Meier) as a table or a plot (`output`).

        Each step tells when how many people had the event. With suppression, steps are put together until each stands
        for enough events, and the curve ends while enough people are at risk.
        """
        pandas, api = self._pandas(), need("statsmodels.api", _PURPOSE, "outputs")
        if output not in ("table", "plot"):
            raise PlanError(f"output: {unknown('kind', output, ('table', 'plot'))}")
        frame = pandas.DataFrame({"time": self._series(time), "status": self._series(status)}).dropna()
        where = self._places(frame)
        fitted = api.SurvfuncRight(frame["time"], frame["status"], **options)
        steps = fitted.summary()
        events, at_risk = (steps[name].to_numpy(dtype=float) for name in ("num events", "num at risk"))
        left = np.append(-np.diff(at_risk), at_risk[-1] if len(at_risk) else 0)
        small = ((events > 0) & (events < self.limits.min_count)) | (at_risk < self.limits.min_count)
        small |= (left - events > 0) & (left - events < self.limits.min_count)
        findings: list[OutputFinding] = []
        notes: tuple[str, ...] = ()
        kept = list(range(len(steps)))
        if small.any() and self.suppress:
            kept = _joined_steps(events, left, self.limits.min_count)
            notes = (f"{len(steps)} steps were put together into {len(kept)}",)
            steps = _coarse_steps(pandas, steps, events, left, kept)
        elif small.any():
            text = (
                f"{int(small.sum())} steps stand for fewer than {self.limits.min_count} events, exits or people at risk"
            )
            findings.append(OutputFinding("threshold", "fail", text))
        times = np.asarray(fitted.summary().index, dtype=float)[kept]
        interval = np.searchsorted(times, frame["time"].to_numpy(dtype=float), side="left")
        happened = frame["status"].to_numpy(dtype=float).astype(np.int64)
        groups = np.where(interval < len(times), 2 * interval + happened, 2 * len(times))
        named = tuple(f"interval {one // 2 + 1}, {('left', 'event')[one % 2]}" for one in range(2 * len(times) + 1))
        group = self._groups(groups.astype(np.int64), where, named, {})
        files: tuple[Path, ...] = ()
        if output == "plot":
            files = (
                self._draw(filename, lambda axes: axes.step(steps.index, steps["Surv prob"], where="post"), title),
            )
        self._add("survival", _command(), findings, [group], tables=(steps,), files=files, notes=notes)
        return steps if output == "table" else files[0]

    def survival_table(self, time: Any, status: Any, **options: Any) -> Any:
        """Give the survival function as a table."""
        return self.surv_func(time, status, output="table", **options)

    def survival_plot(self, time: Any, status: Any, **options: Any) -> Any:
        """Draw the survival function; gives the file."""
        return self.surv_func(time, status, output="plot", **options)

    # --- pictures -----------------------------------------------------------------------------------------------

    def hist(self, data: Any, column: str, bins: Any = 10, filename: str = "histogram.png", **_: Any) -> Path:
        """Draw a histogram of a column.

        A number of bins gives bins of equal width from and to a round number, so that the ends tell no extreme value;
        with suppression, bins of few people are joined with their neighbors.
        """
        frame = self._frame(data)
        column_values = frame[column].dropna()
        values = column_values.to_numpy(dtype=float)
        if not len(values):
            raise DataError(f"column {column!r} has no values")
        edges = _round_edges(values, int(bins)) if np.ndim(bins) == 0 else np.asarray(bins, dtype=float)
        where = self._places(column_values.to_frame())
        group = np.searchsorted(edges, values, side="right") - 1
        group = np.where(values == edges[-1], len(edges) - 2, group).astype(np.int64)
        group[(group < 0) | (group >= len(edges) - 1)] = LEFT_OUT
        names = [f"{column} from {a:g} to {b:g}" for a, b in pairwise(edges)]
        people = self._people(group, where, len(names))
        findings, small = small_groups(people, names, self.limits)
        notes: tuple[str, ...] = ()
        if small.any() and self.suppress:
            edges, group = _joined_bins(edges, group, people, self.limits.min_count)
            names = [f"{column} from {a:g} to {b:g}" for a, b in pairwise(edges)]
            findings, notes = [], (f"bins were joined into {len(names)}",)
        for end, edge in (("smallest", edges[0]), ("largest", edges[-1])):
            extreme = values.min() if end == "smallest" else values.max()
            if edge == extreme and (values == extreme).sum() < self.limits.min_count:
                findings.append(OutputFinding("extremes", "fail", f"the ends of the bins tell the {end} value"))
        shown = self._groups(group, where, tuple(names), {})
        counts = np.bincount(group[group >= 0], minlength=len(names))
        table = self._pandas().DataFrame({"from": edges[:-1], "to": edges[1:], "count": counts})
        width = np.diff(edges)
        file = self._draw(filename, lambda axes: axes.bar(edges[:-1], counts / width, width, align="edge"), column)
        self._add("histogram", _command(), findings, [shown], tables=(table,), files=(file,), notes=notes)
        return file

    def pie(self, data: Any, column: str, filename: str = "pie.png", **_: Any) -> Path:
        """Draw a pie chart of the values of a column; judged as a table of counts."""
        frame = self._frame(data)
        table = self._table("pie", _Shape({column: frame[column]}, {}, {}, ["count"], False, "All", False), _command())
        shown = table.iloc[:, 0].dropna()
        file = self._draw(filename, lambda axes: axes.pie(shown, labels=[str(label) for label in shown.index]), column)
        self.outputs[self._last] = replace(self.outputs[self._last], files=(file,))
        return file

    def figure(self, figure: Any, data: Any, filename: str = "figure.png") -> Path:
        """Judge a figure of matplotlib by what it draws; points that stand for single people fail (residuals too)."""
        where = self._places(self._frame(data))
        points = 0
        for axes in figure.axes:
            points += sum(len(one.get_offsets()) for one in axes.collections if hasattr(one, "get_offsets"))
            for line in axes.lines:  # without marks, a line with as many corners as people is theirs, too
                marked = line.get_marker() not in ("", "None", None, " ")
                points += len(line.get_xdata()) if marked or 2 * len(line.get_xdata()) >= len(where) else 0
        if points >= self.limits.min_count:
            findings = [
                OutputFinding(
                    "single people", "fail", f"{points} points are drawn: each can be read off and is a person"
                )
            ]
        else:
            findings = [
                OutputFinding("picture", "review", "what is drawn can be read off: look for extremes and small groups")
            ]
        file = self._picture(filename)
        figure.savefig(file)
        group = self._groups(np.zeros(len(where), dtype=np.int64), where, ("people drawn",), {})
        self._add("figure", _command(), findings, [group], files=(file,))
        return file

    # --- the outputs ---------------------------------------------------------------------------------------------

    def custom_output(self, filename: str | Path, comment: str = "") -> str:
        """Add a file that was made elsewhere: nobody could judge it, so that a checker must."""
        file = Path(filename)
        if not file.is_file():
            raise DataError(f"no file {str(filename)!r}")
        outcome: Outcome = "fail" if file.suffix.lower() in _WITH_DATA else "review"
        text = "may carry the data behind it" if outcome == "fail" else "was made elsewhere and could not be judged"
        finding = OutputFinding("made elsewhere", outcome, f"{file.name} {text}")
        self._add("custom", f"custom_output({file.name!r})", [finding], [], files=(file,))
        if comment:
            self.add_comments(self._last, comment)
        return self._last

    def rename_output(self, old: str, new: str) -> None:
        """Give an output another name."""
        self._known(old)
        if new in self.outputs:
            raise PlanError(f"there is an output {new!r} already")
        if not new or Path(new).name != new or new in (".", ".."):
            raise PlanError(f"{new!r} cannot be the name of a file; take letters, digits and _")
        self.outputs = {new if key == old else key: one for key, one in self.outputs.items()}
        groups = tuple(replace(one, output=new) for one in self.outputs[new].groups)
        self.outputs[new] = replace(self.outputs[new], name=new, groups=groups)

    def remove_output(self, name: str) -> None:
        """Take an output back: it is not handed in, and the others are judged without it from now on."""
        self._known(name)
        del self.outputs[name]
        self._judge_again()

    def add_comments(self, name: str, comment: str) -> None:
        """Tell the checker something about an output."""
        one = self._known(name)
        self.outputs[name] = replace(one, comments=(*one.comments, comment))

    def add_exception(self, name: str, reason: str) -> None:
        """Ask that an output goes out although it fails or needs a review, with the reason."""
        if not reason.strip():
            raise PlanError("an exception needs its reason")
        self.outputs[name] = replace(self._known(name), exception=reason)

    def enable_suppression(self) -> None:
        """Leave failing cells out of tables from now on."""
        self.suppress, self.round_base = True, 0

    def disable_suppression(self) -> None:
        """Show all cells of tables from now on; they are judged as before."""
        self.suppress = False

    def enable_rounding(self, base: int = 5) -> None:
        """Round counts from now on; small ones are for review then, not safe."""
        if base < 2:
            raise PlanError(f"base: expected a number of at least 2, got {base}")
        self.suppress, self.round_base = False, base

    def disable_rounding(self) -> None:
        """Show exact counts from now on."""
        self.round_base = 0

    def print_outputs(self) -> str:
        """List the outputs with verdict and reasons."""
        lines = []
        for one in self.outputs.values():
            lines.append(f"{one.name}: {one.verdict} ({one.kind}) {one.command}")
            lines += [f"  {text}" for text in (*one.reasons, *one.notes)]
            lines += [f"  comment: {text}" for text in one.comments]
            lines += [f"  exception asked for: {one.exception}"] if one.exception else []
        return "\n".join(lines)

    def finalise(self, path: str | Path) -> Request:
        """Write a folder for the checker: every output with its files, verdict, reasons and hashes.

        All outputs are judged once more, together and against what was handed in before. One that fails needs an
        exception with its reason, or must be removed.
        """
        if not self.outputs:
            raise PlanError("there are no outputs to hand in")
        self._judge_again()
        lacking = [one.name for one in self.outputs.values() if one.verdict == "fail" and not one.exception]
        if lacking:
            raise PlanError(
                f"these outputs fail: {', '.join(lacking)}; remove them, or ask for an exception (add_exception)"
            )
        return write_request(Path(path), list(self.outputs.values()), self.policy, self.memory)

    # --- inside ---------------------------------------------------------------------------------------------------

    @property
    def _last(self) -> str:
        return next(reversed(self.outputs))

    def _known(self, name: str) -> ResearchOutput:
        if name not in self.outputs:
            raise PlanError(unknown("output", name, list(self.outputs)))
        return self.outputs[name]

    def _add(
        self,
        kind: str,
        command: str,
        findings: Sequence[OutputFinding],
        groups: Sequence[OutputGroups],
        *,
        tables: tuple[Any, ...] = (),
        files: tuple[Path, ...] = (),
        notes: tuple[str, ...] = (),
    ) -> None:
        self._number += 1
        while (name := f"output_{self._number}") in self.outputs:
            self._number += 1
        own = tuple(replace(one, output=name) for one in groups)
        rounded = bool(self.round_base) and any(note.startswith("counts were rounded") for note in notes)
        found = [*findings, *(() if rounded else self._differences(own, list(self.outputs.values())))]
        self.outputs[name] = ResearchOutput(name, kind, command, tuple(found), tables, files, (), "", notes, own)

    def _differences(self, new: Sequence[OutputGroups], before: Sequence[ResearchOutput]) -> list[OutputFinding]:
        going = [one for one in before if one.verdict != "fail" or one.exception]
        earlier = [*self.memory.groups(), *(group for one in going for group in one.groups)]
        return differences(new, earlier, self.unit, self.limits, self._seen)

    def _judge_again(self) -> None:
        """Judge every output together with those before it: what one tells with another is held against the later."""
        judged: list[ResearchOutput] = []
        for one in self.outputs.values():
            own = [finding for finding in one.findings if finding.rule != "differencing"]
            rounded = any(note.startswith("counts were rounded") for note in one.notes)
            more = [] if rounded else self._differences(one.groups, judged)
            judged.append(replace(one, findings=(*own, *more)))
        self.outputs = {one.name: one for one in judged}

    def _groups(self, group: Ints, where: Ints, names: Sequence[str], values: dict[str, Floats]) -> OutputGroups:
        full = np.full(len(self.data), LEFT_OUT, dtype=np.int64)
        full[where] = group
        return OutputGroups("", full, tuple(names), values)

    def _people(self, group: Ints, where: Ints, size: int) -> Ints:
        return GroupedRecords(np.maximum(group, -1), self.unit[where], tuple(map(str, range(size)))).people()

    def _places(self, frame: Any) -> Ints:
        """Find the rows of the data that a frame or series holds, by its index."""
        if not frame.index.is_unique:
            raise DataError("a row occurs twice in what was given; every person may be counted once")
        places = [self._place.get(label, -1) for label in frame.index]
        if -1 in places:
            raise DataError("rows that the data of the project does not have: keep the index (or `id`) of its frame")
        n = len(places)
        if n < len(self.data) and places == list(range(n)) and not self._same_values(frame):
            raise DataError(
                "the rows were numbered anew, and nobody can tell which they are: keep the index, or give the "
                "project `id`"
            )
        return np.array(places, dtype=np.int64)

    def _same_values(self, frame: Any) -> bool:
        """Tell whether a frame agrees with the first rows of the data in a column that tells rows apart a little."""
        for name in (name for name in frame.columns if name in self.data.columns):
            given, own = frame[name], self.data[name].iloc[: len(frame)]
            numbers = given.dtype.kind in "biuf" and own.dtype.kind in "biuf"
            same = np.array_equal(given, own) if numbers else list(given.astype(str)) == list(own.astype(str))
            if same and own.nunique() > 1:
                return True
        return False

    def _pandas(self) -> Any:
        return need("pandas", _PURPOSE, "outputs")

    def _frame(self, data: Any) -> Any:
        """Give a pandas frame whose index tells the rows apart."""
        pandas = self._pandas()
        if isinstance(data, str | Path):
            from discretion.data.read import read

            data = read(data).frame
        if isinstance(data, pandas.Series):
            return data.to_frame()
        if not isinstance(data, pandas.DataFrame):
            if not hasattr(data, "to_pandas"):
                raise DataError("expected a frame of pandas or polars, or the path of a data file")
            data = data.to_pandas()
        if self.id is not None:
            if self.id not in data.columns:
                raise DataError(f"column {self.id!r} (`id`) is missing: nobody can tell which rows these are")
            data = data.set_index(self.id, drop=False)
        return data

    def _series(self, given: Any) -> Any:
        """Give a pandas series with the index of the data; an array or a polars series must have all rows."""
        pandas = self._pandas()
        if isinstance(given, pandas.Series):
            return given
        if isinstance(given, str):
            if given not in self.data.columns:
                raise DataError(unknown("column", given, list(self.data.columns)))
            return self.data[given]
        name = getattr(given, "name", None)
        values = given.to_list() if hasattr(given, "to_list") else list(given)
        if len(values) != len(self.data):
            raise DataError(
                f"{len(values)} values for {len(self.data)} rows: give a pandas series, whose index tells the rows"
            )
        return pandas.Series(values, index=self.data.index, name=name)

    def _keys(self, given: Any, names: Sequence[str] | None) -> dict[str, Any]:
        pandas = self._pandas()
        listed = isinstance(given, list | tuple) and not _plain(given, pandas, len(self.data))
        several = given if listed else [given]
        found: dict[str, Any] = {}
        for number, one in enumerate(several):
            series = self._series(one)
            name = names[number] if names else str(series.name if series.name is not None else f"row_{number}")
            while name in found:
                name += "_"
            found[name] = series
        return found

    def _index_of(self, shape: _Shape) -> Any:
        return next(iter(shape.values.values())).index

    def _draw(self, filename: str, draw: Callable[[Any], Any], title: str) -> Path:
        """Draw on new axes and save the picture; without pixels of its own for points."""
        figure = need("matplotlib.figure", "drawing", "outputs").Figure()
        axes = figure.add_subplot()
        draw(axes)
        axes.set_title(title)
        file = self._picture(filename)
        figure.savefig(file)
        return file

    def _picture(self, filename: str) -> Path:
        if Path(filename).suffix.lower() not in (".png", ".jpg", ".jpeg"):
            raise PlanError(f"{filename}: take .png or .jpg; drawings made of lines carry the figures behind them")
        place = self.memory.pictures / Path(filename).name
        number = 0
        while place.exists():
            place = place.with_name(f"{Path(filename).stem}_{number}{Path(filename).suffix}")
            number += 1
        return place


_BY_CELL = ("threshold", "class disclosure", "dominance", "p-percent", "extremes")
_QUIET: Mapping[str, dict[str, Any]] = {"Logit": {"disp": False}, "Probit": {"disp": False}}
_WITH_DATA = (".svg", ".gph", ".pkl", ".pickle", ".rds", ".rdata", ".dta", ".sav", ".fig", ".joblib")
"""Files that usually hold the data behind what they show."""


@dataclass(frozen=True)
class _Shape:
    """What a table has in rows and columns, and what is computed in its cells."""

    rows: Mapping[str, Any]
    columns: Mapping[str, Any]
    values: Mapping[str, Any]
    functions: Sequence[Any]
    margins: bool
    margins_name: str
    normalize: bool | str


def _show(pandas: Any, frame: Any, cells: Ints, hidden: Bools, shape: _Shape, base: int) -> Any:
    """Make the table that is shown: hidden cells are empty, and totals are those of the others."""
    shown = frame[(cells >= 0) & ~np.append(hidden, False)[np.maximum(cells, -1)]]
    if not shape.values:
        return _counts(frame, shown, shape, base)
    parts = {}
    for function in shape.functions:
        call = _aggregate(function)
        for name, values in shape.values.items():
            data = shown.assign(_value=values.reindex(shown.index))
            parts[_word(function), name] = _cells_of(frame, data, shape, call)
    if len(parts) == 1:
        return next(iter(parts.values()))
    if not shape.columns:
        joined = pandas.concat([one.iloc[:, 0].rename(key) for key, one in parts.items()], axis=1)
        joined.columns = pandas.MultiIndex.from_tuples(list(parts))
        return joined
    return pandas.concat(parts, axis=1)


def _counts(frame: Any, shown: Any, shape: _Shape, base: int) -> Any:
    counts = _cells_of(frame, shown.assign(_value=1), shape, lambda one: float(len(one)))
    inside = _cells_of(frame, frame.dropna().assign(_value=1), shape, lambda one: float(len(one)))
    counts = counts.where(counts.notna() | inside.reindex_like(counts).notna(), 0.0)  # nobody: a zero; hidden: empty
    if base:
        return (counts / base).round() * base
    if not shape.normalize:
        return counts.astype("Int64")
    inner = counts.iloc[:-1, :-1] if shape.margins else counts
    if shape.normalize in (True, "all"):
        return counts / inner.to_numpy(dtype=float, na_value=0.0).sum()
    axis = 1 if shape.normalize in ("index", 0) else 0
    return counts.div(inner.sum(axis=axis), axis=1 - axis)


def _cells_of(frame: Any, data: Any, shape: _Shape, call: Callable[[Any], float]) -> Any:
    """Aggregate `_value` in the cells, with margins where they are wanted; rows and columns are those of `frame`."""
    rows, columns = list(shape.rows), list(shape.columns)
    keys = [*rows, *columns] or list(frame.columns)
    found = data.groupby(keys, observed=True)["_value"].agg(call)
    every = frame.dropna().groupby(keys, observed=True).size().index
    table = found.reindex(every)
    table = table.unstack(columns) if columns and rows else table.to_frame("count" if not shape.values else "value")
    if not shape.margins:
        return table
    name = shape.margins_name
    if rows and columns:
        right = data.groupby(rows, observed=True)["_value"].agg(call).reindex(table.index)
        table[name if len(columns) == 1 else (name, *[""] * (len(columns) - 1))] = right
        below = data.groupby(columns, observed=True)["_value"].agg(call)
        last = [*below.reindex(table.columns[:-1]), call(data["_value"])]
    else:
        last = [call(data["_value"])]
    table.loc[name if len(rows) < 2 else (name, *[""] * (len(rows) - 1)), :] = last
    return table


def _aggregate(function: Any) -> Callable[[Any], float]:
    if isinstance(function, float):
        return lambda one: float(one.quantile(function))
    if callable(function):
        return lambda one: float(function(one))
    if function == "mode":
        return lambda one: float(one.mode().iloc[0]) if one.notna().any() else float("nan")
    if function in ("count", "size"):
        return lambda one: float(one.count())
    if function not in (*_LINEAR, *_PERCENTILES):
        known = (*_LINEAR, *_PERCENTILES, "count", "mode")
        raise PlanError(f"aggfunc: {unknown('function', str(function), known)}")
    return lambda one: float(getattr(one, function)()) if one.notna().any() else float("nan")


def _word(function: Any) -> str:
    if isinstance(function, float):
        return f"{100 * function:g}%"
    return function if isinstance(function, str) else getattr(function, "__name__", "function")


def _functions(aggfunc: Any) -> list[Any]:
    if aggfunc is None:
        return ["count"]
    return list(aggfunc) if isinstance(aggfunc, list | tuple) else [aggfunc]


def _names(given: Any) -> list[str]:
    return [] if given is None else [given] if isinstance(given, str) else list(given)


def _plain(given: Sequence[Any], pandas: Any, rows: int) -> bool:
    """Tell whether a list is the values of one variable, not a list of variables."""
    several = any(isinstance(one, pandas.Series | np.ndarray) or hasattr(one, "to_list") for one in given)
    return not several and (len(given) == rows or not all(isinstance(one, str) for one in given))


def _lines(labels: Any, keys: list[str]) -> Ints:
    """Number the row (or column) of each cell."""
    if not keys:
        return np.zeros(len(labels), dtype=np.int64)
    return np.asarray(labels.groupby(keys, observed=True, dropna=False).ngroup().to_numpy(), dtype=np.int64)


def _hide(one: OutputGroups, hidden: Bools) -> OutputGroups:
    """Count the records of hidden cells as left out."""
    gone = (one.group >= 0) & np.append(hidden, False)[np.maximum(one.group, -1)]
    return replace(one, group=np.where(gone, LEFT_OUT, one.group))


def _round_edges(values: Floats, bins: int) -> Floats:
    """Give bins of equal width between round numbers around the values."""
    low, high = float(values.min()), float(values.max())
    spread = (high - low) / max(bins, 1) or max(abs(high), 1.0)
    unit = 10.0 ** np.floor(np.log10(spread))
    width = unit * next(step for step in (1, 2, 2.5, 5, 10) if unit * step >= spread)
    first = np.floor(low / width) * width
    if first == low:
        first -= width
    last = first + width * (np.floor((high - first) / width) + 1)
    return np.arange(first, last + width / 2, width)


def _joined_bins(edges: Floats, group: Ints, people: Ints, least: int) -> tuple[Floats, Ints]:
    """Join bins with their right neighbors until each that has anybody has enough."""
    kept, held = [0], 0
    for number, count in enumerate(people):
        held += int(count)
        if held >= least and number < len(people) - 1 and people[number + 1 :].sum() >= least:
            kept.append(number + 1)
            held = 0
    place = np.searchsorted(np.array(kept), np.arange(len(people)), side="right") - 1
    joined = np.where(group >= 0, place[np.maximum(group, 0)], group)
    return np.append(edges[kept], edges[-1]), joined


def _joined_steps(events: Floats, left: Floats, least: int) -> list[int]:
    """Give the last steps of groups of steps with enough events and enough, or no, other exits, and people after."""
    kept: list[int] = []
    happened = gone = 0.0
    remain = left.sum()
    for number, (event, out) in enumerate(zip(events, left, strict=True)):
        happened, gone, remain = happened + event, gone + out - event, remain - out
        if happened >= least and (gone == 0 or gone >= least) and remain >= least:
            kept.append(number)
            happened = gone = 0.0
    return kept


def _coarse_steps(pandas: Any, steps: Any, events: Floats, left: Floats, kept: Sequence[int]) -> Any:
    """Make the survival table of groups of steps: all events of a group at its end."""
    rows, begin, at_risk, survival = [], 0, float(left.sum()), 1.0
    for end in kept:
        happened, gone = events[begin : end + 1].sum(), left[begin : end + 1].sum()
        survival = float(steps["Surv prob"].iloc[end])
        rows.append((steps.index[end], survival, int(at_risk), int(happened)))
        at_risk -= gone
        begin = end + 1
    names = ["Time", "Surv prob", "num at risk", "num events"]
    return pandas.DataFrame(rows, columns=names).set_index("Time")


def _command() -> str:
    """Give the line of the researcher's script that called a verb, or the verb where there is no script."""
    stack = inspect.stack()
    for frame in stack[2:]:
        if not frame.filename.endswith("outputs/project.py"):
            return " ".join(text.strip() for text in frame.code_context or ()) or f"{stack[1].function}(…)"
    return stack[1].function
