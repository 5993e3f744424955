"""What counts as stricter is stricter: whatever data fulfils the stricter demand fulfils the other one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import polars as pl
import pytest

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.schema import Schema
from discretion.model import PrivacyModel
from discretion.part import parse
from discretion.policy.policy import Demand, narrower, shortfall
from discretion.tables.rules.rule import Rule
from discretion.tables.tabulate import tabulate

MODELS: dict[str, list[dict[str, Any]]] = {
    "k-anonymity": [
        {"k": k, "columns": columns, **more}
        for k in (1, 2, 3)
        for columns in ([], ["a"], ["a", "b", "c"])
        for more in (
            {},
            {"missing": "wildcard"},
            {"missing": "ignore"},
            {"count": "records"},
            {"missing": "wildcard", "alpha": 0.5, "count": "records"},
        )
    ],
    "household-k-anonymity": [{"k": k, "columns": c} for k in (1, 2) for c in ([], ["a"])],
    "distinct-l-diversity": [
        {"l": number, "columns": c, "sensitive": s, "missing": m}
        for number in (1, 2, 3)
        for c in ([], ["a"])
        for s in ([], ["s"])
        for m in ("category", "ignore")
    ],
    "entropy-l-diversity": [{"l": number, "columns": c} for number in (1.1, 1.5) for c in ([], ["a"])],
    "recursive-l-diversity": [
        {"c": c, "l": number, "columns": on} for c in (1, 3) for number in (1, 2) for on in ([], ["a"])
    ],
    "t-closeness": [
        {"t": t, "columns": c, "sensitive": "s", "distance": "equal"} for t in (0.2, 0.4, 0.6) for c in ([], ["a"])
    ],
    "alpha-k": [{"alpha": a, "k": k, "columns": c} for a in (0.6, 0.9) for k in (1, 2) for c in ([], ["a"])],
    "p-sensitive": [{"p": p, "k": k, "columns": c} for p in (1, 2) for k in (1, 2) for c in ([], ["a"])],
    "beta-likeness": [{"beta": b, "columns": c} for b in (0.5, 2) for c in ([], ["a"])],
    "delta-disclosure": [
        {"delta": d, "absent": a, "columns": c} for d in (0.5, 2) for a in ("fail", "ignore") for c in ([], ["a"])
    ],
    "average-risk": [{"risk": r, "columns": c} for r in (0.3, 0.6) for c in ([], ["a"])],
    "sample-uniqueness-bound": [{"share": s, "columns": c} for s in (0.0, 0.2) for c in ([], ["a"])],
    "detail-limits": [
        {name: number, "missing": m, "columns": c}
        for name, number in (("max_columns", 5), ("max_columns", 9), ("min_category_size", 2), ("min_category_size", 4))
        for m in ("category", "ignore")
        for c in (["a"], ["a", "b"])
    ],
}


def _data(rng: np.random.Generator) -> Dataset:
    rows = int(rng.integers(6, 16))
    frame = pl.DataFrame(
        {name: rng.choice([*"xy", None], rows, p=[0.45, 0.45, 0.1]).tolist() for name in "abc"}
        | {"s": rng.choice(list("pqr"), rows).tolist(), "t": rng.choice(list("uv"), rows).tolist()}
        | {"home": rng.integers(0, rows, rows).tolist()}
    )
    roles = {"a": "quasi", "b": "quasi", "c": "other", "s": "sensitive", "t": "sensitive", "home": "household"}
    return Dataset(frame, schema=Schema.build(roles=roles))


def _holds(part: PrivacyModel, data: Dataset) -> bool | None:
    try:
        return bool(part.run(data, Context(0)))
    except ValueError:
        return None  # it cannot be judged, so that nothing is published under it


@pytest.mark.parametrize("kind", MODELS)
def test_what_holds_for_the_stricter_holds_for_the_other(kind: str) -> None:
    rng = np.random.default_rng(len(kind))
    made = [parse({kind: fields}) for fields in MODELS[kind]]
    parts = [part for part in made if isinstance(part, PrivacyModel)]
    schema = _data(rng).schema
    pairs = [
        (i, j)
        for i, j in itertools.permutations(range(len(parts)), 2)
        if not shortfall(Demand(parts[i]), Demand(parts[j]), schema)
    ]
    assert pairs
    met = 0
    for _ in range(25):
        data = _data(rng)
        held = [_holds(part, data) for part in parts]
        met += sum(held[i] is True for i, _ in pairs)
        assert not [(parts[i], parts[j]) for i, j in pairs if held[i] and held[j] is False]
    assert met


RULES: dict[str, list[dict[str, Any]]] = {
    "threshold": [{"minimum": m, "range_percent": r} for m in (2, 3, 5) for r in (10, 30)],
    "p-percent": [{"percent": p, "coalition": c} for p in (5, 20, 60) for c in (1, 2)],
    "pq": [{"p_percent": p, "q_percent": q} for p in (5, 20) for q in (40, 90)],
    "dominance": [
        {"n": n, "percent": p, "boundary": b} for n in (1, 2) for p in (50, 75) for b in ("safe", "sensitive")
    ],
    "group-disclosure": [{}, {"columns": ["a"]}, {"columns": ["a", "b"]}],
}


@pytest.mark.parametrize("kind", RULES)
def test_a_stricter_rule_finds_every_cell_and_protects_it_as_much(kind: str) -> None:
    rng = np.random.default_rng(len(kind))
    rules = [one for fields in RULES[kind] if isinstance(one := parse({kind: fields}), Rule)]
    pairs = [(i, j) for i, j in itertools.permutations(range(len(rules)), 2)
             if not shortfall(Demand(rules[i]), Demand(rules[j]))]  # fmt: skip
    assert pairs
    for _ in range(20):
        rows = 20
        frame = pl.DataFrame(
            {"a": rng.choice(list("xyz"), rows), "b": rng.choice(list("uv"), rows), "v": rng.integers(1, 50, rows) ** 2}
        )
        cells = tabulate(frame, ["a", "b"], None if kind == "group-disclosure" else "v", top=3)
        judged = [rule.judge(cells) for rule in rules]
        for i, j in pairs:
            assert (judged[i].sensitive >= judged[j].sensitive).all()
            assert (judged[i].lower >= judged[j].lower - 1e-9).all()


def test_what_cannot_be_compared_is_weaker() -> None:
    plain, weighted = (Demand(parse({"distance-linkage": f}), at_most=0.1) for f in ({}, {"columns": ["a"]}))
    assert "`columns`" in shortfall(weighted, plain)[0]
    assert shortfall(Demand(parse({"k-anonymity": {"k": 9}})), plain) == [
        "k-anonymity says nothing about distance-linkage"
    ]
    looser = Demand(parse({"distance-linkage": {}}), at_most=0.2, at_least=0.1)
    assert shortfall(looser, plain) == ["`at_most` is 0.2, 0.1 is demanded"]
    assert shortfall(Demand(parse({"distance-linkage": {}}), at_least=0.1), plain)


def test_a_line_for_some_sensitive_columns_is_told_from_a_weaker_one() -> None:
    def demand(l: int, *sensitive: str) -> Demand:  # noqa: E741
        return Demand(parse({"distinct-l-diversity": {"l": l, "columns": ["a"], "sensitive": [*sensitive]}}))

    assert narrower(demand(3, "s"), demand(2, "s", "t")) == ("s",)
    assert narrower(demand(2, "s"), demand(3, "s", "t")) == ()
    k = Demand(parse({"k-anonymity": {"k": 3, "columns": ["a"]}}))
    assert narrower(k, k) == narrower(k, demand(2, "s")) == narrower(demand(2, "s"), k) == ()
