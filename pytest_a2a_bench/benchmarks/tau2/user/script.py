"""The user's side of one conversation, independent of tau2's classes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_a2a_bench.benchmarks.tau2.user import decide, device, understand
from pytest_a2a_bench.benchmarks.tau2.user.decide import Verdict, Wish
from pytest_a2a_bench.benchmarks.tau2.user.scenario import Facts, Scenario, identifiers, sentences
from pytest_a2a_bench.benchmarks.tau2.user.understand import (
    ASKS_WHY_CALLED,
    CHANGED,
    SPOKEN,
    Mood,
    clauses,
    plain,
    without_examples,
)

Deed = tuple[str, dict[str, Any]]
"""A call of one of the user's own tools: name and arguments."""

_HEARD = 8_000
"""Characters of a text that are looked at."""

# An agent that repeats itself does not move; one that only tells may be at work for long.
MAX_SAME_STATEMENTS = 3
"""How often the same text is heard before the user hangs up, where it asks nothing."""
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
"""How many texts in a row may move nothing: no offer agreed to, nothing done, nothing told for the first time."""
MAX_TEXTS = 150
"""How many texts are heard at all, whatever they move."""

_HOW_CAN_I_HELP = re.compile(
    rf"{ASKS_WHY_CALLED}|\bhow (i|we) (can|could|may) (help|assist)|"
    r"how (can|may|could) (i|we) be of|what exactly|tell me (more|what)|describe|"
    r"(reason for|purpose of) (your|the) (call|contact)|more (detail|information|about)|in detail",
    re.IGNORECASE,
)
_YOUR_MATTER = re.compile(
    r"\byour (?:request|issue|problem|concern|needs?|matter|case)\b|\bspecifics\b|\bwhat\b(?! else).{0,12} (?:you|"
    r"u)(?:['\u2019]d| would)?(?: exactly| really| actually)? (?:need|want|like|after)\b|\bin (?:\w+ ){0,3}detail\b",
    re.IGNORECASE,
)
"""What the user calls about, where that is asked for."""
_ANNOUNCED = re.compile(
    r"\bi(['\u2019]ll| will| am going to|['\u2019]m going to| am about to|['\u2019]m about to)\b", re.I
)
_WORKING = re.compile(
    r"\b(moment|wait|stand by|(i|we)( will|['\u2019]ll) (check|look|see|get)|being \w+ed|(\d+|one|a|couple of|"
    r"few) (sec|min)\w*|patience|searching|finding|bear with|hold on|let me|looking|checking|working|pulling|"
    r"hang tight|while (i|we)|give me a|(i['\u2019]m|i am|we['\u2019]re|we are) (\w+ )?\w+ing)\b",
    re.I,
)
_ON_THE_PHONE = re.compile(
    r"\b((could|can|would|will) you(?! (like|want|agree|be))|(have|get|need|want|like|ask) you (to )?(?!agree|"
    r"confirm)\w+|(on|from|in) your (phone|device)|phone['\u2019]s settings|your settings)\b",
    re.I,
)
_DONE = re.compile(
    r"\b(done|completed?|processed|success\w*|has been|have been|i(['\u2019]ve| have)|is now|are now|was|were|"
    rf"all set)\b|^({CHANGED})\b",
    re.IGNORECASE,
)
_READING = re.compile(
    r"\b(look|check|see|find|search|explain|read|pull up|review|continue|start|help|go on|move on)\b", re.I
)
_IN_OTHER_WORDS = "Could you put it in another way?"
_IDENTITY = ("name", "user id", "email", "zip", "phone")
"""What agents ask for first, in whatever words."""
_LABELS: Mapping[str, str] = {
    "email": "e-mail address", "zip": "zip code", "payment": "payment method", "birthday": "date of birth",
    "order": "order number", "reservation": "reservation number", "flight": "flight number", "cause": "reason",
    "item": "item id", "trip": "kind of trip", "baggage": "number of bags", "phone": "phone number",
}  # fmt: skip


