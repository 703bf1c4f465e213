"""tau2's own result files, written from a run of ours and read as one: nothing is evaluated here.

What is written, tau2's viewer, metrics and submission code read; the rewards, messages and seeds are those that were
stored, and what tau2's format has no place for stands under ``a2a_bench``, which tau2 ignores.

Read are ``results.json`` with its simulations in it or in ``simulations/`` beside it, a leaderboard's submission
(``trajectories/``), and the directory of a results viewer (``index.json`` with a ``task_N.json`` for each task).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_a2a_bench.benchmarks.tau2 import evaluate, index, llm, retrieval
from pytest_a2a_bench.benchmarks.tau2.index import Edition, find_edition
from pytest_a2a_bench.benchmarks.tau2.suite import DATA, INSTALLED
from pytest_a2a_bench.benchmarks.tau2.upstream import build_environment, load, read_task
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError
from pytest_a2a_bench.model import ToolCall, ToolSpec, TrialKey, TrialResult, Turn, Usage, sum_usage
from pytest_a2a_bench.results.manifest import Manifest, SelectedResults
from pytest_a2a_bench.text import listed, refusing

EXPORT_VERSION = 1
# What tau2's leaderboard asks for.
LEADERBOARD_TRIALS = 4
_NEVER = "1970-01-01T00:00:00"


class IncompleteError(ConfigurationError):
    """Trials are missing or have no reward, without ``--allow-incomplete``."""


def export(
    selected: SelectedResults, domain: str | None = None, allow_incomplete: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """Return the content of a tau2 results file, and notes about it.

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
        which = listed([f"{key} ({why})" for key, why in unfinished.items()], 10)
        raise IncompleteError(
            f"{len(unfinished)} of {len(results) + len(absent)} trials have no reward, and tau2's numbers would be "
            f"without them: {which}; run pytest again with --a2a-resume, or pass --allow-incomplete to count them as "
            "failures"
        )
    data = _file(selected, domain, results, absent, unfinished)
    lines = [f"counted as a failure: {key} ({reason})" for key, reason in unfinished.items()]
    lines.append(f"{len(data['simulations'])} trials of {domain}")
    lines += [f"not for tau2's leaderboard: {why}" for why in data["a2a_bench"]["not_leaderboard_ready_because"]]
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
            f"{len(doubled)} trials are there under several labels, which tau2 cannot tell apart: {listed(doubled, 10)}"
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
    """Return tau2's record of a sample that broke: no messages, reward 0."""
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
    selected: SelectedResults, results: Sequence[TrialResult], unfinished: Mapping[str, str], missing_tasks: int
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
    """Yield the reasons why tau2's leaderboard does not take these results."""
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


EXPORT = export


_KEPT = ("max_steps", "max_errors", "seed")


def read(path: Path) -> SelectedResults | None:
    """Return the run in a file or directory; None where it is nothing that tau2 writes.

    :raises ConfigurationError: if it is tau2's, and cannot be read.
    """
    files = list(_files(path))
    if not files:
        return None
    results: list[TrialResult] = []
    for file, content in files:
        try:
            if any(simulation.get("ticks") for simulation in content["simulations"]):
                raise ConfigurationError(f"{file} has full-duplex (voice) conversations, which are not read")
            results += _Run(file, content).results()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigurationError(
                f"{file} is not a results file of tau2's that this version reads: {type(error).__name__}: {error}"
            ) from error
    if not results:
        raise ConfigurationError(f"{path} has no simulation")
    infos = [content["info"] for _, content in files]
    agents = dict.fromkeys(filter(None, map(_agent, infos)))
    keys = tuple(str(result.key) for result in results)
    if doubled := [key for key, many in Counter(keys).items() if many > 1]:
        raise ConfigurationError(f"{path} has {len(doubled)} trials more than once, the first is {doubled[0]}")
    settings = {name: infos[0][name] for name in _KEPT if isinstance(infos[0].get(name), int)}
    own, *merged = dict.fromkeys(result.run_id for result in results)
    manifest = Manifest(own, "", ", ".join(agents), keys, keys, settings=settings, merged=tuple(merged))
    return SelectedResults(manifest, tuple(results))


