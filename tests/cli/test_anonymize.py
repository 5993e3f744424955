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


def test_values_that_single_people_out_are_named(tmp_path: Path, census: list[object], cli: Cli) -> None:
    """Classes of five say nothing to whoever knows an exact income, which no model counts."""
    income = [one if one != "education" else "income" for one in census]
    done = cli("anonymize", *income, "--k", 5, "--suppression-limit", 0.05)
    released = pl.read_csv(tmp_path / "out.csv", infer_schema=False)
    alone = released.group_by(*KEYS, "income").len().filter(pl.col("len") == 1).height / released.height
    assert done.code == 0 and alone > 0.2
    assert "who knows a value of one as well as the quasi-identifiers" in done.err and f"income {alone:.1%}" in done.err
    done = cli("anonymize", *census, "--k", 5, "--suppression-limit", 0.05, "--force", "--levels", "age=5,region=2")
    assert done.code == 0 and "who knows a value of one" not in done.err  # education is shared by many


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
        (("--k", 3, "--search", "mondrian", "--levels", "age=1"), 2, "--levels does not go with --search mondrian"),
        (("--k", 3, "--search", "mondrian", "--summarize", "age=mean"), 2, "--summarize does not go with --search"),
        (("--k", 3, "--summarize", "age=average"), 2, "summarize"),
        (("--k", 3, "--cluster", "age"), 2, "'age' is not summarized"),
    ],
)
def test_wrong_calls(
    tmp_path: Path, census: list[object], cli: Cli, options: tuple[object, ...], code: int, words: str
) -> None:
    done = cli("anonymize", *census, *options)
    assert done.code == code and words in done.err
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("cluster", [(), ("--cluster", "age")])
def test_a_column_is_summarized_inside_the_classes(
    tmp_path: Path, census: list[object], cli: Cli, cluster: tuple[str, ...]
) -> None:
    done = cli(
        "anonymize", *census, "--k", 5, "--suppression-limit", 0.02, "--summarize", "age=median", *cluster, "--json",
        "--plan-out", tmp_path / "plan.yaml",
    )  # fmt: skip
    assert done.code == 0, done.err
    result = done.json()
    assert ("age" in result["levels"]) == bool(cluster)
    released = pl.read_csv(tmp_path / "out.csv", infer_schema=False)
    assert dc.KAnonymity(k=5, columns=KEYS)(released).holds
    data = dc.read(tmp_path / "census.csv")
    before, after = data.frame["age"], released["age"].cast(pl.Float64)
    assert before.min() <= after.min() and after.max() <= before.max()  # type: ignore[operator]
    if not cluster:
        assert released.group_by("region", "sex").agg(pl.col("age").n_unique())["age"].max() == 1
    step = yaml.safe_load((tmp_path / "plan.yaml").read_text())["steps"][-1]["optimal-generalization"]
    assert step["summarize"] == {"age": "median"} and step.get("cluster", []) == list(cluster[1:])


def test_how_columns_are_put_together(tmp_path: Path, census: list[object], cli: Cli) -> None:
    options = ("--k", 20, "--aggregate", "rank", "--suppression-factor", 0.3, "--suppression-limit", 0.05)
    done = cli("anonymize", *census, *options, "--json", "--plan-out", tmp_path / "plan.yaml")
    assert done.code == 0, done.err
    known = dc.Plan.load(tmp_path / "plan.yaml").schema
    data = dc.Dataset(dc.read(tmp_path / "census.csv").frame, schema=known)
    found = dc.anonymize(
        data,
        [dc.KAnonymity(k=20)],
        columns=KEYS,
        suppression_limit=0.05,
        aggregate="rank",
        suppression_factor=0.3,
    )
    assert done.json()["levels"] == dict(found.levels) and done.json()["score"] == found.score
    step = yaml.safe_load((tmp_path / "plan.yaml").read_text())["steps"][-1]["optimal-generalization"]
    assert (step["aggregate"], step["suppression_factor"]) == ("rank", 0.3)


SEARCHES = ["optimal-generalization", "mondrian", "local-recoding"]


