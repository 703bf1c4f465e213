"""What others add: every kind by the example project, and by an installed distribution; what is wrong is one line."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Bench

from pytest_a2a_bench import extensions
from pytest_a2a_bench.config.settings import DIALECTS
from pytest_a2a_bench.config.values import one_of_kind
from pytest_a2a_bench.dialects import auto, detect_request
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.language_models import read_model
from pytest_a2a_bench.model import Part
from pytest_a2a_bench.plugin import hookspecs
from pytest_a2a_bench.reports.contents import Contents, write_with

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "example_suites" / "extensions"


@pytest.fixture
def own(bench: Bench) -> Bench:
    """Run pytest in a copy of the example."""
    bench.copy_files(EXAMPLE)
    return bench


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory that distributions are installed into; what is installed here is looked at anew."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    known = (extensions._installed, extensions.load_all, auto._recogniser, auto._warn_once)
    for cached in known:
        cached.cache_clear()
    yield tmp_path
    for cached in known:
        cached.cache_clear()
    for name in set(sys.modules) - before:
        if name.startswith("ext_"):
            del sys.modules[name]


def install(site: Path, name: str, points: str) -> None:
    info = site / f"{name}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(points)


def test_every_kind_has_a_hook_and_a_row_in_the_reference() -> None:
    hooks = {name.removeprefix("pytest_a2a_bench_") for name in vars(hookspecs) if name.startswith("pytest_a2a_bench_")}
    assert hooks == {*extensions.KINDS, "prepare_trial"} - {"reporters"}
    page = (ROOT / "docs" / "reference" / "hooks.md").read_text(encoding="utf-8")
    for kind, (what, given) in extensions.KINDS.items():
        assert f"| `pytest_a2a_bench.{kind}` | {what} | {given} |" in page
    assert f"version {extensions.CONTRACT}" in page


def test_an_installed_one_is_found_by_name_and_loaded_when_it_is_used(site: Path) -> None:
    (site / "ext_good.py").write_text("LINES = object()\nA2A_BENCH_CONTRACT = 1\n")
    install(site, "good", "[pytest_a2a_bench.dialects]\nlines = ext_good:LINES\n")
    assert extensions.names("dialects") == ("lines",)
    assert one_of_kind("dialects", "auto")("lines") == "lines"
    assert "ext_good" not in sys.modules
    assert extensions.load("dialects", "lines", ["auto"]) is sys.modules["ext_good"].LINES
    with pytest.raises(ValueError, match="'line' is not one of auto, lines; did you mean 'lines'"):
        one_of_kind("dialects", "auto")("line")


def test_what_is_wrong_with_an_installed_one_names_its_distribution(site: Path) -> None:
    (site / "ext_broken.py").write_text("import nowhere_at_all\n")
    (site / "ext_newer.py").write_text("X = 1\nA2A_BENCH_CONTRACT = 99\n")
    install(site, "broken", "[pytest_a2a_bench.reporters]\nx = ext_broken:X\nshelf = a:X\n")
    install(site, "newer", "[pytest_a2a_bench.agents]\nx = ext_newer:X\n")
    install(site, "two", "[pytest_a2a_bench.reporters]\nshelf = b:X\n[pytest_a2a_bench.dialects]\nauto = a:X\n")
    for kind, name, problem in (
        (
            "reporters", "x",
            r"the reporter 'x' of distribution broken 1\.2 cannot be loaded from 'ext_broken:X': "
            r"ModuleNotFoundError: No module named 'nowhere_at_all'$",
        ),
        ("agents", "x", r"agent 'x' of distribution newer 1\.2 was written for version 99 .* 1:"),
        (
            "reporters", "shelf",
            r"'shelf', of distribution broken 1\.2 \(a:X\) and distribution two 1\.2 \(b:X\); uninstall one",
        ),
    ):  # fmt: skip
        with pytest.raises(ConfigurationError, match=problem):
            extensions.load(kind, name)
    with pytest.raises(ValueError, match=r"dialect 'auto' of distribution two 1\.2 has the name of a built-in one"):
        one_of_kind("dialects", "auto")("yaml")


def test_broken_dialects_of_others_cost_the_others_nothing(site: Path, caplog: pytest.LogCaptureFixture) -> None:
    (site / "ext_bad.py").write_text("with open(__file__ + '.log', 'a') as log: log.write('!')\nraise SystemExit(0)\n")
    (site / "ext_odd.py").write_text("class X:\n    def recognises(self, parts): raise SystemExit(0)\nX = X()\n")
    (site / "ext_good.py").write_text(
        "class X:\n    def recognises(self, parts): return parts[0].text[0] == '!'\nX = X()\n"
    )
    for name, points in {
        "bad": "a = ext_bad:X", "greedy": "auto = ext_good:X", "odd": "b = ext_odd:X", "twin": "c = ext_good:X",
        "other": "c = ext_odd:X", "good": "z = ext_good:X",
    }.items():  # fmt: skip
        install(site, name, f"[pytest_a2a_bench.dialects]\n{points}\n")
    plain, meant = [Part.of_text("Hello.")], [Part.of_text("!")]
    assert [detect_request(parts) for parts in (plain, meant, plain)] == ["tool_call", "z", "tool_call"]
    assert one_of_kind("dialects", *DIALECTS)("z") == "z"
    assert (site / "ext_bad.py.log").read_text() == "!"
    assert [record.message for record in caplog.records if record.name == auto.__name__] == [
        "the dialect 'a' of distribution bad 1.2 cannot be loaded from 'ext_bad:X': SystemExit: 0; it is left out",
        "the dialect 'b' of distribution odd 1.2 is left out: its recognises() raised SystemExit",
    ]


def test_models_of_no_extension_and_wrong_types_of_hooks_are_refused(site: Path) -> None:
    install(site, "good", "[pytest_a2a_bench.judges]\nstrict = a:Y\n")
    assert read_model("a2a-judge/strict") == "a2a-judge/strict"
    assert read_model("openai/gpt-4.1") == "openai/gpt-4.1"
    with pytest.raises(ValueError, match="no such judge; valid are: strict; did you mean 'strict'"):
        read_model("a2a-judge/strikt")
    with pytest.raises(ConfigurationError, match="pytest_a2a_bench_users of plugin p must return names and"):
        extensions.offer("users", {"x": "no_object"}, "plugin p")


@pytest.mark.slow
def test_own_agent_user_judge_and_store(own: Bench) -> None:
    models = ("--a2a-user=llm:a2a-user/hurried", "--a2a-judge-llm=a2a-judge/polite")
    result = own(
        "--a2a-endpoint=builtin:clerk", *models, "--a2a-results=shelf://run", "test_shop.py", "-k=hurried",
    )  # fmt: skip
    result.assert_outcomes(passed=1, deselected=2)
    (stored,) = (own.path / "shelf" / "run" / "trials").glob("*.json")
    expected = json.loads(stored.read_text())["provenance"]
    assert (expected["user_llm"], expected["judge"]) == ("a2a-user/hurried", "a2a-judge/polite")


@pytest.mark.slow
def test_workers_know_an_own_dialect(own: Bench) -> None:
    result = own("-n2", "--a2a-endpoint=builtin:oracle", "--a2a-dialect=lines", "test_shop.py", "-k=our_dialect")
    assert result.parseoutcomes()["passed"] == 2


@pytest.mark.slow
def test_own_requirements(own: Bench) -> None:
    result = own("--a2a-endpoint=builtin:clerk", "a2a/protocol", "-k=house and JSONRPC", "-rA")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*HOUSE-001 [[]JSONRPC[]] the card names no provider (SHOULD, our handbook, 4.2)",
            "PASSED a2a/protocol::test_protocol[[]HOUSE-002-JSONRPC[]]",
        ],
        consecutive=False,
    )


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def write(contents): raise SystemExit(0)", "the reporter 'mine' failed: SystemExit: 0"),
        ("def write(contents): return 1", "the reporter 'mine' returned int, not the text of its file"),
        (
            "import pytest; pytest.skip('no', allow_module_level=True)",
            "the reporter 'mine' .*cannot be loaded.*Skipped",
        ),
    ],
)
def test_a_broken_reporter_is_an_error(site: Path, code: str, said: str) -> None:
    (site / "ext_mine.py").write_text(code)
    install(site, "own", "[pytest_a2a_bench.reporters]\nmine = ext_mine:write\n")
    with pytest.raises(ConfigurationError, match=said):
        write_with("mine", site / "out.txt", Contents(trials=[], endpoint=""))


_OBSERVER = """
from pytest_a2a_bench.trials.trial import TrialObserver

