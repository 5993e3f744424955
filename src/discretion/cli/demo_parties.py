"""`discretion demo --parties`: three hospitals on this machine compute a national mean age, each in its own process."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

from discretion.cli.console import print_json, say
from discretion.errors import DataError, DiscretionError

HOSPITALS = {"hospital-a": 1200, "hospital-b": 1450, "hospital-c": 1700}


def demo_parties(folder: Path, force: bool, as_json: bool, quiet: bool) -> None:
    """Make files, certificates and agreement, sign and run as all three, and compare with the pooled files."""
    import json

    import polars as pl

    if folder.exists():
        if not force:
            raise DataError(f"{str(folder)!r} exists; write over it with --force, or choose another folder with --out")
        if not (folder / "hospital-a" / "parties.yaml").is_file() and any(folder.iterdir()):
            raise DataError(f"{str(folder)!r} is not the folder of an earlier demo; choose another one with --out")
        shutil.rmtree(folder)
    say(f"1/4 inventing the patients of {len(HOSPITALS)} hospitals; certificates and keys", quiet)
    write_hospitals(folder)
    say("2/4 everybody signs the agreement", quiet)
    for name in HOSPITALS:
        _call(folder / name, "party", "agree", "parties.yaml", "--as", name, "--yes", "--quiet", "--json")
    say("3/4 three processes compute, each with its own file only:", quiet)
    for name in HOSPITALS:
        say(f"    discretion party run parties.yaml --as {name} --data patients.csv   (in {folder / name})", quiet)
    running = {name: _start(folder / name, "party", "run", "parties.yaml", "--as", name, "--data", "patients.csv",
                            "--json", "--quiet") for name in HOSPITALS}  # fmt: skip
    found = {}
    for name, process in running.items():
        out, problem = process.communicate()
        if process.returncode:
            raise DiscretionError(f"{name} ended with code {process.returncode}: {problem.strip()}")
        found[name] = json.loads(out)
    means = {name: one["statistics"][0]["mean"]["age"] for name, one in found.items()}
    pooled = pl.concat([pl.read_csv(folder / name / "patients.csv") for name in HOSPITALS])
    truth = pooled["age"].sum() / pooled.height
    if as_json:
        print_json({"folder": str(folder), "mean": means, "pooled": truth, "parties": found})
    say(f"4/4 national mean age: {means['hospital-a']} (each of the three learned this number and no other)", quiet)
    say(f"    the pooled files, which nobody has outside of this demo, give {truth:.4f}", quiet)
    if len(set(means.values())) > 1 or abs(means["hospital-a"] - truth) > 0.006:
        raise DiscretionError("the hospitals did not find the mean of the pooled files")


def write_hospitals(folder: Path) -> None:
    """Give every hospital a folder of its own, with its patients, its key and the agreement."""
    from discretion.cli.party import skeleton
    from discretion.data.atomic import write_text
    from discretion.data.write import write
    from discretion.datasets import census
    from discretion.parties.agreement import make_identity

    people = census(sum(HOSPITALS.values()), seed=2).frame.select("age", "sex")
    start, addresses = 0, {}
    for (name, size), port in zip(HOSPITALS.items(), free_ports(len(HOSPITALS)), strict=True):
        own = folder / name
        own.mkdir(parents=True)
        write(people.slice(start, size), own / "patients.csv")
        certificate, _ = make_identity(name, own)
        shutil.copy(certificate, folder)
        start, addresses[name] = start + size, f"127.0.0.1:{port}"
    text = skeleton(folder / "parties.yaml", addresses, "National mean age over three hospitals")
    for name in HOSPITALS:
        write_text(folder / name / "parties.yaml", text)
        (folder / f"{name}.crt").unlink()


def free_ports(count: int) -> list[int]:
    """Give ports of this machine that nobody listens on."""
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [one.getsockname()[1] for one in taken]
    finally:
        for one in taken:
            one.close()


def _start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "discretion", *arguments]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _call(folder: Path, *arguments: str) -> None:
    process = _start(folder, *arguments)
    _, problem = process.communicate()
    if process.returncode:
        raise DiscretionError(problem.strip())
