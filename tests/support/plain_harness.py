"""How many faults of the plain agent the checks name, by the right requirement: ``python plain_harness.py NAME``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Container, Sequence

from mutation import Verdict, judge_url
from plain_agent import CALLERS
from plain_faults import PLAIN_FAULTS, PlainFault
from plain_http import Port

from pytest_a2a_bench.conformance.target import Breadth

FIRST, SECOND = (token.removeprefix("Bearer ") for token in CALLERS)
TIMEOUT = 6.0
AT_ONCE = 3


async def judge_plain(
    profile: str = "full", fault: str = "", breadth: Breadth = "full", ids: Container[str] | None = None
) -> Verdict:
    """Serve the agent, judge it by the requirements with these ids, all by default, and return what was found."""
    async with Port(profile, fault) as port:
        return await judge_url(port.url, ids, TIMEOUT, breadth, callers=(FIRST, SECOND))


async def judge_all(faults: Sequence[PlainFault]) -> dict[PlainFault, Verdict]:
    """Judge the agent with each fault."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(fault: PlainFault) -> tuple[PlainFault, Verdict]:
        async with slots:
            # By its own requirements: that is what it has to be named by, and the others cost their time.
            return fault, await judge_plain(fault.profile, fault.name, ids=set(fault.rules))

    return dict(await asyncio.gather(*map(one, faults)))


def survivors(verdicts: dict[PlainFault, Verdict]) -> list[str]:
    """Return what was not named by its own requirement: a line for each fault."""
    lines = []
    for fault, verdict in verdicts.items():
        if not verdict.rules & set(fault.rules):
            said = ", ".join(sorted(verdict.rules)) or "nothing"
            lines.append(f"{fault.profile}/{fault.name}: {' or '.join(fault.rules)} was broken, {said} was found")
    return lines


def main() -> None:
    """Print what survives, and the share that does not."""
    wanted = sys.argv[1:]
    faults = [f for f in PLAIN_FAULTS if not wanted or f.name in wanted or f.profile in wanted]
    verdicts = asyncio.run(judge_all(faults))
    lines = survivors(verdicts)
    print("\n".join(lines))
    print(f"{len(faults) - len(lines)} of {len(faults)} faults are named by their own requirement")


if __name__ == "__main__":
    main()
