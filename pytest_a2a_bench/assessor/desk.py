"""Between A2A and assessments: takes a request in, tells its caller how far it is, and hands the result over."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import shutil
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Task, TaskState
from a2a.utils.errors import InvalidParamsError
from google.protobuf.json_format import MessageToDict

from pytest_a2a_bench.agents.executor import read_part
from pytest_a2a_bench.assessor import result
from pytest_a2a_bench.assessor.admission import OWNER, SILENCE, Admission, Watch
from pytest_a2a_bench.assessor.assessment import Assessment, AssessmentFailed, Concluded, Stopped
from pytest_a2a_bench.assessor.monitoring import Monitor
from pytest_a2a_bench.assessor.request import BadRequest, Request, parse
from pytest_a2a_bench.assessor.slots import Full, Place
from pytest_a2a_bench.assessor.teller import Teller
from pytest_a2a_bench.assessor.terms import Plan, Terms, known_domains, plan
from pytest_a2a_bench.assessor.watching import Watching
from pytest_a2a_bench.model import Part, TrialResult
from pytest_a2a_bench.redact import one_line
from pytest_a2a_bench.results import assessments as records
from pytest_a2a_bench.results import lock
from pytest_a2a_bench.results.assessments import Kept, Record
from pytest_a2a_bench.results.lock import Lock
from pytest_a2a_bench.results.store import StoreError
from pytest_a2a_bench.tracing import NO_SPAN, NO_TRACING, Span, Tracing, Within, context_of, names

log = logging.getLogger(__name__)

_TICK = 0.5
_GAP = 2.0
"""Least seconds between two updates; of a long assessment they come less often, since the task keeps all of them."""

Look = Callable[[str, str], Awaitable[Task | None]]
"""Returns the stored task of an assessment, by its name and its caller's; None if there is none or nobody knows."""

ENDED = (
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_CANCELED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_REJECTED,
)
"""States from which no task comes back."""

_PERSISTING = 120.0
"""Most seconds for the last event of a task to be stored."""


