"""Whether this process's trials are traced, and until when."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping

from pytest_a2a_bench.plugin.run.state import BenchRun
from pytest_a2a_bench.settings import Settings
from pytest_a2a_bench.tracing import NO_TRACING, Tracing, is_configured

_NEEDED = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")


def is_installed() -> bool:
    """Tell whether what sends spans is installed, without importing it."""
    try:
        return all(importlib.util.find_spec(name) is not None for name in _NEEDED)
    except ModuleNotFoundError:
        return False


def is_wanted(settings: Settings, environ: Mapping[str, str]) -> bool:
    """Tell whether to trace: as the option says, or where OpenTelemetry is configured and installed."""
    if settings.otel == "auto":
        return is_configured(environ) and is_installed()
    return settings.otel == "on"


def start(run: BenchRun) -> Tracing:
    """Return what makes this process's spans.

    :raises MissingExtraError: if it was asked for and is not installed.
    """
    if not is_wanted(run.settings, os.environ):
        return NO_TRACING
    from pytest_a2a_bench.tracing.otel import open_tracing

    run.tracing = open_tracing()
    return run.tracing


def finish(run: BenchRun) -> None:
    """Send what was not sent yet."""
    if run.tracing is not None:
        run.tracing.close()
        run.tracing = None
