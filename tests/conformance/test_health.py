"""An agent that one request breaks: told once, with the request, and nothing else is run against it."""

import asyncio
import dataclasses
from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

import pytest
from examples import some
from faulty.fault import Fault, refusing
from faulty_server import Between, Forward, Late, Send, interposed
from judged import collect
from mutation import results_of, targets

from pytest_a2a_bench.conformance import recurrence
from pytest_a2a_bench.conformance.catalogue import requirement
from pytest_a2a_bench.conformance.finding import FOUND, CheckResult, Exchange, Finding, Planned
from pytest_a2a_bench.conformance.grouping import fold
from pytest_a2a_bench.conformance.scenarios import Scenarios
from pytest_a2a_bench.conformance.session.health import BUSY, MOST_SECONDS, Pace
from pytest_a2a_bench.conformance.target import targets_of

BROKEN = {"type": "http.response.start", "status": 500, "headers": [(b"content-type", b"text/plain")]}


class Fragile(Between):
    """Passes requests on until one of a certain method has been answered, and breaks then; at once without one.

    :param recovers: how many answers are broken until it works again.
    :param silently: whether a broken answer is none at all.
    """

    def __init__(self, app: Any, method: str, recovers: int = 1_000_000, *, silently: bool = False) -> None:
        super().__init__(app)
        self._silently = silently
        self._method, self._left = method, 0 if method else recovers
        self._recovers = recovers

    async def handle(self, method: str, forward: Forward, send: Send) -> None:
        if self._left > 0:
            self._left -= 1
            if self._silently:
                await asyncio.Event().wait()
            await send(BROKEN)
            await send({"type": "http.response.body", "body": b"Internal Server Error"})
            return
        await forward(send)
        if method == self._method:
            self._left, self._method = self._recovers, ""


async def judge(
    method: str, *ids: str, concurrency: int, recovers: int = 1_000_000, silently: bool = False, timeout: float = 5.0
) -> dict[str, CheckResult]:
    groups = {"get-task", "cancel", "list-tasks", "validation"}
    async with interposed(lambda app: Fragile(app, method, recovers, silently=silently)) as (card, url, _):
        found = await collect(
            targets(url, card, timeout),
            select=lambda p: p.requirement.id in ids if ids else p.requirement.group in groups,
            concurrency=concurrency,
        )
    return {r.requirement.id: r for r in found}


@pytest.mark.parametrize("concurrency", [1, 16])
def test_it_is_reported_once_and_after_which_request(concurrency: int) -> None:
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
    expected = failed[0].requirement.id
    assert {r.reason for r in others} == {f"could not be judged: the agent stopped working, see {expected}[JSONRPC]"}


# Broken for a moment it is judged on, and one that never worked has not stopped.
@pytest.mark.parametrize(("method", "recovers", "outcome"), [("CancelTask", 2, "passed"), ("", 1_000_000, "failed")])
def test_an_agent_that_did_not_stop_is_not_said_to_have(method: str, recovers: int, outcome: str) -> None:
    results = asyncio.run(judge(method, concurrency=1, recovers=recovers))
    assert not [r for r in results.values() if "stopped working" in r.reason]
    assert {r.outcome for r in results.values() if r.requirement.group == "validation"} == {outcome}


@pytest.mark.slow
def test_an_agent_that_was_too_slow_for_a_while_is_asked_again_when_nothing_else_is_in_flight() -> None:
    # What the second check asks, and the three probes that follow; the fifth answer comes.
    ids = ("GET-001", "CAN-002", "CAN-003", "LIST-002")
    results = asyncio.run(judge("GetTask", *ids, concurrency=1, recovers=4, silently=True, timeout=3.0))
    # What was not made for that is made then.
    assert {r.outcome for r in results.values()} == {"passed", "inconclusive"}
    expected = [r for r in results.values() if r.outcome not in ("passed", "skipped")]
    assert [r.outcome for r in expected] == ["inconclusive"]
    assert "the agent stopped working" in expected[0].reason


# What depends on time counts only if it comes again: agents that are late once, and agents that are always late.


FOR_EVER = 60.0
"""Seconds longer than anything is waited for here."""


async def judge_recurrence(method: str, times: int, *ids: str) -> Mapping[str, CheckResult]:
    async with interposed(lambda app: Late(app, FOR_EVER, method, at="end", times=times), step=0.05) as (card, url, _):
        card["capabilities"] = {**card.get("capabilities", {}), "streaming": True}
        found = targets_of(card, url, scenarios=Scenarios({"task": "hi"}), timeout=2.0)
        results = await collect(found, select=lambda p: p.requirement.id in ids)
    return {r.requirement.id: r for r in results if r.binding == "JSONRPC"}


