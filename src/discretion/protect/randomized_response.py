"""Randomized response: everybody answers truthfully or by a throw of the dice, and nobody can tell which (P18)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.data.persons import PersonDraws
from discretion.errors import DataError, PlanError, unknown
from discretion.method import Decision, Method
from discretion.part import Columns
from discretion.protect.pram import categorical_columns, categories_of, move_categories


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
        counts = {name: found.count for name, found in categories_of(data, column).items()}
        answers = self._answers(data, column)
        return estimate_shares({name: counts.get(name, 0) for name in answers}, self.truth_share)

    def _answers(self, data: Dataset, column: str) -> list[str]:
        seen = categories_of(data, column)
        given = (self.answers or {}).get(column)
        if given is None:
            if len(seen) < 2:
                raise DataError(
                    f"column {column!r} has fewer than two different answers, which gives everybody away; "
                    "give the possible ones as `answers`"
                )
            return list(seen)
        if outside := sum(found.count for name, found in seen.items() if name not in given):
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
