"""Every error of discretion, each with the exit code of the command line.

Messages name columns, levels, counts and parameters; they never quote a person's cell value.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from importlib import import_module
from types import ModuleType
from typing import ClassVar, Literal


class DiscretionError(Exception):
    """Something went wrong that the user can do something about."""

    exit_code: ClassVar[int] = 1


class PlanError(DiscretionError, ValueError):
    """A plan, a parameter or a call is wrong; `problems` holds every fault that was found.

    `places` has for each of them the path of the field that is wrong, where that is known.
    """

    exit_code = 2

    def __init__(self, problems: str | Sequence[str], places: Sequence[tuple[str | int, ...]] = ()) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        self.places = tuple(places)
        super().__init__("\n".join(self.problems))


class DataError(DiscretionError, ValueError):
    """The data cannot be used as asked."""

    exit_code = 3


class RequirementNotMet(DiscretionError):
    """The release would break a requirement of its plan; nothing was published."""

    exit_code = 4


class Infeasible(DiscretionError):
    """No solution exists; the message says what would make one possible."""

    exit_code = 5


class QueryRefused(DiscretionError):
    """An on-line query cannot be answered without giving somebody away."""

    exit_code = 6


class BudgetExhausted(QueryRefused):
    """The privacy budget does not cover the query."""


class PartyLost(DiscretionError):
    """A computation between parties ended because another party left, was late or came with something else."""

    def __init__(self, message: str, party: str = "", reason: str = "stopped") -> None:
        super().__init__(message)
        self.party, self.reason = party, reason
        self.opened: tuple[str, ...] = ()
        """what had been opened by then: at most what the agreement says"""


class MissingLibrary(DiscretionError, ImportError):
    """A library of an extra is not installed; the message says which extra to install."""


class Cancelled(DiscretionError):
    """The user stopped the work; nothing was written."""

    exit_code = 130


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the tail of an error message: the nearest known name, or the list of names."""
    options = [str(option) for option in known]
    close = difflib.get_close_matches(name, options, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]!r}?"
    if not options:
        return ""
    listed = ", ".join(sorted(options)[:20]) + (", …" if len(options) > 20 else "")
    return f"; known: {listed}"


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Word the error for a name that does not exist."""
    return f"unknown {what} {name!r}{did_you_mean(name, known)}"


def need(module: str, purpose: str, extra: Literal["io", "online", "parties", "outputs", "web"]) -> ModuleType:
    """Import a library that only an extra installs, or say how to get it: the one door to optional libraries."""
    try:
        return import_module(module)
    except ImportError as error:
        library = (error.name or module).partition(".")[0]
        raise MissingLibrary(f'{purpose} needs the library {library}; pip install "discretion[{extra}]"') from None


def place_of(error: Exception) -> str:
    """Say what went wrong where, for whoever mends it; the error's own words may quote the data."""
    import traceback

    *_, last = traceback.walk_tb(error.__traceback__)
    frame, line = last
    place = f"{frame.f_globals.get('__name__', '?')}, line {line}"
    return f"an unexpected {type(error).__name__} ({place}): this is a mistake in discretion, please report this line"
