"""What a benchmark is to the floors above it, and what one trial of it is given and gives back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from pytest_a2a_bench.benchmarks.participants import Parties
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError, TrialCancelledError, TrialTimeoutError
from pytest_a2a_bench.model import DialectFinding, ExtraTurn, Reward, TrialKey, TrialResult, Turn, Usage, UserFault

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.session import AgentSession
    from pytest_a2a_bench.benchmarks.conversation import NativeTurns
    from pytest_a2a_bench.benchmarks.noise import Noise


@dataclass
class TrialContext:
    """Everything one trial may use.

    :param seed: the trial's own seed.
    :param deadline: ``time.monotonic()`` value at which the trial must have ended, or None.
    :param native: where the agent calls tools by itself (``--a2a-tools mcp``), for the benchmark's ``Conversation``.
    :param parties: further agents of the conversation.
    """

    key: TrialKey
    settings: Settings
    session: AgentSession
    seed: int
    cancel: threading.Event = field(default_factory=threading.Event)
    deadline: float | None = None
    native: NativeTurns | None = None
    parties: Parties = field(default_factory=Parties)

    @property
    def noise(self) -> Noise | None:
        """The noise of this trial (``--a2a-noise``): to say which tools only read, and what an earlier read was."""
        found: Noise | None = getattr(self.session, "noise", None)
        return found

    def checkpoint(self) -> float:
        """Return how many seconds the next turn may take.

        :raises TrialCancelledError: if the run is stopping.
        :raises TrialTimeoutError: if the trial has used up its time.
        """
        if self.cancel.is_set():
            raise TrialCancelledError(f"{self.key} was stopped before it ended, because the run is stopping")
        if self.deadline is None:
            return self.settings.timeout
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TrialTimeoutError(
                f"{self.key} took longer than --a2a-trial-timeout ({self.settings.trial_timeout:g} s)"
            )
        return min(self.settings.timeout, left)


@dataclass
class Outcome:
    """The outcome of one trial. With ``error`` set there is no reward, and the rest is what was there until then.

    :param category: what the task is about, where the benchmark has categories.
    :param user_fault: what the simulated user did wrong, where a benchmark can tell; the reward is the same with it.
    :param extra_turn: what one more turn of the agent came to; it is outside of the trial.
    :param user_facts: what else a model or an agent as the user did that no user does.
    :param blame: the party whose doing a miss was, where other agents took part; None for the agent under test.
    :param duration: seconds that the conversation took, without setting up and evaluating; None where there was none.
    :param model_calls: what the models were asked that played the user or judged.
    """

    reward: Reward | None = None
    termination_reason: str | None = None
    transcript: tuple[Turn, ...] = ()
    findings: tuple[DialectFinding, ...] = ()
    dialect: str | None = None
    splits: tuple[str, ...] = ()
    category: str = ""
    agent_usage: Usage = field(default_factory=Usage)
    user_usage: Usage = field(default_factory=Usage)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    simulation: Mapping[str, Any] | None = None
    model_calls: Mapping[str, Any] = field(default_factory=dict)
    error: Exception | None = None
    user_fault: UserFault | None = None
    extra_turn: ExtraTurn | None = None
    user_facts: tuple[UserFault, ...] = ()
    blame: str | None = None
    duration: float | None = None


class Benchmark(Protocol):
    """What runs the trials of a suite; it may import what it needs, for its suite lists the tasks without it."""

    name: str

    def data_version(self, domain: str, settings: Settings) -> str:
        """Return the name and version of a domain's data: a result of other data is not reused.

        Where tasks change one by one, an optional ``task_version(key, settings)`` says which this one is.
        """
        ...

    def run_trial(self, context: TrialContext) -> Outcome:
        """Hold the conversation of one trial and evaluate it.

        Infrastructure errors are returned in :attr:`Outcome.error` with the conversation so far.
        """
        ...


Rescore = Callable[[TrialResult, Settings], Reward]


def rescorer(benchmark: Benchmark) -> Rescore:
    """Return a benchmark's optional method ``rescore(result, settings) -> Reward``.

    It evaluates a stored conversation again, and raises ``A2ABenchError`` where that cannot be done.

    :raises ConfigurationError: if the benchmark has no such method.
    """
    found = getattr(benchmark, "rescore", None)
    if found is None:
        raise ConfigurationError(f"the benchmark {benchmark.name} cannot evaluate stored conversations")
    return cast("Rescore", found)


def evaluated_by(benchmark: Benchmark, key: TrialKey, settings: Settings) -> Mapping[str, Any]:
    """Return what a benchmark's results state of what evaluated them, as members of ``provenance``.

    ``benchmark`` is its optional ``evaluator``, or its data's version; an optional ``data_provenance(domain, task_id,
    settings)`` may know more, and is asked about trials that came to nothing, too.
    """
    more = getattr(benchmark, "data_provenance", None)
    name = str(getattr(benchmark, "evaluator", benchmark.data_version)(key.domain, settings))
    return {"benchmark": name, **(more(key.domain, key.task_id, settings) if more else {})}
