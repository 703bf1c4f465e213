"""A run as Markdown and as annotations: complete, bounded, and nothing in it acts."""

import dataclasses
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from made_trials import made_trial

from pytest_a2a_bench.model import DialectFinding, Reward, RewardCheck, ToolCall, TrialKey, TrialResult, Turn
from pytest_a2a_bench.reports import summary
from pytest_a2a_bench.reports.markdown import (
    ANNOTATIONS,
    STEP_SUMMARY_BYTES,
    RunSummary,
    Trouble,
    annotate,
    annotation,
    render,
)
from pytest_a2a_bench.reports.trial_text import LAST_TURNS, explain, headline
from pytest_a2a_bench.text import one_line, sanitise

HOSTILE = (
    "</summary><script>alert(1)</script> ![x](http://evil) [y](javascript:z) @everyone | `~~~`\n```\n# out\n::error::x"
)


def trouble(title: str = "tau2/airline/1#0", headline: str = "reward 0", text: str = "why", **more: str) -> Trouble:
    return Trouble(more.get("level", "error"), more.get("what", "failed"), title, headline, text)  # type: ignore[arg-type]


def test_everything_is_there() -> None:
    text = render(
        RunSummary(
            "failed",
            "http://127.0.0.1:1 (Some agent)",
            gates=(("every trial", "failed", "1 of 2 trials"),),
            table=(("domain", "trials"), ("airline", "2")),
            notes=("user simulator: scripted",),
            troubles=(trouble("b", what="missed", level="warning"), trouble()),
        )
    )
    assert text.startswith(
        "# A2A benchmark: failed\n\nAgent: http://127.0.0.1:1 (Some agent)".replace("(", "\\(").replace(")", "\\)")
    )
    assert "| gate | verdict | why |\n| --- | --- | --- |\n| every trial | failed | 1 of 2 trials |" in text
    assert "| domain | trials |\n| --- | --- |\n| airline | 2 |" in text
    assert "- user simulator: scripted\n\n## 1 failed, 1 missed\n" in text
    assert text.count("<details>") == text.count("</details>") == 2
    assert text.index("<summary>failed") < text.index("<summary>missed")


def test_nothing_that_is_said_becomes_markup() -> None:
    bad = trouble(HOSTILE, HOSTILE, HOSTILE)
    text = render(RunSummary(HOSTILE, HOSTILE, (("g", HOSTILE, HOSTILE),), (("d",), (HOSTILE,)), (HOSTILE,), (bad,)))
    before, _, after = text.partition("````text\n")
    said, closed, rest = after.partition("\n````\n")
    assert said == HOSTILE.replace("\n::", "\n: :")
    assert closed
    for outside in (before, rest):
        assert "<script" not in outside
        assert "](" not in outside
        assert " @everyone" not in outside
    assert before.count("<summary>") == before.count("</summary>") == 1
    # A table row stays one row, whatever a cell holds.
    assert text.count("\n| ") == 6


@pytest.mark.parametrize("limit", [2_000, STEP_SUMMARY_BYTES])
def test_it_fits(limit: int) -> None:
    many = [trouble(f"t{i}", text="ä😀`" * 5_000) for i in range(200)]
    text = render(RunSummary("failed", troubles=tuple(many)), limit)
    assert len(text.encode()) <= limit
    assert "## 200 failed" in text
    shown = text.count("<details>")
    assert text.endswith(f"... and {200 - shown} more.\n")
    assert shown == (0 if limit == 2_000 else 100) or shown > 10


def test_at_most_ten_annotations_of_each_level_and_the_worst_first() -> None:
    missed = [trouble(f"m{i}", level="warning", what="missed") for i in range(3)]
    failed = [trouble(f"f{i}") for i in range(2)]
    errors = [trouble("e", what="error")]
    gates = [trouble("min_pass", what="failed gate")]
    lines = list(annotate([*missed, *failed, *errors, *gates]))
    assert [line.partition("::")[2].partition("::")[0] for line in lines] == [
        "error title=failed gate%3A min_pass",
        "error title=error%3A e",
        *(f"error title=failed%3A f{i}" for i in range(2)),
        *(f"warning title=missed%3A m{i}" for i in range(3)),
    ]

    lines = list(annotate([*missed * 4, *failed * 5, *errors, *gates]))
    assert len(lines) == 2 * ANNOTATIONS
    assert lines[0].startswith("::error title=failed gate")
    assert lines[ANNOTATIONS - 1].startswith("::error title=and more::3 more trials")
    assert lines[-1].startswith("::warning title=and more::3 more trials")
    assert list(annotate([])) == []


