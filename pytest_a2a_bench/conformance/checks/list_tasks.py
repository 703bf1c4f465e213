"""ListTasks: filters, pages and their order. Every check stays within a context of its own tasks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple

from pytest_a2a_bench.a2a.bodies import as_object, as_objects
from pytest_a2a_bench.a2a.codec import TERMINAL
from pytest_a2a_bench.conformance import fixtures
from pytest_a2a_bench.conformance.checks.tasks import history_of
from pytest_a2a_bench.conformance.context import Context, shared
from pytest_a2a_bench.conformance.protocol.payloads import TIMESTAMP, parse_timestamp, state_of
from pytest_a2a_bench.conformance.variants import STATE_PROMPTS, enum_of
from pytest_a2a_bench.conformance.wire.reply import SkipCheck, WireReply

# Enough for pages of one and of two, so that a last page can be full or not.
OWN_TASKS = 3
# A server that always gives a token would otherwise be asked for ever.
MOST_PAGES = 10
MOST = 100
"""Most tasks that a page may be asked for: where a rule is not about pages, one is enough."""
PAGE = 50
"""Tasks that a page has at most where no size is asked for."""
ALL_PAGES = 100
"""Most pages where a task may be among all that were made in a run."""


@shared
async def own(ctx: Context) -> tuple[str, list[str]]:
    """Return a context that no other check uses, and the ids of the tasks in it, oldest first."""
    tasks = [task for _, task in (await in_one_context(ctx))[0]]
    context_id = str(tasks[0].get("contextId") or "")
    if not context_id or any(task.get("contextId") != context_id for task in tasks):
        ctx.skip("the agent does not keep a contextId, so that no list can be judged")
    for task in tasks:
        # A task that still works would change state, and with it its place in the list, between two pages.
        await ctx.wait_for_task(str(task["id"]))
    return context_id, [str(task["id"]) for task in tasks]


Made = tuple[list[tuple[WireReply, Mapping[str, Any]]], list[WireReply]]
"""Answers to messages in one context, with their tasks; and pages of one task, between which the last was made."""


@shared
async def in_one_context(ctx: Context) -> Made:
    """Send several messages in one context, where the agent has any."""
    made: list[tuple[WireReply, Mapping[str, Any]]] = []
    pages: list[WireReply] = []
    context_id = ""
    for number in range(OWN_TASKS):
        page = {"contextId": context_id, "pageSize": 1}
        is_last = number == OWN_TASKS - 1 and bool(context_id) and not ctx.variant.operation
        if is_last:
            pages.append(await ctx.call("ListTasks", page))
        reply = await ctx.send(ctx.prompt("task"), context_id=context_id)
        what = "a message in a known context" if context_id else "the scenario task"
        made.append((reply, ctx.task_of(reply, what, "MT-007" if context_id else "SEND-001")))
        context_id = str(made[0][1].get("contextId") or "")
        if is_last and (token := member(pages[0], "nextPageToken")):
            pages.append(await ctx.call("ListTasks", {**page, "pageToken": token}))
    return made, pages


async def listed(ctx: Context, **params: Any) -> WireReply:
    """List tasks; where that does not work the check that asks has failed, as each asks in a way of its own."""
    return ctx.needed(await ctx.call("ListTasks", params), "ListTasks")


def tasks_of(reply: WireReply) -> list[Mapping[str, Any]]:
    """Return the tasks of one page."""
    return as_objects(as_object(reply.result).get("tasks"))


def ids_of(reply: WireReply) -> list[str]:
    """Return the ids of one page's tasks."""
    return [str(task.get("id", "")) for task in tasks_of(reply)]


def _is_whole(value: Any) -> bool:
    # JSON has one kind of number, in which 3.0 is 3; in Python a truth value is one, too.
    return not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))


def ids_on(pages: Iterable[WireReply]) -> list[str]:
    """Return the ids of several pages' tasks."""
    return [name for page in pages for name in ids_of(page)]


