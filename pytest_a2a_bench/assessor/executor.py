"""The A2A AgentExecutor: accept a request, let it wait, run its assessment, stream progress, and return the result.

A caller's limits hold for all processes that share a results directory. The record of an assessment says that it runs,
and that is its permit: it is written under a lock of the directory, after those of the same caller were counted, and
ends with the assessment, whichever process runs that by then.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import logging
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Message, Part, Task, TaskState
from a2a.utils.errors import InvalidParamsError
from filelock import FileLock, Timeout
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value

from pytest_a2a_bench import tracing
from pytest_a2a_bench.agents.executor import read_part, submitted
from pytest_a2a_bench.assessor import result
from pytest_a2a_bench.assessor.assessment import Assessment, AssessmentFailed, Concluded, Stopped
from pytest_a2a_bench.assessor.monitoring import Logged, Monitor
from pytest_a2a_bench.assessor.request import BadRequest, Request, parse
from pytest_a2a_bench.assessor.terms import Plan, Terms, known_domains, plan
from pytest_a2a_bench.redact import KNOWN, redact_url
from pytest_a2a_bench.results import assessments as records
from pytest_a2a_bench.results import lock
from pytest_a2a_bench.results.assessments import Kept, Record
from pytest_a2a_bench.results.lock import Lock
from pytest_a2a_bench.results.store import StoreError
from pytest_a2a_bench.text import sanitise
from pytest_a2a_bench.tracing import NO_SPAN, NO_TRACING, Span, Tracing, Within, context_of
from pytest_a2a_bench.trials.observers import Traced

SILENCE = 15.0
"""Seconds after which a caller gets an update, if there is nothing new: gateways give up on silent streams."""

LOOK = 1.0
"""Seconds between two readings of the records, while an assessment waits."""

_PATIENCE = 10.0
"""Most seconds to wait for the lock, which a process keeps for as long as it counts."""


class Queue:
    """Assessments in the order in which they came. Belongs to one event loop.

    :param is_shared: whether other processes run assessments in the same directory.
    :ivar waiting: name -> caller, of the assessments that wait in this process; ``running`` of those that run in it.
    """

    def __init__(self, terms: Terms, kept: Kept, *, is_shared: bool) -> None:
        self._terms = terms
        self._kept = kept
        self._is_shared = is_shared
        self.waiting: dict[str, str] = {}
        self.running: dict[str, str] = {}
        self._elsewhere: Counter[str] = Counter()
        self._changed = asyncio.Event()
        self._reading: asyncio.Task[list[Record]] | None = None

    async def join(self, record: Record, *, again: bool) -> None:
        """Let an assessment wait; its record says already that it does.

        :param again: whether it was in a queue before a restart, so that it is not refused.
        :raises BadRequest: if its caller has too many that wait.
        """
        waiting = sum(caller == record.caller for caller in self.waiting.values())
        if self._is_shared:
            # Each counts those before it, so that of two who come at once on two processes one is the first.
            waiting += sum(
                other.state == "waiting"
                and other.caller == record.caller
                and not self._is_here(other)
                and (other.submitted, other.name) < (record.submitted, record.name)
                for other in await asyncio.to_thread(self._kept.all)
            )
        if waiting >= self._terms.waiting and not again and not self._has_room(record.caller):
            raise BadRequest(
                [f"{waiting} of your assessments wait already, the limit here; ask again when one of them has ended"]
            )
        self.waiting[record.name] = record.caller

    async def wait(self, record: Record, tell: Callable[[str], Awaitable[None]]) -> Record:
        """Wait until an assessment may run, and return its record, which then says so.

        :param tell: gets the number of assessments before this one, as a sentence.
        """
        last = float("-inf")
        while True:
            changed = self._changed
            if next((name for name, caller in self.waiting.items() if self._has_room(caller)), None) == record.name:
                self.running[record.name] = self.waiting.pop(record.name)
                self._wake()
                running = dataclasses.replace(record, state="running")
                refused = await asyncio.to_thread(self._permit, running)
                if refused is None:
                    return running
                self.waiting = {record.name: self.running.pop(record.name), **self.waiting}
                self._note(refused)
                continue
            if time.monotonic() - last >= SILENCE:
                await tell(f"waiting: {list(self.waiting).index(record.name)} before this one")
                last = time.monotonic()
            with contextlib.suppress(OSError, TimeoutError):  # a directory that comes back
                if self._is_shared:
                    self._note(await self._next_reading())
                else:
                    await asyncio.wait_for(changed.wait(), last + SILENCE - time.monotonic())

    def leave(self, record: Record) -> None:
        """Take an assessment out, whether it runs or waits. Safe to call again."""
        self.running.pop(record.name, None)
        self.waiting.pop(record.name, None)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _has_room(self, caller: str) -> bool:
        mine = self._elsewhere[caller] + sum(other == caller for other in self.running.values())
        return len(self.running) < self._terms.at_once and mine < self._terms.per_caller

    def _is_here(self, record: Record) -> bool:
        return record.name in self.running or record.name in self.waiting

    # -- other processes --

    def _note(self, found: list[Record]) -> None:
        """Count each caller's assessments that run in other processes."""
        self._elsewhere = Counter(one.caller for one in found if one.state == "running" and not self._is_here(one))

    async def _next_reading(self) -> list[Record]:
        """Wait for the next reading of the records, which all that wait share."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
        return await asyncio.shield(self._reading)

    async def _read(self) -> list[Record]:
        await asyncio.sleep(LOOK)
        return await asyncio.to_thread(self._kept.all)

    def _permit(self, record: Record) -> list[Record] | None:
        """Write that an assessment runs, or return the records where its caller has as many that run as may."""
        directory = self._terms.directory(record.name)
        if not self._is_shared:
            record.write(directory)
            return None
        try:
            with FileLock(self._terms.results / ".admission.lock", timeout=_PATIENCE):
                found = self._kept.all()
                others = (one for one in found if one.state == "running" and one.name != record.name)
                if sum(one.caller == record.caller for one in others) >= self._terms.per_caller:
                    return found
                record.write(directory)
                return None
        except Timeout:
            return self._kept.all()


log = logging.getLogger(__name__)

OWNER = "a2a-bench assess"
"""Who holds the locks of the directories of assessments."""

Look = Callable[[str, str], Awaitable[Task | None]]
"""Returns the stored task of an assessment, by its name and its caller's; None if there is none."""

