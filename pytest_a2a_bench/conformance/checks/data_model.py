"""The data model: members, enums and times of every object, and the contents of parts."""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from pytest_a2a_bench.a2a.bodies import as_object, as_objects
from pytest_a2a_bench.a2a.codec import SETTLED
from pytest_a2a_bench.conformance import fixtures
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.protocol.payloads import (
    RUNNING,
    TIMESTAMP,
    Member,
    Node,
    is_known,
    is_misspelt,
    members,
    nodes,
    parse_timestamp,
)
from pytest_a2a_bench.conformance.protocol.streams import Problem, canonical, is_same
from pytest_a2a_bench.conformance.variants import enum_of
from pytest_a2a_bench.conformance.wire.reply import NoAnswer, WireReply
from pytest_a2a_bench.text import one_line

# Without UNSPECIFIED: protobuf's zero value is no state that a task can have (section 4.1.3).
STATES = frozenset(map(enum_of, RUNNING | SETTLED))
ROLES = frozenset({"ROLE_USER", "ROLE_AGENT"})
OLD_STATES = RUNNING | SETTLED | {"unknown"}
# In the proto file of 0.3, which spells one of them with two l.
_OLD_PROTO_STATES = STATES | {"TASK_STATE_CANCELLED", "TASK_STATE_UNSPECIFIED"}
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "task": ("id", "status"),
    "status": ("state",),
    "message": ("messageId", "role", "parts"),
    "artifact": ("artifactId", "parts"),
    "statusUpdate": ("taskId", "contextId", "status"),
    "artifactUpdate": ("taskId", "contextId", "artifact"),
}
# The schema's own of 0.3 (version 0.3.0, a2a.json); kinds, states, roles, files and data have rules that want them too.
_OLD_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "task": ("id", "contextId", "status"),
    "message": ("messageId", "parts"),
    "artifact": ("artifactId", "parts"),
    "statusUpdate": ("taskId", "contextId", "status", "final"),
    "artifactUpdate": ("taskId", "contextId", "artifact"),
    "text": ("text",),
}
# The oneof of a Part.
CONTENTS = ("text", "raw", "url", "data")
# ListTasks has all three on every page, even where they are empty (section 3.1.4).
_LIST = ("nextPageToken", "pageSize", "totalSize")


Rule = Callable[[Any], Iterator[Problem]]
Wrong = Iterator[tuple[str, str]]
"""Members of one object, each with what is wrong with it; without a name it is the object itself."""


def _of(*kinds: str) -> Callable[[Callable[[Node], Wrong]], Rule]:
    """Make a rule for the objects of some kinds, of all where none is named, of what is wrong with one of them."""

    def make(wrong: Callable[[Node], Wrong]) -> Rule:
        def rule(value: Any) -> Iterator[Problem]:
            for node in nodes(value):
                for name, found in wrong(node) if not kinds or node.kind in kinds else ():
                    yield Problem(f"{node.pointer}/{name}".removesuffix("/"), found)

        return rule

    return make


def _missing(kind: str, *names: str) -> Rule:
    return _of(kind)(lambda node: _absent(node, names))


# What protobuf would leave out is missing, however it is spelled in JSON.
def _absent(node: Node, names: Iterable[str], nothing: tuple[Any, ...] = (None, "", [], {})) -> Wrong:
    for name in names:
        if node.value.get(name) in nothing:
            what = "is missing" if name not in node.value else f"is {node.value[name]!r}"
            yield name, f"{name} of {_a(node.kind)} {what}"


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _one_of(kind: str, name: str, allowed: frozenset[str]) -> Rule:
    def wrong(node: Node) -> Wrong:
        if name in node.value and node.value[name] not in allowed:
            yield name, f"{name} is {node.value[name]!r}"

    return _of(kind)(wrong)


@_of("task")
def _unique_artifacts(task: Node) -> Wrong:
    ids = [artifact.get("artifactId") for artifact in as_objects(task.value.get("artifacts"))]
    if len(set(map(str, ids))) != len(ids):
        yield "artifacts", f"artifactIds {ids}"


