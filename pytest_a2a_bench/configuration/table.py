"""The options of the core, in the order of ``pytest --help``; those of benchmarks follow (``Suite.options``)."""

from __future__ import annotations

import dataclasses
from typing import Any

from pytest_a2a_bench import settings as s
from pytest_a2a_bench.configuration.option import Option
from pytest_a2a_bench.configuration.rates import (
    read_dollars,
    read_drop,
    read_errors,
    read_latencies,
    read_metrics,
    read_pass_k,
    read_rates,
    read_reply_limits,
)
from pytest_a2a_bench.configuration.readers import (
    locate_ca,
    locate_file,
    locate_named_file,
    locate_page,
    locate_reports,
    one_of,
    one_of_kind,
    positive,
    read_agent_name,
    read_breaker,
    read_colleagues,
    read_endpoints,
    read_local_path,
    read_model_arguments,
    read_names,
    read_pace,
    read_path,
    read_port,
    read_proxy,
    read_reports,
    read_shard,
    read_switch,
    read_text,
    read_token_url,
    read_trials,
    read_user,
    read_variable_name,
    seconds,
    whole,
)
from pytest_a2a_bench.own_models import read_model

# The dataclass is the only place with defaults; help and documentation take them from here.
DEFAULTS: dict[str, Any] = {
    f.name: None if f.default is dataclasses.MISSING else f.default for f in dataclasses.fields(s.Settings)
}
"""Name of a setting -> what it is where nobody says anything."""

CONNECTION: tuple[Option, ...] = (
    Option("auth_env", "NAME", f"Environment variable that holds the agent's token ({s.AUTH_ENV})", read_variable_name),
    Option(
        "oauth_client_id_env", "NAME", "Environment variable that holds the OAuth 2 client's id", read_variable_name
    ),
    Option(
        "oauth_client_secret_env",
        "NAME",
        "Environment variable that holds the OAuth 2 client's secret",
        read_variable_name,
    ),
    Option("oauth_token_url", "URL", "Where OAuth 2 tokens are asked for, instead of the card's", read_token_url),
    Option("oauth_scopes", "NAMES", "Scopes to ask for, instead of the card's", read_names),
    Option(
        "oauth_method",
        "|".join(s.OAUTH_METHODS),
        "How the client's secret is shown: client_secret_basic or _post",
        one_of(*s.OAUTH_METHODS),
    ),
    Option("verify_ssl", "", "Verify the agent's TLS certificate", read_switch, flag=True),
    Option(
        "ca",
        "FILE|system",
        "Certificates (PEM) to trust beside the usual ones, or this machine's trust store",
        read_path,
        locate=locate_ca,
    ),
    Option("client_cert", "FILE", "Certificate (PEM) to show to the agent", read_path, locate=locate_file),
    Option("client_key", "FILE", "Its private key (PEM), unless it is in that file", read_path, locate=locate_file),
    Option("client_key_env", "NAME", "Environment variable that holds the key instead", read_variable_name),
    Option("client_passphrase_env", "NAME", "Environment variable that holds the key's passphrase", read_variable_name),
    Option("proxy", "URL|env|none", "Proxy for requests to the agent; env is HTTPS_PROXY and NO_PROXY", read_proxy),
)
"""How the agent is reached: options of pytest and of every command that talks to an agent."""

