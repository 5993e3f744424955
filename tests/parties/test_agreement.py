"""Agreements: faults with their lines, one canonical text, signatures, keys."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from discretion.errors import DataError, PlanError
from discretion.parties.agreement import (
    Agreement,
    Signature,
    make_identity,
    read_signature,
    sign,
    sign_agreement,
    signature_file,
    signed_by,
)
from tests.parties.harness import NAMES, certificates, content

MEAN = {"mean": {"columns": ["age"], "decimals": 1}}


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return certificates(tmp_path_factory.mktemp("keys"), NAMES[:3])


def parsed(texts: dict[str, str], statistics: Any = (MEAN,), **entries: Any) -> Agreement:
    return Agreement.parse(yaml.safe_dump(content(texts, statistics, **entries), sort_keys=False), "parties.yaml")


def test_the_digest_covers_everything_and_only_the_content(texts: dict[str, str]) -> None:
    plain = content(texts, [MEAN])
    one = Agreement.model_validate(plain)
    reordered = dict(reversed(plain.items()))
    assert Agreement.parse("# a remark\n" + yaml.safe_dump(reordered, sort_keys=False)).digest == one.digest
    address = plain["parties"][NAMES[0]]["address"].replace("127.0.0.1", "localhost")
    elsewhere = {**plain["parties"], NAMES[0]: {**plain["parties"][NAMES[0]], "address": address}}
    swapped = dict(reversed(plain["parties"].items()))
    others = [
        {"title": "x"}, {"id": "f" * 16}, {"people": {"each": 11, "total": 30}}, {"noise": {"epsilon": 1}},
        {"statistics": [{"mean": {"columns": ["age"], "decimals": 0}}]}, {"runs": 2}, {"parties": elsewhere},
        {"parties": swapped}, {"columns": {**plain["columns"], "age": {"lower": 0, "upper": 121, "step": 1}}},
        {"rules": {"p_percent": 11}}, {"time_out": 21}, {"missing": "skip"},
    ]  # fmt: skip
    digests = {Agreement.model_validate(plain | other).digest for other in others}
    assert len(digests) == len(others) and one.digest not in digests


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ({"statistics": [{"men": {}}]}, "unknown statistic 'men'; did you mean 'mean'?"),
        ({"statistics": [{"mean": {"columns": ["agee"]}}]}, "(statistics.1.mean): unknown column 'agee'; did you mean"),
        ({"statistics": [{"mean": {"columns": ["sex"]}}]}, "'sex' has categories"),
        ({"statistics": [{"mean": {"columns": ["age"], "decimal": 1}}]}, "unknown entry; did you mean 'decimals'?"),
        ({"statistics": [{"mean": {"columns": ["age"], "decimals": 12}}]}, "`decimals` is at most 8"),
        (
            {"statistics": [{"variance": {"columns": ["age"]}}], "columns": {"age": {"lower": 0, "upper": 1e8}}},
            "(statistics.1.variance): the bounds are too far apart",
        ),
        ({"statistics": [{"mean": {"columns": ["age"], "decimals": 2}}]}, "at most 1 for 30 people"),
        ({"statistics": [{"quantile": {"column": "age", "share": 1}}]}, "less than 1"),
        ({"statistics": [{"quantile": {"column": "age", "share": 0}}]}, "greater than 0"),
        ({"statistics": [{"table": {"by": ["age"]}}]}, "'age' has no `categories`"),
        ({"statistics": [{"logistic-regression": {"target": "grade", "on": ["sex"]}}]}, "exactly two categories"),
        ({"statistics": [{"histogram": {"column": "age", "breaks": [0, 50, 100]}}]}, "`breaks` cover"),
        ({"statistics": [{"intersection": {"column": "id"}}]}, "exactly two parties"),
        ({"noise": {"epsilon": 1}, "missing": "skip"}, "with noise every row counts"),
        ({"people": {"each": 0}}, "greater than or equal to 1"),
        ({"colums": {}}, "unknown entry; did you mean 'columns'?"),
        ({"columns": {"age": {"lower": 5, "upper": 5}}}, "a larger `upper`"),
        ({"columns": {"age": {"lower": 0, "upper": 5}}, "statistics": [{"sum": {"column": "age"}}]}, "needs a `step`"),
        ({"id": "xyz"}, "pattern"),
    ],
)
def test_faults_have_their_line(texts: dict[str, str], entries: dict[str, Any], problem: str) -> None:
    with pytest.raises(PlanError) as caught:
        parsed(texts, **{"statistics": [MEAN], **entries})
    assert problem in str(caught.value) and "parties.yaml, line" in str(caught.value)


def test_a_fault_is_told_once(texts: dict[str, str]) -> None:
    with pytest.raises(PlanError) as caught:
        parsed(texts, [{"quantile": {"column": "age", "share": 1}}])
    assert str(caught.value).count("parties.yaml, line") == 1
    with pytest.raises(PlanError, match="at least 1 item"):
        parsed(texts, [])


def test_two_parties_are_too_few(texts: dict[str, str]) -> None:
    with pytest.raises(PlanError, match="each would know the other's part"):
        parsed({name: texts[name] for name in NAMES[:2]})
    with pytest.raises(PlanError, match="a certificate of its own"):
        parsed({**texts, NAMES[2]: texts[NAMES[1]]})
    with pytest.raises(PlanError, match="one certificate in PEM"):
        parsed({**texts, NAMES[2]: "-----BEGIN -----BEGIN"})


def test_a_certificate_in_a_file(texts: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "a.crt").write_text(texts[NAMES[0]])
    given = content({**texts, NAMES[0]: "a.crt"}, [MEAN])
    path = tmp_path / "parties.yaml"
    path.write_text(yaml.safe_dump(given))
    given["parties"][NAMES[0]]["certificate"] = texts[NAMES[0]]
    assert Agreement.load(path).digest == Agreement.parse(yaml.safe_dump(given)).digest
    (tmp_path / "a.crt").unlink()
    with pytest.raises(PlanError, match=r"there is no certificate 'a\.crt'"):
        Agreement.load(path)


def test_signatures(tmp_path: Path) -> None:
    path = tmp_path / "parties.yaml"
    path.write_text(yaml.safe_dump(content(certificates(tmp_path, NAMES[:3]), [MEAN])))
    agreement = Agreement.load(path)
    with pytest.raises(PlanError, match="has not signed"):
        read_signature(path, NAMES[0], agreement)
    signed = sign_agreement(path, NAMES[0], tmp_path / f"{NAMES[0]}.key")
    assert read_signature(path, NAMES[0], agreement) == signed
    with pytest.raises(DataError, match="does not belong to the certificate"):
        sign_agreement(path, NAMES[1], tmp_path / f"{NAMES[0]}.key")
    for change in ({"party": NAMES[1]}, {"commitment": "x"}, {"signature": "00" * 64}, {"signature": "no"}):
        with pytest.raises(DataError, match="does not hold"):
            Signature.model_validate(signed.model_dump() | change).verify(agreement)
    path.write_text(path.read_text().replace("wait: 60", "wait: 61"))
    with pytest.raises(DataError, match="signed another agreement"):
        read_signature(path, NAMES[0], Agreement.load(path))
    signature_file(path, NAMES[0]).write_text("nothing")
    with pytest.raises(DataError, match="does not hold a signature"):
        read_signature(path, NAMES[0], Agreement.load(path))


def test_keys(tmp_path: Path) -> None:
    certificate, key = make_identity("ann", tmp_path)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    made = sign(key, b"text")
    assert signed_by(certificate.read_text(), b"text", made)
    assert not signed_by(certificate.read_text(), b"texT", made)
    with pytest.raises(DataError, match="exists"):
        make_identity("ann", tmp_path)
    key.chmod(0o640)
    with pytest.raises(DataError, match="chmod 600"):
        sign(key, b"text")


def test_what_is_revealed_is_said(texts: dict[str, str]) -> None:
    shown = parsed(texts, [MEAN, {"table": {"by": ["sex"]}}], noise={"epsilon": 2}, runs=3).describe()
    assert shown["revealed"][0].startswith("whether every size and rule")
    assert "mean: the mean of age, rounded to 1 decimals, with joint noise" in shown["revealed"]
    assert "ε = 2 a run, 6 in all" in shown["noise"] and "coalitions of 1 of 3" in shown["noise"]


AGES = {"column": "age", "at_least": 10}


@pytest.mark.parametrize(
    ("statistics", "pair"),
    [
        ([{"count": {}}, {"table": {"by": ["sex"]}}], "statistic 1 (count) and statistic 2 (table)"),
        ([MEAN, {"table": {"by": ["sex"]}}, {"count": {}}], "statistic 2 (table) and statistic 3 (count)"),
        (
            [{"table": {"by": ["sex"]}}, {"table": {"by": ["grade", "sex"]}}],
            "statistic 1 (table) and statistic 2 (table)",
        ),
        (
            [{"histogram": {**AGES, "breaks": [0, 30, 120]}}, {"histogram": {**AGES, "breaks": [0, 31, 120]}}],
            "statistic 1 (histogram) and statistic 2 (histogram)",
        ),
        ([{"sum": {"column": "age"}}, {"table": {"by": ["sex"]}}, MEAN], "statistic 1 (sum) and statistic 2 (table)"),
    ],
)
def test_statistics_that_fill_each_others_empty_cells(texts: dict[str, str], statistics: Any, pair: str) -> None:
    with pytest.raises(PlanError) as caught:
        parsed(texts, statistics)
    assert f"{pair} in one agreement would tell cells that are left empty" in str(caught.value)
    assert len(parsed(texts, statistics, noise={"epsilon": 1}).statistics) == len(statistics)
    alone = [one for one in statistics if "count" not in one and "sum" not in one][-1:]
    assert parsed(texts, alone).statistics


@pytest.mark.parametrize("people", [30, 1000, 12_345])
def test_decimals_that_are_allowed_tell_no_number_of_people(texts: dict[str, str], people: int) -> None:
    """Every number of people from the agreed one on fits to a mean with the most decimals that are allowed."""
    import numpy as np

    def made(decimals: int, *more: Any) -> Agreement:
        mean = {"mean": {"columns": ["age"], "decimals": decimals}}
        return parsed(texts, [mean, *more], people={"each": 10, "total": people})

    most = int(np.log10(people))
    assert made(most) and made(most + 3, {"count": {}})
    with pytest.raises(PlanError, match=f"`decimals` is at most {most} for {people:,} people"):
        made(most + 1)
    shown, sizes = round(61.4771817, most), np.arange(people, 2 * people)
    assert (abs(np.round(shown * sizes) / sizes - shown) <= 0.5000001 * 10.0**-most).all()


def test_what_can_disclose_is_said(texts: dict[str, str]) -> None:
    linear = {"linear-regression": {"target": "income", "on": ["age", "sex"]}}
    shown = parsed(texts, [{"quantile": {"column": "age"}}, linear], runs=2, rules={"p_percent": 0}).describe()
    text = "; ".join(shown["warnings"])
    for part in ("exact age of somebody", "far from everybody else in age", "without a p% rule", "between two runs"):
        assert part in text
    assert parsed(texts).describe()["warnings"] == []
