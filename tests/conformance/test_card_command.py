"""``a2a-bench check --card`` and its formats."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cards import minimal_0_3, minimal_1_0
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_a2a_bench.cli import main
from pytest_a2a_bench.conformance.card.document import lines_of, to_pointer
from pytest_a2a_bench.conformance.report import REPORT


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(card: Any) -> str:
        path = tmp_path / "card.json"
        path.write_text(card if isinstance(card, str) else json.dumps(card), encoding="utf-8")
        return str(path)

    return write


def bad() -> dict[str, Any]:
    card = minimal_1_0()
    card["supportedInterfaces"][0]["url"] = "/rpc"
    card["skills"][0]["tags"] = []
    card["iconUrl"] = None
    return card


def test_a_good_card_is_fully_conformant(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(minimal_1_0())
    assert main.main(["check", "--card", path]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"conformance of {path} (Router 1.2.0), 1.0 JSONRPC\n")
    assert "A2A 1.0: fully conformant in its card alone: MUST 14/14, SHOULD 11/11" in printed
    assert main.main(["check", "--card", write(minimal_0_3())]) == 0
    assert "A2A 0.3: fully conformant in its card alone" in capsys.readouterr().out


def test_findings_say_where_what_and_how(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["check", "--card", write(bad())]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:6] == [
        "FAILED CARD-004 [card] MUST (1.0.1 §5.7): Required arrays have at least one element",
        "  error: tags is empty",
        "  at: /skills/0/tags",
        "  fix: fill it in",
    ]
    assert lines[7].startswith("FAILED CARD-009 [card] MUST")
    assert "  at: /supportedInterfaces/0/url" in lines
    assert lines[-1].startswith("2 failed, 1 warned, 22 passed, 14 skipped")


def test_warnings_fail_only_when_strict(write: Any) -> None:
    path = write({**minimal_1_0(), "iconUrl": None})
    assert main.main(["check", "--card", path]) == 0
    assert main.main(["check", "--card", path, "--strict"]) == 1


def test_a_version_can_be_demanded(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["check", "--card", write(minimal_0_3()), "--version", "1.0"]) == 1
    assert "supportedInterfaces is missing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["no-such-card.json"], "no-such-card.json: No such file or directory; give a file or a URL"),
        (["http://127.0.0.1:9/"], "nothing answers at http://127.0.0.1:9/"),
        (["localhost:9999"], "give a file or a URL, such as http://localhost:9999"),
        (["FILE", "--online"], "--online needs the agent's URL"),
        (["FILE", "--timeout", "0"], "--timeout is 0.0"),
        (["FILE", "--algorithms", "HS256"], "--algorithms names HS256"),
        (
            ["FILE", "--algorithms", "HS256", "--timeout", "0"],
            "--timeout is 0.0; give a number of seconds above 0\na2a-bench: --algorithms names HS256",
        ),
        (["FILE", "--set", "card-jwks=no-such-keys.json"], "no-such-keys.json"),
        (["FILE", "--waivers", "no-such-waivers.toml"], "no-such-waivers.toml: cannot be read"),
        (["FILE", "-o", "/dev/null/x"], "-o /dev/null/x: cannot be written"),
        (["FILE", "--nonsense"], "see a2a-bench check --help"),
        (["FILE", "--format", "xml"], "invalid choice: 'xml'"),
    ],
)
def test_a_check_that_cannot_run_exits_with_2(
    arguments: list[str], complaint: str, write: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(minimal_1_0())
    try:
        code = main.main(["check", "--card", *(path if a == "FILE" else a for a in arguments)])
    except SystemExit as stop:
        code = int(str(stop.code))
    assert code == 2
    printed = capsys.readouterr().err
    assert complaint in printed
    assert printed.count("\n") == complaint.count("\n") + 1


HOW = "fix: write the card's JSON object into the file"
TWICE = json.dumps(minimal_1_0()).replace('{"name"', '{"name": "x", "name"', 1)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{", ["CARD-002", "malformed JSON"]),
        ("[]", ["CARD-002", "the card is []"]),
        ('{"a": NaN}', ["CARD-002", "NaN"]),
        ("", ["CARD-002", "malformed JSON", "it is empty", HOW]),
        ("<html>Welcome</html>", ["it begins with '<html>Welcome</html>'", HOW]),
        (TWICE, ["CARD-030"]),
    ],
)
def test_an_invalid_card_is_a_finding(
    text: str, found: list[str], write: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["check", "--card", write(text), "--strict"]) == 1
    printed = capsys.readouterr().out
    assert [part for part in found if part not in printed] == []


def test_a_card_comes_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(minimal_1_0()).encode())))
    assert main.main(["check", "--card", "-"]) == 0


def test_a_served_card_is_fetched_and_asked_about(noop_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["check", "--card", noop_url, "--online"]) == 0
    printed = capsys.readouterr()
    assert "A2A 1.0: fully conformant in what was chosen" in printed.out
    assert "A2A 0.3: fully conformant in what was chosen" in printed.out


def test_json_can_be_read_back(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["check", "--card", write(bad()), "--format", "json"]) == 1
    report = REPORT.parse(capsys.readouterr().out.encode(), Path("report.json"))
    assert report.interfaces == ("1.0 JSONRPC",)
    assert report.counts == {"failed": 2, "warned": 1, "passed": 22, "skipped": 14}
    broken = [check.id for check in report.results if check.findings]
    assert broken == ["CARD-004", "CARD-009", "CARD-028"]


def test_sarif_names_rules_and_places(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(bad())
    assert main.main(["check", "--card", path, "--format", "sarif"]) == 1
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert {r["ruleId"] for r in run["results"]} == {r["id"] for r in run["tool"]["driver"]["rules"]}
    first = run["results"][0]
    assert first["level"] == "error"
    assert first["locations"][0]["physicalLocation"] == {"artifactLocation": {"uri": path}, "region": {"startLine": 1}}
    assert first["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "1.0/card/skills/0/tags"


def test_sarif_shows_findings_in_their_lines(write: Any, tmp_path: Path) -> None:
    text = json.dumps(bad(), indent=2)
    file = tmp_path / "report.sarif"
    assert main.main(["check", "--card", write(text), "--format", "sarif", "-o", str(file)]) == 1
    lines = text.splitlines()
    shown = {}
    for result in json.loads(file.read_text())["runs"][0]["results"]:
        line = result["locations"][0]["physicalLocation"]["region"]["startLine"]
        shown[result["ruleId"]] = lines[line - 1].strip()
    assert shown == {"CARD-004": '"tags": []', "CARD-009": '"url": "/rpc",', "CARD-028": '"iconUrl": null'}


VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40, deadline=None)
@given(VALUES)
def test_every_member_has_its_line(value: Any) -> None:
    places = lines_of(json.dumps(value, indent=1))
    expected = list(_lines((), value, [0]))
    assert places == dict(reversed(expected))


def _lines(path: tuple[str | int, ...], value: Any, line: list[int]) -> Iterator[tuple[str, int]]:
    """Yield every member and its line, as json.dumps with an indent writes them."""
    line[0] += 1
    yield to_pointer(path), line[0]
    if isinstance(value, (dict, list)) and value:
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _lines((*path, name), inner, line)
        line[0] += 1
