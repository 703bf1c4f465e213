"""Where a conversation over a tau2 task left its gold's way. Pure, but for tau2's marks of writing tools.

Calls that changed a database are compared as a set, never as a sequence: an agent that gets there otherwise is right,
and one that does not has called something wrong, left something out or done something that nobody needed. Where a
database is as it should be, what the agent said to the user, and what it would have read for it, is compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_a2a_bench.benchmarks.diagnosis import Cause, Diagnoser, Diagnosis, given_messages
from pytest_a2a_bench.benchmarks.tau2 import notes
from pytest_a2a_bench.benchmarks.tau2.player import tool_names, write_tools
from pytest_a2a_bench.benchmarks.tau2.user import device
from pytest_a2a_bench.benchmarks.tau2.user.scenario import leaves
from pytest_a2a_bench.benchmarks.tau2.user.understand import Reading
from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.model import TrialResult, Turn
from pytest_a2a_bench.text import one_line

CAUSES: Mapping[str, Cause] = {
    "wrong-argument": Cause("called {subject}", "see where it took the value from"),
    "users-words": Cause(
        "{subject} was called with what the user said, and the gold has another value",
        "see whether the user kept to its scenario: the transcript has its words",
        "unproven",
    ),
    "other-order": Cause(
        "{subject} was called with the same members in another order", "look at the task: its gold has one", "unproven"
    ),
    "never-called": Cause("never called {subject}", "see what it did instead"),
    "left-at-question": Cause(
        "{subject} was not called: the user ended the conversation at the agent's question",
        "read the last two messages",
        "unproven",
    ),
    "never-asked": Cause(
        "the user ended the conversation before the agent was asked anything",
        "read the user's only message",
        "unproven",
    ),
    "users-tool": Cause(
        "called {subject}, which is a tool on the user's phone", "let it ask the user to do that on the phone"
    ),
    "call-failed": Cause("called {subject}, which failed, and left it at that", "let it read the error and try again"),
    "forbidden-write": Cause(
        "wrote with {subject} what the gold does not write", "check it against the policy before it writes"
    ),
    "unconfirmed-write": Cause(
        "wrote with {subject} without the user's yes", "let it say what it will write, and wait for the answer"
    ),
    "repeated-write": Cause("wrote with {subject} more than once", "let it read the result before it writes again"),
    "transferred": Cause(
        "gave up and transferred to a human", "see what it lacked: the task can be solved with its tools"
    ),
    "never-instructed": Cause("never got the user to do {subject}", "see what it told the user to do"),
    "not-done": Cause(
        "{subject} was not done by the user, whom the agent told to do it", "read its answer", "unproven"
    ),
    "misinstructed": Cause("let the user do {subject} otherwise than needed", "see what it told the user to do"),
    "read-less": Cause("read less than needed: never called {subject}", "let it look up what the answer depends on"),
    "told-wrong": Cause("told the user something else than {subject}", "see how it came to the value that it told"),
    "told-nothing": Cause("never told the user {subject}", "let it say what was asked for, not only that it is done"),
    "not-true": Cause("left the environment so that {subject} does not hold", "see which step was not done"),
    "judged-false": Cause("did not do what the judge looks for", "read what the judge says"),
    "order": Cause(
        "made all calls that are needed, in an order that leads elsewhere", "do them as the policy orders them"
    ),
    "gold-unreached": Cause(
        "made just the calls of the gold, and was not rewarded",
        "look at the task, and what is known of it",
        "benchmark",
    ),
}

_READING = re.compile(r"(?:get|find|search|list|check|calculate|think|can|is|run|view|look)_|calculate$|think$")
TRANSFER = "transfer_to_human_agents"
_STEM = 5
_SHOWN = 120


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that was made, or that the gold has (then ``turn`` is -1)."""

    requestor: str
    name: str
    arguments: Mapping[str, Any]
    turn: int = -1
    error: str | None = None
    compared: tuple[str, ...] | None = None

    def is_met_by(self, other: _Call) -> bool:
        """Return whether a call is this one of the gold's, by the arguments that the task compares."""
        if (self.requestor, self.name) != (other.requestor, other.name):
            return False
        if self.compared is None:
            return self.arguments == other.arguments
        return all(self.arguments.get(key) == other.arguments.get(key) for key in self.compared)

    def wrong_in(self, other: _Call) -> list[str]:
        """Return the arguments in which a call of the same tool differs."""
        names = self.compared if self.compared is not None else self.arguments.keys() | other.arguments.keys()
        return sorted(n for n in names if self.arguments.get(n) != other.arguments.get(n))


