"""Runs made of stored results: the parts of one run joined, or stored conversations evaluated again."""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.model import REWARD_TOLERANCE, Reward, TrialResult
from pytest_a2a_bench.results import lock, manifest
from pytest_a2a_bench.results.baseline import measured_by
from pytest_a2a_bench.results.manifest import WITHOUT_EFFECT, Manifest, SelectedResults, where
from pytest_a2a_bench.results.stats import count, domain_name
from pytest_a2a_bench.results.store import Store, StoreError, shown
from pytest_a2a_bench.text import counted, listed

_SHOWN = 10


class MergeError(A2ABenchError):
    """The directories are not the parts of one run."""


@dataclass(frozen=True, slots=True)
class Part:
    """One results directory."""

    directory: Path
    manifest: Manifest

    @property
    def name(self) -> str:
        """How messages call it."""
        shard = f" (shard {self.manifest.shard})" if self.manifest.shard else ""
        return f"{self.directory}{shard}"


def merge(directories: Sequence[Path], output: Path, places: Mapping[str, str] | None = None) -> SelectedResults:
    """Join results directories into a new one.

    :param places: settings that only say where data are, and how each is spelt: they may differ where results tell
        that the data do not.
    :return: the whole, as it is read from there.
    :raises MergeError: with everything that is missing, doubled or different; nothing is written then.
    :raises StoreError: if a directory cannot be read, or the new one cannot be written.
    """
    parts = [Part(directory, manifest.load(directory)) for directory in directories]
    loaded, absent = _collect(parts)
    # Where results do not tell of which data they are, there is only what the run was asked for.
    alike = frozenset(places or ()) if all(_tell_their_data(results) for _, results in loaded) else frozenset()
    problems = [*_different(parts, alike), *_doubled(parts), *_not_selected(parts), *absent]
    problems += _other_data(loaded, places or {})
    if problems:
        raise MergeError(f"not merged: {'; '.join(problems)}")
    # After the problems, so that no directory is emptied for a merge that fails.
    check_output(output)
    _check_place(output, directories)
    whole = _whole(parts)
    with lock.locked(output, "a2a-bench merge"):
        store = Store(output)
        store.prepare()
        # Under one run id, without which the reader of a directory would take most of them for leftovers.
        # Not synced: after a crash of the machine the parts are still there.
        merged = tuple(
            store.write(dataclasses.replace(result, run_id=whole.run_id), sync=False)
            for _, results in loaded
            for result in results
        )
        # Last: a directory without it is not taken for a run's results.
        whole.write(output)
    return SelectedResults(whole, merged)


