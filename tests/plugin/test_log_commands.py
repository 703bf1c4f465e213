"""Nothing that an agent says is a command to what reads a log: terminal, reports and summaries of real runs."""

import json
import re
from pathlib import Path

import pytest
from commands import command
from harness import Bench

from pytest_a2a_bench.cli.main import harmless

SPOKEN = (
    "said",
    "::error::github",
    "  ::add-mask::github",
    "\u2028::set-output name=x::github",
    "see ##[error]older",
    "##vso[task.setvariable variable=x]azure",
    "##teamcity[testFailed name='x']",
    "section_start:1700000000:x\r\x1b[0Kgitlab",
    "section_end:1700000000:x\r\x1b[0K",
)
TEXT = "\n".join(SPOKEN)
WORDS = ("github", "older", "azure", "teamcity", "gitlab")

OBEYED = re.compile(r"##\w*\[|section_(?:start|end):\d|\x1b|\r(?!\n)")


def commands_of(text: str) -> list[str]:
    """Return the lines that a runner of GitHub, GitLab, Azure or TeamCity would obey, as these read a log."""
    return [line for line in text.splitlines() if line.strip().startswith("::") or OBEYED.search(line)]


def test_the_search_for_log_commands_finds_them() -> None:
    assert len(commands_of(TEXT)) >= len(SPOKEN) - 1


@pytest.fixture
def hostile(desk: Bench) -> Bench:
    """A desk whose agent says commands wherever it can say something."""
    source = (desk.path / "desk.py").read_text()
    for harmless_text in (
        '"connection reset by peer"',
        '"so\\x07rry"',
        "'seat'",
        '"nothing"',
        '"db.x: expected 1, found 2"',
    ):
        assert harmless_text in source
        source = source.replace(
            harmless_text, ascii(TEXT) if harmless_text != "'seat'" else '" + ' + ascii(TEXT) + ' + "'
        )
    source = source.replace('"a bug in the benchmark"', ascii(TEXT)).replace('"needs a judge;', ascii(TEXT) + '"')
    (desk.path / "desk.py").write_text(source)
    desk.makepyfile(
        test_desk=f"""
        import sys, warnings, logging
        import pytest

        SAID = {TEXT!a}

        @pytest.mark.desk("front")
        def test_desk(trial):
            print(SAID)
            print(SAID, file=sys.stderr)
            logging.getLogger("agent").warning("%s", SAID)
            warnings.warn(SAID)
            assert trial.success

        @pytest.mark.desk("front", tasks="bad", label="expected")
        @pytest.mark.xfail(reason=SAID)
        def test_expected(trial):
            said = trial.transcript[-1].text
            assert said == "", said

        def test_own(a2a_client):
            text = SAID
            assert text == ""

        def test_later(request):
            request.getfixturevalue("a2a_client")
            pytest.fail(SAID, pytrace=False)
        """
    )
    desk.tasks("ok-a bad down skip-d broken bug")
    return desk


@pytest.mark.parametrize("style", ["auto", "native"])
def test_no_report_of_a_run_has_a_command(hostile: Bench, monkeypatch: pytest.MonkeyPatch, style: str) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(hostile.path / "summary.md"))
    result = hostile(
        *("-rA", "-vv", "--showlocals", f"--tb={style}", "--junitxml=j.xml", "-ojunit_logging=all"),
        *("--a2a-markdown=run.md", "-pno:cacheprovider", "-Wdefault"),
    )
    assert result.ret == 1, result.stdout.str()
    shown = result.stdout.str() + result.stderr.str()
    annotations = [line for line in result.outlines if line.startswith(("::error title=", "::warning title="))]
    assert len(annotations) == 4
    others = shown
    for line in annotations:
        others = others.replace(line, "")
        assert not OBEYED.search(line)
    assert commands_of(others) == []
    for word in WORDS:
        assert word in others
    for name in ("j.xml", "run.md", "summary.md"):
        text = Path(hostile.path / name).read_text()
        assert commands_of(text) == []
        assert "azure" in text


def test_no_command_prints_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    with harmless():
        print(TEXT)
        print("##", end="")
        print("[error]in two pieces")
        print(TEXT, file=sys.stderr)
        print("\x1b[31mred\x1b[0m", end="")
    shown = capsys.readouterr()
    assert commands_of(shown.out) == commands_of(shown.err) == []
    assert shown.out.endswith("## [error]in two pieces\nred")
    for word in WORDS:
        assert word in shown.out
        assert word in shown.err


def test_names_of_tasks_are_no_commands_either(desk: Bench) -> None:
    desk.tasks("bad-##[error]older ok-section_start:1:x bad-::error::github down-##vso[x]azure")
    result = desk("-v", "-rA", "--a2a-min-pass=0.4", "--a2a-markdown=/dev/stdout")
    assert commands_of(result.stdout.str() + result.stderr.str()) == []
    assert "azure" in result.stdout.str()


def test_an_error_gives_no_command(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"schema_version": 1, "run_id": 5, "##[error]x": TEXT}))
    shown = command("merge", tmp_path, "-o", "##[error]\n::error::x", code=2)
    assert shown.err.startswith("a2a-bench: ")
    assert commands_of(shown.out + shown.err) == []
