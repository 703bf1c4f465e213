"""A trial whose agent calls tools by itself: a desk for its calls, opened and closed with each of its conversations."""

from __future__ import annotations

from typing import Any

from pytest_a2a_bench.a2a.session import AgentSession
from pytest_a2a_bench.benchmarks.base import Outcome
from pytest_a2a_bench.benchmarks.native import NativeTurns
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError
from pytest_a2a_bench.model import TrialKey
from pytest_a2a_bench.model.bounds import Bounds
from pytest_a2a_bench.tool_door.check import place_of


def open_native(settings: Settings, session: AgentSession) -> NativeTurns | None:
    """Begin to serve the tools of a conversation, where that is asked for.

    :raises ConfigurationError: if the server cannot listen; :class:`MissingExtraError` if it is not installed.
    """
    if settings.tools != "mcp":
        return None
    try:
        from pytest_a2a_bench.tool_door.server import open_desk  # needs the extra "mcp"
    except ImportError as error:
        raise MissingExtraError("the server of --a2a-tools mcp", "mcp", detail=str(error)) from error
    return NativeTurns(open_desk(place_of(settings), Bounds.of(settings.reply_limits)), session)


def refuse_unused(native: NativeTurns | None, key: TrialKey, outcome: Outcome) -> None:
    """Refuse the outcome of a benchmark that did not offer its tools where they were asked for.

    :raises ConfigurationError: if it held a conversation of its own making.
    """
    if native is not None and not native.desk.is_used and outcome.error is None:
        raise ConfigurationError(
            f"the suite {key.suite!r} does not offer its tools over MCP: its benchmark has to hand TrialContext.native "
            "to its Conversation; run it without --a2a-tools mcp"
        )


def told(native: NativeTurns | None) -> dict[str, Any]:
    """Return what a result states of the calls that an agent made by itself, as members of its ``provenance``."""
    if native is None:
        return {}
    return {"tools": "mcp", "native_calls": native.desk.carried_out, "native_calls_refused": native.desk.refused}
