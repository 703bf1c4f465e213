"""Results that the first versions stored: they say how an org was changed, and not yet what that is called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.model import Reward, TrialKey, TrialResult
from pytest_a2a_bench.reports import summary
from pytest_a2a_bench.results.stats import summarise
from pytest_a2a_bench.results.store import Store, load_trial

# As the version before `variant` wrote it, without the transcript and the measurements of the wire.
FIRST = """{
 "schema_version": 1, "key": "crmarena/mini/activity_priority-00#0",
 "task": {"suite": "crmarena", "domain": "mini", "id": "activity_priority-00"}, "trial": 0, "status": "evaluated",
 "run_id": "20261122T053748Z-6b3328",
 "reward_info": {"value": 0.0, "basis": ["exact_match"], "breakdown": {"exact_match": 0.0}, "checks": [], "note": "",
  "db_diff": [], "info": {"scoring": "compat", "metric": "exact_match", "extractor": "rules"}, "threshold": null},
 "termination_reason": "agent_stop", "error": null, "error_type": null,
 "started_at": "2026-11-22T05:37:51.471649+00:00", "duration": 0.1, "transcript": [], "metrics": [],
 "turn_latencies": [0.02], "findings": [],
 "agent_usage": {"input_tokens": null, "output_tokens": null, "cost_usd": null},
 "user_usage": {"input_tokens": null, "output_tokens": null, "cost_usd": null},
 "context_id": "6073e7af", "dialect": "tool_call", "seed": 626729, "splits": ["base"], "category": "activity_priority",
 "provenance": {"benchmark": "crmarena (mini-2, seed 1, 10 tasks per category)", "category": "activity_priority",
  "interactive": false, "metric": "exact_match", "source": {"source": "mini", "official": false}, "org": "local",
  "scoring": "compat", "extractor": "rules", "aided": false, "drift": "low", "rot": 0, "user": "none", "max_turns": 20,
  "measured": {"turns": 1, "queries": 0}, "split": "base", "dialect_option": "auto", "history": "delta"},
 "simulation": null, "fingerprint": "34da1cff36937772", "reused_from": null, "reward": 0.0, "success": false
}"""


def stored(directory: Path, number: int, **provenance: Any) -> TrialResult:
    """Return a result of the first versions under another key, read from its file."""
    data = json.loads(FIRST)
    data["key"] = str(TrialKey("crmarena", "mini", f"activity_priority-0{number}"))
    data["provenance"] |= provenance
    path = directory / f"{number}.json"
    path.write_text(json.dumps({**data, "provenance": {k: v for k, v in data["provenance"].items() if v != "absent"}}))
    return load_trial(path)


def test_they_are_not_averaged_with_plain_ones(tmp_path: Path) -> None:
    plain = TrialResult(
        TrialKey("crmarena", "mini", "activity_priority-09"),
        "evaluated",
        "now",
        Reward(1.0),
        provenance={"variant": None},
    )
    results = [
        stored(tmp_path, 0),
        stored(tmp_path, 1, drift=None, rot=50),
        stored(tmp_path, 2, drift=None),
        Store(tmp_path).write(plain),
    ]
    found = {s.variant: s.trials for s in summarise(results, registry.variant_of)}
    assert found == {"": 2, "drift low": 1, "rot 50": 1}
    assert "the org was changed: drift low (1), rot 50 (1); these are not results of the plain benchmark" in list(
        summary.benchmark_notes(results)
    )


def test_what_cannot_be_known_is_said(tmp_path: Path) -> None:
    silent = stored(tmp_path, 0, drift="absent", rot="absent")
    assert registry.variant_of(silent) == ""
    assert [note for note in summary.benchmark_notes([silent]) if "counted as plain" in note] == [
        "1 of these results does not say whether the org was changed for it, and is counted as plain"
    ]
