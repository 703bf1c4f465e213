"""Evaluations in the background: begun, looked at, canceled, and taken up again by the next process.

Each is a directory of the results directory, as the assessor's are: its ``assessment.json`` says who asked for what and
how far it came, beside what every run leaves. A process holds an evaluation by the lock of its directory, so that
``adk web`` and ``adk run`` over the same results are not in each other's way.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import logging
import os
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pytest_a2a_bench.adk import credentials
from pytest_a2a_bench.adk.options import AdkOptions
from pytest_a2a_bench.assessor import result
from pytest_a2a_bench.assessor.assessment import Assessment, AssessmentFailed, Concluded, Stopped
from pytest_a2a_bench.assessor.request import BadRequest, Request, parse
from pytest_a2a_bench.assessor.terms import Plan, known_domains, plan
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import Part
from pytest_a2a_bench.results import assessments as records
from pytest_a2a_bench.results import lock
from pytest_a2a_bench.results.assessments import Record, State
from pytest_a2a_bench.results.lock import InUseError, Lock
from pytest_a2a_bench.results.store import Store, StoreError
from pytest_a2a_bench.secret import KNOWN
from pytest_a2a_bench.settings import BUILTIN_PREFIX

log = logging.getLogger(__name__)

OWNER = "the ADK agent"
_PATIENCE = 10.0
"""Seconds that evaluations are given to end with their process."""
_TICK = 0.05
_LOOKS = 0.5
"""Seconds between two looks for a request of another process."""

REQUEST = "cancel"
"""The file in an evaluation's directory by which another process asks the one that holds it to cancel it."""

CALLER: ContextVar[str] = ContextVar("a2a_adk_caller", default="")
"""Who asks, where evaluations are their callers' (:attr:`Runs.by_caller`)."""


_CANCELED = "canceled by its caller"


