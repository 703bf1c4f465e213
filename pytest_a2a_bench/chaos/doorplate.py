"""The agent's card with our addresses on it (pure)."""

from __future__ import annotations

import copy
import json
import urllib.parse
from collections.abc import Iterator
from typing import Any, NamedTuple

from pytest_a2a_bench.a2a.bodies import as_object, as_objects
from pytest_a2a_bench.a2a.card import AgentCard, GrpcTarget, parse_card, read_target
from pytest_a2a_bench.chaos.calls import read_json
from pytest_a2a_bench.errors import CardError


class Places(NamedTuple):
    """Where an agent's card sends its clients.

    :param origins: of HTTP, such as ``https://agent.example:8443``, the card's own first.
    :param targets: of gRPC.
    """

    origins: tuple[str, ...]
    targets: tuple[GrpcTarget, ...]


def find_places(card: AgentCard) -> Places:
    """Return every place that a card names, once."""
    interfaces = [(i.url, i.transport) for i in card.interfaces]
    origins = [origin for url, kind in interfaces if kind != "grpc" and (origin := origin_of(url))]
    targets = [read_target(url, card.url) for url, kind in interfaces if kind == "grpc"]
    return Places(tuple(dict.fromkeys([origin_of(card.url), *origins])), tuple(dict.fromkeys(targets)))


def origin_of(url: str) -> str:
    """Return scheme, host and port of an HTTP URL; the empty string for any other."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https"):
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}".lower()


class Doorplate:
    """Knows which of our addresses stands before which of the agent's.

    :param card_url: where the agent's card is; its relative URLs are resolved against this.
    :param origins: HTTP origin of the agent's, and ours.
    :param targets: gRPC address of the agent's, and ours, each ``host:port``.
    """

    def __init__(self, card_url: str, origins: dict[str, str], targets: dict[str, str]) -> None:
        self._card_url = card_url
        self._origins = origins
        self._targets = targets

    def rewrite(self, body: bytes) -> bytes:
        """Return an HTTP answer that is a card, or a JSON-RPC result that is one, with our addresses.

        What is neither is returned as it is. Signatures are left out, because they are of other addresses.
        """
        value = read_json(body)
        if not isinstance(value, dict):
            return body
        changed = copy.deepcopy(value)
        card = changed.get("result") if "jsonrpc" in changed else changed
        if not isinstance(card, dict):
            return body
        for place, binding in _sites(card):
            place["url"] = self._ours(place["url"], binding)
        if changed != value:
            card.pop("signatures", None)
        return json.dumps(changed).encode()

    def _ours(self, url: str, binding: Any) -> str:
        try:
            alone = {"supportedInterfaces": [{"url": url, "protocolBinding": binding, "protocolVersion": "1.0"}]}
            interface = parse_card(alone, self._card_url).interfaces[0]
        except CardError:
            return url
        if interface.transport == "grpc":
            ours = self._targets.get(read_target(interface.url, self._card_url).address)
            return url if ours is None else ours if "://" not in url else f"http://{ours}"
        ours = self._origins.get(origin_of(interface.url))
        if ours is None:
            return url
        parts = urllib.parse.urlsplit(interface.url)
        return ours + urllib.parse.urlunsplit(parts._replace(scheme="", netloc=""))


def _sites(card: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield every object of a card with an interface's URL, and the binding that it names."""
    found = [
        *((entry, entry.get("protocolBinding")) for entry in as_objects(card.get("supportedInterfaces"))),
        *((e, e.get("transport") or e.get("protocolBinding")) for e in as_objects(card.get("additionalInterfaces"))),
        (as_object(card), card.get("preferredTransport")),
    ]
    for place, binding in found:
        if isinstance(place.get("url"), str) and isinstance(place, dict):
            yield place, binding
