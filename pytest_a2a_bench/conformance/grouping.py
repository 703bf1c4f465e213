"""Group check results that have one cause: the worst is reported, the others are listed beneath it (pure).

Two results have one cause where the catalogue says that one follows from the other (:attr:`.Requirement.explains`), or
where the answers that they rest on have one shape: the same status, error or message, or the same header or member
ignored. The first of a group, the worst one, is the cause and names what it explains; the others become ``explained``
and count nowhere. A waived result stands alone: a defect must not disappear behind the waiver of another check.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pytest_a2a_bench.a2a.bodies import as_object
from pytest_a2a_bench.conformance.finding import ACTS, AS_VALID, CARD, FOUND, CheckResult, Exchange, Finding
from pytest_a2a_bench.conformance.protocol.operations import OPERATIONS, STREAMING
from pytest_a2a_bench.conformance.protocol.streams import MEMBERS
from pytest_a2a_bench.conformance.session.health import CARD_RULES, Cause
from pytest_a2a_bench.conformance.wire.exchange import is_late
from pytest_a2a_bench.conformance.wire.reply import error_in, has_failed
from pytest_a2a_bench.model.messages import json_object
from pytest_a2a_bench.results.stats import count
from pytest_a2a_bench.text import one_line

Key = tuple[Any, ...]
Alone = Callable[[CheckResult], bool]

# What differs between two findings of one defect: ids (an excerpt may end within one), numbers and times, addresses.
_VARIABLE = re.compile(
    r"https?://[^\s'\"),]+|\b[0-9a-f]{8}-(?:[0-9a-f-]{27}\b|[0-9a-f-]*(?=\.{3}))"
    r"|\b\d{4}-\d\d-\d\dT[\d:.]+Z?|\b[0-9a-f]{16,}\b|\d+",
    re.IGNORECASE,
)
_ANSWER = re.compile(r"status \S+ with .*", re.DOTALL)
_ERROR = re.compile(r"\berror (?:(\w+Error)|-?\d{3,}|[A-Z][A-Z_]+)\b.*", re.DOTALL)
_REFUSAL = re.compile(r"\w+Error\b|\berror\b|\brefus")
_CALL_ID = re.compile(r'"id": ?(?:\d+|"[^"]*"), ?(?="method")')
_SHORTENED = re.compile(r"\.\.\. \(\d+ more characters\)$")
_WRAPPER = re.compile(rf"/({'|'.join((*MEMBERS, 'msg'))})(?=/|$)")
_METHOD_URL = re.compile(r'the URL "([^"]+)" is the path of one method')
_METHOD_PATH = re.compile(r"(.*?/message:(?:send|stream))(?:/|$)")
_LOWER = frozenset({("SHOULD", "MUST"), ("MAY", "MUST"), ("MAY", "SHOULD")})
_JUDGED = ("failed", "warned")
# What a proxy says by itself of an agent behind it.
_GATEWAYS = (502, 503, 504)
_STREAMS = frozenset({*STREAMING, "stream", "resubscribe"})
_OLD_NAMES = {old: op.name for op in OPERATIONS.values() for old in (op.rpc03, op.grpc03[0])}
_UNTRUE = tuple(CARD_RULES.values())


_VERSION = "header A2A-Version"
_IGNORABLE = (_VERSION, "header A2A-Extensions", "header X-A2A-Extensions", "taskId of a message")


class _Kind(NamedTuple):
    """One way in which results can have the same cause.

    :param words: begins the finding of the cause; ``{}`` stands for the last part of the key.
    :param leaders: one of these requirements must be in the group, and is its cause; one such finding of it is enough.
    :param least: different requirements that it takes.
    """

    words: str = ""
    leaders: tuple[str, ...] = ()
    least: int = 1


_KINDS: Mapping[str, _Kind] = {
    "speech": _Kind("{}", _UNTRUE),
    "method path": _Kind("", ("CARD-009", "V03-CARD-013")),
    "no method": _Kind("operations are not there at all", ("JR-002", "GR-001", "V03-RPC-001")),
    "broken interface": _Kind("internal errors in place of answers", _UNTRUE),
    "silence": _Kind("answers take longer than the limit of time"),
    "gateway": _Kind("a gateway answers in the agent's place: {}"),
    "error event": _Kind("", ("STREAM-014",)),
    "breakdown": _Kind("valid requests are answered with an internal error"),
    "server error": _Kind("the server fails on bad input instead of refusing it"),
    **{f"the {name}": _Kind(f"the {name} is not looked at") for name in _IGNORABLE},
    "refused interface": _Kind("", _UNTRUE),
    "refusal": _Kind("one refusal, whatever is asked", least=2),
    "validation": _Kind("messages are not validated", least=3),
    "member": _Kind(),
    "place": _Kind(),
    "words": _Kind(),
}
"""From the widest cause to the narrowest; a cause may be a case of one that follows, on another binding."""


def _shapes(result: CheckResult, finding: Finding) -> Iterator[tuple[str, Key]]:
    """Yield the kinds of cause that a finding shows, each with the mark that it shares with others of the cause."""
    rule, version, pointer = result.requirement.id, result.requirement.version, finding.pointer
    here = version, result.binding
    if result.binding == CARD:
        if found := _METHOD_URL.search(finding.found):
            yield "method path", (version, found[1])
        # A leaked secret is shown, whatever else is wrong with that member.
        if pointer and rule != "CARD-017":
            yield "member", (pointer,)
    # How the answer looked on the wire differs from binding to binding.
    text = _VARIABLE.sub("#", _ANSWER.sub("an answer", _ERROR.sub(r"error \1", finding.found)))
    # An error is the same whatever was to be checked; a defect is one of a requirement.
    about = "" if result.outcome == "error" else rule
    # In 0.3 an object stands bare on JSON-RPC, and in a wrapper elsewhere.
    place = _VARIABLE.sub("#", pointer)
    yield "words", (version, about, text, _WRAPPER.sub("", place) if version == "0.3" else place)
    if not finding.exchanges:
        return
    last = finding.exchanges[-1]
    error = error_in(last)
    # Of HTTP+JSON such a path is the right one.
    if (rule in _UNTRUE or last.binding == "JSONRPC") and (found := _METHOD_PATH.match(last.url)):
        yield "method path", (version, found[1])
    if pointer and result.binding != CARD:
        yield "place", (*here, finding.found, pointer, last.request or last.url)
    if speech := _speech(last):
        yield "speech", (*here, speech)
    missing = ("", "UNIMPLEMENTED") if last.binding == "GRPC" else ("MethodNotFoundError", "")
    if error is not None and (error.name, error.grpc_status) == missing:
        yield "no method", here
    if result.outcome == "error" and is_late(last):
        yield "silence", (version,)
    said = version, _topic(last), _VARIABLE.sub("#", error.message) if error is not None else ""
    is_unknown = error is not None and error.may_be("TaskNotFoundError")
    if has_failed(last) and error is None and last.status in _GATEWAYS:
        of = "streams" if last.method.rpartition("/")[2] in _STREAMS else "calls"
        yield "gateway", (*here, f"HTTP {last.status} for {of}")
    if last.binding == "HTTP+JSON" and last.events and error is not None:
        yield "error event", here
    if has_failed(last):
        # Its rule fails by itself where a message is not answered, either.
        if rule not in _UNTRUE or finding.expected != AS_VALID:
            yield "broken interface", (version,)
        yield "breakdown", said
        if _REFUSAL.search(finding.expected):
            yield "server error", (version,)
    # A pointer is into the error itself, and a stream has more to it: that is about its form, as the group errors is.
    # An unknown task is the answer to an accepted request.
    is_form = bool(pointer or last.events or last.problem) or result.requirement.group == "errors"
    if said[-1] and not (has_failed(last) or is_unknown):
        yield "refused interface", (*here, said[-1])
        if not is_form:
            yield "refusal", said
    if error is None and not last.problem and rule.startswith("VAL-"):
        yield "validation", (version,)
    yield from ((f"the {name}", here) for name in _ignored(result, finding))


def _ignored(result: CheckResult, finding: Finding) -> Iterator[str]:
    """Yield the members of a request that had no effect on its answer."""
    if finding.exchanges[-1].problem:
        return
    if _is_other_task(finding.exchanges[-1]):
        yield _IGNORABLE[-1]
    own = [e for e in finding.exchanges if e.binding == result.binding]
    version = result.requirement.version
    # 0.3 knows no such header: there it is missing everywhere. 1.0.1 is 1.0 (section 3.6).
    if version != "0.3" and {".".join(_header(e, "a2a-version").split(".")[:2]) for e in own} - {"1.0"}:
        error = error_in(own[-1])
        if not own[-1].problem and (error is None or error.may_be("TaskNotFoundError")):
            yield _VERSION
    name = "X-A2A-Extensions" if version == "0.3" else "A2A-Extensions"
    # An agent that reads a list as one value does look at the header.
    sent = [value for e in own if (value := _header(e, name.lower()))]
    if result.requirement.group == "extensions" and sent and not any("," in value for value in sent):
        yield f"header {name}"


def _keys(result: CheckResult) -> dict[str, Key]:
    """Return the mark that a result shares with others of the same cause, by the kind of cause."""
    found = [dict(_shapes(result, finding)) for finding in weighty(result)]
    kinds = {kind for shapes in found for kind in shapes}
    # What the tests of others find neither hides nor worsens what ours do.
    is_acts = result.requirement.group == ACTS
    return {
        kind: (is_acts, *sorted({shapes[kind] for shapes in found if kind in shapes}))
        for kind in kinds
        if all(kind in shapes for shapes in found) or result.requirement.id in _KINDS[kind].leaders
    }


def _rank(result: CheckResult) -> tuple[Any, ...]:
    """Order possible causes: by level and outcome, and a check's own subject before problems on its way."""
    is_met = all(f.expected == AS_VALID for f in weighty(result))
    return result.requirement.level != "MUST", FOUND.index(result.outcome), is_met


