"""Credentials: refusals without them and with wrong ones, and the tasks that another user sees."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_a2a_bench.a2a import auth
from pytest_a2a_bench.a2a.card import parse_card
from pytest_a2a_bench.a2a.config import AuthParts
from pytest_a2a_bench.a2a.config import Credentials as Token
from pytest_a2a_bench.conformance import fixtures
from pytest_a2a_bench.conformance.card.urls import judge_url
from pytest_a2a_bench.conformance.checks.asking import filled, requests
from pytest_a2a_bench.conformance.checks.list_tasks import ALL_PAGES, ids_of, member, walk
from pytest_a2a_bench.conformance.checks.push import CREATE, DELETE, GET, LIST
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.protocol.operations import NEVER_CALLED, OPERATIONS, SENDING, about
from pytest_a2a_bench.conformance.wire.reply import AUTH_GRPC_STATUSES, AUTH_STATUSES, WireReply

GARBAGE = "not-a-credential-of-anybody"


def operations(ctx: Context) -> dict[str, dict[str, Any]]:
    """Return every operation that the card offers, with parameters that change nothing."""
    names = [n for n in OPERATIONS if n not in ("SendMessage", "GetExtendedAgentCard") and ctx.target.offers(n)]
    # Unknown ids: what is not refused must not change anything, should the agent let strangers in.
    return {n: ctx.send_params() if n in SENDING else about(n, ctx.unknown_id()) for n in names}


async def is_guarded(
    ctx: Context, operation: str, params: Mapping[str, Any], what: str, auth: bool | AuthParts
) -> bool:
    """Fail unless a request with other credentials is refused; return whether it is."""
    reply = await ctx.call(operation, params, auth=auth)
    if not reply.is_refused:
        # A variant is named before the finding.
        asked = what if ctx.variant.operation else f"{operation} {what}"
        ctx.fail(f"{asked}: {reply.describe()}", reply)
    return reply.is_refused


async def missing_credentials_are_refused(ctx: Context) -> None:
    """A message without credentials is refused."""
    await is_guarded(ctx, "SendMessage", ctx.send_params(), "without credentials", auth=False)


async def wrong_credentials_are_refused(ctx: Context) -> None:
    """A message with invalid credentials is refused."""
    params, what = ctx.send_params(), "with invalid credentials"
    is_refused = await is_guarded(ctx, "SendMessage", params, what, auth=garbage(ctx))
    scheme, _, token = ctx.target.auth.headers.get("Authorization", "").partition(" ")
    if not is_refused or not token or ctx.variant.operation:
        return
    other = AuthParts(headers={"Authorization": f"No-{scheme}-At-All {token}"})
    reply = await ctx.call("GetTask", {"id": ctx.unknown_id()}, auth=other)
    if not reply.is_refused:
        found = f"the token is accepted under the name of a scheme that does not exist: {reply.describe()}"
        ctx.fail(found, reply, expected=f"a refusal, as the card declares {scheme}")


def strangers(ctx: Context) -> Iterator[tuple[str, AuthParts | bool]]:
    """Yield no credentials, and invalid ones, each with the words for it in findings."""
    yield from (("without credentials", False), ("with invalid credentials", garbage(ctx)))


def garbage(ctx: Context) -> AuthParts:
    """Return credentials that no user has."""
    other = credentials(ctx, GARBAGE)
    # A server that wants basic credentials reads user and password; without a colon they would be malformed instead of
    # wrong.
    return pair if not _is_basic(other) and _is_basic(pair := credentials(ctx, f"nobody:{GARBAGE}")) else other


def credentials(ctx: Context, token: str) -> AuthParts:
    """Return a token where the card wants one, as the user's own is sent; as a bearer token where it does not say."""
    return auth.place(Token(token), parse_card(ctx.target.card, ctx.target.endpoint))


def _is_basic(parts: AuthParts) -> bool:
    return parts.headers.get("Authorization", "").startswith("Basic ")


async def refusal_has_a_challenge(ctx: Context) -> None:
    """A 401 says which authentication it wants."""
    reply = await ctx.call("SendMessage", ctx.send_params(), auth=False)
    if not reply.is_refused:
        ctx.skip("a request without credentials is not refused")
    # RFC 9110 demands the challenge of a 401 only; that it is one is AUTH-004's to say.
    if reply.status != 401:
        ctx.skip(f"the refusal is a {reply.status}, which needs no challenge")
    if not reply.headers.get("www-authenticate"):
        ctx.fail(f"status {reply.status} without WWW-Authenticate", reply)


