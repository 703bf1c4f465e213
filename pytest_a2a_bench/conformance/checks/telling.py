"""Data that tell one agent from another: what requirements are tried with where their whole breadth is wanted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from pytest_a2a_bench.a2a.messages import TERMINAL
from pytest_a2a_bench.conformance.check import SkipCheck, crossed
from pytest_a2a_bench.conformance.checks.auth import as_other, hidden
from pytest_a2a_bench.conformance.checks.discovery import TENANT_IS_BOUND, other_tenants
from pytest_a2a_bench.conformance.checks.errors import PROVOKE
from pytest_a2a_bench.conformance.checks.list_tasks import ALL_PAGES, ids_on, listed, member, tasks_of, walk
from pytest_a2a_bench.conformance.checks.notifications import (
    CREATE,
    DELETE,
    GET,
    IN_FLIGHT_SECONDS,
    LIST,
    NEVER_CALLED,
    created,
    ended,
    patience,
    receiver,
)
from pytest_a2a_bench.conformance.checks.tasks import history_of
from pytest_a2a_bench.conformance.checks.versioning import HEADER, VERSION
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.crossing import PAGE, STATE_PROMPTS
from pytest_a2a_bench.conformance.protocol.operations import SENDING
from pytest_a2a_bench.conformance.protocol.payloads import parse_timestamp, state_of
from pytest_a2a_bench.conformance.protocol.streams import canonical, nothing_after_terminal, once, read_events
from pytest_a2a_bench.conformance.session import states
from pytest_a2a_bench.conformance.wire.reply import DOMAIN, ERROR_INFO, ERRORS, WireReply
from pytest_a2a_bench.conformance.wire.webhook import Hook

# -- lists --

_LISTED = ("completed", "failed", "canceled", "rejected", "input-required")


class TwoTasks(NamedTuple):
    """Two tasks of a context, of which the one that was made first has the newer status."""

    context_id: str
    older: str
    newer: str


async def _two_tasks(ctx: Context) -> TwoTasks:
    async def make() -> TwoTasks:
        first = ctx.task_of(await ctx.send(ctx.prompt("input")), "the scenario input")
        context_id = str(first.get("contextId") or "")
        second = ctx.task_of(await ctx.send(context_id=context_id), "a message in a known context", "MT-007")
        # Answered last, so that the order of making and that of the last status differ.
        answer = ctx.target.scenarios.get("input_answer") or "yes"
        ctx.task_of(await ctx.send(answer, task_id=str(first.get("id"))), "answering the agent's question", "MT-006")
        return TwoTasks(context_id, str(second.get("id")), str(first.get("id")))

    return await ctx.shared("two tasks", make)


@crossed("LIST-005")
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
        ctx.fail(found, pointer="/tasks", expected="the newest status first", replies=pages[-3:])


@crossed("LIST-015")
async def history_of_several_messages_is_limited(ctx: Context) -> None:
    """A task of two messages is listed with the latest one."""
    two = await _two_tasks(ctx)
    for reply in await walk(ctx, contextId=two.context_id, historyLength=1):
        for task in tasks_of(reply):
            if len(history_of(task)) > 1:
                found = f"historyLength 1 gives a task with {len(history_of(task))} messages"
                ctx.fail(found, pointer="/tasks", expected="at most 1", replies=(reply,))
                return


@crossed("SEND-011")
async def history_is_the_latest(ctx: Context) -> None:
    """Of two messages the later one comes back."""
    first = ctx.task_of(await ctx.send(ctx.prompt("input")), "the scenario input")
    answer = ctx.target.scenarios.get("input_answer") or "yes"
    params = {"task_id": str(first.get("id")), "configuration": {"historyLength": 1}}
    reply = await ctx.send(answer, **params)
    task = ctx.task_of(reply, "answering the agent's question", "MT-006")
    stored = ctx.needed(await ctx.get_task(str(task.get("id"))), "GetTask", "GET-001")
    some, full = history_of(task), history_of(stored.result)
    if some and full and canonical(some[-1]) != canonical(full[-1]):
        found = "historyLength 1 gives a message that is not the latest"
        ctx.fail(found, pointer="/task/history/0", expected="the most recent message", replies=(reply, stored))


@crossed("LIST-007")
async def default_page_of_many(ctx: Context) -> None:
    """Of more tasks than a page has, at most a page comes."""
    total = member(await listed(ctx, pageSize=1), "totalSize")
    lacking = max(0, PAGE + 1 - total) if isinstance(total, int) else 0
    await asyncio.gather(*(ctx.send() for _ in range(lacking)))
    reply = await listed(ctx)
    if len(tasks_of(reply)) > PAGE:
        found = f"{len(tasks_of(reply))} tasks come on a page of no given size"
        ctx.fail(found, pointer="/tasks", expected=f"at most {PAGE}", replies=(reply,))


@crossed("LIST-010")
async def context_is_the_whole_id(ctx: Context) -> None:
    """A context whose id begins with another's is another."""
    short = ctx.unknown_id()
    for context_id in (short, f"{short}-2"):
        reply = await ctx.send(context_id=context_id)
        task = ctx.task_of(reply, "a message with a contextId", "MT-002") if reply.ok else {}
        if task.get("contextId") != context_id:
            ctx.skip("the agent takes no contextId of a client's")
    pages = await walk(ctx, contextId=short)
    wrong = [task for page in pages for task in tasks_of(page) if task.get("contextId") != short]
    if wrong:
        found = f"the list for contextId {short!r} has a task of {wrong[0].get('contextId')!r}"
        ctx.fail(found, pointer="/tasks", expected="that context's tasks only", replies=pages[-3:])


