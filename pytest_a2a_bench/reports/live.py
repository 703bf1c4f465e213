"""Serve a page that shows a run while it goes on and afterwards; the page polls one JSON object."""

from __future__ import annotations

import hmac
import secrets
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from pytest_a2a_bench.benchmarks.registry import shown_name
from pytest_a2a_bench.config.rates import split_tier
from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.reports.contents import gather
from pytest_a2a_bench.reports.html import asset, render, safe_json
from pytest_a2a_bench.reports.html.charts import el
from pytest_a2a_bench.reports.html.records import bounded, turn_record, why
from pytest_a2a_bench.reports.trial_text import cause_of, diagnosis_of
from pytest_a2a_bench.results import history, live, lock, manifest
from pytest_a2a_bench.results.gates.terms import groups_of_result
from pytest_a2a_bench.results.stats import Progress, count, duration
from pytest_a2a_bench.results.store import Store, StoreError
from pytest_a2a_bench.text import one_line, refusing

_LAST = 8
_REASONS = 6
_CONVERSATIONS = 200
_PACE = 1.0
"""Seconds for which a poll that says ``wait`` is not answered: a page needs no timer, which browsers slow down."""

_FILES = {
    "": ("text/html", ("live.html",)),
    "live.js": ("text/javascript", ("dom.js", "transcript.js", "live.js")),
    "live.css": ("text/css", ("page.css", "viewer.css", "live.css")),
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)

_Mark: TypeAlias = tuple[int, int, int]


class _Trial(NamedTuple):
    """A trial's file as it was read: the page's record of its result, or the reason why it cannot be read."""

    mark: _Mark
    shown: Mapping[str, Any] | None = None
    problem: str = ""


@dataclass
class Watched:
    """The state of the run in a results directory; each trial file is read once, until it changes.

    :param baseline: an earlier run or a baseline's file, to compare with.
    :param run_id: the only run that is shown; otherwise it is the last run of the directory.
    :param past: a history of runs (``--a2a-history-file``).
    """

    directory: Path
    baseline: Path | None = None
    run_id: str = ""
    past: Path | None = None
    is_over: bool = field(default=False, init=False)
    """Whether the run has ended although its process still holds the directory's lock."""
    _run_id: str = field(default="", init=False)
    _trials: dict[str, _Trial] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self._conversations = live.Watch(self.directory)

    def look(self, talk: str = "", begin: int = 0) -> dict[str, Any]:
        """Return the state of the run as JSON.

        :param talk: the id of the conversation whose messages are wanted, from the message ``begin`` on.
        """
        with self._lock:
            # Before the files: where the run ends in between, the next look says so.
            running = not self.is_over and lock.is_in_use(self.directory)
            state = dict.fromkeys(("last", "now", "why", "floors"), ()) | {"name": "", "done": 0, "total": 0}
            try:
                run, begun = self._run()
                if self.run_id and run.run_id != self.run_id:
                    return {**state, "line": "the run begins", "running": running}
                self._read(run)
            except (A2ABenchError, OSError) as error:
                line = "the run begins" if self.run_id and running else one_line(str(error))
                return {**state, "line": line, "running": running}
            return {**self._state(run, begun, talk, begin, running=running), "running": running}

    def _run(self) -> tuple[manifest.Manifest, float]:
        """Return the manifest of the run, and when it was written, in seconds since 1970."""
        try:
            mark = _mark(self.directory / manifest.NAME)
        except OSError:
            return manifest.load(self.directory), 0.0
        return _load_run(self.directory, mark), mark[0] / 1e9

    def _state(self, run: manifest.Manifest, begun: float, talk: str, begin: int, *, running: bool) -> dict[str, Any]:
        trials = [self._trials[key] for key in run.keys if key in self._trials]
        done = [trial.shown for trial in trials if trial.shown is not None]
        problems = [trial.problem for trial in trials if trial.problem]
        newest = [str(trial.shown["last"]) for trial in reversed(self._trials.values()) if trial.shown is not None]
        now = list(self._now(run)) if running else []
        age = max(0.0, time.time() - begun)
        line = Progress(tuple(done), len(run.keys), age, max(1, len(now)), len(now) or None).line.removeprefix("a2a: ")
        if not running:
            # The files say when the run began, and not when it ended.
            line = line.partition(", about ")[0].removesuffix(f", {duration(age)}")
        if problems:
            line += f"; {count(len(problems), 'trial file')} cannot be read"
        reasons = Counter(values["reason"] for values in done if values["reason"]).most_common(_REASONS)
        return {
            "name": one_line(run.agent or run.endpoint, 80),
            "line": line if running else f"{line}; the run is over",
            "done": len(done),
            "total": len(run.keys),
            "last": newest[:_LAST],
            "now": [_conversation(each) for each in now[:_CONVERSATIONS]],
            "floors": list(_floors(run, done)),
            "why": [*problems[:_REASONS], *(f"{number}x {text}" for text, number in reasons)],
            "talk": next((_messages(each, begin) for each in now if each.id == talk), None),
        }

    def _read(self, run: manifest.Manifest) -> None:
        """Read the trials of the run whose files have come or changed since the last look."""
        if run.run_id != self._run_id:
            self._trials, self._run_id = {}, run.run_id
        store = Store(self.directory)
        for key in run.keys:
            trial = TrialKey.parse(key)
            try:
                mark = _mark(store.path(trial))
            except OSError:
                self._trials.pop(key, None)
                continue
            if key in self._trials and self._trials[key].mark == mark:
                continue
            # A trial that is run again (--reruns) moves to the end.
            self._trials.pop(key, None)
            try:
                result = store.read(trial)
            except StoreError as error:
                self._trials[key] = _Trial(mark, problem=one_line(str(error)))
                continue
            is_ours = result is not None and result.run_id in run.runs
            self._trials[key] = _Trial(mark, _shown(result) if result is not None and is_ours else None)

    def _now(self, run: manifest.Manifest) -> Iterator[live.InFlight]:
        for each in self._conversations.look():
            trial = self._trials.get(each.key)
            if each.run_id in run.runs and (trial is None or trial.shown is None):
                yield each

    def report(self) -> str:
        """Return the report page of the trials that have finished, or a page that says why there is none."""
        try:
            past = history.read(self.past) if self.past is not None else ()
            return render(gather(self.directory, self.baseline, None, past))
        except (A2ABenchError, OSError) as error:
            state = self.look()
            waits = state["running"] and not state["done"]
            text = "No trial has ended yet. The report is here as soon as one has." if waits else one_line(str(error))
            head = el("head", el("title", "No report"), el("link", rel="stylesheet", href="live.css"))
            return f"<!doctype html>\n{el('html', head, el('body', el('main', el('p', text, class_='note'))))}\n"


