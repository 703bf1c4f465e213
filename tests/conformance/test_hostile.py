"""Servers that mean no good: a finding within the time, never a hang, a traceback or a check that breaks."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from examples import sampled
from faulty_server import serve_app
from hostile import ANSWERS, Answer, drip, endless, hostile_app, html, huge
from judged import collect
from mutation import PROMPTS
from rotating import rotating

from pytest_a2a_bench.a2a.config import ClientConfig, Credentials
from pytest_a2a_bench.conformance.card import check_card, fetch_card_async
from pytest_a2a_bench.conformance.finding import CheckResult
from pytest_a2a_bench.conformance.target import targets_of
from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.reports.findings import wire_lines

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
    """Processor time for judging a server that answers at once, with a page of HTML."""
    asyncio.run(judge(html, IDS))  # for what is imported and compiled only once
    return seconds_of(lambda: asyncio.run(judge(html, IDS)))


def verify(results: tuple[CheckResult, ...]) -> None:
    broken = [r.reason for r in results if "bug of pytest-a2a-bench" in r.reason]
    noticed = [r for r in results if r.outcome in ("failed", "warned", "error")]
    shown = json.dumps([f.to_json() for r in results for f in r.findings])

    assert broken == []
    assert noticed
    assert SECRET not in shown
    assert all(len(e.response) < 100_000 for r in results for f in r.findings for e in f.exchanges)


# What drips is late everywhere, and each check of it waits twice.
@pytest.mark.parametrize(
    "answer", sampled([a for a in ANSWERS if a is not drip], 3), ids=lambda answer: answer.__name__
)
def test_calls_end_in_findings(answer: Answer, usual: float) -> None:
    results: list[CheckResult] = []
    spent = seconds_of(lambda: results.extend(asyncio.run(judge(answer, IDS))))

    verify(tuple(results))
    # Without bounds on what is read and searched a huge answer cost 450 times as much as a small one.
    assert spent < 250 * usual


def test_a_huge_answer_is_cut_and_told_as_an_answer() -> None:
    results = asyncio.run(judge(huge, ("GET-002",), timeout=30.0))

    found = [f for r in results for f in r.findings]
    exchanges = [e for f in found for e in f.exchanges]
    assert exchanges
    assert all("the answer is larger than 4000000 bytes, and was cut there" in f.found for f in found)
    assert not any("no answer" in line for e in exchanges for line in wire_lines(e))
    left_out = [int(e.response.rpartition("... (")[2].partition(" ")[0]) for e in exchanges]
    assert all(3_900_000 < number < 4_200_000 for number in left_out), "of a hundred million bytes"


@pytest.mark.slow
@pytest.mark.parametrize("answer", rotating(ANSWERS, 3), ids=lambda answer: answer.__name__)
def test_every_check_ends_in_a_finding_or_says_why_not(answer: Answer, usual: float) -> None:
    results: list[CheckResult] = []
    spent = seconds_of(lambda: results.extend(asyncio.run(judge(answer, None))))

    verify(tuple(results))
    # Some twenty times as many checks as what the usual was measured with; what is late is asked again, alone.
    assert spent < 25 * 40 * usual


@pytest.mark.parametrize("answer", sampled(ANSWERS, 3), ids=lambda answer: answer.__name__)
def test_cards_end_in_findings(answer: Answer, usual: float) -> None:
    async def fetch() -> list[Any]:
        listener = socket.create_server(("127.0.0.1", 0))
        async with serve_app(hostile_app(answer, listener.getsockname()[1], card=answer), listener) as url:
            try:
                card, served, findings = await fetch_card_async(url, timeout=2.0)
            except A2ABenchError as error:
                return [error]
            return [*findings, *(check_card(card, url=url, http=served) if card is not None else ())]

    found: list[Any] = []
    spent = seconds_of(lambda: found.extend(asyncio.run(fetch())))

    assert found
    # Without bounds on what is read and searched a huge answer cost 450 times as much as a small one.
    assert spent < 250 * usual


def test_an_endless_answer_costs_little_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    asyncio.run(judge(endless, ("STREAM-001", "STREAM-002")))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    assert grown < 300_000  # KB
