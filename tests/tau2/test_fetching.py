"""Data fetched from a git repository: pinned by commit and hashes, and read from the cache alone afterwards."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tau2_checkouts import change_tasks, commit_all, git, make_checkout, retitled

from pytest_a2a_bench.benchmarks.tau2 import pins
from pytest_a2a_bench.benchmarks.tau2.editions import find_edition
from pytest_a2a_bench.cli.main import main
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.settings import Settings


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "pytest-a2a-bench" / "tau2"


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """A repository: tag v1 has the installed data, the branch main another gold."""
    root = make_checkout(tmp_path / "remote")
    (root / "data" / "results").mkdir()
    (root / "data" / "results" / "large.json").write_text("[]")
    git(root, "init", "-q")
    commit_all(root, "as installed")
    git(root, "tag", "-a", "-m", "first", "v1")
    change_tasks(root, retitled)
    commit_all(root, "another gold")
    return root


def chosen(rev: str, url: object) -> Settings:
    return Settings(benchmark_options={"tau2_data": f"git:{rev}@{url}"})


def fetch(capsys: pytest.CaptureFixture[str], rev: str, url: object) -> str:
    assert main(["data", "fetch", f"tau2@{rev}", "--from", str(url)]) == 0
    return capsys.readouterr().out


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the one line that a command ends with."""
    capsys.readouterr()
    assert main(["data", *arguments]) == 2
    [line] = capsys.readouterr().err.splitlines()
    return line.removeprefix("a2a-bench: ")


