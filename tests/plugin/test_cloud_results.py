"""Results at a URL of a real S3 server: resume, gates, shards, merge, reports, and two runs at one URL."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import command
from harness import Bench

from pytest_a2a_bench.results import remote
from pytest_a2a_bench.results.lock import InUseError, locked
from pytest_a2a_bench.results.store import Store, write_atomically

SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
server.start()
print("port", server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("moto")
    pytest.importorskip("s3fs")
    log = tmp_path_factory.mktemp("moto") / "stderr.txt"
    command = [sys.executable, "-c", SERVER]
    with (
        log.open("w") as errors,
        # In a session of its own: signals to the others of this run are not for it.
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        ) as process,
    ):
        assert process.stdout is not None
        # The server talks, too.
        port = next((line.split()[1] for line in process.stdout if line.startswith("port ")), None)
        assert port is not None, log.read_text()
        yield f"http://127.0.0.1:{port}"
        assert process.poll() is None, f"the server ended with {process.returncode}: {log.read_text()[-3000:]}"
        process.communicate("")


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    for name, value in {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "key",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    name = "b-" + re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-")
    files().mkdir(name)
    return f"s3://{name}"


def files() -> Any:
    import s3fs

    return s3fs.S3FileSystem(use_listings_cache=False)


def objects(url: str) -> list[str]:
    place = url.removeprefix("s3://")
    return sorted(path.removeprefix(f"{place}/") for path in files().find(place))


@pytest.mark.slow
def test_a_run_is_resumed_from_another_machine(desk: Bench, bucket: str) -> None:
    url = f"{bucket}/runs/one"
    desk.tasks("ok-0-1 flaky bad-0-1 ok-0-2")
    first = desk.apart("-n2", f"--a2a-results={url}", "--junitxml=j.xml")
    said = first.stdout.str() + first.stderr.str()
    assert first.ret == 1
    assert f"results: {url}" in said
    assert f"{url}/trials/" in (desk.path / "j.xml").read_text()
    found = objects(url)
    assert [name for name in found if "/" not in name] == ["run.json", "verdict.json"], found
    assert len([name for name in found if name.startswith("trials/")]) == 4
    assert not list(desk.path.rglob("trials"))

    (desk.path / "log.txt").unlink()
    again = desk.apart(f"--a2a-results={url}", "--a2a-resume", "--a2a-min-pass=0.1", "--a2a-set=inconclusive=pass")
    said = again.stdout.str() + again.stderr.str()
    assert "pass" in said
    assert again.ret == 0
    held_again = re.findall(r"start (\S+)", (desk.path / "log.txt").read_text())
    assert held_again == ["desk/front/flaky#0"]
    missed = desk.apart(f"--a2a-results={url}", "--a2a-missed")
    said = missed.stdout.str() + missed.stderr.str()
    assert "1 failed" in said, said


@pytest.mark.slow
def test_shards_merge_without_a_disk_in_common(desk: Bench, bucket: str) -> None:
    desk.tasks("ok-0-1 ok-0-2 bad-0-1 ok-0-3 bad-0-2")
    for part in (1, 2):
        desk.apart(f"--a2a-shard={part}/2", f"--a2a-results={bucket}/part-{part}")
    whole = f"{bucket}/whole"
    assert "3 of 5 trials passed" in command("merge", f"{bucket}/part-1", f"{bucket}/part-2", "-o", whole).out
    assert len([name for name in objects(whole) if name.startswith("trials/")]) == 5
    assert "run.json" in objects(whole)
    assert "run.lock" not in objects(whole)
    page = desk.path / "page.html"
    command("export", "html", whole, "-o", page)
    assert page.stat().st_size > 1000
    command("gate", whole, "--write-baseline", desk.path / "base.json")
    command("compare", whole, desk.path / "base.json", "--format", "json")
    assert "is not empty" in command("merge", f"{bucket}/part-1", f"{bucket}/part-2", "-o", whole, code=2).err
    later = desk.apart(
        f"--a2a-baseline={whole}", "--a2a-shard=1/1", "--a2a-set=inconclusive=pass", f"--a2a-results={bucket}/later"
    )
    said = later.stdout.str() + later.stderr.str()
    assert "baseline" in said, said
    assert later.ret == 0


@pytest.mark.slow
def test_two_runs_at_one_url(bucket: str, desk: Bench) -> None:
    url = f"{bucket}/shared"
    here, there = remote.opened(url), remote.opened(url)
    with locked(here, "pytest"):
        assert objects(url) == ["run.lock"]
        with (
            pytest.raises(InUseError, match=rf"{url} is in use by pytest, process {os.getpid()} on .*, since"),
            locked(there, "a2a-bench merge"),
        ):
            pass
        second = desk.apart(f"--a2a-results={url}")
        said = second.stdout.str() + second.stderr.str()
        assert second.ret == 4
        assert f"{url} is in use by pytest, process {os.getpid()} on" in said
        assert f"remove {url}/run.lock" in said
    assert objects(url) == []
    with locked(there, "pytest"):
        pass


@pytest.mark.slow
def test_unreadable_input_is_one_line(bucket: str, desk: Bench) -> None:
    result = desk.apart("--a2a-results=s3://there-is-no-such-bucket/x")
    said = result.stdout.str() + result.stderr.str()
    assert result.ret == 4
    assert "s3://there-is-no-such-bucket/x" in said
    assert "Traceback" not in said
    assert "nonsense" in command("export", "html", "nonsense://x", code=2).err


def test_objects_with_other_names_are_left_alone(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    import fsspec

    url = f"memory://{tmp_path.name}"
    memory = fsspec.filesystem("memory")
    for name in ("run.json", "trials/a.json", "../out.json", "trials/../../b.json", "notes.txt", "trials/x/c.json"):
        memory.pipe_file(f"/{tmp_path.name}/{name}", json.dumps(name).encode())
    directory = remote.opened(url)
    assert sorted(p.relative_to(directory).as_posix() for p in directory.rglob("*") if p.is_file()) == [
        "run.json",
        "trials/a.json",
    ]
    remote.closed(directory)
    assert not directory.exists()


def test_a_disk_may_be_named_as_a_url_and_what_it_has_is_not_overwritten(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    directory = remote.opened(f"file://{tmp_path}/runs/one")
    with locked(directory, "pytest"):
        Store(directory).prepare()
        write_atomically(directory / "trials" / "a.json", "{}")
    assert (tmp_path / "runs" / "one" / "trials" / "a.json").read_text() == "{}"
    assert not (tmp_path / "runs" / "one" / "run.lock").exists()
    remote.closed(directory)
    (tmp_path / "run.json").write_text("{}")
    url = f"file://{tmp_path}"
    assert f"{url} is there and is not empty" in command("merge", "nonsense://part", "-o", url, code=2).err


def test_a_lock_whose_answer_was_lost_is_ours_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    place = remote.Bucket(f"memory://{tmp_path.name}")
    write = place._files.pipe_file

    def write_twice(*args: Any, **kwargs: Any) -> None:
        write(*args, **kwargs)
        # As a library does that heard nothing, and the store then says.
        raise FileExistsError

    monkeypatch.setattr(place._files, "pipe_file", write_twice)
    assert place.claim("us, since noon") is None
    assert place.claim("them, since one") == "us, since noon"
    place.release()
    assert remote.Bucket(f"memory://{tmp_path.name}").claim("them, since one") is None
