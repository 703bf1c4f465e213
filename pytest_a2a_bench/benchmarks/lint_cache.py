"""What lint found before, kept in the user's cache by what it depends on: replaying every gold takes half a minute."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from pytest_a2a_bench import __version__
from pytest_a2a_bench.benchmarks.lint import DomainLint, Linter, LintRequest, read_findings

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
