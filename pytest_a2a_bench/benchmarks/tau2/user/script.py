"""Play the user's side of one conversation without a model, and as a user of tau2's orchestrator.

It is deterministic, for smoke tests, gates and demos. It is not the user that leaderboard numbers are made with, and
every report says so.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_a2a_bench.benchmarks.tau2.player import read_gold
from pytest_a2a_bench.benchmarks.tau2.upstream import Tau2
from pytest_a2a_bench.benchmarks.tau2.user import decide, device
from pytest_a2a_bench.benchmarks.tau2.user.decide import SPOKEN, Verdict, Wish
from pytest_a2a_bench.benchmarks.tau2.user.scenario import Facts, Scenario, identifiers
from pytest_a2a_bench.benchmarks.tau2.user.understand import (
    CHANGED,
    WHY_CALLED,
    Mood,
    Reading,
    bounded,
    clauses,
    normal,
    plain,
    sentences,
)
from pytest_a2a_bench.model import UserFault
from pytest_a2a_bench.text import one_line

Deed = tuple[str, dict[str, Any]]
"""A call of one of the user's own tools: name and arguments."""

# An agent that repeats itself does not move; one that only informs may be at work for long.
MAX_SAME_STATEMENTS = 3
"""How often in a row the agent may repeat a text that asks nothing before the user hangs up."""
MAX_SAME_QUESTIONS = 4
"""The same, where it asks for something (three confirmations of one thing are still answered)."""
MAX_STATEMENTS = 15
"""How many texts in a row may ask nothing."""
MAX_REMINDERS = 2
"""How often in a row the user says that it is not done yet."""
MAX_REFUSALS = 2
"""How many refusals are final, after all that the scenario says to them has been said."""
MAX_UNCLEAR = 1
"""How often in a row the user asks for other words for an instruction."""
MAX_IDLE = 25
"""How many texts in a row may move nothing: no offer agreed to, nothing done, nothing said for the first time."""
MAX_TEXTS = 150
"""How many texts there may be at all."""

_AFTER = r"what\b(?! else).{0,12} you(?: would)?(?: exactly| really)? (?:need|want|like|after)\b"
_MATTER = (
    rf"your (?:request|issue|problem|concern|needs?|matter|case)\b|specifics\b|{_AFTER}|in (?:\w+ ){{0,3}}detail\b"
)
_YOUR_MATTER = re.compile(rf"\b(?:{_MATTER})", re.I)
"""The user's reason for the call, where the agent asks for it."""
_ANNOUNCED = re.compile(r"\bi (?:will|am going to|am about to)\b", re.I)
_PATIENCE = (
    r"moment|wait|stand by|patience|bear with|hold on|let me|while (?:i|we)|give me a|(?:\d+|one|a|few) (?:sec|min)"
)
_AT_WORK = rf"{_PATIENCE}|in progress|(?:i|we) will (?:check|look|see|get)|being \w+ed|(?:i am|we are) (?:\w+ )?\w+ing"
# "Digging through the details now": a sentence without a subject that begins with its verb.
_DOING = r"(?:^|(?<=[.!?:]\s))\W*(?:(?:still|now|just|currently) )?\w{3,}ing (?!is|are|was|will|can|may|might)\w+"
_WORKING = re.compile(rf"\b(?:{_AT_WORK})\b|{_DOING}|\b(?:looking|checking|working)\b", re.I | re.M)
_USER_DOES = (
    r"(?:could|can|would|will) you(?! (?:like|want|be))|(?:have|need|like|ask) you (?:to )?(?!agree|confirm)\w+"
)
_ON_THE_PHONE = re.compile(rf"\b(?:{_USER_DOES}|(?:on|from|in) your (?:phone(?! line)|device)|your settings)\b", re.I)
_DONE = re.compile(
    rf"\b(done|completed?|processed|success\w*|ha(s|ve) been|i have|is now|are now|was|were|all set)\b|^({CHANGED})\b",
    re.I,
)
_LOOKS_UP = re.compile(r"\b(look|check|see|find|search|explain|read|pull up|review|continue|start|help|go on)\b", re.I)
_IN_OTHER_WORDS = "Could you put it in another way?"
_IDENTITY = ("name", "user id", "email", "zip", "phone")
"""The facts that agents ask for first, in whatever words."""
_LABELS: Mapping[str, str] = {
    "email": "e-mail address", "zip": "zip code", "payment": "payment method", "birthday": "date of birth",
    "order": "order number", "reservation": "reservation number", "flight": "flight number", "cause": "reason",
    "item": "item id", "trip": "kind of trip", "baggage": "number of bags", "phone": "phone number",
}  # fmt: skip


