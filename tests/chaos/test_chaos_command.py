"""The fault proxy as a program."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import httpx
import pytest

import pytest_a2a_bench
from pytest_a2a_bench.chaos.__main__ import main

ROOT = str(Path(pytest_a2a_bench.__file__).parent.parent)


def message() -> dict[str, Any]:
    said = {"messageId": uuid.uuid4().hex, "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": said}}


V10 = {"A2A-Version": "1.0"}


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
def test_the_command_injects_faults_and_sums_up(
    number: signal.Signals, noop_url: str, processes: list[subprocess.Popen[str]]
) -> None:
    command = [sys.executable, "-m", "pytest_a2a_bench.chaos", noop_url, "--fault", "429=1"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": ROOT}
    )
    processes.append(process)
    assert line_of(process.stdout) == f"chaos before {noop_url} (Ctrl-C stops it)\n"
    found = re.search(r"^try: pytest --a2a-endpoint (\S+) -k airline$", line_of(process.stdout))
    assert found
    url = httpx.get(found[1]).json()["supportedInterfaces"][0]["url"]
    assert found[1].startswith(url)
    sent = message()
    answer = httpx.post(url, json=sent, headers=V10)
    process.send_signal(number)
    out, errors = process.communicate()

    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert (process.returncode, out) == (0, f"request 1: 429 (SendMessage {sent['params']['message']['messageId']})\n")
    assert errors == "chaos: 1 requests, 1 faults (429 1)\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--fault", "rest=1"], "there is no fault 'rest'; did you mean 'reset'"),
        (["--port", "70000"], "argument --port: invalid choice: 70000"),
        ([], "http://127.0.0.1:9"),
    ],
)
def test_an_error_is_one_line_and_exit_code_2(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code: object = main(["http://127.0.0.1:9", *arguments])
    except SystemExit as left:
        code = left.code
    printed = capsys.readouterr()

    assert (code, printed.out) == (2, "")
    assert complaint in printed.err.splitlines()[-1]


def test_the_help_lists_the_faults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--help"])

    assert left.value.code == 0
    assert "after-delivery" in capsys.readouterr().out
