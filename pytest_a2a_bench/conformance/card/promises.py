"""What a card promises of each interface that it names (pure)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.conformance.card.document import as_list, as_object, as_text, objects
from pytest_a2a_bench.conformance.card.judge import card_versions
from pytest_a2a_bench.conformance.card.ledger import Path
from pytest_a2a_bench.conformance.card.shared import CORE_BINDINGS


@dataclass(frozen=True, slots=True)
class Promise:
    """One interface and what the card promises of it."""

    path: Path
    url: str
    binding: str
    version: str
    tenant: str
    card: Mapping[str, Any]

    @property
    def is_secured(self) -> bool:
        """Whether every request needs credentials."""
        name = "securityRequirements" if self.version == "1.0" else "security"
        alternatives = [as_object(r) for r in as_list(self.card.get(name))]
        if name == "securityRequirements":
            alternatives = [as_object(r.get("schemes")) for r in alternatives]
        return bool(alternatives) and all(alternatives)

    def name_task(self, member: str, task: str) -> Mapping[str, str]:
        """Return the parameters that name a task; gRPC's are resource names in 0.3."""
        if (self.version, self.binding) != ("0.3", "GRPC"):
            return {member: task}
        return {"parent" if member == "taskId" else "name": f"tasks/{task}"}

    def declares(self, capability: str) -> bool:
        """Tell whether a capability is declared."""
        if capability == "extendedAgentCard" and self.version == "0.3":
            return self.card.get("supportsAuthenticatedExtendedCard") is True
        return as_object(self.card.get("capabilities")).get(capability) is True

    def message(self) -> Mapping[str, Any]:
        """Return a harmless message in the version's own form."""
        text = "ping"
        common = {"messageId": str(uuid.uuid4())}
        if self.version == "1.0":
            return {**common, "role": "ROLE_USER", "parts": [{"text": text}]}
        if self.binding == "JSONRPC":
            return {**common, "kind": "message", "role": "user", "parts": [{"kind": "text", "text": text}]}
        return {**common, "role": "ROLE_USER", "content": [{"text": text}]}


def promises(card: Mapping[str, Any]) -> list[Promise]:
    """Return the interfaces of a card that can be asked; a card for both versions lists 0.3's among 1.0's."""
    found: list[Promise] = []

    def take(path: Path, url: Any, binding: Any, version: str, tenant: Any = "") -> None:
        known = [p for p in found if (p.url, p.binding, p.version) == (url, binding, version)]
        if as_text(url) and binding in CORE_BINDINGS and version in ("1.0", "0.3") and not known:
            found.append(Promise(path, url, binding, version, as_text(tenant), card))

    for i, entry in objects(card.get("supportedInterfaces")):
        version = ".".join(as_text(entry.get("protocolVersion")).split(".")[:2])
        take(("supportedInterfaces", i), entry.get("url"), entry.get("protocolBinding"), version, entry.get("tenant"))
    if "0.3" in card_versions(card):
        take(("url",), card.get("url"), card.get("preferredTransport", "JSONRPC"), "0.3")
        for i, entry in objects(card.get("additionalInterfaces")):
            take(("additionalInterfaces", i), entry.get("url"), entry.get("transport"), "0.3")
    return found
