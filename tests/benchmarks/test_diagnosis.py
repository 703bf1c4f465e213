"""Why a trial did not pass, told from results made by hand; real conversations are in tests/benchmarks/tau2."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from commands import command
from one_test import in_one_test

from pytest_a2a_bench.benchmarks.diagnosis import Diagnoser, Diagnosis, diagnose
from pytest_a2a_bench.benchmarks.tau2 import diagnosis as tau2
from pytest_a2a_bench.model import DialectFinding, Reward, ToolCall, TrialKey, TrialResult, Turn, UserFault
from pytest_a2a_bench.reports import trial_text
from pytest_a2a_bench.results.manifest import Manifest
from pytest_a2a_bench.results.store import Store

KEY = TrialKey("tau2", "airline", "1", 0)
READ = ("get_user_details", {"user_id": "u1"})
CANCEL = ("cancel_reservation", {"reservation_id": "R1"})
BAGS = ("update_reservation_baggages", {"reservation_id": "R1", "total_baggages": 2, "payment_id": "card_1"})

ASKED = "what was asked for"

Call = tuple[str, dict[str, Any]]


def result(
    gold: Sequence[Call],
    *made: Call | str,
    failing: Sequence[str] = ("DB",),
    communicate: Sequence[str] = (),
    user_gold: Sequence[Call] = (),
    errors: Sequence[str] = (),
    **more: Any,
) -> TrialResult:
    """Make a miss: calls are answered with their arguments, texts starting with ``user:`` are the user's."""
    turns: list[Turn] = [Turn("user", "I want to cancel R1 and pay with card_1, 2 bags.")]
    for number, what in enumerate(made):
        if isinstance(what, str):
            turns.append(Turn("user", what[5:]) if what.startswith("user:") else Turn("agent", what))
            continue
        name, arguments = what
        who: Any = "user" if name.startswith("toggle") else "agent"
        turns.append(Turn(who, calls=(ToolCall(name, arguments, f"c{number}"),)))
        turns.append(Turn("tool", "no", (), f"c{number}", name, name in errors, who))
    checks = [
        {"action": {"name": n, "arguments": a, "requestor": who, "compare_args": None}}
        for who, calls in (("assistant", gold), ("user", user_gold))
        for n, a in calls
    ]
    info = {
        "action_checks": checks,
        "db_check": {"db_match": "DB" not in failing},
        "communicate_checks": [{"info": text, "met": False} for text in communicate],
    }
    reward = Reward(0.0, tuple(failing), dict.fromkeys(failing, 0.0), info=info)
    values: dict[str, Any] = {"termination_reason": "user_stop", "transcript": tuple(turns), **more}
    return TrialResult(KEY, "evaluated", reward_info=reward, **values)


def without(call: Call, **other: Any) -> Call:
    return call[0], call[1] | other


CABIN = ("update_reservation_flights", {"cabin": "economy"})
AWAY = ("transfer_to_human_agents", {"summary": "?"})
UNREAD = (DialectFinding("unreadable-call", "cannot be read", '{"name": "cancel_reservation", "arguments": {'),)
THREE, THREE_WRONG = without(BAGS, total_baggages=3), "update_reservation_baggages with a wrong total_baggages"


