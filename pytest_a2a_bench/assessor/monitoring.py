"""Metrics for Prometheus and logs as JSON lines, without secrets, words of a conversation or what tasks expect."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.redact import one_line
from pytest_a2a_bench.results.assessments import Record
from pytest_a2a_bench.secret import KNOWN
from pytest_a2a_bench.tracing import Kind, Span, Tracing, Value

log = logging.getLogger(__name__)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_TURNS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_ASSESSMENTS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 24 * 3600.0)
_METHODS = ("GET", "POST", "DELETE")


class Monitor:
    """The metrics of one process, in a registry of their own. Safe to use from many threads."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"a2a_assessor_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: Sequence[float]) -> Histogram:
            return Histogram(f"a2a_assessor_{name}", text, buckets=buckets, registry=registry)

        self._requests = counter("requests", "HTTP requests by method and status", "method", "status")
        self._state = Gauge("a2a_assessor_assessments", "Assessments now, by state", ("state",), registry=registry)
        self._ended = counter("assessments_ended", "Assessments that ended", "evaluation", "outcome")
        self._seconds = histogram("assessment_seconds", "Seconds of assessments", _ASSESSMENTS)
        self._trials = counter("trials", "Trials by domain and outcome", "domain", "outcome")
        self._turns = histogram("agent_turn_seconds", "Seconds that agents took for a turn", _TURNS)
        self._errors = counter("agent_errors", "Trials that could not be evaluated, by error", "type")
        self._queries = counter("org_queries", "Queries to CRM orgs")
        self._tokens = counter("tokens", "Tokens as agents and models report them", "of", "direction")
        self._cost = counter("cost_dollars", "Dollars as agents and models report them")

    def watch(self, running: Callable[[], float], waiting: Callable[[], float]) -> None:
        """Name the functions that return how many assessments run and wait."""
        self._state.labels("running").set_function(running)
        self._state.labels("waiting").set_function(waiting)

    def note_request(self, method: str, status: int) -> None:
        """Count a request; what a client invents as a method makes no series of its own."""
        self._requests.labels(method if method in _METHODS else "other", str(status)).inc()

    def note_end(self, record: Record) -> None:
        """Count and log an assessment that has ended."""
        seconds = (record.ended or record.submitted) - record.submitted
        self._ended.labels(str(record.request.get("evaluation", "")), record.state).inc()
        self._seconds.observe(seconds)
        about = {
            "assessment": record.name,
            "caller": record.caller,
            "state": record.state,
            "score": record.score,
            "max_score": record.max_score,
            "seconds": round(seconds, 3),
            "told": one_line(record.summary, 300),
        }
        log.info("assessment ended", extra=about)

    def note_rejection(self, name: str, problems: int) -> None:
        """Count and log a request that could not be carried out, and so was no assessment."""
        self._ended.labels("", "rejected").inc()
        log.info("request rejected", extra={"assessment": name, "problems": problems})

    def note_trial(self, name: str, result: TrialResult) -> None:
        """Count and log a trial of an assessment."""
        about = {
            "assessment": name,
            "trial": str(result.key),
            "status": result.status,
            "reward": result.reward if result.status == "evaluated" else None,
            "turns": result.turns,
            "seconds": round(result.duration, 3),
            "error": result.error_type,
        }
        log.info("trial ended", extra=about)
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
        """Return the metrics in Prometheus's text format."""
        return bytes(generate_latest(self._registry))


# --- inside an assessment ---------------------------------------------------------------------------------------------

_OF_TURNS = {
    "gen_ai.usage.input_tokens": "input_tokens",
    "gen_ai.usage.output_tokens": "output_tokens",
    "a2a.task.state": "state",
}
"""Attributes of a turn's span -> members of its log line."""


class LoggedTracing(Tracing):
    """The spans of one assessment's trials, which are logged too: numbers and names only, as spans have them."""

    def __init__(self, inner: Tracing, assessment: str) -> None:
        self._inner = inner
        self._assessment = assessment

    def trial(self, key: str, attributes: Mapping[str, Value | None]) -> Span:
        """Begin a trial's span."""
        about = {"assessment": self._assessment, "trial": key}
        log.info("trial begun", extra=about)
        return _LoggedSpan(self._inner.trial(key, attributes), about)


class _LoggedSpan(Span):
    """The span of a trial, whose children are its turns, or that of a turn.

    :param about: members of its log lines; those of a turn have its number.
    """

    def __init__(self, inner: Span, about: Mapping[str, Any]) -> None:
        self._inner, self._about = inner, dict(about)
        self._began, self._turns = time.monotonic(), 0

    def child(self, name: str, kind: Kind = "internal", attributes: Mapping[str, Value | None] | None = None) -> Span:
        made = self._inner.child(name, kind, attributes)
        if "turn" in self._about:
            return made
        self._turns += 1
        return _LoggedSpan(made, {**self._about, "turn": self._turns})

    def set(self, attributes: Mapping[str, Value | None]) -> None:
        self._inner.set(attributes)
        if "turn" in self._about:
            self._about |= {name: attributes[key] for key, name in _OF_TURNS.items() if key in attributes}

    def event(self, name: str, attributes: Mapping[str, Value | None]) -> None:
        self._inner.event(name, attributes)
        if name == "gen_ai.evaluation.result":
            reward = attributes.get("gen_ai.evaluation.score.value")
            outcome = attributes.get("gen_ai.evaluation.score.label")
            log.info("trial evaluated", extra={**self._about, "reward": reward, "outcome": outcome})

    def fail(self, error_type: str, description: str = "") -> None:
        self._inner.fail(error_type, description)
        # Its description may quote the agent.
        self._about["error"] = error_type

    def end(self) -> None:
        self._inner.end()
        if "turn" in self._about:
            log.info("turn ended", extra={**self._about, "seconds": round(time.monotonic() - self._began, 3)})

    def headers(self) -> dict[str, str]:
        return self._inner.headers()


# --- logs as JSON -----------------------------------------------------------------------------------------------------

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_OF_CLIENTS = ("a2a.server.routes", "a2a.compat", "a2a.server.request_handlers", "a2a.server.tasks", "a2a.utils")
"""Loggers of the SDK that write tracebacks of clients' mistakes, which the answers already name."""


class JsonFormatter(logging.Formatter):
    """One JSON object per record: time, level, logger, message, and the record's extra members."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": one_line(record.getMessage(), 2000),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return KNOWN.hide(json.dumps(line, ensure_ascii=False, default=str))


def log_as_json() -> None:
    """Log to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("pytest_a2a_bench.assessor").setLevel(logging.INFO)
    for name in _OF_CLIENTS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
