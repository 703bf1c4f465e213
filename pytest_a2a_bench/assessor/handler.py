"""A2A as the assessor serves it: its card, and checks of requests that the SDK's server does not make."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any

from a2a.server.context import ServerCallContext
from a2a.server.events import Event
from a2a.server.routes import create_agent_card_routes, create_rest_routes
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentSkill,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskRequest,
    Message,
    SendMessageRequest,
    Task,
    TaskState,
)
from a2a.utils.error_handlers import rest_error_handler
from a2a.utils.errors import UnsupportedOperationError
from pydantic import ValidationError
from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from pytest_a2a_bench.a2a.card import CARD_CACHING, CARD_PATH, LEGACY_CARD_PATH
from pytest_a2a_bench.agents.card import write_card
from pytest_a2a_bench.agents.gateway import AGENTS_ROLE, BODY, StrictContextBuilder, StrictRequestHandler, wrong_fields
from pytest_a2a_bench.assessor.result import whole_numbers
from pytest_a2a_bench.assessor.store import VERSION, KnownUser
from pytest_a2a_bench.model.messages import json_object

VERSIONS = ("1.0", "0.3")

_REST = "/rest"
_PATHS = ("/", "/a2a/messages")
"""Where JSON-RPC is answered: the card's URL, and the path of CRMArena's architecture document."""

_UNDER_WAY = (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING)
_PING = 3
"""Seconds between comments in a stream: httpx, with which most clients are made, gives a silent one up after five."""


def _example(domain: str) -> str:
    # Of the protocol everything is judged, and not a number of tasks.
    limits = {} if domain == "conformance" else {"num_tasks": 2}
    return json.dumps({"participants": {"agent": "http://127.0.0.1:9019/"}, "config": {"domain": domain, **limits}})


def build_card(base: str, *, needs_token: bool) -> AgentCard:
    """Return the agent card: JSON-RPC at the base URL, REST below it, both in 1.0 and 0.3.

    :param base: the URL at which callers reach the assessor.
    """
    root = base.rstrip("/")
    skills = (
        ("tau2", "tau2-bench", "Customer service with tools, a policy and a simulated user.", "airline"),
        ("crmarena", "CRMArena", "Questions about a CRM org, answered by queries.", "mini"),
        ("conformance", "A2A conformance", "The agent's card and what it does on the wire.", "conformance"),
    )
    return write_card(
        name="pytest-a2a-bench assessor",
        description=(
            "Assesses an A2A agent: runs conversations of tau2-bench or CRMArena with it, or judges its card and "
            "protocol, and returns rewards with their intervals, errors apart from failures."
        ),
        # AgentBeats' gateway puts its own address in the place of the card's, so 0.3 has to be spoken at the root.
        urls={"JSONRPC": f"{root}/", "HTTP+JSON": f"{root}{_REST}"},
        versions=VERSIONS,
        capabilities=AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=False),
        skills=[
            AgentSkill(
                id=skill,
                name=f"Assess with {name}",
                description=description,
                tags=["assessment", "benchmark", "green-agent", skill],
                examples=[_example(domain)],
            )
            for skill, name, description, domain in skills
        ],
        needs_token=needs_token,
    )


class AssessorHandler(StrictRequestHandler):
    """Refuses further messages to an assessment.

    The SDK would begin another execution of the same task for them, on whichever process they reach. Only what was
    interrupted is sent again, by the assessor itself (``KnownUser``).
    """

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Message | Task:
        """Accept a request."""
        await self._refuse_more(params, context)
        return await super().on_message_send(params, context)

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        """Accept a request, and stream its progress."""
        await self._refuse_more(params, context)
        async for event in super().on_message_send_stream(params, context):
            yield event

    async def _refuse_more(self, params: SendMessageRequest, context: ServerCallContext) -> None:
        if not params.message.task_id or isinstance(context.user, KnownUser):
            return
        task = await self.on_get_task(GetTaskRequest(id=params.message.task_id), context)
        if task is not None and task.status.state in _UNDER_WAY:
            raise UnsupportedOperationError(message="an assessment takes no further messages; send another request")


def a2a_routes(handler: AssessorHandler, card: AgentCard) -> list[BaseRoute]:
    """Return the routes of A2A: the card, also where older clients look for it, JSON-RPC and REST."""
    contexts = _ContextBuilder()
    dispatcher = _Dispatcher(handler, contexts, enable_v0_3_compat=True)
    rest = create_rest_routes(handler, contexts, enable_v0_3_compat=True, path_prefix=_REST)

    @rest_error_handler
    async def delete_webhook(request: Request) -> Response:
        """A2A 0.3 has this, and the SDK's REST binding of 0.3 does not."""
        asked = DeleteTaskPushNotificationConfigRequest(
            task_id=request.path_params["id"], id=request.path_params["push_id"]
        )
        await handler.on_delete_task_push_notification_config(asked, contexts.build(request))
        return JSONResponse({})

    webhook = f"{_REST}/v1/tasks/{{id}}/pushNotificationConfigs/{{push_id}}"
    cards = (
        route
        for path in (CARD_PATH, LEGACY_CARD_PATH)
        for route in create_agent_card_routes(card, card_url=path, cache_control=CARD_CACHING)
    )
    return [
        *cards,
        *(Route(path, _with_integers(dispatcher.handle_requests), methods=["POST"]) for path in _PATHS),
        # Without the SDK's catch-all for tenants, which the assessor does not have.
        *(
            Route(r.path, _with_integers(r.endpoint), methods=list(r.methods or ()))
            for r in rest
            if isinstance(r, Route)
        ),
        Route(webhook, delete_webhook, methods=["DELETE"]),
    ]


