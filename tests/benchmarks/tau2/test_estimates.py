"""What an agent that reports no tokens is reckoned to have used, and the metrics file of each trial's requests."""

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from builtin_server import served
from made_trials import made_trial
from one_test import in_one_test
from trials import run_against

from pytest_a2a_bench import language_models
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.cli.main import main
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import MissingExtraError
from pytest_a2a_bench.language_models import PriceList, price_list
from pytest_a2a_bench.model import Cost, ProtocolMetrics, TrialKey, TrialResult, Usage
from pytest_a2a_bench.reports import protocol_metrics, summary
from pytest_a2a_bench.reports.contents import Contents
from pytest_a2a_bench.reports.html import records, sections
from pytest_a2a_bench.results.baseline import Baseline
from pytest_a2a_bench.results.gates.judge import judge_ceilings
from pytest_a2a_bench.results.gates.terms import Thresholds, Trials
from pytest_a2a_bench.results.manifest import Manifest
from pytest_a2a_bench.results.stats import Progress, summarise
from pytest_a2a_bench.results.store import Store
from pytest_a2a_bench.trials.observers import estimated

MODEL = "gpt-4"  # its tokenizer comes with LiteLLM
KEY = TrialKey("tau2", "mock", "create_task_1", 0)


@pytest.fixture(scope="module")
def held(noop_url: str, tmp_path_factory: pytest.TempPathFactory) -> TrialResult:
    """A real trial with an agent that reports nothing."""
    [result] = run_against(noop_url, Settings(agent_model=MODEL), [KEY], tmp_path_factory.mktemp("held"))
    assert result.status == "evaluated"
    return result


def test_each_request_has_the_tokens_of_its_messages_and_says_that_they_are_estimated(held: TrialResult) -> None:
    prices = price_list(MODEL)
    assert all(m.estimated for m in held.metrics)
    # tau2 speaks the first greeting in the name of the agent.
    _, *replies = [turn.text or "" for turn in held.transcript if turn.role == "agent"]
    assert [m.output_tokens for m in held.metrics] == [prices.tokens(reply) for reply in replies]
    # Policy and tools are in the first message only.
    first, *others = [m.input_tokens or 0 for m in held.metrics]
    assert all(first > 10 * other > 0 for other in others)
    assert held.agent_usage == Usage()
    assert held.wire.input_tokens is None
    total = Usage(sum(m.input_tokens or 0 for m in held.metrics), sum(m.output_tokens or 0 for m in held.metrics))
    assert held.estimated_usage == dataclasses.replace(total, cost_usd=prices.cost(total))
    assert (prices.cost(total) or 0) > 0
    assert held.provenance["agent_model"] == MODEL
    message = protocol_metrics.of_trial(held)
    assert all(request["estimated"] for request in message["protocol_metrics"])
    assert message["summary"]["estimated"]
    assert message["summary"]["total_tokens"] == sum(
        r["input_tokens"] + r["output_tokens"] for r in message["protocol_metrics"]
    )


@pytest.mark.slow
def test_native_calls_are_estimated_with_the_message_that_they_were_made_for(tmp_path: Path) -> None:
    settings = Settings(agent_model=MODEL, tag_trials=True)
    natively = dataclasses.replace(settings, tools="mcp")
    with served("oracle") as agent:
        [text] = run_against(agent.url, settings, [KEY], tmp_path / "text")
        [native] = run_against(agent.url, natively, [KEY], tmp_path / "native")
    assert native.provenance["native_calls"] > 0
    assert len(native.metrics) < len(text.metrics)
    ours, theirs = native.estimated_usage, text.estimated_usage
    # The same is said and read, but for the words around it: how calls are written, and where the tools are.
    assert (ours.input_tokens or 0) == pytest.approx(theirs.input_tokens, rel=0.25)
    assert (ours.output_tokens or 0) == pytest.approx(theirs.output_tokens, rel=0.25)
    (said,) = [turn for turn in native.transcript if turn.role == "agent" and turn.calls]
    price = price_list(MODEL)
    assert (native.metrics[0].output_tokens or 0) > price.tokens(json.dumps(dict(said.calls[0].arguments)))


