"""What the owner of the data declares: tables and columns, whom they protect, users and how they are answered.

Nothing that an analyst may learn comes from looking at the data: the names, the types, the bounds, the grid on which
quantiles are sought and the keys of groups stand here. A column that is not declared does not exist for the service.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator

from discretion.data.conditions import Scalar
from discretion.data.documents import Faults
from discretion.errors import PlanError, QueryRefused, did_you_mean, unknown
from discretion.online.column import ColumnSpec, ColumnType, Visibility
from discretion.online.declared import Declared, Name, checked_name
from discretion.online.policy import DpPolicy, ExactPolicy, PerturbedPolicy, Policy, PolicyOrName
from discretion.part import FileName

__all__ = [
    "Adjacency",
    "ColumnSpec",
    "ColumnType",
    "DpPolicy",
    "ExactPolicy",
    "GroupSpec",
    "PerturbedPolicy",
    "Policy",
    "ServerSpec",
    "ServiceSpec",
    "TableSpec",
    "UserSpec",
    "Visibility",
]

PERSON = "person of the join"
"""column of a join that says whom a row is about"""
Adjacency = Literal["add-remove", "replace"]
_S = TypeVar("_S")


def _frozen(given: Mapping[str, _S]) -> Mapping[str, _S]:
    return MappingProxyType({checked_name(name): spec for name, spec in given.items()})


Named = Annotated[Mapping[str, _S], AfterValidator(_frozen), PlainSerializer(dict)]
"""A mapping by name that cannot be changed."""


class TableSpec(Declared):
    """One table: where it is, its columns, whom it protects.

    Examples
    --------
    >>> table = TableSpec(name="students", columns={"sex": {"role": "public", "type": "category"}})
    >>> table.column("sex").type
    'category'
    """

    name: Name
    """what analysts call the table"""
    source: FileName | None = None
    """a Parquet or CSV file, or postgresql://user@host/base?table=name; none when a frame is handed over in Python"""
    columns: Named[ColumnSpec] = Field(min_length=1)
    """the declared columns"""
    person: Name | None = None
    """column that says which person (or firm, household …) a row belongs to; without it one row is one person"""
    rows_per_person: int = Field(1, ge=1)
    """differentially private answers use at most so many rows of a person: the first ones"""
    row_key: Name | None = None
    """column that names a row and grows with every appended row; PostgreSQL needs one, files have their order"""
    base_columns: tuple[Name, ...] | None = Field(None, max_length=5)
    """public columns from which the base groups of true answers are made; none: the five with the fewest values"""
    join: tuple[Name, Name] | None = None
    """two declared tables about the same `people` whose rows of the same person are put together; only for mode dp"""
    people: Name | None = None
    """name of the people that the rows are about: tables with the same one share budgets; none: people of its own"""
    adjacency: Adjacency = "add-remove"
    """neighboring data sets differ by one person's presence, or by one person's values"""
    policy: PolicyOrName | None = None
    """how questions are answered, unless user or group say otherwise: a policy, or the name of one"""
    epsilon: float | None = Field(None, gt=0, strict=True)
    """privacy budget of all users together for the people of the table; none: each has only its own"""
    delta: float = Field(0.0, ge=0, lt=1, strict=True)
    """δ that belongs to the table's ε"""
    description: str = ""
    """what the table holds, for analysts"""
    synthetic: Annotated[Mapping[str, Any], AfterValidator(MappingProxyType), PlainSerializer(dict)] | None = None
    """a private generator, `{kind: {fields}}`, whose files users of mode dp may have, paid from their budgets"""

    @model_validator(mode="after")
    def _fits(self) -> TableSpec:
        problems = []
        if self.synthetic is not None and len(self.synthetic) != 1:
            problems.append("`synthetic` is one generator: {kind: {fields}}")
        if self.person is None and self.rows_per_person != 1:
            problems.append("`rows_per_person` needs `person`: without it one row is one person")
        folded = [name.casefold() for name in self.visible]
        if len(set(folded)) < len(folded):
            problems.append("two columns differ only in upper and lower case")
        if not folded:
            problems.append("every column is hidden")
        problems += [
            f"the base column {name!r} is not a public column"
            for name in self.base_columns or ()
            if name not in self.public
        ]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @property
    def visible(self) -> tuple[str, ...]:
        """The columns that exist for an analyst."""
        return tuple(name for name, spec in self.columns.items() if spec.role != "hidden")

    @property
    def public(self) -> tuple[str, ...]:
        """The columns that anybody may know."""
        return tuple(name for name, spec in self.columns.items() if spec.role == "public")

    def column(self, name: str) -> ColumnSpec:
        """Give a column; a hidden one is as unknown as one that does not exist."""
        if name not in self.visible:
            raise QueryRefused(f"unknown column{did_you_mean(name, self.visible)}")
        return self.columns[name]

    def declared_groups(self, group_by: tuple[str, ...]) -> tuple[tuple[Scalar, ...], ...] | None:
        """Give all keys of the groups when each column declares its categories, otherwise nothing."""
        keys = [self._keys(name) for name in group_by]
        return tuple(product(*keys)) if all(keys) else None

    def count_declared_groups(self, group_by: tuple[str, ...]) -> int:
        """Count the keys of the groups without listing them; 0 when a column does not declare its categories."""
        count = 1
        for name in group_by:
            count *= len(self._keys(name))
        return count

    def _keys(self, name: str) -> tuple[Scalar, ...]:
        return self.column(name).keys


