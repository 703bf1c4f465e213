"""Clusters of failed trials by cause, each with an example and a remedy. Pure.

Details quote agents and tools: they are shown on one line, without control characters.
"""

from __future__ import annotations

import contextlib
import functools
import shlex
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.diagnosis import CAUSES, Cause, Diagnosis, diagnose
from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.model.messages import numbered
from pytest_a2a_bench.results.gates.files import Example, Reason
from pytest_a2a_bench.results.gates.noise import noise_option
from pytest_a2a_bench.results.stats import count
from pytest_a2a_bench.text import counted, one_line

SHOWN = 6
"""Lines of a summary of causes."""

_TASKS = 6
EXPLAINED = 5
"""Causes that are explained where not all are wanted; of the others there is a line."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Failed trials of one cause.

    :param suite: the suite of their tasks.
    :param trials: at least one, each with its diagnosis, in the order of the run.
    """

    suite: str
    cause: Cause
    trials: tuple[tuple[TrialResult, Diagnosis], ...]

    @property
    def example(self) -> tuple[TrialResult, Diagnosis]:
        """The shortest trial that shows the place."""
        return min(self.trials, key=lambda t: (t[1].turn is None, bool(t[1].doubt), len(t[0].transcript)))

    @property
    def kind(self) -> str:
        """Its name in files: ``wrong-argument``."""
        return self.trials[0][1].kind

    @property
    def subject(self) -> str:
        """The tool or object that it is about."""
        return self.trials[0][1].subject

    @property
    def words(self) -> str:
        """What happened, as a clause."""
        return self.cause.about(self.subject)

    @property
    def fix(self) -> str:
        """The likely fix."""
        return self.cause.remedy(self.subject)

    @property
    def doubted(self) -> int:
        """The number of trials whose task is known to have defects."""
        return sum(bool(d.doubt) for _, d in self.trials)

    @property
    def tasks(self) -> dict[str, int]:
        """Task -> its trials in the cluster, in the order of task numbers; with its domain where there are several."""
        several = len({result.key.domain for result, _ in self.trials}) > 1
        found = Counter(
            registry.short_name(result.key.task_key)
            or (f"{result.key.domain}/{result.key.task_id}" if several else result.key.task_id)
            for result, _ in self.trials
        )
        return {task: found[task] for task in sorted(found, key=numbered)}


def diagnosis_of(result: TrialResult) -> Diagnosis | None:
    """Return why a trial failed; None where it did not, or did not run. Never raises.

    Several reports ask this of the same trial; it is computed once.
    """
    known = _TOLD.get(id(result))
    # By identity, as results have no hash; the entry goes with its result, so that no other result has its number.
    if known is None or known[0]() is not result:
        gone = weakref.ref(result, functools.partial(_forget, id(result)))
        known = _TOLD[id(result)] = gone, _diagnosed(result)
    return known[1]


_TOLD: dict[int, tuple[weakref.ref[TrialResult], Diagnosis | None]] = {}


def _forget(number: int, gone: object) -> None:
    _TOLD.pop(number, None)


def _diagnosed(result: TrialResult) -> Diagnosis | None:
    try:
        return diagnose(result, registry.get_diagnoser(result.key.suite))
    # The verdict is decided already. A stored file may hold, and a diagnoser raise, anything.
    except Exception as error:
        return Diagnosis(
            "unexplained", detail=f"looking for it raised {type(error).__name__}: {one_line(str(error), 200)}"
        )


def cause_of(suite: str, kind: str) -> Cause:
    """Return the cause of a kind; of a suite that is not installed it is the kind's name."""
    diagnoser = None
    with contextlib.suppress(Exception):  # diagnosis_of reports what is wrong with it
        diagnoser = registry.get_diagnoser(suite)
    known = {**CAUSES, **(diagnoser.causes if diagnoser else {})}
    return known.get(kind) or Cause(kind.replace("-", " "), "read the transcript")


def sentence(result: TrialResult, diagnosis: Diagnosis) -> str:
    """Return a clause with the actor, the act and the message: ``the agent never called X (message 3)``."""
    cause = cause_of(result.key.suite, diagnosis.kind)
    where = "" if diagnosis.turn is None else f" (message {diagnosis.turn + 1})"
    who = "" if cause.blame == "nobody" else f"the {cause.blame} "
    return f"{who}{cause.about(diagnosis.subject)}{where}"


