"""What a trial came to, once its conversation is over: whose trouble an exception is, and the result that is stored."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pytest_a2a_bench.benchmarks.base import Outcome
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import (
    A2ABenchError,
    CardError,
    ConfigurationError,
    EvaluatorError,
    InfrastructureError,
    PrerequisiteMissingError,
)
from pytest_a2a_bench.model import TrialResult, TrialStatus
from pytest_a2a_bench.model.parties import with_abandoned
from pytest_a2a_bench.trials import estimating
from pytest_a2a_bench.trials.attempt import Attempt
from pytest_a2a_bench.trials.native import told

TRACEBACK_LIMIT = 8_000
"""Characters of a traceback that a result keeps."""


def make_result(
    attempt: Attempt,
    outcome: Outcome,
    settings: Settings,
    *,
    run_id: str,
    seed: int,
    data: Mapping[str, Any],
    mark: str,
) -> TrialResult:
    """Return what an attempt came to.

    :param seed: of its last conversation.
    :param data: what is to be told of the benchmark's data where the outcome says nothing.
    :param mark: its fingerprint.
    """
    error, session, parties, abandoned = outcome.error, attempt.session, attempt.parties.records(), attempt.abandoned
    agent_usage, user_usage = abandoned.agent_usage + outcome.agent_usage, abandoned.user_usage + outcome.user_usage
    metrics = abandoned.metrics + (tuple(session.metrics) if session is not None else ())
    spent = with_abandoned(parties, abandoned.parties)
    in_vain = None
    if error is not None and (last := attempt.evaluated) is not None:
        in_vain, error = f"{type(error).__name__}: {describe(error)}", None
        outcome, session, seed = last.outcome, last.session, last.seed
        # What they used in all; all else of them is of the conversation that counts.
        kept = {p.name: p for p in last.parties}
        spent = tuple(replace(kept.get(p.name, p), metrics=p.metrics, usage=p.usage) for p in spent)
    result = TrialResult(
        key=attempt.key,
        status=classify(error),
        run_id=run_id,
        reward_info=outcome.reward,
        termination_reason=outcome.termination_reason,
        error=describe(error) if error is not None else None,
        error_type=type(error).__name__ if error is not None else None,
        started_at=attempt.started_at,
        duration=outcome.duration if outcome.duration is not None else time.monotonic() - attempt.began,
        transcript=outcome.transcript,
        metrics=metrics,
        turn_latencies=tuple(session.turn_seconds) if session is not None else (),
        findings=outcome.findings + (tuple(session.findings) if session is not None else ()),
        agent_usage=agent_usage,
        user_usage=user_usage,
        context_id=session.context_id if session is not None else None,
        dialect=outcome.dialect,
        splits=outcome.splits,
        category=outcome.category,
        seed=seed,
        provenance={
            **(outcome.provenance or data),
            **told(attempt.native),
            **({"replayed": True} if settings.replay else {}),
            **({"replaced": attempt.damaged} if settings.resume and attempt.damaged else {}),
            **attempt.other_data(outcome.provenance),
        },
        simulation=outcome.simulation,
        model_calls=outcome.model_calls,
        fingerprint=mark,
        held_again=abandoned.reasons,
        user_fault=outcome.user_fault,
        user_retries=abandoned.faults,
        retry_error=in_vain,
        parties=spent,
        blame=error.party if isinstance(error, A2ABenchError) else outcome.blame,
    )
    return estimating.estimated(result, settings.agent_model)


def classify(error: Exception | None) -> TrialStatus:
    """Tell whose trouble an exception is."""
    if error is None:
        return "evaluated"
    if isinstance(error, PrerequisiteMissingError):
        return "skipped"
    if isinstance(error, EvaluatorError):
        return "evaluator_error"
    if isinstance(error, InfrastructureError | CardError | ConfigurationError):
        return "infrastructure_error"
    return "harness_error"


def describe(error: Exception) -> str:
    """Return our own errors' message, or the traceback of anything else, bounded."""
    if isinstance(error, A2ABenchError):
        return str(error)
    text = "".join(traceback.format_exception(error)).strip()
    if len(text) <= TRACEBACK_LIMIT:
        return text
    # How it came about stands first, and what it is last; one message alone may be as long as what an agent sent.
    head, tail = TRACEBACK_LIMIT // 4, TRACEBACK_LIMIT - TRACEBACK_LIMIT // 4
    return f"{text[:head]}\n... {len(text) - TRACEBACK_LIMIT} characters left out ...\n{text[-tail:]}"
