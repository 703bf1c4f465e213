"""The files of gates: baseline and quarantine are read before the run, ``verdict.json`` is written at its end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.config.values import split_named
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.model.messages import Count, Finite, KeyText, Seconds, json_object
from pytest_a2a_bench.redact import dump_json
from pytest_a2a_bench.results.baseline import Baseline, difference, load
from pytest_a2a_bench.results.compare import GateVerdict
from pytest_a2a_bench.results.gates.terms import (
    DECIDED_ERROR,
    QUARANTINE_FILE,
    GateResult,
    Inconclusive,
    Quarantined,
    Trials,
    Verdict,
)
from pytest_a2a_bench.results.remote import located
from pytest_a2a_bench.results.stats import is_blameless
from pytest_a2a_bench.results.store import StoredForm, write_atomically

VERDICT_FILE = "verdict.json"
EARLIER_FILE = "verdict.earlier.json"
"""The verdict of the last run that ended, while another one is run in its directory, or after that was killed."""

NEW_BASELINE = "make a new baseline: a2a-bench gate RESULTS-DIR --write-baseline FILE"
ALIKE = f"run with the settings of the baseline, or {NEW_BASELINE}"

_UNASKED = ("none", "rules")
"""Users and judges that some tasks have, whatever the options say."""


@dataclass(frozen=True, slots=True)
class Missed:
    """A trial that did not succeed in the last run.

    :param nodeid: the item that reported it.
    :param transcript: its file, seen from the directory of results.
    """

    key: KeyText
    nodeid: str
    reward: Finite = 0.0
    transcript: str | None = None


@dataclass(frozen=True, slots=True)
class Example:
    """One trial that shows a reason.

    :param turn: which message of its transcript, counted from 0.
    """

    key: KeyText
    turn: Count | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why trials with one cause did not pass; found without a model.

    :param subject: the tool or object that it is about.
    :param blame: ``agent``, ``user``, ``benchmark``, ``infrastructure``, ``harness`` or ``unproven``.
    :param doubted: in how many of them the task is known to have defects.
    """

    suite: str
    kind: str
    subject: str
    blame: Literal["agent", "user", "benchmark", "infrastructure", "harness", "unproven"]
    words: str
    fix: str
    trials: tuple[KeyText, ...]
    doubted: Count
    example: Example


@dataclass(frozen=True, slots=True)
class StoredGate(GateResult):
    """The verdict of one gate, and whether it made the run fail."""

    failed: bool = False


@dataclass(frozen=True, slots=True)
class JudgedAgent:
    """Whom a verdict is about; empty where it is not known."""

    endpoint: str = ""
    name: str = ""
    interface: str = ""


@dataclass(frozen=True, slots=True)
class ComparedAgent(JudgedAgent):
    """One of several agents, with the numbers of its own trials.

    :param id: its name in options and keys; ``role`` is ``under test`` or ``transfer``.
    :param turns: how often it answered; ``latency_p50`` and ``latency_p95`` are seconds of these answers.
    :param errors: trials that could not be evaluated through its doing or trouble, or (where it is under test) at all.
    """

    id: str = ""
    role: str = "under test"
    trials: Count = 0
    succeeded: Count = 0
    errors: Count = 0
    turns: Count = 0
    requests: Count = 0
    request_errors: Count = 0
    latency_p50: Seconds | None = None
    latency_p95: Seconds | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cost_usd: Finite | None = None


