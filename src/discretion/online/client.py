"""Ask a service from Python: `dc.connect(url, key)`."""

from __future__ import annotations

import ipaddress
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlsplit

from discretion.errors import BudgetExhausted, DiscretionError, PlanError, QueryRefused, need
from discretion.online.question.answer import Answer, Estimate, cost_of
from discretion.online.question.query import Query

if TYPE_CHECKING:
    import httpx
    import pandas as pd
    import polars as pl

_T = TypeVar("_T")
_SECONDS = 120.0
_MAYBE = "; the question may have been charged: asked again it costs nothing if it was answered"


class ServiceError(DiscretionError):
    """The service cannot be reached, or does not accept the key, or is too busy."""


def connect(
    url: str, key: str, *, verify: bool | str | Path = True, timeout: float = _SECONDS, transport: Any = None
) -> Connection:
    """Connect to a statistical database; `verify` is a file with the certificates to trust, for one's own authority.

    `timeout` is how many seconds an answer may take. Nothing is sent before the first question.

    Examples
    --------
    >>> connect("http://127.0.0.1:8000", "dk_key").url
    'http://127.0.0.1:8000'
    """
    return Connection(url, key, verify=verify, timeout=timeout, transport=transport)


class Connection:
    """A service as one user sees it.

    A refused question raises `QueryRefused`, a spent budget `BudgetExhausted`, both with the reason the service gave;
    what else goes wrong is a `ServiceError`. Nothing is sent twice: after a lost connection or a timeout the question
    may have been charged, and asking it again gives the stored answer, if there is one, at no further cost.

    The key is sent with every request: use https unless the service runs on the same machine.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        verify: bool | str | Path = True,
        timeout: float = _SECONDS,
        transport: Any = None,
    ) -> None:
        self.url = _checked_url(url)
        if not key or not all("!" <= sign <= "~" for sign in key):
            raise PlanError("this is not a key: keys are made of letters, digits and signs, and start with dk_")
        if not timeout > 0:
            raise PlanError("`timeout` is a number of seconds above 0")
        if isinstance(verify, str | Path) and not Path(verify).is_file():
            raise PlanError(f"`verify`: there is no file {str(verify)!r} with certificates")
        self._key, self._verify, self._seconds, self._transport = key, verify, timeout, transport
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
        return self._understood(Answer.from_json, self._post("/query", question, epsilon))

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
        """Return cost and expected error of an answer without spending anything."""
        return self._understood(Estimate.from_json, self._post("/dry-run", question, epsilon))

    def synthetic(self, table: str, *, epsilon: float | None = None) -> Answer:
        """Return a synthetic file of a table (`frame`), paid from the budget; the same file again costs nothing."""
        wish = {"table": table} if epsilon is None else {"table": table, "epsilon": epsilon}
        return self._understood(Answer.from_json, self._send("POST", "/synthetic", json=wish))

    def budget(self, user: str | None = None) -> pl.DataFrame:
        """Return one row per table: budget, spent, left."""
        import polars as pl

        found = self._send("GET", "/budget", params={} if user is None else {"user": user})
        kinds: dict[str, Any] = dict.fromkeys(("table", "mode", "unit", "period"), pl.String())
        kinds |= dict.fromkeys(("limit", "spent", "remaining", "delta_remaining"), pl.Float64())
        rows = self._understood(lambda told: [{name: row[name] for name in kinds} for row in told["budgets"]], found)
        return pl.DataFrame(rows, schema=kinds)

    def tables(self) -> dict[str, dict[str, Any]]:
        """Return the declared tables by name."""
        found = self._send("GET", "/tables")
        return self._understood(lambda told: {table["name"]: table for table in told["tables"]}, found)

    def history(self, *, table: str | None = None, user: str | None = None, after: int = 0) -> pl.DataFrame:
        """Return the lines of the ledger (auditors and owners)."""
        import polars as pl

        rows: list[dict[str, Any]] = []
        at: int | None = after
        while at is not None:
            given = {"table": table, "user": user, "after": at, "limit": 1000}
            page = self._send("GET", "/history", params={name: v for name, v in given.items() if v is not None})
            listed, at = self._understood(lambda told: ([*map(_line, told["entries"])], told["next"]), page)
            rows += listed
        kinds = dict.fromkeys((*_LINE, "cost"), pl.String()) | {"id": pl.Int64(), "refers": pl.Int64()}
        return pl.DataFrame(rows, schema=kinds)

    def refresh(self, table: str) -> int:
        """Let the service read appended rows (owners); gives the number of people now."""
        return self._understood(
            lambda told: int(told["people"]), self._send("POST", "/refresh", params={"table": table})
        )

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _post(self, path: str, question: str | Query | dict[str, Any], epsilon: float | None) -> dict[str, Any]:
        asked: dict[str, Any]
        asked = (
            {"sql": question}
            if isinstance(question, str)
            else {"query": question.to_json() if isinstance(question, Query) else question}
        )
        return self._send("POST", path, json=asked if epsilon is None else {**asked, "epsilon": epsilon})

    def _send(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        httpx = need("httpx", "a connection to a service", "online")
        client = self._opened()
        try:
            response = client.request(method, path, **options)
            content = response.json()
        except (httpx.ReadTimeout, httpx.ReadError, httpx.RemoteProtocolError) as error:
            slow = f"within {self._seconds:g} seconds (`timeout` waits longer)"
            words = f"{self.url} did not answer {slow if isinstance(error, httpx.ReadTimeout) else 'to the end'}"
            raise ServiceError(words + (_MAYBE if path in ("/query", "/synthetic") else "")) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ServiceError(f"{self.url} cannot be reached: {_words(error)}") from None
        except (ValueError, RecursionError):
            raise ServiceError(f"{self.url} did not answer like a statistical database") from None
        if response.status_code == 200 and isinstance(content, dict):
            return content
        raise _error(content, response.headers.get("retry-after"))

    def _opened(self) -> httpx.Client:
        if self._client is None:
            library = need("httpx", "a connection to a service", "online")
            made: httpx.Client = library.Client(
                base_url=self.url, headers={"Authorization": f"Bearer {self._key}"}, verify=self._trusted(),
                timeout=self._seconds, transport=self._transport,
            )  # fmt: skip
            self._client = made
        return self._client

    def _trusted(self) -> Any:
        """Say whose certificates to trust; without TLS none are loaded."""
        if not self.url.startswith("https") or isinstance(self._verify, bool):
            return self._verify if self.url.startswith("https") else False
        import ssl

        try:
            return ssl.create_default_context(cafile=str(self._verify))
        except (ssl.SSLError, OSError):
            raise PlanError(f"`verify`: {str(self._verify)!r} holds no certificates (PEM)") from None

    def _understood(self, read: Callable[[dict[str, Any]], _T], content: dict[str, Any]) -> _T:
        """Read what the service said; another version may say it otherwise."""
        try:
            return read(content)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            pass
        from discretion import __version__

        try:
            told = self._send("GET", "/health").get("version")
        except ServiceError:
            told = None
        other = f"the service runs version {str(told)[:40]}" if told else "the service does not tell its version"
        raise ServiceError(f"the answer of {self.url} has an unknown form: {other}, this is version {__version__}")


_LINE = ("id", "time", "user", "table", "kind", "digest", "refers", "hash")


def _line(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: entry[name] for name in _LINE} | {"cost": str(cost_of(entry["cost"]))}


def _checked_url(url: str) -> str:
    """Return the address without a slash at its end; warn when a key would travel readable through a network."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        raise PlanError(
            "the address of a service is written like https://host:port; it starts with http:// or https://"
        )
    if parts.username or parts.password:
        raise PlanError("the address of a service holds no name and no password; the key is given by itself")
    if parts.scheme == "http" and not _is_here(host):
        warnings.warn(
            f"the key and the answers travel without encryption to {host}: use https", UserWarning, stacklevel=4
        )
    return url.rstrip("/")


def _is_here(host: str) -> bool:
    """Say whether an address is the machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _words(error: Exception) -> str:
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "its certificate is not trusted; `verify` names a file with the certificates to trust"
    return type(error).__name__


def _error(content: Any, wait: str | None) -> DiscretionError:
    found = content.get("error") if isinstance(content, dict) else None
    if not isinstance(found, dict):
        return ServiceError("the service gave no reason")
    kind, reason = str(found.get("kind")), str(found.get("reason"))
    if kind == "BudgetExhausted":
        return BudgetExhausted(reason)
    if kind in ("QueryRefused", "QueryTimeout"):
        return QueryRefused(reason)
    return ServiceError(f"{reason} (in {wait} seconds)" if wait and wait.isdecimal() else reason)
