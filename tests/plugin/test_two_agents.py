"""Several agents in one run, as a user has it: pairs of trials, numbers of each agent's own, one verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from harness import DESK, DESK_CONFTEST, DESK_TEST, Bench, junit_cases, junit_properties, verdict_of
from tau2_verification import verify_stored

from pytest_a2a_bench.cli.main import main
from pytest_a2a_bench.results.store import Store

A_KNOWN_DEFECT = DESK.replace('kind == "bad"', '(kind == "bad" or (kind == "weak" and key.agent == "b"))')


@pytest.fixture
def two(pytester: pytest.Pytester, bench: Bench, noop_url: str, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Run two agents, of which ``b`` fails in tasks called weak."""
    assert A_KNOWN_DEFECT != DESK
    pytester.makepyfile(desk=A_KNOWN_DEFECT)
    pytester.makeconftest(DESK_CONFTEST)
    pytester.makepyfile(test_desk=DESK_TEST)
    monkeypatch.setenv("DESK_TASKS", " ".join(["ok-x1", "ok-x2", *(f"weak-x{n}" for n in range(1, 9))]))
    return Bench(pytester, "--a2a-endpoint", f"a={noop_url}", "--a2a-endpoint", f"b={noop_url}")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("a=URL", "URL"), "some endpoints have a name and some have none"),
        (("a=URL", "A=URL"), "two endpoints have one name (a, A)"),
        (("a=URL", "b=nowhere"), "b: 'nowhere' is not an endpoint"),
        (("URL", "--a2a-set=transfer=b"), "--a2a-set transfer=b: the endpoints have no names"),
        (("a=URL", "c=URL", "--a2a-set=transfer=b"), "--a2a-set transfer=b: the endpoints are a, c"),
        (("b=URL", "--a2a-set=transfer=b"), "there is no other agent that could transfer to it"),
        (("a=URL", "b=URL", "--a2a-set=transfer=b", "--a2a-tools=mcp"), "in the middle of its turn when it transfers"),
        (("a=URL", "b=URL", "--a2a-record=tapes"), "--a2a-record has the conversations of one agent"),
        (("a=URL", "b=URL", "--a2a-baseline=c=x"), "--a2a-baseline c=...: no agent under test is called c"),
        (("a=URL", "b=URL", "--a2a-suite=card"), "the protocol is judged on one agent"),
    ],
)
def test_what_does_not_go_together_is_one_line(
    bench: Bench, noop_url: str, options: tuple[str, ...], says: str
) -> None:
    given = [
        o.replace("URL", noop_url) if o.startswith("--") else f"--a2a-endpoint={o.replace('URL', noop_url)}"
        for o in options
    ]
    result = bench(*given, *(() if "--a2a-suite=card" in options else ("--a2a-suite=mock",)))
    assert result.ret == 4
    (line,) = [line for line in result.errlines if line.startswith("ERROR")]
    assert says in line


def test_agents_are_compared_task_by_task(pytester: pytest.Pytester, two: Bench) -> None:
    result = two(
        "--junitxml=j.xml", "--a2a-html=p.html", "--a2a-markdown=m.md", "--a2a-min-pass=0.1", "--a2a-max-cost=9"
    )
    assert result.ret == 1
    # Each pair together, and each agent first as often as the other.
    started = [line.split()[1] for line in (pytester.path / "log.txt").read_text().splitlines() if "start" in line]
    keys = [text.removeprefix("desk/front/").replace("#0", "") for text in started]
    assert keys[:4] == ["ok-x1:a", "ok-x1:b", "ok-x2:b", "ok-x2:a"]
    assert [k.partition(":")[0] for k in keys[::2]] == [k.partition(":")[0] for k in keys[1::2]]
    assert [k[-1] for k in keys[::2]].count("a") == 5
    # What each agent did is its own.
    stored = list(Store(pytester.path / "a2a-results").read_all())
    assert {r.key.agent: sum(x.success for x in stored if x.key.agent == r.key.agent) for r in stored} == {
        "a": 10,
        "b": 2,
    }
    assert len({r.seed for r in stored}) == 1
    cases = junit_cases(pytester.path / "j.xml")
    assert junit_properties(cases["test_desk[b-weak-x1-t0]"])["a2a.agent"] == "b"
    found = verdict_of(pytester)
    assert [(a["id"], a["succeeded"], a["trials"], a["input_tokens"]) for a in found["agents"]] == [
        ("a", 10, 10, 100),
        ("b", 2, 10, 100),
    ]
    assert {g["name"]: g["verdict"] for g in found["gates"]} == {
        "max_cost": "pass",
        "min_pass:a": "pass",
        "min_pass:b": "pass",
        "compare:b": "regressed",
    }
    (compared,) = found["comparisons"]
    assert (compared["better"], compared["p"]) == ("a", 2 * 2**-8)
    result.stdout.fnmatch_lines(
        ["desk/front (a) *1.000*", "desk/front (b) *0.200*", "compare:b *a is better: a 1.000, b 0.200*"]
    )
    for page in ("p.html", "m.md"):
        assert "a is better: a 1.000, b 0.200 over 10 tasks" in (pytester.path / page).read_text()
    # The page from files says the same.
    assert main(["export", "html", str(pytester.path / "a2a-results"), "-o", str(pytester.path / "later.html")]) == 0
    assert "a is better: a 1.000, b 0.200 over 10 tasks" in (pytester.path / "later.html").read_text()


