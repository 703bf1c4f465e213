"""Rules of A2A that a2a-sdk's server does not enforce: on versions, roles, parts, enum values and base64."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Any

from a2a.server.context import ServerCallContext
from a2a.server.events import Event
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.types import ListTasksRequest, Message, Role, SendMessageRequest, Task
from a2a.utils.errors import InvalidParamsError, VersionNotSupportedError
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from starlette.requests import Request

from pytest_a2a_bench.agents.gateway import BODY
from pytest_a2a_bench.model.keys import json_object

AGENTS_ROLE = "is the agent's; a request comes from a user ('ROLE_USER', in 0.3 'user')"


def check_version(version: str) -> None:
    """Refuse a version other than those served (§3.6): minor versions differ, patch versions do not.

    The SDK compares only the major version.

    :param version: value of ``A2A-Version``; empty for none, which the SDK takes for 0.3.
    :raises VersionNotSupportedError: if it is another one.
    """
    if version and not re.fullmatch(r"(1\.0|0\.3)(\.\d+)?", version):
        raise VersionNotSupportedError(message=f"A2A-Version {version[:20]!r} is not supported; 1.0 and 0.3 are")


def wrong_fields(wrong: Mapping[str, str]) -> InvalidParamsError:
    """Return the error for fields of a request, in the form that the SDK gives its own.

    :param wrong: field -> what is wrong with it.
    """
    errors = [{"field": field, "message": problem} for field, problem in wrong.items()]
    return InvalidParamsError(message="; ".join(f"{f} {p}" for f, p in wrong.items()), data={"errors": errors})


class StrictContextBuilder(DefaultServerCallContextBuilder):
    """Checks a request over HTTP, whose body :func:`~.gateway.bounded` read, before the SDK parses it leniently."""

    def build(self, request: Request) -> ServerCallContext:
        """Return the context.

        :raises VersionNotSupportedError: for an unknown version.
        :raises InvalidParamsError: for values that are not of their field's type.
        """
        version = request.headers.get("A2A-Version") or request.query_params.get("A2A-Version", "")
        check_version(version.strip())
        if version.startswith("1.") and "/v1/" not in request.url.path:
            body = json_object(request.scope.get(BODY, b""))
            params = body.get("params", body)
            given = {**request.query_params, **(params if isinstance(params, Mapping) else {})}
            kind = SendMessageRequest if "message" in given else ListTasksRequest
            if wrong := dict(_wrong_values(given, kind.DESCRIPTOR)):
                raise wrong_fields(wrong)
        return super().build(request)


def _wrong_values(value: Any, descriptor: Descriptor, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield unknown enum values and invalid base64, which protobuf's parser accepts together with unknown fields."""
    if not isinstance(value, Mapping) or descriptor.file.package.startswith("google."):
        return
    for field in descriptor.fields:
        given, name = value.get(field.json_name), f"{place}{field.json_name}"
        items = [(f"{name}[{n}]", v) for n, v in enumerate(given)] if isinstance(given, list) else [(name, given)]
        for where, item in items:
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                yield from _wrong_values(item, field.message_type, f"{where}.")
            elif field.type == FieldDescriptor.TYPE_ENUM and isinstance(item, str):
                if item not in field.enum_type.values_by_name:
                    yield where, f"is {item[:40]!r}, which is no {field.enum_type.name}"
            elif field.type == FieldDescriptor.TYPE_BYTES and isinstance(item, str) and not _is_base64(item):
                yield where, "is not base64"


def _is_base64(text: str) -> bool:
    standard = text.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


class StrictRequestHandler(DefaultRequestHandler):
    """Refuses messages of another role than the user's, and parts without content (§4.1.6), on every binding."""

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Message | Task:
        """Answer a message."""
        _check_message(params.message)
        answer: Message | Task = await super().on_message_send(params, context)
        return answer

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        """Answer a message with a stream."""
        _check_message(params.message)
        async for event in super().on_message_send_stream(params, context):
            yield event


def _check_message(message: Message) -> None:
    wrong = {
        f"message.parts[{number}]": "has none of text, raw, url and data"
        for number, part in enumerate(message.parts)
        if part.WhichOneof("content") is None
    }
    if message.role == Role.ROLE_AGENT:
        wrong["message.role"] = AGENTS_ROLE
    if wrong:
        raise wrong_fields(wrong)