def diagnose(result: TrialResult) -> Diagnosis | None:
    """Explain why an evaluated trial missed, as :class:`~pytest_a2a_bench.benchmarks.diagnosis.Diagnoser` has it."""
    reward = result.reward_info
    if reward is None:
        return None
    failing = {basis for basis, value in reward.breakdown.items() if value < 1}
    doubt = "; ".join(map(one_line, notes.remarks(result)))
    if failing and (unasked := _never_asked(result)):
        return replace(unasked, doubt=doubt)
    gold = list(_gold(reward.info.get("action_checks")))
    made = list(_made(result.transcript))
    found: list[Diagnosis] = []
    if failing & {"DB", "ENV_ASSERTION", "ACTION"}:
        found += _deeds(result, gold, made, every="ACTION" in failing)
    # A wrong action explains wrong information after it, and not the other way round.
    if not found and "ENV_ASSERTION" in failing:
        found += _untrue(reward.info.get("env_assertions"))
    if "COMMUNICATE" in failing:
        found += _words(result, gold, made)
    if "NL_ASSERTION" in failing:
        found += [Diagnosis("judged-false", "", text) for text in _unmet(reward.info, "nl_assertions", "nl_assertion")]
    # A conversation that was cut short was not compared with anything.
    if not found and failing & {"DB", "ENV_ASSERTION"} and reward.info.get("db_check"):
        found.append(_unexplained(result, gold, made))
    if not found:
        return None
    end = len(result.transcript)
    first = min(found, key=lambda d: end if d.turn is None else d.turn)
    return replace(first, doubt=doubt)


def _never_asked(result: TrialResult) -> Diagnosis | None:
    """Find a user that ended the conversation with its first message: the greeting before it is the benchmark's."""
    turns = list(enumerate(result.transcript))[given_messages(result) :]
    first = next((number for number, turn in turns if turn.role == "user"), None)
    if result.termination_reason != "user_stop" or first is None:
        return None
    if any(turn.role == "agent" for number, turn in turns if number > first):
        return None
    return Diagnosis("never-asked", "", f"the user: {one_line(turns[-1][1].text or '', _SHOWN)!r}", first)


def _gold(checks: Any) -> Iterator[_Call]:
    for check in checks or ():
        action = check["action"]
        compared = action.get("compare_args")
        yield _Call(
            "user" if action.get("requestor") == "user" else "agent",
            action["name"],
            action.get("arguments") or {},
            compared=None if compared is None else tuple(compared),
        )


def _made(transcript: Sequence[Turn]) -> Iterator[_Call]:
    errors = {(t.requestor or "agent", t.call_id): t.text or "" for t in transcript if t.role == "tool" and t.error}
    for number, turn in enumerate(transcript):
        if turn.role in ("agent", "user"):
            for call in turn.calls:
                yield _Call(turn.role, call.name, call.arguments, number, errors.get((turn.role, call.id)))


def _writes(domain: str, call: _Call) -> bool:
    try:
        marked = write_tools(domain)
    # A result is read on machines without tau2, too.
    except A2ABenchError:
        marked = frozenset()
    return call.name in marked or (not (marked and call.requestor == "agent") and not _READING.match(call.name))


