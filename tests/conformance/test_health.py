"""An agent that one request breaks: told once, with the request, and nothing else is run against it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from faulty_server import serve_app, serve_faulty
from judged import collect
from mutation import targets

from pytest_a2a_bench.conformance.card import fetch_card_async
from pytest_a2a_bench.conformance.finding import CheckResult

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]

BROKEN = {"type": "http.response.start", "status": 500, "headers": [(b"content-type", b"text/plain")]}


class Fragile:
    """Passes requests on until one of a certain method has been answered, and breaks then; at once without one.

    :param recovers: how many answers are broken until it works again.
    :param silently: whether a broken answer is none at all.
    """

    def __init__(self, app: Any, method: str, recovers: int = 1_000_000, *, silently: bool = False) -> None:
        self._silently = silently
        self._app, self._method, self._left = app, method, 0 if method else recovers
        self._recovers = recovers

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        message = await receive()
        while message.get("more_body"):
            further = await receive()
            message = {**further, "body": message["body"] + further["body"]}
        if self._left > 0:
            self._left -= 1
            if self._silently:
                await asyncio.Event().wait()
            await send(BROKEN)
            await send({"type": "http.response.body", "body": b"Internal Server Error"})
            return

        async def again() -> dict[str, Any]:
            return message

        await self._app(scope, again, send)
        if json.loads(message["body"] or b"{}").get("method") == self._method:
            self._left, self._method = self._recovers, ""


async def judge(
    method: str, *ids: str, concurrency: int, recovers: int = 1_000_000, silently: bool = False, timeout: float = 5.0
) -> dict[str, CheckResult]:
    groups = {"get-task", "cancel", "list-tasks", "validation"}
    async with (
        serve_faulty(variant="bare", transport="jsonrpc") as running,
        serve_app(Fragile(running.server.app, method, recovers, silently=silently)) as url,
    ):
        card, _, _ = await fetch_card_async(running.url)
        assert card is not None
        card["supportedInterfaces"] = [{**card["supportedInterfaces"][0], "url": url}]
        found = await collect(
            targets(url, card, timeout),
            select=lambda p: p.requirement.id in ids if ids else p.requirement.group in groups,
            concurrency=concurrency,
        )
    return {r.requirement.id: r for r in found}


@pytest.mark.parametrize("concurrency", [1, 16])
def test_it_is_told_once_and_after_which_request(concurrency: int) -> None:
    results = asyncio.run(judge("CancelTask", concurrency=concurrency))

    failed = [r for r in results.values() if r.outcome not in ("passed", "skipped")]
    assert len(failed) == 1
    (finding,) = failed[0].findings
    assert finding.found.startswith("the agent stopped working: GetTask for an unknown task")
    assert "CancelTask" in {e.method for e in finding.exchanges}
    if concurrency == 1:
        assert finding.exchanges[0].method == "CancelTask"
    others = [r for r in results.values() if r.requirement.group == "validation"]
    assert {r.outcome for r in others} == {"skipped"}
    told = failed[0].requirement.id
    assert {r.reason for r in others} == {f"could not be judged: the agent stopped working, see {told}[JSONRPC]"}


def test_an_agent_that_is_broken_for_a_moment_is_judged_on() -> None:
    results = asyncio.run(judge("CancelTask", concurrency=1, recovers=2))

    assert not [r for r in results.values() if "stopped working" in r.reason]
    assert {r.outcome for r in results.values() if r.requirement.group == "validation"} == {"passed"}


def test_an_agent_that_never_worked_is_not_said_to_have_stopped() -> None:
    results = asyncio.run(judge("", concurrency=1))

    assert not [r for r in results.values() if "stopped working" in r.reason]
    assert {r.outcome for r in results.values() if r.requirement.group == "validation"} == {"failed"}


@pytest.mark.slow
def test_an_agent_that_was_too_slow_for_a_while_is_asked_again_when_nothing_else_is_in_flight() -> None:
    # What the second check asks, and the three probes that follow; the fifth answer comes.
    ids = ("GET-001", "CAN-002", "CAN-003", "LIST-002")
    results = asyncio.run(judge("GetTask", *ids, concurrency=1, recovers=4, silently=True, timeout=3.0))

    # What was not made for that is made then.
    assert {r.outcome for r in results.values()} == {"passed", "inconclusive"}
    told = [r for r in results.values() if r.outcome not in ("passed", "skipped")]
    assert [r.outcome for r in told] == ["inconclusive"]
    assert "the agent stopped working" in told[0].reason