@dataclass
class Script:
    """The user in one trial: takes the agent's text and returns a text, an action, or None to hang up.

    :param actions: golds of the agent's, as (name, arguments): the user's wishes, to judge offers by.
    :param communicate: texts that the user waits to hear.
    :param tools: names of the user's own tools.
    :param own: golds of the user's, as (name, arguments).
    """

    scenario: Scenario
    actions: Sequence[tuple[str, Mapping[str, Any]]] = ()
    communicate: Sequence[str] = ()
    tools: Collection[str] = ()
    own: Sequence[tuple[str, Mapping[str, Any]]] = ()
    not_understood: str = field(default="", init=False)
    """The first text of the agent's for which other words were asked."""
    _opened: bool = False
    _said: set[str] = field(default_factory=set)
    _heard: dict[str, int] = field(default_factory=dict)
    _last: str = ""
    _same: int = 0
    _statements: int = 0
    _unclear: int = 0
    _left_open: bool = False
    _answered: set[str] = field(default_factory=set)
    _texts: int = 0
    _moved: int = 0
    _reminders: int = 0
    _refusals: int = 0
    _offer: Verdict | None = None
    _cured: bool = False
    _deeds: list[device.Act] = field(default_factory=list)
    _doing: device.Act | None = None
    _report: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._wishes = decide.wishes(self.actions)
        self._open: list[Wish] = [w for w in self._wishes if not w.tool.startswith("transfer")]
        self._awaited = [str(text) for text in self.communicate]
        self._facts = Facts(self.scenario, [w.arguments for w in self._wishes])
        self._symptom = device.symptom_check(self.scenario.reason) if self.tools else ""
        self._pushbacks = list(self.scenario.pushbacks())
        self._own = device.own_deeds(self.own, self.tools) if self.tools else []
        named = {deed.name for deed in self._own}
        self._simple = [tool for tool in self.tools if tool not in named]

    def hear(self, text: str) -> str | Deed | None:
        """React to the agent's message: a text, a deed, or None to stop."""
        if not self._opened:
            self._opened = True
            return self._say(self.scenario.opening())
        self._texts += 1
        if self._texts > MAX_TEXTS or self._texts - self._moved > MAX_IDLE:
            return None
        text = bounded(text)
        self._awaited = [awaited for awaited in self._awaited if awaited.lower() not in text.replace(",", "").lower()]
        fresh = self._fresh(normal(text))
        times = self._heard[plain(fresh)] = self._heard.get(plain(fresh), 0) + 1
        self._same = self._same + 1 if plain(fresh) == self._last else 1
        self._last = plain(fresh)
        offer = self._offer_in(fresh)
        reading = Reading(fresh, offer=offer is not None)
        asked = reading.facts
        if reading.decision and offer is not None:
            # An agent that asks for a yes and names facts that it knows does not ask for these.
            asked = tuple(slot for slot in asked if slot not in self._answered and not self._is_named(fresh, slot))
        if reading.transferred or (times > MAX_SAME_QUESTIONS and not _WORKING.search(fresh)):
            return None
        self._note_done(fresh)
        acts = self._acts(fresh)
        # "Enable roaming for your line, ok?" can be the agent's or the user's to do.
        offered = reading.decision and offer is not None and offer.wish is not None and not _ON_THE_PHONE.search(fresh)
        if acts and not offered:
            self._statements = self._reminders = self._unclear = 0
            self._moved = self._texts
            # Facts that are asked for beside it are said with what the device shows.
            self._report = [self._answer(fresh, slot) for slot in asked if self._facts.get(slot)]
            self._deeds = device.with_looks(acts, self.tools)
            self._left_open = bool(self._simple) and device.left_open(fresh)
            if self._left_open:
                self.not_understood = self.not_understood or text
            return self._next_deed()
        reply = self._reply(fresh, reading, asked, offer, times)
        return None if reply is None else self._say(reply)

    def _fresh(self, text: str) -> str:
        """Return a text without the user's own words: an agent that repeats them asks for nothing."""
        fresh = " ".join(s for s in re.split(r"(?<=[.!?;])[ \t]+|\n", text) if plain(s) not in self._said)
        return text if len(fresh) >= len(text) - 1 else fresh

    def _is_named(self, text: str, slot: str) -> bool:
        """Return whether a text has the user's own answer to a question: it offers that and does not ask for it."""
        said, answers = set(plain(text).split()), [plain(v).split() for v in self._facts.get(slot)]
        # An address may be written without its country.
        return bool(answers) and all(sum(word in said for word in each) * 3 >= len(each) * 2 for each in answers)

    def _offer_in(self, text: str) -> Verdict | None:
        offer = decide.judge(text, self._open or self._wishes)
        if offer is not None and not offer.agreed:
            # What is asked about once more was wished for all the same.
            offer = decide.judge(text, self._wishes)
        if offer is None:
            return None
        reading = Reading(text)
        if reading.facts and not identifiers(text):
            # "Which name is on the booking?" speaks of one and offers none.
            if not (reading.decision and self._answered.issuperset(reading.facts)):
                return None
        # What comes with what was offered before is no offer of its own.
        return None if offer.wish is None and self._offer is not None and decide.in_passing(text) else offer

    def after_action(self, results: Sequence[str]) -> str | Deed:
        """React to the results of the user's own tools."""
        seen = " ".join(r.strip() for r in results if r.strip())
        done, self._doing = self._doing, None
        if done is not None:
            self._cured = device.cured(done.name, seen) if done.name == self._symptom else self._cured
            if device.stands(done, seen) is False:
                # It was as wanted before it was touched.
                self._deeds.insert(0, device.Act(done.name))
        tells = done is None or not done.first_look
        if self._deeds and device.stands(self._deeds[0], seen):
            del self._deeds[0]
            tells = True
        self._report += [seen] if tells else []
        if self._deeds:
            return self._next_deed()
        report = "\n".join(self._report)
        self._report = []
        thanks = " It works now, thank you!" if self._cured and done is not None and done.name == self._symptom else ""
        unclear = f"\nI am not sure what else I should do. {_IN_OTHER_WORDS}" if self._left_open else ""
        return self._say(f"I have done that. This is what I see:\n{report}{thanks}{unclear}")

    def _acts(self, text: str) -> tuple[device.Act, ...]:
        if not self.tools:
            return ()
        known = f"{self.scenario.reason}\n{self.scenario.known}\n{self.scenario.instructions}"
        asked = device.asked_for(text, self._own, known)
        for deed in asked:
            self._own.remove(deed)
            # It moves: the same may be asked for again.
            self._heard.clear()
        return asked or device.instructed(text, self._simple, self._symptom)

    def _next_deed(self) -> Deed:
        self._doing = self._deeds.pop(0)
        return self._doing.name, dict(self._doing.arguments)

    def _say(self, text: str) -> str:
        # Whatever a scenario has: the tokens that end a simulation are said by its edge alone.
        text = re.sub(r"#{3}[A-Z-]+#{3}", "", text).strip()
        said = {plain(s) for s in re.split(r"(?<=[.!?;])[ \t]+|\n", normal(text)) if plain(s)}
        if not said <= self._said:
            self._moved = self._texts
        self._said |= said
        return text

    def _reply(
        self, text: str, reading: Reading, asked: Sequence[str], offer: Verdict | None, times: int
    ) -> str | None:
        parts: list[str] = []
        # An offer wants an answer, however it is worded, unless it speaks of what is done or cannot be.
        open_offer = offer is not None and offer.wish is not None and not asked and not _DONE.search(text)
        doubted = reading.doubt and self._offer is not None and not reading.closing
        announced = offer is not None and _ANNOUNCED.search(text)
        if reading.decision or announced or doubted or (open_offer and not reading.refused):
            parts.append(self._decide(text, offer, asked))
        # "Tell me what it is about, with the dates, if any": what is not known is not missed.
        # Nor is it where an offer is agreed to that names it ("without insurance").
        free = _asks_what_it_is_about(text) or (reading.decision and offer is not None and offer.agreed)
        parts += [self._answer(text, slot) for slot in asked if not free or self._facts.get(slot)]
        # What was all that was asked for comes first; a farewell beside a question waits.
        parts = [p for p in dict.fromkeys(parts) if p]
        if parts:
            self._statements = 0
            return " ".join(parts)
        if reading.refused:
            return self._introduced(reading) or self._refused()
        if reading.closing and not _asks_for_the_matter(text):
            return self._conclude(times)
        if reading.question or free:
            if _asks_what_it_is_about(text):
                return self.scenario.opening()
            said = self._introduced(reading) or self._asked_back(text) or self.scenario.about(text)
            return said or "I don't have that."
        self._statements += 1
        in_a_row = self._same >= MAX_SAME_STATEMENTS
        if (in_a_row and not _WORKING.search(text)) or self._statements > MAX_STATEMENTS:
            return None
        return self._introduced(reading) or self._asked_back(text) or "Okay, thank you."

    def _decide(self, text: str, offer: Verdict | None, asked: Sequence[str]) -> str:
        offer = offer or (self._offer if not asked else None)
        if offer is None:
            # "May I have your name?" needs the name and no permission.
            return "" if asked else "Yes, please."
        known, self._offer = self._offer == offer, offer
        self._reminders = 0
        if offer.agreed:
            # Agreeing once more moves nothing: an agent that repeats the user's words would get a yes for ever.
            self._moved = self._moved if known else self._texts
            # It moved: what was said before may be said again.
            self._heard = {said: times for said, times in self._heard.items() if said == plain(text)}
            return "Yes, please go ahead."
        if offer.wish is None and not self._wishes and _LOOKS_UP.search(text):
            return "Please tell me first what you find."
        wrong = offer.wrong[0].upper() + offer.wrong[1:]
        return f"No, that is not right. {wrong}." if offer.wish else f"No. {wrong}."

    def _answer(self, text: str, slot: str) -> str:
        self._answered.add(slot)
        label = _LABELS.get(slot, slot)
        said = self.scenario.when_asked(label)
        if said:
            return said
        values = [SPOKEN.get(v, v) for v in self._facts.get(slot)]
        if values:
            return f"My {label} {'is' if len(values) == 1 else 'are'} {' and '.join(values)}."
        return self.scenario.about(f"{label} {text}", needed=label) or f"I don't have that ({label})."

    def _refused(self) -> str | None:
        if self._pushbacks:
            return self._pushbacks.pop(0)
        self._refusals += 1
        return f"Is there really no way? {self.scenario.opening()}" if self._refusals <= MAX_REFUSALS else None

    def _conclude(self, times: int) -> str | None:
        waiting = bool(self._open or self._awaited or self._own or (self._symptom and not self._cured))
        self._reminders += 1
        if not waiting or self._reminders > MAX_REMINDERS or times >= MAX_SAME_STATEMENTS:
            return None
        return f"Please make sure that everything is done: {self.scenario.opening()}"

    def _asked_back(self, text: str) -> str:
        """Report that an instruction was not understood, where there is one: the agent can use other words."""
        if self._unclear >= MAX_UNCLEAR:
            return ""
        instructs = any(c.mood is Mood.INSTRUCTS and (self._simple or c.addressed) for c in clauses(text))
        busy = _WORKING.search(text) or _DONE.search(text)
        if (not instructs or busy) and not (self._simple and device.left_open(text)):
            return ""
        self._unclear += 1
        self.not_understood = self.not_understood or text
        return f"Sorry, I am not sure what I should do. {_IN_OTHER_WORDS}"

    def _introduced(self, reading: Reading) -> str:
        """Give the user's identity, where an agent that does not know it yet wants something."""
        if self._answered or not reading.may_want(_IDENTITY):
            return ""
        return " ".join(self._answer(reading.text, slot) for slot in _IDENTITY if self._facts.get(slot))

    def _note_done(self, text: str) -> None:
        """Remember which wishes the agent says it has fulfilled: by name, or the one that was agreed to last."""
        done = " ".join(s for s in sentences(text) if _DONE.search(s) and "?" not in s)
        if not done:
            return
        named = decide.fulfilled(done, self._open)
        meant = self._offer.wishes if self._offer is not None and self._offer.agreed else ()
        agreed = [w for w in self._open if any(w is m for m in meant)]
        if not decide.kinds(done) or (len(agreed) == 1 and any(w is agreed[0] for w in named)):
            named = agreed or named
        if named:
            self._reminders = 0
            self._open = [w for w in self._open if not any(w is n for n in named)]
            self._heard.clear()


