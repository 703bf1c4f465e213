"""What checks say of answers: that a rule does not apply, that it is broken, and what was expected instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_a2a_bench.conformance.check import SkipCheck
from pytest_a2a_bench.conformance.crossing import Cell
from pytest_a2a_bench.conformance.finding import Finding, Requirement, Severity
from pytest_a2a_bench.conformance.protocol.streams import StreamEvent, StreamProblem, read_event, read_events
from pytest_a2a_bench.conformance.scenarios import missing_text
from pytest_a2a_bench.conformance.wire.exchange import Redactor
from pytest_a2a_bench.conformance.wire.reply import ERRORS, WireReply

if TYPE_CHECKING:
    from pytest_a2a_bench.conformance.session.session import Session
    from pytest_a2a_bench.conformance.session.target import Target

_FOUND_LIMIT = 600


@dataclass(slots=True)
class Verdicts:
    """What a check has found so far of one requirement, on one interface.

    :param requirement: the one that is being checked.
    :param cell: where the rule is tried; None for the representative that the check is written for.
    :param unjudged: internal errors in answer to valid requests, which become findings where the check finds nothing
        about them itself.
    """

    requirement: Requirement
    session: Session
    findings: list[Finding] = field(default_factory=list)
    replies: list[WireReply] = field(default_factory=list)
    cell: Cell | None = None
    unjudged: list[WireReply] = field(default_factory=list)

    @property
    def target(self) -> Target:
        """The interface."""
        return self.session.target

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

    def has_prompt(self, key: str) -> bool:
        """Tell whether there is a prompt for a scenario."""
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
        if judge in ("", self.requirement.id):
            self.fail(f"{what}: {_without_result(reply)}", expected="a result", replies=[reply])
        # Several checks may share what was asked here: the one that asked has the finding, and the others name it.
        self.skip(f"{what} did not work, which {judge or self.requirement.id} judges: {reply.describe()}")

    def excuse(self, reply: WireReply) -> None:
        """Take an internal error for an answer that is allowed, since the request was not a valid one."""
        if reply in self.unjudged:
            self.unjudged.remove(reply)

    def skip_if_refused(self, reply: WireReply) -> None:
        """End the check where the agent wants credentials that this interface does not get: nothing was judged."""
        auth = self.target.auth
        if auth.headers or auth.query or auth.cookies or not reply.is_refused:
            return
        # Where the card wants no credentials, a code of JSON-RPC that is in no table is a wrong code and no refusal.
        if reply.has_auth_status or self.target.wants_credentials:
            self.skip(f"the agent wants credentials, and none are sent to {self.target.url}")

    def task_of(self, reply: WireReply, what: str, judge: str = "") -> Mapping[str, Any]:
        """Return the Task in the reply to a message; end the check where the agent answered with a Message."""
        event = read_event(self.needed(reply, what, judge).result)
        if event.kind != "task" or not event.task_id:
            self.skip(f"{what}: the agent answers with a {event.kind or 'result of no known kind'}, not with a Task")
        return event.body

    def events_of(self, reply: WireReply, what: str, judge: str = "") -> list[StreamEvent]:
        """Return the events of a stream, whether or not it ended; end the check where there is none."""
        if not reply.events:
            self._end_without(reply, what, judge)
        return read_events(reply.events)

    # -- judging --

    def fail(
        self,
        found: str,
        *,
        pointer: str = "",
        expected: str = "",
        fix: str = "",
        replies: Iterable[WireReply] | None = None,
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
        replies: Iterable[WireReply] | None = None,
    ) -> None:
        """Record something softer than the requirement's level says, such as a contradiction of the specification."""
        self._record("warning", found, pointer, expected, fix, replies)

    def _record(
        self, severity: Severity, found: str, pointer: str, expected: str, fix: str, replies: Iterable[WireReply] | None
    ) -> None:
        redactor = Redactor(self.target.secrets)
        found = f"{self.cell}: {found}" if self.cell is not None and str(self.cell) else found
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

    def expect_ok(self, reply: WireReply, what: str = "") -> bool:
        """Fail unless there is a result; return whether there is."""
        if not reply.ok:
            self.fail(_without_result(reply), expected=what or "a result", replies=[reply])
        return reply.ok

    def expect_error(self, reply: WireReply, *names: str, what: str = "", old_names: Iterable[str] = ()) -> bool:
        """Fail unless the answer is one of these errors; return whether it is.

        Ends the check where the agent wants credentials that this interface does not get.

        :param names: names of the specification's table, such as ``TaskNotFoundError``.
        :param what: what was asked, to begin the finding with.
        :param old_names: errors that are tolerated with a warning.
        """
        self.skip_if_refused(reply)
        wanted = " or ".join(f"{n} ({ERRORS[n].code})" for n in names)
        found = f"{what}: {instead(reply)}" if what else instead(reply)
        if reply.error is not None:
            if any(reply.error.may_be(n) for n in names):
                self.excuse(reply)
                return True
            if any(reply.error.may_be(n) for n in old_names):
                self.warn(found, expected=wanted, replies=[reply])
                return True
        self.fail(found, expected=wanted, replies=[reply])
        return False

    def expect_refusal(self, reply: WireReply, what: str, expected: str = "an error") -> None:
        """Fail unless the request was refused with whatever error of the client's."""
        if reply.error is None:
            self.fail(f"{what}: {reply.describe()}", expected=expected, replies=(reply,))
        elif reply.is_internal_error:
            found = f"{what}: the server failed instead of refusing: {reply.error}"
            self.fail(found, expected=expected, replies=(reply,))

    def report_breakdown(self, reply: WireReply) -> None:
        """Record an internal error: whatever the level of this requirement, no valid request may be answered so."""
        self._record("error", _without_result(reply), "", "a result, as the request is valid", "", [reply])

    def report_problems(self, problems: Sequence[StreamProblem], *replies: WireReply, fix: str = "") -> None:
        """Record each problem of a stream as a failure."""
        for problem in problems:
            self.fail(problem.found, pointer=problem.pointer, expected=problem.expected, fix=fix, replies=replies)


def _without_result(reply: WireReply) -> str:
    """Say what is wrong with an answer that was to be a result, before what came."""
    return reply.describe() if reply.is_null or reply.problem else f"no result: {reply.describe()}"


def instead(reply: WireReply) -> str:
    """Say what is wrong with an answer that was to be another error, before what came."""
    if reply.problem or reply.is_null:
        return reply.describe()
    return f"it was accepted: {reply.describe()}" if reply.error is None else f"not the error: {reply.describe()}"
