"""SendMessage: what comes back, when, and how much of it."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_a2a_bench.conformance.check import Context, check
from pytest_a2a_bench.conformance.spelling import INTERRUPTED, TERMINAL, state_of, task_in


@check("SEND-001")
async def one_of_task_and_message(ctx: Context) -> None:
    """Look at the members of an ordinary result."""
    reply = await ctx.send()
    if not ctx.expect_ok(reply):
        return
    members = sorted(reply.result) if isinstance(reply.result, Mapping) else []
    if [m for m in members if m in ("task", "message")] not in (["task"], ["message"]):
        ctx.fail(f"the result has the members {members}", pointer="/result")


@check("SEND-002")
async def blocking_by_default(ctx: Context) -> None:
    """Look at the state of an ordinary task."""
    reply = await ctx.send()
    if not ctx.expect_ok(reply):
        return
    task = task_in(reply.result)
    if task is None:
        ctx.skip("the agent answers with a message, not a task")
    if state_of(task) not in TERMINAL | INTERRUPTED:
        ctx.fail(f"the task is returned in state {state_of(task)!r}", pointer="/result/task/status/state")


@check("SEND-008")
async def unknown_task(ctx: Context) -> None:
    """Continue a task that does not exist."""
    ctx.expect_error(await ctx.send(task_id=ctx.unknown_id()), "TaskNotFoundError")
