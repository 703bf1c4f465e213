"""Schema drift: rename fields of an org, for agents that have memorised the usual names.

The engine itself knows the new names only: queries by the old ones are refused as INVALID_FIELD.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal

from pytest_a2a_bench.benchmarks.crmarena.org import Field, OrgSchema, SObject
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg

DriftLevel = Literal["low", "medium", "high"]
#: Which share of the fields that are no ids of their own record is renamed.
SHARES: dict[DriftLevel, float] = {"low": 0.1, "medium": 0.3, "high": 0.6}

_SYNONYMS = Path(__file__).parent / "data" / "synonyms.json"
#: For names without such a word.
_PREFIXES = ("Primary", "Record", "Current", "Main")


def drifted(org: LocalOrg, level: DriftLevel, seed: int = 0) -> LocalOrg:
    """Return an org with the same records in which some fields have other names.

    A reference takes the relationship with it (``OwnerId`` and ``Owner`` become ``AssigneeId`` and ``Assignee``); names
    of objects and of child relationships stay.

    :param level: how many fields are renamed, see :data:`SHARES`. A higher level renames a lower one's fields, too.
    :param seed: decides the fields and their new names.
    :returns: an org of its own: close it as well as the one that it was made of.
    """
    return LocalOrg(
        org.path,
        drift_schema(org.schema, level, seed),
        name=org.name,
        today=org.today,
        time_limit=org.time_limit,
        row_limit=org.row_limit,
    )


def drift_schema(schema: OrgSchema, level: DriftLevel, seed: int = 0) -> OrgSchema:
    """Return the schema after the renaming; the columns that it reads are the old names."""
    # Everything in one order, so that a share is always the same fields first.
    candidates = [(each.name, field.name) for each in schema.objects for field in each.fields if field.type != "id"]
    candidates.sort(key=lambda names: _draw(seed, *names))
    chosen = set(candidates[: round(len(candidates) * SHARES[level])])
    return OrgSchema(tuple(_drift_object(sobject, chosen, seed) for sobject in schema.objects))


def drift_text(text: str, before: OrgSchema, after: OrgSchema) -> str:
    """Return a text in which renamed fields and relationships have their new names.

    Only names that no ordinary word is written like (``ShippingState``, ``LeadId__c``) are taken for names. Where not
    all objects that have such a name renamed it alike, the text says which did: ``UnitPrice (in OrderItem: UnitCost)``.
    """
    renamed = _renamings(before, after)

    def new(match: re.Match[str]) -> str:
        name = match[0]
        # Nothing, or everything to the same name: no objects need to be named.
        by_object = renamed.get(name, {})
        if all(each == name for each in by_object.values()):
            return name
        if len(set(by_object.values())) == 1:
            return next(iter(by_object.values()))
        types = "; ".join(f"in {sobject}: {each}" for sobject, each in by_object.items() if each != name)
        return f"{name} ({types})"

    return _NAME.sub(new, text)


_NAME = re.compile(r"\b[A-Za-z]\w*(?:[a-z\d][A-Z]|__[cr]\b)\w*", re.ASCII)


def _renamings(before: OrgSchema, after: OrgSchema) -> dict[str, dict[str, str]]:
    """Return old name -> object -> the field's present name there."""
    objects = {sobject.name for sobject in before.objects}
    found: dict[str, dict[str, str]] = {}
    for old, new in zip(before.objects, after.objects, strict=True):
        for was, now in zip(old.fields, new.fields, strict=True):
            for one, other in ((was.name, now.name), (was.relationship, now.relationship)):
                # A relationship that is called like an object (Account) also stands in texts as a word.
                if one and other and one not in objects:
                    found.setdefault(one, {})[old.name] = other
    return found


def _draw(seed: int, *names: str) -> int:
    # A hash of the names, not the next number of a generator: no draw depends on those before it, so that what a low
    # level renames a high one renames alike.
    digest = hashlib.sha256("\0".join((str(seed), *names)).encode()).digest()
    return int.from_bytes(digest[:8])


def _drift_object(sobject: SObject, chosen: set[tuple[str, str]], seed: int) -> SObject:
    # Names have no case in queries, and fields and relationships share them.
    taken = {field.name.lower() for field in sobject.all_fields}
    taken |= {field.relationship.lower() for field in sobject.all_fields if field.relationship}
    fields = []
    for field in sobject.fields:
        if (sobject.name, field.name) not in chosen:
            # column=None: what is not renamed is stored under its own name.
            fields.append(replace(field, column=None))
            continue
        renamed = next(each for each in _names(field, seed) if not _spellings(each) & taken)
        taken |= _spellings(renamed)
        fields.append(renamed)
    return replace(sobject, fields=tuple(fields), hidden=tuple(replace(each, column=None) for each in sobject.hidden))


def _spellings(field: Field) -> set[str]:
    return {field.name.lower()} | ({field.relationship.lower()} if field.relationship else set())


def _names(field: Field, seed: int) -> Iterator[Field]:
    """Yield the field under ever other names, the one that the seed prefers first."""
    suffix = "__c" if field.custom else ""
    stem = field.name.removesuffix("__c").removesuffix("__C")
    is_id = field.type == "reference" and stem.lower().endswith("id")
    stem = stem[:-2] if is_id else stem
    # Words of CamelCase, capitals in a row being one (URLName).
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]*\d*|[a-z]+\d*|\d+", stem)
    for attempt in range(1_000):
        new = _rename(words, stem, _draw(seed, "name", field.name) + attempt)
        name = new + ("Id" if is_id else "") + suffix
        relationship = None
        if field.relationship:
            relationship = f"{new}{'Id' if is_id else ''}__r" if field.custom else new
        yield replace(field, name=name, relationship=relationship, column=field.name)


def _rename(words: list[str], stem: str, draw: int) -> str:
    known = [at for at, word in enumerate(words) if word.lower() in _synonyms()]
    # One in seven gets a prefix although a synonym is known: not every administrator translates.
    if known and draw % 7:
        at = known[draw % len(known)]
        options = _synonyms()[words[at].lower()]
        return "".join([*words[:at], options[draw // 7 % len(options)], *words[at + 1 :]])
    return _PREFIXES[draw // 7 % len(_PREFIXES)] + stem[:1].upper() + stem[1:]


@cache
def _synonyms() -> Mapping[str, Sequence[str]]:
    """Return words of field names with an administrator's possible names for the same thing."""
    found: Mapping[str, Sequence[str]] = json.loads(_SYNONYMS.read_text(encoding="utf-8"))
    return found
