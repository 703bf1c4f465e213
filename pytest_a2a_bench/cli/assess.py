"""``a2a-bench assess``: serve the assessor, which platforms ask over A2A to evaluate an agent, until Ctrl-C.

With ``--once AGENT`` an assessor is started, asked to evaluate that agent, and stopped. The exit code is then 0 if
every trial could be evaluated, and 1 if not.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pytest_a2a_bench.a2a.config import Credentials
from pytest_a2a_bench.a2a.network import Guard, is_loopback, read_variable
from pytest_a2a_bench.benchmarks.crmarena.org.salesforce import read_credentials
from pytest_a2a_bench.cli import _settings
from pytest_a2a_bench.config.load import Loaded, lend_variables, read_env_file
from pytest_a2a_bench.config.settings import TAGGED_AGENTS, Settings
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError, raise_errors
from pytest_a2a_bench.language_models import limit_rate
from pytest_a2a_bench.listener import read_bind_address
from pytest_a2a_bench.redact import Secret, dump_json
from pytest_a2a_bench.results.store import save
from pytest_a2a_bench.text import waiting_for
from pytest_a2a_bench.tracing import NO_TRACING, Tracing, is_wanted, without_sdk_spans

if TYPE_CHECKING:
    from pytest_a2a_bench.assessor.server import Served
    from pytest_a2a_bench.assessor.terms import Terms
    from pytest_a2a_bench.platforms.once import Outcome, Wanted

DEFAULT_PORT = 9009

_NEEDED = ("uvicorn", "starlette", "sse_starlette", "sqlalchemy", "aiosqlite", "prometheus_client", "psutil")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_LOOPBACK = ("127.0.0.0/8", "::1/128")


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    _add_serving(parser)
    once = parser.add_argument_group("one assessment", "Ask for one assessment, print its result, and stop.")
    add = once.add_argument
    add("--once", metavar="AGENT", help="builtin:NAME, a URL, controller:URL, or a command ({port})")
    add("request", nargs="*", metavar="KEY=VALUE", help="Member of the request, such as domain=retail")
    add("--assessor", metavar="ASSESSOR", help="Another assessor, given as the agent is")
    add("--scenario", type=Path, metavar="FILE", help="scenario.toml for --once and --assessor")
    add("--assessor-auth-env", metavar="NAME", help="Variable with the assessor's token")
    add("--controller-auth-env", metavar="NAME", help="Variable with the controllers' token")
    add("--start-timeout", type=float, metavar="SECONDS", help="Timeout of each start (120)")
    add("--show-logs", action="store_true", help="Show the output of started programs")
    add("-o", "--output", type=Path, metavar="FILE", help="Write a leaderboard's file, too")
    add("--id", metavar="ID", help="The agent's id on the leaderboard")


def _add_serving(parser: ArgumentParser) -> None:
    several: dict[str, Any] = {"action": "append", "default": []}
    where = parser.add_argument_group("serving")
    where.add_argument("--host", default="127.0.0.1", help="Bind address (127.0.0.1)")
    where.add_argument("--port", type=int, help=f"Port; 0 for any free one ({DEFAULT_PORT})")
    where.add_argument("--card-url", metavar="URL", help="Public URL, behind a proxy")
    where.add_argument(
        "--results", metavar="DIR", type=Path, default=Path("a2a-assessments"), help="Directory (a2a-assessments)"
    )
    where.add_argument("--database-env", metavar="NAME", help="Variable with an SQLAlchemy URL (else SQLite)")
    who = parser.add_argument_group("who may call")
    who.add_argument("--auth-file", metavar="FILE", type=Path, help="Tokens, a line NAME=TOKEN for each caller")
    who.add_argument("--auth-env", metavar="NAME", help="Variable with the same, separated by commas")
    who.add_argument("--no-auth", action="store_true", help="Accept all, also from other machines")
    who.add_argument("--operator", metavar="NAME", help="Caller who sees all assessments (repeatable)", **several)
    what = parser.add_argument_group("what requests may name (repeatable)")
    what.add_argument("--allow-cidr", metavar="RANGE", help="Private addresses, such as 172.16.0.0/12", **several)
    what.add_argument("--allow-model", metavar="MODEL", help="User's model; default: the first", **several)
    what.add_argument("--allow-retrieval", metavar="NAME", help="For banking_knowledge; default: the first", **several)
    what.add_argument("--agent-token", metavar="NAME=ORIGIN", help="Token, for https://HOST:PORT only", **several)
    what.add_argument("--allow-builtin", action="store_true", help="builtin:NAME as the agent")
    limits = parser.add_argument_group("limits")
    for name, kind, default, help in _LIMITS:
        shown = f" ({default:g})" if default is not None else ""
        limits.add_argument(f"--{name}", metavar="N", type=kind, default=default, help=f"{help}{shown}")
    _settings.add_arguments(
        parser,
        about="As in pytest, A2A_* variables and [tool.a2a-bench]: judge-llm, tau2-data, crm-data, crm-org, "
        "mcp-bind, mcp-url, concurrency (4), timeout, max-steps, env-file, otel",
    )


_LIMITS: tuple[tuple[str, Callable[[str], Any], float | None, str], ...] = (
    ("max-assessments", int, 4, "Assessments at once; others wait"),
    ("max-per-caller", int, 2, "Assessments of one caller at once"),
    ("max-waiting", int, 100, "Waiting assessments of one caller"),
    ("max-trials", int, 500, "Trials of an assessment"),
    ("max-seconds", float, 6 * 3600.0, "Seconds of an assessment"),
    ("max-cost", float, None, "Reported dollars of an assessment"),
    ("model-rate", float, None, "Requests a second to users' and judges' models"),
    ("keep-days", float, None, "Days after which an assessment is deleted"),
)
_CONCURRENCY = 4
"""Conversations in flight of one assessment, unless the setting ``concurrency`` says otherwise."""


def run(namespace: Namespace) -> int:
    """Serve the assessor, or run one assessment."""
    for module in _NEEDED:
        if find_spec(module) is None:
            raise MissingExtraError(module, "assessor", detail="the assessor needs it")
    loaded = _settings.load_settings(namespace)
    if loaded.settings.env_file is not None:
        lend_variables(read_env_file(Path(loaded.settings.env_file)), os.environ)
    return _serve(namespace, loaded) if namespace.once is None and namespace.scenario is None else _run_once(namespace)


def _serve(namespace: Namespace, loaded: Loaded) -> int:
    settings = loaded.settings
    if "concurrency" not in loaded.sources:
        settings = replace(settings, concurrency=_CONCURRENCY)
    if alone := [name for name in _ONCE_ONLY if getattr(namespace, name)]:
        raise ConfigurationError(f"assess: {_option(alone[0])} goes with --once AGENT or --scenario FILE only")
    raise_errors(
        lambda: _settings.checked(loaded),
        lambda: _check_numbers(namespace),
        lambda: check_port(namespace.port),
        lambda: check_address(namespace),
        lambda: _guard(namespace),
        lambda: read_bind_address(settings.mcp_bind, settings.mcp_url, "the tools' server", any_port=True),
        lambda: _agent_tokens(namespace),
        lambda: settings.benchmark_options["crm_org"] == "local" or read_credentials(os.environ),
    )
    without_sdk_spans()
    from pytest_a2a_bench.assessor.monitoring import log_as_json
    from pytest_a2a_bench.assessor.server import ServerOptions, serve
    from pytest_a2a_bench.assessor.terms import Callers  # what these import is an extra

    callers = Callers.of(namespace.auth_file, namespace.auth_env)
    database = None
    if namespace.database_env is not None:
        database = read_variable("--database-env", namespace.database_env, os.environ)
    # What it keeps is its owner's alone: requests, transcripts, what tasks expected.
    os.umask(0o077)
    log_as_json()
    tracing = _tracing(settings.otel)
    if namespace.model_rate is not None:
        limit_rate(namespace.model_rate)
    port = DEFAULT_PORT if namespace.port is None else namespace.port
    options = ServerOptions(namespace.host, port, namespace.card_url, database)
    starting = contextlib.ExitStack()

    def announce(served: Served) -> None:
        starting.close()
        print(f"assessor answers at {served.url} (card {served.card_url}, Ctrl-C stops it)", flush=True)

    try:
        with starting:
            starting.enter_context(waiting_for("the benchmarks, which take seconds to load"))
            asyncio.run(serve(options, _terms(namespace, settings), callers, announce, tracing))
    except KeyboardInterrupt:
        pass
    finally:
        tracing.close()
    print("stopped", file=sys.stderr)
    return 0


def _tracing(otel: str) -> Tracing:
    if not is_wanted(otel, os.environ):
        return NO_TRACING
    from pytest_a2a_bench.tracing.otel import open_tracing  # needs the extra "otel"

    return open_tracing()


def _terms(namespace: Namespace, settings: Settings) -> Terms:
    from pytest_a2a_bench.assessor.terms import Terms

    is_private = not (namespace.auth_file or namespace.auth_env) and _serves_this_machine(namespace)
    return Terms(
        results=namespace.results.absolute(),
        at_once=namespace.max_assessments,
        per_caller=namespace.max_per_caller,
        waiting=namespace.max_waiting,
        max_tasks=namespace.max_trials,
        settings=settings,
        seconds=namespace.max_seconds,
        cost=namespace.max_cost,
        models=tuple(namespace.allow_model),
        retrievals=tuple(namespace.allow_retrieval),
        agent_tokens=_agent_tokens(namespace),
        guard=_guard(namespace),
        builtin=namespace.allow_builtin,
        keep=namespace.keep_days,
        operators=tuple(namespace.operator),
        is_private=is_private,
    )


def _guard(namespace: Namespace) -> Guard:
    ranges = list(namespace.allow_cidr)
    if _serves_this_machine(namespace):
        # A caller on this machine reaches its servers without us.
        ranges += _LOOPBACK
    return Guard.of(ranges)


def _agent_tokens(namespace: Namespace) -> dict[str, str]:
    """Return the variables with tokens for agents, each with the origin that it is for.

    :raises ConfigurationError: naming all that is wrong, but no token.
    """
    found, wrong = {}, []
    for text in namespace.agent_token:
        name, _, origin = text.partition("=")
        parts = urlsplit(origin) if _host_of(origin) else None
        if not _NAME.fullmatch(name):
            wrong.append("--agent-token: expected NAME=ORIGIN, with the name of an environment variable")
        elif parts is None or parts.scheme not in ("http", "https") or parts.path.strip("/") or parts.username:
            wrong.append(f"--agent-token {name}: expected {name}=https://HOST:PORT, the one place where it is sent")
        elif not os.environ.get(name, "").strip():
            wrong.append(f"--agent-token names {name}, which is not set in the environment; export {name}=... first")
        else:
            found[name] = origin
    if wrong:
        raise ConfigurationError(*wrong)
    return found


def _check_numbers(namespace: Namespace) -> None:
    wrong = []
    for name, _, _, _ in _LIMITS:
        value = getattr(namespace, name.replace("-", "_"))
        if value is not None and not (math.isfinite(value) and value > 0):
            wrong.append(f"--{name} is {value:g}; give a number above 0")
    if wrong:
        raise ConfigurationError(*wrong)


def check_port(port: int | None) -> None:
    """Check a port; raises ConfigurationError if it is none."""
    if port is not None and not 0 <= port <= 65535:
        raise ConfigurationError(f"--port is {port}; give 0 to 65535")


def check_address(namespace: Namespace) -> None:
    """Check where a server listens, and that callers from other machines need a token.

    :raises ConfigurationError: if something is wrong.
    """
    has_tokens = namespace.auth_file is not None or namespace.auth_env is not None
    no_auth = getattr(namespace, "no_auth", None)
    if has_tokens and no_auth:
        raise ConfigurationError("--no-auth contradicts --auth-file and --auth-env; give one of them")
    if namespace.card_url is not None and not (
        namespace.card_url.startswith(("http://", "https://")) and _host_of(namespace.card_url)
    ):
        raise ConfigurationError(f"--card-url is {namespace.card_url!r}; give http://HOST:PORT/ or https://...")
    if not has_tokens and not no_auth and not _serves_this_machine(namespace):
        beyond = f"--card-url {namespace.card_url}" if is_loopback(namespace.host) else f"--host {namespace.host}"
        raise ConfigurationError(
            f"{beyond} can be reached from other machines: give tokens with --auth-file or --auth-env"
            + (", or --no-auth where the network admits only those who may call" if no_auth is not None else "")
        )


def _host_of(url: str) -> str:
    """Return the host of a URL; empty for a text that is no URL."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _serves_this_machine(namespace: Namespace) -> bool:
    """Return whether callers are on this machine only: a card with another URL means that a proxy brings others."""
    return is_loopback(namespace.host) and (namespace.card_url is None or is_loopback(_host_of(namespace.card_url)))


