"""One more turn proves whether a user ended its conversation too early: never of an agent that would not have acted."""

import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from builtin_server import on_loop, served
from fake_llm import FakeLLM, say
from llm_agent import as_user
from raw_agent import Request, raw_agent, rpc
from trials import run_against
from user_agents import ScriptedUsers, Speaker, served_brain

from pytest_a2a_bench.agents.brain import BrainError, Conversation
from pytest_a2a_bench.agents.brains import Oracle
from pytest_a2a_bench.agents.options import AgentOptions, parse_spec
from pytest_a2a_bench.agents.server import running
from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import AgentSaid, ExtraTurn, ToolCall, TrialKey, UserSaid
from pytest_a2a_bench.results.store import load_trial

pytestmark = pytest.mark.filterwarnings("ignore")  # LiteLLM warns about much, in threads of its own

KEY = TrialKey("tau2", "mock", "create_task_1")
[GOLD] = index.load_task_json(KEY.domain, KEY.task_id)["evaluation_criteria"]["actions"]
CREATE = ToolCall(GOLD["name"], GOLD["arguments"])
OPENING = "Please create a task called Important Meeting for user_1."
QUESTION = "I will create the task 'Important Meeting' for user_1. Do you want me to proceed?"

USERS = {
    "yes-and-stop": [OPENING, "Yes, but hurry up, no need to ask again. ###STOP###"],
    "fact-and-stop": ["I need a new task.", "It is called Important Meeting and is for user_1. ###STOP###"],
    "yes-and-transfer": [OPENING, "Yes, go ahead. And get me a human for my other matter. ###TRANSFER###"],
    "stop-at-once": [f"{OPENING} ###STOP###"],
    "yes-and-out-of-scope": [OPENING, "Yes. The rest I do not know. ###OUT-OF-SCOPE###"],
    "yes-to-another": [OPENING, "Yes, please do that for task_77 of user_2. ###STOP###"],
}
"""What users say in turn that end their conversations before an agent that asks first can do anything."""

Say = Callable[[Conversation], str | ToolCall | None]


def texts(conversation: Conversation) -> int:
    return sum(isinstance(event, UserSaid) for event in conversation.history)


def acts(conversation: Conversation) -> bool:
    return any(isinstance(event, AgentSaid) and event.calls for event in conversation.history)


def finisher(conversation: Conversation, deed: ToolCall = CREATE) -> str | ToolCall:
    """Ask first, act on whatever the user says to that, and be done."""
    if acts(conversation):
        return "The task has been created."
    return deed if texts(conversation) > 1 else QUESTION


def quick(conversation: Conversation) -> str | ToolCall:
    return "The task has been created." if acts(conversation) else CREATE


def wrong(conversation: Conversation) -> str | ToolCall:
    return finisher(conversation, ToolCall(CREATE.name, {**CREATE.arguments, "title": "Another Meeting"}))


def obedient(conversation: Conversation) -> str | ToolCall:
    return finisher(conversation, ToolCall("update_task_status", {"task_id": "task_77", "status": "completed"}))


def liar(conversation: Conversation) -> str:
    return QUESTION if texts(conversation) < 2 else "The task has been created. Is there anything else?"


def asker(conversation: Conversation) -> str:
    return f"{QUESTION} ({texts(conversation)})"


def looker(conversation: Conversation) -> str | ToolCall:
    if texts(conversation) < 2 or acts(conversation):
        return "One moment, please."
    return ToolCall("get_users", {})


def silent(conversation: Conversation) -> str | None:
    return QUESTION if texts(conversation) < 2 else None


FAILING: dict[str, Say] = {
    "yes-and-stop": liar, "fact-and-stop": wrong, "yes-and-transfer": asker, "stop-at-once": looker,
    "yes-and-out-of-scope": silent, "yes-to-another": obedient,
}  # fmt: skip

