"""One writer at a time in a results directory: ``run.lock``, which says who it is.

The lock itself is the operating system's, so that it ends with its process, however that ends; the file's content is
for people, and tells those who only watch whether somebody writes.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from pytest_a2a_bench.model.json_object import json_object
from pytest_a2a_bench.results import remote
from pytest_a2a_bench.results.remote import Place
from pytest_a2a_bench.results.store import StoreError, is_alive, start_of

NAME = "run.lock"
_MOMENT = 30.0


class InUseError(StoreError):
    """Another process writes into the results directory."""


class Lock:
    """A results directory that is this process's; take one with :func:`take`."""

    def __init__(self, guard: FileLock, holder: dict[str, Any]) -> None:
        self._guard = guard
        self._holder = holder
        self.place: Place | None = None
        """Where the directory's files really are, if that is taken, too."""

    def release(self) -> None:
        """Give the directory back, and remove the file. Safe to call again."""
        if not self._guard.is_locked:
            return
        path = Path(self._guard.lock_file)
        with contextlib.suppress(OSError):
            if self.place is not None:
                self.place.release()
        with contextlib.suppress(OSError):
            # Somebody may have removed it meanwhile, and another process have made its own.
            if _read(path) == self._holder:
                path.unlink()
        self._guard.release()
        _HELD.discard(self)


_HELD: set[Lock] = set()
"""A lock lasts until it is released or its process ends, also where nobody keeps the object."""


def take(directory: Path, what: str) -> Lock:
    """Make a results directory this process's until it releases it or ends; the directory is made if need be.

    :param what: who is it, for whoever comes too late: ``pytest``, ``a2a-bench merge``.
    :raises InUseError: if it is another's; it says whose, and since when.
    :raises StoreError: if it cannot be written, or its file system has no locks.
    """
    path = directory / NAME
    guard = FileLock(path, timeout=0, thread_local=False, fallback_to_soft=False)
    lock = Lock(guard, _ourselves(what))
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _acquire(guard, path)
        path.write_text(json.dumps(lock._holder), encoding="utf-8")
    except Timeout:
        raise InUseError(_refusal(path, _read(path))) from None
    except FileExistsError:
        raise StoreError(
            f"results directory {directory} cannot be written: it is a file; name a directory (--a2a-results)"
        ) from None
    except OSError as error:
        guard.release()
        raise StoreError(f"results directory {directory} cannot be written or locked: {error}") from error
    _HELD.add(lock)
    _claim(lock, directory, what)
    return lock


def _acquire(guard: FileLock, path: Path) -> None:
    try:
        guard.acquire()
    except Timeout:
        if not _is_gone(_read(path)):
            raise
        # A child that the holder forked has the lock for the moment until it closes the file.
        guard.acquire(timeout=_MOMENT)


def _claim(lock: Lock, directory: Path, what: str) -> None:
    """Take what the directory stands for, too, where that is elsewhere and other machines write there."""
    place = remote.place_of(directory)
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
    holder = _read(directory / NAME)
    return bool(holder) and not _is_gone(holder)


def _ourselves(what: str) -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "host": platform.node(),
        "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "process_start": start_of(os.getpid()),
        "what": what,
    }


def _read(path: Path) -> dict[str, Any]:
    """Return what the holder wrote; nothing where it has not come to that, or where it is not ours."""
    try:
        return json_object(path.read_bytes()[:4096])
    except OSError:
        return {}


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
