"""A study: original data, the steps so far, and what they gave."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discretion.context import Context, Progress, ignore_progress, new_seed
from discretion.data.dataset import Dataset
from discretion.display import table
from discretion.errors import DiscretionError, PlanError, unknown
from discretion.measure import Measure, Scores
from discretion.method import Decision, Method
from discretion.model import PrivacyModel, Verdict
from discretion.part import Part
from discretion.release.journal import OTHER_STEPS
from discretion.release.order import ORDERS, Order
from discretion.release.plan import Output, Plan, PrivacyBudget, Requirement, Shown, Step

if TYPE_CHECKING:
    from discretion.policy.policy import Policy, Waiver
    from discretion.release.earlier import Earlier
    from discretion.release.release import Release
    from discretion.release.report.page import Report


@dataclass(frozen=True)
class Done:
    """A step that was carried out: what it decided, and the data after it."""

    step: Step
    decision: Decision = field(repr=False)
    data: Dataset
    reused: bool = False
    """whether the decision was made on another delivery of the data"""
    drawn: bytes | None = field(default=None, repr=False)
    """the keys it drew from, a secret; None if it drew nothing"""
    earlier: str = ""
    """the journal of the release that carried it out, if this one is made from that"""

    @property
    def saved(self) -> Decision | None:
        """The decision, if it can be used again on other data."""
        return None if self.step.method.by_group or self.earlier else self.decision


@contextmanager
def _fitting(step: str, reused: bool) -> Iterator[None]:
    """Say that a saved decision does not fit its step, where using it breaks in ways no method foresees."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        if not reused or isinstance(error, DiscretionError):
            raise
        raise PlanError(f"step {step}: the saved decision does not fit this method; fit the step anew") from error


