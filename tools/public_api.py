"""What users of this package build on: everything that must not change by accident.

``python tools/public_api.py`` writes it to ``tests/project/public_api.json``, with which a test compares.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest_a2a_bench
from pytest_a2a_bench import errors, schemas
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.cli import main as cli
from pytest_a2a_bench.config.setting import Setting
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import ExtraTurn, Reward, TrialKey, TrialResult, Usage, UserFault
from pytest_a2a_bench.plugin import fixtures, hookspecs, items, schedule
from pytest_a2a_bench.plugin.explanation import PREFIX
from pytest_a2a_bench.reports.reported import REPORTED_PROVENANCE

ROOT = Path(__file__).parents[1]
STORED = ROOT / "tests" / "project" / "public_api.json"
COMMAND = "python tools/public_api.py"

_FLAGS = (argparse._StoreTrueAction, argparse._StoreConstAction)


def gather() -> dict[str, Any]:
    """Return the public API as JSON, in an order of its own, so that a difference shows what changed."""
    return {
        "names": {name: _members(getattr(pytest_a2a_bench, name)) for name in sorted(pytest_a2a_bench.__all__)},
        "documented": _documented(),
        "errors": {name: _bases(each) for name, each in sorted(vars(errors).items()) if _is_error(each)},
        "settings": {setting.key: _setting(setting) for setting in registry.every_setting().values()},
        "commands": {name: _command(name) for name in cli.COMMANDS},
        "exit codes": {name: _exit_codes(name) for name in ("main", *cli.COMMANDS)},
        "markers": [line.partition(":")[0] for line in items.lines(registry.built_in())],
        "fixtures": _fixtures(fixtures),
        "hooks": _hooks(),
        "properties": properties(),
        "entry points": _entry_points(),
        "files": {
            f"{name}, version {form.version}": _members_of(schemas.load(name))
            for name, form in sorted(schemas.FORMS.items())
        },
    }


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, (errors.A2ABenchError, Warning))


def _members(value: Any) -> Any:
    """Return the signature of a function, the public members of a class, or what else a name stands for."""
    if isinstance(value, type):
        members = {n: _signature(getattr(value, n)) for n in dir(value) if not n.startswith("_")}
        inherited = {n for base in value.__mro__[1:] if base.__module__ == "builtins" for n in dir(base)}
        signature = "" if value is Settings else _signature(value)  # "settings" has its fields
        return {"": signature, **{n: text for n, text in sorted(members.items()) if n not in inherited}}
    return _signature(value) if callable(value) else type(value).__name__


def _signature(value: Any) -> str:
    if isinstance(value, property) or inspect.ismemberdescriptor(value):
        return "attribute"
    if not callable(value):
        return type(value).__name__
    if isinstance(value, type) and inspect.getattr_static(value, "__init__") is inspect.getattr_static(
        Exception, "__init__"
    ):
        return ""  # what Python says of these depends on its version
    try:
        return re.sub(r" at 0x[0-9a-f]+", "", str(inspect.signature(value)))
    except (TypeError, ValueError):
        return "(...)"


def _documented() -> list[str]:
    """Return what the reference page names, each of which can be imported."""
    text = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    return re.findall(r"^::: (\S+)$", text, re.MULTILINE)


def _bases(error: type) -> list[str]:
    return [base.__name__ for base in error.__bases__]


def _setting(setting: Setting) -> dict[str, Any]:
    return {"takes": setting.metavar, "default": setting.shown_default}


def _command(name: str) -> dict[str, str]:
    parser = argparse.ArgumentParser()
    cli.load_command(name).configure(parser)
    return {
        " ".join(action.option_strings) or action.dest: _argument(action)
        for action in parser._actions
        if not isinstance(action, argparse._HelpAction)
    }


def _exit_codes(name: str) -> dict[str, int]:
    return {n: v for n, v in vars(cli.load_command(name)).items() if n.isupper() and n[0] != "_" and type(v) is int}


def _argument(action: argparse.Action) -> str:
    takes = (
        "nothing" if isinstance(action, _FLAGS) else str(action.metavar or tuple(action.choices or ()) or action.dest)
    )
    return f"{takes}, default {action.default}" + (", required" if action.required else "")


def _fixtures(module: ModuleType) -> dict[str, str]:
    """Return the fixtures that users ask for or override, with their scopes."""
    found = {}
    for name, value in sorted(vars(module).items()):
        marker = getattr(value, "_fixture_function_marker", None)
        if marker is not None and not name.startswith("_"):
            found[name] = str(marker.scope)
    return found


def _hooks() -> dict[str, str]:
    return {n: str(inspect.signature(v)) for n, v in sorted(vars(hookspecs).items()) if n.startswith("pytest_a2a_")}


def properties() -> list[str]:
    """Return the names of all properties that a trial may have."""
    suites = registry.built_in()
    reported = [name for suite in suites for name in (*suite.reported, *suite.counts)]
    message: dict[str, Any] = dict.fromkeys((*REPORTED_PROVENANCE, *reported), "x")
    found = set()
    for suite in suites:
        result = TrialResult(
            TrialKey(suite.name, "domain", "1", 0, "label", "a"),
            "evaluated",
            "run",
            Reward(0.0),
            termination_reason="user_stop",
            error_type="E",
            agent_usage=Usage(1, 1, 1.0),
            estimated_usage=Usage(1, 1, 1.0),
            user_usage=Usage(1, 1, 1.0),
            seed=1,
            dialect="d",
            provenance={**message, "stopped": "s", "measured": dict.fromkeys(suite.counts, 1)},
            reused_from="r",
            category="c",
            blame="b",
            turn_latencies=(1.0,),
            user_fault=UserFault("never_stopped"),
            extra_turn=ExtraTurn(1.0),
            user_retries=(UserFault("ended_before_the_write"),),
            retry_error="LLMError: x",
        )
        found |= {PREFIX + name for name in schedule.properties(result, "path")}
    return sorted(found)


def _entry_points() -> Mapping[str, Any]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {**project["entry-points"], "console_scripts": project["scripts"]}


def _members_of(schema: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the members of a file's objects by the object's name; ``*`` marks what the writer always writes."""
    objects = {"": schema, **schema.get("$defs", {})}
    return {
        name: [member + ("*" if member in found.get("required", ()) else "") for member in sorted(found["properties"])]
        for name, found in sorted(objects.items())
        if "properties" in found
    }


def main() -> None:
    """Write the file."""
    STORED.write_text(json.dumps(gather(), indent=1, default=str) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
