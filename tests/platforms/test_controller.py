"""A controller with real processes behind real HTTP."""

import concurrent.futures
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from commands import command, refused
from controlled import PROGRAM, PYTHON, Control, Controlled
from harness import ROOT, wait_for
from one_test import in_one_test

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.platforms import controller
from pytest_a2a_bench.platforms.controller import ControllerOptions
from pytest_a2a_bench.redact import Secret
from pytest_a2a_bench.results.store import is_alive


def pid_on(port: int) -> int | None:
    """Return the process that listens on a port of this machine, if any of ours does."""
    found = psutil.net_connections("tcp4")
    return next((c.pid for c in found if (c.status, c.laddr.port) == (psutil.CONN_LISTEN, port)), None)


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


@pytest.fixture
def at(control: Control) -> Controlled:
    """A controller whose agent runs."""
    found = control()
    found.wait("running")
    return found


class TestTelling:
    def test_status_agents_and_one_agent_are_reported_as_agentbeats_tells_them(self, at: Controlled) -> None:
        card = {"name": "kept", "url": f"{at.agent.url}/rpc?a=1"}

        assert at.http.get("/status").json() == {
            "maintained_agents": 1,
            "running_agents": 1,
            "starting_command": "kept_agent.py",
        }
        [(name, shown)] = at.http.get("/agents").json().items()
        used = shown.pop("cpu_seconds"), shown.pop("memory_bytes")
        assert (name, shown) == (at.agent.id, {"url": at.agent.url, "internal_port": at.agent.port, "state": "running"})
        assert used[0] > 0
        assert used[1] > 1_000_000
        message = at.described()
        assert set(message) == {"state", "stdout_log", "stderr_log", "agent_card"}
        assert message["stdout_log"] == f"listening on {at.agent.port} for {at.agent.url}\n"
        shown = json.loads(message["agent_card"])
        assert (shown["name"], shown["supportedInterfaces"][0]["url"]) == (card["name"], card["url"])
        assert at.notes == ["starting", "running"]

    def test_an_agent_that_starts_slowly_is_starting_until_its_card_is_there(self, control: Control) -> None:
        at = control("slow:1")
        message = at.described()
        refused = at.http.get(at.to("/echo"))
        assert at.http.get("/status").json()["running_agents"] == 0
        at.wait("running")
        assert message["state"] in ("pending", "starting")
        assert message["agent_card"] == "File not found."
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")

    def test_a_card_that_is_not_answered_is_asked_for_again_and_not_at_another_path(self, control: Control) -> None:
        at = control("shy")
        at.wait("running")
        assert json.loads(at.described()["agent_card"])["name"] == "kept"

    @pytest.mark.slow
    def test_an_agent_that_crashes_says_why_and_each_reset_tries_again(self, control: Control) -> None:
        at = control("crash")
        for number in range(1, 4):
            wait_for(lambda: at.agent.state == "finished(3)")
            assert at.agent.generation == number
            assert at.notes[-1] == "finished(3): cannot go on"
            assert at.described()["stderr_log"] == "cannot go on\n"
            refused = at.http.get(at.to("/echo"))
            assert (refused.status_code, "is finished(3)" in refused.text) == (503, True)
            assert at.reset().json() == {"message": f"Agent {at.agent.id} reset requested."}


class TestReset:
    @pytest.mark.slow
    def test_a_reset_in_mid_request_ends_it_and_later_ones_are_answered(self, at: Controlled) -> None:
        with concurrent.futures.ThreadPoolExecutor(1) as pool, at.http.stream("GET", at.to("/sse")) as stream:
            lines = stream.iter_lines()
            assert next(lines) == "data: 0"
            hanging = pool.submit(httpx.get, at.url + at.to("/hang"), timeout=60)
            wait_for(lambda: "hanging" in at.described()["stdout_log"])
            at.reset()
            answer = hanging.result(60)
            with pytest.raises(httpx.RemoteProtocolError):
                list(lines)
        at.wait("running")

        assert (answer.status_code, "gave no answer" in answer.text) == (502, True)
        assert at.http.get(at.to("/echo")).status_code == 200

    def test_an_agent_that_ignores_sigterm_is_killed(self, control: Control) -> None:
        at = control("deaf", stop_seconds=0.3)
        at.wait("running")
        first = at.agent.port
        at.reset()
        wait_for(lambda: at.agent.generation == 2 and at.agent.state == "running")
        assert not listens(first)

    @pytest.mark.slow
    def test_child_processes_of_an_agent_are_killed_with_it(self, control: Control) -> None:
        at = control("daemon")
        at.wait("running")
        daemon = int(at.described()["stdout_log"].split("daemon ")[1].split()[0])
        assert is_alive(daemon)
        at.reset()
        wait_for(lambda: at.agent.generation == 2 and at.agent.state == "running")
        assert not is_alive(daemon)

    def test_a_stopped_agent_is_gone_until_a_reset_and_resets_at_once_are_one(self, at: Controlled) -> None:
        first = at.agent.port
        assert at.http.post(f"/agents/{at.agent.id}/stop").status_code == 200
        at.wait("stopped")
        while listens(first):
            pass
        assert at.http.get(at.to("/echo")).status_code == 503
        assert at.agent.generation == 1
        at.reset()
        at.wait("running")
        assert at.agent.generation == 2
        for _ in range(5):
            at.reset()
        at.wait("running")
        assert at.agent.generation in (3, 4)


