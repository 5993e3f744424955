"""Errors in the words of the command line: the library speaks of its parameters, a command of its options."""

from __future__ import annotations

import re
from collections.abc import Sequence

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
