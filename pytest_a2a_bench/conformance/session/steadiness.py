"""Notices an agent that gives one request now a result and now none: what other findings are only consequences of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pytest_a2a_bench.a2a.bodies import as_object
from pytest_a2a_bench.conformance.finding import FOUND, CheckResult, Exchange
from pytest_a2a_bench.conformance.protocol.operations import SENDING
from pytest_a2a_bench.conformance.protocol.streams import canonical
from pytest_a2a_bench.conformance.wire.reply import (
    UNSET,
    NoAnswer,
    SkipCheck,
    WireReply,
    WireRequest,
    error_in,
    has_failed,
)

_LOOKS = 8
_LOOK_SECONDS = 5.0
# The last part of a method's name, of each binding and version.
_SENDS = frozenset({*SENDING, "send", "stream"})

Ask = Callable[[str, dict[str, Any], float], Awaitable[WireReply]]


class Cause(NamedTuple):
    """What makes an agent answer differently from time to time.

    :param group: of the requirements that it is said of first.
    :param explains: returns whether a result can be a consequence of it.
    """

    group: str
    found: str
    expected: str
    exchanges: tuple[Exchange, ...]
    explains: Callable[[CheckResult], bool]


@dataclass
class _Messages:
    """The answers to equal messages."""

    answers: int = 0
    failures: list[Exchange] = field(default_factory=list)
    recovered: Exchange | None = None


class Steadiness:
    """Looks at the answers of one interface: to equal messages, and about tasks that it has given out."""

    def __init__(self) -> None:
        self._messages: dict[str, _Messages] = {}
        self._lost: dict[str, Exchange] = {}

    def note(self, request: WireRequest, reply: WireReply, known: Container[str]) -> None:
        """Look at an answer to a valid request with the user's own credentials.

        :param known: ids of tasks that the agent has given out.
        """
        if request.auth is not True or request.body is not UNSET or "tenant" in request.params:
            return
        task_id = request.params.get("id") or request.params.get("taskId")
        if reply.may_be("TaskNotFoundError") and isinstance(task_id, str) and task_id in known:
            self._lost.setdefault(task_id, reply.exchange)
        message = as_object(request.params.get("message"))
        # Whether a message about a task or in a context is taken depends on that one; without parts none is valid.
        is_valid = all(map(message.get, ("messageId", "role", "parts")))
        if request.operation not in SENDING or {"taskId", "contextId"} & set(message) or not is_valid:
            return
        same = {**request.params, "message": {**message, "messageId": ""}, "operation": request.operation}
        seen = self._messages.setdefault(canonical(same), _Messages())
        seen.answers += 1
        if reply.is_breakdown:
            seen.failures.append(reply.exchange)
        elif reply.ok and seen.failures:
            seen.recovered = seen.recovered or reply.exchange

    def may_explain(self, result: CheckResult) -> bool:
        """Return whether a result can be a consequence of what this looks for."""
        return result.outcome in FOUND and bool(result.findings) and (_is_failure(result) or _is_about_tasks(result))

    async def causes(self, ask: Ask) -> list[Cause]:
        """Return the causes that there are; a task that was not found once is asked for again."""
        found = [seen for seen in self._messages.values() if seen.recovered is not None]
        causes = []
        if found:
            failed, asked = sum(len(seen.failures) for seen in found), sum(seen.answers for seen in found)
            what = f"an internal error for {failed} of {asked} ordinary messages, equal ones of which are answered"
            shown = (found[0].failures[0], *([found[0].recovered] if found[0].recovered else []))
            causes.append(Cause("send", what, "a result for each of them", shown, _is_failure))
        for task_id, lost in list(self._lost.items())[:2]:
            looks = [await _look(ask, task_id) for _ in range(_LOOKS)]
            there = [reply.exchange for reply in looks if reply is not None and reply.ok]
            if 0 < len(there) < _LOOKS:
                where = f"the task {task_id!r} is there in {len(there)} of {_LOOKS} calls of GetTask"
                what = f"{where}: several instances without a shared store?"
                causes.append(Cause("get-task", what, "the same task in every call", (lost, there[0]), _is_about_tasks))
                break
        return causes


async def _look(ask: Ask, task_id: str) -> WireReply | None:
    try:
        return await ask("GetTask", {"id": task_id}, _LOOK_SECONDS)
    except (SkipCheck, NoAnswer):
        return None


def _exchanges(result: CheckResult) -> list[Exchange]:
    return [exchange for finding in result.findings for exchange in finding.exchanges]


def _is_failure(result: CheckResult) -> bool:
    return any(has_failed(e) and e.method.rpartition("/")[2] in _SENDS for e in _exchanges(result))


def _is_about_tasks(result: CheckResult) -> bool:
    errors = map(error_in, _exchanges(result))
    return result.requirement.group == "list-tasks" or any(e and e.may_be("TaskNotFoundError") for e in errors)
