"""The result of an assessment: a summary for people, and one object in the forms that leaderboards read (pure).

The object has the members that AgentBeats' queries read (``score``, ``max_score``, ``pass_rate``, ``task_rewards``,
``time_used``), those of CRMArena's assessor (``metrics``, ``results``), and ours: what was evaluated how, errors apart
from failures, intervals. What cannot be evaluated stays in every denominator. No gold, no expected action and nothing
of a reward's details is in it: the caller may be the agent's author.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_a2a_bench import __version__
from pytest_a2a_bench.assessor.assessment import Concluded, failure_of
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.config.load import Door
from pytest_a2a_bench.conformance.report import Report, counts
from pytest_a2a_bench.model import ToolCall, TrialResult, Turn, sum_usage
from pytest_a2a_bench.reports.reported import REPORTED_PROVENANCE
from pytest_a2a_bench.reports.summary import caveats, provenance_lines, silence
from pytest_a2a_bench.results.inference import wilson
from pytest_a2a_bench.results.stats import count, is_blameless, pass_hat_k_by_k
from pytest_a2a_bench.text import one_line, times

NAME = "Result"
"""The name of the artifact."""

_LONGEST = 2000
"""Characters of an utterance or observation in a trajectory; the transcript on disk has all of it."""

_LARGEST = 2_000_000
"""Characters of an object with trajectories; a larger one goes without them."""


def summary(found: Concluded) -> str:
    """Return a summary for people, in a few lines."""
    lines = _protocol_lines(found) if found.report is not None else _trial_lines(found)
    return found.plan.door.words("\n".join(lines))


def data(found: Concluded) -> dict[str, Any]:
    """Return the object."""
    whole = _protocol_data(found, found.report) if found.report is not None else _trial_data(found)
    whole["assessment"] = {
        "evaluation": found.plan.request.evaluation,
        "run_id": found.run_id,
        "agent": found.agent,
        "interface": found.interface,
        "shard": found.plan.settings.shard,
        "tool": f"pytest-a2a-bench {__version__}",
    }
    return whole


def whole_numbers(text: str | bytes) -> str:
    """Return JSON in which whole numbers are integers; protobuf's Struct, which data parts are, makes them floats."""
    return json.dumps(json.loads(text, parse_float=_parse_number), ensure_ascii=False, separators=(",", ":"))


def _parse_number(text: str) -> float | int:
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


# --- trials -----------------------------------------------------------------------------------------------------------


def _trial_lines(found: Concluded) -> Iterator[str]:
    results = found.results
    passed = sum(r.success for r in results)
    rate = 100 * passed / len(results)
    interval = wilson(passed, len(results))
    yield f"{found.plan.request.domain}: {passed} of {count(len(results), 'trial')} passed ({rate:.1f} %)"
    silent = silence(results)
    if silent:
        yield silent
        if results[0].dialect not in ("auto", None):
            yield f"its tools were described in the dialect {results[0].dialect!r}; config's member 'dialect' chooses"
    yield f"95 % interval of the pass rate: {100 * interval.low:.1f} to {100 * interval.high:.1f} %"
    errors = [r for r in results if r.status != "evaluated"]
    if errors:
        kinds = times(Counter(map(_kind_of, errors)))
        yield f"{count(len(errors), 'trial')} could not be evaluated ({kinds}) and counted as not passed"
    failures = _failures(results)
    if failures:
        yield "how the others ended: " + ", ".join(f"{n}x {reason}" for reason, n in failures.items())
    yield from (line for line in provenance_lines(results) if line != silent)
    yield f"agent: {one_line(found.agent, 200)}; {found.interface}; {found.seconds:.1f} s"


