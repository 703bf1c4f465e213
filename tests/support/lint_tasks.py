"""A small task set in tau2's form, over the mock domain's tools, with one defect in each copy."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

DATABASE: dict[str, Any] = {
    "tasks": {
        "task_1": {"task_id": "task_1", "title": "Sweep", "description": "the floor", "status": "pending"},
        "task_2": {"task_id": "task_2", "title": "Paint", "description": "the door", "status": "pending"},
    },
    "users": {"user_1": {"user_id": "user_1", "name": "Ada", "tasks": ["task_1", "task_2"]}},
}


def action(name: str, requestor: str = "assistant", **arguments: Any) -> dict[str, Any]:
    """Return a gold action."""
    return {"action_id": name, "name": name, "requestor": requestor, "arguments": arguments}


UPDATE = action("update_task_status", task_id="task_1", status="completed")
INSTRUCTIONS = {
    "domain": "mock",
    "reason_for_call": "Your floor is swept: have it noted.",
    "task_instructions": "Be brief.",
}
CLEAN: dict[str, Any] = {
    "id": "clean",
    "user_scenario": {"instructions": INSTRUCTIONS},
    "evaluation_criteria": {"actions": [UPDATE], "communicate_info": [], "reward_basis": ["DB", "COMMUNICATE"]},
}


def task(name: str, *, scenario: str | None = None, initial: Any = None, **criteria: Any) -> dict[str, Any]:
    """Return the clean task under another name, changed."""
    made = copy.deepcopy(CLEAN)
    made["id"] = name
    made["evaluation_criteria"] |= criteria
    if scenario is not None:
        made["user_scenario"]["instructions"]["reason_for_call"] = scenario
    if initial is not None:
        made["initial_state"] = initial
    return made


def write_domain(directory: Path, tasks: list[Any], database: Any = None, **files: str) -> Path:
    """Write a domain's files, and return its directory."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "tasks.json").write_text(json.dumps(tasks))
    (directory / "db.json").write_text(json.dumps(DATABASE if database is None else database))
    for name, text in files.items():
        (directory / name.replace("__", ".")).write_text(text)
    return directory
