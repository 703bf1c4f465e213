"""``a2a-bench doctor [URL]``: what is installed and found, and what else there is to install, on one screen.

With the URL of an agent (or builtin:NAME) also what its card says, which dialect it speaks, how long a turn takes and
what runs will take: two messages are sent. Exits with 1 where that agent cannot be met, or where its card names
a URL that no client can call.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.cli import _settings
from pytest_a2a_bench.cli._meeting import CARD_ERROR, meet
from pytest_a2a_bench.cli._served import served
from pytest_a2a_bench.config.doors import of_command
from pytest_a2a_bench.config.load import not_default
from pytest_a2a_bench.config.settings import needs_tags
from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError
from pytest_a2a_bench.redact import redact_url
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
"""What stands before the reason where an agent that was named could not be met."""


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("endpoint", nargs="?", metavar="URL", help="an agent to meet, or builtin:NAME")
    parser.add_argument("--json", action="store_true", help="print a JSON array of objects with what and found")
    parser.add_argument(
        "--settings", action="store_true", help="show each setting that is not a default, and its source"
    )
    _settings.add_arguments(parser)


def run(namespace: Namespace) -> int:
    """Print the report. What is missing is what it is for; only an agent that was named has to be there."""
    if namespace.settings:
        return _show_settings(namespace)
    said: list[Found] = []
    code = 0
    for what, found in report(namespace, os.environ):
        if what in (TROUBLE, CARD_ERROR):
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
    """Return what there is, and what was found of it."""
    yield from installed(environ)
    yield from _reach(namespace, environ)
    if namespace.endpoint:
        yield from _meet(namespace, environ)


def installed(environ: Mapping[str, str]) -> Iterator[Found]:
    """Return what is installed and set here."""
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
        yield requirement.removeprefix("pytest-a2a-bench"), _extra(requirement, purpose, modules)
    yield "LLM", _llm(environ)
    # Without its query: a key may stand there, and this screen is what people paste into issues.
    yield "A2A_ENDPOINT", redact_url(environ.get("A2A_ENDPOINT", "not set"), query=False)


def _extra(requirement: str, purpose: str, modules: Sequence[str]) -> str:
    """Report whether an extra is there. Most people need few of them, so that none that is absent is called a lack."""
    absent = [module for module in modules if not _importable(module)]
    if not absent:
        return "present"
    state = _NOT_THERE if len(absent) == len(modules) else f"in part, without {', '.join(absent)}"
    return f"{state}; only for {purpose}: pip install '{requirement}'"


def _unrelated() -> Iterator[Found]:
    """Yield a line about an unrelated distribution with tau2's name."""
    if _version("tau2") != _NOT_THERE and find_spec("tau2.registry") is None:
        yield "tau2", f"{_version('tau2')}, which is another project; run: pip uninstall tau2, then what [tau2] says"


def _meet(namespace: Namespace, environ: Mapping[str, str]) -> Iterator[Found]:
    """Describe what an agent is like."""
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
    endpoint = endpoint if endpoint.startswith(("http://", "https://")) else "https://agent.example"
    try:
        config = _settings.read_config(namespace, endpoint, environ)
    except ConfigurationError as error:
        yield "connection", of_command(namespace.options).words(str(error))
        return
    network = config.network
    usual = "this machine's" if network.system else network.ca_file or network.ca_dir or "httpx's own"
    own = f" and {network.roots.count('BEGIN')} of the setting ca" if network.roots else ""
    yield "authorities", f"{usual}{own}" if network.verify else "NONE: any certificate is accepted"
    yield "certificate", "one is shown" if network.chain else "none is shown"
    proxy = network.proxy_for(endpoint)
    yield "proxy", f"{redact_url(proxy) if proxy else 'none'} for {redact_url(endpoint, query=False)}"
    known = [config.auth.source if config.auth else "", config.oauth.id_source if config.oauth else ""]
    yield "credentials", ", ".join(filter(None, known)) or "none"


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
