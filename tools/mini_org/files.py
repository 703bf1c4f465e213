"""The mini org as the package has it: three files of compressed JSON, with its rows, its tasks and its distractor rows.

The bytes of the JSON are ours on every machine, and a test compares them. Those of a compressor (and of SQLite's pages)
depend on the version of its library, so nothing is compared there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from mini_org.near_misses import chosen_rows, near_misses, traps
from mini_org.org import TODAY, VERSION, MiniOrg, build
from mini_org.solve.shortcuts import SHORTCUTS
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg
from pytest_a2a_bench.benchmarks.crmarena.tasks import ROT, ROWS, TASKS, CrmTask

Rows = Mapping[str, Sequence[Mapping[str, Any]]]


def make_files() -> dict[str, bytes]:
    """Return the content of each file, by name."""
    org = build()
    extra = chosen_rows(near_misses(org.rows, org.tasks, org.schema, org.seed), sys.maxsize)
    return {
        ROWS: _json(_columns(org, org.rows)),
        TASKS: _json(
            {
                "name": f"mini-{VERSION}",
                "today": TODAY.isoformat(),
                "optional": org.tasks[0].optional,
                "tasks": [_task(task) for task in org.tasks],
            }
        ),
        ROT: _json(
            {
                "rows": _columns(org, extra),
                "shortcuts": {name: shortcut.says for name, shortcut in SHORTCUTS.items()},
                "traps": _traps(org, extra),
            }
        ),
    }


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _columns(org: MiniOrg, rows: Rows) -> dict[str, dict[str, list[Any]]]:
    """Return by object the columns that have a value in some row, and the rows as lists of these."""
    found: dict[str, dict[str, list[Any]]] = {}
    for sobject in org.schema.objects:
        made = rows.get(sobject.name, ())
        if made:
            used = [each.name for each in sobject.fields if any(row.get(each.name) is not None for row in made)]
            found[sobject.name] = {"columns": used, "rows": [[row.get(name) for name in used] for row in made]}
    return found


def _task(task: CrmTask) -> dict[str, Any]:
    twin = [task.twin.query, task.twin.answer, task.twin.secret] if task.twin else None
    return {
        "id": task.task_id,
        "query": task.query,
        "answers": list(task.answers),
        "persona": task.persona,
        "required": task.required,
        **({"twin": twin} if twin else {}),
    }


def _traps(org: MiniOrg, extra: Rows) -> dict[str, dict[str, str]]:
    rows = {name: [*made, *extra.get(name, ())] for name, made in org.rows.items()}
    with closing(LocalOrg.from_rows(rows, org.schema, name="rot", today=org.today)) as local:
        return traps(org.tasks, local.run)
