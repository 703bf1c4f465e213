"""SendMessage: its result, when it comes and how long its history is; invalid messages are refused."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from pytest_a2a_bench.a2a.bodies import as_list, as_object
from pytest_a2a_bench.a2a.codec import SETTLED
from pytest_a2a_bench.conformance import fixtures
from pytest_a2a_bench.conformance.card.rules import MEDIA_TYPE
from pytest_a2a_bench.conformance.checks.data_model import objects
from pytest_a2a_bench.conformance.checks.list_tasks import in_one_context
from pytest_a2a_bench.conformance.checks.tasks import answered, artifacts_are_kept, history_of, judge_history
from pytest_a2a_bench.conformance.context import WAIT_SECONDS, Context, shared
from pytest_a2a_bench.conformance.fixtures import reply_in, waiting_task
from pytest_a2a_bench.conformance.protocol.payloads import (
    V03_WRAPPERS,
    message_in,
    nodes,
    spelled_state,
    state_of,
    task_in,
)
from pytest_a2a_bench.conformance.protocol.streams import canonical, read_event
from pytest_a2a_bench.conformance.wire.reply import NoAnswer, SkipCheck, WireReply

# A task whose answer was taken begins with it soon.
_GOES_ON_SECONDS = 3.0
# What takes no longer may be over before an answer can be given that it goes on; on a busy machine, no longer than this
# share of what is allowed there.
_TELLING_SECONDS = 0.1
_TELLING_SHARE = 0.3
# Each mode costs a message of its own.
_MODES = 3


async def ordinary(ctx: Context) -> WireReply:
    """Return the answer to an ordinary message, or the one with a task in the variant's state."""
    with _open_calls_are_found(ctx):
        return await reply_in(ctx, ctx.state)


@contextlib.contextmanager
def _open_calls_are_found(ctx: Context) -> Iterator[None]:
    """Report a blocking call that stays open while the task waits, where its requirement is judged (SEND-002)."""
    try:
        yield
    except fixtures.StillOpen as still:
        if ctx.requirement.id == "SEND-002":
            ctx.fail(str(still).partition(", which")[0], still.reply)
        raise


async def ordinary_task(ctx: Context) -> tuple[WireReply, Mapping[str, Any]]:
    """Return the ordinary answer and its task; skip where the agent answers with a message."""
    reply = await ordinary(ctx)
    return reply, ctx.task_of(reply, "SendMessage")


async def one_of_task_and_message(ctx: Context) -> None:
    """Look at the members of an ordinary result; over 0.3's JSON-RPC it is the Task or Message itself."""
    reply = ctx.needed(await ordinary(ctx), "SendMessage")
    result = as_object(reply.result)
    if ctx.version == "0.3" and ctx.binding == "JSONRPC":
        is_one = result.get("kind") in ("task", "message")
    else:
        # Exactly one of both; members of extensions beside them are allowed.
        is_one = sum(name in result for name in (V03_WRAPPERS if ctx.version == "0.3" else ("task", "message"))) == 1
    if not is_one:
        ctx.fail(f"the result has the members {sorted(result)[:8]}", reply, pointer="/result")


async def blocking_by_default(ctx: Context) -> None:
    """Look at the state of an ordinary task."""
    _expect_settled(ctx, *await ordinary_task(ctx))


def _expect_settled(ctx: Context, reply: WireReply, task: Mapping[str, Any]) -> None:
    if state_of(task) not in SETTLED:
        ctx.fail(f"the task is returned in state {spelled_state(task)!r}", reply, pointer="/task/status/state")


async def slow_is_waited_for(ctx: Context) -> None:
    """Look at the state of a task that takes its time, where there is a prompt for one."""
    text = ctx.prompt("slow" if ctx.has_prompt("slow") else "task")
    reply = await ctx.shared("slow", lambda: ctx.send(text))
    _expect_settled(ctx, reply, ctx.task_of(reply, "a message whose task takes its time"))


async def blocking_result_is_complete(ctx: Context) -> None:
    """Compare the task that came back with GetTask."""
    reply, task = await ordinary_task(ctx)
    if state_of(task) not in SETTLED:
        # That an agent answers early is a finding of SEND-002.
        # What such a task still becomes is a matter of time.
        ctx.skip("the agent answers before the task is over, which SEND-002 judges")
    later = ctx.needed(await ctx.call("GetTask", {"id": task.get("id")}), "GetTask")
    # Whole members: what is equal needs no reason.
    for name in ("status", "artifacts"):
        if task.get(name) != later.result.get(name):
            here, there = (json.dumps(t.get(name), ensure_ascii=False) for t in (task, later.result))
            found = f"{name} is {here:.150} in the reply and {there:.150} in GetTask"
            ctx.fail(found, reply, later, pointer=f"/task/{name}")


