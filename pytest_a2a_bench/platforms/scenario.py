"""``scenario.toml`` as AgentBeats' runner reads it: where assessor and agents are, what starts them, what is asked."""

from __future__ import annotations

import tomllib
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_a2a_bench.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Party:
    """An assessor or an agent.

    :param role: what the request calls it; ``green_agent`` for the assessor.
    :param endpoint: its base URL.
    :param command: what starts it; empty where it runs already.
    :param identity: what a leaderboard calls it.
    """

    role: str
    endpoint: str
    command: str = ""
    identity: str = ""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario; a setting that is not there is empty."""

    green: Party | None = None
    participants: tuple[Party, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)


def read_scenario(path: Path) -> Scenario:
    """Read a file.

    :raises ConfigurationError: naming everything that is wrong with it.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not TOML: {error}") from error
    problems = list(_problems(content))
    if problems:
        raise ConfigurationError(f"{path}: {'; '.join(problems)}")
    green = content["green_agent"]
    return Scenario(
        Party("green_agent", green["endpoint"].rstrip("/"), green.get("cmd", ""), green.get("agentbeats_id", "")),
        tuple(
            Party(p["role"], p["endpoint"].rstrip("/"), p.get("cmd", ""), p.get("agentbeats_id", ""))
            for p in content["participants"]
        ),
        content.get("config", {}),
    )


def _problems(content: Mapping[str, Any]) -> Iterator[str]:
    green = content.get("green_agent")
    if not isinstance(green, dict):
        yield "there is no table [green_agent]"
    else:
        yield from _party_problems("green_agent", green, ("endpoint",))
    participants = content.get("participants")
    if not isinstance(participants, list) or not participants:
        yield "there is no table [[participants]]"
    else:
        for number, party in enumerate(participants):
            if isinstance(party, dict):
                yield from _party_problems(f"participants[{number}]", party, ("role", "endpoint"))
            else:
                yield f"participants[{number}] is not a table"
        roles = [p.get("role") for p in participants if isinstance(p, dict)]
        yield from (f"the role {role!r} is there twice" for role in {r for r in map(str, roles) if roles.count(r) > 1})
    if not isinstance(content.get("config", {}), dict):
        yield "config is not a table"


def _party_problems(where: str, party: Mapping[str, Any], needed: tuple[str, ...]) -> Iterator[str]:
    for name in needed:
        if not isinstance(party.get(name), str) or not party[name]:
            yield f"{where}.{name} is missing"
    for name in ("cmd", "agentbeats_id"):
        if not isinstance(party.get(name, ""), str):
            yield f"{where}.{name} is not a text"
    endpoint = party.get("endpoint")
    if isinstance(endpoint, str) and endpoint:
        yield from (f"{where}.endpoint {problem}" for problem in endpoint_problems(endpoint))


def endpoint_problems(endpoint: str) -> Iterator[str]:
    """Yield what keeps a text from being the base URL of a server."""
    try:
        parts = urllib.parse.urlsplit(endpoint)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good:
        yield f"is {endpoint!r}; expected a URL such as http://127.0.0.1:9009"
