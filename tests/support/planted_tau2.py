"""Agents for tau2's tasks that play the gold with exactly one fault: what they say, line by line, and what was planted.

Everything depends on the kind of fault and the task only, so that each is the same whenever it is played.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import random
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_a2a_bench.agents.brains import FAREWELL, load_gold
from pytest_a2a_bench.benchmarks.player import Gold
from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.benchmarks.tau2.player import write_tools
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import AgentSaid, ToolCall

TRANSFERRED = "YOU ARE BEING TRANSFERRED TO A HUMAN AGENT. PLEASE HOLD ON."
SORRY = "I am sorry, but I could not find that in our system, so there is nothing more that I can do for you. Goodbye."
REFUSED = "I am sorry, but our policy does not allow me to do what you ask for. Thank you for your understanding."
PROCEED = "Do you want me to proceed?"
WAIT = "One moment, please. I am looking into this for you."
READS = ("get_", "find_", "search_", "list_", "calculate")
_OPENERS = {
    "airline": "Thank you for contacting us. Could you tell me your user ID, please?",
    "retail": "Thank you for contacting us. Could you tell me your email address, or your name and zip code, please?",
    "telecom": "Thank you for contacting us. Could you tell me your phone number, please?",
}
_OTHER_INSTRUCTIONS = (
    ("toggle_data_saver_mode", "Please turn data saver mode off."),
    ("toggle_wifi_calling", "Please turn Wi-Fi calling off."),
    ("reset_apn_settings", "Please reset your APN settings."),
    ("reboot_device", "Please restart your phone."),
)
_ENUMS: Mapping[str, Sequence[Any]] = {
    "cabin": ("economy", "business", "basic_economy"),
    "flight_type": ("one_way", "round_trip"),
    "insurance": ("yes", "no"),
    "reason": ("no longer needed", "ordered by mistake"),
}
_TEXTS = ("zip", "address1", "address2")

Where = tuple[str | int, ...]
"""Where in a call's arguments a value is."""


@dataclass(frozen=True)
class Fails:
    """The agent's A2A task does not come to its end.

    :param state: ``failed`` or ``rejected``.
    """

    state: str


Line = AgentSaid | Fails
LEAVE = AgentSaid(FAREWELL)


@dataclass(frozen=True)
class Planted:
    """An agent with one fault.

    :param lines: what it says, in order; ``tail`` is what it says ever after.
    :param about: what was planted, in plain JSON.
    :param blame: ``agent``, ``user``, ``benchmark`` or ``infrastructure``.
    """

    lines: tuple[Line, ...]
    about: Mapping[str, Any] = field(default_factory=dict)
    tail: Line = LEAVE
    blame: str = "agent"

    def line(self, number: int) -> Line:
        """Return what it says for the so-manieth time."""
        return self.lines[number] if number < len(self.lines) else self.tail


