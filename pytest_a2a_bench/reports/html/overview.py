"""The top of a page: the verdict, the main numbers, and the conditions of the measurement (pure)."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from pytest_a2a_bench.gates.files import StoredGate, StoredVerdict
from pytest_a2a_bench.model import Cost, TrialResult, percentile
from pytest_a2a_bench.reports.contents import Contents, cautions, provenance
from pytest_a2a_bench.reports.html import records
from pytest_a2a_bench.reports.html.markup import el, join, rate, seconds
from pytest_a2a_bench.results.agents import agent_names
from pytest_a2a_bench.results.inference import wilson
from pytest_a2a_bench.results.stats import count

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
    """Return how the numbers were measured, and the notes to read before they are compared with others, folded."""
    notes = [el("li", note) for note in cautions(contents)]
    facts = [el("div", el("dt", name), el("dd", value)) for name, value in provenance(contents)]
    folded = el(
        "details",
        el("summary", f"Before you compare these numbers: {count(len(notes), 'note')}"),
        el("ul", notes, class_="cautions"),
    )
    return el("section", folded if notes else None, el("dl", facts, class_="facts"), aria_label="Conditions")


def verdict(contents: Contents) -> Markup:
    """Return the verdict, its gates and the headline numbers."""
    found = contents.verdict
    parts: list[Markup] = []
    if found is not None:
        parts.append(_banner(found))
        if found.gates:
            parts.append(el("ul", [_gate(g) for g in found.gates], class_="gates"))
        parts += [el("p", note, class_="note") for note in found.notes]
    for name in agent_names(contents.trials) or (None,):
        own = [r for r in contents.trials if r.key.agent == name]
        parts += [el("h3", name)] if name is not None else []
        parts += [_headline(own)] if own else []
    if not parts:
        parts.append(el("p", "No conversation was held.", class_="note"))
    return el("section", el("h2", "Verdict" if found else "Result"), parts, id="verdict")


def pill(tone: str, text: str) -> Markup:
    """Return a word with a mark before it, so that its colour is not all that it has."""
    return el("span", text, class_=f"pill {tone}")


def _banner(found: StoredVerdict) -> Markup:
    word = _WORDS.get(found.verdict, found.verdict)
    if found.verdict == "inconclusive":
        # What it meant for the exit code.
        word += ": the run does not pass" if found.failed else ": the run passes all the same"
    return el("p", word, class_=f"banner {_TONES.get(found.verdict, 'bad')}")


def _gate(gate: StoredGate) -> Markup:
    # What fails nothing is not shown as if it did.
    tone = "unsure" if gate.tier == "advisory" and gate.verdict != "pass" else _TONES.get(gate.verdict, "bad")
    word = gate.word.capitalize() or _WORDS.get(gate.verdict, gate.verdict)
    word += f" ({gate.tier})" if gate.tier != "supporting" else ""
    details = el("pre", "\n".join(gate.details)) if gate.details else None
    return el("li", pill(tone, word), el("strong", gate.name), el("span", gate.sentence, details))


def _headline(trials: Sequence[TrialResult]) -> Markup:
    counted = [r for r in trials if r.status != "skipped"]
    passed = sum(r.success for r in counted)
    low, high = wilson(passed, len(counted)) if counted else (0.0, 1.0)
    # Over all trials: turns before an error were real ones.
    turns = sorted(s for r in trials for s in r.turn_latencies)
    cost = sum((r.spent for r in trials), Cost())
    known = sum(r.cost is not None for r in trials)
    tasks = len({r.key.task_key for r in trials})
    troubled = count(sum(records.state(r).endswith("_error") for r in trials), "error")
    absent = sum(r.status == "not_run" for r in trials)
    troubled += f", {absent:,} not run" if absent else ""
    return el(
        "dl",
        _figure(
            "Trials passed",
            rate(passed / len(counted)) if counted else "\u2013",
            f"{passed:,} of {len(counted):,}; 95 % interval {rate(low)} to {rate(high)}"
            if counted
            else "all were skipped",
        ),
        _figure("Trials", f"{len(trials):,}", f"of {count(tasks, 'task')}; {troubled}"),
        _figure("Median turn", seconds(percentile(turns, 50)), f"p95 {seconds(percentile(turns, 95))}"),
        _figure("Cost", str(cost) if known else "\u2013", _cost_note(cost, known, len(trials))),
        class_="headline",
    )


def _cost_note(cost: Cost, known: int, trials: int) -> str:
    if not known:
        return "none was reported"
    of = "" if known == trials else f"known for {known:,} of {trials:,} trials"
    return "; ".join(filter(None, (cost.parts, of))) or "agent, user and judge"


def _figure(name: str, value: str, note: str) -> Markup:
    return el("div", el("dt", name), el("dd", join([el("b", value), el("small", note)])))
