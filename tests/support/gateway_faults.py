"""Faults of gateways from public reports, as data: what each does to a request or an answer, and the rule it breaks."""

import asyncio
import gzip
import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

from gateway_proxy import Fault, Message, json_answer

_CARD = "/.well-known/agent-card.json"


# -- pieces --


Change = Callable[[Message], Any]


def is_card(message: Message) -> bool:
    """Whether a request, or an answer, is about the card."""
    return "/.well-known/" in (message.asked or message).path


def unless_card(change: Change) -> Change:
    """Leave the card alone."""
    return lambda message: None if is_card(message) else change(message)


def card_only(change: Change) -> Change:
    """Change the answer with the card alone."""
    return lambda message: change(message) if is_card(message) else None


def on_card(change: Callable[[dict[str, Any]], object]) -> Change:
    """Change the card's JSON."""
    return card_only(lambda message: on_json(change)(message) if message.status == 200 else None)


def on_json(change: Callable[[dict[str, Any]], object]) -> Change:
    """Change the JSON of a request or an answer, where it is an object."""

    def alter(message: Message) -> None:
        try:
            body = json.loads(message.body or b"null")
        except ValueError:
            return
        if isinstance(body, dict):
            change(body)
            message.body = json.dumps(body).encode()

    return alter


def on_answer(change: Callable[[dict[str, Any]], object]) -> Change:
    """Change the JSON of every answer but the card."""
    return unless_card(on_json(change))


def addresses(write: Callable[[str], str]) -> Change:
    """Write the addresses of all interfaces anew."""
    return on_card(lambda card: [entry.update(url=write(entry["url"])) for entry in card["supportedInterfaces"]])


def method(message: Message) -> str:
    """Return the JSON-RPC method of a request."""
    try:
        return str(json.loads(message.body).get("method"))
    except (ValueError, AttributeError):
        return ""


def message_in(body: dict[str, Any]) -> dict[str, Any]:
    """Return the message of a JSON-RPC request; an empty one where there is none."""
    found = (body.get("params") or {}).get("message")
    return found if isinstance(found, dict) else {}


def config_in(body: dict[str, Any]) -> dict[str, Any]:
    """Return the push notification configuration of a JSON-RPC request, in a message or alone."""
    params = body.get("params") or {}
    inside = (params.get("configuration") or {}).get("taskPushNotificationConfig")
    return inside if isinstance(inside, dict) else params if "url" in params else {}


def without_header(name: str) -> Change:
    """Remove a header."""

    def change(message: Message) -> None:
        message.headers.pop(name, None)

    return change


def header(name: str, value: str) -> Change:
    """Set a header."""
    return lambda message: message.headers.update({name: value})


# -- requests --


def card_one_level_too_deep(message: Message) -> None:
    if "/.well-known/" in message.path:
        message.path = f"/rpc{message.path}"


def card_at_the_old_path(message: Message) -> Message | None:
    return json_answer({"detail": "Not Found"}, 404) if message.path == _CARD else None


def only_messages(message: Message) -> Message | None:
    name = method(message)
    if name in ("", "None", "SendMessage", "SendStreamingMessage"):
        return None
    body = {"jsonrpc": "2.0", "id": json.loads(message.body)["id"], "error": {"code": -32601, "message": f"no {name}"}}
    return json_answer(body)


def add_slash(message: Message) -> Message | None:
    if message.method == "POST" and not message.path.endswith("//"):
        return Message(status=307, headers={"location": f"{message.path}/"})
    return None


def lose_query(message: Message) -> None:
    message.query = ""


def too_large(message: Message) -> Message | None:
    return Message(status=413, body=b"<html>too large</html>") if len(message.body) > 1_000_000 else None


def long_header(message: Message) -> Message | None:
    long = any(len(value) > 4_096 for value in message.headers.values())
    return Message(status=431, body=b"<html>header too large</html>") if long else None


def limit_without_word(message: Message) -> Message | None:
    return json_answer({"detail": "slow down"}, 429) if method(message) == "GetTask" else None


def wants_a_key(message: Message) -> Message | None:
    if "/.well-known/" in message.path or "x-gateway-key" in message.headers:
        return None
    return json_answer({"detail": "no key"}, 401)


