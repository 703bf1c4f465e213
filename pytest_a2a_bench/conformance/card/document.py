"""A card's JSON with duplicate names and lines, and findings at their places in it (pure)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pytest_a2a_bench.a2a.bodies import as_list, parse_json
from pytest_a2a_bench.conformance.catalogue import requirement, rule_ids
from pytest_a2a_bench.conformance.finding import Exchange, Finding, Level, Severity
from pytest_a2a_bench.errors import ProtocolError

# -- findings --


_PER_RULE = 10
# A card may have values and names of any length, and a report must stay readable.
_SHOWN = 90
_SENTENCE = 600
_SEVERITIES: dict[Level, Severity] = {"MUST": "error", "SHOULD": "warning", "MAY": "note"}
_READ = 8192
_USERINFO = re.compile(r"(?<=://)[^/?#\s\"]*@")
# Parameters whose value is a credential, in URLs that stand anywhere in a text.
_SECRET_VALUE = re.compile(r"([?&][a-z_\-]*(?:key|token|secret|passw(?:or)?d|sig)=)[^&#\s\"]+", re.IGNORECASE)

Path = tuple[str | int, ...]


class Ledger:
    """Findings in the order in which they were made; at most ten of a rule, and a note on how many more there are.

    :param version: of the protocol, which decides the ids of rules that both have.
    """

    def __init__(self, version: str) -> None:
        self._version = version
        self._findings: list[Finding] = []
        self._places: set[tuple[str, str]] = set()
        self._counts: Counter[str] = Counter()

    def add(
        self,
        rule: str,
        path: Path,
        found: str,
        fix: str = "",
        severity: Severity | None = None,
        *,
        expected: str = "",
        exchanges: Iterable[Exchange] = (),
    ) -> None:
        """Record a finding; arguments that are not given come from the catalogue's entry of the rule.

        :param rule: an id, or the name of a rule that both versions have.
        """
        rule = rule_ids(self._version).get(rule, rule)
        pointer = to_pointer(path)
        # Two rules may find something at one place; one rule is reported there once.
        if (rule, pointer) in self._places:
            return
        self._places.add((rule, pointer))
        self._counts[rule] += 1
        if self._counts[rule] > _PER_RULE:
            return
        entry = requirement(rule)
        self._findings.append(
            Finding(
                rule=rule,
                severity=severity or _SEVERITIES[entry.level],
                found=_plain(found),
                expected=_plain(expected or entry.text),
                spec=entry.spec,
                pointer=pointer,
                fix=_plain(fix),
                exchanges=tuple(exchanges),
            )
        )

    def merge(self, other: Ledger) -> None:
        """Add another ledger's findings at places where this one has none."""
        # By place and not by rule: the other version has another id for the same defect.
        known = {pointer for _, pointer in self._places}
        for finding in other.findings():
            if finding.pointer not in known:
                self._places.add((finding.rule, finding.pointer))
                self._findings.append(finding)

    def findings(self) -> list[Finding]:
        """Return the findings."""
        more = [(rule, n - _PER_RULE) for rule, n in self._counts.items() if n > _PER_RULE]
        notes = [Finding(rule, "note", f"and {n} more of this kind", spec=requirement(rule).spec) for rule, n in more]
        return [*self._findings, *notes]


def to_pointer(path: Path) -> str:
    """Return a JSON pointer (RFC 6901)."""
    return "".join(f"/{_escape(str(p))}" for p in path)


def show(value: Any) -> str:
    """Return a value as bounded, printable JSON without the credentials that a URL in it may carry."""
    # A large value would hide the sentence that it is part of.
    if isinstance(value, (dict, list)) and len(value) > 20:
        return f"{'an object' if isinstance(value, dict) else 'an array'} of {len(value)} members"
    # Before it is cut: half a credential would not be recognised.
    if isinstance(value, str):
        value = _redact(value[:_READ])[: _SHOWN * 2]
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return f"a value of type {type(value).__name__}"
    # Again, for credentials inside of objects.
    text = _redact(text[:_READ])
    text = _printable(text[: _SHOWN + 1])
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _redact(text: str) -> str:
    return _SECRET_VALUE.sub(r"\1***", _USERINFO.sub("***@", text))


# ~ and / have a meaning in a pointer (RFC 6901 section 3).
def _escape(token: str) -> str:
    return _printable(token.replace("~", "~0").replace("/", "~1")[:_SHOWN])


def _plain(text: str) -> str:
    """Return a sentence that may have names of a card's members in it, printable and bounded."""
    shown = _printable(text[: _SENTENCE + 1])
    return shown if len(shown) <= _SENTENCE else f"{shown[:_SENTENCE]}..."


def _printable(text: str) -> str:
    # Shown, and not removed: control characters in a card are worth seeing.
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


# -- the document --


# Far deeper than the schema goes; extensions may have levels of their own.
MAX_DEPTH = 64
_MAX_DUPLICATES = 20
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)


class Document(NamedTuple):
    """A card's JSON, the names that an object in it has twice, and its text."""

    raw: Any
    duplicates: tuple[str, ...]
    text: str


def read_document(body: bytes | str) -> Document:
    """Parse a card's text.

    :raises ProtocolError: if it is not JSON; the message has the reason.
    """
    # The shared parser refuses what is no JSON; the second one looks at names alone.
    raw = parse_json(body)
    # utf-8-sig, as some editors put a byte order mark in front.
    text = body.decode("utf-8-sig") if isinstance(body, bytes) else body
    duplicates: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> None:
        counts = Counter(name for name, _ in pairs)
        # json keeps the last of two members silently; other parsers keep the first.
        if len(counts) != len(pairs) and len(duplicates) < _MAX_DUPLICATES:
            duplicates.extend(name for name, n in counts.items() if n > 1)

    try:
        json.loads(text, object_pairs_hook=note)
    except (ValueError, RecursionError) as error:  # parse_json accepted it, so that only depth can be the reason
        raise ProtocolError("nested too deeply") from error
    return Document(raw, tuple(duplicates[:_MAX_DUPLICATES]), text)


def lines_of(text: str) -> dict[str, int]:
    """Return JSON pointer -> line, from 1, on which the member (or element) of a JSON text begins.

    Malformed JSON, and JSON nested deeper than a card may be, has places up to that point.
    """
    found = {"": 1}
    # The name (or index) of the next value, in each object (or array) that is open.
    path: list[str | int] = []
    line, at = 1, 0
    is_name = False
    for token in _TOKEN.finditer(text):
        line, at = line + text.count("\n", at, token.start()), token.start()
        word = token[0]
        if word in "}]":
            path = path[:-1]
            is_name = False
        elif word == ",":
            if path and isinstance(path[-1], int):
                path[-1] += 1
            is_name = bool(path) and isinstance(path[-1], str)
        elif word == ":":
            is_name = False
        elif is_name:
            path[-1] = _name(word)
            found.setdefault(to_pointer(tuple(path)), line)
        else:
            found.setdefault(to_pointer(tuple(path)), line)
            if word in "{[":
                if len(path) >= MAX_DEPTH:
                    return found
                path.append("" if word == "{" else 0)
                is_name = word == "{"
    return found


def _name(word: str) -> str:
    try:
        return str(json.loads(word))
    except ValueError:
        return word


def texts(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield every string of a document with its place; only for documents that are not too deep."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from texts(inner, (*path, str(key)))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from texts(inner, (*path, index))


def objects(value: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the objects of an array with their indexes."""
    return ((i, v) for i, v in enumerate(as_list(value)) if isinstance(v, Mapping))
