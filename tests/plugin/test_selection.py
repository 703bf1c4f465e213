from pathlib import Path

import pytest
from harness import DESK, DESK_TEST, Bench, counts, log_of

from pytest_a2a_bench import suites

MODULE_CONFTEST = """
import dataclasses

def pytest_a2a_bench_suites():
    import desk
    return [dataclasses.replace(desk.SUITE, modules={"front": "desk_suite"})]
"""


@pytest.fixture
def suite(desk: Bench) -> Bench:
    """Offer the desk as a built-in module, in a project that has tests and a .venv of its own."""
    desk.tasks("ok bad-0-a bad-0-b")
    (desk.path / "test_desk.py").rename(desk.path / "desk_suite.py")
    desk.makeconftest(MODULE_CONFTEST)
    desk.makepyfile(test_own="def test_own_bad(): assert False\ndef test_own_good(): pass")
    (desk.mkdir(".venv") / "pyvenv.cfg").touch()
    return desk


def test_suites_expressions_and_pasted_ids(suite: Bench) -> None:
    suite.add_to_conftest("""
import pytest
@pytest.fixture(autouse=True)
def noticed(request):
    print("NOTICED", request.node.nodeid)
""")
    whole = suite("-s", "--a2a-suite", "front")
    assert counts(whole) == {"passed": 1, "failed": 2}
    # A conftest beside the ini file serves built-in suites.
    whole.stdout.fnmatch_lines(["*NOTICED a2a/front::test_desk[[]ok-t0[]]"])
    assert counts(suite("-k", "front or own")) == {"passed": 2, "failed": 3}
    pasted = suite("a2a/front::test_desk[bad-0-b-t0]", "test_own.py::test_own_good")
    assert counts(pasted) == {"passed": 1, "failed": 1}


@pytest.mark.slow
def test_last_failed_and_failed_first(suite: Bench) -> None:
    suite("-k", "front or own")
    assert counts(suite("--lf")) == {"failed": 3}
    assert counts(suite("--lf", "-k", "front or own")) == {"failed": 3}
    assert counts(suite("--lf", "--a2a-suite", "front")) == {"failed": 2}
    assert counts(suite("--ff", "--a2a-suite", "front")) == {"failed": 2, "passed": 1}
    (suite.path / "log.txt").unlink()
    suite("--ff", "--a2a-suite", "front")
    assert log_of(suite) == ["bad-0-a", "bad-0-b", "ok"]


@pytest.mark.slow
def test_a_suite_from_an_installed_package(bench: Bench, noop_url: str) -> None:
    bench.makepyfile(desk=DESK, desk_suite=DESK_TEST)
    info = bench.mkdir("desk-1.dist-info")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: desk\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[pytest_a2a_bench.suites]\ndesk = desk:SUITE\n")
    bench.makepyfile(test_mine=DESK_TEST)
    bench.apart("--a2a-endpoint", noop_url, "test_mine.py").assert_outcomes(passed=1)


def test_own_tests_of_the_same_trials_replace_what_an_expression_chose(suite: Bench) -> None:
    suite.makepyfile(
        test_own="""
        import pytest
        @pytest.mark.desk("front", tasks=["ok", "bad-0-a"])
        def test_front_is_quick(trial): assert trial.turns == 2
        """
    )
    note = "*2 built-in items left out: your own tests run the same trials"
    for expression in (("-k", "front"), ("-m", "desk")):
        result = suite(*expression)
        assert counts(result) == {"passed": 2, "failed": 1}
        result.stdout.fnmatch_lines([note])
    every = suite("-k", "test_desk")
    assert counts(every) == {"passed": 1, "failed": 2}
    assert "left out" not in every.stdout.str()
    assert suite("--a2a-suite", "front", "test_own.py").ret == 4


def test_an_editor_runs_a_built_in_item_by_its_file(bench: Bench) -> None:
    """As VS Code does: what it collected is run by the path of the file and the name in it."""
    ini = bench.makepyprojecttoml("[tool.a2a-bench]\nsuite = 'mock'\n")
    listed = bench("--co", "-q")
    assert "a2a/mock::test_mock[create_task_1-t0]" in listed.outlines
    file = Path(suites.__file__).with_name("test_tau2.py")
    named = bench("--co", "-q", f"{file}::test_mock[create_task_1-t0]", "-c", ini)
    assert named.ret == 0, named.stderr.str()
    assert named.outlines[0] == "a2a/mock::test_mock[create_task_1-t0]"
    assert named.outlines[2].startswith("1 test collected")


