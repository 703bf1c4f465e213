"""A real language model as agent and as user, as small as there is one: proof of the wiring, never of a score.

What a scripted server says is always what a test thought of; this one rambles, repeats itself, asks in circles and
never calls a tool. Whatever it does, trials end as passed or failed and can be read.
"""

import json
from pathlib import Path
from urllib.parse import urlencode

import pytest
from harness import Bench, junit_cases, junit_properties
from small_model import MODEL, serve_small_model, why_not

from pytest_a2a_bench.model import USER_FAULTS
from pytest_a2a_bench.results.store import load_trial

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]

TASKS = ("create_task_1", "update_task_1")
# Seconds and not minutes: the model writes some ten tokens a second on a busy core.
STEPS, TOKENS = 5, 24


def test_a_real_model_plays_agent_and_user(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    # LiteLLM asks for a key where there is none to check.
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with serve_small_model() as base:
        arguments = {"api_base": base, "max_tokens": TOKENS, "num_retries": 0, "timeout": 500}
        spec = urlencode({"model": f"openai/{MODEL}", "llm_args": json.dumps(arguments)})
        result = bench(
            f"--a2a-endpoint=builtin:llm?{spec}",
            "--a2a-suite=mock",
            "-k",
            " or ".join(f"{task}-t0" for task in TASKS),
            f"--a2a-user=llm:openai/{MODEL}",
            f"--a2a-set=user-llm-args={json.dumps(arguments)}",
            f"--a2a-set=max-steps={STEPS}",
            "--a2a-timeout=600",
            "--junitxml=junit.xml",
        )
    outcomes = result.parseoutcomes()
    assert outcomes.get("passed", 0) + outcomes.get("failed", 0) == len(TASKS), outcomes
    assert "errors" not in outcomes
    assert f"user simulator: openai/{MODEL}" in result.stdout.str()
    for case in junit_cases(Path("junit.xml")).values():
        message = junit_properties(case)
        if "a2a.key" not in message:
            continue  # a gate
        assert (message["a2a.status"], message["a2a.user"], message["a2a.user_llm"]) == (
            "evaluated",
            "llm",
            f"openai/{MODEL}",
        )
        trial = load_trial(bench.path / message["a2a.transcript"])
        assert trial.turns >= 1
        assert [turn.role for turn in trial.transcript[:2]] == ["agent", "user"]
        assert trial.transcript[1].text
        assert trial.agent_usage.output_tokens
        assert trial.user_usage.output_tokens
        assert trial.user_fault is None or trial.user_fault.kind in USER_FAULTS