class Desk(AgentExecutor):
    """The assessor's work. Belongs to one event loop.

    Each assessment is held by one process, which has the lock of its directory until it has ended, or the process has.

    :param look: looks at a stored task.
    :param is_shared: whether other processes serve the same tasks, and may cancel what runs here.
    :ivar watch: reads what is kept of all assessments, those of other processes too.
    :ivar running: the assessments that run or wait here, by name.
    :ivar at_work: names of those whose request is being carried out, from its reading on.
    :ivar is_closing: whether the process ends, so that what is stopped now goes on later.
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
        self._look = look
        self._is_shared = is_shared
        self._claims: dict[str, Lock] = {}
        self._monitor = monitor
        self.watch = Watch(Kept(terms.results))
        self._admission = Admission(terms, self.watch, is_shared=is_shared)
        self.slots = self._admission.slots
        self.running: dict[str, Assessment] = {}
        self.at_work: set[str] = set()
        self._environ = environ
        self._tracing = tracing
        self.is_closing = False
        monitor.watch(lambda: self.slots.running, lambda: self.slots.waiting)

    # -- A2A --

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Carry a request out, or one that was interrupted."""
        message, name, context_id = context.message, context.task_id, context.context_id
        if message is None or name is None or context_id is None or not records.is_name(name):
            raise InvalidParamsError(message="a message is needed")
        self.at_work.add(name)
        try:
            teller = Teller(TaskUpdater(event_queue, name, context_id))
            if context.current_task is None:
                await event_queue.enqueue_event(new_task_from_user_message(message))
                call = context.call_context
                trace = context_of(call.state.get("headers", {}))
                # From here on it is not lost, whatever becomes of this process.
                self.claim(name)
                asked = MessageToDict(message)
                record = Record(name, call.user.user_name, asked, {}, submitted=time.time(), trace=trace)
                record.write(self.terms.directory(name))
            else:
                record = records.read(self.terms.directory(name))
                if record.state not in records.UNFINISHED or not (self.claim(name) or name in self._claims):
                    return  # it has ended since it was sent again, or another process has it
            await self._begin(record, [read_part(part) for part in message.parts], teller)
        finally:
            self.at_work.discard(name)
            if name not in self.running:  # else its thread has not ended
                self.give_back(name)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Stop an assessment; what it has in flight ends by itself."""
        name, context_id = context.task_id, context.context_id
        if name is None or context_id is None:
            return
        self._stop(name)
        await TaskUpdater(event_queue, name, context_id).cancel()

    def claim(self, name: str) -> bool:
        """Take an assessment for this process, and tell whether it is free to be taken."""
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
        """Assessments that are this process's and that it does not work on: on their way here, or lost on it."""
        return frozenset(self._claims).difference(self.at_work, self.running)

    def close(self) -> None:
        """Stop everything, so that it can be taken up again."""
        self.is_closing = True
        for assessment in list(self.running.values()):
            assessment.stop()

    # -- one assessment --

    async def _begin(self, record: Record, parts: Sequence[Part], teller: Teller) -> None:
        """Read a request, unless that was done before a restart, and carry it out."""
        is_known = bool(record.request)
        try:
            domains = await asyncio.to_thread(known_domains)
            request = Request.from_json(record.request) if is_known else parse(parts, domains)
            planned = await asyncio.to_thread(plan, request, self.terms, self._environ)
            if is_known:  # else it would count as one that runs
                record = dataclasses.replace(record, state="waiting")
                record.write(self.terms.directory(record.name))
            place = await self._admission.take(record, again=is_known)
        except (BadRequest, Full) as error:
            await self._refuse(record, error.problems if isinstance(error, BadRequest) else (str(error),), teller)
            return
        except asyncio.CancelledError:
            if not self.is_closing:
                self._end(record.concluded("canceled", "canceled by its caller"))
            raise
        told = {"assessment": record.name, "caller": record.caller, "domain": request.domain}
        log.info("assessment taken up again" if is_known else "assessment accepted", extra=told)
        what = request.domain or request.evaluation
        about = names.assessment_start(record.name, request.evaluation, request.domain, len(planned.keys))
        span = self._tracing.asked(f"assess {what}", about, record.trace)
        try:
            if not is_known:
                # Whoever takes it up again goes on in the same trace, whoever began that.
                record = dataclasses.replace(record, request=request.to_json(), trace=record.trace or span.headers())
                record.write(self.terms.directory(record.name))
            await self._assess(record, planned, place, teller, span)
        finally:
            span.end()

    async def _refuse(self, record: Record, problems: tuple[str, ...], teller: Teller) -> None:
        """Reject a request, of which nothing is kept; what was accepted before a restart fails."""
        if record.request:
            await self._conclude_failed(record, teller, f"it cannot be taken up again: {'; '.join(problems)}")
        else:
            self._monitor.note_rejection()
            log.info("request rejected", extra={"assessment": record.name, "problems": len(problems)})
            await teller.reject(problems)
            if await self._is_stored(record):
                await asyncio.to_thread(shutil.rmtree, self.terms.directory(record.name), ignore_errors=True)

    async def _assess(self, record: Record, planned: Plan, place: Place, teller: Teller, span: Span) -> None:
        name = record.name
        watching = Watching(Within(span), name)
        assessment = Assessment(
            name, planned, self.terms, self._environ, lambda trial: self._note_trial(name, trial), watching
        )
        self.running[name] = assessment
        ended: asyncio.Future[Concluded] | None = None
        try:
            running = await self._admission.wait(record, place, teller.tell)
            await teller.tell(f"{_describe(planned)}: begun")
            ended = _in_thread(assessment)
            found = await self._follow(record, assessment, ended, teller)
            await self._conclude(running, found, teller, span)
        except AssessmentFailed as error:
            await self._conclude_failed(record, teller, str(error), span)
        except (asyncio.CancelledError, Stopped):
            assessment.stop()
            span.set(names.assessment_end("interrupted" if self.is_closing else "canceled"))
            if not self.is_closing:
                self._end(record.concluded("canceled", "canceled by its caller"))
            raise asyncio.CancelledError from None
        except Exception as error:
            assessment.stop()
            if self.is_closing:  # nobody can be told any more; it goes on later
                raise
            log.exception("assessment broke", extra={"assessment": name})
            told = f"the assessor itself broke ({type(error).__name__})"
            await self._conclude_failed(record, teller, told, span, type(error).__name__)
        finally:
            self._leave(name, place, ended)

    async def _follow(
        self, record: Record, assessment: Assessment, ended: asyncio.Future[Concluded], teller: Teller
    ) -> Concluded:
        said, began = "", time.monotonic()
        last = began
        while not ended.done():
            await asyncio.wait({ended}, timeout=_TICK)
            if self._is_shared and await self._state(record) == TaskState.TASK_STATE_CANCELED:
                raise Stopped(record.name)
            now, text = time.monotonic(), assessment.progress.text
            gap = min(SILENCE, max(_GAP, (now - began) / 60))
            if ended.done() or now - last < (gap if text != said else SILENCE):
                continue
            if said and not await self._is_told(record, said):
                continue  # the database is behind, and more to store would not make it quicker
            await teller.tell(text)
            said, last = text, now
        return ended.result()

    async def _conclude(self, record: Record, found: Concluded, teller: Teller, span: Span) -> None:
        told = await asyncio.to_thread(result.data, found)
        span.set(names.assessment_end("completed", told.get("score"), told.get("max_score")))
        text = await asyncio.to_thread(result.summary, found)
        await teller.complete(text, told)
        await self._end_once_stored(record.concluded("completed", text, told))

    async def _conclude_failed(
        self, record: Record, teller: Teller, text: str, span: Span = NO_SPAN, error: str = "AssessmentFailed"
    ) -> None:
        span.set(names.assessment_end("failed"))
        span.fail(error)
        await teller.fail(text)
        await self._end_once_stored(record.concluded("failed", text))

    def _leave(self, name: str, place: Place, ended: asyncio.Future[Concluded] | None) -> None:
        """Give the place back once the thread has ended, which after a cancellation takes a moment."""

        def leave(future: asyncio.Future[Concluded] | None = None) -> None:
            if future is not None and not future.cancelled():
                future.exception()  # it was looked at
            self.running.pop(name, None)
            place.give_back()
            self.give_back(name)

        if ended is None or ended.done():
            leave(ended)
        else:
            ended.add_done_callback(leave)

    def _stop(self, name: str) -> None:
        assessment = self.running.get(name)
        if assessment is not None:
            assessment.stop()

    # -- what is kept --

    async def _state(self, record: Record) -> int | None:
        task = await self._look(record.name, record.caller)
        return None if task is None else task.status.state

    async def _is_told(self, record: Record, text: str) -> bool:
        """Tell whether an update is stored, and so on its way to all who wait for it."""
        task = await self._look(record.name, record.caller)
        return task is not None and text in "".join(part.text for part in task.status.message.parts)

    async def _end_once_stored(self, record: Record) -> None:
        """Keep an assessment's end, but not before its task's: a process that ends between would lose the result.

        Where the task's end cannot be stored, the assessment stays unfinished, and is taken up again.
        """
        if await self._is_stored(record):
            self._end(record)

    async def _is_stored(self, record: Record) -> bool:
        """Wait until the end of an assessment's task is stored, and return whether it is."""
        deadline = time.monotonic() + _PERSISTING
        while await self._state(record) not in ENDED:
            if time.monotonic() > deadline:
                log.error("the end of an assessment was not stored", extra={"assessment": record.name})
                return False
            await asyncio.sleep(0.02)
        return True

    def _end(self, record: Record) -> None:
        """Keep an assessment's end, and tell whoever watches."""
        record.write(self.terms.directory(record.name))
        seconds = (record.ended or record.submitted) - record.submitted
        self._monitor.note_end(str(record.request.get("evaluation", "")), record.state, seconds)
        log.info(
            "assessment ended",
            extra={
                "assessment": record.name,
                "caller": record.caller,
                "state": record.state,
                "score": record.score,
                "max_score": record.max_score,
                "seconds": round(seconds, 3),
                "told": one_line(record.summary, 300),
            },
        )

    def _note_trial(self, name: str, trial: TrialResult) -> None:
        self._monitor.note_trial(trial)
        log.info(
            "trial ended",
            extra={
                "assessment": name,
                "trial": str(trial.key),
                "status": trial.status,
                "reward": trial.reward if trial.status == "evaluated" else None,
                "turns": trial.turns,
                "seconds": round(trial.duration, 3),
                "error": trial.error_type,
            },
        )


def _describe(planned: Plan) -> str:
    if planned.is_protocol:
        return "the protocol"
    return f"{planned.request.domain}, {len(planned.keys)} trials"


def _in_thread(assessment: Assessment) -> asyncio.Future[Concluded]:
    """Run an assessment in a thread that nobody has to wait for at the end."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Concluded] = loop.create_future()

    def conclude(found: Concluded | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        elif found is not None:
            future.set_result(found)

    def work() -> None:
        found: Concluded | None = None
        trouble: BaseException | None = None
        try:
            found = assessment.run()
        except BaseException as error:
            trouble = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(conclude, found, trouble)

    threading.Thread(target=work, name=f"assessment-{assessment.name[:8]}", daemon=True).start()
    return future
