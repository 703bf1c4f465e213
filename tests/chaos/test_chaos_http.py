"""Each fault as a raw HTTP client sees it, and what the agent behind it was told."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

import httpx
import pytest
from harness import ROOT
from one_test import in_one_test
from raw_agent import Answer, Handler, Request, raw_agent, response, stream_head

from pytest_a2a_bench.a2a.card import CARD_PATH, load_card
from pytest_a2a_bench.chaos import Draws, Faults, main, proxy_before
from pytest_a2a_bench.errors import ConfigurationError

_STATES = ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED")


def _task(state: str) -> dict[str, Any]:
    parts = [{"text": f"{state} " + "x" * 200}]
    message = {"messageId": "reply", "role": "ROLE_AGENT", "contextId": "context-1", "taskId": "task-1", "parts": parts}
    status = {"state": state, "message": message}
    return {"task": {"id": "task-1", "contextId": "context-1", "status": status}}


def counting(worked: list[str]) -> Handler:
    """Be an agent over both HTTP bindings, and take down the ids of the messages that were answered."""

    def answer(request: Request) -> Answer:
        if request.method != "POST":
            return response("", "404 Not Found")
        is_rest, body = request.path.startswith("/rest/"), request.json
        worked.append((body if is_rest else body["params"])["message"]["messageId"])
        tasks = [_task(state) for state in _STATES]
        answers = tasks if is_rest else [{"jsonrpc": "2.0", "id": body["id"], "result": task} for task in tasks]
        if "Stream" not in body.get("method", "") and not request.path.endswith(":stream"):
            return response(answers[-1])
        return [stream_head(), *(f"data: {json.dumps(each)}\n\n".encode() for each in answers)]

    return answer


@dataclass
class Scene:
    """An agent, and the proxy before it.

    :param worked: ids of the messages that the agent answered.
    :param url: the proxy's.
    :param injected: each fault that was injected, with the number of its request.
    """

    worked: list[str]
    url: str
    card_url: str
    faults: Faults
    injected: list[tuple[int, str]]


@contextlib.asynccontextmanager
async def behind_faults(
    rates: dict[str, float],
    *,
    seed: int = 1,
    kinds: tuple[str, ...] = ("send", "task"),
    hang: float = 600.0,
    retry_after: int = 1,
) -> AsyncIterator[Scene]:
    worked, draws = list[str](), Draws(rates, seed, kinds)
    broken: list[dict[str, Any]] = []
    injected: list[tuple[int, str]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: broken.append(context))
    faults = Faults(draws, hang, retry_after, lambda fault, _: injected.append((draws.requests, fault)))
    with raw_agent(counting(worked)) as agent:
        places = {"JSONRPC": f"{agent.url}/", "HTTP+JSON": f"{agent.url}/rest", "GRPC": "http://127.0.0.1:9"}
        interfaces = [{"url": u, "protocolBinding": b, "protocolVersion": "1.0"} for b, u in places.items()]
        agent.card = {"name": "counting", "supportedInterfaces": interfaces, "signatures": [{"signature": "x"}]}
        async with proxy_before(agent.url + CARD_PATH, faults) as card_url:
            yield Scene(worked, card_url.removesuffix(CARD_PATH[1:]), card_url, faults, injected)
    # What a task of the proxy's dies of is seen by nobody else.
    assert not broken


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
    status, headers, body = None, httpx.Headers(), b""
    try:
        async with client.stream("POST", **call) as response:
            status, headers = response.status_code, response.headers
            async for chunk in response.aiter_raw():
                body += chunk
    except httpx.HTTPError as error:
        return Seen(status, body, error, headers)
    return Seen(status, body, None, headers)


class One(NamedTuple):
    """One request behind a proxy: what the client saw, the messages that the agent worked, the faults injected."""

    seen: Seen
    worked: list[str]
    injected: list[tuple[int, str]]


def one(fault: str | None, transport: str, *, stream: bool = False, context: str | None = None, **how: Any) -> One:
    async def run() -> One:
        rates = {fault: 1.0} if fault else {}
        async with behind_faults(rates, **how) as scene, httpx.AsyncClient(timeout=20) as client:
            seen = await look(client, request(scene, transport, stream=stream, context=context))
            return One(seen, scene.worked, scene.injected)

    return asyncio.run(run())


@pytest.mark.slow
@in_one_test("transport", TRANSPORTS)
@in_one_test("stream", [False, True])
@in_one_test(("fault", "worked"), [("reset", []), ("after-delivery", ["m-1"])])
def test_a_reset_comes_before_or_after_delivery(fault: str, worked: list[str], transport: str, stream: bool) -> None:
    seen, found, injected = one(fault, transport, stream=stream)
    assert isinstance(seen.error, httpx.ReadError)
    assert (seen.status, found, injected) == (None, worked, [(1, fault)])


@pytest.mark.parametrize(
    ("fault", "worked", "asked"),
    [
        ("429", [], "3"),
        ("503", [], None),
        ("500-late", ["m-1"], None),
        ("503-late", ["m-1"], "3"),
        ("504-late", ["m-1"], None),
    ],
)
def test_an_error_status_comes_before_or_after_delivery(fault: str, worked: list[str], asked: str | None) -> None:
    seen, found, _ = one(fault, "jsonrpc", retry_after=3)
    assert (seen.status, seen.error) == (int(fault[:3]), None)
    assert seen.headers.get("retry-after") == asked
    assert found == worked


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_ends_in_the_middle(transport: str, stream: bool) -> None:
    whole, *_ = one(None, transport, stream=stream)
    seen, worked, _ = one("half-close", transport, stream=stream)
    assert isinstance(seen.error, httpx.RemoteProtocolError)
    assert (seen.status, worked) == (200, ["m-1"])
    assert 0 < len(seen.body) < len(whole.body)
    assert whole.body.startswith(seen.body)


@pytest.mark.parametrize("stream", [False, True])
def test_a_truncated_answer_ends_properly_and_cannot_be_read(stream: bool) -> None:
    seen, worked, _ = one("truncate", "rest", stream=stream)
    assert (seen.status, seen.error, worked) == (200, None, ["m-1"])
    last = seen.body.split(b"\n\n")[-1].removeprefix(b"data: ")
    with pytest.raises(json.JSONDecodeError):
        json.loads(last)
    assert seen.body.count(b"\n\n") == (2 if stream else 0)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (None, ["SUBMITTED", "WORKING", "COMPLETED"]),
        ("duplicate", ["SUBMITTED", "SUBMITTED", "WORKING", "WORKING", "COMPLETED", "COMPLETED"]),
        ("reorder", ["WORKING", "SUBMITTED", "COMPLETED"]),
    ],
)
def test_events_come_as_they_are_twice_or_out_of_order(fault: str | None, expected: list[str], transport: str) -> None:
    seen, worked, _ = one(fault, transport, stream=True)
    found = [event.get("result", event)["task"]["status"]["state"] for event in seen.events()]
    assert [state.removeprefix("TASK_STATE_") for state in found] == expected
    assert (seen.status, seen.error, worked) == (200, None, ["m-1"])


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
def test_ids_are_others(stream: bool) -> None:
    def answer(fault: str, context: str | None = None) -> dict[str, Any]:
        seen, *_ = one(fault, "jsonrpc", stream=stream, context=context)
        found = seen.events()[0] if stream else json.loads(seen.body)
        assert isinstance(found, dict)
        return found

    assert answer("wrong-id")["id"] == "chaos-7"
    assert answer("wrong-context", "context-1")["result"]["task"]["contextId"] == "chaos-context-1"
    # A conversation that has no name yet gets it from this answer.
    assert answer("wrong-context")["result"]["task"]["contextId"] == "context-1"
    assert answer("wrong-task")["result"]["task"]["id"] == "chaos-task-1"
    # Where there is nothing to change, no fault was injected.
    assert one("wrong-id", "rest").injected == []


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("fault", "status"), [("hang-before", None), ("hang-after", 200)])
def test_a_silence_before_or_after_the_headers(fault: str, status: int | None, stream: bool) -> None:
    async def run() -> tuple[Seen, list[str], dict[str, int]]:
        async with behind_faults({fault: 1.0}) as scene, httpx.AsyncClient(timeout=0.5) as client:
            seen = await look(client, request(scene, "jsonrpc", stream=stream))
            return seen, scene.worked, dict(scene.faults.injected)

    seen, worked, injected = asyncio.run(run())

    assert isinstance(seen.error, httpx.ReadTimeout)
    assert (seen.status, worked, injected) == (status, ["m-1"], {fault: 1})
    assert len(seen.body.split(b"\n\n")) == (2 if stream and status else 1)


def test_a_silence_ends() -> None:
    began = time.monotonic()
    seen, *_ = one("hang-before", "jsonrpc", hang=0.2)
    assert (seen.status, seen.error) == (200, None)
    assert time.monotonic() - began >= 0.2


def test_cards_are_hit_only_if_asked() -> None:
    async def statuses(kinds: tuple[str, ...]) -> list[int]:
        async with behind_faults({"503": 1.0}, kinds=kinds) as scene, httpx.AsyncClient() as client:
            card = await client.get(scene.card_url)
            other = await client.get(f"{scene.url}nothing-here")
            return [card.status_code, other.status_code]

    assert asyncio.run(statuses(("send", "task"))) == [200, 404]
    assert asyncio.run(statuses(("card", "other"))) == [503, 503]


def test_the_card_names_the_proxy_alone_and_is_not_signed() -> None:
    async def run() -> None:
        async with behind_faults({}) as scene, httpx.AsyncClient() as client:
            card = load_card((await client.get(scene.card_url)).content, scene.card_url)
            assert [i.url for i in card.interfaces] == [scene.url, f"{scene.url}rest"]
            assert "signatures" not in card.raw

    asyncio.run(run())


def test_the_same_seed_meets_the_same_requests() -> None:
    async def run(seed: int) -> list[tuple[int, str]]:
        rates = {"503": 0.3, "reset": 0.2, "429": 0.1}
        async with behind_faults(rates, seed=seed) as scene, httpx.AsyncClient(timeout=20) as client:
            for number in range(30):
                await look(client, request(scene, TRANSPORTS[number % 2], f"{seed}-{number}"))
            return scene.injected

    first = asyncio.run(run(7))

    assert first == asyncio.run(run(7))
    assert first != asyncio.run(run(8))
    assert {"503", "reset"} <= {fault for _, fault in first}


def test_an_agent_that_is_gone_is_trouble_of_its_own() -> None:
    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as gone:
            url = f"http://127.0.0.1:{gone.getsockname()[1]}/"
        reports: list[str] = []
        faults = Faults(Draws({"reset": 0.1}), report=lambda fault, _: reports.append(fault))
        async with proxy_before(url + CARD_PATH[1:], faults) as card_url, httpx.AsyncClient(timeout=20) as client:
            answer = await client.post(card_url, json={})

        assert answer.status_code == 502
        assert f"the agent at {url[:-1]} gave no answer: ConnectError" in answer.text
        assert reports[0].startswith(f"the agent at {url[:-1]} gave no answer")
        assert not faults.injected

    asyncio.run(run())


def test_a_port_in_use_is_reported() -> None:
    async def run(port: int) -> None:
        async with proxy_before("http://127.0.0.1:9/card", Faults(Draws({})), port=port):
            pass

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
            asyncio.run(run(port))


# The fault proxy as a program.


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def line_of(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_the_command_injects_faults_and_sums_up(
    number: signal.Signals, noop_url: str, processes: list[subprocess.Popen[str]]
) -> None:
    command = [sys.executable, "-m", "pytest_a2a_bench.chaos", noop_url, "--fault", "429=1"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    processes.append(process)
    assert line_of(process.stdout) == f"chaos before {noop_url} (Ctrl-C stops it)\n"
    found = re.search(r"^try: pytest --a2a-endpoint (\S+) -k airline$", line_of(process.stdout))
    assert found
    url = httpx.get(found[1]).json()["supportedInterfaces"][0]["url"]
    assert found[1].startswith(url)
    said = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    sent = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": said}}
    answer = httpx.post(url, json=sent, headers={"A2A-Version": "1.0"})
    process.send_signal(number)
    out, errors = process.communicate()

    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert (process.returncode, out) == (0, "request 1: 429 (SendMessage m-1)\n")
    assert errors == "chaos: 1 requests, 1 faults (429 1)\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--fault", "rest=1"], "there is no fault 'rest'; did you mean 'reset'"),
        (["--port", "70000"], "argument --port: invalid choice: 70000"),
        ([], "is the agent running? (--wait SECONDS waits for it)"),
    ],
)
def test_an_error_is_one_line_and_exit_code_2(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code: object = main(["http://127.0.0.1:9", *arguments])
    except SystemExit as left:
        code = left.code
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert complaint in printed.err.splitlines()[-1]
