"""Compare an exchange through a gateway with the same exchange without it (pure).

The agent is asked at least twice without the gateway: only what is the same in all of these answers can differ through
the gateway, so that an agent that never says the same thing twice gives no finding.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from pytest_a2a_bench.a2a.codec import TERMINAL
from pytest_a2a_bench.conformance.finding import Exchange, Severity
from pytest_a2a_bench.conformance.protocol.streams import read_event
from pytest_a2a_bench.conformance.wire.exchange import is_late
from pytest_a2a_bench.conformance.wire.reply import WireReply
from pytest_a2a_bench.text import one_line

PLAIN = "GetTask of an unknown task"
"""Name of an exchange that is about nothing in particular: where it differs, others of its step show nothing more."""
ARRIVED = "the task as the agent has it"
"""Name of the exchange that shows what the agent got; it is made without the gateway on both sides."""

_NOTHING = "nothing"
_MOST_MEMBERS = 20_000
_SHOWN = 3
_TOO_LARGE = (413, 414, 431)
_TOO_SLOW = (408, 504, 524)
_NO_ROUTE = (403, 404, 405, 426, 501)
_ABOUT_HEADERS = {"VersionNotSupportedError": "GW-006", "ExtensionSupportRequiredError": "GW-007"}
# What shows in a result that a query, or a configuration, was not handed on.
_ABOUT_MEMBERS = {"GW-005": {"#", "pageSize", "totalSize"}, "GW-021": {"url", "token", "scheme", "credentials"}}
_IDS = ("id", "taskId", "contextId", "messageId", "artifactId")
# Headers of a connection, or of the server that answers: every proxy has its own.
_HOP = frozenset(
    "age alt-svc connection content-length content-type date keep-alive proxy-connection server set-cookie "
    "strict-transport-security te trailer transfer-encoding upgrade via x-accel-buffering".split()
)
_HEADER_RULES: Mapping[str, tuple[str, Severity]] = {
    "retry-after": ("GW-014", "error"),
    "www-authenticate": ("GW-023", "error"),
    "a2a-extensions": ("GW-007", "error"),
    "x-a2a-extensions": ("GW-007", "error"),
    "a2a-version": ("GW-007", "error"),
}


class Seen(NamedTuple):
    """One answer, and what was sent for it.

    :param sent: text of this request alone -> the words that stand for it in the comparison.
    :param rule: the requirement that another kind of answer breaks, where the exchange is about one.
    :param body: the requirement that another result breaks.
    :param notes: (requirement, words) -> a further fact that must be the same.
    """

    reply: WireReply
    sent: Mapping[str, str] = {}
    rpc_id: Any = None
    rule: str = ""
    body: str = ""
    notes: Mapping[tuple[str, str], Any] = {}


class Sides(NamedTuple):
    """The two ways to the agent.

    :param has_credentials: whether requests carry credentials.
    """

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
    known: set[str] = set()
    # First what the agent got: what is wrong there is wrong in its answers, too.
    for name, seen in sorted(through.items(), key=lambda item: item[0] not in (ARRIVED, PLAIN)):
        runs = [run[name] for run in direct if name in run]
        if len(runs) == len(direct):
            is_plain = any(one.exchange == PLAIN for one in found)
            found += compare(name, runs, seen._replace(rule="") if is_plain else seen, sides, known)
            if any(one.rule == "GW-010" and one.exchange == ARRIVED for one in found):
                # No id that came through the gateway leads any further.
                return found + compare(
                    "SendMessage", [run["SendMessage"] for run in direct], through["SendMessage"], sides
                )
            if name == ARRIVED:
                known |= {_of_message(key) for key, _, _ in _diff(runs, seen, sides)} - {""}
    return found


def compare(
    name: str, direct: Sequence[Seen], through: Seen, sides: Sides, known: Container[str] = ()
) -> list[Difference]:
    """Compare one exchange.

    :param direct: the answers without the gateway; at least two.
    :param known: members of a message that the agent already got otherwise.
    """
    kinds, got = {kind_of(seen.reply) for seen in direct}, kind_of(through.reply)
    exchanges = direct[-1].reply.exchange, through.reply.exchange
    if len(kinds) > 1 or kinds & {"silence", "page"}:
        return []
    other = _another_kind(name, kinds.pop(), direct[-1], through, sides) if got not in kinds else None
    other = other or _another_error(name, direct, through)
    if other is not None:
        return [other._replace(exchanges=exchanges)]
    parts = (_streams if got == "stream" else _answers)(name, direct, through, sides, known)
    found = [*_notes(name, direct, through), *parts, *_heads(name, direct, through, sides)]
    return [one._replace(exchanges=exchanges) for one in found]


def kind_of(reply: WireReply) -> str:
    """Return what an answer is: ``result``, ``stream``, ``error`` or ``refusal`` of A2A, a ``page``, or ``silence``."""
    if reply.status is None:
        return "silence"
    if reply.has_auth_status:
        return "refusal"
    if reply.error is not None:
        spoken = isinstance(reply.document, Mapping) or reply.documents or reply.exchange.binding == "GRPC"
        return "error" if spoken else "page"
    if reply.events or reply.documents:
        return "stream"
    return "page" if reply.problem else "result"


def _another_kind(name: str, want: str, direct: Seen, through: Seen, sides: Sides) -> Difference:
    reply, status = through.reply, through.reply.status
    is_stream = want == "stream"
    same_status = status == direct.reply.status
    moved = status is not None and 300 <= status < 400
    if "content-encoding" in reply.headers:
        rule = "GW-011"
    elif moved:
        rule = "GW-005"
    elif kind_of(reply) == "refusal":
        rule = "GW-022" if sides.has_credentials else "GW-024"
    elif want == "refusal":
        rule = "GW-023"
    elif status in _TOO_LARGE or through.rule == "GW-015":
        rule = "GW-015"
    elif status in _TOO_SLOW or is_late(reply.exchange):
        rule = "GW-020" if is_stream and status not in _TOO_SLOW else "GW-016"
    elif status in (429, 503):
        rule = "GW-014"
    elif reply.error is not None and reply.error.name in _ABOUT_HEADERS:
        rule = _ABOUT_HEADERS[reply.error.name]
    elif is_stream:
        rule = "GW-017"
    elif through.rule:
        rule = through.rule
    elif want == "error" and status is not None and (same_status or status not in _NO_ROUTE):
        rule = "GW-012"
    else:
        rule = "GW-005"
    found = f"{name}: {_shown(reply)} through the gateway; {_shown(direct.reply)} without it"
    waits = reply.headers.get("retry-after", "")
    severity: Severity = "warning" if rule == "GW-014" and waits else "error"
    if rule == "GW-014":
        found += f"; Retry-After: {one_line(waits, 40)}" if waits else "; there is no Retry-After"
    return Difference(rule, name, found, _shown(direct.reply), severity, status=status)


def _shown(reply: WireReply) -> str:
    """Say in a few words what came, for two answers side by side."""
    if reply.status is None or reply.exchange.binding == "GRPC":
        return one_line(reply.describe(), 160)
    kind = f" ({reply.content_type})" if reply.content_type else ""
    if kind_of(reply) in ("result", "stream"):
        events = f"a stream of {len(reply.documents)} events" if reply.documents else "a result"
        return f"{events}, status {reply.status}{kind}"
    moved = reply.headers.get("location", "")
    words = f"; it redirects to {one_line(moved, 80)}" if moved else ""
    what = reply.error.name if reply.error is not None and reply.error.name else kind_of(reply)
    return f"{'an error page' if what == 'page' else what}, status {reply.status}{kind}{words}"


def _notes(name: str, direct: Sequence[Seen], through: Seen) -> Iterator[Difference]:
    for (rule, words), value in direct[0].notes.items():
        got = through.notes.get((rule, words), value)
        if all(seen.notes.get((rule, words)) == value for seen in direct) and got != value:
            yield Difference(rule, name, f"{name}: {words}: {got} through the gateway, {value} without it")


def _heads(name: str, direct: Sequence[Seen], through: Seen, sides: Sides) -> Iterator[Difference]:
    """Compare status, media type and headers."""
    want, got = direct[0].reply, through.reply
    if got.exchange.binding == "GRPC":
        return
    if all(seen.reply.status == want.status for seen in direct) and got.status != want.status:
        found = f"{name}: status {got.status} through the gateway, {want.status} without it"
        yield Difference("GW-012" if want.error else "GW-009", name, found, f"status {want.status}", status=got.status)
    if all(seen.reply.content_type == want.content_type for seen in direct) and got.content_type != want.content_type:
        found = f"{name}: Content-Type {got.content_type or _NOTHING} through the gateway, {want.content_type} without"
        yield Difference("GW-011", name, found, want.content_type)
    encoding = got.headers.get("content-encoding", "identity")
    if encoding != "identity" and not any("content-encoding" in seen.reply.headers for seen in direct):
        found = f"{name}: Content-Encoding {one_line(encoding, 40)} through the gateway, though the client accepts none"
        yield Difference("GW-011", name, found, "the answer as the agent sends it")
    for header, value in want.headers.items():
        if header in _HOP or not all(
            _header(seen, header, sides) == _header(direct[0], header, sides) for seen in direct
        ):
            continue
        if _header(through, header, sides) != _header(direct[0], header, sides):
            rule, severity = _HEADER_RULES.get(header, ("GW-007", "warning"))
            shown = one_line(got.headers[header], 80) if header in got.headers else _NOTHING
            found = f"{name}: header {header}: {shown} through the gateway, {one_line(value, 80)} without it"
            yield Difference(rule, name, found, f"{header}: {one_line(value, 80)}", severity)


def _header(seen: Seen, name: str, sides: Sides) -> Any:
    value = seen.reply.headers.get(name)
    return None if value is None else _neutral(value, seen.sent, sides)


def _answers(
    name: str, direct: Sequence[Seen], through: Seen, sides: Sides, known: Container[str]
) -> Iterator[Difference]:
    """Compare everything in two answers of one kind."""
    error = through.reply.error
    # The message of this one names the version that the agent was asked for.
    about = "GW-013" if error is None else _ABOUT_HEADERS.get(error.name, "GW-013")
    rule = through.body or "GW-009"
    yield from _members(name, _diff(direct, through, sides), rule, known, "" if error is None else about)


def _another_error(name: str, direct: Sequence[Seen], through: Seen) -> Difference | None:
    want, got = direct[0].reply.error, through.reply.error
    if want is None or got is None or any(_mark(seen) != _mark(direct[0]) for seen in direct):
        return None
    # Without its details an error of HTTP+JSON has no name any more: that is another difference.
    if _mark(through) == _mark(direct[0]) or (not got.name and _mark(through)[1:] == _mark(direct[0])[1:]):
        return None
    status = through.reply.status
    rule = _ABOUT_HEADERS.get(got.name) or through.rule or "GW-012"
    if got.name == "MethodNotFoundError" or (
        # No error of A2A's, and a status that says that there is nothing.
        not got.name and status in _NO_ROUTE and status != direct[0].reply.status
    ):
        rule = "GW-005"
    shown = f"{one_line(str(got), 120)} through the gateway, {one_line(str(want), 120)} without it"
    return Difference(rule, name, f"{name}: error {shown}", status=status)


def _mark(seen: Seen) -> tuple[Any, ...]:
    error = seen.reply.error
    return (error.name, error.code, error.grpc_status, error.http_status) if error is not None else ()


def _streams(
    name: str, direct: Sequence[Seen], through: Seen, sides: Sides, known: Container[str]
) -> Iterator[Difference]:
    """Compare two streams: how they end, which events there are, and what is in them."""
    want, got = [seen.reply for seen in direct], through.reply
    if not all(reply.ended and not reply.problem for reply in want):
        return
    stories, story = {_story(reply) for reply in want}, _story(got)
    if None in got.documents:
        found = f"{name}: an event is no JSON document by itself: {one_line(_broken(got), 120)}"
        yield Difference("GW-019", name, found, "one JSON object for each event")
    elif got.problem or not got.ended or (_is_over(want) and not _is_over([got])):
        last = story[-1] if story else _NOTHING
        why = got.problem or "it ends in order"
        found = f"{name}: the stream is cut after {len(story)} events, the last of them {last}: {one_line(why, 160)}"
        yield Difference("GW-020", name, found, f"the agent's own end, after {_listed(_story(want[0]))}")
    elif len(stories) == 1 and story not in stories:
        found = f"{name}: events through the gateway: {_listed(story)}; without it: {_listed(stories.pop())}"
        yield Difference("GW-019", name, found, "the same events in the same order")
    elif len(stories) == 1:
        yield from _members(name, _diff(direct, through, sides), "GW-019", known)


def _story(reply: WireReply) -> tuple[str, ...]:
    events = [read_event(doc.get("result", doc) if isinstance(doc, Mapping) else doc) for doc in reply.documents]
    return tuple(" ".join(word for word in (event.kind or "no event", event.state) if word) for event in events)


def _is_over(replies: Sequence[WireReply]) -> bool:
    return all(any(word in (_story(reply) or ("",))[-1].split() for word in TERMINAL) for reply in replies)


def _listed(story: Sequence[str]) -> str:
    return ", ".join(story[:12]) or _NOTHING


def _broken(reply: WireReply) -> str:
    place = reply.documents.index(None)
    return reply.exchange.events[place] if place < len(reply.exchange.events) else ""


# -- JSON --


def _members(
    name: str, changes: Sequence[tuple[str, Any, Any]], rule: str, known: Container[str], message_rule: str = ""
) -> Iterator[Difference]:
    by_rule: dict[tuple[str, Severity], list[tuple[str, Any, Any]]] = {}
    for key, want, got in changes:
        if name == ARRIVED or _of_message(key) not in known:
            severity: Severity = "warning" if want is _NOTHING or key.endswith("/error/message") else "error"
            by_rule.setdefault((_rule_of(key, rule, message_rule), severity), []).append((key, want, got))
    for (broken, severity), found in by_rule.items():
        shown = "; ".join(
            f"{key} is {_text(got)} through the gateway, {_text(want)} without it" for key, want, got in found[:_SHOWN]
        )
        more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        yield Difference(broken, name, f"{name}: {shown}{more}", severity=severity, pointer=found[0][0])


def _rule_of(key: str, rule: str, message_rule: str) -> str:
    words = key.strip("/").split("/")
    if words == ["id"] or (len(words) == 2 and words[0].isdigit() and words[1] == "id"):
        return "GW-010"
    if message_rule:
        return "GW-012" if words[-1] in ("code", "status") else message_rule if words[-1] == "message" else "GW-013"
    if words[-1] in _IDS and "metadata" not in words and rule != "GW-008":
        return "GW-008" if "history" in words else "GW-010"
    return rule if words[-1] in _ABOUT_MEMBERS.get(rule, (words[-1],)) else "GW-009"


def _of_message(key: str) -> str:
    """Return the place of a member in the task's messages, wherever the task is; empty for what is in none."""
    return key.partition("/history/")[2]


