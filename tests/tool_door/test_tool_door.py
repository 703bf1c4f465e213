"""The tools of trials over MCP, as any client finds them: who may call what, and what becomes of everything else."""

import asyncio
import concurrent.futures
import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from one_test import in_one_test

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.listener import LOOPBACK, BindAddress
from pytest_a2a_bench.model import ToolAccess, ToolCall, ToolSpec
from pytest_a2a_bench.model.messages import Bounds
from pytest_a2a_bench.redact import KNOWN
from pytest_a2a_bench.tool_door import NOT_YOUR_TURN, OVER, OVER_META, Answer, ToolQueue

WHO = ToolSpec("who", "Says whose tool_queue this is.", {"type": "object", "properties": {"n": {"type": "integer"}}})
MODERN = "2026-07-28"
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


def open_tool_queue(place: BindAddress = LOOPBACK, bounds: Bounds | None = None) -> ToolQueue:
    # MCP's library takes half a second to import: not while modules are collected, which each process of a run does.
    from pytest_a2a_bench.tool_door import server

    return server.open_tool_queue(place, bounds or Bounds())


class Trial:
    """A trial whose conversation answers each call by its own name, for as long as it lasts."""

    def __init__(self, name: str, place: BindAddress = LOOPBACK, bounds: Bounds | None = None) -> None:
        self.name = name
        self.tool_queue = open_tool_queue(place, bounds)
        self.tool_queue.tools = (WHO,)
        self.calls: list[ToolCall] = []
        self.tool_queue.begin_turn()
        self._reply: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._reply.add_done_callback(self.tool_queue.note_reply)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while (native := self.tool_queue.next_call()) is not None:
            self.calls.append(native.call)
            native.answer.set_result(Answer(f"{self.name}:{native.call.arguments.get('n')}"))

    def end(self) -> None:
        if not self._reply.done():
            self._reply.set_result(None)
        self._thread.join(30)
        self.tool_queue.close()
        self.tool_queue.forget()


@contextlib.contextmanager
def trials(count: int = 1, **options: Any) -> Iterator[list[Trial]]:
    made = [Trial(f"trial-{n}", **options) for n in range(count)]
    try:
        yield made
    finally:
        for trial in made:
            trial.end()


@contextlib.asynccontextmanager
async def client_of(access: ToolAccess, mode: str = "auto") -> Any:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(headers=access.headers, timeout=120, verify=False) as http,
        Client(streamable_http_client(access.url, http_client=http), mode=mode) as client,
    ):
        yield client


async def call(client: Any, n: int = 0) -> str:
    result = await client.call_tool("who", {"n": n})
    (part,) = result.content
    assert part.type == "text"
    return str(part.text)


def post(access: ToolAccess, content: bytes | None = None, **headers: str) -> httpx.Response:
    body = json.dumps(LIST).encode() if content is None else content
    every = {"Content-Type": "application/json", **ACCEPT, **access.headers, **headers}
    return httpx.post(access.url, content=body, headers=every, timeout=120, verify=False)


@in_one_test("mode", ["legacy", MODERN])
def test_the_official_client_lists_and_calls(mode: str) -> None:
    async def use(access: ToolAccess) -> None:
        async with client_of(access, mode) as client:
            (tool,) = (await client.list_tools()).tools
            assert (tool.name, tool.description, tool.input_schema) == (WHO.name, WHO.description, WHO.parameters)
            assert [await call(client, n) for n in range(3)] == ["trial-0:0", "trial-0:1", "trial-0:2"]

    with trials() as (trial,):
        asyncio.run(use(trial.tool_queue.access))
    assert trial.calls == [ToolCall("who", {"n": n}) for n in range(3)]


