"""The verdict of gates, and a comparison of two runs, as lines of text (pure)."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from pytest_a2a_bench.benchmarks.registry import label_of, variant_of
from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.model.keys import numbered
from pytest_a2a_bench.redact import one_line
from pytest_a2a_bench.results.compare import AgentComparison, Comparison, GroupComparison, TaskComparison
from pytest_a2a_bench.results.gates.terms import GateResult, Verdict

_TASKS = 60

MOST = 20
"""Most tasks or trials that a list on the terminal shows."""


def gate_lines(verdict: Verdict, width: int) -> Iterator[str]:
    """Yield the table of gates: name, verdict, and the sentence with the numbers."""
    if verdict.gates:
        names = max(len("gate"), *(len(g.name) for g in verdict.gates))
        words = max(map(len, ("verdict", *(_shown(g) for g in verdict.gates))))
        indent = names + words + 4
        yield f"{'gate':<{names}}  {'verdict':<{words}}  why"
        for gate in verdict.gates:
            first = f"{gate.name:<{names}}  {_shown(gate):<{words}}  "
            yield from _wrapped(first, one_line(gate.sentence, 2000), indent, width)
    yield from verdict.notes


def missed_lines(results: Sequence[TrialResult], missed: Mapping[str, str], width: int) -> Iterator[str]:
    """Yield the tasks that have a miss, by domain, each with how many of its trials succeeded: ``create_task_1 0/4``.

    :param missed: keys of the trials that missed -> what excuses each beside its gate; may be empty.
    """
    trials: dict[str, dict[str, list[TrialResult]]] = {}
    for result in results:
        if result.status != "skipped":
            name = label_of(result.key.suite, result.key.domain, variant_of(result))
            task = f"{result.key.task_id}@{result.key.label}" if result.key.label else result.key.task_id
            trials.setdefault(name, {}).setdefault(task, []).append(result)
    for name, tasks in trials.items():
        texts = [_rate(task, own, missed) for task, own in sorted(tasks.items(), key=_worst_first) if _any(own, missed)]
        if len(texts) > _TASKS:
            texts = [*texts[: _TASKS - 1], f"{texts[_TASKS - 1]} and {len(texts) - _TASKS} more tasks"]
        if texts:
            yield from _listed(f"  {name}: ", [one_line(text) for text in texts], 4, width)


def _worst_first(task: tuple[str, list[TrialResult]]) -> tuple[float, list[tuple[bool, int, str]]]:
    return sum(r.success for r in task[1]) / len(task[1]), numbered(task[0])


def _any(trials: list[TrialResult], missed: Mapping[str, str]) -> bool:
    return any(str(r.key) in missed for r in trials)


def _rate(task: str, trials: list[TrialResult], missed: Mapping[str, str]) -> str:
    excuse = next(filter(None, (missed.get(str(r.key)) for r in trials)), "")
    return f"{task} {sum(r.success for r in trials)}/{len(trials)}" + (f" ({excuse})" if excuse else "")


def _shown(gate: GateResult) -> str:
    return gate.shown if gate.tier == "supporting" else f"{gate.shown} ({gate.tier})"


def comparison_lines(comparison: Comparison, width: int) -> Iterator[str]:
    """Yield the comparison by domain, then the tasks that changed, the worst first."""
    groups = [*comparison.domains]
    if comparison.overall is not None and len(groups) > 1:
        groups.append(comparison.overall)
    if groups:
        yield from aligned([_TITLES, *(_cells(group) for group in groups)])
    changed = [task for task in comparison.tasks if task.drop]
    if changed:
        yield "tasks that changed:"
        yield from (f"  {line}" for line in some([_task_line(task) for task in changed]))
    for title, names in (
        ("only in the baseline", comparison.only_before),
        ("only in this run", comparison.only_after),
        ("could not be evaluated in one of the runs", comparison.errored),
    ):
        if names:
            more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
            yield from _wrapped(f"{title} ({len(names)}): ", one_line(", ".join(names[:MOST]), 1000) + more, 2, width)
    for difference in comparison.differences:
        yield f"not comparable: {one_line(difference)}"


def agent_lines(found: AgentComparison, width: int) -> Iterator[str]:
    """Yield one agent of a run against another: by domain, then the tasks in which they differ."""
    yield f"{found.agent} against {found.reference} (before is {found.reference}, now is {found.agent}):"
    yield from comparison_lines(found.comparison, width)


def some(lines: Sequence[str], most: int = MOST) -> Iterator[str]:
    """Yield lines, and how many more there are."""
    yield from lines[:most]
    if len(lines) > most:
        yield f"... and {len(lines) - most} more"


_TITLES = ["domain", "tasks", "before", "95 %", "now", "95 %", "drop", "at least", "at most", "p", "better", "worse"]


def _cells(group: GroupComparison) -> list[str]:
    before, after = group.before, group.after
    return [
        one_line(group.name, 60),
        str(group.tasks),
        f"{before.rate:.3f} ({before.ok}/{before.trials})",
        f"{before.wilson.low:.2f}-{before.wilson.high:.2f}",
        f"{after.rate:.3f} ({after.ok}/{after.trials})",
        f"{after.wilson.low:.2f}-{after.wilson.high:.2f}",
        f"{group.drop:+.3f}",
        f"{group.low:+.3f}",
        f"{group.high:+.3f}",
        f"{group.p:.3g}",
        str(group.better),
        str(group.worse),
    ]


def _task_line(task: TaskComparison) -> str:
    word = "worse" if task.drop > 0 else "better"
    was, now = f"{task.before_ok}/{task.before}", f"{task.after_ok}/{task.after}"
    return f"{word:<6}  {was} -> {now}  {one_line(task.name, 100)}"


def aligned(table: list[list[str]]) -> Iterator[str]:
    """Yield the lines of a table, its first column to the left."""
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    for row in table:
        cells = [c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        yield "  ".join(cells).rstrip()


def _wrapped(first: str, text: str, indent: int, width: int) -> Iterator[str]:
    yield from textwrap.wrap(
        text, max(width, indent + 30), initial_indent=first, subsequent_indent=" " * indent, break_on_hyphens=False
    )


def _listed(first: str, items: Sequence[str], indent: int, width: int) -> Iterator[str]:
    """Wrap a list between its items only: ``2 0/4`` says nothing where the line ends after the 2."""
    line = first
    for number, item in enumerate(items):
        if line.strip() and line != first and len(line) + len(item) + 1 > max(width, indent + 30):
            yield line.rstrip()
            line = " " * indent
        line += item + (", " if number < len(items) - 1 else "")
    yield line
