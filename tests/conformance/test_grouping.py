"""One cause, one row: what is folded beneath what, and what is not."""

import asyncio
import dataclasses
import itertools
import json
from collections.abc import Callable, Container
from typing import Any

import pytest
from cards import minimal_1_0
from faulty.fault import Fault, each_task, without
from faulty_server import serve_faulty
from hypothesis import given
from hypothesis import strategies as st
from judged import collect
from mutation import PROMPTS
from one_test import in_one_test
from raw_agent import Handler, Request, nowhere, raw_agent, response

from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.conformance.card.fetch import fetch_card_async
from pytest_a2a_bench.conformance.catalogue import requirement
from pytest_a2a_bench.conformance.finding import ACTS, BINDINGS, CARD, FOUND, CheckResult, Exchange, Finding
from pytest_a2a_bench.conformance.grouping import fold
from pytest_a2a_bench.conformance.scenarios import Scenarios
from pytest_a2a_bench.conformance.subject import look_at
from pytest_a2a_bench.conformance.target import targets_of
from pytest_a2a_bench.conformance.wire.reply import ReplyError, read_rest_error, read_rpc_error


def row(id: str, found: str, binding: str = "JSONRPC", outcome: Any = "failed", **options: Any) -> CheckResult:
    """Return a result with one finding; ``options`` of the finding and its exchange."""
    members = {k: options.pop(k) for k in ("expected", "pointer") if k in options}
    seen = Exchange(**{"binding": binding, "method": "SendMessage", "url": "http://h/", **options})
    severity: Any = "warning" if outcome == "warned" else "error"
    return CheckResult(requirement(id), binding, outcome, (Finding(id, severity, found, exchanges=(seen,), **members),))


def error(code: int, **more: Any) -> dict[str, Any]:
    document = {"jsonrpc": "2.0", "id": 1, "error": {"code": code, **more}}
    return {"status": 200, "response": json.dumps(document)}


def asked(version: str) -> dict[str, Any]:
    return {"request_headers": {"A2A-Version": version} if version else {}, **error(-32001)}


def answered(**document: Any) -> dict[str, Any]:
    return {"status": 400, "response": json.dumps(document)}


def refused(message: str, **options: Any) -> dict[str, Any]:
    return {**options, **error(-32004, message=message)}


def of_task(id: str) -> dict[str, Any]:
    """Return an exchange in which a message names the task ``old``, and the answer another one."""
    request = json.dumps({"params": {"message": {"taskId": "old"}}})
    return {"request": request, "response": json.dumps({"result": {"task": {"id": id, "status": {}}}})}


_NO_VERSION = row("VER-002", "no A2A-Version was accepted", **asked(""))
_MINOR = row("VER-004", "A2A-Version '1.5' was accepted", **asked("1.5"))
_MEMBER = {"pointer": "/supportedInterfaces/0/protocolVersion"}
_DETAIL = answered(detail="Input should be 'message/stream'")
_ONE_METHOD = "http://h/v1/message:stream"
_PARAMS, _CRASH = {"expected": "InvalidParamsError (-32602)"}, error(-32603)
_TENANT = [
    row("SEND-001", "no result", **refused("tenant: is not known")),
    row("LIST-007", "no result", method="ListTasks", **refused("tenant: is not known")),
    row("GET-002", "other", method="GetTask", **refused("id: is too long")),
]
_NO_WEBHOOK = refused("webhooks need authentication")
_500: dict[str, Any] = {"status": 500, "response": json.dumps({"error": {"message": "unknown exception"}})}
_EMPTY: dict[str, Any] = {"status": 200, "response": json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}})}
_ACCEPTED = [row(f"VAL-00{n}", f"accepted: {n}", outcome=o, **_EMPTY) for n, o in ((5, "warned"), (6, "failed"))]
_ACCEPTED.append(row("VAL-007", "accepted: 7", **_EMPTY))
_AT = {"pointer": "/id", "request": "asked once"}
_OLD_OBJECT = row("DM-012", "kind 'task'", pointer="/kind")
_UNNAMED = ("error 500: unknown exception", "error UNIMPLEMENTED: Method not implemented!", "error -32099 200: no")
_LISTING = [row("V03-PUSH-001", f"listing the configs: {e}", b) for e, b in zip(_UNNAMED, BINDINGS, strict=True)]
_OTHER_LIST = row("EQ-002", "another list over HTTP+JSON", "HTTP+JSON", request='{"pageSize": 50}')

