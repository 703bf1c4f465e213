from __future__ import annotations

from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_a2a_bench.model import DialectFinding, Reward, RewardCheck, ToolCall, TrialKey, TrialResult, Turn
from pytest_a2a_bench.redact import one_line, sanitise
from pytest_a2a_bench.reports.trial_text import LAST_TURNS, explain, headline

KEY = TrialKey("tau2", "airline", "12")


def test_escape_sequences_and_control_characters_are_removed() -> None:
    hostile = (
        "a\x1b[31mred\x1b[0m\x1b]0;title\x07b\x1b]8;;http://x\x1b\\link\x9b2Jc\x07\x00\u202edone\u200b\r\nnext\ttab\rx"
    )
    assert sanitise(hostile) == "aredblinkcdone\nnext\ttabx"


@settings(max_examples=examples(200))
@given(st.text())
def test_nothing_that_moves_a_cursor_survives(text: str) -> None:
    assert not any((ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 for c in sanitise(text))
    assert len(one_line(text, 50)) <= 50
    assert "\n" not in one_line(text)


def test_headline() -> None:
    reward = Reward(0.0, ("DB", "COMMUNICATE"), {"DB": 0.0, "COMMUNICATE": 1.0}, note="stopped\nearly")
    result = TrialResult(KEY, "evaluated", reward_info=reward, termination_reason="user_stop")
    assert headline(result) == "reward 0 = DB 0, COMMUNICATE 1, ended by user_stop (stopped early)"
    assert headline(TrialResult(KEY, "skipped")) == "not evaluated (skipped)"


def test_explanation_has_everything_that_is_known_and_only_that() -> None:
    checks = (
        RewardCheck("action", "assistant: book(a=1)", True, counted=False),
        RewardCheck("action", "assistant: cancel(b=2)", False, counted=False),
        RewardCheck("communicate", "327", False),
        RewardCheck("env_assertion", "assert_on()", False, detail="was off"),
        RewardCheck("nl_assertion", "agent is polite", False),
    )
    result = TrialResult(
        KEY,
        "evaluated",
        reward_info=Reward(0.0, checks=checks, db_diff=tuple(f"db.{i}" for i in range(40))),
        transcript=(*(Turn("user", f"t{i}") for i in range(10)), Turn("agent", calls=(ToolCall("look", {"é": [1]}),))),
        findings=(DialectFinding("unreadable-call", "a call that cannot be read", "{", 3),),
    )
    text = explain(result, "x.json")
    for line in (
        "tau2/airline/12#0: wrote calls that cannot be read (unreadable-call); reward 0",
        "why: the agent wrote calls that cannot be read (unreadable-call)",
        "asked: t0",
        "what differs in the database:",
        "  ... and 10 more",
        "not true of the environment:",
        "  assert_on() (was off)",
        "never communicated:",
        "not true of the conversation, says the judge:",
        "1 of 2 expected actions were taken (not part of the reward); missing:",
        "  assistant: cancel(b=2)",
        "  turn 3: a call that cannot be read [unreadable-call] {",
        f"last {LAST_TURNS} of 11 messages (1 turns of the agent):",
        "  agent: look(é=[1])",
        "transcript: x.json",
    ):
        assert line in text.splitlines()
    assert "t4" not in text
    bare = explain(TrialResult(KEY, "evaluated", reward_info=Reward(1.0)))
    assert bare == "tau2/airline/12#0: reward 1"


def test_a_call_that_failed_or_that_the_other_side_made_was_not_taken() -> None:
    checks = tuple(RewardCheck("action", f"user: {name}()", True, counted=False) for name in ("reseat", "reboot"))
    turns = (
        Turn("agent", calls=(ToolCall("reseat", {}, "a"),)),
        Turn("tool", "no such tool", call_id="a", tool="reseat", error=True, requestor="agent"),
        Turn("user", calls=(ToolCall("reboot", {}, "b"),)),
        Turn("tool", "ok", call_id="b", tool="reboot", requestor="user"),
    )
    result = TrialResult(KEY, "evaluated", reward_info=Reward(0.0, checks=checks), transcript=turns)
    lines = explain(result).splitlines()
    assert "1 of 2 expected actions were taken (not part of the reward); missing:" in lines
    assert "  user: reseat()" in lines
