"""The ``auto`` dialect: write ``tool_call`` until the agent's replies show another dialect."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from pytest_a2a_bench import extensions
from pytest_a2a_bench.dialects import agentbeats, tool_call
from pytest_a2a_bench.dialects.agentbeats import AgentBeatsDialect, SierraDialect
from pytest_a2a_bench.dialects.reading import DecodedReply, DecodedRequest, Dialect, Rules, read_reply
from pytest_a2a_bench.dialects.tool_call import NATIVE_REMINDER, DataDialect, ToolCallDialect, ToolListDialect
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import AgentSaid, Briefing, Part, ToolCall, ToolReturned, ToolSpec, UserSaid
from pytest_a2a_bench.model.messages import DEFAULT_BOUNDS, Bounds

_log = logging.getLogger(__name__)

_RULES = Rules("auto")
_CRM = "pytest_a2a_bench.benchmarks.crmarena.dialects"
OF_BENCHMARKS: Mapping[str, str] = {
    "crm_action": f"{_CRM}:ACTION",
    "crm_observation": f"{_CRM}:OBSERVING",
    "execute_tags": f"{_CRM}:TAGS",
    "crm_entropic": f"{_CRM}:ENTROPIC",
    "crm_official": f"{_CRM}:OFFICIAL",
    "crm_official_tools": f"{_CRM}:OFFICIAL_TOOLS",
}
"""Dialects of one benchmark's tasks, as ``module:OBJECT``: imported where they are used."""

HIDDEN = ("mcp", "crm_official", "crm_official_tools")
"""Dialects that users cannot choose: the tools decide about one, the profile of a benchmark about the others."""

_FORMS: Mapping[str, str] = {"respond": f"{_CRM}:ANY_FORM"}
"""Name of a tool -> the reader of a benchmark's own forms, for replies in which ``auto`` finds no call."""


class BenchmarkForms(Protocol):
    """A reader of the forms in which a benchmark's two or three actions are written."""

    def is_made_for(self, tools: Sequence[ToolSpec]) -> bool:
        """Return whether these are the benchmark's tools."""
        ...

    def explain(self, tools: Sequence[ToolSpec]) -> str:
        """Return how to answer; an empty string for the words of ``tool_call``."""
        ...

    def decode_reply(self, parts: Sequence[Part], tools: Sequence[ToolSpec], bounds: Bounds) -> DecodedReply:
        """Read a reply."""
        ...


@functools.cache
def _import(reference: str) -> Any:
    return extensions.Extension("dialects", reference, reference, "pytest-a2a-bench").load()


def _forms_of(tools: Sequence[ToolSpec]) -> BenchmarkForms | None:
    forms = next((_import(_FORMS[tool.name]) for tool in tools if tool.name in _FORMS), None)
    return cast("BenchmarkForms", forms) if forms is not None and forms.is_made_for(tools) else None


def get(name: str) -> Dialect:
    """Return a dialect by its name.

    :raises ConfigurationError: if there is none of that name, or another's cannot be loaded.
    """
    if name == NATIVE.name:
        return NATIVE
    if name in DIALECTS:
        return DIALECTS[name]
    if name in OF_BENCHMARKS:
        return cast("Dialect", _import(OF_BENCHMARKS[name]))
    return cast("Dialect", extensions.load("dialects", name, names()))


def names() -> tuple[str, ...]:
    """Return the names of all dialects that a user may choose, ``auto`` first."""
    return (*DIALECTS, *(name for name in OF_BENCHMARKS if name not in HIDDEN))


