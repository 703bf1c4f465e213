"""What the peer agents have in common; only the standard library (and uvicorn), for they run in other environments.

Their brain calls one tool that it finds in the first message, and speaks prose from then on.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import socket
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

_TOOLS = re.compile(r"<available_tools>\s*(\[.*?\])\s*</available_tools>", re.DOTALL)


class Brain:
    """Remembers, per conversation, how often it was spoken to."""

    def __init__(self) -> None:
        self._turns: dict[str, int] = defaultdict(int)

    def answer(self, context_id: str, text: str) -> str:
        self._turns[context_id] += 1
        turn = self._turns[context_id]
        call = _find_call(text) if turn == 1 else None
        return json.dumps({"tool_call": call}) if call else f"Turn {turn} of this conversation; you said: {text[:200]}"


def _find_call(text: str) -> dict[str, Any] | None:
    """Return a call of the tool that needs the fewest arguments."""
    found = _TOOLS.search(text)
    if found is None:
        return None
    tools = [t.get("function", t) for t in json.loads(found.group(1))]
    required = {t["name"]: t.get("parameters", {}).get("required", []) for t in tools}
    name = min(required, key=lambda n: (len(required[n]), n))
    return {"name": name, "arguments": dict.fromkeys(required[name], "user_1")}


def serve(make_app: Callable[[str], Any], path: str = "") -> None:
    """Serve an ASGI application on the port that the command line names, or on an ephemeral one; stop when stdin ends.

    :param path: of the agent's card below its root, where it is not the well-known one. The URL is printed with it, as
        one JSON line.
    """
    import uvicorn

    warnings.simplefilter("ignore")  # fasta2a, for one, lets pydantic complain about its own answers
    listener = socket.create_server(("127.0.0.1", port_of_arguments()))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(make_app(url), log_level="error", timeout_graceful_shutdown=1))

    async def main() -> None:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            await asyncio.sleep(0.01)
        print(json.dumps({"url": url + path}), flush=True)
        await asyncio.to_thread(sys.stdin.read)
        server.should_exit = True
        await serving

    asyncio.run(main())


def free_port() -> int:
    """Return a port that nobody listens on just now, of those that no system gives to whoever asks for any."""
    while True:
        port = random.randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def port_of_arguments() -> int:
    return next((int(word) for word in sys.argv[1:] if word.isdigit()), 0)
