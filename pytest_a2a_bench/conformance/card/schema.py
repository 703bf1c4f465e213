"""Read a card by the table of its members, each deviation from its shape under the rule that it breaks (pure).

A table (``data/card_*.fields.json``) has the members of each object and their types. ``NAME!`` is required, exactly one
of all ``NAME|`` must be there, ``*`` is any other member, and of an object with members ``NAME=VALUE`` the member NAME
must have one of these values, which says whose members are there too. A type is ``string``, ``text`` (not empty),
``boolean``, ``object`` (of any content), ``A|B`` (one of these strings), ``[X]`` (an array; ``[X]+`` is not empty),
``{X}`` (a map), or the name of an object; ``X?`` is one that is "optional" in the protobuf sense: set to its default is
not the same as unset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from pytest_a2a_bench.conformance import data
from pytest_a2a_bench.conformance.card.document import Ledger, Path, show
from pytest_a2a_bench.conformance.finding import Severity

FILES = {"1.0": "card_v1_0.fields.json", "0.3": "card_v0_3.fields.json"}

# A hostile card could have millions.
_MOST = 2000
_TYPES: Mapping[str, tuple[type, str]] = {
    "object": (dict, "an object"),
    "array": (list, "an array"),
    "string": (str, "a string"),
    "boolean": (bool, "true or false"),
}


class Deviation(NamedTuple):
    """One place where a card has another shape.

    :param kind: ``required``, ``type``, ``empty list``, ``empty text``, ``value`` or ``choice``.
    """

    kind: str
    path: Path
    found: str
    expected: str = ""
    fix: str = ""


class Members(NamedTuple):
    """The members of an object: name -> type, those that must be there, those of which one must be, and any other."""

    types: Mapping[str, str] = {}
    required: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    rest: str = ""


@cache
def load_table(version: str) -> Mapping[str, Mapping[str, str]]:
    """Return the table of one protocol version's card, ``1.0`` or ``0.3``: object -> member -> type."""
    found: dict[str, dict[str, str]] = data.load(FILES[version])
    return found


def members_of(kind: str, value: Mapping[str, Any], version: str) -> Members:
    """Return the members that an object of a type has; none for a type that is no object of the table."""
    tag = value.get("type")
    # What is cached must not grow with what cards say.
    is_known = isinstance(tag, str) and f"type={tag}" in load_table(version).get(kind, {})
    return _members(kind, tag if is_known else "", version)


@cache
def _members(kind: str, tag: str, version: str) -> Members:
    if kind.startswith("{"):
        return Members(rest=kind[1:-1])
    fields = dict(load_table(version).get(kind, {}))
    rest = fields.pop("*", "")
    values = [name.partition("=")[2] for name in fields if "=" in name]
    if values:
        inside = _members(fields.get(f"type={tag}", ""), "", version)
        # One member tells all of them apart.
        return inside._replace(types={**inside.types, "type": "|".join(values)}, required=(*inside.required, "type"))
    return Members(
        {name.rstrip("!|"): inner for name, inner in fields.items()},
        tuple(sorted(name[:-1] for name in fields if name.endswith("!"))),
        tuple(name[:-1] for name in fields if name.endswith("|")),
        rest,
    )


def item_of(kind: str) -> str:
    """Return the type of an array's elements; empty for a type that is no array."""
    return kind.rstrip("+")[1:-1] if kind.startswith("[") else ""


