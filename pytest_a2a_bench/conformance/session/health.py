"""Whether an interface is there, still works and answers alike, and how slow it is just now.

What one request broke must not count against the requirements that are judged after it, and a verdict that depends on
time compares with a reference exchange and not with a clock alone: a busy machine makes everything late.
"""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pytest_a2a_bench.a2a.bodies import as_object
from pytest_a2a_bench.conformance.finding import FOUND, CheckResult, Exchange, Finding, Requirement
from pytest_a2a_bench.conformance.protocol.operations import SENDING, message
from pytest_a2a_bench.conformance.protocol.streams import canonical
from pytest_a2a_bench.conformance.target import Target
from pytest_a2a_bench.conformance.wire.exchange import FEWER, MORE_TIME, Redactor, is_late, is_limited, is_silence
from pytest_a2a_bench.conformance.wire.reply import UNSET, WireReply, WireRequest, error_in, has_failed

CARD_RULES: Mapping[str, str] = {"1.0": "CARD-007", "0.3": "V03-CARD-022"}
"""Version -> the requirement that a card breaks by naming an interface that is not there."""

Ask = Callable[[str, Mapping[str, Any], float], Awaitable[WireReply | None]]
"""Asks an operation with parameters in the form of 1.0, within some seconds; None where there is no asking."""

LET_IN = "let this client through, or name the agent's address behind it"
PROBE_SECONDS = 5.0
# Together a second: longer than the hiccup of a busy server, shorter than anybody notices once in a run.
PAUSES = (0.0, 0.2, 0.8)
"""Seconds before each try of a probe: an agent that is busy for a moment has not stopped working."""
STOPPED = "could not be judged: the agent stopped working"
"""Begins the reason of a check that was not made for that."""
# More would hide the one that broke it among its neighbours.
SUSPECTS = 4
# Seconds by which clocks of two requests that ran at once may disagree about which ended first.
_JUST_BEFORE = 0.05
# A run has some thousand requests; only the last ones can have broken the agent.
_KEPT = 200

OPERATION = "GetTask"
NO_MESSAGE: Mapping[str, Any] = {}
"""Parameters of SendMessage that start no task, and that no agent answers as an address that is not there does."""
WITHOUT_CREDENTIALS = frozenset({"auth", "extended-card"})
"""Groups that can be judged on an agent that refuses the credentials that it gets."""

# Both versions' names.
_LOOKS = frozenset({"GetTask", "ListTasks", "tasks/get", "tasks/list"})


class Asked(NamedTuple):
    """One request of a check, and when it was under way."""

    started: float
    ended: float
    reply: WireReply


def works(reply: WireReply) -> bool:
    """Return whether an answer is one of an agent that works: a result, or an error that it means."""
    # A structured error, whatever it says, was written by a program that runs.
    return not reply.problem and not reply.is_internal_error


