"""Why a trial did not pass: the first step in which the conversation left its task, and the party to blame.

No model is asked. What all benchmarks share is derived from a result alone: how it ended, its user's faults, and
repeated messages. What a task needed, a benchmark knows itself (``Suite.diagnoser``); it judges by what was
done, in whichever order.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from pytest_a2a_bench.errors import OwnFunctionError
from pytest_a2a_bench.model import DialectFinding, TrialResult, Turn
from pytest_a2a_bench.results.gates.terms import STOPPED
from pytest_a2a_bench.results.store import StoreError
from pytest_a2a_bench.text import one_line

Blame = Literal["agent", "user", "benchmark", "infrastructure", "harness", "unproven"]
"""``unproven``: the event is known, and no party is proven to be at fault."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause of failed conversations.

    :param words: the event, as a clause; ``{subject}`` stands for its subject.
    :param fix: the likely remedy; it may have ``{subject}``, too.
    """

    words: str
    fix: str
    blame: Blame = "agent"

    def about(self, subject: str) -> str:
        """Return the words, of a subject."""
        return _filled(self.words, subject)

    def remedy(self, subject: str) -> str:
        """Return the fix, of a subject."""
        return _filled(self.fix, subject)


def _filled(text: str, subject: str) -> str:
    # No format string: what it is about was said by agents, and may have braces.
    return one_line(text.replace("{subject}", subject or "something"), 200)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why one trial missed.

    :param kind: the name of a :class:`Cause`.
    :param subject: a tool, an object, or a kind of error. Trials with the same one belong together.
    :param detail: the finding in this trial, and the task's need.
    :param turn: which message of the transcript shows it, counted from 0; None where none does.
    :param doubt: why the task itself may be at fault, where that is known.
    """

    kind: str
    subject: str = ""
    detail: str = ""
    turn: int | None = None
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class Diagnoser:
    """How a benchmark explains its own misses.

    :param diagnose: an evaluated trial that is no success -> why; None without a cause of its own.
    :param causes: the kinds that ``diagnose`` returns beside :data:`CAUSES`.
    """

    diagnose: Callable[[TrialResult], Diagnosis | None]
    causes: Mapping[str, Cause] = field(default_factory=dict)


CAUSES: Mapping[str, Cause] = {
    "delivery": Cause(
        "could not be run: {subject}", "look at the network, the agent's log and its limits", "infrastructure"
    ),
    "own-function": Cause(
        "could not be run or judged: a function of your own raised", "mend it where the error says", "infrastructure"
    ),
    "stopped": Cause("was stopped before its end", "run it again with --a2a-resume", "unproven"),
    "file": Cause(
        "has no result file that can be used", "remove the file, and run the trial with --a2a-resume", "unproven"
    ),
    "harness": Cause("broke the harness: {subject}", "report it with the transcript", "harness"),
    "evaluator": Cause("broke the benchmark's own evaluator", "leave the task out, or report it upstream", "benchmark"),
    "user": Cause(
        "the simulated user was at fault: {subject}",
        "use a model as the user (--a2a-user llm:MODEL), or another one",
        "user",
    ),
    "noise": Cause(
        "missed after noise: {subject}",
        "let the agent repeat a call that fails and check what it reads; a2a-bench show --why finds which noise it was",
        "unproven",
    ),
    "loop": Cause(
        "did the same again and again: {subject}", "let the agent notice that nothing changed, and try otherwise"
    ),
    "too-many-steps": Cause("was not done after all steps it may take", "shorten its way, or raise max-steps"),
    "too-many-errors": Cause(
        "made too many calls that failed, most of {subject}", "show the agent the tool's schema and its error"
    ),
    "users-errors": Cause(
        "failed calls of the simulated user ended the conversation",
        "see what it called, and what the agent told it",
        "unproven",
    ),
    "users-loop": Cause(
        "the simulated user said the same again and again", "see whether the agent had answered it", "unproven"
    ),
    "silent": Cause(
        "answered with nothing", "see that each reply has text or a call (an A2A message, a task's artifact)"
    ),
    "ended-task": Cause("ended the A2A task as {subject}", "look at the agent's log: it gave up by itself"),
    "limit": Cause(
        "gave an answer beyond a limit: {subject}", "let it answer shorter, or raise reply-limits={subject}=N"
    ),
    "unreadable": Cause(
        "wrote calls that cannot be read ({subject})", "let it write calls as the first message shows (--a2a-dialect)"
    ),
    "unexplained": Cause("did not pass, and nothing tells why", "read the transcript"),
}
"""Causes that a trial of any benchmark may have."""