async def refusal_has_its_status(ctx: Context) -> None:
    """The refusal uses the binding's own status."""
    reply = await ctx.call("SendMessage", ctx.send_params(), auth=False)
    error = reply.error
    # An error of the protocol's own shows that the credentials were not what it was about.
    if error is None or error.name:
        ctx.skip("a request without credentials is not refused")
    if reply.status not in AUTH_STATUSES and (error is None or error.grpc_status not in AUTH_GRPC_STATUSES):
        expected = "UNAUTHENTICATED or PERMISSION_DENIED" if ctx.binding == "GRPC" else "401 or 403"
        ctx.fail(f"the refusal is {reply.describe()}", reply, expected=f"a refusal with {expected}")


async def every_operation_is_guarded(ctx: Context) -> None:
    """Every operation refuses requests without credentials, and with invalid ones."""
    for name, params in operations(ctx).items():
        for what, parts in strangers(ctx):
            if not await is_guarded(ctx, name, params, what, parts):
                break


def another_user(ctx: Context) -> AuthParts:
    """Return the credentials of a user who may not see the tasks of the first; skip where there are none."""
    name = ctx.prompt("other_token_env")
    if not ctx.target.auth:
        # Without the first user's credentials both would be the same stranger.
        ctx.skip("the first user sends no credentials here, so that there are no two users to tell apart")
    token = ctx.target.scenarios.other_token
    if not token:
        ctx.skip(f"the environment variable {name}, which other_token_env names, is not set")
    return credentials(ctx, token)


async def known_user(ctx: Context) -> None:
    """Skip if there is no other user, or one whose token is always refused: such a user shows nothing."""
    another_user(ctx)
    # Asked for a task that nobody has: a refusal then is about the token, and not about the task.
    reply = await ctx.shared("known-user", lambda: as_other(ctx, "GetTask", {"id": ctx.unknown_id()}))
    if reply.is_refused:
        ctx.skip(f"the token of the other user, which other_token_env names, is refused: {reply.describe()}")


async def as_other(ctx: Context, operation: str, params: Mapping[str, Any]) -> WireReply:
    """Call as another user."""
    return await ctx.call(operation, params, auth=another_user(ctx))


async def hidden(ctx: Context, operation: str, params: Mapping[str, Any], task_id: str) -> None:
    """Record a failure unless another's task looks to another user as if it did not exist."""
    reply = await as_other(ctx, operation, params)
    what = f"another user's {operation}"
    if reply.error is None:
        # Refusing is allowed: what counts is that the answer does not tell that the task exists.
        ctx.fail(f"{what}: {reply.describe()}", reply, expected="TaskNotFoundError")
    elif not reply.error.may_be("TaskNotFoundError") and not reply.is_refused:
        # An operation that is refused for every task shows of none that it exists.
        elsewhere = json.loads(json.dumps(params).replace(json.dumps(task_id), json.dumps(ctx.unknown_id())))
        unknown = await as_other(ctx, operation, elsewhere)
        if _shape(reply) != _shape(unknown):
            found = f"{what} is refused in a way that shows that the task exists: {reply.error}"
            ctx.fail(found, reply, unknown, expected="TaskNotFoundError")


async def tasks_are_private(ctx: Context) -> None:
    """Another user cannot read, cancel, watch or configure a task."""
    await known_user(ctx)
    task_id = await filled(ctx, "{task}")
    for request in requests(ctx):
        name = request["operation"]
        if ctx.target.offers(name):
            await hidden(ctx, name, await filled(ctx, request["params"]), task_id)


