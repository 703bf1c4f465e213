"""What is wrong with an agent today, written down as waivers, so that a gate fails for what is new only (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from pytest_a2a_bench.conformance.finding import ACTS, outcome_of
from pytest_a2a_bench.conformance.report import Judgement
from pytest_a2a_bench.conformance.waivers import Waiver
from pytest_a2a_bench.redact import one_line

_FOUND = 110


def to_accept(judgements: Iterable[Judgement], *, strict: bool = False) -> list[Judgement]:
    """Return what needs a waiver, so that a run of the same agent passes.

    What is explained by another check is among it: waived checks explain nothing, so that it would stand for itself as
    soon as its cause is waived. Checks of ACTS files cannot be waived.

    :param strict: whether a SHOULD that is not kept fails a run.
    """
    failing = ("failed", "warned") if strict else ("failed",)
    return [
        j
        for j in judgements
        if j.result.requirement.group != ACTS
        and (j.status == "failed" or (j.status == "explained" and outcome_of(j.findings) in failing))
    ]


def waiver_for(judgement: Judgement, reason: str) -> Waiver:
    """Return the waiver of one check, in its version and on its binding only."""
    entry = judgement.result.requirement
    return Waiver(entry.id, reason, binding=judgement.result.binding, version=entry.version)


def to_toml(judgements: Iterable[Judgement], reason: str) -> str:
    """Return the tables of a file of waivers, each with what was found.

    :param reason: printable text.
    """
    return "".join(f"{line}\n" for judgement in judgements for line in _table(judgement, reason))


def _table(judgement: Judgement, reason: str) -> Iterator[str]:
    waiver = waiver_for(judgement, reason)
    found = judgement.findings[0].found if judgement.findings else judgement.result.reason
    yield "[[waiver]]"
    yield f"# {one_line(judgement.result.requirement.text, _FOUND)}: {one_line(found, _FOUND)}"
    for key in ("id", "binding", "version", "reason"):
        # What JSON makes of printable text is TOML, too.
        yield f"{key} = {json.dumps(getattr(waiver, key), ensure_ascii=False)}"
    yield ""
