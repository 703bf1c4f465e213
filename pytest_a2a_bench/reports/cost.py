"""What judging an agent will cost it: a line before a run, or the whole plan of one that is not made (pure)."""

from __future__ import annotations

from collections import Counter

from pytest_a2a_bench.conformance.cost.plan import CostPlan, Sum
from pytest_a2a_bench.conformance.requirements import whose_pack

_Interface = tuple[str, str]


def headline(plan: CostPlan) -> str:
    """Return the cost in one line."""
    total = plan.total
    places = _places(total)
    each = ", ".join(f"{total.messages[place]} to {' '.join(place)}" for place in places) or "none"
    unseen = total.refused.total()
    more = f"; {unseen} more that a correct agent refuses before it works on them" if unseen else ""
    out = f"; {len(plan.left_out)} checks are left out" if plan.left_out else ""
    cells = "; each rule is tried in every further cell" if plan.crossed else ""
    if plan.filling:
        cells += f", one with up to {plan.filling} messages to each interface where the agent has too few tasks for it"
    others = sum(1 for row in plan.rows if whose_pack(row.planned.requirement))
    unmeasured = f"; and those of {others} checks of others, which nobody has measured" if others else ""
    return f"messages that {len(plan.rows)} checks will send: {each}{more}{unmeasured}{cells}{out}"


def lines(plan: CostPlan) -> list[str]:
    """Return every check with the messages that it adds, by interface, the sums, and what is left out and why."""
    total = plan.total
    places = _places(total)
    titles = ["check", *(" ".join(place) for place in places)]
    table = [titles, *([row.planned.name, *_cells(row.sends, places)] for row in plan.rows)]
    table.append(["all", *_cells(total, places)])
    widths = [max(len(line[i]) for line in table) for i in range(len(titles))]
    shown = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in table]
    reasons = Counter(plan.left_out.values())
    told = [f"{count} checks are {reason}" for reason, count in reasons.items()]
    return [
        *shown,
        "N+M: N messages, and M that a correct agent refuses before it works on them",
        *told,
        headline(plan),
    ]


def _places(total: Sum) -> list[_Interface]:
    found = dict.fromkeys([*total.messages, *total.refused])
    # The newest version first, as in the matrix.
    return sorted(found, key=lambda place: (-float(place[0]), place[1] != "JSONRPC", place[1] != "HTTP+JSON"))


def _cells(sends: Sum, places: list[_Interface]) -> list[str]:
    return [_cell(sends.messages[place], sends.refused[place]) for place in places]


def _cell(messages: int, refused: int) -> str:
    if refused:
        return f"{messages}+{refused}"
    return str(messages) if messages else "-"
