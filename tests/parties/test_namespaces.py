"""Three parties in network namespaces of their own, joined by a bridge."""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from discretion.parties.agreement import sign_agreement
from tests.parties.harness import Parties, people

pytestmark = pytest.mark.slow


def ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if "not permitted" in done.stderr or "not supported" in done.stderr:
        pytest.skip(f"network namespaces are not allowed here: ip {arguments[0]}: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr


@pytest.fixture
def namespaces() -> Iterator[list[str]]:
    if shutil.which("ip") is None:
        pytest.skip("there is no `ip` here")
    token = secrets.token_hex(3)
    bridge, made = f"dcb{token}", [f"dc-{token}-{k}" for k in range(3)]
    try:
        ip("link", "add", bridge, "type", "bridge")
        ip("link", "set", bridge, "up")
        for k, name in enumerate(made):
            ip("netns", "add", name)
            ip("link", "add", f"dcv{token}{k}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", f"dcv{token}{k}", "master", bridge)
            ip("link", "set", f"dcv{token}{k}", "up")
            ip("-n", name, "addr", "add", f"10.213.7.{k + 1}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
        yield made
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", bridge], capture_output=True, check=False)


def start(parties: Parties, namespaces: list[str]) -> dict[str, subprocess.Popen[str]]:
    content = yaml.safe_load(parties.path.read_text())
    for k, name in enumerate(parties.names):
        content["parties"][name]["address"] = f"10.213.7.{k + 1}:7000"
    parties.path.write_text(yaml.safe_dump(content, sort_keys=False))
    for name in parties.names:
        sign_agreement(parties.path, name, parties.folder / f"{name}.key")
    return {
        name: subprocess.Popen(
            ["ip", "netns", "exec", space, sys.executable, "-m", "discretion", "party", "run", str(parties.path),
             "--as", name, "--data", str(parties.folder / f"{name}.csv"), "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for name, space in zip(parties.names, namespaces, strict=True)
    }  # fmt: skip


def test_three_networks(namespaces: list[str], tmp_path: Path) -> None:
    mean = {"mean": {"columns": ["age"], "decimals": 1}}
    parties = Parties(tmp_path, [mean], [people(100, k) for k in range(3)], sign=False)
    for process in start(parties, namespaces).values():
        out, problem = process.communicate(timeout=120)
        assert process.returncode == 0, problem
        shown = json.loads(out)["statistics"][0]["mean"]["age"]
        assert shown == pytest.approx(float(parties.pooled["age"].mean()), abs=0.0500001)  # type: ignore[arg-type]


def test_a_cable_that_is_cut(namespaces: list[str], tmp_path: Path) -> None:
    """No packet says that the other one is gone: only silence does."""
    logit = {"logistic-regression": {"target": "ill", "on": ["sex", "grade"]}}
    parties = Parties(tmp_path, [logit], [people(200, k) for k in range(3)], sign=False, time_out=5)
    started = start(parties, namespaces)
    for process in started.values():
        assert process.stderr is not None
        while "parties are connected" not in process.stderr.readline():
            assert process.poll() is None
    ip("-n", namespaces[2], "link", "set", "eth0", "down")
    for name in parties.names[:2]:
        _, problem = started[name].communicate(timeout=60)
        assert started[name].returncode == 1 and "hospital-c is late" in problem
    started[parties.names[2]].communicate(timeout=60)
