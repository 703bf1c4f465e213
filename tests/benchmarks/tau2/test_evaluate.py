"""What is said about upstream's evaluation."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from one_test import in_one_test

from pytest_a2a_bench.benchmarks.tau2 import evaluate
from pytest_a2a_bench.benchmarks.tau2.evaluate import (
    diff,
    evaluation_type,
    needs_judge,
    never_stopped,
    short,
    to_reward,
)
from pytest_a2a_bench.model import Reward, Turn

INFO = {
    "reward": 0.0,
    "reward_basis": ["DB", "COMMUNICATE"],
    "reward_breakdown": {"DB": 1.0, "COMMUNICATE": 0.0},
    "db_check": {"db_match": True, "db_reward": 1.0},
    "action_checks": [
        {"action": {"name": "cancel", "requestor": "assistant", "arguments": {"id": "A"}}, "action_match": False}
    ],
    "communicate_checks": [{"info": "327", "met": False, "justification": "not found"}],
    "env_assertions": None,
    "nl_assertions": [{"nl_assertion": "is polite", "met": True, "justification": "it greets"}],
    "info": {"note": None},
}


def test_reward_parts_know_whether_they_count() -> None:
    reward = to_reward(INFO)
    assert not reward.success
    assert reward.breakdown == {"DB": 1.0, "COMMUNICATE": 0.0}
    assert [(c.kind, c.met, c.counted, c.detail) for c in reward.checks] == [
        ("db", True, True, ""),
        ("action", False, False, ""),
        ("communicate", False, True, "not found"),
        ("nl_assertion", True, False, "it greets"),
    ]
    assert reward.checks[1].description == 'assistant: cancel(id="A")'


def test_premature_end_keeps_the_note() -> None:
    reward = to_reward({"reward": 0.0, "reward_basis": None, "info": {"note": "terminated prematurely"}})
    assert (reward.basis, reward.note) == ((), "terminated prematurely")


def test_diff_names_the_path() -> None:
    expected = {"a": {"x": 1, "gone": True}, "l": [1, 2]}
    found = {"a": {"x": 2, "new": [1]}, "l": [1, 3]}
    assert list(diff(expected, found, "db")) == [
        "db.a.gone: expected true, it is not there",
        "db.a.new: [1] should not be there",
        "db.a.x: expected 1, found 2",
        "db.l[1]: expected 2, found 3",
    ]


def test_diff_sees_a_changed_type() -> None:
    # tau2 hashes 5 and 5.0 differently.
    assert list(diff(5, 5.0, "db.n")) == ["db.n: expected 5, found 5.0"]
    assert list(diff([1], [1, 2], "db.l")) == ["db.l: expected [1], found [1, 2]"]
    assert list(diff({"a": 1}, [1], "db")) == ['db: expected {"a": 1}, found [1]']
    assert not list(diff({"a": [1]}, {"a": [1]}, "db"))
    assert evaluate._with_diff(Reward(0.0), ("x",) * 30).db_diff[-2:] == ("x", "... and 5 more")
    assert (short("x" * 158), short("x" * 159)) == (f'"{"x" * 158}"', f'"{"x" * 156}...')


@in_one_test(
    ("basis", "assertions", "judged", "kind"),
    [
        (["DB"], ["is polite"], False, "all"),
        (["DB", "NL"], ["is polite"], True, "judged"),
        (["NL"], [], False, "judged"),
    ],
)
def test_the_judge_is_asked_where_it_counts(basis: list[str], assertions: list[str], judged: bool, kind: str) -> None:
    kinds = SimpleNamespace(ALL="all", ALL_WITH_NL_ASSERTIONS="judged")
    tau2: Any = SimpleNamespace(reward_type=SimpleNamespace(NL_ASSERTION="NL"), evaluation_type=kinds)
    task = SimpleNamespace(evaluation_criteria=SimpleNamespace(reward_basis=basis, nl_assertions=assertions))
    assert (needs_judge(tau2, task), evaluation_type(tau2, task)) == (judged, kind)
    assert not needs_judge(tau2, SimpleNamespace(evaluation_criteria=None))


def test_a_user_never_stopped_from_its_third_text_without_a_call_on() -> None:
    def turn(*roles: Any) -> int | None:
        fault = never_stopped(Mock(), "user_stop", [Turn(role, "x") for role in roles], lambda simulation: Reward(1.0))
        return fault.turn if fault is not None else None

    assert turn("tool", "agent", "user", "agent", "user", "agent") is None
    assert turn("user", "tool", "user", "agent", "user", "agent") is None
    assert turn("tool", "user", "agent", "user", "agent", "user", "agent") == 6
