"""All faults by name, and the same in one place only: on one operation, about tasks in one state, on one binding.

An agent that forgets a rule everywhere is found by any check of it. These forget it where a check has to look for it.
Where they are tried is told by these members of ``data/faults.jsonl``:

* ``on`` and ``in``: the requirement that it breaks there, and on which operations, or about tasks in which states.
* ``alone``: the bindings on each of which it is tried; true for all that it has.
* ``old``: what it breaks in 0.3, where an agent can have it just so; ``old_in``: in which states alone.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from faulty.fault import ALL, NONE, Fault
from faulty.faults_errors import ACCESS_FAULTS, CODE_FAULTS, ERROR_FAULTS
from faulty.faults_old import OLD_FAULTS
from faulty.faults_send import SEND_FAULTS
from faulty.faults_stream import STREAM_FAULTS
from faulty.faults_tasks import PUSH_FAULTS, TASK_FAULTS

_DOES = {**SEND_FAULTS, **STREAM_FAULTS, **TASK_FAULTS, **PUSH_FAULTS, **ERROR_FAULTS, **ACCESS_FAULTS, **OLD_FAULTS}
"""Name -> what a fault does; those that only switch something in the agent's own code are not in it."""

_PLACES = ("on", "in", "alone", "old", "old_in")
# Everything else that JSON has as a list keeps its order.
_SETS = ("waive", "switches")


def _faults(row: dict[str, Any]) -> Iterator[Fault]:
    """Yield a fault as it is told, and then in one place only."""
    places = {name: row.pop(name, None) for name in _PLACES}
    for key, value in row.items():
        if isinstance(value, list):
            row[key] = frozenset(value) if key in _SETS else tuple(value)
    # Where only words are given the server's own code commits the fault, by its switches.
    fault = replace(_DOES.get(row["name"], NONE), **row)
    yield fault
    old = _placed(fault, "0.3", "in 0.3", breaks=(places["old"],), version="0.3") if places["old"] else None
    for rule, operations in (places["on"] or {}).items():
        for operation in operations:
            yield _placed(fault, operation, f"only on {operation}", breaks=(rule,), operations=(operation,))
    for each, states in (
        *((replace(fault, breaks=(rule,)), states) for rule, states in (places["in"] or {}).items()),
        *([(old, places["old_in"] or ())] if old else []),
    ):
        for state in states:
            yield _placed(each, state, f"only about tasks in {state}", states=(f"TASK_STATE_{state}",))
    for each in (fault, *([old] if old else [])):
        for binding in (b for b in ALL if b in each.bindings and places["alone"]):
            if places["alone"] is True or binding in places["alone"]:
                yield _placed(each, binding, f"only on {binding}", breaks=_breaks(each, binding), bindings=(binding,))
    if old:
        yield old


def _breaks(fault: Fault, binding: str) -> tuple[str, ...]:
    """Return what a fault breaks on one binding: some rules are of one binding."""
    own = {"ERR-003": "JSONRPC", "ERR-005": "HTTP+JSON", "ERR-006": "GRPC"}
    return tuple(rule for rule in fault.breaks if own.get(rule, binding) == binding)


def _placed(fault: Fault, suffix: str, where: str, **changes: Any) -> Fault:
    return replace(fault, name=f"{fault.name}@{suffix}", says=f"{fault.says.rstrip('.')}: {where}.", **changes)


_ROWS = (Path(__file__).parent / "data" / "faults.jsonl").read_text(encoding="utf-8").splitlines()
FAULTS: dict[str, Fault] = {
    fault.name: fault for fault in (*(f for row in _ROWS for f in _faults(json.loads(row))), *CODE_FAULTS)
}

SINGLE: dict[str, Fault] = {name: fault for name, fault in FAULTS.items() if "@" not in name}
"""The faults as they are told, everywhere at once."""

CROSSED: dict[str, Fault] = {name: fault for name, fault in FAULTS.items() if "@" in name}
"""The same in one place only, and those of 1.0 that 0.3 has, too."""
