"""Servers that mean no good: a finding within the time, never a hang, a traceback or a check that breaks."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import time
from typing import Any

import pytest
from faulty_server import serve_app
from hostile import ANSWERS, Answer, endless, hostile_app
from mutation import PROMPTS

from pytest_a2a_bench.a2a import ClientConfig, Credentials
from pytest_a2a_bench.conformance.card import check_card, check_online_async, fetch_card_async
from pytest_a2a_bench.conformance.engine import collect
from pytest_a2a_bench.conformance.finding import CheckResult
from pytest_a2a_bench.conformance.session.target import targets_of
from pytest_a2a_bench.errors import A2ABenchError

TIMEOUT = 0.4
SECRET = "a-secret-that-stays-here"
# One of each way of asking, so that the whole stays short; the slow test below asks everything.
IDS = (
    "SEND-001",
    "STREAM-001",
    "STREAM-002",
    "SUB-004",
    "GET-001",
    "GET-002",
    "LIST-002",
    "CAN-003",
    "MT-003",
    "PUSH-009",
)


async def judge(answer: Answer, ids: tuple[str, ...] | None) -> tuple[tuple[CheckResult, ...], float]:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    async with serve_app(hostile_app(answer, port), listener) as url:
        card, _, _ = await fetch_card_async(url)
        assert card is not None
        config = ClientConfig(endpoint=url, auth=Credentials(SECRET))
        targets = targets_of(card, url, config=config, scenarios=PROMPTS, timeout=TIMEOUT)
        started = time.monotonic()
        results = await collect(targets, select=lambda p: ids is None or p.requirement.id in ids)
        return results, time.monotonic() - started


def verify(results: tuple[CheckResult, ...]) -> None:
    broken = [r.reason for r in results if "bug of pytest-a2a-bench" in r.reason]
    noticed = [r for r in results if r.outcome in ("failed", "warned", "error")]
    shown = json.dumps([f.to_json() for r in results for f in r.findings])

    assert broken == []
    assert noticed
    assert SECRET not in shown
    assert all(len(e.response) < 100_000 for r in results for f in r.findings for e in f.exchanges)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.__name__)
def test_calls_end_in_findings(answer: Answer) -> None:
    results, seconds = asyncio.run(judge(answer, IDS))

    verify(results)
    assert seconds < 20


@pytest.mark.slow
@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.__name__)
def test_every_check_ends_in_a_finding_or_says_why_not(answer: Answer) -> None:
    results, seconds = asyncio.run(judge(answer, None))

    verify(results)
    assert seconds < 180


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.__name__)
def test_cards_end_in_findings(answer: Answer) -> None:
    async def fetch() -> list[Any]:
        listener = socket.create_server(("127.0.0.1", 0))
        async with serve_app(hostile_app(answer, listener.getsockname()[1], card=answer), listener) as url:
            try:
                card, served, findings = await fetch_card_async(url, timeout=2.0)
            except A2ABenchError as error:
                return [error]
            return [*findings, *(check_card(card, url=url, http=served) if card is not None else ())]

    started = time.monotonic()
    found = asyncio.run(fetch())

    assert found
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.__name__)
def test_asking_whether_a_card_is_true_ends(answer: Answer) -> None:
    async def ask() -> list[Any]:
        listener = socket.create_server(("127.0.0.1", 0))
        async with serve_app(hostile_app(answer, listener.getsockname()[1]), listener) as url:
            card, _, _ = await fetch_card_async(url)
            return list(await check_online_async(card, url, token=SECRET, timeout=TIMEOUT))

    started = time.monotonic()
    found = asyncio.run(ask())

    assert found
    assert SECRET not in str(found)
    assert time.monotonic() - started < 20


def test_an_endless_answer_costs_little_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    asyncio.run(judge(endless, ("STREAM-001", "STREAM-002")))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    assert grown < 300_000  # KB
