"""``check --client`` and ``a2a_observed_agent``: planted faults of clients are found, a correct client is silent."""

import contextlib
import itertools
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.protobuf import json_format
from threaded_http import Handler, HttpServer

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig, Credentials
from pytest_a2a_bench.cli import main
from pytest_a2a_bench.conformance.card.judge import check_card
from pytest_a2a_bench.conformance.clients.agent import CARDS, EXTENSION, SITUATIONS
from pytest_a2a_bench.conformance.clients.observed import ObservedAgent
from pytest_a2a_bench.conformance.clients.serving import CARD_PATH
from pytest_a2a_bench.conformance.protocol.operations import OPERATIONS, SENDING, STREAMING, rest_call, to_v03_params
from pytest_a2a_bench.conformance.protocol.payloads import neutral_state, task_in
from pytest_a2a_bench.conformance.report import Report
from pytest_a2a_bench.conformance.wire import webhook as receiving
from pytest_a2a_bench.errors import ConfigurationError, InfrastructureError
from pytest_a2a_bench.model import Part
from pytest_a2a_bench.reports.findings import FORMATS, render

PLACES = [(b, v) for v in ("1.0", "0.3") for b in ("JSONRPC", "HTTP+JSON", "GRPC")]
TOKEN = "hook-token"
Json = dict[str, Any]


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, headers: Mapping[str, str] = {}) -> None:
        super().__init__(str(status))
        self.status, self.headers = status, headers


class Cut(Exception):
    """A stream that ended before its task did."""


FAULTS: list[tuple[str, str, str, str, str]] = [
    ("no-version", "JSONRPC", "1.0", "input", "VER-002"),
    ("wrong-version", "HTTP+JSON", "1.0", "input", "VER-002"),
    ("wrong-version", "JSONRPC", "0.3", "input", "V03-VER-001"),
    ("short-version", "JSONRPC", "1.0", "input", "VER-007"),
    ("patch-version", "GRPC", "1.0", "input", "VER-003"),
    ("old-card-path", "JSONRPC", "1.0", "input", "CARD-001"),
    ("wrong-url", "JSONRPC", "1.0", "input", "CARD-007"),
    ("other-method", "JSONRPC", "1.0", "input", "JR-002"),
    ("other-method", "JSONRPC", "0.3", "input", "V03-RPC-001"),
    ("text", "JSONRPC", "1.0", "input", "JR-001"),
    ("no-jsonrpc", "JSONRPC", "1.0", "input", "JR-003"),
    ("no-id", "JSONRPC", "1.0", "input", "ERR-015"),
    ("second-first", "JSONRPC", "1.0", "cards", "CLIENT-001"),
    ("second-first", "HTTP+JSON", "0.3", "cards", "V03-CARD-003"),
    ("other-path", "HTTP+JSON", "1.0", "input", "HJ-001"),
    ("other-path", "HTTP+JSON", "0.3", "input", "V03-REST-001"),
    ("json", "HTTP+JSON", "1.0", "input", "HJ-002"),
    ("query", "HTTP+JSON", "1.0", "slow", "HJ-004"),
    ("other-service", "GRPC", "1.0", "input", "GR-001"),
    ("agent-role", "GRPC", "1.0", "input", "DM-004"),
    ("old-role", "JSONRPC", "1.0", "input", "DM-004"),
    ("no-parts", "JSONRPC", "1.0", "input", "DM-003"),
    ("two-contents", "JSONRPC", "1.0", "input", "PART-009"),
    ("kind", "JSONRPC", "1.0", "input", "DM-012"),
    ("snake", "JSONRPC", "1.0", "input", "DM-008"),
    ("same-message-id", "GRPC", "1.0", "input", "SEND-016"),
    ("forgets-ids", "JSONRPC", "1.0", "input", "MT-006"),
    ("forgets-task", "HTTP+JSON", "0.3", "input", "CLIENT-004"),
    ("other-context", "JSONRPC", "1.0", "input", "MT-005"),
    ("own-context", "JSONRPC", "1.0", "input", "MT-002"),
    ("own-task", "GRPC", "0.3", "input", "V03-SEND-005"),
    ("ended-task", "JSONRPC", "1.0", "input", "SEND-007"),
    ("no-polling", "JSONRPC", "1.0", "slow", "SEND-005"),
    ("polls-once", "GRPC", "1.0", "slow", "SEND-005"),
    ("no-reconnect", "JSONRPC", "1.0", "reconnect", "STREAM-019"),
    ("sends-again", "HTTP+JSON", "1.0", "reconnect", "CLIENT-007"),
    ("sse-comments", "JSONRPC", "1.0", "stream sse-comments", "STREAM-001"),
    ("sse-crlf", "HTTP+JSON", "1.0", "stream sse-crlf", "STREAM-001"),
    ("sse-cr", "JSONRPC", "0.3", "stream sse-cr", "V03-STREAM-001"),
    ("sse-multiline", "JSONRPC", "1.0", "stream sse-multiline", "STREAM-001"),
    ("unknown-fields", "JSONRPC", "1.0", "input unknown-fields", "SEND-015"),
    ("no-retry-after", "HTTP+JSON", "1.0", "retry-429", "CLIENT-006"),
    ("no-retry-after", "JSONRPC", "0.3", "503", "CLIENT-006"),
    ("resends", "JSONRPC", "1.0", "drop", "CLIENT-007"),
    ("leaks-token", "JSONRPC", "1.0", "redirect", "CLIENT-008"),
    ("same-token", "GRPC", "1.0", "expired-token", "AUTH-002"),
    ("hook-duplicate", "JSONRPC", "1.0", "push", "PUSH-011"),
    ("hook-open", "JSONRPC", "0.3", "push", "V03-PUSH-003"),
    ("no-push-url", "HTTP+JSON", "1.0", "push", "PUSH-010"),
    ("old-push-member", "JSONRPC", "1.0", "push", "PUSH-010"),
    ("other-id", "JSONRPC", "1.0", "reconnect", "SEND-008"),
    ("other-id", "JSONRPC", "0.3", "reconnect", "V03-SEND-005"),
    ("one-token", "JSONRPC", "1.0", "push", "CLIENT-009"),
    ("no-fallback", "JSONRPC", "1.0", "cards", "CLIENT-002"),
    ("no-card-again", "JSONRPC", "1.0", "cards", "CARD-013"),
    ("no-conditional", "JSONRPC", "1.0", "cards", "CARD-015"),
    ("card-unknown", "JSONRPC", "1.0", "cards", "CARD-029"),
    ("no-tenant", "JSONRPC", "1.0", "cards", "TEN-001"),
    ("extension-once", "JSONRPC", "1.0", "cards", "EXT-001"),
    ("undeclared", "JSONRPC", "1.0", "cards", "STREAM-012"),
    ("own-order", "JSONRPC", "1.0", "order", "CLIENT-001"),
]
"""Name, binding, version, situations that show it, and the requirement that it breaks."""