def test_nothing_is_estimated_unless_the_model_is_reported(noop_url: str, tmp_path: Path) -> None:
    [result] = run_against(noop_url, Settings(), [KEY], tmp_path)
    assert result.estimated_usage == Usage()
    assert not any(m.estimated for m in result.metrics)


@in_one_test(
    ("reported", "tokens", "priced"),
    [
        (Usage(100, 20, 0.5), None, None),
        (Usage(100, 20), None, Usage(100, 20)),
        (Usage(None, None, 0.5), Usage(7, 3), None),
        (Usage(), Usage(7, 3), Usage(7, 3)),
    ],
)
def test_only_what_was_not_reported_is_estimated(reported: Usage, tokens: Usage | None, priced: Usage | None) -> None:
    metrics = (ProtocolMetrics("r", "e", "m", 200, 1.0, "t", None, 7, 3, estimated=True),)
    result = estimated(made_trial("made/front/1#0", agent_usage=reported, metrics=metrics), MODEL)
    cost = price_list(MODEL).cost(priced) if priced else None
    assert result.estimated_usage == dataclasses.replace(tokens or Usage(), cost_usd=cost)
    assert result.agent_usage == reported


def test_a_tokenizer_that_cannot_be_had_is_replaced_and_it_is_said() -> None:
    def count(*, model: str, text: str) -> int:
        if model != "gpt-4":
            raise ConnectionError("no network")
        return len(text)

    def info(model: str) -> dict[str, Any]:
        raise ValueError("not mapped")

    prices = PriceList("someones/model")
    prices.__dict__["_litellm"] = SimpleNamespace(token_counter=count, get_model_info=info)
    assert prices.tokens("four") == 4
    assert prices.words == "someones/model (tokens as gpt-4 counts them)"
    assert prices.cost(Usage(1, 1)) is None


def test_a_run_has_one_cost_and_says_what_is_estimated(held: TrialResult) -> None:
    reporting = dataclasses.replace(
        held, key=TrialKey("tau2", "mock", "create_task_1", 1), agent_usage=Usage(11, 5, 0.25), estimated_usage=Usage()
    )
    [domain] = summarise([held, reporting], registry.variant_of)
    assert (domain.input_tokens, domain.output_tokens) == (11, 5)
    assert domain.estimated == held.estimated_usage
    e = held.estimated_usage
    [titles, cells] = summary.rows([held, reporting])
    shown = dict(zip(titles, cells, strict=True))
    assert shown["tokens in/out"] == f"11/5 ~{e.input_tokens}/{e.output_tokens}"
    assert e.cost_usd is not None
    assert domain.cost == Cost(0.25 + e.cost_usd, None, None, True)
    assert shown["cost"] == str(domain.cost) == f"~${0.25 + e.cost_usd:#.2g}"
    message = [line for line in summary.caveats([held, reporting]) if "~" in line]
    assert message == [
        f"cost {domain.cost}; ~ is estimated from the messages alone in 1 of 2 trials, for gpt-4 (agent-model)"
    ]


def test_the_same_cost_stands_everywhere() -> None:
    # As in a run whose agent reports tokens, with a model as the user.
    results = [
        made_trial(
            f"made/front/{n}#0",
            agent_usage=Usage(13448, 20),
            estimated_usage=Usage(None, None, 59.39),
            user_usage=Usage(10, 10, 6.2),
            provenance={"agent_model": "gpt-4.1"},
        )
        for n in (1, 2)
    ]
    whole = "~$131.18 (agent ~$118.78, user $12.40)"
    [line] = [line for line in summary.caveats(results) if line.startswith("cost ")]
    assert line == (
        f"cost {whole}; ~ is estimated from the tokens that the agent reported in 2 of 2 trials, for gpt-4.1 "
        "(agent-model)"
    )
    [titles, cells] = summary.rows(results)
    assert dict(zip(titles, cells, strict=True))["cost"] == "~$131.18"
    message = [{"cost_usd": r.cost, "estimated_cost_usd": r.estimated_usage.cost_usd} for r in results]
    assert "cost ~$131.18, " in Progress(tuple(message), 2, 1.0).line
    [gate] = judge_ceilings(Trials(results), Thresholds(max_cost=100.0))
    assert (gate.verdict, gate.sentence) == ("failed", f"the trials cost {whole}; the maximum is $100")
    baseline = Baseline.of(results)
    assert (baseline.cost, baseline.cost_usd) == ("~$65.59", 65.59)
    page = str(sections.verdict(Contents(trials=results)))
    assert "<b>~$131.18</b><small>agent ~$118.78, user $12.40</small>" in page
    assert ["cost", "~$65.59 (agent ~$59.39, user $6.20)"] in records.detail(results[0])["facts"]
    of_user = made_trial("made/front/1#0", agent_usage=Usage(), user_usage=Usage(10, 10, 6.2))
    [line] = summary.caveats([of_user])
    assert line == "cost $6.20 (agent not known, user $6.20)"
    [gate] = judge_ceilings(Trials([of_user]), Thresholds(max_cost=100.0))
    assert gate.verdict == "inconclusive", "the agent may have cost more than is left"


