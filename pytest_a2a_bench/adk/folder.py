"""A directory of agents in ADK's own form, to be pointed at with ``adk run``, ``adk web`` and ``adk api_server``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from a2a.types import AgentCapabilities, AgentCard, AgentSkill
from google.protobuf.json_format import MessageToDict

from pytest_a2a_bench.agents.card import write_card
from pytest_a2a_bench.errors import ConfigurationError

EVALUATOR, WORKFLOW = "tau2_evaluator", "tau2_workflow"

_AGENT = '''"""{title}

Settings are in .env beside this file; a2a-bench adk new --help explains them.
"""

from pytest_a2a_bench.adk.{module} import {maker}

root_agent = {maker}()
'''

_AGENTS = {
    EVALUATOR: ("An agent to talk to about evaluations of A2A agents.", "agent", "make_evaluator"),
    WORKFLOW: (
        "Registers, selects, runs and interprets, in this order; asked with a JSON object.",
        "workflow",
        "make_workflow",
    ),
}

_SKILLS = {
    EVALUATOR: (
        "evaluate",
        "Evaluate an A2A agent",
        "Registers an agent, lists and chooses tasks of tau2-bench, CRMArena or the A2A protocol, runs them in the "
        "background, and interprets the results.",
        "Evaluate http://127.0.0.1:9019/ on three airline tasks about cancellations.",
    ),
    WORKFLOW: (
        "workflow",
        "Evaluate an A2A agent in fixed steps",
        "Takes a JSON object, and registers, selects, runs and interprets.",
        '{"endpoint": "http://127.0.0.1:9019/", "domain": "airline", "request": "cancellations", "count": 3}',
    ),
}


def card_of(name: str, url: str, *, needs_token: bool = False) -> AgentCard:
    """Return the agent card of one of the agents, with an interface for 1.0 and one for 0.3.

    :param url: where its JSON-RPC is answered.
    """
    skill_id, title, description, example = _SKILLS[name]
    tags = ["evaluation", "benchmark", "tau2-bench", "crmarena", "a2a"]
    return write_card(
        name=name,
        description=description,
        urls={"JSONRPC": url},
        versions=("1.0", "0.3"),
        # ADK keeps configurations of push notifications, and sends none.
        capabilities=AgentCapabilities(streaming=True),
        skills=[AgentSkill(id=skill_id, name=title, description=description, tags=tags, examples=[example])],
        needs_token=needs_token,
    )


def write(directory: Path, variables: Mapping[str, str], base: str) -> list[Path]:
    """Write the two agents, each with its settings and its card, and return the files.

    :param variables: settings, for ``.env``.
    :param base: URL at which ``adk api_server --a2a`` will answer.
    :raises ConfigurationError: if there is something in their place already, or it cannot be written.
    """
    there = [name for name in _AGENTS if (directory / name).exists()]
    if there:
        raise ConfigurationError(
            f"{directory} has {' and '.join(there)} already; name another directory, or change the .env in there"
        )
    files = []
    try:
        for name, (title, module, maker) in _AGENTS.items():
            place = directory / name
            place.mkdir(parents=True)
            texts = {
                "__init__.py": "from . import agent\n",
                "agent.py": _AGENT.format(title=title, module=module, maker=maker),
                ".env": "".join(f"{key}={_quoted(value)}\n" for key, value in variables.items()),
                "agent.json": json.dumps(MessageToDict(card_of(name, f"{base.rstrip('/')}/a2a/{name}")), indent=2)
                + "\n",
            }
            for file, text in texts.items():
                (place / file).write_text(text, encoding="utf-8")
                files.append(place / file)
    except OSError as error:
        raise ConfigurationError(f"{error.filename or directory} cannot be written: {error.strerror}") from error
    return files


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