@pytest.mark.parametrize("search", SEARCHES)
def test_models_with_parameters_in_every_search(tmp_path: Path, census: list[object], cli: Cli, search: str) -> None:
    done = cli(
        "anonymize", *census, "--search", search, "--suppression-limit", 0.02, "--json",
        "--model", "k-anonymity:{k: 4}", "--model", "recursive-l-diversity:{c: 4, l: 2}",
    )  # fmt: skip
    assert done.code == 0, done.err
    released = pl.read_csv(tmp_path / "out.csv", infer_schema=False)
    assert dc.KAnonymity(k=4, columns=KEYS)(released).holds
    assert dc.RecursiveLDiversity(c=4, l=2, columns=KEYS, sensitive=["education"])(released).holds


@pytest.mark.parametrize("kind", [*SEARCHES, "local-suppression", "suppress-records"])
def test_models_with_parameters_in_every_method_that_takes_them(
    tmp_path: Path, census: list[object], cli: Cli, kind: str
) -> None:
    more: list[object] = []
    if kind == "optimal-generalization":
        more = ["--suppression-limit", 0.02]
    elif kind == "suppress-records":
        more = ["--limit", 1]
    elif kind == "local-suppression":
        more = ["--columns", "sex,region"]
    keys = ["sex", "region"] if kind == "local-suppression" else KEYS
    done = cli(
        "apply",
        kind,
        *census,
        *more,
        "--models",
        "k-anonymity:{k: 4}",
        "--models",
        '{"distinct-l-diversity": {"l": 2}}',
    )
    assert done.code == 0, done.err
    released = pl.read_csv(tmp_path / "out.csv", infer_schema=False)
    assert dc.KAnonymity(k=4, columns=keys)(released).holds
    assert dc.DistinctLDiversity(l=2, columns=keys, sensitive=["education"])(released).holds


def test_importance_of_local_recoding(tmp_path: Path, census: list[object], cli: Cli) -> None:
    lost = {}
    for column in ("age", "region"):
        others = ",".join(f"{name}={1 if name == column else 0.01}" for name in KEYS)
        done = cli("anonymize", *census, "--k", 20, "--search", "local-recoding", "--importance", others, "--force")
        assert done.code == 0, done.err
        released = pl.read_csv(tmp_path / "out.csv", infer_schema=False)
        lost[column] = released.group_by("age").len().height
    assert lost["age"] > lost["region"]  # more labels of age are left where it counts more


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--models", "k-anonimity:{k: 3}"), "did you mean 'k-anonymity'"),
        (("--models", "k-anonymity:{k: [}"), "expected KIND or KIND:{field: value}"),
        (("--models", "k-anonymity:{k: 0}"), "k: input should be greater"),
        (("--models", "sample-uniqueness"), "a model is needed here"),
        (("--models", "interval-protection:{percent: 5, share: 0.5}"), "does not look at equivalence classes"),
        (("--models", '{"k-anonymity"'), "--models: not valid yaml or JSON"),
        ((), "give --k or --models"),
    ],
)
def test_wrong_models(tmp_path: Path, census: list[object], cli: Cli, arguments: tuple[str, ...], words: str) -> None:
    done = cli("apply", "mondrian", *census, *arguments)
    assert done.code == 2 and words in done.err.lower().replace("kind", "KIND").replace("json", "JSON")
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    "options",
    [
        ("--levels", "age=1"),
        ("--space", "space.csv"),
        ("--seconds", 1),
        ("--aggregate", "max"),
        ("--suppression-factor", 0),
    ],
)
def test_options_that_a_search_does_not_have_are_refused(
    tmp_path: Path, census: list[object], cli: Cli, options: tuple[object, ...]
) -> None:
    done = cli("anonymize", *census, "--k", 5, "--search", "mondrian", *options)
    assert done.code == 2 and f"{options[0]} does not go with --search mondrian" in done.err
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(("search", "loss"), [("mondrian", "entropy"), ("local-recoding", "precision-loss")])
def test_loss_importance_and_suppression_in_other_searches(
    tmp_path: Path, census: list[object], cli: Cli, search: str, loss: str
) -> None:
    options = ("--loss", loss, "--importance", "age=3", "--suppression-limit", 0.05, "--keep-order")
    done = cli("anonymize", *census, "--k", 5, "--search", search, *options, "--json")
    assert done.code == 0, done.err
    assert done.json()["rows"] + done.json()["suppressed"] == 2000
    fields = {"columns": KEYS, "k": 5, "loss": loss, "importance": {"age": 3}, "suppression_limit": 0.05}
    hierarchies = {name: str(tmp_path / f"{name}.csv") for name in KEYS}
    known = dc.read(tmp_path / "census.csv", roles=dict.fromkeys(KEYS, "quasi"), hierarchies=hierarchies)
    method = {"mondrian": dc.Mondrian, "local-recoding": dc.LocalRecoding}[search]
    expected = method(**fields)(known)
    written = pl.read_csv(tmp_path / "out.csv", infer_schema=False)
    assert written.select(KEYS).equals(expected.frame.select(pl.col(KEYS).cast(pl.String)))
    plain = method(columns=KEYS, k=5)(known)
    assert not plain.frame.select(pl.col(KEYS).cast(pl.String)).equals(written.select(KEYS))


