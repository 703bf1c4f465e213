"""The guide's recipes for CI systems: their YAML is read, and their shell commands are run as those systems do."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import doc_blocks
import pytest
import yaml
from doc_blocks import ROOT, blocks, commands
from harness import Bench

from pytest_a2a_bench.results import manifest

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "ci.md").read_text(encoding="utf-8")
SHARDS = GUIDE.partition("## Shards in CI")[2].partition("\n## ")[0]
TASKS = "ok-0-1 ok-0-2 bad-0-1 ok-0-3 ok-0-4 bad-0-2 ok-0-5 ok-0-6"


def recipe(number: int) -> list[Any]:
    return list(yaml.safe_load_all(re.findall(r"```yaml\n(.*?)```", SHARDS, re.DOTALL)[number]))


class Shell:
    """Runs a recipe's commands where the desk is the suite, and our own commands are those of this checkout."""

    def __init__(self, directory: Path, agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        commands = directory / "bin"
        commands.mkdir()
        programs = {
            "pip": "exit 0",
            "a2a-bench": f'exec {sys.executable} -m pytest_a2a_bench.cli "$@"',
            "pytest": f'exec {sys.executable} -m pytest -ppytest_a2a_bench.plugin -pxdist.plugin "$@"',
        }
        for name, line in programs.items():
            (commands / name).write_text(f"#!/bin/sh\n{line}\n")
            (commands / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(commands), prepend=os.pathsep)
        monkeypatch.setenv("AGENT_URL", agent)
        monkeypatch.setenv("DESK_TASKS", TASKS)

    def __call__(self, script: str, **variables: str) -> str:
        # Their suite is tau2's; ours is the desk, which needs no data. The desk has too few trials to prove a rate.
        # Without workers, which are dear to start and proven elsewhere.
        for theirs, ours in {"--a2a-suite airline": "-k desk", "-pass 0.6": "-pass 0.1", " -n 2": ""}.items():
            script = script.replace(theirs, ours)
        done = subprocess.run(
            ["sh", "-ec", script],
            cwd=self.directory,
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}"
        return done.stdout


@pytest.fixture
def shell(desk: Bench, noop_url: str, monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(desk.path, noop_url, monkeypatch)


def whole_of(place: Path) -> int:
    found = manifest.load(place)
    assert found.shard is None
    return len(found.keys)


@pytest.mark.slow
def test_github_actions(shell: Shell) -> None:
    (workflow,) = recipe(0)
    part, whole = workflow["jobs"]["part"], workflow["jobs"]["whole"]
    numbers = part["strategy"]["matrix"]["part"]
    assert whole["needs"] == "part"
    for number in numbers:
        shard = str(part["env"]["SHARD"])
        for name, value in {"matrix.part": number, "strategy.job-total": len(numbers)}.items():
            shard = shard.replace(f"${{{{ {name} }}}}", str(value))
        for step in part["steps"]:
            if "run" in step:
                shell(step["run"], SHARD=shard)
        shutil.move(shell.directory / "part", shell.directory / f"part-{number}")
    said = "".join(shell(step["run"]) for step in whole["steps"] if "run" in step)
    assert "8 trials of 4 directories" in said
    assert "a2a verdict: pass" in said
    assert whole_of(shell.directory / "whole") == 8


@pytest.mark.slow
def test_gitlab(shell: Shell) -> None:
    (pipeline,) = recipe(1)
    for number in range(1, pipeline["part"]["parallel"] + 1):
        for line in pipeline["part"]["script"]:
            shell(line, CI_NODE_INDEX=str(number), CI_NODE_TOTAL=str(pipeline["part"]["parallel"]))
    assert "a2a verdict: pass" in "".join(shell(line) for line in pipeline["whole"]["script"])
    assert whole_of(shell.directory / "whole") == 8
    assert (shell.directory / pipeline["whole"]["artifacts"]["reports"]["junit"]).exists()


@pytest.mark.slow
def test_kubernetes(shell: Shell) -> None:
    part, whole = recipe(2)
    spec = part["spec"]
    assert (spec["completionMode"], spec["completions"]) == ("Indexed", spec["parallelism"])
    (container,) = spec["template"]["spec"]["containers"]
    values = {variable["name"]: variable["value"] for variable in container["env"]}
    assert values["PARTS"] == str(spec["completions"])
    for index in [*range(spec["completions"]), 0]:  # one of them is evicted and started again
        said = shell(container["args"][0], JOB_COMPLETION_INDEX=str(index), RESULTS="stored", **values)
    assert "reused" in said
    (container,) = whole["spec"]["template"]["spec"]["containers"]
    said = shell(container["args"][0], RESULTS="stored")
    assert "a2a verdict: pass" in said
    assert whole_of(shell.directory / "stored" / "whole") == 8


def test_every_recipe_is_read() -> None:
    assert [len(recipe(number)) for number in range(3)] == [1, 1, 2]
    assert SHARDS.count("```yaml") == 3


# The documentation's command lines of pytest: those with a built-in agent are run, of the others what they select.


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
def test_commands_with_a_built_in_agent_run(name: str, words: list[str], bench: Bench) -> None:
    if "extensions.md" in name:
        shutil.copytree(EXTENSIONS, bench.path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
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
def test_documented_choices_exist(bench: Bench, noop_url: str) -> None:
    wrong = {}
    for words, name in _choices().items():
        result = bench("--a2a-endpoint", noop_url, "--co", "-q", *words)
        if result.ret:
            wrong[name, words] = "\n".join((*result.outlines[-3:], *result.errlines[-3:]))
    assert wrong == {}
