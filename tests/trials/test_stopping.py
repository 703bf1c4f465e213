"""The breaker: what opens it, what ends a row, and who hears of it."""

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_test import in_one_test

from pytest_a2a_bench.config.values import read_breaker
from pytest_a2a_bench.errors import (
    AuthenticationError,
    CassetteError,
    ConfigurationError,
    EndpointUnreachableError,
    HarnessError,
    JudgeMissingError,
    LLMError,
    OwnFunctionError,
    ProtocolError,
    RunTimeoutError,
    TransportError,
    TrialCancelledError,
    TrialTimeoutError,
)
from pytest_a2a_bench.language_models import failed
from pytest_a2a_bench.model import TrialKey
from pytest_a2a_bench.trials.stopping import NAME, Breaker, Limits, Settled, Stopping, cause_of, forget, settle

KEY = TrialKey("fake", "desk", "1", 2)
DOWN = TransportError("connection reset")
GONE = EndpointUnreachableError("connection refused")
REFUSED = AuthenticationError("HTTP 401", refused=True)
NO_KEY = LLMError("the model's key", refused=True)


@in_one_test(
    ("ends", "steps"),
    [
        ([REFUSED], ["stop"]),
        ([None, None, REFUSED], ["go on", "go on", "stop"]),
        ([DOWN, DOWN, DOWN], ["go on", "go on", "ask the agent"]),
        ([DOWN, GONE, DOWN, GONE], ["go on"] * 4),  # not the same trouble
        ([DOWN, None, DOWN, DOWN], ["go on"] * 4),
        ([DOWN, HarnessError("x"), DOWN, DOWN], ["go on"] * 4),
        ([DOWN, JudgeMissingError("x"), DOWN, TrialCancelledError("x"), DOWN], ["go on"] * 4 + ["ask the agent"]),
        ([NO_KEY] * 3, ["go on", "go on", "stop"]),
        ([LLMError("rate limit")] * 9, ["go on"] * 9),
        ([CassetteError("x")] * 9, ["go on"] * 9),
        ([OwnFunctionError("x")] * 9, ["go on"] * 9),
        ([ConfigurationError("x")] * 9, ["go on"] * 9),
        # An agent that asks for more credentials in the middle may do so for one task alone.
        ([AuthenticationError("auth-required")] * 3, ["go on", "go on", "ask the agent"]),
        ([RunTimeoutError("x")] * 9, ["go on"] * 9),
        ([TrialTimeoutError("x")] * 3, ["go on", "go on", "ask the agent"]),
        # Many of whatever kind, with none between that was evaluated.
        ([LLMError("rate limit")] * 20, ["go on"] * 19 + ["give up"]),
        ([DOWN, GONE] * 10, ["go on"] * 19 + ["give up"]),
        ([*([HarnessError("x")] * 19), None, *([HarnessError("x")] * 19)], ["go on"] * 39),
    ],
)
def test_errors_that_open_the_breaker(ends: list[Exception | None], steps: list[str]) -> None:
    breaker = Breaker(3)
    assert [breaker.note(error) for error in ends] == steps


def test_the_count_starts_again_where_the_card_answers() -> None:
    breaker = Breaker(2)
    assert [breaker.note(DOWN), breaker.note(DOWN)] == ["go on", "ask the agent"]
    breaker.answered()
    assert [breaker.note(DOWN), breaker.note(DOWN)] == ["go on", "ask the agent"]


ENDS = st.lists(st.sampled_from([None, DOWN, GONE, REFUSED, NO_KEY, ProtocolError("x"), JudgeMissingError("x")]))


@given(ends=ENDS)
def test_switched_off_it_never_opens(ends: list[Exception | None]) -> None:
    breaker = Breaker(0)
    assert {breaker.note(error) for error in ends} <= {"go on"}


def test_causes() -> None:
    party = EndpointUnreachableError("connection refused")
    party.party = "the user"
    errors = (REFUSED, DOWN, NO_KEY, AuthenticationError("x"), party)
    assert [cause_of(e) for e in errors] == ["refused", "gone", "model", "gone", "party"]


@in_one_test(("text", "number"), [("on", 3), ("OFF", 0), ("0", 0), ("5", 5)])
def test_the_option(text: str, number: int) -> None:
    assert read_breaker(text) == number


@in_one_test("text", ["", "-1", "2.5", "maybe"])
def test_wrong_values_of_the_option(text: str) -> None:
    with pytest.raises(ValueError, match="is not on, off, or a number of trials"):
        read_breaker(text)


