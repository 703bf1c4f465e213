"""The summary of a run, the verdict of its gates, and comparisons of two runs or of many, as lines of text (pure)."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.diagnosis import given_messages
from pytest_a2a_bench.benchmarks.models import is_split
from pytest_a2a_bench.benchmarks.registry import Suite
from pytest_a2a_bench.model import Cost, Party, TrialResult, Usage, dollars, percentile, sum_usage
from pytest_a2a_bench.model.messages import numbered
from pytest_a2a_bench.results.baseline import Baseline
from pytest_a2a_bench.results.compare import AgentComparison, Comparison, GroupComparison, TaskComparison
from pytest_a2a_bench.results.gates.terms import GateResult, Verdict
from pytest_a2a_bench.results.history import Trend
from pytest_a2a_bench.results.stats import DomainSummary, count, describe_blameless, summarise, summarise_categories
from pytest_a2a_bench.text import listed, one_line, p_value, shares, times

NO_MODEL = ("scripted", "a2a")
"""Users other than tau2's own simulator with a model."""


def label_of(s: DomainSummary) -> str:
    """Return the name of a domain in tables, with its variant; with its suite where the domain alone is ambiguous."""
    return registry.label_of(s.suite, s.domain, s.variant)


def lines(results: Sequence[TrialResult], width: int) -> list[str]:
    """Return the table: a line per domain, or a column per domain where that is too wide."""
    table = rows(results)
    if not table:
        return []
    flat = list(aligned(table))
    if max(map(len, flat)) <= width:
        return flat
    return list(aligned([list(column) for column in zip(*table, strict=True)]))


def rows(results: Sequence[TrialResult]) -> list[list[str]]:
    """Return the table's cells, the titles first."""
    summaries = summarise(results, registry.variant_of)
    if not summaries:
        return []
    most = max((k for s in summaries for k in s.pass_hat_k), default=0)
    cells = [_cells(s, most) for s in summaries]
    empty = {name for name in cells[0] if all(row[name] == "0" for row in cells) and name in _ONLY_IF_ANY}
    titles = [name for name in cells[0] if name not in empty]
    return [titles, *([row[title] for title in titles] for row in cells)]


def category_lines(results: Sequence[TrialResult]) -> list[str]:
    """Return a table with a line per category, of several domains one table each."""
    groups = summarise_categories(results, registry.variant_of)
    if len(groups) == 1:
        return _category_table(groups[0])
    return [line for group in groups for line in [label_of(next(iter(group.values()))), *_category_table(group)]]


def _category_table(group: Mapping[str, DomainSummary]) -> list[str]:
    most = max((k for s in group.values() for k in s.pass_hat_k), default=0)
    rows = [_category_cells(category, group[category], most) for category in _in_order(group)]
    titles = [name for name in rows[0] if name != "not evaluated" or any(row[name] != "0" for row in rows)]
    return list(aligned([titles, *([row[title] for title in titles] for row in rows)]))


def _category_cells(category: str, s: DomainSummary, most: int) -> dict[str, str]:
    cells = {
        "category": category,
        "trials": str(s.trials),
        "not evaluated": str(s.trials - s.evaluated),
        "passed": str(s.successes),
        "reward": _number(s.mean_reward, 3),
    }
    cells |= {f"pass^{k}": _number(s.pass_hat_k.get(k), 3) for k in range(2, most + 1)}
    return cells | {**_mean_count(s), "turns": _number(s.turns_mean, 1)}


def _mean_count(s: DomainSummary) -> dict[str, str]:
    suite = registry.find(s.suite)
    return {name: _number(s.means.get(name), 1) for name in (suite.counts[:1] if suite else ())}


def _in_order(categories: Iterable[str]) -> list[str]:
    """Sort categories as their suites list them."""
    listed = dict.fromkeys(category for suite in registry.known() for category in suite.categories)
    known = {name: place for place, name in enumerate(listed)}
    return sorted(categories, key=lambda name: (known.get(name, len(known)), name))


def judge_spread(results: Iterable[TrialResult]) -> Iterator[str]:
    """Yield a line on judges that were asked more than once and did not agree with themselves."""
    judged = [(r.provenance.get("judge"), c.detail) for r in results if r.reward_info for c in r.reward_info.checks]
    split = [(str(judge), differed) for judge, detail in judged if (differed := is_split(detail)) is not None]
    if split:
        many = sum(differed for _, differed in split)
        names = ", ".join(dict.fromkeys(judge for judge, _ in split))
        flips = f"; the judge {names} is not steady" if many > _STEADY * len(split) else ""
        yield f"judgements differed about {many} of {count(len(split), 'assertion')} (judge-times){flips}"


