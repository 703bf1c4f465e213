"""The files that ``a2a-bench init`` writes: their texts, and how a pyproject.toml gets a section (pure)."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_a2a_bench import __version__
from pytest_a2a_bench.benchmarks.registry import Suite
from pytest_a2a_bench.config.load import SECTION
from pytest_a2a_bench.config.settings import BUILTIN_PREFIX
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.installation import source
from pytest_a2a_bench.model import BenchTask

GATE = "a2a-gate.sh"
# Not called test_...: plain pytest goes on running the project's own tests, and asks no agent.
STARTER = "agent_tests/agent_checks.py"
QUARANTINE = "a2a-quarantine.toml"
WAIVERS = "a2a-waivers.toml"
HISTORY = "a2a-results/history.jsonl"
BASELINE = "a2a-baseline.json"
WORKFLOWS = {"github": ".github/workflows/a2a.yml", "gitlab": "a2a.gitlab-ci.yml", "script": ""}
"""CI system -> the file that runs the gate there."""
PROTOCOL = ("conformance", "card", "protocol")
"""The kinds of a gate without tasks: the card and the protocol, or one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The wishes for the gate: of the protocol alone, where there is no benchmark.

    :param endpoint: the agent's URL; empty where the environment names it.
    :param domain: the domain or suite that is run.
    :param given: settings of the command line, by key.
    """

    endpoint: str
    domain: str
    given: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksWish(Wish):
    """The wishes for a gate of a benchmark's tasks.

    :param tasks: those of the domain; the first two are in the starter suite.
    """

    suite: Suite
    tasks: Sequence[BenchTask]
    floor: float
    trials: int
    concurrency: int


def files(wish: Wish, ci: str) -> dict[str, str]:
    """Return path -> content, without pyproject.toml."""
    if isinstance(wish, TasksWish):
        found = {GATE: _gate(wish), STARTER: _starter(wish), QUARANTINE: _QUARANTINE}
    else:
        found = {GATE: _protocol_gate(wish), WAIVERS: _WAIVERS}
    if ci == "github":
        found[WORKFLOWS[ci]] = _github(wish)
    elif ci == "gitlab":
        found[WORKFLOWS[ci]] = _gitlab(wish)
    return found


def settings(wish: Wish) -> dict[str, str]:
    """Return the project's settings: the agent and the facts known about it, and no selection of tests.

    The history is the gate's alone: a run of some tasks has another rate than one of all.
    """
    found = {
        "endpoint": wish.endpoint,
        **wish.given,
        **({"quarantine": QUARANTINE} if isinstance(wish, TasksWish) else {"waivers": WAIVERS}),
    }
    return {key: value for key, value in found.items() if value}


def with_section(text: str, keys: Mapping[str, str]) -> str:
    """Return a pyproject.toml with settings in ``[tool.a2a-bench]``; settings that it has stay as they are.

    :raises ConfigurationError: if the text is not TOML, or has the table in a form that cannot be extended safely.
    """
    try:
        whole = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"pyproject.toml is no TOML: {error}") from error
    table = f"tool.{SECTION}"
    there = _table(_table(whole, "tool"), SECTION)
    lines = "".join(f"{key} = {_quoted(value)}\n" for key, value in keys.items() if key not in there)
    if not lines:
        return text
    head = re.search(rf"^\[{re.escape(table)}\][^\n]*(?:\n|\Z)", text, re.MULTILINE)
    if head is not None:
        begin = text[: head.end()] if head[0].endswith("\n") else text[: head.end()] + "\n"
        changed = begin + lines + text[head.end() :]
    elif there:
        raise ConfigurationError(f"pyproject.toml has no line [{table}]; add these lines yourself: {lines.strip()}")
    else:
        changed = (text.rstrip("\n") + "\n\n" if text.strip() else "") + f"[{table}]\n{lines}"
    _check(changed, text, table, keys)
    return changed


def _table(above: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = above.get(name, {})
    if not isinstance(found, dict):
        raise ConfigurationError(f"pyproject.toml: {name} is no table")
    return found


def _check(changed: str, text: str, table: str, keys: Mapping[str, str]) -> None:
    """Be sure that nothing else became different: a header may stand inside of a text that has several lines."""
    try:
        place, old = tomllib.loads(changed), tomllib.loads(text)
        for name in table.split("."):
            place, old = place[name], old.get(name, {})
    except (tomllib.TOMLDecodeError, KeyError):
        place = {}
    if place != {**keys, **old}:
        raise ConfigurationError(f"pyproject.toml cannot be changed safely; add to its table [{table}]: {dict(keys)}")


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _gate(wish: TasksWish) -> str:
    return f"""#!/bin/sh
