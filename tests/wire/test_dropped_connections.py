"""A connection that nobody closed, and nobody refers to any more, leaves no socket behind."""

from __future__ import annotations

import gc
import os
import socket
import threading

import pytest

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.errors import CardError
from pytest_a2a_bench.settings import Settings

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
