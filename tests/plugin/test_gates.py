"""Gates in whole pytest runs: misses, exit status, synthetic test cases, the table and the file."""

import json
from pathlib import Path

import pytest
from commands import command, refused
from harness import EXPECTED_TO_FAIL, Bench, junit_cases, kinds, log_of, verdict_of

DESK_TASKS = " ".join(["ok-" + c for c in "abcdefg"] + ["bad-" + c for c in "hij"])


def assert_says(result: pytest.RunResult, *texts: str) -> None:
    """Look for texts in the output, wherever its lines are broken."""
    said = " ".join((result.stdout.str() + result.stderr.str()).split())
    for text in texts:
        assert text in said


def test_a_floor_that_is_kept_passes_with_misses_that_missed_runs_again(desk: Bench) -> None:
    result = desk("--a2a-min-pass=0.6", "--junitxml=j.xml")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*a2a verdict: pass*",
            "gate * verdict * why",
            "min_pass * pass * 7 of 10 trials succeeded, 0.700; the minimum is 0.* (95 % interval 0.397 to 0.892)*",
            "missed (3; --a2a-missed runs these again):",
            "  desk/front: bad-h 0/1, bad-i 0/1, bad-j 0/1",
            "*8 passed,*3 missed in *",
        ]
    )
    found = kinds(desk.path / "j.xml")
    assert found["min_pass"] == []
    assert found["test_desk[bad-h-t0]"] == ["skipped"]
    skipped = junit_cases(desk.path / "j.xml")["test_desk[bad-h-t0]"].find("skipped")
    assert skipped is not None
    assert skipped.attrib["type"] == "pytest.xfail"
    assert skipped.attrib["message"].startswith("missed: reward 0 = DB 0")
    assert junit_cases(desk.path / "j.xml")["min_pass"].attrib["classname"] == "a2a.gate"
    data = verdict_of(desk)
    assert (data["verdict"], data["failed"], data["trials"]["missed"]) == ("pass", False, 3)
    assert [m["key"] for m in data["missed"]] == [f"desk/front/bad-{c}#0" for c in "hij"]
    for missed in data["missed"]:
        # Seen from the verdict, wherever the directory is taken to.
        assert missed["transcript"].startswith("trials/")
        assert json.loads((desk.path / "a2a-results" / missed["transcript"]).read_text())["key"] == missed["key"]
    (desk.path / "log.txt").unlink()
    desk.makepyfile(test_other="def test_other(): pass")
    result = desk("--a2a-min-pass=0.6", "--a2a-missed")
    assert result.ret == 1
    assert sorted(log_of(desk)) == ["bad-h", "bad-i", "bad-j"]
    result.stdout.fnmatch_lines(
        ["not judged, because only trials that were named ran: min_pass", "FAILED*bad-h*reward 0*", "*3 failed*"]
    )
    assert len(verdict_of(desk)["missed"]) == 3
    # A later gate would take the misses for all that the agent can do.
    promote = ("gate", "a2a-results", "--write-baseline", "b.json")
    assert "trials were named one by one" in refused(*promote)
    assert "3 tasks, 0 of 3 trials" in command(*promote, "--allow-incomplete").out


def test_a_floor_that_is_not_kept_is_exactly_one_failure(desk: Bench) -> None:
    pytest.importorskip("pytest_jsonreport")
    json_report = ("-ppytest_metadata.plugin", "-ppytest_jsonreport.plugin", "--json-report")
    result = desk("--a2a-min-pass=0.85", "--junitxml=j.xml", *json_report)
    assert result.ret == 1
    outlook = "a2a: the floor 0.85 is judged as measured; 10 trials could not prove it, even if all succeed"
    assert result.stdout.str().count(outlook) == 1
    result.stdout.fnmatch_lines(
        [
            "*below the floor: 7 of 10 trials succeeded, 0.700; the minimum is 0.85*",
            "*a2a verdict: failed*",
            "FAILED a2a/gate::min_pass*",
            "*1 failed, 7 passed,*3 missed in *",
        ]
    )
    found = kinds(desk.path / "j.xml")
    assert [name for name, tags in found.items() if tags not in ([], ["skipped"])] == ["min_pass"]
    report = json.loads((desk.path / ".report.json").read_text())
    assert report["exitcode"] == 1
    assert [t["nodeid"] for t in report["tests"] if t["outcome"] == "failed"] == ["a2a/gate::min_pass"]
    assert report["summary"]["failed"] == 1
    message = [("a2a.gate", "min_pass"), ("a2a.verdict", "failed")]
    properties = junit_cases(desk.path / "j.xml")["min_pass"].iter("property")
    assert [(p.attrib["name"], p.attrib["value"]) for p in properties] == message
    [listed] = [t["user_properties"] for t in report["tests"] if t["nodeid"] == "a2a/gate::min_pass"]
    assert listed == [{name: value} for name, value in message]
    cache = desk.path / ".pytest_cache" / "v" / "cache" / "lastfailed"
    assert not cache.exists() or "a2a/gate" not in cache.read_text()


