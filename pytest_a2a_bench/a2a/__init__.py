"""The A2A client: one async core on a shared loop thread, with a small synchronous facade.

Requests are written and read by thin code of our own rather than through a2a-sdk's client: that one hides status
codes and ``Retry-After``, and cannot read every real server. Only gRPC borrows a2a-sdk's protobuf types.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.card import AgentCard, Interface, choose_interface, parse_card
    from pytest_a2a_bench.a2a.client import AgentConnection
    from pytest_a2a_bench.a2a.config import ClientConfig, Credentials
    from pytest_a2a_bench.a2a.session import AgentSession, HistoryEntry
    from pytest_a2a_bench.a2a.turn import AgentReply

__all__ = [
    "AgentCard",
    "AgentConnection",
    "AgentReply",
    "AgentSession",
    "ClientConfig",
    "Credentials",
    "HistoryEntry",
    "Interface",
    "choose_interface",
    "parse_card",
]

_HOMES = {
    "AgentCard": "card",
    "AgentConnection": "client",
    "AgentReply": "turn",
    "AgentSession": "session",
    "ClientConfig": "config",
    "Credentials": "config",
    "HistoryEntry": "session",
    "Interface": "card",
    "choose_interface": "card",
    "parse_card": "card",
}


def __getattr__(name: str) -> Any:
    """Import on first use: the client brings httpx along, which a run without an agent must not pay for."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
