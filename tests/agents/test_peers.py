"""Conversations with real agents on other frameworks: a2a-sdk 0.3.x, fasta2a, google-adk and strands."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from connections import Connect
from peers import peer

from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.dialects.tool_call import ToolCallDialect
from pytest_a2a_bench.model import Briefing, Part, ToolCall, ToolReturned, ToolSpec, TrialKey, UserSaid
from pytest_a2a_bench.results.store import Store
from pytest_a2a_bench.trials.runner import Runner
from pytest_a2a_bench.trials.trial import Client

TOOLS = (
    ToolSpec("create_task", "Create a task.", {"type": "object", "properties": {}, "required": ["user_id", "title"]}),
    ToolSpec("get_users", "List users.", {"type": "object", "properties": {}}),
)


@pytest.fixture(scope="module", params=["sdk03", "fasta2a", pytest.param("adk", marks=pytest.mark.slow), "strands"])
def peer_url(request: pytest.FixtureRequest) -> Iterator[str]:
    # Only the agent on a2a-sdk 0.3 knows the word.
    with peer(request.param, f"peer_{request.param}.py", "plain") as url:
        yield url


@pytest.mark.parametrize("streaming", ["off", "on"])
def test_conversation(peer_url: str, connect: Connect, streaming: str) -> None:
    dialect = ToolCallDialect()
    connection = connect(peer_url, streaming=streaming, timeout=30, wait=20)
    connection.wait_until_ready()
    session = connection.session({"a2a_bench": {"task": "tau2/mock/1", "trial": 0}})

    first = session.send(dialect.encode_request(Briefing("Be kind.", TOOLS), [UserSaid("Who is there?")]))
    decoded = dialect.decode_reply(first.parts, TOOLS)
    assert decoded.calls == (ToolCall("get_users", {}),)
    assert session.context_id

    second = session.send(dialect.encode_request(None, [ToolReturned("c1", "get_users", "[]")]))
    assert second.text.startswith("Turn 2 of this conversation")
    third = session.send([Part.of_text("thank you")])
    assert third.text.strip() == "Turn 3 of this conversation; you said: thank you"
    assert not dialect.decode_reply(third.parts, TOOLS).calls
    session.finish()


def test_a_trial_of_tau2(peer_url: str, connect: Connect, tmp_path: Path) -> None:
    connection = connect(peer_url, timeout=30, wait=20)
    runner = Runner(Settings(endpoint=peer_url), Client(connection), Store(tmp_path), "run")
    result = runner.run(TrialKey("tau2", "mock", "update_task_1"))
    assert (result.status, result.error) == ("evaluated", None)
    # The peer looks the users up and then only talks: an honest 0, reached in a whole conversation.
    assert (result.reward, result.termination_reason) == (0.0, "user_stop")
    assert [call.name for call in result.tool_calls] == ["get_users"]
    assert any("test user" in (turn.text or "").lower() for turn in result.transcript if turn.role == "tool")
