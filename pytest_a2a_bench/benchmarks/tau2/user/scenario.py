"""A task's scenario in the first person, without what is meant for a simulator only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_STAGE = re.compile(
    r"###|\bagents?\b|\brepresentative says\b|make sure|\bmention|don't ask|do not ask|\bpretend|make up|"
    r"ground(ed|ing)? "
    r"(your|the)|tool call|\breveal|\bvolunteer|\binsist|\bpersona\b|\bsimulat|\bhalfway\b|\babruptly\b|"
    r"\bthe conversation\b|\brespon(d|se)|is meant to|\bterse\b|\bin pieces\b|\bpiecewise\b|\b(if|"
    r"when) asked\b|you like to say|"
    r"\binstructions?\b|\bscenario\b|\brole\b",
    re.IGNORECASE,
)
"""What a customer would not say: directions to whoever plays it."""

_ASIDE = re.compile(r"\s*\([^)]*\)")
_PLAIN_COMMAND = re.compile(r"^(create|update|mark|delete|cancel|add|change|remove|send|book|return|exchange)\b", re.I)
_REPORTED_COMMAND = re.compile(r"^(then,? |also,? |first,? )*(request|ask for)\b", re.I)
_OTHER_COMMAND = re.compile(
    r"^(then,? |also,? |first,? |finally,? )*(ask|try|do|don't|never|always|be|act|say|tell|continue|if|use|check|keep|"
    r"wait|end|stop|answer|only|under no)\b",
    re.IGNORECASE,
)
_IF_AGENT = re.compile(
    r"\bif (?:and only if )?(?:the )?(?:service )?agent (?P<condition>[^,]*), (?P<then>[^.]*)", re.IGNORECASE
)
_WORD = re.compile(r"[a-z0-9]{3,}")
_REFUSING = re.compile(r"not (be )?possible|cannot|can't|can not|not allow|refus|denies|unable|doesn't|does not", re.I)
_COMMON = frozenset(
    "the and you your for are can could would please with that this have has may what which who how help "
    "provide need know tell let any like there from about will was were our want asks agent says".split()
)

_WEIGHING = re.compile(r"after (a few|several|some|\d+|the \w+) (attempt|exchange|agent|message|round)|\binsisted \d+|"
                       r"\bhalfway\b|\bfirst (\d|two|three) (round|message)|\btry to get\b|"
                       r"first offer", re.I)  # fmt: skip
_TYPED = re.compile(r"\bif (and only if )?(the )?(service )?agent\b[^,]*\b(asks?|not|cannot|can't|refus\w*|"
    r"denies|suggests?)\b",
                    re.I)  # fmt: skip
_CONDITION = re.compile(r"\bif (and only if )?(either of )?(the )?(service )?agent\b", re.I)

# Order matters: what is longer comes first. A verb before or a preposition makes "you" an object.
_PERSONS: tuple[tuple[str, str], ...] = (
    (r"\byou name\b", "my name"),
    (r"\byou (mobile|reservation|account|order)\b", r"my \1"),
    (r"\byour goal is to\b", "I want to"),
    (r"\byou(?:'|\u2019)re\b", "I'm"),
    (r"\byou(?:'|\u2019)(ve|d|ll)\b", r"I'\1"),
    (r"\byou are\b", "I am"),
    (r"\bare you\b", "am I"),
    (r"\byou were\b", "I was"),
    (r"\byourself\b", "myself"),
    (r"\byours\b", "mine"),
    (r"\byour\b", "my"),
    (r"\b(to|for|with|from|of|by|at|about|told|tell|tells|give|gives|gave|let|lets|allow|allows|sent|send|"
    r"help)\s+you\b",
     r"\1 me"),
    (r"\byou to\b", "me to"),
    (r"\byou\b", "I"),
)  # fmt: skip


def first_person(text: str) -> str:
    """Turn what is said to the player into what the customer says."""
    for pattern, spoken in _PERSONS:
        text = re.sub(pattern, spoken, text, flags=re.IGNORECASE)
    return text[:1].upper() + text[1:]


def sentences(text: str) -> list[str]:
    """Split into sentences."""
    return [s.strip() for s in re.split(r"(?<=[.!?;])\s+|\n+", text) if s.strip(" .;")]


def content_words(text: str) -> set[str]:
    """Return the words of a text that say what it is about."""
    return set(_WORD.findall(text.lower())) - _COMMON


@dataclass(frozen=True)
class Scenario:
    """What the user wants and knows, from the task's user scenario."""

    reason: str
    known: str = ""
    unknown: str = ""
    instructions: str = ""

    @classmethod
    def of(cls, instructions: Any) -> Scenario:
        """Read tau2's ``UserScenario.instructions``, which is a text or a structured object."""
        if isinstance(instructions, str):
            return cls(reason=instructions)
        return cls(
            reason=instructions.reason_for_call,
            known=instructions.known_info or "",
            unknown=instructions.unknown_info or "",
            instructions=instructions.task_instructions or "",
        )

    def sayable(self, *texts: str) -> tuple[str, ...]:
        """Return those sentences of texts that a customer may say, in the first person."""
        spoken = (_spoken(sentence) for text in texts for sentence in sentences(text))
        return tuple(s for s in spoken if s)

    def opening(self) -> str:
        """Return the first thing that the user says."""
        return " ".join(self.sayable(self.reason)) or "Hello, I need your help with something."

    def about(self, question: str, *, needed: str = "") -> str:
        """Return what the scenario says of a question's subject, best two sentences, or an empty text.

        :param needed: the subject in words, of which a sentence must have one.
        """
        wanted = content_words(question)
        must = content_words(needed)
        lines = self.sayable(self.reason, self.instructions)
        scored = [(len(wanted & content_words(line)), -n, line) for n, line in enumerate(lines)]
        best = sorted(
            (s for s in scored if s[0] > (not must) and (not must or must & content_words(s[2]))), reverse=True
        )
        return " ".join(line for _, _, line in sorted(best[:2], key=lambda s: -s[1]))

    def when_asked(self, subject: str) -> str:
        """Return what the scenario wants said to whoever asks for a subject, or an empty text."""
        for found in _IF_AGENT.finditer(f"{self.unknown}\n{self.instructions}"):
            asked = re.match(r"asks?\b(.*)", found["condition"], re.I)
            if asked and content_words(subject) & content_words(asked[1]):
                return _reported(found["then"])
        return ""

    def pushbacks(self) -> tuple[str, ...]:
        """Return what the user says to refusals, in this order, each once."""
        found = _IF_AGENT.finditer(f"{self.reason}\n{self.instructions}")
        said = (_reported(m["then"]) for m in found if _REFUSING.search(m["condition"]))
        return tuple(s for s in said if s)


