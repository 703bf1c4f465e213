"""Noise between an environment and the agent: tools that fail once, answers that are cut, stale or wrong, odd users.

The agent's side of a conversation (:mod:`.conversation`) is the only place where noise acts. The environment, the
transcript and the evaluator see what really happened; :attr:`Noise.events` has what the agent got instead.

No noise makes a task impossible:

- A call that fails was not carried out, and works when it is made again.
- The answer of a call is changed at most once: the same call, made again, is answered as it really is.
- The user's words are rearranged or added to, and never lost.

Whether a call is hit is decided by the seed of the task and the trial, the tool's name and the arguments, and so is the
same for every agent that makes this call, in whichever order and process.
"""

from __future__ import annotations

import copy
import hashlib
import json
import random
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, NamedTuple

from pytest_a2a_bench.dialects.serialization import read_literal
from pytest_a2a_bench.model import AgentSaid, Event, ToolCall, ToolReturned, UserSaid

FAILURES: Final[Mapping[str, str]] = {
    "tool-error": "Error: the service is temporarily unavailable (503). The request was not processed.",
    "tool-timeout": "Error: the request timed out before it was processed.",
}
"""Kinds of noise in which a call is not carried out -> the text that the agent reads in place of its answer."""

CHANGES: Final = ("partial", "stale", "wrong")
"""Kinds of noise in which the answer of a call that reads is changed."""

STYLES: Final[Mapping[str, str]] = {
    "terse": "Say one short sentence at a time, and the rest only when you are spoken to again.",
    "chatty": "You like to chat: put small talk that has nothing to do with your request into every message.",
    "typos": "You type fast and carelessly: misspell a few words of every message, but never a name, number or id.",
    "impatient": "You are in a great hurry and say so in every message.",
    "changes-mind": "In your first message, first ask for something else, then take it back and say what you want.",
}
"""How a user may talk, and the instruction for a language model that plays the user."""

_MOST_FAILURES = 20
"""Calls of one conversation that fail at most, whatever the rates are."""


@dataclass(frozen=True, slots=True)
class NoiseEvent:
    """One deviation from the true answer.

    :param id: names it in every conversation of the same task and trial (``wrong:get_user_details:4f1c2a9b``).
    :param turn: the agent's turn, counted from 1, in which the agent read this.
    :param tool: the tool's name; empty for the user's words.
    :param got: the text that the agent read.
    :param true: the tool's answer; empty where the call was not carried out.
    """

    id: str
    kind: str
    turn: int
    tool: str
    arguments: Mapping[str, Any]
    got: str
    true: str