def member(reply: WireReply, name: str) -> Any:
    """Return a member of the answer, or its default: gRPC does not send empty members."""
    value = as_object(reply.result).get(name)
    if value is None and reply.exchange.binding == "GRPC":
        return {"tasks": [], "nextPageToken": ""}.get(name, 0)
    return value


async def walk(
    ctx: Context,
    size: int = 2,
    *,
    most: int = MOST_PAGES,
    ask: Callable[[Mapping[str, Any]], Awaitable[WireReply]] | None = None,
    **params: Any,
) -> list[WireReply]:
    """Return all pages of a list; stops where the server gives token after token.

    A server may give fewer tasks than the page size that it is asked for.

    :param size: by default less than a context has, so that what a list is asked for must hold on each page.
    :param ask: lists tasks in place of the caller's own call.
    :param params: filters.
    """
    pages: list[WireReply] = []
    token = ""
    while len(pages) < most:
        page = {**params, "pageSize": size, **({"pageToken": token} if token else {})}
        reply = await (ask(page) if ask is not None else ctx.call("ListTasks", page))
        what, judge = ("ListTasks with the nextPageToken of its own page", "LIST-006") if token else ("ListTasks", "")
        pages.append(ctx.needed(reply, what, judge))
        # Absent and empty both end the walk; LIST-001 tells them apart.
        token = str(member(pages[-1], "nextPageToken") or "")
        if not token:
            break
    return pages


async def page_token_is_always_there(ctx: Context) -> None:
    """The nextPageToken is a text on every page, empty on the last."""
    try:
        context_id, ids = await own(ctx)
    except SkipCheck:
        # An agent without tasks has one page, which is the last.
        context_id, ids = ctx.unknown_id(), []
    pages = await walk(ctx, contextId=context_id)
    # The page that completes the tasks, and one after which others follow.
    # Where none does, LIST-006 says so.
    ends = (page for n, page in enumerate(pages, 1) if set(ids) <= set(ids_on(pages[:n])))
    first = [(await listed(ctx, contextId=context_id, pageSize=1), False)] if ids else []
    for reply, last in (*((page, True) for page in [*ends][:1]), *first):
        token = member(reply, "nextPageToken")
        if not isinstance(token, str):
            found = f"nextPageToken is {token!r}"
        elif bool(token) is last:
            found = f"nextPageToken is {token!r} on {'the last' if last else 'a page that others follow'}"
        else:
            continue
        ctx.fail(found, reply, pointer="/nextPageToken")


async def required_members_are_there(ctx: Context) -> None:
    """tasks, pageSize and totalSize are on every page, even on an empty one."""
    # An unknown context gives an empty page, which must have its members, too.
    names = [ctx.unknown_id()]
    with contextlib.suppress(SkipCheck):
        names.append((await own(ctx))[0])
    for name in names:
        reply = await ctx.call("ListTasks", {"contextId": name})
        if not reply.ok or not isinstance(reply.result, Mapping):
            ctx.fail(f"ListTasks: {reply.describe()}", reply, expected="a page of tasks")
            return
        for wanted in ("tasks", "pageSize", "totalSize"):
            value = member(reply, wanted)
            if not (isinstance(value, list) if wanted == "tasks" else _is_whole(value)):
                ctx.fail(f"{wanted} is {value!r}", reply, pointer=f"/{wanted}", expected=f"{wanted} on every page")


async def artifacts_are_left_out(ctx: Context) -> None:
    """Artifacts are left out unless asked for."""
    context_id, _ = await own(ctx)
    for extra in (dict[str, Any](), {"includeArtifacts": False}):
        for page in await walk(ctx, contextId=context_id, **extra):
            if given := [task["artifacts"] for task in tasks_of(page) if "artifacts" in task]:
                found = "tasks have artifacts" if any(given) else f"artifacts of a task is {given[0]!r}"
                ctx.fail(found, page, pointer="/tasks")
                return


