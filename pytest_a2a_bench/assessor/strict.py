"""What the SDK's server lets pass and the protocol does not: refused while the context of a call is made.

Unknown versions of a known major one, parts without content, base64 that is none, states that do not exist. The SDK
reads requests leniently, so these are looked for in the request as it came.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

from a2a.server.context import ServerCallContext
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.types import TaskState
from a2a.utils.errors import InvalidParamsError, VersionNotSupportedError
from starlette.requests import Request

from pytest_a2a_bench.assessor.card import REST_PREFIX, VERSIONS
from pytest_a2a_bench.model.json_object import json_object

BODY = "a2a_bench.body"
"""Member of an ASGI scope that holds the request's whole body."""

VERSION = "a2a_bench.version"
"""Member of a call's state: the protocol version that its caller speaks."""

_CONTENTS = ("text", "raw", "url", "data")


class StrictContextBuilder(DefaultServerCallContextBuilder):
    """Makes the context of a call, or refuses it in the way of its binding."""

    def build(self, request: Request) -> ServerCallContext:
        """Make the context.

        :raises VersionNotSupportedError: for a version that is not served.
        :raises InvalidParamsError: for a request that only a lenient reader takes.
        """
        _check_version(request)
        body = json_object(request.scope.get(BODY, b""))
        if problem := next(_problems(request, body), None):
            raise InvalidParamsError(message=problem)
        context = super().build(request)
        method = body.get("method")
        is_old = isinstance(method, str) and "/" in method
        context.state[VERSION] = "0.3" if is_old or request.url.path.startswith(f"{REST_PREFIX}/v1/") else "1.0"
        # A token has no business in what is handed around from here.
        context.state["headers"] = {k: v for k, v in context.state["headers"].items() if k != "authorization"}
        return context


def _check_version(request: Request) -> None:
    asked = request.headers.get("a2a-version") or request.query_params.get("A2A-Version") or ""
    if asked and ".".join(asked.strip().split(".")[:2]) not in VERSIONS:
        raise VersionNotSupportedError(
            message=f"A2A version {asked[:20]!r} is not supported; supported are {', '.join(VERSIONS)}"
        )


def _problems(request: Request, body: Mapping[str, Any]) -> Iterator[str]:
    params = body.get("params") if "jsonrpc" in body else body
    message = params.get("message") if isinstance(params, Mapping) else None
    parts = message.get("parts") if isinstance(message, Mapping) else None
    # 0.3 tells the kinds of parts apart by a member of that name, and the SDK's models of it are exact.
    if isinstance(parts, list) and not any(isinstance(part, Mapping) and "kind" in part for part in parts):
        yield from _part_problems(parts)
    status = request.query_params.get("status")
    if body.get("method") == "ListTasks" and isinstance(params, Mapping):
        status = params.get("status")
    if isinstance(status, str) and status not in TaskState.keys():
        yield f"status is {status[:40]!r}, which is no state of a task"


def _part_problems(parts: list[Any]) -> Iterator[str]:
    for number, part in enumerate(parts):
        if not isinstance(part, Mapping):
            continue
        if not any(name in part for name in _CONTENTS):
            yield f"message.parts[{number}] has none of {', '.join(_CONTENTS)}"
        raw = part.get("raw")
        if isinstance(raw, str) and not _is_base64(raw):
            yield f"message.parts[{number}].raw is not base64"


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text.rstrip("=")) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True
