"""``a2a-bench doctor``: what is installed, what is found, and what is missing, on one screen."""

from __future__ import annotations

import os
import platform
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.cli import _connection
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.redact import redact_url

_CORE = ("pytest-a2a-bench", "pytest", "a2a-sdk", "httpx")
_EXTRAS: Mapping[str, tuple[str, ...]] = {
    "pytest-a2a-bench[agents]": ("uvicorn", "starlette", "sse_starlette"),
    "pytest-a2a-bench[assessor]": ("sqlalchemy", "aiosqlite", "prometheus_client"),
    "pytest-a2a-bench[grpc]": ("grpc", "cryptography"),
    "pytest-a2a-bench[mcp]": ("mcp_types", "uvicorn"),
    "pytest-a2a-bench[oauth]": ("authlib",),
    "pytest-a2a-bench[xdist]": ("xdist",),
    "pytest-a2a-bench[signatures]": ("jwt", "cryptography", "rfc8785"),
}
_LLM_VARIABLES = ("A2A_AGENT_LLM", "A2A_USER_LLM", "A2A_JUDGE_LLM", "OPENAI_API_BASE", "OPENAI_BASE_URL")
_KEY_SUFFIX = "_API_KEY"


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    _connection.add_arguments(parser)


def run(namespace: Namespace) -> int:
    """Print the report. It never fails: what is missing is what it is for."""
    print("\n".join([*report(os.environ), *_reach(namespace, os.environ)]))
    return 0


def report(environ: Mapping[str, str]) -> Iterator[str]:
    """Return the report's lines."""
    yield _line("python", f"{platform.python_version()} ({sys.executable})")
    for name in _CORE:
        yield _line(name, _version(name))
    suites = registry.known()
    for suite in suites:
        if suite.examine is not None:
            yield from (_line(title, text) for title, text in suite.examine(environ))
    everything = [*_EXTRAS.items(), *(extra for suite in suites for extra in suite.extras.items())]
    for requirement, modules in everything:
        missing = [module for module in modules if not _importable(module)]
        how = f"missing {', '.join(missing)}; run: pip install '{requirement}'"
        yield _line(requirement.removeprefix("pytest-a2a-bench"), how if missing else "present")
    yield _line("LLM", _llm(environ))
    # Without its query: a key may stand there, and this screen is what people paste into issues.
    yield _line("A2A_ENDPOINT", redact_url(environ.get("A2A_ENDPOINT", "not set"), query=False))


def _reach(namespace: Namespace, environ: Mapping[str, str]) -> Iterator[str]:
    """Say how requests to an agent would travel."""
    endpoint = environ.get("A2A_ENDPOINT", "")
    endpoint = endpoint if endpoint.startswith(("http://", "https://")) else "https://agent.example"
    try:
        config = _connection.read_config(namespace, endpoint, environ)
    except ConfigurationError as error:
        yield _line("connection", str(error))
        return
    network = config.network
    usual = "this machine's" if network.system else network.ca_file or network.ca_dir or "httpx's own"
    own = f" and {network.roots.count('BEGIN')} of --a2a-ca" if network.roots else ""
    yield _line("authorities", f"{usual}{own}" if network.verify else "NONE: any certificate is accepted")
    yield _line("certificate", "one is shown" if network.chain else "none is shown")
    proxy = network.proxy_for(endpoint)
    yield _line("proxy", f"{redact_url(proxy) if proxy else 'none'} for {redact_url(endpoint, query=False)}")
    known = [config.auth.source if config.auth else "", config.oauth.id_source if config.oauth else ""]
    yield _line("credentials", ", ".join(filter(None, known)) or "none")


def _line(what: str, found: str) -> str:
    return f"{what:<18}{found}"


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "not installed"


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
