"""``a2a-bench show``, and what a test may ask of a conversation."""

from __future__ import annotations

import dataclasses
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from browser import Browser, axe_source
from commands import command, refused
from finished_runs import write_run
from made_trials import made_error, made_trial
from one_test import in_one_test

from pytest_a2a_bench.model import AgentSaid, Briefing, ToolCall, ToolReturned, ToolSpec, TrialKey, Turn, UserSaid
from pytest_a2a_bench.reports.live import Server, Watched
from pytest_a2a_bench.reports.trial_text import conversation
from pytest_a2a_bench.results import lock, manifest
from pytest_a2a_bench.results.live import Growing
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


def test_an_error_is_shown_and_a_file_will_do(run: Path) -> None:
    path = Store(run).path(TrialKey.parse("made/odd/3#0"))
    assert "error: the connection was refused" in command("show", path).out


def test_of_a_task_the_trial_that_missed_is_shown(run: Path) -> None:
    text = command("show", "even/12", "--results", run).out
    assert text.startswith("2 trials of this task; the others: made/even/12#1\n\nmade/even/12#0: ")


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


def test_messages_move_no_cursor_and_fit_the_terminal() -> None:
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


# The page of a run while conversations are held, over real HTTP and in a real Chromium.


KEYS = [f"made/even/{i}#0" for i in range(6)]
BRIEFING = Briefing("Be kind.", (ToolSpec("look", "Looks."),))
PHONE = 390
HOSTILE = "</script><img src=x onerror='window.pwned = 1'>\x1b[31m\u202e\u2066{{1}}' onclick='window.pwned=1"


@dataclass
class Going:
    """A run that goes on: one of six trials has missed, and two are being held."""

    directory: Path
    server: Server
    held: list[Growing]
    lock: lock.Lock

    def finish(self, at: int) -> None:
        Store(self.directory).write(made_trial(KEYS[at], run_id="run"))
        if at - 1 < len(self.held):
            self.held[at - 1].end()


@pytest.fixture
def going(tmp_path: Path) -> Iterator[Going]:
    directory = write_run(tmp_path / "results", [made_trial(KEYS[0], success=False)], absent=KEYS[1:])
    taken = lock.take(directory, "pytest")
    held = [Growing(directory, TrialKey.parse(key), "run") for key in KEYS[1:3]]
    held[0].hear(BRIEFING, [UserSaid("Good morning")])
    held[0].hear(BRIEFING, [AgentSaid(calls=(ToolCall("look", {"at": 1}, "c1"),)), ToolReturned("c1", "look", "[1]")])
    with Server(Watched(directory)) as server:
        yield Going(directory, server, held, taken)
    taken.release()


def fetch(url: str, **headers: str) -> str:
    with urlopen(Request(url, headers=headers)) as answer:
        return str(answer.read().decode())


def test_a_conversation_is_reported_from_where_it_is_known(going: Going) -> None:
    message = going.server.watched.look()
    assert [(now["name"], now["messages"], now["waits"]) for now in message["now"]] == [
        (KEYS[1], 3, "agent"),
        (KEYS[2], 0, "begins"),
    ]
    assert message["why"] == ["1x agent: left out what the user had to be told"] or len(message["why"]) == 1
    url = f"{going.server.url}status?talk={message['now'][0]['id']}"
    talk = json.loads(fetch(url))["talk"]
    assert (talk["policy"], talk["tools"]) == ("Be kind.", ["look: Looks."])
    assert [turn["role"] for turn in talk["turns"]] == ["user", "agent", "tool"]
    later = json.loads(fetch(f"{url}&from=2"))["talk"]
    assert ([turn["role"] for turn in later["turns"]], "policy" in later) == (["tool"], False)
    assert json.loads(fetch(f"{url}&from=x"))["talk"] == talk
    assert json.loads(fetch(f"{url}&from={'9' * 5_000}"))["talk"]["turns"] == []
    assert json.loads(fetch(f"{going.server.url}status?talk=../../run"))["talk"] is None
    for wrong in (url.replace(going.server.token, "x" * len(going.server.token)), url.replace("status", "live")):
        with pytest.raises(HTTPError, match="404"):
            fetch(wrong)
    with pytest.raises(HTTPError, match="404"):
        fetch(url, Host="evil.example")
    # What has ended is the report's; what another run left behind is nobody's.
    Growing(going.directory, TrialKey.parse(KEYS[3]), "before")
    Store(going.directory).write(made_trial(KEYS[1], run_id="run"))
    assert [now["key"] for now in going.server.watched.look()["now"]] == [KEYS[2]]


def test_messages_leave_as_escaped_text(going: Going) -> None:
    going.held[1].hear(BRIEFING, [UserSaid(HOSTILE)])
    message = going.server.watched.look()
    raw = fetch(f"{going.server.url}status?talk={message['now'][1]['id']}")
    assert not set(raw) & set("<>&\x1b\u202e\u2066")


