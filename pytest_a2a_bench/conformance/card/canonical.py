"""The form of a card that is signed: protobuf's presence rules, then JCS (RFC 8785) (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from pytest_a2a_bench.conformance.card.schema import PRESENCE, load_schema
from pytest_a2a_bench.errors import MissingExtraError

Schema = Mapping[str, Any]


class Payload(NamedTuple):
    """One reading of what was signed.

    :param rule: the rule that this reading breaks; empty for the readings that the specification allows.
    """

    data: bytes
    rule: str
    how: str


def payloads(card: Mapping[str, Any]) -> Iterator[Payload]:
    """Yield the canonical form of a card, and then the forms that signers are known to use instead."""
    plain = {k: v for k, v in card.items() if k != "signatures"}
    root = _definition("AgentCard")
    seen: set[bytes] = set()
    forms: tuple[tuple[Callable[[], Any], str, str], ...] = (
        (lambda: _prune(plain, root, unknown=True), "", "the canonical form"),
        # Readers on protobuf never see unknown members, so that their signers cannot have signed any.
        (lambda: _prune(plain, root, unknown=False), "", "the canonical form without unknown members"),
        (lambda: plain, "SIGN-006", "the card with its optional default values left in"),
        (lambda: _without_empty(plain), "SIGN-006", "the card without any empty member, required ones included"),
        (
            lambda: _without_empty(_prune(plain, root, unknown=False)),
            "SIGN-006",
            "the card without any empty or unknown member, required ones included",
        ),
        (lambda: {**_prune(plain, root, unknown=True), "signatures": []}, "SIGN-005", "the card with empty signatures"),
    )
    for make, rule, how in forms:
        data = canonicalise(make())
        if data is not None and data not in seen:
            seen.add(data)
            yield Payload(data, rule, how)


def canonicalise(value: Any) -> bytes | None:
    """Return the JCS form; None for what has none (integers beyond 2**53, half surrogates).

    :raises MissingExtraError: if ``rfc8785`` is not installed.
    """
    try:
        import rfc8785
    except ImportError as error:
        raise MissingExtraError(
            "rfc8785", "signatures", detail="it writes the form of a card that is signed"
        ) from error
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, ValueError, RecursionError):
        return None


def _prune(value: Any, schema: Schema, *, unknown: bool) -> Any:
    """Drop members that have their default value, unless they are REQUIRED or "optional" in the protobuf sense."""
    schema = _resolve(schema)
    if isinstance(value, list):
        return [_prune(v, schema.get("items", {}), unknown=unknown) for v in value]
    if not isinstance(value, dict) or not ("properties" in schema or "additionalProperties" in schema):
        return value
    known, required = schema.get("properties", {}), schema.get("required", ())
    rest = schema.get("additionalProperties")
    result = {}
    for name, inner in value.items():
        if name in known:
            if inner is not None and (name in required or not _is_default(inner, known[name])):
                result[name] = _prune(inner, known[name], unknown=unknown)
        elif rest is not None or unknown:
            result[name] = _prune(inner, rest or {}, unknown=unknown)
    return result


def _is_default(value: Any, schema: Schema) -> bool:
    """Tell whether a field without presence holds its default; messages always have presence."""
    if schema.get(PRESENCE) or "$ref" in schema:
        return False
    is_map_or_array = "additionalProperties" in schema or schema.get("type") == "array"
    return (value in ("", False) and isinstance(value, (str, bool))) or (is_map_or_array and value in ([], {}))


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        pairs = ((k, _without_empty(v)) for k, v in value.items())
        return {k: v for k, v in pairs if not _is_empty(v)}
    if isinstance(value, list):
        return [v for v in map(_without_empty, value) if not _is_empty(v)]
    return value


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, (str, list, dict)) and not value)


def _definition(name: str) -> Schema:
    definitions: dict[str, Schema] = load_schema("1.0")["$defs"]
    return definitions[name]


def _resolve(schema: Schema) -> Schema:
    reference = schema.get("$ref")
    return _definition(reference.rpartition("/")[2]) if reference else schema
