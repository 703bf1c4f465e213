"""Agents that wrap the golds of tau2's tasks and speak as agents do, for measuring the scripted user.

Each is a generator: it yields a text and is sent the user's reply, or yields a call and is sent its result. They act
only if the user plays its part: without the answer that identifies it, without a yes, they give up.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tau2_phrases import PHRASES, WRITES

Call = tuple[str, dict[str, Any]]
Play = Generator["str | Call", str, None]
READS = ("get_", "find_", "search_", "list_", "calculate", "think", "check_")


class GaveUp(Exception):
    """The user did not play its part."""


@dataclass
class Part:
    """One task as an agent that knows the gold sees it, and a choice of phrasings.

    :param steps: (requestor, name, arguments) in the gold's order.
    """

    domain: str
    known: str
    steps: Sequence[tuple[str, str, dict[str, Any]]]
    communicate: Sequence[str]
    chance: random.Random
    allowed: Sequence[int]

    def say(self, intent: str, **values: Any) -> str:
        return PHRASES[intent][self.chance.choice(self.allowed)].format(**values)

    def identity(self) -> tuple[str, list[str]]:
        """Return what to ask for, and what the answer must contain."""
        if self.domain == "airline":
            return "user_id", re.findall(r"[a-z]+_[a-z]+_\d{4}", self.known)[:1]
        if self.domain == "telecom":
            return "phone", re.findall(r"\d{3}-\d{3}-\d{4}", self.known)
        if self.domain == "retail":
            emails = re.findall(r"[\w.]+@[\w.]+\w", self.known)
            return ("email", emails[:1]) if emails else ("name_zip", re.findall(r"\b\d{5}\b", self.known)[:1])
        return "details", []


def describe(name: str, arguments: Mapping[str, Any]) -> str:
    return WRITES[name][0].format(**_words(arguments))


def report(name: str, arguments: Mapping[str, Any]) -> str:
    return WRITES[name][1].format(**_words(arguments))


def _words(arguments: Mapping[str, Any]) -> dict[str, str]:
    words = {k: ", ".join(map(str, v)) if isinstance(v, list) else str(v) for k, v in arguments.items()}
    words["flights"] = " and ".join(f"flight {f['flight_number']} on {f['date']}" for f in arguments.get("flights", ()))
    words["people"] = ", ".join(f"{p['first_name']} {p['last_name']}" for p in arguments.get("passengers", ()))
    words["payments"] = " and ".join(str(p["payment_id"]) for p in arguments.get("payment_methods", ()))
    words["cabin"] = str(arguments.get("cabin", "")).replace("_", " ")
    return words


def spoiled(name: str, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], str] | None:
    """Make one argument wrong; return the arguments and what a correction must name."""
    wrong = dict(arguments)
    for key in ("reservation_id", "order_id", "task_id", "gb_amount", "amount", "zip", "bill_id", "status"):
        value = wrong.get(key)
        if isinstance(value, str) and key != "status":
            wrong[key] = value[:-1] + ("7" if value[-1] != "7" else "3")
        elif isinstance(value, int | float):
            wrong[key] = value + 3
        else:
            continue
        right = f"{value:g}" if isinstance(value, int | float) else value
        return wrong, right
    return None


def identify(part: Part, form: str) -> Play:
    intent, expected = part.identity()
    for _ in range(2):
        reply = yield part.say(f"{intent}{form}")
        if all(e.lower() in reply.lower() for e in expected) and reply:
            return
    raise GaveUp(f"{intent}{form}: {reply!r}")


def agreed(part: Part, form: str, what: str, times: int = 1) -> Play:
    for n in range(times):
        text = part.say(f"confirm{form}", what=what) if n == 0 or form == "." else part.say("again?")
        reply = yield text
        if not reply.lower().startswith("yes"):
            raise GaveUp(f"{text!r}: {reply!r}")


def instruct(part: Part, name: str, arguments: Mapping[str, Any], prefix: str = "") -> Play:
    text = prefix + part.say(name, **arguments)
    reply = yield text
    if "This is what I see" not in reply:
        raise GaveUp(f"{text!r}: {reply!r}")


Before = Callable[[Part, str, dict[str, Any]], Play]


def work(part: Part, before: Before, *, after: Before | None = None, prefix: str = "", narrate: bool = False) -> Play:
    """Do the gold's steps: reads silently, writes after ``before``, the user's by instruction."""
    for requestor, name, arguments in part.steps:
        if requestor == "user":
            yield from instruct(part, name, arguments, prefix)
            continue
        writes = name in WRITES
        if narrate and part.chance.random() < 0.5:
            yield part.say("narrate")
        if writes:
            yield from before(part, name, arguments)
        yield (name, arguments)
        if writes and after is not None:
            yield from after(part, name, arguments)
        if name.startswith("transfer"):
            yield "I have asked a colleague to look at your case."
    if part.communicate:
        yield "For your information:\n" + "\n".join(part.communicate)


def _confirmed(form: str) -> Before:
    def before(part: Part, name: str, arguments: dict[str, Any]) -> Play:
        yield from agreed(part, form, describe(name, arguments))

    return before


def ask_first(part: Part) -> Play:
    yield from identify(part, "?")
    yield part.say("details?")
    yield from work(part, _confirmed("?"))
    yield part.say("more?")


def imperative(part: Part) -> Play:
    yield from identify(part, "!")
    yield part.say("details!")
    yield from work(part, _confirmed("!"))
    yield part.say("bye")


def confirm_every_write(part: Part) -> Play:
    def before(part: Part, name: str, arguments: dict[str, Any]) -> Play:
        yield from agreed(part, "?", describe(name, arguments), part.chance.randint(1, 3))

    yield from identify(part, "?")
    yield from work(part, before)
    yield part.say("bye")


def one_step(part: Part) -> Play:
    yield from identify(part, "!")
    if part.domain == "telecom":
        reply = yield part.say("look")
        if "Status Bar:" not in reply:
            raise GaveUp(reply)
    yield from work(part, _confirmed("!"), after=_reported, prefix="Let's go step by step. ")
    yield part.say("bye")


def chatty(part: Part) -> Play:
    intro = "Thank you so much for reaching out to us today! I completely understand how frustrating this must be. "
    yield intro + part.say("narrate")
    for text in _prefixed(identify(part, "?"), intro):
        reply = yield text
        if all(e.lower() in reply.lower() for e in part.identity()[1]):
            break
    else:
        raise GaveUp("identity")
    yield from work(part, _confirmed("?"), after=_reported, prefix=intro, narrate=True)
    yield intro + part.say("bye")


def _prefixed(play: Play, intro: str) -> list[str]:
    return [intro + str(next(play))]


def terse(part: Part) -> Play:
    yield from identify(part, ".")
    yield from work(part, _confirmed("."))
    yield "Done."


def wrong_then_corrected(part: Part) -> Play:
    def before(part: Part, name: str, arguments: dict[str, Any]) -> Play:
        wrong = spoiled(name, arguments)
        if wrong is not None and describe(name, wrong[0]) != describe(name, arguments):
            text = part.say("confirm?", what=describe(name, wrong[0]))
            reply = yield text
            if not reply.lower().startswith("no") or wrong[1].lower() not in reply.lower():
                raise GaveUp(f"{text!r}: {reply!r} lacks {wrong[1]!r}")
        yield from agreed(part, "?", describe(name, arguments))

    yield from identify(part, "?")
    yield from work(part, before)
    yield part.say("more?")


def multi_issue(part: Part) -> Play:
    writes = [s for s in part.steps if s[0] != "user" and s[1] in WRITES]

    def after(part: Part, name: str, arguments: dict[str, Any]) -> Play:
        yield from _reported(part, name, arguments)
        if arguments is not writes[-1][2]:
            yield part.say("more?")

    yield from identify(part, "?")
    yield from work(part, _confirmed("?"), after=after)
    yield part.say("more?")


def _reported(part: Part, name: str, arguments: dict[str, Any]) -> Play:
    text = report(name, arguments)
    yield part.say("done", past=text[0].upper() + text[1:])


def noop(part: Part) -> Play:
    while True:
        yield "Thank you for getting in touch. I have noted what you said and will leave everything as it is."


def echo(part: Part) -> Play:
    reply = yield "Hello."
    while True:
        reply = yield reply or "Hello."


AGENTS: dict[str, Callable[[Part], Play]] = {
    "ask-first": ask_first,
    "imperative": imperative,
    "confirm-every-write": confirm_every_write,
    "one-step": one_step,
    "chatty": chatty,
    "terse": terse,
    "wrong-then-corrected": wrong_then_corrected,
    "multi-issue": multi_issue,
    "noop": noop,
    "echo": echo,
}
