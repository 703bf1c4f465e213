import re
from pathlib import Path

import pytest
from harness import Bench, ids
from one_test import in_one_test

from pytest_a2a_bench.benchmarks.crmarena.tasks import CATEGORIES
from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.model import slugify

ORACLE = ("--a2a-endpoint", "builtin:oracle")
MINI = len(CATEGORIES) * 10


PASTED = (
    "a2a/airline::test_airline[12-t0]",
    "a2a/airline::test_airline[3-t0]",
    "a2a/mock::test_mock[create_task_1-t0]",
)


@in_one_test(
    ("arguments", "count", "own"),
    [
        (("--a2a-suite=airline",), 50, 0),
        (("--a2a-suite=tau2",), 50 + 114 + 114 + 9, 0),
        (("--a2a-suite=mock", "test_own.py"), 9, 2),
        (("--a2a-suite=airline", "--deselect=a2a/airline::test_airline[12-t0]"), 49, 0),
        (("--a2a-suite=airline", "--a2a-trials=3", "-k", "airline and not t1"), 100, 0),
        *((("--a2a-suite=telecom", f"--a2a-split={s}"), n, 0) for s, n in (("test", 40), ("small", 20))),
        ((), 0, 2),
        (("-k", "airline"), 50, 1),
        (("-k", "airline", "test_own.py"), 0, 1),
        (("-m", "tau2"), 287, 0),
        (("-m", "mock or airline"), 59, 0),
        (("-k", "airline and split_test"), 20, 0),
        (("-k", "airline and test"), 50, 1),
        # An expression that only leaves out chooses among the own tests.
        (("-k", "not phone"), 0, 1),
        (("a2a/airline::test_airline[12-t3]",), 1, 0),
        (("a2a/airline::test_airline",), 50, 0),
        (("a2a/airline",), 50, 0),
        (("../a2a/airline::test_airline[12-t0]",), 1, 0),
        (("./a2a/airline::test_airline[12-t0]",), 1, 0),
        ((PASTED[0], "test_own.py::test_other"), 1, 1),
        *((("--a2a-suite", s, *PASTED), 3, 0) for s in ("airline", "tau2", "retail", "crmarena", "card,protocol")),
        (("--a2a-suite=tau2", *PASTED, "-m", "mock"), 1, 0),
        (("--a2a-suite=tau2", *PASTED, "-k", "airline"), 2, 0),
        # CRMArena's mini org, whose tasks have categories.
        (("-k", "crmarena"), MINI, 0),
        (("-k", "mini_interactive and handle_time"), 10, 0),
        (("-m", "mini"), MINI, 0),
        (("--a2a-suite", "mini_interactive"), MINI, 0),
        (("--a2a-suite=mini", "--a2a-trials=2", "-k", "t1 and quote_approval"), 10, 0),
        (("a2a/crmarena_mini::test_mini[handle_time-03-t0]",), 1, 0),
    ],
)
def test_what_is_chosen(bench: Bench, arguments: tuple[str, ...], count: int, own: int) -> None:
    bench.makepyfile(test_own="def test_airline_phone(): pass\ndef test_other(): pass")
    result = bench("--co", "-q", *ORACLE, *arguments)
    found = ids(result)
    assert (sum(name.startswith("a2a/") for name in found), sum("test_own.py::" in name for name in found)) == (
        count,
        own,
    )
    if arguments and arguments[0].startswith(("a2a/", "../", "./")):
        assert "deselected" not in result.stdout.str()


@pytest.mark.slow
def test_the_largest_split_is_collected_whole(bench: Bench) -> None:
    assert len(ids(bench("--co", "-q", *ORACLE, "--a2a-suite=telecom", "--a2a-split=full"))) == 2285


@pytest.mark.slow
def test_words_of_long_task_ids_are_keywords(bench: Bench) -> None:
    without = ids(bench("--co", "-q", *ORACLE, "-k", "telecom and not mms"))
    tasks = [task.task_id for task in index.load_tasks("telecom", "base")]
    assert len(without) == sum("mms" not in task for task in tasks)
    assert all(len(nodeid) < 110 for nodeid in without)
    only = ids(bench("--co", "-q", *ORACLE, "-k", "telecom and data_mode_off and Hard"))
    assert len(only) == sum("data_mode_off" in task and "hard" in task.lower() for task in tasks)


