"""An agent's card as callers from elsewhere need it (pure): the proxy's URLs in place of the agent's loopback."""

from __future__ import annotations

import ipaddress
import json
import urllib.parse
from typing import Any

from pytest_a2a_bench.a2a import network
from pytest_a2a_bench.chaos.calls import read_json


def shown_card(body: bytes, public: str) -> bytes:
    """Return an answer that is a card, or a JSON-RPC result that is one, with loopback URLs below ``public``.

    As AgentBeats' gateway does it: the path stays, whatever the port was, and signatures are left out where anything
    changed, because they are of other addresses. Interfaces that HTTP cannot carry (gRPC) on loopback are left out,
    unless there are no others: a caller would look for them on its own machine. What is no card is returned as it is.
    """
    value = read_json(body)
    if not isinstance(value, dict):
        return body
    card = value.get("result") if "jsonrpc" in value else value
    if not isinstance(card, dict) or not _rewrite(card, public.rstrip("/")):
        return body
    card.pop("signatures", None)
    return json.dumps(value, ensure_ascii=False).encode()


def _rewrite(card: dict[str, Any], public: str) -> bool:
    """Change a card; tell whether anything was changed."""
    changed = _rewrite_url(card, public)
    for name in ("supportedInterfaces", "additionalInterfaces"):
        entries = card.get(name)
        if not isinstance(entries, list):
            continue
        kept = [entry for entry in entries if not _is_local_grpc(entry)]
        if kept and len(kept) < len(entries):
            card[name] = entries = kept
            changed = True
        for entry in entries:
            if isinstance(entry, dict) and not _is_local_grpc(entry):
                changed = _rewrite_url(entry, public) or changed
    return changed


def _rewrite_url(place: dict[str, Any], public: str) -> bool:
    url = place.get("url")
    parts = _split(url)
    if parts is None or parts.scheme not in ("http", "https") or not is_loopback(parts.hostname):
        return False
    if str(place.get("preferredTransport", "")).upper() == "GRPC":
        return False
    if parts.geturl().startswith((f"{public}/", f"{public}?")) or url == public:
        # Agents that make their card from AGENT_URL know already where they are reached.
        return False
    place["url"] = public + urllib.parse.urlunsplit(parts._replace(scheme="", netloc=""))
    return True


def _is_local_grpc(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    if str(entry.get("protocolBinding") or entry.get("transport") or "").upper() != "GRPC":
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
    """Tell whether a host is this machine to whoever reads it: loopback, or the wildcard of a server's socket."""
    name = (host or "").strip("[]")
    try:
        return network.is_loopback(name) or ipaddress.ip_address(name).is_unspecified
    except ValueError:
        return False
