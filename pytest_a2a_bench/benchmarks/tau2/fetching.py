"""tau2's data fetched from a git repository into the user's cache, and pinned there by commit and hashes.

The ``git`` of this machine does it, so that its proxies, credential helpers and URLs of every kind work. Only the data
are fetched where the server can choose (partial clone), and only they are kept.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from pytest_a2a_bench.benchmarks.base import Fetcher
from pytest_a2a_bench.benchmarks.tau2 import DOMAINS, editions, index, pins
from pytest_a2a_bench.benchmarks.tau2.editions import digest_of
from pytest_a2a_bench.benchmarks.tau2.pins import Pin
from pytest_a2a_bench.benchmarks.tau2.sources import GIT, UPSTREAM, Revision, read_revision
from pytest_a2a_bench.errors import ConfigurationError

_EVERYTHING = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
_SHOWN = 8


def fetch(rev: str, url: str | None) -> Iterator[str]:
    """Fetch a revision, pin it, and say what came of it.

    :param url: of the repository; None for upstream's.
    :raises ConfigurationError: if it cannot be had, or has no data of tau2's.
    """
    revision = _revision(rev, url)
    git = shutil.which("git")
    if git is None:
        raise ConfigurationError(
            "git is not installed, and fetches what is pinned; install it, "
            "or get a checkout another way and pass --a2a-tau2-data DIR"
        )
    before = _pinned_before(revision)
    try:
        pin = _fetch(git, revision)
    except OSError as error:
        raise ConfigurationError(f"{revision} cannot be kept in {pins.cache_directory()}: {error}") from error
    if before is not None and before.commit != pin.commit:
        yield f"{rev} was commit {before.commit} when it was fetched before; it is pinned anew"
    yield f"tau2@{rev}: commit {pin.commit} of {revision.url}"
    yield from (f"  {line}" for line in _domains(pin))
    yield f"in {pin.directory}"
    yield f"use it with: --a2a-tau2-data={option_value(revision)}"


def every() -> Iterator[str]:
    """Yield a line for each revision of the cache."""
    for found in pins.every_pin():
        if isinstance(found, ConfigurationError):
            yield str(found)
            continue
        gone = "" if (found.directory / "tau2" / "domains").is_dir() else " (its data are gone: fetch it again)"
        yield f"{option_value(found.revision)}  commit {found.commit[:12]}, {found.fetched_at[:10]}{gone}"


def locate(rev: str, url: str | None) -> Path:
    """Return the directory of a revision's data.

    :raises ConfigurationError: if it was not fetched.
    """
    return pins.find_pin(_revision(rev, url)).directory


FETCHER = Fetcher(fetch, every, locate)


def option_value(revision: Revision) -> str:
    """Return how the option names a revision."""
    return GIT + revision.rev + (f"@{revision.url}" if revision.url != UPSTREAM else "")


def _revision(rev: str, url: str | None) -> Revision:
    try:
        found = read_revision(rev, url or UPSTREAM)
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    # Where git runs, a relative path would be another.
    return Revision(rev, os.path.abspath(found.url)) if Path(found.url).is_dir() else found


def _pinned_before(revision: Revision) -> Pin | None:
    try:
        return pins.read_pin(pins.pin_path(revision))
    except (FileNotFoundError, ConfigurationError):  # a damaged one is replaced
        return None


def _domains(pin: Pin) -> Iterator[str]:
    for domain, digest in pin.digests.items():
        count = len(index.load_tasks(domain, "base", pin.directory))
        yield f"{domain}: {editions.edition_of(domain, digest) or digest[:12]}, {count} base tasks"


def _fetch(git: str, revision: Revision) -> Pin:
    cache = pins.cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    # In the cache itself, so that the finished directory can be moved.
    with tempfile.TemporaryDirectory(dir=cache, prefix="fetching-", ignore_cleanup_errors=True) as temporary:
        repository = _Repository(git, Path(temporary) / "repository", revision)
        commit = repository.fetch()
        data = Path(temporary) / "data"
        repository.check_out(commit, data)
        digests = {domain: digest_of(data, domain) for domain in _readable_domains(data, revision)}
        _keep(data, cache / commit, digests)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        pin = Pin(revision.rev, revision.url, commit, digests, now)
        pins.write_pin(pin)
    return pin


def _readable_domains(data: Path, revision: Revision) -> list[str]:
    """Return the domains that have tasks, all of which can be read."""
    domains = index.domains_in(data)
    if not domains:
        raise ConfigurationError(f"{revision} has tasks of none of tau2's domains ({', '.join(DOMAINS)})")
    for domain in domains:
        try:
            index.load_tasks(domain, "base", data)
        except ConfigurationError as error:
            # Its place is a temporary one.
            raise ConfigurationError(f"{revision}: {str(error).replace(f'{data}{os.sep}', '')}") from error
    return domains


def _keep(data: Path, place: Path, digests: dict[str, str]) -> None:
    """Move data to their place, unless they are there already as they should be."""
    if place.is_dir():
        if all(digest_of(place, domain) == digest for domain, digest in digests.items()):
            return
        # Somebody has changed what was fetched.
        shutil.rmtree(place)
    os.replace(data, place)


class _Repository:
    """A repository that is there for one fetch.

    :raises ConfigurationError: with what git says, from every method.
    """

    def __init__(self, git: str, directory: Path, revision: Revision) -> None:
        self._git = git
        self._directory = directory
        self._revision = revision
        directory.mkdir()
        self._run("init", "--quiet")
        self._run("remote", "add", "origin", revision.url)
        # Files that are wanted later are asked for then.
        self._run("config", "remote.origin.promisor", "true")
        self._run("config", "remote.origin.partialclonefilter", "blob:none")

    def fetch(self) -> str:
        """Fetch the revision, and return its commit."""
        rev = self._revision.rev
        common = ("fetch", "--quiet", "--filter=blob:none")
        if self._try(*common, "--depth=1", "--no-tags", "origin", rev).returncode == 0:
            return self._run("rev-parse", "--verify", "FETCH_HEAD^{commit}")
        # The beginning of a commit's hash is nothing that a server can be asked for: then everything is looked through.
        done = self._try(*common, "origin", *_EVERYTHING)
        if done.returncode:
            raise ConfigurationError(f"{self._revision.url} cannot be fetched: git says: {_last_line(done.stderr)}")
        for name in (rev, f"refs/remotes/origin/{rev}"):
            found = self._try("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
            if found.returncode == 0:
                return found.stdout.strip()
        tags = self._run("tag", "--sort=-creatordate").split()
        has = f"its newest tags are {', '.join(tags[:_SHOWN])}" if tags else "it has no tags"
        raise ConfigurationError(f"{self._revision.url} has no tag, branch or commit {rev!r}; {has}")

    def check_out(self, commit: str, place: Path) -> None:
        """Put a commit's data into a new directory, as ``tau2/domains`` and ``tau2/user_simulator``."""
        directories = self._run("ls-tree", "-r", "-d", "--name-only", commit).splitlines()
        found = [name for name in directories if f"/{name}".endswith("/tau2/domains")]
        # Sources may have a directory of that name as well.
        found = [name for name in found if "src" not in name.split("/")]
        if not found:
            raise ConfigurationError(f"{self._revision} has no tau2/domains: it is no repository of tau2's data")
        chosen = "data/tau2/domains" if "data/tau2/domains" in found else min(found, key=len)
        above = chosen.removesuffix("/domains")
        self._run("sparse-checkout", "set", "--no-cone", f"/{above}/domains/", f"/{above}/user_simulator/")
        # Every machine's files have the same hashes, and none is a link to somewhere else.
        exact = ("-c", "core.autocrlf=false", "-c", "core.symlinks=false", "-c", "core.hooksPath=/dev/null")
        self._run(*exact, "checkout", "--quiet", "--detach", commit)
        place.mkdir()
        os.replace(self._directory / above, place / "tau2")

    def _run(self, *arguments: str) -> str:
        done = self._try(*arguments)
        if done.returncode:
            raise ConfigurationError(f"{self._revision} cannot be fetched: git says: {_last_line(done.stderr)}")
        return done.stdout.strip()

    def _try(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        # What git hooks and worktrees set would lead to the user's own repository.
        environ = {k: v for k, v in os.environ.items() if k not in _OF_A_REPOSITORY}
        # No question that nobody would answer, no connection that hangs, and messages that we know.
        environ |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        environ |= {"GIT_HTTP_LOW_SPEED_LIMIT": "1000", "GIT_HTTP_LOW_SPEED_TIME": "60"}
        return subprocess.run(
            [self._git, *arguments],
            cwd=self._directory,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )


_OF_A_REPOSITORY = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX"}
)


def _last_line(text: str) -> str:
    """Return what git says is wrong: its first line that tells of an error, or else the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = (line for line in lines if line.startswith(("fatal:", "error:")))
    return next(telling, lines[-1] if lines else "nothing")
