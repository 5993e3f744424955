"""The models on reference data of other tools: sdcMicro's l-diversity, ARX's solutions on adult."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.privacy.class_table import ClassModel
from tests.shared import reference

pytestmark = pytest.mark.peers

KEYS = ["urbrur", "roof", "walls", "sex"]


def test_sdcmicro_l_diversity() -> None:
    """All of its classes have different values, so that its three figures are the number of values."""
    name = "03_ldiversity_testdata2_keys_urbrur_roof_walls_sex__sens_water.csv"
    golden = pl.read_csv(reference("golden", "sdcmicro", name))
    data = dc.Dataset(pl.read_csv(reference("golden", "sdcmicro", "in_testdata2.csv"), null_values="NA"))
    classes = data.classes(KEYS)

    def per_record(model: Any) -> np.ndarray:
        table = model.table(data, tuple(KEYS), classes, ("water",))
        return model.values_for(table.sensitive["water"], table.sizes)[classes.ids]

    named = {"columns": KEYS, "sensitive": ["water"]}
    assert np.array_equal(per_record(dc.DistinctLDiversity(l=1, **named)), golden["water_Distinct_Ldiversity"])
    assert np.allclose(per_record(dc.EntropyLDiversity(l=1, **named)), golden["water_Entropy_Ldiversity"])
    largest = np.zeros(len(data))
    for l in range(1, 8):  # noqa: E741
        largest[per_record(dc.RecursiveLDiversity(c=2, l=l, **named)) < 2] = l
    assert np.array_equal(largest, golden["water_Recursive_Ldiversity"])


def adult(case: str, file: str = "adult.csv") -> tuple[dc.Dataset, dict[str, Any]]:
    """Give adult generalized as ARX did."""
    golden = json.loads(reference("golden", "arx", f"{case}.json").read_text())
    frame = pl.read_csv(reference("data", "adult", file), separator=";")
    names = [*golden["qis"], *([golden["sensitive"]] if golden["sensitive"] else [])]
    data = dc.Dataset(
        frame,
        roles={
            **dict.fromkeys(golden["qis"], "quasi"),
            **({golden["sensitive"]: "sensitive"} if golden["sensitive"] else {}),
        },
        hierarchies={name: str(reference("data", "adult", f"adult_hierarchy_{name}.csv")) for name in names},
    )
    levels = {name: level for name, level in zip(golden["qis"], golden["levels"], strict=True) if level}
    return dc.Generalize(levels=levels)(data), golden


CASES: dict[str, list[ClassModel]] = {
    "adult8age_k5_t02ordered_s0_loss": [dc.KAnonymity(k=5), dc.TCloseness(t=0.2)],
    "adult8sa_b2basic_s0_loss": [dc.BetaLikeness(beta=2, enhanced=False)],
    "adult8sa_c3l3recursive_s0_loss": [dc.RecursiveLDiversity(c=3, l=3)],
    "adult8sa_d1disclosure_s0_loss": [dc.DeltaDisclosure(delta=1)],
    "adult8sa_k5_l3distinct_s0.05_loss": [dc.KAnonymity(k=5), dc.DistinctLDiversity(l=3)],
    "adult8sa_k5_l3distinct_s0_loss": [dc.KAnonymity(k=5), dc.DistinctLDiversity(l=3)],
    "adult8sa_k5_t02equal_s0.05_loss": [dc.KAnonymity(k=5), dc.TCloseness(t=0.2, distance="equal")],
    "adult8sa_k5_t02hier_s0_loss": [dc.KAnonymity(k=5), dc.TCloseness(t=0.2, distance="hierarchical")],
    "adult8sa_l3entropy_s0.05_loss": [dc.EntropyLDiversity(l=3)],
    "adult9_avgrisk02_s0.05_loss": [dc.AverageRisk(risk=0.2)],
    "adult9_k5_s0.05_loss": [dc.KAnonymity(k=5)],
}


@pytest.mark.parametrize("case", CASES)
def test_arx_suppresses_the_same_records(case: str) -> None:
    data, golden = adult(case)
    columns = tuple(golden["qis"])
    classes = data.classes(columns)
    gone = np.zeros(len(classes), dtype=np.bool_)
    for model in CASES[case]:
        table = model.table(data, columns, classes, model.sensitive_columns(data))
        gone = model.suppress(table, gone)
    assert classes.counts[gone].sum() == golden["suppressed_records"]
    assert (~gone).sum() == golden["ec"]["number"]
    assert classes.counts[~gone].min() == golden["ec"]["min"]
    verdicts = [model(data) for model in CASES[case]]
    assert all(verdict.holds for verdict in verdicts) == (golden["suppressed_records"] == 0)


@pytest.mark.parametrize("case", ["adult9_kmap5_subset_s0_loss", "adult9_dpresence_0_02_s0_loss"])
def test_arx_with_a_population(case: str) -> None:
    sample, _ = adult(case, "adult_subset.csv")
    people = dc.read(str(reference("data", "adult", "adult.csv")))
    assert dc.KMap(k=5, population=people)(sample).holds
    assert dc.DeltaPresence(delta_max=0.2, population=people)(sample).holds
    strict = dc.DeltaPresence(delta_min=0.01, delta_max=0.2, population=people)(sample)
    assert not strict.holds and strict.failing[0].size == 0
