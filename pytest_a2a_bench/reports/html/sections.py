"""The sections of the page around the charts and the table of trials (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from pytest_a2a_bench.benchmarks.registry import label_of, shown_name
from pytest_a2a_bench.conformance.report import CheckRow, compliance
from pytest_a2a_bench.model import Cost, TrialResult, percentile
from pytest_a2a_bench.reports import findings, summary
from pytest_a2a_bench.reports.contents import Contents, cautions, provenance
from pytest_a2a_bench.reports.html import charts, records
from pytest_a2a_bench.reports.html.charts import el, points, rate, scroller, seconds, table
from pytest_a2a_bench.reports.trial_text import Cluster
from pytest_a2a_bench.results.baseline import Baseline
from pytest_a2a_bench.results.compare import AgentComparison, Comparison, GroupComparison, TaskComparison, agent_names
from pytest_a2a_bench.results.gates.files import StoredGate, StoredVerdict
from pytest_a2a_bench.results.history import Entry, Trend, trend
from pytest_a2a_bench.results.inference import wilson
from pytest_a2a_bench.results.stats import count
from pytest_a2a_bench.text import listed, one_line, p_value

# --- verdict, main numbers and conditions -----------------------------------------------------------------------------

_TONES = {"pass": "good", "inconclusive": "unsure"}
_WORDS = {"pass": "Pass", "failed": "Failed", "regressed": "Regressed", "inconclusive": "Inconclusive", "fail": "Fail"}


def header(contents: Contents) -> Markup:
    """Return the page's title."""
    return el(
        "header",
        el("p", "pytest-a2a-bench", class_="eyebrow"),
        el("h1", contents.agent or contents.endpoint or "Benchmark results"),
        class_="page-head",
    )


def conditions(contents: Contents) -> Markup:
    """Return how the numbers were measured, and the folded notes to read before they are compared with others."""
    notes = [el("li", note) for note in cautions(contents)]
    facts = [el("div", el("dt", name), el("dd", value)) for name, value in provenance(contents)]
    folded = el(
        "details",
        el("summary", f"Before you compare these numbers: {count(len(notes), 'note')}"),
        el("ul", notes, class_="cautions"),
    )
    return el("section", folded if notes else None, el("dl", facts, class_="facts"), aria_label="Conditions")


def verdict(contents: Contents, causes: Sequence[Cluster] = ()) -> Markup:
    """Return the first screen: verdict, gates, headline numbers, and the next step for the commonest cause."""
    found = contents.verdict
    parts: list[Markup] = []
    title = "Result"
    if found is not None:
        asked = [gate for gate in found.gates if gate.may_fail]
        # Of a run of which nothing was asked there is no verdict.
        if asked or found.verdict != "pass":
            title = "Verdict"
            parts.append(_banner(found))
        if asked:
            parts.append(el("ul", [_gate(gate) for gate in asked], class_="gates"))
        parts += [el("p", note, class_="note") for note in found.notes]
    parts += [el("p", note, class_="note") for note in contents.unfinished]
    for name in agent_names(contents.trials) or (None,):
        own = [r for r in contents.trials if r.key.agent == name]
        parts += [el("h3", name)] if name is not None else []
        parts += [_headline(own)] if own else []
    parts += _next(contents, causes)
    if not parts:
        parts.append(el("p", "No conversation took place.", class_="note"))
    return el("section", el("h2", title), parts, id="verdict")


def _next(contents: Contents, found: Sequence[Cluster]) -> list[Markup]:
    """Return the next step: for an agent that called no tool, otherwise for the commonest cause of failures."""
    if silent := summary.silence(contents.trials):
        return [el("p", el("strong", "Next: "), silent, ".", class_="next")]
    if not found:
        return []
    many = f"{len(found[0].trials):,} of {sum(len(c.trials) for c in found):,} that did not pass"
    who = "" if found[0].cause.blame == "unproven" else f"the {found[0].cause.blame} "
    said = f"in {many}, {who}{found[0].words}: {found[0].fix} ("
    return [el("p", el("strong", "Next: "), said, el("a", "all causes", href="#why"), ").", class_="next")]


def _pill(tone: str, text: str) -> Markup:
    """Return a word with a mark before it, as a colour alone is not enough."""
    return el("span", text, class_=f"pill {tone}")


def _banner(found: StoredVerdict) -> Markup:
    word = _WORDS.get(found.verdict, found.verdict)
    if found.verdict == "inconclusive":
        # The exit code of the run.
        word += ": the run does not pass" if found.failed else ": the run passes all the same"
    return el("p", word, class_=f"banner {_TONES.get(found.verdict, 'bad')}")