def _asks_what_it_is_about(text: str) -> bool:
    return bool(WHY_CALLED.search(text)) or _asks_for_the_matter(text)


def _asks_for_the_matter(text: str) -> bool:
    return any(c.mood in (Mood.INSTRUCTS, Mood.ASKS) and _YOUR_MATTER.search(c.body) for c in clauses(text))


# --- a task's script, and the user of tau2's orchestrator ---


def make_scripted_user(tau2: Tau2, task: Any, tools: Collection[str] = ()) -> Any:
    """Make a scripted user for tau2's ``Orchestrator``.

    :param tools: names of the user's own tools in this task's environment.
    """
    return _ScriptedUser(tau2, make_script(task, tools))


def make_script(task: Any, tools: Collection[str] = ()) -> Script:
    """Make the user's side of a conversation about a task of tau2's."""
    golds = list(_golds(task))
    actions = [(name, arguments) for name, arguments, by_user in golds if not by_user]
    own = [(name, arguments) for name, arguments, by_user in golds if by_user]
    return Script(Scenario.of(task.user_scenario.instructions), actions, _to_say(task), tools, own)


def _to_say(task: Any) -> list[Any]:
    """Return the agent's expected words."""
    criteria = task.evaluation_criteria
    return (criteria.communicate_info if criteria else None) or []


