"""Trial files: atomic, private, readable back."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pytest_a2a_bench.model import Reward, TrialKey, TrialResult
from pytest_a2a_bench.results import store as store_module
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


def test_read_all_of_every_run(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(result("1", "old"))
    store.write(result("2", "new"))
    assert [r.key.task_id for r in store.read_all()] == ["1", "2"]


def test_hostile_task_ids_stay_inside_the_directory(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    for task in ("../../etc/passwd", "a/b", "x" * 5000, "\x00", "con|:*?"):
        path = Path(str(store.write(result(task)).path))
        assert path.parent == store.trials
        assert store.read(result(task).key) is not None


def test_lone_surrogates_do_not_lose_a_result(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(result(error="\ud800 bad"))
    assert store.read(result().key) is not None


def test_concurrent_writers_leave_one_whole_file(tmp_path: Path) -> None:
    store = Store(tmp_path)
    threads = [threading.Thread(target=store.write, args=(result(run_id=f"r{i}"),)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [p.suffix for p in store.trials.iterdir()] == [".json"]
    assert store.read(result().key) is not None


def test_damaged_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for content in ("{", "[]", '{"schema_version": 1}', "null"):
        path.write_text(content)
        with pytest.raises(StoreError, match=r"x\.json is not a trial file"):
            load_trial(path)


def test_unwritable_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        Store(tmp_path / "file" / "results").prepare()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what state a process is in")
def test_what_a_process_left_that_nobody_waited_for_is_cleared_away(tmp_path: Path) -> None:
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


SAID = ("an answer", 'quotes: \n "run_id": "r1",\n', "half of a pair: \ud83d", "naïve ☃")
