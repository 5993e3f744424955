"""`discretion demo`: the main job from beginning to end on built-in data."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import click

from discretion.cli.console import common_options, print_json, progress_bar, say
from discretion.errors import DataError, DiscretionError
from discretion.release.example import PEOPLE, write_example

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
    from discretion.data.write import write, write_text
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


@click.command()
@click.option("--out", metavar="FOLDER", help="where the example is written  [default: demo, or demo-parties]")
@click.option("--rows", default=PEOPLE, show_default=True, type=click.IntRange(min=PEOPLE), help="number of people")
@click.option("--force", is_flag=True, help="write over an earlier demo")
@click.option("--parties", is_flag=True, help="instead: three hospitals compute the mean age of all their patients")
@common_options
def demo(out: str | None, rows: int, force: bool, parties: bool, as_json: bool, quiet: bool) -> None:
    """Protect an invented census: data, plan, release and report, from beginning to end."""
    if parties:
        demo_parties(Path(out or "demo-parties"), force, as_json, quiet)
        return
    out = out or "demo"
    from discretion.cli.run import report
    from discretion.release.plan import Plan
    from discretion.release.run import run_plan

    folder = Path(out)
    if folder.exists() and not force:
        raise DataError(f"{out!r} exists; write over it with --force, or choose another folder with --out")
    say(f"1/3 inventing a census of {rows:,} people", quiet)
    plan_file = write_example(folder, rows)
    say(f"2/3 carrying out {plan_file}", quiet)
    plan = Plan.load(plan_file)
    with progress_bar(quiet) as progress:
        release = run_plan(plan, progress=progress)
    public, private = release.write(folder / "release", folder / "private", overwrite=force)
    report(release, as_json, {"folder": str(public), "journal": str(private)})
    say(f"3/3 published in {public}: {', '.join(sorted(f.name for f in public.iterdir()))}", quiet)
    say(f"    private journal (seed, parameters, full report) in {private}", quiet)
    say(f"    open {public / 'report.html'} in a browser; change {plan_file} and `discretion run` it", quiet)
