"""Judging the judge: how many of the faulty agent's faults the checks notice, and which checks notice none."""

import ast
import asyncio
import re
from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from examples import rotating, sampled
from faulty.agent import OPERATIONS
from faulty.catalogue import CROSSED, FAULTS, SINGLE
from faulty.fault import VARIANTS, Fault, Json, refusing
from faulty.faults_errors import BREAKDOWNS
from faulty_server import TOKENS, start_faulty
from mutation import OTHER_TOKEN_ENV, judge, judge_again, judge_url, results_of

from pytest_a2a_bench.conformance import checks
from pytest_a2a_bench.conformance.catalogue import load_requirements
from pytest_a2a_bench.conformance.finding import FOUND, CheckResult
from pytest_a2a_bench.conformance.grouping import fold

ENOUGH = 0.95
# Served at once: each waits more than it works, but there are only so many cores.
AT_ONCE = 3


UNBREAKABLE = {
    "VER-005": "the agent has no 0.3 interface beside the one of 1.0",
    "VER-008": "uvicorn and gRPC hand every header name over in lower case",
    "AUTH-010": "a test's agent is on the loopback address, where TLS is not wanted",
    "AUTH-011": "the same",
}
"""Requirements that no fault of this agent can break, and why."""


class Killed(NamedTuple):
    """One fault, and whose checks noticed it.

    :param own: ids of its own requirements whose checks noticed it.
    """

    fault: Fault
    own: tuple[str, ...]


async def _kill_all(faults: Iterable[Fault], breadth: str = "full", *, once: bool = False) -> list[Killed]:
    """Judge each fault on every binding; or, where that shows it, on JSON-RPC alone."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def kill(fault: Fault) -> Killed:
        transport = "jsonrpc" if once and "JSONRPC" in fault.bindings else "all"
        async with slots:
            verdict = await judge(fault, ids=set(fault.breaks), breadth=breadth, transport=transport)
            return Killed(fault, tuple(sorted(verdict.rules & set(fault.breaks))))

    return list(await asyncio.gather(*map(kill, faults)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "variant"),
    [("1.0", v) for v in VARIANTS] + [("0.3", v) for v in ("full", "guarded", "bare", "strict", "signed")],
)
def test_the_correct_agent_has_no_finding(version: str, variant: str) -> None:
    is_full = version == "0.3" or variant in rotating(VARIANTS, len(VARIANTS), turn=1)
    breadth = "full" if is_full else "standard"
    with start_faulty(variant=variant, protocol=version, step=0.3) as agent:
        verdict = asyncio.run(judge_again(lambda: judge_url(agent.url, timeout=30.0, breadth=breadth)))
    assert verdict.rules == set(), verdict.lines
    assert len(verdict.checked) > {"1.0": 80, "0.3": 25}[version]


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_almost_every_fault_is_noticed_by_a_check_of_what_it_breaks(version: str) -> None:
    # With those of 1.0 that 0.3 has, too; each in one place only is tried below.
    faults = [f for f in FAULTS.values() if f.name in SINGLE or f.name.endswith("@0.3")]
    killed = asyncio.run(_kill_all(f for f in faults if f.version == version))
    survivors = [k.fault.name for k in killed if not k.own]
    assert len(survivors) < (1 - ENOUGH) * len(killed), survivors
    # Requirements with a check over the wire which notices no fault.
    checked = {r.id for r in load_requirements(version) if r.check and not r.uncheckable}
    idle = checked - {id for k in killed for id in k.own}
    assert idle == (set(UNBREAKABLE) if version == "1.0" else set()), survivors
    # Faults that a requirement's check does not notice, although another one's does.
    assert [f"{k.fault.name}: {id}" for k in killed if k.own for id in k.fault.breaks if id not in k.own] == []


@pytest.mark.slow
def test_faults_in_one_place_are_found_by_their_own_requirement() -> None:
    killed = asyncio.run(_kill_all(CROSSED[name] for name in rotating(sorted(CROSSED), 4)))
    assert [k.fault.name for k in killed if set(k.own) != set(k.fault.breaks)] == []


QUICK = (
    *("sign-stale", "accept-empty-parts", "state-lower-case", "stream-no-final", "list-no-status-filter"),
    *("cancel-unknown", "json-500", "any-version-grpc", "no-scope"),
    *("old-parts-no-kind", "continue-terminal@0.3", "get-unknown@0.3@GRPC"),
    *("old-no-get", "old-no-resubscribe", "old-other-id", "old-task-code", "old-no-kind", "old-states-of-1.0"),
    *("old-roles", "old-task-no-context", "old-data-list", "old-snake-case", "old-wrapped", "old-bare-events"),
    *("old-never-final", "old-config-bare", "never-block@0.3", "push-undeclared@0.3@JSONRPC"),
)


BY_DEFAULT = (
    *("id-as-text-in-results", "push-list-all", "push-put", "stream-burst", "list-newest-made-first"),
    *("list-context-prefix", "get-id-prefix", "id-as-number", "list-total-of-all", "list-offset", "stream-history"),
    *("message-new-context", "leaks-everything", "leaks-context", "rest-json-500", "cancel-old-state"),
    "subscribe-terminal@FAILED",
)
# What shows them is a wait in vain.
BY_WAITING = (
    *("push-first-only", "push-always-bearer", "push-forgets-waiting", "subscribe-stale", "cancel-not-waiting"),
    *("blocks-while-waiting", "endless-stream@FAILED"),
)


@pytest.mark.parametrize(
    ("names", "breadth"),
    [(QUICK, "full"), (BY_DEFAULT, "standard"), pytest.param(BY_WAITING, "standard", marks=pytest.mark.slow)],
    ids=["every-kind", "by-default", "by-waiting"],
)
def test_faults_are_noticed(names: tuple[str, ...], breadth: str) -> None:
    killed = asyncio.run(_kill_all((FAULTS[name] for name in names), breadth, once=True))
    assert [k.fault.name for k in killed if not k.own] == []


# Valid requests that are answered with an error: each is a finding, told once, and what is skipped for it names it.
# The others send what is malformed, which is not what this is about.
GENTLE = {r.group for r in load_requirements("1.0")} - {"validation", "errors", "versioning"}
JUDGE = re.compile(r"which (\S+) judges")


def _message(name: str) -> Callable[[Json], Any]:
    return lambda parameters: (parameters.get("message") or {}).get(name)


FURTHER: dict[str, tuple[str, Callable[[Json], Any]]] = {
    **{operation: (operation, lambda _: True) for operation in OPERATIONS},
    "start": ("SendMessage", lambda p: (p.get("configuration") or {}).get("returnImmediately")),
    "follow-up": ("SendMessage", _message("taskId")),
    "known-context": ("SendMessage", _message("contextId")),
}
EVERY = {**BREAKDOWNS, **FURTHER}


def judged(fault: Fault | None, variant: str = "full", groups: Container[str] = GENTLE) -> tuple[CheckResult, ...]:
    """Judge an agent with JSON-RPC alone, as the standard profile does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(OTHER_TOKEN_ENV, TOKENS[1])
        return asyncio.run(results_of(fault, variant, select=lambda p: p.requirement.group in groups))