class TestProxy:
    def test_requests_and_streams_go_through_as_they_are(self, at: Controlled) -> None:
        # The agent does not work for callers that have left.
        with at.http.stream("GET", at.to("/sse")) as stream:
            lines = stream.iter_lines()  # which ends the stream when nobody holds it
            assert next(lines) == "data: 0"
            assert _connections_to(at.agent.port) == 1
        wait_for(lambda: _connections_to(at.agent.port) == 0)
        # The agent goes on only when it is told to: the first event did not wait for the others.
        with at.http.stream("GET", at.to("/sse")) as stream:
            lines = stream.iter_lines()
            assert next(lines) == "data: 0"
            assert httpx.get(at.url + at.to("/go")).text == "gone"
            assert [line for line in lines if line] == ["data: 1", "data: 2"]

        headers = {"X-Asked": "yes", "Authorization": "Bearer of-the-agent", "Accept-Encoding": "gzip"}
        answer = at.http.request("PUT", at.to("/a%2Fb//c?x=1&x=%20"), headers=headers, content=b"\x00\xff")
        message = answer.json()

        assert (message["method"], message["path"], message["body"]) == ("PUT", "/a%2Fb//c?x=1&x=%20", "\x00\xff")
        sent = {name.lower(): value for name, value in message["headers"].items()}
        assert (sent["x-asked"], sent["authorization"]) == ("yes", "Bearer of-the-agent")
        assert sent["host"] == f"127.0.0.1:{at.agent.port}"
        assert sent["x-forwarded-prefix"] == f"/to_agent/{at.agent.id}"
        assert answer.headers.get_list("x-twice") == ["1", "2"]
        assert at.http.get(at.to("")).json()["path"] == "/"
        # As AgentBeats' gateway writes it, which adds the path of the card's URL to that of its own.
        assert at.http.get(at.to(at.to("/echo?x=1"))).json()["path"] == "/echo?x=1"
        assert at.http.get(at.to("/missing")).status_code == 404
        assert len(at.http.get(at.to("/big")).content) == 8 << 20

    def test_cards_name_the_controller_and_a_browser_that_was_told_another_name_is_refused(
        self, control: Control
    ) -> None:
        at = control(public="https://agents.example/base/")
        at.wait("running")
        card = at.http.get(at.to("/.well-known/agent-card.json"), headers={"host": "agents.example"}).json()
        assert at.agent.url == f"https://agents.example/base/to_agent/{at.agent.id}"
        # gRPC cannot go through here, and a caller elsewhere has another loopback.
        assert [i["url"] for i in card["supportedInterfaces"]] == [f"{at.agent.url}/rpc?a=1"]
        assert "signatures" not in card
        assert json.loads(at.described()["agent_card"]) == card
        for host, code in (("evil.example", 421), ("agents.example", 200), ("localhost:1", 200)):
            assert at.http.get("/status", headers={"host": host}).status_code == code, host

    def test_a_body_that_is_too_long_is_refused(self, control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(controller, "MAX_BODY", 1000)
        at = control()
        at.wait("running")

        def chunks() -> Iterator[bytes]:
            yield from [b"x" * 400] * 3

        declared = at.http.post(at.to("/echo"), content=b"x" * 1001)
        chunked = at.http.post(at.to("/echo"), content=chunks())
        assert (declared.status_code, chunked.status_code) == (413, 413)
        assert at.http.post(at.to("/echo"), content=b"x" * 1000).status_code == 200


def _connections_to(port: int) -> int:
    """Return how many connections to a port are open."""
    found = psutil.net_connections("tcp4")
    return sum(c.status == psutil.CONN_ESTABLISHED and c.raddr.port == port for c in found)


class TestSecurity:
    def test_nobody_listens_beyond_loopback_without_a_token(self) -> None:
        for host in ("0.0.0.0", "::", "192.0.2.1", "agents.example", ""):
            with pytest.raises(ConfigurationError, match="--auth-env NAME"):
                ControllerOptions(host=host)
        for host in ("127.0.0.1", "localhost", "::1", "127.8.8.8"):
            ControllerOptions(host=host)

    def test_a_token_is_wanted_everywhere_but_for_cards_and_health(self, control: Control) -> None:
        at = control(host="0.0.0.0", token=Secret("t0ken-of-the-platform"))
        at.wait("running")
        card = at.to("/.well-known/agent-card.json")
        wanted = [
            "/status",
            "/agents",
            f"/agents/{at.agent.id}",
            at.to("/echo"),
            at.to("/x?/.well-known/agent-card.json"),
        ]
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "t0ken-of-the-platform"}):
            assert [at.http.get(path, headers=headers).status_code for path in wanted] == [401] * len(wanted)
            assert at.http.post(f"/agents/{at.agent.id}/reset", headers=headers).status_code == 401
            assert at.http.post(card, headers=headers).status_code == 401
        assert [at.http.get(path).status_code for path in ("/healthz", card)] == [200, 200]
        right = {"Authorization": "Bearer t0ken-of-the-platform"}
        assert [at.http.get(path, headers=right).status_code for path in wanted] == [200] * len(wanted)
        # It is the controller's, and the agent does not learn it.
        assert "t0ken" not in at.http.get(at.to("/echo"), headers=right).text

    def test_an_open_agent_is_for_everybody_and_asks_for_its_own_token(self, control: Control) -> None:
        at = control(host="0.0.0.0", token=Secret("t0ken-of-the-platform"), open_agent=True)
        at.wait("running")
        own = {"Authorization": "Bearer of-the-agent"}
        assert at.http.get(at.to("/echo"), headers=own).json()["headers"]["authorization"] == "Bearer of-the-agent"
        for method, path in (("GET", "/agents"), ("GET", "/status"), ("POST", f"/agents/{at.agent.id}/reset")):
            assert at.http.request(method, path, headers=own).status_code == 401


