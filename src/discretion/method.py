"""Methods: ρ, from a Dataset to a protected Dataset."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from discretion.context import BATCH_ROWS, Context, Progress, ignore_progress, keyed_hash, new_seed
from discretion.data.dataset import Dataset, Piece
from discretion.data.households import Households, at_household_level, find_households, one_per_household
from discretion.data.native import bounding_numbers
from discretion.data.schema import Schema
from discretion.engines.scan import Scan
from discretion.errors import DataError, Infeasible, PlanError
from discretion.part import HOLDS_PARTS, Columns, Family, Part, Scale, index, instead, parse

_FEW_VALUES = 65_536
"""Texts with at most as many different values are hashed as their ranks among these."""


def fingerprint(data: Dataset, column: str, key: bytes) -> bytes:
    """Hash the values of a column, in their order, under a key: batches of 65,536 rows, then the batches together.

    Numbers count as numbers whatever their width, categories as text, NaN as missing: the same data gives the same
    fingerprint from pandas, polars and pyarrow, and from every file format that keeps its values. It is kept with the
    data. A fingerprint without a secret key would let people guess rare values: it must never be public.
    """
    known: dict[bytes, bytes] = data.cached(("fingerprint", column), dict)
    if key not in known:
        kind, look = _looking(data, column, key)
        digests = data.each_batch([column], lambda piece: keyed_hash(key, look(piece)))
        known[key] = keyed_hash(key, column, kind, str(len(data)), *digests)
    return known[key]


def _looking(data: Dataset, column: str, key: bytes) -> tuple[bytes, Callable[[Piece], bytes]]:
    """Give the kind of the column, and what writes a batch of it as bytes."""
    import polars as pl

    kind = data.kinds[column]
    if kind.is_numeric():
        return b"numbers", partial(_numbers, column, key)
    if kind in (pl.String, pl.Categorical, pl.Enum):
        texts = data.texts(column, _FEW_VALUES)
        if texts is None:
            return b"many texts", partial(_many_texts, column)
        listed = b"".join(len(text).to_bytes(8, "big") + text for text in texts)
        return b"texts" + listed, partial(_few_texts, column, texts)
    if kind.is_temporal() or kind == pl.Boolean:  # pandas has no dates without time
        return str(kind.base_type()).replace("Datetime", "Date").encode(), partial(_whole, column)
    return str(kind.base_type()).encode(), partial(_nested, column)


@lru_cache(maxsize=1)
def _pads(key: bytes) -> NDArray[np.uint64]:
    from discretion.kernels.hashing import MORE_KEYS

    pads = np.random.Philox(key=int.from_bytes(keyed_hash(key, "numbers")[:16], "big"))
    return np.asarray(pads.random_raw(BATCH_ROWS + MORE_KEYS), np.uint64)


def _numbers(column: str, key: bytes, piece: Piece) -> bytes:
    from discretion.kernels.hashing import hash_floats

    return hash_floats(piece.number(column), _pads(key)).tobytes()


def _whole(column: str, piece: Piece) -> bytes:
    import polars as pl

    series = piece.series(column)
    moments = series.cast(pl.Datetime("us")) if series.dtype == pl.Date else series
    timed = isinstance(moments.dtype, pl.Datetime | pl.Duration)
    whole = (moments.dt.cast_time_unit("us") if timed else moments).to_physical().cast(pl.Int64)
    return bytes(whole.is_null().to_numpy().tobytes() + whole.fill_null(0).to_numpy().tobytes())


def _nested(column: str, piece: Piece) -> bytes:
    return json.dumps(piece.series(column).to_list(), default=str).encode()


def _few_texts(column: str, texts: Sequence[bytes], piece: Piece) -> bytes:
    """Write texts as their ranks among the different ones."""
    coded = piece.data.codes(column)

    def make() -> NDArray[Any]:
        import polars as pl

        counts, rows = coded.counts_and_rows
        used = np.flatnonzero(counts)
        used = used[used != coded.missing]
        place = {text: rank for rank, text in enumerate(texts)}
        ranks = np.full(max(coded.size, 256), len(texts), np.uint8 if len(texts) < 256 else np.uint16)
        ranks[used] = [place[text.encode()] for text in coded.series.gather(rows[used]).cast(pl.String).to_list()]
        return ranks

    ranks = piece.data.cached(("ranks", column), make)
    codes = coded.codes[piece.start : piece.stop]
    narrow = ranks.dtype == np.uint8 == codes.dtype
    return codes.tobytes().translate(ranks.tobytes()) if narrow else ranks[codes].tobytes()


def _many_texts(column: str, piece: Piece) -> bytes:
    import polars as pl

    part = piece.series(column).cast(pl.String)
    lengths = part.str.len_bytes().cast(pl.Int64).fill_null(-1).to_numpy()
    return bytes(lengths.tobytes() + str(part.str.join("").item() or "").encode())


Purpose = Literal["take out", "blur groups", "hide exact numbers", "swap", "make up", "other"]
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
"""What a method is for, in the words and the order in which methods are offered."""
_DIGITS = 9
"""Digits of a decision's numbers that decide what is drawn."""