def test_pages_that_are_open_at_the_end_are_waited_for(going: Going) -> None:
    url = going.server.url
    assert fetch(f"{url}report?page=a")
    for page in "abc":
        assert json.loads(fetch(f"{url}status?page={page}"))["running"]
    waiting = threading.Thread(target=going.server.let_them_see, args=(240.0,))
    waiting.start()
    while json.loads(fetch(f"{url}status?page=a&wait=1"))["running"]:
        pass
    # One has the last report, one is closed.
    assert "made/even/0#0" in fetch(f"{url}report?page=a")
    fetch(f"{url}closed?page=b")
    assert not json.loads(fetch(f"{url}status?page=a"))["running"]
    assert waiting.is_alive()
    fetch(f"{url}report?page=c")
    waiting.join(240)
    assert not waiting.is_alive()


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    assert "no such directory" in command("show", "--browser", "--results", tmp_path / "b", code=2).err
    assert "--browser shows a whole run" in command("show", "airline/1", "--browser", code=2).err


def test_two_runs_are_side_by_side(tmp_path: Path) -> None:
    before = write_run(tmp_path / "before", [made_trial(KEYS[0], said="once"), made_trial(KEYS[2])])
    after = write_run(tmp_path / "after", [made_trial(KEYS[0], success=False), made_trial("made/even/2#1")])
    watched = Watched(after, before)
    page = watched.report()
    assert 'id="baseline"' in page
    assert str(before) in page


def shown(browser: Browser) -> list[str]:
    return browser.texts("#talk .turn .who")


@pytest.mark.slow
def test_a_person_sees_a_conversation_grow(going: Going, browser: Browser) -> None:
    browser.visit(going.server.url)
    browser.wait("document.querySelectorAll('#talk .turn').length === 3")
    assert browser.texts("#inflight b") == [KEYS[1], KEYS[2]]
    lists = "[...document.querySelectorAll('#now > :first-child > div')].map(d => d.getBoundingClientRect())"
    assert browser.run(f"return {lists}.every((d, i, all) => d.width > 200 && (!i || d.top > all[i - 1].top))")
    assert browser.one("#talk-title").text == KEYS[1]
    assert shown(browser) == ["User", "Agent", "Tool"]
    assert browser.one("#tab-now").text == "Now (2)"
    browser.run("window.first = document.querySelector('#talk .turn')")

    going.held[0].hear(BRIEFING, [AgentSaid("It is there.")])
    browser.wait("document.querySelectorAll('#talk .turn').length === 4")
    # What was there is the same still: nobody loses their place.
    assert browser.run("return window.first === document.querySelector('#talk .turn')")

    going.held[1].hear(BRIEFING, [UserSaid(HOSTILE)])
    browser.run("document.querySelectorAll('#inflight button')[1].focus()")
    browser.press("\ue007")
    browser.wait("document.querySelectorAll('#talk .turn').length === 1")
    assert browser.one("#talk-title").text == KEYS[2]
    assert "onerror" in browser.one("#talk .bubble").text
    assert browser.run("return [window.pwned, document.querySelectorAll('#talk img').length]") == [None, 0]
    pressed = "[...document.querySelectorAll('#inflight button')].map(b => b.getAttribute('aria-pressed')).join()"
    browser.wait(f"{pressed} === 'false,true'")
    # The focus stays, although the list is drawn anew every second.
    going.held[1].hear(BRIEFING, [AgentSaid("No.")])
    browser.wait("document.querySelectorAll('#talk .turn').length === 2")
    assert browser.run("return document.activeElement.querySelector('b')?.textContent") == KEYS[2]

    going.finish(2)
    browser.wait("document.querySelector('#talk-state button')")
    browser.one("#talk-state button").click()
    browser.wait("!document.getElementById('reported').hidden")
    frame = "document.getElementById('report').contentDocument"
    browser.wait(f"{frame}.querySelector('#viewer-title')?.textContent === '{KEYS[2]}'")
    assert [m for m in browser.messages() if "favicon" not in m] == []


@pytest.mark.slow
def test_tabs_work_by_keys_and_the_end_shows_the_report(going: Going, browser: Browser) -> None:
    browser.visit(going.server.url)
    browser.wait("document.getElementById('tab-now').textContent === 'Now (2)'")
    browser.run("document.getElementById('tab-now').focus()")
    browser.press("\ue014")
    state = "return [document.activeElement.id, document.getElementById('now').hidden]"
    assert browser.run(state) == ["tab-report", True]
    browser.press("\ue012")
    assert browser.run(state) == ["tab-now", False]
    browser.visit(going.server.url)
    browser.wait("document.getElementById('tab-now').textContent === 'Now (2)'")
    for at in range(1, 6):
        going.finish(at)
    going.lock.release()
    browser.wait("document.getElementById('line').textContent.endsWith('the run is over')")
    browser.wait("document.getElementById('now').hidden")
    browser.wait("document.getElementById('status').textContent === '6 of 6 trials have finished'")


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (PHONE, False)])
def test_axe_finds_nothing_while_a_run_goes_on(going: Going, browser: Browser, width: int, dark: bool) -> None:
    source = axe_source()
    browser.visit(going.server.url, width=width, dark=dark)
    browser.wait("document.querySelectorAll('#talk .turn').length === 3")
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    browser.run(source)
    found = browser.driver.execute_async_script("axe.run({iframes: false}).then(arguments[0])")
    assert [(v["id"], [n["target"] for n in v["nodes"][:3]]) for v in found["violations"]] == []
