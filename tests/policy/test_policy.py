"""Policy files: shipped ones, parents, faults with their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

import discretion as dc
from discretion.data.schema import Schema
from discretion.errors import PlanError
from discretion.policy.policy import OutputRules, Policy, Waiver

OWN = """
scenario: public-file
extends: scientific-use
requirements:
  - require: {k-anonymity: {k: %s}}
    why: our board decided
"""


@pytest.mark.parametrize("name", Policy.shipped)
def test_shipped_policies_give_a_reason_for_every_number(name: str) -> None:
    policy = dc.Policy.load(name)
    assert policy.requirements and all(len(one.why) > 40 for one in policy.requirements)
    for limits in (policy.geography, policy.detail, policy.outputs):
        if limits is not None:
            given = [one for one in limits.limits() if getattr(limits, one) is not None]
            assert set(limits.why) == set(given) and given
    assert policy.notes and policy.digest


def test_public_files_are_stricter_than_scientific_ones() -> None:
    public, scientific = Policy.load("public-use"), Policy.load("scientific-use")
    schema = Schema.build(roles={"age": "quasi", "town": ["quasi", "geography"], "illness": "sensitive"})
    asked, less = public.demands(schema), scientific.demands(schema)
    assert asked["k-anonymity"][0].part.settings() == {"k": 5}
    assert less["k-anonymity"][0].part.settings() == {"k": 3}
    assert set(less) < set(asked) and "distinct-l-diversity" in asked
    assert asked["geography"][0].part.settings() == {"min_area_population": 100000.0}
    assert "household-k-anonymity" not in asked  # nothing in the data tells households
    assert set(public.demands(schema, "synthetic")) == {"closest-record", "geography", "detail"}


def test_requirements_on_roles_are_asked_where_the_role_is() -> None:
    plain = Schema.build(roles={"age": "quasi"})
    assert set(Policy.load("public-use").demands(plain)) == {"k-anonymity", "distance-linkage", "detail"}


def test_a_policy_may_be_stricter_than_its_parent(tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text(OWN % 7)
    policy = Policy.load(tmp_path / "ours.yaml")
    assert policy.lineage == ("ours", "scientific-use")
    assert [one.name for one in policy.requirements] == ["distance-linkage", "closest-record", "k-anonymity"]
    assert policy.demands(Schema.build(roles={"age": "quasi"}))["k-anonymity"][0].part.settings() == {"k": 7}
    assert policy.geography is not None and policy.geography.min_population == 20000


WEAKER = {
    "k": (OWN % 2, "line 5 (requirements.1): k-anonymity is weaker than in the parent: `k` is 2, 3 is demanded"),
    "reading": (OWN.replace("k: %s", "k: 9, missing: wildcard"), "`missing` is wildcard, category is demanded"),
    "left out": (OWN.replace("k: %s", "k: 9, missing: ignore"), "`missing` is ignore, category is demanded"),
    "columns": (OWN.replace("k: %s", "k: 9, columns: [sex]"), "`columns` names others than demanded"),
    "records": (OWN.replace("k: %s", "k: 9, count: records"), "`count` is records, units is demanded"),
    "role": (OWN % 9 + "    when: household\n", "it is asked only `when: household`"),
    "rows": (OWN % 9 + "    rows: synthetic\n", "it is asked only of `rows: synthetic`"),
    "area": (
        OWN % 9 + "geography: {min_population: 1000, why: {min_population: small land}}\n",
        "(geography.min_population): is weaker than that of the parent (1000, there 20000)",
    ),
    "people": (OWN % 9 + "may_waive: {k-anonymity: [intern]}\n", "the parent does not let intern waive k-anonymity"),
    "safeguard": (OWN % 9 + "may_waive: {steps: [intern]}\n", "the parent does not let intern waive steps"),
    "scenario": (
        OWN.replace("public-file", "secure-centre") % 9,
        "line 2 (scenario): the parent is for scientific-file; a policy for secure-centre cannot be derived from it",
    ),
}


@pytest.mark.parametrize("case", WEAKER)
def test_weaker_than_the_parent_is_an_error(case: str) -> None:
    text, told = WEAKER[case]
    with pytest.raises(PlanError) as caught:
        Policy.parse(text)
    assert any(told in one for one in caught.value.problems), caught.value.problems


def test_a_bound_that_is_larger_is_weaker() -> None:
    text = OWN.replace("k-anonymity: {k: %s}", "distance-linkage: {at_most: 0.2}")
    with pytest.raises(PlanError, match=r"`at_most` is 0.2, 0.05 is demanded"):
        Policy.parse(text)


FAULTY = """
scenaro: public-file
requirements:
  - require: {k-anonymty: {k: 5}}
    why: x
  - require: {k-anonymity: {k: 0}}
    why: ""
  - require: {distance-linkage: {}}
    why: x
