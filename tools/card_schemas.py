"""Writes the JSON Schemas of agent cards: 1.0 from a2a-sdk's protobuf descriptors, 0.3 from a table.

Run ``python tools/card_schemas.py`` after a2a-sdk changed; a test compares the files with what
this writes. Unknown members are allowed everywhere, as the protocol demands.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pytest_a2a_bench import conformance
from pytest_a2a_bench.conformance.card.schema import FILES, PRESENCE

Schema = dict[str, Any]

_FOLDER = Path(conformance.__file__).parent / "data"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Numbers of protobuf's FieldDescriptor, which has no names for them in Python.
_STRING, _BOOL, _MESSAGE, _REPEATED = 9, 8, 11, 3

_V03_SCHEMES = {
    "apiKey": "APIKeySecurityScheme",
    "http": "HTTPAuthSecurityScheme",
    "oauth2": "OAuth2SecurityScheme",
    "openIdConnect": "OpenIdConnectSecurityScheme",
    "mutualTLS": "MutualTLSSecurityScheme",
}


def schema_v1_0() -> Schema:
    """Derive the schema of 1.0 cards from a2a-sdk's descriptors: types, field_behavior REQUIRED and oneofs."""
    from a2a.types import AgentCard

    definitions: dict[str, Schema] = {}
    _define(AgentCard.DESCRIPTOR, definitions)
    return _document("A2A 1.0 agent card", definitions)


def schema_v0_3() -> Schema:
    """Derive the schema of 0.3 cards from the table ``card_v0_3.fields.json``, for which no descriptor exists.

    In it ``NAME!`` is required; ``text`` is a string that may not be empty; ``[X]`` is an array, ``{X}`` a map.
    """
    table: dict[str, dict[str, str]] = json.loads(
        Path(__file__).with_name("card_v0_3.fields.json").read_text(encoding="utf-8")
    )
    definitions = {name: _v03_object(fields) for name, fields in table.items()}
    kinds = [
        {"if": {"properties": {"type": {"const": kind}}, "required": ["type"]}, "then": _reference(name)}
        for kind, name in _V03_SCHEMES.items()
    ]
    definitions["SecurityScheme"] = {
        "type": "object",
        "properties": {"type": {"enum": list(_V03_SCHEMES)}},
        "required": ["type"],
        "allOf": kinds,
    }
    definitions["SecurityRequirement"] = {"type": "object", "additionalProperties": _array({"type": "string"})}
    return _document("A2A 0.3 agent card", definitions)


def _document(title: str, definitions: dict[str, Schema]) -> Schema:
    ordered = dict(sorted(definitions.items()))
    return {"$schema": DIALECT, "title": title, **_reference("AgentCard"), "$defs": ordered}


def _define(message: Any, definitions: dict[str, Schema]) -> None:
    if message.name in definitions:
        # Messages refer to each other, and to themselves.
        return
    schema: Schema = {"type": "object", "properties": {}}
    definitions[message.name] = schema
    for field in message.fields:
        # json_name is the camelCase that ProtoJSON writes.
        schema["properties"][field.json_name] = _field(field, definitions)
    required = sorted(f.json_name for f in message.fields if _is_required(f))
    if required:
        schema["required"] = required
    # A proto3 "optional" is a oneof of one member, which says nothing about the others.
    choices = [o for o in message.oneofs if len(o.fields) > 1]
    if choices:
        schema["oneOf"] = [{"required": [f.json_name]} for f in choices[0].fields]


def _field(field: Any, definitions: dict[str, Schema]) -> Schema:
    required = _is_required(field)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        # A map is a message with key and value; only its value has a type of its own here.
        return {"type": "object", "additionalProperties": _single(field.message_type.fields[1], definitions)}
    # Newer protobufs replaced label by is_repeated.
    if field.label == _REPEATED if not hasattr(field, "is_repeated") else field.is_repeated:
        # What is REQUIRED and repeated must have an entry: protobuf cannot tell an empty list from none.
        return {**_array(_single(field, definitions)), **({"minItems": 1} if required else {})}
    one = _single(field, definitions)
    # Likewise for texts: a required one that is empty is not sent at all.
    if required and one.get("type") == "string":
        return {**one, "minLength": 1}
    return {**one, PRESENCE: True} if "type" in one and one["type"] != "object" and field.has_presence else one


def _single(field: Any, definitions: dict[str, Schema]) -> Schema:
    if field.type == _MESSAGE:
        # Struct is any object; its own definition would forbid most of them.
        if field.message_type.full_name == "google.protobuf.Struct":
            return {"type": "object"}
        _define(field.message_type, definitions)
        return _reference(field.message_type.name)
    return {_STRING: {"type": "string"}, _BOOL: {"type": "boolean"}}[field.type]


def _is_required(field: Any) -> bool:
    from google.api import field_behavior_pb2  # type: ignore[import-untyped,unused-ignore]

    behaviors = field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
    return field_behavior_pb2.FieldBehavior.Value("REQUIRED") in behaviors


def _v03_object(fields: dict[str, str]) -> Schema:
    schema: Schema = {
        "type": "object",
        "properties": {name.rstrip("!"): _v03_type(kind) for name, kind in fields.items()},
    }
    required = sorted(name[:-1] for name in fields if name.endswith("!"))
    return {**schema, "required": required} if required else schema


def _v03_type(kind: str) -> Schema:
    if kind.startswith("["):
        return _array(_v03_type(kind[1:-1]))
    if kind.startswith("{"):
        return {"type": "object", "additionalProperties": _v03_type(kind[1:-1])}
    if kind == "text":
        return {"type": "string", "minLength": 1}
    if "|" in kind:
        return {"enum": kind.split("|")}
    return {"type": kind} if kind in ("string", "boolean", "object") else _reference(kind)


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _reference(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def render(schema: Schema) -> str:
    """Return a schema as the text of its file."""
    return json.dumps(schema, indent=1) + "\n"


def main() -> None:
    """Write both files."""
    for version, schema in (("1.0", schema_v1_0()), ("0.3", schema_v0_3())):
        (_FOLDER / FILES[version]).write_text(render(schema), encoding="utf-8")


if __name__ == "__main__":
    main()
