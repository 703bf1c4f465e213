"""What is known of corrections of tau2's tasks: which, by which edition, and of what kind. Facts of ours, no texts.

``corrections.json`` is made by ``tests/support/tau2_corrections.py`` from the editions themselves. A task is known by a
hash of what its outcome depends on, so that an old task is recognised wherever it is, and a corrected one is not.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

CORRECTING = ("gold", "communicate", "text")
"""Kinds of change that make another task of it; a reward basis alone asks the same."""

_WORDS = {
    "text": "text",
    "gold": "gold",
    "communicate": "what must be said",
    "basis": "reward basis",
    "state": "ends in another database",
}


@dataclass(frozen=True, slots=True)
class Correction:
    """That an edition has changed a task.

    :param edition: the one that has it right, e.g. ``tau2 1.0``.
    :param kinds: what differs: ``text``, ``gold``, ``communicate``, ``basis``; ``state`` where both golds,
        replayed, end in different databases.
    """

    edition: str
    kinds: tuple[str, ...]

    def __str__(self) -> str:
        what = "gold" if {"gold", "communicate"} & set(self.kinds) else "text"
        upstream = "upstream " if self.edition.startswith("tau2 ") else ""
        return f"{what} corrected {upstream}in {self.edition} ({', '.join(_WORDS.get(k, k) for k in self.kinds)})"


def corrections_of(domain: str, task: Mapping[str, Any]) -> tuple[Correction, ...]:
    """Return which editions are known to have corrected a task.

    :param task: as it is in tau2's data.
    """
    facts = _facts()["tasks"].get(domain, {}).get(str(task.get("id")))
    if not facts or facts["of"] != task_digest(task):
        return ()
    changes = {edition: tuple(kinds) for edition, kinds in facts["changed"].items()}
    return tuple(Correction(e, kinds) for e, kinds in changes.items() if set(kinds) & set(CORRECTING))


def edition_of(domain: str, digest: str) -> str:
    """Return the name of the edition whose files of a domain have this hash; empty for one that is not known."""
    return str(_facts()["editions"].get(domain, {}).get(digest, ""))


def task_digest(task: Mapping[str, Any]) -> str:
    """Return 16 hex digits of what makes a task this task: what the user is told, the beginning, and the gold.

    Absent, null and empty members are the same, and what only names or explains something does not count.
    """
    criteria = task.get("evaluation_criteria") or {}
    parts = [
        text_of(task),
        actions_of(criteria),
        criteria.get("communicate_info") or [],
        criteria.get("env_assertions") or [],
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def text_of(task: Mapping[str, Any]) -> list[Any]:
    """Return what a task tells its user and begins with."""
    return [_filled(task.get(name)) for name in ("user_scenario", "ticket", "initial_state")]


def actions_of(criteria: Mapping[str, Any]) -> list[list[Any]]:
    """Return a gold's actions, without what they are called and why they are there."""
    return [
        [a.get("requestor", "assistant"), a["name"], a.get("arguments") or {}, a.get("compare_args")]
        for a in criteria.get("actions") or []
    ]


def _filled(value: Any) -> Any:
    """Return a value without what is empty in it; None where nothing is left."""
    if isinstance(value, Mapping):
        return {name: v for name, each in value.items() if (v := _filled(each)) is not None} or None
    return None if value in ("", []) else value


def describe(corrected: Iterable[Correction]) -> str:
    """Say in one line what is known of a task."""
    return "; ".join(map(str, corrected))


@functools.cache
def _facts() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(files(__package__).joinpath("corrections.json").read_text(encoding="utf-8"))
    return found