class SmallClient:
    """A client of one binding and version.

    :param fault: a name in :data:`FAULTS`; empty for none.
    """

    def __init__(self, agent: ObservedAgent, binding: str, version: str, fault: str = "") -> None:
        self.agent, self.binding, self.version, self.fault = agent, binding, version, fault
        self.http = httpx.Client(timeout=120, trust_env=False, verify=False)
        self.token, self.tokens = "", map(str, itertools.count(1))
        self.ids = itertools.count(1)
        self.messages = itertools.count(1)
        self.etag = ""
        self.interface: Json = {}
        self.hook = ""
        self.chooses = self.has_declared = False

    # -- the card --

    def connect(self, *names: str) -> bool:
        """Read a card and choose its first interface of this binding and version that can be reached."""
        base = self.agent.at(*names)
        headers = {"If-None-Match": self.etag} if self.etag and self.fault != "no-conditional" else {}
        path = "/.well-known/agent.json" if self.fault == "old-card-path" else CARD_PATH
        reply = self.http.get(base + path, headers=headers)
        if reply.status_code == 404:
            reply = httpx.Response(
                200, json=self.http.get(base + CARD_PATH).json() if self.fault != "old-card-path" else {}
            )
        self.etag = reply.headers.get("etag", "")
        if reply.status_code == 304:
            return True
        card = reply.json()
        if self.fault == "card-unknown" and "notYetInvented" in card:
            return False
        every = card.get("supportedInterfaces") or [
            {"url": i["url"], "protocolBinding": i["transport"], "protocolVersion": "0.3"}
            for i in card.get("additionalInterfaces", ())
        ]
        wanted = (self.binding, self.version)
        # Two bindings, where it is to choose.
        supported = {("JSONRPC", "1.0"), ("HTTP+JSON", "1.0")} if self.chooses else {wanted}
        fitting = [i for i in every if (i["protocolBinding"], i["protocolVersion"]) in supported]
        fitting = fitting[::-1] if self.fault in ("own-order", "second-first") else fitting
        for interface in fitting:
            self.interface, self.binding = interface, interface["protocolBinding"]
            if self._is_reachable(interface["url"]):
                return True
            if self.fault == "no-fallback":
                break
        return False

    def _is_reachable(self, url: str) -> bool:
        try:
            httpx.get(url, trust_env=False) if url.startswith("https") else None
        except httpx.HTTPError:
            return False
        return True

    @property
    def url(self) -> str:
        url = str(self.interface["url"])
        return url.replace("/at/", "/at//").replace("//1.0", "/wrong/1.0") if self.fault == "wrong-url" else url

    # -- messages --

    def message(self, text: str, task: Mapping[str, Any] | None = None) -> Json:
        id = "the-same" if self.fault == "same-message-id" else f"m-{next(self.messages)}-{uuid.uuid4()}"
        part: Json = {"text": text}
        if self.fault == "two-contents":
            part["url"] = "https://example.org/"
        found: Json = {"messageId": id, "role": "ROLE_USER", "parts": [part]}
        if self.fault in ("agent-role", "old-role"):
            found["role"] = "ROLE_AGENT" if self.fault == "agent-role" else "user"
        if self.fault == "no-parts":
            found["parts"] = []
        if self.fault == "kind":
            part["kind"] = "text"
        if self.fault == "own-context" and task is None:
            found["contextId"] = str(uuid.uuid4())
        if task is not None and self.fault != "forgets-ids":
            found["contextId"] = "another" if self.fault == "other-context" else task["contextId"]
            if self.fault != "forgets-task":
                found["taskId"] = task["id"]
        if self.fault == "own-task" and task is None:
            found["taskId"] = str(uuid.uuid4())
        if self.fault == "snake" and "contextId" in found:
            found["context_id"] = found.pop("contextId")
        return found

    def send(
        self, text: str, task: Mapping[str, Any] | None = None, *, stream: bool = False, wait: bool = True, **more: Any
    ) -> Any:
        """Send a message as a client should that is refused or redirected; return the task, as far as it came."""
        message = self.message(text, task)
        params: Json = {"message": message, "configuration": {"returnImmediately": not wait, **more}}
        for _ in range(3):
            try:
                return self.call(SENDING[stream], params)
            except Refused as refused:
                if refused.status in (429, 503) and "retry-after" in refused.headers:
                    if self.fault != "no-retry-after":
                        time.sleep(int(refused.headers["retry-after"]))
                elif refused.status == 401 and self.token:
                    self.token = self.token if self.fault == "same-token" else next(self.tokens)
                elif refused.status != 307:
                    raise
                else:
                    headers = {"Authorization": self.token} if self.fault == "leaks-token" else {}
                    self.http.post(refused.headers["location"], json={}, headers=headers)
                    return None
            except httpx.TransportError:
                if self.fault != "resends":
                    raise
        return None

    # -- operations --

    def headers(self) -> dict[str, str]:
        found = {} if self.version == "0.3" or self.fault == "no-version" else {"A2A-Version": self.version}
        if self.fault == "short-version":
            found["A2A-Version"] = "1"
        if self.fault == "patch-version":
            found["A2A-Version"] = "1.0.1"
        if self.fault == "wrong-version":
            found["A2A-Version"] = "0.3" if self.version == "1.0" else "1.0"
        if "/extension" in self.interface["url"] and not (self.fault == "extension-once" and self.has_declared):
            self.has_declared = True
            found["A2A-Extensions" if self.version == "1.0" else "X-A2A-Extensions"] = EXTENSION
        if self.token:
            found["Authorization"] = self.token
        return found

    def call(self, operation: str, params: Json) -> Any:
        """Call an operation; return its result, the task of a stream as far as it came.

        :raises Refused: if the answer is an error.
        :raises Cut: if a stream ends too early.
        """
        tenant = self.interface.get("tenant", "") if self.fault != "no-tenant" else ""
        if self.version == "0.3":
            params = to_v03_params(operation, params, self.binding)
        if self.fault == "other-id" and operation == "SubscribeToTask":
            params = {"taskId": params["id"]}
        if self.binding == "GRPC":
            return self._call_grpc(operation, params)
        if self.binding == "JSONRPC":
            params = {**params, "tenant": tenant} if tenant else params
            method = OPERATIONS[operation].rpc03 if self.version == "0.3" else operation
            if self.fault == "other-method":
                method = operation if self.version == "0.3" else OPERATIONS[operation].rpc03
            id = None if self.fault == "no-id" else next(self.ids)
            body = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
            if self.fault == "no-jsonrpc":
                del body["jsonrpc"]
            media = "text/plain" if self.fault == "text" else "application/json"
            return self._request(operation, "POST", self.url, body, media)
        call = rest_call(OPERATIONS[operation], params, version=self.version, tenant=tenant)
        media = "application/json" if self.version == "0.3" or self.fault == "json" else "application/a2a+json"
        path = call.path.replace("message:", "messages/") if self.fault == "other-path" else call.path
        snake = {re.sub("[A-Z]", r"_\g<0>", k).lower(): v for k, v in call.query.items()}
        query = snake if self.fault == "query" else dict(call.query)
        return self._request(operation, call.verb, self.url + path, call.body, media, query)

    def _request(self, operation: str, verb: str, url: str, body: Any, media: str, query: Any = None) -> Any:
        content = b"" if body is None else json.dumps(body).encode()
        headers = {**self.headers(), **({"Content-Type": media} if content else {})}
        with self.http.stream(verb, url, content=content, headers=headers, params=query) as reply:
            if reply.status_code >= 300:
                raise Refused(reply.status_code, reply.headers)
            if operation in STREAMING and reply.headers["content-type"] == "text/event-stream":
                return self._follow(reply.iter_bytes())
            document = json.loads(reply.read())
        self._refuse_odd(document)
        if "error" in document:
            raise Refused(int(document["error"]["code"]))
        return document["result"] if self.binding == "JSONRPC" else document

    def _refuse_odd(self, document: Any) -> None:
        if self.fault == "unknown-fields" and "notYetInvented" in document:
            raise Refused(0)

    def _follow(self, content: Iterator[bytes]) -> Any:
        events = self._events(content)
        task: Json = {}
        try:
            for event in events:
                self._refuse_odd(event)
                task = self._with_event(task, event["result"] if self.binding == "JSONRPC" else event)
        except httpx.TransportError:
            pass
        if neutral_state(task.get("state")) in ("submitted", "working"):
            self.task = task
            raise Cut
        return {"task": task} if task else {}

    def _with_event(self, task: Json, event: Json) -> Json:
        found = task_in(event)
        update = event.get("statusUpdate") or (event if event.get("kind") == "status-update" else None)
        if found is not None:
            task = dict(found)
        elif update is not None:
            task["status"] = update["status"]
        return {**task, "state": task["status"]["state"]}

    def _events(self, content: Iterator[bytes]) -> Iterator[Json]:
        text = ""
        data: list[str] = []
        for piece in content:
            text += piece.decode()
            if self.fault != "sse-crlf":
                text = text.replace("\r\n", "\n")
            if self.fault not in ("sse-cr", "sse-crlf"):
                text = text.replace("\r", "\n")
            while "\n" in text:
                line, _, text = text.partition("\n")
                if line.startswith(":") and self.fault == "sse-comments":
                    raise Refused(0)
                if not line and data:
                    yield json.loads("\n".join(data))
                    data = []
                elif line.startswith("data:"):
                    if self.fault == "sse-multiline":
                        data = []
                    data.append(line[5:].removeprefix(" "))

    def _call_grpc(self, operation: str, params: Json) -> Any:
        import grpc
        from a2a.compat.v0_3 import a2a_v0_3_pb2
        from a2a.types import a2a_pb2

        op = OPERATIONS[operation]
        old = self.version == "0.3"
        module: Any = a2a_v0_3_pb2 if old else a2a_pb2
        method, request, reply = op.grpc03 if old else (op.name, op.request, op.reply)
        service = "a2a.v1.A2AService" if old != (self.fault == "other-service") else "lf.a2a.v1.A2AService"
        content = json_format.ParseDict(params, getattr(module, request)(), ignore_unknown_fields=True)
        metadata = [(k.lower(), v) for k, v in self.headers().items()]
        read = getattr(module, reply).FromString
        with grpc.insecure_channel(self.interface["url"].removeprefix("http://")) as channel:
            try:
                if operation in STREAMING:
                    task: Json = {}
                    for event in channel.unary_stream(f"/{service}/{method}")(
                        content.SerializeToString(), 120, metadata
                    ):
                        task = self._with_event(task, json_format.MessageToDict(read(event)))
                    return {"task": task}
                answer = channel.unary_unary(f"/{service}/{method}")(content.SerializeToString(), 120, metadata)
            except grpc.RpcError as error:
                if operation in STREAMING and task:
                    self.task = task
                    raise Cut from error
                if error.code().name == "UNAVAILABLE":
                    raise httpx.ReadError("lost") if params.get("message") else Refused(14) from error
                raise Refused(401 if error.code().name == "UNAUTHENTICATED" else 0) from error
        return json_format.MessageToDict(read(answer))

    # -- situations --

    def answer(self, task: Mapping[str, Any] | None) -> None:
        """Answer the question of a task."""
        message = (task or {}).get("status", {}).get("message") or (task or {}).get("status", {}).get("update")
        if task is None or not message:
            return
        parts = message.get("parts") or message.get("content")
        code = parts[0]["text"].split()[-1].rstrip(".")
        self.send(f"The code is {code}", task)
        if self.fault == "ended-task":
            self.send("One thing more", task)

    def go_through(self, hook: str, *situations: str) -> None:
        """Go through situations one after the other."""
        self.hook = hook
        for situation in situations:
            try:
                getattr(self, "_" + situation.replace("-", "_").removeprefix("5"), self._ask)(situation)
            except (Refused, Cut, httpx.HTTPError, json.JSONDecodeError):
                continue

    def _ask(self, situation: str) -> None:
        streaming = situation == "stream" or situation.startswith("sse-")
        self.answer(task_in(self.send(situation, stream=streaming)))

    def _slow(self, situation: str) -> None:
        task = task_in(self.send(situation, wait=False)) or {}
        while neutral_state(task["status"]["state"]) == "working" and self.fault != "no-polling":
            task = task_in(self.call("GetTask", {"id": task["id"], "historyLength": 1})) or {}
            if self.fault == "polls-once":
                break

    def _reconnect(self, situation: str) -> None:
        try:
            self.send(situation, stream=True)
        except Cut:
            if self.fault == "sends-again":
                self.send(situation, stream=True)
            elif self.fault != "no-reconnect":
                self.call("SubscribeToTask", {"id": self.task["id"]})

    def _expired_token(self, situation: str) -> None:
        self.token = "Bearer 0"
        self.send(situation)

    _redirect = _expired_token

    def _push(self, situation: str) -> None:
        for _ in range(2):
            token = TOKEN if self.fault == "one-token" else f"{TOKEN}-{uuid.uuid4()}"
            config: Json = {"id": "c", "url": "" if self.fault == "no-push-url" else self.hook, "token": token}
            # to_v03_params renames it for 0.3.
            name = "pushNotificationConfig" if self.fault == "old-push-member" else "taskPushNotificationConfig"
            more: Any = {name: config}
            self.send(situation, **more)

    def _cards(self, situation: str) -> None:
        for name in ("reversed", "dead-interface", "card-change", "tenant", "extension", "unknown-fields", "plain"):
            self.etag = ""
            if self.connect(name):
                task = task_in(self.send("slow"))
                if name == "plain" and self.fault == "undeclared":
                    self.call("ListTaskPushNotificationConfigs", {"taskId": (task or {})["id"]})
                if name == "extension":
                    self.send("slow")
                if name == "card-change" and self.binding != "GRPC":
                    self._after_change()

    def _order(self, situation: str) -> None:
        self.chooses = True
        for names in ((), ("reversed",)):
            self.etag = ""
            self.connect(*names)
            self.send("slow")

    def _after_change(self) -> None:
        for _ in range(2):
            try:
                self.send("slow")
            except Refused:
                if self.fault == "no-card-again":
                    return
                self.connect("card-change")


