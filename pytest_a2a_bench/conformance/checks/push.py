"""Push notifications: the four operations on their configurations, and the deliveries to a webhook."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from pytest_a2a_bench.a2a.codec import TERMINAL
from pytest_a2a_bench.conformance import fixtures
from pytest_a2a_bench.conformance.card.urls import judge_url
from pytest_a2a_bench.conformance.checks.data_model import RULES
from pytest_a2a_bench.conformance.checks.list_tasks import in_one_context
from pytest_a2a_bench.conformance.context import ATTEMPTS, Context
from pytest_a2a_bench.conformance.protocol.operations import NEVER_CALLED
from pytest_a2a_bench.conformance.protocol.payloads import push_configs, state_of
from pytest_a2a_bench.conformance.protocol.streams import (
    differences,
    nothing_after_terminal,
    once,
    one_member,
    read_event,
    read_events,
    rebuild,
)
from pytest_a2a_bench.conformance.wire.reply import SkipCheck, WireReply
from pytest_a2a_bench.conformance.wire.webhook import Delivery, Hook, WebhookReceiver

CREATE = "CreateTaskPushNotificationConfig"
GET = "GetTaskPushNotificationConfig"
LIST = "ListTaskPushNotificationConfigs"
DELETE = "DeleteTaskPushNotificationConfig"
SECRET = "Zm9yLXRoaXMtd2ViaG9vay1vbmx5"
TOKEN = "c29tZS13ZWJob29rLXRva2Vu"
QUERY = "attempt=1&of=a%20b"
DELIVERY_SECONDS = 5.0
# How many times the seconds of an ordinary answer a notification may take beyond the usual limit.
_BUSY = 5
# Whatever the machine does: a check waits for two deliveries at most, and has a minute.
_LONGEST_SECONDS = 20.0
# Nor longer for notifications that come one after the other.
_MOST_SECONDS = 30.0
# What an agent had begun to send when the configuration was deleted.
IN_FLIGHT_SECONDS = 0.3
HELD_UP_SECONDS = 1.5
"""How long a webhook keeps the agent waiting, to see whether the task waits too."""


@dataclass(frozen=True)
class Delivered:
    """A task, and what its webhook got.

    :param is_going_on: whether notifications were still coming when the time was up.
    """

    reply: WireReply
    task_id: str
    hook: Hook
    deliveries: tuple[Delivery, ...]
    stored: WireReply
    is_going_on: bool = False

    @property
    def payloads(self) -> list[Any]:
        """The bodies as JSON, in the order in which they came."""
        return [delivery.json for delivery in self.deliveries]


def ended(deliveries: list[Delivery]) -> bool:
    """Return whether a terminal state was delivered."""
    return any(read_event(delivery.json).state in TERMINAL for delivery in deliveries)


@contextlib.asynccontextmanager
async def receiver(ctx: Context) -> AsyncIterator[WebhookReceiver]:
    """Give a receiver; skip where the agent cannot reach it."""
    if ctx.target.webhook is not None:
        yield await ctx.session.webhooks()
        return
    # An agent on another machine cannot call this one's loopback address, and that is not the agent's fault.
    facts = judge_url(ctx.target.url, (), authority=True)
    if facts.reach != "loopback":
        ctx.skip(
            f"the webhook listens on this machine's loopback address, which the agent at {facts.host} cannot reach; "
            "say where it is to listen, and how the agent reaches that: --a2a-set webhook-bind=HOST:PORT, "
            "--a2a-set webhook-url=URL"
        )
    async with WebhookReceiver() as hooks:
        yield hooks


async def patience(ctx: Context, reply: WireReply, seconds: float = DELIVERY_SECONDS) -> float:
    """Return how many seconds a notification has: an agent that was slow to answer is slow to notify, too."""
    return min(_LONGEST_SECONDS, await ctx.allow(seconds) + _BUSY * reply.exchange.seconds)


async def delivered(ctx: Context) -> Delivered:
    """Let the agent notify a webhook that came with the message, once for all checks."""
    if ctx.version == "0.3":  # whose configurations have an id and a token
        return await deliver(ctx, ctx.prompt("task"), judge="V03-SEND-003", id=ctx.unknown_id(), token=TOKEN)
    return await deliver(ctx, ctx.prompt("task"))


async def deliver(
    ctx: Context, text: str, scheme: str = "Bearer", judge: str = "PUSH-015", *, at_once: bool = False, **members: Any
) -> Delivered:
    """Send a message with a configuration, and collect the deliveries to its webhook; once for each text and scheme.

    :param judge: the requirement that is broken where such a message gives no result.
    :param at_once: whether the message is not to be waited for.
    :param members: of the configuration, in place of its authentication.
    """
    config = members or {"authentication": {"scheme": scheme, "credentials": SECRET}}
    key = "delivered", text, scheme, at_once
    seen: Delivered = await ctx.shared(key, lambda: _deliver(ctx, text, config, at_once=at_once))
    ctx.task_of(seen.reply, "a message with a push notification config", judge)
    return seen


async def _deliver(ctx: Context, text: str, config: Mapping[str, Any], *, at_once: bool) -> Delivered:
    async with receiver(ctx) as hooks:
        hook = hooks.hook()
        asked: dict[str, Any] = {"taskPushNotificationConfig": {"url": hook.url, **config}}
        reply = await ctx.send(text, configuration={**asked, **({"returnImmediately": True} if at_once else {})})
        task_id = read_event(reply.result).task_id
        if not task_id:
            return Delivered(reply, "", hook, (), reply)
        stored = await ctx.wait_for_task(task_id)
        is_going_on = not await settled(hook, await patience(ctx, reply))
    return Delivered(reply, task_id, hook, tuple(hook.deliveries), stored, is_going_on)


async def settled(hook: Hook, seconds: float) -> bool:
    """Wait until the end was delivered, or nothing more comes within some seconds; return False where more still does.

    Checks look at all deliveries, of which an agent may have many.
    """
    until = time.monotonic() + _MOST_SECONDS
    while not ended(hook.deliveries) and time.monotonic() < until:
        seen = len(hook.deliveries)
        if not await hook.wait(partial(_has_more, seen), seconds):
            return True
    return ended(hook.deliveries)


def _has_more(seen: int, deliveries: list[Delivery]) -> bool:
    return ended(deliveries) or len(deliveries) > seen


async def arrived(ctx: Context) -> Delivered:
    """Return what was delivered; skip where nothing was."""
    seen = await delivered(ctx)
    if not seen.deliveries:
        ctx.skip("nothing was delivered to the webhook")
    return seen


def show(seen: Delivered) -> str:
    """Describe what arrived, for a finding."""
    kinds = Counter(read_event(payload).kind or "of no known kind" for payload in seen.payloads)
    return f"{len(seen.payloads)} deliveries ({', '.join(f'{number} {kind}' for kind, number in kinds.items())})"


async def create(ctx: Context, task_id: str, **members: Any) -> WireReply:
    """Create a config that no event will ever use, with an id of its own: checks share the task."""
    # An id of its own each, since checks run at once on one shared task.
    return await ctx.call(CREATE, {"taskId": task_id, "id": ctx.unknown_id(), "url": NEVER_CALLED, **members})


async def created(ctx: Context, **members: Any) -> tuple[str, Mapping[str, Any], WireReply]:
    """Return a task's id and a new config of it; skip where creating does not work."""
    task = await fixtures.completed_task(ctx)
    reply = ctx.needed(await create(ctx, str(task["id"]), **members), CREATE, "PUSH-001")
    config = config_of(reply)
    return str(task["id"]), config if config.get("id") else ctx.skip(f"{CREATE} returned no id"), reply