@dataclass(frozen=True)
class Study:
    """Protect step by step, look at risk and utility, undo. Every call gives a new study; nothing is changed in place.

    Examples
    --------
    >>> import discretion as dc
    >>> study = dc.Study(dc.datasets.census(1000, seed=1), seed=7)
    >>> study = study.apply(dc.DropIdentifiers()).apply(dc.RankSwap(columns=["income"], percent=10))
    >>> study.undo().steps[-1].kind
    'drop-identifiers'
    """

    original: Dataset
    seed: int = field(default_factory=new_seed, repr=False)
    done: tuple[Done, ...] = ()
    progress: Progress = field(default=ignore_progress, repr=False, compare=False)
    budget: PrivacyBudget | None = None
    """the privacy budget from which private steps are paid; undoing a step gives nothing back"""

    def __post_init__(self) -> None:
        if not isinstance(self.original, Dataset):
            object.__setattr__(self, "original", Dataset(self.original))

    def _repr_html_(self) -> str:
        rows = [(number, item.step.method.kind, item.step.method.summary()) for number, item in enumerate(self.done, 1)]
        title = f"Study of {len(self.original):,} records, now {len(self.current):,}"
        return table(title, ("", "step", "what it does"), rows, "" if rows else "No step so far.")

    @property
    def current(self) -> Dataset:
        """The data after the last step."""
        return self.done[-1].data if self.done else self.original

    @property
    def steps(self) -> tuple[Method, ...]:
        """The methods applied so far."""
        return tuple(item.step.method for item in self.done)

    @property
    def decisions(self) -> dict[str, Decision]:
        """What each step learned, by step id; can be re-used on the next delivery of the data."""
        return {item.step.id: saved for item in self.done if (saved := item.saved) is not None}

    @property
    def drawn(self) -> dict[str, bytes]:
        """The keys from which each step drew, by step id, without those that drew nothing; secret.

        Where one drew, what all steps do and which columns are left counts too: two files with the same noise and other
        classes are joined by the noise.
        """
        drawn = {item.step.id: item.drawn for item in self.done if item.drawn is not None}
        if not drawn:
            return {}
        made = [(item.step.method.kind, item.step.method.model_dump(mode="json")) for item in self.done]
        content = json.dumps([made, sorted(self.current.columns)], sort_keys=True, default=str)
        return {**drawn, OTHER_STEPS: content.encode()}

    @classmethod
    def from_release(cls, journal: str | Path, original: Dataset | None = None, *, seed: int | None = None) -> Study:
        """Start from published data, to make a coarser copy of it that tells no more; `journal` is its private folder.

        Measures compare with the original, which is read again as the earlier plan says, or given.
        """
        from discretion.release.earlier import Earlier
        from discretion.release.journal import input_facts

        earlier = Earlier.open({"journal": str(journal)})
        plan = earlier.plan
        data = plan.read() if original is None else original
        earlier.require_original(input_facts(plan if original is None else replace(plan, data={}), data))
        return cls(data, new_seed() if seed is None else seed).continuing(earlier)

    def continuing(self, earlier: Earlier) -> Study:
        """Give the study of an earlier release of the same original: its steps are done, its data is the current."""
        data = earlier.on(self.original)
        steps = (replace(step, id=f"earlier/{step.id}") for step in earlier.steps)
        done = tuple(Done(step, Decision.EMPTY, data, earlier=str(earlier.folder)) for step in steps)
        return replace(self, done=done)

    def context(self) -> Context:
        """Give the context from which the steps draw."""
        return Context(self.seed, "", self.progress)

    def apply(self, method: Method | Step, *, decision: Decision | None = None) -> Study:
        """Apply one more method; `decision` (or that of the step) re-uses what it learned on another delivery."""
        if not isinstance(method, Method | Step):
            raise PlanError(f"expected a method, got {type(method).__name__}")
        step = method if isinstance(method, Step) else Step(method, f"{len(self.done) + 1}-{method.kind}")
        ctx = self.context().within(step.id)
        saved = None if step.method.by_group else decision or step.decision
        if step.method.private and saved is None:
            self._require_row_by_row(step.method)
            if self.budget is not None:
                self.budget.charge(step.method, self.current)
        with _fitting(step.id, saved is not None):
            ran = step.method.run(self.current, ctx, saved)
        return replace(self, done=(*self.done, Done(step, ran.decision, ran.data, saved is not None, ran.drawn)))

    def _require_row_by_row(self, method: Method) -> None:
        """Refuse a private step after one that learned from the data: one person would have moved others."""
        learned = [
            item.step.method.kind
            for item in self.done
            if item.step.method.by_group or item.earlier or (item.decision.values and not item.reused)
        ]
        if learned and not any(item.step.method.private for item in self.done):
            raise PlanError(
                f"{method.kind} must come before {learned[0]}, which learns from the data: what it promises holds for "
                "rows that no other person has moved"
            )

    def undo(self, steps: int = 1) -> Study:
        """Drop the last step (or the last few)."""
        if not 1 <= steps <= len(self.done):
            raise PlanError(f"there are {len(self.done)} steps to undo, {steps} were asked for")
        return replace(self, done=self.done[:-steps])

    def scores(self, *measures: Measure) -> Scores:
        """Measure the current data against the original; without measures, a set chosen from roles and types."""
        from discretion.release.attack_set import default_measures

        chosen: Sequence[Measure] = measures or default_measures(self.original, self.current)
        return Scores(m.run(self.original, self.current, self.context().within(f"measure/{m.kind}")) for m in chosen)

    def check(self, *models: PrivacyModel) -> list[Verdict]:
        """Check privacy models on the current data."""
        ctx = self.context()
        return [model.run(self.current, ctx.within(model.kind), original=self.original) for model in models]

    def plan(
        self,
        *,
        measures: Sequence[Measure] = (),
        requirements: Sequence[Part] = (),
        title: str = "",
        fitted: bool = False,
        no_steps: bool = False,
        no_requirements: bool = False,
        confirmed_other: Sequence[str] = (),
        confirmed_telling: Sequence[str] = (),
        policy: str | Path | Policy | None = None,
        waivers: Sequence[Waiver | Mapping[str, Any]] = (),
    ) -> Plan:
        """Give the plan of what was done: the script that repeats it.

        A plan without steps or without requirements publishes only if it says so (`no_steps`, `no_requirements`);
        `confirmed_other` names columns of the role `other` that look like something others know and may go out,
        `confirmed_telling` columns that tell what was protected in another one and may go out. `policy` (a shipped one
        by its name, or a file) adds what it demands; `waivers` say what of it was waived, by whom and why.

        `fitted`: the plan carries what each step decided (cut points, matrices, noise scale), and run on the next
        delivery it uses that instead of deciding anew. Steps that work on rows together have nothing to re-use.
        Decisions may hold values of single people: such a plan is private.
        """
        required = tuple(Requirement(part) for part in requirements if isinstance(part, PrivacyModel))
        if len(required) < len(requirements):
            raise PlanError("requirements given here are privacy models; bounds on measures are written in the plan")
        from discretion.policy.policy import Policy, Waiver

        policy = Policy.load(policy) if isinstance(policy, str | Path) else policy
        return Plan(
            policy=policy,
            waivers=tuple(one if isinstance(one, Waiver) else Waiver(**one) for one in waivers),
            schema=self.original.schema,
            data=self.original.came_from,
            steps=tuple(
                replace(item.step, decision=item.saved if fitted else None) for item in self.done if not item.earlier
            ),
            measures=tuple(Shown(measure) for measure in measures),
            requirements=required,
            title=title,
            no_steps=no_steps,
            no_requirements=no_requirements,
            confirmed_other=tuple(confirmed_other),
            budget=self.budget,
            confirmed_telling=tuple(confirmed_telling),
            made_from={"journal": self.done[0].earlier} if self.done and self.done[0].earlier else {},
        )

    def report(self, *parts: Measure | PrivacyModel, path: str | Path | None = None, overwrite: bool = False) -> Report:
        """Sum up what was done: the steps, the columns, risk before and after, utility. For yourself, not to publish.

        Printed it is text, in a notebook a page; `path` also writes it, as a page if it ends in `.html`, else as text.
        Nothing else is written, and nothing is published. `parts` are measures to run (without any, a set chosen from
        roles and types) and models to check.

        Examples
        --------
        >>> import discretion as dc
        >>> study = dc.Study(dc.datasets.census(1000, seed=1), seed=7).apply(dc.Round(columns=["income"], base=100))
        >>> report = study.report(dc.KAnonymity(k=2), dc.Il1s(columns=["income"]))
        >>> str(report).splitlines()[-1].strip()
        'k-anonymity: does not hold'
        """
        from discretion.release.report.page import Report
        from discretion.release.run import conclude

        measures = [part for part in parts if isinstance(part, Measure)]
        models = [part for part in parts if isinstance(part, PrivacyModel)]
        if len(measures) + len(models) < len(parts):
            raise PlanError("report: expected measures and privacy models")
        made = Report(conclude(self.plan(measures=measures, requirements=models), self))
        if path is not None:
            made.write(path, overwrite=overwrite)
        return made

    def release(
        self,
        folder: str | Path | None = None,
        journal: str | Path | None = None,
        *,
        plan: Plan | None = None,
        format: str = "csv",  # noqa: A002 - the word users know
        order: Order = "permute",
        overwrite: bool = False,
        **options: Any,
    ) -> Release:
        """Check and publish the current data: data file and report in `folder`, the journal in another folder.

        The rows are put in a random order that the journal knows; `order="keep"` leaves them as they are. Without a
        folder nothing is written, and the release is only to look at. `options` are those of `plan`.
        """
        from discretion.release.gate import check_publishable
        from discretion.release.run import check_plan, check_roles, conclude

        if order not in ORDERS:
            raise PlanError(unknown("order", str(order), ORDERS))
        chosen = plan or replace(self.plan(**options), output=Output(format=format))
        if order == "keep":
            chosen = replace(chosen, order=order)
        check_plan(chosen)
        check_roles(self.original)
        if folder is not None:
            check_publishable(chosen, self.original, self.current.columns, made=bool(self.done))
        release = conclude(chosen, self)
        release.require()
        if folder is not None:
            release.write(folder, journal, overwrite=overwrite)
        return release
