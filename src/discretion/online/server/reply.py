"""Answers of the service as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

NOTES = "discretion.notes"
"""Where a request keeps what the log shall say about it."""


def reply(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Give JSON in plain ASCII: no text that came in can break it."""
    body = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return Response(body, status, dict(headers or {}), "application/json")


def problem(status: int, kind: str, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    """Give the reason why there is no answer."""
    return reply({"error": {"kind": kind, "reason": reason}}, status, headers)