def test_an_annotation_is_one_command_whatever_it_says() -> None:
    line = annotation("error", "a:b,c%\n::stop", "50%\r\n::set-env name=X::y\x1b[31m")
    assert line == "::error title=a%3Ab%2Cc%25 %3A %3Astop::50%25 : :set-env name=X::y"
    assert "\n" not in line


MINI: dict[str, Any] = {"source": {"source": "mini", "official": False}}


def result(number: int, reused_from: str | None = None, **provenance: Any) -> TrialResult:
    key = TrialKey("crmarena", "mini", f"handle_time-0{number}")
    return TrialResult(key, "evaluated", "run", Reward(1.0), provenance=provenance, reused_from=reused_from)


def test_everything_that_is_changed_is_reported() -> None:
    trials = [
        result(1, **MINI, variant="drift low", aided=True),
        result(2, "earlier", **MINI, variant="rot", replayed=True, tagged=True),
    ]
    assert list(summary.benchmark_notes(trials)) == [
        "the mini org is our own: its numbers are not comparable with CRMArena's",
        "the agent was shown the general domain details too (--a2a-set crm-aided=on)",
        "the org was changed: drift low (1), rot (1); these are not results of the plain benchmark",
    ]
    assert list(summary.caveats(trials)) == [
        "replayed from cassettes, the agent was not asked (--a2a-replay): 1 of 2 trials",
        "reused, not run again (--a2a-resume): 1 of 2 trials (1 of run earlier)",
        "the agent was sent each task's name (--a2a-set tag-trials=on, or builtin:oracle)",
    ]


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
        f"last {LAST_TURNS} of 11 messages (1 turn of the agent):",
        "  agent: look(é=[1])",
        "transcript: x.json",
    ):
        assert line in text.splitlines()
    assert "t4" not in text
    bare = explain(TrialResult(KEY, "evaluated", reward_info=Reward(1.0)))
    assert bare == "tau2/airline/12#0: reward 1"
    # What failed or the other side called was not taken.
    taken = tuple(RewardCheck("action", f"user: {name}()", True, counted=False) for name in ("reseat", "reboot"))
    turns = (
        Turn("agent", calls=(ToolCall("reseat", {}, "a"),)),
        Turn("tool", "no such tool", call_id="a", tool="reseat", error=True, requestor="agent"),
        Turn("user", calls=(ToolCall("reboot", {}, "b"),)),
        Turn("tool", "ok", call_id="b", tool="reboot", requestor="user"),
    )
    result = TrialResult(KEY, "evaluated", reward_info=Reward(0.0, checks=taken), transcript=turns)
    lines = explain(result).splitlines()
    assert "1 of 2 expected actions were taken (not part of the reward); missing:" in lines
    assert "  user: reseat()" in lines


def test_an_agent_that_calls_no_tool_is_named() -> None:
    said: dict[str, Any] = {"provenance": {"dialect_option": "auto"}}
    silent = [made_trial(f"tau2/airline/{n}#0", success=n == 1, transcript=(), **said) for n in range(3)]
    (line,) = (line for line in summary.caveats(silent) if "called no tool" in line)
    assert line == (
        "the agent called no tool in any of 3 conversations, of which 1 passed; "
        "a2a-bench doctor URL shows what it was sent"
    )
    talking = [*silent, made_trial("tau2/airline/9#0", **said)]
    assert not any("called no tool" in line for line in summary.caveats(talking))
    # What stands in the task was not said by this agent.
    given = [dataclasses.replace(r, provenance={**r.provenance, "given_messages": len(r.transcript)}) for r in talking]
    assert any("called no tool" in line for line in summary.caveats(given))