def message(results: Iterable[CheckResult]) -> dict[str, str]:
    """Return the ids of what is found, each with what is told."""
    return {r.requirement.id: r.findings[0].found if r.findings else r.reason for r in results if r.outcome in FOUND}


@pytest.mark.parametrize("name", sampled(BREAKDOWNS, 40))
def test_an_internal_error_in_answer_to_a_valid_request_is_reported_once(name: str) -> None:
    results = judged(refusing(*BREAKDOWNS[name], "Internal"))

    rows = {r.requirement.id: r for r in fold(results) if r.outcome in FOUND}
    assert len(rows) == 1, message(results)
    (row,) = rows.values()
    assert row.outcome == "failed"
    assert row.requirement.id in FAULTS[f"break-{name}"].breaks or FAULTS[f"break-{name}"].breaks[0] in str(
        row.explains
    )
    assert "-32603" in row.findings[0].exchanges[-1].response


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["InvalidParams", "Internal"])
@pytest.mark.parametrize("name", rotating(list(EVERY), 3))
def test_a_skip_for_an_error_names_a_requirement_that_fails(name: str, kind: str) -> None:
    results = judged(refusing(*EVERY[name], kind), "guarded" if name == "GetExtendedAgentCard" else "full")

    found = message(results)
    assert found, name
    for result in results:
        judge = JUDGE.search(result.reason)
        if result.outcome == "skipped" and "did not work" in result.reason:
            assert judge is not None, (result.name, result.reason)
        if judge is not None:
            assert judge[1] in found, (result.name, result.reason)


def test_a_correct_agent_is_left_in_peace_over_json_rpc_alone() -> None:
    assert message(judged(None)) == {}


def test_each_finding_of_a_check_names_the_answers_that_show_it() -> None:
    # What several checks share was asked by one of them, so that the last answer to a check need not be the one.
    silent = [
        f"{path.name}:{call.lineno}"
        for path in Path(str(checks.__file__)).parent.glob("*.py")
        for function in ast.parse(path.read_text(encoding="utf-8")).body
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("fail", "warn")
        and len(call.args) < 2
        # A check that asks nothing has no answer to name.
        and not (
            isinstance(function, ast.AsyncFunctionDef)
            and not any(isinstance(node, ast.Await) for node in ast.walk(function))
        )
    ]

    assert silent == []


@pytest.mark.slow
def test_an_agent_without_contexts_is_not_told_of_messages_that_were_not_sent() -> None:
    groups = {"multi-turn", "send", "get-task", "list-tasks"}
    results = {r.requirement.id: r for r in judged(FAULTS["task-no-context"], groups=groups)}

    assert results["MT-003"].outcome == "passed"
    assert results["MT-007"].reason == "the agent gives no contextId"
    assert results["MT-001"].outcome == "failed"
    # One answer is evidence of one message, however often it is shared.
    for result in results.values():
        for finding in result.findings:
            assert len({id(e) for e in finding.exchanges}) == len(finding.exchanges)
