import asyncio
import functools
import importlib
import os
import pkgutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

import pluggy
import pytest
from _pytest.config import PytestPluginManager
from _pytest.fixtures import FixtureFunctionDefinition, FixtureManager
from harness import DESK, DESK_CONFTEST, DESK_TEST, ROOT, Bench

import pytest_a2a_bench.a2a.client
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.tau2 import upstream
from pytest_a2a_bench.language_models import load_litellm
from pytest_a2a_bench.redact import KNOWN

# What a run in this process imports must stay imported: pytester forgets every module that such a run brings in, and
# of two copies of a module each would have its own keys. To make some sixty modules anew is also half of what a short
# run costs. The same goes for the checks, which register themselves once.
for module in pkgutil.iter_modules(pytest_a2a_bench.__path__):
    if module.name != "tau2":  # which is for scripts, and imports tau2 with its language models
        importlib.import_module(f"pytest_a2a_bench.{module.name}")
for room in ("benchmarks", "conformance", "plugin", "reports", "results", "trials"):
    package = importlib.import_module(f"pytest_a2a_bench.{room}")
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
# And for tau2, whose classes check each other by identity: of two copies neither knows the other's messages.
upstream.load()


@functools.cache
def fixtures_of(module: str) -> ModuleType:
    """Return a module with the fixtures of one of pytest's, and nothing else."""
    found = ModuleType(module)
    members = vars(sys.modules[module]).items()
    vars(found).update({name: member for name, member in members if type(member) is FixtureFunctionDefinition})
    return found


@pytest.fixture(scope="session", autouse=True)
def _runs_look_once_for_what_stays_the_same() -> Iterator[None]:
    """Let runs in this process know which plugins are installed, and which fixtures pytest itself has.

    To find it anew is a third of a short run.
    """
    load, parse = PytestPluginManager.load_setuptools_entrypoints, FixtureManager.parsefactories
    installed = {point.name for point in entry_points(group="pytest11")}

    def load_if_there(manager: PytestPluginManager, group: str, name: str | None = None) -> int:
        return load(manager, group, name) if name is None or name in installed else 0

    def parse_few(manager: FixtureManager, *args: Any, **kwargs: Any) -> None:
        # Where an earlier pytest gives it no name, all is looked at.
        holder = kwargs.get("holder")
        if isinstance(holder, ModuleType) and holder.__name__.startswith("_pytest."):
            parse(manager, *args, **{**kwargs, "holder": fixtures_of(holder.__name__)})
        elif not type(holder).__module__.startswith("_pytest."):  # its plugins that are objects have none
            parse(manager, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PytestPluginManager, "load_setuptools_entrypoints", load_if_there)
        patch.setattr(FixtureManager, "parsefactories", parse_few)
        # Which each run's first line has: asked for, it is read from the metadata.
        patch.setattr("pluggy.__version__", pluggy.__version__, raising=False)
        yield


@pytest.fixture
def bench(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Run pytest with this plugin, far from this run's environment."""
    for name in list(os.environ):
        if name.startswith(("A2A_", "PYTEST_", "COLUMNS")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    # Not by -p, for which pytest reads the metadata of every installed distribution first.
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_a2a_bench.plugin")
    monkeypatch.setenv("COLUMNS", "160")
    # What a run leaves to the end of its process: benchmarks, and secrets of a run that was refused.
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(KNOWN, "_counts", Counter())
    monkeypatch.setattr(KNOWN, "_secrets", ())
    monkeypatch.setattr(KNOWN, "_texts", ())
    return Bench(pytester, monkeypatch)


@pytest.fixture(scope="session")
def litellm() -> Iterator[None]:
    """Import LiteLLM once for all runs in this process: pytester forgets what a run imports, and this takes seconds."""
    load_litellm()
    # LiteLLM asks for the thread's event loop; one that is made for it then is closed by nobody.
    with closing(asyncio.new_event_loop()) as loop:
        asyncio.set_event_loop(loop)
        yield
        asyncio.set_event_loop(None)


@pytest.fixture
def desk(bench: Bench, noop_url: str, request: pytest.FixtureRequest) -> Bench:
    """Run pytest on a benchmark without models or tools, whose tasks the module's DESK_TASKS or ``desk.tasks`` name."""
    bench.tasks(getattr(request.module, "DESK_TASKS", "ok"))
    bench.makepyfile(desk=DESK)
    bench.makeconftest(DESK_CONFTEST)
    bench.makepyfile(test_desk=DESK_TEST)
    return bench.with_options("--a2a-endpoint", noop_url)


@pytest.fixture
def oracle(bench: Bench, oracle_url: str) -> Bench:
    """Run pytest against the oracle that runs already: one that a run starts costs three seconds."""
    return bench.with_options("--a2a-endpoint", oracle_url, "--a2a-set=tag-trials=on")
