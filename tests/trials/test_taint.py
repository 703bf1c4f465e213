"""When a conversation is run again, and what a tainted one is worth."""

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from one_test import in_one_test

from pytest_a2a_bench.benchmarks.base import Outcome
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import (
    DeliveryUncertain,
    EvaluatorError,
    InfrastructureError,
    LLMError,
    TrialTimeoutError,
    TurnTimeoutError,
)
from pytest_a2a_bench.model import Party, ProtocolMetrics, Reward, Usage, UserFault
from pytest_a2a_bench.trials.runner import reason_to_repeat, refuse_tainted
from pytest_a2a_bench.trials.trial import Abandoned, with_abandoned

UNKNOWN = DeliveryUncertain("lost", reason="HTTP 502")
LATE = TurnTimeoutError("late")
OUT_OF_TIME = TrialTimeoutError("x")
FAULT = UserFault("ended_before_the_write", "it left")


def session(tainted: InfrastructureError | None = None, **fields: Any) -> Any:
    return SimpleNamespace(tainted=tainted, **fields)


@in_one_test("tainted", [UNKNOWN, LATE])
@in_one_test("error", [None, EvaluatorError("x"), ValueError("x")])
def test_a_tainted_conversation_is_worth_nothing(tainted: InfrastructureError, error: Exception | None) -> None:
    held = Outcome(reward=Reward(1.0), simulation={}, error=error, user_fault=FAULT)
    found = refuse_tainted(held, session(tainted))
    assert (found.reward, found.simulation, found.error, found.user_fault) == (None, None, tainted, None)
    assert found.termination_reason == "infrastructure_error"


@in_one_test(
    ("tainted", "error", "message"),
    [
        (None, None, None),
        (LATE, LATE, LATE),
        # The benchmark's own word for it does not keep the conversation from being run again.
        (UNKNOWN, LLMError("x"), UNKNOWN),
        (UNKNOWN, OUT_OF_TIME, OUT_OF_TIME),
    ],
)
def test_precedence_of_errors(
    tainted: InfrastructureError | None, error: Exception | None, message: Exception | None
) -> None:
    assert refuse_tainted(Outcome(error=error), session(tainted)).error is message


def again(error: DeliveryUncertain, count: int = 0, deadline: float | None = None, **options: Any) -> str:
    abandoned = Abandoned(("HTTP 502",) * count)
    return reason_to_repeat(Outcome(error=error), abandoned, Settings(**options), threading.Event(), deadline)


def test_so_often_and_no_more() -> None:
    error = DeliveryUncertain("lost", reason="answer broken off", retry_after=0)
    assert [again(error, n) for n in (0, 1)] == ["answer broken off"] * 2
    assert str(error) == "lost"
    assert not again(error, 2)
    assert "run 3 times, and none came to its end (HTTP 502, HTTP 502, answer broken off)" in str(error)
    never = DeliveryUncertain("lost", retry_after=0)
    assert not again(never, redeliver=0)
    assert "not run again (--a2a-set redeliver=0)" in str(never)


@in_one_test("options", [{"timeout": 60.0}, {"deadline": 60.0}])
def test_a_wait_that_is_too_long_is_not_begun(options: dict[str, float]) -> None:
    if "deadline" in options:
        options["deadline"] += time.monotonic()
    error = DeliveryUncertain("HTTP 503", retry_after=100)
    assert not again(error, **options)  # type: ignore[arg-type]
    assert "100 s would have to pass, and there are " in str(error)


def test_the_second_pause_is_long_enough_for_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    cancel: Any = SimpleNamespace(is_set=lambda: False, wait=lambda seconds: pauses.append(seconds))
    for count in range(3):
        lost = Outcome(error=DeliveryUncertain("lost"))
        assert reason_to_repeat(lost, Abandoned(("x",) * count), Settings(redeliver=3), cancel, None)
    patient = Outcome(error=DeliveryUncertain("lost", retry_after=7))
    assert reason_to_repeat(patient, Abandoned(), Settings(), cancel, None)
    first, second, third, asked = pauses
    assert first <= 0.25 < 2 <= second <= 4 < 15 <= third <= 30
    assert asked == 7


def test_a_run_that_stops_waits_for_nothing() -> None:
    cancel = threading.Event()
    threading.Timer(0.05, cancel.set).start()
    outcome = Outcome(error=DeliveryUncertain("HTTP 503", retry_after=200))
    assert not reason_to_repeat(outcome, Abandoned(), Settings(), cancel, None)


def test_abandoned_trials_are_accounted_for() -> None:
    request = ProtocolMetrics("r", "http://x", "SendMessage", 502, 1.0, "2026-01-01T00:00:00Z")
    abandoned = Abandoned()
    for _ in range(2):
        outcome = Outcome(error=UNKNOWN, agent_usage=Usage(1, 2, 0.5), user_usage=Usage(None, None, 0.25))
        abandoned.add(outcome, session(metrics=[request]))
    assert (abandoned.reasons, abandoned.faults) == (("HTTP 502", "HTTP 502"), ())
    assert abandoned.metrics == (request, request)
    assert (abandoned.agent_usage, abandoned.user_usage.cost_usd) == (Usage(2, 4, 1.0), 0.5)
    # Of a further agent: what it took counts, whether it took part again or not.
    earlier = Party("b", "transfer", "B", usage=Usage(1, 1, 1.0), turns=3)
    assert with_abandoned((), (earlier,)) == (Party("b", "transfer", "B", usage=Usage(1, 1, 1.0)),)
    (both,) = with_abandoned((Party("b", "transfer", "B", usage=Usage(2), turns=1),), (earlier,))
    assert (both.usage, both.turns) == (Usage(3, 1, 1.0), 1)


def for_its_user(held: int = 0, cancelled: bool = False, deadline: float | None = None, **options: Any) -> str:
    cancel = threading.Event()
    if cancelled:
        cancel.set()
    outcome = Outcome(reward=Reward(0.0), user_fault=FAULT, error=options.pop("error", None))
    return reason_to_repeat(outcome, Abandoned(faults=(FAULT,) * held), Settings(**options), cancel, deadline)


def test_a_user_at_fault_is_another_reason_with_a_number_of_its_own() -> None:
    assert for_its_user() == ""
    assert [for_its_user(n, user_retry=2, redeliver=0) for n in range(3)] == [
        "user at fault: ended_before_the_write"
    ] * 2 + [""]
    abandoned = Abandoned()
    abandoned.add(Outcome(user_fault=FAULT, user_usage=Usage(3)), session(metrics=[]))
    assert (abandoned.reasons, abandoned.faults, abandoned.user_usage.input_tokens) == ((), (FAULT,), 3)


def test_an_evaluated_trial_is_not_discarded() -> None:
    """A run that stops, a trial without time, a cassette, an error: nothing better would come of it."""
    assert for_its_user(user_retry=1, cancelled=True) == ""
    assert for_its_user(user_retry=1, deadline=time.monotonic() - 1) == ""
    assert for_its_user(user_retry=1, deadline=time.monotonic() + 60) != ""
    assert for_its_user(user_retry=1, replay="tapes") == ""
    assert for_its_user(user_retry=1, error=LLMError("x")) == ""