@shared
async def started(ctx: Context) -> WireReply:
    """Return the answer to a slow message with returnImmediately."""
    return await ctx.send(ctx.prompt("slow"), configuration={"returnImmediately": True})


async def return_immediately(ctx: Context) -> None:
    """Start a slow task and look at its state."""
    reply = await started(ctx)
    task = ctx.task_of(reply, "SendMessage with returnImmediately")
    if state_of(task) in SETTLED:
        if (took := reply.exchange.seconds) < max(_TELLING_SECONDS, _TELLING_SHARE * await ctx.allow(0.0)):
            ctx.skip(f"the task of the scenario slow was over after {took:.2f} s: too short to tell")
        found = f"after {took:.2f} s the task is returned in state {spelled_state(task)!r}"
        ctx.fail(found, reply, pointer="/task/status/state")


async def early_task_can_be_followed(ctx: Context) -> None:
    """Poll a slow task until it ends."""
    reply = await started(ctx)
    task = ctx.task_of(reply, "SendMessage with returnImmediately")
    later = ctx.needed(await ctx.wait_for_task(str(task.get("id"))), "GetTask")
    if state_of(later.result) not in SETTLED:
        ctx.fail(f"the task has not ended after {WAIT_SECONDS:g} s", reply, later)


async def return_immediately_and_messages(ctx: Context) -> None:
    """Ask for a direct message with returnImmediately."""
    _, reply = await _message_again(ctx)
    if message_in(ctx.needed(reply, "SendMessage with returnImmediately").result) is None:
        ctx.fail("with returnImmediately the answer is no longer a message", reply)


async def _message_again(ctx: Context) -> tuple[Mapping[str, Any], WireReply]:
    """Return a direct message, and the answer to another one in its context that is not waited for."""
    # Makes sure that the agent answers this prompt with a message at all.
    first = await fixtures.message_reply(ctx)
    options = {"context_id": str(first.get("contextId") or ""), "configuration": {"returnImmediately": True}}
    text = ctx.target.scenarios.get("message")
    return first, await ctx.plain().shared("message again", lambda: ctx.plain().send(text, **options))


async def history_length(ctx: Context) -> None:
    """Ask for no history, or for one message: of two the later one, where there is a prompt for a task of two."""
    most = 0 if ctx.requirement.id == "SEND-010" else 1
    if ctx.variant.operation:
        _, reply = await _in_own_context(ctx, "")
        if any(history_of(task_in(event)) for event in reply.events):
            ctx.fail("historyLength 0 gives messages in a Task of the stream", reply, pointer="/task/history")
        return
    is_of_two = most == 1 and ctx.has_prompt("input")
    configuration = {"historyLength": most}
    said: tuple[str, ...] = ()
    if is_of_two:
        reply, said = await answered(ctx, configuration=configuration)
    else:
        reply = await ctx.send(configuration=configuration)
    task = ctx.task_of(reply, "SendMessage with historyLength")
    # One that goes on has more a moment later.
    is_settled = state_of(task) in SETTLED
    if not most and is_settled:
        await artifacts_are_kept(ctx, reply, task)
    if history_of(task):
        later = await ctx.get_task(str(task.get("id"))) if is_settled else reply
        whole = ctx.needed(later, "GetTask", "GET-001")
        judge_history(ctx, reply, task, whole, most, said)


async def accepted_output_modes(ctx: Context) -> None:
    """Ask for each declared output mode alone; an agent need not have every one for every question.

    So the finding is that the result is the same whatever is asked for, or not in the first and preferred mode.
    """
    every = as_list(ctx.target.card.get("defaultOutputModes"))
    # What is no media type cannot come back as one; that it stands in the card is CARD-021's to say.
    modes = [m for m in every if isinstance(m, str) and "*" not in m and MEDIA_TYPE.match(m)]
    if not modes:
        ctx.skip("the card declares no output mode that is a media type, which could be asked for")
    got: dict[str, frozenset[str]] = {}
    for mode in modes[:_MODES]:
        reply = await ctx.send(configuration={"acceptedOutputModes": [mode]})
        # Refusing one mode for one question is allowed.
        if not reply.ok:
            continue
        got[mode] = _media_types(reply)
    if not got:
        found = f"no result for any output mode that the card declares ({', '.join(modes[:_MODES])})"
        ctx.fail(f"{found}: {ctx.replies[-1].describe()}", *ctx.replies[-len(modes[:_MODES]) :], expected="a result")
        return
    kinds = set(got.values())
    # The same whatever was asked for: the parameter is not read.
    if len(got) > 1 and len(kinds) == 1 and any(kinds):
        found = f"asked for {' and '.join(got)} in turn, always got {', '.join(sorted(kinds.pop()))}"
        ctx.fail(found, *ctx.replies[-len(modes[:_MODES]) :], pointer="/task/artifacts")
    elif got.get(modes[0]) and modes[0] not in got[modes[0]]:
        found = f"asked for {modes[0]!r}, got {', '.join(sorted(got[modes[0]]))}"
        ctx.fail(found, *ctx.replies[:1], pointer="/task/artifacts")


