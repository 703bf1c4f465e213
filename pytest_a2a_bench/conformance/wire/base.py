"""What every wire takes: one request, whatever the binding (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from pytest_a2a_bench.conformance.wire.reply import WireReply


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = _Unset()
"""Marks an argument that was not given, where None means something."""


class CannotExpressError(Exception):
    """A request has no form in this binding (protobuf has no field for it), so that nothing can be asked."""


@dataclass(frozen=True, slots=True)
class WireRequest:
    """One request, before it is spelled for a binding.

    :param operation: an operation's 1.0 name; on JSON-RPC any other method name goes out as it is.
    :param body: replaces what would be sent: bytes and text as they are, anything else as JSON.
    :param version_header: value of ``A2A-Version``; None leaves it out.
    :param rpc_id: the JSON-RPC id; by default a new number.
    :param until: reading of a stream stops, with ``ended`` False, after the first event for which this is true.
    :param on_event: called with each event as it comes.
    :param query: added to the URL's query (HTTP bindings).
    :param auth: whether to send the credentials.
    """

    operation: str
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    version_header: str | None = None
    body: Any = UNSET
    rpc_id: Any = UNSET
    stream: bool = False
    timeout: float = 10.0
    until: Callable[[Any], bool] | None = None
    on_event: Callable[[Any], None] | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    http_method: str = ""
    path: str | None = None
    auth: bool = True


class Wire(Protocol):
    """A connection to one interface."""

    # One method for every operation: what differs between bindings (verbs, paths, envelopes) is the wire's business, so
    # that a check is written once and asked on each of them.
    async def call(self, request: WireRequest) -> WireReply:
        """Send a request and read the answer; never raises for what the agent does.

        :raises CannotExpressError: if the binding has no form for the request.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
