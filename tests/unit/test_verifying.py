"""Verification beside the conversations, and what it came to in numbers."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

import pytest

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.errors import TrialCancelledError
from pytest_a2a_bench.model import Reward, TrialKey, TrialResult, Verification, VerificationStatus
from pytest_a2a_bench.results.store import Store
from pytest_a2a_bench.results.verified import Tally
from pytest_a2a_bench.settings import Settings
from pytest_a2a_bench.trials.verifying import Verifying


def finished(task: str, status: VerificationStatus | None = None, reason: str = "") -> TrialResult:
    told = Verification(status, reason, by="desk 1") if status else None
    return TrialResult(TrialKey("desk", "front", task), "evaluated", reward_info=Reward(1.0), verification=told)


class Slow:
    """A verifier that answers when it is closed, as one whose process is ended."""

    def __init__(self) -> None:
        self.begun, self.closed = threading.Event(), threading.Event()

    def verify(self, result: TrialResult) -> Verification:
        self.begun.set()
        self.closed.wait()
        return Verification("failed", "it was closed")

    def close(self) -> None:
        self.closed.set()


def test_a_run_that_stops_waits_for_no_verification(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow()
    monkeypatch.setattr(registry, "open_verifier", lambda suite, settings: slow)
    verifying = Verifying(Settings(), Store(tmp_path), ["desk"])
    verifying.submit(finished("1"))
    slow.begun.wait()
    verifying.submit(finished("2"))
    verifying.close()
    # What was under way says what became of it, and nothing else begins.
    found = verifying.wait(finished("1")).verification
    assert found is not None
    assert found.reason == "it was closed"
    for task in ("2", "3"):
        with pytest.raises(TrialCancelledError, match=f"front/{task}#0 was not verified, because the run is stopping"):
            verifying.wait(finished(task))


def test_what_cannot_be_stored_is_no_verification(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trials").write_text("a file in its place")
    monkeypatch.setattr(registry, "open_verifier", lambda suite, settings: None)
    verifying = Verifying(Settings(), Store(tmp_path))
    found = verifying.wait(finished("1")).verification
    verifying.close()
    assert found is not None
    assert found.status == "failed"
    assert "cannot be written" in found.reason


def test_no_trial_vanishes_from_the_count() -> None:
    raises = "stock evaluator raises KeyError: 'seat'"
    results = [
        finished("1", "verified"),
        finished("2", "differs"),
        finished("3", "failed", "it died"),
        finished("4", "not_verifiable", raises),
        finished("5"),
        dataclasses.replace(finished("6"), status="infrastructure_error", reward_info=None),
    ]
    tally = Tally.of(results)
    assert (tally.verifiable, tally.finished, tally.confirms) == (4, 5, False)
    assert tally.sentence == (
        "verified 1 of 4 by the stock desk 1; 1 differs: desk/front/2#0; 1 could not be verified: desk/front/3#0; "
        f"1 not verified; 1 not verifiable: 1x {raises}"
    )
    assert list(tally.details()) == ["desk/front/2#0:", "desk/front/3#0:", "  it died"]
    assert Tally.of(results[:1]).confirms
    # Where nothing could be verified, nothing is confirmed.
    assert not Tally.of(results[3:4]).confirms
