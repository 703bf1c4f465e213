"""The faulty agent, served by the event loop of a test or in a thread beside it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Literal, NamedTuple

from faulty.serving import TOKENS, Running, serve_app, serve_faulty
from in_thread import served_in_thread

from pytest_a2a_bench.a2a.card import CARD_PATH
from pytest_a2a_bench.conformance.card.fetch import fetch_card_async

__all__ = ["TOKENS", "Between", "Late", "Running", "interposed", "serve_app", "serve_faulty", "start_faulty"]

Send = Callable[[dict[str, Any]], Awaitable[None]]
Forward = Callable[[Send], Awaitable[None]]


class Between:
    """An application before another one, which gets each call's body at once; subclasses say what becomes of it."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def handle(self, method: str, forward: Forward, send: Send) -> None:
        """Answer a call of a JSON-RPC method; ``forward(send)`` lets the other application answer."""
        await forward(send)

    async def __call__(self, scope: Any, receive: Any, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        message = await receive()
        while message.get("more_body"):
            further = await receive()
            message = {**further, "body": message["body"] + further["body"]}

        async def again() -> Any:
            return message

        with contextlib.suppress(ValueError):
            call = json.loads(message["body"])
            await self.handle(call.get("method", ""), lambda send: self.app(scope, again, send), send)
            return
        await self.app(scope, again, send)


class Late(Between):
    """Keeps answers waiting.

    :param methods: answers to these requests only; to all where there is none.
    :param at: what comes late: the ``call`` itself, or the ``start`` or the ``end`` of its answer.
    :param times: how many answers.
    """

    def __init__(
        self, app: Any, seconds: float, *methods: str, at: Literal["call", "start", "end"] = "call", times: int = 1000
    ) -> None:
        super().__init__(app)
        self._seconds, self._methods, self._at, self._times = seconds, methods, at, times
        self.asked: list[str] = []

    async def handle(self, method: str, forward: Forward, send: Send) -> None:
        if len(self.asked) == self._times or (self._methods and method not in self._methods):
            await forward(send)
            return
        self.asked.append(method)

        async def hold(event: dict[str, Any]) -> None:
            part = "start" if event["type"].endswith("start") else "more" if event.get("more_body") else "end"
            if part == self._at:
                await asyncio.sleep(self._seconds)
            await send(event)

        if self._at == "call":
            await asyncio.sleep(self._seconds)
        await forward(hold)


@contextlib.asynccontextmanager
async def interposed(
    wrap: Callable[[Any], Any], *, step: float = 0.2
) -> AsyncIterator[tuple[dict[str, Any], str, str]]:
    """Serve the bare agent with JSON-RPC alone behind another application; gives card, URL and the agent's own URL."""
    async with serve_faulty(None, "bare", transport="jsonrpc", step=step) as running:
        async with serve_app(wrap(running.app)) as url:
            card, _, _ = await fetch_card_async(running.url)
            assert card is not None
            yield {**card, "supportedInterfaces": [{**card["supportedInterfaces"][0], "url": url}]}, url, running.url


class Started(NamedTuple):
    """The URLs of an agent in a thread of its own."""

    url: str
    card_url: str


@contextlib.contextmanager
def start_faulty(*arguments: Any, **options: Any) -> Iterator[Started]:
    """Serve it in a thread of its own; the arguments are those of ``serve_faulty``."""
    with served_in_thread(lambda: serve_faulty(*arguments, **options)) as running:
        yield Started(running.url, running.url + CARD_PATH.lstrip("/"))