class Noise:
    """The noise of one conversation.

    :param rates: how often each kind of :data:`FAILURES` and :data:`CHANGES` hits a call, from 0 to 1; ``user`` is a
        style of :data:`STYLES`.
    :param seed: names the task and the trial.
    :param only: the ids of the only events that may happen; None for all.
    :ivar reads: names of the tools that change nothing, which a benchmark sets; answers of no others are changed.
    :ivar stale: set by a benchmark: returns a call's answer before the last write; None where it is the same.
    :ivar styled: whether a language model plays the user, and follows its style by itself.
    """

    def __init__(self, rates: Mapping[str, float | str], seed: str, only: Collection[str] | None = None) -> None:
        self.events: list[NoiseEvent] = []
        self.reads: Collection[str] = ()
        self.stale: Callable[[ToolCall], str | None] = lambda call: None
        self.styled = False
        self._rates, self._seed = rates, seed
        self._only = None if only is None else frozenset(only)
        self._calls: dict[str, ToolCall] = {}
        self._failed: dict[str, ToolReturned] = {}
        self._order: list[str] = []
        self._kept = ""
        self._turn = 0
        self._spoken = False

    @property
    def style(self) -> str:
        """How the user talks; empty for as usual."""
        return str(self._rates.get("user", ""))

    @property
    def instruction(self) -> str:
        """The instruction for a language model that plays the user, beside its scenario."""
        return f"\n\n{STYLES[self.style]}" if self.style else ""

    def around(self, new: Sequence[Event], send: Callable[[Sequence[Event]], AgentSaid]) -> AgentSaid:
        """Send the agent its news, with noise, and return its reply; calls that fail are answered at once.

        :param send: sends the agent events as they are.
        """
        self._turn += 1
        said = send(self._in_order([self._change(event) for event in new]))
        while said.calls:
            failed = {call.id: answer for call in said.calls if (answer := self._fail(call)) is not None}
            carried_out = tuple(call for call in said.calls if call.id not in failed)
            self._calls = {call.id: call for call in carried_out}
            if carried_out:
                self._failed, self._order = failed, [call.id for call in said.calls]
                return AgentSaid(said.text, carried_out)
            self._turn += 1
            said = send([failed[call.id] for call in said.calls])
        return said

    def to_json(self) -> dict[str, Any]:
        """Return its record in results."""
        return {"rates": dict(self._rates), "events": [asdict(event) for event in self.events]}

    def _in_order(self, events: list[Event]) -> Sequence[Event]:
        """Return events with the answers of calls that failed, in the order of the calls."""
        if not self._failed:
            return events
        answers = {e.call_id: e for e in events if isinstance(e, ToolReturned)} | self._failed
        others = [e for e in events if not isinstance(e, ToolReturned)]
        self._failed = {}
        return [*(answers[call] for call in self._order if call in answers), *others]

    # -- calls that fail --

    def _fail(self, call: ToolCall) -> ToolReturned | None:
        if sum(event.kind in FAILURES for event in self.events) >= _MOST_FAILURES:
            return None
        for kind, words in FAILURES.items():
            if self._happens(kind, call):
                self._note(kind, call, words, "")
                return ToolReturned(call.id, call.name, words, error=True)
        return None

    # -- answers that are changed --

    def _change(self, event: Event) -> Event:
        if isinstance(event, UserSaid):
            return UserSaid(self._restyled(event.text))
        if not isinstance(event, ToolReturned) or event.error:
            return event
        call = self._calls.get(event.call_id)
        if call is None or call.name not in self.reads:
            return event
        for kind in CHANGES:
            if self._happens(kind, call):
                content = self._changed(kind, call, event.content)
                if content is not None and content != event.content:
                    self._note(kind, call, content, event.content)
                    return replace(event, content=content)
        return event

    def _changed(self, kind: str, call: ToolCall, text: str) -> str | None:
        if kind == "stale":
            return self.stale(call)
        found = Written.read(text)
        if found is None:
            return None
        return cut(found) if kind == "partial" else replaced(found, random.Random(f"{self._seed}/{_signature(call)}"))

    # -- the user --

    def _restyled(self, text: str) -> str:
        style, first = self.style, not self._spoken
        self._spoken = True
        if not style or self.styled or (self._only is not None and f"user:{style}" not in self._only):
            return text
        got = self._words(style, text, first)
        if got != text:
            self.events.append(NoiseEvent(f"user:{style}", "user", self._turn, "", {}, got, text))
        return got

    def _words(self, style: str, text: str, first: bool) -> str:
        match style:
            case "terse":
                sentence, self._kept = _first_sentence(f"{self._kept} {text}".strip())
                return sentence
            case "chatty":
                return f"What a day, it has been raining here since the morning. {text} My neighbour says hello, too."
            case "impatient":
                return f"I am in a hurry, so please be quick. {text}"
            case "changes-mind" if first:
                return f"I wanted to ask about a voucher that I lost. No, wait, forget that, I found it. {text}"
            case "typos":
                rng = random.Random(f"{self._seed}/{text}")
                return re.sub(r"(?<![\w@#./_-])[a-z]{5,}(?![\w@#./_-])", lambda m: _misspelt(m[0], rng), text)
        return text

    # -- chance --

    def _happens(self, kind: str, call: ToolCall) -> bool:
        rate, name = self._rates.get(kind), f"{kind}:{_signature(call)}"
        if not isinstance(rate, float) or (self._only is not None and name not in self._only):
            return False
        # Once: the same call, made again, has to work and to be answered as it is.
        alike = FAILURES if kind in FAILURES else CHANGES
        if any(event.kind in alike and event.id.endswith(f":{_signature(call)}") for event in self.events):
            return False
        return random.Random(f"{self._seed}/{name}").random() < rate

    def _note(self, kind: str, call: ToolCall, got: str, true: str) -> None:
        name = f"{kind}:{_signature(call)}"
        # The agent reads a failure in the next turn, and a changed answer in the current one.
        turn = self._turn + (kind in FAILURES)
        self.events.append(NoiseEvent(name, kind, turn, call.name, dict(call.arguments), got, true))


