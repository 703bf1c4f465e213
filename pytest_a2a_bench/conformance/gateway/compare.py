"""Compare an exchange through a gateway with the same exchange without it (pure).

The agent is asked at least twice without the gateway: only what is the same in all of these answers can differ through
the gateway, so that an agent that never says the same thing twice gives no finding.
"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from pytest_a2a_bench.a2a.codec import TERMINAL
from pytest_a2a_bench.conformance.finding import Exchange, Severity
from pytest_a2a_bench.conformance.protocol.streams import is_same, read_event
from pytest_a2a_bench.conformance.wire.exchange import is_late
from pytest_a2a_bench.conformance.wire.reply import WireReply
from pytest_a2a_bench.text import one_line

PLAIN = "GetTask of an unknown task"
"""Name of an exchange that is about nothing in particular: where it differs, others of its step show nothing more."""
ARRIVED = "the task as the agent has it"
"""Name of the exchange that shows the request as the agent got it; made without the gateway on both sides."""
NOTHING = "missing"
"""Stands for a missing value."""

_MOST_MEMBERS = 20_000
_SHOWN = 3
_TOO_LARGE = (413, 414, 431)
_TOO_SLOW = (408, 504, 524)
_NO_ROUTE = (403, 404, 405, 426, 501)
_KIND, _ERROR, _EVENTS, _END = "the answer", "the error", "the events of the stream", "the end of the stream"
_BROKEN = "every event of the stream is JSON"
# Of these the first that differs stands alone: what else differs follows from it.
_CAUSES = (_KIND, _ERROR, _BROKEN, _END, _EVENTS)
_FACT_RULES = {
    "status": "GW-009",
    "Content-Type": "GW-011",
    "Content-Encoding": "GW-011",
    _BROKEN: "GW-019",
    _END: "GW-020",
    _EVENTS: "GW-019",
}
_ABOUT_HEADERS = {"VersionNotSupportedError": "GW-006", "ExtensionSupportRequiredError": "GW-007"}
# What shows in a result that a query, or a configuration, was not handed on.
_ABOUT_MEMBERS = {
    "GW-005": {"#", "pageSize", "totalSize", "nextPageToken"},
    "GW-021": {"url", "token", "scheme", "credentials"},
}
_IDS = ("id", "taskId", "contextId", "messageId", "artifactId")
# Headers of a connection, or of the server that answers: every proxy has its own.
_HOP = frozenset(
    "age alt-svc connection content-encoding content-length content-type date keep-alive proxy-connection server "
    "set-cookie strict-transport-security te trailer transfer-encoding upgrade via x-accel-buffering".split()
)
_HEADER_RULES = {"retry-after": "GW-014", "www-authenticate": "GW-023"}

Change = tuple[str, Any, Any]
"""A difference: the value without the gateway, and the value through it."""


class Seen(NamedTuple):
    """One answer, and its request.

    :param sent: text of this request alone -> the words that stand for it in the comparison.
    :param rule: the requirement that another kind of answer breaks, where the exchange is about one.
    :param body: the requirement that another result breaks.
    :param notes: further facts that must be the same -> (their requirement, the fact).
    """

    reply: WireReply
    sent: Mapping[str, str] = {}
    rule: str = ""
    body: str = ""
    notes: Mapping[str, tuple[str, Any]] = {}


class Sides(NamedTuple):
    """The two ways to the agent."""

    direct: str
    gateway: str
    has_credentials: bool = False


class Difference(NamedTuple):
    """One thing that the gateway changed, added or lost.

    :param exchange: the name of the exchange in which it showed.
    :param status: the gateway's status, where that is the difference.
    """

    rule: str
    exchange: str
    found: str
    expected: str = ""
    severity: Severity = "error"
    pointer: str = ""
    status: int | None = None
    exchanges: tuple[Exchange, ...] = ()


def compare_step(direct: Sequence[Mapping[str, Seen]], through: Mapping[str, Seen], sides: Sides) -> list[Difference]:
    """Compare the exchanges of one run of a step with those of runs without the gateway, by their names."""
    found: list[Difference] = []
    known: set[str] = {""}
    # First what the agent got: what is wrong there is wrong in its answers, too.
    for name, seen in sorted(through.items(), key=lambda item: item[0] not in (ARRIVED, PLAIN)):
        runs = [run[name] for run in direct if name in run]
        # No id leads any further that the agent does not know.
        is_lost = name in ("GetTask", "ListTasks") and any((d.rule, d.exchange) == ("GW-010", ARRIVED) for d in found)
        if len(runs) == len(direct) and not is_lost:
            is_plain = any(one.exchange == PLAIN for one in found)
            found += compare(name, runs, seen._replace(rule="") if is_plain else seen, sides, known)
            if name == ARRIVED:
                known |= {_of_message(change[0]) for change in _changes(runs, seen, sides)}
    return found


def compare(
    name: str, direct: Sequence[Seen], through: Seen, sides: Sides, known: Container[str] = ("",)
) -> list[Difference]:
    """Compare one exchange.

    :param direct: the answers without the gateway; at least two.
    :param known: members of a message that the agent already got otherwise.
    """
    kinds = {kind_of(seen.reply) for seen in direct}
    is_whole = all(seen.reply.ended and not seen.reply.problem for seen in direct if seen.reply.documents)
    if len(kinds) > 1 or kinds & {"silence", "page"} or not is_whole:
        return []
    changes = _changes(direct, through, sides)
    changes = [c for c in changes if name == ARRIVED or not (place := _of_message(c[0])) or place not in known]
    cause = next((change for fact in _CAUSES for change in changes if change[0] == fact), None)
    if cause is not None and cause[0] == _KIND:
        cause = _KIND, _shown(direct[-1].reply), _shown(through.reply)
    exchanges = direct[-1].reply.exchange, through.reply.exchange
    by_rule: dict[str, dict[Severity, list[Change]]] = {}
    for change in [cause] if cause is not None else changes:
        rule, severity = _rule_of(change, direct[-1], through, sides)
        by_rule.setdefault(rule, {}).setdefault(severity, []).append(change)
    found = []
    for rule, graded in by_rule.items():
        # One finding, whose errors are shown first: a member that is renamed is lost, and another one is added.
        severity = "error" if "error" in graded else "warning"
        mine = [*graded.get("error", ()), *graded.get("warning", ())]
        shown = "; ".join(changed(*change) for change in mine[:_SHOWN])
        more = f"; and {len(mine) - _SHOWN} more" if len(mine) > _SHOWN else ""
        key, want, _ = mine[0]
        status = through.reply.status if cause is not None or key == "status" else None
        pointer = key if key.startswith("/") else ""
        found.append(
            Difference(rule, name, f"{name}: {shown}{more}", _text(key, want), severity, pointer, status, exchanges)
        )
    return found


def kind_of(reply: WireReply) -> str:
    """Return an answer's kind: ``result``, ``stream``, ``error`` or ``refusal`` of A2A, a ``page``, or ``silence``."""
    # A stream of gRPC that is left has no status yet.
    if reply.status is None and not reply.documents:
        return "silence"
    if reply.has_auth_status:
        return "refusal"
    if reply.error is not None:
        spoken = isinstance(reply.document, Mapping) or reply.documents or reply.exchange.binding == "GRPC"
        return "error" if spoken else "page"
    if reply.events or reply.documents:
        return "stream"
    return "page" if reply.problem else "result"


