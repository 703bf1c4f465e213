"""Push notifications: the four operations on their configurations, and the deliveries to a webhook."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pytest_a2a_bench.a2a.bodies import as_objects
from pytest_a2a_bench.a2a.codec import SETTLED, TERMINAL
from pytest_a2a_bench.conformance import fixtures
from pytest_a2a_bench.conformance.card.urls import judge_url
from pytest_a2a_bench.conformance.checks.data_model import RULES
from pytest_a2a_bench.conformance.checks.list_tasks import in_one_context
from pytest_a2a_bench.conformance.context import ATTEMPTS, Context, shared
from pytest_a2a_bench.conformance.protocol.operations import NEVER_CALLED
from pytest_a2a_bench.conformance.protocol.payloads import push_configs, state_of
from pytest_a2a_bench.conformance.protocol.streams import (
    Problem,
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
_MOST_SECONDS = 20.0
# What comes later to one webhook than to another, or after the end.
IN_FLIGHT_SECONDS = 0.3
HELD_UP_SECONDS = 1.5
"""How long a webhook keeps the agent waiting, to see whether the task waits too."""


@dataclass(frozen=True)
class Delivered:
    """A task, and the deliveries to its webhook.

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


def ended(deliveries: list[Delivery], states: Container[str] = TERMINAL) -> bool:
    """Return whether one of the states was delivered, by default a terminal one."""
    return any(read_event(delivery.json).state in states for delivery in deliveries)


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
    """Wait until the end or a question was delivered, or nothing more comes within some seconds.

    Checks look at all deliveries, of which an agent may have many: returns False where more still come.
    """
    until = time.monotonic() + _MOST_SECONDS
    while not ended(hook.deliveries, SETTLED) and time.monotonic() < until:

        def has_more(every: list[Delivery], seen: int = len(hook.deliveries)) -> bool:
            return len(every) > seen

        if not await hook.wait(has_more, seconds):
            return True
    return ended(hook.deliveries, SETTLED)


async def arrived(ctx: Context) -> Delivered:
    """Return the deliveries; skip if there are none."""
    seen = await delivered(ctx)
    if not seen.deliveries:
        ctx.skip("nothing was delivered to the webhook")
    return seen


def show(seen: Delivered) -> str:
    """Describe the deliveries, for a finding."""
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
    """The deliveries to three webhooks of one task, each with its own credentials; the last was deleted at once.

    :param got: the other configurations after something had been delivered, empty where the task was over by then.
    """

    hooks: tuple[Hook, ...]
    made: tuple[WireReply, ...]
    deleted: WireReply
    got: tuple[WireReply, ...]
    stored: WireReply


SCHEMES = (("Bearer", "Zmlyc3Qtd2ViaG9vaw"), ("Basic", "c2Vjb25kOndlYmhvb2s="), ("Bearer", "dGhpcmQtd2ViaG9vaw"))


@shared
async def several(ctx: Context) -> Several:
    """Let a slow task notify three webhooks."""

    async def create_one(task_id: str, hook: Hook, number: int) -> WireReply:
        scheme, secret = SCHEMES[number]
        auth = {"scheme": scheme, "credentials": secret}
        # Ids that begin with each other, as with tasks.
        params = {"taskId": task_id, "id": f"hook{'-1' * number}", "url": f"{hook.url}?{QUERY}", "authentication": auth}
        reply = ctx.needed(await ctx.call(CREATE, params), CREATE, "PUSH-001")
        return reply if config_of(reply).get("id") else ctx.skip(f"{CREATE} returned no id")

    seconds = await ctx.slow_seconds()
    async with receiver(ctx) as hooks:
        # The task may be over before it is configured; then it is tried with another one.
        for _ in range(ATTEMPTS):
            task_id = str((await ctx.start_task(ctx.prompt("slow")))["id"])
            mine = tuple(hooks.hook() for _ in SCHEMES)
            made = await asyncio.gather(*(create_one(task_id, hook, n) for n, hook in enumerate(mine)))
            deleted = await ctx.call(DELETE, {"taskId": task_id, "id": made[-1].result.get("id")})
            if not await _is_over(ctx, task_id):
                break
        else:
            ctx.skip("the task of the scenario slow was over before its webhooks were configured")
        # An event must not use a configuration up; a third of the task's time leaves some of it.
        await mine[0].wait(timeout=seconds / 3)
        got = [await ctx.call(GET, {"taskId": task_id, "id": reply.result.get("id")}) for reply in made[:-1]]
        is_over = await _is_over(ctx, task_id)
        stored = await ctx.wait_for_task(task_id)
        # As long as each needs: an agent that was slow to answer is slow to notify.
        enough = await patience(ctx, stored)
        await asyncio.gather(*(hook.wait(ended, enough) for hook in mine[:-1]))
        # What was held back until the end comes soon after it.
        await asyncio.sleep(await ctx.allow(IN_FLIGHT_SECONDS))
        return Several(mine, tuple(made), deleted, () if is_over else tuple(got), stored)


