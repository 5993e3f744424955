"""Tables, records and questions for the tests of the on-line wing."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from discretion.data.sql_filter import And, Condition, Everything, Filter, Not, Or
from discretion.online.declare import TableSpec
from discretion.online.question.query import Aggregate, Query

COLUMNS: dict[str, dict[str, Any]] = {
    "sex": {"role": "public", "type": "category", "categories": ["F", "M"]},
    "region": {"role": "public", "type": "category"},
    "age": {"role": "public", "type": "integer", "bounds": (0, 100)},
    "married": {"role": "public", "type": "truth"},
    "born": {"role": "public", "type": "date"},
    'in%come "x"': {"role": "sensitive", "type": "number", "bounds": (-10, 50.5), "grid": 16},
    "debt": {"role": "sensitive", "type": "integer", "bounds": (-5e12, 5e12), "resolution": 4000},
    "secret": {"role": "hidden", "type": "number"},
}
INCOME = 'in%come "x"'
VALUES: dict[str, list[Any]] = {
    "sex": ["F", "M", "other", None],
    "region": ["north", "so'uth", "", "\u00e9", None],
    "age": [-3, 0, 17, 18, 30, 30, 64, 100, 120, None],
    "married": [True, False, None],
    "born": ["1950-01-01", "1999-12-31", "2004-02-29", None],
    INCOME: [-1e3, -10.0, -0.25, 0.0, 1.5, 3.125, 49.999, 50.5, 1e6, None],
    "debt": [-(10**13), -1, 0, 12_345, 10**12, None],
    "secret": [1.0],
}


def table(**changes: Any) -> TableSpec:
    return TableSpec(**{"name": "people", "columns": COLUMNS, **changes})


def records(largest: int = 25) -> st.SearchStrategy[list[dict[str, Any]]]:
    one = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()})
    return st.lists(st.tuples(one, st.integers(0, 5)), max_size=largest).map(
        lambda rows: [{**row, "id": f"p{person}"} for row, person in rows]
    )


def conditions() -> st.SearchStrategy[Condition]:
    def of(name: str) -> st.SearchStrategy[Condition]:
        kind = COLUMNS[name]["type"]
        value = st.sampled_from(
            [v for v in VALUES[name] if v is not None and abs(v if kind in ("number", "integer") else 0) < 2**50]
        )
        ops = ["=", "!="] if kind in ("category", "truth") else ["=", "!=", "<", "<=", ">", ">="]
        found = st.builds(Condition, st.just(name), st.sampled_from(ops), st.tuples(value))
        found |= st.builds(Condition, st.just(name), st.just("in"), st.lists(value, min_size=1, max_size=3).map(tuple))
        found |= st.builds(Condition, st.just(name), st.sampled_from(["is-missing", "not-missing"]))
        if kind not in ("category", "truth"):
            found |= st.builds(Condition, st.just(name), st.just("between"), st.tuples(value, value))
        return found

    return st.sampled_from([name for name in COLUMNS if name != "secret"]).flatmap(of)


def filters() -> st.SearchStrategy[Filter]:
    leaf = conditions() | st.just(Everything())
    return st.recursive(
        leaf,
        lambda inner: (
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: And(tuple(parts)))
            | st.lists(inner, min_size=1, max_size=3).map(lambda parts: Or(tuple(parts)))
            | inner.map(Not)
        ),
        max_leaves=6,
    )


def aggregates() -> st.SearchStrategy[Aggregate]:
    numeric = st.sampled_from(["age", INCOME, "debt"])
    plain = st.builds(Aggregate, st.sampled_from(["sum", "mean", "variance", "min", "max"]), numeric)
    truth = st.builds(Aggregate, st.sampled_from(["sum", "mean"]), st.just("married"))
    distinct = st.builds(
        Aggregate, st.just("count-distinct"), st.sampled_from(["sex", "region", "born", "married", INCOME])
    )
    share = st.sampled_from([0.25, 0.5, 0.9])
    quantiles = st.builds(lambda c, q: Aggregate("quantile", c, q), numeric, share)
    cuts = st.sampled_from(
        [(0.0, 50.5), (-10.0, 0.0, 1.5, 3.0, 50.5), (17.0, 18.0, 30.0), tuple(map(float, range(0, 70, 3)))]
    )
    histograms = st.builds(lambda c, k: Aggregate("histogram", c, cuts=k), numeric, cuts)
    return st.just(Aggregate("count")) | plain | truth | distinct | quantiles | histograms


def queries() -> st.SearchStrategy[Query]:
    group_by = st.sampled_from([(), ("sex",), ("region",), ("sex", "married"), ("born", "age")])
    asked = st.lists(aggregates(), min_size=1, max_size=4, unique_by=lambda a: a.label).map(tuple)
    return st.builds(Query, st.just("people"), asked, filters(), group_by)