def _spoken(sentence: str) -> str:
    sentence = _ASIDE.sub(lambda aside: "" if _STAGE.search(aside[0]) else aside[0], sentence)
    if _STAGE.search(sentence):
        return ""
    if _PLAIN_COMMAND.search(sentence):
        return f"Please {sentence[0].lower()}{sentence[1:]}"
    reported = _REPORTED_COMMAND.match(sentence)
    if reported:
        return first_person(f"I would like to request {sentence[reported.end() :].strip()}")
    return "" if _OTHER_COMMAND.search(sentence) else first_person(re.sub(r"\s+", " ", sentence))


def _reported(then: str) -> str:
    """Turn "mention that ..." and the like into the words themselves."""
    then = then.strip()
    words = re.match(r"(?:then )?(?:you )?(?:mention|say|insist)(?: that)? (?!on\b)(.+)", then, re.I)
    if words:
        return f"{first_person(words[1])}."
    if re.match(r"(?:you )?ask to be transferred", then, re.I):
        return "Then please transfer me to somebody else."
    if then.lower().startswith(("you want the agent to ", "you want")) and "agent" not in then:
        return f"{first_person(then)}."
    asked = re.match(r"(?:you )?(?:ask|try) (to .+)", then, re.I)
    if asked and "agent" not in then:
        return f"Then I would like {first_person(asked[1])[0].lower()}{first_person(asked[1])[1:]}."
    return f"{first_person(then)}." if re.match(r"you (are|would)\b", then, re.I) and "agent" not in then else ""


def needs_judgement(
    scenario: Scenario,
    *,
    checked: bool = True,
) -> str:
    """Return why a task's user needs judgement that a script has not, or an empty text.

    :param checked: whether the task says what must be true at the end (a database, assertions, actions, texts).
    """
    if not checked:
        return "the task lists nothing to judge the agent's offers by"
    for sentence in sentences(f"{scenario.reason}\n{scenario.instructions}"):
        if _WEIGHING.search(sentence):
            return "the user is to choose the moment for what it says"
        if _CONDITION.search(sentence) and not _TYPED.search(sentence):
            return "what the user does depends on what the agent's answer means"
    return ""
