"""The token leaves for the agent and for nowhere else, even where the agent sends it back."""

import base64
import json
import logging
import traceback
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from connections import Connect
from one_test import in_one_test
from raw_agent import HELLO, Answer, RawAgent, Request, raw_agent, response, rpc
from raw_grpc import insecure_card, raw_grpc

from pytest_a2a_bench.a2a.config import Credentials
from pytest_a2a_bench.a2a.session import AgentSession
from pytest_a2a_bench.errors import A2ABenchError, AuthenticationError
from pytest_a2a_bench.redact import KNOWN, KnownSecret

SECRET = "s3cret/t0ken+with=odd&chars"
USER = f"me:{SECRET}"
SCHEMES = {
    "query": {"type": "apiKey", "in": "query", "name": "key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "key"},
    "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "basic"},
}
CARRIED = {
    "query": ("path", f"/rpc?key={SECRET}"),
    "cookie": ("cookie", f"key={SECRET}"),
    "header": ("x-key", SECRET),
    "bearer": ("authorization", f"Bearer {SECRET}"),
    "basic": ("authorization", f"Basic {base64.b64encode(USER.encode()).decode()}"),
}
"""Scheme -> where the token is, and how."""


def echo(request: Request) -> str:
    headers = {k: v for k, v in request.headers.items() if k in ("authorization", "cookie", "x-key")}
    return f"{headers} {request.path.partition('?')[2]} {urllib.parse.unquote(request.path)}"


def bare(request: Request) -> str:
    """Return the token as it arrived, without what leads up to it."""
    headers = request.headers
    carried = headers.get("authorization") or headers.get("cookie") or headers.get("x-key") or request.path
    return carried.rpartition(" ")[2].rpartition("key=")[2]


def failed(request: Request) -> dict[str, Any]:
    said = {"messageId": "m", "role": "agent", "kind": "message", "parts": [{"kind": "text", "text": echo(request)}]}
    return {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "failed", "message": said}}


def fault(request: Request) -> bytes:
    error = {"code": -32603, "message": echo(request)}
    return response({"jsonrpc": "2.0", "id": request.json["id"], "error": error})


ANSWERS: dict[str, Callable[[Request], Answer]] = {
    "500": lambda r: response(echo(r), "500 Internal Server Error", "text/plain"),
    "500 cut within the token": lambda r: response("x" * 186 + bare(r), "500 Internal Server Error", "text/plain"),
    "401": lambda r: response(echo(r), "401 Unauthorized", "text/plain"),
    "404": lambda r: response({"error": {"code": 5, "message": echo(r)}}, "404 Not Found"),
    "not JSON": lambda r: response(echo(r)),
    "header": lambda r: response("", "503 Service Unavailable", X_Echo=json.dumps(echo(r))),
    "redirect": lambda r: response("", "307 Temporary Redirect", Location=f"http://evil.test/{SECRET}"),
    "error object": fault,
    "failed task": lambda r: rpc(failed(r), r),
}


def with_scheme(agent: RawAgent, scheme: str) -> None:
    agent.card = {"name": "raw", "url": f"{agent.url}/rpc", "protocolVersion": "0.3.0"}
    agent.card |= {"securitySchemes": {"s": SCHEMES[scheme]}, "security": [{"s": []}]}


def assert_hidden(text: str) -> None:
    plain = json.dumps(SECRET)[1:-1]
    quoted = [urllib.parse.quote(SECRET, safe=""), urllib.parse.quote(SECRET), urllib.parse.quote_plus(SECRET)]
    for form in (SECRET, plain, *quoted, base64.b64encode(USER.encode()).decode().rstrip("=")):
        assert form not in text
    for form in (SECRET, *quoted, base64.b64encode(USER.encode()).decode()):
        assert form[:10] not in text


def shown(session: AgentSession, error: BaseException | None = None) -> str:
    """Return all that a session shows of what it did, other than the conversation itself."""
    trace = "".join(traceback.format_exception(error)) if error is not None else ""
    return f"{error!r} {trace} {session.metrics} {session.findings}"


