import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest
from builtin_server import on_loop
from controlled import PROGRAM, PYTHON, Control, Controlled

from pytest_a2a_bench.platforms.controller import ControllerOptions, running
from pytest_a2a_bench.platforms.process import Command


@pytest.fixture
def control() -> Iterator[Control]:
    """Start controllers that end with the test; each keeps ``kept_agent.py`` with some words."""
    with contextlib.ExitStack() as stack:

        def start(
            *words: str,
            command: tuple[str, ...] = (),
            environ: Mapping[str, str] | None = None,
            stop_seconds: float = 5.0,
            **options: Any,
        ) -> Controlled:
            notes: list[str] = []
            started = Command(
                command or (PYTHON, "-I", "-S", PROGRAM, *words), {**os.environ, **(environ or {})}, stop_seconds
            )
            shown = " ".join(["kept_agent.py", *words])
            context = running(ControllerOptions(shown_command=shown, report=notes.append, **options), started)
            serving = stack.enter_context(on_loop(context))
            client = stack.enter_context(
                httpx.Client(base_url=serving.local, timeout=60, trust_env=False, verify=False)
            )
            return Controlled(serving.local, serving.agent, client, notes)

        yield start
