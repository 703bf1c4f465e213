"""Judge a client's requests: the requirements of the catalogue, seen from the client's side (pure).

A rule yields a note for each occasion on which it applied, with a problem or without; a rule without any note was
not observed, which is never a pass. ``data/clients.jsonl`` says which requirement it is in each version.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from pytest_a2a_bench.a2a.bodies import as_object
from pytest_a2a_bench.conformance import data
from pytest_a2a_bench.conformance.catalogue import requirement
from pytest_a2a_bench.conformance.checks.data_model import OLD_PROTO_RULES, RULES
from pytest_a2a_bench.conformance.clients.agent import EXTENSION, OF_ONE_TASK, TENANT, WRITINGS, Call
from pytest_a2a_bench.conformance.clients.serving import CARD_PATH, CardRequest, Seen
from pytest_a2a_bench.conformance.finding import BINDINGS, CARD, VERSIONS, CheckResult, Finding, Requirement, outcome_of
from pytest_a2a_bench.conformance.protocol.operations import CAPABILITIES, SENDING
from pytest_a2a_bench.conformance.protocol.payloads import PUSH_MEMBERS
from pytest_a2a_bench.conformance.report import NOT_OBSERVED

_EARLY_SECONDS = 0.05
"""How much earlier than Retry-After says a request may come: clocks of two processes tick apart."""


class Note(NamedTuple):
    """One occasion for a rule.

    :param call: the request that shows it; None for a note about cards.
    :param found: the problem; empty for none.
    :param soft: whether it is a warning although the requirement is a MUST.
    :param card: the options of the card that it is about, where there is no call.
    """

    call: Call | None
    found: str = ""
    soft: bool = False
    card: tuple[str, ...] = ()


_Rule = Callable[[Seen], Iterator[Note]]
_Problem = Callable[[Call], str | None]


@cache
def load_rules() -> tuple[tuple[_Rule, Mapping[str, Requirement]], ...]:
    """Return each rule, with its requirement in each version that has one."""
    found = []
    for row in data.load("clients.jsonl"):
        columns = zip(VERSIONS, row["ids"], row.get("spec", ("", "")), strict=True)
        entries = {version: _entry(version, id, spec, row) for version, id, spec in columns if id}
        found.append((_RULES[row["rule"]] if "rule" in row else _by_data(row), entries))
    return tuple(found)


def _entry(version: str, id: str, spec: str, row: Mapping[str, Any]) -> Requirement:
    own = id.startswith("CLIENT-")
    base = Requirement(id, row["group"], spec, row["levels"][version], "", version) if own else requirement(id, version)
    return dataclasses.replace(
        base,
        spec=spec or base.spec,
        level=row.get("levels", {}).get(version, base.level),
        text=row["text"],
        how=row.get("how", ""),
        bindings=tuple(row.get("bindings", BINDINGS)),
    )


def requirement_ids() -> list[str]:
    """Return the ids of all requirements, for waivers."""
    return [entry.id for _, entries in load_rules() for entry in entries.values()]


def judge_client(seen: Seen) -> list[CheckResult]:
    """Return a result for each requirement, in each version and binding that the client spoke."""
    spoken = [(v, b) for v in VERSIONS for b in BINDINGS if any(_place(c) == (v, b) for c in seen.calls)]
    # Before its first request only the card is known, which may be of any version.
    versions = list(dict.fromkeys(v for v, _ in spoken)) or (["1.0"] if seen.cards else [])
    # Several rules may be of one requirement.
    shown: dict[tuple[str, str, str], tuple[Requirement, list[tuple[Requirement, Note]]]] = {}
    for rule, entries in load_rules():
        notes = list(rule(seen))
        for entry in (entries[v] for v in versions if v in entries):
            places = [b for v, b in [*spoken, (entry.version, CARD)] if v == entry.version and b in entry.bindings]
            for binding in places:
                _, mine = shown.setdefault((entry.version, entry.id, binding), (entry, []))
                mine += [(entry, note) for note in notes if _is_about(note, entry.version, binding)]
    return [_result(entry, binding, mine) for (*_, binding), (entry, mine) in shown.items()]


def _place(call: Call) -> tuple[str, str]:
    return call.version, call.binding


def _is_about(note: Note, version: str, binding: str) -> bool:
    if note.call is None:
        return binding == CARD and (version in note.card or not set(VERSIONS) & set(note.card))
    return note.call.version == version and binding in (CARD, note.call.binding)


def _result(entry: Requirement, binding: str, notes: Sequence[tuple[Requirement, Note]]) -> CheckResult:
    if not notes:
        return CheckResult(entry, binding, "skipped", reason=": ".join(filter(None, (NOT_OBSERVED, entry.how))))
    first: dict[str, Finding] = {}
    for rule, note in notes:
        if note.found:
            # Of what is found several times the first is shown.
            first.setdefault(note.found, _finding(rule, note))
    return CheckResult(entry, binding, outcome_of(first.values()), tuple(first.values()))


def _finding(entry: Requirement, note: Note) -> Finding:
    severity: Any = "warning" if note.soft or entry.level != "MUST" else "error"
    evidence = (note.call.exchange,) if note.call is not None else ()
    return Finding(entry.id, severity, note.found, spec=entry.spec, exchanges=evidence)


# -- what one request shows --


def _each(problem: _Problem, binding: str = "") -> _Rule:
    """Return a rule for each call: ``problem`` returns the call's problem; None where the rule does not apply."""

    def rule(seen: Seen) -> Iterator[Note]:
        for call in seen.calls:
            if binding in ("", call.binding):
                found = problem(call)
                if found is not None:
                    yield Note(call, found)

    return rule