BODIES = (
    ("assert trial.success", "MISSED (missed: reward 0"),
    ("assert (\n        trial.success is True\n    )", "MISSED"),
    ("check(trial)", "MISSED"),
    ("assert trial.turns < 1", "FAILED"),
    ("assert trial.reward == 1", "FAILED"),
    ("assert trial.success and trial.turns < 1", "FAILED"),
    ("raise ValueError('mine')", "FAILED"),
    ("other = types.SimpleNamespace(success=False)\n    assert other.success", "FAILED"),
)


def test_only_the_plain_assertion_is_a_miss(desk: Bench) -> None:
    source = "import types\nimport pytest\ndef check(result):\n    assert result.success, 'with a message'\n"
    for number, (body, _) in enumerate(BODIES):
        source += (
            f"@pytest.mark.desk('front', tasks='bad-h', label='{number}')\ndef test_{number}(trial):\n    {body}\n"
        )
    source += "@pytest.mark.desk('front', tasks='ok-*')\ndef test_good(trial):\n    assert trial.success\n"
    desk.makepyfile(test_desk=source)
    result = desk("--a2a-min-pass=0.1", "-v")
    assert result.ret == 1
    ends = [f"*::test_{number}* {end}*" for number, (_, end) in enumerate(BODIES)]
    result.stdout.fnmatch_lines([*ends, "a2a/gate::min_pass PASSED*"])


@pytest.mark.slow
def test_a_miss_whose_group_is_known_to_its_worker_alone_is_not_lost(desk: Bench) -> None:
    module = desk.path / "desk.py"
    text = module.read_text().replace('"benchmark": "desk 1"', '"benchmark": "desk 1", "category": "keys"')
    module.write_text(text.replace('name="desk",', 'name="desk", categories=("keys",),'))
    result = desk("--a2a-min-pass=keys=0.6")
    assert result.ret == 0
    assert_says(result, "min_pass[keys] pass 7 of 10 trials succeeded")
    desk.add_to_conftest("""
def pytest_runtest_teardown(item):
    for file in item.config.rootpath.glob("a2a-results/trials/*.json"):
        file.unlink()
""")
    result = desk("--a2a-min-pass=keys=0.6")
    assert result.ret == 1
    assert_says(result, "FAILED a2a/gate::every_trial", "failed: 7 of 10 trials passed; each of them must")


@pytest.mark.parametrize("floor", [(), ("--a2a-min-pass=0.1",)])
def test_trials_that_a_plugin_takes_away_let_no_run_pass(desk: Bench, floor: tuple[str, ...]) -> None:
    desk.add_to_conftest("""
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    return True if "-t0" in item.nodeid else None
""")
    result = desk(*floor)
    assert result.ret == 1
    assert_says(result, "FAILED a2a/gate::errors", "of the selection did not run, and no report says so (a plugin?)")
    assert verdict_of(desk)["verdict"] != "pass"


