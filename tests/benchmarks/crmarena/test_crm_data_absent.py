"""Nothing of upstream's data (CC BY-NC) is in this project, nor in the mini org's tasks. Skips without it."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mini_orgs import mini, published

ROOT = Path(__file__).parents[3]
FOLDERS = ("pytest_a2a_bench", "tests", "docs", "examples", "example_suites", "perf")
SUFFIXES = {".py", ".md", ".json", ".toml", ".txt", ".yml", ".yaml", ".html", ".js", ".css", ".jsonl", ".cfg", ".ini"}
RUN = 7
"""So many words in a row are nobody's by chance."""

_ID = re.compile(r"\b(?=\w*\d)[a-zA-Z0-9]{15}(?:[A-Z0-5]{3})?\b")


def _words(text: str) -> list[str]:
    # A literal that goes on in the next line is one text.
    joined = re.sub(r'"\s*\n\s*f?"', "", text)
    return re.findall(r"[a-z0-9_']+", joined.lower())


def _runs(text: str) -> Iterator[tuple[str, ...]]:
    words = _words(text)
    return (tuple(words[at : at + RUN]) for at in range(len(words) - RUN + 1))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


@pytest.fixture(scope="module")
def tasks() -> list[str]:
    rows = json.loads(published("b2b_tasks.json").read_text(encoding="utf-8"))
    return [text for row in rows for text in _texts(row)]


@pytest.fixture(scope="module")
def runs(tasks: list[str]) -> set[tuple[str, ...]]:
    found = {run for text in tasks for run in _runs(text)}
    assert len(found) > 20_000
    return found


@pytest.fixture(scope="module")
def ids(tasks: list[str]) -> set[str]:
    found = {each[:15] for text in tasks for each in _ID.findall(text)}
    connection = sqlite3.connect(f"file:{published('b2b_partial.db')}?mode=ro", uri=True)
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        for row in connection.execute(f'SELECT * FROM "{table}"'):
            found |= {each[:15] for value in row if isinstance(value, str) for each in _ID.findall(value)}
    connection.close()
    assert len(found) > 1500
    return found


def _tree() -> Iterator[tuple[Path, str]]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                yield path, path.read_text(encoding="utf-8", errors="replace")
    for path in sorted(ROOT.glob("*.md")):
        yield path, path.read_text(encoding="utf-8")


def test_no_id_of_the_published_orgs_is_in_the_tree(ids: set[str]) -> None:
    seen = 0
    for path, text in _tree():
        seen += 1
        assert not [each for each in _ID.findall(text) if each[:15] in ids], path
    assert seen > 300


def test_no_sentence_of_the_published_tasks_is_in_the_tree(runs: set[tuple[str, ...]]) -> None:
    for path, text in _tree():
        assert not [" ".join(run) for run in _runs(text) if run in runs], path


@pytest.mark.parametrize("seed", [1, 2])
def test_no_task_of_the_mini_org_reads_like_a_published_one(runs: set[tuple[str, ...]], seed: int) -> None:
    for task in mini(seed).tasks:
        for text in (task.query, task.required, task.optional, task.persona):
            assert not [" ".join(run) for run in _runs(text) if run in runs], text
