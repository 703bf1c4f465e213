"""What stands in a private network: an authority, servers that ask for certificates, a proxy, a token endpoint."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import datetime
import json
import re
import ssl
import urllib.parse
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import trustme
from a2a.types import a2a_pb2
from cryptography.hazmat.primitives import serialization
from in_thread import served_in_thread
from raw_agent import RawAgent, Request, fine, raw_agent, response
from raw_grpc import raw_grpc

from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.a2a.loop import run
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.conformance.target import Target
from pytest_a2a_bench.conformance.wire.http import open_wire
from pytest_a2a_bench.conformance.wire.reply import WireReply, WireRequest


def config_of(endpoint: str, environ: dict[str, str] | None = None, **settings: Any) -> ClientConfig:
    """Return what settings and an environment say of an agent, which is asked once."""
    config = ClientConfig.from_settings(Settings(endpoint=endpoint, timeout=20.0, **settings), environ or {})
    return dataclasses.replace(config, max_retries=0)


def ask(target: Target, *, auth: bool = True) -> WireReply:
    """Ask an interface as the judge of the protocol does."""

    async def call() -> WireReply:
        wire = open_wire(target)
        params = {"message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}
        try:
            return await wire.call(WireRequest("SendMessage", params, auth=auth))
        finally:
            await wire.close()

    return run(call())


@dataclass
class Place:
    """Files of an authority, and certificates that it signed.

    :param ca: file of the authority's certificate.
    :param cert: file of a client's certificate; ``key`` that of its key; ``locked`` that of its key with a passphrase.
    """

    directory: Path
    authority: trustme.CA
    ca: Path
    cert: Path
    key: Path
    locked: Path

    PASSPHRASE = "correct horse battery"

    @classmethod
    def at(cls, directory: Path) -> Place:
        authority = trustme.CA()
        client = authority.issue_cert("tester@example.com")
        paths = [directory / name for name in ("ca.pem", "client.pem", "client.key", "locked.key")]
        authority.cert_pem.write_to_path(paths[0])
        client.cert_chain_pems[0].write_to_path(paths[1])
        client.private_key_pem.write_to_path(paths[2])
        key = serialization.load_pem_private_key(client.private_key_pem.bytes(), None)
        encryption = serialization.BestAvailableEncryption(cls.PASSPHRASE.encode())
        locked = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        paths[3].write_bytes(locked)
        return cls(directory, authority, *paths)

    def server(self, *names: str, expired: bool = False, asks: bool = False) -> ssl.SSLContext:
        """Return what a server with a certificate of ours serves with.

        :param asks: whether clients have to show one, too.
        """
        issued = self._issue(*names, expired=expired)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        issued.configure_cert(context)
        if asks:
            context.verify_mode = ssl.CERT_REQUIRED
            self.authority.configure_trust(context)
        return context

    def _issue(self, *names: str, expired: bool = False) -> trustme.LeafCert:
        end = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=2) if expired else None
        begin = end - datetime.timedelta(days=7) if end else None
        return self.authority.issue_cert(*(names or ("localhost", "127.0.0.1")), not_before=begin, not_after=end)

    @contextlib.contextmanager
    def grpc_agent(
        self, *names: str, asks: bool = False, token: str = "", expired: bool = False
    ) -> Iterator[tuple[str, list[Any]]]:
        """Serve an agent over gRPC with TLS; gives its address and the metadata of each call."""
        issued = self._issue(*names, expired=expired)
        pair = (issued.private_key_pem.bytes(), b"".join(p.bytes() for p in issued.cert_chain_pems))
        credentials = grpc.ssl_server_credentials([pair], self.authority.cert_pem.bytes() if asks else None, asks)
        calls: list[Any] = []

        def answer(_: bytes, context: Any) -> bytes:
            calls.append(dict(context.invocation_metadata()))
            if token and calls[-1].get("authorization") != f"Bearer {token}":
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "who are you?")
            message = a2a_pb2.Message(message_id="m", role=a2a_pb2.ROLE_AGENT, parts=[a2a_pb2.Part(text="fine")])
            return bytes(a2a_pb2.SendMessageResponse(message=message).SerializeToString())

        with raw_grpc(answer, credentials) as address:
            yield address, calls


def grpc_card(address: str) -> dict[str, Any]:
    """Return the card of an agent that speaks gRPC alone."""
    interface = {"url": f"https://{address}", "protocolBinding": "GRPC", "protocolVersion": "1.0"}
    return {"name": "over gRPC", "supportedInterfaces": [interface]}


# -- a proxy --


@dataclass
class Proxy:
    """A forward proxy, which knows every host to be this machine.

    :param credentials: ``user:password`` that it wants.
    :param asked: what it was asked for: ``CONNECT host:port`` or ``POST http://host:port/path``.
    """

    credentials: str = ""
    url: str = ""
    asked: list[str] = field(default_factory=list)
    _open: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.append(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while await self._serve_one(reader, writer):
                pass
        writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, target, _ = head.partition("\r\n")[0].split()
        self.asked.append(f"{method} {target}")
        wanted = base64.b64encode(self.credentials.encode()).decode()
        if self.credentials and f"Basic {wanted}" not in head:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return False
        if method == "CONNECT":
            there, back = await asyncio.open_connection("127.0.0.1", int(target.rpartition(":")[2]))
            self._open.append(back)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(_copy(reader, back), _copy(there, writer))
            return False
        parts = urllib.parse.urlsplit(target)
        there, back = await asyncio.open_connection("127.0.0.1", parts.port or 80)
        lines = [line for line in head.split("\r\n") if not line.lower().startswith("proxy-")]
        back.write("\r\n".join([f"{method} {parts.path} HTTP/1.1", *lines[1:]]).encode() + await _body(head, reader))
        answer = await there.readuntil(b"\r\n\r\n")
        writer.write(answer + await _body(answer.decode(), there))
        back.close()
        return True

    async def close(self) -> None:
        """Close what is open, so that nobody waits for more."""
        for writer in self._open:
            writer.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)


async def _body(head: str, reader: asyncio.StreamReader) -> bytes:
    found = re.search(r"(?i)content-length: (\d+)", head)
    return await reader.readexactly(int(found[1])) if found else b""


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


def forward_proxy(credentials: str = "") -> AbstractContextManager[Proxy]:
    proxy = Proxy(credentials)

    @contextlib.asynccontextmanager
    async def serving() -> AsyncIterator[Proxy]:
        async with await asyncio.start_server(proxy.serve, "127.0.0.1", 0) as server:
            proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            yield proxy
            server.close()
            await proxy.close()

    return served_in_thread(serving)


# -- an authorization server and its agent --

CLIENT, SECRET = "bench", "s3cret-of-the-client"


@dataclass
class Authority:
    """A token endpoint, and an agent that wants its tokens.

    :param valid: the tokens that the agent takes.
    :param asked: the forms that were posted, with ``authorization``.
    :param refuse: an answer instead of a token.
    """

    valid: set[str] = field(default_factory=set)
    asked: list[dict[str, str]] = field(default_factory=list)
    refuse: bytes | None = None
    once: bool = False
    agent: RawAgent | None = None

    def issue(self, request: Request) -> bytes:
        form = dict(urllib.parse.parse_qsl(request.body.decode()))
        self.asked.append({**form, "authorization": request.headers.get("authorization", "")})
        basic = f"Basic {base64.b64encode(f'{CLIENT}:{SECRET}'.encode()).decode()}"
        known = self.asked[-1]["authorization"] == basic or form.get("client_secret") == SECRET
        if self.refuse is not None:
            return self.refuse
        if form.get("grant_type") != "client_credentials" or not known:
            return response({"error": "invalid_client", "error_description": "who is this?"}, "401 Unauthorized")
        token = f"access-token-number-{len(self.asked)}"
        self.valid.add(token)
        return response({"access_token": token, "token_type": "Bearer", "expires_in": 3600})

    def serve(self, request: Request) -> bytes:
        if request.path == "/token":
            return self.issue(request)
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token not in self.valid:
            return response({"detail": f"{token!r} is not valid"}, "401 Unauthorized")
        if self.once:
            self.valid.discard(token)
        return fine(request)


def oauth_card(url: str, token_url: str, scopes: Any = ("chat",)) -> dict[str, Any]:
    """Return the card of an agent that wants an access token."""
    flow = {"clientCredentials": {"tokenUrl": token_url, "scopes": {"chat": "talk", "admin": "more"}}}
    interface = {"url": f"{url}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    return {
        "name": "guarded",
        "supportedInterfaces": [interface],
        "securitySchemes": {"company": {"oauth2SecurityScheme": {"flows": flow}}},
        "securityRequirements": [{"schemes": {"company": {"list": list(scopes)}}}],
    }


@contextlib.contextmanager
def guarded_agent(authority: Authority, token_url: Callable[[str], str] = lambda url: f"{url}/token") -> Iterator[str]:
    """Serve an agent whose card names a token endpoint; gives its URL."""
    with raw_agent(authority.serve, {}) as agent:
        authority.agent = agent
        agent.card = json.loads(json.dumps(oauth_card(agent.url, token_url(agent.url))))
        yield agent.url
