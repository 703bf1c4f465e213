"""Gates: thresholds, ceilings and a baseline make trials into a verdict. Pure.

Each gate gives one :class:`GateResult`: ``pass``, ``regressed`` or ``inconclusive``, with its numbers and a sentence.
Rates are over every trial that was not quarantined or skipped: one that could not be evaluated counts in no numerator
and stays in the denominator.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pytest_a2a_bench.config.settings import PLAIN, Settings
from pytest_a2a_bench.model import Cost, TrialResult, percentile
from pytest_a2a_bench.model.messages import numbered
from pytest_a2a_bench.results import inference
from pytest_a2a_bench.results.baseline import Baseline
from pytest_a2a_bench.results.compare import (
    AgentComparison,
    Comparison,
    GateVerdict,
    compare,
    compare_agents,
    describe_drop,
    judge_drop,
    passes_at_worst,
)
from pytest_a2a_bench.results.gates.files import ALIKE, NEW_BASELINE, baselines_of
from pytest_a2a_bench.results.gates.noise import judge_noise
from pytest_a2a_bench.results.gates.terms import (
    BLAMELESS,
    BREAKER,
    ERRORS,
    EVERY_TRIAL,
    ITEMS,
    MISSING,
    QUARANTINE,
    Decision,
    GateResult,
    Thresholds,
    Trials,
    Verdict,
    floor_name,
    groups_of_result,
    metric_name,
    pass_k_name,
)
from pytest_a2a_bench.results.stats import count, describe_blameless, is_blameless, pass_hat_k, task_name
from pytest_a2a_bench.text import listed, p_value


def judge(trials: Trials, thresholds: Thresholds, baseline: Baseline | None = None) -> Verdict:
    """Judge a run."""
    gates: list[GateResult] = []
    notes: list[str] = []
    comparison: Comparison | None = None
    if baseline is not None and not trials.named and (trials.results or trials.lost or trials.selected):
        # From the counted trials only: what is quarantined must neither help nor hurt.
        comparison = compare(baseline, Baseline.of(trials.counted), trials.level)
    asked = [floor_name(g) for g in thresholds.min_pass] + [pass_k_name(k) for k in thresholds.min_pass_k]
    asked += ["baseline"] if baseline is not None else []
    # First: it says what no threshold covers.
    gates += _every_trial(trials, thresholds, comparison)
    # Floors speak of whole domains; chosen trials are no sample of one.
    if trials.named and asked:
        notes.append(f"not judged, because only trials that were named ran: {', '.join(asked)}")
    elif trials.results or trials.lost or trials.selected:
        gates += _floors(trials, thresholds, notes)
        gates += [_pass_k(trials, k, rate) for k, rate in thresholds.min_pass_k.items()]
        if baseline is not None and comparison is not None:
            notes += [f"baseline {baseline.source}: {note}" for note in baseline.notes]
            gates.append(_baseline_gate(trials, baseline, comparison, thresholds.max_drop))
            if "baseline" in trials.decided:
                notes.append("limits and p by domain do not know that the run was ended by what it saw; the gate does")
    is_quarantined = not trials.counted and any(r.status != "skipped" for r in trials.results)
    if is_quarantined and not gates and not trials.named:
        gates.append(nothing(QUARANTINE, sum(r.status != "skipped" for r in trials.results)))
    if trials.results or trials.selected:
        gates += judge_ceilings(trials, thresholds)
    gates = [dataclasses.replace(g, tier=thresholds.tiers.get(g.name, "supporting")) for g in gates]
    # Whatever a run that was cut short has not seen could still change most verdicts.
    if trials.is_partial:
        gates = [_unfinished(gate) for gate in gates]
    gates += _breaker(trials)
    gates += _errors(trials)
    if trials.erred:
        gates.append(_erred(trials))
    return Verdict(tuple(gates), thresholds.inconclusive, trials.errors, tuple(notes), comparison)


def _every_trial(trials: Trials, thresholds: Thresholds, compared: Comparison | None) -> Iterator[GateResult]:
    """Judge the trials that no other gate counts: each of them must pass.

    :param compared: with the baseline, which counts the trials of tasks that it has.
    """
    beside: set[str] = set()
    # Without a common task, or under other conditions, the baseline's own gate says so of all.
    if compared is not None and compared.overall is not None and not compared.differences:
        beside = {*compared.only_after, *compared.changed}

    def is_counted_elsewhere(result: TrialResult) -> bool:
        by_baseline = compared is not None and task_name(result.key) not in beside
        return not trials.named and thresholds.tolerates(groups_of_result(result), baseline=by_baseline)

    chosen = [r for r in trials.counted if not is_counted_elsewhere(r)]
    if not chosen:
        return
    errors = sum(r.status != "evaluated" for r in chosen)
    # A test may want less than success, or more: what it says counts.
    # pytest's outcome and not the reward: a test of the user's own may expect a failure.
    failed = {str(r.key) for r in chosen if not r.success} if trials.failed is None else trials.failed
    # Items that another process reported as misses: it did not know that no gate counts them.
    excused = sum(str(r.key) in trials.excused for r in chosen)
    failed = failed | trials.excused
    misses = sum(r.status == "evaluated" and str(r.key) in failed for r in chosen)
    ok, total = len(chosen) - errors - misses, len(chosen)
    numbers = {"ok": ok, "trials": total, "errors": errors, "excused": excused}
    verdict: GateVerdict = "failed" if misses else "inconclusive" if errors else "pass"
    rest = f", and {errors:,} could not be evaluated" if errors else ""
    text = f"{ok:,} of {count(total, 'trial')} passed{rest}; each of them must"
    if new := sorted({task_name(r.key) for r in chosen} & beside, key=numbered):
        text += f", as the baseline does not judge {listed(new, 3)}; {NEW_BASELINE}"
    yield GateResult(EVERY_TRIAL, verdict, numbers, text, settled=True)


def _breaker(trials: Trials) -> Iterator[GateResult]:
    """Explain why trials were not run. Such a run fails whatever the others came to: the question is not answered."""
    for name, why in ((BREAKER, trials.stopped), (MISSING, trials.absent)):
        if why:
            what = f"{count(trials.not_run, 'trial')} not run" if trials.not_run else "no trial was left to run"
            yield GateResult(name, "inconclusive", {"not_run": trials.not_run}, f"{what}: {why}", refused=True)


def _errors(trials: Trials) -> Iterator[GateResult]:
    """Report errors that a marker such as ``xfail`` hides from pytest: they are missing numbers all the same."""
    number = len(trials.hidden)
    if trials.unreported:
        lost, some = len(trials.unreported), listed(trials.unreported, 3)
        text = f"{count(lost, 'trial')} of the selection did not run, and no report says so (a plugin?): {some}"
        yield GateResult(ERRORS, "inconclusive", {"errors": number + lost}, text, refused=True)
    elif number:
        tests = "its test does" if number == 1 else "their tests do"
        some = listed(trials.hidden, 3)
        text = f"{count(number, 'trial')} could not be evaluated, and {tests} not say so (xfail?): {some}"
        yield GateResult(ERRORS, "inconclusive", {"errors": number}, text, refused=True)


def _erred(trials: Trials) -> GateResult:
    """Show items that ended in an error although their trials were evaluated."""
    keys = sorted(trials.erred)
    their = "its item" if len(keys) == 1 else "their items"
    text = f"{count(len(keys), 'trial')} was evaluated, and {their} ended in an error: {listed(keys, 3)}"
    return GateResult(
        ITEMS, "inconclusive", {"errors": len(keys)}, text.replace("trials was", "trials were"), refused=True
    )


# --- floors -----------------------------------------------------------------------------------------------------------


def _floors(trials: Trials, thresholds: Thresholds, notes: list[str]) -> Iterator[GateResult]:
    for group, rate in thresholds.min_pass.items():
        chosen = [r for r in trials.counted if not group or group in groups_of_result(r)]
        # A trial that died with its worker has no group; it counts where every trial does.
        lost = trials.lost if group in ("", BLAMELESS) else 0
        if not chosen and not lost:
            whole = group.removesuffix(BLAMELESS)
            found = sum(not whole or whole in groups_of_result(r) for r in trials.results)
            if trials.nothing_ran or found:
                yield nothing(floor_name(group), 0 if trials.nothing_ran else found)
            else:
                text = f"not judged, because there is no trial of it: {floor_name(group)}"
                if thresholds.tiers.get(floor_name(group)) == "critical":
                    yield GateResult(floor_name(group), "inconclusive", {"trials": 0}, text)
                else:
                    notes.append(text)
            continue
        ok, total = sum(r.success for r in chosen), len(chosen) + lost
        errors = sum(r.status != "evaluated" for r in chosen) + lost
        if errors == total:
            yield nothing(floor_name(group))
            continue
        found_gate = _floor(trials, floor_name(group), rate, _Counted(ok, total, errors))
        other = describe_blameless(chosen)
        yield dataclasses.replace(found_gate, sentence=f"{found_gate.sentence}; {other}") if other else found_gate


BELOW = "below the floor"


class _Counted(NamedTuple):
    """The trials that a floor counts: errors are among them."""

    ok: int
    trials: int
    errors: int


def _floor(trials: Trials, name: str, rate: float, found: _Counted) -> GateResult:
    ok, total, errors = found
    low, high = inference.wilson(ok, total)
    numbers: dict[str, Any] = {"ok": ok, "trials": total, "errors": errors, "rate": ok / total, "minimum": rate}
    numbers["wilson"] = [low, high]
    decision = trials.decided.get(name)
    # The rate as measured, whatever it proves. Shares that are equal on paper may differ in the last bit.
    reached = ok / total >= rate - 1e-12 if decision is None else decision.verdict == "pass"
    what = f"{ok:,} of {count(total, 'trial')} succeeded, {ok / total:.3f}; the minimum is {rate:g}"
    # A run that stopped because of what it saw is no sample that an interval may be taken from.
    what += f"; {decision}" if decision else f" (95 % interval {low:.3f} to {high:.3f})"
    if errors:
        what += f"; {errors} could not be evaluated and {'counts' if errors == 1 else 'count'} as not succeeded"
    # One-sided: only falling below matters to a floor.
    if reached and decision is None and inference.wilson(ok, total, 1 - 2 * inference.LEVEL).low < rate:
        what += "; so few trials do not prove it"
        if not inference.can_prove(rate, total):
            what += ", and could not if all of them succeeded"
    word = "" if reached else BELOW
    settled = not trials.may_still_reach(rate, ok, total)
    return _decided(
        GateResult(name, "pass" if reached else "failed", numbers, what, settled=settled, word=word), decision
    )


def _decided(gate: GateResult, decision: Decision | None) -> GateResult:
    return gate if decision is None else dataclasses.replace(gate, decided_after=decision.after)


def _pass_k(trials: Trials, k: int, rate: float) -> GateResult:
    tasks: dict[str, list[bool]] = defaultdict(list)
    for result in trials.counted:
        tasks[task_name(result.key)].append(result.success)
    # pass^k of a task with fewer trials is not defined.
    enough = [outcomes for outcomes in tasks.values() if len(outcomes) >= k]
    name = pass_k_name(k)
    if (decision := trials.decided.get(name)) is not None:
        numbers: dict[str, Any] = {"k": k, "tasks": len(tasks), "minimum": rate}
        word = "" if decision.verdict == "pass" else BELOW
        ends = "fall below" if decision.verdict == "pass" else "reach"
        what = f"pass^{k} cannot {ends} {rate:g} any more: certain after {decision.after} of {decision.planned} trials"
        return _decided(GateResult(name, decision.verdict, numbers, what, word=word), decision)
    if not any(r.status == "evaluated" for r in trials.counted):
        return nothing(name, 0 if trials.nothing_ran or tasks else len(trials.results))
    # Leaving such tasks out would let a run pass by its luckiest tasks.
    if not enough or trials.lost or len(enough) < len(tasks):
        short = f"{len(tasks) - len(enough)} of {count(len(tasks), 'task')} have fewer than {count(k, 'trial')}"
        lost = f"{count(trials.lost, 'trial')} {'was' if trials.lost == 1 else 'were'} lost with the worker"
        text = lost if trials.lost else short
        return GateResult(
            name, "inconclusive", {"tasks": len(tasks), "minimum": rate}, f"pass^{k} is not known: {text}"
        )
    values = [pass_hat_k(len(outcomes), sum(outcomes), k) for outcomes in enough]
    value = sum(values) / len(values)
    numbers = {"k": k, "tasks": len(values), "value": value, "minimum": rate}
    reached = value >= rate - 1e-12
    word = "" if reached else BELOW
    what = f"pass^{k} is {value:.3f} over {count(len(values), 'task')}; the minimum is {rate:g}"
    return GateResult(name, "pass" if reached else "failed", numbers, what, word=word)


# --- the baseline -----------------------------------------------------------------------------------------------------


def _baseline_gate(trials: Trials, baseline: Baseline, comparison: Comparison, allowed: float) -> GateResult:
    group = comparison.overall
    if comparison.differences:
        text = f"not comparable with {baseline.source or 'the baseline'}: {'; '.join(comparison.differences)}"
        found = {"differences": list(comparison.differences)}
        return GateResult("baseline", "inconclusive", found, f"{text}; {ALIKE}", refused=True)
    if group is None:
        text = "no task was evaluated both in this run and in the baseline"
        text += f"; {_changed(comparison)}; {NEW_BASELINE}" if comparison.changed else ""
        return GateResult("baseline", "inconclusive", {"tasks": 0}, text, refused=True)
    decision = trials.decided.get("baseline")
    if decision is not None and comparison.changed:
        text = f"{_changed(comparison)}, and the run ended early by them as well; {NEW_BASELINE}"
        return GateResult("baseline", "inconclusive", {"tasks": group.tasks}, text, refused=True)
    verdict = judge_drop(group, allowed) if decision is None else decision.verdict
    numbers: dict[str, Any] = {**comparison.to_json()["overall"], "allowed": allowed}
    what = f"{decision}; " if decision else ""
    what += (
        f"{group.before.rate:.3f} before, {group.after.rate:.3f} now over {count(group.tasks, 'task')} "
        f"({group.better} better, {group.worse} worse): drop {group.drop:+.3f}"
    )
    if decision is None:
        # A run that stopped because of what it saw is no sample that such limits may be taken from.
        sure = f"{100 * (1 - trials.level):.3g} % sure"
        what += f", {sure} of at least {group.low:+.3f} and of at most {group.high:+.3f}, p {p_value(group.p, '= ')}"
    what += f"; allowed is {allowed:g}"
    if comparison.only_before or comparison.only_after:
        only = f"{count(len(comparison.only_before), 'task')}, only now: {len(comparison.only_after)}"
        what += f"; only in the baseline: {only}"
    if comparison.changed:
        what += f"; {_changed(comparison)}"
    if comparison.errored:
        what += f"; {count(len(comparison.errored), 'task')} could not be evaluated in one of them"
    # Errors never help: where they could hide a drop nothing is known.
    if verdict == "pass" and trials.errors and not _passes_at_worst(trials, baseline, allowed):
        verdict = "inconclusive"
        errors = count(trials.errors, "trial")
        what += f"; {errors} could not be evaluated, and with them as misses the drop may be larger"
    elif verdict == "inconclusive":
        enough, what = _enough(comparison, allowed, what)
        numbers["trials_enough"] = enough
    word = describe_drop(comparison, verdict)
    if verdict == "inconclusive" and not word:
        what += "; they could not show a drop of any size"
    return _decided(GateResult("baseline", verdict, numbers, what, word=word), decision)


def _changed(comparison: Comparison) -> str:
    number = len(comparison.changed)
    return f"{count(number, 'task')} changed since the baseline and {'is' if number == 1 else 'are'} not compared"


def _enough(comparison: Comparison, allowed: float, what: str) -> tuple[int, str]:
    enough = inference.trials_to_tell(comparison.pairs, allowed)
    has = min(min(p.before, p.after) for p in comparison.pairs)
    # Where the trials would be enough for an agent that has not changed, only more of them tell about this one.
    enough = max(enough, has + 1)
    return enough, f"{what}; too few trials to tell: {inference.enough_words(enough, has)}"


def _passes_at_worst(trials: Trials, baseline: Baseline, allowed: float) -> bool:
    """Return whether the gate passes if every trial that could not be evaluated counts as a miss."""
    return not trials.lost and passes_at_worst(baseline, Baseline.of(trials.counted), allowed, trials.level)


def _unfinished(gate: GateResult) -> GateResult:
    # What was decided early is a verdict wherever the run stops.
    if gate.refused or gate.decided_after is not None:
        return gate
    # Only what no later trial could have changed.
    stays = gate.verdict in ("failed", "regressed") and gate.settled
    text = f"the run was cut short; so far: {gate.sentence}"
    word = gate.word if stays else ""
    return dataclasses.replace(gate, verdict=gate.verdict if stays else "inconclusive", sentence=text, word=word)


# --- several agents ---------------------------------------------------------------------------------------------------


def judge_run(trials: Trials, thresholds: Thresholds, settings: Settings, baseline: Baseline | None) -> Verdict:
    """Judge a run, whether its agents have names or not."""
    names = [name for name in settings.under_test if name is not None]
    if not names:
        return judge(trials, thresholds, baseline)
    if settings.is_noise_pair:
        return _judge_noise(trials, thresholds)
    return judge_agents(trials, thresholds, names, baselines_of(settings, baseline))


def _judge_noise(trials: Trials, thresholds: Thresholds) -> Verdict:
    """Judge a run with each trial plain and with noise: the plain ones as usual, and the loss through noise."""
    of_all = Thresholds(inconclusive=thresholds.inconclusive, max_cost=thresholds.max_cost)
    whole = judge(dataclasses.replace(trials, failed=frozenset()), of_all)
    plain = judge(_trials_of(trials, PLAIN, 2), dataclasses.replace(thresholds, max_cost=None))
    robust, compared = judge_noise(trials, thresholds.max_noise_loss)
    gates = [g for g in whole.gates if g.name != EVERY_TRIAL] + [*plain.gates, robust]
    return Verdict(tuple(gates), thresholds.inconclusive, trials.errors, plain.notes, agents=compared)


def judge_agents(
    trials: Trials, thresholds: Thresholds, names: Sequence[str], baselines: Mapping[str, Baseline]
) -> Verdict:
    """Judge a run with agents that have names.

    Gates of the whole run (its cost, that nothing was lost) are judged once. The comparison
    counts every miss, as one with a baseline does.

    :param names: of the agents under test, the reference agent first.
    :param baselines: of those that have one, with tasks named as these agents' trials are.
    """
    if len(names) == 1:
        return judge(trials, thresholds, baselines.get(names[0]))
    of_all = Thresholds(inconclusive=thresholds.inconclusive, max_cost=thresholds.max_cost)
    of_each = dataclasses.replace(thresholds, max_cost=None)
    whole = judge(trials, of_all)
    gates = [gate for gate in whole.gates if gate.name != EVERY_TRIAL or trials.named]
    notes: list[str] = []
    for name in names:
        found = judge(_trials_of(trials, name, len(names)), of_each, baselines.get(name))
        gates += [dataclasses.replace(g, name=f"{g.name}:{name}") for g in found.gates if g.name != EVERY_TRIAL]
        notes += [f"{name}: {note}" for note in found.notes]
    compared: tuple[AgentComparison, ...] = ()
    if trials.named:
        notes.append("agents were not compared, because only trials that were named ran")
    elif trials.results or trials.lost or trials.selected:
        compared = compare_agents(trials.counted, names)
        gates += _agents_gates(trials, compared, thresholds.max_drop)
    return Verdict(tuple(gates), thresholds.inconclusive, trials.errors, tuple(notes), agents=compared)


def _trials_of(trials: Trials, name: str, of: int) -> Trials:
    results = [r for r in trials.results if r.key.agent == name]
    # The agent of a trial that was lost with its worker is unknown; the run does not pass with any.
    return dataclasses.replace(
        trials, results=results, selected=trials.selected // of, lost=0, hidden=(), erred=frozenset(), stopped=""
    )


def _agents_gates(trials: Trials, compared: Sequence[AgentComparison], allowed: float) -> Iterator[GateResult]:
    for found in compared:
        group, name = found.comparison.overall, f"compare:{found.agent}"
        if group is None:
            yield GateResult(name, "inconclusive", {"tasks": 0}, found.sentence, refused=True)
            continue
        verdict: GateVerdict = judge_drop(group, allowed)
        numbers: dict[str, Any] = {**found.comparison.to_json()["overall"], "allowed": allowed}
        numbers |= {"reference": found.reference, "better": found.better, "p_two_sided": found.p}
        what = f"{found.sentence}; it may be worse than {found.reference} by {allowed:g}"
        if verdict == "pass" and (found.errors or trials.lost):
            verdict = "inconclusive"
            what += "; with trials that could not be evaluated it may be worse than that"
        elif verdict == "inconclusive" and allowed > 0:
            has = min(min(p.before, p.after) for p in found.comparison.pairs)
            enough = max(inference.trials_to_tell(found.comparison.pairs, allowed), has + 1)
            numbers["trials_enough"] = enough
            what += f"; too few trials to tell: about {enough} of each task would be enough (there is {has})"
        if trials.is_partial:
            verdict, what = "inconclusive", f"the run was cut short; so far: {what}"
        yield GateResult(name, verdict, numbers, what, word=describe_drop(found.comparison, verdict))


def nothing(name: str, found: int = 0) -> GateResult:
    """Report that there was nothing to judge.

    :param found: how many trials there were that do not count.
    """
    text = "no trial was evaluated"
    if found:
        was, are = ("was", "is") if found == 1 else ("were", "are")
        blamed = ", or its user was at fault" if BLAMELESS in name else ""
        text = f"{count(found, 'trial')} of it {was} skipped or {are} quarantined{blamed}"
    return GateResult(name, "inconclusive", {"trials": 0}, f"nothing to judge: {text}")


def judge_ceilings(trials: Trials, thresholds: Thresholds) -> Iterator[GateResult]:
    """Judge the gates of cost, latency, reward metrics and infrastructure errors."""
    evaluated = any(r.status == "evaluated" for r in trials.results)
    for gate in _ceilings(trials, thresholds):
        yield gate if evaluated or gate.verdict != "pass" else nothing(gate.name)


def _ceilings(trials: Trials, thresholds: Thresholds) -> Iterator[GateResult]:
    if thresholds.max_cost is not None:
        yield _cost(trials.results, thresholds.max_cost)
    latencies = sorted(s for r in trials.results for s in r.turn_latencies)
    for percent, limit in thresholds.max_latency.items():
        yield _latency(latencies, percent, limit)
    for metric, limit in thresholds.max_metric.items():
        yield _metric(trials, metric, limit)
    if thresholds.max_infra_errors is not None:
        found = trials.lost + sum(r.status == "infrastructure_error" for r in trials.results)
        what = "the infrastructure failed {} of {}"
        yield _at_most(trials, "infra_errors", found, thresholds.max_infra_errors, what)
    if thresholds.max_user_faults is not None:
        found = sum(not is_blameless(r) for r in trials.results)
        what = "the simulated user was proven to be at fault in {} of {}"
        yield _at_most(trials, "user_faults", found, thresholds.max_user_faults, what)


def _latency_name(percent: float) -> str:
    return f"max_latency[p{percent:g}]"


def _cost(results: Sequence[TrialResult], limit: float) -> GateResult:
    cost = sum((r.spent for r in results), Cost())
    unknown = sum(_is_unpriced(r) and r.status == "evaluated" for r in results)
    total = cost.total or 0.0
    numbers = {"cost_usd": total, "unknown": unknown, "maximum": limit}
    spent = f"the trials cost {cost.words}" if cost.total is not None else "the cost of no trial is known"
    what = f"{spent}; the maximum is ${limit:g}"
    if total > limit:
        return GateResult("max_cost", "failed", numbers, what, settled=True, word=_ABOVE)
    # An unknown cost may be any cost; only exceeding is certain.
    if unknown:
        some = f"; what {unknown} of {count(len(results), 'trial')} cost is not known" if cost.total is not None else ""
        return GateResult("max_cost", "inconclusive", numbers, what + some)
    return GateResult("max_cost", "pass", numbers, what)


def _is_unpriced(result: TrialResult) -> bool:
    """Return whether the agent's cost is not known, or that of tokens of the user or the judge."""
    return result.spent.agent is None or (bool(result.user_usage.tokens) and result.user_usage.cost_usd is None)