@dataclass(frozen=True, slots=True)
class JudgedTrials:
    """The numbers of trials that a verdict was made from.

    :param errors: how many could not be evaluated; ``not_run`` are among them.
    :param decided: how many did not run, because every gate was decided; ``skipped`` has them, too.
    :param user_faults: in how many the simulated user was at fault; they are counted among the others all the same.
    :param user_retries: how many were run again because it was.
    :param blameless: trials without a proven fault of the user, errors among them; ``blameless_succeeded`` of these.
    """

    reported: Count = 0
    succeeded: Count = 0
    missed: Count = 0
    skipped: Count = 0
    errors: Count = 0
    not_run: Count = 0
    decided: Count = 0
    user_faults: Count = 0
    user_retries: Count = 0
    blameless: Count = 0
    blameless_succeeded: Count = 0
    cut_short: bool = False


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    """The members of ``verdict.json``.

    :param inconclusive: the effect of an inconclusive gate (``--a2a-inconclusive``).
    :param errors: trials that could not be evaluated.
    :param notes: gates that were not judged, and why.
    :param comparison: with the baseline, task by task.
    :param agents: the agents, where they have names.
    :param comparisons: each further one of them against the first.
    :param missed: trials that did not succeed, and those of earlier runs that ``--a2a-missed`` has not run again.
    :param shard: the part that the run did; None for a whole.
    :param reasons: why trials did not pass, the most frequent reason first.
    """

    run_id: str
    verdict: GateVerdict
    failed: bool
    gates: tuple[StoredGate, ...]
    missed: tuple[Missed, ...]
    inconclusive: Inconclusive = "signs"
    errors: Count = 0
    notes: tuple[str, ...] = ()
    comparison: Mapping[str, Any] | None = None
    agent: JudgedAgent = JudgedAgent()
    trials: JudgedTrials = JudgedTrials()
    quarantined: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()
    agents: tuple[ComparedAgent, ...] = ()
    comparisons: tuple[Mapping[str, Any], ...] = ()
    shard: str | None = None

    @classmethod
    def of(
        cls,
        verdict: Verdict,
        run_id: str,
        trials: Trials,
        missed: Iterable[TrialResult] = (),
        nodeids: Mapping[str, str] = MappingProxyType({}),
    ) -> StoredVerdict:
        """Return the file's content, but for the agents and the reasons.

        :param nodeids: the item of each trial, by key.
        """
        found, results = list(missed), trials.results
        return cls(
            run_id,
            verdict.outcome,
            verdict.failed or bool(verdict.errors),
            gates=tuple(
                StoredGate(
                    **{f.name: getattr(g, f.name) for f in fields(g)} | {"word": g.shown, "failed": verdict.fails(g)}
                )
                for g in verdict.gates
            ),
            missed=tuple(Missed(str(r.key), nodeids.get(str(r.key), ""), r.reward, _transcript(r)) for r in found),
            inconclusive=verdict.inconclusive,
            errors=verdict.errors,
            notes=verdict.notes,
            comparison=verdict.comparison.to_json() if verdict.comparison else None,
            trials=JudgedTrials(
                reported=len(results),
                succeeded=sum(r.success for r in results),
                missed=len(found),
                skipped=sum(r.status == "skipped" for r in results),
                errors=trials.errors,
                not_run=trials.not_run,
                decided=sum(r.error_type == DECIDED_ERROR for r in results),
                user_faults=sum(r.user_fault is not None for r in results),
                user_retries=sum(bool(r.user_retries) for r in results),
                blameless=sum(is_blameless(r) and r.status != "skipped" for r in results),
                blameless_succeeded=sum(is_blameless(r) and r.success for r in results),
                cut_short=trials.cut_short,
            ),
            quarantined=tuple(sorted(trials.quarantined)),
            comparisons=tuple(each.to_json() for each in verdict.agents),
        )


VERDICT = StoredForm(
    StoredVerdict,
    " cannot be read as a verdict",
    "remove it, and let a run with its gates write it again",
    ConfigurationError,
    schema="a2a-bench/verdict",
)


@dataclass(frozen=True, slots=True)
class GateFiles:
    """The contents of the files.

    :param missed: the last run's misses; None unless only these are to run.
    :param missed_shard: the part that it did.
    :param problems: one line for each file that cannot be used.
    """

    baseline: Baseline | None = None
    quarantine: tuple[Quarantined, ...] = ()
    missed: tuple[Missed, ...] | None = None
    missed_shard: str | None = None
    problems: tuple[str, ...] = ()


def read(settings: Settings, directory: Path, results: Path, *, has_run: bool = False) -> GateFiles:
    """Read the files that the options name. The baseline may be the results directory itself: it is read before.

    :param directory: the directory that relative names start from.
    :param has_run: whether the results are there: they say how they were measured, and the settings need not.
    """
    # All problems together, so that one run shows them all.
    problems: list[str] = []
    baseline: Baseline | None = None
    quarantined: tuple[Quarantined, ...] = ()
    missed: tuple[Missed, ...] | None = None
    shard: str | None = None
    if settings.baseline:
        name, place = split_named(settings.baseline) if settings.agents else (None, settings.baseline)
        try:
            baseline = load(directory / located(place))
            problems += [] if has_run else _contradictions(settings, baseline)
            problems += [f"--a2a-baseline: {text}" for text in _whose(settings, name, baseline)]
        except ConfigurationError as error:
            problems.append(f"--a2a-baseline: {error}")
    if settings.quarantine:
        try:
            quarantined = QUARANTINE_FILE.read(directory / settings.quarantine)
        except ConfigurationError as error:
            problems.append(f"--a2a-quarantine: {error}")
    if settings.missed:
        try:
            last = read_verdict(results)
            missed, shard = last.missed, last.shard
        except ConfigurationError as error:
            problems.append(f"--a2a-missed: {error}")
    return GateFiles(baseline, quarantined, missed, shard, tuple(problems))


