"""The documentation's command lines of pytest: those with a built-in agent are run, of the others what they select."""

from __future__ import annotations

import shutil
from pathlib import Path

import doc_blocks
import pytest
from doc_blocks import ROOT, blocks, commands
from harness import Bench

EXTENSIONS = ROOT / "example_suites" / "extensions"

ELSEWHERE = (" -n ", "a2a-user/")
"""What is in commands with a built-in agent that take long: ``.ci/run`` or another test runs their like."""

CHOOSING = ("-k", "-m", "--a2a-suite", "--a2a-split")


def _lines() -> list[tuple[str, list[str]]]:
    """Return the distinct command lines of pytest, each with where it stands first."""
    found: dict[str, tuple[str, list[str]]] = {}
    for page in doc_blocks.PAGES:
        for block in blocks(page):
            if block.kind != "shell" or block.why or block.is_output:
                continue
            for command, *words in commands(block.text):
                if command == "pytest" and "..." not in words:
                    found.setdefault(" ".join(words), (block.name, words))
    return list(found.values())


EVERY = _lines()
RUN = [
    (name, words)
    for name, words in EVERY
    if any("builtin:" in word for word in words) and not any(part in " ".join(words) for part in ELSEWHERE)
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "words"), RUN, ids=[f"{Path(n).name}-{' '.join(w[2:])[:50]}" for n, w in RUN])
def test_commands_with_a_built_in_agent_run(
    name: str, words: list[str], pytester: pytest.Pytester, bench: Bench
) -> None:
    if "extensions.md" in name:
        shutil.copytree(EXTENSIONS, pytester.path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    result = bench(*words)
    # An agent that does nothing, or knows another job, fails: that is what the page shows.
    helpless = any(agent in " ".join(words) for agent in ("noop", "readonly", "clerk"))
    assert result.ret in ((0, 1) if helpless else (0,))
    outcomes = result.parseoutcomes()
    assert outcomes.get("passed", 0) + outcomes.get("failed", 0) > 0


def _choice(words: list[str]) -> tuple[str, ...]:
    """Return the words that choose trials, and nothing about the agent, files or gates."""
    chosen = []
    for number, word in enumerate(words):
        if word in CHOOSING:
            chosen += [word, words[number + 1]]
        elif word.startswith((*(f"{name}=" for name in CHOOSING), "a2a/")):
            chosen.append(word)
    return tuple(chosen)


def _choices() -> dict[tuple[str, ...], str]:
    found: dict[tuple[str, ...], str] = {}
    for name, words in EVERY:
        # Of another edition of tau2, of data that nobody may pass on, and of a project that the reader has.
        if any(".py" in word for word in words):
            continue
        absent = ("banking", "test_mock[a-", "b2b", "b2c", "original", "telecom_full")
        if not any(part in " ".join(words) for part in absent) and "extensions.md" not in name:
            found.setdefault(_choice(words), name)
    found.pop((), None)
    return found


@pytest.mark.slow
def test_what_commands_choose_is_there(bench: Bench, noop_url: str) -> None:
    wrong = {}
    for words, name in _choices().items():
        result = bench("--a2a-endpoint", noop_url, "--co", "-q", *words)
        if result.ret:
            wrong[name, words] = "\n".join((*result.outlines[-3:], *result.errlines[-3:]))
    assert wrong == {}
