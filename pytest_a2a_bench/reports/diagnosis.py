"""Why trials did not pass, many at a time: those of one cause are one cluster, with an example and a remedy. Pure.

Details quote what agents and tools said: whoever shows them has them on one line, without control characters.
"""

from __future__ import annotations

import contextlib
import functools
import shlex
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.diagnosis import CAUSES, Cause, Diagnosis, diagnose
from pytest_a2a_bench.gates.files import Example, Reason
from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.model.keys import numbered
from pytest_a2a_bench.redact import one_line
from pytest_a2a_bench.results.stats import count

SHOWN = 6
"""Lines that say why a run missed, wherever there is room for a summary only."""

_TASKS = 6


@dataclass(frozen=True, slots=True)
class Cluster:
    """Trials that missed by the same.

    :param suite: whose tasks they are of.
    :param trials: at least one, with what is told of each, in the order of the run.
    """

    suite: str
    cause: Cause
    trials: tuple[tuple[TrialResult, Diagnosis], ...]

    @property
    def example(self) -> tuple[TrialResult, Diagnosis]:
        """The trial to look at: the shortest that shows the place."""
        return min(self.trials, key=lambda t: (t[1].turn is None, bool(t[1].doubt), len(t[0].transcript)))

    @property
    def kind(self) -> str:
        """What it is called in files: ``wrong-argument``."""
        return self.trials[0][1].kind

    @property
    def subject(self) -> str:
        """What it is about: a tool, an object."""
        return self.trials[0][1].subject

    @property
    def words(self) -> str:
        """What happened, as a clause."""
        return self.cause.about(self.subject)

    @property
    def fix(self) -> str:
        """What is likely to mend it."""
        return self.cause.remedy(self.subject)

    @property
    def doubted(self) -> int:
        """In how many of them the task itself may be at fault."""
        return sum(bool(d.doubt) for _, d in self.trials)

    @property
    def tasks(self) -> dict[str, int]:
        """Task -> its trials in here, in the order of their numbers; with its domain where there are several."""
        several = len({result.key.domain for result, _ in self.trials}) > 1
        found = Counter(
            f"{result.key.domain}/{result.key.task_id}" if several else result.key.task_id for result, _ in self.trials
        )
        return {task: found[task] for task in sorted(found, key=numbered)}


def diagnosis_of(result: TrialResult) -> Diagnosis | None:
    """Say why one trial missed; None where it did not, or was not held. Never raises.

    Several places tell it of the same trial one after the other; it is looked for once.
    """
    known = _TOLD.get(id(result))
    # By identity, as results have no hash; what is known of one goes with it, so that no other has its number.
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
    # It explains what is decided already. A stored file may hold anything, and a benchmark's own diagnoser do anything.
    except Exception as error:
        return Diagnosis(
            "unexplained", detail=f"looking for it raised {type(error).__name__}: {one_line(str(error), 200)}"
        )


def cause_of(suite: str, kind: str) -> Cause:
    """Return what a kind means; of a suite that is not installed here its name is all there is."""
    diagnoser = None
    with contextlib.suppress(Exception):  # diagnosis_of has told what is wrong with it
        diagnoser = registry.get_diagnoser(suite)
    known = {**CAUSES, **(diagnoser.causes if diagnoser else {})}
    return known.get(kind) or Cause(kind.replace("-", " "), "read the transcript")


def sentence(result: TrialResult, told: Diagnosis) -> str:
    """Say in a clause who did what, and which message shows it: ``the agent never called X (message 3)``."""
    cause = cause_of(result.key.suite, told.kind)
    where = "" if told.turn is None else f" (message {told.turn + 1})"
    who = "" if cause.blame == "nobody" else f"the {cause.blame} "
    return f"{who}{cause.about(told.subject)}{where}"


def clusters(results: Iterable[TrialResult]) -> list[Cluster]:
    """Return the misses of a run by what they missed by, the most frequent first."""
    found: dict[tuple[str, str, str], list[tuple[TrialResult, Diagnosis]]] = {}
    for result in results:
        told = diagnosis_of(result)
        if told is not None:
            found.setdefault((result.key.suite, told.kind, told.subject), []).append((result, told))
    every = [Cluster(suite, cause_of(suite, kind), tuple(trials)) for (suite, kind, _), trials in found.items()]
    return sorted(every, key=lambda c: -len(c.trials))


def summary_lines(found: Sequence[Cluster], command: str) -> Iterator[str]:
    """Say in at most :data:`SHOWN` lines and a title why trials did not pass.

    :param command: what shows all of it.
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
    """Say in one line what a cluster is: how many, who is to blame, what happened, in which tasks."""
    tasks = [f"{task} ({n}x)" if n > 1 else task for task, n in cluster.tasks.items()]
    more = f" and {len(tasks) - _TASKS} more" if len(tasks) > _TASKS else ""
    doubt = f"; {cluster.doubted} of them in tasks with known defects" if cluster.doubted else ""
    told = f"{len(cluster.trials)}x {cluster.cause.blame}: {cluster.words}"
    return f"{told} [{one_line(', '.join(tasks[:_TASKS]), 200)}{more}]{doubt}"


def lines(found: Sequence[Cluster], nodeids: Mapping[str, str], command: str) -> Iterator[str]:
    """Say of every cluster what it is, one example, the likely fix and how to run its trials again.

    :param nodeids: trial key -> the pytest item that reported it.
    :param command: the command that prints the ids of cluster ``N`` when ``--ids N`` is added to it.
    """
    for number, cluster in enumerate(found, 1):
        result, told = cluster.example
        where = "" if told.turn is None else f", message {told.turn + 1} of {len(result.transcript)}"
        yield f"{number}. {headline(cluster)}"
        yield f"   example: {one_line(str(result.key))}{where}"
        if told.detail:
            yield f"     {one_line(told.detail, 400)}"
        if told.doubt:
            yield f"     the task: {one_line(told.doubt, 300)}"
        yield f"   likely fix: {cluster.fix}"
        yield f"   run again: {rerun(cluster, nodeids, number, command)}"


def rerun(cluster: Cluster, nodeids: Mapping[str, str], number: int, command: str) -> str:
    """Return the shell command that holds a cluster's trials again; options of the run are for the user to add."""
    ids = [nodeids[key] for result, _ in cluster.trials if (key := str(result.key)) in nodeids]
    if len(ids) > _TASKS or not ids:
        return f"{command} --ids {number} > ids.txt && pytest --a2a-endpoint URL @ids.txt"
    return " ".join(["pytest --a2a-endpoint URL", *map(shlex.quote, ids)])


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
