"""Thresholds, the trials that gates judge, their verdicts, and which failed trials a gate excuses. Pure.

A trial is *missed* that was evaluated, did not succeed, and whose own test neither passes nor expects that. A miss that
a gate counts, or that is quarantined, is excused: its item does not fail.
"""

from __future__ import annotations

import datetime
import fnmatch
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from pytest_a2a_bench.config.rates import Tier, split_tier
from pytest_a2a_bench.config.settings import NOISY, Settings
from pytest_a2a_bench.errors import ConfigurationError, RunTimeoutError, TrialCancelledError
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.model.messages import Limits
from pytest_a2a_bench.results.compare import NO_SIGN, AgentComparison, Comparison, GateVerdict
from pytest_a2a_bench.results.inference import LEVEL
from pytest_a2a_bench.results.stats import is_blameless, task_name
from pytest_a2a_bench.results.store import adapter_of, described
from pytest_a2a_bench.text import one_line, refusing

EVERY_TRIAL = "every_trial"
"""The gate of trials that no other counts. It is no test case of its own: their items pass or fail by themselves."""

BREAKER = "breaker"
"""The gate of a run that was stopped before all of its trials had begun. Nothing lets it pass."""

MISSING = "missing"
"""The gate of stored results that lack trials of their run. Nothing lets it pass either."""

ERRORS = "errors"
"""The gate of errors that no report shows."""

QUARANTINE = "quarantine"
"""The gate of a run of which every trial that ran is quarantined, where no other gate says that nothing was judged."""

ITEMS = "items"
"""The gate of items that ended in an error although their trials were evaluated. The items say so themselves."""

PREFIX = "missed"
"""How the reason begins with which an excused miss is reported."""

NOTHING_MISSED = "the last run missed nothing, so --a2a-missed runs nothing"

Inconclusive = Literal["pass", "fail", "signs"]

STOPPED = (TrialCancelledError.__name__, RunTimeoutError.__name__)
"""The error types of trials that were in flight when the run was stopped, by Ctrl-C or by its own limit."""

DECIDED_ERROR = "Decided"
"""The error type of a skipped trial that did not run, because every gate was decided."""

BLAMELESS = "@blameless"
"""Behind the name of a group: its trials without a proven fault of the simulated user."""

DEFAULT_DROP = 0.05
"""How much lower than the baseline a success rate may be by default."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds that a run must reach.

    :param min_pass: lowest success rate by group: a suite, domain, ``suite/domain`` or category; "" is all trials.
    :param min_pass_k: lowest pass^k by k.
    :param max_drop: how much lower than the baseline the success rate may be.
    :param tiers: by the name of a gate (``min_pass[airline]``), where it is not supporting.
    :param inconclusive: whether an inconclusive gate lets the run ``pass`` or makes it ``fail``; with ``signs`` a
        comparison without any sign of a drop lets it pass, and everything else makes it fail.
    :param max_cost: dollars of all trials together.
    :param max_latency: seconds of the agent's turns by percentile.
    :param max_metric: highest mean of a reward's number by its name (``leak``).
    :param max_infra_errors: how many trials the infrastructure may fail; as a float a share of all trials.
    :param max_user_faults: in how many the simulated user's fault may be proven, likewise.
    :param max_noise_loss: how much lower the success rate may be with noise.
    """

    min_pass: Mapping[str, float] = field(default_factory=dict)
    min_pass_k: Mapping[int, float] = field(default_factory=dict)
    max_drop: float = DEFAULT_DROP
    tiers: Mapping[str, Tier] = field(default_factory=dict)
    inconclusive: Inconclusive = "signs"
    max_cost: float | None = None
    max_latency: Mapping[float, float] = field(default_factory=dict)
    max_metric: Mapping[str, float] = field(default_factory=dict)
    max_infra_errors: int | float | None = None
    max_user_faults: int | float | None = None
    max_noise_loss: float | None = None

    @property
    def ask(self) -> bool:
        """Whether anything is asked of the run."""
        limits = (self.max_cost, self.max_infra_errors, self.max_user_faults, self.max_noise_loss)
        named = self.min_pass or self.min_pass_k or self.max_latency or self.max_metric
        return bool(named) or any(x is not None for x in limits)

    def tolerates(self, groups: Iterable[str], *, baseline: bool) -> bool:
        """Return whether a gate counts a trial's miss, so that it need not fail the run by itself.

        :param groups: the groups of the trial, from :func:`groups_of`.
        :param baseline: whether there is a baseline.
        """
        # A baseline and pass^k look at all trials, so that they count every miss.
        named = {group.removesuffix(BLAMELESS) for group in self.min_pass}
        return baseline or bool(self.min_pass_k) or "" in named or not set(groups).isdisjoint(named)


