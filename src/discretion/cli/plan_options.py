"""Options of the commands that carry out a plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

data_option = click.option(
    "--data", "source", metavar="FILE", help="read this file instead of the plan's (`-`: standard input)"
)
engine_options = [
    click.option(
        "--engine", type=click.Choice(["memory", "duckdb"]), default="memory", show_default=True,
        help="where rows are worked on; duckdb: they stay in their Parquet files, and may be more than memory holds",
    ),
    click.option(
        "--memory", metavar="SIZE", default="4GB", show_default=True, help="what duckdb may keep before it spills"
    ),
]  # fmt: skip


def engine_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say where rows are worked on."""
    for option in reversed(engine_options):
        command = option(command)
    return command


def cluster_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add these options for what can also be done on a Spark cluster."""
    master = click.option(
        "--master", metavar="MASTER", help="with --engine spark: the cluster, as Spark names it; default: local[2]"
    )
    engine = click.option(
        "--engine", type=click.Choice(["memory", "duckdb", "spark"]), default="memory", show_default=True,
        help="where rows are worked on; duckdb, spark: they stay in their Parquet files, and may be more than memory "
        "holds; spark: by the machines of a cluster, which must see these files and TMPDIR",
    )  # fmt: skip
    return engine(engine_options[1](master(command)))


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
