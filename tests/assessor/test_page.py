"""The page at ``/``, numbers and logs: as served, and in a real browser."""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from assessor_server import LOCAL, Caller, Told, gen3, served, wait_for_end
from browser import chromium, missing
from builtin_server import served as agent_served

from pytest_a2a_bench.assessor.callers import Callers
from pytest_a2a_bench.assessor.monitoring import JsonFormatter
from pytest_a2a_bench.assessor.terms import Terms
from pytest_a2a_bench.secret import KNOWN

ADA, BOB = "ada-7c1e5f6b2d9a4830", "bob-99d0b3c4a1e2f756"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("assessor") / "results"


@pytest.fixture(scope="module")
def url(results: Path) -> Iterator[str]:
    with served(Terms(results, guard=LOCAL, is_private=True)) as found:
        yield found


@pytest.fixture(scope="module")
def told(url: str, oracle_url: str, results: Path) -> Told:
    found = Caller(url).ask(gen3(oracle_url, domain="mock", num_tasks=2, tag_trials=True))
    wait_for_end(results, found)
    return found


def test_the_page_shows_what_ended_and_links_its_report(url: str, told: Told) -> None:
    answer = httpx.get(url)
    assert answer.headers["content-type"].startswith("text/html")
    assert "mock: 2 of 2 trials passed" in answer.text
    assert f'href="assessments/{told.task}"' in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    report = httpx.get(f"{url}assessments/{told.task}")
    assert "create_task_1" in report.text
    for name in ("nothing", "..%2f..%2fetc", "."):
        assert httpx.get(f"{url}assessments/{name}").status_code in (404, 405)


@pytest.mark.slow
def test_a_stranger_writes_no_markup(url: str) -> None:
    refused = gen3("http://127.0.0.1:1/<script>alert(1)</script>", domain="mock", num_tasks=1)
    thread = threading.Thread(target=Caller(url).ask, args=(refused,))
    thread.start()
    try:
        found = ""
        while "alert(1)" not in found:
            found = httpx.get(url).text
            time.sleep(0.05)
        assert "<script>alert" not in found
    finally:
        thread.join(60)


def test_numbers_for_prometheus(url: str, told: Told) -> None:
    text = httpx.get(f"{url}metrics").text
    assert 'a2a_assessor_assessments_ended_total{evaluation="tau2",outcome="completed"} 1.0' in text
    assert 'a2a_assessor_trials_total{domain="mock",outcome="passed"} 2.0' in text
    assert 'a2a_assessor_assessments{state="waiting"} 0.0' in text
    assert re.search(r"a2a_assessor_agent_turn_seconds_count [1-9]", text)
    assert 'a2a_assessor_requests_total{method="POST",status="200"}' in text


def test_reports_are_for_operators(tmp_path: Path, oracle_url: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"ada={ADA}\nbob={BOB}\nboss=boss-0123456789abcdef\n")
    terms = Terms(tmp_path / "results", guard=LOCAL, operators=("boss",))
    with served(terms, Callers(file)) as url:
        ended = Caller(url, ADA).ask(gen3(oracle_url, domain="mock", num_tasks=1, tag_trials=True))
        wait_for_end(terms.results, ended)
        task = ended.task

        def get(path: str, token: str) -> httpx.Response:
            return httpx.get(f"{url}{path}", auth=("me", token))

        assert "mock: 1 of 1 trial passed" in get("", ADA).text
        assert task not in get("", ADA).text
        assert "mock" not in get("", BOB).text
        assert task in get("", "boss-0123456789abcdef").text
        assert [get(f"assessments/{task}", token).status_code for token in (ADA, BOB)] == [404, 404]
        assert get(f"assessments/{task}", "boss-0123456789abcdef").status_code == 200


def test_logs_are_json_without_secrets() -> None:
    forget = KNOWN.remember([])
    record = logging.makeLogRecord(
        {"name": "x", "msg": "told %s", "args": ("a\x1b[31m\nb",), "levelname": "INFO", "assessment": "a1"}
    )
    found = json.loads(JsonFormatter().format(record))
    forget()
    assert (found["level"], found["message"], found["assessment"]) == ("info", "told a b", "a1")
    assert found["time"].endswith("Z")


@pytest.mark.slow
def test_in_a_browser_it_follows_what_runs(url: str, told: Told, tmp_path: Path) -> None:
    if why := missing():
        pytest.skip(why)
    with chromium(tmp_path) as browser, agent_served("oracle?latency=0.5") as agent:
        request = gen3(agent.url, domain="mock", num_tasks=4, tag_trials=True, concurrency=1)
        running = Told()
        thread = threading.Thread(target=Caller(url).ask, args=(request,), kwargs={"told": running})
        thread.start()
        while not any("begun" in text for _, text in running.updates):
            time.sleep(0.02)
        for width in (360, 1280):
            browser.command(
                "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 600
            )
            browser.driver.get(url)
            wide = browser.driver.execute_script("return document.documentElement.scrollWidth")
            assert wide <= width
        seen = set()
        while thread.is_alive():
            seen |= {element.text for element in browser.driver.find_elements("css selector", "[role=status]")}
            time.sleep(0.2)
        deadline = time.monotonic() + 60
        while "mock: 4 of 4 trials passed" not in browser.driver.page_source and time.monotonic() < deadline:
            time.sleep(0.2)
        assert "mock: 4 of 4 trials passed" in browser.driver.page_source, "it was not loaded again"
        assert len(seen) > 1, seen
