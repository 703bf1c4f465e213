"""Writes the schemas of this project's files from the dataclasses that the files are made of.

Run ``python -m pytest_a2a_bench.schemas.generate`` after one of them changed; a test compares the files with what this
writes. What a file says otherwise than its dataclass (a key as text, empty members left out) is said here.
"""

from __future__ import annotations

import dataclasses
import json
import re
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pytest_a2a_bench.cassettes.form import Cassette
from pytest_a2a_bench.conformance import report
from pytest_a2a_bench.conformance.card import render
from pytest_a2a_bench.conformance.finding import Finding, Level
from pytest_a2a_bench.gates import judge
from pytest_a2a_bench.model import TrialResult, Turn
from pytest_a2a_bench.results import baseline
from pytest_a2a_bench.results.manifest import Manifest
from pytest_a2a_bench.schemas import VERSIONS, file_name

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
KEY: Schema = {
    "type": "string",
    "pattern": r"^[^/]+/[^/]+/(.|\n)+#[0-9]+(@[A-Za-z0-9_.-]+)?$",
    "description": "suite/domain/task#trial, with @label where one task is tested twice",
}
STRING: Schema = {"type": "string"}
STRINGS: Schema = {"type": "array", "items": STRING}
BOOLEAN: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}
OUTCOME: Schema = {"enum": list(get_args(judge.Outcome))}

_SPARSE = (Turn,)
"""Classes whose empty members are left out of files."""

_PARAM = re.compile(r":(?:param|ivar) (\w+): (.*?)(?=\n\s*:|\n\s*\n|\Z)", re.DOTALL)
_PLAIN: Mapping[Any, Schema] = {str: STRING, int: {"type": "integer"}, float: NUMBER, bool: BOOLEAN, Any: {}}


class _Definitions:
    """The schemas of dataclasses that others refer to."""

    def __init__(self) -> None:
        self.defs: dict[str, Schema] = {}

    def of(self, kind: Any) -> Schema:
        """Return the schema of a type."""
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            if kind.__name__ not in self.defs:
                self.defs[kind.__name__] = {}  # a class may contain itself
                self.defs[kind.__name__] = self.members(kind)
            return {"$ref": f"#/$defs/{kind.__name__}"}
        if kind in _PLAIN:
            return dict(_PLAIN[kind])
        origin, inner = get_origin(kind), get_args(kind)
        if origin is Literal:
            return {"enum": list(inner)}
        if origin in (Union, types.UnionType):
            return {"anyOf": [{"type": "null"} if i is types.NoneType else self.of(i) for i in inner]}
        if origin in (tuple, list):
            return {"type": "array", "items": self.of(inner[0])}
        if origin in (dict, Mapping) or origin is getattr(typing, "Mapping", None):
            return {"type": "object", "additionalProperties": self.of(inner[1])}
        raise TypeError(f"no JSON Schema is known for {kind!r}")

    def members(self, cls: type[Any]) -> Schema:
        """Return the schema of a dataclass as an object with all its fields."""
        hints, notes = get_type_hints(cls), _notes(cls)
        properties = {}
        for field in dataclasses.fields(cls):
            properties[field.name] = self.of(hints[field.name])
            if note := notes.get(field.name):
                properties[field.name]["description"] = note
        optional = cls in _SPARSE
        required = [
            f.name
            for f in dataclasses.fields(cls)
            if not optional or (f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING)
        ]
        return {"type": "object", "required": required, "properties": properties}


def generate(name: str) -> Schema:
    """Return the schema of one kind of file.

    :raises KeyError: if there is none of that name.
    """
    definitions = _Definitions()
    title, body = {
        "trial": _trial,
        "run": _run,
        "verdict": _verdict,
        "baseline": _baseline,
        "cassette": _cassette,
        "card": _card,
        "conformance": _conformance,
    }[name](definitions)
    version = VERSIONS[name]
    head: Schema = {"$schema": DIALECT, "$id": f"urn:pytest-a2a-bench:{name}:{version}", "title": title}
    body["required"] = ["schema_version", *body["required"]]
    body["properties"] = {"schema_version": {"const": version}, **body["properties"]}
    return {**head, **body, **({"$defs": dict(sorted(definitions.defs.items()))} if definitions.defs else {})}


def _trial(definitions: _Definitions) -> tuple[str, Schema]:
    body = definitions.members(TrialResult)
    del body["properties"]["path"]  # where the file is, it does not say
    body["required"].remove("path")
    properties = body["properties"]
    properties["key"] = KEY
    properties["task"] = _object(suite=STRING, domain=STRING, id=STRING)
    properties["trial"] = COUNT
    body["required"] += ["task", "trial"]
    properties["reward"] = {**NUMBER, "description": "reward_info.value; only of an evaluated trial"}
    properties["success"] = {**BOOLEAN, "description": "whether it succeeded; only of an evaluated trial"}
    evaluated = {"properties": {"status": {"const": "evaluated"}}}
    body["if"] = evaluated
    body["then"] = {"required": ["reward", "success"], "properties": {"reward_info": {"type": "object"}}}
    body["else"] = {"properties": {"error": {"type": "string"}, "reward": False, "success": False}}
    return "One trial: trials/NAME.json of a results directory", body


