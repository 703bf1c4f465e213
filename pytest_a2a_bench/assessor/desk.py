"""Between A2A and assessments: takes a request in, tells its caller how far it is, and hands the result over."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part as WirePart
from a2a.utils.errors import InvalidParamsError
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value

from pytest_a2a_bench.agents.executor import read_part
from pytest_a2a_bench.assessor import result
from pytest_a2a_bench.assessor.assessment import Assessment, AssessmentFailed, Concluded, Stopped
from pytest_a2a_bench.assessor.monitoring import Monitor
from pytest_a2a_bench.assessor.request import BadRequest, Request, parse
from pytest_a2a_bench.assessor.slots import Full, Place, Slots
from pytest_a2a_bench.assessor.terms import Plan, Terms, known_domains, plan
from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.redact import one_line, sanitise
from pytest_a2a_bench.results import assessments as records
from pytest_a2a_bench.results import lock
from pytest_a2a_bench.results.assessments import Record
from pytest_a2a_bench.results.lock import Lock
from pytest_a2a_bench.results.store import StoreError
from pytest_a2a_bench.secret import KNOWN

log = logging.getLogger(__name__)

_TICK = 0.5
_SILENCE = 15.0
"""Seconds after which a caller hears something, if there is nothing new: gateways give up on silent streams."""
_GAP = 2.0
"""Least seconds between two updates; of a long assessment they come less often, since the task keeps all of them."""

_LONGEST = 4000

OWNER = "a2a-bench assess"
"""Who holds the lock of an assessment's directory."""

IsCanceled = Callable[[str, str], Awaitable[bool]]
"""Tells whether an assessment, by its name and its caller's, was cancelled where it does not run."""


