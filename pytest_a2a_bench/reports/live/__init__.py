"""A run in a browser while it goes on and after it: what its directory tells, a page around that, and its server."""

from __future__ import annotations

from pytest_a2a_bench.reports.live.server import Server
from pytest_a2a_bench.reports.live.watched import Watched

__all__ = ["Server", "Watched"]
