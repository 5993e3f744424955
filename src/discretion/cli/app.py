"""The command group, and what happens to errors."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Sequence
from contextlib import suppress

import click

from discretion import __version__
from discretion.cli.anonymize import anonymize
from discretion.cli.apply import apply, seed
from discretion.cli.assess import assess, compare
from discretion.cli.console import in_options
from discretion.cli.demo import demo
from discretion.cli.hierarchy import hierarchy
from discretion.cli.parts import parts
from discretion.cli.party import party
from discretion.cli.policy import annex, check_output, policy
from discretion.cli.roles import roles
from discretion.cli.run import check, run_command
from discretion.cli.serve import key, ledger, serve, web
from discretion.cli.table import table
from discretion.cli.tune import tune
from discretion.errors import DiscretionError, place_of

_EPILOG = (
    "Exit codes: 0 done · 1 other error · 2 wrong plan or option · 3 wrong data · 4 requirement not met · "
    "5 no solution · 6 answer refused · 130 cancelled"
)


@click.group(epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="discretion")
def app() -> None:
    """Publish data about people without giving anyone away."""


for command in (
    demo,
    roles,
    hierarchy,
    run_command,
    check,
    policy,
    seed,
    apply,
    anonymize,
    assess,
    tune,
    compare,
    parts,
    annex,
    table,
    check_output,
    serve,
    key,
    ledger,
    party,
    web,
):
    app.add_command(command)


def run(arguments: Sequence[str]) -> int:
    """Run the command line and give its exit code."""
    try:
        result = app.main(args=list(arguments), prog_name="discretion", standalone_mode=False)
    except DiscretionError as error:
        return _fail(error, str(error), error.exit_code, arguments)
    except click.ClickException as error:
        error.show()
        return 2
    except (KeyboardInterrupt, click.Abort) as error:
        return _fail(error, "cancelled; nothing was written", 130, arguments)
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except OSError as error:
        return _fail(error, _words_of(error), 3, arguments)
    except MemoryError as error:
        return _fail(error, "not enough memory for this data", 3, arguments)
    except Exception as error:
        return _fail(error, place_of(error), 1, arguments)
    return result if isinstance(result, int) else 0


def _words_of(error: OSError) -> str:
    place = f" ({error.filename})" if error.filename else ""
    if error.errno == errno.ENOSPC:
        return f"the disk is full{place}; nothing was published"
    return f"{error.strerror or error}{place}"


def _fail(error: BaseException, message: str, code: int, arguments: Sequence[str]) -> int:
    message = in_options(message, arguments)
    click.echo(f"error: {message}", err=True)
    if "--json" in arguments:
        kind = type(error).__name__
        with suppress(OSError):  # where nobody reads, or the disk is full, the line above has said it
            click.echo(json.dumps({"version": 1, "error": {"kind": kind, "message": message, "exit_code": code}}))
    return code
