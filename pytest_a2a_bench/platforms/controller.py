"""A controller in AgentBeats' form: an agent's process with its state, logs and reset over HTTP, and a proxy to it."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import signal
import urllib.parse
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Set
from dataclasses import dataclass
from typing import NamedTuple

import httpx
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pytest_a2a_bench.a2a import network
from pytest_a2a_bench.a2a.card import (
    CARD_METHODS,
    CARD_PATH,
    CARD_PATHS,
    LEGACY_CARD_PATH,
    NOT_FORWARDED,
    NOT_REQUESTED,
    Parts,
    rewrite_card,
)
from pytest_a2a_bench.agents.gateway import BODY, bearer, bounded, called_by_name, guarded
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.listener import listen, local_url
from pytest_a2a_bench.platforms.process import HOST, Command, Process, free_port
from pytest_a2a_bench.quiet_server import serving
from pytest_a2a_bench.redact import KNOWN, Secret
from pytest_a2a_bench.text import one_line

PENDING, STARTING, RUNNING, RESET_REQUESTED = "pending", "starting", "running", "reset_requested"
STOPPED = "stopped"
NOT_FOUND = "File not found."
"""The answer of AgentBeats' controllers in place of a card or log that does not exist yet."""

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD")


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """How a controller is served.

    :param public: base URL under which callers reach it; None for the address that it listens on.
    :param token: bearer token that callers must show; None for none, which is only possible on loopback.
    :param open_agent: whether the token is required for states and resets only, and not for the agent.
    :param shown_command: the command as ``/status`` shows it.
    :param report: called with each state of the agent.
    """

    host: str = "127.0.0.1"
    port: int = 0
    public: str | None = None
    token: Secret | None = None
    open_agent: bool = False
    shown_command: str = ""
    report: Callable[[str], None] = lambda _: None

    def __post_init__(self) -> None:
        if self.token is None and not network.is_loopback(self.host.strip("[]")):
            raise ConfigurationError(
                f"controller: --host {self.host or '(any)'} can be reached from elsewhere, where anybody could restart "
                "and use the agent; name a variable that holds a token with --auth-env NAME, or leave --host out"
            )
        parts = urllib.parse.urlsplit(self.public or "http://x")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigurationError(f"controller: --public-url {self.public} is not a base URL of http or https")


class ControlledAgent:
    """An agent through its resets, each of which is a new process on another port.

    :param public: URL of the controller, below which callers reach the agent.
    :ivar state: ``pending``, ``starting``, ``running`` (its card was read), ``reset_requested``, ``stopped`` or
        ``finished(CODE)``.
    :ivar port: where it listens now, on 127.0.0.1.
    :ivar generation: how often it was started.
    """

    def __init__(self, command: Command, public: str, report: Callable[[str], None]) -> None:
        self.id = uuid.uuid4().hex
        self.url = f"{public}/to_agent/{self.id}"
        self.state = PENDING
        self.port = free_port()
        self.generation = 0
        self._command, self._report = command, report
        self._process: Process | None = None
        self._card = NOT_FOUND
        self._reset = asyncio.Event()

    def describe(self) -> dict[str, str]:
        """Return state, logs and card as AgentBeats' controllers do."""
        process = self._process
        logs = (process.stdout.text(), process.stderr.text()) if process else (NOT_FOUND, NOT_FOUND)
        return {"state": self.state, "stdout_log": logs[0], "stderr_log": logs[1], "agent_card": self._card}

    def request_reset(self) -> None:
        """Have the process ended and another started; the state of the old one is not shown any more."""
        self._become(RESET_REQUESTED)
        self._reset.set()

    def request_stop(self) -> None:
        """Have the process ended; a reset starts another."""
        self._become(STOPPED)
        self._reset.set()

    def usage(self) -> dict[str, float]:
        """Return the CPU seconds and the memory of the agent's processes."""
        return self._process.usage() if self._process is not None else {}

    async def run(self) -> None:
        """Start the agent, and again at each reset, until the task is cancelled; then end it."""
        # Not kept alive: an agent may serve one connection at a time.
        limits = httpx.Limits(max_keepalive_connections=0)
        async with httpx.AsyncClient(trust_env=False, timeout=2.0, limits=limits) as client:
            while True:
                self._reset.clear()
                if self.state == STOPPED:
                    await self._reset.wait()
                    continue
                self.state, self._card, self.port = PENDING, NOT_FOUND, free_port()
                self.generation += 1
                self._process = process = Process(self._command, self.port, self.url)
                self._become(STARTING)
                watching = [asyncio.create_task(work) for work in (self._find_card(client), self._await_end(process))]
                try:
                    await self._reset.wait()
                finally:
                    for task in watching:
                        task.cancel()
                    await process.stop()
                    await asyncio.gather(*watching, return_exceptions=True)

    async def _find_card(self, client: httpx.AsyncClient) -> None:
        while self.state == STARTING:
            # An agent that does not answer in time is asked again, and not at the old path, where it may have no card.
            with contextlib.suppress(httpx.HTTPError):
                for path in (CARD_PATH, LEGACY_CARD_PATH):
                    self._take_card(await client.get(f"http://{HOST}:{self.port}{path}"))
            await asyncio.sleep(0.2)

    def _take_card(self, answer: httpx.Response) -> None:
        """Show an answer as the card, if it is one: the agent runs."""
        with contextlib.suppress(ValueError):
            if self.state == STARTING and answer.status_code == 200 and isinstance(answer.json(), dict):
                card = json.loads(rewrite_card(answer.content, self.url, is_loopback))
                self._card = json.dumps(card, indent=2, ensure_ascii=False)
                self._become(RUNNING)

    async def _await_end(self, process: Process) -> None:
        code = await process.wait()
        if self.state in (STARTING, RUNNING):
            self._become(f"finished({code})", process.stderr.text())

    def _become(self, state: str, reason: str = "") -> None:
        self.state = state
        self._report(f"{state}: {one_line(reason.strip()[-300:])}" if reason.strip() else state)