def own_refusal(message: Message) -> Message | None:
    if "/.well-known/" in message.path or message.headers.get("authorization") == "Bearer alice-token":
        return None
    return Message(status=500, headers={"content-type": "text/html"}, body=b"<html>upstream refused</html>")


# -- requests' JSON --


def set_context(body: dict[str, Any]) -> None:
    if message := message_in(body):
        message["contextId"] = "c0ffee00-0000-4000-8000-000000000001"


def set_rpc_id(body: dict[str, Any]) -> None:
    if "jsonrpc" in body:
        body["id"] = 1


def set_message_id(body: dict[str, Any]) -> None:
    if message := message_in(body):
        message["messageId"] = "msg-1764142000"


def drop_task(body: dict[str, Any]) -> None:
    for holder in (body.get("params"), body):
        if isinstance(holder, dict) and isinstance(holder.get("message"), dict):
            holder["message"].pop("taskId", None)


def keep_answers() -> dict[str, Any]:
    """Answer what is asked by GET once more from what was answered before."""
    kept: dict[str, Message] = {}

    def key(message: Message) -> str:
        return f"{message.path}?{message.query}" if message.method == "GET" and "/tasks/" in message.path else ""

    def answer(message: Message) -> None:
        if message.asked is not None and message.status == 200 and (place := key(message.asked)):
            kept[place] = message

    return {"request": lambda message: kept.get(key(message)), "answer": answer}


def escape_text(body: dict[str, Any]) -> None:
    if metadata := message_in(body).get("metadata"):
        metadata["a2a-bench"]["text"] = metadata["a2a-bench"]["text"].replace("<", "&lt;")


def set_webhook(body: dict[str, Any]) -> None:
    if config := config_in(body):
        config["url"] = "http://127.0.0.1:9/callbacks/1"


# -- answers --


def drop_vendor(body: dict[str, Any]) -> None:
    if isinstance(body.get("result"), dict):
        body["result"].pop("vendor", None)


def add_nulls(body: dict[str, Any]) -> None:
    task = (body.get("result") or {}).get("task") if isinstance(body.get("result"), dict) else None
    if isinstance(task, dict):
        task["extensions"] = None
        task["status"]["state"] = task["status"]["state"].removeprefix("TASK_STATE_").lower()


def own_task_ids(body: dict[str, Any]) -> None:
    task = (body.get("result") or {}).get("task") if isinstance(body.get("result"), dict) else None
    if isinstance(task, dict):
        task["id"] = f"gw-{task['id']}"


def internal_error(body: dict[str, Any]) -> None:
    if "error" in body:
        body["error"] = {"code": -32603, "message": "Internal error: upstream error"}


def drop_details(body: dict[str, Any]) -> None:
    if isinstance(body.get("error"), dict):
        body["error"].pop("data", None)
        body["error"].pop("details", None)


def error_page(message: Message) -> None:
    if message.status >= 400:
        message.status, message.body = 502, b"<html>Bad Gateway</html>"
        message.headers = {"content-type": "text/html"}


def ok_with_error(message: Message) -> None:
    if message.status >= 400:
        message.status = 200


def compress(message: Message) -> None:
    message.body = gzip.compress(message.body)
    message.headers["content-encoding"] = "gzip"


def card_members(card: dict[str, Any]) -> None:
    for name in set(card) - {"name", "description", "version", "supportedInterfaces", "capabilities", "skills"}:
        del card[name]


def old_address(card: dict[str, Any]) -> None:
    card["url"] = card["supportedInterfaces"][0]["url"]
    for entry in card["supportedInterfaces"]:
        entry["url"] = "http://agent.internal.svc.cluster.local:8080/"


# -- streams --


async def whole(chunks: AsyncIterator[bytes], asked: Message) -> AsyncIterator[bytes]:
    held = [chunk async for chunk in chunks]
    yield b"".join(held)


async def merged(chunks: AsyncIterator[bytes], asked: Message) -> AsyncIterator[bytes]:
    text = (b"".join([chunk async for chunk in chunks])).decode().replace("\r\n", "\n")
    yield re.sub(r"\n\n(?=data: )", "\n", text).encode()


