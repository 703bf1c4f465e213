"""The scripted agent with everything that a card can declare: push notifications, credentials, an extended card."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import grpc.aio
import httpx
from a2a.auth.user import UnauthenticatedUser, User
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.request_handlers.grpc_handler import DefaultGrpcServerCallContextBuilder
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.routes.common import StarletteUser
from a2a.server.tasks import BasePushNotificationSender, InMemoryPushNotificationConfigStore, InMemoryTaskStore
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentCardSignature,
    AgentExtension,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
    a2a_pb2_grpc,
)
from in_thread import served_in_thread
from scripted import ScriptedExecutor
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, AuthenticationError, SimpleUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response

from pytest_a2a_bench.listener import listen
from pytest_a2a_bench.quiet_server import serving

USERS = {"Bearer alice-token": "alice", "Bearer bob-token": "bob"}
EXTENSION = "https://example.org/extensions/colour/v1"


@dataclass(frozen=True)
class Features:
    """What the agent declares, and does.

    :param public: the address in the card, where it is not the agent's own.
    :param wraps: what stands around the application.
    """

    streaming: bool = True
    push: bool = True
    auth: bool = False
    extended: bool = False
    tenant: str = ""
    public: str = ""
    grpc: bool = True
    signatures: tuple[AgentCardSignature, ...] = ()
    wraps: tuple[Middleware, ...] = ()


class _Backend(AuthenticationBackend):
    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, SimpleUser] | None:
        if conn.url.path.startswith("/.well-known/"):
            return None
        user = USERS.get(conn.headers.get("authorization", ""))
        if user is None:
            raise AuthenticationError("credentials are missing or unknown")
        return AuthCredentials(), SimpleUser(user)


def _refuse(request: HTTPConnection, error: Exception) -> Response:
    body = {"error": {"code": 401, "status": "UNAUTHENTICATED", "message": str(error)}}
    return JSONResponse(body, 401, headers={"WWW-Authenticate": "Bearer"})


class _GrpcUsers(DefaultGrpcServerCallContextBuilder):
    def build_user(self, context: grpc.aio.ServicerContext) -> User:
        sent = dict(context.invocation_metadata() or ())
        name = USERS.get(str(sent.get("authorization", "")))
        return StarletteUser(SimpleUser(name)) if name else UnauthenticatedUser()


class _GrpcGuard(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        handler = await continuation(details)
        if dict(details.invocation_metadata).get("authorization") in USERS:
            return handler

        async def refuse(request: Any, context: grpc.aio.ServicerContext) -> Any:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "credentials are missing or unknown")

        async def refuse_stream(request: Any, context: grpc.aio.ServicerContext) -> Any:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "credentials are missing or unknown")
            yield None

        make = (
            grpc.unary_stream_rpc_method_handler if handler.response_streaming else grpc.unary_unary_rpc_method_handler
        )
        return make(
            refuse_stream if handler.response_streaming else refuse,
            handler.request_deserializer,
            handler.response_serializer,
        )


def make_card(url: str, grpc_port: int, features: Features) -> AgentCard:
    """Return a card for the features, with all bindings of 1.0."""
    url = features.public or url
    addresses = {"JSONRPC": url, "HTTP+JSON": f"{url}/rest"}
    addresses |= {"GRPC": f"127.0.0.1:{grpc_port}"} if features.grpc else {}
    card = AgentCard(
        name="full",
        description="Does what a message's first word says.",
        version="1",
        supported_interfaces=[
            AgentInterface(url=address, protocol_binding=binding, protocol_version="1.0", tenant=features.tenant)
            for binding, address in addresses.items()
        ],
        capabilities=AgentCapabilities(
            streaming=features.streaming,
            push_notifications=features.push,
            extended_agent_card=features.extended,
            extensions=[AgentExtension(uri=EXTENSION)],
        ),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="obey", name="obey", description="Obeys.", tags=["test"])],
        signatures=features.signatures,
    )
    if features.auth:
        scheme = HTTPAuthSecurityScheme(scheme="bearer")
        card.security_schemes["token"].CopyFrom(SecurityScheme(http_auth_security_scheme=scheme))
        card.security_requirements.append(SecurityRequirement(schemes={"token": StringList()}))
    return card


@contextlib.asynccontextmanager
async def _serving(features: Features, executor: AgentExecutor, port: int) -> AsyncIterator[str]:
    listener = listen("127.0.0.1", port)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    grpc_server = grpc.aio.server(interceptors=[_GrpcGuard()] if features.auth else [])
    card = make_card(url, grpc_server.add_insecure_port("127.0.0.1:0"), features)
    configs = InMemoryPushNotificationConfigStore()
    guard = [Middleware(AuthenticationMiddleware, backend=_Backend(), on_error=_refuse)] if features.auth else []
    async with httpx.AsyncClient(timeout=5, verify=False) as client:
        handler = DefaultRequestHandler(
            agent_executor=executor,
            task_store=InMemoryTaskStore(),
            agent_card=card,
            push_config_store=configs,
            push_sender=BasePushNotificationSender(client, configs),
            extended_agent_card=card if features.extended else None,
        )
        add: Any = a2a_pb2_grpc.add_A2AServiceServicer_to_server
        add(GrpcHandler(handler, context_builder=_GrpcUsers()), grpc_server)
        await grpc_server.start()
        routes = [
            *create_agent_card_routes(card, cache_control="public, max-age=60"),
            *create_jsonrpc_routes(handler, "/"),
            *create_rest_routes(handler, path_prefix="/rest"),
        ]
        app = Starlette(routes=routes, middleware=[*features.wraps, *guard])
        async with serving(app, listener, log_level="critical"):
            yield url
            await grpc_server.stop(grace=0.2)


def full_agent(
    features: Features | None = None, executor: AgentExecutor | None = None, port: int = 0
) -> AbstractContextManager[str]:
    """Serve on ephemeral ports, unless one is named, in a thread with its own event loop; gives the URL.

    :param executor: what does the work; by default it obeys a message's first word.
    """
    return served_in_thread(lambda: _serving(features or Features(), executor or ScriptedExecutor(), port))
