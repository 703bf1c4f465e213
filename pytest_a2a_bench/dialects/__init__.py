"""Between a benchmark's messages and A2A parts: the dialects that agents speak."""

from __future__ import annotations

import dataclasses
import hashlib

from pytest_a2a_bench.dialects.auto import detect_request, get, names, settle
from pytest_a2a_bench.dialects.base import DecodedReply, DecodedRequest, Dialect
from pytest_a2a_bench.model import AgentSaid, Briefing, ToolCall, ToolReturned, ToolSpec, UserSaid

__all__ = ["DecodedReply", "DecodedRequest", "Dialect", "detect_request", "form", "get", "names", "settle"]


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