# The first letters of what becomes of the rows.
FOLDED: dict[str, list[CheckResult]] = {
    "ff: two defects are two": [row("VAL-002", "it was accepted"), row("VAL-003", "it was accepted")],
    "fe: excerpts that end within an id": [
        row("PUSH-012", f'none of the members: {{"artifactId": "{id}...', b)
        for id, b in (("4382852b-d8b9-4734-a2dd-c", "JSONRPC"), ("2db99af1-3177-4f90-81d2-6", "HTTP+JSON"))
    ],
    "ff: two words are two": [row("GET-001", "a"), row("GET-001", "b", "GRPC")],
    "feef: a server that fails on bad input": [
        *(row(f"VAL-00{n}", f"error InternalError: {n}", **_PARAMS, **_CRASH) for n in (2, 3, 4)),
        row("VAL-005", "error MethodNotFoundError", **_PARAMS, **error(-32601)),
    ],
    "efe: a header that is ignored": [
        _NO_VERSION,
        row("VER-001", "A2A-Version '99.0' was accepted", **asked("99.0")),
        _MINOR,
    ],
    "ff: a header that is read too kindly is not ignored": [_NO_VERSION, _MINOR],
    "fe: a must does not hide behind a should": [
        row("VER-001", "a", outcome="warned", **asked("99.0")),
        row("VER-002", "b", **asked("")),
    ],
    "fe: rules about one member of the card": [
        row("CARD-006", "missing", "card", **_MEMBER),
        row("CARD-003", "not set", "card", **_MEMBER),
    ],
    "ff: rules about one member elsewhere": [
        row("CARD-006", "missing", "GRPC", **_MEMBER),
        row("CARD-003", "not set", "GRPC", **_MEMBER),
    ],
    "fef: an agent that does not speak JSON-RPC": [
        *(row(id, "no result", **_DETAIL) for id in ("CARD-007", "SEND-001")),
        row("GET-002", "not the error", **answered(jsonrpc="2.0", id=1, result={})),
    ],
    # Without the rule of the card nobody has seen that a good request is answered so.
    "ff: what is no JSON-RPC alone": [row("SEND-001", "a", **_DETAIL), row("GET-002", "b", **_DETAIL)],
    "fef: a card with the path of one method": [
        row("V03-CARD-013", f'the URL "{_ONE_METHOD}" is the path of one method (/message:stream)', "card"),
        row("V03-RPC-003", "jsonrpc is None", url=_ONE_METHOD),
        row("V03-STREAM-001", "no stream", "HTTP+JSON", url=_ONE_METHOD),
    ],
    "eef: operations that are not there": [
        row(id, f"not the error of {id}", **error(-32601)) for id in ("SUB-003", "PUSH-008", "JR-002")
    ],
    "ff: operations that are not there without the rule of it": [
        row(id, f"not the error of {id}", **error(-32601)) for id in ("SUB-003", "PUSH-008")
    ],
    "fef: a task's id that is ignored": [
        row("SEND-007", "a", **of_task("new")),
        row("SEND-008", "b", **of_task("new")),
        row("MT-003", "c", **of_task("old")),
    ],
    "feffe: one refusal of everything": [
        row("PUSH-001", "no config", method="CreateTaskPushNotificationConfig", **_NO_WEBHOOK),
        row("PUSH-009", "not the error", method="ListTaskPushNotificationConfigs", **_NO_WEBHOOK),
        row("PUSH-010", "another", method="CreateTaskPushNotificationConfig", **refused("no url")),
        row("SEND-009", "another", **_NO_WEBHOOK),
        row(
            "PUSH-015",
            "no result",
            request='{"configuration": {"taskPushNotificationConfig": {"url": "http://h/"}}}',
            **_NO_WEBHOOK,
        ),
    ],
    "fff: a uniform refusal without the rule of the card": _TENANT,
    "eeff: a uniform refusal of an interface": [
        *_TENANT,
        row("CARD-007", "refused", pointer="/url", method="GetTask", **refused("tenant: is not known")),
    ],
    "efef: internal errors of one operation, first of a valid request": [
        row("GET-005", "not the error", "HTTP+JSON", expected="InvalidParamsError", **_500),
        row("GET-001", "no result", "HTTP+JSON", **_500),
        row("GET-003", "no result", "HTTP+JSON", **_500),
        row("CAN-003", "not the error", "HTTP+JSON", method="CancelTask", **_500),
    ],
    "efef: messages that nobody looks at": [*_ACCEPTED, row("VAL-009", "not the error", **error(-32601))],
    "fff: messages of which one is looked at": [*_ACCEPTED[1:], row("VAL-009", "not the error", **error(-32601))],
    "fe: equal findings in one answer": [row("DM-001", "no id", **_AT), row("DM-014", "no id", **_AT)],
    "ff: equal findings in two answers": [
        row("DM-001", "no id", **_AT),
        row("DM-014", "no id", pointer="/id", request="asked again"),
    ],
    "wf: a must is no case of what only should be": [
        row("LIST-004", "no artifacts", "HTTP+JSON", "warned", request='{"pageSize": 50}'),
        _OTHER_LIST,
    ],
    "fe: below another must it is, if it is that very request": [
        row("LIST-002", "no totalSize", "HTTP+JSON", request='{"pageSize": 50}'),
        _OTHER_LIST,
    ],
    "ff: below another request it is not": [
        row("LIST-002", "no totalSize", "HTTP+JSON", request='{"pageSize": 51}'),
        _OTHER_LIST,
    ],
    "ef: parts of 0.3 in objects of 0.3": [
        row("PART-009", "kind 'text'", pointer="/history/0/parts/0/kind"),
        _OLD_OBJECT,
    ],
    "ff: parts of two contents in objects of 0.3": [
        row("PART-009", "a part has the members ['text', 'url']", pointer="/history/0/parts/0"),
        _OLD_OBJECT,
    ],
    "fee: errors without a name on all bindings": _LISTING,
    "ff: an error that has one": [
        _LISTING[0],
        row("V03-PUSH-001", "listing the configs: error TaskNotFoundError 404: none", "GRPC"),
    ],
    "ff: extensions in answers that never came": [
        row(f"EXT-00{n}", f"no answer: {n}", request_headers={"A2A-Extensions": "x"}, problem="reset") for n in (2, 3)
    ],
    "feef: tasks without a kind": [
        row("V03-DM-001", "kind of a task is None", pointer="/kind"),
        row("V03-DM-001", "kind of a task is None", "HTTP+JSON", pointer="/task/kind"),
        row("V03-SEND-001", "the result has the members ['contextId', 'id']"),
        row("V03-SEND-001", "the result has the members ['task']", "HTTP+JSON"),
    ],
    "fee: a card of 0.3 that says 1.0": [
        row("V03-CARD-011", 'protocolVersion is "1.0"', "card"),
        row("CARD-007", "the card says A2A 1.0, and this URL speaks 0.3: error"),
        row("CARD-007", "HTTP 404 from a server that has nothing there", "HTTP+JSON"),
    ],
    "fe: an internal error of a client in 0.3": [
        row("V03-TASK-001", "no result", method="tasks/get", **error(-32603, message="no")),
        row("V03-EXT-001", "no result", "HTTP+JSON", method="GetTask", **{**_500, "response": '{"message": "no"}'}),
    ],
}