def _by_data(row: Mapping[str, str]) -> _Rule:
    """Return the rule of a row: the pattern of a call's value, and the problem of a value that does not match."""
    of, pattern = _VALUES[row["value"]], re.compile(row["match"])

    def problem(call: Call) -> str | None:
        value = of(call)
        return None if value is None else _unless(pattern.fullmatch(value), row["found"].format(value))

    return _each(problem, row.get("binding", ""))


def _each_sent(problem: _Problem) -> _Rule:
    """Return a rule for each message that is sent."""
    return _each(lambda call: problem(call) if call.operation in SENDING else None)


def _unless(is_right: object, found: str) -> str:
    return "" if is_right else found


def _is_lost(call: Call) -> bool:
    """Return whether a call went to a URL that the card does not have."""
    return call.binding == "JSONRPC" and not call.operation and " /" in call.wrong


def _version(call: Call) -> str:
    return call.headers.get("a2a-version", "") or call.query.get("A2A-Version", "")


_VALUES: Mapping[str, Callable[[Call], str | None]] = {
    "media type": lambda c: c.headers.get("content-type", "").partition(";")[0].lower() if c.exchange.request else None,
    "jsonrpc": lambda c: json.dumps(c.body.get("jsonrpc")),
    "id": lambda c: json.dumps(c.body.get("id")),
    "method": lambda c: None if _is_lost(c) else c.wrong,
    "wrong": lambda c: c.wrong,
    "lost URL": lambda c: c.exchange.url if _is_lost(c) else "",
    "query": lambda c: " ".join(name for name in c.query if name.lower() != "a2a-version") or None,
    "version": lambda c: _version(c) or None,
    "extensions": lambda c: c.headers.get("a2a-extensions"),
}
"""The values that data-driven rules read; None where a call has none."""


def _version_sent(call: Call) -> str | None:
    sent = _version(call)
    # What is no version at all is another requirement's, which 0.3 has not.
    if sent and call.version != "0.3" and not re.fullmatch(r"\d+\.\d+(\.\d+)?", sent):
        return None
    if not sent:
        return _unless(call.version == "0.3", "sends no A2A-Version, which means 0.3")
    is_right = sent.split(".")[:2] == call.version.split(".")
    return _unless(is_right, f"sends A2A-Version {sent} to an interface of {call.version}")


def _tenant(call: Call) -> str | None:
    # gRPC has no path that says which card it belongs to.
    if call.binding == "GRPC" or not call.operation:
        return None
    wanted, sent = TENANT if "tenant" in call.options else "", str(call.params.get("tenant") or "")
    return _unless(sent == wanted, f"sends the tenant {sent!r}, and the interface has {wanted!r}")


def _declared(call: Call) -> str | None:
    # No card declares an extended card, and that at /plain neither streams nor notifications.
    if call.operation != "GetExtendedAgentCard" and "plain" not in call.options:
        return None
    return _unless(call.operation not in CAPABILITIES, f"calls {call.operation}")


