"""Metrics for Prometheus and logs as JSON lines, without secrets, words of a conversation or expected answers."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from pytest_a2a_bench.model import AgentSaid, Briefing, Event, ToolReturned, TrialResult
from pytest_a2a_bench.redact import KNOWN
from pytest_a2a_bench.results.assessments import Record
from pytest_a2a_bench.text import announce_with, one_line
from pytest_a2a_bench.trials.trial import Trial, TrialObserver

log = logging.getLogger(__name__)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_TURNS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_ASSESSMENTS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 24 * 3600.0)
_METHODS = ("GET", "POST", "DELETE")


class Monitor:
    """The metrics of one process, in a registry of their own. Safe to use from many threads."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)  # CPU and memory of this process, where there is /proc

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
        self._day = Gauge("a2a_assessor_org_requests", "Requests of a Salesforce org's day", ("of",), registry=registry)
        self._tokens = counter("tokens", "Tokens as agents and models report them", "of", "direction")
        self._cost = counter("cost_dollars", "Dollars as agents and models report them")

    def watch(self, running: Callable[[], float], waiting: Callable[[], float]) -> None:
        """Name the functions that return how many assessments run and wait."""
        self._state.labels("running").set_function(running)
        self._state.labels("waiting").set_function(waiting)

    def note_request(self, method: str, status: int) -> None:
        """Count a request; a method that a client invents makes no series of its own."""
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
            "summary": one_line(record.summary, 300),
        }
        log.info("assessment ended", extra=about)

    def note_rejection(self, name: str, problems: Sequence[str]) -> None:
        """Count and log a request that could not be carried out, and so was no assessment."""
        self._ended.labels("", "rejected").inc()
        shown = [one_line(problem, 300) for problem in problems[:10]]
        log.info("request rejected", extra={"assessment": name, "problems": shown})

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
        for of, number in zip(("counted", "allowed"), result.provenance.get("org_day", ()), strict=False):
            self._day.labels(of).set(number)
        for of, usage in (("agent", result.agent_usage), ("user", result.user_usage)):
            self._tokens.labels(of, "input").inc(max(0, usage.input_tokens or 0))
            self._tokens.labels(of, "output").inc(max(0, usage.output_tokens or 0))
            self._cost.inc(max(0.0, usage.cost_usd or 0.0))

    def render(self) -> bytes:
        """Return the metrics in Prometheus's text format."""
        return bytes(generate_latest(self._registry))


# --- inside an assessment ---------------------------------------------------------------------------------------------


class _At(NamedTuple):
    """How far a conversation is: turns of the agent so far, and when it last went on (``time.monotonic``)."""

    turns: int
    since: float


class Logged(TrialObserver):
    """Logs each trial of an assessment, turn of its agent and action in its environment: names and numbers only.

    :param about: members of every line.
    """

    def __init__(self, **about: str) -> None:
        self._about = about
        self._at: dict[Trial, _At] = {}

    def before_conversation(self, trial: Trial) -> None:
        """Log that a trial begins."""
        self._log("trial begun", trial)
        self._at.pop(trial, None)

    def on_turn(self, trial: Trial, briefing: Briefing, events: Sequence[Event], party: str | None = None) -> None:
        """Log the turn of the agent that ended, or the actions that its calls were."""
        if party is not None:
            return
        now, at = time.monotonic(), self._at.get(trial)
        turns = at.turns if at is not None else 0
        for event in events if at is not None else ():  # a task may begin with a history
            seconds = round(now - at.since, 3) if at is not None else 0.0
            if isinstance(event, AgentSaid):
                turns += 1
                metrics = trial.session.metrics[-1:] if trial.session is not None else []
                tokens = {f"{way}_tokens": getattr(m, f"{way}_tokens") for m in metrics for way in ("input", "output")}
                self._log("turn ended", trial, turn=turns, seconds=seconds, calls=len(event.calls), **tokens)
            elif isinstance(event, ToolReturned):
                outcome = "error" if event.error else "ok"
                name = one_line(event.name, 80)
                self._log("action ended", trial, turn=turns, action=name, outcome=outcome, seconds=seconds)
        self._at[trial] = _At(turns, time.monotonic())

    def after_trial(self, trial: Trial, result: TrialResult | None) -> None:
        """Log the reward; a turn that did not end has the error of the trial."""
        at = self._at.pop(trial, None)
        if result is not None and result.status == "evaluated":
            outcome = "pass" if result.success else "fail"
            self._log("trial evaluated", trial, reward=result.reward, outcome=outcome)
        elif result is not None and result.status == "infrastructure_error" and at is not None:
            seconds = round(time.monotonic() - at.since, 3)
            self._log("turn ended", trial, turn=at.turns + 1, seconds=seconds, error=result.error_type)

    def _log(self, message: str, trial: Trial, **about: object) -> None:
        log.info(message, extra={**self._about, "trial": str(trial.key), **about})


# --- logs as JSON -----------------------------------------------------------------------------------------------------

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_OF_CLIENTS = ("a2a.server.routes", "a2a.compat", "a2a.server.request_handlers", "a2a.server.tasks", "a2a.utils")
"""Loggers of the SDK that write tracebacks of clients' mistakes, which the answers already name."""
_OF_QUEUES = "a2a.server.events"
"""The SDK's logger that warns several times of every task that is interrupted when the process stops."""


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
    logging.getLogger(_OF_QUEUES).setLevel(logging.ERROR)
    announce_with(log.info)