# The gate of a merge: is the agent as good as it has to be? Exit code 0 is yes; a2a-results/verdict.json says why.
# With {BASELINE} beside it (a2a-bench gate --write-baseline {BASELINE}) it may not be worse than that, either.
{_begin(wish)}
if [ -e {BASELINE} ]; then set -- --a2a-baseline {BASELINE} "$@"; fi
exec pytest --a2a-endpoint "$endpoint" --a2a-wait 60 --a2a-suite {shlex.quote(wish.domain)} \\
    --a2a-trials {wish.trials} --a2a-concurrency {wish.concurrency} --a2a-min-pass {wish.floor:g} \\
    --a2a-history-file {HISTORY} --a2a-html a2a-results/report.html --junitxml a2a-results/junit.xml "$@"
"""


def _protocol_gate(wish: Wish) -> str:
    return f"""#!/bin/sh
# The gate of a merge: does the agent keep to the protocol? Exit code 0 is yes; a2a-results/report.html says why.
# {WAIVERS} has what may be wrong for a while: a2a-bench check URL --waivers {WAIVERS} --accept REASON
{_begin(wish)}
exec pytest --a2a-endpoint "$endpoint" --a2a-wait 60 --a2a-suite {wish.domain} \\
    --a2a-html a2a-results/report.html --junitxml a2a-results/junit.xml "$@"
"""


def _begin(wish: Wish) -> str:
    return f"""set -eu
cd "$(dirname "$0")"
endpoint=${{A2A_ENDPOINT:-}}
if [ -z "$endpoint" ]; then endpoint={shlex.quote(wish.endpoint)}; fi"""


def _starter(wish: TasksWish) -> str:
    tasks = ", ".join(f'"{task.task_id}"' for task in wish.tasks[:2])
    return f'''"""Tests of our agent. Run them by name, and leave the gate's results alone:

pytest {STARTER} --a2a-results a2a-results/checks
"""

import pytest


@pytest.mark.{wish.suite.name}("{wish.domain}", tasks=[{tasks}], label="starter")
def test_it_works_and_does_not_dawdle(trial):
    assert trial.success
    assert trial.turns <= 30
    assert trial.latency < 30  # seconds, the median of its answers


@pytest.mark.conformance("card", level="MUST")
def test_its_card_is_right(conformance_check):
    assert conformance_check.passed
'''


_QUARANTINE = """\
# Tasks that are known to be flaky. They run and are reported; their misses fail nothing and count in no rate.
#
# [[quarantine]]
# task = "tau2/airline/1*"   # a task's key, or a pattern
# reason = "why, and where it is worked on"
# expires = 2030-01-31       # the last day on which this counts
"""


_WAIVERS = f"""\
# What is known to be wrong with the agent's protocol. It fails nothing until its last day, and every report has it.
# a2a-bench check URL --waivers {WAIVERS} --accept REASON adds what fails today.
#
# [[waiver]]
# id = "SEND-003"            # a requirement
# reason = "why, and where it is worked on"
# expires = 2030-01-31       # the last day on which this counts
"""


_SOURCE = "A2A_BENCH_SOURCE"
"""Variable of the CI system that says where pip finds a copy that was installed from a directory here."""

# By commit: a tag can be moved. The version is what people and update bots read.
_CHECKOUT = "actions/checkout@de0fac2e4500dabe0009e67214ff5f5447ce83dd # v6.0.2"
_PYTHON = "actions/setup-python@a309ff8b426b58ec0e2a45f0f869d46889d02405 # v6.2.0"
_RESTORE, _SAVE = (
    f"actions/cache/{what}@cdf6c1fa76f9f475f3d7449005a359c84ca0f306 # v5.0.3" for what in ("restore", "save")
)
_UPLOAD = "actions/upload-artifact@043fb46d1a93c77aae656e7c1c64a875d1fc6a0a # v7.0.1"


def _install(wish: Wish) -> str:
    """Return the command that installs the copy that runs here, as PEP 610's ``direct_url.json`` describes it."""
    extras = ["agents"] if wish.endpoint.startswith(BUILTIN_PREFIX) else []
    if isinstance(wish, TasksWish):
        extras += ["tau2", "xdist"] if wish.suite.name == "tau2" else ["xdist"]
    name = f"pytest-a2a-bench[{','.join(extras)}]" if extras else "pytest-a2a-bench"
    found = source()
    if not found:
        return f"pip install '{name}=={__version__}'"
    if found.startswith("file:"):
        return f'pip install "{name} @ ${{{_SOURCE}:?see the comment on it}}"'
    return f"pip install '{name} @ {found}'"