def _gate(gate: StoredGate) -> Markup:
    # An advisory gate fails nothing.
    tone = "unsure" if gate.tier == "advisory" and gate.verdict != "pass" else _TONES.get(gate.verdict, "bad")
    word = gate.word.capitalize() or _WORDS.get(gate.verdict, gate.verdict)
    word += f" ({gate.tier})" if gate.tier != "supporting" else ""
    details = el("pre", "\n".join(gate.details)) if gate.details else None
    return el("li", _pill(tone, word), el("strong", gate.name), el("span", gate.sentence, details))


def _headline(trials: Sequence[TrialResult]) -> Markup:
    counted = [r for r in trials if r.status != "skipped"]
    passed = sum(r.success for r in counted)
    shown, interval = "\u2013", "all were skipped"
    if counted:
        low, high = wilson(passed, len(counted))
        shown = rate(passed / len(counted))
        interval = f"{passed:,} of {len(counted):,}; 95 % interval {rate(low)} to {rate(high)}"
    # Over all trials: turns before an error were real ones.
    turns = sorted(s for r in trials for s in r.turn_latencies)
    cost = sum((r.spent for r in trials), Cost())
    known = sum(r.cost is not None for r in trials)
    tasks = len({r.key.task_key for r in trials})
    errors = count(sum(records.state(r).endswith("_error") for r in trials), "error")
    absent = sum(r.status == "not_run" for r in trials)
    errors += f", {absent:,} not run" if absent else ""
    figures = (
        ("Trials passed", shown, interval),
        ("Trials", f"{len(trials):,}", f"of {count(tasks, 'task')}; {errors}"),
        ("Median turn", seconds(percentile(turns, 50)), f"p95 {seconds(percentile(turns, 95))}"),
        ("Cost", str(cost) if known else "\u2013", _cost_note(cost, known, len(trials))),
    )
    return el(
        "dl",
        [el("div", el("dt", name), el("dd", el("b", value), el("small", note))) for name, value, note in figures],
        class_="headline",
    )


def _cost_note(cost: Cost, known: int, trials: int) -> str:
    if not known:
        return "none was reported"
    of = "" if known == trials else f"known for {known:,} of {trials:,} trials"
    return "; ".join(filter(None, (cost.parts, of))) or "agent, user and judge"


# --- why trials did not pass ------------------------------------------------------------------------------------------

# All reasons are in verdict.json and in the output of a2a-bench show --why.
_REASONS = 50
_OPEN_REASONS = 8
_REASON_TASKS = 12


def reasons(found: Sequence[Cluster]) -> Markup:
    """Return the table of reasons, the most frequent first; most of them folded."""
    missed = sum(len(cluster.trials) for cluster in found)
    folded = found[_OPEN_REASONS:_REASONS]
    more = len(found) - _REASONS
    return el(
        "section",
        el("h2", "Why trials did not pass"),
        el(
            "p",
            f"{count(missed, 'trial')} did not pass, for {count(len(found), 'reason')}: the first thing in each "
            "conversation that left what its task needs. No model was asked.",
        ),
        _reasons_table(found[:_OPEN_REASONS]),
        el("details", el("summary", f"{len(folded)} more"), _reasons_table(folded)) if folded else None,
        el("p", f"... and {more:,} other reasons.", class_="note") if more > 0 else None,
        id="why",
    )


def _reasons_table(found: Sequence[Cluster]) -> Markup:
    titles = ("Trials", "Whose", "What happened", "Example", "Likely fix")
    return scroller("Reasons", table(titles, map(_reason, found), class_="reasons"))


def _reason(cluster: Cluster) -> Markup:
    result, found = cluster.example
    names = listed([one_line(task, 60) for task in cluster.tasks], _REASON_TASKS)
    doubt = f" ({cluster.doubted} in tasks with known defects)" if cluster.doubted else ""
    where = "" if found.turn is None else f", message {found.turn + 1}"
    return el(
        "tr",
        el("td", f"{len(cluster.trials):,}", class_="num"),
        el("td", cluster.cause.blame),
        el("td", el("b", cluster.words), el("br"), el("small", names, doubt)),
        el(
            "td",
            el("code", one_line(shown_name(str(result.key)), 120)),
            where,
            el("br"),
            el("small", one_line(found.detail, 300)),
        ),
        el("td", cluster.fix),
    )


# --- history ----------------------------------------------------------------------------------------------------------

_RUNS = 60
_LAST_RUNS = 12
_TASKS = 40


