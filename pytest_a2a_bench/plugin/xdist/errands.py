"""What is done once for all workers: their controller does it when the first of them asks (``Suite.errands``)."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.errors import TransportError
from pytest_a2a_bench.plugin.run import partition
from pytest_a2a_bench.plugin.run.state import BenchRun
from pytest_a2a_bench.plugin.xdist.line import Line
from pytest_a2a_bench.settings import Settings

if TYPE_CHECKING:
    from pytest_a2a_bench.benchmarks.base import Errands


def join(config: pytest.Config, run: BenchRun) -> None:
    """Register what a process has to do with errands; in most runs nothing."""
    modules = _modules(run.settings)
    if not modules:
        return
    if run.worker is None:
        config.pluginmanager.register(Controller(run.settings, modules), "a2a-bench-errands")
        return
    channel = getattr(config, "workerinput", {}).get(partition.ERRANDS)
    if channel is not None:
        line = Line(channel)
        for name, module in modules.items():
            found = import_module(module)
            found.ask_through(partial(_ask, line, name))
            config.add_cleanup(partial(found.ask_through, None))


def _modules(settings: Settings) -> dict[str, str]:
    return {suite.name: module for suite in registry.known() if (module := suite.errands(settings))}


def _ask(line: Line, suite: str, question: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        answer: Mapping[str, Any] = json.loads(line.ask(suite, json.dumps(question)) or "{}")
    except OSError as error:
        raise TransportError(f"pytest-xdist's controller was asked for what all workers share: {error}") from error
    return answer


class Controller:
    """The controller's side.

    :param modules: by the name of their suite.
    """

    def __init__(self, settings: Settings, modules: Mapping[str, str]) -> None:
        self._settings = settings
        self._modules = modules
        self._lock = threading.Lock()
        self._opened: dict[str, Errands] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Give a worker a channel to ask on."""
        channel = node.gateway.newchannel()
        channel.setcallback(partial(self._begin, channel))
        node.workerinput[partition.ERRANDS] = channel

    def pytest_unconfigure(self) -> None:
        """Let go of what was opened."""
        with self._lock:
            for errands in self._opened.values():
                errands.close()
            self._opened.clear()

    def _begin(self, channel: Any, numbered: tuple[int, str, str]) -> None:
        # In execnet's receiving thread, on which this worker's reports wait.
        threading.Thread(target=self._answer, args=(channel, *numbered), name="a2a-errand", daemon=True).start()

    def _answer(self, channel: Any, number: int, suite: str, question: str) -> None:
        problem, answer = "", ""
        try:
            answer = json.dumps(self._errands(suite).answer(json.loads(question)))
        # Whatever it is: the worker waits for an answer.
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        # The worker is gone, and so is who asked.
        with suppress(OSError):
            channel.send((number, problem, answer))

    def _errands(self, suite: str) -> Errands:
        with self._lock:
            if suite not in self._opened:
                self._opened[suite] = import_module(self._modules[suite]).open_errands(self._settings)
            return self._opened[suite]