@contextmanager
def webhook(fault: str = "") -> Iterator[str]:
    """Serve a webhook that takes what has its token, and knows what it has taken."""
    taken: set[bytes] = set()

    class Hook(Handler):
        def do_POST(self) -> None:
            body = self.body()
            is_ours = str(self.headers["X-A2A-Notification-Token"]).startswith(TOKEN) or fault == "hook-open"
            status = 200 if is_ours else 401
            if body in taken and fault == "hook-duplicate":
                status = 409
            taken.add(body)
            self.answer(status)

    with HttpServer(Hook) as server:
        yield f"{server.url}/"


def test_a_rule_without_an_occasion_is_not_observed() -> None:
    with ObservedAgent() as agent:
        client = SmallClient(agent, "JSONRPC", "1.0")
        assert client.connect()
        client.send("slow")
        report = agent.report()
    reasons = [j.reason for j in report.rows if j.id == "STREAM-019"]
    assert reasons == ["not observed: say `reconnect` in a streaming request"]
    assert report.levels[0].text.startswith("fully conformant in what was observed")


def test_without_a_word_each_conversation_gets_the_next_situation() -> None:
    with ObservedAgent(retry_after=0) as agent:
        client = SmallClient(agent, "GRPC", "1.0")
        assert client.connect("GRPC", "1.0")
        states = [client.send("hello", wait=False)["task"]["status"]["state"] for _ in range(2)]
    assert states == ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_WORKING"]