def check_output(output: Path) -> None:
    """Refuse a directory for the whole that has something in it; raises StoreError if so."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise StoreError(f"{shown(str(output)) or output} is there and is not empty; name a new directory")


def _check_place(output: Path, directories: Sequence[Path]) -> None:
    # Inside of a part it would become a part of that part.
    if any(output.resolve().is_relative_to(directory.resolve()) for directory in directories):
        raise StoreError(f"{output} is inside a directory that is to be merged; name another")


def _whole(parts: Sequence[Part]) -> Manifest:
    first = parts[0].manifest
    runs = tuple(sorted({run for part in parts for run in (part.manifest.merged or (part.manifest.run_id,))}))
    # Each knows its own tasks'.
    categories = {task: name for part in parts for task, name in part.manifest.categories.items()}
    return dataclasses.replace(
        first, run_id=f"merged-{runs[0]}", keys=first.whole, shard=None, merged=runs, categories=categories
    )


def _different(parts: Sequence[Part], alike: frozenset[str]) -> Iterator[str]:
    """Yield the conditions in which the parts differ: results of different questions do not make one answer.

    :param alike: settings that may differ beside those without effect.
    """
    first, *others = parts
    every = set(first.manifest.whole)
    for other in others:
        if _place(first.manifest.endpoint) != _place(other.manifest.endpoint):
            here, there = first.manifest.endpoint, other.manifest.endpoint
            yield f"endpoint differs: {here!r} in {first.name}, {there!r} in {other.name}"
        if first.manifest.agent != other.manifest.agent:
            here, there = first.manifest.agent, other.manifest.agent
            yield f"agent differs: {here!r} in {first.name}, {there!r} in {other.name}"
        for name, (here, there) in _different_settings(first.manifest.settings, other.manifest.settings, alike):
            yield f"{name} differs: {here!r} in {first.name}, {there!r} in {other.name}"
        if unlike := sorted(every ^ set(other.manifest.whole)):
            shown = listed(unlike, _SHOWN)
            yield f"{first.name} and {other.name} are parts of different selections; in one only: {shown}"


def _place(endpoint: str) -> str:
    """Return an endpoint in one form; on the loopback interface each machine has an agent of its own, at any port."""
    host = urlsplit(endpoint).hostname or ""
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return "loopback"
    return "loopback" if host == "localhost" else where(endpoint)


def _different_settings(
    a: Mapping[str, Any], b: Mapping[str, Any], alike: frozenset[str]
) -> Iterator[tuple[str, tuple[Any, Any]]]:
    # What has no effect on results may differ: shards of one run have directories of their own.
    for name in sorted({*a, *b} - WITHOUT_EFFECT - alike):
        if a.get(name) != b.get(name):
            yield name, (a.get(name), b.get(name))


def _doubled(parts: Sequence[Part]) -> Iterator[str]:
    places: dict[str, list[str]] = defaultdict(list)
    for part in parts:
        for key in part.manifest.keys:
            places[key].append(part.name)
    # By the directories that share them: two equal shards would otherwise be listed trial by trial.
    by_places: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for key, names in places.items():
        if len(names) > 1:
            by_places[tuple(names)].append(key)
    for several, keys in by_places.items():
        where = f"in several directories, {' and '.join(several)}"
        yield f"{count(len(keys), 'trial')} {_are(keys)} {where}: {listed(keys, _SHOWN)}"


def _not_selected(parts: Sequence[Part]) -> Iterator[str]:
    there = {key for part in parts for key in part.manifest.keys}
    missing = [key for key in parts[0].manifest.whole if key not in there]
    if missing:
        shards = ", ".join(part.manifest.shard or "the whole" for part in parts)
        trials = f"{count(len(missing), 'trial')} {_are(missing)}"
        yield f"{trials} in none of the directories (shards given: {shards}): {listed(missing, _SHOWN)}"


_DATA = ("benchmark", "source")
"""Conditions that identify the data of results."""


def _tell_their_data(results: Sequence[TrialResult]) -> bool:
    measured = measured_by(results)
    return all(measured.get(domain_name(r.key), {}).get("benchmark") for r in results)


def _other_data(loaded: Sequence[tuple[Part, list[TrialResult]]], places: Mapping[str, str]) -> Iterator[str]:
    """Yield where parts were measured on other data: the option may be the same and the files others."""
    asked = [part.manifest.settings for part, _ in loaded]
    unlike = {name: cli for name, cli in places.items() if any(s.get(name) != asked[0].get(name) for s in asked)}
    (first, here), *others = [(_with_places(part, unlike), measured_by(results)) for part, results in loaded]
    for other, there in others:
        for domain in sorted(set(here) & set(there)):
            before, after = (
                [" and ".join(measured[domain].get(name, ())) for name in _DATA] for measured in (here, there)
            )
            if before != after:
                names = [", ".join(filter(None, dict.fromkeys(data))) or "unknown" for data in (before, after)]
                yield f"{domain} is {names[0]} in {first}, and {names[1]} in {other}"


def _with_places(part: Part, places: Mapping[str, str]) -> str:
    """Return a part's name, with where its data were."""
    given = [f"{cli} {part.manifest.settings.get(name)}" for name, cli in places.items()]
    return part.name + (f" ({', '.join(given)})" if given else "")


def _collect(parts: Sequence[Part]) -> tuple[list[tuple[Part, list[TrialResult]]], list[str]]:
    found: list[tuple[Part, list[TrialResult]]] = []
    problems: list[str] = []
    for part in parts:
        own = manifest.read_own(part.manifest, part.directory)
        found.append((part, list(own.results)))
        problems += own.unreadable
        if absent := [key for key, why in own.absent.items() if why == manifest.NO_RESULT]:
            problems.append(
                f"{part.name} has no result of its run for {count(len(absent), 'trial')}: {listed(absent, _SHOWN)}"
            )
    return found, problems


def _are(keys: Sequence[str]) -> str:
    return "is" if len(keys) == 1 else "are"


# --- stored conversations evaluated again ---


Evaluate = Callable[[TrialResult], "tuple[Reward, Mapping[str, Any]]"]
"""Evaluates a stored conversation; returns the reward, and the evaluator as members of ``provenance``."""


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
        """Describe the differences, one line each."""
        if self.problem is not None:
            yield f"{self.result.key}: not evaluated again: {self.problem}"
        elif self.changed:
            before = "none" if self.before is None else f"{self.before:g}"
            yield f"{self.result.key}: reward {before} -> {self.result.reward:g}"


def rescore(selected: SelectedResults, evaluate: Evaluate, when: str) -> list[Rescored]:
    """Evaluate every stored conversation again; those without one are returned as they were.

    :param when: ISO 8601 time that is written into the results' provenance.
    """
    return [_rescore(result, evaluate, when) for result in counted(selected.results, "conversations")]


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


def write_rescored(selected: SelectedResults, rescored: list[Rescored], output: Path, run_id: str) -> None:
    """Write the results as a run of its own.

    :raises StoreError: if the directory is not empty (unless it is the one that they come from), or not writable.
    """
    is_taken = output.exists() and (not output.is_dir() or any(output.iterdir()))
    if is_taken and not _is_theirs(selected, output):
        raise StoreError(f"{output} is there and is not empty; name a new directory")
    with lock.locked(output, "a2a-bench gate --rescore"):
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