class Look(NamedTuple):
    """How an evaluation is.

    :param progress: in words; empty where nobody knows.
    """

    record: Record
    directory: Path
    task_count: int
    progress: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing of it changes any more."""
        return self.record.state not in records.UNFINISHED


@dataclass
class _Live:
    """An evaluation that this process holds."""

    record: Record
    assessment: Assessment
    claim: Lock
    canceled: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    def cancel(self) -> None:
        """Abort what it has in flight, for good."""
        self.canceled.set()
        self.assessment.stop()


class Runs:
    """All evaluations under one results directory. Safe to use from many threads.

    :param environ: where credentials are.
    :ivar by_caller: whether each caller sees its own evaluations only; else everybody is the operator, and sees all.
    """

    def __init__(self, options: AdkOptions, environ: Mapping[str, str] = os.environ) -> None:
        self.options = options
        self.terms = options.terms()
        self.environ = environ
        self.by_caller = False
        self._kept = records.Kept(self.terms.results)
        self._live: dict[str, _Live] = {}
        self._guard = threading.Lock()
        self._places = threading.Semaphore(self.terms.at_once)
        self._is_closing = False
        self._forget = KNOWN.remember(credentials.secrets_of(options.credentials, environ))
        atexit.register(self.close)

    # -- what is asked for --

    def start(
        self,
        domain: str,
        endpoint: str,
        task_ids: list[str] | None = None,
        credential: str = "",
        **config: Any,
    ) -> Look:
        """Begin an evaluation, and return how it is.

        :param credential: name of the credential to send to the agent; empty for the one of its origin, if any.
        :param config: further members of an assessor's request, such as ``max_steps`` and ``num_trials``.
        :raises ConfigurationError: if it cannot be carried out, with all that is wrong.
        """
        problems: list[str] = []
        name = ""
        try:
            name = credentials.choose(credential, endpoint, self.options.credentials, self.environ) or ""
        except ConfigurationError as error:
            problems.append(str(error))
        asked = _config(domain, list(task_ids or ()), config)
        if domain != "conformance":
            # As a run of pytest has it: the form of the request says AgentBeats' own.
            asked.setdefault("dialect", "auto")
            # A built-in agent plays golds, for which it has to know the task.
            asked["tag_trials"] = self.options.tag_trials or endpoint.startswith(BUILTIN_PREFIX)
        try:
            request = parse([Part.of_data({"participants": {"agent": endpoint}, "config": asked})], known_domains())
            planned = self._plan(request, name)
        except BadRequest as error:
            raise ConfigurationError("; ".join([*problems, *error.problems])) from None
        if problems:
            raise ConfigurationError("; ".join(problems))
        run_id = uuid.uuid4().hex[:12]
        stored = {**request.to_json(), "credential": name, "task_count": len(planned.keys)}
        record = Record(run_id, self._whose(), {}, stored, submitted=time.time())
        with contextlib.suppress(OSError):
            self.terms.results.mkdir(parents=True, exist_ok=True, mode=0o700)
        directory = self.terms.directory(run_id)
        claim = lock.take(directory, OWNER)
        record.write(directory)
        self._begin(record, planned, claim)
        return self.look(run_id)

    def look(self, run_id: str) -> Look:
        """Return how an evaluation is.

        :raises ConfigurationError: if there is none of this name.
        """
        live = self._live.get(run_id)
        record = self._read(run_id)
        directory = self.terms.directory(run_id)
        # How many checks the protocol has for an agent is known once it has been looked at.
        count = int(record.request.get("task_count") or record.max_score or 0)
        if live is not None:
            progress = live.assessment.progress
            return Look(record, directory, count or progress.total, progress.text)
        done = sum(1 for _ in Store(directory).trials.glob("*.json"))
        asked = ", its process was asked to cancel it" if (directory / REQUEST).exists() else ""
        return Look(record, directory, count, f"{done} trials done{asked}" if not record.summary else "")

    def wait(self, run_id: str, seconds: float) -> Look:
        """Return how an evaluation is once it is over, or so many seconds later."""
        live = self._live.get(run_id)
        if live is not None:
            live.over.wait(seconds)
        return self.look(run_id)

    def cancel(self, run_id: str) -> Look:
        """End an evaluation; what it has in flight is aborted, what is finished stays.

        One that another process holds is canceled there: that process is asked by a file, and given some seconds.

        :raises ConfigurationError: if there is none of this name, or nobody can be asked.
        """
        look = self.look(run_id)
        live = self._live.get(run_id)
        if live is not None:
            live.cancel()
            live.over.wait(_PATIENCE)
            return self.look(run_id)
        deadline = time.monotonic() + _PATIENCE
        while not look.is_over and time.monotonic() < deadline:
            try:
                with lock.held(look.directory, OWNER):
                    self._cancel_here(look.directory)
            except InUseError:
                _ask_owner(look.directory)
                time.sleep(_TICK)
            look = self.look(run_id)
        return look

    def _cancel_here(self, directory: Path) -> None:
        """Conclude an evaluation that nobody holds; the lock is ours."""
        record = records.read(directory)  # it may have ended since it was looked at
        if record.state in records.UNFINISHED:
            record.concluded("canceled", _CANCELED).write(directory)
        (directory / REQUEST).unlink(missing_ok=True)

    def take_up(self) -> list[str]:
        """Go on with what was interrupted by the end of a process, and return the names."""
        taken = []
        unfinished = [r for r in self._kept.all() if r.state in records.UNFINISHED]
        for record in reversed(unfinished):  # the oldest first
            with self._guard:
                if self._is_closing or record.name in self._live:
                    continue
            directory = self.terms.directory(record.name)
            try:
                claim = lock.take(directory, OWNER)
            except StoreError:
                continue  # another process's
            try:
                # It may have ended since it was read.
                if (directory / REQUEST).exists():  # its process ended before it heard that
                    self._cancel_here(directory)
                if records.read(directory).state not in records.UNFINISHED:
                    claim.release()
                    continue
                told = dict(record.request)
                credential = str(told.pop("credential", ""))
                told.pop("task_count", None)
                self._begin(record, self._plan(Request.from_json(told), credential), claim)
                taken.append(record.name)
            except (BadRequest, TypeError, KeyError, StoreError, OSError) as error:
                record.concluded("failed", f"it cannot be taken up again: {error}").write(directory)
                claim.release()
        return taken

    def names(self) -> Iterator[str]:
        """Yield the names of all evaluations, the newest first."""
        whose = self._whose()
        yield from (record.name for record in self._kept.all() if whose in ("", record.caller))

    def close(self) -> None:
        """Stop everything, so that the next process goes on with it. Safe to call again."""
        with self._guard:
            self._is_closing = True
            live = list(self._live.values())
        for one in live:
            one.assessment.stop()
        deadline = time.monotonic() + _PATIENCE
        for one in live:
            one.over.wait(max(0.0, deadline - time.monotonic()))
        self._forget()
        atexit.unregister(self.close)

    # -- one evaluation --

    def _plan(self, request: Request, credential: str) -> Plan:
        planned = plan(request, self.terms, self.environ)
        if credential:
            planned = dataclasses.replace(planned, settings=dataclasses.replace(planned.settings, auth_env=credential))
        return planned

    def _whose(self) -> str:
        """Return who asks; empty for the operator, who sees every evaluation.

        :raises ConfigurationError: if evaluations are their callers', and nobody knows who asks.
        """
        if not self.by_caller:
            return ""
        if not CALLER.get():
            raise ConfigurationError("nobody knows who asks, and evaluations are shown to their callers only")
        return CALLER.get()

    def _begin(self, record: Record, planned: Plan, claim: Lock) -> None:
        assessment = Assessment(record.name, planned, self.terms, self.environ)
        live = _Live(record, assessment, claim)
        with self._guard:
            self._live[record.name] = live
        threading.Thread(target=self._hold, args=(live,), name=f"evaluation-{record.name[:8]}", daemon=True).start()

    def _hold(self, live: _Live) -> None:
        """Wait for a place, run, and keep what came of it; in a thread of its own."""
        threading.Thread(target=self._listen, args=(live,), name="evaluation-requests", daemon=True).start()
        try:
            self._keep(live, live.record)
            with self._place(live) as is_free:
                if is_free:
                    self._keep(live, dataclasses.replace(live.record, state="running"))
                    self._run(live)
            if live.canceled.is_set() and live.record.state in records.UNFINISHED:
                self._end(live, "canceled", _CANCELED)
        except Exception as error:
            log.exception("evaluation broke")
            with contextlib.suppress(StoreError, OSError):
                self._end(live, "failed", f"the harness itself broke ({type(error).__name__}); its log says where")
        finally:
            if live.record.state not in records.UNFINISHED:
                with contextlib.suppress(OSError):
                    (self.terms.directory(live.record.name) / REQUEST).unlink(missing_ok=True)
            live.claim.release()
            with self._guard:
                self._live.pop(live.record.name, None)
            live.over.set()

    def _listen(self, live: _Live) -> None:
        """Cancel an evaluation once another process asks for it."""
        request = self.terms.directory(live.record.name) / REQUEST
        while not live.over.wait(_LOOKS):
            if request.exists():
                live.cancel()
                return

    @contextlib.contextmanager
    def _place(self, live: _Live) -> Iterator[bool]:
        """Wait for a place among those that run; false where it was stopped before it had one."""
        while not (self._is_closing or live.canceled.is_set()):
            if self._places.acquire(timeout=_TICK):
                try:
                    yield True
                finally:
                    self._places.release()
                return
        yield False

    def _run(self, live: _Live) -> None:
        try:
            found = live.assessment.run()
        except AssessmentFailed as error:
            self._end(live, "failed", str(error))
        except Stopped:
            pass  # canceled, or to be taken up later
        else:
            self._conclude(live, found)

    def _conclude(self, live: _Live, found: Concluded) -> None:
        self._end(live, "completed", KNOWN.hide(result.summary(found)), KNOWN.hide_in(result.data(found)))

    def _end(self, live: _Live, state: State, summary: str, told: Mapping[str, Any] | None = None) -> None:
        self._keep(live, live.record.concluded(state, KNOWN.hide(summary), told))

    def _keep(self, live: _Live, record: Record) -> None:
        live.record = record
        record.write(self.terms.directory(record.name))

    def _read(self, run_id: str) -> Record:
        try:
            if records.is_name(run_id):
                found = records.read(self.terms.directory(run_id))
                # To whom it is not, it is not there.
                if self._whose() in ("", found.caller):
                    return found
        except FileNotFoundError:
            pass
        known = [name for name, _ in zip(self.names(), range(5), strict=False)]
        there = f"the newest are {', '.join(known)}" if known else "there are none yet: call run_evaluation"
        raise ConfigurationError(f"there is no evaluation {run_id[:80]!r}; {there}")


def _ask_owner(directory: Path) -> None:
    """Ask the process that holds an evaluation to cancel it.

    :raises ConfigurationError: if nothing can be written there.
    """
    try:
        (directory / REQUEST).touch(mode=0o600)
    except OSError as error:
        raise ConfigurationError(
            f"another process holds the evaluation, and it cannot be asked to cancel it: {directory}: {error.strerror}"
        ) from error


def _config(domain: str, task_ids: list[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return an assessor's configuration, without what means nothing to the benchmark that is asked."""
    of_tau2 = known_domains().get(domain) == "tau2"
    config = {name: value for name, value in given.items() if of_tau2 or name not in ("max_steps", "split")}
    if of_tau2 and task_ids and not config.get("split"):
        config["split"] = _split_of(domain, task_ids)
    return {"domain": domain, "task_ids": task_ids or None, **config}


def _split_of(domain: str, task_ids: list[str]) -> str | None:
    """Return the first split that has all of some tasks; None for the usual one, which says what it lacks."""
    suite = registry.load("tau2")
    if domain not in suite.available():
        return None
    for split in sorted(suite.splits(domain), key=lambda name: name != "base"):
        if set(task_ids) <= {task.task_id for task in suite.load_tasks(domain, split)}:
            return split
    return None