class Health:
    """Sends one valid request, for an unknown task, at the beginning and after each suspicious answer.

    :param target: the interface that is watched.
    :param ask: asks it.
    :param spoken_instead: asks it in the other version of the protocol, and returns that one if it is spoken.
    :param learn_form: finds out in which form it takes requests, once it is known to work.

    ``card_check`` is the name of the check that tells of an interface that is not there, where that check is made too;
    ``absence`` why it is not there as the card names it, empty where it is.
    """

    def __init__(
        self,
        target: Target,
        ask: Ask,
        spoken_instead: Callable[[], Awaitable[str]],
        learn_form: Callable[[], Awaitable[None]],
    ) -> None:
        self._target = target
        self._ask, self._spoken_instead, self._learn_form = ask, spoken_instead, learn_form
        # Bounded: a queue that forgets the oldest by itself.
        self._asked: deque[Asked] = deque(maxlen=_KEPT)
        self._first: asyncio.Task[WireReply | None] | None = None
        # Many checks become suspicious at the same moment, and one answer serves them all.
        self._asking = asyncio.Lock()
        self._well_since = 0.0
        self._broken: WireReply | None = None
        # Why nothing can be judged here, and whether that is for the credentials.
        self._unaskable, self._refuses = "", False
        self._is_gone = False
        self.absence = ""
        self.card_check = ""
        self._reported_as = ""

    @property
    def is_broken(self) -> bool:
        """Whether the agent has stopped working."""
        return self._broken is not None

    def note(self, started: float, reply: WireReply) -> None:
        """Remember a request of a check."""
        # What is asked of a broken agent says nothing about what broke it.
        if not self.is_broken:
            self._asked.append(Asked(started, time.monotonic(), reply))

    def asked_since(self, moment: float) -> list[Exchange]:
        """Return the requests of checks since a moment of ``time.monotonic()``."""
        return [asked.reply.exchange for asked in self._asked if asked.started >= moment]

    async def reference(self) -> bool:
        """Make the exchange that others are compared with, a probe's cheap question; return whether it was answered."""
        reply = await self._probe(seconds=self._target.timeout)
        return reply is not None and not reply.problem

    def begin(self) -> None:
        """Ask for the first time; the checks of this interface wait until it is :meth:`ready`, and no others."""
        self._first = asyncio.create_task(self._look())

    async def ready(self) -> None:
        """Wait for the answer to the first question."""
        if self._first is not None:
            # Shielded, as several checks wait for the same probe and any of them may be stopped.
            await asyncio.shield(self._first)

    async def close(self) -> None:
        """Stop asking."""
        if self._first is not None:
            self._first.cancel()
            await asyncio.gather(self._first, return_exceptions=True)

    # A probe that began before this question proves nothing about now, hence the moment at which it was wanted.
    async def lasts(self) -> bool:
        """Return whether the agent still works, now; True where it never did."""
        wanted = time.monotonic()
        async with self._asking:
            if self.is_broken:
                return False
            first = await asyncio.shield(self._first) if self._first is not None else None
            # An answer to another check that is younger than the question will do. What never worked has not stopped
            # working: its own checks say what is wrong with it.
            if self._well_since >= wanted or first is None or not works(first):
                return True
            for pause in PAUSES:
                await asyncio.sleep(pause)
                started = time.monotonic()
                reply = await self._probe()
                if reply is None or works(reply):
                    self._well_since = started
                    return True
            self._broken = reply
            return False

    async def recovers(self) -> bool:
        """Return whether an agent that had only been too slow to answer does, now that nothing else is in flight."""
        if self._broken is not None and is_late(self._broken.exchange) and not self._is_gone:
            reply = await self._probe(seconds=self._target.timeout)
            if reply is not None and works(reply):
                self._broken, self._reported_as = None, ""
            # Asked once: many checks may wait for that answer, and each question would take the whole limit.
            self._is_gone = self.is_broken
        return not self.is_broken

    async def _look(self) -> WireReply | None:
        """Ask whether anything can be judged here: nothing where all that is asked is refused, or never answered."""
        first = await self._probe()
        if first is not None and absence(first):
            # By two operations: one may be missing or broken on an interface that is there, and over HTTP+JSON a 404 is
            # also what an agent says of an unknown task.
            other = await self._probe("SendMessage", NO_MESSAGE)
            self.absence = absence(first) if other is not None and absence(other) else ""
        if first is not None and first.error is not None and first.error.name in _OF_ANOTHER_VERSION:
            if spoken := await self._spoken_instead():
                self.absence = f"the card says A2A {self._target.version}, and this URL speaks {spoken}"
        # An interface that cannot be asked here (None) is left to its checks, which give their reason.
        is_turned_away = first is not None and (self._target.is_refusal(first) or is_limited(first.exchange))
        if first is None or (works(first) and not is_turned_away):
            await self._learn_form()
            return first
        if is_turned_away:
            # Refusing an unknown task may be a defect of one operation; a message that is refused starts no task.
            said = {"message": message(self._target.scenarios.get("task"))}
            sent = await self._probe("SendMessage", said, self._target.timeout)
            if sent is not None and self._target.is_refusal(sent):
                self._refuses, self._unaskable = True, f"the agent refuses: {sent.describe()}: {self._target.refusal}"
                if mark := sent.headers.get("cf-mitigated"):
                    self._unaskable = f"a bot challenge answers in the agent's place (cf-mitigated: {mark}); {LET_IN}"
            elif sent is not None and is_limited(sent.exchange):
                self._unaskable = f"nothing is served: {sent.describe()}; {FEWER}"
        elif is_silence(first.exchange, self._probe_seconds):
            # With the user's own patience this time, and by two operations: one of them may be slow by itself.
            seconds = self._target.timeout
            again = await asyncio.gather(*(self._probe(name, seconds=seconds) for name in (OPERATION, "CancelTask")))
            if all(r is not None and is_silence(r.exchange, seconds) for r in again):
                self._unaskable = f"nothing is answered within {seconds:g} s; {MORE_TIME}"
            return again[0]
        return first

    @property
    def _probe_seconds(self) -> float:
        # Never more than the user allows for anything.
        return min(self._target.timeout, PROBE_SECONDS)

    async def _probe(
        self, operation: str = OPERATION, params: Mapping[str, Any] | None = None, seconds: float = 0.0
    ) -> WireReply | None:
        # A random id: no server may know it, and no two probes can be answered from a cache.
        asked = params if params is not None else {"id": str(uuid.uuid4())}
        return await self._ask(operation, asked, seconds or self._probe_seconds)

    def obstacle(self, requirement: Requirement, binding: str, seconds: float = 0.0) -> CheckResult | None:
        """Return the result of a check that cannot be made on this interface, or not any more; None where it can be.

        Once is a finding; three hundred times would be the same finding three hundred times: the others are skipped.
        """
        # The rule of the card tells what is wrong; where that is not judged, each check says what it finds.
        if self.absence and self.card_check and requirement.id != CARD_RULES[requirement.version]:
            reason = f"the interface is not there: {self.absence}"
            return CheckResult(requirement, binding, "explained", reason=reason, cause=self.card_check)
        is_judged = not self._unaskable or (self._refuses and requirement.group in WITHOUT_CREDENTIALS)
        if is_judged and not self.is_broken:
            return None
        if self._reported_as:
            reason = f"{STOPPED if self.is_broken else 'could not be judged'}, see {self._reported_as}"
            return CheckResult(requirement, binding, "skipped", reason=reason, seconds=seconds)
        self._reported_as = f"{requirement.id}[{binding}]"
        if self.is_broken:
            return CheckResult(requirement, binding, "failed", (self._finding(requirement),), "", seconds)
        return CheckResult(requirement, binding, "error", reason=Redactor(self._target.secrets).text(self._unaskable))

    def _finding(self, requirement: Requirement) -> Finding:
        assert self._broken is not None
        suspects = self._suspects()
        named = ", ".join(dict.fromkeys(e.method for e in suspects))
        answer = Redactor(self._target.secrets).text(self._broken.describe())
        # Severity error even where the requirement is a SHOULD: an agent that is gone meets nothing.
        return Finding(
            rule=requirement.id,
            severity="error",
            found=f"the agent stopped working: {OPERATION} for an unknown task, which it answered at first, gives "
            f"{answer}; it was asked just before: {named or 'nothing'}",
            expected="every request is answered, whatever was asked before",
            spec=requirement.spec,
            fix="restart the agent and look at its log; 'a2a-bench check --concurrency 1' asks one at a time, "
            "so that the first request shown is the one after which it stopped",
            exchanges=(*suspects, self._broken.exchange),
        )

    def _suspects(self) -> list[Exchange]:
        """Return the requests at the time when the agent stopped, the last first."""
        # The last request that went well bounds the time in which it happened.
        well = max((a.started for a in self._asked if works(a.reply)), default=0.0)
        near = [a for a in self._asked if a.ended >= well - _JUST_BEFORE]
        # The first that went wrong bounds it from the other side; what began later found the agent broken already.
        lost = min((a.ended for a in near if not works(a.reply) and a.ended > well), default=time.monotonic())
        found = sorted((a for a in near if a.started <= lost), key=self._blame, reverse=True)
        return [a.reply.exchange for a in found[:SUSPECTS]]

    def _blame(self, asked: Asked) -> tuple[bool, bool, float]:
        """Order suspects: a request that got the same answer as later ones is a victim, and reading breaks little."""
        is_victim = self._broken is not None and asked.reply.describe() == self._broken.describe()
        is_look = asked.reply.exchange.method in _LOOKS
        return not is_victim, not is_look, asked.started


