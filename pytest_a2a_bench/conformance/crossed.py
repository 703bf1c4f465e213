"""Trying a rule in its further cells, by its own check, after the representative was found right."""

from __future__ import annotations

import contextlib
import dataclasses

from pytest_a2a_bench.conformance.check import CHECKS, CROSSED, CheckFunction, NoAnswer, SkipCheck
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.crossing import Cell, Declared, allowed
from pytest_a2a_bench.conformance.scenarios import SCENARIOS

_ENOUGH = 3
_RANDOM = 16
"""Characters from which an id is taken for a random one, next to which there is no other."""
_CAPABILITIES = ("streaming", "pushNotifications", "extendedAgentCard")


def declared_by(ctx: Context) -> Declared:
    """Return what decides which cells this interface allows."""
    capabilities = frozenset(name for name in _CAPABILITIES if ctx.target.declares(name))
    return Declared(capabilities, frozenset(key for key in SCENARIOS if ctx.has_prompt(key)), ctx.version)


async def cross(ctx: Context) -> None:
    """Run the check in each cell that the card allows; a few findings of one rule are enough."""
    key = ctx.requirement.id, ctx.requirement.version
    for cell in allowed(ctx.requirement.id, declared_by(ctx)):
        await _try(CHECKS[key], ctx, cell)
        if len(ctx.findings) >= _ENOUGH:
            return
    if key in CROSSED:
        await _try(CROSSED[key], ctx)


async def _try(function: CheckFunction, ctx: Context, cell: Cell | None = None) -> None:
    # The representative was judged: a cell that cannot be brought about takes nothing away from that.
    with contextlib.suppress(SkipCheck, NoAnswer):
        known = str((await ctx.completed_task()).get("id") or "") if cell is not None and cell.near else ""
        # Beside a short or counted id lies another task's, maybe somebody else's.
        if cell is not None and cell.near and len(known) < _RANDOM:
            return
        await function(dataclasses.replace(ctx, cell=cell, known_id=known) if cell is not None else ctx)
