"""What an operator sets for the ADK agent, in the environment: ADK reads an agent's own ``.env`` into it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pytest_a2a_bench.a2a.guard import Guard
from pytest_a2a_bench.adk.credentials import Credential, read_credentials
from pytest_a2a_bench.assessor.terms import Terms
from pytest_a2a_bench.errors import ConfigurationError

DEFAULT_MODEL = "gemini-2.5-flash"

_LOOPBACK = ("127.0.0.0/8", "::1/128")


class Variable(NamedTuple):
    """One setting.

    :param option: of ``a2a-bench adk new``, without dashes.
    :param read: makes its value of a text; its ValueError says what was expected.
    """

    name: str
    option: str
    metavar: str
    help: str
    read: Callable[[str], Any]


def _number(text: str) -> float:
    value = float(text) if text.replace(".", "", 1).isdigit() else math.nan
    if not value > 0:
        raise ValueError("a number above 0")
    return value


def _whole(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise ValueError("a whole number above 0")
    return int(text)


def _switch(text: str) -> bool:
    if text.lower() not in ("on", "off", "1", "0", "true", "false"):
        raise ValueError("on or off")
    return text.lower() in ("on", "1", "true")


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


def _cidr(text: str) -> tuple[str, ...]:
    try:
        Guard.of(_words(text))
    except ConfigurationError as error:
        raise ValueError(f"ranges of addresses ({error})") from None
    return _words(text)


VARIABLES = (
    Variable("A2A_ADK_MODEL", "model", "MODEL", f"Its model: Gemini's or a LiteLLM name ({DEFAULT_MODEL})", str),
    Variable("A2A_ADK_RESULTS", "results", "DIR", "What evaluations leave (a2a-evaluations)", Path),
    Variable(
        "A2A_ADK_CREDENTIALS",
        "credentials",
        "NAME@ORIGIN",
        "Environment variables with agents' tokens, and whom each may be sent to: SHOP_TOKEN@https://shop.example.com",
        read_credentials,
    ),
    Variable("A2A_ADK_ALLOW_CIDR", "allow-cidr", "RANGE", "Agents' addresses beside public ones and loopback", _cidr),
    Variable("A2A_ADK_USER_LLM", "user-llm", "MODEL", "Model of tau2's simulated user (none: it is scripted)", str),
    Variable("A2A_ADK_JUDGE_LLM", "judge-llm", "MODEL", "Model that judges what a benchmark leaves to a judge", str),
    Variable("A2A_ADK_CRM_DATA", "crm-data", "DIR", "CRMArena's own tasks and rows, as --a2a-crm-data takes them", str),
    Variable("A2A_ADK_CONCURRENCY", "concurrency", "N", "Conversations in flight in one evaluation (4)", _whole),
    Variable("A2A_ADK_TIMEOUT", "timeout", "SECONDS", "Most seconds for one turn of an agent (300)", _number),
    Variable("A2A_ADK_WAIT", "wait", "SECONDS", "Most seconds that asking for the status waits (5)", _number),
    Variable("A2A_ADK_TAG_TRIALS", "tag-trials", "on|off", "Tell the agent each task's name (off)", _switch),
)  # fmt: skip
"""Every setting; ``a2a-bench adk new`` has an option for each."""


@dataclass(frozen=True, slots=True)
class AdkOptions:
    """The settings.

    :param model: of the agent itself.
    :param wait: seconds that a question for the status waits for the end, so that a model need not ask so often.
    """

    model: str = DEFAULT_MODEL
    results: Path = Path("a2a-evaluations")
    credentials: tuple[Credential, ...] = ()
    allow_cidr: tuple[str, ...] = ()
    user_llm: str | None = None
    judge_llm: str | None = None
    crm_data: str | None = None
    concurrency: int = 4
    timeout: float = 300.0
    wait: float = 5.0
    tag_trials: bool = False

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> AdkOptions:
        """Read them.

        :raises ConfigurationError: naming everything that is wrong.
        """
        values: dict[str, Any] = {}
        wrong = []
        for variable in VARIABLES:
            text = environ.get(variable.name, "").strip()
            if not text:
                continue
            try:
                values[variable.option.replace("-", "_")] = variable.read(text)
            except ValueError as error:
                # A credential's place may hold the credential: what was given is not repeated.
                given = "" if variable.read is read_credentials else f" is {text!r};"
                wrong.append(f"{variable.name}{given} expected {error}")
        if wrong:
            raise ConfigurationError("; ".join(wrong))
        return cls(**values)

    def terms(self) -> Terms:
        """Return them as the runner's: whoever talks to this agent is its operator."""
        return Terms(
            results=self.results.absolute(),
            per_caller=4,
            max_tasks=100_000,
            concurrency=self.concurrency,
            timeout=self.timeout,
            models=(self.user_llm,) if self.user_llm else (),
            judge_llm=self.judge_llm,
            guard=Guard.of([*_LOOPBACK, *self.allow_cidr]),
            builtin=True,
            crm_data=self.crm_data,
        )