def over_time(entries: Sequence[Entry]) -> Markup | None:
    """Return the chart, the last runs, the tasks that went bad and the flaky ones; None where there is no past."""
    found = trend(entries)
    if found is None or len(found.runs) < 2:
        return None
    other = f" {count(found.left_out, 'run')} measured otherwise and left out." if found.left_out else ""
    series: dict[str, dict[int, float]] = {}
    for number, entry in enumerate(found.runs[-_RUNS:], 1):
        for name, value in entry.rates().items():
            label = one_line(label_of(*name.split("/", 1)), 60)
            series.setdefault(label, {})[number] = value
    return el(
        "section",
        el("h2", "Over time"),
        el("p", f"The last {min(_RUNS, len(found.runs))} of {count(len(found.runs), 'run')}, the newest last.{other}"),
        charts.curve(series, "Success rate by run"),
        charts.legend(series),
        _cells_table(
            "Runs",
            ("When", "Revision", "Agent", "Verdict", "Rate", "Trials"),
            [_run(entry) for entry in reversed(found.runs[-_LAST_RUNS:])],
        ),
        _turned(found),
        _flaky(found),
        id="past",
    )


def _run(entry: Entry) -> tuple[str, ...]:
    succeeded, every = entry.trials
    when, agent = entry.at[:16].replace("T", " "), one_line(entry.agent, 60)
    return when, entry.revision, agent, entry.verdict, rate(entry.rate or 0.0), f"{succeeded:,} of {every:,}"


def _turned(found: Trend) -> Markup | None:
    rows = [
        (one_line(shown_name(t.task), 120), t.since.name, str(t.runs), t.last_good.name) for t in found.turned[:_TASKS]
    ]
    titles = ("Went bad", "First bad run", "Runs since", "Last good run")
    return _cells_table("Tasks that went bad", titles, rows) if rows else None


def _flaky(found: Trend) -> Markup | None:
    worst = sorted(found.flaky.items(), key=lambda item: item[1][0] / item[1][1])
    rows = [(one_line(shown_name(task), 120), f"{won}/{every}") for task, (won, every) in worst[:_TASKS]]
    return _cells_table("Flaky tasks", ("Flaky", "Trials that succeeded"), rows) if rows else None