def _deeds(result: TrialResult, gold: list[_Call], made: list[_Call], *, every: bool) -> Iterator[Diagnosis]:
    """Compare writing calls; with ``every``, reading ones, too."""
    domain = result.key.domain
    wanted = [c for c in gold if every or (_writes(domain, c) and c.name != TRANSFER)]
    # A call that failed has changed nothing.
    done = [c for c in made if c.error is None and c.name != TRANSFER and _writes(domain, c)]
    missing, extra = _unmatched(wanted, made if every else done)
    given = given_messages(result)
    extra = [c for c in extra if c.turn >= given and c in done]
    made = [c for c in made if c.turn >= given]
    yield from _transfer(result, gold, made)
    for call in missing:
        alike = min((e for e in extra if (e.requestor, e.name) == (call.requestor, call.name)),
                    key=lambda e: len(call.wrong_in(e)), default=None)  # fmt: skip
        if alike is not None:
            extra.remove(alike)
            yield _wrong(result, call, alike)
        else:
            yield _absent(result, call, gold, made)
    if missing:
        yield from _left_at_that(result, gold, made)
    for call in extra:
        yield _unneeded(result, call, wanted)


def _unmatched(wanted: Sequence[_Call], done: Sequence[_Call]) -> tuple[list[_Call], list[_Call]]:
    left, missing = list(done), []
    for call in wanted:
        met = next((d for d in left if call.is_met_by(d)), None)
        if met is None:
            missing.append(call)
        else:
            left.remove(met)
    return missing, left


def _transfer(result: TrialResult, gold: list[_Call], made: list[_Call]) -> Iterator[Diagnosis]:
    if any(c.name == TRANSFER for c in gold):
        return
    for call in made:
        if call.name == TRANSFER:
            yield Diagnosis("transferred", "", one_line(_shown(call.arguments)), call.turn)
            return


def _wrong(result: TrialResult, wanted: _Call, made: _Call) -> Diagnosis:
    names = wanted.wrong_in(made)
    pairs = [(wanted.arguments.get(n), made.arguments.get(n)) for n in names]
    found = "; ".join(f"{n}: needed {_shown(a)}, was {_shown(b)}" for n, (a, b) in zip(names, pairs, strict=True))
    if made.requestor == "user":
        return Diagnosis("misinstructed", made.name, found, made.turn)
    if all(_members(a) == _members(b) for a, b in pairs):
        return Diagnosis("other-order", made.name, f"same members, other order: {found}", made.turn)
    before = result.transcript[: made.turn]
    unseen = [n for n, (a, _) in zip(names, pairs, strict=True) if not _is_shown(a, before)]
    # Who names two cabins has not said which of them to write; what is added to a list, or stands alone, was meant.
    meant = [(a, b) for a, b in pairs if isinstance(a, list) or not _is_shown(a, before)]
    said = [v for a, b in meant for v in _leaves(b) if v not in _leaves(a) and _is_users(v, before)]
    hint = f" (nothing that it had read or heard says the needed {', '.join(unseen)})" if unseen else ""
    if said:
        what = f"the user said {', '.join(map(repr, said))}; {found}{hint}"
        return Diagnosis("users-words", made.name, what, made.turn)
    return Diagnosis("wrong-argument", _wrong_subject(made.name, names), found + hint, made.turn)


def _members(value: Any) -> Any:
    return sorted(map(_shown, value)) if isinstance(value, list) else value


def _leaves(value: Any) -> list[str]:
    return [leaf for _, leaf in leaves(value) if isinstance(leaf, str)]


def _is_users(value: str, before: Sequence[Turn]) -> bool:
    """Return whether it was the user who brought up a value: it said it first, and no tool returned it."""
    who = [turn.role for turn in before if value in (turn.text or "")]
    return len(value) > 1 and who[:1] == ["user"] and "tool" not in who


def _wrong_subject(tool: str, names: Sequence[str]) -> str:
    return f"{tool} with a wrong {' and '.join(names[:3])}"


