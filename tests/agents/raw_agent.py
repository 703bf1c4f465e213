"""A raw TCP server that plays an agent which breaks the rules of HTTP, JSON or A2A on purpose."""

import contextlib
import itertools
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.turn import AgentReply
from pytest_a2a_bench.model import Part

MESSAGE = {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "fine"}], "contextId": "c"}}
"""A result that is a message."""
HELLO = [Part.of_text("hello")]


def task(state: str, **fields: Any) -> dict[str, Any]:
    return {"id": "t1", "contextId": "c1", "status": {"state": f"TASK_STATE_{state}"}, **fields}


DONE = task("COMPLETED", artifacts=[{"artifactId": "a", "parts": [{"text": "fine"}]}])


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Answer = bytes | Iterable[bytes] | None
Handler = Callable[[Request], Answer]


@dataclass
class RawAgent:
    """A running raw agent. ``handler`` answers all but the card; None as its answer resets the connection."""

    url: str
    handler: Handler
    card: dict[str, Any] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)

    @property
    def messages(self) -> list[Request]:
        """The requests other than those for the card."""
        return [r for r in self.requests if r.method == "POST"]


def response(body: bytes | str | Any, status: str = "200 OK", kind: str = "application/json", **headers: str) -> bytes:
    """Write an HTTP answer; anything but bytes and text is written as JSON.

    :param kind: the media type; none is named where it is empty.
    """
    payload = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    lines = {"Content-Type": kind, "Content-Length": str(len(payload))}
    lines |= {k.replace("_", "-"): v for k, v in headers.items()}
    written = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
    return f"HTTP/1.1 {status}\r\n{written}\r\n".encode() + payload


def stream_head(kind: str = "text/event-stream") -> bytes:
    """Begin an answer that ends when the connection closes."""
    return f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n".encode()


def event(result: Any, request: Request) -> bytes:
    return b"data: " + json.dumps({"jsonrpc": "2.0", "id": request.json["id"], "result": result}).encode() + b"\n\n"


def rpc(result: Any, request: Request) -> bytes:
    return response({"jsonrpc": "2.0", "id": request.json["id"], "result": result})


def rpc_error(code: int, message: str, request: Request, status: str = "200 OK") -> bytes:
    error = {"code": code, "message": message}
    return response({"jsonrpc": "2.0", "id": request.json["id"], "error": error}, status)


def scripted(*answers: Callable[[Request], Answer]) -> Handler:
    """Answer one request after another; the last answer is repeated."""
    turn = itertools.count()
    return lambda request: answers[min(next(turn), len(answers) - 1)](request)


def fine(request: Request) -> bytes:
    return rpc(MESSAGE, request)


def say(connection: AgentConnection) -> AgentReply:
    return connection.session().send(HELLO)


def nowhere() -> str:
    """Return a ``HOST:PORT`` where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def _read(stream: Any, connection: int) -> Request | None:
    first = stream.readline().decode().split()
    if not first:
        return None
    headers = {}
    while line := stream.readline().decode().strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return Request(first[0], first[1], headers, stream.read(int(headers.get("content-length", 0))), connection)


def _shake_hands(accepted: socket.socket, tls: ssl.SSLContext) -> socket.socket:
    """Begin TLS; a client that is refused is heard out, because a reset would overtake the reason."""
    connection = tls.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
    try:
        connection.do_handshake()
    except ssl.SSLError:
        with socket.socket(fileno=connection.detach()) as plain:
            plain.settimeout(60)
            plain.shutdown(socket.SHUT_WR)
            while plain.recv(65536):
                pass
        raise
    return connection


def _serve(accepted: socket.socket, number: int, agent: RawAgent, tls: ssl.SSLContext | None) -> None:
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        connection = stack.enter_context(accepted)
        if tls is not None:
            connection = _shake_hands(accepted, tls)
            stack.enter_context(connection)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = connection.makefile("rb")
        while (request := _read(stream, number)) is not None:
            agent.requests.append(request)
            is_card = request.method == "GET" and "/.well-known/" in request.path and agent.card
            answer = response(agent.card) if is_card else agent.handler(request)
            if answer is None:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                stream.close()
                return
            head = b""
            for chunk in [answer] if isinstance(answer, bytes) else answer:
                head = head or chunk
                connection.sendall(chunk)
            if b"Content-Length" not in head:
                connection.shutdown(socket.SHUT_WR)
                return


@contextlib.contextmanager
def raw_agent(
    handler: Handler, card: dict[str, Any] | None = None, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> Iterator[RawAgent]:
    """Serve a raw agent; by default its card is 1.0 with one JSON-RPC interface.

    :param host: what its URLs call this machine.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"{'http' if tls is None else 'https'}://{host}:{listener.getsockname()[1]}"
    interface = {"url": f"{url}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    agent = RawAgent(url, handler, {"name": "raw", "supportedInterfaces": [interface]} if card is None else card)

    def accept() -> None:
        number = 0
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                number += 1
                threading.Thread(target=_serve, args=(connection, number, agent, tls), daemon=True).start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield agent
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        # Were the listener closed first, this thread could accept for the next one, which has its descriptor then.
        accepting.join()
        listener.close()
