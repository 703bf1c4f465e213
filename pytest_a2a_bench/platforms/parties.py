"""Where an assessor and the agents it assesses are: on the command line, or in a ``scenario.toml`` of AgentBeats."""

from __future__ import annotations

import dataclasses
import shlex
import tomllib
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator

from pytest_a2a_bench.agents.launcher import require_server
from pytest_a2a_bench.agents.options import parse_spec
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.platforms.process import free_port, own_command
from pytest_a2a_bench.settings import BUILTIN_PREFIX

CONTROLLER_PREFIX = "controller:"
ASSESSOR = "green_agent"


@dataclass(frozen=True, slots=True)
class Party:
    """The assessor or an agent.

    :param role: its name in the request.
    :param url: its base URL, or that of its controller; empty where it is started on a free port.
    :param words: command line that starts it; empty where it runs already.
    :param builtin: name of the built-in agent that the command starts.
    :param identity: its id on a leaderboard.
    """

    role: str
    url: str = ""
    words: tuple[str, ...] = ()
    builtin: str = ""
    is_controller: bool = False
    identity: str = ""

    @classmethod
    def read(cls, role: str, text: str, option: str) -> Party:
        """Read ``builtin:NAME``, ``controller:URL``, a URL, or a command line.

        :param option: the option that it was given by, for messages.
        :raises ConfigurationError: if it is none of them.
        """
        if text.startswith(BUILTIN_PREFIX):
            agent = parse_spec(text.removeprefix(BUILTIN_PREFIX))
            require_server(f"the built-in agent {agent.name!r}")
            agent = dataclasses.replace(agent, port=agent.port or free_port())
            url = f"http://127.0.0.1:{agent.port}"
            return cls(role, url, own_command("agent", *agent.to_argv()), builtin=agent.name)
        url = text.removeprefix(CONTROLLER_PREFIX)
        if url.startswith(("http://", "https://")):
            return cls(role, url.rstrip("/"), is_controller=text.startswith(CONTROLLER_PREFIX))
        return cls(role, words=_split(text, option))


@dataclass(frozen=True, slots=True)
class Scenario:
    """The content of a ``scenario.toml``."""

    assessor: Party
    agents: tuple[Party, ...]
    config: Mapping[str, Any] = field(default_factory=dict)


def read_scenario(path: Path) -> Scenario:
    """Read a file.

    :raises ConfigurationError: naming everything that is wrong with it.
    """
    try:
        content = _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise ConfigurationError(f"{path}: {'; '.join(problems)}") from error
    except ValueError as error:
        raise ConfigurationError(f"{path} is not TOML: {error}") from error
    return Scenario(_party(content.green_agent), tuple(map(_party, content.participants)), content.config)


def _base_url(text: str) -> str:
    parts = urllib.parse.urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError(f"{text!r} is not a URL such as http://127.0.0.1:9009")
    return text.rstrip("/")


class _Green(BaseModel):
    model_config = ConfigDict(strict=True)

    role: str = ASSESSOR
    endpoint: Annotated[str, AfterValidator(_base_url)]
    cmd: str = ""
    agentbeats_id: str = ""


class _Participant(_Green):
    role: str = Field(min_length=1)


class _File(BaseModel):
    model_config = ConfigDict(strict=True)

    green_agent: _Green
    participants: list[_Participant] = Field(min_length=1)
    config: dict[str, Any] = {}

    @field_validator("participants")
    @classmethod
    def _has_each_role_once(cls, found: list[_Participant]) -> list[_Participant]:
        roles = [one.role for one in found]
        if twice := {role for role in roles if roles.count(role) > 1}:
            raise ValueError(f"the role {', '.join(sorted(twice))} is there twice")
        return found


def _party(found: _Green) -> Party:
    words = _split(found.cmd, f"{found.role}.cmd") if found.cmd else ()
    return Party(found.role, found.endpoint, words, identity=found.agentbeats_id)


def _split(command: str, option: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise ConfigurationError(f"{option} {command!r} is no command line: {error}") from error
    if not words:
        raise ConfigurationError(f"{option} is empty; give builtin:NAME, a URL, controller:URL, or a command")
    return words
