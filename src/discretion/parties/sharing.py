"""Secret sharing: MPyC's arithmetic on shares, behind one gate through which every opened value passes."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import os
import secrets
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from discretion.errors import need
from discretion.kernels.arrays import Floats

# Noise in shares: every party adds its own, and those of any m − t parties together are discrete Laplace noise.
#
# Discrete Laplace noise, P(k) ∝ a^|k| with a = e^(−ε/Δ), is the difference of two geometric variables, and a geometric
# variable is the sum of r⁻¹ independent Pólya variables NB(r, a). With r = 1/(m − t) the shares of m − t parties add
# up to the noise that ε asks for; a coalition of t parties that takes its own shares away is left with exactly that,
# and the other shares only add to it. All draws are exact: whole numbers from `secrets`, and comparisons that never
# hang on the last digit of a float.

_BITS = 53


def below_exp(x: Fraction) -> bool:
    """Be true with probability e^(−x), exactly (Canonne, Kamath & Steinke 2020)."""
    while x > 1:
        if not _below_exp_of_share(Fraction(1)):
            return False
        x -= 1
    return _below_exp_of_share(x)


def _below_exp_of_share(x: Fraction) -> bool:
    k = 1
    while secrets.randbelow(x.denominator * k) < x.numerator:
        k += 1
    return k % 2 == 1


def geometric(x: Fraction) -> int:
    """Draw k = 0, 1, 2 … with P(k) = (1 − e^(−x)) e^(−xk), exactly."""
    s, t = x.numerator, x.denominator
    while True:  # a number of steps of 1/t below one unit, kept with probability e^(−u/t) …
        u = secrets.randbelow(t)
        if below_exp(Fraction(u, t)):
            break
    units = 0
    while below_exp(Fraction(1)):  # … and whole units; s of the steps of 1/t make one step of x
        units += 1
    return (u + t * units) // s


def polya(r: Fraction, x: Fraction) -> int:
    """Draw k with P(k) = C(k + r − 1, k) (1 − a)^r a^k for a = e^(−x) and 0 < r ≤ 1, exactly.

    A geometric k is kept with probability C(k + r − 1, k) = ∏ (i − 1 + r)/i, which is at most one.
    """
    while True:
        k = geometric(x)
        if k == 0 or r == 1 or _below_binomial(k, r):
            return k


def _below_binomial(k: int, r: Fraction) -> bool:
    """Be true with probability C(k + r − 1, k): by floats where they decide, by fractions where they might not."""
    drawn, bits = secrets.randbits(_BITS), _BITS
    share = math.exp(math.lgamma(k + float(r)) - math.lgamma(float(r)) - math.lgamma(k + 1))
    slack = share * 1e-10 * (1 + math.log1p(k)) + 2.0**-_BITS
    if drawn / 2**bits + slack < share:
        return True
    if drawn / 2**bits - slack > share:
        return False
    exact = Fraction(1)
    for i in range(1, k + 1):
        exact *= (i - 1 + r) / i
    while True:
        if Fraction(drawn + 1, 1 << bits) <= exact:
            return True
        if Fraction(drawn, 1 << bits) >= exact:
            return False
        drawn, bits = (drawn << 64) | secrets.randbits(64), bits + 64


class Noise:
    """The shares that one party draws for one statistic."""

    def __init__(self, epsilon: Fraction, parties: int, coalition: int) -> None:
        self.epsilon = epsilon
        self.share = Fraction(1, parties - coalition)

    def draw(self, sensitivity: int, parts: int = 1) -> int:
        """Draw a share for a whole number in a vector that one person changes by at most `sensitivity` in all.

        `parts`: so many such vectors are shown one after the other and divide the ε among them.
        """
        x = self.epsilon / (sensitivity * parts)
        return polya(self.share, x) - polya(self.share, x)


SECURITY = 40
"""bits of statistical security of every masked opening inside MPyC"""
SCALE = 1024
"""sums enter fixed-point numbers divided by this: between 10 and 10⁹ people they stay in range"""
SMALLEST = 2.0**-20
"""variances (of numbers scaled to −1…1) and pivots below this cannot be divided by"""


@dataclass(frozen=True)
class Opened:
    """One opening: what it is and how many values it has."""

    label: str
    values: int


def load_mpyc() -> ModuleType:
    """Import MPyC without letting it read our command line, our environment, or write to our log."""
    if (loaded := sys.modules.get("mpyc.runtime")) is not None:
        return loaded
    kept, handlers = sys.argv, list(logging.getLogger().handlers)
    level = logging.getLogger().level
    hidden = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("MPYC_")}
    sys.argv = ["discretion", "--no-log"]
    asyncio.set_event_loop(loop := asyncio.new_event_loop())
    try:
        need("gmpy2", "computing between parties", "parties")
        with warnings.catch_warnings():  # it uses an old name of a part of numpy
            warnings.simplefilter("ignore", DeprecationWarning)
            module = need("mpyc.runtime", "computing between parties", "parties")
    finally:
        loop.close()
        asyncio.set_event_loop(None)
        sys.argv = kept
        os.environ.update(hidden)
        logging.getLogger().handlers[:] = handlers
        logging.getLogger().setLevel(level)
    vars(module)["pickle"] = SimpleNamespace(dumps=_no_pickle, loads=_no_pickle)
    return module


def _no_pickle(*_: Any) -> Any:
    """Refuse: what peers send is read as whole numbers of fixed width, never by an unpickler."""
    raise PermissionError("pickled data is neither sent nor read")


def make_runtime(pid: int, parties: int, threshold: int, loop: asyncio.AbstractEventLoop) -> Any:
    """Make the runtime of one party (MPyC has one in a process); one party alone computes at once, for tests."""
    module = load_mpyc()
    options = sys.modules["mpyc"]._get_arg_parser().parse_args(["--no-log", "--mix32-64bit", "-K", str(SECURITY)])
    options.threshold = threshold
    options.no_async = parties == 1
    asyncio.set_event_loop(loop)
    class_ = type("Runtime", (module.Runtime,), {"output": _guarded(module.Runtime.output), "np_trunc": _masked_whole})
    runtime = class_(pid, [module.Party(number) for number in range(parties)], options)
    runtime.masked = {}
    module.asyncoro._hop = _hop
    for room in ("sectypes", "asyncoro", "mpctools", "seclists", "secpols", "secgroups", "random", "statistics"):
        vars(sys.modules[f"mpyc.{room}"])["runtime"] = runtime
    for maker in (module.sectypes._SecFxp, module.sectypes._SecInt):
        maker.cache_clear()
    return runtime


def _hop(counter: Sequence[int]) -> int:
    """Number a branch of the protocol, the same with every version of Python."""
    return int.from_bytes(hashlib.sha256(repr(tuple(counter)).encode()).digest()[:8], "little", signed=True)


def _masked_whole(self: Any, a: Any, f: int | None = None, l: int | None = None) -> Any:  # noqa: E741
    """Truncate arrays behind a mask that is as long as a product is.

    MPyC 0.11 does so for single numbers, but masks arrays as if products were no longer than their factors: the mask of
    a product above one would hide it with fewer bits than `SECURITY`.
    """
    if l is None and isinstance(a, self.SecureFixedPointArray):
        l = type(a).sectype.bit_length + type(a).frac_length  # noqa: E741
    return load_mpyc().Runtime.np_trunc(self, a, f, l)


def _guarded(output: Any) -> Any:
    """Let MPyC open the masked values of its own protocols, and count them; everybody else goes through `reveal`."""

    def guarded(self: Any, x: Any, *arguments: Any, **options: Any) -> Any:
        frame = sys._getframe(1)
        if not str(frame.f_globals.get("__name__", "")).startswith("mpyc."):
            raise PermissionError("values are opened through reveal() only")
        name = frame.f_code.co_name
        self.masked[name] = self.masked.get(name, 0) + (len(x) if isinstance(x, list) else int(getattr(x, "size", 1)))
        return output(self, x, *arguments, **options)

    return guarded


@dataclass
class Sharing:
    """What protocols compute with: shares of whole numbers (`whole`) and of fixed-point numbers (`real`, `short`)."""

    runtime: Any
    coalition: int
    opened: list[Opened] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.whole = self.runtime.SecInt(64)
        self.judged = self.runtime.SecInt(96)
        self.real = self.runtime.SecFxp(112, 56)
        self.short = self.runtime.SecFxp(80, 40)

    async def reveal(self, label: str, x: Any) -> Any:
        """Open a value to all parties: the only door, and it keeps a list."""
        self.opened.append(Opened(label, int(getattr(x, "size", 1))))
        module = load_mpyc()
        found = await module.Runtime.output(self.runtime, x)
        return np.asarray(found) if hasattr(found, "shape") else found

    async def ready(self, x: Any) -> None:
        """Wait until this party has its share of a value, which is not opened by that."""
        await self.runtime.gather(x)

    def each(self, values: Sequence[int], kind: Any = None) -> list[Any]:
        """Share whole numbers; give every party's, as shares."""
        array = (kind or self.whole).array(np.array([int(value) for value in values], dtype=object))
        return list(self.runtime.input(array))

    def counts(self, values: Sequence[int]) -> Any:
        """Share whole numbers and add those of all parties."""
        return _added(self.each(values))

    def total(self, values: Sequence[float] | Floats, kind: Any = None) -> Any:
        """Share sums, divided by SCALE, and add those of all parties."""
        array = (kind or self.real).array(np.asarray(values, dtype=np.float64) / SCALE, integral=False)
        return _added(list(self.runtime.input(array)))

    def rounded(self, x: Any) -> Any:
        """Round fixed-point numbers to whole ones, half away from zero but for the last bits; still shared."""
        near = self.runtime.np_trunc(x) * 2**56
        rest = x - near
        return near + (rest >= 0.5) - (rest < -0.5)

    def joined(self, pieces: Sequence[Any]) -> Any:
        """Put shared vectors one after the other."""
        return pieces[0] if len(pieces) == 1 else self.runtime.np_concatenate(tuple(pieces))

    def all_of(self, bits: Any) -> Any:
        """Multiply shared bits."""
        return self.runtime.np_prod(bits)

    def ordered(self, by_party: Sequence[Any]) -> list[Any]:
        """Sort the parties' numbers, each place of the vectors for itself, the largest first; still shared."""
        x = list(by_party)
        for layer in range(len(x)):
            for i in range(layer % 2, len(x) - 1, 2):
                moved = (x[i] < x[i + 1]) * (x[i + 1] - x[i])
                x[i], x[i + 1] = x[i] + moved, x[i + 1] - moved
        return x

    def left(self, x: Sequence[Any]) -> Any:
        """Give what is left of totals, sorted by `ordered`, when the t parties that have most of them subtract theirs.

        No coalition of t or fewer is left with less.
        """
        return _added(x[self.coalition :])

    def obeys(self, x: Sequence[Any], p_percent: float, most: int, percent: float) -> Any:
        """Judge totals, sorted by `ordered`, by p% and dominance over parties; give one shared bit for each.

        The worst coalition of t for the worst target are the t parties after the largest one: of all sets of t + 1
        parties they leave the smallest rest, and the largest party asks for the largest one.
        """
        rest = _added(x[self.coalition + 1 :]) if len(x) > self.coalition + 1 else x[0] * 0
        good = rest * 100_000 >= x[0] * round(1000 * p_percent)
        if most < len(x):
            good = good * (_added(x) * round(1000 * percent) >= _added(x[:most]) * 100_000)
        return good

    def solved(self, matrix: Any, right: Any) -> tuple[Any, Any]:
        """Solve a symmetric positive definite system by Gauss–Jordan; give the solution and the pivots, shared."""
        p = len(right)
        rows = self.runtime.np_concatenate((matrix, self.runtime.np_reshape(right, (p, 1))), axis=1)
        pivots = []
        for k in range(p):
            pivots.append(rows[k, k : k + 1])
            row = rows[k] * (1 / pivots[-1])
            rows = self.runtime.np_vstack([row if j == k else rows[j] - row * rows[j, k] for j in range(p)])
        return rows[:, p], self.joined(pivots)

    def inverse_root(self, x: Any) -> Any:
        """Give 1/√x for SMALLEST ≤ x ≤ 1 by Newton steps from below: y ← y (3 − x y²)/2."""
        y = 1.5 - x * 0.5
        for _ in range(24):
            y = y * (1.5 - x * y * y * 0.5)
        return y


def _added(pieces: Sequence[Any]) -> Any:
    found = pieces[0]
    for piece in pieces[1:]:
        found = found + piece
    return found
