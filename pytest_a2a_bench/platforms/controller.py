"""A server as AgentBeats' controllers are: it keeps an agent's process, tells of it, resets it, and leads to it."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import os
import socket
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pytest_a2a_bench.a2a.card import CARD_PATH, LEGACY_CARD_PATH
from pytest_a2a_bench.chaos.proxy import until_stopped
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.platforms.agent import Kept, KeptAgent, running
from pytest_a2a_bench.platforms.cards import is_loopback
from pytest_a2a_bench.platforms.proxy import MAX_BODY, BrokenAnswer, Proxy, Receive, Scope, Send
from pytest_a2a_bench.quiet_server import QuietServer
from pytest_a2a_bench.secret import KNOWN, Secret

App = Callable[[Scope, Receive, Send], Awaitable[None]]

_CONNECTIONS = 1024
_WILDCARDS = ("0.0.0.0", "::", "")


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """How a controller is served.

    :param public: base URL under which callers reach it; None for the address that it listens on.
    :param token: what callers must show; None for none, which is only possible on loopback.
    :param open_agent: whether the agent itself is for everybody, and the token for its states and resets alone.
    :param max_body: most bytes of a request's body.
    """

    host: str = "127.0.0.1"
    port: int = 0
    public: str | None = None
    token: Secret | None = None
    open_agent: bool = False
    max_body: int = MAX_BODY

    def __post_init__(self) -> None:
        if self.token is None and not is_loopback_address(self.host):
            raise ConfigurationError(
                f"controller: --host {self.host or '(any)'} can be reached from elsewhere, and whoever reaches it "
                "could restart and use the agent; name a variable that holds a token with --auth-env NAME, or leave "
                "--host out"
            )
        parts = urllib.parse.urlsplit(self.public or "http://x")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigurationError(f"controller: --public-url {self.public} is not a base URL of http or https")


def is_loopback_address(host: str) -> bool:
    """Tell whether what listens on a host can only be reached from this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class Serving(NamedTuple):
    """A controller that answers.

    :param url: under which callers reach it.
    :param local: where it listens.
    :param tasks: its server and the keeping of its agent, neither of which ends by itself.
    """

    url: str
    local: str
    agent: KeptAgent
    tasks: tuple[asyncio.Task[None], ...]


async def serve(options: ControllerOptions, kept: Kept, on_ready: Callable[[Serving], None]) -> None:
    """Serve until SIGINT or SIGTERM, and end the agent.

    :param on_ready: called once, when requests are answered; the agent may still be starting.
    :raises ConfigurationError: if the address cannot be listened on.
    """
    stopping = asyncio.create_task(until_stopped())
    try:
        async with standing(options, kept) as serving:
            on_ready(serving)
            await asyncio.wait({stopping, *serving.tasks}, return_when=asyncio.FIRST_COMPLETED)
            for task in serving.tasks:
                if task.done():
                    task.result()
    finally:
        stopping.cancel()


