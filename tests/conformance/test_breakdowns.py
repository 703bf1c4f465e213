"""Valid requests that are answered with an error: each is a finding, told once, and what is skipped for it names it."""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faulty.catalogue import FAULTS
from faulty.fault import Fault, Json
from faulty.faults_errors import BREAKDOWNS, breaking
from faulty_server import TOKENS, serve_faulty
from judged import collect
from mutation import OTHER_TOKEN_ENV, targets
from rotating import rotating

from pytest_a2a_bench.conformance import checks
from pytest_a2a_bench.conformance.card import fetch_card_async
from pytest_a2a_bench.conformance.catalogue import load_requirements
from pytest_a2a_bench.conformance.finding import FOUND, CheckResult
from pytest_a2a_bench.conformance.grouping import fold

KNOWN = {r.id for version in ("1.0", "0.3") for r in load_requirements(version)}
# They send what is malformed, which is not what this is about.
ROUGH = {"validation", "errors", "versioning"}
JUDGE = re.compile(r"which (\S+) judges")


def _always(parameters: Json) -> bool:
    return True


def _named(parameters: Json) -> Any:
    return (parameters.get("message") or {}).get("taskId")


FURTHER: dict[str, tuple[str, Callable[[Json], Any]]] = {
    "get": ("GetTask", _always),
    "send": ("SendMessage", _always),
    "start": ("SendMessage", lambda p: (p.get("configuration") or {}).get("returnImmediately")),
    "follow-up": ("SendMessage", _named),
    "known-context": ("SendMessage", lambda p: (p.get("message") or {}).get("contextId")),
    "stream": ("SendStreamingMessage", _always),
    "subscribe": ("SubscribeToTask", _always),
    "cancel": ("CancelTask", _always),
    "list": ("ListTasks", _always),
    "push-create": ("CreateTaskPushNotificationConfig", _always),
    "push-get": ("GetTaskPushNotificationConfig", _always),
    "push-list": ("ListTaskPushNotificationConfigs", _always),
    "push-delete": ("DeleteTaskPushNotificationConfig", _always),
    "extended": ("GetExtendedAgentCard", _always),
}
EVERY = {**BREAKDOWNS, **FURTHER}


def judged(fault: Fault | None, monkeypatch: pytest.MonkeyPatch, variant: str = "full") -> list[CheckResult]:
    """Judge an agent with JSON-RPC alone, as the standard profile does."""
    if fault is not None:
        monkeypatch.setitem(FAULTS, "this", fault)
    monkeypatch.setenv(OTHER_TOKEN_ENV, TOKENS[1])

    async def run() -> list[CheckResult]:
        name = "this" if fault is not None else None
        async with serve_faulty(name, variant, step=0.05, transport="jsonrpc") as running:
            card, _, _ = await fetch_card_async(running.url)
            found = targets(running.url, card, 10.0, "standard")
            return list(await collect(found, select=lambda p: p.requirement.group not in ROUGH))

    return asyncio.run(run())


def told(results: list[CheckResult]) -> dict[str, str]:
    """Return the ids of what is found, each with what is told."""
    return {r.requirement.id: r.findings[0].found if r.findings else r.reason for r in results if r.outcome in FOUND}


@pytest.mark.parametrize("name", BREAKDOWNS)
def test_an_internal_error_in_answer_to_a_valid_request_is_told_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = judged(breaking(*BREAKDOWNS[name]), monkeypatch)

    rows = {r.requirement.id: r for r in fold(results) if r.outcome in FOUND}
    assert len(rows) == 1, told(results)
    (row,) = rows.values()
    assert row.outcome == "failed"
    assert row.requirement.id in FAULTS[f"break-{name}"].breaks or FAULTS[f"break-{name}"].breaks[0] in str(
        row.explains
    )
    assert "-32603" in row.findings[0].exchanges[-1].response


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["InvalidParams", "Internal"])
@pytest.mark.parametrize("name", rotating(list(EVERY), 3))
def test_what_is_skipped_for_an_error_names_a_requirement_that_fails(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = judged(breaking(*EVERY[name], kind), monkeypatch, "guarded" if name == "extended" else "full")

    found = told(results)
    assert found, name
    for result in results:
        judge = JUDGE.search(result.reason)
        if result.outcome == "skipped" and "did not work" in result.reason:
            assert judge is not None, (result.name, result.reason)
        if judge is not None:
            assert judge[1] in found, (result.name, result.reason)


def test_each_requirement_that_is_named_as_a_judge_exists() -> None:
    texts = [
        node.value
        for path in Path(str(checks.__file__)).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    judges = {m[0] for text in texts for m in re.finditer(r"\b(?:V03-)?[A-Z]+-\d{3}\b", text)}

    assert judges
    assert judges <= KNOWN


def test_a_correct_agent_is_left_in_peace_over_json_rpc_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(judged(None, monkeypatch)) == {}


def test_a_stream_that_stays_open_while_the_task_waits_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(judged(Fault(switches=frozenset({"open-input"})), monkeypatch)) == {}


def _awaits(node: ast.AST) -> bool:
    return isinstance(node, ast.Await)


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
        and not (isinstance(function, ast.AsyncFunctionDef) and not any(map(_awaits, ast.walk(function))))
    ]

    assert silent == []


def test_an_agent_without_contexts_is_not_told_of_messages_that_were_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    results = {r.requirement.id: r for r in judged(FAULTS["task-no-context"], monkeypatch)}

    assert results["MT-003"].outcome == "passed"
    assert results["MT-007"].reason == "the agent gives no contextId, which MT-001 judges"
    assert results["MT-001"].outcome == "failed"
    # One answer is evidence of one message, however often it is shared.
    for result in results.values():
        for finding in result.findings:
            assert len({id(e) for e in finding.exchanges}) == len(finding.exchanges)
