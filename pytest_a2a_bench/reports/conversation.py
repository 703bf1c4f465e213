"""One conversation for a terminal, message by message (pure). All that was said is untrusted and sanitised."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from pytest_a2a_bench.model import TrialResult, Turn
from pytest_a2a_bench.redact import one_line, sanitise
from pytest_a2a_bench.reports import failures
from pytest_a2a_bench.results.stats import count

_MARGIN = 10
_BOUND = 12
"""Lines of a message that are shown where not the whole is asked for: what tools return is long."""


def lines(result: TrialResult, width: int, *, whole: bool = False) -> Iterator[str]:
    """Yield a trial's conversation, and behind it why its reward is what it is.

    :param width: columns of the terminal.
    :param whole: show long messages to their end.
    """
    yield f"{one_line(str(result.key))}: {failures.headline(result)}"
    yield ", ".join(_about(result))
    if result.error:
        yield f"error: {one_line(result.error, 1_000)}"
    # A greeting that the benchmark gives in the agent's name is a message of the transcript and no turn of the wire.
    unasked = max(0, result.turns - len(result.turn_latencies))
    number = 0
    for turn in result.transcript:
        head = _speaker(turn)
        if turn.role == "agent" and turn.party is None:
            number += 1
            took = f" ({result.turn_latencies[number - unasked - 1]:.2f} s)" if number > unasked else ""
            head = f"{number} {head}{took}"
        yield ""
        yield head
        yield from _bounded(list(_body(turn, max(20, width - _MARGIN))), whole)
    if found := list(failures.reasons(result)):
        yield ""
        yield from found


def _about(result: TrialResult) -> Iterator[str]:
    yield count(len(result.transcript), "message")
    yield f"{count(result.turns, 'turn')} of the agent"
    yield f"{result.duration:.1f} s"
    if result.wire.requests:
        yield count(result.wire.requests, "request")
    if result.tokens is not None:
        yield f"{result.tokens:,} tokens"
    if result.cost is not None:
        yield f"cost {result.spent.words}"
    told = (("user", result.user), ("dialect", result.dialect), ("seed", result.seed), ("context", result.context_id))
    yield from (f"{name} {one_line(str(value), 80)}" for name, value in told if value not in (None, ""))


def _speaker(turn: Turn) -> str:
    whose = f" for the {turn.requestor}" if turn.role == "tool" and turn.requestor == "user" else ""
    who = f"tool {turn.tool}{whose}" if turn.role == "tool" and turn.tool else turn.role
    who += f" {turn.party}" if turn.party else ""
    return one_line(who, 80) + (" failed" if turn.error else "")


def _body(turn: Turn, width: int) -> Iterator[str]:
    indent = " " * 4
    for line in sanitise(turn.text or "").splitlines():
        yield from textwrap.wrap(
            line, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
        ) or [""]
    for call in turn.calls:
        shown = f"-> {failures.call_text(call)}"
        yield from textwrap.wrap(
            sanitise(shown), width, initial_indent=indent, subsequent_indent=indent * 2, break_on_hyphens=False
        )


def _bounded(shown: list[str], whole: bool) -> list[str]:
    if whole or len(shown) <= _BOUND + 1:
        return shown
    return [*shown[:_BOUND], f"    ... {len(shown) - _BOUND} more lines (--whole)"]
