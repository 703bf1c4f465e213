"""Protobuf messages as JSON, value for value what ``MessageToDict`` gives, at a third of its price.

Every answer over gRPC goes through here, and nearly all of them consist of texts, states and messages of these alone.
Whatever else a message holds (numbers, bytes, maps, protobuf's own types), ``MessageToDict`` writes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor

Write = Callable[[Any], Any]


class _Field(NamedTuple):
    """How one field is written.

    :param write: None where this is for ``MessageToDict`` to do, with the whole message.
    """

    name: str
    write: Write | None
    repeated: bool


def as_json(message: Any) -> dict[str, Any]:
    """Return what is set in a message, under its names in JSON.

    :raises google.protobuf.json_format.Error: if a value of it cannot be written.
    """
    found: dict[str, Any] = {}
    for descriptor, value in message.ListFields():
        name, write, repeated = _field(descriptor)
        if write is None:
            written: dict[str, Any] = json_format.MessageToDict(message)
            return written
        found[name] = [write(one) for one in value] if repeated else write(value)
    return found


@functools.cache
def _field(descriptor: FieldDescriptor) -> _Field:
    return _Field(descriptor.json_name, _writer(descriptor), descriptor.is_repeated)


def _writer(descriptor: FieldDescriptor) -> Write | None:
    if descriptor.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BOOL):
        return _itself
    if descriptor.type == FieldDescriptor.TYPE_ENUM and descriptor.enum_type.full_name != "google.protobuf.NullValue":
        names = {number: value.name for number, value in descriptor.enum_type.values_by_number.items()}
        # One that the declaration does not know stays a number.
        return lambda number: names.get(number, number)
    if descriptor.type != FieldDescriptor.TYPE_MESSAGE or descriptor.message_type.GetOptions().map_entry:
        return None
    own = descriptor.message_type.full_name.startswith("google.protobuf.")
    return json_format.MessageToDict if own else as_json


def _itself(value: Any) -> Any:
    return value
