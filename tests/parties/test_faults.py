"""A party that dies, is late, or comes with something else: the others end soon and know no more than agreed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from discretion.errors import PartyLost, RequirementNotMet
from discretion.parties.agreement import Agreement, sign_agreement
from discretion.parties.intersection import commit
from tests.parties.harness import NAMES, Parties, certificates, people

MEAN = {"mean": {"columns": ["age"], "decimals": 1}}
LINEAR = {"linear-regression": {"target": "income", "on": ["age", "sex"]}}
AGREED = [
    "sizes and rules hold", "mean", *["quantile digit"] * 7,
    "linear-regression: the columns determine the coefficients", "linear-regression",
]  # fmt: skip


def frames(rows: int = 60) -> list[pl.DataFrame]:
    return [people(rows, k) for k in range(3)]


def kill(folder: Path, seed: int) -> None:
    """Kill one of three at a random moment and look at the other two."""
    rng = random.Random(seed)
    folder.mkdir()
    parties = Parties(folder, [MEAN, {"quantile": {"column": "age"}}, LINEAR], frames(), time_out=300, wait=12)
    survive(parties, rng, AGREED, 3.0)


def survive(parties: Parties, rng: random.Random, agreed: list[str], seconds: float) -> None:
    """Kill a party, mostly within so many seconds after all met; the others know at most what was agreed."""
    started = parties.start()
    victim = rng.choice(parties.names)
    if rng.random() < 0.8:
        parties.meet(started)
    time.sleep(rng.uniform(0, seconds))
    with contextlib.suppress(ProcessLookupError):  # on a fast machine it may have ended by itself
        os.kill(started[victim].pid, signal.SIGKILL)
    found = parties.finish({name: process for name, process in started.items() if name != victim})
    truth: list[dict[str, Any]] = []
    for name, one in found.items():
        labels = [item if "error" in one else item["label"] for item in one["opened"]]
        opened = [label.removesuffix(f" of {victim}") for label in labels]
        if "error" in one:
            assert one["type"] == "PartyLost", one
            assert one["error"].startswith(victim), one["error"]
            assert opened == agreed[: len(opened)]
        else:
            assert opened == agreed
            truth.append(one["statistics"])
        if opened:  # it was an answer, and is counted as one
            counted = json.loads((parties.folder / f"{name}.key.runs").read_text())
            assert list(counted.values()) == [1]
    assert truth[1:] == truth[:-1]


@pytest.mark.parametrize("seed", range(3))
def test_a_party_that_is_killed(seed: int, tmp_path: Path) -> None:
    kill(tmp_path / "parties", seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 60))
def test_fifty_random_moments(seed: int, tmp_path: Path) -> None:
    kill(tmp_path / "parties", seed)


def lose_one_of_two(folder: Path, seed: int) -> None:
    """Kill one of two at a random moment of an intersection and look at the other one."""
    rng = random.Random(seed)
    sets = [pl.DataFrame({"id": [f"{i:06d}" for i in range(start, start + 3000)]}) for start in (0, 1000)]
    parties = Parties(folder, [{"intersection": {"column": "id"}}], sets, sign=False, columns={}, time_out=300, wait=12)
    agreement = Agreement.load(parties.path)
    for name in parties.names:
        made = commit(parties.path, name, agreement, folder / f"{name}.csv")
        sign_agreement(parties.path, name, folder / f"{name}.key", made)
    survive(parties, rng, ["number of identifiers", "size of the intersection"], 0.6)


@pytest.mark.parametrize("seed", range(3))
def test_a_kill_during_an_intersection(seed: int, tmp_path: Path) -> None:
    lose_one_of_two(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 30))
def test_twenty_random_moments_of_an_intersection(seed: int, tmp_path: Path) -> None:
    lose_one_of_two(tmp_path, seed)


def test_a_lost_party_is_noticed_at_once_and_not_when_time_is_out(tmp_path: Path) -> None:
    """The others end, each with the name of the lost one, long before ten hours without a sign of life."""
    logit = {"logistic-regression": {"target": "ill", "on": ["sex", "grade"], "at_least": 1}}
    parties = Parties(tmp_path, [logit], frames(200), time_out=36_000)
    started = parties.start()
    parties.meet(started)
    os.kill(started["hospital-b"].pid, signal.SIGKILL)
    for name, one in parties.finish({name: started[name] for name in ("hospital-a", "hospital-c")}).items():
        assert one["error"].startswith("hospital-b left"), (name, one)
        assert list(one["opened"]) in ([], ["sizes and rules hold"])


def test_a_party_that_does_not_move_is_late(tmp_path: Path) -> None:
    parties = Parties(tmp_path, [MEAN, LINEAR], frames(), time_out=4, wait=15)
    started = parties.start()
    time.sleep(1.5)  # usually in the middle; before or after it the outcome is one of the two below as well
    os.kill(started["hospital-c"].pid, signal.SIGSTOP)
    found = parties.finish({name: started[name] for name in NAMES[:2]})
    started["hospital-c"].kill()
    for one in found.values():
        assert "statistics" in one or one["error"].startswith(("hospital-c is late", "hospital-c did not come")), one


def test_a_party_that_never_comes(tmp_path: Path) -> None:
    parties = Parties(tmp_path, [MEAN], frames(), wait=2)
    found = parties.finish(parties.start(only=NAMES[:2]))
    for one in found.values():
        assert one["type"] == "PartyLost" and one["error"].startswith("hospital-c did not come")
        assert one["opened"] == []
    assert not list(tmp_path.glob("*.runs"))  # nothing was opened, nothing is counted


def changed(parties: Parties, folder: Path, /, **entries: Any) -> Path:
    """Give one party another agreement, with everybody's keys beside it."""
    folder.mkdir()
    content = yaml.safe_load(parties.path.read_text()) | entries
    path = folder / "parties.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    for name in parties.names:
        (folder / f"{name}.key").write_bytes((parties.folder / f"{name}.key").read_bytes())
        (folder / f"{name}.key").chmod(0o600)
    return path


