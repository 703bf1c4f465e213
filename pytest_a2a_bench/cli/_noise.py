"""Find the events of noise that a trial was lost to: run it again with fewer of them."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.agents.launcher import start_builtin
from pytest_a2a_bench.config.load import CORE
from pytest_a2a_bench.config.settings import NOISY, PLAIN, Settings, with_endpoint
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.reports.trial_text import noise_text
from pytest_a2a_bench.results.gates.noise import events_of
from pytest_a2a_bench.results.manifest import Manifest
from pytest_a2a_bench.results.stats import count
from pytest_a2a_bench.results.store import Store
from pytest_a2a_bench.trials.runner import Runner
from pytest_a2a_bench.trials.trial import Client

MOST = 10
"""Highest number of conversations to find the events."""


def is_lost(results: Sequence[TrialResult]) -> TrialResult | None:
    """Return the trial with noise that is to be explained: the only one among some, which was evaluated and missed."""
    lost = [r for r in results if r.key.agent == NOISY and r.status == "evaluated" and not r.success and events_of(r)]
    return lost[0] if len(lost) == 1 else None


def run(result: TrialResult, found: Manifest, options: Mapping[str, Any]) -> int:
    """Run the trial again with subsets of its events, and print the smallest that loses it.

    :param options: the settings of benchmarks.
    """
    events = {str(event["id"]): event for event in events_of(result)}
    print(f"\nwhich noise did it: the trial runs again, at most {MOST} times, with fewer of its {len(events)} events")
    settings = dataclasses.replace(_settings_of(found, options), noise=result.provenance["noise"]["rates"])
    builtin = start_builtin(settings.builtin, settings) if settings.builtin else None
    try:
        settings = with_endpoint(settings, builtin.url if builtin is not None else settings.endpoint, agents={})
        with AgentConnection(ClientConfig.from_settings(settings, os.environ)) as connection:
            smallest, tried = reduce(list(events), lambda some: _is_lost_with(some, result, settings, connection))
    finally:
        if builtin is not None:
            builtin.stop()
    if smallest is None:
        print(f"with all of them it succeeds now ({count(tried, 'conversation')} run): the agent varies by itself")
        return 0
    print(f"{count(tried, 'conversation')} run; {count(len(smallest), 'event')} suffices to lose it:")
    for name in smallest:
        print(f"  {noise_text(events[name])}")
    return 0


def _settings_of(found: Manifest, options: Mapping[str, Any]) -> Settings:
    """Return the settings of the plain trials of a run, and where its agent is."""
    endpoints = dict(each.partition("=")[::2] for each in found.endpoint.split())
    stored: dict[str, Any] = {
        name: tuple(v) if isinstance(v, list) else v for name, v in found.settings.items() if name in CORE
    }
    return Settings(**stored | {"endpoint": endpoints.get(PLAIN)}, benchmark_options=dict(options))


def reduce(
    events: Sequence[str], loses: Callable[[Sequence[str]], bool], most: int = MOST
) -> tuple[list[str] | None, int]:
    """Return the smallest set of events found that loses the trial, and the number of conversations.

    :param loses: holds a conversation with some events only, and returns whether it misses.
    :returns: None in place of the set where all of them do not lose it.
    """
    tried = 1
    if not loses(events):
        return None, tried
    smallest, parts = list(events), 2
    while len(smallest) > 1 and tried < most:
        size = -(-len(smallest) // parts)
        pieces = [smallest[at : at + size] for at in range(0, len(smallest), size)]
        others = [[e for e in smallest if e not in piece] for piece in pieces] if len(pieces) > 2 else []
        for some in [*pieces, *others]:
            if tried >= most:
                break
            tried += 1
            if loses(some):
                smallest, parts = some, 2
                break
        else:
            if size == 1:
                break
            parts = min(len(smallest), parts * 2)
    return smallest, tried


def _is_lost_with(events: Sequence[str], result: TrialResult, settings: Settings, connection: AgentConnection) -> bool:
    with tempfile.TemporaryDirectory() as directory:
        chosen = dataclasses.replace(settings, noise_events=tuple(events), agent=NOISY, resume=False)
        runner = Runner(chosen, Client(connection), Store(Path(directory)), "noise")
        again = runner.run(result.key)
    if again.status != "evaluated":
        raise ConfigurationError(f"the trial could not be run again: {again.error}")
    return not again.success
