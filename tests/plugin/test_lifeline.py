from __future__ import annotations

import socket
import threading

from pytest_a2a_bench.plugin.xdist.lifeline import Lifeline, hold


def test_cutting_it_is_noticed_once() -> None:
    line, cut, died = Lifeline("run-1"), threading.Semaphore(0), threading.Event()
    hold(line.port, "run-1", cut.release, died.set)
    assert not cut.acquire(timeout=0.5)
    line.cut()
    assert cut.acquire(timeout=60)
    assert not cut.acquire(timeout=0.5)
    assert not died.is_set()
    line.cut()


def test_a_stranger_at_that_port_is_no_lifeline() -> None:
    line, cut = Lifeline("run-1"), threading.Event()
    hold(line.port, "run-2", cut.set, lambda: None)
    line.cut()
    assert not cut.wait(0.7)


def test_nobody_at_that_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    cut = threading.Event()
    hold(port, "run-1", cut.set, lambda: None)
    assert not cut.wait(0.5)