# How the cause is called where it is more than its own finding.
CALLED = {
    "feef: a server that fails on bad input": "the server fails on bad input instead of refusing it: ",
    "efe: a header that is ignored": "the header A2A-Version is not looked at: ",
    "efef: internal errors of one operation, first of a valid request": (
        "valid requests are answered with an internal error: "
    ),
}


@in_one_test("name", FOLDED)
def test_what_has_one_cause_is_one_row(name: str) -> None:
    rows = fold(FOLDED[name])
    assert "".join(r.outcome[0] for r in rows) == name.partition(":")[0]
    if name in CALLED:
        (cause, *_) = [r for r in rows if r.explains]
        assert cause.findings[0].found.startswith(CALLED[name])


def test_a_defect_on_every_binding_is_one_and_names_the_others() -> None:
    texts = ("status 200 with '{\"id\": 1}'", "status 200 with '[]'", "status 0 with 'x'")
    rows = [row("VAL-002", f"it was accepted: {t}", b) for t, b in zip(texts, BINDINGS, strict=True)]
    cause, *others = fold(rows)
    assert (cause.outcome, [r.outcome for r in others]) == ("failed", ["explained", "explained"])
    assert {r.cause for r in others} == {"1.0/VAL-002[JSONRPC]"}
    assert [line.partition("]")[0] for line in cause.explains] == ["VAL-002 [HTTP+JSON", "VAL-002 [GRPC"]


def test_answers_that_come_too_late_are_one_error() -> None:
    late = {"outcome": "error", "problem": "no complete answer within 3 s"}
    rows = [row("SEND-001", "SendMessage: late", **late), row("STREAM-001", "no stream: late", "HTTP+JSON", **late)]
    folded = fold([*rows, row("GET-001", "SendMessage: reset", **{**late, "problem": "reset"})])
    assert [r.outcome for r in folded] == ["error", "explained", "error"]
    assert folded[0].findings[0].found == "answers take longer than the limit of time: SendMessage: late"


@in_one_test("further", [(), ("GRPC",)])
def test_a_difference_is_explained_by_what_is_wrong_on_one_binding(further: tuple[str, ...]) -> None:
    def asked(id: str, n: int) -> dict[str, Any]:
        params = {"id": id, "historyLength": n}
        return {"method": "GetTask", "request": json.dumps({"id": 1, "method": "GetTask", "params": params})}

    rows = [row("GET-005", "accepted", b, "warned", **asked("t1", -1)) for b in ("JSONRPC", *further)]
    rows.append(row("EQ-003", "another error", "HTTP+JSON", **asked("t2", -1)))
    differs = dataclasses.replace(
        rows[-1], findings=(dataclasses.replace(rows[-1].findings[0], exchanges=rows[0].findings[0].exchanges),)
    )
    folded = fold([*rows[:-1], differs])
    assert folded[0].outcome == "failed"
    assert {r.outcome for r in folded[1:]} == {"explained"}
    assert folded[-1].cause == folded[0].name
    assert folded[0].explains[-1].startswith("EQ-003 [HTTP+JSON]")
    assert [r.outcome for r in fold([rows[0], rows[-1]])] == ["warned", "failed"]


def test_a_waived_finding_is_not_grouped() -> None:
    rows = [row("VAL-002", "it was accepted", b) for b in BINDINGS]
    folded = fold(rows, lambda result: result.binding == "JSONRPC")
    assert [r.outcome for r in folded] == ["failed", "failed", "explained"]
    # Nor does a waived cause explain anything.
    rows = [row("MT-003", "3 messages gave tasks"), row("LIST-001", "nextPageToken is ''")]
    assert {r.outcome for r in fold(rows, lambda r: r.requirement.id == "MT-003")} == {"failed"}


ROWS = st.builds(
    row,
    st.sampled_from(["VAL-002", "VAL-003", "VER-001", "VER-002", "GET-001"]),
    st.sampled_from(["a", "b", "it was accepted: status 200 with 'x'", "error InternalError -32603: y"]),
    st.sampled_from(BINDINGS),
    st.sampled_from(["failed", "warned", "error", "passed"]),
)


@given(st.lists(ROWS, max_size=12, unique_by=lambda r: r.name))
def test_nothing_is_lost(rows: list[CheckResult]) -> None:
    folded = fold(rows)
    by_name = {r.name: r for r in folded}
    assert [r.name for r in folded] == [r.name for r in rows]
    assert any(r.outcome == "failed" for r in rows) == any(r.outcome == "failed" for r in folded)
    for each in folded:
        if each.outcome == "explained":
            cause = by_name[each.cause]
            assert cause.outcome in ("failed", "warned", "error")
            assert any(line.startswith(f"{each.requirement.id} [{each.binding}] ") for line in cause.explains)


