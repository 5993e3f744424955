"""Categories move at random, by known probabilities: post-randomization (P17) and randomized response (P18)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.data.households import PersonDraws
from discretion.errors import DataError, PlanError, unknown
from discretion.kernels.arrays import Floats, Ints32
from discretion.method import Decision, Method, Purpose, StratifiedMethod
from discretion.part import Columns, Scale, confidential

# Randomized response: everybody answers truthfully or by a throw of the dice, and nobody can tell which (P18).


@dataclass(frozen=True)
class ShareEstimate:
    """The estimated share of people who belong to a category, and its standard error."""

    share: float
    standard_error: float
    answers: int


def _read_answers(given: object) -> object:
    if not isinstance(given, Mapping):
        return given
    return {
        str(name): [canonical(a) for a in answers] if isinstance(answers, list | tuple) else answers
        for name, answers in given.items()
    }


def _check_answers(given: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    for name, answers in given.items():
        if len(answers) < 2 or len(set(answers)) < len(answers):
            raise ValueError(f"{name}: expected at least two different answers")
    return MappingProxyType({name: tuple(sorted(answers)) for name, answers in given.items()})


def _plain(given: Mapping[str, tuple[str, ...]] | None) -> dict[str, list[str]] | None:
    return None if given is None else {name: list(answers) for name, answers in given.items()}


Answers = Annotated[
    Mapping[str, tuple[str, ...]],
    BeforeValidator(_read_answers),
    AfterValidator(_check_answers),
]
"""Column → the answers it may hold."""


class RandomizedResponse(Method, kind="randomized-response"):
    """Replace each answer, with a given probability, by one drawn evenly from all possible answers.

    With `truth_share` p and K possible answers an answer stays true with probability p, and is otherwise any of the K
    with equal probability. Yes/no with p = ½ is the classical protocol of two coins: heads, tell the truth; tails,
    throw again and say what the coin says.

    Guarantees local differential privacy for the values of each column: ε = ln(1 + p·K/(1 − p)), for two coins ln 3 ≈
    1.1; several columns of one person add up (both are in the decision). Shares of the population are estimated without
    bias by `estimate`, with their standard error. The guarantee needs a secret seed (whoever knows it can repeat the
    draws), and possible answers that do not come from the data: give `answers`, or they are those that occur. Does not
    hide who answered: missing values stay missing. Publishing other columns beside these can narrow the answer again.
    The probability is no secret: the estimate needs it. Time O(n + K²).

    References
    ----------
    Warner (1965), Randomized response: a survey technique for eliminating evasive answer bias, JASA 60; Dwork & Roth
    (2014), section 3.2; catalogue P18.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> two_coins = dc.RandomizedResponse(columns=["sex"], truth_share=0.5)
    >>> released = two_coins(people, seed=7)
    >>> estimate = two_coins.estimate(released, "sex")["female"]
    >>> true = (people.frame["sex"] == "female").mean()
    >>> abs(estimate.share - true) < 4 * estimate.standard_error
    True
    """

    columns: Columns = ()
    """yes/no or categorical columns to change; without it, the categorical quasi-identifiers and sensitive columns"""
    truth_share: float = Field(0.5, gt=0, lt=1)
    """probability of telling the truth whatever it is; two coins: 0.5"""
    answers: Annotated[Answers | None, PlainSerializer(_plain)] = None
    """the possible answers of each column: {column: [answer, …]}; without it, the values that occur"""
    by_person: bool = False
    """draw by person and answer: in the next delivery (with the decision of the first, `--reuse`, and its seed file) an
    unchanged answer of the same person is published as the same one"""
    person: str = ""
    """column that says who a row is about, for `by_person`; without it, the one with the role identifier"""

    random: ClassVar[bool] = True
    purpose: ClassVar[Purpose] = "swap"
    effect: ClassVar[str] = (
        "Shares counted in the file are biased toward equal ones; the published probability of a true answer gives "
        "unbiased estimates with a larger variance."
    )
    scale: ClassVar[Scale] = "rows"
    guarantee: ClassVar[str] = (
        "Answers were replaced at random with a published probability (local differential privacy), so nobody's "
        "published answer is certain; shares of the population can be estimated."
    )

    def reads(self, data: Dataset) -> tuple[str, ...]:
        """Name the columns to change."""
        return categorical_columns(data, self.columns, self.kind)

    def fit(self, data: Dataset, ctx: Context) -> Decision:  # noqa: ARG002
        """Work out the probabilities and ε of each column."""
        columns: dict[str, Any] = {}
        chosen = categorical_columns(data, self.columns, self.kind)
        if wrong := [name for name in self.answers or {} if name not in chosen]:
            raise PlanError([f"{self.kind}: answers: {unknown('column', name, chosen)}" for name in wrong])
        for name in chosen:
            answers = self._answers(data, name)
            matrix = np.full((len(answers), len(answers)), (1 - self.truth_share) / len(answers))
            matrix[np.diag_indices(len(answers))] += self.truth_share
            columns[name] = {"categories": answers, "matrix": matrix.tolist(), "epsilon": self.epsilon(len(answers))}
        total = sum(known["epsilon"] for known in columns.values())
        return Decision(MappingProxyType({"columns": columns, "epsilon": total}))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Draw, batch by batch."""
        people = PersonDraws(data, self.person, ctx) if self.by_person else None
        return move_categories(data, decision["columns"], ctx, people)

    def epsilon(self, answers: int = 2) -> float:
        """Give the ε of one column with so many possible answers."""
        return math.log1p(self.truth_share * answers / (1 - self.truth_share))

    def estimate(self, released: Any, column: str) -> dict[str, ShareEstimate]:
        """Estimate the true share of each answer among those who answered, from released data (frame or Dataset)."""
        data = Dataset.of(released)
        data.require([column])
        counts = _counts(data, column)
        answers = self._answers(data, column)
        return estimate_shares({name: counts.get(name, 0) for name in answers}, self.truth_share)

    def _answers(self, data: Dataset, column: str) -> list[str]:
        seen = _counts(data, column)
        given = (self.answers or {}).get(column)
        if given is None:
            if len(seen) < 2:
                raise DataError(
                    f"column {column!r} has fewer than two different answers, which gives everybody away; "
                    "give the possible ones as `answers`"
                )
            return list(seen)
        if outside := sum(count for name, count in seen.items() if name not in given):
            raise DataError(f"column {column!r}: {outside} values are not among its possible `answers`")
        return list(given)


