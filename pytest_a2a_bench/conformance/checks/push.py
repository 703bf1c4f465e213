"""Push notifications: the four operations, and what arrives at a real webhook."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.conformance import steps
from pytest_a2a_bench.conformance.card.urls import judge_url
from pytest_a2a_bench.conformance.check import Context, check
from pytest_a2a_bench.conformance.events import (
    TERMINAL,
    differences,
    nothing_after_terminal,
    one_member,
    read_event,
    read_events,
    rebuild,
    state_of,
)
from pytest_a2a_bench.conformance.reply import Reply
from pytest_a2a_bench.conformance.webhook import Delivery, Hook, WebhookReceiver

CREATE = "CreateTaskPushNotificationConfig"
GET = "GetTaskPushNotificationConfig"
LIST = "ListTaskPushNotificationConfigs"
DELETE = "DeleteTaskPushNotificationConfig"
NEVER_CALLED = "https://webhook.example.org/never-called"
SECRET = "Zm9yLXRoaXMtd2ViaG9vay1vbmx5"
DELIVERY_SECONDS = 5.0
IN_FLIGHT_SECONDS = 0.3
HELD_UP_SECONDS = 1.5
"""How long a webhook keeps the agent waiting, to see whether the task waits too."""


@dataclass(frozen=True)
class Delivered:
    """A task, and what its webhook got."""

    reply: Reply
    task_id: str
    hook: Hook
    deliveries: tuple[Delivery, ...]
    stored: Reply

    @property
    def payloads(self) -> list[Any]:
        """The bodies as JSON, in the order in which they came."""
        return [delivery.json for delivery in self.deliveries]


def ended(deliveries: list[Delivery]) -> bool:
    """Tell whether a terminal state was delivered."""
    return any(read_event(delivery.json).state in TERMINAL for delivery in deliveries)


@asynccontextmanager
async def receiver(ctx: Context) -> AsyncIterator[WebhookReceiver]:
    """Give a receiver; skip where the agent cannot reach it."""
    if ctx.target.webhook is not None:
        yield await ctx.session.webhooks()
        return
    facts = judge_url(ctx.target.url, (), authority=True)
    if facts.reach != "loopback":
        ctx.skip(
            f"the webhook listens on this machine's loopback address, which the agent at {facts.host} cannot reach; "
            "say where it is to listen, and how the agent reaches that: --a2a-webhook-bind HOST:PORT, "
            "--a2a-webhook-url URL (a2a-bench conformance: --webhook-bind, --webhook-url)"
        )
    async with WebhookReceiver() as hooks:
        yield hooks


async def delivered(ctx: Context) -> Delivered:
    """Let the agent notify a webhook that came with the message, once for all checks."""
    ctx.require_capability("pushNotifications")
    text = ctx.prompt("task")
    seen: Delivered = await ctx.shared("delivered", lambda: _deliver(ctx, text, "Bearer"))
    return seen


async def _deliver(ctx: Context, text: str, scheme: str) -> Delivered:
    async with receiver(ctx) as hooks:
        hook = hooks.hook()
        config = {"url": hook.url, "authentication": {"scheme": scheme, "credentials": SECRET}}
        reply = await steps.send(ctx, text, configuration={"taskPushNotificationConfig": config})
        task = steps.task_of(ctx, reply, "sending a message with taskPushNotificationConfig")
        await hook.wait(ended, DELIVERY_SECONDS)
        stored = await steps.settled(ctx, str(task["id"]))
    return Delivered(reply, str(task["id"]), hook, tuple(hook.deliveries), stored)


async def arrived(ctx: Context) -> Delivered:
    """Return what was delivered; skip where nothing was."""
    seen = await delivered(ctx)
    if not seen.deliveries:
        ctx.skip("nothing was delivered to the webhook")
    return seen


def show(seen: Delivered) -> str:
    """Say what arrived, for a finding."""
    kinds = [read_event(payload).kind or "no known kind" for payload in seen.payloads]
    return f"{len(kinds)} deliveries ({', '.join(kinds[:10])})"


async def create(ctx: Context, task_id: str, **members: Any) -> Reply:
    """Create a config that no event will ever use, with an id of its own: checks share the task."""
    return await ctx.call(CREATE, {"taskId": task_id, "id": ctx.unknown_id(), "url": NEVER_CALLED, **members})


async def created(ctx: Context, **members: Any) -> tuple[str, Mapping[str, Any], Reply]:
    """Return a task's id and a new config of it; skip where creating does not work."""
    ctx.require_capability("pushNotifications")
    task = await ctx.completed_task()
    reply = steps.usable(ctx, await create(ctx, str(task["id"]), **members), CREATE)
    if not isinstance(reply.result, Mapping) or not reply.result.get("id"):
        ctx.skip(f"{CREATE} returned no id")
    ctx.created_push_config(str(task["id"]), str(reply.result["id"]))
    return str(task["id"]), reply.result, reply


