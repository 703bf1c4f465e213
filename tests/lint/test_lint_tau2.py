"""tau2's linter: a clean task has no finding, each defect has its own, and the installed golds have the known ones."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lint_tasks import CLEAN, UPDATE, action, task, write_domain
from rotating import rotating

from pytest_a2a_bench.benchmarks.lint import LintRequest
from pytest_a2a_bench.benchmarks.tau2 import evaluate, index, upstream
from pytest_a2a_bench.benchmarks.tau2.lint.data import RawTask, Records, glance
from pytest_a2a_bench.benchmarks.tau2.lint.linter import LINTER
from pytest_a2a_bench.benchmarks.tau2.lint.policy import CLAUSES, Policy
from pytest_a2a_bench.benchmarks.tau2.lint.replay import Changes
from pytest_a2a_bench.errors import ConfigurationError

NOWHERE = {"env_type": "assistant", "func_name": "burn"}
CREATE = action("create_task", user_id="user_1", title="Dust")


def rules_of(directory: Path, tasks: list[Any], **files: str) -> dict[str, set[str]]:
    """Lint tasks, and return the rules that found something, by task."""
    write_domain(directory / "mock", tasks, **files)
    found = LINTER.lint(LintRequest(directory=directory), "mock")
    assert found.notes == ()
    by_task: dict[str, set[str]] = {str(t["id"]): set() for t in tasks if isinstance(t, dict) and "id" in t}
    for finding in found.findings:
        by_task.setdefault(finding.task_id, set()).add(finding.rule)
    return by_task


def test_a_clean_task_has_no_finding(tmp_path: Path) -> None:
    assert rules_of(tmp_path, [CLEAN]) == {"clean": set()}


DEFECTS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "a tool that is not there": (
        task("t", actions=[UPDATE, action("fly")]),
        {"unknown-tool", "gold-raises"},
    ),
    "a tool of the other side": (
        task("t", actions=[UPDATE, action("get_users", requestor="user")]),
        {"unknown-tool", "gold-raises"},
    ),
    "arguments of another type": (
        task("t", actions=[UPDATE, action("create_task", user_id="user_1", title=["no", "text"])]),
        {"refused-arguments", "gold-raises"},
    ),
    "a record that is not there": (
        task("t", actions=[UPDATE, action("update_task_status", task_id="task_99", status="completed")]),
        {"unknown-id", "gold-raises"},
    ),
    "no criteria at all": ({k: v for k, v in CLEAN.items() if k != "evaluation_criteria"}, {"inaction-passes"}),
    "a gold that changes nothing": (
        task("t", actions=[action("get_users")]),
        {"gold-changes-nothing", "inaction-passes"},
    ),
    "a gold that changes nothing, with words to say": (
        task("t", actions=[action("get_users")], communicate_info=["Ada"]),
        {"gold-changes-nothing"},
    ),
    "words that nothing says": (task("t", communicate_info=["forty-two"]), {"text-not-in-outputs"}),
    "words that the user says": (
        task("t", scenario="You are 1234 years old.", communicate_info=["1234"]),
        {"text-in-scenario", "text-not-in-outputs"},
    ),
    "words that are hardly any": (
        task("t", actions=[UPDATE, action("get_users")], communicate_info=["1"]),
        {"short-text"},
    ),
    "words that never match": (
        task("t", communicate_info=["1,234"]),
        {"text-never-matches", "text-not-in-outputs"},
    ),
    "words that no reward asks for": (task("t", communicate_info=["1,234"], reward_basis=["DB"]), set()),
    "a stop token": (task("t", scenario="Say ###STOP### at the end."), {"stop-token-in-scenario"}),
    "an order that is not needed": (
        task("t", actions=[CREATE, action("create_task", user_id="user_1", title="Wash")]),
        {"forced-order"},
    ),
    "an order that does not matter": (
        task("t", actions=[UPDATE, action("update_task_status", task_id="task_2", status="completed")]),
        set(),
    ),
    "an order that is needed": (
        task("t", actions=[UPDATE, action("update_task_status", task_id="task_1", status="pending"), CREATE]),
        set(),
    ),
    "an assertion that fails after the gold": (
        task(
            "t",
            env_assertions=[
                {
                    "env_type": "assistant",
                    "func_name": "assert_task_status",
                    "arguments": {"task_id": "task_1", "expected_status": "pending"},
                }
            ],
            reward_basis=["ENV_ASSERTION"],
        ),
        {"gold-misses-checks", "inaction-passes"},
    ),
    "a start that cannot be": (
        task(
            "t", initial={"initialization_actions": [{"env_type": "assistant", "func_name": "burn", "arguments": {}}]}
        ),
        {"start-raises"},
    ),
    "no task of tau2's": ({"id": "t", "evaluation_criteria": {"actions": "all of them"}}, {"unreadable-task"}),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_each_defect_is_found_and_no_other(tmp_path: Path, name: str) -> None:
    defect, expected = DEFECTS[name]
    found = rules_of(tmp_path, [CLEAN, {**defect, "id": "t"}])
    assert found == {"clean": set(), "t": expected}


def test_every_rule_that_mock_can_break_is_broken_above() -> None:
    elsewhere = {"payment-not-owned", "contradicts-policy", "user-only-gold", "editions-differ"}
    assert {rule for _, rules in DEFECTS.values() for rule in rules} | elsewhere == {r.id for r in LINTER.rules}


def test_damaged_files_are_findings_or_one_line(tmp_path: Path) -> None:
    assert rules_of(tmp_path / "a", [CLEAN, CLEAN, 7, {"no": "id"}]) == {
        "clean": {"unreadable-task"},
        "": {"unreadable-task"},
    }
    split = json.dumps({"base": ["clean", "gone"], "odd": 3})
    assert rules_of(tmp_path / "b", [CLEAN], split_tasks__json=split) == {"clean": set(), "gone": {"unreadable-task"}}
    with pytest.raises(ConfigurationError, match="no split 'odd'"):
        LINTER.lint(LintRequest(directory=tmp_path / "b", split="odd"), "mock")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "tasks.json").write_text("[")
    found = LINTER.lint(LintRequest(directory=tmp_path / "c"), "c")
    assert [(f.rule, f.task_id) for f in found.findings] == [("unreadable-task", "")]
    (tmp_path / "d").mkdir()
    with pytest.raises(ConfigurationError, match="has no tau2 data"):
        LINTER.domains(LintRequest(directory=tmp_path / "d"))


def test_a_domain_that_tau2_has_not_is_read_and_not_replayed(tmp_path: Path) -> None:
    mine = task("t", actions=[action("steer", requestor="user")])
    mine["user_scenario"]["instructions"]["domain"] = "sailing"
    directory = write_domain(tmp_path / "any", [mine])
    assert LINTER.recognises(directory)
    assert LINTER.domains(LintRequest(directory=directory)) == ("sailing",)
    found = LINTER.lint(LintRequest(directory=directory), "sailing")
    assert [f.rule for f in found.findings] == ["user-only-gold"]
    assert "sailing: its golds are not replayed" in found.notes[0]


def test_a_database_that_cannot_be_read_is_a_note(tmp_path: Path) -> None:
    write_domain(tmp_path / "mock", [CLEAN], database={"tasks": 3})
    found = LINTER.lint(LintRequest(directory=tmp_path), "mock")
    assert found.findings == ()
    assert "not replayed" in found.notes[0]


def test_editions_are_told_apart_by_kind_and_never_by_text(tmp_path: Path) -> None:
    write_domain(tmp_path / "old" / "mock", [CLEAN, task("a"), task("b"), task("c"), task("gone")])
    renamed = task("c", actions=[{**UPDATE, "action_id": "other", "info": "a remark"}])
    changed = task("a", scenario="Secret words.", actions=[UPDATE, CREATE])
    write_domain(tmp_path / "new" / "mock", [CLEAN, changed, task("b", reward_basis=["DB"]), renamed, task("new")])
    request = LintRequest(directory=tmp_path / "old", against=tmp_path / "new")
    found = {f.task_id: f.message for f in LINTER.lint(request, "mock").findings if f.rule == "editions-differ"}
    assert found == {
        "a": "the editions differ in the user's instructions, the gold's actions and where the gold ends",
        "b": "the editions differ in the reward's basis",
        "gone": "the other edition has no such task",
        "new": "only the other edition has it",
    }


# --- policies ---------------------------------------------------------------------------------------------------------


class _Airline:
    """As much of a database as the clauses read."""

    def __init__(self, **booking: Any) -> None:
        self.users = {
            "u": {
                "user_id": "u",
                "membership": "regular",
                "payment_methods": {f"{kind}_{n}": {"source": kind} for n in (1, 2) for kind in _KINDS},
                "reservations": ["R"],
            },
            "v": {"user_id": "v", "membership": "gold", "payment_methods": {}, "reservations": []},
        }
        route = {"F1": ("A", "B"), "F2": ("B", "A"), "F3": ("A", "C")}
        days = {"1": {"status": "available"}, "2": {"status": "landed"}, "3": {"status": "cancelled"}}
        self.flights = {n: {"origin": o, "destination": d, "dates": days} for n, (o, d) in route.items()}
        plain = {"user_id": "u", "origin": "A", "destination": "B", "flight_type": "one_way", "cabin": "economy"}
        plain |= {"insurance": "no", "created_at": "2024-05-01T00:00:00"}
        more = {"flights": [_flight("F1")], "passengers": [{}], "total_baggages": 2}
        self.reservations = {"R": {**plain, **more, **booking}}


_KINDS = ("certificate", "credit_card", "gift_card")


def _flight(number: str, day: str = "1") -> dict[str, str]:
    return {"flight_number": number, "date": day}


def _says(name: str, call: str, database: _Airline, **arguments: Any) -> bool:
    text = "The current time is 2024-05-15 15:00:00 EST. "
    [clause] = [c for c in CLAUSES if c.name == name]
    text += (
        clause.says.replace("?", "") if "(" not in clause.says else "maximum amount of data that can be refueled is 2GB"
    )
    policy = Policy(clause.domain, text)
    policy.begin()
    found = list(policy.judge(Records(database), call, arguments, writes=True))
    return any(line.startswith(f"{name}: ") for line in found)


def _pays(*names: str) -> dict[str, Any]:
    return {"user_id": "u", "payment_methods": [{"payment_id": name} for name in names]}


R = {"reservation_id": "R"}
BOOK, BAGS, FLIGHTS, CANCEL = (
    "book_reservation",
    "update_reservation_baggages",
    "update_reservation_flights",
    "cancel_reservation",
)
ROUND = {"flight_type": "round_trip"}
BUSINESS = {"cabin": "business"}


CASES: Iterable[tuple[str, str, dict[str, Any], dict[str, Any], bool]] = [
    ("passengers", BOOK, {}, {"passengers": [{}] * 6}, True),
    ("passengers", BOOK, {}, {"passengers": [{}] * 5}, False),
    ("payment-mix", BOOK, {}, _pays("credit_card_1", "credit_card_2"), True),
    ("payment-mix", BOOK, {}, _pays("credit_card_1", "gift_card_2"), False),
    ("allowance", BAGS, {}, {**R, "total_baggages": 3, "nonfree_baggages": 2}, False),
    ("allowance", BAGS, {}, {**R, "total_baggages": 3, "nonfree_baggages": 3}, True),
    ("basic-economy", FLIGHTS, {"cabin": "basic_economy"}, {**R, "flights": [_flight("F1", "9")]}, True),
    ("basic-economy", FLIGHTS, {"cabin": "basic_economy"}, {**R, "flights": [_flight("F1")]}, False),
    ("route", FLIGHTS, {}, {**R, "flights": [_flight("F3")]}, True),
    ("route", FLIGHTS, {}, {**R, "flights": [_flight("F1", "3")]}, False),
    ("route", FLIGHTS, ROUND, {**R, "flights": [_flight("F1"), _flight("F2")]}, False),
    ("route", FLIGHTS, ROUND, {**R, "flights": [_flight("F1")]}, True),
    ("flown-cabin", FLIGHTS, {"flights": [_flight("F1", "2")]}, {**R, **BUSINESS, "flights": []}, True),
    ("flown-cabin", FLIGHTS, {"flights": [_flight("F1", "1")]}, {**R, **BUSINESS, "flights": []}, False),
    ("bags-removed", BAGS, {}, {**R, "total_baggages": 1}, True),
    ("bags-removed", BAGS, {}, {**R, "total_baggages": 2}, False),
    ("cancellation", CANCEL, {}, R, True),
    ("cancellation", CANCEL, {"created_at": "2024-05-14T16:00:00"}, R, False),
    ("cancellation", CANCEL, {"insurance": "yes"}, R, False),
    ("cancellation", CANCEL, {"cabin": "business"}, R, False),
    ("cancellation", CANCEL, {"flights": [_flight("F1", "3")]}, R, False),
    ("cancellation", CANCEL, {**BUSINESS, "flights": [_flight("F1", "2")]}, R, True),
    ("compensation", "send_certificate", {}, {"user_id": "u", "amount": 100}, True),
    ("compensation", "send_certificate", {"insurance": "yes"}, {"user_id": "u", "amount": 100}, False),
    ("compensation", "send_certificate", {}, {"user_id": "v", "amount": 150}, False),
    ("compensation", "send_certificate", {}, {"user_id": "v", "amount": 70}, True),
    ("refuel", "refuel_data", {}, {"gb_amount": 2.5}, True),
    ("refuel", "refuel_data", {}, {"gb_amount": 2.0}, False),
]  # fmt: skip


@pytest.mark.parametrize(("name", "call", "booking", "arguments", "expected"), CASES)
def test_clauses(name: str, call: str, booking: dict[str, Any], arguments: dict[str, Any], expected: bool) -> None:
    assert _says(name, call, _Airline(**booking), **arguments) is expected


def test_every_clause_is_tried_both_ways() -> None:
    assert {(n, e) for n, _, _, _, e in CASES} == {(c.name, e) for c in CLAUSES for e in (True, False)}


def test_a_policy_that_does_not_say_it_is_not_held_to_it() -> None:
    policy = Policy("airline", "Be kind.")
    arguments: dict[str, Any] = {"passengers": [{}] * 9}
    assert list(policy.judge(Records(_Airline()), "book_reservation", arguments, writes=True)) == []


def test_a_gold_is_about_one_user() -> None:
    policy = Policy("retail", "You can only help one user per conversation.")
    policy.begin()
    records = Records(_Airline())
    assert list(policy.judge(records, "any", {"user_id": "u"}, writes=True)) == []
    assert list(policy.judge(records, "any", {"user_id": "v"}, writes=False)) == []
    assert "one-user" in next(policy.judge(records, "any", {"user_id": "v"}, writes=True))
    policy.begin()
    assert list(policy.judge(records, "any", {"user_id": "v"}, writes=True)) == []


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from(["t", "u"]), st.dictionaries(st.text(max_size=3), PLAIN, max_size=3), max_size=2)
)
def test_changes_are_nothing_exactly_where_states_are_equal(state: dict[str, Any]) -> None:
    assert Changes((state, {}), (json.loads(json.dumps(state)), {})).is_nothing(written=True)
    other = {**state, "t": {**state.get("t", {}), "added": [1]}}
    assert not Changes((state, {}), (other, {})).is_nothing(written=False)


@settings(deadline=None)
@given(st.lists(PLAIN, max_size=4), st.randoms())
def test_unordered_changes_know_no_order(entries: list[Any], random: Any) -> None:
    shuffled = random.sample(entries, len(entries))
    before: dict[str, Any] = {"t": {}}
    first, second = ({"t": {"k": {"list": each}}} for each in (entries, shuffled))
    assert Changes((before, {}), (first, {})).unordered == Changes((before, {}), (second, {})).unordered


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(["evaluation_criteria", "user_scenario", "initial_state"]), PLAIN))
def test_a_glance_takes_whatever_a_file_holds(value: dict[str, Any]) -> None:
    assert all(f.task_id == "x" for f in glance(RawTask("x", value, "f", "")))


# --- the installed data -----------------------------------------------------------------------------------------------


def _count(domain: str, rule: str) -> tuple[int, int]:
    found = [f for f in LINTER.lint(LintRequest(), domain).findings if f.rule == rule]
    return len({f.task_id for f in found}), len(found)


@pytest.mark.slow
def test_the_installed_telecom_has_tasks_that_are_the_user_s_alone() -> None:
    assert _count("telecom", "user-only-gold") == (23, 23)
    assert _count("telecom", "inaction-passes") == (0, 0)


@pytest.mark.slow
def test_the_installed_airline_and_retail() -> None:
    known = {
        "airline": {"gold-raises": (0, 0), "gold-changes-nothing": (20, 20), "inaction-passes": (19, 19)},
        "retail": {"gold-raises": (18, 23), "gold-changes-nothing": (11, 11), "inaction-passes": (7, 7)},
    }
    for domain, expected in known.items():
        found = LINTER.lint(LintRequest(), domain).findings
        for rule, counts in expected.items():
            own = [f for f in found if f.rule == rule]
            assert (len({f.task_id for f in own}), len(own)) == counts, (domain, rule)
    wrong = {f.task_id for f in LINTER.lint(LintRequest(), "airline").findings if f.rule == "contradicts-policy"}
    assert wrong == {"7", "9", "29", "33", "37"}, "all five were corrected by upstream"


@pytest.mark.slow
@pytest.mark.parametrize("domain", ["airline", "retail", "telecom", "mock"])
def test_inaction_passes_exactly_where_the_stock_evaluator_rewards_silence(domain: str) -> None:
    tau2 = upstream.load()
    found = LINTER.lint(LintRequest(), domain).findings
    passing = {f.task_id for f in found if f.rule == "inaction-passes"}
    for bench_task in rotating(index.load_tasks(domain), 3):
        loaded = tau2.task_class.model_validate(index.load_task_json(domain, bench_task.task_id))
        initial = loaded.initial_state
        simulation = tau2.simulation_class(
            id="s",
            task_id=loaded.id,
            start_time="2024-01-01T00:00:00",
            end_time="2024-01-01T00:00:00",
            duration=0.0,
            termination_reason=tau2.termination_reason.USER_STOP,
            messages=list((initial.message_history if initial else None) or []),
        )
        try:
            info = tau2.evaluate_simulation(
                simulation=simulation,
                task=loaded,
                evaluation_type=evaluate.evaluation_type(tau2, loaded),
                solo_mode=False,
                domain=domain,
            )
        except ValueError:  # a mock assertion looks up what nobody created
            assert bench_task.task_id not in passing
        else:
            assert (info.reward == 1.0) == (bench_task.task_id in passing), bench_task.task_id