def _left_at_that(result: TrialResult, gold: list[_Call], made: list[_Call]) -> Iterator[Diagnosis]:
    """Find the call, of whichever tool, that failed and after which the agent called nothing any more."""
    own = [m for m in made if m.requestor == "agent"]
    if own and own[-1].error is not None:
        what = f"{own[-1].name}({_shown(own[-1].arguments)}): {one_line(own[-1].error, 200)}"
        users = own[-1].name in _users_tools(result, gold)
        yield Diagnosis("users-tool" if users else "call-failed", own[-1].name, what, own[-1].turn)


def _users_tools(result: TrialResult, gold: list[_Call]) -> frozenset[str]:
    """Return the tools that are on the user's side alone, as far as tau2, the gold or the conversation say so."""
    called = {c.name for c in (*gold, *_made(result.transcript)) if c.requestor == "user"}
    try:
        return (tool_names(result.key.domain, "user_tools") | called) - tool_names(result.key.domain)
    except A2ABenchError:
        return frozenset(called)


def _absent(result: TrialResult, call: _Call, gold: list[_Call], made: list[_Call]) -> Diagnosis:
    needed = f"needed: {call.name}({_shown(call.arguments)})"
    tried = [m for m in made if (m.requestor, m.name) == (call.requestor, call.name) and m.error is not None]
    if tried and call.is_met_by(tried[-1]):
        return Diagnosis("call-failed", call.name, f"{one_line(tried[-1].error or '', 200)}; {needed}", tried[-1].turn)
    if tried:
        names = call.wrong_in(tried[-1])
        what = f"{needed}, was {_shown(tried[-1].arguments)}, which failed: {one_line(tried[-1].error or '', 200)}"
        return Diagnosis("wrong-argument", _wrong_subject(call.name, names), what, tried[-1].turn)
    if call.requestor == "user":
        return _undone(result, call, needed, made)
    turns = result.transcript[given_messages(result) :]
    if result.termination_reason == "user_stop" and turns and turns[-1].role == "user":
        said = next((t.text or "" for t in reversed(turns) if t.role == "agent"), "")
        heard = Reading(said)
        if not heard.closing and (heard.question or heard.decision):
            what = f"the agent: {one_line(said, _SHOWN)!r}; the user: {one_line(turns[-1].text or '', _SHOWN)!r}"
            return Diagnosis("left-at-question", call.name, f"{what}; {needed}", len(result.transcript) - 1)
    # What comes later in the gold and was done came without it.
    later = gold[gold.index(call) + 1 :]
    turn = min((m.turn for m in made for g in later if g.is_met_by(m) and m.error is None), default=None)
    return Diagnosis("never-called", call.name, needed, turn)


def _undone(result: TrialResult, call: _Call, needed: str, made: list[_Call]) -> Diagnosis:
    """Describe why, by the conversation, the user did not do a step on its phone."""
    tried = next((m for m in made if m.requestor == "agent" and m.name == call.name), None)
    if tried is not None:
        return Diagnosis("users-tool", call.name, needed, tried.turn)
    instructed = None
    for number, turn in enumerate(result.transcript):
        wanted = device.instructed(turn.text or "", [call.name]) if turn.role == "agent" else ()
        if any(act.arguments == call.arguments for act in wanted):
            instructed = number
        elif turn.role == "user" and instructed is not None:
            said = one_line(turn.text or "", _SHOWN)
            what = f"the agent told it to (message {instructed + 1}); it said {said!r} and did not call it; {needed}"
            return Diagnosis("not-done", call.name, what, number)
    return Diagnosis("never-instructed", call.name, needed)


def _unneeded(result: TrialResult, call: _Call, wanted: Sequence[_Call]) -> Diagnosis:
    what = f"{call.name}({_shown(call.arguments)})"
    if call.requestor == "user":
        return Diagnosis("misinstructed", call.name, f"not needed: {what}", call.turn)
    if any(w.is_met_by(call) for w in wanted):
        return Diagnosis("repeated-write", call.name, what, call.turn)
    kind = "forbidden-write" if _may_be_confirmed(result.transcript[: call.turn], call) else "unconfirmed-write"
    return Diagnosis(kind, call.name, what, call.turn)


