"""Faults that were planted by somebody who had not read the diagnosis are found in what the trials left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from planted_faults import main

from pytest_a2a_bench.benchmarks.diagnosis import Diagnosis
from pytest_a2a_bench.reports.diagnosis import cause_of, diagnosis_of
from pytest_a2a_bench.results.store import Store

pytestmark = pytest.mark.slow

FOUND: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("wrong-id", "wrong-amount", "wrong-enum", "wrong-text", "wrong-list"), ("wrong-argument",)),
    "dropped-write": ("never-called",),
    "extra-write-unasked": ("unconfirmed-write",),
    # One user was asked and said no.
    "extra-write-asked": ("forbidden-write", "unconfirmed-write"),
    "write-twice": ("repeated-write",),
    "early-transfer": ("transferred",),
    "refuses": ("never-called",),
    # What failed is a call with a wrong id.
    "failed-write-gives-up": ("call-failed", "wrong-argument"),
    "failed-lookup-gives-up": ("call-failed",),
    "invented-tool": ("call-failed",),
    "loops-on-call": ("loop",),
    "repeats-sentence": ("loop",),
    "silent": ("silent",),
    "garbage": ("unreadable",),
    "task-failed": ("ended-task",),
    "task-rejected": ("ended-task",),
    "tells-wrong-number": ("told-wrong",),
    "tells-nothing": ("told-nothing",),
    "skips-lookup": ("read-less",),
    "instruction-dropped": ("never-instructed",),
    "instruction-wrong": ("misinstructed",),
    "no-query": ("no-query",),
    # What was counted wrongly, or found to be nothing, may be the filter's fault as well.
    **dict.fromkeys(
        ("never-asks-object", "filter-dates", "filter-status"), ("wrong-filter", "wrong-result", "said-none")
    ),
    "picks-another": ("wrong-choice", "wrong-result", "wrong-words"),
    "answers-none": ("said-none",),
    "two-ids": ("more-than-asked",),
    "malformed-queries": ("query-failed",),
    "tells-secret": ("leaked",),
    "answers-secret": ("over-refused",),
    **dict.fromkeys(("user-hangs-up", "user-out-of-scope"), ("user",)),
    **dict.fromkeys(("evaluator-raises", "mock-evaluator-raises"), ("evaluator",)),
    **dict.fromkeys(("connection-reset", "answer-lost", "unavailable"), ("delivery",)),
}
"""What was planted -> the causes that name it."""


def test_what_was_planted_is_what_is_told(tmp_path: Path) -> None:
    assert main(["--out", str(tmp_path), "--many", "1"]) == 0
    planted = {entry["key"]: entry for entry in json.loads((tmp_path / "planted.json").read_text())}
    told: dict[str, Diagnosis | None] = {}
    blamed = {}
    for result in Store(tmp_path).read_all():
        key = str(result.key)
        if key in planted and not planted[key].get("harmless"):
            told[key] = found = diagnosis_of(result)
            blamed[key] = cause_of(result.key.suite, found.kind).blame if found else None
    assert len(told) > 60
    assert {key: blame for key, blame in blamed.items() if blame != planted[key]["blame"]} == {}
    wrong = {key: d for key, d in told.items() if d is None or d.kind not in FOUND[planted[key]["kind"]]}
    assert len(wrong) <= 0.05 * len(told), wrong