_REPEATS = 4
"""How often the same act makes a loop: a call may well be repeated once or twice after an error."""

_POLITE = 8
_SAYING = "saying the same"
_UNREADABLE = ("unreadable-call", "not-an-action", "malformed-action", "prose-where-action-asked")


def diagnose(result: TrialResult, diagnoser: Diagnoser | None = None) -> Diagnosis | None:
    """Explain why a trial missed.

    :param diagnoser: the benchmark's own.
    :return: None for a success and for a trial that was not run or skipped.
    :raises TypeError: if its benchmark returns anything else than a diagnosis.
    """
    if result.success or result.status in ("skipped", "not_run"):
        return None
    trouble = _trouble(result)
    if trouble is not None:
        return trouble
    own = diagnoser.diagnose(result) if diagnoser is not None else None
    if own is not None and not isinstance(own, Diagnosis):
        raise TypeError(
            f"the diagnoser of {result.key.suite} returned {type(own).__name__}; expected a Diagnosis or None"
        )
    return _prevented(result, own) or own or Diagnosis("unexplained", detail=_ending(result))


def given_messages(result: TrialResult) -> int:
    """Return how many messages the task itself put at the beginning of the conversation."""
    return int(result.provenance.get("given_messages") or 0)


def _trouble(result: TrialResult) -> Diagnosis | None:
    """Return a cause outside of the task: it could not be run, or came to no proper end."""
    match result.status:
        case "infrastructure_error" if result.error_type == OwnFunctionError.__name__:
            return Diagnosis("own-function", "", one_line(result.error or ""))
        case "infrastructure_error" if result.error_type in STOPPED:
            return Diagnosis("stopped", "", one_line(result.error or ""))
        case "infrastructure_error" if result.error_type == StoreError.__name__:
            return Diagnosis("file", "", one_line(result.error or ""))
        case "infrastructure_error":
            return Diagnosis("delivery", result.error_type or "", one_line(result.error or ""))
        case "harness_error":
            return Diagnosis("harness", result.error_type or "", one_line(result.error or ""))
        case "evaluator_error":
            return Diagnosis("evaluator", "", one_line(result.error or ""))
    if result.user_fault is not None:
        return Diagnosis("user", result.user_fault.kind, one_line(result.user_fault.detail))
    if kinds := {str(event["kind"]) for event in (result.provenance.get("noise") or {}).get("events") or ()}:
        # Its calls are not those of the transcript alone, which has only what was carried out.
        return Diagnosis("noise", ", ".join(sorted(kinds - {"user"} or kinds)))
    return _unfinished(result)


def _unfinished(result: TrialResult) -> Diagnosis | None:
    match result.termination_reason:
        case "agent_error":
            return _gave_up(result)
        case "too_many_errors":
            errors = [t for t in result.transcript[given_messages(result) :] if t.role == "tool" and t.error]
            failed = Counter(t.tool for t in errors if t.requestor != "user")
            users = len(errors) - failed.total()
            # Those of both are counted together; without the user's the agent would have gone on.
            if users and failed.total() < int(result.provenance.get("max_errors") or 1):
                return Diagnosis("users-errors", detail=f"the user made {users} of the {len(errors)} calls that failed")
            return Diagnosis("too-many-errors", next((name for name, _ in failed.most_common(1) if name), "tools"))
        case "max_steps" | "max_turns" | "max_user_turns":
            return (
                _last_words(result)
                or _went_round(result)
                or next(_unreadable(result), None)
                or Diagnosis("too-many-steps", detail=_ending(result))
            )
    # Who ended properly may have said a sentence often; what was all that it did in the end, again and again, was not
    # meant. A polite sentence may come a few times more than a call.
    acts = [act[1:] for act in _acts(result.transcript)]
    last = next((len(acts) - n for n in range(len(acts), 0, -1) if acts[n - 1] != acts[-1]), len(acts))
    if acts and last >= (_POLITE if acts[-1][0] == _SAYING else _REPEATS):
        return _went_round(result)
    return _last_words(result)


