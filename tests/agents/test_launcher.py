"""Starting, stopping and losing a built-in agent's process."""

import argparse
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import httpx
import pytest
from examples import examples
from harness import wait_for
from hypothesis import given, settings
from hypothesis import strategies as st
from one_test import in_one_test

import pytest_a2a_bench
from pytest_a2a_bench.agents import options
from pytest_a2a_bench.agents.options import (
    PROTOCOLS,
    TRANSPORTS,
    AgentOptions,
    add_arguments,
    from_namespace,
    parse_spec,
    start_builtin,
)
from pytest_a2a_bench.config.settings import BUILTIN_AGENTS, DIALECTS, Settings
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError

ROOT = str(Path(pytest_a2a_bench.__file__).parent.parent)


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_it_starts_in_a_session_of_its_own_and_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Files of the working directory shadow nothing.
    for name in ("uvicorn.py", "json.py", "a2a.py"):
        (tmp_path / name).write_text("raise RuntimeError('this is the wrong module')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)  # a relative entry would be the working directory after all
    agent = start_builtin("noop", Settings(protocol="0.3", transport="rest"))
    try:
        assert os.getsid(agent.pid) == agent.pid
        card = httpx.get(agent.card_url).json()
        # The client chooses: what the settings ask of it takes nothing away from the server.
        assert len(card["supportedInterfaces"]) == 6
    finally:
        agent.stop()
    agent.stop()

    assert not alive(agent.pid)
    with pytest.raises(httpx.ConnectError):
        httpx.get(agent.card_url)


@pytest.mark.parametrize("forks", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_no_agent_outlives_its_parent_although_a_fork_keeps_the_pipe_open(tmp_path: Path, forks: bool) -> None:
    forking = "print(os.fork() or time.sleep(600), flush=True); os._exit(0)"
    script = textwrap.dedent(PARENT).replace("time.sleep(60)", forking if forks else "time.sleep(60)")
    with subprocess.Popen(
        [sys.executable, "-c", script, ROOT], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        fork = int(parent.stdout.readline()) if forks else None
        assert forks or alive(pid)
        if not forks:
            parent.kill()
        parent.wait()
        try:
            wait_for(lambda: not alive(pid))
        finally:
            if fork is not None:
                assert alive(fork)
                os.kill(fork, signal.SIGKILL)


PARENT = """
    import os, sys, time
    sys.path.insert(0, sys.argv[1])
    from pytest_a2a_bench.agents.options import start_builtin
    agent = start_builtin("noop")
    print(agent.pid, flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_an_agent_that_dies_at_its_start_says_why() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigurationError) as caught:
        start_builtin(f"noop?port={taken.getsockname()[1]}")
    assert "ended with exit code 2 at its start: cannot listen on 127.0.0.1" in str(caught.value)


def test_an_agent_that_does_not_start_in_time_is_ended() -> None:
    with pytest.raises(ConfigurationError, match=r"'noop' did not answer within 0\.01 s"):
        start_builtin("noop", timeout=0.01)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "find_spec", lambda name: None if name == "uvicorn" else object())
    with pytest.raises(MissingExtraError, match=r"uvicorn is not installed.*pip install .*\[agents\]'"):
        start_builtin("noop")


OPTIONS = st.builds(
    AgentOptions,
    name=st.sampled_from(BUILTIN_AGENTS),
    port=st.integers(0, 65535),
    dialect=st.sampled_from(DIALECTS),
    latency=st.floats(0, 10),
    protocol=st.sampled_from(PROTOCOLS),
    transport=st.sampled_from(TRANSPORTS),
    reply=st.sampled_from(["message", "task"]),
    streaming=st.booleans(),
    model=st.none() | st.text("abc/-. ").map("m".__add__),
    llm_args=st.sampled_from([{}, {"temperature": 0.5, "stop": ["--x"]}]),
    benchmark_options=st.dictionaries(st.sampled_from(["shop_days", "shop_size"]), st.integers(100, 200)),
    players=st.sampled_from([{}, {"shop": "shop"}, {"a": "b.c", "d": "e"}]),
    contexts=st.integers(1, 10),
)


@given(OPTIONS)
@settings(max_examples=examples(100))
def test_a_command_line_says_the_same_as_the_value(options: AgentOptions) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    assert from_namespace(parser.parse_args(options.to_argv())) == options


def test_a_spec_may_have_options() -> None:
    options = parse_spec("oracle?latency=0.05&reply=task&protocol=1.0&streaming=off&model=openai%2Fx&grpc-port=7")
    assert options == AgentOptions(
        "oracle", latency=0.05, reply="task", protocol="1.0", streaming=False, model="openai/x", grpc_port=7
    )


@in_one_test(
    ("spec", "complaint"),
    [
        ("oracel", "name='oracel': valid names are oracle, noop, readonly, careful, llm"),
        ("", "name='': valid names are oracle"),
        ("oracle?colour=red", "no option 'colour'; valid options are host, port"),
        ("oracle?name=noop", "no option 'name'"),
        ("oracle?reply=letter", "reply='letter': Input should be 'message' or 'task'"),
        ("oracle?protocol=2.0", "protocol='2.0': Input should be 'both', '1.0' or '0.3'"),
        ("oracle?dialect=latin", "dialect='latin': valid names are auto, tool_call"),
        ("oracle?latency=slow", "latency='slow': Input should be a valid number"),
        ("oracle?latency=-1", "latency='-1': Input should be greater than or equal to 0"),
        ("oracle?latency=nan", "latency='nan': Input should be a finite number"),
        ("oracle?streaming=maybe", "streaming='maybe': Input should be a valid boolean"),
        ("oracle?port=70000", "port='70000': Input should be less than or equal to 65535"),
        ("oracle?players=shop", "players='shop': not JSON"),
        ("oracle?contexts=0", "contexts='0': Input should be greater than or equal to 1"),
        ("llm?llm_args=[1]", "llm_args: '[1]' is not a JSON object"),
        ("llm?llm_args={", "llm_args: not JSON"),
        ('llm?llm_args={"api_key": "sk-1"}', "llm_args: must not hold api_key; set the environment variable"),
    ],
)
def test_a_wrong_spec_names_the_valid_ones(spec: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_spec(spec)
    assert complaint in str(caught.value)
    assert "sk-1" not in str(caught.value)