@lru_cache(maxsize=2)
def _load_run(directory: Path, mark: _Mark) -> manifest.Manifest:
    # Cached, as reading the manifest of a large run takes long.
    return manifest.load(directory)


def _mark(path: Path) -> _Mark:
    """Return a stamp that changes whenever a file is written; it has the size too, since clocks are coarse.

    :raises OSError: if there is no such file.
    """
    found = path.stat()
    return found.st_mtime_ns, found.st_ino, found.st_size


def _shown(result: TrialResult) -> dict[str, Any]:
    """Return the fields of a result that the page and its progress line read."""
    outcome = "passed" if result.success else one_line(why(result), 80) or result.status
    found = diagnosis_of(result)
    cause = cause_of(result.key.suite, found.kind) if found is not None else None
    reason = f"{cause.blame}: {cause.about(found.subject)}" if found is not None and cause is not None else ""
    return {
        "status": result.status,
        "success": result.success,
        "cost_usd": result.cost,
        **({"estimated_cost_usd": result.estimated_usage.cost_usd} if result.spent.estimated else {}),
        "duration_s": result.duration,
        "reused_from": result.reused_from,
        "groups": groups_of_result(result),
        "last": f"{one_line(shown_name(str(result.key)), 80)}: {outcome}",
        "reason": one_line(reason, 160),
    }


