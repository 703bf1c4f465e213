"""What a fresh environment of tau2 is and does, as text that can be compared; alone, it is that of a fresh process.

``python tau2_probe.py DOMAIN...`` uses upstream's own constructors and nothing that this package does to them; only
LiteLLM, which no environment uses, is left out to save seconds.
"""

import contextlib
import importlib
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

UNUSED: dict[str, dict[str, Any]] = {
    "suspend_line": {"customer_id": "C1001", "line_id": "L1001", "reason": "lost"},
    "set_apn_settings": {"apn_settings": {"apn_name": "broken", "reset_at_reboot": False}},
}
"""Arguments for tools that change something, and that no task needs."""


def stock_constructor(domain: str) -> Callable[[], Any]:
    module = importlib.import_module(f"tau2.domains.{domain}.environment")
    construct: Callable[[], Any] = getattr(module, "get_environment_manual_policy", module.get_environment)
    return construct


def probe(construct: Callable[[], Any]) -> dict[str, Any]:
    """Return a fresh environment's state, and what all that it can do without being told how makes of it."""
    environment = construct()
    found: dict[str, Any] = {"fresh": state(environment)}
    for toolkit in toolkits(environment):
        for name in plain_methods(toolkit):
            try:
                found[f"{type(toolkit).__name__}.{name}"] = repr(getattr(toolkit, name)())
            except Exception as error:  # what it says is part of how it behaves
                found[f"{type(toolkit).__name__}.{name}"] = repr(error)
    found["used"] = state(environment)
    return found


def toolkits(environment: Any) -> list[Any]:
    return [t for t in (environment.tools, environment.user_tools) if t is not None]


def plain_methods(toolkit: Any) -> Iterator[str]:
    """Yield the public methods of a domain's toolkit that need no arguments; those that all toolkits have only read."""
    common = {name for cls in type(toolkit).__mro__ if cls.__name__ == "ToolKitBase" for name in vars(cls)}
    for name, method in inspect.getmembers(type(toolkit), inspect.isfunction):
        needed = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
        if not name.startswith("_") and name not in common and len(needed) == 1:
            yield name


def state(environment: Any) -> list[Any]:
    return [t.db.model_dump(mode="json") if t.db is not None else None for t in toolkits(environment)]


def use_everything(environment: Any, tasks: list[Any]) -> set[str]:
    """Do all that a domain's tasks do in one environment, and all that needs no arguments; return what was done."""
    done: set[str] = set()
    for task in tasks:
        initial = task.initial_state
        for action in (initial.initialization_actions if initial else None) or []:
            toolkit = environment.user_tools if action.env_type == "user" else environment.tools
            with contextlib.suppress(Exception):
                getattr(toolkit, action.func_name)(**action.arguments)
            done.add(action.func_name)
        for action in (task.evaluation_criteria.actions if task.evaluation_criteria else None) or []:
            with contextlib.suppress(Exception):
                environment.make_tool_call(action.name, requestor=action.requestor, **action.arguments)
            done.add(action.name)
    for toolkit in toolkits(environment):
        for name, arguments in UNUSED.items():
            if toolkit.has_tool(name):
                toolkit.use_tool(name, **arguments)
                done.add(name)
        for name in plain_methods(toolkit):
            with contextlib.suppress(Exception):
                getattr(toolkit, name)()
            done.add(name)
    return done


if __name__ == "__main__":
    from pytest_a2a_bench.benchmarks.tau2.upstream import deferred_imports

    with deferred_imports():
        constructors = {domain: stock_constructor(domain) for domain in sys.argv[1:]}
    json.dump({domain: probe(construct) for domain, construct in constructors.items()}, sys.stdout)
