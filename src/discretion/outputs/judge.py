"""Rules for single results by what they are, and what results tell together (by the audit of linked tables)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from discretion.errors import PlanError
from discretion.policy.policy import Policy

if TYPE_CHECKING:
    from discretion.tables.rules.rule import Rule

Outcome = Literal["pass", "review", "fail"]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
_ORDER: tuple[Outcome, ...] = ("pass", "review", "fail")
_RELATIVE = 1e-9


@dataclass(frozen=True)
class OutputFinding:
    """What a rule says about a result: its name, the verdict, and why."""

    rule: str
    outcome: Outcome
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


def worst(findings: Iterable[OutputFinding]) -> Outcome:
    """Give the verdict on a result: that of the strictest finding."""
    return max((one.outcome for one in findings), key=_ORDER.index, default="pass")


@dataclass(frozen=True)
class OutputLimits:
    """The thresholds for results; those that a policy leaves open are taken from the shipped `research-output`."""

    min_count: int
    dominance_n: int
    dominance_percent: float
    p_percent: float
    min_degrees_of_freedom: int
    max_group_percent: float

    @classmethod
    def of(cls, policy: Policy) -> OutputLimits:
        """Take the thresholds of a policy."""
        usual = Policy.load("research-output").outputs
        if usual is None:  # pragma: no cover - the shipped policy has them
            raise PlanError("the policy has no `outputs`")
        given = policy.outputs
        names = cls.__dataclass_fields__
        found = {name: None if given is None else getattr(given, name) for name in names}
        return cls(**{name: getattr(usual, name) if value is None else value for name, value in found.items()})


@dataclass(frozen=True)
class GroupedRecords:
    """Records in the groups behind a result: for each its group (−1: in none) and the person or business it is of."""

    group: Ints
    unit: Ints
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def people(self, chosen: Bools | None = None) -> Ints:
        """Count the different people of each group, of the chosen records."""
        inside = self.group >= 0 if chosen is None else (self.group >= 0) & chosen
        width = int(self.unit.max(initial=0)) + 1
        pairs = np.unique(self.group[inside] * width + self.unit[inside])
        return np.bincount(pairs // width, minlength=len(self)).astype(np.int64)

    def contributions(self, values: Floats) -> list[Floats]:
        """Add up what each person contributes to each group; give the sizes, largest first."""
        inside = (self.group >= 0) & ~np.isnan(values)
        width = int(self.unit.max(initial=0)) + 1
        keys, place = np.unique(self.group[inside] * width + self.unit[inside], return_inverse=True)
        sums = np.abs(np.bincount(place, weights=values[inside], minlength=len(keys)))
        owners = keys // width
        return [np.sort(sums[owners == number])[::-1] for number in range(len(self))]


def complementary(people: Ints, least: int, small: Bools) -> Bools:
    """Hide further groups with small ones, so that all hidden ones are not told as the difference to the total.

    At least one more, until twice `least` people and one more for each are hidden; in the order of the groups, not of
    their sizes: that the next smallest were chosen would bound what is hidden by what is shown.
    """
    hidden = small.copy()
    waiting = np.flatnonzero(~small & (people > 0)).tolist() if small.any() else []
    while waiting:
        hidden[waiting.pop(0)] = True
        if people[hidden].sum() >= 2 * least + hidden.sum():
            break
    return hidden


def _named(names: Sequence[str], where: Bools, most: int = 3) -> str:
    chosen = [name for name, bad in zip(names, where, strict=True) if bad]
    return "; ".join(chosen[:most]) + (f" and {len(chosen) - most} more" if len(chosen) > most else "")


def small_groups(people: Ints, names: Sequence[str], limits: OutputLimits) -> tuple[list[OutputFinding], Bools]:
    """Find the groups with too few people behind them."""
    small = (people > 0) & (people < limits.min_count)
    if not small.any():
        return [], small
    text = f"{int(small.sum())} cells rest on fewer than {limits.min_count} people: {_named(names, small)}"
    return [OutputFinding("threshold", "fail", text)], small


def class_disclosure(
    people: Ints, rows: Ints, columns: Ints, names: Sequence[str], limits: OutputLimits
) -> tuple[list[OutputFinding], Bools]:
    """Find cells that hold nearly everybody of their row or column: who belongs to it is known to be in the cell."""
    telling = np.zeros(len(people), dtype=bool)
    for lines, others in ((rows, columns), (columns, rows)):
        if len(np.unique(others)) < 2:
            continue
        total = np.bincount(lines, weights=people)[lines]
        telling |= (people > 0) & (people > limits.max_group_percent / 100 * total)
    if len(np.unique(rows)) < 2 or len(np.unique(columns)) < 2:  # a table of one variable: shares of all people
        telling &= people == people.sum()
    if not telling.any():
        return [], telling
    text = (
        f"{int(telling.sum())} cells hold more than {limits.max_group_percent:g}% of their row or column: "
        f"{_named(names, telling)}; whoever belongs to it is known to be there"
    )
    return [OutputFinding("class disclosure", "fail", text)], telling


def empty_cells(people: Ints) -> list[OutputFinding]:
    """Point at cells with nobody in them: they tell what nobody is."""
    if not (people == 0).any():
        return []
    text = f"{int((people == 0).sum())} cells are empty: look whether they tell what nobody of a group is or has"
    return [OutputFinding("zeros", "review", text)]


def dominated(records: GroupedRecords, values: Floats, limits: OutputLimits) -> tuple[list[OutputFinding], Bools]:
    """Find sums and means of which a few people make up too much, or whose largest part others can estimate closely."""
    parts = records.contributions(values)
    share, close, same, rare = (np.zeros(len(records), dtype=bool) for _ in range(4))
    for number, sizes in enumerate(parts):
        total = sizes.sum()
        if not len(sizes) or total <= 0:
            continue
        share[number] = sizes[: limits.dominance_n].sum() > limits.dominance_percent / 100 * total
        close[number] = sizes[2:].sum() < limits.p_percent / 100 * sizes[0]
    for number in np.unique(records.group[records.group >= 0]):
        inside = (records.group == number) & ~np.isnan(values)
        own = values[inside]
        same[number] = len(own) > 0 and bool((own == own[0]).all())
        rare[number] = 0 < _others(own, records.unit[inside]) < limits.min_count
    findings = []
    if share.any():
        text = f"the {limits.dominance_n} largest make more than {limits.dominance_percent:g}% of the total in "
        findings.append(OutputFinding("dominance", "fail", text + _named(records.names, share)))
    if close.any():
        text = f"the second largest can estimate the largest within {limits.p_percent:g}% in "
        findings.append(OutputFinding("p-percent", "fail", text + _named(records.names, close)))
    if rare.any():
        text = f"fewer than {limits.min_count} people differ from all others, who have one value: their sum follows in "
        findings.append(OutputFinding("threshold", "fail", text + _named(records.names, rare)))
    if same.any():
        text = f"everybody has the same value in {_named(records.names, same)}"
        findings.append(OutputFinding("class disclosure", "fail", text))
    if np.nanmin(values, initial=0.0) < 0:
        text = "there are negative values: dominance was judged by their size, and parts may cancel out"
        findings.append(OutputFinding("negative values", "review", text))
    return findings, share | close | same | rare


def _others(values: Floats, unit: Ints) -> int:
    """Count the people who have another value than the most frequent one: of 0 and 1, those with the rarer."""
    if not len(values):
        return 0
    found, counts = np.unique(values, return_counts=True)
    if counts.max() == 1 and len(values) > 2:
        return 0  # all differ: nobody has a value that the others share
    return len(np.unique(unit[values != found[np.argmax(counts)]]))


def percentile(
    records: GroupedRecords, values: Floats, share: float, limits: OutputLimits
) -> tuple[list[OutputFinding], Bools]:
    """Judge percentiles (0: smallest, 1: largest): enough people must lie on either side, or have the value itself."""
    bad = np.zeros(len(records), dtype=bool)
    for number in range(len(records)):
        inside = (records.group == number) & ~np.isnan(values)
        if not inside.any():
            continue
        own, unit = values[inside], records.unit[inside]
        value = np.quantile(own, share)
        sides = [own <= value, own >= value]
        fewest = min(len(np.unique(unit[side])) for side in sides)
        bad[number] = fewest < limits.min_count
    if not bad.any():
        return [], bad
    what = {0.0: "the smallest value", 1.0: "the largest value"}.get(share, f"the {100 * share:g}th percentile")
    text = f"{what} has fewer than {limits.min_count} people at or beyond it in {_named(records.names, bad)}"
    return [OutputFinding("extremes", "fail", text)], bad


def regression(
    design: Floats, outcome: Floats, unit: Ints, limits: OutputLimits, *, binary: bool
) -> list[OutputFinding]:
    """Judge a regression: safe unless it is saturated, or a coefficient rests on a few people."""
    n, rank = len(design), int(np.linalg.matrix_rank(design)) if len(design) else 0
    freedom = len(np.unique(unit)) - rank
    findings = []
    if freedom < limits.min_degrees_of_freedom:
        text = f"{freedom} residual degrees of freedom; at least {limits.min_degrees_of_freedom} are needed"
        findings.append(OutputFinding("degrees of freedom", "fail", text))
        return findings
    patterns, place = np.unique(design, axis=0, return_inverse=True)
    if len(patterns) <= rank:
        cells = GroupedRecords(
            place.reshape(-1).astype(np.int64), unit, tuple(f"cell {i}" for i in range(len(patterns)))
        )
        people = cells.people()
        if (people < limits.min_count).any():
            text = f"the model is saturated: it is a table of means, with cells of fewer than {limits.min_count} people"
            findings.append(OutputFinding("saturated", "fail", text))
        else:
            text = "the model is saturated: it is a table of means, and its cells are judged like one"
            findings.append(OutputFinding("saturated", "review", text))
            more, _ = dominated(cells, outcome, limits)
            findings += [one for one in more if one.rule != "negative values"]
    findings += _few_behind(design, outcome, unit, limits, binary=binary)
    if not findings and n > rank:
        leverage = np.einsum("ij,ji->i", design, np.linalg.pinv(design)).max()
        if leverage > 0.5:
            text = f"one record has a leverage of {leverage:.2f}: the fit follows it closely"
            findings.append(OutputFinding("leverage", "review", text))
    return findings


def _few_behind(
    design: Floats, outcome: Floats, unit: Ints, limits: OutputLimits, *, binary: bool
) -> list[OutputFinding]:
    """Find columns of which few people differ from all others, and (binary outcome) groups with one outcome."""
    few, alike = 0, 0
    for column in design.T:
        values = np.unique(column)
        few += 0 < _others(column, unit) < limits.min_count
        if binary and len(values) == 2:
            alike += any(len(np.unique(outcome[column == value])) == 1 for value in values)
    findings = []
    if 0 < _others(outcome, unit) < limits.min_count:
        text = f"fewer than {limits.min_count} people differ from all others in the outcome"
        findings.append(OutputFinding("threshold", "fail", text))
    if few:
        text = f"{few} regressors have another value for fewer than {limits.min_count} people: coefficients tell theirs"
        findings.append(OutputFinding("threshold", "fail", text))
    if alike:
        findings.append(
            OutputFinding("class disclosure", "fail", f"{alike} groups of a regressor all have the same outcome")
        )
    return findings


def trained_model(model: Any, records: int, limits: OutputLimits) -> list[OutputFinding]:
    """Judge a trained model: what it keeps of single records, and leaves with few of them."""
    findings: list[OutputFinding] = []
    stored = [
        name for name, value in vars(model).items() if getattr(value, "shape", ())[:1] == (records,) and records > 1
    ]
    name = type(model).__name__
    if hasattr(model, "support_vectors_"):
        findings.append(
            OutputFinding("stored records", "fail", f"the support vectors of {name} are records of people, as they are")
        )
    elif "_fit_X" in vars(model) or stored:
        findings.append(OutputFinding("stored records", "fail", f"{name} keeps the records it was trained on"))
    trees = [one.tree_ for one in np.ravel(getattr(model, "estimators_", [model])) if hasattr(one, "tree_")]
    if trees:
        least = min(int(tree.n_node_samples[tree.children_left < 0].min()) for tree in trees)
        if least < limits.min_count:
            text = f"a leaf of {name} has {least} records; at least {limits.min_count} are needed (min_samples_leaf)"
            findings.append(OutputFinding("threshold", "fail", text))
        pure = any(bool((tree.impurity[tree.children_left < 0] <= _RELATIVE).any()) for tree in trees)
        if pure:
            findings.append(
                OutputFinding("class disclosure", "fail", f"a leaf of {name} has one outcome for everybody")
            )
    if not findings:
        text = (
            f"{name}: a trained model can tell who was in the data; attack it (membership inference) before it goes out"
        )
        findings.append(OutputFinding("trained model", "review", text))
    return findings


_TOTALS = ("total", "totals", "all", "sum", "overall", "margin", "grand total")
_MOST_HIDDEN = 300
"""Hidden cells up to which everything that follows from margins is computed."""


@dataclass(frozen=True)
class PrintedCells:
    """The cells of a printed table: where each stands in every direction, and its number (NaN: hidden)."""

    places: tuple[tuple[str, ...], ...]
    counts: Floats

    @classmethod
    def of(cls, table: Any) -> PrintedCells:
        """Read a frame: columns that hold numbers are counts, the first and all others tell where they stand."""
        columns = {name: [_number(value) for value in table[name].to_list()] for name in table.columns}
        counted = [
            name
            for place, (name, numbers) in enumerate(columns.items())
            if (place or len(columns) == 1) and any(number is not None and not np.isnan(number) for number in numbers)
            and all(number is not None for number in numbers)
        ]  # fmt: skip
        labels = [name for name in table.columns if name not in counted]
        places, counts = [], []
        for row in range(table.height):
            stands = tuple(str(table[name][row]).strip() for name in labels)
            for name in counted:
                places.append((*stands, name) if len(counted) > 1 else stands)
                counts.append(columns[name][row])
        return cls(tuple(places), np.array(counts, dtype=np.float64))

    def equations(self) -> list[tuple[list[int], int]]:
        """Give the cells that add up to another one, which is a total by its name or by its numbers."""
        found: list[tuple[list[int], int]] = []
        for direction in range(len(self.places[0]) if self.places else 0):
            lines: dict[tuple[str, ...], dict[str, int]] = {}
            for cell, place in enumerate(self.places):
                others = place[:direction] + place[direction + 1 :]
                lines.setdefault(others, {})[place[direction]] = cell
            labels = list(dict.fromkeys(place[direction] for place in self.places))
            total = next((one for one in labels if one.lower() in _TOTALS), None) or self._adding_up(labels, lines)
            found += [
                ([cell for label, cell in line.items() if label != total], line[total])
                for line in lines.values()
                if total is not None and total in line and len(line) > 1
            ]
        return found

    def _adding_up(self, labels: Sequence[str], lines: dict[tuple[str, ...], dict[str, int]]) -> str | None:
        """Find a label that is the sum of all others wherever everything is shown, in two lines at least."""
        for label in (labels[-1], labels[0]) if len(labels) > 2 else ():
            sums = [
                (self.counts[line[label]], self.counts[[cell for own, cell in line.items() if own != label]].sum())
                for line in lines.values()
                if label in line
            ]
            shown = [one == other for one, other in sums if not np.isnan(one + other)]
            if len(shown) > 1 and all(shown):
                return label
        return None


def _number(value: Any) -> float | None:
    """Read a printed count: NaN for what stands in the place of a hidden one, None for a text that is neither."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return float("nan")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    text = str(value).strip().replace("\u2009", "").replace(" ", "")
    if text.lower() in ("", "x", "c", "s", "*", "**", "-", "–", ".", "..", ":", "na", "n/a", "nan", "suppressed") or (
        text[:1] in "<≤" and text[1:].strip("=").isdigit()
    ):
        return float("nan")
    try:
        return float(text.replace(",", "") if text.count(",") and "." not in text.partition(",")[0] else text)
    except ValueError:
        return None


