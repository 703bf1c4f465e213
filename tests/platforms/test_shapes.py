"""The deployment shapes of the guide, as far as one machine has them, and the protocol through a controller."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from commands import command
from harness import ROOT, wait_for

REPOSITORY = Path(__file__).parents[2]

pytestmark = pytest.mark.slow

TOKEN = "t0ken-canary-0123456789"


@pytest.fixture
def programs(tmp_path: Path) -> dict[str, str]:
    """An environment in which ``a2a-bench`` is this package."""
    program = tmp_path / "bin" / "a2a-bench"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m pytest_a2a_bench.cli "$@"\n')
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


@contextlib.contextmanager
def running(directory: Path, environ: dict[str, str], *command: str) -> Iterator[str]:
    """Run a command that serves as long as the context lasts, and yield the URL that it says it has."""
    directory.mkdir(exist_ok=True)
    errors = directory / "stderr.log"
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            command, cwd=directory, env=environ, stdout=subprocess.PIPE, stderr=stderr, text=True
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert " answers at " in line, errors.read_text()
        yield line.split(" answers at ")[1].split()[0]
    finally:
        process.terminate()
        process.wait(60)
        if process.stdout is not None:
            process.stdout.close()
    assert TOKEN not in errors.read_text()


def controller(
    directory: Path, environ: dict[str, str], script: str, *options: str
) -> contextlib.AbstractContextManager[str]:
    directory.mkdir()
    run = directory / "run.sh"
    run.write_text(script)
    run.chmod(0o755)
    return running(directory, environ, "a2a-bench", "controller", "--port", "0", *options)


AGENT = '#!/bin/sh\nexec a2a-bench agent oracle --host "$HOST" --port "$AGENT_PORT" --card-url "$AGENT_URL"\n'
ASKED = ("domain=mock", "max_tasks=2", "tag_trials=true")


def test_the_assessor_elsewhere_and_the_agent_here(
    tmp_path: Path, programs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {**programs, "ASSESSOR_TOKENS": f"alice={TOKEN}"}
    # As from elsewhere: beyond loopback, with tokens, and loopback allowed in the place of a tunnel.
    place = ("--host", "0.0.0.0", "--port", "0", "--auth-env", "ASSESSOR_TOKENS", "--allow-cidr", "127.0.0.0/8")
    with (
        running(tmp_path / "green", environ, "a2a-bench", "assess", *place) as green,
        controller(tmp_path / "white", programs, AGENT) as white,
    ):
        monkeypatch.setenv("MY_TOKEN", "wrong-token-0123456789")
        both = ("--assessor", green, "--assessor-auth-env", "MY_TOKEN", "--once", f"controller:{white}")
        assert "401" in command("assess", *both, *ASKED, code=2).err
        monkeypatch.setenv("MY_TOKEN", TOKEN)
        printed = command("assess", *both, *ASKED)
    assert "mock: 2 of 2 trials passed" in printed.out
    assert TOKEN not in printed.out + printed.err


def test_everything_elsewhere(tmp_path: Path, programs: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {**programs, "CONTROL_TOKEN": TOKEN}
    monkeypatch.setenv("CONTROL_TOKEN", TOKEN)
    place = ("--host", "0.0.0.0", "--auth-env", "CONTROL_TOKEN", "--open-agent")
    with (
        controller(tmp_path / "green", environ, (REPOSITORY / "deploy" / "run.sh").read_text(), *place) as green,
        controller(tmp_path / "white", environ, AGENT, *place) as white,
    ):
        both = [f"--assessor=controller:{green}", f"--once=controller:{white}", "--controller-auth-env=CONTROL_TOKEN"]
        for _ in range(2):
            assert "mock: 2 of 2 trials passed" in command("assess", *both, *ASKED).out
    for side in ("green", "white"):
        message = (tmp_path / side / "stderr.log").read_text()
        assert message.count("agent: reset_requested\n") == 2, message


def test_the_protocol_is_kept_through_a_controller(tmp_path: Path, programs: dict[str, str]) -> None:
    script = AGENT.replace("oracle", "echo")
    with controller(tmp_path / "white", programs, script) as white:
        wait_for(lambda: "agent: running" in (tmp_path / "white" / "stderr.log").read_text())
        ((_, agent),) = httpx.get(f"{white}/agents").json().items()
        assert "A2A 1.0: fully conformant in what was judged" in command("check", agent["url"]).out
