"""Version 0.3: push notifications."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_a2a_bench.conformance.check import check
from pytest_a2a_bench.conformance.checks.notifications import (
    CREATE,
    DELETE,
    DELIVERY_SECONDS,
    GET,
    LIST,
    NEVER_CALLED,
    Delivered,
    ended,
    receiver,
)
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.protocol.streams import read_event
from pytest_a2a_bench.conformance.wire.reply import WireReply

OLD = "0.3"
TOKEN = "c29tZS13ZWJob29rLXRva2Vu"


def inner(reply: WireReply) -> Mapping[str, Any]:
    """Return the inner config of 0.3's TaskPushNotificationConfig."""
    found = reply.result.get("pushNotificationConfig") if isinstance(reply.result, Mapping) else None
    return found if isinstance(found, Mapping) else {}


@check("V03-PUSH-001", version=OLD)
async def configs_are_kept(ctx: Context) -> None:
    """A config that was set can be got, listed and deleted."""
    ctx.require_capability("pushNotifications")
    task = await ctx.completed_task()
    one = {"taskId": task["id"], "id": ctx.unknown_id()}
    made = await ctx.call(CREATE, {**one, "url": NEVER_CALLED})
    if inner(made).get("url") != NEVER_CALLED:
        found = f"setting a config: {made.describe()}"
        ctx.fail(found, pointer="/pushNotificationConfig/url", expected="the config", replies=(made,))
        return
    ctx.created_push_config(task["id"], one["id"])
    got = await ctx.call(GET, one)
    if inner(got).get("url") != NEVER_CALLED:
        ctx.fail(f"getting it: {got.describe()}", expected="the config", replies=(made, got))
    listed = await ctx.call(LIST, {"taskId": task["id"]})
    if not listed.ok:
        ctx.fail(f"listing the configs: {listed.describe()}", expected="a list", replies=(made, listed))
    deleted = await ctx.call(DELETE, one)
    if deleted.error is not None:
        ctx.fail(f"deleting it: {deleted.describe()}", expected="no error", replies=(made, deleted))
    gone = await ctx.call(GET, one)
    if inner(gone).get("url") == NEVER_CALLED:
        ctx.fail("a deleted config is still there", expected="an error", replies=(deleted, gone))


async def delivered(ctx: Context) -> Delivered:
    """Let the agent notify a webhook that came with the message, once for all checks."""
    ctx.require_capability("pushNotifications")
    text = ctx.prompt("task")
    seen: Delivered = await ctx.shared("delivered", lambda: _deliver(ctx, text))
    return seen


async def _deliver(ctx: Context, text: str) -> Delivered:
    async with receiver(ctx) as hooks:
        hook = hooks.hook()
        config = {"id": ctx.unknown_id(), "url": hook.url, "token": TOKEN}
        reply = await ctx.send(text, configuration={"taskPushNotificationConfig": config})
        task = ctx.task_of(reply, "sending a message with pushNotificationConfig")
        await hook.wait(ended, DELIVERY_SECONDS / 2)
        stored = await ctx.wait_for_task(str(task["id"]))
    return Delivered(reply, str(task["id"]), hook, tuple(hook.deliveries), stored)


@check("V03-SEND-003", version=OLD)
async def config_comes_with_the_message(ctx: Context) -> None:
    """A config that comes with the message is used."""
    seen = await delivered(ctx)
    if not seen.deliveries:
        found = "a config that came with the message: no notification"
        ctx.fail(found, expected="at least one POST to the webhook", replies=(seen.reply, seen.stored))


@check("V03-PUSH-002", version=OLD)
async def body_is_the_task(ctx: Context) -> None:
    """The body of a notification is the Task."""
    seen = await delivered(ctx)
    if not seen.deliveries:
        ctx.skip("nothing was delivered to the webhook")
    for payload in seen.payloads:
        bare = isinstance(payload, Mapping) and "status" in payload and payload.get("id") == seen.task_id
        if not bare:
            kind = read_event(payload).kind or "no known kind"
            found = f"the body is {kind} with {sorted(payload)[:6] if isinstance(payload, Mapping) else payload!r}"
            ctx.fail(found, expected="the Task, not wrapped", replies=(seen.reply,))
            return


@check("V03-PUSH-003", version=OLD)
async def token_is_repeated(ctx: Context) -> None:
    """The header X-A2A-Notification-Token repeats the token."""
    seen = await delivered(ctx)
    if not seen.deliveries:
        ctx.skip("nothing was delivered to the webhook")
    if any(d.headers.get("x-a2a-notification-token") != TOKEN for d in seen.deliveries):
        found = "notifications come without the token of their config"
        ctx.fail(found, expected="X-A2A-Notification-Token with the token", replies=(seen.reply,))


@check("V03-PUSH-004", version=OLD)
async def refused_without_the_capability(ctx: Context) -> None:
    """Without the capability a config cannot be set."""
    ctx.forbid_capability("pushNotifications")
    task = await ctx.completed_task()
    reply = await ctx.call(CREATE, {"taskId": task["id"], "id": ctx.unknown_id(), "url": NEVER_CALLED})
    ctx.expect_error(reply, "PushNotificationNotSupportedError", what="setting a config without the capability")
