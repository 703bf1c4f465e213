"""An agent's card as callers from elsewhere need it (pure): the controller's URLs in place of the agent's loopback."""

from __future__ import annotations

import ipaddress
import json
import urllib.parse
from typing import Any

from pytest_a2a_bench.a2a import network


def shown_card(body: bytes, public: str) -> bytes:
    """Return an answer that is a card, or a JSON-RPC result that is one, with loopback URLs below ``public``.

    As AgentBeats' gateway does it: the path stays, whatever the port was, and signatures are left out where anything
    changed, because they are of other addresses. Interfaces that HTTP cannot carry (gRPC) on loopback are left out,
    unless there are no others. What is no card is returned as it is.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return body
    card = value.get("result") if isinstance(value, dict) and "jsonrpc" in value else value
    if not isinstance(card, dict):
        return body
    places, changed = [card], False
    for name in ("supportedInterfaces", "additionalInterfaces"):
        if isinstance(entries := card.get(name), list):
            kept = [entry for entry in entries if not _is_local_grpc(entry)] or entries
            changed = changed or len(kept) < len(entries)
            card[name] = kept
            places += [entry for entry in kept if isinstance(entry, dict)]
    for place in places:
        url = _shown(place, public.rstrip("/"))
        changed = changed or url is not None
        place |= {"url": url} if url is not None else {}
    if not changed:
        return body
    card.pop("signatures", None)
    return json.dumps(value).encode()


def _shown(place: dict[str, Any], public: str) -> str | None:
    """Return what the URL of a card or an interface becomes; None where it stays."""
    url = place.get("url")
    parts = _split(url)
    if parts is None or parts.scheme not in ("http", "https") or not is_loopback(parts.hostname) or _is_grpc(place):
        return None
    # Agents that make their card from AGENT_URL know already where they are reached.
    if url == public or str(url).startswith((f"{public}/", f"{public}?")):
        return None
    return public + urllib.parse.urlunsplit(parts._replace(scheme="", netloc=""))


def _is_grpc(place: dict[str, Any]) -> bool:
    names = ("protocolBinding", "transport", "preferredTransport")
    return any(str(place.get(name, "")).upper() == "GRPC" for name in names)


def _is_local_grpc(entry: Any) -> bool:
    if not isinstance(entry, dict) or not _is_grpc(entry):
        return False
    url = entry.get("url")
    parts = _split(url if isinstance(url, str) and "://" in url else f"//{url}")
    return parts is not None and is_loopback(parts.hostname)


def _split(url: Any) -> urllib.parse.SplitResult | None:
    try:
        return urllib.parse.urlsplit(url) if isinstance(url, str) else None
    except ValueError:
        return None


def is_loopback(host: str | None) -> bool:
    """Return whether a host is this machine to its reader: loopback, or the wildcard of a server's socket."""
    name = (host or "").strip("[]")
    try:
        return network.is_loopback(name) or ipaddress.ip_address(name).is_unspecified
    except ValueError:
        return False
