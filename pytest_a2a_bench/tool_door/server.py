"""The MCP server of tool queues: one for all trials of a process, an address and a token for each. Needs ``mcp``.

One port, because an agent elsewhere has to reach it through firewalls and proxies, and because nothing is shared behind
it: a trial has an MCP server object and a manager of its own, and the only way to them is a request that has passed
:meth:`ToolServer.__call__`. There are no sessions (each request stands alone), so none can be taken over.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import re
import secrets
import socket
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, Tool
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from pytest_a2a_bench import __version__
from pytest_a2a_bench.a2a import loop
from pytest_a2a_bench.a2a.bodies import Meter
from pytest_a2a_bench.errors import ProtocolError, ReplyLimitError
from pytest_a2a_bench.listener import BindAddress, authority, family
from pytest_a2a_bench.model import ToolAccess
from pytest_a2a_bench.model.messages import Bounds
from pytest_a2a_bench.quiet_server import QuietServer
from pytest_a2a_bench.redact import KNOWN, KnownSecret
from pytest_a2a_bench.text import refusing
from pytest_a2a_bench.tool_door import OVER_META, Answer, ToolQueue

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_PATH = re.compile(r"/trials/([\w-]{1,64})/mcp/?\Z", re.ASCII)
_START_SECONDS = 30.0
_BODY_SECONDS = 60.0
_REFUSED = "This is no trial's endpoint, or not its token. An endpoint ends with its trial.\n"


class _Trial(NamedTuple):
    tool_queue: ToolQueue
    manager: StreamableHTTPSessionManager
    over: asyncio.Event


class ToolServer:
    """Serves the tools of trials over MCP. Made once for a place in a process; see :func:`open_tool_queue`.

    :param place: where it listens.
    """

    def __init__(self, place: BindAddress) -> None:
        self._place = place
        self._trials: dict[str, _Trial] = {}
        self._holding: set[asyncio.Task[None]] = set()
        self._security: TransportSecurityMiddleware | None = None
        self._server: uvicorn.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = asyncio.Lock()
        self.url = ""

    # -- trials come and go --

    async def open(self, bounds: Bounds) -> ToolQueue:
        """Begin to serve one more trial; raises ConfigurationError if the server cannot listen."""
        async with self._starting:
            if self._server is None:
                await self._start()
        trial, token = secrets.token_urlsafe(9), secrets.token_urlsafe(32)
        forget = KNOWN.remember([KnownSecret("the token of a trial's tools", token)])
        access = ToolAccess(f"{self.url}/trials/{trial}/mcp", token)

        def close() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is gone, and the server with it
                loop.get_loop().call_soon_threadsafe(self._end, trial)

        tool_queue = ToolQueue(access, bounds, close, forget)
        manager = StreamableHTTPSessionManager(
            _serve(tool_queue), json_response=True, stateless=True, max_request_body_size=bounds.bytes
        )
        over, ready = asyncio.Event(), asyncio.Event()
        self._trials[trial] = _Trial(tool_queue, manager, over)
        task = asyncio.create_task(_hold(manager, ready, over))
        self._holding.add(task)
        task.add_done_callback(self._holding.discard)
        async with asyncio.timeout(_START_SECONDS):
            await ready.wait()
        return tool_queue

    def _end(self, name: str) -> None:
        trial = self._trials.pop(name, None)
        if trial is not None:
            trial.over.set()

    # -- requests --

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through to the queue that its path and its token both name, and no other."""
        if scope["type"] != "http":
            return
        request = Request(scope)
        assert self._security is not None
        refusal = await self._security.validate_request(request)
        trial = None if refusal else self._find(request)
        if refusal is None and trial is None:
            refusal = PlainTextResponse(_REFUSED, 401, {"WWW-Authenticate": "Bearer"})
        elif trial is not None and request.method != "POST":
            # There are no sessions to end, and nothing is said without being asked.
            refusal = PlainTextResponse("Only POST is served here.\n", 405, {"Allow": "POST"})
        if refusal is not None:
            await refusal(scope, receive, send)
        elif trial is not None:
            await self._let_in(trial, request, scope, receive, send)

    def _find(self, request: Request) -> _Trial | None:
        named = _PATH.search(request.url.path)
        trial = self._trials.get(named[1]) if named else None
        # Compared in any case, so that the time of the answer does not show which trials there are.
        token = trial.tool_queue.access.token if trial else secrets.token_urlsafe(32)
        given = request.headers.get("authorization", "")
        is_good = hmac.compare_digest(given.encode("utf-8", "replace"), f"Bearer {token}".encode())
        return trial if is_good else None

    async def _let_in(self, trial: _Trial, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                body = await _read_body(request, receive, trial.tool_queue)
        except TimeoutError:
            await PlainTextResponse("The request did not come.\n", 408)(scope, receive, send)
            return
        except ReplyLimitError as error:
            status = 413 if error.limit == "bytes" else 400
            await PlainTextResponse(f"Not read: {error}\n", status)(scope, receive, send)
            return
        except ProtocolError as error:
            await PlainTextResponse(f"{error}\n", 400)(scope, receive, send)
            return
        given = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> MutableMapping[str, Any]:
            return given.pop() if given else await receive()

        await trial.manager.handle_request(scope, again, send)

    # -- the server itself --

    async def _start(self) -> None:
        host, port = self._place.host, self._place.port
        remedy = "name an address of this machine and a free port (mcp-bind)"
        with refusing(f"the tools' server cannot listen on {authority(host)}:{port}", remedy):
            listener = socket.create_server((host, port), family=family(host))
        port = listener.getsockname()[1]
        self.url = self._place.url_at(port)
        self._security = TransportSecurityMiddleware(_allowed(host, port, self.url))
        config = uvicorn.Config(self, lifespan="off", ws="none", access_log=False, log_level="error")
        self._server = QuietServer(config)
        task = asyncio.create_task(self._server.serve(sockets=[listener]))
        self._holding.add(task)
        task.add_done_callback(self._holding.discard)
        async with asyncio.timeout(_START_SECONDS):
            while not self._server.started:
                await asyncio.sleep(0.005)
        loop.close_at_shutdown(self._close)

    async def _close(self) -> None:
        for trial in list(self._trials.values()):
            trial.tool_queue.close()
            trial.over.set()
        self._trials.clear()
        if self._server is not None:
            self._server.should_exit = self._server.force_exit = True
        await asyncio.gather(*self._holding, return_exceptions=True)


async def _read_body(request: Request, receive: Receive, tool_queue: ToolQueue) -> bytes:
    """Return a request's JSON, read by our own rules: what the library reads holds nothing that a file cannot.

    :raises ReplyLimitError: if it is larger or deeper than a reply may be.
    :raises ProtocolError: if it is no JSON, or does not come whole.
    """
    meter = Meter(tool_queue.bounds)
    declared = request.headers.get("content-length", "")
    body = bytearray()
    try:
        if declared.isdecimal() and int(declared[:20]) > tool_queue.bounds.bytes:
            raise meter.error("bytes", "the request is larger than a reply may be")
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise ProtocolError("the request did not come whole")
            body += message.get("body", b"")
            if len(body) > tool_queue.bounds.bytes:
                raise meter.error("bytes", "the request is larger than a reply may be")
            if not message.get("more_body", False):
                return json.dumps(meter.parse(bytes(body)), allow_nan=False).encode()
    except ReplyLimitError as error:
        tool_queue.note(error.limit)
        raise
    except ValueError as error:  # NaN or infinity, which no file may hold
        raise ProtocolError(f"malformed JSON: {error}") from error
    finally:
        # Beyond the bound this ends the conversation.
        tool_queue.take(len(body))


def _allowed(host: str, port: int, url: str) -> TransportSecuritySettings:
    """Return the names by which it may be called: a page that a DNS name was rebound for calls it by its own."""
    parts = urlsplit(url)
    hosts = {f"{authority(host)}:{port}", parts.netloc.rpartition("@")[2]}
    if host in ("127.0.0.1", "::1"):
        hosts.add(f"localhost:{port}")
    origins = {f"{parts.scheme}://{name}" for name in hosts}
    return TransportSecuritySettings(allowed_hosts=sorted(hosts), allowed_origins=sorted(origins))


async def _hold(manager: StreamableHTTPSessionManager, ready: asyncio.Event, over: asyncio.Event) -> None:
    async with manager.run():
        ready.set()
        await over.wait()


def _serve(tool_queue: ToolQueue) -> Server[Any]:
    """Return an MCP server of one queue."""

    async def list_tools(context: Any, parameters: Any) -> ListToolsResult:
        return ListToolsResult(
            tools=[
                Tool(name=t.name, description=t.description, input_schema={"type": "object", **t.parameters})
                for t in tool_queue.tools
            ]
        )

    async def call_tool(context: Any, parameters: CallToolRequestParams) -> CallToolResult:
        answer = await asyncio.wrap_future(tool_queue.call(parameters.name, dict(parameters.arguments or {})))
        return _result(answer)

    return Server("a2a-bench", version=__version__, on_list_tools=list_tools, on_call_tool=call_tool)


def _result(answer: Answer) -> CallToolResult:
    meta = {OVER_META: True} if answer.is_over else None
    return CallToolResult(content=[TextContent(text=answer.text)], is_error=answer.error, _meta=meta)


# --- one for each place in a process ----------------------------------------------------------------------------------

_lock = threading.Lock()
_servers: dict[BindAddress, tuple[asyncio.AbstractEventLoop, ToolServer]] = {}


def open_tool_queue(place: BindAddress, bounds: Bounds) -> ToolQueue:
    """Begin to serve the tools of a trial, on the shared event loop.

    :raises ConfigurationError: if the server cannot listen.
    """
    with _lock:
        current = loop.get_loop()
        known = _servers.get(place)
        # One of a loop that was shut down, or of the process that this one was forked from, answers no request.
        if known is None or known[0] is not current:
            known = _servers[place] = (current, ToolServer(place))
    return loop.run(known[1].open(bounds))