class _Reader:
    def __init__(self, version: str) -> None:
        self._version = version
        self.snake: list[Path] = []
        self.nulls: dict[Path, None] = {}
        self.deviations: list[Deviation] = []

    def read(self, value: Any, kind: str, path: Path) -> Any:
        kind = kind.removesuffix("?")
        name = path[-1] if path else "the card"
        if "|" in kind:
            values = kind.replace("|", ", ")
            if value not in kind.split("|"):
                found = f"{name} is {show(value)}"
                self._add("value", path, found, f"one of {values}", f"use one of {values}")
            return value
        wanted = "array" if item_of(kind) else "string" if kind == "text" else kind if kind in _TYPES else "object"
        python, words = _TYPES[wanted]
        if not isinstance(value, python):
            self._add("type", path, f"{name} is {show(value)}", f"{name} is {words}", f"make it {words}")
            return value
        if not value and (kind == "text" or kind.endswith("+")):
            self._add("empty text" if kind == "text" else "empty list", path, f"{name} is empty", "", "fill it in")
        if isinstance(value, list):
            return [self.read(inner, item_of(kind), (*path, i)) for i, inner in enumerate(value)]
        return self._object(value, members_of(kind, value, self._version), path) if isinstance(value, dict) else value

    def _object(self, value: Mapping[str, Any], members: Members, path: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, inner in value.items():
            name = key
            # ProtoJSON readers accept both spellings (section 5.5 demands to write camelCase); with both there, the
            # right one counts and the other is an unknown member.
            if key not in members.types and (camel := _camel(key)) in members.types and camel not in value:
                name = camel
                self.snake.append((*path, key))
            # ProtoJSON reads null as not set; only members that are known can be meant so.
            if inner is None and name in members.types:
                self.nulls[*path, key] = None
                continue
            kind = members.types.get(name, members.rest)
            result[name] = self.read(inner, kind, (*path, name)) if kind else inner
        for name in members.required:
            if name not in result:
                place = (*path, name)
                is_null = place in self.nulls
                fix = f'give "{name}" a value' if is_null else f'add "{name}"'
                found = f"{name} is {'null' if is_null else 'missing'}"
                self._add("required", place, found, f"{name} is present and set", fix)
        present = [name for name in members.choices if name in result]
        if members.choices and len(present) != 1:
            has = ", ".join(map(show, list(result)[:5])) or "no members"
            found = f"of several kinds at once: {', '.join(present)}" if present else f"of no known kind: it has {has}"
            expected = f"exactly one of {', '.join(members.choices)}"
            self._add(
                "choice", path, f"{path[-1]} is {found}", expected, "keep one" if present else _new_spelling(result)
            )
        return result

    def _add(self, kind: str, path: Path, found: str, expected: str, fix: str) -> None:
        if len(self.deviations) < _MOST:
            self.deviations.append(Deviation(kind, path, found, expected, fix))


def _new_spelling(scheme: Mapping[str, Any]) -> str:
    member = {
        "apiKey": "apiKeySecurityScheme",
        "http": "httpAuthSecurityScheme",
        "oauth2": "oauth2SecurityScheme",
        "openIdConnect": "openIdConnectSecurityScheme",
        "mutualTLS": "mtlsSecurityScheme",
    }.get(str(scheme.get("type")))
    return f'{{"type": ...}} is 0.3\'s form; 1.0 writes {{"{member}": {{...}}}}' if member else "add one"


def check_shape(raw: Any, version: str, ledger: Ledger) -> Any:
    """Record every deviation of a card from its shape, and return the card as a ProtoJSON reader reads it.

    That is without null members, and with camelCase names in place of snake_case ones.
    """
    reader = _Reader(version)
    card = reader.read(raw, "AgentCard", ())
    # Readers expect the card's order, what an object lacks before what is wrong in it.
    reader.deviations.sort(key=lambda d: [str(p) for p in (d.path[:-1] if d.kind == "required" else d.path)])
    for kind, path, found, expected, fix in reader.deviations:
        # MessageToDict drops an empty map, so that servers on protobuf SDKs cannot show that it was meant.
        severity: Severity | None = "warning" if kind == "required" and path[-1] == "scopes" else None
        ledger.add(rule_of(path, kind, version), path, found, expected=expected, fix=fix, severity=severity)
    for path in reader.snake:
        ledger.add("spelling", path, f"the member {show(path[-1])}", fix=f"rename it to {_camel(str(path[-1]))!r}")
    # A required member that is null is reported as missing.
    missing = {deviation.path for deviation in reader.deviations if deviation.kind == "required"}
    for path in reader.nulls:
        if path not in missing:
            ledger.add("null", path, f"{path[-1]} is null", fix="leave it out")
    return card


# Place of a deviation -> the rule that it breaks, inside of which; whatever is elsewhere is one of "text".
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


def rule_of(path: Path, kind: str, version: str) -> str:
    """Return the rule that a deviation breaks, by its place: an id, or a name that both versions have."""
    if version == "0.3":
        if path[:1] == ("supportsAuthenticatedExtendedCard",):
            return "extended card"
        if "security" in path:
            return "requirement"
        if "extensions" in path and kind != "type":
            return "extension"
    if kind == "type":
        return "type"
    if kind == "empty list":
        return "CARD-004"
    return _PLACES[version].get(str(path[0]), "text") if len(path) > 1 else "text"


def _camel(name: str) -> str:
    return re.sub(r"_([a-z0-9])", lambda m: m.group(1).upper(), name) if "_" in name else name
