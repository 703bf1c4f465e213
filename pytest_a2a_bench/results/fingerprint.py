"""The fingerprint of a stored result: trials with one key and one fingerprint ask the same of the same agent. Pure.

The fingerprint covers the agent (its endpoint and what its card calls it), what it is sent beside the conversation, the
benchmark's data, this package's version (the scripted user and the dialects are ours) and every setting that may change
what is said or how it is judged. What only decides how long we wait, or where files go, is left out, so that a run can
be resumed with more patience.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pytest_a2a_bench.config.settings import BUILTIN_PREFIX, Settings

WITHOUT_EFFECT = frozenset(
    {
        "acts",
        "acts_behaviors",
        "agent",  # only a name
        "agent_model",  # only reckons
        "agents",
        "auth_env",
        "baseline",
        "breaker",
        "ca",
        "card_jwks",
        "client_cert",
        "client_key",
        "client_key_env",
        "client_passphrase_env",
        "colleague",  # is among the parties
        "colleague_auth_env",
        "concurrency",
        "conformance_profile",
        "durations",
        "endpoint",  # is in the agent's identity
        "acts_source",
        "endpoint_source",
        "extra_turn",  # comes after the reward
        "env_file",  # how a model's provider is reached, as the rest of the environment
        "github",
        "html",
        "inconclusive",
        "live",
        "markdown",
        "max_cost",
        "max_drop",
        "max_infra_errors",
        "max_latency",
        "max_metric",
        "max_user_faults",
        "mcp_bind",  # how it is reached
        "mcp_url",
        "min_pass",
        "min_pass_k",
        "traceback",
        "history_file",
        "missed",
        "oauth_client_id_env",
        "oauth_client_secret_env",
        "oauth_method",
        "oauth_scopes",
        "oauth_token_url",
        "otel",
        "proxy",
        "quarantine",
        "rate",
        "ray",
        "ray_cpus",
        "ray_env",
        "ray_runtime_env",
        "ray_wait",
        "record",
        "redeliver",
        "report",
        "results",
        "resume",
        "run_timeout",
        "scenarios",
        "shard",
        "stall_timeout",
        "strict",
        "suite",
        "timeout",
        "trial_timeout",
        "trials",  # each trial has a key and a seed of its own
        "user",  # its kind and its model are named apart; an agent is among the parties
        "user_auth_env",
        "verify_ssl",
        "wait",
        "waivers",
        "webhook_bind",
        "webhook_url",
    }
)
"""Settings that a result does not depend on. A setting that is not named here makes a difference: forgetting one costs
a conversation, never a wrong number."""

WITHOUT_EFFECT_BY_DEFAULT = frozenset({"colleague_turns", "reply_limits", "tools", "transfer", "user_retry"})
"""Settings whose default is how it always was: results from before there was the option stay good."""

_DEFAULTS = dataclasses.asdict(Settings())


def fingerprint(
    settings: Settings, agent: str, data: str, told: Mapping[str, Any] | None = None, package: str = ""
) -> str:
    """Return 16 hex digits.

    :param agent: name, version and interface of the agent, from its card.
    :param data: name and version of the benchmark's data.
    :param told: the messages' metadata, and how the connection was configured beside the settings.
    :param package: version of this package.
    """
    values = {k: v for k, v in dataclasses.asdict(settings).items() if k not in WITHOUT_EFFECT}
    values = {k: v for k, v in values.items() if v != _DEFAULTS[k] or k not in WITHOUT_EFFECT_BY_DEFAULT}
    values |= {"user_kind": settings.user_kind, "user_llm": settings.user_llm}
    values |= {"where": where(settings.endpoint or ""), "agent": agent, "data": data}
    values |= {"told": dict(told or {}), "package": package}
    # default=str: an unknown type makes a difference rather than an exception.
    text = json.dumps(values, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def where(endpoint: str) -> str:
    """Return an endpoint in one form, without credentials; its query stays, as it may choose an agent."""
    if endpoint.startswith(BUILTIN_PREFIX):
        return endpoint
    parts = urlsplit(endpoint)
    # On some hosts the query chooses the agent.
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}{query}"
