"""The SDK's request handler, for tasks that take one message each."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from a2a.server.context import ServerCallContext
from a2a.server.events import Event
from a2a.server.request_handlers import DefaultRequestHandler, RequestHandler
from a2a.types import (
    DeleteTaskPushNotificationConfigRequest,
    GetTaskRequest,
    Message,
    SendMessageRequest,
    Task,
    TaskState,
)
from a2a.utils.error_handlers import rest_error_handler
from a2a.utils.errors import UnsupportedOperationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pytest_a2a_bench.assessor.card import REST_PREFIX
from pytest_a2a_bench.assessor.strict import StrictContextBuilder
from pytest_a2a_bench.assessor.webhooks import KnownUser

_UNDER_WAY = (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING)


class AssessorHandler(DefaultRequestHandler):
    """Refuses further messages to an assessment.

    The SDK would begin another execution of the same task for them, on whichever process they reach. Only what was
    interrupted is sent again, by the assessor itself (``KnownUser``).
    """

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Message | Task:
        """Take a request in."""
        await self._refuse_more(params, context)
        found: Message | Task = await super().on_message_send(params, context)
        return found

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        """Take a request in, and tell how far it is."""
        await self._refuse_more(params, context)
        async for event in super().on_message_send_stream(params, context):
            yield event

    async def _refuse_more(self, params: SendMessageRequest, context: ServerCallContext) -> None:
        if not params.message.task_id or isinstance(context.user, KnownUser):
            return
        task = await self.on_get_task(GetTaskRequest(id=params.message.task_id), context)
        if task is not None and task.status.state in _UNDER_WAY:
            raise UnsupportedOperationError(message="an assessment takes no further messages; send another request")


def delete_webhook_route(handler: RequestHandler, contexts: StrictContextBuilder) -> Route:
    """Return the route of A2A 0.3 that the SDK's REST binding lacks."""

    @rest_error_handler
    async def delete_webhook(request: Request) -> Response:
        asked = DeleteTaskPushNotificationConfigRequest(
            task_id=request.path_params["id"], id=request.path_params["push_id"]
        )
        await handler.on_delete_task_push_notification_config(asked, contexts.build(request))
        return JSONResponse({})

    path = f"{REST_PREFIX}/v1/tasks/{{id}}/pushNotificationConfigs/{{push_id}}"
    return Route(path, delete_webhook, methods=["DELETE"])
