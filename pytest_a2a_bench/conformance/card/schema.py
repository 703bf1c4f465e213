"""Check the shape of a card by JSON Schema, each violation under the rule that it breaks (pure)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any, NamedTuple

from pytest_a2a_bench.conformance.card.document import Ledger, Path, show
from pytest_a2a_bench.conformance.finding import Severity

FILES = {"1.0": "card_v1_0.fields.json", "0.3": "card_v0_3.fields.json"}
"""The members of each object of a card and their types, in the notation of :func:`schema_of`."""
PRESENCE = "x-presence"
"""Keyword of fields that are "optional" in the protobuf sense: set to their default is not the same as unset."""

# Each violation is kept as an object; a hostile card could have millions.
_MOST_ERRORS = 2000
_KINDS = {"object": "an object", "array": "an array", "string": "a string", "boolean": "true or false"}


class Normalised(NamedTuple):
    """A card as a ProtoJSON reader reads it: snake_case names renamed, null members left out."""

    card: Any
    snake: tuple[Path, ...]
    nulls: tuple[Path, ...]


@cache
def load_schema(version: str) -> dict[str, Any]:
    """Return the JSON Schema of one protocol version's card.

    :param version: ``1.0`` or ``0.3``.
    """
    table = json.loads((files("pytest_a2a_bench.conformance") / "data" / FILES[version]).read_text(encoding="utf-8"))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A2A {version} agent card",
        "$ref": "#/$defs/AgentCard",
        "$defs": {name: schema_of(fields) for name, fields in table.items()},
    }


def schema_of(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the JSON Schema of an object with these members, and any others.

    ``NAME!`` is required, exactly one of all ``NAME|`` must be there, and ``*`` is any member. ``NAME=VALUE`` has
    another object's name: where NAME has that value, its members are there too.
    """
    schema: dict[str, Any] = {"type": "object"}
    required = sorted(name[:-1] for name in fields if name.endswith("!"))
    if "*" in fields:
        schema["additionalProperties"] = _type_schema(fields["*"])
    elif any("=" in name for name in fields):
        kinds = [(*name.split("="), kind) for name, kind in fields.items()]
        # One member tells all of them apart.
        required = [kinds[0][0]]
        schema["properties"] = {required[0]: {"enum": [value for _, value, _ in kinds]}}
        schema["allOf"] = [
            {"if": {"properties": {name: {"const": value}}, "required": [name]}, "then": _type_schema(kind)}
            for name, value, kind in kinds
        ]
    else:
        schema["properties"] = {name.rstrip("!|"): _type_schema(kind) for name, kind in fields.items()}
    if required:
        schema["required"] = required
    if choices := [{"required": [name[:-1]]} for name in fields if name.endswith("|")]:
        schema["oneOf"] = choices
    return schema


def _type_schema(kind: str) -> dict[str, Any]:
    """Return the schema of a type.

    ``text`` is a string that is not empty, ``[X]`` an array, ``[X]+`` one that is not empty, ``{X}`` a map, ``A|B`` one
    of these strings, and ``X?`` a type whose default is not the same as no value (see :data:`PRESENCE`).
    """
    if kind.startswith("["):
        items = {"type": "array", "items": _type_schema(kind.rstrip("+")[1:-1])}
        return {**items, "minItems": 1} if kind.endswith("+") else items
    if kind.startswith("{"):
        return {"type": "object", "additionalProperties": _type_schema(kind[1:-1])}
    if kind.endswith("?"):
        return {**_type_schema(kind[:-1]), PRESENCE: True}
    if kind == "text":
        return {"type": "string", "minLength": 1}
    if "|" in kind:
        return {"enum": kind.split("|")}
    return {"type": kind} if kind in _KINDS else {"$ref": f"#/$defs/{kind}"}


def normalise(raw: Any, version: str) -> Normalised:
    """Return the card without null members, and with camelCase names in place of snake_case ones."""
    snake: list[Path] = []
    nulls: list[Path] = []
    card = _normalise(raw, load_schema(version), version, (), snake, nulls)
    return Normalised(card, tuple(snake), tuple(nulls))


def check_shape(normalised: Normalised, version: str, ledger: Ledger) -> None:
    """Record every violation of the schema."""
    errors = list(islice(_validator(version).iter_errors(normalised.card), _MOST_ERRORS))
    # jsonschema's order is that of its own tables; readers expect the card's.
    errors.sort(key=lambda e: [str(p) for p in e.absolute_path])
    missing: set[Path] = set()
    # One missing member is reported once, although several branches may miss it.
    for error in errors:
        path: Path = tuple(error.absolute_path)
        if error.validator == "required":
            # jsonschema reports one violation for each required name without saying which; the instance tells.
            for name in error.validator_value:
                place = (*path, name)
                if name not in error.instance and place not in missing:
                    missing.add(place)
                    _add_missing(place, place in normalised.nulls, version, ledger)
        else:
            _add_violation(path, error, version, ledger)
    _add_spelling(normalised, missing, ledger)


def _add_missing(place: Path, is_null: bool, version: str, ledger: Ledger) -> None:
    name = place[-1]
    fix = f'add "{name}"' if not is_null else f'give "{name}" a value'
    # MessageToDict drops an empty map, so that servers on protobuf SDKs cannot show that it was meant.
    severity: Severity | None = "warning" if name == "scopes" else None
    found = f"{name} is null" if is_null else f"{name} is missing"
    rule = rule_of(place, "required", version)
    ledger.add(rule, place, found, expected=f"{name} is present and set", fix=fix, severity=severity)