async def judge_missing(where: str) -> list[CheckResult]:
    """Judge a correct agent whose card names a second interface that is not there."""
    with (
        raw_agent(lambda _: response("Not Found", "404 Not Found", "text/plain"), {}) as web,
        # As of a server that has moved to HTTPS; the request's body would go with 307 and 308.
        raw_agent(lambda _: response("", "308 Moved", Location="https://127.0.0.1:1/"), {}) as moved,
    ):
        async with serve_faulty(None, "bare", transport="jsonrpc") as running:
            card, _, _ = await fetch_card_async(running.url)
            assert card is not None
            closed = f"http://{nowhere()}"
            url, binding = {
                "nobody": (closed, "HTTP+JSON"),
                "web": (web.url, "HTTP+JSON"),
                "moved": (moved.url, "HTTP+JSON"),
                "grpc": (closed, "GRPC"),
                "other": (running.url, "GRPC"),
            }[where]
            entry = {**card["supportedInterfaces"][0], "url": url, "protocolBinding": binding}
            card["supportedInterfaces"] = [card["supportedInterfaces"][0], entry]
            groups = ("card", "get-task", "validation")
            found = await collect(targets_of(card, running.url), select=lambda p: p.requirement.group in groups)
            return [r for r in fold(found) if r.binding == binding]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["nobody", "web", "moved", "grpc", "other"])
def test_an_interface_that_is_not_there_fails_the_rule_of_the_card_alone(where: str) -> None:
    results = asyncio.run(judge_missing(where))
    (cause,) = [r for r in results if r.outcome not in ("explained", "skipped")]
    assert (cause.requirement.id, cause.outcome) == ("CARD-007", "failed")
    words = {"nobody": "no server answers", "web": "nothing there", "moved": "it points to https://127.0.0.1:1/"}
    assert words.get(where, "") in cause.findings[0].found
    explained = [r for r in results if r.outcome == "explained"]
    assert len(explained) > 5
    assert {r.cause for r in explained} == {cause.name}
    assert all("the interface is not there" in r.reason for r in explained)
    assert cause.explains == (f"{len(explained)} checks could not be made",)


@in_one_test(
    ("outcome", "waived", "becomes"),
    [("failed", False, "explained"), ("failed", True, "skipped"), ("passed", False, "error")],
)
def test_a_check_not_made_is_reported_where_its_cause_is_not_found(outcome: Any, waived: bool, becomes: str) -> None:
    found = (Finding("CARD-007", "error", "no server answers"),) if outcome == "failed" else ()
    cause = CheckResult(requirement("CARD-007"), "JSONRPC", outcome, found)
    unmade = CheckResult(requirement("GET-001"), "JSONRPC", "explained", reason="not there", cause=cause.name)
    received = fold([cause, unmade], lambda r: waived and r.requirement.id == "CARD-007")
    assert received[1].outcome == becomes


def test_findings_of_added_tests_are_no_cause_of_ours() -> None:
    ours = row("CAN-003", "error InternalError: no such task")
    entry = dataclasses.replace(requirement("CAN-003"), id="X-CANCEL", group=ACTS, level="SHOULD")
    theirs = dataclasses.replace(ours, requirement=entry)
    broken = {"expected": "TaskNotFoundError (-32001)", **error(-32603)}
    crash = row("CAN-003", "error InternalError: no such task", **broken)
    for mine, other in ((ours, theirs), (crash, dataclasses.replace(crash, requirement=entry))):
        assert [r.outcome for r in fold([other, mine])] == ["failed", "failed"]


# How often a defect is reported, for agents that break many rules by one cause.


async def judged(url: str, ids: Container[str] | None = None, prompts: Scenarios = PROMPTS) -> list[CheckResult]:
    """Return what is found about the agent at an address and its card, folded."""
    card, _, _ = await fetch_card_async(url)
    assert card is not None
    targets = targets_of(card, url, scenarios=prompts, timeout=5)
    found = await collect(targets, select=lambda p: ids is None or p.requirement.id in ids)
    subject = await asyncio.to_thread(look_at, ClientConfig(endpoint=url))
    return fold([*subject.card_results(), *found])


async def judged_fault(
    fault: str | Fault | None, ids: Container[str], prompts: Scenarios = PROMPTS, **serving: Any
) -> list[CheckResult]:
    """Return the like of a faulty agent, which speaks JSON-RPC alone by default."""
    async with serve_faulty(fault, **{"transport": "jsonrpc", **serving}) as running:
        return await judged(running.url, ids, prompts)


def judged_app(answer: Handler, members: Callable[[str], dict[str, Any]]) -> list[CheckResult]:
    """Serve a card with these members and that answer to everything else, and judge it."""
    card = {name: value for name, value in minimal_1_0().items() if name != "supportedInterfaces"}
    with raw_agent(answer) as agent:
        agent.card = {**card, "capabilities": {"streaming": True}, **members(agent.url)}
        return asyncio.run(judged(agent.url))


def speaking(*bindings: str) -> Callable[[str], dict[str, Any]]:
    """Return what the card of an agent says that speaks these bindings at one address."""
    return lambda base: {
        "supportedInterfaces": [{"url": f"{base}/", "protocolBinding": b, "protocolVersion": "1.0"} for b in bindings]
    }


def call_of(request: Request) -> Any:
    try:
        return request.json
    except ValueError:
        return None


def received(results: list[CheckResult]) -> dict[str, CheckResult]:
    """Return what stands in the report, but for what should only be, such as a card's headers."""
    rows = [r for r in results if r.outcome in FOUND and r.requirement.level == "MUST"]
    assert len({r.requirement.id for r in rows}) == len(rows)
    return {r.requirement.id: r for r in rows}


@pytest.mark.parametrize("bindings", [pytest.param(("JSONRPC",), marks=pytest.mark.slow), ("JSONRPC", "HTTP+JSON")])
def test_bodies_that_are_not_json_are_reported_once(bindings: tuple[str, ...]) -> None:
    torn = response('{"jsonrpc": "2.0", "id": 1, "result": {')
    rows = received(judged_app(lambda _: torn, speaking(*bindings)))
    assert list(rows) == ["CARD-007"]
    assert rows["CARD-007"].findings[0].found.startswith("the answers are not JSON: ")
    assert len(rows["CARD-007"].explains) > 40


