"""What commands share: messages and progress on stderr, tables and JSON on stdout."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from rich.console import Console

    from discretion.context import Progress

JSON_VERSION = 1
ARROWS = {"lower": "↓", "higher": "↑"}
DIRECTIONS = "↓ lower is better, ↑ higher is better"


def say(message: str, quiet: bool = False) -> None:
    """Tell the user something on stderr."""
    if not quiet:
        click.echo(message, err=True)


def print_json(content: Mapping[str, Any]) -> None:
    """Print versioned JSON on stdout."""
    click.echo(json.dumps({"version": JSON_VERSION, **content}, indent=2, ensure_ascii=False, default=_plain))


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        return value.item()
    if hasattr(value, "tolist"):
        return value.tolist()
    return dict(value) if isinstance(value, Mapping) else str(value)


def rich_console(*, stderr: bool = False) -> Console:
    """Give a console that respects NO_COLOR and the terminal; a file gets 110 columns, or COLUMNS but 80 at least."""
    from rich.console import Console

    wanted = os.environ.get("COLUMNS", "")
    width = None if sys.stdout.isatty() else max(80, int(wanted)) if wanted.isdigit() else 110
    return Console(stderr=stderr, width=width, highlight=False)


def print_table(
    title: str,
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    numeric: Sequence[int] = (),
    *,
    stderr: bool = False,
) -> None:
    """Print a table on stdout, or on stderr where stdout has the data.

    Words wrap where the terminal is narrow; a figure or a word is never cut: the table rather becomes too wide.
    """
    from rich import box
    from rich.table import Table

    table = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    needed = 0
    for number, header in enumerate(headers):
        cells = [header, *(row[number] for row in rows)]
        whole = number in numeric
        least = max((len(word) for cell in cells for word in ([cell] if whole else cell.split())), default=0)
        needed += least + 3
        justify: Literal["left", "right"] = "right" if whole else "left"
        table.add_column(header, justify=justify, overflow="fold", no_wrap=whole, min_width=least)
    for row in rows:
        table.add_row(*row)
    console = rich_console(stderr=stderr)
    console.width = max(console.width, needed)
    console.print(table)


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Progress]:
    """Give a progress function: a bar on stderr when it is a terminal; says when kernels are compiled."""
    from discretion.context import ignore_progress
    from discretion.kernels.jit import on_first_compile

    def compiling() -> None:
        say("compiling numeric kernels for the first time (some seconds, once) …", quiet)

    if quiet or not sys.stderr.isatty():
        with on_first_compile(compiling):
            yield ignore_progress
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with (
        Progress(*columns, console=rich_console(stderr=True), transient=True) as bar,
        on_first_compile(compiling),
    ):
        task = bar.add_task("working", total=None)

        def report(done: int, total: int, label: str) -> None:
            bar.update(task, completed=done, total=max(total, 1), description=label[:60])

        yield report


def common_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--json` and `--quiet`."""
    function = click.option("--quiet", "-q", is_flag=True, help="say nothing but results and errors")(function)
    return click.option("--json", "as_json", is_flag=True, help="print the result as versioned JSON on stdout")(
        function
    )


def shown(value: float | None) -> str:
    """Write a figure for a table."""
    if value is None:
        return "–"
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:.3g}"
