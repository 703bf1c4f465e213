"""One writer at a time in a results directory: ``run.lock``, which says who it is.

The lock itself is the kernel's (``flock``), so that it ends with its process, however that ends; the file's content is
for people, and for the case that a child of a process that is gone still holds the lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_a2a_bench.model.json_object import json_object
from pytest_a2a_bench.results import mirror
from pytest_a2a_bench.results.mirror import Place
from pytest_a2a_bench.results.processes import is_alive, start_of
from pytest_a2a_bench.results.store import StoreError

NAME = "run.lock"
_TRIES = 10


class InUseError(StoreError):
    """Another process writes into the results directory."""


class Lock:
    """A results directory that is this process's; take one with :func:`take`."""

    def __init__(self, path: Path, handle: int) -> None:
        self._path = path
        self._handle = handle
        self.place: Place | None = None
        """Where the directory's files really are, if that is taken, too."""

    def release(self) -> None:
        """Give the directory back. Whoever waits for the file that is removed here finds that it is not there."""
        if self._handle < 0:
            return
        with contextlib.suppress(OSError):
            if self.place is not None:
                self.place.release()
        with contextlib.suppress(OSError):
            if _is_at(self._path, self._handle):
                self._path.unlink()
        os.close(self._handle)
        self._handle = -1


def take(directory: Path, what: str) -> Lock:
    """Make a results directory this process's until it releases it or ends; the directory is made if need be.

    :param what: who is it, for whoever comes too late: ``pytest``, ``a2a-bench merge``.
    :raises InUseError: if it is another's; it says whose, and since when.
    :raises StoreError: if it cannot be written.
    """
    path = directory / NAME
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for _ in range(_TRIES):
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            if _is_locked(path, handle, what):
                lock = Lock(path, handle)
                _claim(lock, directory, what)
                return lock
            os.close(handle)
    except InUseError:
        raise
    except OSError as error:
        raise StoreError(f"results directory {directory} cannot be written: {error}") from error
    raise InUseError(f"results directory {directory} is in use by processes that come and go; name another")


def _claim(lock: Lock, directory: Path, what: str) -> None:
    """Take what the directory stands for, too, where that is elsewhere and other machines write there."""
    place = mirror.place_of(directory)
    if place is None:
        return
    try:
        holder = place.claim(json.dumps(_ourselves(what)))
    except OSError as error:
        lock.release()
        raise StoreError(f"{place.name} cannot be written: {error}") from error
    if holder is not None:
        lock.release()
        raise InUseError(
            f"{place.name} is in use by {_who(json_object(holder))}; wait for it, or name another (--a2a-results); "
            f"if that process is gone, remove {place.name}/{NAME}"
        )
    lock.place = place


@contextlib.contextmanager
def held(directory: Path, what: str) -> Iterator[None]:
    """Have a results directory for oneself meanwhile.

    :raises InUseError: as :func:`take` does.
    """
    lock = take(directory, what)
    try:
        yield
    finally:
        lock.release()


def is_in_use(directory: Path) -> bool:
    """Tell whether a process writes into a results directory, as far as its lock tells; nothing is taken."""
    try:
        handle = os.open(directory / NAME, os.O_RDONLY)
    except OSError:
        return False
    try:
        holder = _read(handle)
    finally:
        os.close(handle)
    return bool(holder) and not _is_gone(holder)


def _is_locked(path: Path, handle: int, what: str) -> bool:
    """Lock an open file and write into it who we are; false where it is not in its place any more."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _read(handle)
        if _is_gone(holder):
            if _is_at(path, handle):
                path.unlink(missing_ok=True)
            return False
        os.close(handle)
        raise InUseError(_refusal(path, holder)) from None
    except OSError:
        # A file system without locks: what is written is all there is.
        holder = _read(handle)
        if holder and not _is_gone(holder):
            os.close(handle)
            raise InUseError(_refusal(path, holder)) from None
    if not _is_at(path, handle):
        return False
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps(_ourselves(what)).encode(), 0)
    return True


def _is_at(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _ourselves(what: str) -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "host": platform.node(),
        "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "process_start": start_of(os.getpid()),
        "what": what,
    }


def _read(handle: int) -> dict[str, Any]:
    """Return what the holder wrote; nothing where it has not come to that, or where it is not ours."""
    return json_object(os.pread(handle, 4096, 0))


def _who(holder: dict[str, Any]) -> str:
    if not holder:
        return "another process"
    return f"{holder.get('what')}, process {holder.get('pid')} on {holder.get('host')}, since {holder.get('since')}"


def _is_gone(holder: dict[str, Any]) -> bool:
    """Tell whether the process that wrote this certainly is not there any more."""
    pid = holder.get("pid")
    if not isinstance(pid, int) or holder.get("host") != platform.node():
        return False
    return not is_alive(pid) or start_of(pid) != holder.get("process_start")


def _refusal(path: Path, holder: dict[str, Any]) -> str:
    if not holder:
        return f"results directory {path.parent} is in use by another process; wait for it, or name another directory"
    return (
        f"results directory {path.parent} is in use by {_who(holder)}; wait for it, or name another directory "
        f"(--a2a-results); if that process is gone, remove {path}"
    )