def test_a_domain_that_the_name_of_a_split_leaves_out_is_named(bench: Bench, noop_url: str) -> None:
    """All tasks of mock are in its split base."""
    note = "a2a: -k: 'not split_base' leaves out every trial of mock: all of them are in that split"
    chosen = ("--co", "--a2a-suite", "airline,mock")
    assert note in bench(*chosen, "-k", "not split_base or airline").outlines
    assert any("split_base" in line and "airline" in line for line in bench(*chosen, "-k", "not split_base").outlines)
    for expression in ("airline and not split_base", "not mock", "airline"):
        assert note not in bench(*chosen, "-k", expression).outlines
    # Workers collect where there are some, and their notes come with the summary (of several, once: test_xdist).
    apart = bench("--a2a-endpoint", noop_url, "--a2a-suite=mock", "-n1", "-k", "not split_base")
    assert apart.outlines.count(note) == 1


def test_a_word_that_no_test_has_names_the_near_one(suite: Bench) -> None:
    result = suite("-k", "frnot and not gone")
    assert result.ret == 5
    result.stdout.fnmatch_lines(["a2a: -k: no test has 'frnot' in its name; did you mean 'front'?"])
    assert "gone" not in result.stdout.str()
    result = suite("-k", "front and ok")
    assert counts(result) == {"passed": 1}
    assert "-k:" not in result.stdout.str()


@pytest.mark.parametrize("options", [("-k", "front and"), ("-k", "front and", "-n1"), ("-m", "desk(x=)")])
def test_an_expression_that_is_none_is_refused_in_a_line_and_begins_no_run(
    suite: Bench, options: tuple[str, ...]
) -> None:
    suite.refused(*options).fnmatch_lines([f"ERROR: {options[0]} '{options[1]}' is no expression: at column *"])
    assert not (suite.path / "a2a-results").exists()


@pytest.mark.parametrize("source", ["env", "table"])
def test_why_an_expression_chose_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    bench.makepyfile(test_own="def test_own(): pass")
    where = {"env": "A2A_ENDPOINT", "table": "[[]tool.a2a-bench[]]"}[source]
    if source == "env":
        monkeypatch.setenv("A2A_ENDPOINT", "builtin:noop")
    else:
        bench.makepyprojecttoml('[tool.a2a-bench]\nendpoint = "builtin:noop"\n')
    line = f"a2a: the agent of {where} is for your own tests; to choose from the built-in suites, too, add --a2a-*"
    result = bench("-k", "arline")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines([f"{line}; did you mean 'airline'[?]"])
    assert bench("-m", "conformance").ret == pytest.ExitCode.NO_TESTS_COLLECTED
    own = bench("-k", "own")
    assert own.ret == 0
    assert "is for your own tests" not in own.stdout.str()


def test_a_gate_without_an_agent_and_a_misspelt_variable_warn(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.makepyfile(test_own="def test_own(): pass")
    result = bench("--a2a-min-pass", "0.5")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["a2a: --a2a-min-pass: no trial ran, so nothing was judged; add --a2a-endpoint URL *"])
    monkeypatch.setenv("A2A_ENDPONT", "builtin:noop")
    result = bench()
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*PytestConfigWarning: A2A_ENDPONT: there is no such setting; did you mean *"])


def test_a_marker_or_a_member_of_checks_that_there_is_not(bench: Bench, noop_url: str) -> None:
    for expression, line in {
        "conformanse": "there is no marker 'conformanse'; did you mean 'conformance'[?]",
        "conformance(levl='MUST')": "no check has a 'levl'; did you mean 'level'[?]",
        'card and conformance(level="must", id="X")': "no check has the level 'must'; did you mean 'MUST'[?]",
        'conformance(group="snd")': "no check has the group 'snd'; did you mean 'send'[?]",
    }.items():
        result = bench("--a2a-endpoint", noop_url, "-m", expression, "--co")
        result.stdout.fnmatch_lines([f"a2a: -m: {line}"])
    right = bench("--a2a-endpoint", noop_url, "-m", 'conformance(level="MUST", group="acts")', "--co")
    assert "-m:" not in right.stdout.str()
