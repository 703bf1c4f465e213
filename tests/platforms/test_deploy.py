"""The files of deploy/: that they say what our commands and AgentBeats understand, without any container engine."""

import json
import os
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_a2a_bench.cli.main import make_parser
from pytest_a2a_bench.platforms.process import read_scenario

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
ENTRYPOINT = DEPLOY / "entrypoint.sh"


@pytest.fixture
def stub(tmp_path: Path) -> Path:
    """A directory with an ``a2a-bench`` that writes its arguments, a line each."""
    program = tmp_path / "bin" / "a2a-bench"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    program.chmod(0o755)
    return program.parent


def arguments_of(stub: Path, script: Path, *given: str, **environ: str) -> list[str]:
    environ = {"PATH": f"{stub}{os.pathsep}/usr/bin:/bin", **environ}
    done = subprocess.run([script, *given], env=environ, capture_output=True, text=True, check=True, cwd=stub)
    return done.stdout.splitlines()


def parsed(arguments: list[str]) -> Any:
    """Parse arguments as a2a-bench would; a wrong one ends the test."""
    return make_parser(arguments[0]).parse_args(arguments)


USUAL = ["assess", "--host", "0.0.0.0", "--port", "9009", "--results", "/data"]


class TestEntrypoint:
    def test_it_serves_on_9009_and_takes_what_agentbeats_gives(self, stub: Path) -> None:
        assert arguments_of(stub, ENTRYPOINT) == USUAL
        given = ["--host", "127.0.0.1", "--port", "7000", "--card-url", "http://green:7000/"]
        found = arguments_of(stub, ENTRYPOINT, *given)
        assert found == [*USUAL, *given]
        read = parsed(found)
        assert (read.host, read.port, read.card_url) == ("127.0.0.1", 7000, "http://green:7000/")

    def test_the_environment_says_the_rest(self, stub: Path) -> None:
        found = arguments_of(
            stub,
            ENTRYPOINT,
            "--max-trials",
            "5",
            A2A_BENCH_ALLOW_CIDR="127.0.0.0/8,172.16.0.0/12,",
            A2A_BENCH_ALLOW_MODEL="openai/gpt-4.1,a model with *",
            A2A_BENCH_TOKENS="alice=t0ken-canary-1234",
            A2A_BENCH_RESULTS="/kept here",
            A2A_BENCH_DATABASE="postgresql+asyncpg://a:canary-password@db/a",
            PORT="8080",
        )
        read = parsed(found)
        assert (read.port, read.results, read.max_trials) == (8080, Path("/kept here"), 5)
        assert read.allow_cidr == ["127.0.0.0/8", "172.16.0.0/12"]
        assert read.allow_model == ["openai/gpt-4.1", "a model with *"]
        assert (read.auth_env, read.database_env) == ("A2A_BENCH_TOKENS", "A2A_BENCH_DATABASE")
        assert "canary" not in " ".join(found)

    def test_the_entrypoint_passes_one_choice_of_callers(self, stub: Path) -> None:
        assert parsed(arguments_of(stub, ENTRYPOINT, A2A_BENCH_NO_AUTH="1")).no_auth
        assert not parsed(arguments_of(stub, ENTRYPOINT, A2A_BENCH_NO_AUTH="0")).no_auth
        both = arguments_of(stub, ENTRYPOINT, A2A_BENCH_NO_AUTH="1", A2A_BENCH_TOKENS_FILE="/run/secrets/tokens")
        assert (parsed(both).auth_file, parsed(both).no_auth) == (Path("/run/secrets/tokens"), False)


class TestImage:
    def instructions(self) -> list[tuple[str, str]]:
        text = re.sub(r"\\\n\s*", "", (DEPLOY / "Dockerfile").read_text())
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]

    def test_files_that_it_starts_and_copies_exist(self) -> None:
        found = self.instructions()
        entrypoint = json.loads(next(value for name, value in found if name == "ENTRYPOINT"))
        copies = [value.split() for name, value in found if name == "COPY"]
        targets = {words[-1]: words[:-1] for words in copies}
        assert entrypoint[-1] == "a2a-bench-entrypoint"
        assert targets["/usr/local/bin/a2a-bench-entrypoint"] == ["--chmod=0755", "deploy/entrypoint.sh"]
        allowed = [line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line[0] == "!"]
        sources = [word for words in copies for word in words[:-1] if not word.startswith("--")]
        assert sorted(sources) == sorted(allowed)
        assert all((ROOT / source).exists() for source in sources)
        assert os.access(ENTRYPOINT, os.X_OK)

    def test_its_extras_are_ours(self) -> None:
        install = next(value for name, value in self.instructions() if name == "RUN" and "pip install" in value)
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        assert set(install.split("[")[1].split("]")[0].split(",")) <= set(extras)


