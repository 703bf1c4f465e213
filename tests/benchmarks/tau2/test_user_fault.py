"""Whose fault an end is: what accuses a user, and all that acquits it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from examples import sampled
from hypothesis import given
from hypothesis import strategies as st
from one_test import in_one_test
from tau2_agents import AGENTS
from tau2_phrases import read
from tau2_table import Speaker, load, part_of

from pytest_a2a_bench.benchmarks.tau2 import upstream
from pytest_a2a_bench.benchmarks.tau2.agent import GREETING
from pytest_a2a_bench.benchmarks.tau2.user.fault import FAREWELLS, MAX_TEXTS, Deed, Goal, find_fault
from pytest_a2a_bench.benchmarks.tau2.user.scenario import Scenario
from pytest_a2a_bench.benchmarks.tau2.user.script import goal_of, make_script
from pytest_a2a_bench.model import ToolCall, Turn, UserFault

CANCEL = Deed("cancel_reservation", {"reservation_id": "EHGLP3"})
BAGS = Deed("update_reservation_baggages", {"reservation_id": "EHGLP3", "total_baggages": 2})
LOOK = Deed("get_user_details", {"user_id": "emma_kim_9957"})
GOAL = Goal(
    Scenario("You want to cancel reservation EHGLP3.", "You are Emma Kim. Your user id is emma_kim_9957."),
    (LOOK, CANCEL),
)
PHONE = Goal(
    Scenario("Your mobile data is not working properly.", "You are John Smith. Your phone number is 555-123-2002."),
    (Deed("toggle_airplane_mode", {}, by_user=True),),
    tools=("toggle_airplane_mode", "check_status_bar"),
)
ASKED = "I will cancel reservation EHGLP3 and refund it to your card. Do you want me to proceed?"
STOP = "###STOP###"


def told(*texts: str | Turn, last: str = STOP) -> list[Turn]:
    """A conversation: the agent's texts with a user between them that says nothing of weight, and the user's end."""
    turns: list[Turn] = [Turn("agent", GREETING), Turn("user", "I want to cancel reservation EHGLP3.")]
    for text in texts:
        if isinstance(text, Turn):
            turns.append(text)
        else:
            turns += [Turn("agent", text), Turn("user", "All right.")]
    return [*(turns[:-1] if turns[-1].role == "user" else turns), Turn("user", last)]


def did(deed: Deed, *, error: bool = False, **changed: Any) -> Iterator[Turn]:
    """The agent's call of a tool, and its result."""
    yield Turn("agent", calls=(ToolCall(deed.name, {**deed.arguments, **changed}, "c1"),))
    yield Turn("tool", "no" if error else "ok", call_id="c1", tool=deed.name, error=error, requestor="agent")


def kind(turns: list[Turn], goal: Goal = GOAL, reason: str = "user_stop") -> str | None:
    found = find_fault(turns, reason, goal)
    return found.kind if found else None


@in_one_test(
    "text",
    [
        ASKED,
        "Shall I cancel EHGLP3? This action cannot be undone.",
        "I'm sorry to hear that. Could you please tell me your user ID?",
        "To help you I need:\n- your full name\n- your user id",
        "Thank you for contacting us! How can I help you today?",
        "One moment please, I am looking that up.",
    ],
)
@in_one_test("last", [STOP, "Yes, please go ahead. ###STOP###", "Thank you, no problem! ###STOP###"])
def test_a_user_that_leaves_instead_of_answering_is_at_fault(text: str, last: str) -> None:
    assert kind(told(*did(LOOK), text, last=last)) == "stopped-early"


def test_the_detail_says_what_was_open_and_what_both_said_last() -> None:
    fault = find_fault(told(ASKED, last="Yes! ###STOP###"), "user_stop", GOAL)
    assert fault == UserFault(
        "stopped-early",
        f"cancel_reservation was still to do and the agent wanted a yes to cancel_reservation ({ASKED!r}); "
        "the user: 'Yes! ###STOP###'",
    )
    assert "before it had what it wants" in fault.words