def test_an_agent_that_fails_whatever_it_is_asked_is_reported_once() -> None:
    failing = response({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "Internal error"}})
    rows = received(judged_app(lambda _: failing, speaking("JSONRPC")))
    assert list(rows) == ["CARD-007"]
    assert rows["CARD-007"].findings[0].found.startswith("internal errors in place of answers: ")


def test_a_binding_that_is_spoken_in_place_of_the_declared_one_is_named() -> None:
    unknown = response({"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": "Task not found"}})
    missing = response({"detail": "Not Found"}, "404 Not Found")
    rows = received(judged_app(lambda r: unknown if r.path == "/" else missing, speaking("HTTP+JSON")))
    assert rows["CARD-007"].findings[0].fix.startswith("JSONRPC is spoken there: ")


def test_one_operation_that_answers_no_json_is_no_cause_of_others() -> None:
    def torn_when_malformed(request: Request) -> bytes:
        call = call_of(request)
        if call is None:
            return response("what?", kind="text/plain")
        id = call.get("id") if isinstance(call, dict) else None
        return response({"jsonrpc": "2.0", "id": id, "error": {"code": -32001, "message": "no such task"}})

    assert "ERR-008" in received(judged_app(torn_when_malformed, speaking("JSONRPC")))


def test_a_card_that_names_the_path_of_one_method_explains_what_is_not_there() -> None:
    def one_method(request: Request) -> bytes:
        call = call_of(request)
        if not isinstance(call, dict) or call.get("method") != "message/stream":
            return response({"detail": "Field required"}, "400 Bad Request")
        status = {"state": "completed", "timestamp": "2026-01-01T00:00:00.000Z"}
        task = {"kind": "task", "id": "t", "contextId": "c", "status": status}
        event = json.dumps({"jsonrpc": "2.0", "id": call.get("id"), "result": task})
        return response(f"data: {event}\n\n", kind="text/event-stream")

    def spoken(base: str) -> dict[str, Any]:
        url = f"{base}/agents/odd/v1/message:stream"
        return {"url": url, "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0"}

    rows = received(judged_app(one_method, spoken))
    assert "V03-CARD-022" not in rows
    # As bad as what it explains, though it is no more than a warning where the rest of the interface is there.
    assert rows["V03-CARD-013"].outcome == "failed"
    assert any(line.startswith("V03-CARD-022 [JSONRPC] ") for line in rows["V03-CARD-013"].explains)


@pytest.mark.parametrize(
    ("fault", "ids", "named"),
    [
        # Artifacts that GetTask has lost.
        (Fault(operations=("GetTask",), reply=each_task(without("artifacts"))), ("SEND-003", "STREAM-016"), "SEND-003"),
        ("no-commas", ("EXT-002", "EXT-003", "EXT-005"), "EXT-005"),
        ("get-not-found-code", ("CARD-007", "GET-002", "CAN-003", "ERR-JSON-TaskNotFound"), "ERR-JSON-TaskNotFound"),
        ("get-not-found-code@GetTask", ("CARD-007", "GET-002", "ERR-JSON-TaskNotFound"), "ERR-JSON-TaskNotFound"),
        ("stream-content-type", ("STREAM-001", "STREAM-003", "STREAM-011", "STREAM-020"), "STREAM-001"),
        ("stream-closes-all", ("STREAM-017", "STREAM-018", "SUB-002", "SUB-006"), "STREAM-018"),
        ("list-no-cursor", ("LIST-001", "LIST-005", "LIST-006", "LIST-010", "LIST-011"), "LIST-006"),
        ("list-no-context-filter", ("LIST-001", "LIST-006", "LIST-010", "LIST-011", "LIST-016"), "LIST-010"),
        ("push-url-no-query", ("PUSH-001", "PUSH-002", "PUSH-004"), "PUSH-001"),
        ("push-keeps-one", ("PUSH-002", "PUSH-004"), "PUSH-004"),
        ("push-no-auth", ("PUSH-014", "PUSH-020"), "PUSH-014"),
        ("error-text-code", ("ERR-001", "CARD-007", "GET-002", "VAL-002", "ERR-012"), "ERR-001"),
        ("grpc-unimplemented", ("GR-001", "CARD-007", "SEND-003", "GET-001", "EQ-001"), "GR-001"),
        ("no-tenant", ("CARD-007", "SEND-001", "LIST-007", "ERR-JSON-TaskNotFound"), "CARD-007"),
        *(
            pytest.param(*row, marks=pytest.mark.slow)
            for row in (
                ("artifact-no-id", ("DM-005", "STREAM-016", "PUSH-012"), "DM-005"),
                ("task-id-of-context", ("MT-003", "LIST-006", "MT-007", "LIST-012"), "MT-003"),
                ("zombie", ("CAN-005", "SEND-007"), "CAN-005"),
                ("endless-stream", ("STREAM-005", "SEND-017"), "STREAM-005"),
                ("snake-case", ("DM-008", "SEND-013", "DM-014"), "DM-008"),
                ("role-lower-case", ("DM-004", "SEND-014"), "DM-004"),
                ("status-no-state", ("DM-007", "SEND-002", "SEND-005", "CAN-001"), "DM-007"),
                ("timestamp-local", ("DM-010", "LIST-012"), "DM-010"),
                ("stream-reordered", ("STREAM-020", "STREAM-011"), "STREAM-020"),
                ("task-dies-with-stream", ("STREAM-019", "GET-001"), "STREAM-019"),
                ("any-media", ("ERR-JSON-ContentTypeNotSupported", "SEND-009"), "SEND-009"),
                ("message-no-context", ("SEND-013", "MT-002"), "SEND-013"),
                ("error-untyped", ("ERR-002", "ERR-003"), "ERR-002"),
                ("old-task-code", ("V03-TASK-001", "V03-RPC-005", "V03-SEND-005", "V03-TASK-002"), "V03-TASK-001"),
                ("old-other-id", ("V03-RPC-003", "V03-STREAM-001"), "V03-RPC-003"),
                ("old-no-get", ("V03-RPC-001", "V03-TASK-001"), "V03-RPC-001"),
                ("cancel-terminal@0.3", ("V03-TASK-002", "V03-RPC-005"), "V03-TASK-002"),
                ("get-unknown@0.3", ("V03-TASK-001", "V03-CARD-022", "V03-RPC-005"), "V03-TASK-001"),
                ("json-500@0.3", ("V03-RPC-004", "V03-RPC-003"), "V03-RPC-004"),
                ("old-task-no-id", ("V03-DM-004", "V03-TASK-001", "V03-STREAM-005", "V03-PUSH-001"), "V03-DM-004"),
                ("old-no-kind", ("V03-DM-001", "V03-SEND-001", "V03-STREAM-001", "V03-STREAM-003"), "V03-DM-001"),
                ("any-token@0.3", ("V03-AUTH-001", "V03-XCARD-001"), "V03-AUTH-001"),
                ("old-wrapped", ("V03-SEND-001", "V03-DM-001", "V03-DM-004"), "V03-SEND-001"),
            )
        ),
    ],
)
def test_a_fault_is_one_finding_with_its_own_name(fault: str | Fault, ids: tuple[str, ...], named: str) -> None:
    transport = "all" if fault == "grpc-unimplemented" else "jsonrpc"
    (cause,) = [r for r in asyncio.run(judged_fault(fault, ids, transport=transport)) if r.outcome in FOUND]
    assert (cause.requirement.id, cause.outcome in ("failed", "warned")) == (named, True)
    if isinstance(fault, Fault):
        assert any(line.startswith("STREAM-016 [JSONRPC] ") for line in cause.explains)