async def artifacts_come_when_asked_for(ctx: Context) -> None:
    """With includeArtifacts come the artifacts; for a rule about queries, where another binding gives them."""
    context_id, _ = await own(ctx)
    asked = {"contextId": context_id, "includeArtifacts": True}
    await _read_elsewhere(ctx, asked, lambda tasks: any(task.get("artifacts") for task in tasks))
    pages = await walk(ctx, contextId=context_id, includeArtifacts=True)
    for reply, task in ((page, task) for page in pages for task in tasks_of(page)):
        whole = await ctx.get_task(str(task.get("id")))
        if whole.ok and whole.result.get("artifacts") and not task.get("artifacts"):
            ctx.fail(f"task {task.get('id')!r} comes without its artifacts", reply, whole, pointer="/tasks")
            return


async def _read_elsewhere(
    ctx: Context, params: Mapping[str, Any], is_read: Callable[[list[Mapping[str, Any]]], bool]
) -> None:
    """Skip a rule about queries where no other binding reads the parameters: then no query was misread."""
    if ctx.requirement.group == "binding":
        others = [await c.call("ListTasks", params) for c in ctx.siblings() if c.binding != ctx.binding]
        if not any(reply.ok and is_read(tasks_of(reply)) for reply in others):
            ctx.skip("no other binding reads the parameter, so that no query was misread")


async def newest_come_first(ctx: Context) -> None:
    """Sorted by the time of their status, newest first."""
    context_id, ids = await own(ctx)
    pages = await walk(ctx, MOST, contextId=context_id)
    times = [parse_timestamp(stamp) for stamp in _stamps(pages)]
    known = [time for time in times if time is not None]
    # Judging only those that have a time would pass an agent that sorts by nothing.
    if len(known) < len(ids):
        ctx.skip("the tasks have no timestamps, so their order cannot be judged")
    if known != sorted(known, reverse=True):
        ctx.fail(f"timestamps are in the order {[str(time) for time in known]}", *pages[-3:], pointer="/tasks")


class TwoTasks(NamedTuple):
    """Two tasks of a context, of which the one that was made first has the newer status."""

    context_id: str
    older: str
    newer: str


@shared
async def _two_tasks(ctx: Context) -> TwoTasks:
    first = await fixtures.waiting_task(ctx)
    context_id = str(first.get("contextId") or "")
    second = ctx.task_of(await ctx.send(context_id=context_id), "a message in a known context", "MT-007")
    # Answered last, so that the order of making and that of the last status differ.
    answer = ctx.target.scenarios.get("input_answer") or "yes"
    ctx.task_of(await ctx.send(answer, task_id=str(first.get("id"))), "answering the agent's question", "MT-006")
    return TwoTasks(context_id, str(second.get("id")), str(first.get("id")))


async def order_is_that_of_status(ctx: Context) -> None:
    """The task that was made first comes first if its status is newer."""
    two = await _two_tasks(ctx)
    pages = await walk(ctx, contextId=two.context_id)
    tasks = [task for page in pages for task in tasks_of(page)]
    stamps = {str(t.get("id")): parse_timestamp((t.get("status") or {}).get("timestamp")) for t in tasks}
    newer, older = stamps.get(two.newer), stamps.get(two.older)
    got = ids_on(pages)
    if newer is not None and older is not None and newer > older and got.index(two.newer) > got.index(two.older):
        found = "a task with an older status comes before one that was made earlier and has a newer status"
        ctx.fail(found, *pages[-3:], pointer="/tasks")


async def pages_are_disjoint_and_complete(ctx: Context) -> None:
    """Walking through the pages gives every task once."""
    context_id, ids = await own(ctx)
    for size in (1, 2):
        pages = await walk(ctx, size, contextId=context_id)
        got = ids_on(pages)
        if sorted(got) != sorted(ids):
            found = f"pages of {size} gave {len(got)} tasks ({len(set(got))} different) of {len(ids)}"
            # The last pages show the repetition or the gap; all of them would fill the report.
            ctx.fail(found, *pages[-3:], pointer="/tasks")