class Mine(TrialObserver):
    def after_trial(self, trial, result):
        with open("observed", "a") as file:
            print(trial.key, result.status, file=file)

MINE = Mine()
"""


def test_an_observer_follows_every_trial(pytester: pytest.Pytester, oracle: Bench) -> None:
    oracle.makepyfile(mine_here=_OBSERVER)
    pytester.syspathinsert()
    oracle.makeconftest("def pytest_a2a_bench_observers(): return {'mine': 'mine_here:MINE'}")
    assert oracle("--a2a-suite", "mock", "-k", "create_task_1-t0").ret == 0
    observed = (oracle.path / "observed").read_text().splitlines()
    assert observed == ["tau2/mock/create_task_1#0 evaluated"]


WRONG_LEVEL = "[(Requirement('MINE-1', 'house', '1', 'must', 'x'), id)]"
WRONG_BINDING = "[(Requirement('MINE-1', 'house', '1', 'MUST', 'x', bindings=('rest',)), id)]"
REQUIREMENT = "the requirement 'mine' of *conftest.py "
SAID = {
    "not there": "*cannot be loaded from 'nowhere:L': ModuleNotFoundError: No module named 'nowhere'",
    "no dialect": "*is no dialect; it lacks encode_request, decode_reply, decode_request, encode_reply, reminder",
    "no pairs": REQUIREMENT + "must be (Requirement, check) pairs, and has 1",
    "level": REQUIREMENT + "has MINE-1 with level 'must'; valid are: MUST, SHOULD, MAY",
    "binding": REQUIREMENT + "has MINE-1 with bindings [[]'rest']; *",
    "taken": "*the agent 'oracle' of *conftest.py has the name of a built-in one; its author has to give it another*",
    "no observer": "*the observer 'mine' of *conftest.py* is no TrialObserver: mine_here:MINE must*",
}


@pytest.mark.parametrize(
    ("kind", "offered", "mine", "options", "said"),
    [
        ("dialects", "mine=nowhere:L", "1", "--a2a-suite=mock --a2a-dialect=mine", "not there"),
        ("dialects", "mine=mine_here:MINE", "object()", "--a2a-suite=mock --a2a-dialect=mine", "no dialect"),
        ("requirements", "mine=mine_here:MINE", "[1]", "a2a/card", "no pairs"),
        ("requirements", "mine=mine_here:MINE", "[1]", "-m=conformance", "no pairs"),
        ("requirements", "mine=mine_here:MINE", WRONG_LEVEL, "a2a/protocol", "level"),
        ("requirements", "mine=mine_here:MINE", WRONG_BINDING, "a2a/protocol", "binding"),
        ("agents", "oracle=mine_here:MINE", "1", "--a2a-endpoint=builtin:oracle a2a/card", "taken"),
        ("observers", "mine=mine_here:MINE", "object()", "a2a/mock::test_mock[create_task_1-t0]", "no observer"),
    ],
)
def test_what_is_none_is_refused_before_the_run(
    pytester: pytest.Pytester, bench: Bench, noop_url: str, kind: str, offered: str, mine: str, options: str, said: str
) -> None:
    bench.makepyfile(mine_here=f"from pytest_a2a_bench.conformance.finding import Requirement\nMINE = {mine}")
    pytester.syspathinsert()
    bench.makeconftest(f"def pytest_a2a_bench_{kind}(): return dict([{offered.split('=')}])")
    option = "--a2a-dialect: *'mine' " if kind == "dialects" else ""
    bench.refused("--a2a-endpoint", noop_url, *options.split()).fnmatch_lines([f"ERROR: {option}{SAID[said]}"])


@pytest.mark.slow
def test_an_agent_that_is_none_is_refused_at_its_start(bench: Bench) -> None:
    bench.makepyfile(mine_here="make = lambda options: 5")
    bench.makeconftest("def pytest_a2a_bench_agents(): return {'mine': 'mine_here:make'}")
    bench.refused("--a2a-endpoint=builtin:mine", "a2a/card").fnmatch_lines(
        ["ERROR: *ended with exit code 2 at its start: the agent 'mine' must be made with description and reply, *is 5"]
    )