# What the catalogue says to follow from what: the cause, what follows, and what stands for itself.
CONSEQUENCES: dict[str, Any] = {
    "an artifact without an id": (
        ("DM-005", "artifactId of an artifact is missing"),
        [("STREAM-016", "artifact '': streamed [{}]; GetTask has null"), ("PUSH-012", "parts of an artifact is []")],
        [("STREAM-016", "the stream ended with state working; GetTask says completed")],
    ),
    "deliveries in no wrapper": (
        ("PUSH-012", 'event 0 has none of the members: {"taskId": "t"}'),
        [("PUSH-016", "the task ended; 4 deliveries (4 of no known kind) did not tell")],
        [("PUSH-016", "the task ended; 2 deliveries (1 of no known kind, 1 statusUpdate) did not tell")],
    ),
    "an agent that makes a context for each message": (
        ("MT-002", "contextId 'a' became 'b'"),
        [("MT-007", "the new task is in context 'c'"), ("HJ-006", "no task of the contextId 'a b/d' is found")],
        [("MT-007", "a task that was there was used again")],
    ),
    "updates of another context than their task's": (
        ("STREAM-008", "statusUpdate 1 has contextId 'b'; the Task has 'a'"),
        [("DM-015", "contextId of a message is 'a'; the statusUpdate has 'b'")],
        [("DM-015", "contextId of a message is 'b'; the task has 'a'")],
    ),
    "times that are numbers": (
        ("DM-010", "timestamp 1795903281"),
        [("DM-011", "timestamps such as '1795903281'")],
        [("DM-011", "timestamps such as '2026-11-28T22:01:21+00:00'")],
    ),
    "a filter that selects nothing": (
        ("LIST-011", "3 tasks for TASK_STATE_WORKING in a context where 0 of 3 are"),
        [("HJ-005", "3 tasks for TASK_STATE_WORKING in a context where 0 of 3 are")],
        [("HJ-005", "tasks come from the year 2999")],
        "HTTP+JSON",
    ),
    "a stream without the terminal event": (
        ("STREAM-005", "the stream ended while the task was working"),
        [
            ("CAN-006", "the open stream saw working last and ended"),
            ("STREAM-006", "the stream was still open 3.0 s after the task was completed"),
        ],
        [("CAN-006", "the open stream saw completed last and ended")],
    ),
    "a last event that is not JSON": (
        ("STREAM-001", "event 4 is not JSON: '[DONE]'"),
        [
            ("STREAM-005", "after the state completed: an event of the stream is not JSON"),
            ("MT-006", "SendStreamingMessage: the follow-up: an event of the stream is not JSON"),
        ],
        [("STREAM-005", "the stream ended while the task was working")],
    ),
    "pages without a token": (
        ("LIST-001", "nextPageToken is None"),
        [("DM-014", "nextPageToken is missing")],
        [("DM-014", "id of a task is missing")],
    ),
    "pages without a size": (
        ("LIST-002", "totalSize is None"),
        [("DM-014", "totalSize is missing"), ("LIST-016", "totalSize is None on a page of 1; the context has 3 tasks")],
        [("LIST-016", "totalSize is 1 on a page of 1; the context has 3 tasks")],
    ),
    "a message without an id": (
        ("DM-003", "messageId of a message is missing"),
        [("PUSH-012", "messageId of a message is missing")],
        [("PUSH-012", 'event 0 has none of the members: {"taskId": "t"}')],
    ),
    "a query that is not read": (
        ("HJ-004", "pageSize 1 gives 3 tasks"),
        [("LIST-008", "pageSize 1 gives 3 tasks"), ("GET-004", "historyLength 1 gives 5 messages")],
        [("LIST-001", "the result is no page")],
        "HTTP+JSON",
    ),
    "a stream that breaks after its last event": (
        ("STREAM-005", "after the state completed: gRPC UNAVAILABLE: closed"),
        [
            ("MT-002", "SendStreamingMessage: sending a message with a contextId: gRPC UNAVAILABLE: closed"),
            ("GR-003", "gRPC UNAVAILABLE: closed"),
        ],
        [("MT-002", "contextId 'a' became 'b'")],
    ),
    "a state that GetTask does not follow": (
        ("GET-001", "the state is working; sending the message gave completed"),
        [
            ("SEND-003", 'status is {} in the reply and {"state": "TASK_STATE_WORKING"} in GetTask'),
            ("SEND-005", "the task has not ended after 15 s"),
            ("STREAM-016", "the stream ended with state completed; GetTask says working"),
            ("STREAM-019", "after its stream was closed the task is working"),
        ],
        [("STREAM-016", "the stream ended with state completed; GetTask says canceled")],
    ),
    "a length of the history that is not read": (
        ("GET-004", "historyLength 1 gives 3 messages"),
        [
            ("GET-003", "historyLength 0 gives 1 messages"),
            ("GET-005", "GetTask with historyLength -1: it was accepted: status 200 with '{}'"),
        ],
        [("GET-005", "GetTask with historyLength -1: not the error: error InternalError -32603: no")],
    ),
    "a size of pages that is not read": (
        ("LIST-008", "pageSize 1 gives 3 tasks"),
        [
            ("LIST-001", "nextPageToken is '' on a page that others follow"),
            ("LIST-009", "ListTasks with pageSize 0: it was accepted: status 200 with '{}'"),
        ],
        [("LIST-009", "ListTasks with pageSize 0: not the error: error InternalError -32603: no")],
    ),
    "no credentials, which are not needed": (
        ("AUTH-001", "SendMessage without credentials: status 200 with '{}'"),
        [
            ("AUTH-002", "SendMessage with invalid credentials: status 200 with '{}'"),
            ("AUTH-005", "GetTask without credentials: status 200 with '{}'"),
        ],
        [("AUTH-002", "the token is accepted under the name of a scheme that does not exist: status 200 with '{}'")],
    ),
    "a state that 0.3 does not have": (
        ("V03-DM-002", "state is 'done'"),
        [
            ("V03-SEND-002", "the task is returned in state 'done'"),
            ("V03-STREAM-002", "the stream ends at done: a stream of 4 events"),
            ("V03-STREAM-003", "the stream of a running task ended at done: a stream of 3 events"),
        ],
        [("V03-STREAM-002", "the stream ends at input-required: a stream of 4 events")],
    ),
    "updates without a kind": (
        ("V03-DM-001", "kind of a statusUpdate is None"),
        [("V03-STREAM-003", "event 1 of the stream of a running task has no known kind")],
        [("V03-STREAM-003", "the stream of a running task ended at working: a stream of 3 events")],
    ),
    "a task without a status": (
        ("V03-DM-004", "status of a task is missing"),
        [("V03-TASK-002", "CancelTask returned state none, and the task was never cancelled")],
        [("V03-TASK-002", "CancelTask returned state working, and the task was never cancelled")],
    ),
    "a member in snake_case": (
        ("V03-DM-007", "a member is called 'context_id'"),
        [("V03-DM-004", "contextId of a task is missing")],
        [("V03-DM-004", "contextId of a task is ''")],
    ),
    "streaming that is declared and refused": (
        ("V03-STREAM-001", "no stream: error UnsupportedOperationError -32004 200: no"),
        [("V03-STREAM-003", "the stream of a running task ended at no state: error UnsupportedOperationError")],
        [("V03-STREAM-003", "the stream of a running task ended at no state: error MethodNotFoundError -32601: no")],
    ),
    "notifications that are declared and refused": (
        ("V03-PUSH-001", "creating: error PushNotificationNotSupportedError -32003 200: not here"),
        [("V03-SEND-003", "a message: no result: error PushNotificationNotSupportedError -32003 200: no")],
        [("V03-SEND-003", "a message with a config: no result: error InternalError -32603 200: no")],
    ),
    "a follow-up that gets other ids": (
        ("MT-006", "the follow-up is task 't' in context 'b'"),
        [("MT-004", "the follow-up is in context 'c', its task in 'a'")],
        [("MT-004", "a follow-up with taskId only: no result: error InvalidParamsError -32602 200: no")],
    ),
    "a null in place of an unknown task": (
        ("V03-TASK-001", "GetTask of an unknown task: `result` is null: status 200 with '{}'"),
        [
            ("V03-CARD-022", "`result` is null: status 200 with '{}'"),
            ("V03-RPC-005", "GetTask of an unknown task: `result` is null: status 200 with '{}'"),
        ],
        [("V03-CARD-022", "HTTP 404 from a server that has nothing there")],
    ),
    "events without an envelope": (
        ("V03-STREAM-001", "no stream: a stream of 0 events"),
        [
            ("V03-RPC-003", "event 0: jsonrpc is None"),
            ("V03-STREAM-003", "the stream of a running task ended at no state: a stream of 0 events"),
        ],
        [("V03-RPC-003", "jsonrpc is None")],
    ),
    "a path that is not there": (
        ("HJ-001", "POST /tasks/{id}:cancel does not exist: HTTP 404"),
        [
            ("CAN-001", "cancelling a running task: error 404 NOT_FOUND: Not found"),
            ("LIST-003", "ListTasks: no result: error 404 UNIMPLEMENTED: there is no method"),
            ("VER-001", "ListTasks: A2A-Version '99.0' is answered like 1.0: error 404 UNIMPLEMENTED: no method"),
        ],
        [("CAN-001", "cancelling a running task: error TaskNotFoundError 404 NOT_FOUND: Not found")],
        "HTTP+JSON",
    ),
}


