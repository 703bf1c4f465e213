"""Servers whose answers have no end or no bounds: a finding within the time and the memory, never a hang.

What is merely malformed is in ``test_checks_basic``, and the like of cards in ``test_card_fetch``.
"""

import asyncio
import dataclasses
import functools
import gzip
import json
import resource
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from examples import rotating, sampled
from faulty.card import build_card
from faulty_server import serve_app
from judged import collect
from mutation import PROMPTS
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from pytest_a2a_bench.a2a.config import ClientConfig, Credentials
from pytest_a2a_bench.conformance.card.fetch import fetch_card_async
from pytest_a2a_bench.conformance.finding import CheckResult
from pytest_a2a_bench.conformance.target import targets_of
from pytest_a2a_bench.reports.findings import wire_lines

Answer = Callable[[Request], Awaitable[Response]]

_MEGABYTE = b" " * 1_000_000
_STATUS = {"state": "TASK_STATE_WORKING", "timestamp": "2026-01-01T00:00:00.000Z"}
_EVENT = {"jsonrpc": "2.0", "id": 1, "result": {"task": {"id": "t", "contextId": "c", "status": _STATUS}}}
STREAM = "text/event-stream"


def streamed(
    first: bytes, piece: bytes, media: str = "application/json", *, pieces: int = 1_000_000_000, pause: float = 0.0
) -> Answer:
    """Answer with pieces, each after a pause: without end by default."""

    async def answer(request: Request) -> Response:
        async def body() -> AsyncIterator[bytes]:
            yield first
            for _ in range(pieces):
                yield piece
                await asyncio.sleep(pause)

        return StreamingResponse(body(), media_type=media)

    return answer


async def silent(request: Request) -> Response:
    await asyncio.sleep(60)
    return Response()


async def round_and_round(request: Request) -> Response:
    return Response(status_code=302, headers={"location": str(request.url)})


@functools.cache
def _bomb() -> bytes:
    return gzip.compress(_MEGABYTE * 100, 1)


async def bomb(request: Request) -> Response:
    return Response(_bomb(), media_type="application/json", headers={"content-encoding": "gzip"})


async def page(request: Request) -> Response:
    """A web page, which is no hostility, and what the others are compared with."""
    return Response("<!doctype html><title>Sign in</title>", media_type="text/html")


# In this order: the first is tried in each run.
ANSWERS: dict[str, Answer] = {
    "a hundred megabytes": streamed(b'{"jsonrpc": "2.0", "id": 1, "result": "', _MEGABYTE, pieces=100),
    "events without end": streamed(b"", b"data: " + json.dumps(_EVENT).encode() + b"\n\n", STREAM),
    "one event without end": streamed(b"data: ", b"x" * 100_000, STREAM),
    "kilobytes that become a hundred megabytes": bomb,
    "nothing at all": silent,
    # Each within any timeout between bytes.
    "one byte at a time": streamed(b" ", b" ", pause=0.05),
    "a redirect to itself": round_and_round,
}


def hostile_app(answer: Answer, port: int) -> Starlette:
    """Return an application that answers every call in that way."""
    base = f"http://127.0.0.1:{port}"

    async def card(request: Request) -> Response:
        body = json.dumps(build_card("full", {"JSONRPC": f"{base}/", "HTTP+JSON": f"{base}/rest"}))
        return Response(body, media_type="application/json", headers={"cache-control": "max-age=60", "etag": '"1"'})

    verbs = ["GET", "POST", "DELETE"]
    return Starlette(
        routes=[Route("/.well-known/{name:path}", card, methods=["GET"]), Route("/{path:path}", answer, methods=verbs)]
    )


TIMEOUT = 0.4
SECRET = "a-secret-that-stays-here"
# One of each way of asking, so that the whole stays short; the slow test below asks everything.
IDS = tuple("SEND-001 STREAM-001 STREAM-002 SUB-004 GET-001 GET-002 LIST-002 CAN-003 MT-003 PUSH-009".split())


async def judge(answer: Answer, ids: tuple[str, ...] | None, timeout: float = TIMEOUT) -> tuple[CheckResult, ...]:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    async with serve_app(hostile_app(answer, port), listener) as url:
        card, _, _ = await fetch_card_async(url)
        assert card is not None
        config = ClientConfig(endpoint=url, auth=Credentials(SECRET))
        targets = targets_of(card, url, config=config, scenarios=PROMPTS, timeout=timeout)
        return await collect(targets, select=lambda p: ids is None or p.requirement.id in ids)


def seconds_of(asking: Callable[[], object]) -> float:
    """Return the processor time that something takes, which other processes do not lengthen."""
    started = time.process_time()
    asking()
    return time.process_time() - started


@pytest.fixture(scope="module")
def usual() -> float:
    """Processor time for judging a server that answers at once."""
    asyncio.run(judge(page, IDS))  # for what is imported and compiled only once
    return seconds_of(lambda: asyncio.run(judge(page, IDS)))


# What drips is late everywhere, and each check of it waits twice.
FEW = [pytest.param(*p.values, IDS, 1, marks=p.marks) for p in sampled(list(ANSWERS)[:5], 5)]
# Some twenty times as many checks as what the usual was measured with; what is late is asked again, alone.
ALL = [pytest.param(name, None, 8, marks=pytest.mark.slow) for name in rotating(list(ANSWERS), 3)]


@pytest.mark.parametrize(
    ("name", "ids", "times"), [*FEW, *ALL], ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_check_ends_in_a_finding_or_why(name: str, ids: tuple[str, ...] | None, times: int, usual: float) -> None:
    results: list[CheckResult] = []
    spent = seconds_of(lambda: results.extend(asyncio.run(judge(ANSWERS[name], ids))))

    broken = [r.reason for r in results if "bug of pytest-a2a-bench" in r.reason]
    shown = json.dumps([dataclasses.asdict(f) for r in results for f in r.findings])
    assert broken == []
    assert [r for r in results if r.outcome in ("failed", "warned", "error")]
    assert SECRET not in shown
    assert all(len(e.response) < 100_000 for r in results for f in r.findings for e in f.exchanges)
    # Without bounds on what is read and searched a huge answer cost 450 times as much as a small one.
    assert spent < 250 * times * usual


def test_a_huge_answer_is_cut_and_told_as_an_answer() -> None:
    results = asyncio.run(judge(ANSWERS["a hundred megabytes"], ("GET-002",), timeout=30.0))
    found = [f for r in results for f in r.findings]
    exchanges = [e for f in found for e in f.exchanges]
    assert exchanges
    assert all("the answer is larger than 4000000 bytes, and was cut there" in f.found for f in found)
    assert not any("no answer" in line for e in exchanges for line in wire_lines(e))
    left_out = [int(e.response.rpartition("... (")[2].partition(" ")[0]) for e in exchanges]
    assert all(3_900_000 < number < 4_200_000 for number in left_out), "of a hundred million bytes"


@pytest.mark.slow
def test_an_endless_answer_costs_little_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    asyncio.run(judge(ANSWERS["events without end"], ("STREAM-002",)))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 300_000  # KB
