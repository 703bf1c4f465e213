"""Serving the faulty agent on every binding, with its fault."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import grpc.aio
from starlette.applications import Starlette
from starlette.routing import Route

from faulty import old
from faulty.agent import FaultyAgent
from faulty.card import KEYS_PATH, Signer, build_card, extend_card
from faulty.catalogue import FAULTS
from faulty.fault import NONE, Fault
from faulty.grpc_binding import handlers
from faulty.http import REST_PREFIX, Desk, JsonRpc, Rest
from pytest_a2a_bench import quiet_server
from pytest_a2a_bench.a2a.card import CARD_PATH, LEGACY_CARD_PATH
from pytest_a2a_bench.errors import ConfigurationError

_BINDINGS = {"jsonrpc": "JSONRPC", "rest": "HTTP+JSON", "grpc": "GRPC"}


@dataclass(frozen=True, slots=True)
class FaultyOptions:
    """How the agent is served.

    :param fault: the one requirement that it breaks; None for a correct server.
    :param variant: which features the card offers; ``auto`` for those that show the fault. ``guarded`` needs tokens.
    :param step: seconds that each step of a slow task takes.
    :param transport: ``all``, ``jsonrpc``, ``rest`` or ``grpc``.
    :param protocol: ``both`` (the fault's), ``1.0`` or ``0.3``.
    :param tokens: bearer tokens with commas between them, one for each caller (``guarded`` only).
    """

    fault: str | None = None
    variant: str = "auto"
    step: float = 0.2
    transport: str = "all"
    protocol: str = "both"
    tokens: str | None = None

    @property
    def transports(self) -> tuple[str, ...]:
        """The bindings asked for, the preferred one first."""
        return tuple(_BINDINGS) if self.transport == "all" else (self.transport,)


def variant_of(options: FaultyOptions, fault: Fault) -> str:
    """Return the variant to serve: the one asked for, else the one that the fault shows on."""
    return fault.variant if options.variant == "auto" else options.variant


def version_of(options: FaultyOptions, fault: Fault) -> str:
    """Return the version to speak: the one asked for, else the fault's. One at a time: both are two agents.

    :raises ConfigurationError: if the fault is of the other one.
    """
    if options.protocol == "both" or fault is NONE:
        return "0.3" if options.protocol == "0.3" else fault.version
    if options.protocol != fault.version:
        raise ConfigurationError(
            f"the fault {fault.name} is one of A2A {fault.version}, and --protocol is {options.protocol}: omit it"
        )
    return fault.version


def callers(token: str | None) -> dict[str, str]:
    """Return the callers' names by their tokens: the variable may hold several, with commas between them."""
    return {text.strip(): f"caller-{n}" for n, text in enumerate((token or "").split(",")) if text.strip()}


class FaultyServer:
    """The agent and its card, before it is put on ports."""

    def __init__(self, options: FaultyOptions, http_url: str, grpc_url: str | None) -> None:
        fault = FAULTS[options.fault] if options.fault else NONE
        variant = variant_of(options, fault)
        version = version_of(options, fault)
        if version == "0.3" and variant == "tenant":
            raise ConfigurationError("0.3 has no tenants; choose another --variant")
        if variant == "guarded" and not options.tokens:
            raise ConfigurationError(
                f"variant guarded (fault {fault.name}) needs bearer tokens; give them with --tokens"
            )
        self.tokens: Mapping[str, str] = callers(options.tokens) if variant == "guarded" else {}
        base = http_url.rstrip("/")
        known = {"jsonrpc": base + "/", "rest": base + REST_PREFIX, "grpc": grpc_url}
        urls = {_BINDINGS[t]: url for t in options.transports if (url := known[t])}
        card = build_card(variant, urls)
        self._signer = Signer(fault) if variant == "signed" else None
        extended = extend_card(card) if variant == "guarded" and "no-extended" not in fault.switches else None
        self.agent = FaultyAgent(fault, card, extended, options.step, version)
        self._bindings = tuple(urls)

    @property
    def app(self) -> Any:
        """The ASGI application."""
        return make_app(self.agent, self.tokens, self._bindings, self._signer)


def make_app(
    agent: FaultyAgent, tokens: Mapping[str, str], bindings: tuple[str, ...], signer: Signer | None = None
) -> Starlette:
    """Return the ASGI application."""
    card = json.loads(json.dumps(agent.card))
    card = agent.fault.card(old.card(card) if agent.version == "0.3" else card)
    desk = Desk(agent, tokens, signer.sign(card) if signer else card, signer.keys if signer else None)
    place = LEGACY_CARD_PATH if agent.on("old-place") else CARD_PATH
    routes = [Route(place, desk.card, methods=["GET"])]
    if signer:
        routes.append(Route(KEYS_PATH, desk.jwks, methods=["GET"]))
    if "JSONRPC" in bindings:
        routes.append(Route("/", JsonRpc(desk).handle, methods=["POST"]))
    if "HTTP+JSON" in bindings:
        verbs = ["GET", "POST", "DELETE", "PUT", "PATCH"]
        prefix = "" if agent.on("rest-at-root") else REST_PREFIX
        routes.append(Route(prefix + "/{path:path}", Rest(desk).handle, methods=verbs))
    return Starlette(routes=routes)


class Running(NamedTuple):
    """A server that answers.

    :param url: its base URL.
    """

    url: str
    server: FaultyServer


@contextlib.asynccontextmanager
async def serve_app(app: Callable[..., Any], listener: socket.socket | None = None) -> AsyncIterator[str]:
    """Serve an ASGI application and give its URL."""
    listener = listener or socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Streams that a fault keeps open would hold the shutdown up for its whole grace.
    async with quiet_server.serving(app, listener, grace=0, log_level="critical"):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"


@contextlib.asynccontextmanager
async def serving(options: FaultyOptions, port: int = 0) -> AsyncIterator[Running]:
    """Serve the agent on ports of this machine, as long as the context lasts.

    :raises ConfigurationError: if the options contradict each other.
    """
    listener = socket.create_server(("127.0.0.1", port), backlog=1024)
    grpc_server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    grpc_port = grpc_server.add_insecure_port("127.0.0.1:0")
    faulty = FaultyServer(options, url, f"http://127.0.0.1:{grpc_port}")
    grpc_server.add_generic_rpc_handlers((handlers(faulty.agent, faulty.tokens),))
    await grpc_server.start()
    try:
        async with serve_app(faulty.app, listener):
            yield Running(url, faulty)
    finally:
        await grpc_server.stop(grace=0)
