"""The matrix of a conformance run: groups by bindings, with counts (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pytest_a2a_bench.conformance.finding import BINDINGS, CARD
from pytest_a2a_bench.conformance.report import STATUSES, CheckRow, Compliance, counts
from pytest_a2a_bench.redact import one_line

_MARKS = {"failed": "failed", "error": "error", "warned": "warned", "waived": "waived", "inconclusive": "inconclusive"}
_REASONS = 12


def cells(rows: Iterable[CheckRow]) -> list[list[str]]:
    """Return the table with its titles: a line for each group of each version, a column for each binding."""
    every = list(rows)
    versions = sorted({row.version for row in every}, reverse=True)
    columns = [b for b in (CARD, *BINDINGS) if any(row.binding == b for row in every)]
    columns += sorted({row.binding for row in every} - set(columns))
    table = [["group", *columns]]
    for version in versions:
        for group in dict.fromkeys(row.group for row in every if row.version == version):
            name = f"{group} ({version})" if len(versions) > 1 else group
            mine = [row for row in every if row.version == version and row.group == group]
            table.append([name, *(cell([row for row in mine if row.binding == c]) for c in columns)])
    return table


def cell(rows: Sequence[CheckRow]) -> str:
    """Return what one group came to on one binding: ``17/18 1 failed``, or ``skipped`` where nothing was checked."""
    if not rows:
        return ""
    found = Counter(row.status for row in rows)
    # What another check explains is counted there.
    checked = len(rows) - found["skipped"] - found["explained"]
    if not checked:
        return "explained" if found["explained"] else "skipped"
    notes = [f"{found[status]} {_MARKS[status]}" for status in STATUSES if status in _MARKS and found[status]]
    return " ".join([f"{found['passed']}/{checked}", *notes])


def lines(rows: Iterable[CheckRow], levels: Iterable[Compliance]) -> list[str]:
    """Return the table as aligned text, and under it the compliance level of each version."""
    every = list(rows)
    table = cells(every)
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    text = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in table]
    return [*text, *map(level_line, levels)]


def level_line(level: Compliance) -> str:
    """Return the compliance level of one version in a line."""
    return f"A2A {level.version}: {level.text}"


def count_line(rows: Iterable[CheckRow]) -> str:
    """Return all counts in one line."""
    return ", ".join(f"{n} {status}" for status, n in counts(rows).items()) or "nothing was checked"


def skip_lines(rows: Iterable[CheckRow]) -> list[str]:
    """Say why checks were skipped, the commonest reason first."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.status == "skipped":
            found.setdefault(one_line(row.reason or "no reason given", 240), []).append(row.id)
    ordered = sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    text = [f"  {len(ids)} x {reason} ({_some(ids)})" for reason, ids in ordered[:_REASONS]]
    if len(ordered) > _REASONS:
        rest = sum(len(ids) for _, ids in ordered[_REASONS:])
        text.append(f"  {rest} x for {len(ordered) - _REASONS} other reasons")
    return text


def _some(ids: Iterable[str], limit: int = 4) -> str:
    every = list(dict.fromkeys(ids))
    return ", ".join(every[:limit]) + (f" and {len(every) - limit} more" if len(every) > limit else "")
