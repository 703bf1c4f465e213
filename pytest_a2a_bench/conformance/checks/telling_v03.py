"""Data that tell one agent of 0.3 from another."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_a2a_bench.conformance.check import crossed
from pytest_a2a_bench.conformance.checks.multi_turn import waiting_task
from pytest_a2a_bench.conformance.checks.notifications import CREATE, LIST, NEVER_CALLED
from pytest_a2a_bench.conformance.checks.tasks import history_of
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.protocol.payloads import config_ids

_OLD = "0.3"


@crossed("V03-TASK-001", version=_OLD)
async def unknown_tasks_and_long_histories(ctx: Context) -> None:
    """An unknown task is not found; of a task of two messages one comes back where one is asked for."""
    ctx.expect_error(await ctx.get_task(ctx.unknown_id()), "TaskNotFoundError", what="an unknown task")
    task = await waiting_task(ctx)
    answer = ctx.target.scenarios.get("input_answer") or "yes"
    ctx.task_of(await ctx.send(answer, task_id=str(task["id"])), "answering the agent's question")
    reply = await ctx.get_task(str(task["id"]), historyLength=1)
    if len(history_of(reply.result)) > 1:
        found = f"historyLength 1 gives {len(history_of(reply.result))} messages"
        ctx.fail(found, pointer="/history", expected="at most one message", replies=(reply,))


@crossed("V03-RPC-004", version=_OLD)
async def requests_that_are_none(ctx: Context) -> None:
    """Another version of JSON-RPC, and a message that is missing."""
    if ctx.binding != "JSONRPC":
        return
    request = {"jsonrpc": "1.0", "id": 1, "method": "tasks/get", "params": {"id": ctx.unknown_id()}}
    reply = await ctx.call("GetTask", body=request)
    ctx.expect_error(reply, "InvalidRequestError", what='jsonrpc "1.0"')
    reply = await ctx.call("SendMessage", {})
    # 0.3 describes each method's whole request as one object, so that wrong params make an invalid request, too.
    ctx.expect_error(reply, "InvalidParamsError", "InvalidRequestError", what="message/send without a message")


@crossed("V03-PUSH-001", version=_OLD)
async def several_configs_are_kept(ctx: Context) -> None:
    """Two configurations of a task are both listed."""
    task_id = str((await ctx.completed_task())["id"])
    ids = [ctx.unknown_id() for _ in range(2)]
    for config_id in ids:
        made = await ctx.call(CREATE, {"taskId": task_id, "id": config_id, "url": NEVER_CALLED})
        ctx.created_push_config(task_id, config_id)
        result = made.result if isinstance(made.result, Mapping) else {}
        if ctx.binding == "JSONRPC" and result.get("taskId") != task_id:
            found = f"taskId is {result.get('taskId')!r}"
            ctx.fail(found, pointer="/taskId", expected=f"taskId {task_id!r}", replies=(made,))
    reply = await ctx.call(LIST, {"taskId": task_id})
    missing = set(ids) - set(config_ids(reply.result))
    if missing:
        found = f"{len(missing)} of {len(ids)} configurations are not listed: {reply.describe()}"
        ctx.fail(found, expected="every configuration", replies=(reply,))