@dataclass(frozen=True, slots=True)
class GateResult:
    """The verdict of one gate.

    :param name: ``min_pass``, ``min_pass[airline]``, ``baseline``, ``max_latency[p95]``, ...
    :param numbers: the numbers that the verdict was made from, as JSON.
    :param sentence: the verdict in words.
    :param refused: whether the question itself has no answer, which nothing lets pass.
    :param settled: whether a failure stays one, whatever the outcome of trials that did not run.
    :param details: further lines beside the sentence; shown where the gate is a failed test case.
    :param word: the verdict as people say it: ``below the floor``, ``signs of a drop``, ``improved``.
    :param tier: how much it weighs.
    :param decided_after: after how many trials it was decided early (``--a2a-trials auto``); None where all ran.
    """

    name: str
    verdict: GateVerdict
    numbers: Mapping[str, Any]
    sentence: str
    refused: bool = False
    settled: bool = False
    details: tuple[str, ...] = ()
    word: str = ""
    tier: Tier = "supporting"
    decided_after: int | None = None

    @property
    def shown(self) -> str:
        """The verdict in the words of its gate."""
        return self.word or self.verdict

    @property
    def may_fail(self) -> bool:
        """Whether it asks for anything: a floor of 0 only lets misses be counted."""
        return self.verdict != "pass" or self.numbers.get("minimum") != 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of all gates together.

    :param errors: trials that could not be evaluated; with any of them no run passes.
    :param notes: gates that were not judged, and why.
    :param comparison: the baseline's, task by task.
    :param agents: each further agent of the run against the first.
    """

    gates: tuple[GateResult, ...] = ()
    inconclusive: Inconclusive = "signs"
    errors: int = 0
    notes: tuple[str, ...] = ()
    comparison: Comparison | None = None
    agents: tuple[AgentComparison, ...] = ()

    @property
    def outcome(self) -> GateVerdict:
        """The worst that any gate says."""
        # What only advises decides nothing.
        found = {gate.verdict for gate in self.gates if gate.tier != "advisory"}
        for worst in ("regressed", "failed"):
            if worst in found:
                return worst
        # An error may have been a miss or a success.
        return "inconclusive" if "inconclusive" in found or self.errors else "pass"

    def fails(self, gate: GateResult) -> bool:
        """Return whether a gate makes the run fail."""
        if gate.tier == "advisory":
            return False
        if gate.verdict == "inconclusive":
            # Refused: there was nothing to judge by, which the option about inconclusive gates does not excuse.
            if gate.refused or gate.tier == "critical" or self.inconclusive == "fail":
                return True
            return self.inconclusive == "signs" and gate.word != NO_SIGN
        return gate.verdict in ("failed", "regressed")

    @property
    def failed(self) -> bool:
        """Whether any gate makes the run fail."""
        return any(map(self.fails, self.gates))


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a gate before all of its trials had run.

    :param after: how many of its ``planned`` trials it took.
    """

    verdict: GateVerdict
    after: int
    planned: int

    def __str__(self) -> str:
        return f"decided after {self.after} of {self.planned} trials, wrong in at most 5 % of such runs"


