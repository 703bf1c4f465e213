"""CRMArena in pytest: which items there are, what chooses them, and what is reported of them."""

import contextlib
import dataclasses
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from commands import command
from harness import Bench, counts, ids, junit_cases, junit_properties, verdict_of
from mini_org.org import build
from salesforce_server import PASSWORD, REDIRECTING, TOKEN, serve

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.crmarena import DOMAINS as CRM_DOMAINS
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg
from pytest_a2a_bench.benchmarks.crmarena.tasks import CATEGORIES
from pytest_a2a_bench.model import Reward, TrialKey, TrialResult
from pytest_a2a_bench.reports import summary
from pytest_a2a_bench.results.stats import summarise

ORACLE = ("--a2a-endpoint", "builtin:oracle")
MINI = len(CATEGORIES) * 10


def task(number: int, category: str) -> dict[str, Any]:
    return {
        "idx": number,
        "answer": [None],
        "task": category,
        "persona": "",
        "metadata": {"required": "Today is Monday.", "optional": ""},
        "reward_metric": CATEGORIES[category].metric,
        "query": "Which one?",
    }


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with four b2b tasks of our own, one of them without an answer to look up."""
    categories = ("handle_time", "handle_time", "knowledge_qa", "lead_routing")
    tasks = [task(number, category) for number, category in enumerate(categories)]
    (tmp_path / "b2b_tasks.json").write_text(json.dumps(tasks))
    (tmp_path / "b2b_interactive_tasks.json").write_text(json.dumps(tasks[:1]))
    return tmp_path


def test_the_registry_knows_the_categories_without_the_benchmark() -> None:
    assert tuple(CATEGORIES) == registry.load("crmarena").categories
    assert registry.load("crmarena").domains == CRM_DOMAINS


@pytest.mark.slow
def test_other_expressions_do_not_even_collect_it(bench: Bench) -> None:
    result = bench("--co", "-q", *ORACLE, "-k", "airline")
    result.stdout.fnmatch_lines(["50/287 tests collected (237 deselected)*"])
    result = bench("--co", *ORACLE, "-k", "original")
    result.stdout.fnmatch_lines(["a2a: original is data of CRMArena's, *--a2a-crm-data DIR*"])
    assert result.ret == 5


@pytest.mark.slow
def test_published_domains_join_where_their_data_is(bench: Bench, data: Path) -> None:
    given = ("--a2a-crm-data", str(data))
    assert ids(bench("--co", "-q", *ORACLE, *given, "-k", "crmarena")) == [
        f"a2a/crmarena_b2b::test_b2b[{name}-t0]" for name in ("0000", "0001", "0002", "0003")
    ]
    assert len(ids(bench("--co", "-q", *ORACLE, *given, "-k", "interactive and b2b"))) == 1
    assert len(ids(bench("--co", "-q", *given, "--a2a-suite", "b2b,b2b_interactive"))) == 5
    assert len(ids(bench("--co", "-q", *given, "a2a/crmarena_b2b::test_b2b[0002-t0]"))) == 1


def test_a_live_org_without_a_login_is_one_usage_error(
    bench: Bench, noop_url: str, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("SALESFORCE_")]:
        monkeypatch.delenv(name)
    given = ("--a2a-crm-data", str(data), "--a2a-set", "crm-org=salesforce", "-k", "b2b")
    result = bench.refused("--a2a-endpoint", noop_url, *given)
    result.fnmatch_lines(["*a Salesforce org needs credentials in the environment: *; none of them is set"])
    assert len(result.str().strip().splitlines()) == 1
    assert len(ids(bench("--co", "-q", "--a2a-endpoint", noop_url, *given))) == 4


def test_an_orgs_dialect_takes_no_other_tasks_and_the_mini_org_needs_no_others_rows(oracle: Bench, data: Path) -> None:
    result = oracle.refused("-k", "airline or handle_time", "--a2a-dialect=crm_action")
    (problem,) = [line for line in result.lines if line]
    assert re.fullmatch(
        r"ERROR: a2a/airline::test_airline\[\S+\] and 49 more: --a2a-dialect=crm_action can say nothing but .*; "
        "choose auto, tool_call, tool_list, agentbeats, sierra or data",
        problem,
    )
    given = ("--a2a-dialect=crm_action", "--a2a-crm-data", str(data))
    assert oracle("-k", "crmarena_mini and handle_time-00 and not interactive", *given).ret == 0


MARKED = """
import pytest

@pytest.mark.crmarena("mini", category="handle_time")
def test_one(trial): pass

@pytest.mark.crmarena("mini", category=["*_routing", "invalid_config"], tasks="*-0[0-4]", label="some")
def test_several(trial): pass

@pytest.mark.crmarena("mini_interactive", category="knowledge_qa")
def test_asked(trial): pass

@pytest.mark.crmarena("mini_interactive", category="lead_routing", trials=2)
def test_named(trial): pass
"""


def test_markers_choose_categories_and_who_asks(bench: Bench) -> None:
    bench.makepyfile(test_it=MARKED)
    found = [line.partition("::")[2].partition("[")[0] for line in ids(bench("--co", "-q", "--strict-markers"))]
    assert {name: found.count(name) for name in dict.fromkeys(found)} == {
        "test_one": 10,
        "test_several": 15,
        "test_asked": 10,
        "test_named": 20,
    }
    assert len(ids(bench("--co", "-q", "-m", "mini_interactive and knowledge_qa"))) == 10


@pytest.mark.slow
def test_collecting_builds_and_opens_nothing(bench: Bench) -> None:
    bench.makeconftest(
        """
        import sys
        HEAVY = ("tau2", "a2a", "litellm", "httpx", "sqlite3", "pyarrow", "simple_salesforce")
        def pytest_collection_finish(session):
            loaded = [m for m in HEAVY if m in sys.modules]
            print("HEAVY", loaded, len(session.items))
        """
    )
    bench.apart("--co", "-q", "-s", "--a2a-suite", "mini").stdout.fnmatch_lines([f"HEAVY [[][]] {MINI}"])


SOLVER = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[2] / "tools")!r})


def pytest_a2a_bench_agents():
    return {{"solver": "mini_org.agent:make"}}


"""


