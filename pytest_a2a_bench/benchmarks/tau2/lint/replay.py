"""Golds replayed as upstream's evaluator replays them, each on a fresh database that costs no parsing."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_a2a_bench.benchmarks.tau2.retrieval import WITHOUT_DOCUMENTS
from pytest_a2a_bench.benchmarks.tau2.upstream import Tau2, accepted, build_environment, paused_collector

_DATABASES = {"db": ("db.json", "db.toml"), "user_db": ("user_db.json", "user_db.toml")}
"""What constructors call a database -> the file that it is read from."""

Dump = Mapping[str, Any]


State = tuple[Dump, Dump]
"""The agent's and the user's database at one moment, as plain values."""


@dataclass(frozen=True, slots=True)
class Step:
    """One gold action, replayed.

    :param number: its place among the gold's actions, from 0.
    :param error: what it raised; empty where it did not.
    :param output: what its caller would have read.
    """

    number: int
    action: Any
    error: str = ""
    output: str = ""


class Replayer:
    """Replays tasks of one domain.

    :param directory: where the databases are; None for those that the installed tau2 reads.
    :raises Exception: whatever tau2 raises where it cannot build the domain's environment.
    """

    def __init__(self, tau2: Tau2, domain: str, directory: Path | None, task: Any) -> None:
        self._tau2 = tau2
        self._domain = domain
        self._start: State | None = None
        constructor = tau2.registry.get_env_constructor(domain)
        with paused_collector():
            pristine, _ = build_environment(tau2, domain, task, WITHOUT_DOCUMENTS)
            self._databases: dict[str, bytes] = {}
            for name, kit in (("db", pristine.tools), ("user_db", pristine.user_tools)):
                if kit is not None and kit.db is not None and accepted(constructor, **{name: None}):
                    self._databases[name] = pickle.dumps(_read_database(name, type(kit.db), directory) or kit.db)

    def environment(self, task: Any) -> Any:
        """Return a fresh environment, before the task's initial state."""
        constructor = self._tau2.registry.get_env_constructor(self._domain)
        databases = {name: pickle.loads(data) for name, data in self._databases.items()}
        return constructor(**databases, **self._keywords(task))

    def _keywords(self, task: Any) -> dict[str, Any]:
        # Of a task, not of a domain: what a gold may read without leaving a trace.
        if not accepted(self._tau2.registry.get_env_constructor(self._domain), read_log_allowlist=None):
            return {}
        return build_environment(self._tau2, self._domain, task, WITHOUT_DOCUMENTS)[1]

    def begin(self, task: Any) -> Any:
        """Return an environment in the task's initial state.

        :raises Exception: whatever tau2 raises where it cannot be set up.
        """
        environment = self.environment(task)
        initial = task.initial_state
        environment.set_state(
            initialization_data=initial.initialization_data if initial else None,
            initialization_actions=initial.initialization_actions if initial else None,
            message_history=(initial.message_history if initial else None) or [],
        )
        return environment

    def start(self, task: Any, environment: Any) -> State:
        """Return the databases in a task's initial state, which most tasks of a domain share.

        :param environment: in that state.
        """
        if task.initial_state is not None:
            return take_state(environment)
        if self._start is None:
            self._start = take_state(environment)
        return self._start

    def play(
        self, environment: Any, actions: Sequence[Any], *, synchronised: bool = False
    ) -> Iterator[tuple[Any, Step | None]]:
        """Make calls one after the other: each action is yielded before its call (with None), and after it.

        :param synchronised: whether both databases are brought together after each call, as in a conversation; the
            evaluator does not do so.
        """
        for number, action in enumerate(actions):
            yield action, None
            try:
                result = environment.make_tool_call(
                    tool_name=action.name, requestor=action.requestor, **action.arguments
                )
                output = environment.to_json_str(result)
                if synchronised:
                    environment.sync_tools()
            except Exception as error:  # whatever a tool raises: the evaluator goes on, too
                yield action, Step(number, action, error=f"{type(error).__name__}: {error}")
            else:
                yield action, Step(number, action, output=output)

    def run(self, task: Any, actions: Sequence[Any]) -> tuple[State, list[Step]]:
        """Play actions from the task's initial state, and return the state after them."""
        environment = self.begin(task)
        steps = [step for _, step in self.play(environment, actions) if step is not None]
        return take_state(environment), steps


def _read_database(name: str, kind: Any, directory: Path | None) -> Any:
    if directory is None:
        return None
    path = next((directory / file for file in _DATABASES[name] if (directory / file).is_file()), None)
    # A directory may leave out what it does not change (a fork without user databases).
    return kind.load(str(path)) if path is not None else None


def take_state(environment: Any) -> State:
    """Return what the databases hold now."""
    kits = (environment.tools, environment.user_tools)
    first, second = (kit.db.model_dump() if kit is not None and kit.db is not None else {} for kit in kits)
    return first, second


@dataclass(frozen=True)
class Changes:
    """What differs between two states, record by record: small, where the databases are large."""

    before: State
    after: State

    @cached_property
    def records(self) -> tuple[Any, Any]:
        """Of each database the records that are not as they were: table -> key -> record before and after."""
        first, second = (_changed(*pair) for pair in zip(self.before, self.after, strict=True))
        return first, second

    def is_nothing(self, *, written: bool) -> bool:
        """Tell whether the evaluator would find the databases to be what they were.

        :param written: whether anything was written: only then the type of a value may be another.
        """
        # 1, 1.0 and True are equal, and hash differently.
        return not any(self.records) and not (written and _text(self.before) != _text(self.after))

    @cached_property
    def unordered(self) -> Any:
        """The records without the order of their lists, and without the names that new records were given."""
        new = {
            key
            for database in self.records
            for _, table in database.items()
            if isinstance(table, dict)
            for key, (was, _) in table.items()
            if was is None and isinstance(key, str)
        }
        return _canonical(self.records, new)


def _text(state: State) -> str:
    return json.dumps(state, sort_keys=True, default=str)


def _changed(before: Dump, after: Dump) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in {**before, **after}:
        was, is_now = before.get(name), after.get(name)
        if isinstance(was, dict) and isinstance(is_now, dict):
            changed = {k: (was.get(k), is_now.get(k)) for k in {**was, **is_now} if was.get(k) != is_now.get(k)}
        else:
            changed = {"": (was, is_now)} if was != is_now else {}
        if changed:
            found[name] = changed
    return found


def _canonical(value: Any, new: set[str]) -> Any:
    """Return a value with its lists sorted, in a form that sorts; records called by new names are a list as well."""
    if isinstance(value, dict):
        return sorted(((_named(k, new), _canonical(v, new)) for k, v in value.items()), key=repr)
    if isinstance(value, list | tuple | set):
        return sorted((_canonical(v, new) for v in value), key=repr)
    return _named(value, new)


def _named(value: Any, new: set[str]) -> Any:
    return "(new)" if isinstance(value, str) and value in new else value
