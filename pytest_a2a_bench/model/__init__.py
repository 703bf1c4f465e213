"""The vocabulary of the house: plain data, no third-party imports.

Everything that crosses a floor (a key, a message part, a metric, a result) is one of these frozen dataclasses.
Those that are written to disk have ``to_json``, made of dict, list, str, int, float, bool and None only; they are read
by ``results.store``.
"""

from __future__ import annotations

from pytest_a2a_bench.model.messages import AgentSaid as AgentSaid
from pytest_a2a_bench.model.messages import BenchTask as BenchTask
from pytest_a2a_bench.model.messages import Briefing as Briefing
from pytest_a2a_bench.model.messages import Cost as Cost
from pytest_a2a_bench.model.messages import DialectFinding as DialectFinding
from pytest_a2a_bench.model.messages import Event as Event
from pytest_a2a_bench.model.messages import Part as Part
from pytest_a2a_bench.model.messages import ToolAccess as ToolAccess
from pytest_a2a_bench.model.messages import ToolCall as ToolCall
from pytest_a2a_bench.model.messages import ToolReturned as ToolReturned
from pytest_a2a_bench.model.messages import ToolSpec as ToolSpec
from pytest_a2a_bench.model.messages import TrialKey as TrialKey
from pytest_a2a_bench.model.messages import Usage as Usage
from pytest_a2a_bench.model.messages import UserSaid as UserSaid
from pytest_a2a_bench.model.messages import dollars as dollars
from pytest_a2a_bench.model.messages import slugify as slugify
from pytest_a2a_bench.model.messages import sum_usage as sum_usage
from pytest_a2a_bench.model.results import REWARD_TOLERANCE as REWARD_TOLERANCE
from pytest_a2a_bench.model.results import SCHEMA_VERSION as SCHEMA_VERSION
from pytest_a2a_bench.model.results import USER_FAULTS as USER_FAULTS
from pytest_a2a_bench.model.results import ExtraTurn as ExtraTurn
from pytest_a2a_bench.model.results import MetricsAggregate as MetricsAggregate
from pytest_a2a_bench.model.results import Party as Party
from pytest_a2a_bench.model.results import PartyRole as PartyRole
from pytest_a2a_bench.model.results import ProtocolMetrics as ProtocolMetrics
from pytest_a2a_bench.model.results import Reward as Reward
from pytest_a2a_bench.model.results import RewardCheck as RewardCheck
from pytest_a2a_bench.model.results import Role as Role
from pytest_a2a_bench.model.results import TrialResult as TrialResult
from pytest_a2a_bench.model.results import TrialStatus as TrialStatus
from pytest_a2a_bench.model.results import Turn as Turn
from pytest_a2a_bench.model.results import UserFault as UserFault
from pytest_a2a_bench.model.results import percentile as percentile
