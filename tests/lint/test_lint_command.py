"""``a2a-bench lint``: arguments, formats, exit codes, the cache; and the rules in the documentation."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from lint_tasks import CLEAN, UPDATE, task, write_domain

from pytest_a2a_bench.benchmarks import lint_known, registry
from pytest_a2a_bench.benchmarks.lint import DomainLint, Linter, LintFinding, LintReport, LintRequest, Rule
from pytest_a2a_bench.benchmarks.lint_known import LintCache
from pytest_a2a_bench.benchmarks.tau2.lint.policy import CLAUSES, ONE_USER
from pytest_a2a_bench.cli.main import main
from pytest_a2a_bench.model import TrialKey
from pytest_a2a_bench.reports import lint
from pytest_a2a_bench.settings import Settings

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "pytest-a2a-bench" / "lint"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with a clean task, a warning and a note."""
    alone = task("alone", actions=[{**UPDATE, "requestor": "user"}], scenario="###STOP###", reward_basis=["ACTION"])
    alone["user_scenario"]["instructions"]["domain"] = "sailing"
    return write_domain(tmp_path / "data" / "sailing", [{**CLEAN, "id": "fine"}, alone]).parent


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str]:
    code = main(["lint", *map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_text_names_rules_tasks_and_numbers(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run(capsys, data)
    assert code == 0
    assert "warning stop-token-in-scenario: 1 task\n" in said
    assert "  sailing/alone: the only gold action is the user's\n" in said
    assert "not looked at: sailing: its golds are not replayed" in said
    assert said.endswith("0 errors, 1 warning, 1 note in 1 of 2 tasks\n")


@pytest.mark.parametrize(("limit", "expected"), [("error", 0), ("warning", 1), ("note", 1), ("never", 0)])
def test_the_exit_code_is_chosen(data: Path, capsys: pytest.CaptureFixture[str], limit: str, expected: int) -> None:
    assert run(capsys, data, "--fail-on", limit)[0] == expected


def test_rules_are_chosen(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "0 errors, 0 warnings, 1 note" in run(capsys, data, "--rule", "user-only-gold")[1]
    assert "0 errors, 1 warning, 0 notes" in run(capsys, data, "--ignore", "user-only-gold")[1]
    assert "user-only-gold (note): Every gold action" in run(capsys, data, "--list-rules")[1]


def test_json_and_sarif(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, data, "--format", "json")[1])
    assert found["counts"]["user-only-gold"] == {"sailing": {"tasks": 1, "findings": 1}}
    assert {f["rule"]: f["severity"] for f in found["findings"]} == {
        "stop-token-in-scenario": "warning",
        "user-only-gold": "note",
    }
    target = tmp_path / "lint.sarif"
    assert run(capsys, data, "--format", "sarif", "-o", target) == (0, "")
    [sarif] = json.loads(target.read_text())["runs"]
    rules = sarif["tool"]["driver"]["rules"]
    first = sarif["results"][0]
    assert rules[first["ruleIndex"]]["id"] == first["ruleId"] == "stop-token-in-scenario"
    [place] = first["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"].endswith("sailing/tasks.json")
    assert place["logicalLocations"][0]["fullyQualifiedName"] == "tau2/sailing/alone/1/user_scenario"
    assert not sarif["invocations"][0]["executionSuccessful"], "golds were not replayed"
    Draft202012Validator({"required": ["ruleId", "level", "message", "partialFingerprints"]}).validate(first)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("nowhere",), "nowhere is neither a benchmark that can be linted (tau2, crmarena) nor a directory"),
        (("EMPTY",), "holds no data of a kind that can be linted"),
        (("DATA", "--rule", "none", "--ignore", "such"), "there is no rule none, such; there are: contradicts-policy"),
        (("DATA", "--rule", "short-text", "--ignore", "short-text"), "leave no rule"),
        (("DATA", "--domain", "airline"), "there is no domain airline; there are: sailing"),
        (("DATA", "--against", "nowhere"), "--against: nowhere is no directory"),
        (("DATA", "--split", "test"), "no split 'test'"),
        (("crmarena", "--crm-tasks", "0"), "--crm-tasks: '0' is not a whole number"),
        (("DATA", "-o", "EMPTY"), "cannot be written"),
    ],
)
def test_what_is_wrong_is_one_line(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], expected: str
) -> None:
    places = {"DATA": str(data), "EMPTY": str(tmp_path / "empty")}
    (tmp_path / "empty").mkdir()
    code, said = run(capsys, *(places.get(a, a) for a in arguments))
    assert code == 2
    assert expected in said
    assert said.startswith("a2a-bench: ")
    assert said.count("\n") == 1


# --- the cache --------------------------------------------------------------------------------------------------------

RULE = Rule("broken", "error", "It is broken.", "Do not use it.")
SECRET = Rule("gold-is-seven", "note", "It is seven.", "Say seven.", tells=True)


