"""`discretion seed new`: a seed file for releases."""

from __future__ import annotations

import click

from discretion.cli.console import common_options, print_json, say


@click.group()
def seed() -> None:
    """Make seed files: the secret from which releases draw."""


@seed.command()
@click.argument("file")
@common_options
def new(file: str, as_json: bool, quiet: bool) -> None:
    """Draw a seed of 128 bits from the operating system and write it into a new file that only you may read."""
    from discretion.release.seeds import SeedFile

    made = SeedFile.new(file)
    if as_json:
        print_json({"file": str(made.path)})
    say(f"a new seed in {made.path}: keep it secret; name it as `seed_file:` in the plan or by --seed-file", quiet)
