"""What several checks do alike: start a task, wait for it, and judge an error."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_a2a_bench.conformance.check import Context
from pytest_a2a_bench.conformance.events import INTERRUPTED, TERMINAL, Event, Problem, read_event, read_events, state_of
from pytest_a2a_bench.conformance.wire.reply import ERRORS, Reply

AUTH_STATUSES = (401, 403)
AUTH_GRPC_STATUSES = ("UNAUTHENTICATED", "PERMISSION_DENIED")
POLL_SECONDS = 0.05
WAIT_SECONDS = 15.0
ATTEMPTS = 3
"""How often something that depends on time is tried before an agent is blamed: the machine may have been busy."""
RUNNING = frozenset({"submitted", "working"})

V03_WRAPPERS = ("task", "message", "msg")
"""What is around a 0.3 result in protobuf's JSON: the field is called msg and its JSON name is message."""


def judge(ctx: Context, problems: Sequence[Problem], *replies: Reply, fix: str = "") -> None:
    """Record each problem as a failure."""
    for problem in problems:
        ctx.fail(problem.found, pointer=problem.pointer, expected=problem.expected, fix=fix, replies=replies)


def refused(reply: Reply) -> bool:
    """Tell whether a request was refused for its credentials: an A2A error shows that it was not."""
    error = reply.error
    if error is None:
        return False
    if error.http_status in AUTH_STATUSES or reply.status in AUTH_STATUSES or error.grpc_status in AUTH_GRPC_STATUSES:
        return True
    return reply.exchange.binding == "JSONRPC" and error.code is not None and error.name not in ERRORS


def skip_if_refused(ctx: Context, reply: Reply) -> None:
    """Skip where the agent wants credentials that this interface does not get: nothing was judged then."""
    auth = ctx.target.auth
    if not (auth.headers or auth.query or auth.cookies) and refused(reply):
        ctx.skip(f"the agent wants credentials, and none are sent to {ctx.target.url}")


def expect_error(ctx: Context, reply: Reply, name: str, what: str) -> None:
    """Record a failure unless a call was refused with a certain error of the specification."""
    skip_if_refused(ctx, reply)
    if reply.error is None:
        ctx.fail(f"{what}: {reply.describe()}", expected=name, replies=(reply,))
    elif not reply.error.may_be(name):
        ctx.fail(f"{what}: {reply.error}", expected=name, replies=(reply,))


def expect_refused(ctx: Context, reply: Reply, what: str, expected: str = "an error") -> None:
    """Record a failure unless a call was refused with whatever error of the client's."""
    if reply.error is None:
        ctx.fail(f"{what}: {reply.describe()}", expected=expected, replies=(reply,))
    elif is_internal(reply):
        ctx.fail(f"{what}: the server failed instead of refusing: {reply.error}", expected=expected, replies=(reply,))


def is_internal(reply: Reply) -> bool:
    """Tell whether an error says that the server broke down."""
    error = reply.error
    if error is None:
        return False
    broken = error.name == "InternalError" or error.grpc_status in ("INTERNAL", "UNKNOWN")
    return broken or (error.code is None and (error.http_status or 0) >= 500)


def usable(ctx: Context, reply: Reply, what: str) -> Reply:
    """Return a reply that has a result; otherwise skip, for another check judges that."""
    if not reply.ok:
        ctx.skip(f"{what} did not work: {reply.describe()}")
    return reply


def followed(ctx: Context, reply: Reply, what: str) -> list[Event]:
    """Return the events of a stream, whether or not it ended; skip where there is none."""
    if not reply.events:
        ctx.skip(f"{what} did not work: {reply.describe()}")
    return read_events(reply.events)


def sent(reply: Reply) -> Event:
    """Return the Task or Message that sending a message gave."""
    return read_event(reply.result)


def task_of(ctx: Context, reply: Reply, what: str) -> Mapping[str, Any]:
    """Return the Task in the reply to a message; skip where the agent answered with a Message."""
    event = sent(usable(ctx, reply, what))
    if event.kind != "task" or not event.task_id:
        ctx.skip(f"{what}: the agent answers with a {event.kind or 'result of no known kind'}, not with a Task")
    return event.body


async def send(ctx: Context, text: str, *, configuration: Mapping[str, Any] | None = None, **message: Any) -> Reply:
    """Send one text message; ``message`` adds members such as ``taskId``."""
    return await ctx.call("SendMessage", ctx.send_params(text, configuration=configuration, **message))


async def stream(ctx: Context, text: str, *, timeout: float | None = None, **message: Any) -> Reply:
    """Send one text message and read the stream."""
    return await ctx.call("SendStreamingMessage", ctx.send_params(text, **message), timeout=timeout)


async def start(ctx: Context, text: str, **configuration: Any) -> Mapping[str, Any]:
    """Start a task that runs on, and return it; skip where it is over at once."""
    reply = await send(ctx, text, configuration={"returnImmediately": True, **configuration})
    task = task_of(ctx, reply, "starting a slow task")
    if state_of(task) in TERMINAL | INTERRUPTED:
        ctx.skip(f"the task of the slow scenario was {state_of(task)} at once, so nothing could be watched")
    return task


async def get(ctx: Context, task_id: str, **params: Any) -> Reply:
    """Ask for a task."""
    return await ctx.call("GetTask", {"id": task_id, **params})


async def settled(ctx: Context, task_id: str, *, seconds: float = WAIT_SECONDS) -> Reply:
    """Ask for a task until it is terminal or waits for the user, or the time is up; return the last answer."""
    until = time.monotonic() + seconds
    while True:
        reply = await get(ctx, task_id)
        # A state that is none of the protocol's will not become one by waiting.
        if not reply.ok or state_of(reply.result) not in RUNNING or time.monotonic() > until:
            return reply
        await asyncio.sleep(POLL_SECONDS)


async def slow_seconds(ctx: Context) -> float:
    """Return how long the agent takes for the scenario slow; measured once."""
    text = ctx.prompt("slow")
    reply = await ctx.shared("slow", lambda: send(ctx, text))
    return usable(ctx, reply, "the scenario slow").exchange.seconds


def has_prompt(ctx: Context, key: str) -> bool:
    """Tell whether there is a prompt for a scenario."""
    return ctx.target.scenarios.get(key) is not None