@dataclass(frozen=True)
class Decision:
    """What a method learned from the data and needs to rewrite it: small, plain, can be saved and re-used."""

    values: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    dropped: Any = field(default=None, repr=False, compare=False)
    """for rows that pass by in batches, the classes to drop as a frame; never saved, other data has other classes"""
    lookup: Any = field(default=None, repr=False, compare=False)
    """for rows that pass by in batches, what becomes of each class (an `engines.lookup.Lookup`); never saved either"""

    EMPTY: ClassVar[Decision]

    def __getitem__(self, key: str) -> Any:
        if key not in self.values:
            raise PlanError(f"the saved decision has no entry {key!r}; it belongs to another step: fit this one anew")
        return self.values[key]

    def to_json(self) -> str:
        """Write the decision as JSON."""
        return json.dumps(dict(self.values))

    def to_plan(self) -> dict[str, Any]:
        """Give the decision as plain data: mappings, lists, texts and numbers."""
        plain: dict[str, Any] = json.loads(self.to_json())
        return plain

    @classmethod
    def from_json(cls, text: str) -> Decision:
        """Read a decision that was saved."""
        return cls(MappingProxyType(json.loads(text)))


Decision.EMPTY = Decision()


@dataclass(frozen=True)
class Ran:
    """A method carried out on data: what came out, what was decided, and the keys it drew from."""

    data: Dataset
    decision: Decision
    drawn: bytes | None
    """the keys of its streams, a secret; None if it drew nothing"""


