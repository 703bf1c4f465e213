"""Make one ACTS test: check that it applies, ask its steps over one binding, and compare the answers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pytest_a2a_bench.a2a.bodies import as_object, as_objects
from pytest_a2a_bench.a2a.transport import open_client
from pytest_a2a_bench.conformance import data
from pytest_a2a_bench.conformance.acts.assertions import (
    mismatches,
    named_mismatches,
    sentence,
    shown,
    stream_mismatches,
    view,
)
from pytest_a2a_bench.conformance.acts.document import (
    CARD,
    ERROR_TYPES,
    AskingStep,
    AssertionStep,
    ClientStep,
    Expect,
    ExpectError,
    ExpectStream,
    NamedAssertion,
    OperationStep,
    Raw,
    RawStep,
    Repeat,
    Step,
)
from pytest_a2a_bench.conformance.acts.loader import Case
from pytest_a2a_bench.conformance.acts.values import MISSING, Scope, Unresolved, Until, at
from pytest_a2a_bench.conformance.card.fetch import find_card
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.finding import BINDING_OF, Exchange
from pytest_a2a_bench.conformance.protocol.operations import CAPABILITIES, NEVER_CALLED, SENDING, STREAMING
from pytest_a2a_bench.conformance.protocol.streams import Problem
from pytest_a2a_bench.conformance.wire.exchange import Redactor, is_late
from pytest_a2a_bench.conformance.wire.reply import ERROR_INFO, UNSET, NoAnswer, WireReply
from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.redact import KNOWN, in_environment

STREAM_SECONDS = 30.0
"""Time limit of a stream without one of its own."""

_SHOWN = 4
_PUSH = "TaskPushNotificationConfig"
_SECRET_NAME = re.compile(r"token|secret|passw|credential|key", re.IGNORECASE)
# The tag of tests about credentials: their raw steps send exactly the credentials that they write.
_ABOUT_CREDENTIALS = "auth"
_BASE_URLS = ("SUT_BASE_URL", "baseUrl")
_PROVIDED = {"header_inspection"}
_MESSAGE_MEMBERS = ("taskId", "contextId")
# ACTS has HTTP statuses for every binding; these are AIP-193's for gRPC's.
_HTTP = {
    **dict.fromkeys(("INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE"), 400),
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "ALREADY_EXISTS": 409,
    "ABORTED": 409,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}


async def run_case(case: Case, behaviors: frozenset[str], ctx: Context) -> None:
    """Make a test, and record its findings.

    :param behaviors: the prefixes that the agent knows.
    :raises SkipCheck: if it does not apply to this agent.
    :raises NoAnswer: if the agent cannot be asked.
    """
    for step in case.test.steps:
        if isinstance(step, ClientStep):
            ctx.skip("it is about how a client reads answers, and not about an agent")
        if isinstance(step, RawStep) and ctx.binding == "GRPC":
            ctx.skip("it sends HTTP requests by hand, which gRPC has no form for")
    provided = _PROVIDED | ({"auth_credentials"} if ctx.target.auth else set())
    for need in case.test.runner_requirements:
        if need not in provided:
            ctx.skip(f"it needs {need} of its runner")
    _check_card(case, ctx)
    for step in case.test.steps:
        # Only some of the public tests of an optional capability have it in their preconditions.
        if isinstance(step, OperationStep) and step.expect_error is None and step.a2a_operation in CAPABILITIES:
            ctx.require(f"capability {CAPABILITIES[step.a2a_operation]}")
    for name in case.test.requires_behaviors:
        if name not in behaviors:
            ctx.skip(f"the agent is not said to know the behavior {name} (setting acts-behaviors)")
    try:
        await _Run(case, ctx).steps()
    except Unresolved as error:
        ctx.skip(f"{error}; give it in the environment, under that name")


# --- whether it applies -----------------------------------------------------------------------------------------------


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
    skills = [skill.get("id") for skill in as_objects(target.card.get("skills"))]
    for name, listed, members in (
        ("skills", [skill.get("id") for skill in wanted.skills], skills),
        ("extensions", wanted.extensions, target.extensions),
    ):
        if missing := [str(one) for one in listed if one not in members]:
            ctx.skip(f"the card has no {name} {', '.join(missing)}")
    bindings = {BINDING_OF[name] for name in wanted.transport}
    if bindings and not bindings & {binding for binding, _ in target.interfaces}:
        ctx.skip(f"the card declares none of {', '.join(sorted(bindings))}")


# --- requests ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one step.

    :param body: what assertions are about: the operation's result, or a raw step's whole document.
    :param events: of a stream, as :func:`~.assertions.view` returns them; None where no stream was asked for.
    """

    reply: WireReply
    body: Any
    events: list[Any] | None = None

    @property
    def source(self) -> Any:
        """The value of ``{{step.response}}``."""
        return self.body if self.events is None else self.events

    @property
    def status(self) -> int | None:
        """The HTTP status, or the one that stands for gRPC's."""
        if self.reply.exchange.binding != "GRPC":
            return self.reply.status
        grpc = self.reply.error.grpc_status if self.reply.error is not None else ""
        return 200 if self.reply.ok else _HTTP.get(grpc, 500) if grpc else None


