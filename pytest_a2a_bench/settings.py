"""What one run is asked to do: a frozen value that every floor may read and none may change."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pytest_a2a_bench.secret import KnownSecret, SecretUrl, in_url

PROTOCOLS = ("auto", "1.0", "0.3")
TRANSPORTS = ("auto", "jsonrpc", "rest", "grpc")
STREAMING = ("auto", "on", "off")
DIALECTS = ("auto", "tool_call", "agentbeats", "sierra", "data", "crm_action", "execute_tags", "crm_entropic")
SWITCHES = ("auto", "on", "off")
CHECK_PROFILES = ("safe", "standard", "full")
"""Which checks of the protocol a run makes, from the fewest to all."""
OAUTH_METHODS = ("basic", "post")
AUTH_ENV = "A2A_AUTH_TOKEN"
"""The environment variable that holds the agent's token where none is named; it need not be set."""
HISTORIES = ("delta", "full")
TOOLS = ("text", "mcp")
INCONCLUSIVE = ("signs", "fail", "pass")
USERS = ("auto", "scripted", "llm")
BUILTIN_AGENTS = ("oracle", "noop", "readonly", "llm", "echo")
TAGGED_AGENTS = ("oracle", "readonly")
"""Built-in agents that play the gold, and so have to be told which task they are asked."""

