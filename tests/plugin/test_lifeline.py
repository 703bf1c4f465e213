from __future__ import annotations

import threading
from pathlib import Path

from pytest_a2a_bench.plugin.xdist.sides import watch_controller


def test_the_end_of_the_controller_is_noticed_once(tmp_path: Path) -> None:
    lifeline, stopped, died = tmp_path / "lifeline", threading.Semaphore(0), threading.Event()
    lifeline.touch()
    watch_controller(str(lifeline), stopped.release, died.set)
    assert not stopped.acquire(timeout=0.5)
    lifeline.unlink()
    assert stopped.acquire(timeout=60)
    assert not stopped.acquire(timeout=0.5)
    assert not died.is_set()


def test_a_controller_on_another_machine_never_stops() -> None:
    stopped = threading.Event()
    watch_controller(None, stopped.set, lambda: None)
    assert not stopped.wait(0.5)
