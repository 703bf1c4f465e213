"""Write the agent's directory in ADK's layout, for ``adk run``, ``adk web`` and ``adk api_server``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from a2a.types import AgentCapabilities, AgentCard, AgentSkill
from google.protobuf.json_format import MessageToDict

from pytest_a2a_bench.agents.card import write_card
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.text import refusing

NAME = "tau2_evaluator"

_AGENT = '''"""An agent that evaluates A2A agents.

Settings are in .env beside this file; a2a-bench adk new --help explains them.
"""

from pytest_a2a_bench.adk.agent import make_evaluator

root_agent = make_evaluator()
'''

_SKILL = AgentSkill(
    id="evaluate",
    name="Evaluate an A2A agent",
    description=(
        "Registers an agent, lists and chooses tasks of tau2-bench, CRMArena or the A2A protocol, runs them in the "
        "background, and interprets the results."
    ),
    tags=["evaluation", "benchmark", "tau2-bench", "crmarena", "a2a"],
    examples=["Evaluate http://127.0.0.1:9019/ on three airline tasks about cancellations."],
)


def card_of(url: str, *, needs_token: bool = False) -> AgentCard:
    """Return the agent card, with an interface for 1.0 and one for 0.3.

    :param url: URL of its JSON-RPC interface.
    """
    return write_card(
        name=NAME,
        description=_SKILL.description,
        urls={"JSONRPC": url},
        versions=("1.0", "0.3"),
        # ADK keeps configurations of push notifications, and sends none.
        capabilities=AgentCapabilities(streaming=True),
        skills=[_SKILL],
        needs_token=needs_token,
    )


def write(directory: Path, variables: Mapping[str, str], base: str) -> None:
    """Write the agent, its settings and its card.

    :param variables: settings, for ``.env``.
    :param base: URL at which ``adk api_server --a2a`` will answer.
    :raises ConfigurationError: if there is something in its place already, or it cannot be written.
    """
    place = directory / NAME
    if place.exists():
        raise ConfigurationError(f"{directory} has {NAME} already; name another directory, or change the .env in there")
    card = MessageToDict(card_of(f"{base.rstrip('/')}/a2a/{NAME}"))
    texts = {
        "__init__.py": "from . import agent\n",
        "agent.py": _AGENT,
        ".env": "".join(f"{key}={_quoted(value)}\n" for key, value in variables.items()),
        "agent.json": json.dumps(card, indent=2) + "\n",
    }
    with refusing(f"{place} cannot be written"):
        place.mkdir(parents=True)
        for file, text in texts.items():
            (place / file).write_text(text, encoding="utf-8")


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