@pytest.mark.slow
def test_trials_at_once_reach_themselves_and_no_other() -> None:
    async def use(access: ToolAccess, others: list[ToolAccess]) -> list[str]:
        async with client_of(access) as client:
            heard = list(await asyncio.gather(*(call(client, n) for n in range(2))))
        async with httpx.AsyncClient(timeout=120, verify=False) as http:
            for other in others:
                # Another's token on one's own address, and one's own token on another's.
                for url, token in ((access.url, other.token), (other.url, access.token)):
                    headers = {"Authorization": f"Bearer {token}", **ACCEPT}
                    assert (await http.post(url, json=LIST, headers=headers)).status_code == 401
        return heard

    async def all_at_once(accesses: list[ToolAccess]) -> list[list[str]]:
        count = len(accesses)
        others = [[accesses[(n + 1) % count], accesses[(n + 3) % count]] for n in range(count)]
        return list(await asyncio.gather(*map(use, accesses, others)))

    with trials(8) as every:
        accesses = [trial.tool_queue.access for trial in every]
        heard = asyncio.run(all_at_once(accesses))
        assert len({access.token for access in accesses}) == len({access.url for access in accesses}) == 8
        assert len({httpx.URL(access.url).port for access in accesses}) == 1
    assert [sorted(texts) for texts in heard] == [[f"trial-{t}:{n}" for n in range(2)] for t in range(8)]
    assert all(len(trial.calls) == 2 for trial in every)


def test_without_its_token_nobody_learns_which_trials_there_are() -> None:
    with trials() as (trial,):
        access = trial.tool_queue.access
        no_trial = ToolAccess(access.url.replace("/trials/", "/trials/x"), access.token)
        answers = [
            post(access, Authorization=""),
            post(access, Authorization="Bearer x"),
            post(access, Authorization=access.token),
            post(access, Authorization=f"Bearer {access.token}x"),
            post(access, Authorization=f"Bearer {access.token[:-1]}"),
            post(access, Authorization=f"Basic {access.token}"),
            post(ToolAccess(f"{access.url}?token={access.token}", "x")),
            post(no_trial),
            post(ToolAccess(access.url.removesuffix("/mcp"), access.token)),
            httpx.get(access.url, verify=False),
        ]
        assert {(a.status_code, a.text, a.headers["www-authenticate"]) for a in answers} == {
            (401, answers[0].text, "Bearer")
        }
        assert post(access).status_code == 200
    assert trial.calls == []


def test_an_endpoint_ends_with_its_trial() -> None:
    with trials(2) as (one, other):
        assert post(one.tool_queue.access).status_code == 200
        one.end()
        assert post(one.tool_queue.access).status_code == 401
        assert post(other.tool_queue.access).status_code == 200
    assert post(other.tool_queue.access).status_code == 401


def test_a_call_that_waits_is_answered_when_the_trial_ends() -> None:
    async def use(access: ToolAccess, waiting: asyncio.Event) -> Any:
        async with client_of(access) as client:
            asyncio.get_running_loop().call_soon(waiting.set)
            return await client.call_tool("who", {})

    async def main(tool_queue: ToolQueue) -> Any:
        waiting = asyncio.Event()
        task = asyncio.create_task(use(tool_queue.access, waiting))
        await waiting.wait()
        while tool_queue._queue.empty():
            await asyncio.sleep(0.01)
        await asyncio.to_thread(tool_queue.close)
        return await task

    tool_queue = open_tool_queue()
    tool_queue.begin_turn()  # and nobody takes anything
    result = asyncio.run(main(tool_queue))
    tool_queue.forget()
    assert (result.content[0].text, result.is_error, result.meta[OVER_META]) == (OVER, True, True)


def test_between_turns_a_call_is_refused() -> None:
    async def use(access: ToolAccess) -> Any:
        async with client_of(access) as client:
            return await client.call_tool("who", {})

    tool_queue = open_tool_queue()
    result = asyncio.run(use(tool_queue.access))
    tool_queue.close()
    tool_queue.forget()
    assert (result.content[0].text, result.is_error) == (NOT_YOUR_TURN, True)


