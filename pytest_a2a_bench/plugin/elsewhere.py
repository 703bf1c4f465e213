"""Results of workers that another program starts (``docker exec``, ssh, Ray), and their placement on Ray."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_a2a_bench.plugin import ray_launcher
from pytest_a2a_bench.plugin.ray_launcher import UNPLACED, Terms
from pytest_a2a_bench.plugin.resolve import runtime_env
from pytest_a2a_bench.plugin.state import FILES, BenchRun, raise_usage_error
from pytest_a2a_bench.results import remote
from pytest_a2a_bench.results.store import StoreError, bind, save, unbind
from pytest_a2a_bench.text import reason_of

# What a worker may write; nothing else of this machine is any of its business.
_NAMES = re.compile(r"(?:run|decided|breaker(?:-[\w-]+)?)\.json|trials/[^/\\]+\.json")


def join(config: pytest.Config, run: BenchRun, channel: Any) -> None:
    """Register the plugins for workers on other machines.

    :param channel: of a worker that is elsewhere itself: to its controller.
    """
    if run.worker is None:
        config.pluginmanager.register(Controller(run), "a2a-bench-elsewhere")
        if run.settings.ray is not None and run.takes_part and not run.plan.problems:
            place(config, run)
    elif channel is None and run.settings.endpoint and "://" in run.settings.results:
        # Each worker of this machine writes for itself.
        remote.bind_url(run.settings.results, run.plan.results)
        config.add_cleanup(partial(unbind, run.plan.results))
    elif channel is not None:
        _settle(config, run, ControllerPlace(channel, str(run.plan.results)))


def _settle(config: pytest.Config, run: BenchRun, place: ControllerPlace) -> None:
    """Let this worker write into a directory of its own that stands for its controller's."""
    if reason := os.environ.get(UNPLACED):
        place.tell(reason)
        os._exit(1)
    directory = Path(tempfile.mkdtemp(prefix="a2a-results-"))
    config.add_cleanup(partial(shutil.rmtree, directory, ignore_errors=True))
    bind(directory, place)
    config.add_cleanup(partial(unbind, directory))
    run.decide(results=directory)
    # The controller's is a directory of its machine.
    config.option.basetemp = None


ANSWER = 300.0
"""Seconds that a worker waits for an answer."""


class ControllerPlace:
    """The controller's results directory, as a worker elsewhere has it: threads send requests one after another.

    :param name: how the controller calls it.
    """

    def __init__(self, channel: Any, name: str) -> None:
        self.name = name
        self._channel = channel
        self._lock = threading.Lock()
        self._number = 0

    def put(self, name: str, text: str) -> None:
        """Send a file, and wait until it is written."""
        self._ask("put", name, text)

    def get(self, name: str) -> str | None:
        """Ask for a file."""
        return self._ask("get", name, "")

    def tell(self, reason: str) -> None:
        """Explain why there will be no worker."""
        self._ask("tell", reason, "")

    def claim(self, holder: str) -> str | None:
        """Take nothing: the controller has its directory already."""
        return None

    def release(self) -> None:
        """Give nothing back."""

    def _ask(self, *question: str) -> str | None:
        """Send a request, and return the answer.

        :raises OSError: if the controller does not answer, or with the problem that it has.
        """
        try:
            with self._lock:
                self._number += 1
                self._channel.send((self._number, *question))
                number = 0
                # A question that timed out may be answered later; that answer is skipped.
                while number != self._number:
                    number, problem, answer = self._channel.receive(ANSWER)
        # execnet's own errors, EOFError among them.
        except Exception as error:
            raise OSError(f"the controller does not answer ({type(error).__name__})") from error
        if problem:
            raise OSError(problem)
        return None if answer is None else str(answer)


class Controller:
    """The controller's side: keeps the files that workers on other machines write."""

    def __init__(self, run: BenchRun) -> None:
        self.run = run
        self._told: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Give a worker that is not simply a child of this process a channel for its files."""
        spec = node.gateway.spec
        if not self.run.settings.endpoint or (spec.popen and not spec.python):
            return
        channel = node.gateway.newchannel()
        channel.setcallback(partial(self._answer, channel))
        node.workerinput[FILES] = channel
        # xdist sends its sys.path along with "popen"; what is there is another Python.
        spec.popen = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Let a replacement be started as the worker was."""
        if FILES in node.workerinput:
            spec = node.gateway.spec
            spec.popen = None if spec.ssh or spec.vagrant_ssh or spec.socket else True
        if error and self._told:
            terminal = node.config.pluginmanager.get_plugin("terminalreporter")
            if terminal is not None:
                terminal.ensure_newline()
                terminal.write_line(f"[{node.gateway.id}] {self._told[-1]}")
            self._told.clear()

    def _answer(self, channel: Any, numbered: tuple[int, str, str, str]) -> None:
        # In execnet's receiving thread, where an exception would end the channel.
        number, *question = numbered
        try:
            channel.send((number, "", self._do(*question)))
        except (StoreError, ValueError) as error:
            channel.send((number, str(error), None))
        except OSError:
            # The worker is gone, and so is who asked.
            return

    def _do(self, what: str, name: str, text: str) -> str | None:
        if what == "tell":
            self._told.append(name)
            return None
        if _NAMES.fullmatch(name) is None:
            raise ValueError(f"{name!r} is no file of a results directory")
        path = self.run.plan.results / name
        if what == "put":
            save(path, text)
            return None
        return _read(path)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {reason_of(error)}") from error


# -- ``--a2a-ray``: xdist's workers run on a Ray cluster, each behind a launcher that carries its streams --

_LAUNCHER = (sys.executable, "-m", ray_launcher.__name__)
# Without the first, a worker would not collect what its controller does.
_ALWAYS = ("PYTEST_ADDOPTS", "PYTHONHASHSEED", "NO_PROXY", "HTTPS_PROXY")
_CHECK = 120.0


def place(config: pytest.Config, run: BenchRun) -> None:
    """Let xdist start its workers on the cluster.

    :raises pytest.UsageError: if the cluster is not there, or has too little for all of them.
    """
    settings = run.settings
    specs = [str(spec) for spec in config.option.tx]
    if settings.ray is None or not specs or config.option.collectonly:
        return
    environment = runtime_env(settings)
    terms = Terms(
        settings.ray,
        settings.ray_cpus,
        settings.ray_wait,
        tuple(dict.fromkeys((*settings.ray_env, *settings.secret_variables, *run.services.variables, *_ALWAYS))),
        environment,
        # Where Ray itself brings the project, the actor is there already.
        "" if "working_dir" in environment else str(config.invocation_params.dir),
        len(specs),
    )
    try:
        checked = subprocess.run(
            [*_LAUNCHER, "--check", terms.to_argument()],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_CHECK,
        )
    except subprocess.TimeoutExpired:
        raise_usage_error(f"--a2a-ray={settings.ray}: no Ray cluster answers there within {_CHECK:g} s")
    if checked.returncode:
        said = checked.stderr.strip().splitlines() or [f"Ray ended with code {checked.returncode}"]
        raise_usage_error(f"--a2a-ray={settings.ray}: {said[-1]}")
    config.option.tx = [f"popen//python={shlex.join(_LAUNCHER)} {terms.to_argument()}"] * len(specs)
    # A replacement for which there is no room ends at once, and another would do no better.
    if config.option.maxworkerrestart is None:
        config.option.maxworkerrestart = str(len(specs))
