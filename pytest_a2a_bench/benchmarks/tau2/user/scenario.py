"""A task's scenario in the first person, without instructions for a simulator, and its facts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_PLAYING = r"agents?\b|make sure|mention|do(?:n't| not) ask|pretend|make up|reveal|volunteer|insist|respon[ds]|terse\b"
_SIMULATOR = r"ground(?:ed|ing)? (?:your|the)|tool call|persona\b|simulat|instructions?\b|scenario\b|role\b|is meant to"
_TIMING = r"halfway\b|abruptly\b|the conversation\b|in pieces\b|piecewise\b|(?:if|when) asked\b|you like to say"
_STAGE = re.compile(rf"###|\b(?:{_PLAYING}|{_SIMULATOR}|{_TIMING}|representative says\b)", re.I)
"""Directions to the player of the user, which a customer would not say."""

_ASIDE = re.compile(r"\s*\([^)]*\)")
_PLAIN_COMMAND = re.compile(r"^(create|update|mark|delete|cancel|add|change|remove|send|book|return|exchange)\b", re.I)
_REPORTED_COMMAND = re.compile(r"^(then,? |also,? |first,? )*(request|ask for)\b", re.I)
_COMMAND = (
    r"ask|try|do|don't|never|always|be|act|say|tell|continue|if|use|check|keep|wait|end|stop|answer|only|under no"
)
_OTHER_COMMAND = re.compile(rf"^(then,? |also,? |first,? |finally,? )*({_COMMAND})\b", re.I)
_IF_AGENT = re.compile(r"\bif (?:and only if )?(?:the )?(?:service )?agent (?P<condition>[^,]*), (?P<then>[^.]*)", re.I)
_WORD = re.compile(r"[a-z0-9]{3,}")
_REFUSING = re.compile(r"not (be )?possible|cannot|can't|can not|not allow|refus|denies|unable|doesn't|does not", re.I)
_COMMON = frozenset(
    "the and you your for are can could would please with that this have has may what which who how help "
    "provide need know tell let any like there from about will was were our want asks agent says".split()
)
_AFTER = r"after (?:a few|several|some|\d+|the \w+) (?:attempt|exchange|agent|message|round)|insisted \d+|halfway\b"
_WEIGHING = re.compile(rf"\b(?:{_AFTER}|first (?:\d|two|three) (?:round|message)|try to get\b|first offer)", re.I)
_IF_THE_AGENT = re.compile(r"\bif (and only if )?(either of )?(the )?(service )?agent\b", re.I)
_CLEAR = r"asks?|not|cannot|can't|refus\w*|denies|suggests?"
_CLEAR_CONDITION = re.compile(rf"\bif (and only if )?(the )?(service )?agent\b[^,]*\b({_CLEAR})\b", re.I)

_BEFORE_AN_OBJECT = "to|for|with|from|of|by|at|about|told|tells?|gives?|gave|lets?|allows?|sent|send|help"
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
    (rf"\b({_BEFORE_AN_OBJECT})\s+you\b", r"\1 me"),
    (r"\byou to\b", "me to"),
    (r"\byou\b", "I"),
)  # fmt: skip


def first_person(text: str) -> str:
    """Turn instructions to the player into the customer's words."""
    for pattern, spoken in _PERSONS:
        text = re.sub(pattern, spoken, text, flags=re.IGNORECASE)
    return text[:1].upper() + text[1:]


def sentences(text: str) -> list[str]:
    """Split into sentences."""
    return [s.strip() for s in re.split(r"(?<=[.!?;])\s+|\n+", text) if s.strip(" .;")]


def content_words(text: str) -> set[str]:
    """Return the words of a text that name its subject."""
    return set(_WORD.findall(text.lower())) - _COMMON