ENDED = (
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_CANCELED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_REJECTED,
)
"""States from which no task comes back."""

_TICK = 0.5
_GAP = 2.0
"""Least seconds between two updates; of a long assessment they come less often, since the task keeps all of them."""

_STORING = 120.0
"""Most seconds for the last event of a task to be stored."""

_LONGEST = 4000


class AssessmentExecutor(AgentExecutor):
    """Runs an assessment for each A2A task. Belongs to one event loop.

    Each assessment is run by one process, which has the lock of its directory until it has ended, or the process has.

    :param look: returns a stored task.
    :param is_shared: whether other processes serve the same tasks, and may cancel assessments of this one.
    :ivar kept: the records of all assessments, those of other processes too.
    :ivar running: the assessments that run or wait here, by name.
    :ivar at_work: names of those whose request is being carried out, from its reading on.
    :ivar is_closing: whether the process ends, so that assessments that stop now go on after the next start.
    """

    def __init__(
        self,
        terms: Terms,
        monitor: Monitor,
        look: Look,
        *,
        is_shared: bool = False,
        environ: Mapping[str, str] = os.environ,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        self.terms = terms
        self.kept = Kept(terms.results)
        self.running: dict[str, Assessment] = {}
        self.at_work: set[str] = set()
        self.is_closing = False
        self._monitor = monitor
        self._look = look
        self._sees_tasks = True
        self._is_shared = is_shared
        self._environ = environ
        self._tracing = tracing
        self._claims: dict[str, Lock] = {}
        self._queue = queue = Queue(terms, self.kept, is_shared=is_shared)
        monitor.watch(lambda: len(queue.running), lambda: len(queue.waiting))

    # -- A2A --

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Carry a request out, or one that was interrupted."""
        message, name, context_id = context.message, context.task_id, context.context_id
        if message is None or name is None or context_id is None or not records.is_name(name):
            raise InvalidParamsError(message="a message is needed")
        updater = _Updater(event_queue, name, context_id)
        self.at_work.add(name)
        try:
            if context.current_task is None:
                await event_queue.enqueue_event(submitted(message, name, context_id))
                # From here on it is not lost, even if this process is killed.
                self.claim(name)
                call = context.call_context
                trace = context_of(call.state.get("headers", {}))
                asked = MessageToDict(message)
                record = Record(name, call.user.user_name, asked, {}, submitted=time.time(), trace=trace)
                self._write(record)
            else:
                record = records.read(self.terms.directory(name))
                if record.state not in records.UNFINISHED or not (self.claim(name) or name in self._claims):
                    return  # it has ended since it was sent again, or another process has it
            await self._carry_out(record, message, updater)
        finally:
            self.at_work.discard(name)
            if name not in self.running:  # else its thread has not ended
                self.give_back(name)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Stop an assessment; its trials in flight end by themselves."""
        name, context_id = context.task_id, context.context_id
        if name is not None and context_id is not None:
            if name in self.running:
                self.running[name].stop()
            await TaskUpdater(event_queue, name, context_id).cancel()

    def claim(self, name: str) -> bool:
        """Take an assessment for this process, and return whether it was free to be taken."""
        if self.is_closing or name in self._claims:
            return False
        try:
            self._claims[name] = lock.take(self.terms.directory(name), OWNER)
        except StoreError:
            return False
        return True

    def give_back(self, name: str) -> None:
        """Let other processes have an assessment. Safe to call again."""
        claim = self._claims.pop(name, None)
        if claim is not None:
            claim.release()

    @property
    def idle(self) -> frozenset[str]:
        """Assessments that this process has and does not work on: on their way here, or lost on it."""
        return frozenset(self._claims).difference(self.at_work, self.running)

    def close(self) -> None:
        """Stop everything, so that it can be taken up again."""
        self.is_closing = True
        log.info("stopping", extra={"interrupted": len(self._queue.running), "waiting": len(self._queue.waiting)})
        for assessment in list(self.running.values()):
            assessment.stop()

    # -- one assessment --

    async def _carry_out(self, record: Record, message: Message, updater: _Updater) -> None:
        """Read a request, unless that was done before a restart, and run its assessment."""
        is_new = not record.request
        try:
            if is_new:
                domains = await asyncio.to_thread(known_domains)
                request = parse([read_part(part) for part in message.parts], domains)
            else:
                request = Request.from_json(record.request)
                # Else it would count as one that runs.
                record = self._write(dataclasses.replace(record, state="waiting"))
            planned = await asyncio.to_thread(plan, request, self.terms, self._environ)
            await self._queue.join(record, again=not is_new)
        except BadRequest as error:
            await self._refuse(record, error.problems, updater)
            return
        except asyncio.CancelledError:
            self._end_canceled(record)
            raise
        agent = redact_url(request.agent, query=False)
        about = {"assessment": record.name, "caller": record.caller, "domain": request.domain, "agent": agent}
        log.info("assessment accepted" if is_new else "assessment taken up again", extra=about)
        attributes = tracing.assessment_start(record.name, request.evaluation, request.domain, len(planned.keys))
        span = self._tracing.asked(f"assess {request.domain or request.evaluation}", attributes, record.trace)
        try:
            if is_new:
                # A process that takes it up again goes on in the same trace.
                trace = record.trace or span.headers()
                record = self._write(dataclasses.replace(record, request=request.to_json(), trace=trace))
            await self._assess(record, planned, updater, span)
        finally:
            span.end()

    async def _refuse(self, record: Record, problems: Sequence[str], updater: _Updater) -> None:
        """Reject a request, of which nothing is kept; one that was accepted before a restart fails."""
        if record.request:
            await self._fail(record, updater, f"it cannot be taken up again: {'; '.join(problems)}")
            return
        self._monitor.note_rejection(record.name, problems)
        text = f" {problems[0]}" if len(problems) == 1 else "".join(f"\n- {problem}" for problem in problems)
        await updater.reject(updater.text(f"This request cannot be carried out:{text}"))
        if await self._is_stored(record):
            await asyncio.to_thread(shutil.rmtree, self.terms.directory(record.name), ignore_errors=True)

    async def _assess(self, record: Record, planned: Plan, updater: _Updater, span: Span) -> None:
        name = record.name
        assessment = Assessment(
            name,
            planned,
            self.terms,
            self._environ,
            lambda trial: self._monitor.note_trial(name, trial),
            (Traced(Within(span), name), Logged(assessment=name)),
        )
        self.running[name] = assessment
        ended: asyncio.Future[Concluded] | None = None
        try:
            running = await self._queue.wait(record, updater.tell)
            what = "the protocol" if planned.is_protocol else f"{planned.request.domain}, {len(planned.keys)} trials"
            await updater.tell(f"{what}: begun")
            ended = _in_thread(assessment)
            await self._complete(running, await self._follow(record, assessment, ended, updater), updater, span)
        except AssessmentFailed as error:
            await self._fail(record, updater, str(error), span)
        except (asyncio.CancelledError, Stopped):
            assessment.stop()
            span.set(tracing.assessment_end("interrupted" if self.is_closing else "canceled"))
            self._end_canceled(record)
            raise asyncio.CancelledError from None
        except Exception as error:
            assessment.stop()
            if self.is_closing:  # no caller can be reached any more; it goes on later
                raise
            log.exception("assessment broke", extra={"assessment": name})
            kind = type(error).__name__
            await self._fail(record, updater, f"the assessor itself broke ({kind})", span, kind)
        finally:
            self._leave(record, ended)

    async def _follow(
        self, record: Record, assessment: Assessment, ended: asyncio.Future[Concluded], updater: _Updater
    ) -> Concluded:
        """Send updates of progress until an assessment has ended, and return its outcome."""
        sent, began = "", time.monotonic()
        last = began
        while not ended.done():
            await asyncio.wait({ended}, timeout=_TICK)
            if self._is_shared and await self._state(record) == TaskState.TASK_STATE_CANCELED:
                raise Stopped(record.name)
            now, text = time.monotonic(), assessment.progress.text
            gap = min(SILENCE, max(_GAP, (now - began) / 60))
            if ended.done() or now - last < (gap if text != sent else SILENCE):
                continue
            # Where the database is behind, more to store would not make it quicker.
            if not sent or sent in await self._status_text(record):
                await updater.tell(text)
                sent, last = text, now
        return ended.result()

    async def _complete(self, record: Record, found: Concluded, updater: _Updater, span: Span) -> None:
        data = await asyncio.to_thread(result.data, found)
        span.set(tracing.assessment_end("completed", data.get("score"), data.get("max_score")))
        text = await asyncio.to_thread(result.summary, found)
        parts = [
            Part(text=_clean(text), media_type="text/plain"),
            Part(data=ParseDict(KNOWN.hide_in(dict(data)), Value()), media_type="application/json"),
        ]
        # One id: the result of an assessment that was killed before its end, and goes on, replaces the earlier one.
        await updater.add_artifact(parts, artifact_id="result", name=result.NAME, last_chunk=True)
        await updater.complete()
        await self._end_once_stored(record.concluded("completed", text, data))

    async def _fail(
        self, record: Record, updater: _Updater, text: str, span: Span = NO_SPAN, error: str = "AssessmentFailed"
    ) -> None:
        span.set(tracing.assessment_end("failed"))
        span.fail(error)
        await updater.failed(updater.text(text))
        await self._end_once_stored(record.concluded("failed", text))

    def _leave(self, record: Record, ended: asyncio.Future[Concluded] | None) -> None:
        """Leave the queue once the thread has ended, which after a cancellation takes a moment."""

        def leave(future: asyncio.Future[Concluded] | None = None) -> None:
            if future is not None and not future.cancelled():
                future.exception()  # else asyncio logs that it was never retrieved
            self.running.pop(record.name, None)
            self._queue.leave(record)
            self.give_back(record.name)

        if ended is None or ended.done():
            leave(ended)
        else:
            ended.add_done_callback(leave)

    # -- records and stored tasks --

    def _write(self, record: Record) -> Record:
        record.write(self.terms.directory(record.name))
        return record

    def _end(self, record: Record) -> None:
        self._monitor.note_end(self._write(record))

    def _end_canceled(self, record: Record) -> None:
        if not self.is_closing:
            self._end(record.concluded("canceled", "canceled by its caller"))

    async def _end_once_stored(self, record: Record) -> None:
        """Write an assessment's end, but not before its task's: a process that ends between would lose the result.

        Where the task's end cannot be stored, the assessment stays unfinished, and is taken up again.
        """
        if await self._is_stored(record):
            self._end(record)

    async def _is_stored(self, record: Record) -> bool:
        """Wait until the end of an assessment's task is stored, and return whether it is."""
        deadline = time.monotonic() + _STORING
        while await self._state(record) not in ENDED:
            if time.monotonic() > deadline:
                log.error("the end of an assessment was not stored", extra={"assessment": record.name})
                return False
            await asyncio.sleep(0.02)
        return True

    async def _task(self, record: Record) -> Task | None:
        """Return a stored task; None where the database does not answer now, too."""
        try:
            found = await self._look(record.name, record.caller)
        except Exception as error:  # each driver has its own
            if self._sees_tasks:
                log.warning("the database does not answer", extra={"reason": type(error).__name__})
            self._sees_tasks = False
            return None
        self._sees_tasks = True
        return found

    async def _state(self, record: Record) -> int | None:
        task = await self._task(record)
        return None if task is None else task.status.state

    async def _status_text(self, record: Record) -> str:
        task = await self._task(record)
        return "" if task is None else "".join(part.text for part in task.status.message.parts)


class _Updater(TaskUpdater):
    """Writes updates of a task, without secrets and control characters."""

    async def tell(self, text: str) -> None:
        """Send an update of progress."""
        await self.start_work(self.text(text))

    def text(self, text: str) -> Message:
        """Return a message of the assessor."""
        return self.new_agent_message([Part(text=_clean(text), media_type="text/plain")])


def _clean(text: str) -> str:
    shown = sanitise(KNOWN.hide(text))
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]} ..."


def _in_thread(assessment: Assessment) -> asyncio.Future[Concluded]:
    """Run an assessment in a daemon thread, which no end of the process waits for."""
    future: concurrent.futures.Future[Concluded] = concurrent.futures.Future()
    future.set_running_or_notify_cancel()  # else a cancellation of the awaiting side would cancel it

    def work() -> None:
        try:
            future.set_result(assessment.run())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, name=f"assessment-{assessment.name[:8]}", daemon=True).start()
    return asyncio.wrap_future(future)
