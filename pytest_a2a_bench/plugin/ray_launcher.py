"""A program that execnet starts as if it were Python: it runs a Python on a Ray cluster and passes its streams on.

``python -m pytest_a2a_bench.plugin.ray_launcher TERMS ...``: the rest are the arguments of that Python. It ends
with code 3 and one line where Ray is not installed or the cluster is not there. Where there only is no room at the
moment, a worker starts here, which says so to its controller and ends (see elsewhere.py).
"""

from __future__ import annotations

import base64
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlsplit

_CHUNK = 2**16
_TRIES = 3
_KNOCK_SECONDS = 10.0
TROUBLE = 3
"""The exit code where the cluster is not there."""

UNPLACED = "A2A_BENCH_UNPLACED"
"""Environment variable of a worker for which no place was found: why."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The configuration of a worker.

    :param address: of the cluster, as ``ray.init`` takes it.
    :param cpus: that it reserves, also less than one.
    :param wait: seconds until there is room for it.
    :param environment: names of variables that it gets from here.
    :param runtime_env: Ray's ``runtime_env``.
    :param directory: where it starts, if that is there; empty for where the actor is.
    :param workers: how many there will be.
    """

    address: str
    cpus: float = 1.0
    wait: float = 60.0
    environment: tuple[str, ...] = ()
    runtime_env: dict[str, Any] = field(default_factory=dict)
    directory: str = ""
    workers: int = 1

    def to_argument(self) -> str:
        """Return one word: a specification of execnet may hold neither quotes nor ``//``."""
        return base64.urlsafe_b64encode(json.dumps(asdict(self)).encode()).decode()

    @classmethod
    def of(cls, argument: str) -> Terms:
        """Read the output of :meth:`to_argument`."""
        values = json.loads(base64.urlsafe_b64decode(argument))
        return cls(**values | {"environment": tuple(values["environment"])})


class Carrier:
    """In the cluster: a Python in a process of its own, so that nothing but its own output is in its streams."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, arguments: list[str], environment: dict[str, str], directory: str) -> None:
        """Start it; the actor's own directory is where ``runtime_env`` put the project."""
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            cwd=directory if os.path.isdir(directory) else None,
            env={**os.environ, **environment},
        )

    def write(self, data: bytes) -> None:
        """Pass input on; none is its end."""
        assert self._process is not None
        assert self._process.stdin is not None
        if not data:
            self._process.stdin.close()
            return
        view = memoryview(data)
        while view:
            view = view[self._process.stdin.write(view) :]

    def read(self) -> bytes:
        """Wait for output and return it; none is its end."""
        assert self._process is not None
        assert self._process.stdout is not None
        return os.read(self._process.stdout.fileno(), _CHUNK)

    def end(self) -> int:
        """Return how it ended, once it has."""
        assert self._process is not None
        return self._process.wait()


def main(arguments: list[str]) -> int:
    """Run a Python in the cluster until it ends; ``--check`` only looks whether the cluster is there."""
    # What Ray and what it loads print is not for execnet.
    output = os.dup(1)
    os.dup2(2, 1)
    check = arguments[0] == "--check"
    terms, rest = Terms.of(arguments[1 if check else 0]), arguments[1:]
    try:
        if check:
            _knock(terms.address)
        ray = _connect(terms)
    except Exception as error:  # Ray raises whatever its parts raise
        return _trouble(f"no Ray cluster answers at {terms.address}: {error}")
    if check:
        return _trouble(problem) if (problem := _room(ray, terms)) else 0
    try:
        carrier = _place(ray, terms, rest)
    except Unplaced as error:
        os.dup2(output, 1)
        os.execve(sys.executable, [sys.executable, *rest], {**os.environ, UNPLACED: str(error)})
    return _carry(ray, carrier, output)


class Unplaced(Exception):
    """The cluster has no room."""


def _knock(address: str) -> None:
    """Raise OSError if nothing listens at the address: Ray itself tries for some minutes."""
    there = urlsplit(address if "://" in address else f"//{address}")
    if there.hostname and there.port:
        socket.create_connection((there.hostname, there.port), _KNOCK_SECONDS).close()


def _connect(terms: Terms) -> Any:
    # Else each worker's launcher would advise this in the terminal.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    ray.init(
        address=terms.address,
        runtime_env=terms.runtime_env or None,
        log_to_driver=False,
        logging_level=logging.ERROR,
        namespace="pytest-a2a-bench",
    )
    return ray


def _room(ray: Any, terms: Terms) -> str:
    """Explain why the workers cannot all be there at once; empty where they can."""
    there = float(ray.cluster_resources().get("CPU", 0))
    wanted = terms.workers * terms.cpus
    if wanted <= there:
        return ""
    return (
        f"the Ray cluster at {terms.address} has {there:g} CPUs, and {terms.workers} workers with {terms.cpus:g} each "
        "need more; give a lower -n or ray-cpus"
    )


def _place(ray: Any, terms: Terms, arguments: list[str]) -> Any:
    """Start the Python on whichever node has room; a node that dies meanwhile is not the end of it."""
    environment = {name: os.environ[name] for name in terms.environment if name in os.environ}
    deadline = time.monotonic() + terms.wait
    reason = ""
    for _ in range(_TRIES):
        options = {"num_cpus": terms.cpus, "max_concurrency": 4, "scheduling_strategy": "SPREAD"}
        carrier = ray.remote(Carrier).options(**options).remote()
        try:
            started = carrier.start.remote(arguments, environment, terms.directory)
            ray.get(started, timeout=max(1.0, deadline - time.monotonic()))
            return carrier
        except ray.exceptions.GetTimeoutError:
            ray.kill(carrier)
            raise Unplaced(
                f"the Ray cluster at {terms.address} had no room for a worker with {terms.cpus:g} CPUs within "
                f"{terms.wait:g} s (ray-wait)"
            ) from None
        except ray.exceptions.RayError as error:
            reason = " ".join(str(error).split())[:300]
    raise Unplaced(f"a worker could not be started on the Ray cluster at {terms.address}: {reason}")


def _carry(ray: Any, carrier: Any, output: int) -> int:
    def feed() -> None:
        try:
            while True:
                data = os.read(0, _CHUNK)
                ray.get(carrier.write.remote(data))
                if not data:
                    return
        except Exception:  # the Python or its node is gone, which reading tells, too
            return

    threading.Thread(target=feed, daemon=True).start()
    try:
        while data := ray.get(carrier.read.remote()):
            view = memoryview(data)
            while view:
                view = view[os.write(output, view) :]
        return int(ray.get(carrier.end.remote()))
    except ray.exceptions.RayError as error:
        return _trouble(f"the worker's node is gone: {' '.join(str(error).split())[:300]}")
    except BrokenPipeError:
        return 0
    finally:
        os.close(output)


def _trouble(text: str) -> int:
    print(" ".join(text.split()), file=sys.stderr)
    return TROUBLE


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    # _exit: a thread waits for input, and Ray's own ending takes seconds when nodes are gone.
    os._exit(code)
