"""A small data set and parameters with which every registered part can be run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

import discretion as dc
from discretion.part import Part

RULES = {
    "columns": ["income", "hours"],
    "column": "income",
    "levels": {"region": 1},
    "k": 3,
    "percent": 20,
    "sd": 0.3,
    "variance_share": 0.2,
    "cuts": [-1e9, 0, 1e9],
}
"""Values for required fields, by name. A new part gives those of others itself: `Field(gt=0, examples=[5])`."""

OVERRIDES: dict[str, dict[str, object]] = {
    "additive-noise": {"columns": ["income", "hours"], "sd_share": 0.2},
    "recode": {"column": "hours", "width": 10},
    "top-code": {"column": "income", "quantile": 0.9},
    "bottom-code": {"column": "income", "quantile": 0.1},
    "drop-identifiers": {"columns": ["name"]},
    "sample": {"share": 1.0},
    "reissue-weights": {"weight": "hours", "by": ["region"], "smallest": 1},
    "group-categories": {"column": "region", "groups": {"north": ["a", "b"]}},
    "outlier-noise": {"columns": ["income", "hours"], "variance_share": 0.2, "quantile": 0.6},
    "round": {"columns": ["income", "hours"], "base": 7},
    "detail-limits": {"min_category_size": 12, "columns": ["region", "sex"]},
    "pram": {"columns": ["region"], "keep_share": 0.6, "invariant": True},
    "randomized-response": {"columns": ["region", "sex"], "truth_share": 0.5},
    "confidentiality-edit": {"geography": ["region"], "match_on": ["sex"], "share": 0.3},
    "targeted-record-swap": {"geography": ["region"], "risk_columns": ["sex"], "k": 2, "share": 0.3},
    "blank-and-impute": {"columns": ["income", "hours"], "geography": ["region"], "small_block": 99, "per_block": 4},
    "shuffle": {"columns": ["income", "hours"], "predictors": ["region"]},
    "at-household-level": {"method": {"pram": {"columns": ["region"], "keep_share": 0.6}}, "household": "name"},
    "local-suppression": {"columns": ["region"], "k": 2},
    "suppress-by-risk": {
        "at_most": 0.12,
        "columns": ["sex"],
        "measure": {"sample-uniqueness": {"columns": ["region", "sex"]}},
    },
    "suppress-records": {"columns": ["region"], "k": 2},
    "k-anonymity": {"k": 2, "columns": ["region", "sex"]},
    "edit-rules": {"rules": ["income >= 0", "hours > 20 -> region = 'a'"]},
    "restore-edit-rules": {"rules": ["income BETWEEN 0 AND 1"]},
    "identity-denoising": {"rules": ["income = 3 * hours"]},
    "distinct-l-diversity": {"l": 2, "columns": ["region", "sex"], "sensitive": ["income", "hours"]},
    "entropy-l-diversity": {"l": 4.5, "columns": ["region"], "sensitive": ["income"]},
    "estimated-entropy-l-diversity": {"l": 4.5, "columns": ["region"], "sensitive": ["income"]},
    "sample-uniqueness-bound": {"share": 0.1, "columns": ["region", "hours"]},
    "profitability": {"benefit": 10, "loss": 30, "gain": 30, "cost": 4, "columns": ["region", "sex"]},
    "recursive-l-diversity": {"c": 0.2, "l": 2, "columns": ["region", "sex"], "sensitive": ["income"]},
    "t-closeness": {"t": 0.2, "columns": ["region", "sex"], "sensitive": ["income", "hours"]},
    "alpha-k": {"alpha": 0.5, "k": 2, "columns": ["region"], "sensitive": ["sex"]},
    "p-sensitive": {"p": 2, "k": 2, "columns": ["region"], "sensitive": ["sex"]},
    "beta-likeness": {"beta": 0.3, "columns": ["region"], "sensitive": ["sex"]},
    "delta-disclosure": {"delta": 0.5, "columns": ["region"], "sensitive": ["sex"]},
    "k-map": {"k": 3, "population_size": 600, "columns": ["region", "sex"]},
    "average-risk": {"risk": 0.1, "columns": ["region", "sex"]},
    "population-uniqueness-bound": {"share": 0.1, "population_size": 600, "columns": ["region", "hours"]},
    "km-anonymity": {"k": 10, "m": 2, "columns": ["region"]},
    "interval-protection": {"percent": 20, "share": 0.5, "columns": ["income", "hours"]},
    "reidentification-bound": {"at_most": 0.5, "measure": {"sample-uniqueness": {"columns": ["region"]}}},
    "mondrian": {"columns": ["region", "sex", "hours"], "k": 3},
    "local-recoding": {"columns": ["region", "sex"], "k": 3},
    "km-generalization": {"columns": ["region"], "k": 3, "item_hierarchy": [[item, "*"] for item in "abcd"]},
    "optimal-generalization": {"models": [{"k-anonymity": {"k": 2}}], "columns": ["region"]},
    "sample-uniqueness": {"columns": ["region", "sex"]},
    "suda": {"columns": ["region", "sex", "hours"], "share": 0.2},
    "quasi-identifiers": {"columns": ["region", "sex", "hours"], "known": 2},
    "value-agreement": {"columns": ["region", "income"]},
    "group-attack": {
        "columns": ["region", "sex"],
        "sensitive": ["income"],
        "coalition": 2,
        "percent": 30,
        "share": 0.7,
    },
    "individual-risk": {"columns": ["region", "sex"], "share": 0.2},
    "household-k-anonymity": {"k": 2, "columns": ["region", "sex"], "household": "name"},
    "household-uniqueness": {"columns": ["region", "sex"], "household": "name"},
    "weight-disclosure": {"weight": "hours", "columns": ["region", "sex"]},
    "rare-values": {"columns": ["region", "income"], "k": 15},
    "household-risk": {"columns": ["region", "sex"], "share": 0.2, "household": "name"},
    "log-linear-risk": {"columns": ["region", "sex"], "share": 0.2},
    "population-uniqueness": {"columns": ["region", "hours"], "share": 0.2},
    "attacker-risk": {"columns": ["region", "sex"]},
    "model-disclosure": {"target": "sex", "features": ["income", "hours"], "scan": 1},
    "model-agreement": {"target": "sex", "features": ["income", "hours"]},
    "membership-inference": {"target": "sex", "features": ["income", "region"], "model": "tree", "shadows": 4},
    "classification-utility": {"target": "sex", "features": ["income", "hours"]},
    "regression-utility": {"target": "income", "features": ["hours", "region"]},
    "clustering-utility": {"features": ["income", "hours", "region"]},
    "average-class-size": {"k": 2, "columns": ["region", "sex"]},
    "discernibility": {"columns": ["region", "sex"]},
    "precision": {"columns": ["region"]},
    "iloss": {"columns": ["region"]},
    "granularity": {"columns": ["region"]},
    "height": {"columns": ["region"]},
    "non-uniform-entropy": {"columns": ["region"]},
    "result-privacy": {"rules": ["region=a -> sex=f"], "min_support": 0.1, "columns": ["region", "sex"]},
    "hide-rules": {"rules": ["region=a|sex=f"], "min_support": 0.01, "columns": ["region", "sex"]},
    "integral-privacy": {"result": "mean", "columns": ["hours"], "grid": {"hours": 10}, "samples": 40},
    "special-rule": {"detail": {"region": 1}},
    "narrow-range": {"column": "region"},
}

OVERRIDES["private-generalization"] = {
    "epsilon": 3.0,
    "delta": 0.2,
    "share": 0.6,
    "domain": {"sex": {"categories": ["f", "m"], "missing": True}},
    "drop": ["name", "region", "income", "hours"],
}

OVERRIDES["private-marginals"] = {
    "epsilon": 2.0,
    "domain": {
        "region": {"categories": list("abcd"), "missing": True},
        "sex": ["f", "m"],
        "income": {"cuts": [0.0, 10.0, 20.0, 50.0, 200.0], "missing": True},
        "hours": {"cuts": [0, 60, 120, 180], "missing": True},
    },
    "drop": ["name"],
}

SYNTHETIC: dict[str, dict[str, object]] = {
    "singling-out": {"columns": ["sex", "income", "hours"], "size": 2},
    "linkability": {"first": ["sex", "income"], "second": ["hours"]},
    "inference-risk": {"columns": ["sex", "hours"], "targets": ["income"]},
    "closest-record": {"columns": ["sex", "income", "hours"]},
    "replicated-uniques": {"columns": ["sex", "hours"]},
    "generator-membership": {"columns": ["sex", "income", "hours"], "shadows": 8},
    "disco": {"columns": ["hours"], "targets": ["sex"]},
}
"""Attacks with a control group, which `holdout_file` gives."""

MISSPELLED: dict[str, dict[str, object]] = {
    "confidentiality-edit": {"geography": ["incme"]},
    "restore-edit-rules": {"rules": ["incme >= 0"]},
    "targeted-record-swap": {"geography": ["incme"]},
    "at-household-level": {"method": {"pram": {"columns": ["incme"], "keep_share": 0.5}}},
    "sample": {"by": ["incme"]},
    "reissue-weights": {"by": ["incme"]},
    "private-marginals": {"drop": ["name", "incme"]},
    "private-generalization": {"drop": ["name", "incme", "hours"]},
}
"""Fields that name a column which does not exist, for methods without `columns`, `column` or `levels`."""

HIERARCHY = dc.Hierarchy.tree({"*": {"north": ["a", "b"], "south": ["c", "d"]}})
ROLES = {"name": "identifier", "region": "quasi", "sex": "quasi", "income": "sensitive", "hours": "sensitive"}


def fields_for(part: type[Part], key_file: str) -> dict[str, object]:
    """Give parameters for a part: its own, or those that its required fields ask for by name."""
    if part.__module__.startswith("discretion.risk.synthetic"):
        held = {"holdout": holdout_file(key_file)} if "holdout" in part.model_fields else {}
        return {**SYNTHETIC[part.kind], **held}
    if part.kind in OVERRIDES:
        return dict(OVERRIDES[part.kind])
    chosen = {name: RULES[name] for name, field in part.model_fields.items() if name in RULES and field.is_required()}
    if "columns" in part.model_fields:
        chosen["columns"] = RULES["columns"]
    if part.kind == "delta-presence":
        return {"delta_max": 0.4, "columns": ["region", "sex"], "population": population_file(key_file)}
    if "key_file" in part.model_fields:
        chosen |= {"key_file": key_file, ("columns" if "columns" in part.model_fields else "key_by"): ["name"]}
    lacking = [name for name, field in part.model_fields.items() if field.is_required() and name not in chosen]
    for name in lacking:
        examples = part.model_fields[name].examples
        assert examples, f"{part.kind}.{name} needs a value to be tested with: Field(..., examples=[...])"
        chosen[name] = examples[0]
    return chosen


def population_file(key_file: str) -> str:
    """Write, beside the key file, a population that contains the samples: each of their people four times."""
    path = Path(key_file).with_name("population.csv")
    if not path.exists():
        pl.concat([frame(), frame(missing=True)] * 4).write_csv(path)
    return str(path)


def holdout_file(key_file: str) -> str:
    """Write, beside the key file, people who are not in the samples."""
    path = Path(key_file).with_name("holdout.csv")
    if not path.exists():
        frame(seed=77).write_csv(path)
    return str(path)


def frame(rows: int = 60, seed: int = 0, missing: bool = False) -> pl.DataFrame:
    """Give a small table without ties in its numbers."""
    rng = np.random.default_rng(seed)
    income = np.round(rng.lognormal(3, 0.7, rows), 6)
    hours = rng.permutation(rows * 3)[:rows]
    data = pl.DataFrame(
        {
            "name": [f"person {i}" for i in range(rows)],
            "region": rng.choice(list("abcd"), rows),
            "sex": rng.choice(["f", "m"], rows),
            "income": income,
            "hours": hours,
        },
        schema_overrides={"region": pl.String, "sex": pl.String, "name": pl.String},
    )
    if missing:
        empty = pl.Series(np.arange(rows) % 7 == 3)
        data = data.with_columns(
            pl.when(empty).then(None).otherwise(pl.col(c)).alias(c) for c in ("region", "income", "hours")
        )
    return data


def dataset(rows: int = 60, seed: int = 0, missing: bool = False) -> dc.Dataset:
    """Give the table with roles and a hierarchy."""
    return dc.Dataset(frame(rows, seed, missing), roles=ROLES, hierarchies={"region": HIERARCHY})
