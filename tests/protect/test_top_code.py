from __future__ import annotations

import datetime as dt

import polars as pl
import pytest

import discretion as dc
from discretion.method import Decision

DATA = pl.DataFrame({"x": [1, 2, 3, 4, 100], "y": [1.0, 2.0, None, 4.0, 100.0]})


def test_cut_keeps_the_type_and_missing_values() -> None:
    assert dc.TopCode(column="x", at=3)(DATA)["x"].to_list() == [1, 2, 3, 3, 3]
    assert dc.TopCode(column="y", at=3.5)(DATA)["y"].to_list() == [1.0, 2.0, None, 3.5, 3.5]
    assert dc.BottomCode(column="x", at=3)(DATA)["x"].to_list() == [3, 3, 3, 4, 100]


def test_mean_of_the_tail_keeps_the_mean() -> None:
    coded = dc.TopCode(column="y", at=3, replace="mean")(DATA)["y"]
    assert coded.to_list() == [1.0, 2.0, None, 52.0, 52.0]
    assert coded.mean() == DATA["y"].mean()


def test_flag_makes_text() -> None:
    assert dc.TopCode(column="x", at=3, replace="flag")(DATA)["x"].to_list() == ["1", "2", "3", "> 3", "> 3"]
    labeled = dc.BottomCode(column="x", at=2, replace="flag", label="low")(DATA)["x"].to_list()
    assert labeled == ["low", "2", "3", "4", "100"]


def test_a_bound_between_whole_numbers_makes_fractions() -> None:
    assert dc.TopCode(column="x", at=2.5)(DATA)["x"].to_list() == [1.0, 2.0, 2.5, 2.5, 2.5]


def test_quantile_is_found_on_the_values_present() -> None:
    decision = dc.TopCode(column="y", quantile=0.5).decide(dc.Dataset(DATA), dc.Context(0, "1"))
    assert decision["bound"] == 3.0


@pytest.mark.parametrize(
    "fields", [{}, {"at": 1, "quantile": 0.5}, {"quantile": 1.5}, {"at": 1, "label": "x"}, {"at": float("inf")}]
)
def test_wrong_parameters(fields: dict[str, object]) -> None:
    with pytest.raises(dc.PlanError):
        dc.TopCode(column="x", **fields)


def test_groups_with_confusing_names_stay_apart() -> None:
    data = pl.DataFrame({"g": ["None", "None", None, None], "h": ["a, h=b"] * 4, "x": [1.0, 2.0, 100.0, 200.0]})
    coded = dc.TopCode(column="x", quantile=0.5, by=["g", "h"])(data)["x"]
    assert coded.to_list() == [1.0, 1.5, 100.0, 150.0]


LEVELS = ["none", "primary", "secondary", "tertiary"]