def given_back(cells: PrintedCells, limits: OutputLimits) -> list[OutputFinding]:
    """Find hidden counts that the margins of the table give back: too few people in all that a line hides, or one cell.

    What each line hides in all is the difference of its total and what it shows. What follows from several lines
    together is bounded by linear programming.
    """
    from scipy.optimize import linprog

    equations = [(parts, total) for parts, total in cells.equations() if np.isnan(cells.counts[[*parts, total]]).any()]
    hidden = np.flatnonzero(np.isnan(cells.counts))
    place = {int(cell): number for number, cell in enumerate(hidden)}
    few: set[tuple[int, ...]] = set()
    matrix, right = np.zeros((len(equations), len(hidden))), np.zeros(len(equations))
    for row, (parts, total) in enumerate(equations):
        for cell, sign in (*((part, 1.0) for part in parts), (total, -1.0)):
            if cell in place:
                matrix[row, place[cell]] += sign
            else:
                right[row] -= sign * cells.counts[cell]
        if total not in place and 0 < right[row] < limits.min_count:
            few.add(tuple(int(cell) for cell in parts if cell in place))
    for cell, number in place.items() if 0 < len(hidden) <= _MOST_HIDDEN and equations else ():
        aim = np.zeros(len(hidden))
        aim[number] = 1.0
        ends = [linprog(sign * aim, A_eq=matrix, b_eq=right, bounds=(0, None)) for sign in (1, -1)]
        low, high = (np.nan if one.fun is None else sign * one.fun for one, sign in zip(ends, (1, -1), strict=True))
        if high - low < 1e-6 and 0.5 < low < limits.min_count - 0.5:
            few.add((cell,))
    if not few:
        return []
    names = ["; ".join(" / ".join(cells.places[cell]) for cell in group) for group in sorted(few)]
    listed = _named(names, np.ones(len(names), dtype=bool))
    text = f"{len(few)} hidden counts below {limits.min_count} follow from the margins: {listed}"
    return [OutputFinding("differencing", "fail", text)]


