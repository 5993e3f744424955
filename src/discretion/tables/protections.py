"""The ways to protect a table that a plan can name."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import (
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    Strict,
    WithJsonSchema,
    WrapValidator,
    model_validator,
)

from discretion.context import Context, new_seed
from discretion.part import HOLDS_PARTS, Columns, Family, FileName, Part, confidential
from discretion.tables.engines import Cost, Engine, engine_of

if TYPE_CHECKING:
    from discretion.tables.audit import Audit, ReleasedAudit
    from discretion.tables.cells import Cells
    from discretion.tables.rules.rule import Rule


class Asked(NamedTuple):
    """What a protection may use besides the table: randomness and progress, the rules applied, options of the audit."""

    ctx: Context
    rules: Sequence[Rule] = ()
    audit: Mapping[str, Any] = MappingProxyType({})

    def attack(self, cells: Cells) -> Audit:
        """Audit a table that shows true values."""
        return cells.audit(ctx=self.ctx.within("audit"), **self.options())

    def options(self) -> dict[str, Any]:
        """Give the options of the audit; `sums` true judges pairs of gaps too, false no sums at all."""
        options = {key: value for key, value in self.audit.items() if key not in ("sums", "chance_percent")}
        sums = self.audit.get("sums")
        return {**options, "rules": None if sums is None else self.rules if sums else ()}


class Protection(Part):
    """A way to protect a table: `protect(cells, asked)` gives what has the protected table as its `cells`."""

    model_config = ConfigDict(strict=True)

    family: ClassVar[Family] = "table-protection"
    meaning: ClassVar[str]
    """What a reader of the table must know of its protection."""
    shows_truth: ClassVar[bool] = False
    """Values that are shown are the true ones, so that nobody has to attack a table without a sensitive cell."""
    knows_earlier: ClassVar[bool] = False
    """Earlier releases are taken into account."""
    needs_records: ClassVar[bool] = False
    """Counts of the cells are not enough."""

    def __call__(self, cells: Cells, rules: Sequence[Rule] = (), *, seed: int | None = None) -> Any:
        """Protect a table to which the rules were applied; without a `seed` a secret one is drawn."""
        return self.protect(cells, Asked(Context(new_seed() if seed is None else seed, self.kind), rules))

    @abstractmethod
    def protect(self, cells: Cells, asked: Asked) -> Any:
        """Protect a table to which the rules were applied."""

    def attack(self, found: Any, asked: Asked) -> Audit | ReleasedAudit:
        """Attack what `protect` gave as the readers of the table could."""
        return asked.attack(found.cells)

    def facts(self, found: Any) -> dict[str, Any]:
        """Give what the private journal keeps of what `protect` gave."""
        kept = ("steps", "additive", "impossible", "moved", "gap", "cost", "changed")
        return {name: getattr(found, name) for name in kept if hasattr(found, name)}


def _as_written(value: Any, check: Callable[[Any], float]) -> float:
    check(value)
    return value  # type: ignore[no-any-return]


Number = Annotated[float, WrapValidator(_as_written)]
"""A number kept as written, whole or not: what is drawn depends on the options as they are."""


def _engine(value: Any) -> Engine:
    return engine_of(value, {})


class Suppress(Protection, kind="suppress"):
    """Suppress complementary cells so that sensitive cells cannot be computed from others, and audit the result.

    Protects against whoever adds and subtracts published cells, and against respondents who know their own part. Does
    not protect against knowledge from elsewhere, nor cells that no rule finds sensitive. Fields of the engine may stand
    beside it (`{engine: levels, singletons: false}`). In Python: `Cells.suppress`.

    References
    ----------
    Fischetti & Salazar (2001), Management Science 47(7); catalogue T4.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> given = pl.DataFrame({"row": list("aaabbb"), "col": list("xyzxyz"), "n": [1, 20, 30, 25, 9, 40]})
    >>> cells = dc.tables.from_cells(given, ["row", "col"], count="n").apply_rules([dc.Threshold(minimum=3)])
    >>> dc.Suppress(engine="levels")(cells, seed=0).holds
    True
    """

    meaning: ClassVar[str] = (
        "Sensitive cells are suppressed, and others with them, so that they cannot be computed back."
    )
    shows_truth: ClassVar[bool] = True
    knows_earlier: ClassVar[bool] = True

    engine: Annotated[
        Any,
        PlainValidator(_engine),
        PlainSerializer(lambda engine: engine.to_plan()),
        WithJsonSchema({"description": "an engine: its kind, or {kind: {fields}}"}),
        HOLDS_PARTS,
    ] = Field(default_factory=lambda: _engine("elimination"), json_schema_extra={"confidential": True})
    """how complementary cells are chosen: `elimination`, `levels` or `optimal`, with its fields"""
    cost: Cost | Annotated[tuple[float, ...], Strict(False)] | None = confidential(None)
    """what suppressing a cell costs: its value, its respondents, 1, or a number per cell; none given: `cost` of the
    engine"""

    @model_validator(mode="before")
    @classmethod
    def _with_fields_of_the_engine(cls, given: Any) -> Any:
        """Put fields that stand beside the engine into it."""
        beside = {name for name in given if name not in ("engine", "cost")} if isinstance(given, Mapping) else ()
        if not beside:
            return given
        own = {name: value for name, value in given.items() if name not in beside}
        engine = engine_of(given.get("engine", "elimination"), {name: given[name] for name in given if name in beside})
        return {**own, "engine": engine}

    def protect(self, cells: Cells, asked: Asked) -> Any:
        """Choose complementary cells and audit the table."""
        return cells.suppress(self.engine, cost=self.cost, audit=asked.options(), ctx=asked.ctx.within("suppress"))

    def attack(self, found: Any, asked: Asked) -> Audit:  # noqa: ARG002 - the audit was made with it
        """Give the audit that belongs to the suppression."""
        made: Audit = found.audit
        return made

    def facts(self, found: Any) -> dict[str, Any]:
        """Give the engine and what it says of its choice."""
        said = {key: value for key, value in found.facts.items() if isinstance(value, int | float | str | None)}
        return {"engine": {found.engine.kind: found.engine.model_dump(mode="json")}, **said}


class Restructure(Protection, kind="restructure"):
    """Roll categories up until no cell is sensitive, each time the step that loses fewest cells per sensitive one.

    Protects cells by publishing less detail; does not protect against knowledge of contributions that the rules do not
    look at. The steps are good, not proven best. In Python: `Cells.restructure`.

    References
    ----------
    Willenborg & de Waal (2001), Elements of Statistical Disclosure Control, ch. 6; catalogue T3.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> people = pl.DataFrame({"town": list("AAAABBBBC"), "ill": ["yes", "no"] * 4 + ["no"]})
    >>> rules = [dc.Threshold(minimum=2)]
    >>> cells = dc.tabulate(people, ["town", "ill"]).apply_rules(rules)
    >>> found = dc.Restructure(keep=["ill"])(cells, rules)
    >>> int(found.cells.primary.sum())
    0
    """

    meaning: ClassVar[str] = "Categories were combined until no cell was sensitive."
    shows_truth: ClassVar[bool] = True
    needs_records: ClassVar[bool] = True

    keep: Annotated[Columns, Strict(False)] = confidential(())
    """variables that are not touched"""
    ordered: Annotated[Columns, Strict(False)] = confidential(())
    """variables whose categories are put together with their neighbors only"""

    def protect(self, cells: Cells, asked: Asked) -> Any:
        """Combine categories."""
        return cells.restructure(asked.rules, keep=self.keep, ordered=self.ordered)

    def facts(self, found: Any) -> dict[str, Any]:
        """Give the steps."""
        return {"steps": [str(step) for step in found.steps]}


class _Rounding(Protection):
    base: Number = confidential(gt=0, examples=[5])
    """the number whose multiples are published"""

    def attack(self, found: Any, asked: Asked) -> ReleasedAudit:
        """Bound the sensitive cells as somebody can who knows base and steps."""
        from discretion.tables.audit import audit_rounded

        return audit_rounded(found, progress=asked.ctx.progress)


class RoundRandom(_Rounding, kind="round-random"):
    """Round every cell to a neighboring multiple of a base by chance, so that it is right on average.

    Gives an attacker an interval of two bases around each value. Does not protect against whoever sees the same cell
    rounded several times with other draws: use `keys`, or publish once. In Python: `Cells.round_random`.

    References
    ----------
    Nargundkar & Saveland (1972), Proc. Social Statistics Section, ASA; Hundepool et al. (2012), section 5.4.1;
    catalogue T5.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> cells = dc.tables.from_cells(pl.DataFrame({"town": list("ABC"), "n": [2, 7, 10]}), ["town"], count="n")
    >>> found = dc.RoundRandom(base=5)(cells, seed=1)
    >>> sorted(set((found.cells.status.released % 5).tolist()))
    [0.0]
    """

    meaning: ClassVar[str] = "Every cell was rounded up or down by chance, right on average; totals like other cells."

    totals: Literal["independent", "added"] = confidential("independent")
    """whether totals are rounded like other cells, or are the sums of rounded inner cells"""
    keys: bool = confidential(False)
    """whether the cell keys of the table decide, so that a cell is rounded alike in all tables"""

    def protect(self, cells: Cells, asked: Asked) -> Any:
        """Draw for every cell."""
        return cells.round_random(self.base, totals=self.totals, keys=self.keys, seed=asked.ctx.seed)


class RoundControlled(_Rounding, kind="round-controlled"):
    """Round every cell to a multiple of a base so that totals stay the sums of their parts, changing least.

    Gives an attacker who knows the base an interval of two bases (more with steps) around each value, narrowed by what
    the table adds up to. Does not hide that a cell is empty. In Python: `Cells.round_controlled`.

    References
    ----------
    Cox & Ernst (1982), INFOR 20(4); Salazar-González (2006), Computers & OR 33(12); catalogue T5.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> given = pl.DataFrame({"row": list("aabb"), "col": list("xyxy"), "n": [3, 4, 6, 9]})
    >>> cells = dc.tables.from_cells(given, ["row", "col"], count="n")
    >>> dc.RoundControlled(base=5)(cells, seed=0).steps
    0
    """

    meaning: ClassVar[str] = "Every cell was rounded so that totals are still the sums of their parts."

    max_steps: int = confidential(3, ge=0)
    """how many multiples beyond the neighboring ones a value may move where no table adds up otherwise"""
    seconds: Number = confidential(60.0, gt=0)
    """time after which the best table found is taken"""
    gap: Number = confidential(0.0, ge=0, lt=1)
    """share by which the sum of changes may be above the smallest"""

    def protect(self, cells: Cells, asked: Asked) -> Any:
        """Find the nearest table."""
        return cells.round_controlled(
            self.base, max_steps=self.max_steps, seconds=self.seconds, gap=self.gap, progress=asked.ctx.progress
        )


class Adjust(Protection, kind="adjust"):
    """Move every sensitive cell up or down beyond its protection level and adjust the others so that all adds up.

    Does not protect against a reader who knows the method, so that its audit never holds: such a table goes out by a
    decision that is kept with its reason. In Python: `Cells.adjust`.

    References
    ----------
    Castro (2006), European J. Oper. Res. 171(1); Hundepool et al. (2012), section 4.8; catalogue T6.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> given = pl.DataFrame({"row": list("aabb"), "col": list("xyxy"), "n": [1, 14, 16, 19]})
    >>> cells = dc.tables.from_cells(given, ["row", "col"], count="n").apply_rules([dc.Threshold(minimum=3)])
    >>> found = dc.Adjust()(cells, seed=1)
    >>> bool(found.cells.status.released[found.cells.primary].min() != 1)
    True
    """

    meaning: ClassVar[str] = (
        "Values were changed by chance so that no sensitive value is shown; totals are the sums of their parts."
    )

    weight: Literal["relative", "equal"] = confidential("relative")
    """whether changes count in shares of the value or as they are"""
    least_percent: Number = confidential(1.0, ge=0)
    """by how much of its value a sensitive cell moves at least"""
    limit_percent: Number | None = confidential(None, ge=0)
    """by how much of their value other cells may change; none given: as far as needed"""
    spread_percent: Number = confidential(100.0, ge=0)
    """how far beyond its level a sensitive cell may move, in percent of the level"""
    whole: bool | None = confidential(None)
    """whether values stay whole; none given: those of counts"""
    seconds: Number = confidential(20.0, gt=0)
    """time after which the best table found is taken"""
    gap: Number = confidential(0.05, ge=0, lt=1)
    """share by which the sum of changes may be above the smallest"""

    def protect(self, cells: Cells, asked: Asked) -> Any:
        """Draw how far sensitive cells move, and adjust the others."""
        return cells.adjust(seed=asked.ctx.seed, progress=asked.ctx.progress, **self.model_dump())

    def attack(self, found: Any, asked: Asked) -> ReleasedAudit:  # noqa: ARG002 - nothing is drawn
        """Check how far sensitive cells are from the truth."""
        from discretion.tables.audit import audit_adjusted

        return audit_adjusted(found.cells)


class Perturb(Protection, kind="perturb"):
    """Add noise to every cell that depends only on who is in it, so that a cell is the same in every table.

    Tables of counts take `variance` and `maximum`, tables of sums `sd_percent` and `maximum_percent`. Does not protect
    once the keys of the records are known; totals are not the sums of their parts. In Python: `Cells.perturb`.

    References
    ----------
    Fraser & Wooton (2005), UNECE/Eurostat work session; Giessing & Tent (2019); catalogue T6.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.tables.with_record_keys(dc.datasets.census(2000, seed=1), seed=7)
    >>> cells = dc.tabulate(people, ["region", "sex"], weight=False, record_key="record_key")
    >>> found = dc.Perturb(variance=2, maximum=5)(cells, seed=0)
    >>> bool(abs(found.cells.status.released - cells.value).max() <= 5)
    True
    """

    meaning: ClassVar[str] = (
        "Noise was added to every cell, the same in every table made with the same keys. Totals are perturbed "
        "like other cells and are not exactly the sums of their parts."
    )
    needs_records: ClassVar[bool] = True

    variance: Number | None = confidential(None, gt=0)
    """variance of the noise of counts"""
    maximum: int | None = confidential(None, ge=1)
    """largest deviation of a count"""
    forbidden: int = confidential(0, ge=0)
    """counts from 1 to this never appear"""
    stay: Number | None = confidential(None, ge=0, lt=1)
    """probability that a count does not change; none given: as the largest entropy has it"""
    sd_percent: Number | None = confidential(None, gt=0)
    """standard deviation of the noise of a sum, in percent of the largest contributions"""
    maximum_percent: Number | None = confidential(None, gt=0)
    """largest deviation of a sum, in percent of the largest contributions"""
    contributions: int = confidential(1, ge=1)
    """how many of the largest contributions of a cell get noise of their own"""
    key_file: FileName | None = confidential(None, path=True)
    """file of at least 16 secret bytes from which the keys of the records are made"""
    key_by: Annotated[Columns, Strict(False)] = confidential(())
    """columns that identify a record, with `key_file`"""

    def protect(self, cells: Cells, asked: Asked) -> Any:  # noqa: ARG002 - nothing is drawn
        """Look up the noise of every cell."""
        return cells.perturb(**self.model_dump(exclude={"key_file", "key_by"}))

    def attack(self, found: Any, asked: Asked) -> ReleasedAudit:
        """Weigh what is likely for somebody who knows the law of the noise."""
        from discretion.tables.audit import audit_perturbed

        chance = {name: asked.audit[name] for name in ("chance_percent",) if name in asked.audit}
        return audit_perturbed(found, progress=asked.ctx.progress, **chance)
