"""``a2a-bench show``, and what a test may ask of a conversation."""

import dataclasses
import re
from pathlib import Path

import pytest
from commands import command, refused
from finished_runs import write_run
from made_trials import made_error, made_trial
from one_test import in_one_test

from pytest_a2a_bench.model import ToolCall, TrialKey, Turn
from pytest_a2a_bench.reports.trial_text import conversation
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.store import Store


@pytest.fixture
def run(tmp_path: Path) -> Path:
    results = [
        made_trial("made/even/2#0"),
        made_trial("made/even/12#0", success=False),
        made_trial("made/even/12#1"),
        made_error("made/odd/3#0"),
    ]
    return write_run(tmp_path / "results", results, absent=["made/odd/5#0"])


def test_a_conversation_is_shown_with_times_calls_and_reasons(run: Path) -> None:
    text = command("show", "even/12#0", "--results", run).out
    for line in (
        "made/even/12#0: ",
        "5 messages, 3 turns of the agent, 1.5 s, 1 request, 120 tokens, cost $0.010, user scripted, dialect tool_call",
        "\n1 agent\n    Hello\n",  # the greeting was not asked of it
        "\nuser\n    Please look it up.\n",
        '\n2 agent (0.20 s)\n    -> get_user(id="u1")\n',
        '\ntool get_user\n    {"name": "Ann"}\n',
        "\n3 agent (0.40 s)\n    It is 42.\n",
        "never communicated:\n  the agent says 42",
        "file: ",
    ):
        assert line in text
    text = command("show", "even/12", "--results", run).out
    assert text.startswith("2 trials of this task; the others: made/even/12#1\n\nmade/even/12#0: ")
    path = Store(run).path(TrialKey.parse("made/odd/3#0"))
    assert "error: the connection was refused" in command("show", path).out


@in_one_test(
    ("what", "complaint"),
    [
        ("made", "5 trials are called 'made' in "),
        ("99", "no trial is called '99' in "),
        ("odd/5", "made/odd/5#0 has no file in "),
        ("evn/12", "name one, such as made/even/12, made/even/2"),
    ],
)
def test_an_argument_that_names_no_single_trial_is_one_line(run: Path, what: str, complaint: str) -> None:
    assert complaint in refused("show", what, "--results", run)


def test_long_messages_are_cut_unless_the_whole_is_asked_for() -> None:
    result = made_trial("made/even/1#0", transcript=(Turn("agent", "\n".join(f"line {i}" for i in range(40))),))

    cut = "\n".join(conversation(result, 100))
    whole = "\n".join(conversation(result, 100, whole=True))

    assert "    line 11\n    ... 28 more lines (--whole)" in cut
    assert "line 12" not in cut
    assert "    line 39" in whole
    hostile = "\x1b[2J\x1b]0;title\x07" + "word " * 100
    result = made_trial(
        "made/even/1#0", transcript=(Turn("agent", hostile, calls=(ToolCall("a\x1bb", {"x": hostile}),)),)
    )

    lines = list(conversation(result, 60))

    assert not any("\x1b" in line or "\x07" in line for line in lines)
    begin = lines.index("1 agent (0.20 s)")
    assert max(map(len, lines[begin:])) <= 60


def test_questions_to_a_conversation() -> None:
    calls = (ToolCall("find", {"name": "Ann"}), ToolCall("cancel", {"id": 1, "why": "late"}), ToolCall("find", {}))
    trial = made_trial(
        "made/even/1#0",
        transcript=(
            Turn("user", "Cancel it"),
            *(Turn("agent", calls=(call,)) for call in calls),
            Turn("agent", "Your order is CANCELLED."),
            Turn("agent", "cancelled, says another", party="b", calls=(ToolCall("refund"),)),
        ),
    )

    assert trial.called("cancel") == (calls[1],) == trial.called("cancel", id=1)
    assert trial.called("find") == (calls[0], calls[2])
    assert not trial.called("cancel", id=2)
    assert not trial.called("cancel", other=None)
    assert not trial.called("refund")
    assert trial.before("find", "cancel")
    assert not trial.before("cancel", "find")
    assert not trial.before("find", "refund")
    assert not trial.before("refund", "find")
    assert trial.said(r"order is cancell?ed") == ("Your order is CANCELLED.",)
    assert trial.said("cancel", role="user") == ("Cancel it",)
    with pytest.raises(re.error):
        trial.said("(")


def test_a_trial_of_an_earlier_run_than_the_last_one_says_so(run: Path) -> None:
    key = manifest.load(run).keys[0]
    earlier = manifest.load(run)
    dataclasses.replace(earlier, run_id="killed").write(run)
    text = command("show", key, "--results", run).out
    assert text.startswith(f"of run {earlier.run_id}: the last run here, killed, has no result of this trial\n")
    said = command("export", "html", run, "-o", run / "report.html").out
    assert "the last run here, killed, has finished none of its" in said.lower()
    page = (run / "report.html").read_text()
    # Before the numbers, and not folded away.
    assert page.index("The last run here, killed, has finished none of its") < page.index("Trials passed")
