"""The microaggregation of sdcMicro on its own data, method by method."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc
from tests.shared import reference

pytestmark = pytest.mark.peers

NUMBERS = ["expend", "income", "savings"]


def table(name: str) -> pl.DataFrame:
    read = pl.read_csv(reference("golden", "sdcmicro", name), null_values="NA", infer_schema_length=None)
    return read.select(pl.col(NUMBERS).cast(pl.Float64))


@pytest.mark.parametrize(
    ("method", "name"),
    [
        (dc.IndividualRanking(columns=NUMBERS, k=3), "micro_onedims_testdata_aggr3"),
        (dc.IndividualRanking(columns=NUMBERS, k=3), "mafast_testdata_aggr3"),
        (dc.IndividualRanking(columns=NUMBERS, k=5, aggregate="median"), "mafast_testdata_aggr5_median"),
        (dc.ProjectionMicroaggregation(columns=NUMBERS, k=3), "micro_pca_testdata_aggr3"),
        (dc.ProjectionMicroaggregation(columns=NUMBERS, k=3, sort_by="expend"), "micro_single_testdata_aggr3"),
        (dc.ProjectionMicroaggregation(columns=NUMBERS, k=3, sort_by="row"), "micro_simple_testdata_aggr3"),
        (dc.Mdav(columns=NUMBERS, k=3), "mdav_testdata_aggr3"),
        (dc.Mdav(columns=NUMBERS, k=5), "mdav_testdata_aggr5"),
        (dc.Mdav(columns=NUMBERS, k=10), "mdav_testdata_aggr10"),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_every_record_agrees(method: dc.Method, name: str) -> None:
    data = table("in_testdata.csv").with_row_index("row")
    got, wanted = method(data).select(NUMBERS).to_numpy(), table(f"05_{name}.csv").to_numpy()
    if isinstance(method, dc.IndividualRanking):  # which of equal values goes to which group: a keyed mix, not the row
        for column, original in enumerate(data.select(NUMBERS).to_numpy().T):
            for values in (got[:, column], wanted[:, column]):
                values[:] = values[np.lexsort((values, original))]
    np.testing.assert_allclose(got, wanted, rtol=1e-9)


def test_with_missing_values_it_does_not_reach_k_and_we_do() -> None:
    """It puts the gaps back where they were, also inside groups of records that have the value."""
    data = dc.Dataset(table("in_testdata_num_NA.csv"))
    theirs = dc.KAnonymity(k=3, columns=NUMBERS)(table("05_mdav_testdata_NA_aggr3.csv"))
    assert not theirs.holds and theirs.value == 1
    ours = dc.Mdav(columns=NUMBERS, k=3)(data)
    assert dc.KAnonymity(k=3, columns=NUMBERS)(ours).holds
    assert sum(ours.suppressed_cells.values()) <= 10