def test_the_same_text_in_each_conversation_is_no_message_sent_again() -> None:
    with ObservedAgent(retry_after=600) as agent:
        client = SmallClient(agent, "JSONRPC", "1.0", "no-retry-after no-reconnect")
        assert client.connect()
        for _ in range(2 * len(SITUATIONS)):
            with contextlib.suppress(Refused, Cut, httpx.HTTPError):
                client.call("SendStreamingMessage", {"message": client.message("hello")})
        found = {j.id for j in agent.report().rows if j.is_finding}
    # It follows no task whose stream was cut, and that is all.
    assert found == {"STREAM-019"}


def test_the_same_situation_of_another_interface_is_no_message_sent_again() -> None:
    with ObservedAgent(retry_after=600) as agent:
        for binding in ("JSONRPC", "HTTP+JSON"):
            client = SmallClient(agent, binding, "1.0")
            assert client.connect(binding, "1.0")
            client.token = "Bearer of the user"
            for situation in ("drop", "expired-token", "retry-429"):
                with contextlib.suppress(Refused, httpx.HTTPError):
                    client.call("SendMessage", {"message": client.message(situation)})
                # A user may say it twice.
                with contextlib.suppress(Refused, httpx.HTTPError):
                    client.call("SendStreamingMessage", {"message": client.message(situation)})
        assert agent.findings == []


