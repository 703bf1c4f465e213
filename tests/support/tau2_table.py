"""Holds conversations between the test agents and the scripted user inside tau2's stock orchestrator, and evaluates.

A reward depends on what was called and said only, so equal outcomes of a task are evaluated once.
"""

import functools
import json
import random
import zlib
from typing import Any

from tau2_agents import AGENTS, GaveUp, Part, read

from pytest_a2a_bench.benchmarks.tau2 import evaluate, index, upstream
from pytest_a2a_bench.benchmarks.tau2.agent import GREETING
from pytest_a2a_bench.benchmarks.tau2.player import read_gold
from pytest_a2a_bench.benchmarks.tau2.user.script import make_script, make_scripted_user

MAX_TURNS = 100


@functools.cache
def load(domain: str) -> list[Any]:
    tau2 = upstream.load()
    return [tau2.task_class.model_validate(index.load_task_json(domain, t.task_id)) for t in index.load_tasks(domain)]


def part_of(domain: str, task: Any, agent: str, phrasings: str) -> Part:
    criteria, instructions = task.evaluation_criteria, task.user_scenario.instructions
    actions = (criteria.actions if criteria else None) or []
    steps = [(str(getattr(a.requestor, "value", a.requestor)), a.name, dict(a.arguments)) for a in actions]
    if not steps:
        # A task that only says what must hold at the end.
        derived = read_gold(index.load_task_json(domain, task.id)).where_offered
        steps = [
            ("assistant", call.name, dict(call.arguments)) for call in derived if call.name in read(phrasings).writes
        ]
    return Part(
        domain=domain,
        known=getattr(instructions, "known_info", None) or "",
        steps=steps,
        communicate=(criteria.communicate_info if criteria else None) or [],
        chance=random.Random(zlib.crc32(f"{phrasings} {agent} {task.id}".encode())),
        phrasings=read(phrasings),
    )


class Speaker:
    """Drives an agent's generator; when it is through, it says goodbye until the user goes."""

    def __init__(self, part: Part, agent: str) -> None:
        self.part, self.play, self.started, self.failure = part, AGENTS[agent](part), False, ""

    def next(self, heard: str) -> Any:
        if self.failure:
            return "I am sorry, I cannot help you."
        try:
            if not self.started:
                self.started = True
                return next(self.play)
            return self.play.send(heard)
        except StopIteration:
            return self.part.say("farewell")
        except GaveUp as error:
            self.failure = str(error)
            return "I am sorry, I cannot help you."


class Table:
    """Rewards of agents on tasks, with equal outcomes evaluated once.

    :param known: rewards of outcomes, which tables of other phrasings may share: words alone change none.
    """

    def __init__(self, phrasings: str, known: dict[tuple[str, str], float] | None = None) -> None:
        self.phrasings = phrasings
        self.tau2 = upstream.load()
        self._known = {} if known is None else known

    def run(self, domain: str, task: Any, agent: str) -> tuple[float, str]:
        """Return the reward and, where it is not 1, what went wrong as far as the agent knows."""
        speaker = Speaker(part_of(domain, task, agent, self.phrasings), agent)
        if domain != "telecom":
            outcome = self._imagine(task, speaker)
            key = (f"{domain}/{task.id}", json.dumps(outcome))
            if key not in self._known:
                fresh = Speaker(part_of(domain, task, agent, self.phrasings), agent)
                self._known[key] = self._hold(domain, task, fresh)
            return self._known[key], speaker.failure or str(outcome[-1])
        return self._hold(domain, task, speaker), speaker.failure

    def _imagine(self, task: Any, speaker: Speaker) -> list[Any]:
        """Hold the conversation without an environment, where no word depends on one."""
        script, calls, texts = make_script(task), [], []
        heard = script.hear(GREETING)
        for _ in range(MAX_TURNS):
            if heard is None:
                break
            said = speaker.next(str(heard))
            while not isinstance(said, str):
                calls.append(said)
                said = speaker.next("")
            texts.append(said)
            heard = script.hear(said)
        wanted = (task.evaluation_criteria.communicate_info if task.evaluation_criteria else None) or []
        expected = [w for w in wanted if any(w.lower() in t.lower().replace(",", "") for t in texts)]
        return [calls, expected, "ended" if heard is None else "never ended"]

    def _hold(self, domain: str, task: Any, speaker: Speaker) -> float:
        tau2 = self.tau2
        environment, kwargs = upstream.build_environment(tau2, domain, task)
        messages = tau2.messages
        count = 0

        class Agent(tau2.agent_base):  # type: ignore[misc,name-defined]
            def get_init_state(self, message_history: list[Any] | None = None) -> None:
                return None

            def generate_next_message(self, message: Any, state: None) -> tuple[Any, None]:
                nonlocal count
                said = speaker.next(message.content or "")
                if isinstance(said, str):
                    return messages.AssistantMessage(role="assistant", content=said, cost=0.0), None
                count += 1
                call = messages.ToolCall(id=f"c{count}", name=said[0], arguments=said[1], requestor="assistant")
                return messages.AssistantMessage(role="assistant", tool_calls=[call], cost=0.0), None

            def set_seed(self, seed: int) -> None:
                """Nothing is random here."""

        tools = upstream.user_tools(environment, task) or ()
        with upstream.paused_collector():
            simulation = tau2.orchestrator_class(
                domain=domain,
                agent=Agent(tools=environment.get_tools(), domain_policy=environment.get_policy()),
                user=make_scripted_user(tau2, task, [t.name for t in tools]),
                environment=environment,
                task=task,
                max_steps=4 * MAX_TURNS,
                max_errors=10,
                seed=1,
            ).run()
            self.simulation = simulation
            try:
                return float(evaluate.evaluate(tau2, domain, task, simulation, environment, kwargs).value)
            except Exception:
                # Upstream's evaluator raises on what a do-nothing agent never created: no reward.
                return 0.0
