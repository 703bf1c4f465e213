"""Cards of the built-in agents: one interface for each binding and protocol version that is really served."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)

from pytest_a2a_bench import __version__
from pytest_a2a_bench.agents.brain import MODEL_ENV
from pytest_a2a_bench.agents.options import AgentOptions
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.config.settings import TAGGED_AGENTS, TAGGED_SKILL
from pytest_a2a_bench.listener import local_url

REST_PREFIX = "/rest"

_BINDINGS = {"jsonrpc": "JSONRPC", "rest": "HTTP+JSON", "grpc": "GRPC"}


class Addresses(NamedTuple):
    """Where the bindings are reached.

    :param http: base URL of JSON-RPC (at its root), REST (below :data:`REST_PREFIX`) and the card.
    :param grpc: URL of the gRPC port, or None where it is not served.
    """

    http: str
    grpc: str | None = None


def addresses(options: AgentOptions, http_port: int, grpc_port: int | None) -> Addresses:
    """Return the URLs for the ports that were really bound."""
    base = (options.card_url or local_url(options.host, http_port)).rstrip("/")
    return Addresses(base + "/", local_url(urlsplit(base).hostname or options.host, grpc_port) if grpc_port else None)


def build_card(options: AgentOptions, description: str, where: Addresses) -> AgentCard:
    """Write the card."""
    model = (options.model or os.environ.get(MODEL_ENV)) if options.name == "llm" else None
    urls = {"jsonrpc": where.http, "rest": where.http.rstrip("/") + REST_PREFIX, "grpc": where.grpc}
    is_tagged = options.name in TAGGED_AGENTS
    skill = AgentSkill(
        id=TAGGED_SKILL if is_tagged else "customer-service",
        name="Customer service with tools",
        description="Reads a policy and a list of tools, talks to the user and calls the tools"
        + (", as the reference solution of the task does that message metadata name." if is_tagged else "."),
        tags=["benchmark", *registry.BUILT_IN, "tool-calling"],
    )
    return write_card(
        # With another model it is another agent, and results must show which.
        name=f"pytest-a2a-bench {options.name}" + (f" ({model})" if model else ""),
        description=description,
        urls={_BINDINGS[transport]: url for transport in options.transports if (url := urls[transport])},
        versions=options.protocols,
        capabilities=AgentCapabilities(
            streaming=options.streaming, push_notifications=False, extended_agent_card=False
        ),
        skills=[skill],
        needs_token=bool(options.auth_env),
    )


def write_card(
    *,
    name: str,
    description: str,
    urls: Mapping[str, str],
    versions: Sequence[str],
    capabilities: AgentCapabilities,
    skills: Sequence[AgentSkill],
    needs_token: bool,
) -> AgentCard:
    """Write a card for something that is served at some URLs, in every version at each.

    :param urls: binding, as cards name it -> URL; the first is preferred.
    :param needs_token: whether callers must send a bearer token.
    """
    card = AgentCard(
        name=name,
        description=description,
        version=__version__,
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding=binding, protocol_version=version)
            for version in versions
            for binding, url in urls.items()
        ],
        capabilities=capabilities,
        default_input_modes=["text/plain", "application/json"],
        default_output_modes=["text/plain", "application/json"],
        skills=skills,
    )
    if needs_token:
        scheme = SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Bearer"))
        card.security_schemes["bearer"].CopyFrom(scheme)
        card.security_requirements.append(SecurityRequirement(schemes={"bearer": StringList()}))
    return card