def _model(id: str, old: str) -> _Rule:
    """Return a rule that has a requirement of the data model judge each message."""

    def problem(call: Call) -> str | None:
        name = id if call.version == "1.0" else old
        names = [name, "DM-003"] if name == "V03-DM-001" else [name]
        is_proto = call.version == "0.3" and call.binding != "JSONRPC"
        # protobuf's JSON has neither kind nor names of its own.
        if not name or (call.binding == "GRPC" and id in ("DM-008", "DM-012")):
            return None
        if is_proto and name == "V03-DM-001":
            return None
        rules = [OLD_PROTO_RULES.get(n, RULES[n]) if is_proto else RULES[n] for n in names]
        # Only the names are judged as they are spelled: a reader knows those of the proto file, too.
        message = call.spelled if id in ("DM-008", "DM-012") else call.message
        found = [p.found for rule in rules for p in rule({"message": message})]
        return found[0] if found else ""

    return _each_sent(problem)


def _role(call: Call) -> str:
    wanted = "user" if call.version == "0.3" and call.binding == "JSONRPC" else "ROLE_USER"
    return _unless(call.message.get("role") == wanted, f"sends a message with the role {call.message.get('role')!r}")


def _known_task(call: Call) -> str | None:
    named = call.read.task_id if call.operation in SENDING else call.task_id
    is_lost = call.outcome == "TaskNotFoundError"
    if call.binding == "JSONRPC" and call.operation in OF_ONE_TASK and not call.params.get("id"):
        return f"calls {call.operation} without the id of a task; its parameters are {sorted(call.params)}"
    return _unless(not is_lost, f"names a task that the agent does not know: {named!r}") if named else None


def _same_context(call: Call) -> str | None:
    sent = call.read.context_id
    if not (call.task and call.read.task_id and sent):
        return None
    return _unless(sent == call.task.context, f"sends the contextId {sent!r} with a task of another context")


def _own_context(call: Call) -> str | None:
    made = call.read.context_id and not call.known
    found = f"sends a contextId that the agent does not know: {call.read.context_id!r}"
    return None if call.read.task_id else _unless(not made, found)


def _ended_task(call: Call) -> str | None:
    if not (call.read.task_id and call.task):
        return None
    return _unless(not call.is_late, f"sends a message to the task {call.read.task_id!r}, which has ended")


# -- what several requests show --


def _unique(of: Callable[[Call], tuple[Any, Any]], found: str) -> _Rule:
    """Return a rule for a value that belongs to one thing only: ``of`` returns both, the value empty for none."""

    def rule(seen: Seen) -> Iterator[Note]:
        known: dict[str, Any] = {}
        for call in seen.calls:
            value, thing = of(call)
            if value not in ("", None):
                yield Note(call, _unless(known.setdefault(str(value), thing) == thing, found.format(value)))

    return rule


def _message_id(call: Call) -> tuple[Any, Any]:
    # The same message once more keeps its id.
    return call.message.get("messageId"), (call.text, call.read.task_id)


def _follow_up(seen: Seen) -> Iterator[Note]:
    for call in seen.calls:
        if (task := call.forgot) is not None:
            named = "only its context" if call.read.context_id == task.context else "neither it nor its context"
            # Without the code it may be about something else.
            yield Note(call, f"answers the question of a task and names {named}", soft=task.code not in call.text)
        elif call.operation in SENDING and call.read.task_id and call.outcome == "answered":
            yield Note(call)


def _later(seen: Seen, call: Call) -> list[Call]:
    """Return the client's later calls about the task that a call began."""
    return [c for c in seen.calls[seen.calls.index(call) + 1 :] if c.task is call.task]


def _begun(seen: Seen, *situations: str, streaming: bool) -> list[Call]:
    """Return the calls that began a task in one of some situations."""
    name = SENDING[streaming]
    begun = [c for c in seen.calls if c.operation == name and c.task is not None and not c.read.task_id]
    return [c for c in begun if c.situation in situations]


def _polling(seen: Seen) -> Iterator[Note]:
    for call in _begun(seen, "slow", "push", "reconnect", streaming=False):
        if call.task is None or call.waits or call.task.configs or call.old_push or "card-change" in call.options:
            continue
        if not _later(seen, call):
            yield Note(call, "takes a task that still works for the answer, and never asks about it")
        else:
            found = "stops asking about a task while it still works"
            yield Note(call, _unless(call.task.state != "working", found), soft=True)


def _copies(seen: Seen) -> dict[Call, Call]:
    """Return the messages whose streams were cut and that were sent again at once, each with its copy."""
    pairs = itertools.pairwise(seen.calls)
    begun = _begun(seen, "reconnect", streaming=True)
    return {
        one: other
        for one, other in pairs
        if one in begun
        and other in begun
        and one.place == other.place
        # A text alone is the same message only if it asks for the situation.
        and (_is_same(one, other) or (one.text == other.text and one.situation in one.text.lower()))
    }


def _is_same(first: Call, call: Call) -> bool:
    return first.message.get("messageId") == call.message.get("messageId")