def test_each_card_that_changes_is_judged_alone() -> None:
    with ObservedAgent() as agent:
        # Each of two clients fetches it for the first time.
        for _ in range(2):
            assert SmallClient(agent, "JSONRPC", "1.0").connect("reversed", "card-change")
        client = SmallClient(agent, "JSONRPC", "1.0")
        for names in (("JSONRPC", "card-change"), ("card-change",)):
            client.etag = ""
            assert client.connect(*names)
            client.send("slow")
            with contextlib.suppress(Refused):
                client.send("slow")
        found = {f.rule: f.found for f in agent.findings}
    # Each was fetched once: no fetch again without a condition, and the first is no second fetch of the other.
    assert found == {"CARD-013": "goes on with the URLs of a card that is to be fetched again (no-cache)"}


def test_what_a_client_does_in_one_version_is_not_said_of_another() -> None:
    with ObservedAgent() as agent:
        old, new = SmallClient(agent, "JSONRPC", "0.3"), SmallClient(agent, "JSONRPC", "1.0")
        for client in (old, new):
            assert client.connect("JSONRPC", client.version)
            client.send("slow")
        # One tries the first interface and gives up, the other does not try it.
        assert old.connect("JSONRPC", "0.3", "dead-interface")
        card = httpx.get(agent.at("JSONRPC", "1.0", "dead-interface") + CARD_PATH, trust_env=False).json()
        new.interface = card["supportedInterfaces"][1]
        new.send("slow")
        found = {(f.rule, f.spec.split()[0]) for f in agent.findings}
    assert found == {("CLIENT-002", "0.3.0"), ("CLIENT-001", "1.0.1")}


