import itertools
import time
from typing import Any

import pytest
from connections import Connect
from one_test import in_one_test
from raw_agent import DONE, HELLO, MESSAGE, Request, event, raw_agent, response, rpc, stream_head
from raw_agent import task as served_task

from pytest_a2a_bench.a2a.codec import read_event
from pytest_a2a_bench.a2a.turn import AgentReply, Turn, read_usage
from pytest_a2a_bench.errors import AgentOutcomeError, AuthenticationError, TransportError
from pytest_a2a_bench.model import Part, Usage


def status(state: str, text: str | None = None, **fields: Any) -> dict[str, Any]:
    message = {"role": "agent", "parts": [{"text": text}]} if text is not None else None
    said = {"state": state, "message": message}
    return {"kind": "status-update", "taskId": "t", "contextId": "c", "status": said} | fields


def artifact(text: str, *, append: bool = False, name: str = "a", last: bool = False) -> dict[str, Any]:
    made = {"artifactId": name, "parts": [{"text": text}]}
    return {"kind": "artifact-update", "taskId": "t", "artifact": made, "append": append, "lastChunk": last}


def task(state: str | None, **fields: Any) -> dict[str, Any]:
    return {"kind": "task", "id": "t", "contextId": "c", "status": {"state": state}} | fields


def play(*events: dict[str, Any], earlier: Turn | None = None) -> Turn:
    turn = Turn(earlier)
    for each in events:
        turn.feed(read_event(each, "0.3"))
    return turn


def reply(*events: dict[str, Any]) -> AgentReply:
    return play(*events).reply()


def test_chatter_is_never_the_answer() -> None:
    said = reply(status("working", "Thinking..."), artifact("42"), status("completed"))
    assert (said.text, said.state, said.kind) == ("42", "completed", "task")
    assert (said.context_id, said.a2a_task_id) == ("c", "t")
    assert reply(status("working", "Thinking..."), status("completed")).parts == ()


def test_chatter_in_the_history_is_not_mistaken_for_the_answer() -> None:
    history = [{"role": "user", "parts": [{"text": "q"}]}, {"role": "agent", "parts": [{"text": "Thinking..."}]}]
    assert reply(status("working", "Thinking..."), task("completed", history=history)).parts == ()
    only = reply(task("completed", history=history))
    assert only.parts == ()
    assert "the task's history has words of the agent's ('Thinking...')" in only.elsewhere
    assert reply(task("completed", history=history[:1])).elsewhere == ""
    assert reply(task("completed", history=history), artifact("42")).elsewhere == ""


def test_artifacts_before_status_and_with_it_while_waiting() -> None:
    assert reply(artifact("42"), status("completed", "Done!")).text == "42"
    assert reply(status("completed", "Done!")).text == "Done!"
    assert reply(artifact("draft"), status("input-required", "Which?")).text == "draft\nWhich?"
    assert reply(artifact("draft"), status("input-required")).text == "draft"


def test_chunks_of_text_are_one_text_and_other_parts_stay_apart() -> None:
    turn = play(artifact("one "), artifact("two", append=True), artifact("other", name="b"), status("completed"))
    assert turn.reply().parts == (Part.of_text("one two"), Part.of_text("other"))
    replaced = play(artifact("one"), artifact("two"), status("completed"))
    assert replaced.reply().text == "two"
    assert "before it was begun" in play(artifact("x", append=True), status("completed")).reply().notes[0]


def test_empty_snapshot_does_not_erase_streamed_artifacts() -> None:
    assert reply(artifact("42"), task("completed", artifacts=[])).text == "42"
    assert reply(artifact("42"), task("completed", artifacts=[artifact("43")["artifact"]])).text == "43"