_GREETING = 3
"""Words of a text that is too short to name a call in other words."""


def _may_be_confirmed(before: Sequence[Turn], call: _Call) -> bool:
    """Return whether the user may have agreed to a call: it spoke after the agent had named the call, or answered it.

    Whether an answer names a call in other words cannot be decided, so that each may.
    """
    words = [w[:_STEM] for w in call.name.lower().split("_") if len(w) >= _STEM]
    values = [v.lower() for v in _leaves(call.arguments) if len(v) > 1]
    named = has_spoken = False
    for turn in before:
        text = (turn.text or "").lower()
        if turn.role == "agent":
            answers = has_spoken and len(text.split()) > _GREETING
            named = named or answers or any(word in text for word in (*words, *values))
        elif turn.role == "user":
            if named:
                return True
            has_spoken = True
    return False


def _untrue(assertions: Any) -> Iterator[Diagnosis]:
    for item in assertions or ():
        if not item.get("met"):
            call = item["env_assertion"]
            yield Diagnosis("not-true", str(call["func_name"]), _shown(call.get("arguments") or {}))


def _words(result: TrialResult, gold: list[_Call], made: list[_Call]) -> Iterator[Diagnosis]:
    called = {(m.requestor, m.name) for m in made if m.error is None}
    unread = [g.name for g in gold if g.requestor == "agent" and (g.requestor, g.name) not in called]
    said = "\n".join(t.text or "" for t in result.transcript if t.role == "agent")
    reward = result.reward_info
    for text in _unmet(reward.info if reward else {}, "communicate_checks", "info"):
        reads = [name for name in dict.fromkeys(unread) if not _writes(result.key.domain, _Call("agent", name, {}))]
        if reads:
            yield Diagnosis("read-less", reads[0], f"and so never told the user {text!r}")
        else:
            yield Diagnosis(
                "told-wrong" if _says_alike(text, said) else "told-nothing", "what was asked for", f"needed: {text!r}"
            )


def _unmet(info: Mapping[str, Any], checks: str, name: str) -> list[str]:
    return [one_line(str(item.get(name)), 300) for item in info.get(checks) or () if not item.get("met")]


def _says_alike(needed: str, said: str) -> bool:
    """Return whether a text has a value of the kind that is needed: another number for a number."""
    if re.fullmatch(r"[\s$-]*[\d.,:]+\s*%?", needed):
        # Dates, ids and flight numbers are numbers, too; those that stand alone are values.
        return bool(re.search(r"(?<![\w#-])\$?\d[\d,.]*(?![\w-])", said))
    words = [w for w in re.findall(r"\w+", needed.lower()) if len(w) > 3]
    return any(w in said.lower() for w in words)


def _unexplained(result: TrialResult, gold: list[_Call], made: list[_Call]) -> Diagnosis:
    domain = result.key.domain
    wanted = [c for c in gold if _writes(domain, c)]
    done = [m for m in made if m.error is None and _writes(domain, m)]
    in_order = all(g.is_met_by(m) for g, m in zip(wanted, done, strict=False))
    reward = result.reward_info
    differs = "; ".join(reward.db_diff[:3]) if reward else ""
    return Diagnosis("gold-unreached" if in_order else "order", "", one_line(differs))


def _is_shown(value: Any, before: Sequence[Turn]) -> bool:
    """Return whether a value stands in anything that was said or returned before; of a structure any part counts."""
    if isinstance(value, Mapping):
        return any(_is_shown(v, before) for v in value.values())
    if isinstance(value, list):
        return not value or any(_is_shown(v, before) for v in value)
    if isinstance(value, bool) or value is None:
        return True
    text = str(value)
    return any(text in (turn.text or "") for turn in before if turn.role != "agent")


def _shown(value: Any) -> str:
    return one_line(json.dumps(value, ensure_ascii=False, default=str), _SHOWN)


DIAGNOSER = Diagnoser(diagnose, CAUSES)