@_of("task")
def _repeated_artifact(task: Node) -> Wrong:
    """Find artifacts of a task that hold the same: a client that reads all of them has the answer twice."""
    known: dict[str, Any] = {}
    for artifact in as_objects(task.value.get("artifacts")):
        name, parts = artifact.get("artifactId"), artifact.get("parts")
        if parts and (first := known.setdefault(canonical(parts), name)) != name:
            yield "artifacts", f"artifacts {first!r} and {name!r} have the same parts"


def _foreign(owner: str) -> Rule:
    """Return a rule against messages of a status, or of a task's history, that name another task or context."""

    def rule(value: Any) -> Iterator[Problem]:
        own: dict[str, Any] = {}
        of = ""
        for node in nodes(value):
            if node.kind in ("task", "statusUpdate"):
                of = node.kind
                own = {"taskId": node.value.get("id" if node.kind == "task" else "taskId")}
                own["contextId"] = node.value.get("contextId")
            elif node.kind == "message" and node.owner == owner:
                for name, wanted in own.items():
                    if wanted and node.value.get(name) not in (None, "", wanted):
                        found = f"{name} of a message is {node.value[name]!r}; the {of} has {wanted!r}"
                        yield Problem(f"{node.pointer}/{name}", found)

    return rule


def _member(words: str, is_wrong: Callable[[Member], bool]) -> Rule:
    """Return a rule against members, of any object; free-form ones are the agent's own, and are not looked at."""
    return lambda value: (Problem(m.pointer, words.format(m)) for m in members(value) if is_wrong(m))


@_of("status")
def _timestamps(status: Node) -> Wrong:
    found = status.value.get("timestamp", "")
    if "timestamp" in status.value and not (isinstance(found, str) and TIMESTAMP.fullmatch(found)):
        yield "timestamp", f"timestamp {found!r}"


@_of("status")
def _old_timestamps(status: Node) -> Wrong:
    found = status.value.get("timestamp")
    if found is not None and not (isinstance(found, str) and _is_iso_8601(found)):
        yield "timestamp", f"timestamp {found!r}"


def _is_iso_8601(text: str) -> bool:
    # Python takes any character between date and time.
    with contextlib.suppress(ValueError):
        return bool(datetime.fromisoformat(text)) and "T" in text
    return False


@_of()
def _required(node: Node) -> Wrong:
    yield from _absent(node, _REQUIRED.get(node.kind, ()))
    if node.kind == "response" and "tasks" in node.value:
        yield from ((name, f"{name} is missing") for name in _LIST if name not in node.value)


def _old_required(*but: str) -> Rule:
    def wrong(node: Node) -> Wrong:
        kind = str(node.value.get("kind")) if node.kind == "part" else node.kind
        names = (name for name in _OLD_REQUIRED.get(kind, ()) if name not in but)
        # An empty list or text is one; an empty id is none.
        yield from _absent(node, names, (None,) if kind == "text" else (None, ""))

    return _of()(wrong)


@_of("message")
def _agents_role(message: Node) -> Wrong:
    """Find direct and status messages, which are the agent's, in another role."""
    if message.owner in ("response", "status") and message.value.get("role") != "ROLE_AGENT":
        yield "role", f"role {message.value.get('role')!r}"


@_of("part")
def _contents(part: Node) -> Wrong:
    if sum(name in part.value for name in CONTENTS) != 1:
        yield "", f"a part has the members {sorted(part.value)}"


@_of("part")
def _kind_of_part(part: Node) -> Wrong:
    if "kind" in part.value:
        yield "kind", f"kind {part.value['kind']!r}"


def _all_of(*rules: Rule) -> Rule:
    def rule(value: Any) -> Iterator[Problem]:
        for one in rules:
            yield from one(value)

    return rule


_OLD_KINDS: Mapping[str, tuple[str, ...]] = {
    "task": ("task",),
    "message": ("message",),
    "statusUpdate": ("status-update",),
    "artifactUpdate": ("artifact-update",),
    "part": ("text", "file", "data"),
}