def test_a_model_without_litellm_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ImportError("no module named litellm")

    monkeypatch.setattr(language_models, "load_litellm", missing)
    with pytest.raises(MissingExtraError, match="agent-model"):
        PriceList("m").tokens("x")


# -- the metrics file --

DOCUMENTED = {
    *("request_id", "endpoint", "method", "status_code", "latency_ms"),
    *("input_tokens", "output_tokens", "context_id", "error", "timestamp"),
}


def test_a_request_has_the_documented_fields_and_nothing_where_nothing_is_known() -> None:
    whole = ProtocolMetrics("r1", "http://a.test/", "SendMessage", 200, 12.5, "2026-01-02T03:04:05Z", "c1", 4, 2)
    failed = ProtocolMetrics("r2", "http://a.test/x", "GET /tasks/1", None, 3.0, "2026-01-02T03:04:06Z", error="reset")
    grpc = ProtocolMetrics("r3", "http://a.test", "SendMessage", 14, 2.0, "2026-01-02T03:04:07Z", error="UNAVAILABLE")
    message = protocol_metrics.of_trial(made_trial("tau2/airline/3#1", metrics=(whole, failed, grpc)))
    assert (message["task_id"], message["agent_type"]) == ("3", "a2a_agent")
    first, second, third = message["protocol_metrics"]
    assert set(first) == DOCUMENTED - {"error"}
    assert (first["method"], second["method"], third["method"]) == ("POST", "GET", "POST")
    assert set(second) == DOCUMENTED - {"status_code", "input_tokens", "output_tokens", "context_id"}
    assert "status_code" not in third
    assert message["summary"] == {
        "total_requests": 3,
        "total_tokens": 120,
        "total_latency_ms": 17.5,
        "avg_latency_ms": 5.833,
        "error_count": 2,
        "estimated_cost_usd": 0.01,
    }


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of three trials of which two have ended."""
    keys = ("made/front/1#0", "made/front/2#0", "made/back/3#0")
    Manifest("run-1", "http://a.test", "agent", keys, keys).write(tmp_path)
    for key in keys[:2]:
        Store(tmp_path).write(made_trial(key))
    return tmp_path


@pytest.mark.parametrize("options", [["--domain", "front"], ["--jsonl"]])
def test_an_array_or_lines_are_written(run: Path, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    target = run / "metrics"
    assert main(["export", "metrics", str(run), "-o", str(target), *options]) == 0
    capsys.readouterr()
    assert main(["export", "metrics", str(run), "-o", "-", *options]) == 0
    text = capsys.readouterr().out
    assert target.read_text() == text
    records = [json.loads(line) for line in text.splitlines()] if options == ["--jsonl"] else json.loads(text)
    assert [(record["task_id"], record["key"]) for record in records] == [
        ("1", "made/front/1#0"),
        ("2", "made/front/2#0"),
    ]


def test_contradictory_options_are_reported_together(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "leaderboard", str(run), "-o", "-"]) == 2
    message = capsys.readouterr().err
    assert "a leaderboard knows an agent by an id: add --id ID" in message
    assert "are for metrics" in message
