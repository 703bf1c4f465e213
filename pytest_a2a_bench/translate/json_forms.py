"""Tools, calls and what the agent said as JSON, and back; tools are OpenAI's function schemas in every dialect."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_a2a_bench.model import AgentSaid, ToolCall, ToolSpec


def tool_to_json(tool: ToolSpec) -> dict[str, Any]:
    """Write a tool as an OpenAI function schema."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def tools_to_text(tools: Sequence[ToolSpec]) -> str:
    """Write tools as indented JSON."""
    return json.dumps([tool_to_json(t) for t in tools], indent=2, ensure_ascii=False)


def tools_from_json(value: Any) -> tuple[ToolSpec, ...]:
    """Read a list of tools; what is no tool is left out."""
    return tuple(_tool(v) for v in value if _name_of(v)) if isinstance(value, list) else ()


def _function(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        return {}
    function = value.get("function", value)
    return function if isinstance(function, Mapping) else {}


def _name_of(value: Any) -> str:
    name = _function(value).get("name")
    return name if isinstance(name, str) else ""


def _tool(value: Any) -> ToolSpec:
    function = _function(value)
    description = function.get("description")
    parameters = function.get("parameters")
    return ToolSpec(
        _name_of(value),
        description if isinstance(description, str) else "",
        whole_numbers(parameters) if isinstance(parameters, Mapping) else {},
    )


def whole_numbers(value: Any) -> Any:
    """Copy a JSON Schema with its integral floats (``"maxLength": 5.0`` from a data part) as integers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {k: whole_numbers(v) for k, v in value.items()}
    if isinstance(value, list):
        return [whole_numbers(v) for v in value]
    return value


def call_to_json(call: ToolCall) -> dict[str, Any]:
    """Write a call as ``{"name", "arguments"[, "id"]}``."""
    written: dict[str, Any] = {"name": call.name, "arguments": call.arguments}
    return {**written, "id": call.id} if call.id else written


def said_to_json(said: AgentSaid) -> dict[str, Any]:
    """Write what the agent said as ``{"message"?, "tool_calls"?}``."""
    written: dict[str, Any] = {} if said.text is None else {"message": said.text}
    return {**written, "tool_calls": [call_to_json(c) for c in said.calls]} if said.calls else written


def said_from_json(value: Any) -> AgentSaid | None:
    """Read what :func:`said_to_json` wrote, or return None if it is something else."""
    if not isinstance(value, Mapping) or set(value) - {"message", "tool_calls"}:
        return None
    text = value.get("message")
    calls = value.get("tool_calls", [])
    if not isinstance(text, str | None) or not isinstance(calls, list):
        return None
    read = [_call(c) for c in calls]
    return AgentSaid(text, tuple(c for c in read if c is not None)) if None not in read else None


def _call(value: Any) -> ToolCall | None:
    if not isinstance(value, Mapping):
        return None
    name, arguments, call_id = value.get("name"), value.get("arguments"), value.get("id", "")
    if isinstance(name, str) and isinstance(arguments, Mapping) and isinstance(call_id, str):
        return ToolCall(name, dict(arguments), call_id)
    return None


def show_said(said: AgentSaid) -> str:
    """Write what the agent said, where it is sent back as history, on one line of JSON."""
    return json.dumps(said_to_json(said), ensure_ascii=False)


def read_said(text: str) -> AgentSaid | None:
    """Read what :func:`show_said` wrote."""
    try:
        return said_from_json(json.loads(text))
    except (ValueError, RecursionError):
        return None
