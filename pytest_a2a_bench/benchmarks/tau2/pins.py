"""Revisions of tau2's data in the user's cache: which commit each stands for, and what its files' hashes were.

A run reads the cache only and never the network; ``a2a-bench data fetch`` fills it. Below the cache directory there is
one file for each pin (``tau2/REV-HASH.json``) and one directory for each commit, with its data and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pytest_a2a_bench.benchmarks.tau2.sources import UPSTREAM, Revision
from pytest_a2a_bench.errors import ConfigurationError

_SCHEMA_VERSION = 1
_COMMIT = re.compile(r"[0-9a-f]{40,64}")


@dataclass(frozen=True, slots=True)
class Pin:
    """What a revision was when it was fetched.

    :param digests: domain -> hash of its files.
    :param fetched_at: ISO 8601.
    """

    rev: str
    url: str
    commit: str
    digests: Mapping[str, str]
    fetched_at: str

    @property
    def revision(self) -> Revision:
        """What was asked for."""
        return Revision(self.rev, self.url)

    @property
    def directory(self) -> Path:
        """The directory that holds ``tau2/domains``."""
        return cache_directory() / self.commit


def cache_directory() -> Path:
    """Return where this user keeps what was fetched.

    :raises ConfigurationError: if the user has no home.
    """
    given = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME", "")
    try:
        # A relative one is to be ignored, says the XDG specification.
        base = Path(given) if Path(given).is_absolute() else Path.home() / ".cache"
    except RuntimeError as error:
        raise ConfigurationError(f"there is no place for a cache ({error}); set XDG_CACHE_HOME") from error
    return base / "pytest-a2a-bench" / "tau2"


def fetch_command(revision: object) -> str:
    """Return the command that fetches a revision."""
    if not isinstance(revision, Revision):
        return "a2a-bench data fetch tau2@REV"
    url = f" --from {shlex.quote(revision.url)}" if revision.url != UPSTREAM else ""
    return f"a2a-bench data fetch {shlex.quote(f'tau2@{revision.rev}')}{url}"


def find_pin(revision: Revision) -> Pin:
    """Return what a revision was when it was fetched.

    :raises ConfigurationError: if it was not fetched, or the cache is damaged; the message has the command to run.
    """
    path = pin_path(revision)
    try:
        pin = read_pin(path)
    except FileNotFoundError:
        raise ConfigurationError(
            f"tau2's data at {revision} have not been fetched to this machine; run: {fetch_command(revision)}"
        ) from None
    if not (pin.directory / "tau2" / "domains").is_dir():
        raise ConfigurationError(
            f"tau2's data at {revision} were fetched and are gone from {pin.directory}; run: {fetch_command(revision)}"
        )
    return pin


def pin_path(revision: Revision) -> Path:
    """Return the file of a pin; the name begins with the revision, for people."""
    digest = hashlib.sha256(f"{revision.rev}\0{revision.url}".encode()).hexdigest()[:16]
    return cache_directory() / f"{re.sub(r'[^A-Za-z0-9._-]', '-', revision.rev)[:60]}-{digest}.json"


def read_pin(path: Path) -> Pin:
    """Read one pin.

    :raises FileNotFoundError: if it is not there.
    :raises ConfigurationError: if it is damaged.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        version = found.pop("schema_version")
        pin = Pin(**found)
        texts = [pin.rev, pin.url, pin.fetched_at, *pin.digests, *pin.digests.values()]
        if (
            version != _SCHEMA_VERSION
            or not _COMMIT.fullmatch(pin.commit)
            or not all(isinstance(t, str) for t in texts)
        ):
            raise ValueError
    except FileNotFoundError:
        raise
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise ConfigurationError(f"{path} is not a pin that this version reads; fetch the revision again") from error
    return pin


def write_pin(pin: Pin) -> Path:
    """Write one pin, whole or not at all.

    :raises OSError: if it cannot be written.
    """
    path = pin_path(pin.revision)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".part", delete=False, encoding="utf-8") as file:
        json.dump({"schema_version": _SCHEMA_VERSION, **asdict(pin)}, file, indent=1)
    os.replace(file.name, path)
    return path


def every_pin() -> Iterator[Pin | ConfigurationError]:
    """Yield all pins of the cache, or what is wrong with one."""
    for path in sorted(cache_directory().glob("*.json")):
        try:
            yield read_pin(path)
        except ConfigurationError as error:
            yield error
