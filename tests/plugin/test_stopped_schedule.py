"""What comes of trials when a run stops, or one comes back after it was given up. No pytest runs here."""

from __future__ import annotations

import threading
from typing import Any

from pytest_a2a_bench.errors import TrialCancelledError
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.plugin.trials.schedule import Schedule
from pytest_a2a_bench.trials.stopping import Limits

KEYS = [TrialKey("desk", "front", str(number)) for number in range(3)]


class Held:
    """In place of the runner: holds a conversation until it is cancelled.

    :ivar began: whether one is held.
    """

    def __init__(self) -> None:
        self.limits = Limits(3600.0)
        self.began = threading.Event()

    def run(self, key: TrialKey, cancel: threading.Event) -> TrialResult:
        self.began.set()
        cancel.wait()
        return TrialResult(key, "infrastructure_error")

    def cancel_all(self) -> None: ...

    def give_up(self, key: TrialKey) -> TrialResult | None:
        return None


def test_who_waits_for_a_trial_that_never_began_is_told_when_the_run_stops() -> None:
    runner: Any = Held()
    schedule = Schedule(runner, 1, KEYS[:1], lambda: None)
    assert runner.began.wait(60)
    ended: list[Exception] = []

    def ask() -> None:
        try:
            schedule.result(KEYS[1])
        except Exception as error:
            ended.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    schedule.stop()
    asking.join(60)
    assert [type(error) for error in ended] == [TrialCancelledError]
