"""Keys, slugs and the trial file's round trip."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_test import in_one_test

from pytest_a2a_bench.model import (
    DialectFinding,
    MetricsAggregate,
    ProtocolMetrics,
    Reward,
    RewardCheck,
    ToolCall,
    TrialKey,
    TrialResult,
    Turn,
    Usage,
    percentile,
    slugify,
)
from pytest_a2a_bench.model.messages import numbered
from pytest_a2a_bench.results.store import TRIAL, StoreError


def metric(ms: float, **kwargs: object) -> ProtocolMetrics:
    return ProtocolMetrics("id", "http://x", "SendMessage", 200, ms, "2026-01-01T00:00:00+00:00", **kwargs)  # type: ignore[arg-type]


def result(**kwargs: object) -> TrialResult:
    defaults: dict[str, object] = {"key": TrialKey("tau2", "airline", "12"), "status": "evaluated"}
    return TrialResult(**{**defaults, **kwargs})  # type: ignore[arg-type]


@given(st.text(min_size=1), st.text(min_size=1))
def test_slugs_are_safe_and_differ(a: str, b: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,49}", slugify(a))
    if a != b:
        assert slugify(a) != slugify(b)


@given(
    st.text(min_size=1).filter(lambda s: s == s.strip()),
    st.integers(0, 99),
    st.none() | st.from_regex(r"\A[\w.-]+\Z", fullmatch=True).filter(str.isascii),
    st.none() | st.sampled_from(["a", "c_1"]),
)
def test_keys_read_back(task_id: str, trial: int, label: str | None, agent: str | None) -> None:
    key = TrialKey("tau2", "airline", task_id, trial, label, agent)
    assert re.fullmatch(r"[A-Za-z0-9_.-]+", key.file_stem)
    if "#" not in task_id:
        assert TrialKey.parse(str(key)) == key
    assert key.of_any_agent == TrialKey("tau2", "airline", task_id, trial, label)
    assert agent is None or key.file_stem != key.of_any_agent.file_stem


def test_key_text() -> None:
    assert str(TrialKey("tau2", "airline", "12", 0)) == "tau2/airline/12#0"
    assert str(TrialKey("tau2", "airline", "12", 3, "slow")) == "tau2/airline/12#3@slow"
    with pytest.raises(ValueError, match="tau2/airline/12#0"):
        TrialKey.parse("airline/12")


@given(st.lists(st.text(max_size=30)))
def test_any_ids_have_an_order(ids: list[str]) -> None:
    assert sorted(sorted(ids, key=numbered)) == sorted(ids)
    assert numbered("task_2") < numbered("task_11")


def test_usage_keeps_unknown_apart_from_zero() -> None:
    assert (Usage(None, 1) + Usage(None, 2)).input_tokens is None
    assert (Usage(0, 1) + Usage(None, 2)) == Usage(0, 3, None)


def test_percentile() -> None:
    assert percentile([], 50) is None
    assert percentile([1.0], 95) == 1.0
    assert percentile([1.0, 2.0, 3.0, 4.0], 50) == 2.5


def test_metrics_aggregate() -> None:
    total = MetricsAggregate.of([metric(10.0, input_tokens=5), metric(30.0, error="reset"), metric(20.0, attempt=2)])
    assert (total.requests, total.errors, total.retries) == (3, 1, 1)
    assert (total.latency_ms_p50, total.latency_ms_max, total.latency_ms_total) == (20.0, 30.0, 60.0)
    assert (total.input_tokens, total.output_tokens) == (5, None)
    assert MetricsAggregate.of([]).latency_ms_p95 is None


def test_success_needs_a_reward_of_one() -> None:
    assert result(reward_info=Reward(1.0 - 1e-9)).success
    assert not result(reward_info=Reward(0.999)).success
    assert not result(status="infrastructure_error").success


def test_trial_file_round_trip() -> None:
    original = result(
        reward_info=Reward(0.0, ("DB",), {"DB": 0.0}, (RewardCheck("db", "same", False),), db_diff=("db.x: 1",)),
        transcript=(Turn("agent", calls=(ToolCall("f", {"x": [1, {"y": None}]}, "c1"),)), Turn("tool", "ok", tool="f")),
        metrics=(metric(1.0),),
        findings=(DialectFinding("r", "m", "raw", 2),),
        agent_usage=Usage(1, 2, 0.5),
        splits=("base", "test"),
        provenance={"user": "scripted"},
    )
    text = json.dumps(original.to_json())
    assert TRIAL.parse(text.encode(), Path("t.json")) == original
    data = json.loads(text)
    assert (data["key"], data["reward"], data["success"]) == ("tau2/airline/12#0", 0.0, False)


def test_newer_trial_files_are_refused() -> None:
    data = result().to_json()
    data["schema_version"] = 99
    with pytest.raises(StoreError, match="schema_version is 99; this version reads 1"):
        TRIAL.parse(json.dumps(data).encode(), Path("t.json"))


def test_members_that_tests_assert_on() -> None:
    trial = result(
        reward_info=Reward(1.0),
        transcript=(
            Turn("user", "hi"),
            Turn("agent", calls=(ToolCall("a"), ToolCall("b"))),
            Turn("tool", "x", requestor="agent"),
            Turn("agent", "done"),
        ),
        metrics=(metric(1.0), metric(300.0)),
        turn_latencies=(0.1, 0.3),
        agent_usage=Usage(10, 5, 0.25),
        user_usage=Usage(1, 1, 0.5),
    )
    assert trial.turns == 2
    assert [c.name for c in trial.tool_calls] == ["a", "b"]
    assert trial.latency == pytest.approx(0.2)
    assert (trial.tokens, trial.cost) == (15, 0.75)
    assert "tau2/airline/12#0" in repr(trial)


@in_one_test(
    ("wrong", "message"),
    [
        ({"latency_ms": -1.0}, "latency_ms is -1.0; expected 0 or more"),
        ({"latency_ms": float("nan")}, "latency_ms is nan"),
        ({"status_code": 700}, "status_code is 700; expected 100 to 599"),
        ({"status_code": 99}, "status_code is 99"),
        ({"input_tokens": -1}, "input_tokens is -1"),
    ],
)
def test_metrics_of_a_request_are_what_a_request_can_have(wrong: dict[str, Any], message: str) -> None:
    right: dict[str, Any] = {
        "request_id": "r",
        "endpoint": "http://a.test",
        "method": "POST",
        "timestamp": "2026-01-01T00:00:00Z",
        "latency_ms": 0.0,
        "status_code": 200,
    }
    assert ProtocolMetrics(**right).status_code == 200
    assert ProtocolMetrics(**right | {"status_code": 14}).status_code == 14  # gRPC's UNAVAILABLE
    with pytest.raises(ValueError, match=re.escape(message)):
        ProtocolMetrics(**right | wrong)