def test_stopping_at_the_first_failure_does_not_stop_at_a_miss(desk: Bench) -> None:
    desk.tasks("bad-a bad-b ok-a ok-b ok-c ok-d ok-e ok-f")
    result = desk("-x", "--a2a-min-pass=0.6")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*7 passed,*2 missed*"])
    desk.tasks("bad-a down ok-a ok-b ok-c ok-d ok-e ok-f")
    result = desk("-x", "--a2a-min-pass=0.1")
    assert result.ret == 1
    assert_says(
        result,
        "inconclusive: the run was cut short; so far: 0 of 2 trials succeeded",
        "1 could not be evaluated and counts as not succeeded",
    )


def test_a_run_that_was_cut_short_passes_no_gate(desk: Bench) -> None:
    desk.add_to_conftest(
        "\ndef pytest_runtest_teardown(item):\n    if 'ok-c' in item.name: item.session.shouldstop = 'lunch'\n"
    )
    result = desk("--a2a-min-pass=0.5")
    assert result.ret == 2
    assert_says(result, "min_pass inconclusive the run was cut short; so far: 3 of 3 trials succeeded")
    assert "there is no result of 7 trials of 10" in command("export", "html", "a2a-results").out


def test_an_expected_error_passes_nothing(desk: Bench) -> None:
    desk.tasks("ok-a ok-b ok-c ok-d ok-e ok-f down")
    desk.makepyfile(test_desk=EXPECTED_TO_FAIL)
    for gates in (["--a2a-min-pass=0.6"], []):
        result = desk(*gates, "--junitxml=j.xml")
        assert result.ret == 1
        assert_says(result, "1 trial could not be evaluated, and its test does not say so (xfail?): desk/front/down#0")
        assert [name for name, tags in kinds(desk.path / "j.xml").items() if "failure" in tags] == ["errors"]


@pytest.mark.parametrize("hidden", [False, True])
def test_a_trial_whose_other_fixture_fails_is_in_every_denominator(desk: Bench, hidden: bool) -> None:
    mark = "item.add_marker(pytest.mark.xfail)" if hidden else "pass"
    desk.tasks("ok-a ok-b ok-c")
    desk.add_to_conftest(f"""
import pytest
def pytest_itemcollected(item):
    {mark}
@pytest.fixture(autouse=True)
def database(request):
    assert "ok-a" not in request.node.name, "no database"
""")
    result = desk("--a2a-min-pass=front=0.95", "-q")
    assert result.ret == 1
    assert_says(result, "min_pass[front] below the floor 2 of 3 trials succeeded", "desk/front 3 3 2 1.000 1.000 1 ")


def test_gates_that_nothing_was_judged_for_do_not_pass(desk: Bench) -> None:
    write_baseline(desk, {"desk/front/ok-a": [1]})
    desk.add_to_conftest("\nimport pytest\ndef pytest_runtest_setup(item):\n    pytest.skip('no token')\n")
    gates = ("--a2a-min-pass=0.5", "--a2a-baseline=b.json", "--junitxml=j.xml")
    result = desk(*gates)
    assert result.ret == 1
    assert_says(result, "min_pass inconclusive nothing to judge: no trial was evaluated", "a2a verdict: inconclusive")
    assert verdict_of(desk)["verdict"] == "inconclusive"
    found = kinds(desk.path / "j.xml")
    assert [name for name, tags in found.items() if "failure" in tags] == ["min_pass", "baseline"]
    assert desk("--a2a-min-pass=0.5", "--a2a-set=inconclusive=pass").ret == 0
    result = desk()
    assert result.ret == 0
    assert "a2a verdict" not in result.stdout.str()
    assert "a2a: no trial was evaluated: these results say nothing about the agent" in result.stdout.str()


def test_missed_needs_a_run_that_missed_something_and_setup_alone_is_none(desk: Bench) -> None:
    desk.tasks("ok")
    desk("--setup-only")
    assert log_of(desk)
    assert not (desk.path / "a2a-results" / "verdict.json").exists()
    desk.refused("--a2a-missed").fnmatch_lines(
        ["ERROR: --a2a-missed: *verdict.json is not there: no run has ended in this*"]
    )
    assert desk().ret == 0
    result = desk("--a2a-missed")
    assert result.ret == 5
    result.stdout.fnmatch_lines(["a2a: the last run missed nothing, so --a2a-missed runs nothing"])


