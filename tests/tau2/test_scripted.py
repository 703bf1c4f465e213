"""The scripted user: states, answers, does its part, stops."""

from __future__ import annotations

from types import SimpleNamespace

from pytest_a2a_bench.benchmarks.tau2.scripted import MAX_ANSWERS, Scenario, Script

SCENARIO = Scenario(
    reason="You want to cancel reservation EHGLP3.",
    known="You are Emma Kim.\nYour user id is emma_kim_9957.",
    unknown="You do not remember the payment method.",
    instructions="If refused, insist once.",
)


def test_it_states_its_scenario_first() -> None:
    opening = Script(SCENARIO).hear("Hi! How can I help you today?")
    assert opening == "You want to cancel reservation EHGLP3.\nYou are Emma Kim.\nYour user id is emma_kim_9957."


def test_it_answers_what_the_scenario_knows() -> None:
    script = Script(SCENARIO)
    script.hear("Hi!")
    assert script.hear("Could you tell me your user id?") == "Your user id is emma_kim_9957."
    assert script.hear("Which payment method did you use?") == "I do not know that."
    assert script.hear("Shall I proceed?") == "Yes, please go ahead."


def test_it_stops_when_nothing_is_asked() -> None:
    script = Script(SCENARIO)
    script.hear("Hi!")
    assert script.hear("Your reservation is cancelled.") is None


def test_it_does_not_answer_for_ever() -> None:
    script = Script(SCENARIO)
    script.hear("Hi!")
    answers = [script.hear("Are you sure?") for _ in range(MAX_ANSWERS + 1)]
    assert all(isinstance(a, str) for a in answers[:-1])
    assert answers[-1] is None


def test_it_plays_its_own_tool_actions_before_it_stops() -> None:
    script = Script(SCENARIO, [("toggle_data", {}), ("reboot", {"hard": True})])
    script.hear("Hi!")
    assert script.hear("Please switch your data on.") == ("toggle_data", {})
    assert script.after_action(["on"]) == ("reboot", {"hard": True})
    assert script.after_action(["rebooted"]) == "I have done that. rebooted"
    assert script.hear("Good.") is None


def test_structured_and_plain_instructions() -> None:
    structured = SimpleNamespace(reason_for_call="a", known_info=None, unknown_info="b", task_instructions="c")
    assert Scenario.of(structured) == Scenario("a", "", "b", "c")
    assert Scenario.of("just do it").opening() == "just do it"
