"""SendStreamingMessage: the shape, order and end of streams."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.a2a.bodies import as_object
from pytest_a2a_bench.a2a.codec import INTERRUPTED, TERMINAL
from pytest_a2a_bench.conformance.checks.binding import is_missing
from pytest_a2a_bench.conformance.context import ATTEMPTS, Context, shared
from pytest_a2a_bench.conformance.fixtures import stream_in, task_of
from pytest_a2a_bench.conformance.protocol.payloads import RUNNING, parse_timestamp, state_of, task_in
from pytest_a2a_bench.conformance.protocol.streams import (
    Problem,
    StreamEvent,
    artifacts_of,
    canonical,
    differences,
    first_event,
    ids_agree,
    is_suffix,
    nothing_after_terminal,
    one_member,
    order_of_kinds,
    read_event,
    read_events,
    rebuild,
    updates,
)
from pytest_a2a_bench.conformance.wire.exchange import MORE_TIME, is_late
from pytest_a2a_bench.conformance.wire.reply import WireReply
from pytest_a2a_bench.text import one_line

END_SECONDS = 1.0
"""How long a stream may stay open after its terminal event."""
_STAGE_SECONDS = 0.1
_LATER_SECONDS = 1.0
# Of a task, seen by GetTask while its stream is silent: the event of the second had a whole step to arrive.
_STAGES = 3


async def readable(ctx: Context) -> tuple[WireReply, list[StreamEvent]]:
    """Return the ordinary stream and its events; skip where there is none."""
    reply = await stream_in(ctx, ctx.state)
    return reply, ctx.events_of(reply, "the stream", "V03-STREAM-001" if ctx.version == "0.3" else "STREAM-001")


async def chunked(ctx: Context) -> tuple[WireReply, list[StreamEvent]]:
    """Return the stream of the scenario ``chunks``."""
    text = ctx.prompt("chunks")
    reply = await ctx.shared("stream-chunks", lambda: ctx.stream(text))
    return reply, ctx.events_of(reply, "the stream of the scenario chunks")


async def answers_with_a_stream(ctx: Context) -> None:
    """A stream is text/event-stream, or a gRPC stream."""
    reply = await stream_in(ctx, ctx.state)
    if not reply.events and not (reply.problem and reply.status == 200 and reply.content_type):
        ctx.fail(f"no stream: {reply.describe()}", reply, expected="a stream of events")
        return
    _has_media_type(ctx, reply)
    if None in reply.documents:
        number = reply.documents.index(None)
        text = one_line("".join(reply.exchange.events[number : number + 1]), 60)
        ctx.fail(f"event {number} is not JSON: {text!r}", reply, pointer=f"/{number}", expected="JSON in each event")


def _has_media_type(ctx: Context, reply: WireReply) -> None:
    if ctx.binding != "GRPC" and reply.content_type != "text/event-stream":
        ctx.fail(f"Content-Type is {reply.content_type or 'missing'!r}", reply, expected="text/event-stream")


RULES: Mapping[str, Callable[[Sequence[Any]], list[Problem]]] = {
    "STREAM-002": first_event,
    "STREAM-004": order_of_kinds,
    "STREAM-007": one_member,
    "STREAM-008": ids_agree,
    "STREAM-015": nothing_after_terminal,
    "V03-STREAM-005": ids_agree,
}


async def events_keep_a_rule(ctx: Context) -> None:
    """Look at the events of the ordinary stream."""
    reply, _ = await readable(ctx)
    ctx.report_problems(RULES[ctx.requirement.id](reply.events), reply)


async def message_stream_is_one_event(ctx: Context) -> None:
    """A Message stands alone in its stream."""
    text = ctx.prompt("message")
    reply = await ctx.shared("stream-message", lambda: ctx.stream(text))
    events = ctx.events_of(reply, "the stream of the scenario message")
    if events[0].kind != "message":
        ctx.skip(f"the scenario message gives a {events[0].kind or 'stream of no known kind'}, not a Message")
    ctx.report_problems(order_of_kinds(reply.events), reply)
    await _ends_in_time(ctx, reply, "the Message")


async def ends_with_the_task(ctx: Context) -> None:
    """The stream ends at the terminal state, not before and not long after."""
    reply, events = await readable(ctx)
    if events[0].kind == "message":
        # A Message ends its stream by itself, which STREAM-003 judges.
        return
    last = next((event.state for event in reversed(events) if event.state), "")
    if last in TERMINAL:
        await _ends_in_time(ctx, reply, f"the state {last}")
    elif not reply.ended and last in RUNNING | INTERRUPTED:
        # The time limit is ours: that a task is slow is no defect.
        if not ctx.state and last in RUNNING:
            await _says_the_end(ctx, _task_id(ctx, events))
        ctx.skip(f"the task was still {last} when the time was up")
    # Waiting for the user is the other state in which a stream may end (section 11.7).
    elif last not in INTERRUPTED:
        ctx.fail(
            f"the stream {'ended' if reply.ended else 'stayed open'} while the task was {last or 'without any state'}",
            reply,
        )


async def _says_the_end(ctx: Context, task_id: str) -> None:
    """Find a stream that stays open without the end of its task, which GetTask knows."""
    if state_of((await ctx.get_task(task_id)).result) not in TERMINAL:
        return
    # That one may have ended just now: another one is asked for while its stream is open.
    began, seconds = time.monotonic(), ctx.target.timeout + await ctx.allow(4 * END_SECONDS)
    watching, named = await _following(ctx, ctx.send_params(), seconds, lambda event: bool(event.task_id))
    stored = await ctx.wait_for_task(named[0]) if named else await watching
    over = time.monotonic() - began
    reply, state = await watching, state_of(stored.result)
    is_left = not reply.ended and reply.exchange.seconds >= over + END_SECONDS
    if is_left and state in TERMINAL and rebuild(read_events(reply.events)).state != state:
        ctx.fail(f"GetTask says {state}, and the stream, still open, never said so", reply, stored)


async def _following(
    ctx: Context, params: dict[str, Any], seconds: float, wanted: Callable[[StreamEvent], bool]
) -> tuple[asyncio.Future[WireReply], list[str]]:
    """Send a message with a stream, and return while that is open: with the tasks of the wanted events."""
    named: list[str] = []
    found = asyncio.Event()

    def look(event: Any) -> None:
        if wanted(read := read_event(event)):
            named.append(read.task_id)
            found.set()

    watching = asyncio.ensure_future(ctx.call("SendStreamingMessage", params, on_event=look, timeout=seconds))
    watching.add_done_callback(lambda _: found.set())
    await found.wait()
    return watching, named


async def _ends_in_time(ctx: Context, reply: WireReply, end: str) -> None:
    # From the last event on: how long the task took does not matter.
    waited = _open_after(reply)
    if waited > await ctx.allow(END_SECONDS) or is_late(reply.exchange):
        found = f"the stream stayed open for {waited:.1f} s after {end}"
        ctx.fail(found, reply, expected="the end of the stream at the terminal state")
    elif reply.problem:
        ctx.fail(f"after {end}: {reply.problem}", reply, expected="the end of the stream at the terminal state")
    elif not reply.ended:
        ctx.skip(f"agent or machine are too busy to tell how long a stream is open after {end}")


async def ends_after_the_answer(ctx: Context) -> None:
    """A stream that is still open while the task waits for the user ends with the task."""
    params = ctx.send_params(ctx.prompt("input"))
    started = time.monotonic()
    seconds = await ctx.allow(4 * END_SECONDS)
    watching, named = await _following(ctx, params, seconds, lambda event: event.state == "input-required")
    # Section 11.7 closes streams here, 3.1.2 and 3.1.6 with the task: either is right.
    await asyncio.wait({watching}, timeout=END_SECONDS)
    if not named:
        ctx.events_of(await watching, "the stream of the scenario input")
        ctx.skip("the scenario input did not bring the task to TASK_STATE_INPUT_REQUIRED in a stream")
    if watching.done():
        return
    answer = ctx.target.scenarios.get("input_answer") or "yes"
    task = ctx.task_of(await ctx.send(answer, task_id=named[0]), "answering the agent's question", "MT-006")
    over = time.monotonic() - started
    reply = await watching
    if state_of(task) not in TERMINAL or (not reply.ended and reply.exchange.seconds < over + END_SECONDS):
        ctx.skip(f"the task is {state_of(task) or 'without state'} after the answer, or was so too late to tell")
    if not reply.ended:
        found = f"the stream was still open {reply.exchange.seconds - over:.1f} s after the task was {state_of(task)}"
        ctx.fail(found, reply)


def _open_after(reply: WireReply) -> float:
    """Return how many seconds a stream was open after its last event."""
    return reply.exchange.seconds - (reply.times[-1] if reply.times else reply.exchange.seconds)


async def events_are_rpc_responses(ctx: Context) -> None:
    """Each event is a JSON-RPC response to the request."""
    if ctx.binding != "JSONRPC":
        return
    reply = await stream_in(ctx, ctx.state)
    if not reply.documents and ctx.version != "0.3":  # whose rule says so already
        await readable(ctx)  # which says why there is no stream
    sent_id = reply.rpc_id
    for number, document in enumerate(reply.documents):
        if document is None:
            continue  # answers_with_a_stream says so
        envelope = as_object(document)
        wrong = [
            f"{name} is {json.dumps(envelope.get(name))}"
            for name, wanted in (("jsonrpc", "2.0"), ("id", sent_id))
            # 1 and true are equal in Python.
            if envelope.get(name) != wanted or type(envelope.get(name)) is not type(wanted)
        ]
        if wrong:
            expected = f'jsonrpc "2.0" and id {json.dumps(sent_id)} in each event'
            ctx.fail(f"event {number}: {', '.join(wrong)}", reply, pointer=f"/{number}", expected=expected)


async def events_are_bare(ctx: Context) -> None:
    """HTTP+JSON events have no envelope."""
    reply, _ = await readable(ctx)
    for number, document in enumerate(reply.documents):
        if isinstance(document, Mapping) and ("jsonrpc" in document or "result" in document):
            ctx.fail(f"event {number} is wrapped in {sorted(document)}", reply, pointer=f"/{number}")


async def chunks_keep_their_order(ctx: Context) -> None:
    """Chunks that are put together are the stored artifact."""
    reply, events = await chunked(ctx)
    stored = ctx.needed(await ctx.get_task(_task_id(ctx, events)), "GetTask", "GET-001")
    # Only artifacts: STREAM-016 compares states.
    problems = [p for p in differences(rebuild(events), stored.result) if p.pointer.startswith("/artifacts")]
    ctx.report_problems(problems, reply, stored)


def _task_id(ctx: Context, events: Sequence[StreamEvent]) -> str:
    if not events or not events[0].task_id or events[0].kind != "task":
        ctx.skip("the stream does not start with a Task")
    return events[0].task_id


async def feedback_is_immediate(ctx: Context) -> None:
    """The first event comes before the work is done, and updates come while GetTask shows that it goes on."""
    params = ctx.send_params(ctx.prompt("slow"))
    watching, came = await _following(ctx, params, ctx.target.timeout, lambda event: bool(event.task_id))
    stages: set[str] = set()
    while len(came) == 1 and not watching.done():
        stored = await ctx.get_task(came[0])
        if not stored.ok or len(came) > 1 or state_of(stored.result) in TERMINAL:
            break
        # A stage that is counted was reached before the second event: no clock decides.
        stages.add(canonical({name: as_object(stored.result).get(name) for name in ("status", "artifacts")}))
        await asyncio.sleep(_STAGE_SECONDS)
    over = await ctx.get_task(came[0]) if len(stages) >= _STAGES else None
    reply = await watching
    ctx.events_of(reply, "the stream of the scenario slow")
    fix = "send each event at once; the header X-Accel-Buffering: no keeps a proxy from buffering them"
    # An agent may gather small steps into one event; here each stage had one, and all were late.
    if over is not None and state_of(over.result) in TERMINAL and len(stages) < len(reply.events):
        found = f"GetTask showed {len(stages)} stages of the task before the second event, which came at its end"
        ctx.fail(found, reply, over, fix=fix)
        return
    # Below this a delay may be the machine's own.
    if reply.times[-1] < 0.2:
        ctx.skip(f"the scenario slow took {reply.times[-1]:.2f} s: too short to tell")
    if reply.times[0] > reply.times[-1] / 2 + ctx.session.pace.slowest:
        ctx.fail(f"the first event came after {reply.times[0]:.2f} s of {reply.times[-1]:.2f} s", reply, fix=fix)


async def streamed_equals_stored(ctx: Context) -> None:
    """GetTask returns the task that was streamed."""
    reply, events = await readable(ctx)
    if not reply.ended and rebuild(events).state in RUNNING:
        ctx.skip("the stream did not end in time, which STREAM-005 judges")
    stored = ctx.needed(await ctx.get_task(_task_id(ctx, events)), "GetTask", "GET-001")
    ctx.report_problems(differences(rebuild(events), stored.result), reply, stored)


async def task_outlives_its_stream(ctx: Context) -> None:
    """Closing the stream does not stop the task."""
    text = ctx.prompt("slow")
    params = ctx.send_params(text)
    # The connection is closed after the first event, while the task works.
    # Closing the connection is what a browser does whose tab is closed.
    reply = await ctx.call("SendStreamingMessage", params, until=lambda event: True)
    events = ctx.events_of(reply, "the stream of the scenario slow")
    if any(event.state in TERMINAL for event in events):
        ctx.skip("the task of the scenario slow was over at once")
    task_id = _task_id(ctx, events)
    stored = await ctx.wait_for_task(task_id)
    ended = rebuild(read_events([{"task": stored.result}])).state if stored.ok else ""
    if ended != "completed":
        whole = await ctx.shared("slow", lambda: ctx.send(text))
        if ended and ended == state_of(task_in(whole.result)):
            ctx.skip(f"the scenario slow leads to {ended}, also where no stream is closed")
        ctx.fail(f"after its stream was closed the task is {ended or stored.describe()}", reply, stored)


async def chunk_marks_agree(ctx: Context) -> None:
    """The marks append and lastChunk make sense."""
    reply, events = await chunked(ctx)
    built = rebuild(events)
    ctx.report_problems(built.problems, reply)
    for name in sorted(built.appended - built.closed):
        # A warning: a client that reads the stream to its end loses nothing.
        ctx.warn(
            f"artifact {name!r} came in chunks, none of which has lastChunk",
            reply,
            expected="lastChunk true in the last chunk, so that a client knows that the artifact is whole",
        )


# -- subscribetotask, and several streams of one task --


@dataclass(frozen=True)
class Watched:
    """One slow task, watched by two streams to its end, by a third that was closed early, and by a later one.

    :param known: the task from GetTask before the later stream was opened.
    :param over: seconds after the first streams were opened at which GetTask had said the end of the task.
    """

    task_id: str
    one: WireReply
    other: WireReply
    known: WireReply
    later: WireReply
    stored: WireReply
    over: float


@shared
async def watched(ctx: Context) -> Watched:
    """Watch a slow task."""
    text = ctx.prompt("slow")
    for _ in range(ATTEMPTS):
        task_id = str((await ctx.start_task(text))["id"])
        params, progress, began = {"id": task_id}, asyncio.Event(), time.monotonic()

        def look(event: Any, progress: asyncio.Event = progress) -> None:
            if read_event(event).kind == "artifactUpdate":
                progress.set()

        following = asyncio.ensure_future(ctx.call("SubscribeToTask", params, on_event=look))
        others = asyncio.gather(
            ctx.call("SubscribeToTask", params),
            # Closed after its first event, to see whether the others live on.
            ctx.call("SubscribeToTask", params, until=lambda event: True),
        )
        # Later: when the task has an artifact, or else soon enough to find it working.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(progress.wait(), _LATER_SECONDS)
        known = await ctx.get_task(task_id)
        last = asyncio.ensure_future(ctx.call("SubscribeToTask", params))
        # While the streams are open: whether one missed the end of the task, or was left before it, shows only so.
        stored = await ctx.wait_for_task(task_id, seconds=ctx.target.timeout)
        over = time.monotonic() - began
        one, (other, _closed), later = await following, await others, await last
        # A stream that was opened when the task was over already shows nothing.
        if one.events and other.events:
            break
    if not one.events and one.may_be("UnsupportedOperationError") and state_of(known.result) in TERMINAL:
        ctx.skip(f"the task of the scenario slow was {state_of(known.result)} before it could be subscribed to")
    return Watched(task_id, one, other, known, later, stored, over)


def _without_cut(ctx: Context, seen: Watched, reply: WireReply) -> None:
    """Skip where our own limit of time cut a stream before GetTask said the end of its task, or just after."""
    is_over = state_of(seen.stored.result) in TERMINAL and reply.exchange.seconds >= seen.over + END_SECONDS
    if is_late(reply.exchange) and not is_over:
        ctx.skip(f"the time was up before the task of the scenario slow had ended: {reply.problem}; {MORE_TIME}")


async def both(ctx: Context) -> Watched:
    """Watch a slow task by two streams; skip where the second one is refused, as an agent may."""
    seen = await watched_to_its_end(ctx)
    # Nothing demands that an agent serves several streams of a task.
    if seen.other.error is not None and not seen.other.events:
        ctx.skip(f"a second stream of the task is refused: {seen.other.describe()}")
    _without_cut(ctx, seen, seen.other)
    return seen


async def watched_to_its_end(ctx: Context) -> Watched:
    """Watch a slow task; skip where subscribing does not work at all."""
    seen = await watched(ctx)
    ctx.events_of(seen.one, "SubscribeToTask", "SUB-001")
    _without_cut(ctx, seen, seen.one)
    return seen


async def subscription_starts_with_the_task(ctx: Context) -> None:
    """The first event is the Task as it is."""
    seen = await watched(ctx)
    if not seen.one.events:
        ctx.fail(f"subscribing to a running task: {seen.one.describe()}", seen.one, expected="a stream")
        return
    _has_media_type(ctx, seen.one)
    first = read_events(seen.one.events)[0]
    if first.kind != "task":
        found = f"the first event is {first.kind or 'of no known kind'}"
        ctx.fail(found, seen.one, pointer="/0", expected="the current Task")
    elif first.task_id != seen.task_id:
        ctx.fail(
            f"the first event is task {first.task_id!r}",
            seen.one,
            pointer="/0/task/id",
            expected=f"task {seen.task_id!r}",
        )


async def waiting_task_can_be_watched(ctx: Context) -> None:
    """A task that waits for the user is in no terminal state, so that it can be subscribed to."""
    task_id = str((await task_of(ctx.plain(), "input-required"))["id"])
    reply = await ctx.call("SubscribeToTask", {"id": task_id}, until=lambda event: True)
    if not reply.events:
        found = f"subscribing to a task that waits for input: {reply.describe()}"
        ctx.fail(found, reply, expected="a stream that begins with the Task")


async def first_snapshot_is_not_stale(ctx: Context) -> None:
    """The first Task of a subscription is not older than the one from GetTask before."""
    seen = await watched_to_its_end(ctx)
    known, reply = ctx.needed(seen.known, "GetTask", "GET-001"), seen.later
    first = read_event(reply.events[0] if reply.events else None)
    if first.kind != "task":
        ctx.skip("the subscription was too late")
    before, now = (_stamp(value) for value in (known.result, first.body))
    backward = state_of(known.result) == "working" and first.state == "submitted"
    if backward or (before is not None and now is not None and now < before):
        found = f"GetTask said {state_of(known.result)}, the subscription that was made later begins with {first.state}"
        ctx.fail(found, known, reply, pointer="/0/task/status")
    elif lost := set(artifacts_of(known.result)) - set(artifacts_of(first.body)):
        found = f"GetTask had {len(lost)} artifacts that the subscription, which was made later, does not begin with"
        ctx.fail(found, known, reply, pointer="/0/task/artifacts")


def _stamp(task: Any) -> float | None:
    return parse_timestamp(as_object(as_object(task).get("status")).get("timestamp"))


async def subscription_ends_with_the_task(ctx: Context) -> None:
    """The stream ends at the terminal state."""
    seen = await watched_to_its_end(ctx)
    state = rebuild(read_events(seen.one.events)).state
    if state not in TERMINAL:
        end = "ended" if seen.one.ended else f"did not end ({seen.one.problem or 'the time was up'})"
        found = f"the last state in the stream is {state or 'none'}; the stream {end}"
        ctx.fail(found, seen.one, seen.stored)
    else:
        await _ends_in_time(ctx, seen.one, f"the state {state}")


async def no_gap(ctx: Context) -> None:
    """The first Task and the later events make the final task, also of a stream that was opened meanwhile."""
    seen = await watched_to_its_end(ctx)
    stored = ctx.needed(seen.stored, "GetTask", "GET-001")
    for reply in (seen.one, *([seen.later] if seen.later.events and seen.later.ended else [])):
        if problems := differences(rebuild(read_events(reply.events)), stored.result):
            ctx.report_problems(problems, reply, stored)
            return


async def rest_subscribe_is_reachable(ctx: Context) -> None:
    """POST and GET are both written in the specification: one of them has to work."""
    # An unknown task: either verb then gives an error that shows that the path exists.
    post = await ctx.call("SubscribeToTask", {"id": ctx.unknown_id()}, http_method="POST")
    get = await ctx.call("SubscribeToTask", {"id": ctx.unknown_id()}, http_method="GET")
    if not any(reply.may_be("TaskNotFoundError") and not is_missing(reply) for reply in (post, get)):
        ctx.fail(f"POST: {post.describe()}; GET: {get.describe()}", post, get)


async def streams_see_the_same(ctx: Context) -> None:
    """All streams of a task get the same events in the same order."""
    seen = await both(ctx)
    if _ends_early(seen.one) or _ends_early(seen.other):
        ctx.skip("a stream ended before its task, which STREAM-018 judges")
    one, other = (updates(read_events(reply.events)) for reply in (seen.one, seen.other))
    # A stream that was opened later has the end of the other.
    short, long = sorted((one, other), key=len)
    # A stream that was open and heard nothing is the end of every other, and yet it has missed the end of the task.
    deaf = bool(long) and not short and bool(seen.one.events) and bool(seen.other.events)
    if deaf or not is_suffix(short, long):
        found = f"one stream had {len(one)} updates, the other {len(other)}, and they are not the same"
        ctx.fail(found, seen.one, seen.other)
    elif seen.later.ended and not is_suffix(rest := updates(read_events(seen.later.events)), long):
        found = (
            f"a stream that was opened later had {len(rest)} updates, which are not the last of another's {len(long)}"
        )
        ctx.fail(found, seen.one, seen.later)


def _ends_early(reply: WireReply) -> bool:
    return reply.ended and bool(reply.events) and rebuild(read_events(reply.events)).state not in TERMINAL


async def streams_are_independent(ctx: Context) -> None:
    """Closing one stream leaves the others alive."""
    seen = await both(ctx)
    if _ends_early(seen.later):
        # It was opened when the other had been closed already.
        ctx.skip("a stream beside which none is closed ends before its task, too, which SUB-002 judges")
    for reply in (seen.one, seen.other):
        state = rebuild(read_events(reply.events)).state
        if state not in TERMINAL:
            ctx.fail(f"after another stream was closed, this one stopped at {state or 'no state'}", reply)