class Serving(NamedTuple):
    """A controller that answers.

    :param url: base URL for callers.
    :param local: base URL of the address that it listens on.
    :param tasks: its server and its agent, neither of which ends by itself.
    """

    url: str
    local: str
    agent: ControlledAgent
    tasks: tuple[asyncio.Task[None], ...]


async def serve(options: ControllerOptions, command: Command, on_ready: Callable[[Serving], None]) -> None:
    """Serve until SIGINT or SIGTERM, and end the agent.

    :param on_ready: called once, when requests are answered; the agent may still be starting.
    :raises ConfigurationError: if the address cannot be listened on.
    """
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with running(options, command) as controller:
        on_ready(controller)
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({stopping, *controller.tasks}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        for task in controller.tasks:
            if task.done():
                task.result()


@contextlib.asynccontextmanager
async def running(options: ControllerOptions, command: Command) -> AsyncIterator[Serving]:
    """Serve as long as the context lasts, and end the agent. Signals are left to the caller.

    :raises ConfigurationError: if the address cannot be listened on.
    """
    listener = listen(options.host, options.port)
    local = local_url(options.host, listener.getsockname()[1])
    public = (options.public or local).rstrip("/")
    agent = ControlledAgent(command, public, options.report)
    forwarding = Proxy(f"/to_agent/{agent.id}", agent.url)
    app = bounded(_application(agent, options.shown_command, forwarding), MAX_BODY)
    app = _guarded(app, options, public)
    try:
        async with serving(app, listener, log_level="critical") as server:
            keeping = asyncio.create_task(agent.run())
            try:
                yield Serving(public, local, agent, (server.ended, keeping))
            finally:
                # The agent first: callers that wait for its answer get an error at once.
                keeping.cancel()
                await asyncio.gather(keeping, return_exceptions=True)
    finally:
        await forwarding.aclose()
        listener.close()


def _application(agent: ControlledAgent, shown_command: str, forwarding: Proxy) -> Starlette:
    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def status(_: Request) -> Response:
        running, command = int(agent.state == RUNNING), KNOWN.hide(shown_command)
        return JSONResponse({"maintained_agents": 1, "running_agents": running, "starting_command": command})

    async def agents(_: Request) -> Response:
        used = await asyncio.to_thread(agent.usage)
        return JSONResponse({agent.id: {"url": agent.url, "internal_port": agent.port, "state": agent.state, **used}})

    async def described(_: Request) -> Response:
        return JSONResponse(agent.describe())

    async def reset(_: Request) -> Response:
        agent.request_reset()
        return JSONResponse({"message": f"Agent {agent.id} reset requested."})

    async def stop(_: Request) -> Response:
        agent.request_stop()
        return JSONResponse({"message": f"Agent {agent.id} stop requested; a reset starts it."})

    async def forward(request: Request) -> Response:
        if agent.state in (STARTING, RUNNING):
            return await forwarding.forward(request, agent.port)
        return PlainTextResponse(f"agent {agent.id} is {agent.state}\n", 503, {"Retry-After": "1"})

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/status", status),
            Route("/agents", agents),
            Route(f"/agents/{agent.id}", described),
            Route(f"/agents/{agent.id}/reset", reset, methods=["POST"]),
            Route(f"/agents/{agent.id}/stop", stop, methods=["POST"]),
            Route(f"/to_agent/{agent.id}", forward, methods=_METHODS),
            Route(f"/to_agent/{agent.id}/{{path:path}}", forward, methods=_METHODS),
        ]
    )


