"""What one fault is: a name, what it breaks, and the places where it puts its hand in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pytest_a2a_bench.agents.faulty.problems import Problem

Json = dict[str, Any]

RPC, REST, GRPC = ("JSONRPC",), ("HTTP+JSON",), ("GRPC",)
HTTP = (*RPC, *REST)
ALL = (*HTTP, *GRPC)

VARIANTS = ("full", "guarded", "bare", "strict", "tenant", "signed")
"""``full``: streaming and push, no credentials. ``guarded``: bearer tokens and an extended card. ``bare``: no optional
capability. ``strict``: an extension that every caller must know. ``tenant``: interfaces that want a tenant. ``signed``:
a signed card, whose key is served too."""


class Packet(NamedTuple):
    """An HTTP response, or the request of a push notification, just before it is sent."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class FaultyCall(NamedTuple):
    """One call that a fault looks at.

    :param version: the protocol version asked for, as it was written.
    """

    binding: str
    operation: str
    params: Json
    version: str = "1.0"


def _as_it_is(_: FaultyCall, value: Any) -> Any:
    return value


def _one(_: FaultyCall, __: int, event: Json) -> Iterable[Json]:
    return (event,)


@dataclass(frozen=True)
class Fault:
    """One defect. Without any hook it is the correct server.

    :param says: the defect in one sentence.
    :param breaks: ids of the requirements that it breaks.
    :param variant: the server that it shows on.
    :param bindings: the bindings that it is on.
    :param waive: violations of :mod:`validation` that are let through.
    :param switches: names that the agent's own code asks about.
    :param card: changes the published card.
    :param request: changes the parameters before they are looked at.
    :param reply: changes a result; gets a copy.
    :param event: returns what is sent in place of one event of a stream.
    :param error: changes an error, or makes a result of it.
    :param envelope: changes a JSON-RPC envelope, or a REST body of an error.
    :param packet: changes an HTTP response.
    :param card_packet: changes the response that carries the card.
    :param header: changes the protected header of the card's signature.
    :param signed: returns what is signed, of the card and of its form to sign.
    :param seal: changes the entry of the signature.
    :param delivery: changes a push notification, or swallows it.
    """

    name: str
    says: str
    breaks: tuple[str, ...]
    variant: str = "full"
    bindings: tuple[str, ...] = ALL
    waive: frozenset[str] = frozenset()
    switches: frozenset[str] = field(default_factory=frozenset)
    card: Callable[[Json], Json] = lambda card: card
    request: Callable[[FaultyCall, Json], Json] = _as_it_is
    reply: Callable[[FaultyCall, Any], Any] = _as_it_is
    event: Callable[[FaultyCall, int, Json], Iterable[Json]] = _one
    error: Callable[[FaultyCall, Problem], Problem | Json] = _as_it_is
    envelope: Callable[[FaultyCall, Json], Json] = _as_it_is
    packet: Callable[[FaultyCall, Packet], Packet] = _as_it_is
    card_packet: Callable[[Packet], Packet] = lambda packet: packet
    header: Callable[[Json], Json] = lambda header: header
    signed: Callable[[Json, Json], Json] = lambda card, plain: plain
    seal: Callable[[Json], Json] = lambda entry: entry
    delivery: Callable[[Packet], Packet | None] = lambda packet: packet


NONE = Fault("none", "A correct server.", ())
