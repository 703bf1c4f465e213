"""Callers' mistakes on the wire: answers name the method or the field, and nothing writes a traceback into the log."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from assessor_server import LOCAL, Caller, ask_raw, gen3, served

from pytest_a2a_bench.assessor.result import whole_numbers
from pytest_a2a_bench.assessor.terms import Terms


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(Terms(tmp_path_factory.mktemp("wire") / "results", guard=LOCAL)) as found:
        yield found


def old(**changes: Any) -> dict[str, Any]:
    """Return a message of A2A 0.3; None leaves a member out."""
    whole = {"kind": "message", "role": "user", "messageId": "m", "parts": [{"kind": "text", "text": "x"}], **changes}
    return {name: value for name, value in whole.items() if value is not None}


def new(**changes: Any) -> dict[str, Any]:
    """Return a message of A2A 1.0; None leaves a member out."""
    whole = {"role": "ROLE_USER", "messageId": "m", "parts": [{"text": "x"}], **changes}
    return {name: value for name, value in whole.items() if value is not None}


def call(url: str, method: str, message: dict[str, Any], path: str = "") -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"message": message}}
    headers = {} if "/" in method else {"A2A-Version": "1.0"}
    answer: dict[str, Any] = httpx.post(f"{url}{path}", json=body, headers=headers, timeout=60).json()
    assert answer["id"] == 7
    return answer


@pytest.mark.parametrize("path", ["", "a2a/messages"])
def test_a_method_that_is_none_is_answered_with_the_one_that_is_meant(url: str, path: str) -> None:
    error = call(url, "send_message", old(), path)["error"]
    assert error["code"] == -32601
    assert error["message"].endswith("did you mean SendMessage (A2A 1.0) or message/send (A2A 0.3)?")
    assert "there are SendMessage, " in call(url, "xyz", old(), path)["error"]["message"]


@pytest.mark.parametrize(
    ("method", "message", "field"),
    [
        ("message/send", old(role="agent"), "message.role"),
        ("message/stream", old(role="agent"), "message.role"),
        ("message/send", old(role="boss"), "message.role"),
        ("message/send", old(messageId=None), "message.messageId"),
        ("message/send", old(contextId=7), "message.contextId"),
        ("message/send", old(parts=[]), "message.parts"),
        ("message/send", old(parts=None), "message.parts"),
        ("SendMessage", new(role="ROLE_AGENT"), "message.role"),
        ("SendStreamingMessage", new(role="ROLE_AGENT"), "message.role"),
        ("SendMessage", new(messageId=None), "message.message_id"),
        ("SendMessage", new(parts=[{"raw": "%"}]), "message.parts[0].raw"),
    ],
)
def test_a_callers_mistake_names_its_field(
    url: str, method: str, message: dict[str, Any], field: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        error = call(url, method, message)["error"]
    assert (error["code"], f'"field": "{field}"' in json.dumps(error)) == (-32602, True), error
    assert not [record for record in caplog.records if record.exc_info]


def test_rest_names_it_too(url: str) -> None:
    for path, message in (("rest/message:send", new(role="ROLE_AGENT")), ("rest/v1/message:send", old(role="agent"))):
        answer = httpx.post(f"{url}{path}", json={"message": message}, headers={"A2A-Version": "1.0"})
        assert (answer.status_code, "message.role is" in answer.text) == (400, True), answer.text


def test_older_clients_find_the_card(url: str) -> None:
    paths = (".well-known/agent-card.json", ".well-known/agent.json")
    first, second = (httpx.get(url + path).json() for path in paths)
    assert first == second


def test_whole_numbers_are_whole(url: str, oracle_url: str) -> None:
    assert whole_numbers('{"a": 20.0, "b": [0.5, -0.0, 1e300], "c": "2.0"}') == '{"a":20,"b":[0.5,0,1e+300],"c":"2.0"}'
    request = gen3(oracle_url, domain="mock", num_tasks=1, tag_trials=True)
    polled = ask_raw(url, request)["artifacts"][0]["parts"][1]["data"]
    streamed = Caller(url).ask(request)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": streamed.task}}
    in_0_3 = httpx.post(url, json=body).json()["result"]["artifacts"][0]["parts"][1]["data"]
    rest = httpx.get(f"{url}rest/tasks/{streamed.task}", headers={"A2A-Version": "1.0"}).json()
    for result in (polled, in_0_3, rest["artifacts"][0]["parts"][1]["data"]):
        numbers = (result["score"], result["max_score"], result["results"][0]["num_turns"], result["errors"]["count"])
        assert all(type(number) is int for number in numbers), result
        assert type(result["intervals"]["pass_rate"]["low"]) is float


def test_events_of_a_stream_have_whole_numbers(url: str, oracle_url: str) -> None:
    part = {"text": json.dumps(gen3(oracle_url, domain="mock", num_tasks=1, tag_trials=True))}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": new(parts=[part])}}
    with httpx.stream("POST", url, json=body, headers={"A2A-Version": "1.0"}, timeout=120) as stream:
        events = [json.loads(line[6:])["result"] for line in stream.iter_lines() if line.startswith("data: ")]
    [artifact] = [event["artifactUpdate"]["artifact"] for event in events if "artifactUpdate" in event]
    assert type(artifact["parts"][1]["data"]["max_score"]) is int
