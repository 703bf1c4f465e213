"""What a model that plays the user did that no user does: facts from structure, each with its turn. Pure.

None of them proves whose fault a miss is, which :mod:`pytest_a2a_bench.benchmarks.tau2.evaluate` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_a2a_bench import dialects
from pytest_a2a_bench.benchmarks.tau2.user import device
from pytest_a2a_bench.benchmarks.tau2.user.scenario import identifiers
from pytest_a2a_bench.model import Part, ToolSpec, Turn, UserFault
from pytest_a2a_bench.model.messages import DEFAULT_BOUNDS
from pytest_a2a_bench.text import one_line

TOKENS = re.compile("###STOP###|###TRANSFER###|###OUT-OF-SCOPE###")
"""What a user of tau2's ends a conversation with."""

_ALMOST = re.compile(r"[#*<\[({]+ *(?:STOP|TRANSFER|OUT[- _]OF[- _]SCOPE) *[#*>\])}]+", re.I)
_SPEAKER = re.compile(r"^[^\w\n]{0,3}(?:assistant|agent)[^\w\n]{0,3}:", re.I | re.M)
_SHORT = 40
"""Characters of a text of the agent's that anybody may say, too."""
_SPOKEN_FREELY = ("date",)
"""Kinds of identifiers that a user may say by itself."""


def defects(text: str, tools: Sequence[ToolSpec], heard: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield kind and evidence of what is wrong with one message of the user, whatever its scenario.

    :param tools: the tools of both sides.
    :param heard: what the agent has said.
    """
    if _SPEAKER.search(text) or any(len(said) > _SHORT and said in text for said in heard):
        yield "spoke_as_agent", text
    calls = dialects.get("auto").decode_reply([Part.of_text(text)], tools, DEFAULT_BOUNDS).calls
    if calls:
        yield "calls_as_text", f"{calls[0].name} in {text}"
    if not TOKENS.search(text) and (almost := _ALMOST.search(text)):
        yield "misspelt_stop", almost[0]


def find(
    turns: Sequence[Turn], given: str, user_tools: Sequence[ToolSpec], tools: Sequence[ToolSpec]
) -> list[UserFault]:
    """Return what the user did in a conversation, each kind of each turn once.

    :param given: all instructions of the user.
    :param user_tools: the user's own tools; ``tools`` the agent's.
    """
    found: list[UserFault] = []
    known, heard, asked = given.lower(), [], ""
    for number, turn in enumerate(turns):
        if turn.role != "user":
            if turn.role == "agent" or turn.requestor == "user":
                known += f"\n{(turn.text or '').lower()}"
            if turn.role == "agent" and turn.text:
                heard.append(turn.text.strip())
            asked = turn.text or "" if turn.role == "agent" else ""
            continue
        text = turn.text or ""
        of_turn = list(defects(text, [*user_tools, *tools], heard))
        for kind, values in identifiers(text).items():
            unknown = [v for v in values if _is_id(kind, v) and v.lower().lstrip("#") not in known]
            of_turn += [("unknown_id", ", ".join(unknown))] if unknown else []
        if user_tools and asked and not turn.calls and "?" not in text and not TOKENS.search(text):
            acts = device.instructed(asked, [tool.name for tool in user_tools])
            of_turn += [("no_call", f"asked for {acts[0].name}, it said {text!r}")] if acts else []
        found += [UserFault(kind, one_line(evidence, 300), number) for kind, evidence in of_turn]
        known += f"\n{text.lower()}"
    return found


class Guard:
    """Asks the user's model again for a defective message, and holds a stop that is glued to words back one turn.

    :param tools: the tools of both sides.
    :ivar again: messages that were asked for again; ``held_back`` stops that were delayed by one turn.
    """

    REMINDER = (
        "You are the customer. Your last answer cannot be used: it spoke as the agent, refused, wrote a tool call as "
        "text or misspelt the stop token. Answer again as the customer, in plain words."
    )

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self.again = self.held_back = 0
        self._tools = tools
        self._has_just_delayed = False

    def refuses(self, text: str, raw: Mapping[str, Any], heard: Sequence[str]) -> bool:
        """Return whether a message is to be asked for again.

        :param raw: the model's answer.
        :param heard: what the agent has said.
        """
        defective = any(defects(text, self._tools, heard)) or any(refusal(raw))
        self.again += defective
        return defective

    def without_stop(self, text: str) -> str:
        """Return the words that are delivered in the place of a message whose stop is held back; empty for none."""
        words = TOKENS.sub(" ", text).strip() if TOKENS.search(text) and not self._has_just_delayed else ""
        self._has_just_delayed = bool(words)
        self.held_back += bool(words)
        return words

    def facts(self) -> Iterator[UserFault]:
        """Yield what it did."""
        for kind, many in (("asked_again", self.again), ("stop_held_back", self.held_back)):
            if many:
                yield UserFault(kind, f"{many} times")


def _is_id(kind: str, value: str) -> bool:
    # Words in capital letters look like reservations.
    return kind not in _SPOKEN_FREELY and any(map(str.isdigit, value))


def refusal(raw: Mapping[str, Any]) -> Iterator[UserFault]:
    """Yield the refusal in an answer of the model that plays the user.

    :param raw: one of the choices of a chat completion, or the whole.
    """
    choice = (raw.get("choices") or [raw])[0]
    said = (choice.get("message") or {}).get("refusal")
    if said or choice.get("finish_reason") == "content_filter":
        yield UserFault("refusal", one_line(str(said or "content_filter"), 300))