def provenance_lines(results: Sequence[TrialResult]) -> Iterator[str]:
    """Yield the user, the judge, the benchmark and the dialect, without which the numbers compare with no others."""
    # A trial that broke before the user spoke has none.
    users = Counter(_user(r) for r in [r for r in results if r.provenance.get("user")] or results)
    # Of conversations that a project's own tests describe there is no leaderboard.
    listed = [r for r in results if (suite := registry.find(r.key.suite)) is None or suite.from_test is None]
    other = any(r.provenance.get("user") in NO_MODEL for r in listed)
    note = " (not comparable with leaderboard numbers, which need an LLM user)" if other else ""
    yield f"user simulator: {shares(users)}{note}"
    counted = [r for r in results if r.status != "skipped"]
    judgement = sum(bool(r.provenance.get("user_judgement")) for r in counted)
    if judgement:
        yield f"goals that need a user's judgement, which a script has not: {judgement} of {len(counted)} trials"
    judges = Counter(str(r.provenance.get("judge") or "none needed") for r in results if r.status == "evaluated")
    types = _values(results, "evaluation_type")
    yield f"judge: {shares(judges)}" + (f"; evaluation type: {shares(types)}" if types else "")
    yield from judge_spread(results)
    for suite, own in _by_suite(results):
        yield from filter(None, [suite.method(own), *suite.notes(own)])
    dialects = Counter(dialect_of(r) for r in results if r.dialect)
    yield f"benchmark: {shares(_values(results, 'benchmark'))}; dialect: {shares(dialects)}"
    yield from caveats(results)


def dialect_of(result: TrialResult) -> str | None:
    """Return how the agent calls tools; a dialect that is still open at the end was seen in no call."""
    return "no call seen" if result.dialect == "auto" else result.dialect


_SILENT = 3
"""Fewest conversations without a call that show that an agent calls no tools."""


def silence(results: Sequence[TrialResult]) -> str:
    """Return a sentence about an agent that called no tool; empty for other agents."""
    # Benchmarks with tools store how these were described; a scenario may have none.
    judged = [r for r in results if r.status == "evaluated" and "dialect_option" in r.provenance]
    if len(judged) < _SILENT or any(_calls_tools(r) or r.provenance.get("native_calls") for r in judged):
        return ""
    passed = sum(r.success for r in judged)
    return (
        f"the agent called no tool in any of {len(judged)} conversations, of which {passed} passed; "
        "a2a-bench doctor URL shows what it was sent"
    )


def _calls_tools(result: TrialResult) -> bool:
    # A task may begin in the middle of a conversation, in which its author let the agent call tools.
    said = result.transcript[given_messages(result) :]
    return any(turn.calls for turn in said if turn.role == "agent" and turn.party is None)


def caveats(results: Sequence[TrialResult]) -> Iterator[str]:
    """Yield the peculiarities of these trials: replayed, reused, retried, estimated, with other agents.

    The terminal, the page and the files for merge requests all show this.
    """
    yield from filter(None, [silence(results)])
    replayed = sum(bool(r.provenance.get("replayed")) for r in results)
    if replayed:
        yield f"replayed from cassettes, the agent was not asked (--a2a-replay): {replayed} of {len(results)} trials"
    reused = Counter(r.reused_from for r in results if r.reused_from)
    if reused:
        runs = ", ".join(f"{n} of run {run_id}" for run_id, n in reused.most_common())
        yield f"reused, not run again (--a2a-resume): {reused.total()} of {len(results)} trials ({runs})"
    again = Counter(one_line(reason, 60) for r in results for reason in r.held_again)
    if again:
        many = sum(bool(r.held_again) for r in results)
        what = "1 conversation was" if many == 1 else f"{many} conversations were"
        yield f"{what} run again, because a message may have arrived or not (redeliver): {times(again)}"
    yield from _user_faults(results)
    yield from _extra_turns(results)
    yield from party_lines(results)
    yield from _cost(results)
    replaced = [str(r.provenance["replaced"]) for r in results if r.provenance.get("replaced")]
    if replaced:
        first = replaced[0].rpartition("; ")[0]
        yield f"run again, because what was stored cannot be read: {len(replaced)} of {len(results)} trials ({first})"
    others = _values(results, "other_data")
    if others:
        yield (
            f"run again, because what was stored is of other data (--a2a-resume): {others.total()} of {len(results)} "
            f"trials ({', '.join(sorted(others))})"
        )
    if any(r.provenance.get("tagged") for r in results):
        yield "the agent was sent each task's name (--a2a-set tag-trials=on, or builtin:oracle)"
    if results and not any(r.status == "evaluated" for r in results):
        yield NOTHING_MEASURED + _skipped(results)