def _media_types(reply: WireReply) -> frozenset[str]:
    """Return the media types of the artifacts' parts; a part without one is left out."""
    found = (n.value.get("mediaType") for n in nodes(reply.result) if n.kind == "part" and n.owner == "artifact")
    return frozenset(str(m).partition(";")[0].strip() for m in found if m)


async def message_has_context(ctx: Context) -> None:
    """Look at direct messages."""
    await fixtures.message_reply(ctx)
    for reply, message in await objects(ctx, "message"):
        if message.owner == "response" and not message.value.get("contextId"):
            found = "the message has no contextId; a warning: §3.4.1 leaves it to the agent, the proto file does not"
            ctx.warn(found, reply, pointer=f"{message.pointer}/contextId")
            return


async def repeated_message_id(ctx: Context) -> None:
    """Send the same message twice."""
    params = ctx.send_params()
    first, second = await ctx.call("SendMessage", params), await ctx.call("SendMessage", params)
    # The same messageId promises nothing (a2a-sdk 1.3.0 runs it twice), but it must not break the agent.
    for reply in (first, second):
        broken = reply.problem or reply.may_be("InternalError")
        if broken or (reply.ok and task_in(reply.result) is None and message_in(reply.result) is None):
            ctx.fail(f"a repeated messageId: {reply.describe()}", first, second)
            return


# -- contexts, follow-up messages, and tasks that wait for the user --


async def generated_context_is_returned(ctx: Context) -> None:
    """The response has the contextId that the agent made, if it made one, which is up to it (section 3.4.1)."""
    ways = [("", await ctx.said(ctx.prompt("default")))]
    if ctx.has_prompt("slow") and not ctx.variant.operation:
        ways.append(("with returnImmediately ", await started(ctx)))
    for way, reply in ways:
        event = ctx.event_of(reply, "sending a message")
        if event.context_id:
            continue
        evidence = [reply, *([await ctx.get_task(event.task_id)] if event.kind == "task" else ())]
        inside = (node.value for one in evidence for value in (one.result, *one.events) for node in nodes(value))
        if made := next((value["contextId"] for value in inside if value.get("contextId")), None):
            expected = f"the contextId that the agent made, {made!r}"
            found = f"{way}the response has no contextId"
            ctx.fail(found, *evidence, pointer=f"/{event.kind}/contextId", expected=expected)
            return


async def given_context_is_kept(ctx: Context) -> None:
    """A client's contextId is kept, or refused, never replaced."""
    for way in ("",) if ctx.variant.operation else ("", "returnImmediately"):
        wanted, reply = await _in_own_context(ctx, way)
        # Refusing ids that clients make up is allowed (section 3.4.1); replacing them silently is not.
        if reply.error is not None and not reply.is_internal_error:
            break
        event = ctx.event_of(reply, "sending a message with a contextId")
        if event.context_id != wanted:
            # A Message may be in the context without naming it, and whether it must is contradictory (SEND-013).
            tell = ctx.fail if event.context_id or event.kind == "task" else ctx.warn
            tell(f"contextId {wanted!r} became {event.context_id!r}", reply, pointer=f"/{event.kind}/contextId")
            return
    with contextlib.suppress(SkipCheck, NoAnswer):
        message, reply = await _message_again(ctx)
        event = read_event(reply.result)
        if event.kind == "message" and message.get("contextId") and event.context_id != message["contextId"]:
            found = f"a Message in context {message['contextId']!r} is answered with one in {event.context_id!r}"
            ctx.fail(found, reply, pointer="/message/contextId")


@shared
async def _in_own_context(ctx: Context, way: str) -> tuple[str, WireReply]:
    """Return a contextId of the client's own, and the answer to a message in it.

    :param way: a member of the configuration that is true; in streams, which know no such way, there is none, and the
        same message asks for no history.
    """
    # A random one: an id that is in use would be another check's context.
    wanted = str(uuid.uuid4())
    configuration = {"historyLength": 0} if ctx.variant.operation else {way: True} if way else None
    return wanted, await ctx.send(ctx.prompt("default"), contextId=wanted, configuration=configuration)


async def task_ids_are_unique(ctx: Context) -> None:
    """Each new task has an id of its own."""
    # In one context, where there is one: an id that was made of the context's would be the same.
    made, _ = await in_one_context(ctx)
    ids = [task.get("id") for _, task in made]
    if len(set(ids)) != len(ids):
        ctx.fail(f"{len(ids)} messages gave tasks {ids}", *(reply for reply, _ in made), pointer="/task/id")


