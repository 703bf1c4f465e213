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
    from pytest_a2a_bench.benchmarks.base import Outcome, TrialContext
    from pytest_a2a_bench.benchmarks.conversation import Conversation
    from pytest_a2a_bench.benchmarks.registry import Gold, Player, Suite
    from pytest_a2a_bench.config.setting import About
    from pytest_a2a_bench.config.settings import Settings
    from pytest_a2a_bench.dialects import DecodedReply, DecodedRequest, Dialect
    from pytest_a2a_bench.errors import (
        A2ABenchError,
        AgentOutcomeError,
        ConfigurationError,
        InfrastructureError,
        MissingExtraError,
    )
    from pytest_a2a_bench.model import (
        AgentSaid,
        BenchTask,
        Briefing,
        Part,
        ProtocolMetrics,
        Reward,
        ToolCall,
        ToolReturned,
        ToolSpec,
        TrialKey,
        TrialResult,
        Turn,
        Usage,
        UserSaid,
    )

__version__ = "0.1.0"

_HOMES = {
    name: module
    for module, names in {
        "errors": "A2ABenchError AgentOutcomeError ConfigurationError InfrastructureError MissingExtraError",
        "config.setting": "About",
        "a2a.client": "AgentConnection",
        "model": "AgentSaid BenchTask Briefing Part ProtocolMetrics Reward ToolCall ToolReturned ToolSpec TrialKey "
        "TrialResult Turn Usage UserSaid",
        "a2a.session": "AgentSession",
        "a2a.config": "ClientConfig",
        "benchmarks.conversation": "Conversation",
        "dialects": "DecodedReply DecodedRequest Dialect",
        "benchmarks.registry": "Gold Player Suite",
        "benchmarks.base": "Outcome TrialContext",
        "config.settings": "Settings",
    }.items()
    for name in names.split()
}

__all__ = [
    "A2ABenchError",
    "About",
    "AgentConnection",
    "AgentOutcomeError",
    "AgentSaid",
    "AgentSession",
    "BenchTask",
    "Briefing",
    "ClientConfig",
    "ConfigurationError",
    "Conversation",
    "DecodedReply",
    "DecodedRequest",
    "Dialect",
    "Gold",
    "InfrastructureError",
    "MissingExtraError",
    "Outcome",
    "Part",
    "Player",
    "ProtocolMetrics",
    "Reward",
    "Settings",
    "Suite",
    "ToolCall",
    "ToolReturned",
    "ToolSpec",
    "TrialContext",
    "TrialKey",
    "TrialResult",
    "Turn",
    "Usage",
    "UserSaid",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
