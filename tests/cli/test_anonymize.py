"""`discretion anonymize`: models by option, the solution space, another node, the plan step."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
import yaml

import discretion as dc
from tests.cli.conftest import Cli

KEYS = ["region", "age", "sex"]


@pytest.fixture
def census(tmp_path: Path) -> list[object]:
    people = dc.datasets.census(2000, seed=1)
    people.frame.select(*KEYS, "education", "income").write_csv(tmp_path / "census.csv")
    options: list[object] = ["--quasi", ",".join(KEYS), "--sensitive", "education"]
    for name in KEYS:
        rows = zip(*people.hierarchy(name).table, strict=True)
        (tmp_path / f"{name}.csv").write_text("\n".join(";".join(row) for row in rows) + "\n")
        options += ["--hierarchy", f"{name}={tmp_path / name}.csv"]
    return [tmp_path / "census.csv", tmp_path / "out.csv", *options]


def test_the_release_satisfies_the_models(tmp_path: Path, census: list[object], cli: Cli) -> None:
    done = cli("anonymize", *census, "--k", 5, "--l", 2, "--suppression-limit", 0.02, "--json")
    assert done.code == 0
    result = done.json()
    released = pl.read_csv(tmp_path / "out.csv", infer_schema=False)
    assert released.height == 2000 - result["suppressed"] >= 1960
    assert dc.KAnonymity(k=5, columns=KEYS)(released).holds
    assert dc.DistinctLDiversity(l=2, columns=KEYS, sensitive=["education"])(released).holds
    assert result["proven"] and result["classes"]["smallest"] >= 5


def test_space_step_and_another_node(tmp_path: Path, census: list[object], cli: Cli) -> None:
    done = cli(
        "anonymize", *census, "--k", 5, "--suppression-limit", 0.05,
        "--space", tmp_path / "space.csv", "--step", tmp_path / "step.yaml",
    )  # fmt: skip
    assert done.code == 0 and "The best solutions" in done.out
    space = pl.read_csv(tmp_path / "space.csv")
    assert {"score", "k", "suppressed_share", "status"} <= set(space.columns)
    step = yaml.safe_load((tmp_path / "step.yaml").read_text())["steps"][0]
    assert next(iter(step)) == "optimal-generalization"
    assert cli("anonymize", *census, "--k", 5, "--suppression-limit", 0.05).code == 3, "out.csv exists"
    done = cli(
        "anonymize", *census, "--k", 5, "--levels", "age=5,region=2", "--force", "--json", "--space", tmp_path / "s.svg"
    )
    assert done.code == 0 and done.json()["levels"]["age"] == 5
    assert (tmp_path / "s.svg").read_text().lstrip().startswith("<svg")


@pytest.mark.parametrize("search", ["mondrian", "local-recoding"])
def test_other_searches(tmp_path: Path, census: list[object], cli: Cli, search: str) -> None:
    done = cli("anonymize", *census, "--k", 5, "--search", search, "--json")
    assert done.code == 0 and all(model["holds"] for model in done.json()["models"])
    assert dc.KAnonymity(k=5, columns=KEYS)(pl.read_csv(tmp_path / "out.csv", infer_schema=False)).holds


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ((), 2, "at least one privacy model"),
        (("--k", 5000), 5, "2000 in all"),
        (("--k", 5, "--suppression-limit", 2), 2, "suppression_limit"),
        (("--model", "k-anonimity:{k: 3}"), 2, "did you mean 'k-anonymity'"),
        (("--k", 3, "--l", 50), 2, "only 9 different values"),
        (("--k", 3, "--search", "mondrian", "--levels", "age=1"), 2, "--levels goes with"),
    ],
)
def test_wrong_calls(
    tmp_path: Path, census: list[object], cli: Cli, options: tuple[object, ...], code: int, words: str
) -> None:
    done = cli("anonymize", *census, *options)
    assert done.code == code and words in done.err
    assert not (tmp_path / "out.csv").exists()
