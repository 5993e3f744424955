"""What users of synthetic data must know: what is synthetic, what that means, how to combine copies, what it risks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from discretion.measure import Measure, as_percent
from discretion.release.facts import one_digit, public_figures

if TYPE_CHECKING:
    from discretion.method import Method
    from discretion.release.release import Release

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
    said = []
    for item in release.measured:
        figures = public_figures(release, item) if item.measure.family == "risk" else None
        control = item.after.detail.get("control_rate")
        if figures is None or control is None:
            continue
        attack = item.after.detail.get("attack_rate", item.after.value)
        if figures.rounded:
            attack, control = one_digit(float(attack)), one_digit(float(control))
        said.append(f"{item.measure.kind} {as_percent(float(attack))} (people outside {as_percent(float(control))})")
    told = f"Attacks on people in the data: {'; '.join(said)}." if said else "No attack with a control group was run."
    return f"Synthetic data is not anonymous by itself. {told}"