@pytest.mark.slow
def test_results_are_of_an_agent_whoever_takes_them_up(pytester: pytest.Pytester, two: Bench, capsys: Any) -> None:
    two("-q")
    log = (pytester.path / "log.txt").read_text()
    result = two("-q", "--a2a-resume")
    assert (result.ret, (pytester.path / "log.txt").read_text()) == (1, log)
    two("-q", "--a2a-missed")
    again = (pytester.path / "log.txt").read_text().removeprefix(log)
    assert {line.split()[1][-2:] for line in again.splitlines()} == {":b"}
    two("-q", "--a2a-resume")
    folder, file = pytester.path / "a2a-results", pytester.path / "b.json"
    assert main(["export", "metrics", str(folder), "-o", str(pytester.path / "m.json"), "--agent", "b"]) == 0
    told = json.loads((pytester.path / "m.json").read_text())
    assert {trial["agent"] for trial in told} == {"b"}
    assert len(told) == 10
    assert main(["gate", str(folder), "--write-baseline", str(file), "--agent", "b"]) == 0
    assert main(["gate", str(folder), "--write-baseline", str(file), "--agent", "c"]) == 2
    # As good as it was, which no comparison with the first one excuses.
    two("-q", f"--a2a-baseline=b={file}", "--a2a-max-drop=1", "--a2a-set=inconclusive=pass", "--a2a-resume")
    gates = {g["name"]: g for g in verdict_of(pytester)["gates"]}
    assert set(gates) == {"baseline:b", "compare:b"}
    assert gates["baseline:b"]["numbers"]["drop"] == 0
    result = two("-q", f"--a2a-baseline={file}")
    assert result.ret == 4
    assert "does not say which agent it is of: write --a2a-baseline a=FILE" in result.stderr.str()


def test_a_pair_stays_in_one_shard(pytester: pytest.Pytester, two: Bench) -> None:
    for part in ("1", "2"):
        two("-q", f"--a2a-shard={part}/2", f"--a2a-results=part{part}", "--a2a-set=inconclusive=pass")
    keys = [{r.key for r in Store(pytester.path / f"part{part}").read_all()} for part in ("1", "2")]
    assert [len({k.of_any_agent for k in part}) * 2 for part in keys] == [len(part) for part in keys]
    assert sum(map(len, keys)) == 20
    assert (
        main(["merge", str(pytester.path / "part1"), str(pytester.path / "part2"), "-o", str(pytester.path / "w")]) == 0
    )
    assert main(["export", "html", str(pytester.path / "w"), "-o", str(pytester.path / "w.html")]) == 0
    assert "a is better: a 1.000, b 0.200 over 10 tasks" in (pytester.path / "w.html").read_text()


def test_an_agent_that_is_not_there_is_named(bench: Bench, noop_url: str) -> None:
    result = bench("--a2a-endpoint", f"a={noop_url}", "--a2a-endpoint", "b=http://127.0.0.1:1", "--a2a-suite=mock")
    assert result.ret == 4
    (line,) = [line for line in result.errlines if line.startswith("ERROR")]
    assert f"--a2a-endpoint=a={noop_url} b=http://127.0.0.1:1: b: " in line


def test_fixtures_of_one_agent_say_that_there_are_several(pytester: pytest.Pytester, two: Bench) -> None:
    pytester.makepyfile(test_desk="def test_card(agent_card):\n    assert agent_card")
    result = two()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*a2a_client and agent_card are of one agent, and there are several (a, b)*"])
    pytester.makeconftest(
        f"{DESK_CONFTEST}\nimport pytest\n@pytest.fixture(scope='session')\ndef a2a_client_config():\n    return None\n"
    )
    pytester.makepyfile(test_desk=DESK_TEST)
    result = two()
    assert result.ret == 4
    assert "is for one agent, and the endpoints have names (a, b)" in result.stderr.str()


@pytest.mark.slow
def test_a_transfer_to_a_built_in_agent(pytester: pytest.Pytester, bench: Bench) -> None:
    """The oracle transfers where that is the gold; what was said then is the other's, and the reward stays."""
    agents = (
        "--a2a-endpoint=a=builtin:oracle",
        "--a2a-endpoint=b=builtin:noop",
        "--a2a-set=transfer=b",
        "--a2a-suite=mock",
    )
    result = bench.apart(*agents, "-k", "impossible_task_1")
    result.assert_outcomes(passed=1)
    assert [v.status for v in verify_stored(pytester.path / "a2a-results")] == ["verified"]
    result.stdout.fnmatch_lines(["b took over (transfer) 1 of 1 conversation:*turn*request*p50*"])
    (trial,) = Path(pytester.path, "a2a-results", "trials").glob("*.json")
    assert {turn.get("party") for turn in json.loads(trial.read_text())["transcript"] if turn["role"] == "agent"} == {
        None,
        "b",
    }
