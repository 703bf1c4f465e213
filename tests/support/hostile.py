"""Servers that mean no good, behind a card that looks well."""

from __future__ import annotations

import asyncio
import functools
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from faulty.card import build_card
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

Answer = Callable[[Request], Awaitable[Response]]

_MEGABYTE = b" " * 1_000_000


def _task(request_id: Any, state: str = "TASK_STATE_COMPLETED") -> dict[str, Any]:
    status = {"state": state, "timestamp": "2026-01-01T00:00:00.000Z"}
    return {"jsonrpc": "2.0", "id": request_id, "result": {"task": {"id": "t", "contextId": "c", "status": status}}}


async def _request_id(request: Request) -> Any:
    try:
        body = json.loads(await request.body())
    except ValueError:
        return None
    return body.get("id") if isinstance(body, dict) else None


async def huge(request: Request) -> Response:
    """A hundred megabytes of JSON."""

    async def body() -> AsyncIterator[bytes]:
        yield b'{"jsonrpc": "2.0", "id": 1, "result": "'
        for _ in range(100):
            yield _MEGABYTE
        yield b'"}'

    return StreamingResponse(body(), media_type="application/json")


async def endless(request: Request) -> Response:
    """Events without end, as fast as they are taken."""
    request_id = await _request_id(request)
    event = f"data: {json.dumps(_task(request_id, 'TASK_STATE_WORKING'))}\n\n".encode()

    async def body() -> AsyncIterator[bytes]:
        while True:
            yield event
            await asyncio.sleep(0)

    return StreamingResponse(body(), media_type="text/event-stream")


async def endless_line(request: Request) -> Response:
    """One event that never ends."""

    async def body() -> AsyncIterator[bytes]:
        yield b"data: "
        while True:
            yield b"x" * 100_000
            await asyncio.sleep(0)

    return StreamingResponse(body(), media_type="text/event-stream")


async def drip(request: Request) -> Response:
    """One byte at a time, each within any timeout between bytes."""

    async def body() -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.05)

    return StreamingResponse(body(), media_type="application/json")


async def silent(request: Request) -> Response:
    """Nothing at all."""
    await asyncio.sleep(60)
    return Response()


async def deep(request: Request) -> Response:
    """Arrays in arrays, deeper than any parser's stack."""
    text = b'{"jsonrpc": "2.0", "id": 1, "result": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    return Response(text, media_type="application/json")


async def deep_objects(request: Request) -> Response:
    """Objects in objects, deep enough for a recursive walk and not for the parser."""
    text = b'{"jsonrpc": "2.0", "id": 1, "result": ' + b'{"task":' * 900 + b"1" + b"}" * 900 + b"}"
    return Response(text, media_type="application/json")


async def html(request: Request) -> Response:
    """A web page, called one."""
    return Response(b"<!doctype html><title>Sign in</title>", media_type="text/html")


async def image(request: Request) -> Response:
    """Bytes of an image, called JSON."""
    return Response(b"\x89PNG\r\n\x1a\n" + bytes(range(256)), media_type="application/json")


async def utf8(request: Request) -> Response:
    """Text that is not UTF-8."""
    return Response(b'{"jsonrpc": "2.0", "id": 1, "result": {"x": "\xff\xfe\xc3"}}', media_type="application/json")


async def surrogates(request: Request) -> Response:
    """Half of a character, a null byte and an escape sequence."""
    body = _task(await _request_id(request))
    body["result"]["task"]["id"] = "MARK"
    text = json.dumps(body).replace("MARK", r"\ud800 \u0000 \u001b[31m")
    return Response(text, media_type="application/json")


async def duplicates(request: Request) -> Response:
    """Every member twice, the second one different."""
    text = json.dumps(_task(await _request_id(request)))
    text = text.replace('"state": "TASK', '"state": "bogus", "state": "TASK').replace('"id": "t"', '"id": "t", "id": 5')
    return Response(text, media_type="application/json")


async def numbers(request: Request) -> Response:
    """Numbers that are none in JSON, or too large for a float."""
    text = b'{"jsonrpc": "2.0", "id": NaN, "result": {"task": {"id": Infinity, "x": 1e99999}}}'
    return Response(text, media_type="application/json")


async def long_number(request: Request) -> Response:
    """An integer of so many digits that reading it is refused."""
    text = b'{"jsonrpc": "2.0", "id": 1, "result": ' + b"9" * 100_000 + b"}"
    return Response(text, media_type="application/json")


async def elsewhere(request: Request) -> Response:
    """A redirect to somebody else."""
    return Response(status_code=307, headers={"location": "http://127.0.0.2:9/stolen"})


async def round_and_round(request: Request) -> Response:
    """A redirect to itself."""
    return Response(status_code=302, headers={"location": str(request.url)})


@functools.cache
def _bomb() -> bytes:
    return gzip.compress(_MEGABYTE * 100, 1)


async def gzip_bomb(request: Request) -> Response:
    """A few kilobytes that become a hundred megabytes."""
    return Response(_bomb(), media_type="application/json", headers={"content-encoding": "gzip"})


async def not_gzip(request: Request) -> Response:
    """Compressed, it says."""
    return Response(b"{}", media_type="application/json", headers={"content-encoding": "gzip"})


async def wrong_types(request: Request) -> Response:
    """An envelope in which nothing is what it should be."""
    body = {"jsonrpc": 2, "id": [1], "result": {"task": [1], "tasks": 5, "message": "m"}, "error": "no"}
    return Response(json.dumps(body), media_type="application/json")


async def nulls(request: Request) -> Response:
    """An envelope full of nothing."""
    body = {"jsonrpc": "2.0", "id": await _request_id(request), "result": {"task": {"id": None, "status": None}}}
    return Response(json.dumps(body), media_type="application/json")


ANSWERS: tuple[Answer, ...] = (
    huge,
    endless,
    endless_line,
    drip,
    silent,
    deep,
    deep_objects,
    html,
    image,
    utf8,
    surrogates,
    duplicates,
    numbers,
    long_number,
    elsewhere,
    round_and_round,
    gzip_bomb,
    not_gzip,
    wrong_types,
    nulls,
)


def hostile_app(answer: Answer, port: int, *, card: Answer | None = None) -> Starlette:
    """Return an application that answers every call in that way, and its card too if told to."""
    base = f"http://127.0.0.1:{port}"

    async def good_card(request: Request) -> Response:
        body = json.dumps(build_card("full", {"JSONRPC": f"{base}/", "HTTP+JSON": f"{base}/rest"}))
        return Response(body, media_type="application/json", headers={"cache-control": "max-age=60", "etag": '"1"'})

    verbs = ["GET", "POST", "DELETE"]
    return Starlette(
        routes=[
            Route("/.well-known/{name:path}", card or good_card, methods=["GET"]),
            Route("/{path:path}", answer, methods=verbs),
        ]
    )
