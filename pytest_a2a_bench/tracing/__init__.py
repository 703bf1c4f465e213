"""Spans of trials, turns and requests, for whoever collects them; nothing happens where nobody does.

This module knows no OpenTelemetry: :mod:`pytest_a2a_bench.tracing.otel` does, imported only where spans are wanted.
Parents are passed explicitly, because a trial begins in one thread and its requests are sent from another.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from typing import Literal

Value = str | int | float | bool
Kind = Literal["internal", "client", "server"]

CONFIGURING = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER")
"""Environment variables of OpenTelemetry that say where spans go."""

_NEEDED = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")


class Span:
    """Something that takes time. This one is of nobody's interest; a tracer's are of a subclass."""

    def child(self, name: str, kind: Kind = "internal", attributes: Mapping[str, Value | None] | None = None) -> Span:
        """Begin a span inside this one; attributes that are None are left out."""
        return self

    def set(self, attributes: Mapping[str, Value | None]) -> None:
        """Add attributes, except for those that are None."""

    def event(self, name: str, attributes: Mapping[str, Value | None]) -> None:
        """Note that something happened."""

    def fail(self, error_type: str, description: str = "") -> None:
        """Mark the span as failed."""

    def end(self) -> None:
        """End the span."""

    def headers(self) -> dict[str, str]:
        """Return what tells the other side which span it works for: ``traceparent``, and ``tracestate`` if any."""
        return {}


class PassedOn(Span):
    """The span of whoever asked us, handed on to whom we ask, by a process that makes none of its own.

    :param context: ``traceparent``, and ``tracestate`` if any.
    """

    def __init__(self, context: Mapping[str, str]) -> None:
        self._context = dict(context)

    def headers(self) -> dict[str, str]:
        """Return what the asker sent."""
        return dict(self._context)


class Tracing:
    """Where spans begin. This one makes none."""

    def trial(self, key: str, attributes: Mapping[str, Value | None]) -> Span:
        """Begin a trial's span."""
        return NO_SPAN

    def asked(self, name: str, attributes: Mapping[str, Value | None], context: Mapping[str, str]) -> Span:
        """Begin the span of what somebody else asked for.

        :param context: the W3C trace context of the request, as :func:`context_of` returns it; may be empty.
        """
        return PassedOn(context) if context else NO_SPAN

    def close(self) -> None:
        """Send what was not sent yet."""


class Within(Tracing):
    """Spans that begin inside another one, which somebody else ends."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def trial(self, key: str, attributes: Mapping[str, Value | None]) -> Span:
        """Begin a trial's span."""
        return self._span.child(f"trial {key}", "internal", attributes)


NO_SPAN = Span()
NO_TRACING = Tracing()


_TRACEPARENT = re.compile(r"[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[ -~]{0,200})?")
_TRACESTATE = re.compile(r"[ -~]{1,512}")


def context_of(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the W3C trace context among a request's headers, by names in lower case; empty where there is none.

    What is no context is dropped, not handed on: it comes from a stranger.
    """
    parent, state = headers.get("traceparent", ""), headers.get("tracestate", "")
    # ff is no version, and 00 has these four members only.
    if not _TRACEPARENT.fullmatch(parent) or parent.startswith("ff") or (parent.startswith("00") and len(parent) > 55):
        return {}
    return {"traceparent": parent} | ({"tracestate": state} if _TRACESTATE.fullmatch(state) else {})


def is_configured(environ: Mapping[str, str]) -> bool:
    """Return whether OpenTelemetry's own variables ask for spans."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        return False
    return any(environ.get(name) for name in CONFIGURING)


def is_installed() -> bool:
    """Return whether what sends spans is installed, without importing it."""
    try:
        return all(importlib.util.find_spec(name) is not None for name in _NEEDED)
    except ModuleNotFoundError:
        return False


def is_wanted(otel: str, environ: Mapping[str, str]) -> bool:
    """Return whether to trace: as ``otel`` says, for ``auto`` where OpenTelemetry is configured and installed."""
    if otel == "auto":
        return is_configured(environ) and is_installed()
    return otel == "on"
