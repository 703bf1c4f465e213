"""A controller in this process, with a real process behind it, and a client of it."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import httpx
from harness import wait_for

from pytest_a2a_bench.platforms.controller import ControlledAgent

PROGRAM = str(Path(__file__).parent.parent / "agents" / "kept_agent.py")
PYTHON = getattr(sys, "_base_executable", sys.executable)


class Controlled(NamedTuple):
    """A controller that runs, and a client of it; paths that begin with ``agent`` go to its agent."""

    url: str
    agent: ControlledAgent
    http: httpx.Client
    notes: list[str]

    def wait(self, state: str) -> None:
        wait_for(lambda: self.agent.state.startswith(state))

    def to(self, path: str) -> str:
        return f"/to_agent/{self.agent.id}{path}"

    def reset(self) -> httpx.Response:
        return self.http.post(f"/agents/{self.agent.id}/reset")

    def described(self) -> dict[str, str]:
        found: dict[str, str] = self.http.get(f"/agents/{self.agent.id}").json()
        return found


Control = Callable[..., Controlled]
