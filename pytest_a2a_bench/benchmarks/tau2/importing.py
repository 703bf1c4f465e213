"""Results of tau2's own runner, read as a run of this package's: no conversation is evaluated here.

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

from pytest_a2a_bench.benchmarks.tau2 import evaluate, index
from pytest_a2a_bench.benchmarks.tau2.editions import find_edition
from pytest_a2a_bench.benchmarks.tau2.user import facts
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError
from pytest_a2a_bench.model import ToolCall, ToolSpec, TrialKey, TrialResult, Turn, Usage
from pytest_a2a_bench.results.manifest import Manifest, SelectedResults

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
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error


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
        """Say on which data the run was made: the installed ones, where its tasks are the same, else its commit's.

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
            user_facts=tuple(facts.find(turns, given, specs["user"], specs["assistant"])),
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
