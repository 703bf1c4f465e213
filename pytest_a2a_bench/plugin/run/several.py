"""Several agents in one run: which of the options do not go with that."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.config.values import split_named
from pytest_a2a_bench.nearest import did_you_mean


def problems(settings: Settings) -> Iterator[str]:
    """Say which options contradict each other, a line each."""
    names = ", ".join(settings.agents)
    if settings.transfer is not None:
        yield from _transfer_problems(settings, names)
    for option, value in (("--a2a-record", settings.record), ("--a2a-replay", settings.replay)):
        if value and len(settings.agents) > 1:
            yield f"{option} has the conversations of one agent, and there are several ({names}); give one endpoint"
    if settings.auto and len(settings.agents) > 1:
        yield f"--a2a-trials auto is about one agent, and there are several ({names}); give one endpoint, or a number"
    name, _ = split_named(settings.baseline or "")
    if name is not None and settings.agents and name not in settings.under_test:
        near = did_you_mean(name, settings.agents)
        yield f"--a2a-baseline {name}=...: no agent under test is called {name}; there is: {names}{near}"


def _transfer_problems(settings: Settings, names: str) -> Iterator[str]:
    if settings.transfer not in settings.agents:
        there = f"the endpoints are {names}" if names else "the endpoints have no names"
        there += did_you_mean(settings.transfer or "", settings.agents)
        yield (
            f"--a2a-set transfer={settings.transfer}: {there}; name both agents: "
            f"--a2a-endpoint a=URL --a2a-endpoint {settings.transfer}=URL"
        )
    elif len(settings.agents) < 2:
        yield f"--a2a-set transfer={settings.transfer}: there is no other agent that could transfer to it"
    if settings.tools == "mcp":
        yield (
            "transfer and --a2a-tools mcp exclude each other: an agent that calls tools by itself is in the "
            "middle of its turn when it transfers"
        )