@contextlib.asynccontextmanager
async def standing(options: ControllerOptions, kept: Kept) -> AsyncIterator[Serving]:
    """Serve as long as the context lasts, and end the agent. Signals are left to others.

    :raises ConfigurationError: if the address cannot be listened on.
    """
    listener = _listen(options)
    local = f"http://{_shown(options.host)}:{listener.getsockname()[1]}"
    public = (options.public or local).rstrip("/")
    agent = KeptAgent(kept, public)
    proxy = Proxy(max_body=options.max_body)
    app = _guarded(_application(agent, kept, proxy), options, public)
    server = QuietServer(
        uvicorn.Config(
            app,
            log_level="critical",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
            limit_concurrency=_CONNECTIONS,
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    keeping = asyncio.create_task(agent.keep())
    try:
        while not server.started and not serving.done():
            await asyncio.sleep(0.005)
        yield Serving(public, local, agent, (serving, keeping))
    finally:
        # The agent first: whoever waits for its answer is told at once that there is none.
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        server.should_exit = True
        await asyncio.gather(serving, return_exceptions=True)
        await proxy.aclose()


def _application(agent: KeptAgent, kept: Kept, proxy: Proxy) -> Starlette:
    agents: Sequence[KeptAgent] = (agent,)

    def find(request: Request) -> KeptAgent | None:
        return next((a for a in agents if a.id == request.path_params["agent_id"]), None)

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def status(_: Request) -> Response:
        told = KNOWN.hide(kept.told)
        return JSONResponse(
            {"maintained_agents": len(agents), "running_agents": running(agents), "starting_command": told}
        )

    async def listed(_: Request) -> Response:
        return JSONResponse({a.id: {"url": a.url, "internal_port": a.port, "state": a.state} for a in agents})

    async def described(request: Request) -> Response:
        found = find(request)
        return _unknown(request) if found is None else JSONResponse(found.describe())

    async def reset(request: Request) -> Response:
        found = find(request)
        if found is None:
            return _unknown(request)
        found.request_reset()
        return JSONResponse({"message": f"Agent {found.id} reset requested."})

    class ToAgent:
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            request = Request(scope)
            found = find(request)
            if found is None:
                await _unknown(request)(scope, receive, send)
                return
            # As the caller wrote it: %2F in a path is no slash.
            raw: bytes = scope.get("raw_path") or request.url.path.encode()
            prefix = b"/to_agent/" + found.id.encode()
            path = raw.partition(b"?")[0].removeprefix(prefix)
            # AgentBeats' gateway, before a controller on loopback, adds the path of a card's URL to that of its own.
            path = path.removeprefix(prefix) or b"/"
            with contextlib.suppress(BrokenAnswer):
                await proxy.carry(found, path, scope, receive, send)

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/status", status),
            Route("/agents", listed),
            Route("/agents/{agent_id}", described),
            Route("/agents/{agent_id}/reset", reset, methods=["POST"]),
            Route("/to_agent/{agent_id}", ToAgent()),
            Route("/to_agent/{agent_id}/{path:path}", ToAgent()),
        ]
    )


def _unknown(request: Request) -> Response:
    return JSONResponse({"detail": f"there is no agent {request.path_params['agent_id']!r}; see /agents"}, 404)


# -- who may --


def _guarded(app: App, options: ControllerOptions, public: str) -> App:
    """Let nobody in without the token; without one, no page of a browser that calls this machine by another name."""
    shown = urllib.parse.urlsplit(public).hostname or ""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != "/healthz":
            refusal = _refusal(scope, options, shown)
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        await app(scope, receive, send)

    return guarded


def _refusal(scope: Scope, options: ControllerOptions, shown: str) -> Response | None:
    token = options.token
    if token is None:
        host = _header(scope, b"host")
        name = urllib.parse.urlsplit(f"//{host}").hostname or ""
        if is_loopback(name) or name == shown:
            return None
        return JSONResponse({"detail": f"this controller is not called {name!r}; start it with --public-url"}, 421)
    path = scope["path"]
    is_card = scope["method"] == "GET" and path.endswith((CARD_PATH, LEGACY_CARD_PATH))
    # A card is where callers learn what is wanted of them.
    if path.startswith("/to_agent/") and (options.open_agent or is_card):
        return None
    expected = f"Bearer {token.reveal()}"
    if hmac.compare_digest(_header(scope, b"authorization").encode(), expected.encode()):
        # It is for us, and no agent's business.
        scope["headers"] = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
        return None
    return JSONResponse({"detail": "a bearer token is required"}, 401, {"WWW-Authenticate": "Bearer"})


def _header(scope: Scope, wanted: bytes) -> str:
    found: bytes = next((value for name, value in scope["headers"] if name == wanted), b"")
    return found.decode("latin-1")


# -- where --


def _listen(options: ControllerOptions) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        listener = socket.create_server((options.host.strip("[]"), options.port), family=family, backlog=1024)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise ConfigurationError(
            f"controller: cannot listen on {options.host}:{options.port}: {reason}; choose another --port, or 0 for "
            "any free one"
        ) from error
    # asyncio switches Nagle off only for sockets that it made itself; accepted ones inherit it from this one.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _shown(host: str) -> str:
    if host in _WILDCARDS:
        return "127.0.0.1"
    return f"[{host}]" if ":" in host and "[" not in host else host