@in_one_test("name", CONSEQUENCES)
def test_what_follows_from_another_finding_is_listed_beneath_it(name: str) -> None:
    cause, follow, others, binding = (*CONSEQUENCES[name], "JSONRPC")[:4]
    rows = [row(one[0], one[1], binding) for one in (*follow, cause)]
    assert [r.outcome for r in fold(rows)] == [*("explained" for _ in follow), "failed"]
    assert {r.cause for r in fold(rows)[:-1]} == {rows[-1].name}
    # On another interface, of what has other findings, behind a warning and without the cause each stands for itself.
    assert {r.outcome for r in fold([row(one[0], one[1], "GRPC") for one in follow] + rows[-1:])} == {"failed"}
    assert {r.outcome for r in fold([row(one[0], one[1], binding) for one in (*others, cause)])} == {"failed"}
    warned = row(cause[0], cause[1], binding, "warned")
    assert {r.outcome for r in fold([*rows[:-1], warned])} == {"failed", "warned"}
    assert {r.outcome for r in fold(rows[:-1])} == {"failed"}


@in_one_test(("rule", "found"), [("SIGN-001", "signature is missing"), ("SIGN-002", "the header has no alg")])
def test_a_signature_that_cannot_be_read_is_one_defect(rule: str, found: str) -> None:
    unread = "no signature verifies (none of them can be read, or has an accepted alg)"
    rows = [row(rule, found, CARD), row("SIGN-004", unread, CARD)]
    assert [r.outcome for r in fold(rows)] == ["failed", "explained"]
    rows[1] = row("SIGN-004", "no signature verifies (0: it does not match the card)", CARD)
    assert [r.outcome for r in fold(rows)] == ["failed", "failed"]