def _joined(name: str, table: Any, given: Mapping[str, Any]) -> Any:
    """Declare a join: the visible columns of two tables, at most as many rows of a person as both allow together.

    The rows of a person in the join come from rows of that person alone: of m rows in one table and n in the other
    there are m·n pairs, and no other person's pairs change. So the join is a table in which one person has at most m·n
    rows, or fewer where `rows_per_person` says so (the first ones), and every sensitivity holds for it as for any other
    table; with `replace` both tables hold other rows of the person at once.
    """
    if not isinstance(table, Mapping) or not isinstance(table.get("join"), list | tuple):
        return table
    wanted = [other for other in table["join"] if isinstance(other, str)]
    found = [
        one if isinstance(one, TableSpec) else TableSpec(**{"name": other, **one})
        for other in wanted
        if isinstance(one := given.get(other), TableSpec | Mapping)
    ]
    if len(table["join"]) != 2 or len(found) != 2 or any(one.join for one in found) or wanted[0] == wanted[1]:
        raise ValueError(f"table {name!r}: `join` names two other tables of the service that are no joins")
    problems = [f"{one.name!r} has no `person`" for one in found if one.person is None]
    if found[0].people is None or found[0].people != found[1].people:
        problems.append("both tables need the same `people`, so that they share one budget")
    if found[0].adjacency != found[1].adjacency:
        problems.append("the tables have different `adjacency`")
    columns = [{column: one.columns[column] for column in one.visible} for one in found]
    if twice := sorted(columns[0].keys() & columns[1].keys()):
        problems.append(f"both have a column {twice[0]!r}; rename or hide one")
    own = sorted(table.keys() & {"source", "columns", "person", "people", "adjacency", "row_key", "base_columns"})
    problems += [f"`{entry}` comes from the joined tables" for entry in own]
    most = found[0].rows_per_person * found[1].rows_per_person
    if isinstance(rows := table.get("rows_per_person", most), int) and rows > most:
        problems.append(f"`rows_per_person` is at most {most}, the product of the tables'")
    if problems:
        raise ValueError(f"table {name!r}: " + "; ".join(problems))
    made = {"columns": columns[0] | columns[1], "person": PERSON, "people": found[0].people}
    return {**made, "adjacency": found[0].adjacency, "rows_per_person": most, **table}


def _with_names(given: Any) -> Any:
    """Let the key of a table be its name; a join has the columns of its tables."""
    if not isinstance(given, Mapping):
        return given
    given = {n: _joined(n, table, given) for n, table in given.items()}
    return {n: {"name": n, **table} if isinstance(table, Mapping) else table for n, table in given.items()}


class GroupSpec(Declared):
    """A group of users that are answered in the same way."""

    policy: PolicyOrName | None = None
    """how its members are answered: a policy, or the name of one"""
    tables: tuple[Name, ...] | None = None
    """tables its members may ask; none: all"""


