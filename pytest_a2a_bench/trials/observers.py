"""Observers of trials: recording, watching, tracing and token estimates, each present only where it is asked for."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_a2a_bench import cassettes, extensions, tracing
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.dialects.serialization import tools_to_text
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.language_models import price_list
from pytest_a2a_bench.model import Briefing, Event, Part, TrialKey, TrialResult, Usage, sum_usage
from pytest_a2a_bench.results.live import Growing
from pytest_a2a_bench.tracing import Tracing
from pytest_a2a_bench.trials.trial import Trial, TrialObserver

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.session import AgentSession
    from pytest_a2a_bench.benchmarks.conversation import NativeTurns
    from pytest_a2a_bench.cassettes import Tape


def asked_for(settings: Settings) -> list[TrialObserver]:
    """Return the observers that settings and extensions ask for.

    :raises ConfigurationError: if one of an extension cannot be loaded.
    """
    found: list[TrialObserver] = [Estimating(settings.agent_model)] if settings.agent_model else []
    for extension, observer in extensions.load_all("observers"):
        if not isinstance(observer, TrialObserver):
            raise ConfigurationError(f"the {extension} is no TrialObserver: {extension.reference} must be an instance")
        found.append(observer)
    return found


class Categorized(TrialObserver):
    """Adds a task's category to results that came to nothing before the benchmark named it.

    :param categories: by the task's key.
    """

    def __init__(self, categories: Mapping[str, str]) -> None:
        self._categories = categories

    def conclude(self, trial: Trial, result: TrialResult) -> TrialResult:
        """Return the result with its category."""
        category = result.category or self._categories.get(result.key.task_key, "")
        return dataclasses.replace(result, category=category)


class Taped(TrialObserver):
    """Records conversations, or replays them (``--a2a-record``, ``--a2a-replay``).

    :param tapes: makes the tape of a conversation.
    """

    def __init__(self, tapes: Callable[[TrialKey], Tape]) -> None:
        self._tapes = tapes

    @classmethod
    def of(cls, settings: Settings, secrets: Iterable[str]) -> Taped | None:
        """Return the tape that the settings ask for; None if they ask for neither recording nor replay.

        :param secrets: texts that no file may hold.
        """
        if settings.replay:
            return cls(cassettes.player(Path(settings.replay)))
        return cls(cassettes.recorder(Path(settings.record), secrets)) if settings.record else None

    def before_conversation(self, trial: Trial) -> None:
        """Put in a tape."""
        trial.tape = self._tapes(trial.key)

    def after_trial(self, trial: Trial, result: TrialResult | None) -> None:
        """Keep the recording of the conversation that was evaluated."""
        tape = trial.tape
        if result is not None and result.retry_error and trial.evaluated is not None:
            tape = trial.evaluated.tape
        # A conversation that trouble broke off cannot be replayed.
        if tape is not None and result is not None and result.status in ("evaluated", "evaluator_error"):
            tape.keep()


class Watched(TrialObserver):
    """Writes each conversation to a file while it goes on (``--a2a-live``)."""

    def __init__(self, directory: Path, run_id: str) -> None:
        self._directory = directory
        self._run_id = run_id
        self._files: dict[Trial, Growing] = {}

    def before_conversation(self, trial: Trial) -> None:
        """Begin a file; that of an earlier conversation is removed."""
        self.after_trial(trial, None)
        self._files[trial] = Growing(self._directory, trial.key, self._run_id)

    def on_turn(self, trial: Trial, briefing: Briefing, events: Sequence[Event], party: str | None = None) -> None:
        """Write the new events."""
        if growing := self._files.get(trial):
            growing.hear(briefing, events, party)

    def after_trial(self, trial: Trial, result: TrialResult | None) -> None:
        """Remove the file."""
        if growing := self._files.pop(trial, None):
            growing.end()


class Traced(TrialObserver):
    """Makes the spans of trials (``otel``)."""

    def __init__(self, tracing: Tracing, run_id: str) -> None:
        self._tracing = tracing
        self._run_id = run_id

    def before_conversation(self, trial: Trial) -> None:
        """Begin the trial's span, or note in it that the conversation is repeated."""
        if trial.retry_reason:
            trial.span.event("a2a.held_again", {"a2a.reason": trial.retry_reason})
            return
        key = trial.key
        start = {"a2a.key": str(key), "a2a.suite": key.suite, "a2a.domain": key.domain, "a2a.run_id": self._run_id}
        trial.span = self._tracing.trial(str(key), start)

    def after_trial(self, trial: Trial, result: TrialResult | None) -> None:
        """End the span with the attributes of the result."""
        span = trial.span
        if result is not None:
            span.set(tracing.trial_end(result))
            if result.status == "evaluated":
                span.event("gen_ai.evaluation.result", tracing.evaluation(result))
            elif result.status != "skipped":
                span.fail(result.error_type or result.status)
        span.end()


