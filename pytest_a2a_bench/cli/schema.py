"""``a2a-bench schema NAME``: print the JSON Schema of one of our files, or check files against it.

Exits with 1 where a file is not as its schema says.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_a2a_bench.schemas import VERSIONS

_MOST = 5


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", choices=sorted(VERSIONS), metavar="NAME", help=", ".join(sorted(VERSIONS)))
    parser.add_argument("--check", nargs="+", type=Path, metavar="FILE", help="check these files instead of printing")


def run(namespace: Namespace) -> int:
    """Print, or check and say what is wrong."""
    import json

    from pytest_a2a_bench import schemas

    schema = schemas.load(namespace.name)
    if not namespace.check:
        print(json.dumps(schema, indent=1, ensure_ascii=False))
        return 0
    wrong = 0
    for path in namespace.check:
        found = _problems(path, schema)
        wrong += bool(found)
        for line in found:
            print(f"{path}: {line}")
    print(f"{len(namespace.check)} files checked against {schemas.file_name(namespace.name)}: {wrong} wrong")
    return int(wrong > 0)


def _problems(path: Path, schema: Mapping[str, Any]) -> list[str]:
    import json

    from jsonschema import Draft202012Validator

    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        return [f"cannot be read: {error.strerror or error}"]
    except (ValueError, RecursionError) as error:
        return [f"is not JSON: {error}"]
    errors = sorted(Draft202012Validator(schema).iter_errors(data), key=lambda e: list(map(str, e.absolute_path)))
    found = [f"/{'/'.join(map(str, e.absolute_path))}: {e.message[:200]}" for e in errors[:_MOST]]
    return found + ([f"and {len(errors) - _MOST} more"] if len(errors) > _MOST else [])
