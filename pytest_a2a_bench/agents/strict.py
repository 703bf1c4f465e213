"""Rules of A2A 1.0 that a2a-sdk's server does not enforce: on versions, parts, enum values and base64."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from a2a.server.context import ServerCallContext
from a2a.server.events import Event
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.types import ListTasksRequest, Message, SendMessageRequest, Task
from a2a.utils.errors import ContentTypeNotSupportedError, InvalidParamsError, VersionNotSupportedError
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def check_version(version: str) -> None:
    """Refuse a version other than those served (§3.6): minor versions differ, patch versions do not.

    The SDK compares only the major version.

    :param version: value of ``A2A-Version``; empty for none, which the SDK takes for 0.3.
    :raises VersionNotSupportedError: if it is another one.
    """
    if version and not re.fullmatch(r"(1\.0|0\.3)(\.\d+)?", version):
        raise VersionNotSupportedError(message=f"A2A-Version {version!r} is not supported; 1.0 and 0.3 are")


class StrictContextBuilder(DefaultServerCallContextBuilder):
    """Checks a request over HTTP before the SDK parses it leniently."""

    def build(self, request: Request) -> ServerCallContext:
        """Return the context.

        :raises VersionNotSupportedError: for an unknown version.
        :raises InvalidParamsError: for values that are not of their field's type.
        """
        version = request.headers.get("A2A-Version", "")
        check_version(version)
        if version.startswith("1."):
            _check_values(_parameters(request))
        return super().build(request)


def read_body_first(route: Route) -> Route:
    """Return the route with an endpoint that reads the body before it is called: a context is built synchronously."""
    endpoint = route.endpoint

    async def reading(request: Request) -> Response:
        request.state.body = await request.body()
        answer: Response = await endpoint(request)
        return answer

    return Route(route.path, reading, methods=sorted(route.methods or ()))


class StrictRequestHandler(DefaultRequestHandler):
    """Refuses parts that have no content (§4.1.6) or a media type that the card does not declare, on every binding."""

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Message | Task:
        """Answer a message."""
        self._check_parts(params.message)
        answer: Message | Task = await super().on_message_send(params, context)
        return answer

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        """Answer a message with a stream."""
        self._check_parts(params.message)
        async for event in super().on_message_send_stream(params, context):
            yield event

    def _check_parts(self, message: Message) -> None:
        for number, part in enumerate(message.parts):
            if part.WhichOneof("content") is None:
                raise InvalidParamsError(message=f"parts[{number}] has no content: none of text, raw, url and data")
            if part.media_type and part.media_type.partition(";")[0] not in self._agent_card.default_input_modes:
                raise ContentTypeNotSupportedError(message=f"parts[{number}] is {part.media_type}")


def _parameters(request: Request) -> Mapping[str, Any]:
    try:
        body = json.loads(request.state.body or b"{}")
    except ValueError:
        return {}  # the SDK refuses it
    found = body.get("params", body) if isinstance(body, dict) else {}
    return {**request.query_params, **found} if isinstance(found, dict) else {}


def _check_values(parameters: Mapping[str, Any]) -> None:
    request = SendMessageRequest if "message" in parameters else ListTasksRequest
    _check(parameters, request.DESCRIPTOR, "")


def _check(value: Any, descriptor: Descriptor, place: str) -> None:
    """Refuse unknown enum values and invalid base64, which protobuf's parser accepts together with unknown fields."""
    if not isinstance(value, Mapping) or descriptor.file.package.startswith("google."):
        return
    for field in descriptor.fields:
        given = value.get(field.json_name)
        for item in given if isinstance(given, list) else [given]:
            where = f"{place}{field.json_name}"
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                _check(item, field.message_type, where + ".")
            elif field.type == FieldDescriptor.TYPE_ENUM and isinstance(item, str):
                if item not in field.enum_type.values_by_name:
                    raise InvalidParamsError(message=f"{where}: {item!r} is not a {field.enum_type.name}")
            elif field.type == FieldDescriptor.TYPE_BYTES and isinstance(item, str):
                _check_base64(item, where)


def _check_base64(text: str, where: str) -> None:
    standard = text.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except binascii.Error as error:
        raise InvalidParamsError(message=f"{where} is not base64: {error}") from None
