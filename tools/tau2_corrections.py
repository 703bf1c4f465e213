"""Compares editions of tau2's data, and writes what differs as facts: task ids and kinds of change, never a text.

    python tools/tau2_corrections.py OLD NAME=CHECKOUT [NAME=CHECKOUT ...] [-o FILE]

OLD is ``installed`` or a checkout, e.g. ``installed "tau2 1.0=../tau2-bench" "tau2-bench-verified=../verified"``. The
golds of both sides are replayed by the installed code, each on its own databases. Without ``-o`` only the counts are
printed; the package's file is ``pytest_a2a_bench/benchmarks/tau2/corrections.json``.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_a2a_bench.benchmarks.tau2 import DOMAINS, index, upstream
from pytest_a2a_bench.benchmarks.tau2.evaluate import gold_environment
from pytest_a2a_bench.benchmarks.tau2.index import (
    CORRECTING,
    actions_of,
    data_directory,
    digest_of,
    task_digest,
    text_of,
)
from pytest_a2a_bench.errors import A2ABenchError

Task = Mapping[str, Any]


def render(facts: Mapping[str, Any]) -> str:
    """Return the facts as JSON with a line for each task, so that a change of one is a change of one line."""
    blocks = []
    for name, domains in sorted(facts.items()):
        inner = []
        for domain, entries in sorted(domains.items()):
            lines = [f"   {json.dumps(k)}: {json.dumps(v, sort_keys=True)}" for k, v in sorted(entries.items())]
            inner.append(f"  {json.dumps(domain)}: {{\n" + ",\n".join(lines) + "\n  }")
        blocks.append(f" {json.dumps(name)}: {{\n" + ",\n".join(inner) + "\n }")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def main() -> None:
    """Compare, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", metavar="OLD")
    parser.add_argument("new", nargs="+", metavar="NAME=CHECKOUT")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE")
    given = parser.parse_args()
    found = index.find_installation()
    old = found.data if given.old == "installed" else data_directory(Path(given.old))
    name = found.distribution if given.old == "installed" else given.old
    news = {n: data_directory(Path(p)) for n, _, p in (text.partition("=") for text in given.new)}
    facts = compare(old, news)
    facts["editions"] = name_editions({**news, name: old})
    for line in describe(facts["tasks"]):
        print(line)
    if given.output:
        given.output.write_text(render(facts))


def compare(old: Path, news: Mapping[str, Path]) -> dict[str, Any]:
    """Return the tasks of an edition that others have changed, by domain."""
    tasks: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, new in news.items():
        for domain in index.available_domains(old):
            if domain not in index.available_domains(new):
                continue
            for task_id, kinds in changes(domain, old, new):
                of = task_digest(index.load_task_json(domain, task_id, old))
                entry = tasks[domain].setdefault(task_id, {"of": of, "changed": {}})
                entry["changed"][name] = kinds
    return {"tasks": dict(tasks)}


def changes(domain: str, old: Path, new: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the tasks that both have and that differ, with the kinds of change."""
    there = {task.task_id for task in index.load_tasks(domain, "base", new)}
    for task in index.load_tasks(domain, "base", old):
        if task.task_id not in there:
            continue
        before, after = (index.load_task_json(domain, task.task_id, data) for data in (old, new))
        kinds = list(kinds_of(before, after))
        # A gold that is written differently may do the same, and the same one something else to other databases.
        if {"gold"} & set(kinds) and end_state(domain, task.task_id, old) != end_state(domain, task.task_id, new):
            kinds.append("state")
        if kinds:
            yield task.task_id, kinds


def kinds_of(before: Task, after: Task) -> Iterator[str]:
    """Yield in what two versions of a task differ."""
    old, new = (task.get("evaluation_criteria") or {} for task in (before, after))
    if text_of(before) != text_of(after):
        yield "text"
    if actions_of(old) != actions_of(new):
        yield "gold"
    if (old.get("communicate_info") or []) != (new.get("communicate_info") or []):
        yield "communicate"
    if set(old.get("reward_basis") or ()) != set(new.get("reward_basis") or ()):
        yield "basis"


def end_state(domain: str, task_id: str, data: Path) -> Any:
    """Return the databases after a task's gold was replayed, on the edition's own."""
    tau2 = upstream.load(data=data)
    task = upstream.read_task(tau2, domain, task_id, data)
    _, kwargs = upstream.build_environment(tau2, domain, task)
    environment = gold_environment(tau2, domain, task, kwargs)
    kits = (environment.tools, environment.user_tools)
    return [kit.db.model_dump(mode="json") for kit in kits if kit is not None and kit.db is not None]


def name_editions(named: Mapping[str, Path]) -> dict[str, dict[str, str]]:
    """Return domain -> hash of its files -> name of the edition; of two with the same files the last one's."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for name, data in named.items():
        for domain in DOMAINS:
            if (data / "tau2" / "domains" / domain).is_dir():
                found[domain][digest_of(data, domain)] = name
    return dict(found)


def describe(tasks: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Say what was found."""
    for domain, entries in tasks.items():
        editions = sorted({name for entry in entries.values() for name in entry["changed"]})
        for edition in editions:
            changed = {t: e["changed"][edition] for t, e in entries.items() if edition in e["changed"]}
            other = [t for t, kinds in changed.items() if set(kinds) & set(CORRECTING)]
            ends = [t for t, kinds in changed.items() if "state" in kinds]
            counts = Counter(kind for kinds in changed.values() for kind in kinds)
            kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items()))
            yield f"{domain}, {edition}: {len(other)} tasks are others ({kinds})"
            yield f"  text, gold or words to say: {' '.join(other)}"
            yield f"  ends in another database: {' '.join(ends)}"


if __name__ == "__main__":
    try:
        main()
    except A2ABenchError as error:
        raise SystemExit(str(error)) from None