def message_params(operation: str, params: Mapping[str, Any], message_id: str) -> dict[str, Any]:
    """Return an operation's parameters as A2A has them: ACTS writes some beside the object that they belong to.

    :param message_id: of a message that has none.
    """
    found = dict(params)
    if operation in SENDING and isinstance(found.get("message"), Mapping):
        moved = {name: found.pop(name) for name in _MESSAGE_MEMBERS if name in found}
        found["message"] = {"messageId": message_id, **moved, **found["message"]}
    if operation == f"Create{_PUSH}" and isinstance(found.get("pushNotificationConfig"), Mapping):
        found = {**found.pop("pushNotificationConfig"), **found}
    if operation == "GetExtendedAgentCard":
        found.pop("extended", None)
    return found


async def _call(ctx: Context, step: OperationStep, params: Mapping[str, Any], reading: Mapping[str, Any]) -> Answer:
    operation = step.a2a_operation
    if operation == CARD:
        reply = await ctx.shared("acts-card", lambda: _get_card(ctx))
        return Answer(reply, _or_missing(reply.result))
    sent = message_params(operation, params, str(uuid.uuid4()))
    if operation not in STREAMING:
        reply = await ctx.call(operation, sent)
        return Answer(reply, _or_missing(reply.result))
    reply = await ctx.call(operation, sent, **reading)
    return Answer(reply, _or_missing(reply.result), [view(event) for event in reply.events])


async def _call_raw(ctx: Context, raw: Raw, reading: Mapping[str, Any], *, is_stream: bool, auth: bool) -> Answer:
    body = raw.body_raw if raw.body_raw is not None else raw.body
    is_root = raw.path in ("", "/")
    reply = await ctx.call(
        raw.operation or "Request",
        raw.params,
        headers=raw.headers,
        version_header=None,
        body=body if body is not None else UNSET,
        http_method=raw.method,
        # The address of the interface as the card has it: with a slash at its end it may be another one.
        path=None if is_root and ctx.binding == "JSONRPC" else raw.path,
        auth=auth,
        spell=False,
        **(reading if is_stream else {"stream": False}),
    )
    return Answer(reply, _or_missing(reply.document), list(reply.documents) if is_stream else None)


async def _get_card(ctx: Context) -> WireReply:
    target = ctx.target
    url = target.endpoint or target.url
    try:
        async with open_client(target.network, timeout=target.timeout) as client:
            raw, http = await find_card(client, url, target.auth)
    except A2ABenchError as error:
        return WireReply(Exchange("card", CARD, url, problem=str(error)), problem=str(error))
    exchange = Redactor(target.secrets).exchange(http.exchange or Exchange("card", CARD, http.url))
    # A status that is no 200 is an answer that assertions can be about.
    problem = http.problem if http.status in (None, 200) else ""
    return WireReply(exchange, http.status, http.headers, document=raw, result=raw, problem=problem)


def _or_missing(value: Any) -> Any:
    return MISSING if value is None else value


# --- steps ------------------------------------------------------------------------------------------------------------