class Desk(AgentExecutor):
    """The assessor's work. Belongs to one event loop.

    Each assessment is held by one process, which has the lock of its directory until it has ended, or the process has.

    :param is_canceled: asked now and then, where other processes serve the same tasks.
    :ivar running: the assessments that run or wait here, by name.
    :ivar is_closing: whether the process ends, so that what is stopped now goes on later.
    """

    def __init__(
        self,
        terms: Terms,
        monitor: Monitor,
        is_canceled: IsCanceled | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.terms = terms
        self._is_canceled = is_canceled
        self._claims: dict[str, Lock] = {}
        self._monitor = monitor
        self.slots = Slots(terms.at_once, terms.per_caller, terms.waiting)
        self.running: dict[str, Assessment] = {}
        self._environ = environ
        self.is_closing = False
        monitor.watch(lambda: self.slots.running, lambda: self.slots.waiting)

    # -- A2A --

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Carry a request out, or one that was interrupted."""
        message, name, context_id = context.message, context.task_id, context.context_id
        if message is None or name is None or context_id is None or not records.is_name(name):
            raise InvalidParamsError(message="a message is needed")
        teller = Teller(TaskUpdater(event_queue, name, context_id))
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(message))
        elif name in self._claims and (known := self._record(name)) is not None:
            await self._take_up(known, teller)
            return
        caller = context.call_context.user.user_name if context.call_context is not None else ""
        try:
            domains = await asyncio.to_thread(known_domains)
            request = parse([read_part(part) for part in message.parts], domains)
            planned = await asyncio.to_thread(plan, request, self.terms, self._environ)
            place = self.slots.take(caller)
        except (BadRequest, Full) as error:
            problems = error.problems if isinstance(error, BadRequest) else (str(error),)
            await teller.reject(problems)
            return
        self.claim(name)
        record = Record(name, caller, MessageToDict(message), request.to_json(), submitted=time.time())
        record.write(self.terms.directory(name))
        log.info("assessment accepted", extra={"assessment": name, "caller": caller, "domain": request.domain})
        await self._assess(record, planned, place, teller)

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

    def close(self) -> None:
        """Stop everything, so that it can be taken up again."""
        self.is_closing = True
        for assessment in list(self.running.values()):
            assessment.stop()

    # -- one assessment --

    async def _take_up(self, record: Record, teller: Teller) -> None:
        """Go on with an assessment that a restart interrupted."""
        try:
            planned = await asyncio.to_thread(plan, Request.from_json(record.request), self.terms, self._environ)
        except BadRequest as error:
            await self._conclude_failed(record, teller, f"it cannot be taken up again: {error}")
            self.give_back(record.name)
            return
        log.info("assessment taken up again", extra={"assessment": record.name, "caller": record.caller})
        await self._assess(record, planned, self.slots.take(record.caller, again=True), teller)

    async def _assess(self, record: Record, planned: Plan, place: Place, teller: Teller) -> None:
        name, directory = record.name, self.terms.directory(record.name)
        assessment = Assessment(name, planned, self.terms, self._environ, lambda trial: self._note_trial(name, trial))
        self.running[name] = assessment
        ended: asyncio.Future[Concluded] | None = None
        try:
            await self._wait_for_place(place, teller)
            running = dataclasses.replace(record, state="running")
            running.write(directory)
            await teller.tell(f"{_describe(planned)}: begun")
            ended = _in_thread(assessment)
            found = await self._follow(record, assessment, ended, teller)
            await self._conclude(running, found, teller)
        except AssessmentFailed as error:
            await self._conclude_failed(record, teller, str(error))
        except (asyncio.CancelledError, Stopped):
            assessment.stop()
            if not self.is_closing:
                self._end(record.concluded("canceled", "canceled by its caller"))
            raise asyncio.CancelledError from None
        except Exception as error:
            log.exception("assessment broke", extra={"assessment": name})
            await self._conclude_failed(record, teller, f"the assessor itself broke ({type(error).__name__})")
        finally:
            self._leave(name, place, ended)

    async def _wait_for_place(self, place: Place, teller: Teller) -> None:
        while not place.runs.is_set():
            await teller.tell(f"waiting: {place.ahead} before this one")
            try:
                await asyncio.wait_for(place.runs.wait(), _SILENCE)
            except TimeoutError:
                continue

    async def _follow(
        self, record: Record, assessment: Assessment, ended: asyncio.Future[Concluded], teller: Teller
    ) -> Concluded:
        said, began = "", time.monotonic()
        last = began
        while not ended.done():
            await asyncio.wait({ended}, timeout=_TICK)
            if self._is_canceled is not None and await self._is_canceled(record.name, record.caller):
                raise Stopped(record.name)
            now, text = time.monotonic(), assessment.progress.text
            gap = min(_SILENCE, max(_GAP, (now - began) / 60))
            if ended.done() or now - last < (gap if text != said else _SILENCE):
                continue
            await teller.tell(text)
            said, last = text, now
        return ended.result()

    async def _conclude(self, record: Record, found: Concluded, teller: Teller) -> None:
        told = await asyncio.to_thread(result.data, found)
        text = await asyncio.to_thread(result.summary, found)
        self._end(record.concluded("completed", text, told))
        await teller.complete(text, told)

    async def _conclude_failed(self, record: Record, teller: Teller, text: str) -> None:
        self._end(record.concluded("failed", text))
        await teller.fail(text)

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

    def _record(self, name: str) -> Record | None:
        try:
            return records.read(self.terms.directory(name))
        except FileNotFoundError:
            return None

    def _end(self, record: Record) -> None:
        """Keep an assessment's end, and tell whoever watches."""
        record.write(self.terms.directory(record.name))
        seconds = (record.ended or record.submitted) - record.submitted
        self._monitor.note_end(str(record.request["evaluation"]), record.state, seconds)
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


class Teller:
    """Tells one caller, without secrets and control characters."""

    def __init__(self, updater: TaskUpdater) -> None:
        self._updater = updater

    async def tell(self, text: str) -> None:
        """Say how far it is."""
        await self._updater.start_work(self._message(text))

    async def reject(self, problems: tuple[str, ...]) -> None:
        """Refuse a request, with everything that is wrong with it."""
        text = f" {problems[0]}" if len(problems) == 1 else "".join(f"\n- {problem}" for problem in problems)
        await self._updater.reject(self._message(f"This request cannot be carried out:{text}"))

    async def fail(self, text: str) -> None:
        """Say that there is no result, and why."""
        await self._updater.failed(self._message(text))

    async def complete(self, text: str, told: Mapping[str, Any]) -> None:
        """Hand the result over."""
        parts = [
            WirePart(text=_clean(text), media_type="text/plain"),
            WirePart(data=ParseDict(KNOWN.hide_in(dict(told)), Value()), media_type="application/json"),
        ]
        await self._updater.add_artifact(parts, name=result.NAME, last_chunk=True)
        await self._updater.complete()

    def _message(self, text: str) -> Any:
        return self._updater.new_agent_message([WirePart(text=_clean(text), media_type="text/plain")])


def _clean(text: str) -> str:
    shown = sanitise(KNOWN.hide(text))
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]} ..."


def _describe(planned: Plan) -> str:
    if not planned.keys:
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
