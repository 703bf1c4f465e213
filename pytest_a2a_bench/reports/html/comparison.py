"""One run beside its baseline, paired by task (pure)."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from pytest_a2a_bench.benchmarks.registry import label_of
from pytest_a2a_bench.redact import one_line
from pytest_a2a_bench.reports.html.markup import el, points, rate
from pytest_a2a_bench.results.agents import AgentComparison
from pytest_a2a_bench.results.compare import Comparison, GroupComparison, TaskComparison
from pytest_a2a_bench.results.stats import count

# Bounded, as the table is for reading; all of it is in the JSON of a2a-bench compare.
_SHOWN = 200
_OPEN = 12
"""So many changed tasks are shown at once; more are folded."""


def section(comparison: Comparison, baseline: str) -> Markup:
    """Return the comparison.

    :param baseline: what it is compared with, as people call it.
    """
    moved = [task for task in comparison.tasks if task.drop]
    warnings = [el("li", f"Measured differently: {text}") for text in comparison.differences]
    return el(
        "section",
        el("h2", "Against the baseline"),
        el("p", "Compared with ", el("strong", baseline or "the baseline"), f", task by task. {_summary(comparison)}"),
        el("ul", warnings, class_="cautions") if warnings else None,
        _groups(comparison) if comparison.overall else None,
        _moved(moved) if moved else None,
        el("p", _notes(comparison), class_="note"),
        id="baseline",
    )


def agents_section(compared: Sequence[AgentComparison]) -> Markup:
    """Return how each further agent of a run did against the first."""
    return el("section", el("h2", "Agents against each other"), [_agents(found) for found in compared], id="agents")


def _agents(found: AgentComparison) -> Markup:
    moved = [task for task in found.comparison.tasks if task.drop]
    return el(
        "div",
        el("h3", f"{found.agent} against {found.reference}"),
        el("p", found.sentence),
        _groups(found.comparison, (found.reference, found.agent)) if found.comparison.overall else None,
        _moved(moved, (found.reference, found.agent)) if moved else None,
    )


def _summary(comparison: Comparison) -> str:
    found = comparison.overall
    if found is None:
        return "No task was evaluated in both, so nothing can be said."
    same = found.tasks - found.better - found.worse
    return (
        f"Of {count(found.tasks, 'task')} in both, {found.better:,} got better, {found.worse:,} got worse "
        f"and {same:,} stayed."
    )


def _notes(comparison: Comparison) -> str:
    notes = [
        "The change is in percentage points, averaged over tasks. "
        f"The {_interval(comparison)} has {100 * comparison.level:.3g} % on either side: of each of its ends alone one "
        f"is {100 * (1 - comparison.level):.3g} % sure, as the verdict says. "
        "p is the chance that an unchanged agent does as badly as now or worse (exact, one-sided)."
    ]
    sides = (("this run", comparison.only_after), ("the baseline", comparison.only_before))
    for name, tasks in sides:
        if tasks:
            notes.append(f"{count(len(tasks), 'task')} {'is' if len(tasks) == 1 else 'are'} only in {name}.")
    if comparison.errored:
        notes.append(f"{count(len(comparison.errored), 'task')} could not be evaluated in one of the runs.")
    return " ".join(notes)


def _interval(comparison: Comparison) -> str:
    return f"{100 * (1 - 2 * comparison.level):.3g} % interval"


def _groups(comparison: Comparison, sides: tuple[str, str] = ("Before", "Now")) -> Markup:
    groups = [*comparison.domains]
    # A total of one domain would repeat it.
    if comparison.overall and len(groups) > 1:
        groups.append(comparison.overall)
    head = ("Domain", "Tasks", *sides, "Change", _interval(comparison), "p")
    return el(
        "div",
        _table(head, [_group(g) for g in groups]),
        class_="scroller",
        tabindex="0",
        role="region",
        aria_label="Change by domain",
    )


def _group(group: GroupComparison) -> Markup:
    cells = (
        f"{group.tasks:,}",
        rate(group.before.rate),
        rate(group.after.rate),
        points(-group.drop),
        # Changes are written as gains, the other way round than drops.
        f"{points(-group.high)} to {points(-group.low)}",
        _chance(group.p),
    )
    marked = [el("td", text, class_=_number(-group.drop if i == 3 else 0)) for i, text in enumerate(cells)]
    return el("tr", el("th", _name(group.name), scope="row"), marked)


def _name(group: str) -> str:
    """Return a group as other tables call it; "all" has no suite."""
    suite, _, domain = group.partition("/")
    return label_of(suite, domain) if domain else group


def _chance(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _moved(moved: Sequence[TaskComparison], sides: tuple[str, str] = ("Before", "Now")) -> Markup:
    more = len(moved) - _SHOWN
    return el(
        "details",
        el("summary", f"{count(len(moved), 'task')} that changed"),
        _table(("Task", *sides, "Change"), [_task(task) for task in moved[:_SHOWN]]),
        el("p", f"… and {more:,} more", class_="note") if more > 0 else None,
        open=len(moved) <= _OPEN,
    )


def _task(task: TaskComparison) -> Markup:
    opener = el("button", task.name, class_="link open-task", data_task=one_line(task.name, 1_000), type="button")
    return el(
        "tr",
        el("th", opener, scope="row"),
        el("td", f"{task.before_ok} / {task.before}", class_="num"),
        el("td", f"{task.after_ok} / {task.after}", class_="num"),
        el("td", points(-task.drop), class_=_number(-task.drop)),
    )


def _table(head: Sequence[str], rows: Sequence[Markup]) -> Markup:
    titles = [el("th", text, scope="col", class_="num" if i else None) for i, text in enumerate(head)]
    return el("table", el("thead", el("tr", titles)), el("tbody", rows), class_="versus")


def _number(gain: float) -> str:
    return "num up" if gain > 0 else "num down" if gain < 0 else "num"