@in_one_test(
    ("status", "text", "refused"),
    [
        *((status, "no", True) for status in (401, 403, 404)),
        *((status, "no", False) for status in (429, None)),
        (500, "OpenAIException - Missing credentials. Please pass an `api_key`, or set OPENAI_API_KEY", True),
        (None, "set the ANTHROPIC_API_KEY environment variable", True),
        (429, "rate limit of OPENAI_API_KEY", False),
        (500, "the server had an error", False),
    ],
)
def test_a_model_that_its_provider_refuses_or_that_has_no_key(status: int | None, text: str, refused: bool) -> None:
    error = ValueError(text)
    error.status_code = status  # type: ignore[attr-defined]
    assert failed("the judge's model 'm'", error).refused is refused


# -- for all processes of a run --


def make(path: Path, *answers: str, run: str = "run-1", limits: Limits | None = None) -> Stopping:
    found = iter(answers)
    return Stopping(Breaker(2), limits or Limits(), path, run, lambda: next(found))


def test_all_processes_of_a_run_hear_of_it_and_no_other_run(tmp_path: Path) -> None:
    one, other, later = make(tmp_path, "no answer"), make(tmp_path), make(tmp_path, run="run-2")
    one.note(KEY, GONE)
    assert one.opened is None
    one.note(KEY, GONE)
    opened = one.opened
    assert opened is not None
    assert opened == other.opened
    assert opened.text == (
        f"not run: the breaker is open since {KEY}: 2 trials in a row ended with EndpointUnreachableError, and the "
        "agent does not answer a new request: no answer"
    )
    assert "start the agent again" in opened.advice
    assert "--a2a-resume" in opened.advice
    assert later.opened is None
    forget(tmp_path)
    assert make(tmp_path).opened is None


def test_a_card_that_answers_keeps_it_closed(tmp_path: Path) -> None:
    stopping = make(tmp_path, "", "gone now")
    for _ in range(3):
        stopping.note(KEY, DOWN)
    assert stopping.opened is None
    stopping.note(KEY, DOWN)
    assert stopping.opened is not None


@in_one_test("content", ["", "{}", "[]", "\udcff", '{"schema_version": 1, "cause": "?"}'])
def test_a_damaged_file_opens_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / NAME).write_text(content, errors="surrogateescape")
    assert make(tmp_path).opened is None


def test_trials_that_were_decided_are_skipped_and_no_others(tmp_path: Path) -> None:
    stopping, other = make(tmp_path), make(tmp_path, run="run-2")
    trial: Any = SimpleNamespace(key=KEY)
    assert stopping.left_out(KEY) is None
    settle(tmp_path, Settled("min_pass is reached", (str(KEY),), "run-1"))
    found = stopping.left_out(KEY)
    assert found is not None
    assert (found.status, found.error) == ("skipped", "min_pass is reached")
    assert stopping.before_trial(trial) == found
    assert stopping.left_out(TrialKey("fake", "desk", "2")) is None
    assert other.left_out(KEY) is None


def test_it_opens_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    stopping = make(tmp_path / "file")
    stopping.note(KEY, REFUSED)
    assert stopping.opened is not None


def test_nobody_begins_while_the_card_is_asked_for(tmp_path: Path) -> None:
    asked, answer = threading.Event(), threading.Event()

    def ask() -> str:
        asked.set()
        assert answer.wait(60)
        return "gone"

    stopping = Stopping(Breaker(1), Limits(), tmp_path, "run-1", ask)
    first = threading.Thread(target=stopping.note, args=(KEY, DOWN))
    first.start()
    assert asked.wait(60)
    found: list[object] = []
    second = threading.Thread(target=lambda: found.append(stopping.opened))
    second.start()
    assert (found, stopping.known) == ([], None)
    answer.set()
    first.join(60)
    second.join(60)
    assert found == [stopping.known]
    assert stopping.known is not None


def test_limits() -> None:
    assert Limits().deadline(5.0) is None
    assert Limits().patience(5.0) is None
    assert Limits(10.0).deadline(5.0) == 15.0
    assert Limits(10.0, 8.0, 12.0).deadline(5.0) == 12.0
    # As long again, from one second up to half a minute.
    assert [Limits(t).patience(0.0) for t in (0.5, 10.0, 3600.0)] == [1.5, 20.0, 3630.0]
    assert Limits(10.0).patience(5.0) == 25.0
    # Nothing is held any more, so nobody has to be given up.
    assert Limits(10.0, 8.0, 4.0).patience(5.0) is None


def test_timeouts_by_party(tmp_path: Path) -> None:
    over = Limits(3600.0, 2.0, time.monotonic())
    assert isinstance(over.error(KEY), RunTimeoutError)
    assert isinstance(Limits(1.0).error(KEY), TrialTimeoutError)
    opened = make(tmp_path, limits=over).opened
    assert opened is not None
    assert opened.text == "not run: the run took longer than --a2a-run-timeout (2 s)"
    assert "raise --a2a-run-timeout, then run again with --a2a-resume" in opened.advice
