"""What checks of one interface have in common: tasks and answers that are made once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_a2a_bench.a2a.messages import TERMINAL
from pytest_a2a_bench.conformance.check import NoAnswer
from pytest_a2a_bench.conformance.protocol.payloads import message_in, spelled_state, state_of, task_in
from pytest_a2a_bench.conformance.session.states import RUNNING
from pytest_a2a_bench.conformance.wire.reply import WireReply

if TYPE_CHECKING:
    from pytest_a2a_bench.conformance.context import Context

T = TypeVar("T")


class SharedObjects:
    """A cache of what was made; concurrent checks wait for one making."""

    def __init__(self) -> None:
        self._made: dict[Any, asyncio.Future[Any]] = {}

    async def once(self, key: Any, make: Callable[[], Awaitable[T]]) -> T:
        # A future and no lock: a failure is remembered too, so that twenty checks do not each wait for the same time-
        # out.
        """Make something once; what making it raised is raised for everyone who wants it."""
        future = self._made.get(key)
        if future is None:
            future = self._made[key] = asyncio.ensure_future(make())
        # Shielded, because the check that asked first may be stopped while others wait.
        result: T = await asyncio.shield(future)
        return result

    def forget_exchanges(self) -> None:
        """Let what shows how the agent behaves be made anew, and what failed; tasks that are over stay as they are."""
        for key in [k for k, made in self._made.items() if _may_go(k, made)]:
            del self._made[key]

    async def close(self) -> None:
        """Stop what is still being made: nobody waits for it any more."""
        for future in self._made.values():
            future.cancel()
        await asyncio.gather(*self._made.values(), return_exceptions=True)

    # A message may cost the agent a model call, so that what is said in the same words is said once.
    async def said(self, ctx: Context, text: str | None) -> WireReply:
        """Return the answer to a message of nothing but a text, the ordinary one for None; said once."""
        text = text if text is not None else ctx.target.scenarios.get("task")
        return await self.once(("said", text), lambda: ctx.send(text))

    async def completed_task(self, ctx: Context) -> Mapping[str, Any]:
        """Return a terminal task."""
        _, tasks = await self.context_with_tasks(ctx, 1)
        return tasks[0]

    async def context_with_tasks(self, ctx: Context, count: int) -> tuple[str, tuple[Mapping[str, Any], ...]]:
        """Return a contextId and at least ``count`` terminal tasks in it."""
        first = await self.once("task", lambda: self._first_task(ctx))
        context_id = str(first.get("contextId") or "")
        tasks = [first]
        # Made one by one, as each waits for its end; a context's tasks must follow each other anyway.
        for number in range(1, count):
            tasks.append(await self._further_task(ctx, context_id, number))
        return context_id, tuple(tasks)

    async def _further_task(self, ctx: Context, context_id: str, number: int) -> Mapping[str, Any]:
        async def make() -> Mapping[str, Any]:
            # A message each, also where the agent gives no contextId.
            return await self._terminal(ctx, await ctx.send(context_id=context_id))

        return await self.once(("task", number), make)

    async def _first_task(self, ctx: Context) -> Mapping[str, Any]:
        return await self._terminal(ctx, await self.said(ctx, None))

    async def _terminal(self, ctx: Context, reply: WireReply) -> Mapping[str, Any]:
        if not reply.ok:
            raise NoAnswer(f"SendMessage gave no result: {reply.describe()}", reply)
        task = task_in(reply.result)
        if task is None:
            ctx.skip('the agent answers with a message, not a task; give a prompt that makes a task: task = "..."')
        return await self._until_terminal(ctx, task)

    async def _until_terminal(self, ctx: Context, task: Mapping[str, Any]) -> Mapping[str, Any]:
        # Together about twelve seconds; an ordinary prompt that takes longer makes no fixture for a hundred checks.
        for attempt in range(8):
            if state_of(task) in TERMINAL:
                return task
            # One that waits for somebody, or is in no state of the protocol's: polling leads nowhere.
            if attempt and state_of(task) not in RUNNING:
                break
            await asyncio.sleep(0.05 * 2**attempt)
            reply = ctx.needed(await ctx.call("GetTask", {"id": task.get("id")}), "GetTask")
            task = task_in(reply.result) or task
        state = spelled_state(task)
        ctx.skip(f"the task for the ordinary prompt does not end (it is {state!r}); give another: task = ...")

    async def message_reply(self, ctx: Context) -> Mapping[str, Any]:
        """Return a direct message of the agent."""

        async def make() -> Mapping[str, Any]:
            text = ctx.target.scenarios.get("message")
            reply = await self.said(ctx, text)
            if not reply.ok:
                raise NoAnswer(f"SendMessage gave no result: {reply.describe()}", reply)
            message = message_in(reply.result)
            if message is None:
                if text is None:
                    # Skips with the advice to name a prompt in the scenarios.
                    ctx.prompt("message")
                ctx.skip("the agent answers the prompt of the scenario 'message' with a task")
            return message

        return await self.once("message", make)

    # Answers that many checks of the data model look at, asked once: each model call of the agent may cost money.
    async def samples(self, ctx: Context) -> tuple[WireReply, ...]:
        """Return ordinary answers of several operations."""

        async def make() -> tuple[WireReply, ...]:
            replies = [await self.said(ctx, None)]
            task = task_in(replies[0].result)
            if task is not None:
                task_id = str(task.get("id"))
                further = [ctx.call("GetTask", {"id": task_id})]
                # 0.3 has no ListTasks.
                if ctx.version != "0.3":
                    context_id = str(task.get("contextId") or "")
                    further.append(ctx.call("ListTasks", {"contextId": context_id, "includeArtifacts": True}))
                replies += await asyncio.gather(*further)
            if ctx.target.declares("streaming"):
                replies.append(await ctx.streamed())
            # Only where the user named a prompt: what an agent makes of ours is luck.
            for key in ("message", "data", "file", "input"):
                prompt = ctx.target.scenarios.get(key)
                if prompt is not None:
                    replies.append(await self.said(ctx, prompt))
            return tuple(replies)

        return await self.once("samples", make)


def _may_go(key: Any, made: asyncio.Future[Any]) -> bool:
    # Only what is made: a check that waits for the making of another goes on.
    if not made.done():
        return False
    is_exchange = isinstance(key, tuple) and key[0] in ("shared", "said")
    return is_exchange or made.cancelled() or made.exception() is not None