class Method(Part):
    """A protection method: `fit` summarizes and decides, `rewrite` changes the rows by the decision."""

    family: ClassVar[Family] = "method"
    by_group: ClassVar[bool] = False
    """Works on rows together; its decision cannot be re-used on new rows."""
    random: ClassVar[bool] = False
    """Draws, with the settings it has by default: another seed gives another result, and draws follow the rows."""
    seeded: ClassVar[bool] = True
    """The same seed gives the same result (false for differential privacy)."""
    private: ClassVar[bool] = False
    """Promises differential privacy: the public learns nothing else about the original, not even its number of rows."""
    makes_values: ClassVar[bool] = False
    """Draws values from a model, also whether there is one: a missing value may be filled, or one go missing."""
    perturbs: ClassVar[bool] = True
    """Publishes values that are not true (as opposed to less detailed ones)."""
    purpose: ClassVar[Purpose] = "other"
    """What it is for: where the web app offers it."""
    guarantee: ClassVar[str] = ""
    """One sentence for the public report: what holds after this step, and what does not."""
    effect: ClassVar[str] = ""
    """A sentence for those who use the data: how estimates from it are biased by this step (in the codebook)."""
    names_rows: ClassVar[tuple[str, ...]] = ("rows", "pairs")
    """Entries of the decision that name rows of the data; the rest are facts about the step."""

    def fit(self, data: Dataset, ctx: Context) -> Decision:  # noqa: ARG002
        """Summarize the data and decide; a method with nothing to learn returns the empty decision."""
        return Decision.EMPTY

    @abstractmethod
    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Change the rows by the decision."""

    @property
    def makes_rows(self) -> bool:
        """Tell whether the rows are new and belong to nobody: nothing can be matched with the data."""
        return False

    def on_part(self) -> Self:
        """Give the method as it is carried out again on some of the people, by attacks and measures."""
        return self

    def removes(self, schema: Schema) -> tuple[str, ...]:  # noqa: ARG002
        """Name the columns that the method takes out, so that a plan can be checked before it runs."""
        return ()

    def decide(self, data: Dataset, ctx: Context) -> Decision:
        """Fit, group by group where the method is applied within groups."""
        return self.fit(data, ctx)

    def perform(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Rewrite, group by group where the method is applied within groups."""
        return self.rewrite(data, decision, ctx)

    def facts(self, decision: Decision) -> dict[str, Any]:
        """Give what a decision tells besides the rows it names: counts, figures reached. For the journal only."""
        return _without(decision.to_plan(), self.names_rows)

    @property
    def cost(self) -> Any:
        """What a private method spends of a budget, as a `Cost` of `privacy.accounting`; None for all others."""
        return None

    def ready(self, data: Dataset) -> None:
        """Raise what is wrong with a private method for this data, before it is paid for; reads no values."""

    @property
    def draws(self) -> bool:
        """Tell whether the method may draw at all with these settings."""
        return True

    def reads(self, data: Dataset) -> tuple[str, ...]:
        """Name the columns that decide what the method draws: all those it looks at. All there are, unless it knows."""
        return data.columns

    def apply(self, data: Dataset, ctx: Context) -> Dataset:
        """Protect the data: fit, then rewrite."""
        return self.perform(data, self.decide(data, ctx), ctx).after(self, data)

    def run(self, data: Dataset, ctx: Context, saved: Decision | None = None) -> Ran:
        """Carry out a step of its own: like `apply`, but drawing from its stream; `saved`: an earlier decision.

        The stream follows from the step, its settings, the columns it reads and (to rewrite) the decision: with the
        same draws, two strengths or two deliveries would give the noise away.
        """
        if isinstance(data, Scan):
            self.refuse_scan(remote=data.store.remote)
        learns = saved is None and self.scale == "rows" and type(self).fit is not Method.fit
        if self.scale in ("memory", "columns", "blocks", "sampled") or learns:
            data.require_rows(self.kind)
        first = self._drawing(data, ctx, None)
        seen = data.projected(self.holds(data)) if isinstance(data, Scan) and self._by_columns else data
        decision = self.decide_on(seen, first) if saved is None else saved
        second = first if self.by_group else self._drawing(data, ctx, decision)
        if isinstance(data, Scan) and seen is not data:
            held, decision = self._perform_held(seen, decision, second)
            done: Dataset = data.replaced(self, held, second)
        elif isinstance(data, Scan):
            done, decision = self.perform_on(data, decision, second)
        else:
            done = self.perform(data, decision, second).after(self, data)
        used = {inner.stream.used: None for inner in (first, second) if inner.stream is not None}
        drawn = b"".join(key for key in used if key is not None) or None
        if drawn is not None:
            data.require_rows(f"{self.kind}, which draws for every record")
        return Ran(done, decision, drawn)

    def decide_on(self, data: Dataset, ctx: Context) -> Decision:
        """Decide on data that may stay in its files."""
        return self.decide(data, ctx)

    def perform_on(self, data: Scan, decision: Decision, ctx: Context) -> tuple[Scan, Decision]:
        """Rewrite rows that stay in their files by a decision; give it as it was carried out."""
        decision, lost = self.for_rows(data, decision)
        return data.advance(self, decision, ctx, lost), decision

    def for_rows(self, data: Scan, decision: Decision) -> tuple[Decision, int]:  # noqa: ARG002
        """Give a decision by which rows can be rewritten batch by batch, and the records that it drops."""
        return decision, 0

    def holds(self, data: Dataset) -> tuple[str, ...]:
        """Name the columns of which a method that works on all rows together must have all."""
        return self.reads(data)

    def _perform_held(self, seen: Dataset, decision: Decision, ctx: Context) -> tuple[Dataset, Decision]:
        """Rewrite columns of all rows, in blocks of similar records where the method says so and forms no groups."""
        if self.scale != "blocks" or bool(getattr(self, "by", ())):
            return self.perform(seen, decision, ctx), decision
        from discretion.engines.memory import in_blocks

        def rewrite(part: Dataset, inner: Context) -> Dataset:
            return self.perform(part, decision, inner)

        made = in_blocks(seen, self.holds(seen), getattr(self, "k", 1), rewrite, ctx)
        if made.blocks == 1:
            return made.data, decision
        told = {"blocks": made.blocks, "extra_loss_at_a_border": made.extra_loss}
        return made.data, Decision(MappingProxyType({**decision.values, **told}))

    def refuse_scan(self, remote: bool = False) -> None:
        """Raise if the method cannot be carried out on rows that stay in their files, or (`remote`) on a cluster."""
        if remote and self._by_columns:
            raise PlanError(
                f"{self.kind} needs whole columns in memory{' to work within groups' if self.scale == 'rows' else ''}, "
                "which do not come to the driver of a Spark cluster; use the engine `duckdb`, or a method that works "
                f"row by row: {', '.join(scaling('rows'))}"
            )
        if self.scale == "memory" or getattr(self, "by_person", False):
            with_ = " with `by_person`" if self.scale != "memory" else ""
            raise PlanError(
                f"{self.kind}{with_} needs all rows in memory{instead(self.kind)}; rows that stay in their files take "
                f"methods that work row by row or column by column ({', '.join(scaling())}), or read the data with the "
                "engine `memory`"
            )

    @property
    def _by_columns(self) -> bool:
        """Whether all rows of the columns that are read must be in memory, also because there are groups."""
        return self.scale in ("columns", "blocks") or (self.scale == "rows" and bool(getattr(self, "by", ())))

    def _drawing(self, data: Dataset, ctx: Context, decision: Decision | None) -> Context:
        def told() -> bytes:
            known = None if decision is None else _to_digits(decision.values)
            content = {"method": self.kind, "settings": self.model_dump(mode="json"), "decision": known}
            return json.dumps(content, sort_keys=True, default=str).encode()

        def read() -> bytes:
            columns = dict.fromkeys(self.reads(data))
            key = keyed_hash(ctx.secret, "fingerprint")
            return b"".join(fingerprint(data, name, key) for name in columns) or str(len(data)).encode()

        return ctx.keyed(told, read) if self.draws else ctx

    def __call__(self, data: Any, *, seed: int | None = None, progress: Progress = ignore_progress) -> Any:
        """Protect a frame or a Dataset; the same kind comes back. Without a seed the draws cannot be repeated."""
        ctx = Context(new_seed() if seed is None else seed, self.kind, progress)
        if isinstance(data, Dataset):
            return self.run(data, ctx).data
        with bounding_numbers(self.private):
            taken = Dataset(data)
        return self.run(taken, ctx).data.to_native()


