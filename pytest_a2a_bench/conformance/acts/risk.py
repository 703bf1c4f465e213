"""What a test of ACTS may do to an agent, told by its steps before anything is sent (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_a2a_bench.conformance.acts.asking import operation_of, placed
from pytest_a2a_bench.conformance.acts.document import Step, Test
from pytest_a2a_bench.conformance.protocol.operations import OPERATIONS

_PUSH = "pushnotificationconfig"


def is_safe(test: Test) -> bool:
    """Tell whether a test is for an agent in production: it sends nothing malformed and names no webhook."""
    return not is_rough(test) and not any(map(_names_webhook, test.steps))


def is_rough(test: Test) -> bool:
    """Tell whether a test may send what is malformed: what is not known to be well formed counts."""
    return any(step.raw is not None or not _is_well_formed(step) for step in test.steps)


def _names_webhook(step: Step) -> bool:
    operation = operation_of(step.operation, step.params) if step.operation is not None else ""
    # A message may bring one along in its configuration.
    return _PUSH in operation.lower() or _has_push(step.params)


def _has_push(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_PUSH in str(k).replace("_", "").lower() or _has_push(inner) for k, inner in value.items())
    return isinstance(value, list) and any(map(_has_push, value))


def _is_well_formed(step: Step) -> bool:
    if step.operation is None:
        return True
    operation = operation_of(step.operation, step.params)
    if operation not in OPERATIONS:
        return True
    # Who wants a refusal sends what deserves one.
    return step.expect_error is None and _fits(operation, placed(operation, step.params, "m"))


def _fits(operation: str, params: Mapping[str, Any]) -> bool:
    """Tell whether protobuf can hold parameters, with all that A2A requires; references stand for texts."""
    from a2a.types import a2a_pb2
    from google.protobuf import json_format

    message = getattr(a2a_pb2, OPERATIONS[operation].request)()
    try:
        json_format.ParseDict(params, message)
    # More than its own ParseError: TypeError and AttributeError for values of a wrong kind.
    except (json_format.ParseError, TypeError, AttributeError, ValueError, OverflowError, RecursionError):
        return False
    return _is_whole(message)


def _is_whole(message: Any) -> bool:
    from google.api import field_behavior_pb2  # type: ignore[import-untyped,unused-ignore]

    required = field_behavior_pb2.FieldBehavior.Value("REQUIRED")
    form, given = message.DESCRIPTOR, message.ListFields()
    there = {field.name for field, _ in given}
    for field in form.fields:
        if required in field.GetOptions().Extensions[field_behavior_pb2.field_behavior] and field.name not in there:
            return False
    # Those of optional fields begin so.
    if any(message.WhichOneof(one.name) is None for one in form.oneofs if not one.name.startswith("_")):
        return False
    # Structs of any content are nothing of A2A's.
    inner = [value for field, value in given if field.message_type is not None and field.message_type.file == form.file]
    return all(_is_whole(one) for value in inner for one in ([value] if hasattr(value, "ListFields") else value))