async def context_is_inferred(ctx: Context) -> None:
    """The contextId is inferred from the taskId."""
    task = await waiting_task(ctx)
    reply = await ctx.send(ctx.prompt("input_answer"), taskId=task["id"])
    event = ctx.event_of(reply, "a follow-up with taskId only")
    if event.context_id != (task.get("contextId") or ""):
        found = f"the follow-up is in context {event.context_id!r}, its task in {task.get('contextId')!r}"
        ctx.fail(found, reply, pointer=f"/{event.kind}/contextId", expected="the task's contextId")


async def waiting_task_goes_on(ctx: Context) -> None:
    """A follow-up continues the waiting task, with the same ids."""
    task, reply = await _followed_up(ctx)
    ids = {"taskId": task["id"], "contextId": str(task.get("contextId") or "")}
    event = ctx.event_of(reply, "the follow-up")
    # Where the task has no contextId, its id alone tells.
    if (event.task_id, event.context_id if ids["contextId"] else "") != tuple(ids.values()):
        found = f"the follow-up is task {event.task_id!r} in context {event.context_id!r}"
        expected = f"task {ids['taskId']!r} in context {ids['contextId']!r}"
        ctx.fail(found, reply, pointer=f"/{event.kind}", expected=expected)
    elif _is_as_before(task, event.body):
        later = await _gone_on(ctx, task)
        if later is not None:
            ctx.skip(f"the task went on, to {state_of(later.result)}, and was not waited for, which SEND-002 judges")
        ctx.fail("the answer left the task's status as it was", reply, pointer="/task/status", expected="a new status")


@shared
async def _followed_up(ctx: Context) -> tuple[Mapping[str, Any], WireReply]:
    """Return a task that waits for the user, and the reply to its answer."""
    text = ctx.prompt("input_answer")
    task = await waiting_task(ctx)
    return task, await ctx.send(text, task_id=task["id"], context_id=str(task.get("contextId") or ""))


def _is_as_before(before: Any, after: Any) -> bool:
    # Without a time or a message two questions look the same.
    one, other = (as_object(as_object(task).get("status")) for task in (before, after))
    return len(one) > 1 and canonical(one) == canonical(other)


async def _gone_on(ctx: Context, task: Mapping[str, Any]) -> WireReply | None:
    """Return the answer to GetTask once the status of a task is another; None where it stays."""
    later = await ctx.wait_for_task(str(task["id"]), partial(_is_as_before, task), seconds=_GOES_ON_SECONDS)
    return later if later.ok and not _is_as_before(task, later.result) else None


async def follow_up_is_waited_for(ctx: Context) -> None:
    """The reply to a follow-up has a later status than the question, as it is waited for, too."""
    if ctx.state:
        ctx.skip("follow-ups are looked at once")
    with _open_calls_are_found(ctx):
        task, reply = await _followed_up(ctx)
    if _is_as_before(task, task_in(reply.result)) and (later := await _gone_on(ctx, task)) is not None:
        found = f"the follow-up gives the status from before it, and the task goes on, to {state_of(later.result)}"
        ctx.fail(found, reply, later, pointer="/task/status")


async def context_alone_starts_a_task(ctx: Context) -> None:
    """A contextId without a taskId starts a new task in that context."""
    task = await fixtures.completed_task(ctx)
    if not task.get("contextId"):
        ctx.skip("the agent gives no contextId")
    reply = await ctx.send(ctx.prompt("task"), contextId=task["contextId"])
    event = ctx.event_of(reply, "a message in a known context")
    if event.context_id != task.get("contextId"):
        found = f"the new task is in context {event.context_id!r}"
        ctx.fail(found, reply, pointer=f"/{event.kind}/contextId", expected=f"context {task.get('contextId')!r}")
    if event.kind == "task" and event.task_id == task["id"]:
        ctx.fail("a task that was there was used again", reply, pointer="/task/id", expected="a new task")


async def authorization_is_explained(ctx: Context) -> None:
    """AUTH_REQUIRED comes on a Task, with a message that explains it."""
    task = await waiting_task(ctx, "auth", "auth-required")
    reply = await ctx.get_task(str(task["id"]))
    if not as_object(as_object(task.get("status")).get("message")).get("parts"):
        expected = "a message in the status that says which authorization is needed"
        ctx.fail("status has no message", reply, pointer="/status/message", expected=expected)


async def messages_are_accepted_meanwhile(ctx: Context) -> None:
    """A task that waits for authorization accepts messages."""
    task = await waiting_task(ctx, "auth", "auth-required")
    reply = await ctx.send(ctx.prompt("default"), task_id=task["id"], context_id=str(task.get("contextId") or ""))
    ctx.needed(reply, "a message to a task that waits for authorization")