def test_another_agreement_is_refused_by_all(tmp_path: Path) -> None:
    parties = Parties(tmp_path, [MEAN], frames())
    other = changed(parties, tmp_path / "other", people={"each": 1, "total": 20})
    sign_agreement(other, "hospital-b", tmp_path / "hospital-b.key")
    found = parties.finish(parties.start(paths={"hospital-b": other}))
    for one in found.values():
        assert one["type"] == "PartyLost" and one["opened"] == []
        assert "has another agreement" in one["error"] or "do not have the same agreement" in one["error"]
        if "(says" in one["error"]:
            assert "hospital-b" in one["error"] and "has another" not in one["error"]


@pytest.mark.parametrize(
    ("frame", "own"),
    [
        (people(60, 9).with_columns(pl.lit("diverse").alias("sex")), "60 values are none of the agreed categories"),
        (people(60, 9).with_columns(pl.col("age") + 100), "values are outside the agreed bounds"),
    ],
    ids=["category", "bounds"],
)
def test_data_that_does_not_fit(frame: pl.DataFrame, own: str, tmp_path: Path) -> None:
    given = frames()
    given[1] = frame
    parties = Parties(tmp_path, [MEAN], given)
    found = parties.finish(parties.start())
    assert found["hospital-b"]["type"] == "DataError" and own in found["hospital-b"]["error"]
    assert "diverse" not in found["hospital-b"]["error"]
    for name in ("hospital-a", "hospital-c"):
        assert found[name]["error"].startswith("hospital-b stopped: its data does not fit the agreement")
        assert found[name]["opened"] == []