def config_of(reply: WireReply) -> Mapping[str, Any]:
    """Return the config of an answer in the form of 1.0, with nothing in it where there is none."""
    return next(iter(push_configs(reply.result)), {})


class Several(NamedTuple):
    """What came to three webhooks of one task, with credentials of their own; the last was deleted at once."""

    hooks: tuple[Hook, ...]
    made: tuple[WireReply, ...]
    got: tuple[WireReply, ...]
    stored: WireReply


SCHEMES = (("Bearer", "Zmlyc3Qtd2ViaG9vaw"), ("Basic", "c2Vjb25kOndlYmhvb2s="), ("Bearer", "dGhpcmQtd2ViaG9vaw"))


async def several(ctx: Context) -> Several:
    """Let a slow task notify three webhooks, once for all checks."""

    async def make() -> Several:
        task_id = str((await ctx.start_task(ctx.prompt("slow")))["id"])
        async with receiver(ctx) as hooks:
            mine = tuple(hooks.hook() for _ in SCHEMES)
            made: list[WireReply] = []
            for hook, (scheme, secret) in zip(mine, SCHEMES, strict=True):
                auth = {"scheme": scheme, "credentials": secret}
                # Ids that begin with each other, as with tasks.
                params = {"taskId": task_id, "id": f"hook{'-1' * len(made)}", "url": hook.url, "authentication": auth}
                made.append(ctx.needed(await ctx.call(CREATE, params), CREATE, "PUSH-001"))
            await ctx.call(DELETE, {"taskId": task_id, "id": made[-1].result.get("id")})
            # Only then is there something to tell each of them; a busy machine may take too long for that.
            if state_of(ctx.needed(await ctx.get_task(task_id), "GetTask", "GET-001").result) in TERMINAL:
                ctx.skip("the task of the scenario slow was over before its webhooks were configured")
            got = [await ctx.call(GET, {"taskId": task_id, "id": reply.result.get("id")}) for reply in made[:-1]]
            stored = await ctx.wait_for_task(task_id)
            # As long as each needs: an agent that was slow to answer is slow to notify.
            enough = await patience(ctx, stored)
            await asyncio.gather(*(hook.wait(ended, enough) for hook in mine[:-1]))
            # What was held back until the end comes soon after it.
            await asyncio.sleep(IN_FLIGHT_SECONDS)
            return Several(mine, tuple(made), tuple(got), stored)

    return await ctx.shared("several hooks", make)