@dataclass(frozen=True, slots=True)
class Trials:
    """The input of a run's gates.

    :param results: every trial that was reported.
    :param lost: trials that were reported without a result (a crashed worker).
    :param decided: early decisions, by the name of the gate.
    :param level: how often a comparison of all trials may be wrong; less often where gates could be decided before.
    :param not_run: how many were not run, because the breaker was open or the run's time was up; not in ``results``.
    :param stopped: the reason, and the remedy; empty where nothing stopped the run.
    :param absent: what to do about those without a stored result, where only the files are known.
    :param cut_short: whether the run stopped before its end.
    :param selected: how many trials the run was to have; 0 where that is not known.
    :param hidden: keys of trials that could not be evaluated, and whose items neither failed nor erred.
    :param unreported: node ids of trials that were to run and of which no report came; they are among ``lost``.
    :param named: whether only trials that were named explicitly ran, whose rate says nothing about the agent's.
    :param failed: keys of trials whose item failed; None where that is not known, and every miss is one.
    :param excused: keys of trials whose failed assertion was reported as a miss.
    :param erred: keys of evaluated trials whose item ended in an error all the same (its worker crashed, a fixture of
        the test failed): their rewards count, and no run with any of them passes.
    :param quarantined: names of quarantined tasks, as :func:`~pytest_a2a_bench.results.stats.task_name` has them.
    """

    results: Sequence[TrialResult]
    lost: int = 0
    cut_short: bool = False
    selected: int = 0
    hidden: tuple[str, ...] = ()
    unreported: tuple[str, ...] = ()
    named: bool = False
    failed: frozenset[str] | None = None
    excused: frozenset[str] = frozenset()
    erred: frozenset[str] = frozenset()
    quarantined: frozenset[str] = frozenset()
    decided: Mapping[str, Decision] = field(default_factory=dict)
    level: float = LEVEL
    not_run: int = 0
    stopped: str = ""
    absent: str = ""

    @property
    def is_partial(self) -> bool:
        """Whether trials are missing that were to run."""
        return self.cut_short or self.not_run > 0

    @property
    def counted(self) -> list[TrialResult]:
        """The trials that rates are made of."""
        # Skipped trials were never tried, and quarantined ones may be anything.
        return [r for r in self.results if r.status != "skipped" and task_name(r.key) not in self.quarantined]

    @property
    def nothing_ran(self) -> bool:
        """Whether every trial was skipped."""
        return not self.lost and all(r.status == "skipped" for r in self.results)

    def may_still_reach(self, rate: float, ok: int, total: int) -> bool:
        """Return whether a success rate may be reached if all trials that did not run succeed."""
        rest = self.selected - len(self.results) - self.lost
        return not self.selected or (ok + max(0, rest)) / (total + max(0, rest)) >= rate - 1e-12

    @property
    def errors(self) -> int:
        """How many trials could not be evaluated, or were not even run, quarantined or not."""
        return self.lost + self.not_run + sum(r.status not in ("evaluated", "skipped") for r in self.results)


def floor_name(group: str) -> str:
    """Return the name of the gate of a floor.

    :param group: whose floor it is; "" is all trials'.
    """
    return f"min_pass[{group}]" if group else "min_pass"


def pass_k_name(k: int) -> str:
    """Return the name of the gate of pass^k."""
    return f"min_pass_k[{k}]"


def metric_name(metric: str) -> str:
    """Return the name of the gate of a number that rewards have."""
    return f"max_metric[{metric}]"


def groups_of(suite: str, domain: str, category: str | None = None) -> tuple[str, ...]:
    """Return the names by which a floor may mean a trial."""
    every = (suite, domain, f"{suite}/{domain}", *((category, f"{suite}/{domain}/{category}") if category else ()))
    return tuple(dict.fromkeys((*every, BLAMELESS, *(f"{name}{BLAMELESS}" for name in every))))


def groups_of_result(result: TrialResult) -> tuple[str, ...]:
    """Return the names by which a floor may mean a finished trial."""
    category = result.category or result.provenance.get("category")
    every = groups_of(result.key.suite, result.key.domain, str(category) if category else None)
    return every if is_blameless(result) else tuple(name for name in every if not name.endswith(BLAMELESS))


# --- failed trials ----------------------------------------------------------------------------------------------------


