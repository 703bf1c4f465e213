"""One writer at a time in a results directory, whatever became of the one before."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pytest_a2a_bench.results.lock import NAME, InUseError, held, is_in_use, take
from pytest_a2a_bench.results.store import StoreError

HOLDER = """
import fcntl, os, pathlib, sys
from pytest_a2a_bench.results import lock
lock.take(pathlib.Path(sys.argv[1]), "pytest")
print(os.getpid(), flush=True)
if sys.argv[2] == "fork" and os.fork():
    os._exit(0)  # the child has the lock, too
sys.stdin.read()
"""


@contextmanager
def another(directory: Path, how: str = "") -> Iterator[int]:
    """Let another process hold a directory, and give its number; with ``fork`` a child of one that has ended."""
    command = [sys.executable, "-c", HOLDER, str(directory), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        if how == "fork":
            process.wait()
        yield pid
        process.kill()


def change(directory: Path, **values: Any) -> None:
    path = directory / NAME
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_a_second_one_is_told_who_is_there(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "results"
    with another(directory) as pid:
        told = (
            rf"{directory} is in use by pytest, process {pid} on {re.escape(os.uname().nodename)}, since 20\d\d-.*Z; "
        )
        with pytest.raises(InUseError, match=told + rf"wait .*--a2a-results.*remove {directory / NAME}$"):
            take(directory, "pytest")
    with held(directory, "test"):
        assert json.loads((directory / NAME).read_text())["pid"] == os.getpid()
        with pytest.raises(InUseError, match=f"in use by test, process {os.getpid()}"):
            take(directory, "pytest")
    assert list(directory.iterdir()) == []


def test_a_kill_gives_it_back(tmp_path: Path) -> None:
    with another(tmp_path):
        pass
    assert (tmp_path / NAME).exists()
    take(tmp_path, "pytest").release()


def test_a_child_of_a_process_that_is_gone_does_not_hold_it(tmp_path: Path) -> None:
    with another(tmp_path, "fork"):
        lock = take(tmp_path, "pytest")
        with pytest.raises(InUseError, match=f"process {os.getpid()} "):
            take(tmp_path, "pytest")
        lock.release()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="when a process started cannot be told here")
def test_a_number_that_another_process_has_now(tmp_path: Path) -> None:
    with another(tmp_path):
        assert is_in_use(tmp_path)
    change(tmp_path, pid=os.getppid(), process_start="1")
    assert not is_in_use(tmp_path)
    take(tmp_path, "pytest").release()


def test_another_host_is_believed(tmp_path: Path) -> None:
    with another(tmp_path):
        change(tmp_path, host="elsewhere", pid=2**22 + 1)
        with pytest.raises(InUseError, match="on elsewhere, since"):
            take(tmp_path, "pytest")


@pytest.mark.parametrize("content", ["", "{", "[]", "[" * 100_000, "\xff", '{"pid": "x"}', '{"pid": -1}'])
def test_a_file_that_is_damaged(tmp_path: Path, content: str) -> None:
    (tmp_path / NAME).write_text(content, encoding="latin-1")
    take(tmp_path, "pytest").release()
    with another(tmp_path):
        (tmp_path / NAME).write_text(content, encoding="latin-1")
        with pytest.raises(InUseError, match="in use by"):
            take(tmp_path, "pytest")


def test_a_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        take(tmp_path / "file", "pytest")


def test_a_file_system_without_locks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", none)
    with pytest.raises(StoreError, match=r"cannot be written or locked: .*not supported"):
        take(tmp_path, "pytest")