# -- configurations --


async def create_returns_the_config(ctx: Context) -> None:
    """Create returns the config with id, url and taskId."""
    task = await fixtures.completed_task(ctx)
    more = {"authentication": {"scheme": "Bearer", "credentials": SECRET}, "token": SECRET, "id": ctx.unknown_id()}
    # In 0.3 a config has the id that its client gives it.
    for members in (more,) if ctx.version == "0.3" else ({}, more):
        params = {"taskId": task["id"], "url": NEVER_CALLED, **members}
        reply = await ctx.call(CREATE, params)
        config = config_of(reply)
        if not config:
            found = f"{CREATE}{' with ' + ', '.join(members) if members else ''}: {reply.describe()}"
            ctx.fail(found, reply, expected="the config with its id")
            return
        if not config.get("id"):
            ctx.fail("the config has no id", reply, pointer="/id", expected="an id made by the agent")
        for name in ("url", "taskId"):
            if config.get(name) != params[name]:
                found = f"{name} is {config.get(name)!r}"
                ctx.fail(found, reply, pointer=f"/{name}", expected=f"{name} {params[name]!r}")
                return


async def get_returns_the_config(ctx: Context) -> None:
    """Get returns what was created."""
    task_id, config, made = await created(ctx)
    _same_config(ctx, config, await ctx.call(GET, {"taskId": task_id, "id": config["id"]}), made)


def _same_config(ctx: Context, config: Mapping[str, Any], reply: WireReply, made: WireReply) -> None:
    got = config_of(reply)
    for name in ("id", "url", "taskId"):
        if got.get(name) != config.get(name):
            found = f"{name} is {got.get(name)!r}: {reply.describe()}"
            ctx.fail(found, made, reply, pointer=f"/{name}", expected=repr(config.get(name)))
            return


async def each_config_is_its_own(ctx: Context) -> None:
    """Of several configurations each is got by its id."""
    seen = await several(ctx)
    for made, got in zip(seen.made, seen.got, strict=False):
        config, url = config_of(made), config_of(got).get("url")
        if url != config.get("url"):
            found = f"of several configurations {config.get('id')!r} has url {url!r}"
            ctx.fail(found, made, got, pointer="/url", expected=repr(config.get("url")))


