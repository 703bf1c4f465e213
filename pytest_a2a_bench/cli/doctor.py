"""``a2a-bench doctor [URL]``: installed packages, data and extras that are missing, on one screen.

With the URL of an agent (or builtin:NAME) also what its card says, which dialect it speaks, how long a turn takes and
what runs will take: two messages are sent. Exits with 1 where that agent cannot be met, or where its card names
a URL that no client can call.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import statistics
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from pytest_a2a_bench.a2a.card import choose_interface
from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.a2a.session import AgentSession
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.conversation import Conversation, SessionReply
from pytest_a2a_bench.cli import _settings
from pytest_a2a_bench.cli._settings import served
from pytest_a2a_bench.config.load import not_default, of_command
from pytest_a2a_bench.config.settings import TAGGED_SKILL, needs_tags
from pytest_a2a_bench.errors import A2ABenchError, AgentOutcomeError, ConfigurationError
from pytest_a2a_bench.installation import NAME, install_command
from pytest_a2a_bench.model import Briefing, Event, Part, ToolReturned, ToolSpec, UserSaid
from pytest_a2a_bench.redact import redact_url
from pytest_a2a_bench.results.stats import count, duration
from pytest_a2a_bench.text import one_line

_CORE = ("pytest-a2a-bench", "pytest", "a2a-sdk", "httpx")
_EXTRAS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "pytest-a2a-bench[agents]": ("built-in agents (builtin:oracle)", ("uvicorn", "starlette", "sse_starlette")),
    "pytest-a2a-bench[assessor]": ("a2a-bench assess", ("sqlalchemy", "aiosqlite", "prometheus_client")),
    "pytest-a2a-bench[postgresql]": ("assessors that share a database", ("asyncpg",)),
    "pytest-a2a-bench[adk]": ("a2a-bench adk", ("google.adk",)),
    "pytest-a2a-bench[grpc]": ("agents over gRPC", ("grpc", "cryptography")),
    "pytest-a2a-bench[mcp]": ("tools over MCP (--a2a-tools mcp)", ("mcp_types", "uvicorn")),
    "pytest-a2a-bench[oauth]": ("OAuth 2 client credentials", ("authlib",)),
    "pytest-a2a-bench[acts]": ("tests in ACTS files (acts)", ("ruamel.yaml",)),
    "pytest-a2a-bench[xdist]": ("several workers (pytest -n)", ("xdist",)),
    "pytest-a2a-bench[ray]": ("workers on a Ray cluster", ("ray",)),
    "pytest-a2a-bench[cloud]": ("results at a URL, such as s3://", ("fsspec", "s3fs")),
    "pytest-a2a-bench[otel]": (
        "spans over OpenTelemetry",
        ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
    ),
    "pytest-a2a-bench[signatures]": ("signatures of agent cards", ("jwt", "cryptography", "rfc8785")),
}
_LLM_VARIABLES = ("A2A_AGENT_LLM", "A2A_USER", "A2A_JUDGE_LLM", "OPENAI_API_BASE", "OPENAI_BASE_URL")
_KEY_SUFFIX = "_API_KEY"
_KEY_WIDTH = 26
_NOT_THERE = "not installed"

Found = tuple[str, str]
TROUBLE = "not met"
"""The beginning of the line about an agent that could not be reached."""
WRONG = "connection"
"""The beginning of the line about settings that are wrong."""


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("endpoint", nargs="?", metavar="URL", help="an agent to meet, or builtin:NAME")
    parser.add_argument("--json", action="store_true", help="print a JSON array of objects with what and found")
    parser.add_argument(
        "--settings", action="store_true", help="show each setting that is not a default, and its source"
    )
    _settings.add_arguments(parser)


def run(namespace: Namespace) -> int:
    """Print the report. Missing packages are no failure; settings must be right, and a named agent reachable."""
    if namespace.settings:
        return _show_settings(namespace)
    said: list[Found] = []
    code = 0
    for what, found in report(namespace, os.environ):
        if what in (TROUBLE, CARD_ERROR, WRONG):
            code = 1
        said.append((what, found))
        if not namespace.json:
            print(f"{what:<18}{found}", flush=True)
    if namespace.json:
        print(json.dumps([{"what": what, "found": found} for what, found in said], indent=1, ensure_ascii=False))
    return code


def _show_settings(namespace: Namespace) -> int:
    """Print each setting that is not a default, its value (or why it is wrong) and its source."""
    loaded = _settings.load_settings(namespace)
    rows = []
    for setting, value, source in not_default(loaded, registry.every_setting()):
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        wrong = next(
            (one.removeprefix(start) for one in loaded.problems if one.startswith(start := f"{source.name}: ")), ""
        )
        shown = f"wrong: {wrong}" if wrong else redact_url(text, query=False)
        rows.append({"setting": setting.key, "value": shown, "source": source.name})
    if namespace.json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
    else:
        for row in rows:
            print(f"{row['setting']:<{_KEY_WIDTH}}{row['value']}  ({row['source']})")
        print(f"{len(rows)} of {len(registry.every_setting())} settings are set; all others have their defaults")
    _settings.checked(loaded)
    return 0


def report(namespace: Namespace, environ: Mapping[str, str]) -> Iterator[Found]:
    """Return the sections of the report with their lines."""
    yield from installed(environ)
    yield from _reach(namespace, environ)
    if namespace.endpoint:
        yield from _meet(namespace, environ)


def installed(environ: Mapping[str, str]) -> Iterator[Found]:
    """Return the installed packages and the settings of this machine."""
    yield "python", f"{platform.python_version()} ({sys.executable})"
    for name in _CORE:
        yield name, _version(name)
    yield from _unrelated()
    suites = registry.known()
    for suite in suites:
        if suite.examine is not None:
            yield from suite.examine(environ)
    everything = [*_EXTRAS.items(), *(extra for suite in suites for extra in suite.extras.items())]
    for requirement, (purpose, modules) in everything:
        yield requirement.removeprefix(NAME), _extra(requirement, purpose, modules)
    yield "an extra", f"is installed with {install_command('EXTRA')}"
    yield "LLM", _llm(environ)
    # Without its query: a key may stand there, and this screen is what people paste into issues.
    yield "A2A_ENDPOINT", redact_url(environ.get("A2A_ENDPOINT", "not set"), query=False)


def _extra(requirement: str, purpose: str, modules: Sequence[str]) -> str:
    """Report whether an extra is there. Most people need few of them, so that none that is absent is called a lack."""
    absent = [module for module in modules if not _importable(module)]
    if not absent:
        return "present"
    state = _NOT_THERE if len(absent) == len(modules) else f"in part, without {', '.join(absent)}"
    # One line says how ours are installed.
    remedy = "" if requirement.startswith(f"{NAME}[") else f": pip install '{requirement}'"
    return f"{state}; only for {purpose}{remedy}"


def _unrelated() -> Iterator[Found]:
    """Yield a line about an unrelated distribution with tau2's name."""
    if _version("tau2") != _NOT_THERE and find_spec("tau2.registry") is None:
        yield "tau2", f"{_version('tau2')}, which is another project; run: pip uninstall tau2, then what [tau2] says"