def test_what_follows_on_every_interface_is_listed_beneath_one_cause() -> None:
    names = ("STREAM-020", "event 3 appends to 'b'"), ("SUB-006", "artifact 'b': streamed [{}]; GetTask has null")
    folded = fold([row(*name, binding) for name in names for binding in ("JSONRPC", "HTTP+JSON")])
    assert [r.outcome for r in folded] == ["failed", "explained", "explained", "explained"]
    assert {r.cause for r in folded[1:]} == {"1.0/STREAM-020[JSONRPC]"}
    assert len(folded[0].explains) == 3


def test_a_length_that_no_operation_reads_is_not_one_of_lists_too() -> None:
    sent, listed = (row(id, "historyLength 1 gives 2 messages") for id in ("SEND-011", "LIST-015"))
    texts = ("historyLength 0 gives tasks with 1 messages", "historyLength 1 gives tasks with 2 messages")
    both = tuple(dataclasses.replace(listed.findings[0], found=text) for text in texts)
    assert [r.outcome for r in fold([sent, dataclasses.replace(listed, findings=both)])] == ["failed", "explained"]


def test_prompts_that_lead_elsewhere_break_no_rule() -> None:
    ids = ("SEND-004", "SEND-011", "PART-007", "PART-008")
    elsewhere = Scenarios({**PROMPTS.prompts, **dict.fromkeys(("slow", "input", "file", "url"), "Hello")})
    results = asyncio.run(judged_fault(None, ids, elsewhere, step=0.01))
    protocol = [r for r in results if r.requirement.id in ids]
    # That agent answers at once in whatever case.
    by_outcome = {(r.requirement.id, r.outcome) for r in protocol}
    assert by_outcome == {("SEND-004", "passed"), *((id, "skipped") for id in ids[1:])}
    assert all("scenario" in r.reason for r in protocol if r.outcome == "skipped")


def test_empty_artifacts_are_called_so() -> None:
    empty = Fault(operations=("ListTasks",), reply=each_task(lambda task: task.update(artifacts=[])))
    (found,) = [r for r in asyncio.run(judged_fault(empty, ("LIST-003",))) if r.outcome == "failed"]
    assert {f.found for f in found.findings} == {"artifacts of a task is []"}


def test_a_slow_task_that_fails_or_asks_breaks_no_rule() -> None:
    async def both() -> list[CheckResult]:
        elsewhere = [Scenarios({**PROMPTS.prompts, "slow": f"{prompt} please"}) for prompt in ("fail", "input")]
        found = await asyncio.gather(*(judged_fault(None, ("STREAM-019", "SUB-001"), each) for each in elsewhere))
        return [*itertools.chain(*found)]

    results = asyncio.run(both())
    assert {r.outcome for r in results if r.requirement.group in ("streaming", "subscribe")} <= {"passed", "skipped"}


@in_one_test(
    ("error", "words"),
    [
        (read_rest_error(None, 404), "404: no message"),
        (read_rest_error({}, 404), "404: no message"),
        (read_rest_error(["gone"], 404), '404: ["gone"]'),
        (read_rpc_error({"code": -32001}, 200), "TaskNotFoundError -32001 200: no message"),
        (read_rpc_error({"code": 401, "message": "no"}, 401), "401: no"),
    ],
)
def test_an_error_is_told_in_a_few_words(error: ReplyError, words: str) -> None:
    assert str(error) == words