def _golds(task: Any) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """Yield name and arguments of each gold, and whether it is the user's."""
    criteria = task.evaluation_criteria
    if criteria is None:
        return
    for action in criteria.actions or ():
        by_user = str(getattr(action.requestor, "value", action.requestor)) == "user"
        yield action.name, action.arguments, by_user
    if not criteria.actions:
        # A task may only say what must hold at the end: that is then what the user wants.
        for call in read_gold(task.model_dump(mode="json")).where_offered:
            yield call.name, call.arguments, False


class _ScriptedUser:
    """tau2's user interface around a :class:`Script`."""

    def __init__(self, tau2: Tau2, script: Script) -> None:
        self._messages = tau2.messages
        self._stop_token = tau2.stop_token
        self._is_stop = tau2.user_simulator.is_stop
        self._script = script
        self._calls = 0

    @property
    def fault(self) -> UserFault | None:
        """The text that the user did not understand, if there was any."""
        asked = self._script.not_understood
        return UserFault("not_understood", f"the agent: {one_line(asked, 300)!r}") if asked else None

    def get_init_state(self, message_history: list[Any] | None = None) -> Script:
        return self._script

    def generate_next_message(self, message: Any, state: Script) -> tuple[Any, Script]:
        if message.role == "tool":
            results = getattr(message, "tool_messages", None) or [message]
            reaction: str | Deed | None = state.after_action([m.content or "" for m in results])
        else:
            reaction = state.hear(message.content or "")
        return self._say(reaction), state

    def _say(self, reaction: str | Deed | None) -> Any:
        if reaction is None or isinstance(reaction, str):
            # Cost 0 and not None, as tau2 adds costs up.
            content = self._stop_token if reaction is None else reaction
            return self._messages.UserMessage(role="user", content=content, cost=0.0)
        self._calls += 1
        name, arguments = reaction
        call = self._messages.ToolCall(id=f"user_call_{self._calls}", name=name, arguments=arguments, requestor="user")
        return self._messages.UserMessage(role="user", tool_calls=[call], cost=0.0)

    def is_stop(self, message: Any) -> bool:
        return bool(self._is_stop(message))

    def set_seed(self, seed: int) -> None:
        """Do nothing: there is nothing random here."""

    def stop(self, message: Any = None, state: Any = None) -> None:
        """Do nothing: there is nothing to release."""
