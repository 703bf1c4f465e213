"""Point pytest at an A2A agent: tau2-bench tasks as ordinary pytest items, rewards as assertions.

The package is used through pytest (``pytest --a2a-endpoint URL``) and through the command ``a2a-bench``. What a test
or a tool may import is listed in :data:`__all__`; names are looked up when they are first used, because this package
is loaded in every pytest run of its users.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.client import AgentConnection
    from pytest_a2a_bench.a2a.config import ClientConfig
    from pytest_a2a_bench.a2a.session import AgentSession
    from pytest_a2a_bench.errors import (
        A2ABenchError,
        AgentOutcomeError,
        ConfigurationError,
        InfrastructureError,
        MissingExtraError,
    )
    from pytest_a2a_bench.model import BenchTask, Part, ProtocolMetrics, ToolCall, TrialKey, TrialResult, Turn, Usage
    from pytest_a2a_bench.settings import Settings

__version__ = "0.1.0"

_HOMES = {
    "A2ABenchError": "errors",
    "AgentConnection": "a2a.client",
    "AgentOutcomeError": "errors",
    "AgentSession": "a2a.session",
    "BenchTask": "model",
    "ClientConfig": "a2a.config",
    "ConfigurationError": "errors",
    "InfrastructureError": "errors",
    "MissingExtraError": "errors",
    "Part": "model",
    "ProtocolMetrics": "model",
    "Settings": "settings",
    "ToolCall": "model",
    "TrialKey": "model",
    "TrialResult": "model",
    "Turn": "model",
    "Usage": "model",
}

__all__ = [
    "A2ABenchError",
    "AgentConnection",
    "AgentOutcomeError",
    "AgentSession",
    "BenchTask",
    "ClientConfig",
    "ConfigurationError",
    "InfrastructureError",
    "MissingExtraError",
    "Part",
    "ProtocolMetrics",
    "Settings",
    "ToolCall",
    "TrialKey",
    "TrialResult",
    "Turn",
    "Usage",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