async def _is_over(ctx: Context, task_id: str) -> bool:
    return state_of(ctx.needed(await ctx.get_task(task_id), "GetTask", "GET-001").result) in TERMINAL


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
        if not _has_its_form(ctx, reply):
            return
        for name in ("url", "taskId"):
            if config.get(name) != params[name]:
                found = f"{name} is {config.get(name)!r}"
                ctx.fail(found, reply, pointer=f"/{name}", expected=f"{name} {params[name]!r}")
                return


def _has_its_form(ctx: Context, reply: WireReply) -> bool:
    """Fail where a configuration, which is read in the form of either version, has that of the other one."""
    # 0.3's schema and its proto file have url and id a level deeper.
    is_old = ctx.version == "0.3"
    if ("pushNotificationConfig" in reply.result) is is_old:
        return True
    expected = "url and id in pushNotificationConfig" if is_old else "url and id beside taskId"
    ctx.fail(f"the config has the members {sorted(reply.result)}", reply, expected=expected)
    return False


async def get_returns_the_config(ctx: Context) -> None:
    """Get returns the created configuration."""
    task_id, config, made = await created(ctx)
    reply = await ctx.call(GET, {"taskId": task_id, "id": config["id"]})
    got = config_of(reply)
    if got and not _has_its_form(ctx, reply):
        return
    for name in [n for n in ("id", "url", "taskId") if got.get(n) != config.get(n)][:1]:
        found = f"{name} is {got.get(name)!r}: {reply.describe()}"
        ctx.fail(found, made, reply, pointer=f"/{name}", expected=repr(config.get(name)))


async def config_is_the_whole_id(ctx: Context) -> None:
    """A configuration is not found by the beginning of its id, nor by more."""
    task_id, config, _ = await created(ctx)
    for near in (str(config["id"])[:-1], f"{config['id']}0"):
        reply = await ctx.call(GET, {"taskId": task_id, "id": near})
        ctx.expect_error(reply, "TaskNotFoundError", what="getting a config by an id that is like another's")