# -- which requirement a difference breaks --


def _rule_of(change: Change, direct: Seen, through: Seen, sides: Sides) -> tuple[str, Severity]:
    key, want, _ = change
    error = through.reply.error
    if key == _KIND:
        rule = _rule_of_kind(direct, through, sides)
        # A gateway may limit requests, if it says until when.
        return rule, "warning" if rule == "GW-014" and "retry-after" in through.reply.headers else "error"
    if key == _ERROR:
        return _rule_of_error(direct, through), "error"
    if key.startswith("header "):
        name = key.removeprefix("header ")
        known = _HEADER_RULES.get(name, "GW-007")
        return known, "error" if name in _HEADER_RULES or "a2a-" in name else "warning"
    if key in through.notes:
        return through.notes[key][0], "error"
    if key == "status" and error is not None:
        return "GW-023" if kind_of(through.reply) == "refusal" else "GW-012", "error"
    if key in _FACT_RULES:
        return _FACT_RULES[key], "error"
    severity: Severity = "warning" if want is NOTHING or key.endswith("/error/message") else "error"
    return _rule_of_member(key, direct, through), severity


def _rule_of_kind(direct: Seen, through: Seen, sides: Sides) -> str:
    want, reply, status = kind_of(direct.reply), through.reply, through.reply.status
    if "content-encoding" in reply.headers:
        return "GW-011"
    if 300 <= (status or 0) < 400:
        return "GW-005"
    if kind_of(reply) == "refusal":
        return "GW-022" if sides.has_credentials else "GW-024"
    if want == "refusal":
        return "GW-023"
    if status in _TOO_LARGE or through.rule == "GW-015":
        return "GW-015"
    if status in _TOO_SLOW or is_late(reply.exchange):
        return "GW-020" if want == "stream" and status not in _TOO_SLOW else "GW-016"
    if status in (429, 503):
        return "GW-014"
    if reply.error is not None and reply.error.name in _ABOUT_HEADERS:
        return _ABOUT_HEADERS[reply.error.name]
    # What says that it is the agent's kind of answer, and cannot be read, was changed on its way back.
    if want == "result" and (status, reply.content_type) == (direct.reply.status, direct.reply.content_type):
        return "GW-009"
    is_routed = status is not None and (status == direct.reply.status or status not in _NO_ROUTE)
    return "GW-017" if want == "stream" else through.rule or ("GW-012" if want == "error" and is_routed else "GW-005")


