"""What a command costs: instructions where they can be counted, and CPU seconds anyway.

Instructions repeat within a fraction of a percent however busy a machine is, which seconds do not. They are counted by
the kernel (``perf_event_open``, of the command and all processes it starts); where it has no counters, as in many
virtual machines, by Valgrind's cachegrind if that is installed (one process, about 20 times slower); else not at all.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

_OPEN = {"x86_64": 298, "aarch64": 241}
"""Machine -> number of the system call ``perf_event_open``."""

# struct perf_event_attr: hardware counter 1 (instructions), of user space, inherited, begun by exec.
_SIZE, _INSTRUCTIONS = 112, 1
_DISABLED, _INHERIT, _NO_KERNEL, _NO_HYPERVISOR, _AT_EXEC = 1 << 0, 1 << 1, 1 << 5, 1 << 6, 1 << 12
_OF_COMMAND = _DISABLED | _INHERIT | _NO_KERNEL | _NO_HYPERVISOR | _AT_EXEC


class Cost(NamedTuple):
    """What one command cost.

    :param instructions: None where nothing counts them.
    :param cpu: seconds of the command and its children; None where Valgrind ran them.
    """

    instructions: int | None
    cpu: float | None


@functools.cache
def counter() -> str:
    """Return what counts instructions here: ``perf``, ``valgrind``, or ``nothing``."""
    descriptor = _open(0)
    if descriptor is not None:
        os.close(descriptor)
        return "perf"
    return "valgrind" if shutil.which("valgrind") else "nothing"


def count(command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Cost:
    """Run a command to its end and return its cost.

    :raises SystemExit: if it fails; what it wrote is shown.
    """
    # Hashes decide how often dictionaries collide.
    environ = {**os.environ, "PYTHONHASHSEED": "0", **(env or {})}
    if counter() == "valgrind":
        return Cost(_by_valgrind(command, environ, cwd), None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # A shell waits for a line; what it then becomes is counted (_AT_EXEC).
    waiting = ["/bin/sh", "-c", 'read _; exec "$@"', "sh", *command]
    with subprocess.Popen(
        waiting, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environ, cwd=cwd
    ) as process:
        descriptor = _open(process.pid) if counter() == "perf" else None
        told, _ = process.communicate(b"\n")
    instructions = None
    if descriptor is not None:
        instructions = _read(descriptor)
        os.close(descriptor)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    _check(command, process.returncode, told)
    return Cost(instructions, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def count_here(work: Callable[[], object]) -> Cost:
    """Do some work in this process and return its cost; only the kernel can count its instructions."""
    descriptor = _open(0, _NO_KERNEL | _NO_HYPERVISOR)
    began = _read(descriptor)
    cpu = time.process_time()
    work()
    cpu = time.process_time() - cpu
    instructions = None
    if descriptor is not None:
        instructions = _read(descriptor) - began
        os.close(descriptor)
    return Cost(instructions, cpu)


def _read(descriptor: int | None) -> int:
    return 0 if descriptor is None else int(struct.unpack("Q", os.read(descriptor, 8))[0])


def _by_valgrind(command: Sequence[str], environ: Mapping[str, str], cwd: Path | None) -> int:
    with tempfile.NamedTemporaryFile("r") as log:
        tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
        done = subprocess.run(
            [*tool, f"--log-file={log.name}", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environ,
            cwd=cwd,
            check=False,
        )
        _check(command, done.returncode, done.stdout)
        found = re.search(r"I\s+refs:\s+([\d,]+)", log.read())
    if found is None:
        raise SystemExit("valgrind did not say how many instructions it counted")
    return int(found[1].replace(",", ""))


def _check(command: Sequence[str], code: int, told: bytes) -> None:
    if code != 0:
        raise SystemExit(f"{' '.join(command)} ended with {code}:\n{told.decode(errors='replace')}")


def _open(pid: int, flags: int = _OF_COMMAND) -> int | None:
    """Open a counter of a process's instructions; None where the kernel has none or does not let us."""
    number = _OPEN.get(platform.machine())
    if number is None or sys.platform != "linux":
        return None
    attributes = ctypes.create_string_buffer(struct.pack("IIQQQQQ", 0, _SIZE, _INSTRUCTIONS, 0, 0, 0, flags), _SIZE)
    found: int = ctypes.CDLL(None).syscall(number, attributes, pid, -1, -1, 0)
    return found if found >= 0 else None


def versions(*distributions: str) -> dict[str, str]:
    """Return what counts depend on: Python, the machine, what counts, and distributions that are installed."""
    found = {"python": platform.python_version(), "machine": platform.machine(), "counter": counter()}
    for name in distributions:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found


def millions(number: int | None) -> str:
    """Return a count as text for a table."""
    return "" if number is None else f"{number / 1e6:,.1f}"
