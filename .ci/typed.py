"""The types of the public API are known to pyright, too: of every name that a user may import, and of its members.

pyright --verifytypes pytest_a2a_bench --ignoreexternal --outputjson | python .ci/typed.py
"""

from __future__ import annotations

import json
import pkgutil
import sys
from pathlib import Path

import pytest_a2a_bench

STORED = Path(__file__).resolve().parents[1] / "tests" / "project" / "public_api.json"


def public_names() -> set[str]:
    """Return the full names of what can be imported, each where it is defined."""
    offered = [f"{pytest_a2a_bench.__name__}.{name}" for name in pytest_a2a_bench.__all__ if name[0] != "_"]
    found = set()
    for path in [*offered, *json.loads(STORED.read_text(encoding="utf-8"))["documented"]]:
        one = pkgutil.resolve_name(path)
        found.add(f"{one.__module__}.{one.__qualname__}" if hasattr(one, "__qualname__") else path)
    return found


def main() -> int:
    """Say which types are not known, and return 1 if there are any, or nothing was looked at."""
    public, wrong = public_names(), 0
    seen: set[str] = set()
    for symbol in json.load(sys.stdin)["typeCompleteness"]["symbols"]:
        name = symbol["name"]
        holders = {holder for holder in public if name == holder or name.startswith(f"{holder}.")}
        seen |= holders
        if holders and (not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]):
            wrong += 1
            print(name, *(found["message"] for found in symbol["diagnostics"]), sep="\n  ")
    unseen = sorted(public - seen)
    print(f"{len(seen)} public names, {wrong} types of theirs not known{''.join(f'; not seen: {n}' for n in unseen)}")
    return 1 if wrong or unseen else 0


if __name__ == "__main__":
    sys.exit(main())
