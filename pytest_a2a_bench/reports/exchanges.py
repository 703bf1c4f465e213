"""What a trial's requests said, from its recording (``--a2a-record``), and commands that say it again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_a2a_bench.a2a.codec import Form, write_send
from pytest_a2a_bench.a2a.messages import OutMessage
from pytest_a2a_bench.cassettes import library
from pytest_a2a_bench.cassettes.form import Exchange
from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.model import Part, TrialResult
from pytest_a2a_bench.redact import one_line, sanitise
from pytest_a2a_bench.reports.again import Recorded

_SHOWN = 20_000
# What is to be sent again has to be whole; a policy and its tools are some 30,000 characters.
_BODY = 400_000
_REQUESTS = 200


def recorded(directory: Path, token: str = "") -> Recorded:
    """Return what tells the requests of a trial; nothing of one that was not recorded, or cannot be read.

    :param directory: of ``--a2a-record``.
    :param token: the environment variable that holds the agent's token; its value is never in here.
    """

    def read(result: TrialResult) -> list[dict[str, Any]]:
        try:
            cassette = library.read(directory, result.key)
        except (A2ABenchError, OSError):
            return []
        # Recordings do not say where a request went; the trial does, by what it was.
        places = {m.method: m.endpoint for m in result.metrics}
        return [_told(e, places.get(e.method, ""), token) for e in cassette.exchanges[:_REQUESTS]]

    return read


def _told(exchange: Exchange, url: str, token: str) -> dict[str, Any]:
    body = _body(exchange, url)
    answer = exchange.events if exchange.error is None else [*exchange.events, {"error": exchange.error}]
    return {
        "method": one_line(exchange.method, 60),
        "status": exchange.status_code,
        "ms": round(exchange.seconds * 1000, 2),
        "request": _pretty(body if body is not None else exchange.request),
        "answer": _pretty(answer),
        "curl": "" if body is None else _curl(url, body, exchange, token),
    }


def _curl(url: str, body: Mapping[str, Any], exchange: Exchange, token: str) -> str:
    # ASCII: what agents said may hold characters that a shell or a terminal takes for something else.
    data = json.dumps(body)
    if len(data) > _BODY:
        return ""
    headers = ["Content-Type: application/json"]
    if _form(exchange.method, url) == "1.0":
        headers.append("A2A-Version: 1.0")
    words = ["curl", "-sS", *(word for h in headers for word in ("-H", shlex.quote(h)))]
    if token:
        words += ["-H", f'"Authorization: Bearer ${token}"']
    return " ".join([*words, "-d", shlex.quote(data), shlex.quote(one_line(url, 2_000))])


def _body(exchange: Exchange, url: str) -> dict[str, Any] | None:
    """Return the JSON that was sent; None where it was no message, or none over HTTP."""
    message = exchange.request.get("message")
    if exchange.request.get("operation") != "send" or not isinstance(message, dict) or not url.startswith("http"):
        return None
    try:
        parts = tuple(Part(**part) for part in message.get("parts", ()))
    except TypeError:
        return None
    # Its id is not recorded, and an agent may want another one for each message.
    out = OutMessage(
        "copied-1", parts, message.get("context_id"), message.get("task_id"), message.get("metadata") or {}
    )
    params = write_send(out, _form(exchange.method, url))
    if " " in exchange.method:
        return params
    return {"jsonrpc": "2.0", "id": "1", "method": exchange.method, "params": params}


def _form(method: str, url: str) -> Form:
    if " " in method:
        return "0.3-proto" if "/v1/message:" in url else "1.0"
    return "0.3" if "/" in method else "1.0"


def _pretty(value: Any) -> str:
    text = sanitise(json.dumps(value, indent=1, ensure_ascii=False))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}\n… {len(text) - _SHOWN:,} more characters"