@pytest.mark.parametrize("scheme", SCHEMES)
@in_one_test("answer", ANSWERS)
def test_echoed_tokens_are_hidden(connect: Connect, caplog: pytest.LogCaptureFixture, scheme: str, answer: str) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.clear()
    with raw_agent(ANSWERS[answer]) as agent:
        with_scheme(agent, scheme)
        session = connect(agent.url, auth=Credentials(USER if scheme == "basic" else SECRET)).session()
        with pytest.raises(A2ABenchError) as caught:
            session.send(HELLO)
        sent = agent.messages[0]
    where, value = CARRIED[scheme]
    assert {**sent.headers, "path": urllib.parse.unquote(sent.path)}[where] == value
    assert SECRET not in str([(r.headers, r.path) for r in agent.requests if r.method == "GET"])
    assert "httpcore.http11" in {r.name for r in caplog.records}
    assert_hidden(shown(session, caught.value))
    assert_hidden(caplog.text)


def test_an_answer_with_the_token_is_hidden_in_raw_and_notes(connect: Connect) -> None:
    def handler(request: Request) -> bytes:
        parts = [{"kind": "text", "text": echo(request)}]
        result = {"kind": "message", "role": "agent", "messageId": "m", "parts": parts}
        return response({"jsonrpc": "2.0", "id": SECRET, "result": result}, kind=f"text/{SECRET}")

    with raw_agent(handler) as agent:
        with_scheme(agent, "query")
        session = connect(agent.url, auth=Credentials(SECRET)).session()
        reply = session.send(HELLO)
    assert SECRET in reply.text  # the conversation is what it is
    assert "***" in reply.raw
    assert any("***" in note for note in reply.notes)
    assert_hidden(f"{reply.raw} {reply.notes} {shown(session)}")


def test_a_card_that_echoes_the_token_is_hidden(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    def handler(request: Request) -> bytes:
        status = "500 Internal Server Error" if "authorization" in request.headers else "401 Unauthorized"
        return response(request.headers.get("authorization", ""), status, "text/plain")

    with raw_agent(handler, {}) as agent, pytest.raises(A2ABenchError, match=r"HTTP 500.*Bearer \*\*\*") as caught:
        connect(agent.url, auth=Credentials(SECRET)).card()
    assert_hidden("".join(traceback.format_exception(caught.value)) + caplog.text)


def refuse(_: bytes, context: Any) -> bytes:
    context.abort(grpc.StatusCode.UNAUTHENTICATED, str(dict(context.invocation_metadata())))
    raise AssertionError


def test_grpc_hides_the_token_and_advises_an_origin_that_helps(connect: Connect) -> None:
    auth = Credentials(SECRET)
    with raw_grpc(refuse) as address, raw_agent(ANSWERS["500"], insecure_card(address)) as agent:
        origin = f"http://{address}"
        with pytest.raises(AuthenticationError, match=f"withheld.*A2A_ALLOWED_ORIGINS={origin}$"):
            connect(agent.url, auth=auth).session().send(HELLO)
        session = connect(agent.url, auth=auth, allowed_origins=(origin,)).session()
        with pytest.raises(AuthenticationError, match=r"Bearer \*\*\*.*was sent and refused") as caught:
            session.send(HELLO)
    assert_hidden(shown(session, caught.value))


@pytest.fixture
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Be in a process in which no other test has left a secret that is remembered."""
    theirs = logging.getLogRecordFactory()
    for name, nothing in {"_counts": Counter[KnownSecret](), "_secrets": (), "_texts": ()}.items():
        monkeypatch.setattr(KNOWN, name, nothing)
    logging.setLogRecordFactory(logging.LogRecord)
    yield
    logging.setLogRecordFactory(theirs)


@pytest.mark.usefixtures("nothing_known")
def test_a_closed_connection_leaves_the_log_alone(connect: Connect) -> None:
    with raw_agent(ANSWERS["500"]) as agent:
        connection = connect(agent.url, auth=Credentials(SECRET))
        connection.card()
        assert logging.getLogRecordFactory() is not logging.LogRecord
        connection.close()
    assert logging.getLogRecordFactory() is logging.LogRecord


@pytest.mark.parametrize("repeats", [True, False])
def test_an_agent_that_repeats_the_token_is_reported_of(connect: Connect, repeats: bool) -> None:
    def handler(request: Request) -> bytes:
        text = base64.b64encode(f"x{request.headers['authorization']}".encode()).decode() if repeats else "x"
        parts = [{"kind": "text", "text": text}]
        return rpc({"kind": "message", "role": "agent", "messageId": "m", "parts": parts}, request)

    with raw_agent(handler) as agent:
        session = connect(agent.url, auth=Credentials(SECRET, "MY_TOKEN")).session()
        session.send(HELLO)
    found = [f for f in session.findings if f.rule == "secret-repeated"]
    assert ["MY_TOKEN" in f.message for f in found] == [True] * repeats
    assert_hidden(repr(found))
