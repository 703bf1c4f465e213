"""What a run costs an agent: the plan against what arrives at the server, profiles and budgets."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Container
from typing import Any

import pytest
from faulty.agent import FaultyAgent
from faulty_server import serve_faulty

from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.cli.main import main
from pytest_a2a_bench.conformance.card import fetch_card_async
from pytest_a2a_bench.conformance.check import CHECKS, NoAnswer
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.cost.facts import facts_of
from pytest_a2a_bench.conformance.cost.plan import LEFT_OUT, STANDARD_MESSAGES, CostPlan, make_plan
from pytest_a2a_bench.conformance.cost.table import load_table
from pytest_a2a_bench.conformance.crossing import FILLING
from pytest_a2a_bench.conformance.engine import load_checks, mostly_waits, plan, run_checks
from pytest_a2a_bench.conformance.finding import CheckResult
from pytest_a2a_bench.conformance.requirements import requirement
from pytest_a2a_bench.conformance.scenarios import SCENARIOS, Scenarios
from pytest_a2a_bench.conformance.session.allowance import Allowance
from pytest_a2a_bench.conformance.session.session import Session
from pytest_a2a_bench.conformance.session.target import Breadth, Target, targets_of
from pytest_a2a_bench.reports.cost import headline

SENDING = ("SendMessage", "SendStreamingMessage")
BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
NO_PROMPTS = Scenarios()
EVERY_PROMPT = Scenarios({k: f"{k} please" for k in SCENARIOS if k not in ("default", "task", "other_token_env")})


def card_for(*bindings: str, **capabilities: bool) -> dict[str, Any]:
    """Return a card like the built-in agent's."""
    return {
        "name": "x",
        "supportedInterfaces": [
            {"url": "http://127.0.0.1:1/", "protocolBinding": b, "protocolVersion": "1.0"} for b in bindings
        ],
        "capabilities": {"streaming": True, "pushNotifications": True, "extensions": [{"uri": "u"}], **capabilities},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain", "application/json", "image/png"],
    }


def planned(card: dict[str, Any], prompts: Scenarios = NO_PROMPTS, **options: Any) -> CostPlan:
    return make_plan(plan(card), targets_of(card, "http://127.0.0.1:1/", scenarios=prompts), **options)


def counting(method: Callable[..., Any], arrived: Counter[str]) -> Callable[..., Any]:
    async def counted(agent: FaultyAgent, what: Any, caller: Any) -> Any:
        is_message = what.operation in SENDING
        arrived["all"] += is_message
        answer = await method(agent, what, caller)
        # What is refused is raised.
        arrived[what.binding] += is_message
        return answer

    return counted


async def judged(
    monkeypatch: pytest.MonkeyPatch,
    prompts: Scenarios,
    *,
    waiting: bool = False,
    version: str = "1.0",
    only: Container[str] = (),
    **options: Any,
) -> tuple[CostPlan, Counter[str], list[CheckResult]]:
    """Judge the correct agent, and count what arrives there: accepted messages by binding, and all.

    :param waiting: with the checks that depend on time, which may try again where the machine is busy.
    :param only: ids of the checks to make; all by default, but those that make tasks for as long as there are too few.
    """
    arrived: Counter[str] = Counter()
    for name in ("call", "stream"):
        monkeypatch.setattr(FaultyAgent, name, counting(getattr(FaultyAgent, name), arrived))
    async with serve_faulty(variant="full", step=0.05, protocol=version) as running:
        card, _, _ = await fetch_card_async(running.url)
        assert isinstance(card, dict)
        config = ClientConfig(endpoint=running.url)
        breadth: Breadth = "full" if options.get("profile") == "full" else "standard"
        targets: tuple[Target, ...] = targets_of(card, running.url, config=config, scenarios=prompts, breadth=breadth)
        every = [
            p
            for p in plan(card)
            if (waiting or not mostly_waits(p.requirement))
            and (p.requirement.id in only if only else p.requirement.id not in FILLING)
        ]
        cost = make_plan(every, targets, **options)
        chosen = run_checks(
            targets, planned=cost.chosen, allowance=Allowance(options["budget"]) if "budget" in options else None
        )
        results = [result async for result in chosen]
    return cost, arrived, results


def messages(cost: CostPlan) -> dict[str, int]:
    return {binding: n for (_, binding), n in cost.total.messages.items()}


