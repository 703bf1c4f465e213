"""tau2's reference solutions, read from its data files and never from its code: an agent starts in a fraction of a
second.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from pytest_a2a_bench.benchmarks.registry import Gold, Player, Step
from pytest_a2a_bench.benchmarks.tau2.index import find_edition, load_task_json
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import MissingExtraError
from pytest_a2a_bench.language_models import contained_imports
from pytest_a2a_bench.model import ToolCall

_ASSERT = "assert_"
_UPDATE = "update_"
_EXPECTED = "expected_"
_WRITE = "write"
# What the tasks' faults leave the user to do: switches are on where they should be off, and the other way round.
_INSTRUCTIONS: Mapping[str, str] = {
    "toggle_airplane_mode": "Please turn airplane mode off.",
    "toggle_data": "Please turn mobile data on.",
    "toggle_roaming": "Please turn data roaming on.",
    "toggle_data_saver_mode": "Please turn data saver mode off.",
    "toggle_wifi_calling": "Please turn Wi-Fi calling off.",
    "disconnect_vpn": "Please disconnect your VPN.",
    "reseat_sim_card": "Please reseat your SIM card.",
    "reset_apn_settings": "Please reset your APN settings.",
    "reboot_device": "Please restart your phone.",
    "set_network_mode_preference": "Please set your network mode preference to {mode}.",
    "grant_app_permission": "Please grant the {app_name} app the {permission} permission.",
    "make_payment": "Please pay the bill that you were sent a payment request for.",
}


def load_gold(domain: str, task_id: str, settings: Settings | None = None) -> Gold:
    """Find the reference solution of a task.

    :param settings: say which edition's gold; without them it is the installed one's.
    :raises ConfigurationError: if there is no such task, or no such edition.
    """
    return read_gold(load_task_json(domain, task_id, find_edition(settings or Settings()).data))


def read_gold(task: Mapping[str, Any]) -> Gold:
    """Read the reference solution from a tau2 task object.

    Actions of the user's become instructions: the user simulator carries them out. Some tasks list no reference action
    and only say what must hold at the end (the mock domain has one): there the agent does what the checks ask for,
    where a tool by the matching name is on offer.
    """
    criteria = task.get("evaluation_criteria") or {}
    every = criteria.get("actions") or []
    actions = _of(every, "requestor", "assistant")
    own = [place for place, action in enumerate(every) if action.get("requestor", "assistant") == "user"]
    checks = _of(criteria.get("env_assertions"), "env_type", "assistant")
    derived = (_fulfil(c["func_name"], c.get("arguments") or {}) for c in checks)
    return Gold(
        calls=tuple(ToolCall(a["name"], a.get("arguments") or {}) for a in actions),
        communicate=tuple(str(text) for text in criteria.get("communicate_info") or ()),
        where_offered=tuple(call for call in derived if call is not None),
        instructions=tuple(_instruction(every[place]) for place in own),
        # Before each of the user's actions stand the agent's, and as many of the user's as come earlier.
        instructed_after=tuple(place - earlier for earlier, place in enumerate(own)),
    )


def _of(items: Iterable[Mapping[str, Any]] | None, key: str, whose: str) -> list[Mapping[str, Any]]:
    return [item for item in items or () if item.get(key, "assistant") == whose]


def _instruction(action: Mapping[str, Any]) -> str:
    """Describe a user's step, in words where they are known, else by the name of the user's tool."""
    arguments = action.get("arguments") or {}
    spoken = _INSTRUCTIONS.get(action["name"])
    if spoken is not None:
        return spoken.format_map(arguments)
    given = " with " + ", ".join(f"{name} {value}" for name, value in arguments.items()) if arguments else ""
    return f"Please use {action['name']}{given}."


def _fulfil(check: str, arguments: Mapping[str, Any]) -> ToolCall | None:
    """Turn ``assert_X(..., expected_Y=v)`` into ``update_X(..., Y=v)``."""
    if not check.startswith(_ASSERT):
        return None
    return ToolCall(
        _UPDATE + check.removeprefix(_ASSERT),
        {name.removeprefix(_EXPECTED): value for name, value in arguments.items()},
    )


def write_tools(domain: str) -> frozenset[str]:
    """Return the names of the agent's tools in a domain that tau2 itself marks as writing; see :func:`tool_names`."""
    return tool_names(domain, kind=_WRITE)


@lru_cache(maxsize=64)
def tool_names(domain: str, module: str = "tools", kind: str | None = None) -> frozenset[str]:
    """Return the names of the tools in a module of a domain.

    Imports the domain's tools only (half a second; no LLM library).

    :param module: ``tools`` are the agent's, ``user_tools`` the user's.
    :param kind: only those that tau2 marks so.
    :raises MissingExtraError: if tau2, or this module of it, is not installed.
    """
    try:
        with contained_imports():
            # Its warnings would stand between the lines of a command.
            importlib.import_module("loguru").logger.disable("tau2")
            # Module names have underscores where domains may have hyphens.
            code = importlib.import_module(f"tau2.domains.{domain.replace('-', '_')}.{module}")
            toolkit = importlib.import_module("tau2.environment.toolkit")
    except ImportError as error:
        raise MissingExtraError("tau2-bench", "tau2", detail=str(error)) from error
    base, attribute = toolkit.ToolKitBase, toolkit.TOOL_TYPE_ATTR
    # Whatever the class is called: domains name theirs as they like.
    kits = [cls for _, cls in inspect.getmembers(code, inspect.isclass) if issubclass(cls, base)]
    members = [member for kit in kits for member in inspect.getmembers(kit, inspect.isfunction)]
    kinds = {name: _kind(getattr(function, attribute, None)) for name, function in members}
    return frozenset(name for name, found in kinds.items() if found and (kind is None or found == kind))


def _kind(tool_type: object) -> str:
    return str(getattr(tool_type, "value", tool_type)).lower()


def rehearse(domain: str, task_id: str, settings: Settings, gold: Gold) -> tuple[Step, ...]:
    """Return the calls of a solution with their answers; see :class:`.Player`."""
    from pytest_a2a_bench.benchmarks.tau2 import rehearsal  # imports tau2, which no other agent needs

    return rehearsal.rehearse(domain, task_id, settings, gold)


PLAYER = Player(read_gold=load_gold, rehearse=rehearse, writing=write_tools)
