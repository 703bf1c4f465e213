"""Findings that a public SDK itself makes, recognised by how the agent behaves; nothing is waived because of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from pytest_a2a_bench.conformance.report import CheckRow

_LEAST = 3
"""Fewest checks by which an SDK is recognised."""
_BROKEN = ("failed", "warned", "waived", "explained")


@dataclass(frozen=True, slots=True)
class KnownSdk:
    """What is known of an SDK.

    :param name: with the version that was judged.
    :param findings: requirement id -> what the SDK does, and the URL of upstream's issue (empty where none is known).
    """

    name: str
    findings: Mapping[str, tuple[str, str]]


@cache
def _known() -> tuple[KnownSdk, ...]:
    text = (files("pytest_a2a_bench.conformance") / "data" / "known.json").read_text(encoding="utf-8")
    return tuple(
        KnownSdk(one["sdk"], {id: (what, url) for id, (what, url) in one["findings"].items()})
        for one in json.loads(text)
    )


def sdk_of(rows: Iterable[CheckRow]) -> KnownSdk | None:
    """Return the SDK that the agent behaves like: each check that is known to break there, and was judged, is broken.

    The one with the most such checks, if it is three or more; None for an agent that behaves like none.
    """
    of_1_0 = [row for row in rows if row.version == "1.0" and row.status not in ("skipped", "error", "inconclusive")]
    kept = {row.id for row in of_1_0 if row.status == "passed"}
    broken = {row.id for row in of_1_0 if row.status in _BROKEN}
    found = [(len(broken & set(sdk.findings)), sdk) for sdk in _known() if not kept & set(sdk.findings)]
    most, sdk = max(found, key=lambda pair: pair[0], default=(0, None))
    return sdk if most >= _LEAST else None


def known_lines(rows: Iterable[CheckRow]) -> list[str]:
    """Return what of the failures the SDK makes, and where that is reported; none where no SDK is recognised."""
    every = list(rows)
    sdk = sdk_of(every)
    ids = dict.fromkeys(
        row.id for row in every if sdk and row.status in ("failed", "warned") and row.id in sdk.findings
    )
    if sdk is None or not ids:
        return []
    lines = [f"known of {sdk.name}, not yours (it counts all the same; a waiver excuses it):"]
    return [*lines, *(f"  {id}: {what}{f' ({url})' if url else ''}" for id in ids for what, url in [sdk.findings[id]])]
