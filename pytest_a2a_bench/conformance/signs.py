"""By what one sees that results have one cause: signs that several of them share (pure)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_a2a_bench.conformance.finding import CheckResult, Exchange, Finding
from pytest_a2a_bench.model.json_object import json_object

CARD = "card"
_SECRETS = "CARD-017"
# What differs between two findings of one defect: ids, numbers and times, addresses.
_VARIABLE = re.compile(
    r"https?://[^\s'\"),]+|\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b\d{4}-\d\d-\d\dT[\d:.]+Z?|\b[0-9a-f]{16,}\b|\d+",
    re.IGNORECASE,
)
_ANSWER = re.compile(r"status \S+ with .*", re.DOTALL)
_ERROR = re.compile(r"\berror (?:(\w+Error)|-?\d{3,}|[A-Z][A-Z_]+)\b.*", re.DOTALL)
_REFUSAL = re.compile(r"\w+Error\b|\berror\b|\brefus")
_BROKEN_GRPC = (2, 13)  # UNKNOWN, INTERNAL
_INTERNAL_ERROR = -32603
_NO_METHOD = -32601
_GET = ("GetTask", "tasks/get")
# An interface of the card is not what it says.
_UNTRUE = ("CARD-007", "V03-CARD-022")
_METHOD_URL = re.compile(r'the URL "([^"]+)" is the path of one method')
_SHORTENED = re.compile(r"\.\.\. \(\d+ more characters\)$")
# To such a URL HTTP+JSON adds paths of its own.
_METHOD_PATH = re.compile(r"(.*?/message:(?:send|stream))(?:/|$)")

Key = tuple[str, ...]
"""What the results of a group share; first the kind of the sign."""


def weighty(result: CheckResult) -> list[Finding]:
    """Return the findings that are more than notes."""
    return [f for f in result.findings if f.severity != "note"]


def _each_ends(result: CheckResult, in_what: Callable[[Exchange], bool]) -> bool:
    """Tell whether there are findings that weigh and each was made of such an exchange."""
    found = weighty(result)
    return bool(found) and all(f.exchanges and in_what(f.exchanges[-1]) for f in found)


def _by_syntax(result: CheckResult) -> Key:
    """Group what came of bodies that no parser of JSON can read."""
    return ("no JSON", result.requirement.version, result.binding) if _each_ends(result, _is_torn) else ()


def _by_method_path(result: CheckResult) -> Key:
    """Group an interface that does not answer and the card, whose URL is the path of one method."""
    if result.binding == CARD:
        told = [m for f in weighty(result) if (m := _METHOD_URL.search(f.found))]
    elif result.requirement.id in _UNTRUE:
        told = [m for f in weighty(result) if f.exchanges and (m := _METHOD_PATH.match(f.exchanges[-1].url))]
    else:
        return ()
    urls = {m.group(1) for m in told}
    return ("method path", result.requirement.version, *urls) if len(urls) == 1 else ()


def _by_forgetting(result: CheckResult) -> Key:
    """Group what shows that GetTask has no artifacts, though the task had some."""
    found = weighty(result)
    lacking = [
        f.exchanges
        and f.exchanges[-1].method in _GET
        and "/artifacts" in f.pointer
        and _has_no_artifacts(f.exchanges[-1])
        for f in found
    ]
    # A blocking result may differ from GetTask in its status, too; the stream is a case of it by its artifacts alone.
    is_one = any(lacking) if result.requirement.id == "SEND-003" else bool(lacking) and all(lacking)
    is_asked = result.requirement.id in ("SEND-003", "STREAM-016")
    return ("forgotten", result.requirement.version, result.binding) if is_asked and is_one else ()


def _by_envelope(result: CheckResult) -> Key:
    """Group what an interface shows that answers in JSON, and not in JSON-RPC: there is something else."""
    return ("no JSON-RPC", result.requirement.version, result.binding) if _each_ends(result, _is_foreign) else ()


def _by_method(result: CheckResult) -> Key:
    """Group what comes of operations that are not there at all."""
    is_one = _each_ends(result, lambda exchange: _error_of(exchange).get("code") == _NO_METHOD)
    return ("no method", result.requirement.version, result.binding) if is_one else ()


def _by_breakdown(result: CheckResult) -> Key:
    """Group internal errors of one operation in the same words, where a valid request is among the questions."""
    found = weighty(result)
    if not _each_ends(result, _is_server_error):
        return ()
    said = {(_topic(f.exchanges[-1]), _VARIABLE.sub("#", _message_of(f.exchanges[-1]))) for f in found}
    return ("breakdown", result.requirement.version, *next(iter(said))) if len(said) == 1 else ()


def _by_server_error(result: CheckResult) -> Key:
    """Group what was to be refused and made the server fail instead."""
    is_one = _each_ends(result, _is_server_error) and all(_REFUSAL.search(f.expected) for f in weighty(result))
    return ("server error", result.requirement.version) if is_one else ()


def _by_version(result: CheckResult) -> Key:
    """Group what shows that the header ``A2A-Version`` is not looked at: wrong or missing, and yet accepted."""
    # 0.3 knows no such header: there it is missing everywhere.
    return _by_header(result, "a2a-version", _is_other_version) if result.requirement.version != "0.3" else ()


def _by_extensions(result: CheckResult) -> Key:
    """Group what shows that the header of extensions is not looked at."""
    name = "x-a2a-extensions" if result.requirement.version == "0.3" else "a2a-extensions"
    return _by_header(result, name, bool) if result.requirement.group == "extensions" else ()


def _by_header(result: CheckResult, name: str, is_telling: Callable[[str], bool]) -> Key:
    found = weighty(result)
    is_one = bool(found) and all(
        (own := [e for e in f.exchanges if e.binding == result.binding])
        and any(is_telling(_header(e, name)) for e in own)
        and not _is_error(own[-1], name)
        for f in found
    )
    return (name, result.requirement.version, result.binding) if is_one else ()


def _by_task_id(result: CheckResult) -> Key:
    """Group what shows that the ``taskId`` of a message is not looked at: another task answers."""
    return ("taskId", result.requirement.version, result.binding) if _each_ends(result, _is_other_task) else ()


def _by_refusal(result: CheckResult) -> Key:
    """Group mistakes of one operation that are all refused in the same words, which are not those for any of them."""
    found = weighty(result)
    # A pointer is into the error itself: that is about its form. An unknown task is what an accepted request comes to.
    # And a server that fails says the same whatever the reason.
    if not found or any(f.pointer or not f.exchanges or not _is_refused(f.exchanges[-1]) for f in found):
        return ()
    said = {(_topic(f.exchanges[-1]), _VARIABLE.sub("#", _message_of(f.exchanges[-1]))) for f in found}
    topic, message = next(iter(said))
    return ("refusal", result.requirement.version, topic, message) if len(said) == 1 and message else ()


def _by_validation(result: CheckResult) -> Key:
    """Group mistakes in a message that are all accepted: nobody looks at messages."""
    is_one = result.requirement.id.startswith("VAL-") and _each_ends(result, _is_accepted)
    return ("validation", result.requirement.version) if is_one else ()


def _by_kind(result: CheckResult) -> Key:
    """Group what shows that 0.3's member ``kind`` is still there."""
    is_one = result.requirement.group != CARD and all(f.pointer.endswith("/kind") for f in result.findings)
    return ("kind", result.requirement.version, result.binding) if is_one and result.findings else ()