def test_no_word_finds_itself_in_the_hash_of_a_long_id(bench: Bench) -> None:
    """One of telecom's ids has "bb2cfe" in the hexadecimal hash; ``-k b2c`` means CRMArena's domain."""
    slugs = [slugify(task.task_id) for task in index.load_tasks("telecom", "full")]
    assert len(set(slugs)) == len(slugs)
    hashed = [slug for slug in slugs if re.search(r"-[0-9]{8}\Z", slug)]
    assert len(hashed) > 2000
    for word in ("b2c", "b2b", "add", "bad", "fed"):
        assert not [slug for slug in hashed if word in slug[-9:]]
    assert ids(bench("--co", "-q", *ORACLE, "-k", "b2c")) == []


def test_a_candidate_without_the_split_is_none(bench: Bench) -> None:
    assert len(ids(bench("--co", "-q", *ORACLE, "-k", "airline or mock", "--a2a-split", "test"))) == 20
    result = bench("--co", *ORACLE, "-k", "mock", "--a2a-split", "small")
    result.stdout.fnmatch_lines(["a2a: mock has no split 'small'; it has: base"])
    assert result.ret == 5


def test_an_endpoint_from_the_environment_adds_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2A_ENDPOINT", "builtin:oracle")
    bench.makepyfile("def test_airline_phone(): pass")
    assert len(ids(bench("--co", "-q", "-k", "airline"))) == 1


@pytest.mark.slow
def test_the_id_of_all_modules(bench: Bench) -> None:
    found = ids(bench("--co", "-q", *ORACLE, "a2a"))
    checks = [i for i in found if i.startswith(("a2a/card", "a2a/protocol"))]
    assert len(found) - len(checks) == 287 + 220
    assert len(checks) > 200


def test_pasted_ids_run_alone_beside_a_suite_of_the_ini_file(bench: Bench) -> None:
    bench.makepyprojecttoml("[tool.a2a-bench]\nsuite = 'tau2'\n")
    bench.makepyfile(test_own="def test_one(): pass\ndef test_two(): pass")
    assert ids(bench("--co", "-q", *ORACLE, PASTED[0])) == [PASTED[0]]
    assert ids(bench("--co", "-q", *ORACLE, "test_own.py::test_one")) == ["test_own.py::test_one"]
    assert len(ids(bench("--co", "-q", *ORACLE, "test_own.py"))) == 289
    assert len(ids(bench("--co", "-q", *ORACLE))) == 287
    result = bench("--co", *ORACLE, "-k", "mock and t0")
    result.stdout.fnmatch_lines(["a2a: suite tau2 runs in place of your own tests; name their path to run these, too"])


def test_whole_modules_run_beside_suites(bench: Bench) -> None:
    assert len(ids(bench("--co", "-q", *ORACLE, "--a2a-suite", "mock", "a2a/airline"))) == 59
    result = bench("--co", *ORACLE, "--a2a-suite", "mock", PASTED[0], "a2a/airline")
    result.stdout.fnmatch_lines(["*--a2a-suite mock adds nothing"])
    assert sum("test_airline[" in line for line in result.outlines) == 50


def test_an_existing_path_wins(bench: Bench) -> None:
    bench.mkdir("a2a")
    bench.makepyfile(**{"a2a/test_own": "def test_mine(): pass"})
    assert len(ids(bench("--co", "-q", *ORACLE, "a2a"))) == 1


LAYOUTS = {
    "venv inside": {},
    "own python_files": {"python_files": "check_*.py", "python_functions": "check_*"},
    "importlib": {"addopts": "--import-mode=importlib"},
    "testpaths": {"testpaths": "."},
}


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_projects(pytester: pytest.Pytester, bench: Bench, layout: str) -> None:
    venv = bench.mkdir(".venv")
    (venv / "pyvenv.cfg").touch()
    bench.makepyfile("def test_airline_phone(): pass\ndef check_airline(): pass")
    pytester.makeini("\n".join(["[pytest]", *(f"{k} = {v}" for k, v in LAYOUTS[layout].items())]))
    expected = 50 if layout == "own python_files" else 51
    assert len(ids(bench("--co", "-q", *ORACLE, "-k", "airline"))) == expected


def test_from_a_subdirectory(pytester: pytest.Pytester, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makeini("[pytest]")
    monkeypatch.chdir(bench.mkdir("sub"))
    assert len(ids(bench("--co", "-q", "--a2a-suite", "airline"))) == 50
    assert len(ids(bench("--co", "-q", *ORACLE, "../a2a/airline::test_airline[12-t0]"))) == 1


def test_suite_files_are_what_a_user_would_write(bench: Bench) -> None:
    import pytest_a2a_bench.suites

    source = Path(pytest_a2a_bench.suites.__path__[0]) / "test_tau2.py"
    (bench.path / "test_copied.py").write_text(source.read_text())
    assert len(ids(bench("--co", "-q", "-k", "test_mock"))) == 9