class UserSpec(Declared):
    """Somebody with access."""

    role: Literal["analyst", "auditor", "owner"] = "analyst"
    """analyst: asks; auditor: reads ledger and log; owner: both, and keys"""
    key_hash: str | None = None
    """hash of the API key, as `discretion key` prints it; the key itself is stored nowhere"""
    group: Name | None = None
    """the group whose policy and tables apply"""
    policy: PolicyOrName | None = None
    """how this user is answered; without it the group's policy, then the table's, then the service's"""
    tables: tuple[Name, ...] | None = None
    """tables the user may ask; none: the group's, or all"""
    knows: Named[tuple[Scalar, ...]] = Field(default_factory=lambda: MappingProxyType({}))
    """insider's knowledge: table → keys of the people whose values this user knows anyway (own record, relatives)"""


class ServerSpec(Declared):
    """How the service listens and what it allows."""

    host: str = "127.0.0.1"
    """address to listen on"""
    port: int = Field(8000, ge=0, le=65_535)
    """port to listen on; 0: a free one"""
    tls_certificate: FileName | None = None
    """file with the certificate chain; with `tls_key` the service speaks TLS"""
    tls_key: FileName | None = None
    """file with the private key of the certificate"""
    requests_per_minute: int = Field(120, ge=1)
    """most requests of one user in a minute, and of one address that brings no valid key"""
    questions_at_once: int = Field(8, ge=1)
    """most questions of one user that are answered at the same time"""
    connections: int = Field(1000, ge=1)
    """most connections that are open at the same time; more are closed at once"""
    max_request_bytes: int = Field(65_536, ge=1024)
    """largest request"""
    query_seconds: float = Field(30.0, gt=0)
    """longest time a question may take"""
    answer_step_seconds: float = Field(0.1, ge=0, le=60)
    """private answers, and refusals of them, leave so long after the question, or twice, four times … as long; 0: at
    once, and how long an answer took may tell how many people it is over"""
    memory: str = Field("1GB", pattern=r"^\d+(\.\d+)?\s?[KMGT]i?B$")
    """memory of the embedded database"""
    threads: int | None = Field(None, ge=1)
    """threads of the embedded database; none: one per core"""
    max_groups: int = Field(10_000, ge=1)
    """most groups of one answer"""
    log: FileName | None = None
    """file of the audit log (who asked what when; never a filter value, never an answer); none: stderr"""

    @model_validator(mode="after")
    def _fits(self) -> ServerSpec:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("`tls_certificate` and `tls_key` belong together")
        return self