def _by_answer(result: CheckResult) -> Key:
    """Group what several requirements find in the same words at the same place of one answer."""
    found = weighty(result)
    if not found or result.binding == CARD or not all(f.exchanges and f.pointer for f in found):
        return ()
    said = sorted({part for f in found for part in (f.found, f.pointer, f.exchanges[-1].request)})
    return ("answer", result.requirement.version, result.binding, *said)


def _by_pointer(result: CheckResult) -> Key:
    """Group rules of the card that are broken by one and the same member of it."""
    pointers = {f.pointer for f in weighty(result)}
    # Who leaks a secret is told so, whatever else is wrong with that member.
    if result.binding != CARD or len(pointers) != 1 or not all(pointers) or result.requirement.id == _SECRETS:
        return ()
    return ("card", *pointers)


def _by_words(result: CheckResult) -> Key:
    """Group what was found in the same words, on other bindings or by other checks."""
    found = weighty(result)
    if not found:
        return ()
    said = {(_essence(f.found), _VARIABLE.sub("#", f.pointer)) for f in found}
    # An error is the same whatever was to be checked; a defect is one of a requirement.
    about = "" if result.outcome == "error" else result.requirement.id
    return ("words", result.requirement.version, about, *(part for pair in sorted(said) for part in pair))


def _essence(text: str) -> str:
    """Return what a finding says without what differs from binding to binding: how the answer looked on the wire."""
    return _VARIABLE.sub("#", _ANSWER.sub("an answer", _ERROR.sub(r"error \1", text)))


