"""The engine: what is planned, that every requirement is accounted for, and that nothing is lost or left behind."""

import asyncio
import importlib
import inspect
import pkgutil
import shlex
from pathlib import Path
from typing import Any

import pytest
from faulty.store import Record
from faulty_server import serve_faulty
from judged import collect, planned_for
from mutation import targets
from one_test import in_one_test

from pytest_a2a_bench.a2a.codec import TERMINAL
from pytest_a2a_bench.a2a.config import ClientConfig, Credentials
from pytest_a2a_bench.a2a.network import Network
from pytest_a2a_bench.conformance import checks, engine
from pytest_a2a_bench.conformance.card.fetch import fetch_card_async
from pytest_a2a_bench.conformance.catalogue import UNDECLARED, load_requirements, plan, requirement
from pytest_a2a_bench.conformance.checks import send
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.engine import run_check, run_checks
from pytest_a2a_bench.conformance.finding import BINDINGS, VERSIONS, CheckResult, Exchange, Planned
from pytest_a2a_bench.conformance.protocol.operations import OPERATIONS, rest_call, to_v03_params
from pytest_a2a_bench.conformance.protocol.payloads import members, message_in, state_of, task_in
from pytest_a2a_bench.conformance.scenarios import Scenarios, load_scenarios
from pytest_a2a_bench.conformance.session.session import Session
from pytest_a2a_bench.conformance.target import Target, declared, targets_of
from pytest_a2a_bench.conformance.wire.exchange import SHOWN_BYTES, Redactor
from pytest_a2a_bench.conformance.wire.reply import read_grpc_error, read_rest_error, read_rpc_error
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.reports.findings import curl_line

URL = "http://127.0.0.1:9"


def make_card(*interfaces: tuple[str, str, str], **capabilities: bool) -> dict[str, Any]:
    named = [{"url": u, "protocolBinding": b, "protocolVersion": v} for u, b, v in interfaces]
    return {"name": "x", "supportedInterfaces": named, "capabilities": capabilities}


@in_one_test("version", VERSIONS)
def test_every_requirement_has_a_check_or_a_reason(version: str) -> None:
    entries = load_requirements(version)
    wanted = {r.id for r in entries if r.bindings != ("card",)}
    checked, reasons = {r.id for r in entries if r.check}, {r.id for r in entries if r.uncheckable}
    assert checked | reasons == wanted
    assert not checked & reasons
    assert all(len(r.uncheckable) > 20 for r in entries if r.uncheckable)


def test_the_catalogue_names_every_check_and_no_other() -> None:
    entries = [r for version in VERSIONS for r in load_requirements(version)]
    named = {name for r in entries for name in f"{r.check} {r.stress}".split()}
    there = set()
    for module in pkgutil.iter_modules(checks.__path__):
        members = vars(importlib.import_module(f"{checks.__name__}.{module.name}")).items()
        own = {name: f for name, f in members if getattr(f, "__module__", "").endswith(f".{module.name}")}
        takes_context = {
            n
            for n, f in own.items()
            if inspect.iscoroutinefunction(f) and list(inspect.signature(f).parameters) == ["ctx"]
        }
        returns_nothing = {n for n in takes_context if own[n].__annotations__["return"] == "None"}
        there |= {f"{module.name}.{name}" for name in returns_nothing if not name.startswith("_")}
    helpers = {"auth.known_user"}
    assert there - helpers == named


def test_plan_follows_card() -> None:
    card = make_card((URL, "JSONRPC", "1.0"), (f"{URL}/rest", "HTTP+JSON", "1.0"))
    planned = plan(card, URL)
    names = [p.name for p in planned]
    assert len(set(names)) == len(names)
    assert "1.0/SEND-001[JSONRPC]" in names
    assert "1.0/SEND-001[HTTP+JSON]" in names
    assert "1.0/JR-001[HTTP+JSON]" not in names
    assert [p.name for p in planned if p.binding == "GRPC"] == [f"1.0/{UNDECLARED}[GRPC]"]
    order = [r.id for r in load_requirements("1.0")]
    seen = [order.index(p.requirement.id) for p in planned if p.requirement.id != UNDECLARED]
    assert seen == sorted(seen)


