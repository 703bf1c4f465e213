"""Join the results of shards into those of the whole run; refuse directories that are not the parts of one run."""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.results import lock, manifest, remote
from pytest_a2a_bench.results.baseline import domain_name, measured_by
from pytest_a2a_bench.results.fingerprint import WITHOUT_EFFECT, where
from pytest_a2a_bench.results.manifest import Manifest, SelectedResults
from pytest_a2a_bench.results.stats import count
from pytest_a2a_bench.results.store import Store, StoreError

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
    held, absent = _collect(parts)
    # Where results do not tell of which data they are, there is only what the run was asked for.
    alike = frozenset(places or ()) if all(_tell_their_data(results) for _, results in held) else frozenset()
    problems = [*_different(parts, alike), *_doubled(parts), *_not_selected(parts), *absent]
    problems += _other_data(held, places or {})
    if problems:
        raise MergeError(f"not merged: {'; '.join(problems)}")
    # After the problems, so that no directory is emptied for a merge that fails.
    check_output(output)
    _check_place(output, directories)
    whole = _whole(parts)
    with lock.held(output, "a2a-bench merge"):
        store = Store(output)
        store.prepare()
        # Under one run id, without which the reader of a directory would take most of them for leftovers.
        # Not synced: after a crash of the machine the parts are still there.
        merged = tuple(
            store.write(dataclasses.replace(result, run_id=whole.run_id), sync=False)
            for _, results in held
            for result in results
        )
        # Last: a directory without it is not taken for a run's results.
        whole.write(output)
    return SelectedResults(whole, merged)


def check_output(output: Path) -> None:
    """Refuse a directory for the whole that has something in it.

    :raises StoreError: if so.
    """
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise StoreError(f"{remote.shown(str(output)) or output} is there and is not empty; name a new directory")


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
    """Yield what the parts do not agree on: results of different questions do not make one answer.

    :param alike: settings that may differ beside those without effect.
    """
    first, *others = parts
    every = set(first.manifest.whole)
    for other in others:
        if _place(first.manifest.endpoint) != _place(other.manifest.endpoint):
            here, there = first.manifest.endpoint, other.manifest.endpoint
            yield f"endpoint differs: {here!r} in {first.name}, {there!r} in {other.name}"
        for name in ("agent", "durations"):
            # Shards that were cut by other durations are no parts of one whole.
            here, there = getattr(first.manifest, name), getattr(other.manifest, name)
            if here != there:
                yield f"{name} differs: {here!r} in {first.name}, {there!r} in {other.name}"
        for name, (here, there) in _different_settings(first.manifest.settings, other.manifest.settings, alike):
            yield f"{name} differs: {here!r} in {first.name}, {there!r} in {other.name}"
        if unlike := sorted(every ^ set(other.manifest.whole)):
            yield f"{first.name} and {other.name} are parts of different selections: {_some(unlike)} is in one only"


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
        yield f"{count(len(keys), 'trial')} {_are(keys)} in several directories, {' and '.join(several)}: {_some(keys)}"


def _not_selected(parts: Sequence[Part]) -> Iterator[str]:
    there = {key for part in parts for key in part.manifest.keys}
    missing = [key for key in parts[0].manifest.whole if key not in there]
    if missing:
        shards = ", ".join(part.manifest.shard or "the whole" for part in parts)
        trials = f"{count(len(missing), 'trial')} {_are(missing)}"
        yield f"{trials} in none of the directories (shards given: {shards}): {_some(missing)}"


_DATA = ("benchmark", "source")
"""Conditions that tell which data results are of."""


def _tell_their_data(results: Sequence[TrialResult]) -> bool:
    measured = measured_by(results)
    return all(measured.get(domain_name(r.key), {}).get("benchmark") for r in results)


def _other_data(held: Sequence[tuple[Part, list[TrialResult]]], places: Mapping[str, str]) -> Iterator[str]:
    """Yield where parts were measured on other data: the option may be the same and the files others."""
    asked = [part.manifest.settings for part, _ in held]
    unlike = {name: cli for name, cli in places.items() if any(s.get(name) != asked[0].get(name) for s in asked)}
    (first, here), *others = [(_with_places(part, unlike), measured_by(results)) for part, results in held]
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
    found, problems = [], []
    for part in parts:
        results, absent = manifest.read_own(part.manifest, part.directory)
        found.append((part, results))
        if absent:
            problems.append(f"{part.name} has no result of its run for {count(len(absent), 'trial')}: {_some(absent)}")
    return found, problems


def _are(keys: Sequence[str]) -> str:
    return "is" if len(keys) == 1 else "are"


def _some(keys: Sequence[str]) -> str:
    more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    return ", ".join(keys[:_SHOWN]) + more