@pytest.mark.slow
def test_the_cards_are_right() -> None:
    names = [(), *((c,) for c in CARDS if c != "unknown-fields"), ("1.0",), ("0.3",), ("GRPC",)]
    with ObservedAgent() as agent:
        cards = [httpx.get(agent.at(*each) + CARD_PATH, trust_env=False).json() for each in names]
    assert [f for card in cards for f in check_card(card) if f.severity != "note"] == []


def test_requests_of_browsers_and_probes_are_not_the_clients() -> None:
    with ObservedAgent() as agent:
        asked = {"Access-Control-Request-Headers": "a2a-version", "Origin": "http://page.example"}
        url = f"{agent.url}/at/1.0/jsonrpc"
        allowed = httpx.request("OPTIONS", url, headers=asked, trust_env=False)
        assert httpx.get(agent.url, trust_env=False).status_code == 404
        assert agent.requests == 0
    assert allowed.status_code == 204
    assert allowed.headers["access-control-allow-headers"] == "a2a-version"
    assert allowed.headers["access-control-allow-origin"] == "*"


def test_a_connection_that_is_held_open_does_not_delay_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "_READ_SECONDS", 3600.0)
    with ObservedAgent() as agent:
        host, port = agent.url.removeprefix("http://").split(":")
        connection = socket.create_connection((host, int(port)))
        ask(agent.url)
    connection.close()


