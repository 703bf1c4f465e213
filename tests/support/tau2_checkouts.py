"""Checkouts of tau2's data, made of the installed ones when a test runs."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_a2a_bench.benchmarks.tau2 import index

TITLE = "Another title, which this edition asks for"

Change = Callable[[dict[str, Any]], None]


def make_checkout(root: Path, change: Change | None = None, domain: str = "mock") -> Path:
    """Copy one domain of the installed data to where a checkout has it.

    :param change: changes a task in place; called for every task.
    """
    source = index.find_installation().data / "tau2"
    place = root / "data" / "tau2"
    shutil.copytree(source / "domains" / domain, place / "domains" / domain, dirs_exist_ok=True)
    shutil.copytree(source / "user_simulator", place / "user_simulator", dirs_exist_ok=True)
    if change is not None:
        change_tasks(root, change, domain)
    return root


def change_tasks(root: Path, change: Change, domain: str = "mock") -> None:
    """Change every task of a checkout's domain in place."""
    path = root / "data" / "tau2" / "domains" / domain / "tasks.json"
    tasks = json.loads(path.read_text())
    for task in tasks:
        change(task)
    path.write_text(json.dumps(tasks))


def retitled(task: dict[str, Any]) -> None:
    """Let ``create_task_1`` ask for, and its gold create, a task of another title."""
    if task["id"] == "create_task_1":
        [action] = task["evaluation_criteria"]["actions"]
        instructions = task["user_scenario"]["instructions"]
        task["user_scenario"]["instructions"] = str(instructions).replace(action["arguments"]["title"], TITLE)
        action["arguments"]["title"] = TITLE
