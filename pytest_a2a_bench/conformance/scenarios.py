"""Scenarios: the prompts by which this agent behaves in a special way."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.text import reason_of

DEFAULT_PROMPT = "Hello"

SCENARIOS: Mapping[str, str] = {
    "default": "an ordinary request; the agent answers soon, best with a finished task",
    "task": "the agent answers with a task that it completes",
    "message": "the agent answers with a message, not with a task",
    "slow": "the agent works for two or three seconds",
    "input": "the agent asks a question (input-required)",
    "input_answer": "the answer to that question, after which the agent completes the task",
    "auth": "the agent asks for credentials (auth-required)",
    "reject": "the agent rejects the request",
    "fail": "the agent's task fails",
    "crash": "the agent's own code raises an exception",
    "file": "the agent returns a file (raw bytes)",
    "url": "the agent returns a part with a URL",
    "data": "the agent returns structured data",
    "large": "anything; a request of 10 MB is sent with it",
    "chunks": "the agent streams one artifact in several chunks",
    "other_token_env": "no prompt, but the environment variable with the token of a user who may not see the tasks",
}
"""Every key of a scenario file, and the behaviour of the agent that is sent that prompt."""


@dataclass(frozen=True, slots=True)
class Scenarios:
    """Prompts by key."""

    prompts: Mapping[str, str] = field(default_factory=dict)

    def get(self, key: str) -> str | None:
        """Return a prompt, or None; ``default`` and ``task`` always have one."""
        # Everybody has an ordinary request; special behaviour nobody can guess.
        found = self.prompts.get(key)
        if found is None and key in ("default", "task"):
            return self.prompts.get("default", DEFAULT_PROMPT)
        return found

    @property
    def other_token(self) -> str:
        """The other user's token, from the environment variable that ``other_token_env`` names; empty without one."""
        return os.environ.get(self.prompts.get("other_token_env", ""), "").strip()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets: that token, and the password in it if it is ``user:password``."""
        # Basic credentials leak by their password alone.
        return tuple(s for s in (self.other_token, self.other_token.partition(":")[2]) if s)


def missing_text(key: str) -> str:
    """Describe how to enable a scenario."""
    what = SCENARIOS.get(key, "special behaviour")
    return f'no prompt for the scenario {key!r} ({what}); give one with {key} = "..." in the file of --a2a-scenarios'


def load_scenarios(path: Path) -> Scenarios:
    """Read a TOML file: keys of :data:`SCENARIOS`, at top level or in a table ``[scenarios]``.

    :raises ConfigurationError: if it cannot be read, or has unknown keys or empty prompts; all are named.
    """
    try:
        table: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"scenarios {path}: cannot be read: {reason_of(error)}; give a TOML file") from error
    table = table.get("scenarios", table)
    if not isinstance(table, Mapping):
        raise ConfigurationError(f"scenarios {path}: found {type(table).__name__} for [scenarios], expected a table")
    unknown = sorted(set(table) - set(SCENARIOS))
    problems = [f"{key!r} is no scenario" for key in unknown]
    problems += [
        f"{key!r} is {value!r}, expected a prompt in quotes"
        for key, value in table.items()
        if key in SCENARIOS and not (isinstance(value, str) and value.strip())
    ]
    if problems:
        raise ConfigurationError(f"scenarios {path}: {'; '.join(problems)}; there are {', '.join(SCENARIOS)}")
    return Scenarios(dict(table))