def _last_words(result: TrialResult) -> Diagnosis | None:
    """Return a diagnosis where the agent's last message was empty, or an unreadable call."""
    number = next((n for n in range(len(result.transcript) - 1, -1, -1) if result.transcript[n].role == "agent"), None)
    if number is None or result.transcript[number].calls:
        return None
    said = (result.transcript[number].text or "").strip()
    if not said:
        return Diagnosis("silent", turn=number)
    found = next((d for f, d in _unreadable_findings(result) if f.raw and f.raw.strip()[:40] in said), None)
    return found and replace(found, turn=number)


def _gave_up(result: TrialResult) -> Diagnosis:
    note = result.reward_info.note if result.reward_info else ""
    unreadable = next(_unreadable(result), None)
    if any(f.rule == "empty-reply" for f in result.findings):
        return Diagnosis("silent", detail=one_line(note), turn=_last(result.transcript))
    if unreadable is not None:
        return unreadable
    if limit := next((f for f in result.findings if f.rule.startswith("limit-") and f.message in note), None):
        return Diagnosis("limit", limit.rule.removeprefix("limit-"), one_line(limit.message), _last(result.transcript))
    state = next((s for s in ("rejected", "canceled", "failed") if s in note), "failed")
    return Diagnosis("ended-task", state, one_line(note), _last(result.transcript))


def _prevented(result: TrialResult, own: Diagnosis | None) -> Diagnosis | None:
    """Return the unreadable call that is why a benchmark misses one: no other call of that tool could be read."""
    called = {call.name for turn in result.transcript if turn.role == "agent" for call in turn.calls}
    for finding, unreadable in _unreadable_findings(result):
        if own is None or not called or (own.subject and own.subject not in called and own.subject in finding.raw):
            return unreadable
    return None


def _unreadable(result: TrialResult) -> Iterator[Diagnosis]:
    yield from (finding for _, finding in _unreadable_findings(result))


def _unreadable_findings(result: TrialResult) -> Iterator[tuple[DialectFinding, Diagnosis]]:
    for finding in result.findings:
        if finding.rule in _UNREADABLE:
            yield finding, Diagnosis("unreadable", finding.rule, one_line(f"{finding.message}: {finding.raw}"))


def _went_round(result: TrialResult) -> Diagnosis | None:
    """Return who repeated what; of words, which no tool answers, a user who can vary them did so as well."""
    found = repeated(result.transcript)
    return found if found is not None and found.subject != _SAYING else _users_loop(result) or found


def _users_loop(result: TrialResult) -> Diagnosis | None:
    """Return a diagnosis where a model or an agent, as the user, said nothing else in the end; a script may have to."""
    if not (result.provenance.get("user_llm") or result.provenance.get("user_agent")):
        return None
    said = [turn.text.strip() for turn in result.transcript if turn.role == "user" and turn.text and not turn.calls]
    if len(said) < _REPEATS or len(set(said[-_REPEATS:])) > 1:
        return None
    return Diagnosis("users-loop", detail=f"{_REPEATS} times or more: {one_line(said[-1], 200)}")


def repeated(transcript: tuple[Turn, ...]) -> Diagnosis | None:
    """Find the act that an agent repeated beyond reason: a call with its arguments, or a text."""
    seen: Counter[tuple[str, str]] = Counter()
    for number, name, what in _acts(transcript):
        seen[name, what] += 1
        if what and seen[name, what] == _REPEATS:
            return Diagnosis("loop", name, f"{_REPEATS} times or more: {one_line(what, 200)}", number)
    return None


def _acts(transcript: tuple[Turn, ...]) -> Iterator[tuple[int, str, str]]:
    """Yield an agent's acts: the message, the tool and its arguments, or :data:`_SAYING` and the text."""
    for number, turn in enumerate(transcript):
        if turn.role == "agent":
            calls = [(c.name, json.dumps(c.arguments, sort_keys=True, default=str)) for c in turn.calls]
            for name, what in calls or [(_SAYING, (turn.text or "").strip())]:
                yield number, name, what


def _last(transcript: tuple[Turn, ...]) -> int | None:
    return len(transcript) - 1 if transcript else None


def _ending(result: TrialResult) -> str:
    return f"it ended by {result.termination_reason}" if result.termination_reason else ""
