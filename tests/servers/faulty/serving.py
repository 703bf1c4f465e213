"""Serving the faulty agent on every binding, with its fault."""

import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
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
from pytest_a2a_bench.a2a.card import CARD_PATH

_BINDINGS = {"jsonrpc": "JSONRPC", "rest": "HTTP+JSON", "grpc": "GRPC"}


TOKENS = ("first-token", "second-token")
"""Bearer tokens of the variant ``guarded``, one for each caller."""


def make_app(
    agent: FaultyAgent, tokens: Mapping[str, str], bindings: Iterable[str], signer: Signer | None
) -> Starlette:
    """Return the ASGI application."""
    card = json.loads(json.dumps(agent.card))
    card = agent.fault.card(old.card(card) if agent.version == "0.3" else card)
    desk = Desk(agent, tokens, signer.sign(card) if signer else card, signer.keys if signer else None)
    routes = [Route(CARD_PATH, desk.card, methods=["GET"])]
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
    agent: FaultyAgent
    app: Starlette


@contextlib.asynccontextmanager
async def serve_app(app: Callable[..., Any], listener: socket.socket | None = None) -> AsyncIterator[str]:
    """Serve an ASGI application and give its URL."""
    listener = listener or socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Streams that a fault keeps open would hold the shutdown up for its whole grace.
    async with quiet_server.serving(app, listener, grace=0, log_level="critical"):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"


@contextlib.asynccontextmanager
async def serve_faulty(
    fault: str | Fault | None = None,
    variant: str = "auto",
    *,
    step: float = 0.2,
    transport: str = "all",
    protocol: str = "",
) -> AsyncIterator[Running]:
    """Serve the agent on ports of this machine, as long as the context lasts.

    :param fault: what it does wrong, or its name in the catalogue; None for a correct server.
    :param variant: which features the card offers; ``auto`` for those that show the fault.
    :param step: seconds that each step of a slow task takes.
    :param transport: ``all``, ``jsonrpc``, ``rest`` or ``grpc``.
    :param protocol: ``1.0`` or ``0.3``; by default the fault's.
    """
    found = FAULTS[fault] if isinstance(fault, str) else fault or NONE
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    grpc_server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    grpc_url = f"http://127.0.0.1:{grpc_server.add_insecure_port('127.0.0.1:0')}"
    shown = found.variant if variant == "auto" else variant
    known = {"jsonrpc": url, "rest": url.rstrip("/") + REST_PREFIX, "grpc": grpc_url}
    urls = {_BINDINGS[name]: each for name, each in known.items() if transport in ("all", name)}
    card = build_card(shown, urls)
    tokens = {token: f"caller-{n}" for n, token in enumerate(TOKENS)} if shown == "guarded" else {}
    extended = extend_card(card) if tokens and "no-extended" not in found.switches else None
    agent = FaultyAgent(found, card, extended, step, protocol or found.version)
    app = make_app(agent, tokens, urls, Signer(found) if shown == "signed" else None)
    grpc_server.add_generic_rpc_handlers((handlers(agent, tokens),))
    await grpc_server.start()
    try:
        async with serve_app(app, listener):
            yield Running(url, agent, app)
    finally:
        await grpc_server.stop(grace=0)
