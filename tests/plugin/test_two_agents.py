"""Several agents in one run, as a user has it: pairs of trials, numbers of each agent's own, one verdict."""

import json
from pathlib import Path

import pytest
from commands import command
from harness import DESK, DESK_CONFTEST, DESK_TEST, Bench, junit_cases, junit_properties, verdict_of
from tau2_checkouts import make_checkout, retitled
from tau2_verification import verify_stored

from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.results.store import Store

A_KNOWN_DEFECT = DESK.replace('kind == "bad"', '(kind == "bad" or (kind == "weak" and key.agent == "b"))')


@pytest.fixture
def two(bench: Bench, noop_url: str) -> Bench:
    """Run two agents, of which ``b`` fails in tasks called weak."""
    assert A_KNOWN_DEFECT != DESK
    bench.makepyfile(desk=A_KNOWN_DEFECT)
    bench.makeconftest(DESK_CONFTEST)
    bench.makepyfile(test_desk=DESK_TEST)
    bench.tasks(" ".join(["ok-x1", "ok-x2", *(f"weak-x{n}" for n in range(1, 9))]))
    return bench.with_options("--a2a-endpoint", f"a={noop_url}", "--a2a-endpoint", f"b={noop_url}")


def test_agents_are_compared_task_by_task(two: Bench) -> None:
    result = two(
        "--junitxml=j.xml", "--a2a-html=p.html", "--a2a-markdown=m.md", "--a2a-min-pass=0.1", "--a2a-max-cost=9"
    )
    assert result.ret == 1
    # Each pair together, and each agent first as often as the other.
    started = [line.split()[1] for line in (two.path / "log.txt").read_text().splitlines() if "start" in line]
    keys = [text.removeprefix("desk/front/").replace("#0", "") for text in started]
    assert keys[:4] == ["ok-x1:a", "ok-x1:b", "ok-x2:b", "ok-x2:a"]
    assert [k.partition(":")[0] for k in keys[::2]] == [k.partition(":")[0] for k in keys[1::2]]
    assert [k[-1] for k in keys[::2]].count("a") == 5
    # What each agent did is its own.
    stored = list(Store(two.path / "a2a-results").read_all())
    assert {r.key.agent: sum(x.success for x in stored if x.key.agent == r.key.agent) for r in stored} == {
        "a": 10,
        "b": 2,
    }
    assert len({r.seed for r in stored}) == 1
    cases = junit_cases(two.path / "j.xml")
    assert junit_properties(cases["test_desk[b-weak-x1-t0]"])["a2a.agent"] == "b"
    found = verdict_of(two)
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
        assert "a is better: a 1.000, b 0.200 over 10 tasks" in (two.path / page).read_text()
    # The page from files says the same.
    command("export", "html", two.path / "a2a-results", "-o", two.path / "later.html")
    assert "a is better: a 1.000, b 0.200 over 10 tasks" in (two.path / "later.html").read_text()


@pytest.mark.slow
def test_results_are_of_an_agent_whoever_takes_them_up(two: Bench) -> None:
    two("-q")
    log = (two.path / "log.txt").read_text()
    assert (two("-q", "--a2a-resume").ret, (two.path / "log.txt").read_text()) == (1, log)
    two("-q", "--a2a-missed")
    again = (two.path / "log.txt").read_text().removeprefix(log)
    assert {line.split()[1][-2:] for line in again.splitlines()} == {":b"}
    two("-q", "--a2a-resume")
    folder, file = two.path / "a2a-results", two.path / "b.json"
    command("export", "metrics", folder, "-o", two.path / "m.json", "--agent", "b")
    message = json.loads((two.path / "m.json").read_text())
    assert {trial["agent"] for trial in message} == {"b"}
    assert len(message) == 10
    command("gate", folder, "--write-baseline", file, "--agent", "b")
    command("gate", folder, "--write-baseline", file, "--agent", "c", code=2)
    # As good as it was, which no comparison with the first one excuses.
    two("-q", f"--a2a-baseline=b={file}", "--a2a-max-drop=1", "--a2a-set=inconclusive=pass", "--a2a-resume")
    gates = {g["name"]: g for g in verdict_of(two)["gates"]}
    assert set(gates) == {"baseline:b", "compare:b"}
    assert gates["baseline:b"]["numbers"]["drop"] == 0
    refused = two.refused("-q", f"--a2a-baseline={file}").str()
    assert "does not say which agent it is of: write --a2a-baseline a=FILE" in refused