def estimate_shares(counts: Mapping[str, int], truth_share: float = 0.5) -> dict[str, ShareEstimate]:
    """Estimate true shares from the counts of released answers; `counts` names every possible answer.

    With Y the released share of an answer among n, p = (Y − (1 − truth_share)/K) / truth_share and its standard error
    is √(Y(1 − Y)/n) / truth_share. For two coins: p = 2Y − ½, sd = 2·√(Y(1 − Y)/n). An estimate can lie outside 0 to 1.
    """
    if not 0 < truth_share < 1 or len(counts) < 2:
        raise PlanError("an estimate needs a truth_share between 0 and 1 and the counts of at least two answers")
    total = sum(counts.values())
    if not total:
        raise DataError("there are no answers to estimate from")
    return {name: _estimate(count, total, len(counts), truth_share) for name, count in counts.items()}


def _estimate(count: int, total: int, answers: int, truth_share: float) -> ShareEstimate:
    released = count / total
    share = (released - (1 - truth_share) / answers) / truth_share
    return ShareEstimate(share, math.sqrt(released * (1 - released) / total) / truth_share, total)


Rows = Mapping[str, Mapping[str, float]]

MOST_CATEGORIES = 1000
"""Columns with more categories are refused: their matrix would have more than a million entries."""


def _read_matrices(given: object) -> object:
    """Write column and category names as text: YAML reads 1 and true as what they look like."""
    if not isinstance(given, Mapping):
        return given
    return {canonical(key): _read_matrices(value) for key, value in given.items()}


def _check_matrices(matrices: Mapping[str, Rows]) -> Mapping[str, Rows]:
    problems = [f"{name}: {text}" for name, rows in matrices.items() for text in _row_problems(rows)]
    if not matrices:
        problems = ["expected at least one column"]
    if problems:
        raise ValueError("; ".join(problems))
    return MappingProxyType({name: _frozen(rows) for name, rows in matrices.items()})


def _row_problems(rows: Rows) -> list[str]:
    problems = [] if rows else ["expected a row for each category"]
    for category, row in rows.items():
        if strange := [target for target in row if target not in rows]:
            problems.append(f"category {strange[0]!r} can be moved to, but has no row of its own")
        if any(not 0 <= share <= 1 for share in row.values()):
            problems.append(f"the row of {category!r} has a probability outside 0 to 1")
        elif abs(sum(row.values()) - 1) > 1e-6:
            problems.append(f"the row of {category!r} sums to {sum(row.values()):.6g}, not to 1")
    return problems


