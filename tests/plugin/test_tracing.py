"""Spans as a real receiver of OTLP gets them."""

import sys
from collections.abc import Iterator

import pytest
from harness import Bench
from span_receiver import Received, attributes, span_receiver

TASK = "a2a/mock::test_mock[create_task_1-t0]"


@pytest.fixture
def receiver(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Received]:
    with span_receiver() as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.url)
        yield received


def test_trial_turns_and_requests_are_one_trace_whose_parent_is_the_job_that_runs_us(
    oracle: Bench, receiver: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    oracle(TASK).assert_outcomes(passed=1)
    (trial,) = receiver.named("trial ")
    turns = receiver.named("invoke_agent")
    requests = receiver.named("a2a request")
    assert trial.name == "trial tau2/mock/create_task_1#0"
    assert trial.trace_id.hex() == "0af7651916cd43dd8448eb211c80319c"
    assert trial.parent_span_id.hex() == "b7ad6b7169203331"
    assert len(turns) == len(requests) > 1
    assert {span.trace_id for span in receiver.spans} == {trial.trace_id}
    assert {span.parent_span_id for span in turns} == {trial.span_id}
    assert {span.parent_span_id for span in requests} == {span.span_id for span in turns}
    assert attributes(trial)["a2a.reward"] == 1.0
    (event,) = trial.events
    assert event.name == "gen_ai.evaluation.result"
    assert attributes(event)["gen_ai.evaluation.score.label"] == "pass"
    assert turns[-1].name == "invoke_agent pytest-a2a-bench oracle"
    last = attributes(turns[-1])
    assert last["gen_ai.operation.name"] == "invoke_agent"
    assert last["gen_ai.conversation.id"] == attributes(trial)["gen_ai.conversation.id"]
    wire = attributes(requests[0])
    assert wire["http.response.status_code"] == 200
    assert wire["rpc.method"] == "SendStreamingMessage"
    assert wire["server.address"] == "127.0.0.1"
    assert receiver.resources[0]["service.name"] == "mine"


@pytest.mark.slow
def test_calls_that_an_agent_makes_by_itself_are_part_of_their_turn(bench: Bench, receiver: Received) -> None:
    bench.apart("--a2a-endpoint=builtin:oracle", TASK, "--a2a-tools=mcp").assert_outcomes(passed=1)
    turns = {span.span_id for span in receiver.named("invoke_agent")}
    calls = receiver.named("execute_tool")
    assert [call.name for call in calls] == ["execute_tool create_task"]
    assert {call.parent_span_id for call in calls} <= turns
    assert attributes(calls[0])["gen_ai.tool.name"] == "create_task"


def test_trouble_is_an_error_and_nothing_said_is_sent(desk: Bench, receiver: Received) -> None:
    desk.tasks("bad-a down-b skip-c")
    desk().assert_outcomes(failed=1, errors=1, skipped=1)
    assert receiver.resources[0]["service.name"] == "pytest-a2a-bench"
    found = {span.name: span for span in receiver.named("trial ")}
    assert not any(span.parent_span_id for span in found.values())
    down = found["trial desk/front/down-b#0"]
    assert down.status.code == 2
    assert attributes(down)["error.type"] == "TransportError"
    bad = found["trial desk/front/bad-a#0"]
    assert bad.status.code == 0
    assert attributes(bad)["a2a.success"] is False
    assert found["trial desk/front/skip-c#0"].status.code == 0
    assert "rry" not in str(receiver.spans)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environ", "options"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, ()),
        ({"OTEL_SDK_DISABLED": "true"}, ()),
        ({"OTEL_TRACES_EXPORTER": "none"}, ()),
        ({}, ("--a2a-set=otel=off",)),
    ],
)
def test_without_configuration_nothing_is_imported_or_sent(
    desk: Bench, receiver: Received, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], options: tuple[str, ...]
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    desk.tasks("ok-a")
    desk.makepyfile(test_last="import sys\n\ndef test_modules():\n    assert 'opentelemetry.sdk' not in sys.modules\n")
    desk.apart(*options, "test_desk.py", "test_last.py").assert_outcomes(passed=2)
    assert receiver.spans == []


def test_a_receiver_that_is_not_there_changes_no_result(desk: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.tasks("ok-a")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    desk("--a2a-set=otel=on").assert_outcomes(passed=1)


def test_it_must_be_installed_to_be_switched_on(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_a2a_bench.tracing._NEEDED", ("no_such_package.here",))
    bench.refused("--a2a-set=otel=on", "--a2a-endpoint=builtin:noop", "--a2a-suite=mock").fnmatch_lines(
        ["*otel=on needs OpenTelemetry; run: pip install *[[]otel]'*"]
    )
    assert sys.modules.get("no_such_package") is None
