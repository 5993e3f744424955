from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.tables import Dimension, write_dimension
from discretion.tables.dimensions import from_lines, level_rows, to_lines

NESTED = {"Total": {"N": {"n1": ["a", "b"], "n2": ["c"]}, "S": ["d"]}}
CODES = ("Total", "N", "n1", "a", "b", "n2", "c", "S", "d")


def same(one: Dimension, other: Dimension) -> bool:
    return one.codes == other.codes and all(
        np.array_equal(a, b) for a, b in zip(one.parents, other.parents, strict=True)
    )


@st.composite
def trees(draw: st.DrawFn) -> Dimension:
    size = draw(st.integers(1, 15))
    edges, names = [], ["Total"]
    for i in range(size):
        edges.append((draw(st.sampled_from(names)), f"c{i}"))
        names.append(f"c{i}")
    return Dimension.from_edges("v", edges)


def test_tree() -> None:
    dim = Dimension.tree("v", NESTED)
    assert dim.codes == CODES
    assert dim.parents[0].tolist() == [-1, 0, 1, 2, 2, 1, 5, 0, 7]
    assert dim.depths[0].tolist() == [0, 1, 2, 3, 3, 2, 3, 1, 2]
    assert [dim.codes[i] for i in np.flatnonzero(dim.leaves)] == ["a", "b", "c", "d"]
    assert [dim.codes[i] for i in dim.leaves_under(1)] == ["a", "b", "c"]
    assert dim.height == 3


@settings(deadline=None, max_examples=60)
@given(trees())
def test_files_give_the_tree_back(dim: Dimension) -> None:
    assert same(from_lines("v", to_lines(dim, total=True), "Total"), dim)
    assert same(from_lines("v", to_lines(dim, total=False), "Total"), dim)


@pytest.mark.parametrize("name", ["v.hrc", "v.txt", "v.csv"])
def test_written_files_are_read(name: str, tmp_path: Path) -> None:
    dim = Dimension.tree("v", NESTED)
    write_dimension(dim, tmp_path / name)
    assert same(Dimension.read("v", tmp_path / name), dim)
    with pytest.raises(dc.DataError, match="exists"):
        write_dimension(dim, tmp_path / name)


def test_hrc_and_sdctable_layouts() -> None:
    assert to_lines(Dimension.tree("v", NESTED), total=False) == ["N", "@n1", "@@a", "@@b", "@n2", "@@c", "S", "@d"]
    assert to_lines(Dimension.tree("v", NESTED), total=True)[:3] == ["@Total", "@@N", "@@@n1"]
    assert from_lines("v", ["@;tot", "@@;A", '@@;"B"'], "Total").codes == ("tot", "A", "B")
    assert level_rows(Dimension.tree("v", NESTED))[-1] == ["d", "d", "S", "Total"]


