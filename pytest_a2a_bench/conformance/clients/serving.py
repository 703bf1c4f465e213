"""Serve the agent of situations over each binding and both versions, from one card, and keep each request."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import hashlib
import itertools
import json
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import client
from typing import Any, NamedTuple

import httpx
from a2a.compat.v0_3 import a2a_v0_3_pb2, conversions
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.types import a2a_pb2
from google.protobuf import empty_pb2, json_format
from google.protobuf.message import DecodeError

from pytest_a2a_bench.a2a.bodies import as_object
from pytest_a2a_bench.conformance.clients.agent import CARDS, EXTENSION, TENANT, Agent, Answer, Call, Task
from pytest_a2a_bench.conformance.clients.spelling import (
    read_params,
    rest_operation,
    spell,
    spell_http,
    with_odd,
)
from pytest_a2a_bench.conformance.finding import BINDING_OF, BINDINGS, TRANSPORTS, VERSIONS, Exchange
from pytest_a2a_bench.conformance.protocol.operations import OPERATIONS, STREAMING
from pytest_a2a_bench.conformance.wire.exchange import Redactor
from pytest_a2a_bench.conformance.wire.reply import ERRORS
from pytest_a2a_bench.conformance.wire.webhook import Delivery, HttpAnswer, HttpServer
from pytest_a2a_bench.listener import BindAddress, authority

CARD_PATH = "/.well-known/agent-card.json"
_NOTIFY_SECONDS = 10.0
_OLD_METHODS = {op.rpc03: name for name, op in OPERATIONS.items() if op.rpc03}


class CardRequest(NamedTuple):
    """One request for the card; ``before`` is the last request for an operation before it."""

    path: str
    options: tuple[str, ...]
    headers: Mapping[str, str]
    status: int
    before: Call | None


class Notification(NamedTuple):
    """One notification that the agent sent, and the status that the client answered; 0 for none.

    :param kind: ``first``, ``again`` (the same once more) or ``forged`` (without the credentials of the configuration).
    """

    call: Call
    kind: str
    status: int


@dataclass
class Seen:
    """All that a client did.

    :ivar elsewhere: headers of the requests that followed a redirect to another origin.
    :ivar dead: for each connection to the interface that cannot be reached the options of the card that has it.
    """

    calls: list[Call]
    cards: list[CardRequest] = field(default_factory=list)
    notifications: list[Notification] = field(default_factory=list)
    elsewhere: list[Mapping[str, str]] = field(default_factory=list)
    dead: list[tuple[str, ...]] = field(default_factory=list)


class ClientServer:
    """Serves the agent on the event loop that starts it.

    :param place: where; by default an ephemeral port of the loopback address.
    :ivar changed: set whenever a request was answered.
    """

    def __init__(self, place: BindAddress | None = None, retry_after: int = 2) -> None:
        self.agent = Agent(retry_after)
        self.seen = Seen(self.agent.calls)
        self.changed = asyncio.Event()
        self._main = HttpServer(self._route, place)
        self._other = HttpServer(self._note_elsewhere, BindAddress(self._main.place.host, 0))
        self._dead: asyncio.Server | None = None
        self._work: set[asyncio.Task[None]] = set()
        self._grpc: Any = None
        self.url, self.grpc_url = "", ""

    async def start(self) -> None:
        """Start to listen."""
        place = self._main.place
        await self._main.start()
        await self._other.start()
        self._dead = await asyncio.start_server(self._meet_dead, place.host, 0)
        self.url = place.url_at(self._main.port)
        called = authority(urllib.parse.urlsplit(self.url).hostname or place.host)
        self.agent.elsewhere = f"http://{called}:{self._other.port}"
        self._dead_url = f"https://{called}:{self._dead.sockets[0].getsockname()[1]}"
        with contextlib.suppress(ImportError):
            self._start_grpc(place.host, called)

    def _start_grpc(self, host: str, called: str) -> None:
        import grpc  # an extra

        # With threads of its own, because gRPC's server for asyncio does not share a process with clients of its kind.
        self._grpc = grpc.server(concurrent.futures.ThreadPoolExecutor(8), handlers=[_make_handler(self)])
        self.grpc_url = f"http://{called}:{self._grpc.add_insecure_port(f'{authority(host)}:0')}"
        self._grpc.start()

    async def close(self) -> None:
        """Send the notifications that are due, and stop."""
        await self.settle()
        await self._main.close()
        await self._other.close()
        if self._dead is not None:
            self._dead.close()
        if self._grpc is not None:
            self._grpc.stop(0)

    async def settle(self) -> None:
        """Wait until all that is under way is done."""
        # Not for a connection that is held open for later.
        while busy := self._work | self._main.answering | self._other.answering:
            await asyncio.gather(*busy, return_exceptions=True)

    # -- HTTP --

    async def _meet_dead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Let a connection's TLS fail, so that the client knows that its message was not delivered."""
        # Its path is in what TLS hides: the card that was fetched last has it.
        self.seen.dead += [c.options for c in self.seen.cards if "dead-interface" in c.options][-1:]
        writer.close()

    async def _note_elsewhere(self, path: str, delivery: Delivery) -> HttpAnswer:
        self.seen.elsewhere.append(delivery.headers)
        return HttpAnswer(403, {"Content-Type": "application/json"}, (b'{"error": "this is another origin"}',))

    async def _route(self, path: str, delivery: Delivery) -> HttpAnswer:
        answer = self._find(path, delivery)
        self.changed.set()
        # Clients in pages of other sites are clients, too.
        return answer._replace(headers={**answer.headers, "Access-Control-Allow-Origin": "*"})

    def _find(self, path: str, delivery: Delivery) -> HttpAnswer:
        head, _, rest = path.partition("/.well-known/")
        if rest:
            return self._card(head, "/.well-known/" + rest, delivery)
        if delivery.method not in ("POST", "DELETE") and (delivery.method != "GET" or "/rest/" not in path):
            # A browser asks before it sends something; people and probes look at a server.
            asked = delivery.headers.get("access-control-request-headers", "*")
            return HttpAnswer(204 if delivery.method == "OPTIONS" else 404, {"Access-Control-Allow-Headers": asked})
        call = self._identify(path, dict(urllib.parse.parse_qsl(delivery.query)), delivery)
        answer = self._answer(call)
        return spell_http(call, answer, as_object(delivery.json).get("id"))

    def _answer(self, call: Call) -> Answer:
        """Answer a call and notify the webhooks that are due."""
        call.last_card = self.seen.cards[-1].options if self.seen.cards else ()
        answer = self.agent.answer(call)
        while self.agent.to_notify:
            task = asyncio.get_running_loop().create_task(self._notify(call, self.agent.to_notify.pop()))
            self._work.add(task)
            task.add_done_callback(self._work.discard)
        return answer

    def answer_from_thread(self, call: Call, running: asyncio.AbstractEventLoop) -> Answer:
        """Answer a call that came in another thread."""

        async def answer() -> Answer:
            found = self._answer(call)
            self.changed.set()
            return found

        return asyncio.run_coroutine_threadsafe(answer(), running).result()

    def _card(self, head: str, path: str, delivery: Delivery) -> HttpAnswer:
        options = tuple(s for s in urllib.parse.unquote(head).split("/") if s)
        known = set(options) <= {*CARDS, *VERSIONS, *BINDINGS}
        body = json.dumps(self._make_card(options), indent=1).encode()
        etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        status = 200 if path == CARD_PATH and known else 404
        if status == 200 and delivery.headers.get("if-none-match") == etag:
            status = 304
        before = self.seen.calls[-1] if self.seen.calls else None
        self.seen.cards.append(CardRequest(path, options, delivery.headers, status, before))
        cache = "no-cache" if "card-change" in options else "max-age=3600"
        headers = {"Content-Type": "application/json", "ETag": etag, "Cache-Control": cache}
        return HttpAnswer(status, headers, (body,) if status == 200 else ())

    @property
    def offered(self) -> list[str]:
        """The versions of the cards that were fetched; gRPC's requests do not say which card they belong to."""
        asked = [set(card.options) & set(VERSIONS) or set(VERSIONS) for card in self.seen.cards if card.status == 200]
        return [v for v in VERSIONS if not asked or any(v in versions for versions in asked)]

    def _interfaces(self, options: tuple[str, ...]) -> list[dict[str, str]]:
        versions = [v for v in VERSIONS if v in options] or VERSIONS
        bindings = [b for b in BINDINGS if b in options] or BINDINGS
        grpc_url = self.grpc_url.removeprefix("http://" if "grpc-target" in options else "")
        moved = ["moved"] if options in self.agent.moved else []
        base = "/".join([self.url, *options, *moved, "at"])
        found = []
        for version, binding in itertools.product(versions, bindings):
            url = grpc_url if binding == "GRPC" else f"{base}/{version}/{TRANSPORTS[binding]}"
            dead = [f"{self._dead_url}/{version}/{TRANSPORTS[binding]}"] if "dead-interface" in options else []
            tenant = {"tenant": TENANT} if "tenant" in options and version == "1.0" else {}
            about = {"protocolBinding": binding, "protocolVersion": version, **tenant}
            found += [{"url": each, **about} for each in (*dead, url) if url]
        return found[::-1] if "reversed" in options else found

    def _make_card(self, options: tuple[str, ...]) -> dict[str, Any]:
        able = "plain" not in options
        extension = {"uri": EXTENSION, "required": True, "description": "Required by the agent."}
        about = {"name": "Situations", "description": "A correct agent that shows how its client behaves."}
        card: dict[str, Any] = {
            **about,
            "version": "1.0.0",
            "supportedInterfaces": self._interfaces(options),
            "capabilities": {"streaming": able, "pushNotifications": able, "extendedAgentCard": False},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [{"id": "situations", "tags": ["a2a"], **about}],
        }
        if "extension" in options:
            card["capabilities"]["extensions"] = [extension]
        if "auth" in options:
            card["securitySchemes"] = {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
            card["securityRequirements"] = [{"schemes": {"bearer": {"list": []}}}]
        versions = {interface["protocolVersion"] for interface in card["supportedInterfaces"]}
        if "0.3" in versions:
            message = json_format.ParseDict(card, a2a_pb2.AgentCard())
            old = conversions.to_compat_agent_card(message).model_dump(mode="json", by_alias=True, exclude_none=True)
            # The SDK leaves the main interface out of those that there are (§5.6.4 of 0.3 wants it there).
            main = {"url": old["url"], "transport": old["preferredTransport"]}
            old["additionalInterfaces"] = [main, *old.get("additionalInterfaces", ())]
            old |= {"protocolVersion": "0.3.0"}
            card = agent_card_to_dict(message) | {"additionalInterfaces": old["additionalInterfaces"]}
            card = old if versions == {"0.3"} else {**card, "protocolVersion": "0.3.0"}
        return with_odd(card) if "unknown-fields" in options else card

    def _identify(self, path: str, query: dict[str, str], delivery: Delivery) -> Call:
        """Return the call that a request of HTTP is; without an operation where it is none."""
        segments = [s for s in path.split("/") if s]
        at = segments.index("at") if "at" in segments else 0
        options, rest = tuple(segments[:at]), segments[at + 1 :] if at or segments[:1] == ["at"] else []
        version = rest[0] if rest and rest[0] in VERSIONS else ""
        binding = BINDING_OF.get(rest[1] if version and len(rest) > 1 else "", "")
        exchange = Exchange(
            binding or "JSONRPC",
            "",
            Redactor().url(self.url + path + ("?" + urllib.parse.urlencode(query) if query else "")),
            delivery.method,
            Redactor().headers(delivery.headers),
            Redactor().text(delivery.body.decode("utf-8", "replace")),
        )
        body = as_object(delivery.json)
        call = Call(binding, version, "", {}, delivery.headers, exchange, options, delivery.received, query, body)
        # A fault in a path does not hide which binding the client speaks: JSON-RPC has a method in its body.
        if binding == "HTTP+JSON" or (not binding and "method" not in body):
            call.binding, call.version = "HTTP+JSON", version or "1.0"
            inside = "/" + "/".join(rest[2:]) if binding else path
            call.operation, call.params = rest_operation(call.version, delivery.method, inside, body, query)
            call.wrong = "" if call.operation else f"{delivery.method} {inside}"
        else:
            call.binding, method = "JSONRPC", str(body.get("method", ""))
            call.version = version or ("0.3" if method in _OLD_METHODS else "1.0")
            names = _OLD_METHODS if call.version == "0.3" else {name: name for name in OPERATIONS}
            call.operation = names.get(method, "")
            call.params, call.wrong = as_object(body.get("params")), "" if call.operation else method
        call.params = read_params(call)
        if not binding or (binding == "JSONRPC" and len(rest) > 2):
            call.operation, call.wrong = "", f"{delivery.method} {path}"
        return call

    # -- notifications --

    async def _notify(self, call: Call, task: Task) -> None:
        config = task.configs[-1]
        first = task.update()
        task.state = "completed" if task.state == "working" else task.state
        last = task.update()
        auth = as_object(config.get("authentication"))
        given = {
            "Authorization": f"{auth.get('scheme', '')} {auth.get('credentials', '')}".strip(),
            "X-A2A-Notification-Token": str(config.get("token", "")),
        }
        genuine = {name: value for name, value in given.items() if value}
        forged = dict.fromkeys(genuine, "forged")
        media = {"Content-Type": "application/a2a+json" if call.version == "1.0" else "application/json"}
        # 0.3 sends the task itself.
        old = spell(dataclasses.replace(call, version="0.3", binding="JSONRPC"), "task", task.snapshot())
        async with httpx.AsyncClient(timeout=_NOTIFY_SECONDS, trust_env=False) as http:
            for kind, event in (("first", first), ("first", last), ("again", last), ("forged", last)):
                if kind == "forged" and not genuine:
                    continue
                headers = {**media, **(forged if kind == "forged" else genuine)}
                try:
                    body = event if call.version == "1.0" else old
                    status = (await http.post(config["url"], json=body, headers=headers)).status_code
                except (httpx.HTTPError, httpx.InvalidURL, ValueError):
                    status = 0
                self.seen.notifications.append(Notification(call, kind, status))


# -- gRPC --


def _make_handler(server: ClientServer) -> Any:
    import grpc  # an extra

    from pytest_a2a_bench.conformance.wire.grpc import SERVICES

    running = asyncio.get_running_loop()
    codes = {code.name: code for code in grpc.StatusCode}
    refusals = {401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}

    def abort(context: Any, answer: Answer) -> None:
        if answer.error:
            context.abort(codes[ERRORS[answer.error].grpc], answer.message or answer.error)
        name = "UNAVAILABLE" if answer.cut else refusals.get(answer.status, "")
        if name and (answer.status or answer.cut):
            context.abort(codes[name], "the connection was lost" if answer.cut else client.responses[answer.status])

    class Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: Any) -> Any:
            service, _, method = details.method.strip("/").partition("/")
            version = next((v for v, name in SERVICES.items() if name == service and v in server.offered), "")
            names = {op.grpc03[0] if version == "0.3" else name: name for name, op in OPERATIONS.items()}
            operation = names.get(method, "") if version else ""
            headers = {k.lower(): v for k, v in details.invocation_metadata if isinstance(v, str)}
            module: Any = a2a_v0_3_pb2 if version == "0.3" else a2a_pb2
            op = OPERATIONS.get(operation)
            request, reply = (op.grpc03[1:] if version == "0.3" else (op.request, op.reply)) if op else ("", "")
            reply_type = getattr(module, reply, empty_pb2.Empty)

            def answered(content: bytes, context: Any) -> tuple[Call, Answer]:
                try:
                    message = getattr(module, request, empty_pb2.Empty).FromString(content)
                    params = json_format.MessageToDict(message)
                except DecodeError:
                    params = {}
                shown = Redactor().text(json.dumps(params, ensure_ascii=False))
                sent = Redactor().headers(headers)
                exchange = Exchange("GRPC", details.method.strip("/"), server.grpc_url, "", sent, shown)
                now = time.monotonic()
                call = Call("GRPC", version or server.offered[0], operation, params, headers, exchange, (), now)
                call.wrong = "" if operation else details.method
                answer = server.answer_from_thread(call, running)
                if answer.events is None or answer.error:
                    abort(context, answer)
                return call, answer

            def write(call: Call, kind: str, value: Any) -> bytes:
                message = json_format.ParseDict(spell(call, kind, value), reply_type(), ignore_unknown_fields=True)
                return bytes(message.SerializeToString())

            def unary(content: bytes, context: Any) -> bytes:
                call, answer = answered(content, context)
                return write(call, answer.kind, answer.result)

            def stream(content: bytes, context: Any) -> Iterator[bytes]:
                call, answer = answered(content, context)
                for event in answer.events or ():
                    yield write(call, "event", event)
                if answer.cut:
                    abort(context, answer)

            if operation in STREAMING:
                return grpc.unary_stream_rpc_method_handler(stream)
            return grpc.unary_unary_rpc_method_handler(unary)

    return Handler()
