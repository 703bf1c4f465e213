"""Trials that never happened, for what reads results."""

import random
from collections.abc import Iterator
from typing import Any

from pytest_a2a_bench.model import ProtocolMetrics, Reward, RewardCheck, ToolCall, TrialKey, TrialResult, Turn, Usage


def made_trial(key: str, *, success: bool = True, said: str = "Hello", **more: Any) -> TrialResult:
    """Return an evaluated trial of a few turns; ``more`` replaces fields."""
    check = RewardCheck("communicate", "the agent says 42", met=success)
    fields: dict[str, Any] = {
        "key": TrialKey.parse(key),
        "status": "evaluated",
        "run_id": "run-1",
        "reward_info": Reward(float(success), ("COMMUNICATE",), {"COMMUNICATE": float(success)}, (check,)),
        "termination_reason": "user_stop",
        "duration": 1.5,
        "transcript": (
            Turn("agent", said),
            Turn("user", "Please look it up."),
            Turn("agent", calls=(ToolCall("get_user", {"id": "u1"}, "c1"),)),
            Turn("tool", '{"name": "Ann"}', call_id="c1", tool="get_user", requestor="agent"),
            Turn("agent", "It is 42."),
        ),
        "metrics": (ProtocolMetrics("r1", "http://127.0.0.1:1/", "SendMessage", 200, 12.5, "2026-01-02T03:04:05.678"),),
        "turn_latencies": (0.2, 0.4),
        "agent_usage": Usage(100, 20, 0.01),
        "dialect": "tool_call",
        "provenance": {"user": "scripted", "benchmark": "made 1.0"},
    }
    return TrialResult(**(fields | more))


def made_error(key: str, error: str = "the connection was refused") -> TrialResult:
    """Return a trial that the infrastructure ended."""
    return made_trial(
        key, status="infrastructure_error", reward_info=None, error=error, error_type="TransportError", transcript=()
    )


def many_trials(count: int, turns: int = 40) -> Iterator[TrialResult]:
    """Yield long trials that differ, of two domains."""
    source = random.Random(7)
    words = [f"word{i}" for i in range(2_000)]
    for i in range(count):
        said = [" ".join(source.choices(words, k=60)) for _ in range(turns)]
        talk = [t for s in said for t in (Turn("user", s[:200]), Turn("agent", s))]
        talk[3:3] = [Turn("tool", '{"a": [1, 2, 3]}' * 30, call_id="c", tool="search", requestor="agent")]
        yield made_trial(
            f"made/{'even' if i % 2 == 0 else 'odd'}/{i // 8}#{i % 8}",
            success=source.random() < 0.6,
            transcript=tuple(talk),
            turn_latencies=tuple(source.lognormvariate(0, 1) for _ in range(turns)),
        )
