"""A real a2a-sdk agent that does what a message's first word says, over all bindings, with all that a card declares."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc.aio
import httpx
from a2a.auth.user import UnauthenticatedUser, User
from a2a.compat.v0_3 import a2a_v0_3_pb2_grpc
from a2a.compat.v0_3.grpc_handler import CompatGrpcHandler
from a2a.helpers import new_data_part, new_message, new_task, new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.request_handlers.grpc_handler import DefaultGrpcServerCallContextBuilder
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.routes.common import StarletteUser
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentCardSignature,
    AgentExtension,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    Message,
    Part,
    SecurityRequirement,
    SecurityScheme,
    StringList,
    TaskState,
    TaskStatus,
    a2a_pb2_grpc,
)
from google.protobuf.json_format import MessageToDict
from in_thread import served_in_thread
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, AuthenticationError, SimpleUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response

from pytest_a2a_bench.listener import listen
from pytest_a2a_bench.quiet_server import serving


@dataclass
class ScriptedExecutor(AgentExecutor):
    """Obeys ``WORD ARGUMENT`` messages; keeps what it received."""

    received: list[dict[str, Any]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        self.received.append(MessageToDict(context.message))
        word, _, argument = context.get_user_input().partition(" ")
        if word == "echo":
            await event_queue.enqueue_event(_message(argument, context))
            return
        if word == "count":
            # Twice the same message is two messages: nobody has to tell them apart.
            heard = sum(m.get("contextId") == context.context_id for m in self.received)
            await event_queue.enqueue_event(_message(str(heard), context))
            return
        if word == "crash":
            raise RuntimeError(argument)
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(context.message)
            task.id, task.context_id = str(context.task_id), str(context.context_id)
        else:
            # The stream of a follow-up begins with the task, too (section 3.1.2); one that waits ends a blocking call.
            task.status.CopyFrom(TaskStatus(state=TaskState.TASK_STATE_WORKING))
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        if context.current_task is not None:
            await updater.add_artifact([new_text_part(f"continued: {word} {argument}")], artifact_id="later")
            await updater.complete()
            return
        await updater.start_work(_message("Thinking...", context))
        await self._work(word, argument, updater, context)

    async def _work(self, word: str, text: str, updater: TaskUpdater, context: RequestContext) -> None:
        if word == "slow":
            seconds, _, text = text.partition(" ")
            await asyncio.sleep(float(seconds))
        said = _message(text, context)
        match word:
            case "ask":
                await updater.add_artifact([new_text_part("a draft")], artifact_id="draft")
                await updater.requires_input(said)
            case "auth":
                await updater.requires_auth(said)
            case "fail":
                await updater.failed(said)
            case "reject":
                await updater.reject(said)
            case "status":
                await updater.complete(said)
            case "silent":
                await updater.complete()
            case "both":
                await updater.add_artifact([new_text_part(text)])
                await updater.complete(_message("All done.", context))
            case "data":
                await updater.add_artifact([new_data_part(json.loads(text))])
                await updater.complete()
            case "file":
                await updater.add_artifact([Part(raw=text.encode(), filename="x.txt", media_type="text/plain")])
                await updater.complete()
            case "chunks":
                *first, last = text.split("|")
                for number, chunk in enumerate(first):
                    await updater.add_artifact([new_text_part(chunk)], artifact_id="one", append=number > 0)
                await updater.add_artifact(
                    [new_text_part(last)], artifact_id="one", append=bool(first), last_chunk=True
                )
                await updater.complete()
            case _:
                metadata = {"usage": {"input_tokens": 12, "output_tokens": 3, "cost": 0.5}}
                await updater.add_artifact([new_text_part(text)], metadata=metadata)
                await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.cancelled.append(str(context.task_id))
        if context.current_task is None:
            await event_queue.enqueue_event(
                new_task(str(context.task_id), str(context.context_id), TaskState.TASK_STATE_SUBMITTED)
            )
        await TaskUpdater(event_queue, str(context.task_id), str(context.context_id)).cancel()


def _message(text: str, context: RequestContext) -> Message:
    return new_message([new_text_part(text)], context_id=context.context_id, task_id=context.task_id)


USERS = {"Bearer alice-token": "alice", "Bearer bob-token": "bob"}
EXTENSION = "https://example.org/extensions/colour/v1"


@dataclass(frozen=True)
class Features:
    """What the agent declares, and does.

    :param public: the address in the card, where it is not the agent's own.
    :param versions: more than 1.0 by a2a-sdk's compatibility.
    :param wraps: what stands around the application.
    """

    streaming: bool = True
    push: bool = True
    auth: bool = False
    extended: bool = False
    tenant: str = ""
    public: str = ""
    grpc: bool = True
    versions: tuple[str, ...] = ("1.0",)
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
    url = features.public or url
    addresses = {"JSONRPC": url, "HTTP+JSON": f"{url}/rest"}
    addresses |= {"GRPC": f"127.0.0.1:{grpc_port}"} if features.grpc else {}
    card = AgentCard(
        name="full",
        description="Does what a message's first word says.",
        version="1",
        supported_interfaces=[
            AgentInterface(url=address, protocol_binding=binding, protocol_version=version, tenant=features.tenant)
            for version in features.versions
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
async def _serving(features: Features, executor: AgentExecutor, port: int = 0) -> AsyncIterator[tuple[str, int]]:
    listener = listen("127.0.0.1", port)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    grpc_server = grpc.aio.server(interceptors=[_GrpcGuard()] if features.auth else [])
    grpc_port = grpc_server.add_insecure_port("127.0.0.1:0")
    card, compat = make_card(url, grpc_port, features), "0.3" in features.versions
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
        if compat:
            add = a2a_v0_3_pb2_grpc.add_A2AServiceServicer_to_server
            add(CompatGrpcHandler(handler), grpc_server)
        await grpc_server.start()
        routes = [
            *create_agent_card_routes(card, cache_control="public, max-age=60"),
            *create_jsonrpc_routes(handler, "/", enable_v0_3_compat=compat),
            *create_rest_routes(handler, enable_v0_3_compat=compat, path_prefix="/rest"),
        ]
        app = Starlette(routes=routes, middleware=[*features.wraps, *guard])
        async with serving(app, listener, log_level="critical"):
            yield url, grpc_port
            await grpc_server.stop(grace=0.2)


@contextlib.contextmanager
def full_agent(features: Features | None = None, executor: AgentExecutor | None = None, port: int = 0) -> Iterator[str]:
    """Serve on ephemeral ports, unless one is named, in a thread with its own event loop; gives the URL.

    :param executor: what does the work; by default it obeys a message's first word.
    """
    with served_in_thread(lambda: _serving(features or Features(), executor or ScriptedExecutor(), port)) as found:
        yield found[0]


@dataclass
class Scripted:
    url: str
    executor: ScriptedExecutor
    grpc_port: int


@contextlib.contextmanager
def scripted_agent() -> Iterator[Scripted]:
    """Serve an agent of both versions, which streams and declares nothing else."""
    executor = ScriptedExecutor()
    features = Features(push=False, versions=("1.0", "0.3"))
    with served_in_thread(lambda: _serving(features, executor)) as (url, grpc_port):
        yield Scripted(url, executor, grpc_port)
