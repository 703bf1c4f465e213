"""Built-in agents behind chaos, and the command that stands before any agent."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import httpx
import pytest

import pytest_a2a_bench
from pytest_a2a_bench.agents.behind_chaos import behind_chaos
from pytest_a2a_bench.agents.launcher import start_builtin
from pytest_a2a_bench.agents.options import AgentOptions, parse_spec
from pytest_a2a_bench.chaos.journal import Journal
from pytest_a2a_bench.cli import main
from pytest_a2a_bench.errors import ConfigurationError

ROOT = str(Path(pytest_a2a_bench.__file__).parent.parent)


def message() -> dict[str, object]:
    said = {"messageId": uuid.uuid4().hex, "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": said}}


V10 = {"A2A-Version": "1.0"}


def test_a_restarted_agent_has_lost_its_memory_and_is_found_where_it_was() -> None:
    def task(task_id: str) -> dict[str, object]:
        return {"jsonrpc": "2.0", "id": 2, "method": "GetTask", "params": {"id": task_id}}

    async def run() -> None:
        options = AgentOptions("noop", reply="task", chaos="restart-after=3,restart-pause=0")
        async with behind_chaos(options, Journal()) as served, httpx.AsyncClient(headers=V10, timeout=20) as client:
            made = (await client.post(served.url, json=message())).json()["result"]["task"]
            known = (await client.post(served.url, json=task(made["id"]))).json()
            with pytest.raises(httpx.TransportError):
                await client.post(served.url, json=message())
            while True:
                try:
                    forgotten = (await client.post(served.url, json=task(made["id"]))).json()
                    break
                except httpx.TransportError:
                    await asyncio.sleep(0.05)

        assert known["result"]["id"] == made["id"]
        assert forgotten["error"]["code"] == -32001

    asyncio.run(run())


def test_an_agent_of_a_spec_has_chaos_before_it(tmp_path: Path) -> None:
    log = tmp_path / "chaos.jsonl"
    with start_builtin(f"builtin:noop?chaos=503%3D1%2Cseed%3D7&chaos-log={log}") as agent:
        card = httpx.get(agent.card_url).json()
        answer = httpx.post(agent.url, json=message(), headers=V10)

    assert answer.status_code == 503
    assert card["supportedInterfaces"][0]["url"] == agent.url
    assert json.loads(log.read_text())["fault"] == "503"


def test_a_spec_need_not_be_encoded() -> None:
    assert parse_spec("oracle?chaos=reset=0.1,seed=7&latency=1").chaos == "reset=0.1,seed=7"


def test_wrong_chaos_of_an_agent_is_told_with_its_other_problems() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_spec("oracle?chaos=rest=0.1&latency=-1")

    assert "latency=-1.0 must be" in str(caught.value)
    assert "did you mean 'reset'" in str(caught.value)
    with pytest.raises(ConfigurationError, match="chaos_log is for chaos only"):
        parse_spec("oracle?chaos-log=x")


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def line_of(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_stands_before_an_agent_and_sums_up(
    number: signal.Signals, noop_url: str, tmp_path: Path, processes: list[subprocess.Popen[str]]
) -> None:
    log = tmp_path / "chaos.jsonl"
    command = [sys.executable, "-m", "pytest_a2a_bench.cli", "chaos", noop_url, "--chaos", "429-retry=1"]
    process = subprocess.Popen(
        [*command, "--chaos-log", str(log)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": ROOT},
    )
    processes.append(process)
    first = line_of(process.stdout)
    found = re.search(r"^chaos before (\S+) answers at (\S+) \(card (\S+), Ctrl-C stops it\)$", first)
    assert found, first
    assert found[1] == noop_url
    assert line_of(process.stdout) == f"try: pytest --a2a-endpoint {found[2]} -k airline\n"
    assert httpx.get(found[3]).json()["supportedInterfaces"][0]["url"] == found[2]
    answer = httpx.post(found[2], json=message(), headers=V10)
    process.send_signal(number)
    out, errors = process.communicate()

    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert (process.returncode, out) == (0, "")
    assert errors == f"chaos: 1 request, 1 fault (429-retry 1); 429-retry=1.0; log {log}\n"
    assert json.loads(log.read_text())["method"] == "SendMessage"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--chaos", "rest=1"], "'rest' is no fault and no setting; did you mean 'reset'?"),
        (["--port", "70000"], "'70000' is not a port"),
        (["--chaos-log", "/nowhere/at/all"], "--chaos-log /nowhere/at/all: No such file or directory"),
        ([], "http://127.0.0.1:9"),
    ],
)
def test_trouble_of_the_command_is_one_line_and_exit_code_2(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code: object = main.main(["chaos", "http://127.0.0.1:9", *arguments])
    except SystemExit as left:
        code = left.code
    printed = capsys.readouterr()

    assert (code, printed.out, printed.err.count("\n")) == (2, "", 1)
    assert complaint in printed.err


def test_the_command_lists_what_it_can_do(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main.main(["chaos", "--list"])

    assert left.value.code == 0
    assert "after-delivery" in capsys.readouterr().out
