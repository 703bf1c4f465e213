"""``a2a-bench check``: of an agent, and with ``--card`` of a card alone."""

import functools
import io
import json
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cards import minimal_0_3, minimal_1_0
from faulty_server import start_faulty
from hypothesis import given, settings
from hypothesis import strategies as st
from one_test import in_one_test

from pytest_a2a_bench.cli import main
from pytest_a2a_bench.conformance.card.document import lines_of, to_pointer


@pytest.fixture(scope="module")
def good_url() -> Iterator[str]:
    """URL of an agent that breaks no requirement."""
    with start_faulty() as agent:
        yield agent.url


@pytest.fixture(scope="module")
def bad_url() -> Iterator[str]:
    """URL of an agent that makes up the tasks it is asked for."""
    with start_faulty("get-unknown") as agent:
        yield agent.url


def run(*arguments: str | Path) -> int:
    return main.main(["check", *map(str, arguments)])


def test_findings_have_evidence_and_an_exit_code(bad_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(bad_url, "--group", "get-task") == 1
    out = capsys.readouterr().out
    for part in ("FAILED GET-002 [JSONRPC] MUST", "  > POST http://127.0.0.1", "  < HTTP 200", "repeat: curl -sS"):
        assert part in out
    assert "> a2a-version: 1.0" in out
    assert "user-agent" not in out
    # Once more after the matrix, which may be all that a terminal still shows.
    assert "\nfailed: GET-002 [JSONRPC] " in out.partition("\nA2A 1.0: not conformant")[2]
    # What the other bindings show of the same defect is named beneath it, and has its own evidence where it is alone.
    assert "  explains 2 more:\n    GET-002 [HTTP+JSON] " in out
    assert run(bad_url, "--id", "GET-002", "--binding", "GRPC") == 1
    assert "repeat: grpcurl -plaintext" in capsys.readouterr().out


def test_filters_and_a_file_beside_the_matrix(bad_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ("--id", "GET-002", "--id", "GET-001", "--binding", "JSONRPC", "--version", "1.0", "--level", "MUST")
    assert run(bad_url, *chosen, "--format", "json", "-o", tmp_path / "new" / "report") == 1
    assert "get-task " in capsys.readouterr().out
    results = json.loads((tmp_path / "new" / "report").read_text())["results"]
    assert {(r["id"], r["binding"]) for r in results} <= {("GET-001", "JSONRPC"), ("GET-002", "JSONRPC")}
    assert [r["status"] for r in results if r["id"] == "GET-002"] == ["failed"]


def test_waivers(bad_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "waivers.toml"
    file.write_text(
        '[[waiver]]\nid = "GET-002"\nreason = "until 2.4"\n[[waiver]]\nid = "GET-006"\nreason = "was broken once"\n'
    )
    assert run(bad_url, "--group", "get-task", "--waivers", file, "--binding", "JSONRPC") == 0
    out = capsys.readouterr().out
    assert "waived: GET-002 [JSONRPC]: until 2.4" in out
    assert "removable waiver: GET-006" in out


def test_accept_writes_waivers_for_failures(bad_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new" / "waivers.toml"
    chosen = (bad_url, "--id", "GET-002", "--waivers", file)
    assert run(*chosen, "--accept", 'a "known" defect') == 0
    captured = capsys.readouterr()
    # The report is that of the agent as it is, and what the first finding explains has waivers of its own.
    assert "FAILED GET-002 [JSONRPC]" in captured.out
    assert "explains 2 more" in captured.out
    assert "3 waivers added" in captured.err
    waivers = tomllib.loads(file.read_text())["waiver"]
    assert {(w["id"], w["version"], w["reason"]) for w in waivers} == {("GET-002", "1.0", 'a "known" defect')}
    assert sorted(w["binding"] for w in waivers) == ["GRPC", "HTTP+JSON", "JSONRPC"]
    assert run(*chosen) == 0
    assert run(*chosen, "--accept", "again") == 0
    assert "0 waivers added" in capsys.readouterr().err
    # Its end was somebody's decision, which is not taken back by the way.
    file.write_text(file.read_text().replace('binding = "GRPC"', 'binding = "GRPC"\nexpires = 2026-01-31'))
    assert run(*chosen, "--accept", "again") == 1
    assert "the waiver 1.0/GET-002[GRPC] is over" in capsys.readouterr().err


def test_strict_counts_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    with start_faulty("card-no-etag") as agent:
        assert run(agent.url, "--binding", "card") == 0
        assert "WARNED CARD-014" in capsys.readouterr().out
        assert run(agent.url, "--binding", "card", "--strict") == 1


def test_a_card_that_cannot_be_used_is_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    with start_faulty("card-array") as agent:
        assert run(agent.url) == 1
    out = capsys.readouterr().out
    assert "FAILED CARD-002" in out
    assert "there is no agent card that can be read" in out


@in_one_test(
    ("arguments", "complaint"),
    [
        (["http://127.0.0.1:1"], "nothing answers at"),
        (["nonsense"], "nonsense"),
        (["GOOD", "--group", "sned"], "--group names sned; there are "),
        (["GOOD", "--id", "SEND-999"], "there is no requirement 'SEND-999'"),
        (["GOOD", "--waivers", "/no/such/file.toml"], "cannot be read"),
        (["GOOD", "--id", "CARD-001", "--binding", "GRPC"], "no check is left"),
        (["GOOD", "--version", "0.3"], "--version 0.3: the card of http://127.0.0.1"),
        (["GOOD", "--set", "webhook-bind=8.8.8.8:99"], "the webhook cannot listen on 8.8.8.8:99"),
        (["GOOD", "-o", "/dev/null/report.json"], "-o /dev/null/report.json: cannot be written"),
        (["GOOD", "--accept", "known"], "--accept: give --waivers FILE with it"),
        (["GOOD", "--waivers", "w.toml", "--accept", "a\nb"], "--accept: say in a line why"),
        (
            ["GOOD", "--waivers", "/dev/null/w.toml", "--accept", "known"],
            "--waivers /dev/null/w.toml: cannot be written",
        ),
        (["--card", "no-such-card.json"], "no-such-card.json: No such file or directory; give a file or a URL"),
        (["--card", "http://127.0.0.1:9/"], "nothing answers at http://127.0.0.1:9/"),
        (["--card", "localhost:9999"], "give a file or a URL, such as http://localhost:9999"),
        (["--card", __file__, "--online"], "--online needs the agent's URL"),
        (
            ["--card", __file__, "--algorithms", "HS256", "--timeout", "0"],
            "--timeout is 0.0; give a number of seconds above 0\na2a-bench: --algorithms names HS256",
        ),
        (["--card", __file__, "--set", "card-jwks=no-such-keys.json"], "no-such-keys.json"),
        (["--card", __file__, "--waivers", "no-such-waivers.toml"], "no-such-waivers.toml: cannot be read"),
        (["--card", __file__, "-o", "/dev/null/x"], "-o /dev/null/x: cannot be written"),
    ],
)
def test_a_judgement_that_cannot_run_is_one_line_and_exit_code_2(
    good_url: str, arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*(good_url if a == "GOOD" else a for a in arguments)) == 2
    captured = capsys.readouterr()
    assert complaint in captured.err
    assert captured.err.count("\n") == complaint.count("\n") + 1
    assert captured.out == ""


def test_everything_that_is_wrong_is_reported_at_once(good_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = ("--timeout", "0", "--concurrency", "0")
    files = "--waivers /no/waivers --scenarios /no/scenarios --set card-jwks=/no/keys --set webhook-bind=x".split()
    assert run(good_url, "--group", "nope", "--id", "XYZ", *numbers, *files) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 8
    parts = ("--timeout is 0", "--concurrency is 0", "--group names nope", "'XYZ'", "/no/waivers", "/no/scenarios")
    assert [part for part in (*parts, "/no/keys", "listen on 'x'") if part not in said] == []


def test_the_header_says_where_a_card_elsewhere_was_found(good_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    # The URL of one of its interfaces, which is the one that is judged.
    assert run(f"{good_url.rstrip('/')}/rest", "--id", "GET-002") == 0
    assert f"; its card was found at {good_url.rstrip('/')}/.well-known/agent-card.json\n" in capsys.readouterr().out
    assert run(good_url, "--id", "GET-002") == 0
    out = capsys.readouterr().out
    assert "its card was found" not in out
    # A selection is not called conformant without saying so.
    assert "A2A 1.0: fully conformant in what was chosen: MUST 3/3; " in out


def test_a_terminal_without_unicode_is_no_reason_to_break(bad_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, "ascii", write_through=True))
    assert main.main(["check", bad_url, "--id", "GET-002"]) == 1
    assert b"\\xa7" in written.getvalue()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--nonsense"], "see a2a-bench check --help"), (["--format", "xml"], "invalid choice: 'xml'")],
)
def test_arguments_that_there_are_not(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        run("--card", *arguments)
    printed = capsys.readouterr().err
    assert said in printed
    assert printed.count("\n") == 1


def test_an_incomplete_judgement_is_code_2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("A_TOKEN", "x")
    with start_faulty(variant="guarded") as agent:
        assert run(agent.url, "--group", "get-task", "--group", "card") == 2
    assert "A2A 1.0: not judged completely: " in capsys.readouterr().out


def states(url: str) -> list[str]:
    """Return the states of all tasks that an agent has."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"pageSize": 100}}
    answer = httpx.post(url, json=asked, headers={"A2A-Version": "1.0"}, trust_env=False).json()
    return [task["status"]["state"] for task in answer["result"]["tasks"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [pytest.param(signal.SIGTERM, 143, id="term"), pytest.param(signal.SIGINT, 130, id="int")]
)
def test_an_interrupted_run_clears_away(tmp_path: Path, number: signal.Signals, code: int) -> None:
    prompts = tmp_path / "prompts.toml"
    prompts.write_text('slow = "slow please"\ninput = "input please"\n')
    with start_faulty(step=20) as agent:
        command = [sys.executable, "-m", "pytest_a2a_bench.cli", "check", agent.url, "--scenarios", str(prompts)]
        # What a shell starts in the background ignores Ctrl-C, and so does all that it starts: the tests, and this.
        heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=heed
        ) as process:
            # A command that is interrupted before it has begun has nothing to clear away: however long that takes.
            while states(agent.url).count("TASK_STATE_WORKING") < 3 and process.poll() is None:
                time.sleep(0.05)
            process.send_signal(number)
            _, said = process.communicate()
        assert process.returncode == code, said
        found = states(agent.url)
    assert "TASK_STATE_CANCELED" in found
    if number == signal.SIGTERM:
        return  # which gives a second to clear away in, and SIGKILL comes next: a busy machine gets through a part
    assert {"TASK_STATE_WORKING", "TASK_STATE_SUBMITTED", "TASK_STATE_INPUT_REQUIRED"} & set(found) == set()


# A card alone.


def write(folder: Path, card: Any) -> Path:
    path = folder / "card.json"
    path.write_text(card if isinstance(card, str) else json.dumps(card), encoding="utf-8")
    return path


def test_a_good_card_is_fully_conformant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, minimal_1_0())
    assert run("--card", path) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"conformance of {path} (Router 1.2.0), 1.0 JSONRPC\n")
    assert "A2A 1.0: fully conformant in its card alone: MUST 14/14, SHOULD 11/11" in printed
    assert run("--card", write(tmp_path, minimal_0_3())) == 0
    assert "A2A 0.3: fully conformant in its card alone" in capsys.readouterr().out
    assert run("--card", path, "--version", "1.0") == 1
    assert "supportedInterfaces is missing" in capsys.readouterr().out


HOW = "fix: write the card's JSON object into the file"
TWICE = json.dumps(minimal_1_0()).replace('{"name"', '{"name": "x", "name"', 1)


@in_one_test(
    ("text", "found"),
    [
        ("", ["CARD-002", "malformed JSON", "it is empty", HOW]),
        ("<html>Welcome</html>", ["it begins with '<html>Welcome</html>'", HOW]),
        (TWICE, ["CARD-030"]),
    ],
)
def test_an_invalid_card_is_a_finding(
    text: str, found: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--card", write(tmp_path, text), "--strict") == 1
    printed = capsys.readouterr().out
    assert [part for part in found if part not in printed] == []


def test_a_card_comes_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(minimal_1_0()).encode())))
    assert run("--card", "-") == 0


def test_a_served_card_is_fetched_and_asked_about(noop_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--card", noop_url, "--online") == 0
    printed = capsys.readouterr()
    assert "A2A 1.0: fully conformant in what was chosen" in printed.out
    assert "A2A 0.3: fully conformant in what was chosen" in printed.out


def test_sarif_shows_findings_in_their_lines(tmp_path: Path) -> None:
    card = {**minimal_1_0(), "iconUrl": None}
    card["supportedInterfaces"][0]["url"] = "/rpc"
    card["skills"][0]["tags"] = []
    text = json.dumps(card, indent=2)
    file = tmp_path / "report.sarif"
    assert run("--card", write(tmp_path, text), "--format", "sarif", "-o", file) == 1
    lines = text.splitlines()
    shown, places = {}, {}
    (run_,) = json.loads(file.read_text())["runs"]
    for result in run_["results"]:
        line = result["locations"][0]["physicalLocation"]["region"]["startLine"]
        shown[result["ruleId"]] = lines[line - 1].strip()
        places[result["ruleId"]] = result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"]
    assert shown == {"CARD-004": '"tags": []', "CARD-009": '"url": "/rpc",', "CARD-028": '"iconUrl": null'}
    assert places["CARD-004"] == "1.0/card/skills/0/tags"


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