def test_a_yes_with_the_end_is_no_answer_even_where_the_offer_was_made_before() -> None:
    assert kind(told("It costs nothing. May I go on?", last="Yes, go ahead. ###STOP###")) == "stopped-early"
    assert kind(told("It costs nothing. May I go on?")) is None


def test_what_is_out_of_scope_is_what_the_scenario_does_not_hold() -> None:
    assert kind(told("May I have your user ID?", last="I do not know. ###OUT-OF-SCOPE###")) == "out-of-scope"
    assert kind(told(ASKED, last="###OUT-OF-SCOPE###")) == "out-of-scope"
    assert kind(told("What is your date of birth?", last="###OUT-OF-SCOPE###")) is None
    assert kind(told("What is your favourite colour?", last="###OUT-OF-SCOPE###")) is None


def test_nobody_was_transferred_without_a_word_of_it() -> None:
    assert kind(told(ASKED, last="###TRANSFER###")) == "left-for-transfer"
    assert kind(told("I could transfer you to a colleague, but first: " + ASKED, last="###TRANSFER###")) is None
    transfer = Deed("transfer_to_human_agents", {"summary": "s"})
    assert kind(told(*did(transfer), "You are being transferred to a human agent.", last="###TRANSFER###")) is None


def test_an_instruction_for_its_phone_is_something_to_answer() -> None:
    assert kind(told("Please turn off airplane mode."), PHONE) == "stopped-early"
    done = (
        Turn("user", calls=(ToolCall("toggle_airplane_mode", {}, "u1"),)),
        Turn("tool", "Airplane Mode is now OFF.", call_id="u1", requestor="user"),
    )
    assert kind(told(*done, "Please check the status bar."), PHONE) is None


@in_one_test(
    "text",
    [
        # refused, transferred
        "I am unable to cancel this reservation. Would you like a certificate instead?",
        "Unfortunately, basic economy cannot be cancelled. Do you want me to proceed with EHGLP3 anyway?",
        # claimed to have done what was not done: the user believed it
        "I have cancelled reservation EHGLP3. What is your user ID, for our records?",
        "Done! Could you tell me your user ID, for our survey?",
        "Your reservation EHGLP3 is now cancelled.",
        # took its leave
        "Is there anything else I can help you with?",
        "Can I help you with anything else today?",
        "Goodbye, take care!",
        # wanted nothing, or nothing that the user has
        "Thank you for getting in touch. I have noted what you said and will leave everything as it is.",
        "Reservation EHGLP3 is from JFK to SFO.",
        "Please allow 5 to 7 days.",
        "What is your date of birth?",
        "Would you rather fly on Monday?",
        # wanted a yes to something else
        "Shall I cancel reservation EHGLP7?",
        "Shall I send you a certificate of $50?",
    ],
)
@in_one_test("last", [STOP, "Great, thank you so much! ###STOP###"])
def test_what_the_agent_said_acquits_the_user(text: str, last: str) -> None:
    assert kind(told(*did(LOOK), text, last=last)) is None


@pytest.mark.parametrize(
    "last",
    [
        "No, that is too expensive. ###STOP###",
        "Never mind. ###STOP###",
        "I'd rather keep it, thanks. ###STOP###",
        "That isn't what I want. ###STOP###",
        "Forget it, I want to speak to a manager. ###STOP###",
    ],
)
def test_a_user_may_decline(last: str) -> None:
    assert kind(told(ASKED, last=last)) is None


def test_what_the_agent_did_acquits_the_user() -> None:
    assert kind(told(*did(CANCEL, reservation_id="EHGLP7"), ASKED)) is None
    # What failed changed nothing.
    assert kind(told(*did(CANCEL, reservation_id="EHGLP7", error=True), ASKED)) == "stopped-early"
    assert kind(told(*did(CANCEL), ASKED)) is None