OPTIONS: tuple[Option, ...] = (
    Option(
        "endpoint",
        "[NAME=]URL|builtin:NAME",
        "Agent under test: its base URL, or a built-in agent; with names several, which are compared",
        read_endpoints,
    ),
    Option("transfer", "NAME", "Endpoint that goes on where another agent transfers to a human", read_agent_name),
    Option("suites", "NAMES", "Suites or domains to run, separated by commas", read_names, option="suite"),
    *CONNECTION,
    Option("timeout", "SECONDS", "Limit for one whole turn of the agent", seconds()),
    Option("stall_timeout", "SECONDS", "Longest silence in a streamed answer that has begun", seconds()),
    Option("redeliver", "N", "Times a conversation is held again whose message may or may not have arrived", whole(0)),
    Option("protocol", "|".join(s.PROTOCOLS), "A2A protocol version", one_of(*s.PROTOCOLS)),
    Option("transport", "|".join(s.TRANSPORTS), "A2A transport", one_of(*s.TRANSPORTS)),
    Option("streaming", "|".join(s.STREAMING), "Streaming requests", one_of(*s.STREAMING)),
    Option(
        "dialect",
        "NAME",
        f"How tools are written in messages: {', '.join(s.DIALECTS)}",
        one_of_kind("dialects", *s.DIALECTS),
    ),
    Option("history", "|".join(s.HISTORIES), "Send only what is new, or everything", one_of(*s.HISTORIES)),
    Option(
        "tools",
        "|".join(s.TOOLS),
        "How the agent calls tools: in its answers, or by itself, at an MCP endpoint that each trial has",
        one_of(*s.TOOLS),
    ),
    Option("mcp_bind", "HOST:PORT", "Where that listens, for an agent elsewhere (127.0.0.1, any port)", read_text),
    Option("mcp_url", "URL", "How the agent reaches that", read_text),
    Option(
        "trials",
        "N|auto[:N]",
        "Attempts at each task; auto runs at most N (8) in a random order, as long as a gate needs them",
        read_trials,
    ),
    Option("seed", "N", "Seed that the seeds of the trials are derived from", whole(0)),
    Option("split", "NAME", "Tasks to run", read_text),
    Option("max_steps", "N", "Steps after which a conversation is ended", whole(1)),
    Option("max_errors", "N", "Tool errors after which a conversation is ended", whole(1)),
    Option("user", "|".join((*s.USERS, "a2a:URL")), "Who plays the user; a2a:URL is an A2A agent", read_user),
    Option("user_auth_env", "NAME", "Environment variable that holds the token of that agent", read_variable_name),
    Option("user_llm", "MODEL", "Model of the simulated user, any LiteLLM name", read_model),
    Option("user_llm_args", "JSON", "Arguments for that model, a JSON object", read_model_arguments),
    Option("user_retry", "N", "Times a trial is held again in which the simulated user was at fault", whole(0)),
    Option(
        "colleague",
        "NAME=URL",
        "A2A agent that the agent may ask in CRM tasks (tool ask_agent); several by several options",
        read_colleagues,
    ),
    Option("colleague_auth_env", "NAME", "Environment variable that holds the token of that agent", read_variable_name),
    Option("colleague_turns", "N", "Questions to it in one conversation; to all of several together", whole(1)),
    Option("judge_llm", "MODEL", "Model that judges what a benchmark leaves to a judge", read_model),
    Option(
        "agent_model",
        "MODEL",
        "The agent's model, any LiteLLM name: estimates tokens and cost where the agent reports none",
        read_text,
    ),
    Option(
        "results",
        "DIR|URL",
        "Directory for result files, or an fsspec URL such as s3://bucket/run",
        read_text,
        locate=locate_file,
    ),
    Option(
        "html",
        "FILE|DIR/",
        "Write one page with everything: verdict, charts, trials and transcripts; DIR/ keeps these in files beside it",
        read_local_path,
        locate=locate_page,
    ),
    Option(
        "live",
        "PORT",
        "Show the run in a browser while it goes on, at a port of this machine (any free one where none is named)",
        read_port,
        bare="0",
    ),
    Option(
        "report",
        "NAME=FILE",
        "Write a report by a reporter of your own or of another package; several by several options",
        read_reports,
        locate=locate_reports,
    ),
    Option(
        "history_file",
        "PATH",
        "Add what this run measured to a file of runs (JSON lines) or a directory, and say what changed over time",
        read_local_path,
        locate=locate_file,
    ),
    Option(
        "traceback",
        "",
        "Show the traceback of a trial that missed, too, not only why it missed",
        read_switch,
        flag=True,
    ),
    Option("tag_trials", "", "Name the task to the agent in message metadata", read_switch, flag=True),
    Option("concurrency", "N", "Conversations in flight, over all workers of -n", whole(1)),
    Option("rate", "R/s", "Most messages to the agent in a second (or R/min), over all workers of -n", read_pace),
    Option("trial_timeout", "SECONDS", "Limit for one whole trial; 0 for none", seconds(zero=True)),
    Option("run_timeout", "SECONDS", "Limit for the whole run: then no trial begins and none goes on", seconds()),
    Option(
        "breaker",
        "N|on|off",
        "Trials in a row with the same trouble after which the rest is not run",
        read_breaker,
    ),
    Option("wait", "SECONDS", "Wait until a freshly started agent answers", seconds(zero=True)),
    Option(
        "reply_limits",
        "NAME=N,...",
        "How much of a reply is read and carried out: "
        "calls=64,parts=4096,bytes=16M,depth=64,cpu=5 (seconds),total=256M (a trial)",
        read_reply_limits,
    ),
    Option(
        "env_file",
        "FILE",
        "File of NAME=VALUE lines for the language models' providers; no .env file is read otherwise",
        read_text,
        locate=locate_file,
    ),
    Option(
        "min_pass",
        "RATE|NAME=RATE,...",
        "Lowest success rate of all trials, or of a suite, domain or category; 0.6! is critical, 0.6? advisory",
        read_rates,
    ),
    Option("min_pass_k", "K=RATE,...", "Lowest pass^k", read_pass_k),
    Option(
        "baseline",
        "[NAME=]FILE|DIR",
        "Earlier run to compare with: a promoted file or a results directory; of agents with names, for one",
        read_text,
        locate=locate_named_file,
    ),
    Option("max_drop", "RATE", "How much lower than the baseline the success rate may be (0.05)", read_drop),
    Option(
        "inconclusive",
        "signs|fail|pass",
        "What a gate that cannot tell does to the run: signs lets it pass where there is no sign of a drop",
        one_of(*s.INCONCLUSIVE),
    ),
    Option(
        "max_cost",
        "DOLLARS",
        "Most that all trials together may cost; with --a2a-trials auto no trial begins that could exceed it",
        read_dollars,
    ),
    Option("max_latency", "pN=SECONDS,...", "Highest percentiles of the agent's turns, such as p95=10", read_latencies),
    Option(
        "max_metric",
        "NAME=RATE,...",
        "Highest means of numbers that rewards have beside the value, such as leak=0,over_refusal=0.05",
        read_metrics,
    ),
    Option("max_infra_errors", "N|RATE", "Most trials that the infrastructure may fail, or their share", read_errors),
    Option("missed", "", "Run only the trials that did not succeed in the last run", read_switch, flag=True),
    Option(
        "quarantine", "FILE", "TOML file of flaky tasks, each with its reason and an end", read_text, locate=locate_file
    ),
    Option(
        "strict",
        "",
        "Fail for recommendations of the protocol (SHOULD) too, instead of warning",
        read_switch,
        flag=True,
    ),
    Option(
        "waivers",
        "FILE",
        "TOML file of known protocol defects, each with its reason and an end",
        read_text,
        locate=locate_file,
    ),
    Option(
        "scenarios",
        "FILE",
        "TOML file of prompts that make the agent behave in special ways",
        read_text,
        locate=locate_file,
    ),
    Option(
        "acts", "PATH", "ACTS files (YAML), or a directory of them, to make their tests", read_text, locate=locate_file
    ),
    Option(
        "acts_behaviors",
        "FILE",
        "ACTS file of the behaviors that the agent knows (sut-behaviors.yaml)",
        read_text,
        locate=locate_file,
    ),
    Option(
        "card_jwks", "FILE|URL", "Keys to verify the signatures of the agent card with", read_text, locate=locate_file
    ),
    Option("webhook_bind", "HOST:PORT", "Where to receive push notifications, for an agent elsewhere", read_text),
    Option("webhook_url", "URL", "How the agent reaches that", read_text),
    Option(
        "conformance_profile",
        "|".join(s.CHECK_PROFILES),
        "Checks of the protocol: safe for agents in production, standard tries each rule in one place, full everywhere",
        one_of(*s.CHECK_PROFILES),
    ),
    Option("resume", "", "Take results of earlier runs from the results directory", read_switch, flag=True),
    Option("shard", "I/N|auto", "Run one of N parts of the trials; auto asks the CI system's variables", read_shard),
    Option("record", "DIR", "Record each conversation with the agent as a cassette", read_text, locate=locate_file),
    Option("replay", "DIR", "Replay recorded conversations; the agent is not needed", read_text, locate=locate_file),
    Option(
        "markdown", "FILE", "Write the run's summary as Markdown, for a merge request", read_text, locate=locate_file
    ),
    Option("github", "|".join(s.SWITCHES), "Job summary and annotations on GitHub Actions", one_of(*s.SWITCHES)),
    Option("otel", "|".join(s.SWITCHES), "Spans of trials, turns and requests for OpenTelemetry", one_of(*s.SWITCHES)),
    Option(
        "durations",
        "PATH",
        "Results directory, or JSON of keys and seconds: balances --a2a-shard, and the longest begin first",
        read_text,
        locate=locate_file,
    ),
    Option(
        "ray", "ADDRESS", "Ray cluster that the workers of -n are placed on: auto, HOST:PORT or ray://...", read_text
    ),
    Option("ray_cpus", "N", "CPUs that each of them reserves, also less than one", positive),
    Option("ray_env", "NAMES", "Environment variables that they get, beside those that options name", read_names),
    Option("ray_runtime_env", "FILE", "Ray's runtime_env for them, a JSON object", read_text, locate=locate_file),
    Option("ray_wait", "SECONDS", "How long to wait until there is room for one", seconds()),
)
"""Every option, in the order of ``pytest --help``."""
