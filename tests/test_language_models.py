"""The rate of requests to language models, with LiteLLM and a scripted model over HTTP."""

import asyncio
import subprocess
import sys
from contextlib import closing

import pytest
from fake_llm import FakeLLM, say

from pytest_a2a_bench.language_models import import_litellm, limit_rate


def test_requests_to_models_wait_for_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    litellm = import_litellm("this test")
    monkeypatch.setattr(litellm, "input_callback", [])
    now, waited = 100.0, []

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        waited.append(seconds)

    limit_rate(4, lambda: now, sleep)
    with FakeLLM([say("yes")] * 3) as model, closing(asyncio.new_event_loop()) as loop:
        asyncio.set_event_loop(loop)  # else LiteLLM makes one, and does not close it
        for _ in range(3):
            messages = [{"role": "user", "content": "Hello"}]
            litellm.completion(model="openai/x", api_base=model.api_base, api_key="key", messages=messages)
        asyncio.set_event_loop(None)
    assert waited == [0.25, 0.25]


FIRST_CALL = """
import warnings
from pytest_a2a_bench.language_models import load_litellm
with warnings.catch_warnings():
    litellm = load_litellm()
warnings.simplefilter("error", UserWarning)
litellm.completion(model="gpt-4o", messages=[{"role": "user", "content": "Hello"}], mock_response="Hi")
"""


@pytest.mark.slow
def test_the_first_call_warns_of_nothing_although_litellms_filters_ended_with_another_test() -> None:
    """The modules that it imports warn of LiteLLM's own types; only a fresh process has not imported them."""
    subprocess.run([sys.executable, "-c", FIRST_CALL], check=True)