def _signature(call: ToolCall) -> str:
    written = json.dumps(call.arguments, sort_keys=True, default=str)
    return f"{call.name}:{hashlib.sha256(written.encode()).hexdigest()[:8]}"


def _first_sentence(text: str) -> tuple[str, str]:
    first, *rest = re.split(r"(?<=[.?!])\s+(?=[\"'(]?[A-Z])", text, maxsplit=1)
    return first, " ".join(rest)


def _misspelt(word: str, rng: random.Random) -> str:
    if rng.random() > 0.3:
        return word
    place = rng.randrange(1, len(word) - 2)
    return word[:place] + word[place + 1] + word[place] + word[place + 2 :]


# -- data --


class Written(NamedTuple):
    """Data in a tool's answer.

    :param label: the text before them.
    :param is_json: whether they are JSON; otherwise they are written as Python does.
    """

    label: str
    value: Any
    is_json: bool

    @classmethod
    def read(cls, text: str) -> Written | None:
        """Read an answer that ends in an object or a list; None where it is anything else."""
        starts = [place for place in (text.find("{"), text.find("[")) if place >= 0]
        if not starts:
            return None
        label, data = text[: min(starts)], text[min(starts) :]
        try:
            return cls(label, json.loads(data), is_json=True)
        except ValueError:
            pass
        try:
            return cls(label, read_literal(data), is_json=False)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return None

    def write(self, value: Any) -> str:
        """Write other data in the same form."""
        return self.label + (json.dumps(value, default=str) if self.is_json else repr(value))


def cut(found: Written) -> str | None:
    """Return an answer with the second half of its longest list left out, which it says; None without a list."""
    value = copy.deepcopy(found.value)
    longest = max(_lists(value), key=len, default=[])
    if len(longest) < 2:
        return None
    whole = len(longest)
    del longest[(whole + 1) // 2 :]
    return f"{found.write(value)}\n(partial result: {len(longest)} of {whole} items; call again for all)"


def without_newest(found: Written) -> str | None:
    """Return an answer without the record that has the latest date, as a copy that lags behind shows it.

    None where there are not two records with different dates.
    """
    rows = found.value if isinstance(found.value, list) else []
    dates = {place: max(_dates(row), default="") for place, row in enumerate(rows)}
    dated = {place: date for place, date in dates.items() if date}
    if len(set(dated.values())) < 2:
        return None
    newest = max(dated, key=lambda place: dated[place])
    return found.write([row for place, row in enumerate(rows) if place != newest])


def replaced(found: Written, rng: random.Random) -> str | None:
    """Return an answer in which another valid value of the same kind stands in place of one; None where there is none.

    Values are of the same kind that the members of one name of neighbouring records have, or the items of one list.
    """
    value = copy.deepcopy(found.value)
    choices = list(_exchangeable(value))
    if not choices:
        return None
    place, key, others = rng.choice(choices)
    place[key] = rng.choice(others)
    return found.write(value)


def scalars(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield each text and number of a value with the keys that lead to it."""
    if _is_scalar(value):
        yield path, value
    for key, member in value.items() if isinstance(value, dict) else enumerate(_members(value)):
        yield from scalars(member, (*path, key))


def _lists(value: Any) -> Iterator[list[Any]]:
    if isinstance(value, list):
        yield value
    for member in _members(value):
        yield from _lists(member)


def _dates(value: Any) -> Iterator[str]:
    if isinstance(value, str) and re.match(r"\d{4}-\d{2}-\d{2}(?!\d)", value):
        yield value
    for member in _members(value):
        yield from _dates(member)


def _members(value: Any) -> Sequence[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ()


def _exchangeable(value: Any) -> Iterator[tuple[Any, Any, list[Any]]]:
    """Yield each place of a value: its container, its key, and the other values that could stand there."""
    members = _members(value)
    if isinstance(value, list):
        scalars = sorted({m for m in members if isinstance(m, str)})
        for place, member in enumerate(members):
            if isinstance(member, str) and (others := [s for s in scalars if s != member]):
                yield value, place, others
    records = [m for m in members if isinstance(m, dict)]
    for record in records:
        for key, member in record.items():
            alike = {r[key] for r in records if key in r and type(r[key]) is type(member) and _is_scalar(r[key])}
            if _is_scalar(member) and (others := sorted(alike - {member})):
                yield record, key, others
    for member in members:
        yield from _exchangeable(member)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)
