"""What commands share: messages and progress on stderr, tables and JSON on stdout."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from discretion.errors import PlanError

if TYPE_CHECKING:
    from rich.console import Console

    from discretion.context import Progress


def check_outputs(target: str, *others: str | None, force: bool, as_json: bool = False, dry_run: bool = False) -> None:
    """Raise if data cannot be written to `target` or text to the other files, or if two of them are the same."""
    from discretion.data.write import check_output

    if dry_run:
        force = True
    elif as_json and target == "-":
        raise PlanError("--json and OUT `-` both go to standard output; write the data to a file")
    try:
        check_output(target, overwrite=force)
    except PlanError as error:
        raise PlanError([text.removesuffix("; or say which it is with format=") for text in error.problems]) from None
    check_files([name for name in others if name is not None], force=force)
    _check_different([name for name in (target, *others) if name is not None])


@contextlib.contextmanager
def all_or_nothing(*names: str | None) -> Iterator[None]:
    """If the block fails, take away the files of these names that it made, and put back those it replaced.

    Files are replaced by renaming, so that a second link keeps the old one. What is changed in its place (a database)
    is left to its own transactions.
    """
    paths = [Path(name) for name in names if name is not None]
    kept = {path: path.with_name(f".{path.name}.{secrets.token_hex(8)}") for path in paths if path.is_file()}
    new = [path for path in paths if not path.exists()]
    for path, link in kept.items():
        with contextlib.suppress(OSError):  # a file system without links
            link.hardlink_to(path)
    try:
        yield
    except BaseException:
        for path in new:
            with contextlib.suppress(OSError):  # none, standard output, or the address of a database
                path.unlink()
        for path, link in kept.items():
            if link.exists() and not (path.exists() and path.samefile(link)):
                link.replace(path)
        raise
    finally:
        for link in kept.values():
            link.unlink(missing_ok=True)


def check_files(names: Sequence[str], *, force: bool) -> None:
    """Raise if a text file cannot be put at one of these places."""
    from discretion.data.write import check_target

    for name in names:
        check_target(Path(name), force)


def _check_different(names: Sequence[str]) -> None:
    places = [Path(name).resolve() for name in names if name != "-"]
    if len(set(places)) < len(places):
        raise PlanError("two outputs have the same name; each needs a file of its own")


_ON_FILES = ("apply", "anonymize", "assess", "compare", "roles", "hierarchy")
_ON_PLANS = ("run", "check", "tune", "table")
_READING = "delimiter|decimal|encoding|quote|format|sheet|table|query"
_COLUMNS = {
    "anonymize": "--quasi",
    "assess": "--quasi and --sensitive, or `columns` in --measure",
    "compare": "--quasi and --sensitive, or `columns` in --measure",
}

_Rule = tuple[str, str]

_EVERYWHERE: tuple[_Rule, ...] = ((r"overwrite=True replaces it", "overwrite it with --force"),)
GIVE_HIERARCHY = (
    "give one with --hierarchy COLUMN=FILE or --hierarchy 'COLUMN={masking: {}}', or let `discretion roles IN -o "
    "plan.yaml` propose some and take them with --plan plan.yaml"
)
_FOR_FILES: tuple[_Rule, ...] = (
    (r"\bheader=False", "--no-header"),
    (r"\bquote=''", "--quote ''"),
    (rf"\b({_READING})=(?=[\s,;:)]|$)", r"--\1"),
    (rf"(?m)^({_READING}): ", r"--\1: "),
    (r"(?m)^table, query: ", "--table, --query: "),
    (r"; give a hierarchy(?=;|$)", f"; {GIVE_HIERARCHY}"),
    (r"declare them in `missing_codes`", "declare them with --missing-codes COLUMN=CODE"),
    (r"give it the type `continuous` when reading", "read it as numbers with --type COLUMN=continuous"),
)
_FOR_PLANS: tuple[_Rule, ...] = (
    (r"\bheader=False", "`header: false` under `data`"),
    (r"\bquote=''", "`quote: ''` under `data`"),
    (rf"\b({_READING})=(?=[\s,;:)]|$)", r"`\1` under `data`"),
    (r"give it the type `continuous` when reading", "give it the type `continuous` in `types`"),
    (r"in Python `no_requirements=True`", "or --no-requirements"),
    (r" \(in Python `no_steps=True`\)", ""),
)
_FOR_ASSESS: tuple[_Rule, ...] = (
    (r"ask for it in `measures`", "ask for it by --measure"),
    (
        r"give the original roles \(quasi, sensitive\), or `measures`",
        "give roles (--quasi, --sensitive, …) or --measure",
    ),
    (
        r"give the original roles \(quasi, sensitive\)$",
        "give --quasi and --sensitive, or see `discretion roles`",
    ),
)


def in_options(message: str, arguments: Sequence[str]) -> str:
    """Put a message of the library into the words of the command that was called with these arguments."""
    command, kind, *_ = [*(argument for argument in arguments if not argument.startswith("-")), "", ""]
    rules = _EVERYWHERE
    if command in _ON_FILES:
        rules += _FOR_FILES
    elif command in _ON_PLANS:
        rules += _FOR_PLANS
    if command == "assess":
        rules += _FOR_ASSESS
    if command in _COLUMNS:
        rules += ((r"give `columns`", f"give {_COLUMNS[command]}"),)
    if command == "apply":
        rules += _for_fields(kind)
    for pattern, words in rules:
        message = re.sub(pattern, words, message)
    return message


def _for_fields(kind: str) -> tuple[_Rule, ...]:
    """Let fields of the method be called by their options."""
    from discretion.part import find, index

    names = find(kind).model_fields if kind in index() else ()
    return tuple((f"`{name}`", "--" + name.replace("_", "-")) for name in names)


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
