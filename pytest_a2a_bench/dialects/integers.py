"""Restore integers that became floats on the wire.

A 1.0 data part is a protobuf ``Value``, which has doubles only: ``2`` arrives as ``2.0``. The tool's JSON Schema says
which of them were integers. It matters because tau2 hashes ``5`` and ``5.0`` differently: without it, playing the
reference solutions over 1.0 data parts solved 44 of airline's 50 tasks instead of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_a2a_bench.dialects.serialization import BROKEN, parse_json

# An agent may nest as deep as it likes, and this recurses.
_MAX_DEPTH = 64


def restore_integers(value: Any, schema: Mapping[str, Any] | bool) -> Any:
    """Return a deep copy of a JSON value in which integral floats are integers where the schema allows an integer.

    Alternatives in the schema that the value does not match are ignored.
    """
    return _Schema(schema).restore(value, (schema,))


def read_texts(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments that came as strings in the types of their schema; a string stays where it allows one."""
    root = _Schema(schema)
    plain = root.expand((schema,), arguments)
    return {k: root.read_text(v, _for_key(k, plain)) for k, v in arguments.items()}


class _Schema:
    """A JSON Schema whose parts are asked about values."""

    def __init__(self, root: Any) -> None:
        self._root = root

    def fits(self, value: Any, part: Any) -> bool:
        """Return whether a part of the schema allows a value; a part that cannot be evaluated allows all."""
        from jsonschema import Draft202012Validator  # 60 ms, for schemas with alternatives only
        from referencing import Registry

        try:
            return bool(Draft202012Validator(self._root, registry=Registry()).evolve(schema=part).is_valid(value))
        except Exception:  # a reference that is endless or leads nowhere, or no JSON Schema
            return True

    def _resolve(self, reference: Any) -> Any:
        from referencing import Registry
        from referencing.exceptions import Unresolvable
        from referencing.jsonschema import DRAFT202012

        try:
            resource = DRAFT202012.create_resource(self._root)
            return Registry().with_resource("", resource).resolver().lookup(reference).contents
        except (Unresolvable, ValueError, TypeError, AttributeError):
            return None

    def expand(self, parts: Iterable[Any], value: Any) -> list[Mapping[str, Any]]:
        """Return every schema object that applies to a value: references followed, combinations opened."""
        waiting = list(parts)
        seen: set[int] = set()
        plain: list[Mapping[str, Any]] = []
        while waiting:
            part = waiting.pop()
            if not isinstance(part, Mapping) or id(part) in seen:
                continue
            seen.add(id(part))
            plain.append(part)
            if "$ref" in part:
                waiting.append(self._resolve(part["$ref"]))
            waiting.extend(_sequence(part.get("allOf")))
            for branches in (_sequence(part.get("anyOf")), _sequence(part.get("oneOf"))):
                waiting.extend([b for b in branches if self.fits(value, b)] or branches)
        return plain

    def restore(self, value: Any, parts: Sequence[Any], depth: int = 0) -> Any:
        if depth > _MAX_DEPTH or not isinstance(value, float | Mapping | list):
            return value
        plain = self.expand(parts, value)
        if isinstance(value, float):
            whole = value.is_integer() and any(_allows_integer(s, value) for s in plain)
            return int(value) if whole else value
        if isinstance(value, Mapping):
            return {k: self.restore(v, _for_key(k, plain), depth + 1) for k, v in value.items()}
        return [self.restore(v, _for_index(i, plain), depth + 1) for i, v in enumerate(value)]

    def read_text(self, text: Any, parts: Sequence[Any]) -> Any:
        if not isinstance(text, str) or all(self.fits(text, p) for p in parts):
            return text
        value = parse_json(text.strip())
        return value if value is not BROKEN and all(self.fits(value, p) for p in parts) else text


def _for_key(key: str, plain: Iterable[Mapping[str, Any]]) -> list[Any]:
    found: list[Any] = []
    for part in plain:
        properties = part.get("properties")
        if isinstance(properties, Mapping) and key in properties:
            found.append(properties[key])
        elif "additionalProperties" in part:
            found.append(part["additionalProperties"])
    return found


def _for_index(index: int, plain: Iterable[Mapping[str, Any]]) -> list[Any]:
    found: list[Any] = []
    for part in plain:
        items = part.get("items")
        # Before 2020-12 a list in "items" was what "prefixItems" is now, and "additionalItems" came after it.
        first = _sequence(items if isinstance(items, list) else part.get("prefixItems"))
        rest = part.get("additionalItems") if isinstance(items, list) else items
        found.append(first[index] if index < len(first) else rest)
    return [s for s in found if s is not None]


def _allows_integer(part: Mapping[str, Any], value: float) -> bool:
    types = part.get("type")
    types = [types] if isinstance(types, str) else _sequence(types)
    if "integer" in types or ("number" in types and _is_int(part.get("multipleOf"))):
        return True
    same = [v for v in [*_sequence(part.get("enum")), part.get("const")] if v == value and not isinstance(v, bool)]
    return bool(same) and all(map(_is_int, same))


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
