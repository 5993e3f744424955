"""`discretion demo`: the main job from beginning to end on built-in data."""

from __future__ import annotations

from pathlib import Path

import click

from discretion.cli.console import common_options, progress_bar, say
from discretion.errors import DataError
from discretion.release.example import PEOPLE, write_example


@click.command()
@click.option("--out", metavar="FOLDER", help="where the example is written  [default: demo, or demo-parties]")
@click.option("--rows", default=PEOPLE, show_default=True, type=click.IntRange(min=PEOPLE), help="number of people")
@click.option("--force", is_flag=True, help="write over an earlier demo")
@click.option("--parties", is_flag=True, help="instead: three hospitals compute the mean age of all their patients")
@common_options
def demo(out: str | None, rows: int, force: bool, parties: bool, as_json: bool, quiet: bool) -> None:
    """Protect an invented census: data, plan, release and report, from beginning to end."""
    if parties:
        from discretion.cli.demo_parties import demo_parties

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
