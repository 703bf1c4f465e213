"""What the options of ``--a2a-ray`` have to agree on."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_a2a_bench.config.settings import Settings


def problems(settings: Settings, config: pytest.Config) -> list[str]:
    """Say what is wrong with the options; one line each."""
    if settings.ray is None:
        return []
    found = []
    if importlib.util.find_spec("ray") is None:
        found.append("--a2a-ray needs Ray; run: pip install 'pytest-a2a-bench[ray]'")
    if not config.getoption("numprocesses", None):
        found.append("--a2a-ray needs to know how many workers to place: add -n N (pytest-xdist)")
    if settings.builtin:
        found.append(
            f"--a2a-endpoint=builtin:{settings.builtin} listens on this machine only, which a worker on a Ray cluster "
            "may not reach; start it with 'a2a-bench agent' on an address that every node reaches and pass its URL"
        )
    if settings.record:
        found.append("--a2a-record writes on each worker's own machine, where it stays; record without --a2a-ray")
    try:
        runtime_env(settings)
    except ValueError as error:
        found.append(f"--a2a-set ray-runtime-env={settings.ray_runtime_env}: {error}")
    return found


def runtime_env(settings: Settings) -> dict[str, Any]:
    """Return what ``ray-runtime-env`` says.

    :raises ValueError: if it cannot be read.
    """
    if settings.ray_runtime_env is None:
        return {}
    try:
        found = json.loads(Path(settings.ray_runtime_env).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f'not JSON ({error}); expected an object such as {{"working_dir": "."}}') from None
    if not isinstance(found, dict):
        raise ValueError('expected a JSON object such as {"working_dir": "."}')
    return found