async def config_is_the_whole_id(ctx: Context) -> None:
    """A configuration is not found by the beginning of its id, nor by more."""
    task_id, config, _ = await created(ctx)
    for near in (str(config["id"])[:-1], f"{config['id']}0"):
        reply = await ctx.call(GET, {"taskId": task_id, "id": near})
        ctx.expect_error(reply, "TaskNotFoundError", what="getting a config by an id that is like another's")


async def list_returns_all(ctx: Context) -> None:
    """List returns every config of the task, and none of another task."""
    ids = []
    # Two: one configuration would be listed by servers that keep a single one.
    for _ in range(2):
        task_id, config, _ = await created(ctx)
        ids.append(config["id"])
    other_url = f"{NEVER_CALLED}&for={ctx.unknown_id()}"
    with contextlib.suppress(SkipCheck):
        others = await in_one_context(ctx) if ctx.version != "0.3" else []
        for other in [str(task["id"]) for _, task in others if task["id"] != task_id][:1]:
            await create(ctx, other, url=other_url)
    reply = await ctx.call(LIST, {"taskId": task_id})
    listed = push_configs(reply.result)
    missing = set(ids) - {config.get("id") for config in listed}
    if missing:
        found = f"{len(missing)} of {len(ids)} configs are not listed: {reply.describe()}"
        ctx.fail(found, reply, pointer="/configs", expected=f"configs {ids}")
    wrong = [c for c in listed if (c.get("taskId") or task_id) != task_id or c.get("url") == other_url]
    if wrong:
        found = f"{len(wrong)} of {len(listed)} listed configs are of other tasks, such as {wrong[0].get('taskId')!r}"
        ctx.fail(found, reply, pointer="/configs", expected=f"configs of task {task_id!r}")


async def several_hooks_are_listed(ctx: Context) -> None:
    """Several configurations of a running task are listed, each with its own url."""
    seen = await several(ctx)
    task_id = str(seen.made[0].result.get("taskId"))
    reply = await ctx.call(LIST, {"taskId": task_id})
    urls = {config.get("url") for config in push_configs(reply.result)}
    missing = [m for m in seen.made[:-1] if m.result.get("url") not in urls]
    # They may be gone with the task that they were for.
    if missing and len(missing) < len(seen.made) - 1:
        ctx.fail(f"{len(missing)} of several configurations are not listed", reply, pointer="/configs")


async def delete_ends_the_notifications(ctx: Context) -> None:
    """A deleted config is gone, and its webhook is left alone."""
    task_id, config, _ = await created(ctx)
    params = {"taskId": task_id, "id": config["id"]}
    reply = await ctx.call(DELETE, params)
    # The result of 0.3 is null, and its SDK for Python leaves that out of the answer (0.3.0 §7.8).
    is_null = ctx.version == "0.3" and isinstance(reply.document, Mapping) and "jsonrpc" in reply.document
    if reply.error is not None or (reply.problem and not is_null):
        ctx.fail(f"{DELETE}: {reply.describe()}", reply, expected="that it is deleted")
        return
    gone = await ctx.call(GET, params)
    if ctx.version == "0.3":  # which names no error for it, and no end of the notifications
        ctx.excuse(gone)
        if config_of(gone).get("url"):
            ctx.fail("a deleted config is still there", reply, gone, expected="an error")
        return
    if gone.error is None:
        ctx.fail(f"after it was deleted: {gone.describe()}", reply, gone, expected="no such config")
    if ctx.has_prompt("slow"):
        await _left_alone(ctx)


