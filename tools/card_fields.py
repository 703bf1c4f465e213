"""Writes the table of the members of 1.0 agent cards from a2a-sdk's protobuf descriptors.

Run ``python tools/card_fields.py`` after a2a-sdk changed; a test compares the file with what this writes. The table of
0.3 is written by hand, as there are no descriptors of that version.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pytest_a2a_bench import conformance
from pytest_a2a_bench.conformance.card.schema import FILES

Table = dict[str, dict[str, str]]

# Numbers of protobuf's FieldDescriptor, which has no names for them in Python.
_STRING, _BOOL, _MESSAGE, _REPEATED = 9, 8, 11, 3


def fields_v1_0() -> Table:
    """Return the members of each object, in the notation of ``card/schema.py``."""
    from a2a.types import AgentCard

    table: Table = {}
    _add(AgentCard.DESCRIPTOR, table)
    return dict(sorted(table.items()))


def _add(message: Any, table: Table) -> None:
    if message.name in table:
        # Messages refer to each other, and to themselves.
        return
    fields = table[message.name] = {}
    # A proto3 "optional" is a oneof of one member, which says nothing about the others.
    choices = {f.json_name for o in message.oneofs if len(o.fields) > 1 for f in o.fields}
    for field in message.fields:
        # json_name is the camelCase that ProtoJSON writes.
        name = field.json_name
        sign = "!" if _is_required(field) else "|" if name in choices else ""
        fields[name + sign] = _kind(field, table)


def _kind(field: Any, table: Table) -> str:
    required = _is_required(field)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        # A map is a message with key and value; only its value has a type of its own here.
        return f"{{{_single(field.message_type.fields[1], table)}}}"
    # Newer protobufs replaced label by is_repeated.
    if field.label == _REPEATED if not hasattr(field, "is_repeated") else field.is_repeated:
        # What is REQUIRED and repeated must have an entry: protobuf cannot tell an empty list from none.
        return f"[{_single(field, table)}]{'+' if required else ''}"
    one = _single(field, table)
    # Likewise for texts: a required one that is empty is not sent at all.
    if required and one == "string":
        return "text"
    return f"{one}?" if one in ("string", "boolean") and field.has_presence else one


def _single(field: Any, table: Table) -> str:
    if field.type != _MESSAGE:
        return {_STRING: "string", _BOOL: "boolean"}[field.type]
    # Struct is any object; its own definition would forbid most of them.
    if field.message_type.full_name == "google.protobuf.Struct":
        return "object"
    _add(field.message_type, table)
    return str(field.message_type.name)


def _is_required(field: Any) -> bool:
    from google.api import field_behavior_pb2  # type: ignore[import-untyped,unused-ignore]

    behaviors = field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
    return field_behavior_pb2.FieldBehavior.Value("REQUIRED") in behaviors


def render(table: Table) -> str:
    """Return a table as the text of its file: a line for each object."""
    return "{\n" + ",\n".join(f" {json.dumps(name)}: {json.dumps(fields)}" for name, fields in table.items()) + "\n}\n"


def main() -> None:
    """Write the file."""
    path = Path(conformance.__file__).parent / "data" / FILES["1.0"]
    path.write_text(render(fields_v1_0()), encoding="utf-8")


if __name__ == "__main__":
    main()
