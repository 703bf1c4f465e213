"""Push notifications: what arrives at a real webhook."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_a2a_bench.a2a.messages import TERMINAL
from pytest_a2a_bench.conformance.check import check
from pytest_a2a_bench.conformance.checks.notifications import (
    CREATE,
    DELIVERY_SECONDS,
    HELD_UP_SECONDS,
    SECRET,
    Delivered,
    _deliver,
    arrived,
    create,
    delivered,
    ended,
    receiver,
    show,
)
from pytest_a2a_bench.conformance.context import ATTEMPTS, Context
from pytest_a2a_bench.conformance.protocol.payloads import state_of
from pytest_a2a_bench.conformance.protocol.streams import (
    differences,
    nothing_after_terminal,
    one_member,
    read_events,
    rebuild,
)
from pytest_a2a_bench.conformance.wire.webhook import Delivery


@check("PUSH-011")
async def something_is_delivered(ctx: Context) -> None:
    """A webhook gets at least one notification."""
    ctx.require_capability("pushNotifications")
    text = ctx.prompt("slow")
    async with receiver(ctx) as hooks:
        for _ in range(ATTEMPTS):
            task_id = str((await ctx.start_task(text))["id"])
            hook = hooks.hook()
            made = ctx.skip_unless_ok(await ctx.call(CREATE, {"taskId": task_id, "url": hook.url}), CREATE)
            ctx.created_push_config(task_id, str(made.result.get("id")))
            if state_of((await ctx.get_task(task_id)).result) not in TERMINAL:
                break
        else:
            ctx.skip("the task of the scenario slow was over before it could be configured")
        stored = await ctx.wait_for_task(task_id)
        if not await hook.wait(timeout=DELIVERY_SECONDS / 2):
            found = "the task ended, and no notification came"
            ctx.fail(found, expected="at least one POST to the webhook", replies=(made, stored))


@check("PUSH-012")
async def payload_is_a_stream_response(ctx: Context) -> None:
    """Each payload is a StreamResponse with one member."""
    seen = await arrived(ctx)
    ctx.report_problems(one_member(seen.payloads), seen.reply)


@check("PUSH-013")
async def payload_has_its_media_type(ctx: Context) -> None:
    """The Content-Type is application/a2a+json."""
    seen = await arrived(ctx)
    types = {d.headers.get("content-type", "").partition(";")[0].strip().lower() for d in seen.deliveries}
    for wrong in sorted(types - {"application/a2a+json"}):
        expected = "application/a2a+json"
        ctx.fail(f"Content-Type is {wrong or 'missing'!r}", expected=expected, replies=(seen.reply,))


@check("PUSH-014")
async def credentials_are_sent(ctx: Context) -> None:
    """Each notification carries the credentials of its config."""
    seen = await arrived(ctx)
    bad = [d for d in seen.deliveries if not _authorized(d)]
    if bad:
        what = "another Authorization header" if "authorization" in bad[0].headers else "no Authorization header"
        found = f"{len(bad)} of {len(seen.deliveries)} notifications have {what}"
        ctx.fail(found, expected="Authorization: scheme credentials, as configured", replies=(seen.reply,))


def _authorized(delivery: Delivery) -> bool:
    scheme, _, credentials = delivery.headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and credentials == SECRET


@check("PUSH-015")
async def config_comes_with_the_message(ctx: Context) -> None:
    """A config that comes with the message is used."""
    seen = await delivered(ctx)
    if not seen.deliveries:
        found = "a config that came with the message: no notification"
        ctx.fail(found, expected="at least one POST to the webhook", replies=(seen.reply, seen.stored))


@check("PUSH-016")
async def the_end_is_delivered(ctx: Context) -> None:
    """The terminal state is delivered."""
    seen = await arrived(ctx)
    if rebuild(read_events([{"task": seen.stored.result}])).state in TERMINAL and not ended(list(seen.deliveries)):
        found = f"the task ended; {show(seen)} did not tell"
        ctx.fail(found, expected="the terminal state", replies=(seen.reply, seen.stored))


@check("PUSH-017")
async def order_is_kept(ctx: Context) -> None:
    """Notifications come in the order of the events."""
    seen = await arrived(ctx)
    events = read_events(seen.payloads)
    ctx.report_problems(nothing_after_terminal(events), seen.reply)
    if ctx.has_prompt("chunks"):
        chunked: Delivered = await ctx.shared("delivered-chunks", lambda: _deliver(ctx, ctx.prompt("chunks"), "Bearer"))
        if ended(list(chunked.deliveries)) and chunked.stored.ok:
            built = rebuild(read_events(chunked.payloads))
            ctx.report_problems(differences(built, chunked.stored.result), chunked.reply, chunked.stored)


@check("PUSH-018")
async def private_addresses_are_refused(ctx: Context) -> None:
    """Link-local and private webhook addresses are refused."""
    ctx.require_capability("pushNotifications")
    task = await ctx.completed_task()
    for url in ("http://169.254.169.254/latest/meta-data/", "http://10.255.255.1/hook"):
        reply = await create(ctx, str(task["id"]), url=url)
        if reply.ok and isinstance(reply.result, Mapping):
            ctx.created_push_config(str(task["id"]), str(reply.result.get("id")))
            found = f"a webhook at {url} was accepted"
            expected = "an error, so that nobody can use the agent to reach its private network"
            ctx.fail(found, pointer="/url", expected=expected, replies=(reply,))


@check("PUSH-019")
async def slow_webhook_does_not_hold_up(ctx: Context) -> None:
    """A webhook that answers late, with an error, does not hold up the task."""
    ctx.require_capability("pushNotifications")
    text = ctx.prompt("task")
    usual = await ctx.send(text)
    ctx.task_of(usual, "the scenario task")
    async with receiver(ctx) as hooks:
        hook = hooks.hook(status=500, delay=HELD_UP_SECONDS, late=1)
        reply = await ctx.send(text, configuration={"taskPushNotificationConfig": {"url": hook.url}})
        taken = reply.exchange.seconds
        await hook.wait(timeout=1)
    if not hook.deliveries:
        ctx.skip("nothing was delivered to the webhook")
    # Measured again, for the agent may have been busy with something else.
    after = await ctx.send(text)
    normal = max(usual.exchange.seconds, after.exchange.seconds)
    if not reply.ok or taken > normal + HELD_UP_SECONDS * 0.8:
        found = f"with a webhook that answers after {HELD_UP_SECONDS} s the answer took {taken:.1f} s"
        expected = f"about {normal:.1f} s, as without it"
        ctx.fail(f"{found}: {reply.describe()}", expected=expected, replies=(usual, reply))


@check("PUSH-020")
async def scheme_names_have_no_case(ctx: Context) -> None:
    """The name of an authentication scheme may be in lower case."""
    ctx.require_capability("pushNotifications")
    seen = await _deliver(ctx, ctx.prompt("task"), "bearer")
    if not seen.deliveries:
        upper = await delivered(ctx)
        if upper.deliveries:
            found = 'with the scheme "bearer" nothing was delivered, with "Bearer" it was'
            ctx.fail(found, expected="scheme names without regard to case", replies=(seen.reply,))
        return
    if not all(map(_authorized, seen.deliveries)):
        found = 'with the scheme "bearer" the Authorization header is missing or wrong'
        ctx.fail(found, expected="Authorization: bearer credentials", replies=(seen.reply,))