def test_a_card_that_there_is_not_is_refused() -> None:
    with ObservedAgent() as agent, pytest.raises(ConfigurationError, match="there is no card old; there are reversed"):
        agent.at("old")


def check(*arguments: str, client: Callable[[str], object]) -> int:
    """Run ``check --client`` and, once it listens, a client."""
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        place = f"127.0.0.1:{reserved.getsockname()[1]}"
    codes: list[int] = []
    listening = threading.Thread(target=lambda: codes.append(main.main(["check", "--client", place, *arguments])))
    listening.start()
    while listening.is_alive():
        with contextlib.suppress(httpx.HTTPError):
            client(f"http://{place}")
            break
        time.sleep(0.05)
    listening.join()
    return codes[0]


def ask(url: str, role: str = "ROLE_USER") -> None:
    """Send one message over JSON-RPC."""
    message = {"messageId": "m", "role": role, "parts": [{"text": "hello"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    httpx.post(f"{url}/at/1.0/jsonrpc", json=body, headers={"A2A-Version": "1.0"}, trust_env=False)


def test_the_command_ends_after_a_count_and_judges(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("--count", "1", client=ask) == 0
    out = capsys.readouterr().out
    assert "A2A 1.0: fully conformant in what was observed" in out
    assert check("--count", "1", client=lambda url: ask(url, "ROLE_AGENT")) == 1
    out = capsys.readouterr().out
    assert "DM-004 [JSONRPC] sends a message with the role 'ROLE_AGENT'" in out
    assert "repeat: curl" not in out


def test_the_fixture_judges_a_client_and_its_report_has_every_format(a2a_observed_agent: ObservedAgent) -> None:
    ask(a2a_observed_agent.url, "ROLE_AGENT")
    assert [(f.rule, f.severity, f.spec) for f in a2a_observed_agent.findings] == [
        ("DM-004", "error", "1.0.1 §4.1.5, 5.5")
    ]
    (exchange,) = a2a_observed_agent.findings[0].exchanges
    assert "ROLE_AGENT" in exchange.request
    report = a2a_observed_agent.report()
    assert [format for format in FORMATS if "DM-004" not in render(report, format)] == []


def test_waivers_are_for_clients_too(tmp_path: Path) -> None:
    waivers = tmp_path / "waivers.toml"
    waivers.write_text(
        '[[waiver]]\nid = "DM-004"\nreason = "reported"\n\n[[waiver]]\nid = "CLIENT-001"\nreason = "r"\n'
    )
    arguments = ("--count", "1", "--waivers", str(waivers), "-o", str(tmp_path / "report.json"), "--format", "json")
    assert check(*arguments, client=lambda url: ask(url, "ROLE_AGENT")) == 0
    assert json.loads((tmp_path / "report.json").read_text())["counts"]["waived"] == 1


def test_an_unwritable_report_is_said_before_a_client_comes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main.main(["check", "--client", "127.0.0.1:0", "--count", "1", "-o", str(tmp_path / "file" / "report")]) == 2
    assert f"-o {tmp_path / 'file' / 'report'}: cannot be written" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_and_nobody_came(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "pytest_a2a_bench.cli", "check", "--client", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "an agent that judges its client is at http://127.0.0.1:" in process.stderr.readline()
        process.send_signal(number)
        out, error = process.communicate()
    assert error.endswith("a2a-bench: no client came\n"), error
    assert (process.returncode, out) == (2, "")


def go_through(binding: str, version: str, fault: str = "", *situations: str, retry_after: int = 0) -> Report:
    """Have the client go through situations, and return the report on it."""
    with ObservedAgent(retry_after=retry_after) as agent, webhook(fault) as hook:
        client = SmallClient(agent, binding, version, fault)
        if client.connect(*((binding, version) if binding == "GRPC" else ())):
            client.go_through(hook, *situations)
        return agent.report()


@pytest.mark.parametrize(("binding", "version"), PLACES)
def test_a_correct_client_has_no_finding(binding: str, version: str) -> None:
    seconds = int(binding == "JSONRPC")
    report = go_through(binding, version, "", *SITUATIONS, "cards", retry_after=seconds)
    assert [(j.name, [f.found for f in j.findings]) for j in report.rows if j.findings] == []
    # What gRPC has no headers and paths for is not observed there.
    assert sum(j.status == "passed" for j in report.rows) >= 18


def test_a_client_that_goes_by_the_order_of_the_card_has_no_finding() -> None:
    report = go_through("JSONRPC", "1.0", "", "order")
    assert [j.status for j in report.rows if j.id == "CLIENT-001"] == ["passed"]
    assert report.is_clean


# Each binding, each version and both ways of asking by default, and all of them together at night.
OWN = [("JSONRPC", "1.0", "on"), ("HTTP+JSON", "0.3", "on"), ("GRPC", "1.0", "off")]
FURTHER = [(*place, streaming) for place in PLACES for streaming in ("on", "off") if (*place, streaming) not in OWN]


@pytest.mark.parametrize(
    ("binding", "version", "streaming"), [*OWN, *(pytest.param(*each, marks=pytest.mark.slow) for each in FURTHER)]
)
def test_our_own_client_has_no_finding(binding: str, version: str, streaming: str) -> None:
    # It has no extensions, and streams where the user says so: what the agent answers is what is wanted.
    cards = ("dead-interface", "card-change", "tenant", "unknown-fields", *(["plain"] if streaming == "off" else []))
    with ObservedAgent(retry_after=0) as agent:
        for names in ((), ("reversed",), (binding, version), *((binding, version, card) for card in cards)):
            config = ClientConfig(agent.at(*names), auth=Credentials("token"), streaming=streaming)
            with AgentConnection(config) as connection:
                for situation in SITUATIONS if len(names) == 2 else ("slow", "slow"):
                    session = connection.session()
                    with contextlib.suppress(InfrastructureError):
                        reply = session.send([Part.of_text(situation)])
                        if reply.state == "input-required":
                            session.send([Part.of_text(reply.text.split()[-1].rstrip("."))])
        report = agent.report()
    # HTTP+JSON is sent as application/json, which servers read that do not know A2A's own media type.
    found = [j for j in report.rows if j.is_finding and j.id != "HJ-002"]
    assert [(j.name, [f.found for f in j.findings]) for j in found] == []


FIRST = {fault[4]: fault for fault in reversed(FAULTS)}


@pytest.mark.parametrize(
    ("fault", "binding", "version", "situations", "id"),
    [pytest.param(*fault, marks=[pytest.mark.slow] * (FIRST[fault[4]] != fault)) for fault in FAULTS],
)
def test_a_planted_fault_is_found_and_named(fault: str, binding: str, version: str, situations: str, id: str) -> None:
    report = go_through(binding, version, fault, *situations.split(), retry_after=600)
    found = {j.id: [f.found for f in j.findings] for j in report.rows if j.is_finding}
    assert set(found) == {id}, found
