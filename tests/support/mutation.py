"""Judging the faulty agent: which checks notice which fault."""

import contextlib
import os
from collections.abc import Awaitable, Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from faulty.card import KEYS_PATH
from faulty.fault import Fault
from faulty_server import TOKENS, serve_faulty
from judged import Select, collect

from pytest_a2a_bench.a2a.config import ClientConfig, Credentials
from pytest_a2a_bench.conformance.card import check_card
from pytest_a2a_bench.conformance.card.fetch import fetch_card_async
from pytest_a2a_bench.conformance.finding import FOUND, CheckResult, Finding
from pytest_a2a_bench.conformance.scenarios import SCENARIOS, Scenarios
from pytest_a2a_bench.conformance.target import Target, targets_of
from pytest_a2a_bench.errors import A2ABenchError

OTHER_TOKEN_ENV = "A2A_BENCH_OTHER_TOKEN"
_NOT_PROMPTS = {"default": None, "task": None, "other_token_env": OTHER_TOKEN_ENV}
PROMPTS = Scenarios({key: text for key in SCENARIOS if (text := _NOT_PROMPTS.get(key, f"{key} please")) is not None})


@dataclass
class Verdict:
    """What was noticed.

    :param rules: ids of the requirements that the findings are about.
    :param lines: the findings for people.
    """

    rules: set[str] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)
    checked: set[str] = field(default_factory=set)

    def add_card(self, findings: list[Finding]) -> None:
        """Take in what was found in the card."""
        for finding in findings:
            self.rules.add(finding.rule)
            self.lines.append(f"{finding.rule}: {finding.found}")

    def add(self, results: tuple[CheckResult, ...]) -> None:
        """Take in what came of the checks."""
        for result in results:
            if result.outcome != "skipped":
                self.checked.add(result.requirement.id)
            if result.outcome in FOUND:
                self.rules.add(result.requirement.id)
                message = "; ".join(f.found for f in result.findings) or result.reason
                self.lines.append(f"{result.name} {result.outcome}: {message}")


def targets(
    url: str, card: Any, timeout: float = 5.0, breadth: str = "full", token: str = TOKENS[0]
) -> tuple[Target, ...]:
    """Return what is to be judged, with credentials where the card wants them."""
    interfaces = [i for i in card.get("supportedInterfaces", ()) if isinstance(i, dict)]
    grpc = tuple(dict.fromkeys(str(i["url"]) for i in interfaces if i.get("protocolBinding") == "GRPC"))
    old = [i for i in card.get("additionalInterfaces", ()) if isinstance(i, dict)]
    grpc += tuple(str(i["url"]) for i in old if i.get("transport") == "GRPC")
    auth = Credentials(token) if card.get("securitySchemes") else None
    config = ClientConfig(endpoint=url, auth=auth, allowed_origins=grpc)
    return targets_of(card, url, config=config, scenarios=PROMPTS, timeout=timeout, breadth=breadth)


async def judge(
    fault: Fault | None,
    variant: str = "auto",
    *,
    ids: Container[str] | None = None,
    step: float = 0.15,
    breadth: str = "full",
    transport: str = "all",
) -> Verdict:
    """Serve the agent in this process and run the checks with these ids; all by default."""
    async with serve_faulty(fault, variant, step=step, transport=transport) as running:
        return await judge_url(running.url, ids, breadth=breadth)


async def results_of(
    fault: str | Fault | None = None,
    variant: str = "full",
    *,
    select: Select | None = None,
    breadth: str = "standard",
    **serving: Any,
) -> tuple[CheckResult, ...]:
    """Serve the agent in this process with JSON-RPC alone, and return what the checks give that are selected."""
    async with serve_faulty(fault, variant, **{"step": 0.05, "transport": "jsonrpc", **serving}) as running:
        card, _, _ = await fetch_card_async(running.url)
        return await collect(targets(running.url, card, 10.0, breadth), select=select)


async def _keys(url: str, card: Any) -> Any:
    if not isinstance(card, dict) or not card.get("signatures"):
        return None
    async with httpx.AsyncClient() as client:
        answer = await client.get(url.rstrip("/") + KEYS_PATH)
        return answer.json() if answer.is_success else None


async def judge_again(judge: Callable[[], Awaitable[Verdict]]) -> Verdict:
    """Judge, and if there are findings once more; return the first verdict with the rules that both times are broken.

    For some checks measure time, and what a busy machine delays once is no finding about the agent.
    """
    verdict = await judge()
    if verdict.rules:
        again = await judge()
        verdict.rules &= again.rules
        verdict.lines += ["and again:", *again.lines]
    return verdict


async def judge_url(
    url: str,
    ids: Container[str] | None = None,
    timeout: float = 5.0,
    breadth: str = "full",
    callers: Sequence[str] = TOKENS,
) -> Verdict:
    """Run the checks with these ids, all by default, against an agent that is served already.

    :param timeout: seconds for an answer; some faults are noticed by there being none.
    :param callers: tokens of two callers, for an agent whose card wants them.
    """
    verdict = Verdict()
    os.environ[OTHER_TOKEN_ENV] = callers[1]
    try:
        card, served, findings = await fetch_card_async(url)
    except A2ABenchError as error:
        verdict.rules.add("CARD-001")
        verdict.lines.append(str(error))
        return verdict
    verdict.add_card(findings)
    if card is None:
        return verdict
    verdict.add_card(check_card(card, url=url, http=served, jwks=await _keys(url, card)))
    if not isinstance(card, dict):
        return verdict  # It names no interface that could be asked anything.
    with contextlib.suppress(A2ABenchError):
        found = targets(url, card, timeout, breadth, callers[0])
        verdict.add(await collect(found, select=lambda p: ids is None or p.requirement.id in ids))
    return verdict
