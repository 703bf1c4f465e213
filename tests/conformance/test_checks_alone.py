"""Checks of answers that are made up: rules whose fault a whole agent shows only by waiting, or by chance."""

import asyncio
import inspect
import json
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from one_test import in_one_test

from pytest_a2a_bench.conformance import fixtures
from pytest_a2a_bench.conformance.catalogue import requirement
from pytest_a2a_bench.conformance.checks import (
    auth,
    binding,
    data_model,
    errors,
    list_tasks,
    push,
    send,
    streaming,
    tasks,
    v03,
    versioning,
)
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.finding import Exchange
from pytest_a2a_bench.conformance.scenarios import Scenarios
from pytest_a2a_bench.conformance.target import Target
from pytest_a2a_bench.conformance.wire.exchange import late
from pytest_a2a_bench.conformance.wire.reply import ReplyError, SkipCheck, WireReply, read_rpc_error
from pytest_a2a_bench.conformance.wire.webhook import Delivery

Check = Callable[..., Awaitable[None]]


def says(
    check: Check,
    id: str,
    *arguments: Any,
    version: str = "1.0",
    binding: str = "JSONRPC",
    card: Mapping[str, Any] = {},
    prompts: Iterable[str] = ("chunks", "large", "crash", "file"),
    **given: Any,
) -> str:
    """Return the findings of a check, or why it does not apply.

    :param arguments: of the check, beside the context.
    :param prompts: the scenarios for which the agent has one.
    :param given: what coroutine functions of the check's module, or else methods of the context, return: a value, or a
        function of their arguments that returns or awaits one.
    """
    module = sys.modules[check.__module__]
    target = Target("", card, version, binding, "", scenarios=Scenarios({name: name for name in prompts}))
    context = Context(requirement(id), cast("Any", SimpleNamespace(target=target)))

    def giving(value: Any) -> Any:
        async def give(*arguments: Any, **named: Any) -> Any:
            found = value(*arguments, **named) if callable(value) else value
            return await found if inspect.isawaitable(found) else found

        return give

    with pytest.MonkeyPatch.context() as patch:
        for name, value in given.items():
            patch.setattr(module if hasattr(module, name) else Context, name, giving(value))
        try:
            asyncio.run(check(context, *arguments))  # type: ignore[arg-type]
        except SkipCheck as skipped:
            return f"skipped: {skipped}"
    return "; ".join(finding.found for finding in context.findings)


def begins(said: str, found: str) -> bool:
    """Return whether a check says what begins so; nothing at all where that is empty."""
    return said.startswith(found) and bool(said) is bool(found)


def reply(result: Any = None, *, binding: str = "JSONRPC", **members: Any) -> WireReply:
    return WireReply(Exchange(binding, "GetTask", ""), result=result, **members)


def refused(code: int, message: str = "no", *, status: int = 200, **members: Any) -> WireReply:
    return reply(error=read_rpc_error({"code": code, "message": message}, status), status=status, **members)