def _add_violation(path: Path, error: Any, version: str, ledger: Ledger) -> None:
    rule = rule_of(path, error.validator, version)
    name = path[-1] if path else "the card"
    if error.validator == "type":
        wanted = _KINDS.get(error.validator_value, str(error.validator_value))
        ledger.add(
            rule, path, f"{name} is {show(error.instance)}", expected=f"{name} is {wanted}", fix=f"make it {wanted}"
        )
    elif error.validator in ("minItems", "minLength"):
        ledger.add(rule, path, f"{name} is empty", fix="fill it in")
    elif error.validator == "enum":
        values = ", ".join(map(str, error.validator_value))
        ledger.add(
            rule, path, f"{name} is {show(error.instance)}", expected=f"one of {values}", fix=f"use one of {values}"
        )
    # The branches themselves say nothing that a reader could use, so the choice itself is reported.
    elif error.validator == "oneOf" and isinstance(error.instance, Mapping):
        _add_choice(rule, path, error, ledger)


def _add_choice(rule: str, path: Path, error: Any, ledger: Ledger) -> None:
    """Report that none, or several, of the members of a oneof are set."""
    # Each branch of the generated schema requires exactly one member.
    known = [branch["required"][0] for branch in error.validator_value]
    present = [k for k in known if k in error.instance]
    if present:
        found = f"{path[-1]} is of several kinds at once: {', '.join(present)}"
    else:
        found = (
            f"{path[-1]} is of no known kind: it has {', '.join(map(show, list(error.instance)[:5])) or 'no members'}"
        )
    ledger.add(rule, path, found, expected=f"exactly one of {', '.join(known)}", fix=_old_spelling(error.instance))


def _old_spelling(scheme: Mapping[str, Any]) -> str:
    member = {
        "apiKey": "apiKeySecurityScheme",
        "http": "httpAuthSecurityScheme",
        "oauth2": "oauth2SecurityScheme",
        "openIdConnect": "openIdConnectSecurityScheme",
        "mutualTLS": "mtlsSecurityScheme",
    }.get(str(scheme.get("type")))
    return f'{{"type": ...}} is 0.3\'s form; 1.0 writes {{"{member}": {{...}}}}' if member else "keep exactly one"


def _add_spelling(normalised: Normalised, missing: set[Path], ledger: Ledger) -> None:
    for path in normalised.snake:
        ledger.add("spelling", path, f"the member {show(path[-1])}", fix=f"rename it to {_camel(str(path[-1]))!r}")
    # A required member that is null is reported as missing.
    for path in normalised.nulls:
        if path not in missing:
            ledger.add("null", path, f"{path[-1]} is null", fix="leave it out")


# Place of a violation -> the rule that it breaks, inside of which; whatever is elsewhere is one of "text".
_PLACES: Mapping[str, Mapping[str, str]] = {
    "1.0": {
        "securitySchemes": "scheme",
        "signatures": "signature",
        "provider": "CARD-022",
        "supportedInterfaces": "CARD-006",
        "skills": "skill text",
    },
    "0.3": {"securitySchemes": "scheme", "signatures": "signature"},
}


def rule_of(path: Path, validator: str, version: str) -> str:
    """Return the rule that a violation of the schema breaks, by its place: an id, or a name that both versions have."""
    if version == "0.3":
        if path[:1] == ("supportsAuthenticatedExtendedCard",):
            return "extended card"
        if "security" in path:
            return "requirement"
        if "extensions" in path and validator != "type":
            return "extension"
    if validator == "type":
        return "type"
    if validator == "minItems":
        return "CARD-004"
    return _PLACES[version].get(str(path[0]), "text") if len(path) > 1 else "text"


@cache
def _validator(version: str) -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(load_schema(version))


def _normalise(
    value: Any, schema: Mapping[str, Any], version: str, path: Path, snake: list[Path], nulls: list[Path]
) -> Any:
    if isinstance(value, list):
        items = schema.get("items", {})
        return [_normalise(v, resolve(items, version), version, (*path, i), snake, nulls) for i, v in enumerate(value)]
    if not isinstance(value, dict):
        return value
    known = dict(_properties(schema, value, version))
    rest = schema.get("additionalProperties")
    result: dict[str, Any] = {}
    for key, inner in value.items():
        # ProtoJSON readers accept both spellings (section 5.5 demands to write camelCase).
        name = _camel(key)
        if key in known or name not in known:
            name = key
        # With both spellings there, the right one counts and the other is an unknown member.
        elif name not in value:
            snake.append((*path, key))
        else:
            name = key
        inside = known.get(name, rest)
        # ProtoJSON reads null as not set; only members that are known can be meant so.
        if inner is None and name in known:
            nulls.append((*path, key))
            continue
        place = (*path, name)
        result[name] = _normalise(inner, resolve(inside or {}, version), version, place, snake, nulls)
    return result


def _properties(
    schema: Mapping[str, Any], value: Mapping[str, Any], version: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the schema's members of an object, those of the matching kind of security scheme included."""
    schema = resolve(schema, version)
    yield from schema.get("properties", {}).items()
    for branch in schema.get("allOf", ()):
        # The type decides which members a security scheme of 0.3 has.
        if branch["if"]["properties"]["type"]["const"] == value.get("type"):
            yield from resolve(branch["then"], version).get("properties", {}).items()


def resolve(schema: Mapping[str, Any], version: str) -> Mapping[str, Any]:
    """Return a schema, or the definition that it refers to."""
    reference = schema.get("$ref")
    definitions: dict[str, Mapping[str, Any]] = load_schema(version)["$defs"]
    return definitions[reference.rpartition("/")[2]] if reference else schema


def _camel(name: str) -> str:
    return re.sub(r"_([a-z0-9])", lambda m: m.group(1).upper(), name) if "_" in name else name