async def _left_alone(ctx: Context) -> None:
    task_id = str((await ctx.start_task(ctx.prompt("slow")))["id"])
    async with receiver(ctx) as hooks:
        hook = hooks.hook()
        made = ctx.needed(await ctx.call(CREATE, {"taskId": task_id, "url": hook.url}), CREATE, "PUSH-001")
        # Deleted at once, before the task does anything.
        reply = await ctx.call(DELETE, {"taskId": task_id, "id": made.result.get("id")})
        # What was under way when the config was deleted may still arrive.
        await asyncio.sleep(await ctx.allow(IN_FLIGHT_SECONDS))
        before = len(hook.deliveries)
        await ctx.wait_for_task(task_id)
        # A short wait: the task is over, and what comes after its end comes soon.
        if await hook.wait(lambda found: len(found) > before, 0.3):
            found = f"{len(hook.deliveries) - before} notifications came after the config was deleted"
            ctx.fail(found, made, reply, expected="none")


async def deleting_one_leaves_the_others(ctx: Context) -> None:
    """Of several configurations the deleted one gets nothing more, and the others do."""
    seen = await several(ctx)
    kept = [hook for hook in seen.hooks[:-1] if ended(hook.deliveries)]
    if kept and ended(seen.hooks[-1].deliveries):
        found = "the end of the task came to a webhook whose configuration had been deleted"
        ctx.fail(found, seen.made[-1], seen.stored)


async def delete_is_idempotent(ctx: Context) -> None:
    """Deleting twice is no error."""
    task_id, config, _ = await created(ctx)
    params = {"taskId": task_id, "id": config["id"]}
    first = await ctx.call(DELETE, params)
    if first.error is not None or first.problem:
        ctx.skip(f"{DELETE} did not work, which PUSH-005 judges: {first.describe()}")
    second = await ctx.call(DELETE, params)
    if second.error is not None or second.problem:
        ctx.fail(f"deleting a second time: {second.describe()}", first, second)


async def config_stays(ctx: Context) -> None:
    """A config stays until the task ends or it is deleted."""
    text = ctx.prompt("slow")
    seconds = await ctx.slow_seconds()
    task_id = str((await ctx.start_task(text))["id"])
    made = ctx.needed(await create(ctx, task_id), CREATE, "PUSH-001")
    # Time for events, which must not use the config up.
    # A third of its time: in between, and still before its end.
    await asyncio.sleep(seconds / 3)
    kept = await ctx.call(GET, {"taskId": task_id, "id": made.result.get("id")})
    if not kept.ok and state_of((await ctx.get_task(task_id)).result) in TERMINAL:
        ctx.skip("the task of the slow scenario was over too soon")
    _same_config(ctx, made.result, kept, made)


# -- deliveries to the webhook --


async def something_is_delivered(ctx: Context) -> None:
    """A webhook gets at least one notification."""
    text = ctx.prompt("slow")
    async with receiver(ctx) as hooks:
        # The task may be over before it is configured; then it is tried with another one.
        for _ in range(ATTEMPTS):
            task_id = str((await ctx.start_task(text))["id"])
            hook = hooks.hook()
            params = {"taskId": task_id, "url": f"{hook.url}?{QUERY}"}
            made = ctx.needed(await ctx.call(CREATE, params), CREATE, "PUSH-001")
            if state_of((await ctx.get_task(task_id)).result) not in TERMINAL:
                break
        else:
            ctx.skip("the task of the scenario slow was over before it could be configured")
        stored = await ctx.wait_for_task(task_id)
        # The task is over: what has not come by now comes soon, if at all.
        if not await hook.wait(timeout=await patience(ctx, made, DELIVERY_SECONDS / 2)):
            found = "the task ended, and no notification came"
            ctx.fail(found, made, stored, expected="at least one POST to the webhook")
        if wrong := [delivery.query for delivery in hook.deliveries if delivery.query != QUERY]:
            ctx.fail(f"the webhook was called with the query {wrong[0]!r}", made, expected=f"its url, with {QUERY!r}")


async def each_hook_is_called(ctx: Context) -> None:
    """Every configured webhook gets notifications, also where there are several."""
    seen = await several(ctx)
    is_over = any(ended(hook.deliveries) for hook in seen.hooks[:-1])
    deaf = [number for number, hook in enumerate(seen.hooks[:-1], 1) if is_over and not hook.deliveries]
    if deaf and len(deaf) < len(seen.hooks) - 1:
        found = f"of {len(seen.hooks) - 1} webhooks of a task number {deaf[0]} got no notification"
        ctx.fail(found, *seen.made, seen.stored, expected="at least one POST to each webhook")


