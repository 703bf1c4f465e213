"""Where an assessor and the agents it assesses are: on the command line, or in a ``scenario.toml`` of AgentBeats."""

from __future__ import annotations

import dataclasses
import shlex
import tomllib
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from pytest_a2a_bench.agents.launcher import require_server
from pytest_a2a_bench.agents.options import parse_spec
from pytest_a2a_bench.config.settings import BUILTIN_PREFIX
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.platforms.process import free_port, own_command

CONTROLLER_PREFIX = "controller:"
ASSESSOR = "green_agent"


def _check_url(text: str) -> str:
    parts = urllib.parse.urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError(f"{text!r} is not a URL such as http://127.0.0.1:9009")
    return text.rstrip("/")


def _split(command: Any) -> tuple[str, ...]:
    if isinstance(command, tuple):
        return command
    if not isinstance(command, str):
        raise ValueError(f"{command!r} is not a valid string")
    return tuple(shlex.split(command))


class Party(BaseModel):
    """The assessor or an agent; the aliases are the names in a ``scenario.toml``.

    :param role: its name in the request.
    :param url: its base URL, or that of its controller; empty where it is started on a free port.
    :param words: command line that starts it; empty where it runs already.
    :param builtin: name of the built-in agent that the command starts.
    :param identity: its id on a leaderboard.
    """

    model_config = ConfigDict(frozen=True, strict=True, populate_by_name=True)

    role: str = Field(default=ASSESSOR, min_length=1)
    url: Annotated[str, AfterValidator(_check_url)] = Field(default="", validation_alias="endpoint")
    words: Annotated[tuple[str, ...], BeforeValidator(_split)] = Field(default=(), validation_alias="cmd")
    identity: str = Field(default="", validation_alias="agentbeats_id")
    builtin: str = ""
    is_controller: bool = False

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
            words = own_command("agent", *agent.to_argv())
            return cls(role=role, url=f"http://127.0.0.1:{agent.port}", words=words, builtin=agent.name)
        url = text.removeprefix(CONTROLLER_PREFIX)
        is_controller = url != text
        try:
            if is_controller or url.startswith(("http://", "https://")):
                return cls(role=role, url=_check_url(url), is_controller=is_controller)
            if not (words := _split(text)):
                raise ValueError("it is empty; give builtin:NAME, a URL, controller:URL, or a command")
        except ValueError as error:
            raise ConfigurationError(f"{option} {text!r}: {error}") from error
        return cls(role=role, words=words)


class _Assessor(Party):
    url: Annotated[str, AfterValidator(_check_url)] = Field(validation_alias="endpoint")


class _Agent(_Assessor):
    role: str = Field(min_length=1)


class Scenario(BaseModel):
    """The content of a ``scenario.toml``."""

    model_config = ConfigDict(frozen=True, strict=True)

    assessor: _Assessor = Field(validation_alias="green_agent")
    agents: tuple[_Agent, ...] = Field(validation_alias="participants")
    config: Mapping[str, Any] = {}

    @field_validator("agents", mode="before")
    @classmethod
    def _has_each_role_once(cls, found: Any) -> Any:
        roles = [str(one.get("role")) for one in found if isinstance(one, dict)] if isinstance(found, list) else []
        if not found:
            raise ValueError("expected at least one")
        if twice := {role for role in roles if roles.count(role) > 1}:
            raise ValueError(f"the role {', '.join(sorted(twice))} is there twice")
        return tuple(found) if isinstance(found, list) else found


def read_scenario(path: Path) -> Scenario:
    """Read a file.

    :raises ConfigurationError: naming everything that is wrong with it.
    """
    try:
        return Scenario.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise ConfigurationError(f"{path}: {'; '.join(problems)}") from error
    except ValueError as error:
        raise ConfigurationError(f"{path} is not TOML: {error}") from error
