"""A trial as JSON for the page: a short row for the table, and a record for the viewer (pure).

Both are JSON. Texts are sanitised, and bounded with a note of what was left out: the trial's file has all of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from pytest_a2a_bench.benchmarks.registry import change_of, label_of, remarks_of, short_name, shown_name, variant_of
from pytest_a2a_bench.model import Party, ProtocolMetrics, Reward, ToolCall, TrialResult, Turn, dollars, percentile
from pytest_a2a_bench.reports.trial_text import cause_of, diagnosis_of, noise_text, sentence
from pytest_a2a_bench.results.gates.noise import events_of
from pytest_a2a_bench.text import one_line, sanitise

# A task's key is bounded, as ids are the benchmark's.
KEY = 1_000
# A page is for looking; the trial's file has everything.
TEXT = 20_000
TURNS = 600
REQUESTS = 600
_FACT = 400
_LINES = 300

STATES = {
    "missed": "missed",
    "infrastructure_error": "infrastructure error",
    "evaluator_error": "evaluator error",
    "harness_error": "harness error",
    "not_run": "not run",
    "skipped": "skipped",
    "passed": "passed",
}
"""Outcomes of a trial, the worst first, and their names."""


def state(result: TrialResult) -> str:
    """Return one of :data:`STATES`."""
    if result.status != "evaluated":
        return result.status
    return "passed" if result.success else "missed"


def domain(result: TrialResult) -> str:
    """Return the name that a domain has in tables."""
    return label_of(result.key.suite, result.key.domain, variant_of(result))


def category(result: TrialResult) -> str:
    """Return the category of a task, if its benchmark has categories."""
    return str(result.category or result.provenance.get("category") or "")


def row(result: TrialResult) -> dict[str, Any]:
    """Return the table's row; numbers may be None.

    ``h`` is the short name, where there is one, ``x`` is more text to search, and ``e`` marks an estimated cost.
    """
    key = one_line(str(result.key), KEY)
    return {
        "k": key,
        **({"h": shown} if (shown := one_line(shown_name(str(result.key)), KEY)) != key else {}),
        "s": state(result),
        "d": one_line(domain(result), 80),
        "c": one_line(category(result), 80),
        "r": result.reward if result.status == "evaluated" else None,
        "w": one_line(why(result), 180),
        "n": result.turns,
        "t": round(result.duration, 4),
        "p": round(result.latency, 4) if result.turn_latencies else None,
        "u": result.cost,
        **({"e": True} if result.spent.estimated else {}),
        "x": " ".join(dict.fromkeys(one_line(c.name, 60) for c in result.tool_calls)),
    }


def order(result: TrialResult) -> tuple[Any, ...]:
    """Return the sort key of a trial: task 2 comes before task 10, and those with short names by their numbers."""
    key = result.key
    parts = re.split(r"(\d+)", short_name(key.task_key) or key.task_id)
    # Numbers by value: odd parts of the split are digits.
    natural = tuple((int(p), "") if i % 2 else (0, p) for i, p in enumerate(parts))
    return (key.suite, key.domain, natural, key.label or "", key.trial, key.agent or "")


def why(result: TrialResult) -> str:
    """Return the shortest reason for the outcome of a trial; empty where it passed."""
    if result.error:
        return f"{result.error_type}: {result.error}" if result.error_type else result.error
    if result.user_fault:
        return f"user at fault: {result.user_fault.words}"
    found = diagnosis_of(result)
    if found is not None and found.kind != "unexplained":
        return cause_of(result.key.suite, found.kind).about(found.subject)
    reward = result.reward_info
    if reward is None or reward.success:
        return ""
    # Only checks that count: others did not decide the reward.
    missed = [check for check in reward.checks if check.counted and not check.met]
    if missed:
        if missed[0].kind == "db" and reward.db_diff:
            return reward.db_diff[0] + (f" (and {len(reward.db_diff) - 1} more)" if reward.db_diff[1:] else "")
        more = f" (and {len(missed) - 1} more)" if len(missed) > 1 else ""
        return f"{missed[0].kind}: {missed[0].description}{more}"
    return reward.note or (result.termination_reason or "").replace("_", " ")


def detail(result: TrialResult) -> dict[str, Any]:
    """Return the members that the page's viewer reads."""
    requests = [_request(m) for m in result.metrics]
    for party in result.parties:
        requests += [{**_request(m), "method": one_line(f"{party.name}: {m.method}", 60)} for m in party.metrics]
    return {
        "k": one_line(str(result.key), KEY),
        "s": state(result),
        "error": bounded(result.error),
        "error_type": one_line(result.error_type or "", 120),
        "facts": _facts(result),
        "reward": None if result.reward_info is None else _reward(result.reward_info),
        "turns": [turn_record(t) for t in result.transcript[:TURNS]],
        "left_out": max(0, len(result.transcript) - TURNS),
        "findings": [
            {"rule": one_line(f.rule, 80), "message": bounded(f.message), "raw": bounded(f.raw), "turn": f.turn}
            for f in (*result.findings, *(f for p in result.parties for f in p.findings))[:_LINES]
        ],
        "wire": requests[:REQUESTS],
        "wire_left_out": max(0, len(requests) - REQUESTS),
    }


def beside(result: TrialResult, name: str) -> dict[str, Any]:
    """Return the same trial of another run for the viewer.

    :param name: the name of that run.
    """
    return {
        "name": one_line(name, 120),
        "s": state(result),
        "w": one_line(why(result), 180),
        "turns": [turn_record(t) for t in result.transcript[:TURNS]],
        "left_out": max(0, len(result.transcript) - TURNS),
    }


