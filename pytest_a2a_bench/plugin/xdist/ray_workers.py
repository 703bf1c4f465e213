"""``--a2a-ray``: xdist's workers are placed on a Ray cluster, each behind a launcher that carries its streams."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

from pytest_a2a_bench.plugin.run.ray_options import runtime_env
from pytest_a2a_bench.plugin.run.state import BenchRun, raise_usage_error
from pytest_a2a_bench.plugin.xdist import ray_launcher
from pytest_a2a_bench.plugin.xdist.ray_launcher import Terms

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
