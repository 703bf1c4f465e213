"""Canaries: an agent repeats every secret in every encoding wherever it may, and none is found in what a run leaves."""

import importlib
import itertools
import json
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import command, run
from harness import Bench, junit_cases, verdict_of
from raw_agent import RawAgent, Request, raw_agent, response, rpc
from span_receiver import span_receiver
from spellings import ENCODINGS, found_in

from pytest_a2a_bench.cli.main import main
from pytest_a2a_bench.redact import KNOWN

TOKEN = "t0ken/with+odd=chars&\"quotes'<and>\\\\more~"
KEY = 'endp0int key/+&of"the query'
MODEL_KEY = "sk-canary-0f-the-Model/1+2="
PROXY_PASSWORD = "pr0xy:Pass/word+9"
SALESFORCE = "00D!Sales.Force_t0ken"
CANARIES = {"token": TOKEN, "key": KEY, "model": MODEL_KEY, "proxy": PROXY_PASSWORD, "salesforce": SALESFORCE}

EVERYTHING = "\n".join(f"{name}: {encode(c)} ;" for c in CANARIES.values() for name, encode in ENCODINGS.items())
TEXT = [{"kind": "text", "text": EVERYTHING}]


def said(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "message", "role": "agent", "messageId": "m", "parts": [*parts]}


def message(request: Request) -> bytes:
    return rpc(said(*TEXT), request)


def data(request: Request) -> bytes:
    return rpc(said({"kind": "data", "data": {TOKEN: [EVERYTHING, {"deep": CANARIES}]}}), request)


def artifact(request: Request) -> bytes:
    made = [{"artifactId": EVERYTHING, "name": TOKEN, "parts": TEXT, "metadata": CANARIES}]
    task = {"kind": "task", "id": f"t {TOKEN}", "contextId": f"c {KEY}", "status": {"state": "completed"}}
    return rpc({**task, "artifacts": made}, request)


def status(request: Request) -> bytes:
    failed = {"state": "failed", "message": said(*TEXT)}
    return rpc({"kind": "task", "id": "t", "contextId": "c", "status": failed}, request)


def error(request: Request) -> bytes:
    what = {"code": -32603, "message": EVERYTHING, "data": [{"said": EVERYTHING}]}
    return response({"jsonrpc": "2.0", "id": request.json["id"], "error": what})


def refusal(request: Request) -> bytes:
    return response(f"{request.headers} {request.path} {EVERYTHING}", "400 Bad Request", "text/plain")


def call(request: Request) -> bytes:
    text = json.dumps({"name": "get_users", "arguments": {"token": TOKEN, "all": EVERYTHING}})
    return rpc(said({"kind": "text", "text": text}), request)


ANSWERS: tuple[Callable[[Request], bytes], ...] = (message, data, artifact, status, error, refusal, call)

OWN = """
import logging
import warnings

import pytest

from pytest_a2a_bench.model import Part


@pytest.fixture
def broken(a2a_client_config):
    endpoint = str(a2a_client_config.endpoint)
    raise RuntimeError(f"no way to {endpoint} with {a2a_client_config}")


def test_shows_what_it_can(a2a_client, a2a_client_config, agent_card, record_property):
    token = a2a_client_config.auth.token.reveal()
    headers = {"authorization": f"Bearer {token}", "raw": token.encode()}
    print(headers, a2a_client_config.endpoint)
    logging.getLogger("mine").warning("sent %s to %s", headers, a2a_client_config.endpoint)
    try:
        raise ValueError(token)
    except ValueError:
        logging.getLogger("mine").exception("failed")
    warnings.warn(f"about {headers}")
    record_property("sent", headers["authorization"])
    replies = [a2a_client.session().send([Part.of_text("hello")]).text for _ in range(3)]
    assert replies == [token, headers, agent_card]


def test_shows_an_error(broken):
    pass
"""


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> Iterator[RawAgent]:
    numbers = itertools.count()

    def answer(request: Request) -> bytes:
        try:
            return ANSWERS[next(numbers) % len(ANSWERS)](request)
        except ValueError:  # no JSON was asked
            return refusal(request)

    with raw_agent(answer) as running:
        running.card = {
            "name": f"raw {TOKEN}",
            "version": KEY,
            "description": EVERYTHING,
            "url": f"{running.url}/rpc",
            "protocolVersion": "0.3.0",
            "securitySchemes": {"s": {"type": "http", "scheme": "bearer"}},
            "security": [{"s": []}],
            "skills": [{"id": TOKEN, "name": MODEL_KEY, "description": EVERYTHING, "tags": [KEY]}],
        }
        monkeypatch.setenv("MY_TOKEN", TOKEN)
        monkeypatch.setenv("OPENAI_API_KEY", MODEL_KEY)
        monkeypatch.setenv("HTTPS_PROXY", f"http://user:{urllib.parse.quote(PROXY_PASSWORD, safe='')}@127.0.0.1:9")
        monkeypatch.setenv("SALESFORCE_ACCESS_TOKEN", SALESFORCE)
        yield running


def endpoint_of(agent: RawAgent) -> str:
    return f"{agent.url}/?key={urllib.parse.quote_plus(KEY)}"