def thresholds_of(settings: Settings) -> Thresholds:
    """Return the thresholds that the options set."""
    # Numbers by number: options keep them as text, which JSON has for keys.
    floors = {split_tier(name): rate for name, rate in settings.min_pass.items()}
    metrics = {split_tier(name): rate for name, rate in settings.max_metric.items()}
    return Thresholds(
        min_pass={group: rate for (group, _), rate in floors.items()},
        tiers={floor_name(group): tier for group, tier in floors}
        | {metric_name(metric): tier for metric, tier in metrics},
        min_pass_k={int(k): rate for k, rate in settings.min_pass_k.items()},
        max_drop=DEFAULT_DROP if settings.max_drop is None else settings.max_drop,
        inconclusive=settings.inconclusive,
        max_cost=settings.max_cost,
        max_latency={float(p): seconds for p, seconds in settings.max_latency.items()},
        max_metric={metric: rate for (metric, _), rate in metrics.items()},
        max_infra_errors=settings.max_infra_errors,
        max_user_faults=settings.max_user_faults,
        max_noise_loss=settings.max_noise_loss,
    )


def was_run(result: TrialResult) -> bool:
    """Return whether a trial came to an end, be it an error; others say nothing, as the run was stopped before."""
    return result.status != "not_run" and result.error_type not in STOPPED


def is_unsolved(result: TrialResult) -> bool:
    """Return whether a trial was evaluated and did not succeed."""
    return result.status == "evaluated" and not result.success


def find_missed(results: Iterable[TrialResult], accepted: Collection[str]) -> list[TrialResult]:
    """Return the missed trials.

    :param accepted: keys of trials whose own test passes or expects their outcome.
    """
    return [r for r in results if is_unsolved(r) and str(r.key) not in accepted]


def is_counted(result: TrialResult, settings: Settings) -> bool:
    """Return whether a gate counts a trial, so that its miss need not fail the run by itself."""
    if settings.is_noise_pair:
        return result.key.agent == NOISY or thresholds_of(settings).tolerates(groups_of_result(result), baseline=False)
    # Agents against each other are like a run against its baseline.
    compared = bool(settings.baseline) or len(settings.under_test) > 1
    return thresholds_of(settings).tolerates(groups_of_result(result), baseline=compared)


Entry = TypeVar("Entry")

Words = Annotated[str, Limits((("strip_whitespace", True), ("min_length", 1)))]
"""A text that is not blank."""

FORBID_OTHERS = {"extra": "forbid"}
"""The pydantic configuration of an entry: keys that it does not have are problems."""

# A file of another kind is wrong in every line.
_MOST_PROBLEMS = 20
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class EntriesFile(Generic[Entry]):
    """One kind of file.

    :param name: its name in messages: ``waivers``.
    :param table: the name of the array of tables: ``waiver``.
    :param entry: the dataclass of an entry.
    """

    name: str
    table: str
    entry: type[Entry]

    def read(self, path: Path, check: Callable[[list[Entry]], Iterable[str]] = lambda entries: ()) -> tuple[Entry, ...]:
        """Read a file; like :meth:`parse`.

        :raises ConfigurationError: also if the file cannot be read.
        """
        with refusing(f"{self.name} {path}: cannot be read"):
            text = path.read_text(encoding="utf-8")
        return self.parse(text, str(path), check)

    def parse(
        self, text: str, where: str, check: Callable[[list[Entry]], Iterable[str]] = lambda entries: ()
    ) -> tuple[Entry, ...]:
        """Read the text of a file.

        :param where: the file's name, for messages.
        :param check: returns further problems of the entries.
        :raises ConfigurationError: with everything that is wrong.
        """
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigurationError(f"{self.name} {where}: not TOML: {error}") from error
        # All problems at once, as such files are edited by hand.
        problems = [
            f"unknown key {one_line(key, _SHOWN)!r}; the file is made of [[{self.table}]] tables"
            for key in data
            if key != self.table
        ]
        tables = data.get(self.table, [])
        if not isinstance(tables, list):
            problems.append(f"{self.table} is not an array of tables; write [[{self.table}]]")
            tables = []
        entries: list[Entry] = []
        for number, table in enumerate(tables, 1):
            problems += [f"{self.table} {number}: {text}" for text in self._take(table, entries)]
        problems += check(entries)
        if problems:
            more = f"; and {len(problems) - _MOST_PROBLEMS} more" if len(problems) > _MOST_PROBLEMS else ""
            raise ConfigurationError(f"{self.name} {where}: " + "; ".join(problems[:_MOST_PROBLEMS]) + more)
        return tuple(entries)

    def _take(self, table: Any, entries: list[Entry]) -> Iterator[str]:
        """Add an entry, or yield its problems."""
        from pydantic import ValidationError

        try:
            entries.append(adapter_of(self.entry).validate_python(table))
        except ValidationError as error:
            for each in error.errors(include_url=False, include_context=False):
                key = one_line(".".join(map(str, each["loc"])), _SHOWN)
                if not key:
                    yield f"{described(each['input'])} is not a table; write [[{self.table}]]"
                elif each["type"] == "unexpected_keyword_argument":
                    yield f"unknown key {key!r}"
                elif each["type"] == "missing":
                    yield f"{key} is missing"
                else:
                    message = each["msg"].replace("Input", "it").replace("String", "it")
                    yield f"{key} = {described(each['input'])}: {message}"