def printed_counts(table: Any, limits: OutputLimits) -> list[OutputFinding]:
    """Judge a table of counts that was made elsewhere (a polars frame), as far as that can be done without records."""
    small = zeros = 0
    for column in table.columns:
        found = [_number(value) for value in table[column].to_list()]
        if any(number is None for number in found):
            continue
        values = np.array(found, dtype=np.float64)
        values = values[~np.isnan(values)]
        whole = values == np.floor(values)
        small += int((whole & (values > 0) & (values < limits.min_count)).sum())
        zeros += int((values == 0).sum())
    findings = []
    if small:
        text = f"{small} whole numbers below {limits.min_count}: if they are counts of people, they are too small"
        findings.append(OutputFinding("threshold", "fail", text))
    findings += given_back(PrintedCells.of(table), limits)
    findings += empty_cells(np.zeros(zeros, dtype=np.int64))
    text = "the records behind it are not known: dominance and differences to other results were not judged"
    return [*findings, OutputFinding("made elsewhere", "review", text)]


MISSING, LEFT_OUT = -2, -1
"""Group of a record whose value is missing, and of one that the result does not count."""


@dataclass(frozen=True, eq=False)
class OutputGroups:
    """Which records are behind which figure of a result, and the variable that is added up in them (empty: counts)."""

    output: str
    group: Ints
    """(records of the data,) the group of each, or MISSING, or LEFT_OUT"""
    names: tuple[str, ...]
    values: dict[str, Floats]
    """variables of which sums, means or the like are told for these groups, with the value of each record"""