def test_a_claim_is_no_lie_where_it_is_true() -> None:
    both = Goal(GOAL.scenario, (CANCEL, BAGS))
    question = "I have cancelled reservation EHGLP3. Shall I update the baggages of EHGLP3 to 2 bags now?"
    assert kind(told(*did(CANCEL), question), both) == "stopped-early"
    assert kind(told(question), both) is None


def test_an_earlier_refusal_counts_and_so_does_an_earlier_lie() -> None:
    assert kind(told("That is not possible, I am afraid.", ASKED)) is None
    assert kind(told("Reservation EHGLP3 has been cancelled.", "May I have your user ID?")) is None


def test_nobody_must_wait_for_an_agent_that_does_not_move() -> None:
    assert kind(told("May I have your user ID?", "May I have your user id?!")) is None
    assert kind(told("One moment, please.", "Please wait a moment.")) is None
    different = [f"Question {n}: what is your user ID?" for n in range(MAX_TEXTS + 1)]
    # The greeting is one of them.
    assert kind(told(*different[: MAX_TEXTS - 1])) == "stopped-early"
    assert kind(told(*different[:MAX_TEXTS])) is None
    assert kind(told(*different[:MAX_TEXTS], *did(LOOK), ASKED)) == "stopped-early"


def test_what_is_still_to_be_said_is_open_too() -> None:
    goal = Goal(GOAL.scenario, (), ("1,340",))
    assert kind(told("What is your user ID?"), goal) == "stopped-early"
    assert kind(told("It was 1340 dollars.", "What is your user ID?"), goal) is None


def test_with_nothing_to_do_nothing_is_too_early() -> None:
    assert kind(told("What is your user ID?"), Goal(GOAL.scenario)) is None
    assert kind(told("What is your user ID?"), Goal(GOAL.scenario, (LOOK,))) is None


@pytest.mark.parametrize("reason", ["agent_stop", "agent_error", "max_steps", "too_many_errors"])
def test_only_who_ended_it_ended_it_too_early(reason: str) -> None:
    assert kind(told(ASKED), reason=reason) is None
    assert kind(told(ASKED, last="What do you mean by ###?")) is None


def test_a_user_that_does_not_go_is_at_fault_once_all_is_done() -> None:
    leave = [f"Goodbye! {n}" for n in range(FAREWELLS)]
    assert kind(told(*did(CANCEL), *leave, last="Bye!"), reason="max_steps") == "never-stopped"
    assert kind(told(*did(CANCEL), *leave[:-1], "What is your name?", last="Emma"), reason="max_steps") is None
    assert kind(told(*did(CANCEL), *did(BAGS), *leave, last="Bye!"), reason="max_steps") is None
    assert kind(told(*leave, last="Bye!"), reason="max_steps") is None
    assert kind(told(*leave, last="Bye!"), Goal(GOAL.scenario), reason="max_steps") is None


def test_what_tau2_says_of_the_user_is_taken_over() -> None:
    fault = find_fault(told(ASKED, last=" "), "user_error", GOAL)
    assert fault is not None
    assert (fault.kind, "refused" in fault.detail) == ("invalid-message", True)


def test_arguments_are_compared_as_upstream_does() -> None:
    gold = Deed("x", {"a": 1, "b": 2}, compared=("a",))
    assert gold.is_met_by(ToolCall("x", {"a": 1, "b": 3}))
    assert not gold.is_met_by(ToolCall("x", {"a": 2}))
    assert not Deed("x", {"a": 1}).is_met_by(ToolCall("x", {"a": 1, "b": 3}))
    assert Deed("x", {"a": 1}, compared=()).is_met_by(ToolCall("x", {}))


