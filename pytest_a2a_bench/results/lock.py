"""The lock of a results directory, ``run.lock``: one process writes at a time.

The operating system releases the lock when its process ends, however that ends. The content of the file names the
process, for people and for processes that only read the directory.
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

from pytest_a2a_bench.model.messages import json_object
from pytest_a2a_bench.results.store import Place, StoreError, is_alive, place_of, start_of
from pytest_a2a_bench.text import reason_of

LOCK = "run.lock"
_MOMENT = 30.0


class InUseError(StoreError):
    """Another process writes into the results directory."""


class Lock:
    """The lock of a results directory that this process has; made by :func:`take`."""

    def __init__(self, guard: FileLock, holder: dict[str, Any]) -> None:
        self._guard = guard
        self._holder = holder
        self.place: Place | None = None
        """The remote storage of the directory, if that is locked, too."""

    def release(self) -> None:
        """Release the lock, and remove the file. Safe to call again."""
        if not self._guard.is_locked:
            return
        path = Path(self._guard.lock_file)
        with contextlib.suppress(OSError):
            if self.place is not None:
                self.place.release()
        with contextlib.suppress(OSError):
            # The file may have been removed meanwhile, and another process have made its own.
            if _read(path) == self._holder:
                path.unlink()
        self._guard.release()
        _HELD.discard(self)


_HELD: set[Lock] = set()
"""Keeps each lock until it is released or its process ends, also where no variable does."""


def take(directory: Path, what: str) -> Lock:
    """Lock a results directory until it is released or this process ends; the directory is made if need be.

    :param what: the name of this program in the messages of others: ``pytest``, ``a2a-bench merge``.
    :raises InUseError: if another process has it; the message says which, and since when.
    :raises StoreError: if it cannot be written, or its file system has no locks.
    """
    path = directory / LOCK
    guard = FileLock(path, timeout=0, thread_local=False, fallback_to_soft=False)
    lock = Lock(guard, _ourselves(what))
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _acquire(guard, path)
        path.write_text(json.dumps(lock._holder), encoding="utf-8")
    except Timeout:
        raise InUseError(_refusal(path, _read(path), what)) from None
    except FileExistsError:
        raise StoreError(
            f"results directory {directory} cannot be written: it is a file; name a directory{_option(what)}"
        ) from None
    except OSError as error:
        guard.release()
        raise StoreError(f"results directory {directory} cannot be written or locked: {reason_of(error)}") from error
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
    """Lock the remote storage of the directory, too, as other machines may write there."""
    place = place_of(directory)
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
            f"{place.name} is in use by {_who(json_object(holder))}; wait for it, or name another{_option(what)}; "
            f"if that process is gone, remove {place.name}/{LOCK}"
        )
    lock.place = place


@contextlib.contextmanager
def locked(directory: Path, what: str) -> Iterator[None]:
    """Lock a results directory for the time of a ``with`` block; raises InUseError as :func:`take` does."""
    lock = take(directory, what)
    try:
        yield
    finally:
        lock.release()


def is_in_use(directory: Path) -> bool:
    """Return whether a process has the lock of a results directory, by the content of the file; nothing is locked."""
    holder = _read(directory / LOCK)
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
    """Return the holder's entry in the lock file; empty if it has written none yet, or the file is not ours."""
    try:
        return json_object(path.read_bytes()[:4096])
    except OSError:
        return {}


def _who(holder: dict[str, Any]) -> str:
    if not holder:
        return "another process"
    return f"{holder.get('what')}, process {holder.get('pid')} on {holder.get('host')}, since {holder.get('since')}"


def _is_gone(holder: dict[str, Any]) -> bool:
    """Return whether the process that wrote this certainly has ended."""
    pid = holder.get("pid")
    if not isinstance(pid, int) or holder.get("host") != platform.node():
        return False
    return not is_alive(pid) or start_of(pid) != holder.get("process_start")


def _option(what: str) -> str:
    """Return the option of a results directory, where this program has it."""
    return " (--a2a-results)" if what == "pytest" else ""


def _refusal(path: Path, holder: dict[str, Any], what: str) -> str:
    if not holder:
        return f"results directory {path.parent} is in use by another process; wait for it, or name another directory"
    return (
        f"results directory {path.parent} is in use by {_who(holder)}; wait for it, or name another "
        f"directory{_option(what)}; if that process is gone, remove {path}"
    )