@dataclass(frozen=True)
class Scene:
    """A task as one who plants a fault in its play sees it.

    :param story: the user's scenario as text.
    """

    domain: str
    gold: Gold
    writes: frozenset[str]
    story: str
    chance: random.Random

    @property
    def play(self) -> list[Line]:
        """The calls and instructions of the gold, without the closing."""
        gold, lines, told = self.gold, list[Line](), 0
        for done in range(len(gold.calls) + 1):
            while told < len(gold.instructions) and (gold.is_time_to_tell(told, done) or done == len(gold.calls)):
                lines.append(AgentSaid(gold.instructions[told]))
                told += 1
            if done < len(gold.calls):
                lines.append(AgentSaid(calls=(gold.calls[done],)))
        return lines

    @property
    def needed(self) -> list[ToolCall]:
        """The writes of the gold."""
        return [call for call in self.gold.calls if call.name in self.writes]

    @property
    def reads(self) -> list[ToolCall]:
        return [call for call in self.gold.calls if call.name.startswith(READS)]

    @property
    def closing(self) -> AgentSaid:
        return AgentSaid(self.gold.closing)

    def told(self, *lines: Line) -> tuple[Line, ...]:
        """Return lines as one of several manners of agents has them: asking who it is or not, and for a yes or not."""
        opening = (AgentSaid(_OPENERS[self.domain]),) if self.chance.random() < 0.5 else ()
        return (*opening, *(self.asking(lines) if self.chance.random() < 0.4 else lines))

    def asking(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Ask for a yes before each write; what is answered makes no difference."""
        before: Line | None = None
        for line in lines:
            if isinstance(line, AgentSaid) and line.calls and line.calls[0].name in self.writes and line != before:
                call = line.calls[0]
                details = ", ".join(f"{name.replace('_', ' ')} {_spoken(v)}" for name, v in call.arguments.items())
                yield AgentSaid(f"I will now {call.name.replace('_', ' ')} with {details}. {PROCEED}")
            yield (before := line)

    def until(self, call: ToolCall) -> list[Line]:
        """Return what is said before a call of the gold."""
        return self.play[: self.play.index(AgentSaid(calls=(call,)))]

    def instead(self, call: ToolCall, *others: ToolCall) -> list[Line]:
        """Return the play with one call left out, or with others in its place."""
        at = self.play.index(AgentSaid(calls=(call,)))
        return [*self.play[:at], *(AgentSaid(calls=(other,)) for other in others), *self.play[at + 1 :]]


def scene_of(domain: str, task_id: str, kind: str) -> Scene:
    """Look at a task."""
    key = f"tau2/{domain}/{task_id}"
    story = json.dumps(index.load_task_json(domain, task_id)["user_scenario"])
    return Scene(domain, load_gold(key, Settings()), write_tools(domain), story, random.Random(f"{kind} {key}"))


# --- the domain's records ---------------------------------------------------------------------------------------------


@functools.cache
def _records(domain: str) -> dict[str, Any]:
    folder = index.find_installation().data / "tau2" / "domains" / domain
    if (folder / "db.json").exists():
        return dict(json.loads((folder / "db.json").read_text("utf-8")))
    return tomllib.loads((folder / "db.toml").read_text("utf-8"))


def _owners(domain: str) -> list[tuple[str, dict[str, list[str]]]]:
    """Return who has what: the owner's id, and its ids by the kind of thing."""
    db = _records(domain)
    if domain == "telecom":
        return [
            (one["customer_id"], {"line_id": one.get("line_ids", []), "bill_id": one.get("bill_ids", [])})
            for one in db["customers"]
        ]
    return [
        (
            user_id,
            {
                "reservation_id": user.get("reservations", []),
                "order_id": user.get("orders", []),
                "payment": list(user["payment_methods"]),
            },
        )
        for user_id, user in db["users"].items()
    ]


def _others(domain: str, name: str, value: Any) -> list[str]:
    """Return other ids of the same owner that stand for the same kind of thing."""
    kind = "payment" if name in ("payment_id", "payment_method_id") else name
    for _, things in _owners(domain):
        if value in things.get(kind, ()):
            found = [one for one in things[kind] if one != value]
            if kind == "order_id":
                orders = _records(domain)["orders"]
                found = [one for one in found if orders[one]["status"] == orders[value]["status"]]
            return found
    return []


def _variants(item: Any) -> list[str]:
    """Return other items of the same product that are in stock."""
    for product in _records("retail")["products"].values():
        if item in product["variants"]:
            return [one for one, what in product["variants"].items() if what["available"] and one != item]
    return []


def _owner(scene: Scene) -> str | None:
    """Return the user's id, as the gold or the scenario gives it."""
    said = json.dumps([dict(call.arguments) for call in scene.gold.calls]) + scene.story
    for owner, things in _owners(scene.domain):
        ids = [owner, *(one for some in things.values() for one in some)]
        if any(f'"{one}"' in said for one in ids) or owner in said:
            return owner
    return None


# --- one argument wrong -----------------------------------------------------------------------------------------------


def _at(value: Any, path: Where) -> Any:
    for step in path:
        value = value[step]
    return value


def _put(value: Any, path: Where, new: Any) -> Any:
    if not path:
        return new
    copied: Any = dict(value) if isinstance(value, Mapping) else list(value)
    copied[path[0]] = _put(value[path[0]], path[1:], new)
    return copied


def _wrong(scene: Scene, find: Callable[[Scene, ToolCall], Iterable[tuple[Where, Any]]]) -> Planted | None:
    """Make one value wrong of those that are found in the needed writes."""
    found = [(call, path, new) for call in scene.needed for path, new in find(scene, call)]
    if not found:
        return None
    call, path, new = scene.chance.choice(found)
    spoilt = dataclasses.replace(call, arguments=_put(call.arguments, path, new))
    about = {
        "tool": call.name,
        "argument": path[0],
        "path": list(path),
        "right": _at(call.arguments, path),
        "wrong": new,
    }
    return Planted(scene.told(*scene.instead(call, spoilt), scene.closing), about)


def _wrong_ids(scene: Scene, call: ToolCall) -> Iterator[tuple[Where, Any]]:
    for name, value in call.arguments.items():
        yield from (((name,), other) for other in _others(scene.domain, name, value))


def _wrong_amounts(scene: Scene, call: ToolCall) -> Iterator[tuple[Where, Any]]:
    for name, value in call.arguments.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield (name,), value + (50 if name == "amount" else 1)


def _wrong_enums(scene: Scene, call: ToolCall) -> Iterator[tuple[Where, Any]]:
    for name, value in call.arguments.items():
        if value in _ENUMS.get(name, ()):
            yield from (((name,), other) for other in _ENUMS[name] if other != value)


def _wrong_texts(scene: Scene, call: ToolCall) -> Iterator[tuple[Where, Any]]:
    for name in _TEXTS:
        if found := re.search(r"\d", str(call.arguments.get(name, ""))):
            text = str(call.arguments[name])
            other = str((int(found[0]) + 3) % 10)
            yield (name,), text[: found.start()] + other + text[found.end() :]


def _wrong_lists(scene: Scene, call: ToolCall) -> Iterator[tuple[Where, Any]]:
    for place, item in enumerate(call.arguments.get("new_item_ids") or ()):
        yield from ((("new_item_ids", place), other) for other in _variants(item)[:1])
    items = call.arguments.get("item_ids") or ()
    if len(items) > 1 and "new_item_ids" not in call.arguments:
        yield ("item_ids",), list(items)[:-1]
    for place, flight in enumerate(call.arguments.get("flights") or ()):
        day = datetime.date.fromisoformat(flight["date"]) + datetime.timedelta(days=1)
        yield ("flights", place, "date"), day.isoformat()
    for place, passenger in enumerate(call.arguments.get("passengers") or ()):
        yield ("passengers", place, "dob"), passenger["dob"][:-1] + str((int(passenger["dob"][-1]) + 1) % 10)
        yield ("passengers", place, "last_name"), passenger["last_name"] + "s"


def wrong_id(scene: Scene) -> Planted | None:
    """Another reservation, order, payment method or line of the same customer."""
    return _wrong(scene, _wrong_ids)


def wrong_amount(scene: Scene) -> Planted | None:
    """A number that is a little too high."""
    return _wrong(scene, _wrong_amounts)


def wrong_enum(scene: Scene) -> Planted | None:
    """Another of the few words that an argument may be."""
    return _wrong(scene, _wrong_enums)


def wrong_text(scene: Scene) -> Planted | None:
    """A digit of an address that was misread."""
    return _wrong(scene, _wrong_texts)


def wrong_list(scene: Scene) -> Planted | None:
    """Something deep in a list: an item, a passenger, a flight."""
    return _wrong(scene, _wrong_lists)


# --- writes that are too few or too many ------------------------------------------------------------------------------


def dropped_write(scene: Scene) -> Planted | None:
    """One needed write is forgotten, and the user told that all is done."""
    if not scene.needed:
        return None
    call = scene.chance.choice(scene.needed)
    return Planted(scene.told(*scene.instead(call), scene.closing), _call_json(call))


def _call_json(call: ToolCall) -> dict[str, Any]:
    return {"tool": call.name, "arguments": dict(call.arguments)}


def _extra(scene: Scene) -> tuple[ToolCall, str] | None:
    """Return a write that nobody asked for, and how it is offered."""
    named = {json.dumps(value) for call in scene.gold.calls for value in call.arguments.values()}
    found: list[tuple[ToolCall, str]] = []
    owner = _owner(scene)
    if scene.domain == "telecom":
        for call in scene.gold.calls:
            if "line_id" in call.arguments:
                ids = {name: call.arguments[name] for name in ("customer_id", "line_id")}
                if call.name == "refuel_data":
                    # What a line's data come to is checked; that it is suspended often is not.
                    refuelled = ToolCall("refuel_data", {**ids, "gb_amount": 1.0})
                    return refuelled, f"add another 1 GB of data to the line {ids['line_id']}"
                suspended = ToolCall("suspend_line", {**ids, "reason": "Technical problem"})
                found = [(suspended, f"suspend the line {ids['line_id']} until the network is stable")]
    elif owner and scene.domain == "airline":
        found.append(
            (ToolCall("send_certificate", {"user_id": owner, "amount": 100}), "send you a certificate of $100")
        )
        for one in _records("airline")["users"][owner]["reservations"]:
            if json.dumps(one) not in named and one not in scene.story:
                found.append((ToolCall("cancel_reservation", {"reservation_id": one}), f"cancel the reservation {one}"))
    elif owner:
        db = _records("retail")
        for one in db["users"][owner]["orders"]:
            if db["orders"][one]["status"] == "pending" and json.dumps(one) not in named:
                cancelled = ToolCall("cancel_pending_order", {"order_id": one, "reason": "no longer needed"})
                found.append((cancelled, f"cancel the order {one}"))
        address = {**db["users"][owner]["address"], "address2": "Suite 101"}
        moved = ToolCall("modify_user_address", {"user_id": owner, **address})
        if all(call.name != moved.name for call in scene.gold.calls):
            found.append((moved, "change your default address to Suite 101"))
    return scene.chance.choice(found) if found else None


def extra_write_unasked(scene: Scene) -> Planted | None:
    """Something is changed beside, without a word about it."""
    extra = _extra(scene)
    if extra is None:
        return None
    lines = (*scene.told(*scene.play), AgentSaid(calls=(extra[0],)), scene.closing)
    return Planted(lines, _call_json(extra[0]))


def extra_write_asked(scene: Scene) -> Planted | None:
    """Something is changed beside after the user was asked (so vaguely that it may agree), whatever the user said."""
    extra = _extra(scene)
    if extra is None:
        return None
    call, what = extra
    offer = scene.chance.choice((f"I would also {what} for you now.", "There is one more thing that I can do for you."))
    question = AgentSaid(f"{offer} Shall I go ahead (yes or no)?")
    lines = (*scene.told(*scene.play), question, AgentSaid(calls=(call,)), scene.closing)
    return Planted(lines, {**_call_json(call), "question": question.text})


def write_twice(scene: Scene) -> Planted | None:
    """A write that adds something is made again, as after an answer that was overlooked."""
    adding = [c for c in scene.needed if c.name in ("refuel_data", "send_certificate", "book_reservation")]
    if not adding:
        return None
    call = scene.chance.choice(adding)
    return Planted(scene.told(*scene.instead(call, call, call), scene.closing), _call_json(call))


# --- giving up --------------------------------------------------------------------------------------------------------


def early_transfer(scene: Scene) -> Planted | None:
    """Before the first write the user is handed over to a human."""
    if not scene.needed or any(call.name.startswith("transfer") for call in scene.gold.calls):
        return None
    first = scene.needed[0]
    transfer = ToolCall("transfer_to_human_agents", {"summary": "The user needs help that I cannot give."})
    lines = scene.told(*scene.until(first), AgentSaid(calls=(transfer,)), AgentSaid(TRANSFERRED))
    return Planted(lines, {"tool": transfer.name, "not_done": first.name})


def refuses(scene: Scene) -> Planted | None:
    """The user is told that it is not possible, though it is."""
    if not scene.needed:
        return None
    first = scene.needed[0]
    lines = scene.told(*scene.until(first), AgentSaid(REFUSED))
    return Planted(lines, {"not_done": first.name})


def _fails_and_gives_up(scene: Scene, calls: Iterable[ToolCall]) -> Planted | None:
    found = [
        (call, name)
        for call in calls
        for name, value in call.arguments.items()
        if name.endswith("_id") and isinstance(value, str) and "payment" not in name
    ]
    if not found:
        return None
    call, name = found[0]
    right = str(call.arguments[name])
    wrong = re.sub(r"\d", "9", right) if re.search(r"[0-8]", right) else right[::-1]
    spoilt = dataclasses.replace(call, arguments={**call.arguments, name: wrong})
    about = {"tool": call.name, "argument": name, "right": right, "wrong": wrong}
    return Planted(scene.told(*scene.until(call), AgentSaid(calls=(spoilt,)), AgentSaid(SORRY)), about)


def failed_write_gives_up(scene: Scene) -> Planted | None:
    """A write fails because of an id that does not exist, and that is the end of it."""
    return _fails_and_gives_up(scene, scene.needed)


def failed_lookup_gives_up(scene: Scene) -> Planted | None:
    """A look-up fails because of an id that does not exist, and that is the end of it."""
    return _fails_and_gives_up(scene, scene.reads) if scene.needed or scene.gold.communicate else None


def invented_tool(scene: Scene) -> Planted | None:
    """A tool is called that there is not, and that is the end of it."""
    if not scene.needed:
        return None
    call = scene.needed[0]
    invented = dataclasses.replace(call, name=f"{call.name}_now")
    lines = scene.told(*scene.until(call), AgentSaid(calls=(invented,)), AgentSaid(SORRY))
    return Planted(lines, {"tool": invented.name, "instead_of": call.name})


# --- going nowhere ----------------------------------------------------------------------------------------------------


def _stuck(scene: Scene, tail: Line, about: Mapping[str, Any]) -> Planted | None:
    """Play a part of the gold, then only the tail."""
    if not scene.needed and not scene.gold.instructions:
        return None
    before = scene.until(scene.needed[0]) if scene.needed else scene.play[:1]
    return Planted(scene.told(*before[: scene.chance.randint(0, len(before))]), about, tail)


def loops_on_call(scene: Scene) -> Planted | None:
    """One look-up is made again and again until the steps end."""
    call = scene.chance.choice(scene.reads) if scene.reads else None
    if scene.domain == "telecom":
        call = ToolCall("get_customer_by_phone", {"phone_number": "555-123-2002"})
    return _stuck(scene, AgentSaid(calls=(call,)), {"tool": call.name}) if call else None


def repeats_sentence(scene: Scene) -> Planted | None:
    """One sentence for ever."""
    return _stuck(scene, AgentSaid(WAIT), {"text": WAIT})


def silent(scene: Scene) -> Planted | None:
    """Empty replies."""
    return _stuck(scene, AgentSaid(""), {"text": ""})


def garbage(scene: Scene) -> Planted | None:
    """What begins as a call and never ends as one."""
    name = scene.gold.calls[0].name if scene.gold.calls else "get_customer_by_phone"
    text = f'{{"tool_call": {{"name": "{name}", "arguments": {{"id": "#W1'
    return _stuck(scene, AgentSaid(text), {"text": text, "tool": name})


def task_failed(scene: Scene) -> Planted | None:
    """Its A2A task ends as failed."""
    return _stuck(scene, Fails("failed"), {"state": "failed"})


def task_rejected(scene: Scene) -> Planted | None:
    """Its A2A task ends as rejected."""
    return _stuck(scene, Fails("rejected"), {"state": "rejected"})


# --- telling ----------------------------------------------------------------------------------------------------------


def tells_wrong_number(scene: Scene) -> Planted | None:
    """One of the numbers that the user must be told is another."""
    numbers = [text for text in scene.gold.communicate if re.search(r"\d", text)]
    if not numbers:
        return None
    right = scene.chance.choice(numbers)
    wrong = re.sub(r"\d", lambda found: str((int(found[0]) + 1) % 10), right)
    told = [wrong if text == right else text for text in scene.gold.communicate]
    closing = dataclasses.replace(scene.gold, communicate=tuple(told)).closing
    return Planted(scene.told(*scene.play, AgentSaid(closing)), {"right": right, "wrong": wrong})


def tells_nothing(scene: Scene) -> Planted | None:
    """All is done and nothing told."""
    if not scene.gold.communicate:
        return None
    closing = dataclasses.replace(scene.gold, communicate=()).closing
    return Planted(scene.told(*scene.play, AgentSaid(closing)), {"untold": list(scene.gold.communicate)})


def skips_lookup(scene: Scene) -> Planted | None:
    """What would have to be told is not even looked up: all reads by one tool, the last that is used, are left out."""
    looked = [call for call in scene.reads if not call.name.startswith("find_")]
    if not scene.gold.communicate or not looked:
        return None
    name = looked[-1].name
    play = [one for one in scene.play if not (isinstance(one, AgentSaid) and [c.name for c in one.calls] == [name])]
    closing = dataclasses.replace(scene.gold, communicate=()).closing
    about = {"tool": name, "untold": list(scene.gold.communicate)}
    return Planted(scene.told(*play, AgentSaid(closing)), about)


def instruction_dropped(scene: Scene) -> Planted | None:
    """The user is not told to do one of the things that it has to."""
    if not scene.gold.instructions:
        return None
    left_out = AgentSaid(scene.chance.choice(scene.gold.instructions))
    play = [line for line in scene.play if line != left_out]
    return Planted(scene.told(*play, scene.closing), {"instruction": left_out.text})


def instruction_wrong(scene: Scene) -> Planted | None:
    """The user is told to do something else than one of the things that it has to."""
    others = [(n, text) for n, text in _OTHER_INSTRUCTIONS if text not in scene.gold.instructions]
    if not scene.gold.instructions or not others:
        return None
    right = AgentSaid(scene.chance.choice(scene.gold.instructions))
    tool, wrong = scene.chance.choice(others)
    play = [AgentSaid(wrong) if line == right else line for line in scene.play]
    about = {"instruction": right.text, "told": wrong, "tool": tool}
    return Planted(scene.told(*play, scene.closing), about)


# --- whose fault it is not --------------------------------------------------------------------------------------------


def plays_well(scene: Scene) -> Planted | None:
    """The gold without a fault: what shows that only the fault costs the success."""
    return Planted(_asking(scene))


def _asking(scene: Scene) -> tuple[Line, ...]:
    """Play the gold and ask who it is, and for a yes before each write."""
    return (AgentSaid(_OPENERS[scene.domain]), *scene.asking(scene.play), scene.closing)


def _spoken(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _left(scene: Scene, how: str) -> Planted | None:
    if not scene.needed:
        return None
    return Planted(_asking(scene), {"tool": scene.needed[0].name, "user": how}, blame="user")


def user_hangs_up(scene: Scene) -> Planted | None:
    """The agent asks for a yes before it acts, and the user leaves with it."""
    return _left(scene, "stops at the question whether to proceed")


def user_out_of_scope(scene: Scene) -> Planted | None:
    """The agent asks who the user is, and the user says that its scenario does not say so."""
    return _left(scene, "leaves as out of scope when asked who it is")


def infrastructure(scene: Scene) -> Planted | None:
    """The agent does all right; its answers do not arrive."""
    return Planted((*scene.play, scene.closing), {"fault": "delivery"}, blame="infrastructure")


def evaluator_raises(scene: Scene) -> Planted | None:
    """The agent does all right; what judges it breaks."""
    return Planted(scene.told(*scene.play, scene.closing), {"evaluator": "raises KeyError"}, blame="benchmark")


def mock_evaluator_raises(scene: Scene) -> Planted | None:
    """tau2's own evaluator looks up what the agent never created, and raises instead of giving no reward."""
    about = {"evaluator": "raises by itself", "also": "the agent calls nothing", "tool": "create_task"}
    return Planted((scene.closing,), about, blame="benchmark")