def _meet(namespace: Namespace, environ: Mapping[str, str]) -> Iterator[Found]:
    """Describe an agent: its card, dialect, latency and cost."""
    try:
        with served(namespace.endpoint) as url:
            tasks: dict[str, int] = {}
            for suite in registry.known():
                with contextlib.suppress(A2ABenchError, OSError, ValueError):
                    offered = suite.available() if suite.offered is None else suite.offered
                    tasks |= {domain: len(suite.load_tasks(domain, "base")) for domain in offered}
            config = _settings.read_config(namespace, url, environ)
            yield from meet(config, tasks, talk=not needs_tags(namespace.endpoint))
            shown = redact_url(namespace.endpoint, query=False)
            yield "protocol", f"not judged here: a2a-bench check {shown} does it, in seconds"
    except A2ABenchError as error:
        yield TROUBLE, one_line(of_command(namespace.options).words(str(error)), 1_000)


def _reach(namespace: Namespace, environ: Mapping[str, str]) -> Iterator[Found]:
    """Describe how requests to an agent would travel."""
    endpoint = namespace.endpoint or environ.get("A2A_ENDPOINT", "")
    known = endpoint.startswith(("http://", "https://"))
    endpoint = endpoint if known else "https://agent.example"
    try:
        config = _settings.read_config(namespace, endpoint, environ)
    except ConfigurationError as error:
        yield WRONG, of_command(namespace.options).words(str(error))
        return
    network = config.network
    usual = "this machine's" if network.system else network.ca_file or network.ca_dir or "httpx's own"
    own = f" and {network.roots.count('BEGIN')} of the setting ca" if network.roots else ""
    yield "authorities", f"{usual}{own}" if network.verify else "NONE: any certificate is accepted"
    yield "certificate", "one is shown" if network.chain else "none is shown"
    proxy = network.proxy_for(endpoint)
    where = redact_url(endpoint, query=False) if known else "https:// addresses of other machines"
    yield "proxy", f"{redact_url(proxy) if proxy else 'none'} for {where}"
    given = [config.auth.source if config.auth else "", config.oauth.id_source if config.oauth else ""]
    yield "credentials", ", ".join(filter(None, given)) or "none"


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return _NOT_THERE