def test_a_check_that_is_late_once_is_inconclusive_with_both_evidences() -> None:
    results = asyncio.run(judge_recurrence("SendMessage", 1, "SEND-001", "SEND-002"))
    assert {r.outcome for r in results.values()} <= {"passed", "inconclusive"}
    assert "inconclusive" in {r.outcome for r in results.values()}
    (result, *_) = [r for r in results.values() if r.outcome == "inconclusive"]
    assert "no complete answer within 2 s" in result.reason
    first, second = result.findings[0], result.findings[-1]
    assert first.exchanges[0].problem
    assert [e.problem for e in second.exchanges] == [""] * len(second.exchanges) != []
    assert {f.severity for f in result.findings} == {"note"}


@pytest.mark.slow
def test_a_check_that_is_late_twice_is_an_error() -> None:
    results = asyncio.run(judge_recurrence("SendMessage", 1000, "SEND-001", "SEND-002"))
    assert {r.outcome for r in results.values()} == {"error"}
    assert all("--a2a-timeout" in r.reason for r in results.values())


def result(outcome: Any = "failed", **exchange: Any) -> CheckResult:
    seen = Exchange("JSONRPC", "GetTask", "http://h/", **exchange)
    return CheckResult(
        requirement("GET-001"), "JSONRPC", outcome, (Finding("GET-001", "error", "x", exchanges=(seen,)),)
    )


def test_only_what_depends_on_time_is_repeated() -> None:
    late = result(problem="no complete answer within 5 s")
    assert recurrence.wants_repeating(late)
    assert not recurrence.wants_repeating(result(status=200))
    assert not recurrence.wants_repeating(result("passed", problem="no complete answer within 5 s"))
    assert recurrence.is_known(late, frozenset({("JSONRPC", "GetTask")}))
    assert not recurrence.is_known(late, frozenset())
    # A check that took too long is made again, too.
    finding = dataclasses.replace(late.findings[0], found=f"{recurrence.TOO_LONG} 60 s", exchanges=())
    assert recurrence.wants_repeating(dataclasses.replace(late, findings=(finding,)))


@pytest.mark.parametrize("comes", [True, False])
def test_limits_grow_with_a_reference_exchange_that_is_made_once(comes: bool) -> None:
    asked = []

    async def exchange() -> bool:
        asked.append(1)
        await asyncio.sleep(0.01)
        return comes

    async def allowed() -> tuple[list[float], float]:
        pace = Pace(exchange)
        return [await pace.allow(1.0), *([] if comes else [await pace.allow(2.0)])], pace.slowest

    seconds, slowest = asyncio.run(allowed())
    assert seconds == [limit + min(MOST_SECONDS, BUSY * slowest) for limit in (1.0, 2.0)[: len(seconds)]]
    assert seconds[0] > 1.05
    assert slowest >= 0.01
    assert asked == [1], "each try of one that never comes would take the whole limit"


def test_a_skip_on_the_second_run_is_no_recurrence() -> None:
    first = result(problem="no complete answer within 5 s")
    busy = dataclasses.replace(first, outcome="skipped", findings=(), reason="agent or machine are too busy to tell")
    concluded = recurrence.conclude(first, busy, ())
    assert concluded.outcome == "inconclusive"
    assert "skipped (agent or machine are too busy to tell)" in concluded.reason


# -- an agent that answers now so and now otherwise is one finding, which explains the rest --


def _rows(fault: Fault, groups: Container[str] | None = None) -> list[CheckResult]:
    """Return the findings about an agent in the standard profile, all or those of some groups."""

    def select(planned: Planned) -> bool:
        wanted = groups is None or planned.requirement.group in groups
        return wanted and planned.requirement.version == "1.0" and planned.requirement.is_in("standard")

    return [result for result in fold(asyncio.run(results_of(fault, select=select))) if result.outcome in FOUND]


@pytest.mark.parametrize(
    ("switch", "words"),
    [
        pytest.param("third-fails", "an internal error for", marks=pytest.mark.slow),
        ("two-stores", "is there in 4 of 8 calls of GetTask: several instances without a shared store?"),
    ],
)
def test_an_agent_that_is_not_steady_is_one_finding_in_every_run(switch: str, words: str) -> None:
    for _ in some(range(2), 2):
        rows = _rows(Fault(switches=frozenset({switch})))
        assert [words in row.findings[0].found for row in rows] == [True], [row.findings[0].found for row in rows]
        assert rows[0].outcome == "failed"
        assert len(rows[0].explains) > 3
        assert len(rows[0].findings[0].exchanges) == 2


@pytest.mark.parametrize("groups", [{"send", "validation"}, pytest.param(None, marks=pytest.mark.slow)])
def test_a_crash_on_a_malformed_message_is_no_unsteadiness(groups: set[str] | None) -> None:
    # But for the member that they lack they are like messages that are answered: an ordinary one, and one of no parts.
    needed = {"messageId", "parts"}
    crash = refusing("SendMessage", lambda params: not needed <= set(params.get("message", needed)), "Internal")
    rows = _rows(replace(crash, waive=frozenset({"empty-parts"})), groups)
    found = {row.requirement.id: row.findings[0].found for row in rows}
    assert set(found) == {"VAL-002", "VAL-005"}
    assert not any("ordinary" in words for words in found.values())
