"""What the owner of the data declares: tables and columns, whom they protect, users and how they are answered.

Nothing that an analyst may learn comes from looking at the data: the names, the types, the bounds, the grid on which
quantiles are sought and the keys of groups stand here. A column that is not declared does not exist for the service.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, PlainSerializer, Tag, model_validator

from discretion.data.documents import Declared, Document, DocumentKind, Faults, Place, parse_yaml, read_document
from discretion.data.sql_filter import Scalar
from discretion.errors import PlanError, QueryRefused, did_you_mean, unknown
from discretion.part import FileName
from discretion.privacy.accounting import Accountant

if TYPE_CHECKING:
    import polars as pl

    from discretion.data.dataset import Dataset
    from discretion.data.detect import Proposal

_MOST_NAME = 63


def checked_name(text: str) -> str:
    """Raise unless a text can be the name of a table, a column or a user."""
    if not text.strip() or len(text.encode("utf-8", "replace")) > _MOST_NAME or not text.isprintable():
        raise ValueError(f"a name has 1 to {_MOST_NAME} printable characters")
    return text


Name = Annotated[str, AfterValidator(checked_name)]


Visibility = Literal["public", "sensitive", "hidden"]
ColumnType = Literal["number", "integer", "category", "truth", "date"]

FEWEST_VALUES = 12
"""columns of fewer different values are asked about under differential privacy only"""
_STEPS = 2**16
_MOST_STEPS = 2**32
_MOST_CODE = 2**52


class ColumnSpec(Declared):
    """One column: who may see what of it.

    Examples
    --------
    >>> income = ColumnSpec(role="sensitive", type="integer", bounds=(0, 200_000))
    >>> income.unit, income.codes
    (1.0, (0, 200000))
    """

    role: Visibility
    """public: anybody may know it, it may choose records; sensitive: only aggregates of it; hidden: does not exist"""
    type: ColumnType
    """number, integer, category (text), truth (yes or no), date"""
    bounds: tuple[float, float] | None = None
    """smallest and largest value of a number; differential privacy moves values outside to the nearer bound"""
    whole: bool | None = None
    """whether a number is a whole one; none: looked up in the data, where it matters how many values there can be.
    True sums are told by base groups, unless `false` is said of a number without bounds. That confirms that its values
    are whole in no unit that anybody knows and that no two people have the same: sums of any sets are then told under
    the linear audit, and whoever knows such a unit, or two people with one value, computes everybody's value"""
    resolution: float | None = Field(None, gt=0)
    """unit of fixed-point sums; default: 1 for integers, else the power of two that gives 65,536 steps or more"""
    grid: int = Field(256, ge=2, le=65_536)
    """number of equal steps between the bounds on which quantiles, minimum and maximum are sought under privacy"""
    categories: tuple[Scalar, ...] = ()
    """public keys of groups; without them the groups of a differentially private answer must pass a threshold"""
    description: str = ""
    """what the column means, for analysts"""

    @model_validator(mode="after")
    def _fits(self) -> ColumnSpec:
        problems = [*self._bound_problems(), *self._category_problems()]
        if self.whole is not None and self.type != "number":
            problems.append(f"`whole` belongs to numbers, not to type {self.type}")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _bound_problems(self) -> list[str]:
        if self.bounds is None:
            return ["`resolution` needs `bounds`"] if self.resolution is not None else []
        if self.type not in ("number", "integer"):
            return [f"`bounds` belong to numbers and integers, not to type {self.type}"]
        lower, upper = self.bounds
        if not lower < upper:
            return ["the lower bound must be below the upper bound"]
        if max(abs(lower), abs(upper)) / self.unit > _MOST_CODE or (upper - lower) / self.unit > _MOST_STEPS:
            return [f"bounds and resolution give more than {_MOST_STEPS:,} steps; choose a coarser `resolution`"]
        return []

    def _category_problems(self) -> list[str]:
        wanted: tuple[type, ...]
        wanted = {"integer": (int,), "number": (int, float), "truth": (bool,)}.get(self.type, (str,))
        wrong = [v for v in self.categories if not isinstance(v, wanted) or isinstance(v, bool) != (bool in wanted)]
        problems = (
            [f"the categories of type {self.type} are {' or '.join(t.__name__ for t in wanted)}"] if wrong else []
        )
        return [*problems, *(["a category is named twice"] if len(set(self.categories)) < len(self.categories) else [])]

    @property
    def keys(self) -> tuple[Scalar, ...]:
        """The declared categories; of a truth no and yes."""
        return self.categories or ((False, True) if self.type == "truth" else ())

    @property
    def is_numeric(self) -> bool:
        """Whether sums of the column mean something (yes counts 1, no counts 0)."""
        return self.type in ("number", "integer", "truth")

    @property
    def is_yes_or_no(self) -> bool:
        """Whether a value is one of two: a truth, or an integer between bounds one apart."""
        return self.type == "truth" or (self.type == "integer" and self.bounds is not None and self.whole_values <= 2)

    @property
    def whole_values(self) -> int:
        """How many whole numbers lie between the bounds."""
        lower, upper = self.required_limits()
        return math.floor(upper) - math.ceil(lower) + 1

    def is_whole(self, values: pl.Series) -> bool:
        """Say whether values are whole: integers, and numbers as the owner says, or as they are."""
        if self.type == "number":
            return bool((values == values.floor()).all()) if self.whole is None else self.whole
        return self.type == "integer"

    def has_few_values(self, values: pl.Series) -> bool:
        """Say whether a column has so few different values that sums tell single ones: yes or no, fewer than 12.

        In a table of fewer than 24 people: fewer than half as many as people.
        """
        if self.is_yes_or_no:
            return True
        if self.bounds is not None and self.is_whole(values) and self.whole_values < FEWEST_VALUES:
            return True
        present = values.drop_nulls()
        different = present.n_unique()
        return different < min(FEWEST_VALUES, -(-len(present) // 2)) or different <= 2 < len(present)

    @property
    def limits(self) -> tuple[float, float] | None:
        """The declared bounds; of a truth 0 and 1."""
        return (0.0, 1.0) if self.type == "truth" else self.bounds

    @property
    def unit(self) -> float:
        """The unit of fixed-point figures: a value x has the code floor(x / unit + 1/2)."""
        if self.resolution is not None:
            return self.resolution
        if self.type != "number" or self.bounds is None:
            return 1.0
        width = (self.bounds[1] - self.bounds[0]) / _STEPS
        return 2.0 ** math.floor(math.log2(width)) if width > 0 else 1.0

    @property
    def codes(self) -> tuple[int, int]:
        """The codes of the bounds: every clamped value's code lies between them, both included."""
        lower, upper = self.required_limits()
        return self.code(lower), self.code(upper)

    def code(self, value: float) -> int:
        """Return the fixed-point code of a number."""
        return math.floor(value / self.unit + 0.5)

    def required_limits(self) -> tuple[float, float]:
        """Return the bounds, or refuse: without bounds no noise is enough."""
        limits = self.limits
        if limits is None:
            raise QueryRefused("the column has no declared bounds, so no amount of noise would protect an answer")
        return limits

    def candidates(self) -> tuple[float, ...]:
        """Return the `grid` + 1 borders of equal steps between the bounds."""
        lower, upper = self.required_limits()
        if self.type == "truth":
            return (0.0, 1.0)
        return (*(lower + (upper - lower) * i / self.grid for i in range(self.grid)), upper)


Period = Literal["day", "week", "month", "quarter", "year", "ever"]


class ExactPolicy(Declared):
    """True answers, by base groups of at least ten people or under the audit of all earlier answers.

    Whole and bounded numbers: sums over fixed, disjoint groups, each with the share of people it covers. Other numbers:
    refused when with all earlier answers a sum would determine anybody's value; close guesses are not prevented. Yes or
    no, few values, many values at a bound: refused. Which questions of a column are refused never depends on values.
    """

    mode: Literal["exact+audit"] = "exact+audit"
    """true answers by base groups, or under the audit of all earlier ones"""
    min_query_size: int = Field(5, ge=2)
    """smallest number of people in a query set, and of people outside it"""
    max_overlap: int | None = Field(None, ge=0)
    """largest number of people that two query sets under the audit may share; none: only the audit decides"""
    variance: bool = False
    """whether variances are answered under the audit (squares together with sums); by base groups they never are"""
    interval_audit: bool = False
    """whether sums by base groups must also leave values uncertain by `interval_percent`, or become bounds"""
    interval_percent: float = Field(10.0, gt=0, le=100)
    """least width of what an attacker can infer about a value, in percent of its declared bounds"""
    over_all_users: bool = True
    """whether all users together are audited as one attacker, beside each by itself"""


class DpPolicy(Declared):
    """Noisy answers that spend a privacy budget."""

    mode: Literal["dp"]
    """differential privacy"""
    epsilon: float = Field(gt=0, strict=True)
    """budget of a user in one period, for all tables about the same people"""
    delta: float = Field(0.0, ge=0, lt=1, strict=True)
    """δ of the budget; needed for zCDP accounting and for groups whose keys are not declared"""
    accountant: Accountant = "pure"
    """how answers add up: pure ε, (ε,δ) or zero-concentrated"""
    period: Period = "ever"
    """after how long a user has the budget again; `ever`: never"""
    epsilon_per_query: float = Field(0.1, gt=0, strict=True)
    """what an answer spends when the question does not say"""
    max_epsilon_per_query: float | None = Field(None, gt=0, strict=True)
    """most that one answer may spend; none: the whole budget"""
    confidence: float = Field(0.95, gt=0, lt=1)
    """level of the intervals given with each answer"""


class PerturbedPolicy(Declared):
    """Answers changed a little, the same for the same records: cell keys, rounding, size control.

    Carries no guarantee, and is never chosen unless the owner names it: many answers together may give somebody away.
    Of sensitive columns that say yes or no, or have fewer than 12 values, nothing is told.
    """

    mode: Literal["perturbed"]
    """cell-key perturbation, rounding and size control"""
    min_query_size: int = Field(5, ge=1)
    """answers over fewer people are refused or shown as missing"""
    deviation: int = Field(2, ge=0)
    """largest change of a count by its cell key; 0: no perturbation"""
    variance: float = Field(1.0, gt=0)
    """variance of the change of a count"""
    magnitude_percent: float = Field(100.0, ge=0, le=100)
    """largest change of a sum by its cell key, in percent of its three largest contributions (weighed .5, .3, .2), or
    of the mean size of a value or three standard deviations (up to a power of two) where that is larger; of whole
    numbers at least `deviation`"""
    max_answers: int | None = Field(None, ge=1)
    """figures of one sensitive column that all users together are told; none: 24, or half as many as there are people
    if that is fewer. Who spends m figures on one person is off by about 2·√(3/m) standard deviations or more"""
    rounding_base: float | None = Field(None, gt=0)
    """answers are rounded to multiples of it; none: not rounded"""


Policy = Annotated[ExactPolicy | DpPolicy | PerturbedPolicy, Field(discriminator="mode")]
MODES = ("exact+audit", "dp", "perturbed")


def _which(given: Any) -> str | None:
    if isinstance(given, str):
        return "name"
    found = given.get("mode", MODES[0]) if isinstance(given, dict) else getattr(given, "mode", None)
    return found if isinstance(found, str) else None


PolicyOrName = Annotated[
    Annotated[ExactPolicy, Tag("exact+audit")]
    | Annotated[DpPolicy, Tag("dp")]
    | Annotated[PerturbedPolicy, Tag("perturbed")]
    | Annotated[Name, Tag("name")],
    Discriminator(
        _which,
        custom_error_type="policy",
        custom_error_message=f"expected a policy with the mode {', '.join(MODES)}, or the name of a policy",
    ),
]
"""A policy in place, or the name of one."""


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
        """Return a column; a hidden one is as unknown as one that does not exist."""
        if name not in self.visible:
            raise QueryRefused(f"unknown column{did_you_mean(name, self.visible)}")
        return self.columns[name]

    def declared_groups(self, group_by: tuple[str, ...]) -> tuple[tuple[Scalar, ...], ...] | None:
        """Return all keys of the groups when each column declares its categories, otherwise nothing."""
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
        """Return a user, or refuse."""
        if name not in self.users:
            raise QueryRefused("unknown user")
        return self.users[name]

    def table_for(self, user: str, name: str) -> TableSpec:
        """Return a table that the user may ask; others are as unknown as tables that do not exist."""
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
        """Return the policy that applies: the user's, the group's, the table's, the service's."""
        spec = self.user(user)
        group = self.groups[spec.group].policy if spec.group is not None else None
        for found in (spec.policy, group, self.tables[table].policy):
            if found is not None:
                return self.policies[found] if isinstance(found, str) else found
        return self.policies[self.policy] if isinstance(self.policy, str) else self.policy

    def resolve(self, path: str) -> str:
        """Return a path relative to the folder of the service file; URLs and absolute paths stay."""
        return resolve(self.base, path)

    @classmethod
    def load(cls, path: str | Path) -> ServiceSpec:
        """Read a service file (YAML); every fault is reported at once, with its line."""
        return load_service(path)


def resolve(base: Path, path: str) -> str:
    """Return a path as seen from a folder; SQLite addresses too; other URLs and absolute paths stay."""
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


SERVICE = DocumentKind(
    "service file", "a service file is a mapping with entries such as `tables`, `users` and `ledger`"
)


def load_service(path: str | Path) -> ServiceSpec:
    """Read a service file; relative paths in it start at its folder."""
    return _service(read_document(path, SERVICE), Path(path).resolve().parent)


def parse_service(text: str, source: str = "service", base: Path | None = None) -> ServiceSpec:
    """Parse the text of a service file.

    Examples
    --------
    >>> spec = parse_service("tables: {t: {columns: {sex: {role: public, type: category}}}}")
    >>> spec.tables["t"].public
    ('sex',)
    """
    return _service(parse_yaml(text, source, SERVICE), base)


def _service(document: Document, base: Path | None) -> ServiceSpec:
    spec = document.validated(ServiceSpec, _siblings, base=base or Path())
    return spec if base is None else _with_paths(spec)


def _with_paths(spec: ServiceSpec) -> ServiceSpec:
    """Make the paths of a service absolute."""
    tables = {
        name: table if table.source is None else table.model_copy(update={"source": resolve(spec.base, table.source)})
        for name, table in spec.tables.items()
    }
    server = spec.server.model_copy(
        update={
            name: resolve(spec.base, value)
            for name in ("tls_certificate", "tls_key", "log")
            if (value := getattr(spec.server, name)) is not None
        }
    )
    secret = None if spec.secret_file is None else resolve(spec.base, spec.secret_file)
    paths = {"tables": tables, "server": server, "secret_file": secret, "ledger": resolve(spec.base, spec.ledger)}
    return spec.model_copy(update=paths)


def _siblings(place: Place) -> tuple[str, ...]:
    """Name the entries that a place may have, as far as the declaration tells."""
    modes: dict[str, type[Declared]] = {"exact+audit": ExactPolicy, "dp": DpPolicy, "perturbed": PerturbedPolicy}
    if len(place) == 1:
        return tuple(ServiceSpec.model_fields)
    if place[-2] in modes:
        return tuple(modes[str(place[-2])].model_fields)
    if "columns" in place[:-1]:
        return tuple(ColumnSpec.model_fields)
    parts: dict[str, type[Declared]]
    parts = {"tables": TableSpec, "groups": GroupSpec, "users": UserSpec, "server": ServerSpec}
    return tuple(parts[str(place[0])].model_fields) if place[0] in parts else ()


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
    from discretion.data.detect import propose

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
    from discretion.data.words import parts_of

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
    >>> from discretion.online.declare import parse_service
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