WORDS: Mapping[str, str] = {
    "no JSON": "what is answered is not JSON",
    "no JSON-RPC": "what is there does not speak JSON-RPC",
    "no method": "operations are not there at all",
    "forgotten": "GetTask has lost the artifacts",
    "taskId": "the taskId of a message is not looked at",
    "refusal": "one refusal, whatever is asked",
    "validation": "messages are not validated",
    "breakdown": "valid requests are answered with an internal error",
    "server error": "the server fails on bad input instead of refusing it",
    "a2a-version": "the header A2A-Version is not looked at",
    "a2a-extensions": "the header A2A-Extensions is not looked at",
    "x-a2a-extensions": "the header X-A2A-Extensions is not looked at",
}
"""What a group has in common, in the words of its cause."""


SIGNS: tuple[Callable[[CheckResult], Key], ...] = (
    *(
        _by_syntax,
        _by_envelope,
        _by_method_path,
        _by_method,
        _by_breakdown,
        _by_server_error,
        _by_version,
        _by_extensions,
    ),
    *(_by_task_id, _by_forgetting, _by_refusal, _by_validation, _by_kind, _by_pointer, _by_answer, _by_words),
)
"""From the widest cause to the narrowest; a cause may be a case of one that follows, on another binding."""


_LEADERS: Mapping[str, tuple[str, ...]] = {
    "no JSON": _UNTRUE,
    "no JSON-RPC": _UNTRUE,
    "method path": ("CARD-009", "V03-CARD-013"),
    "forgotten": ("SEND-003",),
    "no method": ("JR-002", "V03-RPC-001"),
    "kind": ("DM-012",),
}
"""Requirements that a group is a case of; without one of them there is none."""


_LEAST: Mapping[str, int] = {"refusal": 2, "validation": 3}
"""Different requirements that it takes to see a cause in what they have in common."""


def is_cause(key: Key, results: Sequence[CheckResult]) -> bool:
    """Tell whether what these results share is a cause, and no chance."""
    # One requirement on several bindings is told by its words.
    if len({r.requirement.id for r in results}) < _LEAST.get(key[0], 1):
        return False
    return any(leads(key, result) for result in results)


def leads(key: Key, result: CheckResult) -> bool:
    """Tell whether a result shows the cause itself.

    A server that takes a missing version for its own, or 1.5 for 1.0, may well look at the header; one that takes 99.0
    does not.
    """
    if key[0] in _LEADERS:
        return result.requirement.id in _LEADERS[key[0]]
    if key[0] == "breakdown":
        return not all(_REFUSAL.search(f.expected) for f in weighty(result))
    if key[0] != "a2a-version":
        return True
    values = [_header(e, key[0]) for f in weighty(result) for e in f.exchanges]
    return any(value and value.partition(".")[0] != "1" for value in values)


# -- exchanges --


