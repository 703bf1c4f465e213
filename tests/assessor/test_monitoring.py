"""What an operator sees of an assessment while it runs: spans, logs and numbers, and in none of them what was said."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from assessor_server import LOCAL, Caller, ask_raw, gen3, golds_of, saying, served, wait_for_end
from builtin_server import served as agent_served
from made_trials import made_trial
from one_test import in_one_test
from raw_agent import raw_agent
from span_receiver import attributes, span_receiver

from pytest_a2a_bench.assessor.monitoring import JsonFormatter, Monitor
from pytest_a2a_bench.assessor.terms import Terms
from pytest_a2a_bench.tracing import NO_SPAN, NO_TRACING, context_of

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CONTEXT = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=1"}
SAID = "words-of-an-agent-5c1e"
QUERY = json.dumps({"action": "execute", "query": "SELECT Id FROM Case LIMIT 1"})
ask_org = saying(QUERY, input_tokens=7, output_tokens=2, cost_usd=0.25)


@in_one_test(
    "headers",
    [
        {},
        {"tracestate": "vendor=1"},
        {"traceparent": f"00-{'0' * 32}-{PARENT}-01"},
        {"traceparent": f"00-{TRACE}-{'0' * 16}-01"},
        {"traceparent": f"ff-{TRACE}-{PARENT}-01"},
        {"traceparent": f"00-{TRACE}-{PARENT}-01-more"},
        {"traceparent": f"00-{TRACE.upper()}-{PARENT}-01"},
        {"traceparent": f"00-{TRACE}-{PARENT}-01\r\nX: y"},
    ],
)
def test_an_invalid_trace_context_is_not_forwarded(headers: dict[str, str]) -> None:
    assert context_of(headers) == {}
    assert NO_TRACING.asked("x", {}, context_of(headers)) is NO_SPAN


def test_trace_context_is_read() -> None:
    assert context_of({**CONTEXT, "authorization": "x"}) == CONTEXT
    assert context_of({**CONTEXT, "tracestate": "\u00e4"}) == {"traceparent": CONTEXT["traceparent"]}
    later = f"01-{TRACE}-{PARENT}-01-what.ever"
    assert context_of({"traceparent": later}) == {"traceparent": later}


def test_requests_of_an_orgs_day_are_counted() -> None:
    monitor = Monitor()
    monitor.note_trial("a", made_trial("crmarena/b2b/x#0", provenance={"org_day": [80, 15_000]}))
    assert b'a2a_assessor_org_requests{of="allowed"} 15000.0' in monitor.render()


def test_without_opentelemetry_the_callers_context_is_handed_on(tmp_path: Path) -> None:
    with raw_agent(saying(SAID)) as agent, served(Terms(tmp_path / "r", guard=LOCAL)) as url:
        request = gen3(agent.url, domain="mini", num_tasks=1, max_turns=3)
        ask_raw(url, request, **CONTEXT)
        ask_raw(url, request)
        heard = [{name: request.headers.get(name) for name in CONTEXT} for request in agent.messages]
    assert {tuple(one.values()) for one in heard} == {tuple(CONTEXT.values()), (None, None)}


@pytest.mark.slow
def test_spans_are_part_of_the_callers_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_a2a_bench.tracing.otel import open_tracing

    with span_receiver() as spans, raw_agent(saying(SAID)) as agent:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", spans.url)
        monkeypatch.delenv("TRACEPARENT", raising=False)
        tracing = open_tracing()
        with served(Terms(tmp_path / "r", guard=LOCAL), tracing=tracing) as url:
            task = ask_raw(url, gen3(agent.url, domain="mini", num_tasks=1), **CONTEXT)
            wait_for_end(tmp_path / "r", type("Received", (), {"task": task["id"]})())
            gone = ask_raw(url, gen3("http://127.0.0.1:9/", domain="mini", num_tasks=1), baggage="secret=1")
        tracing.close()
        # Whether the interface answers is asked before the assessment, and is no part of its trace.
        traced = [request.headers["traceparent"] for request in agent.messages if "traceparent" in request.headers]
        assert len(traced) == 20
        parents = {parent.split("-")[1] for parent in traced}
        assert not [request for request in agent.messages if "baggage" in request.headers]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert parents == {TRACE}
    whole = next(s for s in spans.named("assess mini") if attributes(s)["a2a.run_id"] == task["id"])
    [trial] = spans.named("trial crmarena/mini/")
    turns = spans.named("invoke_agent")
    assert (whole.trace_id.hex(), whole.parent_span_id.hex()) == (TRACE, PARENT)
    assert trial.parent_span_id == whole.span_id
    assert {turn.parent_span_id for turn in turns} == {trial.span_id}
    assert len(turns) == len(spans.named("a2a request")) == 20
    received = attributes(whole)
    assert (received["a2a.state"], received["a2a.score"], received["a2a.max_score"], received["a2a.trials"]) == (
        "completed",
        0,
        1,
        1,
    )
    failed = next(s for s in spans.named("assess mini") if attributes(s)["a2a.run_id"] == gone["id"])
    assert (attributes(failed)["a2a.state"], failed.status.code) == ("failed", 2)
    assert failed.trace_id.hex() != TRACE
    assert SAID not in str(spans.spans)


@pytest.mark.slow
def test_logs_tell_of_each_step_and_of_no_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = "sk-canary-8f3b1c2d4e5f60718293"
    monkeypatch.setenv("OPENAI_API_KEY", canary)
    monkeypatch.setattr(caplog.handler, "formatter", JsonFormatter())
    categories = ["handle_time", "case_routing"]
    with caplog.at_level(logging.DEBUG, "pytest_a2a_bench"), agent_served("noop") as agent:
        with served(Terms(tmp_path / "r", guard=LOCAL)) as url:
            received = Caller(url).ask(gen3(agent.url, domain="mini", task_category=categories))
            wait_for_end(tmp_path / "r", received)
            numbers = Caller(url).numbers()
    lines = [json.loads(line) for line in caplog.text.splitlines() if '"pytest_a2a_bench.assessor.' in line]
    assert all(line["assessment"] == received.task for line in lines if "assessment" in line)

    def of(message: str, pick: Callable[[dict[str, Any]], Any] = lambda line: line) -> list[Any]:
        return [pick(line) for line in lines if line["message"] == message]

    assert len(of("assessment accepted")) == len(of("assessment ended")) == 1
    assert of("stopping", lambda line: (line["interrupted"], line["waiting"])) == [(0, 0)]
    assert of("assessment accepted", lambda line: line["agent"]) == [agent.url]
    assert of("assessment begun", lambda line: line["agent"].split(" 0.")[0]) == ["pytest-a2a-bench noop"]
    assert len(of("trial begun")) == len(of("trial evaluated")) == len(of("trial ended")) == 20
    assert {line["trial"] for line in of("turn ended")} == set(of("trial begun", lambda line: line["trial"]))
    assert all(line["seconds"] >= 0 and line["turn"] >= 1 for line in of("turn ended"))
    rewards = of("trial evaluated", lambda line: line["reward"])
    assert sum(reward == 1 for reward in rewards) == received.result["score"]
    # What the agent should have done is told to nobody either.
    shown = caplog.text + json.dumps(received.artifacts) + repr(received.updates)
    for secret in (canary, *golds_of(received.result)):
        assert secret not in shown
        assert not [name for name in numbers if secret in name]


@pytest.mark.slow
def test_numbers_are_those_of_what_was_done_and_actions_are_logged_without_what_was_asked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caplog.handler, "formatter", JsonFormatter())
    with (
        caplog.at_level(logging.INFO, "pytest_a2a_bench"),
        raw_agent(ask_org) as agent,
        served(Terms(tmp_path / "r", guard=LOCAL)) as url,
    ):
        caller = Caller(url)
        received = caller.ask(gen3(agent.url, domain="mini", task_category="handle_time", max_tasks=3, max_turns=2))
        gone = caller.ask(gen3("http://127.0.0.1:9/", domain="mock"))
        refused = caller.ask({"participants": {}})
        for one in (received, gone):
            wait_for_end(tmp_path / "r", one)
        found = caller.numbers()
    lines = [json.loads(line) for line in caplog.text.splitlines() if '"pytest_a2a_bench.assessor.' in line]
    actions = [line for line in lines if line["message"] == "action ended"]
    assert ("mini", 1, "execute", "ok") in [
        (line["trial"].split("/")[1], line["turn"], line["action"], line["outcome"]) for line in actions
    ]
    assert all(line["seconds"] >= 0 for line in actions)
    turns = sorted((line["turn"], line["input_tokens"]) for line in lines if line["message"] == "turn ended")
    assert turns == [(1, 7)] * 3 + [(2, 7)] * 3
    assert "SELECT" not in caplog.text
    assert {"process_cpu_seconds_total", "process_resident_memory_bytes"} <= found.keys()
    assert (received.state, gone.state, refused.state) == ("completed", "failed", "rejected")
    (rejection,) = [record for record in caplog.records if record.message == "request rejected"]
    assert "config.domain is missing" in str(vars(rejection)["problems"])
    assert received.result["failures"] == {"max_turns (handle_time)": 3}
    prefix = "a2a_assessor_"
    assert found[prefix + 'assessments_ended_total{evaluation="crmarena",outcome="completed"}'] == 1
    assert found[prefix + 'assessments_ended_total{evaluation="tau2",outcome="failed"}'] == 1
    assert found[prefix + 'assessments_ended_total{evaluation="",outcome="rejected"}'] == 1
    assert found[prefix + 'assessments{state="running"}'] == found[prefix + 'assessments{state="waiting"}'] == 0
    assert found[prefix + "assessment_seconds_count"] == 2
    assert found[prefix + 'trials_total{domain="mini",outcome="failed"}'] == 3
    assert found[prefix + "agent_turn_seconds_count"] == found[prefix + "org_queries_total"] == 6
    assert found[prefix + 'tokens_total{direction="input",of="agent"}'] == 42
    assert found[prefix + 'tokens_total{direction="output",of="agent"}'] == 12
    assert found[prefix + "cost_dollars_total"] == received.result["usage"]["cost_usd"] == 1.5