def _frozen(rows: Rows) -> Rows:
    return MappingProxyType({category: MappingProxyType(dict(row)) for category, row in rows.items()})


def _thawed(matrices: Mapping[str, Rows] | None) -> dict[str, Any] | None:
    if matrices is None:
        return None
    return {name: {category: dict(row) for category, row in rows.items()} for name, rows in matrices.items()}


Matrices = Annotated[
    Mapping[str, Mapping[str, Mapping[str, float]]],
    BeforeValidator(_read_matrices),
    AfterValidator(_check_matrices),
]
"""Column → category → {category: probability}."""


class Pram(StratifiedMethod, kind="pram"):
    """Move each category to another one at random, by the probabilities of a transition matrix.

    Row k of a column's matrix holds the probabilities with which a value of category k is published as each
    category. The matrix is given, or built from `keep_share`: a value stays with that probability, the rest is spread
    over the other categories in proportion to their frequencies, or uniformly. `invariant` replaces the matrix P by
    R = P·Q, where Q goes the way back (Q_jk = p_kj·t_k / Σ_l p_lj·t_l, t the frequencies): then the expected
    frequencies are exactly those of the data, but a value moves twice and stays less often than P says.

    Guarantees that no published category is certain, and that true frequencies can be estimated without bias
    (`discretion.protect.pram.estimate_frequencies`). Does not give k-anonymity, and does not keep columns consistent
    with each other: a child may become a widow. A column with a single category cannot move. Missing values stay
    missing. Time O(n + K²) for K categories; 1000 categories at most.

    References
    ----------
    Gouweleeuw, Kooiman, Willenborg & de Wolf (1998), Post randomisation for statistical disclosure control, Journal of
    Official Statistics 14(4); catalogue P17.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> moved = dc.Pram(columns=["marital_status"], keep_share=0.8, invariant=True)(people, seed=7)
    >>> 0.6 < (moved.frame["marital_status"] == people.frame["marital_status"]).mean() < 1
    True
    """

    columns: Columns = ()
    """categorical columns to change; without it, those of `matrix`, or the categorical quasi and sensitive ones"""
    keep_share: float | None = confidential(None, ge=0, lt=1)
    """probability with which a value stays as it is, in the matrix that is built"""
    matrix: Annotated[Matrices | None, PlainSerializer(_thawed)] = confidential(None)
    """probabilities given: {column: {category: {category: probability}}}, each row summing to 1"""
    spread: Literal["proportional", "uniform"] = "proportional"
    """how values that do not stay are spread: by the frequency of the other categories, or evenly"""
    invariant: bool = Field(False)
    """change the matrix so that the expected frequencies are those of the data"""
    by_person: bool = False
    """draw by person and category: in the next delivery (with the decision of the first, `--reuse`, and its seed file)
    an unchanged category of the same person moves to the same one"""
    person: str = ""
    """column that says who a row is about, for `by_person`; without it, the one with the role identifier"""

    random: ClassVar[bool] = True
    purpose: ClassVar[Purpose] = "swap"
    effect: ClassVar[str] = (
        "Shares and relations of the column are biased toward the changed categories unless they are corrected by the "
        "transition probabilities; an invariant matrix keeps shares on average."
    )
    scale: ClassVar[Scale] = "rows"
    guarantee: ClassVar[str] = (
        "Categories were changed at random by known probabilities, so no published category is certain; combinations "
        "of columns may be impossible."
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.keep_share is None) == (self.matrix is None):
            raise ValueError("give exactly one of `keep_share` and `matrix`")
        if self.matrix is not None and (lacking := [name for name in self.columns if name not in self.matrix]):
            raise ValueError(f"`matrix` has no entry for column {lacking[0]!r}")
        return self

    def reads(self, data: Dataset) -> tuple[str, ...]:
        """Name the columns to change and those that form groups."""
        return self._reads_also(data, categorical_columns(data, self.columns or tuple(self.matrix or ()), self.kind))

    def fit(self, data: Dataset, ctx: Context) -> Decision:  # noqa: ARG002
        """Build the transition matrix of each column."""
        named = self.columns or tuple(self.matrix or ())
        found = {name: self._transitions(data, name) for name in categorical_columns(data, named, self.kind)}
        return Decision(MappingProxyType({"columns": found}))

    def _transitions(self, data: Dataset, column: str) -> dict[str, Any]:
        known = _counts(data, column)
        if self.matrix is not None:
            rows = self.matrix[column]
            outside = sum(count for category, count in known.items() if category not in rows)
            if outside:
                raise DataError(f"column {column!r}: {outside} values are of categories that `matrix` has no row for")
            categories = sorted(rows)
            given = np.array([[rows[a].get(b, 0.0) for b in categories] for a in categories])
            moves = given / given.sum(axis=1, keepdims=True)
        else:
            categories = list(known)
            weights = np.array([known[c] for c in categories], dtype=float) if self.spread == "proportional" else None
            moves = keeping_matrix(len(categories), self.keep_share or 0.0, weights)
        if self.invariant and known:
            moves = invariant_matrix(moves, [known.get(category, 0) for category in categories])
        return {"categories": categories, "matrix": moves.tolist()}

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Draw, batch by batch."""
        people = PersonDraws(data, self.person, ctx) if self.by_person else None
        return move_categories(data, decision["columns"], ctx, people)


# --- matrices ----------------------------------------------------------------------------------------------------


def keeping_matrix(size: int, keep_share: float, weights: ArrayLike | None = None) -> Floats:
    """Build the matrix that keeps a category with `keep_share` and spreads the rest by the weights of the others."""
    if size < 2:
        return np.eye(size)
    spread = np.tile(np.ones(size) if weights is None else np.asarray(weights, dtype=float), (size, 1))
    np.fill_diagonal(spread, 0.0)
    moves: Floats = (1.0 - keep_share) * spread / spread.sum(axis=1, keepdims=True)
    moves[np.diag_indices(size)] = keep_share
    return moves


def invariant_matrix(matrix: ArrayLike, frequencies: ArrayLike) -> Floats:
    """Turn a transition matrix P into R = P·Q with t·R = t, t the frequencies.

    Q_jk = p_kj·t_k / Σ_l p_lj·t_l is the way back from a published category to the true one; a category that nobody is
    moved to stays itself.
    """
    moves, counts = np.asarray(matrix, dtype=float), np.asarray(frequencies, dtype=float)
    joint = moves * counts[:, None]
    arriving = joint.sum(axis=0)
    back = np.eye(len(counts))
    reached = arriving > 0
    back[reached] = joint.T[reached] / arriving[reached, None]
    there_and_back: Floats = moves @ back
    return there_and_back


def estimate_frequencies(counts: ArrayLike, matrix: ArrayLike) -> Floats:
    """Estimate the true frequencies from those published, without bias: t̂ solves t̂·R = counts.

    Both follow the order of the categories in the step's decision. An estimate can be negative where few records are
    published. A matrix that cannot be inverted (all rows equal, say) is a `DataError`.
    """
    return np.asarray(np.asarray(counts, dtype=float) @ _inverse(matrix))


def estimate_errors(counts: ArrayLike, matrix: ArrayLike) -> Floats:
    """Give the standard errors of `estimate_frequencies`: the spread that the random moves alone bring."""
    moves = np.asarray(matrix, dtype=float)
    inverse = _inverse(moves)
    true = np.maximum(np.asarray(counts, dtype=float) @ inverse, 0.0)
    covariance = np.diag(true @ moves) - (moves * true[:, None]).T @ moves
    return np.asarray(np.sqrt(np.maximum(np.diag(inverse.T @ covariance @ inverse), 0.0)))


def _inverse(matrix: ArrayLike) -> Floats:
    moves = np.asarray(matrix, dtype=float)
    if moves.ndim != 2 or moves.shape[0] != moves.shape[1]:
        raise PlanError("a transition matrix has as many rows as columns")
    if not np.linalg.cond(moves) < 1e12:
        raise DataError("the transition matrix cannot be inverted: what it did to the frequencies cannot be undone")
    return np.linalg.inv(moves)


# --- columns -----------------------------------------------------------------------------------------------------


def categorical_columns(data: Dataset, named: Sequence[str], kind: str) -> tuple[str, ...]:
    """Give the named columns, or the categorical quasi-identifiers and sensitive ones; refuse sets."""
    if not named:
        roles = data.having("quasi", "sensitive")
        named = tuple(name for name in roles if data.type_of(name) in ("nominal", "ordinal"))
        if not named:
            raise PlanError(f"{kind}: no column is a categorical quasi-identifier or sensitive; give `columns`")
    chosen = data.choose(named, "classes")
    for name in chosen:
        if data.type_of(name) == "set":
            raise DataError(f"column {name!r} holds sets; {kind} needs single categories")
        if not isinstance(data.levels.get(name, 0), int):
            raise DataError(f"column {name!r} was generalized record by record; {kind} needs one level")
    return chosen


@dataclass(frozen=True)
class Category:
    """A category of a column: the code it has, how many records have it, and one of them."""

    code: int
    count: int
    row: int


def _counts(data: Dataset, column: str) -> dict[str, int]:
    counts = data.value_counts(column)
    _refuse_many(column, len(counts))
    return counts


def _refuse_many(column: str, found: int) -> None:
    if found > MOST_CATEGORIES:
        raise DataError(
            f"column {column!r} has {found} different values; at most {MOST_CATEGORIES} categories can be moved: "
            "recode it first"
        )


def categories_of(data: Dataset, column: str) -> dict[str, Category]:
    """Give the categories of a column by name, in order of the names; missing values are left out."""

    def make() -> dict[str, Category]:
        coded = data.codes(column)
        counts, rows = coded.counts_and_rows
        present = [code for code in np.flatnonzero(counts).tolist() if code != coded.missing]
        _refuse_many(column, len(present))
        values = coded.series.gather(rows[present].astype(np.uint32)).to_list()
        named = sorted(zip(map(canonical, values), present, strict=True))
        return {name: Category(code, int(counts[code]), int(rows[code])) for name, code in named}

    return data.cached(("categories", column), make)


def move_categories(
    data: Dataset, transitions: Mapping[str, Mapping[str, Any]], ctx: Context, people: PersonDraws | None = None
) -> Dataset:
    """Draw the new categories of some columns, by row or (with `people`) by person and category."""
    import polars as pl

    from discretion.kernels.pram import alias_tables, move

    data.require(transitions)
    jobs = []
    for name, known in transitions.items():
        if known["categories"]:
            lookup = _lookup(data, name, known["categories"])
            out = np.empty(len(data), np.uint32)
            jobs.append((name, data.codes(name).codes, lookup, alias_tables(known["matrix"]), out))
    if people is not None:
        for name, codes, lookup, tables, out in jobs:
            places = lookup[codes]  # among the categories of the decision: the same in every delivery that uses it
            move(places, people.uniforms(name, places.astype(np.uint64)), tables, out)
    for batch in ctx.batches(len(data)) if people is None else ():
        rows = slice(batch.start, batch.stop)
        for _, codes, lookup, tables, out in jobs:
            move(lookup[codes[rows]], batch.rng.random(batch.stop - batch.start), tables, out[rows])
    return data.with_columns(
        {name: _palette(data, name, transitions[name]["categories"]).gather(pl.Series(out)) for name, *_, out in jobs}
    )


def _lookup(data: Dataset, column: str, categories: Sequence[str]) -> Ints32:
    """Give the place of each code among the categories; missing comes after them."""
    places = {name: place for place, name in enumerate(categories)}
    known = categories_of(data, column)
    if strange := sum(category.count for name, category in known.items() if name not in places):
        raise DataError(
            f"column {column!r}: {strange} values are of categories without probabilities; fit the step anew"
        )
    lookup = np.full(data.codes(column).size, len(categories), np.int32)
    for name, category in known.items():
        lookup[category.code] = places[name]
    return lookup


def _palette(data: Dataset, column: str, categories: Sequence[str]) -> Any:
    """Give the categories as values of the column's own type, and a missing value after them."""
    import polars as pl

    series = data.series(column)
    known = categories_of(data, column)
    seen = [name for name in categories if name in known]
    new = [name for name in categories if name not in known]
    try:
        text = pl.Series(column, [*new, None], dtype=pl.String)
        made = _in_type(text, series.dtype)
    except pl.exceptions.PolarsError:
        raise DataError(f"column {column!r} ({series.dtype}) cannot hold every category of the matrix") from None
    values = series.gather(np.array([known[name].row for name in seen], dtype=np.uint32)).extend(made)
    order = {name: place for place, name in enumerate([*seen, *new])}
    return values.gather(np.array([*(order[name] for name in categories), len(order)], dtype=np.uint32))


def _in_type(text: Any, kind: Any) -> Any:
    """Read categories, written as text, as values of a type."""
    import polars as pl

    if kind == pl.Boolean:
        return text.replace_strict({"false": False, "true": True, None: None}, return_dtype=pl.Boolean)
    if kind == pl.Date:
        return text.str.to_date("%Y-%m-%d")
    return text.str.to_datetime().cast(kind) if isinstance(kind, pl.Datetime) else text.cast(kind)