def _rule_of_error(direct: Seen, through: Seen) -> str:
    error, status = through.reply.error, through.reply.status
    name = error.name if error is not None else ""
    # No error of A2A's, and a status that says that there is nothing.
    is_lost = not name and status in _NO_ROUTE and status != direct.reply.status
    if name == "MethodNotFoundError" or is_lost:
        return "GW-005"
    return _ABOUT_HEADERS.get(name) or through.rule or "GW-012"


def _rule_of_member(key: str, direct: Seen, through: Seen) -> str:
    words = key.strip("/").split("/")
    if words == ["id"] or (len(words) == 2 and words[0].isdigit() and words[1] == "id"):
        return "GW-010"
    if (error := through.reply.error) is not None:
        # The message of some names the version that the agent was asked for.
        about = _ABOUT_HEADERS.get(error.name, "GW-013") if words[-1] == "message" else "GW-013"
        return "GW-012" if words[-1] in ("code", "status") else about
    rule = through.body or ("GW-019" if direct.reply.documents else "GW-009")
    if words[-1] in _IDS and "metadata" not in words and rule != "GW-008":
        return "GW-008" if "history" in words else "GW-010"
    return rule if words[-1] in _ABOUT_MEMBERS.get(rule, (words[-1],)) else "GW-009"


def _of_message(key: str) -> str:
    """Return the place of a member in the task's messages, wherever the task is; empty for other members."""
    return key.partition("/history/")[2]


# -- facts, and how they differ --


def _changes(direct: Sequence[Seen], through: Seen, sides: Sides) -> list[Change]:
    changes = differences([_facts(seen, sides) for seen in direct], _facts(through, sides))
    # A header more is no harm; what could not be noted follows from another difference.
    return [
        (key, want, got)
        for key, want, got in changes
        if not (key.startswith("header ") and want is NOTHING) and not (key in direct[0].notes and got is NOTHING)
    ]


def _facts(seen: Seen, sides: Sides) -> dict[str, Any]:
    """Return the facts of an answer by names and JSON pointers; values that differ by nature are written alike."""
    reply, error = seen.reply, seen.reply.error
    facts: dict[str, Any] = {key: value for key, (_, value) in seen.notes.items()}
    facts |= {_KIND: kind_of(reply), _ERROR: ""}
    if error is not None and kind_of(reply) == "error":
        # Without its details an error of HTTP+JSON has no name any more: that is another difference.
        name = error.name if error.code is not None or not error.grpc_status else ""
        facts[_ERROR] = " ".join(map(str, (name, error.code or "", error.grpc_status)))
    if kind_of(reply) == "stream":
        story = _story(reply)
        is_whole = reply.ended and not reply.problem
        is_over = bool(story) and any(state in story[-1].split() for state in TERMINAL)
        facts |= {_EVENTS: ", ".join(story), _BROKEN: None not in reply.documents}
        facts[_END] = f"in order{' with the task' if is_over else ''}" if is_whole else reply.problem or "cut"
    if reply.exchange.binding != "GRPC":
        facts |= {"status": reply.status, "Content-Type": reply.content_type}
        facts["Content-Encoding"] = reply.headers.get("content-encoding", "identity")
        facts |= {f"header {name}": value for name, value in reply.headers.items() if name not in _HOP}
    body = list(reply.documents) or (reply.document if reply.document is not None else reply.result)
    if reply.exchange.binding == "GRPC" and error is not None:
        body = {"error": {"message": error.message, "details": error.details}}
    facts |= islice(flat(body), _MOST_MEMBERS)
    return {key: _neutral(value, seen.sent, sides) if isinstance(value, str) else value for key, value in facts.items()}


