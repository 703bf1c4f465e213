"""Evaluations in the background, started, read, canceled, and resumed by the next process; and the agent's six tools
over them, as coroutines that return JSON. They need no ADK.

Each is a directory of the results directory, as the assessor's are: its ``assessment.json`` holds the request and the
state, beside the files of every run. A process owns an evaluation by the lock of its directory, so that ``adk web`` and
``adk run`` may share the results.

No tool blocks its event loop. Errors are raised with advice; the agent returns them to its model as ``{"error": ...}``.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import dataclasses
import json
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

from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.adk.options import AdkOptions, choose_credential, secrets_of
from pytest_a2a_bench.assessor import result
from pytest_a2a_bench.assessor.assessment import Assessment, AssessmentFailed, Stopped
from pytest_a2a_bench.assessor.request import BadRequest, Request, parse, url_problem
from pytest_a2a_bench.assessor.terms import BUILTIN, Plan, known_domains, plan
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.registry import Suite
from pytest_a2a_bench.config.settings import BUILTIN_PREFIX, Settings
from pytest_a2a_bench.conformance.catalogue import load_requirements
from pytest_a2a_bench.conformance.report import judge
from pytest_a2a_bench.conformance.subject import look_at
from pytest_a2a_bench.errors import ConfigurationError, InfrastructureError
from pytest_a2a_bench.model import Part
from pytest_a2a_bench.redact import KNOWN, dump_json
from pytest_a2a_bench.results import assessments as records
from pytest_a2a_bench.results import lock
from pytest_a2a_bench.results.assessments import Record, State
from pytest_a2a_bench.results.lock import InUseError, Lock
from pytest_a2a_bench.results.store import Store, StoreError, save
from pytest_a2a_bench.text import one_line, refusing, sanitise

log = logging.getLogger(__name__)

OWNER = "the ADK agent"
_STOP_SECONDS = 10.0
"""Seconds that evaluations may take to stop."""

RESULTS = "results.json"
"""The file of an evaluation's numbers."""

CALLER: ContextVar[str] = ContextVar("a2a_adk_caller", default="")
"""The caller, where each sees its own evaluations only (:attr:`Runs.by_caller`)."""


class Look(NamedTuple):
    """The state of an evaluation.

    :param progress: in words; empty where it is not known.
    """

    record: Record
    directory: Path
    task_count: int
    progress: str = ""

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.record.state not in records.UNFINISHED

    @property
    def about(self) -> dict[str, Any]:
        """The members of every answer about it: ``results_path`` is a file once it is completed."""
        domain = self.record.request.get("domain") or self.record.request.get("evaluation") or ""
        path = str(self.directory / RESULTS)
        return {"run_id": self.record.name, "status": self.record.state, "domain": domain, "results_path": path}


@dataclass
class _Live:
    """An evaluation of this process."""

    record: Record
    assessment: Assessment
    claim: Lock
    canceled: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)


