"""The platform's side of a controller: reset its agent before an assessment, and wait until it is there again."""

from __future__ import annotations

import asyncio
import os
import time
import urllib.parse
from typing import Any

import httpx

from pytest_a2a_bench.a2a.network import Network
from pytest_a2a_bench.a2a.transport import open_client
from pytest_a2a_bench.errors import InfrastructureError
from pytest_a2a_bench.redact import one_line, redact_url
from pytest_a2a_bench.secret import Secret
from pytest_a2a_bench.settings import Settings

_POLL_SECONDS = 0.5
_REQUEST_SECONDS = 10.0
_MAX_ANSWER = 8 * 1024 * 1024


class ControllerError(InfrastructureError):
    """A controller that cannot be reached, is none, or whose agent does not come up."""


async def reset_agent(controller: str, token: Secret | None, seconds: float) -> str:
    """Reset the first agent of a controller, as AgentBeats does before each assessment, and return its URL.

    :param seconds: how long the agent may take to be running again.
    :raises ControllerError: if it does not.
    """
    base = controller.rstrip("/")
    headers = {"Authorization": f"Bearer {token.reveal()}"} if token else {}
    network = Network.from_settings(Settings(), os.environ)
    async with open_client(network, timeout=_REQUEST_SECONDS) as client:
        agents = await _ask(client, "GET", f"{base}/agents", headers)
        if not agents:
            raise ControllerError(f"the controller at {redact_url(base)} keeps no agent")
        name = urllib.parse.quote(str(next(iter(agents))), safe="")
        await _ask(client, "POST", f"{base}/agents/{name}/reset", headers)
        deadline = time.monotonic() + seconds
        while True:
            try:
                told = await _ask(client, "GET", f"{base}/agents/{name}", headers)
            except ControllerError:
                # AgentBeats' own have moments in a reset when they answer with 500.
                if time.monotonic() > deadline:
                    raise
                told = {}
            state = str(told.get("state", "not told"))
            if state == "running":
                return f"{base}/to_agent/{name}"
            if state.startswith("finished") or time.monotonic() > deadline:
                said = one_line(str(told.get("stderr_log") or "").strip()[-300:])
                raise ControllerError(
                    f"the agent of the controller at {redact_url(base)} is {one_line(state, 60)} after its reset"
                    + (f", saying {said!r}" if said else "")
                )
            await asyncio.sleep(_POLL_SECONDS)


async def _ask(client: httpx.AsyncClient, method: str, url: str, headers: dict[str, str]) -> dict[str, Any]:
    where = f"{method} {redact_url(url)}"
    try:
        answer = await client.request(method, url, headers=headers)
        found = answer.json() if answer.status_code == 200 and len(answer.content) <= _MAX_ANSWER else None
    except httpx.HTTPError as error:
        raise ControllerError(f"{where}: {type(error).__name__}: {error}") from error
    except ValueError:
        found = None
    if not isinstance(found, dict):
        wanted = "; name the variable with its token by --controller-auth-env" if answer.status_code == 401 else ""
        raise ControllerError(f"{where}: HTTP {answer.status_code} {one_line(answer.text, 120)}{wanted}")
    return found
