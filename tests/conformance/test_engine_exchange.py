"""Evidence: bounds, redaction, the line that repeats a request; scenarios; replies read alike."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from pytest_a2a_bench.conformance.finding import Exchange
from pytest_a2a_bench.conformance.protocol.operations import OPERATIONS, rest_call, to_v03_params
from pytest_a2a_bench.conformance.protocol.payloads import members, message_in, nodes, task_in
from pytest_a2a_bench.conformance.scenarios import load_scenarios, parse_scenarios
from pytest_a2a_bench.conformance.wire.exchange import SHOWN_BYTES, Redactor, curl_line
from pytest_a2a_bench.conformance.wire.reply import read_grpc_error, read_rest_error, read_rpc_error
from pytest_a2a_bench.errors import ConfigurationError

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


@pytest.mark.parametrize(
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


def test_secrets_are_taken_out_in_every_form() -> None:
    redactor = Redactor(("", 'a b/"c'))
    assert redactor.url("http://h/?key=a+b%2F%22c&x=a%20b%2F%22c") == "http://h/?key=***&x=***"
    assert redactor.text('{"k": "a b/\\"c"} YSBiLyJj') == '{"k": "***"} ***'


def test_texts_are_bounded() -> None:
    assert len(Redactor().text("x" * 10_000_000)) < SHOWN_BYTES + 100


@pytest.mark.parametrize(
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


def test_tenant_goes_before_the_path() -> None:
    assert rest_call(OPERATIONS["GetTask"], {"id": "1"}, version="1.0", tenant="a b").path == "/a%20b/tasks/1"


def test_eleven_operations() -> None:
    assert len(OPERATIONS) == 11


def test_errors_read_alike() -> None:
    rpc = read_rpc_error({"code": -32001, "message": "no", "data": [INFO]}, 200)
    rest = read_rest_error({"error": {"code": 404, "status": "NOT_FOUND", "message": "no", "details": [INFO]}}, 404)
    grpc = read_grpc_error("NOT_FOUND", "no", [INFO])
    assert {e.name for e in (rpc, rest, grpc)} == {"TaskNotFoundError"}
    assert {e.reason for e in (rpc, rest, grpc)} == {"TASK_NOT_FOUND"}
    assert not any(e.may_be("UnsupportedOperationError") for e in (rpc, rest, grpc))


def test_errors_without_details_are_known_by_status() -> None:
    assert read_rest_error({"title": "x"}, 404).may_be("TaskNotFoundError")
    assert not read_rest_error("nonsense", 500).may_be("TaskNotFoundError")
    assert read_rest_error({}, 409).may_be("TaskNotCancelableError")
    assert read_grpc_error("UNIMPLEMENTED", "", ()).may_be("UnsupportedOperationError")
    assert not read_rpc_error({"code": True}, 200).may_be("TaskNotFoundError")
    assert read_rpc_error(["odd"], 200).code is None


def test_walk_knows_where_everything_is() -> None:
    part = {"text": "x"}
    task = {
        "id": "1",
        "status": {"state": "s", "message": {"parts": [part]}},
        "artifacts": [{"parts": [part]}],
        "history": [{"parts": []}],
    }
    wrapped = {n.pointer: (n.kind, n.owner) for n in nodes({"task": task})}
    assert wrapped["/task/status/message/parts/0"] == ("part", "message")
    assert wrapped["/task/artifacts/0"] == ("artifact", "task")
    assert {n.pointer for n in nodes(task)} >= {"/status/message", "/history/0"}
    assert not list(nodes("text"))


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


def test_results_of_both_versions() -> None:
    assert task_in({"task": {"id": "1"}}) == {"id": "1"}
    assert task_in({"id": "1", "status": {}}) == {"id": "1", "status": {}}
    assert task_in({"statusUpdate": {}}) is None
    assert message_in({"kind": "message", "parts": []}) is not None
    assert message_in({"msg": {"messageId": "1"}}) == {"messageId": "1"}


def test_scenarios_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "prompts.toml"
    path.write_text('slow = "count slowly"\n')
    assert load_scenarios(path).get("slow") == "count slowly"
    path.write_text('[scenarios]\nslow = "x"\n')
    assert load_scenarios(path).get("slow") == "x"


def test_every_mistake_in_scenarios_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"'slwo' is no scenario.*'input' is ' '.*there are default"):
        parse_scenarios({"slwo": "x", "input": " "}, "prompts.toml")
    with pytest.raises(ConfigurationError, match="expected a table"):
        parse_scenarios({"scenarios": "x"})
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_scenarios(tmp_path / "none.toml")
