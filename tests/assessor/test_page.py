"""The page that lists assessments, metrics and logs: as served, and in a real browser."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from assessor_server import LOCAL, Caller, asking, gen3, served, wait_for_end
from browser import ENTER, Browser
from builtin_server import served as agent_served

from pytest_a2a_bench.assessor.terms import Terms


@pytest.mark.slow
def test_a_stranger_writes_no_markup(tmp_path: Path) -> None:
    refused = gen3("http://127.0.0.1:1/<script>alert(1)</script>", domain="mock", num_tasks=1)
    with served(Terms(tmp_path / "results", guard=LOCAL, is_private=True)) as url, asking(Caller(url), refused, ""):
        found = ""
        while "alert(1)" not in found:
            found = httpx.get(url).text
            time.sleep(0.05)
        assert "<script>alert" not in found


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory, oracle_url: str) -> Iterator[str]:
    """A page with assessments that completed, failed, run and wait."""
    results = tmp_path_factory.mktemp("busy") / "results"
    terms = Terms(results, guard=LOCAL, is_private=True, per_caller=1)
    with served(terms) as url, agent_served("oracle?latency=30") as slow:
        caller = Caller(url)
        passing = gen3(oracle_url, domain="mock", num_tasks=2, tag_trials=True)
        for request in (passing, gen3("http://127.0.0.1:9/", domain="mock")):
            wait_for_end(results, caller.ask(request))
        assert "refresh" not in httpx.get(url).headers
        asked = gen3(slow.url, domain="mock", num_tasks=1, tag_trials=True)
        with asking(caller, asked, "working") as first, asking(caller, asked, "working") as second:
            yield url
            for one in (first, second):
                if caller.get(one.task).state == "working":
                    caller.cancel(one.task)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (360, False), (360, True)])
def test_axe_finds_nothing(browser: Browser, busy: str, width: int, dark: bool) -> None:
    browser.visit(busy, width=width, dark=dark)
    assert browser.run("return document.documentElement.scrollWidth") <= width
    ground = str(browser.run("return getComputedStyle(document.body).backgroundColor"))
    assert (int(ground.split("(")[1].split(",")[0]) < 64) == dark, ground
    assert browser.axe(resultTypes=["violations"]) == []


def test_it_lists_what_runs_first_reloads_while_anything_does_and_links_reports(busy: str) -> None:
    answer = httpx.get(busy)
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    states = re.findall(r"<tr><td>(\w+)</td>", answer.text)
    assert states == ["running", "waiting", "failed", "completed"]
    assert "0 of 1 trials done" in answer.text
    assert answer.headers["refresh"] == "10"
    assert "<script" not in answer.text

    row = next(row for row in answer.text.split("<tr>") if "mock: 2 of 2 trials passed" in row)
    [link] = re.findall('href="(assessments/[^"]+)"', row)
    assert "create_task_1" in httpx.get(busy + link).text
    for name in ("nothing", "..%2f..%2fetc", "."):
        assert httpx.get(f"{busy}assessments/{name}").status_code in (404, 405)


@pytest.mark.slow
def test_the_keyboard_reaches_a_report(browser: Browser, busy: str) -> None:
    browser.visit(busy)
    reached: list[str] = []
    while not reached or reached[-1] != "Report of mock":
        assert len(reached) < 4, reached
        browser.press("\ue004")
        reached.append(str(browser.run("return document.activeElement.ariaLabel"))[:14])
    browser.press(ENTER)
    browser.wait("location.pathname.startsWith('/assessments/')", 60)
