"""The built-in agents as real processes, through the project's own client and by hand."""

import json
import signal
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from builtin_server import served
from connections import Connect
from one_test import in_one_test

from pytest_a2a_bench import dialects
from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import Credentials
from pytest_a2a_bench.agents.brains import FAREWELL
from pytest_a2a_bench.agents.options import start_builtin
from pytest_a2a_bench.agents.server import Served
from pytest_a2a_bench.benchmarks.crmarena import ORG_DIALECTS
from pytest_a2a_bench.errors import AgentOutcomeError, ConfigurationError, TrialCancelledError
from pytest_a2a_bench.model import Briefing, Event, ToolCall, ToolReturned, ToolSpec, UserSaid

TASK = "tau2/mock/create_task_1"
TAG = {"a2a_bench": {"task": TASK, "trial": 0}}
BRIEFING = Briefing("Serve.", (ToolSpec("create_task", "Create.", {"type": "object", "properties": {}}),))
GOLD_CALL = ToolCall("create_task", {"user_id": "user_1", "title": "Important Meeting"})


def converse(connection: AgentConnection, dialect: str = "tool_call") -> list[Any]:
    """Play a trial's three turns and return what the agent meant: a call, a text, a text."""
    spoken = dialects.get(dialect)
    session = connection.session(TAG)
    meant: list[Any] = []
    turns: list[tuple[Briefing | None, Event]] = [
        (BRIEFING, UserSaid("A meeting, please.")),
        (None, ToolReturned("call_1", "create_task", '{"task_id": "task_2"}')),
        (None, UserSaid("Thanks.")),
    ]
    for briefing, event in turns:
        reply = session.send(spoken.encode_request(briefing, [event]))
        decoded = spoken.decode_reply(reply.parts, BRIEFING.tools)
        assert decoded.findings == ()
        meant.append([(c.name, c.arguments) for c in decoded.calls] or decoded.text)
    return meant


def check_play(meant: list[Any]) -> None:
    assert meant[0] == [(GOLD_CALL.name, GOLD_CALL.arguments)]
    assert meant[1].startswith("Everything that can be done")
    assert meant[2] == FAREWELL


@in_one_test("dialect", [name for name in dialects.names() if name not in ("auto", *ORG_DIALECTS)])
def test_a_fixed_dialect_is_kept(connect: Connect, dialect: str) -> None:
    with served(f"oracle?dialect={dialect}") as agent:
        session = connect(agent.url).session(TAG)
        reply = session.send(dialects.get("tool_call").encode_request(BRIEFING, [UserSaid("Hi.")]))
        decoded = dialects.get("auto").decode_reply(reply.parts, BRIEFING.tools)

        assert decoded.calls[0].name == "create_task"
        assert decoded.dialect == {"tool_list": "tool_call"}.get(dialect, dialect)
        # A client that settled writes in the agent's dialect from now on.
        result = ToolReturned("call_1", "create_task", "ok")
        reply = session.send(dialects.get(dialect).encode_request(None, [result]))
        assert "Everything that can be done" in str([p.data or p.text for p in reply.parts])


class TestReplies:
    def test_a_stream_of_a_task_has_chatter_artifact_and_end(self, builtin: Callable[[str], str]) -> None:
        events = stream(builtin("oracle?reply=task"))
        assert [next(iter(e["result"])) for e in events] == ["task", "statusUpdate", "artifactUpdate", "statusUpdate"]
        assert events[1]["result"]["statusUpdate"]["status"]["state"] == "TASK_STATE_WORKING"
        assert events[1]["result"]["statusUpdate"]["status"]["message"]["parts"]
        assert events[3]["result"]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"

    def test_an_untagged_trial_is_rejected_with_what_to_do(self, oracle_url: str, connect: Connect) -> None:
        with pytest.raises(AgentOutcomeError, match="--a2a-set tag-trials=on") as caught:
            connect(oracle_url).session().send(dialects.get("data").encode_request(BRIEFING, [UserSaid("Hi.")]))
        assert caught.value.state == "rejected"

    @in_one_test(("spec", "state"), [("noop?reply=task", "COMPLETED"), ("oracle", "REJECTED")])
    def test_a_text_may_be_empty(self, builtin: Callable[[str], str], spec: str, state: str) -> None:
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": ""}]}
        sent = rpc("SendMessage", {"message": message})
        answer = httpx.post(builtin(spec), json=sent, headers={"A2A-Version": "1.0"}).json()
        assert answer["result"]["task"]["status"]["state"] == f"TASK_STATE_{state}"

    @in_one_test("dedupe", ["on", "off"])
    def test_the_same_message_again_gets_the_same_answer_unless_that_is_off(self, dedupe: str) -> None:
        with served(f"oracle?dedupe={dedupe}") as agent:
            first = send(agent, "m1")
            again = send(agent, "m1", first["contextId"])
            later = send(agent, "m2", first["contextId"])
        assert (again["parts"] == first["parts"]) == (dedupe == "on")
        assert later["parts"] != first["parts"]

    @pytest.mark.slow
    @pytest.mark.parametrize("streaming", ["on", "off"])
    def test_a_turn_can_be_cancelled_and_the_agent_goes_on(self, connect: Connect, streaming: str) -> None:
        with start_builtin("oracle?latency=3600&reply=task") as agent:
            session = connect(agent.url, streaming=streaming).session(TAG)
            threading.Timer(0.3, session.cancel).start()
            with pytest.raises(TrialCancelledError):
                session.send(dialects.get("tool_call").encode_request(BRIEFING, [UserSaid("Hi.")]))
            session.finish()
            assert httpx.get(agent.card_url).status_code == 200
        # It ended by itself: what is stuck in the turn that nobody waits for is killed after some seconds.
        assert agent._process.returncode != -signal.SIGKILL


