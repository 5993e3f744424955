"""`discretion annex`: an annex for an impact assessment, and a kit for a motivated-intruder test."""

from __future__ import annotations

import click

from discretion.cli.console import common_options, print_json, print_table, say


@click.command()
@click.argument("release", metavar="RELEASE")
@click.option("--journal", metavar="FOLDER", help="the private journal, where it does not lie beside RELEASE")
@click.option("--out", metavar="FOLDER", help="write annex and kit into this new folder")
@common_options
def annex(release: str, journal: str | None, out: str | None, as_json: bool, quiet: bool) -> None:
    """Say in the words of the law what a release risks: singling out, linkability, inference, and what remains.

    RELEASE is the public folder or its private journal; the figures come from the journal and are not for publication.
    """
    from discretion.release.criteria import Annex

    found = Annex.open(release, journal)
    files = found.write(out) if out else []
    if as_json:
        print_json({**found.to_dict(), "files": [str(path) for path in files]})
    else:
        rows = [
            (one.name, "" if one.attack is None else one.attack.measure, one.finding, one.attacker)
            for one in found.criteria
        ]
        print_table(f"{found.title} (internal)", ("criterion", "attack", "found", "assumed attacker"), rows)
        say(found.residual, quiet)
    if files:
        say(f"written to {out}: {', '.join(path.name for path in files)}", quiet)
