"""The vocabulary of the house: plain data, no third-party imports.

Everything that crosses a floor (a key, a message part, a metric, a result) is one of these frozen dataclasses.
Those that are written to disk have ``to_json``, made of dict, list, str, int, float, bool and None only; they are read
by ``results.store``.
"""

from __future__ import annotations

from pytest_a2a_bench.model.messages import (
    AgentSaid,
    BenchTask,
    Briefing,
    Cost,
    DialectFinding,
    Event,
    Part,
    ToolAccess,
    ToolCall,
    ToolReturned,
    ToolSpec,
    TrialKey,
    Usage,
    UserSaid,
    dollars,
    slugify,
    sum_usage,
)
from pytest_a2a_bench.model.results import (
    REWARD_TOLERANCE,
    SCHEMA_VERSION,
    USER_FAULTS,
    ExtraTurn,
    MetricsAggregate,
    Party,
    PartyRole,
    ProtocolMetrics,
    Reward,
    RewardCheck,
    Role,
    TrialResult,
    TrialStatus,
    Turn,
    UserFault,
    percentile,
)

__all__ = [
    "REWARD_TOLERANCE",
    "SCHEMA_VERSION",
    "USER_FAULTS",
    "AgentSaid",
    "BenchTask",
    "Briefing",
    "Cost",
    "DialectFinding",
    "Event",
    "ExtraTurn",
    "MetricsAggregate",
    "Part",
    "Party",
    "PartyRole",
    "ProtocolMetrics",
    "Reward",
    "RewardCheck",
    "Role",
    "ToolAccess",
    "ToolCall",
    "ToolReturned",
    "ToolSpec",
    "TrialKey",
    "TrialResult",
    "TrialStatus",
    "Turn",
    "Usage",
    "UserFault",
    "UserSaid",
    "dollars",
    "percentile",
    "slugify",
    "sum_usage",
]