def _is_cause(kind: str, result: CheckResult) -> bool:
    """Return whether a result shows the cause itself; a group in which none does has another cause."""
    if _KINDS[kind].leaders:
        return result.requirement.id in _KINDS[kind].leaders
    if kind == "breakdown":
        return not all(_REFUSAL.search(f.expected) for f in weighty(result))
    # A server that takes a missing version for its own, or 1.5 for 1.0, may well read the header.
    values = [_header(e, "a2a-version") for f in weighty(result) for e in f.exchanges]
    return kind != f"the {_VERSION}" or any(value and value.partition(".")[0] != "1" for value in values)


def fold(results: Iterable[CheckResult], stands_alone: Alone = lambda result: False) -> list[CheckResult]:
    """Return the results with consequences folded beneath their causes, in the order in which they came.

    :param stands_alone: returns whether a result may neither be a cause nor be explained, such as a waived one.
    """
    every = list(results)
    _fold_consequences(every, stands_alone)
    keys = [_keys(r) if r.outcome in FOUND and not stands_alone(r) else {} for r in every]
    for kind in _KINDS:
        groups: dict[Key, list[int]] = {}
        for number, result in enumerate(every):
            if kind in keys[number] and result.outcome in FOUND:
                groups.setdefault(keys[number][kind], []).append(number)
        for key, numbers in groups.items():
            ids = {every[n].requirement.id for n in numbers}
            causes = [n for n in numbers if _is_cause(kind, every[n])]
            if len(numbers) > 1 and len(ids) >= _KINDS[kind].least and causes:
                # A MUST before a SHOULD (the verdict goes by what is shown), then the worst.
                first = min(causes, key=lambda n: _rank(every[n]))
                if words := _KINDS[kind].words.format(key[-1][-1]):
                    head, *rest = every[first].findings
                    named = replace(head, found=f"{words}: {head.found}")
                    every[first] = replace(every[first], findings=(named, *rest))
                explain(every, first, numbers)
    _fold_differences(every, stands_alone)
    by_name = {result.name: result for result in every}
    shown = [_concluded(result, by_name, stands_alone) for result in every]
    # Checks that were not run because of a cause have no findings of their own.
    not_run = Counter(result.cause for result in shown if result.cause and not result.findings)
    return [
        replace(r, explains=(*r.explains, f"{count(not_run[r.name], 'check')} could not be made"))
        if r.outcome in FOUND and not_run[r.name]
        else r
        for r in shown
    ]


