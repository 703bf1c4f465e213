"""The hooks that this plugin calls: its whole extension contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_a2a_bench.benchmarks.registry import Suite
    from pytest_a2a_bench.model import TrialKey


@pytest.hookspec
def pytest_a2a_bench_suites() -> Sequence[Suite]:
    """Offer suites of your own.

    Called in every process (controller and workers) when the plugin or conftest that has it is registered, and again
    while pytest is configured, so implement it in a plugin or in the rootdir's conftest. What it returns must be the
    same everywhere and every time. Options that a suite brings (``Suite.options``) are declared when it is registered::

        def pytest_a2a_bench_suites():
            return [Suite(name="mine", domains=("desk",), available=..., splits=..., load_tasks=...)]

    :return: suites; each becomes a marker, and its domains names for ``--a2a-suite``.
    """
    raise NotImplementedError


@pytest.hookspec
def pytest_a2a_bench_dialects() -> Mapping[str, str]:
    """Offer dialects, for ``--a2a-dialect NAME``: ``{"yaml": "my_dialect:YAML"}``.

    This and the following hooks return what an entry point of the group of that name (``pytest_a2a_bench.dialects``)
    says for an installed distribution: names, and ``module:OBJECT`` for each, imported when the name is used. Implement
    them in a plugin or in the rootdir's conftest; built-in agents, which run in processes of their own, get them, too.

    :return: objects with the methods of :class:`~pytest_a2a_bench.dialects.reading.Dialect`. One that has
        ``recognises(parts)``, too, is what a built-in agent answers in that is addressed in it.
    """
    raise NotImplementedError


@pytest.hookspec
def pytest_a2a_bench_agents() -> Mapping[str, str]:
    """Offer built-in agents, for ``--a2a-endpoint builtin:NAME``.

    :return: functions of :class:`~pytest_a2a_bench.agents.options.AgentOptions` that return a
        :class:`~pytest_a2a_bench.agents.brain.Brain`. Each is called in the agent's own process.
    """
    raise NotImplementedError


@pytest.hookspec
def pytest_a2a_bench_users() -> Mapping[str, str]:
    """Offer simulated users, for ``--a2a-user llm:a2a-user/NAME``.

    :return: functions that get what a model would get that plays the user (a list of messages in OpenAI's form, and
        arguments such as ``tools``) and return its words, or a message with ``content`` and ``tool_calls``.
    """
    raise NotImplementedError


@pytest.hookspec
def pytest_a2a_bench_judges() -> Mapping[str, str]:
    """Offer judges, for ``--a2a-judge-llm a2a-judge/NAME``.

    :return: functions as those of :func:`pytest_a2a_bench_users`; what they return must be what the benchmark asks its
        judge for in these messages.
    """
    raise NotImplementedError


@pytest.hookspec
def pytest_a2a_bench_requirements() -> Mapping[str, str]:
    """Offer packs of requirements that are judged beside the protocol's.

    :return: sequences of pairs: a :class:`~pytest_a2a_bench.conformance.finding.Requirement` and its check, which is
        written as in :mod:`pytest_a2a_bench.conformance.context`.
    """
    raise NotImplementedError


@pytest.hookspec
def pytest_a2a_bench_observers() -> Mapping[str, str]:
    """Offer observers: all trials of the run are followed by each, in every process that runs trials.

    :return: instances of subclasses of :class:`~pytest_a2a_bench.trials.trial.TrialObserver`.
    """
    raise NotImplementedError


@pytest.hookspec
def pytest_a2a_bench_prepare_trial(key: TrialKey, metadata: dict[str, Any]) -> None:
    """Prepare one trial before its conversation starts.

    Called in the conversation's own thread, in the process that runs it (a worker under xdist), possibly long before
    the item's fixtures are set up, and once more before each time that the conversation is run again
    (``redeliver``). An exception ends the trial: an error of this package as infrastructure trouble, any
    other as a harness error.

    :param metadata: goes with every message of the trial; change it in place, e.g. ``metadata["tenant"] = str(key)``.
    """
    raise NotImplementedError