Computable = list[tuple[bytes, tuple[str, ...]]]
"""Groups that follow from some results: their records, packed, and the word for them in each of the results."""


def differences(
    new: Sequence[OutputGroups],
    old: Sequence[OutputGroups],
    unit: Ints,
    limits: OutputLimits,
    seen: dict[bytes, Computable] | None = None,
) -> list[OutputFinding]:
    """Judge what new results tell with each other, with earlier ones, and with the number of all records.

    Whoever has them all may add and subtract: groups that no result shows, but several together tell, must be large
    enough too (the audit of linked tables over one column of codes for each result). What earlier results alone told
    is not held against a new one. Groups of people whose values are missing are for review. `seen` keeps what some
    results tell, so that it is not computed again while the results that matter are the same.
    """
    from discretion.tables.rules.magnitude import Threshold

    rules = (Threshold(minimum=limits.min_count),)
    seen = {} if seen is None else seen

    def told(groups: Sequence[OutputGroups]) -> list[_Told]:
        columns = _columns(groups)
        small = _left_out(columns, lambda inside: len(np.unique(unit[inside])) < limits.min_count)
        return [*small, *_told(columns, unit, rules, None, seen)]

    findings, found = [], told([*old, *new])
    if found:
        before = {one.records for one in told(old)}
        found = [one for one in found if one.records not in before]
        if any(one.missing for one in found):  # told also without the results that lack values: not for that reason
            complete = [one for one in (*old, *new) if not (one.group == MISSING).any()]
            otherwise = {one.records for one in told(complete)}
            found = [replace(one, missing=one.missing and one.records not in otherwise) for one in found]
        findings += _worded(found, limits, "")
    for one in new:
        for name, values in one.values.items():
            findings += _of_sums(name, values, new, old, unit, limits, seen)
            findings += _nearly_same(name, values, one, [*old, *new], unit, limits)
    return findings


