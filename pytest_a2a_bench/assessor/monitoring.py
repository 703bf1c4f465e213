"""What an operator watches: numbers for Prometheus, and a JSON object per line for logs, without secrets and golds."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.redact import one_line
from pytest_a2a_bench.secret import KNOWN

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_TURNS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_ASSESSMENTS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 24 * 3600.0)
_METHODS = ("GET", "POST", "DELETE")


class Monitor:
    """The numbers of one process, in a registry of their own. Safe to use from many threads."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "a2a_assessor_requests", "HTTP requests by method and status", ("method", "status"), registry=registry
        )
        self._limited = Counter(
            "a2a_assessor_requests_limited",
            "Requests refused because a caller, or an address without a token, sent too many in a minute",
            ("by",),
            registry=registry,
        )
        self._state = Gauge("a2a_assessor_assessments", "Assessments now, by state", ("state",), registry=registry)
        self._ended = Counter(
            "a2a_assessor_assessments_ended",
            "Assessments by what is evaluated and how they ended",
            ("evaluation", "outcome"),
            registry=registry,
        )
        self._seconds = Histogram(
            "a2a_assessor_assessment_seconds", "Seconds of assessments", buckets=_ASSESSMENTS, registry=registry
        )
        self._trials = Counter(
            "a2a_assessor_trials", "Trials by domain and outcome", ("domain", "outcome"), registry=registry
        )
        self._turns = Histogram(
            "a2a_assessor_agent_turn_seconds", "Seconds that agents took for a turn", buckets=_TURNS, registry=registry
        )
        self._errors = Counter(
            "a2a_assessor_agent_errors", "Trials that could not be evaluated, by error", ("type",), registry=registry
        )
        self._queries = Counter("a2a_assessor_org_queries", "Queries to CRM orgs", registry=registry)
        self._tokens = Counter(
            "a2a_assessor_tokens", "Tokens as agents and models report them", ("of", "direction"), registry=registry
        )
        self._cost = Counter("a2a_assessor_cost_dollars", "Dollars as agents and models report them", registry=registry)

    def watch(self, running: Callable[[], float], waiting: Callable[[], float]) -> None:
        """Name what tells how many assessments run and wait."""
        self._state.labels("running").set_function(running)
        self._state.labels("waiting").set_function(waiting)

    def note_request(self, method: str, status: int) -> None:
        """Count a request; what a client invents as a method makes no series of its own."""
        self._requests.labels(method if method in _METHODS else "other", str(status)).inc()

    def note_limited(self, by: str) -> None:
        """Count a request that came too early; ``by`` is ``caller`` or ``address``."""
        self._limited.labels(by).inc()

    def note_end(self, evaluation: str, outcome: str, seconds: float) -> None:
        """Count an assessment that has ended."""
        self._ended.labels(evaluation, outcome).inc()
        self._seconds.observe(seconds)

    def note_rejection(self) -> None:
        """Count a request that could not be carried out, and so was no assessment."""
        self._ended.labels("", "rejected").inc()

    def note_trial(self, result: TrialResult) -> None:
        """Count a trial."""
        outcome = ("passed" if result.success else "failed") if result.status == "evaluated" else result.status
        self._trials.labels(result.key.domain, outcome).inc()
        for seconds in result.turn_latencies:
            self._turns.observe(seconds)
        if result.status != "evaluated":
            self._errors.labels(result.error_type or result.status).inc()
        queries = result.provenance.get("measured", {}).get("queries")
        if isinstance(queries, int | float):
            self._queries.inc(max(0, queries))
        for of, usage in (("agent", result.agent_usage), ("user", result.user_usage)):
            self._tokens.labels(of, "input").inc(max(0, usage.input_tokens or 0))
            self._tokens.labels(of, "output").inc(max(0, usage.output_tokens or 0))
            self._cost.inc(max(0.0, usage.cost_usd or 0.0))

    def render(self) -> bytes:
        """Return the numbers in Prometheus's text format."""
        return bytes(generate_latest(self._registry))


_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_OF_CLIENTS = ("a2a.server.routes", "a2a.compat", "a2a.server.request_handlers", "a2a.server.tasks", "a2a.utils")
"""Loggers of the SDK that write tracebacks of what clients got wrong, which the clients are told."""


class JsonFormatter(logging.Formatter):
    """One JSON object per record: time, level, logger, message, and what the record was given beside."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        told: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": one_line(record.getMessage(), 2000),
        }
        told |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return KNOWN.hide(json.dumps(told, ensure_ascii=False, default=str))


def log_as_json() -> None:
    """Let everything that is logged go to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("pytest_a2a_bench.assessor").setLevel(logging.INFO)
    for name in _OF_CLIENTS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