class ServiceSpec(Declared):
    """A whole service: tables, users and groups, policies, ledger, server."""

    tables: Annotated[Named[TableSpec], BeforeValidator(_with_names)] = Field(min_length=1)
    """the tables by name"""
    policies: Named[Policy] = Field(default_factory=lambda: MappingProxyType({}))
    """policies that tables, groups and users may name"""
    policy: PolicyOrName = Field(default_factory=ExactPolicy)
    """the policy where nothing else is said"""
    groups: Named[GroupSpec] = Field(default_factory=lambda: MappingProxyType({}))
    """groups of users by name"""
    users: Named[UserSpec] = Field(default_factory=lambda: MappingProxyType({}))
    """users by name"""
    ledger: FileName = "sqlite:///ledger.db"
    """where questions, costs and answers are kept: sqlite:///file or postgresql://user@host/base"""
    secret_file: FileName | None = None
    """file with the secret of the service (keys of cells, the audit's primes); made when absent"""
    server: ServerSpec = Field(default_factory=ServerSpec)
    """how the service listens"""
    title: str = "Statistical database"
    """what analysts read on top of the page"""
    base: Path = Field(default_factory=Path, exclude=True)
    """folder at which relative paths start: the one of the service file"""

    @model_validator(mode="after")
    def _fits(self) -> ServiceSpec:
        faults: dict[tuple[str, ...], str] = {}
        for key, table in self.tables.items():
            if table.name != key:
                faults["tables", key, "name"] = f"the table is called {table.name!r} and stands under another name"
        for place, name in self._named_policies():
            if name not in self.policies:
                faults[place] = unknown("policy", name, self.policies)
        for name, user in self.users.items():
            if user.group is not None and user.group not in self.groups:
                faults["users", name, "group"] = unknown("group", user.group, self.groups)
        for place, name in self._named_tables():
            if name not in self.tables:
                faults[place] = unknown("table", name, self.tables)
        if faults:
            raise Faults(faults)
        return self

    def _named_policies(self) -> list[tuple[tuple[str, ...], str]]:
        sections: tuple[tuple[str, Mapping[str, TableSpec | GroupSpec | UserSpec]], ...]
        sections = (("tables", self.tables), ("groups", self.groups), ("users", self.users))
        found: list[tuple[tuple[str, ...], Any]] = [(("policy",), self.policy)]
        found += [((part, name, "policy"), spec.policy) for part, specs in sections for name, spec in specs.items()]
        return [(place, policy) for place, policy in found if isinstance(policy, str)]

    def _named_tables(self) -> list[tuple[tuple[str, ...], str]]:
        holders = [("groups", n, g.tables) for n, g in self.groups.items()]
        holders += [("users", n, u.tables) for n, u in self.users.items()]
        found: list[tuple[tuple[str, ...], str]] = [
            ((part, name, "tables"), table) for part, name, tables in holders for table in tables or ()
        ]
        found += [(("users", name, "knows"), table) for name, user in self.users.items() for table in user.knows]
        return found

    def user(self, name: str) -> UserSpec:
        """Give a user, or refuse."""
        if name not in self.users:
            raise QueryRefused("unknown user")
        return self.users[name]

    def table_for(self, user: str, name: str) -> TableSpec:
        """Give a table that the user may ask; others are as unknown as tables that do not exist."""
        allowed = self.tables_for(user)
        if name not in allowed:
            raise QueryRefused(f"unknown table{did_you_mean(name, allowed)}")
        return self.tables[name]

    def tables_for(self, user: str) -> tuple[str, ...]:
        """Name the tables that a user may ask."""
        spec = self.user(user)
        group = self.groups[spec.group].tables if spec.group is not None else None
        allowed = spec.tables if spec.tables is not None else group
        return tuple(name for name in self.tables if allowed is None or name in allowed)

    def same_people(self, name: str) -> tuple[str, ...]:
        """Name the tables about the same people as a table, itself among them."""
        people = self.tables[name].people
        return tuple(one for one, table in self.tables.items() if one == name or (people and table.people == people))

    def policy_for(self, user: str, table: str) -> Policy:
        """Give the policy that applies: the user's, the group's, the table's, the service's."""
        spec = self.user(user)
        group = self.groups[spec.group].policy if spec.group is not None else None
        for found in (spec.policy, group, self.tables[table].policy):
            if found is not None:
                return self.policies[found] if isinstance(found, str) else found
        return self.policies[self.policy] if isinstance(self.policy, str) else self.policy

    def resolve(self, path: str) -> str:
        """Give a path relative to the folder of the service file; URLs and absolute paths stay."""
        return resolve(self.base, path)

    @classmethod
    def load(cls, path: str | Path) -> ServiceSpec:
        """Read a service file (YAML); every fault is reported at once, with its line."""
        from discretion.online.service_file import load_service

        return load_service(path)


def resolve(base: Path, path: str) -> str:
    """Give a path as seen from a folder; SQLite addresses too; other URLs and absolute paths stay."""
    if path.startswith("sqlite:///"):
        return f"sqlite:///{base / path.removeprefix('sqlite:///')}"
    return path if "://" in path else str(base / path)


def tables_of(given: ServiceSpec | TableSpec | Mapping[str, TableSpec]) -> Mapping[str, TableSpec]:
    """Take a service, one table or several as tables by name."""
    if isinstance(given, ServiceSpec):
        return given.tables
    if isinstance(given, TableSpec):
        return MappingProxyType({given.name: given})
    wrong = [name for name, table in given.items() if name != table.name]
    if wrong:
        raise PlanError([f"the table {name!r} has another name in its declaration" for name in wrong])
    return given