class TestOrdinal:
    frame = pl.DataFrame({"school": ["none", "tertiary", None, "secondary", "primary", "primary"]})
    data = dc.Dataset(frame, orders={"school": LEVELS})

    def test_cut_at_a_category(self) -> None:
        coded = dc.TopCode(column="school", at="primary")(self.data)
        assert coded.frame["school"].to_list() == ["none", "primary", None, "primary", "primary", "primary"]
        coded = dc.BottomCode(column="school", at="secondary")(self.data)
        assert coded.frame["school"].to_list() == ["secondary", "tertiary", None, *["secondary"] * 3]

    def test_quantile_is_the_category_that_reaches_the_share(self) -> None:
        for quantile, bound in ((0.2, "none"), (0.21, "primary"), (0.6, "primary"), (0.61, "secondary")):
            decision = dc.TopCode(column="school", quantile=quantile).decide(self.data, dc.Context(0, "1"))
            assert decision["bound"] == bound

    def test_flag_takes_its_place_in_the_order(self) -> None:
        coded = dc.TopCode(column="school", at="primary", replace="flag")(self.data)
        assert coded.frame["school"].to_list() == ["none", "> primary", None, "> primary", "primary", "primary"]
        assert coded.schema["school"].order == ("none", "primary", "> primary")
        low = dc.BottomCode(column="school", at="primary", replace="flag", label="little")(coded)
        assert low.schema["school"].order == ("little", "primary", "> primary")
        assert low.frame["school"].to_list() == ["little", "> primary", None, "> primary", "primary", "primary"]

    def test_enum_keeps_its_type(self) -> None:
        enum = self.frame.with_columns(pl.col("school").cast(pl.Enum(LEVELS)))
        coded = dc.TopCode(column="school", at="secondary")(enum)
        assert coded.schema == enum.schema
        assert coded["school"].to_list() == ["none", "secondary", None, "secondary", "primary", "primary"]
        assert dc.TopCode(column="school", at="none", replace="flag")(enum).schema["school"] == pl.String

    def test_numbers_whose_order_was_declared(self) -> None:
        data = dc.Dataset(pl.DataFrame({"grade": [1, 2, 3, 4]}), orders={"grade": [4, 3, 2, 1]})
        assert dc.TopCode(column="grade", at=3)(data).frame["grade"].to_list() == [3, 3, 3, 4]

    def test_unknown_category_with_a_hint(self) -> None:
        with pytest.raises(dc.PlanError, match="unknown category 'secondry'; did you mean 'secondary'"):
            dc.TopCode(column="school", at="secondry")(self.data)

    def test_categories_have_no_mean(self) -> None:
        with pytest.raises(dc.DataError, match="categories have no mean"):
            dc.TopCode(column="school", at="primary", replace="mean")(self.data)

    def test_text_without_an_order(self) -> None:
        with pytest.raises(dc.DataError, match=r"without an order.*orders: school"):
            dc.TopCode(column="school", at="primary")(self.frame)


class TestDates:
    days = (dt.date(1920, 5, 1), dt.date(1950, 1, 1), None, dt.date(1999, 12, 31), dt.date(2010, 6, 15))
    frame = pl.DataFrame({"born": days})

    def test_cut(self) -> None:
        want = [*self.days[:4], dt.date(2000, 1, 1)]
        for at in ("2000-01-01", dt.date(2000, 1, 1)):
            assert dc.TopCode(column="born", at=at)(self.frame)["born"].to_list() == want
        low = dc.BottomCode(column="born", at="1930-01-01", replace="flag", label="before 1930")(self.frame)["born"]
        assert low.to_list() == ["before 1930", "1950-01-01", None, "1999-12-31", "2010-06-15"]

    def test_mean_and_quantile(self) -> None:
        coded = dc.TopCode(column="born", at="1940-01-01", replace="mean")(self.frame)["born"]
        later = [day for day in self.days[1:] if day is not None]
        middle = dt.date.fromordinal(round(sum(day.toordinal() for day in later) / 3))
        assert coded.to_list() == [self.days[0], middle, None, middle, middle]
        decision = dc.TopCode(column="born", quantile=0.5).decide(dc.Dataset(self.frame), dc.Context(0, "1"))
        assert decision["bound"] == "1950-01-01"

    @pytest.mark.parametrize("kind", [pl.Datetime("us"), pl.Datetime("ms"), pl.Datetime("ns", "Europe/Rome")])
    def test_times_keep_their_type(self, kind: pl.DataType) -> None:
        times = pl.DataFrame({"seen": [dt.datetime(2020, 1, 1, 12), dt.datetime(2021, 6, 1), None]})
        zone = getattr(kind, "time_zone", None)
        times = times.with_columns(pl.col("seen").dt.replace_time_zone(zone).cast(kind))
        coded = dc.TopCode(column="seen", at="2020-06-01T08:30")(times)
        assert coded.schema == times.schema
        found = coded["seen"].dt.replace_time_zone(None).to_list()
        assert found == [dt.datetime(2020, 1, 1, 12), dt.datetime(2020, 6, 1, 8, 30), None]
        halved = dc.TopCode(column="seen", quantile=0.5)(times)
        assert halved["seen"][1] == times["seen"][0]

    def test_dates_as_text(self) -> None:
        text = dc.Dataset(pl.DataFrame({"born": ["1920-05-01", None, "2010-06-15"]}), types={"born": "date"})
        coded = dc.TopCode(column="born", at="2000-01-01")(text).frame["born"]
        assert coded.to_list() == ["1920-05-01", None, "2000-01-01"]
        wrong = dc.Dataset(pl.DataFrame({"born": ["1920-05-01", "last May"]}), types={"born": "date"})
        with pytest.raises(dc.DataError, match=r"1 values are not dates") as error:
            dc.TopCode(column="born", at="2000-01-01")(wrong)
        assert "May" not in str(error.value)

    def test_wrong_bound(self) -> None:
        with pytest.raises(dc.PlanError, match="holds dates; the bound must be one"):
            dc.TopCode(column="born", at=3)(self.frame)
        with pytest.raises(dc.PlanError, match="column 'x' is numeric; the bound must be a number"):
            dc.TopCode(column="x", at="2000-01-01")(DATA)

    def test_from_a_plan_and_the_command_line(self) -> None:
        from discretion.cli.apply import build_part

        fields = {f"field_{name}": None for name in dc.TopCode.model_fields}
        built = build_part("top-code", fields | {"field_column": "x", "field_at": "3"})
        assert built(DATA)["x"].to_list() == [1, 2, 3, 3, 3]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("method", "data", "new", "want"),
    [
        (dc.TopCode(column="x", quantile=0.5), {"x": [1, 2, 3]}, {"x": [9, 1]}, [2, 1]),
        (dc.TopCode(column="x", at=1, replace="mean"), {"x": [1.0, 2, 3]}, {"x": [9.0, 1]}, [2.5, 1]),
    ],
)
def test_a_saved_decision_codes_the_next_delivery(
    method: dc.TopCode, data: dict[str, list[float]], new: dict[str, list[float]], want: list[float]
) -> None:
    ctx = dc.Context(0, "1")
    decision = Decision.from_json(method.decide(dc.Dataset(pl.DataFrame(data)), ctx).to_json())
    assert method.perform(dc.Dataset(pl.DataFrame(new)), decision, ctx).frame["x"].to_list() == want


def test_a_column_without_values() -> None:
    with pytest.raises(dc.DataError, match="column 'x' has no values"):
        dc.TopCode(column="x", at=1)(pl.DataFrame({"x": [None, None]}, schema={"x": pl.Float64}))


def test_labels_write_large_bounds_in_full() -> None:
    data = pl.DataFrame({"x": [1.0, 5e6]})
    for at, label in ((1_000_000, "> 1000000"), (1234567.5, "> 1234567.5")):
        assert dc.TopCode(column="x", at=at, replace="flag")(data)["x"][1] == label


def test_a_bound_outside_the_type_of_the_column() -> None:
    small = pl.DataFrame({"x": pl.Series([1, 2, 3], dtype=pl.Int8)})
    unsigned = small.cast(pl.UInt8)
    assert dc.TopCode(column="x", at=300)(small).equals(small)
    assert dc.BottomCode(column="x", at=-5)(unsigned).equals(unsigned)
    assert dc.BottomCode(column="x", at=300)(small)["x"].to_list() == [300, 300, 300]
    assert dc.TopCode(column="x", at=-5)(unsigned)["x"].to_list() == [-5, -5, -5]


@pytest.mark.parametrize("method", [dc.TopCode, dc.BottomCode])
def test_the_mean_of_a_tail_has_the_decimals_of_the_column(method: type[dc.TopCode]) -> None:
    values = [round(0.1 * i + 0.01 * (i % 7), 2) for i in range(200)]
    frame = pl.DataFrame({"pay": values})
    quantile = 0.94 if method is dc.TopCode else 0.06
    new = method(column="pay", quantile=quantile, replace="mean")(frame, seed=1)["pay"]
    tail = [value for value, now in zip(values, new, strict=True) if value != now]
    coded = {now for value, now in zip(values, new, strict=True) if value != now}
    assert len(tail) > 5 and len(coded) == 1
    mean = sum(tail) / len(tail)
    assert abs(coded.pop() - mean) <= 0.05 and all(round(value, 2) == value for value in new)
