"""Restore integers that became floats on the wire.

A 1.0 data part is a protobuf ``Value``, which knows only doubles: ``2`` arrives as ``2.0``. The tool's JSON Schema says
which of them were integers. It matters because tau2 hashes ``5`` and ``5.0`` differently: without it, playing the
reference solutions over 1.0 data parts solved 44 of airline's 50 tasks instead of all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from pytest_a2a_bench.translate.json_blocks import BROKEN, parse_json

# A schema may refer to itself, and an agent may nest as deep as it likes.
_MAX_DEPTH = 64


def restore_integers(value: Any, schema: Mapping[str, Any] | bool) -> Any:
    """Return a deep copy of a JSON value in which integral floats are integers where the schema allows an integer.

    Where the schema offers alternatives, those that the value cannot be are left out.
    """
    return _restore(value, (schema,), schema, 0)


def read_texts(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments that came as texts as their schema wants them: a text where it takes one, else what it says."""
    plain = _expand((schema,), arguments, schema)
    return {k: _read_text(v, _for_key(k, plain), schema) for k, v in arguments.items()}


def _read_text(text: Any, schemas: Sequence[Any], root: Any) -> Any:
    if not isinstance(text, str) or all(_fits(text, s, root, 0) for s in schemas):
        return text
    value = parse_json(text.strip())
    return value if value is not BROKEN and all(_fits(value, s, root, 0) for s in schemas) else text


def _restore(value: Any, schemas: Iterable[Any], root: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, float):
        whole = value.is_integer() and any(_allows_integer(s, value) for s in _expand(schemas, value, root))
        return int(value) if whole else value
    if isinstance(value, Mapping):
        plain = list(_expand(schemas, value, root))
        return {k: _restore(v, _for_key(k, plain), root, depth + 1) for k, v in value.items()}
    if isinstance(value, list):
        plain = list(_expand(schemas, value, root))
        return [_restore(v, _for_index(i, plain), root, depth + 1) for i, v in enumerate(value)]
    return value


def _expand(schemas: Iterable[Any], value: Any, root: Any) -> list[Mapping[str, Any]]:
    """Return every schema object that speaks about a value: references followed, combinations opened."""
    waiting = list(schemas)
    seen: set[int] = set()
    plain: list[Mapping[str, Any]] = []
    while waiting:
        schema = waiting.pop()
        if not isinstance(schema, Mapping) or id(schema) in seen:
            continue
        seen.add(id(schema))
        plain.append(schema)
        waiting.extend(_resolve(schema, root))
        waiting.extend(_branches(schema, "allOf"))
        for combiner in ("anyOf", "oneOf"):
            branches = _branches(schema, combiner)
            waiting.extend([b for b in branches if _fits(value, b, root, 0)] or branches)
    return plain


def _resolve(schema: Mapping[str, Any], root: Any) -> list[Any]:
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#"):
        return []
    target = root
    for step in unquote(reference[1:]).split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(target, Mapping) and key in target:
            target = target[key]
        elif isinstance(target, list) and key.isdecimal() and int(key) < len(target):
            target = target[int(key)]
        else:
            return []
    return [target]


def _branches(schema: Mapping[str, Any], combiner: str) -> list[Any]:
    branches = schema.get(combiner)
    return branches if isinstance(branches, list) else []


def _for_key(key: str, schemas: Iterable[Mapping[str, Any]]) -> list[Any]:
    found: list[Any] = []
    for schema in schemas:
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and key in properties:
            found.append(properties[key])
        elif "additionalProperties" in schema:
            found.append(schema["additionalProperties"])
    return found


def _for_index(index: int, schemas: Iterable[Mapping[str, Any]]) -> list[Any]:
    found: list[Any] = []
    for schema in schemas:
        items = schema.get("items")
        # Before 2020-12 a list in "items" was what "prefixItems" is now, and "additionalItems" came after it.
        first = items if isinstance(items, list) else schema.get("prefixItems")
        first = first if isinstance(first, list) else []
        rest = schema.get("additionalItems") if isinstance(items, list) else items
        found.append(first[index] if index < len(first) else rest)
    return [s for s in found if s is not None]


def _allows_integer(schema: Mapping[str, Any], value: float) -> bool:
    types = _types(schema)
    if "integer" in types:
        return True
    if "number" in types and _is_int(schema.get("multipleOf")):
        return True
    named = [*_sequence(schema.get("enum")), *([schema["const"]] if "const" in schema else [])]
    same = [v for v in named if v == value and not isinstance(v, bool)]
    return bool(same) and all(_is_int(v) for v in same)


def _types(schema: Mapping[str, Any]) -> Sequence[Any]:
    types = schema.get("type", ())
    return (types,) if isinstance(types, str) else _sequence(types)


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# --- can a value be meant by a branch? --------------------------------------------------------------------------------


def _fits(value: Any, schema: Any, root: Any, depth: int) -> bool:
    """Tell whether a value, its integers taken for floats, can be what a schema describes."""
    if schema is False:
        return False
    if depth > _MAX_DEPTH or not isinstance(schema, Mapping):
        return True
    return (
        _fits_scalar(value, schema)
        and _fits_combination(value, schema, root, depth + 1)
        and (not isinstance(value, Mapping) or _fits_object(value, schema, root, depth + 1))
        and (not isinstance(value, list) or _fits_list(value, schema, root, depth + 1))
    )


def _fits_scalar(value: Any, schema: Mapping[str, Any]) -> bool:
    types = _types(schema)
    if types and not any(_is_of_type(value, t) for t in types):
        return False
    if "const" in schema and not _same(value, schema["const"]):
        return False
    choices = schema.get("enum")
    return not isinstance(choices, list) or any(_same(value, c) for c in choices)


def _is_of_type(value: Any, name: Any) -> bool:
    match name:
        case "integer":
            return _is_int(value) or (isinstance(value, float) and value.is_integer())
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "object":
            return isinstance(value, Mapping)
        case "array":
            return isinstance(value, list)
    return True


def _same(value: Any, expected: Any) -> bool:
    if isinstance(value, bool) or isinstance(expected, bool):
        return value is expected
    if isinstance(value, float) and isinstance(expected, int | float):
        return math.isclose(value, expected, rel_tol=0.0)
    return bool(value == expected)


def _fits_combination(value: Any, schema: Mapping[str, Any], root: Any, depth: int) -> bool:
    for target in (*_resolve(schema, root), *_branches(schema, "allOf")):
        if not _fits(value, target, root, depth):
            return False
    for combiner in ("anyOf", "oneOf"):
        branches = _branches(schema, combiner)
        if branches and not any(_fits(value, b, root, depth) for b in branches):
            return False
    return True


def _fits_object(value: Mapping[str, Any], schema: Mapping[str, Any], root: Any, depth: int) -> bool:
    if any(name not in value for name in _sequence(schema.get("required"))):
        return False
    return all(_fits(v, s, root, depth) for k, v in value.items() for s in _for_key(k, (schema,)))


def _fits_list(value: list[Any], schema: Mapping[str, Any], root: Any, depth: int) -> bool:
    return all(_fits(v, s, root, depth) for i, v in enumerate(value) for s in _for_index(i, (schema,)))