@check("PUSH-001")
async def create_returns_the_config(ctx: Context) -> None:
    """Create returns the config with id, url and taskId."""
    ctx.require_capability("pushNotifications")
    task = await ctx.completed_task()
    reply = await ctx.call(CREATE, {"taskId": task["id"], "url": NEVER_CALLED})
    if not reply.ok or not isinstance(reply.result, Mapping):
        ctx.fail(f"{CREATE}: {reply.describe()}", expected="the config with its id", replies=(reply,))
        return
    if reply.result.get("id"):
        ctx.created_push_config(str(task["id"]), str(reply.result["id"]))
    else:
        ctx.fail("the config has no id", pointer="/id", expected="an id made by the agent", replies=(reply,))
    for name, wanted in (("url", NEVER_CALLED), ("taskId", task["id"])):
        if reply.result.get(name) != wanted:
            found = f"{name} is {reply.result.get(name)!r}"
            ctx.fail(found, pointer=f"/{name}", expected=f"{name} {wanted!r}", replies=(reply,))


@check("PUSH-002")
async def get_returns_the_config(ctx: Context) -> None:
    """Get returns what was created."""
    task_id, config, made = await created(ctx)
    _same_config(ctx, config, await ctx.call(GET, {"taskId": task_id, "id": config["id"]}), made)


def _same_config(ctx: Context, config: Mapping[str, Any], reply: Reply, made: Reply) -> None:
    got = reply.result if isinstance(reply.result, Mapping) else {}
    for name in ("id", "url", "taskId"):
        if got.get(name) != config.get(name):
            found = f"{name} is {got.get(name)!r}: {reply.describe()}"
            ctx.fail(found, pointer=f"/{name}", expected=repr(config.get(name)), replies=(made, reply))
            return


@check("PUSH-003")
async def unknown_config_is_not_found(ctx: Context) -> None:
    """Getting an unknown config fails."""
    task_id, _, _ = await created(ctx)
    reply = await ctx.call(GET, {"taskId": task_id, "id": ctx.unknown_id()})
    steps.expect_error(ctx, reply, "TaskNotFoundError", "getting an unknown config")


@check("PUSH-004")
async def list_returns_all(ctx: Context) -> None:
    """List returns every config of the task."""
    ids = []
    for _ in range(2):
        task_id, config, _ = await created(ctx)
        ids.append(config["id"])
    reply = await ctx.call(LIST, {"taskId": task_id})
    found = reply.result.get("configs") if isinstance(reply.result, Mapping) else None
    got = [config.get("id") for config in found or [] if isinstance(config, Mapping)]
    missing = [name for name in ids if name not in got]
    if missing:
        expected = f"configs {ids}"
        found_text = f"{len(missing)} of {len(ids)} configs are not listed: {reply.describe()}"
        ctx.fail(found_text, pointer="/configs", expected=expected, replies=(reply,))


@check("PUSH-005")
async def delete_ends_the_notifications(ctx: Context) -> None:
    """A deleted config is gone, and its webhook is left alone."""
    task_id, config, _ = await created(ctx)
    params = {"taskId": task_id, "id": config["id"]}
    reply = await ctx.call(DELETE, params)
    if reply.error is not None or reply.problem:
        ctx.fail(f"{DELETE}: {reply.describe()}", expected="that it is deleted", replies=(reply,))
        return
    gone = await ctx.call(GET, params)
    if gone.error is None:
        ctx.fail(f"after it was deleted: {gone.describe()}", expected="no such config", replies=(reply, gone))
    if steps.has_prompt(ctx, "slow"):
        await _left_alone(ctx)


async def _left_alone(ctx: Context) -> None:
    task_id = str((await steps.start(ctx, ctx.prompt("slow")))["id"])
    async with receiver(ctx) as hooks:
        hook = hooks.hook()
        made = steps.usable(ctx, await ctx.call(CREATE, {"taskId": task_id, "url": hook.url}), CREATE)
        reply = await ctx.call(DELETE, {"taskId": task_id, "id": made.result.get("id")})
        # What was under way when the config was deleted may still arrive.
        await asyncio.sleep(IN_FLIGHT_SECONDS)
        before = len(hook.deliveries)
        await steps.settled(ctx, task_id)
        if await hook.wait(lambda found: len(found) > before, 0.3):
            found = f"{len(hook.deliveries) - before} notifications came after the config was deleted"
            ctx.fail(found, expected="none", replies=(made, reply))


@check("PUSH-006")
async def delete_is_idempotent(ctx: Context) -> None:
    """Deleting twice is no error."""
    task_id, config, _ = await created(ctx)
    params = {"taskId": task_id, "id": config["id"]}
    first = await ctx.call(DELETE, params)
    if first.error is not None or first.problem:
        ctx.skip(f"{DELETE} did not work: {first.describe()}")
    second = await ctx.call(DELETE, params)
    if second.error is not None or second.problem:
        found = f"deleting a second time: {second.describe()}"
        ctx.fail(found, expected="the same as the first time", replies=(first, second))