CASES = [
    pytest.param(
        user,
        parse_spec(f"noop?transport={transport}&reply={reply}"),
        streaming,
        id=f"{user}-{transport}",
        marks=[pytest.mark.slow] * ((number + place) % 3 > 0),
    )
    for number, user in enumerate(USERS)
    for place, (transport, streaming, reply) in enumerate(
        (t, s, r) for t in ("jsonrpc", "rest", "grpc") for s, r in (("on", "task"), ("off", "message"))
    )
    if number == 0 or place == 0
]
"""One user on every wire, and every user on one."""


def hold(folder: Path, agent: Say, lines: Sequence[str], options: AgentOptions | None = None, **more: Any) -> Any:
    """Hold one trial with a model as the user that says these lines, and return its result and the agent's brain."""
    brain = Speaker(agent)

    def user(request: dict[str, Any]) -> Any:
        return say(lines[min(sum(m["role"] == "assistant" for m in request["messages"]), len(lines) - 1)])

    with FakeLLM(user) as llm, on_loop(running(options or AgentOptions("noop"), brain)) as found:
        [result] = run_against(found.url, Settings(**as_user(llm), **more), [KEY], folder)
    return result, brain


@pytest.mark.parametrize(("user", "options", "streaming"), CASES)
def test_finishing_proves_an_early_end(tmp_path: Path, user: str, options: AgentOptions, streaming: str) -> None:
    agent = quick if user == "stop-at-once" else finisher
    result, brain = hold(tmp_path, agent, USERS[user], options, streaming=streaming)
    assert (result.status, result.reward, result.termination_reason) == ("evaluated", 0.0, "user_stop")
    assert result.extra_turn is not None
    assert (result.extra_turn.verdict, result.extra_turn.note) == ("proven", "")
    assert result.user_fault is not None
    assert result.user_fault.kind == "ended_before_the_write"
    assert "reward 1.0 with one more turn" in result.user_fault.detail
    assert "called create_task" in result.user_fault.detail
    assert result.transcript[result.user_fault.turn].text == USERS[user][-1]
    # The agent heard the words, and not the token.
    said = [event.text for event in brain.conversations[0].history if isinstance(event, UserSaid)]
    assert said[-1] == USERS[user][-1].partition(" ###")[0]
    assert len(brain.conversations) == 1
    result, _ = hold(tmp_path / "failing", FAILING[user], USERS[user], options, streaming=streaming)
    assert (result.status, result.reward, result.termination_reason) == ("evaluated", 0.0, "user_stop")
    assert result.user_fault is None
    assert result.extra_turn.verdict == ("not provable" if FAILING[user] is silent else "not reached")


def test_nothing_of_it_is_in_the_trial(tmp_path: Path) -> None:
    on, _ = hold(tmp_path / "on", finisher, USERS["yes-and-stop"], record=str(tmp_path / "tapes-on"))
    off, brain = hold(
        tmp_path / "off", finisher, USERS["yes-and-stop"], record=str(tmp_path / "tapes-off"), extra_turn=False
    )
    assert off.extra_turn is None
    assert off.user_fault is None
    recorded = [
        [exchange["request"]["message"]["parts"] for exchange in json.loads(path.read_text())["exchanges"]]
        for name in ("on", "off")
        for path in (tmp_path / f"tapes-{name}").rglob("*")
        if path.is_file()
    ]
    assert (len(recorded), len(recorded[0])) == (2, 1)
    assert recorded[0] == recorded[1]
    # An agent that is not there cannot go on.
    again, _ = hold(tmp_path / "again", finisher, USERS["yes-and-stop"], replay=str(tmp_path / "tapes-on"))
    assert (again.status, again.reward, again.extra_turn, again.user_fault) == ("evaluated", 0.0, None, None)
    assert texts(brain.conversations[0]) == 1
    assert on.extra_turn.requests == 2
    assert (on.extra_turn.agent_usage.input_tokens, on.extra_turn.agent_usage.cost_usd) == (22, 0.5)
    assert [(t.role, t.tool) for t in on.extra_turn.transcript] == [
        ("agent", None), ("tool", "create_task"), ("agent", None),
    ]  # fmt: skip
    for name in (
        "reward_info", "agent_usage", "user_usage", "findings", "dialect", "termination_reason", "turns", "cost",
        "seed",
    ):  # fmt: skip
        assert getattr(on, name) == getattr(off, name), name
    assert [(t.role, t.text) for t in on.transcript] == [(t.role, t.text) for t in off.transcript]
    assert (len(on.metrics), len(on.turn_latencies)) == (len(off.metrics), len(off.turn_latencies))
    expected = [[(m["role"], m["content"]) for m in r.simulation["messages"]] for r in (on, off)]
    assert expected[0] == expected[1]
    assert load_trial(Path(str(on.path))).extra_turn == on.extra_turn
    assert "extra_turn" not in json.loads(Path(str(off.path)).read_text())


