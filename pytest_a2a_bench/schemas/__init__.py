"""JSON Schemas (draft 2020-12) of the files that this project writes, for other tools that read them.

Each file says ``schema_version``; a schema's file is named after that version. A version changes where a reader of the
old form would misread the new one. Unknown members are allowed: they may be added without a new version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from pytest_a2a_bench.cassettes import CASSETTE
from pytest_a2a_bench.conformance.report import REPORT
from pytest_a2a_bench.results.assessments import RECORD
from pytest_a2a_bench.results.baseline import BASELINE
from pytest_a2a_bench.results.gates.files import VERDICT
from pytest_a2a_bench.results.history import HISTORY
from pytest_a2a_bench.results.manifest import RUN
from pytest_a2a_bench.results.store import TRIAL, StoredForm
from pytest_a2a_bench.trials.stopping import OPENED, SETTLED

FORMS: Mapping[str, StoredForm[Any]] = {
    "trial": TRIAL,
    "run": RUN,
    "verdict": VERDICT,
    "breaker": OPENED,
    "history": HISTORY,
    "decided": SETTLED,
    "baseline": BASELINE,
    "cassette": CASSETTE,
    "conformance": REPORT,
    "assessment": RECORD,
}
"""Name of a schema -> how files of that kind are read and written."""


def file_name(name: str) -> str:
    """Return the name of a schema's file."""
    return f"{name}.v{FORMS[name].version}.schema.json"


def load(name: str) -> dict[str, Any]:
    """Return a schema; raises KeyError if there is none of that name."""
    text = (files(__name__) / "data" / file_name(name)).read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