def _fold_consequences(every: list[CheckResult], stands_alone: Alone) -> None:
    """Fold findings that follow from another one on the same interface, or of its card, by the column ``explains``."""
    places: dict[str, list[int]] = {}
    for number, result in enumerate(every):
        places.setdefault(result.requirement.id, []).append(number)
    for first, cause in enumerate(tuple(every)):
        explains = cause.requirement.explains.items()
        for words, number in ((words, n) for words, ids in explains for id in ids for n in places.get(id, ())):
            pair = every[first], every[number]
            ranks = [FOUND.index(r.outcome) for r in pair if r.outcome in FOUND and not stands_alone(r)]
            # What is only a warning explains no failure, and an error explains nothing.
            is_one = cause.binding in (CARD, pair[1].binding) and number != first and pair[0].outcome in _JUDGED
            if is_one and len(ranks) == 2 and ranks[0] <= ranks[1]:
                found = [finding.found for finding in weighty(pair[1])] or [pair[1].reason]
                if all(re.search(words, text) for text in found):
                    explain(every, first, [number])


def explained(results: Sequence[CheckResult], causes: Mapping[tuple[str, str], Sequence[Cause]]) -> list[CheckResult]:
    """Return results of which those that have a common cause are explained by the first of them, which says so.

    :param results: in the order of the plan.
    :param causes: by binding and version of the interface.
    """
    every = list(results)
    for place, found in causes.items():
        for cause in found:
            here = [
                n
                for n, r in enumerate(every)
                if (r.binding, r.requirement.version) == place and r.outcome in FOUND and cause.explains(r)
            ]
            if not here:
                continue
            rules = {n: every[n].requirement for n in here}
            first = min(here, key=lambda n: (rules[n].level != "MUST", rules[n].group != cause.group))
            rule = rules[first]
            finding = Finding(rule.id, "error", cause.found, cause.expected, rule.spec, exchanges=cause.exchanges)
            every[first] = replace(every[first], outcome="failed", findings=(finding,), reason="", explains=())
            explain(every, first, here)
    return every


