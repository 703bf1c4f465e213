"""The vocabulary of checks: asking an agent, skipping a check that does not apply, and judging answers.

A check is a coroutine that sends requests through a :class:`Context` and records findings::

    async def unknown_task(ctx: Context) -> None:
        reply = await ctx.send(task_id=ctx.unknown_id())
        ctx.expect_error(reply, "TaskNotFoundError")
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

from pytest_a2a_bench.a2a.codec import SETTLED
from pytest_a2a_bench.conformance.finding import AS_VALID, Finding, Requirement, Severity
from pytest_a2a_bench.conformance.protocol.operations import STREAMING, message
from pytest_a2a_bench.conformance.protocol.payloads import is_running, state_of
from pytest_a2a_bench.conformance.protocol.streams import Problem, StreamEvent, read_event, read_events, result_of
from pytest_a2a_bench.conformance.scenarios import missing_text
from pytest_a2a_bench.conformance.session.session import Session
from pytest_a2a_bench.conformance.target import Target
from pytest_a2a_bench.conformance.variants import REPRESENTATIVE, Variant
from pytest_a2a_bench.conformance.wire.exchange import Redactor
from pytest_a2a_bench.conformance.wire.reply import ERRORS, UNSET, SkipCheck, WireReply

T = TypeVar("T")
P = ParamSpec("P")

ATTEMPTS = 3
"""How often something that depends on time is tried before an agent is blamed: the machine may have been busy."""
_POLL_SECONDS = 0.05
WAIT_SECONDS = 15.0
"""How long a task is waited for."""
_FOUND_LIMIT = 600
# More than any stream may stay open after its task (STREAM-005): that is judged once, and nothing else waits for it.
_LINGER_SECONDS = 3.0


@dataclass(slots=True)
class Context:
    """The context of a check: one requirement, one interface, and the findings so far.

    :param variant: where the rule is tried; without members for the representative that the check is written for.
    :param unjudged: internal errors in answer to valid requests, which become findings where the check finds nothing
        about them itself.
    """

    requirement: Requirement
    session: Session
    findings: list[Finding] = field(default_factory=list)
    replies: list[WireReply] = field(default_factory=list)
    variant: Variant = REPRESENTATIVE
    unjudged: list[WireReply] = field(default_factory=list)

    # -- what is judged --

    @property
    def target(self) -> Target:
        """The interface."""
        return self.session.target

    @property
    def binding(self) -> str:
        """Its binding."""
        return self.session.target.binding

    @property
    def version(self) -> str:
        """Its protocol version."""
        return self.session.target.version

    def sibling(self, binding: str, version: str | None = None) -> Context | None:
        """Return the same check on another interface of the agent, or None; findings are shared."""
        other = self.session.sibling(binding, version or self.version)
        return replace(self, session=other) if other is not None else None

    @property
    def state(self) -> str:
        """The state of the task that the variant is about; empty for the check's own choice."""
        return self.variant.state

    def siblings(self) -> list[Context]:
        """Return this check on every interface of the same version, this one included."""
        others = (self.sibling(b) for b, v in self.target.interfaces if v == self.version)
        return [c for c in others if c is not None]

    def plain(self) -> Context:
        """Return the same check without its variant: for preparations."""
        return replace(self, variant=REPRESENTATIVE)

    # -- asking --

    async def call(
        self,
        operation: str,
        params: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        version_header: Any = UNSET,
        stream: bool | None = None,
        timeout: float | None = None,
        spell: bool = True,
        **options: Any,
    ) -> WireReply:
        """Send a request to the agent; its answer never raises.

        :param params: in the form of 1.0; spelled as 0.3 on an interface of 0.3 unless ``spell`` is False.
        :param version_header: by default the interface's version (nothing for 0.3); None leaves it out.
        :param stream: by default whether the operation streams.
        :param timeout: seconds; by default those of the target.
        :param options: further members of :class:`.WireRequest`, such as ``body``, ``auth`` and ``until``.
        :raises SkipCheck: if the binding has no form for the request.
        """
        wanted = operation
        operation, asked = self.variant.asked(operation, params or {})
        request = self.session.request(
            operation,
            asked,
            version=version_header,
            spell=spell,
            headers={**self.target.extension_headers, **(headers or {})},
            stream=operation in STREAMING if stream is None else stream,
            timeout=timeout or self.target.timeout,
            linger=self.session.pace.extended(_LINGER_SECONDS),
            **options,
        )
        reply = await self.session.call(request)
        if wanted == "SendMessage" and operation != wanted and reply.events:
            # The rules of what a blocking call returns are those of a stream that has ended, too.
            reply = replace(reply, result=result_of(read_events(reply.events)))
        self.replies.append(reply)
        # What is asked without credentials, in another version or in no proper form need not be served.
        if reply.is_breakdown and request.auth is True and request.body is UNSET and version_header is UNSET:
            self.unjudged.append(reply)
        return reply

    def send_params(
        self,
        text: str | None = None,
        *,
        task_id: str = "",
        context_id: str = "",
        configuration: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        """Return parameters of SendMessage in the form of 1.0; ``fields`` are added to the message."""
        if task_id:
            fields["taskId"] = task_id
        if context_id:
            fields["contextId"] = context_id
        if configuration is None and self.version == "0.3":
            # There the default is not to wait for the task.
            configuration = {"returnImmediately": False}
        text = text if text is not None else self.target.scenarios.get("task")
        params: dict[str, Any] = {"message": message(text, **fields)}
        return {**params, "configuration": dict(configuration)} if configuration is not None else params

    async def send(self, text: str | None = None, **options: Any) -> WireReply:
        """Send a message (see :meth:`send_params`) and return the answer."""
        return await self.call("SendMessage", self.send_params(text, **options))

    async def stream(self, text: str | None = None, **options: Any) -> WireReply:
        """Send a message (see :meth:`send_params`) and read the stream that answers it."""
        return await self.call("SendStreamingMessage", self.send_params(text, **options))

    async def get_task(self, task_id: str, **params: Any) -> WireReply:
        """Ask for a task."""
        return await self.call("GetTask", {"id": task_id, **params})

    async def start_task(self, text: str, **configuration: Any) -> Mapping[str, Any]:
        """Start a task that runs on, and return it; skip where it is over at once."""
        reply = await self.plain().send(text, configuration={"returnImmediately": True, **configuration})
        task = self.task_of(reply, "starting a slow task", "SEND-004" if self.version != "0.3" else "")
        if state_of(task) in SETTLED:
            self.skip(f"the task of the slow scenario was {state_of(task)} at once, so nothing could be watched")
        return task

    async def wait_for_task(
        self, task_id: str, goes_on: Callable[[Any], bool] = is_running, *, seconds: float = WAIT_SECONDS
    ) -> WireReply:
        """Poll a task until it is terminal or waits for the user, or the time is up; return the last answer.

        :param goes_on: returns whether a task is to be polled further.
        """
        until = time.monotonic() + await self.allow(seconds)
        while True:
            reply = await self.get_task(task_id)
            if not reply.ok or not goes_on(reply.result) or time.monotonic() > until:
                return reply
            await asyncio.sleep(_POLL_SECONDS)

    def unknown_id(self) -> str:
        """Return an id that the agent cannot know."""
        return self.variant.unknown(self.variant.known) if self.variant.known else str(uuid.uuid4())

    async def allow(self, seconds: float) -> float:
        """Return how long something may take here and now that a prompt agent does within some seconds.

        Every limit of time that an agent is blamed by goes through this: see :class:`.session.health.Pace`.
        """
        return await self.session.pace.allow(seconds)

    # -- shared objects, made once for all checks of the interface --

    async def slow_seconds(self) -> float:
        """Return how long the agent takes for the scenario ``slow``; measured once."""
        text = self.prompt("slow")
        reply = await self.shared("slow", lambda: self.send(text))
        return self.needed(reply, "the scenario slow").exchange.seconds

    async def said(self, text: str | None = None) -> WireReply:
        """Return the answer to a message of nothing but a text, the ordinary one by default; said once for all."""
        # A message may cost the agent a model call.
        text = text if text is not None else self.target.scenarios.get("task")
        return await self.shared(("said", text), lambda: self.send(text))

    async def streamed(self) -> WireReply:
        """Return the stream that answers the ordinary message; asked once for all."""
        return await self.shared("stream", self.stream)

    async def shared(self, key: Any, make: Callable[[], Awaitable[T]]) -> T:
        """Make something once for all checks of this interface; ``key`` names it."""
        # What is asked in place of something else is something else.
        return await self.session.shared.once((key, self.variant.operation), make)

    # -- not applying --

    def skip(self, reason: str) -> NoReturn:
        """End the check: it does not apply.

        :raises SkipCheck: always.
        """
        raise SkipCheck(reason)

    def require(self, needs: str) -> None:
        """End the check unless the interface has what a requirement needs (:attr:`.Requirement.needs`)."""
        for need in needs.split(", "):
            kind, _, name = need.rpartition(" ")
            if kind == "capability" and not self.target.declares(name):
                self.skip(f"the card does not declare {self.target.member(name)}")
            elif kind == "no capability" and self.target.declares(name):
                self.skip(f"the card declares {self.target.member(name)}")
            elif kind == "no capability" and not isinstance(self.target.card.get("capabilities", {}), Mapping):
                judge = "V03-CARD-010" if self.version == "0.3" else "CARD-029"
                self.skip(f"capabilities of the card is no object, which {judge} judges")
            elif kind == "scenario":
                self.prompt(name)
            elif need == "no 0.3 interface" and (self.binding, "0.3") in self.target.interfaces:
                self.skip("the card declares a 0.3 interface of this binding")
            elif need == "declared security" and not self.target.wants_credentials:
                self.skip("the card demands no credentials")
            elif need == "declared security" and self.target.names_no_credentials:
                judge = "V03-CARD-007" if self.version == "0.3" else "CARD-019"
                self.skip(f"the card demands credentials of schemes that it does not declare, which {judge} judges")
            elif need == "required extension" and not self.target.required_extensions:
                self.skip("the card declares no extension as required")
            elif need == "limited inputModes":
                modes = self.target.card.get("defaultInputModes")
                # An agent that declares everything cannot be sent what it does not support.
                if isinstance(modes, list) and any("*" in str(mode) for mode in modes):
                    self.skip(f"the card declares the input modes {modes}")

    def prompt(self, key: str) -> str:
        """Return a scenario's prompt, or end the check with how to give one; ``default`` and ``task`` have one."""
        found = self.target.scenarios.get(key)
        return found if found is not None else self.skip(missing_text(key))

    def has_prompt(self, key: str) -> bool:
        """Return whether there is a prompt for a scenario."""
        return self.target.scenarios.get(key) is not None

    def needed(self, reply: WireReply, what: str, judge: str = "") -> WireReply:
        """Return a reply that has a result; otherwise end the check.

        :param judge: the requirement whose check fails for it, so that this one is skipped; empty for this one itself.
        """
        if not reply.ok:
            self._end_without(reply, what, judge)
        return reply

    def _end_without(self, reply: WireReply, what: str, judge: str) -> NoReturn:
        self.skip_if_refused(reply)
        # Checks that 0.3 shares with 1.0 name the requirements of 1.0.
        if judge in ("", self.requirement.id) or (self.version == "0.3" and not judge.startswith("V03-")):
            self.fail(f"{what}: {without_result(reply)}", reply, expected="a result")
        # Several checks may share what was asked here: the one that asked has the finding, and the others name it.
        self.skip(f"{what} did not work, which {judge or self.requirement.id} judges: {reply.describe()}")

    def excuse(self, reply: WireReply) -> None:
        """Take an internal error for an answer that is allowed, since the request was not a valid one."""
        if reply in self.unjudged:
            self.unjudged.remove(reply)

    def skip_if_refused(self, reply: WireReply) -> None:
        """End the check where the agent wants credentials that this interface does not get: nothing was judged."""
        if not self.target.auth and self.target.is_refusal(reply):
            self.skip(f"the agent wants credentials, and none are sent to {self.target.url}")

    def task_of(self, reply: WireReply, what: str, judge: str = "") -> Mapping[str, Any]:
        """Return the Task in the reply to a message; end the check where the agent answered with a Message."""
        event = self.event_of(reply, what, judge)
        return event.body if event.kind == "task" and event.task_id else self.skip_without_task(what, event.kind)

    def skip_without_task(self, what: str, kind: str) -> NoReturn:
        """End the check: what the agent answered with, a Message or a result of no known kind, is no Task."""
        advice = "give a prompt that makes one, in the file of --a2a-scenarios"
        self.skip(f"{what}: the agent answers with a {kind or 'result of no known kind'}, not with a Task; {advice}")

    def event_of(self, reply: WireReply, what: str, judge: str = "") -> StreamEvent:
        """Return the Task or Message in the reply to a message; end the check where it is neither."""
        event = read_event(self.needed(reply, what, judge).result)
        if self.version != "0.3" and event.kind not in ("task", "message"):
            self.skip(f"{what} gives neither a task nor a message, which SEND-001 judges")
        return event

    def events_of(self, reply: WireReply, what: str, judge: str = "") -> list[StreamEvent]:
        """Return the events of a stream, whether or not it ended; end the check where there is none."""
        if not reply.events:
            self._end_without(reply, what, judge)
        return read_events(reply.events)

    # -- judging --

    def fail(self, found: str, *replies: WireReply, pointer: str = "", expected: str = "", fix: str = "") -> None:
        """Record that the requirement is not met: an error for a MUST, a warning for anything less.

        :param replies: those that show it; by default the last one.
        """
        severity: Severity = "error" if self.requirement.level == "MUST" else "warning"
        self._record(severity, found, pointer, expected, fix, replies)

    def warn(self, found: str, *replies: WireReply, pointer: str = "", expected: str = "", fix: str = "") -> None:
        """Record something softer than the requirement's level says, such as a contradiction of the specification."""
        self._record("warning", found, pointer, expected, fix, replies)

    def _record(
        self, severity: Severity, found: str, pointer: str, expected: str, fix: str, replies: Sequence[WireReply]
    ) -> None:
        redactor = Redactor(self.target.secrets)
        found = f"{where}: {found}" if (where := str(self.variant)) else found
        chosen = replies or self.replies[-1:]
        self.findings.append(
            Finding(
                rule=self.requirement.id,
                severity=severity,
                found=redactor.text(found)[:_FOUND_LIMIT],
                expected=redactor.text(expected) or self.requirement.expected or self.requirement.text,
                spec=self.requirement.spec,
                pointer=redactor.text(pointer),
                fix=redactor.text(fix),
                exchanges=tuple(r.exchange for r in chosen),
            )
        )

    def expect_error(self, reply: WireReply, *names: str, what: str = "", old_names: Iterable[str] = ()) -> bool:
        """Fail unless the answer is one of these errors; return whether it is.

        Ends the check where the agent wants credentials that this interface does not get.

        :param names: names of the specification's table, such as ``TaskNotFoundError``.
        :param what: the request, at the beginning of the finding.
        :param old_names: errors that are tolerated with a warning.
        """
        self.skip_if_refused(reply)
        if self.version == "0.3" and self.binding == "GRPC" and names != ("TaskNotFoundError",):
            # 0.3's table of errors has codes for JSON-RPC only: here any refusal is right.
            self.expect_refusal(reply, what)
            return reply.error is not None
        wanted = " or ".join(f"{n} ({ERRORS[n].code})" for n in names)
        found = f"{what}: {instead(reply)}" if what else instead(reply)
        if reply.may_be(*names):
            self.excuse(reply)
        elif reply.may_be(*old_names):
            self.warn(found, reply, expected=wanted)
        else:
            self.fail(found, reply, expected=wanted)
            return False
        return True

    def expect_refusal(self, reply: WireReply, what: str, expected: str = "an error") -> None:
        """Fail unless the request was refused with whatever error of the client's."""
        if reply.error is None:
            self.fail(f"{what}: {reply.describe()}", reply, expected=expected)
        elif reply.is_internal_error:
            self.fail(f"{what}: the server failed instead of refusing: {reply.error}", reply, expected=expected)

    def report_breakdown(self, reply: WireReply) -> None:
        """Record an internal error: whatever the level of this requirement, no valid request may be answered so."""
        self._record("error", without_result(reply), "", AS_VALID, "", [reply])

    def report_problems(self, problems: Sequence[Problem], *replies: WireReply) -> None:
        """Record each problem of a stream as a failure."""
        for problem in problems:
            self.fail(problem.found, *replies, pointer=problem.pointer, expected=problem.expected)


Making = Callable[Concatenate[Context, P], Coroutine[Any, Any, T]]


def shared(make: Making[P, T]) -> Making[P, T]:
    """Let a function of a context make its result once for all checks of the interface: see :meth:`Context.shared`."""

    @wraps(make)
    async def once(ctx: Context, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await ctx.shared((make, args, *kwargs.items()), lambda: make(ctx, *args, **kwargs))

    return once


def without_result(reply: WireReply) -> str:
    """Describe the problem of an answer that should be a result, followed by the answer."""
    return reply.describe() if reply.is_null or reply.problem else f"no result: {reply.describe()}"


def instead(reply: WireReply) -> str:
    """Describe the problem of an answer that should be another error, followed by the answer."""
    if reply.problem or reply.is_null:
        return reply.describe()
    return f"it was accepted: {reply.describe()}" if reply.error is None else f"not the error: {reply.describe()}"