def is_over(expires: datetime.date | None, today: datetime.date) -> bool:
    """Return whether the last day on which an entry counts has passed."""
    return expires is not None and expires < today


# --- the quarantine ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One entry.

    :param task: a task's key (``tau2/airline/12``), or a glob pattern.
    :param expires: the last day on which it counts.
    """

    __pydantic_config__: ClassVar = FORBID_OTHERS

    task: Words
    reason: Words
    # Required, as an entry without an end is never reviewed.
    expires: datetime.date

    def covers(self, task_key: str) -> bool:
        """Return whether it names a task."""
        # Ids may contain the brackets that a pattern treats as special: the literal id comes first.
        return task_key == self.task or fnmatch.fnmatchcase(task_key, self.task)

    def is_expired(self, today: datetime.date) -> bool:
        """Return whether its last day is over."""
        return is_over(self.expires, today)


def entry_for(task_key: str, entries: Iterable[Quarantined], today: datetime.date) -> Quarantined | None:
    """Return the entry that quarantines a task today, or None."""
    return next((e for e in entries if not e.is_expired(today) and e.covers(task_key)), None)


QUARANTINE_FILE = EntriesFile("quarantine", "quarantine", Quarantined)


def quarantine_of(key: TrialKey, entries: Sequence[Quarantined]) -> Quarantined | None:
    """Return the entry that quarantines a trial today, or None."""
    if not entries:
        return None
    today = datetime.date.today()
    found = entry_for(key.task_key, entries, today)
    # Without a label first: an entry for a task holds for every label of it.
    return found or entry_for(task_name(key), entries, today)


def covers(entry: Quarantined, key: TrialKey) -> bool:
    """Return whether an entry names a trial's task, with or without its label."""
    return entry.covers(key.task_key) or entry.covers(task_name(key))


def describe_quarantine(
    entries: Sequence[Quarantined], results: Sequence[TrialResult], groups: Collection[str]
) -> Iterator[str]:
    """Yield which entries of a quarantine have ended, are needed no more, or match no trial of a domain that ran.

    :param groups: all suites and ``suite/domain`` that there are; an entry of another name can never match.
    """
    today = datetime.date.today()
    for entry in entries:
        found = [r for r in results if covers(entry, r.key)]
        # An error says nothing about whether the entry is still needed.
        judged = [r for r in found if r.status == "evaluated"]
        if found and entry.is_expired(today):
            # Of several entries another one may still hold.
            again = any(quarantine_of(r.key, entries) is None for r in found)
            what = "it counts again" if again else "another entry still covers it"
            yield f"the quarantine of {entry.task} ended on {entry.expires}: {what}"
        elif judged and all(r.success for r in judged):
            every = "its trial" if len(judged) == 1 else f"all {len(judged)} trials"
            yield f"quarantined, and {every} succeeded: {entry.task} ({entry.reason})"
        elif not found and any(entry.task.startswith(f"{r.key.suite}/{r.key.domain}/") for r in results):
            yield f"the quarantine of {entry.task} matches no trial of this run"
        elif not found and results and not _is_of(entry.task, groups):
            key = results[0].key.task_key
            yield f"the quarantine of {entry.task} can match no trial: keys have suite and domain, such as {key}"


def _is_of(task: str, groups: Collection[str]) -> bool:
    """Return whether there are the suite and domain that a quarantine's entry begins with, unless a pattern does."""
    suite, _, rest = task.partition("/")
    domain = rest.partition("/")[0]
    if set("*?[") & {*suite}:
        return True
    return (suite if set("*?[") & {*domain} else f"{suite}/{domain}") in groups
