"""The audit: is every sensitive cell of a table with gaps protected against those who can add and subtract?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from discretion.context import Context
from discretion.errors import PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.tables.attacker import Attacker
from discretion.tables.attacker_system import Prior
from discretion.tables.audit_certify import EXACT, SLACK, Clock, Targets, certify
from discretion.tables.audit_report import Audit, Bounds
from discretion.tables.engines.engine import at_least_ruled
from discretion.tables.widened import told_apart, widened, widened_prior

if TYPE_CHECKING:
    from discretion.tables.audit_insiders import Proof
    from discretion.tables.cells import Cells
    from discretion.tables.rules.rule import Rule

EXACT_WORK = 2_000_000
"""Suppressed cells × unknowns up to which all bounds are computed to the end unless the caller decides."""


def audit(
    cells: Cells,
    *,
    prior: Prior | Mapping[str, Any] | None = None,
    rules: Sequence[Rule | Mapping[str, Any]] | None = None,
    attacker: Literal["outsider", "contributors"] | Sequence[Any] = "outsider",
    coalition: int | None = None,
    which: Literal["sensitive", "suppressed"] = "sensitive",
    exact: bool | None = None,
    seconds: float | None = None,
    proofs: Sequence[Proof] = (),
    ctx: Context | None = None,
) -> Audit:
    """Compute how closely an attacker can bound every suppressed cell, and whether that is close enough to harm.

    Takes the table as it is marked (`cells.suppressed`), wherever it was protected. Each sensitive cell is
    *protected* (its bounds are at least as far away as its rule requires), *under-protected* (by how much),
    *disclosed* (it can be computed exactly, whole numbers included) or, when `seconds` are over, *undecided*, which
    counts as not protected (`seconds_more` says about what it would take to decide the rest). A cell with no level
    required must only not be found exactly. A lower level beyond the cell's value is cut there: less than 0 cannot be
    believed unless cells may be negative.

    Sums of suppressed cells are judged too. All gaps of a published total add up to what everybody gets by subtracting
    the other parts: if the rules that were applied find that sum sensitive, the table fails. `rules` given here also
    judge pairs of gaps with a common total, which then need their own intervals; `rules=()` judges no sums, and the
    summary says so.

    `attacker` is an outsider, or `"contributors"`: every respondent with a part in a suppressed inner cell (with
    `coalition=c`: all coalitions of up to c, in one cell or in different ones; by default as many as the rules applied
    look at, and never fewer; of ready-made cells, the respondents of inner cells with at most c), or the labels of
    respondents who put together what they know. Respondents know what they contributed: inner cells that are all
    theirs, and a lower bound of the others. Cells to which nobody else contributes are not judged.

    Bounds are computed to the end (`exact`) for tables of moderate size; otherwise only as far as needed to decide, and
    then the true interval may be wider than the one shown, never narrower. Does not cover what an attacker knows beyond
    `prior` (nothing given: no cell is negative, unless contributions are), nor tables over the same records that are
    neither part of `cells` nor given as `previous` when it was made. Differences of published cells that the rules
    found sensitive (`apply_rules`), and what earlier releases suppressed, are judged like suppressed cells:
    `Audit.unpublished`.

    Many cells are proved by each linear program; one more for each that fails, several where respondents attack.
    `proofs` are tables that an engine found on its way: what each shows is checked by adding up, and saves programs.

    References
    ----------
    Hundepool et al. (2012), Statistical Disclosure Control, 4.3–4.4; Fischetti & Salazar (2000); catalogue T8, T9.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> firms = pl.DataFrame({"region": list("AABBB"), "sector": list("xyxyy"), "turnover": [10, 20, 5, 7, 9]})
    >>> cells = dc.tabulate(firms, ["region", "sector"], "turnover").mark({"region": "A", "sector": "x"}, "unsafe")
    >>> cells.audit()
    Audit(1 sensitive cell: 1 disclosed; fails)
    """
    wanted = _wanted(cells, which)
    clock = Clock(seconds, ctx or Context(seed=0, step="audit"))
    belief = Prior.of(cells, prior)
    coalition = _together(cells, attacker, coalition)
    whole = widened(cells)
    if whole is not cells:
        belief = widened_prior(belief, len(whole) - len(cells))
        found = audit(
            whole,
            prior=belief,
            rules=rules,
            attacker=attacker,
            coalition=coalition,
            which=which,
            exact=exact,
            seconds=seconds,
            proofs=proofs,
            ctx=ctx,
        )
        return told_apart(found, cells)
    if not isinstance(attacker, str):
        from discretion.tables.audit_contributors import one_coalition

        return one_coalition(cells, attacker, wanted, belief, rules, exact, clock)
    found = outsider(cells, Attacker(cells, prior=belief), wanted, belief, rules, exact, clock)
    if attacker == "contributors":
        from discretion.tables.audit_insiders import every_contributor

        found = every_contributor(found, coalition, wanted, belief, clock, proofs)
    left, judged = found.counts["undecided"], sum(found.counts.values())
    if not left or not clock.over:
        return found
    return replace(found, seconds_more=clock.spent * left / max(judged - left, 1))


def _together(cells: Cells, attacker: str | Sequence[Any], coalition: int | None) -> int:
    """Give how many respondents attack together."""
    if isinstance(attacker, str) and attacker not in ("outsider", "contributors"):
        raise PlanError("attacker: expected 'outsider', 'contributors', or the labels of respondents")
    return at_least_ruled(cells, coalition)


def _wanted(cells: Cells, which: str) -> Bools:
    if which not in ("sensitive", "suppressed"):
        raise PlanError("which: expected 'sensitive' or 'suppressed'")
    return cells.primary if which == "sensitive" else cells.suppressed


def outsider(
    cells: Cells,
    attacker: Attacker,
    wanted: Bools,
    prior: Prior,
    rules: Sequence[Any] | None,
    exact: bool | None,
    clock: Clock,
    who: str = "an outsider",
) -> Audit:
    """Audit all suppressed cells, and sums of them, against one attacker."""
    shown = np.flatnonzero(cells.suppressed)
    judged = wanted[shown]
    targets = targets_of(cells, attacker, shown, wanted, prior)
    everything = exact if exact is not None else len(shown) * attacker.system.size <= EXACT_WORK
    certify(attacker, targets, clock, exact=np.full(len(shown), everything) | (judged & np.isnan(cells.value[shown])))
    sums = None
    if rules is None or len(rules):
        from discretion.tables.audit_sums import audited_sums, isolated_sums

        sums = isolated_sums(cells) if rules is None else audited_sums(cells, attacker, rules, prior, clock)
    return Audit(
        cells=cells,
        cell=shown,
        bounds=bounds_of(targets, judged, cells.value[shown], cells.lower_required[shown], cells.upper_required[shown]),
        sums=sums,
        attacker=who,
        programs=attacker.solved,
    )


def targets_of(cells: Cells, attacker: Attacker, shown: Ints, wanted: Bools, prior: Prior) -> Targets:
    """Give suppressed cells as targets; those not judged, or without a known value, need nothing yet."""
    value = cells.value[shown]
    needy = wanted[shown] & ~np.isnan(value)
    lower, upper = cells.lower_required[shown], cells.upper_required[shown]
    lower = lower if prior.negative else np.minimum(lower, np.maximum(np.nan_to_num(value), 0.0))
    return Targets(
        attacker.system.members[shown],
        attacker.system.center[shown],
        np.where(needy, lower, 0.0),
        np.where(needy, upper, 0.0),
        idle=~needy,
        whole=whole_numbers(cells),
    )


def whole_numbers(cells: Cells) -> bool:
    """Tell whether the table counts, without weights that are not whole."""
    value = cells.value[~np.isnan(cells.value)]
    return bool(cells.response.frequency and (value == np.round(value)).all())


def bounds_of(targets: Targets, judged: Bools, value: Floats, lower: Floats, upper: Floats) -> Bounds:
    """Say what the bounds found mean for each target."""
    slack = SLACK * targets.scale
    low, high = targets.value - targets.below, targets.value + targets.above
    final = targets.below_exact & targets.above_exact
    single = high - low < EXACT * targets.scale
    if targets.whole:
        single |= np.floor(high + slack) - np.ceil(low - slack) < 1
    blind = np.isnan(value) & (np.maximum(lower, upper) > 0)
    short = np.maximum(np.maximum(targets.lower - targets.below, targets.upper - targets.above), 0.0)
    short = np.where(blind & final, np.maximum(lower + upper - (high - low), 0.0), short)
    failing = (short > slack) & np.where(blind, final, _decided(targets))
    status = np.select(
        [~judged, final & single, failing, targets.met & ~blind & ~(single & ~final)],
        ["complementary", "disclosed", "under-protected", "protected"],
        "undecided",
    )
    lacking = np.isin(status, ("under-protected", "disclosed"))
    return Bounds(low, high, targets.below_exact, targets.above_exact, status, np.where(lacking, short, 0.0))


def _decided(targets: Targets) -> Bools:
    """Tell which targets fall short on a side whose bound is exact."""
    slack = SLACK * targets.scale
    decided: Bools = (targets.below_exact & (targets.below < targets.lower - slack)) | (
        targets.above_exact & (targets.above < targets.upper - slack)
    )
    return decided