@pytest.mark.parametrize(("search", "known"), [("mondrian", "'loss' or 'entropy'"), ("local-recoding", "'height'")])
def test_a_loss_that_a_search_cannot_make_small_is_refused(
    census: list[object], cli: Cli, search: str, known: str
) -> None:
    done = cli("anonymize", *census, "--k", 5, "--search", search, "--loss", "aecs")
    assert done.code == 2 and f"{search}: loss:" in done.err and known in done.err


def test_columns_without_a_hierarchy_are_named(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "in.csv").write_text("age,sex\n" + "".join(f"{20 + i},{'fm'[i % 2]}\n" for i in range(20)))
    call = ["anonymize", tmp_path / "in.csv", tmp_path / "out.csv", "--quasi", "age,sex", "--k", 5]
    done = cli(*call)
    assert done.code == 5 and not (tmp_path / "out.csv").exists()
    assert "age, sex have no hierarchy and keep their values; give one with --hierarchy COLUMN=FILE" in done.err
    done = cli(*call, "--hierarchy", "age={intervals: {width: 5, levels: 3}}")
    assert done.code == 0 and "note: sex has no hierarchy and keeps its values; give one with" in done.err
    sexes = "sex={groups: {levels: [{any: [f, m]}]}}"
    done = cli(*call, "--hierarchy", "age={intervals: {width: 5, levels: 3}}", "--hierarchy", sexes, "--force")
    assert done.code == 0 and "no hierarchy" not in done.err


def test_standard_output_has_the_data_and_nothing_else(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "in.csv").write_text("age,sex\n" + "".join(f"{20 + i},{'fm'[i % 2]}\n" for i in range(20)))
    call = ["anonymize", tmp_path / "in.csv", "-", "--quasi", "age", "--k", 5]
    for search in ("optimal-generalization", "mondrian"):
        done = cli(*call, "--hierarchy", "age={intervals: {width: 5, levels: 3}}", "--search", search)
        assert done.code == 0 and pl.read_csv(done.out.encode()).shape == (20, 2)
        assert "level" in done.err or "rows" in done.err


def test_two_outputs_need_two_files(tmp_path: Path, cli: Cli) -> None:
    call = ["anonymize", "none.csv", tmp_path / "a.csv", "--quasi", "age", "--k", 2]
    done = cli(*call, "--space", tmp_path / "a.csv")
    assert done.code == 2 and "two outputs have the same name" in done.err
    done = cli(*call, "--step", tmp_path / "no" / "step.yaml")
    assert done.code == 3 and "there is no folder" in done.err


def test_what_more_suppression_would_gain(census: list[object], cli: Cli) -> None:
    done = cli("anonymize", *census, "--k", 5, "--suppression-limit", 0.01, "--json", "--dry-run")
    more = done.json()["with_more_suppression"]
    assert [one["suppression_limit"] for one in more] == [0.02, 0.05]
    for one in more:
        alone = cli(
            "anonymize", *census, "--k", 5, "--suppression-limit", one["suppression_limit"], "--json", "--dry-run"
        )
        assert (alone.json()["score"], alone.json()["levels"]) == (one["score"], one["levels"])
        assert one["score"] <= done.json()["score"]


def test_what_whole_classes_share_is_said(tmp_path: Path, cli: Cli) -> None:
    """Two of the four classes of five share their illness; the third has it missing, which is no value."""
    ills = ["flu"] * 5 + ["flu", "cold", "cold", "cold", "flu"] + [""] * 5 + ["cold"] * 5
    rows = [f"{place},{ill}" for place, ill in zip([p for p in "abcd" for _ in range(5)], ills, strict=True)]
    (tmp_path / "in.csv").write_text("\n".join(["place,ill", *rows]) + "\n")
    for search in ("optimal-generalization", "mondrian"):
        call = ("--k", 5, "--quasi", "place", "--sensitive", "ill", "--search", search, "--dry-run")
        done = cli("anonymize", tmp_path / "in.csv", tmp_path / "out.csv", *call)
        assert "50.0% of the records sit in classes that share one value of ill" in " ".join(done.err.split())


