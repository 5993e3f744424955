"""A release: the published data, what was measured, whether it may go out, and how it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from discretion.context import SMALL_SEED
from discretion.data.dataset import Dataset
from discretion.data.rules import broken_rows, judge_rule, read_edit_rules
from discretion.display import figure, table
from discretion.errors import PlanError, RequirementNotMet, unknown
from discretion.measure import Measure, Score, Scores, as_percent
from discretion.release.earlier import public_words as compared_words
from discretion.release.earlier import unmet as together_unmet
from discretion.release.facts import one_digit, public_figures
from discretion.release.gate import Finding, check_publishable, dependence, is_limited, remedies, telling_pairs, unsaid
from discretion.release.journal import publishing, release_places
from discretion.release.plan import OUTPUT_FORMATS
from discretion.release.under_policy import policy_words

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset
    from discretion.method import Method
    from discretion.release.criteria import Codebook
    from discretion.release.earlier import Averaging, Lineage, Together
    from discretion.release.journal import SeedFile
    from discretion.release.plan import Plan
    from discretion.release.ranking import AttackerCard
    from discretion.release.study import Study


@dataclass(frozen=True)
class EditCheck:
    """One rule: how many records break it in the original, after each step, and in the release; None: not judged."""

    rule: str
    original: int | None
    after: tuple[tuple[str, int | None], ...]
    released: int | None
    undecided: int = 0
    """records of the release whose published ranges do not say whether they break it"""

    def to_dict(self) -> dict[str, Any]:
        """Give the check as plain data, with what each step added or mended."""
        return {
            "rule": self.rule,
            "original": self.original,
            "after": dict(self.after),
            "released": self.released,
            "undecided": self.undecided,
        }

    def explain(self) -> str:
        """Say it in words, for the internal side."""
        moves, before = [], self.original
        for step, count in self.after:
            if count != before:
                moves.append(f"{'not judged' if count is None else count} after {step}")
            before = count
        told = "; ".join([*moves, f"{'not judged' if self.released is None else self.released} in the release"])
        if self.undecided:
            told += f"; open: of {self.undecided} records the published ranges do not say it"
        elif self.released is None:
            told += " (open: its columns are not published, or show nothing that decides it)"
        return f"edit rule {self.rule}: {self.original} records break it in the original; {told}"


def edit_checks(release: Release) -> tuple[EditCheck, ...]:
    """Count the records that break each rule of the schema, state by state."""
    found = []
    for rule in read_edit_rules(release.study.original.schema.edit_rules):

        def count(data: Dataset, rule: Any = rule) -> int | None:
            rows = [broken_rows(rule, copy) for copy in data.copies()]
            return None if any(one is None for one in rows) else sum(int(one.sum()) for one in rows if one is not None)

        after = tuple((item.step.id, count(item.data)) for item in release.study.done)
        left = [judged for copy in release.data.copies() if (judged := judge_rule(rule, copy)) is not None]
        open_ = sum(int(one.undecided.sum()) for one in left)
        found.append(EditCheck(rule.text, count(release.study.original), after, count(release.data), open_))
    return tuple(found)


def public_words(checks: tuple[EditCheck, ...]) -> list[str]:
    """Say what anybody can count in the published file."""
    if not checks:
        return []
    judged = [one.released for one in checks if one.released is not None]
    broken = sum(count > 0 for count in judged)
    left = f"; open: {len(checks) - len(judged)} cannot be judged in it" if len(judged) < len(checks) else ""
    ranged = sum(one.undecided > 0 for one in checks)
    left += f"; open: in {ranged} the published ranges do not decide every record" if ranged else ""
    all_ = "no record breaks one" if left else "all hold in every record"
    kept = all_ if not broken else f"{broken} do not hold in every record"
    return [f"Of {len(checks)} edit rules {len(judged)} were checked in the published file; {kept}{left}."]


# What users of synthetic data must know: what is synthetic, what that means, how to combine copies, what it risks.

_SIMPLE = "variance T = ū·(k/n + 1/m): ū the mean of the copies' variances, k rows in a copy, n in the original"
_PARTLY = "variance T = ū + b/m: ū the mean of the copies' variances, b the variance of the estimates"


def synthetic_notes(release: Release) -> Iterator[str]:
    """Give the sentences for the public side; none where nothing is synthetic."""
    made = [done.step.method for done in release.study.done if done.step.method.makes_values]
    if not made:
        return
    yield from (_what(method, release) for method in made)
    yield (
        "Estimates from synthetic data are those of the model: relations that it does not contain are not in the data "
        "(see what the step does not keep, and the measures of utility). A finding that matters is confirmed on the "
        "original before it is published."
    )
    if len(release.data.copies()) > 1 and not release.is_private:
        yield _combining(made[-1], len(release.data.copies()))
    yield _risks(release)
    if release.data.has_new_rows and not release.is_private:
        yield from _not_tried(release)
    if (left := _not_attacked(release)) and not release.is_private:
        yield f"Columns that no attack compared: {', '.join(left)}."


def _not_attacked(release: Release) -> list[str]:
    """Name the columns that no attack compared: none that ran names them, or compares all."""
    asked = [one.part for one in release.plan.requirements]
    parts = [*(item.measure for item in release.measured), *asked]
    attacks = [part for part in parts if isinstance(part, Measure) and part.family == "risk"]
    compared: set[str] = set()
    for measure in attacks:
        named = {name for field in ("columns", "targets", "first", "second") for name in getattr(measure, field, ())}
        everything = measure.kind in ("closest-record", "singling-out")
        compared |= named or set(release.data.columns if everything else release.data.having("quasi"))
    return [name for name in release.data.columns if name not in {*compared, release.data.copy_column}]


def _what(method: Method, release: Release) -> str:
    if method.makes_rows:
        out = [name for name in release.study.original.columns if name not in release.data.columns]
        gone = f" Left out: {', '.join(out)}." if out else ""
        return (
            f"All rows are synthetic ({method.kind}): they were drawn from a model of the data, and none belongs to a "
            f"person. Every column is synthetic.{gone}"
        )
    columns = ", ".join(getattr(method, "columns", ()))
    some = " of some records" if getattr(method, "records", "all") == "risky" else ""
    return f"The values{some} in {columns} are synthetic ({method.kind}); rows and other columns are those of people."


def _combining(method: Method, copies: int) -> str:
    rule = _SIMPLE if method.makes_rows else _PARTLY
    return (
        f"There are {copies} synthetic copies in files of their own. Analyze each; the estimate is the mean over the "
        f"copies, with the {rule}, m = {copies} copies (`discretion.combine` computes it). Never stack the copies into "
        "one file."
    )


def _risks(release: Release) -> str:
    """Say that synthetic is not anonymous, with the figures of attacks that may be told."""
    said, risks = [], [item for item in release.measured if item.measure.family == "risk"]
    for item in risks:
        figures, detail = public_figures(release, item), item.after.detail
        # of keys the share that the file has: how many are alone with theirs depends on the size of the group
        attack = detail.get("found", detail.get("attack_rate", item.after.value))
        control, words = detail.get("control_found", detail.get("control_rate")), "people outside"
        if item.measure.kind in ("closest-record", "generator-membership"):
            control, words = detail["chance"], "by chance"
        if (drawn := getattr(item.measure, "sample", None)) is not None:
            words = f"with {drawn:,} people drawn from all, {words}"
        if figures is None or control is None:
            continue
        if figures.rounded:
            attack, control = one_digit(float(attack)), one_digit(float(control))
        same = sum(one.measure.kind == item.measure.kind for one in risks) > 1
        by = f" by {', '.join(known)}" if same and (known := getattr(item.measure, "columns", ())) else ""
        said.append(f"{item.measure.kind}{by} {as_percent(float(attack))} ({words} {as_percent(float(control))})")
    if release.is_private:
        told = "What attacks found is withheld: no privacy budget covers it."
    elif said:
        told = f"Attacks on people in the data: {'; '.join(said)}."
    elif release.data.has_new_rows:
        told = "No attack with a control group was run."
    else:
        told = "Its rows are those of people, and were attacked as those of any release."
    return f"Synthetic data is not anonymous by itself. {told}"


def _not_tried(release: Release) -> Iterator[str]:
    """Say that nobody tried to find out who is in the data."""
    tried = {item.measure.kind for item in release.measured} | {one.kind for one in release.findings}
    if not tried & {"generator-membership", "membership-inference"}:
        yield (
            "Whether somebody can find out who was in the data was not tried; the closest record does not show it "
            "(`generator-membership` does)."
        )


_PUBLIC_FILES = re.compile(r"data(?:-\d+)?\.\w+|report\.(?:html|json)|codebook\.(?:md|html|xml)")
_PRIVATE_FILES = re.compile(r"journal\.json|plan\.yaml|seed|decisions\.json|order\.npy|report\.html")


@dataclass(frozen=True)
class Measured:
    """A measure with its score before (where the original alone can be scored) and after."""

    measure: Measure
    before: Score | None
    after: Score
    publish: bool = False
    chosen: bool = True
    """whether the plan names it; the parameters of a measure that nobody chose are the same for all, and no secret"""

    @property
    def is_public(self) -> bool:
        """A score that depends on a confidential parameter would give it away, unless the plan publishes it."""
        secret = set(self.measure.confidential_fields()) & set(self.measure.settings())
        return self.publish or not self.chosen or not secret


@dataclass(frozen=True)
class Release:
    """Everything a finished run gave. `write` publishes it, `require` raises if it may not be published."""

    plan: Plan
    study: Study
    data: Dataset
    measured: tuple[Measured, ...]
    findings: tuple[Finding, ...]
    not_run: Mapping[str, str] = field(default_factory=dict)
    several: ClassVar[str] = "copies"
    """what several files of data are"""
    """measures that nobody asked for and that cannot run, with the reason: not a risk of zero"""

    def __repr__(self) -> str:
        lacking = " and ".join(self.without)
        if not all(finding.holds for finding in self.findings):
            state = "does not meet its requirements"
        elif not self.may_publish:
            state = f"has no {lacking} and does not say so" if lacking else "has columns that nobody confirmed"
            state = f"may not be published: {state}"
        else:
            state = f"may be published without {lacking}" if lacking else "may be published"
            state += f", but {self.unlimited}" if self.unlimited else ""
        return f"Release({len(self.data)} rows × {len(self.data.columns)} columns; {state})"

    def _repr_html_(self) -> str:
        rows = [
            (m.measure.kind, "" if m.before is None else figure(m.before.value), figure(m.after.value), m.after.better)
            for m in self.measured
        ]
        words = [f"{finding.kind}: {'holds' if finding.holds else 'does not hold'}" for finding in self.findings]
        return table(repr(self), ("measure", "before", "after", "better"), rows, "; ".join(words))

    @property
    def unlimited(self) -> str:
        """Which attack finds many people though no requirement limits it; empty where none does."""
        from discretion.release.ranking import FIND_RECORD, MANY_FOUND, rank_attacks

        found = []
        for item in self.measured:
            for one in rank_attacks([item.after]):
                columns = item.after.detail.get("columns") or ()
                free = not is_limited(self.findings, one.measure, columns, one.success)
                if free and one.aim == FIND_RECORD and not one.doubtful and one.gain > 0:
                    found.append((one.success, one.measure, columns))
        success, name, columns = max(found, key=lambda one: one[0], default=(0.0, "", ()))
        if success <= MANY_FOUND:
            return ""
        by = f" by {', '.join(columns)}" if columns else ""
        return f"{name}{by} finds {as_percent(success)} of the people, and no requirement limits it"

    @property
    def records(self) -> int:
        """The number of published records, in all copies."""
        return len(self.data)

    @property
    def suppressed_cells(self) -> Mapping[str, int]:
        """The number of suppressed cells of each published column that has any."""
        return self.data.suppressed_cells

    def counted(self, columns: Sequence[str]) -> list[Dataset]:  # noqa: ARG002 - one that is larger counts by columns
        """Give the data in which classes over some columns are counted: each copy."""
        return self.data.copies()

    @cached_property
    def changes(self) -> tuple[frozenset[str], ...]:
        """For each step the columns it changed or dropped."""
        from discretion.release.facts import changed_columns

        original, done = self.study.original, self.study.done
        befores = [original, *(item.data for item in done)]
        return tuple(
            frozenset(changed_columns(original if item.earlier else before, item.data))
            for item, before in zip(done, befores, strict=False)
        )

    @cached_property
    def lineage(self) -> Lineage:
        """The earlier releases that the plan names, and those that these name in turn."""
        from discretion.release.earlier import Lineage, lineage

        return lineage(self.plan, self.study.original) if self.plan.previous else Lineage()

    @cached_property
    def averaging(self) -> tuple[Averaging, ...]:
        """What averaging this release with the earlier ones that the plan names would tell; never for the public."""
        from discretion.release.earlier import averaging

        return averaging(self) if self.plan.previous else ()

    @cached_property
    def combined(self) -> tuple[Together, ...]:
        """What this release tells together with each earlier one that the plan names; never for the public."""
        from discretion.release.earlier import combined

        return combined(self) if self.plan.previous else ()

    @cached_property
    def joint(self) -> tuple[Finding, ...]:
        """The requirements that hold for this release alone and not for its numbers averaged with earlier ones."""
        from discretion.release.earlier import joint_findings

        return joint_findings(self) if self.plan.previous else ()

    @cached_property
    def by_sums(self) -> tuple[Finding, ...]:
        """The requirements that do not hold for who uses the sums that the edit rules declare."""
        from discretion.release.earlier import sum_findings

        return sum_findings(self) if self.study.original.schema.edit_rules else ()

    @cached_property
    def edit_checks(self) -> tuple[EditCheck, ...]:
        """How many records break each edit rule before, after every step and in the release; never for the public."""

        return edit_checks(self)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What everybody should know about the making of this release, in sentences."""
        return tuple(_notes(self))

    @property
    def is_private(self) -> bool:
        """Tell whether a step promises differential privacy, so that the public may learn nothing beside its result."""
        return any(item.step.method.private for item in self.study.done)

    def for_public(self) -> Release:
        """Give the release as the public may see it: of a private one without the measures that nobody chose.

        Which of them can be run follows from the original (a column without variation has no distribution to compare),
        and no budget covers that.
        """
        if not self.is_private:
            return self
        return replace(self, measured=tuple(item for item in self.measured if item.chosen), not_run={})

    @property
    def without(self) -> tuple[str, ...]:
        """What a release usually has and this one does not: steps, requirements."""
        lacking = {"steps": not self.study.done, "requirements": not self.findings}
        return tuple(name for name, lacks in lacking.items() if lacks)

    @cached_property
    def may_publish(self) -> bool:
        """Tell whether every requirement holds and the plan says all that publishing needs."""
        held = all(one.holds for one in self.findings) and all(one.holds for one in self.combined)
        return held and not self.joint and not self.by_sums and not unsaid(**self._published)

    @property
    def _published(self) -> dict[str, Any]:
        return {
            "plan": self.plan,
            "original": self.study.original,
            "columns": self.data.columns,
            "made": bool(self.study.done),
            "told": self._told,
        }

    @property
    def _told(self) -> list[list[str]]:
        """The published columns that tell another one, with what they tell."""
        return [] if self.dependence is None else telling_pairs(self.dependence)

    @cached_property
    def dependence(self) -> Score | None:
        """What published columns tell of others: as measured, or looked for now; None where rows cannot be matched."""
        every = [one for one in self.measured if one.measure.kind == "column-dependence" and not one.measure.settings()]
        # in the order of the original: rows put in another one would be copied, coded and compared again
        return every[0].after if every else dependence(self.study.original, self.study.current)

    def attacks(self) -> Scores:
        """Give the figures of all attacks that were run, as measures or as requirements."""
        judged = [finding.result for finding in self.findings if isinstance(finding.result, Score)]
        every = [*(item.after for item in self.measured), *judged]
        return Scores(score for score in every if score.family == "risk")

    def attackers(self) -> tuple[AttackerCard, ...]:
        """Give a card for each kind of attacker: what he knows and can do, and what was not tried and why."""
        from discretion.release.attack_set import unlinked
        from discretion.release.ranking import NOT_IN_PLAN, attacker_cards

        chosen, scores, earlier = NOT_IN_PLAN if self.plan.measures else "", self.attacks(), bool(self.plan.previous)
        left = unlinked(self.data, scores)
        return attacker_cards(scores, self.not_run, chosen=chosen, earlier=earlier, unlinked=left)

    def require(self) -> None:
        """Raise if a requirement does not hold, saying which and by how much."""
        unmet = [text for finding in self.findings if not finding.holds for text in self._explained(finding)]
        if unmet := unmet or together_unmet(self.combined, self.joint, self.by_sums):
            raise RequirementNotMet("nothing was published; not met:\n  " + "\n  ".join(unmet))

    def _explained(self, finding: Finding) -> list[str]:
        """Say by how much a requirement is missed, and what would help."""
        changed = frozenset[str]().union(*self.changes)
        helps = remedies(finding, self.study.original, self.data, changed)
        return [finding.explain(), *([f"  {helps}"] if helps else [])]

    def to_native(self) -> Any:
        """Give the published data in the frame library the original came in.

        The index of a pandas frame would tell the old order; rows in a new order are numbered anew.
        """
        native = self.data.to_native()
        permuted = self.plan.order == "permute" and hasattr(native, "reset_index")
        return native.reset_index(drop=True) if permuted else native

    def facts(self) -> dict[str, Any]:
        """Give the public facts of the release as plain data (the content of report.json)."""
        from discretion.release.facts import public_facts

        return public_facts(self)

    def codebook(self, files: Sequence[Mapping[str, str]] = ()) -> Codebook:
        """Give the codebook for users of the data; `files` has the name and the hash of each data file."""
        from discretion.release.criteria import Codebook

        return Codebook.of(self, files)

    def places(
        self, folder: str | Path, journal: str | Path | None = None, *, overwrite: bool = False
    ) -> tuple[Path, Path]:
        """Give the folders that `write` would write, or raise where it must not."""
        return check_places(self.plan, folder, journal, overwrite=overwrite)

    def write(
        self, folder: str | Path, journal: str | Path | None = None, *, overwrite: bool = False
    ) -> tuple[Path, Path]:
        """Write the public folder and the private journal, both whole or not at all; give their paths."""
        self.require()
        check_publishable(**self._published)
        public, private = self.places(folder, journal, overwrite=overwrite)
        seeds = self.seed_file()
        with publishing(public, private) as (new_public, new_private):
            written = self.write_data(new_public)
            digest = self._write_private(new_private, {public / name: digest for name, digest in written.items()})
            self._write_public(new_public, written, digest)
            if seeds is not None:
                seeds.remember(self.study.drawn)
        return public, private

    def seed_file(self) -> SeedFile | None:
        """Give the seed file from which the release drew, if it allows what was drawn; None where it has no say.

        It has none if the seed was given otherwise, and for a coarser copy of a release, which averaging cannot undo.
        """
        from discretion.release.journal import SeedFile

        path = self.plan.resolve(self.plan.seed_file) if self.plan.seed_file and not self.plan.made_from else None
        if path is None or not Path(path).is_file():
            return None
        found = SeedFile.read(path)
        if found.seed != self.study.seed:
            return None
        found.allow(self.study.drawn)
        return found

    def _write_public(self, folder: Path, written: Mapping[str, str], journal: str) -> None:
        import json

        from discretion.release.report.page import render

        files = [{"file": name, "sha256": digest} for name, digest in written.items()]
        facts = {**self.facts(), "data": files[0], **({self.several: files} if len(files) > 1 else {})}
        facts["journal_sha256"] = journal
        (folder / "report.json").write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        (folder / "report.html").write_text(render(self, internal=False), encoding="utf-8")
        book = self.codebook(files)
        for name, text in (("md", book.to_markdown()), ("html", book.to_html()), ("xml", book.to_ddi())):
            (folder / f"codebook.{name}").write_text(text, encoding="utf-8")
        folder.chmod(0o755)

    def input(self) -> dict[str, Any]:
        """Say what was read: records, columns, the file and its hash."""
        from discretion.release.journal import input_facts

        return input_facts(self.plan, self.study.original)

    def write_data(self, folder: Path) -> dict[str, str]:
        """Write the data, a file for each copy, and give the hashes of the files."""
        from discretion.data.write import write
        from discretion.release.journal import sha256_of

        kind = self.plan.output.format
        if kind not in OUTPUT_FORMATS:
            raise PlanError(f"output.format: {unknown('format', kind, OUTPUT_FORMATS)}")
        copies = self.data.copies()
        written = {}
        for number, data in enumerate(copies, start=1):
            file = folder / f"data{'' if len(copies) == 1 else f'-{number}'}.{OUTPUT_FORMATS[kind]}"
            write(data, file)
            written[file.name] = sha256_of(file)
        return written

    def write_order(self, path: Path) -> None:
        """Write for each published row its place in the original."""
        from discretion.release.journal import write_order

        write_order(path, self.study.original, self.data)

    def _write_private(self, folder: Path, published: Mapping[Path, str]) -> str:
        from discretion.release.journal import write_journal
        from discretion.release.report.page import render

        digest = write_journal(self, folder, published)
        report = folder / "report.html"
        report.write_text(render(self, internal=True), encoding="utf-8")
        report.chmod(0o600)
        return digest


