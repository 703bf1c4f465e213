import asyncio
import contextlib
import functools
import gc
import importlib.util
import os
import signal
from collections.abc import Callable, Generator, Iterator
from types import SimpleNamespace

import examples
import httpx
import pytest
from in_thread import served_in_thread

from pytest_a2a_bench.agents.options import parse_spec

pytest_plugins = ["pytester", "connections", "browser"]

# Without the extra "dev" these tests cannot be imported, and somebody who only tries the README's first command from a
# clone did not ask for them.
collect_ignore_glob = [] if importlib.util.find_spec("hypothesis") else ["*"]


SECONDS_FOR_A_TEST = 900
"""No test takes a tenth of it on a busy machine."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--run-slow", action="store_true", help="Also run tests marked slow")


def pytest_configure(config: pytest.Config) -> None:
    # A run that hangs names the test. Not in pyproject.toml: README's first command is run from here without
    # pytest-timeout, and strict configuration refuses an option that no plugin knows.
    if getattr(config.option, "timeout", 0) is None:
        config.option.timeout = SECONDS_FOR_A_TEST
    if not collect_ignore_glob:
        from hypothesis import HealthCheck, settings

        # How long an example takes, or its making, tells how busy the machine is.
        many = 100 if config.getoption("--run-slow") else 40
        settings.register_profile(
            "steady", max_examples=many, deadline=None, suppress_health_check=[HealthCheck.too_slow]
        )
        settings.load_profile("steady")
    if hasattr(config, "workerinput"):
        return
    # In the background of a script Ctrl-C is ignored by all that is started there, and tests send it to processes.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # pytester forgets what a run in this process imported: LiteLLM is then imported anew by itself, where nobody
    # contains it, and would ask the network for its list of prices. Workers and processes inherit it.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    if config.getoption("--run-slow"):
        os.environ[examples.VARIABLE] = "1"


@pytest.fixture(scope="session", autouse=True)
def _servers_end_at_once_and_clients_start_at_once() -> Iterator[None]:
    """Let servers in this process end a tenth of a second earlier, and clients read the authorities of TLS once.

    There are a thousand of each.
    """
    # uvicorn looks ten times a second whether to end, and then gives connections the like of it in any case.
    hurried = SimpleNamespace(**vars(asyncio) | {"sleep": lambda seconds: asyncio.sleep(seconds / 10)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("uvicorn.server.asyncio", hurried)
        patch.setattr("httpx._transports.default.create_ssl_context", functools.cache(httpx.create_ssl_context))
        yield


@pytest.fixture(autouse=True)
def _signals_stay_whose_they_are() -> Iterator[None]:
    """Fail what leaves another handler of SIGTERM than it found: tests that follow in this process would inherit it."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    after = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, before)
    assert after == before


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # importlib_metadata, which LiteLLM imports, takes the place of the standard library's finder of distributions. If a
    # pytest run of pytester's imported it first, that would take it away again, and leave none. And the server, before
    # any thread logs a traceback, for which it parses: CPython 3.11 breaks where two threads parse at a time.
    for module in ("importlib_metadata", "pytest_a2a_bench.agents.server"):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    # Side by side they are one worker's, and the seconds that LiteLLM and SciPy take to import are spent once.
    items.sort(key=lambda item: not imports_much(item))
    if config.getoption("--run-slow") or "slow" in config.getoption("markexpr"):
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="slow; run with --run-slow"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    # A quarter of a million objects come into being here and stay to the end: the collector need not look at them. By
    # default it runs for every 700 new ones, and finds little.
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 20, 20)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    # A worker that keeps to its own files imports and starts what these need once; idle ones take over from the others.
    if getattr(config.option, "numprocesses", None) and config.option.dist == "no":
        config.option.dist = "worksteal"


def imports_much(item: pytest.Item) -> bool:
    """Whether a test is of a module in which models are called, or these libraries are used in another way."""
    places = {"adk", "crmarena", "test_estimates.py", "test_inference.py"} & set(item.path.parts)
    return bool(places or {"fake_llm", "FakeLLM", "agents_model"} & vars(getattr(item, "module", item)).keys())


@pytest.fixture(scope="session")
def builtin() -> Iterator[Callable[[str], str]]:
    """Serve built-in agents by their spec, each once, and return their URLs.

    In threads of this process: one of its own takes two seconds of a processor to import what is imported here already.
    """
    from pytest_a2a_bench.agents.server import running

    with contextlib.ExitStack() as servers:

        @functools.cache
        def url_of(spec: str) -> str:
            return servers.enter_context(served_in_thread(lambda: running(parse_spec(spec)))).url

        yield url_of


@pytest.fixture(scope="session")
def noop_url(builtin: Callable[[str], str]) -> str:
    """URL of one built-in agent that does nothing, shared by all tests."""
    return builtin("noop")


@pytest.fixture(scope="session")
def oracle_url(builtin: Callable[[str], str]) -> str:
    """URL of one built-in oracle, shared by all tests; it needs ``--a2a-set tag-trials=on``."""
    return builtin("oracle")