# -- is there an interface at all --

# What an agent says of a method, or a version, that it does not have.
_OF_ANOTHER_VERSION = ("MethodNotFoundError", "VersionNotSupportedError")
# A server that fails or refuses is there; nobody at the address, a web server that has no such path, or one that
# speaks another binding or version is not what the card names.
_GRPC_UNIMPLEMENTED, _GRPC_UNAVAILABLE = 12, 14
# What web servers say of a path that leads nowhere; 401 and 403 are refusals, and 5xx is a server that is broken.
_NOWHERE = (301, 302, 303, 307, 308, 404, 405, 410, 501)


def absence(reply: WireReply) -> str:
    """Explain why an answer to a good request shows that the interface is absent; empty where it does not."""
    exchange = reply.exchange
    if is_late(exchange):
        return ""
    if exchange.binding == "GRPC":
        return _grpc_absence(reply)
    if reply.status is None:
        return f"no server answers: {reply.problem}" if reply.problem else ""
    if reply.status in _NOWHERE and not _says_a2a(reply):
        where = reply.headers.get("location", "")
        return f"HTTP {reply.status} from a server that has nothing there" + (
            f"; it points to {where}" if where else ""
        )
    if reply.status == 200 and reply.content_type == "text/html" and not isinstance(reply.document, Mapping):
        return "a web page is there"
    if exchange.binding == "HTTP+JSON" and isinstance(reply.document, Mapping) and "jsonrpc" in reply.document:
        return "JSON-RPC is spoken there"
    return ""


