"""Command line options, and whether a pytest run uses this plugin at all.

The plugin is loaded in every pytest run of an environment, so this module imports nothing but pytest, and repeats the
settings that have an option literally; a test compares them with the model.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

OUR_FIXTURES = frozenset({"trial", "bench_task", "_a2a_key", "_a2a_endpoint", "_a2a_check"})
"""Fixtures that need an activated plugin; every other fixture of ours requests one of these."""

_ACTIVATE: pytest.StashKey[Callable[[], None]] = pytest.StashKey()


def add_options(parser: pytest.Parser) -> None:
    """Declare the options; their values are text, which :mod:`pytest_a2a_bench.config.load` reads."""
    add = parser.getgroup("a2a-agent", "a2a: agent").addoption
    add(
        "--a2a-endpoint",
        action="append",
        metavar="[NAME=]URL|builtin:NAME",
        help="Agent under test: its base URL or builtin:NAME; several with names (a=URL) are compared",
    )
    add("--a2a-auth-env", metavar="NAME", help="Environment variable with the agent's token (default A2A_AUTH_TOKEN)")
    add(
        "--a2a-ca",
        metavar="FILE|system",
        help="CA certificates (PEM) to trust besides the usual ones, or this machine's trust store",
    )
    add("--a2a-client-cert", metavar="FILE", help="Client certificate (PEM) for mutual TLS")
    add(
        "--a2a-proxy",
        metavar="URL|env|none",
        help="Proxy for requests to the agent; env reads HTTPS_PROXY and NO_PROXY (default: env)",
    )
    add("--a2a-protocol", metavar="auto|1.0|0.3", help="A2A protocol version (default: auto)")
    add("--a2a-transport", metavar="auto|jsonrpc|rest|grpc", help="A2A transport (default: auto)")
    add("--a2a-timeout", metavar="SECONDS", help="Timeout of one turn of the agent (default: 300)")
    add("--a2a-wait", metavar="SECONDS", help="Time to wait until the agent answers after its start (default: 0)")
    add = parser.getgroup("a2a-tasks", "a2a: tasks").addoption
    add("--a2a-suite", action="append", metavar="NAMES", help="Suites or domains to run, separated by commas")
    add("--a2a-split", metavar="NAME", help="Split of the tasks to run (default: base)")
    add(
        "--a2a-trials",
        metavar="N|auto[:N]",
        help="Attempts at each task; auto runs up to N (8) in random order, until every gate is decided (default: 1)",
    )
    add("--a2a-seed", metavar="N", help="Seed from which the seeds of the trials are derived (default: 300)")
    add(
        "--a2a-noise",
        metavar="KIND=RATE,...",
        help="Run each trial once more with noise: a share of calls by kind, such as tool-error=0.1,wrong=0.02",
    )
    add("--a2a-shard", metavar="I/N", help="Run part I of N of the trials")
    add("--a2a-missed", action="store_const", const="on", help="Run only the trials that failed in the last run")
    add(
        "--a2a-dialect",
        metavar="NAME",
        help="How tools are described and called in messages, such as tool_call or data (default: auto)",
    )
    add(
        "--a2a-tools",
        metavar="text|mcp",
        help="How the agent calls tools: in its messages, or at an MCP endpoint that each trial has (default: text)",
    )
    add(
        "--a2a-tau2-data",
        metavar="installed|DIR",
        help="tau2's tasks and data: of the installed package, or of a checkout (default: installed)",
    )
    add("--a2a-crm-data", metavar="DIR", help="Directory with CRMArena's tasks and data")
    add = parser.getgroup("a2a-users-and-judges", "a2a: users and judges").addoption
    add(
        "--a2a-user",
        metavar="scripted|llm:MODEL|a2a:URL",
        help="Who plays the user: a script, a language model (any LiteLLM name) or an A2A agent (default: scripted)",
    )
    add("--a2a-judge-llm", metavar="MODEL", help="Model of the judge, any LiteLLM name")
    add = parser.getgroup("a2a-run", "a2a: run").addoption
    add("--a2a-concurrency", metavar="N", help="Conversations in flight, over all workers of -n (default: 1)")
    add("--a2a-rate", metavar="R/s", help="Most messages to the agent a second (or R/min)")
    add("--a2a-trial-timeout", metavar="SECONDS", help="Timeout of one trial; 0 for none (default: 3600)")
    add("--a2a-run-timeout", metavar="SECONDS", help="Timeout of the run, after which its trials end")
    add(
        "--a2a-results",
        metavar="DIR|URL",
        help="Results directory, or an fsspec URL such as s3://bucket/run (default: a2a-results)",
    )
    add(
        "--a2a-resume",
        action="store_const",
        const="on",
        help="Reuse the results of earlier runs in the results directory",
    )
    add("--a2a-record", metavar="DIR", help="Record each conversation with the agent as a cassette")
    add("--a2a-replay", metavar="DIR", help="Replay recorded conversations in place of the agent")
    add("--a2a-ray", metavar="ADDRESS", help="Ray cluster for the workers of -n: auto, HOST:PORT or ray://...")
    add("--a2a-config", metavar="FILE", help="TOML file with the table [tool.a2a-bench] (default: pyproject.toml)")
    add(
        "--a2a-set",
        action="append",
        metavar="KEY=VALUE",
        help="Set any setting, those without an option too; repeatable",
    )
    add = parser.getgroup("a2a-gates", "a2a: gates").addoption
    add(
        "--a2a-min-pass",
        metavar="RATE|NAME=RATE,...",
        help="Lowest success rate of all trials, or of a suite, domain or category; 0.6! is critical, 0.6? advisory",
    )
    add("--a2a-min-pass-k", metavar="K=RATE,...", help="Lowest pass^k")
    add("--a2a-baseline", metavar="[NAME=]FILE|DIR", help="Baseline file or results directory to compare with")
    add("--a2a-max-drop", metavar="RATE", help="Largest drop below the baseline's rate (default 0.05)")
    add(
        "--a2a-max-cost",
        metavar="DOLLARS",
        help="Highest cost of all trials; with trials=auto no trial starts that could exceed it",
    )
    add("--a2a-max-latency", metavar="pN=SECONDS,...", help="Highest percentiles of the agent's turns, such as p95=10")
    add(
        "--a2a-max-infra-errors",
        metavar="N|RATE",
        help="Most trials that may end with an infrastructure error, or their share",
    )
    add("--a2a-max-noise-loss", metavar="RATE", help="Largest loss of success rate to the noise of --a2a-noise")
    add("--a2a-quarantine", metavar="FILE", help="TOML file of flaky tasks, each with a reason and an expiry date")
    add = parser.getgroup("a2a-reports", "a2a: reports").addoption
    add("--a2a-html", metavar="FILE", help="Write an HTML page: verdict, charts, trials, transcripts")
    add(
        "--a2a-live",
        nargs="?",
        const="0",
        metavar="PORT",
        help="Serve a page that shows the run while it goes on, at this port (0: any free one)",
    )
    add("--a2a-markdown", metavar="FILE", help="Write the run's summary as Markdown, for a merge request")
    add(
        "--a2a-history-file",
        metavar="PATH",
        help="Append this run to a file of runs (JSON lines) and report changes over time",
    )
    add = parser.getgroup("a2a-protocol", "a2a: protocol").addoption
    add(
        "--a2a-conformance-profile",
        metavar="safe|standard|full",
        help="Checks to run: safe (for production), standard (each rule in one place) or full (default: standard)",
    )
    add(
        "--a2a-strict",
        action="store_const",
        const="on",
        help="Fail for violations of SHOULD requirements instead of warning",
    )
    add("--a2a-waivers", metavar="FILE", help="TOML file of known violations, each with a reason and an expiry date")
    add("--a2a-scenarios", metavar="FILE", help="TOML file of prompts that trigger special behaviour of the agent")
    add(
        "--a2a-direct",
        metavar="URL",
        help="URL of the agent itself, where the endpoint is a gateway before it that is compared with it",
    )
    parser.addini("a2a_config", "TOML file with the table [tool.a2a-bench], in place of pyproject.toml")
    # Rejected with the value hidden: a token in a command line is visible to every process of the machine.
    parser.addoption("--a2a-auth-token", dest="a2a_auth_token", action=_RejectToken, help=argparse.SUPPRESS)


class _RejectToken(argparse.Action):
    def __call__(self, parser: object, namespace: object, values: object, option_string: str | None = None) -> None:
        raise pytest.UsageError(
            "--a2a-auth-token: a token does not belong into a command line; put it into the environment variable "
            "A2A_AUTH_TOKEN, or name another variable with --a2a-auth-env NAME"
        )


def refuse_misspelt(args: list[str], parser: pytest.Parser) -> None:
    """Name the nearest option to each ``--a2a-...`` that is none; pytest's own message names no other.

    :raises pytest.UsageError: with a line for each.
    """
    if not any(argument.startswith("--a2a-") for argument in args):
        return
    namespace, unknown = parser.parse_known_and_unknown_args(args)
    wrong = [argument.partition("=")[0] for argument in unknown if argument.startswith("--a2a-")]
    if not wrong:
        return
    from pytest_a2a_bench.config.load import CORE
    from pytest_a2a_bench.text import nearest

    options = {name[4:].replace("_", "-") for name in vars(namespace) if name.startswith("a2a_")}
    lines = []
    for name in dict.fromkeys(wrong):
        found = nearest(name.removeprefix("--a2a-"), options.union(setting.key for setting in CORE.values()), 1)
        near = [f"--a2a-{key}" if key in options else f"--a2a-set {key}=VALUE" for key in found]
        lines.append(f"{name}: there is no such option{f'; did you mean {near[0]}?' if near else ''}")
    raise pytest.UsageError(*lines)


def may_rest(config: pytest.Config) -> bool:
    """Return whether no option, variable, table, node id, plugin or worker asks for this plugin."""
    options = vars(config.option)
    return not (
        hasattr(config, "workerinput")
        or any(name.startswith("a2a_") and value is not None for name, value in options.items())
        or any(
            name.startswith("A2A_") and not name.startswith("A2A_BENCH_") and value
            for name, value in os.environ.items()
        )
        or any(_is_ours(argument) for argument in config.args)
        or config.getini("a2a_config")
        or len(config.hook.pytest_a2a_bench_suites.get_hookimpls()) > 1
        or _has_table(config.rootpath / "pyproject.toml")
    )


def _is_ours(argument: str) -> bool:
    # Such a path may also be the user's own, which is for the selection to find out.
    path = argument.partition("::")[0].replace("\\", "/").lstrip("./")
    return path == "a2a" or path.startswith("a2a/")


def _has_table(path: Path) -> bool:
    try:
        return b"tool.a2a-bench" in path.read_bytes()
    except OSError:
        return False


def rest(config: pytest.Config, activate: Callable[[], None]) -> None:
    """Register only the markers, until a test requests a fixture of ours.

    :param activate: configures the plugin.
    """
    add_markers(config, markers())
    config.stash[_ACTIVATE] = activate


def is_resting(config: pytest.Config) -> bool:
    """Return whether the plugin has not been activated."""
    return _ACTIVATE in config.stash


def activate(config: pytest.Config) -> None:
    """Configure the plugin, unless that has been done."""
    configure = config.stash.get(_ACTIVATE, None)
    if configure is not None:
        del config.stash[_ACTIVATE]
        configure()


def add_markers(config: pytest.Config, lines: Iterable[str]) -> None:
    """Register markers that are not registered yet."""
    known = frozenset(config.getini("markers"))
    for line in lines:
        if line not in known:
            config.addinivalue_line("markers", line)


def markers() -> list[str]:
    """Return the lines that register the markers of the suites that come with this package."""
    return [
        *_MARKERS,
        *(f"{domain}: set on items of the benchmark domain {domain}, for -m." for domain in _DOMAINS.split()),
        *(f"{category}: set on items of the task category {category}, for -m." for category in _CATEGORIES.split()),
    ]


CONFORMANCE_MARKER = (
    "conformance(suite, *, group=None, level=None, id=None, binding=None, version=None): one item per "
    "requirement of the agent's card or of the protocol; the test takes the fixture 'conformance_check'. "
    "Items carry their own suite, group, level, id, binding and version, for -m "
    "'conformance(level=\"MUST\")'."
)
_MARKERS = (
    "tau2(domain, *, split=None, trials=None, tasks=None, label=None): one item per trial of the tasks of"
    " a tau2 domain; the test takes the fixture 'trial' (tasks: ids, glob patterns or a function of the "
    "id; label: for a task that is used twice).",
    "crmarena(domain, *, split=None, trials=None, tasks=None, label=None, category=None): one "
    "item per trial of the tasks of a crmarena domain; the test takes the fixture 'trial' (tasks: ids, glob patterns "
    "or a function of the id; label: for a task that is used twice).",
    "a2a_scenario(*says, answers=None, persona='', goal='', tools=None, policy='', criteria=(), "
    "max_turns=20, trials=None, label=None): one item per trial of the conversation that is described; "
    "the test takes the fixture 'trial' and asserts what has to come of it.",
    CONFORMANCE_MARKER,
)
_DOMAINS = """airline retail telecom mock banking_knowledge mini mini_interactive original b2b b2b_interactive b2c
b2c_interactive scenario"""
_CATEGORIES = """handle_time transfer_count best_region_identification top_issue_identification monthly_trend_analysis
case_routing named_entity_disambiguation policy_violation_identification knowledge_qa sales_amount_understanding
sales_cycle_understanding conversion_rate_comprehension lead_routing lead_qualification quote_approval
invalid_config wrong_stage_rectification activity_priority sales_insight_mining private_customer_information
internal_operation_data confidential_company_knowledge"""