def _header(exchange: Exchange, name: str) -> str:
    return next((value for key, value in exchange.request_headers.items() if key.lower() == name), "")


def _is_other_version(value: str) -> bool:
    # 1.0.1 is 1.0 (section 3.6); no header at all means 0.3.
    return ".".join(value.split(".")[:2]) != "1.0"


def _is_server_error(exchange: Exchange) -> bool:
    if exchange.binding == "GRPC":
        return exchange.status in _BROKEN_GRPC
    code = _error_of(exchange).get("code")
    return (
        code == _INTERNAL_ERROR if code is not None and exchange.binding == "JSONRPC" else (exchange.status or 0) >= 500
    )


def _is_error(exchange: Exchange, name: str) -> bool:
    """Tell whether a request was refused, other than for a task that nobody knows."""
    if name != "a2a-version":
        return False
    if exchange.problem:
        return True
    if exchange.binding == "GRPC":
        return exchange.status not in (0, 5)  # OK, NOT_FOUND
    return bool(_error_of(exchange)) and not _is_unknown_task(exchange)


def _is_accepted(exchange: Exchange) -> bool:
    refused = exchange.status != 0 if exchange.binding == "GRPC" else (exchange.status or 0) >= 400
    first = json_object(next(iter(exchange.events), ""))
    return not (refused or exchange.problem or _error_of(exchange) or "error" in first)


def _is_unknown_task(exchange: Exchange) -> bool:
    return _error_of(exchange).get("code") in (-32001, 404) or "TASK_NOT_FOUND" in exchange.response


def _is_foreign(exchange: Exchange) -> bool:
    """Tell whether a JSON-RPC request was answered with an object of JSON that is nothing of JSON-RPC's."""
    document = json_object(exchange.response)
    return exchange.binding == "JSONRPC" and bool(document) and not {"jsonrpc", "result", "error"} & set(document)


def _is_torn(exchange: Exchange) -> bool:
    """Tell whether something was answered that says nothing to a parser of JSON; a server that fails may say so."""
    if exchange.binding == "GRPC" or (exchange.status or 500) >= 500 or exchange.problem:
        return False
    text = next(iter(exchange.events), "") or exchange.response
    try:
        json.loads(text)
    except RecursionError:
        return False
    except ValueError:
        # Of a long one only the beginning is kept.
        return bool(text) and not _SHORTENED.search(text)
    return False


def _has_no_artifacts(exchange: Exchange) -> bool:
    answer = _result_in(exchange.response)
    return isinstance(answer, Mapping) and "status" in answer and not answer.get("artifacts")


def _is_other_task(exchange: Exchange) -> bool:
    """Tell whether a message that names a task was answered with another one."""
    asked: Any = json_object(exchange.request)
    asked = asked.get("params", asked)
    message = asked.get("message") if isinstance(asked, Mapping) else None
    named = message.get("taskId") if isinstance(message, Mapping) else None
    answer = _result_in(exchange.response or next(iter(exchange.events), ""))
    task = answer.get("task", answer) if isinstance(answer, Mapping) else None
    found = task.get("id") if isinstance(task, Mapping) and "status" in task else None
    return bool(named and found) and named != found


def _is_refused(exchange: Exchange) -> bool:
    return not (_is_unknown_task(exchange) or _is_server_error(exchange))


def _topic(exchange: Exchange) -> str:
    # A server that has no webhooks refuses all four operations.
    return "push" if "pushnotification" in exchange.method.lower() else exchange.method.rpartition("/")[2]


def _message_of(exchange: Exchange) -> str:
    message = (_error_of(exchange) or json_object(exchange.response)).get("message")
    return message if isinstance(message, str) else ""


def _error_of(exchange: Exchange) -> Mapping[str, Any]:
    error = json_object(exchange.response).get("error")
    return error if isinstance(error, Mapping) else {}


def _result_in(text: str) -> Any:
    """Return what an operation gave, in the envelope of JSON-RPC or without."""
    document = json_object(text)
    return document.get("result", document)
