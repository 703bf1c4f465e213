"""Try a reference solution out in an environment of its own, for built-in agents that play it with values they read."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator
from typing import Any

from pytest_a2a_bench.benchmarks.noise import Written, scalars
from pytest_a2a_bench.benchmarks.registry import Gold, Step
from pytest_a2a_bench.benchmarks.tau2.index import find_edition
from pytest_a2a_bench.benchmarks.tau2.upstream import begin, build_environment, load, read_task
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import ToolCall


def rehearse(domain: str, task_id: str, settings: Settings, gold: Gold) -> tuple[Step, ...]:
    """Return the calls of a solution with their answers; see :class:`.Player`."""
    edition = find_edition(settings)
    tau2 = load(with_llm=False, data=edition.data)
    task = read_task(tau2, domain, task_id, edition.data)
    environment, _ = build_environment(tau2, domain, task)
    begin(environment, task)
    return tuple(_Rehearsal(tau2, environment).steps(gold))


class _Rehearsal:
    def __init__(self, tau2: Any, environment: Any) -> None:
        self._tau2, self._environment = tau2, environment
        kit = environment.tools
        self._reads = [name for name in kit.tools if kit.tool_type(name).value == "read"]

    def steps(self, gold: Gold) -> Iterator[Step]:
        for call in gold.calls or gold.where_offered:
            is_read = call.name in self._reads
            wanted = {value for _, value in scalars(dict(call.arguments)) if isinstance(value, str)}
            looks = [] if is_read else list(self._looks(wanted))
            # A read that has an argument of the write: of what the write names itself, or of everything.
            for look, seen in looks:
                found = Written.read(seen)
                given = {value for _, value in scalars(dict(look.arguments))}
                if found is not None and wanted & {value for _, value in scalars(found.value)} - given:
                    yield Step(look, seen, is_read=True)
                    break
            answer = self._ask(call)
            yield Step(call, str(answer.content), is_read=is_read, is_gold=True)
            # One read is enough to see that a write was carried out.
            for look, seen in looks:
                if (after := str(self._ask(look).content)) != seen:
                    yield Step(look, after, is_read=True, before=seen)
                    break

    def _ask(self, call: ToolCall) -> Any:
        return self._environment.get_response(
            self._tau2.messages.ToolCall(id="1", name=call.name, arguments=dict(call.arguments))
        )

    def _looks(self, values: Collection[str]) -> Iterator[tuple[ToolCall, str]]:
        """Yield each read of one of some values, or of everything, that is not refused, with its answer."""
        for name in self._reads:
            needed = _required(getattr(self._environment.tools, name))
            if len(needed) > 1:
                continue
            for given in sorted(values) if needed else [""]:
                look = ToolCall(name, {needed[0]: given} if needed else {})
                answer = self._ask(look)
                if not answer.error:
                    yield look, str(answer.content)


def _required(tool: Any) -> list[str]:
    parameters = inspect.signature(tool).parameters.values()
    return [p.name for p in parameters if p.default is inspect.Parameter.empty]