def test_a_folder_of_hierarchies_and_a_plan_that_runs(tmp_path: Path, census: list[object], cli: Cli) -> None:
    folder = tmp_path / "levels"
    folder.mkdir()
    for name in KEYS:
        (tmp_path / f"{name}.csv").rename(folder / f"census_hierarchy_{name}.csv")
    plan = tmp_path / "plan.yaml"
    options = ["--quasi", ",".join(KEYS), "--sensitive", "education", "--hierarchies", folder, "--k", 5]
    (tmp_path / "census.csv").write_text((tmp_path / "census.csv").read_text().replace(",", ";"))
    found = cli("anonymize", census[0], census[1], *options, "--plan-out", plan, "--json")
    assert found.code == 0, found.err
    assert (tmp_path / "out.csv").read_text().partition("\n")[0] == "region;age;sex;education;income"
    done = cli("run", plan, "--out", tmp_path / "again", "--json")
    assert done.code == 0, done.err
    again, once = (pl.read_csv(tmp_path / name, separator=";") for name in ("again/data.csv", "out.csv"))
    assert again.sort(again.columns).equals(once.sort(once.columns))
    assert cli("anonymize", *census[:2], "--hierarchies", tmp_path / "none", "--quasi", "age", "--k", 2).code == 2


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("search", ["optimal-generalization", "mondrian"])
def test_nothing_is_left_of_a_command_that_fails_after_it_wrote(
    tmp_path: Path, census: list[object], cli: Cli, monkeypatch: pytest.MonkeyPatch, search: str, force: bool
) -> None:
    def fail(*_: object, **__: object) -> None:
        assert (tmp_path / "out.csv").read_text() != old
        raise dc.DataError("afterwards")

    old = "an old release\n"
    other = tmp_path / "order.csv"
    if force:
        (tmp_path / "out.csv").write_text(old)
    monkeypatch.setattr("discretion.cli.anonymize.print_table", fail)
    options = ["--k", 5, "--search", search, "--order-file", other, *(["--force"] if force else [])]
    done = cli("anonymize", *census, *options)
    assert done.code != 0 and "afterwards" in done.err
    assert not other.exists()
    assert (tmp_path / "out.csv").read_text() == old if force else not (tmp_path / "out.csv").exists()
    monkeypatch.undo()
    assert cli("anonymize", *census, *options).code == 0 and other.exists()
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".out.csv")]


def test_nothing_is_left_of_a_method_that_fails_after_it_wrote(
    tmp_path: Path, census: list[object], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        assert (tmp_path / "out.csv").exists()
        raise dc.DataError("afterwards")

    monkeypatch.setattr("discretion.cli.apply._name_telling", fail)
    done = cli("apply", "pram", *census[:2], "--columns", "sex", "--keep-share", 0.8)
    assert done.code != 0 and "afterwards" in done.err and not (tmp_path / "out.csv").exists()


def test_the_weight_that_goes_with_dropped_records_is_said_by_both_commands(tmp_path: Path, cli: Cli) -> None:
    frame = pl.DataFrame({"x": ["a"] * 90 + [f"b{i % 5}" for i in range(10)], "w": [1.0] * 90 + [3.0] * 10})
    frame.write_csv(tmp_path / "in.csv")
    done = cli(
        "anonymize", tmp_path / "in.csv", tmp_path / "out.csv", "--quasi", "x", "--weight", "w", "--k", 5,
        "--suppression-limit", 0.1,
    )  # fmt: skip
    words = "the weights in w add up to 25.0% less than in the original"
    assert done.code == 0 and words in " ".join(done.err.split())
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "confirmed: true\ndata: in.csv\nroles: {x: quasi, w: weight}\nsteps:\n"
        "  - optimal-generalization: {models: [k-anonymity: {k: 5}], suppression_limit: 0.1}\n"
        "  - reissue-weights: {by: [x], smallest: 5}\nrequirements: [k-anonymity: {k: 5}]\noutput: release\n"
    )
    done = cli("run", plan)
    assert done.code == 0 and words in " ".join(done.err.split())
