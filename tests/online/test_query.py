"""Questions: one canonical form, plain data and back, nothing strange gets in."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion.data.sql_filter import And, Condition, Not, Or
from discretion.errors import QueryRefused
from discretion.online.question.query import Aggregate, Query, admit
from tests.online import naive, samples

MANY = settings(deadline=None, max_examples=80)
COUNT = (Aggregate("count"),)


@MANY
@given(samples.queries())
def test_plain_data_and_back(query: Query) -> None:
    assert Query.from_json(query.to_json()) == query
    assert query.canonical().canonical() == query.canonical()
    assert Query.from_json(query.canonical().to_json()).digest() == query.digest()


@MANY
@given(samples.queries(), samples.records(12))
def test_the_canonical_form_asks_the_same(query: Query, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert naive.holds(query.where, row) == naive.holds(query.canonical().where, row)


@MANY
@given(st.lists(samples.filters(), min_size=2, max_size=4, unique=True), st.randoms())
def test_order_repetition_and_names_do_not_matter(parts: list[Any], random: Any) -> None:
    mixed = [*parts, parts[0]]
    random.shuffle(mixed)
    ages, sums = Aggregate("mean", "age", name="a"), Aggregate("sum", "age", name="b")
    one = Query("people", (ages, sums), And(tuple(parts)), ("sex", "region"))
    other = Query("people", (Aggregate("sum", "age"), Aggregate("mean", "age")), And(tuple(mixed)), ("region", "sex"))
    assert one.digest() == other.digest()


def test_different_questions_have_different_digests() -> None:
    where = Condition("age", "<", (30,))
    asked = [
        Query("people", COUNT),
        Query("people", COUNT, where),
        Query("people", COUNT, Not(where)),
        Query("people", COUNT, Condition("age", "<=", (30,))),
        Query("people", COUNT, where, ("sex",)),
        Query("people", (Aggregate("sum", "age"),), where),
        Query("people", COUNT, And((where, Condition("sex", "=", ("F",))))),
        Query("people", COUNT, Or((where, Condition("sex", "=", ("F",))))),
        Query("other", COUNT),
    ]
    assert len({query.digest() for query in asked}) == len(asked)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["age", "sex", "in", "count", "people"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["table", "aggregates", "where", "group_by", "column", "op", "values", "and", "not", "function"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=300)
@given(json_values)
def test_any_plain_data_is_a_question_or_refused(content: Any) -> None:
    with contextlib.suppress(QueryRefused):
        admit(Query.from_json(content), samples.table()).digest()


@settings(deadline=None, max_examples=200)
@given(samples.queries(), st.data())
def test_a_damaged_question_is_refused_or_still_a_question(query: Query, data: st.DataObject) -> None:
    content = query.to_json()
    key = data.draw(st.sampled_from(sorted(content)))
    content[key] = data.draw(json_values)
    with contextlib.suppress(QueryRefused):
        admit(Query.from_json(content), samples.table()).digest()


@pytest.mark.parametrize(
    "where",
    [
        Condition("age", "=", ("thirty-secret",)),
        Condition("age", "<", (True,)),
        Condition("age", "<", (2**60,)),
        Condition("sex", "=", (77_123,)),
        Condition("sex", "<", ("secret-F",)),
        Condition("married", "=", (1,)),
        Condition("born", ">", ("secret 1990",)),
        Condition("born", ">", ("1990-1-1",)),
        Condition("secret", "=", (1.0,)),
        Condition("income", "=", (1.0,)),
    ],
)
def test_values_of_the_wrong_kind_are_refused_without_being_named(where: Condition) -> None:
    with pytest.raises(QueryRefused) as caught:
        admit(Query("people", COUNT, where), samples.table())
    assert not any(str(value) in str(caught.value) for value in where.values if len(str(value)) > 3)


@pytest.mark.parametrize(
    "aggregate",
    [
        Aggregate("sum", "sex"),
        Aggregate("min", "born"),
        Aggregate("variance", "married"),
        Aggregate("quantile", "region", 0.5),
        Aggregate("histogram", "age", cuts=tuple(map(float, range(2000)))),
        Aggregate("count-distinct", "secret"),
    ],
)
def test_aggregates_that_do_not_fit(aggregate: Aggregate) -> None:
    with pytest.raises(QueryRefused):
        admit(Query("people", (aggregate,)), samples.table())


def test_too_much_is_refused() -> None:
    many = tuple(Aggregate("count", name=f"n{i}") for i in range(33))
    with pytest.raises(QueryRefused, match="figures"):
        admit(Query("people", many), samples.table())
    with pytest.raises(QueryRefused, match="values"):
        admit(Query("people", COUNT, Condition("age", "in", tuple(range(1001)))), samples.table())


def test_equal_numbers_are_one_question() -> None:
    one, other = (admit(Query("people", COUNT, Condition("age", ">", (v,))), samples.table()) for v in (30, 30.0))
    assert one.digest() == other.digest()


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_texts_that_no_database_can_hold(text: str) -> None:
    with pytest.raises(QueryRefused):
        Condition("sex", "=", (text,))


def test_figures_that_would_be_called_alike_are_told_apart() -> None:
    coarse, fine = Aggregate("histogram", "x", cuts=(0.0, 9.0)), Aggregate("histogram", "x", cuts=(0.0, 5.0, 9.0))
    asked = Query("t", (replace(fine, name="a"), replace(coarse, name="b")))
    other = Query("t", (replace(coarse, name="c"), replace(fine, name="d")))
    assert asked.digest() == other.digest() and asked.canonical().canonical() == asked.canonical()
    assert [a.label for a in asked.canonical().aggregates] == ["histogram_x", "histogram_x_2"]
    assert [asked.canonical().place_of(a) for a in (coarse, fine)] == [
        other.canonical().place_of(a) for a in (replace(coarse, name="z"), fine)
    ]
    near = Query("t", (Aggregate("quantile", "x", 0.5, name="a"), Aggregate("quantile", "x", 0.5 + 1e-9, name="b")))
    assert len(near.canonical().aggregates) == 2
    grouped = Query("t", (Aggregate("sum", "x", name="total"),), group_by=("sum_x",))
    assert grouped.canonical().aggregates[0].label == "sum_x_2"
    unnamed = {
        "table": "t",
        "aggregates": [{"function": "histogram", "column": "x", "cuts": [0, n]} for n in (1, 2, 3)],
    }
    assert [a.label for a in Query.from_json(unnamed).aggregates] == ["histogram_x", "histogram_x_2", "histogram_x_3"]
    with pytest.raises(QueryRefused, match="same name"):
        Query.from_json({"table": "t", "aggregates": [{"function": "count"}, {"function": "count"}]})
