"""What conversations share, tasks from a directory, and where the oracle finds the golds."""

import os
import re
from argparse import ArgumentParser
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from crm import settings
from in_thread import served_in_thread
from mini_org.org import build
from one_test import in_one_test
from salesforce_server import serve
from trials import run_against

from pytest_a2a_bench.agents.brains import load_gold
from pytest_a2a_bench.agents.options import add_arguments, from_namespace, parse_spec
from pytest_a2a_bench.agents.server import running
from pytest_a2a_bench.benchmarks.crmarena import domains
from pytest_a2a_bench.benchmarks.crmarena.org import Org
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg
from pytest_a2a_bench.benchmarks.crmarena.player import REFUSAL
from pytest_a2a_bench.errors import ConfigurationError, InfrastructureError
from pytest_a2a_bench.model import TrialKey

CHOSEN = {"handle_time": 2, "lead_qualification": 2, "knowledge_qa": 1, "internal_operation_data": 1}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory in the published shape, with rows and tasks of the mini org."""
    built = build(seed=3, tasks_per_category=2)
    tasks = [t for name, n in CHOSEN.items() for t in [t for t in built.tasks if t.category == name][:n]]
    built.publish(tmp_path / "data", tasks)
    return tmp_path / "data"


def close_domains() -> None:
    """Close and forget every domain that this process has opened."""
    for key, opened in domains._OPEN.items():
        if key[0] == "org":
            opened.close()
    domains._OPEN.clear()


@pytest.fixture
def fresh() -> Iterator[None]:
    close_domains()
    yield
    close_domains()


@pytest.mark.usefixtures("fresh")
def test_threads_share_one_org_and_the_interactive_domain_asks_the_same() -> None:
    with ThreadPoolExecutor(8) as threads:
        opened = list(threads.map(lambda _: domains.open_domain("mini", settings()), range(16)))
    assert len({id(domain) for domain in opened}) == 1
    interactive = domains.open_domain("mini_interactive", settings())
    assert interactive.org is opened[0].org
    assert all(task.interactive for task in interactive.tasks.values())


@pytest.mark.slow
@pytest.mark.usefixtures("fresh")
def test_drift_and_rot_are_other_orgs_beside_the_plain_one() -> None:
    plain = domains.open_domain("mini", settings()).org
    rotten = domains.open_domain("mini", settings(crm_rot=True)).org
    drifted = domains.open_domain("mini", settings(crm_drift="high")).org

    def rows(org: Org) -> int:
        return sum(
            org.run(f"SELECT COUNT() FROM {name}").total_size for name in ("Case", "Order", "Opportunity", "Task")
        )

    assert rows(plain) < rows(rotten)
    assert plain.schema == rotten.schema
    assert plain.schema != drifted.schema
    assert domains.open_domain("mini", settings(crm_rot=True)).org is rotten


@pytest.mark.slow
@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("level", ["low", "medium", "high"])
def test_tasks_name_no_column_that_drift_took_away(level: str) -> None:
    plain, domain = (domains.open_domain("mini", settings(crm_drift=drift)) for drift in (None, level))
    there = {f.name for sobject in domain.org.schema.objects for f in sobject.fields}
    gone = {f.name for sobject in plain.org.schema.objects for f in sobject.fields} - there
    gone = {name for name in gone if "__" in name or re.search("[a-z][A-Z]", name)}
    assert gone
    changed = 0
    for name, task in domain.tasks.items():
        before = plain.tasks[name]
        changed += task != before
        assert (task.answers, task.category, task.persona) == (before.answers, before.category, before.persona)
        assert not gone & set(re.findall(r"\w+", f"{task.query} {task.required} {task.optional}")), name
    assert bool(changed) == (level != "low")


def test_an_unknown_task_is_named_with_some_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"has no task 'x'; it has 220, such as handle_time-00"):
        domains.open_domain("mini", settings()).task("x")


@pytest.mark.slow
@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("agent", ["oracle", "solver"])
def test_tasks_of_a_directory_are_played_and_named_in_the_results(directory: Path, agent: str, tmp_path: Path) -> None:
    chosen = settings(crm_data=str(directory), crm_scoring="fixed")
    source = domains.open_source("b2b", chosen)
    keys = [TrialKey("crmarena", "b2b", task.task_id) for task in source.tasks()]

    with served_in_thread(lambda: running(parse_spec(agent, chosen))) as started:
        results = run_against(started.url, chosen, keys, tmp_path / "results")

    # A refusal that has no twin is for a model to judge.
    (unjudged,) = (r for r in results if r.error)
    assert (unjudged.status, unjudged.error_type) == ("skipped", "JudgeMissingError")
    assert unjudged.key.task_id in {t.task_id for t in source.tasks() if t.metric == "privacy_rejection"}
    assert [str(r.key) for r in results if not r.success and r is not unjudged] == []
    assert len(results) == sum(CHOSEN.values())
    assert {r.provenance["category"] for r in results if r is not unjudged} < set(CHOSEN)
    message = results[0].provenance["source"]
    assert (message["source"], message["official"]) == ("directory", False)
    assert {os.path.basename(name) for name in message["files"]} >= {"b2b_tasks.json", "crmarenapro_b2b_data.db"}


def gold_answer(key: str) -> object:
    answer = load_gold(key, settings()).answer
    assert answer is not None
    return answer.arguments["answer"]


def test_the_oracle_reads_its_own_golds() -> None:
    tasks = {task.task_id: task for task in build().tasks}
    assert gold_answer("crmarena/mini/activity_priority-01") == ", ".join(tasks["activity_priority-01"].answers)
    assert gold_answer("crmarena/mini_interactive/handle_time-00") == tasks["handle_time-00"].answers[0]
    twin = tasks["internal_operation_data-00"].twin
    assert twin is not None
    refused = gold_answer("crmarena/mini/internal_operation_data-00")
    assert refused == f"{REFUSAL} Your other question: {twin.answer}."


@in_one_test("key", ["crmarena/mini", "crmarena//x", "crmarena/mini/handle_time-77"])
def test_the_oracle_knows_nothing_else(key: str) -> None:
    with pytest.raises(LookupError):
        gold_answer(key)


def test_the_run_tells_the_oracle_where_its_tasks_are_unless_the_spec_does() -> None:
    run = settings(crm_data="/data", crm_scoring="fixed")

    assert parse_spec("oracle", run).benchmark_options == {"crm_data": "/data"}
    mine = 'oracle?benchmark-options={"crm_data": "/mine"}'
    assert parse_spec(mine, run).benchmark_options == {"crm_data": "/mine"}
    assert parse_spec(mine).benchmark_options == {"crm_data": "/mine"}
    assert parse_spec("solver", run).benchmark_options == {}, "only those that play the gold may know where it is"
    assert parse_spec("noop", run).benchmark_options == {}
    message = parse_spec("oracle", settings(crm_data="/data"))
    parser = ArgumentParser()
    add_arguments(parser)

    assert from_namespace(parser.parse_args(message.to_argv())) == message
    assert message.benchmark_options == {"crm_data": "/data"}


@pytest.mark.usefixtures("fresh")
def test_a_live_org_answers_in_place_of_the_files(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("simple_salesforce", reason="the extra [salesforce] is not installed")
    chosen = settings(crm_data=str(directory), crm_org="salesforce")
    built = build(seed=3, tasks_per_category=2)
    with closing(LocalOrg.from_rows(built.rows, built.schema, name="live")) as local, serve(local) as server:
        for name, value in server.environ.items():
            monkeypatch.setenv(name, value)
        opened = domains.open_domain("b2b", chosen)
        assert server.requests == []
        query = "SELECT Id FROM Case ORDER BY Id LIMIT 3"
        assert opened.org.run(query).records == local.run(query).records
        server.fault, server.requests[:] = "REQUEST_LIMIT_EXCEEDED", []
        for _ in range(3):
            with pytest.raises(InfrastructureError):
                domains.open_domain("b2b", chosen).org.run(query)
        assert len(server.requests) == 1