def test_artifacts_of_earlier_turns_are_not_repeated() -> None:
    first = play(artifact("old"), status("input-required", "Which?"))
    both = [artifact("old")["artifact"], artifact("new", name="b")["artifact"]]
    second = play(task("completed", artifacts=both), earlier=first)
    assert second.reply().text == "new"
    assert play(task("completed", artifacts=both[:1]), earlier=first).reply().parts == ()
    # A turn that streams a new artifact only knows of the others all the same.
    second = play(artifact("new", name="b"), status("input-required", "And?"), earlier=first)
    assert play(task("completed", artifacts=both), earlier=second).reply().parts == ()


@in_one_test("text", [None, "Task completed successfully."])
@in_one_test("other", ["t2", "t"])
def test_another_task_may_have_the_same_artifact(other: str, text: str | None) -> None:
    """An artifact's id is unique within a task only (a2a.proto, Artifact.artifact_id).

    The same where a server begins one task again and again, in which nothing from before its end is left.
    """
    said = {"role": "agent", "parts": [{"text": text}]} if text else None
    answer = {"status": {"state": "completed", "message": said}, "artifacts": [artifact("You're welcome")["artifact"]]}
    first = play(task("completed") | answer)
    assert play(task("completed") | answer | {"id": other}, earlier=first).reply().text == "You're welcome"


def test_a_stream_whose_last_chunk_repeats_the_answer_says_it_once() -> None:
    chunks = [artifact("Your order "), artifact("is on ", append=True), artifact("its way.", append=True)]
    whole = "Your order is on its way."
    for last in (artifact(whole, append=True), artifact(whole, append=True, last=True)):
        said = play(*chunks, last, status("completed")).reply()
        assert said.text == whole
        assert "last chunk" in said.repeated
    said = play(artifact(whole), artifact(whole, append=True, last=True), status("completed")).reply()
    assert (said.text, bool(said.repeated)) == (whole, True)
    said = play(artifact("no, "), artifact("no, ", append=True), artifact("no", append=True, last=True)).reply()
    assert (said.text, said.repeated) == ("no, no, no", "")


def test_two_artifacts_with_the_same_text_are_one_answer() -> None:
    same = [artifact("42", name=name)["artifact"] for name in ("a", "b", "c")]
    said = reply(task("completed", artifacts=same))
    assert said.text == "42"
    assert "two artifacts" in said.repeated
    said = reply(artifact("Which?"), status("input-required", "Which?"))
    assert (said.text, bool(said.repeated)) == ("Which?", True)
    assert reply(task("completed", artifacts=[*same[:1], artifact("43", name="d")["artifact"]])).repeated == ""


def test_a_task_that_goes_on_is_not_settled() -> None:
    states = ("completed", "failed", "input-required", "working", "submitted", None)
    assert [state for state in states if play(task(state)).settled] == ["completed", "failed", "input-required"]


def test_task_without_state_but_with_artifacts_is_taken_as_completed() -> None:
    turn = play(task(None, artifacts=[artifact("42")["artifact"]]))
    assert turn.settled
    assert (turn.reply().state, turn.reply().text) == ("completed", "42")


def test_only_an_announced_end_lacks_an_answer() -> None:
    assert play(status("completed")).lacks_answer
    assert not play(task("completed")).lacks_answer
    assert not play(artifact("x"), status("completed")).lacks_answer
    assert not play(status("completed", "x")).lacks_answer
    assert not play(status("input-required")).lacks_answer


@in_one_test(
    "metadata",
    [{"adk_thought": True}, {"thought": True}, {"reasoning": True}, {"type": "thinking"}, {"kind": "reasoning"}],
)
def test_thoughts_are_dropped(metadata: dict[str, Any]) -> None:
    considered = {"data": {"tool_call": {"name": "cancel", "arguments": {}}}, "metadata": metadata}
    said = {"text": "42", "metadata": {"adk_thought": False, "type": ["text"], "reasoning": "none"}}
    parts = [{"text": "hm", "metadata": metadata}, considered, said]
    assert reply(task("completed", artifacts=[{"artifactId": "a", "parts": parts}])).text == "42"