def clusters(results: Sequence[TrialResult]) -> list[Cluster]:
    """Return the failed trials of a run by cause, the most frequent first."""
    found: dict[tuple[str, str, str], list[tuple[TrialResult, Diagnosis]]] = {}
    for result in counted(results, "trials explained"):
        diagnosis = diagnosis_of(result)
        if diagnosis is not None:
            found.setdefault((result.key.suite, diagnosis.kind, diagnosis.subject), []).append((result, diagnosis))
    every = [Cluster(suite, cause_of(suite, kind), tuple(trials)) for (suite, kind, _), trials in found.items()]
    return sorted(every, key=lambda c: -len(c.trials))


def summary_lines(found: Sequence[Cluster], command: str) -> Iterator[str]:
    """Yield why trials did not pass, as a title and at most :data:`SHOWN` lines.

    :param command: the command that shows all causes.
    """
    if not found:
        return
    yield f"why {count(sum(len(c.trials) for c in found), 'trial')} did not pass ({command} says more):"
    shown = found if len(found) <= SHOWN else found[: SHOWN - 1]
    for cluster in shown:
        yield f"  {headline(cluster)}"
    rest = found[len(shown) :]
    if rest:
        kinds = ", ".join(dict.fromkeys(c.kind for c in rest))
        yield "  " + one_line(f"{sum(len(c.trials) for c in rest)}x {len(rest)} other reasons: {kinds}", 160)


def headline(cluster: Cluster) -> str:
    """Return a cluster in one line: the number of trials, who is to blame, what happened, and the tasks."""
    tasks = [f"{task} ({n}x)" if n > 1 else task for task, n in cluster.tasks.items()]
    more = f" and {len(tasks) - _TASKS} more" if len(tasks) > _TASKS else ""
    doubt = f"; {cluster.doubted} of them in tasks with known defects" if cluster.doubted else ""
    what = f"{len(cluster.trials)}x {cluster.cause.blame}: {cluster.words}"
    return f"{what} [{one_line(', '.join(tasks[:_TASKS]), 200)}{more}]{doubt}"


def lines(found: Sequence[Cluster], nodeids: Mapping[str, str], command: str, *, whole: bool = True) -> Iterator[str]:
    """Yield each cluster with an example, the likely fix and the command that runs its trials again.

    :param nodeids: trial key -> the pytest item that reported it.
    :param command: the command that prints the ids of cluster ``N`` when ``--ids N`` is added to it.
    :param whole: explain each cluster; else the first ones, so that it fits on a screen.
    """
    for number, cluster in enumerate(found, 1):
        if number > EXPLAINED and not whole:
            yield f"{number}. {headline(cluster)}"
            continue
        result, diagnosis = cluster.example
        where = "" if diagnosis.turn is None else f", message {diagnosis.turn + 1} of {len(result.transcript)}"
        yield f"{number}. {headline(cluster)}"
        yield f"   example: {one_line(registry.shown_name(str(result.key)))}{where}"
        if diagnosis.detail:
            yield f"     {one_line(diagnosis.detail, 400)}"
        if diagnosis.doubt:
            yield f"     the task: {one_line(diagnosis.doubt, 300)}"
        yield f"   likely fix: {cluster.fix}"
        yield f"   run again: {rerun(cluster, nodeids, number, command)}"


def rerun(cluster: Cluster, nodeids: Mapping[str, str], number: int, command: str) -> str:
    """Return the shell command that runs a cluster's trials again; options of the run are for the user to add."""
    ids = [nodeids[key] for result, _ in cluster.trials if (key := str(result.key)) in nodeids]
    options = f"--a2a-endpoint URL {noise_option(cluster.example[0])}"
    if len(ids) > _TASKS or not ids:
        return f"{command} --ids {number} > ids.txt && pytest {options}@ids.txt"
    return f"pytest {options}{' '.join(map(shlex.quote, ids))}"


def stored_reasons(found: Sequence[Cluster]) -> tuple[Reason, ...]:
    """Return the clusters as ``verdict.json`` has them."""
    return tuple(map(_stored, found))


def _stored(cluster: Cluster) -> Reason:
    result, diagnosis = cluster.example
    return Reason(
        suite=cluster.suite,
        kind=cluster.kind,
        subject=cluster.subject,
        blame=cluster.cause.blame,
        words=cluster.words,
        fix=cluster.fix,
        trials=tuple(str(result.key) for result, _ in cluster.trials),
        doubted=cluster.doubted,
        example=Example(str(result.key), diagnosis.turn, one_line(diagnosis.detail, 1_000)),
    )
