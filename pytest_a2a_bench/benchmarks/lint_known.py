"""What lint knows of the tasks of a run: cited where one fails, and asked where some are left out of a gate.

A citation must cost a run nothing: it comes from the cache, or from the rules that look at a task alone. A gate is
worth replaying golds for: what it asks is looked at once, and kept in the user's cache by what it depends on, because
replaying every gold takes half a minute.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_a2a_bench import __version__
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.lint import DomainLint, Linter, LintFinding, LintRequest, read_findings
from pytest_a2a_bench.configuration.rates import LINT
from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError
from pytest_a2a_bench.model import TrialKey
from pytest_a2a_bench.nearest import did_you_mean
from pytest_a2a_bench.redact import one_line
from pytest_a2a_bench.settings import Settings

CITED = "lint"
"""The member of a result's provenance: rule -> what was found."""


def cite(key: TrialKey, settings: Settings) -> dict[str, str]:
    """Return what is known of a trial's task, one message for each rule; nothing where that would take long."""
    try:
        linter = registry.get_linter(key.suite)
        if linter is None:
            return {}
        options = json.dumps(settings.benchmark_options, sort_keys=True, default=str)
        split = split_of(key, settings)
        found = _cached(LintCache.place(os.environ), key.suite, key.domain, split, options)
        findings = found.get(key.task_id, ()) if found is not None else _glance(linter, key, settings)
        said: dict[str, str] = {}
        for finding in findings:
            rule = linter.rule(finding.rule)
            if rule is not None and not rule.tells:
                said.setdefault(finding.rule, finding.message)
        return said
    # Anybody's linter, over anybody's data: a trial that was held must not be lost for a remark on its task.
    except Exception:
        return {}


def cited_line(provenance: Mapping[str, Any]) -> str:
    """Return what a result cites as one line; empty where it cites nothing."""
    found = provenance.get(CITED)
    if not isinstance(found, Mapping) or not found:
        return ""
    return "; ".join(f"{rule} ({message})" for rule, message in found.items())


def split_of(key: TrialKey, settings: Settings) -> str:
    """Return a split with a trial's task: the run's own, or the smallest other one where a marker chose the task.

    :raises A2ABenchError: if the data cannot be read.
    """
    options = json.dumps(settings.benchmark_options, sort_keys=True, default=str)
    if key.task_id in _ids(key.suite, key.domain, settings.split, options):
        return settings.split
    suite = registry.load(key.suite, settings)
    others = {split: _ids(key.suite, key.domain, split, options) for split in suite.splits(key.domain)}
    found = sorted((len(ids), split) for split, ids in others.items() if key.task_id in ids)
    return found[0][1] if found else settings.split


@lru_cache(maxsize=32)
def _ids(suite: str, domain: str, split: str, options: str) -> frozenset[str]:
    found = registry.load(suite, Settings(split=split, benchmark_options=json.loads(options)))
    there = split in found.splits(domain)
    return frozenset(task.task_id for task in found.load_tasks(domain, split)) if there else frozenset()


def _glance(linter: Linter, key: TrialKey, settings: Settings) -> Sequence[LintFinding]:
    return tuple(linter.glance(LintRequest(split=settings.split, settings=settings), key.domain, key.task_id))


