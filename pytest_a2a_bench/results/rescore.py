"""Stored conversations evaluated again, compared with what was found before."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.model import REWARD_TOLERANCE, Reward, TrialResult
from pytest_a2a_bench.results import lock, manifest
from pytest_a2a_bench.results.manifest import SelectedResults
from pytest_a2a_bench.results.store import Store, StoreError

Evaluate = Callable[[TrialResult], "tuple[Reward, Mapping[str, Any]]"]
"""Evaluates a stored conversation; returns the reward and what evaluated it, as members of ``provenance``."""


@dataclass(frozen=True, slots=True)
class Rescored:
    """One trial, evaluated again.

    :param result: with the new reward, or as it was where that could not be had.
    :param before: the reward that was stored; None where there was none.
    :param problem: why there is no new reward.
    """

    result: TrialResult
    before: float | None
    problem: str | None = None

    @property
    def changed(self) -> bool:
        """Whether the reward is another one now."""
        if self.problem is not None:
            return False
        return self.before is None or abs(self.result.reward - self.before) > REWARD_TOLERANCE

    def differences(self) -> Iterator[str]:
        """Say what is different, one line each."""
        if self.problem is not None:
            yield f"{self.result.key}: not evaluated again: {self.problem}"
        elif self.changed:
            before = "none" if self.before is None else f"{self.before:g}"
            yield f"{self.result.key}: reward {before} -> {self.result.reward:g}"


def rescore(selected: SelectedResults, evaluate: Evaluate, when: str) -> list[Rescored]:
    """Evaluate every stored conversation again; those without one are returned as they were.

    :param when: ISO 8601 time that is written into the results' provenance.
    """
    return [_rescore(result, evaluate, when) for result in selected.results]


def _rescore(result: TrialResult, evaluate: Evaluate, when: str) -> Rescored:
    before = result.reward_info.value if result.reward_info is not None else None
    if result.status not in ("evaluated", "evaluator_error") and result.simulation is None:
        return Rescored(result, before, f"there is no finished conversation ({result.status})")
    try:
        reward, evaluated_by = evaluate(result)
    except A2ABenchError as error:
        return Rescored(result, before, str(error))
    origin = {"reward": before, "benchmark": result.provenance.get("benchmark"), "run_id": result.run_id}
    provenance = {
        **result.provenance,
        **evaluated_by,
        "rescored": when,
        # Of several rescorings the first one's origin stays: it is what the conversation was run under.
        "rescored_from": result.provenance.get("rescored_from") or origin,
    }
    again = dataclasses.replace(
        result,
        status="evaluated",
        error=None,
        error_type=None,
        reward_info=reward,
        provenance=provenance,
        # What was asked of other data is not answered by this, whatever the reward.
        fingerprint="" if _on_other_data(result.provenance, provenance) else result.fingerprint,
        # It is why there was no success.
        user_fault=None if reward.success else result.user_fault,
        extra_turn=None if reward.success else result.extra_turn,
    )
    return Rescored(again, before)


def _on_other_data(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    return any(before.get(name) != now.get(name) for name in ("benchmark", "variant"))


def write(selected: SelectedResults, rescored: list[Rescored], output: Path, run_id: str) -> None:
    """Write the results as a run of its own.

    :raises StoreError: if the directory is not empty (unless it is the one that they come from), or not writable.
    """
    is_taken = output.exists() and (not output.is_dir() or any(output.iterdir()))
    if is_taken and not _is_theirs(selected, output):
        raise StoreError(f"{output} is there and is not empty; name a new directory")
    with lock.held(output, "a2a-bench gate --rescore"):
        if is_taken and not _is_theirs(selected, output):
            raise StoreError(f"{output} is another run's by now; rescore that one, or name a new directory")
        store = Store(output)
        store.prepare()
        for trial in rescored:
            # A reward of other evaluators does not answer the question that the fingerprint stands for.
            fingerprint = "" if trial.changed else trial.result.fingerprint
            store.write(dataclasses.replace(trial.result, run_id=run_id, fingerprint=fingerprint))
        dataclasses.replace(selected.manifest, run_id=run_id, merged=()).write(output)


def _is_theirs(selected: SelectedResults, output: Path) -> bool:
    try:
        return manifest.load(output) == selected.manifest
    except StoreError:
        return False
