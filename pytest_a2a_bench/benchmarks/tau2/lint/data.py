"""The files of one domain, read as they are: whatever is wrong with them is a finding and no exception.

Data are the installed tau2's, or those of a directory: a checkout of upstream or of a fork (``data/tau2/domains``), a
data directory (``tau2/domains``), a directory of domains, or one domain. Beside them stand the rules that look at a
task alone (:func:`glance`: no database, no tool, no import of tau2), and a database's :class:`Records`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from pytest_a2a_bench.benchmarks.lint import LintFinding, LintRequest
from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.benchmarks.tau2.editions import find_edition
from pytest_a2a_bench.benchmarks.tau2.sources import INSTALLED
from pytest_a2a_bench.errors import ConfigurationError

_ROOTS = ("data/tau2/domains", "tau2/domains", "domains", "")
_SPLITS = "split_tasks.json"
BASE = "base"


@dataclass(frozen=True, slots=True)
class RawTask:
    """One task as its file has it.

    :param place: where in the file, as a JSON pointer; empty where the file is one task's.
    """

    task_id: str
    value: Mapping[str, Any]
    file: str
    place: str

    @property
    def criteria(self) -> Mapping[str, Any]:
        """The evaluation criteria, empty where there are none."""
        found = self.value.get("evaluation_criteria")
        return found if isinstance(found, Mapping) else {}

    @property
    def actions(self) -> list[Mapping[str, Any]]:
        """The gold's actions."""
        return _objects(self.criteria.get("actions"))

    @property
    def communicate(self) -> list[str]:
        """The texts that the agent must say."""
        found = self.criteria.get("communicate_info")
        return [str(text) for text in found] if isinstance(found, list) else []

    @property
    def scenario(self) -> str:
        """The user's instructions as one text."""
        scenario = self.value.get("user_scenario")
        instructions = scenario.get("instructions") if isinstance(scenario, Mapping) else scenario
        return "\n".join(_texts(instructions))

    def find(self, rule: str, message: str, place: str = "") -> LintFinding:
        """Return a finding about this task, without its domain."""
        return LintFinding(rule, "", self.task_id, message, self.place + place, self.file)


@dataclass(frozen=True, slots=True)
class DomainData:
    """One domain's tasks of one split.

    :param directory: where its files are.
    :param tasks: in the order of the split.
    :param problems: what is wrong with the files.
    :param policy: the text of every policy file.
    """

    domain: str
    directory: Path
    tasks: Sequence[RawTask]
    problems: Sequence[LintFinding] = ()
    policy: str = ""


def directory_of(request: LintRequest) -> Path | None:
    """Return where the data are that a request is about; None for the installed ones.

    :raises ConfigurationError: if its settings name an edition that is not there.
    """
    if request.directory is not None:
        return request.directory
    edition = find_edition(request.settings)
    return None if edition.said == INSTALLED else edition.data


def domain_directories(directory: Path | None) -> dict[str, Path]:
    """Return where each domain's files are.

    :param directory: of the data; None for the installed tau2's.
    :raises ConfigurationError: if there are none, or no such directory.
    """
    if directory is None:
        root = index.find_installation().domains
        return {domain: root / domain for domain in index.available_domains()}
    if not directory.is_dir():
        raise ConfigurationError(f"{directory} is no directory; expected tau2's data or a checkout with data/tau2")
    for name in _ROOTS:
        root = directory / name if name else directory
        found = {path.name: path for path in _subdirectories(root) if index.files_of(path)}
        if found:
            return found
    if index.files_of(directory):
        return {_name_of(directory): directory}
    raise ConfigurationError(
        f"{directory} has no tau2 data; expected data/tau2/domains, tau2/domains, domains/NAME/tasks.json or tasks.json"
    )


def has_data(directory: Path) -> bool:
    """Tell whether a directory holds tau2's data, by file names (and for a bare ``tasks.json`` by its first task)."""
    try:
        found = domain_directories(directory)
    except (ConfigurationError, OSError):
        return False
    if list(found.values()) != [directory]:
        return True
    return any("evaluation_criteria" in task or "user_scenario" in task for task in _first_tasks(directory))