@dataclass(frozen=True)
class _Told:
    """A group that can be computed: its records, whether their values are missing, and how it follows."""

    records: bytes
    missing: bool
    label: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Column:
    name: str
    output: str
    codes: Ints


def _columns(groups: Sequence[OutputGroups]) -> list[_Column]:
    """Give a column of codes for each result; one that only puts groups of another together tells nothing more."""
    kept: list[_Column] = []
    for number, one in enumerate(groups):
        _, codes = np.unique(one.group, return_inverse=True)
        if codes.max(initial=0) == 0:
            continue
        kept.append(_Column(f"{one.output} ({number + 1})", one.output, one.group))
    finest: list[_Column] = []
    for column in sorted(kept, key=lambda column: -len(np.unique(column.codes))):
        if not any(_refines(other.codes, column.codes) for other in finest):
            finest.append(column)
    return finest


def _refines(fine: Ints, coarse: Ints) -> bool:
    """Tell whether each group of one division lies in one group of the other."""
    pairs = np.unique(np.column_stack([fine, coarse]), axis=0)
    return len(pairs) == len(np.unique(fine))


def _told(
    columns: Sequence[_Column],
    unit: Ints,
    rules: Sequence[Rule],
    values: Floats | None,
    seen: dict[bytes, Computable],
) -> list[_Told]:
    """List the groups that the rules find sensitive and that an audit does not find protected."""
    if not columns:
        return []
    codes = np.column_stack([one.codes for one in columns])
    given = [codes, unit] if values is None else [codes, unit, values]
    key = sha256(repr([rules, *(one.shape for one in given)]).encode())
    for one in given:
        key.update(np.ascontiguousarray(one).tobytes())
    if (found := seen.get(key.digest())) is None:
        found = seen[key.digest()] = _computable(codes, unit, rules, values)
    return [
        _Told(records, "missing" in words, tuple(f"{word} of {columns[i].name}" for i, word in enumerate(words)))
        if records
        else _Told(records, False, words)
        for records, words in found
    ]