@lru_cache(maxsize=32)
def _cached(
    place: Path | None, suite: str, domain: str, split: str, options: str
) -> dict[str, list[LintFinding]] | None:
    """Return what the cache has of a domain, by task; None where nobody looked. Read once by each process."""
    linter = registry.get_linter(suite)
    cache = LintCache(place)
    # Before the data are hashed for nothing.
    if linter is None or not cache.has_any(suite, domain):
        return None
    request = LintRequest(split=split, settings=Settings(split=split, benchmark_options=json.loads(options)))
    found = cache.known(linter, suite, request, domain)
    if found is None:
        return None
    by_task: dict[str, list[LintFinding]] = defaultdict(list)
    for finding in found.findings:
        by_task[finding.task_id].append(finding)
    return dict(by_task)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Tasks that a gate leaves out.

    :param tasks: ``suite/domain/task`` -> the rules that were named and found something in it.
    :param unknown: ``suite/domain`` -> why it is not known which of its tasks are left out.
    """

    tasks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)


def find_left_out(settings: Settings, environ: Mapping[str, str]) -> LeftOut:
    """Return the tasks in which lint finds what ``--a2a-min-pass-without`` names.

    Looks at what ``--a2a-suite`` names, else at everything that is installed; data that were never looked at are now.

    :raises ConfigurationError: if no suite has such a rule.
    """
    wanted = [name.removeprefix(LINT) for name in settings.min_pass_without]
    linters = dict(registry.linters())
    known = {rule.id for linter in linters.values() for rule in linter.rules}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        names = ", ".join(sorted(known))
        raise ConfigurationError(
            f"there is no rule {', '.join(unknown)}; a2a-bench lint has: {names}{did_you_mean(unknown, known)}"
        )
    cache = LintCache(LintCache.place(environ))
    tasks: dict[str, tuple[str, ...]] = {}
    unclear: dict[str, str] = {}
    for suite, linter in linters.items():
        own = {name for name in wanted if linter.rule(name) is not None}
        for domain in _domains(suite, linter, settings) if own else ():
            try:
                found = cache.lint(linter, suite, LintRequest(split=settings.split, settings=settings), domain)
            except Exception as error:  # a linter of anybody's, over data of anybody's
                unclear[f"{suite}/{domain}"] = one_line(f"{type(error).__name__}: {error}", 300)
                continue
            if found.notes:
                unclear[f"{suite}/{domain}"] = "; ".join(found.notes)
            by_task: dict[str, list[str]] = defaultdict(list)
            for finding in found.findings:
                if finding.rule in own and finding.task_id:
                    by_task[finding.task_id].append(finding.rule)
            tasks |= {f"{suite}/{domain}/{task}": tuple(dict.fromkeys(rules)) for task, rules in by_task.items()}
    return LeftOut(tasks, unclear)


def find_more_left_out(keys: Iterable[TrialKey], known: LeftOut, settings: Settings) -> LeftOut:
    """Return what is known of tasks that are left out, with those of splits that only markers chose.

    :param keys: of all trials that were held.
    """
    tasks, unknown = dict(known.tasks), dict(known.unknown)
    by_split: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for key in keys:
        with contextlib.suppress(Exception):  # anybody's suite; its trial was held, and is only not left out
            by_split[key.suite, key.domain, split_of(key, settings)].add(key.task_key)
    for (suite, domain, split), chosen in by_split.items():
        if split != settings.split:
            asked = dataclasses.replace(settings, split=split, suites=(domain,))
            found = find_left_out(asked, os.environ)
            tasks |= {task: rules for task, rules in found.tasks.items() if task in chosen}
            unknown |= {name: why for name, why in found.unknown.items() if name == f"{suite}/{domain}"}
    return LeftOut(tasks, unknown)


def _domains(suite: str, linter: Linter, settings: Settings) -> Iterator[str]:
    try:
        there = linter.domains(LintRequest(split=settings.split, settings=settings))
    except A2ABenchError:  # a benchmark that is not installed has no trial that could be left out
        return
    for domain in there:
        if not settings.suites or suite in settings.suites or domain in settings.suites:
            yield domain


_FORM = 1
"""Counts up when a file of the cache is of another form."""


class LintCache:
    """A directory of earlier results. One that cannot be read or written is none, and never in anybody's way.

    :param directory: None for no cache.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory

    @staticmethod
    def place(environ: Mapping[str, str]) -> Path | None:
        """Return where this user's cache is: ``XDG_CACHE_HOME``, or what the system has for it."""
        home = Path.home() if environ.get("HOME") or environ.get("USERPROFILE") else None
        if environ.get("XDG_CACHE_HOME"):
            root: Path | None = Path(environ["XDG_CACHE_HOME"])
        elif sys.platform == "win32" and environ.get("LOCALAPPDATA"):
            root = Path(environ["LOCALAPPDATA"])
        elif home is not None:
            root = home / ("Library/Caches" if sys.platform == "darwin" else ".cache")
        else:
            root = None
        return root / "pytest-a2a-bench" / "lint" if root is not None else None

    def lint(self, linter: Linter, suite: str, request: LintRequest, domain: str) -> DomainLint:
        """Return what an earlier run found in the same data, or look and keep it."""
        path = self._path(linter, suite, request, domain)
        found = _read(path, domain)
        if found is None:
            found = linter.lint(request, domain)
            # What was not looked at now may be possible later, with the same data.
            if not found.notes:
                _write(path, found)
        return found

    def known(self, linter: Linter, suite: str, request: LintRequest, domain: str) -> DomainLint | None:
        """Return what an earlier run found in the same data; None where nobody looked."""
        return _read(self._path(linter, suite, request, domain), domain)

    def has_any(self, suite: str, domain: str) -> bool:
        """Tell whether anything was kept of a domain, of whichever data."""
        return self._directory is not None and any(self._directory.glob(f"{suite}-{domain}-*.json"))

    def _path(self, linter: Linter, suite: str, request: LintRequest, domain: str) -> Path | None:
        if self._directory is None:
            return None
        rules = [[rule.id, rule.severity] for rule in linter.rules]
        text = json.dumps([_FORM, rules, suite, domain, request.split, linter.digest(request, domain)])
        return self._directory / f"{suite}-{domain}-{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


@lru_cache(maxsize=8)
def code_digest(*modules: str) -> str:
    """Return a hash of modules' sources: rules change between releases, too.

    :param modules: their files.
    """
    whole = hashlib.sha256(__version__.encode())
    for name in sorted(modules):
        whole.update(Path(name).read_bytes())
    return whole.hexdigest()[:16]


def _read(path: Path | None, domain: str) -> DomainLint | None:
    if path is None:
        return None
    try:
        data = json.loads(path.read_bytes())
        return DomainLint(domain, int(data["tasks"]), read_findings(data["findings"]))
    # Not there, not ours, or half written by something that died: looked for anew.
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _write(path: Path | None, found: DomainLint) -> None:
    if path is None:
        return
    text = json.dumps({"tasks": found.tasks, "findings": [f.to_json() for f in found.findings]})
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)