async def waiting_tasks_are_private(ctx: Context) -> None:
    """Another user can neither answer for a task nor touch its configurations."""
    await known_user(ctx)
    # What nobody else can say, in a part of its own, so that a prompt stays as it is.
    secret = ctx.unknown_id()
    parts = [{"text": ctx.prompt("input")}, {"text": f"(reference {secret})"}]
    task = ctx.task_of(await ctx.send(parts=parts), "the scenario input")
    task_id = str(task.get("id"))
    # In the first user's context, where an agent that remembers by contexts alone has the words of both.
    shown = await as_other(ctx, "SendMessage", ctx.send_params(context_id=str(task.get("contextId") or "")))
    if secret in shown.exchange.response:
        found = "the answer to another user has the words of the first user's message in it"
        ctx.fail(found, shown, expected="nothing of another user's task")
    for operation in SENDING[: 1 + ctx.target.declares("streaming")]:
        params = ctx.send_params(ctx.target.scenarios.get("input_answer"), task_id=task_id)
        await hidden(ctx, operation, params, task_id)
    if not ctx.target.declares("pushNotifications"):
        return
    made = await ctx.call(CREATE, {"taskId": task_id, "id": ctx.unknown_id(), "url": NEVER_CALLED})
    # Without its id, which PUSH-001 judges, a configuration cannot be asked for.
    if not made.ok or not made.result.get("id"):
        return
    of_task: dict[str, Any] = {"taskId": task_id}
    one = {**of_task, "id": made.result.get("id")}
    for operation, params in ((CREATE, {**one, "url": NEVER_CALLED}), (GET, one), (LIST, {**of_task, "pageSize": 1})):
        await hidden(ctx, operation, params, task_id)
    deleted = await as_other(ctx, DELETE, one)
    # Deleting is idempotent, so that "done" may be said of what was not there for that user.
    kept = await ctx.call(GET, one)
    if not kept.ok:
        ctx.fail(f"another user's {DELETE} deleted it: {kept.describe()}", deleted, kept)


async def foreign_looks_unknown(ctx: Context) -> None:
    """Another's task gives the same error as an unknown one."""
    await known_user(ctx)
    task = await fixtures.completed_task(ctx)
    foreign = await as_other(ctx, "GetTask", {"id": task["id"]})
    unknown = await as_other(ctx, "GetTask", {"id": ctx.unknown_id()})
    if _shape(foreign) != _shape(unknown):
        ctx.fail(f"another's task: {foreign.describe()}; an unknown one: {unknown.describe()}", foreign, unknown)


def _shape(reply: WireReply) -> tuple[Any, ...]:
    return reply.status, reply.error and reply.error.shape


async def lists_are_private(ctx: Context) -> None:
    """Another user's list does not have the task."""
    await known_user(ctx)
    task = await fixtures.completed_task(ctx)
    # Section 13.1: whatever filter is given, and where none is.
    of_task = {"contextId": task.get("contextId"), "status": (task.get("status") or {}).get("state")}
    for filters in (*({name: value} for name, value in of_task.items() if value), {}):
        pages = await walk(ctx, 100, most=ALL_PAGES, ask=lambda params: as_other(ctx, "ListTasks", params), **filters)
        wrong = [page for page in pages if task["id"] in ids_of(page)]
        if wrong:
            asked = f"with {', '.join(filters)}" if filters else "without contextId"
            found = f"another user's list has a task that the first one made, {asked}"
            ctx.fail(found, *wrong[:1], pointer="/tasks")
            return
        # Without this filter other checks may make tasks of that user meanwhile.
        if "contextId" in filters and pages:
            seen, total = {id for page in pages for id in ids_of(page)}, member(pages[0], "totalSize")
            if isinstance(total, int) and total > len(seen):
                found = f"another user's list counts {total} tasks in a context where it shows {len(seen)}"
                ctx.fail(found, pages[0], pointer="/totalSize")
                return


async def bindings_demand_the_same(ctx: Context) -> None:
    """A request that one binding refuses is refused by the others, too."""
    here = await ctx.call("SendMessage", ctx.send_params(), auth=False)
    for other in ctx.siblings():
        there = await other.call("SendMessage", other.send_params(), auth=False)
        if there.is_refused and not here.is_refused:
            found = f"without credentials {other.binding} refuses, {ctx.binding} does not: {here.describe()}"
            ctx.fail(found, here, there)
            return


async def traffic_is_encrypted(ctx: Context) -> None:
    """Addresses that are not this machine's use TLS."""
    facts = judge_url(ctx.target.url, (), authority=True)
    # Loopback needs no encryption: nothing leaves the machine.
    if facts.reach == "loopback":
        return
    if facts.is_plain:
        expected = "https, or TLS for gRPC"
        ctx.fail(f"{ctx.target.url} is not encrypted", pointer="/supportedInterfaces", expected=expected)


async def encryption_is_up_to_date(ctx: Context) -> None:
    """A request over TLS 1.2 or later, with a certificate that is verified, works."""
    if urllib.parse.urlsplit(ctx.target.url).scheme not in ("https", "grpcs"):
        ctx.skip("the interface does not use TLS")
    if not ctx.target.network.verify:
        ctx.skip("the verification of certificates is switched off")
    # The TLS library refuses older versions and certificates that it cannot verify.
    reply = await ctx.get_task(ctx.unknown_id())
    if reply.status is None:
        ctx.fail(f"no request got through: {reply.describe()}", reply)
