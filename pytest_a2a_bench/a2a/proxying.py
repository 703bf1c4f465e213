"""Rules for an HTTP proxy before an agent: which requests fetch a card, and how its URLs are rewritten (pure)."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Callable
from typing import Any

from pytest_a2a_bench.a2a.card import CARD_PATH, LEGACY_CARD_PATH

Parts = urllib.parse.SplitResult

CARD_PATHS = (CARD_PATH, LEGACY_CARD_PATH, "/extendedAgentCard", "/v1/card")
CARD_METHODS = ("GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard")

NOT_FORWARDED = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade")
)
"""Headers of one connection (RFC 9110 §7.6.1)."""

NOT_REQUESTED = NOT_FORWARDED | {b"host", b"content-length", b"accept-encoding", b"expect"}
"""Headers of a request that a proxy does not forward: its client writes its own, and content must not be compressed."""


def rewrite_card(body: bytes, base: str, is_agent: Callable[[Parts], bool], *, proxied_only: bool = False) -> bytes:
    """Return a card, or a JSON-RPC response with one, whose URLs of the agent have the proxy's base URL.

    A URL keeps its path and query. The agent's gRPC interfaces are left out, because HTTP cannot carry them, and so are
    signatures, which would not match. A body that is no card, or has no URL of the agent, is returned as it is.

    :param base: base URL of the proxy.
    :param is_agent: whether a URL, split into its parts, leads to the agent.
    :param proxied_only: leave out every interface that requests reach around the proxy, too.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return body
    card = value.get("result") if isinstance(value, dict) and "jsonrpc" in value else value
    if not isinstance(card, dict):
        return body
    base, entries, changed = base.rstrip("/"), [card], False
    for name in ("supportedInterfaces", "additionalInterfaces"):
        if isinstance(found := card.get(name), list):
            kept = [entry for entry in found if _is_kept(entry, is_agent, proxied_only)]
            # A card without any interface is no card; that its only one cannot be reached is for the client to see.
            card[name] = kept if kept or proxied_only else found
            changed = changed or len(card[name]) < len(found)
            entries += [entry for entry in card[name] if isinstance(entry, dict)]
    for entry in entries:
        url = entry.get("url")
        parts = _split(url)
        if parts and parts.scheme in ("http", "https") and is_agent(parts) and not _is_grpc(entry):
            # An agent that makes its card from AGENT_URL shows the proxy's URL already.
            if url != base and not str(url).startswith((f"{base}/", f"{base}?")):
                entry["url"] = base + urllib.parse.urlunsplit(parts._replace(scheme="", netloc=""))
                changed = True
    if not changed:
        return body
    card.pop("signatures", None)
    return json.dumps(value).encode()


def _is_kept(entry: Any, is_agent: Callable[[Parts], bool], proxied_only: bool) -> bool:
    parts = _split(entry.get("url")) if isinstance(entry, dict) else None
    if parts is None:
        return not proxied_only
    if _is_grpc(entry):
        return not proxied_only and not is_agent(parts)
    # A relative URL is at the card's own origin.
    return not proxied_only or is_agent(parts) or not parts.netloc


def _is_grpc(entry: dict[str, Any]) -> bool:
    names = ("protocolBinding", "transport", "preferredTransport")
    return any(str(entry.get(name, "")).upper() == "GRPC" for name in names)


def _split(url: Any) -> Parts | None:
    """Split a URL; a gRPC target such as ``127.0.0.1:1`` has none but a network location."""
    if not isinstance(url, str):
        return None
    try:
        return urllib.parse.urlsplit(url if "/" in url else f"//{url}")
    except ValueError:
        return None