@dataclass(frozen=True)
class Scenario:
    """The user's wishes and knowledge, from the task's user scenario."""

    reason: str
    known: str = ""
    unknown: str = ""
    instructions: str = ""

    @classmethod
    def of(cls, instructions: Any) -> Scenario:
        """Read tau2's ``UserScenario.instructions``: a text, or a structured object or mapping."""
        if isinstance(instructions, str):
            return cls(reason=instructions)
        values = instructions if isinstance(instructions, Mapping) else vars(instructions)
        names = ("reason_for_call", "known_info", "unknown_info", "task_instructions")
        return cls(*(values.get(name) or "" for name in names))

    def sayable(self, *texts: str) -> tuple[str, ...]:
        """Return those sentences of texts that a customer may say, in the first person."""
        spoken = (_spoken(sentence) for text in texts for sentence in sentences(text))
        return tuple(s for s in spoken if s)

    def opening(self) -> str:
        """Return the first thing that the user says."""
        return " ".join(self.sayable(self.reason)) or "Hello, I need your help with something."

    def about(self, question: str, *, needed: str = "") -> str:
        """Return the scenario's best two sentences on a question's subject, or an empty text.

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
        """Return the scenario's answer to a question about a subject, or an empty text."""
        for found in _IF_AGENT.finditer(f"{self.unknown}\n{self.instructions}"):
            asked = re.match(r"asks?\b(.*)", found["condition"], re.I)
            if asked and content_words(subject) & content_words(asked[1]):
                return _reported(found["then"])
        return ""

    def pushbacks(self) -> tuple[str, ...]:
        """Return the user's replies to refusals, in this order, each once."""
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


def needs_judgement(scenario: Scenario, *, checked: bool = True) -> str:
    """Return why a task's user needs judgement that a script has not, or an empty text.

    :param checked: whether the task has criteria (a database, assertions, actions, texts).
    """
    if not checked:
        return "the task lists nothing to judge the agent's offers by"
    for sentence in sentences(f"{scenario.reason}\n{scenario.instructions}"):
        if _WEIGHING.search(sentence):
            return "the user is to choose the moment for what it says"
        if _IF_THE_AGENT.search(sentence) and not _CLEAR_CONDITION.search(sentence):
            return "what the user does depends on what the agent's answer means"
    return ""


def judgement_needed(task: Mapping[str, Any]) -> str:
    """Return why a task of tau2's needs a user that can judge, or an empty text.

    :param task: as it stands in tau2's data.
    """
    criteria = task.get("evaluation_criteria") or {}
    # tau2's own default; a task without criteria has none.
    checked = bool(criteria) and bool(set(criteria.get("reward_basis") or ("DB",)) - {"NL_ASSERTION"})
    asserted = any(a.get("env_type") == "user" for a in criteria.get("env_assertions") or ())
    if asserted and not any(a.get("requestor") == "user" for a in criteria.get("actions") or ()):
        return "the user is to act of its own accord, and no reference action says how"
    return needs_judgement(Scenario.of(task["user_scenario"]["instructions"]), checked=checked)


RESERVATION = r"\b(?!HAT\d)(?=[A-Z0-9]{6}\b)(?:[A-Z0-9]*[A-Z][A-Z0-9]*)\b"
IDENTIFIERS: Mapping[str, str] = {
    "user id": r"\b[a-z]+_[a-z]+_\d{4}\b|\buser_\d+\b",
    "email": r"\b[\w.+-]+@[\w-]+\.\w+\b",
    "phone": r"\b\d{3}-\d{3}-\d{4}\b",
    "order": r"#W\d{7}\b",
    "payment": r"\b(?:credit_card|gift_card|paypal|certificate)_\d+\b",
    "item": r"\b\d{10}\b",
    "flight": r"\bHAT\d{3}\b",
    "date": r"\b\d{4}-\d{2}-\d{2}\b",
    "task": r"\btask_\d+\b",
    "bill": r"\bB\d{7}\b",
    "line": r"\bL\d{4}\b",
    "customer": r"\bC\d{4}\b",
    "reservation": RESERVATION,
    "zip": r"(?<![\w#-])\d{5}(?![\w-])",
}
"""Patterns of identifiers, by kind. First match wins where kinds overlap."""
_IDENTIFIERS = tuple((kind, re.compile(pattern)) for kind, pattern in IDENTIFIERS.items())

# Airport codes, currencies and emphasis look like reservation ids but for their length or sense.
_NOT_RESERVATIONS = frozenset("PLEASE CANCEL CHANGE STATUS NUMBER RETURN REFUND UPDATE FLIGHT SILVER".split())

