"""Results as a file that tau2's own viewer, metrics and submission code read.

The rewards, messages and seeds are those that were stored; nothing is evaluated here. What tau2's format has no place
for stands under ``a2a_bench``, which tau2 ignores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_a2a_bench.benchmarks.tau2 import index, retrieval
from pytest_a2a_bench.benchmarks.tau2.editions import Edition, find_edition
from pytest_a2a_bench.benchmarks.tau2.options import DATA, INSTALLED
from pytest_a2a_bench.benchmarks.tau2.upstream import build_environment, load, read_task
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import TrialKey, TrialResult, sum_usage
from pytest_a2a_bench.results.manifest import SelectedResults

EXPORT_VERSION = 1
# What tau2's leaderboard asks for.
LEADERBOARD_TRIALS = 4
_NEVER = "1970-01-01T00:00:00"


class IncompleteError(ConfigurationError):
    """Trials are missing or have no reward, and nobody said that this may be so."""


def export(selected: SelectedResults, *, domain: str | None = None, allow_incomplete: bool = False) -> dict[str, Any]:
    """Return the content of a tau2 results file.

    :param domain: the domain to export; may be None where there is only one.
    :param allow_incomplete: write trials without a reward as failures, as tau2 itself does with samples that it skips,
        instead of refusing.
    :raises IncompleteError: if trials are missing or were not evaluated, unless that is allowed.
    :raises ConfigurationError: if there is nothing to export, or several domains or retrieval configurations, or the
        same trial twice.
    """
    domain = _choose(selected, domain)
    results = [r for r in selected.results if _is_of(r.key, domain)]
    absent = [key for key in map(TrialKey.parse, selected.absent) if _is_of(key, domain)]
    _refuse_doubled([*(r.key for r in results), *absent])
    unfinished = _unfinished(results, absent)
    if unfinished and not allow_incomplete:
        raise IncompleteError(
            f"{len(unfinished)} of {len(results) + len(absent)} trials have no reward, and tau2's numbers would be "
            f"without them: {_some(unfinished)}; run pytest again with --a2a-resume, or pass --allow-incomplete to "
            "count them as failures"
        )
    return _file(selected, domain, results, absent, unfinished)


def _export_told(
    selected: SelectedResults, domain: str | None, allow_incomplete: bool
) -> tuple[dict[str, Any], list[str]]:
    """Return the content of a results file, and what to say about it; like :func:`export`."""
    data = export(selected, domain=domain, allow_incomplete=allow_incomplete)
    ours = data["a2a_bench"]
    lines = [f"counted as a failure: {key} ({reason})" for key, reason in ours["not_evaluated"].items()]
    lines.append(f"{len(data['simulations'])} trials of {data['info']['environment_info']['domain_name']}")
    lines += [f"not for tau2's leaderboard: {reason}" for reason in ours["not_leaderboard_ready_because"]]
    return data, lines


def _is_of(key: TrialKey, domain: str) -> bool:
    return key.suite == index.SUITE_NAME and key.domain == domain


def _choose(selected: SelectedResults, domain: str | None) -> str:
    keys = [TrialKey.parse(key) for key in selected.manifest.keys]
    there = sorted({key.domain for key in keys if key.suite == index.SUITE_NAME})
    if not there:
        raise ConfigurationError("these results hold no tau2 trials, and only those can be written in tau2's format")
    if domain is not None and domain not in there:
        raise ConfigurationError(
            f"these results hold no trials of the domain {domain!r}; there are: {', '.join(there)}"
        )
    if domain is None and len(there) > 1:
        raise ConfigurationError(
            f"these results hold {len(there)} domains ({', '.join(there)}), and a tau2 file holds one; pass --domain"
        )
    return domain or there[0]


def _refuse_doubled(keys: Sequence[TrialKey]) -> None:
    counted = Counter((key.task_id, key.trial) for key in keys)
    doubled = [f"{task}#{trial}" for (task, trial), count in counted.items() if count > 1]
    if doubled:
        raise ConfigurationError(
            f"{len(doubled)} trials are there under several labels, which tau2 cannot tell apart: {_some(doubled)}"
        )


def _unfinished(results: Sequence[TrialResult], absent: Sequence[TrialKey]) -> dict[str, str]:
    """Return why each trial without a reward has none."""
    found = {str(r.key): r.status for r in results if r.status != "evaluated" or r.simulation is None}
    return {**found, **{str(key): "missing" for key in absent}}


def _file(
    selected: SelectedResults,
    domain: str,
    results: Sequence[TrialResult],
    absent: Sequence[TrialKey],
    unfinished: Mapping[str, str],
) -> dict[str, Any]:
    edition = edition_of(selected, domain, results)
    tau2 = load(data=edition.data)
    keys = [*(r.key for r in results), *absent]
    task_ids = list(dict.fromkeys(key.task_id for key in keys))
    tasks = [read_task(tau2, domain, task_id, edition.data) for task_id in task_ids]
    found = retrieval.of_results(domain, results)
    # Any task's environment describes the domain; without documents it needs no key.
    environment, _ = build_environment(tau2, domain, tasks[0], retrieval.WITHOUT_DOCUMENTS)
    described = environment.get_info(include_tool_info=False).model_dump(mode="json")
    simulations = [
        _failed(r.key, r.started_at, r.seed, str(r.error_type or r.status))
        if str(r.key) in unfinished
        else _simulation(r)
        for r in results
    ]
    simulations += [_failed(key, "", None, "missing") for key in absent]
    return {
        "timestamp": min((r.started_at for r in results), default=_NEVER),
        "info": {
            "git_commit": _one(_words(results, "benchmark")) or "unknown",
            "num_trials": max(Counter(key.task_id for key in keys).values()),
            "max_steps": selected.manifest.settings.get("max_steps", 0),
            "max_errors": selected.manifest.settings.get("max_errors", 0),
            "user_info": _user(selected, results),
            "agent_info": {"implementation": "a2a", "llm": selected.manifest.agent or None, "llm_args": None},
            "environment_info": described | ({"policy": retrieval.policy_of(tau2, found)} if found else {}),
            "seed": selected.manifest.settings.get("seed"),
            **({"retrieval_config": found} if found else {}),
        },
        "tasks": [task.model_dump(mode="json") for task in tasks],
        "simulations": sorted(simulations, key=lambda s: (s["trial"], task_ids.index(s["task_id"]))),
        "a2a_bench": _ours(selected, results, unfinished, _missing_tasks(domain, task_ids, edition)),
    }


def edition_of(selected: SelectedResults, domain: str, results: Sequence[TrialResult]) -> Edition:
    """Return the edition that a run's trials of a domain used, which has their tasks.

    :raises ConfigurationError: if there are several, it is not here, or its data are others by now.
    """
    said = {_edition_name(r) for r in results if r.status == "evaluated"}
    if len(said) > 1:
        raise ConfigurationError(f"these trials of {domain} are of several editions ({', '.join(sorted(said))})")
    options = {DATA: selected.manifest.settings.get(DATA)}
    edition = find_edition(Settings(benchmark_options=options))
    stated = next(iter(said), edition.name(domain))
    # What another tau2 came with has always been exported by this one; a checkout that was changed is no such thing.
    if edition.said != INSTALLED and edition.name(domain) != stated:
        raise ConfigurationError(
            f"the trials of {domain} were run on the data {stated}; those of {edition.said} are "
            f"{edition.name(domain)} by now: bring them back"
        )
    return edition


def _edition_name(result: TrialResult) -> str:
    stated = result.provenance.get("edition")
    name = stated.get("name") if isinstance(stated, Mapping) else None
    return str(name or result.provenance.get("benchmark") or "unknown")


def _simulation(result: TrialResult) -> dict[str, Any]:
    assert result.reward_info is not None
    assert result.simulation is not None
    simulation = {**result.simulation, "task_id": result.key.task_id, "trial": result.key.trial, "seed": result.seed}
    simulation["reward_info"] = dict(result.reward_info.info)
    # tau2's means need numbers: what nobody reported is written as nothing spent, and `a2a_bench` says so.
    took_over = (party.usage for party in result.parties if party.role == "transfer")
    simulation["agent_cost"] = sum_usage((result.agent_usage, *took_over)).cost_usd or 0.0
    simulation["user_cost"] = result.user_usage.cost_usd or 0.0
    simulation["duration"] = result.duration
    return simulation


def _failed(key: TrialKey, started: str, seed: int | None, reason: str) -> dict[str, Any]:
    """Return what tau2 writes for a sample that broke: no messages, reward 0."""
    return {
        "id": f"{key.task_id}_{key.trial}_failed",
        "task_id": key.task_id,
        "timestamp": started or _NEVER,
        "start_time": started or _NEVER,
        "end_time": started or _NEVER,
        "duration": 0.0,
        "termination_reason": "agent_error",
        "agent_cost": 0.0,
        "user_cost": 0.0,
        "reward_info": {"reward": 0.0, "info": {"note": f"not evaluated ({reason}), counted as a failure"}},
        "messages": [],
        "trial": key.trial,
        "seed": seed,
        "skipped": True,
    }


def _user(selected: SelectedResults, results: Sequence[TrialResult]) -> dict[str, Any]:
    kinds = _words(results, "user")
    if kinds == {"llm"}:
        model = _one(_words([r for r in results if r.provenance.get("user")], "user_llm"))
        arguments = {"temperature": 0.0, **(selected.manifest.settings.get("user_llm_args") or {})}
        return {"implementation": "user_simulator", "llm": model, "llm_args": arguments}
    return {"implementation": _one(kinds) or "unknown", "llm": None, "llm_args": None}


def _ours(
    selected: SelectedResults,
    results: Sequence[TrialResult],
    unfinished: Mapping[str, str],
    missing_tasks: int,
) -> dict[str, Any]:
    reasons = list(_obstacles(results, unfinished, missing_tasks))
    return {
        "export_version": EXPORT_VERSION,
        "run_id": selected.manifest.run_id,
        "agent": selected.manifest.agent,
        # An agent behind A2A is not tau2's own agent scaffold, with any user.
        "submission_type": "custom",
        "leaderboard_ready": not reasons,
        "not_leaderboard_ready_because": reasons,
        "edition": sorted({_edition_name(r) for r in results if r.status == "evaluated"}),
        "user_simulator": sorted({r.user or "None" for r in results}),
        "judge": sorted({str(r.provenance["judge"]) for r in results if r.provenance.get("judge")}),
        "evaluation_type": sorted({str(r.provenance.get("evaluation_type")) for r in results}),
        "agent_cost_reported": all(r.agent_usage.cost_usd is not None for r in results),
        "not_evaluated": dict(unfinished),
    }


def _obstacles(results: Sequence[TrialResult], unfinished: Mapping[str, str], missing_tasks: int) -> Iterator[str]:
    """Yield what keeps these results from tau2's leaderboard."""
    users = _words(results, "user")
    if users != {"llm"}:
        yield f"the user was not tau2's LLM user simulator everywhere, but {' and '.join(sorted(map(str, users)))}"
    if unfinished:
        yield f"{len(unfinished)} trials have no reward and are counted as failures"
    if missing_tasks:
        yield f"{missing_tasks} tasks of the base split are not among them"
    trials = Counter(r.key.task_id for r in results)
    if trials and min(trials.values()) < LEADERBOARD_TRIALS:
        yield f"fewer than {LEADERBOARD_TRIALS} trials of each task"
    if any(r.provenance.get("tagged") for r in results):
        yield "the agent was sent the name of each task"
    if any(r.parties for r in results):
        yield "other agents took part in conversations"
    if any(r.provenance.get("replayed") for r in results):
        yield "conversations were replayed, the agent was not asked"


def _missing_tasks(domain: str, task_ids: Sequence[str], edition: Edition) -> int:
    return len({task.task_id for task in index.load_tasks(domain, "base", edition.data)} - set(task_ids))


def _words(results: Sequence[TrialResult], name: str) -> set[str]:
    """Return the values of one member of what produced the results, as text: a file may hold anything there."""
    return {str(r.provenance[name]) for r in results if r.provenance.get(name) is not None}


def _one(values: set[str]) -> str | None:
    """Return the only value, or all of them in one text."""
    return " and ".join(sorted(str(v) for v in values if v is not None)) or None


def _some(keys: Sequence[str] | Mapping[str, str], limit: int = 10) -> str:
    shown = [f"{key} ({keys[key]})" if isinstance(keys, Mapping) else key for key in list(keys)[:limit]]
    more = f" and {len(keys) - limit} more" if len(keys) > limit else ""
    return ", ".join(shown) + more


EXPORT = _export_told
