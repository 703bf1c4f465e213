"""What an agent cannot do by writing hostile replies: break us, hang us, or be excused for it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from examples import VARIABLE
from raw_agent import Request, raw_agent, response
from trials import run_against

from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.dialects.scan import RAW_LIMIT
from pytest_a2a_bench.model import TrialKey, TrialResult

KEY = TrialKey("tau2", "mock", "create_task_1", 0)
DEEP = 100_000 if os.environ.get(VARIABLE) else 5_000
"""Far deeper than anything in Python goes; the deeper, the longer the texts that are searched in vain."""


def nested(depth: int, inner: str = "1", kind: str = "[]") -> str:
    """Write JSON of so many levels as text; nothing here could build or dump the value itself."""
    if kind == "[]":
        return "[" * depth + inner + "]" * depth
    return '{"a": ' * depth + inner + "}" * depth


def call(arguments: str, name: str = "create_task") -> str:
    return f'{{"tool_calls": [{{"name": "{name}", "arguments": {arguments}}}]}}'


def text_part(text: str) -> str:
    return json.dumps({"text": text})


def data_part(data: str) -> str:
    return f'{{"data": {data}}}'


def hold(
    folder: Path, parts: list[str], *, transport: str = "jsonrpc", metadata: str = "{}", **options: Any
) -> TrialResult:
    """Hold one trial with an agent that always answers with some parts, written as JSON text."""
    message = f'{{"messageId": "m", "role": "ROLE_AGENT", "parts": [{", ".join(parts)}], "metadata": {metadata}}}'

    def answer(request: Request) -> bytes:
        result = f'{{"message": {message}}}'
        if transport == "rest":
            return response(result)
        return response(f'{{"jsonrpc": "2.0", "id": {json.dumps(request.json["id"])}, "result": {result}}}')

    with raw_agent(answer) as agent:
        binding = {"jsonrpc": "JSONRPC", "rest": "HTTP+JSON"}[transport]
        agent.card["supportedInterfaces"][0]["protocolBinding"] = binding
        [result] = run_against(agent.url, Settings(timeout=60, max_steps=12, **options), [KEY], folder)
    return result


def rules(result: TrialResult) -> set[str]:
    return {f.rule for f in result.findings}


HOSTILE: dict[str, Callable[[], list[str]]] = {
    "text": lambda: [text_part(nested(DEEP))],
    "call in text": lambda: [text_part(call(f'{{"title": {nested(DEEP)}}}'))],
    "objects in text": lambda: [text_part(call(f'{{"title": {nested(DEEP, kind="{}")}}}'))],
    "data": lambda: [data_part(nested(DEEP))],
    "data of 900": lambda: [data_part(nested(900))],
    "data of 90": lambda: [data_part(nested(90))],
    "data of 70": lambda: [data_part(nested(70))],
    "call in data": lambda: [data_part(call(f'{{"title": {nested(900)}}}'))],
    "call of 66 in data": lambda: [data_part(call(f'{{"title": {nested(66)}}}'))],
    "arguments as text": lambda: [data_part(call(json.dumps(nested(DEEP, kind="{}"))))],
    "arguments as text of 66": lambda: [data_part(call(json.dumps(nested(66, kind="{}"))))],
    "wrappers": lambda: [data_part('{"tool_call": ' * 70 + "{}" + "}" * 70)],
    "actions": lambda: [data_part('{"action": ' * 60 + "{}" + "}" * 60)],
    "part metadata": lambda: [f'{{"text": "hello", "metadata": {nested(900, kind="{}")}}}'],
    "infinite": lambda: [data_part(call('{"title": 1e999}'))],
}


def check_blame(result: TrialResult, what: str) -> None:
    """Check that the agent is blamed, in few words."""
    assert (result.status, result.reward, result.error) == ("evaluated", 0, None)
    assert result.termination_reason in ("user_stop", "agent_error")
    # Brackets alone look like no call: they are words, however many.
    assert what == "text" or rules(result) & {"limit-depth", "unreadable-call"}
    assert all(len(f.message) < 2_000 and len(f.raw) <= RAW_LIMIT for f in result.findings)


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=[pytest.mark.slow] * what.endswith(" in text")) for what in HOSTILE]
)
def test_nesting_is_the_agents_error(what: str, tmp_path: Path) -> None:
    check_blame(hold(tmp_path, HOSTILE[what]()), what)


@pytest.mark.slow
@pytest.mark.parametrize("what", list(HOSTILE))
def test_nesting_is_the_agents_error_over_rest(what: str, tmp_path: Path) -> None:
    check_blame(hold(tmp_path, HOSTILE[what](), transport="rest"), what)


def test_deep_metadata_of_a_message_is_the_agents_error(tmp_path: Path) -> None:
    result = hold(tmp_path, [text_part("hello")], metadata=nested(900, kind="{}"))
    assert (result.status, result.termination_reason, rules(result)) == ("evaluated", "agent_error", {"limit-depth"})
    [finding] = result.findings
    assert "--a2a-set reply-limits=depth=64" in finding.message


def create(title: str) -> str:
    """Write arguments with a title of some JSON."""
    return f'{{"user_id": "user_1", "title": {title}}}'


STRANGE = {
    "a number of 4,000 digits": create("9" * 4_000),
    "a number of 5,000 digits": create("9" * 5_000),
    "a half surrogate": r'{"user_id": "user_1", "title": "\ud800"}',
    "a half surrogate as a name": r'{"user_id": "user_1", "title": "x", "\udfff": 1}',
    "a zero character": r'{"user_id": "user_1", "title": "\u0000"}',
    "names of the method's own arguments": '{"self": 1, "tool_name": "x", "requestor": "user"}',
    "as deep as may be": create(nested(60)),
    "a large float": '{"user_id": "user_1", "title": "x", "description": 1e308}',
    "a list for a name": '{"user_id": ["user_1"], "title": {}}',
    "a long text": create(json.dumps("x" * 300_000)),
}


@pytest.mark.parametrize("what", list(STRANGE))
def test_strange_arguments_reach_the_tools_and_upstreams_hashes(what: str, tmp_path: Path) -> None:
    result = hold(tmp_path, [data_part(call(STRANGE[what]))])
    assert (result.status, result.error) == ("evaluated", None)
    if what == "a number of 5,000 digits":  # Python itself reads none so large
        assert "unreadable-call" in rules(result)
    else:
        assert result.tool_calls


def test_not_more_calls_than_allowed_are_carried_out(tmp_path: Path) -> None:
    one = {"name": "create_task", "arguments": {"user_id": "user_1", "title": "x"}}
    result = hold(tmp_path, [json.dumps({"data": {"tool_calls": [one] * 1_000}})], reply_limits={"calls": 3})
    assert {len(t.calls) for t in result.transcript if t.role == "agent"} <= {0, 3}
    [finding] = [f for f in result.findings if f.rule == "limit-calls"][:1]
    assert finding.message == (
        "the reply has 1000 calls; only the first 3 are carried out (--a2a-set reply-limits=calls=3)"
    )
    assert (result.status, result.error) == ("evaluated", None)