def test_fewer_people_than_agreed_show_one_bit(tmp_path: Path) -> None:
    given = [people(60, 1), people(9, 2), people(60, 3)]
    parties = Parties(tmp_path, [MEAN], given, rules={"p_percent": 0, "dominance": {"percent": 100}})
    found = parties.finish(parties.start())
    for one in found.values():
        assert one["type"] == "RequirementNotMet" and "fewer people than agreed" in one["error"]
    assert "9 people of this party" in found["hospital-b"]["error"]
    assert "of this party" not in found["hospital-a"]["error"]
    # the bit was an answer: nobody can ask again with other rows
    people(60, 2).write_csv(tmp_path / "hospital-b.csv")
    for one in parties.finish(parties.start()).values():
        assert one["type"] == "RequirementNotMet" and "refused runs included" in one["error"] and one["opened"] == []


def test_certificates_that_are_not_of_the_agreement(tmp_path: Path) -> None:
    parties = Parties(tmp_path, [MEAN], frames(), wait=4)
    (tmp_path / "forged").mkdir()
    forged = certificates(tmp_path / "forged", ["hospital-a", "hospital-b"])
    content = yaml.safe_load(parties.path.read_text())
    for name in forged:
        changed_party = dict(content["parties"][name], certificate=forged[name])
        folder = tmp_path / f"with-{name}"
        path = changed(parties, folder, parties=content["parties"] | {name: changed_party})
        key = folder / f"{name}.key"
        key.unlink()
        key.write_bytes((tmp_path / "forged" / f"{name}.key").read_bytes())
        key.chmod(0o600)
        sign_agreement(path, "hospital-b", folder / "hospital-b.key")
    # hospital-b with a forged certificate: the others never speak with it
    found = parties.finish(parties.start(paths={"hospital-b": tmp_path / "with-hospital-b" / "parties.yaml"}))
    assert found["hospital-a"]["error"].startswith(("hospital-b did not come", "hospital-b is not who answers"))
    assert found["hospital-b"]["type"] == "PartyLost"
    # hospital-b expects another hospital-a than the one that answers
    found = parties.finish(parties.start(paths={"hospital-b": tmp_path / "with-hospital-a" / "parties.yaml"}))
    assert "hospital-a is not who answers at its address" in found["hospital-b"]["error"]
    assert all(one["opened"] == [] for one in found.values())


def test_a_result_is_opened_as_often_as_agreed(tmp_path: Path) -> None:
    from discretion.parties.session import run_party

    parties = Parties(tmp_path, [{"count": {}}], frames())
    parties.run()
    for name in ("parties.yaml", "renamed.yaml"):
        path = parties.path.rename(tmp_path / name)
        sign_agreement(path, "hospital-a", tmp_path / "hospital-a.key")
        with pytest.raises(RequirementNotMet, match="1 times as agreed"):
            run_party(path, "hospital-a", tmp_path / "hospital-a.csv")
        parties.path = path


def test_a_recorded_greeting_is_of_another_session(tmp_path: Path) -> None:
    import asyncio

    from discretion.parties.session import Network

    pair = [pl.DataFrame({"id": ["x"]})] * 2
    parties = Parties(tmp_path, [{"intersection": {"column": "id"}}], pair, columns={})
    agreement = Agreement.load(parties.path)
    signed = {name: sign_agreement(parties.path, name, tmp_path / f"{name}.key") for name in parties.names}

    async def meet(replayed: list[bytes]) -> list[bytes]:
        one, two = (Network(agreement, name, tmp_path / f"{name}.key", lambda _: None) for name in parties.names)
        await asyncio.gather(one.connect(), two.connect())
        heard: list[bytes] = []
        line = two.links["hospital-a"]
        sent, line.greet = line.greet, lambda message: heard.append(message) or sent(message)  # type: ignore[method-assign,func-returns-value]
        try:
            if replayed:
                for message in replayed:
                    sent(message)
                await one.greet(signed["hospital-a"])
            else:
                await asyncio.gather(one.greet(signed["hospital-a"]), two.greet(signed["hospital-b"]))
        finally:
            one.end(None)
            two.end(None)
            await asyncio.sleep(0.05)
        return heard

    recorded = asyncio.run(meet([]))
    assert len(recorded) == 2
    with pytest.raises(PartyLost, match="another session"):
        asyncio.run(meet(recorded))
