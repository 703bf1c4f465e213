"""What goes wrong between a client and an agent over gRPC, on purpose: a proxy of its frames."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Literal

Fault = Literal["reset", "cut", "hang"]
"""Each comes after the agent has answered: without its answer, after the answer's headers, or in silence."""

_HEADERS_FRAME = 1


class FaultProxy:
    """Stands before an agent's port, and hands bytes on until an answer begins that has a fault.

    :ivar port: where clients connect.
    :ivar connections: how many there were.
    """

    def __init__(self, target: int, choose: Callable[[int], Fault | None]) -> None:
        self._target = target
        self._choose = choose
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._answers = 0
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Refuse whatever comes next, and end what is held open."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        for held in self._open:
            _end(held)

    def _next(self) -> Fault | None:
        with self._lock:
            self._answers += 1
            return self._choose(self._answers)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.connections += 1
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.callback(_end, client)
            agent = socket.create_connection(("127.0.0.1", self._target))
            stack.callback(_end, agent)
            threading.Thread(target=_hand_on, args=(client, agent), daemon=True).start()
            buffer, seen = b"", set[bytes]()
            while data := agent.recv(65536):
                buffer += data
                while len(buffer) >= 9 and len(buffer) >= (size := 9 + int.from_bytes(buffer[:3], "big")):
                    frame, buffer = buffer[:size], buffer[size:]
                    stream = frame[5:9]
                    fault = None
                    if frame[3] == _HEADERS_FRAME and stream not in seen:
                        seen.add(stream)
                        fault = self._next()
                    if fault == "hang":
                        self._open += [client, agent]
                        stack.pop_all()
                        return
                    if fault != "reset":
                        client.sendall(frame)
                    if fault is not None:
                        return _reset(client)
        return None


def _hand_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    _end(target)


def _end(connection: socket.socket) -> None:
    """Close a socket for which another thread may wait, which close alone would not wake."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def _reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    # The thread that reads from it keeps the connection open otherwise.
    with contextlib.suppress(OSError):
        client.shutdown(socket.SHUT_RD)
    client.close()


@contextlib.contextmanager
def fault_proxy(target: int, choose: Callable[[int], Fault | None]) -> Iterator[FaultProxy]:
    """Put a proxy before a gRPC port of this machine.

    :param choose: what to do to the n-th answer, counted from 1.
    """
    proxy = FaultProxy(target, choose)
    try:
        yield proxy
    finally:
        proxy.close()
