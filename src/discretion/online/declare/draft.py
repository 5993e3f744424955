"""A first service file for a data set: everything an owner must decide, with a cautious start."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discretion.data.dataset import Dataset
from discretion.data.detect import Proposal, propose
from discretion.data.words import parts_of
from discretion.errors import PlanError
from discretion.online.declare.catalog import DpPolicy, ExactPolicy, Policy, ServiceSpec, TableSpec, checked_name

if TYPE_CHECKING:
    import polars as pl

_HIDDEN = ("identifier", "unit", "household", "weight")
_ROLES = {**dict.fromkeys(_HIDDEN, "hidden"), "sensitive": "sensitive"}
_KNOWN = ("quasi", "stratum", "geography")
_YES_OR_NO = ({"yes", "no"}, {"true", "false"}, {"0", "1"})
_LETTERS = ({"y", "n"}, {"t", "f"})


def declare(
    source: Any,
    *,
    table: str,
    ledger: str,
    columns: Mapping[str, Any] | None = None,
    policy: Any = None,
    users: Mapping[str, Any] | None = None,
    **options: Any,
) -> ServiceSpec:
    """Declare a service for one table; columns that are not given come from the roles of a Dataset's schema."""
    from discretion.data.dataset import Dataset

    if columns is None:
        if not isinstance(source, Dataset):
            raise PlanError("declare the `columns` of the table, or give a Dataset with roles")
        columns = columns_of(source)
    path = str(source) if isinstance(source, str | Path) else None
    content: dict[str, Any] = {
        "tables": {table: {"columns": columns, "source": path, **options}},
        "users": {"analyst": {}} if users is None else users,
        "ledger": ledger,
    }
    return ServiceSpec(**(content if policy is None else {**content, "policy": policy}))


def columns_of(data: Dataset) -> dict[str, dict[str, Any]]:
    """Propose what to declare: what intruders know by its role is public, identifiers and weights hidden, all else not.

    A column without a role is sensitive: nothing is public unless the owner said so.
    """
    return {name: {"role": _role(data.schema[name].roles), "type": type_of(data, name)} for name in data.columns}


def _role(roles: Collection[str]) -> str:
    listed = [_ROLES[role] for role in _ROLES if role in roles]
    return listed[0] if listed else "public" if any(role in roles for role in _KNOWN) else "sensitive"


def type_of(data: Dataset, name: str) -> str:
    """Return the type of a column as a service declares it; numbers 0 and 1, and the texts yes and no, are truths."""
    kind = data.frame.schema[name]
    if _is_yes_or_no(data.frame[name]):
        return "truth"
    if kind.is_integer():
        return "integer"
    if kind.is_numeric():
        return "number"
    return "date" if str(kind) == "Date" else "category"


def _is_yes_or_no(values: pl.Series) -> bool:
    import polars as pl

    if values.dtype == pl.Boolean:
        return True
    if values.dtype.is_numeric():
        present = (values.fill_nan(None) if values.dtype.is_float() else values).drop_nulls()
        return len(present) > 0 and bool(((present == 0) | (present == 1)).all())
    if values.dtype not in (pl.String, pl.Categorical, pl.Enum):
        return False
    texts = set(values.cast(pl.String).drop_nulls().unique().str.strip_chars().str.to_lowercase().to_list())
    return texts in _LETTERS or (bool(texts) and any(texts <= words for words in _YES_OR_NO))


_HEAD = """\
# A statistical database. Nothing below was proven: read every line before you let anybody ask.
#   role   sensitive: only figures about many people; hidden: does not exist for analysts
#          public: say so only of what anybody may know of anybody; only public columns choose who is in a true answer
#   bounds smallest and largest value you declare (do not look them up in the data); sums and means under `dp` need them
#   categories  the keys of groups, if they are public; without them groups of few people are not shown under `dp`
title: Statistical database
tables:
"""
_PERSON = """\
    # person: COLUMN                # whom a row is about, when somebody can have several rows (see rows_per_person)"""
_SEVERAL = """\
    person: {}  # its values repeat, so somebody has several rows; delete both lines only if a row is a person
    rows_per_person: 1              # rows of a person that private answers use, the first ones; more need more noise"""
_PEOPLE = """\
    # people: NAME                  # one NAME for all tables about the same people (other files, years): one budget"""
_TABLE = """\
    epsilon: 1.0                    # budget of all users together, for ever
    delta: 1.0e-06
    columns:"""
