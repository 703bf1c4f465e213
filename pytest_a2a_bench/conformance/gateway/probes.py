"""The exchanges that are made with an agent and through its gateway, in steps that stand for themselves."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_a2a_bench.conformance.checks.auth import strangers
from pytest_a2a_bench.conformance.checks.push import CREATE, DELETE, GET, SECRET, ended, patience, receiver
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.gateway.compare import ARRIVED, PLAIN, Difference, Seen, kind_of
from pytest_a2a_bench.conformance.protocol.operations import NEVER_CALLED, OPERATIONS, about
from pytest_a2a_bench.conformance.protocol.payloads import RUNNING, push_configs, state_of, task_in
from pytest_a2a_bench.conformance.protocol.streams import read_event, read_result
from pytest_a2a_bench.conformance.wire.reply import UNSET, NoAnswer, SkipCheck, WireReply

# Beyond what common proxies accept by default (1 MB of a body); blanks around JSON cost no model anything.
_LARGE = 1_300_000
# A large token or a list of extensions; common servers accept 8 KB for a header, and 16 KB for all.
_LONG_HEADER = 6_000
# What a gateway or its JSON library may change: other scripts, markup, numbers, a long text, and what may look empty.
_METADATA: Mapping[str, Any] = {
    "text": "Zürich \u2028 ☃ 😀 <b>&amp;</b> %2F+",
    "number": 1234567890123,
    "fraction": 0.1,
    "empty": {"text": "", "list": [], "object": {}, "no": False, "zero": 0},
    "long": "0123456789abcdef" * 400,
}


@dataclass
class Asking:
    """One run of a step on one side.

    :param ctx: asks the side that is looked at.
    :param direct: asks the agent without the gateway.
    """

    ctx: Context
    direct: Context
    seen: dict[str, Seen] = field(default_factory=dict)

    async def call(
        self,
        name: str,
        operation: str,
        params: Mapping[str, Any],
        *,
        rule: str = "",
        body: str = "",
        sent: Mapping[str, str] | None = None,
        asks: Context | None = None,
        raw: Any = UNSET,
        **options: Any,
    ) -> WireReply:
        """Ask, and keep the answer under a name; ``rule`` and ``body`` as in :class:`.compare.Seen`.

        :param asks: who is asked instead of this side.
        :param raw: the body to send instead of the operation's own.
        """
        rpc_id: Any = f"request {uuid.uuid4()}" if self.ctx.binding == "JSONRPC" and raw is UNSET else UNSET
        reply = await (asks or self.ctx).call(operation, params, rpc_id=rpc_id, body=raw, **options)
        self.seen[name] = Seen(reply, {**(sent or {}), **({} if rpc_id is UNSET else {rpc_id: "REQUEST"})}, rule, body)
        return reply

    async def unknown(self, name: str, operation: str, **options: Any) -> None:
        """Ask about an unknown task."""
        unknown = str(uuid.uuid4())
        await self.call(name, operation, about(operation, unknown), sent={unknown: "UNKNOWN"}, **options)

    def note(self, name: str, rule: str, words: str, value: Any) -> None:
        """Add a fact that must be the same on both sides to an exchange."""
        self.seen[name] = self.seen[name]._replace(notes={**self.seen[name].notes, words: (rule, value)})


# -- messages --


async def talk(asking: Asking) -> None:
    """Send a message, get and list its task, and send another in a context of the client's own."""
    ctx = asking.ctx
    params = ctx.send_params(metadata={"a2a-bench": _METADATA})
    sent = {params["message"]["messageId"]: "MESSAGE"}
    reply = await asking.call("SendMessage", "SendMessage", params, sent=sent)
    event = read_result(reply.result)
    if event.kind == "task" and event.task_id:
        known = {**sent, event.task_id: "TASK"}
        await asking.call("GetTask", "GetTask", {"id": event.task_id}, sent=known)
        # What the agent itself has under the id that came through the gateway.
        options: Any = {"sent": known, "rule": "GW-010", "body": "GW-008", "asks": asking.direct}
        await asking.call(ARRIVED, "GetTask", {"id": event.task_id}, **options)
        if ctx.version != "0.3" and event.context_id:
            query = {"contextId": event.context_id, "pageSize": 1, "historyLength": 0}
            await asking.call("ListTasks", "ListTasks", query, sent=known, rule="GW-005", body="GW-005")
    context, name = str(uuid.uuid4()), "SendMessage in a context"
    again = await asking.call(name, "SendMessage", ctx.send_params(context_id=context), sent={context: "CONTEXT"})
    is_kept = read_result(again.result).context_id == context
    asking.note(name, "GW-010", "the answer has the context of the message", is_kept)
    if is_kept and ctx.version != "0.3":
        # A message that arrives twice leaves two tasks.
        name, query = "the tasks of that context as the agent has them", {"contextId": context, "historyLength": 0}
        await asking.call(
            name, "ListTasks", query, sent={context: "CONTEXT"}, rule="GW-008", body="GW-008", asks=asking.direct
        )