async def token_marks_a_place(ctx: Context) -> None:
    """A task that is made between two pages does not shift the second one."""
    _, pages = await in_one_context(ctx)
    before, after = (tasks_of(page) for page in pages) if len(pages) > 1 else ([], [])
    # What has ended does not change, so that it cannot rightly come once more.
    if any(state_of(one) in TERMINAL and one.get("id") == other.get("id") for one in before for other in after):
        found = "a task comes on two pages, as another was made between them: the token counts tasks"
        ctx.fail(found, *pages, pointer="/tasks", expected="a token that marks a place in the list (a cursor)")


async def default_page_is_at_most_fifty(ctx: Context) -> None:
    """Without a pageSize at most 50 tasks come."""
    reply = await listed(ctx)
    size = member(reply, "pageSize")
    if len(tasks_of(reply)) > PAGE or (isinstance(size, int | float) and size > PAGE):
        ctx.fail(f"{len(tasks_of(reply))} tasks with pageSize {size}", reply, pointer="/pageSize")


async def default_page_of_many(ctx: Context) -> None:
    """Of more tasks than a page has, at most a page comes."""
    total = member(await listed(ctx, pageSize=1), "totalSize")
    lacking = max(0, PAGE + 1 - total) if isinstance(total, int) else 0
    await asyncio.gather(*(ctx.send() for _ in range(lacking)))
    await default_page_is_at_most_fifty(ctx)


async def page_size_is_a_bound(ctx: Context) -> None:
    """No page is larger than asked for."""
    context_id, _ = await own(ctx)
    await _read_elsewhere(ctx, {"contextId": context_id, "pageSize": 1}, lambda tasks: len(tasks) == 1)
    reply = await listed(ctx, contextId=context_id, pageSize=1)
    if len(tasks_of(reply)) > 1:
        ctx.fail(f"pageSize 1 gives {len(tasks_of(reply))} tasks", reply, pointer="/tasks")


async def context_filters(ctx: Context) -> None:
    """A contextId selects that context's tasks, and all of them."""
    context_id, ids = await own(ctx)
    # There must be a task of another context for the filter to leave out.
    await fixtures.completed_task(ctx)
    pages = await walk(ctx, MOST, contextId=context_id)
    # Whether one comes twice is a matter of the pages (LIST-006).
    if (got := set(ids_on(pages))) != set(ids):
        found = f"{len(got)} tasks for a context that has {len(ids)}"
        ctx.fail(found, *pages[-3:], pointer="/tasks", expected="exactly the tasks of the context")
    # An unknown context, and two whose ids are like this one's.
    for asked in (ctx.unknown_id(), *([context_id[:-1], f"{context_id}0"] if len(context_id) > 1 else [])):
        other = await ctx.call("ListTasks", {"contextId": asked})
        if wrong := [task for task in tasks_of(other) if other.ok and task.get("contextId") != asked]:
            found = f"{len(wrong)} tasks of another context for contextId {asked!r}"
            ctx.fail(found, other, pointer="/tasks", expected="that context's tasks only")
            return


async def status_filters(ctx: Context) -> None:
    """Status selects the tasks in that state."""
    contexts = [(await own(ctx))[0]]
    if ctx.has_prompt("input"):
        with contextlib.suppress(SkipCheck):
            contexts.append(str((await fixtures.task_of(ctx, "input-required")).get("contextId") or contexts[0]))
    for context_id in contexts:
        whole, states = await _states(ctx, context_id)
        # States that the tasks have, and those next to them.
        for state in ("completed", "working", "input-required"):
            pages = await walk(ctx, MOST, contextId=context_id, status=enum_of(state))
            wanted = sorted(key for key, found in states.items() if found == state)
            if sorted(got := set(ids_on(pages))) == wanted:
                continue
            # Another check may have sent a message into this context since; what changed meanwhile proves nothing.
            _, now = await _states(ctx, context_id)
            changed = {key for key in states.keys() | now.keys() if states.get(key) != now.get(key)}
            if sorted(key for key in got if key not in changed) != [key for key in wanted if key not in changed]:
                found = f"{len(got)} tasks for {enum_of(state)} in a context where {len(wanted)} of {len(states)} are"
                ctx.fail(found, whole[-1], pages[-1], pointer="/tasks")
                return