async def list_returns_all(ctx: Context) -> None:
    """List returns every config of the task, each with its url, and none of another task."""
    urls = [f"{NEVER_CALLED}&for={ctx.unknown_id()}" for _ in range(3)]
    # Two: one configuration would be listed by servers that keep a single one.
    mine = [await created(ctx, url=url) for url in urls[:2]]
    task_id = mine[0][0]
    with contextlib.suppress(SkipCheck):
        others = (await in_one_context(ctx))[0] if ctx.version != "0.3" else []
        for other in [str(task["id"]) for _, task in others if task["id"] != task_id][:1]:
            await create(ctx, other, url=urls[2])
    reply = await ctx.call(LIST, {"taskId": task_id})
    expected, is_list = "", isinstance(reply.result, list)
    if ctx.version != "0.3" and is_list:
        expected = "an object with configs"
    # The schema of 0.3 has a list; its proto file, which other bindings follow, an object as in 1.0.
    elif ctx.version == "0.3" and ctx.binding == "JSONRPC" and not is_list:
        expected = "a list"
    if reply.ok and expected:
        ctx.fail(f"not {expected}: {reply.describe()}", reply, pointer="/configs" if is_list else "", expected=expected)
        return
    listed = push_configs(reply.result)
    known = [(config.get("id"), config.get("url")) for config in listed]
    ids = [config["id"] for _, config, _ in mine if (config["id"], config.get("url")) not in known]
    if ids:
        found = f"{len(ids)} of {len(mine)} configs are not listed: {reply.describe()}"
        ctx.fail(found, reply, pointer="/configs", expected=f"configs {ids}")
    wrong = [c for c in listed if (c.get("taskId") or task_id) != task_id or c.get("url") == urls[2]]
    if wrong:
        found = f"{len(wrong)} of {len(listed)} listed configs are of other tasks, such as {wrong[0].get('taskId')!r}"
        ctx.fail(found, reply, pointer="/configs", expected=f"configs of task {task_id!r}")


async def delete_ends_the_notifications(ctx: Context) -> None:
    """A deleted config is gone."""
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
        # An agent that knows one config of a task only answers with another one, which was not deleted.
        if (there := config_of(gone)).get("url") and there.get("id", config["id"]) == config["id"]:
            ctx.fail("a deleted config is still there", reply, gone, expected="an error")
        return
    if gone.error is None:
        ctx.fail(f"after it was deleted: {gone.describe()}", reply, gone, expected="no such config")


async def deleting_one_ends_its_notifications(ctx: Context) -> None:
    """The webhook of the configuration that was deleted, of several, gets nothing more."""
    seen = await several(ctx)
    # GetTask showed the task running after the deletion: its end, unlike other events, cannot have been under way.
    if ended(seen.hooks[-1].deliveries):
        found = "the config was deleted while the task was running, and the end of the task came to its webhook"
        ctx.fail(found, seen.made[-1], seen.deleted)
    elif not any(ended(hook.deliveries) for hook in seen.hooks[:-1]):
        ctx.skip("the end of the task came to no webhook, so that nothing shows whether a deletion ends that")


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
    """A config stays after a notification, as long as the task goes on."""
    seen = await several(ctx)
    for made, got in zip(seen.made, seen.got, strict=False):
        if not got.ok:
            ctx.fail(f"while the task goes on its config is gone: {got.describe()}", made, got)
            return


async def config_stays_while_the_task_waits(ctx: Context) -> None:
    """A config stays while the task waits for the user."""
    seen = await deliver(ctx, ctx.prompt("input"))
    # Where the webhook was never called, the config was not there at all, which PUSH-015 judges.
    if state_of(seen.stored.result) != "input-required" or not seen.deliveries:
        ctx.skip("no webhook was called for a task that waits for the user")
    reply = await ctx.call(LIST, {"taskId": seen.task_id})
    if reply.ok and not push_configs(reply.result):
        found = "the webhook was called, and while the task waits for the user no config is listed"
        ctx.fail(found, seen.reply, seen.stored, reply, pointer="/configs")


# -- deliveries to the webhook --


async def each_hook_is_called(ctx: Context) -> None:
    """Every configured webhook gets notifications, at its url with its query."""
    seen = await several(ctx)
    if state_of(seen.stored.result) not in TERMINAL:
        ctx.skip(f"the task of the scenario slow did not end: {seen.stored.describe()}")
    hooks = seen.hooks[:-1]
    deaf = [number for number, hook in enumerate(hooks, 1) if not hook.deliveries]
    if deaf and not all(reply.ok for reply in seen.got):
        ctx.skip("a configuration is gone, which PUSH-007 judges")
    if deaf:
        every = f"of {len(hooks)} webhooks of a task number {deaf[0]} got no notification"
        found = "the task ended, and no notification came" if len(deaf) == len(hooks) else every
        ctx.fail(found, *seen.made, seen.stored, expected="at least one POST to each webhook")
    if wrong := [delivery.query for hook in hooks for delivery in hook.deliveries if delivery.query != QUERY]:
        expected = f"its url, with {QUERY!r}"
        ctx.fail(f"the webhook was called with the query {wrong[0]!r}", *seen.made[:1], expected=expected)