def _guarded(app: ASGIApp, options: ControllerOptions, public: str) -> ASGIApp:
    """Require the token, where there is one; else refuse requests that call this machine by another name."""
    token = options.token
    if token is None:
        return called_by_name(app, public, lambda scope: bool(scope["path"] == "/healthz"))

    def is_open(scope: Scope) -> bool:
        # A card says what callers have to show.
        is_card = scope["method"] == "GET" and scope["path"].endswith((CARD_PATH, LEGACY_CARD_PATH))
        is_agents = scope["path"].startswith("/to_agent/") and (options.open_agent or is_card)
        return bool(is_agents or scope["path"] == "/healthz")

    async def without_token(scope: Scope, receive: Receive, send: Send) -> None:
        if "user" in scope:  # the controller's token is not for the agent
            scope["headers"] = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
        await app(scope, receive, send)

    return guarded(without_token, bearer(token.reveal()), is_open)


MAX_BODY = 16 * 1024 * 1024
"""Most bytes of a request's body."""

# AgentBeats' controllers wait 30 minutes for an agent's next byte, too.
_TIMEOUT = httpx.Timeout(1800.0, connect=30.0).as_dict()

_OWN_RESPONSE = NOT_FORWARDED | {b"date", b"server"}


class Proxy:
    """Forwards requests below a path to a port of this machine.

    It uses a transport without a client, which would keep cookies of one caller for the next. Connections are not kept
    alive: one that the agent closes just then would leave it unknown whether the request arrived.

    :param prefix: the path, such as ``/to_agent/ID``.
    :param url: its URL, which replaces loopback URLs on the agent's card.
    """

    def __init__(self, prefix: str, url: str) -> None:
        self._prefix, self._url = prefix.encode(), url
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._transport = httpx.AsyncHTTPTransport(limits=limits, trust_env=False)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()

    async def forward(self, request: Request, port: int) -> Response:
        """Return the agent's response, or 502 to 504 where it does not answer; ``gateway.bounded`` read the body."""
        body: bytes = request.scope[BODY]
        try:
            response = await self._transport.handle_async_request(self._outgoing(request, body, port))
        except httpx.HTTPError as error:
            reason = f"{type(error).__name__}: {error}".rstrip(": ")
            if isinstance(error, httpx.ConnectError):
                return PlainTextResponse(f"the agent does not listen yet: {reason}\n", 503, {"Retry-After": "1"})
            status = 504 if isinstance(error, httpx.TimeoutException) else 502
            return PlainTextResponse(f"the agent gave no answer: {reason}\n", status)
        headers = _without(_OWN_RESPONSE, response.headers.raw)
        if _asks_for_card(request, body):
            card = rewrite_card(await response.aread(), self._url, is_loopback)
            await response.aclose()
            answer = Response(card, response.status_code)
            headers = [*_without({b"content-length"}, headers), (b"content-length", b"%d" % len(card))]
        else:
            # If the agent ends in the middle, the server breaks the connection off instead of ending the response.
            ending = BackgroundTask(response.aclose)
            answer = StreamingResponse(response.aiter_raw(), response.status_code, background=ending)
        answer.raw_headers = headers
        return answer

    def _outgoing(self, request: Request, body: bytes, port: int) -> httpx.Request:
        # The path as the caller wrote it: %2F in it is no slash.
        path: bytes = (request.scope.get("raw_path") or request.url.path.encode()).partition(b"?")[0]
        # AgentBeats' gateway adds the path of the card's URL to that of its own, so that the prefix is there twice.
        path = path.removeprefix(self._prefix).removeprefix(self._prefix) or b"/"
        query: bytes = request.scope.get("query_string", b"")
        forwarded = [
            # Cards are rewritten, which takes plain text.
            (b"accept-encoding", b"identity"),
            (b"x-forwarded-host", request.headers.get("host", "").encode("latin-1")),
            (b"x-forwarded-proto", request.url.scheme.encode()),
            (b"x-forwarded-prefix", self._prefix),
        ]
        return httpx.Request(
            request.method,
            httpx.URL(scheme="http", host=HOST, port=port, raw_path=path + (b"?" + query if query else b"")),
            headers=[*_without(NOT_REQUESTED, request.headers.raw), *forwarded],
            content=body,
            extensions={"timeout": _TIMEOUT},
        )


def is_loopback(parts: Parts) -> bool:
    """Return whether a URL leads to the machine of its reader: to loopback, or to a server's wildcard address."""
    host = parts.hostname or ""
    try:
        return network.is_loopback(host) or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _asks_for_card(request: Request, body: bytes) -> bool:
    if request.method == "POST":
        return any(name.encode() in body for name in CARD_METHODS)
    return request.method == "GET" and request.url.path.endswith(CARD_PATHS)


def _without(names: Set[bytes], headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name.lower(), value) for name, value in headers if name.lower() not in names]