def test_leaks_and_refusals_are_gates(bench: Bench, oracle: Bench, noop_url: str) -> None:
    items = [f"private_customer_information-0{n}" for n in (0, 1)]
    gates = ("--a2a-set=max-metric=leak=0!,over_refusal=0.5", "--a2a-min-pass=private_customer_information=0.9")
    chosen = ("-k", f"crmarena_mini and ({' or '.join(items)})", *gates)
    good = oracle(*chosen, "--junitxml=j.xml")
    assert (good.ret, counts(good)["passed"]) == (0, 5)
    good.stdout.fnmatch_lines(["*max_metric[[]leak[]]*pass*", "*max_metric[[]over_refusal[]]*pass*"])
    case = junit_cases(bench.path / "j.xml")["test_mini[private_customer_information-00-t0]"]
    found = {name: float(value) for name, value in junit_properties(case).items() if "metric." in name}
    assert found == {"a2a.metric.kept": 1.0, "a2a.metric.leak": 0.0, "a2a.metric.over_refusal": 0.0}
    # Who has nothing to say leaks nothing, and is of no use.
    mute = bench("--a2a-endpoint", noop_url, "--a2a-dialect=crm_entropic", *chosen)
    assert mute.ret == 1
    message = {gate["name"]: (gate["verdict"], gate["tier"]) for gate in verdict_of(bench)["gates"]}
    assert message["max_metric[leak]"] == ("pass", "critical")
    assert message["max_metric[over_refusal]"] == ("failed", "supporting")
    command("gate", "a2a-results", "--min-pass=0", "--max-metric", "leak=0")
    command("gate", "a2a-results", "--min-pass=0", "--max-metric", "over_refusal=0.05", code=1)


def result_of(domain: str, task_id: str, reward: float, **provenance: object) -> TrialResult:
    return TrialResult(
        TrialKey("crmarena", domain, task_id),
        "evaluated",
        reward_info=Reward(reward),
        category=task_id.rpartition("-")[0],
        provenance=provenance,
    )


def test_changed_results_domains_and_errors_are_never_averaged_with_plain_ones() -> None:
    results = [
        result_of("mini", "lead_routing-00", 1.0),
        result_of("mini", "lead_routing-01", 0.0, drift="high", variant="drift high"),
        result_of("mini", "lead_routing-02", 0.0, rot=9, variant="rot 9"),
    ]
    found = {s.variant: s.mean_reward for s in summarise(results, registry.variant_of)}
    assert found == {"": 1.0, "drift high": 0.0, "rot 9": 0.0}
    assert "crmarena/mini (drift high)" in "\n".join(summary.category_lines(results))
    results = [result_of("mini", "handle_time-00", 1.0), result_of("b2b", "handle_time-00", 0.0)]
    lines = summary.category_lines(results)
    assert [lines[0], lines[3]] == ["crmarena/b2b", "crmarena/mini"]
    assert max(map(len, lines)) < 80
    lost = dataclasses.replace(
        result_of("mini", "handle_time-01", 0.0), status="infrastructure_error", reward_info=None
    )
    lines = summary.category_lines([result_of("mini", "handle_time-00", 1.0), lost])
    assert lines[0].split()[:6] == ["category", "trials", "not", "evaluated", "passed", "reward"]
    assert lines[1].split()[:5] == ["handle_time", "2", "1", "1", "1.000"]


@pytest.mark.slow
def test_each_worker_logs_in_and_keeps_its_secrets(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("simple_salesforce", reason="the extra [salesforce] is not installed")
    # In the official shape; a Salesforce server has the org in the place of the directory.
    mini = build()
    mini.publish(tmp_path, [task for task in mini.tasks if task.category in ("handle_time", "transfer_count")])
    (tmp_path / "crmarenapro_b2b_data.db").unlink()
    org = LocalOrg.from_rows(mini.rows, mini.schema, name="mini", today=mini.today)
    bench.makeconftest(SOLVER + REDIRECTING)
    solver = ("--a2a-endpoint", "builtin:solver", "-k", "b2b and (handle_time or transfer_count)")
    data = ("--a2a-crm-data", str(tmp_path))
    with contextlib.closing(org), serve(org) as server:
        for name, value in {"USERNAME": "ann", "PASSWORD": PASSWORD, "SECURITY_TOKEN": TOKEN}.items():
            monkeypatch.setenv(f"SALESFORCE_{name}", value)
        monkeypatch.setenv("SALESFORCE_TEST_SERVER", server.url)
        result = bench(*solver, "-n2", "--a2a-set=crm-org=salesforce", *data)
        assert counts(result) == {"passed": 20}
        assert len([line for line in server.requests if "/query/ SELECT" in line]) >= 20
        assert 1 <= server.logins <= 2
        assert server.attempts == server.logins
    assert "of the 15,000 requests that it allows in 24 hours" in result.stdout.str()
    written = "".join(path.read_text() for path in bench.path.rglob("*.json"))
    assert "SELECT" in written
    assert not any(secret in written + result.stdout.str() for secret in (PASSWORD, "session-1", "session-2"))
