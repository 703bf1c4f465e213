"""Between a benchmark's messages and A2A parts: the dialects that agents speak."""

from __future__ import annotations

from pytest_a2a_bench.dialects.auto import detect_request, form, get, names, settle
from pytest_a2a_bench.dialects.reading import DecodedReply, DecodedRequest, Dialect

__all__ = ["DecodedReply", "DecodedRequest", "Dialect", "detect_request", "form", "get", "names", "settle"]