def _files(path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield tau2's results files below a path, each with its content in one form."""
    if path.is_dir():
        if (path / "results.json").is_file():
            yield from _files(path / "results.json")
        elif (path / "submission.json").is_file():
            for file in sorted((path / "trajectories").glob("*.json")):
                yield from _files(file)
        elif (path / "index.json").is_file() and (tasks := sorted(path.glob("task_*.json"))):
            yield path, _of_viewer(list(map(_json, tasks)))
        return
    content: Any = None
    if path.suffix == ".json" and path.is_file():
        with contextlib.suppress(ConfigurationError):  # another file, of which its own reader says what is wrong
            content = _json(path)
    if not isinstance(content, dict) or not {"info", "tasks"} <= content.keys():
        return
    if content.get("simulations") is None:
        content["simulations"] = list(map(_json, sorted((path.parent / "simulations").glob("*.json"))))
    yield path, content


def _json(path: Path) -> Any:
    with refusing(f"{path} cannot be read", errors=(OSError, ValueError, RecursionError)):
        found = json.loads(path.read_bytes())
    return found


def _of_viewer(pages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    try:
        instructions = pages[0]["task"]["user_scenario"]["instructions"]
        return {
            "info": {"environment_info": {"domain_name": instructions["domain"]}},
            "tasks": [page["task"] for page in pages],
            "simulations": [
                {
                    "id": page["run_info"]["simulation_id"],
                    "start_time": page["run_info"]["timestamp"],
                    "end_time": page["run_info"]["timestamp"],
                    "duration": page["run_info"]["duration_sec"],
                    **{name: page["run_info"][name] for name in ("termination_reason", "agent_cost", "user_cost")},
                    **{name: page[name] for name in ("task_id", "reward_info", "messages")},
                }
                # What was not run has a page, too.
                for page in pages
                if page.get("messages")
            ],
        }
    except (KeyError, TypeError, IndexError) as error:
        raise ConfigurationError(f"these pages of a viewer cannot be read: no {error}") from error


def _agent(info: Mapping[str, Any]) -> str:
    agent = info.get("agent_info") or {}
    return " ".join(dict.fromkeys(str(agent[name]) for name in ("implementation", "llm") if agent.get(name)))


class _Run:
    """One results file: its simulations as results."""

    def __init__(self, file: Path, content: Mapping[str, Any]) -> None:
        self.info: Mapping[str, Any] = content["info"]
        self.simulations: list[dict[str, Any]] = content["simulations"]
        self.domain = str(self.info["environment_info"]["domain_name"])
        self.tasks = {str(task["id"]): task for task in content["tasks"]}
        text = json.dumps([simulation.get("id") for simulation in self.simulations])
        self.run_id = f"imported-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        user = self.info.get("user_info") or {}
        self.provenance = {
            **self._data(),
            "user": "llm" if user.get("llm") else None,
            "user_llm": user.get("llm"),
            "imported_from": file.name,
            "imported_agent": _agent(self.info) or None,
        }
        self._trials: dict[str, int] = defaultdict(int)
        self._names: dict[str, set[str]] = {"user": set(), "assistant": set()}
        for message in (m for s in self.simulations for m in s.get("messages") or ()):
            for call in message.get("tool_calls") or ():
                self._names[message["role"]].add(call["name"])

    def _data(self) -> dict[str, Any]:
        """Name the data on which the run was made: the installed ones, where its tasks are the same, else its commit's.

        There are published files whose conversations were judged by other solutions than those of the tasks in them.
        """
        commit = str(self.info.get("git_commit") or "unknown")
        other = {"benchmark": f"tau2 at {commit[:12]}", "variant": f"data of tau2 at {commit[:12]}"}
        try:
            edition = find_edition(Settings())
            same = all(
                _criteria(index.load_task_json(self.domain, name, edition.data)) == _criteria(task)
                for name, task in self.tasks.items()
            ) and all(
                _actions(check["action"] for check in checks) == _criteria(self.tasks[str(simulation["task_id"])])[0]
                for simulation in self.simulations
                if (checks := (simulation.get("reward_info") or {}).get("action_checks"))
            )
            if same:
                said = {"name": edition.name(self.domain), "said": edition.said}
                return {"benchmark": edition.benchmark(self.domain), "edition": said}
        except (A2ABenchError, KeyError):  # tau2 is not installed, or has no such domain or task
            pass
        return other

    def results(self) -> Iterator[TrialResult]:
        return map(self._result, self.simulations)

    def _result(self, simulation: Mapping[str, Any]) -> TrialResult:
        task_id = str(simulation["task_id"])
        number = simulation.get("trial")
        trial = self._trials[task_id] if number is None else int(number)
        self._trials[task_id] += 1
        messages = simulation.get("messages") or []
        turns = tuple(_turns(messages))
        reward, rewarded = simulation.get("reward_info"), bool(messages)
        task = self.tasks.get(task_id) or {}
        specs = {role: [ToolSpec(name, "", {}) for name in sorted(names)] for role, names in self._names.items()}
        given = json.dumps(task.get("user_scenario") or {}, ensure_ascii=False)
        return TrialResult(
            TrialKey(index.SUITE_NAME, self.domain, task_id, trial),
            "evaluated" if reward and rewarded else "infrastructure_error",
            run_id=self.run_id,
            reward_info=evaluate.to_reward(reward) if reward and rewarded else None,
            error=None if reward and rewarded else "tau2's own runner kept no reward or no conversation",
            error_type=None if reward and rewarded else "Imported",
            termination_reason=str(simulation.get("termination_reason") or "") or None,
            started_at=str(simulation.get("start_time") or ""),
            duration=float(simulation.get("duration") or 0.0),
            transcript=turns,
            agent_usage=_usage(messages, "assistant"),
            user_usage=_usage(messages, "user"),
            seed=simulation.get("seed"),
            provenance={name: value for name, value in self.provenance.items() if value is not None},
            simulation={**{k: v for k, v in simulation.items() if k != "policy"}, "reward_info": None},
            user_facts=tuple(llm.find(turns, given, specs["user"], specs["assistant"])),
        )


def _criteria(task: Mapping[str, Any]) -> list[Any]:
    """Return by what a task is judged, in one form: files of tau2's own have its defaults written out."""
    found = task.get("evaluation_criteria") or {}
    assertions = [[e["func_name"], e.get("arguments") or {}] for e in found.get("env_assertions") or ()]
    texts = [found.get(name) or [] for name in ("communicate_info", "nl_assertions")]
    return [_actions(found.get("actions") or ()), assertions, texts, found.get("reward_basis") or ["DB", "COMMUNICATE"]]


def _actions(actions: Iterable[Mapping[str, Any]]) -> list[Any]:
    return [
        [a["name"], a.get("arguments") or {}, a.get("requestor") or "assistant", a.get("compare_args")] for a in actions
    ]


def _turns(messages: Sequence[Mapping[str, Any]]) -> Iterator[Turn]:
    names: dict[str, str] = {}
    for message in messages:
        role, text = message["role"], message.get("content")
        if role == "tool":
            for part in message.get("tool_messages") or [message]:
                requestor = "user" if part.get("requestor") == "user" else "agent"
                name, said = names.get(part["id"]), part.get("content") or ""
                yield Turn("tool", said, (), part["id"], name, bool(part.get("error")), requestor)
        elif role in ("assistant", "user"):
            calls = tuple(
                ToolCall(c["name"], c.get("arguments") or {}, c["id"]) for c in message.get("tool_calls") or ()
            )
            names.update({call.id: call.name for call in calls})
            yield Turn("agent" if role == "assistant" else "user", text, calls)


def _usage(messages: Sequence[Mapping[str, Any]], role: str) -> Usage:
    total = Usage()
    for message in messages:
        used = message.get("usage") or {}
        if message["role"] == role and (used or message.get("cost")):
            total += Usage(used.get("prompt_tokens"), used.get("completion_tokens"), message.get("cost"))
    return total


IMPORT = read