@crossed("LIST-011")
async def every_state_filters(ctx: Context) -> None:
    """A task is found by its own state and by no other."""
    for state in _LISTED:
        if not ctx.has_prompt(STATE_PROMPTS[state]):
            continue
        try:
            task = await states.task_of(ctx, state)
        except SkipCheck:
            continue
        for asked in _LISTED:
            name = f"TASK_STATE_{asked.upper().replace('-', '_')}"
            pages = await walk(ctx, contextId=task.get("contextId"), status=name)
            if (task.get("id") in ids_on(pages)) is not (asked == state):
                found = f"status {name} {'gives' if asked != state else 'does not give'} a task that is {state}"
                ctx.fail(found, pointer="/tasks", expected="exactly the tasks in that state", replies=pages[-3:])
                return


@crossed("HJ-006")
async def ids_in_paths_are_decoded(ctx: Context) -> None:
    """A configuration whose id has a space and a slash is found by it."""
    made, reply = await _by_id(ctx, f"a b/{ctx.unknown_id()}")
    if reply.ok:
        return
    _, plain = await _by_id(ctx, f"a b {ctx.unknown_id()}")
    # Section 11.5 has the values of queries encoded and says nothing of paths, in which many servers read %2F as /.
    tell = ctx.warn if plain.ok else ctx.fail
    tell(f"the configuration whose id has a slash: {reply.describe()}", expected="that one", replies=(made, reply))


async def _by_id(ctx: Context, config_id: str) -> tuple[WireReply, WireReply]:
    """Make a configuration with an id, and return the answers to that and to being asked for it."""
    task_id, config, made = await created(ctx, id=config_id)
    if config.get("id") != config_id:
        ctx.skip("the agent takes no id of a client's")
    return made, await ctx.call(GET, {"taskId": task_id, "id": config_id})


# -- who may see what --


@crossed("AUTH-007")
async def waiting_tasks_are_private(ctx: Context) -> None:
    """Another user can neither answer for a task nor touch its configurations."""
    task = ctx.task_of(await ctx.send(ctx.prompt("input")), "the scenario input")
    task_id = str(task.get("id"))
    for operation in SENDING[: 1 + ctx.target.declares("streaming")]:
        params = ctx.send_params(ctx.target.scenarios.get("input_answer"), task_id=task_id)
        hidden(ctx, await as_other(ctx, operation, params), f"another user's {operation} to a task")
    if not ctx.target.declares("pushNotifications"):
        return
    made = await ctx.call(CREATE, {"taskId": task_id, "id": ctx.unknown_id(), "url": NEVER_CALLED})
    if not made.ok:
        return
    one = {"taskId": task_id, "id": made.result.get("id")}
    ctx.created_push_config(task_id, str(one["id"]))
    hidden(ctx, await as_other(ctx, CREATE, {**one, "url": NEVER_CALLED}), f"another user's {CREATE}")
    hidden(ctx, await as_other(ctx, GET, one), f"another user's {GET}")
    deleted = await as_other(ctx, DELETE, one)
    # Deleting is idempotent, so that "done" may be said of what was not there for that user.
    kept = await ctx.call(GET, one)
    if not kept.ok:
        found = f"another user's {DELETE} deleted it: {kept.describe()}"
        ctx.fail(found, expected="the owner's configuration", replies=(deleted, kept))