def _resubscribing(seen: Seen) -> Iterator[Note]:
    copies = _copies(seen)
    for call in _begun(seen, "reconnect", streaming=True):
        # What is sent again has a rule of its own.
        if call not in copies and call not in copies.values():
            yield Note(call, _unless(_later(seen, call), "leaves a task alone whose stream was cut"))


def _compared(*cases: tuple[bool, str, Sequence[str]]) -> _Rule:
    """Return a rule for situations that differ from a plain one, with which the client went on, in their writing."""

    def rule(seen: Seen) -> Iterator[Note]:
        for streaming, plain, odd in cases:
            known = {_place(c) for c in _begun(seen, plain, streaming=streaming) if _later(seen, c)}
            for call in _begun(seen, *odd, streaming=streaming):
                if _place(call) in known:
                    found = (
                        f"goes on with the task in `{plain}`, and not in `{call.situation}`, which has the same answer"
                    )
                    yield Note(call, _unless(_later(seen, call), found))

    return rule


def _retries(seen: Seen, *situations: str) -> Iterator[tuple[Call, Call]]:
    """Yield the refused call and the next one, where a message came again."""
    for call in seen.calls:
        first = call.repeats
        # Under another id it may be another message of a user that says the word twice.
        if first is not None and first.situation in situations and _is_same(first, call):
            yield first, call


def _retry_after(seen: Seen) -> Iterator[Note]:
    for first, call in _retries(seen, "retry-429", "503"):
        is_late = call.at - first.at >= first.asked_to_wait - _EARLY_SECONDS
        found = f"sends the message again before the {first.asked_to_wait} s of Retry-After are over"
        yield Note(call, _unless(is_late, found))


def _resending(seen: Seen) -> Iterator[Note]:
    again = {first: call for first, call in _retries(seen, "drop")}
    for call in seen.calls:
        if call.outcome == "drop":
            found = "sends a message again whose answer was lost"
            yield Note(again.get(call, call), _unless(call not in again, found))
    copies = _copies(seen)
    for call in _begun(seen, "reconnect", streaming=True):
        yield Note(copies.get(call, call), _unless(call not in copies, "sends a message again whose task goes on"))


def _same_token(seen: Seen) -> Iterator[Note]:
    for _, call in _retries(seen, "expired-token"):
        is_new = call.outcome != "expired-token"
        yield Note(call, _unless(is_new, "repeats the request with the token that has expired"))


def _redirected(seen: Seen) -> Iterator[Note]:
    for call in seen.calls:
        token = call.headers.get("authorization")
        if call.outcome == "redirect" and token and seen.elsewhere:
            leaks = any(headers.get("authorization") == token for headers in seen.elsewhere)
            yield Note(call, _unless(not leaks, "sends its Authorization to the origin that it is redirected to"))


# -- cards --


def _card_path(seen: Seen) -> Iterator[Note]:
    if seen.cards:
        is_right = any(c.path == CARD_PATH for c in seen.cards)
        yield Note(None, _unless(is_right, f"requests {seen.cards[0].path}, and never {CARD_PATH}"))


def _order(seen: Seen) -> Iterator[Note]:
    """Compare the interfaces that were used of cards which have them in opposite orders, or have one twice."""
    for call in seen.calls:
        if "dead-interface" in call.options:
            found = "uses the second of two interfaces of one binding and version, and has not tried the first"
            yield Note(call, _unless(call.options in seen.dead, found))
    ranks = [(v, b) for v in VERSIONS for b in BINDINGS]
    calls = [c for c in seen.calls if c.binding != "GRPC"]  # whose requests do not say which card they belong to
    used = [{ranks.index(_place(c)) for c in calls if c.options == options} for options in ((), ("reversed",))]
    if not all(used):
        return
    usual, reverse = max(used[0]), min(used[1])
    # Who takes each where the other comes first supports both.
    if usual != reverse and ranks[reverse][0] == "1.0":
        one, other = (" ".join(ranks[rank]) for rank in (usual, reverse))
        yield Note(None, _unless(usual < reverse, f"uses {one} of a card that has {other} first, and the reverse"))


def _fallback(seen: Seen) -> Iterator[Note]:
    for card in dict.fromkeys(seen.dead):
        is_met = any(call.card == card for call in seen.calls)
        found = "gives up when the first interface of the card cannot be reached"
        yield Note(None, _unless(is_met, found), card=card)