class _Run:
    def __init__(self, case: Case, ctx: Context) -> None:
        self._case, self._ctx = case, ctx
        given = {**dict.fromkeys(_BASE_URLS, ctx.target.url), "webhookUrl": NEVER_CALLED}
        self._scope = Scope(case.variables, given, _environment)

    async def steps(self) -> None:
        test, replies = self._case.test, list[WireReply]()
        for step in test.steps:
            if step.delay_ms:
                await asyncio.sleep(step.delay_ms / 1000)
            if isinstance(step, AssertionStep):
                found = self._named(step.assertion)
            else:
                assert isinstance(step, AskingStep)
                answer, found = await self._ask(step)
                replies = [answer.reply]
            if found:
                # Later steps build on this one, and would report the same once more.
                self._report(f"step {step.id}", found, replies, step)
                return
        for assertion in test.assertions:
            if found := self._named(assertion):
                self._report(f"assertion {assertion.id or assertion.source}", found, replies)

    async def _ask(self, step: AskingStep) -> tuple[Answer, list[Problem]]:
        """Ask a step, and return its answer with its mismatches."""
        answer = await self._asked(step)
        if answer.status is None and not (answer.events or is_late(answer.reply.exchange)):
            raise NoAnswer(f"step {step.id}: {answer.reply.describe()}", answer.reply)
        if step.repeat is not None:
            answer, gave_up = await self._until(step.repeat, step, answer)
            if gave_up is not None:
                return answer, [gave_up]
        wrong = self._wrong(step, answer) or self._capture(step, answer)
        return answer, wrong or [m for assertion in step.assertions for m in self._named(assertion)]

    async def _asked(self, step: AskingStep) -> Answer:
        stream = step.expect_stream
        seconds = stream.timeout_ms / 1000 if stream is not None and stream.timeout_ms is not None else STREAM_SECONDS
        reading = {"stream": True, "timeout": seconds}
        if isinstance(step, OperationStep):
            return await _call(self._ctx, step, self._scope.fill(step.params), reading)
        assert isinstance(step, RawStep)
        raw = self._scope.fill_form(step.raw)
        auth = _ABOUT_CREDENTIALS not in self._case.test.tags
        return await _call_raw(self._ctx, raw, reading, is_stream=stream is not None, auth=auth)

    async def _until(self, repeat: Repeat, step: AskingStep, answer: Answer) -> tuple[Answer, Problem | None]:
        """Ask again until the condition holds, and return the last answer, with a mismatch where it never did."""
        condition = Until(str(self._scope.fill(repeat.until)))
        for pause in repeat.pauses:
            if condition.holds(answer.source):
                return answer, None
            await asyncio.sleep(pause)
            answer = await self._asked(step)
        if condition.holds(answer.source):
            return answer, None
        tried = f"not so after {repeat.max_attempts} attempts: {shown(answer.source)}"
        return answer, Problem("", tried, repeat.until)

    def _wrong(self, step: AskingStep, answer: Answer) -> list[Problem]:
        found: list[Problem] = []
        is_raw = isinstance(step, RawStep)
        if step.expect_error is not None:
            found += _wrong_error(self._scope.fill_form(step.expect_error), answer)
        elif step.expect_stream is not None:
            found += _wrong_stream(self._scope.fill_form(step.expect_stream), answer)
        elif not is_raw and (answer.reply.error is not None or answer.reply.problem):
            found.append(Problem("", answer.reply.describe(), "a result"))
        if step.expect is not None and (is_raw or not found):
            found += _wrong_answer(self._scope.fill_form(step.expect), answer)
        return found

    def _capture(self, step: AskingStep, answer: Answer) -> list[Problem]:
        self._scope.add(step.id, "response", answer.source)
        for name, path in step.capture.items():
            # Of a stream, the first event that has it.
            roots = [answer.source, *(answer.events or ())]
            value = next((v for root in roots if (v := at(root, path)) is not MISSING), MISSING)
            if value is MISSING:
                return [Problem(path, "not there", f"something to keep as {name}")]
            self._scope.add(step.id, name, value)
        return []

    def _named(self, assertion: NamedAssertion) -> list[Problem]:
        return named_mismatches(self._scope.fill_form(assertion), self._scope.source(assertion.source))

    def _report(self, where: str, found: list[Problem], replies: list[WireReply], step: Step | None = None) -> None:
        why = _doubt(self._case.test.id, step, replies[-1]) if step is not None and replies else ""
        # A test that contradicts the specification gives a warning.
        record = self._ctx.warn if why else self._ctx.fail
        for mismatch in found[:_SHOWN]:
            expected = f"{mismatch.expected} (the test in {self._case.where})"
            record(f"{where}: {sentence(mismatch)}{f'; but {why}' if why else ''}", *replies, expected=expected)