_NAMES = (
    r"\b(?:[Yy]our? name is|[Yy]ou are user|[Yy]our? full name is) ((?:[A-Z][\w'-]+ ?){1,3})",
    r"\b(?:[Yy]ou are|[Yy]ou're) (?:an? [a-z ]+ called )?([A-Z][\w'-]+(?: [A-Z][\w'-]+){0,2})",
)
_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "user id": ("user_id",),
    "email": ("email",),
    "zip": ("zip",),
    "first name": ("first_name",),
    "last name": ("last_name",),
    "order": ("order_id",),
    "payment": ("payment_method_id", "payment_id"),
    "item": ("item_ids",),
    "reservation": ("reservation_id",),
    "date": ("date",),
    "birthday": ("dob",),
    "cabin": ("cabin",),
    "baggage": ("total_baggages",),
    "insurance": ("insurance",),
    "cause": ("reason",),
    "trip": ("flight_type",),
    "origin": ("origin",),
    "destination": ("destination",),
    "task": ("task_id",),
    "title": ("title",),
    "status": ("status",),
    "amount": ("gb_amount", "amount"),
}
"""Question -> arguments of the task's own writes that answer it. Without those the agent must find out (new items)."""

_DENIED: Mapping[str, str] = {
    "email": r"e-?mail",
    "reservation": r"reservation|confirmation number",
    "order": r"order (id|number)",
    "payment": r"payment method",
    "flight": r"flight number",
    "cabin": r"\bcabin\b",
    "birthday": r"\bdob\b|birth",
    "zip": r"\bzip",
    "user id": r"user id",
}
_ADDRESS = ("address1", "address2", "city", "state", "country", "zip")


def identifiers(text: str) -> dict[str, list[str]]:
    """Find identifiers, by kind, in the order of the text."""
    found: dict[str, list[str]] = {}
    rest = text
    for kind, pattern in _IDENTIFIERS:
        if values := [v for v in pattern.findall(rest) if v not in _NOT_RESERVATIONS]:
            found[kind] = list(dict.fromkeys(values))
            # What one kind has claimed is no other's: a payment id ends in digits that look like an item.
            rest = pattern.sub(lambda m: m[0] if m[0] in _NOT_RESERVATIONS else " ", rest)
    return found


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the scalars of nested arguments with the name of the argument that they stand under."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, str(key))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from leaves(inner, name)
    else:
        yield name, value


class Facts:
    """Questions' subjects and this user's answers to them.

    :param writes: arguments of the user's wishes, as the task's golds have them.
    """

    def __init__(self, scenario: Scenario, writes: Sequence[Mapping[str, Any]] = ()) -> None:
        text = f"{scenario.known}\n{scenario.reason}\n{scenario.instructions}"
        self._values: dict[str, list[str]] = identifiers(text)
        # Shops' and airlines' numbers of the same look are no zip codes unless the user's own facts have them.
        self._values["zip"] = identifiers(scenario.known).get("zip") or self._values.get("zip", [])
        self._denied = {s for s, pattern in _DENIED.items() if re.search(pattern, scenario.unknown, re.I)}
        if re.search(r"(don't|do not) want to reveal", text, re.I):
            self._denied.add("address")
        self._name(text)
        self._birthday(text)
        self._wishes(writes)

    def _name(self, text: str) -> None:
        for pattern in _NAMES:
            match = re.search(pattern, text)
            if match:
                self._values["name"] = [match[1].strip()]
                break
        else:
            # tau2's user ids are made of names.
            for user in self._values.get("user id", ())[:1]:
                parts = user.split("_")
                if len(parts) == 3:
                    self._values["name"] = [f"{parts[0].title()} {parts[1].title()}"]

    def _birthday(self, text: str) -> None:
        born = re.search(r"(?:dob|date of birth|birthday|born)\D{0,20}(\d{4}-\d{2}-\d{2})", text, re.I)
        if born:
            self._values["birthday"] = [born[1]]

    def _wishes(self, writes: Sequence[Mapping[str, Any]]) -> None:
        for slot, names in _ARGUMENTS.items():
            if self._values.get(slot) and slot != "order":
                continue
            values = [str(v) for w in writes for name, v in leaves(w) if name in names and v is not None]
            if values:
                self._values[slot] = list(dict.fromkeys([*self._values.get(slot, ()), *values]))
        for write in writes:
            if "address1" in write:
                self._values["address"] = [", ".join(str(write[p]) for p in _ADDRESS if write.get(p))]
            if "passengers" in write:
                people = write["passengers"]
                names_ = [f"{p.get('first_name', '')} {p.get('last_name', '')}".strip() for p in people]
                self._values["passengers"] = [f"{len(people)}: {', '.join(names_)}"]

    def get(self, slot: str) -> list[str]:
        """Return the user's knowledge of a subject; empty where it has none, or does not give it."""
        return [] if slot in self._denied else self._values.get(slot, [])
