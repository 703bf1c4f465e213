"""One ACTS test is made: does it apply, how is the agent told what to do, and what came of each step."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import re
from collections.abc import Mapping
from typing import Any

from pytest_a2a_bench.conformance.acts.asking import Answer, ask, ask_by_hand, operation_of
from pytest_a2a_bench.conformance.acts.assertions import Mismatch, mismatches, named_mismatches, shown
from pytest_a2a_bench.conformance.acts.document import (
    Expect,
    ExpectError,
    ExpectWebhook,
    NamedAssertion,
    Repeat,
    Step,
    StreamAssertions,
)
from pytest_a2a_bench.conformance.acts.loader import ERROR_TYPES, Case
from pytest_a2a_bench.conformance.acts.public import doubt
from pytest_a2a_bench.conformance.acts.streams import of_cut, stream_mismatches, view
from pytest_a2a_bench.conformance.acts.telling import Telling
from pytest_a2a_bench.conformance.acts.values import MISSING, Scope, Unresolved, Until, at, replaced
from pytest_a2a_bench.conformance.checks.notifications import NEVER_CALLED, receiver
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.protocol.operations import STREAMING
from pytest_a2a_bench.conformance.protocol.streams import read_event
from pytest_a2a_bench.conformance.wire.exchange import is_late
from pytest_a2a_bench.conformance.wire.reply import ERROR_INFO, ERRORS, NoAnswer, ReplyError, WireReply
from pytest_a2a_bench.conformance.wire.webhook import Delivery, Hook
from pytest_a2a_bench.secret import KNOWN, in_environment

TRANSPORTS: Mapping[str, str] = {"jsonrpc": "JSONRPC", "rest": "HTTP+JSON", "grpc": "GRPC"}
_SHOWN = 4
_PUSH = "TaskPushNotificationConfig"
_SECRET_NAME = re.compile(r"token|secret|passw|credential|key", re.IGNORECASE)
# Credentials are what these tests are about: what they send by hand has those that it says, and no others.
_ABOUT_CREDENTIALS = "auth"
_TOKEN = "X-A2A-Notification-Token"
_GIVEN = ("SUT_BASE_URL", "baseUrl")


async def make(case: Case, behaviors: frozenset[str], ctx: Context) -> None:
    """Make a test, and record what is wrong.

    :param behaviors: the prefixes that the agent is said to know.
    :raises SkipCheck: if it does not apply to this agent.
    :raises NoAnswer: if the agent cannot be asked.
    """
    _check_form(case, ctx)
    _check_card(case, ctx)
    telling = Telling(case, behaviors, ctx.target.scenarios)
    if telling.obstacle:
        ctx.skip(telling.obstacle)
    await _Run(case, ctx, telling).run()


# --- whether it applies -----------------------------------------------------------------------------------------------


def _check_form(case: Case, ctx: Context) -> None:
    for step in case.test.steps:
        if step.client_response is not None:
            ctx.skip("it is about how a client reads answers, and not about an agent")
        if step.raw is not None and ctx.binding == "GRPC":
            ctx.skip("it sends HTTP requests by hand, which gRPC has no form for")
    provided = {"header_inspection", "webhook_endpoint", "concurrent_streams", "stream_disconnect"}
    auth = ctx.target.auth
    if auth.headers or auth.query or auth.cookies:
        provided.add("auth_credentials")
    for need in case.test.runner_requirements:
        if need not in provided:
            ctx.skip(f"it needs {need} of whoever makes it")


def _check_card(case: Case, ctx: Context) -> None:
    wanted, target = case.test.preconditions, ctx.target
    # The first draft has it among the capabilities, where A2A has none of that name.
    capabilities = dict(wanted.capabilities)
    authentication = capabilities.pop("authentication", wanted.authentication)
    if authentication is not None and target.wants_credentials is not authentication:
        ctx.skip(f"the card {'demands no' if authentication else 'demands'} credentials")
    for name, value in capabilities.items():
        found = target.declares(name) if isinstance(value, bool) else target.capabilities.get(name)
        if found != value:
            ctx.skip(f"the card says {name}: {found!r}, and it is about {name}: {value!r}")
    for name, listed, members in (
        ("skills", [skill.get("id") for skill in wanted.skills], _texts(target.card.get("skills"), "id")),
        ("extensions", wanted.extensions, _texts(target.capabilities.get("extensions"), "uri")),
    ):
        if missing := [str(one) for one in listed if one not in members]:
            ctx.skip(f"the card has no {name} {', '.join(missing)}")
    bindings = {TRANSPORTS[name] for name in wanted.transport}
    if bindings and not bindings & {binding for binding, _ in target.interfaces}:
        ctx.skip(f"the card declares none of {', '.join(sorted(bindings))}")
    for step in case.test.steps:
        _check_capability(step, ctx)


def _check_capability(step: Step, ctx: Context) -> None:
    """Skip what an agent need not have: only some of the public tests say it in their preconditions."""
    if step.operation is None or step.expect_error is not None:
        return
    operation = operation_of(step.operation, step.params)
    if operation in STREAMING:
        ctx.require_capability("streaming")
    if _PUSH in operation:
        ctx.require_capability("pushNotifications")
    if operation == "GetExtendedAgentCard":
        ctx.require_capability("extendedAgentCard")


def _texts(value: Any, member: str) -> list[Any]:
    return [one.get(member) for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


# --- its steps --------------------------------------------------------------------------------------------------------


class _Run:
    def __init__(self, case: Case, ctx: Context, telling: Telling) -> None:
        self._case, self._ctx, self._telling = case, ctx, telling
        self._hook: Hook | None = None
        self._scope = Scope(case.variables, self._given, self._environment)

    async def run(self) -> None:
        try:
            if not any(step.expect_webhook is not None for step in self._case.test.steps):
                await self._steps()
                return
            async with receiver(self._ctx) as hooks:
                self._hook = hooks.hook()
                await self._steps()
        except Unresolved as error:
            # What could not be asked has shown nothing about the agent.
            self._ctx.skip(f"{error}; give it in the environment, under that name")

    async def _steps(self) -> None:
        test, replies = self._case.test, list[WireReply]()
        for step in test.steps:
            if step.delay_ms:
                await asyncio.sleep(step.delay_ms / 1000)
            found, answers = await self._step(step)
            if answers:
                replies = [answer.reply for answer in answers]
            if found:
                # What follows builds on this one, and would tell the same once more.
                self._tell(f"step {step.id}", found, replies, step)
                return
        for assertion in test.assertions:
            if found := self._named(assertion):
                self._tell(f"assertion {assertion.id or assertion.source}", found, replies)

    async def _step(self, step: Step) -> tuple[list[Mismatch], list[Answer]]:
        if step.assertion is not None:
            return self._named(step.assertion), []
        if step.expect_webhook is not None:
            return await self._notified(_filled(step.expect_webhook, self._scope.fill, self._telling.texts)), []
        cuts = [stream.disconnect_after for stream in step.streams] or [None]
        # Together, for what one gets while another is there, or hangs up, is what is looked at.
        answers = list(await asyncio.gather(*(self._asked(step, cut) for cut in cuts)))
        for answer in answers:
            if answer.reply.status is None and not (answer.events or is_late(answer.reply.exchange)):
                raise NoAnswer(f"step {step.id}: {answer.reply.describe()}", answer.reply)
        if step.repeat is not None:
            answers[0], gave_up = await self._until(step.repeat, step, answers[0])
            if gave_up is not None:
                return [gave_up], answers
        for answer in (answer for answer, cut in zip(answers, cuts, strict=True) if cut is None):
            self._telling.check(step, answer, self._ctx)
        wrong = self._wrong_streams(step, answers) if step.streams else self._judged(step, answers[0])
        wrong = wrong or self._captured(step, answers[0])
        for assertion in step.assertions if not wrong else ():
            wrong += self._named(assertion)
        return wrong, answers

    async def _asked(self, step: Step, cut: int | None = None) -> Answer:
        ctx, texts = self._ctx, self._telling.texts
        stream = step.expect_stream
        if step.raw is not None:
            about_credentials = _ABOUT_CREDENTIALS in self._case.test.tags
            raw = type(step.raw)(
                method=step.raw.method,
                path=str(self._scope.fill(step.raw.path)),
                headers={name: str(self._scope.fill(value)) for name, value in step.raw.headers.items()},
                body=self._scope.fill(replaced(step.raw.body, texts)),
                body_raw=self._scope.fill(step.raw.body_raw) if step.raw.body_raw is not None else None,
            )
            return await ask_by_hand(ctx, raw, stream, cut, auth=not about_credentials)
        return await ask(ctx, str(step.operation), self._scope.fill(replaced(step.params, texts)), stream, cut)

    def _wrong_streams(self, step: Step, answers: list[Answer]) -> list[Mismatch]:
        """Return what is wrong with each of several streams: by what is said of all, and of the one."""
        found: list[Mismatch] = []
        for number, (stream, answer) in enumerate(zip(step.streams, answers, strict=True)):
            wrong: list[Mismatch] = []
            for said in (step.expect_stream, stream):
                expect = _filled(said, self._scope.fill, self._telling.texts)
                if said is not stream and stream.disconnect_after is not None:
                    expect = of_cut(expect, stream.disconnect_after)
                wrong = wrong or _wrong_stream(expect, answer)
            if step.expect is not None and not wrong:
                wrong = _wrong_answer(_filled(step.expect, self._scope.fill, self._telling.texts), answer)
            found += [dataclasses.replace(one, path=f"stream {number}: {one.path or 'the answer'}") for one in wrong]
        return found

    async def _notified(self, expect: ExpectWebhook) -> list[Mismatch]:
        """Wait for notifications about a task, and return what they are not."""
        assert self._hook is not None
        wanted = expect.final_event

        def about(deliveries: list[Delivery]) -> list[Delivery]:
            return [one for one in deliveries if read_event(one.json).task_id == expect.task_id]

        def enough(deliveries: list[Delivery]) -> bool:
            came = about(deliveries)
            # The last one may be on its way when there are as many as must be.
            ends = wanted is None or bool(came and not mismatches(wanted, view(came[-1].json)))
            return len(came) >= expect.min_count and ends

        seconds = await self._ctx.allow(expect.timeout_ms / 1000)
        await self._hook.wait(enough, timeout=seconds)
        came, everything = about(self._hook.deliveries), len(self._hook.deliveries)
        if len(came) < expect.min_count:
            there = f"{len(came)}, of {everything} that came within {seconds:.1f} s"
            return [Mismatch("notifications of the task", f"at least {expect.min_count}", there)]
        found: list[Mismatch] = []
        for number, one in enumerate(came):
            where = f"notification {number}"
            if expect.each_event is not None:
                found += mismatches(expect.each_event, view(one.json), where)
            # The header has no place in the specification; a test that wants it says so.
            token = [(_TOKEN, expect.token)] if expect.token is not None else []
            for name, assertion in (*expect.headers.items(), *token):
                found += mismatches(assertion, one.headers.get(name.lower(), MISSING), f"{where}: the header {name}")
        if wanted is not None:
            found += mismatches(wanted, view(came[-1].json), "the last notification")
        return found

    async def _until(self, repeat: Repeat, step: Step, answer: Answer) -> tuple[Answer, Mismatch | None]:
        """Ask again until the condition holds, and return the last answer, with what it is not."""
        condition = Until(str(self._scope.fill(repeat.until)))
        for pause in repeat.pauses:
            if condition.holds(answer.source):
                return answer, None
            await asyncio.sleep(pause)
            answer = await self._asked(step)
        if condition.holds(answer.source):
            return answer, None
        tried = f"not so after {repeat.max_attempts} attempts: {shown(answer.source)}"
        return answer, Mismatch("", repeat.until, tried)

    def _judged(self, step: Step, answer: Answer) -> list[Mismatch]:
        fill = self._scope.fill
        texts = self._telling.texts
        found: list[Mismatch] = []
        if step.expect_error is not None:
            found += _wrong_error(_filled(step.expect_error, fill, texts), answer)
        elif step.expect_stream is not None:
            found += _wrong_stream(_filled(step.expect_stream, fill, texts), answer)
        elif step.raw is None and (answer.reply.error is not None or answer.reply.problem):
            found.append(Mismatch("", "a result", answer.reply.describe()))
        if step.expect is not None and not (found and step.raw is None):
            found += _wrong_answer(_filled(step.expect, fill, texts), answer)
        return found

    def _captured(self, step: Step, answer: Answer) -> list[Mismatch]:
        self._scope.add(step.id, "response", answer.source)
        for name, path in step.capture.items():
            # Of a stream, the first event that has it.
            roots = [answer.source, *(answer.events or ())]
            value = next((v for root in roots if (v := at(root, path)) is not MISSING), MISSING)
            if value is MISSING:
                return [Mismatch(path, f"something to keep as {name}", "not there")]
            self._scope.add(step.id, name, value)
        return []

    def _named(self, assertion: NamedAssertion) -> list[Mismatch]:
        filled = _filled(assertion, self._scope.fill, self._telling.texts, but=("source",))
        return named_mismatches(filled, self._scope.source(assertion.source))

    def _tell(self, where: str, found: list[Mismatch], replies: list[WireReply], step: Step | None = None) -> None:
        self._telling.excuse(found, self._ctx)
        why = doubt(self._case.test.id, step, replies[-1]) if step is not None and replies else ""
        # A test that is at odds with the specification blames nobody for what that allows.
        tell = self._ctx.warn if why else self._ctx.fail
        for mismatch in found[:_SHOWN]:
            expected = f"{mismatch.expected} (the test in {self._case.where})"
            tell(f"{where}: {mismatch}{f'; but {why}' if why else ''}", expected=expected, replies=replies)

    # -- variables --

    def _given(self, name: str) -> str | None:
        if name in _GIVEN:
            return self._ctx.target.url
        if name != "webhookUrl":
            return None
        return self._hook.url if self._hook is not None else NEVER_CALLED

    def _environment(self, name: str) -> str | None:
        value = os.environ.get(name)
        if value is not None and _SECRET_NAME.search(name):
            KNOWN.remember(in_environment(os.environ, name))
        return value


def _filled(form: Any, fill: Any, texts: Mapping[str, str], but: tuple[str, ...] = ()) -> Any:
    """Return an expectation with its references replaced."""
    members = {name: getattr(form, name) for name in form.__dataclass_fields__}
    return type(form)(
        **{n: v if n in but or not _is_data(v) else fill(replaced(v, texts)) for n, v in members.items()}
        | {n: _filled(v, fill, texts) for n, v in members.items() if hasattr(v, "__dataclass_fields__")}
    )


def _is_data(value: Any) -> bool:
    return isinstance(value, str | Mapping | list)


# --- what it expects --------------------------------------------------------------------------------------------------


def _wrong_answer(expect: Expect, answer: Answer) -> list[Mismatch]:
    found = mismatches(expect.status, answer.status, "the status") if expect.status is not None else []
    for name, assertion in expect.headers.items():
        found += mismatches(assertion, answer.reply.headers.get(name.lower(), MISSING), f"the header {name}")
    if expect.body is not None:
        found += mismatches(expect.body, answer.body)
    return found


def _wrong_stream(expect: StreamAssertions, answer: Answer) -> list[Mismatch]:
    reply = answer.reply
    if reply.error is not None and not answer.events:
        return [Mismatch("", "a stream", reply.describe())]
    # Events of a request by hand are whole documents, and an error may be what is expected of one.
    if reply.error is not None and not any("error" in event for event in _events(expect)):
        return [Mismatch("the stream", "no error", f"ended by {reply.describe()}; {len(reply.events)} events had come")]
    if reply.problem:
        return [Mismatch("the stream", "complete", f"not: {reply.problem}; {len(reply.events)} events had come")]
    return stream_mismatches(expect, answer.events or [])


def _events(expect: StreamAssertions) -> list[Mapping[str, Any]]:
    return [event for event in (*expect.events, expect.final_event, expect.each_event) if event is not None]


def _wrong_error(expect: ExpectError, answer: Answer) -> list[Mismatch]:
    error = answer.reply.error
    if error is None:
        wanted = f"an error {expect.error_type}" if expect.error_type is not None else "an error"
        found = answer.reply.describe() if answer.reply.problem else f"no error: {answer.reply.describe()}"
        return [Mismatch("", wanted, found)]
    found_here: list[Mismatch] = []
    if expect.error_type is not None:
        # A status alone is that of several errors; the draft wants no more than one that can be it.
        names: list[Any] = [name for name, ours in ERROR_TYPES.items() if error.may_be(ours)]
        if all(mismatches(expect.error_type, name) for name in names or [error.name or MISSING]):
            found_here.append(Mismatch("the error", str(expect.error_type), str(error)))
    if expect.code is not None and all(mismatches(expect.code, code) for code in _codes(error)):
        found_here.append(Mismatch("the error", f"the code {shown(expect.code)}", str(error)))
    info = error.detail(ERROR_INFO)
    raw = error.raw if isinstance(error.raw, Mapping) else {}
    for name, assertion, value in (
        ("message", expect.message, error.message),
        ("data", expect.data, raw["data"] if "data" in raw else list(error.details) or MISSING),
        ("details", expect.details, info if info is not None else MISSING),
    ):
        if assertion is not None:
            found_here += mismatches(assertion, value, f"the error's {name}")
    return found_here


def _codes(error: ReplyError) -> list[Any]:
    """Return the numbers that an error has; JSON-RPC's own, where no other binding has one, are those it can be."""
    if error.code is not None:
        return [error.code]
    named = [row.code for row in ERRORS.values() if error.may_be(row.name)]
    return [*named, *([error.http_status] if error.http_status is not None else [])] or [MISSING]
