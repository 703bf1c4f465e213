"""``a2a-bench schema NAME``: print the JSON Schema of one of our files, or check files against it.

Exits with 1 where a file is not as its schema says.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

from jsonschema import Draft202012Validator

from pytest_a2a_bench import schemas
from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.results.stored import JSON_FILE
from pytest_a2a_bench.schemas import FORMS

_MOST = 5


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", choices=sorted(FORMS), metavar="NAME", help=", ".join(sorted(FORMS)))
    parser.add_argument("--check", nargs="+", type=Path, metavar="FILE", help="check these files instead of printing")


def run(namespace: Namespace) -> int:
    """Print, or check and say what is wrong."""
    if not namespace.check:
        print(json.dumps(schemas.load(namespace.name), indent=1, ensure_ascii=False))
        return 0
    wrong = 0
    for path in namespace.check:
        found = _problems(path, namespace.name)
        wrong += bool(found)
        for line in found:
            print(f"{path}: {line}")
    print(f"{len(namespace.check)} files checked against {schemas.file_name(namespace.name)}: {wrong} wrong")
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