async def extended(asking: Asking) -> None:
    """Get the extended card."""
    asking.direct.require("capability extendedAgentCard")
    await asking.call("GetExtendedAgentCard", "GetExtendedAgentCard", {}, rule="GW-005", body="GW-003")


# -- versions, headers, errors --


async def errors(asking: Asking) -> None:
    """Ask for objects that do not exist, in each operation that changes nothing."""
    await asking.unknown(PLAIN, "GetTask")
    # A message whose task is lost on the way begins another one.
    unknown = str(uuid.uuid4())
    name, params = "SendMessage to an unknown task", asking.ctx.send_params(task_id=unknown)
    await asking.call(name, "SendMessage", params, sent={unknown: "UNKNOWN"}, rule="GW-008")
    await asking.unknown("CancelTask of an unknown task", "CancelTask")
    await asking.call("SendMessage without a message", "SendMessage", {})
    if asking.ctx.target.declares("streaming"):
        await asking.unknown("SubscribeToTask of an unknown task", "SubscribeToTask")
    if asking.ctx.target.declares("pushNotifications"):
        for operation in (CREATE, GET, DELETE):
            await asking.unknown(f"{operation} of an unknown task", operation)


async def versions(asking: Asking) -> None:
    """Ask in an unknown version, and in none; ask for extensions."""
    await asking.unknown(PLAIN, "GetTask")
    for words, version in (("in version 99.0", "99.0"), ("without A2A-Version", None)):
        await asking.unknown(f"GetTask {words}", "GetTask", rule="GW-006", version_header=version)
    header = "X-A2A-Extensions" if asking.ctx.version == "0.3" else "A2A-Extensions"
    headers = {header: ", ".join([*asking.ctx.target.extensions, "https://example.org/unknown"])}
    await asking.call(f"SendMessage with {header}", "SendMessage", asking.ctx.send_params(), headers=headers)


async def malformed(asking: Asking) -> None:
    """Send malformed JSON, and a method that does not exist."""
    await asking.call("a request that is not JSON", "SendMessage", {}, raw="{")
    if asking.ctx.binding == "JSONRPC":
        await asking.call("an unknown method", "NoSuchMethod", {})


async def sizes(asking: Asking) -> None:
    """Send large requests and long headers, about an unknown task."""
    ctx = asking.ctx
    if ctx.binding == "GRPC":
        ctx.skip("sizes are compared over HTTP")
    await asking.unknown(PLAIN, "GetTask")
    method = OPERATIONS["CancelTask"].rpc03 if ctx.version == "0.3" else "CancelTask"
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": str(uuid.uuid4())}}
    raw = json.dumps(call if ctx.binding == "JSONRPC" else {}) + " " * _LARGE
    await asking.unknown(f"a request of {_LARGE / 1e6:.1f} MB", "CancelTask", raw=raw, rule="GW-015")
    headers = {"X-Request-Context": "x" * _LONG_HEADER}
    await asking.unknown(f"a header of {_LONG_HEADER} characters", "GetTask", headers=headers, rule="GW-015")


async def credentials(asking: Asking) -> None:
    """Ask without credentials, and with wrong ones."""
    if not asking.direct.target.auth:
        asking.direct.skip("requests carry no credentials")
    for words, auth in strangers(asking.ctx):
        await asking.unknown(f"GetTask {words}", "GetTask", auth=auth)


# -- streams, and what takes its time --


async def stream(asking: Asking) -> None:
    """Read a stream to its end."""
    asking.direct.require("capability streaming")
    params = asking.ctx.send_params()
    sent = {params["message"]["messageId"]: "MESSAGE"}
    await asking.call("SendStreamingMessage", "SendStreamingMessage", params, sent=sent)


async def slow(asking: Asking) -> None:
    """At once wait for a slow answer, read a slow stream to its end, and subscribe to a slow task."""
    ctx, text = asking.ctx, asking.ctx.prompt("slow")

    async def subscribe() -> None:
        begun = await asking.direct.send(text, configuration={"returnImmediately": True})
        task = task_in(begun.result) or {}
        if state_of(task) in RUNNING:
            id, sent = str(task["id"]), {str(task["id"]): "TASK"}
            await ctx.get_task(id)
            reply = await asking.call("SubscribeToTask", "SubscribeToTask", {"id": id}, sent=sent)
            if reply.error is not None and reply.error.name:
                # The agent's refusal, which is right once the task has ended (section 3.1.6).
                if state_of((await asking.direct.get_task(id)).result) not in RUNNING:
                    del asking.seen["SubscribeToTask"]
            # A stream that is refused or cut is over before its task.
            if state_of((await asking.direct.wait_for_task(id)).result) not in RUNNING:
                # A gateway that keeps answers has the one from before.
                await asking.call("GetTask of a task that has ended", "GetTask", {"id": id}, sent=sent)

    waits: list[Awaitable[Any]] = [asking.call("SendMessage of a slow task", "SendMessage", ctx.send_params(text))]
    if ctx.target.declares("streaming"):
        name = "SendStreamingMessage of a slow task"
        waits += [asking.call(name, "SendStreamingMessage", ctx.send_params(text)), subscribe()]
    await asyncio.gather(*waits)