def _grpc_absence(reply: WireReply) -> str:
    if reply.status == _GRPC_UNAVAILABLE or (reply.status is None and reply.problem):
        return f"no server answers: {reply.problem or reply.describe()}"
    if reply.status == _GRPC_UNIMPLEMENTED and not (reply.error is not None and reply.error.name):
        return f"a gRPC server without A2A's service: {reply.describe()}"
    return ""


def _says_a2a(reply: WireReply) -> bool:
    """Return whether an answer has A2A's form: web frameworks say 404 in JSON, too, with members of their own."""
    said = as_object(reply.document)
    if reply.exchange.binding == "JSONRPC" and {"jsonrpc", "result"} & set(said):
        return True
    return isinstance(said.get("error"), Mapping)


# -- how slow it is --

BUSY = 10
"""How many times the time of a reference exchange is allowed beyond the usual limit."""
MOST_SECONDS = 10.0
"""Most that is allowed beyond the usual limit: the user's own limit of time stands above all."""
# References older than this say nothing about now; a timed check is under way for about as long at most.
_WINDOW_SECONDS = 20.0
# Many timed checks run at once, and one measurement serves all that want one at the same moment.
_FRESH_SECONDS = 0.25


class Pace:
    """Measures reference exchanges and remembers them for a while.

    Its ``is_alone`` says whether checks are repeated one after the other, with nothing else in flight.

    :param exchange: makes one cheap exchange, a question that no model answers, and returns whether it was answered.
    """

    def __init__(self, exchange: Callable[[], Awaitable[bool]]) -> None:
        self._exchange = exchange
        self._measured: deque[tuple[float, float]] = deque(maxlen=64)
        # Only then is it the agent or the machine that is slow, and not what else was asked.
        self.is_alone: bool = False

    async def measure(self) -> None:
        """Make a reference exchange, unless one was made just now."""
        started = time.monotonic()
        if self._measured and started - self._measured[-1][0] < _FRESH_SECONDS:
            return
        is_answered = await self._exchange()
        ended = time.monotonic()
        # One that was not answered in time is never old and not made again: each try would take the whole limit.
        self._measured.append((ended if is_answered else math.inf, ended - started))

    def forget(self) -> None:
        """Begin anew: measurements with many requests in flight say nothing about a single one."""
        self._measured.clear()
        self.is_alone = True

    @property
    def slowest(self) -> float:
        """Seconds of the slowest reference exchange of the last seconds; 0.0 where none was made.

        One that was given up counts for good: whatever is compared with it is on an agent as slow as that.
        """
        since = time.monotonic() - _WINDOW_SECONDS
        return max((seconds for ended, seconds in self._measured if ended >= since), default=0.0)

    async def allow(self, seconds: float) -> float:
        """Return how long something may take that a prompt agent on a quiet machine does within some seconds.

        A reference exchange is measured now, so that what made the thing late counts even if it began just before.
        """
        await self.measure()
        return self.extended(seconds)

    def extended(self, seconds: float) -> float:
        """Return the same as of the references that were measured already."""
        return seconds + min(MOST_SECONDS, BUSY * self.slowest)