def assert_clean(directory: Path, *shown: str) -> None:
    """See that no canary is in any file of a directory (but the tests' own source) or in what was shown."""
    texts = {f"output {number}": text for number, text in enumerate(shown)}
    for path in directory.rglob("*"):
        if path.is_file() and path.suffix not in (".py", ".pyc"):
            texts[str(path.relative_to(directory))] = path.read_text(errors="replace")
    assert any(len(text) > 1000 for text in texts.values())
    leaks = {
        f"{where}: {name} as {', '.join(found)}"
        for where, text in texts.items()
        for name, canary in CANARIES.items()
        if (found := found_in(text, canary))
    }
    assert not leaks, "\n".join(sorted(leaks))


EVERY_REPORT = (
    *("-ppytest_metadata.plugin", "-ppytest_jsonreport.plugin", "-ppytest_reportlog.plugin"),
    *("--json-report", "--report-log=log.jsonl", "--junitxml=junit.xml", "-ojunit_logging=all"),
    *("--a2a-html=page.html", "--a2a-markdown=run.md", "--a2a-set=github=on"),
    *("-l", "--full-trace", "-vv", "--log-level=DEBUG", "--log-file=run.log", "-rA"),
)


def test_no_canary_is_found_in_anything_that_a_run_leaves(
    pytester: pytest.Pytester, bench: Bench, agent: RawAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_own=OWN)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    # A warning is an error, so that its text is in a traceback, too.
    chosen = ("--a2a-suite=mock", "test_own.py", "--a2a-record=tapes", "-k", "create_task_1-t0 or shows", "-Werror")
    with span_receiver() as spans:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", spans.url)
        result = bench("--a2a-endpoint", endpoint_of(agent), "--a2a-auth-env=MY_TOKEN", *EVERY_REPORT, *chosen)
        monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT")
    assert spans.spans
    shown = result.stdout.str()
    assert "***" in shown
    assert "secret that it must keep to itself: MY_TOKEN" in shown
    assert list((pytester.path / "tapes").iterdir())
    assert_clean(pytester.path, shown, result.stderr.str(), str(spans.spans), str(spans.resources))
    # What a trial comes to depends on which of its answers the agent happens to begin with.
    outcomes = result.parseoutcomes()
    assert outcomes["failed"] + outcomes["errors"] == 3


@pytest.mark.slow
def test_no_canary_is_found_after_replaying_resuming_and_gating(bench: Bench, agent: RawAgent) -> None:
    live = ("--a2a-endpoint", endpoint_of(agent), "--a2a-auth-env=MY_TOKEN", "--a2a-suite=mock")
    runs = [bench(*live, "--a2a-record=tapes", "-q", "--junitxml=live.xml")]
    recorded = sorted((bench.path / "tapes").iterdir())
    command("gate", "a2a-results", "--write-baseline", "base.json", "--allow-incomplete")
    runs.append(bench("--a2a-replay=tapes", "-k", "mock", "-q", "--a2a-results=again", "--junitxml=replayed.xml"))
    gates = ("--a2a-baseline=base.json", "--a2a-min-pass=0.1", "--a2a-html=page.html")
    runs.append(bench(*live, "--a2a-resume", *gates, "-vv"))
    assert recorded
    assert verdict_of(bench)["gates"]

    def rewards(name: str) -> dict[str, Any]:
        found = {path.name: json.loads(path.read_text()) for path in (bench.path / name / "trials").iterdir()}
        return {n: t["reward_info"]["value"] for n, t in found.items() if t["status"] == "evaluated"}

    evaluated = rewards("again")
    assert evaluated
    assert {n: r for n, r in rewards("a2a-results").items() if n in evaluated} == evaluated
    command("export", "html", "a2a-results", "-o", "report.html")
    expected = command("doctor")
    assert junit_cases(bench.path / "live.xml")
    assert_clean(bench.path, expected.out, expected.err, *(r.stdout.str() + r.stderr.str() for r in runs))


def test_no_canary_is_found_in_reports_of_conformance(pytester: pytest.Pytester, agent: RawAgent) -> None:
    asked = ("check", endpoint_of(agent), "--set", "auth-env=MY_TOKEN")
    _, *printed = run(*asked, "--card")
    for form in ("text", "json", "sarif", "markdown"):
        printed += run(*asked, "--format", form, "--group=send", "--group=card", "--timeout=5", "-o", form)[1:]
        text = (pytester.path / form).read_text()
        assert "***" in text, form
        if form in ("json", "sarif"):
            json.loads(text)
    assert_clean(pytester.path, *printed)


def test_a_crash_of_a_command_shows_no_secret(
    agent: RawAgent, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> object:
        raise RuntimeError(f"a bug, with {EVERYTHING}")

    # In the module that the command has: runs in this process may have left other copies.
    monkeypatch.setattr(importlib.import_module("pytest_a2a_bench.cli.check")._protocol, "judge_agent", crash)
    with pytest.raises(SystemExit) as ended:
        main(["check", endpoint_of(agent), "--set=auth-env=MY_TOKEN"])
    assert ended.value.code == 1
    expected = capsys.readouterr().err
    assert "RuntimeError: a bug, with" in expected
    assert not {name: found for name, canary in CANARIES.items() if (found := found_in(expected, canary))}


def test_nothing_is_remembered_after_a_run(desk: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2A_AUTH_TOKEN", TOKEN)
    desk("-q").assert_outcomes(passed=1)
    assert KNOWN.hide(TOKEN) == TOKEN
