"""What one run is asked to do: a frozen value that every floor may read and none may change."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

PROTOCOLS = ("auto", "1.0", "0.3")
TRANSPORTS = ("auto", "jsonrpc", "rest", "grpc")
STREAMING = ("auto", "on", "off")
ORG_DIALECTS = ("crm_action", "execute_tags", "crm_entropic")
"""Dialects that can say nothing but a query and an answer: for the tasks about an org."""

DIALECTS = ("auto", "tool_call", "agentbeats", "sierra", "data", *ORG_DIALECTS)
SWITCHES = ("auto", "on", "off")
HISTORIES = ("delta", "full")
INCONCLUSIVE = ("pass", "fail")
USERS = ("auto", "scripted", "llm")
BUILTIN_AGENTS = ("oracle", "noop", "readonly", "llm", "solver", "faulty")

BUILTIN_PREFIX = "builtin:"


@dataclass(frozen=True, slots=True)
class Settings:
    """All options, resolved (command line over environment over ini over default).

    :param endpoint: base URL of the agent, or ``builtin:NAME``; None where none was given.
    :param endpoint_source: ``cli``, ``env``, ``ini`` or ``none``.
    :param suites: names given to ``--a2a-suite``.
    :param auth_env: name of the environment variable that holds the token; the token itself is never kept here.
    :param timeout: seconds for one whole turn.
    :param wait: seconds to wait until a freshly started agent answers.
    :param reply_limits: the bounds of a reply that differ from their defaults, by name (``Bounds.of``).
    :param env_file: file of environment variables for the language models' providers, as given.
    :param results: directory of result files, as given.
    :param html: file of the report page, as given.
    :param concurrency: conversations in flight in one process.
    :param strict: whether a SHOULD of the protocol that is not kept is a failure.
    :param waivers: file of known defects, as given; ``scenarios`` likewise the file of prompts.
    :param card_jwks: file or URL of the keys that verify the agent card's signatures.
    :param webhook_bind: ``HOST:PORT`` where push notifications are received; the agent calls it ``webhook_url``.
    :param resume: take results from earlier runs where they answer the same question.
    :param shard: the part of the selected trials to run, ``I/N`` counted from 1; None for all.
    :param record: directory that cassettes are written to.
    :param replay: directory of cassettes that stand in for the agent.
    :param markdown: file for the run's summary as Markdown.
    :param github: whether GitHub Actions gets a job summary and annotations.
    :param otel: whether trials are traced with OpenTelemetry.
    :param durations: where durations of earlier trials are, to balance shards by.
    :param trial_timeout: seconds for one whole trial; None for no limit.
    :param min_pass: lowest success rate by group; "" is all trials.
    :param min_pass_k: lowest pass^k by k (as text).
    :param baseline: file or directory of an earlier run, as given; ``quarantine`` likewise the file of flaky tasks.
    :param max_drop: how much lower than the baseline the success rate may be; None for the default.
    :param inconclusive: what a gate that cannot tell does to the run: ``pass`` or ``fail``.
    :param max_cost: dollars of all trials together.
    :param max_latency: seconds of a turn by percentile (as text).
    :param max_infra_errors: a number of trials, or as a float a share of them.
    :param missed: run only the trials that were misses in the last run.
    :param user: ``auto`` means llm where ``user_llm`` is given, else scripted.
    :param benchmark_options: what the benchmarks' own options came to, by name; each benchmark reads its own
        (``Suite.options``).
    """

    endpoint: str | None = None
    endpoint_source: str = "none"
    suites: tuple[str, ...] = ()
    auth_env: str = "A2A_AUTH_TOKEN"
    timeout: float = 300.0
    verify_ssl: bool = True
    protocol: str = "auto"
    transport: str = "auto"
    streaming: str = "auto"
    dialect: str = "auto"
    history: str = "delta"
    trials: int = 1
    seed: int = 300
    split: str = "base"
    max_steps: int = 200
    max_errors: int = 10
    user: str = "auto"
    user_llm: str | None = None
    user_llm_args: dict[str, Any] = field(default_factory=dict)
    judge_llm: str | None = None
    results: str = "a2a-results"
    html: str | None = None
    tag_trials: bool = False
    concurrency: int = 1
    trial_timeout: float | None = None
    wait: float = 0.0
    reply_limits: dict[str, float] = field(default_factory=dict)
    env_file: str | None = None
    min_pass: dict[str, float] = field(default_factory=dict)
    min_pass_k: dict[str, float] = field(default_factory=dict)
    baseline: str | None = None
    max_drop: float | None = None
    inconclusive: str = "fail"
    max_cost: float | None = None
    max_latency: dict[str, float] = field(default_factory=dict)
    max_infra_errors: float | None = None
    missed: bool = False
    quarantine: str | None = None
    strict: bool = False
    waivers: str | None = None
    scenarios: str | None = None
    card_jwks: str | None = None
    webhook_bind: str | None = None
    webhook_url: str | None = None
    resume: bool = False
    shard: str | None = None
    durations: str | None = None
    record: str | None = None
    replay: str | None = None
    markdown: str | None = None
    github: str = "auto"
    otel: str = "auto"
    benchmark_options: dict[str, Any] = field(default_factory=dict)

    @property
    def builtin(self) -> str | None:
        """The built-in agent's name (with what follows it), or None."""
        if self.endpoint and self.endpoint.startswith(BUILTIN_PREFIX):
            return self.endpoint.removeprefix(BUILTIN_PREFIX)
        return None

    @property
    def user_kind(self) -> str:
        """``llm`` or ``scripted``, with ``auto`` resolved."""
        if self.user == "auto":
            return "llm" if self.user_llm else "scripted"
        return self.user

    def to_json(self) -> str:
        """Return the settings as text, for a worker process."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """Read what :meth:`to_json` wrote."""
        data = json.loads(text)
        data["suites"] = tuple(data["suites"])
        return cls(**data)


def without_query(text: str, endpoint: str | None) -> str:
    """Return text without an endpoint's query, which may hold a key; a built-in agent's has only its options."""
    where, _, query = (endpoint or "").partition("?")
    if not query or where.startswith(BUILTIN_PREFIX):
        return text
    shown = text.replace(f"?{query}", "?...")
    return shown.replace(query, "...") if "=" in query else shown