# --- one assessment ---------------------------------------------------------------------------------------------------

_ONCE_ONLY = ("request", "assessor", "assessor_auth_env", "controller_auth_env", "start_timeout", "output", "id")


def _run_once(namespace: Namespace) -> int:
    from pytest_a2a_bench.cli._settings import terminable
    from pytest_a2a_bench.platforms.once import assess, make_file

    wanted = _wanted(namespace)
    try:
        with terminable():
            outcome = asyncio.run(assess(wanted))
    except KeyboardInterrupt:
        _say("interrupted; everything that was started is stopped")
        raise
    _show(outcome)
    if wanted.assessor.words and not namespace.assessor and not namespace.scenario and outcome.task_id:
        kept = namespace.results / outcome.task_id
        if kept.is_dir():  # a rejected request has none
            _say(f"conversations: {kept}")
    if namespace.output is not None and outcome.state == "completed":
        identities = {agent.role: agent.identity for agent in wanted.agents if agent.identity}
        save(namespace.output, dump_json(make_file(identities, outcome.data)))
        print(f"written to {namespace.output}")
    return 0 if outcome.is_good else 1


def _show(outcome: Outcome) -> None:
    for text in outcome.texts or [json.dumps(data, indent=1, ensure_ascii=False) for data in outcome.data]:
        print(text)
    if outcome.state != "completed":
        _say(f"the assessment ended as {outcome.state}")
    elif outcome.errors:
        _say(f"{outcome.errors} could not be evaluated")
    elif not outcome.is_good:
        _say("the assessor completed its task without a result")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _wanted(namespace: Namespace) -> Wanted:
    """Return the assessment that the arguments describe; raises ConfigurationError naming everything that is wrong."""
    from pytest_a2a_bench.platforms.once import Wanted
    from pytest_a2a_bench.platforms.process import ASSESSOR, Party, own_command, read_scenario

    scenario = read_scenario(namespace.scenario) if namespace.scenario else None
    given: dict[str, Any] = {}
    problems = list(_read_request(namespace.request, given))
    problems += [
        f"{_option(name)} contradicts --scenario"
        for name in ("once", "assessor")
        if scenario and getattr(namespace, name)
    ]
    if namespace.start_timeout is not None and not namespace.start_timeout > 0:
        problems.append(f"--start-timeout {namespace.start_timeout:g}: give more than 0")
    if problems:
        raise ConfigurationError(*(f"assess: {problem}" for problem in problems))
    assessor: Party
    agents: tuple[Party, ...]
    if scenario is not None:
        assessor, agents = scenario.assessor, scenario.agents
    else:
        agents = (Party.read("agent", namespace.once, "--once"),)
        own = Party(words=own_command("assess", "--port", "{port}", *_serving_arguments(namespace)))
        assessor = Party.read(ASSESSOR, namespace.assessor, "--assessor") if namespace.assessor else own
    if namespace.id:
        agents = (agents[0].model_copy(update={"identity": namespace.id}), *agents[1:])
    if namespace.output is not None and not any(agent.identity for agent in agents):
        raise ConfigurationError("assess: --output needs --id, the agent's id on the leaderboard")
    config: dict[str, Any] = {**(scenario.config if scenario else {}), **given}
    if not _DOMAIN_KEYS & config.keys():
        config["domain"] = "airline"
    has_tasks = "conformance" not in (config.get(name) for name in _DOMAIN_KEYS)
    if has_tasks and any(agent.builtin in TAGGED_AGENTS for agent in agents):
        # They know the solution of a task by its name.
        config.setdefault("tag_trials", True)
    token, controller_token = namespace.assessor_auth_env, namespace.controller_auth_env
    return Wanted(
        assessor=assessor,
        agents=agents,
        config=config,
        say=_say,
        token=Credentials(read_variable("--assessor-auth-env", token, os.environ), token) if token else None,
        controller_token=Secret(read_variable("--controller-auth-env", controller_token, os.environ))
        if controller_token
        else None,
        start_seconds=namespace.start_timeout,
        seconds=namespace.max_seconds,
        echo=_say if namespace.show_logs else None,
    )


_DOMAIN_KEYS = {"domain", "env", "evaluation", "org_type", "task_category", "interactive"}
"""Members of a request that choose its tasks; without any it is tau2's airline."""


def _read_request(words: list[str], found: dict[str, Any]) -> Iterator[str]:
    """Read ``KEY=VALUE`` words into a dictionary, values as JSON where they are; yield the problems."""
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            yield f"{word!r} is not KEY=VALUE, such as domain=retail"
        elif key in found:
            yield f"{key} is given twice"
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value


def _serving_arguments(namespace: Namespace) -> Iterator[str]:
    """Yield the arguments with which another process serves as these say, beside the port."""
    parser = ArgumentParser(add_help=False)
    _add_serving(parser)
    for action in parser._actions:
        value = getattr(namespace, action.dest)
        if action.dest == "port" or value == action.default:
            continue
        for one in value if isinstance(value, list) else [value]:
            yield action.option_strings[-1]
            if one is not True:
                yield str(one)


def _option(name: str) -> str:
    return "KEY=VALUE" if name == "request" else f"--{name.replace('_', '-')}"
