"""What is served beside A2A's bindings as the SDK has them: health, numbers, and one route of 0.3 that it lacks."""

from __future__ import annotations

from collections.abc import Callable

from a2a.server.request_handlers import RequestHandler
from a2a.types import DeleteTaskPushNotificationConfigRequest
from a2a.utils.error_handlers import rest_error_handler
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from pytest_a2a_bench.assessor.card import REST_PREFIX
from pytest_a2a_bench.assessor.monitoring import CONTENT_TYPE, Monitor
from pytest_a2a_bench.assessor.strict import StrictContextBuilder


def further_routes(
    handler: RequestHandler,
    contexts: StrictContextBuilder,
    monitor: Monitor,
    engine: AsyncEngine,
    is_closing: Callable[[], bool],
) -> list[BaseRoute]:
    """Return the routes.

    :param is_closing: tells whether nothing new is taken in any more.
    """

    async def live(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(request: Request) -> Response:
        if is_closing():
            return JSONResponse({"status": "closing"}, 503)
        try:
            async with engine.connect() as connection:
                await connection.execute(text("SELECT 1"))
        except (SQLAlchemyError, OSError):
            return JSONResponse({"status": "the database does not answer"}, 503)
        return JSONResponse({"status": "ok"})

    async def numbers(request: Request) -> Response:
        return Response(monitor.render(), headers={"Content-Type": CONTENT_TYPE})

    @rest_error_handler
    async def delete_webhook(request: Request) -> Response:
        asked = DeleteTaskPushNotificationConfigRequest(
            task_id=request.path_params["id"], id=request.path_params["push_id"]
        )
        await handler.on_delete_task_push_notification_config(asked, contexts.build(request))
        return JSONResponse({})

    webhook = f"{REST_PREFIX}/v1/tasks/{{id}}/pushNotificationConfigs/{{push_id}}"
    return [
        Route("/healthz", live, methods=["GET"]),
        Route("/readyz", ready, methods=["GET"]),
        Route("/metrics", numbers, methods=["GET"]),
        Route(webhook, delete_webhook, methods=["DELETE"]),
    ]