@crossed("TEN-002")
async def lists_of_tenants_are_apart(ctx: Context) -> None:
    """One tenant's list has no task of another's."""
    task = await ctx.completed_task()
    for tenant in other_tenants(ctx):
        # The credentials may be those of one tenant.
        if not (await ctx.call("ListTasks", {"pageSize": 1, "tenant": tenant})).ok:
            continue
        pages = await walk(ctx, most=ALL_PAGES, tenant=tenant)
        if task.get("id") in ids_on(pages):
            found = f"the list of tenant {tenant!r} has a task of {ctx.target.tenant!r}"
            expected = f"that tenant's tasks only: {TENANT_IS_BOUND}"
            ctx.fail(found, pointer="/tasks", expected=expected, replies=pages[-1:])


@crossed("EXT-004")
async def required_extension_has_its_version(ctx: Context) -> None:
    """Another version of a required extension is another extension."""
    for uri in ctx.target.required_extensions:
        other = VERSION.sub("/v999", uri)
        if other == uri:
            continue
        reply = await ctx.call("SendMessage", ctx.send_params(), headers={HEADER: other})
        ctx.expect_error(reply, "ExtensionSupportRequiredError", what=f"asked for {other} in place of {uri}")


# -- errors --


@crossed("ERR-003", "ERR-005", "ERR-006")
async def every_error_has_its_reason(ctx: Context) -> None:
    """Every error of the protocol's has its own reason, spelled as the specification does, without a suffix."""
    for name, provoke in PROVOKE.items():
        row = ERRORS[f"{name}Error"]
        try:
            reply = await provoke(ctx)
        except SkipCheck:
            continue
        error = reply.error
        # Another error than the one to be provoked is judged by its own check.
        if error is None or (error.code != row.code if ctx.binding == "JSONRPC" else error.name not in ("", row.name)):
            continue
        info = error.detail(ERROR_INFO)
        if info is None and ctx.binding != "JSONRPC" and not _has_status(ctx, error, row):
            continue
        if info is None or info.get("reason") != row.reason or info.get("domain") != DOMAIN:
            found = f"{row.name} has ErrorInfo {dict(info) if info is not None else None!r}"
            expected = f"reason {row.reason!r}, domain {DOMAIN!r}"
            ctx.fail(found, pointer="/error/details", expected=expected, replies=(reply,))


@crossed("ERR-015")
async def results_have_the_id(ctx: Context) -> None:
    """A result has the id of its request, as an error has."""
    for reply in await ctx.samples():
        if not isinstance(reply.document, Mapping) or reply.documents:
            continue
        try:
            sent = json.loads(reply.exchange.request)["id"]
        except (ValueError, KeyError, TypeError):
            # What is shown of a long request is cut.
            continue
        if reply.document.get("id") != sent:
            found = f"the id of a result is {reply.document.get('id')!r}"
            ctx.fail(found, pointer="/id", expected=f"id {sent!r}", replies=(reply,))
            return


def _has_status(ctx: Context, error: Any, row: Any) -> bool:
    return bool(error.http_status == row.http if ctx.binding == "HTTP+JSON" else error.grpc_status == row.grpc)


# -- several configurations of push notifications --


class Several(NamedTuple):
    """What came to three webhooks of one task, with credentials of their own; the last was deleted at once."""

    hooks: tuple[Hook, ...]
    made: tuple[WireReply, ...]
    got: tuple[WireReply, ...]
    stored: WireReply


_SCHEMES = (("Bearer", "Zmlyc3Qtd2ViaG9vaw"), ("Basic", "c2Vjb25kOndlYmhvb2s="), ("Bearer", "dGhpcmQtd2ViaG9vaw"))


async def _several(ctx: Context) -> Several:
    async def make() -> Several:
        task_id = str((await ctx.start_task(ctx.prompt("slow")))["id"])
        async with receiver(ctx) as hooks:
            mine = tuple(hooks.hook() for _ in _SCHEMES)
            made: list[WireReply] = []
            for hook, (scheme, secret) in zip(mine, _SCHEMES, strict=True):
                auth = {"scheme": scheme, "credentials": secret}
                # Ids that begin with each other, as with tasks.
                params = {"taskId": task_id, "id": f"hook{'-1' * len(made)}", "url": hook.url, "authentication": auth}
                made.append(ctx.needed(await ctx.call(CREATE, params), CREATE, "PUSH-001"))
                ctx.created_push_config(task_id, str(made[-1].result.get("id")))
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

    ctx.require_capability("pushNotifications")
    return await ctx.shared("several hooks", make)


