"""The hub, as the real libraries read it: a small one over real HTTP, in a process of its own with its own cache."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from crm_settings import crm_settings
from mini_org.org import build
from threaded_http import Handler, HttpServer

from pytest_a2a_bench.benchmarks.crmarena import domains as opening
from pytest_a2a_bench.errors import ConfigurationError

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class HubServer(HttpServer):
    """Serves data sets.

    :param datasets: name of the data set (``Owner/Name``) to its files.
    """

    def __init__(self, datasets: Mapping[str, Mapping[str, bytes]]) -> None:
        self.datasets = datasets
        self.paths: list[str] = []
        super().__init__(_handler(self))

    def answer(self, path: str, body: bytes) -> tuple[int, Any, dict[str, str]]:
        """Return status, JSON or bytes, and headers."""
        self.paths.append(path)
        parts = unquote(urlsplit(path).path).strip("/").split("/")
        api = parts[:2] == ["api", "datasets"]
        name = "/".join(parts[2:4] if api else parts[1:3])
        rest = parts[4:] if api else parts[3:]
        files = self.datasets.get(name)
        if files is None:
            return 404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"}
        if (
            len(rest) > 1
            and rest[0] in ("revision", "resolve", "tree", "paths-info")
            and rest[1] not in ("main", COMMIT)
        ):
            return 404, {"error": f"Invalid rev id: {rest[1]}"}, {"X-Error-Code": "RevisionNotFound"}
        if not api:
            return self._file(files, "/".join(rest[2:]))
        return self._ask(name, files, rest, body)

    def _file(self, files: Mapping[str, bytes], wanted: str) -> tuple[int, Any, dict[str, str]]:
        if wanted not in files:
            return 404, {"error": "Entry not found"}, {"X-Error-Code": "EntryNotFound"}
        return 200, files[wanted], {"X-Repo-Commit": COMMIT, "ETag": f'"{_oid(files[wanted])}"'}

    def _ask(
        self, name: str, files: Mapping[str, bytes], rest: list[str], body: bytes
    ) -> tuple[int, Any, dict[str, str]]:
        entries = [{"type": "file", "path": n, "size": len(c), "oid": _oid(c)} for n, c in files.items()]
        if not rest or rest[0] == "revision":
            siblings = [{"rfilename": n} for n in files]
            return 200, {"id": name, "sha": COMMIT, "siblings": siblings, "private": False, "tags": []}, {}
        if rest[0] == "tree":
            inside = "/".join(rest[2:])
            found = [e for e in entries if not inside or str(e["path"]).startswith(inside + "/")]
            if inside and not found:
                return 404, {"error": "Entry not found"}, {"X-Error-Code": "EntryNotFound"}
            return 200, found, {}
        if rest[0] == "paths-info":
            asked = parse_qs(body.decode()).get("paths", []) if b"=" in body else json.loads(body)["paths"]
            return 200, [e for e in entries if e["path"] in asked], {}
        return 404, {"error": "not served"}, {}


def _oid(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def _handler(hub: HubServer) -> type[Handler]:
    class Hub(Handler):
        def _serve(self) -> None:
            status, content, headers = hub.answer(self.path, self.body())
            if isinstance(content, bytes):
                self.answer(status, content, "application/octet-stream", headers)
            else:
                self.answer(status, json.dumps(content).encode(), headers=headers)

        do_GET = do_HEAD = do_POST = _serve

    return Hub


# Importing it takes a second, and here nobody needs it: the processes that are started do.
pytestmark = pytest.mark.skipif(not importlib.util.find_spec("datasets"), reason="the extra 'hub' is not installed")

CARD = """\
---
configs:
- config_name: CRMArenaPro
  data_files:
  - split: b2b
    path: b2b.json
  - split: b2b_interactive
    path: b2b.json
- config_name: b2b_schema
  data_files:
  - split: b2b_schema
    path: schema.json