@given(
    st.lists(st.text(max_size=80) | st.sampled_from([ASKED, "Done.", "?", "Please tell me your id:\n- a"]), max_size=6),
    st.sampled_from(["user_stop", "max_steps", "user_error"]),
    st.sampled_from([STOP, "###TRANSFER###", "###OUT-OF-SCOPE###", ""]),
)
def test_no_text_breaks_it(texts: list[str], reason: str, last: str) -> None:
    find_fault(told(*texts, last=last), reason, GOAL)
    find_fault([], reason, GOAL)


# --- whole tasks: agents that wrap the golds, and what they are without their deeds ---


def held(domain: str, task: Any, agent: str, tools: tuple[str, ...]) -> list[Turn]:
    """Hold a conversation between a test agent and the scripted user, without an environment."""
    speaker = Speaker(part_of(domain, task, agent, "tuned"), agent)
    script, turns = make_script(task, tools), [Turn("agent", GREETING)]
    heard = script.hear(GREETING)
    while heard is not None and len(turns) < 300:
        number = len(turns)
        if isinstance(heard, tuple):
            turns.append(Turn("user", calls=(ToolCall(heard[0], heard[1], f"u{number}"),)))
            turns.append(Turn("tool", "done", call_id=f"u{number}", requestor="user"))
            heard = script.after_action(["done"])
            continue
        turns.append(Turn("user", heard))
        said = speaker.next(heard)
        while not isinstance(said, str):
            turns.append(Turn("agent", calls=(ToolCall(said[0], said[1], f"c{len(turns)}"),)))
            turns.append(Turn("tool", "ok", call_id=f"c{len(turns) - 1}", requestor="agent"))
            said = speaker.next("")
        turns.append(Turn("agent", said))
        heard = script.hear(said)
    return [*turns, Turn("user", STOP)]


def without_deeds(turns: list[Turn]) -> list[Turn]:
    """What an agent would have said that did nothing of it."""
    dropped = {c.id for t in turns if t.role == "agent" for c in t.calls if c.name in read("tuned").writes}
    return [t for t in turns if t.call_id not in dropped and not any(c.id in dropped for c in t.calls)]


@pytest.mark.parametrize(
    ("domain", "many"),
    sampled([("mock", 4), ("airline", 6), ("retail", 6), ("telecom", 4)], 2)
    + [pytest.param(domain, None, marks=pytest.mark.slow) for domain in ("mock", "airline", "retail", "telecom")],
)
def test_the_scripted_user_never_leaves_too_early(domain: str, many: int | None) -> None:
    """Neither with agents that do their work nor with such as only say so, and silence is no reason to accuse it."""
    tasks = load(domain)[:many]
    environment, _ = upstream.build_environment(upstream.load(), domain, tasks[0])
    tools = tuple(t.name for t in upstream.user_tools(environment, tasks[0]) or ())
    accused, seen = [], 0
    for task in tasks:
        goal = goal_of(task, tools)
        for agent in AGENTS:
            turns = held(domain, task, agent, tools)
            for conversation in (turns, without_deeds(turns)):
                fault = find_fault(conversation, "user_stop", goal)
                accused += [(agent, task.id, fault)] if fault else []
                seen += 1
    assert accused == []
    assert seen == 2 * len(AGENTS) * len(tasks)


def test_leaving_at_a_question_about_the_golds_is_mostly_seen() -> None:
    """The measure of misses: at each question of an agent that asks first, the user leaves instead of answering."""
    asked = found = 0
    for task in load("retail")[:30]:
        turns, goal = held("retail", task, "ask-first", ()), goal_of(task)
        open_until = max((n for n, t in enumerate(turns) if t.role == "agent" and t.calls), default=0)
        for number, turn in enumerate(turns[:open_until]):
            before = turns[number - 1].text or ""
            if turn.role == "user" and "?" in before and before not in (GREETING, *read("tuned").phrases["farewell"]):
                asked += 1
                found += find_fault([*turns[:number], Turn("user", STOP)], "user_stop", goal) is not None
    assert asked > 60
    assert found / asked > 0.9, f"{found} of {asked}"