def _environment(name: str) -> str | None:
    value = os.environ.get(name)
    if value is not None and _SECRET_NAME.search(name):
        KNOWN.remember(in_environment(os.environ, name))
    return value


# --- answers ----------------------------------------------------------------------------------------------------------


def _wrong_answer(expect: Expect, answer: Answer) -> list[Problem]:
    found = mismatches(expect.status, answer.status, "the status") if expect.status is not None else []
    for name, assertion in expect.headers.items():
        found += mismatches(assertion, answer.reply.headers.get(name.lower(), MISSING), f"the header {name}")
    if expect.body is not None:
        found += mismatches(expect.body, answer.body)
    return found


def _wrong_stream(expect: ExpectStream, answer: Answer) -> list[Problem]:
    reply = answer.reply
    if reply.error is not None and not answer.events:
        return [Problem("", reply.describe(), "a stream")]
    # Events of a raw step are whole documents, and an error may be expected among them.
    wanted = [event for event in (*expect.events, expect.final_event, expect.each_event) if event is not None]
    if reply.error is not None and not any("error" in event for event in wanted):
        return [Problem("the stream", f"ended by {reply.describe()}; {len(reply.events)} events had come", "no error")]
    if reply.problem:
        return [Problem("the stream", f"not: {reply.problem}; {len(reply.events)} events had come", "complete")]
    return stream_mismatches(expect, answer.events or [])


def _wrong_error(expect: ExpectError, answer: Answer) -> list[Problem]:
    error = answer.reply.error
    if error is None:
        wanted = f"an error {expect.error_type}" if expect.error_type is not None else "an error"
        found = answer.reply.describe() if answer.reply.problem else f"no error: {answer.reply.describe()}"
        return [Problem("", found, wanted)]
    wrong: list[Problem] = []
    if expect.error_type is not None:
        # A status alone is that of several errors, and the expected one may be among them.
        names: list[Any] = [name for name, ours in ERROR_TYPES.items() if error.may_be(ours)]
        if all(mismatches(expect.error_type, name) for name in names or [error.name or MISSING]):
            wrong.append(Problem("the error", str(error), str(expect.error_type)))
    info = error.detail(ERROR_INFO)
    raw = as_object(error.raw)
    for name, assertion, value in (
        ("message", expect.message, error.message),
        ("data", expect.data, raw["data"] if "data" in raw else list(error.details) or MISSING),
        ("details", expect.details, _or_missing(info)),
    ):
        if assertion is not None:
            wrong += mismatches(assertion, value, f"the error's {name}")
    return wrong


# --- public tests that contradict A2A ---------------------------------------------------------------------------------

_NO_ID = "the message that it sends has no messageId, which A2A requires (1.0.1 §4.1.4)"


@cache
def _doubts() -> Mapping[str, Mapping[str, str]]:
    return {row["id"]: row for row in data.load("acts.jsonl")}


def _doubt(id: str, step: Step, reply: WireReply) -> str:
    """Return why a failed step may be the test's mistake; empty where it is the agent's.

    The step is compared, and not the id alone: a later draft may have corrected it.
    """
    error = reply.error
    if isinstance(step, RawStep) and error is not None and error.may_be("InvalidParamsError"):
        message = step.raw.params.get("message")
        if isinstance(message, Mapping) and "messageId" not in message:
            return _NO_ID
    known = _doubts().get(id)
    if known is None or known.get("binding", reply.exchange.binding) != reply.exchange.binding:
        return ""
    return known["why"] if re.search(known["where"], json.dumps(step.model_dump())) else ""
