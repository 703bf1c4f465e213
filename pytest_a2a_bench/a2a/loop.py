"""One event loop thread per process: every conversation of every agent runs on it.

Synchronous callers (tau2's orchestrator lives in worker threads) hand coroutines over and wait. A forked child starts
its own thread on first use; the interpreter's exit stops the thread and cancels its remaining tasks.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

from pytest_a2a_bench.errors import HarnessError, TrialCancelledError

T = TypeVar("T")

_JOIN_SECONDS = 5.0


class LoopThread:
    """A daemon thread that runs one event loop until it is stopped."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop = asyncio.new_event_loop()
        self.closers: list[weakref.WeakMethod[Callable[[], Coroutine[Any, Any, None]]]] = []
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._main, name="a2a-bench-loop", daemon=True)
        self._thread.start()
        self._started.wait()

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.call_soon(self._started.set)
        try:
            self.loop.run_forever()
        finally:
            self._drain()
            self.loop.close()

    def _drain(self) -> None:
        for reference in self.closers:
            closer = reference()
            if closer is not None:
                with contextlib.suppress(Exception):
                    self.loop.run_until_complete(asyncio.wait_for(closer(), _JOIN_SECONDS / 2))
        pending = asyncio.all_tasks(self.loop)
        for task in pending:
            task.cancel()
        with contextlib.suppress(Exception):
            self.loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on this thread."""
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        """Cancel everything and wait, briefly, for the thread to end."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(_JOIN_SECONDS)


class _Shared:
    """The process's loop thread; a forked child has the object but not the thread."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.thread: LoopThread | None = None

    def get(self) -> LoopThread:
        with self.lock:
            if self.thread is None:
                self.thread = LoopThread()
            return self.thread

    def forget(self) -> None:
        self.lock = threading.Lock()
        self.thread = None

    def stop(self) -> None:
        with self.lock:
            thread, self.thread = self.thread, None
        if thread is not None and not thread.is_current:
            thread.stop()


_shared = _Shared()
atexit.register(_shared.stop)
os.register_at_fork(after_in_child=_shared.forget)


class Stop(threading.Event):
    """An event that also ends the waits of threads on the shared loop that are marked with :meth:`ends_waiting`."""

    def __init__(self) -> None:
        super().__init__()
        self._futures: set[concurrent.futures.Future[Any]] = set()
        self._guard = threading.Lock()

    def set(self) -> None:
        """Request the stop, and abort waits. Does not wait itself; callable from any thread."""
        with self._guard:
            super().set()
            waited_for = tuple(self._futures)
        for future in waited_for:
            future.cancel()

    @contextlib.contextmanager
    def ends_waiting(self) -> Iterator[None]:
        """Have each :func:`run` of this thread, while this lasts, end with ``TrialCancelledError`` once this is set."""
        token = _STOP.set(self)
        try:
            yield
        finally:
            _STOP.reset(token)

    def _await(self, future: concurrent.futures.Future[T], timeout: float | None) -> T:
        with self._guard:
            self._futures.add(future)
            is_late = self.is_set()
        try:
            if is_late:
                future.cancel()
            return _wait(future, timeout)
        except concurrent.futures.CancelledError:
            if self.is_set():
                raise TrialCancelledError("stopped") from None
            raise
        finally:
            with self._guard:
                self._futures.discard(future)


def _wait(future: concurrent.futures.Future[T], timeout: float | None) -> T:
    # Future.result waits on a condition, where a signal between its two locks ends in a RuntimeError.
    done = threading.Lock()
    done.acquire()
    future.add_done_callback(lambda _: done.release())
    if not done.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
        raise TimeoutError
    return future.result()


_STOP: ContextVar[Stop | None] = ContextVar("a2a_stop", default=None)


def get_loop() -> asyncio.AbstractEventLoop:
    """Return the shared event loop, starting its thread on first use."""
    return _shared.get().loop


def close_at_shutdown(closer: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Have a bound method awaited before the shared loop stops, unless its object is gone by then."""
    thread = _shared.get()
    thread.closers = [r for r in thread.closers if r() is not None]
    thread.closers.append(weakref.WeakMethod(closer))


def submit(coro: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
    """Start a coroutine on the shared loop and return at once."""
    return asyncio.run_coroutine_threadsafe(coro, get_loop())


def run(coro: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
    """Run a coroutine on the shared loop and wait for its result.

    The coroutine is cancelled if the caller is interrupted (Ctrl-C) or the timeout passes.

    :raises TimeoutError: if it took longer than ``timeout`` seconds.
    :raises TrialCancelledError: if a :class:`Stop` ended it.
    """
    if _shared.get().is_current:
        coro.close()
        raise HarnessError("loop.run() was called on the loop's own thread and would wait for itself; await instead")
    future = submit(coro)
    stop = _STOP.get()
    try:
        return _wait(future, timeout) if stop is None else stop._await(future, timeout)
    except BaseException:
        future.cancel()
        raise


async def bridge(coro: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine that must run on the shared loop, from any loop."""
    if asyncio.get_running_loop() is get_loop():
        return await coro
    return await asyncio.wrap_future(submit(coro))


def shutdown() -> None:
    """Stop the shared loop; the next use starts a new one."""
    _shared.stop()
