"""The process that ``warm_python`` starts: imports everything once, and then is a fork for everybody who asks."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import itertools
import json
import os
import pkgutil
import runpy
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
import types
import warnings
from typing import NoReturn

import pytest

import pytest_a2a_bench

FLAGS = ("-u", "-B", "-P")

IMPORTED = (
    "xdist.dsession xdist.workermanage xdist.remote xdist.looponfail execnet.gateway_bootstrap "
    "execnet.rsync_remote hypothesis _hypothesis_pytestplugin rouge_score.rouge_scorer sacrebleu.metrics httpx "
    "a2a.client a2a.server.apps uvicorn.lifespan.on uvicorn.protocols.http.auto uvicorn.loops.auto starlette "
    "sse_starlette jsonschema grpc pandas opentelemetry.sdk.trace "
    "opentelemetry.exporter.otlp.proto.http.trace_exporter"
).split()

PR_SET_PDEATHSIG = 1


class _Imports:
    """A plugin that imports all that runs import, but the test modules that they collect."""

    def pytest_configure(self) -> None:
        from pytest_a2a_bench.benchmarks.tau2 import upstream

        for name in IMPORTED:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        for module in pkgutil.walk_packages(pytest_a2a_bench.__path__, "pytest_a2a_bench."):
            # The last is for scripts, and imports tau2 with its language models.
            apart = module.name.startswith("pytest_a2a_bench.suites.") or module.name.endswith(
                ("__main__", "bench.tau2")
            )
            if not apart:
                with contextlib.suppress(ImportError):
                    importlib.import_module(module.name)
        with contextlib.suppress(Exception):
            upstream.load()
        with contextlib.suppress(ImportError):
            _draw_once()


def _draw_once() -> None:
    """Let Hypothesis read every module that is imported: for its first example it looks for constants in them all."""
    import hypothesis

    # Not for its every example.
    several = hypothesis.settings(database=None, max_examples=100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it thinks that this is a plugin that slows down the start
        several(hypothesis.given(hypothesis.strategies.text())(lambda _: None))()


def _warm_up() -> None:
    """Import everything, inside a run of pytest without tests, and keep nothing that a function remembered."""
    empty = tempfile.mkdtemp()
    plugins = ("-ppytest_a2a_bench.plugin", "-pxdist.plugin", "-pno:cacheprovider")
    pytest.main([*plugins, "-q", "--collect-only", f"--rootdir={empty}", empty], plugins=[_Imports()])
    shutil.rmtree(empty)
    for name, module in list(sys.modules.items()):
        if name.startswith("pytest_a2a_bench"):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()
    gc.collect()
    gc.freeze()


def _serve(listener: socket.socket) -> socket.socket | None:
    """Fork for every connection; return it in the child, and None in the parent when nobody needs it any more."""
    children: dict[int, socket.socket] = {}
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        poll = select.poll()
        for file in (0, woken, listener):
            poll.register(file, select.POLLIN)
        for connection in children.values():
            # Their words are for the child: the only news for us is that whoever asked has been killed.
            poll.register(connection, 0)
        ready = [number for number, _ in poll.poll()]
        if 0 in ready:
            return None
        if woken in ready:
            os.read(woken, 4096)
            _tell_ends(children)
        for pid in [pid for pid, connection in children.items() if connection.fileno() in ready]:
            os.kill(pid, signal.SIGKILL)
            children.pop(pid).close()
        if listener.fileno() in ready:
            connection = listener.accept()[0]
            if not (pid := os.fork()):
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for other in children.values():
                    other.close()
                os.close(woken)
                os.close(waker)
                return connection
            children[pid] = connection
            with contextlib.suppress(OSError):
                connection.sendall(pid.to_bytes(4, "big"))


def _tell_ends(children: dict[int, socket.socket]) -> None:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if connection := children.pop(ended[0], None):
                with connection, contextlib.suppress(OSError):
                    connection.sendall(ended[1].to_bytes(4, "big"))


def _become(connection: socket.socket, path: list[str]) -> object:
    """Be the process that was asked for, up to its end; return what it asked to exit with."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with connection:
        head, files, _, _ = socket.recv_fds(connection, 4, 3)
        text = b""
        while len(text) < int.from_bytes(head, "big"):
            if not (part := connection.recv(1 << 16)):
                os._exit(1)
            text += part
    request = json.loads(text)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["environ"])
    os.chdir(request["cwd"])
    arguments: list[str] = request["arguments"]
    flags = list(itertools.takewhile(FLAGS.__contains__, arguments))
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        old = getattr(sys, name)
        stream = open(number, old.mode, encoding=old.encoding, errors=old.errors, closefd=False)
        stream.reconfigure(line_buffering=name == "stderr", write_through="-u" in flags)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.executable = request["executable"]
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    try:
        _run(arguments[len(flags) :], [] if "-P" in flags else [request["cwd"]], [*filter(None, places), *path])
    except SystemExit as end:
        return end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _run(arguments: list[str], first: list[str], path: list[str]) -> None:
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    importlib.invalidate_caches()
    if arguments[0] == "-c":
        sys.path[:] = [*(first and [""]), *path]
        sys.argv = ["-c", *arguments[2:]]
        exec(compile(arguments[1], "<string>", "exec"), vars(main))
    else:
        sys.path[:] = [*first, *path]
        sys.argv = arguments[arguments.index("pytest") if arguments[0] == "-m" else 0 :]
        runpy.run_module("pytest", run_name="__main__", alter_sys=True)


def _end(code: object) -> NoReturn:
    """End as Python does, but for taking every module apart, which would cost as much as the whole run."""
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    with contextlib.suppress(Exception):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    with contextlib.suppress(Exception):
        sys.stderr.flush()
    os._exit(code or 0)


def main(listener: int, path: list[str]) -> None:
    """Warm up, and fork until the process that started this one ends.

    :param listener: the number of the file where requests come in.
    :param path: where Python looks for modules if nobody says anything else.
    """
    _warm_up()
    with socket.socket(fileno=listener) as opened:
        connection = _serve(opened)
    if connection:
        _end(_become(connection, path))