def test_last_failed_knows_errors_and_no_misses(desk: Bench) -> None:
    desk.tasks(DESK_TASKS + " down")
    desk("--a2a-min-pass=0.6")
    (desk.path / "log.txt").unlink()
    result = desk("--a2a-min-pass=0.6", "--lf")
    assert result.ret == 1
    assert log_of(desk) == ["down"]
    note = "not judged, because only trials that were named ran: min_pass"
    result.stdout.fnmatch_lines([note])
    command("gate", "a2a-results", "--min-pass=0.6", code=1)
    assert verdict_of(desk)["notes"] == [note]


def test_tiers(desk: Bench) -> None:
    desk.tasks("ok-a ok-b ok-c bad-d")
    assert desk("--a2a-min-pass=0.9?").ret == 0
    [advisory] = [g for g in verdict_of(desk)["gates"] if g["name"] == "min_pass"]
    assert (advisory["verdict"], advisory["tier"], advisory["failed"]) == ("failed", "advisory", False)
    assert verdict_of(desk)["verdict"] == "pass"
    assert desk("--a2a-min-pass=0.6,airline=0.5").ret == 0, "no trial of it"
    result = desk("--a2a-min-pass=0.6,airline=0.5!")
    assert result.ret == 1, "what is critical has to be judged"
    assert_says(result, "min_pass[airline] inconclusive (critical) not judged, because there is no trial of it")


def test_a_joined_directory_is_judged_without_a_run(desk: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in (1, 2):
        assert desk(f"--a2a-shard={i}/2", f"--a2a-results=part{i}", "--a2a-min-pass=0").ret == 0
    command("merge", "part1", "part2", "-o", "whole")
    assert "7 of 10 trials succeeded" in command("gate", "whole", "--min-pass", "0.65").out
    found = json.loads(Path("whole/verdict.json").read_text())
    assert (found["verdict"], found["trials"]["missed"], len(found["missed"])) == ("pass", 3, 3)
    assert found["agent"] == json.loads(Path("part1/verdict.json").read_text())["agent"]
    monkeypatch.setenv("A2A_MIN_PASS", "0.72")
    assert "below the floor" in command("gate", "whole", code=1).out
    command("gate", "whole", "--min-pass", "frnt=0.5", code=2)
    next((desk.path / "whole" / "trials").glob("*ok-a*")).unlink()
    command("gate", "whole", "--min-pass", "0.1", code=1)  # what is missing is an error


def test_pass_hat_k_and_ceilings_are_gated_and_inconclusive_passes_on_request(desk: Bench) -> None:
    result = desk("--a2a-min-pass-k=2=0.6,1=0.8", "--a2a-trials=2", "--a2a-max-cost=2", "--a2a-max-latency=p95=10")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "min_pass_k[[]2[]] * pass * pass^2 is 0.700 over 10 tasks; the minimum is 0.6",
            "min_pass_k[[]1[]] * below the floor * pass^1 is 0.700 over 10 tasks; the minimum is 0.8",
            "max_cost * above the ceiling * the trials cost $5.00; the maximum is $2",
            "max_latency[[]p95[]] * inconclusive * the agent answered no turn whose latency is known",
        ]
    )
    kept = ("--a2a-min-pass=0.5", "--a2a-max-cost=3", "--a2a-max-infra-errors=5%", "--a2a-max-latency=p95=10")
    result = desk(*kept, "--a2a-set=inconclusive=pass", "-rs", "--junitxml=j.xml")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*a2a verdict: inconclusive*", "SKIPPED*a2a/gate*inconclusive: the agent answered*"])
    assert [gate["verdict"] for gate in verdict_of(desk)["gates"]] == ["pass", "pass", "inconclusive", "pass"]
    assert kinds(desk.path / "j.xml")["max_latency[p95]"] == ["skipped"]


