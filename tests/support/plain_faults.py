"""Single faults of the plain agent (``plain_agent``), each with the requirement that it breaks.

Written from the specification alone, by another hand than the checks: `FLAGS` are rules that the agent asks about
(`Plain.bad`), `REWRITES` change what leaves it at a named place. A judge is as good as the part of them that it names.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plain_agent import Plain


@dataclass(frozen=True)
class PlainFault:
    """One broken rule.

    :param name: what the agent does wrong.
    :param rules: ids of the requirements that it breaks, by the specification; naming any is naming it.
    :param profile: what the agent declares (`Plain`).
    :param place: where `change` rewrites what leaves the agent; "" for a fault that the agent asks about.
    """

    name: str
    rules: tuple[str, ...]
    profile: str = "full"
    place: str = ""
    change: Callable[[Any], Any] | None = None


def _flags() -> list[PlainFault]:
    found = []
    for line in FLAGS.strip().splitlines():
        name, rules, *profile = (cell.strip() for cell in line.split("|"))
        found.append(PlainFault(name, tuple(rules.split()), profile[0] if profile else "full"))
    return found


FLAGS = """
empty id get | GET-006
empty id cancel | CAN-007
unknown send | SEND-008
unknown stream | STREAM-014 SEND-008
unknown get | GET-002
unknown cancel | CAN-003
unknown subscribe | SUB-004
unknown push_create | PUSH-009
unknown push_list | PUSH-009
any push config | PUSH-003
prefix get | GET-002
any caller get | AUTH-006 | guarded
any caller cancel | AUTH-007 | guarded
any caller subscribe | AUTH-007 | guarded
any caller push_create | AUTH-007 | guarded
any caller push_get | AUTH-007 | guarded
any caller push_list | AUTH-007 | guarded
any caller push_delete | AUTH-007 | guarded
any caller send | AUTH-007 | guarded
list any caller | LIST-017 | guarded
list any caller unfiltered | LIST-017 | guarded
next page refused | LIST-006
foreign is told | AUTH-008 | guarded
any token | AUTH-002 | guarded
no challenge | AUTH-003 | guarded
refusal is 400 | AUTH-004 | guarded
open SendMessage | AUTH-001 AUTH-005 | guarded
open SendStreamingMessage | AUTH-005 AUTH-001 | guarded
open GetTask | AUTH-005 AUTH-001 | guarded
open ListTasks | AUTH-005 AUTH-001 | guarded
open CancelTask | AUTH-005 AUTH-001 | guarded
open SubscribeToTask | AUTH-005 AUTH-001 | guarded
open CreateTaskPushNotificationConfig | AUTH-005 AUTH-001 | guarded
open GetTaskPushNotificationConfig | AUTH-005 AUTH-001 | guarded
open ListTaskPushNotificationConfigs | AUTH-005 AUTH-001 | guarded
open DeleteTaskPushNotificationConfig | AUTH-005 AUTH-001 | guarded
open GetExtendedAgentCard | XCARD-003 AUTH-005 | guarded
extended card is half | XCARD-004 | guarded
extended card tells a secret | XCARD-006 | guarded
extended card uncached | XCARD-005 | guarded
extended card undeclared | XCARD-001
history uncapped send | SEND-011
history zero is all send | SEND-010
history uncapped get | GET-004
history zero is all get | GET-003
history uncapped list | LIST-015
oldest history get | GET-004
oldest history send | SEND-011
life after death | CAN-005
same artifact id twice | DM-006
stored chunks lost | STREAM-011 STREAM-016
first chunk appends | STREAM-020
never appends | STREAM-020 STREAM-011
no last chunk | STREAM-020
streams late | STREAM-013
auth without words | MT-009
auth takes no message | MT-010
trace told | ERR-017
crash completes nothing | ERR-016
crash is plain | ERR-016
artifact after end | STREAM-005 STREAM-015
second end | STREAM-005 STREAM-015
raw is no base64 | PART-007
takes no message | VAL-001
takes no messageId | VAL-002
takes no role | VAL-003
takes no parts | VAL-004
takes empty parts | VAL-005
takes empty part | VAL-006
takes two contents | VAL-007
takes parts of any type | VAL-008
takes any role | VAL-009
takes raw that is no base64 | VAL-010
takes negative historyLength | VAL-011
refuses data 0 | PART-001
refuses data 1 | PART-002
refuses data 2 | PART-003
refuses data 3 | PART-004
refuses data 4 | PART-005
refuses data 5 | PART-006
any media type | SEND-009
unknown fields refused | SEND-015
references refused | MT-008
output modes ignored | SEND-012
terminal goes on send | SEND-007
terminal goes on stream | SEND-007 STREAM-014
terminal is unknown send | SEND-007
contexts mixed | MT-005
new task for an answer | MT-006 MT-004
message without context | SEND-013
context replaced | MT-002
context is one task | MT-007
ids repeat | MT-003
inline push ignored | PUSH-015
always at once | SEND-002
never at once | SEND-004
early without artifacts | SEND-003
early is lost | SEND-005
streams undeclared | STREAM-012 | bare
subscribes undeclared | SUB-005 | bare
pushes undeclared | PUSH-008 | bare
message stream goes on | STREAM-003
subscribed task is stale | SUB-001
gap stream | STREAM-016
gap subscribe | SUB-006
no first task stream | STREAM-002
no first task subscribe | SUB-001
replays | SUB-006
later streams miss | STREAM-017 SUB-006
task again | STREAM-004
stream ends early | STREAM-005
stream open after input | STREAM-006
stream open at end stream | STREAM-005
stream open at end subscribe | SUB-002
task dies with its stream | STREAM-019
one leaves, all leave | STREAM-018
get takes negative | GET-005
get is wrapped | GET-001
get forgets artifacts | SEND-003 GET-001 STREAM-016
get differs each time | GET-007
list any tenant | TEN-002 | tenants
list any tenant late | TEN-002 | tenants
any tenant | TEN-002 | tenants
tenant refused | TEN-001 | tenants
any page size | LIST-009
page size 0 | LIST-009
page size 101 | LIST-009
any status | LIST-013
list ignores status | LIST-011
list ignores context | LIST-010
context by prefix | LIST-010
list ignores time | LIST-012
time is exclusive | LIST-012
oldest first | LIST-005
by creation | LIST-005
any page token | LIST-014
pages overlap | LIST-006
pages skip | LIST-006
default page is big | LIST-007
page too full | LIST-008
artifacts never listed | LIST-004
artifacts always listed | LIST-003
total is the page | LIST-016
cancel anything | CAN-002
cancel revives | CAN-002 CAN-004 STREAM-015
cancel is silent | CAN-006
cancel fails it | CAN-001
cancel shows before | CAN-001
cancelled completes | CAN-005
subscribe to the dead | SUB-003
push without url | PUSH-010
push anywhere | PUSH-018
one push config only | PUSH-004
end is not pushed | PUSH-016
nothing is pushed | PUSH-011
push without credentials | PUSH-014
first credentials for all | PUSH-014
first url for all | PUSH-011
scheme by case | PUSH-020
push has another type | PUSH-013
pushes backwards | PUSH-017
push config without id | PUSH-001
push config without taskId | PUSH-001
first push config | PUSH-002
push config ends early | PUSH-007
lists one push config | PUSH-004
delete only once | PUSH-006
delete keeps | PUSH-005
any version | VER-001
any version GetTask | VER-001
any version SendStreamingMessage | VER-001
any version ListTasks | VER-001
no version is 1.0 | VER-002
patch refused | VER-003
major is enough | VER-004
malformed passes | VER-007
one extension only | EXT-005 | strict
extensions refused | EXT-003
extension not required | EXT-001 | strict
extension not required GetTask | EXT-001 | strict
extension not required SendStreamingMessage | EXT-001 | strict
near extension | EXT-004 EXT-001 | strict
extension refused | EXT-002 | strict
numbers become text | ERR-015
any jsonrpc | ERR-009
old names too | ERR-013
no ListTasks | JR-002 HJ-001
no SubscribeToTask | JR-002 HJ-001
no DeleteTaskPushNotificationConfig | JR-002 HJ-001
streams as json | STREAM-001
paths undecoded | HJ-006
json refused | HJ-003
rest media type | HJ-002
query in snake case | HJ-004 HJ-005
query undecoded | HJ-006
query booleans unread | HJ-005
card always whole | CARD-015
no card | CARD-001
takes no message | V03-RPC-004 | old
unknown get | V03-TASK-001 | old
unknown send | V03-SEND-005 | old
history uncapped get | V03-TASK-001 | old
terminal goes on send | V03-SEND-004 | old
cancel anything | V03-TASK-002 | old
always at once | V03-SEND-002 | old
any jsonrpc | V03-RPC-004 | old
numbers become text | V03-RPC-003 | old
gap subscribe | V03-STREAM-003 | old
lists one push config | V03-PUSH-001 | old
one push config only | V03-PUSH-001 | old
delete keeps | V03-PUSH-001 | old
no SubscribeToTask | V03-RPC-001 V03-STREAM-003 | old
no CancelTask | V03-RPC-001 V03-TASK-002 | old
"""
"""Name, requirements, and the profile unless it is ``full``."""


def walk(thing: Any, change: Callable[[dict[str, Any]], None]) -> Any:
    """Change every object in a copy of a JSON value."""
    thing = copy.deepcopy(thing)

    def visit(value: Any) -> None:
        if isinstance(value, dict):
            change(value)
            for each in list(value.values()):
                visit(each)
        elif isinstance(value, list):
            for each in value:
                visit(each)

    visit(thing)
    return thing


def put(name: str, value: Any, where: str = "") -> Callable[[Any], Any]:
    """Set a member of every object that has it, or that has another."""
    return lambda thing: walk(thing, lambda o: o.__setitem__(name, value) if (where or name) in o else None)


def lose(name: str, where: str = "") -> Callable[[Any], Any]:
    """Take a member out of every object that has another."""
    return lambda thing: walk(thing, lambda o: o.pop(name, None) if not where or where in o else None)


def rename(old: str, new: str) -> Callable[[Any], Any]:
    """Give a member another name everywhere."""
    return lambda thing: walk(thing, lambda o: o.__setitem__(new, o.pop(old)) if old in o else None)


def text(pattern: str, new: str) -> Callable[[Any], Any]:
    """Replace in the JSON text of a value."""
    return lambda thing: json.loads(re.sub(pattern, new, json.dumps(thing)))


def card(change: Callable[[dict[str, Any]], Any]) -> Callable[[Any], Any]:
    """Change the card in place."""

    def do(thing: Any) -> Any:
        thing = copy.deepcopy(thing)
        change(thing)
        return thing

    return do


def code(value: Any) -> Callable[[Any], Any]:
    """Give an error another code."""
    return lambda error: {**error, "code": value}


def status(value: int) -> Callable[[Any], Any]:
    """Give an error of HTTP+JSON another status."""
    return lambda both: (value, {"error": {**both[1]["error"], "code": value}})


def _rewrites() -> list[PlainFault]:
    table: list[tuple[Any, ...]] = [
        ("states cancelled", "CAN-001 DM-002", "out", text("TASK_STATE_CANCELED", "TASK_STATE_CANCELLED")),
        ("states lower", "DM-002 DM-009", "out", text('"TASK_STATE_COMPLETED"', '"completed"')),
        ("state unspecified", "DM-002", "out", text("TASK_STATE_WORKING", "TASK_STATE_UNSPECIFIED")),
        (
            "input state with a dash",
            "DM-002 MT-006",
            "out",
            text("TASK_STATE_INPUT_REQUIRED", "TASK_STATE_INPUT-REQUIRED"),
        ),
        ("rejected misspelt", "DM-002", "out", text("TASK_STATE_REJECTED", "TASK_STATE_REJECT")),
        ("failed misspelt", "DM-002 ERR-016", "out", text("TASK_STATE_FAILED", "TASK_STATE_ERROR")),
        ("roles lower", "DM-004 DM-009", "out", text('"ROLE_AGENT"', '"agent"')),
        ("agent is user", "SEND-014", "out", put("role", "ROLE_USER")),
        ("task without id", "DM-001", "SendMessage", lose("id", "status")),
        ("task without status", "DM-001", "GetTask", lose("status")),
        ("listed without status", "DM-001 DM-014", "ListTasks", lose("status")),
        ("status without state", "DM-007", "out", lose("state")),
        ("message without messageId", "DM-003", "out", lose("messageId")),
        ("message without parts", "DM-003", "out", lose("parts", "messageId")),
        ("artifact without id", "DM-005", "out", lose("artifactId")),
        ("artifact without parts", "DM-005", "out", lose("parts", "artifactId")),
        ("artifact with no parts", "DM-005", "out", put("parts", [], "artifactId")),
        ("snake case", "DM-008", "out", rename("artifactId", "artifact_id")),
        ("snake context", "DM-008", "out", rename("contextId", "context_id")),
        ("no Z", "DM-010", "out", text(r'(\d\.\d{3})Z"', r'\1"')),
        ("offset", "DM-010", "out", text(r'(\d\.\d{3})Z"', r'\1+00:00"')),
        ("stamp is a number", "DM-010", "out", put("timestamp", 1700000000.0)),
        ("whole seconds", "DM-011", "out", text(r'(:\d\d)\.\d{3}Z"', r'\1Z"')),
        ("kind", "DM-012", "out", put("kind", "task", "status")),
        ("kind in parts", "PART-009", "out", put("kind", "text", "text")),
        ("nulls", "DM-013", "out", put("metadata", None, "status")),
        ("parts of two contents", "PART-009", "out", put("url", "https://plain.example", "text")),
        ("old names of parts", "PART-008", "out", rename("mediaType", "mimeType")),
        (
            "result has both",
            "SEND-001",
            "SendMessage",
            lambda r: {**r, "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "x"}]}},
        ),
        ("other member is null", "SEND-001", "SendMessage", lambda r: {"task": None, "message": None, **r}),
        ("result is bare", "SEND-001", "SendMessage", lambda r: r.get("task", r)),
        ("no contextId", "MT-001", "out", lose("contextId", "status")),
        ("events of another task", "STREAM-008", "SendStreamingMessage", put("taskId", "another", "artifact")),
        ("events without contextId", "STREAM-008", "SendStreamingMessage", lose("contextId", "taskId")),
        (
            "event has two",
            "STREAM-007",
            "SendStreamingMessage",
            lambda e: (
                {**e, "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "x"}]}}
                if "statusUpdate" in e
                else e
            ),
        ),
        ("event has none", "STREAM-007", "SendStreamingMessage", lambda e: {} if "artifactUpdate" in e else e),
        (
            "subscribed has two",
            "STREAM-007 SUB-001",
            "SubscribeToTask",
            lambda e: (
                {**e, "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "x"}]}}
                if "statusUpdate" in e
                else e
            ),
        ),
        ("event without envelope", "STREAM-009", "event", lambda e: e["result"]),
        ("event with another id", "STREAM-009", "event", lambda e: {**e, "id": "another"}),
        ("event with envelope", "STREAM-010", "rest event", lambda e: {"jsonrpc": "2.0", "id": "1", "result": e}),
        ("no nextPageToken", "LIST-001", "ListTasks", lose("nextPageToken")),
        ("null nextPageToken", "LIST-001", "ListTasks", lambda r: {**r, "nextPageToken": r["nextPageToken"] or None}),
        ("no totalSize", "LIST-002", "ListTasks", lose("totalSize")),
        ("no pageSize", "LIST-002", "ListTasks", lose("pageSize")),
        ("no tasks when none", "LIST-002", "ListTasks", lambda r: {k: v for k, v in r.items() if k != "tasks" or v}),
        ("no jsonrpc", "JR-003", "envelope", lose("jsonrpc")),
        ("jsonrpc number", "JR-003", "envelope", lambda e: {**e, "jsonrpc": 2.0}),
        ("result and error null", "JR-003", "envelope", lambda e: {**e, "error": None}),
        ("id changes", "ERR-015", "envelope", lambda e: {**e, "id": f"{e['id']}x"}),
        ("error without id", "ERR-015 JR-003", "error envelope", lambda e: {k: v for k, v in e.items() if k != "id"}),
        ("unparsable gets an id", "ERR-015 ERR-008", "error envelope", lambda e: {**e, "id": e["id"] or "unknown"}),
        (
            "error code is text",
            "ERR-001",
            "error envelope",
            lambda e: {**e, "error": {**e["error"], "code": str(e["error"]["code"])}},
        ),
        ("error without message", "ERR-001", "error envelope", lambda e: {**e, "error": {**e["error"], "message": ""}}),
        (
            "error data is an object",
            "ERR-002",
            "error envelope",
            lambda e: {**e, "error": {**e["error"], "data": {"why": "?"}}},
        ),
        (
            "error data without type",
            "ERR-002",
            "error envelope",
            lambda e: {**e, "error": {**e["error"], "data": [{"why": "?"}]}},
        ),
        ("no error info", "ERR-003", "error TASK_NOT_FOUND", lose("data")),
        ("reason has a suffix", "ERR-003", "error TASK_NOT_FOUND", text("TASK_NOT_FOUND", "TASK_NOT_FOUND_ERROR")),
        ("another domain", "ERR-003", "error TASK_NOT_FOUND", put("domain", "plain.example")),
        ("no field violations", "ERR-007", "error params", lose("data")),
        ("parse is request", "ERR-008", "error parse", code(-32600)),
        ("request is params", "ERR-010 ERR-009 ERR-011", "error request", code(-32602)),
        ("method is request", "ERR-012", "error method", code(-32600)),
        ("params is internal", "VAL-004 ERR-014", "error params", code(-32603)),
        ("rest params is 500", "VAL-004", "rest params", status(500)),
        ("rest error is plain", "ERR-004", "rest error", lambda e: {"detail": e["error"]["message"]}),
        (
            "rest error without status",
            "ERR-004",
            "rest error",
            lambda e: {"error": {k: v for k, v in e["error"].items() if k != "status"}},
        ),
        ("rest error of another code", "ERR-004", "rest error", lambda e: {"error": {**e["error"], "code": 5}}),
        (
            "rest error without info",
            "ERR-005",
            "rest TASK_NOT_FOUND",
            lambda b: (b[0], {"error": {**b[1]["error"], "details": []}}),
        ),
        (
            "rest reason has a suffix",
            "ERR-005",
            "rest TASK_NOT_FOUND",
            lambda b: (b[0], text("TASK_NOT_FOUND", "TASK_NOT_FOUND_ERROR")(b[1])),
        ),
        (
            "rest reason of cancel",
            "ERR-005",
            "rest TASK_NOT_CANCELABLE",
            lambda b: (b[0], text("TASK_NOT_CANCELABLE", "TASK_NOT_CANCELLABLE")(b[1])),
        ),
        (
            "wrong media type",
            "JR-001",
            "head",
            lambda h: (h[0], "text/plain" if h[1] == "application/json" else h[1], h[2]),
        ),
        ("push body is the task", "PUSH-012", "push", lambda e: e.get("statusUpdate", e)),
        (
            "push body has two",
            "PUSH-012",
            "push",
            lambda e: {**e, "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "x"}]}},
        ),
        ("card is html", "CARD-002", "card", lambda c: "<html></html>"),
        ("card is a list", "CARD-002", "card", lambda c: [c]),
        ("no tags", "CARD-005", "card", card(lambda c: c["skills"][0].pop("tags"))),
        ("skill without description", "CARD-005", "card", card(lambda c: c["skills"][0].pop("description"))),
        ("no skills", "CARD-004", "card", card(lambda c: c.update(skills=[]))),
        ("no modes", "CARD-003", "card", card(lambda c: c.pop("defaultInputModes"))),
        ("empty name", "CARD-003", "card", card(lambda c: c.update(name=""))),
        ("no version", "CARD-003", "card", card(lambda c: c.pop("version"))),
        (
            "interface without version",
            "CARD-006",
            "card",
            card(lambda c: c["supportedInterfaces"][0].pop("protocolVersion")),
        ),
        ("interface without url", "CARD-006", "card", card(lambda c: c["supportedInterfaces"][1].pop("url"))),
        (
            "interface elsewhere",
            "CARD-007",
            "card",
            card(lambda c: c["supportedInterfaces"][0].update(url=c["supportedInterfaces"][1]["url"])),
        ),
        ("relative url", "CARD-009", "card", card(lambda c: c["supportedInterfaces"][0].update(url="/rpc"))),
        (
            "patch in version",
            "CARD-010",
            "card",
            card(lambda c: c["supportedInterfaces"][0].update(protocolVersion="1.0.0")),
        ),
        (
            "made up binding",
            "CARD-011",
            "card",
            card(
                lambda c: c["supportedInterfaces"].append(
                    {"url": "https://plain.example/x", "protocolBinding": "SOAP", "protocolVersion": "1.0"}
                )
            ),
        ),
        ("snake card", "CARD-012", "card", rename("defaultInputModes", "default_input_modes")),
        (
            "no cache control",
            "CARD-013",
            "card headers",
            lambda h: {k: v for k, v in h.items() if k != "cache-control"},
        ),
        ("no etag", "CARD-014", "card headers", lambda h: {k: v for k, v in h.items() if k != "etag"}),
        (
            "secret in card",
            "CARD-017",
            "card",
            card(lambda c: c.update(description="use sk-proj-abcdefghijklmnopqrstuvwxyz123456")),
        ),
        (
            "dangling scheme",
            "CARD-019",
            "card",
            card(lambda c: c.update(securityRequirements=[{"schemes": {"nobody": {"list": []}}}])),
        ),
        ("skill twice", "CARD-020", "card", card(lambda c: c["skills"].append(dict(c["skills"][0])))),
        ("modes are no media types", "CARD-021", "card", card(lambda c: c.update(defaultInputModes=["text"]))),
        ("provider without url", "CARD-022", "card", card(lambda c: c["provider"].pop("url"))),
        (
            "extension without uri",
            "CARD-023",
            "card",
            card(lambda c: c["capabilities"].update(extensions=[{"description": "x"}])),
        ),
        (
            "extension without version",
            "CARD-024",
            "card",
            card(lambda c: c["capabilities"].update(extensions=[{"uri": "https://plain.example/quiet"}])),
        ),
        (
            "scheme of no kind",
            "CARD-018",
            "card",
            card(lambda c: c.update(securitySchemes={"x": {"description": "?"}})),
        ),
        (
            "scheme of two kinds",
            "CARD-018",
            "card",
            card(
                lambda c: c.update(
                    securitySchemes={
                        "x": {
                            "httpAuthSecurityScheme": {"scheme": "Bearer"},
                            "apiKeySecurityScheme": {"name": "k", "location": "header"},
                        }
                    }
                )
            ),
        ),
        (
            "password flow",
            "CARD-025",
            "card",
            card(
                lambda c: c.update(
                    securitySchemes={
                        "x": {
                            "oauth2SecurityScheme": {
                                "flows": {"password": {"tokenUrl": "https://plain.example/t", "scopes": {"a": "b"}}}
                            }
                        }
                    }
                )
            ),
        ),
        ("old card members", "CARD-026", "card", card(lambda c: c.update(preferredTransport="JSONRPC"))),
        (
            "extended card without scheme",
            "CARD-027",
            "card",
            card(lambda c: c["capabilities"].update(extendedAgentCard=True)),
        ),
        ("null in card", "CARD-028", "card", card(lambda c: c.update(iconUrl=None))),
        (
            "signature of nothing",
            "SIGN-001",
            "card",
            card(lambda c: c.update(signatures=[{"protected": "", "signature": "!"}])),
        ),
        (
            "signature without kid",
            "SIGN-002",
            "card",
            card(lambda c: c.update(signatures=[{"protected": "eyJhbGciOiJFUzI1NiJ9", "signature": "AAAA"}])),
        ),
    ]
    for name, value in (("TASK_NOT_FOUND", 404), ("TASK_NOT_CANCELABLE", 400), ("UNSUPPORTED_OPERATION", 400)):
        said = "".join(word.title() for word in name.split("_"))
        table.append((f"{said} is -32000", f"ERR-JSON-{said}", f"error {name}", code(-32000)))
        table.append((f"{said} is 422", f"ERR-HTTP-{said}", f"rest {name}", status(422 if value else 0)))
    for name, profile in (("CONTENT_TYPE_NOT_SUPPORTED", "full"), ("VERSION_NOT_SUPPORTED", "full")):
        said = "".join(word.title() for word in name.split("_"))
        table.append((f"{said} is -32000", f"ERR-JSON-{said}", f"error {name}", code(-32000), profile))
        table.append((f"{said} is 422", f"ERR-HTTP-{said}", f"rest {name}", status(422), profile))
    for name, profile in (("PUSH_NOTIFICATION_NOT_SUPPORTED", "bare"), ("EXTENSION_SUPPORT_REQUIRED", "strict")):
        said = "".join(word.title() for word in name.split("_"))
        table.append((f"{said} is -32000", f"ERR-JSON-{said}", f"error {name}", code(-32000), profile))
        table.append((f"{said} is 422", f"ERR-HTTP-{said}", f"rest {name}", status(422), profile))
    table += [
        ("03 no kind", "V03-DM-001", "old", lose("kind", "status"), "old"),
        ("03 parts without kind", "V03-DM-001", "old", lose("kind", "text"), "old"),
        ("03 states of 1.0", "V03-DM-002", "old", text('"completed"', '"TASK_STATE_COMPLETED"'), "old"),
        ("03 cancelled", "V03-DM-002 V03-TASK-002", "old", text('"canceled"', '"cancelled"'), "old"),
        ("03 input_required", "V03-DM-002", "old", text('"input-required"', '"input_required"'), "old"),
        ("03 roles of 1.0", "V03-DM-003", "old", text('"role": "agent"', '"role": "ROLE_AGENT"'), "old"),
        ("03 no contextId", "V03-DM-004", "old", lose("contextId", "status"), "old"),
        ("03 no task id", "V03-DM-004", "old", lose("id", "status"), "old"),
        ("03 snake", "V03-DM-007", "old", rename("artifactId", "artifact_id"), "old"),
        ("03 data is a list", "V03-DM-006", "old", put("data", [1]), "old"),
        ("03 file with both", "V03-DM-005", "old", put("uri", "https://plain.example", "bytes"), "old"),
        (
            "03 wrapped",
            "V03-SEND-001",
            "old",
            lambda r: {"task": r} if isinstance(r, dict) and "status" in r and "id" in r else r,
            "old",
        ),
        ("03 never final", "V03-STREAM-002", "old", put("final", False), "old"),
        ("03 events without envelope", "V03-STREAM-001", "event", lambda e: e["result"], "old"),
        ("03 code of TaskNotFound", "V03-RPC-005 V03-TASK-001", "error TASK_NOT_FOUND", code(-32000), "old"),
        ("03 code of not cancelable", "V03-TASK-002 V03-RPC-005", "error TASK_NOT_CANCELABLE", code(-32000), "old"),
        ("03 code of unknown method", "V03-RPC-004", "error method", code(-32600), "old"),
        ("03 code of parse", "V03-RPC-004", "error parse", code(-32600), "old"),
        ("03 no id in errors", "V03-RPC-003", "error envelope", lambda e: {**e, "id": None}, "old"),
        ("03 push body wrapped", "V03-PUSH-002", "push", lambda e: {"statusUpdate": e}, "old"),
        (
            "03 push result without taskId",
            "V03-PUSH-001",
            "CreateTaskPushNotificationConfig",
            lambda r: {**r, "taskId": ""},
            "old",
        ),
        ("03 no url", "V03-CARD-002", "card", card(lambda c: c.pop("url")), "old"),
        ("03 no protocolVersion", "V03-CARD-002", "card", card(lambda c: c.pop("protocolVersion")), "old"),
        ("03 no transport", "V03-CARD-003", "card", card(lambda c: c.update(preferredTransport="")), "old"),
        (
            "03 main url left out",
            "V03-CARD-005",
            "card",
            card(lambda c: c["additionalInterfaces"][0].update(url="https://plain.example/x")),
            "old",
        ),
        (
            "03 scheme without type",
            "V03-CARD-006",
            "card",
            card(lambda c: c.update(securitySchemes={"x": {"scheme": "bearer"}})),
            "old",
        ),
        ("03 dangling", "V03-CARD-007", "card", card(lambda c: c.update(security=[{"nobody": []}])), "old"),
        ("03 null in card", "V03-CARD-009", "card", card(lambda c: c.update(iconUrl=None)), "old"),
    ]
    return [
        PlainFault(name, tuple(rules.split()), profile[0] if profile else "full", place, change)
        for name, rules, place, change, *profile in table
    ]


PLAIN_FAULTS = (*_flags(), *_rewrites())
_BY_NAME = {fault.name: fault for fault in PLAIN_FAULTS if fault.change is not None}


def rewritten(agent: Plain, place: str, thing: Any) -> Any:
    """Return what leaves the agent at a place, as the agent's fault makes it."""
    fault = _BY_NAME.get(agent.fault)
    if fault is None or fault.place != place or fault.change is None:
        return thing
    return fault.change(thing)