async def payload_is_a_stream_response(ctx: Context) -> None:
    """Each payload is a StreamResponse with one member, which comes by POST."""
    seen = await arrived(ctx)
    if methods := {delivery.method for delivery in seen.deliveries} - {"POST"}:
        ctx.fail(f"the webhook was called with {' and '.join(sorted(methods))}", seen.reply, expected="HTTP POST")
    ctx.report_problems(one_member(seen.payloads), seen.reply)
    problems = [problem for payload in seen.payloads for problem in RULES["DM-014"](payload)]
    ctx.report_problems(problems[:1], seen.reply)


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
    bad = _unauthorized(seen.deliveries, "Bearer", SECRET)
    if bad:
        # The value is a secret of this run's and is not shown.
        what = "another Authorization header" if "authorization" in bad[0].headers else "no Authorization header"
        found = f"{len(bad)} of {len(seen.deliveries)} notifications have {what}"
        ctx.fail(found, seen.reply, expected="Authorization: scheme credentials, as configured")


def _unauthorized(deliveries: Iterable[Delivery], scheme: str, secret: str) -> list[Delivery]:
    """Return the deliveries without the credentials of their configuration."""
    found = ((d, d.headers.get("authorization", "").partition(" ")) for d in deliveries)
    # Names of schemes have no case (RFC 9110 section 11.1).
    return [d for d, sent in found if (sent[0].lower(), sent[2]) != (scheme.lower(), secret)]


async def each_hook_gets_its_credentials(ctx: Context) -> None:
    """Each of several webhooks gets its own credentials."""
    seen = await several(ctx)
    for hook, (scheme, secret), made in zip(seen.hooks, SCHEMES, seen.made, strict=True):
        if wrong := len(_unauthorized(hook.deliveries, scheme, secret)):
            found = f"{wrong} of {len(hook.deliveries)} notifications have the credentials of another webhook, or none"
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
    ctx.report_problems(nothing_after_terminal(once(seen.payloads)), seen.reply)
    # A task of several chunks shows order; the ordinary one often has a single event.
    if ctx.has_prompt("chunks"):
        chunked = await deliver(ctx, ctx.prompt("chunks"))
        if ended(list(chunked.deliveries)) and chunked.stored.ok:
            # Equal payloads may be one that came twice, or two chunks that are the same.
            problems = [_disorder(each, chunked.stored.result) for each in (chunked.payloads, once(chunked.payloads))]
            if all(problems):
                ctx.report_problems(problems[0], chunked.reply, chunked.stored)


def _disorder(payloads: Sequence[Any], task: Mapping[str, Any]) -> list[Problem]:
    built = rebuild(read_events(payloads))
    # Section 3.5.1 has notifications of states: an artifact of which nothing came is in no order.
    told = [a for a in as_objects(task.get("artifacts")) if a.get("artifactId") in built.artifacts]
    return differences(built, {**task, "artifacts": told})


async def nothing_comes_after_the_end(ctx: Context) -> None:
    """No webhook of a task gets a notification after its end."""
    seen = await several(ctx)
    for hook, made in zip(seen.hooks[:-1], seen.made, strict=False):
        ctx.report_problems(nothing_after_terminal(once([d.json for d in hook.deliveries])), made)


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
            ctx.skip("agent or machine are too busy to show why an answer was late")
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
    if _unauthorized(seen.deliveries, "bearer", SECRET):
        found = 'with the scheme "bearer" the Authorization header is missing or wrong'
        ctx.fail(found, seen.reply, expected="Authorization: bearer credentials")
