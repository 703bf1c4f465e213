"""Text about one trial, its outcome, why, its conversation, and the command that runs it again; and clusters of failed
trials by cause, each with an example and a remedy (pure).

Words of agents and simulated users are untrusted: control characters are removed from them.
"""

from __future__ import annotations

import contextlib
import functools
import json
import shlex
import textwrap
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.diagnosis import CAUSES, Cause, Diagnosis, diagnose
from pytest_a2a_bench.model import Reward, RewardCheck, ToolCall, TrialResult, Turn
from pytest_a2a_bench.model.messages import numbered
from pytest_a2a_bench.results.gates.files import Example, Reason
from pytest_a2a_bench.results.gates.noise import events_of, noise_option
from pytest_a2a_bench.results.stats import count
from pytest_a2a_bench.text import counted, listed, one_line, sanitise

SHOWN = 6
"""Lines of a summary of causes."""

_TASKS = 6
EXPLAINED = 5
"""Causes that are explained where not all are wanted; of the others there is a line."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Failed trials of one cause.

    :param suite: the suite of their tasks.
    :param trials: at least one, each with its diagnosis, in the order of the run.
    """

    suite: str
    cause: Cause
    trials: tuple[tuple[TrialResult, Diagnosis], ...]

    @property
    def example(self) -> tuple[TrialResult, Diagnosis]:
        """The shortest trial that shows the place."""
        return min(self.trials, key=lambda t: (t[1].turn is None, bool(t[1].doubt), len(t[0].transcript)))

    @property
    def kind(self) -> str:
        """Its name in files: ``wrong-argument``."""
        return self.trials[0][1].kind

    @property
    def subject(self) -> str:
        """The tool or object that it is about."""
        return self.trials[0][1].subject

    @property
    def words(self) -> str:
        """The event, as a clause."""
        return self.cause.about(self.subject)

    @property
    def fix(self) -> str:
        """The likely fix."""
        return self.cause.remedy(self.subject)

    @property
    def doubted(self) -> int:
        """The number of trials whose task is known to have defects."""
        return sum(bool(d.doubt) for _, d in self.trials)

    @property
    def tasks(self) -> dict[str, int]:
        """Task -> its trials in the cluster, in the order of task numbers."""
        found = Counter(registry.shown_name(result.key.task_key) for result, _ in self.trials)
        return {task: found[task] for task in sorted(found, key=numbered)}


def diagnosis_of(result: TrialResult) -> Diagnosis | None:
    """Return why a trial failed; None where it did not, or did not run. Never raises.

    Several reports ask this of the same trial; it is computed once.
    """
    known = _TOLD.get(id(result))
    # By identity, as results have no hash; the entry goes with its result, so that no other result has its number.
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
    # The verdict is decided already. A stored file may hold, and a diagnoser raise, anything.
    except Exception as error:
        return Diagnosis(
            "unexplained", detail=f"looking for it raised {type(error).__name__}: {one_line(str(error), 200)}"
        )


def cause_of(suite: str, kind: str) -> Cause:
    """Return the cause of a kind; of a suite that is not installed it is the kind's name."""
    diagnoser = None
    with contextlib.suppress(Exception):  # diagnosis_of reports what is wrong with it
        diagnoser = registry.get_diagnoser(suite)
    known = {**CAUSES, **(diagnoser.causes if diagnoser else {})}
    return known.get(kind) or Cause(kind.replace("-", " "), "read the transcript")


def sentence(result: TrialResult, diagnosis: Diagnosis) -> str:
    """Return a clause with the actor, the act and the message: ``the agent never called X (message 3)``."""
    cause = cause_of(result.key.suite, diagnosis.kind)
    where = "" if diagnosis.turn is None else f" (message {diagnosis.turn + 1})"
    who = "" if cause.blame == "unproven" else f"the {cause.blame} "
    return f"{who}{cause.about(diagnosis.subject)}{where}"


def clusters(results: Sequence[TrialResult]) -> list[Cluster]:
    """Return the failed trials of a run by cause, the most frequent first."""
    found: dict[tuple[str, str, str], list[tuple[TrialResult, Diagnosis]]] = {}
    for result in counted(results, "trials explained"):
        diagnosis = diagnosis_of(result)
        if diagnosis is not None:
            found.setdefault((result.key.suite, diagnosis.kind, diagnosis.subject), []).append((result, diagnosis))
    every = [Cluster(suite, cause_of(suite, kind), tuple(trials)) for (suite, kind, _), trials in found.items()]
    return sorted(every, key=lambda c: -len(c.trials))


