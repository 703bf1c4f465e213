"""Writes the schemas of this project's files from the dataclasses that the files are read as.

Run ``python tools/stored_schemas.py`` after one of them changed; a test compares the files with what this
writes. A reader takes a file without many of its members; a schema says what the writer writes, and wants all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import DataclassSchema, WithDefaultSchema

from pytest_a2a_bench import schemas
from pytest_a2a_bench.model import Turn
from pytest_a2a_bench.model.results import FURTHER
from pytest_a2a_bench.results.store import adapter_of
from pytest_a2a_bench.schemas import FORMS, file_name

Schema = dict[str, Any]

TITLES: Mapping[str, str] = {
    "trial": "One trial: trials/NAME.json of a results directory",
    "run": "What a run was asked to do: run.json of a results directory",
    "verdict": "What the gates of a run said: verdict.json of a results directory",
    "breaker": "Why a run was stopped: breaker.json of a results directory",
    "history": "One line of a history, a run: --a2a-history-file",
    "decided": "Which trials a run need not hold any more: decided.json of a results directory",
    "baseline": "What an earlier run measured: a2a-bench gate --write-baseline",
    "cassette": "One trial's exchanges with the agent: --a2a-record",
    "card": "What an agent card was found to be: a2a-bench check --card --format json",
    "conformance": "What an agent was found to be: a2a-bench check --format json",
    "assessment": "One assessment, beside its run.json: assessment.json of a2a-bench assess",
}

_SPARSE = (Turn,)
"""Classes whose empty members are left out of files."""

_OPTIONAL = (*FURTHER, "agents", "comparisons", "gateway")
"""Members that only files of runs have with several agents, or with a gateway."""

_PARAM = re.compile(r":(?:param|ivar) (\w+): (.*?)(?=\n\s*:|\n\s*\n|\Z)", re.DOTALL)


class _AsWritten(GenerateJsonSchema):
    """pydantic's generator without what only its own models need, and with the fields' docstrings."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: WithDefaultSchema) -> Schema:
        return self.generate_inner(schema["schema"])

    def dataclass_schema(self, schema: DataclassSchema) -> Schema:
        cls = schema["cls"]
        made = super().dataclass_schema(schema)
        properties: dict[str, Schema] = made["properties"]
        for name, note in _PARAM.findall(cls.__doc__ or ""):
            if name in properties:
                properties[name]["description"] = " ".join(note.split())
        required = made.get("required", []) if cls in _SPARSE else list(properties)
        return {"type": "object", "required": required, "properties": properties}


def generate(name: str) -> Schema:
    """Return the schema of one kind of file.

    :raises KeyError: if there is none of that name.
    """
    form = FORMS[name]
    body = adapter_of(form.content).json_schema(schema_generator=_AsWritten)
    definitions = body.pop("$defs", {})
    if name == "trial":
        _complete_trial(body)
    body["required"] = [member for member in body["required"] if member not in _OPTIONAL]
    heads: Schema = {"schema": {"const": form.schema}} if form.schema else {}
    heads["schema_version"] = {"const": form.version}
    body["required"] = [*heads, *body["required"]]
    body["properties"] = heads | body["properties"]
    head = {"$schema": GenerateJsonSchema.schema_dialect, "$id": f"urn:pytest-a2a-bench:{name}:{form.version}"}
    return head | {"title": TITLES[name]} | body | ({"$defs": definitions} if definitions else {})


def _complete_trial(body: Schema) -> None:
    """Add what a trial's file says twice for people who read it with other tools, and no reader of ours needs."""
    properties = body["properties"]
    del properties["path"]  # where the file is, it does not say
    names = {name: {"type": "string"} for name in ("suite", "domain", "id")}
    properties["task"] = {"type": "object", "required": list(names), "properties": names}
    properties["trial"] = {"type": "integer", "minimum": 0}
    properties["reward"] = {"type": "number", "description": "reward_info.value; only of an evaluated trial"}
    properties["success"] = {"type": "boolean", "description": "whether it succeeded; only of an evaluated trial"}
    body["required"] = [n for n in body["required"] if n != "path"] + ["task", "trial"]
    body["if"] = {"properties": {"status": {"const": "evaluated"}}}
    body["then"] = {"required": ["reward", "success"], "properties": {"reward_info": {"type": "object"}}}
    body["else"] = {"properties": {"error": {"type": "string"}, "reward": False, "success": False}}


def to_text(schema: Schema) -> str:
    """Return a schema as the text of its file."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the files."""
    folder = Path(schemas.__file__).parent / "data"
    for name in FORMS:
        (folder / file_name(name)).write_text(to_text(generate(name)), encoding="utf-8")


if __name__ == "__main__":
    main()