# --- requests ---------------------------------------------------------------------------------------------------------


class _ContextBuilder(StrictContextBuilder):
    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        method = json_object(request.scope.get(BODY, b"")).get("method")
        is_old = isinstance(method, str) and "/" in method
        context.state[VERSION] = "0.3" if is_old or request.url.path.startswith(f"{_REST}/v1/") else "1.0"
        # What handles the call from here on has no use for the token.
        context.state["headers"] = {k: v for k, v in context.state["headers"].items() if k != "authorization"}
        return context


class _Dispatcher(JsonRpcDispatcher):
    """JSON-RPC whose errors name the method that a caller may mean, and in 0.3 the field that is wrong."""

    async def handle_requests(self, request: Request) -> Response:
        call = json_object(request.scope.get(BODY, b""))
        method = call.get("method")
        old = self._v03_adapter.METHOD_TO_MODEL if self._v03_adapter is not None else {}
        error: dict[str, Any] | None = None
        if isinstance(method, str) and call.get("jsonrpc") == "2.0":
            if method in old:
                error = _params_error(old[method], call)
            elif method and method not in self.METHOD_TO_MODEL:
                error = {"code": -32601, "message": _unknown_method(method, self.METHOD_TO_MODEL, old)}
        if error is None:
            return await super().handle_requests(request)
        call_id = call.get("id")
        known = call_id if isinstance(call_id, str | int) and not isinstance(call_id, bool) else None
        return JSONResponse({"jsonrpc": "2.0", "id": known, "error": error})


def _params_error(model: Any, call: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the error for parameters that 0.3 does not allow; None for others."""
    wrong = {}
    try:
        message = getattr(model.model_validate(call).params, "message", None)
        if message is not None and message.role == "agent":  # else the answer of message/stream would be a stream
            wrong["message.role"] = AGENTS_ROLE
    except ValidationError as error:
        found = [(one["loc"], one["msg"]) for one in error.errors() if one["loc"][0] == "params"]
        wrong = {".".join(map(str, place[1:])) or "params": f"is wrong: {problem}" for place, problem in found[:5]}
    if not wrong:
        return None
    refusal = wrong_fields(wrong)
    return {"code": -32602, "message": refusal.message, "data": refusal.data}


def _unknown_method(method: str, of_1_0: Iterable[str], of_0_3: Iterable[str]) -> str:
    """Report that there is no such method, and which one of either version is nearest."""

    def letters(name: str) -> str:
        return re.sub(r"[^a-z]", "", name.lower())[:80]

    near = []
    for version, known in (("1.0", of_1_0), ("0.3", of_0_3)):
        names = {letters(name): name for name in known}
        near += [f"{names[one]} (A2A {version})" for one in difflib.get_close_matches(letters(method), names, 1, 0.5)]
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join((*of_1_0, *of_0_3))}"
    return f"Method not found: {method[:80]!r}; {hint}"


# --- answers ----------------------------------------------------------------------------------------------------------


def _with_integers(endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint whose answers and events have integers, and whose streams are never silent for long."""

    async def events(stream: Any) -> AsyncIterator[Any]:
        async for event in stream:
            yield {**event, "data": whole_numbers(event["data"])} if isinstance(event, dict) else event

    async def answer(request: Request) -> Response:
        response = await endpoint(request)
        if isinstance(response, EventSourceResponse):
            response.ping_interval = _PING
            response.body_iterator = events(response.body_iterator)
        elif isinstance(response, JSONResponse) and b".0" in response.body:
            response.body = whole_numbers(bytes(response.body)).encode()
            response.headers["content-length"] = str(len(response.body))
        return response

    return answer
