"""An assessor in this process, or in one of its own that can be killed, and the clients that call it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from a2a import types
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import CancelTaskRequest, GetTaskRequest, Message, Role, SendMessageRequest
from builtin_server import on_loop
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value
from raw_agent import Request, response, rpc

from pytest_a2a_bench.a2a.network import Guard
from pytest_a2a_bench.assessor.request import parse
from pytest_a2a_bench.assessor.server import ServerOptions, assessor
from pytest_a2a_bench.assessor.terms import Callers, Plan, Terms, known_domains, plan
from pytest_a2a_bench.benchmarks.crmarena.domains import make_source
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import Part
from pytest_a2a_bench.quiet_server import serving
from pytest_a2a_bench.tracing import NO_TRACING, Tracing

LOCAL = Guard.of(["127.0.0.0/8"])


@contextlib.contextmanager
def served(
    terms: Terms, callers: Callers | None = None, place: ServerOptions | None = None, tracing: Tracing = NO_TRACING
) -> Iterator[str]:
    """Serve an assessor on the loop thread of the client, and give its URL."""
    with on_loop(_serving(terms, callers, place or ServerOptions(port=0), tracing)) as url:
        yield url


@contextlib.asynccontextmanager
async def _serving(terms: Terms, callers: Callers | None, place: ServerOptions, tracing: Tracing) -> AsyncIterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    async with assessor(place, terms, callers, url, tracing) as app:
        async with serving(app, listener, grace=0):
            yield url
    listener.close()


@dataclass
class Program:
    url: str
    process: subprocess.Popen[str]
    errors: Path

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(60)


@contextlib.contextmanager
def program(results: Path, *arguments: str, env: Mapping[str, str] | None = None) -> Iterator[Program]:
    errors = results.with_name(f"{results.name}-{uuid.uuid4().hex[:6]}.log")
    with errors.open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest_a2a_bench.cli", "assess", "--port=0", f"--results={results}", *arguments],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, **(env or {})},
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert "answers at" in line, (line, errors.read_text())
            yield Program(line.split("answers at ")[1].split()[0], process, errors)
        finally:
            process.kill()
            process.wait(30)
            if process.stdout is not None:
                process.stdout.close()


def gen3(agent: str, **config: Any) -> dict[str, Any]:
    """Return a request as AgentBeats sends it today."""
    return {"participants": {"agent": agent}, "config": config}


def planned(terms: Terms, agent: str = "http://127.0.0.1:1/", environ: Mapping[str, str] = {}, **config: Any) -> Plan:
    """Return what an assessor of these terms would do for a request of today."""
    return plan(parse([Part("data", data=gen3(agent, **config))], known_domains()), terms, environ)


def saying(text: str | Callable[[Request], str], **usage: float) -> Callable[[Request], bytes]:
    """Return a raw agent's handler that says a text, or what a function makes of the request."""

    def handle(request: Request) -> bytes:
        said = text if isinstance(text, str) else text(request)
        message = {"messageId": "m", "role": "ROLE_AGENT", "contextId": "c", "parts": [{"text": said}]}
        try:
            return rpc({"message": {**message, "metadata": {"usage": usage}}}, request)
        except (ValueError, KeyError, TypeError):  # checks of the protocol send what is no call
            return response({}, "400 Bad Request")

    return handle


def call(url: str, method: str, params: Any, **headers: str) -> dict[str, Any]:
    """Call a method by JSON-RPC, those with a slash in their names as A2A 0.3, and return the answer."""
    version = {} if "/" in method else {"A2A-Version": "1.0"}
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    answer: dict[str, Any] = httpx.post(url, json=body, headers={**version, **headers}, timeout=120).json()
    assert answer["id"] == 7
    return answer


def golds_of(result: Mapping[str, Any]) -> set[str]:
    answers = {task.task_id: task.answers for task in make_source("mini", Settings()).tasks()}
    found = {gold for entry in result["results"] for gold in answers[entry["task_idx"]] if gold != NONE}
    assert len(found) > 5
    return found


def ask_raw(url: str, request: Any, **headers: str) -> dict[str, Any]:
    """Send a request as JSON-RPC of 1.0 with headers of one's own, wait for its end, and return the task."""
    message = {"messageId": uuid.uuid4().hex, "role": "ROLE_USER", "parts": [{"text": json.dumps(request)}]}
    found: dict[str, Any] = call(url, "SendMessage", {"message": message}, **headers)["result"]["task"]
    return found