_TAIL = """\
policies:
  noise: {mode: dp, epsilon: 1.0, delta: 1.0e-06, accountant: approximate, epsilon_per_query: 0.1, period: ever}
  truth: {mode: exact+audit, min_query_size: 10}
policy: noise
users:
  analyst: {}
  # colleague: {policy: truth}      # true answers by base groups of ten people, made from columns you declare public
  auditor: {role: auditor}
ledger: sqlite:///ledger.db
server: {host: 127.0.0.1, port: 8000}
"""
_AGES = {"age", "ages", "edad", "edat", "eta", "idade", "alter"}


def draft(data: Dataset, source: str, *, others: bool = False) -> str:
    """Write a service file: answers under differential privacy, identifiers hidden, every other column sensitive.

    Nothing is public before the owner says so: no role, no key of a group, no bound is taken from the data. Only the
    bounds of a column that is called age come from its name. Where there are `others`, tables that may be about the
    same people, the file says how to share one budget.

    Examples
    --------
    >>> import discretion as dc
    >>> [line.strip().partition("  #")[0] for line in draft(dc.datasets.students(), "students.csv").splitlines()[13:15]]
    ['name: {role: hidden, type: category}', 'sex: {role: sensitive, type: category}']
    """
    proposals = propose(data)
    about = [_person(data, proposals), *([_PEOPLE] if others else []), _TABLE]
    lines = [f"  {_quoted(_name(source))}:", f"    source: {_quoted(source)}", *about]
    seen: set[str] = set()
    for proposal in proposals:
        if not _usable(proposal.column) or proposal.column.casefold() in seen:
            lines.append(f"      # left out, rename it in the data first: {proposal.column!a}")
            continue
        seen.add(proposal.column.casefold())
        lines.append("      " + _column(proposal, type_of(data, proposal.column)))
    return _HEAD + "\n".join(lines) + "\n" + _TAIL


def _person(data: Dataset, proposals: Sequence[Proposal]) -> str:
    """Say whom rows are about: an identifier that repeats names people with several rows."""
    named = [p.column for p in proposals if p.role in ("identifier", "unit") and _usable(p.column)]
    different = {column: data.frame[column].n_unique() for column in named}
    repeated = [c for c in named if different[c] < len(data.frame) and not data.frame[c].null_count()]
    return _SEVERAL.format(_quoted(max(repeated, key=different.__getitem__))) if repeated else _PERSON


def _column(proposal: Proposal, kind: str) -> str:
    hidden = proposal.role in _HIDDEN
    declared, reason = f"role: {'hidden' if hidden else 'sensitive'}, type: {kind}", " ".join(proposal.reason.split())
    if not hidden and kind in ("number", "integer"):
        if set(parts_of(proposal.column)) & _AGES:
            declared += ", bounds: [0, 120]"
        else:
            reason += "; sums and means need `bounds: [LOWEST, HIGHEST]`"
    elif {"quasi", "stratum"} & set(proposal.roles):
        reason += "; public only if you say so"
    return f"{_quoted(proposal.column)}: {{{declared}}}  # {reason}"


def undeclared(spec: ServiceSpec) -> dict[str, dict[str, list[str]]]:
    """Say by table and column which declaration is missing for the questions that users would ask first.

    Reads the declarations only. What is missing is no fault: such questions are refused, or lack small groups.

    Examples
    --------
    >>> from discretion.online.declare.catalog import parse_service
    >>> tables = "tables: {t: {columns: {age: {role: sensitive, type: integer}}}}"
    >>> text = f"{tables}\\npolicy: {{mode: dp, epsilon: 1}}\\nusers: {{ann: {{}}}}"
    >>> undeclared(parse_service(text))
    {'t': {'age': ['no `bounds`: sums, means and quantiles are refused under dp']}}
    """
    found: dict[str, dict[str, list[str]]] = {}
    for user, one in spec.users.items():
        for name in spec.tables_for(user) if one.role != "auditor" else ():
            table, policy = spec.tables[name], spec.policy_for(user, name)
            for column in table.visible:
                for text in _wanting(table, column, policy):
                    listed = found.setdefault(name, {}).setdefault(column, [])
                    listed += [text] if text not in listed else []
    return found


def _wanting(table: TableSpec, column: str, policy: Policy) -> list[str]:
    spec = table.columns[column]
    if isinstance(policy, DpPolicy):
        if spec.is_numeric:
            return [] if spec.limits else ["no `bounds`: sums, means and quantiles are refused under dp"]
        if spec.categories or policy.accountant != "pure":
            return []
        return ["no `categories`, and a policy without δ: GROUP BY is refused under dp"]
    if spec.role == "public":
        return []
    if spec.is_yes_or_no and isinstance(policy, ExactPolicy):
        return ["yes or no: there are no true sums of it, and it chooses nobody; ask under dp"]
    what = "" if spec.is_numeric else " and GROUP BY"
    return [f"not `role: public`: WHERE{what} by it is refused in mode {policy.mode}"]


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