def _computable(codes: Ints, unit: Ints, rules: Sequence[Rule], values: Floats | None) -> Computable:
    """Give the groups that several divisions (columns of codes) tell together and that break a rule."""
    import polars as pl

    from discretion.tables.tabulate import tabulate

    words = {MISSING: "missing", LEFT_OUT: "left out"}
    patterns, pattern_of = np.unique(codes, axis=0, return_inverse=True)
    pattern_of = pattern_of.reshape(-1)
    labels = [tuple(words.get(code, f"cell {code}") for code in row) for row in patterns.tolist()]
    names = [f"{number}" for number in range(codes.shape[1])]
    texts = np.array(labels, dtype=object)[pattern_of]
    frame = pl.DataFrame(
        {name: texts[:, number].tolist() for number, name in enumerate(names)}
        | {"unit": unit}
        | ({} if values is None else {"value": values})
    )
    several = values is not None or len(np.unique(unit)) < len(unit)
    cells = tabulate(
        frame,
        [[name] for name in names],
        None if values is None else "value",
        weight=False,
        contributor="unit" if several else None,
    )
    cells = cells.mark(np.ones(len(cells), dtype=bool), "safe").apply_rules(list(rules))  # every cell went out
    audit = cells.audit(attacker="outsider")
    found: Computable = []
    if audit.unpublished is not None and cells.differences is not None:
        place = {row: number for number, row in enumerate(labels)}
        inner = [
            place[tuple(dim.codes[code] for dim, code in zip(cells.dims, row, strict=True))]
            for row in cells.inner_codes.tolist()
        ]
        bad = np.flatnonzero(audit.unpublished.bounds.status != "protected").tolist()
        for number in bad:
            chosen = np.zeros(len(labels), dtype=bool)
            chosen[[inner[one] for one in cells.differences.forms.members[[number]].indices.tolist()]] = True
            first = labels[int(np.flatnonzero(chosen)[0])]
            found.append((np.packbits(chosen[pattern_of]).tobytes(), first))
        if not audit.unpublished.complete:
            found.append((b"", ("differences are too many to list",)))
    return found


