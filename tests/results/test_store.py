"""Trial files: atomic, private, readable back."""

import json
import os
import re
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from one_test import in_one_test

from pytest_a2a_bench.model import (
    AgentSaid,
    Briefing,
    Event,
    Reward,
    ToolCall,
    ToolReturned,
    ToolSpec,
    TrialKey,
    TrialResult,
    UserSaid,
)
from pytest_a2a_bench.redact import KNOWN, KnownSecret
from pytest_a2a_bench.results import store as store_module
from pytest_a2a_bench.results.live import Growing, Watch, clear
from pytest_a2a_bench.results.lock import LOCK, InUseError, is_in_use, locked, take
from pytest_a2a_bench.results.store import Store, StoreError, load_trial


def result(task: str = "1", run_id: str = "r1", **kwargs: object) -> TrialResult:
    return TrialResult(TrialKey("tau2", "mock", task), "evaluated", run_id, Reward(1.0), **kwargs)  # type: ignore[arg-type]


def test_write_and_read(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    store.prepare()
    written = store.write(result())
    assert written.path is not None
    assert stat.S_IMODE(Path(written.path).stat().st_mode) == 0o600
    assert store.read(result().key) == written
    assert store.read(TrialKey("tau2", "mock", "other")) is None
    assert (tmp_path / "results" / ".gitignore").read_text() == "*\n"
    store = Store(tmp_path / "others")
    store.write(result("1", "old"))
    store.write(result("2", "new"))
    assert [r.key.task_id for r in store.read_all()] == ["1", "2"]
    store = Store(tmp_path / "others")
    written = store.write(result(error="\ud800 bad"))
    assert store.read(result().key) is not None
    damaged = json.loads(Path(str(written.path)).read_text()) | {"duration": "1.5"}
    store_module.save(tmp_path / "new" / "directory" / "x.json", json.dumps(damaged))
    with pytest.raises(StoreError, match=r"duration should be a valid number, found '1\.5'"):
        load_trial(tmp_path / "new" / "directory" / "x.json")


def test_a_file_that_is_only_elsewhere_is_fetched_until_it_is_forgotten(tmp_path: Path) -> None:
    files: dict[str, str] = {}
    place: Any = SimpleNamespace(put=files.__setitem__, get=files.get)
    store, key = Store(tmp_path), result().key
    store_module.bind(tmp_path, place)
    try:
        written = store.write(result())
        store.path(key).unlink()
        assert store.read(key) == written
        store.forget(key)
        assert store.read(key) is None
        place.put = Mock(side_effect=OSError("gone"))
        with pytest.raises(StoreError, match="cannot be written: gone"):
            store.write(result())
        assert list(store.trials.iterdir()) == []
    finally:
        store_module.unbind(tmp_path)
    assert store.write(result()).path


def test_hostile_task_ids_stay_inside_the_directory(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    for task in ("../../etc/passwd", "a/b", "x" * 5000, "\x00", "con|:*?"):
        path = Path(str(store.write(result(task)).path))
        assert path.parent == store.trials
        assert store.read(result(task).key) is not None


def test_concurrent_writers_leave_one_whole_file(tmp_path: Path) -> None:
    store = Store(tmp_path)
    threads = [threading.Thread(target=store.write, args=(result(run_id=f"r{i}"),)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [p.suffix for p in store.trials.iterdir()] == [".json"]
    assert store.read(result().key) is not None


def test_damaged_files_and_unwritable_directories_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.json"

    def measured(value: object) -> str:
        return json.dumps(result(provenance={"measured": value}).to_json())

    for content, words in (
        ("{", "it is not JSON"),
        ("[]", "the file should be an object, found a list"),
        ('{"schema_version": 1}', "key is missing"),
        ('{"schema_version": true}', "its schema_version is true; this version reads 1"),
        ("null", "the file should be an object, found null"),
        (measured({"queries": 1e19}), r"provenance\.measured\.queries should be a finite number"),
        (measured([1]), r"provenance\.measured should be an object of numbers"),
    ):
        path.write_text(content)
        with pytest.raises(StoreError, match=rf"x\.json is not a trial file that this version reads: {words}"):
            load_trial(path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        Store(tmp_path / "file" / "results").prepare()
    with pytest.raises(StoreError, match="cannot be written"):
        take(tmp_path / "file", "pytest")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what state a process is in")
def test_files_of_a_zombie_process_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as ended:
        assert ended.stdout is not None
        ended.stdout.read()  # it ends, and as long as nobody waits for it, it is a zombie
        state = Path(f"/proc/{ended.pid}/stat")
        while state.read_text().rpartition(")")[2].split()[0] != "Z":
            pass
        store = Store(tmp_path)
        store.prepare()
        left, own = (store.trials / f".{store_module._HOST}-{pid}-x.tmp" for pid in (ended.pid, os.getpid()))
        left.touch()
        own.touch()
        store.prepare()
        assert (left.exists(), own.exists()) == (False, True)
        # A process of another user is alive.
        monkeypatch.setattr(os, "kill", Mock(side_effect=PermissionError))
        left.touch()
        store.prepare()
        assert left.exists()


# Files of conversations that are being held: what is written is what is read, whoever looks and whenever.


KEY = TrialKey.parse("made/even/1#0")
BRIEFING = Briefing("Be kind.\n", (ToolSpec("look", "Looks."),))
EVENTS: tuple[Event, ...] = (
    UserSaid("hello\nthere \u2028"),
    AgentSaid(calls=(ToolCall("look", {"at": [1, None]}, "c1"),)),
    ToolReturned("c1", "look", '{"a": 1}', error=True),
    AgentSaid("It is there."),
)


def files(directory: Path) -> list[Path]:
    return sorted((directory / "live").glob("*"))


def test_a_conversation_grows_and_goes(tmp_path: Path) -> None:
    growing, watch = Growing(tmp_path, KEY, "run"), Watch(tmp_path)
    [held] = watch.look()
    assert (held.key, held.run_id, held.turns) == (str(KEY), "run", [])
    [path] = files(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    for event in EVENTS:
        growing.hear(BRIEFING, [event])
    [same] = watch.look()
    assert same is held
    assert held.briefing == {"policy": "Be kind.\n", "tools": [["look", "Looks."]]}
    assert [turn.to_json() for _, turn in held.turns] == [
        {"role": "user", "text": "hello\nthere \u2028"},
        {"role": "agent", "calls": [{"name": "look", "arguments": {"at": [1, None]}, "id": "c1"}]},
        {
            "role": "tool", "text": '{"a": 1}', "call_id": "c1", "tool": "look", "error": True, "requestor": "agent"
        },
        {"role": "agent", "text": "It is there."},
    ]  # fmt: skip
    # Once each, however often somebody looks.
    assert len(watch.look()[0].turns) == 4

    growing.end()
    # A trial that is held again is another conversation.
    second = Growing(tmp_path, KEY, "run")
    second.hear(BRIEFING, EVENTS[:1], party="other")
    [again] = watch.look()
    assert again.id != held.id
    assert len(again.turns) == 1

    second.end()
    growing.hear(BRIEFING, EVENTS)
    growing.end()
    assert (watch.look(), files(tmp_path)) == ([], [])


def test_half_a_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    growing, watch = Growing(tmp_path, KEY, "run"), Watch(tmp_path)
    [path] = files(tmp_path)
    line = json.dumps({"at": 1, "turn": {"role": "user", "text": "ü"}}, ensure_ascii=False).encode() + b"\n"
    for at, _ in enumerate(line):
        with path.open("ab") as stream:
            stream.write(line[at : at + 1])
        assert len(watch.look()[0].turns) == (at + 1 == len(line))
    growing.end()


@in_one_test("text", [b"{\n", b"[]\n", b"\xff\xfe\n", b'{"key": 1, "began": "x"}\n', b"", b'{"turn": {}}\n'])
def test_damaged_live_files_are_ignored(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "live").mkdir(exist_ok=True)
    (tmp_path / "live" / "made.0123.jsonl").write_bytes(text)
    (tmp_path / "live" / "x.jsonl").write_bytes(text)
    Growing(tmp_path, KEY, "run")
    assert [held.key for held in Watch(tmp_path).look()] == [str(KEY)]
    clear(tmp_path)
    assert Watch(tmp_path).look() == []


def test_secrets_are_not_in_them(tmp_path: Path) -> None:
    forget = KNOWN.remember([KnownSecret("A2A_AUTH_TOKEN", "s3cret-token-of-the-agent")])
    Growing(tmp_path, KEY, "run").hear(BRIEFING, [AgentSaid("I know s3cret-token-of-the-agent")])
    forget()
    assert "s3cret" not in files(tmp_path)[0].read_text()


def test_a_directory_that_cannot_be_written_ends_no_conversation(tmp_path: Path) -> None:
    (tmp_path / "live").touch()
    growing = Growing(tmp_path, KEY, "run")
    growing.hear(BRIEFING, EVENTS)
    growing.end()


# One writer at a time in a results directory, whatever became of the one before.


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
    path = directory / LOCK
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


DAMAGED = ("", "{", "[]", "[" * 100_000, "\xff", '{"pid": "x"}', '{"pid": -1}')


def test_whoever_holds_a_directory_is_named_also_by_a_damaged_file(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "results"
    with another(directory) as pid:
        message = (
            rf"{directory} is in use by pytest, process {pid} on {re.escape(os.uname().nodename)}, since 20\d\d-.*Z; "
        )
        with pytest.raises(InUseError, match=message + rf"wait .*--a2a-results.*remove {directory / LOCK}$"):
            take(directory, "pytest")
        # Another host is believed.
        change(directory, host="elsewhere", pid=2**22 + 1)
        with pytest.raises(InUseError, match="on elsewhere, since"):
            take(directory, "pytest")
        for content in DAMAGED:
            (directory / LOCK).write_text(content, encoding="latin-1")
            with pytest.raises(InUseError, match="in use by"):
                take(directory, "pytest")
    for content in DAMAGED:
        (directory / LOCK).write_text(content, encoding="latin-1")
        take(directory, "pytest").release()
    with locked(directory, "test"):
        assert json.loads((directory / LOCK).read_text())["pid"] == os.getpid()
        with pytest.raises(InUseError, match=f"in use by test, process {os.getpid()}"):
            take(directory, "pytest")
    assert list(directory.iterdir()) == []


def test_a_kill_gives_it_back_and_no_child_keeps_it(tmp_path: Path) -> None:
    with another(tmp_path):
        assert is_in_use(tmp_path)
    assert (tmp_path / LOCK).exists()
    take(tmp_path, "pytest").release()
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


def test_a_file_system_without_locks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", none)
    with pytest.raises(StoreError, match=r"cannot be written or locked: .*not supported"):
        take(tmp_path, "pytest")
