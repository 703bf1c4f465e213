"""The trials of several agents in one run: each is held by its agent's own runner, whose breaker is its own too."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.results.store import Store
from pytest_a2a_bench.trials.breaker import Opened
from pytest_a2a_bench.trials.runner import Runner
from pytest_a2a_bench.trials.stopping import Limits


class SideBySide:
    """Hands each trial to the runner of its agent.

    :param runners: by what keys call the agent: None where it has no name, and is the only one. They share store and
        limits.
    """

    def __init__(self, runners: Mapping[str | None, Runner]) -> None:
        self._runners = dict(runners)
        first = next(iter(self._runners.values()))
        self.store: Store = first.store
        self.limits: Limits = first.limits

    def run(self, key: TrialKey, cancel: threading.Event | None = None) -> TrialResult:
        """Run one trial; see :meth:`.Runner.run`."""
        return self._runners[key.agent].run(key, cancel)

    def give_up(self, key: TrialKey) -> TrialResult | None:
        """End a trial whose time is up; see :meth:`.Runner.give_up`."""
        return self._runners[key.agent].give_up(key)

    def opened(self, key: TrialKey) -> Opened | None:
        """Return what stopped the trials of a trial's agent in this process; None where nothing did. Never waits."""
        return self._runners[key.agent].opened

    def cancel_all(self) -> None:
        """Abort every request in flight."""
        for runner in self._runners.values():
            runner.cancel_all()
