"""Files of τ-ARGUS and JJ: what is written is read back, and files as their manuals show them are understood."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.errors import DataError, PlanError
from discretion.tables import formats
from discretion.tables.formats.rda import read_rda

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
    with pytest.raises(DataError, match="JJ"):
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
