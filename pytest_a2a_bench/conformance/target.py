"""The target of checks: one interface of one agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_a2a_bench.a2a.auth import authentication, explain_refusal
from pytest_a2a_bench.a2a.bodies import as_object, as_objects
from pytest_a2a_bench.a2a.card import parse_card
from pytest_a2a_bench.a2a.config import AuthParts, ClientConfig, may_receive
from pytest_a2a_bench.a2a.network import USUAL, Network
from pytest_a2a_bench.conformance.finding import BINDING_OF
from pytest_a2a_bench.conformance.protocol.operations import CAPABILITIES, OPERATIONS
from pytest_a2a_bench.conformance.scenarios import Scenarios
from pytest_a2a_bench.listener import BindAddress

if TYPE_CHECKING:
    from pytest_a2a_bench.conformance.wire.reply import WireReply


@dataclass(frozen=True, slots=True)
class Target:
    """One interface, and its agent's card.

    :param endpoint: as the user gave it; credentials stay at its origin.
    :param timeout: seconds for one answer.
    :param network: how it is reached; without our certificate where it must not see that.
    :param refusal: the message and advice for an agent that refuses its credentials.
    :param webhook: where the agent is to deliver push notifications; None for a loopback address.
    :param breadth: where a rule is tried: everywhere it holds (``full``), in the places that the catalogue names for
        every run (``standard``), or in one (``safe``).
    """

    endpoint: str
    card: Mapping[str, Any]
    version: str
    binding: str
    url: str
    tenant: str = ""
    scenarios: Scenarios = field(default_factory=Scenarios)
    timeout: float = 10.0
    webhook: BindAddress | None = None
    network: Network = USUAL
    auth: AuthParts = field(default_factory=AuthParts, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    refusal: str = ""
    breadth: str = "standard"

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """``capabilities`` of the card; an empty object where it has none."""
        return as_object(self.card.get("capabilities"))

    def declares(self, capability: str) -> bool:
        """Return whether the card declares ``streaming``, ``pushNotifications`` or ``extendedAgentCard``."""
        if capability == "extendedAgentCard" and self.card.get("supportsAuthenticatedExtendedCard") is True:
            return True
        return self.capabilities.get(capability) is True

    def member(self, capability: str) -> str:
        """Return the member of the card that declares a capability."""
        # 0.3 has it at the top of the card, 1.0 among the capabilities.
        is_old = self.version == "0.3" and capability == "extendedAgentCard"
        return "supportsAuthenticatedExtendedCard" if is_old else f"capabilities.{capability}"

    def offers(self, operation: str) -> bool:
        """Return whether the version has an operation, and the card the capability that it needs."""
        is_known = self.version != "0.3" or bool(OPERATIONS[operation].rpc03)
        return is_known and (operation not in CAPABILITIES or self.declares(CAPABILITIES[operation]))

    @property
    def wants_credentials(self) -> bool:
        """Whether the card says that every request must be authenticated."""
        # An empty alternative means that no credentials are one way to be served.
        return bool(self._alternatives) and all(self._alternatives)

    @property
    def names_no_credentials(self) -> bool:
        """Whether every alternative names an undeclared scheme, so that nobody can tell which credentials are meant."""
        known = as_object(self.card.get("securitySchemes"))
        return self.wants_credentials and all(
            isinstance(named, Mapping) and any(name not in known for name in named) for named in self._alternatives
        )

    @property
    def _alternatives(self) -> list[Any]:
        wanted = self.card.get("securityRequirements") or self.card.get("security")
        # 1.0's list has objects with schemes; 0.3's has the schemes themselves.
        every = wanted if isinstance(wanted, list) else [wanted] if wanted else []
        return [i.get("schemes", i) if isinstance(i, Mapping) else i for i in every]

    def is_refusal(self, reply: WireReply) -> bool:
        """Return whether an answer refuses the client, and not the request.

        Where the card wants no credentials, and none are sent, a JSON-RPC code that is in no table is a wrong code.
        """
        return reply.has_auth_status or (reply.is_refused and bool(self.auth or self.wants_credentials))

    @property
    def extensions(self) -> Mapping[str, bool]:
        """URIs of the extensions that the card declares, and whether each is required."""
        items = as_objects(self.capabilities.get("extensions"))
        return {str(item["uri"]): item.get("required") is True for item in items if item.get("uri")}

    @property
    def required_extensions(self) -> tuple[str, ...]:
        """URIs of the extensions that the agent requires; every request asks for them."""
        return tuple(uri for uri, is_required in self.extensions.items() if is_required)

    @property
    def extension_headers(self) -> dict[str, str]:
        """The header that asks for the required extensions, where there are any."""
        uris = self.required_extensions
        # The header lost its X- in 1.0.
        name = "X-A2A-Extensions" if self.version == "0.3" else "A2A-Extensions"
        return {name: ", ".join(uris)} if uris else {}

    @property
    def interfaces(self) -> tuple[tuple[str, str], ...]:
        """(binding, version) of all interfaces that the card declares."""
        return declared(self.card, self.endpoint)

    def __str__(self) -> str:
        return f"{self.binding} {self.version} at {self.url}"


def declared(card: Mapping[str, Any], endpoint: str = "") -> tuple[tuple[str, str], ...]:
    """Return (binding, version) of every interface that a card declares and that can be judged, once each."""
    interfaces = parse_card(card, endpoint).interfaces
    found = ((BINDING_OF.get(i.transport, ""), i.version) for i in interfaces)
    return tuple(dict.fromkeys((b, v) for b, v in found if b and v in ("1.0", "0.3")))


def targets_of(
    card: Mapping[str, Any],
    endpoint: str,
    *,
    config: ClientConfig | None = None,
    scenarios: Scenarios | None = None,
    timeout: float = 10.0,
    webhook: BindAddress | None = None,
    breadth: str = "standard",
) -> tuple[Target, ...]:
    """Return one target for each (binding, version) of a card: its first interface of that kind.

    :param config: gives credentials, allowed origins, certificates and proxies.
    :raises CardError: if the card names no interface.
    """
    config = config or ClientConfig(endpoint=endpoint)
    # Secrets of scenarios (a second user's token) are hidden as the main ones are.
    secrets = scenarios.secrets if scenarios is not None else ()
    parsed = parse_card(card, endpoint)
    found: dict[tuple[str, str], Target] = {}
    for interface in parsed.interfaces:
        binding = BINDING_OF.get(interface.transport)
        if binding is None or interface.version not in ("1.0", "0.3"):
            continue
        # Credentials go to the endpoint's own origin only: a card may name any address.
        is_trusted = may_receive(interface.url, config)
        auth = authentication(config, parsed) if is_trusted else AuthParts()
        target = Target(
            endpoint=endpoint,
            card=card,
            version=interface.version,
            binding=binding,
            url=interface.url,
            tenant=interface.tenant,
            scenarios=scenarios or Scenarios(),
            timeout=timeout,
            webhook=webhook,
            network=config.network if is_trusted else config.network.without_certificate(),
            auth=auth,
            secrets=(*config.secrets, *secrets),
            refusal=explain_refusal(interface.url, config, bool(auth)),
            breadth=breadth,
        )
        # The first of its kind, as a client that follows the card's order would take.
        found.setdefault((binding, interface.version), target)
    return tuple(found.values())