def scaling(*scales: Scale) -> list[str]:
    """Name the methods whose data may be larger than memory, or only those of some scales."""
    chosen = scales or tuple(one for one in get_args(Scale) if one != "memory")
    methods = [entry for entry in index().values() if entry.family == "method"]
    return sorted(entry.kind for entry in methods if entry.load().scale in chosen)


def _to_digits(plain: Any) -> Any:
    """Round the numbers of a decision: processors differ in the last digits, and must draw the same.

    Gives it as JSON reads it back, but shares its texts: those of a generator are as large as the data.
    """
    if isinstance(plain, float):
        return float(f"{plain:.{_DIGITS}g}")
    if isinstance(plain, Mapping):
        names = {key: key if isinstance(key, str) else next(iter(json.loads(json.dumps({key: 0})))) for key in plain}
        return {names[key]: _to_digits(value) for key, value in plain.items()}
    return [_to_digits(value) for value in plain] if isinstance(plain, list | tuple) else plain


def _without(values: Mapping[str, Any], names: Container[str]) -> dict[str, Any]:
    """Leave out some entries of a decision, also of the decisions of groups and of households inside it."""
    kept = {name: value for name, value in values.items() if name not in names}
    if "groups" in kept:
        kept["groups"] = {key: _without(inner, names) for key, inner in kept["groups"].items()}
    if "households" in kept:
        kept["households"] = _without(kept["households"], names)
    return kept


