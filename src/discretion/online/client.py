"""Ask a service from Python: `dc.connect(url, key)`."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from discretion.errors import BudgetExhausted, DiscretionError, PlanError, QueryRefused
from discretion.online.answers import Answer, cost_of
from discretion.online.estimate import Estimate
from discretion.online.extras import need
from discretion.online.query import Query

if TYPE_CHECKING:
    import httpx
    import pandas as pd
    import polars as pl

_SECONDS = 120.0


class ServiceError(DiscretionError):
    """The service cannot be reached, or does not accept the key, or is too busy."""


def connect(url: str, key: str, *, verify: bool | str = True, transport: Any = None) -> Connection:
    """Connect to a statistical database; `verify` is a file with the certificates to trust, for one's own authority.

    Examples
    --------
    >>> connect("http://127.0.0.1:8000", "dk_…").url
    'http://127.0.0.1:8000'
    """
    return Connection(url, key, verify=verify, transport=transport)


class Connection:
    """A service as one user sees it.

    A refused question raises `QueryRefused`, a spent budget `BudgetExhausted`, both with the reason the service gave.
    The key is sent with every request: use https unless the service runs on the same machine.
    """

    def __init__(self, url: str, key: str, *, verify: bool | str = True, transport: Any = None) -> None:
        if not url.startswith(("http://", "https://")):
            raise PlanError("the address of a service starts with http:// or https://")
        self.url = url.rstrip("/")
        self._key, self._verify, self._transport = key, verify, transport
        self._client: httpx.Client | None = None

    def __repr__(self) -> str:
        return f"Connection({self.url!r})"

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ask(self, question: str | Query | dict[str, Any], *, epsilon: float | None = None) -> Answer:
        """Ask in SQL or with a `Query`; gives figures, intervals, cost and what is left."""
        return Answer.from_json(self._post("/query", question, epsilon))

    def frame(
        self,
        question: str | Query | dict[str, Any],
        *,
        epsilon: float | None = None,
        library: Literal["polars", "pandas"] = "polars",
    ) -> pl.DataFrame | pd.DataFrame:
        """Ask and give only the figures, as a frame."""
        answer = self.ask(question, epsilon=epsilon)
        return answer.to_pandas() if library == "pandas" else answer.frame

    def dry_run(self, question: str | Query | dict[str, Any], *, epsilon: float | None = None) -> Estimate:
        """Give cost and expected error of an answer without spending anything."""
        return Estimate.from_json(self._post("/dry-run", question, epsilon))

    def budget(self, user: str | None = None) -> pl.DataFrame:
        """Give one row per table: budget, spent, left."""
        import polars as pl

        found = self._send("GET", "/budget", params={} if user is None else {"user": user})["budgets"]
        kinds: dict[str, Any] = dict.fromkeys(("table", "mode", "unit", "period"), pl.String())
        kinds |= dict.fromkeys(("limit", "spent", "remaining", "delta_remaining"), pl.Float64())
        return pl.DataFrame([{name: row[name] for name in kinds} for row in found], schema=kinds)

    def tables(self) -> dict[str, dict[str, Any]]:
        """Give the declared tables by name."""
        return {table["name"]: table for table in self._send("GET", "/tables")["tables"]}

    def history(self, *, table: str | None = None, user: str | None = None, after: int = 0) -> pl.DataFrame:
        """Give the lines of the ledger (auditors and owners)."""
        import polars as pl

        rows: list[dict[str, Any]] = []
        at: int | None = after
        while at is not None:
            given = {"table": table, "user": user, "after": at, "limit": 1000}
            page = self._send("GET", "/history", params={name: v for name, v in given.items() if v is not None})
            rows += page["entries"]
            at = page["next"]
        names = ("id", "time", "user", "table", "kind", "digest", "refers", "hash")
        found = [{name: row[name] for name in names} | {"cost": str(cost_of(row["cost"]))} for row in rows]
        kinds = dict.fromkeys((*names, "cost"), pl.String()) | {"id": pl.Int64(), "refers": pl.Int64()}
        return pl.DataFrame(found, schema=kinds)

    def refresh(self, table: str) -> int:
        """Let the service read appended rows (owners); gives the number of people now."""
        return int(self._send("POST", "/refresh", params={"table": table})["people"])

    def close(self) -> None:
        """Let go of the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _post(self, path: str, question: str | Query | dict[str, Any], epsilon: float | None) -> dict[str, Any]:
        asked: dict[str, Any]
        asked = {"sql": question} if isinstance(question, str) else {"query": _plain(question)}
        return self._send("POST", path, json=asked if epsilon is None else {**asked, "epsilon": epsilon})

    def _send(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        httpx = need("httpx", "a connection to a service")
        if self._client is None:
            headers = {"Authorization": f"Bearer {self._key}"}
            verify = self._verify if self.url.startswith("https") else False  # without TLS no certificates are loaded
            self._client = httpx.Client(
                base_url=self.url, headers=headers, verify=verify, timeout=_SECONDS, transport=self._transport
            )
        try:
            response = self._client.request(method, path, **options)
            content = response.json()
        except httpx.HTTPError as error:
            raise ServiceError(f"{self.url} cannot be reached: {type(error).__name__}") from None
        except ValueError:
            raise ServiceError(f"{self.url} did not answer like a statistical database") from None
        if response.status_code == 200 and isinstance(content, dict):
            return content
        raise _error(content)


def _plain(question: Query | dict[str, Any]) -> dict[str, Any]:
    return question.to_json() if isinstance(question, Query) else question


def _error(content: Any) -> DiscretionError:
    found = content.get("error") if isinstance(content, dict) else None
    if not isinstance(found, dict):
        return ServiceError("the service gave no reason")
    kind, reason = str(found.get("kind")), str(found.get("reason"))
    if kind == "BudgetExhausted":
        return BudgetExhausted(reason)
    if kind in ("QueryRefused", "QueryTimeout"):
        return QueryRefused(reason)
    return ServiceError(reason)
