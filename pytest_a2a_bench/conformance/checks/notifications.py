"""What checks of push notifications do alike: configs, a webhook that the agent can reach, and what came to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from pytest_a2a_bench.a2a.codec import TERMINAL
from pytest_a2a_bench.conformance import fixtures
from pytest_a2a_bench.conformance.card.urls import judge_url
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.protocol.operations import NEVER_CALLED
from pytest_a2a_bench.conformance.protocol.payloads import state_of
from pytest_a2a_bench.conformance.protocol.streams import read_event
from pytest_a2a_bench.conformance.wire.reply import WireReply
from pytest_a2a_bench.conformance.wire.webhook import Delivery, Hook, WebhookReceiver

CREATE = "CreateTaskPushNotificationConfig"
GET = "GetTaskPushNotificationConfig"
LIST = "ListTaskPushNotificationConfigs"
DELETE = "DeleteTaskPushNotificationConfig"
SECRET = "Zm9yLXRoaXMtd2ViaG9vay1vbmx5"
TOKEN = "c29tZS13ZWJob29rLXRva2Vu"
DELIVERY_SECONDS = 5.0
# How many times the seconds of an ordinary answer a notification may take beyond the usual limit.
_BUSY = 5
# Whatever the machine does: a check waits for two deliveries at most, and has a minute.
_LONGEST_SECONDS = 20.0
# What an agent had begun to send when the configuration was deleted.
IN_FLIGHT_SECONDS = 0.3
HELD_UP_SECONDS = 1.5
"""How long a webhook keeps the agent waiting, to see whether the task waits too."""


@dataclass(frozen=True)
class Delivered:
    """A task, and what its webhook got."""

    reply: WireReply
    task_id: str
    hook: Hook
    deliveries: tuple[Delivery, ...]
    stored: WireReply

    @property
    def payloads(self) -> list[Any]:
        """The bodies as JSON, in the order in which they came."""
        return [delivery.json for delivery in self.deliveries]


def ended(deliveries: list[Delivery]) -> bool:
    """Return whether a terminal state was delivered."""
    return any(read_event(delivery.json).state in TERMINAL for delivery in deliveries)


@asynccontextmanager
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
    ctx: Context, text: str, scheme: str = "Bearer", judge: str = "PUSH-015", **members: Any
) -> Delivered:
    """Send a message with a configuration, and collect the deliveries to its webhook; once for each text and scheme.

    :param judge: the requirement that is broken where such a message gives no result.
    :param members: of the configuration, in place of its authentication.
    """
    config = members or {"authentication": {"scheme": scheme, "credentials": SECRET}}
    seen: Delivered = await ctx.shared(("delivered", text, scheme), lambda: _deliver(ctx, text, config))
    ctx.task_of(seen.reply, "a message with a push notification config", judge)
    return seen


async def _deliver(ctx: Context, text: str, config: Mapping[str, Any]) -> Delivered:
    async with receiver(ctx) as hooks:
        hook = hooks.hook()
        reply = await ctx.send(text, configuration={"taskPushNotificationConfig": {"url": hook.url, **config}})
        task_id = read_event(reply.result).task_id
        if not task_id:
            return Delivered(reply, "", hook, (), reply)
        # Until the end was delivered or time is up: checks look at all deliveries.
        await hook.wait(ended, await patience(ctx, reply))
        stored = await ctx.wait_for_task(task_id)
    return Delivered(reply, task_id, hook, tuple(hook.deliveries), stored)


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


async def create(ctx: Context, task_id: str, **members: Any) -> WireReply:
    """Create a config that no event will ever use, with an id of its own: checks share the task."""
    # An id of its own each, since checks run at once on one shared task.
    return await ctx.call(CREATE, {"taskId": task_id, "id": ctx.unknown_id(), "url": NEVER_CALLED, **members})


async def created(ctx: Context, **members: Any) -> tuple[str, Mapping[str, Any], WireReply]:
    """Return a task's id and a new config of it; skip where creating does not work."""
    task = await fixtures.completed_task(ctx)
    reply = ctx.needed(await create(ctx, str(task["id"]), **members), CREATE, "PUSH-001")
    if not isinstance(reply.result, Mapping) or not reply.result.get("id"):
        ctx.skip(f"{CREATE} returned no id")
    return str(task["id"]), reply.result, reply


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