def _facts(result: TrialResult) -> list[list[str]]:
    wire = result.wire
    pairs: Iterable[tuple[str, Any]] = (
        *_diagnosed(result),
        ("ended by", (result.termination_reason or "").replace("_", " ")),
        ("turns", result.turns),
        ("seconds", round(result.duration, 2)),
        ("requests", wire.requests or ""),
        ("retries", wire.retries or ""),
        ("tokens in", result.agent_usage.input_tokens),
        ("tokens out", result.agent_usage.output_tokens),
        ("cost", None if result.cost is None else result.spent.words),
        ("tokens estimated", _estimated(result)),
        ("user", result.user),
        ("judge", result.provenance.get("judge")),
        *((name, f"{value:.3g}") for name, value in (result.reward_info.metrics if result.reward_info else {}).items()),
        ("agent", result.key.agent),
        ("benchmark changed", change_of(result)),
        *((f"noise {number}", noise_text(event)) for number, event in enumerate(events_of(result), 1)),
        ("known of the task", "; ".join(remarks_of(result))),
        ("run again", ", ".join(result.held_again)),
        ("user at fault", result.user_fault.words if result.user_fault else None),
        ("extra turn", result.extra_turn.verdict if result.extra_turn else None),
        ("of the user", "; ".join(f"{fact.words}: {fact.detail}" for fact in result.user_facts)),
        ("run again for its user", ", ".join(fault.kind for fault in result.user_retries)),
        ("run again in vain", result.retry_error),
        ("reused from", result.reused_from),
        ("replayed", "yes" if result.provenance.get("replayed") else None),
        *((f"{party.name} ({party.role})", _party(party)) for party in result.parties),
        ("ended by the doing of", result.blame),
        ("dialect", result.dialect),
        ("seed", result.seed),
        ("started", result.started_at[:19].replace("T", " ")),
        ("context", result.context_id),
    )
    return [[name, one_line(str(value), _FACT)] for name, value in pairs if value not in (None, "")]


def _diagnosed(result: TrialResult) -> list[tuple[str, str]]:
    found = diagnosis_of(result)
    if found is None:
        return []
    return [
        ("missed because", sentence(result, found)),
        ("in detail", found.detail),
        ("likely fix", cause_of(result.key.suite, found.kind).remedy(found.subject)),
    ]


def _party(party: Party) -> str:
    middle = percentile(sorted(party.turn_latencies), 50)
    known = (
        ("turns", party.turns),
        ("requests", party.wire.requests),
        ("failed requests", party.wire.errors or None),
        ("median turn", None if middle is None else f"{middle:.2f} s"),
        ("tokens in", party.usage.input_tokens),
        ("tokens out", party.usage.output_tokens),
        ("cost", None if party.usage.cost_usd is None else dollars(party.usage.cost_usd)),
        ("findings", len(party.findings) or None),
        ("agent", party.agent or None),
    )
    return ", ".join(f"{name} {value}" for name, value in known if value is not None)


def _estimated(result: TrialResult) -> str:
    used = result.estimated_usage
    known = (("tokens in", used.input_tokens), ("tokens out", used.output_tokens))
    tokens = ", ".join(f"{name} {value}" for name, value in known if value is not None)
    return f"{tokens}, for {result.provenance.get('agent_model')}" if tokens else ""


def _reward(reward: Reward) -> dict[str, Any]:
    return {
        "value": reward.value,
        "parts": [[one_line(str(name), 60), value] for name, value in reward.breakdown.items()],
        "checks": [
            {
                "kind": one_line(c.kind, 60),
                "text": bounded(c.description),
                "detail": bounded(c.detail),
                "met": c.met,
                "counted": c.counted,
            }
            for c in reward.checks[:_LINES]
        ],
        "note": bounded(reward.note),
        "diff": [bounded(line, 1_000) for line in reward.db_diff[:_LINES]],
    }


def turn_record(turn: Turn) -> dict[str, Any]:
    """Return the members of one message that the page's viewer reads."""
    found: dict[str, Any] = {"role": turn.role}
    if turn.party:
        found["party"] = one_line(turn.party, 60)
    if turn.text:
        found["text"] = bounded(turn.text)
    if turn.calls:
        found["calls"] = [_call(c) for c in turn.calls[:_LINES]]
    if turn.role == "tool":
        found |= {"tool": one_line(turn.tool or "", 120), "whose": turn.requestor or "", "failed": turn.error}
    return found


def _call(call: ToolCall) -> dict[str, str]:
    arguments = json.dumps(call.arguments, ensure_ascii=False, indent=2, default=str)
    return {"name": one_line(call.name, 120), "arguments": bounded(arguments)}


def _request(m: ProtocolMetrics) -> dict[str, Any]:
    return {
        "method": one_line(m.method, 60),
        "status": m.status_code,
        "ms": round(m.latency_ms, 2),
        "at": one_line(m.timestamp[11:23], 12),
        "attempt": m.attempt,
        "in": m.input_tokens,
        "out": m.output_tokens,
        "estimated": m.estimated,
        "error": one_line(m.error or "", 300),
    }


def bounded(text: str | None, limit: int = TEXT) -> str:
    """Return sanitised text, cut with a note of how much is left out."""
    plain = sanitise(text or "")
    if len(plain) <= limit:
        return plain
    return f"{plain[:limit]}\n… {len(plain) - limit:,} more characters are in the trial's file"
