"""Checks of answers that are made up: rules whose fault a whole agent shows only by waiting, or by chance."""

import asyncio
import inspect
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from one_test import in_one_test

from pytest_a2a_bench.conformance.catalogue import requirement
from pytest_a2a_bench.conformance.checks import auth, data_model, errors, list_tasks, push, versioning
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.finding import Exchange
from pytest_a2a_bench.conformance.scenarios import Scenarios
from pytest_a2a_bench.conformance.target import Target
from pytest_a2a_bench.conformance.wire.reply import ReplyError, SkipCheck, WireReply, read_rpc_error
from pytest_a2a_bench.conformance.wire.webhook import Delivery

Check = Callable[..., Awaitable[None]]


def says(check: Check, id: str, *arguments: Any, version: str = "1.0", binding: str = "JSONRPC", **given: Any) -> str:
    """Return the findings of a check, or why it does not apply.

    :param arguments: of the check, beside the context.
    :param given: what coroutine functions of the check's module, or else methods of the context, return: a value, or a
        function of their arguments that returns or awaits one.
    """
    module = sys.modules[check.__module__]
    target = Target("", {}, version, binding, "", scenarios=Scenarios({"chunks": "chunks", "large": "large"}))
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


@pytest.mark.parametrize(("lost", "found"), [(False, ""), (True, 'sent the data {"a"')])
def test_data_that_changes_in_the_history_is_found(lost: bool, found: str) -> None:
    def answer(_: Context, __: str, params: Any) -> WireReply:
        parts = [{"data": {}} if lost and isinstance(p.get("data"), dict) else p for p in params["message"]["parts"]]
        status = {"state": "TASK_STATE_COMPLETED"}
        return reply({"task": {"id": "t", "status": status, "history": [{**params["message"], "parts": parts}]}})

    said = says(data_model.data_value, "PART-001", call=answer, shared=lambda _, __, make: make())
    assert begins(said, found), said


@pytest.mark.parametrize(
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
