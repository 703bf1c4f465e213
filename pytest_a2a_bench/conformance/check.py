"""How a check is written: a coroutine that asks through a :class:`Context` and records what is wrong.

::

    @check("SEND-008")
    async def unknown_task(ctx: Context) -> None:
        reply = await ctx.call("SendMessage", ctx.send_params(task_id=ctx.unknown_id()))
        ctx.expect_error(reply, "TaskNotFoundError")
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pytest_a2a_bench.conformance.finding import Finding, Requirement, Severity
from pytest_a2a_bench.conformance.scenarios import missing_text
from pytest_a2a_bench.conformance.spelling import spell_params
from pytest_a2a_bench.conformance.target import Target
from pytest_a2a_bench.conformance.wire.base import UNSET, WireRequest
from pytest_a2a_bench.conformance.wire.exchange import Redactor
from pytest_a2a_bench.conformance.wire.reply import ERRORS, Reply

if TYPE_CHECKING:
    from pytest_a2a_bench.conformance.session import Session

CheckFunction = Callable[["Context"], Awaitable[None]]
F = TypeVar("F", bound=CheckFunction)
T = TypeVar("T")

CHECKS: dict[tuple[str, str], CheckFunction] = {}
"""(requirement id, version) -> the check."""

UNCHECKABLE: dict[str, str] = {}
"""Requirement id -> why no endpoint can show it."""

_FOUND_LIMIT = 600


class SkipCheck(Exception):
    """The check does not apply here; the message says why, and how to enable it."""


class NoAnswer(Exception):
    """The agent did not answer what a check needs, so that nothing can be said about its requirement."""

    def __init__(self, message: str, reply: Reply | None = None) -> None:
        self.reply = reply
        super().__init__(message)


def check(*ids: str, version: str = "1.0") -> Callable[[F], F]:
    """Register a check for one or more requirements of one version; it is run once for each.

    :raises ValueError: if a requirement has a check already.
    """

    def register(function: F) -> F:
        for id in ids:
            if CHECKS.setdefault((id, version), function) is not function:
                raise ValueError(f"two checks for {id} of {version}")
        return function

    return register


def uncheckable(reasons: Mapping[str, str]) -> None:
    """Declare requirements that no endpoint can show, each with its reason."""
    UNCHECKABLE.update(reasons)


@dataclass(slots=True)
class Context:
    """What a check works with: one requirement, one interface, and what has been found so far.

    :param requirement: the one that is being checked.
    """

    requirement: Requirement
    session: Session
    findings: list[Finding] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)

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
        return dataclasses.replace(self, session=other) if other is not None else None

    def siblings(self) -> list[Context]:
        """Return this check on every interface of the same version, this one included."""
        others = (self.sibling(b) for b, v in self.target.interfaces if v == self.version)
        return [c for c in others if c is not None]

    # -- asking --

    async def call(
        self,
        operation: str,
        params: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        version_header: Any = UNSET,
        body: Any = UNSET,
        rpc_id: Any = UNSET,
        stream: bool | None = None,
        timeout: float | None = None,
        until: Callable[[Any], bool] | None = None,
        on_event: Callable[[Any], None] | None = None,
        query: Mapping[str, str] | None = None,
        http_method: str = "",
        path: str | None = None,
        auth: bool = True,
        spell: bool = True,
    ) -> Reply:
        """Ask the agent; never raises for what it answers.

        :param params: in the form of 1.0; spelled as 0.3 on an interface of 0.3 unless ``spell`` is False.
        :param version_header: by default the interface's version (nothing for 0.3); None leaves it out.
        :param body: sent instead of what would be sent.
        :param stream: by default what the operation is.
        :param until: stops reading a stream after the first event for which it is true.
        :param path: HTTP bindings: asks this path below the interface's URL with ``http_method``.
        :raises SkipCheck: if the binding has no form for the request.
        """
        params = dict(params or {})
        if spell and self.version == "0.3":
            params = spell_params(operation, params, self.binding)
        request = WireRequest(
            operation=operation,
            params=params,
            headers={**self.target.extension_headers, **(headers or {})},
            version_header=self._version(version_header),
            body=body,
            rpc_id=rpc_id,
            stream=operation in ("SendStreamingMessage", "SubscribeToTask") if stream is None else stream,
            timeout=timeout or self.target.timeout,
            until=until,
            on_event=on_event,
            query=query or {},
            http_method=http_method,
            path=path,
            auth=auth,
        )
        reply = await self.session.call(request)
        self.replies.append(reply)
        return reply

    def _version(self, given: Any) -> str | None:
        if given is UNSET:
            return None if self.version == "0.3" else self.version
        return None if given is None else str(given)

    def message(self, text: str | None = None, **fields: Any) -> dict[str, Any]:
        """Return a user message in the form of 1.0; ``fields`` are added, or replace what is there."""
        text = text if text is not None else self.target.scenarios.get("task")
        return {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}], **fields}

    def send_params(
        self,
        text: str | None = None,
        *,
        task_id: str = "",
        context_id: str = "",
        configuration: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        """Return parameters of SendMessage in the form of 1.0."""
        if task_id:
            fields["taskId"] = task_id
        if context_id:
            fields["contextId"] = context_id
        if configuration is None and self.version == "0.3":
            # There the default is not to wait for the task.
            configuration = {"returnImmediately": False}
        params: dict[str, Any] = {"message": self.message(text, **fields)}
        return {**params, "configuration": dict(configuration)} if configuration is not None else params

    async def send(self, text: str | None = None, **options: Any) -> Reply:
        """Send a message (see :meth:`send_params`) and return the answer."""
        return await self.call("SendMessage", self.send_params(text, **options))

    def unknown_id(self) -> str:
        """Return an id that the agent cannot know."""
        return str(uuid.uuid4())

    # -- shared objects --

    async def completed_task(self) -> Mapping[str, Any]:
        """Return a terminal task that the agent made for the ``task`` prompt; shared, so it must not be changed."""
        return await self.session.prepared.completed_task(self)

    async def message_reply(self) -> Mapping[str, Any]:
        """Return a direct message of the agent (``message`` prompt, or the ordinary one if that gives a message)."""
        return await self.session.prepared.message_reply(self)

    async def context_with_tasks(self, count: int) -> tuple[str, tuple[Mapping[str, Any], ...]]:
        """Return a contextId and at least ``count`` terminal tasks in it, oldest first; shared."""
        return await self.session.prepared.context_with_tasks(self, count)

    async def samples(self) -> tuple[Reply, ...]:
        """Return ordinary answers of several operations, to look at their form; shared."""
        return await self.session.prepared.samples(self)

    async def shared(self, key: Any, make: Callable[[], Awaitable[T]]) -> T:
        """Make something once for all checks of this interface; ``key`` names it."""
        return await self.session.prepared.once(("shared", key), make)

    def created(self, task_id: str) -> None:
        """Remember a task, so that it is cancelled at the end should it still run (sent ones are remembered)."""
        self.session.created_tasks[task_id] = False

    def created_push_config(self, task_id: str, config_id: str) -> None:
        """Remember a push configuration, so that it is deleted at the end."""
        self.session.created_configs.add((task_id, config_id))

    # -- not applying --

    def skip(self, reason: str) -> NoReturn:
        """End the check: it does not apply.

        :raises SkipCheck: always.
        """
        raise SkipCheck(reason)

    def require_capability(self, name: str) -> None:
        """End the check unless the card declares a capability."""
        if not self.target.declares(name):
            self.skip(f"the card does not declare capabilities.{name}")

    def forbid_capability(self, name: str) -> None:
        """End the check if the card declares a capability."""
        if self.target.declares(name):
            self.skip(f"the card declares capabilities.{name}")

    def prompt(self, key: str) -> str:
        """Return a scenario's prompt, or end the check with how to give one; ``default`` and ``task`` have one."""
        found = self.target.scenarios.get(key)
        return found if found is not None else self.skip(missing_text(key))

    # -- judging --

    def fail(
        self,
        found: str,
        *,
        pointer: str = "",
        expected: str = "",
        fix: str = "",
        replies: Iterable[Reply] | None = None,
    ) -> None:
        """Record that the requirement is not met: an error for a MUST, a warning for anything less."""
        severity: Severity = "error" if self.requirement.level == "MUST" else "warning"
        self._record(severity, found, pointer, expected, fix, replies)

    def warn(
        self,
        found: str,
        *,
        pointer: str = "",
        expected: str = "",
        fix: str = "",
        replies: Iterable[Reply] | None = None,
    ) -> None:
        """Record something softer than the requirement's level says, such as a contradiction of the specification."""
        self._record("warning", found, pointer, expected, fix, replies)

    def _record(
        self, severity: Severity, found: str, pointer: str, expected: str, fix: str, replies: Iterable[Reply] | None
    ) -> None:
        redactor = Redactor(self.target.secrets)
        chosen = list(replies) if replies is not None else self.replies[-1:]
        self.findings.append(
            Finding(
                rule=self.requirement.id,
                severity=severity,
                found=redactor.text(found)[:_FOUND_LIMIT],
                expected=redactor.text(expected) or self.requirement.text,
                spec=self.requirement.spec,
                pointer=redactor.text(pointer),
                fix=redactor.text(fix),
                exchanges=tuple(r.exchange for r in chosen),
            )
        )

    def expect_ok(self, reply: Reply, what: str = "") -> bool:
        """Fail unless there is a result; return whether there is."""
        if not reply.ok:
            self.fail(reply.describe(), expected=what or "a result", replies=[reply])
        return reply.ok

    def expect_error(self, reply: Reply, *names: str, old_names: Iterable[str] = ()) -> bool:
        """Fail unless the answer is one of these errors; return whether it is.

        :param names: names of the specification's table, such as ``TaskNotFoundError``.
        :param old_names: errors that are tolerated with a warning.
        """
        wanted = " or ".join(f"{n} ({ERRORS[n].code})" for n in names)
        if reply.error is None:
            self.fail(reply.describe(), expected=wanted, replies=[reply])
            return False
        if any(reply.error.may_be(n) for n in names):
            return True
        if any(reply.error.may_be(n) for n in old_names):
            self.warn(reply.describe(), expected=wanted, replies=[reply])
            return True
        self.fail(reply.describe(), expected=wanted, replies=[reply])
        return False