def test_pairs_with_and_without_a_root(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text('"parent","child"\n"Total","A"\n"A","a1"\n"Total","B"\n')
    assert Dimension.read("v", tmp_path / "p.csv").codes == ("Total", "A", "a1", "B")
    (tmp_path / "q.csv").write_text("parent;child\nA;a1\nB;b1\n")
    assert Dimension.read("v", tmp_path / "q.csv").codes == ("Total", "A", "a1", "B", "b1")


def test_levels_collapse_repeated_labels() -> None:
    rows = [["a", "n1", "N", "*"], ["d", "d", "S", "*"], ["e", "e", "e", "*"]]
    dim = Dimension.of("v", rows)
    assert dim.codes == ("Total", "N", "n1", "a", "S", "d", "e")
    assert Dimension.of("v", [["a", "N"], ["b", "S"]]).codes == ("Total", "N", "a", "S", "b")
    assert Dimension.of("v", [["a", "all"], ["b", "all"]]).codes == ("all", "a", "b")


def test_rules_of_hierarchies() -> None:
    dim = Dimension.of("age", dc.Hierarchy.intervals(width=5, levels=2), [21, 23, 27])
    assert dim.codes == ("Total", "[20, 24]", "21", "23", "[25, 29]", "27")
    assert Dimension.of("v", ["x", "y"]).codes == ("Total", "x", "y")
    assert Dimension.of("v", {"groups": {"levels": [{"g": ["x", "y"]}]}}, ["x", "y", "z"]).height == 2


def test_joined_trees_share_codes() -> None:
    one = Dimension.tree("v", {"Total": {"A": ["a", "b"], "B": ["c"]}})
    two = Dimension.tree("v", {"Total": {"A": ["a", "b"], "X": ["c"]}})
    joint = Dimension.join([one, two])
    assert joint.codes == ("Total", "A", "a", "b", "B", "c", "X")
    assert joint.parents[1].tolist() == [-1, 0, 1, 1, -2, 6, 0]
    assert joint.depths[1].tolist() == [0, 1, 2, 2, -1, 2, 1]
    assert sorted(joint.ancestors[5].tolist()) == [0, 4, 5, 6]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dimension.tree("v", {"Total": {"A": ["x"], "B": ["x"]}}), "parents"),
        (lambda: Dimension.tree("v", {"Total": {"A": ["Total"]}}), "stands below another code"),
        (lambda: Dimension.from_edges("v", [("A", "B"), ("B", "A")]), "circle"),
        (lambda: Dimension.flat("v", ["A", "Total"]), "code of the total"),
        (lambda: Dimension.tree("v", {"Total": ["A"], "Rest": ["B"]}), "code of the total"),
        (lambda: Dimension.from_edges("v", [("Total", "A"), ("Rest", "B")]), "put 'Rest' below it"),
        (lambda: Dimension.from_edges("v", []), "no codes"),
        (lambda: Dimension.of("v", [["x", "A"], ["A", "B"]]), "parents|circle"),
        (lambda: Dimension.of("v", 5), "expected a file"),
        (lambda: Dimension.read("v", "nowhere.hrc"), "no hierarchy file"),
        (lambda: from_lines("v", ["A", "@@b"], "Total"), "line 2"),
        (lambda: from_lines("v", ["@A", "@b"], "Total"), "line 2"),
        (lambda: from_lines("v", ["A", "@"], "Total"), "no code"),
        (lambda: Dimension.join([Dimension.flat("v", "ab"), Dimension.flat("v", "ac")]), "leaves of one"),
        (
            lambda: Dimension.join(
                [Dimension.tree("v", {"A": ["a"], "B": ["b", "c"]}), Dimension.tree("v", {"A": ["a", "b"], "B": ["c"]})]
            ),
            "different leaves",
        ),
        (lambda: Dimension.flat("v", "ab").find(["c"]), "unknown code 'c'"),
    ],
)  # fmt: skip
def test_bad_hierarchies_are_refused(make: object, message: str) -> None:
    with pytest.raises((dc.DataError, dc.PlanError), match=message):
        make()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("v.csv", "parent,child\nA,b\n\nA\n", "v.csv, line 4: expected a parent and a child"),
        ("v.csv", "parent,child\n\n", "no pairs"),
        ("v.hrc", "A\n\n@@b\n", "v.hrc, line 3: the code is set in"),
        ("v.hrc", "A\n@\n", "v.hrc, line 2: the line has no code"),
        ("v.txt", "@Total\n@@A\n@B\n", "v.txt, line 3: the code is set in"),
    ],
)
def test_broken_files_say_where(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(dc.DataError, match=message):
        Dimension.read("v", tmp_path / name)


def test_codes_with_the_sign_of_levels_in_csv(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("@home;inside;Total\nstreet;outside;Total\n")
    assert Dimension.read("v", tmp_path / "v.csv").codes == ("Total", "inside", "@home", "outside", "street")


def test_several_roots_get_a_total_and_a_single_one_is_it() -> None:
    several = Dimension.from_edges("v", [("North", "A"), ("South", "B")])
    assert several.codes == ("Total", "North", "A", "South", "B")
    assert Dimension.from_edges("v", [("All", "A"), ("All", "B")]).total == "All"


def test_records_of_totals_in_the_data_are_told_as_such() -> None:
    frame = pl.DataFrame({"town": ["A", "B", "Total"], "n": [1, 2, 3]})
    with pytest.raises(dc.DataError, match=r"'town'.*code of the total.*leave rows of"):
        dc.tabulate(frame, ["town"], "n")