def _text(value: Any) -> str:
    return value if value is _NOTHING else one_line(repr(value), 80)


def _diff(direct: Sequence[Seen], through: Seen, sides: Sides) -> list[tuple[str, Any, Any]]:
    """Return (JSON pointer, value without the gateway, value through it) of what is stable without it and differs."""
    return differences([_facts(seen, sides) for seen in direct], _facts(through, sides))


def differences(direct: Sequence[Mapping[str, Any]], through: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return (key, stable value, other value) of flat facts that differ; ``nothing`` stands for a missing key."""
    first, found = direct[0], []
    # Lists whose length is another, or not always the same: what is in them cannot be laid side by side.
    uneven = {
        key[:-1]
        for facts in (*direct, through)
        for key, size in facts.items()
        if key.endswith("/#") and first.get(key) != size
    }
    for key, value in first.items():
        if any(key not in facts for facts in direct) or any(key.startswith(u) and key != f"{u}#" for u in uneven):
            continue
        values = [facts[key] for facts in direct]
        got = through.get(key, _NOTHING)
        # An id or a text that is another each time is at least there, and of the same type.
        stable = all(_same(value, other) for other in values)
        if got is _NOTHING or (not _same(got, value) if stable else type(got) not in map(type, values)):
            found.append((key, value, got))
    ever = {key for facts in direct for key in facts}
    places = {key.rpartition("/")[0] for key in ever if not all(key in facts for facts in direct)}
    for key in through.keys() - ever:
        if key.rpartition("/")[0] not in places and not any(key.startswith(u) for u in uneven):
            found.append((key, _NOTHING, through[key]))
    return sorted(found, key=lambda change: change[0])


def _same(one: Any, other: Any) -> bool:
    # In Python True is 1.
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _facts(seen: Seen, sides: Sides) -> dict[str, Any]:
    """Return every member of an answer by its JSON pointer, with what differs by nature written alike."""
    reply = seen.reply
    document = (
        list(reply.documents) if reply.documents else reply.document if reply.document is not None else reply.result
    )
    facts = dict(islice(flat(document), _MOST_MEMBERS))
    for key in facts:
        if key.endswith("/id") and key.count("/") <= 2 and _same(facts[key], seen.rpc_id) and seen.rpc_id is not None:
            facts[key] = "the request's id"
    return {key: _neutral(value, seen.sent, sides) if isinstance(value, str) else value for key, value in facts.items()}


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


def origin_text(url: str) -> str:
    """Return scheme, host and port of a URL."""
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
