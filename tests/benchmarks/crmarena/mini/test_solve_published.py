"""The solver on upstream's own rows and questions, where they are at hand: they are no part of the project."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest
from mini_org.solve.task import AgentTask
from mini_org.time_windows import TimeWindow, parse_window
from mini_orgs import published, solve

from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg
from pytest_a2a_bench.benchmarks.crmarena.org.schema import standard_schema

# When the rows are complete; closed cases a little longer than open ones.
COMPLETE = (TimeWindow(date(2021, 7, 1), date(2022, 10, 27)), TimeWindow(date(2023, 5, 2), date(2023, 9, 3)))
CLOSED_COMPLETE = (TimeWindow(date(2021, 4, 26), date(2022, 10, 27)), COMPLETE[1])
# A transfer whose first owner is not in the rows: what depends on it cannot be told from them.
UNKNOWN_OWNER = "005UNKNOWN000000AAA"

PERIODS = {
    "handle_time": COMPLETE,
    "transfer_count": COMPLETE,
    "best_region_identification": CLOSED_COMPLETE,
}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalOrg]:
    source = published("b2b_partial.db")
    path = Path(tmp_path_factory.mktemp("org")) / "copy.db"
    path.write_bytes(source.read_bytes())
    org = LocalOrg(path, standard_schema(), name="b2b, in part")
    yield org
    org.close()


def _covered() -> list[tuple[str, AgentTask, str]]:
    tasks = json.loads(published("b2b_tasks.json").read_text())
    found = []
    for row in tasks:
        if row["task"] in PERIODS:
            task = AgentTask(row["query"], row["metadata"]["required"])
            window = parse_window(task.query, task.today)
            assert window, task.query
            if any(period.start <= window.start and window.end <= period.end for period in PERIODS[row["task"]]):
                found.append((row["task"], task, row["answer"][0] or "None"))
    return found


def test_the_golds_whose_periods_are_covered_are_found(local: LocalOrg) -> None:
    right: Counter[str] = Counter()
    unknown = 0
    for category, task, gold in _covered():
        answer = solve(task, local.run)
        if answer == UNKNOWN_OWNER:
            unknown += 1
            continue
        assert answer == gold, task.query
        right[category] += 1
    assert right == {"handle_time": 25, "best_region_identification": 36, "transfer_count": 36}
    assert unknown == 2


def test_every_published_period_is_understood() -> None:
    """Read the periods of all questions that have one: none is missed, none is longer than a year and a half."""
    tasks = json.loads(published("b2b_tasks.json").read_text())
    counting = {
        *PERIODS,
        "top_issue_identification",
        "monthly_trend_analysis",
        "sales_amount_understanding",
        "sales_cycle_understanding",
        "conversion_rate_comprehension",
    }
    lengths: Counter[int] = Counter()
    for row in tasks:
        if row["task"] in counting:
            task = AgentTask(row["query"], row["metadata"]["required"])
            window = parse_window(task.query, task.today)
            assert window, task.query
            assert timedelta(days=7) <= window.end - window.start <= timedelta(days=550), task.query
            lengths[(window.end - window.start).days // 31] += 1
    assert lengths.total() == 800
