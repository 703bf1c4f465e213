"""CRMArena in pytest: which items there are, what they are called, and what chooses them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from harness import Bench, ids

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.crmarena import DOMAINS as CRM_DOMAINS
from pytest_a2a_bench.benchmarks.crmarena.tasks import CATEGORIES

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


def test_a_dialect_of_an_org_takes_no_other_tasks_and_the_mini_org_needs_no_rows_of_others(
    oracle: Bench, data: Path
) -> None:
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