def needs_source() -> bool:
    """Return whether CI needs the place of this copy for pip: it was installed from a directory."""
    return source().startswith("file:")


def _about_source(indent: str) -> str:
    return (
        f"{indent}# pytest-a2a-bench was installed here from a directory, which CI does not have. Its URL for pip:\n"
        f"{indent}# git+https://HOST/OWNER/pytest-a2a-bench@COMMIT, or file:///PATH where CI has a checkout.\n"
    )


def _github(wish: Wish) -> str:
    given = {} if wish.endpoint.startswith(BUILTIN_PREFIX) else {"A2A_ENDPOINT": "vars.A2A_ENDPOINT"}
    token = wish.given.get("auth-env") or "A2A_AUTH_TOKEN"
    given[token] = f"secrets.{token}"
    environment = "".join(f"      {name}: ${{{{ {value} }}}}\n" for name, value in given.items())
    if needs_source():
        environment += f"{_about_source('      ')}      {_SOURCE}: ${{{{ vars.{_SOURCE} }}}}\n"
    kept = f"""\
        with:
          path: {HISTORY}
          key: a2a-history-${{{{ github.run_id }}}}-${{{{ github.run_attempt }}}}
"""
    # The rates of earlier runs, those that failed too; a pull request is shown beside those of main.
    restore = f"      - uses: {_RESTORE}\n{kept}          restore-keys: a2a-history-\n"
    save = f"      - uses: {_SAVE}\n        if: always()\n{kept}"
    if not isinstance(wish, TasksWish):
        restore = save = ""
    return f"""\
name: a2a
on:
  push:
    branches: [main]
  pull_request:
  workflow_dispatch:
permissions:
  contents: read
concurrency:
  group: a2a-${{{{ github.ref }}}}
  cancel-in-progress: true
jobs:
  gate:
    name: gate
    runs-on: ubuntu-latest
    timeout-minutes: 60
    env:
{environment}    steps:
      - uses: {_CHECKOUT}
        with:
          persist-credentials: false
      - uses: {_PYTHON}
        with:
          python-version: "3.12"
          cache: pip
          cache-dependency-path: {WORKFLOWS["github"]}
{restore}\
      - run: {_install(wish)}
      # If your agent is not deployed somewhere, start it here, in the background: the gate waits for it.
      - run: sh {GATE}
{save}\
      - uses: {_UPLOAD}
        if: always()
        with:
          name: a2a
          path: a2a-results
"""


def _gitlab(wish: Wish) -> str:
    source = f", and {_SOURCE}:\n{_about_source('').rstrip()}" if needs_source() else "."
    kept = [".cache/pip", *([HISTORY] if isinstance(wish, TasksWish) else [])]
    return f"""\
# In .gitlab-ci.yml: include: [{{local: {WORKFLOWS["gitlab"]}}}]
# A2A_ENDPOINT and {wish.given.get("auth-env") or "A2A_AUTH_TOKEN"} are variables of the project{source}
a2a-gate:
  image: python:3.12
  timeout: 1h
  variables:
    PIP_CACHE_DIR: $CI_PROJECT_DIR/.cache/pip
  cache:
    key: a2a
    when: always
    paths: [{", ".join(kept)}]
  script:
    - {_install(wish)}
    # If your agent is not deployed somewhere, start it here, in the background: the gate waits for it.
    - sh {GATE}
  artifacts:
    when: always
    paths: [a2a-results]
    reports:
      junit: a2a-results/junit.xml
"""
