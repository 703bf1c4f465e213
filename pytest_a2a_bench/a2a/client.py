"""A connection to one agent, shared by every conversation with it."""

from __future__ import annotations

import asyncio
import dataclasses
import time
import uuid
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from pytest_a2a_bench.a2a import loop
from pytest_a2a_bench.a2a.auth import authentication, explain_refusal, obtain
from pytest_a2a_bench.a2a.bodies import Meter, excerpt
from pytest_a2a_bench.a2a.card import (
    AgentCard,
    Interface,
    card_urls,
    choose_interface,
    in_either_version,
    load_card,
    narrow_to_endpoint,
    parse_card,
)
from pytest_a2a_bench.a2a.config import AuthParts, ClientConfig, may_receive
from pytest_a2a_bench.a2a.http import HttpEdge, HttpRequest, JsonRpcWire, RestWire
from pytest_a2a_bench.a2a.requests import Pace, RequestRecord, Tape, Wire
from pytest_a2a_bench.a2a.session import AgentSession
from pytest_a2a_bench.errors import (
    A2ABenchError,
    AuthenticationError,
    CardError,
    EndpointUnreachableError,
    MissingExtraError,
    ProtocolError,
    TransportError,
    TurnTimeoutError,
)
from pytest_a2a_bench.redact import hide_in_error, redact_url
from pytest_a2a_bench.text import waiting_for

_CARD_SECONDS = 30.0
"""Most seconds for a card, which is a small file: a server that takes longer is not going to answer."""

_REACH_SECONDS = 5.0
"""Most seconds for the first answer of the interface: an accepted connection is enough."""

_OF_ANOTHER_VERSION, _TASK_NOT_FOUND = (-32601, -32009), -32001

_READY_INTERVAL = 0.1
_READY_MAX_INTERVAL = 1.0