def test_patch_versions_and_unknown_bindings() -> None:
    card = make_card((URL, "JSONRPC", "1.0"), (URL, "JSONRPC", "1.0"), (URL, "SOAP", "1.0"), (URL, "GRPC", "7.0"))
    assert declared(card, URL) == (("JSONRPC", "1.0"),)
    assert [str(t) for t in targets_of(card, URL)] == [f"JSONRPC 1.0 at {URL}"]


def test_secrets_are_both_users_and_a_certificate_is_for_the_endpoint_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOB", "bob:of-bob")
    config = ClientConfig(URL, auth=Credentials("of-ann"), network=Network(chain="PEM"))
    card = make_card((URL, "JSONRPC", "1.0"), ("https://elsewhere.example/", "HTTP+JSON", "1.0"))
    own, other = targets_of(card, URL, config=config, scenarios=Scenarios({"other_token_env": "BOB"}))
    assert own.secrets == other.secrets == ("of-ann", "bob:of-bob", "of-bob")
    assert (own.network.chain, other.network.chain) == ("PEM", "")


def run(target: Target | tuple[Target, ...], *ids: str) -> dict[str, CheckResult]:
    results = asyncio.run(collect(target, select=lambda p: p.requirement.id in ids))
    return {r.name: r for r in results}


def test_where_nobody_answers_each_requirement_is_accounted_for() -> None:
    at = targets_of(make_card((URL, "JSONRPC", "1.0")), URL)
    undeclared = run(at, UNDECLARED)
    assert {r.binding: r.outcome for r in undeclared.values()} == {"HTTP+JSON": "skipped", "GRPC": "skipped"}
    assert all("declares no" in r.reason for r in undeclared.values())
    unprompted = run(at, "SEND-004")["1.0/SEND-004[JSONRPC]"]
    assert unprompted.outcome == "skipped"
    assert "'slow'" in unprompted.reason
    assert "--a2a-scenarios" in unprompted.reason
    results = run(at, "SEND-001", "DM-001", "SEND-007")
    assert results["1.0/SEND-001[JSONRPC]"].outcome == "failed"
    assert results["1.0/SEND-001[JSONRPC]"].findings[0].exchanges[0].problem.startswith("ConnectError")
    assert {results[f"1.0/{id}[JSONRPC]"].outcome for id in ("DM-001", "SEND-007")} == {"error"}


@in_one_test(
    ("binding", "url", "outcome"),
    [
        ("JSONRPC", "http://[::1", "failed"),
        ("JSONRPC", "http://h:99999/", "failed"),
        ("GRPC", "ftp://127.0.0.1:1", "error"),
        ("GRPC", "http://127.0.0.1:99999", "error"),
        ("GRPC", "127.0.0.1:9", "failed"),
    ],
)
def test_address_that_is_none(binding: str, url: str, outcome: str) -> None:
    target = Target(URL, {"supportedInterfaces": [{"url": URL}]}, "1.0", binding, url, timeout=2.0)
    session = Session(target)

    async def ask() -> CheckResult:
        try:
            return await run_check(requirement("SEND-001"), session)
        finally:
            await session.close()

    result = asyncio.run(ask())
    assert result.outcome == outcome, result
    assert "bug" not in result.reason


