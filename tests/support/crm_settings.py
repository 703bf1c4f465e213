"""Settings of a run with CRMArena's own options."""

from __future__ import annotations

from typing import Any

from pytest_a2a_bench.config.settings import Settings


def crm_settings(**values: Any) -> Settings:
    """Return settings; what begins with ``crm_`` becomes one of the benchmark's own options."""
    own = {name: value for name, value in values.items() if name.startswith("crm_")}
    core = {name: value for name, value in values.items() if name not in own}
    return Settings(**core, benchmark_options=own)