async def payload_is_a_stream_response(ctx: Context) -> None:
    """Each payload is a StreamResponse with one member, which comes by POST."""
    seen = await arrived(ctx)
    if methods := {delivery.method for delivery in seen.deliveries} - {"POST"}:
        ctx.fail(f"the webhook was called with {' and '.join(sorted(methods))}", seen.reply, expected="HTTP POST")
    ctx.report_problems(one_member(seen.payloads), seen.reply)
    for problem in (problem for payload in seen.payloads for problem in RULES["DM-014"](payload)):
        ctx.fail(problem.found, seen.reply, pointer=problem.pointer)
        return


async def payload_has_its_media_type(ctx: Context) -> None:
    """The Content-Type is application/a2a+json."""
    seen = await arrived(ctx)
    types = {d.headers.get("content-type", "").partition(";")[0].strip().lower() for d in seen.deliveries}
    for wrong in sorted(types - {"application/a2a+json"}):
        expected = "application/a2a+json"
        # One finding for each wrong type and not for each delivery.
        ctx.fail(f"Content-Type is {wrong or 'missing'!r}", seen.reply, expected=expected)


async def credentials_are_sent(ctx: Context) -> None:
    """Each notification carries the credentials of its config."""
    seen = await arrived(ctx)
    bad = [d for d in seen.deliveries if not _authorized(d)]
    if bad:
        # The value is a secret of this run's and is not shown.
        what = "another Authorization header" if "authorization" in bad[0].headers else "no Authorization header"
        found = f"{len(bad)} of {len(seen.deliveries)} notifications have {what}"
        ctx.fail(found, seen.reply, expected="Authorization: scheme credentials, as configured")


def _authorized(delivery: Delivery) -> bool:
    scheme, _, credentials = delivery.headers.get("authorization", "").partition(" ")
    # Names of schemes have no case (RFC 9110 section 11.1).
    return scheme.lower() == "bearer" and credentials == SECRET


async def each_hook_gets_its_credentials(ctx: Context) -> None:
    """Each of several webhooks gets its own credentials."""
    seen = await several(ctx)
    for hook, (scheme, secret), made in zip(seen.hooks, SCHEMES, seen.made, strict=True):
        wrong = [d for d in hook.deliveries if d.headers.get("authorization", "") != f"{scheme} {secret}"]
        if wrong:
            found = (
                f"{len(wrong)} of {len(hook.deliveries)} notifications have the credentials of another webhook, or none"
            )
            ctx.fail(found, made, expected="Authorization as configured for that webhook")
            return


async def config_comes_with_the_message(ctx: Context) -> None:
    """A config that comes with the message is used, whether or not the message is waited for."""
    seen, how = await delivered(ctx), ""
    # Streams are not waited for anyway, and 0.3 says nothing of it.
    if seen.deliveries and ctx.version != "0.3" and not ctx.variant.operation:
        seen, how = await deliver(ctx, ctx.prompt("task"), at_once=True), " with returnImmediately"
    if not seen.deliveries:
        ctx.fail(f"a config that came with the message{how}: no notification", seen.reply, seen.stored)


async def the_end_is_delivered(ctx: Context) -> None:
    """The terminal state is delivered."""
    seen = await arrived(ctx)
    if ended(list(seen.deliveries)):
        return
    # An agent that did not deliver the end is only to blame if there was one.
    state = state_of(seen.stored.result)
    if state not in TERMINAL:
        ctx.skip(f"the task of the scenario task did not end: it is {state or seen.stored.describe()}")
    if seen.is_going_on:
        ctx.skip(f"notifications were still coming after {_MOST_SECONDS:g} s: {show(seen)}")
    ctx.fail(f"the task ended; {show(seen)} did not tell", seen.reply, seen.stored)