def weighty(result: CheckResult) -> list[Finding]:
    """Return the findings that are more than notes."""
    return [f for f in result.findings if f.severity != "note"]


def explain(every: list[CheckResult], first: int, numbers: Iterable[int]) -> None:
    """Fold other results beneath one, which becomes as bad as the worst: a MUST must not hide behind a SHOULD."""
    for number in numbers:
        cause, result = every[first], every[number]
        if number == first:
            continue
        worst = min(cause.outcome, result.outcome, key=FOUND.index)
        what = result.findings[0].found if result.findings else result.reason
        line = f"{result.requirement.id} [{result.binding}] {one_line(what, 100)}"
        every[first] = replace(cause, outcome=worst, explains=(*cause.explains, line, *result.explains))
        reason = f"explained by {cause.requirement.id} [{cause.binding}]"
        every[number] = replace(result, outcome="explained", reason=reason, cause=cause.name)


def _fold_differences(every: list[CheckResult], stands_alone: Alone) -> None:
    """Fold a difference between two bindings under the finding about one of them: the very request that differs."""
    places = {result.name: number for number, result in enumerate(every)}
    judged = [r for r in every if r.outcome in (*FOUND, "explained") and r.requirement.group != ACTS and r.findings]
    found = [r for r in judged if not stands_alone(r)]
    differ = [r for r in found if r.requirement.group == "equivalence"]
    about = {_request(f.exchanges[-1]): r for r in found if r not in differ for f in weighty(r) if f.exchanges}
    for result in differ:
        causes = [next((about[r] for e in f.exchanges if (r := _request(e)) in about), None) for f in weighty(result)]
        if result.outcome == "explained" or not causes or causes[0] is None or None in causes:
            continue
        place = places[causes[0].name]
        while every[place].cause in places:
            place = places[every[place].cause]
        # No MUST disappears behind a SHOULD.
        if (every[place].requirement.level, result.requirement.level) not in _LOWER:
            explain(every, place, [places[result.name]])


def _concluded(result: CheckResult, by_name: Mapping[str, CheckResult], stands_alone: Alone) -> CheckResult:
    """Return a result with the cause that is shown, which may have explained its own in turn.

    A check that was not run because of a cause which its own check did not find is an error.
    """
    while (above := by_name.get(result.cause)) is not None and above.cause:
        result = replace(result, cause=above.cause, reason=above.reason)
    if above is None or result.outcome != "explained" or result.findings:
        return result
    if above.outcome in FOUND:  # Behind a waived cause there is no defect that could be judged.
        return replace(result, outcome="skipped", cause="") if stands_alone(above) else result
    reason = f"{result.reason}; but {above.requirement.id} {above.outcome}, so that this was not judged"
    return replace(result, outcome="error", reason=reason, cause="")


# -- exchanges --


def _request(exchange: Exchange) -> Key:
    return exchange.binding, exchange.method, _CALL_ID.sub("", exchange.request or exchange.url)


def _header(exchange: Exchange, name: str) -> str:
    return next((value for key, value in exchange.request_headers.items() if key.lower() == name), "")


def _topic(exchange: Exchange) -> str:
    # A server that has no webhooks refuses all four operations, and messages with a configuration.
    is_push = "pushnotification" in f"{exchange.method} {exchange.request}".lower()
    method = exchange.method.rpartition("/")[2]
    return "push" if is_push else _OLD_NAMES.get(exchange.method, _OLD_NAMES.get(method, method))


def _speech(exchange: Exchange) -> str:
    """Return how an answer is none of the binding's; a server that fails may send anything."""
    if exchange.binding == "GRPC" or (exchange.status or 500) >= 500 or exchange.problem:
        return ""
    text = next(iter(exchange.events), "") or exchange.response
    try:
        document = json.loads(text)
    except RecursionError:
        return ""
    except ValueError:
        # Of a long one only the beginning is kept.
        return "the answers are not JSON" if text and not _SHORTENED.search(text) else ""
    is_envelope = not isinstance(document, Mapping) or bool({"jsonrpc", "result", "error"} & set(document))
    return "" if is_envelope or exchange.binding != "JSONRPC" else "the server does not speak JSON-RPC"


def _is_other_task(exchange: Exchange) -> bool:
    """Return whether a message that names a task was answered with another one."""
    asked = json_object(exchange.request)
    named = as_object(as_object(asked.get("params", asked)).get("message")).get("taskId")
    document = json_object(exchange.response or next(iter(exchange.events), ""))
    # In the envelope of JSON-RPC, or without.
    answer = as_object(document.get("result", document))
    task = as_object(answer.get("task", answer))
    return bool(named and "status" in task and task.get("id")) and named != task["id"]