def summary_lines(found: Sequence[Cluster], command: str) -> Iterator[str]:
    """Yield why trials did not pass, as a title and at most :data:`SHOWN` lines.

    :param command: the command that shows all causes.
    """
    if not found:
        return
    yield f"why {count(sum(len(c.trials) for c in found), 'trial')} did not pass ({command} says more):"
    shown = found if len(found) <= SHOWN else found[: SHOWN - 1]
    for cluster in shown:
        yield f"  {cluster_line(cluster)}"
    rest = found[len(shown) :]
    if rest:
        kinds = ", ".join(dict.fromkeys(c.kind for c in rest))
        yield "  " + one_line(f"{sum(len(c.trials) for c in rest)}x {len(rest)} other reasons: {kinds}", 160)


def cluster_line(cluster: Cluster) -> str:
    """Return a cluster in one line: the number of trials, who is to blame, what happened, and the tasks."""
    tasks = [one_line(task, 60) + (f" ({n}x)" if n > 1 else "") for task, n in cluster.tasks.items()]
    doubt = f"; {cluster.doubted} of them in tasks with known defects" if cluster.doubted else ""
    what = f"{len(cluster.trials)}x {cluster.cause.blame}: {cluster.words}"
    return f"{what} [{listed(tasks, _TASKS)}]{doubt}"


def lines(found: Sequence[Cluster], nodeids: Mapping[str, str], command: str, *, whole: bool = True) -> Iterator[str]:
    """Yield each cluster with an example, the likely fix and the command that runs its trials again.

    :param nodeids: trial key -> the pytest item that reported it.
    :param command: the command that prints the ids of cluster ``N`` when ``--ids N`` is added to it.
    :param whole: explain each cluster; else the first ones, so that it fits on a screen.
    """
    for number, cluster in enumerate(found, 1):
        if number > EXPLAINED and not whole:
            yield f"{number}. {cluster_line(cluster)}"
            continue
        result, diagnosis = cluster.example
        where = "" if diagnosis.turn is None else f", message {diagnosis.turn + 1} of {len(result.transcript)}"
        yield f"{number}. {cluster_line(cluster)}"
        yield f"   example: {one_line(registry.shown_name(str(result.key)))}{where}"
        if diagnosis.detail:
            yield f"     {one_line(diagnosis.detail, 400)}"
        if diagnosis.doubt:
            yield f"     the task: {one_line(diagnosis.doubt, 300)}"
        yield f"   likely fix: {cluster.fix}"
        yield f"   run again: {rerun(cluster, nodeids, number, command)}"


def rerun(cluster: Cluster, nodeids: Mapping[str, str], number: int, command: str) -> str:
    """Return the shell command that runs a cluster's trials again; options of the run are for the user to add."""
    ids = [nodeids[key] for result, _ in cluster.trials if (key := str(result.key)) in nodeids]
    options = f"--a2a-endpoint URL {noise_option(cluster.example[0])}"
    if len(ids) > _TASKS or not ids:
        return f"{command} --ids {number} > ids.txt && pytest {options}@ids.txt"
    return f"pytest {options}{' '.join(map(shlex.quote, ids))}"


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


_TITLES = {
    "env_assertion": "not true of the environment:",
    "communicate": "never communicated:",
    "nl_assertion": "not true of the conversation, says the judge:",
}
"""Kind of a check -> the title above unmet ones; a suite may add others (``Suite.check_titles``)."""

LAST_TURNS = 6
_LINES = 30
_MARGIN = 10
_AROUND = 60
"""Characters on either side of the place at which two texts differ."""

_BOUND = 12
"""Lines that are shown of a message, as the results of tools are long."""


def titled(result: TrialResult) -> str:
    """Return a trial's key, and its short name where it has one."""
    short = registry.short_name(str(result.key))
    return one_line(str(result.key)) + (f" ({short})" if short else "")


def headline(result: TrialResult) -> str:
    """Return the outcome of a trial in one line: why it failed, and its reward by its parts."""
    if result.reward_info is None:
        return f"not evaluated ({result.status})"
    parts = ", ".join(f"{name} {value:g}" for name, value in result.reward_info.breakdown.items())
    ended = f", ended by {result.termination_reason}" if result.termination_reason else ""
    fault = f", user at fault: {result.user_fault.kind}" if result.user_fault else ""
    note = f" ({one_line(result.reward_info.note)})" if result.reward_info.note else ""
    found = diagnosis_of(result)
    known = found is not None and found.kind not in ("unexplained", "user")
    why = f"{cause_of(result.key.suite, found.kind).about(found.subject)}; " if found is not None and known else ""
    return f"{why}reward {result.reward:g}" + (f" = {parts}" if parts else "") + ended + fault + note