def baselines_of(settings: Settings, baseline: Baseline | None) -> dict[str, Baseline]:
    """Return the baseline of each agent under test, with tasks named as that agent's trials are."""
    if baseline is None:
        return {}
    name, _ = split_named(settings.baseline or "")
    there = [n for n in settings.under_test if n is not None]
    chosen = [name] if name else [n for n in there if n in baseline.agents] or there[:1]
    return {n: baseline.only(n).named(n) for n in chosen}


def _whose(settings: Settings, name: str | None, baseline: Baseline) -> Iterator[str]:
    """Describe why a baseline cannot be compared with one of several agents."""
    there = [n for n in settings.under_test if n is not None]
    known = ", ".join(baseline.agents)
    if not there:
        if baseline.agents:
            yield f"{baseline.source} is of agents with names ({known}): a2a-bench gate --write-baseline --agent NAME"
    elif baseline.agents and (name or "") not in (*baseline.agents, ""):
        yield f"{baseline.source} is of {known}, and not of {name}"
    elif baseline.agents and name is None and not set(there) & set(baseline.agents):
        yield f"{baseline.source} is of {known}, and the agents under test are {', '.join(there)}"
    elif not baseline.agents and name is None and len(there) > 1:
        yield f"{baseline.source} does not say which agent it is of: write --a2a-baseline {there[0]}=FILE"


def read_verdict(results: Path) -> StoredVerdict:
    """Return the verdict of the last run that ended.

    :raises ConfigurationError: if no run left its verdict, or it is damaged.
    """
    for name in (VERDICT_FILE, EARLIER_FILE):
        with contextlib.suppress(FileNotFoundError):
            return VERDICT.read(results / name)
    path = results / VERDICT_FILE
    raise ConfigurationError(
        f"{path} is not there: no run has ended in this results directory; run without --a2a-missed first"
    )


def set_aside(results: Path, run_id: str) -> None:
    """Rename the verdict of an earlier run: one that is killed would leave it behind as its own.

    :param run_id: the run that begins; its own verdict stays, however late a process of it begins.
    :raises OSError: if it cannot be renamed.
    """
    path = results / VERDICT_FILE
    with contextlib.suppress(FileNotFoundError):
        if json_object(path.read_bytes()).get("run_id") != run_id:
            path.replace(results / EARLIER_FILE)


def _transcript(result: TrialResult) -> str | None:
    """Return a trial's file as seen from the verdict's: directories of results are moved, joined and uploaded."""
    return "/".join(Path(result.path).parts[-2:]) if result.path else None


def write_verdict(results: Path, verdict: StoredVerdict) -> Path:
    """Write the verdict of a run; raises OSError if it cannot be written."""
    path = results / VERDICT_FILE
    write_atomically(path, dump_json(VERDICT.to_json(verdict)) + "\n")
    (results / EARLIER_FILE).unlink(missing_ok=True)
    return path


def _contradictions(settings: Settings, baseline: Baseline) -> list[str]:
    """Return the reasons why a comparison is impossible, before anything has run."""
    now = {
        "user": settings.user_kind,
        "user_llm": settings.user_llm if settings.user_kind == "llm" else None,
        "judge": settings.judge_llm,
        "dialect": None if settings.dialect == "auto" else settings.dialect,
        # Of several agents some may be tagged by themselves.
        "tagged": None if settings.tag_trials or settings.agents else "off",
    }
    wrong = {
        difference(domain, name, old, (value,)): domain
        for domain, names in sorted(baseline.measured.items())
        for name, value in now.items()
        if value is not None and (old := names.get(name)) and value not in old and set(old).isdisjoint(_UNASKED)
    }
    # One comparable domain is enough to go on.
    # A domain that can be compared may be the only one that is run; the others are compared when there are results.
    if not wrong or set(wrong.values()) != set(baseline.measured):
        return []
    return [f"--a2a-baseline: not comparable with {baseline.source}: {'; '.join(wrong)}; {ALIKE}"]
