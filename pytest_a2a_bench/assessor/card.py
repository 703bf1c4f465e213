"""The assessor's agent card: JSON-RPC at the base URL, REST below it, both in 1.0 and 0.3."""

from __future__ import annotations

from a2a.types import AgentCapabilities, AgentCard, AgentSkill

from pytest_a2a_bench.agents.card import write_card

REST_PREFIX = "/rest"
VERSIONS = ("1.0", "0.3")

_REQUEST = '{"participants": {"agent": "http://127.0.0.1:9019/"}, "config": {"domain": "%s", "num_tasks": 2}}'


def build_card(base: str, *, needs_token: bool) -> AgentCard:
    """Write the card.

    :param base: the URL at which callers reach the assessor.
    """
    root = base.rstrip("/")
    # AgentBeats' gateway puts its own address in the place of the card's, so 0.3 has to be spoken at the root.
    urls = {"JSONRPC": f"{root}/", "HTTP+JSON": f"{root}{REST_PREFIX}"}
    return write_card(
        name="pytest-a2a-bench assessor",
        description=(
            "Assesses an A2A agent: holds conversations of tau2-bench or CRMArena with it, or judges its card and "
            "protocol, and returns rewards with their intervals, errors apart from failures."
        ),
        urls=urls,
        versions=VERSIONS,
        capabilities=AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=False),
        skills=[
            _skill("tau2", "tau2-bench", "Customer service with tools, a policy and a simulated user.", "airline"),
            _skill("crmarena", "CRMArena", "Questions about a CRM org, answered by queries.", "mini"),
            _skill("conformance", "A2A conformance", "The agent's card and what it does on the wire.", "conformance"),
        ],
        needs_token=needs_token,
    )


def _skill(skill_id: str, name: str, description: str, domain: str) -> AgentSkill:
    return AgentSkill(
        id=skill_id,
        name=f"Assess with {name}",
        description=description,
        tags=["assessment", "benchmark", "green-agent", skill_id],
        examples=[_REQUEST % domain],
    )
