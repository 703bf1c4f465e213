"""A solver without a language model: it reads the task as an agent does and asks the org in SOQL and SOSL only.

It is the second way to every gold of the mini org, and what the built-in agent ``solver`` thinks with.
"""

from __future__ import annotations

from pytest_a2a_bench.benchmarks.crmarena.solve.plan import plan
from pytest_a2a_bench.benchmarks.crmarena.solve.task import AgentTask, Plan, Record, read_observation, solve

__all__ = ["AgentTask", "Plan", "Record", "plan", "read_observation", "solve"]