@pytest.mark.parametrize("last", ["###STOP###", " ###TRANSFER### "])
def test_a_token_alone_has_no_words_to_deliver(tmp_path: Path, last: str) -> None:
    result, brain = hold(tmp_path, finisher, [OPENING, last])
    assert result.extra_turn == ExtraTurn(note="the user said nothing beside the token that ended the conversation")
    assert result.extra_turn.verdict == "not provable"
    assert (result.user_fault, texts(brain.conversations[0])) == (None, 1)


def test_a_trial_that_succeeds_or_in_which_too_much_was_done_has_no_extra_turn(tmp_path: Path) -> None:
    result, brain = hold(tmp_path, finisher, [OPENING, "Yes, please.", "Thank you! ###STOP###"])
    assert result.success
    assert (result.extra_turn, result.user_fault) == (None, None)
    assert texts(brain.conversations[0]) == 2
    deeds = [CREATE, CREATE]

    def eager(conversation: Conversation) -> str | ToolCall:
        return deeds.pop() if deeds else "It has been created."

    result, brain = hold(tmp_path, eager, [OPENING, "Thank you! ###STOP###"])
    assert (result.status, result.reward, result.termination_reason) == ("evaluated", 0.0, "user_stop")
    assert (result.extra_turn, result.user_fault, texts(brain.conversations[0])) == (None, None, 1)


@pytest.mark.parametrize("read_only", [False, True])
def test_only_missed_trials_without_a_fault_have_one_and_rewards_stay(tmp_path: Path, read_only: bool) -> None:
    keys = [TrialKey("tau2", "mock", task) for task in ("create_task_1", "update_task_1")]
    rewards = []
    with served_brain(Speaker(ScriptedUsers())) as user, served_brain(Oracle(read_only=read_only)) as agent:
        for extra_turn in (False, True):
            settings = Settings(user=f"a2a:{user}", tag_trials=True, extra_turn=extra_turn)
            results = run_against(agent, settings, keys, tmp_path / str(extra_turn))
            rewards.append([result.reward_info for result in results])
            assert [result.success for result in results] == [not read_only] * 2
            assert [result.extra_turn is not None for result in results] == [extra_turn and read_only] * 2
            assert not any(result.user_fault for result in results)
    assert rewards[0] == rewards[1]


def test_it_is_bounded_as_any_turn_and_breaking_in_it_costs_nothing(tmp_path: Path) -> None:
    for bound, most, tool in (("max-steps", 6, "get_users"), ("max-errors", 2, "no_such_tool")):

        def endless(conversation: Conversation, tool: str = tool) -> str | ToolCall:
            return QUESTION if texts(conversation) < 2 else ToolCall(tool, {})

        result, _ = hold(tmp_path / bound, endless, USERS["yes-and-stop"], None, **{bound.replace("-", "_"): most})
        assert (result.status, result.reward, result.user_fault) == ("evaluated", 0.0, None)
        assert result.extra_turn.verdict == "not provable"
        assert (result.extra_turn.note, result.extra_turn.requests) == (f"the conversation had reached {bound}", 2)

    def broken(conversation: Conversation) -> str:
        if texts(conversation) > 1:
            raise BrainError("no model")
        return QUESTION

    result, _ = hold(tmp_path, broken, USERS["yes-and-stop"])
    assert (result.status, result.reward, result.user_fault) == ("evaluated", 0.0, None)
    assert result.extra_turn.verdict == "not provable"
    assert "no model" in result.extra_turn.note