@crossed("PUSH-002")
async def each_config_is_its_own(ctx: Context) -> None:
    """Of several configurations each is got by its id."""
    seen = await _several(ctx)
    for made, got in zip(seen.made, seen.got, strict=False):
        result = got.result if isinstance(got.result, Mapping) else {}
        if result.get("url") != made.result.get("url"):
            found = f"of several configurations {made.result.get('id')!r} has url {result.get('url')!r}"
            ctx.fail(found, pointer="/url", expected=repr(made.result.get("url")), replies=(made, got))


@crossed("PUSH-003")
async def config_is_the_whole_id(ctx: Context) -> None:
    """A configuration is not found by the beginning of its id, nor by more."""
    task_id, config, _ = await created(ctx)
    for near in (str(config["id"])[:-1], f"{config['id']}0"):
        reply = await ctx.call(GET, {"taskId": task_id, "id": near})
        ctx.expect_error(reply, "TaskNotFoundError", what="getting a config by an id that is like another's")


@crossed("PUSH-004")
async def several_hooks_are_listed(ctx: Context) -> None:
    """Several configurations of a running task are listed, each with its own url."""
    seen = await _several(ctx)
    task_id = str(seen.made[0].result.get("taskId"))
    reply = await ctx.call(LIST, {"taskId": task_id})
    found = reply.result.get("configs") if isinstance(reply.result, Mapping) else None
    urls = {c.get("url") for c in found or [] if isinstance(c, Mapping)}
    missing = [m for m in seen.made[:-1] if m.result.get("url") not in urls]
    # They may be gone with the task that they were for.
    if missing and len(missing) < len(seen.made) - 1:
        ctx.fail(f"{len(missing)} of several configurations are not listed", pointer="/configs", replies=(reply,))


@crossed("PUSH-005")
async def deleting_one_leaves_the_others(ctx: Context) -> None:
    """Of several configurations the deleted one gets nothing more, and the others do."""
    seen = await _several(ctx)
    kept = [hook for hook in seen.hooks[:-1] if ended(hook.deliveries)]
    if kept and ended(seen.hooks[-1].deliveries):
        found = "the end of the task came to a webhook whose configuration had been deleted"
        ctx.fail(found, expected="nothing", replies=(seen.made[-1], seen.stored))


@crossed("PUSH-011")
async def each_hook_is_called(ctx: Context) -> None:
    """Every configured webhook gets notifications, also where there are several."""
    seen = await _several(ctx)
    told = any(ended(hook.deliveries) for hook in seen.hooks[:-1])
    deaf = [number for number, hook in enumerate(seen.hooks[:-1], 1) if told and not hook.deliveries]
    if deaf and len(deaf) < len(seen.hooks) - 1:
        found = f"of {len(seen.hooks) - 1} webhooks of a task number {deaf[0]} got no notification"
        ctx.fail(found, expected="at least one POST to each webhook", replies=(*seen.made, seen.stored))


@crossed("PUSH-014")
async def each_hook_gets_its_credentials(ctx: Context) -> None:
    """Each of several webhooks gets its own credentials."""
    seen = await _several(ctx)
    for hook, (scheme, secret), made in zip(seen.hooks, _SCHEMES, seen.made, strict=True):
        wrong = [d for d in hook.deliveries if d.headers.get("authorization", "") != f"{scheme} {secret}"]
        if wrong:
            found = (
                f"{len(wrong)} of {len(hook.deliveries)} notifications have the credentials of another webhook, or none"
            )
            ctx.fail(found, expected="Authorization as configured for that webhook", replies=(made,))
            return


@crossed("PUSH-017")
async def nothing_comes_after_the_end(ctx: Context) -> None:
    """What is told after the end of a task, to any of its webhooks, is told too late."""
    seen = await _several(ctx)
    for hook, made in zip(seen.hooks[:-1], seen.made, strict=False):
        ctx.report_problems(nothing_after_terminal(read_events(once([d.json for d in hook.deliveries]))), made)
