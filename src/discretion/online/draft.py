"""A first service file for a data set: everything an owner must decide, with a cautious start."""

from __future__ import annotations

from pathlib import Path

from discretion.data.dataset import Dataset
from discretion.data.detect import propose
from discretion.online.declare import type_of
from discretion.online.declared import checked_name

_HEAD = """\
# A statistical database. Nothing below was proven: read every line before you let anybody ask.
#   role   public: anybody may know it, it may choose who is counted
#          sensitive: only sums, means and the like of it; hidden: does not exist for analysts
#   bounds smallest and largest value you declare (do not look them up in the data); `dp` needs them
title: Statistical database
tables:
"""
_TAIL = """\
policies:
  truth: {mode: exact+audit, min_query_size: 5}
  noise: {mode: dp, epsilon: 1.0, epsilon_per_query: 0.1, period: ever}
policy: truth
users:
  analyst: {}
  # colleague: {policy: noise}
  auditor: {role: auditor}
ledger: sqlite:///ledger.db
server: {host: 127.0.0.1, port: 8000}
"""


def draft(data: Dataset, source: str) -> str:
    """Write a service file: identifiers hidden, proposed quasi-identifiers public, all other columns sensitive.

    Examples
    --------
    >>> import discretion as dc
    >>> draft(dc.datasets.students(), "students.csv").splitlines()[9].strip().partition("  #")[0]
    'name: {role: hidden, type: category}'
    """
    lines = [f"  {_quoted(_name(source))}:", f"    source: {_quoted(source)}", "    columns:"]
    seen: set[str] = set()
    for proposal in propose(data):
        if not _usable(proposal.column) or proposal.column.casefold() in seen:
            lines.append(f"      # left out, rename it in the data first: {proposal.column!a}")
            continue
        seen.add(proposal.column.casefold())
        role = "hidden" if proposal.role in ("identifier", "household", "weight") else "sensitive"
        role = "public" if {"quasi", "stratum"} & set(proposal.roles) else role
        kind = type_of(data, proposal.column)
        reason = " ".join(proposal.reason.split())
        lines.append(f"      {_quoted(proposal.column)}: {{role: {role}, type: {kind}}}  # {reason}")
    return _HEAD + "\n".join(lines) + "\n" + _TAIL


def _usable(column: str) -> bool:
    """Say whether a service can have a column of this name."""
    try:
        return checked_name(column) == column
    except ValueError:
        return False


def _name(source: str) -> str:
    stem = Path(source).stem
    return "".join(sign if sign.isascii() and sign.isalnum() else "_" for sign in stem)[:60].strip("_") or "data"


def _quoted(text: str) -> str:
    import yaml

    written = yaml.safe_dump(text, width=10_000, allow_unicode=True, default_flow_style=True).strip()
    return written.removesuffix("...").strip()