def _accept(value: Any) -> Method:
    part = value if isinstance(value, Method) else parse(value, "method")
    if not isinstance(part, Method):
        raise PlanError("expected a method")
    return part


AnyMethod = Annotated[
    Any,
    PlainValidator(_accept),
    PlainSerializer(lambda method: method.to_plan()),
    WithJsonSchema({"description": "a method: its kind, or {kind: {fields}}"}),
    HOLDS_PARTS,
]
"""A method as a field: a Method, its kind, or `{kind: {fields}}`."""


class StratifiedMethod(Method):
    """A method that can be applied separately within groups of records, or to households as wholes."""

    by: Columns = ()
    """columns whose combinations of values form groups; the method runs within each. The role `household`: it runs
    once on one record per household, and all members get the same change"""

    def decide(self, data: Dataset, ctx: Context) -> Decision:
        """Fit each group on its own, or the households."""
        if not self.by:
            return self.fit(data, ctx)
        if (homes := self._households(data)) is not None:
            known = self._unstratified.decide(one_per_household(data, homes, self._unstratified.settings()), ctx)
            return Decision(MappingProxyType({"households": dict(known.values)}))
        groups: dict[str, dict[str, Any]] = {}
        for key, rows in ctx.engine.groups(data, self._strata(data)):
            _check_new(key, groups)
            with _naming_group(key, len(rows), self.by):
                groups[key] = dict(self.fit(data.take(rows), ctx.within(key)).values)
        return Decision(MappingProxyType({"groups": groups}))

    def perform(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Rewrite each group by its own decision, or the households."""
        if not self.by:
            return self.rewrite(data, decision, ctx)
        if (homes := self._households(data)) is not None:
            inner, known = self._unstratified, Decision(MappingProxyType(decision["households"]))
            return at_household_level(data, homes, inner.settings(), lambda one: inner.perform(one, known, ctx))

        seen: set[str] = set()

        def rewrite(key: str, part: Dataset, inner: Context) -> Dataset:
            _check_new(key, seen)
            seen.add(key)
            if key not in decision["groups"]:
                raise DataError(f"{self.kind}: the saved decision has no group {key!r}; fit the step anew")
            known = Decision(MappingProxyType(decision["groups"][key]))
            with _naming_group(key, len(part), self.by):
                return self.rewrite(part, known, inner)

        return ctx.engine.map_groups(data, self._strata(data), rewrite)

    def _reads_also(self, data: Dataset, columns: Sequence[str]) -> tuple[str, ...]:
        """Give columns that are read, and those that form the groups."""
        homes = data.having("household") if self.by == ("household",) and "household" not in data.columns else ()
        return (*columns, *(homes or self.by))

    @property
    def _unstratified(self) -> Self:
        return self.model_copy(update={"by": ()})

    def _households(self, data: Dataset) -> Households | None:
        """Find the households where `by` names that role; a column of that name with another role is a stratum."""
        if self.by != ("household",):
            return None
        of_role = data.having("household")
        if "household" in data.columns and "household" not in of_role:
            return None
        if not of_role:
            raise PlanError(f"{self.kind}: by: no column has the role household (and none that name)")
        if len(of_role) > 1:
            listed = ", ".join(of_role)
            raise PlanError(f"{self.kind}: by: several columns have the role household ({listed}); keep it for one")
        return find_households(data)

    def _strata(self, data: Dataset) -> tuple[str, ...]:
        data.require(self.by)
        if named := set(self.by) & set(getattr(self, "columns", None) or ()):
            raise PlanError(f"{self.kind}: {min(named)!r} stands both in `columns` and in `by`")
        return self.by


def _check_new(key: str, known: Container[str]) -> None:
    """Refuse two groups of one name (missing, and the text "None"): one would get the decision of the other."""
    if key in known:
        raise DataError(f"two groups have the name {key!r}; rename the values of one of them")


_FEW = 10
"""A group of fewer rows is not named: its values are nearly those of a person."""


@contextmanager
def _naming_group(key: str, rows: int, by: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except (DataError, Infeasible) as error:
        where = f"group {key}" if rows >= _FEW else f"a group of {rows} rows (by {', '.join(by)})"
        raise type(error)(f"in {where}: {error}") from None