def _notes(release: Release) -> Iterator[str]:
    from discretion.data.households import codes_lost, codes_without_definition
    from discretion.release.facts import dropped_alike
    from discretion.release.order import missing_words

    yield from synthetic_notes(release)
    yield from policy_words(release.plan.policy, release.plan.waivers)
    if "requirements" in release.without:
        yield "Published without requirements: nothing had to hold before publication."
    yield from public_words(release.edit_checks)
    if release.is_private:
        yield (
            "The rows are differentially private. Figures and pictures that compare them with the original are "
            "withheld here: no privacy budget covers them."
        )
    if "steps" in release.without:
        yield "Published without steps: apart from the columns that are left out, the values are the original ones."
    if release.study.seed < SMALL_SEED and release.study.drawn:
        yield (
            "The random numbers of this release come from a small seed: anybody who knows one original value can try "
            "all small seeds and undo the protection. It is a demonstration and must not be published."
        )
    if release.plan.made_from:
        yield "This file was made from an earlier release of the same data, by further steps; it tells no more."
    if release.plan.previous:
        yield "An earlier release of the same people exists; holding both tells more than either alone."
        yield from compared_words(release.combined)
        yield from release.lineage.lost_words()
    if any(getattr(step.method, "by_person", False) for step in release.plan.steps):
        yield (
            "A person's unchanged values carry the same noise in every release made this way: equal values tell which "
            "records of two releases belong together, and what one of them hides the other may show."
        )
    if alike := dropped_alike(release):
        yield (
            "Some groups of people were left out although they are large enough, because their values of "
            f"{' or '.join(alike)} are nearly all the same. Somebody who misses such a group here, and knows from "
            "elsewhere that it exists, learns that its people are alike in this."
        )
    if release.data.having("household") and release.data.suppressed_cells:
        yield (
            "Household numbers are published and values were taken out: where members of a household are alike, a "
            "value that is missing for one can be read off another. Counts of records that fit do not consider it."
        )
    lost = codes_lost(release.data)
    yield from missing_words(lost, codes_without_definition(release.data, release.plan.output.format == "spss"))


def check_places(
    plan: Plan, folder: str | Path, journal: str | Path | None, *, overwrite: bool = False, seed_file: str | None = None
) -> tuple[Path, Path]:
    """Give the public and the private folder of a release, if both may be written and keep what is secret apart."""
    seeds = (seed_file, plan.resolve(plan.seed_file) if plan.seed_file else None)
    files = (_PUBLIC_FILES, _PRIVATE_FILES)
    return release_places(folder, journal, secrets=filter(None, seeds), files=files, overwrite=overwrite)
