"""Roles, types and orders: what is allowed, what contradicts itself, and that every fault is told at once."""

from __future__ import annotations

import polars as pl
import pytest

from discretion.data.dataset import Dataset
from discretion.data.schema import Schema
from discretion.errors import PlanError


def test_roles_types_orders_and_codes_meet_in_one_column() -> None:
    schema = Schema.build(
        roles={"edu": ["quasi", "sensitive"]},
        missing_codes={"edu": 9},
        orders={"edu": [1, 2, 3]},
    )
    column = schema["edu"]
    assert column.roles == ("quasi", "sensitive") and column.has_role
    assert column.type == "ordinal" and column.order == ("1", "2", "3")
    assert column.missing_codes == (9,)


def test_a_column_nobody_listed_is_other_and_says_that_nobody_listed_it() -> None:
    schema = Schema.build(roles={"age": "other"}, types={"name": "nominal"})
    assert schema["name"].roles == ("other",) == schema["age"].roles == schema["unheard"].roles
    assert schema["age"].has_role
    assert not schema["name"].has_role and not schema["unheard"].has_role


@pytest.mark.parametrize(
    "pair",
    [
        ("identifier", "quasi"),
        ("identifier", "sensitive"),
        ("weight", "quasi"),
        ("other", "quasi"),
        ("household", "sensitive"),
    ],
)
def test_roles_that_contradict(pair: tuple[str, str]) -> None:
    with pytest.raises(PlanError, match="contradict") as caught:
        Schema.build(roles={"x": list(pair)})
    assert pair[0] in str(caught.value) and pair[1] in str(caught.value) and "roles.x" in str(caught.value)


@pytest.mark.parametrize("pair", [("quasi", "sensitive"), ("quasi", "geography"), ("geography", "stratum")])
def test_roles_that_go_together(pair: tuple[str, str]) -> None:
    assert Schema.build(roles={"x": list(pair)}).having(pair[1]) == ("x",)


def test_all_faults_at_once_with_suggestions() -> None:
    with pytest.raises(PlanError) as caught:
        Schema.build(
            roles={"age": "quasy", "sex": ["identifier", "weight"], "zip": [], "w": "nonsense"},
            types={"age": "continous"},
            hierarchies={"zip": {"masked": {}}},
            orders={"edu": "low"},
        )
    problems = caught.value.problems
    assert len(problems) == 7
    assert any("roles.age" in p and "did you mean 'quasi'?" in p for p in problems)
    assert any("roles.w" in p and "known:" in p and "geography" in p for p in problems)
    assert any("roles.zip" in p and "expected a role" in p for p in problems)
    assert any("types.age" in p and "did you mean 'continuous'?" in p for p in problems)
    assert any("hierarchies.zip" in p and "did you mean 'masking'?" in p for p in problems)
    assert any("orders.edu" in p for p in problems)


def test_schema_that_names_absent_columns_lists_all_of_them() -> None:
    with pytest.raises(PlanError) as caught:
        Dataset(pl.DataFrame({"age": [1], "income": [2]}), roles={"agee": "quasi", "incom": "sensitive"})
    assert caught.value.problems == (
        "unknown column 'agee'; did you mean 'age'?",
        "unknown column 'incom'; did you mean 'income'?",
    )


def test_having_keeps_the_order_of_the_schema_and_forgets_dropped_columns() -> None:
    data = Dataset(pl.DataFrame({"b": [1], "a": [1], "c": [1]}), roles={"c": "quasi", "b": "quasi", "a": "sensitive"})
    assert data.having("quasi") == ("b", "c")
    assert data.drop(["b"]).having("quasi", "sensitive") == ("a", "c")