def _cost(results: Sequence[TrialResult]) -> Iterator[str]:
    """Yield the cost of the run by spender (agent, user, judge), and the basis of estimates."""
    cost = sum((r.spent for r in results), Cost())
    guessed = [r for r in results if r.estimated_usage != Usage()]
    if not guessed:
        if cost.parts:
            yield f"cost {cost.words}"
        return
    silent = sum(r.estimated_usage.tokens is not None for r in guessed)
    sources = ((len(guessed) - silent, "the tokens that the agent reported"), (silent, "the messages alone"))
    known = " and ".join(f"from {source} in {n} of {len(results)} trials" for n, source in sources if n)
    total = f"cost {cost.words}; " if cost.total is not None else ""
    models = shares(_values(guessed, "agent_model"))
    yield f"{total}~ is estimated {known}, for {models} (agent-model)"


NOTHING_MEASURED = "no trial was evaluated: these results say nothing about the agent"


def _skipped(results: Sequence[TrialResult]) -> str:
    """Return how many trials were skipped, and why the first: pytest shows reasons of skips only if it is asked."""
    skipped = [r for r in results if r.status == "skipped"]
    if not skipped:
        return ""
    why = next((f", such as {one_line(r.error, 200)}" for r in skipped if r.error), "")
    return f" ({count(len(skipped), 'trial')} skipped{why})"


def _user_faults(results: Sequence[TrialResult]) -> Iterator[str]:
    faults = Counter(r.user_fault.kind for r in results if r.user_fault)
    if faults:
        again = set(faults) - {"not_understood"} and not any(r.user_retries for r in results)
        remedy = "; --a2a-set user-retry=N holds such trials again" if again else ""
        if "not_understood" in faults:
            remedy += "; a model as the user (--a2a-user llm:MODEL) understands more than a script"
        yield (
            f"the user, not the agent, was at fault in {faults.total()} of {len(results)} trials, which count as they "
            f"came out: {times(faults)}{remedy}"
        )
        tried = [r for r in results if r.status not in ("skipped", "not_run")]
        if blameless := describe_blameless(tried):
            rate = sum(r.success for r in tried) / len(tried)
            yield f"success rate {rate:.2f} of {count(len(tried), 'trial')} (official), {blameless}"
    before = Counter(fault.kind for r in results for fault in r.user_retries)
    if before:
        many = sum(bool(r.user_retries) for r in results)
        what = "1 trial was" if many == 1 else f"{many} trials were"
        yield f"{what} run again, because the user was at fault (user-retry): {times(before)}"
    vain = Counter(r.retry_error.partition(":")[0] for r in results if r.retry_error)
    if vain:
        yield f"{vain.total()} of them in vain ({times(vain)}): what was evaluated before it counts"


def _extra_turns(results: Sequence[TrialResult]) -> Iterator[str]:
    """Yield the outcomes and the cost of extra turns, which are part of no other number."""
    extra = [r.extra_turn for r in results if r.extra_turn is not None]
    if extra:
        verdicts = ", ".join(f"{n} {verdict}" for verdict, n in Counter(e.verdict for e in extra).most_common())
        usage = sum_usage(spent for e in extra for spent in (e.agent_usage, e.judge_usage))
        spent = [count(sum(e.requests for e in extra), "request")]
        spent += (
            [f"{usage.input_tokens or 0:,}/{usage.output_tokens or 0:,} tokens"] if usage.tokens is not None else []
        )
        spent += [dollars(usage.cost_usd)] if usage.cost_usd is not None else []
        ended = count(len(extra), "trial")
        yield f"extra turns: {ended} that the user ended ({verdicts}), {', '.join(spent)}; in no other number"


_STEADY = 0.1
"""Share of assertions about which the judgements of a steady judge may differ."""

_DOING = {"transfer": "took over (transfer)", "user": "played the user in", "colleague": "was asked in"}


def party_lines(results: Sequence[TrialResult]) -> Iterator[str]:
    """Yield a line for each other agent that took part; its numbers are in no other number."""
    names = dict.fromkeys((party.name, party.role) for r in results for party in r.parties)
    for name, role in names:
        own = [(r, p) for r in results for p in r.parties if (p.name, p.role) == (name, role)]
        parts = [p for _, p in own]
        took_part = f"{name} {_DOING[role]} {len(own)} of {count(len(results), 'conversation')}"
        blamed = [r for r, _ in own if r.blame == name]
        broken = sum(r.status != "evaluated" for r in blamed)
        missed = f"; {len(blamed) - broken} missed and {broken} broken by its doing" if blamed else ""
        yield f"{took_part}: {_party_numbers(parts)}{missed}"


