"""An agent that does anything: calls of every tool with plausible and with broken arguments, and words between them.

What it does depends on a seed, the task that it is told and how often it has spoken, so that a conversation with it
comes to the same again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

from in_thread import served_in_thread

from pytest_a2a_bench.agents import server
from pytest_a2a_bench.agents.brain import BrainReply, Conversation, bench_task_key, number_calls
from pytest_a2a_bench.agents.brains import load_gold
from pytest_a2a_bench.agents.options import AgentOptions
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import AgentSaid, ToolCall, ToolSpec, UserSaid

WORDS = (
    "Could you tell me your user ID, please?",
    "What is your phone number?",
    "Please provide your email address so that I can look it up.",
    "I would cancel the whole order now. Shall I go ahead (yes or no)?",
    "Please check the status bar of your phone and tell me what it shows.",
    "Please turn airplane mode off, then restart your device.",
    "Bitte noch einmal: “naïve” 🙂 \u00a0 <b>x</b> & 'y'",
    "The total refund is $1,234.50 to your card ending in 7447.",
    "Is there anything else that I can help you with?",
)
FAREWELL = "I am sorry, that is all that I can do for you. Goodbye."
JUNK: tuple[Any, ...] = ("", " ", "#", "null", "ü🙂", -1, 0, 2**40, 1e300, 0.1, True, None, [], {}, [[{"a": None}]])
_WORD = re.compile(r"#?[A-Za-z0-9][\w.@+-]{2,40}")


class RandomBrain:
    """The mind of it."""

    description = "Does anything."

    def __init__(self, seed: int, settings: Settings | None = None) -> None:
        self._seed = seed
        self._settings = settings or Settings()

    async def reply(self, conversation: Conversation) -> BrainReply:
        """Say or do something."""
        key = bench_task_key(conversation.metadata) or ""
        length = random.Random(f"{self._seed} {key}").randint(2, 12)
        chance = random.Random(f"{self._seed} {key} {len(conversation.own)}")
        if len(conversation.own) >= length or conversation.briefing is None:
            return BrainReply(AgentSaid(FAREWELL))
        if chance.random() < 0.3:
            return BrainReply(AgentSaid(chance.choice(WORDS)))
        many = chance.choice((1, 1, 1, 1, 2, 3))
        calls = tuple(self._call(conversation, key, chance) for _ in range(many))
        return BrainReply(number_calls(AgentSaid(calls=calls), conversation))

    def _call(self, conversation: Conversation, key: str, chance: random.Random) -> ToolCall:
        assert conversation.briefing is not None
        gold = load_gold(key, self._settings).plan(conversation.briefing) if key else ()
        return any_call(conversation.briefing.tools, gold, _seen(conversation), chance)


def any_call(
    tools: Sequence[ToolSpec], gold: Sequence[ToolCall], seen: Sequence[str], chance: random.Random
) -> ToolCall:
    """Return a call out of a gold, or of any tool with words that were seen; some of them made wrong."""
    if gold and chance.random() < 0.5:
        call = chance.choice(gold)
        return call if chance.random() < 0.6 else _spoiled(call, chance)
    tool = chance.choice(tools)
    call = ToolCall(tool.name, _arguments(tool, seen, chance), "")
    return call if chance.random() < 0.8 else _spoiled(call, chance)


def _seen(conversation: Conversation) -> list[str]:
    """Return words that were said, ids among them, the newest first."""
    texts = [
        e.text if isinstance(e, UserSaid) else e.content for e in conversation.history if not isinstance(e, AgentSaid)
    ]
    found = [word for text in reversed(texts[-12:]) for word in _WORD.findall(text)]
    return list(dict.fromkeys(found))[:200] or ["nothing"]


def _arguments(tool: ToolSpec, seen: Sequence[str], chance: random.Random) -> dict[str, Any]:
    schema = tool.parameters
    needed = schema.get("required", ())
    return {
        name: _value(inner, schema.get("$defs", {}), seen, chance)
        for name, inner in schema.get("properties", {}).items()
        if chance.random() < (0.95 if name in needed else 0.4)
    }


def _value(
    schema: Mapping[str, Any], known: Mapping[str, Any], seen: Sequence[str], chance: random.Random, depth: int = 0
) -> Any:
    if "$ref" in schema:
        schema = known.get(str(schema["$ref"]).rpartition("/")[2], {})
    if options := schema.get("anyOf"):
        schema = chance.choice(options)
        return _value(schema, known, seen, chance, depth + 1) if depth < 6 else None
    if "enum" in schema:
        return chance.choice(schema["enum"])
    match schema.get("type"):
        case "string":
            return chance.choice(seen)
        case "integer":
            return chance.choice((0, 1, 2, 3, 10, -4))
        case "number":
            return chance.choice((0, 1, 2.5, 100.0, -3.25))
        case "boolean":
            return chance.random() < 0.5
        case "array" if depth < 6:
            inner = schema.get("items", {})
            return [_value(inner, known, seen, chance, depth + 1) for _ in range(chance.randint(0, 2))]
        case "object" if depth < 6:
            inner = schema.get("properties", {})
            return {name: _value(one, known, seen, chance, depth + 1) for name, one in inner.items()}
    return chance.choice(seen)


def _spoiled(call: ToolCall, chance: random.Random) -> ToolCall:
    """Make a call wrong: another name, an argument that is missing, that is junk, or that nobody knows."""
    arguments = dict(call.arguments)
    kind = chance.choice(("name", "missing", "junk", "unknown"))
    if kind == "name":
        return dataclasses.replace(call, name=chance.choice((f"{call.name}_now", "no_such_tool", call.name.upper())))
    if kind == "unknown" or not arguments:
        return dataclasses.replace(call, arguments={**arguments, "nobody_knows": chance.choice(JUNK)})
    name = chance.choice(sorted(arguments))
    if kind == "missing":
        del arguments[name]
    else:
        arguments[name] = chance.choice(JUNK)
    return dataclasses.replace(call, arguments=arguments)


@contextlib.contextmanager
def random_agent(seed: int, settings: Settings | None = None) -> Iterator[str]:
    """Serve one, and return its URL.

    :param settings: say where the golds are that some of its calls are taken from.
    """
    with (
        mock.patch.object(server, "make_brain", return_value=RandomBrain(seed, settings)),
        served_in_thread(lambda: server.running(AgentOptions("noop"))) as agent,
    ):
        yield agent.url
