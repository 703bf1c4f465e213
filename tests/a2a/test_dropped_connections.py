"""A connection that nobody closed, or that was given up while it was made, leaves no socket behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.a2a.network import USUAL
from pytest_a2a_bench.a2a.transport import open_client
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import CardError

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class Server:
    """Answers one request after the other, and keeps the connection until the other side closes it."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.was_closed = threading.Event()
        self.answered = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with self.listening, self.listening.accept()[0] as connection:
            while connection.recv(65536):
                self.answered += 1
                connection.sendall(ANSWER)
            self.was_closed.set()


@pytest.mark.parametrize("in_a_cycle", [False, True])
def test_what_is_dropped_is_closed(in_a_cycle: bool) -> None:
    server = Server()
    settings = Settings(endpoint=f"http://127.0.0.1:{server.listening.getsockname()[1]}")
    connection = AgentConnection(ClientConfig.from_settings(settings, os.environ))
    with pytest.raises(CardError):
        connection.card()
    assert server.answered
    assert not server.was_closed.is_set()
    if in_a_cycle:
        connection.itself = connection  # type: ignore[attr-defined]
    del connection
    # What is left to the collector is warned of here, and pytest makes an error of that.
    gc.collect()
    assert server.was_closed.wait(60)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_what_is_given_up_while_it_connects_is_closed(host: str) -> None:
    """At whichever step of the event loop that happens."""

    async def give_up(port: int, steps: int) -> None:
        async with open_client(USUAL) as client:
            asking = asyncio.create_task(client.get(f"http://{host}:{port}/"))
            for _ in range(steps):
                await asyncio.sleep(0)
            if steps > 20:
                await asyncio.sleep((steps - 20) / 2000)  # a name is looked up in a thread
            asking.cancel()
            await asyncio.wait([asking])

    async def give_up_at_each_step(port: int) -> None:
        for steps in range(40):
            await give_up(port, steps)

    with socket.create_server(("127.0.0.1", 0), backlog=100) as listening, warnings.catch_warnings():
        warnings.simplefilter("error")  # pytest makes a failure of what the collector cannot raise
        asyncio.run(give_up_at_each_step(listening.getsockname()[1]))
        gc.collect()


@contextlib.contextmanager
def full(host: str, port: int) -> Iterator[None]:
    """Listen at an address, and leave connections waiting there until further ones get no answer."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(socket.create_server((host, port), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex((host, port))
        yield


def test_an_address_that_refuses_or_is_silent_keeps_nobody_from_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    look_up = socket.getaddrinfo
    refusing, silent, answering = "127.0.0.3", "127.0.0.2", "127.0.0.1"
    addresses: list[str] = []

    def known(host: str | bytes, port: int, *arguments: Any, **named: Any) -> Any:
        if host not in ("several.test", b"several.test"):
            return look_up(host, port, *arguments, **named)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", known)

    async def get(port: int) -> int:
        async with open_client(USUAL, timeout=60) as client:
            return (await client.get(f"http://several.test:{port}/")).status_code

    for first in (refusing, silent):
        server = Server()
        port = server.listening.getsockname()[1]
        with full(silent, port):
            addresses[:] = [first, answering]
            assert asyncio.run(get(port)) == 200
        assert server.was_closed.wait(60)
    addresses[:] = [refusing, refusing]
    with pytest.raises(httpx.ConnectError, match=r"Connect|refused|failed"):
        asyncio.run(get(port))