class AgentConnection:
    """Pooled connections to one agent, its card, and the interface chosen from it. Thread-safe.

    :param config: how to reach the agent.
    :param card: its card, where that is known already.
    :ivar pace: when messages of its conversations may leave.
    :ivar streams: whether messages are streamed; None for the card's word.
    """

    def __init__(self, config: ClientConfig, card: AgentCard | None = None) -> None:
        self.config = config
        self.streams: bool | None = {"on": True, "off": False}.get(config.streaming)
        self._card = card
        self.pace: Pace = Pace(config.rate, config.timeout)
        self._start()

    def _start(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._edge: HttpEdge | None = None
        self._wire: Wire | None = None
        self._old_wires: list[Wire] = []
        self._dropped: weakref.finalize[..., AgentConnection] | None = None
        self._lock = asyncio.Lock()

    # -- the card --

    def card(self) -> AgentCard:
        """Return the agent's card, fetched once.

        :raises CardError: if there is none, or it cannot be read.
        :raises InfrastructureError: if the agent cannot be reached or refuses us.
        """
        return self._card or loop.run(self._fetch_card_once())

    async def acard(self) -> AgentCard:
        """Like :meth:`card`, from any event loop."""
        if self._card is not None:
            return self._card
        return await loop.bridge(self._fetch_card_once())

    @property
    def card_if_known(self) -> AgentCard | None:
        """The card if it was fetched already."""
        return self._card

    def wait_until_ready(self, seconds: float | None = None) -> AgentCard:
        """Wait until the agent shows a card, there is the access token that it asks for, and its interface answers.

        An interface may be at another address than the card, such as behind a gateway. One request goes there, for a
        task that does not exist: whatever the agent answers, it is there.

        :param seconds: how long; the configuration's ``wait`` where None; 0 tries once.
        :raises InfrastructureError: the error of the last try.
        """
        with waiting_for(f"the agent at {redact_url(self.config.endpoint, query=False)}"):
            return loop.run(self._await_card(self.config.wait if seconds is None else seconds))

    async def await_until_ready(self, seconds: float | None = None) -> AgentCard:
        """Like :meth:`wait_until_ready`, from any event loop."""
        return await loop.bridge(self._await_card(self.config.wait if seconds is None else seconds))

    async def _await_card(self, seconds: float) -> AgentCard:
        is_new = self._card is None
        deadline = time.monotonic() + seconds
        delay = _READY_INTERVAL
        while True:
            try:
                card = await self._fetch_card_once()
                if self.config.has_credentials:
                    await obtain(self.config, card)
                if is_new:
                    await self._reach()
                return card
            except (TransportError, ProtocolError, CardError):
                if time.monotonic() + delay > deadline:
                    raise
            await asyncio.sleep(delay)
            delay = min(delay * 1.5, _READY_MAX_INTERVAL)

    async def _reach(self) -> None:
        try:
            wire = await self.wire()
        except A2ABenchError:  # the card names no interface that is wanted here, which is for others to say
            return
        record = RequestRecord("", wire.interface.url, meter=Meter(self.config.bounds))
        try:
            async with asyncio.timeout(min(_REACH_SECONDS, self.config.timeout)):
                await wire.get_task(str(uuid.uuid4()), record)
        except TransportError as error:
            # Connections fail, or a gateway has no agent behind it; any other answer is the agent's own.
            is_lost = isinstance(error, EndpointUnreachableError)
            if not (is_lost and await self.find_moved(wire)) and (is_lost or error.status_code in (502, 503, 504)):
                raise
        except ProtocolError as error:
            if error.code in _OF_ANOTHER_VERSION and (spoken := await self._spoken_instead(wire.interface)):
                source = "the agent card says; correct the card, or override it with --a2a-protocol " + spoken
                if self.config.protocol != "auto":
                    source = "--a2a-protocol says; leave that out"
                raise CardError(
                    f"{wire.interface.url} speaks A2A {spoken}, and not {wire.interface.version}, as {source}"
                ) from error
        except (TimeoutError, A2ABenchError):
            pass

    async def _spoken_instead(self, interface: Interface) -> str:
        """Ask an interface for an unknown task in the other version, and return that one if it is spoken."""
        other = replace(interface, version="1.0" if interface.version == "0.3" else "0.3")
        if self._card is None or other.transport == "grpc":
            return ""
        wire = self._open(other, self._authentication(self._card))
        try:
            await wire.get_task(str(uuid.uuid4()), RequestRecord("", other.url, meter=Meter(self.config.bounds)))
        except ProtocolError as error:
            return other.version if error.code == _TASK_NOT_FOUND else ""
        except A2ABenchError:
            pass
        return ""

    async def _fetch_card_once(self) -> AgentCard:
        self._enter_loop()
        async with self._lock:
            if self._card is None:
                try:
                    card = await self._fetch_card()
                    self._authentication(card)  # what it asks for is refused now, not in the first trial
                    self._card = card
                except A2ABenchError as error:
                    hide_in_error(error, self.config.secrets)
                    raise
            return self._card

    async def _fetch_card(self, headers: Mapping[str, str] = MappingProxyType({})) -> AgentCard:
        tried = []
        for url in card_urls(self.config.endpoint):
            status, body, found_at = await self._get(url, headers)
            if status < 300:
                card = load_card(body, found_at)
                meant = narrow_to_endpoint(card.raw, self.config.endpoint, found_at)
                return card if meant is card.raw else parse_card(meant, found_at)
            tried.append(f"{url}: HTTP {status}" + (f" {excerpt(body, 300)}" if body else ""))
            # Neither a refusal nor a failing server means that there is no card here, so the older path is not tried.
            if status in (401, 403):
                sent = bool(self._authentication(None)) and may_receive(url, self.config)
                raise AuthenticationError(f"{tried[-1]}; {explain_refusal(url, self.config, sent)}", refused=True)
            if status == 429 or status >= 500:
                raise TransportError(f"agent card at {tried[-1]}", status_code=status)
        raise CardError(
            f"no agent card found for {self.config.endpoint}; tried {'; '.join(tried)}; "
            "give the agent's base URL, or the URL of its card, as the endpoint"
        )

    async def _get(self, url: str, further: Mapping[str, str]) -> tuple[int, bytes, str]:
        """Fetch a card, within a time of its own: a turn's may be far too long for it."""
        seconds = min(_CARD_SECONDS, self.config.timeout, self.config.read_timeout or _CARD_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                return await in_either_version(
                    lambda headers: self._get_showing_token_if_asked(url, {**headers, **further}),
                    lambda answer: answer[0],
                    self.config.protocol,
                )
        except (TimeoutError, TurnTimeoutError) as error:
            raise EndpointUnreachableError(
                f"GET {url}: no answer within {seconds:g} s; check that the address is the "
                "agent's and that the agent is not stuck (--a2a-wait SECONDS keeps trying)"
            ) from error

    async def _get_showing_token_if_asked(self, url: str, version: Mapping[str, str]) -> tuple[int, bytes, str]:
        """Cards are public by rule, so the token is only shown to a server that asks for it."""
        request = HttpRequest("GET", url, headers={"Accept": "application/json", **version})
        answer = await self._edge_here().get(request)
        auth = self._authentication(None)
        if answer[0] in (401, 403) and auth:
            return await self._edge_here().get(HttpRequest("GET", url, headers=request.headers, auth=auth))
        return answer

    def _authentication(self, card: AgentCard | None) -> AuthParts:
        return authentication(self.config, card) if self.config.has_credentials else AuthParts()

    # -- conversations --

    def session(self, metadata: Mapping[str, Any] | None = None, tape: Tape | None = None) -> AgentSession:
        """Begin a conversation.

        :param metadata: goes with every message of it.
        :param tape: records it, or answers in place of the agent.
        """
        return AgentSession(self, metadata, tape)

    async def wire(self) -> Wire:
        """Return the wire to the chosen interface; runs on the shared loop."""
        self._enter_loop()
        if self._wire is None:
            card = await self._fetch_card_once()
            async with self._lock:
                if self._wire is None:
                    self._wire = self._make_wire(card)
        return self._wire

    async def find_moved(self, wire: Wire) -> str:
        """Read the card again, and return a note if it names another interface that may answer; empty if not.

        For a wire whose interface is gone. Later messages go to the interface that the card names now.
        """
        async with self._lock:
            if self._wire is not wire and self._wire is not None:  # found by another conversation
                return _moved(wire, self._wire)
            try:
                # A host that no longer answers must not use up the time of the turn.
                async with asyncio.timeout(min(_REACH_SECONDS, self.config.connect_timeout)):
                    # What a cache on the way has of it may be as old (§8.6.2, RFC 9111 §5.2.1.4).
                    card = await self._fetch_card({"Cache-Control": "no-cache"})
                # One that has moved, or else the next (§5.2).
                gone = wire.interface.url if self._choose(card) == wire.interface else ""
                found = self._make_wire(card, gone)
            except (A2ABenchError, TimeoutError):
                return ""
            if self._wire is not None:
                self._old_wires.append(self._wire)  # other conversations may still wait for answers on it
            note = _moved(wire, found)
            self._card, self._wire = dataclasses.replace(card, notes=(*card.notes, note)), found
            return note

    def _choose(self, card: AgentCard, gone: str = "") -> Interface:
        return choose_interface(card, self.config.protocol, self.config.transport, gone=gone)

    def _make_wire(self, card: AgentCard, gone: str = "") -> Wire:
        config = self.config
        interface = self._choose(card, gone)
        auth = self._authentication(card)
        if interface.transport == "grpc":
            try:
                from pytest_a2a_bench.a2a.grpc_wire import GrpcWire
            except ImportError as error:
                raise MissingExtraError("grpcio", "grpc", str(error)) from error
            return GrpcWire(config, interface, auth)
        return self._open(interface, auth)

    def _open(self, interface: Interface, auth: AuthParts) -> Wire:
        kind = JsonRpcWire if interface.transport == "jsonrpc" else RestWire
        return kind(self._edge_here(), interface, auth)

    # -- the end --

    def close(self) -> None:
        """Close all connections. Never raises; the object can be used again."""
        with suppress(Exception):
            if self._loop is not None:
                loop.run(self._close(), 5)

    async def aclose(self) -> None:
        """Like :meth:`close`, from any event loop."""
        await loop.bridge(self._close())

    async def _close(self) -> None:
        self._enter_loop()
        wires = [*self._old_wires, *([self._wire] if self._wire is not None else [])]
        self._wire, self._old_wires = None, []
        edge, self._edge = self._edge, None
        if self._dropped is not None:
            self._dropped.detach()
        for wire in wires:
            await wire.close()
        if edge is not None:
            await edge.close()

    def __enter__(self) -> AgentConnection:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _edge_here(self) -> HttpEdge:
        if self._edge is None:
            self._edge = HttpEdge(self.config)
            # A script that registers an agent (pytest_a2a_bench.tau2) has nothing that it could close.
            self._dropped = weakref.finalize(self, _close_later, asyncio.get_running_loop(), self._edge)
            self._dropped.atexit = False  # then the loop closes what is left
        return self._edge

    def _enter_loop(self) -> None:
        """Forget connections that belong to another loop: one that was shut down, or a forked process's parent's."""
        current = asyncio.get_running_loop()
        if self._loop is not current:
            self._start()
            self._loop = current
            loop.close_at_shutdown(self._close)


def _moved(old: Wire, new: Wire) -> str:
    return f"the interface is no longer at {old.interface.url}; the agent card names {new.interface.url} now"


def _close_later(of: asyncio.AbstractEventLoop, edge: HttpEdge) -> None:
    # The collector runs in any thread, the loop's among them, and must not wait for it.
    with suppress(RuntimeError):  # it has ended, and its connections with it
        of.call_soon_threadsafe(lambda: of.create_task(edge.close()))