BUILTIN_PREFIX = "builtin:"
AGENT_PREFIX = "a2a:"
"""What stands before the URL of an A2A agent that plays the user."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All options, resolved (command line over environment over ini over default).

    :param endpoint: base URL of the agent, or ``builtin:NAME``; None where none was given.
    :param agents: endpoints by name, where they have names; ``endpoint`` is then the first of them.
    :param agent: the name of the only one that these settings are about (:meth:`of_agent`).
    :param transfer: the name of the agent that takes over a conversation when another transfers it.
    :param endpoint_source: ``cli``, ``env``, ``ini`` or ``none``.
    :param suites: names given to ``--a2a-suite``.
    :param auth_env: name of the environment variable that holds the token; None for ``A2A_AUTH_TOKEN``, which need not
        be set. The token itself is never kept here.
    :param timeout: seconds for one whole turn.
    :param stall_timeout: most seconds of silence within a streamed answer that has begun.
    :param redeliver: how often a conversation is held again whose message may have been delivered without an answer.
    :param ca: file of certificates that are trusted beside the usual ones, or ``system``.
    :param client_cert: file of the certificate that we show, ``client_key`` that of its key; ``client_key_env`` and
        ``client_passphrase_env`` name environment variables.
    :param proxy: URL of the proxy for all requests to the agent, ``env`` or ``none``.
    :param tools: how the agent calls tools: ``text``, in its answers, or ``mcp``, by itself.
    :param mcp_bind: ``HOST:PORT`` where it does; it calls that ``mcp_url``.
    :param oauth_client_id_env: name of the environment variable that holds the id of the OAuth 2 client;
        ``oauth_client_secret_env`` likewise its secret.
    :param oauth_token_url: where tokens are asked for; None leaves it to the card.
    :param wait: seconds to wait until a freshly started agent answers.
    :param reply_limits: the bounds of a reply that differ from their defaults, by name (``Bounds.of``).
    :param env_file: file of environment variables for the language models' providers, as given.
    :param results: directory of result files, as given.
    :param html: file of the report page; ending in a slash, directory of it.
    :param live: port of the page that shows the run while it goes on, 0 for any free one; None for no such page.
    :param report: name of a reporter of others -> the file that it writes.
    :param concurrency: conversations in flight in all processes together.
    :param rate: most messages to an agent in a second, of all processes together; None for any number.
    :param strict: whether a SHOULD of the protocol that is not kept is a failure.
    :param waivers: file of known defects, as given; ``scenarios`` likewise the file of prompts, ``acts`` the
        tests in ACTS' form, and ``acts_behaviors`` the file of what the agent knows of them.
    :param card_jwks: file or URL of the keys that verify the agent card's signatures.
    :param webhook_bind: ``HOST:PORT`` where push notifications are received; the agent calls it ``webhook_url``.
    :param conformance_profile: which checks of the protocol are made, one of :data:`CHECK_PROFILES`.
    :param resume: take results from earlier runs where they answer the same question.
    :param shard: the part of the selected trials to run, ``I/N`` counted from 1; None for all.
    :param record: directory that cassettes are written to.
    :param replay: directory of cassettes that stand in for the agent.
    :param markdown: file for the run's summary as Markdown.
    :param github: whether GitHub Actions gets a job summary and annotations.
    :param otel: whether trials are traced with OpenTelemetry.
    :param durations: where durations of earlier trials are, to balance shards by.
    :param ray: address of the Ray cluster whose nodes run the workers; None for this machine.
    :param ray_cpus: CPUs that each reserves; ``ray_env`` names the environment variables that they get.
    :param ray_runtime_env: JSON file of Ray's ``runtime_env``.
    :param ray_wait: seconds until there is room for a worker.
    :param trial_timeout: seconds for one whole trial; 0 for no limit.
    :param run_timeout: seconds after which no trial begins and none goes on; None for no limit.
    :param breaker: how many trials in a row must meet the same trouble for the rest not to be run; 0 for never.
    :param min_pass: lowest success rate by group, with the mark of its tier (``airline!``); "" is all trials.
    :param min_pass_k: lowest pass^k by k (as text).
    :param baseline: file or directory of an earlier run, as given; ``quarantine`` likewise the file of flaky tasks.
    :param max_drop: how much lower than the baseline the success rate may be; None for the default.
    :param inconclusive: what a gate that cannot tell does to the run: ``pass``, ``fail``, or ``signs``.
    :param max_cost: dollars of all trials together.
    :param max_latency: seconds of a turn by percentile (as text).
    :param max_metric: highest mean by the name of a reward's number, with the mark of its tier (``leak!``).
    :param max_infra_errors: a number of trials, or as a float a share of them.
    :param missed: run only the trials that were misses in the last run.
    :param trials: attempts at each task; with ``auto`` (``--a2a-trials auto:N``) at most, as long as a gate needs them.
    :param user: ``auto`` means llm where ``user_llm`` is given, else scripted; ``a2a:URL`` is an A2A agent.
    :param user_auth_env: name of the environment variable that holds that agent's token; without it there is none.
    :param colleague: name -> URL of the A2A agents that the agent under test may ask, all together at most
        ``colleague_turns`` times in a conversation; ``colleague_auth_env`` names the environment variable that holds
        its token (of several: :func:`variable_of_colleague`).
    :param agent_model: LiteLLM's name of the agent's model, for estimates of what the agent does not report.
    :param user_retry: how often a trial is held again in which the simulated user was at fault.
    :param benchmark_options: what the benchmarks' own options came to, by name; each benchmark reads its own
        (``Suite.options``).
    """

    endpoint: str | None = None
    agents: dict[str, str] = field(default_factory=dict)
    agent: str | None = None
    transfer: str | None = None
    endpoint_source: str = "none"
    suites: tuple[str, ...] = ()
    auth_env: str | None = None
    oauth_client_id_env: str = "A2A_OAUTH_CLIENT_ID"
    oauth_client_secret_env: str = "A2A_OAUTH_CLIENT_SECRET"
    oauth_token_url: str | None = None
    oauth_scopes: tuple[str, ...] = ()
    oauth_method: str = "basic"
    timeout: float = 300.0
    stall_timeout: float = 120.0
    redeliver: int = 2
    verify_ssl: bool = True
    ca: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    client_key_env: str | None = None
    client_passphrase_env: str | None = None
    proxy: str = "env"
    protocol: str = "auto"
    transport: str = "auto"
    streaming: str = "auto"
    dialect: str = "auto"
    history: str = "delta"
    tools: str = "text"
    mcp_bind: str | None = None
    mcp_url: str | None = None
    trials: int = 1
    auto: bool = False
    seed: int = 300
    split: str = "base"
    max_steps: int = 200
    max_errors: int = 10
    user: str = "auto"
    user_auth_env: str | None = None
    user_llm: str | None = None
    user_llm_args: dict[str, Any] = field(default_factory=dict)
    user_retry: int = 0
    colleague: dict[str, str] = field(default_factory=dict)
    colleague_auth_env: str | None = None
    colleague_turns: int = 5
    judge_llm: str | None = None
    agent_model: str | None = None
    results: str = "a2a-results"
    html: str | None = None
    live: int | None = None
    report: dict[str, str] = field(default_factory=dict)
    history_file: str | None = None
    traceback: bool = False
    tag_trials: bool = False
    concurrency: int = 1
    rate: float | None = None
    trial_timeout: float = 3600.0
    run_timeout: float | None = None
    breaker: int = 3
    wait: float = 0.0
    reply_limits: dict[str, float] = field(default_factory=dict)
    env_file: str | None = None
    min_pass: dict[str, float] = field(default_factory=dict)
    min_pass_k: dict[str, float] = field(default_factory=dict)
    baseline: str | None = None
    max_drop: float | None = None
    inconclusive: Literal["signs", "fail", "pass"] = "signs"
    max_cost: float | None = None
    max_latency: dict[str, float] = field(default_factory=dict)
    max_metric: dict[str, float] = field(default_factory=dict)
    max_infra_errors: float | None = None
    missed: bool = False
    quarantine: str | None = None
    strict: bool = False
    waivers: str | None = None
    scenarios: str | None = None
    acts: str | None = None
    acts_behaviors: str | None = None
    card_jwks: str | None = None
    webhook_bind: str | None = None
    webhook_url: str | None = None
    conformance_profile: str = "standard"
    resume: bool = False
    shard: str | None = None
    durations: str | None = None
    ray: str | None = None
    ray_cpus: float = 1.0
    ray_env: tuple[str, ...] = ()
    ray_runtime_env: str | None = None
    ray_wait: float = 60.0
    record: str | None = None
    replay: str | None = None
    markdown: str | None = None
    github: str = "auto"
    otel: str = "auto"
    benchmark_options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.endpoint is not None:
            object.__setattr__(self, "endpoint", SecretUrl(self.endpoint))
        object.__setattr__(self, "agents", {name: SecretUrl(url) for name, url in self.agents.items()})

    @property
    def secrets(self) -> tuple[KnownSecret, ...]:
        """Secrets in URLs among the settings; all others are in the environment."""
        urls = {
            "the endpoint": self.endpoint,
            **{f"the endpoint {name}": url for name, url in self.agents.items()},
            "--a2a-user": self.user_endpoint,
            **{f"--a2a-colleague {name}": url for name, url in self.colleague.items()},
            "--a2a-results": self.results,
            "--a2a-baseline": self.baseline,
            "--a2a-durations": self.durations,
            "--a2a-webhook-url": self.webhook_url,
            "--a2a-mcp-url": self.mcp_url,
            "--a2a-card-jwks": self.card_jwks,
            "--a2a-oauth-token-url": self.oauth_token_url,
        }
        return tuple(secret for kind, url in urls.items() for secret in in_url(kind, url))

    @property
    def secret_variables(self) -> tuple[str, ...]:
        """Environment variables that settings name and that hold secrets, whatever they are called."""
        tokens = (self.auth_env or AUTH_ENV, self.oauth_client_secret_env)
        named = tuple(variable_of(name, agent) for agent in self.agents for name in tokens)
        others = (self.user_auth_env, *map(self.variable_of_colleague, self.colleague))
        return (*tokens, *named, *filter(None, (self.client_key_env, self.client_passphrase_env, *others)))

    def variable_of_colleague(self, name: str) -> str | None:
        """Return the environment variable with a colleague's token: of several each has its own; None for no token."""
        variable = self.colleague_auth_env
        return variable if variable is None or len(self.colleague) == 1 else variable_of(variable, name)

    @property
    def under_test(self) -> tuple[str | None, ...]:
        """The names of the agents that have trials; only None where agents have no names."""
        return tuple(name for name in self.agents if name != self.transfer) or (None,)

    def of_agent(self, name: str | None) -> Settings:
        """Return the settings with which one agent is spoken to; these, where agents have no names.

        Its credentials are its own: the environment variables' names end in its own (``A2A_AUTH_TOKEN_B``), so that no
        agent is ever shown another's.
        """
        if name is None:
            return self
        endpoint = self.agents[name]
        return replace(
            self,
            endpoint=endpoint,
            agents={},
            agent=name,
            auth_env=variable_of(self.auth_env or AUTH_ENV, name),
            oauth_client_id_env=variable_of(self.oauth_client_id_env, name),
            oauth_client_secret_env=variable_of(self.oauth_client_secret_env, name),
            tag_trials=self.tag_trials or needs_tags(endpoint),
        )

    @property
    def builtin(self) -> str | None:
        """The built-in agent's name (with what follows it), or None."""
        if self.endpoint and self.endpoint.startswith(BUILTIN_PREFIX):
            return self.endpoint.removeprefix(BUILTIN_PREFIX)
        return None

    @property
    def user_kind(self) -> str:
        """``llm``, ``scripted`` or ``a2a``, with ``auto`` resolved."""
        if self.user == "auto":
            return "llm" if self.user_llm else "scripted"
        return "a2a" if self.user_endpoint else self.user

    @property
    def user_endpoint(self) -> SecretUrl | None:
        """The URL of the A2A agent that plays the user, or None."""
        return SecretUrl(self.user.removeprefix(AGENT_PREFIX)) if self.user.startswith(AGENT_PREFIX) else None

    def to_json(self) -> str:
        """Return the settings as text, for a worker process."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """Read what :meth:`to_json` wrote."""
        data = json.loads(text)
        for name in ("suites", "oauth_scopes", "ray_env"):
            data[name] = tuple(data[name])
        return cls(**data)


def variable_of(name: str, agent: str) -> str:
    """Return the environment variable that is for one agent what another is for an agent without a name."""
    return f"{name}_{agent.upper().replace('-', '_')}"


def needs_tags(endpoint: str | None) -> bool:
    """Tell whether an agent is a built-in one that could answer nothing without the name of its task."""
    where, _, name = (endpoint or "").partition(BUILTIN_PREFIX)
    return not where and name.partition("?")[0] in TAGGED_AGENTS


def without_query(text: str, endpoint: str | None) -> str:
    """Return text without an endpoint's query, which may hold a key; a built-in agent's has only its options."""
    where, _, query = (endpoint or "").partition("?")
    if not query or where.startswith(BUILTIN_PREFIX):
        return text
    shown = text.replace(f"?{query}", "?...")
    return shown.replace(query, "...") if "=" in query else shown
