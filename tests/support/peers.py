"""Agents on other frameworks, which cannot all share one environment.

``A2A_BENCH_PEER_PYTHONS`` names interpreters that have them: ``{"sdk03": "/path/to/python", "adk": ...}``.
"""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

AGENTS = Path(__file__).parent.parent / "agents"


@contextlib.contextmanager
def peer(environment: str, program: str, *arguments: str) -> Iterator[str]:
    """Run a program of ``tests/agents`` with the interpreter of an environment; gives its URL.

    A test is skipped where no interpreter is named for it.
    """
    named = json.loads(os.environ.get("A2A_BENCH_PEER_PYTHONS", "{}"))
    if environment not in named:
        pytest.skip(f"no environment with {environment}: A2A_BENCH_PEER_PYTHONS does not name one")
    command = [named[environment], str(AGENTS / program), *arguments]
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield str(json.loads(process.stdout.readline())["url"])
            process.stdin.close()
            assert process.wait(15) == 0
        finally:
            process.kill()