@pytest.mark.parametrize(("timeout", "found"), [(0.04, ["the check did not end within 0.2 s"]), (0.5, [])])
def test_a_check_may_take_its_answers_time(timeout: float, found: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    async def patient(ctx: Context) -> None:
        await asyncio.sleep(0.4)

    monkeypatch.setattr(send, "one_of_task_and_message", patient)
    monkeypatch.setattr(engine, "CHECK_SECONDS", 0.2)
    target = Target(URL, {"supportedInterfaces": [{"url": URL}]}, "1.0", "JSONRPC", URL, timeout=timeout)
    result = asyncio.run(run_check(requirement("SEND-001"), Session(target)))

    assert [f.found for f in result.findings] == found


def test_bug_of_ours_costs_one_result_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(ctx: Context) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(send, "one_of_task_and_message", broken)
    results = run(targets_of(make_card((URL, "JSONRPC", "1.0")), URL), "SEND-001", "SEND-002")
    assert results["1.0/SEND-001[JSONRPC]"].outcome == "error"
    assert "bug of pytest-a2a-bench: KeyError" in results["1.0/SEND-001[JSONRPC]"].reason
    assert "1.0/SEND-002[JSONRPC]" in results


async def left_behind(
    *wanted: str, step: float, binding: str = "JSONRPC", version: str = "1.0"
) -> tuple[list[str], list[int], list[Any]]:
    """Run checks by id or group, and return the states of all tasks that the agent has, and their configurations.

    The second member is how many configurations there were when each check had ended.
    """
    async with serve_faulty(None, step=step, protocol=version) as running:

        def configs() -> list[Any]:
            return [config for record in records() for config in record.configs]

        def records() -> list[Record]:
            return list(running.agent.store.visible(None))

        card, _, _ = await fetch_card_async(running.url)
        found = [t for t in targets(running.url, card) if t.binding == binding]
        planned = planned_for(found, lambda p: bool({p.requirement.id, p.requirement.group} & set(wanted)))
        counts = [len(configs()) async for _ in run_checks(found, planned)]
        return [state_of(record.task) for record in records()], counts, configs()


def test_no_task_is_left_behind() -> None:
    states, _, configs = asyncio.run(left_behind("SEND-004", "PUSH-001", step=5.0))
    assert states
    assert set(states) <= TERMINAL
    assert "canceled" in states
    assert configs == []


@pytest.mark.parametrize(
    ("binding", "version", "wanted"),
    [
        (BINDINGS[0], "1.0", "push"),
        # Which come with messages there.
        (BINDINGS[0], "0.3", "V03-SEND-003"),
        *(pytest.param(binding, "1.0", "push", marks=pytest.mark.slow) for binding in BINDINGS[1:]),
    ],
)
def test_no_push_configuration_is_left_behind(binding: str, version: str, wanted: str) -> None:
    states, counts, configs = asyncio.run(left_behind(wanted, step=0.05, binding=binding, version=version))
    assert set(states) <= TERMINAL
    assert max(counts) > 0
    assert configs == []


def test_chosen_checks_are_run_and_leaving_early_stops_the_rest() -> None:
    async def leave_early() -> tuple[list[str], int]:
        async with serve_faulty(None) as running:
            card, _, _ = await fetch_card_async(running.url)
            found = targets(running.url, card)
            chosen = [Planned(requirement("SEND-001"), "GRPC")]
            names = [r.name + r.outcome async for r in run_checks(found, chosen)]
            running_checks = run_checks(found, planned_for(found))
            async for _ in running_checks:
                break
            await running_checks.aclose()
            return names, len([t for t in asyncio.all_tasks() if "_run_one" in repr(t)])

    assert asyncio.run(leave_early()) == (["1.0/SEND-001[GRPC]passed"], 0)


# Evidence: bounds, redaction, the line that repeats a request; scenarios; replies read alike.


SECRET = "s3cr3t-token"
INFO = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org"}


def test_curl_line_repeats_the_request() -> None:
    body = """{"text": "it's $HOME; `rm`"}"""
    exchange = Exchange(
        "JSONRPC",
        "SendMessage",
        "http://h/rpc?a=1&b=2",
        http_method="POST",
        request_headers={"content-type": "application/json", "A2A-Version": "1.0", "host": "h", "content-length": "9"},
        request=body,
    )
    words = shlex.split(curl_line(exchange))
    assert words[0] == "curl"
    assert words[-1] == "http://h/rpc?a=1&b=2"
    assert words[words.index("--data-raw") + 1] == body
    assert "A2A-Version: 1.0" in words
    assert not any(w.startswith(("host", "content-length")) for w in words)


@in_one_test(
    ("url", "address", "plain"),
    [("http://h:1", "h:1", True), ("h:1", "h:1", True), ("grpcs://h:1", "h:1", False), ("https://h:1/", "h:1", False)],
)
def test_grpcurl_line(url: str, address: str, plain: bool) -> None:
    exchange = Exchange("GRPC", "lf.a2a.v1.A2AService/GetTask", url, request='{"id": "1"}')
    words = shlex.split(curl_line(exchange))
    assert words[0] == "grpcurl"
    assert words[-2:] == [address, "lf.a2a.v1.A2AService/GetTask"]
    assert ("-plaintext" in words) is plain


def test_secrets_are_taken_out() -> None:
    redactor = Redactor((SECRET,))
    headers = redactor.headers(
        {"Authorization": "Basic abc", "X-Api-Key": "k", "Cookie": "c", "x-other": f"a {SECRET}"}
    )
    assert headers == {"Authorization": "***", "X-Api-Key": "***", "Cookie": "***", "x-other": "a ***"}
    assert redactor.url(f"http://me:pw@h/?key={SECRET}") == "http://***@h/?key=***"
    redactor = Redactor(("", 'a b/"c'))
    assert redactor.url("http://h/?key=a+b%2F%22c&x=a%20b%2F%22c") == "http://h/?key=***&x=***"
    assert redactor.text('{"k": "a b/\\"c"} YSBiLyJj') == '{"k": "***"} ***'
    shown = Redactor().text("x" * 10_000_000)
    assert len(shown) < SHOWN_BYTES + 100
    recorded = Exchange("JSONRPC", "GetTask", "http://h/", response=shown)
    assert Redactor((SECRET,)).exchange(recorded) == recorded, "it says how much was left out, as before"


@in_one_test(
    ("name", "params", "expected"),
    [
        ("GetTask", {"id": "a/b c", "historyLength": 0}, ("GET", "/tasks/a%2Fb%20c", {"historyLength": "0"}, None)),
        ("ListTasks", {"includeArtifacts": True}, ("GET", "/tasks", {"includeArtifacts": "true"}, None)),
        ("CancelTask", {"id": "1"}, ("POST", "/tasks/1:cancel", {}, {})),
        ("SubscribeToTask", {"id": "1"}, ("POST", "/tasks/1:subscribe", {}, None)),
        ("SendMessage", {"message": {}}, ("POST", "/message:send", {}, {"message": {}})),
        (
            "CreateTaskPushNotificationConfig",
            {"taskId": "t", "url": "u"},
            ("POST", "/tasks/t/pushNotificationConfigs", {}, {"url": "u"}),
        ),
        (
            "DeleteTaskPushNotificationConfig",
            {"taskId": "t", "id": "c"},
            ("DELETE", "/tasks/t/pushNotificationConfigs/c", {}, None),
        ),
    ],
)
def test_rest_spelling(name: str, params: dict[str, Any], expected: tuple[Any, ...]) -> None:
    call = rest_call(OPERATIONS[name], params, version="1.0")
    assert (call.verb, call.path, dict(call.query), call.body) == expected
    assert rest_call(OPERATIONS[name], params, version="1.0", tenant="a b").path == "/a%20b" + call.path
    assert len(OPERATIONS) == 11


def test_errors_read_alike_and_without_details_are_known_by_status() -> None:
    rpc = read_rpc_error({"code": -32001, "message": "no", "data": [INFO]}, 200)
    rest = read_rest_error({"error": {"code": 404, "status": "NOT_FOUND", "message": "no", "details": [INFO]}}, 404)
    grpc = read_grpc_error("NOT_FOUND", "no", [INFO])
    assert {e.name for e in (rpc, rest, grpc)} == {"TaskNotFoundError"}
    assert {e.reason for e in (rpc, rest, grpc)} == {"TASK_NOT_FOUND"}
    assert not any(e.may_be("UnsupportedOperationError") for e in (rpc, rest, grpc))

    assert read_rest_error({"title": "x"}, 404).may_be("TaskNotFoundError")
    # 0.3 has no table of HTTP statuses, and JSONRPCError for all transports.
    told = {"code": -32003, "message": "no"}
    for old in (read_rest_error(told, 501), read_rest_error({"error": told}, 501)):
        assert (old.name, old.is_internal) == ("PushNotificationNotSupportedError", False)
    assert not read_rest_error("nonsense", 500).may_be("TaskNotFoundError")
    assert read_rest_error({}, 409).may_be("TaskNotCancelableError")
    assert read_grpc_error("UNIMPLEMENTED", "", ()).may_be("UnsupportedOperationError")
    assert not read_rpc_error({"code": True}, 200).may_be("TaskNotFoundError")
    assert read_rpc_error(["odd"], 200).code is None
    # That it is a text is a finding of its own.
    assert read_rpc_error({"code": "-32001"}, 200).name == "TaskNotFoundError"
    assert read_rpc_error({"code": "none"}, 200).code is None


def test_members_stop_at_free_form_content() -> None:
    names = [m.name for m in members({"a": [{"metadata": {"snake_case": 1}}], "x/y": {"data": {"kind": 2}}})]
    assert names == ["a", "metadata", "x/y", "data"]


def test_spelling_of_0_3() -> None:
    params = {
        "message": {
            "messageId": "1",
            "role": "ROLE_USER",
            "parts": [{"text": "x"}, {"raw": "AA==", "mediaType": "a/b", "filename": "f"}, {"data": 1}],
        },
        "configuration": {"returnImmediately": True},
    }
    rpc = to_v03_params("SendMessage", params, "JSONRPC")
    assert rpc["message"]["role"] == "user"
    assert rpc["message"]["parts"][1] == {"kind": "file", "file": {"bytes": "AA==", "name": "f", "mimeType": "a/b"}}
    assert rpc["configuration"] == {"blocking": False}
    rest = to_v03_params("SendMessage", params, "HTTP+JSON")
    assert rest["message"]["content"][0] == {"text": "x"}
    assert "parts" not in rest["message"]
    assert to_v03_params("GetTask", {"id": "1"}, "GRPC") == {"name": "tasks/1"}
    assert params["configuration"] == {"returnImmediately": True}


@in_one_test(
    ("result", "is_task", "is_message"),
    [
        ({"id": "1", "status": {}}, True, False),
        ({"kind": "task"}, True, False),
        ({"id": "1"}, False, False),
        ({"id": "1", "status": {}, "taskId": "1"}, False, False),
        ({"kind": "message"}, False, True),
        ({"messageId": "1"}, False, True),
    ],
)
def test_tasks_and_messages_of_both_versions(result: Any, is_task: bool, is_message: bool) -> None:
    assert (task_in(result) is result, message_in(result) is result) == (is_task, is_message)
    assert task_in({"task": result}) == message_in({"message": result}) == message_in({"msg": result}) == result


def test_scenarios_are_defaults_or_from_a_file_whose_every_mistake_is_named(tmp_path: Path) -> None:
    assert Scenarios().get("task") == "Hello"
    assert Scenarios({"default": "Hi"}).get("task") == "Hi"
    assert Scenarios().get("slow") is None
    path = tmp_path / "prompts.toml"
    for head in ("", "[scenarios]\n"):
        path.write_text(f'{head}slow = "count slowly"\n')
        assert load_scenarios(path).get("slow") == "count slowly"

    path.write_text('slwo = "x"\ninput = " "\n')
    with pytest.raises(ConfigurationError, match=r"'slwo' is no scenario.*'input' is ' '.*there are default"):
        load_scenarios(path)
    path.write_text('scenarios = "x"\n')
    with pytest.raises(ConfigurationError, match="expected a table"):
        load_scenarios(path)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_scenarios(tmp_path / "none.toml")