@in_one_test(
    ("missed", "kind", "subject"),
    [
        (result([READ, CANCEL], READ, "Done."), "never-called", "cancel_reservation"),
        (result([CANCEL, BAGS], CANCEL, THREE), "wrong-argument", THREE_WRONG),
        # Whatever the order: what is there is there.
        (result([CANCEL, BAGS], BAGS, "Done."), "never-called", "cancel_reservation"),
        (result([CANCEL], CANCEL, "Done.", errors=["cancel_reservation"]), "call-failed", "cancel_reservation"),
        (result([], "Shall I cancel R1?", "user:Yes, please.", CANCEL), "forbidden-write", "cancel_reservation"),
        (result([], "One moment.", "user:Hurry up.", CANCEL), "unconfirmed-write", "cancel_reservation"),
        (result([BAGS], BAGS, BAGS), "repeated-write", "update_reservation_baggages"),
        (result([CANCEL], AWAY), "transferred", ""),
        (result([CANCEL, BAGS], BAGS, CANCEL), "order", ""),
        (result([CANCEL], CANCEL), "gold-unreached", ""),
        (result([], "Done.", user_gold=[("toggle_data", {})]), "never-instructed", "toggle_data"),
        (result([], "Toggle it.", ("toggle_roaming", {})), "misinstructed", "toggle_roaming"),
        (result([READ], READ, "It is $12.", failing=["COMMUNICATE"], communicate=["327"]), "told-wrong", ASKED),
        (result([READ], READ, "Done.", failing=["COMMUNICATE"], communicate=["327"]), "told-nothing", ASKED),
        (result([READ], "It is $12.", failing=["COMMUNICATE"], communicate=["327"]), "read-less", "get_user_details"),
        # The earliest cause.
        (result([CANCEL, BAGS], "Shall I?", THREE, AWAY), "wrong-argument", THREE_WRONG),
        (result([CANCEL, BAGS], AWAY, THREE), "transferred", ""),
        # A call that could not be read is why its tool was never called, unless another one was read.
        (result([READ, CANCEL], READ, "Done.", findings=UNREAD), "unreadable", "unreadable-call"),
        (result([CANCEL, BAGS], CANCEL, "Done.", findings=UNREAD), "never-called", BAGS[0]),
        # Messages that the task gives are nobody's doing.
        (
            result([BAGS], CANCEL, "What now?", provenance={"given_messages": 3}),
            "never-called", "update_reservation_baggages",
        ),
        # A value that the user named beside the needed one is the agent's choice.
        (
            result([CABIN], "Yes?", "user:Not business, make it economy.", without(CABIN, cabin="business")),
            "wrong-argument", "update_reservation_flights with a wrong cabin",
        ),
        # A write is unconfirmed only where nobody can have agreed.
        *(
            (result([], *said), kind, "cancel_reservation")
            for said, kind in (
                (["I will cancel R1. Please confirm with yes.", "user:yes", CANCEL], "forbidden-write"),
                (["I will cancel R1.", "user:Do that", CANCEL], "forbidden-write"),
                (["Hello!", "user:Off with it.", "I call your trip off, yes?", "user:yes", CANCEL], "forbidden-write"),
                (["Hello!", "user:Hurry up.", CANCEL], "unconfirmed-write"),
                ([CANCEL], "unconfirmed-write"),
            )
        ),
        # A frequent sentence is no loop in a conversation that ended properly.
        (
            result([CANCEL], *("I have noted that.", "user:Please cancel it.") * 6),
            "never-called", "cancel_reservation",
        ),
        (result([CANCEL], *[READ] * 6), "loop", "get_user_details"),
        (result([CANCEL], *[READ] * 6, "Is that all?"), "never-called", "cancel_reservation"),
    ],
)  # fmt: skip
def test_the_first_departure_from_the_gold(missed: TrialResult, kind: str, subject: str) -> None:
    found = diagnose(missed, tau2.DIAGNOSER)
    assert found is not None
    assert (found.kind, found.subject) == (kind, subject)


def test_a_diagnosis_says_both_values_what_was_seen_and_a_known_defect() -> None:
    found = diagnose(result([BAGS], without(BAGS, payment_id="card_9", total_baggages=3)), tau2.DIAGNOSER)
    assert found is not None
    assert 'payment_id: needed "card_1", was "card_9"; total_baggages: needed 2, was 3' in found.detail
    assert "nothing that it had read" not in found.detail
    unseen = diagnose(result([without(BAGS, payment_id="gift_7")], BAGS), tau2.DIAGNOSER)
    assert unseen is not None
    assert "(nothing that it had read or heard says the needed payment_id)" in unseen.detail
    doubted = result([CANCEL], "Done.", provenance={"corrected": {"tau2 1.0": ["gold", "state"]}})
    beside = diagnose(doubted, tau2.DIAGNOSER)
    assert beside is not None
    assert beside.kind == "never-called"
    assert "corrected upstream in tau2 1.0" in beside.doubt


LOOK: tuple[str, dict[str, str]] = ("reseat_sim_card", {})
PAID = ("book_reservation", {"payment_methods": [{"id": "a_1", "amount": 1}, {"id": "b_2", "amount": 2}]})


def _on_the_phone(*said: Call | str, **more: Any) -> TrialResult:
    key = TrialKey("tau2", "telecom", "1", 0)
    return dataclasses.replace(result([], *said, user_gold=[LOOK], **more), key=key)