async def events_of(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    text = b""
    async for chunk in chunks:
        text += chunk.replace(b"\r\n", b"\n")
        while b"\n\n" in text:
            event, text = text.split(b"\n\n", 1)
            yield event + b"\n\n"


async def one_lost(chunks: AsyncIterator[bytes], asked: Message) -> AsyncIterator[bytes]:
    number = 0
    async for event in events_of(chunks):
        number += 1
        if number != 2:
            yield event


async def twice(chunks: AsyncIterator[bytes], asked: Message) -> AsyncIterator[bytes]:
    async for event in events_of(chunks):
        yield event
        if b"rtifact" in event:
            yield event


async def without_end(chunks: AsyncIterator[bytes], asked: Message) -> AsyncIterator[bytes]:
    async for event in events_of(chunks):
        if b"COMPLETED" in event:
            return
        yield event


async def cut_when_idle(chunks: AsyncIterator[bytes], asked: Message) -> AsyncIterator[bytes]:
    while True:
        try:
            chunk = await asyncio.wait_for(anext(chunks), 0.3)
        except StopAsyncIteration:
            return
        # Ends the connection without the last chunk.
        yield chunk


async def lines(chunks: AsyncIterator[bytes], asked: Message) -> AsyncIterator[bytes]:
    async for event in events_of(chunks):
        for line in event.splitlines():
            if line.startswith(b"data:"):
                yield line.removeprefix(b"data:").strip() + b"\n"


async def other_ids(chunks: AsyncIterator[bytes], asked: Message) -> AsyncIterator[bytes]:
    async for event in events_of(chunks):
        yield re.sub(rb'"id": ?"request [^"]+"', b'"id": null', event)


def no_streams(message: Message) -> Message | None:
    if method(message) != "SendStreamingMessage":
        return None
    error = {"code": -32603, "message": "Internal error: Stream consumed"}
    return json_answer({"jsonrpc": "2.0", "id": None, "error": error})


def impatient(message: Message) -> Message | None:
    is_slow = b"slow" in message.body and method(message) == "SendMessage"
    return (
        Message(status=504, headers={"content-type": "text/html"}, body=b"<html>Gateway Time-out</html>")
        if is_slow
        else None
    )


# Behind each is the public report of it; where there is none, it is what proxies and their libraries are known to do.
FAULTS = (
    # The card.
    # agentgateway 2981
    Fault("path doubled", "GW-001", answer=addresses(lambda u: re.sub(r"(:\d+)", r"\1/agents/tick/agents/tick", u))),
    # agentgateway 3500
    Fault("in-cluster authority", "GW-001", answer=addresses(lambda u: "http://10.0.0.7:8080/rpc")),
    Fault("own address", "GW-001", agent="own address"),  # agentgateway 1760
    # agentgateway 1031, openclaw 150087
    Fault("other scheme", "GW-001", answer=addresses(lambda u: u.replace("http:", "https:"))),
    Fault("port lost", "GW-001", answer=addresses(lambda u: re.sub(r":\d+", "", u))),  # nginx's $host
    Fault("only the old member", "GW-001", answer=on_card(old_address)),  # agentgateway 2251
    Fault("double slash", "GW-001", answer=addresses(lambda u: re.sub(r"(:\d+)", r"\1//x", u))),  # agentgateway 3087
    Fault("card too deep", "GW-002", request=card_one_level_too_deep),  # mcp-gateway-registry 1724
    Fault("card at the old path", "GW-002", request=card_at_the_old_path),  # agentgateway 319
    Fault("card's type", "GW-002", answer=card_only(header("content-type", "text/plain"))),
    Fault("card's caching", "GW-002", answer=card_only(without_header("cache-control"))),
    Fault("card's members", "GW-003", answer=on_card(card_members)),  # litellm 28860
    Fault("card's streaming", "GW-003", answer=on_card(lambda card: card["capabilities"].update(streaming=False))),
    Fault(
        "card's interfaces",
        "GW-003",
        answer=on_card(lambda card: card.update(supportedInterfaces=card["supportedInterfaces"][:1])),
    ),
    # agentgateway 2701
    Fault(
        "old signature",
        "GW-004",
        answer=on_card(lambda card: card.update(description="An agent behind it.")),
        agent="signed",
    ),
    # Requests.
    Fault("methods lost", "GW-005", request=only_messages),  # litellm 28664
    Fault("redirect", "GW-005", request=add_slash),
    Fault("verbs", "GW-005", request=lambda m: json_answer({"error": "no"}, 405) if m.method == "DELETE" else None),
    Fault("query lost", "GW-005", request=lose_query),
    Fault("version lost", "GW-006", request=without_header("a2a-version")),  # aisix 911
    Fault("version set", "GW-006", request=header("a2a-version", "1.0")),
    Fault("extensions lost", "GW-007", request=without_header("a2a-extensions")),  # context-forge 4895
    Fault("message id", "GW-008", request=on_json(set_message_id)),  # context-forge 4590
    Fault(
        "metadata lost", "GW-008", request=on_json(lambda body: message_in(body).pop("metadata", None))
    ),  # context-forge 3620
    Fault("task lost", "GW-008", request=on_json(drop_task)),  # agentstack 1591
    Fault("sent twice", "GW-008", retries=True, waits=True),  # Envoy's retries
    Fault("text escaped", "GW-008", request=on_json(escape_text), waits=True),
    # Answers.
    Fault("unknown members lost", "GW-009", answer=on_answer(drop_vendor), waits=True),
    Fault("answers kept", "GW-009", **keep_answers(), waits=True),  # nginx's proxy_cache
    Fault("members added", "GW-009", answer=on_answer(add_nulls), waits=True),
    Fault("context injected", "GW-010", request=on_json(set_context)),  # litellm 28664
    Fault("request id", "GW-010", request=on_json(set_rpc_id)),  # context-forge 4590
    Fault("task ids", "GW-010", answer=on_answer(own_task_ids)),
    Fault("plain text", "GW-011", answer=unless_card(header("content-type", "text/plain"))),
    Fault("compressed", "GW-011", answer=unless_card(compress)),  # nginx's gzip
    Fault("errors as a page", "GW-012", answer=unless_card(error_page)),
    Fault("errors as 200", "GW-012", answer=unless_card(ok_with_error)),
    Fault("internal errors", "GW-012", answer=on_answer(internal_error)),  # litellm 27836
    Fault("details lost", "GW-013", answer=on_answer(drop_details)),
    Fault("Retry-After lost", "GW-014", answer=unless_card(without_header("retry-after")), agent="limited"),
    Fault("429 alone", "GW-014", request=limit_without_word),
    Fault("1 MB", "GW-015", request=too_large),  # nginx's client_max_body_size
    Fault("4 KB of headers", "GW-015", request=long_header),  # nginx's large_client_header_buffers
    Fault("504", "GW-016", request=impatient, waits=True),
    # Streams.
    # litellm 20278, 35027
    Fault("ndjson", "GW-017", head=header("content-type", "application/x-ndjson"), events=lines, waits=True),
    Fault("no streams", "GW-017", request=no_streams, waits=True),  # litellm 27836
    Fault("buffered", "GW-018", events=whole, waits=True),  # xagent 1358, nginx 1505
    Fault("merged", "GW-019", events=merged),
    Fault("event lost", "GW-019", events=one_lost),
    Fault("event twice", "GW-019", events=twice),
    Fault("end lost", "GW-020", events=without_end, waits=True),  # openclaw 70739
    Fault("cut when idle", "GW-020", events=cut_when_idle, waits=True),  # CopilotKit 6980, agentgateway 248
    Fault("events' ids", "GW-010", events=other_ids),
    # Push notifications and credentials.
    Fault("webhook", "GW-021", request=on_json(set_webhook), waits=True),
    Fault("webhook's credentials", "GW-021", request=on_json(lambda body: config_in(body).pop("authentication", None))),
    # aisix 1130, context-forge 3621
    Fault("Authorization lost", "GW-022", request=without_header("authorization"), agent="auth"),
    Fault("strangers", "GW-023", request=header("authorization", "Bearer alice-token"), agent="auth"),
    Fault("challenge lost", "GW-023", answer=without_header("www-authenticate"), agent="auth"),
    Fault("refusal as 500", "GW-023", request=own_refusal, agent="auth"),  # context-forge 2002
    Fault("undeclared key", "GW-024", request=wants_a_key),
)