HELD = "held"
"""The step that shows whether events are handed on when they come: :func:`hold`."""
_TRIES = 3


async def hold(direct: Context, through: Context) -> Difference | str | None:
    """Find a stream that the gateway holds back: its first event comes when the task is over, and not before.

    This is judged by the order of events alone: without the gateway the task must outlive its first event for as long
    as five requests through the gateway take, which is more than the event needs on its way, however busy the machine.

    :returns: the difference; or why it cannot be judged; None where events come in time.
    """
    try:
        direct.require("capability streaming")
        for _ in range(2):
            if not (await _first_event(direct, direct, through))[0]:
                return "the agent's tasks are over with their first event; give a prompt for the scenario 'slow'"
        for _ in range(_TRIES):
            comes, reply = await _first_event(through, direct)
            if comes:
                return None
            if kind_of(reply) != "stream" or None in reply.documents:
                return "no event of a stream comes through the gateway"
        if not (await _first_event(direct, direct, through))[0]:
            return "the agent's tasks are over with their first event now and then"
    except (SkipCheck, NoAnswer) as stop:
        return str(stop)
    found = (
        f"the first event of a stream comes through the gateway when the task is over, {_TRIES} times of {_TRIES}; "
        "without it the task still runs then, for longer than five requests through the gateway take"
    )
    return Difference("GW-018", "a stream", found, "each event when the agent sends it", exchanges=(reply.exchange,))


async def _first_event(ctx: Context, direct: Context, gateway: Context | None = None) -> tuple[bool, WireReply]:
    """Open a stream, and return whether its task still runs when its first event has come, and five requests after."""
    text = ctx.target.scenarios.get("slow") or ctx.target.scenarios.get("task")
    reply = await ctx.call("SendStreamingMessage", ctx.send_params(text), until=lambda event: True)
    task = read_event(reply.events[0] if reply.events else None).task_id
    if not task:
        return False, reply
    for _ in range(5 if gateway is not None else 0):
        await (gateway or ctx).get_task(task)
    return state_of((await direct.get_task(task)).result) in RUNNING, reply


# -- push notifications --


async def push(asking: Asking) -> None:
    """Configure a webhook in a message, get the configuration, and wait for deliveries."""
    asking.direct.require("capability pushNotifications")
    ctx, name = asking.ctx, "SendMessage with a webhook"
    async with receiver(asking.direct) as hooks:
        hook = hooks.hook()
        sent = {hook.url: "WEBHOOK"}
        config = {"url": hook.url, "authentication": {"scheme": "Bearer", "credentials": SECRET}}
        params = ctx.send_params(ctx.target.scenarios.get("task"), configuration={"taskPushNotificationConfig": config})
        reply = await asking.call(name, "SendMessage", params, sent=sent)
        task = read_result(reply.result).task_id
        if not task or not (await asking.direct.get_task(task)).ok:
            return
        arrived = await hook.wait(ended, await patience(ctx, reply))
        asking.note(name, "GW-021", "the webhook gets the end of the task", arrived)
        last = hook.deliveries[-1] if hook.deliveries else None
        asking.note(name, "GW-021", "the notification has the credentials", SECRET in str(last and last.headers))
        params = {"taskId": task, "url": NEVER_CALLED, "token": SECRET, "authentication": config["authentication"]}
        made = await asking.call(CREATE, CREATE, params, sent={task: "TASK"}, body="GW-021")
        ids = [str(found["id"]) for found in push_configs(made.result) if found.get("id")]
        if ids:
            # Not through the gateway: what counts is which address the agent will call.
            query = {"taskId": task, "id": ids[0]}
            known = {task: "TASK", ids[0]: "CONFIG"}
            await asking.call(
                "the webhook as the agent has it", GET, query, sent=known, body="GW-021", asks=asking.direct
            )


STEPS: Mapping[str, Callable[[Asking], Awaitable[None]]] = {
    "messages": talk,
    "errors": errors,
    "versions": versions,
    "malformed": malformed,
    "sizes": sizes,
    "credentials": credentials,
    "extended": extended,
    "streams": stream,
    "slow": slow,
    "push": push,
}
"""Exchanges that belong together; a step is skipped where an interface does not have what it needs."""
ROUGH = ("malformed", "sizes", "push")
"""The steps that send malformed or large requests, which an agent in production need not be sent."""