# -- whether it answers equal requests alike: other findings are only consequences of it where it does not --

_TIMES = 8
_LOOK_SECONDS = 5.0
# The last part of a method's name, of each binding and version.
_SENDS = frozenset({*SENDING, "send", "stream"})


class Cause(NamedTuple):
    """The cause why an agent answers equal requests differently.

    :param group: of the requirements that it is said of first.
    :param explains: returns whether a result can be a consequence of it.
    """

    group: str
    found: str
    expected: str
    exchanges: tuple[Exchange, ...]
    explains: Callable[[CheckResult], bool]


@dataclass
class _Messages:
    """The answers to equal messages."""

    answers: int = 0
    failures: list[Exchange] = field(default_factory=list)
    recovered: Exchange | None = None


class Steadiness:
    """Looks at the answers of one interface: to equal messages, and about tasks that it has given out."""

    def __init__(self) -> None:
        self._messages: dict[str, _Messages] = {}
        self._lost: dict[str, Exchange] = {}

    def note(self, request: WireRequest, reply: WireReply, known: Container[str]) -> None:
        """Look at an answer to a valid request with the user's own credentials.

        :param known: ids of tasks that the agent has given out.
        """
        if request.auth is not True or request.body is not UNSET or "tenant" in request.params:
            return
        task_id = request.params.get("id") or request.params.get("taskId")
        if reply.may_be("TaskNotFoundError") and isinstance(task_id, str) and task_id in known:
            self._lost.setdefault(task_id, reply.exchange)
        message = as_object(request.params.get("message"))
        # Whether a message about a task or in a context is taken depends on that one; without parts none is valid.
        is_valid = all(map(message.get, ("messageId", "role", "parts")))
        if request.operation not in SENDING or {"taskId", "contextId"} & set(message) or not is_valid:
            return
        same = {**request.params, "message": {**message, "messageId": ""}, "operation": request.operation}
        seen = self._messages.setdefault(canonical(same), _Messages())
        seen.answers += 1
        if reply.is_breakdown:
            seen.failures.append(reply.exchange)
        elif reply.ok and seen.failures:
            seen.recovered = seen.recovered or reply.exchange

    def may_explain(self, result: CheckResult) -> bool:
        """Return whether a result can be a consequence of unsteady answers."""
        return result.outcome in FOUND and bool(result.findings) and (_is_failure(result) or _is_about_tasks(result))

    async def causes(self, ask: Ask) -> list[Cause]:
        """Return the causes that there are; a task that was not found once is asked for again."""
        found = [seen for seen in self._messages.values() if seen.recovered is not None]
        causes = []
        if found:
            failed, asked = sum(len(seen.failures) for seen in found), sum(seen.answers for seen in found)
            what = f"an internal error for {failed} of {asked} ordinary messages, equal ones of which are answered"
            shown = (found[0].failures[0], *([found[0].recovered] if found[0].recovered else []))
            causes.append(Cause("send", what, "a result for each of them", shown, _is_failure))
        for task_id, lost in list(self._lost.items())[:2]:
            looks = [await ask("GetTask", {"id": task_id}, _LOOK_SECONDS) for _ in range(_TIMES)]
            there = [reply.exchange for reply in looks if reply is not None and reply.ok]
            if 0 < len(there) < _TIMES:
                where = f"the task {task_id!r} is there in {len(there)} of {_TIMES} calls of GetTask"
                what = f"{where}: several instances without a shared store?"
                causes.append(Cause("get-task", what, "the same task in every call", (lost, there[0]), _is_about_tasks))
                break
        return causes


def _exchanges(result: CheckResult) -> list[Exchange]:
    return [exchange for finding in result.findings for exchange in finding.exchanges]


def _is_failure(result: CheckResult) -> bool:
    return any(has_failed(e) and e.method.rpartition("/")[2] in _SENDS for e in _exchanges(result))


def _is_about_tasks(result: CheckResult) -> bool:
    errors = map(error_in, _exchanges(result))
    return result.requirement.group == "list-tasks" or any(e and e.may_be("TaskNotFoundError") for e in errors)