@_of()
def _old_kinds(node: Node) -> Wrong:
    wanted = _OLD_KINDS.get(node.kind)
    if wanted and node.value.get("kind") not in wanted:
        yield "kind", f"kind of {_a(node.kind)} is {node.value.get('kind')!r}"


def _is_part(part: Node, kind: str) -> bool:
    return part.kind == "part" and (kind in part.value or part.value.get("kind") == kind)


def _old_files(*names: str) -> Rule:
    def wrong(part: Node) -> Wrong:
        file = as_object(part.value.get("file"))
        present = [name for name in names if name in file]
        if _is_part(part, "file") and len(present) != 1:
            yield "file", f"the file has {' and '.join(present) or 'neither ' + ' nor '.join(names)}"

    return _of("part")(wrong)


@_of("part")
def _old_data(part: Node) -> Wrong:
    if _is_part(part, "data") and not isinstance(part.value.get("data"), Mapping):
        yield "data", f"data is {part.value.get('data')!r}"


_CAMEL = _member("a member is called {0.name!r}", lambda m: is_misspelt(m.name))
RULES: Mapping[str, Rule] = {
    "DM-001": _missing("task", "id", "status"),
    "DM-002": _one_of("status", "state", STATES),
    "DM-003": _missing("message", "messageId", "role", "parts"),
    "DM-004": _one_of("message", "role", ROLES),
    "DM-005": _missing("artifact", "artifactId", "parts"),
    "DM-006": _unique_artifacts,
    "DM-007": _missing("status", "state"),
    "DM-008": _CAMEL,
    "DM-009": _all_of(_one_of("status", "state", STATES), _one_of("message", "role", ROLES)),
    "DM-010": _timestamps,
    "DM-012": _member("kind {0.value!r}", lambda m: m.name == "kind"),
    # The data of a part may be any JSON value, and null is one.
    "DM-013": _member("{0.name} is null", lambda m: m.value is None and m.name != "data" and is_known(m.name)),
    "DM-014": _required,
    "DM-015": _foreign("status"),
    "PART-009": _contents,
    "SEND-014": _agents_role,
    "V03-DM-001": _old_kinds,
    "V03-DM-002": _all_of(_missing("status", "state"), _one_of("status", "state", OLD_STATES)),
    "V03-DM-003": _all_of(_missing("message", "role"), _one_of("message", "role", frozenset({"user", "agent"}))),
    "V03-DM-004": _old_required(),
    "V03-DM-005": _old_files("bytes", "uri"),
    "V03-DM-006": _old_data,
    "V03-DM-007": _CAMEL,
    "V03-DM-008": _old_timestamps,
}
OLD_PROTO_RULES: Mapping[str, Rule] = {
    "V03-DM-002": _all_of(_missing("status", "state"), _one_of("status", "state", _OLD_PROTO_STATES)),
    "V03-DM-003": _all_of(_missing("message", "role"), _one_of("message", "role", ROLES)),
    # protobuf leaves out what is empty or false.
    "V03-DM-004": _old_required("parts", "final"),
    "V03-DM-005": _old_files("fileWithBytes", "fileWithUri"),
}
"""In place of :data:`RULES` where 0.3 is not spoken as JSON-RPC but as its proto file has it."""
_SOFTER: Mapping[str, tuple[Rule, str]] = {
    "DM-006": (_repeated_artifact, "each piece of the answer in one artifact"),
    "DM-015": (_foreign("task"), "messages of the task's own in its history"),
    # Section A.2.1 says "should" of kind, and the oneof of section 4.1.6 does not forbid further members.
    "PART-009": (_kind_of_part, ""),
}
"""Deviations that no sentence of the specification forbids, and so warnings: rule -> expectation."""
_OF_PARTS = {"V03-DM-005": "file", "V03-DM-006": "data"}
"""Rules for parts that an agent gives where it is asked for them: rule -> kind, and scenario."""
# Less than any two zones differ by, and more than clocks and answers are late by.
_CLOCK_SECONDS = 600.0