def _trial_data(found: Concluded) -> dict[str, Any]:
    results = found.results
    passed = sum(r.success for r in results)
    by_task: dict[str, list[float]] = defaultdict(list)
    for r in results:
        if r.status == "evaluated":
            by_task[r.key.task_id].append(r.reward)
    # Of this shard: it may have some of a task's trials.
    trials = Counter(key.task_id for key in found.plan.keys)
    # Of several trials the mean, in which one without a reward counts as 0.
    rewards = {task: sum(values) / trials[task] for task, values in by_task.items()}
    rate = passed / len(results)
    interval = wilson(passed, len(results))
    whole: dict[str, Any] = {
        "domain": found.plan.request.domain,
        "score": _number(sum(rewards.values())),
        "max_score": len(trials),
        "pass_rate": _number(100 * rate),
        "task_rewards": {task: _number(value) for task, value in rewards.items()},
        "time_used": round(found.seconds, 3),
        "metrics": {
            "accuracy": _number(rate),
            "successful_tasks": passed,
            "total_tasks": len(results),
            "pass@1": _number(rate),
            **_blameless(results),
            **_pass_hat(results),
        },
        "provenance": _provenance(results),
        "errors": _errors(results, found.plan.door),
        "failures": _failures(results),
        "intervals": {"pass_rate": {"low": 100 * interval.low, "high": 100 * interval.high, "confidence": 0.95}},
        "usage": _usage(results),
        "notes": [one_line(found.plan.door.words(line), 400) for line in (*caveats(results), *_suite_notes(results))],
    }
    entries = list(map(_entry, results))
    if len(json.dumps(entries)) > _LARGEST:
        entries = [{**entry, "trajectory": []} for entry in entries]
        whole["notes"].append("trajectories are left out here for their size; the report has them")
    return {**whole, "results": entries}


def _blameless(results: Sequence[TrialResult]) -> dict[str, float]:
    """Return the success rate of the trials whose user did its part, where that is another one."""
    kept = [r for r in results if is_blameless(r)]
    return (
        {"blameless_accuracy": _number(sum(r.success for r in kept) / len(kept))}
        if 0 < len(kept) < len(results)
        else {}
    )


def _pass_hat(results: Sequence[TrialResult]) -> dict[str, float]:
    """Return pass^k, in which a trial that could not be evaluated did not succeed, as in every rate here."""
    if len({registry.variant_of(r) for r in results if r.status == "evaluated"}) > 1:
        return {}
    by_task: dict[tuple[str, str | None], list[bool]] = defaultdict(list)
    for r in results:
        by_task[r.key.task_key, r.key.label].append(r.success)
    return {f"pass^{k}": _number(value) for k, value in pass_hat_k_by_k(by_task.values()).items()}


def _provenance(results: Sequence[TrialResult]) -> dict[str, Any]:
    """Return versions, user, judge and options behind the numbers; a list where trials differ."""
    suite = registry.find(results[0].key.suite)
    names = dict.fromkeys((*REPORTED_PROVENANCE, *(suite.reported if suite is not None else ())))
    provenance: dict[str, Any] = {}
    for name in names:
        values = list(dict.fromkeys(r.provenance[name] for r in results if r.provenance.get(name) is not None))
        if values:
            provenance[name] = values[0] if len(values) == 1 else values
    dialects = list(dict.fromkeys(r.dialect for r in results if r.dialect))
    return {**provenance, "dialect": dialects[0] if len(dialects) == 1 else dialects}


def _suite_notes(results: Sequence[TrialResult]) -> Iterator[str]:
    suite = registry.find(results[0].key.suite)
    if suite is not None:
        yield from filter(None, [suite.method(results), *suite.notes(results)])


def _failures(results: Sequence[TrialResult]) -> dict[str, int]:
    """Return how trials ended that did not succeed -> how many, the most frequent first."""
    return dict(Counter(filter(None, map(failure_of, results))).most_common())


def _errors(results: Sequence[TrialResult], door: Door) -> dict[str, Any]:
    wrong = [r for r in results if r.status != "evaluated"]
    return {
        "count": len(wrong),
        "by_type": dict(Counter(map(_kind_of, wrong))),
        "trials": [
            {"key": str(r.key), "status": r.status, "type": r.error_type, "error": _message(r, door)} for r in wrong
        ],
    }


def _message(result: TrialResult, door: Door) -> str:
    """Return an error's message; an evaluator's or our own may quote the expected answer, and is left out."""
    return one_line(door.words(result.error or ""), 300) if result.status == "infrastructure_error" else ""


def _kind_of(result: TrialResult) -> str:
    return result.error_type or result.status


def _usage(results: Sequence[TrialResult]) -> dict[str, Any]:
    agent, user = sum_usage(r.agent_usage for r in results), sum_usage(r.user_usage for r in results)
    return {
        "agent_input_tokens": agent.input_tokens,
        "agent_output_tokens": agent.output_tokens,
        "cost_usd": (agent + user).cost_usd,
    }


