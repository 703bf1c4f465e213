"""Agents to test against: real A2A servers, started by ``builtin:NAME`` or by ``a2a-bench agent NAME``.

Importing this package imports none of them; see :mod:`pytest_a2a_bench.agents.options` for the way in.
"""

from __future__ import annotations