def status(state: str) -> dict[str, Any]:
    return {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": f"TASK_STATE_{state}"}}}


def chunk(text: str, *, append: bool = True) -> dict[str, Any]:
    artifact = {"artifactId": "a", "parts": [{"text": text}]}
    return {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": artifact, "append": append}}


def hook(*events: Any, query: str = push.QUERY) -> Any:
    """Return a webhook to which these events were delivered."""
    return SimpleNamespace(deliveries=[Delivery("POST", {}, json.dumps(e).encode(), 0.0, query) for e in events])


def several(*hooks: Any, state: str = "COMPLETED", got: Any = ()) -> push.Several:
    stored = reply({"id": "t", "status": {"state": f"TASK_STATE_{state}"}})
    return push.Several(hooks, (reply(),) * len(hooks), reply(), got, stored)


def delivered(*events: Any, **task: Any) -> push.Delivered:
    """Return a task with the events that were delivered of it."""
    stored = reply({"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}, **task})
    return push.Delivered(reply(), "t", hook(), tuple(hook(*events).deliveries), stored)


def in_turn(*replies: WireReply) -> Callable[..., WireReply]:
    """Return a function that returns these, one for each call."""
    left = iter(replies)
    return lambda *_, **__: next(left)


CREATED = ("t", {"id": "c"}, reply())
END, GOING_ON = status("COMPLETED"), status("WORKING")
TOLD, DEAF = hook(GOING_ON, END), hook()
CHUNKS = {"artifacts": [{"artifactId": "a", "parts": [{"text": "one"}, {"text": "two"}]}]}
IN_ORDER = (chunk("one", append=False), chunk("two"), END)
DELETED = "the config was deleted while the task was running, and the end of the task came to its webhook"


@in_one_test(
    ("check", "given", "found"),
    [
        (push.each_hook_is_called, {"several": several(TOLD, TOLD, DEAF)}, ""),
        (push.each_hook_is_called, {"several": several(DEAF, DEAF, DEAF)}, "the task ended, and no notification came"),
        (push.each_hook_is_called, {"several": several(TOLD, DEAF, DEAF)}, "of 2 webhooks of a task number 2 got no"),
        (push.each_hook_is_called, {"several": several(TOLD, DEAF, DEAF, got=[refused(-32001)])}, "skipped: a config"),
        (push.each_hook_is_called, {"several": several(TOLD, DEAF, DEAF, state="WORKING")}, "skipped: the task of the"),
        (push.each_hook_is_called, {"several": several(TOLD, hook(END, query=""), DEAF)}, "the webhook was called"),
        (push.nothing_comes_after_the_end, {"several": several(TOLD, TOLD, DEAF)}, ""),
        (
            push.nothing_comes_after_the_end,
            {"several": several(TOLD, hook(END, GOING_ON), DEAF)},
            "event 1 (statusUpdate",
        ),
        # The end of the task shows whether a deletion ends notifications, if it came to another webhook.
        (push.deleting_one_ends_its_notifications, {"several": several(TOLD, TOLD, hook(GOING_ON))}, ""),
        (push.deleting_one_ends_its_notifications, {"several": several(TOLD, TOLD, TOLD)}, DELETED),
        (push.deleting_one_ends_its_notifications, {"several": several(DEAF, DEAF, DEAF)}, "skipped: the end of the"),
        (push.config_comes_with_the_message, {"delivered": delivered(END), "deliver": delivered(END)}, ""),
        (
            push.config_comes_with_the_message,
            {"delivered": delivered(), "deliver": delivered()},
            "a config that came with the message: no notification",
        ),
        (
            push.config_comes_with_the_message,
            {"delivered": delivered(END), "deliver": delivered()},
            "a config that came with the message with returnImmediately: no notification",
        ),
        (push.order_is_kept, {"arrived": delivered(END), "deliver": delivered(*IN_ORDER, **CHUNKS)}, ""),
        (
            push.order_is_kept,
            {"arrived": delivered(END), "deliver": delivered(chunk("two", append=False), chunk("one"), END, **CHUNKS)},
            "artifact 'a': ",
        ),
        (push.payload_has_its_media_type, {"arrived": delivered(END)}, "Content-Type is 'missing'"),
        (push.payload_is_a_stream_response, {"arrived": delivered(END)}, ""),
        (push.payload_is_a_stream_response, {"arrived": delivered({"a": 1})}, "event 0 has none of the members"),
        (push.payload_is_a_stream_response, {"arrived": delivered({"task": {"id": "t"}})}, "status of a task"),
        (push.delete_ends_the_notifications, {"created": CREATED, "call": in_turn(reply(), refused(-32001))}, ""),
        (
            push.delete_ends_the_notifications,
            {"created": CREATED, "call": in_turn(reply(), reply({"id": "c"}))},
            "after it was deleted: ",
        ),
        (push.delete_is_idempotent, {"created": CREATED, "call": in_turn(reply(), reply())}, ""),
        (
            push.delete_is_idempotent,
            {"created": CREATED, "call": in_turn(reply(), refused(-32001))},
            "deleting a second",
        ),
    ],
)
def test_notifications(check: Check, given: Mapping[str, Any], found: str) -> None:
    said = says(check, "PUSH-011", **given)
    assert begins(said, found), said


@in_one_test(
    ("answer", "found"),
    [
        (refused(-32000, status=401), "status 401 without WWW-Authenticate"),
        (refused(-32000, status=401, headers={"www-authenticate": "Bearer"}), ""),
        # RFC 9110 demands the challenge of a 401 only.
        (refused(-32000, status=403), "skipped: the refusal is a 403"),
        (reply({}, status=200), "skipped: a request without credentials is not refused"),
    ],
)
def test_a_challenge_is_for_a_401(answer: WireReply, found: str) -> None:
    assert begins(says(auth.refusal_has_a_challenge, "AUTH-003", call=answer), found)


@in_one_test(
    ("mine", "unknown", "found"),
    [
        (refused(-32001), refused(-32001), ""),
        (refused(-32004, "not for you"), refused(-32004, "not for you"), ""),
        (refused(-32004, "not for you"), refused(-32001), "another user's GetTask is refused in a way that shows"),
        (reply({"id": "mine"}, status=200), refused(-32001), "another user's GetTask: "),
    ],
)
def test_another_users_task_looks_as_if_it_did_not_exist(mine: WireReply, unknown: WireReply, found: str) -> None:
    def as_other(_: Context, __: str, params: Any) -> WireReply:
        return mine if params["id"] == "mine" else unknown

    said = says(auth.hidden, "AUTH-007", "GetTask", {"id": "mine"}, "mine", as_other=as_other)
    assert begins(said, found), said


@in_one_test(
    ("id", "sent", "got", "found"),
    [
        ("PART-001", {}, {}, ""),
        ("PART-001", {"a": {"b": [1, 2.5, None, True], "c": None}, "d": None}, {}, 'sent the data {"a"'),
        # In Python they are equal.
        ("PART-005", True, 1, "sent the data true, the history has [1]"),
    ],
)
def test_data_that_changes_in_the_history_is_found(id: str, sent: Any, got: Any, found: str) -> None:
    def answer(_: Context, __: str, params: Any) -> WireReply:
        parts = [{"data": got} if p.get("data") == sent else p for p in params["message"]["parts"]]
        status = {"state": "TASK_STATE_COMPLETED"}
        return reply({"task": {"id": "t", "status": status, "history": [{**params["message"], "parts": parts}]}})

    said = says(data_model.data_value, id, call=answer, shared=lambda _, __, make: make())
    assert begins(said, found), said


@in_one_test(
    ("limited", "found"),
    [
        # What is missing in them is for other rules to say.
        ({"messageId": "m-2"}, ""),
        ({"messageId": "m-1"}, "historyLength 1 gives "),
        ({"messageId": "m-2", "parts": [{"text": "another"}]}, "historyLength 1 gives "),
        ({"parts": [{"text": "m-1"}]}, "historyLength 1 gives "),
    ],
)
def test_the_latest_messages_are_those_of_the_whole_history(limited: Any, found: str) -> None:
    every = [{"messageId": id, "role": "ROLE_USER", "parts": [{"text": id}]} for id in ("m-1", "m-2")]
    whole = reply({"history": every})

    async def history(ctx: Context) -> None:
        tasks.judge_history(ctx, whole, {"history": [limited]}, whole, 1)

    assert begins(says(history, "SEND-011"), found)


@in_one_test(
    ("binding", "pointer"), [("JSONRPC", "/error/data"), ("HTTP+JSON", "/error/details"), ("GRPC", "/details")]
)
def test_violations_are_looked_for_where_the_binding_has_details(binding: str, pointer: str) -> None:
    pointers: list[str] = []

    async def violations(ctx: Context) -> None:
        await errors.field_violations(ctx)
        pointers.extend(finding.pointer for finding in ctx.findings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(errors, "provoked", AsyncMock(return_value=refused(-32602)))
        assert says(violations, "ERR-007", binding=binding)
    assert pointers == [pointer]


@in_one_test(
    ("version", "message", "found"),
    [("1.0", " ", "message is ' '"), ("1.0", 7, "message is 7"), ("0.3", "", ""), ("0.3", None, "message is None")],
)
def test_an_errors_message(version: str, message: Any, found: str) -> None:
    said = says(errors.rpc_error_shape, "ERR-001", version=version, ordinary_errors=[refused(-32001, message)])
    assert said == found


@in_one_test(
    ("answer", "found"), [(refused(-32001), ""), (refused(-32603), "10 MB: "), (reply(problem="gone"), "10 MB: ")]
)
def test_ten_megabytes_may_be_refused_but_not_break_the_agent(answer: WireReply, found: str) -> None:
    def send(_: Context, text: str, **__: Any) -> WireReply:
        assert len(text) > 10_000_000
        return answer

    assert begins(says(errors.large_request, "ERR-018", send=send), found)


# A connection that breaks shows nothing of the version.
@in_one_test(
    ("usual", "second", "found"),
    [
        ("gone", "", "skipped: in 1.0, too, there is no answer"),
        ("", "", ""),
        ("", "gone", "a2a-version 99.0 in the metadata: gone"),
    ],
)
def test_a_connection_that_breaks_when_a_version_is_tried(usual: str, second: str, found: str) -> None:
    broken = [reply(problem=problem, error=ReplyError("VersionNotSupportedError")) for problem in ("gone", second)]
    ask, get_task = (lambda *_: broken.pop(0)), reply(problem=usual, binding="GRPC")
    said = says(versioning.refused, "GR-002", binding="GRPC", ask=ask, get_task=get_task)
    assert begins(said, found), said


ENDED = {"a": "COMPLETED"}


# The whole context is listed twice where the two lists differ.
@in_one_test(
    ("lists", "completed", "number"),
    [
        # Another check made a task between the lists.
        ([ENDED, ENDED | {"b": "COMPLETED"}], ENDED | {"b": "COMPLETED"}, 0),
        ([ENDED], {}, 1),
        ([ENDED], ENDED | {"of another context": "COMPLETED"}, 1),
    ],
)
def test_a_filter_by_status_whose_list_changes(
    lists: list[Mapping[str, str]], completed: Mapping[str, str], number: int
) -> None:
    left = list(lists)

    def walk(_: Context, __: int, *, contextId: str, status: str = "") -> list[WireReply]:
        tasks = completed if status == "TASK_STATE_COMPLETED" else {} if status else left.pop(0)
        left.extend([tasks] * (not status and not left))
        return [reply({"tasks": [{"id": k, "status": {"state": f"TASK_STATE_{s}"}} for k, s in tasks.items()]})]

    said = says(list_tasks.status_filters, "LIST-011", walk=walk, own=("c", []))
    assert said.count(" tasks for ") == number


def task(state: str = "COMPLETED", **members: Any) -> WireReply:
    return reply({"id": "t", "contextId": "c", "status": {"state": f"TASK_STATE_{state}"}, **members})


def cancelled(*, artifacts: Any = (), stream: WireReply | None = None) -> tasks.Cancelled:
    first, later = task("CANCELED"), task("CANCELED", artifacts=list(artifacts))
    return tasks.Cancelled(first, first, first, later, stream, 0.0)


def stream(*events: Any, ended: bool, seconds: float = 0.0, problem: str = "") -> WireReply:
    exchange = Exchange("JSONRPC", "SubscribeToTask", "", problem=problem, seconds=seconds)
    return WireReply(exchange, events=events, ended=ended, problem=problem)


def watched(one: WireReply, state: str) -> streaming.Watched:
    return streaming.Watched("t", one, one, task(state), one, task(state), 0.0)


def at(id: str, minute: int) -> dict[str, Any]:
    return {"id": id, "status": {"timestamp": f"2026-11-28T12:{minute:02}:00Z"}}


def listing(*tasks: Mapping[str, Any]) -> WireReply:
    return reply({"tasks": list(tasks)})


def made_of(media_type: str) -> WireReply:
    return task(artifacts=[{"artifactId": "a", "parts": [{"text": "hi", "mediaType": media_type}]}])


def dated(timestamp: str) -> WireReply:
    status = {"state": "TASK_STATE_COMPLETED", "timestamp": timestamp}
    return reply({"id": "t", "status": status}, headers={"date": "Sat, 28 Nov 2026 12:00:00 GMT"})


def rest_error(**members: Any) -> WireReply:
    error = {"code": 404, "status": "NOT_FOUND", "message": "no", "details": [], **members}
    return refused(404, status=404, document={"error": error})


LATE = late(9)
FINAL = {"kind": "status-update", "status": {"state": "completed"}, "final": True}
PAGE_OF_NONE = [(reply(), {"tasks": [], "pageSize": 1, "totalSize": 0})]
PAGE = Exchange("HTTP+JSON", "SendMessage", "", response="<p>")
ON = task("WORKING")
SENT = reply({"task": task().result})
TWO = list_tasks.TwoTasks("c", older="old", newer="new")
HALF = reply(problem="the body is cut")
MODES = {"defaultOutputModes": ["text/plain", "image/png"]}
BROKEN = WireReply(PAGE, 500, error=read_rpc_error({"code": -32603, "message": "no"}, 500))


@in_one_test(
    ("check", "id", "given", "found"),
    [
        (data_model.raw_is_base64, "PART-007", {"said": task(artifacts=[{"parts": [{"raw": "aGk="}]}])}, ""),
        (data_model.raw_is_base64, "PART-007", {"said": task(artifacts=[{"parts": [{"raw": "@"}]}])}, "raw is '@'"),
        (data_model.clock_is_right, "DM-010", {"said": dated("2026-11-28T12:09:00Z")}, ""),
        (
            data_model.clock_is_right,
            "DM-010",
            {"said": dated("2026-11-28T13:00:00Z")},
            "timestamp '2026-11-28T13:00:00Z'",
        ),
        # protobuf leaves empty texts and zeros out, and nothing else.
        (data_model.data_model, "DM-014", {"answers": PAGE_OF_NONE, "binding": "GRPC"}, ""),
        (data_model.data_model, "DM-014", {"answers": PAGE_OF_NONE}, "nextPageToken is missing"),
        (errors.rest_error_shape, "ERR-004", {"ordinary_errors": [rest_error()]}, ""),
        (errors.rest_error_shape, "ERR-004", {"ordinary_errors": [rest_error(message="")]}, "message is ''"),
        (errors.every_error_has_its_reason, "ERR-014", {"provoked": reply()}, "skipped: none of the protocol's errors"),
        (
            list_tasks.order_is_that_of_status,
            "LIST-008",
            {"_two_tasks": TWO, "walk": [listing(at("old", 1), at("new", 1))]},
            "",
        ),
        (
            list_tasks.order_is_that_of_status,
            "LIST-008",
            {"_two_tasks": TWO, "walk": [listing(at("old", 1), at("new", 2))]},
            "a task with an older status comes before",
        ),
        (send.repeated_message_id, "SEND-016", {"call": task()}, ""),
        (send.repeated_message_id, "SEND-016", {"call": in_turn(task(), refused(-32603))}, "a repeated messageId: "),
        (
            send.accepted_output_modes,
            "SEND-012",
            {"card": MODES, "send": in_turn(made_of("text/plain"), made_of("image/png"))},
            "",
        ),
        (
            send.accepted_output_modes,
            "SEND-012",
            {"card": MODES, "send": in_turn(made_of("audio/wav"), made_of("image/png"))},
            "asked for 'text/plain', got audio/wav",
        ),
        (tasks.running_task_is_cancelled, "CAN-001", {"cancelled": cancelled()}, ""),
        (
            tasks.running_task_is_cancelled,
            "CAN-001",
            {"cancelled": tasks.Cancelled(ON, ON, ON, task("CANCELED"), None, 0.0)},
            "",
        ),
        (
            tasks.running_task_is_cancelled,
            "CAN-001",
            {"cancelled": tasks.Cancelled(ON, ON, ON, task(), None, 0.0)},
            "CancelTask returned state working, and the task was never cancelled",
        ),
        (errors.agent_failure, "ERR-016", {"_crash": HALF}, "the body is cut"),
        (errors.agent_failure, "ERR-016", {"_crash": task("FAILED")}, ""),
        (errors.agent_failure, "ERR-016", {"_crash": BROKEN, "binding": "HTTP+JSON"}, "HTTP 500 with '<p>'"),
        (errors.agent_failure, "ERR-016", {"_crash": task()}, "skipped: the prompt of the scenario 'crash' does not"),
        (tasks.cancelled_task_stays_cancelled, "CAN-005", {"accepted": cancelled()}, ""),
        (
            tasks.cancelled_task_stays_cancelled,
            "CAN-005",
            {"accepted": cancelled(artifacts=[{"artifactId": "a"}])},
            "the task made artifacts after it had been cancelled",
        ),
        (
            tasks.streams_see_the_end,
            "CAN-006",
            {"accepted": cancelled(stream=stream(GOING_ON, ended=True))},
            "the open stream saw working last and ended",
        ),
        (
            tasks.streams_see_the_end,
            "CAN-006",
            {"accepted": cancelled(stream=stream(status("CANCELED"), ended=False))},
            "the open stream saw canceled last and stayed open",
        ),
        (v03.last_update_is_final, "V03-STREAM-002", {"stream_in": stream(FINAL, ended=True)}, ""),
        (
            v03.last_update_is_final,
            "V03-STREAM-002",
            {"stream_in": stream(FINAL, {"kind": "artifact-update"}, ended=True)},
            "1 more event after the status update with final true",
        ),
        (
            streaming.subscription_ends_with_the_task,
            "SUB-002",
            {"watched": watched(stream(GOING_ON, ended=False, seconds=9.0, problem=LATE), "WORKING")},
            "skipped: the time was up before the task of the scenario slow had ended",
        ),
    ],
)
def test_what_a_check_says_of_answers(check: Check, id: str, given: Mapping[str, Any], found: str) -> None:
    said = says(check, id, **given)
    assert begins(said, found), said


@in_one_test(("ids", "found"), [([], ""), (["t"], "0 tasks for a context that has 1")])
def test_a_context_has_all_of_its_tasks(ids: list[str], found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fixtures, "completed_task", AsyncMock())
    assert says(list_tasks.context_filters, "LIST-003", own=("c", ids), walk=[listing()], call=listing()) == found


@in_one_test(
    ("given_for", "found"),
    [
        ({"COMPLETED"}, ""),
        (set(), "status TASK_STATE_COMPLETED does not give a task that is completed"),
        ({"COMPLETED", "FAILED"}, "status TASK_STATE_FAILED gives a task that is completed"),
    ],
)
def test_a_task_is_listed_by_its_own_state_alone(
    given_for: set[str], found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def walk(_: Context, *, status: str, **__: Any) -> list[WireReply]:
        return [reply({"tasks": [task().result] if status.removeprefix("TASK_STATE_") in given_for else []})]

    monkeypatch.setattr(fixtures, "task_of", AsyncMock(return_value=task().result))
    assert says(list_tasks.every_state_filters, "LIST-011", walk=walk) == found


def test_the_first_binding_is_compared_with_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    for others, found in ((0, "the card declares one binding only"), (1, "the other bindings are compared with this")):
        monkeypatch.setattr(Context, "siblings", lambda ctx, n=others: [ctx] * (1 + n))
        assert begins(says(binding.operations_are_the_same, "EQ-001"), f"skipped: {found}")


@in_one_test(
    ("card", "version", "need", "reason"),
    [
        ({}, "0.3", "capability extendedAgentCard", "the card does not declare supportsAuthenticatedExtendedCard"),
        ({}, "1.0", "capability extendedAgentCard", "the card does not declare capabilities.extendedAgentCard"),
        # Of a list nobody can say what it declares.
        (
            {"capabilities": ["streaming"]},
            "0.3",
            "no capability streaming",
            "capabilities of the card is no object, which V03-CARD-010 judges",
        ),
    ],
)
def test_a_capability_is_declared_where_its_version_has_it(
    card: Mapping[str, Any], version: str, need: str, reason: str
) -> None:
    session = SimpleNamespace(target=Target("", card, version, "JSONRPC", ""))
    with pytest.raises(SkipCheck) as skipped:
        Context(requirement("V03-STREAM-004"), cast("Any", session)).require(need)
    assert str(skipped.value) == reason


def test_an_agent_that_does_not_stream_is_asked_for_no_stream_of_another_users() -> None:
    asked: list[str] = []
    given: dict[str, Any] = {
        "known_user": None,
        "send": SENT,
        "as_other": SENT,
        "hidden": lambda _, name, *__: asked.append(name),
    }
    assert says(auth.waiting_tasks_are_private, "AUTH-011", prompts=["input"], **given) == ""
    assert asked == ["SendMessage"]


def test_a_stream_without_events_is_watched_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "_LATER_SECONDS", 0.01)
    shown, silent = stream(GOING_ON, ended=True), stream(ended=True)
    begun: list[str] = []

    async def watch(ctx: Context) -> None:
        await streaming.watched(ctx)

    def follow(_: Context, __: str, ___: Any, until: Any = None, on_event: Any = None) -> WireReply:
        return shown if on_event or until or len(begun) > 1 else silent

    def start(_: Context, text: str) -> Any:
        begun.append(text)
        return task().result

    given: dict[str, Any] = {
        "shared": lambda _, __, make: make(),
        "start_task": start,
        "call": follow,
        "get_task": task(),
        "wait_for_task": task(),
    }
    says(watch, "SUB-001", prompts=["slow"], **given)
    assert begun == ["slow", "slow"]


def test_a_stranger_is_asked_nothing_that_the_card_does_not_offer() -> None:
    asked: dict[str, Any] = {}

    async def ask(ctx: Context) -> None:
        asked.update(auth.operations(ctx))

    says(ask, "AUTH-001")
    assert asked.keys() == {"GetTask", "ListTasks", "CancelTask"}