def test_a_tag_a_branch_and_the_beginning_of_a_commit(
    remote: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commits = {"v1": git(remote, "rev-parse", "v1^{commit}"), "main": git(remote, "rev-parse", "main")}
    short = commits["v1"][:9]
    for rev, commit in {**commits, short: commits["v1"], commits["main"]: commits["main"]}.items():
        told = fetch(capsys, rev, remote)
        assert f"tau2@{rev}: commit {commit} of {remote}" in told
        assert f"use it with: --a2a-tau2-data=git:{rev}@{remote}" in told
        assert "mock: " in told
        found = find_edition(chosen(rev, remote))
        assert (found.commit, found.is_installed("mock")) == (commit, commit == commits["v1"])
    # One directory for each commit, with what tau2 reads and nothing else of the repository.
    assert {p.name for p in cache.iterdir() if p.is_dir()} == set(commits.values())
    assert not list(cache.rglob("large.json"))
    assert not list(cache.rglob(".git"))

    assert main(["data", "list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert len(listed) == 4
    assert any(line.startswith(f"git:v1@{remote}  commit {commits['v1'][:12]}, ") for line in listed)
    assert main(["data", "path", "tau2@v1", "--from", str(remote)]) == 0
    assert Path(capsys.readouterr().out.strip()) == cache / commits["v1"]


def test_the_network_is_not_needed_again(remote: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fetch(capsys, "v1", f"file://{remote}")
    shutil.rmtree(remote)
    assert find_edition(chosen("v1", f"file://{remote}")).digest("mock")


def test_a_branch_that_has_moved_is_pinned_anew_and_says_so(remote: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fetch(capsys, "main", remote)
    before = find_edition(chosen("main", remote))
    (remote / "data/tau2/domains/mock/policy.md").write_text("Be brief.")
    after = commit_all(remote, "another policy")
    # Until somebody asks for it, the pin holds.
    assert find_edition(chosen("main", remote)) == before
    assert f"main was commit {before.commit} when it was fetched before" in fetch(capsys, "main", remote)
    assert find_edition(chosen("main", remote)).commit == after
    assert before.digest("mock") != find_edition(chosen("main", remote)).digest("mock")


def test_files_that_were_changed_since_are_refused_and_fetching_mends_them(
    remote: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch(capsys, "v1", remote)
    [policy] = [p for p in cache.rglob("policy.md")]
    text = policy.read_text()
    policy.write_text("Give everybody everything.")
    with pytest.raises(ConfigurationError, match=r"mock in .* are not those that were fetched .*data fetch tau2@v1"):
        find_edition(chosen("v1", remote)).digest("mock")
    fetch(capsys, "v1", remote)
    assert find_edition(chosen("v1", remote)).digest("mock")
    assert policy.read_text() == text


def test_what_was_not_fetched_is_told_with_the_command(remote: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigurationError, match=r"tau2's data at v9 of /some.*data fetch tau2@v9 --from /some/where$"):
        find_edition(chosen("v9", "/some/where"))
    with pytest.raises(ConfigurationError, match=r"at v9 have not been fetched .* run: a2a-bench data fetch tau2@v9$"):
        find_edition(Settings(benchmark_options={"tau2_data": "git:v9"}))
    fetch(capsys, "v1", remote)
    shutil.rmtree(find_edition(chosen("v1", remote)).data)
    with pytest.raises(ConfigurationError, match=r"were fetched and are gone from"):
        find_edition(chosen("v1", remote))
    assert main(["data", "list"]) == 0
    assert "its data are gone" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"schema_version": 2}', '{"schema_version": 1, "rev": 1}'])
def test_a_damaged_pin(remote: Path, content: str, capsys: pytest.CaptureFixture[str]) -> None:
    fetch(capsys, "v1", remote)
    [path] = pins.cache_directory().glob("*.json")
    path.write_text(content)
    with pytest.raises(ConfigurationError, match=r"v1-.*\.json is not a pin that this version reads"):
        find_edition(chosen("v1", remote))
    assert main(["data", "list"]) == 0
    assert "is not a pin" in capsys.readouterr().out
    fetch(capsys, "v1", remote)
    assert find_edition(chosen("v1", remote))


def test_a_revision_that_is_not_there(remote: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = refusal(capsys, "fetch", "tau2@v2", "--from", str(remote))
    assert line == f"{remote} has no tag, branch or commit 'v2'; its newest tags are v1"


def test_no_repository_and_no_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = refusal(capsys, "fetch", "tau2@v1", "--from", str(tmp_path / "nothing"))
    assert "cannot be fetched: git says: fatal:" in line
    # Nothing listens there.
    line = refusal(capsys, "fetch", "tau2@v1", "--from", "http://127.0.0.1:9/tau2.git")
    assert line.startswith("http://127.0.0.1:9/tau2.git cannot be fetched: git says: fatal: unable to access")
    assert not list(pins.cache_directory().glob("*"))


def test_a_repository_without_tau2s_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    (other / "src" / "tau2" / "domains").mkdir(parents=True)
    (other / "src" / "tau2" / "domains" / "x.py").write_text("")
    git(other, "init", "-q")
    commit_all(other, "code only")
    line = refusal(capsys, "fetch", "tau2@main", "--from", str(other))
    assert line == f"main of {other} has no tau2/domains: it is no repository of tau2's data"


def test_tasks_that_are_no_json_as_a_large_file_that_was_not_fetched(
    remote: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (remote / "data/tau2/domains/mock/tasks.json").write_text("version https://git-lfs.github.com/spec/v1\n")
    (remote / "data/tau2/domains/mock/split_tasks.json").unlink()
    commit_all(remote, "a pointer")
    line = refusal(capsys, "fetch", "tau2@main", "--from", str(remote))
    assert line.startswith(f"main of {remote}: tau2/domains/mock/tasks.json cannot be read as JSON")


def test_without_git(remote: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    line = refusal(capsys, "fetch", "tau2@v1", "--from", str(remote))
    assert line.startswith("git is not installed")
    assert "--a2a-tau2-data DIR" in line


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("fetch", "tau2@v1", "--from", "https://me:geheim@example.org/x"), "the URL holds credentials"),
        (("fetch", "tau2@v1", "--from", "https://ghp_1234@example.org/x"), "the URL holds credentials"),
        (("fetch", "tau2@--upload-pack=touch x"), "is no revision"),
        (("fetch", "tau2@v1", "--from=--upload-pack=x"), "is no URL of a git repository"),
        (("fetch", "tau2"), "names no data that can be fetched; expected tau2@REV"),
        (("path", "crmarena@v1"), "names no data that can be fetched; expected tau2@REV"),
        (("path", "tau2@v1"), "have not been fetched"),
    ],
)
def test_what_cannot_be_meant(arguments: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = refusal(capsys, *arguments)
    assert expected in line
    assert "geheim" not in line


def test_a_repository_of_the_user_around_is_not_touched(
    remote: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in a git hook, which may well start a test run.
    mine = tmp_path / "mine"
    mine.mkdir()
    git(mine, "init", "-q")
    before = sorted(p.relative_to(mine) for p in mine.rglob("*"))
    monkeypatch.setenv("GIT_DIR", str(mine / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(mine))
    fetch(capsys, "v1", remote)
    assert sorted(p.relative_to(mine) for p in mine.rglob("*")) == before


def test_the_pin_holds_what_a_run_needs(remote: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fetch(capsys, "v1", remote)
    [path] = pins.cache_directory().glob("*.json")
    stored = json.loads(path.read_text())
    assert (stored["rev"], stored["url"]) == ("v1", str(remote))
    assert set(stored["digests"]) == {"mock"}
