"""How many of the package's files one trial, one conformance check and one gate pass: those whose functions are called.

    python perf/walks.py [--list] [trial|check|gate ...]

Each walk is a pytest run of one item in a process of its own, as a user would start it. A file is passed when one of
its functions is called; that a module is imported does not count, nor do the methods that a dataclass is given.
Counted apart: setting up (``pytest_configure``), collecting, the item as pytest's own thread sees it, the conversation
(all threads from the pool to the store), other threads before it (finding the agent; the checks of a conformance run),
and what follows the last item. ARCHITECTURE.md gives the numbers, and they are to fall.

Of a conversation it also counts the package's frames on the stack where tau2's orchestrator begins (from the start of
the thread), and where httpx is handed a request (from the start of the turn on the event loop).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1] / "pytest_a2a_bench"
OUTPUT = "WALKS_OUTPUT"
WALKS = {
    "trial": ["--a2a-endpoint", "builtin:oracle", "--a2a-suite", "airline", "-k", "12-t0"],
    "check": ["--a2a-endpoint", "builtin:echo", "--a2a-suite", "protocol", "-k", "SEND-003-JSONRPC"],
    "gate": ["--a2a-endpoint", "builtin:oracle", "--a2a-suite", "mock", "-k", "create", "--a2a-min-pass", "0.1"],
}
DEPTHS = {
    "BaseOrchestrator.run": "tau2",
    "Orchestrator.run": "tau2",
    "AsyncHTTPTransport.handle_async_request": "httpx",
}
"""Functions of others whose depth below us is counted, and what they are called here."""

BEGINS = f"trials{os.sep}pool.py"
"""Where a thread begins that holds a trial."""


class Walk:
    """Takes down which files are passed, phase by phase; threads of their own are the conversation."""

    def __init__(self) -> None:
        self.phase = "configure"
        self.files: dict[str, dict[str, None]] = {}
        self.depths: dict[str, list[str]] = {}
        self._held = False
        self._prefix = f"{ROOT}{os.sep}"

    def begin(self) -> None:
        """Look at every call from here on, in this thread and in those that it starts."""
        threading.setprofile(self._called_in_a_thread)
        sys.setprofile(self._called)

    def end(self) -> None:
        """Look no longer."""
        sys.setprofile(None)
        threading.setprofile(None)

    def _called_in_a_thread(self, frame: FrameType, event: str, _: Any) -> None:
        self._held = self._held or frame.f_code.co_filename == f"{self._prefix}{BEGINS}"
        if self._held and event == "call" and (name := DEPTHS.get(frame.f_code.co_qualname)):
            self.depths[name] = list(self._stack(frame))
        self._note("conversation" if self._held else "other threads", frame, event)

    def _stack(self, frame: FrameType | None) -> Iterator[str]:
        """Yield the package's own frames, the innermost first."""
        while frame is not None:
            if frame.f_code.co_filename.startswith(self._prefix):
                yield f"{frame.f_code.co_filename[len(self._prefix) :]}:{frame.f_code.co_qualname}"
            frame = frame.f_back

    def _called(self, frame: FrameType, event: str, _: Any) -> None:
        self._note(self.phase, frame, event)

    def _note(self, phase: str, frame: FrameType, event: str) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(self._prefix):
            return
        files, file = self.files.setdefault(phase, {}), frame.f_code.co_filename[len(self._prefix) :]
        if file not in files and not self._imports(frame):
            files[file] = None

    def _imports(self, frame: FrameType | None) -> bool:
        """Tell whether a call is part of an import of ours: a decorator, a table, a class's body."""
        while frame is not None:
            if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(self._prefix):
                return True
            frame = frame.f_back
        return False


WALK = Walk()


def pytest_collection() -> None:
    WALK.phase = "collection"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    WALK.phase = "item"
    try:
        return (yield)
    finally:
        WALK.phase = "conclusion"


def pytest_unconfigure() -> None:
    WALK.end()
    Path(os.environ[OUTPUT]).write_text(
        json.dumps({phase: list(files) for phase, files in (*WALK.files.items(), *WALK.depths.items())})
    )


def measure(name: str) -> dict[str, list[str]]:
    """Return the files of one walk by phase, each in the order in which they were entered."""
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "walk.json"
        path = os.pathsep.join((str(ROOT.parent), str(Path(__file__).parent)))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", Path(__file__).stem, *WALKS[name]],
            cwd=directory,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": path, OUTPUT: str(output)},
        )
        if done.returncode != 0:
            raise SystemExit(f"{name}: pytest ended with {done.returncode}\n{done.stdout}{done.stderr}")
        found: dict[str, list[str]] = json.loads(output.read_text())
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("walks", nargs="*", help=f"of {', '.join(WALKS)} (default: all)")
    parser.add_argument("--list", action="store_true", help="name the files, in the order in which they were entered")
    chosen = parser.parse_args()
    for name in chosen.walks or WALKS:
        found = measure(name)
        depths = {name: found.pop(name) for name in dict.fromkeys(DEPTHS.values()) if name in found}
        counts = ", ".join(f"{phase} {len(files)}" for phase, files in found.items())
        print(f"{name}: {len({file for files in found.values() for file in files})} files ({counts})")
        for where, frames in depths.items():
            print(f"  {len(frames)} frames above {where}")
        for phase, files in (*found.items(), *depths.items()) if chosen.list else ():
            print(f"  {phase}: {' '.join(files)}")


if __name__ == "__main__":
    main()
elif OUTPUT in os.environ:
    WALK.begin()
