from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.tables import Sparse

from . import naive

TABLES = [["region", "sector"], ["sector", "size"]]


def linked(seed: int = 1) -> dc.Cells:
    frame = naive.records(np.random.default_rng(seed), 60)
    return dc.tabulate(frame, TABLES, "money", hierarchies={"region": naive.REGION})


def test_x_is_the_definition() -> None:
    cells = linked()
    full = cells.x.dense()
    for i, inner in enumerate(cells.inner_codes):
        leaf = {dim.name: dim.codes[code] for dim, code in zip(cells.dims, inner, strict=True)}
        for c in range(len(cells)):
            label = cells.label(c)
            part = any(
                all(
                    label[name] in naive.ABOVE[name][leaf[name]] if name in table else label[name] == "Total"
                    for name in leaf
                )
                for table in TABLES
            )
            assert full[i, c] == part


def test_relations_are_all_sums_of_parts() -> None:
    cells = dc.tabulate(
        naive.records(np.random.default_rng(2), 60), ["region", "sector"], hierarchies={"region": naive.REGION}
    )
    found = {
        tuple(sorted((int(c), int(s)) for c, s in zip(r.nonzero()[0], r[r != 0], strict=True)))
        for r in cells.relations().dense()
    }
    want = set()
    groups = {"n1": "N", "n2": "N", "N": "Total", "S": "Total"}
    above = {"region": {k: v[1] for k, v in naive.REGION_ABOVE.items()} | groups,
             "sector": dict.fromkeys("xyz", "Total")}  # fmt: skip
    labels = [cells.label(i) for i in range(len(cells))]
    for i, label in enumerate(labels):
        for name in ("region", "sector"):
            parts = [j for j, other in enumerate(labels) if above[name].get(other[name]) == label[name]
                     and all(other[k] == label[k] for k in label if k != name)]  # fmt: skip
            if parts:
                want.add(tuple(sorted([(i, 1), *((j, -1) for j in parts)])))
    assert found == want


def test_relations_have_the_rank_of_x_in_one_table() -> None:
    cells = dc.tabulate(
        naive.records(np.random.default_rng(3), 40), ["region", "sector"], hierarchies={"region": naive.REGION}
    )
    free = len(cells) - np.linalg.matrix_rank(cells.relations().dense().astype(float))
    assert free == np.linalg.matrix_rank(cells.x.dense().astype(float)) == len(cells.inner_codes)


def test_finding_cells() -> None:
    cells = linked()
    assert cells.index({}) == 0
    assert cells.label(cells.index({"region": "N", "sector": "x"})) == {"region": "N", "sector": "x", "size": "Total"}
    assert (
        cells.where({"size": ["1", "2"]}).sum()
        == cells.in_table[:, 1].sum() - cells.where({"size": "Total"})[cells.in_table[:, 1]].sum()
    )
    assert cells.find(np.array([[1, 1, 1]])).tolist() == [-1]
    for bad, message in (
        ({"regoin": "N"}, "did you mean"),
        ({"region": "M"}, "unknown code"),
        ({"region": "a", "size": "1"}, "no such cell"),
    ):
        with pytest.raises((dc.PlanError, dc.DataError), match=message):
            cells.index(bad)
    with pytest.raises(dc.PlanError, match="unknown response"):
        cells.of_response("staff")


def test_parents() -> None:
    cells = linked()
    above = cells.parent("region")
    assert above[cells.index({"region": "a", "sector": "x"})] == cells.index({"region": "n1", "sector": "x"})
    assert above[cells.index({"sector": "x"})] == -1


def test_sparse() -> None:
    rng = np.random.default_rng(0)
    full = (rng.random((7, 5)) < 0.4).astype(np.int8) * rng.choice([-1, 1], (7, 5)).astype(np.int8)
    rows, columns = full.nonzero()
    made = Sparse.from_pairs(rows[::-1], columns[::-1], (7, 5), full[rows, columns][::-1])
    assert made.dense().tolist() == full.tolist() and made.transposed.dense().tolist() == full.T.tolist()
    assert made.dot(np.arange(5.0)).tolist() == (full @ np.arange(5.0)).tolist()
    assert made.to_scipy().toarray().tolist() == full.tolist() and made.nnz == len(rows)


def test_empty_margins_have_no_columns_in_x() -> None:
    cells = dc.tabulate(pl.DataFrame({"a": ["x", "y"], "b": ["p", "q"]}), ["a", "b"])
    assert len(cells) == 7 and np.diff(cells.x.transposed.indptr).min() == 1