def _party_numbers(parts: Sequence[Party]) -> str:
    latencies = sorted(s for p in parts for s in p.turn_latencies)
    usage = sum_usage(p.usage for p in parts)
    turns, errors = sum(p.turns for p in parts), sum(p.wire.errors for p in parts)
    known = [count(turns, "turn"), count(sum(p.wire.requests for p in parts), "request")]
    known += [f"{errors} failed"] if errors else []
    middle, high = percentile(latencies, 50), percentile(latencies, 95)
    known += [f"p50 {middle:.3f} s, p95 {high:.3f} s"] if middle is not None and high is not None else []
    known += [f"tokens {usage.input_tokens or 0}/{usage.output_tokens or 0}"] if usage.tokens is not None else []
    known += [f"cost {dollars(usage.cost_usd)}"] if usage.cost_usd is not None else []
    return ", ".join(known)


def benchmark_notes(results: Sequence[TrialResult]) -> Iterator[str]:
    """Yield the notes of each benchmark on comparing these numbers with others."""
    for suite, own in _by_suite(results):
        yield from suite.notes(own)


def _by_suite(results: Sequence[TrialResult]) -> Iterator[tuple[Suite, list[TrialResult]]]:
    for name in dict.fromkeys(r.key.suite for r in results):
        suite = registry.find(name)
        if suite is not None:
            yield suite, [r for r in results if r.key.suite == name]


_ONLY_IF_ANY = ("user faults", "skipped", "evaluator errors", "harness errors", "not run")


def _cells(s: DomainSummary, most: int) -> dict[str, str]:
    cells = {
        "domain": label_of(s),
        "tasks": str(s.tasks),
        "trials": str(s.trials),
        # The reward and pass^k are over these; all others are counted below.
        "evaluated": str(s.evaluated),
        "reward": _number(s.mean_reward, 3),
    }
    cells |= {f"pass^{k}": _number(s.pass_hat_k.get(k), 3) for k in range(1, most + 1)}
    cells |= {
        "user faults": str(s.user_faults),
        "infra errors": str(s.infra_errors),
        "evaluator errors": str(s.evaluator_errors),
        "harness errors": str(s.harness_errors),
        "skipped": str(s.skipped),
        "not run": str(s.not_run),
        "turns": _number(s.turns_mean, 1),
        "p50": _seconds(s.latency_p50),
        "p95": _seconds(s.latency_p95),
        "tokens in/out": _tokens(s),
        "cost": str(s.cost),
    }
    return cells


def _tokens(s: DomainSummary) -> str:
    known = ((Usage(s.input_tokens, s.output_tokens), ""), (s.estimated, "~"))
    shown = (f"{mark}{u.input_tokens or 0:,}/{u.output_tokens or 0:,}" for u, mark in known if u.tokens is not None)
    return " ".join(shown) or "-"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value * 1000:.0f}ms" if value < 1 else f"{value:.1f}s"


def _user(result: TrialResult) -> str:
    return "none (the task is the question)" if result.user == "none" else result.user or "unknown"


def _values(results: Iterable[TrialResult], name: str) -> Counter[str]:
    return Counter(str(r.provenance[name]) for r in results if r.provenance.get(name))


# --- the verdict of gates, and a comparison of two runs ---


MISSED = 10
"""Most lines of missed tasks."""

MOST = 20
"""Most tasks or trials that a list on the terminal shows."""