@pytest.mark.parametrize("profile", ["standard", pytest.param("full", marks=pytest.mark.slow)])
@pytest.mark.parametrize("prompts", [NO_PROMPTS, pytest.param(EVERY_PROMPT, marks=pytest.mark.slow)])
@pytest.mark.parametrize("version", ["1.0", pytest.param("0.3", marks=pytest.mark.slow)])
def test_the_plan_is_what_arrives_at_the_agent(
    version: str, prompts: Scenarios, profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cost, arrived, results = asyncio.run(judged(monkeypatch, prompts, version=version, profile=profile))
    found = {b: arrived[b] for b in BINDINGS}
    if profile == "full" and prompts is EVERY_PROMPT:
        # Cells about tasks that work depend on time.
        assert all(found[b] >= n for b, n in messages(cost).items()), (found, messages(cost))
    else:
        assert found == messages(cost)
        assert arrived["all"] == cost.total.total
    assert bool(cost.left_out) == (profile == "standard" and max(messages(cost).values()) >= STANDARD_MESSAGES - 3)
    assert not [r.name for r in results if r.outcome in ("failed", "error")]


def test_what_makes_up_for_tasks_that_lack_makes_no_more_than_the_plan_says(monkeypatch: pytest.MonkeyPatch) -> None:
    cost, arrived, results = asyncio.run(judged(monkeypatch, NO_PROMPTS, only=FILLING, profile="full"))
    planned, most = messages(cost), cost.filling
    assert {r.requirement.id for r in results} == set(FILLING)
    assert all(planned.get(b, 0) <= arrived[b] <= planned.get(b, 0) + most for b in BINDINGS)
    assert arrived["all"] > most
    assert f"up to {most} messages to each interface" in headline(cost)


@pytest.mark.slow
def test_what_depends_on_time_sends_at_least_what_the_plan_says(monkeypatch: pytest.MonkeyPatch) -> None:
    cost, arrived, _ = asyncio.run(judged(monkeypatch, EVERY_PROMPT, waiting=True, profile="full"))
    assert all(arrived[b] >= n for b, n in messages(cost).items()), (arrived, cost.total)


def test_standard_is_enough_for_every_check_without_prompts() -> None:
    cost = planned(card_for(*BINDINGS))
    assert not cost.left_out
    assert 0 < max(messages(cost).values()) <= STANDARD_MESSAGES


def test_standard_leaves_out_what_is_beyond_its_messages_and_full_does_not() -> None:
    standard, full = (planned(card_for(*BINDINGS), EVERY_PROMPT, profile=p) for p in ("standard", "full"))
    assert STANDARD_MESSAGES - 3 <= max(messages(standard).values()) <= STANDARD_MESSAGES
    assert max(messages(full).values()) > STANDARD_MESSAGES
    assert not full.left_out
    assert all(reason.startswith(LEFT_OUT) for reason in standard.left_out.values())
    assert len(standard.rows) + len(standard.left_out) == len(full.rows)


def test_safe_sends_nothing_malformed_and_leaves_no_webhook() -> None:
    cost = planned(card_for(*BINDINGS), EVERY_PROMPT, profile="safe")
    groups = {row.planned.requirement.group for row in cost.rows}
    assert not groups & {"validation", "errors", "versioning"}
    assert {"send", "get-task", "list-tasks"} <= groups
    ids = {row.planned.requirement.id for row in cost.rows}
    assert not ids & {"PUSH-001", "PUSH-011", "PUSH-018", "JR-002"}


def test_a_budget_buys_the_checks_that_find_most() -> None:
    table = load_table()

    def power(cost: CostPlan) -> int:
        return len(set().union(*(table.kills.get(("1.0", r.planned.requirement.id), set()) for r in cost.rows)))

    found = [planned(card_for("JSONRPC"), budget=n) for n in (0, 5, 15, 30)]
    assert [cost.total.total <= n for cost, n in zip(found, (0, 5, 15, 30), strict=True)] == [True] * 4
    powers = [power(cost) for cost in found]
    assert powers == sorted(set(powers))
    # Five messages are a twelfth of all, and show far more than that.
    everything = power(planned(card_for("JSONRPC"), profile="full"))
    assert powers[1] > everything / 2


def test_a_budget_holds_at_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    cost, arrived, results = asyncio.run(judged(monkeypatch, NO_PROMPTS, budget=12))
    assert arrived["all"] <= 12
    assert cost.left_out
    assert not [r.name for r in results if r.outcome in ("failed", "error")]


def test_what_is_sent_before_is_not_counted_again() -> None:
    first, second = (
        row.sends.total
        for row in planned(card_for("JSONRPC")).rows
        if row.planned.requirement.id in ("SEND-001", "SEND-002")
    )
    assert (first, second) == (1, 0)


def test_every_fact_that_the_table_asks_about_is_there_and_every_check_of_it_exists() -> None:
    load_checks()
    (target,) = targets_of(card_for("JSONRPC"), "http://127.0.0.1:1/")
    known = set(facts_of(target, [("JSONRPC", "1.0")]))
    table = load_table()
    assert {name for rows in table.rows.values() for names, _ in rows for name in names} <= known
    nodes = {
        (version, node.removeprefix("crossed ")) for version, _, node in table.rows if not node.startswith("made ")
    }
    assert nodes <= {(version, id) for id, version in CHECKS}
    assert {id for version, id in table.kills if version == "0.3"} >= {"V03-SEND-005", "V03-RPC-003", "V03-CARD-002"}


def test_a_dry_run_sends_no_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", "builtin:echo", "--dry-run", "--binding", "JSONRPC", "--group", "send"]) == 0
    out = capsys.readouterr().out
    assert "1.0/SEND-001[JSONRPC]  1" in out
    assert "messages that " in out.splitlines()[-1]


@pytest.mark.parametrize("url", ["grpc://127.0.0.1:1", "not an address"])
def test_a_message_that_cannot_be_sent_is_not_told_of_as_unanswered(url: str) -> None:
    async def send() -> str:
        session = Session(Target("http://127.0.0.1:1/", {}, "1.0", "GRPC", url, timeout=2.0))
        with contextlib.suppress(NoAnswer):
            await Context(requirement("SEND-001"), session).send("Hello")
        await session.close()
        return session.left

    assert asyncio.run(send()) == ""


def test_the_profile_full_says_that_further_cells_cost_more() -> None:
    told = {profile: headline(planned(card_for("JSONRPC"), profile=profile)) for profile in ("standard", "full")}
    assert "every further cell" in told["full"]
    assert "every further cell" not in told["standard"]