def _first_tasks(directory: Path) -> Iterator[Mapping[str, Any]]:
    try:
        value = json.loads(index.files_of(directory)[0].read_bytes())
    except (OSError, ValueError, RecursionError):
        return
    yield from _objects(value if isinstance(value, list) else [value])[:1]


def _subdirectories(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []


def _name_of(directory: Path) -> str:
    """Return the domain of a directory: what its first task's user says it is, else what the directory is called."""
    for task in _first_tasks(directory):
        scenario = task.get("user_scenario")
        instructions = scenario.get("instructions") if isinstance(scenario, Mapping) else None
        domain = instructions.get("domain") if isinstance(instructions, Mapping) else None
        if isinstance(domain, str) and domain:
            return domain
    return directory.resolve().name


def read_domain(request: LintRequest, domain: str) -> DomainData:
    """Read one domain.

    :raises ConfigurationError: if there is no such domain or split.
    """
    given = directory_of(request)
    directories = domain_directories(given)
    if domain not in directories:
        raise ConfigurationError(f"there is no domain {domain!r}; there are: {', '.join(directories)}")
    directory = directories[domain]
    # Of a directory as it was given, for whoever opens it; installed files are known by their domain.
    shown = directory if given is not None else Path(domain)
    tasks, problems = _read_tasks(directory, shown)
    chosen, unknown = _choose(directory, tasks, request.split)
    policy = "\n".join(path.read_text("utf-8", "replace") for path in sorted(directory.glob("*policy*.md")))
    return DomainData(domain, directory, chosen, (*problems, *unknown), policy)


def _read_tasks(directory: Path, shown: Path) -> tuple[dict[str, RawTask], list[LintFinding]]:
    tasks: dict[str, RawTask] = {}
    problems: list[LintFinding] = []
    for path in index.files_of(directory):
        name = (shown / path.relative_to(directory)).as_posix()
        here: set[str] = set()
        try:
            value = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            problems.append(_unreadable("", f"{path.name} cannot be read as JSON: {error}", "", name))
            continue
        entries = value if isinstance(value, list) else [value]
        for number, entry in enumerate(entries):
            place = f"/{number}" if isinstance(value, list) else ""
            if not isinstance(entry, dict) or "id" not in entry:
                problems.append(_unreadable("", f"entry {number} is no object with an id", place, name))
                continue
            task = RawTask(str(entry["id"]), entry, name, place)
            # Of the same file: telecom has its tasks in one file and again in another.
            if task.task_id in here:
                problems.append(_unreadable(task.task_id, "its id is there twice; the first counts", place, name))
            here.add(task.task_id)
            tasks.setdefault(task.task_id, task)
    return tasks, problems


def _choose(
    directory: Path, tasks: Mapping[str, RawTask], split: str
) -> tuple[tuple[RawTask, ...], tuple[LintFinding, ...]]:
    path = directory / _SPLITS
    if not path.is_file():
        if split != BASE:
            raise ConfigurationError(f"{directory} has no {_SPLITS}, so it has no split {split!r}; it has: {BASE}")
        return tuple(tasks.values()), ()
    try:
        splits = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        return tuple(tasks.values()), (_unreadable("", f"{_SPLITS} cannot be read as JSON: {error}", "", str(path)),)
    ids = splits.get(split) if isinstance(splits, dict) else None
    if not isinstance(ids, list):
        names = ", ".join(sorted(map(str, splits))) if isinstance(splits, dict) else "none"
        raise ConfigurationError(f"{path} has no split {split!r}; it has: {names}")
    missing = [str(i) for i in ids if str(i) not in tasks]
    problems = tuple(
        _unreadable(i, f"split {split!r} names it, and no task has this id", "", str(path)) for i in missing
    )
    return tuple(tasks[str(i)] for i in dict.fromkeys(map(str, ids)) if str(i) in tasks), problems


def _unreadable(task_id: str, message: str, place: str, file: str) -> LintFinding:
    return LintFinding("unreadable-task", "", task_id, message, place, file)


def digest(request: LintRequest, domain: str) -> str:
    """Return a hash of a domain's files: every one that tasks, databases and policies are read from."""
    directory = domain_directories(directory_of(request))[domain]
    files = [*index.files_of(directory), directory / _SPLITS, *sorted(directory.glob("*policy*.md"))]
    files += sorted([*directory.glob("*db.json"), *directory.glob("*db.toml")])
    states = tuple((path, stat.st_size, stat.st_mtime_ns) for path in files if path.is_file() and (stat := path.stat()))
    return _hash(states)


@lru_cache(maxsize=64)
def _hash(states: tuple[tuple[Path, int, int], ...]) -> str:
    whole = hashlib.sha256()
    for path, size, _ in states:
        # The name without its directory: a copy elsewhere is the same edition.
        whole.update(f"{path.name} {size}\n".encode())
        whole.update(path.read_bytes())
    return whole.hexdigest()


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


_STOP_TOKENS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")
_SHORT = 2


def glance(task: RawTask) -> Iterator[LintFinding]:
    """Yield what a task's own text shows."""
    actions = task.actions
    if actions and all(action.get("requestor", "assistant") == "user" for action in actions):
        what = (
            f"all {len(actions)} gold actions are the user's" if actions[1:] else "the only gold action is the user's"
        )
        yield task.find("user-only-gold", what, "/evaluation_criteria/actions")
    yield from _expected_texts(task)
    for token in _STOP_TOKENS:
        if token in task.scenario:
            yield task.find("stop-token-in-scenario", f"the user's instructions contain {token}", "/user_scenario")


def _expected_texts(task: RawTask) -> Iterator[LintFinding]:
    # Only where the reward asks for them: else they are remarks.
    if "COMMUNICATE" not in reward_basis(task):
        return
    scenario = task.scenario.lower().replace(",", "")
    for number, text in enumerate(task.communicate):
        place = f"/evaluation_criteria/communicate_info/{number}"
        if "," in text:
            yield task.find("text-never-matches", f"expected text {number + 1} has a comma, and never matches", place)
        elif len(text.strip()) <= _SHORT:
            found = f"expected text {number + 1} is {len(text.strip())} characters long, and found in almost anything"
            yield task.find("short-text", found, place)
        elif text.lower() in scenario:
            yield task.find("text-in-scenario", f"expected text {number + 1} is in the user's instructions", place)


def reward_basis(task: RawTask) -> tuple[str, ...]:
    """Return what the reward is made of: tau2's default is the database and what is communicated."""
    basis = task.criteria.get("reward_basis")
    return tuple(map(str, basis)) if isinstance(basis, list) else ("DB", "COMMUNICATE")


class Records:
    """The records of a live database, as plain values.

    :param database: tau2's, or None where a domain has none.
    """

    def __init__(self, database: Any) -> None:
        self._database = database

    def get(self, table: str, key: Any) -> Mapping[str, Any] | None:
        """Return one record; None where there is no such table or record."""
        rows = getattr(self._database, table, None)
        row = rows.get(key) if isinstance(rows, Mapping) and isinstance(key, str) else None
        found: Any = row.model_dump() if isinstance(row, BaseModel) else row
        return found if isinstance(found, Mapping) else None

    def owner(self, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the user that a call is about: the owner of the order or booking that it names, or who it names."""
        named = arguments.get("user_id")
        for table, argument in (("orders", "order_id"), ("reservations", "reservation_id")):
            record = self.get(table, arguments.get(argument))
            named = record.get("user_id") if record is not None else named
        return self.get("users", named)

    def contains(self, text: str) -> bool:
        """Tell whether any record has a text as a key or as a value."""
        return self._database is not None and text in strings_of(self._database.model_dump())


def strings_of(value: Any) -> Iterator[str]:
    """Yield every text in a plain value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(key, str):
                yield key
            yield from strings_of(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from strings_of(inner)