geography: {min_population: 5}
outputs: {min_cont: 3}
may_waive: {k-anonymity: [head]}
"""


def test_all_faults_at_once_with_their_lines() -> None:
    with pytest.raises(PlanError) as caught:
        Policy.parse(FAULTY, "ours.yaml")
    told = "\n".join(caught.value.problems)
    assert "ours.yaml, line 2 (scenaro): unknown entry; did you mean 'scenario'?" in told
    assert "ours.yaml, line 4 (requirements.1): unknown part 'k-anonymty'; did you mean 'k-anonymity'?" in told
    assert "ours.yaml, line 7 (requirements.2.why)" in told
    assert "distance-linkage needs `at_most` or `at_least`" in told
    assert "line 10 (geography.min_population): a number of a policy needs its reason" in told
    assert "line 11 (outputs.min_cont): unknown entry; did you mean 'min_count'?" in told


def test_what_cannot_be_waived_by_name_is_an_error() -> None:
    with pytest.raises(PlanError, match=r"\(may_waive.k-anonimity\): unknown requirement"):
        Policy.parse(OWN % 5 + "may_waive: {k-anonimity: [head]}\n")


def test_a_policy_cannot_extend_itself(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("scenario: public-file\nextends: b.yaml\n")
    (tmp_path / "b.yaml").write_text("scenario: public-file\nextends: a.yaml\n")
    with pytest.raises(PlanError, match="the policy extends itself"):
        Policy.load(tmp_path / "a.yaml")


def test_an_unknown_policy_is_named() -> None:
    with pytest.raises(PlanError, match="no policy 'public-us': neither a file nor a shipped one; did you mean"):
        Policy.load("public-us")


def test_who_may_waive() -> None:
    policy = Policy.load("scientific-use")
    may = Waiver(requirement="k-anonymity", by="Ada Stone, head of disclosure control", why="two islands")
    assert policy.refuses(may) == ""
    for by in ("head of disclosure control", "Ada Stone", ", head of disclosure control", "Ada Stone, intern"):
        assert "may not waive" in policy.refuses(Waiver(requirement="k-anonymity", by=by, why="x"))
    assert "nobody may waive" in policy.refuses(Waiver(requirement="steps", by=may.by, why="x"))
    assert "unknown requirement" in policy.refuses(Waiver(requirement="k-anonimity", by=may.by, why="x"))
    assert "nobody may waive" in Policy.load("public-use").refuses(may)


def test_a_waiver_needs_a_name_and_a_reason() -> None:
    with pytest.raises(PlanError, match="needs the name of who allowed it"):
        Waiver(requirement="k-anonymity", why="x")
    with pytest.raises(PlanError, match="needs its reason"):
        Waiver(requirement="k-anonymity", by="Ada Stone, head of disclosure control", why=" ")


def test_output_rules_of_a_child_inherit() -> None:
    text = "scenario: open-table\nextends: research-output\noutputs: {min_count: 12, why: {min_count: we said so}}\n"
    found = Policy.parse(text).outputs
    assert isinstance(found, OutputRules)
    assert (found.min_count, found.min_degrees_of_freedom) == (12, 10)
    with pytest.raises(PlanError, match="weaker than that of the parent"):
        Policy.parse(text.replace("12", "3"))
