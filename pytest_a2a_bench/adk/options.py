"""Settings of the ADK agent, from the environment (an agent's ``.env`` is read into it); and credentials for agents.

A model passes the name of a credential, and never sees the token. Each is bound to one origin, because a model reads
untrusted text (cards, results) that may ask it to send a token elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, ValidationError
from pydantic.dataclasses import dataclass

from pytest_a2a_bench.a2a.network import Guard
from pytest_a2a_bench.assessor.terms import Terms
from pytest_a2a_bench.config.load import ADK
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.redact import KnownSecret

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
_PORTS = {"http": 80, "https": 443}


class Credential(NamedTuple):
    """The name of an environment variable, and the one origin that its value may be sent to."""

    name: str
    origin: str


def read_credentials(text: str) -> tuple[Credential, ...]:
    """Read ``NAME@ORIGIN``, with blanks or commas between several.

    :raises ValueError: if one is something else; it is not repeated, for it might be a token.
    """
    found = []
    for word in text.replace(",", " ").split():
        name, _, url = word.partition("@")
        origin = origin_of(url)
        if not _NAME.fullmatch(name) or not origin:
            raise ValueError(
                "expected NAME@ORIGIN, such as SHOP_TOKEN@https://shop.example.com, with an environment variable's NAME"
            )
        found.append(Credential(name, origin))
    return tuple(found)


def origin_of(url: str) -> str:
    """Return ``scheme://host:port`` of a URL; empty where it has none."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return ""
    if parts.scheme not in _PORTS or not host:
        return ""
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}:{port or _PORTS[parts.scheme]}"


def choose_credential(name: str, endpoint: str, known: Sequence[Credential], environ: Mapping[str, str]) -> str | None:
    """Return the name of the variable to send to an endpoint; None for none.

    :param name: as a model passed it; empty for the only one of the endpoint's origin.
    :raises ConfigurationError: if it may not be sent there, or is not known. The message does not repeat the name.
    """
    mine = [one.name for one in known if one.origin == origin_of(endpoint)]
    if not name:
        return mine[0] if len(mine) == 1 and environ.get(mine[0]) else None
    if name not in {one.name for one in known}:
        raise ConfigurationError(
            "auth_token takes the name of a credential, never the credential itself (if one was passed, it has been "
            f"seen by a model: replace it); {_offer(known)}"
        )
    if name not in mine:
        bound = ", ".join(one.origin for one in known if one.name == name)
        raise ConfigurationError(
            f"the credential {name} may only be sent to {bound}, and {origin_of(endpoint) or 'this endpoint'} is not "
            f"that; the operator allows it with A2A_ADK_CREDENTIALS={name}@{origin_of(endpoint) or 'ORIGIN'}"
        )
    if not environ.get(name, "").strip():
        raise ConfigurationError(f"the environment variable {name} is not set; the operator sets it, and starts again")
    return name


def _offer(known: Sequence[Credential]) -> str:
    if not known:
        return "there are none; the operator adds one with A2A_ADK_CREDENTIALS=NAME@ORIGIN"
    return "there are " + ", ".join(f"{one.name} (for {one.origin})" for one in known)


def secrets_of(known: Sequence[Credential], environ: Mapping[str, str]) -> Iterator[KnownSecret]:
    """Yield the values, to be redacted in all output."""
    for one in known:
        if environ.get(one.name):
            yield KnownSecret(one.name, environ[one.name])


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
        """Read the settings; raises ConfigurationError naming everything that is wrong."""
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
    """Check the form of a model's name; raises ConfigurationError if it is neither Gemini's nor LiteLLM's."""
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
