"""``--a2a-noise`` as a user has it: plain and noisy trials, the gate, and the events in results."""

from pathlib import Path
from typing import Any

from commands import command
from harness import Bench, verdict_of

from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.gates.noise import events_of
from pytest_a2a_bench.results.store import Store

NOISE = ("--a2a-noise=tool-error=0.6,wrong=0.5", "-kmock and update_task_1 or create_task_1-")


def events(directory: Path) -> dict[str, list[Any]]:
    return {str(result.key): events_of(result) for result in Store(directory).read_all()}


def test_noise_costs_an_agent_that_does_not_read_errors(oracle: Bench) -> None:
    assert oracle(*NOISE, "--a2a-max-noise-loss=0.1").ret == 1
    gates = {gate["name"]: gate for gate in verdict_of(oracle)["gates"]}
    assert gates["every_trial"]["verdict"] == "pass"
    assert gates["robust"]["verdict"] != "pass"
    assert "after tool-error" in gates["robust"]["sentence"]
    found = events(oracle.path / "a2a-results")
    lost = next(key for key, some in found.items() if any(event["kind"] == "tool-error" for event in some))
    assert not any(some for key, some in found.items() if key.endswith(":plain"))
    shown = command("show", lost).out
    assert "not carried out; the agent read" in shown
    again = next(line for line in shown.splitlines() if line.startswith("run it again: "))
    assert "--a2a-noise tool-error=0.6,wrong=0.5 'a2a/mock::test_mock[noisy-" in again
    nodeid = again.rpartition(" ")[2].strip("'")
    assert "1 test collected" in oracle(*NOISE[:1], "--co", "-q", nodeid).stdout.str()
    refused = oracle.refused(nodeid).str()
    assert f"not found: {nodeid} (no such item with --a2a-split=base and without --a2a-noise" in refused
    # It is found without the events that did nothing.
    shown = command("show", "--why", lost).out
    assert f"--a2a-noise tool-error=0.6,wrong=0.5 {nodeid!r}" in shown
    assert "1 event suffices to lose it" in shown
    assert "tool-error: " in shown
    # By its node id, and at another agent than the run's.
    [nodeid] = [name for name, key in manifest.load(oracle.path / "a2a-results").nodeids.items() if key == lost]
    said = command("show", "--why", nodeid, "--set", "endpoint=builtin:careful").out
    assert "with all of them it succeeds now (1 conversation run)" in said
    # No leaderboard takes it.
    said = command("export", "tau2", "a2a-results", "-o", "t.json", "--agent", "noisy", code=2).err
    assert "trials with noise are no results of the benchmark" in said
    command("export", "tau2", "a2a-results", "-o", "t.json", "--agent", "plain")
