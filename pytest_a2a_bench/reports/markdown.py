"""Markdown for merge requests and job summaries, and GitHub's annotations (pure).

Words of agents, simulated users and servers are text in it: escaped, or in a fence that they cannot close.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from pytest_a2a_bench.text import one_line, sanitise

STEP_SUMMARY_BYTES = 1024 * 1024
"""GitHub drops a step's whole summary where it is larger."""

ANNOTATIONS = 10
"""GitHub shows this many of a step's errors, and this many of its warnings."""

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~@])")
_REASONS = 12
_FAILURES = 100
_EXPLANATION = 8_000
_MESSAGE = 1_000

Level = Literal["error", "warning"]

GATE = "failed gate"
KINDS = (GATE, "error", "failed", "missed")
"""Kinds of items that are listed, in this order; where there is no room for all, the last ones are left out."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """An item that did not pass.

    :param level: ``warning`` where it does not fail the run by itself.
    :param what: one of :data:`KINDS`.
    :param explanation: several lines.
    """

    level: Level
    what: str
    title: str
    headline: str
    explanation: str = ""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The outcome of a run.

    :param verdict: one or two words, e.g. ``passed`` or ``failed``.
    :param gates: name, verdict and sentence of each gate, where there are any.
    :param table: the summary's cells, the first row being titles.
    :param notes: the conditions of the run.
    :param reasons: why trials did not pass, a line each, the most frequent first.
    """

    verdict: str
    agent: str = ""
    gates: tuple[tuple[str, str, str], ...] = ()
    table: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    reasons: tuple[str, ...] = ()


def render(summary: RunSummary, limit: int = STEP_SUMMARY_BYTES) -> str:
    """Return Markdown of at most ``limit`` bytes, with a count of the rows that are left out."""
    lines = [f"# A2A benchmark: {escape(summary.verdict)}", ""]
    if summary.agent:
        lines += [f"Agent: {escape(summary.agent)}", ""]
    if summary.gates:
        lines += [*table([("gate", "verdict", "why"), *summary.gates]), ""]
    if summary.table:
        lines += [*table(summary.table), ""]
    if summary.reasons:
        lines += ["## Why trials did not pass", "", *(f"- {escape(reason)}" for reason in summary.reasons[:_REASONS])]
        rest = len(summary.reasons) - _REASONS
        lines += [*([f"- ... and {rest} other reasons"] if rest > 0 else []), ""]
    lines += [f"- {escape(note)}" for note in summary.notes]
    head = "\n".join(lines).rstrip() + "\n"
    return head + _troubles(_worst_first(summary.troubles), limit - len(head.encode()))


def _troubles(troubles: Sequence[Trouble], room: int) -> str:
    if not troubles:
        return ""
    counted = {what: sum(t.what == what for t in troubles) for what in dict.fromkeys(t.what for t in troubles)}
    text = f"\n## {', '.join(f'{count} {what}' for what, count in counted.items())}\n\n"
    room -= len(text.encode()) + 100  # for the last line
    shown = 0
    for trouble in troubles[:_FAILURES]:
        summary = f"{trouble.what}: {trouble.title}: {trouble.headline}"
        item = folded(summary, sanitise(trouble.explanation)[:_EXPLANATION])
        size = len(item.encode())
        if size > room:
            break
        text, room, shown = text + item, room - size, shown + 1
    return text + (f"... and {len(troubles) - shown} more.\n" if shown < len(troubles) else "")


def escape(text: str) -> str:
    """Return text that Markdown and HTML show as it is, on one line."""
    return _SPECIAL.sub(r"\\\1", html.escape(one_line(text), quote=False))


def table(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table, whose first row are the titles."""
    every = list(rows)
    first, *others = ["| " + " | ".join(escape(cell) for cell in row) + " |" for row in every]
    return [first, "|" + " --- |" * len(every[0]), *others]


def folded(summary: str, text: str) -> str:
    """Return text as it is, which can be unfolded beneath a summary."""
    # Inside an element Markdown still makes links, mentions and emphasis.
    title = re.sub(
        r"[\\`*_\[\]()#!|~@:/]", lambda found: f"&#{ord(found[0])};", html.escape(one_line(summary), quote=False)
    )
    body = sanitise(text).replace("\r", "\n")
    # The fence must be longer than any run of backticks in the text.
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", body)), default=0))
    return f"<details>\n<summary>{title}</summary>\n\n{fence}text\n{body}\n{fence}\n\n</details>\n\n"


# --- workflow commands ------------------------------------------------------------------------------------------------


def _worst_first(troubles: Sequence[Trouble]) -> list[Trouble]:
    return sorted(troubles, key=lambda t: KINDS.index(t.what))


def annotate(troubles: Sequence[Trouble]) -> Iterator[str]:
    """Yield at most :data:`ANNOTATIONS` workflow commands of each level, the worst first.

    Where there are more, the last one of the level says how many are left out.
    """
    ordered = _worst_first(troubles)
    for level in get_args(Level):
        yield from _annotate([t for t in ordered if t.level == level])


def _annotate(ordered: Sequence[Trouble]) -> Iterator[str]:
    shown = ordered if len(ordered) <= ANNOTATIONS else ordered[: ANNOTATIONS - 1]
    for trouble in shown:
        yield annotation(trouble.level, f"{trouble.what}: {trouble.title}", trouble.headline)
    if left := ordered[len(shown) :]:
        yield annotation(left[0].level, "and more", f"{len(left)} more trials; the job summary lists them")


def annotation(level: Level, title: str, message: str) -> str:
    """Return one workflow command of GitHub; the message is escaped, so that it cannot hold another command."""
    return f"::{level} title={_property(one_line(title, 200))}::{_data(one_line(message, _MESSAGE))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
