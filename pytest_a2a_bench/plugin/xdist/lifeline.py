"""How a worker learns at once that its controller stops or died: a socket that closes, and the parent's process id.

xdist itself tells a busy worker nothing until its item is over, and a worker whose controller was killed lives on for
seconds: with a language model behind every turn that is money.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

_POLL = 0.2
_CONNECT_TIMEOUT = 5.0


class Lifeline:
    """The controller's end: a socket on the loopback interface, open as long as the run goes on.

    :param token: shown to whoever connects, so that a worker on another machine does not hang on to a stranger.
    """

    # The token tells our controller from whoever else listens on that port later.
    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._server = socket.create_server(("127.0.0.1", 0))
        self._held: list[socket.socket] = []
        self._lock = threading.Lock()
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, name="a2a-lifeline", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with suppress(OSError), self._lock:
                connection.sendall(self._token)
                self._held.append(connection)

    def cut(self) -> None:
        """Tell all workers to stop. Safe to call again."""
        # A thread that waits in accept() keeps a merely closed socket alive.
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        with self._lock:
            for connection in self._held:
                connection.close()
            self._held.clear()


def hold(port: int | None, token: str, on_cut: Callable[[], None], on_death: Callable[[], None]) -> None:
    """Watch the controller from a worker, in a thread.

    :param port: the lifeline's, or None where the controller is on another machine.
    :param on_cut: called once when the controller stops.
    :param on_death: called once when the process that started this one is gone.
    """
    # A controller that is killed cannot close anything, but its children get another parent.
    parent = os.getppid()
    line = _connect(port, token.encode()) if port is not None else None
    threading.Thread(
        target=_watch, args=(line, parent, on_cut, on_death), name="a2a-lifeline-watch", daemon=True
    ).start()


def _connect(port: int, token: bytes) -> socket.socket | None:
    try:
        line = socket.create_connection(("127.0.0.1", port), _CONNECT_TIMEOUT)
        if line.recv(len(token), socket.MSG_WAITALL) == token:
            # A short wait, so that the parent is looked at several times a second.
            line.settimeout(_POLL)
            return line
        line.close()
    except OSError:
        pass
    return None


def _watch(line: socket.socket | None, parent: int, on_cut: Callable[[], None], on_death: Callable[[], None]) -> None:
    while os.getppid() == parent:
        if line is None:
            time.sleep(_POLL)
        elif _is_cut(line):
            line.close()
            line = None
            on_cut()
    on_death()


def _is_cut(line: socket.socket) -> bool:
    try:
        return line.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True
