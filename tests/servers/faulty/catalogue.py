"""All faults by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from faulty.crossed import crossed
from faulty.fault import NONE, Fault
from faulty.faults_access import ACCESS_FAULTS
from faulty.faults_errors import CODE_FAULTS, ERROR_FAULTS
from faulty.faults_old import OLD_FAULTS
from faulty.faults_send import SEND_FAULTS
from faulty.faults_stream import STREAM_FAULTS
from faulty.faults_tasks import PUSH_FAULTS, TASK_FAULTS

_DOES = {
    **SEND_FAULTS,
    **STREAM_FAULTS,
    **TASK_FAULTS,
    **PUSH_FAULTS,
    **ERROR_FAULTS,
    **ACCESS_FAULTS,
    **OLD_FAULTS,
}
"""Name -> what a fault does; those that only switch something in the agent's own code are not in it."""

# Everything else that JSON has as a list keeps its order.
_SETS = ("waive", "switches")


def _load() -> Iterator[Fault]:
    for line in (Path(__file__).parent / "data" / "faults.jsonl").read_text(encoding="utf-8").splitlines():
        message: dict[str, Any] = json.loads(line)
        for key, value in message.items():
            if isinstance(value, list):
                message[key] = frozenset(value) if key in _SETS else tuple(value)
        # Where only words are given the server's own code commits the fault, by its switches.
        yield replace(_DOES.get(message["name"], NONE), **message)


SINGLE: dict[str, Fault] = {fault.name: fault for fault in (*_load(), *CODE_FAULTS)}
"""The faults as they are told, everywhere at once."""

CROSSED: dict[str, Fault] = {fault.name: fault for fault in crossed(SINGLE)}
"""The same in one place only: on one operation, about tasks in one state, or on one binding; some of them in 0.3."""

FAULTS: dict[str, Fault] = {**SINGLE, **CROSSED}
