"""Options of the commands that carry out a plan."""

from __future__ import annotations

import click

data_option = click.option(
    "--data", "source", metavar="FILE", help="read this file instead of the plan's (`-`: standard input)"
)
out_option = click.option(
    "--out", metavar="FOLDER", help="public folder of the release, instead of the plan's `output`"
)
journal_option = click.option(
    "--journal", metavar="FOLDER", help="private folder; default: beside the public one, with `-private` added"
)
seed_option = click.option(
    "--seed-file", metavar="FILE", help="file with the seed (a secret); default: a new random seed"
)
keep_order_option = click.option(
    "--keep-order",
    is_flag=True,
    help="leave the rows in the order of IN, which can tell values; default: a random order",
)
order_file_option = click.option(
    "--order-file", metavar="FILE",
    help="also write the place in IN of each row of OUT (a secret, .npy); `assess --journal` takes it",
)  # fmt: skip
force_option = click.option("--force", is_flag=True, help="overwrite the folders if they exist")
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="check the plan and the data's columns, but make and write nothing"
)
