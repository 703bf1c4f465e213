"""Judge an agent's card and protocol, as ``a2a-bench check`` does, in a way that can be stopped."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.a2a.loop import Stop
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.conformance.engine import Judge
from pytest_a2a_bench.conformance.finding import CheckResult
from pytest_a2a_bench.conformance.report import Report
from pytest_a2a_bench.conformance.scenarios import Scenarios
from pytest_a2a_bench.conformance.subject import look_at
from pytest_a2a_bench.errors import CardError, HarnessError, InfrastructureError
from pytest_a2a_bench.redact import dump_json, redact_url
from pytest_a2a_bench.results.store import save

NAME = "conformance.json"
"""The file of the report, as ``a2a-bench check --format json`` writes it."""

_TIMEOUT = 10.0
_LOOK = 0.2
_CLOSER = "protocol-closer"

Note = Callable[[int, int, int, int], None]
"""Called with the numbers of checks: all, done, passed, errors."""


def judge_protocol(
    config: ClientConfig, settings: Settings, directory: Path, note: Note, stop: Stop, deadline: float = math.inf
) -> Report:
    """Run all checks of an agent, write the report, and return it; stopped, return what there is, and write nothing.

    :param deadline: when its time is up, by the monotonic clock.
    :raises InfrastructureError: if nothing answers, nothing can be asked, or it takes too long; or if it is stopped
        before the agent's card was read.
    """
    began = time.monotonic()
    timeout = min(_TIMEOUT, settings.timeout)
    with stop.ends_waiting():
        subject = look_at(config, timeout=timeout)
    if subject.problem:
        raise CardError(f"the protocol cannot be judged: {subject.problem}")
    planned = subject.plan()
    results = list(subject.card_results())
    total = len(results) + len(planned)
    checks = Judge(subject.targets(config, Scenarios(), timeout), settings.concurrency)
    over = threading.Event()
    closer = threading.Thread(target=_close_when, args=(stop, over, checks, deadline), name=_CLOSER, daemon=True)
    try:
        checks.start(planned)
        # Not before: what is closed before it has begun would begin all the same.
        closer.start()
        for one in planned:
            _tell(note, total, results)
            if stop.is_set():
                break
            try:
                results.append(checks.result(one))
            except HarnessError:
                if time.monotonic() > deadline and not stop.is_set():
                    raise InfrastructureError(f"it took too long ({len(results)} of {total} checks)") from None
                if not stop.is_set():
                    raise
    finally:
        is_stopped = stop.is_set()
        over.set()
        checks.close()
    report = subject.report(
        redact_url(config.endpoint),
        results,
        strict=settings.strict,
        seconds=time.monotonic() - began,
        planned=tuple(subject.planned),
        profile="standard",
    )
    if is_stopped:
        return report
    if not report.could_run:
        raise InfrastructureError("no check of the protocol could be made; is the agent still there?")
    save(directory / NAME, dump_json(report.to_json()))
    _tell(note, total, results)
    return report


def _close_when(stop: threading.Event, over: threading.Event, checks: Judge, deadline: float) -> None:
    """Close the checks at once when they are stopped or their time is up; end when they have ended."""
    while not over.is_set():
        if stop.wait(_LOOK) or time.monotonic() > deadline:
            checks.close()
            return


def _tell(note: Note, total: int, results: list[CheckResult]) -> None:
    passed = sum(r.outcome in ("passed", "warned") for r in results)
    note(total, len(results), passed, sum(r.outcome == "error" for r in results))