@dataclass
class Script:
    """The user in one trial: hears what the agent says and returns a text, a deed, or None to hang up.

    :param actions: golds of the agent's, as (name, arguments): what the user wants done, to judge offers by.
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
        self._own = device.own_deeds(self.own, self.tools)
        named = {deed.name for deed in self._own}
        self._simple = [tool for tool in self.tools if tool not in named]

    def hear(self, text: str) -> str | Deed | None:
        """React to what the agent said: a text, a deed, or None to stop."""
        if not self._opened:
            self._opened = True
            return self._say(self.scenario.opening())
        self._texts += 1
        if self._texts > MAX_TEXTS or self._texts - self._moved > MAX_IDLE:
            return None
        if len(text) > _HEARD:
            # Nobody reads on and on, and what an agent asks for stands at the beginning or at the end.
            text = f"{text[: _HEARD // 2]}\n{text[-_HEARD // 2 :]}"
        self._awaited = [awaited for awaited in self._awaited if awaited.lower() not in text.replace(",", "").lower()]
        text = without_examples(text)
        # What one has said oneself asks for nothing: an agent that repeats it moves nothing.
        fresh = " ".join(s for s in re.split(r"(?<=[.!?;])[ \t]+|\n", text) if plain(s) not in self._said)
        fresh = text if len(fresh) >= len(text) - 1 else fresh
        times = self._heard[plain(fresh)] = self._heard.get(plain(fresh), 0) + 1
        offer = decide.judge(fresh, self._open or self._wishes)
        if offer is not None and not offer.agreed:
            # What is asked about once more was wished for all the same.
            offer = decide.judge(fresh, self._wishes)
        if offer is not None and not identifiers(fresh) and not self._answered.issuperset(understand.read(fresh).slots):
            # "Which name is on the booking?" speaks of one and offers none.
            offer = None
        if offer is not None and offer.wish is None and self._offer is not None and decide.in_passing(fresh):
            # What comes with what was offered before is no offer of its own.
            offer = None
        heard = understand.read(fresh, offer=offer is not None)
        if heard.decision and offer is not None and self._answered.issuperset(heard.slots):
            # Who asks for a yes and names what it was told already does not ask for that.
            heard = replace(heard, slots=())
        if heard.transferred or (times > MAX_SAME_QUESTIONS and not _WORKING.search(fresh)):
            return None
        self._note_done(fresh)
        acts = self._acts(fresh)
        # "Enable roaming for your line, ok?" can be the agent's or the user's to do.
        offered = heard.decision and offer is not None and offer.wish is not None and not _ON_THE_PHONE.search(fresh)
        if acts and not offered:
            self._statements = self._reminders = self._unclear = 0
            self._moved = self._texts
            # Facts that are asked for beside it are told with what the device shows.
            self._report = [self._answer(fresh, slot) for slot in heard.slots if self._facts.get(slot)]
            self._deeds = list(acts)
            self._left_open = bool(self._simple) and device.left_open(fresh)
            if self._left_open:
                self.not_understood = self.not_understood or fresh
            return self._next_deed()
        reply = self._reply(fresh, heard, offer, times)
        return None if reply is None else self._say(reply)

    def after_action(self, results: Sequence[str]) -> str | Deed:
        """React to what the user's own tools returned."""
        seen = " ".join(r.strip() for r in results if r.strip())
        done, self._doing = self._doing, None
        if done is not None:
            self._cured = device.cured(done.name, seen) if done.name == self._symptom else self._cured
            if device.contradicts(done, seen):
                # It was as wanted before it was touched.
                self._deeds.insert(0, device.Act(done.name))
        self._report.append(seen)
        if self._deeds:
            return self._next_deed()
        told = "\n".join(self._report)
        self._report = []
        thanks = " It works now, thank you!" if self._cured and done is not None and done.name == self._symptom else ""
        unclear = f"\nI am not sure what else I should do. {_IN_OTHER_WORDS}" if self._left_open else ""
        return self._say(f"I have done that. This is what I see:\n{told}{thanks}{unclear}")

    def _acts(self, text: str) -> tuple[device.Act, ...]:
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
        # Whatever a scenario holds: the tokens that end a simulation are said by its edge alone.
        text = re.sub(r"#{3}[A-Z-]+#{3}", "", text).strip()
        said = {plain(s) for s in re.split(r"(?<=[.!?;])[ \t]+|\n", text) if plain(s)}
        if not said <= self._said:
            self._moved = self._texts
        self._said |= said
        return text

    def _reply(self, text: str, heard: understand.Heard, offer: Verdict | None, times: int) -> str | None:
        parts: list[str] = []
        # An offer wants an answer, however it is worded, unless it tells of what is done or cannot be.
        open_offer = offer is not None and offer.wish is not None and not heard.slots and not _DONE.search(text)
        doubted = heard.doubt and self._offer is not None and not heard.closing
        announced = offer is not None and _ANNOUNCED.search(text)
        if heard.decision or announced or doubted or (open_offer and not heard.refused):
            parts.append(self._decide(text, offer, heard))
        # "Tell me what it is about, with the dates, if any": what is not known is not missed.
        # Nor is it where an offer is agreed to that names it ("without insurance").
        free = _asks_what_it_is_about(text) or (heard.decision and offer is not None and offer.agreed)
        parts += [self._answer(text, slot) for slot in heard.slots if not free or self._facts.get(slot)]
        # What was all that was asked for comes first; a farewell beside a question waits.
        parts = [p for p in dict.fromkeys(parts) if p]
        if parts:
            self._statements = 0
            return " ".join(parts)
        if heard.refused:
            return self._introduced(text) or self._refused()
        if heard.closing and not _asks_for_the_matter(text):
            return self._conclude(times)
        if heard.question or free:
            return self._tell(text)
        return self._listen(text, times)

    def _decide(self, text: str, offer: Verdict | None, heard: understand.Heard) -> str:
        offer = offer or (self._offer if not heard.slots else None)
        if offer is None:
            # "May I have your name?" needs the name and no permission.
            return "" if heard.slots else "Yes, please."
        known, self._offer = self._offer == offer, offer
        self._reminders = 0
        if offer.agreed:
            # Agreeing once more moves nothing: an agent that repeats what it hears would have a yes for ever.
            self._moved = self._moved if known else self._texts
            # It moved: what was said before may be said again.
            self._heard = {said: times for said, times in self._heard.items() if said == plain(text)}
            return "Yes, please go ahead."
        if offer.wish is None and not self._wishes and _READING.search(text):
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
            verb = "is" if len(values) == 1 else "are"
            return f"My {label} {verb} {' and '.join(values)}."
        return self.scenario.about(f"{label} {text}", needed=label) or f"I don't have that ({label})."

    def _tell(self, text: str) -> str:
        if _asks_what_it_is_about(text):
            return self.scenario.opening()
        return self._introduced(text) or self._asked_back(text) or self.scenario.about(text) or "I don't have that."

    def _refused(self) -> str | None:
        if self._pushbacks:
            return self._pushbacks.pop(0)
        self._refusals += 1
        if self._refusals > MAX_REFUSALS:
            return None
        return f"Is there really no way? {self.scenario.opening()}"

    def _conclude(self, times: int) -> str | None:
        waiting = bool(self._open or self._awaited or self._own or (self._symptom and not self._cured))
        self._reminders += 1
        if not waiting or self._reminders > MAX_REMINDERS or times >= MAX_SAME_STATEMENTS:
            return None
        return f"Please make sure that everything is done: {self.scenario.opening()}"

    def _listen(self, text: str, times: int) -> str | None:
        self._statements += 1
        if (times >= MAX_SAME_STATEMENTS and not _WORKING.search(text)) or self._statements > MAX_STATEMENTS:
            return None
        return self._introduced(text) or self._asked_back(text) or "Okay, thank you."

    def _asked_back(self, text: str) -> str:
        """Say that an instruction was not understood, where there is one: who wrote it can write it in other words.

        Who is not known yet is most likely asked who it is.
        """
        if self._unclear >= MAX_UNCLEAR:
            return ""
        told = any(c.mood is Mood.TOLD and (self._simple or c.addressed) for c in clauses(text))
        busy = _WORKING.search(text) or _DONE.search(text)
        if (not told or busy) and not (self._simple and device.left_open(text)):
            return ""
        self._unclear += 1
        self.not_understood = self.not_understood or text
        return f"Sorry, I am not sure what I should do. {_IN_OTHER_WORDS}"

    def _introduced(self, text: str) -> str:
        """Say who one is, where an agent that does not know it yet wants something."""
        if self._answered or not understand.wants(text, _IDENTITY):
            return ""
        return " ".join(self._answer(text, slot) for slot in _IDENTITY if self._facts.get(slot))

    def _note_done(self, text: str) -> None:
        """Remember which wishes the agent says it has fulfilled: by name, or the one that was agreed to last."""
        told = " ".join(s for s in sentences(text) if _DONE.search(s) and "?" not in s)
        if not told:
            return
        named = decide.fulfilled(told, self._open)
        meant = self._offer.wishes if self._offer is not None and self._offer.agreed else ()
        agreed = [w for w in self._open if any(w is m for m in meant)]
        if not decide.kinds(told) or (len(agreed) == 1 and any(w is agreed[0] for w in named)):
            named = agreed or named
        if named:
            self._reminders = 0
            self._open = [w for w in self._open if not any(w is n for n in named)]
            self._heard.clear()


def _asks_what_it_is_about(text: str) -> bool:
    return bool(_HOW_CAN_I_HELP.search(text)) or _asks_for_the_matter(text)


def _asks_for_the_matter(text: str) -> bool:
    return any(c.mood in (Mood.TOLD, Mood.ASKED) and _YOUR_MATTER.search(c.body) for c in clauses(text))