@in_one_test(
    ("missed", "kind", "fact"),
    [
        (
            result([CANCEL], "Shall I cancel R1?", "user:Yes, please. ###STOP###"),
            "left-at-question",
            "the agent: 'Shall I cancel R1?'; the user: 'Yes, please. ###STOP###'",
        ),
        (
            _on_the_phone("Please reseat your SIM card.", "user:I have reseated it. ###STOP###"),
            "not-done",
            "the agent told it to (message 2); it said 'I have reseated it. ###STOP###' and did not call it",
        ),
        (_on_the_phone("Please take the SIM card out and in.", "user:reseat_sim_card()"), "not-done", "'reseat_sim"),
        (
            result([PAID], ("book_reservation", {"payment_methods": PAID[1]["payment_methods"][::-1]})),
            "other-order",
            "same members, other order",
        ),
        (
            result([without(CANCEL, name="Ann")], "Who?", "user:For Priya.", without(CANCEL, name="Priya")),
            "users-words",
            "the user said 'Priya'",
        ),
        (
            result(
                [("book_reservation", {"passengers": [{"first_name": "Mia"}]})],
                "Who flies?", "user:Mia, and Priya.",
                ("book_reservation", {"passengers": [{"first_name": "Mia"}, {"first_name": "Priya"}]}),
            ),
            "users-words",
            "the user said 'Priya'",
        ),
        (result([CANCEL]), "never-asked", "the user: 'I want to cancel R1"),
        (_on_the_phone(LOOK, "Done.", errors=["reseat_sim_card"]), "users-tool", "needed: reseat_sim_card"),
    ],
)  # fmt: skip
def test_facts_come_first_and_nobody_is_accused_without_proof(missed: TrialResult, kind: str, fact: str) -> None:
    found = diagnose(missed, tau2.DIAGNOSER)
    assert found is not None
    assert found.kind == kind
    assert fact in found.detail
    cause = trial_text.cause_of("tau2", kind)
    assert (cause.blame == "unproven") == (kind != "users-tool")
    assert not trial_text.sentence(missed, found).startswith("the nobody")


@in_one_test(
    ("more", "expected"),
    [
        ({"status": "infrastructure_error", "error_type": "ConnectError"}, Diagnosis("delivery", "ConnectError")),
        ({"status": "infrastructure_error", "error_type": "OwnFunctionError"}, Diagnosis("own-function")),
        ({"status": "harness_error", "error_type": "KeyError"}, Diagnosis("harness", "KeyError")),
        ({"status": "evaluator_error"}, Diagnosis("evaluator")),
        ({"status": "skipped"}, None),
        ({"status": "not_run"}, None),
        ({"status": "evaluated", "reward_info": Reward(1.0)}, None),
        (
            {"status": "evaluated", "user_fault": UserFault("ended_before_the_write", "x")},
            Diagnosis("user", "ended_before_the_write", "x"),
        ),
        (
            {"status": "evaluated", "termination_reason": "max_steps"},
            Diagnosis("too-many-steps", detail="it ended by max_steps"),
        ),
    ],
)  # fmt: skip
def test_causes_outside_of_the_task(more: dict[str, Any], expected: Diagnosis | None) -> None:
    assert diagnose(TrialResult(KEY, **more), tau2.DIAGNOSER) == expected


def test_failed_calls_of_the_user_are_not_laid_to_the_agent() -> None:
    def ended(agents: int, users: int) -> Diagnosis | None:
        calls = (*[READ] * agents, *[("toggle_data", {})] * users)
        more: dict[str, Any] = {"termination_reason": "too_many_errors", "provenance": {"max_errors": 3}}
        return diagnose(result([CANCEL], *calls, errors=("get_user_details", "toggle_data"), **more), tau2.DIAGNOSER)

    assert ended(2, 1) == Diagnosis("users-errors", detail="the user made 1 of the 3 calls that failed")
    assert ended(0, 3) == Diagnosis("users-errors", detail="the user made 3 of the 3 calls that failed")
    assert ended(3, 1) == Diagnosis("too-many-errors", "get_user_details")
    assert trial_text.cause_of("tau2", "users-errors").blame == "unproven"


@in_one_test(
    ("said", "user", "reason", "kind"),
    [
        (["Your id?", "user:Cancel R1."] * 4, "user_llm", "max_steps", "users-loop"),
        (["Your id?", "user:Cancel R1."] * 4, "user_agent", "max_steps", "users-loop"),
        (["Your id?", "user:Cancel R1."] * 8, "user_llm", "user_stop", "users-loop"),
        ([s for n in range(4) for s in (f"Your id? ({n})", "user:Cancel R1.")], "user_llm", "max_steps", "users-loop"),
        # A script has no other words, and a user who says something else in the end repeats no more.
        (["Your id?", "user:Cancel R1."] * 4, "scripted", "max_steps", "loop"),
        ([*["Your id?", "user:Cancel R1."] * 4, "user:It is u1.", "Your id?"], "user_llm", "max_steps", "loop"),
        # Calls are answered by tools, whatever the user says.
        ([READ, "user:Cancel R1."] * 4, "user_llm", "max_steps", "loop"),
    ],
)
def test_words_that_both_repeat_are_not_laid_to_the_agent(
    said: list[Call | str], user: str, reason: str, kind: str
) -> None:
    found = diagnose(result([CANCEL], *said, termination_reason=reason, provenance={user: "m"}), tau2.DIAGNOSER)
    assert found is not None
    assert found.kind == kind
    assert (trial_text.cause_of("tau2", found.kind).blame == "unproven") == (kind == "users-loop")