---
"""
SHOW = """\
import json, sys
from pytest_a2a_bench.benchmarks.crmarena import domains as opening
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.config.settings import Settings
try:
    chosen = {"crm_data": sys.argv[2], "crm_org": sys.argv[3]}
    source = opening.make_source(sys.argv[1], Settings(benchmark_options=chosen))
    tasks = source.tasks()
    shown = {"ids": source.task_ids(), "answers": [t.answers for t in tasks], "interactive": tasks[0].interactive}
    shown["objects"] = [o.name for o in source.schema.objects]
    shown["fields"] = [f.name for f in source.schema.objects[0].fields]
    shown["revision"], shown["official"] = source.provenance.revision, source.provenance.official
    if sys.argv[3] == "local":
        org = opening.open_org(source)
        shown["cases"] = org.run("SELECT COUNT(Id) n FROM Case").records[0]["n"]
        org.close()
    print(json.dumps(shown))
except ConfigurationError as error:
    print(json.dumps({"error": str(error)}))
"""
ROWS = [
    {"idx": 0, "answer": ["005Mn0000000byqIAA"], "task": "handle_time", "persona": "calm", "query": "Who?",
     "metadata": {"required": "- Today's date: 2031-07-09", "optional": "A week ..."}, "reward_metric": "exact_match"},
    {"idx": 1, "answer": [None], "task": "internal_operation_data", "persona": "", "query": "Tell me!",
     "metadata": {"required": "", "optional": "A week ..."}, "reward_metric": "privacy_rejection"},
]  # fmt: skip
SCHEMA = [{"object": "User", "fields": {"Id": "the id", "Alias": None}}, {"object": "Case", "fields": {"Id": "the id"}}]


def show(url: str, cache: Path, domain: str, data: str, org: str = "salesforce", **more: str) -> dict[str, object]:
    env = {**os.environ, "HF_ENDPOINT": url, "HF_HOME": str(cache), "HF_HUB_DISABLE_TELEMETRY": "1", **more}
    command = [sys.executable, "-c", SHOW, domain, data, org]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return answer


def files() -> dict[str, bytes]:
    return {
        "README.md": CARD.encode(),
        "b2b.json": json.dumps(ROWS).encode(),
        "schema.json": json.dumps(SCHEMA).encode(),
    }


@pytest.mark.slow
def test_tasks_and_schema_come_from_the_hub_and_then_from_its_cache(tmp_path: Path) -> None:
    with HubServer({"Salesforce/CRMArenaPro": files()}) as hub:
        shown = show(hub.url, tmp_path, "b2b_interactive", f"hub@{COMMIT}")
        wrong = show(hub.url, tmp_path, "b2b", "hub@no-such-revision")
    assert shown == {
        "ids": [["0000", "handle_time"], ["0001", "internal_operation_data"]],
        "answers": [["005Mn0000000byqIAA"], []],
        "interactive": True,
        "objects": ["User", "Case"],
        "fields": ["Id"],
        "revision": COMMIT,
        "official": False,
    }
    assert any(COMMIT in path for path in hub.paths)
    assert "at revision no-such-revision cannot be loaded from the hub" in str(wrong["error"])
    cached = show(hub.url, tmp_path, "b2b_interactive", f"hub@{COMMIT}", HF_HUB_OFFLINE="1")
    assert cached["ids"] == shown["ids"]


@pytest.mark.slow
def test_rows_come_from_a_directory(tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    rows.mkdir()
    build(tasks_per_category=1).write_sqlite(rows / "crmarenapro_b2b_data.db")
    with HubServer({"Salesforce/CRMArenaPro": files()}) as hub:
        shown = show(hub.url, tmp_path, "b2b", f"hub:{rows}", "local")
    assert isinstance(shown["cases"], int)
    assert shown["cases"] > 0


@pytest.mark.slow
def test_offline_is_one_clear_error(tmp_path: Path) -> None:
    shown = show("http://127.0.0.1:9", tmp_path, "b2b", "hub", HF_HUB_OFFLINE="1")
    error = str(shown["error"])
    assert error.startswith("Salesforce/CRMArenaPro CRMArenaPro/b2b cannot be loaded from the hub: ")
    assert "HF_HUB_OFFLINE" in error
    assert "--a2a-crm-data DIR" in error


def test_the_hub_alone_has_no_rows() -> None:
    with pytest.raises(ConfigurationError, match=r"no rows of its org; download crmarenapro_b2b_data\.db.*hub:DIR"):
        opening.make_source("b2b", crm_settings(crm_data="hub"))
    with pytest.raises(ConfigurationError, match="/nowhere does not exist"):
        opening.make_source("b2b", crm_settings(crm_data="hub:/nowhere"))