def test_services_of_compose_are_contained_and_their_commands_are_ours(stub: Path) -> None:
    whole = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services = whole["services"]
    assert set(services) == {"assessor", "agent", "once"}
    for name, service in services.items():
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"]), name
        parsed(arguments_of(stub, ENTRYPOINT, *service["command"], **service.get("environment", {})))
    # Without tokens, it is for this machine alone.
    assert all(port.startswith("127.0.0.1:") for port in services["assessor"]["ports"])
    assert services["assessor"]["build"]["dockerfile"] == "deploy/Dockerfile"
    asked = parsed(services["once"]["command"])
    assert (asked.assessor, asked.once) == ("http://assessor:9009", "http://agent:9019")
    assert asked.request == ["domain=airline", "max_tasks=5", "tag_trials=true"]
    named = {volume.partition(":")[0] for volume in services["assessor"]["volumes"]}
    assert named == set(whole["volumes"])
    assert_known(services["assessor"]["environment"])


def assert_known(names: Any) -> None:
    """See that the entry point reads these variables, and says what they are."""
    script = ENTRYPOINT.read_text()
    comments = "".join(line for line in script.splitlines() if line.startswith("#"))
    for name in names:
        assert re.search(rf"\b{name}\b", comments), name
        assert re.search(rf"\$\{{{name}:?-", script), name


def test_kubernetes_has_one_instance_that_is_not_root_and_is_asked_how_it_is(stub: Path) -> None:
    found = {one["kind"]: one for one in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())}
    assert set(found) == {"Deployment", "PersistentVolumeClaim", "Service"}
    spec = found["Deployment"]["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert pod["securityContext"]["runAsUser"] == 10001
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    claim = next(v["persistentVolumeClaim"]["claimName"] for v in pod["volumes"] if "persistentVolumeClaim" in v)
    assert claim == found["PersistentVolumeClaim"]["metadata"]["name"]
    assert found["Service"]["spec"]["selector"] == spec["template"]["metadata"]["labels"]
    environ = {one["name"]: one.get("value", "alice=t0ken-canary-1234") for one in container["env"]}
    assert_known(environ)
    read = parsed(arguments_of(stub, ENTRYPOINT, *container["args"], **environ))
    assert read.auth_env == "A2A_BENCH_TOKENS"
    assert read.port == container["ports"][0]["containerPort"] == 9009


class TestScenario:
    def test_it_has_what_agentbeats_reads_and_starts_our_commands(self) -> None:
        path = DEPLOY / "scenario.toml"
        # As its runner does: host and port of each endpoint, a command of words, a role.
        raw = tomllib.loads(path.read_text())
        for party in (raw["green_agent"], *raw["participants"]):
            host, port = party["endpoint"].removeprefix("http://").split("/")[0].split(":")
            read = parsed(shlex.split(party["cmd"])[1:])
            assert (read.host, str(read.port)) == (host, port)
        scenario = read_scenario(path)
        assert [agent.role for agent in scenario.agents] == ["agent"]
        assert scenario.config["domain"] == "airline"

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("x = ", "is not TOML"),
            ("", "green_agent: Field required; participants: Field required"),
            (
                "[green_agent]\n[[participants]]\nrole = 1",
                r"green_agent\.endpoint: Field required; .*\.0\.role: Input should be a valid string",
            ),
            (
                '[green_agent]\nendpoint = "127.0.0.1:1"\ncmd = 3\n[[participants]]\nrole = "a"\nendpoint = "http://x:y"',
                r"endpoint: .*'127\.0\.0\.1:1' is not a URL .*cmd: .*valid string; participants\.0\.endpoint: ",
            ),
            (
                '[green_agent]\nendpoint = "http://g"\n' + '[[participants]]\nrole = "a"\nendpoint = "http://x"\n' * 2,
                "the role a is there twice",
            ),
        ],
    )
    def test_problems_of_a_scenario_are_reported(self, text: str, complaint: str, tmp_path: Path) -> None:
        path = tmp_path / "scenario.toml"
        path.write_text(text)
        with pytest.raises(Exception, match=complaint):
            read_scenario(path)


def test_the_run_script_serves_where_a_controller_says(stub: Path) -> None:
    environ = {"HOST": "127.0.0.1", "AGENT_PORT": "7001", "AGENT_URL": "https://c.example/to_agent/x"}
    read = parsed(arguments_of(stub, DEPLOY / "run.sh", "--allow-builtin", **environ))
    assert (read.host, read.port, read.card_url) == ("127.0.0.1", 7001, "https://c.example/to_agent/x/")
    assert read.allow_builtin


def test_the_variables_of_the_image_are_all_in_the_guide() -> None:
    guide = (ROOT / "docs" / "guides" / "platforms.md").read_text()
    read = set(re.findall(r"\$\{(A2A_BENCH_\w+|PORT)", ENTRYPOINT.read_text()))
    assert read == {name for name in re.findall(r"`(\w+)(?:=1)?`", guide) if name in read}
    assert_known(read)
