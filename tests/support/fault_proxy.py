"""What goes wrong between a client and an agent, on purpose: a proxy of raw sockets for HTTP/1.1 and gRPC."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Literal

Fault = Literal[
    "reset before", "503 early", "429", "reset", "502", "503", "504", "503 retry", "cut", "hang", "hang before"
]
"""``before``, ``early`` and 429: the agent gets nothing. All others come after the agent has answered."""

BEFORE: tuple[Fault, ...] = ("reset before", "503 early", "429")
AFTER: tuple[Fault, ...] = ("reset", "502", "503", "504", "503 retry", "cut")
AFTER_GRPC: tuple[Fault, ...] = ("reset", "cut")

_REASONS = {"429": "Too Many Requests", "502": "Bad Gateway", "503": "Service Unavailable", "504": "Gateway Timeout"}
_HEADERS_FRAME = 1


class FaultProxy:
    """Stands before an agent's port.

    :ivar port: where clients connect.
    :ivar connections: how many there were.
    :ivar answers: how many messages came this far, counted before their fault is chosen.
    """

    def __init__(self, target: int, choose: Callable[[int], Fault | None], *, grpc: bool = False) -> None:
        self._target = target
        self._choose = choose
        self._grpc = grpc
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self.answers = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Refuse whatever comes next, and end what is held open."""
        self._listener.close()
        for held in self._open:
            held.close()

    def _next(self) -> Fault | None:
        with self._lock:
            self.answers += 1
            return self._choose(self.answers)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.connections += 1
                serve = self._serve_grpc if self._grpc else self._serve_http
                threading.Thread(target=serve, args=(client,), daemon=True).start()

    def _connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._target))

    # -- HTTP/1.1: one message each connection --

    def _serve_http(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            fault = self._next()
            if fault == "reset before":
                return _reset(client)
            request = _read_request(client)
            if fault == "429" or fault == "503 early":
                return _answer(client, fault[:3], retry=True)
            answer = self._ask(request)
            if fault is None:
                client.sendall(answer)
                client.close()
            elif fault == "reset":
                _reset(client)
            elif fault == "cut":
                client.sendall(answer[:-8])
                client.close()
            elif fault == "hang":
                self._open.append(client)
            else:
                _answer(client, fault[:3], retry=fault.endswith("retry"))
        return None

    def _ask(self, request: bytes) -> bytes:
        head, _, body = request.partition(b"\r\n\r\n")
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
        with self._connect() as agent:
            agent.sendall(b"\r\n".join([*lines, b"Connection: close"]) + b"\r\n\r\n" + body)
            return b"".join(iter(lambda: agent.recv(65536), b""))

    # -- gRPC: bytes are handed on until an answer begins that has a fault --

    def _serve_grpc(self, client: socket.socket) -> None:
        agent = self._connect()
        self._open.append(agent)
        up = threading.Thread(target=_hand_on, args=(client, agent), daemon=True)
        up.start()
        with contextlib.suppress(OSError):
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
                        self._open.append(client)
                        return
                    if fault is not None:
                        if fault == "cut":
                            client.sendall(frame)
                        return _reset(client)
                    client.sendall(frame)
        return None


def _hand_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.close()


def _read_request(client: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += client.recv(65536) or b"\r\n\r\n"
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [int(v) for k, _, v in (h.partition(b":") for h in head.split(b"\r\n")) if k.lower() == b"content-length"]
    while len(body) < sum(lengths):
        body += client.recv(65536)
    return head + b"\r\n\r\n" + body


def _answer(client: socket.socket, status: str, *, retry: bool) -> None:
    asked = "Retry-After: 0\r\n" if retry else ""
    client.sendall(f"HTTP/1.1 {status} {_REASONS[status]}\r\n{asked}Content-Length: 4\r\n\r\ndown".encode())
    client.close()


def _reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    # A thread that reads from it keeps the connection open otherwise.
    with contextlib.suppress(OSError):
        client.shutdown(socket.SHUT_RD)
    client.close()


@contextlib.contextmanager
def fault_proxy(target: int, choose: Callable[[int], Fault | None], *, grpc: bool = False) -> Iterator[FaultProxy]:
    """Put a proxy before a port of this machine.

    :param choose: what to do to the n-th message, counted from 1.
    """
    proxy = FaultProxy(target, choose, grpc=grpc)
    try:
        yield proxy
    finally:
        proxy.close()
