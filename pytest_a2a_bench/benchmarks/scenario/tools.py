"""The methods of an object as tools that an agent may call."""

from __future__ import annotations

import inspect
import json
from typing import Any

from pydantic import TypeAdapter

from pytest_a2a_bench.model import ToolCall, ToolReturned, ToolSpec
from pytest_a2a_bench.redact import one_line


def specs_of(world: object) -> tuple[ToolSpec, ...]:
    """Return the public methods: their names, docstrings, and JSON Schemas of their annotations."""
    return tuple(_spec(name, method) for name, method in _methods(world).items())


def carry_out(world: object, call: ToolCall) -> ToolReturned:
    """Call a method as an agent asks; what it may not be called with, and what it raises, are errors for the agent."""
    method = _methods(world).get(call.name)
    if method is None:
        return ToolReturned(call.id, call.name, f"Error: there is no tool {call.name!r}", error=True)
    try:
        arguments = inspect.signature(method).bind(**call.arguments).arguments
        hints = inspect.get_annotations(method, eval_str=True)
        read = {
            name: TypeAdapter(hints[name]).validate_python(value) if name in hints else value
            for name, value in arguments.items()
        }
        said = method(**read)
        return ToolReturned(call.id, call.name, said if isinstance(said, str) else json.dumps(said, default=str))
    except KeyboardInterrupt:
        raise
    # A tool of the project's own, which may also call pytest.fail: an agent gets it as any tool's error.
    except BaseException as error:
        return ToolReturned(call.id, call.name, f"Error: {one_line(str(error) or type(error).__name__)}", error=True)


def problems_of(kind: type) -> list[str]:
    """Say which public methods an agent could never call, as they do not name their parameters."""
    found = []
    for name, method in inspect.getmembers(kind, inspect.isroutine):
        if name.startswith("_"):
            continue
        kinds = {p.kind for p in inspect.signature(method).parameters.values() if p.name != "self"}
        if kinds - {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}:
            found.append(f"tools: {name} takes parameters without names, which nobody can be told about")
        if inspect.iscoroutinefunction(method):
            found.append(f"tools: {name} is async, and nothing awaits it; write it as a plain method")
    return found


def _methods(world: object) -> dict[str, Any]:
    names = (name for name, _ in inspect.getmembers(type(world), inspect.isroutine) if not name.startswith("_"))
    return {name: getattr(world, name) for name in names}


def _spec(name: str, method: Any) -> ToolSpec:
    hints = inspect.get_annotations(method, eval_str=True)
    properties, required = {}, []
    for parameter in inspect.signature(method).parameters.values():
        known = TypeAdapter(hints[parameter.name]).json_schema() if parameter.name in hints else {}
        properties[parameter.name] = known
        if parameter.default is inspect.Parameter.empty:
            required.append(parameter.name)
    schema = {"type": "object", "properties": properties, "required": required}
    return ToolSpec(name, inspect.getdoc(method) or "", schema)
