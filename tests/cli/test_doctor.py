"""``a2a-bench doctor URL``: an agent is met, over real HTTP."""

import json
from pathlib import Path

import pytest
from builtin_server import served
from commands import command
from raw_agent import MESSAGE, raw_agent, rpc, scripted

from pytest_a2a_bench.agents.brain import BrainReply, Conversation
from pytest_a2a_bench.cli import doctor as doctor_command
from pytest_a2a_bench.model import AgentSaid, ToolCall, ToolReturned, Usage


class Clerk:
    """Looks an order up, and tells the status; says what it cost."""

    description = "looks orders up"

    def __init__(self, *, tells: bool = True) -> None:
        self.tells = tells

    async def reply(self, conversation: Conversation) -> BrainReply:
        last = conversation.history[-1]
        if not isinstance(last, ToolReturned):
            return BrainReply(AgentSaid(calls=(ToolCall("get_status", {"order": "A1"}),)), Usage(100, 10, 0.01))
        return BrainReply(AgentSaid(f"It is {last.content}." if self.tells else "Done."), Usage(120, 10, 0.01))


def doctor(*arguments: str, code: int = 0) -> dict[str, str]:
    printed = command("doctor", "--json", *arguments, code=code)
    return {line["what"]: line["found"] for line in json.loads(printed.out)}


def test_a_wrong_setting_is_exit_code_1_without_an_agent_too() -> None:
    assert doctor("--set", "max-stpes=3", code=1)["connection"].startswith("--set max-stpes: there is no such setting")


@pytest.mark.parametrize("spec", ["noop", "noop?dialect=data"])
def test_an_agent_that_calls_tools_is_met(spec: str) -> None:
    with served(spec, Clerk()) as agent:
        message = doctor(agent.url)
    assert message["agent"].startswith("pytest-a2a-bench noop")
    assert message["interface"].startswith("jsonrpc 1.0 at ")
    assert "it called the tool and reported its result" in message["dialect"]
    assert message["a turn"].endswith(" s, of 2 turns")
    assert message["tokens"] == "240 for this conversation"
    # 2 turns cost two cents, and 50 tasks of 10 turns are 500.
    assert message["airline"].startswith("50 tasks: about ")
    assert "$5.00" in message["airline"]
    assert "mini" in message


def test_doctor_looks_for_the_tool_result_in_the_answer() -> None:
    with served("noop", Clerk(tells=False)) as agent:
        message = doctor(agent.url)
    assert "and did not report its result" in message["dialect"]


def test_an_agent_that_only_talks_is_reported_of() -> None:
    with served("noop") as agent:
        message = doctor(agent.url)
    assert "called no tool" in message["no call"]
    assert "get_status" in message["it was sent"]
    assert message["a turn"].endswith(" s, of 1 turn")
    # It would get through none of its tasks.
    assert "airline" not in message
    assert message["protocol"] == f"not judged here: a2a-bench check {agent.url} does it, in seconds"


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [("http://127.0.0.1:9", "cannot connect"), ("builtin:nope", "nope"), ("not a url", "not a url")],
)
def test_an_unreachable_agent_is_exit_code_1(endpoint: str, why: str) -> None:
    message = doctor(endpoint, code=1)
    assert why in message["not met"]
    assert message["pytest"]  # the rest is there still


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_a_listening_address_in_a_card_is_an_error(host: str, tmp_path: Path) -> None:
    with raw_agent(scripted(lambda request: rpc(MESSAGE, request))) as agent:
        url = agent.card["supportedInterfaces"][0]["url"]
        agent.card["supportedInterfaces"][0]["url"] = wild = url.replace("127.0.0.1", host)
        message = doctor(agent.url, code=1)
        assert message["card error"].startswith(f"the interface URL '{wild}' is not one to call")
        assert message["card error"].endswith(f"read as '{url}'")
        report = tmp_path / "report.json"
        for options in (["--card"], ["--id", "CARD-009"]):
            command("check", agent.url, "--format", "json", "-o", report, *options, code=1)
            (rule,) = [r for r in json.loads(report.read_text())["results"] if r["id"] == "CARD-009"]
            assert rule["status"] == "failed"
            assert "names a listening address that no client can call" in rule["findings"][0]["found"]


def test_a_task_that_never_ends_is_waited_for_up_to_the_commands_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor_command, "SECONDS", 1.0)
    task = {"id": "t", "contextId": "c", "status": {"state": "working"}, "kind": "task"}
    with raw_agent(lambda request: rpc(task, request)) as agent:
        message = doctor(agent.url, code=1)
    assert "took longer than 1 s, waiting for task t to end" in message["not met"]
    assert "the answer came back with it working, and GetTask still says working" in message["not met"]