class TestCommand:
    def spawn(self, directory: Path, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "pytest_a2a_bench.cli", "controller", "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        )

    @pytest.mark.slow
    @pytest.mark.parametrize(("how", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 0)])
    def test_run_sh_leaves_nothing_whatever_ends_it(self, how: signal.Signals, code: int, tmp_path: Path) -> None:
        script = tmp_path / "run.sh"
        script.write_text(f"{PYTHON} -I -S {PROGRAM} daemon\n")  # no first line that says by what
        script.chmod(0o755)
        with self.spawn(tmp_path, CONTROLLER_TOKEN="t0ken-canary-1234") as process:
            assert process.stdout is not None
            assert process.stderr is not None
            url = process.stdout.readline().split("controller answers at ")[1].split()[0]
            assert process.stderr.readline() == "agent: starting\n"
            assert process.stderr.readline() == "agent: running\n"
            assert httpx.get(f"{url}/status").json()["starting_command"] == script.read_text().strip()
            ((name, agent),) = httpx.get(f"{url}/agents").json().items()
            message = httpx.get(f"{url}/agents/{name}").json()["stdout_log"]
            pids = [pid_on(agent["internal_port"]), int(message.split("daemon ")[1].split()[0])]
            process.send_signal(how)
            assert process.wait(60) == code
        assert None not in pids
        wait_for(lambda: not any(pid and is_alive(pid) for pid in pids))

    @in_one_test(
        ("arguments", "environ", "complaint"),
        [
            ([], {}, "run.sh cannot be read: No such file or directory; write what starts the agent there"),
            (["--host", "0.0.0.0", "--", "true"], {}, "name a variable that holds a token with --auth-env NAME"),
            (["--auth-env", "NOT_SET"], {}, "--auth-env names NOT_SET, which is not set"),
            (["--port", "70000"], {}, "'70000' is not a port"),
            (["--stop-timeout", "soon"], {}, "'soon' is not a number of seconds"),
            (["--public-url", "agents.example", "--", "true"], {}, "is not a base URL of http or https"),
            (["--", "true"], {"PORT": "x"}, "PORT=x: 'x' is not a port"),
        ],
    )
    def test_trouble_is_one_line_and_exit_code_2(
        self,
        arguments: list[str],
        environ: dict[str, str],
        complaint: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        for name in ("PORT", "CLOUDRUN_HOST", "NOT_SET"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        assert complaint in refused("controller", *arguments)

    def test_a_script_that_may_not_run_is_reported(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "run.sh").write_text("true")
        monkeypatch.chdir(tmp_path)
        assert "run.sh is not executable; chmod +x it" in command("controller", code=2).err

    @pytest.mark.slow
    def test_the_environment_says_where_it_is_as_it_does_to_agentbeats_own(self, tmp_path: Path) -> None:
        environ = {"CLOUDRUN_HOST": "agents.example", "HTTPS_ENABLED": "true", "TOKEN_OF_MINE": "t0ken-canary-1234"}
        command = ("--auth-env", "TOKEN_OF_MINE", "--", "/bin/sh", "-c", "echo $AGENT_URL; env; sleep 600")
        with self.spawn(tmp_path, "--show-logs", *command, **environ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            line = process.stdout.readline()
            shown = ""
            while "AGENT_PORT" not in shown:
                shown += process.stderr.readline()
            process.terminate()
            out, errors = process.communicate(timeout=60)
        assert line.startswith(
            "controller answers at https://agents.example (agent at https://agents.example/to_agent/"
        )
        assert "https://agents.example/to_agent/" in shown
        assert "TOKEN_OF_MINE" not in shown + errors + out
        assert errors.endswith("stopped\n")