def _changing(seen: Seen) -> dict[tuple[str, ...], list[CardRequest]]:
    """Return the requests for each card that changes, by its options."""
    found: dict[tuple[str, ...], list[CardRequest]] = {}
    for card in seen.cards:
        if "card-change" in card.options and card.path == CARD_PATH:
            found.setdefault(card.options, []).append(card)
    return found


def _card_again(seen: Seen) -> Iterator[Note]:
    cards = _changing(seen)
    for options in {c.options: None for c in seen.calls if c.outcome == "card-change"}:
        found = "goes on with the URLs of a card that is to be fetched again (no-cache)"
        yield Note(None, _unless(len(cards.get(options, ())) > 1, found), card=options)


def _card_conditional(seen: Seen) -> Iterator[Note]:
    for card in (again for requests in _changing(seen).values() for again in requests[1:]):
        # Otherwise it may be another client, which has no card yet.
        if card.before is None or card.before.outcome != "card-change":
            continue
        # no-cache asks for it anew on purpose (RFC 9111 §5.2.1.4).
        is_met = {"if-none-match", "if-modified-since"} & set(card.headers) or "cache-control" in card.headers
        yield Note(None, _unless(is_met, "fetches a card again without If-None-Match"), card=card.options)


def _card_unknown(seen: Seen) -> Iterator[Note]:
    if any("unknown-fields" in c.options for c in seen.cards) and seen.calls:
        is_met = any("unknown-fields" in call.card for call in seen.calls)
        yield Note(None, _unless(is_met, "makes no request after it has read a card with unknown members"))


def _extension(seen: Seen) -> Iterator[Note]:
    calls = [c for c in seen.calls if "extension" in c.options]
    declaring = [c for c in calls if EXTENSION in c.named_extensions]
    # A client need not know the extension; one that declares it once does.
    for call in calls if declaring else ():
        yield Note(
            call, _unless(call in declaring, "does not declare the required extension that it declares elsewhere")
        )


# -- notifications --


def _acknowledged(seen: Seen) -> Iterator[Note]:
    for sent in seen.notifications:
        if sent.kind != "forged":
            which = "a notification that comes again" if sent.kind == "again" else "a notification"
            found = f"its webhook answers {which} with {f'HTTP {sent.status}' if sent.status else 'nothing'}"
            yield Note(sent.call, _unless(200 <= sent.status < 300, found))


def _verified(seen: Seen) -> Iterator[Note]:
    for sent in seen.notifications:
        if sent.kind == "forged" and sent.status:
            found = f"its webhook answers a notification with wrong credentials with HTTP {sent.status}"
            yield Note(sent.call, _unless(sent.status >= 300, found))


def _config(call: Call) -> Mapping[str, Any] | None:
    """Return the push configuration that a call brings, as the client spelled it."""
    if call.operation.startswith("Create"):
        holder = as_object(call.params.get("config")) or call.params
        return as_object(holder.get("pushNotificationConfig", holder))
    inside = as_object(call.params.get("configuration"))
    return next((as_object(inside[name]) for name in PUSH_MEMBERS if inside.get(name)), None)


def _push_url(call: Call) -> str | None:
    if call.old_push:
        return f"sends a push configuration as {call.old_push}, which 1.0 does not have"
    config = _config(call)
    return None if config is None else _unless(config.get("url"), "sends a push configuration without a url")


def _push_token(call: Call) -> tuple[Any, Any]:
    config = _config(call) or {}
    return config.get("token") or as_object(config.get("authentication")).get("credentials"), id(call)


_RULES: Mapping[str, _Rule] = {
    **{f.__name__[1:]: _each(f) for f in (_version_sent, _tenant, _declared, _known_task, _push_url)},
    **{f.__name__[1:]: _each_sent(f) for f in (_role, _same_context, _own_context, _ended_task)},
    **{
        rule.__name__[1:]: rule
        for rule in (
            *(_follow_up, _polling, _resubscribing, _retry_after, _resending, _same_token, _redirected, _card_path),
            *(_order, _fallback, _extension, _card_again, _card_conditional, _card_unknown, _acknowledged, _verified),
        )
    },
    "message_members": _model("DM-003", "V03-DM-001"),
    "names": _model("DM-008", "V03-DM-007"),
    "kinds": _model("DM-012", ""),
    "contents": _model("PART-009", ""),
    "message_ids": _unique(_message_id, "sends two messages with the messageId {!r}"),
    "push_tokens": _unique(_push_token, "uses one token for several push configurations"),
    "event_streams": _compared((True, "stream", WRITINGS)),
    "unknown_members": _compared((False, "input", ["unknown-fields"]), (True, "stream", ["unknown-fields"])),
}