def counting(calls: list[str], digest: str = "d", notes: tuple[str, ...] = ()) -> Linter:
    def look(request: LintRequest, domain: str) -> DomainLint:
        calls.append(domain)
        found = (LintFinding("broken", domain, "1", "in two"), LintFinding("gold-is-seven", domain, "1", "seven"))
        return DomainLint(domain, 3, found, notes)

    return Linter(
        rules=(RULE, SECRET),
        domains=lambda request: ("yard",),
        lint=look,
        recognises=lambda path: False,
        glance=lambda request, domain, task: [LintFinding("broken", domain, task, "at a glance")],
        digest=lambda request, domain: digest,
    )


def test_what_was_found_is_kept_until_something_changes(cache: Path) -> None:
    calls: list[str] = []
    kept, request = LintCache(cache), LintRequest()
    first = kept.lint(counting(calls), "farm", request, "yard")
    assert kept.lint(counting(calls), "farm", request, "yard") == first
    assert calls == ["yard"]
    kept.lint(counting(calls, "other data"), "farm", request, "yard")
    kept.lint(counting(calls), "farm", dataclasses.replace(request, split="test"), "yard")
    kept.lint(dataclasses.replace(counting(calls), rules=(RULE,)), "farm", request, "yard")
    assert len(calls) == 4


@pytest.mark.parametrize("damage", ["", "[", "[]", '{"tasks": 1, "findings": [{"rule": 3}]}', "\0"])
def test_a_damaged_cache_is_none(cache: Path, damage: str) -> None:
    calls: list[str] = []
    kept = LintCache(cache)
    kept.lint(counting(calls), "farm", LintRequest(), "yard")
    [path] = cache.iterdir()
    path.write_text(damage)
    assert kept.lint(counting(calls), "farm", LintRequest(), "yard").tasks == 3
    assert len(calls) == 2


def test_a_cache_that_cannot_be_is_in_nobody_s_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    calls: list[str] = []
    for directory in (None, tmp_path / "file" / "below"):
        assert LintCache(directory).lint(counting(calls), "farm", LintRequest(), "yard").tasks == 3
    assert len(calls) == 2
    assert LintCache.place({}) is None


def test_what_could_not_be_looked_at_is_not_kept(cache: Path) -> None:
    calls: list[str] = []
    for _ in range(2):
        LintCache(cache).lint(counting(calls, notes=("no tau2",)), "farm", LintRequest(), "yard")
    assert len(calls) == 2


# --- citations --------------------------------------------------------------------------------------------------------


def test_a_citation_comes_from_the_cache_or_from_a_glance(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    linter = counting(calls)
    monkeypatch.setattr(registry, "get_linter", lambda name: linter)
    lint_known._cached.cache_clear()
    key = TrialKey("farm", "yard", "1")
    assert lint_known.cite(key, Settings()) == {"broken": "at a glance"}
    assert calls == [], "nothing is replayed for a remark"
    LintCache(cache).lint(linter, "farm", LintRequest(), "yard")
    lint_known._cached.cache_clear()
    assert lint_known.cite(key, Settings()) == {"broken": "in two"}, "what tells the gold is not cited"
    assert lint_known.cite(TrialKey("farm", "yard", "2"), Settings()) == {}
    assert lint_known.cited_line({"lint": {"broken": "in two", "odd": "x"}}) == "broken (in two); odd (x)"
    assert lint_known.cited_line({"lint": "no object"}) == ""


def test_a_linter_that_fails_costs_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(registry, "get_linter", lambda name: dataclasses.replace(counting([]), glance=fail))
    lint_known._cached.cache_clear()
    assert lint_known.cite(TrialKey("farm", "yard", "1"), Settings()) == {}


def test_a_report_is_harmless_and_bounded() -> None:
    findings = tuple(LintFinding("broken", "yard", f"{n}\x1b[31m", "a\nb" * 900) for n in range(30))
    report = LintReport("farm", "the \x07farm", (RULE,), (DomainLint("yard", 30, findings),))
    text = lint.to_text(report)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "... and 10 more in yard (--verbose shows them)" in text
    assert len(lint.to_text(report, None).splitlines()) == len(text.splitlines()) + 9


# --- documentation ----------------------------------------------------------------------------------------------------


def test_every_rule_and_clause_is_in_the_reference() -> None:
    text = (DOCS / "reference" / "lint.md").read_text(encoding="utf-8")
    rows = [row for row in text.splitlines() if row.startswith("| `")]
    expected = [
        f"| `{rule.id}` | {rule.severity} | {'yes' if rule.replays else ''} | {rule.text} | {rule.why} |"
        for _, linter in registry.linters()
        for rule in linter.rules
    ]
    expected += [f"| `{clause.name}` | {clause.domain} | {clause.text} |" for clause in CLAUSES]
    assert rows == [*expected, f"| `one-user` | retail | {ONE_USER} |"]


def test_rule_ids_are_stable_words() -> None:
    for _, linter in registry.linters():
        names = [rule.id for rule in linter.rules]
        assert len(names) == len(set(names))
        assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in names)
