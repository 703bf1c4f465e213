import asyncio
from typing import Any

import pytest
from faulty_server import serve_faulty
from hypothesis import given
from hypothesis import strategies as st
from mutation import judge_url
from one_test import in_one_test

from pytest_a2a_bench.conformance.protocol import streams as ev
from pytest_a2a_bench.conformance.protocol.payloads import neutral_state, parse_timestamp


def task(state: str = "TASK_STATE_WORKING", **members: Any) -> dict[str, Any]:
    return {"task": {"id": "t", "contextId": "c", "status": {"state": state}, **members}}


def status(state: str, task_id: str = "t", context_id: str = "c") -> dict[str, Any]:
    return {"statusUpdate": {"taskId": task_id, "contextId": context_id, "status": {"state": state}}}


def chunk(text: str, *, append: bool = False, last: bool = False, name: str = "a") -> dict[str, Any]:
    artifact = {"artifactId": name, "parts": [{"text": text}]}
    update = {"taskId": "t", "contextId": "c", "artifact": artifact, "append": append, "lastChunk": last}
    return {"artifactUpdate": update}


# Each rule of streams has further vectors.
MESSAGE = {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}}
DONE = "TASK_STATE_COMPLETED"


@in_one_test(
    ("rule", "stream", "pointer"),
    [
        (ev.first_event, [], "/0"),
        (ev.first_event, [status(DONE)], "/0"),
        (ev.order_of_kinds, [MESSAGE, status(DONE)], "/1"),
        (ev.order_of_kinds, [task(), MESSAGE], "/1"),
        (ev.order_of_kinds, [task(), task(), status(DONE)], "/1"),
        (ev.nothing_after_terminal, [task(), status(DONE), chunk("late")], "/2"),
        (ev.nothing_after_terminal, [task(), status(DONE), status("TASK_STATE_WORKING")], "/2"),
        (ev.nothing_after_terminal, [task(), status(DONE), task("TASK_STATE_FAILED")], "/2"),
    ],
)
def test_each_rule_finds_its_fault(rule: Any, stream: list[Any], pointer: str) -> None:
    assert [problem.pointer for problem in rule(stream)] == [pointer]


OLD = {"kind": "status-update", "taskId": "t", "contextId": "c", "status": {"state": "input-required"}}


def test_the_old_shapes_read_the_same() -> None:
    assert ev.read_event(OLD).state == "input-required" == ev.read_event(status("TASK_STATE_INPUT_REQUIRED")).state
    assert ev.read_event({"msg": {"messageId": "m"}}).kind == "message"
    assert neutral_state("TASK_STATE_CANCELLED") == "canceled"
    assert neutral_state(3) == ""


@in_one_test(
    ("stream", "problems", "open_"),
    [
        ([chunk("a"), chunk("b", append=True), chunk("c", append=True, last=True)], 0, []),
        ([chunk("a"), chunk("b", append=True)], 0, ["a"]),
        ([chunk("a", append=True)], 1, ["a"]),
        ([chunk("a", last=True), chunk("b", append=True)], 1, []),
        ([chunk("a", last=True), chunk("b")], 0, []),
    ],
)
def test_chunk_marks(stream: list[Any], problems: int, open_: list[str]) -> None:
    built = ev.rebuild(ev.read_events([task(), *stream]))
    assert len(built.problems) == problems
    assert sorted(built.appended - built.closed) == open_


@given(st.lists(st.text(max_size=5), min_size=1, max_size=6))
def test_chunks_rebuild_the_artifact_however_the_server_joins_them(texts: list[str]) -> None:
    stream = [task(), *(chunk(text, append=number > 0) for number, text in enumerate(texts)), status(DONE)]
    built = ev.rebuild(ev.read_events(stream))
    joined = [{"artifactId": "a", "parts": [{"text": "".join(texts)}]}]
    apart = [{"artifactId": "a", "parts": [{"text": text} for text in texts]}]
    for artifacts in (joined, apart):
        assert ev.differences(built, task(DONE, artifacts=artifacts)["task"]) == []
    lost = [{"artifactId": "a", "parts": [{"text": "".join(texts) + "!"}]}]
    assert [p.pointer for p in ev.differences(built, task(DONE, artifacts=lost)["task"])] == ["/artifacts"]


def test_a_lost_end_is_a_difference() -> None:
    built = ev.rebuild(ev.read_events([task()]))
    assert [p.pointer for p in ev.differences(built, task(DONE)["task"])] == ["/status/state"]


def test_canonical_ignores_what_is_unset_and_how_numbers_are_written() -> None:
    assert ev.canonical({"a": 5.0, "b": "", "c": []}) == ev.canonical({"a": 5})
    assert ev.canonical({"a": 5}) != ev.canonical({"a": 6})


def test_a_later_stream_is_the_end_of_the_longer_one() -> None:
    assert ev.is_suffix(["b", "c"], ["a", "b", "c"])
    assert not ev.is_suffix(["a", "b"], ["a", "b", "c"])


@in_one_test(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:01Z", 1.0),
        ("1970-01-01T01:00:00.5+01:00", 0.5),
        ("1970-01-01T00:00:00.123456789Z", 0.123456),
        ("1970-01-01T00:00:02", 2.0),
        ("1970-13-01T00:00:00Z", None),
        ("yesterday", None),
        (7, None),
    ],
)
def test_instants(text: Any, seconds: float | None) -> None:
    assert parse_timestamp(text) == (None if seconds is None else pytest.approx(seconds, abs=1e-9))


@pytest.mark.slow
def test_a_stream_that_only_pings_is_a_finding_with_what_get_task_says() -> None:
    async def run() -> list[str]:
        async with serve_faulty("stream-only-pings", step=0.05, transport="jsonrpc") as running:
            return (await judge_url(running.url, {"STREAM-005", "STREAM-016"}, timeout=3.0, breadth="standard")).lines

    assert asyncio.run(run()) == [
        "1.0/STREAM-005[JSONRPC] failed: GetTask says completed, and the stream, still open, never said so"
    ]
