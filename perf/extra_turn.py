"""What the extra turn adds to a run: requests to the agent, counted with and without it; and that rewards stay equal.

    python perf/extra_turn.py [--tasks 200] [--success 0.7] [--words 0.25]

No user is at fault here: tau2's scripted user, behind A2A as an agent would be, ends each conversation when its script
is over. The agent plays the solution and asks before each write; in some trials it says that it wrote, and did not.
``--words`` is the share of conversations whose last message has words beside the token, and so can have an extra turn:
in 1,000 missed public conversations of tau2's retail it is 0.25. Nothing is timed. Exits 1 where more than 2 % are
added, a reward differs, or a trial that succeeded has an extra turn.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Collection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "servers"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from trials import run_against
from user_agents import ScriptedUsers, Speaker, served_brain

from pytest_a2a_bench.agents.brain import Conversation, bench_task_key
from pytest_a2a_bench.agents.brains import load_gold, next_line
from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.benchmarks.tau2.player import write_tools
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import ToolCall, TrialKey, TrialResult

DOMAINS = ("retail", "airline", "mock", "telecom")
ALLOWED = 0.02
STOP = "###STOP###"


class Agent:
    """Plays the solution of a task, asks before each write, and in some tasks only claims to have written.

    :ivar asked: requests that it answered.
    """

    def __init__(self, failing: Collection[str]) -> None:
        self.asked = 0
        self._failing = failing

    def __call__(self, conversation: Conversation) -> str | ToolCall:
        """Return the next text or call."""
        self.asked += 1
        key = bench_task_key(conversation.metadata) or ""
        gold, writes = load_gold(key, Settings()), write_tools(key.split("/")[1])
        if key in self._failing:
            gold = dataclasses.replace(
                gold, calls=tuple(c for c in gold.calls if c.name not in writes), where_offered=()
            )
        said = next_line(gold, conversation)
        if not said.calls:
            return said.text or ""
        [call] = said.calls
        question = f"I will {call.name.replace('_', ' ')}: {json.dumps(call.arguments)}. Do you want me to proceed?"
        if call.name in writes and question not in [own.text for own in conversation.own]:
            return question
        return call


def hold(
    keys: list[TrialKey], failing: Collection[str], talkative: Collection[str], *, extra: bool
) -> tuple[int, list[TrialResult]]:
    """Run the trials once; return the requests that the agent got, and the results."""
    agent, script = Agent(failing), ScriptedUsers()

    def user(conversation: Conversation) -> str | ToolCall:
        said = script(conversation)
        return (
            f"Thank you, goodbye. {STOP}"
            if said == STOP and bench_task_key(conversation.metadata) in talkative
            else said
        )

    with (
        tempfile.TemporaryDirectory() as folder,
        served_brain(Speaker(user)) as them,
        served_brain(Speaker(agent)) as us,
    ):
        settings = Settings(user=f"a2a:{them}", tag_trials=True, extra_turn=extra)
        results = run_against(us, settings, keys, Path(folder))
    return agent.asked, results


def main() -> int:
    """Run both, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--success", type=float, default=0.7)
    parser.add_argument("--words", type=float, default=0.25)
    chosen = parser.parse_args()
    keys = [task.key() for domain in DOMAINS for task in index.load_tasks(domain)][: chosen.tasks]
    writing = [
        k.task_key
        for k in keys
        if any(c.name in write_tools(k.domain) for c in load_gold(k.task_key, Settings()).calls)
    ]
    failing = set(writing[:: max(1, round(len(writing) / (len(keys) * (1 - chosen.success))))])
    talkative = {
        key.task_key for place, key in enumerate(keys) if int(place * chosen.words) < int((place + 1) * chosen.words)
    }
    (before, off), (after, on) = (hold(keys, failing, talkative, extra=extra) for extra in (False, True))
    taken = Counter(r.extra_turn.verdict for r in on if r.extra_turn is not None)
    beyond = sum(r.extra_turn is not None and r.success for r in on)
    differing = sum(json.dumps(a.reward_info and dataclasses.asdict(a.reward_info), sort_keys=True, default=str)
                    != json.dumps(b.reward_info and dataclasses.asdict(b.reward_info), sort_keys=True, default=str)
                    for a, b in zip(off, on, strict=True))  # fmt: skip
    added = (after - before) / before
    evaluated = sum(result.status == "evaluated" for result in on)
    print(f"conversations {len(on)}, evaluated {evaluated}, succeeded {sum(result.success for result in on)}")
    print(f"requests {before} without, {after} with: {added:+.2%}; {before / len(on):.1f} in a conversation")
    print(f"extra turns {dict(taken)}, of trials that succeeded {beyond}; rewards that differ {differing}")
    return int(added > ALLOWED or bool(beyond) or bool(differing))


if __name__ == "__main__":
    sys.exit(main())