def _cells_table(label: str, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    return scroller(label, table(titles, [el("tr", [el("td", cell) for cell in row]) for row in rows]))


# --- against a baseline, and agents against each other ----------------------------------------------------------------

# All tasks are in the JSON of a2a-bench compare.
_CHANGED = 200
_OPEN_CHANGED = 12


def against_baseline(comparison: Comparison, contents: Contents) -> Markup:
    """Return the comparison with a baseline, paired by task, and what both cost, as far as its trials are there."""
    name = contents.baseline_name or "the baseline"
    moved = [task for task in comparison.tasks if task.drop]
    warnings = [el("li", f"Measured differently: {text}") for text in comparison.differences]
    return el(
        "section",
        el("h2", "Against the baseline"),
        el("p", "Compared with ", el("strong", name), f", task by task. {_summary(comparison)}"),
        el("ul", warnings, class_="cautions") if warnings else None,
        _groups(comparison) if comparison.overall else None,
        _spent(contents) if contents.beside else None,
        _moved(moved) if moved else None,
        el("p", _comparison_notes(comparison), class_="note"),
        id="baseline",
    )


def _spent(contents: Contents) -> Markup:
    before = list({str(r.key): r for r in contents.beside.values()}.values())
    sides = (("Before", before), ("Now", contents.trials))
    rows = [[name, *summary.spent(trials, Baseline.of(trials))] for name, trials in sides]
    return _cells_table("Cost, time and tokens", ("", *summary.SPENT), rows)


def against_each_other(compared: Sequence[AgentComparison]) -> Markup:
    """Return each further agent of a run compared with the first."""
    return el("section", el("h2", "Agents against each other"), [_agents(found) for found in compared], id="agents")


def _agents(found: AgentComparison) -> Markup:
    moved = [task for task in found.comparison.tasks if task.drop]
    sides = (found.reference, found.agent)
    return el(
        "div",
        el("h3", f"{found.agent} against {found.reference}"),
        el("p", found.sentence),
        _groups(found.comparison, sides) if found.comparison.overall else None,
        _moved(moved, sides) if moved else None,
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


def _comparison_notes(comparison: Comparison) -> str:
    notes = [
        "The change is in percentage points, averaged over tasks. "
        f"The {_interval(comparison)} has {100 * comparison.level:.3g} % on either side: of each of its ends alone one "
        f"is {100 * (1 - comparison.level):.3g} % sure, as the verdict says. "
        "p is the chance that an unchanged agent does as badly as now or worse (exact, one-sided)."
    ]
    for name, tasks in (("this run", comparison.only_after), ("the baseline", comparison.only_before)):
        if tasks:
            notes.append(f"{count(len(tasks), 'task')} {'is' if len(tasks) == 1 else 'are'} only in {name}.")
    if comparison.changed:
        notes.append(f"{count(len(comparison.changed), 'task')} changed between the runs and cannot be compared.")
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
    titles = ("Domain", "Tasks", *sides, "Change", _interval(comparison), "p")
    return scroller("Change by domain", _versus(titles, [_group(g) for g in groups]))


def _group(group: GroupComparison) -> Markup:
    cells = (
        f"{group.tasks:,}",
        rate(group.before.rate),
        rate(group.after.rate),
        points(-group.drop),
        # Changes are gains, the other way round than drops.
        f"{points(-group.high)} to {points(-group.low)}",
        p_value(group.p),
    )
    marked = [el("td", text, class_=_number(-group.drop if i == 3 else 0)) for i, text in enumerate(cells)]
    # "all" has no suite.
    suite, _, domain = group.name.partition("/")
    return el("tr", el("th", label_of(suite, domain) if domain else group.name, scope="row"), marked)


def _moved(moved: Sequence[TaskComparison], sides: tuple[str, str] = ("Before", "Now")) -> Markup:
    more = len(moved) - _CHANGED
    return el(
        "details",
        el("summary", f"{count(len(moved), 'task')} that changed"),
        _versus(("Task", *sides, "Change"), [_task(task) for task in moved[:_CHANGED]]),
        el("p", f"… and {more:,} more", class_="note") if more > 0 else None,
        open=len(moved) <= _OPEN_CHANGED,
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


def _versus(titles: Sequence[str], rows: Sequence[Markup]) -> Markup:
    head = [el("th", text, scope="col", class_="num" if i else None) for i, text in enumerate(titles)]
    return table(head, rows, "versus")


def _number(gain: float) -> str:
    return "num up" if gain > 0 else "num down" if gain < 0 else "num"


# --- conformance ------------------------------------------------------------------------------------------------------

_STATUS_TONES = {
    "failed": "bad",
    "error": "bad",
    "warned": "unsure",
    "inconclusive": "unsure",
    "waived": "muted",
    "passed": "good",
    "explained": "muted",
    "skipped": "muted",
}
"""Status of a check -> the tone of its pill; findings are listed in this order."""
_FINDINGS = 200


def conformance(rows: Sequence[CheckRow], explanations: Mapping[str, str]) -> Markup:
    """Return the matrix of groups and bindings, and the findings.

    :param explanations: texts of findings by the names of their checks.
    """
    titles, *body = findings.matrix_cells(rows)
    matrix = [el("tr", el("th", row[0], scope="row"), [_cell(c) for c in row[1:]]) for row in body]
    levels = [el("li", el("strong", f"A2A {level.version} "), level.text) for level in compliance(rows)]
    return el(
        "section",
        el("h2", "Conformance"),
        el("ul", levels, class_="plain"),
        scroller("Conformance matrix", table(titles, matrix, "matrix")),
        el("p", findings.count_line(rows), class_="note"),
        _findings(rows, explanations),
        id="conformance",
    )


def _cell(text: str) -> Markup:
    tone = "muted"
    if "failed" in text or "error" in text:
        tone = "bad"
    elif any(word in text for word in ("warned", "waived", "inconclusive")):
        tone = "unsure"
    elif "/" in text:
        tone = "good"
    return el("td", text, class_=f"cell {tone}" if text else None)


def _findings(rows: Sequence[CheckRow], explanations: Mapping[str, str]) -> Markup | None:
    shown = [row for row in rows if row.status in ("failed", "error", "warned", "inconclusive", "waived")]
    if not shown:
        return None
    order = list(_STATUS_TONES)
    shown.sort(key=lambda row: order.index(row.status))
    more = len(shown) - _FINDINGS
    return el(
        "div",
        el("h3", count(len(shown), "finding")),
        [_finding(row, explanations.get(row.name, "")) for row in shown[:_FINDINGS]],
        el("p", f"… and {more:,} more", class_="note") if more > 0 else None,
        class_="findings",
    )


def _finding(row: CheckRow, text: str) -> Markup:
    name = el("span", f"{row.id} [{row.binding}] {row.level}", class_="mono")
    pill = _pill(_STATUS_TONES[row.status], row.status)
    said = text or row.reason or "nothing more is known here; the conformance report has it"
    return el("details", el("summary", pill, name, f" {one_line(row.requirement, 300)}"), el("pre", said))