def explain(result: TrialResult, path: str | None = None) -> str:
    """Return why a trial has its reward, and its last messages, as lines of text.

    :param path: the transcript's file, as it is shown.
    """
    said = _turn_lines(result) if result.transcript else ()
    where = [f"transcript: {path}"] if path else ()
    return "\n".join([f"{titled(result)}: {headline(result)}", *reasons(result), *said, *where])


def reasons(result: TrialResult) -> Iterator[str]:
    """Yield why a trial has its reward, without its messages."""
    yield from _why(result)
    suite = registry.find(result.key.suite)
    if result.reward_info is not None:
        yield from _reward_lines(result, result.reward_info, _TITLES | dict(suite.check_titles if suite else {}))
    yield from user_lines(result)
    yield from party_lines(result)
    yield from noise_lines(result)
    yield from map(one_line, registry.remarks_of(result))
    if result.findings:
        yield "the agent's messages:"
        for finding in result.findings[:_LINES]:
            yield f"  turn {finding.turn}: {one_line(finding.message)} [{finding.rule}] {one_line(finding.raw, 120)}"


def noise_lines(result: TrialResult) -> Iterator[str]:
    """Yield the tool results that noise changed before the agent read them (``--a2a-noise``)."""
    yield from _section("noise:", map(noise_text, events_of(result)))


def noise_text(event: Mapping[str, Any]) -> str:
    """Return one event of noise: its turn, the call, and where the agent's text differs from the true one."""
    got, true = str(event["got"]), str(event["true"])
    made = f"{call_text(ToolCall(event['tool'], event['arguments']))}: " if event["tool"] else "the user: "
    begin = f"turn {event['turn']}, {event['kind']}: {made}"
    if not true:
        return f"{begin}not carried out; the agent read {got!r}"
    at = next((place for place, (a, b) in enumerate(zip(got, true, strict=False)) if a != b), min(len(got), len(true)))
    shown, there = (text[max(0, at - _AROUND) : at + _AROUND] for text in (got, true))
    return f"{begin}the agent read ...{shown}... where it was ...{there}..."


def _why(result: TrialResult) -> Iterator[str]:
    found = diagnosis_of(result)
    if found is None or found.kind == "user":  # user_lines has it
        return
    yield f"why: {sentence(result, found)}"
    unmet = [check for check in result.reward_info.checks if not check.met] if result.reward_info else []
    # What a check says of itself stands below, with the check.
    if found.detail and not any(found.detail in (check.description, check.detail) for check in unmet):
        yield f"  {one_line(found.detail, 1_000)}"


def _turn_lines(result: TrialResult) -> Iterator[str]:
    """Yield the first message of the user and the last ones of all; repeated ones once."""
    turns = result.transcript
    asked = next((number for number, turn in enumerate(turns) if turn.role == "user"), None)
    lines = [_turn_line(turn) for turn in turns]
    begin, folded = fold_tail(lines, LAST_TURNS)
    if asked is not None and asked < begin:
        yield f"asked: {lines[asked].partition(': ')[2]}"
    yield f"last {len(turns) - begin} of {len(turns)} messages ({count(result.turns, 'turn')} of the agent):"
    yield from (f"  {line}" for line in folded)


