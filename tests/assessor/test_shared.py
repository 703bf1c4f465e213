"""Several assessors with one database and one results directory: whichever is asked answers for all."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from a2a.types import SubscribeToTaskRequest
from assessor_server import LOCAL, Caller, Told, gen3, message, program, served, wait_for_end
from builtin_server import served as agent_served
from google.protobuf.json_format import MessageToDict
from span_receiver import span_receiver

from pytest_a2a_bench.assessor.server import ServerOptions
from pytest_a2a_bench.assessor.terms import Terms


@pytest.fixture
def pair(database: str, tmp_path: Path) -> Iterator[tuple[Caller, Caller]]:
    terms, place = Terms(tmp_path / "results", guard=LOCAL), ServerOptions(database=database)
    with served(terms, place=place) as first, served(terms, place=place) as second:
        yield Caller(first), Caller(second)


async def _subscribe(caller: Caller, told: Told) -> None:
    async with caller.client() as client:
        async for event in client.subscribe(SubscribeToTaskRequest(id=told.task)):
            told.take(MessageToDict(event))


def test_one_tells_what_the_other_does(pair: tuple[Caller, Caller]) -> None:
    first, second = pair
    with agent_served("oracle?latency=0.1") as agent:
        request = gen3(agent.url, domain="mock", num_tasks=3, tag_trials=True, concurrency=1)
        asked = Told()
        thread = threading.Thread(target=first.ask, args=(request,), kwargs={"told": asked})
        thread.start()
        while not any("begun" in text for _, text in asked.updates):
            time.sleep(0.02)
        followed = Told(task=asked.task)
        asyncio.run(_subscribe(second, followed))
        thread.join(60)
    assert followed.state == "completed"
    assert followed.result == asked.result
    assert second.get(asked.task).result["score"] == 3


def test_one_cancels_what_the_other_does(pair: tuple[Caller, Caller], tmp_path: Path) -> None:
    first, second = pair
    with agent_served("oracle?latency=30") as agent:
        asked = Told()
        request = gen3(agent.url, domain="mock", num_tasks=1, tag_trials=True)
        thread = threading.Thread(target=first.ask, args=(request,), kwargs={"told": asked})
        thread.start()
        while not any("begun" in text for _, text in asked.updates):
            time.sleep(0.02)
        assert second.cancel(asked.task) == "TASK_STATE_CANCELED"
        thread.join(25)
        assert not thread.is_alive(), "the other one still works on it"
    assert first.get(asked.task).state == "canceled"
    assert wait_for_end(tmp_path / "results", asked)["state"] == "canceled"


def test_an_assessment_takes_no_further_messages(pair: tuple[Caller, Caller]) -> None:
    first, second = pair
    with agent_served("oracle?latency=30") as agent:
        asked = Told()
        request = gen3(agent.url, domain="mock", num_tasks=1, tag_trials=True)
        thread = threading.Thread(target=first.ask, args=(request,), kwargs={"told": asked})
        thread.start()
        while not any("begun" in text for _, text in asked.updates):
            time.sleep(0.02)
        more = message(request)
        more.task_id = asked.task
        for caller in pair:
            with pytest.raises(Exception, match="no further messages"):
                asyncio.run(caller._ask(more, Told()))
        assert second.get(asked.task).state == "working"
        first.cancel(asked.task)
        thread.join(30)


@pytest.mark.slow
def test_one_takes_up_what_the_other_left_when_it_was_killed(database: str, tmp_path: Path) -> None:
    results, shared = tmp_path / "results", ("--database-env", "SHARED")
    with agent_served("oracle?latency=0.2") as agent, span_receiver() as received:
        env = {"SHARED": database, "OTEL_EXPORTER_OTLP_ENDPOINT": received.url, "OTEL_BSP_SCHEDULE_DELAY": "20"}
        request = gen3(agent.url, domain="mock", num_tasks=5, tag_trials=True, concurrency=1)
        asked = Told()
        with program(results, *shared, env=env) as second:
            with program(results, *shared, env=env) as first:
                thread = threading.Thread(target=_ask_in_vain, args=(Caller(first.url), request, asked))
                thread.start()
                while not asked.task or not received.named("trial "):
                    time.sleep(0.02)
                first.kill()
            thread.join(30)
            before = {span.trace_id for span in received.spans}
            found = Caller(second.url).get(asked.task)
            while found.state in ("working", "submitted"):
                time.sleep(0.2)
                found = Caller(second.url).get(asked.task)
            assert second.stop() == 0
    assert (found.state, found.result["score"]) == ("completed", 5)
    # The one that was killed could not tell of the assessment; the other one's is in the same trace.
    assert len(before) == 1
    assert {span.trace_id for span in received.named("assess mock")} == before
    assert {span.trace_id for span in received.named("trial ")} == before
    assert len({span.name for span in received.named("trial ")}) == 5


def _ask_in_vain(caller: Caller, request: object, told: Told) -> None:
    with contextlib.suppress(Exception):  # the assessor goes away, and each client says so in words of its own
        caller.ask(request, told=told)
