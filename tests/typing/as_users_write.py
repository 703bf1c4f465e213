"""The public API as its users write with it: no test, but what mypy and pyright, both strict, check."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, assert_type

import pytest
from pydantic import Field

from pytest_a2a_bench import (
    A2ABenchError,
    About,
    AgentConnection,
    AgentOutcomeError,
    AgentSession,
    BenchTask,
    Briefing,
    ClientConfig,
    Conversation,
    Gold,
    Outcome,
    Part,
    Player,
    ProtocolMetrics,
    Reward,
    Settings,
    Suite,
    ToolCall,
    ToolReturned,
    ToolSpec,
    TrialContext,
    TrialKey,
    TrialResult,
    Turn,
    Usage,
    UserSaid,
)
from pytest_a2a_bench.agents.brain import Brain, BrainReply
from pytest_a2a_bench.agents.brain import Conversation as AgentsConversation
from pytest_a2a_bench.agents.options import AgentOptions
from pytest_a2a_bench.config.setting import choice
from pytest_a2a_bench.conformance.card.judge import check_card
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.finding import Finding, Requirement
from pytest_a2a_bench.dialects import DecodedReply, DecodedRequest, Dialect
from pytest_a2a_bench.errors import LLMError, OwnFunctionError
from pytest_a2a_bench.model import AgentSaid, Event, RewardCheck
from pytest_a2a_bench.model.messages import DEFAULT_BOUNDS, Bounds
from pytest_a2a_bench.reports.contents import Contents

# --- tests of one's own -----------------------------------------------------------------------------------------------


@pytest.mark.tau2("airline", tasks=["1", "4"])
def asserts_on_a_trial(trial: TrialResult, bench_task: BenchTask) -> None:
    assert_type(trial.success, bool)
    assert_type(trial.reward, float)
    assert_type(trial.reward_info, Reward | None)
    assert_type(trial.turns, int)
    assert_type(trial.latency, float)
    assert_type(trial.key, TrialKey)
    assert_type(trial.agent_usage, Usage)
    assert_type(trial.agent_usage.cost_usd, float | None)
    assert_type(trial.transcript, tuple[Turn, ...])
    assert_type(trial.metrics, tuple[ProtocolMetrics, ...])
    names = [call.name for call in trial.tool_calls]
    assert_type(names, list[str])
    assert_type(trial.called("cancel_reservation"), tuple[ToolCall, ...])
    assert_type(trial.said(r"on its way"), tuple[str, ...])
    assert_type(bench_task.key(1), TrialKey)
    checks: tuple[RewardCheck, ...] = trial.reward_info.checks if trial.reward_info else ()
    assert_type([check.met for check in checks], list[bool])


def talks_to_the_agent(a2a_client: AgentConnection) -> None:
    session = a2a_client.session({"tenant": "example"})
    assert_type(session, AgentSession)
    try:
        reply = session.send([Part.of_text("Hello"), Part.of_data({"a": 1})], timeout=5.0)
    except AgentOutcomeError as error:
        assert_type(error.state, str)
    except (LLMError, OwnFunctionError, A2ABenchError) as error:
        assert_type(error.party, str | None)
    else:
        assert_type(reply.parts, tuple[Part, ...])
        assert_type(session.usage, Usage)
    with a2a_client as connection:
        assert_type(connection.card().raw, Mapping[str, Any])


@pytest.fixture(scope="session")
def a2a_client_config(a2a_client_config: ClientConfig) -> ClientConfig:
    return dataclasses.replace(a2a_client_config, max_retries=0)


def judges_a_card(card: Mapping[str, Any]) -> list[str]:
    findings: Sequence[Finding] = check_card(card)
    return [f"{finding.rule}: {finding.found}" for finding in findings]


# --- a benchmark of one's own -----------------------------------------------------------------------------------------


class Shop:
    name = "shop"

    def data_version(self, domain: str, settings: Settings) -> str:
        return f"{domain} 1"

    def run_trial(self, context: TrialContext) -> Outcome:
        briefing = Briefing("Be kind.", (ToolSpec("status", "Of an order.", {"type": "object"}),))
        talk = Conversation(context.session, briefing, context.settings.dialect, before_turn=context.checkpoint)
        said = talk.ask([UserSaid("Where is A1?")])
        assert_type(said, AgentSaid)
        turns = [Turn("user", "Where is A1?"), Turn("agent", said.text, calls=said.calls)]
        if said.calls:
            said = talk.ask([ToolReturned(call.id, call.name, "open") for call in said.calls])
        right = float("open" in (said.text or ""))
        return Outcome(Reward(right, ("STATE",), {"STATE": right}), "user_stop", tuple(turns), agent_usage=talk.usage)


def read_gold(domain: str, task_id: str, settings: Settings) -> Gold:
    return Gold((ToolCall("status", {"order": task_id}),), communicate=("open",))


def load_tasks(domain: str, split: str) -> list[BenchTask]:
    return [BenchTask("shop", domain, "a1", (split,))]


PLAYER = Player(read_gold=read_gold, writing=lambda domain: frozenset({"cancel"}))


@dataclass(frozen=True)
class ShopSettings:
    patience: Annotated[int, Field(ge=1), About("Turns after which the shop's user gives up", "N")] = 5
    mood: Annotated[str, *choice("good", "bad"), About("How the user is")] = "good"


SUITE = Suite(
    name="shop",
    domains=("orders",),
    available=lambda: ("orders",),
    splits=lambda domain: ("base",),
    load_tasks=load_tasks,
    benchmark="shop",
    player="golds",
    settings=ShopSettings,
    settings_prefix="shop_",
)


def pytest_a2a_bench_suites() -> Sequence[Suite]:
    return [SUITE]


# --- parts of one's own -----------------------------------------------------------------------------------------------


class Lines:
    name = "lines"

    def encode_request(self, briefing: Briefing | None, events: Sequence[Event]) -> tuple[Part, ...]:
        return tuple(Part.of_text(event.text) for event in events if isinstance(event, UserSaid))

    def decode_reply(
        self, parts: Sequence[Part], tools: Sequence[ToolSpec], bounds: Bounds = DEFAULT_BOUNDS
    ) -> DecodedReply:
        return DecodedReply(text="".join(part.text for part in parts))

    def decode_request(self, parts: Sequence[Part]) -> DecodedRequest:
        return DecodedRequest(None, tuple(UserSaid(part.text) for part in parts))

    def encode_reply(self, reply: AgentSaid) -> tuple[Part, ...]:
        return (Part.of_text(reply.text or ""),)

    def reminder(self) -> tuple[Part, ...]:
        return ()


LINES: Dialect = Lines()


class Clerk:
    description = "Says where orders are."

    async def reply(self, conversation: AgentsConversation) -> BrainReply:
        assert_type(conversation.history, list[Event])
        return BrainReply(AgentSaid("You are welcome."))


def make_agent(options: AgentOptions) -> Brain:
    assert_type(options.latency, float)
    return Clerk()


def as_csv(contents: Contents) -> str:
    return "\n".join(f"{trial.key},{trial.status},{trial.reward}" for trial in contents.trials)


async def names_its_provider(ctx: Context) -> None:
    if not ctx.target.card.get("provider"):
        ctx.fail("the card names no provider", pointer="/provider", fix="say who runs the agent")


def first_words(requirement: Requirement) -> str:
    return requirement.id
