"""The ``auto`` dialect: write ``tool_call`` until the agent shows what it was made for."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from pytest_a2a_bench import extensions
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import Briefing, Part, ToolSpec
from pytest_a2a_bench.model.bounds import DEFAULT_BOUNDS, Bounds
from pytest_a2a_bench.translate import agentbeats, data, org_dialects, tool_call
from pytest_a2a_bench.translate.agentbeats import AgentBeatsDialect, SierraDialect
from pytest_a2a_bench.translate.base import DecodedReply, DecodedRequest, Dialect
from pytest_a2a_bench.translate.data import DataDialect
from pytest_a2a_bench.translate.org_actions import ASK, is_about_org, read_org_reply
from pytest_a2a_bench.translate.org_dialects import ActionDialect, EntropicDialect, TagsDialect
from pytest_a2a_bench.translate.org_official import OFFICIAL, is_first
from pytest_a2a_bench.translate.reading import Rules, read_reply
from pytest_a2a_bench.translate.tool_call import NATIVE_REMINDER, ToolCallDialect

_log = logging.getLogger(__name__)

_RULES = Rules("auto")
_ACTIONS = """\
How to answer: with one JSON object and nothing around it.
To run a query: {"action": "execute", "query": "YOUR QUERY"}
To answer the user: {"action": "respond", "answer": ["VALUE", ...]}, or your words in place of the list
Calls of the two tools above are read as well. Plain text reaches nobody. What a query finds is in the next message."""


class AutoDialect(ToolCallDialect):
    """Write ``tool_call``, read every dialect; :func:`settle` says which one to go on with."""

    name = "auto"

    def decode_reply(
        self, parts: Sequence[Part], tools: Sequence[ToolSpec], bounds: Bounds = DEFAULT_BOUNDS
    ) -> DecodedReply:
        """Read a reply in any dialect and name it.

        The forms of the tasks about an org are looked for only where the tools are that org's two actions.
        """
        decoded = read_reply(parts, tools, _RULES, bounds)
        return _read_org(parts, decoded, bounds) if is_about_org(tools) and not decoded.calls else decoded

    def decode_request(self, parts: Sequence[Part]) -> DecodedRequest:
        """Read a request in whichever dialect it is written in."""
        detected = detect_request(parts)
        if detected in DIALECTS:
            return DIALECTS[detected].decode_request(parts)
        own = OFFICIAL if detected == OFFICIAL.name else cast("Dialect", extensions.load("dialects", detected))
        return own.decode_request(parts)

    def _how(self, briefing: Briefing) -> str:
        # The shortest form, which agents without tools of their own can write as well; a colleague has no place in it.
        is_plain = is_about_org(briefing.tools) and ASK not in (tool.name for tool in briefing.tools)
        return _ACTIONS if is_plain else super()._how(briefing)


class NativeDialect(AutoDialect):
    """What is spoken with an agent that calls its tools by itself, over MCP (``--a2a-tools mcp``).

    Requests are ``tool_call``'s, replies are read in every dialect: an agent may call in words as well.
    """

    name = "mcp"

    def reminder(self) -> tuple[Part, ...]:
        """Tell again how to answer."""
        return (Part.of_text(NATIVE_REMINDER),)


NATIVE = NativeDialect()
"""Not among the dialects, of which a user may choose one: the tools decide about it."""

DIALECTS: dict[str, Dialect] = {
    d.name: d
    for d in (
        AutoDialect(),
        ToolCallDialect(),
        AgentBeatsDialect(),
        SierraDialect(),
        DataDialect(),
        ActionDialect(),
        TagsDialect(),
        EntropicDialect(),
    )
}
"""Every dialect by name."""


def _read_org(parts: Sequence[Part], decoded: DecodedReply, bounds: Bounds) -> DecodedReply:
    """Read a reply in which no call was found by the forms of the tasks about an org."""
    found = read_org_reply(parts, _RULES.name, prose_allowed=True, bounds=bounds)
    if not found.calls:
        return decoded
    # In ``auto`` no form was asked for, so none is a finding.
    return replace(found, findings=tuple(f for f in found.findings if f.rule != "other-dialect"))


def settle(current: str | None, decoded: DecodedReply) -> str | None:
    """Return the dialect to go on with after a reply: the current one, or what an unsettled ``auto`` has learned."""
    if current not in (None, "auto"):
        return current
    return decoded.dialect or current


def detect_request(parts: Sequence[Part], default: str = "tool_call") -> str:
    """Tell which dialect a request is written in.

    :param default: what to return where it cannot be told: a later message in the foreign formats is bare text, so
        an agent passes what the conversation began with.
    """
    for part in parts:
        if part.kind == "data" and data.is_addressed(part.data):
            return "data"
        if org_dialects.read_entropic_body(part) is not None:
            return "crm_entropic"
        if part.kind == "text":
            org = org_dialects.find_dialect(part.text)
            if org is not None and not tool_call.lists_tools(part.text[: org[1]]):
                return org[0]
            briefing, end = agentbeats.find_briefing(part.text)
            if briefing is None and tool_call.is_addressed(part.text):
                return "tool_call"
            if briefing is not None:
                # One format may quote the other in its policy: whose tools are listed first counts.
                if tool_call.lists_tools(briefing.policy):
                    return "tool_call"
                return "sierra" if agentbeats.TAG_LINE in part.text[end:] else "agentbeats"
            if is_first(part.text):
                return OFFICIAL.name
    # What another distribution or the project adds, where it can tell that it is meant.
    own = (name for name in extensions.names("dialects") if _is_meant(name, parts))
    return next(own, default)


def _is_meant(name: str, parts: Sequence[Part]) -> bool:
    """Tell whether a dialect of others recognises a request. One that is broken costs the others nothing."""
    try:
        extension = extensions.find("dialects", name, DIALECTS)
    except ConfigurationError:  # told of where its name is used
        return False
    recognises = _recogniser(extension) if extension is not None else None
    try:
        return recognises is not None and bool(recognises(parts))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        _warn_once(f"the {extension} is left out: its recognises() raised {type(error).__name__}")
        return False


# Once: what cannot be imported would else be tried with every request.
@functools.cache
def _recogniser(extension: extensions.Extension) -> Callable[[Sequence[Part]], object] | None:
    try:
        found: Callable[[Sequence[Part]], object] | None = getattr(extension.load(), "recognises", None)
    except ConfigurationError as error:
        _warn_once(f"{error}; it is left out")
        return None
    return found


@functools.cache
def _warn_once(text: str) -> None:
    _log.warning(text)
