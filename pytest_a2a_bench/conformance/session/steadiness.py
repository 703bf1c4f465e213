"""Notices an agent that gives one request now a result and now none: what other findings are only consequences of."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pytest_a2a_bench.a2a.bodies import as_object
from pytest_a2a_bench.conformance.finding import FOUND, CheckResult, Exchange, Finding
from pytest_a2a_bench.conformance.grouping import has_failed, line_of
from pytest_a2a_bench.conformance.protocol.operations import SENDING
from pytest_a2a_bench.conformance.protocol.streams import canonical
from pytest_a2a_bench.conformance.wire.reply import UNSET, NoAnswer, SkipCheck, WireReply, WireRequest, error_in

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
        # Whether a message about a task or in a context is taken depends on that one.
        if request.operation not in SENDING or {"taskId", "contextId"} & set(message):
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
                what = (
                    f"the task {task_id!r} is there in {len(there)} of {_LOOKS} calls of GetTask: several instances "
                    "without a shared store?"
                )
                return [
                    *causes,
                    Cause("get-task", what, "the same task in every call", (lost, there[0]), _is_about_tasks),
                ]
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
            one, rest = every[first], [every[n] for n in here if n != first]
            rule = one.requirement
            finding = Finding(rule.id, "error", cause.found, cause.expected, rule.spec, exchanges=cause.exchanges)
            lines = tuple(map(line_of, rest))
            every[first] = dataclasses.replace(one, outcome="failed", findings=(finding,), reason="", explains=lines)
            reason = f"explained by {rule.id} [{one.binding}]"
            for n in here:
                if n != first:
                    every[n] = dataclasses.replace(every[n], outcome="explained", reason=reason, cause=one.name)
    return every
