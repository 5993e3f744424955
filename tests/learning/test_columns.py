"""One comparer for all: how a column is read, by its type and by what it is compared for."""

from __future__ import annotations

import datetime as dt
from typing import get_args

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.learning.columns import Purpose, code_together, compare_column, labels_of, on_a_line, reading_of

N = 60
ORDER = ["low", "middle", "high"]
COLUMNS: dict[str, pl.Series] = {
    "number": pl.Series(np.arange(N) * 1.5),
    "whole number": pl.Series(np.arange(N)),
    "whole number, few values": pl.Series(np.arange(N) % 4),
    "whole number, nominal": pl.Series(np.arange(N)),
    "whole number, in an order": pl.Series(np.arange(N) % 3),
    "date": pl.Series([dt.date(2020, 1, 1) + dt.timedelta(days=i) for i in range(N)]),
    "date-time": pl.Series([dt.datetime(2020, 1, 1) + dt.timedelta(hours=i) for i in range(N)]),
    "duration": pl.Series([dt.timedelta(hours=i) for i in range(N)]),
    "time of day": pl.Series([dt.time(i % 24) for i in range(N)]),
    "date, nominal": pl.Series([dt.date(2020, 1, 1) + dt.timedelta(days=i) for i in range(N)]),
    "text": pl.Series([f"w{i % 7}" for i in range(N)]),
    "text, dates": pl.Series([str(dt.date(2020, 1, 1) + dt.timedelta(days=i)) for i in range(N)]),
    "text, in an order": pl.Series([ORDER[i % 3] for i in range(N)]),
    "enum": pl.Series([ORDER[i % 3] for i in range(N)], dtype=pl.Enum(ORDER)),
    "category": pl.Series([f"w{i % 7}" for i in range(N)], dtype=pl.Categorical),
    "true or false": pl.Series([i % 2 == 0 for i in range(N)]),
    "set": pl.Series([["a", "b"][: 1 + i % 2] for i in range(N)]),
}
TABLE = """
                            distance   agreement  synthetic  model      utility
number                      number     number     number     number     number
whole number                number     number     number     number     number
whole number, few values    number     number     few        few        number
whole number, nominal       category   category   category   category   category
whole number, in an order   rank       rank       number     category   category
date                        time       time       time       time       time
date-time                   time       time       time       time       time
duration                    time       time       time       time       time
time of day                 time       time       time       time       time
date, nominal               category   category   category   few        time
text                        category   category   category   category   category
text, dates                 time       category   category   category   category
text, in an order           rank       rank       rank       category   category
enum                        rank       rank       rank       category   category
category                    category   category   category   category   category
true or false               category   category   category   category   category
set                         category   category   category   category   category
"""


def data() -> dc.Dataset:
    return dc.Dataset(
        pl.DataFrame(COLUMNS),
        types={"whole number, nominal": "nominal", "date, nominal": "nominal", "text, dates": "date"},
        orders={"text, in an order": ORDER, "whole number, in an order": ["0", "1", "2"]},
    )


def test_the_table_of_types_and_meanings() -> None:
    """Who changes how a column is read changes this table, and every figure that depends on it."""
    purposes, people = get_args(Purpose), data()
    lines = [" " * 28 + "".join(f"{purpose:11}" for purpose in purposes)]
    lines += [f"{name:28}" + "".join(f"{reading_of(people, name, p):11}" for p in purposes) for name in COLUMNS]
    printed = "\n".join(line.rstrip() for line in lines)
    print(printed)
    assert printed == TABLE.strip("\n")


@pytest.mark.parametrize("purpose", get_args(Purpose))
@pytest.mark.parametrize("name", COLUMNS)
def test_equal_values_have_equal_places_or_codes(name: str, purpose: Purpose) -> None:
    """Against all pairs of values: what is equal stays equal, what is ordered stays in order, in both data sets."""
    one = data()
    rows = np.random.default_rng(3).permutation(N)
    other = one.take(rows)
    places = on_a_line([one, other], name, purpose)
    on_line = reading_of(one, name, purpose) not in ("category", "few")
    assert (places is not None) == on_line
    values = [sorted(v) if isinstance(v, list) else v for v in one.frame[name].to_list()]
    (mine, theirs), texts = code_together([one, other], name)
    if places is not None:
        mine, theirs = places[0], places[1]
    else:
        assert list(texts) == sorted(texts) and len(texts) == len({str(v) for v in values})
    equal = np.array([[values[i] == values[j] for j in rows] for i in range(N)])
    assert ((mine[:, None] == theirs[None, :]) == equal).all()
    if places is not None and "order" not in name and name != "enum":
        assert (np.argsort(mine, kind="stable") == sorted(range(N), key=lambda i: values[i])).all()


@pytest.mark.parametrize("purpose", get_args(Purpose))
def test_dates_and_times_of_other_units_are_compared_in_one(purpose: Purpose) -> None:
    days = [dt.date(2020, 1, 1) + dt.timedelta(days=i) for i in range(N)]
    one = dc.Dataset(pl.DataFrame({"t": days}))
    for unit in ("ms", "us"):
        other = dc.Dataset(pl.DataFrame({"t": pl.Series(days).cast(pl.Datetime(unit))}))
        places = on_a_line([one, other], "t", purpose)
        assert places is not None
        np.testing.assert_array_equal(places[0], places[1])
    spans = dc.Dataset(pl.DataFrame({"t": [dt.timedelta(days=i) for i in range(N)]}))
    assert on_a_line([one, spans], "t", purpose) is None


def test_numbers_that_noise_gave_more_values_are_numbers() -> None:
    few = data()
    noisy = dc.Dataset(pl.DataFrame({"whole number, few values": np.arange(N) / 7}))
    for purpose in ("synthetic", "model"):
        assert on_a_line([few, noisy], "whole number, few values", purpose) is not None  # type: ignore[arg-type]


def test_a_generalized_value_agrees_with_all_below_it_and_a_range_with_all_inside() -> None:
    tree = dc.Hierarchy.tree({"*": {"north": ["a", "b"], "south": ["c", "d"]}})
    known = dc.Dataset(pl.DataFrame({"r": list("abcd"), "x": [10, 20, 30, 40]}), hierarchies={"r": tree})
    shown = pl.DataFrame({"r": ["north", "b", "*", "south"], "x": ["[10, 20]", "< 15", "{30, 40}", "40"]})
    released = dc.Dataset(shown, schema=known.schema).matched_to(known, np.arange(4))
    agrees = {
        "r": [["north", "*"], ["north", "b", "*"], ["*", "south"], ["*", "south"]],
        "x": [["[10, 20]", "< 15"], ["[10, 20]"], ["{30, 40}"], ["{30, 40}", "40"]],
    }
    for name, wanted in agrees.items():
        column = compare_column(known, released, name, known)
        assert column.alike is not None and not column.is_incomparable
        of = [column.alike[int(code)] for code in column.known]
        assert [{column.values[c] for c in codes if c >= 0} for codes in of] == [set(labels) for labels in wanted]


def test_labels_stand_in_their_declared_order_where_it_has_all_of_them() -> None:
    frame = pl.DataFrame({"a": ["high", "low", "high", None]})
    labels = labels_of(dc.Dataset(frame, orders={"a": ORDER}), "a")
    assert labels.ordered and labels.names == ("low", "high") and labels.codes.tolist() == [1, 0, 1, -1]
    for order in (["low", "middle"], None):
        labels = labels_of(dc.Dataset(frame, orders={} if order is None else {"a": order}), "a")
        assert not labels.ordered and labels.names == ("high", "low")
