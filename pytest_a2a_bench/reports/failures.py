"""Why a trial was not a success, in words for terminals and reports. Pure.

Whatever an agent or a simulated user said is untrusted: control characters never reach the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.redact import one_line
from pytest_a2a_bench.reports.diagnosis import cause_of, diagnosis_of, sentence

if TYPE_CHECKING:
    from pytest_a2a_bench.model import Reward, RewardCheck, ToolCall, TrialResult, Turn

_TITLES = {
    "env_assertion": "not true of the environment:",
    "communicate": "never communicated:",
    "nl_assertion": "not true of the conversation, says the judge:",
}
"""Kind of a check -> what stands above those that were not met; a suite may have others (``Suite.check_titles``)."""

LAST_TURNS = 6
_LINES = 30


def headline(result: TrialResult) -> str:
    """Say in one line what came of a trial: why it missed, and its reward by its parts."""
    if result.reward_info is None:
        return f"not evaluated ({result.status})"
    parts = ", ".join(f"{name} {value:g}" for name, value in result.reward_info.breakdown.items())
    ended = f", ended by {result.termination_reason}" if result.termination_reason else ""
    fault = f", user at fault: {result.user_fault.kind}" if result.user_fault else ""
    note = f" ({one_line(result.reward_info.note)})" if result.reward_info.note else ""
    told = diagnosis_of(result)
    known = told is not None and told.kind not in ("unexplained", "user")
    why = f"{cause_of(result.key.suite, told.kind).about(told.subject)}; " if told is not None and known else ""
    return f"{why}reward {result.reward:g}" + (f" = {parts}" if parts else "") + ended + fault + note


def explain(result: TrialResult, path: str | None = None) -> str:
    """Say why a trial has the reward that it has.

    :param path: the transcript's file, as it should be shown.
    """
    said = _turn_lines(result) if result.transcript else ()
    where = [f"transcript: {path}"] if path else ()
    return "\n".join([f"{one_line(str(result.key))}: {headline(result)}", *reasons(result), *said, *where])


def reasons(result: TrialResult) -> Iterator[str]:
    """Yield why a trial has the reward that it has, without what was said."""
    yield from _why(result)
    suite = registry.find(result.key.suite)
    if result.reward_info is not None:
        yield from _reward_lines(result, result.reward_info, _TITLES | dict(suite.check_titles if suite else {}))
    yield from user_lines(result)
    yield from party_lines(result)
    yield from map(one_line, registry.remarks_of(result))
    if result.findings:
        yield "the agent's messages:"
        for finding in result.findings[:_LINES]:
            yield f"  turn {finding.turn}: {one_line(finding.message)} [{finding.rule}] {one_line(finding.raw, 120)}"


def _why(result: TrialResult) -> Iterator[str]:
    told = diagnosis_of(result)
    if told is None or told.kind == "user":  # told by itself
        return
    yield f"why: {sentence(result, told)}"
    if told.detail:
        yield f"  {one_line(told.detail, 1_000)}"


def _turn_lines(result: TrialResult) -> Iterator[str]:
    """Show what the user wanted and how it ended; what was said again and again is shown once."""
    turns = result.transcript
    asked = next((number for number, turn in enumerate(turns) if turn.role == "user"), None)
    lines = [_turn_line(turn) for turn in turns]
    begin, folded = fold_tail(lines, LAST_TURNS)
    if asked is not None and asked < begin:
        yield f"asked: {lines[asked].partition(': ')[2]}"
    yield f"last {len(turns) - begin} of {len(turns)} messages ({result.turns} turns of the agent):"
    yield from (f"  {line}" for line in folded)


def fold_tail(lines: Sequence[str], most: int) -> tuple[int, list[str]]:
    """Return the last lines, those that repeat as a pair or alone shown once with how often; and where they begin.

    :param most: so many are shown at most.
    """
    shown: list[str] = []
    at = len(lines)
    while at > 0 and len(shown) < most:
        size, times = _repeated(lines, at)
        if len(shown) + size > most:
            break
        block = list(lines[at - size : at])
        if times > 1:
            what = "this" if size == 1 else f"these {size} messages"
            block[-1] += f"  [{what}, {times} times]"
        shown[:0] = block
        at -= size * times
    return at, shown


def _repeated(lines: Sequence[str], end: int) -> tuple[int, int]:
    """Return how many lines before ``end`` are said again and again, and how often; ``(1, 1)`` where none are."""
    for size in (1, 2):
        block, times = lines[end - size : end], 1
        while end - size * (times + 1) >= 0 and lines[end - size * (times + 1) : end - size * times] == block:
            times += 1
        if times > 1:
            return size, times
    return 1, 1


def user_lines(result: TrialResult) -> Iterator[str]:
    """Say what the simulated user did wrong, in this conversation and in those that were held again for it."""
    if result.user_fault is not None:
        yield f"the user was at fault ({result.user_fault.kind}): {result.user_fault.words}"
        yield f"  {one_line(result.user_fault.detail, 1_000)}"
    for number, fault in enumerate(result.user_retries, 1):
        yield f"held again, as the user was at fault in conversation {number} ({fault.kind}): {one_line(fault.detail)}"
    if result.retry_error:
        yield f"held again in vain, so that the conversation before it counts: {one_line(result.retry_error)}"


def party_lines(result: TrialResult) -> Iterator[str]:
    """Say which other agents took part, and who had the conversation when it ended."""
    for party in result.parties:
        wire = party.wire
        what = f"{party.name} ({party.role}) answered {party.turns} times in {wire.requests} requests"
        yield what + (f", {wire.errors} of which failed" if wire.errors else "")
    if result.parties:
        ended = "its error" if result.error else "the conversation's end"
        yield f"{ended} was the doing of {result.blame or result.key.agent or 'the agent'}"


def _reward_lines(result: TrialResult, reward: Reward, titles: Mapping[str, str]) -> Iterator[str]:
    yield from _section("what differs in the database:", reward.db_diff)
    for kind in dict.fromkeys(c.kind for c in reward.checks if c.kind not in ("action", "db")):
        missed = [c for c in reward.checks if c.kind == kind and not c.met]
        yield from _section(titles.get(kind, f"{kind.replace('_', ' ')}:"), [_check_text(c) for c in missed])
    yield from _action_lines([c for c in reward.checks if c.kind == "action"], result.transcript)


def _action_lines(actions: list[RewardCheck], turns: Sequence[Turn]) -> Iterator[str]:
    """Say which expected actions were taken; for tau2 a call that failed, or that the other side made, is one, too."""
    if not actions:
        return
    tried = {turn.tool for turn in turns if turn.role == "tool"}
    done = {
        f"{'user' if turn.requestor == 'user' else 'assistant'}: {turn.tool}"
        for turn in turns
        if turn.role == "tool" and not turn.error
    }
    missed = []
    for check in actions:
        who = check.description.partition("(")[0]
        if not check.met or (who.partition(": ")[2] in tried and who not in done):
            missed.append(check)
    counted = "" if any(c.counted for c in actions) else " (not part of the reward)"
    title = f"{len(actions) - len(missed)} of {len(actions)} expected actions were taken{counted}"
    yield from _section(f"{title}; missing:", [_check_text(c) for c in missed]) if missed else [title]


def _check_text(check: RewardCheck) -> str:
    return check.description + (f" ({check.detail})" if check.detail else "")


def _section(title: str, lines: Any) -> Iterator[str]:
    every = list(lines)
    if not every:
        return
    yield title
    yield from (f"  {one_line(line)}" for line in every[:_LINES])
    if len(every) > _LINES:
        yield f"  ... and {len(every) - _LINES} more"


def _turn_line(turn: Turn) -> str:
    who = f"tool {turn.tool}" if turn.role == "tool" and turn.tool else turn.role
    who += f" {turn.party}" if turn.party else ""
    words = [turn.text or "", *map(call_text, turn.calls)]
    mark = " (error)" if turn.error else ""
    return f"{one_line(who, 60)}{mark}: {one_line(' '.join(word for word in words if word))}"


def call_text(call: ToolCall) -> str:
    """Write a tool call as one writes a function's: ``get_user(id="u1")``."""
    arguments = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call.arguments.items())
    return f"{call.name}({', '.join(arguments)})"
