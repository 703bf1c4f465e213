"""Serving the faulty agent on every binding, with its fault."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.routing import Route

from pytest_a2a_bench.a2a.card import CARD_PATH, LEGACY_CARD_PATH
from pytest_a2a_bench.agents.faulty import old
from pytest_a2a_bench.agents.faulty.agent import FaultyAgent
from pytest_a2a_bench.agents.faulty.card import KEYS_PATH, Signer, build_card, extend_card
from pytest_a2a_bench.agents.faulty.catalogue import find_fault
from pytest_a2a_bench.agents.faulty.fault import NONE, Fault
from pytest_a2a_bench.agents.faulty.http import REST_PREFIX, Desk, JsonRpc, Rest
from pytest_a2a_bench.errors import ConfigurationError

if TYPE_CHECKING:
    from pytest_a2a_bench.agents.options import AgentOptions

_BINDINGS = {"jsonrpc": "JSONRPC", "rest": "HTTP+JSON", "grpc": "GRPC"}


def variant_of(options: AgentOptions, fault: Fault) -> str:
    """Return the variant to serve: the one asked for, else the one that the fault shows on."""
    return fault.variant if options.variant == "auto" else options.variant


def version_of(options: AgentOptions, fault: Fault) -> str:
    """Return the version to speak: the one asked for, else the fault's. One at a time: both are two agents.

    :raises ConfigurationError: if the fault is of the other one.
    """
    if options.protocol == "both" or fault is NONE:
        return "0.3" if options.protocol == "0.3" else fault.version
    if options.protocol != fault.version:
        raise ConfigurationError(
            f"built-in agent 'faulty': the fault {fault.name} is one of A2A {fault.version}, and --protocol is "
            f"{options.protocol}; leave that out"
        )
    return fault.version


def callers(token: str | None) -> dict[str, str]:
    """Return the callers' names by their tokens: the variable may hold several, with commas between them."""
    return {text.strip(): f"caller-{n}" for n, text in enumerate((token or "").split(",")) if text.strip()}


class FaultyServer:
    """What :func:`pytest_a2a_bench.agents.server.serve` puts on its ports.

    :param token: content of the variable that ``--auth-env`` names.
    """

    def __init__(self, options: AgentOptions, http_url: str, grpc_url: str | None, token: str | None) -> None:
        fault = find_fault(options.fault)
        variant = variant_of(options, fault)
        version = version_of(options, fault)
        if version == "0.3" and variant == "tenant":
            raise ConfigurationError("built-in agent 'faulty': 0.3 has no tenants; choose another --variant")
        if variant == "guarded" and not token:
            raise ConfigurationError(
                f"built-in agent 'faulty': variant guarded (fault {fault.name}) needs credentials; "
                "name the variable that holds its bearer tokens with --auth-env"
            )
        self.tokens: Mapping[str, str] = callers(token) if variant == "guarded" else {}
        base = http_url.rstrip("/")
        known = {"jsonrpc": base + "/", "rest": base + REST_PREFIX, "grpc": grpc_url}
        urls = {_BINDINGS[t]: url for t in options.transports if (url := known[t])}
        card = build_card(variant, urls)
        self._signer = Signer(fault) if variant == "signed" else None
        extended = extend_card(card) if variant == "guarded" and "no-extended" not in fault.switches else None
        step = options.latency or 0.2
        self.agent = FaultyAgent(fault, card, extended, step, version)
        self._bindings = tuple(urls)

    @property
    def app(self) -> Any:
        """The ASGI application."""
        return make_app(self.agent, self.tokens, self._bindings, self._signer)


def make_app(
    agent: FaultyAgent, tokens: Mapping[str, str], bindings: tuple[str, ...], signer: Signer | None = None
) -> Starlette:
    """Return the ASGI application."""
    card = json.loads(json.dumps(agent.card))
    card = agent.fault.card(old.card(card) if agent.version == "0.3" else card)
    desk = Desk(agent, tokens, signer.sign(card) if signer else card, signer.keys if signer else None)
    place = LEGACY_CARD_PATH if agent.on("old-place") else CARD_PATH
    routes = [Route(place, desk.card, methods=["GET"])]
    if signer:
        routes.append(Route(KEYS_PATH, desk.jwks, methods=["GET"]))
    if "JSONRPC" in bindings:
        routes.append(Route("/", JsonRpc(desk).handle, methods=["POST"]))
    if "HTTP+JSON" in bindings:
        verbs = ["GET", "POST", "DELETE", "PUT", "PATCH"]
        prefix = "" if agent.on("rest-at-root") else REST_PREFIX
        routes.append(Route(prefix + "/{path:path}", Rest(desk).handle, methods=verbs))
    return Starlette(routes=routes)