async def answers(ctx: Context) -> list[tuple[WireReply, Any]]:
    """Return the results of ordinary answers, each with its reply.

    :raises NoAnswer: if the agent gives no result at all.
    """
    replies = await fixtures.samples(ctx)
    # Both kinds of answers: what is right in a result may be wrong in the events of the same agent.
    found = [(r, value) for r in replies for value in (r.result, *r.events) if value is not None]
    if not found:
        raise NoAnswer(f"no ordinary answer: {replies[0].describe()}", replies[0])
    return found


async def objects(ctx: Context, kind: str) -> list[tuple[WireReply, Node]]:
    """Return the objects of a kind in ordinary answers, each with its reply."""
    return [(r, node) for r, value in await answers(ctx) for node in nodes(value) if node.kind == kind]


async def data_model(ctx: Context) -> None:
    """Look at ordinary answers of every operation that gives tasks and messages; the first problem of each counts."""
    rule = RULES[ctx.requirement.id]
    if ctx.version == "0.3" and not ctx.session.is_tagged:
        if rule is _old_kinds:
            ctx.skip("this transport uses protobuf's JSON, which has no kind")
        rule = OLD_PROTO_RULES.get(ctx.requirement.id, rule)
    found, kind = await answers(ctx), _OF_PARTS.get(ctx.requirement.id)
    if kind is not None and not any(_is_part(node, kind) for _, value in found for node in nodes(value)):
        ctx.prompt(kind)
        ctx.skip(f"the scenario {kind} gave no {kind} part")
    for reply, value in found:
        for problem in rule(value):
            # protobuf leaves empty strings and zeros out of a message, so their absence there says nothing.
            if ctx.binding == "GRPC" and problem.pointer.strip("/") in _LIST:
                continue
            ctx.fail(problem.found, reply, pointer=problem.pointer)
            return
        softer, expected = _SOFTER.get(ctx.requirement.id, (None, ""))
        for problem in softer(value) if softer is not None else ():
            ctx.warn(problem.found, reply, pointer=problem.pointer, expected=expected)
            return


async def clock_is_right(ctx: Context) -> None:
    """Compare the time of a new task's status with that of the answer: a zone makes hours."""
    reply = await ctx.said()
    sent = _http_time(reply.headers.get("date", ""))
    for status in (node for node in nodes(reply.result) if node.kind == "status"):
        stamp = parse_timestamp(status.value.get("timestamp"))
        if sent is not None and stamp is not None and abs(stamp - sent) > _CLOCK_SECONDS + reply.exchange.seconds:
            found = f"timestamp {status.value['timestamp']!r} in an answer of {reply.headers['date']}"
            ctx.fail(found, reply, pointer=f"{status.pointer}/timestamp", expected="the time of the status, in UTC")


async def message_ids_are_unique(ctx: Context) -> None:
    """A messageId is that of one message: two that say different things have two."""
    known: dict[str, str] = {}
    for reply, message in await objects(ctx, "message"):
        name, parts = str(message.value.get("messageId")), canonical(message.value.get("parts"))
        if message.value.get("messageId") and known.setdefault(name, parts) != parts:
            found = f"two messages that say different things have the messageId {name!r}"
            ctx.fail(found, reply, pointer=f"{message.pointer}/messageId", expected="an id for each message")
            return


def _http_time(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError):
        return None


async def milliseconds(ctx: Context) -> None:
    """Look for at least three digits; whole seconds occur by chance, so all timestamps count together."""
    # A check of one timestamp would fail one agent in a thousand by chance.
    found = await objects(ctx, "status")
    stamps = [(str(node.value["timestamp"]), reply) for reply, node in found if "timestamp" in node.value]
    if not stamps:
        ctx.skip("no status has a timestamp")
    if not any(re.search(r"\.\d{3,}", stamp) for stamp, _ in stamps):
        stamp, reply = stamps[0]
        ctx.fail(f"timestamps such as {stamp!r}", reply, pointer="/task/status/timestamp")


# -- parts --