def fold_tail(lines: Sequence[str], most: int) -> tuple[int, list[str]]:
    """Return the last lines and where they begin; lines or pairs that repeat are shown once, with how often.

    :param most: how many lines at most.
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
    """Return how many lines before ``end`` repeat, and how often; ``(1, 1)`` where none do."""
    for size in (1, 2):
        block, times = lines[end - size : end], 1
        while end - size * (times + 1) >= 0 and lines[end - size * (times + 1) : end - size * times] == block:
            times += 1
        if times > 1:
            return size, times
    return 1, 1


def user_lines(result: TrialResult) -> Iterator[str]:
    """Yield the simulated user's faults, in this conversation and in those that were repeated because of them."""
    if result.user_fault is not None:
        yield f"the user was at fault ({result.user_fault.kind}): {result.user_fault.words}"
        yield f"  {one_line(result.user_fault.detail, 1_000)}"
    elif result.extra_turn is not None:
        note = f" ({one_line(result.extra_turn.note)})" if result.extra_turn.note else ""
        yield f"one more turn after the user had ended the conversation: {result.extra_turn.verdict}{note}"
    for fact in result.user_facts:
        where = "" if fact.turn is None else f" (message {fact.turn + 1})"
        yield f"of the user: {fact.words}{where}: {one_line(fact.detail, 160)}"
    for number, fault in enumerate(result.user_retries, 1):
        yield f"run again, as the user was at fault in conversation {number} ({fault.kind}): {one_line(fault.detail)}"
    if result.retry_error:
        yield f"run again in vain, so that the conversation before it counts: {one_line(result.retry_error)}"


def party_lines(result: TrialResult) -> Iterator[str]:
    """Yield the other agents that took part, and whose doing the end was."""
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
    """Yield which expected actions were taken; for tau2 so is a call that failed, or that the other side made."""
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


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
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
    """Return a tool call as a function call: ``get_user(id="u1")``."""
    arguments = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call.arguments.items())
    return f"{call.name}({', '.join(arguments)})"


# --- the whole conversation -------------------------------------------------------------------------------------------


def conversation(result: TrialResult, width: int, *, whole: bool = False) -> Iterator[str]:
    """Yield the lines of a trial's conversation, and after it why the trial has its reward.

    :param width: columns of the terminal.
    :param whole: show long messages to their end.
    """
    yield f"{titled(result)}: {headline(result)}"
    yield ", ".join(_about(result))
    if result.error:
        yield f"error: {one_line(result.error, 1_000)}"
    # A greeting that the benchmark gives in the agent's name is a message of the transcript and no turn of the wire.
    unasked = max(0, result.turns - len(result.turn_latencies))
    number = 0
    for turn in result.transcript:
        head = _speaker(turn)
        if turn.role == "agent" and turn.party is None:
            number += 1
            took = f" ({result.turn_latencies[number - unasked - 1]:.2f} s)" if number > unasked else ""
            head = f"{number} {head}{took}"
        yield ""
        yield head
        yield from _bounded(list(_body(turn, max(20, width - _MARGIN))), whole)
    if found := list(reasons(result)):
        yield ""
        yield from found


def _about(result: TrialResult) -> Iterator[str]:
    yield count(len(result.transcript), "message")
    yield f"{count(result.turns, 'turn')} of the agent"
    yield f"{result.duration:.1f} s"
    if result.wire.requests:
        yield count(result.wire.requests, "request")
    if result.tokens is not None:
        yield f"{result.tokens:,} tokens"
    if result.cost is not None:
        yield f"cost {result.spent.words}"
    known = (("user", result.user), ("dialect", result.dialect), ("seed", result.seed), ("context", result.context_id))
    yield from (f"{name} {one_line(str(value), 80)}" for name, value in known if value not in (None, ""))


def _speaker(turn: Turn) -> str:
    whose = f" for the {turn.requestor}" if turn.role == "tool" and turn.requestor == "user" else ""
    who = f"tool {turn.tool}{whose}" if turn.role == "tool" and turn.tool else turn.role
    who += f" {turn.party}" if turn.party else ""
    return one_line(who, 80) + (" failed" if turn.error else "")


def _body(turn: Turn, width: int) -> Iterator[str]:
    indent = " " * 4
    for line in sanitise(turn.text or "").splitlines():
        yield from textwrap.wrap(
            line, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
        ) or [""]
    for call in turn.calls:
        shown = f"-> {call_text(call)}"
        yield from textwrap.wrap(
            sanitise(shown), width, initial_indent=indent, subsequent_indent=indent * 2, break_on_hyphens=False
        )


def _bounded(shown: list[str], whole: bool) -> list[str]:
    if whole or len(shown) <= _BOUND + 1:
        return shown
    return [*shown[:_BOUND], f"    ... {len(shown) - _BOUND} more lines (--whole)"]


def rerun_command(nodeid: str, result: TrialResult, endpoint: str = "") -> str:
    """Return the shell command that runs a trial again; further options of its run are for the user to add."""
    where = f"--a2a-endpoint {shlex.quote(one_line(endpoint, 1_000))} " if endpoint else ""
    return f"pytest {where}{noise_option(result)}{shlex.quote(one_line(nodeid, 1_000))}"
