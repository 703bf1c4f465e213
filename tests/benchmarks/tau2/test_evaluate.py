"""What is said about upstream's evaluation."""

from __future__ import annotations

from pytest_a2a_bench.benchmarks.tau2.evaluate import diff, to_reward

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
    "info": {"note": None},
}


def test_reward_parts_know_whether_they_count() -> None:
    reward = to_reward(INFO)
    assert not reward.success
    assert reward.breakdown == {"DB": 1.0, "COMMUNICATE": 0.0}
    assert [(c.kind, c.met, c.counted) for c in reward.checks] == [
        ("db", True, True),
        ("action", False, False),
        ("communicate", False, True),
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
    assert not list(diff({"a": [1]}, {"a": [1]}, "db"))
