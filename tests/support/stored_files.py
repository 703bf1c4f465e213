"""One valid file of each kind that this project writes, as a run and its commands leave them."""

import dataclasses
import json
from pathlib import Path

from commands import command
from finished_runs import write_run
from made_trials import made_error, made_trial

from pytest_a2a_bench.cassettes import CASSETTE, Cassette, Exchange
from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.results.assessments import Record
from pytest_a2a_bench.results.gates.files import VERDICT_FILE, JudgedAgent, StoredVerdict, write_verdict
from pytest_a2a_bench.results.gates.judge import judge
from pytest_a2a_bench.results.gates.terms import Thresholds, Trials
from pytest_a2a_bench.results.manifest import NAME
from pytest_a2a_bench.results.store import Store

TASKS = ("create_task_1", "update_task_1")
PROVENANCE = {"user": "llm", "user_llm": "m", "judge": "m", "benchmark": "tau2 1", "measured": {"queries": 1}}
SIMULATION: dict[str, object] = {"id": "s", "task_id": "create_task_1", "messages": [], "reward_info": None, "trial": 0}


def trials_of_a_run() -> list[TrialResult]:
    """Return trials that every command has something to do with."""
    good = [
        made_trial(f"tau2/mock/{task}#{number}", provenance=PROVENANCE, simulation=SIMULATION, success=number == 0)
        for task in TASKS
        for number in range(2)
    ]
    return [*good, made_error("tau2/mock/impossible_task_1#0")]


def write_files(root: Path) -> dict[str, Path]:
    """Write one valid file of each kind; all are of the run in ``root/run``."""
    results = trials_of_a_run()
    directory = write_run(root / "run", results, run_id="run-1")
    verdict = judge(Trials(results), Thresholds(min_pass={"": 0.5}))
    stored = StoredVerdict.of(verdict, "run-1", Trials(results), results[1:2], {str(results[1].key): "a::b"})
    write_verdict(directory, dataclasses.replace(stored, agent=JudgedAgent("http://127.0.0.1:1", "A 1", "1.0")))
    baseline, cassette, report = (root / f"{name}.json" for name in ("baseline", "cassette", "report"))
    command("gate", directory, "--write-baseline", baseline)
    exchange = Exchange(
        {"operation": "get_task", "task_id": "t"}, [{"kind": "task", "task_id": "t"}], None, 1, "G", 200
    )
    cassette.write_text(json.dumps(CASSETTE.to_json(Cassette("a/b/c#0", [exchange], [0.5]))))
    entry = {"id": "X-1", "version": "1.0", "group": "send", "level": "MUST", "spec": "s", "requirement": "r"}
    finding = {"rule": "X-1", "severity": "error", "found": "f", "expected": "e", "spec": "s", "pointer": "", "fix": ""}
    check = {**entry, "binding": "JSONRPC", "status": "failed", "reason": "", "waiver": None, "seconds": 0.1}
    head = {"schema": "a2a-bench/conformance", "schema_version": 1, "endpoint": "http://a", "agent": "A 1"}
    found = {"interfaces": [], "tool": {}, "strict": False, "seconds": 0.1, "counts": {"failed": 1}, "levels": {}}
    results_of_checks = [{**check, "cause": "", "explains": [], "findings": [{**finding, "exchanges": []}]}]
    report.write_text(json.dumps({**head, **found, "removable_waivers": [], "results": results_of_checks}))
    Record("a1", "ada", {"messageId": "m"}, {"evaluation": "tau2"}, submitted=1.5).write(root / "a1")
    return {
        "trial": Store(directory).path(results[0].key),
        "run": directory / NAME,
        "verdict": directory / VERDICT_FILE,
        "baseline": baseline,
        "cassette": cassette,
        "conformance": report,
        "assessment": root / "a1" / "assessment.json",
    }
