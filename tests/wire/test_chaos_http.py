"""Each fault as a raw HTTP client sees it, and what the agent behind it was told."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from counting_agent import Scene, under_chaos
from examples import sampled

from pytest_a2a_bench.a2a.card import CARD_PATH, parse_card
from pytest_a2a_bench.chaos.journal import Journal
from pytest_a2a_bench.chaos.proxy import standing_before
from pytest_a2a_bench.chaos.spec import STATUS_FAULTS, parse_chaos

TRANSPORTS = ("jsonrpc", "rest")


def request(
    scene: Scene, transport: str, message_id: str = "m-1", *, stream: bool = False, context: str | None = None
) -> dict[str, Any]:
    message = {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    params = {"message": message if context is None else {**message, "contextId": context}}
    if transport == "rest":
        return {"url": f"{scene.url}rest/message:{'stream' if stream else 'send'}", "json": params}
    method = "SendStreamingMessage" if stream else "SendMessage"
    return {"url": scene.url, "json": {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}}


class Seen(NamedTuple):
    """What became of one request.

    :param error: what the client raised.
    :param head: whether there were headers before it.
    """

    status: int | None = None
    body: bytes = b""
    error: Exception | None = None
    headers: httpx.Headers = httpx.Headers()

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(e.removeprefix(b"data: ")) for e in self.body.split(b"\n\n") if e]


async def look(client: httpx.AsyncClient, call: dict[str, Any]) -> Seen:
    """Send one request and take what there is of its answer."""
    status, headers, body = None, httpx.Headers(), b""
    try:
        async with client.stream("POST", **call) as response:
            status, headers = response.status_code, response.headers
            async for chunk in response.aiter_raw():
                body += chunk
    except httpx.HTTPError as error:
        return Seen(status, body, error, headers)
    return Seen(status, body, None, headers)


def one(
    spec: str, transport: str, log: Path | None = None, *, stream: bool = False, context: str | None = None
) -> tuple[Seen, list[str]]:
    """Return what a client saw of one request, and the messages that the agent worked."""

    async def run() -> tuple[Seen, list[str]]:
        async with under_chaos(spec, log) as scene, httpx.AsyncClient(timeout=20) as client:
            seen = await look(client, request(scene, transport, stream=stream, context=context))
            return seen, scene.agent.worked

    return asyncio.run(run())


def states(seen: Seen) -> list[str]:
    tasks = [e.get("result", e)["task"] for e in seen.events()]
    return [task["status"]["state"].removeprefix("TASK_STATE_") for task in tasks]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("stream", [False, True])
def test_without_a_fault_nothing_is_changed(transport: str, stream: bool) -> None:
    seen, worked = one("seed=1", transport, stream=stream)

    assert (seen.status, seen.error, worked) == (200, None, ["m-1"])
    if stream:
        assert states(seen) == ["SUBMITTED", "WORKING", "COMPLETED"]
    else:
        assert json.loads(seen.body)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("fault", "worked"), [("reset", []), ("after-delivery", ["m-1"])])
def test_a_reset_comes_before_or_after_delivery(
    fault: str, worked: list[str], transport: str, stream: bool, tmp_path: Path
) -> None:
    seen, found = one(f"{fault}=1", transport, tmp_path / "log", stream=stream)

    assert isinstance(seen.error, httpx.ReadError)
    assert (seen.status, found) == (None, worked)
    line = json.loads((tmp_path / "log").read_text())
    assert (line["request"], line["fault"], line["messageId"], line["injected"]) == (1, fault, "m-1", True)
    assert line["transport"] == transport


@pytest.mark.parametrize("name", sampled(STATUS_FAULTS, 3))
def test_an_error_status_comes_before_or_after_delivery(name: str) -> None:
    fault = STATUS_FAULTS[name]
    seen, worked = one(f"{name}=1,retry-after=3", "jsonrpc")

    assert (seen.status, seen.error) == (fault.status, None)
    assert seen.headers.get("retry-after") == ("3" if fault.retry else None)
    assert worked == (["m-1"] if fault.late else [])


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_ends_in_the_middle(transport: str, stream: bool) -> None:
    whole, _ = one("seed=1", transport, stream=stream)
    seen, worked = one("half-close=1", transport, stream=stream)

    assert isinstance(seen.error, httpx.RemoteProtocolError)
    assert (seen.status, worked) == (200, ["m-1"])
    assert 0 < len(seen.body) < len(whole.body)
    assert whole.body.startswith(seen.body)


@pytest.mark.parametrize("stream", [False, True])
def test_a_truncated_answer_ends_properly_and_cannot_be_read(stream: bool) -> None:
    seen, worked = one("truncate=1", "rest", stream=stream)

    assert (seen.status, seen.error, worked) == (200, None, ["m-1"])
    last = seen.body.split(b"\n\n")[-1].removeprefix(b"data: ")
    with pytest.raises(json.JSONDecodeError):
        json.loads(last)
    assert seen.body.count(b"\n\n") == (2 if stream else 0)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("duplicate", ["SUBMITTED", "SUBMITTED", "WORKING", "WORKING", "COMPLETED", "COMPLETED"]),
        ("reorder", ["WORKING", "SUBMITTED", "COMPLETED"]),
    ],
)
def test_events_come_twice_or_out_of_order(fault: str, expected: list[str], transport: str) -> None:
    seen, _ = one(f"{fault}=1", transport, stream=True)

    assert states(seen) == expected


@pytest.mark.parametrize("stream", [False, True])
def test_ids_are_others(stream: bool, tmp_path: Path) -> None:
    def answer(fault: str, context: str | None = None) -> dict[str, Any]:
        seen, _ = one(f"{fault}=1", "jsonrpc", stream=stream, context=context)
        found = seen.events()[0] if stream else json.loads(seen.body)
        assert isinstance(found, dict)
        return found

    assert answer("wrong-id")["id"] == "chaos-7"
    assert answer("wrong-context", "context-1")["result"]["task"]["contextId"] == "chaos-context-1"
    # A conversation that has no name yet gets it from this answer.
    assert answer("wrong-context")["result"]["task"]["contextId"] == "context-1"
    assert answer("wrong-task")["result"]["task"]["id"] == "chaos-task-1"
    one("wrong-id=1", "rest", tmp_path / "log")
    assert json.loads((tmp_path / "log").read_text())["injected"] is False


def test_an_answer_dribbles() -> None:
    async def run() -> list[int]:
        # Only what a client reads at once can tell: so slow a writer that each byte is a read of its own.
        async with under_chaos("dribble=1,dribble-delay=0.02") as scene:
            reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(scene.url).port)
            body = json.dumps(request(scene, "rest")["json"]).encode()
            writer.write(
                b"POST /rest/message:send HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body
            )
            sizes = [len(await reader.read(65536)) for _ in range(20)]
            writer.close()
            return sizes

    # A busy machine may put a few together.
    assert sum(asyncio.run(run())) < 60


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("fault", "status"), [("hang-before", None), ("hang-after", 200)])
def test_a_silence_before_or_after_the_headers(fault: str, status: int | None, stream: bool) -> None:
    async def run() -> tuple[Seen, list[str], dict[str, int]]:
        async with under_chaos(f"{fault}=1") as scene, httpx.AsyncClient(timeout=0.5) as client:
            seen = await look(client, request(scene, "jsonrpc", stream=stream))
            return seen, scene.agent.worked, dict(scene.journal.injected)

    seen, worked, injected = asyncio.run(run())

    assert isinstance(seen.error, httpx.ReadTimeout)
    assert (seen.status, worked, injected) == (status, ["m-1"], {fault: 1})
    assert len(seen.body.split(b"\n\n")) == (2 if stream and status else 1)


def test_a_silence_ends() -> None:
    began = time.monotonic()
    seen, _ = one("hang-before=1,hang=0.2", "jsonrpc")

    assert (seen.status, seen.error) == (200, None)
    assert time.monotonic() - began >= 0.2


async def until(met: Callable[[], Awaitable[bool]]) -> None:
    while not await met():
        await asyncio.sleep(0.02)


def test_refuse_answers_once_and_then_refuses_connections() -> None:
    async def run() -> None:
        async with under_chaos("refuse=1,refuse-for=0.3") as scene, httpx.AsyncClient(timeout=20) as client:
            first = await look(client, request(scene, "jsonrpc"))
            second = await look(client, request(scene, "jsonrpc", "m-2"))

            assert (first.status, first.error) == (200, None)
            assert isinstance(second.error, httpx.ConnectError)

            async def is_open() -> bool:
                return (await look(client, request(scene, "jsonrpc", "m-3"))).status == 200

            await until(is_open)
            assert scene.agent.worked == ["m-1", "m-3"]

    asyncio.run(run())


def test_a_slow_start_refuses_and_then_answers() -> None:
    async def run() -> None:
        async with under_chaos("slow-start=0.3") as scene, httpx.AsyncClient(timeout=20) as client:
            first = await look(client, request(scene, "jsonrpc"))
            assert isinstance(first.error, httpx.ConnectError)

            async def is_open() -> bool:
                return (await look(client, request(scene, "jsonrpc", "m-2"))).status == 200

            await until(is_open)
            assert scene.agent.worked == ["m-2"]

    asyncio.run(run())


def test_a_restart_drops_every_connection_and_refuses_for_a_while() -> None:
    async def run() -> None:
        spec = "restart-after=2,restart-pause=0.3,hang-before=1"
        async with under_chaos(spec) as scene, httpx.AsyncClient(timeout=20) as client:
            hanging = asyncio.create_task(look(client, request(scene, "jsonrpc")))

            async def is_hanging() -> bool:
                return bool(scene.journal.injected)

            await until(is_hanging)
            second = await look(client, request(scene, "rest", "m-2"))
            first = await hanging

            assert isinstance(first.error, httpx.ReadError)
            assert isinstance(second.error, httpx.ReadError)
            assert isinstance((await look(client, request(scene, "jsonrpc", "m-3"))).error, httpx.ConnectError)

            async def shows_its_card() -> bool:
                try:
                    return bool(await scene.card())
                except httpx.ConnectError:
                    return False

            await until(shows_its_card)
            assert scene.agent.worked == ["m-1"]

    asyncio.run(run())


def test_cards_are_hit_only_if_asked() -> None:
    async def statuses(spec: str) -> list[int]:
        async with under_chaos(spec) as scene, httpx.AsyncClient() as client:
            card = await client.get(scene.card_url)
            other = await client.get(f"{scene.url}nothing-here")
            return [card.status_code, other.status_code]

    assert asyncio.run(statuses("503=1")) == [200, 404]
    assert asyncio.run(statuses("503=1,on=all")) == [503, 503]


def test_the_card_names_the_proxy_and_is_not_signed() -> None:
    async def run() -> None:
        async with under_chaos("seed=1") as scene:
            card = await scene.card()

            assert {i.url for i in card.interfaces if i.transport != "grpc"} == {scene.url, f"{scene.url}rest"}
            assert "signatures" not in card.raw

    asyncio.run(run())


def test_the_same_seed_meets_the_same_requests(tmp_path: Path) -> None:
    async def run(name: str, seed: int) -> list[tuple[int, str]]:
        spec = f"503=0.3,reset=0.2,429-retry=0.1,seed={seed}"
        async with under_chaos(spec, tmp_path / name) as scene, httpx.AsyncClient(timeout=20) as client:
            for number in range(30):
                await look(client, request(scene, TRANSPORTS[number % 2], f"{name}-{number}"))
            return [(line["request"], line["fault"]) for line in scene.logged()]

    first = asyncio.run(run("a", 7))

    assert first == asyncio.run(run("b", 7))
    assert first != asyncio.run(run("c", 8))
    assert {"503", "reset"} <= {fault for _, fault in first}


def test_an_agent_that_is_gone_is_trouble_of_its_own() -> None:
    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as gone:
            url = f"http://127.0.0.1:{gone.getsockname()[1]}/"
        interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        card = parse_card({"supportedInterfaces": [interface]}, url + CARD_PATH[1:])
        spec, journal = parse_chaos("reset=0.1,seed=1"), Journal()
        async with standing_before(card, spec, journal) as standing, httpx.AsyncClient(timeout=20) as client:
            answer = await client.post(standing.url, json={})

        assert answer.status_code == 502
        assert f"the agent at {url[:-1]} gave no answer: ConnectError" in answer.text
        assert "1 time the agent itself gave no whole answer" in journal.summary(spec)

    asyncio.run(run())
