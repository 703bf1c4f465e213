"""Each fault as a raw gRPC client sees it, and what the agent behind it was told."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import grpc
import grpc.aio
import pytest
from a2a.types import a2a_pb2, a2a_pb2_grpc
from counting_agent import Scene, under_chaos
from examples import sampled
from google.rpc import error_details_pb2, status_pb2

from pytest_a2a_bench.chaos.spec import STATUS_FAULTS

T = TypeVar("T")

CODES = {429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 502: "UNAVAILABLE", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}


class Seen(NamedTuple):
    """What became of one call.

    :param states: of the tasks that came.
    """

    states: list[str]
    error: grpc.aio.AioRpcError | None = None
    tasks: list[Any] = []  # noqa: RUF012

    @property
    def code(self) -> str:
        return self.error.code().name if self.error else "OK"


async def look(
    channel: Any, message_id: str = "m-1", *, stream: bool = False, timeout: float = 20, context: str = ""
) -> Seen:
    stub = a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]
    request = a2a_pb2.SendMessageRequest(message=a2a_pb2.Message(message_id=message_id, context_id=context))
    tasks: list[Any] = []
    error = None
    try:
        if stream:
            async for answer in stub.SendStreamingMessage(request, timeout=timeout):
                tasks.append(answer.task)
        else:
            tasks.append((await stub.SendMessage(request, timeout=timeout)).task)
    except grpc.aio.AioRpcError as caught:
        error = caught
    states = [a2a_pb2.TaskState.Name(task.status.state).removeprefix("TASK_STATE_") for task in tasks]
    return Seen(states, error, tasks)


def open_channel(address: str) -> Any:
    options = [
        ("grpc.enable_retries", 0),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.initial_reconnect_backoff_ms", 50),
    ]
    return grpc.aio.insecure_channel(address, options=options)


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def one(
    spec: str, log: Path | None = None, *, stream: bool = False, timeout: float = 20, context: str = ""
) -> tuple[Seen, Scene]:
    async def call() -> tuple[Seen, Scene]:
        async with under_chaos(spec, log) as scene, open_channel(await scene.grpc_address()) as channel:
            return await look(channel, stream=stream, timeout=timeout, context=context), scene

    return run(call())


def test_without_a_fault_nothing_is_changed() -> None:
    assert one("seed=1")[0].states == ["COMPLETED"]
    assert one("seed=1", stream=True)[0].states == ["SUBMITTED", "WORKING", "COMPLETED"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("fault", "worked"), [("reset", []), ("after-delivery", ["m-1"])])
def test_a_reset_comes_before_or_after_delivery(fault: str, worked: list[str], stream: bool, tmp_path: Path) -> None:
    seen, scene = one(f"{fault}=1", tmp_path / "log", stream=stream)

    assert (seen.code, seen.states, scene.agent.worked) == ("UNAVAILABLE", [], worked)
    line = json.loads((tmp_path / "log").read_text())
    assert (line["transport"], line["fault"], line["messageId"], line["injected"]) == ("grpc", fault, "m-1", True)


@pytest.mark.parametrize("name", sampled([name for name in STATUS_FAULTS if not name.startswith("502")], 3))
def test_an_error_code_comes_before_or_after_delivery(name: str) -> None:
    fault = STATUS_FAULTS[name]
    seen, scene = one(f"{name}=1,retry-after=3")

    assert seen.error is not None
    assert seen.code == CODES[fault.status]
    assert seen.error.details() == f"{name}: injected by a2a-bench chaos"
    assert scene.agent.worked == (["m-1"] if fault.late else [])
    found = dict(seen.error.trailing_metadata() or ()).get("grpc-status-details-bin")
    assert (found is not None) is fault.retry
    if found is not None:
        info = error_details_pb2.RetryInfo()
        assert status_pb2.Status.FromString(found).details[0].Unpack(info)
        assert info.retry_delay.seconds == 3


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_ends_in_the_middle(stream: bool) -> None:
    seen, scene = one("half-close=1", stream=stream)

    assert (seen.code, seen.states, scene.agent.worked) == ("UNAVAILABLE", [], ["m-1"])


def test_a_truncated_answer_is_cut() -> None:
    async def raw(spec: str) -> bytes:
        async with under_chaos(spec) as scene, open_channel(await scene.grpc_address()) as channel:
            call = channel.unary_unary("/lf.a2a.v1.A2AService/SendMessage")
            return bytes(await call(a2a_pb2.SendMessageRequest().SerializeToString()))

    whole, cut = run(raw("seed=1")), run(raw("truncate=1"))

    assert cut == whole[: len(whole) // 2]


def test_events_come_twice_or_out_of_order() -> None:
    assert one("duplicate=1", stream=True)[0].states[:3] == ["SUBMITTED", "SUBMITTED", "WORKING"]
    assert one("reorder=1", stream=True)[0].states == ["WORKING", "SUBMITTED", "COMPLETED"]


def test_ids_are_others() -> None:
    assert one("wrong-context=1", context="context-1")[0].tasks[0].context_id == "chaos-context-1"
    assert one("wrong-context=1")[1].journal.unfit["wrong-context"] == 1
    assert one("wrong-task=1", stream=True)[0].tasks[0].id == "chaos-task-1"
    assert one("wrong-id=1")[1].journal.unfit["wrong-id"] == 1


def test_an_answer_dribbles() -> None:
    seen, scene = one("dribble=1,dribble-delay=0.01", timeout=0.8)

    # 200 characters alone take longer.
    assert (seen.code, scene.agent.worked) == ("DEADLINE_EXCEEDED", ["m-1"])
    assert one("dribble=1,dribble-delay=0")[0].states == ["COMPLETED"]


@pytest.mark.parametrize(
    ("fault", "stream", "states"), [("hang-before", False, []), ("hang-after", True, ["SUBMITTED"])]
)
def test_a_silence_lasts_until_the_deadline(fault: str, stream: bool, states: list[str]) -> None:
    seen, scene = one(f"{fault}=1", stream=stream, timeout=1)

    assert (seen.code, seen.states) == ("DEADLINE_EXCEEDED", states)
    assert scene.agent.worked == ["m-1"]
    assert scene.journal.injected == {fault: 1}


def test_refuse_answers_once_and_then_refuses_connections() -> None:
    async def call() -> None:
        async with under_chaos("refuse=1,refuse-for=0.5") as scene, open_channel(await scene.grpc_address()) as channel:
            first = await look(channel)
            second = await look(channel, "m-2")

            assert first.states == ["COMPLETED"]
            assert second.error is not None
            assert second.code == "UNAVAILABLE"
            # Or the channel hears only now that the old connection is gone.
            assert re.search("onnection refused|Socket closed", second.error.details() or "")
            while (await look(channel, "m-3")).error:
                await asyncio.sleep(0.05)
            assert scene.agent.worked == ["m-1", "m-3"]

    run(call())


def test_a_restart_drops_connections_and_the_agent_is_found_again() -> None:
    async def call() -> None:
        spec = "restart-after=2,restart-pause=0.2"
        async with under_chaos(spec) as scene, open_channel(await scene.grpc_address()) as channel:
            assert (await look(channel)).code == "OK"
            assert (await look(channel, "m-2")).code == "UNAVAILABLE"
            while (await look(channel, "m-3")).error:
                await asyncio.sleep(0.05)
            assert scene.agent.worked == ["m-1", "m-3"]

    run(call())


def test_the_agent_s_own_refusal_passes_unchanged() -> None:
    async def call() -> Any:
        async with under_chaos("seed=1") as scene, open_channel(await scene.grpc_address()) as channel:
            stub = a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.GetTask(a2a_pb2.GetTaskRequest(id="t"))
            return caught.value

    error = run(call())

    assert (error.code().name, error.details()) == ("NOT_FOUND", "no task t")
    assert ("reason", "forgotten") in tuple(error.trailing_metadata())