def test_a_pair_stays_in_one_shard(two: Bench) -> None:
    for part in ("1", "2"):
        two("-q", f"--a2a-shard={part}/2", f"--a2a-results=part{part}", "--a2a-set=inconclusive=pass")
    keys = [{r.key for r in Store(two.path / f"part{part}").read_all()} for part in ("1", "2")]
    assert [len({k.of_any_agent for k in part}) * 2 for part in keys] == [len(part) for part in keys]
    assert sum(map(len, keys)) == 20
    command("merge", two.path / "part1", two.path / "part2", "-o", two.path / "w")
    command("export", "html", two.path / "w", "-o", two.path / "w.html")
    assert "a is better: a 1.000, b 0.200 over 10 tasks" in (two.path / "w.html").read_text()


def test_fixtures_of_one_agent_say_that_there_are_several(two: Bench) -> None:
    two.makepyfile(test_desk="def test_card(agent_card):\n    assert agent_card")
    result = two()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*a2a_client and agent_card are of one agent, and there are several (a, b)*"])
    two.makeconftest(
        f"{DESK_CONFTEST}\nimport pytest\n@pytest.fixture(scope='session')\ndef a2a_client_config():\n    return None\n"
    )
    two.makepyfile(test_desk=DESK_TEST)
    assert "is for one agent, and the endpoints have names (a, b)" in two.refused().str()


@pytest.mark.slow
def test_a_transfer_to_a_built_in_agent(bench: Bench) -> None:
    """The oracle transfers where that is the gold; what was said then is the other's, and the reward stays."""
    agents = (
        "--a2a-endpoint=a=builtin:oracle",
        "--a2a-endpoint=b=builtin:noop",
        "--a2a-set=transfer=b",
        "--a2a-suite=mock",
    )
    result = bench.apart(*agents, "-k", "impossible_task_1")
    result.assert_outcomes(passed=1)
    assert verify_stored(bench.path / "a2a-results") == []
    result.stdout.fnmatch_lines(["b took over (transfer) 1 of 1 conversation:*turn*request*p50*"])
    (trial,) = Path(bench.path, "a2a-results", "trials").glob("*.json")
    assert {turn.get("party") for turn in json.loads(trial.read_text())["transcript"] if turn["role"] == "agent"} == {
        None,
        "b",
    }


# --a2a-tau2-data, from the command line to the summary.


ONE = "a2a/mock::test_mock[create_task_1-t0]"
ORACLE = "--a2a-endpoint=builtin:oracle"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return make_checkout(tmp_path / "checkout", retitled)


@pytest.mark.slow
def test_a_run_on_a_checkout_says_so_everywhere(bench: Bench, oracle: Bench, checkout: Path) -> None:
    first = oracle(ONE, "--a2a-results=r", "--a2a-markdown=first.md")
    first.assert_outcomes(passed=1)
    distribution = index.find_installation().distribution
    first.stdout.fnmatch_lines([f"a2a: *; tau2 data: {distribution}", "mock  *"])
    assert "data of" not in (bench.path / "first.md").read_text()

    # The built-in agent finds the golds of the same edition, and no result of another is reused.
    option = f"--a2a-tau2-data={checkout}"
    second = bench(
        ORACLE, ONE, option, "--a2a-results=r", "--a2a-resume", "--a2a-markdown=second.md", "--a2a-html=page.html"
    )
    second.assert_outcomes(passed=1)
    [stored] = (bench.path / "r" / "trials").iterdir()
    name = json.loads(stored.read_text())["provenance"]["edition"]["name"]
    second.stdout.fnmatch_lines(
        [
            f"a2a: builtin:oracle*; tau2 data: {checkout}",
            f"mock (data of {name})  *",
            f"tau2's data: {checkout} (mock: {name})",
            f"benchmark: {distribution} with data of {name}; *",
            f"run again, because what was stored is of other data (--a2a-resume): 1 of 1 trials ({distribution})",
        ]
    )
    for file in ("second.md", "page.html"):
        assert f"data of {name}" in (bench.path / file).read_text()
    assert json.loads((bench.path / "r" / "run.json").read_text())["settings"]["tau2_data"] == str(checkout)


def test_only_the_checkouts_domains_are_collected(bench: Bench, checkout: Path) -> None:
    result = bench("--co", "-q", ORACLE, "--a2a-suite=tau2", f"--a2a-tau2-data={checkout}")
    nodes = [line for line in result.outlines if "::" in line]
    assert nodes
    assert all(line.startswith("a2a/mock::") for line in nodes)
    bench.refused("--co", "-q", ORACLE, "--a2a-suite=airline", f"--a2a-tau2-data={checkout}").fnmatch_lines(
        [f"ERROR: *airline is not in tau2's data in {checkout / 'data'}; it has: mock"]
    )


# The plugin with the real benchmark: tau2's mock domain against real agents.
