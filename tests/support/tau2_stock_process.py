"""The process in which the stock tau2 (``tau2_stock``) plays recorded conversations back: started, asked, ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_a2a_bench.benchmarks.tau2.index import Installation
from pytest_a2a_bench.errors import A2ABenchError

SCRIPT = Path(__file__).with_name("tau2_stock.py")

PATIENCE = 900.0
"""Seconds after which a replay (or the start) is given up: a second's work on a machine that is very busy."""

_TAIL = 2_000
"""Characters of what the process said at last that an error shows."""

_ENVIRONMENT = {
    # No prices from the network, no .env file of the project, no log of each step.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "PYTHON_DOTENV_DISABLED": "1",
    "LOGURU_AUTOINIT": "False",
}


class VerifierError(A2ABenchError):
    """The process that verifies did not do its work, so that nobody knows."""


class StockProcess:
    """The stock tau2 in a process of its own, which imports it while conversations are held.

    Not for several threads at once, except for :meth:`close`.

    :param installation: the tau2 and the data that this process uses; the other must have the same.
    """

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._errors = tempfile.TemporaryFile()
        self._found: Mapping[str, Any] | None = None
        self._was_given_up = False
        # -P and a path: no module of ours, and none of the user's working directory, is in the way of tau2's own.
        # A session of its own: Ctrl-C in the terminal is for pytest. Less urgent than the conversations beside it.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(SCRIPT), str(installation.package.parent), str(installation.data)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **_ENVIRONMENT},
            start_new_session=True,
        )
        with contextlib.suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, 10)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def replay(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Return what tau2 makes of a recorded conversation (see ``tau2_stock.Stock.replay``).

        :raises VerifierError: if the process ended, does not answer, or has another tau2 than this one.
        """
        self._see_that_it_is_the_same()
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(job).encode() + b"\n")
            stdin.flush()
        except (OSError, ValueError):  # ended, or closed meanwhile
            raise self._ended() from None
        reply = self._read()
        if "trouble" in reply:
            raise VerifierError(f"the stock tau2 could not replay it: {_last_lines(reply['trouble'])}")
        return reply

    def _see_that_it_is_the_same(self) -> None:
        if self._found is None:
            self._found = self._read()
        wanted = {"package": self._installation.package, "data": self._installation.data}
        for name, place in wanted.items():
            if Path(self._found[name]).resolve() != place.resolve():
                raise VerifierError(f"the stock tau2 has its {name} in {self._found[name]}, and this run in {place}")

    def _read(self) -> dict[str, Any]:
        stdout = self._process.stdout
        assert stdout is not None
        # Ending it ends the read, too.
        watch = threading.Timer(PATIENCE, self._give_up)
        watch.daemon = True
        watch.start()
        try:
            line = stdout.readline()
        except ValueError:  # closed meanwhile
            line = b""
        finally:
            watch.cancel()
        if not line.endswith(b"\n"):
            raise self._ended()
        found: dict[str, Any] = json.loads(line, parse_constant=str)
        return found

    def _ended(self) -> VerifierError:
        self._kill()
        code = self._process.wait()
        if self._was_given_up:
            return VerifierError(f"the process of the stock tau2 did not answer within {PATIENCE:g} s")
        said = ""
        with contextlib.suppress(ValueError):  # closed meanwhile
            self._errors.seek(0)
            said = _last_lines(self._errors.read().decode(errors="replace"))
        how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
        return VerifierError(f"the process of the stock tau2 {how}" + (f"; it said: {said}" if said else ""))

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the process. Safe to call again, and while it works."""
        self._kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            # A thread that reads at this moment is told that it ended, whichever comes first.
            with contextlib.suppress(OSError, ValueError):
                if stream is not None:
                    stream.close()

    def _give_up(self) -> None:
        self._was_given_up = True
        self._kill()

    def _kill(self) -> None:
        # With its fork, which would keep the pipes open. Of a process that is waited for the group may be gone.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


def _last_lines(text: str) -> str:
    return text.strip()[-_TAIL:]