def _story(reply: WireReply) -> list[str]:
    events = [read_event(doc.get("result", doc) if isinstance(doc, Mapping) else doc) for doc in reply.documents]
    return [" ".join(word for word in (event.kind or "no event", event.state) if word) for event in events]


def _shown(reply: WireReply) -> str:
    """Describe an answer in a few words."""
    if reply.status is None or reply.exchange.binding == "GRPC":
        return one_line(reply.describe(), 160)
    words = [f"it redirects to {one_line(reply.headers['location'], 80)}"] if "location" in reply.headers else []
    words += [f"Retry-After {one_line(reply.headers['retry-after'], 40)}"] if "retry-after" in reply.headers else []
    what = reply.error.name if reply.error is not None and reply.error.name else kind_of(reply)
    return ", ".join([f"a {what} with status {reply.status} ({reply.content_type or 'no type'})", *words])


def differences(direct: Sequence[Mapping[str, Any]], through: Mapping[str, Any]) -> list[Change]:
    """Return the differences of flat facts by key; of facts that vary without the gateway, only missing ones."""
    first, found = direct[0], []
    sizes = [(key, size) for facts in (*direct, through) for key, size in facts.items() if key.endswith("/#")]
    # Lists whose length is another, or not always the same: what is in them cannot be laid side by side.
    uneven = {key[:-1] for key, size in sizes if first.get(key) != size}

    def is_uneven(key: str) -> bool:
        return any(key.startswith(place) and key != f"{place}#" for place in uneven)

    for key, value in first.items():
        if is_uneven(key) or any(key not in facts for facts in direct):
            continue
        got = through.get(key, NOTHING)
        is_stable = all(is_same(value, facts[key]) for facts in direct)
        types = [type(facts[key]) for facts in direct]
        if got is NOTHING or (not is_same(got, value) if is_stable else type(got) not in types):
            found.append((key, value, got))
    ever = {key for facts in direct for key in facts}
    places = {key.rpartition("/")[0] for key in ever if not all(key in facts for facts in direct)}
    added = (key for key in through.keys() - ever if key.rpartition("/")[0] not in places and not is_uneven(key))
    return sorted([*found, *((key, NOTHING, through[key]) for key in added)], key=lambda change: change[0])


def flat(value: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (JSON pointer, scalar) of everything in a document, and (``POINTER/#``, length) of each list."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from flat(inner, f"{pointer}/{key}")
    elif isinstance(value, (list, tuple)):
        yield f"{pointer}/#", len(value)
        for number, inner in enumerate(value):
            yield from flat(inner, f"{pointer}/{number}")
    else:
        yield pointer, value


def _neutral(text: str, sent: Mapping[str, str], sides: Sides) -> str:
    """Write ids of the request and the addresses of both sides alike."""
    for value, word in sent.items():
        text = text.replace(value, word)
    for address in sorted({*map(origin_text, sides[:2]), *(side.rstrip("/") for side in sides[:2])}, key=len)[::-1]:
        text = text.replace(address, "ADDRESS")
    return text


def changed(key: str, want: Any, got: Any) -> str:
    """Describe a difference of a fact."""
    return f"{key}: {_text(key, got)} through the gateway, {_text(key, want)} without it"


def _text(key: str, value: Any) -> str:
    # Members as JSON has them: another type is a difference, too.
    if key.startswith("/") and value is not NOTHING:
        return one_line(json.dumps(value, ensure_ascii=False, default=repr), 120)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return one_line(str(value) if isinstance(value, (int, str)) else repr(value), 120)


def origin_text(url: str) -> str:
    """Return scheme, host and port of a URL."""
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
