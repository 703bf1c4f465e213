"""What an agent cannot do by writing hostile replies: break us, hang us, or be excused for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from raw_agent import Request, raw_agent, response
from trials import run_against

from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.settings import Settings

KEY = TrialKey("tau2", "mock", "create_task_1", 0)
DEEP = 100_000


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


@pytest.mark.parametrize("transport", ["jsonrpc", "rest"])
@pytest.mark.parametrize("what", list(HOSTILE))
def test_nesting_is_the_agents_error(what: str, transport: str, tmp_path: Path) -> None:
    result = hold(tmp_path, HOSTILE[what](), transport=transport)
    print(what, result.status, result.termination_reason, rules(result), (result.error or "")[:3000])
    assert (result.status, result.reward) == ("evaluated", 0)