# Names of 0.3, which an agent that was only renamed outside still writes.
_OLD_NAMES = ("file", "mimeType", "fileWithBytes", "fileWithUri", "bytes", "uri", "name")
_VALUES: Mapping[str, Any] = {
    "PART-001": {"a": {"b": [1, 2.5, None, True], "c": None}, "d": None},
    "PART-002": [1, "x"],
    # Beyond Latin-1, and beyond the basic plane, where half a surrogate pair gets lost.
    "PART-003": "é漢😀",
    "PART-004": 42,
    "PART-005": True,
    "PART-006": None,
}


async def data_value(ctx: Context) -> None:
    """Send a data part; where the history comes back, it must hold the same value.

    All values go in one message, for a message may cost a model call; where that fails, each is sent alone.
    """
    value = _VALUES[ctx.requirement.id]
    params, reply = await ctx.shared("all data", lambda: _send_data(ctx, *_VALUES.values()))
    name = params["message"]["messageId"]
    sent = (n.value for n in nodes(reply.result) if n.kind == "message" and n.value.get("messageId") == name)
    if reply.ok and all(is_same(_data_in(message), list(_VALUES.values())) for message in sent):
        return
    params, reply = await _send_data(ctx, value)
    # An agent may not take data at all, which is no defect of how it keeps it.
    if reply.may_be("ContentTypeNotSupportedError"):
        return
    ctx.needed(reply, "a data part")
    # Agents need not return the history; where it comes back it must be true.
    for node in nodes(reply.result):
        if node.kind == "message" and node.value.get("messageId") == params["message"]["messageId"]:
            _same(ctx, reply, node.value, value, node.pointer)


async def _send_data(ctx: Context, *values: Any) -> tuple[dict[str, Any], WireReply]:
    parts = [{"text": ctx.target.scenarios.get("task")}, *({"data": value} for value in values)]
    params = ctx.send_params(parts=parts)
    reply = await ctx.call("SendMessage", params)
    if len(values) > 1:
        # What is wrong with it shows where each value is sent alone.
        ctx.excuse(reply)
    return params, reply


def _data_in(message: Mapping[str, Any]) -> list[Any]:
    return [part["data"] for part in as_objects(message.get("parts")) if "data" in part]


def _same(ctx: Context, reply: WireReply, message: Mapping[str, Any], value: Any, pointer: str) -> None:
    found = _data_in(message)
    if not is_same(found, [value]):
        has = one_line(json.dumps(found) if found else f"no data part: {json.dumps(message.get('parts'))}", 200)
        ctx.fail(f"sent the data {json.dumps(value)}, the history has {has}", reply, pointer=f"{pointer}/parts")


async def _parts_of(ctx: Context, key: str) -> tuple[WireReply, list[tuple[str, Mapping[str, Any]]]]:
    reply = ctx.needed(await ctx.said(ctx.prompt(key)), f"the scenario {key}")
    return reply, [(n.pointer, n.value) for n in nodes(reply.result) if n.kind == "part"]


async def raw_is_base64(ctx: Context) -> None:
    """Look at a file that the agent returns."""
    reply, parts = await _parts_of(ctx, "file")
    raw = [(pointer, part["raw"]) for pointer, part in parts if "raw" in part]
    if not raw:
        ctx.skip("the scenario file gave no part with raw")
    for pointer, content in raw:
        try:
            # validate=True: otherwise Python passes over every character that is not base64.
            base64.b64decode(content, validate=True)
        except (binascii.Error, ValueError, TypeError):
            ctx.fail(f"raw is {content!r:.80}", reply, pointer=f"{pointer}/raw")


async def names_of_files(ctx: Context) -> None:
    """Look at a part with a URL."""
    reply, parts = await _parts_of(ctx, "url")
    for pointer, part in parts:
        old = [name for name in _OLD_NAMES if name in part]
        if old:
            ctx.fail(f"the part has {old}", reply, pointer=pointer)
    if not ctx.findings and not any("url" in part for _, part in parts):
        ctx.skip("the scenario url gave no part with url")
