"""`discretion policy`: show, check, new."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Cli


def test_show_gives_every_number_with_its_reason(cli: Cli) -> None:
    shown = cli("policy", "show", "public-use")
    assert shown.code == 0 and "min_population:" in shown.out and "100000" in shown.out
    assert "- k-anonymity: Anybody may try" in shown.out and "signed by nobody" in shown.out
    content = cli("policy", "show", "public-use", "--json").json()
    assert content["lineage"] == ["public-use", "scientific-use"]
    assert all(one["why"] for one in content["requirements"])
    assert [one["name"] for one in cli("policy", "show", "--json").json()["policies"]] == [
        "public-use", "research-output", "scientific-use",
    ]  # fmt: skip


def test_new_and_check(cli: Cli, tmp_path: Path) -> None:
    file = str(tmp_path / "ours.yaml")
    assert cli("policy", "new", file, "--extends", "public-use").code == 0
    assert cli("policy", "new", file).code == 3  # it exists
    checked = cli("policy", "check", file, "--json")
    assert checked.json()["lineage"] == ["ours", "public-use", "scientific-use"]
    Path(file).write_text(Path(file).read_text().replace("requirements: []", WEAK))
    weak = cli("policy", "check", file)
    assert weak.code == 2 and "weaker than in the parent: `k` is 4, 5 is demanded" in weak.err


WEAK = "requirements: [{require: {k-anonymity: {k: 4}}, rows: records, why: small}]"


def test_check_a_plan_against_its_policy(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("age,sex,illness\n" + "20,f,flu\n30,m,none\n" * 30)
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "data: people.csv\nroles: {age: quasi, sex: quasi, illness: sensitive}\nsteps: [{shuffle: {columns: age}}]\n"
        "policy: scientific-use\n"
    )
    found = cli("policy", "check", str(plan), "--json").json()
    assert found["policy"] == "scientific-use" and {"k-anonymity": {"k": 3}} in found["requirements"]
    plan.write_text(plan.read_text() + "order: keep\n")
    refused = cli("policy", "check", str(plan))
    assert refused.code == 2 and "row-order" in refused.err
    plan.write_text(
        plan.read_text() + "waivers: [{requirement: row-order, by: 'Bo, head of disclosure control', why: a panel}]\n"
    )
    kept = cli("policy", "check", str(plan))
    assert kept.code == 0, kept.err
    assert "waived: row-order, by Bo, head of disclosure control: a panel" in kept.err