def _importable(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _llm(environ: Mapping[str, str]) -> str:
    """Name the variables that are set. A key's value is never shown."""
    keys = sorted(name for name, value in environ.items() if name.endswith(_KEY_SUFFIX) and value)
    shown = [f"{name}={redact_url(environ[name], query=False)}" for name in _LLM_VARIABLES if environ.get(name)]
    return ", ".join([*shown, *(f"{name} is set" for name in keys)]) or "nothing configured (the user is scripted)"


TURNS = 10
"""Turns that a conversation is reckoned to take; the oracle's over airline, retail and telecom are 5 to 15."""

CARD_ERROR = "card error"
"""Title of a line about an interface URL that no client can call, and the URL that is used instead."""

NO_CALL = "no call"
"""Title of the line about an agent that called no tool, although the question needed one."""

_GUIDE = "https://github.com/pytest-a2a-bench/pytest-a2a-bench/blob/main/docs/guides/agents.md"
SECONDS = 30.0
"""Most seconds of a turn here, where no limit is named: a person waits for the answer."""
_USUAL_SECONDS = {field.name: field.default for field in dataclasses.fields(ClientConfig)}["timeout"]
_ORDER = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
_TOOL = ToolSpec("get_status", "Return the status of an order.", _ORDER)
_BRIEFING = Briefing("You serve a shop. Look up an order's status with the tool before you tell it.", (_TOOL,))
_STATUS = "held at customs"


def meet(config: ClientConfig, tasks: Mapping[str, int], *, talk: bool = True) -> Iterator[tuple[str, str]]:
    """Yield titles and texts: the card, the interface, the dialect, the time of a turn, how long a run will take.

    Two messages are sent, of one conversation.

    :param tasks: domain -> how many tasks it has, for the estimate.
    :param talk: whether it is talked to; an agent that only plays given tasks would refuse.
    :raises A2ABenchError: if the agent cannot be reached; lines found before that are yielded first.
    """
    if config.timeout == _USUAL_SECONDS:  # none was named
        config = dataclasses.replace(config, timeout=SECONDS)
    connection = AgentConnection(config)
    try:
        card = connection.wait_until_ready()
        skills = card.raw.get("skills")
        skills = skills if isinstance(skills, list) else []
        yield "agent", one_line(f"{card.title}, {count(len(skills), 'skill')}", 200)
        chosen = choose_interface(card, config.protocol, config.transport)
        others = [str(i) for i in card.interfaces if i != chosen]
        yield "interface", one_line(f"{chosen}" + (f"; also {', '.join(others)}" if others else ""), 400)
        yield from ((CARD_ERROR, one_line(note, 400)) for note in card.notes)
        if talk and TAGGED_SKILL in (one.get("id") for one in skills if isinstance(one, dict)):
            yield "dialect", "any; it plays tasks' reference solutions only: run pytest with --a2a-set tag-trials=on"
        elif talk:
            yield from _talk(connection, tasks)
    finally:
        connection.close()


class _Noted:
    """A session that keeps the message it sent first.

    :ivar sent: its parts as text.
    """

    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self.sent = ""

    @property
    def context_id(self) -> str | None:
        """The contextId that the server gave, once it did."""
        return self._session.context_id

    def send(self, parts: Sequence[Part], timeout: float | None = None) -> SessionReply:
        """Send one message and wait for the answer."""
        self.sent = self.sent or " ".join(part.text or str(part.data) for part in parts)
        return self._session.send(parts, timeout=timeout)


def _talk(connection: AgentConnection, tasks: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    session = connection.session()
    try:
        noted = _Noted(session)
        talk = Conversation(noted, _BRIEFING)
        seconds = []
        news: list[Event] = [UserSaid("What is the status of order A1?")]
        called = reported = False
        words = ""
        for _ in range(2):
            began = time.monotonic()
            try:
                said = talk.attempt(news)
            except AgentOutcomeError as error:
                # Also an agent for one job only may refuse this one.
                yield "dialect", one_line(f"not known, for it ended this conversation: {error}", 600)
                return
            seconds.append(time.monotonic() - began)
            if not said.calls:
                words = said.text or ""
                reported = _STATUS in words.lower()
                break
            called = True
            news = [ToolReturned(c.id, c.name, _STATUS) for c in said.calls]
        if called:
            name = talk.settled or talk.dialect
            yield "dialect", f"{name}: it called the tool and {'reported' if reported else 'did not report'} its result"
        else:
            # One that follows rules of its own may ask something first, and call tools in the tasks it was made for.
            yield (
                NO_CALL,
                f"asked for an order's status, it called no tool and said {one_line(words, 120)!r}; one that never "
                "calls a tool solves only tasks that need no call",
            )
            yield "it was sent", one_line(noted.sent, 1_000)
            yield "forms", f"of calls that are understood: {_GUIDE}"
        yield from (("finding", one_line(f"{f.message} [{f.rule}]: {f.raw}", 200)) for f in talk.findings[:5])
        yield "a turn", f"{statistics.median(seconds):.2f} s, of {count(len(seconds), 'turn')}"
        if talk.usage.tokens is not None:
            yield "tokens", f"{talk.usage.tokens:,} for this conversation"
        # An agent that calls no tool would get through none of these.
        if called:
            yield from _estimates(statistics.median(seconds), talk.usage.cost_usd, len(seconds), tasks)
    finally:
        session.finish()


def _estimates(turn: float, cost: float | None, turns: int, tasks: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    for domain, number in tasks.items():
        alone = number * TURNS * turn
        dollars = f", ${number * TURNS * cost / turns:.2f}" if cost is not None else ""
        yield (
            domain,
            f"{count(number, 'task')}: about {duration(alone)}, {duration(alone / 8)} with --a2a-concurrency 8{dollars}"
            f" (at {TURNS} turns a conversation)",
        )