def _latency(latencies: Sequence[float], percent: float, limit: float) -> GateResult:
    name, value = _latency_name(percent), percentile(latencies, percent)
    if value is None:
        text = "the agent answered no turn whose latency is known"
        return GateResult(name, "inconclusive", {"turns": 0, "maximum": limit}, text)
    numbers = {"turns": len(latencies), "seconds": value, "maximum": limit}
    what = f"p{percent:g} of {count(len(latencies), 'turn')} is {value:.3f} s; the maximum is {limit:g} s"
    return _ceiling(name, numbers, what, above=value > limit)


def _metric(trials: Trials, metric: str, limit: float) -> GateResult:
    """Judge the mean of a number over the trials whose rewards have it."""
    name = metric_name(metric)
    having = {r.key: r.reward_info.metrics[metric] for r in trials.counted if _has(r, metric) and r.reward_info}
    if not having:
        found = f"no reward of {count(len(trials.counted), 'trial')} has a number {metric}"
        return GateResult(name, "inconclusive", {"trials": 0, "maximum": limit}, f"nothing to judge: {found}")
    # What could not be evaluated would have had the number where others of its kind have it; of a lost one none knows.
    kinds = {groups_of_result(r) for r in trials.counted if r.key in having}
    # One that says no category may be of any of its domain's.
    broken = [r for r in trials.counted if r.status != "evaluated"]
    errors = [r.key for r in broken if any(set(groups_of_result(r)) <= set(kind) for kind in kinds)]
    # Not a share (NaN is none either): its meaning is unknown.
    odd = [key for key, value in having.items() if not 0 <= value <= 1]
    values = {key: value for key, value in having.items() if key not in odd}
    is_odd = f"of {count(len(odd), 'trial')} it is no number from 0 to 1 ({odd[0]}: {having[odd[0]]:g})" if odd else ""
    if not values:
        found = f"nothing to judge: a number {metric} is there, and {is_odd}; mend what evaluates it"
        return GateResult(name, "inconclusive", {"trials": 0, "maximum": limit}, found)
    numbers: dict[str, Any] = {"trials": len(values), "errors": len(errors) + trials.lost}
    numbers |= {"value": _mean(values.values()), "maximum": limit}
    what = f"the mean {metric} of {count(len(values), 'trial')} is {numbers['value']:.4g}; the maximum is {limit:g}"
    # Shares that are equal on paper may differ in the last bit.
    if _mean([*values.values(), *[0.0] * len(odd)]) > limit + 1e-12:
        # Every value at least 0: a ceiling of 0 that is broken stays so.
        return GateResult(name, "failed", numbers, what, settled=limit == 0, word=_ABOVE)
    if odd:
        return GateResult(name, "inconclusive", numbers, f"{what}; {is_odd}; mend what evaluates it")
    if _mean([*(values | dict.fromkeys(errors, 1.0)).values(), *[1.0] * trials.lost]) > limit + 1e-12:
        number = numbers["errors"]
        could = f"{what}; {number} could not be evaluated, and with {'it' if number == 1 else 'them'} it may be more"
        return GateResult(name, "inconclusive", numbers, could)
    return GateResult(name, "pass", numbers, what)


def _has(result: TrialResult, metric: str) -> bool:
    return result.reward_info is not None and metric in result.reward_info.metrics


def _mean(values: Collection[float]) -> float:
    return sum(values) / len(values)


def _at_most(trials: Trials, what: str, found: int, limit: int | float, words: str) -> GateResult:
    """Judge how many trials, or which share of them, may have something.

    :param words: with places for the number found and for all.
    """
    total = sum(r.status != "skipped" for r in trials.results) + trials.lost
    # Below 1 it is a share; "1" and above count trials.
    is_share = isinstance(limit, float)
    value = found / max(total, 1) if is_share else found
    numbers = {what: found, "trials": total, "maximum": limit}
    shown = f"{limit:.4g} of all trials" if is_share else f"{limit}"
    sentence = f"{words.format(found, count(total, 'trial'))}; the maximum is {shown}"
    gate = _ceiling(f"max_{what}", numbers, sentence, above=value > limit)
    return dataclasses.replace(gate, settled=not is_share)


_ABOVE = "above the ceiling"


def _ceiling(name: str, numbers: Mapping[str, Any], what: str, *, above: bool) -> GateResult:
    return GateResult(name, "failed" if above else "pass", numbers, what, word=_ABOVE if above else "")