def test_quarantined_misses_fail_nothing_and_count_in_no_rate_until_the_day(desk: Bench) -> None:
    def under(tasks: str, year: int, *options: str) -> pytest.RunResult:
        values = f'task = "desk/front/{tasks}"\nreason = "the desk is being painted"\nexpires = {year}-01-31\n'
        (desk.path / "q.toml").write_text(f"[[quarantine]]\n{values}")
        return desk("--a2a-quarantine=q.toml", *options)

    result = under("bad-*", 2999)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["  desk/front: *bad-h 0/1 (quarantined until 2999-01-31: the desk is being*"])
    under("bad-*", 2999, "--a2a-min-pass=0.7").stdout.fnmatch_lines(["min_pass * pass * 7 of 7 trials *"])
    assert verdict_of(desk)["quarantined"] == [f"desk/front/bad-{c}" for c in "hij"]
    result = under("*", 2999)
    assert result.ret == pytest.ExitCode.TESTS_FAILED, "all is quarantined"
    result.stdout.fnmatch_lines(["quarantine * inconclusive * nothing to judge: 10 trials of it were skipped or are *"])
    result = under("bad-*", 2020, "--a2a-max-cost=9")
    assert result.ret == 1
    ended = "the quarantine of desk/front/bad-* ended on 2020-01-31: it counts again"
    assert ended in result.outlines
    assert ended in verdict_of(desk)["notes"]
    # The judge of merged shards says so, too.
    assert ended in command("gate", "--quarantine", "q.toml", "--min-pass", "0.1").out
    assert ended in verdict_of(desk)["notes"]


class TestBaseline:
    def test_a_regression_names_the_tasks(self, desk: Bench) -> None:
        names = [f"x{i}" for i in range(20)]
        write_baseline(desk, {f"desk/front/ok-{n}": [1] for n in names} | {"desk/front/bad-x1": [1]} | BAD)
        desk.tasks(" ".join([f"ok-{n}" for n in names] + [f"bad-x{i}" for i in range(1, 8)]))
        result = desk("--a2a-baseline=b.json", "--junitxml=j.xml")
        assert result.ret == 1
        result.stdout.fnmatch_lines(
            [
                "*a2a verdict: regressed*",
                "baseline * regressed * 1.000 before, 0.741 now over 27 tasks (0 better, 7 worse): drop +0.259, *",
                "tasks that changed:",
                "  worse   1/1 -> 0/1  desk/front/bad-x1",
                "*1 failed, 20 passed, 7 missed*",
            ]
        )
        assert_says(result, "p = 0.008; allowed is 0.05")
        assert kinds(desk.path / "j.xml")["baseline"] == ["failure"]
        assert verdict_of(desk)["comparison"]["overall"]["worse"] == 7

    def test_a_task_that_the_baseline_does_not_have_must_succeed(self, desk: Bench) -> None:
        names = [f"ok-x{i}" for i in range(20)]
        write_baseline(desk, {f"desk/front/{n}": [1] for n in names})
        desk.tasks(" ".join([*names, "bad-new"]))
        result = desk("--a2a-baseline=b.json", "--a2a-max-drop=0.5")
        assert result.ret == 1
        result.stdout.fnmatch_lines(["every_trial * failed * 0 of 1 trial passed; each of them must, *", "*1 failed*"])
        assert_says(result, "the baseline does not judge desk/front/bad-new; make a new baseline")

    def test_contradicting_options_are_refused_before_any_request(self, desk: Bench) -> None:
        write_baseline(desk, {"desk/front/ok-a": [1]}, user=["llm"], user_llm=["some/model"], tagged=["True"])
        desk.refused("--a2a-baseline=b.json").fnmatch_lines(
            ["*desk/front: user was llm and is scripted; desk/front: tagged was on and is off; run with the settings *"]
        )
        assert log_of(desk) == []


BAD = {f"desk/front/bad-x{i}": [1] for i in range(1, 8)}


def write_baseline(run: Bench, tasks: dict[str, list[int]], **measured: list[str]) -> None:
    values = {"benchmark": ["desk 1"], "dialect": ["tool_call"], "user": ["scripted"], "evaluation_type": ["all"]}
    data = {
        "schema": "a2a-bench/baseline",
        "schema_version": 1,
        "measured": {"desk/front": {**values, **measured}},
        "tasks": {name: {"outcomes": outcomes} for name, outcomes in tasks.items()},
    }
    (run.path / "b.json").write_text(json.dumps(data))