def _left_out(columns: Sequence[_Column], few: Callable[[Bools], bool]) -> list[_Told]:
    """List what single results leave out, or lack values of, where `few` finds it too small."""
    found = []
    for one in columns:
        for code, word in ((LEFT_OUT, "left out"), (MISSING, "missing")):
            inside = one.codes == code
            if inside.any() and few(inside):
                found.append(_Told(np.packbits(inside).tobytes(), code == MISSING, (f"{word} of {one.name}",)))
    return found


_EQUAL = 1e-8
"""Relative difference up to which two values are the same."""


def _same_variable(one: Floats, other: Floats) -> tuple[Floats, Bools] | None:
    """Give a variable in the unit of another, and whose values differ all the same; None if most do.

    Unit and level are those of most people (the middle slope of many pairs): few who were changed do not hide that all
    others are the same. Of a variable that is zero for most, most of the others must agree.
    """
    both = np.flatnonzero(~np.isnan(one) & ~np.isnan(other))
    order = both[np.argsort(one[both], kind="stable")]
    half = len(order) // 2
    low, high = order[: len(order) - half], order[half:]
    apart = one[high] != one[low]
    if not apart.any():
        return None
    slope = float(np.median((other[high] - other[low])[apart] / (one[high] - one[low])[apart]))
    moved = one * slope
    moved = moved + float(np.median((other - moved)[both]))
    size = np.maximum(np.abs(other[both]), np.abs(moved[both]))
    differs = np.zeros(len(one), dtype=bool)
    differs[both] = np.abs(moved[both] - other[both]) > _EQUAL * np.maximum(size, np.median(size))
    found, counts = np.unique(one[both], return_counts=True)
    special = both[one[both] != found[np.argmax(counts)]]
    most = 2 * differs[both].sum() > len(both) or 2 * differs[special].sum() > len(special)
    return None if most or not slope else (moved, differs)


def _nearly_same(
    name: str,
    values: Floats,
    own: OutputGroups,
    others: Sequence[OutputGroups],
    unit: Ints,
    limits: OutputLimits,
) -> list[OutputFinding]:
    """Judge what the means of two variables tell that are the same for most people: the others, by subtraction.

    Groups of both results are put together until they hold the same people; what one variable has more than the other
    there is a sum too, and must not rest on few, nor on one.
    """
    for other in (one for one in others if one.values):
        whole = _common_groups(own.group, other.group)
        order = np.argsort(whole, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(whole[order])) + 1)
        for second, theirs in other.values.items():
            for inside in (one for one in groups if whole[one[0]] >= 0):
                found = _same_variable(theirs[inside], values[inside])
                if found is None or not found[1].any():
                    continue
                rest = np.where(found[1], values[inside] - found[0], 0.0)
                records = GroupedRecords(np.zeros(len(inside), dtype=np.int64), unit[inside], ("",))
                judged = dominated(records, rest, limits)[0]
                if any(one.outcome == "fail" and one.rule != "class disclosure" for one in judged):
                    text = (
                        f"{name} and {second} of {other.output} are the same for most people of a group: what the "
                        f"others have follows by subtraction, and they are fewer than {limits.min_count}, or one makes "
                        "most of it"
                    )
                    return [OutputFinding("differencing", "fail", text)]
    return []


