"""Judging the judge: how many of the faulty agent's faults the checks notice, and which checks notice none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import NamedTuple

import pytest
from faulty.catalogue import FAULTS, SINGLE
from faulty.fault import VARIANTS, Fault
from faulty_server import start_faulty
from mutation import judge, judge_again, judge_url
from rotating import rotating

from pytest_a2a_bench.conformance.catalogue import load_requirements
from pytest_a2a_bench.conformance.target import Breadth

ENOUGH = 0.95
# Served at once: each waits more than it works, but there are only so many cores.
AT_ONCE = 3


UNBREAKABLE = {
    "VER-005": "the agent has no 0.3 interface beside the one of 1.0",
    "VER-008": "uvicorn and gRPC hand every header name over in lower case",
    "AUTH-010": "a test's agent is on the loopback address, where TLS is not wanted",
    "AUTH-011": "the same",
}
"""Requirements that no fault of this agent can break, and why."""


class Killed(NamedTuple):
    """One fault, and whose checks noticed it.

    :param own: ids of its own requirements whose checks noticed it.
    """

    fault: Fault
    own: tuple[str, ...]
    seconds: float


async def _kill(fault: Fault, slots: asyncio.Semaphore) -> Killed:
    async with slots:
        started = time.monotonic()
        verdict = await judge(fault, ids=set(fault.breaks))
        return Killed(fault, tuple(sorted(verdict.rules & set(fault.breaks))), time.monotonic() - started)


async def _kill_all(faults: Iterable[Fault]) -> list[Killed]:
    slots = asyncio.Semaphore(AT_ONCE)
    return list(await asyncio.gather(*(_kill(fault, slots) for fault in faults)))


def _idle(killed: list[Killed]) -> list[str]:
    """Return the requirements that have a check which notices no fault."""
    noticed = {id for k in killed for id in k.own}
    (version,) = {k.fault.version for k in killed}
    catalogue = load_requirements(version)
    card = {r.id for r in catalogue if r.bindings == ("card",)}
    return [r.id for r in catalogue if r.id not in noticed and not r.uncheckable and (r.check or r.id in card)]


def _blind(killed: list[Killed]) -> list[str]:
    """Return the faults that a requirement's check does not notice, although another one's does."""
    return [f"{k.fault.name}: {id}" for k in killed if k.own for id in k.fault.breaks if id not in k.own]


def _table(killed: list[Killed]) -> str:
    survivors = [k for k in killed if not k.own]
    idle, blind = _idle(killed), _blind(killed)
    lines = [
        f"faults {len(killed)}, killed {len(killed) - len(survivors)} ({1 - len(survivors) / len(killed):.1%})",
        *(f"  survives: {k.fault.name:32} {', '.join(k.fault.breaks)}: {k.fault.says}" for k in survivors),
        f"checks that kill nothing ({len(idle)}): {', '.join(idle)}",
        f"killed, but not by every requirement that it names ({len(blind)}): {', '.join(blind)}",
        "slowest: "
        + ", ".join(f"{k.fault.name} {k.seconds:.1f} s" for k in sorted(killed, key=lambda k: -k.seconds)[:5]),
    ]
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_correct_agent_has_no_finding(variant: str) -> None:
    with start_faulty(variant=variant, step=0.3) as agent:
        breadth: Breadth = "full" if variant in rotating(VARIANTS, len(VARIANTS), turn=1) else "standard"
        verdict = asyncio.run(judge_again(lambda: judge_url(agent.url, timeout=30.0, breadth=breadth)))

    assert verdict.rules == set(), verdict.lines
    assert len(verdict.checked) > 80


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["full", "guarded", "bare", "strict", "signed"])
def test_the_correct_agent_of_0_3_has_no_finding(variant: str) -> None:
    with start_faulty(variant=variant, protocol="0.3", step=0.3) as agent:
        verdict = asyncio.run(judge_again(lambda: judge_url(agent.url, timeout=30.0)))

    assert verdict.rules == set(), verdict.lines
    assert len(verdict.checked) > 25


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_almost_every_fault_is_noticed_by_a_check_of_what_it_breaks(
    version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # With those of 1.0 that 0.3 has, too; each in one place only is tried elsewhere.
    faults = [f for f in FAULTS.values() if f.name in SINGLE or f.name.endswith("@0.3")]
    killed = asyncio.run(_kill_all(f for f in faults if f.version == version))
    with capsys.disabled():
        print(f"\n{_table(killed)}")

    assert sum(bool(k.own) for k in killed) / len(killed) > ENOUGH
    assert set(_idle(killed)) == (set(UNBREAKABLE) if version == "1.0" else set())
    assert _blind(killed) == []


QUICK = (
    "sign-stale",
    "card-no-tags",
    "send-bare-task",
    "accept-empty-parts",
    "state-lower-case",
    "stream-no-final",
    "list-no-status-filter",
    "cancel-unknown",
    "push-no-auth",
    "json-500",
    "any-version-grpc",
    "no-scope",
    "old-parts-no-kind",
    "continue-terminal@0.3",
    "old-card-secret",
    "get-unknown@0.3@GRPC",
    *("old-no-get", "old-no-resubscribe", "old-other-id", "old-task-code", "old-no-kind", "old-states-of-1.0"),
    *("old-roles", "old-task-no-context", "old-data-list", "old-snake-case", "old-wrapped", "old-bare-events"),
    *("old-never-final", "never-block@0.3", "push-undeclared@0.3@JSONRPC"),
)


def test_faults_of_every_kind_are_noticed() -> None:
    killed = asyncio.run(_kill_all(FAULTS[name] for name in QUICK))

    assert [k.fault.name for k in killed if not k.own] == []


def test_a_correct_agent_is_left_in_peace() -> None:
    quick = {"SEND-001", "STREAM-002", "GET-001", "LIST-006", "CAN-002", "ERR-008", "VER-001", "DM-014", "EQ-003"}
    verdict = asyncio.run(judge(None, "full", ids=quick, breadth="standard"))

    assert verdict.lines == []
    assert verdict.checked == quick