class TestCard:
    @pytest.mark.parametrize(
        ("protocol", "method", "path", "asked"),
        [("1.0", "message/send", "v1/message:send", "0.3"), ("0.3", "SendMessage", "message:send", "1.0")],
    )
    def test_only_one_version(self, connect: Connect, protocol: str, method: str, path: str, asked: str) -> None:
        with served(f"oracle?protocol={protocol}") as agent:
            card = httpx.get(agent.card_url).json()
            for transport in ("jsonrpc", "rest", "grpc"):
                check_play(converse(connect(agent.url, transport=transport)))
            version = {"A2A-Version": asked}
            other = httpx.post(agent.url, json=rpc(method, {}), headers=version).json()
            rest = httpx.post(f"{agent.url}rest/{path}", json={}, headers=version)

        assert {i["protocolVersion"] for i in card["supportedInterfaces"]} == {protocol}
        assert ("url" in card) is (protocol == "0.3")
        assert (other["error"]["code"], rest.status_code) == (-32601, 404)

    @pytest.mark.slow
    @pytest.mark.parametrize("transport", ["jsonrpc", "rest", "grpc"])
    def test_only_one_transport(self, connect: Connect, transport: str) -> None:
        with served(f"oracle?transport={transport}") as agent:
            card = httpx.get(agent.card_url).json()
            check_play(converse(connect(agent.url)))
            rpc_status = httpx.post(agent.url, json=rpc("SendMessage", {})).status_code
            rest_status = httpx.post(f"{agent.url}rest/message:send", json={}).status_code
        assert len(card["supportedInterfaces"]) == 2
        assert (rpc_status == 404, rest_status == 404) == (transport != "jsonrpc", transport != "rest")

    def test_without_streaming_the_card_says_so_and_streams_are_refused(self, connect: Connect) -> None:
        with served("oracle?streaming=off") as agent:
            card = httpx.get(agent.card_url).json()
            check_play(converse(connect(agent.url)))
            refused = httpx.post(
                agent.url, json=rpc("SendStreamingMessage", request("m", None)), headers={"A2A-Version": "1.0"}
            ).json()
        assert card["capabilities"].get("streaming", False) is False
        assert refused["error"]["code"] == -32004

    def test_another_card_url_is_shown(self) -> None:
        with served("oracle?card_url=http://agent.example:8080/base/") as agent:
            card = httpx.get(agent.card_url).json()
        urls = [i["url"] for i in card["supportedInterfaces"][:2]]
        assert urls == ["http://agent.example:8080/base/", "http://agent.example:8080/base/rest"]
        assert card["supportedInterfaces"][2]["url"].startswith("http://agent.example:")


class TestAuthentication:
    def test_the_token_opens_every_transport_and_anything_else_is_a_401(
        self, connect: Connect, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TEST_AGENT_TOKEN", "open-sesame")
        with served("oracle?auth_env=TEST_AGENT_TOKEN") as agent:
            for header in (None, "Bearer wrong", "open-sesame", "Basic open-sesame"):
                headers = {"Authorization": header} if header else {}
                reply = httpx.post(agent.url, json=rpc("SendMessage", {}), headers=headers)
                assert (reply.status_code, reply.headers["WWW-Authenticate"]) == (401, "Bearer"), header

            # gRPC listens on a port of its own, which is another origin: it must be allowed by hand.
            card = httpx.get(agent.card_url).json()
            origins = tuple(i["url"] for i in card["supportedInterfaces"] if i["protocolBinding"] == "GRPC")
            key = Credentials("open-sesame")
            for transport in ("jsonrpc", "rest", "grpc"):
                check_play(converse(connect(agent.url, transport=transport, auth=key, allowed_origins=origins)))

    def test_a_token_that_is_not_set_is_said_at_the_start(self) -> None:
        with pytest.raises(ConfigurationError, match="NOT_SET_AT_ALL, which is not set"):
            with served("oracle?auth_env=NOT_SET_AT_ALL"):
                pass


def test_conversations_beyond_the_limit_are_forgotten_and_tasks_with_them(connect: Connect) -> None:
    with served("oracle?contexts=2&reply=task") as agent:
        first = send(agent, "a", path="task")
        for number in range(3):
            send(agent, f"m{number}", path="task")
        lost = httpx.post(agent.url, json=rpc("GetTask", {"id": first["id"]}), headers={"A2A-Version": "1.0"}).json()
        again = send(agent, "b", first["contextId"], path="task")
    assert lost["error"]["code"] == -32001
    assert "create_task" in again["artifacts"][0]["parts"][0]["text"]


def rpc(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def request(message_id: str, context_id: str | None) -> dict[str, Any]:
    parts = dialects.get("tool_call").encode_request(BRIEFING if context_id is None else None, [UserSaid("Hi.")])
    message: dict[str, Any] = {
        "messageId": message_id,
        "role": "ROLE_USER",
        "parts": [{"text": p.text} for p in parts],
        "metadata": TAG,
    }
    return {"message": message | ({"contextId": context_id} if context_id else {})}


def send(agent: Served, message_id: str, context_id: str | None = None, path: str = "message") -> dict[str, Any]:
    body = rpc("SendMessage", request(message_id, context_id))
    result: dict[str, Any] = httpx.post(agent.url, json=body, headers={"A2A-Version": "1.0"}).json()["result"][path]
    return result


def stream(url: str) -> list[dict[str, Any]]:
    body = rpc("SendStreamingMessage", request("s", None))
    with httpx.stream("POST", url, json=body, headers={"A2A-Version": "1.0"}) as response:
        return [json.loads(line[5:]) for line in response.iter_lines() if line.startswith("data:")]
