"""The client against services that are slow, busy, older, newer or none at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

import discretion as dc
from discretion.online.client import Connection, ServiceError

URL = "http://127.0.0.1:8000"
COUNT = "SELECT count(*) FROM t"


def against(answer: Callable[[httpx.Request], httpx.Response]) -> tuple[Connection, list[str]]:
    """Give a connection whose requests a function answers, and the paths that it asked for."""
    asked: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return answer(request)

    return dc.connect(URL, "dk_key", transport=httpx.MockTransport(handle)), asked


def failing(error: type[Exception]) -> Callable[[httpx.Request], httpx.Response]:
    def handle(request: httpx.Request) -> httpx.Response:
        raise error("person 2 has 4711")

    return handle


def problem(status: int, kind: str, **headers: str) -> Callable[[httpx.Request], httpx.Response]:
    return lambda _: httpx.Response(status, json={"error": {"kind": kind, "reason": "why"}}, headers=headers)


@pytest.mark.parametrize("error", [httpx.ReadTimeout, httpx.ConnectTimeout, httpx.ReadError, httpx.RemoteProtocolError])
def test_a_question_is_sent_once_whatever_happens(error: type[Exception]) -> None:
    connection, asked = against(failing(error))
    with connection, pytest.raises(ServiceError) as told:
        connection.ask(COUNT)
    assert asked == ["/query"], "a question that is sent again could be charged again"
    assert "4711" not in str(told.value)
    assert ("may have been charged" in str(told.value)) == (error is not httpx.ConnectTimeout)
    connection, _ = against(failing(error))
    with connection, pytest.raises(ServiceError) as told:
        connection.tables()
    assert "charged" not in str(told.value)


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (402, "BudgetExhausted", dc.BudgetExhausted), (403, "QueryRefused", dc.QueryRefused),
        (504, "QueryTimeout", dc.QueryRefused), (403, "Forbidden", ServiceError), (401, "Unauthorized", ServiceError),
        (500, "InternalError", ServiceError), (503, "DataError", ServiceError), (418, "SomethingNew", ServiceError),
    ],
)  # fmt: skip
def test_errors_have_their_class_and_their_reason(status: int, kind: str, expected: type[Exception]) -> None:
    connection, asked = against(problem(status, kind))
    with connection, pytest.raises(expected, match="why"):
        connection.ask(COUNT)
    assert asked == ["/query"]


def test_too_many_requests_says_how_long_to_wait() -> None:
    connection, asked = against(problem(429, "TooManyRequests", **{"Retry-After": "17"}))
    with connection, pytest.raises(ServiceError, match="in 17 seconds"):
        connection.ask(COUNT)
    assert asked == ["/query"]


@pytest.mark.parametrize(
    "body", [{}, {"rows": 7}, {"columns": ["n"], "types": ["matrix"], "rows": [[1]]}, {"rows": [[]]}]
)
def test_another_version_is_named(body: dict[str, Any]) -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        health = {"status": "ok", "version": "99.0"}
        return httpx.Response(200, json=health if request.url.path == "/health" else body)

    connection, asked = against(handle)
    calls: list[Callable[[], Any]] = [
        lambda: connection.ask(COUNT), lambda: connection.dry_run(COUNT), connection.budget, connection.tables,
        connection.history, lambda: connection.refresh("t"),
    ]  # fmt: skip
    with connection:
        for call in calls:
            with pytest.raises(ServiceError, match=f"version 99.0, this is version {dc.__version__}"):
                call()
    assert asked.count("/query") == 1


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(200, text="<html>"), httpx.Response(200, json=[]), httpx.Response(301),
        httpx.Response(200, content=b"\xff\xfe"), httpx.Response(404, json={"detail": "Not Found"}),
        httpx.Response(200, content=b"[" * 100_000),
    ],
)  # fmt: skip
def test_what_is_no_statistical_database(response: httpx.Response) -> None:
    connection, _ = against(lambda _: response)
    with connection, pytest.raises(ServiceError):
        connection.tables()


@pytest.mark.parametrize("key", ["", "dk_…", "dk_a b", "dk_a\r\nX-Other: 1", "dk_\x00", "é"])
def test_keys_that_cannot_be_sent(key: str) -> None:
    with pytest.raises(dc.PlanError, match="not a key") as told:
        dc.connect(URL, key)
    assert not key or key not in str(told.value)


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8000", "ftp://x", "http://", "http://a:b@host", "http://h:99999", "http://h?x=1", "http://[::1"],
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(dc.PlanError, match="address"):
        dc.connect(url, "dk_key")


def test_a_timeout_is_above_nothing() -> None:
    for seconds in (0, -1, float("nan")):
        with pytest.raises(dc.PlanError, match="timeout"):
            dc.connect(URL, "dk_key", timeout=seconds)
    assert "dk_key" not in repr(dc.connect(URL, "dk_key", timeout=1))
