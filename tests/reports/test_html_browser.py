"""The page in a real browser."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from browser import ENTER, ESCAPE, Browser
from made_trials import made_error, made_trial, many_trials

from pytest_a2a_bench.conformance.report import CheckRow
from pytest_a2a_bench.model import DialectFinding, Reward, RewardCheck, ToolCall, TrialKey, Turn
from pytest_a2a_bench.reports.contents import Contents
from pytest_a2a_bench.reports.html import render
from pytest_a2a_bench.results.baseline import Baseline
from pytest_a2a_bench.results.compare import compare
from pytest_a2a_bench.results.gates.files import StoredGate, StoredVerdict

pytestmark = pytest.mark.slow  # Chromium starts once more for each test that changes the window

PHONE = 360


def contents() -> Contents:
    trials = [
        *(made_trial(f"tau2/airline/{i}#{k}", success=i % 3 > 0, said=f"pear{i}") for i in range(40) for k in range(2)),
        *(made_trial(f"tau2/retail/{i}#0", success=i % 2 > 0) for i in range(5)),
        made_error("tau2/retail/9#0"),
        made_trial("made/crm/a long name of a task that says what it is about#0", provenance={"category": "leads"}),
        made_trial("made/crm/other#0", provenance={"category": "cases"}),
    ]
    before = [made_trial(f"tau2/airline/{i}#0", success=i % 4 > 0) for i in range(40)]
    rows = [
        CheckRow("SEND-001", "send", "MUST", "1.0", "JSONRPC", "failed"),
        CheckRow("SEND-002", "send", "MUST", "1.0", "HTTP+JSON", "passed"),
    ]
    gates = (StoredGate("min_pass", "pass", {}, "enough"), StoredGate("baseline", "regressed", {}, "less than before"))
    return Contents(
        trials=trials,
        endpoint="http://agent.example/",
        agent="Agent 1",
        checks=rows,
        explanations={"1.0/SEND-001[JSONRPC]": "found: no answer"},
        verdict=StoredVerdict("r", "regressed", True, gates, ()),
        comparison=compare(Baseline.of(before), Baseline.of(trials)),
        baseline_name="baseline.json",
        beside={str(trial.key): trial for trial in before[:1]},
        nodeids={str(trial.key): "test_x.py::test_x" for trial in trials},
    )


def write(directory: Path, what: Contents) -> Path:
    path = directory / "report.html"
    path.write_text(render(what), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("page"), contents())


def keys_shown(browser: Browser) -> list[str]:
    return browser.texts("#trials-table .open")


def open_first(browser: Browser) -> None:
    browser.run("document.querySelector('#trials-table .open').click()")
    browser.wait("document.querySelector('#viewer').open")


def test_the_page_asks_the_network_for_nothing_and_its_policy_is_kept(browser: Browser, page: Path) -> None:
    browser.open(page)
    open_first(browser)
    assert browser.requests() == [page.as_uri()]
    assert browser.messages() == []
    # The policy is in force, so that the line above means something.
    browser.run("const i = new Image(); i.src = 'http://127.0.0.1:1/x.png'; document.body.append(i)")
    browser.run("const s = document.createElement('style'); s.append('body{}'); document.head.append(s)")
    browser.wait("true")
    assert len([m for m in browser.messages() if "Content Security Policy" in m]) == 2


def test_the_table_has_pages_is_searched_sorted_and_filtered(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.one("#count").text == "88 trials"
    assert len(keys_shown(browser)) == 50
    browser.run("document.querySelector('#pages button:last-child').click()")
    assert "Page 2 of 2" in browser.one("#pages").text
    assert len(keys_shown(browser)) == 38
    browser.press("[")
    assert len(keys_shown(browser)) == 50
    # Paper has every trial.
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert len(keys_shown(browser)) == 88
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert len(keys_shown(browser)) == 50
    # A search looks at rows, and where asked into transcripts.
    search = browser.one("#search")
    search.send_keys("refused")
    assert keys_shown(browser) == ["retail/9#0"]
    search.clear()
    search.send_keys("pear17")
    assert browser.one("#count").text == "No trial is like that."
    browser.one("#deep").click()
    browser.wait("document.querySelectorAll('#trials-table .open').length === 2")
    assert keys_shown(browser) == ["airline/17#0", "airline/17#1"]
    browser.one("#deep").click()
    browser.run("arguments[0].value = ''; arguments[0].dispatchEvent(new Event('input'))", search)
    # A title sorts and says so; what has no reward is last, either way.
    title = browser.one("[data-column=k]")
    browser.one("[data-sort=k]").click()
    assert title.get_attribute("aria-sort") == "ascending"
    first = keys_shown(browser)
    assert first.index("airline/2#0") < first.index("airline/10#0")
    browser.one("[data-sort=k]").click()
    assert title.get_attribute("aria-sort") == "descending"
    assert keys_shown(browser)[0] == "retail/9#0"
    browser.one("[data-sort=r]").click()
    browser.one("[data-sort=r]").click()
    assert browser.texts("#trials-table tbody .state")[0] == "missed"
    # A filter shows only its trials and their number.
    browser.one(".chip.infrastructure_error").click()
    assert keys_shown(browser) == ["retail/9#0"]
    assert browser.one("#count").text == "1 of 88 trials"
    assert browser.one(".chip.infrastructure_error").get_attribute("aria-pressed") == "true"
    browser.one(".chip.infrastructure_error").click()
    browser.run("const s = document.querySelector('#domain'); s.value = 'retail'; s.dispatchEvent(new Event('change'))")
    assert len(keys_shown(browser)) == 6
    browser.one(".chip.passed").click()
    assert set(browser.texts("#trials-table tbody .state")) == {"passed"}
    assert len(keys_shown(browser)) == 2


def test_a_trial_is_found_opened_and_left_by_keyboard_alone(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.press("/")
    browser.press("airline/3#", ESCAPE)
    browser.press("j", "j", "k")
    assert browser.run("return document.activeElement.textContent") == "airline/3#0"
    browser.press(ENTER)
    browser.wait("document.querySelector('#viewer').open && document.querySelector('.turn')")
    assert browser.one("#viewer-title").text == "airline/3#0"
    assert browser.run("return document.querySelector('#viewer').contains(document.activeElement)")
    browser.press("j")
    browser.wait("document.querySelector('#viewer-title').textContent === 'airline/3#1'")
    browser.press(ESCAPE)
    browser.wait("!document.querySelector('#viewer').open")
    # The dialog says that it was closed after it is.
    browser.wait("document.activeElement.textContent === 'airline/3#1'")
    browser.press("?")
    assert "next and previous trial" in browser.one("#keys").text
    browser.one("#keys-on").click()
    browser.press(ESCAPE)
    browser.press("?")
    assert not browser.run("return document.querySelector('#keys').open")
    browser.run("localStorage.clear()")


def test_a_transcript_shows_messages_calls_results_reward_and_wire(browser: Browser, page: Path) -> None:
    browser.open(page, after="#trial=tau2%2Fairline%2F3%230")
    browser.wait("document.querySelector('.turn')")
    assert browser.texts(".turn .who") == ["Agent", "User", "Agent", "Tool", "Agent"]
    assert browser.texts(".turn .bubble") == ["pear3", "Please look it up.", "It is 42."]
    assert browser.texts(".turn .box pre") == ['{\n  "id": "u1"\n}', '{\n  "name": "Ann"\n}']
    assert "the agent says 42" in browser.one(".checks").text
    assert browser.texts(".wire tbody td") == ["03:04:05.678", "SendMessage", "200", "13 ms", "1", "\u2013"]
    assert "reward 0" in browser.one(".outcome").text


def test_a_trial_is_beside_the_earlier_one_and_can_be_held_again(browser: Browser, tmp_path: Path) -> None:
    golds = (
        RewardCheck("action", 'assistant: get_user(id="u1")', met=True, counted=False),
        RewardCheck("action", "assistant: book()", met=False, counted=False),
    )
    before = made_trial("tau2/airline/1#0")
    now = dataclasses.replace(
        made_trial("tau2/airline/1#0", success=False),
        reward_info=Reward(0.0, checks=golds),
        findings=(DialectFinding("unreadable-call", "no JSON", "{"),),
        transcript=(*before.transcript[:4], Turn("agent", "It is 41.")),
    )
    what = Contents(
        trials=[now], endpoint="http://h/", nodeids={str(now.key): "a2a/airline::x[1-t0]"},
        beside={str(now.key): before}, baseline_name="before",
    )  # fmt: skip
    browser.open(write(tmp_path, what), after="#trial=tau2%2Fairline%2F1%230")
    browser.wait("document.querySelector('.pair')")
    assert browser.texts(".golds tbody td:last-child") == ['get_user({ "id": "u1" })', "book was never called"]
    assert browser.texts(".pair h4") == ["this runmissed", "beforepassed"]
    assert browser.texts(".differs .bubble") == ["It is 41.", "It is 42."]
    assert "unreadable-call turn 0: no JSON" in browser.texts("#viewer-body summary")
    browser.run("window.copied = []; navigator.clipboard.writeText = async (text) => { window.copied.push(text) }")
    browser.run("document.querySelectorAll('.commands button').forEach((button) => button.click())")
    assert browser.run("return window.copied") == ["pytest --a2a-endpoint http://h/ 'a2a/airline::x[1-t0]'"]
    browser.wait("document.querySelector('.commands button').textContent === 'Copied'")
    browser.run("navigator.clipboard.writeText = async () => { throw new Error() }")
    browser.run("document.querySelector('.commands button').click()")
    browser.wait("getSelection().toString().startsWith('pytest --a2a-endpoint')")
    assert browser.messages() == []


def test_a_changed_task_opens_its_worst_trial_and_its_labels(browser: Browser, page: Path, tmp_path: Path) -> None:
    browser.open(page)
    browser.run("document.querySelector('#baseline details').open = true")
    browser.run("document.querySelector('[data-task=\"tau2/airline/3\"]').click()")
    browser.wait("document.querySelector('.turn')")
    assert browser.one("#viewer-title").text == "airline/3#0"
    trials = [made_trial("tau2/airline/1#0"), made_trial("tau2/airline/1#0@slow", success=False)]
    before = [made_trial("tau2/airline/1#0"), made_trial("tau2/airline/1#0@slow")]
    compared = compare(Baseline.of(before), Baseline.of(trials))
    browser.open(write(tmp_path, Contents(trials=trials, comparison=compared)))
    browser.one(".open-task").click()
    browser.wait("document.querySelector('.turn')")
    assert browser.one("#viewer-title").text == "airline/1#0@slow"


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_follows_the_system_and_its_own_switch(browser: Browser, page: Path, dark: bool) -> None:
    def luminance() -> int:
        colour = str(browser.run("return getComputedStyle(document.body).backgroundColor"))
        return sum(int(n) for n in colour.removeprefix("rgb(").removesuffix(")").split(","))

    browser.open(page, dark=dark)
    assert (luminance() < 150) is dark
    browser.one("#theme").click()
    assert (luminance() < 150) is not dark
    assert browser.one("#theme").text == ("Dark" if dark else "Light")
    browser.run("localStorage.clear()")


HOSTILE = (
    "</script><script>window.pwned = 1</script>",
    "<img src=x onerror='window.pwned = 1'>",
    "<!--<script>",
    "[x](javascript:window.pwned=1)",
    "\x1b[31mred\x1b]8;;http://evil.example\x07",
    "\u202eevil\u2066",
    "\u2028window.pwned = 1\u2029",
    "' onmouseover='window.pwned=1",
    '"><svg onload="window.pwned=1">',
    "{{constructor.constructor('window.pwned=1')()}}",
)


def hostile(text: str) -> Contents:
    check = RewardCheck("communicate", text, met=False, detail=text)
    trial = made_trial(
        f"{'tau2'}/airline/{text}#0",
        transcript=(
            Turn("agent", text, (ToolCall(text, {text: text}, text),)),
            Turn("tool", text, tool=text, call_id=text, error=True, requestor=text),
        ),
        reward_info=Reward(0.0, (text,), {text: 0.0}, (check,), note=text, db_diff=(text,)),
        termination_reason=text,
        dialect=text,
        provenance={"user": text, "judge": text, "benchmark": text, "category": text},
    )
    wire = dataclasses.replace(trial.metrics[0], method=text, error=text, endpoint=text)
    trials = [
        dataclasses.replace(trial, metrics=(wire,)),
        dataclasses.replace(trial, key=TrialKey("tau2", text, "2"), provenance={"category": "x"}),
    ]
    word: Any = text  # a verdict's words are checked where its file is read, and not by the page
    return Contents(
        trials=trials,
        endpoint=text,
        agent=text,
        interface=text,
        checks=[CheckRow(text, text, "MUST", "1.0", text, "failed", text)],
        explanations={f"1.0/{text}[{text}]": text},
        verdict=StoredVerdict(text, word, False, (StoredGate(text, word, {}, text),), (), notes=(text,)),
        comparison=compare(Baseline.of(trials, text), Baseline.of(trials)),
        baseline_name=text,
        notes=(text,),
        beside={str(trial.key): trial},
        nodeids={str(trial.key): text},
    )


@pytest.mark.parametrize("text", HOSTILE, ids=[str(i) for i in range(len(HOSTILE))])
def test_agent_text_is_never_rendered_as_html(browser: Browser, tmp_path: Path, text: str) -> None:
    browser.open(write(tmp_path, hostile(text)))
    own = browser.run("return document.scripts.length")
    open_first(browser)
    browser.wait("document.querySelector('.turn')")
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.run("return window.pwned") is None
    assert browser.run("return document.scripts.length") == own == 3  # the data, one chunk, our own
    assert browser.run("return document.querySelectorAll('img, iframe, object, embed, svg svg').length") == 0
    assert browser.run("return [...document.links].every(a => a.getAttribute('href').startsWith('#'))")
    assert not set(str(browser.run("return document.body.innerText"))) & set("\x1b\x07\u202e\u2066")
    if text.isprintable():
        assert browser.one(".turn .bubble").text == text
    assert browser.messages() == []
    assert [url for url in browser.requests() if not url.startswith("file:")] == []


@pytest.mark.parametrize(
    ("width", "dark", "opened"), [(1280, False, False), (1280, True, True), (PHONE, True, False), (PHONE, False, True)]
)
def test_axe_finds_nothing_on_any_page(browser: Browser, page: Path, width: int, dark: bool, opened: bool) -> None:
    browser.open(page, width=width, dark=dark)
    if opened:
        open_first(browser)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.axe(resultTypes=["violations"]) == []
    element = "document.querySelector('#viewer-body')" if opened else "document.documentElement"
    assert browser.run(f"return {element}.scrollWidth <= {element}.clientWidth")
    assert browser.run("return innerWidth") == width
    every = "[...document.querySelectorAll('main > section > *')]"
    assert browser.run(f"return {every}.filter(e => e.getBoundingClientRect().right > innerWidth + 1).length") == 0


@pytest.mark.parametrize("chosen", ["", "dark"])
def test_paper_is_light_also_where_the_screen_is_dark(browser: Browser, page: Path, chosen: str) -> None:
    browser.open(page, dark=True)
    browser.run("if (arguments[0]) theme.set(arguments[0])", chosen)
    ink = "return getComputedStyle(document.body).color"
    assert browser.run(ink) == "rgb(232, 230, 225)"
    dark = {"name": "prefers-color-scheme", "value": "dark"}
    browser.command("Emulation.setEmulatedMedia", media="print", features=[dark])
    assert browser.run(ink) == "rgb(32, 35, 42)"
    browser.command("Emulation.setEmulatedMedia", media="")
    browser.run("localStorage.clear()")


def test_a_thousand_long_trials_can_be_filtered_and_each_be_opened(browser: Browser, tmp_path: Path) -> None:
    trials = list(many_trials(1_000, turns=3))
    browser.open(write(tmp_path, Contents(trials=trials)))
    browser.one("#search").send_keys("odd/124#7")
    assert browser.one("#count").text == "1 of 1,000 trials"
    browser.press(ESCAPE, "j", ENTER)
    browser.wait("document.querySelector('.turn')")
    last = next(t for t in trials if str(t.key) == "made/odd/124#7")
    assert browser.texts(".turn.agent .bubble") == [t.text for t in last.transcript if t.role == "agent"]