class Runs:
    """All evaluations under one results directory. Thread-safe.

    :param environ: environment with the credentials.
    :ivar by_caller: whether each caller sees its own evaluations only; else every caller is the operator, and sees all.
    """

    def __init__(self, options: AdkOptions, environ: Mapping[str, str] = os.environ) -> None:
        self.options = options
        self.terms = options.terms()
        self.environ = environ
        self.by_caller = False
        self._kept = records.Kept(self.terms.results)
        self._live: dict[str, _Live] = {}
        self._guard = threading.Lock()
        self._slots = threading.Semaphore(self.terms.at_once)
        self._is_closing = False
        self._forget = KNOWN.remember(secrets_of(options.credentials, environ))
        atexit.register(self.close)

    def start(
        self, domain: str, endpoint: str, task_ids: list[str] | str | None = None, credential: str = "", **config: Any
    ) -> Look:
        """Start an evaluation, and return its state.

        :param credential: name of the credential for the agent; empty for the one of its origin, if there is one.
        :param config: further members of an assessor's request, such as ``max_steps`` and ``num_trials``.
        :raises ConfigurationError: naming everything that is wrong with the request.
        """
        problems: list[str] = []
        name = ""
        try:
            name = choose_credential(credential, endpoint, self.options.credentials, self.environ) or ""
        except ConfigurationError as error:
            problems.append(str(error))
        # A model may write a text where a list is asked for, which would be one of letters.
        if isinstance(task_ids, str):
            task_ids = [one.strip() for one in task_ids.split(",") if one.strip()]
        asked = {**_config(domain, list(task_ids or ()), config), "agent_token": name or None}
        if domain != "conformance":
            # The dialect of a pytest run; the form of the request would choose AgentBeats' own.
            asked.setdefault("dialect", "auto")
            # A built-in agent plays golds, for which it must know the task.
            asked["tag_trials"] = self.options.tag_trials or endpoint.startswith(BUILTIN_PREFIX)
        try:
            request = parse([Part.of_data({"participants": {"agent": endpoint}, "config": asked})], known_domains())
            planned = plan(request, self.terms, self.environ)
        except BadRequest as error:
            raise ConfigurationError("; ".join([*problems, *error.problems])) from None
        if problems:
            raise ConfigurationError("; ".join(problems))
        run_id = uuid.uuid4().hex[:12]
        stored = {**request.to_json(), "task_count": len({key.task_id for key in planned.keys})}
        record = Record(run_id, self._caller(), {}, stored, submitted=time.time())
        with contextlib.suppress(OSError):
            self.terms.results.mkdir(parents=True, exist_ok=True, mode=0o700)
        directory = self.terms.directory(run_id)
        claim = lock.take(directory, OWNER)
        record.write(directory)
        self._begin(record, planned, claim)
        return self.look(run_id)

    def look(self, run_id: str) -> Look:
        """Return the state of an evaluation; raises ConfigurationError if there is none of this name."""
        live = self._live.get(run_id)
        record = self._read(run_id)
        directory = self.terms.directory(run_id)
        # The number of a protocol's checks is known once the agent's card was read.
        count = int(record.request.get("task_count") or record.max_score or 0)
        if live is not None:
            progress = live.assessment.progress
            return Look(record, directory, count or progress.total, progress.text)
        done = sum(1 for _ in Store(directory).trials.glob("*.json"))
        return Look(record, directory, count, f"{done} trials done" if not record.summary else "")

    def results(self, run_id: str) -> dict[str, Any]:
        """Return the content of the ``results.json`` of an evaluation.

        :raises ConfigurationError: if it has no result, with advice.
        """
        look = self.look(run_id)
        record = look.record
        if not look.is_over:
            raise ConfigurationError(
                f"the evaluation {run_id} is {record.state}; ask get_evaluation_status until it is completed"
            )
        if record.state != "completed":
            how = "failed" if record.state == "failed" else "was canceled"
            raise ConfigurationError(f"the evaluation {run_id} has no results, it {how}: {record.summary}")
        path = look.directory / RESULTS
        with refusing(f"{path} cannot be read", "evaluate the agent again", errors=(OSError, ValueError)):
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found

    def wait(self, run_id: str, seconds: float) -> Look:
        """Return the state of an evaluation once it is over, or so many seconds later."""
        live = self._live.get(run_id)
        if live is not None:
            live.over.wait(seconds)
        return self.look(run_id)

    def cancel(self, run_id: str) -> Look:
        """End an evaluation: conversations in flight are aborted, finished trials stay.

        :raises ConfigurationError: if there is none of this name, or another process runs it.
        """
        look = self.look(run_id)
        live = self._live.get(run_id)
        if live is not None:
            live.canceled.set()
            live.assessment.stop()
            live.over.wait(_STOP_SECONDS)
        elif not look.is_over:
            try:
                with lock.locked(look.directory, OWNER):
                    record = records.read(look.directory)  # it may have ended since
                    if record.state in records.UNFINISHED:
                        record.concluded("canceled", "canceled by its caller").write(look.directory)
            except InUseError as error:
                raise ConfigurationError(f"another process runs the evaluation {run_id}; cancel it there") from error
        return self.look(run_id)

    def take_up(self) -> list[str]:
        """Resume the evaluations that the end of a process interrupted, and return their names."""
        taken = []
        unfinished = [record for record in self._kept.all() if record.state in records.UNFINISHED]
        for record in reversed(unfinished):  # the oldest first
            with self._guard:
                if self._is_closing or record.name in self._live:
                    continue
            directory = self.terms.directory(record.name)
            try:
                claim = lock.take(directory, OWNER)
            except StoreError:
                continue  # another process runs it
            try:
                if records.read(directory).state not in records.UNFINISHED:  # it has ended since
                    claim.release()
                    continue
                request = Request.from_json({k: v for k, v in record.request.items() if k != "task_count"})
                self._begin(record, plan(request, self.terms, self.environ), claim)
                taken.append(record.name)
            except (BadRequest, TypeError, KeyError, StoreError, OSError) as error:
                record.concluded("failed", f"it cannot be taken up again: {error}").write(directory)
                claim.release()
        return taken

    def names(self) -> Iterator[str]:
        """Yield the names of the caller's evaluations, the newest first."""
        caller = self._caller()
        yield from (record.name for record in self._kept.all() if caller in ("", record.caller))

    def close(self) -> None:
        """Stop everything; the next process resumes it. Safe to call again."""
        with self._guard:
            self._is_closing = True
            live = list(self._live.values())
        for one in live:
            one.assessment.stop()
        deadline = time.monotonic() + _STOP_SECONDS
        for one in live:
            one.over.wait(max(0.0, deadline - time.monotonic()))
        self._forget()
        atexit.unregister(self.close)

    # -- one evaluation --

    def _caller(self) -> str:
        """Return the caller; empty for the operator, who sees every evaluation.

        :raises ConfigurationError: if callers see their own evaluations only, and the caller is not known.
        """
        if not self.by_caller:
            return ""
        if not CALLER.get():
            raise ConfigurationError("the caller is not known, and evaluations are shown to their callers only")
        return CALLER.get()

    def _begin(self, record: Record, planned: Plan, claim: Lock) -> None:
        live = _Live(record, Assessment(record.name, planned, self.terms, self.environ), claim)
        with self._guard:
            self._live[record.name] = live
        threading.Thread(target=self._run, args=(live,), name=f"evaluation-{record.name[:8]}", daemon=True).start()

    def _run(self, live: _Live) -> None:
        """Wait for a slot, run, and store the end; in a thread of its own."""
        try:
            self._store(live, live.record)
            while not (self._is_closing or live.canceled.is_set()):
                if self._slots.acquire(timeout=0.05):
                    try:
                        self._store(live, dataclasses.replace(live.record, state="running"))
                        self._assess(live)
                    finally:
                        self._slots.release()
                    break
            if live.canceled.is_set() and live.record.state in records.UNFINISHED:
                self._end(live, "canceled", "canceled by its caller")
        except Exception as error:
            log.exception("evaluation broke")
            with contextlib.suppress(StoreError, OSError):
                self._end(live, "failed", f"the harness itself broke ({type(error).__name__}); its log says where")
        finally:
            live.claim.release()
            with self._guard:
                self._live.pop(live.record.name, None)
            live.over.set()

    def _assess(self, live: _Live) -> None:
        try:
            found = live.assessment.run()
        except AssessmentFailed as error:
            self._end(live, "failed", str(error))
        except Stopped:
            pass  # canceled, or to be resumed later
        else:
            data = result.data(found)
            record = live.record.concluded("completed", KNOWN.hide(result.summary(found)), data)
            about = Look(record, self.terms.directory(record.name), 0).about
            document = {**about, "summary": record.summary, **numbers_of(data)}
            save(self.terms.directory(record.name) / RESULTS, dump_json(KNOWN.hide_in(document)))
            self._store(live, dataclasses.replace(record, result=KNOWN.hide_in(dict(record.result))))

    def _end(self, live: _Live, state: State, summary: str) -> None:
        self._store(live, live.record.concluded(state, KNOWN.hide(summary)))

    def _store(self, live: _Live, record: Record) -> None:
        live.record = record
        record.write(self.terms.directory(record.name))

    def _read(self, run_id: str) -> Record:
        if records.is_name(run_id):
            with contextlib.suppress(FileNotFoundError):
                found = records.read(self.terms.directory(run_id))
                # To other callers it does not exist.
                if self._caller() in ("", found.caller):
                    return found
        known = [name for name, _ in zip(self.names(), range(5), strict=False)]
        there = f"the newest are {', '.join(known)}" if known else "there are none yet: call run_evaluation"
        raise ConfigurationError(f"there is no evaluation {run_id[:80]!r}; {there}")