def _run(definitions: _Definitions) -> tuple[str, Schema]:
    body = definitions.members(Manifest)
    for name in ("keys", "whole"):
        described = body["properties"][name].get("description")
        body["properties"][name] = {"type": "array", "items": KEY, "description": described}
    return "What a run was asked to do: run.json of a results directory", body


def _verdict(definitions: _Definitions) -> tuple[str, Schema]:
    result = definitions.members(judge.GateResult)
    result["properties"] |= {"verdict": OUTCOME, "failed": BOOLEAN}
    result["required"].append("failed")
    missed = _object(key=KEY, nodeid=STRING, reward=NUMBER, transcript={"type": ["string", "null"]})
    trials = _object(reported=COUNT, succeeded=COUNT, missed=COUNT, skipped=COUNT, errors=COUNT, cut_short=BOOLEAN)
    body = _object(
        schema={"const": "a2a-bench/verdict"},
        run_id=STRING,
        verdict=OUTCOME,
        failed=BOOLEAN,
        inconclusive={"enum": ["pass", "fail"], "description": "what an inconclusive gate does"},
        errors={**COUNT, "description": "trials that could not be evaluated"},
        gates={"type": "array", "items": result},
        notes={**STRINGS, "description": "gates that were not judged, and why"},
        comparison={"type": ["object", "null"], "description": "with the baseline, task by task"},
        agent=_object(endpoint=STRING, name=STRING, interface=STRING),
        trials=trials,
        missed={"type": "array", "items": missed},
        quarantined=STRINGS,
    )
    return "What the gates of a run said: verdict.json of a results directory", body


def _baseline(definitions: _Definitions) -> tuple[str, Schema]:
    record = _object(outcomes={"type": "array", "items": {"enum": [0, 1]}}, errors=COUNT)
    names = {"type": "object", "additionalProperties": STRINGS}
    body = _object(
        schema={"const": baseline.SCHEMA},
        created_at=STRING,
        run_ids=STRINGS,
        measured={"type": "object", "additionalProperties": names, "description": "by suite/domain: what produced it"},
        tasks={"type": "object", "additionalProperties": record, "description": "by suite/domain/task, with @label"},
    )
    return "What an earlier run measured: a2a-bench promote", body


def _cassette(definitions: _Definitions) -> tuple[str, Schema]:
    body = definitions.members(Cassette)
    body["properties"]["key"] = KEY
    return "One trial's exchanges with the agent: --a2a-record", body


def _card(definitions: _Definitions) -> tuple[str, Schema]:
    body = _object(
        schema={"const": render.SCHEMA},
        source=STRING,
        versions=STRINGS,
        counts=_object(error=COUNT, warning=COUNT, note=COUNT),
        findings={"type": "array", "items": definitions.of(Finding)},
    )
    return "What an agent card was found to be: a2a-bench card --format json", body


def _conformance(definitions: _Definitions) -> tuple[str, Schema]:
    waiver = {**_object(reason=STRING, expired=BOOLEAN), "type": ["object", "null"]}
    result = _object(
        id=STRING,
        version=STRING,
        group=STRING,
        level={"enum": list(get_args(Level))},
        spec=STRING,
        requirement=STRING,
        binding={"type": ["string", "null"]},
        status={"enum": list(report.STATUSES)},
        reason=STRING,
        waiver=waiver,
        seconds=NUMBER,
        findings={"type": "array", "items": definitions.of(Finding)},
    )
    body = _object(
        schema={"const": report.SCHEMA},
        endpoint=STRING,
        agent=STRING,
        interfaces={"type": "array"},
        tool={"type": "object"},
        strict=BOOLEAN,
        seconds=NUMBER,
        counts={"type": "object", "additionalProperties": COUNT},
        levels={"type": "object", "additionalProperties": STRING},
        removable_waivers=STRINGS,
        results={"type": "array", "items": result},
    )
    return "What an agent was found to be: a2a-bench conformance --format json", body


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "required": list(properties), "properties": properties}


def _notes(cls: type[Any]) -> dict[str, str]:
    """Return what a class's docstring says about its fields."""
    return {name: " ".join(text.split()) for name, text in _PARAM.findall(cls.__doc__ or "")}


def to_text(schema: Schema) -> str:
    """Return a schema as the text of its file."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the files."""
    folder = Path(__file__).parent / "data"
    for name in VERSIONS:
        (folder / file_name(name)).write_text(to_text(generate(name)), encoding="utf-8")


if __name__ == "__main__":
    main()
