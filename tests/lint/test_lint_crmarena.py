"""CRMArena's linter: the mini org is clean but for constant answers, and each defect has its own finding."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from pytest_a2a_bench.benchmarks.crmarena.lint import LINTER, _never_none
from pytest_a2a_bench.benchmarks.crmarena.mini.org import build
from pytest_a2a_bench.benchmarks.crmarena.org.ids import checksum
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE
from pytest_a2a_bench.benchmarks.lint import LintRequest
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.settings import Settings

AGENT = "005Wt00000Abcde" + checksum("005Wt00000Abcde")
ARTICLE = "ka0Wt00000Abcde" + checksum("ka0Wt00000Abcde")
CLEAN: dict[str, Any] = {
    "idx": 0,
    "answer": [AGENT],
    "task": "handle_time",
    "persona": "You are brief.",
    "metadata": {"required": "## Handle Time\nIt is counted in hours.", "optional": ""},
    "reward_metric": "exact_match",
    "query": "Who was the fastest?",
}


def write(directory: Path, *rows: Any, domain: str = "b2b", ids: tuple[str, ...] = (AGENT, ARTICLE)) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{domain}_tasks.json").write_text(json.dumps(rows))
    path = directory / "b2b_data.db"
    if ids and not path.exists():
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE User (Id TEXT, Name TEXT)")
        connection.executemany("INSERT INTO User VALUES (?, 'x')", [(i,) for i in ids])
        connection.commit()
        connection.close()
    return directory


def rules_of(directory: Path, domain: str = "b2b", **request: Any) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for finding in LINTER.lint(LintRequest(directory=directory, **request), domain).findings:
        found.setdefault(finding.task_id, set()).add(finding.rule)
    return found


def made(number: int, **changes: Any) -> dict[str, Any]:
    return {**CLEAN, "idx": number, "query": f"Who was the fastest in year {number}?", **changes}


def test_the_mini_org_has_constant_answers_and_nothing_else() -> None:
    found = LINTER.lint(LintRequest(settings=Settings(benchmark_options={"crm_tasks": 3})), "mini")
    assert found.tasks == 66
    assert found.notes == ()
    assert {f.rule for f in found.findings} == {"constant-answer-passes"}
    refusals = ("private_customer", "internal_operation", "confidential_company")
    assert sum(f.task_id.startswith(refusals) for f in found.findings) == 9


DEFECTS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "None": ({"answer": [None]}, {"constant-answer-passes"}),
    "a refusal": (
        {"task": "internal_operation_data", "reward_metric": "privacy_rejection"},
        {"constant-answer-passes"},
    ),
    "a field that is nowhere": ({"query": "Whose ResolvedDate is first?"}, {"impossible-field"}),
    "no id": ({"answer": ["Ada"]}, {"malformed-gold"}),
    "a wrong checksum": ({"answer": [AGENT[:15] + "AAA"]}, {"malformed-gold", "gold-not-in-org"}),
    "another object's id": ({"answer": [ARTICLE]}, {"malformed-gold"}),
    "no such record": ({"answer": ["005Wt00000Zzzzz" + checksum("005Wt00000Zzzzz")]}, {"gold-not-in-org"}),
    "15 characters": ({"answer": [AGENT[:15]]}, set()),
    "two factors in one": ({"task": "lead_qualification", "answer": ["Budget, Need"]}, {"malformed-gold"}),
    "no month": ({"task": "monthly_trend_analysis", "answer": ["Smarch"]}, {"malformed-gold"}),
    "a month": ({"task": "monthly_trend_analysis", "answer": ["May"]}, set()),
    "no state": ({"task": "best_region_identification", "answer": ["Texas"]}, {"malformed-gold"}),
    "no stage": ({"task": "wrong_stage_rectification", "answer": ["Lost"]}, {"malformed-gold"}),
    "another metric": ({"reward_metric": "fuzzy_match"}, {"other-metric"}),
    "the gold in the question": ({"query": f"Was {AGENT} the fastest?"}, {"echo-passes"}),
    "text in the question": (
        {"task": "knowledge_qa", "reward_metric": "fuzzy_match", "answer": ["Who was the fastest in year 7"]},
        {"echo-passes"},
    ),
    "nothing required": ({"metadata": {"required": ""}}, {"missing-field"}),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_each_defect_is_found_and_no_other(tmp_path: Path, name: str) -> None:
    changes, expected = DEFECTS[name]
    if name == "text in the question":
        changes = {**changes, "metadata": {"required": "."}}
    found = rules_of(write(tmp_path, CLEAN, made(7, **changes)))
    assert found == ({"0007": expected} if expected else {})


def test_tasks_beside_each_other(tmp_path: Path) -> None:
    same, other = made(1, query=CLEAN["query"]), made(2, query="Who?")
    found = rules_of(write(tmp_path, CLEAN, same, other, made(3, query=" Who? ", answer=[None])))
    assert found == {
        "0001": {"repeated-task"},
        "0002": {"contradicting-tasks"},
        "0003": {"contradicting-tasks", "constant-answer-passes"},
    }


def test_an_interactive_task_has_a_persona(tmp_path: Path) -> None:
    directory = write(tmp_path, made(1, persona=""), CLEAN, domain="b2b_interactive")
    assert rules_of(directory, "b2b_interactive") == {"0001": {"missing-field"}}


def test_rows_that_are_no_tasks_are_findings(tmp_path: Path) -> None:
    found = LINTER.lint(LintRequest(directory=write(tmp_path, CLEAN, 3, {**CLEAN, "task": "juggling"}, CLEAN)), "b2b")
    assert [f.rule for f in found.findings] == ["unreadable-task"] * 3
    assert found.tasks == 1


def test_what_cannot_be_looked_at_is_said(tmp_path: Path) -> None:
    directory = write(tmp_path, CLEAN, ids=())
    assert "whether golds are in the org" in LINTER.lint(LintRequest(directory=directory), "b2b").notes[0]
    (tmp_path / "b2b_data.db").write_bytes(b"SQLite format 3\0 and then nothing")
    assert "cannot be read as an SQLite database" in LINTER.lint(LintRequest(directory=directory), "b2b").notes[0]
    with pytest.raises(ConfigurationError, match="no split 'test'"):
        LINTER.lint(LintRequest(directory=directory, split="test"), "b2b")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigurationError, match="has no tasks of CRMArena's"):
        LINTER.domains(LintRequest(directory=tmp_path / "empty"))


def test_editions_are_told_apart_without_their_texts(tmp_path: Path) -> None:
    here = write(tmp_path / "a", CLEAN, made(1), made(2))
    there = write(tmp_path / "b", CLEAN, made(1, query="Secret?", answer=[None]), made(3))
    found = LINTER.lint(LintRequest(directory=here, against=there), "b2b").findings
    assert {f.task_id: f.message for f in found} == {
        "0001": "the editions differ in the question, the gold",
        "0002": "the other edition has no such task",
        "0003": "only the other edition has it",
    }


def test_no_finding_shows_a_gold(tmp_path: Path) -> None:
    rows = [made(n, **changes) for n, (changes, _) in enumerate(DEFECTS.values()) if "query" not in changes]
    for finding in LINTER.lint(LintRequest(directory=write(tmp_path, CLEAN, *rows)), "b2b").findings:
        for gold in (AGENT, ARTICLE, "Ada", "Budget, Need", "Smarch", "Texas", "None"):
            assert gold not in finding.message


def test_categories_without_none_are_told() -> None:
    tasks = [task for task in build().tasks if task.category in ("handle_time", "sales_amount_understanding")]
    assert list(_never_none(tasks)) == []
    some = [task for task in tasks if task.category != "handle_time" or task.answers != (NONE,)]
    (found,) = _never_none(some)
    assert (found.rule, found.task_id) == ("never-none", next(t.task_id for t in some if t.category == "handle_time"))
    assert list(_never_none(some[:4])) == [], "too few to tell"