def test_only_posts_are_served_and_no_page_that_a_name_was_rebound_for() -> None:
    with trials() as (trial,):
        access = trial.tool_queue.access
        port = httpx.URL(access.url).port
        for headers, status in (
            ({"Host": f"evil.example:{port}"}, 421),
            ({"Host": "evil.example"}, 421),
            ({"Origin": "https://evil.example"}, 403),
            ({"Origin": "null"}, 403),
            ({"Origin": f"http://127.0.0.1:{port}"}, 200),
            ({"Host": f"localhost:{port}"}, 200),
        ):
            assert post(access, None, **headers).status_code == status, headers
        for method in ("GET", "DELETE", "PUT", "OPTIONS"):
            answer = httpx.request(method, access.url, headers=access.headers, verify=False)
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def nested(depth: int) -> bytes:
    call = json.dumps({**LIST, "method": "tools/call", "params": {"name": "who", "arguments": {"n": "HERE"}}})
    return call.replace('"HERE"', "[" * depth + "]" * depth).encode()


@in_one_test(
    ("body", "status", "rule"),
    [
        (b" " * 70_000, 413, "limit-bytes"),
        (nested(100_000)[:60_000], 400, "limit-depth"),
        (nested(2000), 400, "limit-depth"),
        (b"{", 400, None),
        (b'{"a": NaN}', 400, None),
        (b'{"a": 1e999}', 400, None),
        (b"\xff\xfe", 400, None),
        (b"[]", 400, None),
        (b"", 400, None),
    ],
)
def test_unreadable_input_is_refused_without_side_effects(body: bytes, status: int, rule: str | None) -> None:
    with trials(bounds=Bounds(bytes=65_536)) as (trial,):
        assert post(trial.tool_queue.access, body).status_code == status
        assert [f.rule for f in trial.tool_queue.findings()] == ([rule] if rule else [])
        assert post(trial.tool_queue.access).status_code == 200
    assert trial.calls == []


def test_a_body_without_a_length_is_bounded_too() -> None:
    def chunks() -> Iterator[bytes]:
        yield from (b" " * 10_000 for _ in range(20))

    with trials(bounds=Bounds(bytes=65_536)) as (trial,):
        access = trial.tool_queue.access
        headers = {"Content-Type": "application/json", **ACCEPT, **access.headers}
        with contextlib.suppress(httpx.WriteError, httpx.ReadError):
            assert (
                httpx.post(access.url, content=chunks(), headers=headers, timeout=120, verify=False).status_code == 413
            )
        assert [f.rule for f in trial.tool_queue.findings()] == ["limit-bytes"]


def test_lone_surrogates_in_arguments_are_replaced() -> None:
    body = json.dumps({**LIST, "method": "tools/call", "params": {"name": "who", "arguments": {"n": "\ud800"}}})
    with trials() as (trial,):
        assert post(trial.tool_queue.access, body.encode(), **{"MCP-Protocol-Version": "2025-06-18"}).status_code == 200
    assert trial.calls == [ToolCall("who", {"n": "�"})]


def test_the_token_is_hidden_until_the_trial_is_stored() -> None:
    tool_queue = open_tool_queue()
    text = f"see {tool_queue.access.token}"
    assert KNOWN.hide(text) == "see ***"
    assert tool_queue.access.token not in repr(tool_queue.access)
    tool_queue.close()
    assert KNOWN.hide(text) == "see ***"
    tool_queue.forget()
    assert KNOWN.hide(text) == text


def test_an_agent_elsewhere_calls_it_by_the_name_it_was_given() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with trials(place=BindAddress("127.0.0.1", port, "https://bench.example/tools")) as (trial,):
        access = trial.tool_queue.access
        assert access.url.startswith("https://bench.example/tools/trials/")
        # As a proxy passes it on: with the prefix or without, under the name that the agent called.
        path = httpx.URL(access.url).path
        for passed in (path, path.removeprefix("/tools")):
            inside = ToolAccess(f"http://127.0.0.1:{port}{passed}", access.token)
            assert post(inside, Host="bench.example").status_code == 200
        with pytest.raises(ConfigurationError, match=rf"cannot listen on 127.0.0.1:{port}: .*mcp-bind"):
            open_tool_queue(BindAddress("127.0.0.1", port))
