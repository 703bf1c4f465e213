"""What decides how many messages a check sends: what a card declares, and which prompts there are (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_a2a_bench.conformance.scenarios import SCENARIOS
from pytest_a2a_bench.conformance.session.target import Target

Facts = Mapping[str, Any]

_CAPABILITIES = ("streaming", "pushNotifications", "extendedAgentCard")
# A check asks for this many output modes at most, each by a message of its own.
_MODES = 3


def facts_of(target: Target, interfaces: Iterable[tuple[str, str]]) -> Facts:
    """Return everything that the number of messages may depend on, by name; values are those of JSON.

    :param interfaces: (binding, version) of all interfaces that are judged together.
    """
    every = list(interfaces)
    modes = _texts(target.card.get("defaultOutputModes"))
    found: dict[str, Any] = {f"declares {name}": target.declares(name) for name in _CAPABILITIES}
    found["output modes"] = min(_MODES, sum("*" not in mode for mode in modes))
    found["takes every input"] = any("*" in mode for mode in _texts(target.card.get("defaultInputModes")))
    found["extensions"] = "required" if target.required_extensions else bool(target.capabilities.get("extensions"))
    found["tenant"] = bool(target.tenant)
    found["wants credentials"] = target.wants_credentials
    first = next((b for b, v in every if v == target.version), "")
    # What is compared is compared with the first binding.
    found["compared with"] = first if first != target.binding else ""
    found["other version"] = any(b == target.binding and v != target.version for b, v in every)
    prompts = target.scenarios
    for key in SCENARIOS:
        if key not in ("default", "task"):
            found[f"prompt {key}"] = prompts.get(key) is not None
    found["two ordinary prompts"] = prompts.get("default") != prompts.get("task")
    return found


def _texts(value: Any) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []
