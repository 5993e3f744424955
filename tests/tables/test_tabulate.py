from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.errors import PlanError

from . import naive

HIERARCHIES = {"region": naive.REGION}
TABLES = [
    [["region", "sector"]],
    [["region"]],
    [["sector", "region", "size"]],
    [["region", "sector"], ["region", "size"]],
    [["region", "sector"], ["sector"], ["size"]],
]


@pytest.mark.parametrize("tables", TABLES, ids=lambda t: "+".join("".join(n[:2] for n in one) for one in t))
@pytest.mark.parametrize("value", [None, "money"])
@pytest.mark.parametrize("firms", [0, 12], ids=["records", "firms"])
def test_agrees_with_dictionaries(tables: list[list[str]], value: str | None, firms: int) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        frame = naive.records(rng, 70, firms=firms, gaps=seed % 2 == 1, negative=seed == 2)
        options = {
            "weight": "w" if seed % 2 else None,
            "contributor": "firm" if firms else None,
            "missing": "ignore" if seed == 3 else "category",
        }
        h = HIERARCHIES if any("region" in one for one in tables) else None
        cells = dc.tabulate(
            frame, tables, value, hierarchies=h, top=4,
            weight=options["weight"] or False, contributor=options["contributor"], missing=options["missing"],  # type: ignore[arg-type]
        )  # fmt: skip
        want = naive.table(frame, tables, value, **options)
        found = naive.labels(cells)
        assert sorted(found) == sorted(want)
        for i, key in enumerate(found):
            cell = want[key]
            sizes = sorted((abs(x) for x in cell["by"].values()), reverse=True)
            assert cells.value[i] == pytest.approx(cell["value"], abs=1e-9)
            assert cells.weighted_count[i] == cell["weight"]
            assert cells.count[i] == len(sizes)
            assert cells.response.gross[i] == pytest.approx(sum(sizes), abs=1e-9)
            assert cells.response.negative[i] == sum(x < 0 for x in cell["by"].values())
            assert cells.top[i].tolist() == pytest.approx((sizes + [0.0] * 4)[:4])
            assert (cells.top_ids[i] >= 0).sum() == min(len(sizes), 4)
            if firms:
                for who, size in zip(cells.top_ids[i], cells.top[i], strict=True):
                    assert who < 0 or abs(cell["by"][cells.contributors[who]]) == pytest.approx(size)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 60), st.sampled_from(TABLES), st.booleans())
def test_everything_adds_up(seed: int, n: int, tables: list[list[str]], firms: bool) -> None:
    frame = naive.records(np.random.default_rng(seed), n, firms=5, gaps=True)
    h = HIERARCHIES if any("region" in one for one in tables) else None
    cells = dc.tabulate(frame, tables, ["money", "staff"], hierarchies=h, contributor="firm" if firms else None)
    for response in cells.responses:
        assert cells.x.transposed.dot(response.inner_value) == pytest.approx(response.value)
        assert cells.relations().dot(response.value) == pytest.approx(0, abs=1e-9)
        assert (np.diff(response.top, axis=1) <= 0).all()
        assert (response.top.sum(axis=1) <= response.gross + 1e-9).all()
    assert (cells.codes[0] == 0).all()
    assert len(np.unique(cells.codes, axis=0)) == len(cells)
    shown = cells.find(cells.codes)
    assert shown.tolist() == list(range(len(cells)))


def test_row_order_and_index_do_not_matter() -> None:
    frame = naive.records(np.random.default_rng(3), 200, firms=30, gaps=True)
    frame = frame.with_columns(pl.col("money") * 0.1)
    order = np.random.default_rng(4).permutation(200)
    one = dc.tabulate(frame, ["region", "sector"], "money", contributor="firm")
    odd = frame[order].to_pandas()
    odd.index = odd.index * 3
    other = dc.tabulate(odd, ["region", "sector"], "money", contributor="firm")
    assert one.codes.tolist() == other.codes.tolist()
    assert one.value.tolist() == other.value.tolist()
    assert one.top.tolist() == other.top.tolist()


def test_more_variables_than_fit_into_64_bits() -> None:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({f"v{j}": rng.integers(0, 3000, 40) for j in range(7)})
    cells = dc.tabulate(frame, [f"v{j}" for j in range(7)])
    assert len(cells) > 40 * 100
    assert cells.count[cells.codes.astype(bool).all(axis=1)].sum() == 40
    assert cells.find(cells.codes[::97]).tolist() == list(range(0, len(cells), 97))
    assert cells.x.transposed.dot(cells.inner_value) == pytest.approx(cells.value)


def test_hierarchies_of_the_data_are_the_default() -> None:
    frame = naive.records(np.random.default_rng(0), 50)
    tree = dc.Hierarchy.tree({"*": {"N": ["a", "b", "c"], "S": ["d", "e"]}})
    data = dc.Dataset(frame, hierarchies={"region": tree}, roles={"w": "weight"})
    cells = dc.tabulate(data, ["region"])
    assert cells.dims[0].codes == ("Total", "N", "a", "b", "c", "S", "d", "e")
    assert cells.value[0] == frame["w"].sum() and cells.count[0] == 50
    rolled = dc.tabulate(dc.Generalize(levels={"region": 1})(data), ["region"], weight=False)
    assert rolled.dims[0].codes == ("Total", "N", "S")


def test_several_hierarchies_over_one_variable() -> None:
    frame = pl.DataFrame(
        {"town": list("abcd"), "county": list("PPQQ"), "kind": ["u", "r", "u", "r"], "n": [1, 2, 4, 8]}
    )
    spec = [{"columns": ["county"]}, {"columns": ["kind"]}]
    cells = dc.tabulate(frame, ["town"], "n", hierarchies={"town": spec})
    found = dict(zip((label for (label,) in naive.labels(cells)), cells.value, strict=True))
    assert found == {"Total": 15, "P": 3, "Q": 12, "u": 5, "r": 10, "a": 1, "b": 2, "c": 4, "d": 8}
    assert cells.relations().shape == (6, 9)
    assert cells.relations().dot(cells.value) == pytest.approx(0)
    assert np.diff(cells.x.indptr).tolist() == [4] * 4


def test_linked_cells_with_the_same_members_are_related() -> None:
    frame = pl.DataFrame({"geo": ["I", "P", "S"], "eu": ["no", "yes", "yes"], "n": [1, 2, 4]})
    cells = dc.tabulate(frame, [["geo"], ["eu"]], "n")
    one, other = cells.index({"geo": "I"}), cells.index({"eu": "no"})
    rows = cells.relations().dense()
    assert any(row[one] and row[other] and abs(row).sum() == 2 for row in rows)
    assert cells.inner_cell.tolist() == [-1, -1, -1]


def test_empty_cells_can_be_kept() -> None:
    frame = pl.DataFrame({"a": ["x", "y"], "b": ["p", "q"]})
    cells = dc.tabulate(frame, ["a", "b"], empty="keep")
    assert len(cells) == 9 and len(cells.inner_codes) == 4
    assert cells.value.reshape(3, 3).tolist() == [[2, 1, 1], [1, 1, 0], [1, 0, 1]]
    assert cells.x.transposed.dot(cells.inner_value).tolist() == cells.value.tolist()


def test_cell_keys_are_sums_of_record_keys() -> None:
    frame = pl.DataFrame({"a": ["x", "x", "y"], "k": [0.75, 0.5, 0.125]})
    assert dc.tabulate(frame, ["a"], record_key="k").key.tolist() == [0.375, 0.25, 0.125]  # type: ignore[union-attr]


def test_waivers_and_requests() -> None:
    frame = pl.DataFrame(
        {"a": list("xxxy"), "f": list("1213"), "n": [5.0, 7.0, 4.0, 2.0], "asks": [False, True, False, False]}
    )
    cells = dc.tabulate(frame, ["a"], "n", contributor="f", waivers=["1"], requests="asks")
    response = cells.response
    assert response.open_top.tolist() == [7, 7, 2]
    assert response.open_count.tolist() == [2, 1, 1]
    assert response.requested.tolist() == [7, 7, 0]  # type: ignore[union-attr]
    assert cells.top[:, 0].tolist() == [9, 9, 2]


def test_a_respondent_waives_only_where_all_its_records_do() -> None:
    frame = pl.DataFrame({"a": list("xyz"), "f": list("112"), "n": [5.0, 7.0, 4.0], "ok": [True, False, False]})
    response = dc.tabulate(frame, ["a"], "n", contributor="f", waivers="ok").response
    assert response.open_count.tolist() == [2, 0, 1, 1]
    assert response.open_top.tolist() == [12, 0, 7, 4]


@pytest.mark.parametrize("firms", [0, 3, 20])
@pytest.mark.parametrize("seed", range(6))
def test_respondents_under_two_unbalanced_trees(seed: int, firms: int) -> None:
    """Two hierarchies that share a code over the same leaves, a single child, missing and negative amounts."""
    rng = np.random.default_rng(seed)
    one = {"All": {"P": {"only": ["a"]}, "Q": ["b", "c"], "d": None}}
    two = {"All": {"R": {"Q": ["b", "c"], "S": ["a"]}, "d": None}}
    above = {"a": "a only P R S All", "b": "b Q R All", "c": "c Q R All", "d": "d All"}
    n = 40
    amounts = [None if rng.random() < 0.2 else float(x) for x in rng.integers(-4, 9, n)]
    who = [str(k) for k in rng.integers(0, firms, n)] if firms else [f"r{k}" for k in range(n)]
    frame = pl.DataFrame({"v": rng.choice(list("abcd"), n), "s": rng.choice(["1", "2"], n), "x": amounts, "who": who})
    trees = {"v": [dc.Dimension.tree("v", one), dc.Dimension.tree("v", two)]}
    cells = dc.tabulate(frame, ["v", "s"], "x", hierarchies=trees, contributor="who", top=2)
    wanted: dict[tuple[str, str], dict[str, float]] = {}
    for v, s, x, name in frame.iter_rows():
        for key in ((up, side) for up in above[v].split() for side in (s, "Total")):
            by = wanted.setdefault(key, {})
            if x is not None:
                by[name] = by.get(name, 0.0) + x
    assert {tuple(cells.label(i).values()) for i in range(len(cells))} == set(wanted)
    for i in range(len(cells)):
        by = wanted[tuple(cells.label(i).values())]  # type: ignore[index]
        sizes = sorted(map(abs, by.values()), reverse=True)
        response = cells.response
        assert (response.value[i], response.count[i]) == (sum(by.values()), len(by))
        assert (response.gross[i], response.negative[i]) == (sum(sizes), sum(x < 0 for x in by.values()))
        assert cells.top[i].tolist() == [*sizes, 0, 0][:2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: dc.tabulate(f, ["regoin"]), "did you mean 'region'"),
        (lambda f: dc.tabulate(f, []), "at least one classifying variable"),
        (lambda f: dc.tabulate(f, ["region", "region"]), "each named once"),
        (lambda f: dc.tabulate(f, [["region", "size"], ["size", "region"]]), "the same variables"),
        (lambda f: dc.tabulate(f, ["region"], "sector"), "numeric column"),
        (lambda f: dc.tabulate(f, ["region"], top=0), "at least 1"),
        (lambda f: dc.tabulate(f, ["region"], top="3"), "whole number"),
        (lambda f: dc.tabulate(f, ["region"], missing="drop"), "missing: unknown choice 'drop'"),
        (lambda f: dc.tabulate(f, ["region"], empty="yes"), "empty: unknown choice 'yes'"),
        (lambda f: dc.tabulate(f, [["region", 3]]), "names of columns"),
        (lambda f: dc.tabulate(f, 5), "at least one"),
        (lambda f: dc.tabulate(f, ["region"], weight=True), "name of a column"),
        (lambda f: dc.tabulate(f.head(0), ["region"]), "no rows"),
        (lambda f: dc.tabulate(f, ["region"], hierarchies={"regio": naive.REGION}), "did you mean 'region'"),
        (lambda f: dc.tabulate(f, ["region"], hierarchies={"region": {"Total": ["a", "b"]}}), "not leaves"),
        (lambda f: dc.tabulate(f.with_columns(sector=None), ["sector"], missing="error"), "missing values"),
        (lambda f: dc.tabulate(f, ["region"], weight="money"), "negative weights"),
        (lambda f: dc.tabulate(f, ["region"], record_key="w"), r"\[0, 1\)"),
        (lambda f: dc.tabulate(f, ["region"], waivers=["nobody"]), "`contributor`"),
        (lambda f: dc.tabulate(f, ["region"], contributor="firm", waivers=["nobody"]), "do not occur"),
        (lambda f: dc.tabulate(f, ["region"], requests="w"), "true and false"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(call: object, message: str) -> None:
    frame = naive.records(np.random.default_rng(0), 30, negative=True)
    with pytest.raises((dc.PlanError, dc.DataError), match=message):
        call(frame)  # type: ignore[operator]


def test_too_many_empty_cells_are_refused() -> None:
    frame = pl.DataFrame({name: np.arange(300) for name in "abc"})
    with pytest.raises(dc.DataError, match="would have 27,270,901 cells"):
        dc.tabulate(frame, ["a", "b", "c"], empty="keep")


def test_repr_shows_no_values() -> None:
    cells = dc.tabulate(pl.DataFrame({"a": ["x"], "n": [9731.0]}), ["a"], "n")
    assert "9731" not in repr(cells) + repr(cells.response) + repr(cells.source)


@pytest.mark.parametrize("reading", ["contributions", "respondents", "unweighted"])
def test_what_weights_mean_for_the_largest_contributions(reading: str) -> None:
    rng = np.random.default_rng(5)
    n, top = 60, 4
    frame = pl.DataFrame(
        {"a": rng.integers(0, 3, n), "b": rng.integers(0, 3, n), "x": rng.integers(1, 90, n).astype(float),
         "w": rng.choice([1.0, 1.5, 2.0, 3.25, 7.0, 0.5], n)}
    )  # fmt: skip
    cells = dc.tabulate(frame, ["a", "b"], "x", weight="w", weights=reading, top=top)  # type: ignore[arg-type]
    for cell in range(len(cells)):
        inside = frame
        for name, code in cells.label(cell).items():
            inside = inside if code == "Total" else inside.filter(pl.col(name) == int(code))
        x, w = inside["x"].to_numpy(), inside["w"].to_numpy()
        parts = {"contributions": list(x * w), "unweighted": list(x)}.get(reading)
        if parts is None:
            parts = [a for a, b in zip(x, w, strict=True) for _ in range(int(b))]
            parts += [a * (b % 1) for a, b in zip(x, w, strict=True)]
        wanted = (sorted(parts, reverse=True) + [0.0] * top)[:top]
        assert cells.top[cell] == pytest.approx(wanted)
        assert cells.value[cell] == pytest.approx((x * w).sum()) and cells.count[cell] == len(x)


def test_a_weight_that_stands_for_respondents_is_shared_by_them() -> None:
    """Two records of 100 (weight 4) and 10 (weight 7), dominance of 2: 470 of 470 by weight, 200 by respondents."""
    frame = pl.DataFrame({"s": ["a", "a"], "x": [100.0, 10.0], "w": [4.0, 7.0]})
    rule = dc.Dominance(n=2, percent=80)
    tables = [
        dc.tabulate(frame, ["s"], "x", weight="w", weights=r) for r in ("contributions", "respondents", "unweighted")
    ]
    assert [t.value.tolist() for t in tables] == [[470.0, 470.0]] * 3
    assert [t.top[0, :2].tolist() for t in tables] == [[400.0, 70.0], [100.0, 100.0], [100.0, 10.0]]
    assert [bool(rule(t)[0]) for t in tables] == [True, False, False]
    with pytest.raises(PlanError, match="contributor"):
        dc.tabulate(frame.with_columns(f=pl.lit("z")), ["s"], "x", weight="w", contributor="f", weights="respondents")
    with pytest.raises(PlanError, match="weights"):
        dc.tabulate(frame, ["s"], "x", weights="sampled")  # type: ignore[arg-type]


def test_records_of_weight_0_hide_nobody() -> None:
    given = pl.DataFrame({"r": ["a"] * 4 + ["b"] * 5, "v": [77.0] + [5.0] * 8, "w": [1.0, 0, 0, 0] + [2.0] * 5})
    for value in (None, "v"):
        cells = dc.tabulate(given, ["r"], value, weight="w").apply_rules([dc.Threshold(minimum=3)])
        assert cells.count.tolist() == [6, 1, 5] and cells.primary.tolist() == [False, True, False]
        assert any("3 records of weight 0" in note for note in cells.notes)
    with pytest.raises(dc.DataError, match="weight 0"):
        dc.tabulate(given.with_columns(w=pl.lit(0.0)), ["r"], weight="w")