@check("PUSH-007")
async def config_stays(ctx: Context) -> None:
    """A config stays until the task ends or it is deleted."""
    ctx.require_capability("pushNotifications")
    text = ctx.prompt("slow")
    seconds = await steps.slow_seconds(ctx)
    task_id = str((await steps.start(ctx, text))["id"])
    made = steps.usable(ctx, await create(ctx, task_id), CREATE)
    ctx.created_push_config(task_id, str(made.result.get("id")))
    # Time for events, which must not use the config up.
    await asyncio.sleep(seconds / 2)
    if state_of((await steps.get(ctx, task_id)).result) in TERMINAL:
        ctx.skip("the task of the slow scenario was over too soon")
    _same_config(ctx, made.result, await ctx.call(GET, {"taskId": task_id, "id": made.result.get("id")}), made)


@check("PUSH-008")
async def refused_without_the_capability(ctx: Context) -> None:
    """Without the capability all four operations are refused."""
    if ctx.target.declares("pushNotifications"):
        ctx.skip("the card declares capabilities.pushNotifications")
    task = await ctx.completed_task()
    one = {"taskId": task["id"], "id": "any"}
    calls = {CREATE: {"taskId": task["id"], "url": NEVER_CALLED}, GET: one, LIST: {"taskId": task["id"]}, DELETE: one}
    for name, params in calls.items():
        reply = await ctx.call(name, params)
        steps.expect_error(ctx, reply, "PushNotificationNotSupportedError", f"{name} without the capability")


@check("PUSH-009")
async def unknown_task_is_not_found(ctx: Context) -> None:
    """Create and List for an unknown task fail."""
    ctx.require_capability("pushNotifications")
    task_id = ctx.unknown_id()
    steps.expect_error(ctx, await create(ctx, task_id), "TaskNotFoundError", f"{CREATE} for an unknown task")
    reply = await ctx.call(LIST, {"taskId": task_id})
    steps.expect_error(ctx, reply, "TaskNotFoundError", f"{LIST} for an unknown task")


@check("PUSH-010")
async def url_is_required(ctx: Context) -> None:
    """A config without a url is refused."""
    ctx.require_capability("pushNotifications")
    task = await ctx.completed_task()
    reply = await ctx.call(CREATE, {"taskId": task["id"], "id": ctx.unknown_id()})
    if reply.ok and isinstance(reply.result, Mapping) and reply.result.get("id"):
        ctx.created_push_config(str(task["id"]), str(reply.result["id"]))
    steps.expect_error(ctx, reply, "InvalidParamsError", "a config without url")


@check("PUSH-011")
async def something_is_delivered(ctx: Context) -> None:
    """A webhook gets at least one notification."""
    ctx.require_capability("pushNotifications")
    text = ctx.prompt("slow")
    async with receiver(ctx) as hooks:
        for _ in range(steps.ATTEMPTS):
            task_id = str((await steps.start(ctx, text))["id"])
            hook = hooks.hook()
            made = steps.usable(ctx, await ctx.call(CREATE, {"taskId": task_id, "url": hook.url}), CREATE)
            ctx.created_push_config(task_id, str(made.result.get("id")))
            if state_of((await steps.get(ctx, task_id)).result) not in TERMINAL:
                break
        else:
            ctx.skip("the task of the scenario slow was over before it could be configured")
        stored = await steps.settled(ctx, task_id)
        if not await hook.wait(timeout=DELIVERY_SECONDS / 2):
            found = "the task ended, and no notification came"
            ctx.fail(found, expected="at least one POST to the webhook", replies=(made, stored))


@check("PUSH-012")
async def payload_is_a_stream_response(ctx: Context) -> None:
    """Each payload is a StreamResponse with one member."""
    seen = await arrived(ctx)
    steps.judge(ctx, one_member(seen.payloads), seen.reply)


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
    steps.judge(ctx, nothing_after_terminal(events), seen.reply)
    if steps.has_prompt(ctx, "chunks"):
        chunked: Delivered = await ctx.shared("delivered-chunks", lambda: _deliver(ctx, ctx.prompt("chunks"), "Bearer"))
        if ended(list(chunked.deliveries)) and chunked.stored.ok:
            built = rebuild(read_events(chunked.payloads))
            steps.judge(ctx, differences(built, chunked.stored.result), chunked.reply, chunked.stored)


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
    usual = await steps.send(ctx, text)
    steps.task_of(ctx, usual, "the scenario task")
    async with receiver(ctx) as hooks:
        hook = hooks.hook(status=500, delay=HELD_UP_SECONDS, late=1)
        reply = await steps.send(ctx, text, configuration={"taskPushNotificationConfig": {"url": hook.url}})
        taken = reply.exchange.seconds
        await hook.wait(timeout=1)
    if not hook.deliveries:
        ctx.skip("nothing was delivered to the webhook")
    # Measured again, for the agent may have been busy with something else.
    after = await steps.send(ctx, text)
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
