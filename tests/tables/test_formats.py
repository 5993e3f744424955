"""Files of τ-ARGUS and JJ: what is written is read back, and files as their manuals show them are understood."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.errors import DataError, PlanError
from discretion.tables import formats
from discretion.tables.formats.argus import read_rda

TREE = {"All": {"North": ["N1", "N2"], "South": ["S1", "S2"]}}


def firms(n: int = 60, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "region": rng.choice(["N1", "N2", "S1", "S2"], n),
            "size": rng.choice(["2", "10", "big"], n),
            "turnover": np.round(rng.lognormal(3, 1, n), 2),
            "w": rng.integers(1, 5, n),
            "firm": [f"f{k}" for k in rng.integers(0, 40, n)],
        }
    )


def cells(**options: object) -> dc.Cells:
    made = dc.tabulate(firms(), ["region", "size"], "turnover", hierarchies={"region": TREE}, **options)  # type: ignore[arg-type]
    return made.apply_rules([dc.Threshold(minimum=4), dc.PPercent(percent=12)])


def same(one: dc.Cells, two: dc.Cells) -> None:
    assert len(one) == len(two)
    place = [two.index(one.label(c)) for c in range(len(one))]
    for name in ("value", "count", "primary", "lower_required", "upper_required"):
        assert getattr(two, name)[place] == pytest.approx(getattr(one, name)), name
    assert two.top[place] == pytest.approx(one.top)
    assert (two.status.must_publish[place] == one.status.must_publish).all()


def test_tables_survive_tau_argus_files(tmp_path: Path) -> None:
    made = cells().mark({"region": "All", "size": "Total"}, "must-publish")
    files = formats.write_argus_table(made, tmp_path / "t.tab")
    assert sorted(f.name for f in files) == ["t.rda", "t.tab", "t_region.hrc"]
    assert all(f.stat().st_mode & 0o077 == 0 for f in files)
    for name in ("t.rda", "t.tab"):
        back = formats.read_argus_table(tmp_path / name)
        same(made, back)
        assert back.dims[0].codes == made.dims[0].codes and (back.dims[0].parents[0] == made.dims[0].parents[0]).all()


def test_counts_survive_too(tmp_path: Path) -> None:
    made = dc.tabulate(firms(), ["region", "size"]).apply_rules([dc.Threshold(minimum=4)])
    formats.write_argus_table(made, tmp_path / "t.tab")
    back = formats.read_argus_table(tmp_path / "t.rda")
    assert back.response.frequency and back.value.tolist() == made.value.tolist()


def test_an_rda_file_as_the_manual_has_it(tmp_path: Path) -> None:
    (tmp_path / "m.rda").write_text(
        '<SEPARATOR> ","\n<SAFE> "s"\n<UNSAFE> "u"\n<PROTECT> "p"\n'
        'branch\n<RECODABLE>\n<TOTCODE> "T"\n<HIERARCHICAL>\n<HIERLEVELS> 1 1 0 0\n'
        'size\n\t<RECODEABLE>\n\t<TOTCODE> "Sum"\nvalue\n<NUMERIC>\n<DECIMALS> 1\nn\n<FREQUENCY>\nst\n<STATUS>\n'
    )
    rows = ["T,Sum,10.5,6,s", "11,a,1.5,1,u", "12,a,4.0,2,s", "21,b,5.0,3,p", "1,Sum,5.5,3,S", "T,a,5.5,3,s"]
    (tmp_path / "m.tab").write_text("\n".join(rows) + "\n")
    made = formats.read_argus_table(tmp_path / "m.rda")
    assert made.value[made.index({"branch": "1", "size": "a"})] == 5.5  # computed
    assert made.dims[0].codes == ("T", "1", "11", "12", "2", "21")
    assert made.primary.sum() == 1 and made.status.must_publish.sum() == 1


def test_microdata_survive(tmp_path: Path) -> None:
    frame = firms().with_columns(size=pl.when(pl.col("size") == "2").then(None).otherwise(pl.col("size")))
    formats.write_argus_microdata(
        frame,
        tmp_path / "m.asc",
        ["region", "size"],
        ["turnover"],
        hierarchies={"region": TREE},
        weight="w",
        contributor="firm",
    )
    widths = {len(line) for line in (tmp_path / "m.asc").read_text().splitlines()}
    assert len(widths) == 1
    back = formats.read_argus_microdata(tmp_path / "m.rda")
    assert (
        back.by == ("region", "size")
        and back.values == ("turnover",)
        and (back.weight, back.contributor) == ("w", "firm")
    )
    assert back.data.frame["size"].to_list() == frame["size"].to_list()
    assert back.data.frame["turnover"].to_list() == frame["turnover"].to_list()
    want = dc.tabulate(
        frame, ["region", "size"], "turnover", hierarchies={"region": TREE}, weight="w", contributor="firm"
    )
    made = back.tabulate(["region", "size"], "turnover")
    place = [made.index(want.label(c)) for c in range(len(want))]
    assert made.value[place] == pytest.approx(want.value) and (made.count[place] == want.count).all()


def test_missing_codes_and_separated_microdata(tmp_path: Path) -> None:
    (tmp_path / "m.rda").write_text(
        '<SEPARATOR> ";"\narea 2 99\n<RECODEABLE>\n<TOTCODE> "Total"\nx\n<NUMERIC>\n<DECIMALS> 0\n'
    )
    (tmp_path / "m.asc").write_text("1;5\n99;7\n2;11\n")
    back = formats.read_argus_microdata(tmp_path / "m.rda")
    assert back.data.frame["area"].to_list() == ["1", None, "2"] and back.data.frame["x"].to_list() == [5, 7, 11]


def test_history_files_carry_decisions(tmp_path: Path) -> None:
    plain = dc.tabulate(firms(), ["region", "size"], "turnover", hierarchies={"region": TREE})
    cost = np.arange(1.0, len(plain) + 1)
    made = cells().mark({"region": "North", "size": "Total"}, "must-publish").with_status(cost=cost)
    formats.write_history(made, tmp_path / "h.hst")
    back = formats.read_history(plain, tmp_path / "h.hst")
    for name in ("primary", "must_publish", "lower_required", "upper_required", "cost"):
        assert getattr(back.status, name) == pytest.approx(getattr(made.status, name)), name
    (tmp_path / "own.hst").write_text("N1; 2; u\nN1; 2; pl; 10; 20\nS1; big; s\nS2; big; z\nS2; 2; c; 3.5\n")
    own = formats.read_history(plain, tmp_path / "own.hst")
    cell = own.index({"region": "N1", "size": "2"})
    assert own.primary[cell] and (own.lower_required[cell], own.upper_required[cell]) == (10, 20)
    assert own.status.safe[own.index({"region": "S1", "size": "big"})]
    assert own.status.cost is not None and own.status.cost[own.index({"region": "S2", "size": "2"})] == 3.5
    (tmp_path / "bad.hst").write_text("N1;2;q\n")
    with pytest.raises(DataError, match="line 1"):
        formats.read_history(plain, tmp_path / "bad.hst")


def test_jj_survives_and_keeps_its_sums(tmp_path: Path) -> None:
    made = cells()
    made = made.with_status(secondary=~made.primary & (made.codes[:, 1] > 0) & (made.codes[:, 0] > 2))
    formats.write_jj(made, tmp_path / "t.jj")
    back = formats.read_jj(tmp_path / "t.jj")
    assert (back.value == made.value).all() and np.abs(back.relations.dot(back.value)).max() < 1e-6
    assert (back.relations.dense() == made.relations().dense()).all()
    again = back.onto(dc.tabulate(firms(), ["region", "size"], "turnover", hierarchies={"region": TREE}))
    for name in ("primary", "secondary", "lower_required", "upper_required"):
        assert getattr(again, name) == pytest.approx(getattr(made, name)), name
    with pytest.raises(PlanError, match="other values"):
        back.onto(dc.tabulate(firms(seed=5), ["region", "size"], "turnover", hierarchies={"region": TREE}))


def test_a_jj_file_by_hand(tmp_path: Path) -> None:
    (tmp_path / "h.jj").write_text(
        "0\n4\n1 10 10 s 0 100 0 0 0\n2 3 3 u 0 100 1 2 0\n3 5 5 m 0 100 0 0 0\n4 2 2 z 0 100 0 0 0\n1\n"
        "0 4 : 1 (-1) 2 (1) 3 (1) 4 (1)\n"
    )
    back = formats.read_jj(tmp_path / "h.jj")
    assert back.value.tolist() == [10, 3, 5, 2] and back.relations.dot(back.value).tolist() == [0]
    assert back.status.tolist() == ["s", "u", "m", "z"] and back.upper_required.tolist() == [0, 2, 0, 0]
    (tmp_path / "cut.jj").write_text("0\n4\n1 10 10 s 0 100 0 0 0\n")
    with pytest.raises(DataError, match="ends where"):
        formats.read_jj(tmp_path / "cut.jj")


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    linked = dc.tabulate(firms(), [["region"], ["size"]])
    with pytest.raises(PlanError, match="one table"):
        formats.write_argus_table(linked, tmp_path / "t.tab")
    named = dc.tabulate(firms().rename({"size": "size class"}), ["size class"])
    with pytest.raises(PlanError, match="blanks"):
        formats.write_argus_table(named, tmp_path / "t.tab")
    (tmp_path / "e.rda").write_text('<SEPARATOR> ","\nx\n')
    with pytest.raises(DataError, match="no kind"):
        read_rda(tmp_path / "e.rda")
    assert [f.name for f in tmp_path.iterdir()] == ["e.rda"]


def test_faults_of_files_name_their_line(tmp_path: Path) -> None:
    good = cells()
    formats.write_argus_table(good, tmp_path / "t.tab")
    lines = (tmp_path / "t.tab").read_text().split("\n")
    for change, message in (
        (lambda text: text.replace(";", "", 1), "t.tab, line 5: 9 columns, not 10"),
        (lambda text: text.replace(text.split(";")[2], "12x"), "t.tab, line 5: column 'turnover'"),
        (lambda text: text[:-1] + "?", "t.tab, line 5: the status"),
    ):
        broken = [*lines[:2], "", *lines[2:]]  # blank lines count
        broken[4] = change(broken[4])
        (tmp_path / "t.tab").write_text("\n".join(broken))
        with pytest.raises(DataError, match=message):
            formats.read_argus_table(tmp_path / "t.rda")
    (tmp_path / "h.hst").write_text("\nN1,big,u\nN1,huge,u\n")
    with pytest.raises(DataError, match=r"h\.hst, line 3: .*unknown code 'huge'"):
        formats.read_history(good, tmp_path / "h.hst")
    (tmp_path / "h.hst").write_text("N1,big,pl,1,x\n")
    with pytest.raises(DataError, match=r"h\.hst, line 1: expected numbers"):
        formats.read_history(good, tmp_path / "h.hst")


@pytest.mark.parametrize(
    ("place", "text", "message"),
    [
        (1, "four", "line 2: expected the number of cells"),
        (3, "2 3 3 q 0 100 1 2 0", "line 4: expected a new number"),
        (3, "1 3 3 u 0 100 1 2 0", "line 4: expected a new number"),
        (3, "2 3 3 u 0 100", "line 4: expected number, value"),
        (7, "0 4 : 1 (-1) 2 (1) 3 (1)", "line 8: expected `0 parts"),
        (7, "0 2 : 1 (-1) 9 (1)", "line 8: there is no cell 9"),
        (7, "5 2 : 1 (-1) 2 (1)", "line 8: expected `0 parts"),
    ],
)
def test_faults_of_jj_files_name_their_line(place: int, text: str, message: str, tmp_path: Path) -> None:
    numbers = ("1 10 10 s 0 100 0 0 0", "2 3 3 u 0 100 1 2 0", "3 5 5 m 0 100 0 0 0", "4 2 2 z 0 100 0 0 0")
    lines = ["0", "4", *numbers, "1", "0 4 : 1 (-1) 2 (1) 3 (1) 4 (1)"]
    lines[place] = text
    (tmp_path / "x.jj").write_text("\n".join(lines))
    with pytest.raises(DataError, match=message):
        formats.read_jj(tmp_path / "x.jj")


def test_history_in_the_words_of_tau_argus(tmp_path: Path) -> None:
    plain = dc.tabulate(firms(), ["region", "size"], "turnover", hierarchies={"region": TREE})
    (tmp_path / "a.hst").write_text("N1;big;U\nN1;2;P\nN2;big;M\nN2;10;ML\nS1;big;PL;1,5;2\nS1;big;u\nS2;2;w;7\n")
    found = formats.read_history(plain, tmp_path / "a.hst")
    at = {code: found.index({"region": code[0], "size": code[1]}) for code in
          (("N1", "big"), ("N1", "2"), ("N2", "big"), ("N2", "10"), ("S1", "big"), ("S2", "2"))}  # fmt: skip
    assert np.flatnonzero(found.primary).tolist() == sorted([at["N1", "big"], at["S1", "big"]])
    assert np.flatnonzero(found.secondary).tolist() == sorted([at["N2", "big"], at["N2", "10"]])
    assert found.status.must_publish[at["N1", "2"]] and found.status.cost[at["S2", "2"]] == 7  # type: ignore[index]
    assert (found.lower_required[at["S1", "big"]], found.upper_required[at["S1", "big"]]) == (1.5, 2)
    formats.write_history(found, tmp_path / "b.hst")
    again = formats.read_history(plain, tmp_path / "b.hst")
    assert (again.primary == found.primary).all() and (again.secondary == found.secondary).all()


@pytest.mark.parametrize("code", ["a;b", "a,b", "a\u2028b", "a\x85b", 'a"b', "ä ö", "日本", "007", "#x", "a\tb"])
def test_odd_codes_survive(code: str, tmp_path: Path) -> None:
    frame = pl.DataFrame({"v": [code, "other", code], "w": list("xyy"), "n": [1.5, 2.0, 3.25]})
    tree = {"All": {"g": [code], "h": ["other"]}}
    table = dc.tabulate(frame, ["v", "w"], "n", hierarchies={"v": tree}).mark({"v": code, "w": "x"}, "unsafe")
    formats.write_argus_table(table, tmp_path / "t.tab")
    same(table, formats.read_argus_table(tmp_path / "t.rda"))
    formats.write_argus_microdata(frame, tmp_path / "m.asc", ["v", "w"], ["n"], hierarchies={"v": tree})
    assert formats.read_argus_microdata(tmp_path / "m.rda").data.frame.rows() == frame.rows()
    formats.write_history(table, tmp_path / "t.hst")
    blank = dc.tabulate(frame, ["v", "w"], "n", hierarchies={"v": tree})
    assert (formats.read_history(blank, tmp_path / "t.hst").primary == table.primary).all()


@pytest.mark.parametrize("code", [" a", "a ", "@a", "a\nb", '"a"', ";a"])
def test_codes_that_would_come_back_as_others_are_refused(code: str, tmp_path: Path) -> None:
    tree = dc.Dimension.tree("v", {"All": {"g": [code], "h": ["other"]}})
    with pytest.raises(PlanError, match="cannot be written"):
        dc.tables.write_dimension(tree, tmp_path / "v.hrc")
    frame = pl.DataFrame({"v": [code, "other"], "n": [1.5, 2.0]})
    with pytest.raises(PlanError, match="cannot be written"):
        formats.write_argus_table(dc.tabulate(frame, ["v"], "n", hierarchies={"v": tree}), tmp_path / "t.tab")
    assert not list(tmp_path.iterdir())


def test_missing_numbers_requests_and_decimal_commas(tmp_path: Path) -> None:
    (tmp_path / "m.rda").write_text(
        'Region 1 2 99\n<RECODEABLE>\n<TOTCODE> "Total"\nAsk 3 1\n<REQUEST> "1" "2"\n'
        "Money 4 4 9999\n<NUMERIC>\n<DECIMALS> 1\n"
    )
    (tmp_path / "m.asc").write_text("0112,50\n0209999\n01 3,25\n990 4.0\n")
    read = formats.read_argus_microdata(tmp_path / "m.rda")
    assert read.data.frame.rows() == [("01", True, 2.5), ("02", False, None), ("01", False, 3.25), (None, False, 4.0)]
    table = read.tabulate(["Region"], "Money")
    assert table.response.requested.tolist()[:2] == [2.5, 2.5]  # type: ignore[union-attr]
    (tmp_path / "m.asc").write_text("0112,50\n\n020abcd\n")
    with pytest.raises(DataError, match=r"m\.asc, line 3: column 'Money'"):
        formats.read_argus_microdata(tmp_path / "m.rda")


def test_windows_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "v.hrc").write_bytes("Süd\r\n@Köln\r\nOst\r\n".encode("cp1252"))
    assert dc.Dimension.read("v", tmp_path / "v.hrc").codes == ("Total", "Süd", "Köln", "Ost")


RDA = {
    "<SEPARATOR>": ("general", r'<SEPARATOR> ";"'),
    "<SAFE>, <UNSAFE>, <PROTECT>": ("general", r'<SAFE> "S"\n<UNSAFE> "U"\n<PROTECT> "P"'),
    "<RECODEABLE> with <TOTCODE>": ("region", r'<RECODEABLE>\n  <TOTCODE> "All"'),
    "<HIERARCHICAL>, a file and what leads its codes": (
        "region", r'<HIERARCHICAL>\n  <HIERCODELIST> "t_region.hrc"\n  <HIERLEADSTRING> "@"'),
    "no hierarchy, no file": ("size", r'<RECODEABLE>\n  <TOTCODE> "Total"$'),
    "the response": ("turnover", r"<NUMERIC>\n  <DECIMALS> 2$"),
    "<FREQUENCY>": ("respondents", r"<FREQUENCY>$"),
    "<MAXSCORE>, once for each": ("top_2", r"<MAXSCORE>$"),
    "levels stand behind <NUMERIC>": ("lower", r"<NUMERIC> <LOWERPL>$"),
    "upper levels too": ("upper", r"<NUMERIC> <UPPERPL>$"),
    "<STATUS>": ("status", r"<STATUS>$"),
}  # fmt: skip
"""What τ-ARGUS 4 (class Metadata of its published source) and rtauargus (tab_rda) write and read, field by field."""


@pytest.mark.parametrize("field", RDA)
def test_every_field_of_an_rda_file_is_as_tau_argus_reads_it(field: str, tmp_path: Path) -> None:
    formats.write_argus_table(cells(), tmp_path / "t.tab")
    blocks: dict[str, list[str]] = {"general": []}
    for line in (tmp_path / "t.rda").read_text().splitlines():
        if not line.strip().startswith("<"):
            blocks[line] = []
        else:
            blocks[list(blocks)[-1]].append(line)
    name, pattern = RDA[field]
    assert re.search(pattern, "\n".join(blocks[name]).strip())


def test_hierarchies_decisions_and_problems_are_as_others_read_them(tmp_path: Path) -> None:
    made = cells()
    formats.write_argus_table(made, tmp_path / "t.tab")
    assert (tmp_path / "t_region.hrc").read_text() == "North\n@N1\n@N2\nSouth\n@S1\n@S2\n"  # the total is not written
    rows = [line.split(";") for line in (tmp_path / "t.tab").read_text().splitlines()]
    assert {len(row) for row in rows} == {2 + 1 + 1 + 3 + 2 + 1} and {row[-1] for row in rows} == {"S", "U"}
    formats.write_history(made, tmp_path / "t.hst")
    lines = [line.split(",") for line in (tmp_path / "t.hst").read_text().splitlines()]
    assert len(lines[0]) == 3, "the first line tells τ-ARGUS how many codes there are"
    named = [tuple(line[:2]) for line in lines if line[2] == "u"]
    for line in lines:
        if line[2] == "pl":  # levels only of cells that a line before has called unsafe
            assert tuple(line[:2]) in named and len(line) == 5
    formats.write_jj(made, tmp_path / "t.jj")
    problem = (tmp_path / "t.jj").read_text().splitlines()
    assert problem[0] == "0" and int(problem[1]) == len(made)
    cell = problem[2].split()
    assert (
        cell[0] == "0" and cell[3] in "suxz" and len(cell) == 9
    )  # number, value, cost, status, two bounds, three levels
    assert int(problem[2 + len(made)]) == made.relations().shape[0]
    head, _, terms = problem[3 + len(made)].partition(":")
    assert head.split()[0] == "0" and int(head.split()[1]) == terms.count("(")


JJ_CELL = re.compile(r"\d+ [-+.\de]+ \d+ [a-z]( [-+.\de]+){5}")
"""What the solvers of τ-ARGUS scan: `%d %lf %d %c %lf %lf %lf %lf %lf`; a cost that is not whole shifts the rest."""


@pytest.mark.parametrize("factor", [1.0, 0.37, 1e7])
def test_costs_and_bounds_of_a_problem_are_as_solvers_scan_them(factor: float, tmp_path: Path) -> None:
    frame = pl.DataFrame({"r": list("aabb"), "c": list("xyxy"), "v": [1000.0 * factor, 0.0, 1e-3, 2.0]})
    made = dc.tabulate(frame, ["r", "c"], "v").apply_rules([dc.PPercent(percent=10)]).suppress("elimination").cells
    formats.write_jj(made, tmp_path / "t.jj")
    lines = (tmp_path / "t.jj").read_text().splitlines()[2 : 2 + len(made)]
    assert all(JJ_CELL.fullmatch(line) for line in lines)
    costs = np.array([int(line.split()[2]) for line in lines])
    assert costs.min() >= 1 and costs.max() < 2**31
    order = np.argsort(made.value, kind="stable")
    assert (np.diff(costs[order]) >= 0).all()
    back = formats.read_jj(tmp_path / "t.jj")
    assert (back.low <= back.value - back.lower_required).all()
    assert (back.value + back.upper_required <= back.high).all()  # the largest cell is sensitive here


def test_patterns_of_solvers_come_back_as_complementary_cells(tmp_path: Path) -> None:
    made = cells()
    formats.write_jj(made, tmp_path / "t.jj")
    lines = (tmp_path / "t.jj").read_text().splitlines()
    chosen = np.flatnonzero(~made.primary)[:3].tolist()
    for cell in chosen:  # τ-ARGUS says m, sdcTable x
        lines[2 + cell] = lines[2 + cell].replace(" s ", " m " if cell == chosen[0] else " x ")
    (tmp_path / "s.jj").write_text("\n".join(lines))
    back = formats.read_jj(tmp_path / "s.jj").onto(made)
    assert np.flatnonzero(back.secondary).tolist() == chosen and (back.primary == made.primary).all()


def test_status_of_empty_and_complementary_cells(tmp_path: Path) -> None:
    (tmp_path / "s.rda").write_text(
        '<SEPARATOR> ";"\nregion "99"\n  <RECODEABLE>\n  <TOTCODE> "Total"\n  <DISTANCE> 2 4\n  <HIERARCHICAL>\n'
        '  <HIERCODELIST> "r.hrc"\n  <HIERLEADSTRING> "@"\nv\n  <NUMERIC>\n  <DECIMALS> 2\nn\n  <FREQUENCY>\n'
        "st\n  <STATUS>\n"
    )
    (tmp_path / "r.hrc").write_text("Nr\n@ 1\n@ 2\nOs \n@ 3\n@ 4\n@ 5")
    rows = ['"Total";30,50;9;S', '"Nr";8,50;3;M', '" 1";8,50;3;M', '" 2";0,00;0;E', '" 4";4,00;1;U', '" 5";18,00;5;S']
    rows += ['" 3";-;-;', '"99";0,00;0;E']  # 99, missing, is in no hierarchy
    (tmp_path / "s.tab").write_text("\n".join(rows))
    back = formats.read_argus_table(tmp_path / "s.rda")
    words = {back.label(cell)["region"]: cell for cell in range(len(back))}
    assert set(words) == {"Total", "Nr", "Os", "1", "4", "5"}
    assert back.value[words["Os"]] == 22
    assert [name for name, cell in words.items() if back.secondary[cell]] == ["Nr", "1"]
    formats.write_argus_table(back, tmp_path / "t.tab")
    again = formats.read_argus_table(tmp_path / "t.rda")
    assert (again.secondary == back.secondary).all() and (again.primary == back.primary).all()
    (tmp_path / "s.tab").write_text("\n".join([*rows[:3], '" 2";1,00;1;E']))
    with pytest.raises(DataError, match=r"s\.tab, line 4: the status says empty"):
        formats.read_argus_table(tmp_path / "s.rda")


def test_records_with_keys_are_read(tmp_path: Path) -> None:
    (tmp_path / "m.rda").write_text(
        '<SEPARATOR> ";"\nSex 1\n  <RECODEABLE>\nIncome 4\n  <NUMERIC>\n  <CKM> T(3)\n  <INCLUDEZEROS> N\n'
        'Weight 3\n  <WEIGHT>\nKey 10\n  <RECORDKEY>\n  <DECIMALS> 8\n  <PFILE> "p.txt"\n'
    )
    (tmp_path / "m.asc").write_text("1;50;1;0.25\n1;70;2;0.5\n2;20;1;0.75\n")
    back = formats.read_argus_microdata(tmp_path / "m.rda")
    assert back.record_key == "Key" and back.values == ("Income",)
    made = back.tabulate(["Sex"], weight=False)
    assert made.key is not None and made.key.tolist() == pytest.approx([0.5, 0.75, 0.75])


def test_tables_that_tau_argus_saved_are_read(tmp_path: Path) -> None:
    (tmp_path / "s.rda").write_text(
        '   <SEPARATOR> ";"\nregion\n    <RECODEABLE>\n    <TOTCODE> "Total"\nturnover\n    <NUMERIC>\n'
        "FreqVar\n    <FREQUENCY>\nturnover_Shadow\n    <NUMERIC> <SHADOW>\nturnover_Cost\n    <NUMERIC> <COSTVAR>\n"
        "Top1\n    <MAXSCORE>\nStatusVar\n    <STATUS>\nLowerProtLevel\n    <NUMERIC> <LOWERPL>\n"
        "UpperProtLevel\n    <NUMERIC> <UPPERPL>\n"
    )
    (tmp_path / "s.tab").write_text("Total;30;9;30;30;20;S;0;0\nA;21;2;21;21;20;U;1.5;2\nB;9;7;9;9;3;S;0;0\n")
    back = formats.read_argus_table(tmp_path / "s.rda")
    assert back.value.tolist() == [30, 21, 9] and back.count.tolist() == [9, 2, 7]
    assert back.lower_required.tolist() == [0, 1.5, 0] and back.upper_required.tolist() == [0, 2, 0]
    assert [c.kind for c in read_rda(tmp_path / "s.rda").columns] == [
        "RECODEABLE", "NUMERIC", "FREQUENCY", "SHADOW", "COST", "MAXSCORE", "STATUS", "LOWERPL", "UPPERPL",
    ]  # fmt: skip
