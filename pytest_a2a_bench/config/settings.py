"""The settings of a run: one typed model with the name, type, default and description of each.

:mod:`pytest_a2a_bench.config.load` reads values from the command line, the environment and the table
``[tool.a2a-bench]``, and validates them with pydantic. The model itself is a plain frozen dataclass, so that making a
copy (``dataclasses.replace``) neither validates again nor reads the environment.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, WrapValidator

from pytest_a2a_bench.config import rates, values
from pytest_a2a_bench.config.setting import About, Located, choice, text, whole_text
from pytest_a2a_bench.config.values import AGENT_PREFIX as AGENT_PREFIX
from pytest_a2a_bench.config.values import BUILTIN_AGENTS as BUILTIN_AGENTS
from pytest_a2a_bench.config.values import BUILTIN_PREFIX as BUILTIN_PREFIX
from pytest_a2a_bench.config.values import MODEL_PREFIX
from pytest_a2a_bench.config.values import TAGGED_AGENTS as TAGGED_AGENTS
from pytest_a2a_bench.config.values import TAGGED_SKILL as TAGGED_SKILL
from pytest_a2a_bench.config.values import without_query as without_query
from pytest_a2a_bench.language_models import read_model
from pytest_a2a_bench.redact import KnownSecret, SecretUrl, in_url

PROTOCOLS = ("auto", "1.0", "0.3")
TRANSPORTS = ("auto", "jsonrpc", "rest", "grpc")
STREAMING = ("auto", "on", "off")
DIALECTS = (
    *("auto", "tool_call", "tool_list", "agentbeats", "sierra", "data"),
    *("crm_action", "crm_observation", "execute_tags", "crm_entropic"),
)
SWITCHES = ("auto", "on", "off")
CHECK_PROFILES = ("safe", "standard", "full")
"""Which checks of the protocol a run makes, from the fewest to all."""
OAUTH_METHODS = ("basic", "post")
AUTH_ENV = "A2A_AUTH_TOKEN"
"""The environment variable with the agent's token where ``auth_env`` names none; it need not be set."""
PLAIN, NOISY = "plain", "noisy"
"""The agent's names in keys of trials without and with noise (``noise``)."""
HISTORIES = ("delta", "full")
TOOLS = ("text", "mcp")

Count = Annotated[int, Field(ge=1)]
CountOrZero = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]

