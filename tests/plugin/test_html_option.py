import json
import os
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from commands import command, refused
from faulty_server import start_faulty
from harness import Bench

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestExperimentalApiWarning")


def test_a_run_writes_its_page_and_only_looking_writes_none(desk: Bench) -> None:
    desk.tasks("ok bad down")
    result = desk("--a2a-html", "out/page.html", "--a2a-min-pass", "0.1")
    result.stdout.fnmatch_lines(["report page: out/page.html"])
    page = desk.path / "out" / "page.html"
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(encoding="utf-8"))
    assert data is not None
    assert {row["k"].split("/")[-1]: row["s"] for row in json.loads(data[1])["rows"]} == {
        "ok#0": "passed",
        "bad#0": "missed",
        "down#0": "infrastructure_error",
    }
    assert 'id="verdict"' in page.read_text(encoding="utf-8")
    assert "min_pass" in page.read_text(encoding="utf-8")
    assert page.stat().st_mode & 0o077 == 0
    desk("--a2a-html", "page.html", "--co")
    assert not desk.path.joinpath("page.html").exists()


def test_every_report_that_cannot_be_is_reported_before_the_run(desk: Bench) -> None:
    desk.path.joinpath("file").touch()
    result = desk("--a2a-html=file/page.html", "--a2a-markdown=file/deep/report.md")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*--a2a-html=*file/page.html: *file is no directory", "*--a2a-markdown=*is no directory"]
    )


def test_a_pipe_is_written_to_and_a_link_is_followed(desk: Bench) -> None:
    pipe = desk.path / "pipe.html"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit(pipe.read_text, "utf-8")
        desk(f"--a2a-html={pipe}")
        assert 'id="verdict"' in read.result(timeout=120)
    assert pipe.is_fifo()
    link = desk.path / "link.html"
    link.symlink_to("page.html")
    desk("--a2a-html=link.html")
    assert link.is_symlink()
    assert 'id="verdict"' in (desk.path / "page.html").read_text(encoding="utf-8")


def test_a_report_that_cannot_be_written_fails_the_run(desk: Bench) -> None:
    # Where nothing is at the beginning, so that only the end can tell.
    desk.makepyfile(test_block="def test_block():\n    open('file', 'w').close()")
    for option, said in {
        "--a2a-html=file/page.html": "*the report page *page.html cannot be written*",
        "--a2a-markdown=file/report.md": "a2a: *file/report.md cannot be written: *",
    }.items():
        result = desk(option)
        result.assert_outcomes(passed=2)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines([said])
        (desk.path / "file").unlink()


def shown(page: str, check: str) -> str:
    """Return what a page has about a check, folded under its line."""
    return page.split(f"{check}</span>")[1].split("</details>")[0]


WARNED, WAIVED = "LIST-004 [JSONRPC] SHOULD", "LIST-004 [HTTP+JSON] SHOULD"


def test_warnings_and_waivers_of_a_run_and_of_the_command_are_on_the_page_with_their_requests(desk: Bench) -> None:
    waivers = desk.path / "waivers.toml"
    waivers.write_text('[[waiver]]\nid = "LIST-004"\nbinding = "HTTP+JSON"\nreason = "in release 2"\n')
    judged = ("-k", "LIST-004", "--a2a-suite=protocol", f"--a2a-waivers={waivers}", "--a2a-html=p.html")
    desk("--a2a-results", "r")
    with start_faulty("list-no-artifacts") as agent:
        result = desk("--a2a-endpoint", agent.url, *judged)
        command("check", agent.url, "--id=LIST-004", "--waivers", waivers, "--format=json", "-o", "c.json")
    command("export", "html", "r", "-o", "r.html", "--conformance", "c.json")
    found = result.parseoutcomes()
    assert (found["warned"], found["xfailed"]) == (1, 1)
    assert "includeArtifacts=true includes them" not in result.stdout.str()
    for name in ("p.html", "r.html"):
        page = desk.path.joinpath(name).read_text(encoding="utf-8")
        for check in (WARNED, WAIVED):
            assert "comes without its artifacts" in shown(page, check)
            assert "&lt; HTTP 200" in shown(page, check)
            assert "repeat: curl -sS" in shown(page, check)
        assert "waiver: in release 2" in shown(page, WAIVED)


def test_a_verdict_of_another_run_is_not_shown(desk: Bench) -> None:
    desk("--a2a-results", "r", "--a2a-min-pass", "0.1")
    for name in ("verdict.json", "run.json"):
        path = desk.path / "r" / name
        ours = path.read_text()
        path.write_text(json.dumps(json.loads(ours) | {"run_id": "another"}))
        command("export", "html", "r", "-o", "r.html")
        path.write_text(ours)
        text = desk.path.joinpath("r.html").read_text(encoding="utf-8")
        assert "is of an earlier run than the last one here" in text
        assert "min_pass" not in text
    # Joined by hand there is none; one that is damaged says no more which trials are missing.
    path.write_text("{}")
    assert "r/run.json is not a run file that this version reads" in refused("export", "html", "r")