def _config(domain: str, task_ids: list[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return an assessor's configuration, without members that the benchmark does not have."""
    of_tau2 = known_domains().get(domain) == "tau2"
    foreign = {"num_trials"} if domain == "conformance" else set()
    foreign |= set() if of_tau2 else {"max_steps", "split"}
    config = {name: value for name, value in given.items() if name not in foreign}
    if of_tau2 and task_ids and not config.get("split"):
        config["split"] = _split_of(domain, task_ids)
    return {"domain": domain, "task_ids": task_ids or None, **config}


def _split_of(domain: str, task_ids: list[str]) -> str | None:
    """Return the first split that has all of some tasks; None for the default one, whose error names missing tasks."""
    suite = registry.load("tau2")
    if domain not in suite.available():
        return None
    for split in sorted(suite.splits(domain), key=lambda name: name != "base"):
        if set(task_ids) <= {task.task_id for task in suite.load_tasks(domain, split)}:
            return split
    return None


_OMITTED = ("assessment", "task_rewards", "usage", "time_used", "domain")
"""Members of the assessor's result that are given in another form, or say nothing about the agent."""


def numbers_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of an assessor's result, with its ``results`` but without their conversations."""
    entries = [{name: value for name, value in one.items() if name != "trajectory"} for one in found["results"]]
    return {**{name: value for name, value in found.items() if name not in _OMITTED}, "results": entries}


PROTOCOL = "conformance"
_LONGEST = 300
_TOKEN_ADVICE = "name a credential of the operator's that is for this agent as auth_token"
_VERSION = "1.0"


class Tools:
    """The tools over the evaluations of one results directory."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs

    async def register_agent(self, endpoint: str, auth_token: str = "") -> dict[str, Any]:
        """Look at the A2A agent that is to be evaluated, and judge its agent card.

        Args:
            endpoint: URL of the agent, or builtin:NAME for one of ours (oracle, noop, readonly).
            auth_token: NAME of the credential that the operator set up for this agent, never a token. Usually empty.

        Returns:
            endpoint, name and capabilities as the card has them, and validated: whether the card keeps the protocol.
            If it does not, error names the rules that it breaks; it can be evaluated nevertheless.
        """
        return await asyncio.to_thread(self._register, endpoint, auth_token)

    async def list_tasks(self, domain: str, split: str = "base") -> list[dict[str, str]]:
        """List the tasks of a domain.

        Args:
            domain: airline, retail, telecom or mock (tau2-bench), mini or mini_interactive (CRMArena), or conformance,
                whose entries are the requirements of the A2A protocol.
            split: of tau2's tasks: base, train, test, small or full.

        Returns:
            id, description and domain of each task.
        """
        with self.runs.terms.door.errors():
            return await asyncio.to_thread(self._list, domain, split)

    async def run_evaluation(
        self,
        domain: str,
        a2a_endpoint: str,
        task_ids: list[str] | None = None,
        auth_token: str = "",
        max_steps: int = 30,
        trials: int = 1,
    ) -> dict[str, str]:
        """Begin an evaluation in the background; it goes on when this conversation ends.

        Args:
            domain: as list_tasks takes it.
            a2a_endpoint: URL of the agent, or builtin:NAME.
            task_ids: ids of list_tasks; empty for every task of the base split. Empty for conformance.
            auth_token: NAME of the credential that the operator set up for this agent, never a token. Usually empty.
            max_steps: most steps of one tau2 conversation.
            trials: attempts at each task; with several the results have pass^k. 1 for conformance.

        Returns:
            run_id, status (waiting or running) and results_path, the file of its results once it is completed. Ask
            get_evaluation_status for its end.
        """
        config = {"max_steps": max_steps, "num_trials": trials}
        look = await asyncio.to_thread(self.runs.start, domain, a2a_endpoint, task_ids, auth_token, **config)
        return {name: look.about[name] for name in ("run_id", "status", "results_path")}

    async def get_evaluation_status(self, run_id: str) -> dict[str, Any]:
        """Describe how far an evaluation is; waits a few seconds for its end.

        Args:
            run_id: as run_evaluation returned it.

        Returns:
            run_id, status (waiting, running, completed, failed or canceled), domain, task_count, results_path, error
            (why it failed) and progress in words.
        """
        return _status(await asyncio.to_thread(self.runs.wait, run_id, self.runs.options.wait))

    async def get_evaluation_results(self, run_id: str) -> dict[str, Any]:
        """Return the numbers of an evaluation that is completed.

        Args:
            run_id: as run_evaluation returned it.

        Returns:
            run_id, status, domain, results_path, a summary, score, max_score, pass_rate with its interval, metrics,
            errors, and the outcome of each task.
        """
        return await asyncio.to_thread(self.runs.results, run_id)

    async def cancel_evaluation(self, run_id: str) -> dict[str, Any]:
        """End an evaluation that is not over. Finished trials stay in its results.

        Args:
            run_id: as run_evaluation returned it.

        Returns:
            The same as get_evaluation_status.
        """
        return _status(await asyncio.to_thread(self.runs.cancel, run_id))

    # -- in a thread --

    def _register(self, endpoint: str, name: str) -> dict[str, Any]:
        if endpoint.startswith(BUILTIN_PREFIX):
            return _builtin(endpoint)
        if problem := url_problem(endpoint):
            raise ConfigurationError(problem)
        runs = self.runs
        chosen = choose_credential(name, endpoint, runs.options.credentials, runs.environ)
        settings = Settings(endpoint=endpoint, auth_env=chosen, timeout=min(runs.terms.settings.timeout, 30.0))
        # Tokens of pytest's settings are not sent.
        environ = {key: value for key, value in runs.environ.items() if key == chosen}
        config = ClientConfig.from_settings(settings, environ)
        network = dataclasses.replace(config.network, guard=runs.terms.guard)
        config = dataclasses.replace(config, network=network, token_advice=_TOKEN_ADVICE)
        subject = look_at(config, timeout=10.0)
        if subject.problem:
            raise InfrastructureError(f"{endpoint}: {subject.explained}")
        card = subject.card
        broken = [one.id for one in judge(subject.card_results()) if one.status == "failed"]
        found: dict[str, Any] = {
            "endpoint": endpoint,
            "name": one_line(str(card.get("name") or ""), 100),
            "capabilities": {k: v for k, v in (card.get("capabilities") or {}).items() if isinstance(v, bool)},
            "validated": not broken,
        }
        if broken:
            found["error"] = (
                f"the card breaks {', '.join(broken)}; a2a-bench check --card {endpoint} explains them, and "
                "run_evaluation works nevertheless if the agent can be spoken to"
            )
        return found

    def _list(self, domain: str, split: str) -> list[dict[str, str]]:
        if domain == PROTOCOL:
            return [_task(one.id, one.text, PROTOCOL) for one in load_requirements(_VERSION)]
        suite = self._suite(domain)
        splits = suite.splits(domain)
        # The default split is also that of a benchmark without splits.
        if split not in splits and split != "base":
            raise ConfigurationError(f"{domain} has no split {split!r}; it has {', '.join(splits)}")
        tasks = suite.load_tasks(domain, split if split in splits else splits[0])
        described = suite.describe(domain)
        return [_task(task.task_id, described.get(task.task_id, ""), domain) for task in tasks]

    def _suite(self, domain: str) -> Suite:
        domains = known_domains()
        if domain not in domains:
            raise ConfigurationError(f"there is no domain {domain[:80]!r}; there are {', '.join((*domains, PROTOCOL))}")
        options = {option.name: option.default for suite in registry.known() for option in suite.options}
        options |= self.runs.terms.settings.benchmark_options
        suite = registry.load(domains[domain], Settings(benchmark_options=options))
        if domain not in suite.available():
            raise ConfigurationError(f"the domain {domain} {suite.absence(domain)}")
        return suite


def _status(look: Look) -> dict[str, Any]:
    record = look.record
    failed = record.state == "failed"
    return {
        **look.about,
        "task_count": look.task_count,
        "error": record.summary if failed else None,
        "progress": look.progress or (record.summary.split("\n")[0] if look.is_over and not failed else ""),
    }


def _task(task_id: str, description: str, domain: str) -> dict[str, str]:
    return {"id": task_id, "description": one_line(sanitise(description), _LONGEST), "domain": domain}


def _builtin(endpoint: str) -> dict[str, Any]:
    name = endpoint.removeprefix(BUILTIN_PREFIX)
    if name not in BUILTIN:
        raise ConfigurationError(
            f"{endpoint} is not offered; there are {', '.join(BUILTIN_PREFIX + n for n in BUILTIN)}"
        )
    capabilities: Mapping[str, bool] = {"streaming": True}
    return {"endpoint": endpoint, "name": f"built-in {name}", "capabilities": dict(capabilities), "validated": True}