class AutoDialect(ToolCallDialect):
    """Write ``tool_call``, read every dialect; :func:`settle` says which one to go on with."""

    name = "auto"

    def decode_reply(
        self, parts: Sequence[Part], tools: Sequence[ToolSpec], bounds: Bounds = DEFAULT_BOUNDS
    ) -> DecodedReply:
        """Read a reply in any dialect and name it.

        A benchmark's own forms are looked for only where the tools are that benchmark's.
        """
        decoded = read_reply(parts, tools, _RULES, bounds)
        forms = None if decoded.calls else _forms_of(tools)
        if forms is None:
            return decoded
        found = forms.decode_reply(parts, tools, bounds)
        return found if found.calls else decoded

    def decode_request(self, parts: Sequence[Part]) -> DecodedRequest:
        """Read a request in whichever dialect it is written in."""
        return get(detect_request(parts)).decode_request(parts)

    def _how(self, briefing: Briefing) -> str:
        forms = _forms_of(briefing.tools)
        return (forms.explain(briefing.tools) if forms is not None else "") or super()._how(briefing)


class NativeDialect(AutoDialect):
    """The dialect for an agent that calls its tools by itself, over MCP (``--a2a-tools mcp``).

    Requests are ``tool_call``'s, replies are read in every dialect: an agent may call in words as well.
    """

    name = "mcp"

    def reminder(self) -> tuple[Part, ...]:
        """Return the format of an answer again."""
        return (Part.of_text(NATIVE_REMINDER),)


NATIVE = NativeDialect()
"""Not among the dialects, of which a user may choose one: the tools decide about it."""

DIALECTS: dict[str, Dialect] = {
    d.name: d
    for d in (AutoDialect(), ToolCallDialect(), ToolListDialect(), AgentBeatsDialect(), SierraDialect(), DataDialect())
}
"""The dialects for any tools, by name."""


def settle(current: str | None, decoded: DecodedReply) -> str | None:
    """Return the dialect to go on with after a reply: the current one, or the one that an unsettled ``auto`` found."""
    if current not in (None, "auto"):
        return current
    return decoded.dialect or current


def form(name: str, briefing: Briefing | None = None) -> str:
    """Return a hash (12 hex digits) of the words in which a dialect, or a briefing, addresses an agent.

    Numbers that were measured with another form are of another prompt.
    """
    call = ToolCall("look", {"id": 1}, "call_1")
    events = (UserSaid("Hi"), AgentSaid("Hello"), AgentSaid(calls=(call,)), ToolReturned("call_1", "look", "found"))
    briefing = dataclasses.replace(
        briefing or Briefing(""), tools=(ToolSpec("look", "Look it up.", {"type": "object"}),)
    )
    dialect = get(name)
    parts = [*dialect.encode_request(briefing, events), *dialect.encode_request(None, events[-1:]), *dialect.reminder()]
    return hashlib.sha256(repr([(p.text, p.data) for p in parts]).encode()).hexdigest()[:12]


def detect_request(parts: Sequence[Part], default: str = "tool_call") -> str:
    """Return the dialect that a request is written in.

    :param default: the result where it is unknown: a later message in the foreign formats is bare text, so
        an agent passes the dialect that the conversation began with.
    """
    if any(part.kind == "data" and tool_call.is_data_request(part.data) for part in parts):
        return "data"
    for name, reference in OF_BENCHMARKS.items():
        if name not in HIDDEN and _import(reference).recognises(parts):
            return name
    for part in parts:
        if part.kind == "text":
            briefing, end = agentbeats.find_briefing(part.text)
            if briefing is None and tool_call.is_addressed(part.text):
                return "tool_call"
            if briefing is not None:
                # One format may quote the other in its policy: whose tools are listed first counts.
                if tool_call.lists_tools(briefing.policy):
                    return "tool_call"
                return "sierra" if agentbeats.TAG_LINE in part.text[end:] else "agentbeats"
    if _import(OF_BENCHMARKS["crm_official"]).recognises(parts):
        return "crm_official"
    # What another distribution or the project adds, where it can tell that it is meant.
    own = (name for name in extensions.names("dialects") if _is_meant(name, parts))
    return next(own, default)


def _is_meant(name: str, parts: Sequence[Part]) -> bool:
    """Return whether a dialect of others recognises a request. One that is broken costs the others nothing."""
    try:
        extension = extensions.find("dialects", name, names())
    except ConfigurationError:  # reported where its name is used
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