_FILE = Located(values.locate_file)
_TEXT = text(values.read_text)
_VARIABLE = text(values.read_variable_name)
_NAMES = text(values.read_names)
_LOCAL_PATH = text(values.read_local_path)
_MODEL_ARGUMENTS = WrapValidator(lambda value, validate: validate(values.read_model_arguments(value)))


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a run, of which the documentation's reference has a table (docs/reference/settings.md).

    Fields without a description are derived from others when the settings are loaded.

    :param agents: endpoints by name, where they have names; ``endpoint`` is then the first of them.
    :param noise_events: ids of the only events of noise that may happen; None for all.
    :param agent: the name of the only agent that these settings are about (:meth:`of_agent`).
    :param endpoint_source: ``cli``, ``env``, ``table`` or ``none``; ``acts_source`` likewise.
    :param trials: attempts at each task; with ``auto`` the highest number of attempts.
    :param reply_limits: the bounds of a reply that differ from their defaults, by name (``Bounds.of``).
    :param min_pass: lowest success rate by group, with the mark of its tier (``airline!``); "" is all trials.
    :param min_pass_k: lowest pass^k by k (as text).
    :param max_latency: seconds of a turn by percentile (as text).
    :param max_metric: highest mean by the name of a reward's number, with the mark of its tier (``leak!``).
    :param max_infra_errors: a number of trials, or as a float a share of them.
    :param benchmark_options: values of the benchmarks' own settings (``Suite.settings``) by name.
    """

    # a2a: agent
    endpoint: Annotated[
        str | None,
        whole_text(values.read_endpoints),
        About(
            "Agent under test: its base URL or builtin:NAME; several with names (a=URL) are compared",
            "[NAME=]URL|builtin:NAME",
        ),
    ] = None
    auth_env: Annotated[
        str | None, _VARIABLE, About(f"Environment variable with the agent's token (default {AUTH_ENV})", "NAME")
    ] = None
    ca: Annotated[
        str | None,
        text(values.read_path),
        Located(values.locate_ca),
        About("CA certificates (PEM) to trust besides the usual ones, or this machine's trust store", "FILE|system"),
    ] = None
    client_cert: Annotated[
        str | None, text(values.read_path), _FILE, About("Client certificate (PEM) for mutual TLS", "FILE")
    ] = None
    proxy: Annotated[
        str,
        text(values.read_proxy),
        About("Proxy for requests to the agent; env reads HTTPS_PROXY and NO_PROXY", "URL|env|none"),
    ] = "env"
    protocol: Annotated[str, *choice(*PROTOCOLS), About("A2A protocol version")] = "auto"
    transport: Annotated[str, *choice(*TRANSPORTS), About("A2A transport")] = "auto"
    timeout: Annotated[Positive, About("Timeout of one turn of the agent", "SECONDS")] = 300.0
    wait: Annotated[NotNegative, About("Time to wait until the agent answers after its start", "SECONDS")] = 0.0
    transfer: Annotated[
        str | None,
        text(values.read_agent_name),
        About("Endpoint (by its name) that continues where another agent transfers to a human", "NAME"),
    ] = None
    client_key: Annotated[
        str | None,
        text(values.read_path),
        _FILE,
        About("Client private key (PEM), if it is not in the file of client-cert", "FILE"),
    ] = None
    client_key_env: Annotated[str | None, _VARIABLE, About("Environment variable with the client key", "NAME")] = None
    client_passphrase_env: Annotated[
        str | None, _VARIABLE, About("Environment variable with the passphrase of the client key", "NAME")
    ] = None
    verify_ssl: Annotated[bool, About("Verify the agent's TLS certificate")] = True
    oauth_client_id_env: Annotated[str, _VARIABLE, About("Environment variable with the OAuth 2 client id", "NAME")] = (
        "A2A_OAUTH_CLIENT_ID"
    )
    oauth_client_secret_env: Annotated[
        str, _VARIABLE, About("Environment variable with the OAuth 2 client secret", "NAME")
    ] = "A2A_OAUTH_CLIENT_SECRET"
    oauth_token_url: Annotated[
        str | None, text(values.read_token_url), About("OAuth 2 token endpoint, in place of the card's", "URL")
    ] = None
    oauth_scopes: Annotated[
        tuple[str, ...], _NAMES, About("OAuth 2 scopes to request, in place of the card's", "NAMES")
    ] = ()
    oauth_method: Annotated[
        str, *choice(*OAUTH_METHODS), About("OAuth 2 client authentication: client_secret_basic or _post")
    ] = "basic"
    stall_timeout: Annotated[Positive, About("Longest silence within a streamed answer", "SECONDS")] = 120.0
    redeliver: Annotated[CountOrZero, About("Retries of a conversation after an ambiguous delivery failure", "N")] = 2
    streaming: Annotated[
        str, *choice(*STREAMING), About("Whether requests are streamed; auto looks at the card's capabilities")
    ] = "auto"
    history: Annotated[
        str, *choice(*HISTORIES), About("Messages sent to the agent: only the new ones, or the full history each time")
    ] = "delta"
    reply_limits: Annotated[
        dict[str, float],
        text(rates.read_reply_limits),
        About(
            "Limits of a reply: calls=64,parts=4096,bytes=16M,depth=64,cpu=5 (seconds),total=256M (a trial)",
            "NAME=N,...",
        ),
    ] = field(default_factory=dict)

    # a2a: tasks
    suite: Annotated[tuple[str, ...], _NAMES, About("Suites or domains to run, separated by commas", "NAMES")] = ()
    split: Annotated[str, _TEXT, About("Split of the tasks to run", "NAME")] = "base"
    trials: Annotated[
        int,
        whole_text(values.read_trials),
        About(
            "Attempts at each task; auto runs up to N (8) in random order, until every gate is decided", "N|auto[:N]"
        ),
    ] = 1
    seed: Annotated[CountOrZero, About("Seed from which the seeds of the trials are derived", "N")] = 300
    noise: Annotated[
        dict[str, float | str],
        text(rates.read_noise),
        About(
            "Run each trial once more with noise: a share of calls by kind, such as tool-error=0.1,wrong=0.02",
            "KIND=RATE,...",
        ),
    ] = field(default_factory=dict)
    shard: Annotated[str | None, text(values.read_shard), About("Run part I of N of the trials", "I/N")] = None
    missed: Annotated[bool, About("Run only the trials that failed in the last run")] = False
    dialect: Annotated[
        str,
        text(values.one_of_kind("dialects", *DIALECTS)),
        About("How tools are described and called in messages, such as tool_call or data", "NAME"),
    ] = "auto"
    tools: Annotated[
        str,
        *choice(*TOOLS),
        About("How the agent calls tools: in its messages, or at an MCP endpoint that each trial has"),
    ] = "text"
    mcp_bind: Annotated[
        str | None, _TEXT, About("Bind address of the MCP server (127.0.0.1, any port)", "HOST:PORT")
    ] = None
    mcp_url: Annotated[str | None, _TEXT, About("Public URL of the MCP server, for a remote agent", "URL")] = None
    max_steps: Annotated[Count, About("Number of steps after which a conversation is ended", "N")] = 200
    max_errors: Annotated[Count, About("Number of tool errors after which a conversation is ended", "N")] = 10
    tag_trials: Annotated[bool, About("Send the task's name to the agent in message metadata")] = False

    # a2a: users and judges
    user: Annotated[
        str,
        text(values.read_user),
        About(
            "Who plays the user: a script, a language model (any LiteLLM name) or an A2A agent",
            "scripted|llm:MODEL|a2a:URL",
        ),
    ] = "scripted"
    judge_llm: Annotated[str | None, text(read_model), About("Model of the judge, any LiteLLM name", "MODEL")] = None
    judge_times: Annotated[
        int,
        Field(ge=1),
        AfterValidator(values.read_odd),
        About("Times that the judge is asked about each assertion, an odd number; the majority decides", "N"),
    ] = 1
    user_llm_args: Annotated[
        dict[str, Any], _MODEL_ARGUMENTS, About("Arguments of the user's model, a JSON object", "JSON")
    ] = field(default_factory=dict)
    user_auth_env: Annotated[
        str | None, _VARIABLE, About("Environment variable with the token of the agent that plays the user", "NAME")
    ] = None
    user_retry: Annotated[CountOrZero, About("Retries of a trial in which the simulated user was at fault", "N")] = 0
    extra_turn: Annotated[
        bool,
        About("Where a model or agent as the user ended a trial that failed: ask the agent once more, for the blame"),
    ] = True
    user_guard: Annotated[
        bool, About("Ask the user's model again for a defective message, and hold back a stop that is glued to words")
    ] = False
    colleague: Annotated[
        dict[str, str],
        text(values.read_colleagues),
        About("A2A agents that the agent may ask in CRM tasks (tool ask_agent)", "NAME=URL ..."),
    ] = field(default_factory=dict)
    colleague_auth_env: Annotated[
        str | None, _VARIABLE, About("Environment variable with the token of a colleague", "NAME")
    ] = None
    colleague_turns: Annotated[Count, About("Questions to all colleagues in one conversation", "N")] = 5
    agent_model: Annotated[
        str | None,
        _TEXT,
        About("The agent's model, any LiteLLM name: estimates cost where the agent reports none", "MODEL"),
    ] = None
    env_file: Annotated[
        str | None, _TEXT, _FILE, About("File of NAME=VALUE lines for the language models' providers", "FILE")
    ] = None

    # a2a: run
    concurrency: Annotated[Count, About("Conversations in flight, over all workers of -n", "N")] = 1
    rate: Annotated[
        float | None, text(values.read_pace), About("Most messages to the agent a second (or R/min)", "R/s")
    ] = None
    trial_timeout: Annotated[NotNegative, About("Timeout of one trial; 0 for none", "SECONDS")] = 3600.0
    run_timeout: Annotated[Positive | None, About("Timeout of the run, after which its trials end", "SECONDS")] = None
    results: Annotated[
        str, _TEXT, _FILE, About("Results directory, or an fsspec URL such as s3://bucket/run", "DIR|URL")
    ] = "a2a-results"
    resume: Annotated[bool, About("Reuse the results of earlier runs in the results directory")] = False
    record: Annotated[
        str | None, _TEXT, _FILE, About("Record each conversation with the agent as a cassette", "DIR")
    ] = None
    replay: Annotated[str | None, _TEXT, _FILE, About("Replay recorded conversations in place of the agent", "DIR")] = (
        None
    )
    ray: Annotated[
        str | None, _TEXT, About("Ray cluster for the workers of -n: auto, HOST:PORT or ray://...", "ADDRESS")
    ] = None
    ray_cpus: Annotated[Positive, About("CPUs that each worker reserves on the Ray cluster", "N")] = 1.0
    ray_env: Annotated[
        tuple[str, ...], _NAMES, About("Environment variables to pass to workers on the Ray cluster", "NAMES")
    ] = ()
    ray_runtime_env: Annotated[
        str | None, _TEXT, _FILE, About("JSON file with Ray's runtime_env for the workers", "FILE")
    ] = None
    ray_wait: Annotated[Positive, About("Time to wait for a free place on the Ray cluster", "SECONDS")] = 60.0
    breaker: Annotated[
        int,
        text(values.read_breaker),
        About("Consecutive trials with the same infrastructure error after which the rest is not run", "N|on|off"),
    ] = values.BREAKER
    otel: Annotated[str, *choice(*SWITCHES), About("OpenTelemetry spans of trials, turns and requests")] = "auto"

    # a2a: gates
    min_pass: Annotated[
        dict[str, float],
        text(rates.read_rates),
        About(
            "Lowest success rate of all trials, or of a suite, domain or category; 0.6! is critical, 0.6? advisory",
            "RATE|NAME=RATE,...",
        ),
    ] = field(default_factory=dict)
    min_pass_k: Annotated[dict[str, float], text(rates.read_pass_k), About("Lowest pass^k", "K=RATE,...")] = field(
        default_factory=dict
    )
    baseline: Annotated[
        str | None,
        _TEXT,
        Located(values.locate_named_file),
        About("Baseline file or results directory to compare with", "[NAME=]FILE|DIR"),
    ] = None
    max_drop: Annotated[
        float | None, text(rates.read_drop), About("Largest drop below the baseline's rate (default 0.05)", "RATE")
    ] = None
    max_cost: Annotated[
        float | None,
        text(rates.read_dollars),
        About("Highest cost of all trials; with trials=auto no trial starts that could exceed it", "DOLLARS"),
    ] = None
    max_latency: Annotated[
        dict[str, float],
        text(rates.read_latencies),
        About("Highest percentiles of the agent's turns, such as p95=10", "pN=SECONDS,..."),
    ] = field(default_factory=dict)
    max_infra_errors: Annotated[
        int | float | None,
        text(rates.read_errors),
        About("Most trials that may end with an infrastructure error, or their share", "N|RATE"),
    ] = None
    max_user_faults: Annotated[
        int | float | None,
        text(rates.read_errors),
        About("Most trials in which a fault of the simulated user may be proven, or their share", "N|RATE"),
    ] = None
    max_noise_loss: Annotated[
        float | None, text(rates.read_drop), About("Largest loss of success rate to the noise of --a2a-noise", "RATE")
    ] = None
    quarantine: Annotated[
        str | None, _TEXT, _FILE, About("TOML file of flaky tasks, each with a reason and an expiry date", "FILE")
    ] = None
    max_metric: Annotated[
        dict[str, float],
        text(rates.read_metrics),
        About("Upper bounds of mean reward metrics, such as leak=0,over_refusal=0.05", "NAME=RATE,..."),
    ] = field(default_factory=dict)
    inconclusive: Annotated[
        Literal["signs", "fail", "pass"],
        *choice("signs", "fail", "pass"),
        About("Result of a gate that is inconclusive: signs passes unless there is a sign of a drop"),
    ] = "signs"

    # a2a: reports
    html: Annotated[
        str | None, _LOCAL_PATH, _FILE, About("Write an HTML page: verdict, charts, trials, transcripts", "FILE")
    ] = None
    live: Annotated[
        int | None,
        text(values.read_port),
        About("Serve a page that shows the run while it goes on, at this port (0: any free one)", "PORT"),
    ] = None
    markdown: Annotated[
        str | None, _TEXT, _FILE, About("Write the run's summary as Markdown, for a merge request", "FILE")
    ] = None
    history_file: Annotated[
        str | None,
        _LOCAL_PATH,
        _FILE,
        About("Append this run to a file of runs (JSON lines) and report changes over time", "PATH"),
    ] = None
    github: Annotated[str, *choice(*SWITCHES), About("Job summary and annotations on GitHub Actions")] = "auto"

    # a2a: protocol
    conformance_profile: Annotated[
        str,
        *choice(*CHECK_PROFILES),
        About("Checks to run: safe (for production), standard (each rule in one place) or full"),
    ] = "standard"
    strict: Annotated[bool, About("Fail for violations of SHOULD requirements instead of warning")] = False
    waivers: Annotated[
        str | None, _TEXT, _FILE, About("TOML file of known violations, each with a reason and an expiry date", "FILE")
    ] = None
    scenarios: Annotated[
        str | None, _TEXT, _FILE, About("TOML file of prompts that trigger special behaviour of the agent", "FILE")
    ] = None
    direct: Annotated[
        str | None,
        text(values.read_url_of_agent),
        About("URL of the agent itself, where the endpoint is a gateway before it that is compared with it", "URL"),
    ] = None
    acts: Annotated[
        str | None, _TEXT, _FILE, About("ACTS file (YAML), or directory of them, whose tests are run", "PATH")
    ] = None
    acts_behaviors: Annotated[
        str | None, _TEXT, _FILE, About("ACTS file of the behaviors that the agent implements", "FILE")
    ] = None
    card_jwks: Annotated[
        str | None, _TEXT, _FILE, About("Keys (JWKS) that verify the signatures of the agent card", "FILE|URL")
    ] = None
    webhook_bind: Annotated[
        str | None, _TEXT, About("Bind address of the receiver of push notifications", "HOST:PORT")
    ] = None
    webhook_url: Annotated[str | None, _TEXT, About("Public URL of the receiver of push notifications", "URL")] = None

    agents: dict[str, str] = field(default_factory=dict)
    noise_events: tuple[str, ...] | None = None
    agent: str | None = None
    endpoint_source: str = "none"
    acts_source: str = "none"
    auto: bool = False
    benchmark_options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.endpoint is not None:
            object.__setattr__(self, "endpoint", SecretUrl(self.endpoint))
        if self.direct is not None:
            object.__setattr__(self, "direct", SecretUrl(self.direct))
        object.__setattr__(self, "agents", {name: SecretUrl(url) for name, url in self.agents.items()})

    @property
    def secrets(self) -> tuple[KnownSecret, ...]:
        """Secrets in URLs among the settings; all others are in the environment."""
        urls = {
            "the endpoint": self.endpoint,
            **{f"the endpoint {name}": url for name, url in self.agents.items()},
            "--a2a-user": self.user_endpoint,
            **{f"--a2a-set colleague={name}": url for name, url in self.colleague.items()},
            "--a2a-results": self.results,
            "--a2a-baseline": self.baseline,
            "--a2a-direct": self.direct,
            "webhook-url": self.webhook_url,
            "mcp-url": self.mcp_url,
            "card-jwks": self.card_jwks,
            "oauth-token-url": self.oauth_token_url,
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
    def is_noise_pair(self) -> bool:
        """Whether the run has each trial plain and with noise: two names for one agent."""
        return set(self.agents) == {PLAIN, NOISY}

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
        if self.is_noise_pair:
            return replace(self, agents={}, agent=name, noise=self.noise if name == NOISY else {})
        return with_endpoint(
            self,
            self.agents[name],
            agents={},
            agent=name,
            auth_env=variable_of(self.auth_env or AUTH_ENV, name),
            oauth_client_id_env=variable_of(self.oauth_client_id_env, name),
            oauth_client_secret_env=variable_of(self.oauth_client_secret_env, name),
        )

    @property
    def builtin(self) -> str | None:
        """The built-in agent's name (with what follows it), or None."""
        if self.endpoint and self.endpoint.startswith(BUILTIN_PREFIX):
            return self.endpoint.removeprefix(BUILTIN_PREFIX)
        return None

    @property
    def user_kind(self) -> str:
        """``llm``, ``scripted`` or ``a2a``."""
        return self.user.partition(":")[0]

    @property
    def user_llm(self) -> str | None:
        """The language model that plays the user, or None."""
        return self.user.removeprefix(MODEL_PREFIX) if self.user.startswith(MODEL_PREFIX) else None

    @property
    def user_endpoint(self) -> SecretUrl | None:
        """The URL of the A2A agent that plays the user, or None."""
        return SecretUrl(self.user.removeprefix(AGENT_PREFIX)) if self.user.startswith(AGENT_PREFIX) else None


GROUPS = {
    "endpoint": "a2a: agent",
    "suite": "a2a: tasks",
    "user": "a2a: users and judges",
    "concurrency": "a2a: run",
    "min_pass": "a2a: gates",
    "html": "a2a: reports",
    "conformance_profile": "a2a: protocol",
}
"""The first setting of each group of ``pytest --help`` and of the reference, and the group's title."""


def variable_of(name: str, agent: str) -> str:
    """Return the name of an environment variable for one agent, from its name for an agent without a name."""
    return f"{name}_{agent.upper().replace('-', '_')}"


def with_endpoint(settings: Settings, endpoint: str | None, **changes: Any) -> Settings:
    """Return the settings for an agent, with trials tagged if it could answer nothing without."""
    return replace(settings, endpoint=endpoint, tag_trials=settings.tag_trials or needs_tags(endpoint), **changes)


def needs_tags(endpoint: str | None) -> bool:
    """Return whether an agent is a built-in one that could answer nothing without the name of its task."""
    where, _, name = (endpoint or "").partition(BUILTIN_PREFIX)
    return not where and name.partition("?")[0] in TAGGED_AGENTS
