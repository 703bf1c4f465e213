"""A small Hugging Face hub over real HTTP: data sets of JSON files at one commit, as its clients ask for them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from threaded_http import Handler, HttpServer

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