async def order_is_kept(ctx: Context) -> None:
    """Notifications come in the order of the events."""
    seen = await arrived(ctx)
    ctx.report_problems(nothing_after_terminal(read_events(once(seen.payloads))), seen.reply)
    # A task of several chunks shows order; the ordinary one often has a single event.
    if ctx.has_prompt("chunks"):
        chunked = await deliver(ctx, ctx.prompt("chunks"))
        if ended(list(chunked.deliveries)) and chunked.stored.ok:
            # Equal payloads may be one that came twice, or two chunks that are the same.
            problems = [
                differences(rebuild(read_events(payloads)), chunked.stored.result)
                for payloads in (chunked.payloads, once(chunked.payloads))
            ]
            if all(problems):
                ctx.report_problems(problems[0], chunked.reply, chunked.stored)


async def nothing_comes_after_the_end(ctx: Context) -> None:
    """No webhook of a task gets a notification after its end."""
    seen = await several(ctx)
    for hook, made in zip(seen.hooks[:-1], seen.made, strict=False):
        ctx.report_problems(nothing_after_terminal(read_events(once([d.json for d in hook.deliveries]))), made)


async def private_addresses_are_refused(ctx: Context) -> None:
    """Link-local and private webhook addresses are refused."""
    task = await fixtures.completed_task(ctx)
    # The address of cloud machines' metadata, and one of a private network that does not answer.
    for url in ("http://169.254.169.254/latest/meta-data/", "http://10.255.255.1/hook"):
        reply = await create(ctx, str(task["id"]), url=url)
        ctx.excuse(reply)
        if reply.ok and isinstance(reply.result, Mapping):
            found = f"a webhook at {url} was accepted"
            expected = "an error, so that nobody can use the agent to reach its private network"
            ctx.fail(found, reply, pointer="/url", expected=expected)


async def slow_webhook_does_not_hold_up(ctx: Context) -> None:
    """A webhook that answers late, with an error, does not hold up the task."""
    text = ctx.prompt("task")
    usual = await ctx.send(text)
    ctx.task_of(usual, "the scenario task")
    async with receiver(ctx) as hooks:
        # Only the first delivery is held up: otherwise every event would add to the time of the task.
        hook = hooks.hook(status=500, delay=HELD_UP_SECONDS, late=1)
        reply = await ctx.send(text, configuration={"taskPushNotificationConfig": {"url": hook.url}})
        taken = reply.exchange.seconds
        await hook.wait(timeout=await patience(ctx, usual, 1))
    if not hook.deliveries:
        ctx.skip("nothing was delivered to the webhook")
    # The usual time is measured before and after, as the machine may be busier now than it was then.
    after = await ctx.send(text)
    normal = max(usual.exchange.seconds, after.exchange.seconds)
    # Four fifths of the delay: an agent that waits takes all of it.
    if not reply.ok or taken > normal + HELD_UP_SECONDS * 0.8:
        if reply.ok and ctx.session.pace.is_alone and await ctx.allow(0) > HELD_UP_SECONDS / 2:
            # Ten cheap questions in a row would take as long: whatever came late may have come late by itself. Beside
            # other checks that is so of every agent; then this one is made again.
            ctx.skip("agent or machine are too busy to tell what an answer waited for")
        found = f"with a webhook that answers after {HELD_UP_SECONDS} s the answer took {taken:.1f} s"
        ctx.fail(f"{found}: {reply.describe()}", usual, reply, expected=f"about {normal:.1f} s, as without it")


async def scheme_names_have_no_case(ctx: Context) -> None:
    """The name of an authentication scheme may be in lower case."""
    seen = await deliver(ctx, ctx.prompt("task"), "bearer")
    # Only where the capital spelling works is the small one to blame.
    if not seen.deliveries:
        upper = await delivered(ctx)
        if upper.deliveries:
            found = 'with the scheme "bearer" nothing was delivered, with "Bearer" it was'
            ctx.fail(found, seen.reply, expected="scheme names without regard to case")
        return
    if not all(map(_authorized, seen.deliveries)):
        found = 'with the scheme "bearer" the Authorization header is missing or wrong'
        ctx.fail(found, seen.reply, expected="Authorization: bearer credentials")