def _common_groups(one: Ints, other: Ints) -> Ints:
    """Number the smallest groups that both results tell: groups of either put together, the same people in both."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    both = (one >= 0) & (other >= 0)
    width = int(one.max(initial=0)) + 1
    size = width + int(other.max(initial=0)) + 1
    edges = coo_array((np.ones(int(both.sum())), (one[both], width + other[both])), shape=(size, size))
    part = connected_components(edges, directed=False)[1].astype(np.int64)
    alone = [part[one[(one >= 0) & ~both]], part[width + other[(other >= 0) & ~both]]]
    found = np.where(both, part[np.maximum(one, 0)], -1)
    found[np.isin(found, np.concatenate(alone))] = -1
    return np.unique(found, return_inverse=True)[1].reshape(-1).astype(np.int64) - int((found < 0).any())


def _of_sums(
    name: str,
    values: Floats,
    new: Sequence[OutputGroups],
    old: Sequence[OutputGroups],
    unit: Ints,
    limits: OutputLimits,
    seen: dict[bytes, Computable],
) -> list[OutputFinding]:
    """Judge the sums of a variable that follow from all results about it, over the people whom any of them counts.

    A result is about it if it tells the same values of all but few people, whatever their name, unit and level.
    """
    from discretion.tables.rules.magnitude import Dominance, PPercent

    rules = (
        PPercent(percent=limits.p_percent),
        Dominance(n=limits.dominance_n, percent=limits.dominance_percent),
    )
    about, earlier, known = [], [], values.copy()
    for one in (*old, *new):
        read = (_same_variable(own, values) for own in one.values.values())
        same = [own[0] for own in read if own is not None and len(np.unique(unit[own[1]])) < limits.min_count]
        if same:
            known = np.where(np.isnan(known), same[0], known)
            about.append(one)
            earlier += [one] if any(one is before for before in old) else []
    counted = np.any([one.group >= 0 for one in about], axis=0)
    values = known[counted]
    if len(about) < 2:
        return []
    own = unit[counted]

    def few(inside: Bools) -> bool:
        records = GroupedRecords(np.where(inside, 0, -1), own, ("left out",))
        return any(one.outcome == "fail" for one in dominated(records, values, limits)[0])

    def told(groups: Sequence[OutputGroups]) -> list[_Told]:
        columns = _columns([OutputGroups(one.output, one.group[counted], one.names, {}) for one in groups])
        whole = any(bool((one.group[counted] >= 0).all()) for one in groups)  # then what another leaves out follows
        small = _left_out(columns, few) if whole else []
        return [*small, *_told(columns, own, rules, np.abs(np.nan_to_num(values)), seen)]

    before = {one.records for one in told(earlier)}
    return _worded([one for one in told(about) if one.records not in before], limits, name)


def _worded(told: Sequence[_Told], limits: OutputLimits, variable: str) -> list[OutputFinding]:
    """Say what follows, by how it follows; one finding for each kind, with an example."""
    findings = []
    for missing in (False, True):
        own = [one for one in told if one.missing == missing]
        if not own:
            continue
        example = "; ".join(own[0].label[:3])
        if variable:
            text = f"sums of {variable} that one person dominates follow by subtraction: {example}"
        else:
            text = f"{len(own)} groups of fewer than {limits.min_count} people follow by subtraction: {example}"
        if missing:
            text += " (people whose values are missing)"
        findings.append(OutputFinding("differencing", "review" if missing else "fail", text))
    return findings