def _floors(run: manifest.Manifest, done: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield how far the finished trials reach each floor; the gates judge at the end, and more exactly."""
    for name, rate in dict(run.settings.get("min_pass") or {}).items():
        group, _ = split_tier(name)
        found = [values for values in done if not group or group in values["groups"]]
        shown = one_line(group, 80) or "all trials"
        if not found:
            yield f"{shown}: {float(rate):.0%}, and no trial has finished"
            continue
        share = sum(bool(values["success"]) for values in found) / len(found)
        words = "reached so far" if share >= float(rate) else "not reached so far"
        yield f"{shown}: {share:.0%} of {float(rate):.0%}, {words}"


def _conversation(conversation: live.InFlight) -> dict[str, Any]:
    at, last = conversation.turns[-1] if conversation.turns else (0.0, None)
    seconds = max(0.0, time.time() - conversation.began)
    waits = "agent"
    if last is None or last.role == "agent":
        waits = "begins" if last is None else "tools" if last.calls else "user"
    return {
        "id": conversation.id,
        "key": one_line(conversation.key, 200),
        "name": one_line(shown_name(conversation.key), 200),
        "seconds": round(seconds, 1),
        "messages": len(conversation.turns),
        "waits": waits,
        "since": round(max(0.0, seconds - at), 1),
    }


def _messages(conversation: live.InFlight, begin: int) -> dict[str, Any]:
    """Return messages from one on; with the first, the policy and tools that the agent was given."""
    turns = {"turns": [turn_record(turn) for _, turn in conversation.turns[begin:]]}
    if begin:
        return turns
    briefing = conversation.briefing
    tools = [f"{one_line(str(n), 120)}: {one_line(str(text), 300)}" for n, text in briefing.get("tools", [])]
    return {**turns, "policy": bounded(briefing.get("policy", "")), "tools": tools}


class Server(ThreadingHTTPServer):
    """Serves one run on this machine alone, at a URL with a secret token; a context manager.

    :param number: the port, 0 for any free one.
    :param option: the option that named the port, for messages.
    :raises ConfigurationError: if the port is taken.
    """

    daemon_threads = True

    def __init__(self, watched: Watched, number: int = 0, option: str = "--port") -> None:
        self.watched = watched
        self.token = secrets.token_urlsafe(16)
        self.woken = threading.Event()
        """Set at the end: polls are answered at once."""
        self._open: set[str] = set()
        self._changed = threading.Condition()
        with refusing(f"{option} {number}: cannot listen there"):
            super().__init__(("127.0.0.1", number), _Handler)

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server_address[1]}/{self.token}/"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, name="a2a-live", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.woken.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing about clients that leave before they are answered: this terminal shows a run."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    def note_page(self, page: str, *, is_open: bool) -> None:
        """Note that a page is open in a browser, or that it needs nothing more."""
        with self._changed:
            if not is_open:
                self._open.discard(page)
            elif not self.watched.is_over:
                self._open.add(page)
            self._changed.notify_all()

    def let_them_see(self, seconds: float) -> None:
        """End the run, and wait until every open page has loaded the last report, at most so many seconds."""
        with self._changed:
            self.watched.is_over = True
            self.woken.set()
            self._changed.wait_for(lambda: not self._open, seconds)


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        _, token, path = [*address.path.split("/", 2), "", ""][:3]
        query = dict(parse_qsl(address.query))
        # A website may have its own name lead to this address, and would then read the page: its name is the host.
        is_ours = self.headers.get("Host", "").partition(":")[0] in ("127.0.0.1", "localhost")
        if not is_ours or not hmac.compare_digest(token.encode(), self.server.token.encode()):
            self.send_error(404)
        elif path in _FILES:
            kind, names = _FILES[path]
            self._send(kind, asset(names))
        elif path == "report":
            was_over = self.server.watched.is_over
            self._send("text/html", self.server.watched.report(), policy="")
            if was_over:
                self.server.note_page(query.get("page", ""), is_open=False)
        elif path == "status":
            self._status(query)
        elif path == "closed":
            self.server.note_page(query.get("page", ""), is_open=False)
            self._send("text/plain", "")
        else:
            self.send_error(404)

    def _status(self, query: Mapping[str, str]) -> None:
        if page := query.get("page"):
            self.server.note_page(page, is_open=True)
        if "wait" in query:
            self.server.woken.wait(_PACE)
        begin = query.get("from", "")
        # No conversation has so many messages, and Python refuses to read a number of thousands of digits.
        first = int(begin[:9]) if begin.isdecimal() else 0
        self._send("application/json", safe_json(self.server.watched.look(query.get("talk", ""), first)))

    def _send(self, kind: str, text: str, policy: str = _POLICY) -> None:
        body = text.encode("utf-8", "replace")
        self.send_response(200)
        for name, value in {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            # The report brings a policy of its own.
            **({"Content-Security-Policy": policy} if policy else {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the terminal shows the run."""
