"""Whether there is an interface at all where the card says that there is one.

A server that fails or refuses is there; nobody at the address, a web server that has no such path, or one that speaks
another binding or version is not what the card names, and nothing more can be learned by asking further.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping

from pytest_a2a_bench.conformance.wire.exchange import is_late
from pytest_a2a_bench.conformance.wire.reply import WireReply

CARD_RULES: Mapping[str, str] = {"1.0": "CARD-007", "0.3": "V03-CARD-022"}
"""Version -> the requirement that a card breaks that names what is not there."""

_GRPC_UNIMPLEMENTED, _GRPC_UNAVAILABLE = 12, 14
# What web servers say of a path that leads nowhere; 401 and 403 are refusals, and 5xx is a server that is broken.
_NOWHERE = (301, 302, 303, 307, 308, 404, 405, 410, 501)


def absence(reply: WireReply) -> str:
    """Say why an answer to a good request shows that the interface is not there; empty where it does not show that."""
    exchange = reply.exchange
    if is_late(exchange):
        return ""
    if exchange.binding == "GRPC":
        return _grpc_absence(reply)
    if reply.status is None:
        return f"nobody answers: {reply.problem}" if reply.problem else ""
    if reply.status in _NOWHERE and not _says_a2a(reply):
        where = reply.headers.get("location", "")
        return f"HTTP {reply.status} from a server that has nothing there" + (
            f"; it points to {where}" if where else ""
        )
    if reply.status == 200 and reply.content_type == "text/html":
        return "a web page is there"
    if exchange.binding == "HTTP+JSON" and isinstance(reply.document, Mapping) and "jsonrpc" in reply.document:
        return "JSON-RPC is spoken there"
    return ""


def _grpc_absence(reply: WireReply) -> str:
    if reply.status == _GRPC_UNAVAILABLE or (reply.status is None and reply.problem):
        return f"nobody answers: {reply.problem or reply.describe()}"
    if reply.status == _GRPC_UNIMPLEMENTED and not (reply.error is not None and reply.error.name):
        return f"a gRPC server without A2A's service: {reply.describe()}"
    return ""


def _says_a2a(reply: WireReply) -> bool:
    """Tell whether a 404 is an agent's word for an unknown task, not a web framework's for an unknown path."""
    said = reply.document
    if reply.exchange.binding == "JSONRPC":
        return isinstance(said, Mapping) and ("error" in said or "result" in said)
    if not isinstance(said, Mapping):
        return False
    # Version 0.3 leaves the form open: its SDK says {"message": "Task not found"}. Frameworks only repeat the path.
    words = str(said).lower().replace(urllib.parse.urlsplit(reply.exchange.url).path.lower(), "")
    return bool({"error", "code", "status", "type", "title"} & set(said)) or "task" in words