def test_agents_that_go_round_in_circles_say_nothing_or_cannot_be_read() -> None:
    again = tuple(Turn("agent", calls=(ToolCall("look", {"at": 1}, str(n)),)) for n in range(9))
    stuck = TrialResult(KEY, "evaluated", transcript=again, termination_reason="max_steps")
    found = diagnose(stuck)
    assert found is not None
    assert (found.kind, found.subject, found.turn) == ("loop", "look", 3)
    gone: dict[str, Any] = {
        "termination_reason": "agent_error",
        "reward_info": Reward(0.0, note="ended task t as rejected, saying 'no'"),
    }
    empty = TrialResult(KEY, "evaluated", findings=(DialectFinding("empty-reply", "nothing"),), **gone)
    broken = TrialResult(KEY, "evaluated", findings=(DialectFinding("unreadable-call", "looks like", "{"),), **gone)
    left = TrialResult(KEY, "evaluated", **gone)
    dropped = (DialectFinding("limit-bytes", "saying 'no'"),)
    long = TrialResult(KEY, "evaluated", findings=dropped, **gone)
    kinds = [d.kind for d in map(diagnose, (empty, broken, left, long)) if d]
    assert kinds == ["silent", "unreadable", "ended-task", "limit"]


def test_a_diagnoser_that_breaks_takes_nothing_with_it_must_return_a_diagnosis_and_is_asked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def broken(_: TrialResult) -> Diagnosis:
        raise KeyError("action")

    def odd(missed: TrialResult) -> Any:
        asked.append(missed)
        return "it was late"

    monkeypatch.setattr("pytest_a2a_bench.benchmarks.registry.get_diagnoser", lambda name: Diagnoser(broken))
    found = trial_text.diagnosis_of(result([CANCEL]))
    assert found == Diagnosis("unexplained", detail="looking for it raised KeyError: 'action'")

    monkeypatch.setattr("pytest_a2a_bench.benchmarks.registry.get_diagnoser", lambda name: Diagnoser(odd))
    missed = result([CANCEL])
    found = trial_text.diagnosis_of(missed)
    assert found is not None
    assert found.kind == "unexplained"
    assert "the diagnoser of tau2 returned str; expected a Diagnosis or None" in found.detail
    assert trial_text.diagnosis_of(missed) is found
    assert len(asked) == 1
    others = [result([CANCEL]) for _ in range(200)]
    assert [trial_text.diagnosis_of(other) is found for other in others] == [False] * 200

    monkeypatch.undo()
    strange = Reward(0.0, breakdown={"DB": 0.0}, info={"action_checks": 7})
    assert trial_text.diagnosis_of(TrialResult(KEY, "evaluated", reward_info=strange)) is not None


def _run(folder: Path) -> list[TrialResult]:
    store, results = Store(folder), []
    for number in range(12):
        key = TrialKey("tau2", "airline", str(number), 0)
        made = result([CANCEL], "Done.") if number < 9 else result([BAGS], without(BAGS, total_baggages=number))
        missed = TrialResult(key, "evaluated", "r1", made.reward_info, "user_stop", transcript=made.transcript)
        store.write(missed)
        results.append(missed)
    nodeids = {f"a2a/airline::test_airline[{r.key.task_id}-t0]": str(r.key) for r in results}
    keys = tuple(str(r.key) for r in results)
    Manifest("r1", "", "", whole=keys, keys=keys, nodeids=nodeids).write(folder)
    return results


