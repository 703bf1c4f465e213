import json
import os
import signal
import socket
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path

import pytest
from commands import command, refused
from harness import ROOT
from one_test import in_one_test

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.cli import doctor, main
from pytest_a2a_bench.cli.agent import greeting
from pytest_a2a_bench.cli.main import COMMANDS, load_command
from pytest_a2a_bench.errors import MissingExtraError
from pytest_a2a_bench.installation import install_command


def spawn_python(*arguments: str) -> subprocess.Popen[str]:
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ
    )


def test_every_command_is_there() -> None:
    beside = {path.stem for path in Path(main.__file__).parent.glob("[!_]*.py")} - {"main", "outlet"}
    assert sorted(beside) == sorted(COMMANDS)
    assert len(COMMANDS) == 13
    assert all(COMMANDS[name] and load_command(name).__doc__ for name in COMMANDS)


def test_the_version_is_one_line() -> None:
    assert command("--version").out.startswith("pytest-a2a-bench ")


@in_one_test(
    ("arguments", "complaint"),
    [
        ([], "COMMAND"),
        (["dance"], f"invalid choice: 'dance' (choose from {', '.join(map(repr, COMMANDS))})"),
        (["agent", "oracel"], "valid names are oracle, noop, readonly, careful, llm, echo; did you mean 'oracle'?"),
        (["docter"], "; did you mean 'doctor'; see a2a-bench --help"),
        (["export", "html", "--basline", "y"], "--basline y; did you mean '--baseline'; see a2a-bench export --help"),
        (["export", "html", ".", "--history", "no.jsonl"], "--history no.jsonl: there is no such file"),
        (["agent", "oracle", "--port", "x"], "port='x': Input should be a valid integer"),
        (["agent", "oracle", "--port", "70000"], "port='70000': Input should be less than or equal to 65535"),
        (["agent", "oracle", "--latency", "-1"], "latency='-1': Input should be greater"),
        (["agent", "oracle", "--auth-env", "NOT_SET_AT_ALL"], "export NOT_SET_AT_ALL=TOKEN first"),
        (["agent", "llm", "--llm-args", "[]"], "llm_args: '[]' is not a JSON object"),
        (["agent", "llm"], "set A2A_AGENT_LLM"),
        (["gate", "--rescore", "--min-pass", "0.5"], "--rescore judges nothing; leave out --min-pass"),
        (["gate", "--write-baseline", "b.json", "--max-cost", "1"], "--write-baseline judges nothing; leave out"),
        (["gate", "--write-baseline", "b.json", "--rescore"], "--write-baseline evaluates nothing; rescore first"),
        (["compare", "a", "b", "--add", "c"], "--add belongs to --history PATH"),
        (["compare", "--history", "h", "--format", "json"], "leave out --strict and --format"),
        (["compare", "--history", "h", "--last", "0"], "--last 0: it is a number of runs, 1 or more"),
        (["export", "leaderboard", "-o", "l.json"], "a leaderboard knows an agent by an id: add --id ID"),
        (["check", "http://127.0.0.1:1", "--id", "SEND-03"], "did you mean 'SEND-003'?"),
    ],
)
def test_trouble_is_a_line_and_code_2(arguments: list[str], complaint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("A2A_AGENT_LLM", raising=False)
    assert complaint in refused(*arguments)


def test_operands_may_stand_on_both_sides_of_an_option() -> None:
    words = ["assess", "--once", "builtin:oracle", "domain=mock", "--port", "0", "max_tasks=1"]
    parser = main.make_parser("assess")
    namespace, rest = parser.parse_known_args(words)
    parser.take(namespace, rest)
    assert namespace.request == ["domain=mock", "max_tasks=1"]
    # Not where the command takes none, and no option among them.
    for wrong in (["doctor", "http://h", "--json", "x"], [*words, "--prt", "1"]):
        assert "unrecognized arguments: " in refused(*wrong)


@in_one_test(
    "arguments",
    [
        ["tau2", "run", "mock", "--agent-a2a-auth-token", "s3cret"],
        ["tau2", "run", "mock", "--user-a2a-auth-token=s3cret"],
        ["check", "http://127.0.0.1:9", "--auth-token", "s3cret"],
        ["doctor", "--a2a-auth-token=s3cret"],
    ],
)
def test_a_token_in_the_command_line_is_refused_unseen(arguments: list[str]) -> None:
    err = refused(*arguments)
    assert "s3cret" not in err
    option = next(word for word in arguments if "auth-token" in word).partition("=")[0]
    assert err.startswith(f"a2a-bench: {option}: a token does not belong into a command line")
    assert err.endswith(f"{option.removesuffix('token')}env NAME\n")


def test_a_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_a2a_bench.agents.options.find_spec", lambda name: None)
    assert install_command("agents") in command("agent", "noop", code=2).err


def imported_by(*arguments: str) -> set[str]:
    """What a process has imported that parsed these arguments, heavy libraries and commands."""
    program = f"""
import sys
from pytest_a2a_bench.cli import main
try:
    main.main({arguments!r})
except SystemExit as end:
    assert end.code == 0, end.code
print(*sys.modules)
"""
    with spawn_python("-c", program) as process:
        out, errors = process.communicate()
    assert process.returncode == 0, errors
    heavy = {"pytest", "a2a", "httpx", "pydantic", "tau2", "litellm", "uvicorn", "grpc"}
    commands = {f"pytest_a2a_bench.cli.{name}" for name in COMMANDS}
    return set(out.split("\n")[-2].split()) & (heavy | commands)


def test_help_lists_every_command_and_imports_none() -> None:
    printed = command("--help").out
    assert all(f"{name} {message}" in " ".join(printed.split()) for name, message in COMMANDS.items())
    assert imported_by("--help") == set()


@pytest.mark.slow
def test_only_the_chosen_command_is_imported() -> None:
    # Cards are judged for all bindings, but what serves agents and what runs benchmarks is none of its business.
    found = imported_by("check", "--help")
    assert {name for name in found if name.startswith("pytest_a2a_bench")} == {"pytest_a2a_bench.cli.check"}
    assert found.isdisjoint({"pytest", "tau2", "litellm", "uvicorn"})


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "pytest_a2a_bench.cli", "gate", "--help"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    with os.fdopen(writing) as nobody:
        ended = subprocess.run(command, stdout=nobody, stderr=subprocess.PIPE, text=True, env=environ)
    assert (ended.returncode, ended.stderr) == (0, "")


class TestAgent:
    @pytest.mark.slow
    def test_it_serves_says_how_to_use_it_and_stops_on_ctrl_c(self) -> None:
        arguments = ("agent", "oracle", "--host", "127.0.0.1", "--reply", "task")
        with spawn_python("-m", "pytest_a2a_bench.cli", *arguments) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            first, second = process.stdout.readline(), process.stdout.readline()
            url = first.split(" answers at ")[1].split()[0]
            with urllib.request.urlopen(f"{url}.well-known/agent-card.json") as answer:
                card = json.load(answer)
            process.send_signal(signal.SIGINT)
            code, errors = process.wait(120), process.stderr.read()

        assert card["name"] == "pytest-a2a-bench oracle"
        assert f"card {url}.well-known/agent-card.json" in first
        assert second == f"try: pytest --a2a-endpoint {url} --a2a-set tag-trials=on -k airline\n"
        assert (code, errors) == (0, "stopped\n")

    def test_a_port_in_use_is_one_line(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            errors = refused("agent", "noop", "--port", str(port))
        assert f"cannot listen on 127.0.0.1:{port}: Address already in use; choose another --port" in errors

    def test_the_hint_carries_the_token_s_variable(self) -> None:
        from pytest_a2a_bench.agents.options import AgentOptions
        from pytest_a2a_bench.agents.server import Served

        hint = greeting(AgentOptions("noop", auth_env="MY_TOKEN"), Served("http://h:1/", "http://h:1/card", 1))
        assert hint.endswith("try: pytest --a2a-endpoint http://h:1/ --a2a-auth-env MY_TOKEN -k airline")

    def test_players_of_a_project_s_own_suites_are_served(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from pytest_a2a_bench.agents.options import AgentOptions
        from pytest_a2a_bench.agents.server import Served

        monkeypatch.setattr(registry, "_players", {})
        errors = refused("agent", "oracle", "--players", '{"shop": "nowhere"}')
        assert "the player of suite 'shop' cannot be loaded from 'nowhere': No module named 'nowhere'" in errors
        options = AgentOptions("oracle", players={"shop": registry.load("tau2").player})
        registry.register_players(options.players)
        hint = greeting(options, Served("http://h:1/", "http://h:1/card", 1))
        assert hint.endswith("try: pytest --a2a-endpoint http://h:1/ --a2a-set tag-trials=on -m shop")


class TestDoctor:
    def test_keys_are_named_and_addresses_shown_without_what_may_be_secret(self) -> None:
        environ = {"OPENAI_API_KEY": "sk-secret", "A2A_AGENT_LLM": "openai/gpt-4.1", "EMPTY_API_KEY": ""}
        environ |= {"OPENAI_API_BASE": "http://me:hunter2@h:1/v1?key=k", "A2A_ENDPOINT": "https://me:hunter2@h/"}
        printed = "\n".join(found for _, found in doctor.installed(environ))
        for shown in ("A2A_AGENT_LLM=openai/gpt-4.1", "OPENAI_API_KEY is set", "http://h:1/v1"):
            assert shown in printed
        for hidden in ("sk-secret", "EMPTY_API_KEY", "hunter2", "key=k"):
            assert hidden not in printed

    def test_a_missing_extra_is_reported_with_its_purpose_and_remedy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from pytest_a2a_bench.benchmarks.tau2 import index

        def missing() -> None:
            raise MissingExtraError("tau2-bench", "tau2")

        monkeypatch.setattr(index, "find_installation", missing)
        monkeypatch.setattr(doctor, "find_spec", lambda name: None if name in ("grpc", "authlib") else object())
        printed = "\n".join(found for _, found in doctor.installed({}))

        assert f"tau2-bench is not installed; run: {install_command('tau2')}" in printed
        assert "in part, without grpc; only for agents over gRPC\n" in printed
        assert "not installed; only for OAuth 2 client credentials\n" in printed
        assert printed.count("pip install") == 2
        assert f"is installed with {install_command('EXTRA')}" in printed
        assert "missing" not in printed
        assert "nothing configured" in printed

    def test_it_knows_every_extra_that_users_install(self) -> None:
        project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
        shown = {what.strip("[]") for what, _ in doctor.installed({}) if what.startswith("[")}
        # tau2-lite is what tau2 needs, without tau2 itself.
        assert shown == set(project["optional-dependencies"]) - {"dev", "docs", "tau2-lite"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "completion"), [("a2a-bench ga", "gate "), ("a2a-bench gate --write-b", "--write-baseline ")]
)
def test_a_shell_completes_commands_and_their_options(line: str, completion: str, tmp_path: Path) -> None:
    answer = tmp_path / "answer"
    environ = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "|",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "_ARGCOMPLETE_SUPPRESS_SPACE": "0",
    }
    subprocess.run([sys.executable, "-m", "pytest_a2a_bench.cli"], env=environ, check=True, stdin=subprocess.DEVNULL)
    assert answer.read_text() == completion
