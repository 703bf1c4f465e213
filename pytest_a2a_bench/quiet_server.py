"""An HTTP server that is one of several things in its process. Needs ``uvicorn``."""

from __future__ import annotations

import asyncio
import contextlib
import signal

import uvicorn


class QuietServer(uvicorn.Server):  # type: ignore[misc]
    """Leaves the signals of its process alone.

    uvicorn raises the signal that stopped it again when it has ended, before anything else can be put away. And of
    several servers on the main thread each puts back the handler that it found, maybe that of another which has ended;
    sse-starlette ends every event stream of a process whose SIGTERM is handled by a server that has ended.
    """

    should_exit: bool

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:
        """Capture none."""
        return contextlib.nullcontext()

    def stop_by_signal(self) -> None:
        """End in order at SIGINT and SIGTERM; at a second one without waiting for anybody."""

        def stop() -> None:
            self.force_exit = self.should_exit
            self.should_exit = True

        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop)