class Estimating(TrialObserver):
    """Estimates the tokens of an agent that reports no usage (``agent-model``).

    Tokens are those of the messages, as the model's tokenizer counts them. The prompt of the agent's model, earlier
    turns that it reads again and its reasoning are not known, so an estimate is a lower bound.

    :param model: LiteLLM's name of the agent's model.
    """

    def __init__(self, model: str) -> None:
        self._model = model

    def after_conversation(self, trial: Trial) -> None:
        """Give each request the tokens of its messages, unless the agent has reported any."""
        if trial.session is not None:
            fill_in(trial.session, self._model, trial.native)

    def conclude(self, trial: Trial, result: TrialResult) -> TrialResult:
        """Return the result with its estimate, unless the trial was not begun."""
        return estimated(result, self._model) if result.started_at else result


def fill_in(session: AgentSession, model: str, native: NativeTurns | None = None) -> None:
    """Give the requests of a conversation the tokens of their messages, unless the agent has reported any.

    :param model: LiteLLM's name of the agent's model.
    :param native: the calls that the agent made by itself: they and their results are counted with the message that
        they were made for, and the tools' descriptions, which it then has read, with the first of these.
    """
    if session.usage.tokens is not None:
        return
    prices, sent, turn = price_list(model), "", 0
    for entry in session.history:
        if entry.direction == "sent":
            sent, turn = _text(entry.parts), turn + 1
        elif entry.requests:
            last = entry.requests - 1
            read, said = _natively(native, turn)
            session.metrics[last] = dataclasses.replace(
                session.metrics[last],
                input_tokens=prices.tokens("\n".join([sent, *read])),
                output_tokens=prices.tokens("\n".join([*said, _text(entry.parts)])),
                estimated=True,
            )


def _natively(native: NativeTurns | None, turn: int) -> tuple[list[str], list[str]]:
    """Return the texts that an agent read and wrote in its own calls within a turn."""
    exchanges = native.exchanges if native is not None else []
    made = [exchange for exchange in exchanges if exchange.turn == turn]
    said = [json.dumps({"name": e.call.name, "arguments": dict(e.call.arguments)}, default=str) for e in made]
    read = [exchange.result for exchange in made]
    if native is not None and made and made[0] is exchanges[0]:
        read.insert(0, tools_to_text(native.tool_queue.tools))
    return read, said


def estimated(result: TrialResult, model: str) -> TrialResult:
    """Return a trial's result with estimates of the usage that the agent did not report."""
    prices, reported = price_list(model), result.agent_usage
    tokens = reported
    usage = Usage()
    if reported.tokens is None:
        tokens = usage = sum_usage(m.usage for m in result.metrics if m.estimated)
    if reported.cost_usd is None:
        usage = dataclasses.replace(usage, cost_usd=prices.cost(tokens))
    provenance = {**result.provenance, "agent_model": prices.words}
    return dataclasses.replace(result, estimated_usage=usage, provenance=provenance)


def _text(parts: Iterable[Part]) -> str:
    # A file is no text, and what a model makes of it is another matter.
    texts = (p.text if p.kind == "text" else json.dumps(p.data) for p in parts if p.kind in ("text", "data"))
    return "\n".join(texts)