def _entry(result: TrialResult) -> dict[str, Any]:
    done = result.status == "evaluated"
    return {
        "task_idx": result.key.task_id,
        "trial": result.key.trial,
        "task_type": result.category or result.key.domain,
        "reward": _number(result.reward) if done else None,
        "success": result.success,
        "done": done,
        "status": result.status,
        "termination_reason": result.termination_reason,
        "num_turns": result.turns,
        # An org's observations are what the agent asked for; what tau2's tools and users say is kept to the report.
        "trajectory": list(_trajectory(result)) if result.key.suite == "crmarena" else [],
    }


def _trajectory(result: TrialResult) -> Iterator[dict[str, Any]]:
    number = 0
    turns = result.transcript
    last = max((i for i, turn in enumerate(turns) if turn.role == "agent"), default=-1)
    for i, turn in enumerate(turns):
        if turn.role != "agent":
            continue
        number += 1
        observed = []
        for after in turns[i + 1 :]:
            if after.role == "agent":
                break
            observed.append(after.text or "")
        ends = i == last and result.status == "evaluated"
        yield {
            "turn": number,
            "agent_response": _said(turn),
            "action": _action(turn.calls[0]) if turn.calls else None,
            "observation": _shortened("\n".join(observed)),
            "reward": _number(result.reward) if ends else 0.0,
            "done": ends,
        }


def _said(turn: Turn) -> str:
    if turn.text is not None or not turn.calls:
        return _shortened(turn.text or "")
    return _shortened(json.dumps([{"name": c.name, "arguments": c.arguments} for c in turn.calls], default=str))


def _action(call: ToolCall) -> dict[str, str]:
    values: Mapping[str, Any] = call.arguments
    content = next(iter(values.values())) if len(values) == 1 else dict(values)
    text = content if isinstance(content, str) else json.dumps(content, default=str)
    return {"name": call.name, "content": _shortened(text)}


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]} ... ({len(text) - _LONGEST} characters more)"


def _number(value: float) -> float:
    rounded = round(float(value), 6)
    return int(rounded) if rounded.is_integer() else rounded


# --- the protocol -----------------------------------------------------------------------------------------------------


def _protocol_lines(found: Concluded) -> Iterator[str]:
    assert found.report is not None
    passed, made = _made(found.report)
    yield f"conformance: {passed} of {count(made, 'check')} kept by {one_line(found.agent, 200)} ({found.interface})"
    numbers = counts(found.report.rows)
    yield ", ".join(f"{number} {name}" for name, number in numbers.items() if isinstance(number, int) and number)
    broken = [row for row in found.report.rows if row.status == "failed"]
    yield from (f"failed: {row.id} [{row.binding}] {row.version} {row.level}" for row in broken[:20])
    if len(broken) > 20:
        yield f"... and {len(broken) - 20} more"


def _protocol_data(found: Concluded, report: Report) -> dict[str, Any]:
    passed, made = _made(report)
    return {
        "domain": "conformance",
        "score": passed,
        "max_score": made,
        "pass_rate": _number(100 * passed / made) if made else 0.0,
        "task_rewards": {
            f"{row.version}/{row.id}[{row.binding}]": 1.0 if row.status in ("passed", "warned") else 0.0
            for row in report.rows
            if row.status not in ("skipped", "error", "inconclusive", "explained")
        },
        "time_used": round(found.seconds, 3),
        "is_clean": report.is_clean,
        "counts": counts(report.rows),
        "interfaces": list(report.interfaces),
        "results": [
            {"id": r.id, "binding": r.binding, "version": r.version, "level": r.level, "status": r.status}
            for r in report.rows
            if r.status in ("failed", "warned", "error")
        ],
        "errors": {"count": sum(row.status == "error" for row in report.rows)},
        "failures": dict(Counter(row.group for row in report.rows if row.status == "failed").most_common()),
    }


def _made(report: Report) -> tuple[int, int]:
    """Return how many checks passed, and of how many, without those that do not apply or follow from another."""
    made = [row for row in report.rows if row.status not in ("skipped", "explained")]
    return sum(row.status in ("passed", "warned") for row in made), len(made)