@pytest.mark.parametrize(
    ("contexts", "tasks", "state", "note"),
    [
        (["c1", "c2"], ["t1", "t2"], "COMPLETED", "the agent opened a new context"),
        (["c1"] * 3, ["t1", "t1", "t2"], "COMPLETED", "the agent had ended its task"),
        (["c1"] * 3, ["t1", "t1", "t1"], "INPUT_REQUIRED", ""),
        (["c1"] * 3, ["t1", "t2", "t3"], "COMPLETED", ""),
    ],
    ids=["new-context", "ended-task", "same-task", "a-task-a-turn"],
)
def test_a_new_start_is_no_proof(tmp_path: Path, contexts: list[str], tasks: list[str], state: str, note: str) -> None:
    turns = len(contexts)
    many = itertools.count()

    def handle(request: Request) -> Any:
        if "SendMessage" not in request.json["method"]:
            return rpc({"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_CANCELED"}}, request)
        turn = min(next(many), turns - 1)
        ended = state if turn >= turns - 2 or len(set(tasks)) == turns else "INPUT_REQUIRED"
        parts = [{"text": f"{QUESTION} ({turn})"}]
        message = {"messageId": f"m{turn}", "role": "ROLE_AGENT", "parts": parts}
        status = {"state": f"TASK_STATE_{ended}", "message": message}
        return rpc({"task": {"id": tasks[turn], "contextId": contexts[turn], "status": status}}, request)

    lines = iter([OPENING, *["Hm?"] * (turns - 2), "Yes, please. ###STOP###"])
    with served_brain(Speaker(lambda conversation: next(lines))) as user, raw_agent(handle) as agent:
        [result] = run_against(agent.url, Settings(user=f"a2a:{user}"), [KEY], tmp_path)
    assert (result.status, result.reward, result.user_fault) == ("evaluated", 0.0, None)
    assert result.extra_turn is not None
    assert result.extra_turn.note.startswith(note)
    assert result.extra_turn.verdict == ("not provable" if note else "not reached")


def test_a_user_that_never_stops_is_at_fault_once_all_is_done(tmp_path: Path) -> None:
    result, _ = hold(tmp_path, finisher, [OPENING, "Yes, please.", "Thank you."], max_steps=14)
    assert (result.reward, result.termination_reason) == (0.0, "max_steps")
    assert result.user_fault is not None
    assert result.user_fault.kind == "never_stopped"
    result, _ = hold(tmp_path, asker, [OPENING, "Yes, please."], max_steps=14)
    assert (result.reward, result.termination_reason, result.user_fault) == (0.0, "max_steps", None)


def test_a_guard_asks_again_and_holds_a_glued_stop_back(tmp_path: Path) -> None:
    lines = [OPENING, "Agent: I have created it.", "Yes, please. ###STOP###", "Thank you! ###STOP###"]
    said = iter(lines)
    brain = Speaker(finisher)
    with FakeLLM(lambda request: say(next(said))) as llm, served("noop", brain) as agent:
        [result] = run_against(agent.url, Settings(**as_user(llm), user_guard=True), [KEY], tmp_path)
    assert (result.reward, result.termination_reason, result.provenance["user_guard"]) == (1.0, "user_stop", True)
    assert [turn.text for turn in result.transcript if turn.role == "user"] == [OPENING, "Yes, please.", lines[-1]]
    assert {(fact.kind, fact.detail) for fact in result.user_facts} == {
        ("asked_again", "1 times"), ("stop_held_back", "1 times"),
    }  # fmt: skip
    # The model is told why, once, and does not read that it has stopped.
    last = llm.requests[-1]["messages"]
    assert [sum("cannot be used" in str(m["content"]) for m in r["messages"]) for r in llm.requests] == [0, 0, 1, 0]
    assert not any("###STOP###" in str(m["content"]) for m in last if m["role"] == "assistant")
