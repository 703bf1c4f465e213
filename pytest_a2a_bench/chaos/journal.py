"""What was done to whom: one line of JSON for each fault, and a summary."""

from __future__ import annotations

import contextlib
import datetime
import json
from collections import Counter
from pathlib import Path
from typing import IO

from pytest_a2a_bench.chaos.calls import Call
from pytest_a2a_bench.chaos.spec import ChaosSpec
from pytest_a2a_bench.errors import ConfigurationError


class Journal:
    """Counts faults, and writes them to a file.

    :param path: the file, which is added to; None for counting only.
    :raises ConfigurationError: if it cannot be written.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.requests = 0
        self.injected: Counter[str] = Counter()
        self.unfit: Counter[str] = Counter()
        self.troubles = 0
        self._path = path
        self._broken = ""
        self._file: IO[str] | None = None
        if path is not None:
            try:
                self._file = open(path, "a", encoding="utf-8")
            except OSError as error:
                raise ConfigurationError(
                    f"--chaos-log {path}: {error.strerror or error}; name a file in a directory that can be written"
                ) from error

    def fault(self, number: int, fault: str, call: Call, *, injected: bool = True) -> None:
        """Note a fault.

        :param number: of the request, counting from 1 those that may be hit.
        :param injected: False where the answer had nothing that the fault could be done to.
        """
        (self.injected if injected else self.unfit)[fault] += 1
        self._write(call, request=number, fault=fault, injected=injected)

    def trouble(self, number: int | None, call: Call, error: str) -> None:
        """Note that the agent itself could not be reached or broke off."""
        self.troubles += 1
        self._write(call, request=number, fault=None, error=error)

    def _write(self, call: Call, **fields: object) -> None:
        if self._file is None:
            return
        when = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        about = {"transport": call.transport, "method": call.method, "messageId": call.message_id}
        try:
            # Whoever watches the file, or kills the process, must find every fault that happened.
            self._file.write(json.dumps({"time": when, **fields, **about}) + "\n")
            self._file.flush()
        except OSError as error:
            # A full disk ends the log, and must not look like a fault of the agent.
            self._broken = f", incomplete: {error.strerror or error}"
            self.close()

    def summary(self, spec: ChaosSpec) -> str:
        """Return one line about all of it."""
        faults = ", ".join(f"{name} {count}" for name, count in sorted(self.injected.items()))
        said = f"chaos: {_counted(self.requests, 'request')}, {_counted(self.injected.total(), 'fault')}"
        said += f" ({faults})" if faults else ""
        if self.unfit:
            said += f", {self.unfit.total()} drawn and not injected"
        if self.troubles:
            said += f", {_counted(self.troubles, 'time')} the agent itself gave no whole answer"
        said += f"; {spec}"
        return f"{said}; log {self._path}{self._broken}" if self._path is not None else said

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            # What could not be written is tried again at the end, and is no more welcome then.
            with contextlib.suppress(OSError):
                file.close()


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + "s" * (number != 1)
