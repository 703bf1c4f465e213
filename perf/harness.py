"""tau2's own runner and ours side by side: the same tasks, reference agent, scripted user and latency.

    python perf/harness.py [--domain retail] [--latency 0,0.05] [--in-flight 1,8,32] [--trials 32] [--json FILE]

tau2's runner has its agent in its own process, where each turn waits for the latency; ours speaks A2A to the built-in
one in another process, which does. Each row is a process of its own, from its start to its end; CPU and peak memory
are that process's, the agent's are not counted. ``--in-flight 256`` wants ``--trials 256``. Prints a table and writes
JSON.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_a2a_bench.agents.launcher import start_builtin
from pytest_a2a_bench.benchmarks.tau2 import index

SPLITS = {"telecom": "small"}
"""telecom's base split is long; its small one has one task of each kind."""


def chosen(domain: str, trials: int) -> tuple[list[str], int]:
    """Return the ids of tasks, and how often each is held, for so many trials or a few more."""
    split = SPLITS.get(domain, "base")
    ids = [t.task_id for t in index.load_tasks(domain, split)][:trials]
    return ids, -(-trials // len(ids))


# -- tau2's runner --


def run_tau2(domain: str, trials: int, in_flight: int, latency: float) -> float:
    """Hold the trials with tau2's ``run_tasks`` in this process, and return their mean reward."""
    from pytest_a2a_bench.agents.brain import Conversation
    from pytest_a2a_bench.agents.oracle import load_gold, next_line
    from pytest_a2a_bench.benchmarks.tau2 import upstream
    from pytest_a2a_bench.benchmarks.tau2.agent import to_events
    from pytest_a2a_bench.benchmarks.tau2.scripted import make_scripted_user
    from pytest_a2a_bench.settings import Settings

    run: Any = importlib.import_module("tau2.run")
    agents: Any = importlib.import_module("tau2.agent.llm_agent")
    tau2 = upstream.load()
    messages = tau2.messages
    ids, each = chosen(domain, trials)
    tasks = [tau2.task_class.model_validate(index.load_task_json(domain, i)) for i in ids]
    by_text = {str(task.user_scenario): task for task in tasks}

    class Reference(agents.LLMGTAgent):  # type: ignore[misc,name-defined]
        """The built-in agent's words; tau2 hands the task to subclasses of this class only."""

        def __init__(self, tools: list[Any], domain_policy: str, task: Any, **_: Any) -> None:
            self.tools, self.domain_policy = tools, domain_policy
            self.gold = load_gold(f"tau2/{domain}/{task.id}", Settings())

        def get_init_state(self, message_history: list[Any] | None = None) -> Conversation:
            return Conversation(history=list(to_events(message_history or [])))

        def generate_next_message(self, message: Any, state: Conversation) -> tuple[Any, Conversation]:
            time.sleep(latency)
            state.history += to_events([message])
            said = next_line(self.gold, state)
            state.say(said)
            if said.calls:
                calls = [
                    messages.ToolCall(id=c.id, name=c.name, arguments=dict(c.arguments), requestor="assistant")
                    for c in said.calls
                ]
                return messages.AssistantMessage(role="assistant", tool_calls=calls, cost=0.0), state
            return messages.AssistantMessage(role="assistant", content=said.text, cost=0.0), state

        def set_seed(self, seed: int) -> None:
            """Nothing is random here."""

    class User(importlib.import_module("tau2.user.base").BaseUser):  # type: ignore[misc]
        """The plugin's scripted user, found by what tau2 tells of its task."""

        def __new__(cls, tools: list[Any] | None, instructions: str, **_: Any) -> Any:
            return make_scripted_user(tau2, by_text[instructions], [t.name for t in tools or ()])

    run.registry.register_agent(Reference, "reference")
    run.registry.register_user(User, "scripted")
    results = run.run_tasks(
        domain=domain,
        tasks=tasks,
        agent="reference",
        user="scripted",
        llm_agent="none",
        llm_args_agent={},
        llm_user="none",
        llm_args_user={},
        num_trials=each,
        max_steps=200,
        console_display=False,
        max_concurrency=in_flight,
        log_level="ERROR",
    )
    rewards = [s.reward_info.reward for s in results.simulations]
    return float(sum(rewards) / len(rewards))


# -- both --


def commands(domain: str, trials: int, in_flight: int, latency: float, url: str) -> dict[str, list[str]]:
    """Return the command of each runner."""
    ids, each = chosen(domain, trials)
    tau2 = [sys.executable, __file__, "--only-tau2", "--domain", domain, "--trials", str(trials)]
    tau2 += ["--in-flight", str(in_flight), "--latency", str(latency)]
    ours = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--a2a-suite", domain, "--a2a-tag-trials"]
    ours += ["--a2a-endpoint", url, "--a2a-concurrency", str(in_flight), "--a2a-trials", str(each)]
    ours += ["--a2a-split", SPLITS[domain]] if domain in SPLITS else ["-k", " or ".join(f"[{i}-t" for i in ids)]
    return {"tau2's runner": tau2, "ours over A2A": ours}


def measure(command: Sequence[str], directory: Path) -> dict[str, Any]:
    """Run a command that begins no process, and return what it took."""
    clock = time.perf_counter()
    out = directory / "out.txt"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with out.open("w") as stream:
        process = subprocess.Popen(command, cwd=directory, stdout=stream, stderr=subprocess.STDOUT, env=environment)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    lines = out.read_text(errors="replace").strip().splitlines()
    return {
        "wall_s": round(time.perf_counter() - clock, 2),
        "cpu_s": round(used.ru_utime + used.ru_stime, 2),
        "memory_mb": round(used.ru_maxrss / 1024),
        "exit": process.returncode,
        "last_line": lines[-1] if lines else "",
    }


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--domain", default="retail")
    parser.add_argument("--latency", default="0,0.05", help="seconds of a turn of the agent")
    parser.add_argument("--in-flight", default="1,8,32")
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--runner", default="", help="only those whose name begins so")
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "harness.json")
    parser.add_argument("--only-tau2", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only_tau2:
        reward = run_tau2(options.domain, options.trials, int(options.in_flight), float(options.latency))
        print(f"mean reward {reward:.3f}")
        return
    ids, each = chosen(options.domain, options.trials)
    trials = len(ids) * each
    rows = []
    print(f"{options.domain}, {trials} trials")
    print(f"{'runner':15} {'latency':>8} {'in flight':>9} {'CPU ms a trial':>15} {'trials/s':>9} {'peak MB':>8}")
    for latency in map(float, options.latency.split(",")):
        with start_builtin(f"oracle?latency={latency}") as agent:
            for in_flight in map(int, options.in_flight.split(",")):
                for name, command in commands(options.domain, options.trials, in_flight, latency, agent.url).items():
                    if not name.startswith(options.runner):
                        continue
                    with tempfile.TemporaryDirectory() as directory:
                        found = measure(command, Path(directory))
                    row = {"runner": name, "latency_s": latency, "in_flight": in_flight, "trials": trials, **found}
                    row["cpu_ms_per_trial"] = round(found["cpu_s"] / trials * 1000, 1)
                    row["trials_per_s"] = round(trials / found["wall_s"], 2)
                    rows.append(row)
                    print(
                        f"{name:15} {latency:8.2f} {in_flight:9} {row['cpu_ms_per_trial']:15.1f} "
                        f"{row['trials_per_s']:9.2f} {row['memory_mb']:8}  {row['last_line'][:60]}",
                        flush=True,
                    )
    options.json.parent.mkdir(parents=True, exist_ok=True)
    written = {"domain": options.domain, "rows": rows, "python": platform.python_version()}
    options.json.write_text(json.dumps(written, indent=1) + "\n")
    print(f"written to {options.json}")


if __name__ == "__main__":
    main()
