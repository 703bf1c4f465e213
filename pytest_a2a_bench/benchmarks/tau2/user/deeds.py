"""What the user does with tools that are no phone's: apply for a card, submit a form that the agent has unlocked.

Such a tool wants arguments. Those of the task's golds are given where the agent asks for the deed and has said whatever
of them the user cannot know; who recommends another card than the golds do is not followed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pytest_a2a_bench.benchmarks.tau2.user.device import Act

_PHONE = "check_status_bar"
_DISCOVERED = "discoverable_tool_name"
_STEM = 5
_SHORT = 3


def own_deeds(actions: Sequence[tuple[str, Mapping[str, Any]]], tools: Collection[str]) -> list[Act]:
    """Return the user's golds, where the user has no phone: what is done with that is a matter of ``device``."""
    return [] if _PHONE in tools else [Act(name, dict(arguments)) for name, arguments in actions if name in tools]


def asked_for(text: str, deeds: Sequence[Act], known: str) -> tuple[Act, ...]:
    """Return those deeds that a text of the agent's asks for, equal ones once: who wants it again says so again.

    :param known: all that the user knows itself.
    """
    said, own = _plain(text), _plain(known)
    asked = [d for d in deeds if _names(d, said) and all(v in said or v in own for v in _values(d.arguments))]
    return tuple(deed for place, deed in enumerate(asked) if deed not in asked[:place])


def _names(deed: Act, said: str) -> bool:
    """Whether a text speaks of a tool, by its name or by the words that the name is made of."""
    name = str(deed.arguments.get(_DISCOVERED, deed.name))
    words = [word for word in name.lower().split("_") if len(word) > _SHORT and not word.isdigit()]
    return name.lower() in said or all(word[:_STEM] in said for word in words)


def _values(arguments: Any) -> Iterator[str]:
    """Yield what somebody must have said, in the form of :func:`_plain`: no names of arguments, no yes or no."""
    if isinstance(arguments, Mapping):
        for name, value in arguments.items():
            if name != _DISCOVERED:
                yield from _values(value)
    elif isinstance(arguments, list):
        for value in arguments:
            yield from _values(value)
    elif isinstance(arguments, str) and arguments.lstrip().startswith(("{", "[")):
        yield from _values(_read(arguments))
    elif isinstance(arguments, float) and arguments.is_integer():
        yield str(int(arguments))
    elif arguments is not None and not isinstance(arguments, bool):
        yield _plain(str(arguments))


def _read(text: str) -> Any:
    # Arguments of a tool that was unlocked are JSON in a text.
    try:
        return json.loads(text)
    except ValueError:
        return None


def _plain(text: str) -> str:
    """Return a text in small letters, with single spaces and numbers without separators."""
    return " ".join(re.sub(r"(?<=\d),(?=\d{3})|[$*`]", "", text.lower()).split())
