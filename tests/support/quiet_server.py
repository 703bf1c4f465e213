"""A server beside others in one process."""

from __future__ import annotations

import contextlib

import uvicorn


class QuietServer(uvicorn.Server):  # type: ignore[misc]
    """Leaves the signals of its process alone.

    Of several servers on the main thread each would put back the handler that it found, maybe that of another which has
    ended; and sse-starlette ends every event stream of a process whose SIGTERM is handled by a server that has ended.
    """

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()