async def _states(ctx: Context, context_id: str) -> tuple[list[WireReply], dict[str, str]]:
    """Return the pages of a context's tasks, and each task's state by id."""
    pages = await walk(ctx, MOST, contextId=context_id)
    return pages, {str(task.get("id")): state_of(task) for page in pages for task in tasks_of(page)}


_LISTED = ("completed", "failed", "canceled", "rejected", "input-required", "auth-required")


async def every_state_filters(ctx: Context) -> None:
    """A task is found by its own state and by no other."""
    for state in _LISTED:
        if not ctx.has_prompt(STATE_PROMPTS[state]):
            continue
        try:
            task = await fixtures.task_of(ctx, state)
        except SkipCheck:
            continue
        for asked in (*_LISTED, "submitted", "working"):
            name = enum_of(asked)
            pages = await walk(ctx, contextId=task.get("contextId"), status=name)
            if (task.get("id") in ids_on(pages)) is not (asked == state):
                found = f"status {name} {'gives' if asked != state else 'does not give'} a task that is {state}"
                ctx.fail(found, *pages[-3:], pointer="/tasks")
                return


async def time_filters(ctx: Context) -> None:
    """A statusTimestampAfter selects newer tasks, and those of that very time."""
    context_id, _ = await own(ctx)
    whole = await walk(ctx, contextId=context_id)
    stamps = _stamps(whole)
    if not stamps or not all(isinstance(stamp, str) and TIMESTAMP.fullmatch(stamp) for stamp in stamps):
        ctx.skip("the tasks have no timestamps in the form of section 5.6.1, which DM-010 judges")
    future = await listed(ctx, contextId=context_id, statusTimestampAfter="2999-01-01T00:00:00Z")
    if tasks_of(future):
        ctx.fail("tasks come from the year 2999", future, pointer="/tasks", expected="no tasks")
    # Taken from the list itself: the agent's clock need not be this machine's.
    newest = max(stamps, key=lambda stamp: parse_timestamp(stamp) or 0)
    pages = await walk(ctx, contextId=context_id, statusTimestampAfter=newest)
    if newest not in _stamps(pages):
        found = f"the task of {newest} is not among those from {newest} on"
        ctx.fail(found, *whole[:1], *pages[-1:], pointer="/tasks", expected="times greater than or equal")


def _stamps(pages: Iterable[WireReply]) -> list[Any]:
    return [task.get("status", {}).get("timestamp") for page in pages for task in tasks_of(page)]


async def history_is_limited(ctx: Context) -> None:
    """A historyLength limits each task's history, also where a task has two messages."""
    asked = [((await own(ctx))[0], length) for length in (0, 1)]
    if ctx.has_prompt("input"):
        asked.append(((await _two_tasks(ctx)).context_id, 1))
    for context_id, length in asked:
        for page in await walk(ctx, contextId=context_id, historyLength=length):
            most = max((len(history_of(task)) for task in tasks_of(page)), default=0)
            if most > length:
                found = f"historyLength {length} gives tasks with {most} messages"
                ctx.fail(found, page, pointer="/tasks", expected=f"at most {length}")
                break


async def total_counts_before_paging(ctx: Context) -> None:
    """The totalSize counts all matches, not the page."""
    context_id, ids = await own(ctx)
    # Pages that are smaller than the list, so that what is counted cannot be the page.
    for reply in (*await walk(ctx, 1, contextId=context_id), *await walk(ctx, MOST, contextId=context_id)):
        total = member(reply, "totalSize")
        if total != len(ids):
            found = f"totalSize is {total!r} on a page of {len(tasks_of(reply))}; the context has {len(ids)} tasks"
            ctx.fail(found, reply, pointer="/totalSize", expected=str(len(ids)))
            return
