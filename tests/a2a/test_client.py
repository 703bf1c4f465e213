"""The client against a real a2a-sdk 1.x server: every binding, both protocol versions, blocking and streaming."""

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest
from connections import Connect
from scripted import Scripted, scripted_agent

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.turn import AgentReply
from pytest_a2a_bench.errors import (
    AgentOutcomeError,
    AuthenticationError,
    InfrastructureError,
    TrialCancelledError,
    TurnTimeoutError,
)
from pytest_a2a_bench.model import Part

WIRES = [(t, v, s) for t in ("jsonrpc", "rest", "grpc") for v in ("1.0", "0.3") for s in ("off", "on")]


@pytest.fixture(scope="module")
def agent() -> Iterator[Scripted]:
    with scripted_agent() as running:
        yield running


@pytest.fixture(params=WIRES, ids="-".join)
def wired(request: pytest.FixtureRequest, agent: Scripted, connect: Connect) -> AgentConnection:
    transport, protocol, streaming = request.param
    return connect(agent.url, transport=transport, protocol=protocol, streaming=streaming)


def say(connection: AgentConnection, text: str) -> AgentReply:
    return connection.session().send([Part.of_text(text)])


def test_answers_of_every_shape(wired: AgentConnection) -> None:
    reply = say(wired, "echo hello")
    assert (reply.kind, reply.state, reply.text) == ("message", None, "hello")
    assert "hello" in reply.raw
    # A task's artifact, else its status, and never chatter.
    for word in ("task", "both", "status"):
        reply = say(wired, f"{word} hello")
        assert (reply.kind, reply.state, reply.text) == ("task", "completed", "hello")
    reply = say(wired, 'data {"data": {"a": [1, null, "x"]}, "b": true}')
    assert [p.data for p in reply.parts] == [{"data": {"a": [1, None, "x"]}, "b": True}]
    assert "".join(p.text for p in say(wired, "chunks one |two |three").parts) == "one two three"


def test_context_goes_back_and_ended_tasks_are_not_continued(wired: AgentConnection, agent: Scripted) -> None:
    session = wired.session({"a2a_bench": {"task": "tau2/mock/1", "trial": 0}})
    first = session.send([Part.of_text("task one")])
    assert (session.usage.input_tokens, session.usage.output_tokens, session.usage.cost_usd) == (12, 3, 0.5)
    (metric,) = session.metrics
    assert (metric.input_tokens, metric.output_tokens, metric.error, metric.attempt) == (12, 3, None, 1)
    assert metric.status_code in (0, 200)
    assert metric.context_id == session.context_id
    assert metric.latency_ms > 0

    session.send([Part.of_text("task two"), Part.of_data({"n": 1})])
    sent = agent.executor.received[-1]
    assert first.context_id == session.context_id == sent["contextId"]
    # The SDK fills in the id of the new task, so the ended one's id would show here.
    assert sent.get("taskId") != first.a2a_task_id
    assert sent["metadata"]["a2a_bench"] == {"task": "tau2/mock/1", "trial": 0}
    assert sent["parts"][1]["data"] == {"n": 1}
    assert session.request_count == len(session.metrics) == 2
    assert [e.direction for e in session.history] == ["sent", "received"] * 2


def test_a_task_that_waits_is_continued_or_canceled(wired: AgentConnection, agent: Scripted) -> None:
    session = wired.session()
    question = session.send([Part.of_text("ask which one?")])
    assert (question.state, question.text) == ("input-required", "a draft\nwhich one?")
    answer = session.send([Part.of_text("the red one")])
    assert (answer.state, answer.text) == ("completed", "continued: the red one")
    assert answer.a2a_task_id == question.a2a_task_id

    session = wired.session()
    reply = session.send([Part.of_text("ask what?")])
    session.finish()
    assert agent.executor.cancelled[-1] == reply.a2a_task_id
    session.finish()
    assert agent.executor.cancelled.count(str(reply.a2a_task_id)) == 1


def test_ends_without_an_answer(wired: AgentConnection) -> None:
    # The agent's own outcome is not infrastructure.
    for word, state in (("fail", "failed"), ("reject", "rejected")):
        with pytest.raises(AgentOutcomeError, match="no such order") as outcome:
            say(wired, f"{word} no such order")
        assert outcome.value.state == state
    with pytest.raises(AuthenticationError, match="log in first") as caught:
        say(wired, "auth log in first")
    assert not caught.value.refused
    with pytest.raises(InfrastructureError):
        say(wired, "crash boom")


@pytest.mark.slow
def test_turn_timeout_names_the_seconds(wired: AgentConnection) -> None:
    session = wired.session()
    started = time.monotonic()
    with pytest.raises(TurnTimeoutError, match=r"longer than 0\.2 s"):
        session.send([Part.of_text("slow 30 x")], timeout=0.2)
    assert time.monotonic() - started < 30  # what the agent would have taken


@pytest.mark.slow
def test_cancel_from_another_thread(wired: AgentConnection) -> None:
    wired.card()
    session = wired.session()
    threading.Timer(0.2, session.cancel).start()
    started = time.monotonic()
    with pytest.raises(TrialCancelledError):
        session.send([Part.of_text("slow 30 x")])
    assert time.monotonic() - started < 30  # what the agent would have taken
    with pytest.raises(TrialCancelledError):
        session.send([Part.of_text("echo x")])
    session.finish()


@pytest.mark.slow
def test_async_use_from_another_loop(wired: AgentConnection) -> None:
    async def main() -> str:
        await wired.acard()
        session = wired.session()
        replies = await asyncio.gather(*(wired.session().asend([Part.of_text(f"echo {n}")]) for n in range(10)))
        assert [r.text for r in replies] == [str(n) for n in range(10)]
        return (await session.asend([Part.of_text("echo x")])).text

    assert asyncio.run(main()) == "x"
