"""Print the JSON Schema of one of our files, or check files against it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from jsonschema import Draft202012Validator

from pytest_a2a_bench import schemas
from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError
from pytest_a2a_bench.results.stats import count
from pytest_a2a_bench.results.store import JSON_FILE
from pytest_a2a_bench.schemas import FORMS
from pytest_a2a_bench.text import did_you_mean

_MOST = 5


def run(name: str, files: Sequence[Path]) -> int:
    """Print the schema, or check files and say which are wrong."""
    if name not in FORMS:
        valid = sorted(FORMS)
        raise ConfigurationError(f"export schema: {name!r} is not one of {', '.join(valid)}{did_you_mean(name, valid)}")
    if not files:
        print(json.dumps(schemas.load(name), indent=1, ensure_ascii=False))
        return 0
    wrong = 0
    for path in files:
        found = _problems(path, name)
        wrong += bool(found)
        for line in found:
            print(f"{path}: {line}")
    print(f"{count(len(files), 'file')} checked against {schemas.file_name(name)}: {wrong} wrong")
    return int(wrong > 0)


def _problems(path: Path, name: str) -> list[str]:
    """Return what is wrong with a file, one line each."""
    try:
        data = JSON_FILE.read(path)
        errors = sorted(
            Draft202012Validator(schemas.load(name)).iter_errors(data), key=lambda e: list(map(str, e.absolute_path))
        )
        if not errors:  # what only our own reader refuses: numbers that are none, keys that do not fit
            FORMS[name].read(path)
    except FileNotFoundError as error:
        return [f"cannot be read: {error.strerror}"]
    except A2ABenchError as error:
        return [str(error).removeprefix(str(path)).lstrip(": ")]
    found = [f"/{'/'.join(map(str, e.absolute_path))}: {e.message[:200]}" for e in errors[:_MOST]]
    return found + ([f"and {len(errors) - _MOST} more"] if len(errors) > _MOST else [])
