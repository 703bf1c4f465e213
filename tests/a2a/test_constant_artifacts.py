"""Agents whose every message is a task of its own, and whose every artifact has the same id."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from raw_agent import Request, event, raw_agent, rpc, stream_head

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.model import Part

Connect = Callable[..., AgentConnection]

HELLO = [Part.of_text("hello")]


def task(number: int, **fields: Any) -> dict[str, Any]:
    return {"id": f"t{number}", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}} | fields


def test_the_same_words_in_two_turns_are_two_answers(connect: Connect) -> None:
    numbers = itertools.count()

    def handler(request: Request) -> bytes:
        artifact = {"artifactId": "result", "parts": [{"text": "You're welcome"}]}
        return rpc({"task": task(next(numbers), artifacts=[artifact])}, request)

    with raw_agent(handler) as agent:
        session = connect(agent.url).session()
        assert [session.send(HELLO).text for _ in range(3)] == ["You're welcome"] * 3
    assert session.findings == []


def test_a_last_chunk_that_repeats_the_answer_is_told_of(connect: Connect) -> None:
    def chunk(text: str, *, append: bool = True, last: bool = False) -> dict[str, Any]:
        artifact = {"artifactId": "a", "parts": [{"text": text}]}
        update = {"taskId": "t0", "contextId": "c", "artifact": artifact, "append": append, "lastChunk": last}
        return {"artifactUpdate": update}

    def handler(request: Request) -> Any:
        yield stream_head()
        working = task(0, status={"state": "TASK_STATE_WORKING"})
        ended = {"taskId": "t0", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
        events = [{"task": working}, chunk("a ", append=False), chunk("b "), chunk("c"), chunk("a b c", last=True)]
        for one in [*events, {"statusUpdate": ended}]:
            yield event(one, request)

    with raw_agent(handler) as agent:
        session = connect(agent.url, streaming="on").session()
        assert session.send(HELLO).text == "a b c"
    assert [f.rule for f in session.findings if "last chunk" in f.message] == ["answer-repeated"]