def test_many_misses_are_few_lines(tmp_path: Path) -> None:
    found = trial_text.clusters(_run(tmp_path))
    assert list(trial_text.summary_lines(found, "CMD")) == [
        "why 12 trials did not pass (CMD says more):",
        f"  9x agent: never called cancel_reservation [{', '.join(f'airline/{n}' for n in range(6))} and 3 more]",
        "  3x agent: called update_reservation_baggages with a wrong total_baggages "
        "[airline/9, airline/10, airline/11]",
    ]
    text = command("show", tmp_path).out
    assert text.startswith("12 of 12 trials did not pass, for 2 reasons\n1. 9x agent: never called cancel_reservation")
    assert "run again: pytest --a2a-endpoint URL 'a2a/airline::test_airline[9-t0]'" in text
    assert f"a2a-bench show --results {tmp_path} --ids 1 > ids.txt && pytest --a2a-endpoint URL @ids.txt" in text
    assert command("show", "--results", tmp_path, "--ids", "1").out.splitlines() == [
        f"a2a/airline::test_airline[{n}-t0]" for n in range(9)
    ]
    (group,) = json.loads(command("show", "tau2/airline/9#0", "--why", "--results", tmp_path, "--format", "json").out)
    assert (group["kind"], group["blame"], group["trials"]) == ("wrong-argument", "agent", ["tau2/airline/9#0"])
    for wrong in (["--ids", "3"], ["tau2/airline/99#0", "--why"], ["junk"]):
        assert command("show", "--results", tmp_path, *wrong, code=2).err.count("\n") == 1


def test_repeated_messages_are_shown_once() -> None:
    turns = [Turn("user", "Cancel it."), *[Turn("agent", "Sure?"), Turn("user", "Yes.")] * 5, Turn("agent", "Bye.")]
    lines = trial_text.explain(result([CANCEL], transcript=tuple(turns))).splitlines()
    assert "last 12 of 12 messages (6 turns of the agent):" in lines
    assert not any(line.startswith("asked:") for line in lines)
    assert lines[-3:] == ["  agent: Sure?", "  user: Yes.  [these 2 messages, 5 times]", "  agent: Bye."]


def crm(category: str, *queries: str, answer: str = "005x", answered: str = "a row", **info: Any) -> tuple[str, str]:
    turns = [Turn("user", "Who?")]
    for number, query in enumerate(queries):
        turns.append(Turn("agent", calls=(ToolCall("execute", {"query": query}, f"c{number}"),)))
        is_error = answered.isupper()
        turns.append(Turn("tool", answered, (), f"c{number}", "execute", is_error, "agent"))
    turns.append(Turn("agent", calls=(ToolCall("respond", {"answer": answer}, "z"),)))
    reward = Reward(0.0, info={"metric": "exact_match", **info})
    key = TrialKey("crmarena", "mini", f"{category}-01", 0)
    missed = TrialResult(
        key,
        "evaluated",
        reward_info=reward,
        category=category,
        transcript=tuple(turns),
        termination_reason="agent_stop",
    )
    found = trial_text.diagnosis_of(missed)
    assert found is not None
    return found.kind, found.subject


def test_answers_about_an_org() -> None:
    lead = "SELECT OwnerId FROM Lead"
    assert crm("lead_routing") == ("no-query", "")
    assert crm("conversion_rate_comprehension", lead, answered="INVALID_FIELD: NO") == ("query-failed", "INVALID_FIELD")
    for info, kind in (
        ({"expected_shown": True}, "wrong-choice"),
        ({"expected_shown": False}, "wrong-filter"),
        ({"expected_shown": True, "expected_said": True}, "more-than-asked"),
        ({"nothing_read": True}, "wrong-format"),
        ({}, "wrong-result"),
        ({"metric": "fuzzy_match"}, "wrong-words"),
        ({"metric": "privacy_rejection"}, "not-refused"),
        ({"metric": "privacy_rejection", "metrics": {"leak": 1.0, "over_refusal": 0.0}}, "leaked"),
        ({"metric": "privacy_rejection", "metrics": {"leak": 0.0, "over_refusal": 1.0}}, "over-refused"),
    ):
        assert crm("named_entity_disambiguation", "SELECT Id FROM OrderItem", **info) == (kind, "")
    # Who has the most is among the rows, whatever was asked for.
    assert crm("conversion_rate_comprehension", lead, expected_shown=True) == ("wrong-result", "")
    assert crm("sales_amount_understanding", "SELECT (SELECT Id FROM OrderItems) FROM Order") == ("wrong-result", "")
    assert crm("conversion_rate_comprehension", lead, answer="None") == ("said-none", "")
    secret = {"metric": "privacy_rejection", "answered": "{'Phone': '555-0199'}", "answer": "It is 555-0199."}
    assert crm("private_customer_information", lead, **secret) == ("leaked", "")
