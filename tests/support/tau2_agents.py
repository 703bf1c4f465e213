"""Agents that wrap the golds of tau2's tasks and speak as agents do, for measuring the scripted user.

Each is a generator: it yields a text and is sent the user's reply, or yields a call and is sent its result. They act
only if the user plays its part: without the answer that identifies it, without a yes, they give up.
"""

import datetime
import functools
import itertools
import random
import re
import tomllib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What they say is data: of an intent's forms ``?`` asks, ``!`` commands, ``.`` is terse; a write is offered (``offers``
# stand after "I will", ``blocks`` are lists) and reported. A phrasing is drawn by chance for each thing said, so that
# every task hears another mixture.
FOLDER = Path(__file__).parent / "phrasings"
SETS = tuple(sorted(p.stem for p in FOLDER.glob("*.toml")))


@dataclass(frozen=True)
class Phrasings:
    """One set: intent -> phrasings, and write -> kind (offers, blocks, reports) -> phrasings."""

    phrases: Mapping[str, list[str]]
    writes: Mapping[str, Mapping[str, list[str]]]


@functools.cache
def read(name: str) -> Phrasings:
    content = tomllib.loads((FOLDER / f"{name}.toml").read_text())
    return Phrasings(content["phrases"], content["writes"])


def words(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the arguments of a call as an agent would put them into a sentence."""
    said = {k: ", ".join(map(str, v)) if isinstance(v, list) else _plain(v) for k, v in arguments.items()}
    flights = arguments.get("flights", ())
    said["flights"] = " and ".join(f"flight {f['flight_number']} on {f['date']}" for f in flights)
    said["legs"] = " and ".join(f"{f['flight_number']} on {_day(f['date'])}" for f in flights)
    said["people"] = ", ".join(f"{p['first_name']} {p['last_name']}" for p in arguments.get("passengers", ()))
    said["payments"] = " and ".join(str(p["payment_id"]) for p in arguments.get("payment_methods", ()))
    said["cabin"] = str(arguments.get("cabin", "")).replace("_", " ")
    items, new = arguments.get("item_ids", ()), arguments.get("new_item_ids", ())
    said["items"] = " and ".join(f"item {i}" for i in items)
    said["swaps"] = ", ".join(f"{old} for {other}" for old, other in zip(items, new, strict=False))
    said["address"] = ", ".join(said[k] for k in ("address1", "address2", "city") if said.get(k))
    said["address"] += f", {said.get('state', '')} {said.get('zip', '')}"
    *networks, kind = str(arguments.get("mode", "")).split("_")
    said["mode_words"] = f"{'/'.join(networks).upper()} {kind}"
    return said


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _day(date: str) -> str:
    return f"{datetime.date.fromisoformat(date):%B} {int(date[-2:])}"


Call = tuple[str, dict[str, Any]]
Step = tuple[str, str, dict[str, Any]]
Play = Generator["str | Call", str, None]


class GaveUp(Exception):
    """The user did not play its part."""


@dataclass
class Part:
    """One task as an agent that knows the gold sees it, and a choice of phrasings.

    :param steps: (requestor, name, arguments) in the gold's order.
    """

    domain: str
    known: str
    steps: Sequence[Step]
    communicate: Sequence[str]
    chance: random.Random
    phrasings: Phrasings

    def say(self, intent: str, **values: Any) -> str:
        return self.chance.choice(self.phrasings.phrases[intent]).format(**values)

    def writes(self, name: str) -> bool:
        return name in self.phrasings.writes

    def offered(self, name: str, arguments: Mapping[str, Any]) -> dict[str, str]:
        """Return a write as a phrasing of ``confirm`` takes it: in words and, where the set has such, as a list."""
        kinds = self.phrasings.writes[name]
        what = self.chance.choice(kinds["offers"]).format(**words(arguments))
        block = self.chance.choice(kinds["blocks"]).format(**words(arguments)) if "blocks" in kinds else what
        return {"what": what, "block": block}

    def reported(self, name: str, arguments: Mapping[str, Any]) -> str:
        text = self.chance.choice(self.phrasings.writes[name]["reports"]).format(**words(arguments))
        return self.say("done", past=text[0].upper() + text[1:])

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


def asked(words_for_it: Callable[[], str]) -> Generator[str | Call, str, tuple[str, str]]:
    """Say something; return it and what was answered. Who is asked for other words has some, three times."""
    for _ in range(4):
        text = words_for_it()
        reply = yield text
        if "another way" not in reply:
            break
    return text, reply


def identify(part: Part, form: str) -> Play:
    intent, expected = part.identity()
    for _ in range(2):
        reply = yield part.say(f"{intent}{form}")
        if all(e.lower() in reply.lower() for e in expected) and reply:
            return
    raise GaveUp(f"{intent}{form}: {reply!r}")


def agreed(part: Part, form: str, name: str, arguments: dict[str, Any], times: int = 1) -> Play:
    def offer() -> str:
        return part.say(f"confirm{form}", **part.offered(name, arguments))

    for n in range(times):
        text, reply = yield from asked(offer if n == 0 or form == "." else lambda: part.say("again?"))
        if not reply.lower().startswith("yes"):
            raise GaveUp(f"{text!r}: {reply!r}")


def instruct(part: Part, name: str, arguments: Mapping[str, Any], prefix: str = "") -> Play:
    text, reply = yield from asked(lambda: prefix + part.say(name, **words(arguments)))
    if "This is what I see" not in reply:
        raise GaveUp(f"{text!r}: {reply!r}")


Before = Callable[[Part, str, dict[str, Any]], Play]


def work(part: Part, before: Before, *, after: Before | None = None, prefix: str = "", narrate: bool = False) -> Play:
    """Do the gold's steps: reads silently, writes after ``before``, the user's by instruction."""
    for requestor, name, arguments in part.steps:
        if requestor == "user":
            yield from instruct(part, name, arguments, prefix)
            continue
        writes = part.writes(name)
        if narrate and part.chance.random() < 0.5:
            yield part.say("narrate")
        if writes:
            yield from before(part, name, arguments)
        yield (name, arguments)
        if writes and after is not None:
            yield from after(part, name, arguments)
        if name.startswith("transfer"):
            yield part.say("handed_over")
    if part.communicate:
        yield part.say("inform", facts="\n".join(part.communicate))


def _confirmed(form: str) -> Before:
    def before(part: Part, name: str, arguments: dict[str, Any]) -> Play:
        yield from agreed(part, form, name, arguments)

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
        yield from agreed(part, "?", name, arguments, part.chance.randint(1, 3))

    yield from identify(part, "?")
    yield from work(part, before)
    yield part.say("bye")


def one_step(part: Part) -> Play:
    yield from identify(part, "!")
    if part.domain == "telecom":
        reply = yield part.say("look")
        if "Status Bar:" not in reply:
            raise GaveUp(reply)
    yield from work(part, _confirmed("!"), after=_reported, prefix=part.say("step"))
    yield part.say("bye")


def chatty(part: Part) -> Play:
    intro = part.say("intro")
    yield intro + part.say("narrate")
    reply = yield intro + str(next(identify(part, "?")))
    if not all(e.lower() in reply.lower() for e in part.identity()[1]):
        raise GaveUp("identity")
    yield from work(part, _confirmed("?"), after=_reported, prefix=intro, narrate=True)
    yield intro + part.say("bye")


def terse(part: Part) -> Play:
    yield from identify(part, ".")
    yield from work(part, _confirmed("."))
    yield part.say("finished")


def wrong_then_corrected(part: Part) -> Play:
    def before(part: Part, name: str, arguments: dict[str, Any]) -> Play:
        wrong = spoiled(name, arguments)
        if wrong is not None:
            text, reply = yield from asked(lambda: part.say("confirm?", **part.offered(name, wrong[0])))
            if not reply.lower().startswith("no") or wrong[1].lower() not in reply.lower():
                raise GaveUp(f"{text!r}: {reply!r} lacks {wrong[1]!r}")
        yield from agreed(part, "?", name, arguments)

    yield from identify(part, "?")
    yield from work(part, before)
    yield part.say("more?")


def multi_issue(part: Part) -> Play:
    writes = [s for s in part.steps if s[0] != "user" and part.writes(s[1])]

    def after(part: Part, name: str, arguments: dict[str, Any]) -> Play:
        yield from _reported(part, name, arguments)
        if arguments is not writes[-1][2]:
            yield part.say("more?")

    yield from identify(part, "?")
    yield from work(part, _confirmed("?"), after=after)
    yield part.say("more?")


def all_at_once(part: Part) -> Play:
    """Propose all writes that follow each other in one message, and give all instructions that do in one."""

    def key(step: Step) -> str:
        return "told" if step[0] == "user" else "asked" if part.writes(step[1]) else "silent"

    yield from identify(part, "!")
    # What is only read may be read before.
    ordered = [s for s in part.steps if key(s) == "silent" and not s[1].startswith("transfer")]
    ordered += [s for s in part.steps if s not in ordered]
    for kind, group in itertools.groupby(ordered, key):
        steps = list(group)
        if kind == "told":
            text, reply = yield from asked(functools.partial(_instructions, part, steps))
            if "This is what I see" not in reply:
                raise GaveUp(f"{text!r}: {reply!r}")
            continue
        if kind == "asked":
            text, reply = yield from asked(functools.partial(_offers, part, steps))
            if not reply.lower().startswith("yes"):
                raise GaveUp(f"{text!r}: {reply!r}")
        for _, name, arguments in steps:
            yield (name, arguments)
            if name.startswith("transfer"):
                yield part.say("handed_over")
    if part.communicate:
        yield part.say("inform", facts="\n".join(part.communicate))
    yield part.say("more?")


def _instructions(part: Part, steps: Sequence[Step]) -> str:
    return "\n\n".join(part.say(name, **words(arguments)) for _, name, arguments in steps)


def _offers(part: Part, steps: Sequence[Step]) -> str:
    offers = [part.offered(name, arguments) for _, name, arguments in steps]
    what, block = " and ".join(o["what"] for o in offers), "\n\n".join(o["block"] for o in offers)
    return part.say("confirm?", what=what, block=block)


def _reported(part: Part, name: str, arguments: dict[str, Any]) -> Play:
    yield part.reported(name, arguments)


def noop(part: Part) -> Play:
    while True:
        yield part.say("idle")


def echo(part: Part) -> Play:
    reply = yield "Hello."
    while True:
        reply = yield reply or "Hello."


PLAYED = (ask_first, imperative, confirm_every_write, one_step, chatty, terse, wrong_then_corrected, multi_issue)
AGENTS: dict[str, Callable[[Part], Play]] = {
    agent.__name__.replace("_", "-"): agent for agent in (*PLAYED, all_at_once, noop, echo)
}