def errors_line(errors: int, not_run: int) -> str:
    """Return why a run with errors does not pass.

    :param not_run: how many of them were not run.
    """
    other = f"{count(errors - not_run, 'trial')} could not be evaluated" if errors > not_run else ""
    rest = f"{count(not_run, 'trial')} {'was' if not_run == 1 else 'were'} not run" if not_run else ""
    return f"{' and '.join(filter(None, (other, rest)))}, so this run does not pass"


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

    :param missed: keys of the trials that missed -> the excuse of each beside its gate; may be empty.
    """
    trials: dict[str, dict[str, list[TrialResult]]] = {}
    for result in results:
        if result.status != "skipped":
            name = registry.label_of(result.key.suite, result.key.domain, registry.variant_of(result))
            short = registry.short_name(result.key.task_key).rpartition("/")[2] or result.key.task_id
            task = f"{short}@{result.key.label}" if result.key.label else short
            trials.setdefault(name, {}).setdefault(task, []).append(result)
    lines: list[str] = []
    count = 0
    for name, tasks in trials.items():
        texts = [_rate(task, own, missed) for task, own in sorted(tasks.items(), key=_worst_first) if _any(own, missed)]
        count += len(texts)
        if texts:
            lines += _listed(f"  {name}: ", [one_line(text) for text in texts], 4, width)
    yield from lines[:MISSED]
    if len(lines) > MISSED:
        yield f"  ... {count} tasks in all; a2a-bench show --why has their causes"


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
        yield from aligned([_TITLES, *(_comparison_cells(group) for group in groups)])
    changed = [task for task in comparison.tasks if task.drop]
    if changed:
        yield "tasks that changed:"
        yield from (f"  {line}" for line in some([_task_line(task) for task in changed]))
    for title, names in (
        ("only in the baseline", comparison.only_before),
        ("only in this run", comparison.only_after),
        ("changed, and not compared", comparison.changed),
        ("could not be evaluated in one of the runs", comparison.errored),
    ):
        if names:
            shown = [one_line(registry.shown_name(name), 100) for name in names]
            yield from _wrapped(f"{title} ({len(names)}): ", listed(shown, MOST), 2, width)
    for difference in comparison.differences:
        yield f"not comparable: {one_line(difference)}"


SPENT = ("cost of a trial", "p50 of a turn", "p95", "tokens of a trial in/out")
"""Titles of :func:`spent`."""


def spent(trials: Sequence[TrialResult], baseline: Baseline) -> list[str]:
    """Return cost, times and tokens of a run's trials, as :data:`SPENT` has them; ``-`` stands for an unknown one.

    :param baseline: the measurements of these trials, which may be all that there is of them.
    """
    turns = sorted(seconds for result in trials for seconds in result.turn_latencies)
    p50, p95 = (percentile(turns, share) for share in (50, 95))
    known = [usage for r in trials if (usage := r.agent_usage + r.estimated_usage).tokens is not None]
    tokens = [sum(getattr(u, f"{way}_tokens") or 0 for u in known) / len(known) for way in ("input", "output") if known]
    return [
        baseline.cost,
        *("-" if value is None else f"{value * 1000:,.0f} ms" for value in (p50, p95)),
        "/".join(f"{value:,.0f}" for value in tokens) or "-",
    ]


def agent_lines(found: AgentComparison, width: int) -> Iterator[str]:
    """Yield one agent of a run against another: by domain, then the tasks in which they differ."""
    yield f"{found.agent} against {found.reference} (before is {found.reference}, now is {found.agent}):"
    yield from comparison_lines(found.comparison, width)


def some(lines: Sequence[str], most: int = MOST) -> Iterator[str]:
    """Yield lines, and how many more there are."""
    yield from lines[:most]
    if len(lines) > most:
        yield f"... and {len(lines) - most:,} more"


_TITLES = ["domain", "tasks", "before", "95 %", "now", "95 %", "drop", "at least", "at most", "p", "better", "worse"]


def _comparison_cells(group: GroupComparison) -> list[str]:
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
        p_value(group.p),
        str(group.better),
        str(group.worse),
    ]


def _task_line(task: TaskComparison) -> str:
    word = "worse" if task.drop > 0 else "better"
    was, now = f"{task.before_ok}/{task.before}", f"{task.after_ok}/{task.after}"
    return f"{word:<6}  {was} -> {now}  {one_line(registry.shown_name(task.name), 100)}"


def trend_lines(found: Trend, shown: int = 8) -> Iterator[str]:
    """Yield a history in a few lines."""
    rates = [f"{e.rate:.3f}" for e in found.runs[-shown:] if e.rate is not None]
    other = f"; {count(found.left_out, 'more run')} measured otherwise" if found.left_out else ""
    yield f"success rate of the last {len(rates)} of {len(found.runs)} runs, the newest last: {' '.join(rates)}{other}"
    costs = [e.cost_usd for e in found.runs[-shown:]]
    if any(cost is not None for cost in costs):
        yield f"a conversation cost: {' '.join('-' if cost is None else f'${cost:.4f}' for cost in costs)}"
    if found.turned:
        texts = [
            f"{registry.shown_name(t.task)} since {t.since.name} (good in {t.last_good.name})" for t in found.turned
        ]
        yield f"went bad: {listed(texts, shown)}"
    if found.flaky:
        worst = sorted(found.flaky.items(), key=lambda item: item[1][0] / item[1][1])
        texts = [f"{registry.shown_name(task)} {won}/{every}" for task, (won, every) in worst]
        yield f"flaky: {listed(texts, shown)}"


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
