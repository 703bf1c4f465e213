"""Settings of the ADK agent, from the environment: ADK reads an agent's own ``.env`` into it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field, ValidationError
from pydantic.dataclasses import dataclass

from pytest_a2a_bench.a2a.network import Guard
from pytest_a2a_bench.adk.credentials import Credential, read_credentials
from pytest_a2a_bench.assessor.terms import Terms
from pytest_a2a_bench.config.doors import ADK
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError

DEFAULT_MODEL = "gemini-2.5-flash"
GEMINI = re.compile(r"(gemini|gemma)-|(models|projects)/")
"""Names of models that ADK calls itself; any other is called by LiteLLM."""

_LOOPBACK = ("127.0.0.0/8", "::1/128")


def _setting(default: Any, metavar: str, description: str, **limits: Any) -> Any:
    return Field(default, description=description, json_schema_extra={"metavar": metavar}, **limits)


def _read_ranges(given: Any) -> Any:
    words = tuple(given.replace(",", " ").split()) if isinstance(given, str) else given
    try:
        Guard.of(words)
    except ConfigurationError as error:
        raise ValueError(f"expected ranges of addresses ({error})") from None
    return words


def _read_credentials(given: Any) -> Any:
    return read_credentials(given) if isinstance(given, str) else given


@dataclass(frozen=True)
class AdkOptions:
    """The settings. ``A2A_ADK_MODEL`` is the variable of ``model``, and so on."""

    model: str = _setting(DEFAULT_MODEL, "MODEL", f"Its model: Gemini's or a LiteLLM name ({DEFAULT_MODEL})")
    results: Path = _setting(Path("a2a-evaluations"), "DIR", "Directory of the evaluations (a2a-evaluations)")
    credentials: Annotated[tuple[Credential, ...], BeforeValidator(_read_credentials)] = _setting(
        (),
        "NAME@ORIGIN",
        "Environment variables with agents' tokens, and the origin that each is for: SHOP_TOKEN@https://shop.example.com",
    )
    allow_cidr: Annotated[tuple[str, ...], BeforeValidator(_read_ranges)] = _setting(
        (), "RANGE", "Agents' addresses beside public ones and loopback"
    )
    user_llm: str | None = _setting(None, "MODEL", "Model of tau2's simulated user (none: it is scripted)")
    judge_llm: str | None = _setting(None, "MODEL", "Model that judges what a benchmark leaves to a judge")
    crm_data: str | None = _setting(None, "DIR", "CRMArena's own tasks and rows, as --a2a-crm-data takes them")
    crm_org: Literal["local", "salesforce"] = _setting(
        "local", "ORG", "Org that answers queries: local, the files of crm-data, or salesforce (SALESFORCE_* variables)"
    )
    concurrency: int = _setting(4, "N", "Conversations in flight in one evaluation (4)", gt=0)
    timeout: float = _setting(300.0, "SECONDS", "Most seconds for one turn of an agent (300)", gt=0)
    wait: float = _setting(5.0, "SECONDS", "Most seconds that get_evaluation_status waits for the end (5)", gt=0)
    tag_trials: bool = _setting(False, "on|off", "Tell the agent each task's name (off)")

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> AdkOptions:
        """Read the settings.

        :raises ConfigurationError: naming everything that is wrong.
        """
        values = {one.field: text for one in VARIABLES if (text := environ.get(one.name, "").strip())}
        try:
            found = cls(**values)  # type: ignore[arg-type]  # texts, which pydantic reads
        except ValidationError as error:
            raise ConfigurationError("; ".join(_explain(one, values) for one in error.errors())) from None
        check_model(found.model)
        return found

    def terms(self) -> Terms:
        """Return the assessor's terms: the person who talks to this agent is its operator."""
        return Terms(
            results=self.results.absolute(),
            per_caller=4,
            max_tasks=100_000,
            settings=Settings(
                concurrency=self.concurrency,
                timeout=self.timeout,
                judge_llm=self.judge_llm,
                benchmark_options={"crm_data": self.crm_data, "crm_org": self.crm_org},
            ),
            models=(self.user_llm,) if self.user_llm else (),
            agent_tokens={one.name: one.origin for one in self.credentials},
            guard=Guard.of([*_LOOPBACK, *self.allow_cidr]),
            builtin=True,
            door=ADK,
        )


class Variable(NamedTuple):
    """The environment variable of a setting, and its option of ``a2a-bench adk``."""

    field: str
    name: str
    option: str
    metavar: str
    help: str


VARIABLES = tuple(
    Variable(
        name,
        f"A2A_ADK_{name.upper()}",
        f"--{name.replace('_', '-')}",
        field.json_schema_extra["metavar"],
        field.description,
    )
    for name, field in AdkOptions.__pydantic_fields__.items()  # type: ignore[attr-defined]
)


def check_model(name: str) -> None:
    """Check the form of a model's name.

    :raises ConfigurationError: if it is neither Gemini's nor LiteLLM's.
    """
    if not GEMINI.match(name) and "/" not in name:
        raise ConfigurationError(
            f"A2A_ADK_MODEL is {name!r}; expected a model of Gemini (gemini-2.5-flash), LiteLLM's PROVIDER/NAME "
            "(openai/gpt-4.1, ollama_chat/qwen3)"
        )


def _explain(error: Any, values: Mapping[str, str]) -> str:
    name = str(error["loc"][0])
    # The text may be a credential, written there by mistake.
    given = "" if name == "credentials" else f" is {values[name]!r};"
    return f"A2A_ADK_{name.upper()}{given} {error['msg'].removeprefix('Value error, ')}"