@dataclass
class Received:
    """What a client was received.

    :ivar updates: the texts of its status updates, in order, each with its state.
    """

    task: str = ""
    context: str = ""
    updates: list[tuple[str, str]] = field(default_factory=list)
    artifacts: list[dict[str, Any]] = field(default_factory=list)

    @property
    def state(self) -> str:
        return self.updates[-1][0] if self.updates else ""

    @property
    def text(self) -> str:
        return self.updates[-1][1] if self.updates else ""

    @property
    def result(self) -> dict[str, Any]:
        [artifact] = self.artifacts
        assert artifact["name"] == "Result"
        found: dict[str, Any] = artifact["parts"][1]["data"]
        return found

    @property
    def summary(self) -> str:
        [artifact] = self.artifacts
        found: str = artifact["parts"][0]["text"]
        return found

    def take(self, event: Mapping[str, Any]) -> None:
        if "task" in event:
            self.task, self.context = event["task"]["id"], event["task"]["contextId"]
            self._note(event["task"]["status"])
            self.artifacts += event["task"].get("artifacts", [])
        elif "statusUpdate" in event:
            self._note(event["statusUpdate"]["status"])
        elif "artifactUpdate" in event:
            self.artifacts.append(event["artifactUpdate"]["artifact"])

    def _note(self, status: Mapping[str, Any]) -> None:
        parts = status.get("message", {}).get("parts", [])
        state = status["state"].removeprefix("TASK_STATE_").lower()
        self.updates.append((state, "".join(part.get("text", "") for part in parts)))


@contextlib.contextmanager
def asking(caller: Caller, request: Any, until: str = "begun") -> Iterator[Received]:
    """Ask for an assessment while the context lasts, and give what its caller hears.

    :param until: text or state of an update that is awaited at first; empty for the task's id alone.
    """
    received = Received()

    def ask() -> None:
        with contextlib.suppress(Exception):  # of an assessor that goes away each client says so in words of its own
            caller.ask(request, received=received)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        while not received.task or not any(until in text or until == state for state, text in received.updates):
            assert thread.is_alive(), received
            time.sleep(0.02)
        yield received
    finally:
        thread.join(120)
        assert not thread.is_alive(), "the assessor still works on it"


def wait_for_end(results: Path, received: Received) -> dict[str, Any]:
    """Wait until what is kept of an assessment says that it has ended, a moment after its caller heard of it."""
    while True:
        kept: dict[str, Any] = json.loads((results / received.task / "assessment.json").read_text())
        if kept["state"] not in ("waiting", "running"):
            return kept
        time.sleep(0.02)


def message(request: Any, *, as_data: bool = False) -> Message:
    if as_data:
        part = types.Part(data=ParseDict(request, Value()))
    else:
        part = types.Part(text=request if isinstance(request, str) else json.dumps(request))
    return Message(message_id=uuid.uuid4().hex, role=Role.ROLE_USER, parts=[part])


class Caller:
    """The SDK's own client."""

    def __init__(self, url: str, token: str | None = None, *, streaming: bool = True) -> None:
        self.url, self._token, self._streaming = url, token, streaming

    def ask(self, request: Any, *, as_data: bool = False, received: Received | None = None) -> Received:
        return asyncio.run(self._ask(message(request, as_data=as_data), received or Received()))

    def ask_in(self, context: str, request: Any) -> Received:
        asked = message(request)
        asked.context_id = context
        return asyncio.run(self._ask(asked, Received()))

    def get(self, task: str) -> Received:
        return asyncio.run(self._get(task))

    def poll(self, task: str) -> Received:
        while (found := self.get(task)).state in ("working", "submitted"):
            time.sleep(0.1)
        return found

    def numbers(self) -> dict[str, float]:
        """Return what it counts, by Prometheus's names."""
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        lines = httpx.get(f"{self.url}metrics", headers=headers, timeout=60).text.splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}

    def cancel(self, task: str) -> str:
        return asyncio.run(self._cancel(task))

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[Any]:
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        async with httpx.AsyncClient(timeout=120, headers=headers, verify=False) as http:  # by HTTP alone
            card = await A2ACardResolver(http, self.url).get_agent_card()
            yield ClientFactory(ClientConfig(httpx_client=http, streaming=self._streaming)).create(card)

    async def _ask(self, asked: Message, received: Received) -> Received:
        async with self.client() as client:
            async for event in client.send_message(SendMessageRequest(message=asked)):
                received.take(MessageToDict(event))
        return received

    async def _get(self, task: str) -> Received:
        async with self.client() as client:
            found = await client.get_task(GetTaskRequest(id=task))
        received = Received()
        received.take({"task": MessageToDict(found)})
        return received

    async def _cancel(self, task: str) -> str:
        async with self.client() as client:
            found = MessageToDict(await client.cancel_task(CancelTaskRequest(id=task)))
        return str(found["status"]["state"])
