"""A run: one party's file, its lines to the others, the checks, the statistics, and nothing else."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from discretion.errors import DataError, DiscretionError, PartyLost, PlanError, RequirementNotMet, need
from discretion.parties.agreement import Agreement, ColumnSpec, Signature, read_signature
from discretion.parties.links import Network
from discretion.parties.noise import Noise
from discretion.parties.sharing import Opened, Sharing, load_mpyc, make_runtime
from discretion.parties.statistics import Intersection, Local, Run


@dataclass(frozen=True)
class Result:
    """What a run told: the agreed statistics, and the list of everything that was opened on the way."""

    party: str
    statistics: tuple[dict[str, Any], ...]
    opened: tuple[Opened, ...]
    left: tuple[str, ...] = ()
    """parties that were gone before they said that they have the result too"""
    sent: int = 0
    cpu_seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Give plain data."""
        return {
            "party": self.party,
            "statistics": list(self.statistics),
            "opened": [{"label": one.label, "values": one.values} for one in self.opened],
            "left": list(self.left),
            "bytes_sent": self.sent,
            "cpu_seconds": round(self.cpu_seconds, 3),
        }


def run_party(
    path: str | Path,
    party: str,
    data: str | Path | Any = None,
    key: str | Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Result:
    """Take part in the computation of an agreement as one of its parties.

    `data` is a file, a frame or a `Dataset` (none for an intersection, whose set was signed); `key` the party's key
    file, `PARTY.key` beside the agreement by default. Raises `PartyLost` when another party leaves, is late or comes
    with something else, `RequirementNotMet` when a size or rule does not hold, `DataError` when this party's data does
    not fit; the others are told that it does not.
    """
    path = Path(path)
    agreement = Agreement.load(path)
    agreement.party(party)
    signature = read_signature(path, party, agreement)
    key = Path(key) if key else path.with_name(f"{party}.key")
    runs = RunCount(key, agreement)
    runs.check()
    problem: DiscretionError | None = None
    content: Any = None
    if two := isinstance(agreement.statistics[0], Intersection):
        if data is not None:
            raise PlanError("the set of an intersection was fixed when it was signed; run it without --data")
        need("rbcl", "an intersection", "parties")
    else:
        load_mpyc()
    try:
        if two:
            from discretion.parties.intersection import own_set

            content = own_set(path, party, agreement, signature)
        elif data is None:
            raise PlanError("name this party's file: --data FILE")
        else:
            content = load_local(agreement, data)
    except DiscretionError as error:
        problem = error
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(_take_part(agreement, party, key, signature, content, problem, runs, say, loop))
    except RuntimeError as error:
        if "Event loop stopped" not in str(error):
            raise
        raise DiscretionError("the protocol failed: a share could not be computed; nothing more was opened") from None
    finally:
        _wind_up(loop)


async def _take_part(
    agreement: Agreement, party: str, key: Path, signature: Signature, content: Any, problem: DiscretionError | None,
    runs: RunCount, say: Callable[[str], None], loop: asyncio.AbstractEventLoop,
) -> Result:  # fmt: skip
    two = isinstance(agreement.statistics[0], Intersection)
    started = time.process_time()
    network = Network(agreement, party, key, say)
    runtime = None
    if not two:
        runtime = make_runtime(agreement.names.index(party), len(agreement.parties), agreement.threshold, loop)
    reason: str | None = "stopped"
    culprit = party
    opened: list[Opened] = []
    try:
        await network.connect()
        if problem is not None:
            reason = "data"
            raise problem
        alive = asyncio.ensure_future(network.keep_alive())
        signatures = await network.guard(network.greet(signature, runtime))
        say(f"{len(agreement.parties)} parties are connected and signed the same agreement")
        outcome: RequirementNotMet | None = None
        found: tuple[dict[str, Any], ...] = ()
        try:
            if two:
                from discretion.parties.intersection import intersect

                found = (await network.guard(intersect(network, agreement, content, signatures, runs, opened)),)
            else:
                sharing = Sharing(runtime, agreement.threshold, opened)
                found = await network.guard(compute(agreement, content, sharing, before=runs.add))
        except RequirementNotMet as error:
            outcome = error
        left = tuple(await network.part())
        reason = None
        alive.cancel()
        if outcome is not None:
            raise outcome
        return Result(party, found, tuple(opened), left, network.sent, time.process_time() - started)
    except PartyLost as error:
        reason, culprit = error.reason, error.party
        error.opened = tuple(one.label for one in opened)
        raise
    finally:
        network.end(reason, culprit)
        await asyncio.sleep(0)


def _wind_up(loop: asyncio.AbstractEventLoop) -> None:
    """Let lines close, drop what still waits, and leave no event loop behind."""
    loop.set_exception_handler(lambda *_: None)
    try:
        loop.run_until_complete(_drop_tasks(loop))
    except RuntimeError:  # a share that failed stops the loop again
        pass
    finally:
        loop.close()
        asyncio.set_event_loop(None)


async def _drop_tasks(loop: asyncio.AbstractEventLoop) -> None:
    waiting = asyncio.all_tasks(loop) - {asyncio.current_task()}
    for task in waiting:
        task.cancel()
    if waiting:
        await asyncio.wait(waiting, timeout=1)
    await asyncio.sleep(0.02)


async def compute(
    agreement: Agreement, local: Local, sharing: Sharing, before: Callable[[], None] = lambda: None
) -> tuple[dict[str, Any], ...]:
    """Check sizes and rules inside the protocol, then compute and open the statistics.

    `before` is called before the first bit is opened: it is an answer too, and whoever changes its own rows and asks
    again would learn the others' numbers from it.
    """
    admitted = _admitted(agreement, local, sharing)
    await sharing.ready(admitted)
    before()
    if not await sharing.reveal("sizes and rules hold", admitted):
        own = f"; {local.people:,} people of this party were counted" if local.people < agreement.people.each else ""
        raise RequirementNotMet(
            "nothing was opened: a party or all together have fewer people than agreed, a category of a regression or a"
            " side of a quantile has too few, or the contribution of one party could be computed too closely from the"
            f" result{own}"
        )
    noise = None
    if agreement.noise:
        share = Fraction(str(agreement.noise.epsilon)) / len(agreement.statistics)
        noise = Noise(share, len(agreement.parties), agreement.threshold)
    run = Run(agreement, local, sharing, noise)
    return tuple([{"kind": one.kind, **await one.compute(run)} for one in agreement.statistics])


def _admitted(agreement: Agreement, local: Local, sharing: Sharing) -> Any:
    """Give one shared bit: enough people everywhere, whoever subtracts its own, and no party too large a part.

    With noise the rules judge numbers of people only: a rule on values would be an answer without noise.
    """
    values = [local.people]
    if agreement.noise is None:
        for name in dict.fromkeys(name for one in agreement.statistics for name in one.judged()):
            column = agreement.columns[name]
            largest = column.half + abs(column.middle)
            values.append(round(float(np.abs(local.numbers[name]).sum()) / largest * 1024))
    each = sharing.each(values, sharing.judged)
    rules = agreement.rules
    by_size = sharing.ordered(each)
    bits = [sharing.obeys(by_size, rules.p_percent, rules.dominance.parties, rules.dominance.percent)]
    if guards := [guard for one in agreement.statistics for guard in one.guards(agreement, local)]:
        by_size = sharing.ordered(sharing.each([own for own, _ in guards], sharing.judged))
        least = sharing.judged.array(np.array([least for _, least in guards], dtype=object))
        bits.append(sharing.left(by_size) - least >= 0)
    bits += [one[:1] >= agreement.people.each for one in each]
    bits.append(sum((one[:1] for one in each[1:]), start=each[0][:1]) >= agreement.people.total)
    return sharing.all_of(sharing.joined(bits))


def load_local(agreement: Agreement, data: str | Path | Any) -> Local:
    """Read the columns of the agreement and check them."""
    ready = prepared(agreement.columns, data, skip=agreement.missing == "skip")
    numbers, codes = {}, {}
    for name, column in agreement.columns.items():
        if column.categories:
            codes[name] = ready[name].to_numpy().astype(np.int64)
        else:
            numbers[name] = ready[name].to_numpy().astype(np.float64)
    return Local(ready.height, numbers, codes)


def prepared(columns: Mapping[str, ColumnSpec], data: str | Path | Any, *, skip: bool = False) -> Any:
    """Give declared columns as numbers within bounds and codes of categories; errors name columns and counts only.

    `skip`: rows with a missing value are left out; otherwise they are an error.
    """
    from discretion.data.dataset import Dataset
    from discretion.data.read import read

    source = read(data) if isinstance(data, str | Path) else data
    frame = (source if isinstance(source, Dataset) else Dataset(source)).frame
    absent = [name for name in columns if name not in frame.columns]
    if absent:
        raise DataError(f"the data has no column {', '.join(map(repr, absent))} of the agreement")
    if not columns:
        return frame
    problems: list[str] = []
    ready = frame.select([_prepared(frame[name], column, problems) for name, column in columns.items()])
    if not skip:
        missing = {name: ready[name].null_count() for name in columns}
        problems += [f"column {name!r}: {count:,} values are missing" for name, count in missing.items() if count]
    if problems:
        raise DataError("; ".join(problems))
    return ready.drop_nulls()


def _prepared(values: Any, column: ColumnSpec, problems: list[str]) -> Any:
    import polars as pl

    name = values.name
    if column.categories:
        texts = values.cast(pl.String, strict=False)
        codes = texts.replace_strict(
            {str(c): k for k, c in enumerate(column.categories)}, default=None, return_dtype=pl.Int64
        )
        if outside := codes.null_count() - texts.null_count():
            problems.append(f"column {name!r}: {outside:,} values are none of the agreed categories")
            codes = codes.fill_null(0)
        return codes
    if values.dtype in (pl.String, pl.Categorical, pl.Enum):
        texts = values.cast(pl.String)
        values = texts.str.strip_chars().cast(pl.Float64, strict=False)
        if odd := values.null_count() - texts.null_count():
            problems.append(f"column {name!r}: {odd:,} values are not numbers; a missing value is an empty field")
            values = values.fill_null(column.lower)
    elif not values.dtype.is_numeric():
        problems.append(f"column {name!r} has no numbers")
        return pl.Series(name, [0.0] * len(values))
    numbers = values.cast(pl.Float64).fill_nan(None)
    low, high = float(column.lower or 0.0), float(column.upper or 0.0)
    outside = int(((numbers < low) | (numbers > high)).sum())
    if outside and column.outside == "refuse":
        problems.append(f"column {name!r}: {outside:,} values are outside the agreed bounds")
    numbers = numbers.clip(low, high)
    if column.step is not None:
        steps = numbers / column.step
        uneven = int(((steps - steps.round()).abs() > 1e-6).sum())
        if uneven:
            problems.append(f"column {name!r}: {uneven:,} values are not multiples of the agreed step")
    return numbers


class RunCount:
    """How often a party ran an agreement: kept by its digest beside the party's key, whatever its file is called."""

    def __init__(self, key: Path, agreement: Agreement) -> None:
        self.file = key.with_name(f"{key.name}.runs")
        self.agreement = agreement

    def _read(self) -> dict[str, int]:
        if not self.file.is_file():
            return {}
        try:
            found = json.loads(self.file.read_text(encoding="utf-8"))
            return {str(digest): int(count) for digest, count in found.items()}
        except (ValueError, AttributeError):
            raise DataError(f"{self.file} does not hold the count of runs") from None

    def check(self) -> None:
        """Raise when the agreed number is used up."""
        if self._read().get(self.agreement.digest, 0) >= self.agreement.runs:
            raise RequirementNotMet(
                f"this agreement was run {self.agreement.runs} times as agreed, refused runs included; for more, sign"
                " one with another `id`"
            )

    def others(self) -> int:
        """Return under how many other agreements this key took part in a computation."""
        return len(self._read().keys() - {self.agreement.digest})

    def add(self) -> None:
        """Count a run, before its first value is opened (whether it is allowed is such a value)."""
        from discretion.data.atomic import alone_beside, write_text

        with alone_beside(self.file):
            found = self._read()
            found[self.agreement.digest] = found.get(self.agreement.digest, 0) + 1
            write_text(self.file, json.dumps(found) + "\n", overwrite=True, private=True)
