"""The names by which users of each door set what a message advises: messages are written with pytest's options."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from pytest_a2a_bench.config.load import CORE
from pytest_a2a_bench.errors import A2ABenchError

_KEYS = tuple(setting.key for setting in CORE.values())
_OF_AGENT = frozenset(itertools.takewhile(lambda key: key != "suite", _KEYS))
# After a blank only a placeholder or a kind of value is one: other words go on with the sentence.
_VALUE = r"(?P<value>=[^\s,;()]+| (?:[A-Z][A-Z|:/.]*\b|(?:llm|a2a|builtin):\w+))?"
_NAMED = re.compile(rf"--a2a-(?P<set>set )?(?P<key>[a-z](?:[a-z0-9-]*[a-z0-9])?)(?![\w-]){_VALUE}")

_ASIDE = re.compile(r" \([^()]*--a2a-[^()]*\)")


@dataclass(frozen=True)
class Door:
    """A way to use the package.

    :param name: takes a match of a setting's name in a message, and returns what a user writes here.
    :param has: whether users set a setting here, by its key; advice in brackets about others is left out.
    """

    name: Callable[[re.Match[str]], str]
    has: Callable[[str], bool] = lambda key: True

    def words(self, text: str) -> str:
        """Return a message with the names that this door has for settings."""
        kept = _ASIDE.sub(
            lambda aside: aside[0] if all(self.has(m["key"]) for m in _NAMED.finditer(aside[0])) else "", text
        )
        return _NAMED.sub(self.name, kept)

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Let errors that leave the block name settings so."""
        try:
            yield
        except A2ABenchError as error:
            error.args = tuple(self.words(arg) if isinstance(arg, str) else arg for arg in error.args)
            raise


def of_command(options: Collection[str]) -> Door:
    """Return the door of a command: its own options, and ``--set KEY=VALUE`` for other settings of the agent.

    What else a message names is an option of pytest, whose runs the command is about.

    :param options: the command's, such as ``--scenarios``.
    """
    return _prefixed("--agent-a2a-" if "--agent-a2a-set" in options else "--", options)


def of_tau2(prefix: str, names: Collection[str]) -> Door:
    """Return the door of an agent in tau2's runner.

    :param prefix: of its options, such as ``--agent-a2a-``.
    :param names: of the settings that have an option.
    """
    return _prefixed(prefix, [f"{prefix}{name.replace('_', '-')}" for name in names])


def _prefixed(prefix: str, options: Collection[str]) -> Door:
    def name(match: re.Match[str]) -> str:
        key, value = match["key"], match["value"] or ""
        option = f"{prefix}{key.removeprefix('conformance-')}"
        if match["set"]:
            return f"{prefix}set {key}{value}"
        if option in options or key == "config":
            return f"{option}{value}"
        if key not in _OF_AGENT:
            return match[0]
        return f"{prefix}set {key}={value[1:]}" if value else key

    return Door(name)


def _naming(names: Mapping[str, str], otherwise: str) -> Door:
    """Return a door by its names, and what it says of a setting that has none here."""

    def name(match: re.Match[str]) -> str:
        value = match["value"] or ""
        return f"{names.get(match['key']) or otherwise.format(key=match['key'])}{' ' if value else ''}{value[1:]}"

    return Door(name, lambda key: key in names)


def _argument(match: re.Match[str]) -> str:
    value = match["value"] or ""
    return f"{match['key'].replace('-', '_')}{'=' if value else ''}{value[1:]}"


SCRIPT = Door(_argument)
"""Scripts that use tau2 as a library: settings are keyword arguments."""

_MEMBERS = (
    *("seed", "split", "max_steps", "max_errors", "concurrency", "timeout", "dialect", "tools", "tag_trials"),
    *("history", "protocol", "transport", "streaming", "user_retry", "retrieval", "strict", "wait", "redeliver"),
)
IN_REQUEST: Mapping[str, str] = {
    **{name.replace("_", "-"): name for name in _MEMBERS},
    **{f"crm-{name.replace('_', '-')}": name for name in ("scoring", "aided", "drift", "rot", "max_turns")},
    "crm-max-user-turns": "max_user_turns",
    "trials": "num_trials",
    "user": "user_llm",
    "auth-env": "agent_token",
    "shard": "shard_index",
}
"""Settings that callers of an assessor have -> members of their requests."""

OF_OPERATOR: Mapping[str, str] = {
    **{name: f"setting {name}" for name in ("tau2-data", "crm-data", "crm-org", "judge-llm", "mcp-bind", "mcp-url")},
    "results": "--results",
    "run-timeout": "--max-seconds",
    "trial-timeout": "--max-seconds",
}
"""Settings that the operator of an assessor has -> options and settings of ``a2a-bench assess``."""

REQUEST = _naming(
    {
        "resume": "the same request",
        **{key: f"the assessor's {option}" for key, option in OF_OPERATOR.items()},
        **{key: f"the request's {member}" for key, member in IN_REQUEST.items()},
    },
    "{key} (no setting of an assessor)",
)
"""Requests to an assessor."""

OF_TOOL: Mapping[str, str] = {"max-steps": "max_steps", "trials": "trials", "auth-env": "auth_token"}
"""Settings that the tools of the ADK agent take -> their arguments."""

OF_ADK: Mapping[str, str] = {
    **{name: name for name in ("crm-data", "crm-org", "judge-llm", "timeout", "concurrency", "results", "tag-trials")},
    "user": "user-llm",
}
"""Settings that the operator of the ADK agent has -> options of ``a2a-bench adk``, each with a variable."""

ADK = _naming(
    {
        "resume": "run_evaluation",
        **{key: f"A2A_ADK_{name.upper().replace('-', '_')}" for key, name in OF_ADK.items()},
        **{key: f"{argument} of run_evaluation" for key, argument in OF_TOOL.items()},
    },
    "{key} (no setting of this agent)",
)
"""People and agents that talk to the ADK agent."""
