import subprocess
import sys

import pytest
from harness import ROOT, Bench

HEAVY = ("a2a", "httpx", "pydantic", "tau2", "litellm", "grpc", "starlette", "uvicorn")


def test_loading_the_plugin_imports_only_pytest_and_the_standard_library() -> None:
    script = (
        "import sys, pytest; before = set(sys.modules); import pytest_a2a_bench.plugin;"
        "print(sorted(m.partition('.')[0] for m in set(sys.modules) - before "
        "if m.partition('.')[0] not in sys.stdlib_module_names))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['pytest_a2a_bench', 'pytest_a2a_bench', 'pytest_a2a_bench']"


def test_a_whole_run_without_us_imports_nothing_heavy(bench: Bench) -> None:
    bench.makepyfile(
        f"""
        import sys
        def test_nothing_heavy():
            assert not [m for m in {HEAVY!r} if m in sys.modules]
            ours = [m.removeprefix("pytest_a2a_bench.plugin") for m in sys.modules if m.startswith("pytest_a2a_bench.")]
            assert sorted(ours) == ["", ".fixtures", ".hookspecs", ".options"]
        """
    )
    assert bench.apart().ret == 0


def test_nothing_is_shown_or_written_without_us(bench: Bench) -> None:
    bench.makepyfile("def test_mine(): pass")
    bench("-p", "no:xdist").assert_outcomes(passed=1)
    result = bench("-v")
    assert result.ret == 0
    assert "a2a:" not in result.stdout.str()
    assert "a2a benchmark" not in result.stdout.str()
    assert not (bench.path / "a2a-results").exists()


@pytest.mark.slow
def test_markers_options_and_names_of_settings_are_there_and_the_fixture_trial_is_the_projects(bench: Bench) -> None:
    bench.makepyfile("import pytest\n@pytest.mark.airline\ndef test_mine(): pass")
    assert bench("--strict-markers").ret == 0
    markers = bench("--markers").stdout
    markers.fnmatch_lines(["*@pytest.mark.tau2(domain, [*], split=None, trials=None, tasks=None, label=None): *"])
    for domain in ("airline", "retail", "telecom", "mock", "banking_knowledge"):
        markers.fnmatch_lines([f"*@pytest.mark.{domain}: *"])
    shown = bench("--help").stdout
    text = " ".join(shown.str().split())
    assert "--a2a-endpoint=[NAME=]URL|builtin:NAME" in text
    assert "Timeout of one turn of the agent (default: 300)" in text
    groups = ("agent", "tasks", "users and judges", "run", "gates", "reports", "protocol")
    shown.fnmatch_lines([f"a2a: {name}:" for name in groups])
    assert "auth-token" not in text
    bench.makepyfile(
        """
        import pytest
        @pytest.fixture
        def trial():
            return 7
        def test_mine(trial):
            assert trial == 7
        @pytest.mark.parametrize("trial", [1, 2])
        def test_theirs(trial):
            assert trial
        """
    )
    bench().assert_outcomes(passed=3)
    bench.makepyprojecttoml("[tool.a2a-bench]\nmax-stps = 3\n")
    assert [line for line in bench.refused("--a2a-set=timeot=4").lines if line.strip()] == [
        "ERROR: pyproject.toml: max-stps: there is no such setting; did you mean 'max-steps'?",
        "ERROR: --a2a-set timeot: there is no such setting; did you mean 'timeout'?",
    ]


def test_a_token_in_the_command_line_is_refused_and_not_repeated(bench: Bench) -> None:
    for arguments in (["--a2a-auth-token", "s3cret"], ["--a2a-auth-token=s3cret"]):
        said = bench.refused(*arguments).str()
        assert "put it into the environment variable A2A_AUTH_TOKEN" in said
        assert "s3cret" not in said


def test_it_begins_when_a_test_takes_a_fixture_of_ours(bench: Bench) -> None:
    for test in (
        "def test_mine(a2a_client):\n    pass",
        "import unittest\n@pytest.mark.usefixtures('agent_card')\n"
        "class TestMine(unittest.TestCase):\n    def test_mine(self):\n        pass",
    ):
        bench.makepyfile(f"import pytest\n{test}\n")
        bench.refused().fnmatch_lines(["*test_mine: no agent to test; pass --a2a-endpoint URL*"])
    bench.makepyfile("def test_mine(request):\n    request.getfixturevalue('agent_card')")
    result = bench()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*no agent to test; pass --a2a-endpoint URL*"])


# Python without assertions: a run that could not fail is refused.


def test_no_trial_passes_without_assertions(bench: Bench, noop_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ("--a2a-endpoint", noop_url, "a2a/mock::test_mock[update_task_1-t0]")
    bench(*run, "--assert=plain").assert_outcomes(failed=1)
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    plain = bench.apart(*run, "--assert=plain")
    assert plain.ret == pytest.ExitCode.USAGE_ERROR
    plain.stderr.fnmatch_lines(["ERROR: --assert=plain: Python removes assertions*"])


@pytest.mark.slow
def test_an_optimizing_python_finds_misses(bench: Bench, noop_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    bench.apart("--a2a-endpoint", noop_url, "a2a/mock::test_mock[update_task_1-t0]").assert_outcomes(failed=1)
