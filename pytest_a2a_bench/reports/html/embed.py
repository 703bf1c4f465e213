"""Data inside a page: JSON that cannot end its element, and compressed chunks that are read on demand (pure)."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from pytest_a2a_bench.reports.html.element import Html, el, verbatim

CHUNK = 256 * 1024
"""Characters of JSON in one chunk: small enough to be opened at once, large enough to compress well."""

_UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def safe_json(value: Any) -> str:
    """Return JSON that no parser of HTML or of old JavaScript takes for anything else.

    Numbers that JSON does not have become null.
    """
    return json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":")).translate(_UNSAFE)


def data_element(id: str, value: Any) -> Html:
    """Return an element that holds JSON and is never run."""
    return el("script", verbatim(safe_json(value)), type="application/json", id=id)


def chunk_elements(records: Iterable[Any]) -> Iterator[tuple[Html, int]]:
    """Yield an element for some records each, compressed, and how many records it holds."""
    held: list[str] = []
    size = index = 0
    for record in records:
        text = safe_json(record)
        held.append(text)
        size += len(text)
        if size >= CHUNK:
            yield _chunk(held, index), len(held)
            held, size, index = [], 0, index + 1
    if held:
        yield _chunk(held, index), len(held)


def _chunk(texts: list[str], index: int) -> Html:
    packed = zlib.compress(f"[{','.join(texts)}]".encode("utf-8", "replace"), 6)
    return el("script", verbatim(base64.b64encode(packed).decode()), type="text/plain", id=f"chunk-{index}")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value
