"""Serve a built-in agent: HTTP by uvicorn, gRPC beside it where grpcio is installed, one event loop for both."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, NamedTuple

from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.types import AgentCard
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from pytest_a2a_bench.a2a.card import CARD_CACHING, CARD_PATH
from pytest_a2a_bench.agents.brain import Brain
from pytest_a2a_bench.agents.brains import make_brain
from pytest_a2a_bench.agents.card import REST_PREFIX, Addresses, addresses, build_card
from pytest_a2a_bench.agents.executor import BoundedTaskStore, BrainExecutor
from pytest_a2a_bench.agents.gateway import StrictContextBuilder, StrictRequestHandler, bearer, bounded, guarded
from pytest_a2a_bench.agents.options import AgentOptions
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError
from pytest_a2a_bench.listener import listen, local_url
from pytest_a2a_bench.quiet_server import QuietServer, serving

if TYPE_CHECKING:
    from pytest_a2a_bench.agents.grpc_server import GrpcServer

_MAX_BODY = 64 * 1024 * 1024


class Served(NamedTuple):
    """The address of a running agent.

    :param url: base URL on the address that it listens on, whatever the card says.
    """

    url: str
    card_url: str
    pid: int


async def serve(options: AgentOptions, on_ready: Callable[[Served], None]) -> None:
    """Serve until SIGINT or SIGTERM.

    :param on_ready: called once, when requests are answered.
    :raises ConfigurationError: if the agent cannot be served as the options say.
    """
    async with _running(options) as (served, server):
        on_ready(served)
        await server.until_signal()


@contextlib.asynccontextmanager
async def running(options: AgentOptions, brain: Brain | None = None) -> AsyncIterator[Served]:
    """Serve beside others in this event loop, as long as the context lasts. Signals are left to them.

    :param brain: replaces the one that the options name.
    :raises ConfigurationError: if the agent cannot be served as the options say.
    """
    # An open stream would delay the end for the whole grace period.
    async with _running(options, brain, grace=0) as (served, _):
        yield served


@contextlib.asynccontextmanager
async def _running(
    options: AgentOptions, brain: Brain | None = None, grace: int = 1
) -> AsyncIterator[tuple[Served, QuietServer]]:
    token = _read_token(options)
    brain = brain or make_brain(options)
    listener = listen(options.host, options.port)
    grpc_server = _make_grpc(options, token)
    port = listener.getsockname()[1]
    where = addresses(options, port, grpc_server.port if grpc_server else None)
    app = await start_brain(brain, options, where, token, grpc_server)
    url = local_url(options.host, port) + "/"
    try:
        async with serving(app, listener, grace=grace, log_level="error") as server:
            yield Served(url, url.rstrip("/") + CARD_PATH, os.getpid()), server
    finally:
        if grpc_server:
            await grpc_server.stop(grace)


async def start_brain(
    brain: Brain, options: AgentOptions, where: Addresses, token: str | None, grpc_server: GrpcServer | None
) -> ASGIApp:
    """Start the gRPC binding, where there is one, and return the application of the HTTP bindings."""
    card = build_card(options, brain.description, where)
    handler = make_handler(brain, options, card)
    if grpc_server:
        await grpc_server.start(handler, options.protocols)
    return make_app(handler, options, card, token)


def make_handler(brain: Brain, options: AgentOptions, card: AgentCard) -> DefaultRequestHandler:
    """Return the SDK's request handler around a brain."""
    return StrictRequestHandler(
        agent_executor=BrainExecutor(brain, options),
        task_store=BoundedTaskStore(options.contexts),
        agent_card=card,
        validate_input_modes=True,
    )


def make_app(
    handler: DefaultRequestHandler, options: AgentOptions, card: AgentCard, token: str | None = None
) -> ASGIApp:
    """Return the ASGI application: the card, and the HTTP bindings that the options ask for."""
    routes: list[BaseRoute] = [*create_agent_card_routes(card, cache_control=CARD_CACHING)]
    if "jsonrpc" in options.transports:
        routes += _jsonrpc_routes(handler, options)
    if "rest" in options.transports:
        routes += _rest_routes(handler, options)
    app = bounded(Starlette(routes=routes), _MAX_BODY)
    # The card is public: it is where a caller learns which credentials are wanted (§8.2, 7.4).
    return guarded(app, bearer(token)) if token else app


class _OnlyV03Dispatcher(JsonRpcDispatcher):
    """Knows no 1.0 method, so that a 0.3-only agent answers them as any 0.3 server would: method not found."""

    def __init__(self, handler: DefaultRequestHandler) -> None:
        super().__init__(handler, StrictContextBuilder(), enable_v0_3_compat=True)
        self.METHOD_TO_MODEL = {}


def _jsonrpc_routes(handler: DefaultRequestHandler, options: AgentOptions) -> list[Route]:
    if "1.0" in options.protocols:
        is_both = "0.3" in options.protocols
        return create_jsonrpc_routes(handler, "/", StrictContextBuilder(), enable_v0_3_compat=is_both)
    return [Route("/", _OnlyV03Dispatcher(handler).handle_requests, methods=["POST"])]


def _rest_routes(handler: DefaultRequestHandler, options: AgentOptions) -> list[Route]:
    """Return the REST routes without the SDK's catch-all for tenants, which these agents do not have."""
    compatible = "0.3" in options.protocols
    made = create_rest_routes(handler, StrictContextBuilder(), enable_v0_3_compat=compatible, path_prefix=REST_PREFIX)
    prefix = REST_PREFIX if "1.0" in options.protocols else f"{REST_PREFIX}/v1/"
    return [route for route in made if isinstance(route, Route) and route.path.startswith(prefix)]


def _read_token(options: AgentOptions) -> str | None:
    if options.auth_env is None:
        return None
    token = os.environ.get(options.auth_env, "")
    if not token:
        raise ConfigurationError(
            f"built-in agent {options.name!r}: --auth-env names {options.auth_env}, which is not set "
            f"in the environment; export {options.auth_env}=TOKEN first"
        )
    return token


def _make_grpc(options: AgentOptions, token: str | None) -> GrpcServer | None:
    if "grpc" not in options.transports:
        return None
    try:
        from pytest_a2a_bench.agents.grpc_server import GrpcServer
    except ImportError as error:
        if options.transport == "grpc":
            raise MissingExtraError("grpcio", "grpc", detail=str(error)) from error
        return None
    if options.grpc_port:
        # Tried beforehand, because grpc prints several lines of its own about a port that it cannot have.
        listen(options.host, options.grpc_port, "--grpc-port").close()
    return GrpcServer(options.host, options.grpc_port, token)
