"""How many faults of the plain agent the checks name, by the right requirement: ``python plain_harness.py NAME``."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Container, Sequence

from mutation import OTHER_TOKEN_ENV, PROMPTS, Verdict
from plain_agent import CALLERS
from plain_faults import PLAIN_FAULTS, PlainFault
from plain_http import Port

from pytest_a2a_bench.a2a.config import ClientConfig, Credentials
from pytest_a2a_bench.conformance.card import check_card, fetch_card_async
from pytest_a2a_bench.conformance.engine import collect
from pytest_a2a_bench.conformance.session.target import Breadth, targets_of
from pytest_a2a_bench.errors import A2ABenchError

FIRST, SECOND = (token.removeprefix("Bearer ") for token in CALLERS)
TIMEOUT = 6.0
AT_ONCE = 3


async def judge_plain(
    profile: str = "full", fault: str = "", breadth: Breadth = "full", ids: Container[str] | None = None
) -> Verdict:
    """Serve the agent, judge it by the requirements with these ids, all by default, and return what was found."""
    verdict = Verdict()
    os.environ[OTHER_TOKEN_ENV] = SECOND
    async with Port(profile, fault) as port:
        try:
            card, served, findings = await fetch_card_async(port.url)
        except A2ABenchError as error:
            verdict.rules.add("CARD-001")
            verdict.lines.append(str(error))
            return verdict
        verdict.add_card(findings)
        if card is None:
            return verdict
        verdict.add_card(check_card(card, url=port.url, http=served))
        if isinstance(card, dict):
            auth = Credentials(FIRST) if profile == "guarded" else None
            config = ClientConfig(endpoint=port.url, auth=auth)
            with contextlib.suppress(A2ABenchError):
                found = targets_of(card, port.url, config=config, scenarios=PROMPTS, timeout=TIMEOUT, breadth=breadth)
                verdict.add(await collect(found, select=lambda p: ids is None or p.requirement.id in ids))
    return verdict


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