@in_one_test(
    ("metadata", "usage"),
    [
        ({"usage": {"input_tokens": 3, "output_tokens": 4, "cost": 0.5}}, Usage(3, 4, 0.5)),
        ({"usage": {"prompt_tokens": 3.0, "completion_tokens": 4, "cost_usd": 1}}, Usage(3, 4, 1.0)),
        ({"adk_usage_metadata": {"promptTokenCount": 3, "candidatesTokenCount": 4}}, Usage(3, 4)),
        ({"usage_metadata": {"prompt_token_count": 0}}, Usage(0)),
        ({"usage": {"input_tokens": "many", "output_tokens": True, "cost": -1}}, None),
        ({"usage": None, "usageMetadata": {}}, None),
        ({}, None),
    ],
)
def test_usage(metadata: dict[str, Any], usage: Usage | None) -> None:
    assert read_usage(metadata) == usage


def test_usage_is_found_wherever_it_is_and_not_added_up() -> None:
    metadata = {"usage": {"input_tokens": 3}}
    assert reply(task("completed", metadata=metadata)).usage == Usage(3)
    made = {"artifactId": "a", "parts": [{"text": "x"}], "metadata": metadata}
    assert reply(task("completed", metadata=metadata, artifacts=[made])).usage == Usage(3)
    assert reply(task("completed", artifacts=[made])).usage == Usage(3)
    assert reply(status("working", metadata=metadata), status("completed")).usage == Usage(3)
    assert reply(task("completed")).usage == Usage()


# How long turns took, as a session tells it.


def test_repetitions_and_polls_belong_to_the_turn(connect: Connect) -> None:
    turn = itertools.count()

    def handler(request: Request) -> bytes:
        time.sleep(0.1)
        number = next(turn)
        if number == 0:
            return response("busy", "429 Too Many Requests", "text/plain", Retry_After="0")
        if number == 1:
            return rpc({"task": served_task("WORKING")}, request)
        return rpc(DONE if number == 2 else MESSAGE, request)

    with raw_agent(handler) as agent:
        session = connect(agent.url, max_retries=1).session()
        assert session.turn_seconds == []
        begun = time.perf_counter()
        session.send(HELLO)
        between = time.perf_counter()
        session.send(HELLO)
        end = time.perf_counter()
    first, second = session.turn_seconds
    assert 0.3 <= first <= between - begun
    assert 0.1 <= second <= end - between


def test_a_task_that_failed_took_its_time_and_infrastructure_errors_are_no_turns(connect: Connect) -> None:
    down = response("down", "500 Internal Server Error", "text/plain")
    answers = iter([down, served_task("AUTH_REQUIRED"), served_task("FAILED")])

    def handler(request: Request) -> bytes:
        answer = next(answers)
        return answer if isinstance(answer, bytes) else rpc({"task": answer}, request)

    with raw_agent(handler) as agent:
        session = connect(agent.url).session()
        for error in (TransportError, AuthenticationError, AgentOutcomeError):
            assert session.turn_seconds == []
            with pytest.raises(error):
                session.send(HELLO)
    assert len(session.turn_seconds) == 1
    assert session.turn_seconds[0] > 0
    assert len(session.metrics) == 3


# A finding of a repeated answer.


def test_a_last_chunk_that_repeats_the_answer_is_reported_of(connect: Connect) -> None:
    def handler(request: Request) -> Any:
        yield stream_head()
        for append in (False, True):
            update = artifact("a b c", append=append, last=append) | {"taskId": "t1", "contextId": "c1"}
            yield event({"artifactUpdate": update}, request)
        ended = {"taskId": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_COMPLETED"}}
        yield event({"statusUpdate": ended}, request)

    with raw_agent(handler) as agent:
        session = connect(agent.url, streaming="on").session()
        assert session.send(HELLO).text == "a b c"
    assert [f.rule for f in session.findings if "last chunk" in f.message] == ["answer-repeated"]
